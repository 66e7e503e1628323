//! Gravitino's privileges, the types of object they are granted on, and where each may be granted
//! (facts: gravitino 1.2 "Grantable levels", 2.1).

use std::fmt;
use std::ops::BitOr;

/// A type of object that has a name in a metalake (facts: gravitino 2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum ObjectType {
    /// The metalake itself.
    Metalake,
    /// `catalog`.
    Catalog,
    /// `catalog.schema`.
    Schema,
    /// `catalog.schema.table`.
    Table,
    /// `catalog.schema.table.column`: visible as its table is.
    Column,
    /// `catalog.schema.view`.
    View,
    /// `catalog.schema.fileset`.
    Fileset,
    /// `catalog.schema.model`.
    Model,
    /// `catalog.schema.topic`.
    Topic,
    /// `catalog.schema.function`.
    Function,
    /// A tag.
    Tag,
    /// A policy.
    Policy,
    /// A job template.
    JobTemplate,
    /// A role.
    Role,
}

impl ObjectType {
    /// All types, in the order of their discriminants.
    pub const ALL: [Self; 14] = [
        Self::Metalake,
        Self::Catalog,
        Self::Schema,
        Self::Table,
        Self::Column,
        Self::View,
        Self::Fileset,
        Self::Model,
        Self::Topic,
        Self::Function,
        Self::Tag,
        Self::Policy,
        Self::JobTemplate,
        Self::Role,
    ];

    /// The type of this name, letter case ignored.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name().eq_ignore_ascii_case(name))
    }

    /// Gravitino's name of the type, in capitals.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Metalake => "METALAKE",
            Self::Catalog => "CATALOG",
            Self::Schema => "SCHEMA",
            Self::Table => "TABLE",
            Self::Column => "COLUMN",
            Self::View => "VIEW",
            Self::Fileset => "FILESET",
            Self::Model => "MODEL",
            Self::Topic => "TOPIC",
            Self::Function => "FUNCTION",
            Self::Tag => "TAG",
            Self::Policy => "POLICY",
            Self::JobTemplate => "JOB_TEMPLATE",
            Self::Role => "ROLE",
        }
    }

    /// The type as a word in small letters, as policy files write it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Metalake => "metalake",
            Self::Catalog => "catalog",
            Self::Schema => "schema",
            Self::Table => "table",
            Self::Column => "column",
            Self::View => "view",
            Self::Fileset => "fileset",
            Self::Model => "model",
            Self::Topic => "topic",
            Self::Function => "function",
            Self::Tag => "tag",
            Self::Policy => "policy",
            Self::JobTemplate => "job_template",
            Self::Role => "role",
        }
    }

    /// Levels of a full name of this type.
    pub const fn levels(self) -> usize {
        match self {
            Self::Metalake | Self::Catalog | Self::Tag | Self::Policy | Self::JobTemplate | Self::Role => 1,
            Self::Schema => 2,
            Self::Table | Self::View | Self::Fileset | Self::Model | Self::Topic | Self::Function => 3,
            Self::Column => 4,
        }
    }
}

/// A privilege. The deprecated names `CREATE_MODEL` and `CREATE_MODEL_VERSION` are read as what replaced them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
#[expect(missing_docs, reason = "the names are Gravitino's own and say what they allow")]
pub enum Privilege {
    CreateCatalog,
    UseCatalog,
    CreateSchema,
    UseSchema,
    CreateTable,
    ModifyTable,
    SelectTable,
    CreateView,
    SelectView,
    CreateFileset,
    WriteFileset,
    ReadFileset,
    CreateTopic,
    ProduceTopic,
    ConsumeTopic,
    RegisterModel,
    LinkModelVersion,
    UseModel,
    RegisterFunction,
    ExecuteFunction,
    ModifyFunction,
    ManageUsers,
    ManageGroups,
    CreateRole,
    ManageGrants,
    CreateTag,
    ApplyTag,
    CreatePolicy,
    ApplyPolicy,
    RegisterJobTemplate,
    UseJobTemplate,
    RunJob,
}

/// The types of object on which a privilege may be granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// The metalake only.
    Metalake,
    /// Metalake and catalog.
    Catalog,
    /// Metalake, catalog and schema.
    Schema,
    /// Metalake, catalog, schema, and objects of one type below it.
    Below(ObjectType),
    /// Metalake, and objects of one type directly in it.
    Beside(ObjectType),
}

impl Privilege {
    /// All privileges, in the order of their discriminants.
    pub const ALL: [Self; 32] = [
        Self::CreateCatalog,
        Self::UseCatalog,
        Self::CreateSchema,
        Self::UseSchema,
        Self::CreateTable,
        Self::ModifyTable,
        Self::SelectTable,
        Self::CreateView,
        Self::SelectView,
        Self::CreateFileset,
        Self::WriteFileset,
        Self::ReadFileset,
        Self::CreateTopic,
        Self::ProduceTopic,
        Self::ConsumeTopic,
        Self::RegisterModel,
        Self::LinkModelVersion,
        Self::UseModel,
        Self::RegisterFunction,
        Self::ExecuteFunction,
        Self::ModifyFunction,
        Self::ManageUsers,
        Self::ManageGroups,
        Self::CreateRole,
        Self::ManageGrants,
        Self::CreateTag,
        Self::ApplyTag,
        Self::CreatePolicy,
        Self::ApplyPolicy,
        Self::RegisterJobTemplate,
        Self::UseJobTemplate,
        Self::RunJob,
    ];

