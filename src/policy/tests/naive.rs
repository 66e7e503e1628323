//! A second evaluator, written from the facts (gravitino 1.1 to 1.3) and not from the product: slow, and as plain as they
//! are. Random worlds, random callers, random targets; not one verdict may differ.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::policy::file::{
    GrantShape, HolderShape, MetalakeShape, Outputs, OwnerShape, PolicyFile, PrivilegeList, RoleShape,
};
use crate::policy::{ObjectType, Privilege, sees};

const VERDICTS: usize = 1_000_000;

const PER_WORLD: usize = 500;

const USERS: [&str; 4] = ["u0", "u1", "u2", "u3"];

const GROUPS: [&str; 3] = ["g0", "g1", "g2"];

const CATALOGS: [&str; 2] = ["a", "b"];

/// The third is nested in the first.
const SCHEMAS: [&str; 3] = ["s", "t", "s:n"];

const NAMES: [&str; 2] = ["x", "y"];

const LEAVES: [&str; 5] = ["table", "view", "fileset", "model", "topic"];

/// Privileges that visibility asks for, and some that it never does.
const PRIVILEGES: [&str; 14] = [
    "USE_CATALOG",
    "USE_SCHEMA",
    "SELECT_TABLE",
    "MODIFY_TABLE",
    "SELECT_VIEW",
    "CREATE_VIEW",
    "READ_FILESET",
    "WRITE_FILESET",
    "USE_MODEL",
    "CONSUME_TOPIC",
    "PRODUCE_TOPIC",
    "CREATE_TABLE",
    "CREATE_SCHEMA",
    "MANAGE_GRANTS",
];

/// Marsaglia's xorshift: the same worlds every time.
struct Dice(u64);

