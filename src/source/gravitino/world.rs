//! What the server's answers say, as shapes of the policy: the pure half of a snapshot.

use std::borrow::Cow;

use crate::policy::file::{GrantShape, PrivilegeList};
use crate::policy::{ActiveRoles, Identity, ObjectType, Privilege, World, sees};

use super::call::{Catalog, Role};

/// What stands between the levels of a nested schema's name: Gravitino's default (facts: gravitino 1.2).
pub(super) const SEPARATOR: &str = ":";

/// An object as policy shapes write it.
pub(super) fn on(kind: ObjectType, name: &str) -> String {
    format!("{} {name}", kind.word())
}

/// The grants of a role.
///
/// # Errors
///
/// Something that the gate does not understand: the role then must not be taken for one without it.
pub(super) fn grants_of(role: &Role, metalake: &str) -> Result<Vec<GrantShape>, String> {
    let mut grants = Vec::with_capacity(role.securable_objects.len());
    for object in &role.securable_objects {
        // A type of object that the gate does not know is none that lineage can name, nor one above it.
        let Some(kind) = ObjectType::parse(&object.kind) else { continue };
        if kind == ObjectType::Metalake && object.full_name != metalake {
            return Err(format!("it has a grant on metalake `{}`", object.full_name));
        }
        if !is_name(kind, &object.full_name) {
            return Err(format!("it has a grant on `{}`, which is no name of a {}", object.full_name, kind.word()));
        }
        let (mut allow, mut deny) = (PrivilegeList::default(), PrivilegeList::default());
        for privilege in &object.privileges {
            let list = match &*privilege.condition {
                condition if condition.eq_ignore_ascii_case("allow") => &mut allow,
                condition if condition.eq_ignore_ascii_case("deny") => &mut deny,
                other => return Err(format!("it has the condition `{other}`")),
            };
            // No rule of visibility asks for a privilege that the gate does not know.
            let Some(known) = Privilege::parse(&privilege.name) else { continue };
            if !known.grantable_on(kind) {
                return Err(format!("it has {known} on a {}", kind.word()));
            }
            list.known = list.known.with(known);
        }
        if !allow.known.is_empty() || !deny.known.is_empty() {
            grants.push(GrantShape { on: on(kind, &object.full_name).into(), allow, deny });
        }
    }
    Ok(grants)
}

/// Whether the policy takes that for a full name of that type.
fn is_name(kind: ObjectType, name: &str) -> bool {
    let nobody = Identity { subject: "", groups: &[] };
    let one_level = kind != ObjectType::Catalog || !name.contains('.');
    one_level && sees(&World::default(), &nobody, &ActiveRoles::All, "", (kind, name)).is_ok()
}

/// The objects above one, catalog first, the metalake left out: nested schemas each (facts: gravitino 1.2).
pub(super) fn ancestors(kind: ObjectType, name: &str) -> impl Iterator<Item = (ObjectType, &str)> {
    let mut levels = name.splitn(3, '.');
    let (catalog, schema) = (levels.next().unwrap_or_default(), levels.next().unwrap_or_default());
    let start = catalog.len() + 1;
    let inner = schema.match_indices(SEPARATOR).map(|(at, _)| at).filter(|at| *at > 0);
    let whole = (kind != ObjectType::Schema).then_some(schema.len());
    let schemas = inner.chain(whole).filter_map(move |end| Some((ObjectType::Schema, name.get(..start + end)?)));
    let has_levels = kind.levels() > 1;
    std::iter::once((ObjectType::Catalog, catalog)).chain(schemas).filter(move |_| has_levels)
}

/// Whether schemas and tables of a catalog are named without regard to letter case (facts: gravitino 2.3).
pub(super) fn ignores_case(catalog: &Catalog) -> bool {
    ["hive", "glue"].iter().any(|provider| catalog.provider.eq_ignore_ascii_case(provider))
}

/// A name as it is known in a catalog of that kind.
pub(super) fn folded<'n>(lower_case: &[String], kind: ObjectType, name: &'n str) -> Cow<'n, str> {
    match name.split_once('.') {
        Some((catalog, rest)) if kind.levels() > 1 && lower_case.iter().any(|lower| lower == catalog) => {
            Cow::Owned(format!("{catalog}.{}", rest.to_lowercase()))
        }
        Some(_) | None => Cow::Borrowed(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn role(json: &str) -> Role {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn ancestors_are_named_from_the_catalog_down() {
        let names = |kind, name| ancestors(kind, name).map(|(_, name)| name).collect::<Vec<_>>();
        assert_eq!(names(ObjectType::Table, "c.A:B.t"), ["c", "c.A", "c.A:B"]);
        assert_eq!(names(ObjectType::Schema, "c.A:B"), ["c", "c.A"]);
        assert_eq!(names(ObjectType::Schema, "c.s"), ["c"]);
        assert_eq!(names(ObjectType::Column, "c.s.t.x"), ["c", "c.s"]);
        assert!(names(ObjectType::Catalog, "c").is_empty());
    }

    #[test]
    fn a_role_is_read_in_any_letter_case_and_unknown_things_are_left_out() {
        let read = role(
            r#"{"securableObjects":[
                {"fullName":"demo","type":"METALAKE","privileges":[{"name":"USE_CATALOG","condition":"ALLOW"}]},
                {"fullName":"lake.s.t","type":"table","privileges":[{"name":"select_table","condition":"deny"},
                    {"name":"fly","condition":"allow"}]},
                {"fullName":"x","type":"spaceship","privileges":[{"name":"fly","condition":"allow"}]}]}"#,
        );
        let grants = grants_of(&read, "demo").unwrap();
        assert_eq!(grants.iter().map(|grant| &*grant.on).collect::<Vec<_>>(), ["metalake demo", "table lake.s.t"]);
        assert!(grants[0].allow.known.contains(Privilege::UseCatalog) && grants[0].deny.known.is_empty());
        assert!(grants[1].deny.known.contains(Privilege::SelectTable) && grants[1].allow.known.is_empty());
    }

    #[test]
    fn a_role_that_is_not_understood_is_not_taken_for_one_that_says_less() {
        for (kind, name, privilege, condition) in [
            ("metalake", "other", "use_catalog", "allow"),
            ("table", "lake.s.t", "select_table", "maybe"),
            ("table", "lake.s.t", "use_catalog", "deny"),
            ("table", "lake.s.a.b", "select_table", "deny"),
            ("catalog", "a.b", "use_catalog", "deny"),
        ] {
            let read = role(&format!(
                r#"{{"securableObjects":[{{"fullName":"{name}","type":"{kind}",
                    "privileges":[{{"name":"{privilege}","condition":"{condition}"}}]}}]}}"#
            ));
            assert!(grants_of(&read, "demo").is_err(), "{kind} {name} {privilege} {condition}");
        }
    }

    #[test]
    fn names_are_folded_in_catalogs_that_ignore_case() {
        let lower = ["hive".to_owned()];
        assert_eq!(folded(&lower, ObjectType::Table, "hive.DB.Student"), "hive.db.student");
        assert_eq!(folded(&lower, ObjectType::Table, "Hive.DB.Student"), "Hive.DB.Student");
        assert_eq!(folded(&lower, ObjectType::Catalog, "hive"), "hive");
    }
}
