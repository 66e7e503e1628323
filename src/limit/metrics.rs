//! What limits count.

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Metrics of all limits, by the limit's name.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    decisions: Family<Decision, Counter>,
    keys: Family<Name, Gauge>,
    fallbacks: Family<Name, Counter>,
}

/// The metrics of one limit.
#[derive(Debug)]
pub(super) struct Counters {
    pub(super) allowed: Counter,
    pub(super) refused: Counter,
    pub(super) over_burst: Counter,
    pub(super) keys: Gauge,
    pub(super) fallbacks: Counter,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Name {
    limit: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Decision {
    limit: String,
    result: Verdict,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Verdict {
    Allowed,
    Refused,
    OverBurst,
}

impl Metrics {
    /// Makes the metrics and makes them known to `registry`.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register(
            "limit_decisions",
            "Charges of each limit; in a refused plan only the first limit that refused is counted",
            metrics.decisions.clone(),
        );
        registry.register("limit_keys", "Buckets that are not full, or not swept yet", metrics.keys.clone());
        registry.register(
            "limit_fallbacks",
            "Charges tried on the bucket that callers share once max_keys is reached",
            metrics.fallbacks.clone(),
        );
        metrics
    }

    pub(super) fn of(&self, limit: &str) -> Counters {
        let name = Name { limit: limit.to_owned() };
        let decision = |result| self.decisions.get_or_create_owned(&Decision { limit: limit.to_owned(), result });
        Counters {
            allowed: decision(Verdict::Allowed),
            refused: decision(Verdict::Refused),
            over_burst: decision(Verdict::OverBurst),
            keys: self.keys.get_or_create_owned(&name),
            fallbacks: self.fallbacks.get_or_create_owned(&name),
        }
    }
}

impl EncodeLabelValue for Verdict {
    fn encode(&self, encoder: &mut prometheus_client::encoding::LabelValueEncoder<'_>) -> Result<(), std::fmt::Error> {
        let text = match self {
            Self::Allowed => "allowed",
            Self::Refused => "refused",
            Self::OverBurst => "over_burst",
        };
        EncodeLabelValue::encode(&text, encoder)
    }
}
