//! Events under a metalake's rules: order of refusals, texts, facets, active roles.

use super::*;
use crate::policy::{GovernedBy, explain};

const POLICY: &str = "
metalakes:
  - name: m
    owner: { user: admin }
    users: [u, bob]
    roles:
      - name: reader
        users: [u]
        grants:
          - { on: catalog c, allow: [USE_CATALOG] }
          - { on: schema c.s, allow: [USE_SCHEMA, SELECT_TABLE] }
          - { on: view c.s.v, allow: [SELECT_VIEW] }
      - { name: spare, users: [u], grants: [{ on: table c.s.hidden, deny: [SELECT_TABLE] }] }
  - name: n
    owner: { user: admin }
    users: [bob]
namespaces:
  - name: pg
    callers: { users: [u] }
    jobs: [{ namespace: etl, names: ['*'] }]
    inputs: [{ namespace: 'pg://db', names: ['public.*'] }]
    effect: allow
";

fn judged(subject: &str, active: Option<&str>, facets: FacetReferences, event: &Event) -> Judgement {
    let who = Identity { subject, groups: &[] };
    judge(&world(POLICY), &who, &ActiveRoles::parse(active).expect("roles"), event, facets)
}

fn told(judgement: Judgement) -> (String, String) {
    match judgement {
        Judgement::Allowed { governed_by } => ("allowed".to_owned(), format!("{governed_by:?}")),
        Judgement::Denied(Denied { refusal, why, .. }) => (format!("{refusal:?}"), why.to_string()),
    }
}

#[test]
fn a_member_may_send_an_event_without_datasets_and_nobody_else() {
    let event = run_event("m", "j");
    let allowed = Judgement::Allowed { governed_by: GovernedBy::Metalake("m".into()) };
    for member in ["u", "bob", "admin"] {
        assert_eq!(judged(member, None, FacetReferences::Governed, &event), allowed, "{member}");
    }
    for stranger in ["mallory", "U", ""] {
        let judgement = judged(stranger, None, FacetReferences::Governed, &event);
        assert_eq!(hidden(judgement), "no user row in metalake m");
    }
    let missing = judged("u", None, FacetReferences::Governed, &run_event("nope", "j"));
    assert_eq!(hidden(missing), "no namespace rule allows this job to the caller");
}

/// Facts: gravitino 0.1, gravitino-real 4.
#[test]
fn refusals_come_in_gravitinos_order() {
    let length = "If the type is TABLE, the length of names must be 3";
    let foreign = "inputs[0].namespace must match job.namespace 'm'";
    let unheld = "User 'u' cannot assume active role(s) that are not held: [nope, all]";
    let hidden_only = || run_event("m", "j").input("m", "c.s.hidden");
    let rows: [(&str, Option<&str>, Event, &str); 14] = [
        ("mallory", Some("nope"), run_event("m", "j").input("x", "y").of_type("NOPE"), "NotVisible"),
        ("mallory", None, hidden_only().output("m", "c.s"), "NotVisible"),
        ("u", Some("nope,reader,all"), run_event("m", "j").input("x", "y"), unheld),
        ("u", None, run_event("m", "j").input("other", "c.s.t"), foreign),
        ("u", None, run_event("m", "j").input("n", "c.s.t"), foreign),
        ("u", None, run_event("m", "j").input("M", "c.s.t"), foreign),
        ("u", None, hidden_only().output("m", "c.s"), length),
        ("u", None, run_event("m", "j").input("m", "c.s").output("x", "c.s.t"), length),
        ("u", None, run_event("m", "j").output("x", "c.s.t").input("m", "c.s"), length),
        ("u", None, run_event("m", "j").input("x", "c.s").of_type("NOPE"), foreign),
        ("u", None, run_event("m", "j").input("m", "c.s").of_type("NOPE"), "Unsupported dataset type: NOPE"),
        ("u", None, run_event("m", "j").input("m", "c.s.*"), "Cannot create a metadata object with `*` name."),
        ("u", None, hidden_only(), "NotVisible"),
        ("u", None, hidden_only().output("m", "c.s.missing"), "NotVisible"),
    ];
    for (subject, active, event, expected) in rows {
        let (refusal, _) = denial(judged(subject, active, FacetReferences::Governed, &event));
        let found = match refusal {
            Refused::NotVisible => "NotVisible".to_owned(),
            Refused::RolesNotHeld(text) | Refused::Unresolvable(text) => text,
        };
        assert_eq!(found, expected, "{subject} {:?}", event.references);
    }
}

