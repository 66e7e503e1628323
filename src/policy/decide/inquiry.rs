//! Metalakes whose rules are not here: what the decision has to know of them, and what is known already.
//!
//! The decision stays one pure function. It looks for an answer wherever it needs one, goes on as if the missing ones
//! were a no, and lists them; whoever can ask the metalake's server asks, and has the event ruled on again.

use std::fmt;

use super::super::privilege::ObjectType;
use super::Judgement;
use crate::event::Role;

/// What the decision has to know of one caller, acting with its active roles, in one metalake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Inquiry<'e> {
    /// The metalake.
    pub metalake: &'e str,
    /// What about it.
    pub about: About<'e>,
}

/// What there is to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum About<'e> {
    /// Whether the caller has a user row.
    Member,
    /// Whether the caller holds all of its active roles.
    RolesHeld,
    /// Whether the caller sees an object. Its name resolves.
    Visible {
        /// The object's type.
        kind: ObjectType,
        /// Its full name, without the metalake.
        name: &'e str,
    },
}

/// What is known of metalakes whose rules are not here.
#[derive(Clone, Copy)]
pub struct Witness<'a> {
    /// Whether a namespace, found in a place of that role, is such a metalake. [`Role::Job`] asks for the event's own.
    pub governs: &'a dyn Fn(Role, &str) -> bool,
    /// What is known.
    pub answers: &'a dyn Fn(&Inquiry<'_>) -> Option<bool>,
}

/// What comes of a hearing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hearing<'e> {
    /// Enough was known.
    Judged(Judgement),
    /// Not before these are answered. One may be there twice.
    Open(Vec<Inquiry<'e>>),
}

impl Witness<'_> {
    /// There are no such metalakes.
    pub const NONE: Witness<'static> = Witness { governs: &|_, _| false, answers: &|_| None };
}

impl fmt::Debug for Witness<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Witness")
    }
}
