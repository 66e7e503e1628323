//! The exchange with a backend over HTTP/1.1: one POST, one deadline, no redirects, no second try of what may have
//! arrived.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, LOCATION, USER_AGENT};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::{CaptureConnection, capture_connection};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::time::{Instant, timeout_at};

use crate::answer::{NoEffect, Outcome, Unknown, Unreachable};
use crate::config;

use super::batch::{BatchOutcome, BatchSupport};
use super::connect::{self, ConnectError, Connector, Progress};
use super::contract::Contract;
use super::credential::{self, Fingerprint, Material};
use super::endpoint::Endpoint;
use super::raw::{BODY_CAP, Raw};
use super::{Delivery, Error, identity, tls};

#[cfg(test)]
mod tests;

const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const ACTIVE_ROLES: HeaderName = HeaderName::from_static(crate::policy::ACTIVE_ROLES);
const X_LINEAGE_CALLER: HeaderName = HeaderName::from_static("x-lineage-caller");
const X_LINEAGE_GROUPS: HeaderName = HeaderName::from_static("x-lineage-groups");
const AGENT: HeaderValue = HeaderValue::from_static(concat!("lineage-gate/", env!("CARGO_PKG_VERSION")));

/// Bytes of an answer's head, and of what hyper buffers for writing.
const HEAD_CAP: usize = 64 * 1024;

/// Bytes of a batch's answer that are read for each of its events, over [`BODY_CAP`]: each may have failed with a reason.
const REASON_CAP: usize = 1024;

/// How long a backend that answered that it has no batch call is not asked again (facts: backends 2.5).
const NO_BATCHES: Duration = Duration::from_secs(600);

/// A backend over HTTP.
pub(super) struct Http {
    contract: Contract,
    config: config::Upstream,
    endpoint: Endpoint,
    link: ArcSwap<Link>,
    /// Until when batches are not tried.
    no_batches: ArcSwapOption<Instant>,
}

/// What the files made; swapped as a whole.
struct Link {
    client: Client<Connector, Full<Bytes>>,
    credential: Option<(HeaderName, HeaderValue)>,
    fingerprint: Fingerprint,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Failure {
    /// Nothing was sent.
    #[error("no connection: {0}")]
    Connect(ConnectError),
    /// The event cannot have arrived whole.
    #[error("the connection broke before everything was written")]
    Unsent,
    /// No answer in time.
    #[error("no answer in time")]
    Timeout,
    /// The event may have arrived.
    #[error("the connection broke before an answer")]
    Reset,
    /// What came is no HTTP/1.1 answer, or its head is too large.
    #[error("what came back is no HTTP/1.1 answer, or its head is over 64 KiB")]
    Malformed,
}

impl Http {
    /// Reads the files that the configuration names.
    pub(super) fn new(contract: Contract, config: &config::Upstream) -> Result<Self, Error> {
        let url = config.url.as_deref().unwrap_or_default();
        let endpoint = Endpoint::parse(contract, url).map_err(Error::Config)?;
        let material = Material::read(config)?;
        let client = client(config, &material, endpoint.secure)?;
        let fingerprint = material.fingerprint();
        let link = ArcSwap::from_pointee(Link { client, credential: material.credential, fingerprint });
        Ok(Self { contract, config: config.clone(), endpoint, link, no_batches: ArcSwapOption::empty() })
    }

    /// Sends one event.
    pub(super) async fn send(&self, delivery: &Delivery) -> Outcome {
        match self.post(&self.endpoint.uri, &delivery.body, BODY_CAP, delivery).await {
            Ok(raw) => {
                let outcome = self.contract.classify(&raw, &self.endpoint.host, self.endpoint.port);
                self.attributed(outcome, &raw, delivery)
            }
            Err(failure) => failure.into(),
        }
    }

    /// How batches are sent; none where the backend has no batch call, or said so within the last ten minutes.
    pub(super) fn batch_support(&self) -> Option<BatchSupport> {
        let form = self.contract.batch_form()?;
        let path = self.endpoint.batch_uri()?.path_and_query()?.to_string();
        let is_unsupported = self.no_batches.load().as_deref().is_some_and(|until| Instant::now() < *until);
        (!is_unsupported).then_some(BatchSupport { path, form })
    }

