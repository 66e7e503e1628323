//! Rate limits, as callers meet them.

use http_body_util::Full;
use serde_json::json;

use crate::support::client;
use crate::support::events::{run, run_in};
use crate::support::gate::{Gate, Setup, claims};
use crate::support::upstream::{Script, Upstream};

const PATH: &str = "/api/lineage";

async fn statuses(gate: &Gate, caller: &str, path: &str, events: &[String]) -> Vec<u16> {
    let mut statuses = Vec::new();
    for event in events {
        statuses.push(gate.event(caller, path, event.clone()).await.status.as_u16());
    }
    statuses
}

fn three(dataset: &str) -> [String; 3] {
    [run(&[dataset], &[]), run(&[dataset], &[]), run(&[dataset], &[])]
}

#[tokio::test]
async fn a_caller_over_its_limit_is_told_to_come_back_in_a_second_and_others_are_not_touched() {
    let gate = Setup::new().limits("[{ name: caller, per: caller, rate: 1/h, burst: 2 }]").start().await;
    assert_eq!(statuses(&gate, "alice", PATH, &three("lake.sales.orders")).await, [201, 201, 429]);
    let reply = gate.event("alice", PATH, run(&[], &[])).await;
    assert_eq!(reply.header("retry-after"), Some("1"));
    assert!(reply.text().contains("caller"), "{}", reply.text());
    assert_eq!(reply.header("ratelimit-policy"), Some("\"caller\";q=2;w=7200"));
    assert_eq!(reply.header("ratelimit"), Some("\"caller\";r=0"));
    assert_eq!(gate.event("bob", PATH, run(&[], &[])).await.status.as_u16(), 201);
    let record = gate.audit_of(&reply).await;
    assert_eq!(record["refusal"], "rate_limited");
}

#[tokio::test]
async fn every_authenticated_answer_says_how_the_caller_stands_and_no_other_does() {
    let gate = Setup::new().limits("[{ name: caller, per: caller, rate: 1/h, burst: 9 }]").start().await;
    let accepted = gate.event("alice", PATH, run(&[], &[])).await;
    let refused = gate.event("alice", PATH, "{").await;
    assert!(accepted.header("ratelimit").unwrap().starts_with("\"caller\";r=8"));
    assert!(refused.header("ratelimit").unwrap().starts_with("\"caller\";r=7"));
    let mut request = gate.post("alice", PATH);
    request.headers_mut().unwrap().remove("authorization");
    let stranger = gate.send(request.body(Default::default()).unwrap()).await;
    assert_eq!((stranger.status.as_u16(), stranger.header("ratelimit")), (401, None));
}

#[tokio::test]
async fn overrides_give_users_and_groups_other_rates() {
    let limits = "[{ name: caller, per: caller, rate: 1/h, burst: 1, \
                  overrides: { users: { alice: { rate: 1/h, burst: 2 } } } }]";
    let gate = Setup::new().limits(limits).start().await;
    assert_eq!(statuses(&gate, "alice", PATH, &three("lake.sales.orders")).await, [201, 201, 429]);
    assert_eq!(statuses(&gate, "bob", PATH, &[run(&[], &[]), run(&[], &[])]).await, [201, 429]);
}

#[tokio::test]
async fn a_peer_limit_comes_before_the_token() {
    let gate = Setup::new().limits("[{ name: peer, per: peer, rate: 1/h, burst: 1 }]").start().await;
    for expected in [401, 429] {
        let mut request = gate.post("alice", PATH);
        request.headers_mut().unwrap().remove("authorization");
        let reply = gate.send(request.body(Default::default()).unwrap()).await;
        assert_eq!(reply.status.as_u16(), expected);
        assert_eq!(reply.header("ratelimit"), None);
    }
}

#[tokio::test]
async fn bytes_and_events_are_charged_after_the_scan() {
    let limits = "[{ name: events, per: caller, unit: events, rate: 1/h, burst: 1 }]";
    let gate = Setup::new().limits(limits).start().await;
    let events = ["{".to_owned(), run(&[], &[]), run(&[], &[])];
    assert_eq!(statuses(&gate, "alice", PATH, &events).await, [400, 201, 429]);

    let limits = "[{ name: bytes, per: caller, unit: bytes, rate: 1KiB/h, burst: 1KiB }]";
    let gate = Setup::new().limits(limits).start().await;
    let large = run(&["lake.sales.orders"; 30], &[]);
    let statuses = statuses(&gate, "alice", PATH, &[run(&[], &[]), large]).await;
    assert_eq!(statuses, [201, 413], "no waiting helps an event that is over the whole burst");
}

#[tokio::test]
async fn a_metalake_limit_is_named_to_members_only_and_counts_what_is_allowed_only() {
    let limits = "[{ name: lake, per: metalake, rate: 1/h, burst: 1 }]";
    let gate = Setup::new().limits(limits).start().await;
    let stranger = gate.event("mallory", PATH, run(&[], &[])).await;
    assert_eq!((stranger.status.as_u16(), stranger.header("ratelimit-policy")), (403, None));
    let member = gate.event("alice", PATH, run(&[], &[])).await;
    assert_eq!(member.status.as_u16(), 201);
    assert!(member.header("ratelimit-policy").unwrap().starts_with("\"lake\";q=1"));
    assert_eq!(gate.event("bob", PATH, run(&[], &[])).await.status.as_u16(), 429);
}

