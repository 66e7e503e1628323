//! Rulings in words: which role, grant, denial or owner decided.

use crate::event::Reference;

use super::super::access::Finding;
use super::super::metalake::{Actor, Metalake};
use super::super::name::{FullName, dataset_type};
use super::super::privilege::{ObjectType, Privilege, Privileges};
use super::super::roles::ActiveRoles;
use super::super::rules::Verdict;
use super::super::why::Why;
use super::court::{Court, Ruling};

impl<'w> Court<'w, '_> {
    /// The ruling in words. `reference` is what it was about; the event itself, if nothing names its job.
    pub(super) fn why(&mut self, ruling: Ruling<'w>, reference: Option<&Reference>) -> Why {
        match ruling {
            Ruling::NotJudged => Why::NotJudged,
            Ruling::Member(metalake) => Why::Member { metalake: metalake.into() },
            Ruling::NotMember(metalake) => Why::NotMember { metalake: metalake.into() },
            Ruling::RolesNotHeld(metalake) => self.roles_not_held(metalake),
            Ruling::RolesNotHeldThere(metalake) => {
                let roles = match self.roles {
                    ActiveRoles::Named(names) => names.iter().map(|name| name.to_string()).collect(),
                    ActiveRoles::All | ActiveRoles::None => Vec::new(),
                };
                Why::RolesNotHeld { metalake: metalake.into(), roles }
            }
            Ruling::ObjectThere(metalake, kind, visible) => {
                let on = format!("{} {} of metalake {metalake}", kind.word(), name_of(reference));
                Why::Source { on, visible }
            }
            Ruling::Open(_) => Why::Unanswered,
            Ruling::Foreign(metalake) => {
                let path = path_of(reference);
                Why::Unresolvable(format!("{path}.namespace must match job.namespace '{metalake}'"))
            }
            Ruling::BadType => Why::Unresolvable(type_fault(reference)),
            Ruling::BadName(fault) => Why::Unresolvable(fault.to_string()),
            Ruling::BadFacetName(metalake) => Why::Unresolvable(format!(
                "{}.name must be a full name of metalake '{metalake}': catalog.schema.object",
                path_of(reference)
            )),
            Ruling::Object(metalake, kind, finding) => self.finding(metalake, kind, finding, reference),
            Ruling::NoType => Why::NotVisibleAsAnyType { name: name_of(reference).to_owned() },
            Ruling::Rule(Verdict::Allowed(rule), _) => Why::RuleAllows { rule: rule.name.clone() },
            Ruling::Rule(Verdict::Denied(rule), _) => Why::RuleDenies { rule: rule.name.clone() },
            Ruling::Rule(Verdict::NoRule, what) => Why::NoRule { what },
        }
    }

    fn roles_not_held(&mut self, metalake: &'w Metalake) -> Why {
        let roles = self.actor(metalake).map(|actor| metalake.unheld(&actor, self.roles).map(str::to_owned).collect());
        Why::RolesNotHeld { metalake: metalake.name.clone(), roles: roles.unwrap_or_default() }
    }

    fn finding(
        &mut self,
        metalake: &'w Metalake,
        kind: ObjectType,
        finding: Finding,
        reference: Option<&Reference>,
    ) -> Why {
        let folded = metalake.fold(kind, name_of(reference));
        let (Some(actor), Ok(name)) = (self.actor(metalake), FullName::parse(kind, &folded)) else {
            return Why::NotMember { metalake: metalake.name.clone() };
        };
        let told = Told { metalake, actor: &actor, name };
        match finding {
            Finding::Member => Why::Member { metalake: metalake.name.clone() },
            Finding::RoleHeld => Why::RoleHeld { role: name.text.to_owned() },
            Finding::Owner(level) => Why::Owner { on: told.owned(level) },
            Finding::Granted(privilege) => {
                let (role, on) = told.source(privilege, Side::Allow).unwrap_or_default();
                Why::Allows { role, privilege, on }
            }
            Finding::Lacking(privileges) => told.lacking(privileges),
        }
    }
}

/// Whether an allowance or a denial is looked for.
#[derive(Debug, Clone, Copy)]
enum Side {
    Allow,
    Deny,
}

/// Where the grants come from that a finding rests on.
struct Told<'a> {
    metalake: &'a Metalake,
    actor: &'a Actor,
    name: FullName<'a>,
}

impl Told<'_> {
    fn owned(&self, level: ObjectType) -> String {
        let mut levels = self.metalake.levels(&self.name).into_iter().filter(|(kind, _)| *kind == level);
        let owned = levels.find(|(_, object)| self.metalake.rights(self.actor, Some(*object)).owns);
        owned.map(|(_, object)| self.metalake.object_text(object)).unwrap_or_default()
    }

    /// Role and object of the first grant, from the metalake down, that allows or denies the privilege.
    fn source(&self, privilege: Privilege, side: Side) -> Option<(String, String)> {
        for (_, object) in self.metalake.levels(&self.name) {
            let mut found = None;
            self.metalake.each_grant(self.actor, object, |grant, active| {
                let said = match side {
                    Side::Allow if active => grant.allow,
                    Side::Allow => Privileges::default(),
                    Side::Deny => grant.deny,
                };
                if found.is_none() && said.contains(privilege) {
                    found = Some(grant.role);
                }
            });
            if let Some(role) = found {
                return Some((self.metalake.role_name(role).to_owned(), self.metalake.object_text(object)));
            }
        }
        None
    }

    fn lacking(&self, privileges: &'static [Privilege]) -> Why {
        for privilege in privileges {
            if self.source(*privilege, Side::Allow).is_some()
                && let Some((role, on)) = self.source(*privilege, Side::Deny)
            {
                return Why::Denies { role, privilege: *privilege, on };
            }
        }
        Why::NoGrant { privileges, on: self.grantable(privileges), narrowed: self.actor.narrowed }
    }

    /// The objects on which the missing privilege could be granted.
    fn grantable(&self, privileges: &[Privilege]) -> String {
        let FullName { kind, text, catalog, .. } = self.name;
        match privileges {
            [Privilege::UseCatalog] => format!("metalake or catalog {catalog}"),
            [Privilege::UseSchema] => {
                format!("metalake, catalog {catalog} or schema {}", self.name.schema_path())
            }
            _ => format!("{} {text} or above", kind.word()),
        }
    }
}

fn type_fault(reference: Option<&Reference>) -> String {
    let fault = reference.and_then(|reference| dataset_type(&reference.dataset_type).err());
    fault.map(|fault| fault.to_string()).unwrap_or_default()
}

fn name_of(reference: Option<&Reference>) -> &str {
    reference.map(|reference| &*reference.name).unwrap_or_default()
}

/// The place as the texts name it: Gravitino counts `inputs[0]`, without what stands around it.
fn path_of(reference: Option<&Reference>) -> &str {
    reference.map(|reference| &*reference.path).unwrap_or_default()
}
