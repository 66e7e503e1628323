//! What the tests of this stage share: a listener that is set up in a line, certificates, a client that reads bytes.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use prometheus_client::registry::Registry;
use rcgen::{CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair, date_time_ymd};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::watch;

use super::body::Linger;
use super::connection::Server;
use super::{Body, Drain, Metrics, Peer, Protocol, Reply};
use crate::config;

/// Everything around a connection under test.
pub(super) struct Bench {
    pub(super) listener: config::Listener,
    pub(super) drain: Drain,
    pub(super) metrics: Metrics,
    registry: Registry,
}

impl Bench {
    /// `settings` are those of one listener, in JSON, without its address.
    pub(super) fn new(settings: &str) -> Self {
        let comma = if settings.is_empty() { "" } else { "," };
        let text = format!(r#"{{"address": "127.0.0.1:0", "name": "test" {comma} {settings}}}"#);
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        Self { listener: serde_json::from_str(&text).unwrap(), drain: Drain::new(), metrics, registry }
    }

    pub(super) fn server<H>(&self, handler: H) -> Server<H> {
        Server {
            handler,
            linger: Linger::new(self.drain.clone(), self.metrics.clone()),
            metrics: self.metrics.listener(&"test".into()),
            drain: self.drain.clone(),
            listener: Arc::new(self.listener.clone()),
        }
    }

    /// A sample of the metrics, 0 if it is not there. `kind` is empty where there is no such label.
    pub(super) fn count(&self, name: &str, kind: &str) -> u64 {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        let labels = match kind {
            "" => "listener=\"test\"".to_owned(),
            kind => format!("listener=\"test\",kind=\"{kind}\""),
        };
        let names = [format!("{name}{{{labels}}} "), format!("{name} ")];
        let line = text.lines().find_map(|line| names.iter().find_map(|name| line.strip_prefix(name.as_str())));
        line.map_or(0, |value| value.parse().unwrap())
    }

    /// Waits until a sample has this value.
    pub(super) async fn until(&self, name: &str, kind: &str, value: u64) {
        // Counted in turns, since paused time does not pass while anybody is busy.
        for _ in 0..300_000 {
            if self.count(name, kind) == value {
                return;
            }
            tokio::task::yield_now().await;
        }
        panic!("{name} {kind} is {} and not {value}", self.count(name, kind));
    }
}

pub(super) fn peer(protocol: Protocol) -> Peer {
    Peer { address: None, certificate: None, listener: "test".into(), protocol }
}

/// A gate that requests wait at, and the number of those that came.
#[derive(Clone)]
pub(super) struct Turnstile {
    open: watch::Sender<bool>,
    came: watch::Sender<usize>,
}

impl Turnstile {
    pub(super) fn new() -> Self {
        Self { open: watch::Sender::new(false), came: watch::Sender::new(0) }
    }

    pub(super) fn open(&self) {
        self.open.send_replace(true);
    }

    pub(super) async fn pass(&self) {
        self.came.send_modify(|came| *came += 1);
        self.open.subscribe().wait_for(|open| *open).await.map(drop).unwrap();
    }

    pub(super) async fn came(&self, count: usize) {
        self.came.subscribe().wait_for(|came| *came >= count).await.map(drop).unwrap();
    }

    pub(super) fn so_far(&self) -> usize {
        *self.came.borrow()
    }
}

/// Does what the path says: `/early` answers 401 without a look at the body, `/wait` waits at the turnstile, `/panic`
/// panics, `/big` answers with 8 MiB; everything else answers 200 with the length of the body, or 400 if it broke off.
pub(super) async fn answer(request: Request<Body>, turnstile: Turnstile) -> Response<Reply> {
    let (parts, body) = request.into_parts();
    match parts.uri.path() {
        "/early" => return text(StatusCode::UNAUTHORIZED, "no token"),
        "/panic" => panic!("as the test wants it"),
        "/big" => return Response::new(Reply::Whole(Full::new(vec![b'x'; 8 << 20].into()))),
        "/wait" => turnstile.pass().await,
        _ => {}
    }
    match body.collect().await {
        Ok(body) => text(StatusCode::OK, &format!("{} bytes", body.to_bytes().len())),
        Err(_) => text(StatusCode::BAD_REQUEST, "the body broke off"),
    }
}

fn text(status: StatusCode, text: &str) -> Response<Reply> {
    let mut response = Response::new(Reply::Whole(Full::new(Bytes::from(text.to_owned()))));
    *response.status_mut() = status;
    response
}

/// An HTTP/1.1 answer as it came over the wire.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) head: String,
    pub(super) body: String,
}

impl Answer {
    /// Reads one answer with a Content-Length; nothing at the end of the stream.
    pub(super) async fn read(io: &mut (impl AsyncRead + Unpin)) -> Option<Self> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            match io.read_u8().await {
                Ok(byte) => head.push(byte),
                Err(error) if head.is_empty() && error.kind() == ErrorKind::UnexpectedEof => return None,
                Err(error) => panic!("{error} after {:?}", String::from_utf8_lossy(&head)),
            }
        }
        let head = String::from_utf8(head).unwrap().to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).map_or("0", str::trim);
        let mut body = vec![0; length.parse().unwrap()];
        io.read_exact(&mut body).await.unwrap();
        Some(Self {
            status: head.split(' ').nth(1).unwrap().parse().unwrap(),
            head,
            body: String::from_utf8(body).unwrap(),
        })
    }

    pub(super) fn closes(&self) -> bool {
        self.head.contains("\r\nconnection: close\r\n")
    }
}

/// A CA, and files that it signed.
pub(super) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    pub(super) dir: TempDir,
}

impl Authority {
    pub(super) fn new() -> Self {
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "test CA");
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("ca.crt"), issuer.pem()).unwrap();
        Self { issuer, dir }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(super) fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// Chain and key in PEM, for `localhost` and for a client of this name, good until the end of this year.
    pub(super) fn issue(&self, name: &str, year: i32) -> (String, String) {
        let mut params = CertificateParams::new(vec!["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.not_after = date_time_ymd(year, 12, 31);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    /// Puts a new certificate and key into `tls.crt` and `tls.key`.
    pub(super) fn write_server(&self, year: i32) -> config::Tls {
        let (chain, key) = self.issue("gate", year);
        std::fs::write(self.path("tls.crt"), chain).unwrap();
        std::fs::write(self.path("tls.key"), key).unwrap();
        config::Tls { certificate: self.path("tls.crt"), key: self.path("tls.key"), client_ca: None }
    }
}
