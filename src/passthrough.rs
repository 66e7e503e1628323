//! The rest of a catalog's API, beside the path of events: authenticated and limited, passed on and answered as it is.
//!
//! Bodies stream both ways and are not looked at. Headers of one hop only stop here (RFC 9110 section 7.6.1), and so do
//! those by which the gate tells a backend who called. What a server behind could read as a path of lineage is never
//! passed on.

use std::sync::Arc;
use std::time::Duration;

use http::header::{
    AUTHORIZATION, CONNECTION, EXPECT, HOST, HeaderName, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER,
    TRANSFER_ENCODING, UPGRADE,
};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, Version};
use http_body_util::BodyExt;

use crate::answer::Outcome;
use crate::listen::Reply;
use crate::upstream::{self, Relay};
use crate::{config, event};

use self::paced::Paced;
pub use self::upload::{Progress, Upload};

mod paced;
mod spelling;
mod upload;

/// Headers of one hop, those that `Connection` names aside.
const HOP_BY_HOP: [HeaderName; 9] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// The headers by which the gate names callers to a backend begin with this.
const IDENTITY: &str = "x-lineage-";

/// What one listener passes on.
pub struct Passthrough {
    relay: Relay,
    name: Arc<str>,
    paths: Vec<String>,
    methods: Vec<Method>,
    /// Where the lineage backend takes events, whatever its kind.
    events: Option<String>,
    timeout: Duration,
}

/// What becomes of a request that is none for an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// It is passed on.
    Through,
    /// Some server could read its path as one of lineage.
    Misspelled,
    /// It is not passed on.
    No,
}

/// Why a request that was passed on has no answer.
#[derive(Debug)]
pub enum Unanswered {
    /// Its body did not come.
    Client(event::Error),
    /// What became of it at the catalog.
    Catalog(Outcome),
}

/// What is wrong with the configuration: keys below `passthrough`, and why.
pub fn check(config: &config::Passthrough, upstream: Option<&config::Upstream>) -> Vec<(&'static str, String)> {
    let mut faults = Vec::new();
    if config.paths.is_empty() {
        faults.push(("paths", "names no path; leave `passthrough` out, or write /api/**".to_owned()));
    }
    for path in config.paths.iter().filter(|path| !path.starts_with('/')) {
        faults.push(("paths", format!("`{path}` begins with no slash, and no path would match")));
    }
    if config.methods.is_empty() {
        faults.push(("methods", "names no method, and nothing would pass; leave it out, or write [GET]".to_owned()));
    }
    faults.extend(config.methods.iter().filter_map(|method| method_fault(method)).map(|fault| ("methods", fault)));
    match (&config.url, upstream) {
        (Some(url), _) => faults.extend(upstream::check_base(url).map(|fault| ("url", fault))),
        (None, Some(upstream)) if upstream.kind == config::UpstreamKind::Gravitino => {
            let fault = upstream.url.as_deref().and_then(upstream::check_base);
            faults.extend(fault.map(|fault| ("url", format!("is that of upstream `{}`: {fault}", upstream.name))));
        }
        (None, _) => faults.push(("url", "is missing; only a `gravitino` backend's own is taken without".to_owned())),
    }
    faults
}

impl Passthrough {
    /// Reads the files that the way there needs: those of the lineage backend.
    ///
    /// # Errors
    /// A URL or a file that cannot be used.
    pub fn new(config: &config::Passthrough, upstream: &config::Upstream) -> Result<Self, upstream::Error> {
        Ok(Self {
            relay: Relay::new(upstream, config.url.as_deref())?,
            name: "passthrough".into(),
            paths: config.paths.clone(),
            methods: config.methods.iter().filter_map(|method| parse_method(method)).collect(),
            events: upstream::event_path(upstream),
            timeout: config.timeout.0,
        })
    }

    /// The name in audit records.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Whether a request is passed on, whose path is none of those that events are posted to. `prefix` is what the
    /// listener takes before those too.
    pub fn way(&self, method: &Method, path: &str, prefix: Option<&str>) -> Way {
        let behind = format!("{}{path}", self.relay.prefix());
        let (Some(readings), Some(behind)) = (spelling::readings(path), spelling::readings(&behind)) else {
            return Way::Misspelled;
        };
        let is_lineage = |reading: &Vec<u8>| {
            let bare = prefix.and_then(|prefix| spelling::after(reading, prefix));
            spelling::is_lineage(reading) || bare.is_some_and(spelling::is_lineage) || self.is_for_events(reading)
        };
        if readings.iter().chain(&behind).any(is_lineage) {
            return Way::Misspelled;
        }
        let is_listed = |reading: &Vec<u8>| self.paths.iter().any(|path| spelling::matches(path.as_bytes(), reading));
        // Each reading, or else dots would lead out of what is listed.
        if self.methods.contains(method) && readings.iter().all(is_listed) { Way::Through } else { Way::No }
    }

