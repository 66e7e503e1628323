//! Between the gate and the backend: what goes there, what comes back, and what happens when neither does.

use std::time::Duration;

use http_body_util::Full;
use serde_json::json;

use crate::support::client;
use crate::support::events::run;
use crate::support::gate::{Gate, Setup};
use crate::support::upstream::{Script, Upstream};

const CREATED: &str = "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n";

async fn before(upstream: &Upstream, kind: &str, more: &str) -> Gate {
    let yaml = format!("{{ name: backend, kind: {kind}, url: \"{}\"{more} }}", upstream.url());
    Setup::new().upstream(&yaml).start().await
}

fn answer(status: &str, headers: &str, body: &str) -> Script {
    Script::Answer(format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n{headers}\r\n{body}", body.len()))
}

#[tokio::test]
async fn the_backend_gets_the_same_bytes_and_nothing_else_of_the_request() {
    let upstream = Upstream::start(Script::Answer(CREATED.into())).await;
    let gate = before(&upstream, "gravitino", "").await;
    let event = format!(" {} \n", run(&["lake.sales.orders"], &[]));
    let request = gate
        .post("alice", "/api/lineage?tenant=a")
        .header("cookie", "a=b")
        .header("accept", "text/html")
        .header("x-lineage-caller", "admin")
        .header("x-gravitino-active-roles", "ALL");
    let reply = gate.send(request.body(Full::from(event.clone())).unwrap()).await;
    assert_eq!(reply.status.as_u16(), 201);
    let received = upstream.received().remove(0);
    assert_eq!(received.body, event.as_bytes());
    assert!(received.head.starts_with("POST /api/lineage HTTP/1.1\r\n"), "{}", received.head);
    let accept = received.header("accept");
    assert_eq!(accept.as_deref(), Some("application/vnd.gravitino.v1+json, application/json"));
    for absent in ["authorization", "cookie", "x-lineage-caller", "x-gravitino-active-roles", "transfer-encoding"] {
        assert_eq!(received.header(absent), None, "{absent}");
    }
    assert_eq!(received.header("x-request-id").as_deref(), reply.header("x-request-id"));
}

#[tokio::test]
async fn the_callers_token_goes_on_only_where_it_is_forwarded() {
    let upstream = Upstream::start(Script::Answer(CREATED.into())).await;
    let gate = before(&upstream, "gravitino", ", auth: forward").await;
    let reply = gate.event("alice", "/api/lineage", run(&[], &[])).await;
    assert_eq!(reply.status.as_u16(), 201);
    let sent = upstream.received().remove(0).header("authorization").unwrap();
    assert!(sent.starts_with("Bearer "), "{}", sent.len());
}

/// What a backend answers, and what the client is told of it: facts, backends 2.2 and 2.3.
#[tokio::test]
async fn answers_of_the_backend_are_translated_and_nothing_inside_it_leaks() {
    let upstream = Upstream::start(Script::Stall).await;
    let gate = before(&upstream, "openlineage", "").await;
    let html = "<html>Apache Tomcat at 10.0.0.1</html>";
    let page = "Content-Type: text/html\r\nServer: Secret/1.0\r\nSet-Cookie: a=b\r\n";
    let table = [
        (answer("200 OK", "", ""), 201, false),
        (answer("201 Created", "", ""), 201, false),
        (answer("202 Accepted", "", ""), 201, false),
        (answer("204 No Content", "", ""), 201, false),
        (answer("200 OK", page, html), 501, false),
        (answer("302 Found", "Location: http://10.0.0.1/\r\n", ""), 501, false),
        (answer("400 Bad Request", page, html), 400, false),
        (answer("401 Unauthorized", page, html), 501, false),
        (answer("403 Forbidden", page, html), 501, false),
        (answer("404 Not Found", page, html), 501, false),
        (answer("406 Not Acceptable", page, html), 501, false),
        (answer("413 Payload Too Large", page, html), 413, false),
        (answer("422 Unprocessable Entity", "Content-Type: application/json\r\n", "{\"errors\":[\"x\"]}"), 422, false),
        (answer("429 Too Many Requests", "Retry-After: 99\r\n", ""), 429, true),
        (answer("500 Internal Server Error", page, html), 503, true),
        (answer("503 Service Unavailable", "Retry-After: 99\r\n", html), 503, true),
        (Script::Dribble(Duration::from_millis(1), CREATED.into()), 201, false),
        (Script::CloseAfterRequest, 503, true),
        (Script::ResetAtOnce, 503, true),
    ];
    for (index, (script, status, resend)) in table.into_iter().enumerate() {
        upstream.script(script);
        let reply = gate.event("alice", "/api/v1/lineage", run(&["lake.sales.orders"], &[])).await;
        assert_eq!(reply.status.as_u16(), status, "row {index}: {}", reply.text());
        assert_eq!(reply.header("retry-after"), resend.then_some("1"), "row {index}");
        let all = format!("{:?} {:?} {}", reply.reason, reply.headers, reply.text());
        for inside in ["10.0.0.1", "Tomcat", "Secret", "set-cookie", "location", &upstream.address.to_string()] {
            assert!(!all.contains(inside), "row {index}: {all}");
        }
    }
}

#[tokio::test]
async fn a_backend_that_is_not_there_is_a_503_that_a_resend_cures() {
    // Bound and never listening: it refuses, and no other test can take the port.
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&std::net::SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    let url = format!("http://{}", socket.local_addr().unwrap().as_socket().unwrap());
    let gate = Setup::new().upstream(&format!("{{ name: b, kind: openlineage, url: \"{url}\" }}")).start().await;
    let reply = gate.event("alice", "/api/v1/lineage", run(&[], &[])).await;
    assert_eq!((reply.status.as_u16(), reply.header("retry-after")), (503, Some("1")));
}

#[tokio::test]
async fn a_silent_backend_costs_the_producer_less_than_its_patience() {
    let upstream = Upstream::start(Script::Stall).await;
    let gate = before(&upstream, "openlineage", ", connect_timeout: 100ms, timeout: 300ms").await;
    let reply = gate.event("alice", "/api/v1/lineage", run(&[], &[])).await;
    assert_eq!((reply.status.as_u16(), reply.header("retry-after")), (503, Some("1")));
    let record = gate.audit_of(&reply).await;
    assert_eq!(record["outcome"], "unknown_timeout");
}

#[tokio::test]
async fn a_client_that_leaves_does_not_cancel_its_event() {
    let upstream = Upstream::start(Script::Held(CREATED.into())).await;
    let gate = before(&upstream, "openlineage", "").await;
    {
        let request = gate.post("alice", "/api/v1/lineage").body(Full::from(run(&[], &[]))).unwrap();
        let (address, ca) = (gate.address, gate.ca());
        let client = tokio::spawn(async move { client::http1(address, &ca, request).await.status });
        upstream.arrived(1).await;
        client.abort();
        assert!(client.await.unwrap_err().is_cancelled());
    }
    let connections = || async {
        let (_, metrics) = gate.page("/metrics").await;
        metrics.lines().any(|line| line.starts_with("lineage_gate_listen_connections{") && line.ends_with(" 0"))
    };
    for _ in 0..1_000 {
        if connections().await {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    upstream.release();
    let record = gate.audit(|record| record["upstream"] == "backend").await;
    assert_eq!((&record["client_gone"], &record["outcome"]), (&json!(true), &json!("accepted")));
    assert_eq!(record.get("status"), None);
    assert_eq!(upstream.received().len(), 1);
}
