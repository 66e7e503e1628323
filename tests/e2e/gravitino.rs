//! A Gravitino server as the policy source of a whole gate: what real servers answered, in both modes.

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use flate2::read::GzDecoder;
use http::{HeaderValue, Request};
use http_body_util::Full;
use serde_json::{Value, json};
use tokio::time::Instant;

use lineage_gate::config::Address;

use crate::support::client::Line;
use crate::support::events::run_in;
use crate::support::gate::{Gate, ISSUER, Setup, ask, claims};
use crate::support::gravitino::{Catalog, SERVICE_TOKEN, reply};
use crate::support::worlds::{Recorded, Version, recorded};

/// Requests on their way at once.
const LANES: usize = 16;

const FORBIDDEN: &str = r#"{"code":1008,"type":"ForbiddenException","message":"no"}"#;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Probe,
    Snapshot,
}

/// A status, and the code of an answer that says no.
type Answer = (u16, Option<u64>);

/// One request, and what a real server answered.
struct Vector {
    id: String,
    request: Request<Full<Bytes>>,
    status: u16,
    code: Option<u64>,
}

/// A gate before a catalog, ready. In snapshot mode the first was read; until then the server is asked.
async fn before(catalog: &Catalog, mode: Mode, more: &str) -> Gate {
    let gate = ready(catalog, mode, more).await;
    if mode == Mode::Snapshot {
        was_read(&gate).await;
    }
    gate
}

async fn ready(catalog: &Catalog, mode: Mode, more: &str) -> Gate {
    let policy = match mode {
        Mode::Probe => catalog.probed(more),
        Mode::Snapshot => catalog.read_whole("1s", more),
    };
    let gate = Setup::new().write("service.token", SERVICE_TOKEN).policy(&policy).start().await;
    assert!(gate.app.readiness().wait().await);
    gate
}

async fn was_read(gate: &Gate) {
    let began = Instant::now();
    while !gate.page("/metrics").await.1.contains(r#"gravitino_snapshots_total{result="ok"}"#) {
        assert!(began.elapsed() < Duration::from_secs(30), "no snapshot was read");
    }
}

fn post(gate: &Gate, user: &str, groups: &Value, roles: Option<&str>, body: String) -> Request<Full<Bytes>> {
    let mut claims = claims(user);
    claims["groups"] = groups.clone();
    let token = format!("Bearer {}", gate.key.sign(&claims).unwrap());
    let mut request = gate.post(user, "/api/lineage").body(Full::new(body.into())).unwrap();
    let headers = request.headers_mut();
    headers.remove("host");
    headers.insert("authorization", HeaderValue::try_from(token).unwrap());
    if let Some(roles) = roles {
        headers.insert("x-gravitino-active-roles", HeaderValue::try_from(roles).unwrap());
    }
    request
}

/// Sends all, and tells those that were answered otherwise than by the real server: identity → (recorded, found).
async fn differences(gate: &Gate, vectors: Vec<Vector>) -> BTreeMap<String, [Answer; 2]> {
    let mut lanes: Vec<Vec<Vector>> = (0..LANES).map(|_| Vec::new()).collect();
    for (at, vector) in vectors.into_iter().enumerate() {
        lanes[at % LANES].push(vector);
    }
    let line = Line::open(gate.address, &gate.ca()).await;
    let mut tasks = tokio::task::JoinSet::new();
    for lane in lanes {
        let line = line.clone();
        tasks.spawn(async move {
            let mut found = Vec::new();
            for Vector { id, request, status, code } in lane {
                let reply = line.send(request).await;
                let body: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
                assert!(body.get("stack").is_none(), "{id}: {body}");
                let answer = (reply.status.as_u16(), body["code"].as_u64().filter(|_| !reply.status.is_success()));
                if answer != (status, code) {
                    found.push((id, [(status, code), answer]));
                }
            }
            found
        });
    }
    tasks.join_all().await.into_iter().flatten().collect()
}

