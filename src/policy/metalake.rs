//! One metalake, compiled: who is in it, which roles they hold, and what is granted on which object.
//!
//! The grants on an object lie side by side, ordered by role, so that a check costs one look-up a level and then only
//! what the smaller of two numbers costs: the caller's roles, or the roles that have a grant on that object.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::Identity;
use super::file::Outputs;
use super::name::FullName;
use super::objects::{ObjectId, Objects};
use super::privilege::{ObjectType, Privileges};
use super::roles::ActiveRoles;

pub(super) use self::builder::Builder;

mod builder;

/// Number of a role in its metalake.
pub(super) type RoleId = u32;

/// Who owns an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holder {
    User(u32),
    Group(u32),
}

/// What one role says about one object.
#[derive(Debug, Clone, Copy)]
pub(super) struct Grant {
    object: ObjectId,
    pub(super) role: RoleId,
    pub(super) allow: Privileges,
    pub(super) deny: Privileges,
}

/// A metalake that decisions are made in.
#[derive(Debug, Clone)]
pub(super) struct Metalake {
    pub(super) name: Arc<str>,
    pub(super) outputs: Outputs,
    pub(super) separator: Box<str>,
    lower_case: HashSet<Box<str>>,
    users: Members,
    groups: Members,
    roles: Vec<Box<str>>,
    role_ids: HashMap<Box<str>, RoleId>,
    objects: Objects,
    /// By object, as far as owned objects go.
    owners: Vec<Option<Holder>>,
    grants: Vec<Grant>,
    /// Where in `grants` an object's begin; one more than there are objects.
    starts: Vec<u32>,
}

/// Users or groups that have a row in the metalake, and the roles that each was given.
#[derive(Debug, Clone, Default)]
struct Members {
    ids: HashMap<Box<str>, u32>,
    roles: Vec<Vec<RoleId>>,
}

/// A caller inside one metalake.
#[derive(Debug, Clone)]
pub(super) struct Actor {
    user: u32,
    groups: Vec<u32>,
    /// Ordered, each once, with whether its allowances count.
    roles: Vec<(RoleId, bool)>,
    pub(super) narrowed: bool,
    /// What it owns though the metalake does not say so.
    besides: Vec<(ObjectType, Box<str>)>,
}

/// What a caller may do on an object and those above it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Rights {
    pub(super) allow: Privileges,
    pub(super) deny: Privileges,
    pub(super) owns: bool,
}

impl Metalake {
    /// The caller in this metalake; `None` without a user row, whatever its groups are (facts: gravitino 1.2 "Roles").
    pub(super) fn actor(&self, who: &Identity<'_>, active: &ActiveRoles) -> Option<Actor> {
        let user = self.users.id(who.subject)?;
        let groups: Vec<u32> = who.groups.iter().filter_map(|group| self.groups.id(group)).collect();
        let mut roles: Vec<(RoleId, bool)> = Vec::new();
        let granted = self.users.roles(user).iter().chain(groups.iter().flat_map(|group| self.groups.roles(*group)));
        roles.extend(granted.map(|role| (*role, *active == ActiveRoles::All)));
        roles.sort_unstable();
        roles.dedup();
        if let ActiveRoles::Named(names) = active {
            for id in names.iter().filter_map(|name| self.role_ids.get(name)) {
                if let Ok(at) = roles.binary_search(&(*id, false))
                    && let Some(role) = roles.get_mut(at)
                {
                    role.1 = true;
                }
            }
        }
        Some(Actor { user, groups, roles, narrowed: *active != ActiveRoles::All, besides: Vec::new() })
    }

