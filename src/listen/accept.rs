//! The accept loop of one listener: a bounded number of connections, each in a task of its own.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use ipnet::IpNet;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};

use super::Transport;
use super::body::{Body, Linger, Reply};
use super::connection::{Server, serve_http1, serve_http2};
use super::crowd::{Crowd, Seat};
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
    F: Future<Output = Response<Reply>> + Send + 'static,
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
    let room = Room::new(&listener);
    let _waited_for = drain.tasks().token();
    loop {
        let accepted = tokio::select! {
            // At the end, those that the kernel has accepted already still come first.
            biased;
            accepted = room.accept(&bound, &counted) => accepted,
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
    F: Future<Output = Response<Reply>> + Send + 'static,
{
    async fn connection(self, io: Box<dyn Transport>, address: Option<IpAddr>) {
        let secured = match &self.certificates {
            None => Secured { io, http2: false, subject: None },
            Some(certificates) => match self.handshake(certificates, io).await {
                Some(secured) => secured,
                None => return,
            },
        };
        let protocol = if secured.http2 { Protocol::Http2 } else { Protocol::Http1 };
        let peer = Peer { address, certificate: secured.subject, listener: self.name, protocol };
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

/// The connections that may be open at once, of all and of one address.
struct Room {
    places: Arc<Semaphore>,
    crowd: Crowd,
    trusted: Vec<IpNet>,
}

/// A connection's place in the room, and in its address's share of it: the share is given back first.
type Taken = (Seat, OwnedSemaphorePermit);

impl Room {
    fn new(listener: &config::Listener) -> Self {
        let share = listener.connections_per_peer.unwrap_or_else(|| listener.connections.div_ceil(2));
        Self {
            places: Arc::new(Semaphore::new(listener.connections.min(Semaphore::MAX_PERMITS))),
            crowd: Crowd::new(share),
            trusted: listener.trusted_proxies.clone(),
        }
    }

    /// The next connection, and its place. Waits for a place before it takes one out of the kernel's queue.
    async fn accept(
        &self,
        bound: &Bound,
        metrics: &ListenerMetrics,
    ) -> Option<(Box<dyn Transport>, Option<IpAddr>, Taken)> {
        let place = self.place(metrics).await?;
        loop {
            match bound.accept().await {
                Ok((io, address)) => match self.seat(address) {
                    Some(seat) => return Some((io, address, (seat, place))),
                    None => metrics.refused(),
                },
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

    async fn place(&self, metrics: &ListenerMetrics) -> Option<OwnedSemaphorePermit> {
        if let Ok(place) = Arc::clone(&self.places).try_acquire_owned() {
            return Some(place);
        }
        metrics.full();
        Arc::clone(&self.places).acquire_owned().await.ok()
    }

    /// A trusted proxy stands for all who come through it.
    fn seat(&self, address: Option<IpAddr>) -> Option<Seat> {
        let limited = address.filter(|address| !self.trusted.iter().any(|network| network.contains(address)));
        self.crowd.enter(limited)
    }
}

/// Whether only the connection is lost that was to be accepted.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, InvalidInput, NotConnected};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | InvalidInput | NotConnected)
}

#[cfg(test)]
mod tests;
