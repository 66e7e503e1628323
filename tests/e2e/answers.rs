//! What a client is told, and what the audit tells of it.

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use serde_json::{Value, json};

use crate::support::client;
use crate::support::events::{run, run_in};
use crate::support::gate::Setup;

const GRAVITINO: &str = "/api/lineage";
const OPENLINEAGE: &str = "/api/v1/lineage";

#[tokio::test]
async fn an_allowed_event_is_stored_as_sent_and_audited() {
    let gate = Setup::new().start().await;
    let event = run(&["lake.sales.orders"], &["lake.sales.daily"]);
    let reply = gate.event("alice", GRAVITINO, event.clone()).await;
    assert_eq!((reply.status.as_u16(), reply.body.len()), (201, 0));
    assert_eq!(gate.accepted(), [serde_json::from_str::<Value>(&event).unwrap()]);

    let record = gate.audit_of(&reply).await;
    let part = |key: &str| record[key].clone();
    assert_eq!(part("decision"), "allow");
    assert_eq!(part("status"), 201);
    assert_eq!(part("outcome"), "accepted");
    assert_eq!(part("caller")["subject"], "alice");
    assert_eq!(part("dialect"), "gravitino");
    assert_eq!(part("datasets_total"), 2);
    assert_eq!(part("client_gone"), false);
    assert_eq!(
        (part("kind"), part("event_type"), part("rule")),
        (json!("run"), json!("COMPLETE"), json!("metalake demo"))
    );
    assert_eq!(part("job"), json!({ "namespace": "demo", "name": "daily_orders" }));
    assert_eq!(part("run_id"), serde_json::from_str::<Value>(&event).unwrap()["run"]["runId"]);
    assert_eq!(part("datasets")[1], json!({ "role": "output", "namespace": "demo", "name": "lake.sales.daily" }));
    assert_eq!((part("peer"), part("upstream")), (json!("127.0.0.1"), json!("archive")));
    assert_eq!(part("bytes"), json!({ "received": event.len(), "decoded": event.len() }));
    assert!(part("token_id").as_str().is_some_and(|id| id.len() == 16), "without a jti, a part of the hash");
    for stage in ["auth", "body", "event", "policy", "deliver", "total"] {
        assert!(record["micros"][stage].is_u64(), "{stage}");
    }
    let token = gate.token("alice");
    let signature = token.rsplit('.').next().unwrap();
    assert!(!record.to_string().contains(signature));
}

#[tokio::test]
async fn hidden_and_missing_things_get_the_same_answer() {
    let gate = Setup::new().start().await;
    let cases = [
        ("alice", run(&["lake.hr.people"], &[])),
        ("alice", run(&["lake.nowhere.nothing"], &[])),
        ("alice", run(&["nowhere.at.all"], &[])),
        ("carol", run(&["lake.sales.salaries"], &[])),
        ("mallory", run(&["lake.sales.orders"], &[])),
        ("mallory", run(&[], &[])),
        ("alice", run_in("nowhere", &["lake.sales.orders"], &[]).to_string()),
        ("alice", run_in("finance", &["ledger.main.book"], &[]).to_string()),
    ];
    for path in [GRAVITINO, OPENLINEAGE] {
        let mut told = Vec::new();
        for (caller, event) in &cases {
            let reply = gate.event(caller, path, event.clone()).await;
            let mut headers = reply.headers.clone();
            assert!(headers.remove("x-request-id").is_some() && headers.remove("date").is_some());
            told.push((reply.status, reply.reason, headers, reply.body));
        }
        assert_eq!(told[0].0.as_u16(), 403);
        assert!(told.iter().all(|one| *one == told[0]), "{told:?}");
    }
    assert!(gate.accepted().is_empty());
}

/// Each request has every fault from some stage on; the answer is that of the first.
#[tokio::test]
async fn refusals_come_in_the_order_that_clients_rely_on() {
    let gate = Setup::new().start().await;
    let foreign_type = json!({ "datasetType": { "datasetType": "STREAM" } });
    let mut unresolvable: Value = run_in("demo", &["lake.hr.people", "lake.sales.orders"], &[]);
    unresolvable["inputs"][1]["facets"] = foreign_type;
    let unresolvable = unresolvable.to_string();
    let incomplete = json!({ "job": { "namespace": "demo", "name": "x" }, "inputs": [] }).to_string();
    let malformed_roles = ("x-gravitino-active-roles", "a,,b");
    let unheld_roles = ("x-gravitino-active-roles", "not_held");
    let good = ("x-ignored", "1");
    let text = ("content-type", "text/plain");

    let table = [
        ("path before token", "nobody", "/nowhere", malformed_roles, "", 404),
        ("token before roles", "", GRAVITINO, malformed_roles, "", 401),
        ("roles before body", "mallory", GRAVITINO, malformed_roles, "{", 400),
        ("media type before JSON", "mallory", GRAVITINO, text, "{", 415),
        ("JSON before fields", "mallory", GRAVITINO, unheld_roles, "{", 400),
        ("fields before membership", "mallory", GRAVITINO, unheld_roles, &incomplete, 400),
        ("membership before roles", "mallory", GRAVITINO, unheld_roles, &unresolvable, 403),
        ("roles before resolution", "alice", GRAVITINO, unheld_roles, &unresolvable, 403),
        ("resolution before visibility", "alice", GRAVITINO, good, &unresolvable, 400),
        ("visibility last", "alice", GRAVITINO, good, &run(&["lake.hr.people"], &[]), 403),
    ];
    for (what, caller, path, (name, value), body, status) in table {
        let mut request = gate.post(caller, path);
        let headers = request.headers_mut().unwrap();
        if caller.is_empty() {
            headers.remove("authorization");
        }
        headers.insert(http::HeaderName::from_static(name), value.parse().unwrap());
        let reply = gate.send(request.body(Full::from(body.to_owned())).unwrap()).await;
        assert_eq!(reply.status.as_u16(), status, "{what}: {}", reply.text());
    }
}

