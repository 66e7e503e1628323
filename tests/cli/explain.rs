//! `lineage-gate explain`, on the policy of the demonstration.

use std::fs;

use serde_json::json;

use crate::support::{code, demo_policies, event, gate, text};

/// What is told of an event, columns apart.
fn explain(who: &[&str], event: &serde_json::Value) -> Vec<Vec<String>> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("event.json");
    fs::write(&path, event.to_string()).unwrap();
    let arguments = [&["explain", "--policies", demo_policies()], who, &[path.to_str().unwrap()]].concat();
    let output = gate(&arguments);
    assert_eq!(code(&output), Some(0), "{}", text(&output.stderr));
    let columns =
        |line: &str| line.split("  ").map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect();
    text(&output.stdout).lines().map(columns).collect()
}

#[test]
fn each_reference_is_told_with_the_role_grant_denial_or_owner_that_decided() {
    let mut sent =
        event(&["lake.sales.orders", "lake.sales.salaries", "lake.no.such"], &["lake.hr.people", "files.raw.uploads"]);
    sent["outputs"][1]["facets"] = json!({ "datasetType": { "datasetType": "FILESET" } });
    sent["run"]["facets"] = json!({ "parent": { "job": { "namespace": "finance", "name": "close" } } });
    let reader = "role sales_reader allows SELECT_TABLE on schema lake.sales";
    let (no_hr, nothing) = (
        "no grant of USE_SCHEMA on metalake, catalog lake or schema lake.hr",
        "no grant of USE_SCHEMA on metalake, catalog lake or schema lake.no",
    );
    let no_files = "no grant of USE_CATALOG on metalake or catalog files";
    let owner = "owner of metalake demo";
    // In the order of the event: job, three inputs, two outputs.
    let table: [(&[&str], [&str; 6]); 5] = [
        (
            &["--user", "alice"],
            [
                "allow user row in metalake demo",
                &format!("allow {reader}"),
                &format!("allow {reader}"),
                &format!("deny {nothing}"),
                &format!("deny {no_hr}"),
                "deny no grant of READ_FILESET or WRITE_FILESET on fileset files.raw.uploads or above",
            ],
        ),
        (
            &["--user", "carol"],
            [
                "allow user row in metalake demo",
                &format!("allow {reader}"),
                "deny role no_salaries denies SELECT_TABLE on table lake.sales.salaries",
                &format!("deny {nothing}"),
                &format!("deny {no_hr}"),
                &format!("deny {no_files}"),
            ],
        ),
        (
            &["--user", "dave"],
            [
                "allow user row in metalake demo",
                &format!("allow {reader}"),
                "allow owner of table lake.sales.salaries",
                &format!("deny {nothing}"),
                &format!("deny {no_hr}"),
                "allow owner of fileset files.raw.uploads",
            ],
        ),
        (
            &["--user", "bob", "--groups", "interns,analysts"],
            [
                "allow user row in metalake demo",
                &format!("allow {reader}"),
                &format!("allow {reader}"),
                &format!("deny {nothing}"),
                &format!("deny {no_hr}"),
                &format!("deny {no_files}"),
            ],
        ),
        (
            &["--user", "admin"],
            [
                "allow user row in metalake demo",
                &format!("allow {owner}"),
                &format!("allow {owner}"),
                &format!("allow {owner}"),
                &format!("allow {owner}"),
                &format!("allow {owner}"),
            ],
        ),
    ];
    let paths = ["job", "inputs[0]", "inputs[1]", "inputs[2]", "outputs[0]", "outputs[1]", "run.facets.parent.job"];
    for (who, expected) in table {
        let told = explain(who, &sent);
        let mut by_path: Vec<&str> = told.iter().map(|line| line[1].as_str()).collect();
        by_path.sort_unstable();
        let mut wanted = paths.to_vec();
        wanted.sort_unstable();
        assert_eq!(by_path, wanted);
        for (path, expected) in paths.iter().zip(expected) {
            let line = told.iter().find(|line| line[1] == *path).unwrap();
            assert_eq!(format!("{} {}", line[0], line[3]), expected, "{who:?} {path}");
        }
    }
}

#[test]
fn a_stranger_is_told_apart_from_nobody_and_rules_of_namespaces_are_named() {
    let told = explain(&["--user", "mallory"], &event(&["lake.sales.orders"], &[]));
    assert!(told.iter().all(|line| line[0] == "deny" && line[3] == "no user row in metalake demo"), "{told:?}");

    let warehouse = "postgres://warehouse:5432";
    let mut sent = event(&[], &[]);
    sent["job"]["namespace"] = json!("orders-prod");
    sent["inputs"] = json!([
        { "namespace": warehouse, "name": "shop.public.orders" },
        { "namespace": warehouse, "name": "shop.public.card_numbers" },
        { "namespace": warehouse, "name": "shop.secret" },
    ]);
    let told = explain(&["--user", "airflow"], &sent);
    let mut verdicts: Vec<_> = told.iter().map(|line| (line[1].as_str(), line[0].as_str())).collect();
    verdicts.sort_unstable();
    let expected = [("inputs[0]", "allow"), ("inputs[1]", "deny"), ("inputs[2]", "deny"), ("job", "allow")];
    assert_eq!(verdicts, expected);
    let rule = |path: &str| told.iter().find(|line| line[1] == path).map(|line| line[3].as_str()).unwrap();
    assert!(rule("inputs[0]").contains("team-orders") && rule("inputs[1]").contains("no-cards"), "{told:?}");
}

#[test]
fn what_cannot_be_explained_ends_with_65() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("event.json");
    fs::write(&path, "{").unwrap();
    let path = path.to_str().unwrap();
    for (policies, file, told) in [
        (demo_policies(), path, "the body ends before its JSON document does"),
        (demo_policies(), "/nowhere.json", "/nowhere.json: cannot be read"),
        ("/nowhere", path, "/nowhere: cannot be read"),
    ] {
        let output = gate(&["explain", "--policies", policies, "--user", "alice", file]);
        assert_eq!(code(&output), Some(65));
        assert!(text(&output.stderr).contains(told), "{}", text(&output.stderr));
    }
}
