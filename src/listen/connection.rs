//! One connection after its handshake: hyper for HTTP/1.1 or HTTP/2, and what stands around the handler.

use std::convert::Infallible;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, EXPECT, HOST, HeaderValue};
use http::uri::{PathAndQuery, Scheme};
use http::{HeaderMap, Method, Request, Response, StatusCode, request};
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::task::JoinError;
use tokio::time::{Instant, sleep_until};
use tokio_util::task::AbortOnDropHandle;

use self::streams::{Streams, Together};

use super::activity::{Activity, InFlight};
use super::body::{Body, Linger, Reply, Rest};
use super::drain::Drain;
use super::head::{Violation, is_host, is_target_byte};
use super::metrics::{ListenerMetrics, Open, Timeout};
use super::peer::{Peer, Protocol};
use super::wire::{Bounds, Guarded, Turn};
use super::{Transport, refusal};
use crate::config;

mod streams;

/// An unread body up to this size is read and dropped on a connection that lives on: closing it would cost a client
/// that was refused a new handshake for each attempt.
const SHORT_BODY: u64 = 64 << 10;

/// hyper's least buffer.
const MIN_BUFFER: usize = 8 << 10;

/// Streams that the gate itself may reset because of a client's errors.
const LOCAL_RESETS: usize = 256;

/// What a client may send of a body before anybody reads it: this memory is not of `event.memory`.
const STREAM_WINDOW: u32 = 128 << 10;

/// The same for all bodies of one connection.
const CONNECTION_WINDOW: u32 = 256 << 10;

/// What all connections of a listener share.
#[derive(Clone)]
pub(super) struct Server<H> {
    pub(super) handler: H,
    pub(super) linger: Linger,
    pub(super) metrics: ListenerMetrics,
    pub(super) drain: Drain,
    pub(super) listener: Arc<config::Listener>,
}

/// Tells, when it is dropped, that hyper has the whole answer.
struct Outgoing {
    body: Reply,
    rest: Arc<Rest>,
    turn: Option<Arc<Turn>>,
    stream: Option<Stream>,
}

/// An HTTP/2 stream. It is at work until its answer begins, and whenever the answer waits for its next part; while the client
/// has to take a part it is idle.
struct Stream {
    activity: Activity,
    at_work: Option<InFlight>,
    _open: Open,
}

/// Serves HTTP/1.1 until the client, a bound or the end of the process closes the connection.
pub(super) async fn serve_http1<H, F>(io: Box<dyn Transport>, peer: Peer, server: Server<H>)
where
    H: Fn(Request<Body>, Peer) -> F + Send + Sync + 'static,
    F: Future<Output = Response<Reply>> + Send + 'static,
{
    let turn = Arc::new(Turn::default());
    let bounds = Bounds::new(&server.listener.http1);
    let io = Guarded::new(io, bounds, Arc::clone(&turn), &server.drain, server.metrics.clone());
    let head_bytes = server.listener.http1.head_bytes.bytes();
    let server = Arc::new(server);
    let service = service_fn(|request| {
        let (server, turn, peer) = (Arc::clone(&server), Arc::clone(&turn), peer.clone());
        Box::pin(async move { Ok::<_, Infallible>(exchange(&server, request, peer, Some(turn)).await) })
    });
    let mut connection = http1::Builder::new()
        .timer(TokioTimer::new())
        // The guard's timers tell a late head from an idle connection.
        .header_read_timeout(None)
        .max_buf_size(head_bytes.saturating_add(MIN_BUFFER))
        .serve_connection(TokioIo::new(io), service);
    if let Err(error) = poll_fn(|cx| connection.poll_without_shutdown(cx)).await {
        tracing::debug!(%error, "an HTTP/1.1 connection ended early");
    }
    connection.into_parts().io.into_inner().finish().await;
}

