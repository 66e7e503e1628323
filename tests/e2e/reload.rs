//! Files that change while the gate serves.

use std::fs;
use std::time::Duration;

use http_body_util::Full;
use lineage_gate::auth::dev::SigningKey;
use tokio::time::timeout;

use crate::support::client;
use crate::support::events::run;
use crate::support::gate::{Gate, Setup, make_certificate};

const PATH: &str = "/api/lineage";

async fn status(gate: &Gate, caller: &str, dataset: &str) -> u16 {
    gate.event(caller, PATH, run(&[dataset], &[])).await.status.as_u16()
}

/// A minute is more than any machine needs.
const PATIENCE: Duration = Duration::from_secs(60);

/// Asks until the answer is the wanted one.
async fn becomes(gate: &Gate, caller: &str, dataset: &str, wanted: u16) {
    let asking = async { while status(gate, caller, dataset).await != wanted {} };
    assert!(timeout(PATIENCE, asking).await.is_ok(), "{caller} never got {wanted} for {dataset}");
}

async fn metric(gate: &Gate, wanted: &str) {
    let is_there = |metrics: &str| metrics.lines().any(|line| line.starts_with(wanted));
    let asking = async { while !is_there(&gate.page("/metrics").await.1) {} };
    assert!(timeout(PATIENCE, asking).await.is_ok(), "no metric {wanted}");
}

#[tokio::test]
async fn a_changed_policy_holds_without_a_restart_and_a_broken_one_changes_nothing() {
    let gate = Setup::new().start().await;
    let file = gate.path("policies/demo.yaml");
    let policy = fs::read_to_string(&file).unwrap();
    assert_eq!(status(&gate, "alice", "lake.hr.people").await, 403);

    let wider = policy.replace("schema lake.sales, allow", "catalog lake, allow");
    assert_ne!(wider, policy);
    fs::write(&file, wider).unwrap();
    becomes(&gate, "alice", "lake.hr.people", 201).await;

    fs::write(&file, "metalakes: [{ nonsense: 1 }]").unwrap();
    metric(&gate, "lineage_gate_reload_failed{target=\"policy\"} 1").await;
    assert_eq!(status(&gate, "alice", "lake.hr.people").await, 201, "the last good policy stays");

    fs::write(&file, policy).unwrap();
    becomes(&gate, "alice", "lake.hr.people", 403).await;
}

#[tokio::test]
async fn a_changed_certificate_is_served_to_new_connections_and_a_mismatched_pair_is_not() {
    let gate = Setup::new().start().await;
    let old_ca = gate.ca();
    let kept = gate.path("old-ca.pem");
    fs::copy(&old_ca, &kept).unwrap();
    let other = tempfile::tempdir().unwrap();
    make_certificate(other.path(), "localhost");

    fs::copy(other.path().join("tls.key"), gate.path("tls.key")).unwrap();
    metric(&gate, "lineage_gate_reload_failed{target=\"certificate of 127.0.0.1:0\"} 1").await;
    let request = || gate.post("alice", PATH).body(Full::from(run(&[], &[]))).unwrap();
    assert_eq!(client::http1(gate.address, &kept, request()).await.status.as_u16(), 201);

    fs::copy(other.path().join("tls.crt"), gate.path("tls.crt")).unwrap();
    metric(&gate, "lineage_gate_reload_failed{target=\"certificate of 127.0.0.1:0\"} 0").await;
    let new_ca = other.path().join("ca.pem");
    assert_eq!(client::http1(gate.address, &new_ca, request()).await.status.as_u16(), 201);
}

#[tokio::test]
async fn a_removed_key_ends_its_tokens_also_those_that_were_verified_before() {
    let gate = Setup::new().start().await;
    assert_eq!(status(&gate, "alice", "lake.sales.orders").await, 201);
    fs::write(gate.path("jwks.json"), "{ \"keys\": [] }").unwrap();
    metric(&gate, "lineage_gate_reload_failed{target=\"keys\"} 1").await;
    assert_eq!(status(&gate, "alice", "lake.sales.orders").await, 201, "the last good keys serve");
    let other = SigningKey::generate().unwrap();
    fs::write(gate.path("jwks.json"), other.jwks()).unwrap();
    becomes(&gate, "alice", "lake.sales.orders", 401).await;
}
