//! The grammar of full names, and dataset types (facts: gravitino 0.3, 2.1; gravitino-real 3.6).

use std::fmt;

use crate::event::DatasetType;

use super::privilege::ObjectType;

/// A full name that resolves: split at dots, no quoting, the right number of levels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FullName<'a> {
    /// What it names.
    pub(super) kind: ObjectType,
    /// The whole name.
    pub(super) text: &'a str,
    /// The first level.
    pub(super) catalog: &'a str,
    /// The second level; empty for names of one level.
    pub(super) schema: &'a str,
}

/// Why a full name does not resolve. The texts of `Levels`, `Star`, `EmptyNamespace` and `EmptyName` are Gravitino's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameFault {
    /// The wrong number of levels for the type.
    Levels(ObjectType),
    /// A level is `*`.
    Star,
    /// A level before the last is empty.
    EmptyNamespace,
    /// The last level is empty.
    EmptyName,
    /// A catalog or schema of white space only: the real server fails on it (facts: gravitino-real 3.6).
    BlankLevel,
}

impl<'a> FullName<'a> {
    /// Splits a full name of that type.
    ///
    /// The metalake is not part of it. Types of one level take the whole text as the name.
    ///
    /// # Errors
    ///
    /// The first fault, in the order in which Gravitino finds them: levels, `*`, empty levels.
    pub(super) fn parse(kind: ObjectType, text: &'a str) -> Result<Self, NameFault> {
        let levels = kind.levels();
        if levels == 1 {
            return Self::single(kind, text);
        }
        let parts = Parts::of(text);
        if parts.levels != levels {
            return Err(NameFault::Levels(kind));
        }
        if parts.star {
            return Err(NameFault::Star);
        }
        if parts.empty_parent {
            return Err(NameFault::EmptyNamespace);
        }
        if parts.last.is_empty() {
            return Err(NameFault::EmptyName);
        }
        let catalog = parts.catalog;
        let schema = if levels == 2 { parts.last } else { parts.schema };
        if catalog.trim_start().is_empty() || schema.trim_start().is_empty() {
            return Err(NameFault::BlankLevel);
        }
        Ok(Self { kind, text, catalog, schema })
    }

    /// `catalog.schema`, for names of two levels and more.
    pub(super) fn schema_path(&self) -> &'a str {
        self.head(self.catalog.len() + 1 + self.schema.len())
    }

    /// The name of the object that grants and owners are looked up for: a column's table, else the name itself.
    pub(super) fn object_path(&self) -> &'a str {
        match self.kind {
            ObjectType::Column => self.text.rsplit_once('.').map_or(self.text, |(table, _)| table),
            ObjectType::Metalake
            | ObjectType::Catalog
            | ObjectType::Schema
            | ObjectType::Table
            | ObjectType::View
            | ObjectType::Fileset
            | ObjectType::Model
            | ObjectType::Topic
            | ObjectType::Function
            | ObjectType::Tag
            | ObjectType::Policy
            | ObjectType::JobTemplate
            | ObjectType::Role => self.text,
        }
    }

    /// `catalog.A`, `catalog.A:B`, `catalog.A:B:C` for schema `A:B:C`: the schema and those that it lies in
    /// (facts: gravitino 1.2 "Hierarchical schemas").
    pub(super) fn schema_paths(&self, separator: &'a str) -> impl Iterator<Item = &'a str> {
        let name = *self;
        let inner = self.schema.match_indices(separator).map(|(at, _)| at).filter(|at| *at > 0);
        inner.chain(Some(self.schema.len())).map(move |end| name.head(name.catalog.len() + 1 + end))
    }

    fn single(kind: ObjectType, text: &'a str) -> Result<Self, NameFault> {
        if text == "*" {
            return Err(NameFault::Star);
        }
        if text.trim().is_empty() {
            return Err(NameFault::EmptyName);
        }
        Ok(Self { kind, text, catalog: text, schema: "" })
    }

    fn head(&self, length: usize) -> &'a str {
        self.text.get(..length).unwrap_or(self.text)
    }
}

