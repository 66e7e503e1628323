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

    /// The key of a question about it: one digest over one buffer, since each dataset of each event comes here.
    ///
    /// No two questions read alike: the parts before the name have a fixed size, a length, or are words of the gate.
    pub fn key(&self, inquiry: &Inquiry<'_>) -> Key {
        let (word, name) = match inquiry.about {
            About::Member => ("?member", ""),
            About::RolesHeld => ("?roles", ""),
            About::Visible { kind, name } => (kind.word(), name),
        };
        let length = (inquiry.metalake.len() as u64).to_be_bytes();
        let parts: [&[u8]; 6] =
            [&self.digest, &length, inquiry.metalake.as_bytes(), word.as_bytes(), b"\0", name.as_bytes()];
        let mut buffer = Vec::with_capacity(parts.iter().map(|part| part.len()).sum());
        parts.iter().for_each(|part| buffer.extend_from_slice(part));
        Key(fixed(&digest::digest(&SHA256, &buffer)))
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
        fixed(&self.0.finish())
    }
}

fn fixed(digest: &digest::Digest) -> Digest {
    let mut bytes = Digest::default();
    for (to, from) in bytes.iter_mut().zip(digest.as_ref()) {
        *to = *from;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::policy::ObjectType;

    #[test]
    fn questions_whose_parts_read_alike_end_to_end_have_keys_of_their_own() {
        let visible = |kind, name| About::Visible { kind, name };
        let questions = [
            ("m", About::Member),
            ("m", About::RolesHeld),
            ("m?member", About::Member),
            ("m", visible(ObjectType::Table, "")),
            ("m", visible(ObjectType::Table, "a.b.c")),
            ("m", visible(ObjectType::View, "a.b.c")),
            ("mtable", visible(ObjectType::Table, "a.b.c")),
            ("m", visible(ObjectType::Table, "table\0a.b.c")),
            ("mtable\0", visible(ObjectType::Table, "a.b.c")),
            ("m", visible(ObjectType::Table, "\0a.b.c")),
            ("", visible(ObjectType::Table, "m")),
        ];
        let actors = [[1; 32], [2; 32]].map(|digest| Actor { caller: CallerId([0; 32]), digest });
        let keys: HashSet<Key> = actors
            .iter()
            .flat_map(|actor| questions.map(|(metalake, about)| actor.key(&Inquiry { metalake, about })))
            .collect();
        assert_eq!(keys.len(), 2 * questions.len());
    }
}
