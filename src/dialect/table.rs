//! What each refusal and each outcome is, before any dialect gives it a body (facts: backends 2.3).

use std::borrow::Cow;

use http::StatusCode;

use crate::answer::{Challenge, NoEffect, NotAttempted, Outcome, Refusal, Unknown, Unreachable};

/// One row of the table.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) status: StatusCode,
    pub(super) kind: Kind,
    /// The HTTP/1.1 reason phrase of a 4xx or 5xx.
    pub(super) reason: Option<&'static str>,
    /// One sentence that says what to do. Empty where the event was taken.
    pub(super) message: Cow<'static, str>,
    /// Whether a resend cures it: `Retry-After: 1`.
    pub(super) resend: bool,
    pub(super) close: bool,
    /// `WWW-Authenticate`.
    pub(super) challenge: Option<String>,
    /// Further headers.
    pub(super) headers: &'static [(&'static str, &'static str)],
}

/// What happened, as coarsely as contracts with error codes of their own tell it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The event was taken.
    Taken,
    /// The request is at fault.
    Argument,
    /// The event names what cannot be resolved.
    Unresolvable,
    /// The backend understood the event and rejects its content.
    Unprocessable,
    /// The backend fails at the event's content.
    Poison,
    /// No such path.
    NotFound,
    /// Not this method.
    Method,
    /// Not without a better token.
    Unauthorized,
    /// Not this caller.
    Forbidden,
    /// Too much.
    TooMany,
    /// The backend, the policy or the keys are not there, or do not work.
    Connection,
    /// The gate failed.
    Internal,
}

/// The row of a refusal.
pub(super) fn refused(refusal: &Refusal) -> Row {
    use Kind::{Argument, Forbidden, Method, NotFound, TooMany, Unresolvable};
    match refusal {
        Refusal::UnknownPath { right } => {
            let reason = "Not Found: POST events to /api/lineage (Gravitino) or /api/v1/lineage (OpenLineage)";
            Row::new(404, NotFound, reason, format!("No such path: POST events to {right}"))
        }
        Refusal::NoBatches { right } => {
            let reason = "Not Found: batches are not served here, POST single events";
            Row::new(404, NotFound, reason, format!("Batches are not served here: POST each event alone to {right}"))
        }
        Refusal::PathSpelling => {
            let reason = "Bad Request: path spelling";
            let message =
                "The path has empty or dot segments, `;`, encoded letters or a broken encoding: write it plainly";
            Row::new(400, Argument, reason, message)
        }
        Refusal::MethodNotAllowed => Row {
            headers: &[("allow", "POST")],
            ..Row::new(405, Method, "Method Not Allowed: use POST", "This endpoint takes POST only")
        },
        Refusal::Unauthenticated(challenge) => unauthenticated(challenge),
        Refusal::InsufficientScope => Row {
            challenge: Some(challenge(Some("insufficient_scope"), "a required claim is missing")),
            ..Row::new(
                403,
                Forbidden,
                "Forbidden: the token lacks a required claim",
                "The token is valid, but lacks a claim or scope that is required here: ask for a token that has it",
            )
        },
        Refusal::KeysUnavailable => Row::unavailable(
            "Service Unavailable: token keys not known yet",
            "The token cannot be checked now, since its issuer's keys are not available: send the request again",
        ),
        Refusal::MalformedRoles(text) => {
            let reason = "Bad Request: X-Gravitino-Active-Roles malformed";
            Row::new(400, Argument, reason, labelled("Malformed X-Gravitino-Active-Roles", text))
        }
        Refusal::RateLimited { limit } => Row {
            resend: true,
            ..Row::new(
                429,
                TooMany,
                "Too Many Requests: rate limit used up",
                format!("Rate limit '{limit}' is used up: send the request again after a second"),
            )
        },
        Refusal::OverBurst { limit } => Row::new(
            413,
            Argument,
            "Content Too Large: over a whole rate limit",
            format!("This one request is over all that rate limit '{limit}' ever admits: send less at once"),
        ),
        Refusal::TooLarge { bound } => Row {
            close: true,
            ..Row::new(
                413,
                Argument,
                "Content Too Large: event over the size limit",
                labelled("Event too large", bound),
            )
        },
        Refusal::UnsupportedMediaType => Row {
            close: true,
            headers: &[("accept", "application/json")],
            ..Row::new(
                415,
                Argument,
                "Unsupported Media Type: send JSON",
                "The Content-Type is not JSON: send application/json",
            )
        },
        Refusal::UnsupportedEncoding => Row {
            close: true,
            ..Row::new(
                415,
                Argument,
                "Unsupported Media Type: Content-Encoding must be gzip or identity",
                "The Content-Encoding is not supported: send gzip or identity",
            )
        },
        Refusal::BodyTimeout => Row {
            close: true,
            ..Row::new(
                408,
                Argument,
                "Request Timeout: the body did not arrive in time",
                "The body did not arrive in time: check the network between client and gate, or send less at once",
            )
        },
        Refusal::BadBody(text) => Row {
            close: true,
            ..Row::new(400, Argument, "Bad Request: body unreadable", labelled("The body cannot be read", text))
        },
        Refusal::Malformed(text) => {
            Row::new(400, Argument, "Bad Request: malformed JSON", labelled("Malformed json request", text))
        }
        Refusal::Invalid(text) => Row::new(400, Argument, "Bad Request: invalid lineage event", text.clone()),
        Refusal::NotVisible => not_visible(),
        Refusal::RolesNotHeld(text) => {
            let reason = "Forbidden: active roles not held";
            Row::new(403, Forbidden, reason, labelled("Active roles that the caller does not hold", text))
        }
        Refusal::Unresolvable(text) => {
            Row::new(400, Unresolvable, "Bad Request: dataset reference does not resolve", text.clone())
        }
        Refusal::BackendRule(text) => {
            let reason = "Bad Request: the lineage backend cannot take this event";
            Row::new(400, Argument, reason, labelled("The lineage backend cannot take this event", text))
        }
        Refusal::PolicyUnavailable => Row::unavailable(
            "Service Unavailable: policy not known yet",
            "Nothing can be allowed now, since the policy is not available: send the event again",
        ),
        Refusal::MemoryFull => Row {
            close: true,
            ..Row::unavailable(
                "Service Unavailable: busy",
                "Too many events are being read at once: send the event again after a second",
            )
        },
        Refusal::Internal => Row::new(500, Kind::Internal, "Internal Server Error", "Internal Server Error"),
    }
}

