//! What a policy knows, compiled once for many decisions.

use std::collections::HashMap;
use std::sync::Arc;

use super::metalake::Metalake;
use super::rules::Rules;

/// What a policy knows: metalakes and namespace rules. Never changes; a new policy is a new world.
///
/// A decision costs what the event's references and the caller's own roles and groups cost; it does not grow with the
/// number of grants, callers, metalakes or exact namespace rules.
#[derive(Debug, Clone, Default)]
pub struct World {
    pub(super) metalakes: HashMap<Arc<str>, Metalake>,
    pub(super) rules: Rules,
}

/// What governs a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Governance {
    /// It is a metalake of the policy.
    Metalake,
    /// A namespace rule names it, as one of jobs or of datasets.
    Rules,
}

/// The caller as policies see it, issuer prefixes included.
#[derive(Debug, Clone, Copy)]
pub struct Identity<'a> {
    /// The caller's name.
    pub subject: &'a str,
    /// The groups that the token names.
    pub groups: &'a [Arc<str>],
}

/// How much a policy holds, for logs and the admin page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Metalakes.
    pub metalakes: usize,
    /// Grants in all roles of all metalakes, one for each role and object.
    pub grants: usize,
    /// Namespace rules.
    pub rules: usize,
}

impl World {
    /// Whether that namespace is a metalake of the policy.
    pub fn is_metalake(&self, namespace: &str) -> bool {
        self.metalakes.contains_key(namespace)
    }

    /// What governs a namespace; `None` if the policy does not know it. A rule's lone `*` names no namespace.
    pub fn governs(&self, namespace: &str) -> Option<Governance> {
        if self.is_metalake(namespace) {
            return Some(Governance::Metalake);
        }
        self.rules.knows(namespace).then_some(Governance::Rules)
    }

    /// How much the policy holds.
    pub fn extent(&self) -> Extent {
        Extent {
            metalakes: self.metalakes.len(),
            grants: self.metalakes.values().map(Metalake::grant_count).sum(),
            rules: self.rules.len(),
        }
    }
}
