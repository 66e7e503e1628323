//! Requests that are passed on as they are, over connections of their own.

use std::sync::Arc;

use http::uri::{Authority, PathAndQuery};
use http::{Request, Response, Uri};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use super::connect::Connector;
use super::contract::Contract;
use super::credential::Material;
use super::http::Failure;
use super::{Error, endpoint::Endpoint, tls};
use crate::answer::Outcome;
use crate::config;
use crate::listen::Body;

/// A way to a catalog, encrypted like that to the lineage backend.
pub struct Relay {
    client: Client<Connector, Body>,
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
            .build(Connector::new(Arc::new(tls), settings.connect_timeout.0));
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

    /// Sends it, and returns the answer once its head is there.
    ///
    /// # Errors
    /// No answer: as an outcome of the backend.
    pub async fn pass(&self, request: Request<Body>) -> Result<Response<Incoming>, Outcome> {
        self.client.request(request).await.map_err(|error| Failure::of(&error, None, 0).into())
    }
}
