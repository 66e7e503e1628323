//! A double of Marquez that answers only what a real one was recorded to answer, and every recorded request through a gate
//! in front of it. What the client gets is compared with a snapshot that was reviewed line by line.
//!
//! With `MARQUEZ_URL` a live Marquez takes the double's place, and what depends on its database being stopped is left out.
//! With `MARQUEZ_SNAPSHOT=write` the snapshot is written anew, for a review.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;
use std::io::Read;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::read::{GzDecoder, MultiGzDecoder};
use serde::Deserialize;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::support::client;
use crate::support::events::run_in;
use crate::support::gate::{Gate, Setup};
use crate::support::upstream::{Script, Upstream};

const CREATED: &str = "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n";

const LINEAGE: &str = "/api/v1/lineage";

/// Longest part of a body in the snapshot.
const SHORT: usize = 300;

#[derive(Deserialize)]
struct Golden {
    exchanges: Vec<Exchange>,
}

#[derive(Deserialize)]
struct Exchange {
    id: String,
    method: String,
    path: String,
    version: Option<String>,
    headers: Vec<(String, String)>,
    body: Option<String>,
    base64: Option<String>,
    /// Texts with how often each stands there: the large bodies.
    parts: Option<Vec<(String, usize)>>,
    answer: Option<Recorded>,
}

#[derive(Deserialize, Clone)]
struct Recorded {
    line: String,
    headers: Vec<(String, String)>,
    body: String,
}

/// What the client got.
struct Got {
    line: String,
    headers: HashMap<String, String>,
    body: Vec<u8>,
}

/// Recorded answers by the bytes of the event.
struct Double {
    address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    count: usize,
    unrecorded: Vec<String>,
}

type Answers = HashMap<Vec<u8>, Option<Recorded>>;

impl Exchange {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// The body as it was sent, with the framing of its chunks.
    fn sent(&self) -> Vec<u8> {
        if let Some(parts) = &self.parts {
            return parts.iter().map(|(text, times)| text.repeat(*times)).collect::<String>().into_bytes();
        }
        match &self.base64 {
            Some(text) => STANDARD.decode(text).unwrap(),
            None => self.body.clone().unwrap_or_default().into_bytes(),
        }
    }

    /// The event inside, decoded.
    fn event(&self) -> Option<Vec<u8>> {
        let mut body = self.sent();
        if self.header("transfer-encoding").is_some() {
            body = unchunked(&body)?;
        }
        match self.header("content-encoding").map(str::to_ascii_lowercase).as_deref() {
            None | Some("identity") => Some(body),
            Some("gzip") => {
                let mut event = Vec::new();
                MultiGzDecoder::new(&body[..]).read_to_end(&mut event).ok()?;
                Some(event)
            }
            Some(_) => None,
        }
    }

    /// Whether the recorded answer is one to a request such as the gate makes: other heads got other answers.
    fn is_like_the_gates(&self) -> bool {
        let path = self.path.split(['?', ';']).next().unwrap_or_default().trim_end_matches('/');
        let kind = self.header("content-type").unwrap_or_default().to_ascii_lowercase();
        let accept = self.header("accept").unwrap_or("*/*");
        self.method == "POST"
            && path == LINEAGE
            && kind.split(';').next() == Some("application/json")
            && (accept == "*/*" || accept.starts_with("application/json"))
            && self.header("expect").is_none_or(|value| value == "100-continue")
            && self.header("x-big").is_none_or(|value| value.len() < 8_000)
            && !(self.header("transfer-encoding").is_some() && self.header("content-length").is_some())
    }

    fn request(&self, token: &str) -> Vec<u8> {
        let version = self.version.as_deref().unwrap_or("1.1");
        let mut head = format!("{} {} HTTP/{version}\r\nHost: localhost\r\n", self.method, self.path);
        if self.header("authorization").is_none() {
            let _ = write!(head, "Authorization: Bearer {token}\r\n");
        }
        for (name, value) in &self.headers {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        let mut bytes = format!("{head}\r\n").into_bytes();
        bytes.extend(self.sent());
        bytes
    }

    /// One line of the snapshot.
    fn line(&self, got: &Got, sent: bool) -> String {
        let recorded = self.answer.as_ref().map_or("none", |answer| answer.line.split(' ').nth(1).unwrap());
        let mut line = format!("{}: {recorded} -> {}", self.id, got.line);
        line.push_str(if sent { " | sent" } else { " | kept" });
        for name in ["retry-after", "x-lineage-result", "allow", "www-authenticate"] {
            if let Some(value) = got.headers.get(name) {
                let _ = write!(line, " | {name}: {value}");
            }
        }
        let body = String::from_utf8_lossy(&got.body).trim_end().replace('\n', " ");
        if !body.is_empty() {
            let _ = write!(line, " | {}", body.chars().take(SHORT).collect::<String>());
        }
        line
    }
}

impl Double {
    async fn start(golden: &Golden) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let answers = Arc::new(answers(golden));
        let seen = Arc::new(Mutex::new(Seen::default()));
        let shared = Arc::clone(&seen);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&answers), Arc::clone(&shared)));
            }
        });
        Self { address, seen }
    }

    fn count(&self) -> usize {
        self.seen.lock().unwrap().count
    }
}

