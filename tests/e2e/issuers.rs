//! Kinds of issuers and of keys, through a whole gate.

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http_body_util::Full;
use lineage_gate::auth::dev::SigningKey;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::support::events::run;
use crate::support::gate::{Gate, Setup, claims, make_certificate};

async fn status(gate: &Gate, token: &str) -> u16 {
    let mut request = gate.post("alice", "/api/lineage");
    request.headers_mut().unwrap().insert("authorization", format!("Bearer {token}").parse().unwrap());
    gate.send(request.body(Full::from(run(&["lake.sales.orders"], &[]))).unwrap()).await.status.as_u16()
}

fn hs256(secret: &[u8], claims: &Value) -> String {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let signed = format!("{}.{}", part(&json!({ "alg": "HS256", "typ": "JWT" })), part(claims));
    let key = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, secret);
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(aws_lc_rs::hmac::sign(&key, signed.as_bytes())))
}

#[tokio::test]
async fn a_shared_secret_verifies_hs256_and_nothing_else() {
    let secret = "a secret of well over thirty-two bytes";
    let gate = Setup::new().write("secret", secret).issuer("secret_file: secret").start().await;
    assert_eq!(status(&gate, &hs256(secret.as_bytes(), &claims("alice"))).await, 201);
    assert_eq!(status(&gate, &hs256(b"another secret of over thirty-two bytes", &claims("alice"))).await, 401);
    assert_eq!(status(&gate, &gate.token("alice")).await, 401);

    let setup = Setup::new();
    let jwks = setup.key.jwks();
    let gate = setup.start().await;
    assert_eq!(status(&gate, &hs256(jwks.as_bytes(), &claims("alice"))).await, 401, "a public key is no secret");
}

#[tokio::test]
async fn a_public_key_file_verifies_tokens() {
    let setup = Setup::new();
    let pem = setup.key.public_pem();
    let gate = setup.write("public.pem", &pem).issuer("public_key_file: public.pem").start().await;
    assert_eq!(status(&gate, &gate.token("alice")).await, 201);
    assert_eq!(status(&gate, &SigningKey::generate().unwrap().sign(&claims("alice")).unwrap()).await, 401);
}

#[tokio::test]
async fn each_of_several_issuers_speaks_for_its_own_callers_only() {
    let other = SigningKey::generate().unwrap();
    let second = "{ issuer: 'https://other.test/', audiences: [lineage], prefix: 'other:', jwks_file: other.json }";
    let setup = Setup::new().issuer("jwks_file: jwks.json\nprefix: 'idp:'").another_issuer(second);
    let policy = fs::read_to_string(setup.path("policies/demo.yaml")).unwrap();
    let policy = policy.replace("users: [alice, bob, carol, dave, erin]", "users: ['idp:alice']");
    let policy = policy.replace("users: [alice, carol, dave]", "users: ['idp:alice']");
    let mut policy: Value = serde_json::to_value(serde_saphyr::from_str::<Value>(&policy).unwrap()).unwrap();
    // Roles of the demonstration that others hold are not needed here.
    let roles = policy["metalakes"][0]["roles"].as_array_mut().unwrap();
    roles.retain(|role| role["name"] == "sales_reader");
    policy["metalakes"][0]["owners"] = json!([]);
    fs::remove_file(setup.path("policies/demo.yaml")).unwrap();
    let gate = setup.write("other.json", &other.jwks()).write("policies/demo.json", &policy.to_string()).start().await;
    let mut of_other = claims("alice");
    of_other["iss"] = json!("https://other.test/");

    assert_eq!(status(&gate, &gate.token("alice")).await, 201);
    assert_eq!(status(&gate, &other.sign(&of_other).unwrap()).await, 403, "another issuer's alice is somebody else");
    assert_eq!(status(&gate, &gate.key.sign(&of_other).unwrap()).await, 401, "signed by the wrong issuer");
    assert_eq!(status(&gate, &other.sign(&claims("alice")).unwrap()).await, 401, "signed by the wrong issuer");
    let subjects = gate.audit(|record| record["status"] == 403).await["caller"]["subject"].clone();
    assert_eq!(subjects, "other:alice");
}

