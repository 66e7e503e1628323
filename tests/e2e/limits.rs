//! Rate limits, as callers meet them.

use crate::support::events::{run, run_in};
use crate::support::gate::{Gate, Setup};

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
