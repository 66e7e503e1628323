//! `lineage-gate run`: from a token that the binary made to the end by a signal.

use std::fs;
use std::thread;
use std::time::Duration;

use tokio::time::Instant;

use crate::support::{Double, Server, directory, event, post, serving, token};

const STORE: &str = "{ name: store, kind: file, path: events.jsonl }";
const CREATED: &str = "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n";

#[test]
fn a_token_of_the_binary_opens_a_gate_that_trusts_its_key_set() {
    let (directory, path) = directory(&serving(STORE, "{ grace: 0s, deadline: 5s }"));
    let token = token(directory.path());
    let mut server = Server::start(&path);
    assert_eq!(post(server.address, &token, &event(&["lake.sales.orders"], &[]).to_string()).0, 201);
    assert_eq!(post(server.address, &token, &event(&["lake.hr.people"], &[]).to_string()).0, 403);
    assert_eq!(post(server.address, "a.b.c", &event(&[], &[]).to_string()).0, 401);
    server.signal("TERM");
    assert_eq!(server.end().code(), Some(0));
}

#[test]
fn a_signal_loses_none_of_twenty_requests_in_flight() {
    for signal in ["TERM", "INT"] {
        let backend = Double::start(Duration::from_secs(1), CREATED.to_owned());
        let upstream = format!("{{ name: slow, kind: gravitino, url: 'http://{}' }}", backend.address);
        let (directory, path) = directory(&serving(&upstream, "{ grace: 100ms, deadline: 20s }"));
        let token = token(directory.path());
        let mut server = Server::start(&path);
        let clients: Vec<_> = (0..20)
            .map(|_| {
                let (address, token) = (server.address, token.clone());
                thread::spawn(move || post(address, &token, &event(&[], &[]).to_string()).0)
            })
            .collect();
        backend.arrived(20);
        server.signal(signal);
        let statuses: Vec<u16> = clients.into_iter().map(|client| client.join().unwrap()).collect();
        assert_eq!(statuses, [201; 20], "SIG{signal}");
        assert_eq!(server.end().code(), Some(0), "SIG{signal}");
        let audit = fs::read_to_string(directory.path().join("audit.jsonl")).unwrap();
        assert_eq!(audit.matches("\"outcome\":\"accepted_queued\"").count(), 20, "every record is written");
    }
}

#[test]
fn a_second_signal_ends_at_once() {
    let backend = Double::start(Duration::from_secs(3_600), CREATED.to_owned());
    let upstream = format!("{{ name: silent, kind: gravitino, url: 'http://{}' }}", backend.address);
    let (directory, path) = directory(&serving(&upstream, "{ grace: 50s, deadline: 60s }"));
    let token = token(directory.path());
    let mut server = Server::start(&path);
    let (address, body) = (server.address, event(&[], &[]).to_string());
    let client = thread::spawn(move || post(address, &token, &body));
    backend.arrived(1);
    server.signal("TERM");
    server.logged("another signal ends at once");
    let start = Instant::now();
    server.signal("INT");
    assert_eq!(server.end().code(), Some(1));
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    client.join().unwrap();
}

/// A client that never ends its request must not make an orderly end look like a failure.
#[test]
fn a_connection_that_is_cut_off_at_the_deadline_is_logged_and_the_end_is_good() {
    use std::io::Write;
    let (directory, path) = directory(&serving(STORE, "{ grace: 0s, deadline: 300ms }"));
    let token = token(directory.path());
    let mut server = Server::start(&path);
    let mut slow = std::net::TcpStream::connect(server.address).unwrap();
    let head = format!(
        "POST /api/lineage HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nContent-Length: 99\r\n\r\n{{"
    );
    slow.write_all(head.as_bytes()).unwrap();
    assert_eq!(post(server.address, &token, &event(&[], &[]).to_string()).0, 201);
    server.signal("TERM");
    server.logged("connections were cut off");
    assert_eq!(server.end().code(), Some(0));
}

#[test]
fn accepted_events_survive_a_crash_and_a_torn_last_line_is_repaired() {
    let (directory, path) = directory(&serving(STORE, "{ grace: 0s, deadline: 5s }"));
    let token = token(directory.path());
    let store = directory.path().join("events.jsonl");
    let sent: Vec<_> = (0..3).map(|_| event(&["lake.sales.orders"], &[])).collect();

    let mut server = Server::start(&path);
    for event in &sent[..2] {
        assert_eq!(post(server.address, &token, &event.to_string()).0, 201);
    }
    server.signal("KILL");
    server.end();
    let kept = fs::read_to_string(&store).unwrap();
    assert_eq!(kept.lines().count(), 2);
    fs::write(&store, format!("{kept}{{\"eventTime\":\"2026-11-2")).unwrap();

    let server = Server::start(&path);
    assert_eq!(post(server.address, &token, &sent[2].to_string()).0, 201);
    let text = fs::read_to_string(&store).unwrap();
    let stored: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(stored, sent);
}
