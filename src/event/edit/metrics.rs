//! What edits did, counted.

use std::sync::Arc;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::Tally;

/// What edits did.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    rewrites: Family<RuleLabels, Counter>,
    edits: Family<EditLabels, Counter>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RuleLabels {
    rule: Arc<str>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EditLabels {
    edit: &'static str,
}

impl Metrics {
    /// Registers them.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let rewrites = metrics.rewrites.clone();
        registry.register("event_rewrites", "References that each rewrite rule mapped", rewrites);
        registry.register("event_edits", "Edits of events, by what was done", metrics.edits.clone());
        metrics
    }

    /// Counts what was done to one event.
    pub fn observe(&self, tally: &Tally) {
        for (rule, count) in &tally.rules {
            self.rewrites.get_or_create(&RuleLabels { rule: Arc::clone(rule) }).inc_by(*count as u64);
        }
        let edits = [
            ("reference_rewritten", tally.rewritten),
            ("facet_dropped", tally.facets_dropped),
            ("text_scrubbed", tally.scrubbed),
            ("symlink_dropped", tally.symlinks_dropped),
        ];
        for (edit, count) in edits.into_iter().filter(|(_, count)| *count > 0) {
            self.edits.get_or_create(&EditLabels { edit }).inc_by(count as u64);
        }
    }
}