/// The recorded answer of each event. Where one was sent with several heads, that of `Accept: application/json` counts, as
/// the gate sends it.
fn answers(golden: &Golden) -> Answers {
    let mut answers = Answers::new();
    for exchange in golden.exchanges.iter().filter(|exchange| exchange.is_like_the_gates()) {
        let Some(event) = exchange.event() else { continue };
        let is_exact = exchange.header("accept") == Some("application/json");
        if is_exact || !answers.contains_key(&event) {
            answers.insert(event, exchange.answer.clone());
        }
    }
    // It has no path for batches: the gate sends their events one by one, and those of the recorded batch are sound.
    for exchange in golden.exchanges.iter().filter(|exchange| exchange.path.ends_with("/batch")) {
        let batch = exchange.body.as_deref().unwrap_or_default().trim();
        let event = batch.strip_prefix('[').and_then(|batch| batch.strip_suffix(']')).unwrap();
        let created = "HTTP/1.1 201 Created".to_owned();
        let answer =
            Recorded { line: created, headers: vec![("Content-Length".into(), "0".into())], body: String::new() };
        answers.insert(event.trim().as_bytes().to_vec(), Some(answer));
    }
    answers
}

async fn serve(mut stream: TcpStream, answers: Arc<Answers>, seen: Arc<Mutex<Seen>>) {
    while let Some(Got { line, headers, body }) = message(&mut stream, false).await {
        assert_eq!(line, format!("POST {LINEAGE} HTTP/1.1"));
        assert_eq!(headers.get("accept").map(String::as_str), Some("application/json"));
        let answer = answers.get(&body);
        {
            let mut seen = seen.lock().unwrap();
            seen.count += 1;
            if answer.is_none() {
                seen.unrecorded.push(String::from_utf8_lossy(&body).chars().take(SHORT).collect());
            }
        }
        match answer {
            None => return,
            // Its database was frozen: it never answered.
            Some(None) => std::future::pending().await,
            Some(Some(recorded)) => {
                // How an answer is framed is a matter of its connection: some were recorded by clients of HTTP/1.0, or by
                // some that wanted the connection closed.
                let is_framing =
                    |name: &str| name.eq_ignore_ascii_case("connection") || name.eq_ignore_ascii_case("content-length");
                let headers = recorded.headers.iter().filter(|(name, _)| !is_framing(name));
                let headers: String = headers.map(|(name, value)| format!("{name}: {value}\r\n")).collect();
                let Recorded { line, body, .. } = recorded;
                let answer = format!("{line}\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len());
                if stream.write_all(answer.as_bytes()).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// Reads one request or final answer, its body by `Content-Length`.
async fn message(stream: &mut (impl AsyncRead + Unpin), bodiless: bool) -> Option<Got> {
    loop {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.ok()?);
        }
        let head = String::from_utf8(head).unwrap();
        let mut lines = head.lines();
        let line = lines.next().unwrap().to_owned();
        let headers: HashMap<_, _> = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        if line.starts_with("HTTP/1.1 1") {
            continue;
        }
        let length = headers.get("content-length").filter(|_| !bodiless).map_or(0, |value| value.parse().unwrap());
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.ok()?;
        return Some(Got { line, headers, body });
    }
}

/// Sends the request over a socket of its own, as recorded, and reads while it writes: a gate may answer early.
async fn ask(gate: &Gate, exchange: &Exchange, token: &str) -> Got {
    let stream = client::tls(gate.address, &gate.ca(), b"http/1.1").await;
    let (mut reader, mut writer) = tokio::io::split(stream);
    let request = exchange.request(token);
    let writing = tokio::spawn(async move {
        let _ = writer.write_all(&request).await;
        let _ = writer.flush().await;
        writer
    });
    let answer = tokio::time::timeout(Duration::from_secs(60), message(&mut reader, exchange.method == "HEAD")).await;
    writing.abort();
    answer
        .unwrap_or_else(|_| panic!("{}: no answer", exchange.id))
        .unwrap_or_else(|| panic!("{}: cut off", exchange.id))
}

fn unchunked(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let end = rest.windows(2).position(|window| window == b"\r\n")?;
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..end]).ok()?, 16).ok()?;
        if size == 0 {
            return Some(body);
        }
        body.extend(rest.get(end + 2..end + 2 + size)?);
        rest = rest.get(end + 2 + size + 2..)?;
    }
}

