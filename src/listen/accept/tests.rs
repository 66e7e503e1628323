use std::path::Path;
use std::process::{Command, Output, Stdio};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::JoinSet;
use tokio_rustls::client::TlsStream;

use super::*;
use crate::config::{Address, Span};
use crate::listen::testing::{Answer, Authority, Bench, Turnstile, answer};
use crate::listen::tls::tests::{both_versions, client, localhost};

/// A listener at work.
struct Running {
    bench: Bench,
    turnstile: Turnstile,
    address: Address,
    authority: Option<Authority>,
}

impl Running {
    fn plain(settings: &str) -> Self {
        Self::start(Bench::new(settings), None)
    }

    fn tls(settings: &str) -> Self {
        Self::start(Bench::new(settings), Some(Authority::new()))
    }

    fn start(bench: Bench, authority: Option<Authority>) -> Self {
        let bound = Bound::bind(&bench.listener.address).unwrap();
        let address = bound.address().clone();
        let turnstile = Turnstile::new();
        let waits = turnstile.clone();
        let certificates =
            authority.as_ref().map(|authority| Arc::new(Certificates::load(&authority.write_server(2100)).unwrap()));
        tokio::spawn(serve(
            bound,
            certificates,
            Arc::new(bench.listener.clone()),
            move |request, _| answer(request, waits.clone()),
            bench.drain.clone(),
            bench.metrics.clone(),
        ));
        Self { bench, turnstile, address, authority }
    }

    async fn connect(&self) -> TcpStream {
        let Address::Tcp(address) = self.address else { panic!("not TCP") };
        TcpStream::connect(address).await.unwrap()
    }

    async fn connect_tls(&self, alpn: &[u8]) -> TlsStream<TcpStream> {
        let client = client(self.authority.as_ref().unwrap(), &both_versions(), &[alpn], None);
        client.connect(localhost(), self.connect().await).await.unwrap()
    }

    async fn curl(&self, options: &[&str], path: &str) -> Output {
        let ca = self.authority.as_ref().unwrap().path("ca.crt");
        let mut command = Command::new("/usr/bin/curl");
        command
            .args(["--silent", "--show-error", "--max-time", "20", "--output", "/dev/null"])
            .args(["--write-out", "%{http_code} %{http_version}", "--cacert"])
            .arg(ca)
            .args(options)
            .arg(format!("https://{}{path}", self.address))
            .stdin(Stdio::null());
        tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap()
    }
}

const WAIT: &[u8] = b"POST /wait HTTP/1.1\r\nHost: gate\r\n\r\n";
const GET: &[u8] = b"GET /x HTTP/1.1\r\nHost: gate\r\n\r\n";

fn drain(grace: u64, deadline: u64) -> config::Drain {
    config::Drain { grace: Span::millis(grace), deadline: Span::millis(deadline) }
}

#[tokio::test]
async fn bad_requests_get_a_400_and_the_end_first_second_and_pipelined() {
    let running = Running::plain("");
    let bad: [&[u8]; 8] = [
        b"POST /x HTTP/1.1\r\nHost: gate\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /x HTTP/1.1\r\nHost: gate\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na",
        b"POST /x HTTP/1.1\r\nHost: gate\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"POST /x HTTP/1.1\r\nHost: gate\r\nX-A: b\r\n c\r\n\r\n",
        b"POST /x HTTP/1.1\nHost: gate\n\n",
        b"POST /x HTTP/1.1\r\nHost: gate\r\nX-A: \0\r\n\r\n",
        b"POST /x HTTP/1.1\r\n\r\n",
        b"POST /x HTTP/1.1\r\nHost: gate\r\nHost: gate\r\n\r\n",
    ];
    for bad in bad {
        for (good, pipelined) in [(0, false), (1, false), (1, true), (3, true)] {
            let mut io = running.connect().await;
            let mut sent = Vec::new();
            for _ in 0..good {
                sent.extend(GET);
                if !pipelined {
                    io.write_all(&sent).await.unwrap();
                    sent.clear();
                    assert_eq!(Answer::read(&mut io).await.unwrap().status, 200);
                }
            }
            sent.extend(bad);
            // What follows a broken rule is never looked at, and does not reset the connection under the answer.
            sent.extend(GET.repeat(1000));
            io.write_all(&sent).await.unwrap();
            for _ in 0..if pipelined { good } else { 0 } {
                assert_eq!(Answer::read(&mut io).await.unwrap().status, 200);
            }
            let refusal = Answer::read(&mut io).await.unwrap();
            assert_eq!((refusal.status, refusal.closes()), (400, true));
            assert_eq!(Answer::read(&mut io).await, None);
        }
    }
    assert_eq!(running.bench.count("listen_violations_total", "two_framings"), 4);
}

