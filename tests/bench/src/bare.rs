//! What the gate is compared with: TLS, HTTP/1.1 and a pooled client from the same crates, and not one check; and the
//! backend behind both.

use std::convert::Infallible;
use std::io::BufRead;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use anyhow::Context;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::Process;

type Pool = Client<HttpConnector, Full<Bytes>>;

/// A bare pass-through in a process of its own.
pub struct Bare {
    pub process: Process,
    pub port: u16,
}

impl Bare {
    pub async fn start(directory: &Path, backend: u16) -> anyhow::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("bare").arg(directory).arg(backend.to_string()).stdout(Stdio::piped());
        let mut process = Process(command.spawn()?);
        let out = process.0.stdout.take().context("no output")?;
        let line = tokio::task::spawn_blocking(move || std::io::BufReader::new(out).lines().next()).await?;
        let port = line.context("the pass-through did not start")??.parse()?;
        Ok(Self { process, port })
    }

    pub async fn end(&mut self) -> anyhow::Result<()> {
        Ok(self.process.0.kill()?)
    }
}

/// Serves for ever, and tells its port.
pub async fn serve(directory: &Path, backend: u16) -> anyhow::Result<()> {
    let certificate = CertificateDer::from_pem_file(directory.join("tls.crt"))?;
    let key = PrivateKeyDer::from_pem_file(directory.join("tls.key"))?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)?;
    let acceptor = TlsAcceptor::from(Arc::new(tls));
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    let pool: Pool = Client::builder(TokioExecutor::new()).build(connector);
    let target: Uri = format!("http://127.0.0.1:{backend}/api/v1/lineage").parse()?;

    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?.port());
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let (acceptor, pool, target) = (acceptor.clone(), pool.clone(), target.clone());
        tokio::spawn(async move {
            let Ok(stream) = acceptor.accept(stream).await else { return };
            let service = service_fn(move |request| pass(pool.clone(), target.clone(), request));
            // A client that leaves is no matter here.
            let _ =
                http1::Builder::new().timer(TokioTimer::new()).serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn pass(pool: Pool, target: Uri, request: Request<Incoming>) -> anyhow::Result<Response<Incoming>> {
    let (mut head, body) = request.into_parts();
    head.uri = target;
    head.headers.remove("authorization");
    head.headers.remove("host");
    let body = body.collect().await?.to_bytes();
    Ok(pool.request(Request::from_parts(head, Full::new(body))).await?)
}

/// A backend that takes everything, on a port of its own.
pub async fn backend() -> anyhow::Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let port = listener.local_addr()?.port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let _ = stream.set_nodelay(true);
                let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(take)).await;
            });
        }
    });
    Ok(port)
}

async fn take(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let whole = request.into_body().collect().await.is_ok();
    let mut response = Response::new(Full::default());
    *response.status_mut() = if whole { StatusCode::CREATED } else { StatusCode::BAD_REQUEST };
    Ok(response)
}