#[tokio::test]
async fn a_refusal_tells_a_person_what_to_do_in_the_reason_phrase_and_in_the_body() {
    let gate = Setup::new().start().await;
    let reply = gate.event("alice", OPENLINEAGE, run(&["lake.hr.people"], &[])).await;
    let reason = reply.reason.unwrap();
    assert!(reason.contains("not visible"), "{reason}");
    assert_eq!(serde_json::from_slice::<Value>(&reply.body).unwrap()["code"], 403);
    let reply = gate.event("alice", GRAVITINO, run(&["lake.hr.people"], &[])).await;
    let body = reply.json();
    assert_eq!((&body["code"], &body["type"]), (&json!(1008), &json!("ForbiddenException")));
    assert!(body.get("stack").is_none());
}

#[tokio::test]
async fn both_protocols_get_the_same_answers() {
    let gate = Setup::new().start().await;
    let cases = [(run(&["lake.sales.orders"], &[]), 201), (run(&["lake.hr.people"], &[]), 403), ("{".into(), 400)];
    for (body, status) in cases {
        let request = || gate.post("alice", GRAVITINO).body(Full::from(body.clone())).unwrap();
        let over_http1 = gate.send(request()).await;
        let mut request = request();
        request.headers_mut().remove("host");
        let over_http2 = client::http2(gate.address, &gate.ca(), request).await;
        assert_eq!(over_http1.status.as_u16(), status);
        assert_eq!((over_http1.status, over_http1.body), (over_http2.status, over_http2.body));
    }
}

#[tokio::test]
async fn only_known_paths_are_served_and_others_name_the_right_one() {
    let gate = Setup::new().start().await;
    let event = run(&["lake.sales.orders"], &[]);
    for path in [
        "/api/lineage",
        "/api/lineage/",
        "/lineage",
        "/api/v1/lineage",
        "/api/v1/lineage/",
        "/",
        "/api/v1/api/v1/lineage",
        "/api/v1/lineage?tenant=a",
    ] {
        assert_eq!(gate.event("alice", path, event.clone()).await.status.as_u16(), 201, "{path}");
    }
    for path in ["/api/v2/lineage", "/API/lineage", "/api/metalakes/demo", "/health"] {
        let reply = gate.event("alice", path, event.clone()).await;
        assert_eq!(reply.status.as_u16(), 404, "{path}");
        assert!(reply.text().contains("lineage"), "{}", reply.text());
    }
    for path in
        ["/api//lineage", "/api/./lineage", "/api/x/../lineage", "/api/lineage;a=b", "/api%2Flineage", "/%61pi/lineage"]
    {
        let answer =
            client::raw(gate.address, &gate.ca(), raw_post(path, &gate.token("alice"), &event).as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 400"), "{path}: {answer}");
    }
    let request = Request::get("https://localhost/api/lineage").header("host", "localhost");
    let reply = gate.send(request.body(Full::<Bytes>::default()).unwrap()).await;
    assert_eq!((reply.status.as_u16(), reply.header("allow")), (405, Some("POST")));
}

#[tokio::test]
async fn gzip_and_chunked_bodies_arrive_decoded() {
    use std::io::Write;
    let gate = Setup::new().start().await;
    let event = run(&["lake.sales.orders"], &[]);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(event.as_bytes()).unwrap();
    let packed = gzip.finish().unwrap();
    let head = format!(
        "POST {GRAVITINO} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nContent-Type: application/json; \
         charset=UTF-8\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n",
        gate.token("alice")
    );
    let mut bytes = head.into_bytes();
    for chunk in packed.chunks(100) {
        bytes.extend(format!("{:x}\r\n", chunk.len()).into_bytes());
        bytes.extend(chunk);
        bytes.extend(b"\r\n");
    }
    bytes.extend(b"0\r\n\r\n");
    let answer = client::raw(gate.address, &gate.ca(), &bytes).await;
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    assert_eq!(gate.accepted(), [serde_json::from_str::<Value>(&event).unwrap()]);
}

#[tokio::test]
async fn shadow_mode_lets_a_denied_event_pass_and_says_so_in_the_audit() {
    let gate = Setup::new().policy("{ files: policies/, mode: shadow }").start().await;
    let reply = gate.event("alice", GRAVITINO, run(&["lake.hr.people"], &[])).await;
    assert_eq!(reply.status.as_u16(), 201);
    let record = gate.audit_of(&reply).await;
    assert_eq!((&record["decision"], &record["shadow"]), (&json!("deny"), &json!(true)));
}

#[tokio::test]
async fn with_the_policy_off_any_namespace_passes_and_tokens_still_count() {
    let gate = Setup::new().policy("{ mode: off }").start().await;
    let event = run_in("anything", &["at.all"], &[]).to_string();
    assert_eq!(gate.event("mallory", OPENLINEAGE, event.clone()).await.status.as_u16(), 201);
    let mut request = gate.post("mallory", OPENLINEAGE);
    request.headers_mut().unwrap().remove("authorization");
    let reply = gate.send(request.body(Full::from(event)).unwrap()).await;
    assert_eq!(reply.status.as_u16(), 401);
}

fn raw_post(path: &str, token: &str, body: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}
