//! What several tests need: documents made at random, and the plain search that the scan must agree with.

use proptest::prelude::*;
use serde_json::{Map, Value};

/// Any JSON value. Keys come from a small set, most of them with a meaning somewhere.
pub(crate) fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1.0e9..1.0e9).prop_map(Value::from),
        any_text().prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((any_key(), inner), 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// An object that always names something, around any members.
pub(crate) fn any_name() -> impl Strategy<Value = Value> {
    (any_text(), any_text(), any_value())
        .prop_map(|(namespace, name, more)| serde_json::json!({ "namespace": namespace, "more": more, "name": name }))
}

fn any_key() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => prop::sample::select(vec!["namespace", "name", "inputs", "facets", "type", "job", "_deleted"])
            .prop_map(str::to_owned),
        1 => any_text(),
    ]
}

/// Texts without NUL, some with quotes, backslashes and what JSON escapes.
fn any_text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z]{0,6}", "[ -~]{0,8}", "[^\u{0}]{0,5}"]
}

/// Every object with texts for `namespace` and `name`, sorted.
pub(crate) fn plain_search(value: &Value) -> Vec<(String, String)> {
    let mut found = Vec::new();
    search(value, &mut found);
    found.sort();
    found
}

fn search(value: &Value, found: &mut Vec<(String, String)>) {
    match value {
        Value::Object(members) => {
            if let (Some(Value::String(namespace)), Some(Value::String(name))) =
                (members.get("namespace"), members.get("name"))
            {
                found.push((namespace.clone(), name.clone()));
            }
            members.values().for_each(|member| search(member, found));
        }
        Value::Array(elements) => elements.iter().for_each(|element| search(element, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
