//! The health and control listeners of a whole gate.

use lineage_gate::config::Address;

use crate::support::events::{run, run_in};
use crate::support::gate::{Setup, get};

#[tokio::test]
async fn health_is_open_and_tells_no_configuration() {
    let gate = Setup::new().start().await;
    gate.event("alice", "/api/lineage", run(&[], &[])).await;
    assert_eq!(gate.page("/livez").await.0, 200);
    assert_eq!(gate.page("/readyz?verbose").await.0, 200);
    let (status, metrics) = gate.page("/metrics").await;
    assert_eq!(status, 200);
    for name in [
        "lineage_gate_requests_total",
        "lineage_gate_listen_connections",
        "lineage_gate_auth_signature_checks_total",
        "lineage_gate_event_body_memory_bytes",
        "lineage_gate_upstream_requests_total",
        "lineage_gate_audit_records_total",
    ] {
        assert!(metrics.contains(name), "{name} is missing in\n{metrics}");
    }
    assert!(!metrics.contains("alice"), "no caller may become a label");
    assert_eq!(gate.page("/config").await.0, 404);
}

/// Whatever callers send, the number of series stays the same.
#[tokio::test]
async fn nothing_that_a_caller_sends_becomes_a_label() {
    let gate = Setup::new().limits("[{ name: caller, per: caller, rate: 100/s }]").start().await;
    let series = || async {
        let (_, metrics) = gate.page("/metrics").await;
        let names = metrics.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.rsplit_once(' '));
        names.map(|(name, _)| name.to_owned()).collect::<std::collections::BTreeSet<_>>()
    };
    let strange = |number: usize| format!("strange-{number}");
    let ask = async |number: usize| {
        let name = strange(number);
        let namespaced = run_in(&name, &[&name], &[]).to_string();
        for (caller, path, body) in [
            (name.as_str(), "/api/lineage", namespaced.as_str()),
            (&name, "/api/v1/lineage", &run(&[&name], &[])),
            (&name, &format!("/{name}"), ""),
            (&name, &format!("/api/v1/lineage?{name}"), &format!("{{\"{name}\": 1}}")),
        ] {
            gate.event(caller, path, body.to_owned()).await;
        }
        let method = http::Method::from_bytes(name.as_bytes()).unwrap();
        let request = gate.post("alice", "/api/lineage").method(method).header("x-strange", &name);
        gate.send(request.body(Default::default()).unwrap()).await;
    };
    ask(0).await;
    let first = series().await;
    for number in 1..6 {
        ask(number).await;
    }
    assert_eq!(series().await, first);
    assert!(first.iter().all(|name| !name.contains("strange")), "{first:?}");
}

#[tokio::test]
async fn control_wants_its_token_and_shows_the_configuration_without_secrets() {
    let setup = Setup::new().admin("{ address: 127.0.0.1:0, token_file: admin.token }");
    let gate = setup.write("admin.token", "a-token-of-more-than-16-characters").start().await;
    let Some(Address::Tcp(address)) = gate.app.addresses().admin else { panic!("no control listener") };
    assert_eq!(get(address, "/config", &[]).await.0, 401);
    let token = ("Authorization", "Bearer a-token-of-more-than-16-characters");
    let (status, config) = get(address, "/config", &[token]).await;
    assert_eq!(status, 200);
    assert!(config.contains("accepted.jsonl") && !config.contains("a-token-of"), "{config}");
    assert_eq!(get(address, "/policy/invalidate", &[]).await.0, 401);
    assert_eq!(get(address, "/policy/invalidate", &[token]).await.0, 405);
    assert_eq!(get(address, "/config", &[token, ("Origin", "http://evil.example")]).await.0, 403);
}
