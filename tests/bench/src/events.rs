//! The event that is judged and sent, and policies of any size that allow it.

use serde_json::{Value, json};

/// Tables of one role.
pub const TABLES: usize = 100;

/// Who is allowed.
pub const CALLER: &str = "caller";

/// A policy as JSON: `roles` roles, each with `tables` grants on tables of a schema of its own. The caller holds the
/// first, and every role has holders.
pub fn policy(tables: usize, roles: usize) -> String {
    let users: Vec<String> = (0..roles).map(|user| format!("user{user}")).chain([CALLER.to_owned()]).collect();
    let all: Vec<Value> = (0..roles).map(|role| self::role(role, tables)).collect();
    json!({ "metalakes": [{ "name": "demo", "owner": { "user": "admin" }, "users": users, "roles": all }] }).to_string()
}

fn role(index: usize, tables: usize) -> Value {
    let mut grants = vec![
        json!({ "on": "catalog lake", "allow": ["USE_CATALOG"] }),
        json!({ "on": format!("schema lake.s{index}"), "allow": ["USE_SCHEMA"] }),
    ];
    let table = |table| json!({ "on": format!("table lake.s{index}.t{table}"), "allow": ["SELECT_TABLE"] });
    grants.extend((0..tables).map(table));
    let mut users = vec![format!("user{index}")];
    users.extend((index == 0).then(|| CALLER.to_owned()));
    json!({ "name": format!("role{index}"), "users": users, "grants": grants })
}

/// The run of [`event`].
pub const RUN: &str = "0192d0c5-3b0e-7c3a-9d2f-6a1b2c3d4e5f";

/// An event that names the first `count` tables, half of them read and half written.
pub fn event(count: usize) -> String {
    let table = |table| json!({ "namespace": "demo", "name": format!("lake.s0.t{table}"), "facets": schema() });
    json!({
        "eventType": "COMPLETE", "eventTime": "2026-01-01T00:00:00Z", "producer": "https://example.org/spark",
        "schemaURL": "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent",
        "run": { "runId": RUN },
        "job": { "namespace": "demo", "name": "daily_orders.insert" },
        "inputs": (0..count / 2).map(table).collect::<Vec<_>>(),
        "outputs": (count / 2..count).map(table).collect::<Vec<_>>(),
    })
    .to_string()
}

fn schema() -> Value {
    let columns = ["id", "customer", "country", "amount", "currency", "ordered_at", "shipped_at", "status", "channel"];
    let fields: Vec<Value> = columns.iter().map(|name| json!({ "name": name, "type": "string" })).collect();
    json!({ "schema": {
        "_producer": "https://example.org/spark",
        "_schemaURL": "https://openlineage.io/spec/facets/1-1-1/SchemaDatasetFacet.json#/$defs/SchemaDatasetFacet",
        "fields": fields,
    } })
}
