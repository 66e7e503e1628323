//! Who is at the other end of a connection.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use http::HeaderMap;
use ipnet::IpNet;

/// The other end of a connection, as the sockets know it. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Peer {
    /// Its address; none on a Unix socket.
    pub address: Option<IpAddr>,
    /// The subject of the certificate that it showed and that `client_ca` signed, such as `CN=spark,O=Example`.
    pub certificate: Option<Arc<str>>,
    /// The listener's name.
    pub listener: Arc<str>,
    /// What it speaks.
    pub protocol: Protocol,
}

/// What a connection speaks, by ALPN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1 or HTTP/1.0.
    Http1,
    /// HTTP/2.
    Http2,
}

impl Peer {
    /// The address of the client: the peer's own, or, behind proxies in `trusted`, the rightmost address of
    /// `X-Forwarded-For` that is not itself such a proxy. What stands left of it anybody could have written.
    pub fn client_address(&self, headers: &HeaderMap, trusted: &[IpNet]) -> Option<IpAddr> {
        let mut client = self.address?.to_canonical();
        let fields: Vec<_> = headers.get_all("x-forwarded-for").iter().collect();
        let entries = fields.iter().rev().flat_map(|field| field.as_bytes().rsplit(|&byte| byte == b','));
        for entry in entries {
            if !trusted.iter().any(|network| network.contains(&client)) {
                break;
            }
            match forwarded_address(entry) {
                Some(address) => client = address,
                None => break,
            }
        }
        Some(client)
    }
}

/// An address as proxies write it: alone, in brackets, with a port.
fn forwarded_address(entry: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(entry).ok()?.trim_ascii();
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(address.to_canonical());
    }
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Some(address.ip().to_canonical());
    }
    let bare = text.strip_prefix('[')?.strip_suffix(']')?;
    bare.parse::<IpAddr>().ok().map(|address| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(address: Option<&str>) -> Peer {
        let address = address.map(|text| text.parse().unwrap());
        Peer { address, certificate: None, listener: "test".into(), protocol: Protocol::Http1 }
    }

    #[test]
    fn the_client_is_the_rightmost_address_that_is_no_trusted_proxy() {
        let rows: &[(Option<&str>, &[&'static str], Option<&str>)] = &[
            (Some("192.0.2.7"), &["203.0.113.1"], Some("192.0.2.7")),
            (Some("10.0.0.1"), &[], Some("10.0.0.1")),
            (Some("10.0.0.1"), &["203.0.113.1"], Some("203.0.113.1")),
            (Some("10.0.0.1"), &["198.51.100.9, 203.0.113.1"], Some("203.0.113.1")),
            (Some("10.0.0.1"), &["198.51.100.9, 203.0.113.1, 10.0.0.2"], Some("203.0.113.1")),
            (Some("10.0.0.1"), &["198.51.100.9", "203.0.113.1,10.0.0.2"], Some("203.0.113.1")),
            (Some("10.0.0.1"), &["10.0.0.3, 10.0.0.2"], Some("10.0.0.3")),
            (Some("10.0.0.1"), &["203.0.113.1, unknown"], Some("10.0.0.1")),
            (Some("10.0.0.1"), &["203.0.113.1, \u{fc}"], Some("10.0.0.1")),
            (Some("10.0.0.1"), &["203.0.113.1:4711"], Some("203.0.113.1")),
            (Some("10.0.0.1"), &["[2001:db8::1]:4711"], Some("2001:db8::1")),
            (Some("10.0.0.1"), &["[2001:db8::1]"], Some("2001:db8::1")),
            (Some("::ffff:10.0.0.1"), &["::ffff:203.0.113.1"], Some("203.0.113.1")),
            (None, &["203.0.113.1"], None),
        ];
        let trusted = ["10.0.0.0/8".parse().unwrap()];
        for (address, fields, expected) in rows {
            let mut headers = HeaderMap::new();
            for field in *fields {
                headers.append("x-forwarded-for", http::HeaderValue::from_bytes(field.as_bytes()).unwrap());
            }
            let expected = expected.map(|text| text.parse::<IpAddr>().unwrap());
            assert_eq!(peer(*address).client_address(&headers, &trusted), expected, "{address:?} {fields:?}");
        }
    }
}
