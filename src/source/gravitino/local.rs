//! What an old version cannot say, decided by the gate from what the caller itself may read: its own roles, and owners.
//!
//! A role that the caller sees is not always one that it holds: who owns a role or manages roles sees it too, and which
//! groups the server found in a token is not told. So each decision is made twice, once with all that is doubtful
//! against the caller, once with all of it in its favour. Where both agree that is the answer; else there is none.

use crate::policy::file::{GrantShape, HolderShape, MetalakeShape, Outputs, OwnerShape, PolicyFile, RoleShape};
use crate::policy::{ActiveRoles, Identity, ObjectType, Source, compile, sees};

use super::call::{As, Caller, Got, Owner};
use super::reading::Asked;
use super::world::{SEPARATOR, ancestors, grants_of, ignores_case, on};
use super::{Answer, MOST_LEVELS, Trouble};

/// Roles that are read for one decision. Who manages a metalake's roles sees all of them.
const MOST_ROLES: usize = 200;

/// Own roles of a caller.
struct Held {
    /// The name that the server knows the caller by.
    principal: String,
    /// Given to the user itself.
    direct: Vec<String>,
    /// Those that the caller sees: all that it holds, and maybe more.
    visible: Vec<String>,
}

/// A role that a caller holds, or may hold.
#[derive(Debug, Clone)]
struct HeldRole {
    certain: bool,
    active: bool,
    grants: Vec<GrantShape>,
}

/// What is known of a caller, and what may be.
#[derive(Debug, Default)]
struct Case {
    principal: String,
    roles: Vec<HeldRole>,
    /// What it owns, with whether that is certain.
    owned: Vec<(ObjectType, String, bool)>,
    lower_case: Vec<String>,
}

/// Whether the caller holds these roles.
pub(super) async fn roles_held(
    caller: &Caller,
    who: As<'_>,
    metalake: &str,
    names: &[Box<str>],
) -> Result<Answer, Trouble> {
    let held = held(caller, who, metalake).await?;
    let all = |of: &[String]| names.iter().all(|name| of.iter().any(|role| **role == **name));
    match (all(&held.direct), all(&held.visible)) {
        (true, _) => Ok(Answer::Yes),
        (false, false) => Ok(Answer::No),
        (false, true) => Err(undecided("it does not tell which roles the caller's groups hold")),
    }
}

/// Whether the caller still sees what it sees with all its roles, when it acts with fewer.
pub(super) async fn visible(
    caller: &Caller,
    who: As<'_>,
    asked: &Asked<'_>,
    roles: &ActiveRoles,
) -> Result<Answer, Trouble> {
    let mut levels = vec![(ObjectType::Metalake, asked.metalake)];
    levels.extend(ancestors(asked.kind, asked.name).take(MOST_LEVELS));
    if levels.len() > MOST_LEVELS {
        return Err(undecided("it is nested too deep to ask for all owners above it"));
    }
    levels.push((asked.kind, asked.name));
    let mut case = case(caller, who, asked.metalake, roles).await?;
    for (kind, name) in levels {
        match caller.owner_of(who, asked.metalake, (kind, name)).await? {
            Got::Found(owner) => case.note_owner(owner.as_ref(), kind, name.to_owned()),
            Got::Missing => {}
            Got::Forbidden => case.owned.push((kind, name.to_owned(), false)),
        }
    }
    let catalog = asked.name.split('.').next().unwrap_or_default();
    if let Got::Found(catalogs) = caller.catalogs(who, asked.metalake).await? {
        let lower = catalogs.into_iter().filter(|known| known.name == catalog && ignores_case(known));
        case.lower_case.extend(lower.map(|known| known.name));
    }
    case.answer(asked)
}

/// Whether the caller sees an object of a catalog that does not exist, where the server fails on the question.
///
/// Only rights on the metalake itself can count. The catalog is asked about on its own, which all versions can answer
/// (facts: gravitino-real 3.7).
pub(super) async fn in_missing_catalog(
    caller: &Caller,
    who: As<'_>,
    asked: &Asked<'_>,
    roles: &ActiveRoles,
) -> Result<Answer, Trouble> {
    let catalog = asked.name.split('.').next().unwrap_or_default();
    match caller.owner_of(who, asked.metalake, (ObjectType::Catalog, catalog)).await? {
        // Neither USE_CATALOG nor the metalake's ownership: no rule below can pass.
        Got::Forbidden => return Ok(Answer::No),
        Got::Missing => {}
        Got::Found(_) => return Err(undecided("a catalog that it called missing is there")),
    }
    let mut case = case(caller, who, asked.metalake, roles).await?;
    // An owning group of the caller would have passed the first rule, before the failure.
    match caller.owner_of(who, asked.metalake, (ObjectType::Metalake, asked.metalake)).await? {
        Got::Found(Some(owner)) if !owner.is_group() => {
            case.note_owner(Some(&owner), ObjectType::Metalake, asked.metalake.to_owned());
        }
        Got::Found(_) => {}
        Got::Missing | Got::Forbidden => return Err(undecided("it does not tell the metalake's owner")),
    }
    case.answer(asked)
}

