use bytes::Bytes;
use serde_json::{Value, json};

use crate::config::EventTime;
use crate::event::{Error, Event, Kind, Role, Rules, parse};

const RUN: &str = "0198a9d2-1c4e-7b3a-9f00-000000000000";

fn rules() -> Rules {
    Rules {
        event_time: EventTime::RequireOffset,
        kinds: vec![Kind::Run, Kind::Job, Kind::Dataset],
        runs_only: false,
        max_depth: 100,
        max_references: 100,
    }
}

fn gravitino() -> Rules {
    Rules { runs_only: true, ..rules() }
}

fn schema(kind: &str) -> String {
    format!("https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/{kind}")
}

fn run_event() -> Value {
    json!({
        "eventTime": "2026-11-29T18:47:18.163Z",
        "eventType": "START",
        "producer": "https://example.com/producer",
        "schemaURL": schema("RunEvent"),
        "run": { "runId": RUN },
        "job": { "namespace": "ns", "name": "job" },
        "inputs": [{ "namespace": "ns", "name": "a.b.c" }],
        "outputs": [],
    })
}

/// The run event with these members, given by JSON pointer; null means without.
fn with(changes: Value) -> Value {
    let mut event = run_event();
    for (key, value) in changes.as_object().unwrap() {
        if value.is_null() {
            event.as_object_mut().unwrap().remove(key);
        } else {
            event[key] = value.clone();
        }
    }
    event
}

fn parsed(event: &Value, rules: &Rules) -> Result<Event, Error> {
    parse(Bytes::from(event.to_string()), rules)
}

fn answer(event: &Value, rules: &Rules) -> String {
    match parsed(event, rules) {
        Ok(event) => format!("{:?}", event.kind),
        Err(error) => error.to_string(),
    }
}

#[test]
fn missing_members_are_named_in_gravitinos_words_and_order() {
    let table = [
        (json!({}), "Run"),
        (json!({ "eventTime": null }), "eventTime is required"),
        (json!({ "eventTime": "" }), "eventTime is required"),
        (json!({ "producer": null }), "producer is required"),
        (json!({ "schemaURL": null }), "schemaURL is required"),
        (json!({ "run": {} }), "run.runId is required"),
        (json!({ "run": { "runId": null } }), "run.runId is required"),
        (json!({ "run": { "runId": "" } }), "run.runId is required"),
        (json!({ "job": null }), "job is required"),
        (json!({ "job": {} }), "job.namespace is required; job.name is required"),
        (json!({ "job": { "namespace": " \t", "name": "x" } }), "job.namespace is required"),
        (json!({ "job": { "namespace": "x", "name": "" } }), "job.name is required"),
        (json!({ "inputs": [null] }), "inputs[0] cannot be null"),
        (json!({ "inputs": [{ "name": "x" }] }), "inputs[0].namespace is required"),
        (json!({ "outputs": [{ "namespace": "x", "name": " " }] }), "outputs[0].name is required"),
        (json!({ "dataset": { "namespace": "x" } }), "dataset.name is required"),
        (json!({ "inputs": null, "outputs": null, "eventType": null }), "Run"),
        (
            json!({ "outputs": [{}], "inputs": [null], "job": null, "eventTime": null }),
            "eventTime is required; job is required; inputs[0] cannot be null; outputs[0].namespace is required; \
             outputs[0].name is required",
        ),
    ];
    for (changes, expected) in table {
        assert_eq!(answer(&with(changes.clone()), &rules()), expected, "{changes}");
        assert_eq!(answer(&with(changes.clone()), &gravitino()), expected, "{changes}");
    }
}

#[test]
fn an_event_with_nothing_is_told_what_a_run_event_needs() {
    let everything =
        "eventTime is required; producer is required; schemaURL is required; run is required; job is required";
    assert_eq!(answer(&json!({}), &rules()), everything);
    assert_eq!(answer(&json!({}), &gravitino()), everything);
    assert_eq!(answer(&Value::Null, &gravitino()), "Lineage event cannot be null");
    assert!(
        matches!(parse(Bytes::new(), &rules()), Err(Error::Invalid(text)) if text == "Lineage event cannot be null")
    );
}

