//! The rules of facts: gravitino 1.1 to 1.3, one row each.

use super::*;
use crate::policy::{ObjectType, sees};

/// The caller is `u`, in group `g` of the token; role `r` is held by `u`, role `rg` by group `g`.
const HEAD: &str = "
metalakes:
  - name: m
    owner: OWNER
    users: [u, x]
    groups: [g]
    lower_case_catalogs: [hive]
    roles:
      - { name: other, users: [x], grants: [{ on: metalake, allow: [MANAGE_USERS] }] }
";

struct Setting {
    metalake_owner: &'static str,
    allow: &'static str,
    deny: &'static str,
    owns: &'static str,
}

/// `allow` and `deny`: `PRIVILEGE@OBJECT`, several between `;`. `owns`: objects.
fn setting(allow: &'static str, deny: &'static str, owns: &'static str) -> Setting {
    Setting { metalake_owner: "{ user: x }", allow, deny, owns }
}

impl Setting {
    fn world(&self) -> World {
        let mut text = HEAD.replace("OWNER", self.metalake_owner);
        for (role, key, list) in [("r", "allow", self.allow), ("d", "deny", self.deny)] {
            text.push_str(&format!("      - {{ name: {role}, users: [u], grants: ["));
            for entry in list.split(';').filter(|entry| !entry.is_empty()) {
                let (privilege, on) = entry.split_once('@').expect("PRIVILEGE@OBJECT");
                text.push_str(&format!("{{ on: \"{on}\", {key}: [{privilege}] }},"));
            }
            text.push_str("] }\n");
        }
        text.push_str("    owners: [");
        for on in self.owns.split(';').filter(|on| !on.is_empty()) {
            text.push_str(&format!("{{ on: \"{on}\", user: u }},"));
        }
        text.push_str("]\n");
        world(&text)
    }

    fn sees(&self, target: &str) -> bool {
        let (word, name) = target.split_once(' ').expect("a type and a name");
        let kind = ObjectType::parse(word).expect("a type");
        let who = Identity { subject: "u", groups: &[] };
        sees(&self.world(), &who, &ActiveRoles::All, "m", (kind, name)).expect("a name")
    }
}

/// Types of object in a schema, with the privileges of which one is needed and where they can be granted last.
const OBJECTS: [(&str, &[&str]); 7] = [
    ("table", &["SELECT_TABLE", "MODIFY_TABLE"]),
    ("column", &["SELECT_TABLE", "MODIFY_TABLE"]),
    ("view", &["SELECT_VIEW", "CREATE_VIEW"]),
    ("fileset", &["READ_FILESET", "WRITE_FILESET"]),
    ("model", &["USE_MODEL"]),
    ("topic", &["CONSUME_TOPIC", "PRODUCE_TOPIC"]),
    ("function", &["EXECUTE_FUNCTION", "MODIFY_FUNCTION"]),
];

const WAY: &str = "USE_CATALOG@catalog c;USE_SCHEMA@schema c.s;";

fn leak(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}

fn target(word: &str) -> String {
    if word == "column" { "column c.s.o.id".to_owned() } else { format!("{word} c.s.o") }
}

fn securable(word: &str) -> String {
    if word == "column" { "table c.s.o".to_owned() } else { format!("{word} c.s.o") }
}

/// Every level that a privilege can be granted on.
fn levels(word: &str, privilege: &str) -> Vec<String> {
    let mut levels = vec!["metalake".to_owned(), "catalog c".to_owned(), "schema c.s".to_owned()];
    if privilege != "CREATE_VIEW" {
        levels.push(securable(word));
    }
    levels
}

#[test]
fn an_object_is_visible_by_each_of_its_privileges_at_each_level_and_by_nothing_else() {
    for (word, privileges) in OBJECTS {
        assert!(!setting(WAY, "", "").sees(&target(word)), "{word} without a grant");
        for privilege in privileges {
            for on in levels(word, privilege) {
                let grant = leak(format!("{WAY}{privilege}@{on}"));
                assert!(setting(grant, "", "").sees(&target(word)), "{word}: {grant}");
                for (other, _) in OBJECTS.iter().filter(|(_, theirs)| !theirs.contains(privilege)) {
                    assert!(!setting(grant, "", "").sees(&target(other)), "{other} by {grant}");
                }
            }
        }
    }
}

