//! Each contract as its documentation has it: the examples, sent by curl as they are written, and the paths.

use std::fs;
use std::process::Output;

use serde_json::{Value, json};
use tokio::process::Command;

use crate::support::events::{run, run_in};
use crate::support::gate::{Gate, Setup};
use crate::support::upstream::{Script, Upstream};

const EVENT: &str = include_str!("../data/documented/openmetadata-event.json");
const BATCH: &str = include_str!("../data/documented/openmetadata-batch.json");

/// Who may write the documented job and its two tables.
const POLICY: &str = "\
namespaces:
  - name: orders
    callers: { users: [etl] }
    jobs: [{ namespace: orders, names: ['*'] }]
    inputs: [{ namespace: 'postgresql://warehouse.example.com:5432', names: ['analytics.public.*'] }]
    outputs: [{ namespace: 'postgresql://warehouse.example.com:5432', names: ['analytics.public.orders'] }]
    effect: allow
";

async fn start(upstream: &Upstream, kind: &str, listener: &str) -> Gate {
    let services = if kind == "openmetadata" {
        ", services: { 'postgresql://warehouse.example.com:5432': warehouse }"
    } else {
        ""
    };
    let yaml = format!("{{ name: backend, kind: {kind}, url: \"{}\"{services} }}", upstream.url());
    let gate = Setup::new().upstream(&yaml).listener(listener).write("policies/orders.yaml", POLICY).start().await;
    fs::write(gate.path("event.json"), EVENT).unwrap();
    fs::write(gate.path("batch.json"), BATCH).unwrap();
    gate
}

/// Runs a documented command in a folder that holds the documented files. Nothing of it is changed but the host.
async fn curl(gate: &Gate, subject: &str, path: &str, file: &str) -> (u16, Value) {
    let command = format!(
        r#"curl --request POST \
    "https://localhost:{}{path}" \
    --header "Authorization: Bearer $OPENMETADATA_JWT" \
    --header "Content-Type: application/json" \
    --data-binary @{file}"#,
        gate.address.port()
    );
    let output: Output = Command::new("sh")
        .args(["-c", &format!("{command} --silent --show-error --include")])
        .current_dir(gate.dir.path())
        .env("OPENMETADATA_JWT", gate.token(subject))
        .env("CURL_CA_BUNDLE", gate.ca())
        .env("NO_PROXY", "*")
        .output()
        .await
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let (head, body) = text.rsplit_once("\r\n\r\n").unwrap_or_else(|| panic!("{text}: {:?}", output.stderr));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, if body.is_empty() { Value::Null } else { serde_json::from_str(body).unwrap() })
}

fn created() -> Script {
    Script::Answer("HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n".into())
}

#[tokio::test]
async fn the_documented_event_and_batch_of_openmetadata_get_their_documented_answers() {
    let upstream = Upstream::start(created()).await;
    let gate = start(&upstream, "openlineage", "").await;
    let (status, body) = curl(&gate, "etl", "/api/v1/openlineage/lineage", "event.json").await;
    // This backend counts no edges: what it did not say is not said.
    assert_eq!((status, body), (200, json!({ "status": "success", "message": "Event accepted" })));
    let (status, body) = curl(&gate, "etl", "/api/v1/openlineage/lineage/batch", "batch.json").await;
    assert_eq!(status, 200);
    let documented = json!({
        "status": "success",
        "message": "Processed 1 events: 1 successful, 0 failed, 0 skipped.",
        "summary": { "received": 1, "successful": 1, "failed": 0, "skipped": 0 }
    });
    assert_eq!(body, documented);
    let [event, batch] = upstream.received().try_into().unwrap();
    assert_eq!(event.body, EVENT.as_bytes());
    let batched: Value = serde_json::from_slice(&batch.body).unwrap();
    assert_eq!(batched, serde_json::from_str::<Value>(BATCH).unwrap()["events"][0]);
}

