//! Counters of exchanges. Labels are the configured upstream and the kind of outcome: bounded sets.

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use crate::answer::{Outcome, outcome_word};

use super::Answered;

/// Seconds; the last bounds lie around the timeout of an exchange and the budget of an answer.
const BUCKETS: [f64; 12] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 3.5];

/// What is counted of deliveries.
#[derive(Debug, Clone)]
pub struct Metrics {
    requests: Family<RequestLabels, Counter>,
    seconds: Family<UpstreamLabels, Histogram>,
    in_flight: Family<UpstreamLabels, Gauge>,
    client_gone: Counter,
    late: Counter,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    upstream: Arc<str>,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct UpstreamLabels {
    upstream: Arc<str>,
}

impl Metrics {
    /// Makes and registers the metrics.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            requests: Family::default(),
            seconds: Family::new_with_constructor(|| Histogram::new(BUCKETS)),
            in_flight: Family::default(),
            client_gone: Counter::default(),
            late: Counter::default(),
        };
        registry.register("upstream_requests", "Exchanges that ended, by outcome", metrics.requests.clone());
        let help = "Time of an exchange";
        registry.register_with_unit("upstream", help, Unit::Seconds, metrics.seconds.clone());
        registry.register("upstream_in_flight", "Exchanges that are running", metrics.in_flight.clone());
        let help = "Exchanges whose client had left before their end";
        registry.register("deliver_client_gone", help, metrics.client_gone.clone());
        let help = "Exchanges that ended after their client had been told that the outcome is not known yet";
        registry.register("deliver_late", help, metrics.late.clone());
        metrics
    }

    pub(super) fn started(&self, upstream: &Arc<str>) {
        self.in_flight.get_or_create(&UpstreamLabels { upstream: Arc::clone(upstream) }).inc();
    }

    pub(super) fn ended(&self, upstream: &Arc<str>, outcome: &Outcome, took: Duration) {
        let labels = UpstreamLabels { upstream: Arc::clone(upstream) };
        self.in_flight.get_or_create(&labels).dec();
        self.seconds.get_or_create(&labels).observe(took.as_secs_f64());
        self.requests.get_or_create(&RequestLabels { upstream: labels.upstream, outcome: outcome_word(outcome) }).inc();
    }

    pub(super) fn answered(&self, answered: Answered) {
        match answered {
            Answered::InTime => {}
            Answered::Late => {
                self.late.inc();
            }
            Answered::ClientGone => {
                self.client_gone.inc();
            }
        }
    }
}
