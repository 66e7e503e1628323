//! One listener before a whole catalog.

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper::client::conn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::support::client;
use crate::support::events::run;
use crate::support::gate::{Gate, Setup};
use crate::support::upstream::{Script, Upstream};

const ANSWER: &str = "HTTP/1.1 418 Short And Stout\r\nContent-Type: text/html\r\nConnection: x-hop\r\nX-Hop: 1\r\n\
                      X-Kept: 1\r\nContent-Length: 5\r\n\r\n<tea>";

async fn before(catalog: &Upstream) -> Gate {
    let limits = "[{ name: caller, per: caller, rate: 1/h, burst: 4 }]";
    Setup::new().listener(&passthrough(&catalog.url(), "")).limits(limits).start().await
}

/// With more keys of `passthrough`.
fn passthrough(url: &str, more: &str) -> String {
    format!("passthrough: {{ paths: ['/api/**'], methods: [GET, HEAD, OPTIONS, POST], url: '{url}', {more} }}")
}

/// The head of a POST over HTTP/1.1, with more header lines, each ended by CR LF.
fn head(gate: &Gate, headers: &str) -> String {
    let token = gate.token("alice");
    format!("POST /api/metalakes HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n{headers}\r\n")
}

/// A request without a body.
fn ask(gate: &Gate, method: &str) -> Request<Full<Bytes>> {
    let mut request = gate.post("alice", "/api/metalakes").body(Full::default()).unwrap();
    *request.method_mut() = method.parse().unwrap();
    request
}

