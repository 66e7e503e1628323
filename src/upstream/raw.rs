//! A backend's answer as it came, and the part of the table of facts/backends.md 2.2 that all kinds share.

use bytes::Bytes;
use http::StatusCode;
use serde_json::{Map, Value};

use crate::answer::{Durability, Outcome, Unknown};

/// Bytes of an answer's body that are read.
pub(super) const BODY_CAP: usize = 64 * 1024;

/// What came back.
#[derive(Debug, Clone)]
pub(super) struct Raw {
    /// The status.
    pub(super) status: StatusCode,
    /// `Content-Type`, in lower case.
    pub(super) content_type: Option<String>,
    /// At most [`BODY_CAP`] bytes of the body.
    pub(super) body: Bytes,
    /// Whether the body ended as its framing says, within the cap and in time.
    pub(super) complete: bool,
}

impl Raw {
    /// The outcome for kinds whose status line is authoritative and whose success has no one shape. `message` is what a
    /// refusal may tell, already clean.
    pub(super) fn by_status(&self, durability: Durability, message: Option<String>) -> Outcome {
        match self.status.as_u16() {
            200 | 201 | 202 | 204 if self.is_foreign() => self.wrong_shape(),
            200 | 201 | 202 | 204 => Outcome::Accepted { edges: None, durability },
            _ => self.refused(message),
        }
    }

    /// The outcome of a status that is no success.
    pub(super) fn refused(&self, message: Option<String>) -> Outcome {
        let status = self.status.as_u16();
        match status {
            300..=399 => Outcome::BadGateway(format!("it answered {status}, a redirect, which is not followed")),
            400 => Outcome::Rejected { message, unprocessable: false },
            401 | 403 => Outcome::UpstreamAuth,
            408 | 425 => Outcome::Unknown(Unknown::Timeout),
            409 => Outcome::Fault { status },
            413 => Outcome::TooLarge,
            422 => Outcome::Rejected { message, unprocessable: true },
            429 => Outcome::Throttled,
            501 => Outcome::BadGateway("it answered 501: it has no such function".to_owned()),
            500..=599 => Outcome::Fault { status },
            404 | 405 => Outcome::BadGateway(format!("it answered {status}: `url` does not lead to its lineage API")),
            status => Outcome::BadGateway(format!("it answered {status}")),
        }
    }

    /// A success that a backend of this kind does not send so: something else answers there.
    pub(super) fn wrong_shape(&self) -> Outcome {
        let status = self.status.as_u16();
        Outcome::BadGateway(if self.is_foreign() {
            format!("it answered {status} with something that is no JSON")
        } else {
            format!("it answered {status}, but not as this kind of backend does: look at `kind` and `url`")
        })
    }

    /// Whether the body says nothing, so that the status line stands alone: it is empty, or cannot be read, and nothing
    /// shows that it is a page.
    pub(super) fn is_empty(&self) -> bool {
        let body = self.body.trim_ascii();
        let is_unreadable = !self.complete || std::str::from_utf8(body).is_err();
        !self.is_page() && (body.is_empty() || is_unreadable && !body.starts_with(b"<"))
    }

    /// Whether the body is a web page.
    pub(super) fn is_page(&self) -> bool {
        self.content_type.as_deref().is_some_and(is_html)
    }

    /// The body, where it is a whole JSON object.
    pub(super) fn object(&self) -> Option<Map<String, Value>> {
        if !self.complete {
            return None;
        }
        serde_json::from_slice(&self.body).ok()
    }

    /// The `message` member of a whole JSON object, where `genuine` takes the object for one of the backend's own.
    pub(super) fn message(&self, genuine: fn(&Map<String, Value>) -> bool) -> Option<String> {
        let object = self.object()?;
        let message = object.get("message")?.as_str()?;
        genuine(&object).then(|| message.to_owned())
    }

    /// Whether the body is a page or text of something that is no lineage backend: a proxy's login, a portal, a default
    /// site (facts: backends 0.7).
    fn is_foreign(&self) -> bool {
        let body = self.body.trim_ascii();
        if body.is_empty() {
            return self.content_type.as_deref().is_some_and(is_html);
        }
        match self.content_type.as_deref() {
            Some(kind) if is_json(kind) => false,
            Some(kind) if is_html(kind) => true,
            Some(_) => !self.complete || serde_json::from_slice::<serde::de::IgnoredAny>(body).is_err(),
            None => body.starts_with(b"<"),
        }
    }
}

fn essence(content_type: &str) -> &str {
    content_type.split(';').next().unwrap_or_default().trim()
}

fn is_json(content_type: &str) -> bool {
    let essence = essence(content_type);
    essence == "application/json" || essence.ends_with("+json")
}

fn is_html(content_type: &str) -> bool {
    matches!(essence(content_type), "text/html" | "application/xhtml+xml")
}
