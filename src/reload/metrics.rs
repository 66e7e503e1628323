//! What is counted of reloads.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Counters and gauges of reloads, each by target.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    reloads: Family<ReloadLabels, Counter>,
    last_success: Family<TargetLabels, Gauge>,
    failed: Family<TargetLabels, Gauge>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReloadLabels {
    target: Arc<str>,
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TargetLabels {
    target: Arc<str>,
}

impl Metrics {
    /// Registers `reload`, `reload_last_success_timestamp_seconds` and `reload_failed`.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register("reload", "Reloads that swapped or failed", metrics.reloads.clone());
        let help = "When the target was last known good, in seconds since the Unix epoch";
        registry.register("reload_last_success_timestamp_seconds", help, metrics.last_success.clone());
        let help = "1 while the files of the target are wrong and the last good is in use";
        registry.register("reload_failed", help, metrics.failed.clone());
        metrics
    }

    /// The target was loaded, or swapped.
    pub(super) fn good(&self, target: &Arc<str>) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let labels = TargetLabels { target: Arc::clone(target) };
        self.last_success.get_or_create(&labels).set(i64::try_from(now.as_secs()).unwrap_or(i64::MAX));
        self.failed.get_or_create(&labels).set(0);
    }

    /// The target's files are wrong.
    pub(super) fn bad(&self, target: &Arc<str>) {
        self.failed.get_or_create(&TargetLabels { target: Arc::clone(target) }).set(1);
    }

    /// A reload swapped (`success`) or failed (`failure`).
    pub(super) fn count(&self, target: &Arc<str>, result: &'static str) {
        self.reloads.get_or_create(&ReloadLabels { target: Arc::clone(target), result }).inc();
    }
}
