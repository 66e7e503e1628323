//! Sockets → requests: accepting, TLS, the strict guard on HTTP/1 heads, HTTP/2, early answers, the way out.
//!
//! ```text
//! Bound ─ serve ─▶ handshake ─┬─ http/1.1 ─ wire (guard, timers) ─ hyper ─┬─▶ handler(Request<Body>, Peer) ─▶ Response
//!                             └─ h2 ──────────────────────────────── hyper ─┘
//! ```
//!
//! ALPN tells what a connection speaks; without TLS it is HTTP/1.1. Every bound is one of `config::Listener`, and has a
//! counter in [`Metrics`].

use std::io;
use std::path::PathBuf;

use tokio::io::{AsyncRead, AsyncWrite};

pub use self::accept::serve;
pub use self::body::{Body, Reply};
pub(crate) use self::connection::caught;
pub(crate) use self::crowd::{Crowd, party};
pub use self::drain::Drain;
pub use self::guard::{Fed, HeadGuard};
pub use self::head::{MAX_HEADERS, Violation};
pub use self::metrics::Metrics;
pub use self::peer::{Peer, Protocol};
pub use self::socket::Bound;
pub use self::tls::Certificates;

mod accept;
mod activity;
mod body;
mod certificate;
mod connection;
mod crowd;
mod drain;
mod guard;
mod head;
mod metrics;
mod peer;
mod refusal;
mod socket;
mod tls;
mod wire;

#[cfg(test)]
mod testing;

/// Why a listener does not start, or keeps its last certificate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}; choose another address, or end the process that has it")]
    Bind {
        /// As configured.
        address: String,
        /// The system's words.
        source: io::Error,
    },
    /// A file of the listener's `tls` cannot be read.
    #[error("cannot read {}: {source}; check the path and the permissions", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's words.
        source: io::Error,
    },
    /// A file holds no certificates that can be used.
    #[error("{}: {reason}; it must hold PEM certificates, the server's own first", path.display())]
    Certificate {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A file holds no private key.
    #[error("{}: there is no private key in it; it must hold one in PEM: PKCS#8, PKCS#1 or SEC1", path.display())]
    NoKey {
        /// The file.
        path: PathBuf,
    },
    /// The key is of a kind that TLS here does not know.
    #[error("{}: the private key cannot be used; it must be RSA, ECDSA (P-256, P-384, P-521) or Ed25519", path.display())]
    Key {
        /// The file.
        path: PathBuf,
    },
    /// Certificate and key do not belong together.
    #[error(
        "the key in {} is not the key of the certificate in {}; replace both together",
        key.display(), certificate.display()
    )]
    KeyMismatch {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
    },
    /// TLS cannot be set up at all.
    #[error("TLS cannot be set up: {0}")]
    Tls(String),
}

/// A byte stream of any kind: TCP, Unix, TLS over either.
pub(crate) trait Transport: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Transport for T {}