    /// Sends these events in one call. Of `delivery` all counts but the body.
    pub(super) async fn send_batch(&self, delivery: &Delivery, events: &[Bytes]) -> BatchOutcome {
        let (Some(support), Some(uri)) = (self.batch_support(), self.endpoint.batch_uri()) else {
            return BatchOutcome::Unsupported;
        };
        let cap = events.len().saturating_mul(REASON_CAP).saturating_add(BODY_CAP);
        let raw = match self.post(&uri, &support.form.body(events), cap, delivery).await {
            Ok(raw) => raw,
            Err(failure) => return BatchOutcome::Whole(failure.into()),
        };
        match self.contract.classify_batch(&raw, events.len(), &self.endpoint.host, self.endpoint.port) {
            BatchOutcome::Whole(outcome) => BatchOutcome::Whole(self.attributed(outcome, &raw, delivery)),
            BatchOutcome::Unsupported => {
                self.no_batches.store(Some(Arc::new(Instant::now() + NO_BATCHES)));
                BatchOutcome::Unsupported
            }
            each @ BatchOutcome::Each { .. } => each,
        }
    }

    async fn post(&self, uri: &Uri, body: &Bytes, cap: usize, delivery: &Delivery) -> Result<Raw, Failure> {
        let deadline = Instant::now() + self.config.timeout.0;
        let link = self.link.load_full();
        let request = || self.request(&link, uri, body, delivery);
        let mut answer = exchange(&link, request(), deadline, cap).await;
        if matches!(answer, Err(Failure::Connect(ConnectError::Handshake))) {
            answer = exchange(&link, request(), deadline, cap).await;
        }
        match answer {
            Ok((raw, location)) => {
                self.log_answer(&raw, location.as_deref(), delivery);
                Ok(raw)
            }
            Err(failure) => {
                tracing::debug!(upstream = %self.config.name, request_id = %delivery.request_id, ?failure, "no answer");
                Err(failure)
            }
        }
    }

    /// The files that [`reload`](Self::reload) reads.
    pub(super) fn watched(&self) -> Vec<PathBuf> {
        credential::files(&self.config)
    }

    /// Reads the files anew; the last good stays on an error. Connections are kept where only the credential changed.
    pub(super) fn reload(&self) -> Result<bool, Error> {
        let material = Material::read(&self.config)?;
        let fingerprint = material.fingerprint();
        let old = self.link.load_full();
        if fingerprint == old.fingerprint {
            return Ok(false);
        }
        let client = if fingerprint.tls == old.fingerprint.tls {
            old.client.clone()
        } else {
            client(&self.config, &material, self.endpoint.secure)?
        };
        self.link.store(Arc::new(Link { client, credential: material.credential, fingerprint }));
        Ok(true)
    }

    /// One GET with the gate's own credential, for `probe`.
    pub(super) async fn get(&self) -> Result<Raw, Failure> {
        let uri = self.contract.probe_path().map_or_else(|| self.endpoint.uri.clone(), |path| self.probe_uri(path));
        let link = self.link.load_full();
        let mut request = Request::new(Full::default());
        *request.uri_mut() = uri;
        request.headers_mut().insert(ACCEPT, self.accept());
        request.headers_mut().insert(USER_AGENT, AGENT);
        if let Some((name, value)) = &link.credential {
            request.headers_mut().insert(name, value.clone());
        }
        exchange(&link, request, Instant::now() + self.config.timeout.0, BODY_CAP).await.map(|(raw, _)| raw)
    }

    /// One GET of another path of the same server, for [`Reader`](super::Reader). Up to `cap` bytes of its body are read.
    pub(super) async fn read(
        &self,
        path: PathAndQuery,
        headers: HeaderMap,
        own_credential: bool,
        cap: usize,
    ) -> Result<Raw, Failure> {
        let link = self.link.load_full();
        let deadline = Instant::now() + self.config.timeout.0;
        let request = || {
            let mut request = Request::new(Full::default());
            *request.uri_mut() = self.endpoint.with_path(path.clone());
            *request.headers_mut() = headers.clone();
            request.headers_mut().insert(ACCEPT, self.accept());
            request.headers_mut().insert(USER_AGENT, AGENT);
            if own_credential && let Some((name, value)) = &link.credential {
                request.headers_mut().insert(name, value.clone());
            }
            request
        };
        let mut answer = exchange(&link, request(), deadline, cap).await;
        if answer.as_ref().is_err_and(Failure::is_worth_another) {
            answer = exchange(&link, request(), deadline, cap).await;
        }
        answer.map(|(raw, _)| raw)
    }

    /// The path that the configured base has, without a `/` at its end.
    pub(super) fn base(&self) -> &str {
        self.endpoint.uri.path().strip_suffix("/api/lineage").unwrap_or_default()
    }

    /// Whether the gate shows a credential of its own.
    pub(super) fn has_credential(&self) -> bool {
        self.link.load().credential.is_some()
    }