    /// Whether the lineage backend itself would take it as an event or a batch.
    fn is_for_events(&self, reading: &[u8]) -> bool {
        let below = self.events.as_deref().and_then(|events| spelling::after(reading, events));
        below.is_some()
    }

    /// Passes a request on, with the caller's own token.
    ///
    /// # Errors
    /// There is no answer.
    pub async fn pass(&self, head: Parts, body: Upload, request_id: &str) -> Result<Response<Reply>, Unanswered> {
        let place = self.relay.place(&head.uri);
        let place = place.ok_or_else(|| Unanswered::Catalog(Outcome::BadGateway("its path cannot be sent".into())))?;
        let progress = body.progress();
        let mut request = Request::new(body.boxed_unsync());
        *request.method_mut() = head.method;
        *request.uri_mut() = place;
        *request.version_mut() = Version::HTTP_11;
        *request.headers_mut() = head.headers;
        let headers = request.headers_mut();
        strip(headers);
        headers.remove(EXPECT);
        headers.remove(HOST);
        if let Some(host) = self.relay.authority().and_then(|host| HeaderValue::from_str(host.as_str()).ok()) {
            headers.insert(HOST, host);
        }
        if let Ok(id) = HeaderValue::from_str(request_id) {
            headers.insert("x-request-id", id);
        }
        let answer = self.relay.pass(request, progress.clone().late(self.timeout)).await;
        let blame = |outcome| progress.fault().map_or(Unanswered::Catalog(outcome), Unanswered::Client);
        let answer = answer.map_err(blame)?;
        let (mut head, body) = answer.into_parts();
        strip(&mut head.headers);
        let mut response = Response::new(Reply::Stream(Paced::new(body, self.timeout).boxed_unsync()));
        (*response.status_mut(), *response.headers_mut()) = (head.status, head.headers);
        Ok(response)
    }
}

/// What is wrong with a method of the configuration, if anything.
fn method_fault(method: &str) -> Option<String> {
    let upper = method.to_ascii_uppercase();
    match parse_method(&upper) {
        None => Some(format!("`{method}` is no method that can be passed on")),
        // RFC 9110 section 9.1: methods are compared with their letter case.
        Some(_) => (upper != method).then(|| format!("`{method}` would match no request: write {upper}")),
    }
}

/// `None` also for CONNECT: there are no tunnels here.
fn parse_method(method: &str) -> Option<Method> {
    let method = method.parse::<Method>().ok()?;
    (method != Method::CONNECT).then_some(method)
}

