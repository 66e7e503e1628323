//! What is counted of the cache and of the questions that it asks.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

const SECONDS: [f64; 10] = [0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5];

/// What is counted of the policy cache.
#[derive(Debug, Clone)]
pub struct Metrics {
    /// Answers that were there: `allow` or `deny`.
    pub(super) hits: Family<ResultLabels, Counter>,
    /// Ends of questions: `yes`, `no`, `unauthenticated`, `unavailable`, `undecided`, `rejected`.
    pub(super) questions: Family<ResultLabels, Counter>,
    /// Time that questions took.
    pub(super) seconds: Histogram,
    /// Those who waited for a question that another asked.
    pub(super) joined: Counter,
    /// Questions asked before their time, since their answers were in use.
    pub(super) refreshes: Counter,
    /// Old answers that served because the source failed.
    pub(super) stale: Counter,
    /// Questions that were not asked: `breaker`, `queue` or `late`.
    pub(super) refused: Family<ResultLabels, Counter>,
    /// Times that the breaker opened.
    pub(super) opened: Counter,
    /// Questions on their way or waiting for it.
    pub(super) open: Gauge,
    /// What was dropped: `all`, `caller` or `metalake`.
    pub(super) dropped: Family<ResultLabels, Counter>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ResultLabels {
    result: &'static str,
}

impl Metrics {
    /// Registers them; their names begin with `policy_`.
    pub fn register(registry: &mut Registry) -> Self {
        let this = Self::default();
        let all = this.clone();
        registry.register("policy_cache_hits", "Answers of a policy source that were known", all.hits);
        registry.register("policy_questions", "Questions to a policy source, by their end", all.questions);
        registry.register("policy_question_seconds", "Time that questions to a policy source took", all.seconds);
        registry.register("policy_questions_joined", "Questions that another request was asking already", all.joined);
        registry.register("policy_refreshes", "Questions asked ahead of time", all.refreshes);
        registry.register("policy_stale_answers", "Old answers that served since the source failed", all.stale);
        registry.register("policy_questions_refused", "Questions that were not asked, and why", all.refused);
        registry.register("policy_breaker_opened", "Times that a policy source was given up for a moment", all.opened);
        registry.register("policy_questions_open", "Questions asked or waiting", all.open);
        registry.register("policy_drops", "Drops of answers of a policy source, by their kind", all.dropped);
        this
    }

    pub(super) fn count(family: &Family<ResultLabels, Counter>, result: &'static str) {
        family.get_or_create(&ResultLabels { result }).inc();
    }

    pub(super) fn add(family: &Family<ResultLabels, Counter>, result: &'static str, count: u64) {
        if count > 0 {
            family.get_or_create(&ResultLabels { result }).inc_by(count);
        }
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            hits: Family::default(),
            questions: Family::default(),
            seconds: Histogram::new(SECONDS),
            joined: Counter::default(),
            refreshes: Counter::default(),
            stale: Counter::default(),
            refused: Family::default(),
            opened: Counter::default(),
            open: Gauge::default(),
            dropped: Family::default(),
        }
    }
}
