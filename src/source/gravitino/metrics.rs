//! Counters of what a Gravitino server was asked. Labels are the kind of question and the kind of answer: bounded sets.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

const BUCKETS: [f64; 10] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 2.0];

/// What is counted of a Gravitino server.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    calls: Family<CallLabels, Counter>,
    seconds: Latency,
    snapshots: Family<ResultLabels, Counter>,
    unreadable: Gauge,
}

#[derive(Debug, Clone)]
struct Latency(Histogram);

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    call: &'static str,
    answer: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabels {
    result: &'static str,
}

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Call {
    Owner,
    Principal,
    User,
    Group,
    Role,
    Catalogs,
    Metalakes,
    Version,
}

impl Default for Latency {
    fn default() -> Self {
        Self(Histogram::new(BUCKETS))
    }
}

impl Metrics {
    /// Makes and registers the metrics.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register("gravitino_calls", "Reads of the Gravitino server, by answer", metrics.calls.clone());
        let help = "Time of a read";
        registry.register_with_unit("gravitino_call", help, Unit::Seconds, metrics.seconds.0.clone());
        registry.register("gravitino_snapshots", "Snapshots of metalakes that were read", metrics.snapshots.clone());
        let help = "Roles, groups, owners and lists that the last snapshots could not read";
        registry.register("gravitino_unreadable", help, metrics.unreadable.clone());
        metrics
    }

    pub(super) fn asked(&self, call: Call, status: Option<u16>, took: Duration) {
        self.calls.get_or_create(&CallLabels { call: call.word(), answer: answer(status) }).inc();
        self.seconds.0.observe(took.as_secs_f64());
    }

    pub(super) fn snapshot(&self, good: bool) {
        self.snapshots.get_or_create(&ResultLabels { result: if good { "ok" } else { "failed" } }).inc();
    }

    pub(super) fn unreadable(&self, count: usize) {
        self.unreadable.set(i64::try_from(count).unwrap_or(i64::MAX));
    }
}

impl Call {
    const fn word(self) -> &'static str {
        match self {
            Self::Owner => "owner",
            Self::Principal => "principal",
            Self::User => "user",
            Self::Group => "group",
            Self::Role => "role",
            Self::Catalogs => "catalogs",
            Self::Metalakes => "metalakes",
            Self::Version => "version",
        }
    }
}

fn answer(status: Option<u16>) -> &'static str {
    match status {
        None => "none",
        Some(200) => "200",
        Some(401) => "401",
        Some(403) => "403",
        Some(404) => "404",
        Some(405) => "405",
        Some(409) => "409",
        Some(429) => "429",
        Some(500..=599) => "5xx",
        Some(_) => "other",
    }
}