#[tokio::test]
async fn other_requests_pass_with_their_token_and_are_answered_as_they_are() {
    let catalog = Upstream::start(Script::Answer(ANSWER.into())).await;
    let gate = before(&catalog).await;
    let request =
        gate.post("alice", "/api/metalakes/demo?x=1").header("x-lineage-caller", "admin").header("x-own", "1");
    let request = request.header("connection", "authorization");
    let reply = gate.send(request.body("not judged".into()).unwrap()).await;
    assert_eq!((reply.status.as_u16(), reply.text()), (418, "<tea>"));
    assert_eq!((reply.header("x-kept"), reply.header("x-hop")), (Some("1"), None));
    let received = &catalog.received()[0];
    assert!(received.head.starts_with("POST /api/metalakes/demo?x=1 HTTP/1.1\r\n"), "{}", received.head);
    assert_eq!(received.body, b"not judged");
    assert_eq!(received.header("host"), Some(catalog.address.to_string()));
    assert!(received.header("authorization").is_some() && received.header("x-own").is_some());
    assert_eq!(received.header("x-lineage-caller"), None);
    let record = gate.audit_of(&reply).await;
    assert_eq!((&record["status"], &record["upstream"]), (&418.into(), &"passthrough".into()));
    assert_eq!((&record["method"], &record["path"]), (&"POST".into(), &"/api/metalakes/demo".into()));
    assert_eq!((&record["bytes"]["received"], record.get("dialect")), (&10.into(), None));
    gate.metric(r#"lineage_gate_body_bytes_count 0"#).await;
}

#[tokio::test]
async fn the_path_where_the_backend_takes_events_is_never_passed_on() {
    let backend = Upstream::start(Script::Answer(ANSWER.into())).await;
    for (kind, url, path) in [
        ("polaris", "", "/api/openlineage/v1/lineage"),
        ("datahub", "", "/openapi/openlineage/api/v1/lineage"),
        ("openlineage", "/custom/events", "/custom/events"),
    ] {
        let upstream = format!("{{ name: backend, kind: {kind}, url: \"{}{url}\" }}", backend.url());
        let listener = format!("passthrough: {{ paths: ['/**'], methods: [POST], url: '{}' }}", backend.url());
        let gate = Setup::new().upstream(&upstream).listener(&listener).start().await;
        for spelling in [path.to_owned(), format!("{path}/"), format!("{path}?x=1"), format!("{path}/batch")] {
            let reply = gate.event("mallory", &spelling, run(&["lake.hr.people"], &[])).await;
            assert_eq!(reply.status.as_u16(), 400, "{kind}: {spelling}");
        }
        assert_eq!(gate.event("alice", "/rest/of/it", "{}").await.status.as_u16(), 418);
        assert!(backend.received().iter().all(|request| request.head.starts_with("POST /rest/of/it")));
    }
}

#[tokio::test]
async fn nothing_passes_without_a_token_over_the_limit_or_off_the_list() {
    let catalog = Upstream::start(Script::Answer(ANSWER.into())).await;
    let gate = before(&catalog).await;
    let mut request = gate.post("alice", "/api/metalakes");
    request.headers_mut().unwrap().remove("authorization");
    let reply = gate.send(request.body(Default::default()).unwrap()).await;
    assert_eq!(reply.status.as_u16(), 401);
    assert_eq!(gate.audit_of(&reply).await["path"], "/api/metalakes");
    for (path, status) in [
        ("/metrics", 404),
        ("/api/Lineage", 400),
        ("/api/x/../lineage", 400),
        ("/api/%6cineage", 400),
        ("/api/lineage;x", 400),
        ("/api//lineage", 400),
        ("/api/..%2fmetrics", 400),
        ("/api/metalakes/a%zz", 400),
        ("/api/%u006cineage", 400),
        ("/api/metalakes/a%0d%0aX:%20y", 400),
        ("/api/metalakes/%c0%af", 400),
    ] {
        assert_eq!(gate.event("alice", path, "{}").await.status.as_u16(), status, "{path}");
    }
    assert!(catalog.received().is_empty());
    assert_eq!(gate.event("alice", "/api/lineage", run(&["nowhere.s.t"], &[])).await.status.as_u16(), 403);
    for expected in [418, 418, 418, 429] {
        assert_eq!(gate.event("alice", "/api/metalakes", "{}").await.status.as_u16(), expected);
    }
}

#[tokio::test]
async fn answers_stream_and_a_catalog_that_is_away_is_told_as_such() {
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n";
    let catalog = Upstream::start(Script::Answer(head.into())).await;
    let gate = before(&catalog).await;
    let io = TokioIo::new(client::tls(gate.address, &gate.ca(), b"http/1.1").await);
    let (mut sender, connection) = conn::http1::handshake(io).await.unwrap();
    tokio::spawn(connection);
    let request = gate.post("alice", "/api/metalakes").body(Full::<Bytes>::default()).unwrap();
    let mut response = sender.send_request(request).await.unwrap();
    let first = timeout(Duration::from_secs(60), response.body_mut().frame()).await;
    let first = first.expect("the first part comes before the last").unwrap().unwrap().into_data().unwrap();
    assert_eq!(&*first, b"first");
    drop((response, sender));
    let record = gate.audit(|record| record["client_gone"] == true).await;
    assert_eq!((&record["method"], &record["status"]), (&"POST".into(), &200.into()));
    catalog.script(Script::CloseAfterRequest);
    assert_eq!(gate.event("alice", "/api/metalakes", "{}").await.status.as_u16() / 100, 5);
}

#[tokio::test]
async fn what_may_have_reached_the_catalog_is_not_called_unreachable() {
    let catalog = Upstream::start(Script::Stall).await;
    let gate = Setup::new().listener(&passthrough(&catalog.url(), "timeout: 200ms")).start().await;
    for (script, word) in [(Script::Stall, "unknown_timeout"), (Script::CloseAfterRequest, "unknown_reset")] {
        let before = catalog.received().len();
        catalog.script(script);
        let reply = gate.event("alice", "/api/metalakes", "{}").await;
        assert_eq!(reply.status.as_u16(), 504, "{word}");
        assert!(reply.text().contains("not known") && !reply.text().contains("event"), "{}", reply.text());
        assert_eq!(reply.header("retry-after"), None);
        let record = gate.audit_of(&reply).await;
        assert_eq!((&record["outcome"], &record["status"]), (&word.into(), &504.into()));
        assert_eq!(catalog.received().len(), before + 1, "sent once");
    }
}

#[tokio::test]
async fn a_catalog_that_takes_no_connection_is_unreachable() {
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let gate = Setup::new().listener(&passthrough(&format!("http://{closed}"), "")).start().await;
    let reply = gate.event("alice", "/api/metalakes", "{}").await;
    assert_eq!((reply.status.as_u16(), reply.header("retry-after")), (503, Some("1")));
    assert!(!reply.text().contains("event"), "{}", reply.text());
    assert_eq!(gate.audit_of(&reply).await["outcome"], "unreachable_connect");
}

/// Answers the first request of each connection, and closes at the second.
async fn serve_once(mut stream: TcpStream) {
    for answer in [&b"HTTP/1.1 204 No Content\r\n\r\n"[..], b""] {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let Ok(byte) = stream.read_u8().await else { return };
            head.push(byte);
        }
        stream.write_all(answer).await.unwrap();
    }
}

#[tokio::test]
async fn a_question_on_a_connection_that_was_just_closed_is_asked_once_more() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve_once(stream));
        }
    });
    let gate = Setup::new().listener(&passthrough(&url, "")).start().await;
    for method in ["GET", "HEAD", "OPTIONS", "GET", "HEAD", "OPTIONS"] {
        assert_eq!(gate.send(ask(&gate, method)).await.status.as_u16(), 204, "{method}");
    }
    let catalog = Upstream::start(Script::CloseAfterRequest).await;
    let gate = Setup::new().listener(&passthrough(&catalog.url(), "")).start().await;
    for (method, sent) in [("GET", 2), ("POST", 3)] {
        assert_eq!(gate.send(ask(&gate, method)).await.status.as_u16(), 504, "{method}");
        assert_eq!(catalog.received().len(), sent, "{method}");
    }
}

