//! [`Refusal`](crate::answer::Refusal) or [`Outcome`](crate::answer::Outcome) → response, one file a dialect.
//!
//! The table is that of facts/backends.md 2.3. Dialects know nothing of upstreams.

use bytes::Bytes;
use http::{HeaderMap, StatusCode};

pub use crate::config::DialectName as Dialect;

/// What a client is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// A few words for the HTTP/1.1 status line of a 4xx or 5xx: all that the Python client shows a person.
    pub reason: Option<&'static str>,
    /// Headers of the answer's meaning: `Content-Type`, `Retry-After`, `WWW-Authenticate`, `Allow`, ...
    pub headers: HeaderMap,
    /// The body, or nothing.
    pub body: Bytes,
    /// Whether the connection cannot be used again.
    pub close: bool,
}
