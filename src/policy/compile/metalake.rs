//! One metalake's shape → [`Metalake`].

use super::super::file::{GrantShape, HolderShape, MetalakeShape, OwnerShape, RoleShape};
use super::super::metalake::{Builder, Holder, Metalake, RoleId};
use super::super::name::FullName;
use super::super::objects::Full;
use super::super::privilege::{ObjectType, Privileges};
use super::At;

/// The metalake, as far as it makes sense; what does not is reported.
pub(super) fn compile(index: usize, shape: MetalakeShape, at: &mut At<'_>) -> Option<Metalake> {
    let place = format!("metalakes[{index}]");
    match build(&place, shape, at) {
        Ok(metalake) => Some(metalake),
        Err(full) => {
            at.fault(|| place, full.to_string());
            None
        }
    }
}

fn build(place: &str, shape: MetalakeShape, at: &mut At<'_>) -> Result<Metalake, Full> {
    check_names(place, &shape, at);
    let mut builder = Builder::new(&shape.name, &shape.schema_separator, shape.outputs)?;
    for catalog in &shape.lower_case_catalogs {
        builder.lower_case(catalog);
    }
    if let Some(existing) = &shape.existing {
        builder.only(existing.iter().map(|(kind, name)| (*kind, name.as_str())))?;
    }
    for user in &shape.users {
        builder.add_user(user);
    }
    for group in &shape.groups {
        builder.add_group(group);
    }
    let owner = match &shape.owner {
        HolderShape::User(name) => Some(builder.add_user(name)),
        HolderShape::Group(name) => Some(builder.add_group(name)),
        HolderShape::Nobody => None,
    };
    if let Some(owner) = owner {
        builder.own((ObjectType::Metalake, ""), owner)?;
    }
    for (index, role) in shape.roles.into_iter().enumerate() {
        add_role(&format!("{place}.roles[{index}]"), &shape.name, role, &mut builder, at)?;
    }
    for (index, owner) in shape.owners.into_iter().enumerate() {
        add_owner(&format!("{place}.owners[{index}]"), &shape.name, &owner, &mut builder, at)?;
    }
    Ok(builder.finish())
}

fn check_names(place: &str, shape: &MetalakeShape, at: &mut At<'_>) {
    if shape.name.trim().is_empty() {
        at.fault(|| format!("{place}.name"), "a metalake needs a name");
    }
    if shape.schema_separator.is_empty() || shape.schema_separator.contains('.') {
        at.fault(
            || format!("{place}.schema_separator"),
            "a separator is at least one character, and no dot; default `:`",
        );
    }
    match &shape.owner {
        HolderShape::User(owner) | HolderShape::Group(owner) if owner.trim().is_empty() => {
            at.fault(|| format!("{place}.owner"), "the owner needs a name");
        }
        HolderShape::User(_) | HolderShape::Group(_) | HolderShape::Nobody => {}
    }
    let lists =
        [("users", &shape.users), ("groups", &shape.groups), ("lower_case_catalogs", &shape.lower_case_catalogs)];
    for (key, names) in lists {
        for (index, _) in names.iter().enumerate().filter(|(_, name)| name.trim().is_empty()) {
            at.fault(|| format!("{place}.{key}[{index}]"), "an empty name");
        }
    }
}

fn add_role(place: &str, metalake: &str, role: RoleShape, builder: &mut Builder, at: &mut At<'_>) -> Result<(), Full> {
    if role.name.trim().is_empty() {
        at.fault(|| format!("{place}.name"), "a role needs a name");
    }
    if builder.has_role(&role.name) {
        at.fault(|| format!("{place}.name"), format!("role `{}` stands in this metalake already", role.name));
        return Ok(());
    }
    let id = builder.add_role(&role.name);
    for (index, user) in role.users.iter().enumerate() {
        let message = || format!("`{user}` is no user of metalake `{metalake}`: add it to `users`");
        match builder.user(user) {
            Some(holder) => builder.give(id, holder),
            None => at.fault(|| format!("{place}.users[{index}]"), message()),
        }
    }
    for (index, group) in role.groups.iter().enumerate() {
        let message = || format!("`{group}` is no group of metalake `{metalake}`: add it to `groups`");
        match builder.group(group) {
            Some(holder) => builder.give(id, holder),
            None => at.fault(|| format!("{place}.groups[{index}]"), message()),
        }
    }
    for (index, grant) in role.grants.into_iter().enumerate() {
        let grant_place = || format!("{place}.grants[{index}]");
        add_grant(grant_place, metalake, id, &grant, builder, at)?;
    }
    Ok(())
}

