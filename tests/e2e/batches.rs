//! Batches: what becomes of each event, and what the client is told of all of them.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::support::client::Reply;
use crate::support::events::{run, run_in};
use crate::support::gate::{Gate, Setup, eventually};
use crate::support::upstream::{Script, Upstream};

const LIST: &str = "/api/v1/lineage/batch";
const EVENTS: &str = "/api/v1/openlineage/lineage/batch";
const CREATED: &str = "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n";

/// A backend without a batch call of its own.
async fn before(upstream: &Upstream, more: &str) -> Gate {
    before_kind(upstream, "marquez", &format!(", concurrency: 64{more}")).await
}

async fn before_kind(upstream: &Upstream, kind: &str, more: &str) -> Gate {
    let yaml = format!("{{ name: backend, kind: {kind}, url: \"{}\"{more} }}", upstream.url());
    Setup::new().upstream(&yaml).start().await
}

fn list(events: &[String]) -> String {
    format!("[{}]", events.join(","))
}

/// So many events, each of a run of its own.
fn several(count: usize) -> String {
    list(&(0..count).map(|_| ok()).collect::<Vec<_>>())
}

fn ok() -> String {
    run(&["lake.sales.orders"], &[])
}

/// Events of one run, each of which names itself.
fn of_one_run(count: usize) -> Vec<String> {
    let mut event = run_in("demo", &["lake.sales.orders"], &[]);
    let named = |n: usize| {
        event["producer"] = json!(format!("https://example.com/{n}"));
        event.to_string()
    };
    (0..count).map(named).collect()
}

fn summary(reply: &Reply, name: &str) -> u64 {
    reply.json()["summary"][name].as_u64().unwrap()
}

fn failed(reply: &Reply) -> Vec<(u64, bool)> {
    let body = reply.json();
    let list = body.get("failed_events").or_else(|| body.get("failedEvents")).cloned().unwrap_or(json!([]));
    let list = list.as_array().unwrap().clone();
    list.iter().map(|event| (event["index"].as_u64().unwrap(), event["retriable"].as_bool().unwrap())).collect()
}

#[tokio::test]
async fn bad_and_forbidden_events_spoil_no_other_and_are_told_by_index() {
    let upstream = Upstream::start(Script::Answer(CREATED.into())).await;
    let gate = before(&upstream, "").await;
    let spaced = format!(" {}\n", ok().replacen("{\"", "{ \"", 1));
    let hidden = run(&["lake.hr.people"], &[]);
    let missing = run(&["lake.hr.nobody"], &[]);
    let twice = ok().replacen('{', "{\"producer\":\"x\",", 1);
    let events = [spaced.clone(), hidden, "null".into(), ok(), missing, "{}".into(), twice, "7".into()];
    let reply = gate.event("alice", LIST, list(&events)).await;
    assert_eq!(reply.status.as_u16(), 200, "{}", reply.text());
    let body = reply.json();
    assert_eq!(body["status"], "partial_success");
    let counts = json!({ "received": 8, "successful": 2, "failed": 6, "retriable": 0, "non_retriable": 6 });
    assert_eq!(body["summary"], counts);
    assert_eq!(failed(&reply), [1, 2, 4, 5, 6, 7].map(|index| (index, false)));
    let reason = |at: usize| body["failed_events"][at]["reason"].as_str().unwrap();
    assert_eq!(reason(0), reason(2), "hidden and missing are one");
    assert!(reason(3).contains("eventTime is required"), "{}", reason(3));
    let mut received: Vec<Vec<u8>> = upstream.received().into_iter().map(|request| request.body).collect();
    received.sort();
    let mut sent = [spaced.trim().as_bytes().to_vec(), events[3].as_bytes().to_vec()];
    sent.sort();
    assert_eq!(received, sent, "the very bytes, and no others");
}

