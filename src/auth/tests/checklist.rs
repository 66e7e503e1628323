//! Facts: standards and peers 3.5, row by row.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::support::{Bench, ISSUER, NOW, at, authenticator, claims, headers, hs256, judge, judge_at, unsigned};
use crate::auth::dev::SigningKey;
use crate::auth::{Error, Reason};

/// A row of the checklist: changes to the issuer's configuration, a token's header and its claims, and the answer.
type Row = (u8, Value, Value, Value, Result<(), Error>);

fn rows() -> Vec<Row> {
    let none = || json!({});
    let no = |reason: Reason| Err(reason.into());
    let profile = || json!({ "token_types": ["at+jwt"] });
    let access = || json!({ "typ": "at+jwt" });
    let full = || json!({ "client_id": "c", "jti": "j" });
    vec![
        (0, none(), none(), none(), Ok(())),
        (2, none(), json!({ "alg": 1 }), none(), no(Reason::Malformed)),
        (2, none(), json!({ "kid": 1 }), none(), no(Reason::Malformed)),
        (2, none(), json!({ "typ": ["JWT"] }), none(), no(Reason::Malformed)),
        (3, none(), json!({ "alg": null }), none(), no(Reason::Malformed)),
        (3, none(), json!({ "alg": "none" }), none(), no(Reason::Algorithm)),
        (3, none(), json!({ "alg": "noNE" }), none(), no(Reason::Algorithm)),
        (3, none(), json!({ "alg": "es256" }), none(), no(Reason::Algorithm)),
        (3, none(), json!({ "alg": "HS256" }), none(), no(Reason::Algorithm)),
        (3, none(), json!({ "alg": "RSA1_5" }), none(), no(Reason::Algorithm)),
        (3, none(), json!({ "alg": "ES256K" }), none(), no(Reason::Algorithm)),
        (3, json!({ "algorithms": ["RS256", "ES256"] }), none(), none(), Ok(())),
        (3, none(), json!({ "alg": "PS256" }), none(), no(Reason::Algorithm)),
        (4, none(), json!({ "alg": "RS256" }), none(), no(Reason::KeyMismatch)),
        (4, json!({ "algorithms": ["ES256", "ES384"] }), json!({ "alg": "ES384" }), none(), no(Reason::KeyMismatch)),
        (5, none(), json!({ "crit": ["exp"] }), none(), no(Reason::Extension)),
        (5, none(), json!({ "crit": [] }), none(), no(Reason::Extension)),
        (5, none(), json!({ "b64": false, "crit": ["b64"] }), none(), no(Reason::Extension)),
        (5, none(), json!({ "b64": false }), none(), no(Reason::Extension)),
        (5, none(), json!({ "b64": true }), none(), Ok(())),
        (5, none(), json!({ "enc": "A128GCM" }), none(), no(Reason::Encrypted)),
        (5, none(), json!({ "zip": "DEF" }), none(), no(Reason::Encrypted)),
        (5, none(), json!({ "cty": "JWT" }), none(), no(Reason::Nested)),
        (5, none(), json!({ "cty": "application/jwt" }), none(), no(Reason::Nested)),
        (
            6,
            none(),
            json!({ "jku": "https://evil.example/", "x5u": "https://evil.example/", "x5c": ["AA"] }),
            none(),
            Ok(()),
        ),
        (6, none(), json!({ "kid": "unknown" }), none(), no(Reason::UnknownKey)),
        (6, none(), json!({ "kid": "k".repeat(257) }), none(), no(Reason::Malformed)),
        (6, none(), json!({ "kid": null }), none(), Ok(())),
        (8, none(), none(), json!({ "iss": null }), no(Reason::Issuer)),
        (8, none(), none(), json!({ "iss": ISSUER.trim_end_matches('/') }), no(Reason::Issuer)),
        (8, none(), none(), json!({ "iss": ISSUER.to_uppercase() }), no(Reason::Issuer)),
        (8, none(), none(), json!({ "iss": [ISSUER] }), no(Reason::Issuer)),
        (9, none(), none(), json!({ "aud": null }), no(Reason::Audience)),
        (9, none(), none(), json!({ "aud": "other" }), no(Reason::Audience)),
        (9, none(), none(), json!({ "aud": "lineage other" }), no(Reason::Audience)),
        (9, none(), none(), json!({ "aud": "Lineage" }), no(Reason::Audience)),
        (9, none(), none(), json!({ "aud": [] }), no(Reason::Audience)),
        (9, none(), none(), json!({ "aud": ["other"] }), no(Reason::Audience)),
        (9, none(), none(), json!({ "aud": ["lineage", 1] }), no(Reason::Audience)),
        (9, none(), none(), json!({ "aud": 7 }), no(Reason::Audience)),
        (9, none(), none(), json!({ "aud": ["other", "lineage"] }), Ok(())),
        (9, json!({ "audiences": ["a", "lineage"] }), none(), none(), Ok(())),
        (10, none(), none(), json!({ "exp": null }), no(Reason::Times)),
        (10, none(), none(), json!({ "exp": (NOW + 600).to_string() }), no(Reason::Times)),
        (10, none(), none(), json!({ "exp": 9_007_199_254_740_992_u64 }), Ok(())),
        (10, none(), none(), json!({ "exp": 9_007_199_254_740_993_u64 }), no(Reason::Times)),
        (10, none(), none(), json!({ "exp": 1e300 }), no(Reason::Times)),
        (10, none(), none(), json!({ "exp": -1 }), no(Reason::Times)),
        (10, none(), none(), json!({ "exp": NOW - 60 }), no(Reason::Expired)),
        (10, none(), none(), json!({ "exp": NOW - 59 }), Ok(())),
        (10, none(), none(), json!({ "exp": 1_799_999_940.5 }), Ok(())),
        (10, json!({ "leeway": "0s" }), none(), json!({ "exp": NOW }), no(Reason::Expired)),
        (10, json!({ "leeway": "0s" }), none(), json!({ "exp": NOW + 1 }), Ok(())),
        (10, none(), none(), json!({ "nbf": NOW + 61 }), no(Reason::NotYet)),
        (10, none(), none(), json!({ "nbf": NOW + 60 }), Ok(())),
        (10, none(), none(), json!({ "nbf": true }), no(Reason::Times)),
        (10, none(), none(), json!({ "iat": NOW + 61 }), no(Reason::NotYet)),
        (10, none(), none(), json!({ "iat": "now" }), no(Reason::Times)),
        (10, none(), none(), json!({ "iat": null }), Ok(())),
        (10, json!({ "max_lifetime": "10m" }), none(), none(), Ok(())),
        (10, json!({ "max_lifetime": "10m" }), none(), json!({ "exp": NOW + 601 }), no(Reason::Lifetime)),
        (10, json!({ "max_lifetime": "10m" }), none(), json!({ "iat": null }), no(Reason::Lifetime)),
        (11, none(), json!({ "typ": "JWT" }), none(), Ok(())),
        (11, none(), json!({ "typ": "logout+jwt" }), none(), no(Reason::Purpose)),
        (11, none(), json!({ "typ": "application/SecEvent+jwt" }), none(), no(Reason::Purpose)),
        (11, none(), json!({ "typ": "dpop+jwt" }), none(), no(Reason::Purpose)),
        (11, none(), none(), json!({ "nonce": "n" }), no(Reason::Purpose)),
        (11, none(), json!({ "typ": "JWT" }), json!({ "at_hash": "h" }), no(Reason::Purpose)),
        (11, none(), none(), json!({ "c_hash": "h" }), no(Reason::Purpose)),
        (11, none(), none(), json!({ "events": { "x": {} } }), no(Reason::Purpose)),
        (11, none(), none(), json!({ "typ": "ID" }), no(Reason::Purpose)),
        (11, none(), none(), json!({ "typ": "Refresh" }), no(Reason::Purpose)),
        (11, none(), none(), json!({ "typ": "Bearer" }), Ok(())),
        (11, profile(), none(), full(), no(Reason::Type)),
        (11, profile(), json!({ "typ": "JWT" }), full(), no(Reason::Type)),
        (11, profile(), access(), full(), Ok(())),
        (11, profile(), json!({ "typ": "application/AT+JWT" }), full(), Ok(())),
        (11, profile(), access(), json!({ "client_id": "c" }), no(Reason::Profile)),
        (11, profile(), access(), json!({ "jti": "j" }), no(Reason::Profile)),
        (11, profile(), access(), json!({ "client_id": "c", "jti": "j", "iat": null }), no(Reason::Profile)),
        (11, json!({ "token_types": ["JWT", "at+jwt"] }), json!({ "typ": "jwt" }), none(), Ok(())),
        (12, none(), none(), json!({ "sub": null }), no(Reason::Subject)),
        (12, none(), none(), json!({ "sub": "" }), no(Reason::Subject)),
        (12, none(), none(), json!({ "sub": 7 }), no(Reason::Subject)),
        (12, none(), none(), json!({ "sub": "a\r\nX-Evil: 1" }), no(Reason::Subject)),
        (12, none(), none(), json!({ "sub": "a\u{85}b" }), no(Reason::Subject)),
        (12, none(), none(), json!({ "groups": ["a\nb"] }), no(Reason::Groups)),
        (12, none(), none(), json!({ "groups": [""] }), no(Reason::Groups)),
        (13, none(), none(), json!({ "cnf": { "jkt": "x" } }), no(Reason::Bound)),
        (13, json!({ "accept_bound_tokens": true }), none(), json!({ "cnf": { "jkt": "x" } }), Ok(())),
        (14, json!({ "required_claims": { "scope": "lineage.write" } }), none(), none(), Err(Error::InsufficientScope)),
        (
            14,
            json!({ "required_claims": { "scope": "write" } }),
            none(),
            json!({ "scope": "write2 rewrite" }),
            Err(Error::InsufficientScope),
        ),
        (14, json!({ "required_claims": { "scope": "write" } }), none(), json!({ "scope": "read write" }), Ok(())),
        (14, json!({ "required_claims": { "scp": "write" } }), none(), json!({ "scp": ["read", "write"] }), Ok(())),
        (14, json!({ "required_claims": { "verified": "true" } }), none(), json!({ "verified": true }), Ok(())),
        (
            14,
            json!({ "required_claims": { "tier": "2" } }),
            none(),
            json!({ "tier": 3 }),
            Err(Error::InsufficientScope),
        ),
    ]
}

