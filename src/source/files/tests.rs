use std::os::unix::fs::symlink;

use super::*;

const GOOD: &str = "metalakes: [{ name: NAME, owner: { user: admin } }]\n";

fn metalake(name: &str) -> String {
    GOOD.replace("NAME", name)
}

fn faults(path: &Path) -> Vec<String> {
    let faults = Files::load(path).expect_err("faults");
    let prefix = format!("{}/", path.display());
    faults.iter().map(|fault| fault.to_string().replace(&prefix, "")).collect()
}

#[test]
fn the_policy_files_of_a_directory_are_one_policy() {
    let directory = tempfile::tempdir().expect("a directory");
    let at = |name: &str| directory.path().join(name);
    fs::write(at("a.yaml"), metalake("a")).expect("written");
    fs::write(at("b.yml"), metalake("b")).expect("written");
    fs::write(at("c.json"), r#"{"metalakes":[{"name":"c","owner":{"user":"admin"}}]}"#).expect("written");
    fs::write(at("README.md"), "not a policy").expect("written");
    fs::write(at(".hidden.yaml"), "not: a policy").expect("written");
    fs::create_dir(at("sub.yaml")).expect("made");
    let files = Files::load(directory.path()).expect("a policy");
    let known = ["a", "b", "c", "d"].map(|name| files.world().is_metalake(name));
    assert_eq!(known, [true, true, true, false]);
    assert_eq!(files.paths(), [directory.path()]);
    let one = Files::load(&at("b.yml")).expect("a policy");
    assert!(one.world().is_metalake("b") && !one.world().is_metalake("a"));
    assert_eq!(one.paths(), [directory.path()]);
    assert_eq!(faults(&at("README.md")).len(), 1);
}

#[test]
fn a_mounted_config_map_is_read_through_its_links_and_its_swap_is_seen() {
    let directory = tempfile::tempdir().expect("a directory");
    let at = |name: &str| directory.path().join(name);
    for (version, name) in [("..v1", "old"), ("..v2", "new")] {
        fs::create_dir(at(version)).expect("made");
        fs::write(at(version).join("policy.yaml"), metalake(name)).expect("written");
    }
    symlink("..v1", at("..data")).expect("linked");
    symlink("..data/policy.yaml", at("policy.yaml")).expect("linked");
    let files = Files::load(directory.path()).expect("a policy");
    assert!(files.world().is_metalake("old"));
    assert_eq!(files.reload(), Ok(false));
    symlink("..v2", at("..data_tmp")).expect("linked");
    fs::rename(at("..data_tmp"), at("..data")).expect("swapped");
    assert_eq!(files.reload(), Ok(true));
    assert!(files.world().is_metalake("new") && !files.world().is_metalake("old"));
}

#[test]
fn a_reload_with_faults_keeps_the_last_good_policy() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("p.yaml");
    fs::write(&file, metalake("one")).expect("written");
    let files = Files::load(&file).expect("a policy");
    let before = files.world();
    for bad in ["metalakes: 5", "metalakes: [{ name: '', owner: { user: admin } }]", "]"] {
        fs::write(&file, bad).expect("written");
        assert!(files.reload().is_err(), "{bad}");
        assert!(files.reload().is_err(), "{bad}: reported again");
        assert!(Arc::ptr_eq(&before, &files.world()));
    }
    fs::remove_file(&file).expect("removed");
    assert!(files.reload().is_err());
    fs::write(&file, metalake("two")).expect("written");
    assert_eq!(files.reload(), Ok(true));
    assert!(files.world().is_metalake("two") && before.is_metalake("one"));
}