/// Serves HTTP/2 likewise.
pub(super) async fn serve_http2<H, F>(io: Box<dyn Transport>, peer: Peer, server: Server<H>)
where
    H: Fn(Request<Body>, Peer) -> F + Send + Sync + 'static,
    F: Future<Output = Response<Reply>> + Send + 'static,
{
    let activity = Activity::new();
    let bounds = server.listener.http2.clone();
    let (drain, metrics) = (server.drain.clone(), server.metrics.clone());
    let server = Arc::new(server);
    let service = service_fn(|request| {
        let (server, peer) = (Arc::clone(&server), peer.clone());
        let stream =
            Stream { activity: activity.clone(), at_work: Some(activity.begin()), _open: server.metrics.stream() };
        let work = tokio::spawn(async move { exchange(&server, request, peer, None).await });
        let work = AbortOnDropHandle::new(work);
        async move {
            let mut response = work.await?;
            response.body_mut().stream = Some(stream);
            Ok::<_, JoinError>(response)
        }
    });
    let streams = Streams::default();
    let connection = http2_builder(&bounds, streams.clone()).serve_connection(TokioIo::new(io), service);
    let mut connection = Together::new(connection, streams);
    let mut leaving = false;
    loop {
        // Once told, a client that has no request open gets the time of a ping to go.
        let patience = if leaving { bounds.ping_timeout.0 } else { bounds.idle_timeout.0 };
        let idle_end = activity.idle_since().map(|since| since + patience);
        let told = !leaving && activity.has_begun();
        tokio::select! {
            biased;
            end = &mut connection => {
                count_end(end, &metrics);
                return;
            }
            () = activity.changed() => {}
            () = at(idle_end) => {
                if leaving {
                    return;
                }
                metrics.timeout(Timeout::Idle);
                connection.connection().graceful_shutdown();
                activity.restart();
                leaving = true;
            }
            // A connection that was opened while the process drains gets one request through before it is told.
            () = drain.announced(), if told => {
                connection.connection().graceful_shutdown();
                activity.restart();
                leaving = true;
            }
            () = drain.closing(), if !leaving => {
                connection.connection().graceful_shutdown();
                activity.restart();
                leaving = true;
            }
        }
    }
}

fn http2_builder(bounds: &config::Http2, streams: Streams) -> http2::Builder<Streams> {
    let mut builder = http2::Builder::new(streams);
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(bounds.streams)
        .max_header_list_size(header_list_room(bounds))
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .keep_alive_interval(bounds.ping_interval.0)
        .keep_alive_timeout(bounds.ping_timeout.0)
        .max_pending_accept_reset_streams(bounds.pending_resets)
        .max_local_error_reset_streams(LOCAL_RESETS);
    builder
}

/// h2 answers what is over its own bound before anybody can count it: so that bound lies above the configured one, which
/// [`check_http2`] keeps.
fn header_list_room(bounds: &config::Http2) -> u32 {
    u32::try_from(bounds.header_list_bytes.0.saturating_mul(2)).unwrap_or(u32::MAX)
}

fn count_end(end: Result<(), hyper::Error>, metrics: &ListenerMetrics) {
    let Err(error) = end else { return };
    tracing::debug!(%error, "an HTTP/2 connection ended early");
    if error.is_timeout() {
        metrics.timeout(Timeout::Ping);
    }
    let cause = std::error::Error::source(&error).and_then(|source| source.downcast_ref::<h2::Error>());
    if cause.and_then(h2::Error::reason) == Some(h2::Reason::ENHANCE_YOUR_CALM) {
        metrics.flood();
    }
}

async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// One request: the handler, and what its answer needs to get to the client.
async fn exchange<H, F>(
    server: &Server<H>,
    request: Request<Incoming>,
    peer: Peer,
    turn: Option<Arc<Turn>>,
) -> Response<Outgoing>
where
    H: Fn(Request<Body>, Peer) -> F,
    F: Future<Output = Response<Reply>>,
{
    let rest = Rest::new(server.linger.clone());
    let (parts, incoming) = request.into_parts();
    let body = Body::wire(incoming, &rest);
    let short = is_short(&parts.headers);
    let http1 = peer.protocol == Protocol::Http1;
    let mut response = match check_http2(&parts, &peer, &server.listener.http2) {
        Ok(()) => guarded_handler(server, Request::from_parts(parts, body), peer).await,
        Err(violation) => {
            drop(body);
            server.metrics.violation(violation.rule());
            refusal::response(violation.status(), &violation.to_string()).map(Reply::from)
        }
    };
    let unfinished = rest.is_there() && !short;
    if http1 && (unfinished || server.drain.is_draining()) {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response.map(|body| Outgoing { body, rest, turn, stream: None })
}

/// Runs the handler; a panic in it becomes a 500.
async fn guarded_handler<H, F>(server: &Server<H>, request: Request<Body>, peer: Peer) -> Response<Reply>
where
    H: Fn(Request<Body>, Peer) -> F,
    F: Future<Output = Response<Reply>>,
{
    if let Some(response) = caught(async { (server.handler)(request, peer).await }).await {
        return response;
    }
    server.metrics.panic();
    tracing::error!("a request ended in a panic; the process goes on");
    refusal::response(StatusCode::INTERNAL_SERVER_ERROR, "the gate failed on this request").map(Reply::from)
}

/// What a future makes; nothing if it panics.
pub(crate) async fn caught<F: Future>(future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
        Ok(Poll::Ready(made)) => Poll::Ready(Some(made)),
        Ok(Poll::Pending) => Poll::Pending,
        Err(_) => Poll::Ready(None),
    })
    .await
}

