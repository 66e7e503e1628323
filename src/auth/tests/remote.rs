//! Keys from a URL, over real sockets. Time moves only where a test says so.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use prometheus_client::registry::Registry;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls_pki_types::PrivatePkcs8KeyDer;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::support::{Bench, ISSUER, Signer, config, judge};
use crate::auth::{Authenticator, Error, Metrics, Reason};

/// An issuer's web server: answers every request with the bytes of the moment, or holds it.
struct Server {
    port: u16,
    answer: Arc<Mutex<Answer>>,
    heads: Arc<Mutex<Vec<String>>>,
    hits: watch::Receiver<usize>,
}

#[derive(Clone)]
enum Answer {
    Bytes(Vec<u8>),
    /// What a Kubernetes API server does: 406 unless its own media type, or anything, is accepted.
    Kubernetes(String),
    Hold,
}

impl Server {
    async fn start(answer: Answer, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (hit, hits) = watch::channel(0);
        let server = Self {
            port: listener.local_addr().unwrap().port(),
            answer: Arc::new(Mutex::new(answer)),
            heads: Arc::default(),
            hits,
        };
        let (answer, heads) = (Arc::clone(&server.answer), Arc::clone(&server.heads));
        tokio::spawn(async move {
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                let (answer, heads, hit, tls) = (Arc::clone(&answer), Arc::clone(&heads), hit.clone(), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        None => serve(socket, &answer, &heads, &hit).await,
                        Some(tls) => {
                            if let Ok(socket) = tls.accept(socket).await {
                                serve(socket, &answer, &heads, &hit).await;
                            }
                        }
                    }
                });
            }
        });
        server
    }

    fn set(&self, answer: Answer) {
        *self.answer.lock().unwrap() = answer;
    }

    fn hits(&self) -> usize {
        *self.hits.borrow()
    }

    async fn hit(&self, number: usize) {
        self.hits.clone().wait_for(|hits| *hits >= number).await.unwrap();
    }

    fn url(&self, scheme: &str) -> String {
        format!("{scheme}://127.0.0.1:{}/keys", self.port)
    }
}

async fn serve<S>(mut socket: S, answer: &Mutex<Answer>, heads: &Mutex<Vec<String>>, hit: &watch::Sender<usize>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match socket.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return,
        }
    }
    let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
    let answer = answer.lock().unwrap().clone();
    let bytes = match answer {
        Answer::Bytes(bytes) => Some(bytes),
        Answer::Kubernetes(keys) if head.contains("application/jwk-set+json") => Some(ok(&keys)),
        Answer::Kubernetes(_) => Some(status("406 Not Acceptable")),
        Answer::Hold => None,
    };
    heads.lock().unwrap().push(head);
    hit.send_modify(|hits| *hits += 1);
    match bytes {
        None => std::future::pending().await,
        // A client that has seen enough closes first.
        Some(bytes) => drop((socket.write_all(&bytes).await, socket.shutdown().await)),
    }
}

fn ok(body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\nContent-Type: application/jwk-set+json\r\nContent-Length: {length}\r\n\r\n{body}")
        .into()
}

fn status(status: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nLocation: /elsewhere\r\n\r\n").into()
}

fn set(keys: &[&Signer]) -> Answer {
    let keys: Vec<_> = keys.iter().map(|signer| signer.jwk.clone()).collect();
    Answer::Bytes(ok(&json!({ "keys": keys }).to_string()))
}

fn signer(kid: &str) -> Signer {
    let mut signer = Signer::new("ES256");
    signer.jwk["kid"] = json!(kid);
    signer
}

fn token(signer: &Signer) -> String {
    signer.token(&json!({ "kid": signer.jwk["kid"] }), &json!({}))
}

