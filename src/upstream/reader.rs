//! Reading a Gravitino server's API, over the same pooled connections that events travel on.

use std::path::PathBuf;

use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::config;

use super::Error;
use super::connect::ConnectError;
use super::contract::Contract;
use super::http::{Failure, Http};

const ACTIVE_ROLES: HeaderName = HeaderName::from_static(crate::policy::ACTIVE_ROLES);

/// A client for the policy reads of a Gravitino server. Redirects are not followed.
pub(crate) struct Reader {
    http: Http,
}

/// An answer as it came.
#[derive(Debug, Clone)]
pub(crate) struct Read {
    /// The status.
    pub(crate) status: u16,
    /// Its body, as far as it was read.
    pub(crate) body: Bytes,
    /// Whether the body ended as its framing says, within the cap and in time.
    pub(crate) complete: bool,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unread {
    /// Connection, time or protocol.
    #[error("{0}")]
    Failed(String),
    /// The path cannot be written in a request.
    #[error("a name in it cannot be sent")]
    Path,
}

impl Reader {
    /// Reads the files that the configuration names. Connects to nothing.
    pub(crate) fn new(config: &config::Upstream) -> Result<Self, Error> {
        Http::new(Contract::Gravitino, config).map(|http| Self { http })
    }

    /// Asks for `path`, which begins with `/api/`, with these credentials and no others.
    pub(crate) async fn get_as(
        &self,
        path: &str,
        authorization: Option<&HeaderValue>,
        active_roles: Option<&HeaderValue>,
        cap: usize,
    ) -> Result<Read, Unread> {
        let mut headers = HeaderMap::new();
        if let Some(value) = authorization {
            let mut value = value.clone();
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        if let Some(value) = active_roles {
            headers.insert(ACTIVE_ROLES, value.clone());
        }
        self.get(path, headers, false, cap).await
    }

    /// Asks for `path` with the gate's own credential, if it has one.
    pub(crate) async fn get_own(
        &self,
        path: &str,
        active_roles: Option<&HeaderValue>,
        cap: usize,
    ) -> Result<Read, Unread> {
        let roles = active_roles.map(|value| (ACTIVE_ROLES, value.clone()));
        self.get(path, roles.into_iter().collect(), true, cap).await
    }

    /// The files whose change wants a [`reload`](Self::reload).
    pub(crate) fn watched(&self) -> Vec<PathBuf> {
        self.http.watched()
    }

    /// Reads the files anew; the last good stays on an error. `true` if something changed.
    pub(crate) fn reload(&self) -> Result<bool, Error> {
        self.http.reload()
    }

    async fn get(&self, path: &str, headers: HeaderMap, own: bool, cap: usize) -> Result<Read, Unread> {
        let path = format!("{}{path}", self.http.base()).parse().map_err(|_| Unread::Path)?;
        let raw = self.http.read(path, headers, own, cap).await.map_err(|failure| Unread::Failed(words(&failure)))?;
        Ok(Read { status: raw.status.as_u16(), body: raw.body, complete: raw.complete })
    }
}

fn words(failure: &Failure) -> String {
    match failure {
        Failure::Connect(ConnectError::Connect) => "refuses connections, or takes none in time".to_owned(),
        Failure::Connect(_) | Failure::Unsent | Failure::Timeout | Failure::Reset | Failure::Malformed => {
            failure.to_string()
        }
    }
}