/// A type and a full name; the metalake's name is empty.
type Object = (&'static str, String);

#[derive(Debug, Clone, PartialEq)]
enum Holder {
    User(&'static str),
    Group(&'static str),
}

#[derive(Debug)]
struct Role {
    users: Vec<&'static str>,
    groups: Vec<&'static str>,
    /// Object, privilege, and whether it is denied.
    entries: BTreeSet<(Object, &'static str, bool)>,
}

#[derive(Debug)]
struct Land {
    owner: Holder,
    users: Vec<&'static str>,
    groups: Vec<&'static str>,
    roles: Vec<Role>,
    owners: BTreeMap<Object, Holder>,
}

struct Asking<'a> {
    land: &'a Land,
    user: &'static str,
    groups: Vec<&'static str>,
    /// Numbers of the active roles; none means all.
    active: Option<Vec<usize>>,
}

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % bound
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// Each with that chance in a hundred.
    fn some<T: Copy>(&mut self, of: &[T], chance: usize) -> Vec<T> {
        of.iter().copied().filter(|_| self.below(100) < chance).collect()
    }

    fn holder(&mut self, land_groups: &[&'static str], users: &[&'static str]) -> Holder {
        if !land_groups.is_empty() && self.below(3) == 0 || users.is_empty() {
            return Holder::Group(self.one(if land_groups.is_empty() { &GROUPS } else { land_groups }));
        }
        Holder::User(self.one(users))
    }

    fn object(&mut self) -> Object {
        let (catalog, schema) = (self.one(&CATALOGS), self.one(&SCHEMAS));
        match self.below(8) {
            0 => ("metalake", String::new()),
            1 | 2 => ("catalog", catalog.to_owned()),
            3 | 4 => ("schema", format!("{catalog}.{schema}")),
            _ => self.leaf(),
        }
    }

    fn leaf(&mut self) -> Object {
        (self.one(&LEAVES), format!("{}.{}.{}", self.one(&CATALOGS), self.one(&SCHEMAS), self.one(&NAMES)))
    }

    fn land(&mut self) -> Land {
        let mut users = self.some(&USERS, 80);
        if users.is_empty() {
            users.push(USERS[0]);
        }
        let groups = self.some(&GROUPS, 70);
        let owner = self.holder(&groups, &users);
        let roles = (0..self.below(5)).map(|_| self.role(&users, &groups)).collect();
        let mut owners = BTreeMap::new();
        for _ in 0..self.below(7) {
            let object = self.object();
            if object.0 != "metalake" {
                let holder = self.holder(&groups, &users);
                owners.insert(object, holder);
            }
        }
        Land { owner, users, groups, roles, owners }
    }

    fn role(&mut self, users: &[&'static str], groups: &[&'static str]) -> Role {
        let mut entries = BTreeSet::new();
        for _ in 0..1 + self.below(12) {
            let (object, privilege) = (self.object(), self.one(&PRIVILEGES));
            let kind = ObjectType::parse(object.0).unwrap();
            if Privilege::parse(privilege).unwrap().grantable_on(kind) {
                entries.insert((object, privilege, self.below(6) == 0));
            }
        }
        Role { users: self.some(users, 50), groups: self.some(groups, 30), entries }
    }
}

impl Asking<'_> {
    fn is_member(&self) -> bool {
        self.land.users.contains(&self.user)
    }

    fn own_groups(&self) -> Vec<&'static str> {
        self.groups.iter().copied().filter(|group| self.land.groups.contains(group)).collect()
    }

    fn is(&self, holder: &Holder) -> bool {
        match holder {
            Holder::User(user) => self.user == *user,
            Holder::Group(group) => self.own_groups().contains(group),
        }
    }

    fn own(&self, object: &Object) -> bool {
        if object.0 == "metalake" {
            return self.is(&self.land.owner);
        }
        self.land.owners.get(object).is_some_and(|holder| self.is(holder))
    }

    fn holds(&self, role: &Role) -> bool {
        role.users.contains(&self.user) || self.own_groups().iter().any(|group| role.groups.contains(group))
    }

    /// ALLOW on any of the levels in an active role, and DENY on none of them in any role.
    fn has(&self, privilege: &'static str, levels: &[Object]) -> bool {
        let says = |role: &Role, denied| {
            self.holds(role) && levels.iter().any(|level| role.entries.contains(&(level.clone(), privilege, denied)))
        };
        let is_active = |at: usize| self.active.as_ref().is_none_or(|active| active.contains(&at));
        let roles = || self.land.roles.iter().enumerate();
        roles().any(|(at, role)| is_active(at) && says(role, false)) && !roles().any(|(_, role)| says(role, true))
    }

    /// The table of facts: gravitino 1.1.
    fn sees(&self, (kind, name): &Object) -> bool {
        if !self.is_member() {
            return false;
        }
        if *kind == "metalake" {
            return true;
        }
        let parts: Vec<&str> = name.split('.').collect();
        let metalake: Object = ("metalake", String::new());
        let catalog: Object = ("catalog", parts[0].to_owned());
        let uc = self.has("USE_CATALOG", &[metalake.clone(), catalog.clone()]);
        let top = self.own(&metalake) || self.own(&catalog);
        if *kind == "catalog" {
            return top || uc;
        }
        let schemas: Vec<Object> = match parts[1].split_once(':') {
            Some((outer, _)) => vec![outer, parts[1]],
            None => vec![parts[1]],
        }
        .into_iter()
        .map(|schema| ("schema", format!("{}.{schema}", parts[0])))
        .collect();
        let mut levels = vec![metalake, catalog];
        levels.extend(schemas.clone());
        let us = self.has("USE_SCHEMA", &levels);
        let own_schema = schemas.iter().any(|schema| self.own(schema));
        if *kind == "schema" {
            return top || uc && (own_schema || us);
        }
        let object: Object = (kind, name.clone());
        let (above, mut all) = (levels.clone(), levels);
        all.push(object.clone());
        let any = match *kind {
            "table" => self.has("SELECT_TABLE", &all) || self.has("MODIFY_TABLE", &all),
            "view" => self.has("SELECT_VIEW", &all) || self.has("CREATE_VIEW", &above),
            "fileset" => self.has("READ_FILESET", &all) || self.has("WRITE_FILESET", &all),
            "model" => self.has("USE_MODEL", &all),
            "topic" => self.has("CONSUME_TOPIC", &all) || self.has("PRODUCE_TOPIC", &all),
            other => panic!("{other}"),
        };
        top || own_schema && uc || uc && us && (self.own(&object) || any)
    }
}

