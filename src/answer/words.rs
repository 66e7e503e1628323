//! Refusals and outcomes as machine words: stable names for queries and metric labels.

use super::{Durability, NoEffect, Outcome, Refusal, Unknown, Unreachable};

/// The word of a refusal, such as `not_visible`.
pub fn refusal_word(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::UnknownPath { .. } => "unknown_path",
        Refusal::NoBatches { .. } => "no_batches",
        Refusal::PathSpelling => "path_spelling",
        Refusal::MethodNotAllowed => "method_not_allowed",
        Refusal::Unauthenticated(_) => "unauthenticated",
        Refusal::InsufficientScope => "insufficient_scope",
        Refusal::KeysUnavailable => "keys_unavailable",
        Refusal::MalformedRoles(_) => "malformed_roles",
        Refusal::RateLimited { .. } => "rate_limited",
        Refusal::OverBurst { .. } => "over_burst",
        Refusal::TooLarge { .. } => "too_large",
        Refusal::UnsupportedMediaType => "unsupported_media_type",
        Refusal::UnsupportedEncoding => "unsupported_encoding",
        Refusal::BodyTimeout => "body_timeout",
        Refusal::BadBody(_) => "bad_body",
        Refusal::Malformed(_) => "malformed",
        Refusal::Invalid(_) => "invalid",
        Refusal::NotVisible => "not_visible",
        Refusal::RolesNotHeld(_) => "roles_not_held",
        Refusal::Unresolvable(_) => "unresolvable",
        Refusal::BackendRule(_) => "backend_rule",
        Refusal::PolicyUnavailable => "policy_unavailable",
        Refusal::MemoryFull => "memory_full",
        Refusal::Internal => "internal",
    }
}

/// What a refusal says beyond its word, for a person who reads the audit.
pub(crate) fn refusal_detail(refusal: &Refusal) -> Option<&str> {
    match refusal {
        Refusal::Unauthenticated(challenge) => Some(challenge.reason),
        Refusal::RateLimited { limit } | Refusal::OverBurst { limit } => Some(limit),
        Refusal::TooLarge { bound } => Some(bound),
        Refusal::MalformedRoles(text)
        | Refusal::BadBody(text)
        | Refusal::Malformed(text)
        | Refusal::Invalid(text)
        | Refusal::RolesNotHeld(text)
        | Refusal::Unresolvable(text)
        | Refusal::BackendRule(text) => Some(text),
        Refusal::UnknownPath { .. }
        | Refusal::NoBatches { .. }
        | Refusal::PathSpelling
        | Refusal::MethodNotAllowed
        | Refusal::InsufficientScope
        | Refusal::KeysUnavailable
        | Refusal::UnsupportedMediaType
        | Refusal::UnsupportedEncoding
        | Refusal::BodyTimeout
        | Refusal::NotVisible
        | Refusal::PolicyUnavailable
        | Refusal::MemoryFull
        | Refusal::Internal => None,
    }
}

/// The word of an outcome, such as `accepted` or `unreachable_dns`.
pub fn outcome_word(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Accepted { durability: Durability::Stored, .. } => "accepted",
        Outcome::Accepted { durability: Durability::Queued, .. } => "accepted_queued",
        Outcome::NoEffect(NoEffect::Filtered) => "no_effect_filtered",
        Outcome::NoEffect(NoEffect::NoEdges) => "no_effect_no_edges",
        Outcome::NoEffect(NoEffect::Unresolved { .. }) => "no_effect_unresolved",
        Outcome::Partial { .. } => "partial",
        Outcome::Rejected { .. } => "rejected",
        Outcome::TooLarge => "too_large",
        Outcome::Throttled => "throttled",
        Outcome::UpstreamAuth => "upstream_auth",
        Outcome::CallerUnauthenticated => "caller_unauthenticated",
        Outcome::CallerForbidden => "caller_forbidden",
        Outcome::Unreachable(Unreachable::Dns) => "unreachable_dns",
        Outcome::Unreachable(Unreachable::Connect) => "unreachable_connect",
        Outcome::Unreachable(Unreachable::Certificate) => "unreachable_certificate",
        Outcome::Unknown(Unknown::Timeout) => "unknown_timeout",
        Outcome::Unknown(Unknown::Reset) => "unknown_reset",
        Outcome::Unknown(Unknown::TruncatedBody) => "unknown_truncated_body",
        Outcome::Unknown(Unknown::Pending) => "unknown_pending",
        Outcome::Unknown(Unknown::Unwatched) => "unknown_unwatched",
        Outcome::BadGateway(_) => "bad_gateway",
        Outcome::Fault { .. } => "fault",
        Outcome::Poison => "poison",
        Outcome::Disabled => "disabled",
        Outcome::NotSent => "not_sent",
    }
}

/// What an outcome says beyond its word.
pub(crate) fn outcome_detail(outcome: &Outcome) -> Option<&str> {
    match outcome {
        Outcome::Rejected { message, .. } => message.as_deref(),
        Outcome::BadGateway(text) => Some(text),
        Outcome::Accepted { .. }
        | Outcome::NoEffect(_)
        | Outcome::Partial { .. }
        | Outcome::TooLarge
        | Outcome::Throttled
        | Outcome::UpstreamAuth
        | Outcome::CallerUnauthenticated
        | Outcome::CallerForbidden
        | Outcome::Unreachable(_)
        | Outcome::Unknown(_)
        | Outcome::Fault { .. }
        | Outcome::Poison
        | Outcome::Disabled
        | Outcome::NotSent => None,
    }
}