#[tokio::test]
async fn each_row_of_the_checklist_gets_its_answer() {
    let bench = Bench::new();
    for (row, config, header, patch, expected) in rows() {
        let token = bench.token(&header, &patch);
        let answer = judge(&bench.auth(&config), &token).await.map(drop);
        assert_eq!(answer, expected, "row {row}: {config} {header} {patch}");
    }
}

#[tokio::test]
async fn how_a_token_is_sent_is_judged_first() {
    let bench = Bench::new();
    let auth = bench.auth(&json!({}));
    let good = headers(&bench.token(&json!({}), &json!({})));
    let mut twice = good.clone();
    twice.append(AUTHORIZATION, HeaderValue::from_static("Basic YTpi"));
    let mut long = HeaderMap::new();
    long.insert(AUTHORIZATION, HeaderValue::from_str(&format!("Bearer {}", "a".repeat(8 * 1024 + 1))).unwrap());
    let table: [(&HeaderMap, Option<&str>, Error); 5] = [
        (&HeaderMap::new(), None, Error::NoToken),
        (&twice, None, Reason::SentTwice.into()),
        (&good, Some("access_token=x"), Reason::InQuery.into()),
        (&HeaderMap::new(), Some("a=b&access_token=x"), Reason::InQuery.into()),
        (&long, None, Reason::TooLong.into()),
    ];
    for (headers, query, error) in table {
        assert_eq!(auth.authenticate_at(headers, query, at(NOW)).await, Err(error));
    }
    assert!(auth.authenticate_at(&good, Some("a=b"), at(NOW)).await.is_ok());
}