fn auth(url: &str, patch: &Value) -> Arc<Authenticator> {
    let mut issuer = json!({ "issuer": ISSUER, "audiences": ["lineage"], "jwks": url });
    super::support::merge(&mut issuer, patch);
    let config = config(&[issuer]);
    Arc::new(Authenticator::new(&config, Arc::new(Metrics::register(&mut Registry::default()))).ok().unwrap())
}

/// Starts the background task and waits for the end of its first fetch.
async fn started(auth: &Arc<Authenticator>) -> CancellationToken {
    let shutdown = CancellationToken::new();
    auth.spawn_refresh(&shutdown);
    ended(auth, 1).await;
    shutdown
}

async fn ended(auth: &Authenticator, fetches: u64) {
    auth.issuers[0].store.ended(fetches).await;
}

/// Moves tokio's clock. Sockets need it running otherwise.
async fn pass(seconds: u64) {
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(seconds)).await;
    tokio::time::resume();
}

fn unavailable() -> Error {
    Error::KeysUnavailable { issuer: ISSUER.into() }
}

#[tokio::test]
async fn a_kubernetes_api_server_gives_its_keys_for_the_token_of_the_moment() {
    let key = signer("K");
    let server = Server::start(Answer::Kubernetes(json!({ "keys": [key.jwk] }).to_string()), None).await;
    let bench = Bench::new();
    std::fs::write(bench.path("token"), "first\n").unwrap();
    let auth = auth(&server.url("http"), &json!({ "token_file": bench.path("token"), "refresh": "1m" }));
    assert_eq!(auth.missing(), [ISSUER.into()]);
    assert_eq!(judge(&auth, &token(&key)).await, Err(unavailable()));
    started(&auth).await;
    assert!(auth.missing().is_empty());
    assert!(judge(&auth, &token(&key)).await.is_ok());
    std::fs::write(bench.path("token"), "second").unwrap();
    pass(60).await;
    ended(&auth, 2).await;
    let heads = server.heads.lock().unwrap().clone();
    assert!(heads[0].contains("authorization: bearer first\r\n") && heads[0].starts_with("get /keys http/1.1\r\n"));
    assert!(heads[1].contains("authorization: bearer second\r\n"));
}

#[tokio::test]
async fn failed_fetches_are_repeated_until_the_keys_are_there() {
    let key = signer("K");
    let redirect = Answer::Bytes(status("302 Found"));
    let huge = Answer::Bytes(ok(&" ".repeat(300 * 1024)));
    let failures = [Answer::Bytes(status("500 Internal Server Error")), redirect, huge, Answer::Bytes(ok("<html>"))];
    let server = Server::start(failures[0].clone(), None).await;
    let auth = auth(&server.url("http"), &json!({}));
    started(&auth).await;
    for (number, failure) in (1..).zip(&failures[1..]) {
        assert_eq!(judge(&auth, &token(&key)).await, Err(unavailable()));
        server.set(failure.clone());
        pass(1 << (number - 1)).await;
        ended(&auth, number + 1).await;
    }
    assert_eq!(auth.missing(), [ISSUER.into()]);
    server.set(set(&[&key]));
    pass(8).await;
    ended(&auth, 5).await;
    assert!(judge(&auth, &token(&key)).await.is_ok());
    assert!(server.heads.lock().unwrap().iter().all(|head| head.starts_with("get /keys ")), "a redirect was followed");
}

#[tokio::test]
async fn a_silent_issuer_is_given_up_after_five_seconds() {
    let server = Server::start(Answer::Hold, None).await;
    let auth = auth(&server.url("http"), &json!({}));
    auth.spawn_refresh(&CancellationToken::new());
    server.hit(1).await;
    let key = signer("K");
    assert_eq!(judge(&auth, &token(&key)).await, Err(unavailable()));
    pass(5).await;
    ended(&auth, 1).await;
    server.set(set(&[&key]));
    pass(1).await;
    ended(&auth, 2).await;
    assert!(judge(&auth, &token(&key)).await.is_ok());
}