#[test]
fn members_tell_the_kind() {
    let dataset = json!({ "namespace": "ns", "name": "d" });
    let table = [
        (json!({}), "Run"),
        (json!({ "dataset": dataset }), "Run"),
        (json!({ "run": null, "schemaURL": schema("JobEvent") }), "Job"),
        (json!({ "run": null, "dataset": dataset, "schemaURL": schema("DatasetEvent") }), "Dataset"),
        (json!({ "run": null, "job": null, "dataset": dataset, "schemaURL": schema("DatasetEvent") }), "Dataset"),
        (
            json!({ "run": null, "job": null, "dataset": {}, "schemaURL": schema("DatasetEvent") }),
            "dataset.namespace is required; dataset.name is required",
        ),
        (json!({ "job": null, "dataset": dataset }), "job is required"),
    ];
    for (changes, expected) in table {
        assert_eq!(answer(&with(changes.clone()), &rules()), expected, "{changes}");
    }
    let null_run = r#""run":null,"dataset":null,"inputs":null,"#;
    let body = with(json!({ "run": null, "schemaURL": schema("JobEvent"), "inputs": null })).to_string();
    let event = parse(Bytes::from(body.replacen('{', &format!("{{{null_run}"), 1)), &rules()).unwrap();
    assert_eq!(event.kind, Kind::Job);
}

#[test]
fn a_schema_url_must_not_name_another_kind() {
    let refused = "schemaURL names a DatasetEvent, but the members make the event a RunEvent";
    let table = [
        (schema("RunEvent"), "Run"),
        ("https://elsewhere.example/RunEvent/".to_owned(), "Run"),
        ("https://openlineage.io/spec/2-0-2/OpenLineage.json".to_owned(), "Run"),
        ("https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/Another".to_owned(), "Run"),
        ("https://github.com/acme/my-DatasetEvent/schema".to_owned(), "Run"),
        (String::new(), "Run"),
        (schema("DatasetEvent"), refused),
        (schema("DatasetEvent/"), refused),
        (schema("datasetevent"), refused),
        (schema("%44atasetEvent"), refused),
        ("https://elsewhere.example/DatasetEvent".to_owned(), refused),
        ("https://elsewhere.example/DatasetEvent#x".to_owned(), refused),
        ("DatasetEvent".to_owned(), refused),
    ];
    for (url, expected) in table {
        assert_eq!(answer(&with(json!({ "schemaURL": url })), &rules()), expected, "{url}");
    }
    let job = with(json!({ "run": null }));
    assert_eq!(answer(&job, &rules()), "schemaURL names a RunEvent, but the members make the event a JobEvent");
    let job = with(json!({ "schemaURL": schema("JobEvent") }));
    assert_eq!(answer(&job, &rules()), "schemaURL names a JobEvent, but the members make the event a RunEvent");
}

#[test]
fn a_contract_that_takes_runs_only_answers_as_the_real_server() {
    let job = with(json!({ "run": null, "schemaURL": schema("JobEvent") }));
    assert_eq!(answer(&job, &gravitino()), "run is required");
    let dataset = with(json!({
        "run": null, "job": null, "dataset": { "namespace": "ns", "name": "d" }, "schemaURL": schema("DatasetEvent"),
    }));
    assert_eq!(answer(&dataset, &gravitino()), "run is required; job is required");
}

#[test]
fn a_kind_that_is_switched_off_is_refused_by_name() {
    let dataset = with(json!({
        "run": null, "job": null, "dataset": { "namespace": "ns", "name": "d" }, "schemaURL": schema("DatasetEvent"),
    }));
    let job = with(json!({ "run": null, "schemaURL": schema("JobEvent") }));
    let rules = |kinds: &[Kind]| Rules { kinds: kinds.to_vec(), ..rules() };
    assert_eq!(answer(&dataset, &rules(&[Kind::Run, Kind::Job])), "this gate takes no dataset events");
    assert_eq!(answer(&job, &rules(&[Kind::Run, Kind::Dataset])), "this gate takes no job events");
    assert_eq!(answer(&run_event(), &rules(&[Kind::Job])), "this gate takes no run events");
    assert_eq!(answer(&dataset, &rules(&[Kind::Dataset])), "Dataset");
}

