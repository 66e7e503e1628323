//! Bearer token → [`Caller`]: issuers, their keys, and the checks that a token must pass (facts: standards and peers 3.5).
//!
//! A request's token is found (`bearer`), looked up among the verified ones (`cache`), taken apart (`token`, `json`),
//! its issuer decided by `iss`, its key found (`store`, `key`), its signature verified, and its claims judged
//! (`claims`). Keys of a URL are fetched in the background (`fetch`, `jwks`).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use http::HeaderMap;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

pub use self::bearer::parse_bearer;
pub use self::error::{Error, Fault, Reason};
pub use self::metrics::Metrics;
pub use self::plan::check;

use self::cache::{Entry, TokenCache};
use self::claims::Rules;
use self::fetch::Target;
use self::plan::Plan;
use self::store::{Source, Store};
use self::token::Token;
use crate::config;

mod algorithm;
mod bearer;
mod cache;
mod claims;
pub mod dev;
mod error;
mod fetch;
mod json;
mod jwks;
mod key;
mod metrics;
mod plan;
mod store;
mod token;

/// The verified identity behind a request.
///
/// Subject and groups carry their issuer's `prefix`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The `iss` claim.
    pub issuer: Arc<str>,
    /// The caller's name.
    pub subject: Arc<str>,
    /// The groups that the token names.
    pub groups: Arc<[Arc<str>]>,
    /// `jti`, or else the first 16 hex digits of the token's SHA-256: for the audit.
    pub token_id: Arc<str>,
    /// When the token ends, leeway not counted.
    pub expires: SystemTime,
    /// SHA-256 over all claims but `exp`, `iat`, `nbf` and `jti`: what a policy source may decide by.
    pub identity: [u8; 32],
}

/// Verifies bearer tokens of the configured issuers.
pub struct Authenticator {
    issuers: Vec<Issuer>,
    cache: TokenCache,
    max_token: usize,
    metrics: Arc<Metrics>,
}

struct Issuer {
    rules: Rules,
    store: Arc<Store>,
}

