use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::config::{self, EventTime};
use crate::event::scan::testing::{any_name, any_value};
use crate::event::tests::client_events;
use crate::event::{Reference, Role};

fn rules() -> Rules {
    Rules::new(&config::Event::default(), EventTime::RequireOffset, false)
}

fn plan(rewrite: Value, facets: Value) -> Plan {
    let rewrite: Vec<Rewrite> = serde_json::from_value(rewrite).unwrap();
    Plan::new(&rewrite, &serde_json::from_value(facets).unwrap(), false).unwrap()
}

fn edit(body: &str, plan: &Plan) -> Edited {
    parse(Bytes::from(body.to_owned()), &rules(), plan).unwrap()
}

fn text(event: &Event) -> &str {
    std::str::from_utf8(&event.body).unwrap()
}

/// A run event with these members after the mandatory ones.
fn run(more: &str) -> String {
    format!(
        r#"{{"eventTime":"2026-11-29T18:47:48Z", "producer":"p","schemaURL":"s",
  "run" : {{"runId":"01956fcb-c4f8-7234-a151-1d699950225d"}}, "job":{{"namespace":"demo","name":"j"}}{more}}}"#
    )
}

/// What the rules make of every reference, one by one.
fn mapped(plan: &Plan, references: &[Reference]) -> Vec<(Role, String, String, String)> {
    let map = |reference: &Reference| {
        let is_job = matches!(reference.role, Role::Job | Role::FacetJob);
        let sent = (reference.namespace.clone(), reference.name.clone());
        let (namespace, name) = plan
            .rules
            .iter()
            .fold(sent, |(namespace, name), rule| rule.map(is_job, &namespace, &name).unwrap_or((namespace, name)));
        (reference.role, namespace, name, reference.path.clone())
    };
    references.iter().map(map).collect()
}

fn named(references: &[Reference]) -> Vec<(Role, String, String, String)> {
    mapped(&Plan::default(), references)
}

