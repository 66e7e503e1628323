use serde_json::{Value, json};

use super::*;

const N: &str = "n5IL9wvM5OSvXV8oJa1hrnF67dl9LK0_A6kWwZIoTlawcN0XmQxta9yAnEYCOXZ1oGyaOPe6qw-vIMdie7kdCeaZgutK1KPH_6akTPLBhNLEhd2CwXRPQHtf4uiC8uiMGi8BloieMz-iBRZUJY8d-43CkfaN9d9nYkVHIpmz5DVvyvLQsaQkqA2z4qU9MHwL_c1a7RQC2M3Ky6MIM1RWf855JwtBYpDXBEWN7ijjTAwNZJ0So6uq2xY6awOzbf_bMOnHDAgPJcuvF57kLnyzWWdJhcG9sQNBOFG6yZQEFN-p2MxJF3TidguJFcFys2ht0oXH-xZTtnhBujioaYKTuw";
const X: &str = "rIPDSlFxHz6LWAk6_6Cr2FazHmPtjt-yXrfPrnO3MJE";
const Y: &str = "_EIsmIihZsuSJACRf1vgrJ_6jTkVaO2JArimlP49Q_A";

fn rsa(patch: Value) -> Value {
    patched(json!({ "kty": "RSA", "kid": "K", "n": N, "e": "AQAB" }), patch)
}

fn ec(patch: Value) -> Value {
    patched(json!({ "kty": "EC", "kid": "K", "crv": "P-256", "x": X, "y": Y }), patch)
}

fn patched(mut key: Value, patch: Value) -> Value {
    for (name, value) in patch.as_object().unwrap() {
        key[name.as_str()] = value.clone();
    }
    key
}

fn parse_keys(keys: &[Value]) -> Parsed {
    parse(json!({ "keys": keys }).to_string().as_bytes(), &[Algorithm::Rs256, Algorithm::Es256]).unwrap()
}

/// The modulus as OpenMetadata writes it: a leading zero byte, and padding.
fn java(n: &str) -> String {
    let bytes = LENIENT.decode(n).unwrap();
    base64::engine::general_purpose::URL_SAFE.encode([vec![0], bytes].concat())
}

#[test]
fn usable_keys_are_taken_as_issuers_write_them() {
    let table = [
        rsa(json!({})),
        rsa(json!({ "alg": "RS256", "use": "sig" })),
        rsa(json!({ "key_ops": ["sign", "verify"] })),
        rsa(json!({ "x5c": ["AAAA"], "x5t": "x", "unknown": { "a": 1 } })),
        rsa(json!({ "n": java(N), "e": "AAEAAQ==" })),
        rsa(json!({ "kid": null })),
        ec(json!({})),
        ec(json!({ "alg": "ES256" })),
        ec(json!({ "x": java(X) })),
    ];
    for key in table {
        let parsed = parse_keys(std::slice::from_ref(&key));
        assert_eq!((parsed.keys.len(), parsed.skipped), (1, Vec::new()), "{key}");
    }
}

#[test]
fn padding_and_a_leading_zero_do_not_make_another_key() {
    let parsed = parse_keys(&[rsa(json!({})), rsa(json!({ "n": java(N), "e": "AAEAAQ==" }))]);
    assert_eq!(parsed.keys.len(), 1);
}

#[test]
fn unusable_keys_are_skipped_with_a_reason_and_the_others_kept() {
    let small = LENIENT.encode([0xff; 128]);
    let table = [
        (json!("x"), "is no JSON Web Key"),
        (json!({ "kid": "K" }), "is no JSON Web Key"),
        (rsa(json!({ "kid": 7 })), "is no JSON Web Key"),
        (json!({ "kty": "oct", "k": "AAAA" }), "is a shared secret"),
        (rsa(json!({ "kty": "XYZ" })), "has a `kty` that is not supported"),
        (rsa(json!({ "use": "enc" })), "is not for signatures"),
        (rsa(json!({ "key_ops": ["encrypt"] })), "is not for verification"),
        (rsa(json!({ "key_ops": [] })), "is not for verification"),
        (rsa(json!({ "alg": "RSA-OAEP" })), "is for an `alg` that is not supported"),
        (rsa(json!({ "alg": "none" })), "is for an `alg` that is not supported"),
        (rsa(json!({ "alg": "ES256" })), "does not go with its `kty` or `crv`"),
        (rsa(json!({ "alg": "HS256" })), "does not go with its `kty` or `crv`"),
        (rsa(json!({ "alg": "PS256" })), "not one of the accepted `algorithms`"),
        (rsa(json!({ "n": small })), "less than 2048 bits"),
        (rsa(json!({ "n": "" })), "is no valid RSA key"),
        (rsa(json!({ "n": "!" })), "holds bad base64url"),
        (rsa(json!({ "e": null })), "lacks a number"),
        (rsa(json!({ "e": "AA" })), "is no valid RSA key"),
        (ec(json!({ "crv": "P-521" })), "has a `crv` that is not supported"),
        (ec(json!({ "crv": null })), "has a `crv` that is not supported"),
        (ec(json!({ "crv": "P-384" })), "serves none of the accepted"),
        (ec(json!({ "x": N })), "too long for its `crv`"),
        (ec(json!({ "y": X })), "is no valid key of its type"),
        (json!({ "kty": "OKP", "crv": "Ed25519", "x": X }), "serves none of the accepted"),
        (json!({ "kty": "OKP", "crv": "X25519", "x": X }), "has a `crv` that is not supported"),
    ];
    for (key, reason) in table {
        let parsed = parse_keys(&[key.clone(), ec(json!({ "kid": "good" }))]);
        assert_eq!(parsed.keys.len(), 1, "{key}");
        assert!(parsed.keys.find(Some("good"), Algorithm::Es256).is_ok());
        assert!(parsed.skipped.len() == 1 && parsed.skipped[0].contains(reason), "{key}: {:?}", parsed.skipped);
    }
}

#[test]
fn a_document_that_is_no_key_set_is_an_error() {
    for text in ["", "{}", "[]", "<html>", "{\"keys\":{}}", "{\"keys\":[]} x"] {
        assert!(parse(text.as_bytes(), &[Algorithm::Rs256]).is_err(), "{text}");
    }
    let wrong_file = parse(b"\"a secret\"", &[Algorithm::Rs256]).err().unwrap();
    assert!(!wrong_file.contains("secret"), "{wrong_file}");
    let huge = format!("{{\"keys\":[]}}{}", " ".repeat(MAX_BYTES));
    assert!(parse(huge.as_bytes(), &[Algorithm::Rs256]).err().unwrap().contains("larger than 262144 bytes"));
}

#[test]
fn the_number_of_keys_is_bounded() {
    let keys: Vec<_> = (0..MAX_KEYS + 5).map(|number| ec(json!({ "kid": number.to_string() }))).collect();
    let parsed = parse_keys(&keys);
    assert_eq!(parsed.keys.len(), MAX_KEYS);
    assert_eq!(parsed.skipped.len(), 1);
}
