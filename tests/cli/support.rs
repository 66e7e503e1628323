//! The binary as a process, HTTP over plain sockets, and a backend that answers as it is told.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

/// A minute is more than any machine needs.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn gate(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lineage-gate")).args(arguments).output().unwrap()
}

pub(crate) fn code(output: &Output) -> Option<i32> {
    output.status.code()
}

pub(crate) fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

pub(crate) fn shown(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A directory with `gate.yaml`.
pub(crate) fn directory(config: &str) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("gate.yaml");
    fs::write(&path, config).unwrap();
    (directory, path)
}

pub(crate) fn demo_policies() -> &'static str {
    concat!(env!("CARGO_MANIFEST_DIR"), "/policies")
}

/// A run event of the metalake `demo`.
pub(crate) fn event(inputs: &[&str], outputs: &[&str]) -> Value {
    let datasets = |names: &[&str]| -> Vec<Value> {
        names.iter().map(|name| serde_json::json!({ "namespace": "demo", "name": name })).collect()
    };
    serde_json::json!({
        "eventTime": "2026-11-29T18:47:48.312Z",
        "eventType": "COMPLETE",
        "producer": "https://example.com/producer",
        "schemaURL": "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent",
        "run": { "runId": uuid::Uuid::now_v7().to_string() },
        "job": { "namespace": "demo", "name": "daily" },
        "inputs": datasets(inputs),
        "outputs": datasets(outputs),
    })
}

/// A server whose requests need a token of `dev/`, over plain HTTP on loopback, with the demonstration's policy.
pub(crate) fn serving(upstream: &str, drain: &str) -> String {
    format!(
        "\
listeners: [{{ address: 127.0.0.1:0 }}]
auth: {{ issuers: [{{ issuer: https://lineage-gate.invalid/dev, audiences: [lineage], jwks_file: dev/jwks.json }}] }}
policy: {{ files: {} }}
upstreams: [{upstream}]
audit: {{ output: audit.jsonl }}
health: {{ address: 127.0.0.1:0 }}
drain: {drain}
",
        demo_policies()
    )
}

/// A token for alice, made by the binary; `dev/` in the directory holds its key set.
pub(crate) fn token(directory: &Path) -> String {
    let out = directory.join("dev");
    let output = gate(&["token", "--out", shown(&out), "--subject", "alice"]);
    assert_eq!(code(&output), Some(0), "{}", text(&output.stderr));
    text(&output.stdout).trim_end().to_owned()
}

/// `lineage-gate run`, ended at the latest when it is dropped.
pub(crate) struct Server {
    child: Child,
    log: Receiver<Value>,
    pub(crate) address: SocketAddr,
}

impl Server {
    pub(crate) fn start(config: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_lineage-gate"))
            .args(["run", "--config", shown(config)])
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, log) = channel();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                let line = serde_json::from_str(&line).unwrap_or(Value::String(line));
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let mut server = Self { child, log, address: ([127, 0, 0, 1], 0).into() };
        let listening = server.logged("listening for events");
        server.address = listening.to_string().split('"').find_map(|part| part.parse().ok()).unwrap();
        server.logged("started");
        server
    }

    /// Waits until a line of the log holds this text.
    pub(crate) fn logged(&self, wanted: &str) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let line = self.log.recv_timeout(left);
            let line = line.unwrap_or_else(|_| panic!("the log never said `{wanted}`"));
            if line.to_string().contains(wanted) {
                return line;
            }
        }
    }

    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    }

    /// Waits for the end of the process.
    pub(crate) fn end(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It has ended, or the test fails anyway.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Posts an event on a connection of its own: the status, and the whole answer.
pub(crate) fn post(address: SocketAddr, token: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!(
        "POST /api/lineage HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nContent-Type: \
         application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap_or_default();
    let status = answer.get(9..12).and_then(|status| status.parse().ok()).unwrap_or(0);
    (status, answer)
}

/// An HTTP server that answers every request with the same bytes, after a pause.
pub(crate) struct Double {
    pub(crate) address: SocketAddr,
    requests: Arc<Requests>,
}

/// The request lines so far.
#[derive(Default)]
struct Requests {
    lines: Mutex<Vec<String>>,
    arrived: Condvar,
}

impl Double {
    pub(crate) fn start(pause: Duration, answer: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::<Requests>::default();
        let seen = Arc::clone(&requests);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (seen, answer) = (Arc::clone(&seen), answer.clone());
                thread::spawn(move || serve(stream, &seen, pause, &answer));
            }
        });
        Self { address, requests }
    }

    pub(crate) fn ok(body: &str) -> Self {
        Self::start(Duration::ZERO, format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()))
    }

    /// The request lines so far.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lines.lock().unwrap().clone()
    }

    /// Waits until so many requests have arrived.
    pub(crate) fn arrived(&self, count: usize) {
        let Requests { lines, arrived } = &*self.requests;
        let waited = arrived.wait_timeout_while(lines.lock().unwrap(), PATIENCE, |lines| lines.len() < count);
        let (lines, timeout) = waited.unwrap();
        assert!(!timeout.timed_out(), "{} of {count} requests came", lines.len());
    }
}

fn serve(stream: TcpStream, seen: &Requests, pause: Duration, answer: &str) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    loop {
        let mut head = Vec::new();
        let mut length = 0;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            if line == "\r\n" {
                break;
            }
            let line = line.to_ascii_lowercase();
            length = line.strip_prefix("content-length:").map_or(length, |value| value.trim().parse().unwrap());
            head.push(line.trim_end().to_owned());
        }
        let mut body = vec![0; length];
        if reader.read_exact(&mut body).is_err() {
            return;
        }
        seen.lines.lock().unwrap().extend(head.into_iter().next());
        seen.arrived.notify_all();
        wait(pause);
        if stream.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

/// The answer of a slow backend takes its time.
fn wait(pause: Duration) {
    let end = Instant::now() + pause;
    while let Some(left) = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
        thread::park_timeout(left);
    }
}
