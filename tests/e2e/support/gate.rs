//! A whole gate in this process, on ports that the system chose, with keys and certificates made for it.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{Request, request};
use http_body_util::Full;
use lineage_gate::app::App;
use lineage_gate::auth::dev::SigningKey;
use lineage_gate::config::{self, Address};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::client::{self, Reply};

pub(crate) const ISSUER: &str = "https://idp.test/";

/// What a gate is started with; each part is a piece of its configuration.
pub(crate) struct Setup {
    pub(crate) dir: TempDir,
    pub(crate) key: SigningKey,
    address: String,
    listener: String,
    issuer: String,
    issuers: String,
    policy: String,
    limits: String,
    event: String,
    upstream: String,
    admin: String,
    drain: String,
    more: String,
}

pub(crate) struct Gate {
    pub(crate) dir: TempDir,
    pub(crate) key: SigningKey,
    pub(crate) app: App,
    pub(crate) address: SocketAddr,
}

impl Setup {
    /// Files, the demonstration's policy, no limits, and a `file` upstream.
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let key = SigningKey::generate().unwrap();
        fs::write(dir.path().join("jwks.json"), key.jwks()).unwrap();
        fs::create_dir(dir.path().join("policies")).unwrap();
        let policy = concat!(env!("CARGO_MANIFEST_DIR"), "/policies/demo.yaml");
        fs::copy(policy, dir.path().join("policies/demo.yaml")).unwrap();
        make_certificate(dir.path(), "localhost");
        Self {
            dir,
            key,
            address: "127.0.0.1:0\n    tls: { certificate: tls.crt, key: tls.key }".into(),
            listener: String::new(),
            issuer: "jwks_file: jwks.json".into(),
            issuers: String::new(),
            policy: "{ files: policies/ }".into(),
            limits: "[]".into(),
            event: "{}".into(),
            upstream: "{ name: archive, kind: file, path: accepted.jsonl }".into(),
            admin: String::new(),
            drain: "{ grace: 0s, deadline: 10s }".into(),
            more: String::new(),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn write(self, name: &str, content: &str) -> Self {
        fs::write(self.path(name), content).unwrap();
        self
    }

    /// More keys of the listener, one a line, without indentation.
    pub(crate) fn listener(self, yaml: &str) -> Self {
        let listener = yaml.lines().map(|line| format!("    {line}\n")).collect();
        Self { listener, ..self }
    }

    /// Without TLS, at this address.
    pub(crate) fn plain(self, address: &str) -> Self {
        Self { address: address.into(), ..self }
    }

    /// One more issuer, in one line.
    pub(crate) fn another_issuer(self, yaml: &str) -> Self {
        Self { issuers: format!("{}    - {yaml}\n", self.issuers), ..self }
    }

    pub(crate) fn issuer(self, yaml: &str) -> Self {
        let issuer = yaml.lines().collect::<Vec<_>>().join("\n      ");
        Self { issuer, ..self }
    }

    pub(crate) fn policy(self, yaml: &str) -> Self {
        Self { policy: yaml.into(), ..self }
    }

    pub(crate) fn limits(self, yaml: &str) -> Self {
        Self { limits: yaml.into(), ..self }
    }

    pub(crate) fn event(self, yaml: &str) -> Self {
        Self { event: yaml.into(), ..self }
    }

    pub(crate) fn upstream(self, yaml: &str) -> Self {
        Self { upstream: yaml.into(), ..self }
    }

    pub(crate) fn admin(self, yaml: &str) -> Self {
        Self { admin: format!("admin: {yaml}\n"), ..self }
    }

    /// More keys of the top level.
    pub(crate) fn more(self, yaml: &str) -> Self {
        Self { more: format!("{yaml}\n"), ..self }
    }

    pub(crate) fn drain(self, yaml: &str) -> Self {
        Self { drain: yaml.into(), ..self }
    }

    pub(crate) fn yaml(&self) -> String {
        let Self { address, listener, issuer, issuers, policy, limits, event, upstream, admin, drain, more, .. } = self;
        format!(
            "\
listeners:
  - address: {address}
{listener}auth:
  issuers:
    - issuer: {ISSUER}
      audiences: [lineage]
      {issuer}
{issuers}policy: {policy}
limits: {limits}
event: {event}
upstreams: [{upstream}]
audit: {{ output: audit.jsonl }}
health: {{ address: 127.0.0.1:0 }}
{admin}{more}drain: {drain}
"
        )
    }

    pub(crate) async fn start(self) -> Gate {
        let file = self.path("lineage-gate.yaml");
        fs::write(&file, self.yaml()).unwrap();
        let loaded = config::load(&file).unwrap();
        let app = App::start(&loaded.config, loaded.redacted).await.unwrap();
        let address = match app.addresses().listeners[0] {
            Address::Tcp(address) => address,
            Address::Unix(_) => ([0; 4], 0).into(),
        };
        Gate { dir: self.dir, key: self.key, app, address }
    }
}

impl Gate {
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn ca(&self) -> PathBuf {
        self.path("ca.pem")
    }