#[tokio::test]
async fn a_token_of_another_form_is_malformed() {
    let bench = Bench::new();
    let auth = bench.auth(&json!({}));
    let good = bench.token(&json!({}), &json!({}));
    let parts: Vec<_> = good.split('.').collect();
    let (header, payload, signature) = (parts[0], parts[1], parts[2]);
    let encode = |text: &str| URL_SAFE_NO_PAD.encode(text);
    let signed = |payload: &[u8]| bench.key.sign_parts(&json!({ "alg": "ES256" }), payload).unwrap();
    // 64 bytes leave four bits of the last character unused.
    let last = signature.chars().last().unwrap();
    let alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let other = alphabet.chars().nth(alphabet.find(last).unwrap() + 1).unwrap();
    let trailing_bits = format!("{header}.{payload}.{}{other}", signature.strip_suffix(last).unwrap());
    let doubled = claims(&json!({})).to_string().replacen('{', "{\"sub\":\"root\",", 1);
    let table = [
        ("a".to_owned(), Reason::Malformed),
        (format!("{header}.{payload}"), Reason::Malformed),
        (format!("{header}.{payload}."), Reason::Malformed),
        (format!(".{payload}.{signature}"), Reason::Malformed),
        (format!("{header}..{signature}"), Reason::Malformed),
        (format!("{header}.{payload}.{signature}.x"), Reason::Malformed),
        (format!("{header}.{payload}.{signature}.x.y"), Reason::Encrypted),
        (format!("{header}.{payload}.{signature}.x.y.z"), Reason::Malformed),
        (trailing_bits, Reason::Malformed),
        (format!("{}.{payload}.{signature}", encode("[]")), Reason::Malformed),
        (format!("{}.{payload}.{signature}", encode("{\"alg\":\"ES256\",\"alg\":\"ES256\"}")), Reason::Malformed),
        (format!("{}.{payload}.{signature}", encode("nonsense")), Reason::Malformed),
        (signed(b"[]"), Reason::Malformed),
        (signed(b"{\"iss\":\"\xff\"}"), Reason::Malformed),
        (signed(doubled.as_bytes()), Reason::Malformed),
        (signed(good.as_bytes()), Reason::Malformed),
    ];
    for (token, reason) in table {
        assert_eq!(judge(&auth, &token).await, Err(reason.into()), "{token}");
    }
}