fn written((kind, name): &Object) -> String {
    if name.is_empty() { format!("{kind} m") } else { format!("{kind} {name}") }
}

fn strings(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn compiled(land: &Land) -> World {
    let role = |(at, role): (usize, &Role)| {
        let mut grants: BTreeMap<&Object, [Vec<&str>; 2]> = BTreeMap::new();
        for (object, privilege, denied) in &role.entries {
            grants.entry(object).or_default()[usize::from(*denied)].push(privilege);
        }
        let list = |names: &[&str]| PrivilegeList {
            known: names.iter().map(|name| Privilege::parse(name).unwrap()).collect(),
            unknown: Vec::new(),
        };
        let grants = grants.iter().map(|(object, [allow, deny])| GrantShape {
            on: written(object).into(),
            allow: list(allow),
            deny: list(deny),
        });
        RoleShape {
            name: format!("r{at}"),
            users: strings(&role.users),
            groups: strings(&role.groups),
            grants: grants.collect(),
        }
    };
    let owner = |(object, holder): (&Object, &Holder)| {
        let (user, group) = match holder {
            Holder::User(user) => (Some((*user).to_owned()), None),
            Holder::Group(group) => (None, Some((*group).to_owned())),
        };
        OwnerShape { on: written(object), user, group }
    };
    let shape = MetalakeShape {
        name: "m".to_owned(),
        owner: match &land.owner {
            Holder::User(user) => HolderShape::User((*user).to_owned()),
            Holder::Group(group) => HolderShape::Group((*group).to_owned()),
        },
        users: strings(&land.users),
        groups: strings(&land.groups),
        roles: land.roles.iter().enumerate().map(role).collect(),
        owners: land.owners.iter().map(owner).collect(),
        lower_case_catalogs: Vec::new(),
        outputs: Outputs::Visible,
        schema_separator: ":".to_owned(),
        existing: None,
    };
    let policy = PolicyFile { metalakes: vec![shape], namespaces: Vec::new() };
    compile(vec![Source { file: "random".into(), policy }]).expect("a world without faults")
}

#[test]
fn a_second_evaluator_agrees_on_every_verdict_of_random_worlds() {
    let mut dice = Dice(0x2545_f491_4f6c_dd1d);
    let (mut asked, mut allowed) = (0, 0);
    while asked < VERDICTS {
        let land = dice.land();
        let world = compiled(&land);
        for _ in 0..PER_WORLD {
            let held = (0..land.roles.len()).collect::<Vec<_>>();
            let mut asking =
                Asking { land: &land, user: dice.one(&USERS), groups: dice.some(&GROUPS, 40), active: None };
            let held: Vec<usize> = held.into_iter().filter(|at| asking.holds(&land.roles[*at])).collect();
            let roles = match dice.below(4) {
                0 => {
                    asking.active = Some(Vec::new());
                    ActiveRoles::None
                }
                1 if !held.is_empty() => {
                    let active: Vec<usize> = vec![dice.one(&held)];
                    let text: Vec<String> = active.iter().map(|at| format!("r{at}")).collect();
                    asking.active = Some(active);
                    ActiveRoles::parse(Some(&text.join(","))).expect("roles")
                }
                _ => ActiveRoles::All,
            };
            let object = if dice.below(4) == 0 { dice.object() } else { dice.leaf() };
            let groups: Vec<Arc<str>> = asking.groups.iter().map(|group| Arc::from(*group)).collect();
            let who = Identity { subject: asking.user, groups: &groups };
            let name = if object.1.is_empty() { "m" } else { &object.1 };
            let kind = ObjectType::parse(object.0).expect("a type");
            let found = sees(&world, &who, &roles, "m", (kind, name)).expect("a name");
            let expected = asking.sees(&object);
            assert_eq!(found, expected, "{object:?} {} {:?} {roles:?} {land:#?}", asking.user, asking.groups);
            asked += 1;
            allowed += usize::from(found);
        }
    }
    assert!(allowed * 20 > asked && allowed * 20 < asked * 19, "{allowed} of {asked}: such worlds tell nothing");
}