#[test]
fn a_blank_dataset_type_is_told_in_gravitinos_words() {
    let mut event = run_event("m", "j").output("m", "c.s.t");
    event.references[1].dataset_type = DatasetType::Blank;
    let text = "The datasetType facet must contain a non-blank datasetType".to_owned();
    assert_eq!(denial(judged("u", None, FacetReferences::Governed, &event)).0, Refused::Unresolvable(text));
}

#[test]
fn the_reference_that_decided_is_told_with_its_reason() {
    let event = run_event("m", "j").output("m", "c.s.hidden").input("m", "c.x.t").input("m", "z.x.t");
    let Judgement::Denied(denied) = judged("u", None, FacetReferences::Governed, &event) else { panic!("allowed") };
    assert_eq!(denied.reference, Some(2));
    assert_eq!(denied.why.to_string(), "no grant of USE_SCHEMA on metalake, catalog c or schema c.x");
    let Judgement::Denied(denied) = judged("mallory", None, FacetReferences::Governed, &event) else {
        panic!("allowed")
    };
    assert_eq!(denied.reference, Some(0));
}

#[test]
fn every_reference_is_explained_by_the_rule_that_decided() {
    let world = world(POLICY);
    let event = run_event("m", "j")
        .input("m", "c.s.t")
        .input("m", "c.s.hidden")
        .input("m", "c.s.v")
        .of_type("view")
        .input("m", "z.s.t")
        .output("m", "c.s.t")
        .of_type("TOPIC")
        .output("x", "c.s.t")
        .naming(Role::FacetDataset, "m", "c.s.v")
        .naming(Role::FacetDataset, "m", "c.x.v")
        .naming(Role::FacetDataset, "hive://x", "db.t")
        .naming(Role::FacetJob, "n", "parent");
    let expected = [
        (true, "user row in metalake m"),
        (true, "role reader allows SELECT_TABLE on schema c.s"),
        (false, "role spare denies SELECT_TABLE on table c.s.hidden"),
        (true, "role reader allows SELECT_VIEW on view c.s.v"),
        (false, "no grant of USE_CATALOG on metalake or catalog z"),
        (false, "no grant of CONSUME_TOPIC or PRODUCE_TOPIC on topic c.s.t or above"),
        (false, "outputs[1].namespace must match job.namespace 'm'"),
        (true, "role reader allows SELECT_TABLE on schema c.s"),
        (false, "c.x.v is not visible as a table, view, fileset, model or topic"),
        (true, "not judged: `policy.facet_references` leaves it out"),
        (false, "no user row in metalake n"),
    ];
    let who = Identity { subject: "u", groups: &[] };
    let told = explain(&world, &who, &ActiveRoles::All, &event, FacetReferences::Governed);
    let found: Vec<_> = told.iter().map(|line| (line.allowed, line.why.to_string())).collect();
    let expected: Vec<_> = expected.iter().map(|(allowed, why)| (*allowed, (*why).to_owned())).collect();
    assert_eq!(found, expected);
    let owner = Identity { subject: "admin", groups: &[] };
    let told = explain(&world, &owner, &ActiveRoles::None, &event, FacetReferences::Governed);
    assert_eq!(told[1].why.to_string(), "owner of metalake m");
    let narrowed = ActiveRoles::Named(["spare".into()].into());
    let told = explain(&world, &who, &narrowed, &event, FacetReferences::Governed);
    assert_eq!(told[1].why.to_string(), "no grant of USE_CATALOG on metalake or catalog c in the active roles");
}

#[test]
fn facets_are_judged_as_far_as_the_configuration_says() {
    use FacetReferences::{All, Governed, Ignore};
    let full_name = "Unresolvable(\"inputs[0].facets.symlinks.identifiers[0].name must be a full name of metalake 'm': catalog.schema.object\")";
    let rows = [
        (Role::FacetDataset, "m", "c.s.t", ["allowed"; 3]),
        (Role::FacetDataset, "m", "c.s.v", ["allowed"; 3]),
        (Role::FacetDataset, "m", "c.s.hidden", ["allowed", "NotVisible", "NotVisible"]),
        (Role::FacetDataset, "m", "c.s", ["allowed", full_name, full_name]),
        (Role::FacetDataset, "m", "/warehouse/c/s/t", ["allowed", full_name, full_name]),
        (Role::FacetDataset, "n", "c.s.t", ["allowed", "NotVisible", "NotVisible"]),
        (Role::FacetDataset, "n", "c.s", ["allowed", "NotVisible", "NotVisible"]),
        (Role::FacetDataset, "pg://db", "public.t", ["allowed", "NotVisible", "NotVisible"]),
        (Role::FacetDataset, "s3://bucket", "t", ["allowed", "allowed", "NotVisible"]),
        (Role::FacetJob, "m", "parent", ["allowed"; 3]),
        (Role::FacetJob, "n", "parent", ["allowed", "NotVisible", "NotVisible"]),
        (Role::FacetJob, "etl", "parent", ["allowed"; 3]),
        (Role::FacetJob, "airflow", "parent", ["allowed", "allowed", "NotVisible"]),
    ];
    for (role, namespace, name, expected) in rows {
        let event = run_event("m", "j").input("m", "c.s.t").naming(role, namespace, name);
        for (facets, expected) in [Ignore, Governed, All].into_iter().zip(expected) {
            let (found, why) = told(judged("u", None, facets, &event));
            assert_eq!(found, expected, "{role:?} {namespace} {name} {facets:?}: {why}");
        }
    }
}

