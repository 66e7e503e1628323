//! What a caller may name: Gravitino's access rules for metalakes, and rules for all other namespaces.
//!
//! Pure: no I/O, no clock. [`file::parse`] reads the shape of a policy file, [`compile()`] makes a [`World`] out of all
//! files, [`judge`] decides about an event, [`explain`] tells the same for every reference of it. The rules are those of
//! facts: gravitino 1 and 2, as confirmed by real servers (gravitino-real): the recorded worlds of those are a test.

pub use self::compile::{Source, compile, compile_beside};
pub use self::decide::{About, Hearing, Inquiry, Witness, hear, holds_roles};
pub use self::decide::{Denied, Explanation, GovernedBy, Judgement, Refused, explain, judge, objections, sees};
pub use self::fault::{Fault, Place};
pub use self::name::NameFault;
pub use self::objects::Full;
pub use self::privilege::{ObjectType, Privilege, Privileges};
pub use self::roles::{ACTIVE_ROLES, ActiveRoles, MalformedRoles};
pub use self::viewer::Viewer;
pub use self::why::Why;
pub use self::world::{Extent, Governance, Identity, World};

pub mod file;

mod access;
mod compile;
mod decide;
mod fault;
mod metalake;
mod name;
mod objects;
mod pattern;
mod privilege;
mod roles;
mod rules;
mod viewer;
mod why;
mod world;

#[cfg(test)]
mod tests;
