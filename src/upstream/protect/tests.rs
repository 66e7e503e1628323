use serde_json::{Value, json};

use super::*;
use crate::config::EventTime;
use crate::event::{self, Rules};

fn rules() -> Rules {
    Rules::new(&config::Event::default(), EventTime::AssumeUtc, false)
}

fn protection(more: &Value) -> Protection {
    let mut json = json!({ "name": "u", "url": "http://h" });
    json.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    Protection::new(&serde_json::from_value(json).unwrap())
}

fn event(more: &Value) -> Event {
    let mut json = json!({
        "eventTime": "2026-01-02T03:04:05Z",
        "producer": "https://example.com/p",
        "schemaURL": "https://openlineage.io/spec/2-0-2/OpenLineage.json",
        "run": { "runId": "00000000-0000-4000-8000-000000000001" },
        "job": { "namespace": "golden", "name": "job" },
        "inputs": [],
        "outputs": [],
    });
    json.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    event::parse(json.to_string().into(), &rules()).unwrap()
}

fn dataset(namespace: &str, name: &str) -> Value {
    json!([{ "namespace": namespace, "name": name }])
}

fn symlink(namespace: &str, name: &str) -> Value {
    json!([{ "namespace": "db", "name": "t", "facets": {
        "symlinks": { "identifiers": [{ "namespace": namespace, "name": name, "type": "TABLE" }] }
    } }])
}

/// The rule that an event breaks, or nothing.
fn broken(protection: &Protection, event: &Event) -> Option<String> {
    match protection.check(event) {
        Ok(passage) => {
            assert_eq!(passage, Passage::Send);
            None
        }
        Err(Refusal::BackendRule(rule)) => Some(rule),
        Err(other) => panic!("{other:?}"),
    }
}

#[test]
fn marquez_gets_no_namespace_outside_its_rule_wherever_it_would_store_one() {
    let marquez = protection(&json!({ "kind": "marquez" }));
    let long = "n".repeat(1024);
    for good in ["postgres://db.example.org:5432", "abfss://c@acct.dfs.core.windows.net", "a;b=c+d_e-f.g", &long] {
        for more in places(good) {
            assert_eq!(broken(&marquez, &event(&more)), None, "{more}");
        }
    }
    let longer = "n".repeat(1025);
    let bad = ["my ns", "a%20b", "a|b", "größe", "a*", "a~b", "a,b", "a#b", "a?b", "a[0]", "a\n", "my ns2", &longer];
    for bad in bad {
        for more in places(bad) {
            let rule = broken(&marquez, &event(&more)).unwrap_or_else(|| panic!("{more}"));
            assert!(rule.contains(".namespace must be 1 to 1024"), "{rule}");
            assert!(!rule.contains(bad), "a rule repeats no value: {rule}");
        }
    }
    for kind in ["openlineage", "openmetadata", "polaris", "datahub", "gravitino"] {
        let other = protection(&json!({ "kind": kind }));
        assert_eq!(broken(&other, &event(&json!({ "inputs": dataset("my ns", "t") }))), None, "{kind}");
    }
}

/// An event with this namespace at each place that Marquez stores.
fn places(namespace: &str) -> Vec<Value> {
    vec![
        json!({ "job": { "namespace": namespace, "name": "j" } }),
        json!({ "run": null, "job": { "namespace": namespace, "name": "j" } }),
        json!({ "inputs": dataset(namespace, "t") }),
        json!({ "outputs": dataset(namespace, "t") }),
        json!({ "inputs": symlink(namespace, "t") }),
        json!({ "outputs": symlink(namespace, "t") }),
        json!({ "run": null, "job": null, "dataset": { "namespace": namespace, "name": "t" } }),
        json!({ "run": null, "job": null, "dataset": symlink(namespace, "t")[0] }),
    ]
}

#[test]
fn names_in_other_facets_create_nothing_in_marquez_and_are_free() {
    let marquez = protection(&json!({ "kind": "marquez" }));
    let more = json!({
        "run": { "runId": "00000000-0000-4000-8000-000000000001", "facets": {
            "parent": { "run": { "runId": "x" }, "job": { "namespace": "my ns", "name": "dag" } },
        } },
        "outputs": [{ "namespace": "db", "name": "t", "facets": { "columnLineage": { "fields": {
            "a": { "inputFields": [{ "namespace": "my ns", "name": "s", "field": "a" }] },
        } } } }],
    });
    assert_eq!(broken(&marquez, &event(&more)), None);
}