/// The rules of the HTTP/1 guard that h2 does not keep itself: one authority, no tunnel (RFC 9113 sections 8.3.1, 8.5),
/// what a target may hold, the bound on the header list. A fragment cannot be refused: `http` cuts it off unseen.
fn check_http2(parts: &request::Parts, peer: &Peer, bounds: &config::Http2) -> Result<(), Violation> {
    if peer.protocol == Protocol::Http1 {
        return Ok(());
    }
    if header_list_bytes(parts) > bounds.header_list_bytes.0 {
        return Err(Violation::HeadTooLarge);
    }
    if parts.method.as_str().eq_ignore_ascii_case(Method::CONNECT.as_str()) {
        return Err(Violation::Connect);
    }
    if !is_target(parts) {
        return Err(Violation::Target);
    }
    let mut hosts = parts.headers.get_all(HOST).iter();
    let host = hosts.next();
    if hosts.next().is_some() {
        return Err(Violation::RepeatedHost);
    }
    match (parts.uri.authority(), host) {
        (None, None) => Err(Violation::MissingHost),
        (None, Some(host)) if !is_host(host.as_bytes()) => Err(Violation::Host),
        (Some(authority), _) if !is_host(authority.as_str().as_bytes()) => Err(Violation::Host),
        (Some(authority), Some(host)) if !host.as_bytes().eq_ignore_ascii_case(authority.as_str().as_bytes()) => {
            Err(Violation::HostMismatch)
        }
        (Some(_), _) | (None, Some(_)) => Ok(()),
    }
}

/// Whether scheme, path and query could stand in a request line (RFC 9112 section 3.2).
fn is_target(parts: &request::Parts) -> bool {
    let path = parts.uri.path_and_query().map_or("", PathAndQuery::as_str);
    let is_form = path.starts_with('/') || (path == "*" && parts.method == Method::OPTIONS);
    let is_scheme = parts.uri.scheme().is_none_or(|scheme| *scheme == Scheme::HTTP || *scheme == Scheme::HTTPS);
    is_form && is_scheme && path.bytes().all(is_target_byte)
}

/// As RFC 9113 section 6.5.2 counts it: names, values, and 32 bytes for each field.
fn header_list_bytes(parts: &request::Parts) -> u64 {
    const EACH: usize = 32;
    let field = |name: &str, value: usize| name.len() + value + EACH;
    let uri = &parts.uri;
    let path = uri.path_and_query().map_or(0, |path| path.as_str().len());
    let pseudo = field(":method", parts.method.as_str().len())
        + field(":scheme", uri.scheme_str().map_or(0, str::len))
        + field(":authority", uri.authority().map_or(0, |authority| authority.as_str().len()))
        + field(":path", path);
    let fields: usize = parts.headers.iter().map(|(name, value)| field(name.as_str(), value.len())).sum();
    (pseudo + fields) as u64
}

/// Whether the client will send its body whole, and soon, even if it is answered before.
fn is_short(headers: &HeaderMap) -> bool {
    let length = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    length.is_some_and(|length| length <= SHORT_BODY) && !headers.contains_key(EXPECT)
}

impl http_body::Body for Outgoing {
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = self.get_mut();
        let frame = Pin::new(&mut this.body).poll_frame(cx);
        if let Some(stream) = &mut this.stream {
            match frame {
                Poll::Ready(_) => stream.at_work = None,
                Poll::Pending => {
                    stream.at_work.get_or_insert_with(|| stream.activity.begin());
                }
            }
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        self.rest.answered();
        if let Some(turn) = &self.turn {
            turn.answered();
        }
    }
}

#[cfg(test)]
mod tests;
