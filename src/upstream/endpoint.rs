//! The backend's URL, parsed once.

use std::net::IpAddr;

use http::Uri;
use http::uri::{PathAndQuery, Scheme};

use super::contract::Contract;

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

    /// Whether what is sent there can be read on its way.
    pub(super) fn is_readable(&self) -> bool {
        !self.secure && !self.is_loopback()
    }

    /// Where batches go: beside a path that ends in `/lineage`, as the specification has it. Other paths have none.
    pub(super) fn batch_uri(&self) -> Option<Uri> {
        let path = self.uri.path().trim_end_matches('/');
        if !path.ends_with("/lineage") {
            return None;
        }
        let query = self.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
        Some(self.with_path(format!("{path}/batch{query}").parse().ok()?))
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
        Contract::Openlineage if base.is_empty() => contract.path().to_owned(),
        Contract::Openlineage => uri.path_and_query().map_or_else(String::new, ToString::to_string),
        Contract::Gravitino | Contract::Marquez | Contract::Openmetadata | Contract::Datahub | Contract::Polaris => {
            based(contract, base, uri)?
        }
    };
    path.parse().map_err(|error| format!("`url` has a path that cannot be sent: {error}"))
}

/// The path of a kind behind a base, which holds no part of that path: a doubled one leads nowhere, or to web pages.
fn based(contract: Contract, base: &str, uri: &Uri) -> Result<String, String> {
    let (title, path) = (contract.title(), contract.path());
    if uri.query().is_some() {
        return Err(format!("`url` of {title} must not have a query"));
    }
    let ends = path.match_indices('/').skip(1).map(|(at, _)| at).chain([path.len()]);
    let begun = ends.filter_map(|end| path.get(..end)).filter(|begin| base.ends_with(begin)).last();
    if let Some(begun) = begun {
        return Err(format!("`url` of {title} is its base: leave `{begun}` out, `{path}` is appended"));
    }
    Ok(format!("{base}{path}"))
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
            (Contract::Marquez, "http://marquez:5000/", "http://marquez:5000/api/v1/lineage"),
            (Contract::Openmetadata, "https://om.example.com", "https://om.example.com/api/v1/openlineage/lineage"),
            (Contract::Openmetadata, "https://h/om/", "https://h/om/api/v1/openlineage/lineage"),
            (Contract::Datahub, "http://gms:8080", "http://gms:8080/openapi/openlineage/api/v1/lineage"),
            (Contract::Polaris, "http://polaris:8181", "http://polaris:8181/api/openlineage/v1/lineage"),
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
            (Contract::Marquez, "http://h/api/v1/lineage", "leave `/api/v1/lineage` out"),
            (Contract::Marquez, "http://h/api/v1/", "leave `/api/v1` out"),
            (Contract::Openmetadata, "http://h/api", "leave `/api` out"),
            (Contract::Datahub, "http://h/openapi", "leave `/openapi` out"),
            (Contract::Polaris, "http://h/api/openlineage?secret=1", "query"),
        ];
        for (contract, url, word) in cases {
            let fault = Endpoint::parse(contract, url).unwrap_err();
            assert!(fault.contains(word), "{url}: {fault}");
            assert!(!fault.contains("secret"), "{url}: {fault}");
        }
    }

    #[test]
    fn batches_go_beside_a_path_that_ends_in_lineage() {
        let cases = [
            (Contract::Openlineage, "http://h", Some("http://h/api/v1/lineage/batch")),
            (Contract::Openlineage, "https://h/x/lineage/?key=1", Some("https://h/x/lineage/batch?key=1")),
            (Contract::Openlineage, "https://h/in", None),
            (Contract::Openmetadata, "http://h", Some("http://h/api/v1/openlineage/lineage/batch")),
            (Contract::Datahub, "http://h", Some("http://h/openapi/openlineage/api/v1/lineage/batch")),
            (Contract::Polaris, "http://h", Some("http://h/api/openlineage/v1/lineage/batch")),
        ];
        for (contract, url, expected) in cases {
            let batch = Endpoint::parse(contract, url).unwrap().batch_uri().map(|uri| uri.to_string());
            assert_eq!(batch.as_deref(), expected, "{url}");
        }
    }
}
