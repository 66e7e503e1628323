//! What the tests of this stage share: a configured issuer, tokens with any change, independent signers.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};
use jsonwebtoken::EncodingKey;
use jsonwebtoken::jwk::Jwk;
use rcgen::{KeyPair, RsaKeySize};
use serde_json::{Value, json};

use crate::auth::dev::SigningKey;
use crate::auth::{Authenticator, Caller, Error, Fault, Metrics};
use crate::config;

pub(in crate::auth) const NOW: u64 = 1_800_000_000;
pub(in crate::auth) const ISSUER: &str = "https://idp.example.com/";

pub(in crate::auth) fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}

/// One issuer with one ES256 key, whose set lies in a directory of its own.
pub(in crate::auth) struct Bench {
    pub(in crate::auth) directory: tempfile::TempDir,
    pub(in crate::auth) key: SigningKey,
}

impl Bench {
    pub(in crate::auth) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let key = SigningKey::open(directory.path()).unwrap();
        Self { directory, key }
    }

    pub(in crate::auth) fn path(&self, name: &str) -> std::path::PathBuf {
        self.directory.path().join(name)
    }

    pub(in crate::auth) fn write_jwks(&self, keys: &[Value]) {
        std::fs::write(self.path("jwks.json"), json!({ "keys": keys }).to_string()).unwrap();
    }

    /// The issuer's configuration, changed by a JSON merge patch (RFC 7396).
    pub(in crate::auth) fn issuer(&self, patch: &Value) -> Value {
        let mut issuer = json!({ "issuer": ISSUER, "audiences": ["lineage"], "jwks_file": self.path("jwks.json") });
        merge(&mut issuer, patch);
        issuer
    }

    pub(in crate::auth) fn auth(&self, patch: &Value) -> Authenticator {
        authenticator(&[self.issuer(patch)]).map_err(|faults| texts(&faults)).unwrap()
    }

    /// A good token, changed by merge patches of its header and its claims.
    pub(in crate::auth) fn token(&self, header_patch: &Value, claims_patch: &Value) -> String {
        let mut header = json!({ "alg": "ES256", "kid": self.key.kid() });
        merge(&mut header, header_patch);
        self.key.sign_parts(&header, claims(claims_patch).to_string().as_bytes()).unwrap()
    }
}

pub(in crate::auth) fn claims(patch: &Value) -> Value {
    let mut claims = json!({ "iss": ISSUER, "aud": "lineage", "sub": "alice", "exp": NOW + 600, "iat": NOW });
    merge(&mut claims, patch);
    claims
}

pub(in crate::auth) fn config(issuers: &[Value]) -> config::Auth {
    serde_json::from_value(json!({ "issuers": issuers, "token_cache": 100, "max_token": "8KiB" })).unwrap()
}

pub(in crate::auth) fn authenticator(issuers: &[Value]) -> Result<Authenticator, Vec<Fault>> {
    Authenticator::new(&config(issuers), Arc::new(Metrics::default()))
}

pub(in crate::auth) fn texts(faults: &[Fault]) -> Vec<String> {
    faults.iter().map(ToString::to_string).collect()
}

pub(in crate::auth) fn headers(token: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(AUTHORIZATION, HeaderValue::from_str(&format!("Bearer {token}")).unwrap());
    headers
}

pub(in crate::auth) async fn judge(auth: &Authenticator, token: &str) -> Result<Caller, Error> {
    judge_at(auth, token, NOW).await
}

pub(in crate::auth) async fn judge_at(auth: &Authenticator, token: &str, seconds: u64) -> Result<Caller, Error> {
    auth.authenticate_at(&headers(token), None, at(seconds)).await
}

pub(in crate::auth) fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (name, change) in changes {
        if change.is_null() {
            target.as_object_mut().unwrap().remove(name);
        } else {
            merge(&mut target[name.as_str()], change);
        }
    }
}

/// A signer that shares no code with the verifier under test.
pub(in crate::auth) struct Signer {
    pub(in crate::auth) name: &'static str,
    pub(in crate::auth) jwk: Value,
    pub(in crate::auth) public_pem: String,
    algorithm: jsonwebtoken::Algorithm,
    key: EncodingKey,
}

impl Signer {
    /// By algorithm name, with a new key. The JWK has `kid` "K" and no `alg`.
    pub(in crate::auth) fn new(name: &'static str) -> Self {
        let algorithm: jsonwebtoken::Algorithm = name.parse().unwrap();
        let pair = match name {
            "ES256" => KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256),
            "ES384" => KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384),
            "EdDSA" => KeyPair::generate_for(&rcgen::PKCS_ED25519),
            _ => KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, RsaKeySize::_2048),
        }
        .unwrap();
        let pem = pair.serialize_pem();
        let key = match name {
            "ES256" | "ES384" => EncodingKey::from_ec_pem(pem.as_bytes()),
            "EdDSA" => Ok(EncodingKey::from_ed_der(pair.serialized_der())),
            _ => EncodingKey::from_rsa_pem(pem.as_bytes()),
        }
        .unwrap();
        let mut jwk = match name {
            "EdDSA" => {
                json!({ "kty": "OKP", "crv": "Ed25519", "x": URL_SAFE_NO_PAD.encode(pair.public_key_raw()) })
            }
            _ => serde_json::to_value(Jwk::from_encoding_key(&key, algorithm).unwrap()).unwrap(),
        };
        merge(&mut jwk, &json!({ "kid": "K", "alg": null }));
        Self { name, jwk, public_pem: pair.public_key_pem(), algorithm, key }
    }

    /// The same key under another algorithm of its family.
    pub(in crate::auth) fn under(mut self, name: &'static str) -> Self {
        self.algorithm = name.parse().unwrap();
        self.name = name;
        self
    }

    pub(in crate::auth) fn token(&self, header_patch: &Value, claims_patch: &Value) -> String {
        let mut header = json!({ "alg": self.name, "kid": "K" });
        merge(&mut header, header_patch);
        let signed = unsigned(&header, &claims(claims_patch));
        let signature = jsonwebtoken::crypto::sign(signed.as_bytes(), &self.key, self.algorithm).unwrap();
        format!("{signed}.{signature}")
    }
}

pub(in crate::auth) fn unsigned(header: &Value, claims: &Value) -> String {
    format!("{}.{}", URL_SAFE_NO_PAD.encode(header.to_string()), URL_SAFE_NO_PAD.encode(claims.to_string()))
}

pub(in crate::auth) fn hs256(secret: &[u8], header: &Value, claims: &Value) -> String {
    let signed = unsigned(header, claims);
    let key = EncodingKey::from_secret(secret).unwrap();
    let signature = jsonwebtoken::crypto::sign(signed.as_bytes(), &key, jsonwebtoken::Algorithm::HS256).unwrap();
    format!("{signed}.{signature}")
}
