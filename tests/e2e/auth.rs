//! Tokens, as callers meet them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http_body_util::Full;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::support::client::Reply;
use crate::support::events::run;
use crate::support::gate::{Gate, Setup, claims};

const PATH: &str = "/api/v1/lineage";

async fn with(gate: &Gate, authorization: &[String]) -> Reply {
    let mut request = gate.post("alice", PATH);
    let headers = request.headers_mut().unwrap();
    headers.remove("authorization");
    for value in authorization {
        headers.append("authorization", value.parse().unwrap());
    }
    gate.send(request.body(Full::from(run(&[], &[]))).unwrap()).await
}

#[tokio::test]
async fn a_401_challenges_by_rfc_6750_and_repeats_nothing_of_the_request() {
    let gate = Setup::new().start().await;
    let token = gate.token("alice");
    let mut expired = claims("alice");
    expired["exp"] = json!(1_000_000);
    let expired = format!("Bearer {}", gate.key.sign(&expired).unwrap());
    let forged = format!("Bearer {}AAAA", &token[..token.len() - 4]);

    let reply = with(&gate, &[]).await;
    let challenge = reply.header("www-authenticate").unwrap().to_owned();
    assert_eq!(reply.status.as_u16(), 401);
    assert!(challenge.starts_with("Bearer realm=") && !challenge.contains("error"), "{challenge}");
    for header in [expired, forged, "Bearer x.y.z".into(), "Basic YTpi".into()] {
        let reply = with(&gate, std::slice::from_ref(&header)).await;
        let challenge = reply.header("www-authenticate").unwrap();
        assert_eq!(reply.status.as_u16(), 401, "{header}");
        assert!(challenge.contains("error=\"invalid_token\"") || header.starts_with("Basic"), "{challenge}");
        let all = format!("{:?} {:?} {}", reply.reason, reply.headers, reply.text());
        let sent = header.split_once(' ').unwrap().1;
        assert!(!all.contains(sent), "{all}");
    }
    let two = with(&gate, &[format!("Bearer {token}"), format!("Bearer {token}")]).await;
    assert_eq!(two.status.as_u16(), 401);
    assert!(two.text().contains("two") || two.text().contains("more than one"), "{}", two.text());
    assert_eq!(with(&gate, &[format!("bearer {token}")]).await.status.as_u16(), 201);
}

#[tokio::test]
async fn a_missing_required_claim_is_a_403_about_scope() {
    let gate = Setup::new().issuer("jwks_file: jwks.json\nrequired_claims: { scope: lineage.write }").start().await;
    let reply = with(&gate, &[format!("Bearer {}", gate.token("alice"))]).await;
    assert_eq!(reply.status.as_u16(), 403);
    assert!(reply.header("www-authenticate").unwrap().contains("insufficient_scope"));
    let mut scoped = claims("alice");
    scoped["scope"] = json!("openid lineage.write");
    let reply = with(&gate, &[format!("Bearer {}", gate.key.sign(&scoped).unwrap())]).await;
    assert_eq!(reply.status.as_u16(), 201);
}

#[tokio::test]
async fn the_second_request_with_a_token_costs_no_signature_check() {
    let gate = Setup::new().start().await;
    let header = [format!("Bearer {}", gate.token("alice"))];
    for _ in 0..3 {
        assert_eq!(with(&gate, &header).await.status.as_u16(), 201);
    }
    let (_, metrics) = gate.page("/metrics").await;
    let checks = metrics.lines().find(|line| line.starts_with("lineage_gate_auth_signature_checks_total")).unwrap();
    assert!(checks.ends_with(" 1"), "{checks}");
}

/// An issuer whose key set can be there or not.
struct Idp {
    url: String,
    jwks: Arc<std::sync::Mutex<Option<String>>>,
    fetched: Arc<AtomicUsize>,
}

impl Idp {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/keys", listener.local_addr().unwrap());
        let jwks = Arc::new(std::sync::Mutex::new(None::<String>));
        let fetched = Arc::new(AtomicUsize::new(0));
        let (serving, counting) = (Arc::clone(&jwks), Arc::clone(&fetched));
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut head = [0; 4096];
                let _ = stream.read(&mut head).await;
                counting.fetch_add(1, Ordering::SeqCst);
                let body = serving.lock().unwrap().clone();
                let answer = match body {
                    Some(body) => {
                        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
                    }
                    None => "HTTP/1.1 500 Oops\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".into(),
                };
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        });
        Self { url, jwks, fetched }
    }
}

#[tokio::test]
async fn without_keys_the_gate_is_live_not_ready_and_answers_503_until_they_come() {
    let idp = Idp::start().await;
    let gate = Setup::new().issuer(&format!("jwks: {}", idp.url)).start().await;
    assert_eq!(gate.page("/livez").await.0, 200);
    let (status, missing) = gate.page("/readyz").await;
    assert_eq!(status, 503);
    assert!(missing.contains("keys of https://idp.test/"), "{missing}");
    let header = [format!("Bearer {}", gate.token("alice"))];
    let reply = with(&gate, &header).await;
    assert_eq!((reply.status.as_u16(), reply.header("retry-after")), (503, Some("1")));

    *idp.jwks.lock().unwrap() = Some(gate.key.jwks());
    assert!(gate.app.readiness().wait().await);
    assert_eq!(with(&gate, &header).await.status.as_u16(), 201);

    *idp.jwks.lock().unwrap() = None;
    let before = idp.fetched.load(Ordering::SeqCst);
    for number in 0..20 {
        let forged = json!({ "alg": "ES256", "kid": format!("garbage-{number}") });
        let token = gate.key.sign_parts(&forged, claims("alice").to_string().as_bytes()).unwrap();
        assert_eq!(with(&gate, &[format!("Bearer {token}")]).await.status.as_u16(), 401);
    }
    assert!(idp.fetched.load(Ordering::SeqCst) <= before + 1, "unknown kids must not hammer the issuer");
    assert_eq!(with(&gate, &header).await.status.as_u16(), 201, "the last good keys serve");
}