/// The row of an event of a batch that was left where it is.
pub(super) fn left(why: NotAttempted) -> Row {
    let (reason, message) = match why {
        NotAttempted::EarlierFailed => (
            "Service Unavailable: lineage backend failed",
            "Not attempted: an earlier event of the same run was not delivered; send it again",
        ),
        NotAttempted::Stopped => (
            "Service Unavailable: not sent to the lineage backend",
            "Not attempted: the lineage backend takes no events now; send it again",
        ),
        NotAttempted::Deadline => (
            "Service Unavailable: deadline exceeded",
            "Deadline exceeded before the event was sent: send it again, with fewer events in a batch",
        ),
    };
    Row::unavailable(reason, message)
}

/// The row of an outcome.
pub(super) fn reported(outcome: &Outcome) -> Row {
    match outcome {
        Outcome::Accepted { edges: _, durability: _ } => Row::taken(&[]),
        Outcome::NoEffect(NoEffect::Filtered | NoEffect::NoEdges | NoEffect::Unresolved { .. }) => {
            Row::taken(&[("x-lineage-result", "skipped")])
        }
        Outcome::Partial { edges: _ } => Row::taken(&[("x-lineage-result", "partial")]),
        Outcome::Rejected { message, unprocessable } => {
            let (status, kind) = if *unprocessable { (422, Kind::Unprocessable) } else { (400, Kind::Argument) };
            let message = message.clone().unwrap_or_else(|| "The lineage backend rejected the event".to_owned());
            Row::new(status, kind, "Rejected by the lineage backend", message)
        }
        Outcome::TooLarge => Row::new(
            413,
            Kind::Argument,
            "Content Too Large: event too large for the lineage backend",
            "The event is too large for the lineage backend: send smaller events",
        ),
        Outcome::Throttled => Row {
            resend: true,
            ..Row::new(
                429,
                Kind::TooMany,
                "Too Many Requests: the lineage backend is busy",
                "The lineage backend takes no more events now: send the event again after a second",
            )
        },
        Outcome::UpstreamAuth => Row::misconfigured("Lineage backend rejected the gateway's credentials"),
        Outcome::CallerUnauthenticated => {
            unauthenticated(&Challenge { token_sent: true, reason: "the lineage backend does not accept the token" })
        }
        Outcome::CallerForbidden => not_visible(),
        Outcome::Unreachable(Unreachable::Dns | Unreachable::Connect) => Row::unavailable(
            "Service Unavailable: lineage backend not reachable",
            "The lineage backend is not reachable: send the request again",
        ),
        Outcome::Unreachable(Unreachable::Certificate) => {
            Row::misconfigured("Lineage backend misconfigured: its certificate does not hold")
        }
        Outcome::Unknown(Unknown::Timeout | Unknown::Reset | Unknown::TruncatedBody | Unknown::Pending) => {
            Row::unavailable(
                "Service Unavailable: outcome not known yet",
                "Outcome not known yet: the lineage backend has not answered; send the event again",
            )
        }
        Outcome::Unknown(Unknown::Unwatched) => Row::new(
            504,
            Kind::Connection,
            "Gateway Timeout: outcome not known",
            "Outcome not known: the lineage backend has not answered, and may have done what was asked",
        ),
        Outcome::BadGateway(_) => Row::misconfigured("Lineage backend misconfigured"),
        Outcome::Fault { status: _ } => Row::unavailable(
            "Service Unavailable: lineage backend failed",
            "The lineage backend failed: send the event again",
        ),
        Outcome::Poison => Row::new(
            422,
            Kind::Poison,
            "Unprocessable Content: the lineage backend fails at this event",
            "The lineage backend failed at this event again while it takes others: do not send it again as it is",
        ),
        Outcome::Disabled => Row::misconfigured("Lineage is switched off at the lineage backend"),
        Outcome::NotSent => Row::unavailable(
            "Service Unavailable: not sent to the lineage backend",
            "The event was not sent to the lineage backend: send it again",
        ),
    }
}

