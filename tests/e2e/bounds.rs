//! Each bound of a request, reached.

use std::time::Duration;

use http_body_util::Full;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::client;
use crate::support::events::run;
use crate::support::gate::Setup;
use crate::support::upstream::{Script, Upstream};

const PATH: &str = "/api/lineage";

#[tokio::test]
async fn a_body_over_its_bound_is_a_413_that_names_the_bound() {
    let gate = Setup::new().event("{ max_body: 1KiB }").start().await;
    let large = run(&["lake.sales.orders"; 50], &[]);
    let reply = gate.event("alice", PATH, large).await;
    assert_eq!((reply.status.as_u16(), reply.header("retry-after")), (413, None));
    assert!(reply.text().contains("1KiB"), "{}", reply.text());
    gate.metric("lineage_gate_refusals_total{reason=\"too_large\"} 1").await;
}

#[tokio::test]
async fn a_gzip_bomb_is_a_413() {
    use std::io::Write;
    let gate = Setup::new().start().await;
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gzip.write_all(&vec![b' '; 8 << 20]).unwrap();
    let request = gate.post("alice", PATH).header("content-encoding", "gzip");
    let reply = gate.send(request.body(Full::from(gzip.finish().unwrap())).unwrap()).await;
    assert_eq!(reply.status.as_u16(), 413, "{}", reply.text());
}

#[tokio::test]
async fn a_body_that_does_not_come_is_a_408() {
    let gate = Setup::new().listener("body_timeout: 200ms").start().await;
    let head = format!(
        "POST {PATH} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
         Content-Length: 100\r\n\r\n{{",
        gate.token("alice")
    );
    let answer = client::raw(gate.address, &gate.ca(), head.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    assert!(answer.to_ascii_lowercase().contains("connection: close"), "{answer}");
    gate.metric("lineage_gate_refusals_total{reason=\"body_timeout\"} 1").await;
}

#[tokio::test]
async fn bodies_share_one_memory_and_one_that_finds_no_room_is_a_503_to_resend() {
    let upstream = Upstream::start(Script::Held("HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n".into())).await;
    let yaml = format!("{{ name: slow, kind: openlineage, url: \"{}\" }}", upstream.url());
    let event = "{ max_body: 64KiB, memory: 64KiB, memory_wait: 100ms }";
    let gate = Setup::new().upstream(&yaml).event(event).start().await;
    let padded = |kib: usize| format!("{}{}", run(&[], &[]), " ".repeat(kib << 10));
    let holding = gate.post("alice", PATH).body(Full::from(padded(40))).unwrap();
    let (address, ca) = (gate.address, gate.ca());
    let holder = tokio::spawn(async move { client::http1(address, &ca, holding).await.status.as_u16() });
    upstream.arrived(1).await;
    let reply = gate.event("bob", PATH, padded(40)).await;
    assert_eq!((reply.status.as_u16(), reply.header("retry-after")), (503, Some("1")));
    assert_eq!(gate.audit_of(&reply).await["refusal"], "memory_full");
    gate.metric("lineage_gate_refusals_total{reason=\"memory_full\"} 1").await;
    gate.metric("lineage_gate_event_memory_waits_total 1").await;
    upstream.release();
    assert_eq!(holder.await.unwrap(), 201);
    upstream.script(Script::Answer("HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n".into()));
    assert_eq!(gate.event("bob", PATH, padded(40)).await.status.as_u16(), 201, "the room is given back");
}

#[tokio::test]
async fn one_caller_cannot_take_all_memory_for_bodies() {
    let upstream = Upstream::start(Script::Held("HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n".into())).await;
    let yaml = format!("{{ name: slow, kind: openlineage, url: \"{}\" }}", upstream.url());
    let event = "{ max_body: 64KiB, memory: 128KiB, memory_wait: 100ms }";
    let gate = Setup::new().upstream(&yaml).event(event).start().await;
    let padded = || Full::from(format!("{}{}", run(&[], &[]), " ".repeat(40 << 10)));
    let mut held = Vec::new();
    for caller in ["alice", "bob"] {
        let (address, ca) = (gate.address, gate.ca());
        let request = gate.post(caller, PATH).body(padded()).unwrap();
        held.push(tokio::spawn(async move { client::http1(address, &ca, request).await.status.as_u16() }));
        upstream.arrived(held.len()).await;
        let second = gate.send(gate.post(caller, PATH).body(padded()).unwrap()).await;
        assert_eq!((second.status.as_u16(), second.header("retry-after")), (503, Some("1")), "{caller}");
    }
    upstream.release();
    for one in held {
        assert_eq!(one.await.unwrap(), 201);
    }
}

#[tokio::test]
async fn depth_and_references_have_bounds() {
    let gate = Setup::new().event("{ max_depth: 10, max_references: 5 }").start().await;
    let deep = format!("{{\"x\":{}{}}}", "[".repeat(20), "]".repeat(20));
    assert_eq!(gate.event("alice", PATH, deep).await.status.as_u16(), 400);
    let many = run(&["lake.sales.orders"; 9], &[]);
    assert_eq!(gate.event("alice", PATH, many).await.status.as_u16(), 413);
    assert_eq!(gate.event("alice", PATH, run(&["lake.sales.orders"; 3], &[])).await.status.as_u16(), 201);
}

#[tokio::test]
async fn connections_over_the_bound_wait_for_a_place() {
    let gate = Setup::new().listener("connections: 1").start().await;
    let first = client::tls(gate.address, &gate.ca(), b"http/1.1").await;
    let request = gate.post("alice", PATH).body(Full::from(run(&[], &[]))).unwrap();
    let (address, ca) = (gate.address, gate.ca());
    let mut waiting = tokio::spawn(async move { client::http1(address, &ca, request).await.status.as_u16() });
    let early = tokio::time::timeout(Duration::from_millis(300), &mut waiting).await;
    assert!(early.is_err(), "the second connection is not served while the first is open");
    drop(first);
    assert_eq!(waiting.await.unwrap(), 201);
}

#[tokio::test]
async fn a_silent_head_and_a_large_head_end_the_connection() {
    let gate = Setup::new().listener("http1: { head_timeout: 200ms, head_bytes: 8KiB }").start().await;
    let mut stream = client::tls(gate.address, &gate.ca(), b"http/1.1").await;
    stream.write_all(b"POST /api/lineage HT").await.unwrap();
    let mut told = Vec::new();
    let _ = stream.read_to_end(&mut told).await;
    assert!(told.starts_with(b"HTTP/1.1 408 "), "{}", String::from_utf8_lossy(&told));
    let label = format!("listener=\"{}\",kind=\"head\"", gate.address);
    gate.metric(&format!("lineage_gate_listen_timeouts_total{{{label}}} 1")).await;
    let head = format!("POST {PATH} HTTP/1.1\r\nHost: localhost\r\nX-Long: {}\r\n\r\n", "a".repeat(9 << 10));
    let answer = client::raw(gate.address, &gate.ca(), head.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
}
