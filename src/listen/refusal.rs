//! The few answers that this stage gives itself, before a request reaches the gate.

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::Full;
use hyper::ext::ReasonPhrase;
use uuid::Uuid;

const TEXT: &str = "text/plain; charset=utf-8";

/// An answer through hyper. `why` is one short sentence without a full stop.
pub(super) fn response(status: StatusCode, why: &str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(format!("{why}\n"))));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(TEXT));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Ok(id) = HeaderValue::try_from(Uuid::now_v7().to_string()) {
        response.headers_mut().insert("x-request-id", id);
    }
    if let Ok(phrase) = ReasonPhrase::try_from(reason(status, why)) {
        response.extensions_mut().insert(phrase);
    }
    response
}

/// The bytes of a last HTTP/1.1 answer, for a connection that hyper has nothing to say on.
pub(super) fn on_the_wire(status: StatusCode, why: &str) -> Vec<u8> {
    let reason = reason(status, why);
    let date = jiff::fmt::rfc2822::DateTimePrinter::new()
        .timestamp_to_rfc9110_string(&jiff::Timestamp::now())
        .map(|date| format!("Date: {date}\r\n"))
        .unwrap_or_default();
    format!(
        "HTTP/1.1 {} {reason}\r\n{date}Connection: close\r\nContent-Type: {TEXT}\r\nContent-Length: {}\r\n\
         Cache-Control: no-store\r\nX-Request-Id: {}\r\n\r\n{why}\n",
        status.as_u16(),
        why.len() + 1,
        Uuid::now_v7(),
    )
    .into_bytes()
}

/// The status line is all that the Python client shows a person.
fn reason(status: StatusCode, why: &str) -> String {
    format!("{}: {why}", status.canonical_reason().unwrap_or_default())
}
