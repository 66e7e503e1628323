//! Clients: one request by hyper over TLS, HTTP/1.1 or HTTP/2, and raw bytes over TLS.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::client::conn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) reason: Option<String>,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Reply {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

pub(crate) async fn tls(address: SocketAddr, ca: &Path, alpn: &[u8]) -> TlsStream<TcpStream> {
    try_tls(address, ca, alpn, None).await.unwrap()
}

/// `shown` is the folder with `client.crt` and `client.key`.
pub(crate) async fn try_tls(
    address: SocketAddr,
    ca: &Path,
    alpn: &[u8],
    shown: Option<&Path>,
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(ca).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match shown {
        None => builder.with_no_client_auth(),
        Some(folder) => {
            let chain = vec![CertificateDer::from_pem_file(folder.join("client.crt")).unwrap()];
            let key = PrivateKeyDer::from_pem_file(folder.join("client.key")).unwrap();
            builder.with_client_auth_cert(chain, key).unwrap()
        }
    };
    config.alpn_protocols = vec![alpn.to_vec()];
    let stream = TcpStream::connect(address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    TlsConnector::from(Arc::new(config)).connect(ServerName::try_from("localhost").unwrap(), stream).await
}

/// One request on a connection of its own.
pub(crate) async fn http1(address: SocketAddr, ca: &Path, request: Request<Full<Bytes>>) -> Reply {
    let io = TokioIo::new(tls(address, ca, b"http/1.1").await);
    let (mut sender, connection) = conn::http1::handshake(io).await.unwrap();
    tokio::spawn(connection);
    let response = sender.send_request(request).await.unwrap();
    reply(response).await
}

/// One request on a connection of its own.
pub(crate) async fn http2(address: SocketAddr, ca: &Path, request: Request<Full<Bytes>>) -> Reply {
    let io = TokioIo::new(tls(address, ca, b"h2").await);
    let (mut sender, connection) = conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
    tokio::spawn(connection);
    let response = sender.send_request(request).await.unwrap();
    reply(response).await
}

/// An HTTP/2 connection that takes many requests.
#[derive(Clone)]
pub(crate) struct Line(conn::http2::SendRequest<Full<Bytes>>);

impl Line {
    pub(crate) async fn open(address: SocketAddr, ca: &Path) -> Self {
        let io = TokioIo::new(tls(address, ca, b"h2").await);
        let (sender, connection) = conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
        tokio::spawn(connection);
        Self(sender)
    }

    pub(crate) async fn send(&self, request: Request<Full<Bytes>>) -> Reply {
        let mut sender = self.0.clone();
        sender.ready().await.unwrap();
        reply(sender.send_request(request).await.unwrap()).await
    }
}

/// Sends these bytes over TLS and reads until the gate closes.
pub(crate) async fn raw(address: SocketAddr, ca: &Path, bytes: &[u8]) -> String {
    exchange(tls(address, ca, b"http/1.1").await, bytes).await
}

/// Sends these bytes and reads until the gate closes.
pub(crate) async fn exchange(mut stream: impl AsyncRead + AsyncWrite + Unpin, bytes: &[u8]) -> String {
    stream.write_all(bytes).await.unwrap();
    stream.flush().await.unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

async fn reply(response: http::Response<hyper::body::Incoming>) -> Reply {
    let (head, body) = response.into_parts();
    let reason = head
        .extensions
        .get::<hyper::ext::ReasonPhrase>()
        .map(|phrase| String::from_utf8_lossy(phrase.as_bytes()).into_owned());
    let body = body.collect().await.unwrap().to_bytes();
    Reply { status: head.status, reason, headers: head.headers, body }
}
