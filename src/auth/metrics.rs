//! What the auth stage counts.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::Caller;
use super::error::Error;

/// What the auth stage counts. Labels are the configured issuers and fixed words.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    tokens: Family<TokenLabels, Counter>,
    signature_checks: Counter,
    jwks_fetches: Family<FetchLabels, Counter>,
    jwks_fetched: Family<IssuerLabels, Gauge>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TokenLabels {
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FetchLabels {
    issuer: Arc<str>,
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct IssuerLabels {
    issuer: Arc<str>,
}

impl Metrics {
    /// Adds the metrics of this stage to a registry.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register("auth_tokens", "Requests by what became of their token", metrics.tokens.clone());
        registry.register(
            "auth_signature_checks",
            "Signatures verified; a remembered token costs none",
            metrics.signature_checks.clone(),
        );
        registry.register("auth_jwks_fetches", "Fetches of a key set by result", metrics.jwks_fetches.clone());
        registry.register(
            "auth_jwks_fetched_timestamp_seconds",
            "Unix time of the last good fetch of a key set",
            metrics.jwks_fetched.clone(),
        );
        metrics
    }

    pub(super) fn count(&self, result: &Result<Caller, Error>) {
        let result = match result {
            Ok(_) => "accepted",
            Err(Error::NoToken) => "no_token",
            Err(Error::Token(reason)) => reason.label(),
            Err(Error::InsufficientScope) => "insufficient_scope",
            Err(Error::KeysUnavailable { .. }) => "keys_unavailable",
        };
        self.tokens.get_or_create(&TokenLabels { result }).inc();
    }

    pub(super) fn signature_check(&self) {
        self.signature_checks.inc();
    }

    pub(super) fn fetched(&self, issuer: &Arc<str>, result: &'static str) {
        self.jwks_fetches.get_or_create(&FetchLabels { issuer: Arc::clone(issuer), result }).inc();
        if result == "ok" {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
            let labels = IssuerLabels { issuer: Arc::clone(issuer) };
            self.jwks_fetched.get_or_create(&labels).set(i64::try_from(now).unwrap_or(i64::MAX));
        }
    }

    #[cfg(test)]
    pub(super) fn signature_checks(&self) -> u64 {
        self.signature_checks.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::Reason;

    #[test]
    fn metrics_are_written_under_their_names() {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        let issuer = Arc::from("https://i");
        metrics.count(&Err(Error::NoToken));
        metrics.count(&Err(Reason::NotYet.into()));
        metrics.signature_check();
        metrics.fetched(&issuer, "timeout");
        metrics.fetched(&issuer, "ok");
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for line in [
            "auth_tokens_total{result=\"no_token\"} 1",
            "auth_tokens_total{result=\"not_yet\"} 1",
            "auth_signature_checks_total 1",
            "auth_jwks_fetches_total{issuer=\"https://i\",result=\"timeout\"} 1",
            "auth_jwks_fetches_total{issuer=\"https://i\",result=\"ok\"} 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
        assert!(text.contains("auth_jwks_fetched_timestamp_seconds{issuer=\"https://i\"} 1"), "{text}");
    }
}