/// Every value of a document with its place.
fn leaves(value: &Value, place: String, found: &mut Vec<(String, String)>) {
    match value {
        Value::Object(members) => {
            members.iter().for_each(|(key, value)| leaves(value, format!("{place}.{key}"), found))
        }
        Value::Array(list) => {
            list.iter().enumerate().for_each(|(i, value)| leaves(value, format!("{place}[{i}]"), found))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => found.push((place, value.to_string())),
    }
}

#[test]
fn real_events_pass_unchanged_where_nothing_is_configured_or_nothing_applies() {
    let idle = plan(
        json!([{ "namespace": "no-such-.*", "to_namespace": "x" }]),
        json!({ "drop": ["noSuchFacet"], "drop_over": "16MiB", "scrub_uris": true }),
    );
    for (file, body) in client_events() {
        for plan in [&Plan::default(), &idle] {
            let edited = edit(&body, plan);
            assert_eq!(text(&edited.event), body, "{file}");
            assert!(edited.tally.is_empty(), "{file}");
        }
    }
}

#[test]
fn rules_map_every_reference_of_real_events_and_no_other_byte() {
    let plan = plan(
        json!([
            { "rule": "files", "of": "dataset", "namespace": "file:?(.*)", "to_namespace": "s3:\"$1" },
            { "rule": "jobs", "of": "job", "namespace": "(.*)", "name": "(.*)", "to_name": "team.$1" },
            { "rule": "dbt", "of": "dataset", "namespace": "duckdb://.*", "name": "shop\\.(.*)", "to_namespace": "lake", "to_name": "é.$1" },
        ]),
        json!({}),
    );
    let mut used = BTreeSet::new();
    for (file, body) in client_events() {
        let sent = edit(&body, &Plan::default()).event;
        let edited = edit(&body, &plan);
        assert_eq!(named(&edited.event.references), mapped(&plan, &sent.references), "{file}");
        let (old, new) = (named(&sent.references), named(&edited.event.references));
        let changed = old.iter().zip(&new).filter(|(old, new)| old != new).count();
        assert_eq!(edited.tally.rewritten, changed, "{file}");
        used.extend(edited.tally.rules.keys().map(ToString::to_string));
        let [mut old, mut new] = [Vec::new(), Vec::new()];
        leaves(&serde_json::from_str(&body).unwrap(), String::new(), &mut old);
        leaves(&serde_json::from_str(text(&edited.event)).unwrap(), String::new(), &mut new);
        for ((place, old), (_, new)) in old.iter().zip(&new) {
            let may_change = place.ends_with(".namespace") || place.ends_with(".name");
            assert!(old == new || may_change, "{file} {place}: {old} became {new}");
        }
        assert_eq!(old.len(), new.len(), "{file}");
    }
    assert_eq!(used.into_iter().collect::<Vec<_>>(), ["dbt", "files", "jobs"]);
}

#[test]
fn named_and_large_facets_of_real_events_go_and_the_rest_stays() {
    let drop = ["schema", "parent", "sql", "inputStatistics", "outputStatistics", "spark.logicalPlan"];
    let bound = 600;
    let plan = plan(json!([]), json!({ "drop": drop, "drop_over": "600B" }));
    let (mut dropped, mut large) = (0, 0);
    for (file, body) in client_events() {
        let body = String::from_utf8(crate::event::minified(body.as_bytes())).unwrap();
        let edited = edit(&body, &plan);
        let mut wanted: Value = serde_json::from_str(&body).unwrap();
        let mut count = 0;
        strip(&mut wanted, &mut |name, value| {
            let is_large = value.to_string().len() > bound;
            let goes = drop.contains(&name) || is_large;
            count += usize::from(goes);
            large += usize::from(is_large && !drop.contains(&name));
            goes
        });
        let kept: Value = serde_json::from_str(text(&edited.event)).unwrap();
        assert_eq!(kept, wanted, "{file}");
        assert_eq!(edited.tally.facets_dropped, count, "{file}");
        dropped += edited.tally.facets_dropped;
    }
    assert!(dropped > 100 && large > 5, "{dropped} {large}");
}

/// Takes out the facets of an event that `goes` names, by a plain search.
fn strip(event: &mut Value, goes: &mut impl FnMut(&str, &Value) -> bool) {
    for pointer in ["/run/facets", "/job/facets", "/dataset/facets"] {
        if let Some(facets) = event.pointer_mut(pointer).and_then(Value::as_object_mut) {
            facets.retain(|name, value| !goes(name, value));
        }
    }
    for list in ["inputs", "outputs"] {
        for dataset in event.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            for key in ["facets", "inputFacets", "outputFacets"] {
                if let Some(facets) = dataset.get_mut(key).and_then(Value::as_object_mut) {
                    facets.retain(|name, value| !goes(name, value));
                }
            }
        }
    }
}