/// OpenMetadata as its contract has it, of both paths.
fn documented() -> Script {
    Script::By(|body| {
        let edges = |count: usize| format!(r#""lineageEdgesCreated":{count}}}"#);
        let events = serde_json::from_str::<Value>(body).unwrap()["events"].as_array().map(Vec::len);
        let answer = match events {
            None => format!(r#"{{"status":"success","message":"Created 1 lineage edge(s)",{}"#, edges(1)),
            Some(count) => format!(
                "{{\"status\":\"success\",\"message\":\"Processed {count} events: {count} successful, 0 failed, 0 skipped. \
                 Created {count} lineage edges.\",\"summary\":{{\"received\":{count},\"successful\":{count},\"failed\":0,\
                 \"skipped\":0}},\"failedEvents\":null,{}",
                edges(count)
            ),
        };
        let length = answer.len();
        Script::Answer(format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{answer}"
        ))
    })
}

#[tokio::test]
async fn before_openmetadata_the_documented_examples_get_exactly_its_answers() {
    let upstream = Upstream::start(documented()).await;
    let gate = start(&upstream, "openmetadata", "").await;
    let (status, body) = curl(&gate, "etl", "/api/v1/openlineage/lineage", "event.json").await;
    let created = json!({ "status": "success", "message": "Created 1 lineage edge(s)", "lineageEdgesCreated": 1 });
    assert_eq!((status, body), (200, created));
    let (status, body) = curl(&gate, "etl", "/api/v1/openlineage/lineage/batch", "batch.json").await;
    let processed = |count: usize| {
        let message = format!(
            "Processed {count} events: {count} successful, 0 failed, 0 skipped. Created {count} lineage edges."
        );
        let summary = json!({ "received": count, "successful": count, "failed": 0, "skipped": 0 });
        json!({ "status": "success", "message": message, "summary": summary, "lineageEdgesCreated": count })
    };
    assert_eq!((status, body), (200, processed(1)));
    let mut batch: Value = serde_json::from_str(BATCH).unwrap();
    let mut second = batch["events"][0].clone();
    second["run"]["runId"] = json!("3aa06b9c-2185-4c64-959c-b549f768b252");
    let mut third = second.clone();
    third["eventTime"] = json!("2026-10-20T10:00:01Z");
    batch["events"] = json!([second, third]);
    fs::write(gate.path("two.json"), batch.to_string()).unwrap();
    let (status, body) = curl(&gate, "etl", "/api/v1/openlineage/lineage/batch", "two.json").await;
    assert_eq!((status, body), (200, processed(2)));
    let paths: Vec<String> =
        upstream.received().iter().map(|request| request.head.split(' ').nth(1).unwrap().to_owned()).collect();
    let [single, batch] = ["/api/v1/openlineage/lineage", "/api/v1/openlineage/lineage/batch"];
    assert_eq!(paths, [single, single, batch], "a batch of one is one event");
}

#[tokio::test]
async fn the_documented_faults_of_openmetadata_have_their_documented_status_and_a_body() {
    let upstream = Upstream::start(created()).await;
    let gate = start(&upstream, "openlineage", "").await;
    let (status, body) = curl(&gate, "mallory", "/api/v1/openlineage/lineage", "event.json").await;
    assert_eq!((status, &body["code"]), (403, &json!(403)));
    let (status, body) = curl(&gate, "mallory", "/api/v1/openlineage/lineage/batch", "batch.json").await;
    assert_eq!((status, &body["code"]), (403, &json!(403)));
    // A bare list is no batch, and a batch is no event.
    fs::write(gate.path("list.json"), serde_json::from_str::<Value>(BATCH).unwrap()["events"].to_string()).unwrap();
    for (path, file) in
        [("/api/v1/openlineage/lineage/batch", "list.json"), ("/api/v1/openlineage/lineage", "batch.json")]
    {
        let (status, body) = curl(&gate, "etl", path, file).await;
        assert_eq!((status, &body["code"]), (400, &json!(400)), "{path}: {body}");
    }
    upstream.script(Script::Answer("HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n".into()));
    let (status, body) = curl(&gate, "etl", "/api/v1/openlineage/lineage", "event.json").await;
    let failure = json!({ "status": "failure", "message": "Lineage backend misconfigured", "lineageEdgesCreated": 0 });
    assert_eq!((status, body), (501, failure));
    let mut request = gate.post("etl", "/api/v1/openlineage/lineage");
    request.headers_mut().unwrap().remove("authorization");
    let reply = gate.send(request.body(EVENT.into()).unwrap()).await;
    assert_eq!((reply.status.as_u16(), &reply.json()["code"]), (401, &json!(401)));
    assert!(reply.text().contains("Not Authorized!") && reply.header("www-authenticate").is_some(), "{}", reply.text());
    assert_eq!(reply.header("content-type"), Some("application/json"));
}

#[tokio::test]
async fn the_documented_answers_of_gravitino_are_the_gates() {
    let upstream = Upstream::start(created()).await;
    let gate = start(&upstream, "gravitino", "").await;
    let mut event = run_in("demo", &["lake.sales.orders"], &[]);
    event["inputs"][0]["facets"] = json!({ "datasetType": {
        "_producer": "https://example.com/p", "_schemaURL": "https://example.com/s", "datasetType": "TABLE"
    } });
    let files = [
        ("event.json", event.to_string(), 201, Value::Null),
        ("hidden.json", run(&["lake.hr.people"], &[]), 403, json!("ForbiddenException")),
        ("bad.json", "{".to_owned(), 400, json!("IllegalArgumentException")),
    ];
    for (file, content, status, kind) in files {
        fs::write(gate.path(file), content).unwrap();
        let (answered, body) = curl(&gate, "alice", "/api/lineage", file).await;
        assert_eq!((answered, &body["type"]), (status, &kind), "{file}: {body}");
        assert!(body.is_null() || (1000..=1100).contains(&body["code"].as_u64().unwrap()), "{body}");
        assert!(body.get("stack").is_none());
    }
}

#[tokio::test]
async fn paths_may_have_the_listeners_prefix_and_the_root_its_dialect() {
    let upstream = Upstream::start(created()).await;
    let listener = "path_prefix: /team\ndialect: openmetadata\nopenmetadata: '2.1'";
    let gate = start(&upstream, "openlineage", listener).await;
    for (path, status) in [
        ("/team/api/v1/lineage", 201),
        ("/team/api/v1/lineage/", 201),
        ("/api/v1/lineage", 201),
        ("/team", 200),
        ("/team/", 200),
        ("/", 200),
        ("/v1/openlineage/lineage", 200),
        ("/team/v1/openlineage/lineage/", 200),
        ("/team/team/api/v1/lineage", 404),
        ("/other/api/v1/lineage", 404),
    ] {
        let reply = gate.event("alice", path, run(&["lake.sales.orders"], &[])).await;
        assert_eq!(reply.status.as_u16(), status, "{path}: {}", reply.text());
    }
    let batch = format!("[{}]", run(&["lake.sales.orders"], &[]));
    assert_eq!(gate.event("alice", "/team/api/v1/lineage/batch", batch).await.status.as_u16(), 200);
    let failed = gate.event("alice", "/team/v1/openlineage/lineage/batch", r#"{"events":[{}]}"#).await;
    assert_eq!((failed.status.as_u16(), &failed.json()["summary"]["partial"]), (400, &json!(0)), "as 2.1 has it");
}

#[tokio::test]
async fn the_path_of_datahub_is_told_the_right_one() {
    let gate = Setup::new().start().await;
    for (path, right) in [
        ("/openapi/openlineage/api/v1/lineage", "/api/v1/lineage"),
        ("/openapi/openlineage/api/v1/lineage/", "/api/v1/lineage"),
        ("/openapi/openlineage/api/v1/lineage/batch", "/api/v1/lineage/batch"),
    ] {
        let reply = gate.event("alice", path, "{}").await;
        assert_eq!(reply.status.as_u16(), 404);
        let message = format!("No such path: POST events to {right}");
        assert_eq!(reply.json()["message"], message, "{path}");
    }
}
