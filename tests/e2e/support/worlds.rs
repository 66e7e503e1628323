//! Recorded worlds of access rules, and the answers of a Gravitino server that holds one, in the recorded shapes. A recorded
//! verdict is answered as it was recorded; what was not asked then is answered by the gate's evaluator, which the recorded
//! verdicts prove.
//!
//! Used by the tests of the whole gate and by those of its Gravitino source.

use std::collections::HashMap;
use std::io::Read as _;
use std::sync::Arc;

use flate2::read::GzDecoder;
use serde_json::{Value, json};

use lineage_gate::policy::file::{
    GrantShape, HolderShape, MetalakeShape, Outputs, OwnerShape, PolicyFile, PrivilegeList, RoleShape,
};
use lineage_gate::policy::{ActiveRoles, Identity, ObjectType, Privilege, Source, World, compile, sees};

/// The service user that snapshots are read as.
pub(crate) const SERVICE: &str = "service";

/// A version of the server, as far as its answers differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    V1_3,
    Main,
}

/// A recorded world.
pub(crate) struct Recorded {
    pub(crate) value: Value,
    pub(crate) world: World,
    pub(crate) version: Version,
    verdicts: HashMap<(usize, String, String), u16>,
    /// Roles that nobody may read.
    pub(crate) hidden_roles: Vec<String>,
}

pub(crate) fn recorded(version: Version) -> Vec<Recorded> {
    let packed: &[u8] = match version {
        Version::V1_3 => include_bytes!("../../data/gravitino-worlds-1.3.0.jsonl.gz"),
        Version::Main => include_bytes!("../../data/gravitino-worlds-main.jsonl.gz"),
    };
    let mut text = String::new();
    GzDecoder::new(packed).read_to_string(&mut text).expect("gzip of text");
    text.lines().map(|line| Recorded::new(serde_json::from_str(line).expect("a world"), version)).collect()
}

pub(crate) fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().map(|text| text.as_str().expect("text").to_owned()).collect()
}

fn text(value: &Value) -> String {
    value.as_str().expect("text").to_owned()
}

fn privileges(value: &Value) -> PrivilegeList {
    let known = texts(value).iter().map(|name| Privilege::parse(name).expect("a privilege")).collect();
    PrivilegeList { known, unknown: Vec::new() }
}

fn error(status: u16, code: u32, kind: &str, message: &str) -> (u16, Value) {
    (status, json!({ "code": code, "type": kind, "message": message, "stack": [format!("x.{kind}: {message}")] }))
}

fn forbidden() -> (u16, Value) {
    (403, json!({ "code": 1008, "type": "ForbiddenException", "message": "no" }))
}

impl Recorded {
    pub(crate) fn new(value: Value, version: Version) -> Self {
        let shape = shape(&value);
        let policy = PolicyFile { metalakes: vec![shape], namespaces: Vec::new() };
        let world = compile(vec![Source { file: "world".into(), policy }]).expect("a world");
        let verdict = |verdict: &Value| {
            let (at, status) = (verdict[0].as_u64().expect("a caller"), verdict[3].as_u64().expect("a status"));
            ((at as usize, text(&verdict[1]), text(&verdict[2])), status as u16)
        };
        let verdicts = value["verdicts"].as_array().into_iter().flatten().map(verdict).collect();
        Self { value, world, version, verdicts, hidden_roles: Vec::new() }
    }

    pub(crate) fn metalake(&self) -> Arc<str> {
        text(&self.value["metalake"]).into()
    }

    /// Name and groups of a caller.
    pub(crate) fn caller(&self, at: usize) -> (String, Vec<Arc<str>>) {
        let caller = &self.value["callers"][at];
        (text(&caller["user"]), texts(&caller["groups"]).into_iter().map(Arc::from).collect())
    }

    /// What the evaluator says, which equals what the real server said.
    pub(crate) fn sees(&self, at: usize, roles: &ActiveRoles, kind: ObjectType, name: &str) -> bool {
        let (user, groups) = self.caller(at);
        let who = Identity { subject: &user, groups: &groups };
        sees(&self.world, &who, roles, &self.metalake(), (kind, name)).expect("a name")
    }

    fn users(&self) -> Vec<String> {
        let mut users = texts(&self.value["users"]);
        if !users.contains(&"admin".to_owned()) {
            users.push("admin".to_owned());
        }
        users
    }

    pub(crate) fn direct_roles(&self, list: &str, name: &str) -> Vec<String> {
        let roles = self.value["roles"].as_array().expect("roles").iter();
        roles
            .filter(|role| texts(&role[list]).iter().any(|held| held == name))
            .map(|role| text(&role["name"]))
            .collect()
    }

    fn visible_roles(&self, at: usize) -> Vec<String> {
        let (user, groups) = self.caller(at);
        let known = texts(&self.value["groups"]);
        let mut roles = self.direct_roles("users", &user);
        for group in groups.iter().filter(|group| known.iter().any(|known| **known == ***group)) {
            roles.extend(self.direct_roles("groups", group));
        }
        roles.sort();
        roles.dedup();
        roles
    }

