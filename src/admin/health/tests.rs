use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use super::super::serve::{HEAD_TIMEOUT, MAX_CONNECTIONS, MAX_LIFE, MAX_PER_PEER};
use super::*;
use crate::config::Address;

struct Served {
    address: std::net::SocketAddr,
    readiness: Arc<Readiness>,
    shutdown: CancellationToken,
    task: JoinHandle<()>,
}

async fn serve_health() -> Served {
    let mut metrics = Metrics::new();
    let own = serve::Metrics::register(metrics.registry_mut());
    let readiness = Arc::new(Readiness::default());
    let described = vec![Described::new("circuit breaker of store".to_owned(), || "open")];
    let state = Arc::new(State { readiness: Arc::clone(&readiness), metrics: Arc::new(metrics), described });
    let config = config::Health { address: "127.0.0.1:0".parse().expect("an address") };
    let bound = bind(&config).await.expect("bound");
    let Address::Tcp(address) = *bound.address() else { panic!("a TCP address") };
    let shutdown = CancellationToken::new();
    let task = tokio::spawn(serve(bound, state, own, shutdown.clone()));
    Served { address, readiness, shutdown, task }
}

/// Status, head and body of the answer.
async fn ask(address: std::net::SocketAddr, method: &str, target: &str) -> (u16, String, String) {
    let mut stream = TcpStream::connect(address).await.expect("connected");
    let request = format!("{method} {target} HTTP/1.1\r\nHost: gate\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("answered");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    (status, head.to_ascii_lowercase(), body.to_owned())
}

async fn connect_from(from: &str, address: std::net::SocketAddr) -> TcpStream {
    let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
    socket.bind(from.parse().expect("an address")).expect("bound");
    socket.connect(address).await.expect("connected")
}

#[tokio::test]
async fn live_while_it_serves_and_ready_once_everything_was_there() {
    let served = serve_health().await;
    let keys = served.readiness.register("keys of https://idp");
    let policy = served.readiness.register("policy");
    let get = async |target| {
        let (status, _, body) = ask(served.address, "GET", target).await;
        (status, body)
    };
    assert_eq!(get("/livez").await, (200, "ok\n".to_owned()));
    assert_eq!(get("/readyz").await, (503, "keys of https://idp: missing\npolicy: missing\n".to_owned()));
    keys.ready();
    assert_eq!(get("/readyz").await, (503, "policy: missing\n".to_owned()));
    let all = "keys of https://idp: ready\npolicy: missing\ncircuit breaker of store: open\n";
    assert_eq!(get("/readyz?verbose").await, (503, all.to_owned()));
    policy.ready();
    assert_eq!(get("/readyz").await, (200, "ok\n".to_owned()));
    let all = "keys of https://idp: ready\npolicy: ready\ncircuit breaker of store: open\nok\n";
    assert_eq!(get("/readyz?verbose=1").await, (200, all.to_owned()));
    served.readiness.drain();
    assert_eq!(get("/readyz").await, (503, "draining\n".to_owned()));
    assert_eq!(get("/livez").await, (200, "ok\n".to_owned()));
}

#[tokio::test]
async fn metrics_are_openmetrics_text_and_nothing_else_is_told() {
    let served = serve_health().await;
    let (status, head, body) = ask(served.address, "GET", "/metrics").await;
    assert_eq!(status, 200);
    assert!(head.contains("content-type: application/openmetrics-text; version=1.0.0; charset=utf-8"), "{head}");
    assert!(body.contains("lineage_gate_admin_connections_total{listener=\"health\"} 1\n"), "{body}");
    assert!(body.ends_with("# EOF\n"), "{body}");
    for target in ["/", "/config", "/metrics/", "/livez/x", "/LIVEZ", "//livez"] {
        let (status, _, body) = ask(served.address, "GET", target).await;
        assert_eq!((status, body.as_str()), (404, "not found\n"), "{target}");
    }
    for target in ["/livez", "/readyz", "/metrics"] {
        let (status, head, _) = ask(served.address, "POST", target).await;
        assert_eq!(status, 405, "{target}");
        assert!(head.contains("\r\nallow: get, head"), "{head}");
        let (status, head, body) = ask(served.address, "HEAD", target).await;
        assert_eq!((status, body.as_str()), (200, ""), "{target}");
        assert!(head.contains("\r\ncontent-length: ") && head.contains("\r\ncache-control: no-store"), "{head}");
    }
}

#[tokio::test]
async fn one_address_cannot_take_all_connections() {
    let served = serve_health().await;
    let mut idle = Vec::new();
    for _ in 0..MAX_PER_PEER {
        idle.push(TcpStream::connect(served.address).await.expect("connected"));
    }
    let mut over = TcpStream::connect(served.address).await.expect("the kernel accepts");
    let closed = over.read(&mut [0]).await;
    assert!(matches!(closed, Ok(0) | Err(_)), "closed without an answer");
    let mut other = connect_from("127.0.0.2:0", served.address).await;
    other.write_all(b"GET /livez HTTP/1.0\r\n\r\n").await.expect("sent");
    let mut answer = String::new();
    other.read_to_string(&mut answer).await.expect("answered");
    assert!(answer.starts_with("HTTP/1.0 200 OK"), "{answer}");
    drop(idle);
}

#[tokio::test]
async fn over_the_bound_of_all_connections_a_further_one_waits_for_room() {
    let served = serve_health().await;
    let mut idle = Vec::new();
    for number in 0..MAX_CONNECTIONS {
        let from = format!("127.0.0.{}:0", 2 + number / MAX_PER_PEER);
        idle.push(connect_from(&from, served.address).await);
    }
    let mut waiting = TcpStream::connect(served.address).await.expect("the kernel accepts");
    waiting.write_all(b"GET /livez HTTP/1.0\r\n\r\n").await.expect("sent");
    let mut answer = String::new();
    let early = tokio::time::timeout(Duration::from_millis(100), waiting.read_to_string(&mut answer)).await;
    assert!(early.is_err(), "answered over the bound: {answer}");
    idle.pop();
    waiting.read_to_string(&mut answer).await.expect("answered");
    assert!(answer.starts_with("HTTP/1.0 200 OK"), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_its_answers_is_cut_off() {
    const ASKED: usize = 4_000;
    let served = serve_health().await;
    let mut stream = TcpStream::connect(served.address).await.expect("connected");
    let requests = "GET /metrics HTTP/1.1\r\nHost: gate\r\n\r\n".repeat(ASKED);
    stream.write_all(requests.as_bytes()).await.expect("sent");
    tokio::time::sleep(MAX_LIFE + Duration::from_secs(2)).await;
    let mut answers = Vec::new();
    // The rest of the requests was not read: the end may come as a reset.
    stream.read_to_end(&mut answers).await.ok();
    let answered = String::from_utf8_lossy(&answers).matches("# EOF").count();
    assert!((1..ASKED).contains(&answered), "{answered} answers of {} bytes", answers.len());
}

#[tokio::test(start_paused = true)]
async fn a_head_that_does_not_come_ends_the_connection() {
    let served = serve_health().await;
    for sent in ["", "GET /livez HT"] {
        let mut stream = TcpStream::connect(served.address).await.expect("connected");
        stream.write_all(sent.as_bytes()).await.expect("sent");
        let started = tokio::time::Instant::now();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.ok();
        let took = started.elapsed();
        assert!(took <= HEAD_TIMEOUT + Duration::from_secs(1), "{sent:?} took {took:?}");
        assert!(!answer.starts_with(b"HTTP/1.1 2"), "{sent:?}");
    }
}

#[tokio::test]
async fn a_huge_head_is_refused() {
    let served = serve_health().await;
    let (status, _, _) = ask(served.address, "GET", &format!("/{}", "x".repeat(60 << 10))).await;
    assert!((400..500).contains(&status), "{status}");
}

#[tokio::test]
async fn shutdown_closes_idle_connections_and_ends() {
    let served = serve_health().await;
    let mut idle = TcpStream::connect(served.address).await.expect("connected");
    idle.write_all(b"GET /livez HTTP/1.1\r\nHost: gate\r\n\r\n").await.expect("sent");
    let mut first = [0; 12];
    idle.read_exact(&mut first).await.expect("answered");
    served.shutdown.cancel();
    let mut rest = String::new();
    idle.read_to_string(&mut rest).await.expect("closed");
    served.task.await.expect("no panic");
    assert!(TcpStream::connect(served.address).await.is_err());
}