#[test]
fn use_catalog_and_use_schema_are_needed_and_count_at_each_of_their_levels() {
    for (word, privileges) in OBJECTS {
        let object = format!("{}@schema c.s", privileges[0]);
        for catalog in ["metalake", "catalog c"] {
            for schema in ["metalake", "catalog c", "schema c.s"] {
                let all = leak(format!("USE_CATALOG@{catalog};USE_SCHEMA@{schema};{object}"));
                assert!(setting(all, "", "").sees(&target(word)), "{word}: {all}");
            }
        }
        for lacking in [format!("USE_CATALOG@catalog c;{object}"), format!("USE_SCHEMA@schema c.s;{object}"), object] {
            assert!(!setting(leak(lacking.clone()), "", "").sees(&target(word)), "{word}: {lacking}");
        }
    }
}

#[test]
fn a_denial_at_any_level_beats_an_allowance_at_any_level() {
    for (word, privileges) in OBJECTS {
        for privilege in privileges {
            for allowed in levels(word, privilege) {
                for denied in levels(word, privilege) {
                    let (allow, deny) = (format!("{WAY}{privilege}@{allowed}"), format!("{privilege}@{denied}"));
                    assert!(
                        !setting(leak(allow.clone()), leak(deny.clone()), "").sees(&target(word)),
                        "{allow} {deny}"
                    );
                }
            }
        }
        let both: String = privileges.iter().map(|privilege| format!("{privilege}@metalake;")).collect();
        let one = leak(format!("{}@catalog c", privileges[0]));
        let other_counts = privileges.len() > 1;
        assert_eq!(setting(leak(format!("{WAY}{both}")), one, "").sees(&target(word)), other_counts, "{word} {one}");
    }
}

#[test]
fn ownership_counts_as_the_rules_say() {
    let use_catalog = "USE_CATALOG@catalog c";
    for (word, _) in OBJECTS {
        let rows: [(&'static str, &'static str, String, bool); 14] = [
            ("", "", "catalog c".to_owned(), true),
            ("", "USE_CATALOG@catalog c;USE_SCHEMA@metalake", "catalog c".to_owned(), true),
            ("", "", "catalog other".to_owned(), false),
            ("", "", "schema c.s".to_owned(), false),
            (use_catalog, "", "schema c.s".to_owned(), true),
            (use_catalog, "", "schema c.other".to_owned(), false),
            (use_catalog, "USE_SCHEMA@schema c.s", "schema c.s".to_owned(), true),
            (use_catalog, "USE_CATALOG@metalake", "schema c.s".to_owned(), false),
            ("", "", securable(word), false),
            (use_catalog, "", securable(word), false),
            (WAY, "", securable(word), true),
            (WAY, "USE_SCHEMA@catalog c", securable(word), false),
            (WAY, "SELECT_TABLE@metalake;READ_FILESET@metalake;USE_MODEL@metalake", securable(word), true),
            (WAY, "", securable(if word == "view" { "topic" } else { "view" }), false),
        ];
        for (allow, deny, owns, expected) in rows {
            let found = setting(allow, deny, leak(owns.clone())).sees(&target(word));
            assert_eq!(found, expected, "{word}: allow {allow} deny {deny} owns {owns}");
        }
        let owner = Setting { metalake_owner: "{ user: u }", ..setting("", "USE_CATALOG@metalake", "") };
        assert!(owner.sees(&target(word)), "the metalake's owner");
    }
}

#[test]
fn catalogs_and_schemas_have_rules_of_their_own() {
    let rows = [
        ("catalog c", "", "", "", false),
        ("catalog c", "USE_CATALOG@catalog c", "", "", true),
        ("catalog c", "USE_CATALOG@metalake", "", "", true),
        ("catalog c", "USE_CATALOG@metalake", "USE_CATALOG@catalog c", "", false),
        ("catalog c", "USE_CATALOG@catalog other", "", "", false),
        ("catalog c", "", "USE_CATALOG@metalake", "catalog c", true),
        ("catalog c", "USE_SCHEMA@metalake", "", "schema c.s", false),
        ("schema c.s", "USE_CATALOG@catalog c", "", "", false),
        ("schema c.s", WAY, "", "", true),
        ("schema c.s", "USE_SCHEMA@schema c.s", "", "", false),
        ("schema c.s", "", "", "schema c.s", false),
        ("schema c.s", "USE_CATALOG@catalog c", "USE_SCHEMA@metalake", "schema c.s", true),
        ("schema c.s", "", "USE_SCHEMA@metalake", "catalog c", true),
        ("schema c.s", WAY, "USE_SCHEMA@catalog c", "", false),
        ("schema c.s", "USE_CATALOG@catalog c;SELECT_TABLE@schema c.s", "", "", false),
        ("metalake m", "", "", "", true),
    ];
    for (target, allow, deny, owns, expected) in rows {
        assert_eq!(setting(allow, deny, owns).sees(target), expected, "{target}: {allow} / {deny} / {owns}");
    }
}