fn add_grant(
    place: impl Fn() -> String,
    metalake: &str,
    role: RoleId,
    grant: &GrantShape,
    builder: &mut Builder,
    at: &mut At<'_>,
) -> Result<(), Full> {
    for (key, list) in [("allow", &grant.allow), ("deny", &grant.deny)] {
        for name in &list.unknown {
            at.fault(|| format!("{}.{key}", place()), format!("`{name}` is no privilege of Gravitino"));
        }
    }
    let (kind, name) = match parse_object(&grant.on, metalake) {
        Ok(object) => object,
        Err(message) => {
            at.fault(|| format!("{}.on", place()), message);
            return Ok(());
        }
    };
    check_grantable(&place, kind, grant.allow.known | grant.deny.known, at);
    if grant.allow.known.is_empty() && grant.deny.known.is_empty() {
        if grant.allow.unknown.is_empty() && grant.deny.unknown.is_empty() {
            at.fault(&place, "nothing is allowed or denied here: write `allow` or `deny`");
        }
        return Ok(());
    }
    let name = builder.fold(kind, name).into_owned();
    builder.grant(role, (kind, &name), grant.allow.known, grant.deny.known)
}

fn check_grantable(place: impl Fn() -> String, kind: ObjectType, privileges: Privileges, at: &mut At<'_>) {
    for privilege in privileges.iter().filter(|privilege| !privilege.grantable_on(kind)) {
        let levels: Vec<&str> =
            ObjectType::ALL.into_iter().filter(|kind| privilege.grantable_on(*kind)).map(ObjectType::word).collect();
        let message = format!("{privilege} is not granted on a {}, only on: {}", kind.word(), levels.join(", "));
        at.fault(&place, message);
    }
}

fn add_owner(
    place: &str,
    metalake: &str,
    owner: &OwnerShape,
    builder: &mut Builder,
    at: &mut At<'_>,
) -> Result<(), Full> {
    let (kind, name) = match parse_object(&owner.on, metalake).and_then(|object| ownable(object, builder)) {
        Ok(object) => object,
        Err(message) => {
            at.fault(|| format!("{place}.on"), message);
            return Ok(());
        }
    };
    let holder = match owner_of(owner, metalake, builder) {
        Ok(holder) => holder,
        Err(message) => {
            at.fault(|| place.to_owned(), message);
            return Ok(());
        }
    };
    let name = builder.fold(kind, name).into_owned();
    if !builder.own((kind, &name), holder)? {
        at.fault(|| format!("{place}.on"), format!("{} {name} has an owner already: an object has one", kind.word()));
    }
    Ok(())
}

fn ownable<'n>((kind, name): (ObjectType, &'n str), builder: &Builder) -> Result<(ObjectType, &'n str), String> {
    if kind == ObjectType::Metalake {
        return Err("the metalake's owner is written as its `owner`".to_owned());
    }
    if kind == ObjectType::Column {
        return Err("a column has no owner of its own".to_owned());
    }
    if kind == ObjectType::Role && !builder.has_role(name) {
        return Err(format!("there is no role `{name}` in this metalake"));
    }
    Ok((kind, name))
}

fn owner_of(owner: &OwnerShape, metalake: &str, builder: &Builder) -> Result<Holder, String> {
    match (&owner.user, &owner.group) {
        (Some(user), None) => {
            builder.user(user).ok_or_else(|| format!("`{user}` is no user of metalake `{metalake}`: add it to `users`"))
        }
        (None, Some(group)) => builder
            .group(group)
            .ok_or_else(|| format!("`{group}` is no group of metalake `{metalake}`: add it to `groups`")),
        (None, None) | (Some(_), Some(_)) => Err("an owner is one user or one group".to_owned()),
    }
}

/// `TYPE FULL_NAME`, or `metalake` with or without its name, which comes back empty.
fn parse_object<'n>(text: &'n str, metalake: &str) -> Result<(ObjectType, &'n str), String> {
    let text = text.trim();
    let (word, name) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let name = name.trim_start();
    let Some(kind) = ObjectType::parse(word) else {
        let words = ObjectType::ALL.map(ObjectType::word).join(", ");
        return Err(format!("`{word}` is no type of object; write one of {words}, and a full name"));
    };
    if kind == ObjectType::Metalake {
        let ours = name.is_empty() || name == metalake;
        return ours.then_some((kind, "")).ok_or_else(|| format!("this is metalake `{metalake}`, not `{name}`"));
    }
    if kind == ObjectType::Catalog && name.contains('.') {
        return Err(format!("`{name}` has more than the one level of a catalog's name"));
    }
    FullName::parse(kind, name).map_err(|fault| format!("`{name}` is no name of a {}: {fault}", kind.word()))?;
    Ok((kind, name))
}
