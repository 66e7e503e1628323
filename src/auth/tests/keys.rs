//! Where keys come from, and which of them a token means.

use serde_json::{Value, json};

use super::support::{Bench, Signer, authenticator, claims, hs256, judge, merge, texts};
use crate::auth::{Error, Reason};

const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";

#[tokio::test]
async fn every_algorithm_verifies_its_own_signatures_only() {
    let bench = Bench::new();
    let mut rsa = Signer::new("RS256");
    let mut signers = Vec::new();
    for name in ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"] {
        rsa = rsa.under(name);
        signers.push((name, rsa.jwk.clone(), rsa.token(&json!({}), &json!({}))));
    }
    for name in ["ES256", "ES384", "EdDSA"] {
        let signer = Signer::new(name);
        signers.push((name, signer.jwk.clone(), signer.token(&json!({}), &json!({}))));
    }
    for (name, jwk, _) in &signers {
        let mut exact = jwk.clone();
        merge(&mut exact, &json!({ "alg": name, "use": "sig", "key_ops": ["verify"] }));
        for jwk in [jwk, &exact] {
            bench.write_jwks(std::slice::from_ref(jwk));
            let auth = bench.auth(&json!({ "algorithms": [name] }));
            for (other, _, other_token) in &signers {
                let answer = judge(&auth, other_token).await.map(drop);
                let expected = if other == name { Ok(()) } else { Err(Reason::Algorithm.into()) };
                assert_eq!(answer, expected, "{other} at {name}");
            }
        }
    }
}

#[tokio::test]
async fn a_key_of_one_algorithm_serves_no_other_of_its_family() {
    let bench = Bench::new();
    let signer = Signer::new("RS256").under("PS256");
    let mut jwk = signer.jwk.clone();
    merge(&mut jwk, &json!({ "alg": "RS256" }));
    bench.write_jwks(&[jwk]);
    let auth = bench.auth(&json!({ "algorithms": ["RS256", "PS256"] }));
    assert_eq!(judge(&auth, &signer.token(&json!({}), &json!({}))).await, Err(Reason::KeyMismatch.into()));
}

#[tokio::test]
async fn a_token_without_kid_needs_exactly_one_key_of_its_algorithm() {
    let bench = Bench::new();
    let (one, two, rsa) = (Signer::new("ES256"), Signer::new("ES256"), Signer::new("RS256"));
    let with_kid = |signer: &Signer, kid: &str| {
        let mut jwk = signer.jwk.clone();
        merge(&mut jwk, &json!({ "kid": kid }));
        jwk
    };
    let token = one.token(&json!({ "kid": null }), &json!({}));
    let table: [(&[Value], Result<(), Error>); 4] = [
        (&[with_kid(&one, "1")], Ok(())),
        (&[with_kid(&one, "1"), with_kid(&one, "1"), with_kid(&rsa, "2")], Ok(())),
        (&[with_kid(&one, "1"), with_kid(&two, "2")], Err(Reason::AmbiguousKey.into())),
        (&[with_kid(&rsa, "1")], Err(Reason::UnknownKey.into())),
    ];
    for (keys, expected) in table {
        bench.write_jwks(keys);
        assert_eq!(judge(&bench.auth(&json!({})), &token).await.map(drop), expected, "{keys:?}");
    }
    bench.write_jwks(&[with_kid(&one, "K"), with_kid(&two, "K")]);
    let same_kid = one.token(&json!({}), &json!({}));
    assert_eq!(judge(&bench.auth(&json!({})), &same_kid).await, Err(Reason::AmbiguousKey.into()));
}