#[tokio::test]
async fn the_key_in_a_header_is_not_believed() {
    let bench = Bench::new();
    let auth = bench.auth(&json!({}));
    let attacker = SigningKey::generate().unwrap();
    let jwks: Value = serde_json::from_str(&attacker.jwks()).unwrap();
    for kid in [attacker.kid(), bench.key.kid()] {
        let header = json!({ "alg": "ES256", "kid": kid, "jwk": jwks["keys"][0] });
        let token = attacker.sign_parts(&header, claims(&json!({})).to_string().as_bytes()).unwrap();
        let reason = if kid == attacker.kid() { Reason::UnknownKey } else { Reason::Signature };
        assert_eq!(judge(&auth, &token).await, Err(reason.into()));
    }
}

#[tokio::test]
async fn a_public_key_is_no_shared_secret() {
    let bench = Bench::new();
    let header = json!({ "alg": "HS256", "kid": bench.key.kid() });
    let token = hs256(bench.key.public_pem().as_bytes(), &header, &claims(&json!({})));
    assert_eq!(judge(&bench.auth(&json!({})), &token).await, Err(Reason::Algorithm.into()));
}

#[tokio::test]
async fn signatures_of_another_form_do_not_hold() {
    let bench = Bench::new();
    let auth = bench.auth(&json!({}));
    let signed = unsigned(&json!({ "alg": "ES256", "kid": bench.key.kid() }), &claims(&json!({})));
    let good = bench.token(&json!({}), &json!({}));
    let raw = URL_SAFE_NO_PAD.decode(good.rsplit('.').next().unwrap()).unwrap();
    let der = [&[0x30, 0x46, 0x02, 0x21, 0x00][..], &raw[..32], &[0x02, 0x21, 0x00], &raw[32..]].concat();
    let zero = [0; 32];
    let large = [0xff; 32];
    let table: [Vec<u8>; 8] = [
        der,
        raw[..63].to_vec(),
        [&raw[..], &[0]].concat(),
        [&zero[..], &raw[32..]].concat(),
        [&raw[..32], &zero].concat(),
        [zero, zero].concat(),
        [&large[..], &raw[32..]].concat(),
        [&raw[..32], &large].concat(),
    ];
    for signature in table {
        let token = format!("{signed}.{}", URL_SAFE_NO_PAD.encode(&signature));
        assert_eq!(judge(&auth, &token).await, Err(Reason::Signature.into()), "{signature:?}");
    }
}

