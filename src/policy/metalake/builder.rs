//! Puts a metalake together.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use super::super::file::Outputs;
use super::super::objects::{Full, ObjectId, Objects};
use super::super::privilege::{ObjectType, Privileges};
use super::{Grant, Holder, Members, Metalake, RoleId};

/// Puts a metalake together. Everything that is named must have been added before: users and groups, then roles, then
/// grants and owners.
#[derive(Debug)]
pub(in crate::policy) struct Builder {
    metalake: Metalake,
    /// Whether only the objects that were added exist.
    closed: bool,
}

impl Builder {
    pub(in crate::policy) fn new(name: &str, separator: &str, outputs: Outputs) -> Result<Self, Full> {
        let mut objects = Objects::default();
        objects.intern(ObjectType::Metalake, "")?;
        let metalake = Metalake {
            name: name.into(),
            outputs,
            separator: separator.into(),
            lower_case: HashSet::new(),
            users: Members::default(),
            groups: Members::default(),
            roles: Vec::new(),
            role_ids: HashMap::new(),
            objects,
            owners: Vec::new(),
            grants: Vec::new(),
            starts: Vec::new(),
        };
        Ok(Self { metalake, closed: false })
    }

    pub(in crate::policy) fn lower_case(&mut self, catalog: &str) {
        self.metalake.lower_case.insert(catalog.into());
    }

    pub(in crate::policy) fn fold<'a>(&self, kind: ObjectType, name: &'a str) -> Cow<'a, str> {
        self.metalake.fold(kind, name)
    }

    /// From now on only these objects exist: grants on others, and their owners, are dropped.
    pub(in crate::policy) fn only<'n>(
        &mut self,
        existing: impl IntoIterator<Item = (ObjectType, &'n str)>,
    ) -> Result<(), Full> {
        for (kind, name) in existing {
            self.metalake.objects.intern(kind, &self.metalake.fold(kind, name))?;
        }
        self.closed = true;
        Ok(())
    }

    pub(in crate::policy) fn add_user(&mut self, name: &str) -> Holder {
        Holder::User(self.metalake.users.add(name))
    }

    pub(in crate::policy) fn add_group(&mut self, name: &str) -> Holder {
        Holder::Group(self.metalake.groups.add(name))
    }

    pub(in crate::policy) fn user(&self, name: &str) -> Option<Holder> {
        self.metalake.users.id(name).map(Holder::User)
    }

    pub(in crate::policy) fn group(&self, name: &str) -> Option<Holder> {
        self.metalake.groups.id(name).map(Holder::Group)
    }

    pub(in crate::policy) fn has_role(&self, name: &str) -> bool {
        self.metalake.role_ids.contains_key(name)
    }

    pub(in crate::policy) fn add_role(&mut self, name: &str) -> RoleId {
        let id = RoleId::try_from(self.metalake.roles.len()).unwrap_or(RoleId::MAX);
        self.metalake.roles.push(name.into());
        self.metalake.role_ids.insert(name.into(), id);
        id
    }

    pub(in crate::policy) fn give(&mut self, role: RoleId, holder: Holder) {
        match holder {
            Holder::User(id) => self.metalake.users.give(id, role),
            Holder::Group(id) => self.metalake.groups.give(id, role),
        }
    }

    /// `name` is folded, and empty for the metalake itself.
    pub(in crate::policy) fn grant(
        &mut self,
        role: RoleId,
        on: (ObjectType, &str),
        allow: Privileges,
        deny: Privileges,
    ) -> Result<(), Full> {
        if let Some(object) = self.object(on)? {
            self.metalake.grants.push(Grant { object, role, allow, deny });
        }
        Ok(())
    }

    /// Whether the object had no owner before.
    pub(in crate::policy) fn own(&mut self, on: (ObjectType, &str), holder: Holder) -> Result<bool, Full> {
        let Some(object) = self.object(on)? else { return Ok(true) };
        let owners = &mut self.metalake.owners;
        if owners.len() <= object as usize {
            owners.resize(object as usize + 1, None);
        }
        let before = owners.get_mut(object as usize).and_then(|owner| owner.replace(holder));
        Ok(before.is_none())
    }

    pub(in crate::policy) fn finish(self) -> Metalake {
        let mut metalake = self.metalake;
        let grants = &mut metalake.grants;
        grants.sort_unstable_by_key(|grant| (grant.object, grant.role));
        grants.dedup_by(|next, kept| {
            let same = (next.object, next.role) == (kept.object, kept.role);
            if same {
                kept.allow = kept.allow | next.allow;
                kept.deny = kept.deny | next.deny;
            }
            same
        });
        grants.shrink_to_fit();
        metalake.starts = starts(grants, metalake.objects.len());
        metalake
    }

    fn object(&mut self, (kind, name): (ObjectType, &str)) -> Result<Option<ObjectId>, Full> {
        if self.closed {
            return Ok(self.metalake.objects.find(kind, name));
        }
        self.metalake.objects.intern(kind, name).map(Some)
    }
}

/// For each object the place of its first grant in the ordered list, and the list's end.
fn starts(grants: &[Grant], objects: usize) -> Vec<u32> {
    let mut starts = Vec::with_capacity(objects + 1);
    let mut at: usize = 0;
    for object in 0..=objects {
        while grants.get(at).is_some_and(|grant| (grant.object as usize) < object) {
            at += 1;
        }
        starts.push(u32::try_from(at).unwrap_or(u32::MAX));
    }
    starts
}