#[test]
fn faults_of_shape_name_line_and_column_and_what_would_be_accepted() {
    let directory = tempfile::tempdir().expect("a directory");
    let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).expect("written");
    write("a.yaml", "metalakes:\n  - name: m\n    owner: { user: admin }\n    user: [u]\n");
    write("b.json", "{\"namespaces\": [\n  {\"name\": \"r\", \"effect\": \"permit\"}]}");
    write("c.yaml", "metalakes:\n  - { name: m, owner: { user: a }, roles: [{ name: r, users: [ghost] }] }\n");
    write("d.yaml", "metalakes: [{ name: m, name: n, owner: { user: a } }]\n");
    write(
        "e.yaml",
        "metalakes: [{ name: m, owner: { user: a }, roles: [{ name: r, grants: [{ on: metalake, allow: SELECT_TABLE }] }] }]\n",
    );
    write("f.json", "{\"metalakes\": [");
    write("g.yaml", "metalakes: [a]\n");
    let found = faults(directory.path());
    assert_eq!(
        found,
        [
            "a.yaml:4:5: unknown field `user`, expected one of name, owner, users, groups, roles, owners, \
             lower_case_catalogs, outputs, schema_separator",
            "b.json:2:34: unknown variant `permit`, expected `allow` or `deny`",
            "d.yaml:1:24: duplicate mapping key: name",
            "e.yaml:1:95: expected a list, such as [a, b]",
            "f.json:1:15: EOF while parsing a list",
            "g.yaml:1:13: expected keys and values, such as { name: a }",
            "c.yaml: metalakes[0].roles[0].users[0]: `ghost` is no user of metalake `m`: add it to `users`",
        ]
    );
}

#[test]
fn what_gravitino_governs_by_name_may_not_stand_in_files_either_not_even_later() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("p.yaml");
    let elsewhere = || BTreeSet::from(["demo".to_owned(), "other".to_owned()]);
    let rule = "namespaces:
  - name: r
    callers: { users: [\"*\"] }
    jobs: [{ namespace: demo, names: [\"*\"] }]
    inputs: [{ namespace: \"d*\", names: [\"*\"] }, { namespace: demo, names: [\"*\"] }]
    effect: allow
";
    fs::write(&file, metalake("demo") + rule).expect("written");
    let found = Files::load_beside(&file, elsewhere()).expect_err("faults");
    let found: Vec<String> = found.iter().map(ToString::to_string).collect();
    let both = "metalakes[0].name: metalake `demo` stands in policy.gravitino.metalakes of the configuration, too";
    assert!(found.iter().any(|fault| fault.contains(both)), "{found:?}");
    fs::write(&file, metalake("mine") + rule).expect("written");
    let found = Files::load_beside(&file, elsewhere()).expect_err("faults");
    let never = "namespaces[0].inputs[1].namespace: `demo` stands in policy.gravitino.metalakes of the configuration";
    assert!(matches!(found.as_slice(), [fault] if fault.to_string().contains(never)), "{found:?}");
    fs::write(&file, metalake("mine")).expect("written");
    let files = Files::load_beside(&file, elsewhere()).expect("a policy");
    fs::write(&file, metalake("other")).expect("written");
    assert!(files.reload().is_err() && files.world().is_metalake("mine"));
}

#[test]
fn a_directory_without_policy_files_and_a_missing_path_are_faults() {
    let directory = tempfile::tempdir().expect("a directory");
    let empty = Files::load(directory.path()).expect_err("faults");
    assert_eq!(empty.len(), 1);
    assert!(empty[0].to_string().ends_with("no .yaml, .yml or .json file is in this directory"));
    let missing = Files::load(&directory.path().join("none.yaml")).expect_err("faults");
    assert!(missing[0].to_string().contains("cannot be read"));
}

#[test]
fn very_many_grants_load_from_json_and_from_yaml_over_its_parsers_own_bound() {
    let directory = tempfile::tempdir().expect("a directory");
    for (name, count) in [("big.json", 100_000), ("big.yaml", 50_000)] {
        let grants = (0..count).map(|n| format!("{{\"on\": \"table c.s.t{n}\", \"allow\": [\"SELECT_TABLE\"]}}"));
        let grants = grants.collect::<Vec<_>>().join(",\n");
        let role = format!("{{\"name\": \"r\", \"grants\": [{grants}]}}");
        let text =
            format!("{{\"metalakes\": [{{\"name\": \"m\", \"owner\": {{\"user\": \"a\"}}, \"roles\": [{role}]}}]}}");
        let file = directory.path().join(name);
        fs::write(&file, text).expect("written");
        let files = Files::load(&file).expect("a policy");
        assert_eq!(files.world().extent().grants, count, "{name}");
    }
}

#[test]
fn the_example_policies_load() {
    let files = Files::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("policies")).expect("the examples");
    assert!(files.world().is_metalake("demo"));
}
