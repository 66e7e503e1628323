//! Batches over sockets.

use serde_json::json;

use super::*;
use crate::answer::NoEffect;

fn events() -> [Bytes; 2] {
    [Bytes::from_static(b"{\"a\":1.0}"), Bytes::from_static(b"{ }")]
}

/// Sends a batch to a backend that answers so, and tells what it saw.
async fn exchange(upstream: &Upstream, listener: &TcpListener, status: u16, body: &str) -> (String, BatchOutcome) {
    let backend = async {
        let mut stream = accept(listener).await;
        let seen = read_request(&mut stream).await.unwrap();
        answer(&mut stream, status, "Content-Type: application/json\r\nConnection: close\r\n", body).await;
        let line = seen.head.lines().next().unwrap().to_owned();
        format!("{line} {}", String::from_utf8(seen.body).unwrap())
    };
    let (delivery, events) = (delivery("{}"), events());
    tokio::join!(backend, upstream.send_batch(&delivery, &events))
}

#[tokio::test]
async fn a_batch_goes_to_its_own_path_in_its_own_form() {
    let rows = [
        ("openlineage", "/api/v1/lineage/batch", "[{\"a\":1.0},{ }]"),
        ("datahub", "/openapi/openlineage/api/v1/lineage/batch", "[{\"a\":1.0},{ }]"),
        ("polaris", "/api/openlineage/v1/lineage/batch", "[{\"a\":1.0},{ }]"),
        ("openmetadata", "/api/v1/openlineage/lineage/batch", "{\"events\":[{\"a\":1.0},{ }]}"),
    ];
    for (kind, path, body) in rows {
        let (listener, port) = listen().await;
        let upstream = upstream(kind, &format!("http://127.0.0.1:{port}"), json!({}));
        assert_eq!(upstream.batch_support().unwrap().path, path);
        let (seen, outcome) = exchange(&upstream, &listener, 503, "").await;
        assert_eq!(seen, format!("POST {path} HTTP/1.1 {body}"));
        assert_eq!(outcome, BatchOutcome::Whole(Outcome::Fault { status: 503 }), "{kind}");
    }
    for kind in ["gravitino", "marquez"] {
        let upstream = upstream(kind, "http://127.0.0.1:1", json!({}));
        assert_eq!(upstream.batch_support(), None);
        assert_eq!(upstream.send_batch(&delivery("{}"), &events()).await, BatchOutcome::Unsupported, "{kind}");
    }
}

#[tokio::test]
async fn a_backend_without_batches_is_asked_again_after_ten_minutes() {
    for status in [404, 501] {
        let (listener, port) = listen().await;
        let upstream = plain(port);
        let (_, outcome) = exchange(&upstream, &listener, status, "").await;
        assert_eq!(outcome, BatchOutcome::Unsupported);
        assert_eq!(upstream.batch_support(), None);
        assert_eq!(upstream.send_batch(&delivery("{}"), &events()).await, BatchOutcome::Unsupported);
        assert!(is_alone(&listener).await, "nothing was sent");
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(599)).await;
        assert_eq!(upstream.batch_support(), None);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(upstream.batch_support().is_some());
        tokio::time::resume();
    }
}

#[tokio::test]
async fn each_event_of_a_batch_gets_its_own_outcome_also_in_a_long_answer() {
    let (listener, port) = listen().await;
    let reason = "x".repeat(40_000);
    let body = json!({ "status": "partial_success", "summary": { "received": 2, "successful": 1, "failed": 1 },
        "failed_events": [{ "index": 0, "reason": reason, "retriable": true }], "more": "y".repeat(20_000) });
    let (_, outcome) = exchange(&plain(port), &listener, 200, &body.to_string()).await;
    let outcomes = vec![Outcome::Fault { status: 503 }, STORED];
    assert_eq!(outcome, BatchOutcome::Each { outcomes, edges: None });
}

#[tokio::test]
async fn a_refused_credential_of_the_caller_is_its_own_verdict_in_a_batch_too() {
    for (status, expected) in [(401, Outcome::CallerUnauthenticated), (403, Outcome::CallerForbidden)] {
        let (listener, port) = listen().await;
        let upstream = upstream("polaris", &format!("http://127.0.0.1:{port}"), json!({ "auth": "forward" }));
        let (_, outcome) = exchange(&upstream, &listener, status, "").await;
        assert_eq!(outcome, BatchOutcome::Whole(expected));
    }
}

#[tokio::test]
async fn an_event_that_makes_no_edge_anyway_was_filtered() {
    let body = r#"{"status":"success","lineageEdgesCreated":0}"#;
    for (draws_edges, why) in [(true, NoEffect::NoEdges), (false, NoEffect::Filtered)] {
        let (listener, port) = listen().await;
        let backend = async {
            let mut stream = accept(&listener).await;
            read_request(&mut stream).await.unwrap();
            answer(&mut stream, 200, "Content-Type: application/json\r\n", body).await;
        };
        let upstream = upstream("openmetadata", &format!("http://127.0.0.1:{port}"), json!({}));
        let delivery = Delivery { draws_edges, ..delivery("{}") };
        let ((), outcome) = tokio::join!(backend, upstream.send(&delivery));
        assert_eq!(outcome, Outcome::NoEffect(why));
    }
}