    fn role(&self, name: &str) -> (u16, Value) {
        if self.hidden_roles.iter().any(|hidden| hidden == name) {
            return forbidden();
        }
        if name == SERVICE {
            let manages = ["manage_users", "manage_groups", "manage_grants"]
                .map(|name| json!({ "name": name, "condition": "allow" }));
            let objects = json!([{ "type": "metalake", "fullName": self.metalake(), "privileges": manages }]);
            return (
                200,
                json!({ "code": 0, "role": { "name": name, "properties": {}, "securableObjects": objects } }),
            );
        }
        let roles = self.value["roles"].as_array().expect("roles");
        let Some(role) = roles.iter().find(|role| role["name"] == name) else {
            return error(404, 1003, "NoSuchRoleException", name);
        };
        let object = |grant: &Value| {
            let list = |condition: &str| {
                let names = texts(&grant[condition]).into_iter();
                names.map(|name| json!({ "name": name.to_lowercase(), "condition": condition })).collect::<Vec<_>>()
            };
            let kind = text(&grant["type"]).to_lowercase();
            let privileges = [list("allow"), list("deny")].concat();
            json!({ "type": kind, "fullName": grant["fullName"], "privileges": privileges })
        };
        let objects: Vec<Value> = role["grants"].as_array().expect("grants").iter().map(object).collect();
        (200, json!({ "code": 0, "role": { "name": name, "properties": {}, "securableObjects": objects } }))
    }

    fn member(&self, list: &str, name: &str) -> Value {
        if list == "users" && name == SERVICE {
            return json!({ "name": name, "roles": [SERVICE] });
        }
        json!({ "name": name, "roles": self.direct_roles(list, name), "audit": {} })
    }

    fn created(&self, kind: &str, name: &str) -> bool {
        let created = self.value["created"].as_array().expect("created");
        created.iter().any(|object| object[0] == kind && object[1] == name)
    }

    /// Who owns what exists: `admin` where nobody else does.
    fn owner(&self, kind: ObjectType, name: &str) -> (u16, Value) {
        if kind == ObjectType::Metalake {
            let owner = &self.value["owner"];
            let kind = if owner["group"].is_string() { "group" } else { "user" };
            return (200, json!({ "code": 0, "owner": { "name": owner[kind], "type": kind } }));
        }
        if !self.created(kind.name(), name) {
            return error(404, 1003, "NoSuchMetadataObjectException", name);
        }
        let listed = self.value["owners"].as_array().expect("owners").iter();
        let owner = listed.clone().find(|owner| owner["type"] == kind.name() && owner["fullName"] == name);
        let (name, kind) = match owner {
            Some(owner) if owner["group"].is_string() => (text(&owner["group"]), "group"),
            Some(owner) => (text(&owner["user"]), "user"),
            None => ("admin".to_owned(), "user"),
        };
        (200, json!({ "code": 0, "owner": { "name": name, "type": kind } }))
    }

    fn owners(&self, at: Option<usize>, roles: &ActiveRoles, kind: ObjectType, name: &str) -> (u16, Value) {
        let Some(at) = at else { return self.owner(kind, name) };
        let roles = if self.version == Version::Main { roles } else { &ActiveRoles::All };
        let sees = |kind, name: &str| self.sees(at, roles, kind, name);
        let (user, _) = self.caller(at);
        if let ActiveRoles::Named(named) = roles {
            let held = self.visible_roles(at);
            if let Some(missing) = named.iter().find(|name| !held.iter().any(|held| **held == ***name)) {
                let message = format!("User '{user}' cannot assume active role(s) that are not held: [{missing}]");
                return (403, json!({ "code": 1008, "type": "ForbiddenException", "message": message }));
            }
        }
        let catalog = name.split('.').next().expect("a catalog");
        let below = kind != ObjectType::Catalog && kind != ObjectType::Metalake;
        let owns_metalake = sees(ObjectType::Role, "no such role") && self.value["owner"]["user"] == user.as_str();
        if self.version == Version::V1_3 && below && !self.created("CATALOG", catalog) && !owns_metalake {
            let metalake = self.metalake();
            let stack = format!("x [x.NoSuchCatalogException: Catalog {metalake}.{catalog} does not exist]");
            let message = "Authorization failed due to system internal error. Please contact administrator.";
            return (500, json!({ "code": 1002, "type": "RuntimeException", "message": message, "stack": [stack] }));
        }
        let recorded =
            self.verdicts.get(&(at, kind.name().to_owned(), name.to_owned())).filter(|_| *roles == ActiveRoles::All);
        match recorded {
            Some(403) => forbidden(),
            Some(500) => {
                let reason = format!("Catalog does not support {} operations", kind.name().to_lowercase());
                let metalake = self.metalake();
                let message = format!(
                    "Failed to operate object [metadata object {name}] operation [GET] under [{metalake}], reason [{reason}]"
                );
                let stack = format!("java.lang.UnsupportedOperationException: {reason}");
                (500, json!({ "code": 1002, "type": "RuntimeException", "message": message, "stack": [stack] }))
            }
            Some(_) => self.owner(kind, name),
            None if sees(kind, name) => self.owner(kind, name),
            None => forbidden(),
        }
    }

