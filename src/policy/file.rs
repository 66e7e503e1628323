//! The shape of a policy file: YAML, or JSON for big ones. Unknown keys are refused.
//!
//! What stands here is shape only; `compile` reports faults of meaning. The doc comments of this file are the
//! descriptions in the JSON Schema.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::privilege::{ObjectType, Privilege, Privileges};

/// A policy file. All policy files of a directory are one policy.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PolicyFile {
    /// Metalakes, with Gravitino's access rules.
    pub metalakes: Vec<MetalakeShape>,
    /// Rules for events whose job namespace is no metalake.
    pub namespaces: Vec<NamespaceRule>,
}

/// A metalake. The whole of it stands in one file.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MetalakeShape {
    /// The namespace of its jobs and datasets.
    pub name: String,
    /// Who owns it and sees everything in it. The owner is a member too.
    pub owner: HolderShape,
    /// Members. A caller that is not listed sees nothing, whatever its groups are.
    #[serde(default)]
    pub users: Vec<String>,
    /// Groups that count. A token's other groups are ignored.
    #[serde(default)]
    pub groups: Vec<String>,
    /// Roles: who holds them, and what they grant.
    #[serde(default)]
    pub roles: Vec<RoleShape>,
    /// Owners of objects. An owner sees the object whatever roles deny, but needs USE_CATALOG and USE_SCHEMA to get
    /// there.
    #[serde(default)]
    pub owners: Vec<OwnerShape>,
    /// Catalogs whose schema and table names ignore letter case, such as Hive's and Glue's.
    #[serde(default)]
    pub lower_case_catalogs: Vec<String>,
    /// What an output needs.
    #[serde(default)]
    pub outputs: Outputs,
    /// What stands between the levels of a nested schema's name.
    #[serde(default = "default_separator")]
    pub schema_separator: String,
    /// Not written in files: all objects that exist, where a source knows them. Grants on others, and their owners,
    /// then do not count. Without it an object exists by being named.
    #[serde(skip)]
    pub existing: Option<Vec<(ObjectType, String)>>,
}

/// What an output of an event needs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outputs {
    /// To be visible, as Gravitino's own rule says.
    #[default]
    Visible,
    /// Ownership, or MODIFY_TABLE, WRITE_FILESET, PRODUCE_TOPIC, CREATE_VIEW, LINK_MODEL_VERSION.
    Modify,
}

/// A user or a group.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HolderShape {
    /// A user's name.
    User(String),
    /// A group's name.
    Group(String),
    /// Not written in files: a source knows a metalake without an owner.
    #[serde(skip)]
    Nobody,
}

/// A role.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RoleShape {
    /// Its name.
    pub name: String,
    /// Users that hold it; each is listed in the metalake's `users`.
    #[serde(default)]
    pub users: Vec<String>,
    /// Groups that hold it; each is listed in the metalake's `groups`.
    #[serde(default)]
    pub groups: Vec<String>,
    /// What it allows and denies.
    #[serde(default)]
    pub grants: Vec<GrantShape>,
}

/// What a role allows and denies on an object and everything below it. A denial beats every allowance of the same
/// privilege, in any role, above and below.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GrantShape {
    /// A type and a full name, such as `catalog lake`, `schema lake.sales`, `table lake.sales.orders`; or `metalake`.
    pub on: Box<str>,
    /// Privileges that are allowed.
    #[serde(default)]
    pub allow: PrivilegeList,
    /// Privileges that are denied.
    #[serde(default)]
    pub deny: PrivilegeList,
}

/// Names of privileges.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PrivilegeList {
    /// Those that there are.
    pub known: Privileges,
    /// The others, as written.
    pub unknown: Vec<Box<str>>,
}

/// The owner of an object: exactly one of `user` and `group`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OwnerShape {
    /// A type and a full name, such as `fileset files.raw.uploads`.
    pub on: String,
    /// A user's name.
    #[serde(default)]
    pub user: Option<String>,
    /// A group's name.
    #[serde(default)]
    pub group: Option<String>,
}

/// A rule for jobs and datasets outside any metalake. In all names `*` stands for any run of characters.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NamespaceRule {
    /// Its name in logs and audit.
    pub name: String,
    /// Whom it is about.
    pub callers: Callers,
    /// The jobs it is about.
    pub jobs: Vec<Names>,
    /// Datasets that these jobs may read.
    #[serde(default)]
    pub inputs: Vec<Names>,
    /// Datasets that these jobs may write.
    #[serde(default)]
    pub outputs: Vec<Names>,
    /// Whether it allows or denies. A denial beats every allowance; what no rule allows is denied. A denial that lists
    /// neither inputs nor outputs denies the jobs themselves.
    pub effect: Effect,
}

