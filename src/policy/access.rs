//! The visibility rules of a metalake: facts: gravitino 1.1 to 1.3, as one function over the rights at each level.

use super::file::Outputs;
use super::metalake::{Actor, Metalake, Rights};
use super::name::FullName;
use super::privilege::{ObjectType, Privilege, Privileges};

/// What is wanted of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    /// That the caller sees it.
    Visible,
    /// That the caller may write it: for outputs under `outputs: modify`.
    Modify,
}

/// What the rules found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Finding {
    /// The caller has a user row in the metalake.
    Member,
    /// The caller holds this very role.
    RoleHeld,
    /// The caller owns the object, or the level of that type above it.
    Owner(ObjectType),
    /// A role allows it, and none denies it.
    Granted(Privilege),
    /// None of these is allowed and not denied.
    Lacking(&'static [Privilege]),
}

/// The caller's rights on metalake, catalog and schema, each with those above it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Above {
    owns_metalake: bool,
    owns_catalog: bool,
    owns_schema: bool,
    allow: Privileges,
    deny: Privileges,
}

impl Need {
    /// What a metalake's `outputs` setting wants of an output.
    pub(super) fn of_output(outputs: Outputs) -> Self {
        match outputs {
            Outputs::Visible => Self::Visible,
            Outputs::Modify => Self::Modify,
        }
    }
}

impl Finding {
    pub(super) fn allows(self) -> bool {
        match self {
            Self::Member | Self::RoleHeld | Self::Owner(_) | Self::Granted(_) => true,
            Self::Lacking(_) => false,
        }
    }
}

impl Above {
    /// Rights on everything above an object of three levels, or on a schema itself.
    pub(super) fn new(metalake: &Metalake, actor: &Actor, name: &FullName<'_>) -> Self {
        let mut above = Self::catalog(metalake, actor, name.catalog);
        for path in name.schema_paths(&metalake.separator) {
            let schema = metalake.rights_on(actor, ObjectType::Schema, path);
            above.owns_schema |= schema.owns;
            above.add(schema);
        }
        above
    }

    fn catalog(metalake: &Metalake, actor: &Actor, name: &str) -> Self {
        let top = metalake.rights(actor, Some(Metalake::ITSELF));
        let catalog = metalake.rights_on(actor, ObjectType::Catalog, name);
        let mut above = Self {
            owns_metalake: top.owns,
            owns_catalog: catalog.owns,
            owns_schema: false,
            allow: top.allow,
            deny: top.deny,
        };
        above.add(catalog);
        above
    }

    fn add(&mut self, rights: Rights) {
        self.allow = self.allow | rights.allow;
        self.deny = self.deny | rights.deny;
    }

    /// A privilege is granted only at levels where it counts, so one set over all levels is exact.
    fn has(&self, privilege: Privilege) -> bool {
        self.allow.contains(privilege) && !self.deny.contains(privilege)
    }

    fn first_of(&self, wanted: &'static [Privilege]) -> Finding {
        let held = wanted.iter().find(|privilege| self.has(**privilege));
        held.map_or(Finding::Lacking(wanted), |privilege| Finding::Granted(*privilege))
    }

    fn catalog_finding(&self) -> Finding {
        if self.owns_metalake {
            return Finding::Owner(ObjectType::Metalake);
        }
        if self.owns_catalog {
            return Finding::Owner(ObjectType::Catalog);
        }
        self.first_of(&[Privilege::UseCatalog])
    }

    fn schema_finding(&self) -> Finding {
        match self.catalog_finding() {
            Finding::Granted(_) if self.owns_schema => Finding::Owner(ObjectType::Schema),
            Finding::Granted(_) => self.first_of(&[Privilege::UseSchema]),
            decided @ (Finding::Member | Finding::RoleHeld | Finding::Owner(_) | Finding::Lacking(_)) => decided,
        }
    }