impl Row {
    fn new(status: u16, kind: Kind, reason: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            status: StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
            kind,
            reason: Some(reason),
            message: message.into(),
            resend: false,
            close: false,
            challenge: None,
            headers: &[],
        }
    }

    fn taken(headers: &'static [(&'static str, &'static str)]) -> Self {
        Self { reason: None, headers, ..Self::new(201, Kind::Taken, "", "") }
    }

    /// A batch of which something was processed; its body says what.
    pub(super) fn ok() -> Self {
        Self { reason: None, ..Self::new(200, Kind::Taken, "", "") }
    }

    /// A batch of which every event is at fault; its body says why.
    pub(super) fn all_failed() -> Self {
        Self::new(400, Kind::Argument, "Bad Request: every event of the batch failed", "")
    }

    /// An event that changed nothing, where the contract calls that a fault.
    pub(super) fn no_edges() -> Self {
        Self::new(400, Kind::Argument, "Bad Request: no lineage edges created", "")
    }

    /// A resend cures it.
    fn unavailable(reason: &'static str, message: &'static str) -> Self {
        Self { resend: true, ..Self::new(503, Kind::Connection, reason, message) }
    }

    /// No resend cures it, only the gate's operator.
    fn misconfigured(message: &'static str) -> Self {
        Self::new(501, Kind::Connection, "Not Implemented: lineage backend misconfigured", message)
    }
}

/// One answer for all that the caller may not see and all that is not there.
fn not_visible() -> Row {
    Row::new(
        403,
        Kind::Forbidden,
        "Forbidden: dataset or metalake missing or not visible",
        "A metalake, dataset, namespace or job that the event names does not exist, or the caller may not access it",
    )
}

fn unauthenticated(unauthenticated: &Challenge) -> Row {
    let Challenge { token_sent, reason } = unauthenticated;
    if *token_sent {
        let challenge = challenge(Some("invalid_token"), reason);
        let message = format!("Token not accepted: {reason}");
        return Row { challenge: Some(challenge), ..Row::new(401, Kind::Unauthorized, reason, message) };
    }
    Row {
        challenge: Some(challenge(None, reason)),
        ..Row::new(
            401,
            Kind::Unauthorized,
            "Unauthorized: no bearer token",
            "Authentication required: send the header Authorization: Bearer TOKEN",
        )
    }
}

/// RFC 6750 section 3: the realm is fixed, and the description holds none of the characters that the grammar forbids.
fn challenge(error: Option<&str>, description: &str) -> String {
    let Some(error) = error else { return r#"Bearer realm="lineage-gate""#.to_owned() };
    let allowed = |c: &char| matches!(c, ' '..='!' | '#'..='[' | ']'..='~');
    let description: String = description.chars().filter(allowed).collect();
    format!(r#"Bearer realm="lineage-gate", error="{error}", error_description="{description}""#)
}

/// A text under a label that says what it is about, unless it says so itself.
fn labelled(label: &'static str, text: &str) -> Cow<'static, str> {
    if text.is_empty() {
        return label.into();
    }
    if text.starts_with(label) { text.to_owned().into() } else { format!("{label}: {text}").into() }
}
