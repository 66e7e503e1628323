//! Method and path → [`Endpoint`].
//!
//! Only the few paths that clients really send are known (facts: real clients 2); every other one is refused with the
//! path to use instead. A path has one spelling: what a proxy in front or a server behind might read as another path
//! (dot segments, empty segments, `;`, percent-encoding) is refused, never cleaned.

use http::{Method, Uri};

use crate::answer::Refusal;
use crate::dialect::Dialect;

/// What a request is for: one event, in the words of a dialect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Endpoint {
    /// The contract that the client speaks.
    pub dialect: Dialect,
}

/// Finds the endpoint of a request. A query string is not looked at: the Java client sends one if its URL has one.
///
/// `default` is the dialect of `/`, to which a client posts whose URL ends after the host.
///
/// # Errors
///
/// [`Refusal::PathSpelling`], [`Refusal::NoBatches`], [`Refusal::UnknownPath`] or [`Refusal::MethodNotAllowed`], in this
/// order. The dialect to say it in is [`dialect_of`].
pub fn route(method: &Method, uri: &Uri, default: Dialect) -> Result<Endpoint, Refusal> {
    let path = uri.path();
    if is_misspelled(path) {
        return Err(Refusal::PathSpelling);
    }
    let Some(dialect) = known(path, default) else {
        let right = right_path(path, default);
        return Err(if path.to_ascii_lowercase().contains("batch") {
            Refusal::NoBatches { right }
        } else {
            Refusal::UnknownPath { right }
        });
    };
    if method != Method::POST {
        return Err(Refusal::MethodNotAllowed);
    }
    Ok(Endpoint { dialect })
}

/// The dialect that the caller of a path understands, also where the path leads nowhere.
pub fn dialect_of(uri: &Uri, default: Dialect) -> Dialect {
    known(uri.path(), default).unwrap_or(default)
}

fn known(path: &str, default: Dialect) -> Option<Dialect> {
    match path.strip_suffix('/').unwrap_or(path) {
        "" if path == "/" => Some(default),
        "/api/lineage" | "/lineage" => Some(Dialect::Gravitino),
        // The second is what the Python client makes of a URL that already has the path.
        "/api/v1/lineage" | "/api/v1/api/v1/lineage" => Some(Dialect::Openlineage),
        _ => None,
    }
}

fn is_misspelled(path: &str) -> bool {
    let odd = |byte: u8| matches!(byte, b'%' | b';' | b'\\') || !byte.is_ascii_graphic();
    path.bytes().any(odd) || path.contains("//") || path.split('/').any(|segment| matches!(segment, "." | ".."))
}

/// The path that the caller of an unknown one probably means.
fn right_path(path: &str, default: Dialect) -> &'static str {
    let path = path.to_ascii_lowercase();
    // `/api/v1/openlineage/lineage` is OpenMetadata's, `/openapi/openlineage/api/v1/lineage` DataHub's.
    if path.contains("/v1/") || path.contains("openlineage") {
        return path_of(Dialect::Openlineage);
    }
    if path.starts_with("/api/lineage") || path.starts_with("/lineage") || path.starts_with("/api/metalakes") {
        return path_of(Dialect::Gravitino);
    }
    path_of(default)
}