#[test]
fn marquez_gets_no_name_that_it_cannot_index_and_no_data_source_that_is_no_uri() {
    let marquez = protection(&json!({ "kind": "marquez" }));
    let source = |uri: &str| json!({ "outputs": [{ "namespace": "db", "name": "t", "facets": { "dataSource": { "name": "x", "uri": uri } } }] });
    let rows = [
        (json!({ "job": { "namespace": "a", "name": "x".repeat(8191) } }), None),
        (
            json!({ "job": { "namespace": "a", "name": "x".repeat(8192) } }),
            Some("job.name must not be longer than 8191 bytes"),
        ),
        (
            json!({ "inputs": dataset("a", &"x".repeat(8192)) }),
            Some("inputs[0].name must not be longer than 8191 bytes"),
        ),
        (json!({ "job": { "namespace": "a", "name": "a/b\t\u{e9}" } }), None),
        (
            json!({ "inputs": symlink("a", "") }),
            Some("inputs[0].facets.symlinks.identifiers[0].name must not be empty"),
        ),
        (source("postgres://db:5432"), None),
        (source("not a uri"), Some("outputs[0].facets.dataSource.uri must be a URI")),
    ];
    for (more, expected) in rows {
        assert_eq!(broken(&marquez, &event(&more)).as_deref(), expected);
    }
}

#[test]
fn the_number_of_datasets_is_bounded_by_the_time_that_marquez_has() {
    let many = |count: usize| {
        let inputs: Vec<Value> = (0..count).map(|i| json!({ "namespace": "db", "name": format!("t{i}") })).collect();
        event(&json!({ "inputs": inputs }))
    };
    let rule = |bound| Some(format!("it takes up to {bound} datasets an event, symlinks included, in the time it has"));
    let marquez = protection(&json!({ "kind": "marquez" }));
    assert_eq!(broken(&marquez, &many(500)), None);
    assert_eq!(broken(&marquez, &many(501)), rule(500));
    let slow = protection(&json!({ "kind": "marquez", "answer_within": "1400ms" }));
    assert_eq!(broken(&slow, &many(201)), rule(200));
    let configured = protection(&json!({ "kind": "marquez", "max_datasets": 1000 }));
    assert_eq!(broken(&configured, &many(1000)), None);
    let other = protection(&json!({ "kind": "openlineage" }));
    assert_eq!(broken(&other, &many(2000)), None);
    let other = protection(&json!({ "kind": "polaris", "max_datasets": 1 }));
    assert_eq!(broken(&other, &event(&json!({ "inputs": symlink("a", "b") }))), rule(1));
}

#[test]
fn an_event_over_the_configured_size_is_refused_with_the_bound() {
    let event = event(&json!({}));
    let length = event.body.len();
    let exact = protection(&json!({ "kind": "openlineage", "max_event": format!("{length}B") }));
    assert_eq!(broken(&exact, &event), None);
    let less = protection(&json!({ "kind": "openlineage", "max_event": format!("{}B", length - 1) }));
    assert_eq!(broken(&less, &event), Some(format!("it takes events of up to {} bytes", length - 1)));
}

#[test]
fn kinds_that_a_backend_cannot_take_are_refused_or_dropped() {
    let events = [
        (event(&json!({})), [true, true, true]),
        (event(&json!({ "run": null })), [false, true, false]),
        (
            event(&json!({ "run": null, "job": null, "dataset": { "namespace": "a", "name": "b" } })),
            [false, true, false],
        ),
    ];
    let kinds = [&["gravitino", "openmetadata"][..], &["marquez", "polaris", "openlineage", "file"], &["datahub"]];
    for (event, taken) in &events {
        for (kinds, taken) in kinds.iter().zip(taken) {
            for kind in *kinds {
                let refuse = protection(&json!({ "kind": kind })).check(event);
                let drop = protection(&json!({ "kind": kind, "unsupported_kinds": "drop" })).check(event);
                if *taken {
                    assert_eq!((refuse, drop), (Ok(Passage::Send), Ok(Passage::Send)), "{kind} {:?}", event.kind);
                } else {
                    let rule = "it takes run events only, no job or dataset events".to_owned();
                    assert_eq!(refuse, Err(Refusal::BackendRule(rule)), "{kind} {:?}", event.kind);
                    assert_eq!(drop, Ok(Passage::Drop(NoEffect::Filtered)), "{kind} {:?}", event.kind);
                }
            }
        }
    }
}
