//! The same event again, a run of another caller, and a backend that is not there: what the gate does about each.
//!
//! Times are a tenth of the real ones, by configuration: answers within 350 ms, resends after 100 ms.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::events::run;
use crate::support::gate::{Gate, Setup};
use crate::support::upstream::{Script, Upstream};

const CREATED: &str = "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n";
const PATH: &str = "/api/v1/lineage";

async fn before(upstream: &Upstream, more: &str) -> Gate {
    let url = upstream.url();
    let yaml = format!("{{ name: backend, kind: openlineage, url: \"{url}\", answer_within: 350ms{more} }}");
    Setup::new().upstream(&yaml).start().await
}

fn created() -> Script {
    Script::Answer(CREATED.into())
}

#[tokio::test]
async fn a_resend_gets_the_end_of_the_exchange_that_its_first_sending_began() {
    let upstream = Upstream::start(Script::Late(Duration::from_millis(600), CREATED.into())).await;
    let gate = before(&upstream, "").await;
    let event = run(&["lake.sales.orders"], &[]);
    let began = tokio::time::Instant::now();
    let first = gate.event("alice", PATH, event.clone()).await;
    assert_eq!((first.status.as_u16(), first.header("retry-after")), (503, Some("1")));
    assert!(first.text().contains("Outcome not known yet"), "{}", first.text());
    tokio::time::sleep_until(began + Duration::from_millis(500)).await;
    let second = gate.event("alice", PATH, event.clone()).await;
    assert_eq!(second.status.as_u16(), 201, "{}", second.text());
    let third = gate.event("alice", PATH, event).await;
    assert_eq!(third.status.as_u16(), 201);
    assert_eq!(upstream.received().len(), 1);

    let [first, second, third] =
        [gate.audit_of(&first).await, gate.audit_of(&second).await, gate.audit_of(&third).await];
    let seen = |record: &Value| json!([record["outcome"], record["status"], record["late"], record["duplicate"]]);
    assert_eq!(seen(&first), json!(["accepted", 503, true, null]));
    // Where the machine is slow the exchange may have ended before the resend came.
    let joined = [json!(["accepted", 201, false, "joined"]), json!(["accepted", 201, false, "remembered"])];
    assert!(joined.contains(&seen(&second)), "{second}");
    assert_eq!(seen(&third), json!(["accepted", 201, false, "remembered"]));
}

#[tokio::test]
async fn another_caller_another_event_and_what_was_not_delivered_are_sent() {
    let upstream = Upstream::start(created()).await;
    let gate = before(&upstream, ", run_binding: off").await;
    let event = run(&[], &[]);
    for (caller, event) in [("alice", event.clone()), ("bob", event.clone()), ("alice", run(&[], &[]))] {
        assert_eq!(gate.event(caller, PATH, event).await.status.as_u16(), 201);
    }
    assert_eq!(upstream.received().len(), 3);
    upstream.script(Script::Answer("HTTP/1.1 429 x\r\nContent-Length: 0\r\n\r\n".into()));
    let refused = run(&[], &[]);
    assert_eq!(gate.event("alice", PATH, refused.clone()).await.status.as_u16(), 429);
    upstream.script(created());
    assert_eq!(gate.event("alice", PATH, refused).await.status.as_u16(), 201);
    assert_eq!(gate.event("alice", PATH, event).await.status.as_u16(), 201);
    assert_eq!(upstream.received().len(), 5);
}

#[tokio::test]
async fn without_deduplication_each_request_is_sent_and_an_open_end_is_a_504() {
    let upstream = Upstream::start(Script::Late(Duration::from_millis(600), CREATED.into())).await;
    let gate = before(&upstream, ", deduplicate: 0s").await;
    let event = run(&[], &[]);
    for count in 1..=2 {
        let reply = gate.event("alice", PATH, event.clone()).await;
        assert_eq!((reply.status.as_u16(), reply.header("retry-after")), (504, None));
        upstream.arrived(count).await;
    }
    let record = gate.audit(|record| record["outcome"] == "accepted").await;
    assert_eq!((&record["status"], &record["late"]), (&json!(504), &json!(true)));
}

#[tokio::test]
async fn a_run_of_another_caller_is_refused_like_what_is_not_visible() {
    let upstream = Upstream::start(created()).await;
    let gate = before(&upstream, ", run_binding: enforce").await;
    let event = run(&[], &[]);
    assert_eq!(gate.event("alice", PATH, event.clone()).await.status.as_u16(), 201);
    let refused = gate.event("bob", PATH, event.clone()).await;
    let invisible = gate.event("bob", PATH, run(&["lake.sales.nothing"], &[])).await;
    assert_eq!((refused.status, refused.text()), (invisible.status, invisible.text()));
    assert_eq!(refused.status.as_u16(), 403);
    assert_eq!(refused.reason, invisible.reason);
    assert_eq!(upstream.received().len(), 1);
    let record = gate.audit_of(&refused).await;
    assert_eq!((&record["refusal"], &record["run_conflict"]), (&json!("not_visible"), &json!("other_caller")));

    let id = serde_json::from_str::<Value>(&event).unwrap()["run"]["runId"].clone();
    let mut child: Value = serde_json::from_str(&run(&[], &[])).unwrap();
    let job = json!({ "namespace": "demo", "name": "daily_orders" });
    let base = json!({ "_producer": "https://example.com", "_schemaURL": "https://example.com" });
    child["run"]["facets"] = json!({ "parent": { "run": { "runId": id }, "job": job } });
    child["run"]["facets"]["parent"].as_object_mut().unwrap().extend(base.as_object().unwrap().clone());
    let reply = gate.event("bob", PATH, child.to_string()).await;
    assert_eq!(reply.status.as_u16(), 201, "naming a run as the parent is not writing to it: {}", reply.text());
}