async fn held(caller: &Caller, who: As<'_>, metalake: &str) -> Result<Held, Trouble> {
    let principal = caller.principal(who).await?;
    let direct = match caller.user(who, metalake, &principal).await? {
        Got::Found(user) => user.roles.ok_or_else(|| undecided("it does not tell the caller's own roles"))?,
        Got::Missing | Got::Forbidden => return Err(undecided("it does not let the caller read its own user")),
    };
    let mut visible = match caller.roles(who, metalake).await? {
        Got::Found(names) => names,
        Got::Missing | Got::Forbidden => return Err(undecided("it does not let the caller list its own roles")),
    };
    visible.extend(direct.iter().filter(|role| !visible.contains(role)).cloned().collect::<Vec<_>>());
    Ok(Held { principal, direct, visible })
}

async fn case(caller: &Caller, who: As<'_>, metalake: &str, active: &ActiveRoles) -> Result<Case, Trouble> {
    let held = held(caller, who, metalake).await?;
    if held.visible.len() > MOST_ROLES {
        return Err(undecided("the caller sees too many roles to tell which it holds"));
    }
    let mut roles = Vec::with_capacity(held.visible.len());
    for name in &held.visible {
        let unreadable = || undecided(&format!("role `{name}` of the caller cannot be read"));
        let Got::Found(role) = caller.role(who, metalake, name).await? else { return Err(unreadable()) };
        let grants = grants_of(&role, metalake).map_err(|_| unreadable())?;
        let active = match active {
            ActiveRoles::All => true,
            ActiveRoles::None => false,
            ActiveRoles::Named(names) => names.iter().any(|active| **active == **name),
        };
        roles.push(HeldRole { certain: held.direct.contains(name), active, grants });
    }
    Ok(Case { principal: held.principal, roles, ..Case::default() })
}

impl Case {
    fn note_owner(&mut self, owner: Option<&Owner>, kind: ObjectType, name: String) {
        match owner {
            Some(owner) if owner.is_group() => self.owned.push((kind, name, false)),
            Some(owner) if owner.name == self.principal => self.owned.push((kind, name, true)),
            Some(_) | None => {}
        }
    }

    fn answer(&self, asked: &Asked<'_>) -> Result<Answer, Trouble> {
        match (self.sees(asked, false)?, self.sees(asked, true)?) {
            (true, true) => Ok(Answer::Yes),
            (false, false) => Ok(Answer::No),
            (true, false) | (false, true) => {
                Err(undecided("which of the caller's groups own something or hold roles is not told"))
            }
        }
    }

    /// The decision with all that is doubtful taken in the caller's favour, or against it.
    fn sees(&self, asked: &Asked<'_>, in_favour: bool) -> Result<bool, Trouble> {
        let owns =
            |(kind, _, certain): &&(ObjectType, String, bool)| *kind != ObjectType::Metalake && (*certain || in_favour);
        let owns_metalake =
            self.owned.iter().any(|(kind, _, certain)| *kind == ObjectType::Metalake && (*certain || in_favour));
        let owner = if owns_metalake { HolderShape::User(self.principal.clone()) } else { HolderShape::Nobody };
        let owners = self.owned.iter().filter(owns).map(|(kind, name, _)| OwnerShape {
            on: on(*kind, name),
            user: Some(self.principal.clone()),
            group: None,
        });
        let shape = MetalakeShape {
            name: asked.metalake.to_owned(),
            owner,
            users: vec![self.principal.clone()],
            groups: Vec::new(),
            roles: self.roles.iter().enumerate().map(|(at, role)| self.role(at, role, in_favour)).collect(),
            owners: owners.collect(),
            lower_case_catalogs: self.lower_case.clone(),
            outputs: Outputs::Visible,
            schema_separator: SEPARATOR.to_owned(),
            existing: None,
        };
        let policy = PolicyFile { metalakes: vec![shape], namespaces: Vec::new() };
        let world = compile(vec![Source { file: "roles".into(), policy }])
            .map_err(|_| undecided("the caller's roles make no sense to the gate"))?;
        let who = Identity { subject: &self.principal, groups: &[] };
        sees(&world, &who, &ActiveRoles::All, asked.metalake, (asked.kind, asked.name))
            .map_err(|fault| undecided(&fault.to_string()))
    }

    fn role(&self, at: usize, role: &HeldRole, in_favour: bool) -> RoleShape {
        let allows = role.active && (role.certain || in_favour);
        let denies = role.certain || !in_favour;
        let grants = role.grants.iter().cloned().map(|mut grant| {
            if !allows {
                grant.allow = Default::default();
            }
            if !denies {
                grant.deny = Default::default();
            }
            grant
        });
        let grants = grants.filter(|grant| !grant.allow.known.is_empty() || !grant.deny.known.is_empty());
        RoleShape {
            name: at.to_string(),
            users: vec![self.principal.clone()],
            groups: Vec::new(),
            grants: grants.collect(),
        }
    }
}

fn undecided(text: &str) -> Trouble {
    Trouble::Rejected(format!("this version of Gravitino cannot decide the question itself, and {text}"))
}