#[tokio::test]
async fn a_namespace_limit_counts_each_namespace_apart() {
    let limits = "[{ name: space, per: namespace, rate: 1/h, burst: 1 }]";
    let gate = Setup::new().limits(limits).start().await;
    let event = |namespace: &str| {
        let mut event = run_in(namespace, &[], &[]);
        event["inputs"] =
            serde_json::json!([{ "namespace": "postgres://warehouse:5432", "name": "shop.public.orders" }]);
        event.to_string()
    };
    let events = [event("orders-prod"), event("orders-test"), event("orders-prod")];
    assert_eq!(statuses(&gate, "airflow", "/api/v1/lineage", &events).await, [201, 201, 429]);
}

/// Each row is refused at a later stage; the fields stand on all of them, `Retry-After` on those that a resend cures.
#[tokio::test]
async fn every_answer_to_a_known_caller_says_how_it_stands_whatever_the_status() {
    let upstream = Upstream::start(Script::Answer("HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n".into())).await;
    let yaml = format!("{{ name: backend, kind: gravitino, url: \"{}\" }}", upstream.url());
    let limits = "[{ name: requests, per: caller, rate: 1/h, burst: 99 }, \
                  { name: bytes, per: caller, unit: bytes, rate: 1KiB/h, burst: 6KiB }, \
                  { name: lake, per: metalake, unit: bytes, rate: 1KiB/h, burst: 2KiB }]";
    let gate = Setup::new()
        .upstream(&yaml)
        .limits(limits)
        .event("{ max_body: 8KiB, memory: 8KiB, memory_wait: 10ms }")
        .listener("body_timeout: 200ms")
        .start()
        .await;
    let of = |kib: usize| format!("{}{}", run(&[], &[]), " ".repeat(kib << 10));
    let answer = |status: &str| Script::Answer(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n"));
    let as_json = ("content-type", "application/json");
    let rows = [
        ("malformed roles", ("x-gravitino-active-roles", "a,,b"), run(&[], &[]), "201 Created", 400),
        ("media type", ("content-type", "text/plain"), run(&[], &[]), "201 Created", 415),
        ("content coding", ("content-encoding", "br"), run(&[], &[]), "201 Created", 415),
        ("no JSON", as_json, "{".into(), "201 Created", 400),
        ("too large", as_json, of(9), "201 Created", 413),
        ("over the caller's burst", as_json, of(6), "201 Created", 413),
        ("over the metalake's burst", as_json, of(2), "201 Created", 413),
        ("hidden", as_json, run(&["lake.hr.people"], &[]), "201 Created", 403),
        ("backend misconfigured", as_json, run(&[], &[]), "404 Not Found", 501),
        ("backend failed", as_json, run(&[], &[]), "500 Oops", 503),
        ("accepted", as_json, run(&[], &[]), "201 Created", 201),
        ("metalake used up", as_json, of(1), "201 Created", 429),
    ];
    for (what, (name, value), body, backend, status) in rows {
        upstream.script(answer(backend));
        let mut request = gate.post("alice", PATH);
        request.headers_mut().unwrap().insert(http::HeaderName::from_static(name), value.parse().unwrap());
        let reply = gate.send(request.body(Full::from(body)).unwrap()).await;
        assert_eq!(reply.status.as_u16(), status, "{what}: {}", reply.text());
        let (policy, standing) = (reply.header("ratelimit-policy").unwrap(), reply.header("ratelimit").unwrap());
        assert!(policy.starts_with("\"requests\";q=99;w=") && policy.contains("\"bytes\";q=6144;"), "{what}: {policy}");
        assert!(standing.starts_with("\"requests\";r=") && standing.contains("\"bytes\";r="), "{what}: {standing}");
        let resend = matches!(status, 429 | 503);
        assert_eq!(reply.header("retry-after"), resend.then_some("1"), "{what}");
    }

    let request = gate.raw("bob", "", "{").replace("Content-Length: 1", "Content-Length: 9");
    let late = client::raw(gate.address, &gate.ca(), request.as_bytes()).await.to_ascii_lowercase();
    assert!(late.starts_with("http/1.1 408 ") && late.contains("\r\nratelimit: \"requests\""), "{late}");
    assert!(!late.contains("retry-after"), "{late}");
}

#[tokio::test]
async fn the_widest_override_of_a_callers_groups_counts() {
    let limits = "[{ name: caller, per: caller, rate: 1/h, burst: 1, overrides: { groups: { \
                  analysts: { rate: 1/h, burst: 3 }, interns: { rate: 1/h, burst: 2 } } } }]";
    let gate = Setup::new().limits(limits).start().await;
    for (groups, passes) in [(json!([]), 1), (json!(["interns"]), 2), (json!(["interns", "analysts"]), 3)] {
        let mut claims = claims(["bob", "carol", "dave"][passes - 1]);
        claims["groups"] = groups;
        let token = gate.key.sign(&claims).unwrap();
        for number in 0..=passes {
            let mut request = gate.post("alice", PATH);
            request.headers_mut().unwrap().insert("authorization", format!("Bearer {token}").parse().unwrap());
            let reply = gate.send(request.body(Full::from(run(&[], &[]))).unwrap()).await;
            assert_eq!(reply.status.as_u16(), if number < passes { 201 } else { 429 }, "{passes}: {number}");
        }
    }
}