    /// The rule for an object in a schema.
    pub(super) fn object_finding(
        mut self,
        metalake: &Metalake,
        actor: &Actor,
        name: &FullName<'_>,
        need: Need,
    ) -> Finding {
        let schema = self.schema_finding();
        if !matches!(schema, Finding::Granted(_)) {
            return schema;
        }
        let kind = if name.kind == ObjectType::Column { ObjectType::Table } else { name.kind };
        let object = metalake.rights_on(actor, kind, name.object_path());
        if object.owns {
            return Finding::Owner(kind);
        }
        self.add(object);
        self.first_of(wanted(kind, need))
    }
}

/// The rule for an object of any type; the name is folded already.
pub(super) fn examine(metalake: &Metalake, actor: &Actor, name: &FullName<'_>, need: Need) -> Finding {
    match name.kind {
        ObjectType::Metalake => Finding::Member,
        ObjectType::Catalog => Above::catalog(metalake, actor, name.catalog).catalog_finding(),
        ObjectType::Schema => Above::new(metalake, actor, name).schema_finding(),
        ObjectType::Table
        | ObjectType::Column
        | ObjectType::View
        | ObjectType::Fileset
        | ObjectType::Model
        | ObjectType::Topic
        | ObjectType::Function => Above::new(metalake, actor, name).object_finding(metalake, actor, name, need),
        ObjectType::Tag | ObjectType::Policy | ObjectType::JobTemplate | ObjectType::Role => {
            examine_beside(metalake, actor, name)
        }
    }
}

/// Tags, policies, job templates and roles lie directly in the metalake.
fn examine_beside(metalake: &Metalake, actor: &Actor, name: &FullName<'_>) -> Finding {
    let top = metalake.rights(actor, Some(Metalake::ITSELF));
    let object = metalake.rights_on(actor, name.kind, name.text);
    if top.owns {
        return Finding::Owner(ObjectType::Metalake);
    }
    if object.owns {
        return Finding::Owner(name.kind);
    }
    if name.kind == ObjectType::Role && metalake.holds_role(actor, name.text) {
        return Finding::RoleHeld;
    }
    let mut rights =
        Above { owns_metalake: false, owns_catalog: false, owns_schema: false, allow: top.allow, deny: top.deny };
    rights.add(object);
    rights.first_of(wanted(name.kind, Need::Visible))
}

/// The privileges of which one is needed.
///
/// Under [`Need::Modify`] an owner of the object, its schema, catalog or metalake needs none of them. A view has no
/// privilege of its own for writing, so it wants the one that makes views; a model is written by linking a version.
const fn wanted(kind: ObjectType, need: Need) -> &'static [Privilege] {
    match (kind, need) {
        (ObjectType::Table | ObjectType::Column, Need::Visible) => &[Privilege::SelectTable, Privilege::ModifyTable],
        (ObjectType::Table | ObjectType::Column, Need::Modify) => &[Privilege::ModifyTable],
        (ObjectType::View, Need::Visible) => &[Privilege::SelectView, Privilege::CreateView],
        (ObjectType::View, Need::Modify) => &[Privilege::CreateView],
        (ObjectType::Fileset, Need::Visible) => &[Privilege::ReadFileset, Privilege::WriteFileset],
        (ObjectType::Fileset, Need::Modify) => &[Privilege::WriteFileset],
        (ObjectType::Topic, Need::Visible) => &[Privilege::ConsumeTopic, Privilege::ProduceTopic],
        (ObjectType::Topic, Need::Modify) => &[Privilege::ProduceTopic],
        (ObjectType::Model, Need::Visible) => &[Privilege::UseModel],
        (ObjectType::Model, Need::Modify) => &[Privilege::LinkModelVersion],
        (ObjectType::Function, Need::Visible) => &[Privilege::ExecuteFunction, Privilege::ModifyFunction],
        (ObjectType::Function, Need::Modify) => &[Privilege::ModifyFunction],
        (ObjectType::Tag, _) => &[Privilege::ApplyTag],
        (ObjectType::Policy, _) => &[Privilege::ApplyPolicy],
        (ObjectType::JobTemplate, _) => &[Privilege::UseJobTemplate],
        (ObjectType::Role, _) => &[Privilege::ManageGrants],
        (ObjectType::Catalog, _) => &[Privilege::UseCatalog],
        (ObjectType::Schema, _) => &[Privilege::UseSchema],
        (ObjectType::Metalake, _) => &[],
    }
}
