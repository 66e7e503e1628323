//! Events and callers in a fixed size.

use aws_lc_rs::digest::{Context, SHA256};

use crate::auth::Caller;
use crate::upstream::Delivery;

/// SHA-256 over issuer, subject, upstream, active roles that go on, and the event's bytes, each after its length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct EventKey(pub(super) [u8; 32]);

/// SHA-256 over issuer and subject, cut to 16 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct CallerKey(pub(super) [u8; 16]);

/// SHA-256 over any parts, cut to 16 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct ShortKey(pub(super) [u8; 16]);

impl EventKey {
    /// The same roles belong to the same event: with others, the backend may decide otherwise.
    pub(super) fn of(delivery: &Delivery, upstream: &str) -> Self {
        let caller = &delivery.caller;
        let roles = delivery.active_roles.as_ref().map(http::HeaderValue::as_bytes).unwrap_or_default();
        let parts = [caller.issuer.as_bytes(), caller.subject.as_bytes(), upstream.as_bytes(), roles, &delivery.body];
        Self(digest(&parts))
    }
}

impl CallerKey {
    pub(super) fn of(caller: &Caller) -> Self {
        Self(short(&[caller.issuer.as_bytes(), caller.subject.as_bytes()]))
    }
}

impl ShortKey {
    pub(super) fn of(parts: &[&[u8]]) -> Self {
        Self(short(parts))
    }
}

fn digest(parts: &[&[u8]]) -> [u8; 32] {
    let mut context = Context::new(&SHA256);
    for part in parts {
        context.update(&(part.len() as u64).to_be_bytes());
        context.update(part);
    }
    let mut key = [0; 32];
    key.iter_mut().zip(context.finish().as_ref()).for_each(|(to, from)| *to = *from);
    key
}

fn short(parts: &[&[u8]]) -> [u8; 16] {
    let mut key = [0; 16];
    key.iter_mut().zip(digest(parts)).for_each(|(to, from)| *to = from);
    key
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use http::HeaderValue;

    use super::*;
    use crate::upstream::fake;

    #[test]
    fn an_event_is_the_same_only_with_all_that_it_is_made_of() {
        let same = EventKey::of(&fake::delivery("{}"), "u");
        assert_eq!(same, EventKey::of(&fake::delivery("{}"), "u"));
        let mut other_caller = fake::delivery("{}");
        other_caller.caller = Arc::new(fake::caller("bob", &[]));
        let mut other_issuer = fake::delivery("{}");
        other_issuer.caller = Arc::new(Caller { issuer: "https://other/".into(), ..fake::caller("alice", &[]) });
        let mut other_roles = fake::delivery("{}");
        other_roles.active_roles = Some(HeaderValue::from_static("writer"));
        for other in [other_caller, other_issuer, other_roles, fake::delivery("{ }")] {
            assert_ne!(same, EventKey::of(&other, "u"));
        }
        assert_ne!(same, EventKey::of(&fake::delivery("{}"), "v"));
        let mut other_request = fake::delivery("{}");
        other_request.request_id = "another".into();
        other_request.caller_authorization = None;
        assert_eq!(same, EventKey::of(&other_request, "u"), "a resend may carry a newer token");
    }

    #[test]
    fn parts_do_not_run_into_each_other() {
        assert_ne!(ShortKey::of(&[b"ab", b"c"]), ShortKey::of(&[b"a", b"bc"]));
    }
}