#[tokio::test]
async fn a_body_that_the_client_breaks_off_is_its_own_fault() {
    let catalog = Upstream::start(Script::Stall).await;
    let gate = Setup::new().listener(&passthrough(&catalog.url(), "")).start().await;
    let mut stream = client::tls(gate.address, &gate.ca(), b"http/1.1").await;
    let half = head(&gate, "Transfer-Encoding: chunked\r\n") + "3\r\nabc\r\n";
    stream.write_all(half.as_bytes()).await.unwrap();
    catalog.arrived(1).await;
    drop(stream);
    let left = gate.audit(|record| record["client_gone"] == true).await;
    assert_eq!(left.get("outcome"), None);

    let answer = client::raw(gate.address, &gate.ca(), (half + "nonsense\r\n").as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    let broken = gate.audit(|record| record["request_id"] != left["request_id"]).await;
    assert_eq!((&broken["refusal"], broken.get("outcome")), (&"bad_body".into(), None));
}

#[tokio::test]
async fn a_body_has_its_own_time_and_the_answer_another() {
    let catalog = Upstream::start(Script::Stall).await;
    let listener = format!("body_timeout: 300ms\n{}", passthrough(&catalog.url(), "timeout: 1ms"));
    let gate = Setup::new().listener(&listener).start().await;
    let half = head(&gate, "Content-Length: 9\r\n") + "half";
    let answer = client::raw(gate.address, &gate.ca(), half.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 408 ") && answer.contains("onnection: close\r\n"), "{answer}");
    let record = gate.audit(|record| record["status"] == 408).await;
    assert_eq!((&record["refusal"], record.get("outcome")), (&"body_timeout".into(), None));
}

#[tokio::test]
async fn an_upload_that_goes_on_after_the_answer_began_is_bounded_too() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let early = tokio::spawn(async move {
        let mut stream = listener.accept().await.unwrap().0;
        let mut read = Vec::new();
        while !read.ends_with(b"half") {
            read.push(stream.read_u8().await.unwrap());
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n").await.unwrap();
        stream.read_to_end(&mut read).await.map(drop).unwrap_or_default();
    });
    let listener = format!("body_timeout: 2s\n{}", passthrough(&url, "timeout: 1h"));
    let gate = Setup::new().listener(&listener).start().await;
    let half = head(&gate, "Content-Length: 9\r\n") + "half";
    let answer =
        timeout(Duration::from_secs(60), client::raw(gate.address, &gate.ca(), half.as_bytes())).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("5\r\nfirst\r\n"), "{answer}");
    early.await.unwrap();
    let record = gate.audit(|record| record["refusal"] == "body_timeout").await;
    assert_eq!((&record["status"], &record["bytes"]["received"]), (&200.into(), &4.into()));
}

#[tokio::test]
async fn an_answer_without_a_body_is_whole() {
    let catalog = Upstream::start(Script::Answer("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n".into())).await;
    let gate = before(&catalog).await;
    let replies =
        [gate.send(ask(&gate, "HEAD")).await, client::http2(gate.address, &gate.ca(), ask(&gate, "HEAD")).await];
    for reply in replies {
        assert_eq!((reply.status.as_u16(), reply.header("content-length")), (200, Some("9")));
        assert_eq!(gate.audit_of(&reply).await["client_gone"], false);
    }
}

#[tokio::test]
async fn an_answer_that_the_catalog_breaks_off_is_told_in_the_audit() {
    let answer = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf";
    let catalog = Upstream::start(Script::Answer(answer.into())).await;
    let gate = Setup::new().listener(&passthrough(&catalog.url(), "timeout: 200ms")).start().await;
    let answer = client::raw(gate.address, &gate.ca(), head(&gate, "").as_bytes()).await;
    assert!(answer.ends_with("half"), "{answer}");
    let record = gate.audit(|record| record["status"] == 200).await;
    assert_eq!((&record["outcome"], &record["client_gone"]), (&"unknown_truncated_body".into(), &false.into()));
}

#[tokio::test]
async fn a_catalog_that_switches_protocols_unasked_is_misconfigured() {
    let answer = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
    let catalog = Upstream::start(Script::Answer(answer.into())).await;
    let gate = before(&catalog).await;
    let reply = gate.send(ask(&gate, "GET")).await;
    assert_eq!(reply.status.as_u16(), 501);
    assert_eq!(gate.audit_of(&reply).await["outcome"], "bad_gateway");
}