/// An API server as facts/kubernetes-real 4.2 and 4.3 measured it: TLS by a CA of its own, a token of the pod, 406 for
/// those who accept JSON alone.
async fn api_server(folder: &Path, jwks: String) -> (u16, Arc<Mutex<Vec<String>>>) {
    make_certificate(folder, "localhost");
    let chain = vec![CertificateDer::from_pem_file(folder.join("tls.crt")).unwrap()];
    let key = PrivateKeyDer::from_pem_file(folder.join("tls.key")).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    let (acceptor, listener) = (TlsAcceptor::from(Arc::new(config)), TcpListener::bind("127.0.0.1:0").await.unwrap());
    let port = listener.local_addr().unwrap().port();
    let heads = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&heads);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await.unwrap());
            }
            let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
            let accept = head.lines().find_map(|line| line.strip_prefix("accept: ")).unwrap_or("*/*");
            let (status, body) = match (head.contains("authorization: bearer pod-token"), accept) {
                (false, _) => ("401 Unauthorized", ""),
                (true, "application/json") => ("406 Not Acceptable", ""),
                (true, _) => ("200 OK", jwks.as_str()),
            };
            let answer = format!(
                "HTTP/1.1 {status}\r\nContent-Type: application/jwk-set+json\r\nContent-Length: {}\r\n\
                 Connection: close\r\n\r\n{body}",
                body.len()
            );
            seen.lock().unwrap().push(head);
            stream.write_all(answer.as_bytes()).await.unwrap();
            stream.shutdown().await.unwrap_or_default();
        }
    });
    (port, heads)
}

#[tokio::test]
async fn a_kubernetes_api_server_is_an_issuer() {
    let cluster = tempfile::tempdir().unwrap();
    let setup = Setup::new();
    let (port, heads) = api_server(cluster.path(), setup.key.jwks()).await;
    let ca = fs::read_to_string(cluster.path().join("ca.pem")).unwrap();
    let issuer = format!(
        "jwks: https://localhost:{port}/openid/v1/jwks\nca_file: cluster.pem\ntoken_file: pod-token\n\
         subject_pattern: 'system:serviceaccount:pipelines:(.+)'"
    );
    let gate = setup.write("cluster.pem", &ca).write("pod-token", "pod-token\n").issuer(&issuer).start().await;
    assert!(gate.app.readiness().wait().await);
    let mut account = claims("system:serviceaccount:pipelines:alice");
    account["aud"] = json!(["https://kubernetes.default.svc", "lineage"]);
    account["kubernetes.io"] = json!({ "namespace": "pipelines", "serviceaccount": { "name": "alice", "uid": "1" } });
    // Its tokens have no `typ`.
    let sign = |claims: &Value| {
        let header = json!({ "alg": "ES256", "kid": gate.key.kid() });
        gate.key.sign_parts(&header, claims.to_string().as_bytes()).unwrap()
    };
    assert_eq!(status(&gate, &sign(&account)).await, 201);
    assert_eq!(gate.audit(|record| record["status"] == 201).await["caller"]["subject"], "alice");
    account["sub"] = json!("system:serviceaccount:elsewhere:alice");
    assert_eq!(status(&gate, &sign(&account)).await, 401);
    account["sub"] = json!("system:serviceaccount:pipelines:alice");
    account["aud"] = json!(["https://kubernetes.default.svc"]);
    assert_eq!(status(&gate, &sign(&account)).await, 401);
    let heads = heads.lock().unwrap();
    assert!(heads[0].starts_with("get /openid/v1/jwks http/1.1\r\n"), "{}", heads[0]);
}

#[tokio::test]
async fn groups_of_the_token_count_and_groups_that_are_elsewhere_are_refused() {
    let gate = Setup::new().start().await;
    let with = |key: &str, value: Value| {
        let mut claims = claims("bob");
        claims[key] = value;
        gate.key.sign(&claims).unwrap()
    };
    assert_eq!(status(&gate, &gate.token("bob")).await, 403);
    assert_eq!(status(&gate, &with("groups", json!(["interns", "analysts"]))).await, 201);
    for (key, value) in [
        ("groups", json!("analysts")),
        ("groups", json!([1])),
        ("hasgroups", json!(true)),
        ("_claim_names", json!({ "groups": "src1" })),
    ] {
        assert_eq!(status(&gate, &with(key, value.clone())).await, 401, "{key}: {value}");
    }
}