/// Callers, by name or by group.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Callers {
    /// Names of users.
    pub users: Vec<String>,
    /// Names of groups.
    pub groups: Vec<String>,
}

/// Names in a namespace.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Names {
    /// The namespace. Whether it holds jobs or datasets, the rules then govern it: with `policy.gravitino.metalakes: all` a
    /// metalake of that name is no longer Gravitino's. A lone `*` takes none away.
    pub namespace: String,
    /// The names in it.
    pub names: Vec<String>,
}

/// Whether a rule allows or denies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// It allows.
    Allow,
    /// It denies.
    Deny,
}

/// How a policy file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `.yaml` and `.yml`.
    Yaml,
    /// `.json`.
    Json,
}

/// A file of the wrong shape.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ShapeError {
    /// From 1; 0 if the place is not known.
    pub line: u64,
    /// From 1; 0 if the place is not known.
    pub column: u64,
    /// What is wrong, and what would be accepted.
    pub message: String,
}

/// Reads a policy file.
///
/// # Errors
///
/// The first place that has the wrong shape.
pub fn parse(text: &str, format: Format) -> Result<PolicyFile, ShapeError> {
    match format {
        Format::Yaml => parse_yaml(text),
        Format::Json => parse_json(text),
    }
}

/// The JSON Schema of policy files, for editors.
pub fn json_schema() -> serde_json::Value {
    schemars::schema_for!(PolicyFile).to_value()
}

/// The parser's own bounds are for unknown senders; a policy file is the operator's, and may hold a million grants.
fn parse_yaml(text: &str) -> Result<PolicyFile, ShapeError> {
    let options = serde_saphyr::options! {
        with_snippet: false,
        budget: serde_saphyr::budget! {
            max_events: usize::MAX,
            max_nodes: usize::MAX,
            max_total_scalar_bytes: usize::MAX,
            max_total_comment_bytes: usize::MAX,
        },
    };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let place = error.location();
        ShapeError {
            line: place.map_or(0, |place| place.line()),
            column: place.map_or(0, |place| place.column()),
            message: in_plain_words(&without_place(&error.without_snippet().to_string())),
        }
    })
}

/// What the parser says of a wrong kind of value speaks of its own events, and of its options.
fn in_plain_words(message: &str) -> String {
    let plain = [
        ("expected sequence start", "expected a list, such as [a, b]"),
        ("expected mapping start", "expected keys and values, such as { name: a }"),
        (", set DuplicateKeyPolicy in Options if acceptable", ""),
        ("; use from_str_multiple or from_str_multiple_with_options", ": a policy file is one"),
    ];
    plain.iter().fold(message.to_owned(), |text, (theirs, ours)| text.replace(theirs, ours))
}

fn parse_json(text: &str) -> Result<PolicyFile, ShapeError> {
    serde_json::from_str(text).map_err(|error| ShapeError {
        line: error.line() as u64,
        column: error.column() as u64,
        message: without_place(&error.to_string()),
    })
}

/// Both parsers end their text with the place, which stands before it already.
fn without_place(text: &str) -> String {
    text.rsplit_once(" at line ").map_or(text, |(message, _)| message).to_owned()
}

fn default_separator() -> String {
    ":".to_owned()
}

impl<'de> Deserialize<'de> for PrivilegeList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(PrivilegeNames)
    }
}

struct PrivilegeNames;

impl<'de> Visitor<'de> for PrivilegeNames {
    type Value = PrivilegeList;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of privileges, such as [SELECT_TABLE]")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut names: A) -> Result<PrivilegeList, A::Error> {
        let mut list = PrivilegeList::default();
        while let Some(BorrowedText(name)) = names.next_element()? {
            match Privilege::parse(&name) {
                Some(privilege) => list.known = list.known.with(privilege),
                None => list.unknown.push(name.into()),
            }
        }
        Ok(list)
    }
}

/// A text that is borrowed from the file where that is possible.
#[derive(Deserialize)]
struct BorrowedText<'a>(#[serde(borrow)] Cow<'a, str>);

impl JsonSchema for PrivilegeList {
    fn schema_name() -> Cow<'static, str> {
        "PrivilegeList".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names: Vec<&str> = Privilege::ALL.into_iter().map(Privilege::name).collect();
        json_schema!({ "type": "array", "items": { "type": "string", "examples": names } })
    }
}

#[cfg(test)]
mod tests;