/// The edges that a backend says it wrote.
pub(crate) fn outcome_edges(outcome: &Outcome) -> Option<u64> {
    match outcome {
        Outcome::Accepted { edges, .. } => *edges,
        Outcome::Partial { edges } => Some(*edges),
        Outcome::NoEffect(_)
        | Outcome::Rejected { .. }
        | Outcome::TooLarge
        | Outcome::Throttled
        | Outcome::UpstreamAuth
        | Outcome::CallerUnauthenticated
        | Outcome::CallerForbidden
        | Outcome::Unreachable(_)
        | Outcome::Unknown(_)
        | Outcome::BadGateway(_)
        | Outcome::Fault { .. }
        | Outcome::Poison
        | Outcome::Disabled
        | Outcome::NotSent => None,
    }
}

/// The status that a backend which failed has answered.
pub(crate) fn outcome_status(outcome: &Outcome) -> Option<u16> {
    match outcome {
        Outcome::Fault { status } => Some(*status),
        Outcome::Accepted { .. }
        | Outcome::NoEffect(_)
        | Outcome::Partial { .. }
        | Outcome::Rejected { .. }
        | Outcome::TooLarge
        | Outcome::Throttled
        | Outcome::UpstreamAuth
        | Outcome::CallerUnauthenticated
        | Outcome::CallerForbidden
        | Outcome::Unreachable(_)
        | Outcome::Unknown(_)
        | Outcome::BadGateway(_)
        | Outcome::Disabled
        | Outcome::Poison
        | Outcome::NotSent => None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::answer::Challenge;

    fn assert_words<'a>(words: impl IntoIterator<Item = &'a str>, count: usize) {
        let distinct: BTreeSet<&str> = words.into_iter().collect();
        assert_eq!(distinct.len(), count, "{distinct:?}");
        for word in distinct {
            assert!(word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{word}");
        }
    }

    #[test]
    fn every_refusal_has_a_word_of_its_own_and_the_detail_that_it_holds() {
        let text = || "a detail".to_owned();
        let challenge = Challenge { token_sent: true, reason: "a detail" };
        let with_detail = [
            Refusal::Unauthenticated(challenge),
            Refusal::MalformedRoles(text()),
            Refusal::RateLimited { limit: "a detail".into() },
            Refusal::OverBurst { limit: "a detail".into() },
            Refusal::TooLarge { bound: text() },
            Refusal::BadBody(text()),
            Refusal::Malformed(text()),
            Refusal::Invalid(text()),
            Refusal::RolesNotHeld(text()),
            Refusal::Unresolvable(text()),
            Refusal::BackendRule(text()),
        ];
        let without = [
            Refusal::UnknownPath { right: "/api/lineage" },
            Refusal::NoBatches { right: "/lineage" },
            Refusal::PathSpelling,
            Refusal::MethodNotAllowed,
            Refusal::InsufficientScope,
            Refusal::KeysUnavailable,
            Refusal::UnsupportedMediaType,
            Refusal::UnsupportedEncoding,
            Refusal::BodyTimeout,
            Refusal::NotVisible,
            Refusal::PolicyUnavailable,
            Refusal::MemoryFull,
            Refusal::Internal,
        ];
        assert!(with_detail.iter().all(|refusal| refusal_detail(refusal) == Some("a detail")));
        assert!(without.iter().all(|refusal| refusal_detail(refusal).is_none()));
        assert_words(with_detail.iter().chain(&without).map(refusal_word), 24);
    }

    #[test]
    fn every_outcome_has_a_word_of_its_own() {
        let accepted = |durability| Outcome::Accepted { edges: Some(3), durability };
        let outcomes = [
            accepted(Durability::Stored),
            accepted(Durability::Queued),
            Outcome::NoEffect(NoEffect::Filtered),
            Outcome::NoEffect(NoEffect::NoEdges),
            Outcome::NoEffect(NoEffect::Unresolved { datasets: 2 }),
            Outcome::Partial { edges: 2 },
            Outcome::Rejected { message: Some("why".to_owned()), unprocessable: true },
            Outcome::TooLarge,
            Outcome::Throttled,
            Outcome::UpstreamAuth,
            Outcome::CallerUnauthenticated,
            Outcome::CallerForbidden,
            Outcome::Unreachable(Unreachable::Dns),
            Outcome::Unreachable(Unreachable::Connect),
            Outcome::Unreachable(Unreachable::Certificate),
            Outcome::Unknown(Unknown::Timeout),
            Outcome::Unknown(Unknown::Reset),
            Outcome::Unknown(Unknown::TruncatedBody),
            Outcome::Unknown(Unknown::Pending),
            Outcome::Unknown(Unknown::Unwatched),
            Outcome::BadGateway("a redirect".to_owned()),
            Outcome::Fault { status: 500 },
            Outcome::Poison,
            Outcome::Disabled,
            Outcome::NotSent,
        ];
        assert_words(outcomes.iter().map(outcome_word), 25);
        let details: Vec<&str> = outcomes.iter().filter_map(outcome_detail).collect();
        assert_eq!(details, ["why", "a redirect"]);
        let edges: Vec<u64> = outcomes.iter().filter_map(outcome_edges).collect();
        assert_eq!(edges, [3, 3, 2]);
        let statuses: Vec<u16> = outcomes.iter().filter_map(outcome_status).collect();
        assert_eq!(statuses, [500]);
    }
}
