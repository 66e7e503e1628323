use serde_json::json;

use super::support::{Bench, NOW, Signer, judge, judge_at};
use crate::auth::dev::SigningKey;
use crate::auth::{Authenticator, Reason};

fn checks(auth: &Authenticator) -> u64 {
    auth.metrics.signature_checks()
}

#[tokio::test]
async fn the_second_request_with_a_token_costs_no_signature_check() {
    let bench = Bench::new();
    let auth = bench.auth(&json!({}));
    let token = bench.token(&json!({}), &json!({ "groups": ["g"] }));
    let first = judge(&auth, &token).await.unwrap();
    let second = judge(&auth, &token).await.unwrap();
    assert_eq!(first, second);
    assert_eq!(checks(&auth), 1);
}

#[tokio::test]
async fn a_remembered_token_ends_with_its_exp_and_leeway() {
    let bench = Bench::new();
    let auth = bench.auth(&json!({ "leeway": "5s" }));
    let token = bench.token(&json!({}), &json!({ "exp": NOW + 10 }));
    assert!(judge_at(&auth, &token, NOW).await.is_ok());
    assert!(judge_at(&auth, &token, NOW + 14).await.is_ok());
    assert_eq!(checks(&auth), 1);
    assert_eq!(judge_at(&auth, &token, NOW + 15).await, Err(Reason::Expired.into()));
    assert_eq!(auth.cache.len(), 0);
}

#[tokio::test]
async fn bad_tokens_are_never_remembered_and_drive_no_good_one_out() {
    let bench = Bench::new();
    let auth = bench.auth(&json!({}));
    let good = bench.token(&json!({}), &json!({}));
    assert!(judge(&auth, &good).await.is_ok());
    let stranger = SigningKey::generate().unwrap();
    for number in 0..300 {
        let expired = bench.token(&json!({}), &json!({ "exp": NOW - 3_600, "jti": number.to_string() }));
        assert_eq!(judge(&auth, &expired).await, Err(Reason::Expired.into()));
        let forged = stranger.sign(&super::support::claims(&json!({ "jti": number.to_string() }))).unwrap();
        assert_eq!(judge(&auth, &forged).await, Err(Reason::UnknownKey.into()));
    }
    assert_eq!(auth.cache.len(), 1);
    let before = checks(&auth);
    assert!(judge(&auth, &good).await.is_ok());
    assert_eq!(checks(&auth), before);
}

#[tokio::test]
async fn the_cache_keeps_to_its_bound() {
    let bench = Bench::new();
    let auth = bench.auth(&json!({}));
    for number in 0..250 {
        let token = bench.token(&json!({}), &json!({ "jti": number.to_string() }));
        assert!(judge(&auth, &token).await.is_ok());
    }
    assert!((1..=100).contains(&auth.cache.len()), "{}", auth.cache.len());
}

#[tokio::test]
async fn a_reload_drops_the_tokens_of_a_removed_key_and_of_no_other() {
    let bench = Bench::new();
    let own: serde_json::Value = serde_json::from_str(&bench.key.jwks()).unwrap();
    let own = own["keys"][0].clone();
    let other = Signer::new("ES256");
    bench.write_jwks(&[own.clone(), other.jwk.clone()]);
    let auth = bench.auth(&json!({}));
    assert_eq!(auth.watched(), [bench.path("jwks.json")]);
    let (kept, dropped) = (bench.token(&json!({}), &json!({})), other.token(&json!({}), &json!({})));
    assert!(judge(&auth, &kept).await.is_ok() && judge(&auth, &dropped).await.is_ok());

    assert_eq!(auth.reload().ok(), Some(false));
    assert!(judge(&auth, &kept).await.is_ok() && judge(&auth, &dropped).await.is_ok());
    assert_eq!(checks(&auth), 2);

    bench.write_jwks(&[own]);
    assert_eq!(auth.reload().ok(), Some(true));
    assert!(judge(&auth, &kept).await.is_ok());
    assert_eq!(judge(&auth, &dropped).await, Err(Reason::UnknownKey.into()));
    assert_eq!(checks(&auth), 2);
}

#[tokio::test]
async fn a_reload_of_a_bad_file_changes_nothing_and_names_it() {
    let bench = Bench::new();
    let auth = bench.auth(&json!({}));
    let token = bench.token(&json!({}), &json!({}));
    for content in ["", "{}", "{\"keys\":[]}", "{\"keys\":[{\"kty\":\"oct\",\"k\":\"AAAA\"}]}", "[]"] {
        std::fs::write(bench.path("jwks.json"), content).unwrap();
        let faults = auth.reload().unwrap_err();
        assert_eq!(faults.len(), 1);
        let text = faults[0].to_string();
        assert!(text.starts_with("auth.issuers[0].jwks_file: ") && text.contains("jwks.json"), "{text}");
        assert!(judge(&auth, &token).await.is_ok());
        assert!(auth.missing().is_empty());
    }
    std::fs::remove_file(bench.path("jwks.json")).unwrap();
    assert!(auth.reload().unwrap_err()[0].to_string().contains("cannot read"));
    assert!(judge(&auth, &token).await.is_ok());
}