    fn probe_uri(&self, path: &str) -> Uri {
        let base = self.endpoint.uri.path().strip_suffix(self.contract.path()).unwrap_or_default();
        let probe = format!("{base}{path}").parse();
        probe.map_or_else(|_| self.endpoint.uri.clone(), |probe| self.endpoint.with_path(probe))
    }

    fn request(&self, link: &Link, uri: &Uri, body: &Bytes, delivery: &Delivery) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(body.clone()));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = uri.clone();
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
        headers.insert(ACCEPT, self.accept());
        headers.insert(USER_AGENT, AGENT);
        insert(headers, X_REQUEST_ID, HeaderValue::from_str(&delivery.request_id).ok());
        insert(headers, TRACEPARENT, delivery.traceparent.clone().filter(is_traceparent));
        if self.config.identity_headers {
            insert(headers, X_LINEAGE_CALLER, identity::caller(&delivery.caller));
            insert(headers, X_LINEAGE_GROUPS, identity::groups(&delivery.caller));
        }
        if let Some((name, value)) = &link.credential {
            headers.insert(name, value.clone());
        }
        if self.forwards(delivery) {
            let mut value = delivery.caller_authorization.clone();
            value.iter_mut().for_each(|value| value.set_sensitive(true));
            insert(headers, AUTHORIZATION, value);
            let roles = delivery.active_roles.clone().filter(|_| self.contract == Contract::Gravitino);
            insert(headers, ACTIVE_ROLES, roles);
        }
        request
    }

    /// Whether the backend is shown the caller's own credential.
    fn forwards(&self, delivery: &Delivery) -> bool {
        self.config.auth == config::UpstreamAuth::Forward && delivery.caller_authorization.is_some()
    }

    fn accept(&self) -> HeaderValue {
        HeaderValue::from_static(self.contract.accept())
    }

    /// The kind's reading of an answer, with what only the request tells: a refused credential is the caller's verdict
    /// where it was the caller's and the backend itself refused it, and an event that makes no edge anyway was filtered.
    fn attributed(&self, outcome: Outcome, raw: &Raw, delivery: &Delivery) -> Outcome {
        let forwarded = self.forwards(delivery) && self.contract.is_own_refusal(raw);
        match (outcome, raw.status.as_u16()) {
            (Outcome::UpstreamAuth, 401) if forwarded => Outcome::CallerUnauthenticated,
            (Outcome::UpstreamAuth, _) if forwarded => Outcome::CallerForbidden,
            (Outcome::NoEffect(NoEffect::NoEdges), _) if !delivery.draws_edges => Outcome::NoEffect(NoEffect::Filtered),
            (outcome, _) => outcome,
        }
    }

    fn log_answer(&self, raw: &Raw, location: Option<&str>, delivery: &Delivery) {
        if raw.status.is_success() {
            return;
        }
        tracing::debug!(
            upstream = %self.config.name,
            request_id = %delivery.request_id,
            status = raw.status.as_u16(),
            location_host = location,
            "the lineage backend did not take the event"
        );
    }
}

impl Failure {
    pub(super) fn of(error: &hyper_util::client::legacy::Error, progress: Option<&Progress>, body: u64) -> Self {
        Self::known(error).unwrap_or_else(|| match progress {
            Some(progress) if !progress.is_short_of(body) => Self::Reset,
            Some(_) | None => Self::Unsent,
        })
    }

    /// That of a request of which nobody counted how much was written: all that was begun may have arrived.
    pub(super) fn of_stream(error: &hyper_util::client::legacy::Error) -> Self {
        let is_unsent = http_error(error).is_some_and(hyper::Error::is_canceled);
        let other = if is_unsent { Self::Unsent } else { Self::Reset };
        Self::known(error).unwrap_or(other)
    }

    /// Whether a question is asked once more: a kept connection may have been closed while it was on its way.
    pub(super) fn is_worth_another(&self) -> bool {
        match self {
            Self::Connect(ConnectError::Handshake) | Self::Unsent | Self::Reset => true,
            Self::Connect(_) | Self::Timeout | Self::Malformed => false,
        }
    }

    /// What the error itself tells.
    fn known(error: &hyper_util::client::legacy::Error) -> Option<Self> {
        let cause = std::error::Error::source(error);
        if let Some(error) = cause.and_then(|cause| cause.downcast_ref::<ConnectError>()) {
            return Some(Self::Connect(*error));
        }
        // With TLS 1.3 a backend refuses the gate's certificate only after the handshake, in place of an answer.
        if connect::tls_error(error).is_some_and(connect::is_certificate) {
            return Some(Self::Connect(ConnectError::Certificate));
        }
        http_error(error).is_some_and(hyper::Error::is_parse).then_some(Self::Malformed)
    }
}

