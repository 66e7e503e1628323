//! Other names of datasets, and facets that are deleted.

use super::*;
use crate::policy::{explain, objections};

const POLICY: &str = "
metalakes:
  - name: m
    owner: { user: admin }
    users: [u]
    outputs: modify
    roles:
      - name: reader
        users: [u]
        grants:
          - { on: catalog c, allow: [USE_CATALOG] }
          - { on: schema c.s, allow: [USE_SCHEMA, SELECT_TABLE] }
          - { on: table c.s.mine, allow: [MODIFY_TABLE] }
          - { on: fileset c.s.files, allow: [READ_FILESET] }
namespaces:
  - name: pg
    callers: { users: [u] }
    jobs: [{ namespace: etl, names: ['*'] }]
    inputs: [{ namespace: 'pg://db', names: ['public.*'] }]
    outputs: [{ namespace: 'pg://db', names: ['own.*'] }]
    effect: allow
";

#[test]
fn an_alias_is_judged_as_what_its_dataset_is_in_any_namespace() {
    use Role::{Input, Output};
    let table = [
        ("u", "m", Input, "m", "c.s.t", true),
        ("u", "m", Output, "m", "c.s.t", false),
        ("u", "m", Output, "m", "c.s.mine", true),
        ("u", "m", Input, "m", "c.s.files", true),
        ("u", "m", Input, "m", "c.x.t", false),
        ("u", "m", Input, "m", "no full name", false),
        ("u", "m", Input, "pg://db", "public.t", false),
        ("u", "m", Input, "hive://elsewhere", "t", false),
        ("mallory", "m", Input, "m", "c.s.t", false),
        ("admin", "m", Output, "m", "c.x.t", true),
        ("u", "etl", Input, "pg://db", "public.t", true),
        ("u", "etl", Output, "pg://db", "public.t", false),
        ("u", "etl", Output, "pg://db", "own.t", true),
        ("u", "etl", Input, "pg://db", "own.t", false),
        ("u", "etl", Input, "m", "c.s.t", true),
        ("u", "etl", Input, "hive://elsewhere", "t", false),
    ];
    let world = world(POLICY);
    for (subject, job, role, namespace, name, expected) in table {
        let who = Identity { subject, groups: &[] };
        let alias = reference(role, namespace, name, "inputs[0].facets.symlinks.identifiers[0]");
        let found = objections(&world, &who, &ActiveRoles::All, &run_event(job, "j"), &[&alias, &alias]);
        assert_eq!(found.len(), 2);
        for objection in found {
            assert_eq!(objection.is_none(), expected, "{subject} {job} {role:?} {namespace} {name}: {objection:?}");
        }
    }
}

#[test]
fn deleting_a_facet_of_a_dataset_is_writing_to_it() {
    let event = |job: &str, namespace: &str, name: &str, deleted: &[&str]| {
        let mut event = run_event(job, "j").input(namespace, "public.first").input(namespace, name);
        event.references.retain(|reference| reference.name != "public.first");
        event.deleted_facets = deleted.iter().map(|path| (*path).to_owned()).collect();
        event
    };
    let table = [
        (event("etl", "pg://db", "public.t", &[]), true),
        (event("etl", "pg://db", "public.t", &["inputs[1].facets.documentation"]), false),
        (event("etl", "pg://db", "public.t", &["inputs[1].facets[\"x.facets.y\"]"]), false),
        (event("etl", "pg://db", "public.t", &["inputs[0].facets.documentation", "inputs[11].facets.a"]), true),
        (event("etl", "pg://db", "public.t", &["run.facets.nominalTime", "job.facets.documentation"]), true),
        (event("m", "m", "c.s.t", &[]), true),
        (event("m", "m", "c.s.t", &["inputs[1].facets.documentation"]), false),
        (event("m", "m", "c.s.mine", &["inputs[1].facets.documentation"]), true),
    ];
    let world = world(POLICY);
    for (event, expected) in table {
        let judgement = ask(&world, "u", &[], &event);
        assert_eq!(is_allowed(&judgement), expected, "{:?} {judgement:?}", event.deleted_facets);
        if !expected {
            hidden(judgement);
        }
        let who = Identity { subject: "u", groups: &[] };
        let told = explain(&world, &who, &ActiveRoles::All, &event, FacetReferences::Governed);
        assert_eq!(told.iter().all(|explanation| explanation.allowed), expected);
    }
}