impl Authenticator {
    /// Reads the configuration and all key files. Keys of URLs are fetched once [`Self::spawn_refresh`] runs.
    ///
    /// # Errors
    /// All faults together: those that [`check`] finds, and files that cannot be read or used.
    pub fn new(config: &config::Auth, metrics: Arc<Metrics>) -> Result<Self, Vec<Fault>> {
        let (plans, mut faults) = plan::plan(config);
        let mut issuers = Vec::new();
        for Plan { place, rules, source } in plans {
            faults.extend(unusable_files(&place, &source));
            let (issuer, accepted) = (Arc::clone(&rules.issuer), rules.algorithms.clone());
            match Store::new(issuer, place, accepted, source, Arc::clone(&metrics)) {
                Ok(store) => issuers.push(Issuer { rules, store: Arc::new(store) }),
                Err(fault) => faults.push(fault),
            }
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        Ok(Self { issuers, cache: TokenCache::new(config.token_cache), max_token: config.max_token.bytes(), metrics })
    }

    /// The caller behind a request, from its headers and its URL's query.
    ///
    /// # Errors
    /// See [`Error`]. It says nothing from the request and can be sent as a [`Refusal`](crate::answer::Refusal).
    pub async fn authenticate(&self, headers: &HeaderMap, query: Option<&str>) -> Result<Caller, Error> {
        self.authenticate_at(headers, query, SystemTime::now()).await
    }

    /// As [`Self::authenticate`], with the time that the claims are judged by.
    ///
    /// # Errors
    /// As there.
    pub async fn authenticate_at(
        &self,
        headers: &HeaderMap,
        query: Option<&str>,
        now: SystemTime,
    ) -> Result<Caller, Error> {
        let result = self.judge(headers, query, now).await;
        self.metrics.count(&result);
        result
    }

    /// Starts one task an issuer that keeps the keys of its URL fresh until `shutdown`.
    pub fn spawn_refresh(self: &Arc<Self>, shutdown: &CancellationToken) {
        for issuer in &self.issuers {
            if matches!(issuer.store.source(), Source::Url { .. }) {
                let (store, shutdown) = (Arc::clone(&issuer.store), shutdown.clone());
                tokio::spawn(async move { store.keep_fresh(shutdown).await });
            }
        }
    }

    /// Fetches each issuer's key set once and keeps nothing, for `check --online`. An issuer with a file is good. The
    /// texts name the root cause.
    pub async fn probe(&self) -> Vec<(Arc<str>, Result<(), String>)> {
        let mut results = Vec::with_capacity(self.issuers.len());
        for issuer in &self.issuers {
            let result = match issuer.store.source() {
                Source::File { .. } => Ok(()),
                Source::Url { target, .. } => probe(&issuer.store, target).await,
            };
            results.push((Arc::clone(&issuer.rules.issuer), result));
        }
        results
    }

    /// Reads all key files anew, and puts the keys in place once every file was good. Tells whether any key changed.
    ///
    /// # Errors
    /// The faults of all files; then the keys stay as they were.
    pub fn reload(&self) -> Result<bool, Vec<Fault>> {
        let mut faults = Vec::new();
        let mut read = Vec::new();
        for issuer in &self.issuers {
            match issuer.store.read() {
                Ok(Some(keys)) => read.push((&issuer.store, keys)),
                Ok(None) => {}
                Err(fault) => faults.push(fault),
            }
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        let changes = read.into_iter().filter_map(|(store, keys)| store.swap(keys).then_some(())).count();
        Ok(changes > 0)
    }

    /// The key files that [`Self::reload`] reads. CA and token files are read at each fetch and need no watch.
    pub fn watched(&self) -> Vec<PathBuf> {
        let path = |issuer: &Issuer| match issuer.store.source() {
            Source::File { path, .. } => Some(path.clone()),
            Source::Url { .. } => None,
        };
        self.issuers.iter().filter_map(path).collect()
    }

    /// The issuers whose keys are not known now, or are too old.
    pub fn missing(&self) -> Vec<Arc<str>> {
        let missing = self.issuers.iter().filter(|issuer| !issuer.store.is_ready());
        missing.map(|issuer| Arc::clone(&issuer.rules.issuer)).collect()
    }

    async fn judge(&self, headers: &HeaderMap, query: Option<&str>, now: SystemTime) -> Result<Caller, Error> {
        if query.is_some_and(bearer::in_query) {
            return Err(Reason::InQuery.into());
        }
        let text = parse_bearer(headers)?;
        if text.len() > self.max_token {
            return Err(Reason::TooLong.into());
        }
        let digest = key::sha256(text.as_bytes());
        if let Some(caller) = self.remembered(&digest, now) {
            return Ok(caller);
        }
        let token = Token::parse(text)?;
        let (index, Issuer { rules, store }) = self.issuer_of(&token)?;
        let algorithm = rules.algorithm(&token.header)?;
        let key = store.key(token.header.kid.as_deref(), algorithm).await?;
        self.metrics.signature_check();
        key.verify(algorithm, token.signed.as_bytes(), &token.signature)?;
        let verified = rules.caller(&token.header, &token.claims, &digest, now)?;
        let caller = verified.caller.clone();
        let (key, ends) = (key.thumbprint(), verified.ends);
        self.cache.insert(digest, Entry { caller: verified.caller, issuer: index, key, ends });
        Ok(caller)
    }

    /// A caller whose token was verified before, if it has not ended and its key still serves.
    fn remembered(&self, digest: &[u8; 32], now: SystemTime) -> Option<Caller> {
        let entry = self.cache.get(digest)?;
        let key_serves = self.issuers.get(entry.issuer).is_some_and(|issuer| issuer.store.has(&entry.key));
        if now < entry.ends && key_serves {
            return Some(entry.caller.clone());
        }
        self.cache.remove(digest);
        None
    }

    /// By exact `iss`, before anything of the token is believed.
    fn issuer_of(&self, token: &Token<'_>) -> Result<(usize, &Issuer), Reason> {
        let name = token.claims.get("iss").and_then(Value::as_str).ok_or(Reason::Issuer)?;
        let mut issuers = self.issuers.iter().enumerate();
        issuers.find(|(_, issuer)| &*issuer.rules.issuer == name).ok_or(Reason::Issuer)
    }
}

async fn probe(store: &Store, target: &Target) -> Result<(), String> {
    match store.fetch(target).await {
        Ok(parsed) if parsed.keys.is_empty() => {
            Err(format!("{}: holds no usable key: {}", target.uri, parsed.skipped.join("; ")))
        }
        Ok(_) => Ok(()),
        Err(error) => Err(format!("{}: {error}", target.uri)),
    }
}

/// What is wrong with the files that a fetch needs. They are read again at each fetch.
fn unusable_files(place: &str, source: &Source) -> Vec<Fault> {
    let Source::Url { target, .. } = source else { return Vec::new() };
    let ca = target
        .ca_file
        .as_deref()
        .and_then(|path| fault_of(format!("{place}.ca_file"), path, |content| fetch::roots(content).err()));
    let token = target
        .token_file
        .as_deref()
        .and_then(|path| fault_of(format!("{place}.token_file"), path, |content| fetch::bearer(content).err()));
    ca.into_iter().chain(token).collect()
}

fn fault_of(key: String, path: &Path, wrong: impl FnOnce(&[u8]) -> Option<String>) -> Option<Fault> {
    let path = path.to_owned();
    match std::fs::read(&path) {
        Err(source) => Some(Fault::Unreadable { key, path, source }),
        Ok(content) => wrong(&content).map(|text| Fault::Unusable { key, path, text }),
    }
}

#[cfg(test)]
mod tests;
