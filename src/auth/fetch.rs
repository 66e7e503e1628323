//! One bounded GET for a key set: no redirects, no pool, CA and token files read anew each time.

use std::error::Error as StdError;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, USER_AGENT};
use http::{HeaderValue, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Empty, LengthLimitError, Limited};
use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

use super::jwks;

/// A Kubernetes API server answers 406 to `application/json` alone (facts: kubernetes-real 4.3).
const ACCEPTED: &str = "application/jwk-set+json, application/json;q=0.9, */*;q=0.1";
/// From name resolution to the last byte.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Where a key set is fetched, and with what.
#[derive(Debug, Clone)]
pub(super) struct Target {
    pub(super) uri: Uri,
    /// CA certificates instead of the system's.
    pub(super) ca_file: Option<PathBuf>,
    /// Bearer token.
    pub(super) token_file: Option<PathBuf>,
}

/// Why a key set was not fetched: the root cause, for the log.
#[derive(Debug, thiserror::Error)]
pub(super) enum FetchError {
    #[error("cannot read {}: {source}", path.display())]
    File { path: PathBuf, source: std::io::Error },
    #[error("{}: {text}", path.display())]
    BadFile { path: PathBuf, text: String },
    #[error("no certificate of the system's trust store can be read: {0}; name a `ca_file`")]
    NoRoots(String),
    #[error("no answer within {} s", TIMEOUT.as_secs())]
    Timeout,
    #[error("{0}")]
    Connection(String),
    #[error("answered {0}, a redirect, which is not followed: configure the final URL")]
    Redirect(StatusCode),
    #[error("answered {0}{hint}", hint = hint(*.0))]
    Status(StatusCode),
    #[error("answered more than {} bytes", jwks::MAX_BYTES)]
    TooLarge,
    #[error("{0}")]
    NoKeySet(String),
}

impl FetchError {
    /// For the metric.
    pub(super) const fn label(&self) -> &'static str {
        match self {
            Self::File { .. } | Self::BadFile { .. } | Self::NoRoots(_) => "file",
            Self::Timeout => "timeout",
            Self::Connection(_) => "connection",
            Self::Redirect(_) | Self::Status(_) => "status",
            Self::TooLarge | Self::NoKeySet(_) => "content",
        }
    }
}

/// Fetches the body of a 200.
pub(super) async fn get(target: &Target) -> Result<Bytes, FetchError> {
    tokio::time::timeout(TIMEOUT, exchange(target)).await.unwrap_or(Err(FetchError::Timeout))
}

/// Reads CA certificates, PEM.
pub(super) fn roots(pem: &[u8]) -> Result<RootCertStore, String> {
    let mut store = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| format!("is no PEM file: {error}"))?;
        store.add(certificate).map_err(|error| format!("holds a certificate that cannot be used: {error}"))?;
    }
    if store.is_empty() {
        return Err("holds no PEM section `CERTIFICATE`".to_owned());
    }
    Ok(store)
}

/// Reads a bearer token, as a header.
pub(super) fn bearer(content: &[u8]) -> Result<HeaderValue, String> {
    let token = content.trim_ascii();
    if token.is_empty() {
        return Err("is empty; it must hold a bearer token".to_owned());
    }
    let mut value = HeaderValue::from_bytes(&[b"Bearer ", token].concat())
        .map_err(|_| "holds characters that no bearer token has".to_owned())?;
    value.set_sensitive(true);
    Ok(value)
}

async fn exchange(target: &Target) -> Result<Bytes, FetchError> {
    let request = request(target).await?;
    let connector =
        HttpsConnectorBuilder::new().with_tls_config(tls(target).await?).https_or_http().enable_http1().build();
    let client = Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build(connector);
    let response = client.request(request).await.map_err(|error| FetchError::Connection(causes(&error)))?;
    match response.status() {
        StatusCode::OK => {}
        status if status.is_redirection() => return Err(FetchError::Redirect(status)),
        status => return Err(FetchError::Status(status)),
    }
    let body = Limited::new(response.into_body(), jwks::MAX_BYTES).collect().await.map_err(|error| {
        if error.is::<LengthLimitError>() {
            return FetchError::TooLarge;
        }
        FetchError::Connection(causes(error.as_ref()))
    })?;
    Ok(body.to_bytes())
}

async fn request(target: &Target) -> Result<Request<Empty<Bytes>>, FetchError> {
    let mut request = Request::new(Empty::new());
    *request.uri_mut() = target.uri.clone();
    let headers = request.headers_mut();
    headers.insert(ACCEPT, HeaderValue::from_static(ACCEPTED));
    headers.insert(USER_AGENT, HeaderValue::from_static(concat!("lineage-gate/", env!("CARGO_PKG_VERSION"))));
    if let Some(path) = &target.token_file {
        headers.insert(AUTHORIZATION, read(path, bearer).await?);
    }
    Ok(request)
}

async fn tls(target: &Target) -> Result<ClientConfig, FetchError> {
    let store = match &target.ca_file {
        Some(path) => read(path, roots).await?,
        None if target.uri.scheme_str() == Some("https") => system_roots()?,
        None => RootCertStore::empty(),
    };
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| FetchError::Connection(error.to_string()))?
        .with_root_certificates(store)
        .with_no_client_auth();
    Ok(config)
}

fn system_roots() -> Result<RootCertStore, FetchError> {
    let loaded = rustls_native_certs::load_native_certs();
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(loaded.certs);
    if store.is_empty() {
        let errors: Vec<_> = loaded.errors.iter().map(ToString::to_string).collect();
        return Err(FetchError::NoRoots(if errors.is_empty() { "none found".to_owned() } else { errors.join("; ") }));
    }
    Ok(store)
}

async fn read<T>(path: &Path, parse: fn(&[u8]) -> Result<T, String>) -> Result<T, FetchError> {
    let content = tokio::fs::read(path).await.map_err(|source| FetchError::File { path: path.to_owned(), source })?;
    parse(&content).map_err(|text| FetchError::BadFile { path: path.to_owned(), text })
}

/// An error and what caused it, down to the root: DNS, TCP, TLS.
fn causes(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        next = cause.source();
    }
    text
}

fn hint(status: StatusCode) -> &'static str {
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            ": the issuer wants a bearer token of its own (`token_file`), with the issuer itself as audience"
        }
        StatusCode::NOT_FOUND => ": is it the URL of the key set?",
        _ => "",
    }
}
