//! Tokens and key sets that real Kubernetes API servers gave out (facts: kubernetes-real 4.2, 4.3).

use std::sync::Arc;

use serde_json::{Value, json};

use super::support::{Bench, at, authenticator, headers};
use crate::auth::{Authenticator, Caller, Error, Reason};

const CLUSTER: &str = "https://kubernetes.default.svc.cluster.local";

fn recorded() -> Value {
    serde_json::from_str(include_str!("../../../tests/data/kubernetes-tokens.json")).unwrap()
}

fn verifier(bench: &Bench, jwks: &Value, audience: &str) -> Authenticator {
    std::fs::write(bench.path("jwks.json"), jwks.to_string()).unwrap();
    let issuer = bench.issuer(&json!({
        "issuer": CLUSTER,
        "audiences": [audience],
        "subject_pattern": "system:serviceaccount:(.+:.+)",
        "max_lifetime": "1h",
    }));
    authenticator(&[issuer]).ok().unwrap()
}

async fn judge(auth: &Authenticator, token: &str, seconds: u64) -> Result<Caller, Error> {
    auth.authenticate_at(&headers(token), None, at(seconds)).await
}

#[tokio::test]
async fn service_account_tokens_hold_with_their_key_set_before_and_after_rotation() {
    let recorded = recorded();
    let bench = Bench::new();
    // Which key set verifies which tokens, and when those were issued.
    let table =
        [("rs256", "rs256", 1_795_980_083), ("rotated", "rotated", 1_795_980_104), ("rotated", "rs256", 1_795_980_083)];
    for (set, tokens, issued) in table {
        let auth = verifier(&bench, &recorded[set]["jwks"], "lineage");
        for name in ["lineage", "lineage-pod-bound", "two-audiences"] {
            let token = recorded[tokens]["tokens"][name].as_str().unwrap();
            let caller = judge(&auth, token, issued).await.unwrap();
            assert_eq!(*caller.subject, *format!("golden-{issued}:app"), "{set} {tokens} {name}");
            assert_eq!(caller.groups, Arc::from([]));
            assert_eq!(caller.token_id.len(), 36);
            assert_eq!(caller.expires, at(issued + 600));
            assert_eq!(judge(&auth, token, issued + 660).await, Err(Reason::Expired.into()));
        }
        let for_the_api = recorded[tokens]["tokens"]["default-audience"].as_str().unwrap();
        assert_eq!(judge(&auth, for_the_api, issued).await, Err(Reason::Audience.into()));
        assert!(judge(&verifier(&bench, &recorded[set]["jwks"], CLUSTER), for_the_api, issued).await.is_ok());
    }
}

#[tokio::test]
async fn tokens_of_a_new_key_are_unknown_to_the_old_key_set() {
    let recorded = recorded();
    let bench = Bench::new();
    let auth = verifier(&bench, &recorded["rs256"]["jwks"], "lineage");
    let token = recorded["rotated"]["tokens"]["lineage"].as_str().unwrap();
    assert_eq!(judge(&auth, token, 1_795_980_104).await, Err(Reason::UnknownKey.into()));
}