#[tokio::test]
async fn issuers_verify_with_their_own_keys_and_name_their_own_callers() {
    let (one, two) = (Bench::new(), Bench::new());
    let second = "https://two.example.com";
    let issuers =
        [one.issuer(&json!({ "prefix": "one:" })), two.issuer(&json!({ "issuer": second, "prefix": "two:" }))];
    let auth = authenticator(&issuers).ok().unwrap();
    let groups = json!({ "groups": ["g"] });
    let caller = judge(&auth, &one.token(&json!({}), &groups)).await.unwrap();
    assert_eq!((&*caller.subject, &*caller.groups[0], &*caller.issuer), ("one:alice", "one:g", ISSUER));
    let from_two = json!({ "iss": second, "groups": ["g"] });
    let caller = judge(&auth, &two.token(&json!({}), &from_two)).await.unwrap();
    assert_eq!((&*caller.subject, &*caller.groups[0], &*caller.issuer), ("two:alice", "two:g", second));
    assert_eq!(judge(&auth, &one.token(&json!({}), &from_two)).await, Err(Reason::UnknownKey.into()));
    let without_kid = one.token(&json!({ "kid": null }), &from_two);
    assert_eq!(judge(&auth, &without_kid).await, Err(Reason::Signature.into()));
}

#[tokio::test]
async fn leeway_ends_a_token_to_the_second() {
    let bench = Bench::new();
    let auth = bench.auth(&json!({ "leeway": "5s" }));
    let token = bench.token(&json!({}), &json!({ "exp": NOW + 10 }));
    assert!(judge_at(&auth, &token, NOW + 14).await.is_ok());
    assert_eq!(judge_at(&auth, &token, NOW + 15).await, Err(Reason::Expired.into()));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_token_with_one_byte_changed_never_authenticates(position in any::<prop::sample::Index>(), byte in 0x21_u8..0x7f) {
        let bench = Bench::new();
        let auth = bench.auth(&json!({}));
        let mut token = bench.token(&json!({}), &json!({ "groups": ["g"] })).into_bytes();
        let position = position.index(token.len());
        prop_assume!(token[position] != byte);
        token[position] = byte;
        let token = String::from_utf8(token).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        prop_assert!(runtime.block_on(judge(&auth, &token)).is_err());
    }

    #[test]
    fn any_header_value_is_judged_without_a_panic(value in proptest::collection::vec(any::<u8>(), 0..200)) {
        let Ok(value) = HeaderValue::from_bytes(&value) else { return Ok(()) };
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, value);
        prop_assert!(crate::auth::parse_bearer(&headers).is_err() || headers.len() == 1);
    }
}
