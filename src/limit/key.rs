//! Whose bucket it is, in a fixed size.

use std::net::IpAddr;

use aws_lc_rs::digest::{Context, SHA256};

use super::Subject;
use crate::config::LimitScope;
use crate::listen::party;

/// SHA-256 over the parts of a name, each after its length, cut to 16 bytes: long names take no more room than short
/// ones, and nobody can make two names that share a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Key([u8; 16]);

impl Key {
    /// The key of `subject` in limits of `scope`; none if they do not apply to it.
    ///
    /// A peer without address and a caller that is not known get one bucket for all of their kind, never none.
    pub(super) fn of(scope: LimitScope, subject: &Subject<'_>) -> Option<Self> {
        match scope {
            LimitScope::Peer => Some(match subject.peer.map(party) {
                Some(IpAddr::V4(address)) => Self::hash(&[&address.octets()]),
                Some(IpAddr::V6(address)) => Self::hash(&[&address.octets()]),
                None => Self::hash(&[]),
            }),
            LimitScope::Caller => Some(match subject.caller {
                Some(caller) => Self::hash(&[caller.issuer.as_bytes(), caller.subject.as_bytes()]),
                None => Self::hash(&[]),
            }),
            LimitScope::Metalake => subject.metalake.map(|metalake| Self::hash(&[metalake.as_bytes()])),
            LimitScope::Namespace => subject.namespace.map(|namespace| Self::hash(&[namespace.as_bytes()])),
        }
    }

    /// A number that is spread evenly over keys.
    pub(super) fn spread(&self) -> usize {
        let [first, ..] = self.0;
        usize::from(first)
    }

    fn hash(parts: &[&[u8]]) -> Self {
        let mut context = Context::new(&SHA256);
        for part in parts {
            context.update(&(part.len() as u64).to_be_bytes());
            context.update(part);
        }
        let digest = context.finish();
        let mut key = [0; 16];
        key.iter_mut().zip(digest.as_ref()).for_each(|(to, from)| *to = *from);
        Self(key)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::SystemTime;

    use super::*;
    use crate::auth::Caller;

    fn peer(address: &str) -> Option<Key> {
        Key::of(LimitScope::Peer, &Subject { peer: Some(address.parse().unwrap()), ..Subject::default() })
    }

    fn caller(issuer: &str, subject: &str) -> Option<Key> {
        let caller = Caller {
            issuer: issuer.into(),
            subject: subject.into(),
            groups: Arc::from([]),
            token_id: "t".into(),
            expires: SystemTime::UNIX_EPOCH,
            identity: [0; 32],
        };
        Key::of(LimitScope::Caller, &Subject { caller: Some(&caller), ..Subject::default() })
    }

    #[test]
    fn ipv6_peers_are_told_apart_by_their_64_and_ipv4_peers_by_their_address() {
        assert_eq!(peer("2001:db8:1:2:3::4"), peer("2001:db8:1:2:ffff::1"));
        assert_ne!(peer("2001:db8:1:2::1"), peer("2001:db8:1:3::1"));
        assert_ne!(peer("192.0.2.1"), peer("192.0.2.2"));
        assert_eq!(peer("192.0.2.1"), peer("::ffff:192.0.2.1"));
        assert_ne!(peer("::ffff:192.0.2.1"), peer("::ffff:192.0.2.2"));
    }

    #[test]
    fn equal_subjects_of_two_issuers_have_two_buckets() {
        assert_eq!(caller("https://a", "bob"), caller("https://a", "bob"));
        assert_ne!(caller("https://a", "bob"), caller("https://b", "bob"));
        assert_ne!(caller("https://a", "bob"), caller("https://a", "alice"));
        assert_ne!(caller("ab", "c"), caller("a", "bc"));
    }

    #[test]
    fn who_is_not_known_shares_a_bucket_but_is_never_without_one() {
        let unknown = Subject::default();
        assert!(Key::of(LimitScope::Peer, &unknown).is_some());
        assert!(Key::of(LimitScope::Caller, &unknown).is_some());
        assert_eq!(Key::of(LimitScope::Metalake, &unknown), None);
        assert_eq!(Key::of(LimitScope::Namespace, &unknown), None);
    }
}