#[tokio::test]
async fn a_new_key_is_fetched_when_its_first_token_comes() {
    let (old, new) = (signer("old"), signer("new"));
    let server = Server::start(set(&[&old]), None).await;
    let auth = auth(&server.url("http"), &json!({}));
    started(&auth).await;
    assert!(judge(&auth, &token(&old)).await.is_ok());
    server.set(set(&[&old, &new]));
    assert_eq!(judge(&auth, &token(&new)).await, Err(Reason::UnknownKey.into()), "sooner than 10 s after a fetch");
    pass(10).await;
    ended(&auth, 2).await;
    assert!(judge(&auth, &token(&new)).await.is_ok());
    server.set(set(&[&new]));
    pass(10).await;
    let third = signer("third");
    assert_eq!(judge(&auth, &token(&third)).await, Err(Reason::UnknownKey.into()), "waited for a fetch");
    assert_eq!(server.hits(), 3);
    assert_eq!(judge(&auth, &token(&old)).await, Err(Reason::UnknownKey.into()), "its remembered token is gone too");
    let before = auth.metrics.signature_checks();
    assert!(judge(&auth, &token(&new)).await.is_ok(), "a kept key needs no second check");
    assert!(auth.metrics.signature_checks() <= before + 1);
}

#[tokio::test]
async fn garbage_key_ids_cannot_hammer_the_issuer() {
    let (key, garbage) = (signer("K"), signer("garbage"));
    let server = Server::start(set(&[&key]), None).await;
    let auth = auth(&server.url("http"), &json!({}));
    started(&auth).await;
    pass(10).await;
    let flood = (0..50).map(|number| {
        let token = garbage.token(&json!({ "kid": format!("garbage-{number}") }), &json!({}));
        let auth = Arc::clone(&auth);
        tokio::spawn(async move { judge(&auth, &token).await })
    });
    for answer in flood.collect::<Vec<_>>() {
        assert_eq!(answer.await.unwrap(), Err(Reason::UnknownKey.into()));
    }
    assert_eq!(server.hits(), 2, "all share one fetch");
    for _ in 0..50 {
        assert_eq!(judge(&auth, &token(&garbage)).await, Err(Reason::UnknownKey.into()));
    }
    pass(9).await;
    assert_eq!(judge(&auth, &token(&garbage)).await, Err(Reason::UnknownKey.into()));
    assert_eq!(server.hits(), 2);
    assert_eq!(auth.metrics.signature_checks(), 0);
}

#[tokio::test]
async fn the_last_good_keys_serve_until_they_are_too_old() {
    let (key, other) = (signer("K"), signer("other"));
    let server = Server::start(set(&[&key]), None).await;
    let auth = auth(&server.url("http"), &json!({ "refresh": "1m", "max_stale": "10m" }));
    started(&auth).await;
    server.set(Answer::Bytes(status("503 Service Unavailable")));
    pass(60).await;
    ended(&auth, 2).await;
    assert!(judge(&auth, &token(&key)).await.is_ok());
    assert_eq!(judge(&auth, &token(&other)).await, Err(unavailable()), "the key may be a new one");
    assert!(auth.missing().is_empty());
    server.set(Answer::Hold);
    pass(539).await;
    assert!(judge(&auth, &token(&key)).await.is_ok());
    pass(2).await;
    assert_eq!(judge(&auth, &token(&key)).await, Err(unavailable()), "remembered tokens end with their keys");
    assert_eq!(auth.missing(), [ISSUER.into()]);
}

#[tokio::test]
async fn an_issuer_that_takes_all_its_keys_back_is_believed() {
    let key = signer("K");
    let server = Server::start(set(&[&key]), None).await;
    let auth = auth(&server.url("http"), &json!({ "refresh": "1m" }));
    started(&auth).await;
    assert!(judge(&auth, &token(&key)).await.is_ok());
    server.set(set(&[]));
    pass(60).await;
    ended(&auth, 2).await;
    assert_eq!(judge(&auth, &token(&key)).await, Err(unavailable()));
}