fn golden() -> Golden {
    let file = fs::File::open(data("marquez-golden.json.gz")).unwrap();
    let mut text = String::new();
    GzDecoder::new(file).read_to_string(&mut text).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn data(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "data", name].iter().collect()
}

async fn before(url: &str) -> Gate {
    let upstream = format!("{{ name: marquez, kind: marquez, url: \"{url}\" }}");
    Setup::new().policy("{ mode: off }").upstream(&upstream).start().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_recorded_request_gets_a_reviewed_answer_through_the_gate() {
    let golden = golden();
    assert_eq!(golden.exchanges.len(), 313);
    let live = std::env::var("MARQUEZ_URL").ok();
    let double = Double::start(&golden).await;
    let gate = before(&live.clone().unwrap_or_else(|| format!("http://{}", double.address))).await;
    let token = gate.token("alice");
    let mut lines = Vec::new();
    for exchange in golden.exchanges.iter().filter(|it| live.is_none() || !it.id.starts_with("stopped/")) {
        let before = double.count();
        let got = ask(&gate, exchange, &token).await;
        lines.push(exchange.line(&got, double.count() > before));
        let unrecorded = std::mem::take(&mut double.seen.lock().unwrap().unrecorded);
        assert!(unrecorded.is_empty(), "{}: the double was asked what was not recorded: {unrecorded:?}", exchange.id);
    }
    let file = data("marquez-through-the-gate.txt");
    if std::env::var("MARQUEZ_SNAPSHOT").is_ok_and(|mode| mode == "write") {
        fs::write(&file, lines.iter().map(|line| format!("{line}\n")).collect::<String>()).unwrap();
    }
    let snapshot = fs::read_to_string(&file).unwrap_or_default();
    let reviewed: HashMap<&str, &str> = snapshot.lines().filter_map(|line| line.split_once(": ")).collect();
    let bare = |text: &str| if live.is_some() { text.replace(" | kept", " | sent") } else { text.to_owned() };
    let mut differences = String::new();
    for line in &lines {
        let (id, told) = line.split_once(": ").unwrap();
        let expected = reviewed.get(id).copied().unwrap_or_default();
        if bare(told) != bare(expected) {
            let _ = write!(differences, "- {id}: {expected}\n+ {id}: {told}\n");
        }
    }
    assert!(differences.is_empty(), "not as reviewed in {}:\n{differences}", file.display());
    assert!(live.is_some() || snapshot.lines().count() == lines.len(), "the snapshot holds lines of no request");
}

#[tokio::test]
async fn an_event_that_marquez_cannot_take_is_refused_in_every_dialect_and_never_sent() {
    let upstream = Upstream::start(Script::Answer(CREATED.into())).await;
    let gate = before(&upstream.url()).await;
    let event = run_in("my ns", &[], &[]).to_string();
    let message = "The lineage backend cannot take this event: job.namespace must be 1 to 1024 of the characters \
                   A-Z a-z 0-9 : ; = / _ - . @ +";
    let reply = gate.event("alice", "/api/v1/lineage", event.clone()).await;
    assert_eq!((reply.status.as_u16(), reply.json()), (400, json!({ "code": 400, "message": message })));
    assert_eq!(gate.audit_of(&reply).await["refusal"], "backend_rule");
    let reply = gate.event("alice", "/api/lineage", event).await;
    let expected = json!({ "code": 1001, "type": "IllegalArgumentException", "message": message });
    assert_eq!((reply.status.as_u16(), reply.json()), (400, expected));
    assert!(upstream.received().is_empty());
}

#[tokio::test]
async fn a_kind_that_the_backend_cannot_take_is_refused_or_dropped_and_said_so() {
    let upstream = Upstream::start(Script::Answer(CREATED.into())).await;
    let mut event = run_in("orders", &[], &[]);
    event["schemaURL"] = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/JobEvent".into();
    event.as_object_mut().unwrap().remove("run");
    for (more, status, result) in [("", 400, None), (", unsupported_kinds: drop", 201, Some("skipped"))] {
        let yaml = format!(
            "{{ name: om, kind: openmetadata, services: {{ orders: orders }}, url: \"{}\"{more} }}",
            upstream.url()
        );
        let gate = Setup::new().policy("{ mode: off }").upstream(&yaml).start().await;
        let reply = gate.event("alice", "/api/v1/lineage", event.to_string()).await;
        assert_eq!((reply.status.as_u16(), reply.header("x-lineage-result")), (status, result), "{more}");
        let record = gate.audit_of(&reply).await;
        assert_eq!(record["outcome"].as_str(), result.map(|_| "no_effect_filtered"), "{record}");
    }
    assert!(upstream.received().is_empty());
}
