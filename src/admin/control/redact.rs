//! Masks credentials that a configuration may hold by mistake: those inside URLs.

use serde_json::Value;

const MASK: &str = "***";

/// Replaces user information and query of each URL in `value`. Nothing else in a configuration can hold a secret:
/// secrets are files, of which it has the path.
pub(super) fn redact(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(redact_url(text)),
        Value::Array(items) => items.into_iter().map(redact).collect(),
        Value::Object(members) => members.into_iter().map(|(key, value)| (key, redact(value))).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value,
    }
}

fn redact_url(text: String) -> String {
    let Some((scheme, rest)) = text.split_once("://") else { return text };
    let (rest, query) = match rest.split_once('?') {
        Some((rest, _)) => (rest, format!("?{MASK}")),
        None => (rest, String::new()),
    };
    let (authority, path) = rest.split_at_checked(rest.find('/').unwrap_or(rest.len())).unwrap_or((rest, ""));
    match authority.rsplit_once('@') {
        Some((_, host)) => format!("{scheme}://{MASK}@{host}{path}{query}"),
        None => format!("{scheme}://{authority}{path}{query}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn credentials_in_urls_are_masked_wherever_they_stand() {
        let config = json!({
            "upstreams": [{ "url": "http://user:pass@word@marquez:5000/api?key=s3cret", "timeout": 3 }],
            "issuer": "https://idp.example.com/", "jwks": "https://idp.example.com/keys?api-version=1",
            "token_file": "/run/secrets/token", "pattern": "^a?@b$", "email": "a@b", "path": "http://h/a@b",
        });
        let expected = json!({
            "upstreams": [{ "url": "http://***@marquez:5000/api?***", "timeout": 3 }],
            "issuer": "https://idp.example.com/", "jwks": "https://idp.example.com/keys?***",
            "token_file": "/run/secrets/token", "pattern": "^a?@b$", "email": "a@b", "path": "http://h/a@b",
        });
        assert_eq!(redact(config), expected);
    }
}
