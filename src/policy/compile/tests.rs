use super::*;
use crate::policy::file::{Format, parse};
use crate::policy::{ActiveRoles, Identity, ObjectType, sees};

fn sources(texts: &[&str]) -> Vec<Source> {
    let name = |at: usize| PathBuf::from(format!("{at}.yaml"));
    let read = |text: &str| parse(text, Format::Yaml).expect("the shape");
    texts.iter().enumerate().map(|(at, text)| Source { file: name(at), policy: read(text) }).collect()
}

fn faults(texts: &[&str]) -> Vec<String> {
    compile(sources(texts)).expect_err("faults").iter().map(Fault::to_string).collect()
}

/// The faults of a metalake with these entries.
fn faults_in(entries: &str) -> Vec<String> {
    faults(&[&format!("metalakes: [{{ name: m, owner: {{ user: admin }}, users: [u], groups: [g], {entries} }}]")])
}

fn grant_faults(grant: &str) -> Vec<String> {
    faults_in(&format!("roles: [{{ name: r, grants: [{grant}] }}]"))
}

#[test]
fn all_faults_of_all_files_are_reported_together() {
    let first = "
metalakes:
  - name: m
    owner: { user: admin }
    users: [u]
    roles:
      - { name: r, users: [u, ghost], groups: [nobody] }
      - name: r
      - name: s
        grants:
          - { on: table c.s, allow: [SELECT_TABLE, READ] }
          - { on: catalog c, allow: [SELECT_VIEW, USE_MODEL], deny: [MANAGE_USERS] }
    owners: [{ on: catalog c, user: ghost }]
";
    let second = "
metalakes: [{ name: m, owner: { user: admin } }, { name: n, owner: { group: '' } }]
namespaces:
  - { name: x, callers: {}, jobs: [], effect: allow }
  - { name: x, callers: { users: [u] }, jobs: [{ namespace: j, names: [] }], effect: deny }
  - { name: z, callers: { users: [u] }, jobs: [{ namespace: j, names: [] }], inputs: [{ namespace: m, names: [t] }], effect: allow }
";
    assert_eq!(
        faults(&[first, second]),
        [
            "0.yaml: metalakes[0].roles[0].users[1]: `ghost` is no user of metalake `m`: add it to `users`",
            "0.yaml: metalakes[0].roles[0].groups[0]: `nobody` is no group of metalake `m`: add it to `groups`",
            "0.yaml: metalakes[0].roles[1].name: role `r` stands in this metalake already",
            "0.yaml: metalakes[0].roles[2].grants[0].allow: `READ` is no privilege of Gravitino",
            "0.yaml: metalakes[0].roles[2].grants[0].on: `c.s` is no name of a table: \
             If the type is TABLE, the length of names must be 3",
            "0.yaml: metalakes[0].roles[2].grants[1]: MANAGE_USERS is not granted on a catalog, only on: metalake",
            "0.yaml: metalakes[0].owners[0]: `ghost` is no user of metalake `m`: add it to `users`",
            "1.yaml: metalakes[0].name: metalake `m` stands in 0.yaml already",
            "1.yaml: metalakes[1].owner: the owner needs a name",
            "1.yaml: namespaces[0].callers: name users or groups; `users: [\"*\"]` is everybody",
            "1.yaml: namespaces[0].jobs: name jobs; `{ namespace: \"*\", names: [\"*\"] }` is every job",
            "1.yaml: namespaces[1].name: rule `x` stands in 1.yaml already",
            "1.yaml: namespaces[2].jobs[0].names: no name is listed; `*` is any",
            "1.yaml: namespaces[2].inputs[0].namespace: `m` is a metalake: its own rules decide about its datasets, \
             so drop this entry",
        ]
    );
}

#[test]
fn an_object_is_written_as_type_and_full_name() {
    let place = "0.yaml: metalakes[0].roles[0].grants[0].on: ";
    let rows = [
        (
            "tabel c.s.t",
            "`tabel` is no type of object; write one of metalake, catalog, schema, table, column, view, \
            fileset, model, topic, function, tag, policy, job_template, role, and a full name",
        ),
        ("metalake other", "this is metalake `m`, not `other`"),
        ("catalog c.s", "`c.s` has more than the one level of a catalog's name"),
        ("catalog", "`` is no name of a catalog: Cannot create a NameIdentifier with null or empty name"),
        ("schema c", "`c` is no name of a schema: If the type is SCHEMA, the length of names must be 2"),
        ("schema c.*", "`c.*` is no name of a schema: Cannot create a metadata object with `*` name."),
    ];
    for (on, message) in rows {
        assert_eq!(
            grant_faults(&format!("{{ on: \"{on}\", allow: [USE_SCHEMA] }}")),
            [format!("{place}{message}")],
            "{on}"
        );
    }
    let good = ["metalake", "metalake m", "METALAKE", "catalog c", "  schema   c.s ", "Schema c.s"];
    for on in good {
        let text = format!(
            "metalakes: [{{ name: m, owner: {{ user: a }}, roles: [{{ name: r, grants: [{{ on: \"{on}\", allow: [use_schema] }}] }}] }}]"
        );
        assert!(compile(sources(&[&text])).is_ok(), "{on}");
    }
}

