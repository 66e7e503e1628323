//! The rule that decided, for the operator: audit and `explain`. Never sent to a caller.

use std::fmt;
use std::sync::Arc;

use super::privilege::Privilege;

/// The rule that decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// The caller has a user row in the metalake.
    Member {
        /// The metalake.
        metalake: Arc<str>,
    },
    /// The caller has no user row in the metalake.
    NotMember {
        /// The metalake.
        metalake: Arc<str>,
    },
    /// The caller asked for roles that it does not hold.
    RolesNotHeld {
        /// The metalake.
        metalake: Arc<str>,
        /// Those roles.
        roles: Vec<String>,
    },
    /// The caller owns the object or one above it.
    Owner {
        /// The object, such as `fileset files.raw.uploads`.
        on: String,
    },
    /// The caller holds this very role.
    RoleHeld {
        /// The role.
        role: String,
    },
    /// A role allows it.
    Allows {
        /// The role.
        role: String,
        /// What it allows.
        privilege: Privilege,
        /// Where it was granted.
        on: String,
    },
    /// A role denies what another grant allows.
    Denies {
        /// The role.
        role: String,
        /// What it denies.
        privilege: Privilege,
        /// Where it was denied.
        on: String,
    },
    /// No role allows it.
    NoGrant {
        /// What is missing; one of them is enough.
        privileges: &'static [Privilege],
        /// Where it could have been granted.
        on: String,
        /// Whether the caller narrowed its roles itself.
        narrowed: bool,
    },
    /// A facet's dataset is visible as no type of object.
    NotVisibleAsAnyType {
        /// The full name.
        name: String,
    },
    /// The reference does not resolve: what the caller is told too.
    Unresolvable(String),
    /// A namespace rule allows it.
    RuleAllows {
        /// The rule.
        rule: Arc<str>,
    },
    /// A namespace rule denies it.
    RuleDenies {
        /// The rule.
        rule: Arc<str>,
    },
    /// No namespace rule allows it.
    NoRule {
        /// `job`, `input`, `output` or `facet`, or what is wrong with an alias.
        what: &'static str,
    },
    /// The metalake's own server says so.
    Source {
        /// The object, such as `table lake.sales.orders of metalake demo`.
        on: String,
        /// Whether the caller sees it.
        visible: bool,
    },
    /// The metalake's own server was not asked.
    Unanswered,
    /// A facet's reference that the configuration does not have judged.
    NotJudged,
}

impl Why {
    /// The kind of rule, in one word: for metrics.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Member { .. } => "member",
            Self::NotMember { .. } => "not_member",
            Self::RolesNotHeld { .. } => "roles_not_held",
            Self::Owner { .. } => "owner",
            Self::RoleHeld { .. } => "role_held",
            Self::Allows { .. } => "grant",
            Self::Denies { .. } => "denial",
            Self::NoGrant { .. } => "no_grant",
            Self::NotVisibleAsAnyType { .. } => "not_visible_as_any_type",
            Self::Unresolvable(_) => "unresolvable",
            Self::RuleAllows { .. } => "namespace_rule",
            Self::RuleDenies { .. } => "namespace_denial",
            Self::NoRule { .. } => "no_namespace_rule",
            Self::Source { .. } => "source",
            Self::Unanswered => "unanswered",
            Self::NotJudged => "not_judged",
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Member { metalake } => write!(f, "user row in metalake {metalake}"),
            Self::NotMember { metalake } => write!(f, "no user row in metalake {metalake}"),
            Self::RolesNotHeld { metalake, roles } => {
                write!(f, "active roles not held in metalake {metalake}: {}", roles.join(", "))
            }
            Self::Owner { on } => write!(f, "owner of {on}"),
            Self::RoleHeld { role } => write!(f, "holder of role {role}"),
            Self::Allows { role, privilege, on } => write!(f, "role {role} allows {privilege} on {on}"),
            Self::Denies { role, privilege, on } => write!(f, "role {role} denies {privilege} on {on}"),
            Self::NoGrant { privileges, on, narrowed } => {
                let names: Vec<&str> = privileges.iter().map(|privilege| privilege.name()).collect();
                write!(f, "no grant of {} on {on}", names.join(" or "))?;
                f.write_str(if *narrowed { " in the active roles" } else { "" })
            }
            Self::NotVisibleAsAnyType { name } => {
                write!(f, "{name} is not visible as a table, view, fileset, model or topic")
            }
            Self::Unresolvable(text) => f.write_str(text),
            Self::RuleAllows { rule } => write!(f, "rule {rule} allows it"),
            Self::RuleDenies { rule } => write!(f, "rule {rule} denies it"),
            Self::NoRule { what } => write!(f, "no namespace rule allows this {what} to the caller"),
            Self::Source { on, visible: true } => write!(f, "the policy source shows {on} to the caller"),
            Self::Source { on, visible: false } => write!(f, "the policy source does not show {on} to the caller"),
            Self::Unanswered => f.write_str("the policy source was not asked"),
            Self::NotJudged => f.write_str("not judged: `policy.facet_references` leaves it out"),
        }
    }
}
