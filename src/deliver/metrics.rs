//! Counters of exchanges. Labels are the configured upstream and the kind of outcome: bounded sets.

use std::sync::Arc;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use tokio::time::Instant;

use crate::answer::{Outcome, outcome_word};

use super::breaker::State;
use super::runs::RunConflict;
use super::waiter::{Answered, Duplicate};

/// Seconds; the last bounds lie around the budget of an answer and the timeout of an exchange.
const BUCKETS: [f64; 14] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 3.5, 10.0, 30.0];

/// What is counted of deliveries.
#[derive(Debug, Clone)]
pub struct Metrics {
    requests: Family<RequestLabels, Counter>,
    seconds: Family<UpstreamLabels, Histogram>,
    in_flight: Family<UpstreamLabels, Gauge>,
    client_gone: Counter,
    late: Counter,
    duplicates: Family<DuplicateLabels, Counter>,
    unsent: Family<UnsentLabels, Counter>,
    queued: Family<UpstreamLabels, Gauge>,
    remembered: Family<UpstreamLabels, Gauge>,
    runs: Family<UpstreamLabels, Gauge>,
    run_conflicts: Family<ConflictLabels, Counter>,
    poison: Family<UpstreamLabels, Counter>,
    breaker: Family<StateLabels, Gauge>,
    breaker_changes: Family<StateLabels, Counter>,
    health_checks: Family<CheckLabels, Counter>,
}

/// Why an event was not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Unsent {
    /// The breaker is open.
    Breaker,
    /// The queue, or the caller's share of it, is full, or no place came free in time.
    Queue,
}

/// One exchange that is counted as running until it is dropped.
pub(super) struct Running<'a> {
    metrics: &'a Metrics,
    labels: UpstreamLabels,
    began: Instant,
}

/// One event that is counted as waiting for its place until it is dropped.
pub(super) struct Queued(Gauge);

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    upstream: Arc<str>,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct UpstreamLabels {
    upstream: Arc<str>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DuplicateLabels {
    upstream: Arc<str>,
    kind: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct UnsentLabels {
    upstream: Arc<str>,
    why: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ConflictLabels {
    conflict: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabels {
    upstream: Arc<str>,
    state: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CheckLabels {
    upstream: Arc<str>,
    result: &'static str,
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
            duplicates: Family::default(),
            unsent: Family::default(),
            queued: Family::default(),
            remembered: Family::default(),
            runs: Family::default(),
            run_conflicts: Family::default(),
            poison: Family::default(),
            breaker: Family::default(),
            breaker_changes: Family::default(),
            health_checks: Family::default(),
        };
        registry.register("upstream_requests", "Exchanges that ended, by outcome", metrics.requests.clone());
        let help = "Time of an exchange";
        registry.register_with_unit("upstream", help, Unit::Seconds, metrics.seconds.clone());
        registry.register("upstream_in_flight", "Exchanges that are running", metrics.in_flight.clone());
        let help = "Exchanges whose client had left before their end";
        registry.register("deliver_client_gone", help, metrics.client_gone.clone());
        let help = "Exchanges that ended after their client had been told that the outcome is not known yet";
        registry.register("deliver_late", help, metrics.late.clone());
        metrics.register_stores(registry);
        metrics.register_health(registry);
        metrics
    }

    fn register_stores(&self, registry: &mut Registry) {
        let help = "Identical events that were not sent again, by kind: joined or remembered";
        registry.register("deliver_duplicates", help, self.duplicates.clone());
        let help = "Deliveries that are remembered, for identical events";
        registry.register("deliver_remembered", help, self.remembered.clone());
        registry.register("deliver_runs", "Runs whose caller is remembered", self.runs.clone());
        let help = "Events for a run of another caller, or of the same caller with another job";
        registry.register("deliver_run_conflicts", help, self.run_conflicts.clone());
    }

    fn register_health(&self, registry: &mut Registry) {
        let help = "Exchanges that were not begun, since the breaker is open or the queue full";
        registry.register("deliver_unsent", help, self.unsent.clone());
        registry.register("deliver_queued", "Events that wait for their place", self.queued.clone());
        registry.register(
            "deliver_poison",
            "Events that the backend fails at while it takes others",
            self.poison.clone(),
        );
        registry.register("deliver_breaker", "1 for the state of the circuit breaker", self.breaker.clone());
        let help = "Changes of the circuit breaker, by the new state";
        registry.register("deliver_breaker_changes", help, self.breaker_changes.clone());
        registry.register("deliver_health_checks", "Health checks of the backend", self.health_checks.clone());
    }

    pub(super) fn running(&self, upstream: &Arc<str>) -> Running<'_> {
        let labels = labels(upstream);
        self.in_flight.get_or_create(&labels).inc();
        Running { metrics: self, labels, began: Instant::now() }
    }

    pub(super) fn queued(&self, upstream: &Arc<str>) -> Queued {
        let gauge = self.queued.get_or_create_owned(&labels(upstream));
        gauge.inc();
        Queued(gauge)
    }

    pub(super) fn unsent(&self, upstream: &Arc<str>, why: Unsent) {
        let why = match why {
            Unsent::Breaker => "breaker",
            Unsent::Queue => "queue",
        };
        self.unsent.get_or_create(&UnsentLabels { upstream: Arc::clone(upstream), why }).inc();
    }

    pub(super) fn duplicate(&self, upstream: &Arc<str>, duplicate: Duplicate) {
        let labels = DuplicateLabels { upstream: Arc::clone(upstream), kind: duplicate.word() };
        self.duplicates.get_or_create(&labels).inc();
    }

    pub(super) fn sizes(&self, upstream: &Arc<str>, remembered: usize, runs: usize) {
        let set = |family: &Family<UpstreamLabels, Gauge>, size: usize| {
            family.get_or_create(&labels(upstream)).set(i64::try_from(size).unwrap_or(i64::MAX));
        };
        set(&self.remembered, remembered);
        set(&self.runs, runs);
    }

    pub(super) fn run_conflict(&self, conflict: RunConflict) {
        self.run_conflicts.get_or_create(&ConflictLabels { conflict: conflict.word() }).inc();
    }

    pub(super) fn poison(&self, upstream: &Arc<str>) {
        self.poison.get_or_create(&labels(upstream)).inc();
    }

    pub(super) fn breaker(&self, upstream: &Arc<str>, now: State) {
        let labels = |state: State| StateLabels { upstream: Arc::clone(upstream), state: state.word() };
        for state in State::ALL {
            self.breaker.get_or_create(&labels(state)).set(i64::from(state == now));
        }
        self.breaker_changes.get_or_create(&labels(now)).inc();
    }

    pub(super) fn checked(&self, upstream: &Arc<str>, healthy: bool) {
        let result = if healthy { "healthy" } else { "unhealthy" };
        self.health_checks.get_or_create(&CheckLabels { upstream: Arc::clone(upstream), result }).inc();
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

impl Running<'_> {
    pub(super) fn ended(&self, outcome: &Outcome) {
        let Self { metrics, labels, began } = self;
        metrics.seconds.get_or_create(labels).observe(began.elapsed().as_secs_f64());
        let labels = RequestLabels { upstream: Arc::clone(&labels.upstream), outcome: outcome_word(outcome) };
        metrics.requests.get_or_create(&labels).inc();
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.metrics.in_flight.get_or_create(&self.labels).dec();
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        self.0.dec();
    }
}

fn labels(upstream: &Arc<str>) -> UpstreamLabels {
    UpstreamLabels { upstream: Arc::clone(upstream) }
}