#[tokio::test]
async fn every_event_has_its_audit_record_and_the_batch_one() {
    let gate = Setup::new().start().await;
    let events = [ok(), run(&["lake.hr.people"], &[]), "{}".into()];
    let reply = gate.event("alice", EVENTS, format!("{{\"events\":{}}}", list(&events))).await;
    assert_eq!(reply.status.as_u16(), 200, "{}", reply.text());
    let id = reply.header("x-request-id").unwrap().to_owned();
    let records: Vec<Value> = eventually(|| {
        let text = std::fs::read_to_string(gate.path("audit.jsonl")).unwrap_or_default();
        let records = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let records: Vec<Value> = records.filter(|record| record["request_id"] == *id).collect();
        (records.len() == 4).then_some(records)
    })
    .await;
    let of = |index: usize| records.iter().find(|record| record["batch_index"] == index).unwrap();
    assert_eq!((&of(0)["decision"], &of(0)["outcome"]), (&json!("allow"), &json!("accepted")));
    assert_eq!(of(0)["datasets"][0]["name"], "lake.sales.orders");
    assert_eq!((&of(1)["decision"], &of(1)["refusal"]), (&json!("deny"), &json!("not_visible")));
    assert_eq!((&of(2)["decision"], &of(2)["refusal"]), (&json!("none"), &json!("invalid")));
    for index in 0..3 {
        assert_eq!(of(index)["caller"]["subject"], "alice");
        assert_eq!(of(index)["client_gone"], false);
    }
    let whole = records.iter().find(|record| record.get("batch").is_some()).unwrap();
    let counts = json!({ "received": 3, "successful": 1, "partial": 0, "skipped": 0, "failed": 2 });
    assert_eq!((&whole["batch"], &whole["status"], &whole["dialect"]), (&counts, &json!(200), &json!("openmetadata")));
    let (_, metrics) = gate.page("/metrics").await;
    let has = |name: &str, labels: &str, count: &str| {
        metrics.lines().any(|line| line.starts_with(name) && line.contains(labels) && line.ends_with(count))
    };
    assert!(has("lineage_gate_requests_total", r#"dialect="openmetadata",status="200""#, " 1"), "{metrics}");
    assert!(has("lineage_gate_refusals_total", r#"reason="not_visible""#, " 1"), "{metrics}");
}

#[tokio::test]
async fn a_batch_that_may_not_be_at_all_is_the_same_403_as_one_event() {
    let gate = Setup::new().start().await;
    let single = gate.event("alice", "/api/v1/lineage", run(&["lake.hr.people"], &[])).await;
    for datasets in [["lake.hr.people", "lake.hr.nobody"], ["lake.hr.nobody", "nowhere.at.all"]] {
        let events = datasets.map(|dataset| run(&[dataset], &[]));
        let reply = gate.event("alice", LIST, list(&events)).await;
        assert_eq!((reply.status, &reply.body), (single.status, &single.body));
        assert_eq!(reply.reason, single.reason);
    }
    let invalid = gate.event("alice", LIST, list(&[run(&["lake.hr.people"], &[]), "{}".into()])).await;
    assert_eq!(invalid.status.as_u16(), 400);
    assert_eq!(failed(&invalid), [(0, false), (1, false)]);
    let invalid = gate.event("alice", EVENTS, r#"{"events":[{}]}"#).await;
    assert_eq!((invalid.status.as_u16(), &invalid.json()["status"]), (200, &json!("failure")));
    assert!(gate.accepted().is_empty());
}

#[tokio::test]
async fn an_envelope_that_does_not_hold_refuses_the_whole() {
    let gate = Setup::new().event("{ max_batch: 3 }").start().await;
    let three = list(&[ok(), ok(), ok()]);
    let four = list(&[ok(), ok(), ok(), ok()]);
    let object = format!("{{\"events\":{three}}}");
    for (path, body, status) in [
        (LIST, "[]".to_owned(), 400),
        (EVENTS, r#"{"events":[]}"#.to_owned(), 400),
        (LIST, object.clone(), 400),
        (EVENTS, three.clone(), 400),
        (EVENTS, format!("{{\"events\":{three},\"events\":[]}}"), 400),
        (LIST, format!("{three}]"), 400),
        (LIST, four.clone(), 413),
        (EVENTS, format!("{{\"events\":{four}}}"), 413),
        ("/api/v1/lineage", three.clone(), 400),
        ("/api/lineage/batch", three.clone(), 404),
    ] {
        let reply = gate.event("alice", path, body.clone()).await;
        assert_eq!(reply.status.as_u16(), status, "{path} {body}: {}", reply.text());
        assert_eq!(reply.header("retry-after"), None);
    }
    assert!(gate.accepted().is_empty());
    assert_eq!(gate.event("alice", LIST, three).await.status.as_u16(), 200);
    let object = format!("{{\"events\":{}}}", several(3));
    assert_eq!(gate.event("alice", EVENTS, object).await.status.as_u16(), 200);
    assert_eq!(gate.accepted().len(), 6);
}

#[tokio::test]
async fn ten_thousand_events_are_refused_or_if_the_operator_wants_them_all_accounted_for() {
    let events = vec![ok(); 10_000];
    let gate = Setup::new().start().await;
    let reply = gate.event("alice", LIST, list(&events)).await;
    assert_eq!(reply.status.as_u16(), 413, "{}", reply.text());
    assert!(reply.text().contains("event.max_batch"), "{}", reply.text());
    assert!(gate.accepted().is_empty());
    let gate = Setup::new().event("{ max_batch: 10000 }").start().await;
    let events: Vec<String> = (0..10_000).map(|_| ok()).collect();
    let began = Instant::now();
    let reply = gate.event("alice", LIST, list(&events)).await;
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    assert!(matches!(reply.status.as_u16(), 200 | 503), "{}", reply.status);
    if reply.status.as_u16() == 200 {
        let failed = failed(&reply);
        assert_eq!(summary(&reply, "successful") + failed.len() as u64, 10_000);
        assert!(failed.iter().all(|(_, again)| *again));
        assert!(gate.accepted().len() as u64 >= summary(&reply, "successful"));
    }
}

#[tokio::test]
async fn a_huge_event_among_small_ones_hinders_none() {
    let gate = Setup::new().event("{ max_references: 100 }").start().await;
    let mut huge = run_in("demo", &["lake.sales.orders"], &[]);
    huge["job"]["facets"] = json!({ "sql": { "query": "x".repeat(4 << 20) } });
    let many = run(&["lake.sales.orders"; 101], &[]);
    let events = [ok(), huge.to_string(), many, ok()];
    let reply = gate.event("alice", LIST, list(&events)).await;
    assert_eq!(reply.status.as_u16(), 200, "{}", reply.text());
    assert_eq!(failed(&reply), [(2, false)]);
    assert_eq!(gate.accepted().len(), 3);
}

#[tokio::test]
async fn a_run_is_delivered_in_order_and_runs_side_by_side() {
    let upstream = Upstream::start(Script::Answer(CREATED.into())).await;
    let gate = before(&upstream, "").await;
    let events = of_one_run(12);
    let reply = gate.event("alice", LIST, list(&events)).await;
    assert_eq!(reply.status.as_u16(), 200, "{}", reply.text());
    let received: Vec<Vec<u8>> = upstream.received().into_iter().map(|request| request.body).collect();
    assert_eq!(received, events.iter().map(|event| event.as_bytes().to_vec()).collect::<Vec<_>>());
    upstream.script(Script::Held(CREATED.into()));
    let posting = gate.event("alice", LIST, list(&[ok(), ok(), ok()]));
    let releasing = async {
        upstream.arrived(15).await;
        upstream.release();
    };
    let (reply, ()) = tokio::join!(posting, releasing);
    assert_eq!(reply.status.as_u16(), 200, "all three were there at once");
}

#[tokio::test]
async fn a_backend_that_dies_in_the_middle_leaves_what_to_send_again() {
    let upstream = Upstream::start(Script::By(|event| {
        if event.contains("example.com/2") { Script::CloseAfterRequest } else { Script::Answer(CREATED.into()) }
    }))
    .await;
    let gate = before(&upstream, "").await;
    let reply = gate.event("alice", LIST, list(&of_one_run(5))).await;
    assert_eq!((reply.status.as_u16(), &reply.json()["status"]), (200, &json!("partial_success")));
    assert_eq!(failed(&reply), [(2, true), (3, true), (4, true)]);
    let reason = |at: usize| reply.json()["failed_events"][at]["reason"].as_str().unwrap().to_owned();
    assert!(reason(0).starts_with("Outcome not known yet"), "{}", reason(0));
    assert!(reason(1).starts_with("Not attempted: an earlier event of the same run"), "{}", reason(1));
    assert_eq!(upstream.received().len(), 3);
    upstream.script(Script::CloseAfterRequest);
    let reply = gate.event("alice", LIST, list(&[ok(), ok()])).await;
    assert_eq!((reply.status.as_u16(), reply.header("retry-after")), (503, Some("1")), "nothing was delivered");
}

#[tokio::test]
async fn a_backend_that_has_enough_gets_no_more() {
    let throttled = "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 60\r\nContent-Length: 0\r\n\r\n";
    let upstream = Upstream::start(Script::Answer(throttled.into())).await;
    let gate = before(&upstream, "").await;
    let reply = gate.event("alice", LIST, list(&of_one_run(5))).await;
    assert_eq!((reply.status.as_u16(), reply.header("retry-after")), (429, Some("1")));
    assert_eq!(upstream.received().len(), 1);
    upstream.script(Script::By(|event| {
        let throttled = "HTTP/1.1 429 Too Many Requests\r\nContent-Length: 0\r\n\r\n";
        Script::Answer(if event.contains("example.com/1") { throttled } else { CREATED }.into())
    }));
    let reply = gate.event("alice", EVENTS, format!("{{\"events\":{}}}", list(&of_one_run(3)))).await;
    assert_eq!((reply.status.as_u16(), reply.header("retry-after")), (200, None), "{}", reply.text());
    assert_eq!(failed(&reply), [(1, true), (2, true)]);
    upstream.script(Script::Answer("HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n".into()));
    let reply = gate.event("alice", LIST, list(&of_one_run(3))).await;
    assert_eq!((reply.status.as_u16(), reply.header("www-authenticate")), (501, None), "the gate's own credential");
}

#[tokio::test]
async fn the_answer_is_there_within_the_producers_patience() {
    let upstream = Upstream::start(Script::By(|event| {
        if event.contains("example.com/0") { Script::Answer(CREATED.into()) } else { Script::Stall }
    }))
    .await;
    let gate = before(&upstream, ", timeout: 3500ms").await;
    let mut events = of_one_run(3);
    events.extend((0..20).map(|_| ok()));
    let began = Instant::now();
    let reply = gate.event("alice", LIST, list(&events)).await;
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    assert_eq!(reply.status.as_u16(), 200, "{}", reply.text());
    assert_eq!(summary(&reply, "successful"), 1);
    assert_eq!(failed(&reply), (1..23).map(|index| (index, true)).collect::<Vec<_>>());
    let text = reply.text();
    assert_eq!(text.matches("Outcome not known yet").count(), 8, "{text}");
    assert_eq!(text.matches("Not attempted: an earlier event").count(), 1, "{text}");
    assert_eq!(text.matches("Deadline exceeded").count(), 13, "{text}");
}

#[tokio::test]
async fn a_batch_is_charged_all_of_its_events_at_once_or_none() {
    let limits = "[{ name: events, per: caller, unit: events, rate: 1/h, burst: 5 }, \
                  { name: demo, per: metalake, unit: events, rate: 1/h, burst: 4 }]";
    let gate = Setup::new().limits(limits).start().await;
    let status = async |caller: &str, count: usize| {
        let reply = gate.event(caller, LIST, several(count)).await;
        (reply.status.as_u16(), reply.text().contains("'demo'"))
    };
    assert_eq!(status("alice", 6).await, (413, false), "more than ever fits");
    assert_eq!(status("alice", 3).await, (200, false));
    assert_eq!(status("alice", 3).await, (429, false), "two are left");
    assert_eq!(status("carol", 2).await, (429, true), "the metalake has room for one");
    assert_eq!(gate.accepted().len(), 3);
    // What is denied is not charged to the metalake.
    let reply = gate.event("dave", LIST, list(&[ok(), run(&["lake.hr.people"], &[])])).await;
    assert_eq!(reply.status.as_u16(), 200, "{}", reply.text());
    assert_eq!(gate.accepted().len(), 4);
}

#[tokio::test]
async fn all_or_nothing_sends_nothing_unless_all_may_go() {
    let gate = Setup::new().event("{ batch_policy: all_or_nothing }").start().await;
    let denied = gate.event("alice", LIST, list(&[ok(), run(&["lake.hr.people"], &[])])).await;
    assert_eq!(denied.status.as_u16(), 403, "{}", denied.text());
    let both = [ok(), run(&["lake.hr.people"], &[]), "{}".into()];
    let invalid = gate.event("alice", LIST, list(&both)).await;
    assert_eq!(invalid.status.as_u16(), 400);
    assert!(invalid.text().contains("event 2 of the batch: "), "{}", invalid.text());
    assert!(gate.accepted().is_empty());
    let id = invalid.header("x-request-id").unwrap().to_owned();
    let first = gate.audit(move |record| record["request_id"] == *id && record["batch_index"] == 0).await;
    assert_eq!((&first["refusal"], &first["decision"]), (&json!("invalid"), &json!("allow")));
    assert_eq!(gate.event("alice", LIST, list(&[ok(), ok()])).await.status.as_u16(), 200);
    assert_eq!(gate.accepted().len(), 2);
}

/// A 200 with this JSON.
fn answered(body: &Value) -> Script {
    let body = body.to_string();
    let length = body.len();
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length";
    Script::Answer(format!("{head}: {length}\r\n\r\n{body}"))
}

/// How many events a backend was sent in one body.
fn count(body: &str) -> usize {
    let body: Value = serde_json::from_str(body).unwrap();
    body.as_array().or_else(|| body["events"].as_array()).map_or(0, Vec::len)
}

/// Four events of which the policy refuses the second: the backend gets three.
fn one_hidden() -> [String; 4] {
    [ok(), run(&["lake.hr.people"], &[]), ok(), ok()]
}

#[tokio::test]
async fn the_answer_of_openmetadata_2_0_is_told_with_the_indices_of_the_client() {
    let upstream = Upstream::start(Script::By(|_| {
        let failed = json!([{ "index": 2, "reason": "no producer", "retriable": false }]);
        answered(
            &json!({ "status": "partial_success", "message": "x", "lineageEdgesCreated": 4, "failedEvents": failed,
            "summary": { "received": 3, "successful": 1, "failed": 1, "skipped": 1 } }),
        )
    }))
    .await;
    let gate = before_kind(&upstream, "openmetadata", ", services: { demo: demo }").await;
    let reply = gate.event("alice", EVENTS, format!("{{\"events\":{}}}", list(&one_hidden()))).await;
    let body = reply.json();
    assert_eq!((reply.status.as_u16(), &body["status"]), (200, &json!("partial_success")), "{body}");
    assert_eq!(body["summary"], json!({ "received": 4, "successful": 1, "failed": 2, "skipped": 1 }));
    assert_eq!((&body["lineageEdgesCreated"], failed(&reply)), (&json!(4), vec![(1, false), (3, false)]));
    assert_eq!(body["failedEvents"][1]["reason"], "no producer");
    let [call] = upstream.received().try_into().unwrap();
    assert!(call.head.starts_with("POST /api/v1/openlineage/lineage/batch HTTP/1.1\r\n"), "{}", call.head);
    assert_eq!(count(std::str::from_utf8(&call.body).unwrap()), 3);
}

#[tokio::test]
async fn the_answer_of_openmetadata_2_1_is_told_as_it_counts() {
    let upstream = Upstream::start(Script::By(|_| {
        let unresolved = json!([{ "eventIndex": 1, "namespace": "demo", "name": "a", "reason": "NOT_FOUND" }]);
        answered(&json!({ "status": "partial_success", "message": "x", "lineageEdgesCreated": 3,
            "unresolvedDatasets": unresolved,
            "summary": { "received": 3, "successful": 2, "partial": 1, "failed": 0, "skipped": 0 } }))
    }))
    .await;
    let yaml = format!("{{ name: om, kind: openmetadata, services: {{ demo: demo }}, url: \"{}\" }}", upstream.url());
    let gate = Setup::new().upstream(&yaml).listener("openmetadata: '2.1'").start().await;
    let reply = gate.event("alice", EVENTS, format!("{{\"events\":{}}}", list(&one_hidden()))).await;
    let body = reply.json();
    let counts = json!({ "received": 4, "successful": 2, "partial": 1, "failed": 1, "skipped": 0 });
    assert_eq!((reply.status.as_u16(), &body["summary"], &body["lineageEdgesCreated"]), (200, &counts, &json!(3)));
    assert_eq!(failed(&reply), [(1, false)]);
}

#[tokio::test]
async fn polaris_and_datahub_get_a_bare_list_and_their_reports_are_read() {
    for (kind, path, status, reason) in [
        ("polaris", "/api/openlineage/v1/lineage/batch", "PARTIAL", "message"),
        ("datahub", "/openapi/openlineage/api/v1/lineage/batch", "partial_success", "reason"),
    ] {
        let upstream = Upstream::start(Script::Stall).await;
        let report = if kind == "polaris" { polaris } else { datahub };
        upstream.script(Script::By(report));
        let gate = before_kind(&upstream, kind, "").await;
        let reply = gate.event("alice", LIST, list(&one_hidden())).await;
        let body = reply.json();
        assert_eq!((reply.status.as_u16(), failed(&reply)), (200, vec![(1, false), (2, true)]), "{status} {body}");
        let counts = json!({ "received": 4, "successful": 2, "failed": 2, "retriable": 1, "non_retriable": 1 });
        assert_eq!(body["summary"], counts, "{reason}");
        let [call] = upstream.received().try_into().unwrap();
        assert!(call.head.starts_with(&format!("POST {path} HTTP/1.1\r\n")), "{}", call.head);
        assert!(call.body.starts_with(b"[{") && count(std::str::from_utf8(&call.body).unwrap()) == 3);
    }
}

fn polaris(_: &str) -> Script {
    let failed = json!([{ "index": 1, "retriable": true, "message": "busy" }]);
    let summary =
        json!({ "received": 3, "successful": 2, "failed": 1, "omitted_unresolved": 7, "omitted_unauthorized": 1 });
    answered(&json!({ "status": "PARTIAL", "summary": summary, "failed_events": failed }))
}

fn datahub(_: &str) -> Script {
    let failed = json!([{ "index": 1, "retriable": true, "reason": "busy" }]);
    let summary = json!({ "received": 3, "successful": 2, "failed": 1, "retriable": 1, "non_retriable": 0 });
    answered(&json!({ "status": "partial_success", "summary": summary, "failed_events": failed }))
}

#[tokio::test]
async fn an_endpoint_without_batches_is_sent_event_by_event_and_not_asked_again() {
    let not_found: fn(&str) -> Script = |body| {
        let missing = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
        Script::Answer(if body.starts_with('[') { missing } else { CREATED }.into())
    };
    let not_implemented: fn(&str) -> Script = |body| {
        let missing = "HTTP/1.1 501 Not Implemented\r\nContent-Length: 0\r\n\r\n";
        Script::Answer(if body.starts_with('[') { missing } else { CREATED }.into())
    };
    for script in [not_found, not_implemented] {
        let upstream = Upstream::start(Script::By(script)).await;
        let gate = before_kind(&upstream, "openlineage", "").await;
        let reply = gate.event("alice", LIST, list(&one_hidden())).await;
        assert_eq!((reply.status.as_u16(), failed(&reply)), (200, vec![(1, false)]), "{}", reply.text());
        assert_eq!(upstream.received().len(), 4, "one call, and three events");
        let reply = gate.event("alice", LIST, several(2)).await;
        assert_eq!((reply.status.as_u16(), failed(&reply)), (200, vec![]), "{}", reply.text());
        assert_eq!(upstream.received().len(), 6);
    }
}

#[tokio::test]
async fn a_batch_sent_again_is_answered_from_memory() {
    let upstream = Upstream::start(Script::Answer("HTTP/1.1 204 No Content\r\n\r\n".into())).await;
    let gate = before_kind(&upstream, "openlineage", "").await;
    let batch = several(5);
    let first = gate.event("alice", LIST, batch.clone()).await;
    let again = gate.event("alice", LIST, batch).await;
    assert_eq!((first.status.as_u16(), &first.body), (200, &again.body), "{}", first.text());
    assert_eq!(upstream.received().len(), 1);
}