#[test]
fn roles_tags_policies_and_job_templates_lie_in_the_metalake() {
    let rows = [
        ("role r", "", "", "", true),
        ("role other", "", "", "", false),
        ("role other", "MANAGE_GRANTS@metalake", "", "", true),
        ("role other", "MANAGE_GRANTS@metalake", "MANAGE_GRANTS@metalake", "", false),
        ("role other", "", "", "role other", true),
        ("role missing", "", "", "", false),
        ("tag t", "", "", "", false),
        ("tag t", "APPLY_TAG@metalake", "", "", true),
        ("tag t", "APPLY_TAG@tag t", "", "", true),
        ("tag t", "APPLY_TAG@tag other", "", "", false),
        ("tag t", "APPLY_TAG@metalake", "APPLY_TAG@tag t", "", false),
        ("tag t", "", "APPLY_TAG@tag t", "tag t", true),
        ("policy p", "APPLY_POLICY@policy p", "", "", true),
        ("policy p", "APPLY_TAG@metalake", "", "", false),
        ("policy p", "", "", "policy p", true),
        ("job_template j", "USE_JOB_TEMPLATE@metalake", "", "", true),
        ("job_template j", "RUN_JOB@metalake", "", "", false),
        ("job_template j", "", "", "job_template j", true),
    ];
    for (target, allow, deny, owns, expected) in rows {
        assert_eq!(setting(allow, deny, owns).sees(target), expected, "{target}: {allow} / {deny} / {owns}");
        let owner = Setting { metalake_owner: "{ user: u }", ..setting("", "", "") };
        assert!(owner.sees(target), "{target}: the metalake's owner");
    }
}

/// Facts: gravitino 1.3.
#[test]
fn what_does_not_exist_is_judged_by_what_is_above_it() {
    let rows = [
        ("table c.s.missing", "", "", "catalog c", true),
        ("table c.s.missing", "USE_CATALOG@catalog c", "", "schema c.s", true),
        ("table c.s.missing", leak(format!("{WAY}SELECT_TABLE@metalake")), "", "", true),
        ("table c.s.missing", leak(format!("{WAY}SELECT_TABLE@catalog c")), "", "", true),
        ("table c.s.missing", leak(format!("{WAY}SELECT_TABLE@schema c.s")), "", "", true),
        ("table c.s.missing", leak(format!("{WAY}SELECT_TABLE@table c.s.o")), "", "", false),
        ("table c.nowhere.o", leak(format!("{WAY}SELECT_TABLE@metalake")), "", "", false),
        ("table no.s.o", leak(format!("{WAY}SELECT_TABLE@metalake")), "", "", false),
        ("table no.s.o", "USE_CATALOG@metalake;USE_SCHEMA@metalake;SELECT_TABLE@metalake", "", "", true),
    ];
    for (target, allow, deny, owns, expected) in rows {
        assert_eq!(setting(allow, deny, owns).sees(target), expected, "{target}: {allow} / {owns}");
    }
    let owner = Setting { metalake_owner: "{ user: u }", ..setting("", "", "") };
    assert!(owner.sees("table no.where.o"));
}