#[tokio::test]
async fn a_shutdown_ends_the_background_task() {
    let server = Server::start(Answer::Hold, None).await;
    let auth = auth(&server.url("http"), &json!({}));
    let shutdown = CancellationToken::new();
    let store = Arc::clone(&auth.issuers[0].store);
    let task = tokio::spawn({
        let shutdown = shutdown.clone();
        async move { store.keep_fresh(shutdown).await }
    });
    server.hit(1).await;
    shutdown.cancel();
    task.await.unwrap();
}

/// A CA in a file, and a server certificate for 127.0.0.1 that it signed.
fn certificates(bench: &Bench, name: &str) -> (PathBuf, TlsAcceptor) {
    let ca_key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new([]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = params.self_signed(&ca_key).unwrap();
    let file = bench.path(name);
    std::fs::write(&file, ca.pem()).unwrap();
    let issuer = Issuer::new(params, ca_key);
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], PrivatePkcs8KeyDer::from(key.serialize_der()).into())
        .unwrap();
    (file, TlsAcceptor::from(Arc::new(config)))
}

#[tokio::test]
async fn https_trusts_the_ca_file_alone_and_reads_it_anew() {
    let bench = Bench::new();
    let (ca, tls) = certificates(&bench, "ca.pem");
    let (foreign, _) = certificates(&bench, "foreign.pem");
    let key = signer("K");
    let server = Server::start(set(&[&key]), Some(tls)).await;
    let url = server.url("https");
    let good = auth(&url, &json!({ "ca_file": ca }));
    assert_eq!(good.probe().await, [(ISSUER.into(), Ok(()))]);
    let wrong = auth(&url, &json!({ "ca_file": foreign }));
    let [(_, Err(text))] = &wrong.probe().await[..] else { panic!("a foreign CA was trusted") };
    assert!(text.starts_with(&url) && text.contains("invalid peer certificate"), "{text}");
    std::fs::copy(&ca, &foreign).unwrap();
    started(&wrong).await;
    assert!(judge(&wrong, &token(&key)).await.is_ok());
}

#[tokio::test]
async fn a_probe_names_the_root_cause() {
    let server = Server::start(Answer::Hold, None).await;
    let unused = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let bench = Bench::new();
    let table = [
        (Answer::Bytes(status("406 Not Acceptable")), "answered 406 Not Acceptable"),
        (Answer::Bytes(status("403 Forbidden")), "`token_file`"),
        (Answer::Bytes(status("404 Not Found")), "is it the URL of the key set?"),
        (Answer::Bytes(status("307 Temporary Redirect")), "answered 307 Temporary Redirect, a redirect"),
        (Answer::Bytes(ok("<html>")), "is no JSON Web Key Set"),
        (Answer::Bytes(ok(&"[".repeat(300 * 1024))), "answered more than 262144 bytes"),
        (
            Answer::Bytes(ok("{\"keys\":[{\"kty\":\"oct\"}]}")),
            "holds no usable key: key 0 (kid \"\") is a shared secret",
        ),
        (Answer::Bytes(b"SSH-2.0\r\n".to_vec()), "invalid HTTP version"),
        (Answer::Bytes(Vec::new()), "connection closed"),
    ];
    let auth_here = auth(&server.url("http"), &json!({}));
    for (answer, words) in table {
        server.set(answer);
        let [(_, Err(text))] = &auth_here.probe().await[..] else { panic!("taken: {words}") };
        assert!(text.starts_with(&server.url("http")) && text.contains(words), "{text}");
    }
    let nobody = auth(&format!("http://{unused}/"), &json!({}));
    let [(_, Err(text))] = &nobody.probe().await[..] else { panic!("connected to nobody") };
    assert!(text.contains("Connection refused"), "{text}");
    assert_eq!(bench.auth(&json!({})).probe().await, [(ISSUER.into(), Ok(()))]);
}
