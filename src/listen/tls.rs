//! The certificate of a listener and the TLS in front of it. All of rustls that this stage names stands in this file.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use arc_swap::ArcSwap;
use aws_lc_rs::digest::{self, SHA256};
use jiff::Timestamp;
use prometheus_client::metrics::gauge::Gauge;
use rustls::RootCertStore;
use rustls::crypto::aws_lc_rs::Ticketer;
use rustls::crypto::{CryptoProvider, aws_lc_rs as provider};
use rustls::server::{
    NoServerSessionStorage, ProducesTickets, ServerConfig, ServerSessionMemoryCache, StoresServerSessions,
    WebPkiClientVerifier,
};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::{TLS12, TLS13};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use super::certificate::Facts;
use super::{Error, Transport};
use crate::config;

/// TLS 1.2 sessions remembered for clients that know no tickets.
const SESSIONS: usize = 4096;

/// A listener's certificate, key and client CA, as last read and found good.
///
/// Connections take what is current when they begin. Session tickets survive a reload unless the client CA changed.
pub struct Certificates {
    files: config::Tls,
    live: ArcSwap<Live>,
    gauge: OnceLock<Gauge>,
    reloading: Mutex<()>,
}

struct Live {
    config: Arc<ServerConfig>,
    sessions: Sessions,
    not_after: Timestamp,
    digest: [u8; 32],
    client_ca_digest: [u8; 32],
}

/// What lets a client resume: kept for as long as the same clients are let in.
#[derive(Clone)]
struct Sessions {
    tickets: Arc<dyn ProducesTickets>,
    store: Arc<dyn StoresServerSessions>,
}

/// The bytes of all files, read before any is looked at.
struct Files {
    certificate: Vec<u8>,
    key: Vec<u8>,
    client_ca: Option<Vec<u8>>,
}

/// A connection after its handshake.
pub(super) struct Secured {
    pub(super) io: Box<dyn Transport>,
    pub(super) http2: bool,
    pub(super) subject: Option<Arc<str>>,
}

impl Certificates {
    /// Reads and checks the files. A certificate that has ended is served all the same, with a warning: half of the
    /// clients may not look, and no other one is there.
    ///
    /// # Errors
    ///
    /// A file that cannot be read or parsed, or a key that is not the certificate's.
    pub fn load(files: &config::Tls) -> Result<Self, Error> {
        let live = Live::new(files, &Files::read(files)?, None)?;
        live.warn_if_ended(files);
        Ok(Self {
            files: files.clone(),
            live: ArcSwap::from_pointee(live),
            gauge: OnceLock::new(),
            reloading: Mutex::new(()),
        })
    }

    /// Reads the files anew, and serves what is in them from the next connection on. Whether anything changed.
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load). What was served before is still served.
    pub fn reload(&self) -> Result<bool, Error> {
        let _one_at_a_time = self.reloading.lock().unwrap_or_else(PoisonError::into_inner);
        let files = Files::read(&self.files)?;
        let last = self.live.load_full();
        if files.digest() == last.digest {
            return Ok(false);
        }
        let next = Live::new(&self.files, &files, Some(&last))?;
        next.warn_if_ended(&self.files);
        self.report(&next);
        self.live.store(Arc::new(next));
        Ok(true)
    }

    /// The files to watch: certificate, key and client CA.
    pub fn watched(&self) -> Vec<PathBuf> {
        let config::Tls { certificate, key, client_ca } = &self.files;
        [certificate, key].into_iter().chain(client_ca).cloned().collect()
    }

    /// The configuration for the next connection.
    pub fn server_config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.live.load().config)
    }

    pub(super) fn report_to(&self, gauge: Gauge) {
        self.report_gauge(self.gauge.get_or_init(|| gauge), &self.live.load());
    }

    pub(super) async fn accept(&self, io: Box<dyn Transport>) -> Result<Secured, io::Error> {
        let stream = TlsAcceptor::from(self.server_config()).accept(io).await?;
        let (_, connection) = stream.get_ref();
        let http2 = connection.alpn_protocol() == Some(b"h2");
        let shown = connection.peer_certificates().and_then(<[_]>::first);
        let subject = shown.and_then(|der| Facts::read(der)).map(|facts| facts.subject.into());
        Ok(Secured { io: Box::new(stream), http2, subject })
    }

    fn report(&self, live: &Live) {
        if let Some(gauge) = self.gauge.get() {
            self.report_gauge(gauge, live);
        }
    }

    fn report_gauge(&self, gauge: &Gauge, live: &Live) {
        gauge.set(live.not_after.as_second());
    }
}

impl std::fmt::Debug for Certificates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Certificates").field("files", &self.files).finish_non_exhaustive()
    }
}

impl Files {
    fn read(files: &config::Tls) -> Result<Self, Error> {
        Ok(Self {
            certificate: read(&files.certificate)?,
            key: read(&files.key)?,
            client_ca: files.client_ca.as_deref().map(read).transpose()?,
        })
    }

