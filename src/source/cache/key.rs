//! What an answer is about, as a digest of fixed size: callers choose names, and names must cost no memory.

use std::hash::{Hash, Hasher};

use aws_lc_rs::digest::{self, SHA256};

use crate::auth::Caller;
use crate::policy::{About, ActiveRoles, Inquiry};

/// SHA-256.
pub(super) type Digest = [u8; 32];

/// A caller, whatever its groups, claims and roles: issuer and subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CallerId(Digest);

/// A caller with everything that a source may decide by, and the roles that it acts with.
///
/// `Caller::identity` covers all claims but those of time and `jti`; issuer, subject and groups are what the gate made of
/// them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Actor {
    /// The caller.
    pub caller: CallerId,
    digest: Digest,
}

/// One question about one caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key(Digest);

impl CallerId {
    /// The caller of that issuer.
    pub fn new(issuer: &str, subject: &str) -> Self {
        let mut context = Context::new();
        context.text(issuer);
        context.text(subject);
        Self(context.finish())
    }
}

impl Actor {
    /// A caller acting with those roles.
    pub fn new(caller: &Caller, roles: &ActiveRoles) -> Self {
        let id = CallerId::new(&caller.issuer, &caller.subject);
        let mut context = Context::new();
        context.0.update(&id.0);
        context.0.update(&caller.identity);
        context.count(caller.groups.len());
        for group in &*caller.groups {
            context.text(group);
        }
        match roles {
            ActiveRoles::All => context.0.update(b"a"),
            ActiveRoles::None => context.0.update(b"n"),
            ActiveRoles::Named(names) => {
                context.0.update(b"r");
                context.count(names.len());
                names.iter().for_each(|name| context.text(name));
            }
        }
        Self { caller: id, digest: context.finish() }
    }

    /// The key of a question about it.
    pub fn key(&self, inquiry: &Inquiry<'_>) -> Key {
        let mut context = Context::new();
        context.0.update(&self.digest);
        context.text(inquiry.metalake);
        match inquiry.about {
            About::Member => context.0.update(b"m"),
            About::RolesHeld => context.0.update(b"r"),
            About::Visible { kind, name } => {
                context.0.update(b"v");
                context.text(kind.word());
                context.text(name);
            }
        }
        Key(context.finish())
    }
}

impl Hash for Key {
    /// A part of a digest is as good as the whole.
    fn hash<H: Hasher>(&self, state: &mut H) {
        let [a, b, c, d, e, f, g, h, ..] = self.0;
        state.write_u64(u64::from_ne_bytes([a, b, c, d, e, f, g, h]));
    }
}

/// Each part goes in with its length, so that no two lists of parts read alike.
struct Context(digest::Context);

impl Context {
    fn new() -> Self {
        Self(digest::Context::new(&SHA256))
    }

    fn count(&mut self, count: usize) {
        self.0.update(&(count as u64).to_be_bytes());
    }

    fn text(&mut self, text: &str) {
        self.count(text.len());
        self.0.update(text.as_bytes());
    }

    fn finish(self) -> Digest {
        let mut bytes = Digest::default();
        for (to, from) in bytes.iter_mut().zip(self.0.finish().as_ref()) {
            *to = *from;
        }
        bytes
    }
}