/// Takes out what is for one hop only, and what names callers. A server that makes variables of headers reads `_` as `-`.
fn strip(headers: &mut HeaderMap) {
    let named =
        headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
    let named = named.filter_map(|name| name.trim().parse().ok());
    // Without these the catalog would judge another caller than the gate did, or one with more roles.
    let named: Vec<HeaderName> =
        named.filter(|name| name != AUTHORIZATION && *name != crate::policy::ACTIVE_ROLES).collect();
    let identity = headers.keys().filter(|name| name.as_str().replace('_', "-").starts_with(IDENTITY)).cloned();
    let identity: Vec<HeaderName> = identity.collect();
    for name in named.iter().chain(&identity).chain(&HOP_BY_HOP) {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_of_the_configuration_says_what_to_write() {
        for (settings, expected) in [
            (r#"{ "paths": [], "url": "http://127.0.0.1:1" }"#, "paths: names no path"),
            (r#"{ "paths": ["api"], "url": "http://127.0.0.1:1" }"#, "paths: `api` begins with no slash"),
            (r#"{ "paths": ["/api"], "url": "http://127.0.0.1:1", "methods": [] }"#, "write [GET]"),
            (
                r#"{ "paths": ["/api"], "url": "http://127.0.0.1:1", "methods": ["get"] }"#,
                "methods: `get` would match no request: write GET",
            ),
            (
                r#"{ "paths": ["/api"], "url": "http://127.0.0.1:1", "methods": ["connect"] }"#,
                "methods: `connect` is no method",
            ),
            (
                r#"{ "paths": ["/api"], "url": "http://127.0.0.1:1", "methods": ["A B"] }"#,
                "methods: `A B` is no method",
            ),
            (r#"{ "paths": ["/api"], "url": "ftp://127.0.0.1:1" }"#, "url: `url` must begin"),
            (r#"{ "paths": ["/api"] }"#, "url: is missing"),
        ] {
            let faults = check(&serde_json::from_str(settings).unwrap(), None);
            let [(key, message)] = &faults[..] else { panic!("{settings}: {faults:?}") };
            assert!(format!("{key}: {message}").contains(expected), "{settings}: {key}: {message}");
        }
    }

    #[test]
    fn no_token_is_sent_readable_over_the_network() {
        let faults = |settings: &str, backend: &str| {
            let upstream = format!(r#"{{ "name": "lake", "kind": "gravitino", "url": "{backend}" }}"#);
            let upstream: config::Upstream = serde_json::from_str(&upstream).unwrap();
            check(&serde_json::from_str(settings).unwrap(), Some(&upstream))
        };
        for sound in ["http://localhost:8090", "http://[::1]:8090", "https://lake.example.com"] {
            assert_eq!(faults(r#"{ "paths": ["/api/**"] }"#, sound), [], "{sound}");
            let own = format!(r#"{{ "paths": ["/api/**"], "url": "{sound}" }}"#);
            assert_eq!(faults(&own, "http://lake:8090"), [], "{sound}");
        }
        let own = faults(r#"{ "paths": ["/api/**"], "url": "http://lake:8090" }"#, "http://127.0.0.1:8090");
        let backends = faults(r#"{ "paths": ["/api/**"] }"#, "http://lake:8090");
        for found in [own, backends] {
            assert!(matches!(&found[..], [("url", fault)] if fault.contains("readable")), "{found:?}");
        }
    }

    #[test]
    fn headers_of_one_hop_and_names_of_callers_stop_here() {
        let mut headers = HeaderMap::new();
        let stopped = [
            "connection",
            "keep-alive",
            "proxy-connection",
            "proxy-authorization",
            "te",
            "trailer",
            "transfer-encoding",
            "upgrade",
            "x-own",
            "x-lineage-caller",
            "x_lineage_groups",
        ];
        for name in stopped {
            headers.insert(name, HeaderValue::from_static("x-own, close"));
        }
        for name in ["authorization", "x-gravitino-active-roles", "content-length", "accept"] {
            headers.insert(name, HeaderValue::from_static("1"));
        }
        strip(&mut headers);
        let mut left: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["accept", "authorization", "content-length", "x-gravitino-active-roles"]);
    }

    #[test]
    fn only_what_is_listed_passes_and_never_a_lineage_path() {
        let upstream: config::Upstream = serde_json::from_value(
            serde_json::json!({ "name": "g", "kind": "gravitino", "url": "http://127.0.0.1:1" }),
        )
        .unwrap();
        let settings = |url: &str| {
            serde_json::from_value(serde_json::json!({ "paths": ["/api/**"], "methods": ["GET", "POST"], "url": url }))
                .unwrap()
        };
        let through = Passthrough::new(&settings("http://127.0.0.1:1/base"), &upstream).unwrap();
        for (method, path, way) in [
            (Method::GET, "/api/metalakes", Way::Through),
            (Method::POST, "/api/metalakes/a%20b", Way::Through),
            (Method::DELETE, "/api/metalakes", Way::No),
            (Method::GET, "/metrics", Way::No),
            (Method::GET, "/api/../metrics", Way::No),
            (Method::GET, "/api/%2e%2e/metrics", Way::No),
            (Method::POST, "/api/Lineage", Way::Misspelled),
            (Method::POST, "/api/x/../lineage", Way::Misspelled),
            (Method::GET, "/api/%6cineage", Way::Misspelled),
            (Method::POST, "/../api/x/../lineage", Way::Misspelled),
        ] {
            assert_eq!(through.way(&method, path, None), way, "{method} {path}");
        }
        let below = Passthrough::new(&settings("http://127.0.0.1:1/x"), &upstream).unwrap();
        assert_eq!(below.way(&Method::POST, "/api/../../api/lineage", None), Way::Misspelled);
    }
}