/// What one walk over a name finds: every dataset of every event goes through here.
#[derive(Debug, Default)]
struct Parts<'a> {
    levels: usize,
    star: bool,
    empty_parent: bool,
    catalog: &'a str,
    schema: &'a str,
    last: &'a str,
}

impl<'a> Parts<'a> {
    fn of(text: &'a str) -> Self {
        let mut parts = Self { levels: 1, ..Self::default() };
        let mut start = 0;
        for (at, _) in text.bytes().enumerate().filter(|(_, byte)| *byte == b'.') {
            let level = text.get(start..at).unwrap_or_default();
            match parts.levels {
                1 => parts.catalog = level,
                2 => parts.schema = level,
                _ => {}
            }
            parts.star |= level == "*";
            parts.empty_parent |= level.is_empty();
            parts.levels += 1;
            start = at + 1;
        }
        parts.last = text.get(start..).unwrap_or_default();
        parts.star |= parts.last == "*";
        parts
    }
}

impl fmt::Display for NameFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Levels(kind) => {
                write!(f, "If the type is {}, the length of names must be {}", kind.name(), kind.levels())
            }
            Self::Star => f.write_str("Cannot create a metadata object with `*` name."),
            Self::EmptyNamespace => f.write_str("Cannot create a namespace with null or empty level"),
            Self::EmptyName => f.write_str("Cannot create a NameIdentifier with null or empty name"),
            Self::BlankLevel => f.write_str("Catalog and schema names must not be blank"),
        }
    }
}

/// The object type that a `datasetType` names: TABLE, VIEW, FILE and FILESET, MODEL, TOPIC in any letter case, nothing
/// trimmed (facts: gravitino 0.3).
pub(super) fn named_type(name: &str) -> Option<ObjectType> {
    let upper;
    let name = if name.is_ascii() {
        name
    } else {
        upper = name.to_uppercase();
        &upper
    };
    let known = [
        ("TABLE", ObjectType::Table),
        ("VIEW", ObjectType::View),
        ("FILE", ObjectType::Fileset),
        ("FILESET", ObjectType::Fileset),
        ("MODEL", ObjectType::Model),
        ("TOPIC", ObjectType::Topic),
    ];
    known.into_iter().find(|(word, _)| name.eq_ignore_ascii_case(word)).map(|(_, kind)| kind)
}

/// Why a dataset type does not resolve; Gravitino's texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TypeFault<'a> {
    /// No such type, or none that lineage knows.
    Unsupported(&'a str),
    /// The facet is there and says nothing.
    Blank,
}

impl fmt::Display for TypeFault<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsupported(name) => write!(f, "Unsupported dataset type: {name}"),
            Self::Blank => f.write_str("The datasetType facet must contain a non-blank datasetType"),
        }
    }
}

