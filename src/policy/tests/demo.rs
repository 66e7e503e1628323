//! The example policy shows what it says that it shows.

use super::*;
use crate::policy::GovernedBy;

fn demo() -> World {
    world(include_str!("../../../policies/demo.yaml"))
}

fn reads(name: &str) -> Event {
    run_event("demo", "spark.job").input("demo", name).output("demo", "lake.sales.orders_daily")
}

#[test]
fn the_demo_policy_allows_what_it_shows_as_allowed() {
    let world = demo();
    let orders = "postgres://warehouse:5432";
    let rows: [(&str, &[&str], Event); 10] = [
        ("alice", &[], reads("lake.sales.orders")),
        ("alice", &[], reads("lake.sales.salaries")),
        ("bob", &["analysts"], reads("lake.sales.customers")),
        ("bob", &[], run_event("demo", "nightly.cleanup")),
        ("dave", &[], reads("lake.sales.salaries")),
        ("dave", &[], run_event("demo", "j").input("demo", "files.raw.uploads").of_type("FILE")),
        ("erin", &[], run_event("demo", "j").input("demo", "lake.hr.people")),
        ("erin", &[], run_event("demo", "j").input("demo", "bus.web.clicks").of_type("topic")),
        ("erin", &[], run_event("demo", "j").output("demo", "models.churn.scorer").of_type("MODEL")),
        (
            "airflow",
            &[],
            run_event("orders-daily", "load").input(orders, "shop.public.orders").output(orders, "shop.orders.facts"),
        ),
    ];
    for (subject, token_groups, event) in rows {
        let judgement = ask(&world, subject, token_groups, &event);
        assert!(is_allowed(&judgement), "{subject} {event:?}: {judgement:?}");
    }
    let airflow = ask(&world, "airflow", &[], &run_event("orders-daily", "load"));
    assert_eq!(airflow, Judgement::Allowed { governed_by: GovernedBy::Rule("team-orders".into()) });
}

#[test]
fn the_demo_policy_hides_what_it_shows_as_hidden() {
    let world = demo();
    let salaries = "role no_salaries denies SELECT_TABLE on table lake.sales.salaries";
    let warehouse = "postgres://warehouse:5432";
    let rows = [
        ("bob", reads("lake.sales.orders"), "no grant of USE_CATALOG on metalake or catalog lake"),
        ("alice", reads("lake.hr.people"), "no grant of USE_SCHEMA on metalake, catalog lake or schema lake.hr"),
        ("alice", reads("lake.hr.missing"), "no grant of USE_SCHEMA on metalake, catalog lake or schema lake.hr"),
        (
            "alice",
            run_event("demo", "j").input("demo", "files.raw.uploads").of_type("FILESET"),
            "no grant of READ_FILESET or WRITE_FILESET on fileset files.raw.uploads or above",
        ),
        ("carol", reads("lake.sales.salaries"), salaries),
        ("mallory", run_event("demo", "j"), "no user row in metalake demo"),
        ("mallory", run_event("nowhere", "j"), "no namespace rule allows this job to the caller"),
        ("alice", run_event("finance", "j"), "no user row in metalake finance"),
        ("airflow", run_event("demo", "j"), "no user row in metalake demo"),
        (
            "alice",
            reads("lake.sales.orders").naming(Role::FacetDataset, "demo", "lake.hr.people"),
            "lake.hr.people is not visible as a table, view, fileset, model or topic",
        ),
        (
            "airflow",
            run_event("orders-daily", "load").input(warehouse, "shop.public.card_numbers"),
            "rule no-cards denies it",
        ),
        ("alice", run_event("orders-daily", "load"), "no namespace rule allows this job to the caller"),
    ];
    for (subject, event, why) in rows {
        assert_eq!(hidden(ask(&world, subject, &[], &event)), why, "{subject}");
    }
}

#[test]
fn hidden_and_missing_datasets_get_the_same_answer() {
    let world = demo();
    let refusals = ["lake.hr.people", "lake.hr.missing", "nowhere.x.y", "lake.nowhere.y"]
        .map(|name| denial(ask(&world, "alice", &[], &reads(name))).0);
    assert_eq!(refusals, [const { Refused::NotVisible }; 4]);
    let metalakes = ["finance", "nowhere"].map(|name| denial(ask(&world, "alice", &[], &run_event(name, "j"))).0);
    assert_eq!(metalakes, [Refused::NotVisible, Refused::NotVisible]);
}
