//! [`Refusal`] or [`Outcome`] → response, one file a dialect.
//!
//! `table` says in one place what each refusal and each outcome is: status, words, whether a resend helps. The file of a
//! dialect gives that its body and its headers, and says where its contract has another status. Both know nothing of
//! upstreams. The table is that of facts/backends.md 2.3:
//!
//! - 200 or 201 means that the backend took the event. Never 202, 204 or 3xx: real clients lose events on those.
//! - `Retry-After` is 1, on 429 and on a 503 that a resend cures, and stands on nothing else: clients sleep all of it in
//!   the producer's thread.
//! - What no resend cures is 501: the one 5xx that no client repeats.
//! - What may not be seen and what is not there get one answer, equal byte for byte.

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use http_body_util::Full;
use hyper::ext::ReasonPhrase;

use crate::answer::{BatchReport, Outcome, Refusal};
use crate::config::DialectName;
pub use crate::config::OpenmetadataRelease;

use self::table::Row;

mod batch;
mod gravitino;
mod openlineage;
mod openmetadata;
mod table;

/// Longest message, in bytes of the JSON that it becomes: an answer lands in the log of a Spark driver as it is.
const LONGEST_MESSAGE: usize = 900;

/// The contract that a client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// Apache Gravitino.
    Gravitino,
    /// OpenMetadata, with the answers of a release.
    Openmetadata(OpenmetadataRelease),
    /// Plain OpenLineage, as Marquez takes it.
    Openlineage,
}

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
    /// Whether the connection cannot be used again, since the rest of the request's body must not be waited for. Other
    /// early answers leave that to the listener, which knows how much of the body is still to come.
    pub close: bool,
}

/// The answer to a request that the gate itself refuses.
pub fn refuse(dialect: Dialect, refusal: &Refusal) -> Answer {
    answer(dialect, table::refused(refusal))
}

/// The answer to a request whose event was handed to the backend.
pub fn report(dialect: Dialect, outcome: &Outcome) -> Answer {
    match dialect {
        Dialect::Openmetadata(release) => openmetadata::report(release, outcome),
        Dialect::Gravitino | Dialect::Openlineage => answer(dialect, table::reported(outcome)),
    }
}

/// The answer to a batch whose events were judged one by one.
///
/// Gravitino's contract has no batches: should one come in its dialect, it is answered as OpenLineage's.
pub fn report_batch(dialect: Dialect, report: &BatchReport) -> Answer {
    batch::answer(dialect, report)
}

/// Makes the response, `Content-Length` included; over HTTP/1.1 with the reason phrase and, where it must, with
/// `Connection: close`.
pub fn into_response(answer: Answer, http1: bool) -> Response<Full<Bytes>> {
    let Answer { status, reason, mut headers, body, close } = answer;
    headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
    if http1 && close {
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    let phrase = reason.filter(|_| http1).and_then(|reason| ReasonPhrase::try_from(reason.as_bytes()).ok());
    if let Some(phrase) = phrase {
        response.extensions_mut().insert(phrase);
    }
    response
}

impl Dialect {
    /// The configured dialect; `release` is whose answers OpenMetadata's clients get.
    pub fn new(name: DialectName, release: OpenmetadataRelease) -> Self {
        match name {
            DialectName::Gravitino => Self::Gravitino,
            DialectName::Openmetadata => Self::Openmetadata(release),
            DialectName::Openlineage => Self::Openlineage,
        }
    }
}

impl Default for Dialect {
    fn default() -> Self {
        Self::new(DialectName::default(), OpenmetadataRelease::default())
    }
}

impl Answer {
    /// The answer to HEAD: the same, without its body.
    #[must_use]
    pub fn without_body(mut self) -> Self {
        self.headers.remove(CONTENT_TYPE);
        self.body = Bytes::new();
        self
    }

    /// Names the body `application/json` if the client's `Accept` names that type and not the versioned one of Gravitino's
    /// contract. Both are the same bytes; without `Accept`, or with `*/*`, the contract's type stays.
    #[must_use]
    pub fn for_accept(mut self, accept: Option<&str>) -> Self {
        let accept = accept.unwrap_or_default().to_ascii_lowercase();
        let versioned = accept.contains(gravitino::MEDIA_TYPE);
        let plain = accept.split([',', ';']).any(|part| part.trim() == openlineage::MEDIA_TYPE);
        if plain && !versioned && self.headers.contains_key(CONTENT_TYPE) {
            self.headers.insert(CONTENT_TYPE, HeaderValue::from_static(openlineage::MEDIA_TYPE));
        }
        self
    }
}

fn answer(dialect: Dialect, row: Row) -> Answer {
    match dialect {
        Dialect::Gravitino => gravitino::answer(row),
        Dialect::Openmetadata(_) => openmetadata::answer(row),
        Dialect::Openlineage => openlineage::answer(row),
    }
}

/// An answer with the headers that all dialects share.
fn common(status: StatusCode, row: &Row, body: Option<(&'static str, String)>) -> Answer {
    let mut headers = HeaderMap::new();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if row.resend {
        headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    if let Some(challenge) = row.challenge.as_deref().and_then(|text| HeaderValue::try_from(text).ok()) {
        headers.insert(WWW_AUTHENTICATE, challenge);
    }
    for (name, value) in row.headers {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    let body = match body {
        Some((media_type, text)) => {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
            Bytes::from(text)
        }
        None => Bytes::new(),
    };
    Answer { status, reason: row.reason, headers, body, close: row.close }
}

/// A message in one line of bounded length: without control characters and line separators, cut where it is too long.
fn clean(message: &str) -> String {
    cleaned(message, LONGEST_MESSAGE)
}

/// As [`clean`], at most `longest` bytes of JSON.
fn cleaned(message: &str, longest: usize) -> String {
    let mut left = longest;
    let mut text = String::new();
    for c in message.chars() {
        let c = if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') { ' ' } else { c };
        let size = if matches!(c, '"' | '\\') { 2 } else { c.len_utf8() };
        let Some(rest) = left.checked_sub(size) else {
            text.push('\u{2026}');
            break;
        };
        left = rest;
        text.push(c);
    }
    text
}

#[cfg(test)]
mod tests;
