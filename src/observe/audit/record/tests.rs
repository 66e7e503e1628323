use std::time::SystemTime;

use serde_json::{Value, json};

use super::*;
use crate::answer::{Challenge, Counts, Durability};
use crate::event::{DatasetType, JobName, Reference};

fn record() -> Record {
    let time = "2026-11-29T21:30:00.123456789Z".parse().expect("a time");
    Record::new(time, "0192-id".to_owned(), "0.0.0.0:8443".into(), "10.0.0.7:51234".to_owned())
}

fn caller(groups: usize) -> Caller {
    Caller {
        issuer: "https://idp.example.com/".into(),
        subject: "alice".into(),
        groups: (0..groups).map(|number| format!("group{number}").into()).collect(),
        token_id: "jti-1".into(),
        expires: SystemTime::UNIX_EPOCH,
        identity: [7; 32],
    }
}

fn reference(role: Role, name: &str) -> Reference {
    Reference {
        role,
        namespace: "demo".to_owned(),
        name: name.to_owned(),
        dataset_type: DatasetType::Absent,
        path: "inputs[0]".to_owned(),
    }
}

fn event(references: Vec<Reference>) -> Event {
    Event {
        kind: Kind::Run,
        body: bytes::Bytes::from_static(b"{\"secret\":\"body\"}"),
        job: Some(JobName { namespace: "demo".to_owned(), name: "daily".to_owned() }),
        run_id: Some("r-1".to_owned()),
        event_type: Some("COMPLETE".to_owned()),
        event_time: "2026-01-01T00:00:00Z".to_owned(),
        producer: "https://example.com".to_owned(),
        schema_url: "https://example.com".to_owned(),
        deleted_facets: Vec::new(),
        data_sources: Vec::new(),
        references,
    }
}

fn written(record: &Record) -> Value {
    serde_json::to_value(record).expect("JSON")
}

#[test]
fn a_request_that_ended_early_says_only_what_is_known() {
    let mut early = record();
    early.refusal = Some(Refusal::Unauthenticated(Challenge { token_sent: true, reason: "the token is expired" }));
    early.status = Some(401);
    early.stages.auth = Some(Duration::from_nanos(41_900));
    early.stages.total = Duration::from_micros(50);
    let expected = json!({
        "time": "2026-11-29T21:30:00.123456Z", "request_id": "0192-id", "listener": "0.0.0.0:8443",
        "peer": "10.0.0.7:51234", "decision": "none", "shadow": false, "refusal": "unauthenticated",
        "refusal_detail": "the token is expired", "status": 401, "client_gone": false, "late": false,
        "bytes": { "received": 0, "decoded": 0 }, "micros": { "auth": 41, "total": 50 },
    });
    assert_eq!(written(&early), expected);
}

#[test]
fn a_batch_tells_its_counts_and_each_event_its_place() {
    let mut whole = record();
    whole.batch = Some(Counts { received: 3, successful: 1, partial: 0, skipped: 1, failed: 1 });
    let counts = json!({ "received": 3, "successful": 1, "partial": 0, "skipped": 1, "failed": 1 });
    assert_eq!(written(&whole)["batch"], counts);
    let mut part = record();
    part.batch_index = Some(2);
    assert_eq!(written(&part)["batch_index"], 2);
}

#[test]
fn a_request_that_is_passed_on_says_what_it_asked_for() {
    let mut passed = record();
    passed.passed = Some(Passed::of(&Method::DELETE, &format!("/api/{}", "x".repeat(MAX_TEXT))));
    let written = written(&passed);
    assert_eq!(written["method"], "DELETE");
    let path = written["path"].as_str().expect("a text");
    assert!(path.starts_with("/api/x") && path.ends_with(CUT_MARK), "{path}");
    assert_eq!(path.len(), MAX_TEXT + CUT_MARK.len_utf8());
}

