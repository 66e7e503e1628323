//! The lineage backend: a pooled client, and one file a kind that reads raw answers as an [`Outcome`].
//!
//! A kind is a pure table from a raw answer to an outcome (facts: backends 2.2), over a connection that is the same for
//! all of them (`http`). What is sent is built from nothing: the event's bytes, the headers that are named in
//! `Http::request`, and no other header of the caller's request. Nothing of the backend's headers goes back.
//!
//! An event is sent once. It is sent again only where it is certain that nothing of it was: `hyper-util` does so when a
//! kept connection was closed before the request was started, and a TLS handshake that broke off is tried once more.

use std::path::PathBuf;
use std::sync::Arc;

use ::http::HeaderValue;
use bytes::Bytes;

use crate::answer::Outcome;
use crate::auth::Caller;
use crate::config;

use self::contract::Contract;
use self::file::FileLog;
use self::http::Http;
use self::protect::Protection;

mod batch;
mod check;
mod connect;
mod contract;
mod credential;
mod datahub;
mod endpoint;
mod file;
mod gravitino;
mod http;
mod hygiene;
mod identity;
mod lookup;
mod marquez;
mod openlineage;
mod openmetadata;
mod polaris;
mod probe;
pub mod protect;
mod raw;
mod reader;
mod relay;
mod tls;

#[cfg(test)]
pub(crate) mod fake;

pub use self::batch::{BatchForm, BatchOutcome, BatchSupport};
pub use self::check::check;
pub(crate) use self::contract::EVENT_PATHS;
pub use self::lookup::{Lookup, ResolvesBy};
pub use self::openmetadata::draws_edges;
pub use self::probe::probe;
pub(crate) use self::reader::{Read, Reader, Unread};
pub use self::relay::{Outbound, Relay, check_base};

/// The configured backend.
pub struct Upstream {
    name: Arc<str>,
    kind: Kind,
    protection: Protection,
}

enum Kind {
    File(FileLog),
    Http(Box<Http>),
}

/// One event on its way to the backend, and what may be told about it.
#[derive(Clone)]
pub struct Delivery {
    /// The very bytes that were judged.
    pub body: Bytes,
    /// The caller's `Authorization`, sent only with `auth: forward`.
    pub caller_authorization: Option<HeaderValue>,
    /// The first `X-Gravitino-Active-Roles` of the caller, sent only to a `gravitino` upstream together with the caller's
    /// own credential: with the gate's credential it would narrow the gate's roles.
    pub active_roles: Option<HeaderValue>,
    /// For `X-Request-Id`.
    pub request_id: Arc<str>,
    /// The caller's `traceparent`; one that is not of the form of W3C Trace Context is left out.
    pub traceparent: Option<HeaderValue>,
    /// For `identity_headers`.
    pub caller: Arc<Caller>,
    /// Whether the event can make an edge ([`draws_edges`]): where it cannot, a backend that made none has filtered it.
    pub draws_edges: bool,
}

/// Why a backend cannot be used as configured.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configuration contradicts itself; all faults, one a line.
    #[error("{0}")]
    Config(String),
    /// A file cannot be read.
    #[error("cannot read {path}: {source}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A credential file holds something that cannot be sent in a header. The content is not told.
    #[error("{path} {fault}: it must hold nothing but the credential, in printable ASCII", path = path.display())]
    Credential {
        /// The file.
        path: PathBuf,
        /// What is wrong with its content.
        fault: &'static str,
    },
    /// A certificate or key file holds none, or one that does not hold.
    #[error("{path}: {fault}", path = path.display())]
    Certificate {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        fault: String,
    },
    /// TLS cannot be set up.
    #[error("cannot set up TLS for the lineage backend: {0}")]
    Tls(String),
    /// The file that events are appended to cannot be opened or repaired.
    #[error("cannot append to {path}: {source}", path = path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Another process, or another upstream of this one, appends to the same file.
    #[error("{path} is locked by another lineage-gate: give each its own file", path = path.display())]
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// The file is not one that events were appended to; it is left as it is.
    #[error("{path} {fault}: it was left as it is; give the path of a new file", path = path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// Why not.
        fault: &'static str,
    },
}

/// The path that events are posted to, without a slash at its end; none for a file.
pub(crate) fn event_path(config: &config::Upstream) -> Option<String> {
    let contract = Contract::of(config.kind)?;
    let endpoint = endpoint::Endpoint::parse(contract, config.url.as_deref()?).ok()?;
    Some(endpoint.uri.path().trim_end_matches('/').to_owned())
}

impl Upstream {
    /// Makes ready what `config` says: reads credentials and certificates, opens the file. Connects to nothing.
    pub fn new(config: &config::Upstream) -> Result<Self, Error> {
        let faults = check(config);
        if !faults.is_empty() {
            return Err(Error::Config(faults.join("\n")));
        }
        let kind = match Contract::of(config.kind) {
            None => Kind::File(FileLog::open(config)?),
            Some(contract) => Kind::Http(Box::new(Http::new(contract, config)?)),
        };
        Ok(Self { name: config.name.as_str().into(), kind, protection: Protection::new(config) })
    }

    /// The configured name.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// What the backend cannot take.
    pub fn protection(&self) -> &Protection {
        &self.protection
    }

    /// Sends one event and says what became of it, within the configured `timeout`.
    pub async fn send(&self, delivery: &Delivery) -> Outcome {
        match &self.kind {
            Kind::File(file) => file.append(&delivery.body).await,
            Kind::Http(http) => http.send(delivery).await,
        }
    }

    /// The backend's batch call; none where it has none, or answered within the last ten minutes that it has none.
    pub fn batch_support(&self) -> Option<BatchSupport> {
        match &self.kind {
            Kind::File(_) => None,
            Kind::Http(http) => http.batch_support(),
        }
    }

    /// Sends events in one call, in their order, and says what became of each, within the configured `timeout`. Of
    /// `delivery` all counts but the body.
    pub async fn send_batch(&self, delivery: &Delivery, events: &[Bytes]) -> BatchOutcome {
        match &self.kind {
            Kind::File(_) => BatchOutcome::Unsupported,
            Kind::Http(http) => http.send_batch(delivery, events).await,
        }
    }

    /// Whether the backend's own health check passes: any answer below 500 to a GET that costs it little. A file is
    /// always healthy.
    pub async fn is_healthy(&self) -> bool {
        match &self.kind {
            Kind::File(_) => true,
            Kind::Http(http) => http.get().await.is_ok_and(|raw| raw.status.as_u16() < 500),
        }
    }

    /// The files whose change wants a [`reload`](Self::reload): credential, CA and client certificate.
    pub fn watched(&self) -> Vec<PathBuf> {
        match &self.kind {
            Kind::File(_) => Vec::new(),
            Kind::Http(http) => http.watched(),
        }
    }

    /// Reads the files of [`watched`](Self::watched) anew. `true` if something changed; on an error the last good stays.
    pub fn reload(&self) -> Result<bool, Error> {
        match &self.kind {
            Kind::File(_) => Ok(false),
            Kind::Http(http) => http.reload(),
        }
    }
}