#[test]
fn an_edit_changes_its_bytes_and_no_other() {
    let newer = plan(json!([{ "namespace": "http://h:8090/api/metalakes/(.+)", "to_namespace": "$1" }]), json!({}));
    let facets = plan(json!([]), json!({ "drop": ["a", "b"] }));
    let scrub = plan(json!([]), json!({ "scrub_uris": true }));
    let both = plan(json!([{ "namespace": "pg://h", "to_namespace": "x" }]), json!({ "scrub_uris": true }));
    let table = [
        (
            &newer,
            r#" , "inputs" : [ {"namespace" :  "http:\/\/h:8090\/api\/metalakes\/demo" ,"name":"a.b.c" } ]"#,
            r#" , "inputs" : [ {"namespace" :  "demo" ,"name":"a.b.c" } ]"#,
        ),
        (
            &newer,
            r#","inputs":[{"name":"a.b.c","facets":{"dataSource":{"name":"http://h:8090/api/metalakes/demo","uri":"u"}},"namespace":"http://h:8090/api/metalakes/demo"}]"#,
            r#","inputs":[{"name":"a.b.c","facets":{"dataSource":{"name":"demo","uri":"u"}},"namespace":"demo"}]"#,
        ),
        (
            &newer,
            r#","x":[{"namespace":"http://h:8090/api/metalakes/demo"}]"#,
            r#","x":[{"namespace":"http://h:8090/api/metalakes/demo"}]"#,
        ),
        (
            &newer,
            r#","x":[[{"namespace":"http://h:8090/api/metalakes/demo","name":""}]]"#,
            r#","x":[[{"namespace":"demo","name":""}]]"#,
        ),
        (
            &facets,
            r#","inputs":[{"namespace":"n","name":"m","facets":{ "a" : {} , "b":1,"c": 2, "b2":3 }}]"#,
            r#","inputs":[{"namespace":"n","name":"m","facets":{ "c": 2, "b2":3 }}]"#,
        ),
        (
            &facets,
            r#","inputs":[{"namespace":"n","name":"m","facets":{"c":2, "a":[1,{"a":2}] ,"b":3 }}]"#,
            r#","inputs":[{"namespace":"n","name":"m","facets":{"c":2 }}]"#,
        ),
        (
            &facets,
            r#","inputs":[{"namespace":"n","name":"m","facets":{"\u0061":2},"inputFacets":{"b":{},"c":{"a":1}}}]"#,
            r#","inputs":[{"namespace":"n","name":"m","facets":{},"inputFacets":{"c":{"a":1}}}]"#,
        ),
        (
            &facets,
            r#","a":{"a":1},"outputs":[{"namespace":"n","name":"m","outputFacets":{"a":null}}]"#,
            r#","a":{"a":1},"outputs":[{"namespace":"n","name":"m","outputFacets":{}}]"#,
        ),
        (
            &scrub,
            r#","x":["pg://u:p@h","ok",{"y":"see http:\/\/u:p@h/\u00e9"},"pg://h"],"z":12345678901234567890123"#,
            r#","x":["pg://h","ok",{"y":"see http://h/é"},"pg://h"],"z":12345678901234567890123"#,
        ),
        (
            &scrub,
            r#","x":{"namespace":"pg://u:p@h","name":3,"type":"pg://u:p@h"}"#,
            r#","x":{"namespace":"pg://h","name":3,"type":"pg://h"}"#,
        ),
        (&both, r#","x":{"namespace":"pg://u:p@h","name":"pg://u:p@h"}"#, r#","x":{"namespace":"x","name":"pg://h"}"#),
        (
            &both,
            r#","inputs":[{"facets":{"dataSource":{"uri":"pg://u:p@h","name":"pg://u:p@h"}},"namespace":"pg://u:p@h","name":"m"}]"#,
            r#","inputs":[{"facets":{"dataSource":{"uri":"pg://h","name":"x"}},"namespace":"x","name":"m"}]"#,
        ),
    ];
    for (plan, sent, kept) in table {
        assert_eq!(text(&edit(&run(sent), plan).event), run(kept), "{sent}");
    }
}

#[test]
fn what_was_done_is_counted_without_what_a_dropped_facet_held() {
    let plan = plan(
        json!([{ "rule": "one", "namespace": "n", "to_namespace": "m" }, { "rule": "two", "namespace": "m", "name": "x", "to_name": "y" }]),
        json!({ "drop": ["gone"], "scrub_uris": true }),
    );
    let sent = r#","inputs":[{"namespace":"n","name":"x","facets":{
        "gone":{"namespace":"n","name":"x","uri":"pg://u:p@h"},"kept":{"namespace":"n","name":"z","uri":"pg://u:p@h"}}}]"#;
    let edited = edit(&run(sent), &plan);
    let rules = BTreeMap::from([("one".into(), 2), ("two".into(), 1)]);
    let wanted = Tally { rewritten: 2, rules, facets_dropped: 1, scrubbed: 1, symlinks_dropped: 0 };
    assert_eq!(edited.tally, wanted);
    assert!(!text(&edited.event).contains("gone"));
}