    /// The active roles that the caller does not hold.
    pub(super) fn unheld<'r>(&self, actor: &Actor, active: &'r ActiveRoles) -> impl Iterator<Item = &'r str> {
        let names: &[Box<str>] = match active {
            ActiveRoles::Named(names) => names,
            ActiveRoles::All | ActiveRoles::None => &[],
        };
        names.iter().filter(|name| !self.role_ids.get(*name).is_some_and(|id| actor.holds(*id))).map(|name| &**name)
    }

    /// Whether the caller holds the role of that name, active or not.
    pub(super) fn holds_role(&self, actor: &Actor, name: &str) -> bool {
        self.role_ids.get(name).is_some_and(|id| actor.holds(*id))
    }

    /// The name with schema and below in small letters, in a catalog that ignores their case (facts: gravitino 2.3).
    pub(super) fn fold<'a>(&self, kind: ObjectType, name: &'a str) -> Cow<'a, str> {
        if self.lower_case.is_empty() || kind.levels() == 1 {
            return Cow::Borrowed(name);
        }
        let Some((catalog, rest)) = name.split_once('.') else { return Cow::Borrowed(name) };
        let lower = rest.bytes().all(|byte| byte.is_ascii() && !byte.is_ascii_uppercase());
        if lower || !self.lower_case.contains(catalog) {
            return Cow::Borrowed(name);
        }
        Cow::Owned(format!("{catalog}.{}", rest.to_lowercase()))
    }

    /// The object of that type and name, if the metalake knows it.
    pub(super) fn object(&self, kind: ObjectType, name: &str) -> Option<ObjectId> {
        self.objects.find(kind, name)
    }

    /// The metalake as an object: the first that a builder adds.
    pub(super) const ITSELF: ObjectId = 0;

    /// What the caller may do on one object, by itself. An unknown object gives nothing (facts: gravitino 1.3).
    pub(super) fn rights(&self, actor: &Actor, object: Option<ObjectId>) -> Rights {
        let Some(object) = object else { return Rights::default() };
        let owns = self.owners.get(object as usize).copied().flatten().is_some_and(|owner| actor.is(owner));
        let mut rights = Rights { owns, ..Rights::default() };
        self.each_grant(actor, object, |grant, active| {
            rights.deny = rights.deny | grant.deny;
            if active {
                rights.allow = rights.allow | grant.allow;
            }
        });
        rights
    }

    /// The same for the object of that type and name.
    pub(super) fn rights_on(&self, actor: &Actor, kind: ObjectType, name: &str) -> Rights {
        let rights = self.rights(actor, self.object(kind, name));
        let owns_besides = || actor.besides.iter().any(|(owned, text)| *owned == kind && **text == *name);
        Rights { owns: rights.owns || owns_besides(), ..rights }
    }

    /// Calls back with each grant on the object that a role of the caller has, and whether that role is active.
    pub(super) fn each_grant(&self, actor: &Actor, object: ObjectId, mut found: impl FnMut(&Grant, bool)) {
        let grants = self.grants_on(object);
        if grants.len() <= actor.roles.len() {
            for grant in grants {
                if let Ok(at) = actor.roles.binary_search_by_key(&grant.role, |(role, _)| *role)
                    && let Some((_, active)) = actor.roles.get(at)
                {
                    found(grant, *active);
                }
            }
            return;
        }
        for (role, active) in &actor.roles {
            if let Ok(at) = grants.binary_search_by_key(role, |grant| grant.role)
                && let Some(grant) = grants.get(at)
            {
                found(grant, *active);
            }
        }
    }

    /// A role's name.
    pub(super) fn role_name(&self, role: RoleId) -> &str {
        self.roles.get(role as usize).map(|name| &**name).unwrap_or_default()
    }

    /// The objects that a name stands on, from the metalake down, with the level that each is.
    pub(super) fn levels(&self, name: &FullName<'_>) -> Vec<(ObjectType, ObjectId)> {
        let mut levels: Vec<Option<(ObjectType, ObjectId)>> = vec![Some((ObjectType::Metalake, Self::ITSELF))];
        let mut push = |kind, text| levels.push(self.object(kind, text).map(|id| (kind, id)));
        if name.kind.levels() > 1 {
            push(ObjectType::Catalog, name.catalog);
            for schema in name.schema_paths(&self.separator) {
                push(ObjectType::Schema, schema);
            }
        }
        match name.kind {
            ObjectType::Metalake | ObjectType::Schema => {}
            ObjectType::Column => push(ObjectType::Table, name.object_path()),
            ObjectType::Catalog
            | ObjectType::Table
            | ObjectType::View
            | ObjectType::Fileset
            | ObjectType::Model
            | ObjectType::Topic
            | ObjectType::Function
            | ObjectType::Tag
            | ObjectType::Policy
            | ObjectType::JobTemplate
            | ObjectType::Role => push(name.kind, name.text),
        }
        levels.into_iter().flatten().collect()
    }

    /// An object as policy files write it, such as `table lake.sales.orders`.
    pub(super) fn object_text(&self, object: ObjectId) -> String {
        match self.objects.get(object) {
            Some((ObjectType::Metalake, _)) | None => format!("metalake {}", self.name),
            Some((kind, name)) => format!("{} {name}", kind.word()),
        }
    }

    /// Grants in all roles together.
    pub(super) fn grant_count(&self) -> usize {
        self.grants.len()
    }

    fn grants_on(&self, object: ObjectId) -> &[Grant] {
        let at = object as usize;
        let (Some(from), Some(to)) = (self.starts.get(at), self.starts.get(at + 1)) else { return &[] };
        self.grants.get(*from as usize..*to as usize).unwrap_or_default()
    }
}

impl Actor {
    /// The same caller, that owns these too.
    pub(super) fn owning(&self, objects: &[(ObjectType, &str)]) -> Self {
        let besides = objects.iter().map(|(kind, name)| (*kind, (*name).into())).collect();
        Self { besides, ..self.clone() }
    }

    fn holds(&self, role: RoleId) -> bool {
        self.roles.binary_search_by_key(&role, |(held, _)| *held).is_ok()
    }

    fn is(&self, holder: Holder) -> bool {
        match holder {
            Holder::User(user) => user == self.user,
            Holder::Group(group) => self.groups.contains(&group),
        }
    }
}

impl Members {
    fn id(&self, name: &str) -> Option<u32> {
        self.ids.get(name).copied()
    }

    fn roles(&self, id: u32) -> &[RoleId] {
        self.roles.get(id as usize).map(Vec::as_slice).unwrap_or_default()
    }

    fn add(&mut self, name: &str) -> u32 {
        if let Some(id) = self.id(name) {
            return id;
        }
        let id = u32::try_from(self.roles.len()).unwrap_or(u32::MAX);
        self.ids.insert(name.into(), id);
        self.roles.push(Vec::new());
        id
    }

    fn give(&mut self, id: u32, role: RoleId) {
        if let Some(roles) = self.roles.get_mut(id as usize) {
            roles.push(role);
        }
    }
}
