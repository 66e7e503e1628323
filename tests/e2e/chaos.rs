//! A backend that fails in every way at random, and clients that behave as the real Python client does.
//!
//! What must hold: an event that its client believes delivered is at the backend, no event is there twice, and the audit
//! tells of each that a client gave up what became of it. Times are a tenth of the real ones. `tests/real/clients/chaos`
//! is the same with real clients, real times and many more events.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::Request;
use http_body_util::Full;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::support::client;
use crate::support::events::run;
use crate::support::gate::{Gate, Setup};

const EVENTS: usize = 300;
const CALLERS: [&str; 3] = ["alice", "bob", "dave"];
const CLIENTS_EACH: usize = 4;

/// Another seed is another run; this one meets every fate.
const SEED: u64 = 20_261_129;

/// As `Retry-After: 1`, the client's own timeout of 5 s, and the timeout of an exchange.
const RETRY_AFTER: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_millis(500);

/// What becomes of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fate {
    Stored,
    StoredLate,
    ResetBefore,
    ResetDuring,
    ResetAfter,
    Stall,
    TooMany,
    Fault,
    Garbage,
}

#[derive(Default)]
struct Backend {
    stored: Mutex<HashMap<String, usize>>,
    fates: Mutex<BTreeMap<Fate, usize>>,
}

/// What a client believes.
enum Belief {
    Delivered,
    GaveUp(String),
}

/// The fate of the request with this number, for this seed.
fn fate(number: u64) -> Fate {
    let mut hash = (SEED ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash = (hash ^ hash >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    match hash >> 57 {
        0..=7 => Fate::StoredLate,
        8..=13 => Fate::ResetBefore,
        14..=19 => Fate::ResetDuring,
        20..=25 => Fate::ResetAfter,
        26..=28 => Fate::Stall,
        29..=34 => Fate::TooMany,
        35..=44 => Fate::Fault,
        45..=47 => Fate::Garbage,
        _ => Fate::Stored,
    }
}

impl Backend {
    async fn start(self: &Arc<Self>) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let backend = Arc::clone(self);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let backend = Arc::clone(&backend);
                tokio::spawn(async move { backend.serve(stream).await });
            }
        });
        address
    }

    async fn serve(&self, mut stream: TcpStream) -> Option<()> {
        let mut buffer = Vec::new();
        loop {
            let (head, end) = loop {
                if let Some(at) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                    break (String::from_utf8_lossy(&buffer[..at]).to_lowercase(), at + 4);
                }
                read(&mut stream, &mut buffer, 64).await?;
            };
            if head.starts_with("get ") {
                buffer.drain(..end);
                answer(&mut stream, "200 OK").await?;
                continue;
            }
            let fate = self.next_fate();
            let length: usize = head.split("content-length: ").nth(1)?.lines().next()?.parse().ok()?;
            if fate == Fate::ResetBefore {
                return reset(&stream);
            }
            let wanted = if fate == Fate::ResetDuring { end + length / 2 } else { end + length };
            while buffer.len() < wanted {
                read(&mut stream, &mut buffer, 64).await?;
            }
            if fate == Fate::ResetDuring {
                return reset(&stream);
            }
            let body: Vec<u8> = buffer.drain(..end + length).skip(end).collect();
            let event: Value = serde_json::from_slice(&body).ok()?;
            self.meet(fate, &mut stream, event["run"]["runId"].as_str()?).await?;
        }
    }

    fn next_fate(&self) -> Fate {
        let mut fates = self.fates.lock().unwrap();
        let fate = fate(fates.values().sum::<usize>() as u64);
        *fates.entry(fate).or_default() += 1;
        fate
    }

    /// The whole event is here. What is stored, is stored before its answer.
    async fn meet(&self, fate: Fate, stream: &mut TcpStream, run_id: &str) -> Option<()> {
        match fate {
            Fate::Stored => {
                self.store(run_id);
                answer(stream, "201 Created").await
            }
            Fate::StoredLate => {
                tokio::time::sleep(Duration::from_millis(700)).await;
                self.store(run_id);
                answer(stream, "201 Created").await
            }
            Fate::ResetBefore | Fate::ResetDuring | Fate::ResetAfter => reset(stream),
            Fate::Stall => std::future::pending().await,
            Fate::TooMany => answer(stream, "429 Too Many Requests").await,
            Fate::Fault => answer(stream, "500 Internal Server Error").await,
            Fate::Garbage => {
                stream.write_all(b"\x16\x03 this is no HTTP\r\n\r\n").await.ok()?;
                None
            }
        }
    }

    fn store(&self, run_id: &str) {
        *self.stored.lock().unwrap().entry(run_id.to_owned()).or_default() += 1;
    }
}

/// A few bytes at a time: what was not read when a connection is reset is the backend's to lose.
async fn read(stream: &mut TcpStream, buffer: &mut Vec<u8>, most: u64) -> Option<()> {
    (stream.take(most).read_buf(buffer).await.ok()? > 0).then_some(())
}