#[test]
fn a_delivered_event_says_who_wrote_which_edge() {
    let mut full = record();
    full.dialect = Some(Dialect::Gravitino);
    full.caller = Some(caller(2));
    let references = vec![
        reference(Role::Job, "daily"),
        reference(Role::Input, "lake.sales.orders"),
        reference(Role::Output, "lake.sales.totals"),
        reference(Role::FacetDataset, "lake.sales.old"),
        reference(Role::FacetJob, "parent"),
    ];
    full.event = Some(EventPart::of(&event(references), 100));
    full.decision = Decision::Allow;
    full.rule = Some("role sales_reader: SELECT_TABLE on schema lake.sales".to_owned());
    full.upstream = Some("gravitino".into());
    full.outcome = Some(Outcome::Accepted { edges: Some(1), durability: Durability::Stored });
    full.certificate = Some("CN=spark".into());
    full.status = Some(201);
    full.client_gone = true;
    full.late = true;
    full.bytes = Bytes { received: 300, decoded: 2_048 };
    let written = written(&full);
    let expected = json!({
        "dialect": "gravitino", "token_id": "jti-1", "kind": "run", "run_id": "r-1", "event_type": "COMPLETE",
        "caller": {
            "issuer": "https://idp.example.com/", "subject": "alice", "groups": ["group0", "group1"], "groups_total": 2,
        },
        "job": { "namespace": "demo", "name": "daily" }, "datasets_total": 4,
        "datasets": [
            { "role": "input", "namespace": "demo", "name": "lake.sales.orders" },
            { "role": "output", "namespace": "demo", "name": "lake.sales.totals" },
            { "role": "facet_dataset", "namespace": "demo", "name": "lake.sales.old" },
            { "role": "facet_job", "namespace": "demo", "name": "parent" },
        ],
        "decision": "allow", "rule": "role sales_reader: SELECT_TABLE on schema lake.sales",
        "upstream": "gravitino", "outcome": "accepted", "edges": 1, "status": 201, "certificate": "CN=spark",
        "client_gone": true, "late": true, "bytes": { "received": 300, "decoded": 2_048 },
    });
    for (key, value) in expected.as_object().expect("an object") {
        assert_eq!(&written[key], value, "{key}");
    }
    assert!(!written.to_string().contains("secret"), "a record holds no body");
}

#[test]
fn the_status_of_a_backend_that_failed_is_told() {
    let mut failed = record();
    failed.outcome = Some(Outcome::Fault { status: 507 });
    let written = written(&failed);
    assert_eq!((&written["outcome"], &written["upstream_status"]), (&json!("fault"), &json!(507)));
}

#[test]
fn lists_end_at_their_bound_and_are_counted_whole() {
    let mut many = record();
    many.caller = Some(caller(21));
    let references = (0..7).map(|number| reference(Role::Input, &number.to_string())).collect();
    many.event = Some(EventPart::of(&event(references), 3));
    let written = written(&many);
    assert_eq!(written["caller"]["groups"].as_array().map(Vec::len), Some(MAX_GROUPS));
    assert_eq!(written["caller"]["groups_total"], 21);
    assert_eq!(written["datasets"].as_array().map(Vec::len), Some(3));
    assert_eq!(written["datasets_total"], 7);
}

#[test]
fn long_texts_are_cut_between_characters_and_marked() {
    let whole = "x".repeat(MAX_TEXT);
    assert_eq!(cut(&whole), whole);
    assert_eq!(cut(&format!("{whole}y")), format!("{whole}{CUT_MARK}"));
    assert_eq!(cut(&"ä".repeat(MAX_TEXT)), format!("{}{CUT_MARK}", "ä".repeat(MAX_TEXT / 2)));
    assert_eq!(cut(&format!("x{}", "ä".repeat(MAX_TEXT))), format!("x{}{CUT_MARK}", "ä".repeat(MAX_TEXT / 2 - 1)));

    let long = "n".repeat(1 << 20);
    let mut large = record();
    large.request_id.clone_from(&long);
    large.peer.clone_from(&long);
    large.rule = Some(long.clone());
    large.refusal = Some(Refusal::Invalid(long.clone()));
    large.outcome = Some(Outcome::BadGateway(long.clone()));
    large.caller = Some(Caller { subject: long.as_str().into(), token_id: long.as_str().into(), ..caller(1) });
    let mut sent = event(vec![reference(Role::Input, &long)]);
    sent.run_id = Some(long.clone());
    sent.event_type = Some(long.clone());
    sent.job = Some(JobName { namespace: long.clone(), name: long });
    large.event = Some(EventPart::of(&sent, 1));
    let line = serde_json::to_string(&large).expect("JSON");
    assert!(line.len() < 13 * MAX_TEXT, "{} bytes", line.len());
    let dataset = written(&large)["datasets"][0]["name"].clone();
    assert_eq!(dataset.as_str().map(str::len), Some(MAX_TEXT + CUT_MARK.len_utf8()));
}

#[test]
fn what_a_caller_sends_cannot_start_a_line_of_its_own() {
    let mut forged = record();
    let name = "a\n{\"decision\":\"allow\"}\r\n\u{0}\"";
    forged.event = Some(EventPart::of(&event(vec![reference(Role::Output, name)]), 1));
    let line = serde_json::to_string(&forged).expect("JSON");
    assert!(!line.contains(['\n', '\r', '\0']), "{line}");
    assert_eq!(written(&forged)["datasets"][0]["name"], name);
}