#[test]
fn grants_stand_where_gravitino_grants_and_say_something() {
    let place = "0.yaml: metalakes[0].roles[0].grants[0]: ";
    let rows = [
        (
            "{ on: view c.s.v, allow: [CREATE_VIEW] }",
            "CREATE_VIEW is not granted on a view, only on: metalake, catalog, schema",
        ),
        (
            "{ on: fileset c.s.f, deny: [SELECT_TABLE] }",
            "SELECT_TABLE is not granted on a fileset, only on: metalake, catalog, schema, table",
        ),
        (
            "{ on: column c.s.t.x, allow: [SELECT_TABLE] }",
            "SELECT_TABLE is not granted on a column, only on: metalake, catalog, schema, table",
        ),
        ("{ on: catalog c, allow: [APPLY_TAG] }", "APPLY_TAG is not granted on a catalog, only on: metalake, tag"),
        ("{ on: catalog c }", "nothing is allowed or denied here: write `allow` or `deny`"),
    ];
    for (grant, message) in rows {
        assert_eq!(grant_faults(grant), [format!("{place}{message}")], "{grant}");
    }
}

#[test]
fn owners_are_one_known_holder_of_an_object_that_can_be_owned() {
    let place = "0.yaml: metalakes[0].owners[0]";
    let rows = [
        ("{ on: catalog c, user: u, group: g }", ": an owner is one user or one group"),
        ("{ on: catalog c }", ": an owner is one user or one group"),
        ("{ on: catalog c, group: u }", ": `u` is no group of metalake `m`: add it to `groups`"),
        ("{ on: metalake, user: u }", ".on: the metalake's owner is written as its `owner`"),
        ("{ on: column c.s.t.x, user: u }", ".on: a column has no owner of its own"),
        ("{ on: role r, user: u }", ".on: there is no role `r` in this metalake"),
    ];
    for (owner, message) in rows {
        assert_eq!(faults_in(&format!("owners: [{owner}]")), [format!("{place}{message}")], "{owner}");
    }
    let twice =
        faults_in("lower_case_catalogs: [c], owners: [{ on: table c.S.t, user: u }, { on: table c.s.T, group: g }]");
    assert_eq!(twice, ["0.yaml: metalakes[0].owners[1].on: table c.s.t has an owner already: an object has one"]);
}

#[test]
fn names_and_separators_are_not_empty() {
    let rows = [
        ("schema_separator: ''", "schema_separator: a separator is at least one character, and no dot; default `:`"),
        ("schema_separator: a.b", "schema_separator: a separator is at least one character, and no dot; default `:`"),
        ("lower_case_catalogs: [' ']", "lower_case_catalogs[0]: an empty name"),
        ("roles: [{ name: '' }]", "roles[0].name: a role needs a name"),
    ];
    for (entry, message) in rows {
        assert_eq!(faults_in(entry), [format!("0.yaml: metalakes[0].{message}")], "{entry}");
    }
}

#[test]
fn very_many_faults_are_counted_rather_than_listed() {
    let grants = "{ on: x, allow: [USE_CATALOG] },".repeat(LISTED_FAULTS + 5);
    let faults = grant_faults(&grants);
    assert_eq!(faults.len(), LISTED_FAULTS + 1);
    assert_eq!(faults.last().map(String::as_str), Some("0.yaml: and 5 more faults"));
}

#[test]
fn grants_and_owners_of_objects_that_do_not_exist_count_for_nothing() {
    let text = "
metalakes:
  - name: m
    owner: { user: admin }
    users: [u, v]
    roles:
      - name: r
        users: [u]
        grants:
          - { on: metalake, allow: [USE_CATALOG, USE_SCHEMA] }
          - { on: table c.s.there, allow: [SELECT_TABLE] }
          - { on: table c.s.gone, allow: [SELECT_TABLE] }
          - { on: catalog old, deny: [USE_CATALOG] }
    owners: [{ on: table c.s.mine, user: u }]
";
    let mut sources = sources(&[text]);
    let names = |world: &World| {
        let who = Identity { subject: "u", groups: &[] };
        let seen = |name| sees(world, &who, &ActiveRoles::All, "m", (ObjectType::Table, name)).expect("a name");
        let catalog = sees(world, &who, &ActiveRoles::All, "m", (ObjectType::Catalog, "old")).expect("a name");
        (["c.s.there", "c.s.gone", "c.s.mine"].map(seen), catalog)
    };
    let open = compile(sources.clone()).expect("a world");
    assert_eq!(names(&open), ([true, true, true], false));
    let existing = vec![(ObjectType::Catalog, "c".to_owned()), (ObjectType::Table, "c.s.there".to_owned())];
    sources[0].policy.metalakes[0].existing = Some(existing);
    let closed = compile(sources).expect("a world");
    assert_eq!(names(&closed), ([true, false, false], true));
}