/// An event whose datasets have these types and names, inputs and outputs in turn.
fn event_naming(metalake: &str, targets: &Value) -> String {
    let mut event = run_in(metalake, &[], &[]);
    for (at, target) in targets.as_array().unwrap().iter().enumerate() {
        let facet = json!({ "_producer": "https://example.com/p", "_schemaURL": "https://example.com/s",
            "datasetType": target[0] });
        let list = if at % 2 == 0 { "inputs" } else { "outputs" };
        event[list]
            .as_array_mut()
            .unwrap()
            .push(json!({ "namespace": metalake, "name": target[1], "facets": { "datasetType": facet } }));
    }
    event.to_string()
}

fn events_of(gate: &Gate, worlds: &[Arc<Recorded>]) -> Vec<Vector> {
    let mut vectors = Vec::new();
    for world in worlds {
        for (at, event) in world.value["events"].as_array().unwrap().iter().enumerate() {
            let caller = &world.value["callers"][event[0].as_u64().unwrap() as usize];
            let body = event_naming(&world.metalake(), &event[2]);
            vectors.push(Vector {
                id: format!("{} {at} {event}", world.value["id"]),
                request: post(gate, caller["user"].as_str().unwrap(), &caller["groups"], event[1].as_str(), body),
                status: event[3].as_u64().unwrap() as u16,
                code: event[4].as_u64(),
            });
        }
    }
    vectors
}

