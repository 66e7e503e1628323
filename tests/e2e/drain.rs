//! The way out: nothing that is in flight is lost.

use std::time::Duration;

use http_body_util::Full;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::client;
use crate::support::events::run;
use crate::support::gate::Setup;
use crate::support::upstream::{Script, Upstream};

const CREATED: &str = "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n";

#[tokio::test]
async fn twenty_requests_in_flight_are_all_answered_over_both_protocols() {
    let upstream = Upstream::start(Script::Late(Duration::from_secs(1), CREATED.into())).await;
    let yaml = format!("{{ name: slow, kind: openlineage, url: \"{}\" }}", upstream.url());
    let gate = Setup::new().upstream(&yaml).start().await;
    let clients: Vec<_> = (0..20)
        .map(|number| {
            let mut request = gate.post("alice", "/api/v1/lineage").body(Full::from(run(&[], &[]))).unwrap();
            let (address, ca) = (gate.address, gate.ca());
            tokio::spawn(async move {
                if number % 2 == 0 {
                    return client::http1(address, &ca, request).await.status.as_u16();
                }
                request.headers_mut().remove("host");
                client::http2(address, &ca, request).await.status.as_u16()
            })
        })
        .collect();
    upstream.arrived(20).await;
    let ended = tokio::spawn(gate.app.end());
    for client in clients {
        assert_eq!(client.await.unwrap(), 201);
    }
    assert_eq!(ended.await.unwrap(), 0, "no connection had to be cut off");
    assert_eq!(upstream.received().len(), 20);
}

#[tokio::test]
async fn while_it_ends_the_gate_is_not_ready_still_accepts_and_tells_clients_to_close() {
    let gate = Setup::new().drain("{ grace: 2s, deadline: 10s }").start().await;
    assert_eq!(gate.page("/readyz").await.0, 200);
    let mut kept = client::tls(gate.address, &gate.ca(), b"http/1.1").await;
    let (address, health, ca) = (gate.address, gate.health(), gate.ca());
    let post = |body: &str| {
        format!(
            "POST /api/lineage HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nContent-Type: \
             application/json\r\nContent-Length: {}\r\n\r\n{body}",
            gate.token("alice"),
            body.len()
        )
    };
    let (first, second) = (post(&run(&[], &[])), post(&run(&[], &[])));
    let fresh = gate.post("alice", "/api/lineage").body(Full::from(run(&[], &[]))).unwrap();

    kept.write_all(first.as_bytes()).await.unwrap();
    assert!(!answer(&mut kept).await.to_ascii_lowercase().contains("connection: close"));
    let readiness = std::sync::Arc::clone(gate.app.readiness());
    let ended = tokio::spawn(gate.app.end());
    while !readiness.report().draining {
        tokio::task::yield_now().await;
    }
    assert_eq!(crate::support::gate::get(health, "/readyz", &[]).await.0, 503);
    kept.write_all(second.as_bytes()).await.unwrap();
    let told = answer(&mut kept).await.to_ascii_lowercase();
    assert!(told.starts_with("http/1.1 201") && told.contains("connection: close"), "{told}");
    let reply = client::http1(address, &ca, fresh).await;
    assert_eq!((reply.status.as_u16(), reply.header("connection")), (201, Some("close")));
    ended.await.unwrap();
    assert!(tokio::net::TcpStream::connect(address).await.is_err(), "after the grace nobody listens");
}

async fn answer(stream: &mut (impl AsyncReadExt + Unpin)) -> String {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).await.unwrap();
        bytes.push(byte[0]);
    }
    String::from_utf8(bytes).unwrap()
}