#[tokio::test]
async fn more_connections_than_allowed_wait_for_a_place() {
    let running = Running::plain(r#""connections": 2, "connections_per_peer": 2"#);
    let (mut first, _second) = (running.connect().await, running.connect().await);
    running.bench.until("listen_connections", "", 2).await;
    let mut third = running.connect().await;
    third.write_all(GET).await.unwrap();
    first.write_all(GET).await.unwrap();
    assert_eq!(Answer::read(&mut first).await.unwrap().status, 200);
    assert_eq!(running.bench.count("listen_accepted_total", ""), 2);
    drop(first);
    assert_eq!(Answer::read(&mut third).await.unwrap().status, 200);
    assert_eq!(running.bench.count("listen_accepted_total", ""), 3);
    assert!(running.bench.count("listen_connections_full_total", "") > 0);
}

#[tokio::test]
async fn one_address_cannot_take_all_connections() {
    let running = Running::plain(r#""connections": 4"#);
    let (mut first, mut second) = (running.connect().await, running.connect().await);
    running.bench.until("listen_connections", "", 2).await;
    let mut third = running.connect().await;
    assert_eq!(third.read(&mut [0]).await.unwrap_or(0), 0, "closed at once");
    assert_eq!(running.bench.count("listen_connections_refused_total", ""), 1);
    for kept in [&mut first, &mut second] {
        kept.write_all(GET).await.unwrap();
        assert_eq!(Answer::read(kept).await.unwrap().status, 200);
    }
    drop(first);
    running.bench.until("listen_connections", "", 1).await;
    let mut next = running.connect().await;
    next.write_all(GET).await.unwrap();
    assert_eq!(Answer::read(&mut next).await.unwrap().status, 200);
}

#[tokio::test]
async fn a_trusted_proxy_may_take_all_connections() {
    let running = Running::plain(r#""connections": 4, "trusted_proxies": ["127.0.0.0/8"]"#);
    let mut open = Vec::new();
    for _ in 0..4 {
        let mut io = running.connect().await;
        io.write_all(GET).await.unwrap();
        assert_eq!(Answer::read(&mut io).await.unwrap().status, 200);
        open.push(io);
    }
    assert_eq!(running.bench.count("listen_connections_refused_total", ""), 0);
}

#[tokio::test]
async fn a_handshake_has_its_time() {
    let running = Running::tls(r#""handshake_timeout": "20ms""#);
    let mut silent = running.connect().await;
    assert_eq!(silent.read(&mut [0; 8]).await.unwrap(), 0);
    running.bench.until("listen_timeouts_total", "handshake", 1).await;
    running.bench.until("listen_handshake_failures_total", "timeout", 1).await;
}

#[tokio::test]
async fn handshakes_that_fail_are_counted_by_reason() {
    let running = Running::tls("");
    drop(running.connect().await);
    running.bench.until("listen_handshake_failures_total", "closed", 1).await;
    running.connect().await.write_all(GET).await.unwrap();
    running.bench.until("listen_handshake_failures_total", "protocol", 1).await;
    let stranger = client(&Authority::new(), &both_versions(), &[], None);
    assert!(stranger.connect(localhost(), running.connect().await).await.is_err());
    running.bench.until("listen_handshake_failures_total", "alert", 1).await;
    let end = running.bench.count("listen_certificate_not_after", "");
    assert_eq!(end, 4_133_894_400, "2100-12-31");
}

#[tokio::test]
async fn a_unix_socket_is_served_too() {
    let dir = tempfile::tempdir().unwrap();
    let mut bench = Bench::new("");
    bench.listener.address = Address::Unix(dir.path().join("gate.sock"));
    let running = Running::start(bench, None);
    let mut io = UnixStream::connect(dir.path().join("gate.sock")).await.unwrap();
    io.write_all(GET).await.unwrap();
    assert_eq!(Answer::read(&mut io).await.unwrap().status, 200);
    drop(io);
    running.bench.drain.run(&drain(0, 20_000)).await;
    assert!(!dir.path().join("gate.sock").exists());
}

#[tokio::test]
async fn no_request_in_flight_is_lost_when_the_process_ends() {
    for alpn in [&b"http/1.1"[..], b"h2"] {
        let running = Running::tls("");
        let mut requests = JoinSet::new();
        for _ in 0..20 {
            let io = running.connect_tls(alpn).await;
            requests.spawn(async move { post_wait(io).await });
        }
        running.turnstile.came(20).await;
        let way_out = running.bench.drain.clone();
        let way_out = tokio::spawn(async move { way_out.run(&drain(0, 20_000)).await });
        running.bench.drain.closing().await;
        running.turnstile.open();
        assert_eq!(requests.join_all().await, vec![(200, true); 20]);
        assert_eq!(way_out.await.unwrap(), 0);
    }
}

/// Status, and whether the connection was told to close and did.
async fn post_wait(mut io: TlsStream<TcpStream>) -> (u16, bool) {
    if io.get_ref().1.alpn_protocol() == Some(b"http/1.1") {
        io.write_all(WAIT).await.unwrap();
        let answer = Answer::read(&mut io).await.unwrap();
        return (answer.status, answer.closes() && Answer::read(&mut io).await.is_none());
    }
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(io)).await.unwrap();
    let connection = tokio::spawn(connection);
    let request = Request::post("https://gate/wait").body(Full::new(Bytes::from_static(b"{}"))).unwrap();
    let response = sender.send_request(request).await.unwrap();
    let status = response.status().as_u16();
    response.into_body().collect().await.unwrap();
    let refused = sender.send_request(Request::post("https://gate/x").body(Full::default()).unwrap()).await.is_err();
    drop(sender);
    (status, refused && connection.await.unwrap().is_ok())
}

#[tokio::test]
async fn while_the_end_is_announced_connections_are_taken_and_told_to_close() {
    let running = Running::plain("");
    let mut idle = running.connect().await;
    running.bench.until("listen_connections", "", 1).await;
    let way_out = running.bench.drain.clone();
    let way_out = tokio::spawn(async move { way_out.run(&drain(300, 20_000)).await });
    running.bench.drain.announced().await;
    assert!(running.bench.drain.is_draining());

    let mut fresh = running.connect().await;
    fresh.write_all(GET).await.unwrap();
    let answer = Answer::read(&mut fresh).await.unwrap();
    assert_eq!((answer.status, answer.closes()), (200, true));
    assert_eq!(Answer::read(&mut fresh).await, None);

    let mut used = running.connect().await;
    idle.write_all(GET).await.unwrap();
    assert!(Answer::read(&mut idle).await.unwrap().closes());
    // An idle connection is left open until no new work may begin.
    assert_eq!(Answer::read(&mut used).await, None);
    running.bench.drain.closing().await;
    assert_eq!(way_out.await.unwrap(), 0);
    let Address::Tcp(address) = running.address else { panic!("not TCP") };
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn an_h2_connection_opened_while_the_end_is_announced_gets_its_request_through() {
    let running = Running::tls("");
    let way_out = running.bench.drain.clone();
    let way_out = tokio::spawn(async move { way_out.run(&drain(10_000, 20_000)).await });
    running.bench.drain.announced().await;
    running.turnstile.open();
    assert_eq!(post_wait(running.connect_tls(b"h2").await).await, (200, true));
    way_out.abort();
}

#[tokio::test]
async fn at_the_deadline_requests_are_given_up() {
    let running = Running::plain("");
    let mut io = running.connect().await;
    io.write_all(WAIT).await.unwrap();
    running.turnstile.came(1).await;
    assert_eq!(running.bench.drain.run(&drain(0, 20)).await, 1);
    assert_eq!(Answer::read(&mut io).await, None);
}

async fn curl_ten_times(running: &Running, version: &str, expect: &str, data: &str) {
    let expected = if version == "--http2" { "401 2" } else { "401 1.1" };
    let options = [version, "--data-binary", data, "--header", expect];
    for run in 0..10 {
        let out = running.curl(&options, "/early").await;
        let errors = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(out.status.success(), "{options:?} run {run}: {} {errors}", out.status);
        assert_eq!(String::from_utf8_lossy(&out.stdout), expected, "{options:?} run {run}");
    }
}

/// curl 7.88 reports a stream error, and no status, when a body is dropped with an early answer (facts: standards and
/// peers 4).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_early_answer_reaches_curl() {
    if !Path::new("/usr/bin/curl").exists() {
        println!("skipped: there is no /usr/bin/curl");
        return;
    }
    let running = Arc::new(Running::tls(""));
    let dir = &running.authority.as_ref().unwrap().dir;
    let mut runs = JoinSet::new();
    for size in [2 << 10, 2 << 20] {
        let file = dir.path().join(format!("body-{size}"));
        std::fs::write(&file, vec![b'x'; size]).unwrap();
        let data = format!("@{}", file.display());
        for version in ["--http1.1", "--http2"] {
            for expect in ["Expect:", "Expect: 100-continue"] {
                let (running, data) = (Arc::clone(&running), data.clone());
                runs.spawn(async move { curl_ten_times(&running, version, expect, &data).await });
            }
        }
    }
    while let Some(run) = runs.join_next().await {
        run.unwrap();
    }
}
