//! Requests that are passed on as they are, over connections of their own.

use std::pin::{Pin, pin};
use std::sync::Arc;

use bytes::Bytes;
use http::uri::{Authority, PathAndQuery};
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty};
use hyper::body::{Body, Incoming};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::capture_connection;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use super::connect::{ConnectError, Connector};
use super::contract::Contract;
use super::credential::Material;
use super::http::Failure;
use super::{Error, endpoint::Endpoint, tls};
use crate::answer::Outcome;
use crate::config;

/// The body of a request to a catalog.
pub type Outbound = UnsyncBoxBody<Bytes, Box<dyn std::error::Error + Send + Sync>>;

/// A way to a catalog, encrypted like that to the lineage backend.
pub struct Relay {
    client: Client<Connector, Outbound>,
    base: Uri,
    prefix: String,
}

/// What is wrong with the base URL of a catalog, if anything. The URL is not repeated: it may hold a password.
pub fn check_base(url: &str) -> Option<String> {
    match Endpoint::parse(Contract::Gravitino, url) {
        Ok(endpoint) if endpoint.is_readable() => {
            Some("would send the caller's token readable over the network: use an https `url`".to_owned())
        }
        Ok(_) => None,
        Err(fault) => Some(fault),
    }
}

impl Relay {
    /// Towards `url`, or the lineage backend's own.
    ///
    /// # Errors
    /// [`Error`]: a URL or a file that cannot be used.
    pub fn new(settings: &config::Upstream, url: Option<&str>) -> Result<Self, Error> {
        let url = url.or(settings.url.as_deref()).unwrap_or_default();
        let endpoint = Endpoint::parse(Contract::Gravitino, url).map_err(Error::Config)?;
        let material = Material::read(settings)?;
        let tls = if endpoint.secure { tls::client_config(settings, &material)? } else { tls::unused()? };
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(settings.idle_timeout.0)
            .pool_max_idle_per_host(settings.idle_connections)
            .build(Connector::new(Arc::new(tls), settings.connect_timeout.0, settings.timeout.0));
        let prefix = endpoint.uri.path().strip_suffix("/api/lineage").unwrap_or_default().to_owned();
        Ok(Self { client, base: endpoint.uri, prefix })
    }

    /// The path of the base URL, without a slash at its end.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// For `Host`.
    pub fn authority(&self) -> Option<&Authority> {
        self.base.authority()
    }

    /// The same path and query there.
    pub fn place(&self, uri: &Uri) -> Option<Uri> {
        let path = uri.path_and_query().map_or("/", PathAndQuery::as_str);
        let mut parts = self.base.clone().into_parts();
        parts.path_and_query = Some(format!("{}{path}", self.prefix).parse().ok()?);
        Uri::from_parts(parts).ok()
    }

    /// Sends it, and returns the answer once its head is there, unless `late` ends before.
    ///
    /// # Errors
    /// No answer: as an outcome of the backend. Nothing is said to be unsent that may have arrived.
    pub async fn pass(
        &self,
        request: Request<Outbound>,
        late: impl Future<Output = ()>,
    ) -> Result<Response<Incoming>, Outcome> {
        let mut late = pin!(late);
        let again = repeated(&request);
        let mut answer = self.exchange(request, late.as_mut()).await;
        if let Some(again) = again.filter(|_| answer.as_ref().is_err_and(Failure::is_worth_another)) {
            answer = self.exchange(again, late).await;
        }
        let answer = answer?;
        if answer.status() == StatusCode::SWITCHING_PROTOCOLS {
            return Err(Outcome::BadGateway("it switches protocols, and nobody asked for that".to_owned()));
        }
        Ok(answer)
    }

    async fn exchange(
        &self,
        mut request: Request<Outbound>,
        late: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<Response<Incoming>, Failure> {
        let capture = capture_connection(&mut request);
        tokio::select! {
            biased;
            answer = self.client.request(request) => answer.map_err(|error| Failure::of_stream(&error)),
            // What was handed to a connection may still be on its way, however little of it was written.
            () = late => match *capture.connection_metadata() {
                Some(_) => Err(Failure::Timeout),
                None => Err(Failure::Connect(ConnectError::Connect)),
            },
        }
    }
}

/// The same request, if it may be sent twice (RFC 9110 section 9.2.1) and has no body.
fn repeated(request: &Request<Outbound>) -> Option<Request<Outbound>> {
    let is_safe = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    if !is_safe || !request.body().is_end_stream() {
        return None;
    }
    let mut again = Request::new(Empty::new().map_err(|never| match never {}).boxed_unsync());
    *again.method_mut() = request.method().clone();
    *again.uri_mut() = request.uri().clone();
    *again.headers_mut() = request.headers().clone();
    Some(again)
}