    /// The privilege of this name, letter case ignored, deprecated names included.
    pub fn parse(name: &str) -> Option<Self> {
        if name.eq_ignore_ascii_case("CREATE_MODEL") {
            return Some(Self::RegisterModel);
        }
        if name.eq_ignore_ascii_case("CREATE_MODEL_VERSION") {
            return Some(Self::LinkModelVersion);
        }
        Self::ALL.into_iter().find(|privilege| privilege.name().eq_ignore_ascii_case(name))
    }

    /// Gravitino's name of the privilege.
    pub const fn name(self) -> &'static str {
        match self {
            Self::CreateCatalog => "CREATE_CATALOG",
            Self::UseCatalog => "USE_CATALOG",
            Self::CreateSchema => "CREATE_SCHEMA",
            Self::UseSchema => "USE_SCHEMA",
            Self::CreateTable => "CREATE_TABLE",
            Self::ModifyTable => "MODIFY_TABLE",
            Self::SelectTable => "SELECT_TABLE",
            Self::CreateView => "CREATE_VIEW",
            Self::SelectView => "SELECT_VIEW",
            Self::CreateFileset => "CREATE_FILESET",
            Self::WriteFileset => "WRITE_FILESET",
            Self::ReadFileset => "READ_FILESET",
            Self::CreateTopic => "CREATE_TOPIC",
            Self::ProduceTopic => "PRODUCE_TOPIC",
            Self::ConsumeTopic => "CONSUME_TOPIC",
            Self::RegisterModel => "REGISTER_MODEL",
            Self::LinkModelVersion => "LINK_MODEL_VERSION",
            Self::UseModel => "USE_MODEL",
            Self::RegisterFunction => "REGISTER_FUNCTION",
            Self::ExecuteFunction => "EXECUTE_FUNCTION",
            Self::ModifyFunction => "MODIFY_FUNCTION",
            Self::ManageUsers => "MANAGE_USERS",
            Self::ManageGroups => "MANAGE_GROUPS",
            Self::CreateRole => "CREATE_ROLE",
            Self::ManageGrants => "MANAGE_GRANTS",
            Self::CreateTag => "CREATE_TAG",
            Self::ApplyTag => "APPLY_TAG",
            Self::CreatePolicy => "CREATE_POLICY",
            Self::ApplyPolicy => "APPLY_POLICY",
            Self::RegisterJobTemplate => "REGISTER_JOB_TEMPLATE",
            Self::UseJobTemplate => "USE_JOB_TEMPLATE",
            Self::RunJob => "RUN_JOB",
        }
    }

    /// Whether Gravitino grants this privilege on objects of that type.
    pub fn grantable_on(self, kind: ObjectType) -> bool {
        let scope = self.scope();
        match kind {
            ObjectType::Metalake => true,
            ObjectType::Catalog => !matches!(scope, Scope::Metalake | Scope::Beside(_)),
            ObjectType::Schema => matches!(scope, Scope::Schema | Scope::Below(_)),
            ObjectType::Table
            | ObjectType::Column
            | ObjectType::View
            | ObjectType::Fileset
            | ObjectType::Model
            | ObjectType::Topic
            | ObjectType::Function => scope == Scope::Below(kind),
            ObjectType::Tag | ObjectType::Policy | ObjectType::JobTemplate | ObjectType::Role => {
                scope == Scope::Beside(kind)
            }
        }
    }

    const fn scope(self) -> Scope {
        match self {
            Self::CreateCatalog
            | Self::ManageUsers
            | Self::ManageGroups
            | Self::CreateRole
            | Self::ManageGrants
            | Self::CreateTag
            | Self::CreatePolicy
            | Self::RegisterJobTemplate
            | Self::RunJob => Scope::Metalake,
            Self::UseCatalog | Self::CreateSchema => Scope::Catalog,
            Self::UseSchema
            | Self::CreateTable
            | Self::CreateView
            | Self::CreateFileset
            | Self::CreateTopic
            | Self::RegisterModel
            | Self::RegisterFunction => Scope::Schema,
            Self::ModifyTable | Self::SelectTable => Scope::Below(ObjectType::Table),
            Self::SelectView => Scope::Below(ObjectType::View),
            Self::WriteFileset | Self::ReadFileset => Scope::Below(ObjectType::Fileset),
            Self::ProduceTopic | Self::ConsumeTopic => Scope::Below(ObjectType::Topic),
            Self::LinkModelVersion | Self::UseModel => Scope::Below(ObjectType::Model),
            Self::ExecuteFunction | Self::ModifyFunction => Scope::Below(ObjectType::Function),
            Self::ApplyTag => Scope::Beside(ObjectType::Tag),
            Self::ApplyPolicy => Scope::Beside(ObjectType::Policy),
            Self::UseJobTemplate => Scope::Beside(ObjectType::JobTemplate),
        }
    }
}

impl fmt::Display for Privilege {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of privileges: one bit each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Privileges(u32);

impl Privileges {
    /// The set with one more.
    #[must_use]
    pub const fn with(self, privilege: Privilege) -> Self {
        Self(self.0 | 1 << privilege as u8)
    }

    /// Whether the privilege is in the set.
    pub const fn contains(self, privilege: Privilege) -> bool {
        self.0 & 1 << privilege as u8 != 0
    }

    /// Whether nothing is in the set.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// What is in the set.
    pub fn iter(self) -> impl Iterator<Item = Privilege> {
        Privilege::ALL.into_iter().filter(move |privilege| self.contains(*privilege))
    }
}

impl BitOr for Privileges {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl FromIterator<Privilege> for Privileges {
    fn from_iter<I: IntoIterator<Item = Privilege>>(privileges: I) -> Self {
        privileges.into_iter().fold(Self::default(), Self::with)
    }
}

#[cfg(test)]
mod tests;
