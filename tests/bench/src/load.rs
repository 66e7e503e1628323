//! Load: connections that send one event after the other, each as soon as the last was answered.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::ensure;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;

use crate::Process;
use crate::events;
use crate::gate::Directory;

/// What is sent where.
pub struct Load {
    connector: TlsConnector,
    port: u16,
    connections: usize,
    authorization: String,
    body: Bytes,
}

/// What one round showed.
pub struct Round {
    pub per_second: f64,
    /// Seconds.
    pub p99: f64,
    /// Processor seconds of the process under load, a request.
    pub cpu: f64,
}

impl Load {
    pub fn new(directory: &Directory, port: u16, connections: usize) -> anyhow::Result<Self> {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(directory.path().join("tls.crt"))?)?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self {
            connector: TlsConnector::from(Arc::new(tls)),
            port,
            connections,
            authorization: format!("Bearer {}", directory.token(events::CALLER)?),
            body: Bytes::from(events::event(2)),
        })
    }

    /// Bytes of an event.
    pub fn bytes(&self) -> usize {
        self.body.len()
    }

    pub async fn run(&self, process: &Process, length: Duration) -> anyhow::Result<Round> {
        let mut tasks = JoinSet::new();
        let (cpu, began) = (process.cpu()?, Instant::now());
        for _ in 0..self.connections {
            tasks.spawn(send(self.connector.clone(), self.port, self.request()?, began + length));
        }
        let mut times = Vec::new();
        for result in tasks.join_all().await {
            times.extend(result?);
        }
        let (cpu, took) = (process.cpu()? - cpu, began.elapsed());
        times.sort();
        ensure!(!times.is_empty(), "no request was answered");
        let count = times.len();
        Ok(Round {
            per_second: count as f64 / took.as_secs_f64(),
            p99: times[count * 99 / 100].as_secs_f64(),
            cpu: cpu.as_secs_f64() / count as f64,
        })
    }

    fn request(&self) -> anyhow::Result<Request<Full<Bytes>>> {
        let request = Request::post("/api/v1/lineage")
            .header("host", "localhost")
            .header("content-type", "application/json")
            .header("authorization", &self.authorization);
        Ok(request.body(Full::new(self.body.clone()))?)
    }
}

/// The same event of another run: the very same event would be answered from memory.
fn fresh(body: &Bytes) -> Bytes {
    static SENT: AtomicU64 = AtomicU64::new(0);
    let number = format!("{:012x}", SENT.fetch_add(1, Ordering::Relaxed));
    let mut body = body.to_vec();
    let last = events::RUN.rsplit('-').next().unwrap_or_default();
    if let Some(at) = body.windows(last.len()).position(|window| window == last.as_bytes()) {
        body[at..at + last.len()].copy_from_slice(number.as_bytes());
    }
    body.into()
}

/// Sends over one connection until `end`, and tells how long each answer took.
async fn send(
    connector: TlsConnector,
    port: u16,
    mut request: Request<Full<Bytes>>,
    end: Instant,
) -> anyhow::Result<Vec<Duration>> {
    let stream = TcpStream::connect(("127.0.0.1", port)).await?;
    stream.set_nodelay(true)?;
    let stream = connector.connect(ServerName::try_from("localhost")?, stream).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let mut times = Vec::new();
    let body = request.body_mut().frame().await.and_then(|frame| frame.ok()?.into_data().ok()).unwrap_or_default();
    while Instant::now() < end {
        let began = Instant::now();
        let mut request = request.clone();
        *request.body_mut() = Full::new(fresh(&body));
        let response = sender.send_request(request).await?;
        ensure!(response.status() == 201, "answered {}", response.status());
        response.into_body().collect().await?;
        times.push(began.elapsed());
    }
    drop(sender);
    connection.await??;
    Ok(times)
}