/// Facts: gravitino 2.3; 1.2 "Hierarchical schemas".
#[test]
fn letter_case_and_nested_schemas_follow_the_catalog() {
    let table =
        leak(format!("USE_CATALOG@catalog hive;USE_SCHEMA@schema hive.DB;SELECT_TABLE@table hive.Db.T{}", "\u{c4}"));
    let nested = "USE_CATALOG@catalog c;USE_SCHEMA@schema c.A;SELECT_TABLE@schema c.A:B";
    let rows = [
        ("table hive.dB.t\u{e4}", table, "", "", true),
        ("table HIVE.db.t\u{e4}", table, "", "", false),
        ("table c.S.o", leak(format!("{WAY}SELECT_TABLE@schema c.s")), "", "", false),
        ("table c.A:B:C.t", nested, "", "", true),
        ("table c.A:B.t", nested, "", "", true),
        ("table c.A.t", nested, "", "", false),
        ("table c.A:X.t", nested, "", "", false),
        ("table c.AB.t", nested, "", "", false),
        ("table c.A:B:C.t", nested, "USE_SCHEMA@schema c.A:B", "", false),
        ("table c.A:B:C.t", nested, "USE_SCHEMA@schema c.A:B:C:D", "", true),
        ("table c.A:B:C.t", "USE_CATALOG@catalog c", "", "schema c.A", true),
        ("table c.A.t", "USE_CATALOG@catalog c", "", "schema c.A:B", false),
    ];
    for (target, allow, deny, owns, expected) in rows {
        assert_eq!(setting(allow, deny, owns).sees(target), expected, "{target}: {allow} / {deny} / {owns}");
    }
}

const GROUPS: &str = "
metalakes:
  - name: m
    owner: { group: chiefs }
    users: [u, x]
    groups: [g, h]
    roles:
      - name: r
        groups: [g]
        grants:
          - { on: metalake, allow: [USE_CATALOG, USE_SCHEMA, SELECT_TABLE] }
      - name: never
        groups: [h]
        grants: [{ on: schema c.s, deny: [SELECT_TABLE] }]
    owners: [{ on: fileset c.s.f, group: h }]
";

/// Facts: gravitino 1.2 "Roles", "Owner".
#[test]
fn groups_count_for_members_that_bring_them_and_only_if_the_metalake_knows_them() {
    let world = world(GROUPS);
    let rows: [(&str, &[&str], &str, bool); 13] = [
        ("u", &[], "table c.s.t", false),
        ("u", &["g"], "table c.s.t", true),
        ("u", &["G"], "table c.s.t", false),
        ("u", &["g", "unknown"], "table c.s.t", true),
        ("u", &["g", "h"], "table c.s.t", false),
        ("u", &["g", "h"], "table c.x.t", true),
        ("u", &["g", "h"], "fileset c.s.f", true),
        ("u", &["g"], "fileset c.s.f", false),
        ("u", &["chiefs"], "table c.s.t", true),
        ("stranger", &["g"], "table c.s.t", false),
        ("stranger", &["chiefs"], "table c.s.t", false),
        ("g", &["g"], "table c.s.t", false),
        ("", &["g"], "table c.s.t", false),
    ];
    for (subject, names, target, expected) in rows {
        let groups = groups(names);
        let who = Identity { subject, groups: &groups };
        let (word, name) = target.split_once(' ').expect("a type and a name");
        let kind = ObjectType::parse(word).expect("a type");
        let found = sees(&world, &who, &ActiveRoles::All, "m", (kind, name)).expect("a name");
        assert_eq!(found, expected, "{subject} {names:?} {target}");
    }
}

#[test]
fn denials_and_ownership_of_inactive_roles_stay() {
    let world = world(
        "
metalakes:
  - name: m
    owner: { user: x }
    users: [u]
    roles:
      - { name: way, users: [u], grants: [{ on: catalog c, allow: [USE_CATALOG, USE_SCHEMA] }] }
      - { name: read, users: [u], grants: [{ on: schema c.s, allow: [SELECT_TABLE] }] }
      - { name: no, users: [u], grants: [{ on: table c.s.secret, deny: [SELECT_TABLE] }] }
    owners: [{ on: table c.s.mine, user: u }, { on: catalog own, user: u }]
",
    );
    let rows = [
        (None, "c.s.t", true),
        (None, "c.s.secret", false),
        (Some("way,read"), "c.s.t", true),
        (Some("way,read"), "c.s.secret", false),
        (Some("way"), "c.s.t", false),
        (Some("way"), "c.s.mine", true),
        (Some("read"), "c.s.t", false),
        (Some("NONE"), "c.s.mine", false),
        (Some("NONE"), "own.s.t", true),
    ];
    for (active, name, expected) in rows {
        let roles = ActiveRoles::parse(active).expect("roles");
        let who = Identity { subject: "u", groups: &[] };
        let found = sees(&world, &who, &roles, "m", (ObjectType::Table, name)).expect("a name");
        assert_eq!(found, expected, "{active:?} {name}");
    }
}
