//! One listener before a whole catalog.

use std::time::Duration;

use http_body_util::BodyExt;
use hyper::client::conn;
use hyper_util::rt::TokioIo;

use crate::support::client;
use crate::support::events::run;
use crate::support::gate::{Gate, Setup};
use crate::support::upstream::{Script, Upstream};

const ANSWER: &str = "HTTP/1.1 418 Short And Stout\r\nContent-Type: text/html\r\nConnection: x-hop\r\nX-Hop: 1\r\n\
                      X-Kept: 1\r\nContent-Length: 5\r\n\r\n<tea>";

async fn before(catalog: &Upstream) -> Gate {
    let listener = format!("passthrough: {{ paths: ['/api/**'], methods: [GET, POST], url: '{}' }}", catalog.url());
    let limits = "[{ name: caller, per: caller, rate: 1/h, burst: 4 }]";
    Setup::new().listener(&listener).limits(limits).start().await
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
    assert_eq!(gate.send(request.body(Default::default()).unwrap()).await.status.as_u16(), 401);
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
    let request = gate.post("alice", "/api/metalakes").body(http_body_util::Full::<bytes::Bytes>::default()).unwrap();
    let mut response = sender.send_request(request).await.unwrap();
    let first = tokio::time::timeout(Duration::from_secs(60), response.body_mut().frame()).await;
    let first = first.expect("the first part comes before the last").unwrap().unwrap().into_data().unwrap();
    assert_eq!(&*first, b"first");
    catalog.script(Script::CloseAfterRequest);
    assert_eq!(gate.event("alice", "/api/metalakes", "{}").await.status.as_u16() / 100, 5);
}