    fn digest(&self) -> [u8; 32] {
        let mut all = sha256(&self.certificate).to_vec();
        all.extend(sha256(&self.key));
        all.extend(self.client_ca_digest());
        sha256(&all)
    }

    fn client_ca_digest(&self) -> [u8; 32] {
        self.client_ca.as_deref().map(sha256).unwrap_or_default()
    }
}

impl Live {
    fn new(paths: &config::Tls, files: &Files, last: Option<&Self>) -> Result<Self, Error> {
        let provider = Arc::new(provider::default_provider());
        let (certified, not_after) = certified_key(paths, files, &provider)?;
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13, &TLS12])
            .map_err(|error| Error::Tls(error.to_string()))?;
        let builder = match (&paths.client_ca, &files.client_ca) {
            (Some(path), Some(pem)) => {
                let roots = Arc::new(client_roots(path, pem)?);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider)
                    .build()
                    .map_err(|error| bad_certificate(path, error.to_string()))?;
                builder.with_client_cert_verifier(verifier)
            }
            (None, _) | (_, None) => builder.with_no_client_auth(),
        };
        let mut config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
        let client_ca_digest = files.client_ca_digest();
        let sessions = match last {
            Some(last) if last.client_ca_digest == client_ca_digest => last.sessions.clone(),
            Some(_) | None => Sessions::new(files.client_ca.is_some())?,
        };
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        config.ticketer = Arc::clone(&sessions.tickets);
        config.session_storage = Arc::clone(&sessions.store);
        Ok(Self { config: Arc::new(config), sessions, not_after, digest: files.digest(), client_ca_digest })
    }

    fn warn_if_ended(&self, files: &config::Tls) {
        if self.not_after < Timestamp::now() {
            let (path, end) = (files.certificate.display(), self.not_after);
            tracing::warn!("the certificate in {path} ended at {end}: clients will refuse it; put a new one there");
        }
    }
}

impl Sessions {
    fn new(client_certificates: bool) -> Result<Self, Error> {
        let store: Arc<dyn StoresServerSessions> = match client_certificates {
            // A ticket holds the client's certificates itself; a second place for them is not needed.
            true => Arc::new(NoServerSessionStorage {}),
            false => ServerSessionMemoryCache::new(SESSIONS),
        };
        Ok(Self { tickets: Ticketer::new().map_err(|error| Error::Tls(error.to_string()))?, store })
    }
}

/// Why a handshake failed, in one word for a metric.
pub(super) fn failure_word(error: &io::Error) -> &'static str {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(rustls::Error::AlertReceived(_)) => "alert",
        Some(rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented) => "client_certificate",
        Some(_) => "protocol",
        None if error.kind() == io::ErrorKind::UnexpectedEof => "closed",
        None => "io",
    }
}

/// The chain and the key, checked against each other.
fn certified_key(
    paths: &config::Tls,
    files: &Files,
    provider: &CryptoProvider,
) -> Result<(CertifiedKey, Timestamp), Error> {
    let chain = certificates(&paths.certificate, &files.certificate)?;
    let mut ends = Vec::with_capacity(chain.len());
    for der in &chain {
        let facts = Facts::read(der)
            .ok_or_else(|| bad_certificate(&paths.certificate, "one of its certificates is no X.509".to_owned()))?;
        ends.push(facts.not_after);
    }
    let not_after = ends.into_iter().min().ok_or_else(|| no_certificates(&paths.certificate))?;
    let key = PrivateKeyDer::from_pem_slice(&files.key).map_err(|_| Error::NoKey { path: paths.key.clone() })?;
    let certified = CertifiedKey::from_der(chain, key, provider).map_err(|error| {
        if matches!(error, rustls::Error::InconsistentKeys(_)) {
            return Error::KeyMismatch { certificate: paths.certificate.clone(), key: paths.key.clone() };
        }
        if matches!(error, rustls::Error::InvalidCertificate(_)) {
            return bad_certificate(&paths.certificate, error.to_string());
        }
        Error::Key { path: paths.key.clone() }
    })?;
    Ok((certified, not_after))
}

fn client_roots(path: &Path, pem: &[u8]) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    for der in certificates(path, pem)? {
        roots.add(der).map_err(|error| bad_certificate(path, error.to_string()))?;
    }
    Ok(roots)
}

fn certificates(path: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Error> {
    let chain = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| bad_certificate(path, error.to_string()))?;
    if chain.is_empty() { Err(no_certificates(path)) } else { Ok(chain) }
}

fn no_certificates(path: &Path) -> Error {
    bad_certificate(path, "there is no PEM certificate in it".to_owned())
}

fn bad_certificate(path: &Path, reason: String) -> Error {
    Error::Certificate { path: path.to_owned(), reason }
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    fs::read(path).map_err(|source| Error::Read { path: path.to_owned(), source })
}

fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest::digest(&SHA256, bytes).as_ref());
    hash
}

#[cfg(test)]
pub(super) mod tests;
