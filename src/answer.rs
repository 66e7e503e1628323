//! Every reason for a no of the gate itself, and every thing that can become of an event at the backend.
//!
//! A [`Refusal`] or an [`Outcome`] says what happened in the gate's own words; what a client is told stands in
//! `dialect`. Texts in here are safe to send: they name nothing that the caller may not know.

use std::sync::Arc;

pub use self::batch::{BatchReport, Counts, End, NotAttempted};
pub use self::words::{outcome_word, refusal_word};

mod batch;
pub(crate) mod words;

/// Why the gate itself says no.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// No endpoint of the gate has this path. `right` is the path that the caller probably meant.
    UnknownPath {
        /// The path to use.
        right: &'static str,
    },
    /// A path of batches, which no endpoint takes. `right` is the path for one event.
    NoBatches {
        /// The path to use.
        right: &'static str,
    },
    /// A path with dot segments, empty segments, `;`, encoded letters, dots or slashes, or an encoding that is broken.
    PathSpelling,
    /// The endpoint takes POST only.
    MethodNotAllowed,
    /// No token, or a token that does not hold.
    Unauthenticated(Challenge),
    /// The token is good, but a claim that the issuer's configuration requires is missing.
    InsufficientScope,
    /// The issuer's keys are not known now: not the caller's fault.
    KeysUnavailable,
    /// `X-Gravitino-Active-Roles` cannot be read.
    MalformedRoles(String),
    /// A rate limit is used up.
    RateLimited {
        /// The limit's configured name.
        limit: Arc<str>,
    },
    /// One request costs more than a limit's whole burst: no waiting helps.
    OverBurst {
        /// The limit's configured name.
        limit: Arc<str>,
    },
    /// The body is larger than allowed, as sent, decoded, or by its ratio.
    TooLarge {
        /// What is over which bound, for the caller.
        bound: String,
    },
    /// The content type is not JSON.
    UnsupportedMediaType,
    /// The content encoding is neither `gzip` nor `identity`.
    UnsupportedEncoding,
    /// The body did not arrive in time.
    BodyTimeout,
    /// The body broke off, or is not what its encoding says.
    BadBody(String),
    /// Not JSON, or JSON of the wrong shape.
    Malformed(String),
    /// Required members are missing, or have a value that cannot be. The text holds all violations.
    Invalid(String),
    /// Missing or forbidden metalake, dataset, namespace or job: one answer for all of them.
    NotVisible,
    /// Active roles that the caller does not hold.
    RolesNotHeld(String),
    /// A reference that does not resolve: foreign namespace, unsupported type, bad full name.
    Unresolvable(String),
    /// The backend cannot take the event, by a rule of its kind. The text says the place and the rule, never a value.
    BackendRule(String),
    /// The policy is not known now: not the caller's fault.
    PolicyUnavailable,
    /// All memory for bodies is taken.
    MemoryFull,
    /// The gate failed: its own fault.
    Internal,
}

/// What a 401 says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Challenge {
    /// Whether a token was sent at all: without one, RFC 6750 section 3.1 wants no error code.
    pub token_sent: bool,
    /// What is wrong with it, in fixed words, never from the request.
    pub reason: &'static str,
}

/// What became of an event at the backend (facts: backends 2.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The backend took it.
    Accepted {
        /// Edges written, where the backend counts them.
        edges: Option<u64>,
        /// Whether it is stored, or only queued.
        durability: Durability,
    },
    /// The backend took it and did nothing.
    NoEffect(NoEffect),
    /// The backend wrote a part of it.
    Partial {
        /// Edges written.
        edges: u64,
    },
    /// The backend says that the event is at fault.
    Rejected {
        /// The backend's words, cleaned of everything that is inside it.
        message: Option<String>,
        /// Whether the backend answered 422.
        unprocessable: bool,
    },
    /// Too large for the backend.
    TooLarge,
    /// The backend limits its callers.
    Throttled,
    /// The backend refused the gate's own credential.
    UpstreamAuth,
    /// The backend refused the caller's own credential (401).
    CallerUnauthenticated,
    /// The backend refused the caller (403).
    CallerForbidden,
    /// The event was not delivered: no connection.
    Unreachable(Unreachable),
    /// Nobody knows whether the event was delivered.
    Unknown(Unknown),
    /// The backend is not what the configuration says: redirects, HTML, 404, wrong shapes.
    BadGateway(String),
    /// The backend failed.
    Fault {
        /// Its status.
        status: u16,
    },
    /// The backend fails at this event again and again while it takes others.
    Poison,
    /// The backend's administrator has switched lineage off.
    Disabled,
    /// The gate is ending, or has no place for the exchange: not sent.
    NotSent,
}

/// What the backend promises with its yes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Written.
    Stored,
    /// In a queue.
    Queued,
}

/// Why a backend did nothing with an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoEffect {
    /// Its filters dropped it.
    Filtered,
    /// There was no edge to write.
    NoEdges,
    /// It does not know the datasets.
    Unresolved {
        /// How many of them; 0 where it does not tell.
        datasets: usize,
    },
}

/// Why there was no connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unreachable {
    /// The name does not resolve.
    Dns,
    /// Refused, reset or silent.
    Connect,
    /// The backend's certificate does not hold: configuration, no retry helps.
    Certificate,
}

/// Why nobody knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unknown {
    /// No answer in time.
    Timeout,
    /// The connection broke after the event was sent.
    Reset,
    /// The answer broke off.
    TruncatedBody,
    /// The exchange is still running; a resend gets its end.
    Pending,
    /// No answer in time or none at all, and nothing that a resend could join (`deduplicate: 0s`).
    Unwatched,
}