#[tokio::test]
async fn a_public_key_file_verifies_tokens_whatever_their_kid() {
    let bench = Bench::new();
    for name in ["ES256", "ES384", "EdDSA", "RS256", "PS512"] {
        let signer = Signer::new(if name == "PS512" { "RS256" } else { name }).under(name);
        std::fs::write(bench.path("public.pem"), &signer.public_pem).unwrap();
        let source = json!({ "jwks_file": null, "public_key_file": bench.path("public.pem"), "algorithms": [name] });
        let auth = bench.auth(&source);
        assert!(judge(&auth, &signer.token(&json!({}), &json!({}))).await.is_ok(), "{name}");
        assert!(judge(&auth, &signer.token(&json!({ "kid": null }), &json!({}))).await.is_ok(), "{name}");
    }
}

#[tokio::test]
async fn a_secret_serves_hs256_alone() {
    let bench = Bench::new();
    let source = json!({ "jwks_file": null, "secret_file": bench.path("secret") });
    let header = json!({ "alg": "HS256" });
    for content in [SECRET.to_vec(), [SECRET, b"\n"].concat(), [SECRET, b"\r\n"].concat()] {
        std::fs::write(bench.path("secret"), content).unwrap();
        let auth = bench.auth(&source);
        assert!(judge(&auth, &hs256(SECRET, &header, &claims(&json!({})))).await.is_ok());
        let wrong = hs256(b"another secret of thirty-two byte", &header, &claims(&json!({})));
        assert_eq!(judge(&auth, &wrong).await, Err(Reason::Signature.into()));
        let asymmetric = bench.token(&json!({}), &json!({}));
        assert_eq!(judge(&auth, &asymmetric).await, Err(Reason::Algorithm.into()));
    }
    let binary = [&[0xff; 40][..], b"\n"].concat();
    std::fs::write(bench.path("secret"), &binary).unwrap();
    assert!(judge(&bench.auth(&source), &hs256(&binary, &header, &claims(&json!({})))).await.is_ok());
}

#[test]
fn files_without_a_usable_key_are_named_all_together() {
    let bench = Bench::new();
    let write = |name: &str, content: &[u8]| {
        std::fs::write(bench.path(name), content).unwrap();
        bench.path(name)
    };
    let private = std::fs::read(bench.path("key.pem")).unwrap();
    let p384 = Signer::new("ES384").public_pem;
    let twice = [bench.key.public_pem(), bench.key.public_pem()].concat();
    let url = "https://idp.example.com/keys";
    let table: [(&str, Value, &str); 10] = [
        ("jwks_file", json!(bench.path("missing")), "cannot read"),
        ("jwks_file", json!(write("bad.json", b"{")), "is no JSON Web Key Set"),
        ("public_key_file", json!(write("private.pem", &private)), "PUBLIC KEY"),
        ("public_key_file", json!(write("twice.pem", twice.as_bytes())), "PUBLIC KEY"),
        ("public_key_file", json!(write("p384.pem", p384.as_bytes())), "serves none of the accepted"),
        ("secret_file", json!(write("short", &SECRET[1..])), "holds 31 bytes"),
        ("secret_file", json!(write("short.txt", &[&SECRET[1..], b"\n"].concat())), "holds 31 bytes"),
        ("ca_file", json!(write("ca.pem", b"nothing")), "CERTIFICATE"),
        ("token_file", json!(write("token", b" \n")), "is empty"),
        ("token_file", json!(bench.path("missing")), "cannot read"),
    ];
    let mut issuers = Vec::new();
    for (number, (name, path, _)) in table.iter().enumerate() {
        let mut issuer = json!({ "issuer": number.to_string(), "audiences": ["a"], "prefix": format!("{number}:") });
        issuer[*name] = path.clone();
        if matches!(*name, "ca_file" | "token_file") {
            issuer["jwks"] = json!(url);
        }
        issuers.push(issuer);
    }
    let faults = texts(&authenticator(&issuers).err().unwrap());
    assert_eq!(faults.len(), table.len(), "{faults:#?}");
    for (number, ((name, _, words), fault)) in table.iter().zip(&faults).enumerate() {
        assert!(fault.starts_with(&format!("auth.issuers[{number}].{name}: ")) && fault.contains(words), "{fault}");
        assert!(!fault.contains("0123456789"), "{fault}");
    }
}
