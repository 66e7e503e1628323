//! Namespace rules: caller, job, inputs and outputs apart.

use super::*;
use crate::policy::{Governance, GovernedBy, explain};

const POLICY: &str = "
namespaces:
  - name: orders
    callers: { users: [airflow, 'svc-*'], groups: [etl] }
    jobs: [{ namespace: 'orders-*', names: ['load', 'dag.*'] }]
    inputs: [{ namespace: 'pg://db', names: ['public.*'] }, { namespace: 'kafka://*', names: ['*'] }]
    outputs: [{ namespace: 'pg://db', names: ['orders.*'] }]
    effect: allow
  - name: more
    callers: { groups: [etl] }
    jobs: [{ namespace: orders-eu, names: ['*'] }]
    outputs: [{ namespace: 's3://lake', names: ['*'] }]
    effect: allow
  - name: no-cards
    callers: { users: ['*'] }
    jobs: [{ namespace: '*', names: ['*'] }]
    inputs: [{ namespace: '*', names: ['*.cards'] }]
    effect: deny
  - name: retired
    callers: { users: [airflow] }
    jobs: [{ namespace: orders-eu, names: ['dag.old'] }]
    effect: deny
";

/// Caller, groups of the token, event, and the rule that governs it or the reason of its refusal.
type Row<'a> = (&'a str, &'a [&'a str], Event, Result<&'a str, &'a str>);

const PG: &str = "pg://db";

#[test]
fn a_rule_matches_caller_and_job_and_each_dataset() {
    let world = world(POLICY);
    let job = || run_event("orders-eu", "load");
    let no_job = "no namespace rule allows this job to the caller";
    let rows: [Row<'_>; 22] = [
        ("airflow", &[], job(), Ok("orders")),
        ("svc-1", &[], job(), Ok("orders")),
        ("nobody", &["etl"], job(), Ok("orders")),
        ("nobody", &[], job(), Err(no_job)),
        ("Airflow", &[], job(), Err(no_job)),
        ("etl", &[], job(), Err(no_job)),
        ("airflow", &[], run_event("orders", "load"), Err(no_job)),
        ("airflow", &[], run_event("orders-eu", "dag.a"), Ok("orders")),
        ("airflow", &[], run_event("orders-eu", "other"), Err(no_job)),
        ("nobody", &["etl"], run_event("orders-eu", "other"), Ok("more")),
        ("airflow", &[], run_event("orders-eu", "dag.old"), Err("rule retired denies it")),
        ("svc-1", &[], run_event("orders-eu", "dag.old"), Ok("orders")),
        ("airflow", &[], job().input(PG, "public.t").output(PG, "orders.t"), Ok("orders")),
        ("airflow", &[], job().input(PG, "orders.t"), Err("no namespace rule allows this input to the caller")),
        ("airflow", &[], job().output(PG, "public.t"), Err("no namespace rule allows this output to the caller")),
        ("airflow", &[], job().input("kafka://a:9092", "t"), Ok("orders")),
        ("airflow", &[], job().input("kafka:/a", "t"), Err("no namespace rule allows this input to the caller")),
        ("airflow", &[], job().input(PG, "public.cards"), Err("rule no-cards denies it")),
        ("airflow", &[], job().output(PG, "orders.cards"), Ok("orders")),
        ("airflow", &[], job().output("s3://lake", "t"), Err("no namespace rule allows this output to the caller")),
        ("airflow", &["etl"], job().output("s3://lake", "t").input(PG, "public.t"), Ok("orders")),
        (
            "nobody",
            &["etl"],
            run_event("orders-us", "load").output("s3://lake", "t"),
            Err("no namespace rule allows this output to the caller"),
        ),
    ];
    for (subject, token_groups, event, expected) in rows {
        let found = match ask(&world, subject, token_groups, &event) {
            Judgement::Allowed { governed_by } => {
                assert_eq!(expected.map(|rule| GovernedBy::Rule(rule.into())), Ok(governed_by), "{subject} {event:?}");
                continue;
            }
            denied @ Judgement::Denied(_) => hidden(denied),
        };
        assert_eq!(expected, Err(found.as_str()), "{subject} {event:?}");
    }
}

#[test]
fn facets_are_judged_by_the_rules_of_their_namespace() {
    let world = world(POLICY);
    let rows = [
        (Role::FacetDataset, PG, "public.t", true),
        (Role::FacetDataset, PG, "orders.t", true),
        (Role::FacetDataset, PG, "secret.t", false),
        (Role::FacetDataset, PG, "public.cards", false),
        (Role::FacetDataset, "mysql://db", "a.b", true),
        (Role::FacetDataset, "mysql://db", "a.cards", false),
        (Role::FacetJob, "orders-us", "dag.a", true),
        (Role::FacetJob, "orders-us", "other", false),
        (Role::FacetJob, "orders-eu", "dag.old", false),
        (Role::FacetJob, "airflow", "dag", true),
    ];
    for (role, namespace, name, expected) in rows {
        let event = run_event("orders-eu", "load").naming(role, namespace, name);
        assert_eq!(is_allowed(&ask(&world, "airflow", &[], &event)), expected, "{role:?} {namespace} {name}");
    }
}

#[test]
fn a_dataset_event_needs_a_rule_that_lets_its_caller_write_the_dataset() {
    let world = world(POLICY);
    let rows = [
        ("airflow", PG, "orders.t", true),
        ("airflow", PG, "public.t", false),
        ("nobody", PG, "orders.t", false),
        ("airflow", "s3://lake", "t", false),
    ];
    for (subject, namespace, name, expected) in rows {
        let event = dataset_event().output(namespace, name);
        assert_eq!(is_allowed(&ask(&world, subject, &[], &event)), expected, "{subject} {namespace} {name}");
    }
}

#[test]
fn the_policy_knows_the_namespaces_that_its_rules_name() {
    let world = world(POLICY);
    for known in ["orders-eu", "orders-", PG, "kafka://x", "s3://lake"] {
        assert_eq!(world.governs(known), Some(Governance::Rules), "{known}");
    }
    for unknown in ["orders", "airflow", "pg://db2", "*", ""] {
        assert_eq!(world.governs(unknown), None, "{unknown}");
    }
}

#[test]
fn explanations_name_the_rule() {
    let world = world(POLICY);
    let event = run_event("orders-eu", "load").input(PG, "public.t").input(PG, "public.cards").output(PG, "x");
    let who = Identity { subject: "airflow", groups: &[] };
    let told = explain(&world, &who, &ActiveRoles::All, &event, FacetReferences::Governed);
    let lines: Vec<_> = told.iter().map(|line| format!("{} {} {}", line.path, line.allowed, line.why)).collect();
    assert_eq!(
        lines,
        [
            "job true rule orders allows it",
            "inputs[0] true rule orders allows it",
            "inputs[1] false rule no-cards denies it",
            "outputs[0] false no namespace rule allows this output to the caller",
        ]
    );
}