async fn recorded_events(mode: Mode) {
    let worlds: Vec<_> = recorded(Version::Main).into_iter().map(Arc::new).collect();
    let catalog = Catalog::start(worlds.clone()).await;
    let gate = before(&catalog, mode, ", cache: { concurrency: 64 }").await;
    let vectors = events_of(&gate, &worlds);
    assert_eq!(vectors.len(), 1_407);
    let found = differences(&gate, vectors).await;
    assert!(found.is_empty(), "{} differ: {found:?}", found.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn every_recorded_event_is_answered_as_by_the_real_server_when_it_is_probed() {
    recorded_events(Mode::Probe).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_recorded_event_is_answered_as_by_the_real_server_from_snapshots() {
    recorded_events(Mode::Snapshot).await;
}

/// Where the gate's answer differs on purpose: the vectors' identities begin with this, recorded, the gate's, and why.
const DELIBERATE: [(&str, [Answer; 2], &str); 6] = [
    (
        "authz/facet/facet-other-key/alice",
        [(201, None), (400, Some(1001))],
        "a key that differs from `datasetType` in letter case only: some backends read it as that, some do not",
    ),
    (
        "authz/name/lake. .orders\"/admin",
        [(201, None), (400, Some(1001))],
        "a blank level: the server asks nothing of an owner of the metalake, and fails on all others",
    ),
    (
        "authz/name/lake. .orders\"/",
        [(500, Some(1002)), (400, Some(1001))],
        "a blank level: the server fails on it, the gate calls it what it is",
    ),
    ("blank/catalog/", [(500, Some(1002)), (400, Some(1001))], "a blank catalog: the same"),
    (
        "lineage/job/ns-number",
        [(403, Some(1008)), (400, Some(1001))],
        "a number for a namespace: the server takes it for text, the gate refuses what backends read differently",
    ),
    (
        "lineage/ok/no-auth",
        [(403, Some(1008)), (401, Some(1011))],
        "no token: the server takes the caller for `anonymous`, the gate takes nobody without a token",
    ),
];

fn golden() -> (Arc<Recorded>, Vec<Value>) {
    let packed: &[u8] = include_bytes!("../data/gravitino-lineage-golden.jsonl.gz");
    let mut text = String::new();
    GzDecoder::new(packed).read_to_string(&mut text).unwrap();
    let mut lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let world = Recorded::new(lines.next().unwrap(), Version::Main);
    (Arc::new(world), lines.collect())
}

/// The second metalake of the recorded server: nothing in it, and `admin`, who made it.
fn other_world(world: &Recorded) -> Arc<Recorded> {
    let mut value = world.value.clone();
    value["metalake"] = json!("other");
    value["created"] = json!([["METALAKE", "other"]]);
    for empty in ["users", "groups", "roles", "owners"] {
        value[empty] = json!([]);
    }
    Arc::new(Recorded::new(value, Version::Main))
}

async fn golden_vectors(mode: Mode) {
    let (world, lines) = golden();
    assert_eq!(lines.len(), 550);
    let catalog = Catalog::start(vec![other_world(&world), world]).await;
    let gate = before(&catalog, mode, ", facet_references: ignore, cache: { concurrency: 64 }").await;
    let vectors = lines.iter().map(|line| {
        let mut request = post(
            &gate,
            line["user"].as_str().unwrap_or("nobody"),
            &json!([]),
            line["roles"].as_str(),
            line["body"].as_str().unwrap().to_owned(),
        );
        if line["user"].is_null() {
            request.headers_mut().remove("authorization");
        }
        let status = line["status"].as_u64().unwrap() as u16;
        let code = line["code"].as_u64().filter(|_| status >= 300);
        Vector { id: line["id"].as_str().unwrap().to_owned(), request, status, code }
    });
    let mut found = differences(&gate, vectors.collect()).await;
    for (prefix, answers, why) in DELIBERATE {
        let before = found.len();
        found.retain(|id, found| !(id.starts_with(prefix) && *found == answers));
        assert!(found.len() < before, "no such difference any more: {prefix}: {why}");
    }
    assert!(found.is_empty(), "{} differ: {found:?}", found.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_golden_vectors_are_answered_as_by_the_real_server_when_it_is_probed() {
    golden_vectors(Mode::Probe).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_golden_vectors_are_answered_as_by_the_real_server_from_snapshots() {
    golden_vectors(Mode::Snapshot).await;
}

/// The golden world, in which only these users hold the role `one_table`.
fn world_where(holders: &[&str]) -> Vec<Arc<Recorded>> {
    let mut value = golden().0.value.clone();
    let roles = value["roles"].as_array_mut().unwrap();
    let role = roles.iter_mut().find(|role| role["name"] == "one_table").unwrap();
    role["users"] = json!(holders);
    vec![Arc::new(Recorded::new(value, Version::Main))]
}

/// Sends events of a caller until the answer is this one. All others must be the other one. Tells the time that it took.
async fn until(gate: &Gate, line: &Line, user: &str, [wanted, other]: [u16; 2]) -> Duration {
    let began = Instant::now();
    loop {
        let event = run_in("demo", &["lake.sales.orders"], &[]).to_string();
        let status = line.send(post(gate, user, &json!([]), None, event)).await.status.as_u16();
        if status == wanted {
            return began.elapsed();
        }
        assert_eq!(status, other, "a request failed during the change");
        assert!(began.elapsed() < Duration::from_secs(30), "the change never came");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_grants_holds_in_time_while_events_flow() {
    // Slow machines get a second more.
    let slack = Duration::from_secs(1);
    let cache = ", cache: { fresh: 1s, denied: 500ms, stale_if_error: 60s }";
    for (mode, holds) in [(Mode::Probe, Duration::from_secs(1)), (Mode::Snapshot, Duration::from_secs(2))] {
        let catalog = Catalog::start(world_where(&["grace"])).await;
        let gate = before(&catalog, mode, cache).await;
        let line = Line::open(gate.address, &gate.ca()).await;
        until(&gate, &line, "grace", [201, 201]).await;
        until(&gate, &line, "bob", [403, 403]).await;
        for round in 0..2 {
            let holders: &[&str] = if round == 0 { &["bob"] } else { &["grace"] };
            catalog.change(world_where(holders));
            let [(lost, gone), (new, come)] = if round == 0 {
                [("grace", [403, 201]), ("bob", [201, 403])]
            } else {
                [("bob", [403, 201]), ("grace", [201, 403])]
            };
            let (lost, new) = tokio::join!(until(&gate, &line, lost, gone), until(&gate, &line, new, come));
            assert!(lost <= holds + slack && new <= holds + slack, "{mode:?} {round}: {lost:?} {new:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revocation_holds_for_a_caller_that_comes_back_much_later() {
    let catalog = Catalog::start(world_where(&["grace", "heidi"])).await;
    let gate = before(&catalog, Mode::Probe, ", cache: { fresh: 1s, denied: 500ms, stale_if_error: 60s }").await;
    let line = Line::open(gate.address, &gate.ca()).await;
    until(&gate, &line, "heidi", [201, 201]).await;
    catalog.change(world_where(&["grace"]));
    let changed = Instant::now();
    while changed.elapsed() < Duration::from_millis(1_100) {
        until(&gate, &line, "grace", [201, 201]).await;
    }
    // Its first answer is already the new one.
    until(&gate, &line, "heidi", [403, 403]).await;
}

/// The golden world, in which nobody may read these roles.
fn world_hiding(roles: &[&str]) -> Vec<Arc<Recorded>> {
    let mut world = Recorded::new(golden().0.value.clone(), Version::Main);
    world.hidden_roles = roles.iter().map(|role| (*role).to_owned()).collect();
    vec![Arc::new(world)]
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_snapshot_leaves_open_is_asked_or_refused_and_named() {
    let catalog = Catalog::start(world_hiding(&["one_table"])).await;
    let event = || run_in("demo", &["lake.sales.orders"], &[]).to_string();
    let gate = before(&catalog, Mode::Snapshot, "").await;
    assert_eq!(gate.event("grace", "/api/lineage", event()).await.status.as_u16(), 201, "the server is asked");
    let policy = catalog.read_whole("1s, fallback: refuse", "");
    let gate = Setup::new().write("service.token", SERVICE_TOKEN).policy(&policy).start().await;
    assert!(gate.app.readiness().wait().await);
    let answer = gate.event("grace", "/api/lineage", event()).await;
    assert_eq!(answer.status.as_u16(), 503, "{}", answer.text());
    assert!(gate.audit_of(&answer).await["rule"].as_str().unwrap().contains("`fallback` is `refuse`"));
    assert_eq!(gate.event("alice", "/api/lineage", event()).await.status.as_u16(), 201, "alice's roles are known");
    let (_, page) = gate.page("/readyz?verbose").await;
    assert!(page.contains("metalake demo: role one_table"), "{page}");
}

/// Sends events of a caller, which all pass, until an old answer serves.
async fn until_marked(gate: &Gate, user: &str) {
    let began = Instant::now();
    loop {
        let event = run_in("demo", &["lake.sales.orders"], &[]).to_string();
        let answer = gate.event(user, "/api/lineage", event).await;
        assert_eq!(answer.status.as_u16(), 201, "{}", answer.text());
        if gate.audit_of(&answer).await["stale"] == true {
            return;
        }
        assert!(began.elapsed() < Duration::from_secs(30), "never marked");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_forgotten_decides_nothing_any_more_also_in_a_snapshot() {
    for drops in ["", "?caller=https%3A%2F%2Fidp.example%2F%20grace", "?metalake=demo"] {
        let catalog = Catalog::start(world_where(&["grace"])).await;
        let token = "a-token-of-more-than-16-characters";
        let setup = Setup::new().admin("{ address: 127.0.0.1:0, token_file: admin.token }").write("admin.token", token);
        let setup = setup.write("service.token", SERVICE_TOKEN).policy(&catalog.read_whole("60s", ""));
        let gate = setup.start().await;
        was_read(&gate).await;
        let line = Line::open(gate.address, &gate.ca()).await;
        until(&gate, &line, "grace", [201, 201]).await;
        catalog.change(world_where(&[]));
        until(&gate, &line, "grace", [201, 201]).await;
        let Some(Address::Tcp(address)) = gate.app.addresses().admin else { panic!("no control listener") };
        let drops = drops.replace("https%3A%2F%2Fidp.example%2F", &ISSUER.replace(':', "%3A").replace('/', "%2F"));
        let bearer = format!("Bearer {token}");
        let path = format!("/policy/invalidate{drops}");
        assert_eq!(ask(address, "POST", &path, &[("Authorization", &bearer)]).await.0, 200, "{path}");
        until(&gate, &line, "grace", [403, 403]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_that_cannot_be_read_anew_serves_only_while_nothing_can_be_asked() {
    let cache = ", cache: { fresh: 200ms, denied: 100ms, stale_if_error: 60s }";
    let catalog = Catalog::start(world_where(&["grace"])).await;
    let gate = before(&catalog, Mode::Snapshot, cache).await;
    let line = Line::open(gate.address, &gate.ca()).await;
    until(&gate, &line, "grace", [201, 201]).await;
    // The service credential's reads fail, callers' questions do not.
    catalog.service_trouble(Some(&reply(503, "", "")));
    catalog.change(world_where(&["bob"]));
    until(&gate, &line, "grace", [403, 201]).await;
    until(&gate, &line, "bob", [201, 403]).await;
    catalog.service_trouble(None);
    catalog.change(world_where(&["grace"]));
    until(&gate, &line, "bob", [403, 201]).await;
    until(&gate, &line, "grace", [201, 403]).await;
    catalog.trouble(Some(&reply(503, "", "")));
    until_marked(&gate, "grace").await;
    let event = run_in("demo", &["lake.sales.orders"], &[]).to_string();
    assert_eq!(gate.event("bob", "/api/lineage", event).await.status.as_u16(), 503, "an old no is none");
    assert!(!gate.page("/metrics").await.1.contains("policy_stale_answers_total 0\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn old_answers_serve_while_the_server_fails_and_are_marked() {
    let catalog = Catalog::start(vec![golden().0]).await;
    let gate = before(&catalog, Mode::Probe, ", cache: { fresh: 200ms, stale_if_error: 60s }").await;
    let event = || run_in("demo", &["lake.sales.orders"], &[]).to_string();
    assert_eq!(gate.event("alice", "/api/lineage", event()).await.status.as_u16(), 201);
    catalog.trouble(Some(&reply(503, "", "")));
    until_marked(&gate, "alice").await;
    let unknown = run_in("demo", &["lake.sales.customers"], &[]).to_string();
    assert_eq!(gate.event("alice", "/api/lineage", unknown).await.status.as_u16(), 503, "nothing old is known of it");
}

#[tokio::test(flavor = "multi_thread")]
async fn other_names_in_a_metalake_of_the_server_are_unseen() {
    let catalog = Catalog::start(vec![golden().0]).await;
    let mut event = run_in("demo", &["lake.sales.orders"], &[]);
    event["inputs"][0]["facets"] = json!({ "symlinks": { "_producer": "p", "_schemaURL": "s",
        "identifiers": [{ "namespace": "demo", "name": "lake.sales.customers", "type": "TABLE" }] } });
    for (symlinks, status) in [("drop_unseen", 201), ("deny_unseen", 403)] {
        let upstream = format!("{{ name: archive, kind: file, path: accepted.jsonl, symlinks: {symlinks} }}");
        let gate = Setup::new().policy(&catalog.probed("")).upstream(&upstream).start().await;
        assert!(gate.app.readiness().wait().await);
        let answer = gate.event("alice", "/api/lineage", event.to_string()).await;
        assert_eq!(answer.status.as_u16(), status, "{symlinks}: {}", answer.text());
        let kept = gate.accepted().iter().any(|event| event.to_string().contains("lake.sales.customers"));
        assert!(!kept, "{symlinks}");
        catalog.trouble(Some(&reply(503, "", "")));
        let answer = gate.event("judy", "/api/lineage", event.to_string()).await;
        assert_eq!(answer.status.as_u16(), 503, "{symlinks}: {}", answer.text());
        catalog.trouble(None);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_event_of_a_batch_is_judged_by_the_server() {
    let catalog = Catalog::start(vec![golden().0]).await;
    let gate = before(&catalog, Mode::Probe, "").await;
    let [seen, unseen] = ["lake.sales.orders", "lake.hr.salaries"].map(|name| run_in("demo", &[name], &[]));
    let answer = gate.event("alice", "/api/v1/lineage/batch", json!([seen, unseen]).to_string()).await;
    assert_eq!(answer.status.as_u16(), 200, "{}", answer.text());
    assert_eq!(gate.accepted(), [seen]);
    catalog.trouble(Some(&reply(503, "", "")));
    let new = run_in("demo", &["lake.sales.customers"], &[]);
    let answer = gate.event("alice", "/api/v1/lineage/batch", json!([new]).to_string()).await;
    assert!(answer.text().contains("503") || answer.status.as_u16() == 503, "{}: {}", answer.status, answer.text());
    assert_eq!(gate.accepted().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_trouble_of_the_server_lets_an_event_through_or_is_taken_for_the_callers_fault() {
    let json = "Content-Type: application/json\r\n";
    let page = "<html><body>login</body></html>";
    let rows: Vec<(&str, String)> = vec![
        ("401 of something else", reply(401, "", page)),
        ("403 of something else", reply(403, json, r#"{"status":"403"}"#)),
        ("405", reply(405, "", page)),
        ("406", reply(406, "", "")),
        ("409", reply(409, "", "")),
        ("429", reply(429, json, r#"{"status":"429"}"#)),
        ("500", reply(500, json, r#"{"code":1002,"message":"boom"}"#)),
        ("500 without a body", reply(500, "", "")),
        ("503", reply(503, "", page)),
        ("HTML", reply(200, "Content-Type: text/html\r\n", page)),
        ("web-server JSON", reply(200, json, r#"{"status":"200"}"#)),
        ("an empty body", reply(200, "", "")),
        ("half a body", "HTTP/1.1 200 x\r\nContent-Length: 99\r\nConnection: close\r\n\r\n{\"code\":0}".into()),
        ("a body without end", reply(200, "", &" ".repeat(70_000))),
        ("a redirect", reply(302, "Location: http://127.0.0.1:1/\r\n", "")),
        ("no HTTP", "hello\r\n\r\n Connection: close".into()),
        ("silence", String::new()),
    ];
    let world = golden().0;
    let catalog = Catalog::start(vec![Arc::clone(&world)]).await;
    let gate = before(&catalog, Mode::Probe, "").await;
    let line = Line::open(gate.address, &gate.ca()).await;
    for (at, (what, bytes)) in rows.iter().enumerate() {
        catalog.trouble(Some(bytes));
        // A name of its own each time, so that nothing is known before.
        let event = || run_in("demo", &[&format!("lake.sales.t{at}")], &[]).to_string();
        let answer = line.send(post(&gate, "alice", &json!([]), None, event())).await;
        assert_eq!(answer.status.as_u16(), 503, "{what}: {}", answer.text());
        assert_eq!(answer.header("retry-after"), Some("1"), "{what}");
        catalog.trouble(None);
        let answer = line.send(post(&gate, "alice", &json!([]), None, event())).await;
        assert_eq!(answer.status.as_u16(), 201, "{what}, and back: {}", answer.text());
    }
    assert_eq!(gate.accepted().len(), rows.len());
    // What the server itself says of the caller is the caller's.
    let own = [(401, r#"{"code":1011,"type":"TokenExpiredException","message":"expired"}"#), (403, FORBIDDEN)];
    for (status, body) in own {
        catalog.trouble(Some(&reply(status, json, body)));
        let event = run_in("demo", &["lake.sales.none"], &[]).to_string();
        assert_eq!(line.send(post(&gate, "alice", &json!([]), None, event)).await.status.as_u16(), status);
    }
}

#[tokio::test]
async fn an_unsafe_server_refuses_every_event_with_the_reason_and_is_never_ready() {
    let catalog = Catalog::start(vec![golden().0]).await;
    let off = r#"{"code":1006,"type":"UnsupportedOperationException","message":"off"}"#;
    catalog.trial(&reply(405, "", off));
    let policy = catalog.probed("");
    let gate = Setup::new().policy(&policy).start().await;
    let event = run_in("demo", &["lake.sales.orders"], &[]).to_string();
    let answer = gate.event("alice", "/api/lineage", event.clone()).await;
    assert_eq!(answer.status.as_u16(), 503);
    let mut told = false;
    for _ in 0..200 {
        let answer = gate.event("alice", "/api/lineage", event.clone()).await;
        assert_eq!(answer.status.as_u16(), 503);
        let record = gate.audit_of(&answer).await;
        told = record["rule"].as_str().unwrap().contains("authorization.enable=false");
        if told {
            break;
        }
    }
    assert!(told, "the reason stands in the audit record");
    let (status, page) = gate.page("/readyz?verbose").await;
    assert_eq!(status, 503);
    assert!(page.contains("unsafe, so that its events are refused: ") && page.contains("policy of Gravitino: missing"));
    assert!(gate.accepted().is_empty() && catalog.asked() == 0);
}

#[tokio::test]
async fn in_shadow_mode_no_server_keeps_the_gate_from_being_ready_or_an_event_from_passing() {
    let off = r#"{"code":1006,"type":"UnsupportedOperationException","message":"off"}"#;
    let rows = [(reply(405, "", off), "unsafe"), (reply(502, "", ""), "waiting")];
    for (mode, (trial, word)) in
        [Mode::Probe, Mode::Snapshot].into_iter().flat_map(|mode| rows.clone().map(|r| (mode, r)))
    {
        let catalog = Catalog::start(vec![golden().0]).await;
        catalog.trial(&trial);
        let gate = ready(&catalog, mode, ", mode: shadow").await;
        let event = run_in("demo", &["lake.sales.orders"], &[]).to_string();
        let answer = gate.event("alice", "/api/lineage", event).await;
        assert_eq!(answer.status.as_u16(), 201, "{mode:?} {word}: {}", answer.text());
        assert_eq!(gate.audit_of(&answer).await["shadow"], true, "{mode:?} {word}");
        let told = format!("policy source Gravitino: {word}, so that its events pass unjudged: Gravitino at ");
        let began = Instant::now();
        loop {
            let (status, page) = gate.page("/readyz?verbose").await;
            assert_eq!(status, 200, "{mode:?}: {page}");
            if page.contains(&told) {
                break;
            }
            assert!(began.elapsed() < Duration::from_secs(30), "{mode:?} {word}: {page}");
        }
    }
}

#[tokio::test]
async fn a_gate_that_starts_before_its_catalog_is_ready_once_that_answers() {
    let catalog = Catalog::start(vec![golden().0]).await;
    catalog.trial("HTTP/1.1 502 x\r\nContent-Length: 0\r\n\r\n");
    let gate = Setup::new().policy(&catalog.probed("")).start().await;
    assert_eq!(gate.page("/livez").await.0, 200);
    assert_eq!(gate.page("/readyz").await.0, 503);
    let event = || run_in("demo", &["lake.sales.orders"], &[]).to_string();
    assert_eq!(gate.event("alice", "/api/lineage", event()).await.status.as_u16(), 503);
    catalog.well();
    assert!(gate.app.readiness().wait().await);
    let (_, page) = gate.page("/readyz?verbose").await;
    assert!(
        page.contains("ready: Gravitino 2.0.0-SNAPSHOT") && page.contains("unreadable in Gravitino: nothing"),
        "{page}"
    );
    assert_eq!(gate.event("alice", "/api/lineage", event()).await.status.as_u16(), 201);
}
