//! What the gate changes in events: rewrite rules, facets, symlinks.

use serde_json::{Value, json};

use crate::support::events::run_in;
use crate::support::gate::{Gate, Setup};

const PATH: &str = "/api/v1/lineage";

/// A gate whose backend is a file, and its upstream's and its own more keys.
async fn gate(upstream: &str, more: &str) -> Gate {
    let upstream = format!("{{ name: archive, kind: file, path: accepted.jsonl{upstream} }}");
    Setup::new().upstream(&upstream).more(more).start().await
}

/// An event of airflow's orders job, whose one input has these facets.
fn orders(facets: Value) -> Value {
    let mut event = run_in("orders-prod", &[], &[]);
    event["inputs"] =
        json!([{ "namespace": "postgres://warehouse:5432", "name": "shop.public.orders", "facets": facets }]);
    event
}

fn links(identifiers: Value) -> Value {
    json!({ "symlinks": { "_producer": "p", "_schemaURL": "s", "identifiers": identifiers } })
}

fn identifier(name: &str) -> Value {
    json!({ "namespace": "postgres://warehouse:5432", "name": name, "type": "TABLE" })
}

#[tokio::test]
async fn names_are_mapped_before_the_policy_sees_them_and_reach_the_backend_so() {
    let rewrite = "rewrite:\n  - { rule: metalake-uri, of: dataset, namespace: 'http://[^/]+/api/metalakes/(.+)', to_namespace: '$1' }";
    let gate = gate("", rewrite).await;
    let mut event = run_in("demo", &[], &[]);
    let named = |name: &str| json!({ "namespace": "http://catalog:8090/api/metalakes/demo", "name": name });
    event["inputs"] = json!([named("lake.sales.orders")]);
    event["inputs"][0]["facets"] =
        json!({ "columnLineage": { "fields": { "a": { "inputFields": [named("lake.sales.orders")] } } } });
    let reply = gate.event("alice", "/api/lineage", event.to_string()).await;
    assert_eq!(reply.status.as_u16(), 201, "{}", reply.text());
    let text = event.to_string().replace("http://catalog:8090/api/metalakes/demo", "demo");
    assert_eq!(gate.accepted(), [serde_json::from_str::<Value>(&text).unwrap()]);
    let record = gate.audit_of(&reply).await;
    let edits = json!({ "rewritten": 2, "rules": { "metalake-uri": 2 }, "facets_dropped": 0, "scrubbed": 0, "symlinks_dropped": 0 });
    assert_eq!(record["edits"], edits);
    assert_eq!(record["datasets"][0]["namespace"], "demo");

    event["inputs"] = json!([named("lake.hr.people")]);
    let reply = gate.event("alice", "/api/lineage", event.to_string()).await;
    assert_eq!(reply.status.as_u16(), 403, "a mapped name is judged");
    let (_, metrics) = gate.page("/metrics").await;
    assert!(metrics.contains("lineage_gate_event_rewrites_total{rule=\"metalake-uri\"} 3"), "{metrics}");
}

#[tokio::test]
async fn facets_are_dropped_and_credentials_taken_out() {
    let gate = gate("", "facets: { drop: [secretPlan], drop_over: 1KiB, scrub_uris: true }").await;
    let facets = json!({
        "dataSource": { "name": "postgres://warehouse:5432", "uri": "postgres://u:geheim@warehouse:5432/shop?sslpassword=geheim" },
        "secretPlan": { "plan": "geheim", "hidden": { "namespace": "postgres://warehouse:5432", "name": "shop.public.card_numbers" } },
        "large": { "plan": "x".repeat(2_000) },
    });
    let reply = gate.event("airflow", PATH, orders(facets).to_string()).await;
    assert_eq!(reply.status.as_u16(), 201, "{}: what is dropped is not judged", reply.text());
    let source =
        json!({ "name": "postgres://warehouse:5432", "uri": "postgres://warehouse:5432/shop?sslpassword=***" });
    assert_eq!(gate.accepted()[0]["inputs"][0]["facets"], json!({ "dataSource": source }));
    let edits = gate.audit_of(&reply).await["edits"].clone();
    assert_eq!((&edits["facets_dropped"], &edits["scrubbed"]), (&json!(2), &json!(1)));
}

#[tokio::test]
async fn an_event_passes_byte_for_byte_where_no_rule_applies() {
    let upstream = crate::support::upstream::Upstream::start(crate::support::upstream::Script::Answer(
        "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n".into(),
    ))
    .await;
    let yaml = format!("{{ name: backend, kind: openlineage, url: \"{}\", symlinks: drop_unseen }}", upstream.url());
    let more = "rewrite: [{ namespace: 's3a://(.*)', to_namespace: 's3://$1' }]\nfacets: { drop: [x], drop_over: 256KiB, scrub_uris: true }";
    let gate = Setup::new().upstream(&yaml).more(more).start().await;
    let event = format!(
        " {} \n",
        serde_json::to_string_pretty(&orders(links(json!([identifier("shop.public.orders")])))).unwrap()
    );
    let reply = gate.event("airflow", PATH, event.clone()).await;
    assert_eq!(reply.status.as_u16(), 201, "{}", reply.text());
    assert_eq!(upstream.received()[0].body, event.as_bytes());
    assert_eq!(gate.audit_of(&reply).await.get("edits"), None);
}