#[test]
fn an_event_that_rules_break_is_refused_like_one_sent_so() {
    let blank = plan(json!([{ "namespace": "demo", "to_namespace": "" }]), json!({}));
    let error = parse(Bytes::from(run("")), &rules(), &blank).unwrap_err();
    assert!(matches!(&error, Error::Invalid(text) if text.contains("job.namespace is required")), "{error}");
    let doubling = format!("${{1}}{}", "x".repeat(1_000));
    let growing = plan(json!([{ "of": "dataset", "namespace": "(n)", "to_namespace": doubling }]), json!({}));
    let datasets = vec![r#"{"namespace":"n","name":"m"}"#; 2_000].join(",");
    let error = parse(Bytes::from(run(&format!(",\"inputs\":[{datasets}]"))), &rules(), &growing).unwrap_err();
    assert!(matches!(&error, Error::TooLarge(text) if text.starts_with("rewrite rules make")), "{error}");
}

#[test]
fn more_edits_than_the_bound_are_refused() {
    let scrub = plan(json!([]), json!({ "scrub_uris": true }));
    let texts = vec![r#""a://u:p@h""#; 100_002].join(",");
    let error = parse(Bytes::from(run(&format!(",\"x\":[{texts}]"))), &rules(), &scrub).unwrap_err();
    assert!(matches!(&error, Error::TooLarge(text) if text.contains("100000 edits")), "{error}");
}

#[test]
fn faults_of_a_plan_are_told_together() {
    let rewrite: Vec<Rewrite> =
        serde_json::from_value(json!([{ "namespace": "(", "to_name": "x" }, { "namespace": "a" }])).unwrap();
    let facets = serde_json::from_value(json!({ "drop_over": "0B" })).unwrap();
    let faults = Plan::new(&rewrite, &facets, false).unwrap_err();
    let places: Vec<_> = faults.iter().map(|fault| fault.split_once(": ").unwrap().0).collect();
    assert_eq!(places, ["rewrite[0].namespace", "rewrite[1]", "facets.drop_over"]);
}

/// A run event around any values.
fn any_event() -> impl Strategy<Value = String> {
    let value = || any_value().boxed();
    let named = || prop_oneof![any_name(), any_value()].boxed();
    (value(), named(), named(), named(), any::<bool>()).prop_map(|(a, b, c, d, pretty)| {
        let event = json!({
            "eventTime": "2026-11-29T18:47:48Z", "producer": "p", "schemaURL": "s", "x": a,
            "run": { "runId": "01956fcb-c4f8-7234-a151-1d699950225d", "facets": { "custom": b, "name": 1 } },
            "job": { "namespace": "n", "name": "j", "facets": { "a": d } },
            "inputs": [{ "namespace": "a", "name": "b", "facets": { "a": c, "dataSource": { "name": "a" }, "b": {} } }],
        });
        if pretty { serde_json::to_string_pretty(&event).unwrap() } else { event.to_string() }
    })
}

proptest! {
    #[test]
    fn a_plan_without_effect_leaves_every_byte(body in any_event()) {
        let idle = plan(json!([{ "namespace": "(.*)", "to_namespace": "$1" }]), json!({ "drop": ["never"] }));
        if let Ok(edited) = parse(Bytes::from(body.clone()), &rules(), &idle) {
            prop_assert_eq!(text(&edited.event), body);
            prop_assert!(edited.tally.is_empty());
        }
    }

    #[test]
    fn references_afterwards_are_the_mapped_references_before(body in any_event()) {
        let plan = plan(json!([
            { "of": "dataset", "namespace": "(?s)([a-m].*|)", "to_namespace": "<\"$1\\>" },
            { "of": "job", "namespace": "(?s)(.*)", "name": "(?s)(.*)", "to_name": "é$1", "to_namespace": "$1" },
            { "namespace": "(?s)<(.*)", "name": "(?s)(.{2,})", "to_name": "$1$1" },
        ]), json!({}));
        if let Ok(sent) = parse_as_sent(Bytes::from(body.clone()), &rules()) {
            let edited = edit(&body, &plan).event;
            prop_assert_eq!(named(&edited.references), mapped(&plan, &sent.references));
        }
    }

    #[test]
    fn dropping_facets_takes_out_just_them(body in any_event()) {
        let plan = plan(json!([]), json!({ "drop": ["a", "name"], "drop_over": "40B" }));
        if parse_as_sent(Bytes::from(body.clone()), &rules()).is_ok() && !body.contains('\n') {
            let edited = edit(&body, &plan);
            let mut wanted: Value = serde_json::from_str(&body).unwrap();
            // A value has the size that it was sent with, which a number need not keep when it is read and written.
            prop_assume!(wanted.to_string().len() == body.len());
            strip(&mut wanted, &mut |name, value| ["a", "name"].contains(&name) || value.to_string().len() > 40);
            prop_assert_eq!(serde_json::from_str::<Value>(text(&edited.event)).unwrap(), wanted);
        }
    }
}