    /// The answer to a GET by the service user, or by one of the callers.
    pub(crate) fn answer(&self, path: &str, at: Option<usize>, roles: Option<&str>) -> (u16, Value) {
        let active = match ActiveRoles::parse(roles) {
            Err(fault) if self.version == Version::Main => {
                return error(400, 1001, "IllegalActiveRolesException", &fault.to_string());
            }
            other => other.unwrap_or_default(),
        };
        let me = at.map_or_else(|| SERVICE.to_owned(), |at| self.caller(at).0);
        let version = if self.version == Version::Main { "2.0.0-SNAPSHOT" } else { "1.3.0" };
        match path {
            "/api/version" => return (200, json!({ "code": 0, "version": { "version": version } })),
            "/api/authn/me" => return (200, json!({ "code": 0, "principal": me })),
            "/api/metalakes" => {
                return (200, json!({ "code": 0, "metalakes": [{ "name": self.metalake(), "comment": "" }] }));
            }
            _ => {}
        }
        let metalake = format!("/api/metalakes/{}/", self.metalake());
        let Some(rest) = path.strip_prefix(&*metalake) else { return forbidden() };
        if at.is_some() && !self.users().contains(&me) {
            return forbidden();
        }
        let parts: Vec<&str> = rest.split('/').collect();
        match parts[..] {
            ["owners", kind, name] => self.owners(at, &active, ObjectType::parse(kind).expect("a type"), name),
            ["users?details=true"] => {
                let users: Vec<Value> = self
                    .users()
                    .iter()
                    .map(String::as_str)
                    .chain([SERVICE])
                    .map(|name| self.member("users", name))
                    .collect();
                (200, json!({ "code": 0, "users": users }))
            }
            ["groups?details=true"] => {
                let groups = texts(&self.value["groups"]);
                let groups: Vec<Value> = groups.iter().map(|name| self.member("groups", name)).collect();
                (200, json!({ "code": 0, "groups": groups }))
            }
            ["users", name] if name == me => (200, json!({ "code": 0, "user": self.member("users", name) })),
            ["roles"] => (200, json!({ "code": 0, "names": at.map_or_else(Vec::new, |at| self.visible_roles(at)) })),
            ["roles", name] => self.role(name),
            ["catalogs?details=true"] => {
                let created = self.value["created"].as_array().expect("created").iter();
                let catalogs = created.filter(|object| object[0] == "CATALOG");
                let catalogs: Vec<Value> =
                    catalogs.map(|object| json!({ "name": object[1], "provider": "fileset" })).collect();
                (200, json!({ "code": 0, "catalogs": catalogs }))
            }
            _ => forbidden(),
        }
    }
}

fn shape(value: &Value) -> MetalakeShape {
    let on = |object: &Value| format!("{} {}", text(&object["type"]), text(&object["fullName"]));
    let owner = |object: &Value| OwnerShape {
        on: on(object),
        user: object["user"].as_str().map(str::to_owned),
        group: object["group"].as_str().map(str::to_owned),
    };
    let mut owners: Vec<OwnerShape> = value["owners"].as_array().expect("owners").iter().map(owner).collect();
    let created = value["created"].as_array().expect("created");
    for object in created.iter().filter(|object| object[0] != "METALAKE") {
        let on = format!("{} {}", text(&object[0]), text(&object[1]));
        if !owners.iter().any(|owner| owner.on == on) {
            owners.push(OwnerShape { on, user: Some("admin".to_owned()), group: None });
        }
    }
    let grant = |grant: &Value| GrantShape {
        on: on(grant).into(),
        allow: privileges(&grant["allow"]),
        deny: privileges(&grant["deny"]),
    };
    let role = |role: &Value| RoleShape {
        name: text(&role["name"]),
        users: texts(&role["users"]),
        groups: texts(&role["groups"]),
        grants: role["grants"].as_array().expect("grants").iter().map(grant).collect(),
    };
    let mut users = texts(&value["users"]);
    users.push("admin".to_owned());
    MetalakeShape {
        name: text(&value["metalake"]),
        owner: serde_json::from_value::<HolderShape>(value["owner"].clone()).expect("an owner"),
        users,
        groups: texts(&value["groups"]),
        roles: value["roles"].as_array().expect("roles").iter().map(role).collect(),
        owners,
        lower_case_catalogs: Vec::new(),
        outputs: Outputs::Visible,
        schema_separator: ":".to_owned(),
        existing: None,
    }
}
