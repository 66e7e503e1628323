//! Events of the shapes that the tests need.

use serde_json::{Value, json};

/// A run event of the metalake `demo`.
pub(crate) fn run(inputs: &[&str], outputs: &[&str]) -> String {
    run_in("demo", inputs, outputs).to_string()
}

/// A run event of any namespace, whose datasets are in it too.
pub(crate) fn run_in(namespace: &str, inputs: &[&str], outputs: &[&str]) -> Value {
    let datasets = |names: &[&str]| -> Vec<Value> {
        names.iter().map(|name| json!({ "namespace": namespace, "name": name })).collect()
    };
    json!({
        "eventTime": "2026-11-29T18:47:48.312Z",
        "eventType": "COMPLETE",
        "producer": "https://example.com/producer",
        "schemaURL": "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent",
        "run": { "runId": uuid::Uuid::now_v7().to_string() },
        "job": { "namespace": namespace, "name": "daily_orders" },
        "inputs": datasets(inputs),
        "outputs": datasets(outputs),
    })
}