async fn answer(stream: &mut TcpStream, status: &str) -> Option<()> {
    let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
    stream.write_all(answer.as_bytes()).await.ok()
}

fn reset(stream: &TcpStream) -> Option<()> {
    socket2::SockRef::from(stream).set_linger(Some(Duration::ZERO)).unwrap();
    None
}

/// Six sendings; again after 500, 502, 503, 504, after `Retry-After`, and after no answer in time (facts: marquez and
/// clients 3).
async fn emit(address: SocketAddr, ca: &std::path::Path, request: impl Fn() -> Request<Full<bytes::Bytes>>) -> Belief {
    let mut last = String::new();
    for _ in 0..6 {
        match tokio::time::timeout(PATIENCE * 4, client::http1(address, ca, request())).await {
            Ok(reply) => {
                let status = reply.status.as_u16();
                if status == 201 {
                    return Belief::Delivered;
                }
                last = format!("{status}");
                if !matches!(status, 500 | 502 | 503 | 504) && reply.header("retry-after").is_none() {
                    return Belief::GaveUp(last);
                }
            }
            Err(_) => last = "no answer in time".to_owned(),
        }
        tokio::time::sleep(RETRY_AFTER).await;
    }
    Belief::GaveUp(last)
}

async fn send_all(gate: &Gate) -> HashMap<String, Belief> {
    let beliefs = Arc::new(Mutex::new(HashMap::new()));
    let mut clients = Vec::new();
    for number in 0..CALLERS.len() * CLIENTS_EACH {
        let (address, ca, beliefs) = (gate.address, gate.ca(), Arc::clone(&beliefs));
        let token = gate.token(CALLERS[number % CALLERS.len()]);
        clients.push(tokio::spawn(async move {
            for _ in 0..EVENTS / (CALLERS.len() * CLIENTS_EACH) {
                let event = run(&[], &[]);
                let request = || {
                    Request::post("https://localhost/api/v1/lineage")
                        .header("host", "localhost")
                        .header("authorization", format!("Bearer {token}"))
                        .header("content-type", "application/json")
                        .body(Full::from(event.clone()))
                        .unwrap()
                };
                let belief = emit(address, &ca, request).await;
                let id = serde_json::from_str::<Value>(&event).unwrap()["run"]["runId"].as_str().unwrap().to_owned();
                beliefs.lock().unwrap().insert(id, belief);
            }
        }));
    }
    for client in clients {
        client.await.unwrap();
    }
    Arc::into_inner(beliefs).unwrap().into_inner().unwrap()
}

/// For each run, the outcomes in its audit records.
fn outcomes(audit: &str) -> HashMap<String, Vec<String>> {
    let mut outcomes: HashMap<String, Vec<String>> = HashMap::new();
    for line in audit.lines() {
        let record: Value = serde_json::from_str(line).unwrap();
        let run = record["run_id"].as_str().unwrap().to_owned();
        outcomes.entry(run).or_default().push(record["outcome"].as_str().unwrap_or("none").to_owned());
    }
    outcomes
}

#[tokio::test]
async fn no_event_is_lost_without_a_word_or_stored_twice() {
    let backend = Arc::new(Backend::default());
    let url = format!("http://{}", backend.start().await);
    let times = "answer_within: 350ms, timeout: 3s, connect_timeout: 1s";
    let yaml = format!("{{ name: backend, kind: openlineage, url: \"{url}\", {times} }}");
    let gate = Setup::new().upstream(&yaml).drain("{ grace: 0s, deadline: 30s }").start().await;
    let beliefs = send_all(&gate).await;
    let Gate { dir, app, .. } = gate;
    app.end().await;
    let outcomes = outcomes(&std::fs::read_to_string(dir.path().join("audit.jsonl")).unwrap());
    let stored = backend.stored.lock().unwrap().clone();
    let fates = backend.fates.lock().unwrap().clone();

    assert_eq!(fates.len(), 9, "every fate was met: {fates:?}");
    assert!(stored.values().all(|count| *count == 1), "stored twice: {stored:?}");
    let mut given_up: BTreeMap<String, usize> = BTreeMap::new();
    for (run, belief) in &beliefs {
        let known = &outcomes[run];
        let accepted = known.iter().any(|outcome| outcome == "accepted");
        assert_eq!(accepted, stored.contains_key(run), "the audit says what the backend has: {run} {known:?}");
        match belief {
            Belief::Delivered => assert!(stored.contains_key(run), "lost: {run} {known:?}"),
            Belief::GaveUp(last) => {
                let end = known.last().unwrap();
                *given_up.entry(format!("{last}: {end}")).or_default() += 1;
            }
        }
    }
    let delivered = beliefs.values().filter(|belief| matches!(belief, Belief::Delivered)).count();
    assert_eq!(beliefs.len(), EVENTS);
    assert!(delivered > EVENTS * 8 / 10, "{delivered} of {EVENTS} delivered; given up: {given_up:?}; {fates:?}");
    println!("{delivered} of {EVENTS} delivered; given up: {given_up:?}; {fates:?}");
}