fn http_error(error: &hyper_util::client::legacy::Error) -> Option<&hyper::Error> {
    std::error::Error::source(error)?.downcast_ref()
}

impl From<Failure> for Outcome {
    /// The table of facts/backends.md 2.4.
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Connect(ConnectError::Dns) => Self::Unreachable(Unreachable::Dns),
            Failure::Connect(ConnectError::Connect | ConnectError::Handshake) => {
                Self::Unreachable(Unreachable::Connect)
            }
            Failure::Connect(ConnectError::Certificate) => Self::Unreachable(Unreachable::Certificate),
            Failure::Connect(ConnectError::Protocol) => Self::BadGateway("its port does not speak TLS".to_owned()),
            Failure::Unsent => Self::Unreachable(Unreachable::Connect),
            Failure::Timeout => Self::Unknown(Unknown::Timeout),
            Failure::Reset => Self::Unknown(Unknown::Reset),
            Failure::Malformed => {
                Self::BadGateway("it does not answer in HTTP/1.1, or with too large a head".to_owned())
            }
        }
    }
}

/// One request and its answer, with the host of a `Location`. The deadline holds for all of it.
async fn exchange(
    link: &Link,
    mut request: Request<Full<Bytes>>,
    deadline: Instant,
    cap: usize,
) -> Result<(Raw, Option<String>), Failure> {
    let body = hyper::body::Body::size_hint(request.body()).lower();
    let capture = capture_connection(&mut request);
    let response = match timeout_at(deadline, link.client.request(request)).await {
        Ok(Ok(response)) => response,
        Ok(Err(error)) => return Err(Failure::of(&error, progress(&capture).as_ref(), body)),
        // What was handed to a connection may still be on its way, however little of it was written.
        Err(_) if capture.connection_metadata().is_some() => return Err(Failure::Timeout),
        Err(_) => return Err(Failure::Connect(ConnectError::Connect)),
    };
    let (head, incoming) = response.into_parts();
    let (body, complete) = read_body(incoming, deadline, cap).await;
    if progress(&capture).is_some_and(|progress| progress.is_broken())
        && let Some(connection) = capture.connection_metadata().as_ref()
    {
        connection.poison();
    }
    let content_type = text(&head.headers, CONTENT_TYPE).map(|kind| kind.to_ascii_lowercase());
    let location = text(&head.headers, LOCATION).and_then(|url| url.parse::<Uri>().ok());
    let location = location.and_then(|url| url.host().map(str::to_owned));
    Ok((Raw { status: head.status, content_type, body, complete }, location))
}

/// Up to `cap` bytes of a body, and whether that was all and ended as it should.
async fn read_body(mut incoming: Incoming, deadline: Instant, cap: usize) -> (Bytes, bool) {
    let mut read = Vec::new();
    loop {
        let frame = match timeout_at(deadline, incoming.frame()).await {
            Ok(Some(Ok(frame))) => frame,
            Ok(None) => return (read.into(), true),
            Ok(Some(Err(_))) | Err(_) => return (read.into(), false),
        };
        let Ok(data) = frame.into_data() else {
            continue;
        };
        let room = cap.saturating_sub(read.len());
        read.extend(data.iter().take(room));
        if data.len() > room {
            return (read.into(), false);
        }
    }
}

fn client(
    config: &config::Upstream,
    material: &Material,
    secure: bool,
) -> Result<Client<Connector, Full<Bytes>>, Error> {
    let tls = if secure { tls::client_config(config, material)? } else { tls::unused()? };
    let connector = Connector::new(Arc::new(tls), config.connect_timeout.0, config.timeout.0);
    let idle: Duration = config.idle_timeout.0;
    Ok(Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(idle)
        .pool_max_idle_per_host(config.idle_connections)
        .http1_max_buf_size(HEAD_CAP)
        .build(connector))
}

fn progress(capture: &CaptureConnection) -> Option<Progress> {
    let mut extras = http::Extensions::new();
    capture.connection_metadata().as_ref()?.get_extras(&mut extras);
    extras.remove()
}

/// `VERSION-TRACE-PARENT-FLAGS` in lower-case hex (W3C Trace Context 3.2.2); later versions may be longer.
fn is_traceparent(value: &HeaderValue) -> bool {
    let bytes = value.as_bytes();
    (55..=128).contains(&bytes.len()) && bytes.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f' | b'-'))
}

fn insert(headers: &mut HeaderMap, name: HeaderName, value: Option<HeaderValue>) {
    if let Some(value) = value {
        headers.insert(name, value);
    }
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}
