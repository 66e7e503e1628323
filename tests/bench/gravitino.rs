//! What a decision costs with a Gravitino server as the policy source: `cargo run --release --example gravitino_bench`.
//!
//! A server in this process answers each call after 5 ms. For probe and snapshot mode, at 1, 50 and 500 datasets an event,
//! it prints the time of the first decision and of those after it, and the calls that the server got for each. What a
//! snapshot costs in the background is told apart: its calls do not depend on callers, events or datasets.

use std::hint::black_box;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use http::HeaderValue;
use lineage_gate::auth::Caller;
use lineage_gate::config::{self, EventTime, FacetReferences};
use lineage_gate::event::{self, Event, Kind, Rules};
use lineage_gate::policy::{ActiveRoles, Judgement};
use lineage_gate::source::cache;
use lineage_gate::source::gravitino::{self, Gravitino, State};
use lineage_gate::source::{Ask, Remote, Ruled, Source};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

const ROUNDS: u32 = 2_000;

/// Time that the server takes for each answer.
const DELAY: Duration = Duration::from_millis(5);

type Failure = Box<dyn std::error::Error>;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Failure> {
    let calls = Arc::new(AtomicUsize::new(0));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
    let counted = Arc::clone(&calls);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, Arc::clone(&counted)));
        }
    });
    let folder = tempfile::tempdir()?;
    let token = folder.path().join("token");
    std::fs::write(&token, "service")?;
    let probe = json!({ "url": url });
    let snapshot = json!({ "url": url, "mode": "snapshot", "credential": { "bearer_file": token } });
    let mut out = std::io::stdout();
    let head = ["mode", "datasets", "cold", "calls", "warm", "calls"];
    writeln!(out, "{:>8} {:>9} {:>12} {:>6} {:>12} {:>6}", head[0], head[1], head[2], head[3], head[4], head[5])?;
    for (mode, settings) in [("probe", probe), ("snapshot", snapshot)] {
        for datasets in [1, 50, 500] {
            let settings: config::Gravitino = serde_json::from_value(settings.clone())?;
            let gravitino = Arc::new(Gravitino::new(&settings, gravitino::Metrics::default())?);
            let before = calls.load(Ordering::SeqCst);
            let State::Ready(_) = gravitino.read_once().await else { return Err("the server is not ready".into()) };
            let reading = calls.load(Ordering::SeqCst) - before;
            let settings = (&config::PolicyCache::default()).into();
            let remote = Remote::new(gravitino, false, settings, cache::Metrics::default());
            let source = Source::new(None, Some(remote));
            let event = event_of(datasets)?;
            let begin = calls.load(Ordering::SeqCst);
            let cold = micros(decide(&source, &event, 1).await?);
            let asked = calls.load(Ordering::SeqCst) - begin;
            let warm = micros(decide(&source, &event, ROUNDS).await?);
            let again = calls.load(Ordering::SeqCst) - begin - asked;
            writeln!(out, "{mode:>8} {datasets:>9} {cold:>9.1} µs {asked:>6} {warm:>9.1} µs {again:>6}")?;
            if datasets == 500 {
                writeln!(out, "{mode:>8}: {reading} calls to begin with")?;
            }
        }
    }
    Ok(())
}

/// The time of one decision, as the mean of some.
async fn decide(source: &Source, event: &Event, rounds: u32) -> Result<Duration, Failure> {
    let caller = Caller {
        issuer: "https://idp.example.com/".into(),
        subject: "alice".into(),
        groups: Arc::from(["analysts".into()]),
        token_id: "t".into(),
        expires: SystemTime::UNIX_EPOCH,
        identity: [7; 32],
    };
    let authorization = HeaderValue::from_static("Bearer callers-own");
    let began = Instant::now();
    for _ in 0..rounds {
        let ask = Ask {
            caller: &caller,
            authorization: Some(&authorization),
            roles: &ActiveRoles::All,
            active_roles: None,
            event,
            facets: FacetReferences::Governed,
            deadline: Instant::now() + Duration::from_millis(2_500),
        };
        let Ruled { judgement, .. } = black_box(source.judge(&ask).await)?;
        if !matches!(judgement, Judgement::Allowed { .. }) {
            return Err(format!("{judgement:?}").into());
        }
    }
    Ok(began.elapsed() / rounds)
}

async fn serve(mut stream: TcpStream, calls: Arc<AtomicUsize>) {
    let mut buffer = Vec::new();
    loop {
        let end = buffer.windows(4).position(|window| window == b"\r\n\r\n");
        let Some(end) = end else {
            match stream.read_buf(&mut buffer).await {
                Ok(0) | Err(_) => return,
                Ok(_) => continue,
            }
        };
        let head = String::from_utf8_lossy(&buffer.drain(..end + 4).collect::<Vec<u8>>()).into_owned();
        calls.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(DELAY).await;
        let (status, body) = answer(&head);
        let body = body.to_string();
        let text = format!("HTTP/1.1 {status} x\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        if stream.write_all(text.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// A metalake whose only role reads everything.
fn answer(head: &str) -> (u16, Value) {
    let path = head.split(' ').nth(1).unwrap_or_default();
    let narrowed = head.to_ascii_lowercase().contains("x-gravitino-active-roles");
    let privileges = ["use_catalog", "use_schema", "select_table"];
    let privileges = privileges.map(|name| json!({ "name": name, "condition": "allow" }));
    let objects = json!([{ "type": "metalake", "fullName": "demo", "privileges": privileges }]);
    match path.strip_prefix("/api/metalakes/demo/") {
        Some("users?details=true") => (
            200,
            json!({ "code": 0, "users": [{ "name": "alice", "roles": ["reader"] }, { "name": "service", "roles": [] }] }),
        ),
        Some("groups?details=true") => (200, json!({ "code": 0, "groups": [] })),
        Some("roles/reader") => (200, json!({ "code": 0, "role": { "name": "reader", "securableObjects": objects } })),
        Some("catalogs?details=true") => {
            (200, json!({ "code": 0, "catalogs": [{ "name": "lake", "provider": "lakehouse-iceberg" }] }))
        }
        Some(_) => (200, json!({ "code": 0, "owner": { "name": "service", "type": "user" } })),
        None if path == "/api/metalakes" => (200, json!({ "code": 0, "metalakes": [{ "name": "demo" }] })),
        None if path == "/api/authn/me" => (200, json!({ "code": 0, "principal": "service" })),
        None if path == "/api/version" && narrowed => {
            (400, json!({ "code": 1001, "type": "IllegalActiveRolesException", "message": "no" }))
        }
        None if path == "/api/version" => (200, json!({ "code": 0, "version": { "version": "2.0.0" } })),
        None => (403, json!({ "code": 1008, "type": "ForbiddenException", "message": "no" })),
    }
}

fn event_of(datasets: usize) -> Result<Event, Failure> {
    let inputs: Vec<Value> =
        (0..datasets).map(|at| json!({ "namespace": "demo", "name": format!("lake.sales.orders_{at}") })).collect();
    let json = json!({
        "eventTime": "2026-01-01T00:00:00Z",
        "producer": "https://example.com",
        "schemaURL": "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent",
        "run": { "runId": "0190c7b0-0000-7000-8000-000000000000" },
        "job": { "namespace": "demo", "name": "j" },
        "inputs": inputs,
    });
    let rules = Rules {
        event_time: EventTime::RequireOffset,
        kinds: vec![Kind::Run],
        runs_only: true,
        max_depth: 100,
        max_references: 10_000,
    };
    Ok(event::parse(json.to_string().into(), &rules)?)
}

fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}
