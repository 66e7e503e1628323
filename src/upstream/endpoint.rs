//! The backend's URL, parsed once.

use std::net::IpAddr;

use http::Uri;
use http::uri::{PathAndQuery, Scheme};

use super::http::Contract;

/// Where events go.
#[derive(Debug, Clone)]
pub(super) struct Endpoint {
    /// The whole URL that events are posted to.
    pub(super) uri: Uri,
    /// Whether it is `https`.
    pub(super) secure: bool,
    /// Host as written, without brackets.
    pub(super) host: String,
    /// Port, given or by scheme.
    pub(super) port: u16,
}

impl Endpoint {
    /// Reads `url` and appends the path of the contract. The error says what to write instead; it never repeats the URL,
    /// which may hold a password.
    pub(super) fn parse(contract: Contract, url: &str) -> Result<Self, String> {
        let uri: Uri = url.parse().map_err(|_| "`url` is no URL: write http://HOST:PORT or https://HOST".to_owned())?;
        let secure = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            Some(scheme) if *scheme == Scheme::HTTP => false,
            _ => return Err("`url` must begin with http:// or https://".to_owned()),
        };
        let authority = uri.authority().ok_or("`url` names no host")?;
        if authority.as_str().contains('@') {
            return Err("`url` must not hold a user or password: use `auth` with a file".to_owned());
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        if host.is_empty() {
            return Err("`url` names no host".to_owned());
        }
        if url.contains('#') {
            return Err("`url` must not have a fragment (`#`)".to_owned());
        }
        let bare = authority.as_str() == authority.host();
        let port = match authority.port_u16() {
            Some(port) if port != 0 => port,
            None if bare => default_port(secure),
            Some(_) | None => return Err("`url` has no valid port: 1 to 65535".to_owned()),
        };
        let path = contract_path(contract, &uri)?;
        let mut parts = uri.clone().into_parts();
        parts.path_and_query = Some(path);
        let uri = Uri::from_parts(parts).map_err(|error| format!("`url` cannot be used: {error}"))?;
        Ok(Self { uri, secure, host, port })
    }

    /// Whether the backend can only be reached from this machine.
    pub(super) fn is_loopback(&self) -> bool {
        let address = self.host.parse::<IpAddr>();
        self.host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
    }

    /// The same place with another path.
    pub(super) fn with_path(&self, path: PathAndQuery) -> Uri {
        let mut parts = self.uri.clone().into_parts();
        parts.path_and_query = Some(path);
        Uri::from_parts(parts).unwrap_or_else(|_| self.uri.clone())
    }
}

fn default_port(secure: bool) -> u16 {
    if secure { 443 } else { 80 }
}

fn contract_path(contract: Contract, uri: &Uri) -> Result<PathAndQuery, String> {
    let base = uri.path().trim_end_matches('/');
    let path = match contract {
        Contract::Openlineage if base.is_empty() && uri.query().is_some() => {
            return Err("`url` has a query but no path: write the whole path, such as /api/v1/lineage".to_owned());
        }
        Contract::Openlineage if base.is_empty() => "/api/v1/lineage".to_owned(),
        Contract::Openlineage => uri.path_and_query().map_or_else(String::new, ToString::to_string),
        Contract::Gravitino if uri.query().is_some() => {
            return Err("`url` of a Gravitino server must not have a query".to_owned());
        }
        Contract::Gravitino if base.ends_with("/api") || base.ends_with("/api/lineage") => {
            return Err(
                "`url` of a Gravitino server is its base: leave `/api` out, `/api/lineage` is appended".to_owned()
            );
        }
        Contract::Gravitino => format!("{base}/api/lineage"),
    };
    path.parse().map_err(|error| format!("`url` has a path that cannot be sent: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_the_contract_is_appended() {
        let cases = [
            (Contract::Openlineage, "http://marquez:5000", "http://marquez:5000/api/v1/lineage"),
            (Contract::Openlineage, "http://marquez:5000/", "http://marquez:5000/api/v1/lineage"),
            (Contract::Openlineage, "https://ol.example.com/v2/events/", "https://ol.example.com/v2/events/"),
            (Contract::Openlineage, "https://ol.example.com/in?key=1", "https://ol.example.com/in?key=1"),
            (Contract::Gravitino, "http://127.0.0.1:8090", "http://127.0.0.1:8090/api/lineage"),
            (Contract::Gravitino, "https://example.com/gravitino/", "https://example.com/gravitino/api/lineage"),
        ];
        for (contract, url, sent) in cases {
            assert_eq!(Endpoint::parse(contract, url).unwrap().uri.to_string(), sent);
        }
    }

    #[test]
    fn host_port_and_loopback_are_read() {
        let cases = [
            ("http://localhost:81", "localhost", 81, true),
            ("https://[::1]", "::1", 443, true),
            ("http://127.8.0.1", "127.8.0.1", 80, true),
            ("https://localhost.example.com:8443", "localhost.example.com", 8443, false),
            ("http://[2001:db8::1]:9", "2001:db8::1", 9, false),
        ];
        for (url, host, port, loopback) in cases {
            let endpoint = Endpoint::parse(Contract::Openlineage, url).unwrap();
            assert_eq!(
                (endpoint.host.as_str(), endpoint.port, endpoint.is_loopback()),
                (host, port, loopback),
                "{url}"
            );
        }
    }

    #[test]
    fn what_is_no_usable_url_is_refused_without_being_repeated() {
        let cases = [
            (Contract::Openlineage, "marquez:5000", "http"),
            (Contract::Openlineage, "/api/v1/lineage", "http"),
            (Contract::Openlineage, "ftp://h", "http://"),
            (Contract::Openlineage, "http://me:secret@h/", "password"),
            (Contract::Openlineage, "http://h/#secret", "fragment"),
            (Contract::Openlineage, "http://h:99999/", "port"),
            (Contract::Openlineage, "http://h:/", "port"),
            (Contract::Openlineage, "http://h?secret=1", "query"),
            (Contract::Openlineage, "http://h h/", "URL"),
            (Contract::Gravitino, "http://h/api", "leave"),
            (Contract::Gravitino, "http://h/api/lineage/", "leave"),
            (Contract::Gravitino, "http://h/?secret=1", "query"),
        ];
        for (contract, url, word) in cases {
            let fault = Endpoint::parse(contract, url).unwrap_err();
            assert!(fault.contains(word), "{url}: {fault}");
            assert!(!fault.contains("secret"), "{url}: {fault}");
        }
    }
}