/// The object type of an input or output.
///
/// # Errors
///
/// An unsupported or blank type.
pub(super) fn dataset_type(facet: &DatasetType) -> Result<ObjectType, TypeFault<'_>> {
    match facet {
        DatasetType::Absent => Ok(ObjectType::Table),
        DatasetType::Blank => Err(TypeFault::Blank),
        DatasetType::Named(name) => named_type(name).ok_or(TypeFault::Unsupported(name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEVELS: &str = "If the type is TABLE, the length of names must be 3";
    const STAR: &str = "Cannot create a metadata object with `*` name.";
    const NAMESPACE: &str = "Cannot create a namespace with null or empty level";
    const NAME: &str = "Cannot create a NameIdentifier with null or empty name";
    const BLANK: &str = "Catalog and schema names must not be blank";

    /// Facts: gravitino 2.1, gravitino-real 3.6 and 4.
    const TABLES: [(&str, Option<&str>); 19] = [
        ("lake.sales.orders", None),
        ("lake.sales", Some(LEVELS)),
        ("lake", Some(LEVELS)),
        ("", Some(LEVELS)),
        ("*", Some(LEVELS)),
        ("/tmp/a", Some(LEVELS)),
        ("demo.lake.sales.orders", Some(LEVELS)),
        ("lake.sales.*", Some(STAR)),
        ("*.*.*", Some(STAR)),
        ("*..", Some(STAR)),
        ("lake..orders", Some(NAMESPACE)),
        (".sales.orders", Some(NAMESPACE)),
        ("..", Some(NAMESPACE)),
        ("lake.sales.", Some(NAME)),
        (" .sales.orders", Some(BLANK)),
        ("lake. .orders", Some(BLANK)),
        ("lake.sales. ", None),
        ("lake.sales.a/b=ö", None),
        ("`lake`.sales.\"orders\"", None),
    ];

    #[test]
    fn full_names_of_tables_follow_the_grammar() {
        for (text, expected) in TABLES {
            let found = FullName::parse(ObjectType::Table, text).err().map(|fault| fault.to_string());
            assert_eq!(found.as_deref(), expected, "{text:?}");
        }
    }

    #[test]
    fn each_type_wants_its_own_number_of_levels() {
        for (kind, levels) in [
            (ObjectType::Schema, 2),
            (ObjectType::Table, 3),
            (ObjectType::View, 3),
            (ObjectType::Fileset, 3),
            (ObjectType::Topic, 3),
            (ObjectType::Model, 3),
            (ObjectType::Function, 3),
            (ObjectType::Column, 4),
        ] {
            for given in 1..=5 {
                let text = vec!["x"; given].join(".");
                assert_eq!(FullName::parse(kind, &text).is_ok(), given == levels, "{} {text}", kind.name());
            }
        }
        for kind in [ObjectType::Catalog, ObjectType::Role, ObjectType::Tag, ObjectType::Policy] {
            assert_eq!(FullName::parse(kind, "a.b.c").map(|name| name.catalog), Ok("a.b.c"));
            assert_eq!(FullName::parse(kind, " "), Err(NameFault::EmptyName));
            assert_eq!(FullName::parse(kind, "*"), Err(NameFault::Star));
        }
    }

    #[test]
    fn a_schema_lies_in_the_schemas_of_its_name() {
        let name = FullName::parse(ObjectType::Table, "lake.A:B:C.t").expect("a name");
        assert_eq!(name.schema_paths(":").collect::<Vec<_>>(), ["lake.A", "lake.A:B", "lake.A:B:C"]);
        assert_eq!(name.schema_paths("/").collect::<Vec<_>>(), ["lake.A:B:C"]);
        let odd = FullName::parse(ObjectType::Schema, "lake.:A").expect("a name");
        assert_eq!(odd.schema_paths(":").collect::<Vec<_>>(), ["lake.:A"]);
    }

    #[test]
    fn dataset_types_are_those_of_gravitino() {
        let named = |name: &str| dataset_type(&DatasetType::Named(name.to_owned())).map_err(|fault| fault.to_string());
        let rows = [
            ("TABLE", Some(ObjectType::Table)),
            ("table", Some(ObjectType::Table)),
            ("View", Some(ObjectType::View)),
            ("FILE", Some(ObjectType::Fileset)),
            ("Fileset", Some(ObjectType::Fileset)),
            ("MODEL", Some(ObjectType::Model)),
            ("Topic", Some(ObjectType::Topic)),
            ("f\u{131}le", Some(ObjectType::Fileset)),
            (" TABLE", None),
            ("MODEL_VERSION", None),
            ("FILE-SET", None),
            ("COLUMN", None),
        ];
        for (name, expected) in rows {
            assert_eq!(named(name).ok(), expected, "{name:?}");
        }
        assert_eq!(named("Nope"), Err("Unsupported dataset type: Nope".to_owned()));
        assert_eq!(dataset_type(&DatasetType::Absent), Ok(ObjectType::Table));
        let blank = dataset_type(&DatasetType::Blank).expect_err("blank").to_string();
        assert_eq!(blank, "The datasetType facet must contain a non-blank datasetType");
    }
}