    pub(crate) fn health(&self) -> SocketAddr {
        let Address::Tcp(address) = self.app.addresses().health else { panic!("no TCP health listener") };
        address
    }

    /// An event as bytes of HTTP/1.1, with more header lines, each ended by CR LF.
    pub(crate) fn raw(&self, subject: &str, headers: &str, event: &str) -> String {
        format!(
            "POST /api/lineage HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nContent-Length: {}\r\n\
             {headers}\r\n{event}",
            self.token(subject),
            event.len()
        )
    }

    pub(crate) fn token(&self, subject: &str) -> String {
        self.key.sign(&claims(subject)).unwrap()
    }

    /// A POST with a good token; more headers can be added before [`request::Builder::body`].
    pub(crate) fn post(&self, subject: &str, path: &str) -> request::Builder {
        Request::post(format!("https://localhost{path}"))
            .header("host", "localhost")
            .header(AUTHORIZATION, format!("Bearer {}", self.token(subject)))
            .header(CONTENT_TYPE, "application/json")
    }

    pub(crate) async fn send(&self, request: Request<Full<Bytes>>) -> Reply {
        client::http1(self.address, &self.ca(), request).await
    }

    /// Posts an event over HTTP/1.1.
    pub(crate) async fn event(&self, subject: &str, path: &str, event: impl Into<Bytes>) -> Reply {
        let request = self.post(subject, path).body(Full::new(event.into())).unwrap();
        self.send(request).await
    }

    /// The audit record of a reply, waited for: it is written after the answer.
    pub(crate) async fn audit_of(&self, reply: &Reply) -> Value {
        let id = reply.header("x-request-id").unwrap().to_owned();
        self.audit(move |record| record["request_id"] == id).await
    }

    /// The first audit record that `wanted` takes.
    pub(crate) async fn audit(&self, wanted: impl Fn(&Value) -> bool) -> Value {
        let audit = self.path("audit.jsonl");
        eventually(|| {
            let text = fs::read_to_string(&audit).unwrap_or_default();
            let mut records = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            records.find(|record| wanted(record))
        })
        .await
    }

    /// Waits until a line of the metrics is this one.
    pub(crate) async fn metric(&self, wanted: &str) {
        let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
        loop {
            let (_, metrics) = self.page("/metrics").await;
            if metrics.lines().any(|line| line == wanted) {
                return;
            }
            assert!(tokio::time::Instant::now() < deadline, "{wanted} is not in\n{metrics}");
        }
    }

    pub(crate) fn accepted(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.path("accepted.jsonl")).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// One page of the health listener: status and text.
    pub(crate) async fn page(&self, path: &str) -> (u16, String) {
        get(self.health(), path, &[]).await
    }
}

/// A GET over plain HTTP/1.1.
pub(crate) async fn get(address: SocketAddr, path: &str, headers: &[(&str, &str)]) -> (u16, String) {
    ask(address, "GET", path, headers).await
}

/// A request without a body over plain HTTP/1.1.
pub(crate) async fn ask(address: SocketAddr, method: &str, path: &str, headers: &[(&str, &str)]) -> (u16, String) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let request = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head[9..12].parse().unwrap(), body.to_owned())
}

/// Asks until there is an answer; a minute is more than any machine needs.
pub(crate) async fn eventually<T>(mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(tokio::time::Instant::now() < deadline, "what was waited for never came");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Good claims for an hour.
pub(crate) fn claims(subject: &str) -> Value {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    json!({ "iss": ISSUER, "aud": "lineage", "sub": subject, "iat": now, "exp": now + 3_600 })
}

/// `ca.pem`, `tls.crt` and `tls.key` in `directory`.
pub(crate) fn make_certificate(directory: &Path, name: &str) {
    let mut ca = rcgen::CertificateParams::new(Vec::new()).unwrap();
    ca.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    ca.distinguished_name.push(rcgen::DnType::CommonName, "test CA");
    let issuer = rcgen::CertifiedIssuer::self_signed(ca, rcgen::KeyPair::generate().unwrap()).unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let mut leaf = rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap();
    leaf.distinguished_name.push(rcgen::DnType::CommonName, name);
    let leaf = leaf.signed_by(&key, &issuer).unwrap();
    fs::write(directory.join("ca.pem"), issuer.pem()).unwrap();
    fs::write(directory.join("tls.crt"), leaf.pem()).unwrap();
    fs::write(directory.join("tls.key"), key.serialize_pem()).unwrap();
}
