//! Method and path → [`Endpoint`].
//!
//! Only the few paths that clients really send are known (facts: real clients 2); every other one is refused with the
//! path to use instead. A path has one spelling: what a proxy in front or a server behind might read as another path
//! (dot segments, empty segments, `;`, percent-encoding) is refused, never cleaned.

use http::{Method, Uri};

use crate::answer::Refusal;
use crate::config::DialectName;
use crate::dialect::{Dialect, OpenmetadataRelease};
use crate::event::batch::Envelope;

/// What is posted where, but for `/`.
const ENDPOINTS: [(&str, DialectName, Payload); 9] = [
    ("/api/lineage", DialectName::Gravitino, Payload::Event),
    ("/lineage", DialectName::Gravitino, Payload::Event),
    ("/api/v1/lineage", DialectName::Openlineage, Payload::Event),
    // What the Python client makes of a URL that already has the path.
    ("/api/v1/api/v1/lineage", DialectName::Openlineage, Payload::Event),
    ("/api/v1/lineage/batch", DialectName::Openlineage, Payload::Batch(Envelope::List)),
    ("/api/v1/openlineage/lineage", DialectName::Openmetadata, Payload::Event),
    // The contract writes its paths relative to `/api`.
    ("/v1/openlineage/lineage", DialectName::Openmetadata, Payload::Event),
    ("/api/v1/openlineage/lineage/batch", DialectName::Openmetadata, Payload::Batch(Envelope::Events)),
    ("/v1/openlineage/lineage/batch", DialectName::Openmetadata, Payload::Batch(Envelope::Events)),
];

/// What a request is for, in the words of a dialect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Endpoint {
    /// The contract that the client speaks.
    pub dialect: Dialect,
    /// What its body holds.
    pub payload: Payload,
}

/// What the body of a request holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Payload {
    /// One event.
    Event,
    /// Events.
    Batch(Envelope),
}

/// The paths of a listener.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Paths {
    /// What may stand before every path, such as `/team`. It need not: some clients drop it (facts: real clients 2).
    pub prefix: Option<String>,
    /// The dialect of `/`, to which a client posts whose URL ends after the host, and of the prefix alone.
    pub default: Dialect,
    /// Whose answers OpenMetadata's clients get.
    pub openmetadata: OpenmetadataRelease,
}

/// Finds the endpoint of a request. A query string is not looked at: the Java client sends one if its URL has one.
///
/// # Errors
///
/// [`Refusal::PathSpelling`], [`Refusal::NoBatches`], [`Refusal::UnknownPath`] or [`Refusal::MethodNotAllowed`], in this
/// order. The dialect to say it in is [`dialect_of`].
pub fn route(method: &Method, uri: &Uri, paths: &Paths) -> Result<Endpoint, Refusal> {
    let path = uri.path();
    if is_misspelled(path) {
        return Err(Refusal::PathSpelling);
    }
    let Some(endpoint) = paths.known(path) else {
        return Err(paths.unknown(path));
    };
    if method != Method::POST {
        return Err(Refusal::MethodNotAllowed);
    }
    Ok(endpoint)
}

/// The dialect that the caller of a path understands, also where the path leads nowhere.
pub fn dialect_of(uri: &Uri, paths: &Paths) -> Dialect {
    paths.known(uri.path()).map_or(paths.default, |endpoint| endpoint.dialect)
}

/// Whether events are posted to that very path.
pub fn is_known(uri: &Uri, paths: &Paths) -> bool {
    paths.known(uri.path()).is_some()
}

/// All paths that the gate takes events or batches at, but for `/`, without a listener's prefix.
pub(crate) fn event_paths() -> impl Iterator<Item = &'static str> {
    ENDPOINTS.iter().map(|(path, ..)| *path)
}

impl Paths {
    fn known(&self, path: &str) -> Option<Endpoint> {
        let rest = self.prefix.as_deref().and_then(|prefix| path.strip_prefix(prefix));
        let rest = rest.map(|rest| if rest.is_empty() { "/" } else { rest }).filter(|rest| rest.starts_with('/'));
        rest.and_then(|rest| self.plain(rest)).or_else(|| self.plain(path))
    }

    fn plain(&self, path: &str) -> Option<Endpoint> {
        if path == "/" {
            return Some(Endpoint { dialect: self.default, payload: Payload::Event });
        }
        let path = path.strip_suffix('/').unwrap_or(path);
        let (_, name, payload) = ENDPOINTS.iter().find(|(known, ..)| *known == path)?;
        Some(Endpoint { dialect: Dialect::new(*name, self.openmetadata), payload: *payload })
    }

    /// Names the path that the caller of an unknown one probably means.
    fn unknown(&self, path: &str) -> Refusal {
        let path = path.to_ascii_lowercase();
        let is_batch = path.contains("batch");
        match (self.meant(&path), is_batch) {
            (Dialect::Gravitino, true) => Refusal::NoBatches { right: "/api/lineage" },
            (Dialect::Gravitino, false) => Refusal::UnknownPath { right: "/api/lineage" },
            (Dialect::Openmetadata(_), true) => Refusal::UnknownPath { right: "/api/v1/openlineage/lineage/batch" },
            (Dialect::Openmetadata(_), false) => Refusal::UnknownPath { right: "/api/v1/openlineage/lineage" },
            (Dialect::Openlineage, true) => Refusal::UnknownPath { right: "/api/v1/lineage/batch" },
            (Dialect::Openlineage, false) => Refusal::UnknownPath { right: "/api/v1/lineage" },
        }
    }

    fn meant(&self, path: &str) -> Dialect {
        // DataHub's path, whose contract is OpenLineage's.
        if path.contains("/openapi/") {
            return Dialect::Openlineage;
        }
        if path.contains("openlineage") {
            return Dialect::Openmetadata(self.openmetadata);
        }
        if path.contains("/v1/") {
            return Dialect::Openlineage;
        }
        if path.starts_with("/api/lineage") || path.starts_with("/lineage") || path.starts_with("/api/metalakes") {
            return Dialect::Gravitino;
        }
        self.default
    }
}

fn is_misspelled(path: &str) -> bool {
    let odd = |byte: u8| matches!(byte, b'%' | b';' | b'\\') || !byte.is_ascii_graphic();
    path.bytes().any(odd) || path.contains("//") || path.split('/').any(|segment| matches!(segment, "." | ".."))
}

#[cfg(test)]
mod tests;
