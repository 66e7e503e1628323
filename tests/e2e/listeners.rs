//! The ways in: TLS with and without client certificates, plain HTTP, a Unix socket, behind a proxy; old and slow clients.

use std::fs;
use std::path::Path;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};

use crate::support::client;
use crate::support::events::run;
use crate::support::gate::Setup;

const CLOSE: &str = "Connection: close\r\n";

/// `client.crt` and `client.key` in `folder`, and the CA that signed them in `ca`.
fn make_client(folder: &Path, ca: &Path, name: &str) {
    let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let issuer = rcgen::CertifiedIssuer::self_signed(params, rcgen::KeyPair::generate().unwrap()).unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let mut leaf = rcgen::CertificateParams::new(Vec::new()).unwrap();
    leaf.distinguished_name = rcgen::DistinguishedName::new();
    leaf.distinguished_name.push(rcgen::DnType::CommonName, name);
    leaf.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
    let leaf = leaf.signed_by(&key, &issuer).unwrap();
    fs::write(ca, issuer.pem()).unwrap();
    fs::write(folder.join("client.crt"), leaf.pem()).unwrap();
    fs::write(folder.join("client.key"), key.serialize_pem()).unwrap();
}

#[tokio::test]
async fn with_a_client_ca_only_its_certificates_come_in_and_a_token_is_still_needed() {
    let setup = Setup::new()
        .plain("127.0.0.1:0\n    name: main\n    tls: { certificate: tls.crt, key: tls.key, client_ca: clients.pem }");
    let stranger = tempfile::tempdir().unwrap();
    make_client(setup.dir.path(), &setup.path("clients.pem"), "spark");
    make_client(stranger.path(), &stranger.path().join("other.pem"), "spark");
    let gate = setup.start().await;
    let (address, ca) = (gate.address, gate.ca());
    let request = gate.raw("alice", CLOSE, &run(&[], &[]));

    let known = client::try_tls(address, &ca, b"http/1.1", Some(gate.dir.path())).await.unwrap();
    let answer = client::exchange(known, request.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
    let record = gate.audit(|record| record["status"] == 201).await;
    assert_eq!(record["certificate"], "CN=spark");

    for shown in [None, Some(stranger.path())] {
        // In TLS 1.3 the client learns of the refusal by its first read.
        if let Ok(stream) = client::try_tls(address, &ca, b"http/1.1", shown).await {
            assert_eq!(client::exchange(stream, request.as_bytes()).await, "");
        }
    }
    let known = client::try_tls(address, &ca, b"http/1.1", Some(gate.dir.path())).await.unwrap();
    let no_token = "POST /api/lineage HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    assert!(client::exchange(known, no_token.as_bytes()).await.starts_with("HTTP/1.1 401 "));
    gate.metric("lineage_gate_listen_handshake_failures_total{listener=\"main\",kind=\"client_certificate\"} 2").await;
}

#[tokio::test]
async fn a_unix_socket_and_plain_loopback_serve_without_tls() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("gate.sock");
    let gate = Setup::new().plain(&format!("unix:{}", socket.display())).start().await;
    let stream = UnixStream::connect(&socket).await.unwrap();
    let answer = client::exchange(stream, gate.raw("alice", CLOSE, &run(&[], &[])).as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
    assert_eq!(gate.audit(|record| record["status"] == 201).await["peer"], "unix");
    gate.app.end().await;
    assert!(!socket.exists(), "the socket goes with its listener");

    let gate = Setup::new().plain("127.0.0.1:0").start().await;
    let stream = TcpStream::connect(gate.address).await.unwrap();
    let answer = client::exchange(stream, gate.raw("alice", CLOSE, &run(&[], &[])).as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
    // A TLS hello, and HTTP/2 without TLS, are no HTTP/1.1.
    for hello in [&b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00"[..], b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"] {
        let answer = client::exchange(TcpStream::connect(gate.address).await.unwrap(), hello).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    }
}

#[tokio::test]
async fn behind_a_trusted_proxy_audit_and_limits_see_the_client_and_from_others_the_header_is_no_word() {
    let limits = "[{ name: peer, per: peer, rate: 1/h, burst: 1 }]";
    let forwarded = |address: &str| format!("X-Forwarded-For: 198.51.100.1, {address}\r\n{CLOSE}");
    for (trusted, expected) in [("127.0.0.0/8", [201, 201, 429]), ("10.0.0.0/8", [201, 429, 429])] {
        let gate = Setup::new().listener(&format!("trusted_proxies: [{trusted}]")).limits(limits).start().await;
        let mut statuses = Vec::new();
        for address in ["203.0.113.1", "203.0.113.2", "203.0.113.1"] {
            let request = gate.raw("alice", &forwarded(address), &run(&[], &[]));
            let answer = client::raw(gate.address, &gate.ca(), request.as_bytes()).await;
            statuses.push(answer[9..12].parse::<u16>().unwrap());
        }
        assert_eq!(statuses, expected, "{trusted}");
        let record = gate.audit(|record| record["status"] == 201).await;
        assert_eq!(record["peer"], if trusted == "127.0.0.0/8" { "203.0.113.1" } else { "127.0.0.1" });
    }
}

#[tokio::test]
async fn http_1_0_is_answered_and_closed() {
    let gate = Setup::new().start().await;
    let request = gate.raw("alice", "", &run(&[], &[])).replacen("HTTP/1.1", "HTTP/1.0", 1);
    let answer = client::raw(gate.address, &gate.ca(), request.as_bytes()).await;
    assert!(answer.split_once(' ').unwrap().1.starts_with("201 "), "{answer}");
}

#[tokio::test]
async fn expect_100_continue_is_asked_for_only_once_the_token_is_good() {
    let gate = Setup::new().start().await;
    let event = run(&["lake.sales.orders"], &[]);
    let request = gate.raw("alice", &format!("Expect: 100-continue\r\n{CLOSE}"), "");
    let head = request.replace("Content-Length: 0", &format!("Content-Length: {}", event.len()));
    let mut stream = client::tls(gate.address, &gate.ca(), b"http/1.1").await;
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut told = [0; 25];
    stream.read_exact(&mut told).await.unwrap();
    assert_eq!(&told, b"HTTP/1.1 100 Continue\r\n\r\n");
    let answer = client::exchange(stream, event.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");

    let forged = head.replace("Bearer ", "Bearer x");
    let answer = client::raw(gate.address, &gate.ca(), forged.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
}

#[tokio::test]
async fn a_body_that_dribbles_within_its_time_is_taken() {
    let gate = Setup::new().start().await;
    let event = run(&["lake.sales.orders"], &["lake.sales.daily"]);
    let request = gate.raw("alice", CLOSE, &event);
    let (head, body) = request.split_at(request.len() - event.len());
    let mut stream = client::tls(gate.address, &gate.ca(), b"http/1.1").await;
    stream.write_all(head.as_bytes()).await.unwrap();
    for piece in body.as_bytes().chunks(7) {
        stream.write_all(piece).await.unwrap();
        stream.flush().await.unwrap();
        tokio::task::yield_now().await;
    }
    let answer = client::exchange(stream, b"").await;
    assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
    assert_eq!(gate.accepted(), [serde_json::from_str::<serde_json::Value>(&event).unwrap()]);
}

#[tokio::test]
async fn a_client_that_leaves_within_its_body_is_recorded() {
    let gate = Setup::new().start().await;
    let request = gate.raw("alice", "", &run(&[], &[]));
    let mut stream = client::tls(gate.address, &gate.ca(), b"http/1.1").await;
    stream.write_all(&request.as_bytes()[..request.len() - 9]).await.unwrap();
    stream.flush().await.unwrap();
    drop(stream);
    let record = gate.audit(|record| record["client_gone"] == true).await;
    assert_eq!(record["caller"]["subject"], "alice");
    assert!(gate.accepted().is_empty());
}