#[test]
fn a_facet_that_says_its_dataset_type_is_judged_as_that_type() {
    let event = |kind| run_event("m", "j").naming(Role::FacetDataset, "m", "c.s.v").of_type(kind);
    assert!(is_allowed(&judged("u", None, FacetReferences::Governed, &event("VIEW"))));
    assert_eq!(told(judged("u", None, FacetReferences::Governed, &event("MODEL"))).0, "NotVisible");
    assert!(is_allowed(&judged("u", None, FacetReferences::Governed, &event("LOCATION"))));
}

#[test]
fn a_dataset_event_is_under_the_rules_of_its_dataset() {
    let rows = [
        ("u", "m", "c.s.t", "allowed"),
        ("u", "m", "c.s.hidden", "NotVisible"),
        ("bob", "m", "c.s.t", "NotVisible"),
        ("mallory", "m", "c.s", "NotVisible"),
        ("u", "nope", "c.s.t", "NotVisible"),
    ];
    for (subject, namespace, name, expected) in rows {
        let event = dataset_event().output(namespace, name);
        assert_eq!(told(judged(subject, None, FacetReferences::Governed, &event)).0, expected, "{subject} {name}");
    }
    let nothing = judged("u", None, FacetReferences::Governed, &dataset_event());
    assert_eq!(told(nothing).0, "NotVisible");
}

#[test]
fn a_reference_into_a_metalake_is_judged_by_it_whatever_the_jobs_namespace_is() {
    let rows = [
        ("m", "c.s.t", None, "allowed"),
        ("m", "c.s.hidden", None, "NotVisible"),
        ("m", "c.s", None, "Unresolvable(\"If the type is TABLE, the length of names must be 3\")"),
        ("n", "c.s.t", None, "NotVisible"),
        ("n", "c.s", None, "NotVisible"),
        (
            "m",
            "c.s.t",
            Some("nope"),
            "RolesNotHeld(\"User 'u' cannot assume active role(s) that are not held: [nope]\")",
        ),
        ("pg://db", "public.t", Some("nope"), "allowed"),
        ("pg://db", "secret.t", None, "NotVisible"),
    ];
    for (namespace, name, active, expected) in rows {
        let event = run_event("etl", "load").input(namespace, name);
        let (found, why) = told(judged("u", active, FacetReferences::Governed, &event));
        assert_eq!(found, expected, "{namespace} {name}: {why}");
    }
}

#[test]
fn outputs_may_be_asked_to_be_writable() {
    let text = "
metalakes:
  - name: m
    owner: { user: admin }
    users: [u]
    outputs: modify
    roles:
      - name: r
        users: [u]
        grants:
          - { on: metalake, allow: [USE_CATALOG, USE_SCHEMA, SELECT_TABLE, READ_FILESET, CONSUME_TOPIC, SELECT_VIEW, USE_MODEL] }
          - { on: schema c.w, allow: [MODIFY_TABLE, WRITE_FILESET, PRODUCE_TOPIC, CREATE_VIEW, LINK_MODEL_VERSION] }
    owners: [{ on: schema c.own, user: u }, { on: table c.s.mine, user: u }]
";
    let world = world(text);
    for kind in ["TABLE", "FILESET", "TOPIC", "VIEW", "MODEL"] {
        let reads = run_event("m", "j").input("m", "c.s.t").of_type(kind);
        assert!(is_allowed(&ask(&world, "u", &[], &reads)), "{kind} input");
        let writes = |name| ask(&world, "u", &[], &run_event("m", "j").output("m", name).of_type(kind));
        assert!(hidden(writes("c.s.t")).starts_with("no grant of "), "{kind} output");
        assert!(is_allowed(&writes("c.w.t")), "{kind} output with the right");
        assert!(is_allowed(&writes("c.own.t")), "{kind} output in an own schema");
    }
    let mine = run_event("m", "j").output("m", "c.s.mine");
    assert!(is_allowed(&ask(&world, "u", &[], &mine)));
}