fn path_of(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Gravitino => "/api/lineage",
        Dialect::Openlineage => "/api/v1/lineage",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn post(path: &str, default: Dialect) -> Result<Endpoint, Refusal> {
        route(&Method::POST, &Uri::try_from(path).unwrap(), default)
    }

    #[test]
    fn paths_that_clients_really_send_lead_to_their_dialect() {
        for (path, dialect) in [
            ("/api/lineage", Dialect::Gravitino),
            ("/api/lineage/", Dialect::Gravitino),
            ("/lineage", Dialect::Gravitino),
            ("/lineage/", Dialect::Gravitino),
            ("/api/v1/lineage", Dialect::Openlineage),
            ("/api/v1/lineage/", Dialect::Openlineage),
            ("/api/v1/api/v1/lineage", Dialect::Openlineage),
            ("/api/v1/api/v1/lineage/", Dialect::Openlineage),
            ("/api/v1/lineage?tenant=a", Dialect::Openlineage),
            ("/api/lineage?a=//..;%2F", Dialect::Gravitino),
            ("http://gate.example.com/api/lineage", Dialect::Gravitino),
        ] {
            for default in [Dialect::Gravitino, Dialect::Openlineage] {
                assert_eq!(post(path, default), Ok(Endpoint { dialect }), "{path}");
                assert_eq!(dialect_of(&Uri::try_from(path).unwrap(), default), dialect, "{path}");
            }
        }
    }

    #[test]
    fn the_root_has_the_listeners_dialect() {
        for dialect in [Dialect::Gravitino, Dialect::Openlineage] {
            for path in ["/", "/?tenant=a", "http://gate.example.com", "http://gate.example.com/?a=b"] {
                assert_eq!(post(path, dialect), Ok(Endpoint { dialect }), "{path}");
            }
        }
    }

    #[test]
    fn unknown_paths_are_told_the_right_one() {
        const GRAVITINO: &str = "/api/lineage";
        const OPENLINEAGE: &str = "/api/v1/lineage";
        for (path, right) in [
            ("/team", OPENLINEAGE),
            ("/team/", OPENLINEAGE),
            ("/team/api/v1/lineage", OPENLINEAGE),
            ("/api/v1", OPENLINEAGE),
            ("/api/v2/lineage", OPENLINEAGE),
            ("/API/V1/LINEAGE", OPENLINEAGE),
            ("/api/v1/Lineage", OPENLINEAGE),
            ("/api/v1/lineages", OPENLINEAGE),
            ("/api/v1/openlineage/lineage", OPENLINEAGE),
            ("/openapi/openlineage/api/v1/lineage", OPENLINEAGE),
            ("/api/v1/namespaces/demo/jobs", OPENLINEAGE),
            ("/api/LINEAGE", GRAVITINO),
            ("/Lineage", GRAVITINO),
            ("/api/lineage/x", GRAVITINO),
            ("/api/metalakes/demo", GRAVITINO),
            ("*", OPENLINEAGE),
            ("/favicon.ico", OPENLINEAGE),
            ("/...", OPENLINEAGE),
            ("/.well-known/x", OPENLINEAGE),
        ] {
            assert_eq!(post(path, Dialect::Openlineage), Err(Refusal::UnknownPath { right }), "{path}");
            assert_eq!(dialect_of(&Uri::try_from(path).unwrap(), Dialect::Gravitino), Dialect::Gravitino, "{path}");
        }
        assert_eq!(post("/team", Dialect::Gravitino), Err(Refusal::UnknownPath { right: GRAVITINO }));
    }

    #[test]
    fn batches_are_refused_by_name() {
        for (path, right) in [
            ("/api/v1/lineage/batch", "/api/v1/lineage"),
            ("/api/v1/lineage/batch/", "/api/v1/lineage"),
            ("/api/v1/openlineage/lineage/batch", "/api/v1/lineage"),
            ("/api/v1/lineage/Batch", "/api/v1/lineage"),
            ("/api/lineage/batch", "/api/lineage"),
        ] {
            assert_eq!(post(path, Dialect::Openlineage), Err(Refusal::NoBatches { right }), "{path}");
        }
    }

    #[test]
    fn a_path_has_one_spelling() {
        for path in [
            "//api/v1/lineage",
            "/api//v1/lineage",
            "/api/v1/lineage//",
            "/./api/v1/lineage",
            "/api/v1/./lineage",
            "/api/v1/../v1/lineage",
            "/api/v1/lineage/.",
            "/api/v1/lineage/..",
            "/..",
            "/api/v1/lineage;x",
            "/api/v1;x=y/lineage",
            "/api/v1%2Flineage",
            "/api/v1%2flineage",
            "/api/v1/%2e/lineage",
            "/api/v1/%2E%2E/v1/lineage",
            "/api/v1/line%61ge",
            "/api/v1/lineage%00",
            "/api/v1/lineage%",
            "/api/v1/lineag\u{e9}",
            "/unknown/%41",
        ] {
            for method in [Method::POST, Method::GET] {
                let refused = route(&method, &Uri::try_from(path).unwrap(), Dialect::Openlineage);
                assert_eq!(refused, Err(Refusal::PathSpelling), "{path}");
            }
        }
        for path in ["/api/v1\\lineage", "/api/v1/lin\teage", "/api/v1/lineage\u{1}"] {
            assert!(is_misspelled(path), "{path}");
        }
    }

    #[test]
    fn the_right_paths_take_post_only() {
        let methods = [
            Method::GET,
            Method::HEAD,
            Method::PUT,
            Method::DELETE,
            Method::OPTIONS,
            Method::PATCH,
            Method::TRACE,
            Method::CONNECT,
            Method::from_bytes(b"post").unwrap(),
            Method::from_bytes(b"PROPFIND").unwrap(),
        ];
        for method in methods {
            for path in ["/", "/lineage", "/api/lineage", "/api/v1/lineage", "/api/v1/api/v1/lineage/"] {
                let refused = route(&method, &Uri::try_from(path).unwrap(), Dialect::Openlineage);
                assert_eq!(refused, Err(Refusal::MethodNotAllowed), "{method} {path}");
            }
            let unknown = route(&method, &Uri::from_static("/team"), Dialect::Openlineage);
            assert_eq!(unknown, Err(Refusal::UnknownPath { right: "/api/v1/lineage" }), "{method}");
        }
    }

    #[test]
    fn a_tunnel_is_no_endpoint() {
        let authority = Uri::from_static("gate.example.com:443");
        let refused = route(&Method::CONNECT, &authority, Dialect::Openlineage);
        assert_eq!(refused, Err(Refusal::UnknownPath { right: "/api/v1/lineage" }));
    }
}
