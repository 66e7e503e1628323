//! The accept loop of one listener: a bounded number of connections, each in a task of its own.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};

use super::Transport;
use super::body::{Body, Linger};
use super::connection::{Server, serve_http1, serve_http2};
use super::drain::Drain;
use super::metrics::{ListenerMetrics, Metrics, Timeout};
use super::peer::{Peer, Protocol};
use super::socket::Bound;
use super::tls::{Certificates, Secured, failure_word};
use crate::config;

/// Pause after an error that a retry at once would only repeat: no file descriptors, no memory.
const BACK_OFF: Duration = Duration::from_millis(100);

/// Accepts connections and answers their requests with `handler`, until `drain` closes the listener. Connections that
/// are open then go on in `drain.tasks()`.
///
/// `handler` may drop the request's body unread: the answer still reaches the client. A panic in it ends one request
/// with a 500.
pub async fn serve<H, F>(
    bound: Bound,
    certificates: Option<Arc<Certificates>>,
    listener: Arc<config::Listener>,
    handler: H,
    drain: Drain,
    metrics: Metrics,
) where
    H: Fn(Request<Body>, Peer) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response<Full<Bytes>>> + Send + 'static,
{
    let name: Arc<str> = match &listener.name {
        Some(name) => name.as_str().into(),
        None => bound.address().to_string().into(),
    };
    let counted = metrics.listener(&name);
    if let Some(certificates) = &certificates {
        certificates.report_to(counted.certificate());
    }
    let acceptor = Acceptor {
        server: Server {
            handler,
            linger: Linger::new(drain.clone(), metrics),
            metrics: counted.clone(),
            drain: drain.clone(),
            listener: Arc::clone(&listener),
        },
        certificates,
        name,
    };
    let places = Arc::new(Semaphore::new(listener.connections.min(Semaphore::MAX_PERMITS)));
    let _waited_for = drain.tasks().token();
    loop {
        let accepted = tokio::select! {
            // At the end, those that the kernel has accepted already still come first.
            biased;
            accepted = accept(&bound, &places, &counted) => accepted,
            () = drain.closing() => return,
        };
        let Some((io, address, place)) = accepted else { return };
        let acceptor = acceptor.clone();
        drain.tasks().spawn(async move {
            let _open = acceptor.server.metrics.connection();
            let drain = acceptor.server.drain.clone();
            tokio::select! {
                () = acceptor.connection(io, address) => {}
                () = drain.aborted() => {}
            }
            drop(place);
        });
    }
}

#[derive(Clone)]
struct Acceptor<H> {
    server: Server<H>,
    certificates: Option<Arc<Certificates>>,
    name: Arc<str>,
}

impl<H, F> Acceptor<H>
where
    H: Fn(Request<Body>, Peer) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response<Full<Bytes>>> + Send + 'static,
{
    async fn connection(self, io: Box<dyn Transport>, address: Option<IpAddr>) {
        let tls = self.certificates.is_some();
        let secured = match &self.certificates {
            None => Secured { io, http2: false, subject: None },
            Some(certificates) => match self.handshake(certificates, io).await {
                Some(secured) => secured,
                None => return,
            },
        };
        let protocol = if secured.http2 { Protocol::Http2 } else { Protocol::Http1 };
        let peer = Peer { address, tls, certificate: secured.subject, listener: self.name, protocol };
        match protocol {
            Protocol::Http1 => serve_http1(secured.io, peer, self.server).await,
            Protocol::Http2 => serve_http2(secured.io, peer, self.server).await,
        }
    }

    async fn handshake(&self, certificates: &Certificates, io: Box<dyn Transport>) -> Option<Secured> {
        match timeout(self.server.listener.handshake_timeout.0, certificates.accept(io)).await {
            Ok(Ok(secured)) => Some(secured),
            Ok(Err(error)) => {
                self.server.metrics.handshake_failure(failure_word(&error));
                tracing::debug!(listener = %self.name, %error, "a TLS handshake failed");
                None
            }
            Err(_) => {
                self.server.metrics.timeout(Timeout::Handshake);
                self.server.metrics.handshake_failure("timeout");
                None
            }
        }
    }
}

/// The next connection, and its place among those that may be open at once. Waits for a place before it takes one out
/// of the kernel's queue.
async fn accept(
    bound: &Bound,
    places: &Arc<Semaphore>,
    metrics: &ListenerMetrics,
) -> Option<(Box<dyn Transport>, Option<IpAddr>, OwnedSemaphorePermit)> {
    let place = Arc::clone(places).acquire_owned().await.ok()?;
    loop {
        match bound.accept().await {
            Ok((io, address)) => return Some((io, address, place)),
            Err(error) => {
                metrics.accept_error();
                if !is_of_one_connection(&error) {
                    tracing::warn!(%error, "no connection can be accepted now; raise the limit of open files");
                    sleep(BACK_OFF).await;
                }
            }
        }
    }
}

/// Whether only the connection is lost that was to be accepted.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, InvalidInput, NotConnected};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | InvalidInput | NotConnected)
}

#[cfg(test)]
mod tests;
