use serde_json::{Value, json};

use super::*;

fn faults(issuers: &[Value]) -> Vec<String> {
    let config = serde_json::from_value(json!({ "issuers": issuers })).unwrap();
    check(&config).iter().map(ToString::to_string).collect()
}

fn issuer(patch: &Value) -> Value {
    let mut issuer = json!({ "issuer": "i", "audiences": ["a"], "jwks": "https://idp.example.com/keys" });
    crate::auth::tests::support::merge(&mut issuer, patch);
    issuer
}

#[test]
fn what_can_be_meant_is_no_fault() {
    let table = [
        json!({}),
        json!({ "jwks": null, "jwks_file": "x" }),
        json!({ "jwks": null, "public_key_file": "x", "algorithms": ["EdDSA", "PS256"] }),
        json!({ "jwks": null, "secret_file": "x" }),
        json!({ "jwks": null, "secret_file": "x", "algorithms": ["HS256"] }),
        json!({ "jwks": "http://127.0.0.1:8090/keys", "token_file": "t" }),
        json!({ "jwks": "http://[::1]/keys" }),
        json!({ "jwks": "http://localhost:1/keys" }),
        json!({ "ca_file": "c", "token_file": "t", "refresh": "10s", "max_stale": "10s" }),
        json!({ "subject_pattern": "(a|b)c", "token_types": ["at+jwt", "application/JWT"] }),
    ];
    for patch in table {
        assert_eq!(faults(&[issuer(&patch)]), Vec::<String>::new(), "{patch}");
    }
}

#[test]
fn each_fault_names_its_key() {
    let table = [
        (json!({ "issuer": "" }), "issuer: is empty"),
        (json!({ "audiences": [] }), "audiences: names no audience"),
        (json!({ "audiences": ["a", ""] }), "audiences: holds an empty text"),
        (json!({ "subject_claims": [] }), "subject_claims: names no claim"),
        (json!({ "prefix": "a\n" }), "prefix: holds a control character"),
        (json!({ "token_types": ["Logout+JWT"] }), "token_types: logout+jwt is never"),
        (json!({ "subject_pattern": "(" }), "subject_pattern: is no regular expression"),
        (json!({ "subject_pattern": "a)|(?:b" }), "subject_pattern: is no regular expression"),
        (json!({ "algorithms": ["none"] }), "algorithms: `none` is not supported; take of RS256, "),
        (json!({ "algorithms": [] }), "algorithms: accepts no algorithm"),
        (json!({ "algorithms": ["HS256"] }), "algorithms: HS256 is only accepted with `secret_file`"),
        (
            json!({ "jwks": null, "secret_file": "x", "algorithms": ["HS256", "RS256"] }),
            "algorithms: with `secret_file`",
        ),
        (json!({ "jwks_file": "x" }), ": names 2 sources of keys"),
        (json!({ "jwks": null }), ": names 0 sources of keys"),
        (json!({ "jwks": null, "jwks_file": "x", "ca_file": "c" }), "ca_file: is only used with `jwks`"),
        (json!({ "jwks": null, "jwks_file": "x", "token_file": "t" }), "token_file: is only used with `jwks`"),
        (json!({ "jwks": "http://idp.example.com/keys" }), "jwks: `http://idp.example.com/keys` must be https"),
        (json!({ "jwks": "http://127.0.0.1.evil.com/" }), "must be https"),
        (json!({ "jwks": "ftp://127.0.0.1/" }), "must be https"),
        (json!({ "jwks": "https://user:secret@idp.example.com/" }), "jwks: must hold no user or password"),
        (json!({ "jwks": "/keys" }), "jwks: `/keys` is no URL"),
        (json!({ "refresh": "1m", "max_stale": "59s" }), "max_stale: must be at least `refresh`, which is 60s"),
        (json!({ "refresh": "0s" }), "refresh: must be at least 1s"),
    ];
    for (patch, words) in table {
        let faults = faults(&[issuer(&patch)]);
        let expected = if words.starts_with(':') { "auth.issuers[0]:" } else { "auth.issuers[0]." };
        assert!(
            faults.len() == 1 && faults[0].starts_with(expected) && faults[0].contains(words),
            "{patch}: {faults:?}"
        );
        assert!(!faults[0].contains("secret@"), "{faults:?}");
    }
    assert_eq!(faults(&[]), ["auth.issuers: names no issuer: nobody could call"]);
}

#[test]
fn several_issuers_need_prefixes_that_cannot_be_mistaken() {
    let with = |name: &str, prefix: Value| issuer(&json!({ "issuer": name, "prefix": prefix }));
    assert!(faults(&[with("i", json!("a:")), with("j", json!("b:"))]).is_empty());
    let table = [
        (json!("a:"), Value::Null, "auth.issuers[1].prefix: is needed"),
        (json!("a:"), json!(""), "auth.issuers[1].prefix: is needed"),
        (json!("a:"), json!("a:"), "auth.issuers[1].prefix: starts with that of auth.issuers[0]"),
        (json!("a"), json!("ab"), "auth.issuers[1].prefix: starts with that of auth.issuers[0]"),
        (json!("ab"), json!("a"), "auth.issuers[0].prefix: starts with that of auth.issuers[1]"),
    ];
    for (one, two, words) in table {
        let faults = faults(&[with("i", one.clone()), with("j", two.clone())]);
        assert!(faults.len() == 1 && faults[0].starts_with(words), "{one} {two}: {faults:?}");
    }
    let same = faults(&[with("i", json!("a:")), with("i", json!("b:"))]);
    assert_eq!(same, ["auth.issuers[1].issuer: is the same as that of auth.issuers[0]"]);
}

#[test]
fn all_faults_are_reported_together() {
    let bad = json!({ "issuer": "", "audiences": [], "algorithms": ["x"], "jwks_file": "y" });
    assert_eq!(faults(&[issuer(&bad), issuer(&bad)]).len(), 2 + 4 + 4 + 1);
}
