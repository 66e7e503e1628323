//! What Spark, dbt, Airflow, the Python and the Java client really sent, through a whole gate.

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::Arc;

use bytes::Bytes;
use lineage_gate::config::{Event, EventTime, FacetReferences};
use lineage_gate::event::{self, Kind, Rules};
use lineage_gate::policy::{self, ActiveRoles, Identity};
use lineage_gate::source::Files;
use serde_json::Value;

use crate::support::gate::Setup;

const POLICY: &str = "\
namespaces:
  - name: everything
    callers: { users: [producer, another] }
    jobs: [{ namespace: '*', names: ['*'] }]
    inputs: [{ namespace: '*', names: ['*'] }]
    outputs: [{ namespace: '*', names: ['*'] }]
    effect: allow
";

fn client_events() -> BTreeMap<String, String> {
    let packed = include_bytes!("../data/client-events.json.gz");
    let mut json = String::new();
    flate2::read::GzDecoder::new(packed.as_slice()).read_to_string(&mut json).unwrap();
    serde_json::from_str(&json).unwrap()
}

/// Namespace and name of every object that has both, found the plain way.
fn plain_search(value: &Value, found: &mut Vec<(String, String)>) {
    match value {
        Value::Object(members) => {
            if let (Some(Value::String(namespace)), Some(Value::String(name))) =
                (members.get("namespace"), members.get("name"))
            {
                found.push((namespace.clone(), name.clone()));
            }
            members.values().for_each(|value| plain_search(value, found));
        }
        Value::Array(items) => items.iter().for_each(|value| plain_search(value, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[tokio::test]
async fn every_event_of_real_clients_is_accepted_by_a_policy_that_allows_it_and_refused_to_others() {
    let gate = Setup::new()
        .write("policies/demo.yaml", POLICY)
        .policy("{ files: policies/, facet_references: all }")
        .start()
        .await;
    let rules = Rules::new(&Event::default(), EventTime::AssumeUtc, false);
    let mut expected = Vec::new();
    for (file, body) in client_events() {
        let reply = gate.event("producer", "/api/v1/lineage", body.clone()).await;
        assert_eq!(reply.status.as_u16(), 201, "{file}: {}", reply.text());
        expected.push(serde_json::from_str::<Value>(&body).unwrap());
        let refused = gate.event("stranger", "/api/v1/lineage", body.clone()).await;
        assert_eq!(refused.status.as_u16(), 403, "{file}: {}", refused.text());
        // Gravitino's contract takes run events only.
        let kind = event::parse(Bytes::from(body.clone()), &rules).unwrap().kind;
        let reply = gate.event("another", "/api/lineage", body).await;
        assert_eq!(reply.status.as_u16(), if kind == Kind::Run { 201 } else { 400 }, "{file}: {}", reply.text());
        expected.extend((kind == Kind::Run).then(|| expected[expected.len() - 1].clone()));
    }
    assert!(gate.accepted() == expected, "each is stored as it was sent");
}

#[test]
fn what_is_explained_of_events_of_real_clients_is_complete() {
    let folder = tempfile::tempdir().unwrap();
    let policy = folder.path().join("policy.yaml");
    std::fs::write(&policy, POLICY).unwrap();
    let files = Files::load(&policy).unwrap();
    let rules = Rules::new(&Event::default(), EventTime::AssumeUtc, false);
    let groups: [Arc<str>; 0] = [];
    let events = client_events();
    assert_eq!(events.len(), 42);
    for (file, body) in events {
        let mut wanted = Vec::new();
        plain_search(&serde_json::from_str(&body).unwrap(), &mut wanted);
        let event = event::parse(Bytes::from(body), &rules).unwrap();
        let roles = ActiveRoles::parse(None).unwrap();
        for (user, allowed) in [("producer", true), ("stranger", false)] {
            let who = Identity { subject: user, groups: &groups };
            let told = policy::explain(&files.world(), &who, &roles, &event, FacetReferences::All);
            let mut found: Vec<_> = told.iter().map(|one| (one.namespace.clone(), one.name.clone())).collect();
            found.sort();
            wanted.sort();
            assert_eq!(found, wanted, "{file}");
            assert!(told.iter().all(|one| one.allowed == allowed), "{file}: {told:?}");
        }
    }
}