#[test]
fn wrong_values_are_named_after_what_is_missing() {
    let times = "eventTime must be a date and time in RFC 3339 form";
    let types = "eventType must be one of START, RUNNING, COMPLETE, ABORT, FAIL, OTHER";
    let table = [
        (json!({ "eventTime": "yesterday" }), times),
        (json!({ "eventTime": "2026-01-01 00:00:00Z" }), times),
        (json!({ "eventTime": "2026-01-01T00:00:00" }), "eventTime must have an offset from UTC, such as Z or +02:00"),
        (json!({ "eventTime": "2026-01-01T00:00:00+0200" }), "Run"),
        (json!({ "eventType": "complete" }), "Run"),
        (json!({ "eventType": "BANANA" }), types),
        (json!({ "eventType": "" }), types),
        (json!({ "run": { "runId": "not-a-uuid" } }), "run.runId must be a UUID"),
        (json!({ "run": { "runId": RUN.replace('-', "") } }), "run.runId must be a UUID"),
        (json!({ "run": { "runId": format!("{{{RUN}}}") } }), "run.runId must be a UUID"),
        (json!({ "run": { "runId": RUN.to_uppercase() } }), "Run"),
        (json!({ "producer": "" }), "Run"),
        (json!({ "producer": "my producer" }), "producer must be a URI"),
        (json!({ "schemaURL": "a\u{7f}b" }), "schemaURL must be a URI"),
        (
            json!({ "eventTime": "secret", "producer": "a secret", "job": {} }),
            "job.namespace is required; job.name is required; eventTime must be a date and time in RFC 3339 form; \
             producer must be a URI",
        ),
    ];
    for (changes, expected) in table {
        assert_eq!(answer(&with(changes.clone()), &rules()), expected, "{changes}");
    }
}

#[test]
fn a_time_without_offset_passes_where_it_is_taken_as_utc() {
    let rules = Rules { event_time: EventTime::AssumeUtc, ..rules() };
    let event = parsed(&with(json!({ "eventTime": "2021-11-03T10:53:52.427343" })), &rules).unwrap();
    assert_eq!(event.event_time, "2021-11-03T10:53:52.427343");
    let wrong = with(json!({ "eventTime": "2021-11-03" }));
    assert_eq!(answer(&wrong, &rules), "eventTime must be a date and time in RFC 3339 form");
}

#[test]
fn many_violations_make_one_short_message() {
    let event = with(json!({ "inputs": vec![json!({}); 50], "eventTime": null }));
    let message = answer(&event, &rules());
    assert!(message.starts_with("eventTime is required; inputs[0].namespace is required; inputs[0].name is required"));
    assert!(message.ends_with("; and 91 more"), "{message}");
    assert!(message.len() <= 512);
}

#[test]
fn an_event_says_what_its_members_say() {
    let body = Bytes::from(with(json!({ "dataset": { "namespace": "other", "name": "d" } })).to_string());
    let event = parse(body.clone(), &rules()).unwrap();
    assert_eq!(event.body.as_ptr(), body.as_ptr());
    assert_eq!(event.namespace(), "ns");
    assert_eq!(event.job.map(|job| job.name), Some("job".to_owned()));
    assert_eq!(event.run_id.as_deref(), Some(RUN));
    assert_eq!(event.event_type.as_deref(), Some("START"));
    assert_eq!(event.producer, "https://example.com/producer");
    assert_eq!(event.schema_url, schema("RunEvent"));
    assert!(event.references.iter().any(|reference| reference.path == "dataset" && reference.role == Role::Output));
}

#[test]
fn a_dataset_event_belongs_to_its_datasets_namespace() {
    let event = with(json!({
        "run": null, "dataset": { "namespace": "other", "name": "d" }, "schemaURL": schema("DatasetEvent"),
    }));
    let event = parsed(&event, &rules()).unwrap();
    assert_eq!(event.namespace(), "other");
    assert_eq!(event.job, None);
    assert!(event.references.iter().any(|reference| reference.role == Role::Job));
}