#[tokio::test]
async fn symlinks_that_the_caller_may_not_name_are_taken_out_or_refuse_the_event() {
    let event = orders(links(json!([
        identifier("shop.public.card_numbers"),
        identifier("shop.public.orders"),
        { "namespace": "hive://elsewhere", "name": "shop.orders", "type": "TABLE" },
    ])));
    let drop = gate(", symlinks: drop_unseen", "").await;
    let reply = drop.event("airflow", PATH, event.to_string()).await;
    assert_eq!(reply.status.as_u16(), 201, "{}", reply.text());
    let kept = &drop.accepted()[0]["inputs"][0]["facets"]["symlinks"]["identifiers"];
    assert_eq!(kept, &json!([identifier("shop.public.orders")]));
    assert_eq!(drop.audit_of(&reply).await["edits"]["symlinks_dropped"], 2);
    let (_, metrics) = drop.page("/metrics").await;
    assert!(metrics.contains("lineage_gate_event_edits_total{edit=\"symlink_dropped\"} 2"), "{metrics}");

    let deny = gate(", symlinks: deny_unseen", "").await;
    let only_elsewhere = orders(links(json!([{ "namespace": "hive://elsewhere", "name": "shop.orders" }])));
    let reply = deny.event("airflow", PATH, only_elsewhere.to_string()).await;
    assert_eq!(reply.status.as_u16(), 403);
    let record = deny.audit_of(&reply).await;
    assert_eq!(record["decision"], "deny");
    let rule = record["rule"].as_str().unwrap();
    assert!(rule.starts_with("inputs[0].facets.symlinks.identifiers[0]: no namespace rule"), "{rule}");
    let other = deny.event("mallory", PATH, only_elsewhere.to_string()).await;
    assert_eq!(other.text(), reply.text(), "one answer for all that is not visible");

    let keep = gate("", "").await;
    let reply = keep.event("airflow", PATH, only_elsewhere.to_string()).await;
    assert_eq!(reply.status.as_u16(), 201, "{}", reply.text());
    assert_eq!(keep.accepted(), [only_elsewhere]);
}

#[tokio::test]
async fn a_data_source_stays_only_if_it_says_no_more_than_the_dataset() {
    let gate = gate(", symlinks: drop_unseen, services: { 'postgres://warehouse:5432': prod }", "").await;
    for (name, stays) in [("postgres://warehouse:5432", true), ("prod", true), ("finance", false)] {
        let reply = gate.event("airflow", PATH, orders(json!({ "dataSource": { "name": name } })).to_string()).await;
        assert_eq!(reply.status.as_u16(), 201, "{}", reply.text());
        let facets = &gate.accepted().pop().unwrap()["inputs"][0]["facets"];
        assert_eq!(facets.get("dataSource").is_some(), stays, "{name}");
    }
}

#[tokio::test]
async fn a_namespace_without_a_service_is_refused_where_services_are_named() {
    let gate = gate(", services: { 'mysql://other': prod }", "").await;
    let reply = gate.event("airflow", PATH, orders(json!({})).to_string()).await;
    assert_eq!(reply.status.as_u16(), 400);
    assert!(reply.text().contains("inputs[0].namespace is mapped to no service"), "{}", reply.text());
}

#[tokio::test]
async fn shadow_reports_unseen_symlinks_and_takes_none_out() {
    let upstream = "{ name: archive, kind: file, path: accepted.jsonl, symlinks: drop_unseen }";
    let gate = Setup::new().upstream(upstream).policy("{ files: policies/, mode: shadow }").start().await;
    let event = orders(links(json!([{ "namespace": "hive://elsewhere", "name": "shop.orders" }])));
    let reply = gate.event("airflow", PATH, event.to_string()).await;
    assert_eq!(reply.status.as_u16(), 201);
    assert_eq!(gate.accepted(), [event]);
    assert_eq!(gate.audit_of(&reply).await["shadow"], true);
}

#[tokio::test]
async fn deleting_a_facet_of_an_input_needs_the_right_of_an_output() {
    let gate = gate("", "").await;
    let deletes = orders(json!({ "documentation": { "_producer": "p", "_schemaURL": "s", "_deleted": true } }));
    let reply = gate.event("airflow", PATH, deletes.to_string()).await;
    assert_eq!(reply.status.as_u16(), 403);
    let keeps = orders(json!({ "documentation": { "_producer": "p", "_schemaURL": "s", "_deleted": false } }));
    assert_eq!(gate.event("airflow", PATH, keeps.to_string()).await.status.as_u16(), 201);
}
