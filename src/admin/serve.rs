//! The small HTTP/1.1 server behind both listeners, with its bounds.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use tokio::net::{TcpStream, UnixStream};
use tokio::task::JoinSet;
use tokio_util::either::Either;
use tokio_util::sync::CancellationToken;

use super::bind::{Bound, Listener};
use crate::listen::Crowd;

/// Connections at once; further ones wait in the kernel's queue.
pub(super) const MAX_CONNECTIONS: usize = 256;
/// Connections at once from one address, so that nobody alone can keep the kubelet's probes out. Further ones are closed.
pub(super) const MAX_PER_PEER: usize = 64;
/// Time for a request's head, and between requests.
pub(super) const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Life of a connection, however busy: bounds a reader that takes its answer byte by byte.
pub(super) const MAX_LIFE: Duration = Duration::from_secs(120);
const HEAD_BYTES: usize = 16 << 10;
const HEADERS: usize = 64;
const LAST_ANSWERS: Duration = Duration::from_secs(1);
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

pub(super) type Answer = Response<Full<Bytes>>;

/// What is counted of the health and control listeners.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    connections: Family<SiteLabels, Counter>,
    refused: Family<SiteLabels, Counter>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SiteLabels {
    listener: &'static str,
}

impl Metrics {
    /// Registers `admin_connections` and `admin_connections_refused`.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register(
            "admin_connections",
            "Connections to the health or control listener",
            metrics.connections.clone(),
        );
        let help = "Connections closed at once because one address had too many";
        registry.register("admin_connections_refused", help, metrics.refused.clone());
        metrics
    }
}

/// Serves `answer` on `bound` until `shutdown`; then answers what is in flight, for at most a second.
pub(super) async fn serve<F>(bound: Bound, name: &'static str, metrics: Metrics, shutdown: CancellationToken, answer: F)
where
    F: Fn(&Request<Incoming>) -> Answer + Send + Sync + 'static,
{
    let answer = Arc::new(answer);
    let labels = SiteLabels { listener: name };
    let mut connections = JoinSet::new();
    let peers = Crowd::new(MAX_PER_PEER);
    loop {
        tokio::select! {
            () = shutdown.cancelled() => break,
            Some(_) = connections.join_next() => {}
            accepted = accept(&bound.listener), if connections.len() < MAX_CONNECTIONS => {
                let (stream, peer) = match accepted {
                    Ok(accepted) => accepted,
                    Err(error) => {
                        tracing::warn!(listener = name, %error, "cannot accept a connection");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                        continue;
                    }
                };
                let Some(seat) = peers.enter(peer) else {
                    metrics.refused.get_or_create(&labels).inc();
                    continue;
                };
                metrics.connections.get_or_create(&labels).inc();
                let connection = converse(stream, Arc::clone(&answer), shutdown.clone());
                connections.spawn(async move {
                    connection.await;
                    drop(seat);
                });
            }
        }
    }
    drop(bound);
    let all = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(LAST_ANSWERS, all).await.is_err() {
        tracing::debug!(listener = name, "connections were cut off at the end");
    }
}

/// A page that nobody may keep or take for another type.
pub(super) fn page(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// One line of text.
pub(super) fn text(status: StatusCode, body: impl Into<Bytes>) -> Answer {
    page(status, "text/plain; charset=utf-8", body)
}

/// 404.
pub(super) fn not_found() -> Answer {
    text(StatusCode::NOT_FOUND, "not found\n")
}

/// 405 for a path that takes only `allowed`.
pub(super) fn method_not_allowed(allowed: &'static str) -> Answer {
    let mut response = text(StatusCode::METHOD_NOT_ALLOWED, format!("use {allowed}\n"));
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    response
}

type Stream = Either<TcpStream, UnixStream>;

async fn accept(listener: &Listener) -> std::io::Result<(Stream, Option<IpAddr>)> {
    match listener {
        Listener::Tcp(listener) => {
            let (stream, peer) = listener.accept().await?;
            Ok((Either::Left(stream), Some(peer.ip())))
        }
        Listener::Unix { listener, .. } => {
            let (stream, _) = listener.accept().await?;
            Ok((Either::Right(stream), None))
        }
    }
}

async fn converse<F>(stream: Stream, answer: Arc<F>, shutdown: CancellationToken)
where
    F: Fn(&Request<Incoming>) -> Answer + Send + Sync + 'static,
{
    let service = service_fn(move |request| {
        let response = answer(&request);
        async move { Ok::<_, std::convert::Infallible>(response) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_BYTES)
        .max_headers(HEADERS)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let result = tokio::select! {
        result = connection.as_mut() => result,
        () = shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
        () = tokio::time::sleep(MAX_LIFE) => {
            connection.as_mut().graceful_shutdown();
            tokio::time::timeout(LAST_ANSWERS, connection).await.unwrap_or(Ok(()))
        }
    };
    if let Err(error) = result {
        tracing::debug!(%error, "a connection to the health or control listener broke");
    }
}