#[tokio::test]
async fn by_default_a_run_of_another_caller_is_only_reported() {
    let upstream = Upstream::start(created()).await;
    let gate = before(&upstream, "").await;
    let event = run(&[], &[]);
    assert_eq!(gate.event("alice", PATH, event.clone()).await.status.as_u16(), 201);
    let reply = gate.event("bob", PATH, event).await;
    assert_eq!(reply.status.as_u16(), 201);
    assert_eq!(gate.audit_of(&reply).await["run_conflict"], "other_caller");
    let (_, metrics) = gate.page("/metrics").await;
    let line = "lineage_gate_deliver_run_conflicts_total{conflict=\"other_caller\"} 1";
    assert!(metrics.contains(line), "{metrics}");
}

#[tokio::test]
async fn a_backend_that_is_not_there_opens_the_breaker_and_takes_no_gate_away() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = port.local_addr().unwrap();
    drop(port);
    let yaml = format!("{{ name: backend, kind: openlineage, url: \"http://{address}\" }}");
    let gate = Setup::new().upstream(&yaml).start().await;
    let (_, page) = gate.page("/readyz?verbose").await;
    assert!(page.contains("circuit breaker of backend: closed\n"), "{page}");
    for _ in 0..5 {
        assert_eq!(gate.event("alice", PATH, run(&[], &[])).await.status.as_u16(), 503);
    }
    let (status, page) = gate.page("/readyz?verbose").await;
    assert_eq!(status, 200, "trouble at the backend takes no gate away");
    assert!(page.contains("circuit breaker of backend: open\n"), "{page}");
    let reply = gate.event("alice", PATH, run(&[], &[])).await;
    assert_eq!((reply.status.as_u16(), reply.header("retry-after")), (503, Some("1")));
    assert_eq!(gate.audit_of(&reply).await["outcome"], "not_sent");
}

#[tokio::test]
async fn an_event_that_fails_again_while_another_passes_is_unprocessable() {
    let upstream = Upstream::start(created()).await;
    let gate = before(&upstream, "").await;
    let fault = Script::Answer("HTTP/1.1 500 x\r\nContent-Length: 0\r\n\r\n".into());
    let poison = run(&[], &[]);
    upstream.script(fault.clone());
    assert_eq!(gate.event("alice", PATH, poison.clone()).await.status.as_u16(), 503);
    upstream.script(created());
    assert_eq!(gate.event("bob", PATH, run(&[], &[])).await.status.as_u16(), 201);
    upstream.script(fault);
    for path in [PATH, "/api/lineage"] {
        let reply = gate.event("alice", path, poison.clone()).await;
        assert_eq!((reply.status.as_u16(), reply.header("retry-after")), (422, None), "{path}");
        assert!(reply.text().contains("while it takes others"), "{}", reply.text());
        upstream.script(created());
        assert_eq!(gate.event("bob", PATH, run(&[], &[])).await.status.as_u16(), 201);
        upstream.script(Script::Answer("HTTP/1.1 500 x\r\nContent-Length: 0\r\n\r\n".into()));
    }
}

#[tokio::test]
async fn whatever_waits_is_answered_within_the_budget() {
    let upstream = Upstream::start(Script::Stall).await;
    let gate = before(&upstream, ", concurrency: 1, queue: 4").await;
    let began = tokio::time::Instant::now();
    let sendings = (0..4).map(|_| gate.event("alice", PATH, run(&[], &[])));
    for reply in futures_in_order(sendings.collect()).await {
        assert_eq!(reply, (503, Some("1".to_owned())));
    }
    let took = began.elapsed();
    assert!(took < Duration::from_secs(4), "{took:?}");
    assert_eq!(upstream.received().len(), 1);
}

/// All of them side by side, as status and `Retry-After`.
async fn futures_in_order(
    sendings: Vec<impl Future<Output = crate::support::client::Reply>>,
) -> Vec<(u16, Option<String>)> {
    let mut sendings: Vec<_> = sendings.into_iter().map(Box::pin).collect();
    let mut replies: Vec<Option<(u16, Option<String>)>> = vec![None; sendings.len()];
    std::future::poll_fn(|cx| {
        for (sending, reply) in sendings.iter_mut().zip(&mut replies) {
            if reply.is_none()
                && let std::task::Poll::Ready(it) = sending.as_mut().poll(cx)
            {
                *reply = Some((it.status.as_u16(), it.header("retry-after").map(str::to_owned)));
            }
        }
        if replies.iter().all(Option::is_some) { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    replies.into_iter().flatten().collect()
}
