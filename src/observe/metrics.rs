//! Prometheus metrics: the registry that all stages share, and what is counted of each request.
//!
//! Labels are words of the program or names of the configuration, never anything that a caller sends.

use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use super::audit::Record;
use crate::answer::{outcome_word, refusal_word};

mod process;

/// The content type of [`Metrics::encode`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

const PREFIX: &str = "lineage_gate";

const SECONDS: [f64; 14] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 4.0, 10.0];
const BYTES: [f64; 8] = [1024.0, 4096.0, 16384.0, 65536.0, 262_144.0, 1_048_576.0, 4_194_304.0, 16_777_216.0];
const REFERENCES: [f64; 8] = [1.0, 2.0, 5.0, 10.0, 50.0, 100.0, 1_000.0, 10_000.0];

/// All metrics of the process.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    requests: Requests,
}

#[derive(Debug, Clone)]
struct Requests {
    requests: Family<RequestLabels, Counter>,
    seconds: Family<ListenerLabels, Histogram, fn() -> Histogram>,
    decisions: Family<DecisionLabels, Counter>,
    refusals: Family<RefusalLabels, Counter>,
    outcomes: Family<OutcomeLabels, Counter>,
    clients_gone: Counter,
    late_answers: Counter,
    body_bytes: Histogram,
    references: Histogram,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    listener: Arc<str>,
    dialect: &'static str,
    status: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ListenerLabels {
    listener: Arc<str>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DecisionLabels {
    result: &'static str,
    rule: &'static str,
    mode: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RefusalLabels {
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    upstream: Arc<str>,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BuildLabels {
    version: &'static str,
}

impl Metrics {
    /// The registry, with the request's metrics, `build` and those of the process.
    pub fn new() -> Self {
        let mut registry = Registry::default();
        let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        registry.register_collector(Box::new(process::Process::new(started)));
        let own = registry.sub_registry_with_prefix(PREFIX);
        own.register("build", "The running version", Info::new(BuildLabels { version: env!("CARGO_PKG_VERSION") }));
        let requests = Requests::register(own);
        Self { registry, requests }
    }

    /// Where a stage registers metrics of its own. Their names get the prefix `lineage_gate_`.
    pub fn registry_mut(&mut self) -> &mut Registry {
        self.registry.sub_registry_with_prefix(PREFIX)
    }

    /// Counts a request that has ended.
    pub fn observe(&self, record: &Record) {
        self.requests.observe(record);
    }

    /// All metrics as OpenMetrics text, of type [`CONTENT_TYPE`].
    ///
    /// # Errors
    /// A collector fails; memory for a text never does.
    pub fn encode(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Requests {
    fn register(registry: &mut Registry) -> Self {
        let this = Self {
            requests: Family::default(),
            seconds: Family::new_with_constructor(|| Histogram::new(SECONDS)),
            decisions: Family::default(),
            refusals: Family::default(),
            outcomes: Family::default(),
            clients_gone: Counter::default(),
            late_answers: Counter::default(),
            body_bytes: Histogram::new(BYTES),
            references: Histogram::new(REFERENCES),
        };
        let all = this.clone();
        registry.register("requests", "Requests by the status that they were answered, 0 for none", all.requests);
        registry.register("request_seconds", "Time from a request's head to its end", all.seconds);
        registry.register("decisions", "What the policy said, and by which kind of rule", all.decisions);
        registry.register("refusals", "Requests, and events of batches, that the gate itself refused", all.refusals);
        registry.register("outcomes", "What became of events at the upstream", all.outcomes);
        registry.register("clients_gone", "Clients that left before their answer", all.clients_gone);
        registry.register("late_answers", "Answers that went out before the upstream's", all.late_answers);
        registry.register("body_bytes", "Decoded size of bodies", all.body_bytes);
        registry.register("references", "Datasets and jobs that an event names", all.references);
        this
    }

    fn observe(&self, record: &Record) {
        if record.batch_index.is_none() {
            self.observe_request(record);
        }
        if record.batch.is_none() {
            self.observe_event(record);
        }
    }

    fn observe_request(&self, record: &Record) {
        let listener = || Arc::clone(&record.listener);
        let dialect = record.dialect.map_or("none", super::audit::dialect_word);
        let status = record.status.unwrap_or_default();
        self.requests.get_or_create(&RequestLabels { listener: listener(), dialect, status }).inc();
        let seconds = record.stages.total.as_secs_f64();
        self.seconds.get_or_create(&ListenerLabels { listener: listener() }).observe(seconds);
        self.clients_gone.inc_by(u64::from(record.client_gone));
        self.late_answers.inc_by(u64::from(record.late));
        if record.bytes.received > 0 && record.passed.is_none() {
            self.body_bytes.observe(record.bytes.decoded as f64);
        }
    }

    /// What is counted of each event of a batch, and of every other request.
    fn observe_event(&self, record: &Record) {
        let mode = if record.shadow { "shadow" } else { "enforce" };
        let labels = DecisionLabels { result: record.decision.word(), rule: record.rule_kind, mode };
        self.decisions.get_or_create(&labels).inc();
        if let Some(refusal) = &record.refusal {
            self.refusals.get_or_create(&RefusalLabels { reason: refusal_word(refusal) }).inc();
        }
        if let (Some(upstream), Some(outcome)) = (&record.upstream, &record.outcome) {
            let labels = OutcomeLabels { upstream: Arc::clone(upstream), outcome: outcome_word(outcome) };
            self.outcomes.get_or_create(&labels).inc();
        }
        if let Some(event) = &record.event {
            self.references.observe(event.datasets_total as f64);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::audit::{Bytes, Decision};
    use super::*;
    use crate::answer::{Durability, Outcome, Refusal};
    use crate::dialect::Dialect;

    fn record() -> Record {
        Record::new(jiff::Timestamp::UNIX_EPOCH, "id".to_owned(), "main".into(), "127.0.0.1:1".to_owned())
    }

    fn assert_lines(text: &str, lines: &[&str]) {
        for line in lines {
            assert!(text.lines().any(|found| found == *line), "no line `{line}` in:\n{text}");
        }
    }

    #[test]
    fn a_request_is_counted_once_in_each_metric_that_concerns_it() {
        let metrics = Metrics::new();
        let mut delivered = record();
        delivered.dialect = Some(Dialect::Openlineage);
        delivered.decision = Decision::Allow;
        delivered.rule_kind = "grant";
        delivered.upstream = Some("marquez".into());
        delivered.outcome = Some(Outcome::Accepted { edges: None, durability: Durability::Stored });
        delivered.status = Some(201);
        delivered.bytes = Bytes { received: 300, decoded: 2_000 };
        delivered.stages.total = Duration::from_millis(3);
        delivered.late = true;
        metrics.observe(&delivered);
        let mut refused = record();
        refused.refusal = Some(Refusal::NotVisible);
        refused.decision = Decision::Deny;
        refused.client_gone = true;
        metrics.observe(&refused);
        metrics.observe(&refused);
        assert_lines(
            &metrics.encode().expect("text"),
            &[
                r#"lineage_gate_requests_total{listener="main",dialect="openlineage",status="201"} 1"#,
                r#"lineage_gate_requests_total{listener="main",dialect="none",status="0"} 2"#,
                r#"lineage_gate_request_seconds_count{listener="main"} 3"#,
                r#"lineage_gate_request_seconds_bucket{le="0.005",listener="main"} 3"#,
                r#"lineage_gate_decisions_total{result="allow",rule="grant",mode="enforce"} 1"#,
                r#"lineage_gate_decisions_total{result="deny",rule="none",mode="enforce"} 2"#,
                r#"lineage_gate_refusals_total{reason="not_visible"} 2"#,
                r#"lineage_gate_outcomes_total{upstream="marquez",outcome="accepted"} 1"#,
                "lineage_gate_clients_gone_total 2",
                "lineage_gate_late_answers_total 1",
                r#"lineage_gate_body_bytes_bucket{le="4096.0"} 1"#,
                "lineage_gate_body_bytes_count 1",
                concat!(r#"lineage_gate_build_info{version=""#, env!("CARGO_PKG_VERSION"), r#""} 1"#),
                "# EOF",
            ],
        );
    }

    #[test]
    fn a_batch_is_one_request_and_each_of_its_events_an_event() {
        let metrics = Metrics::new();
        let mut whole = record();
        whole.status = Some(200);
        whole.bytes = Bytes { received: 900, decoded: 900 };
        whole.batch = Some(crate::answer::Counts { received: 2, successful: 1, failed: 1, ..Default::default() });
        metrics.observe(&whole);
        let mut taken = record();
        taken.batch_index = Some(0);
        taken.decision = Decision::Allow;
        taken.upstream = Some("marquez".into());
        taken.outcome = Some(Outcome::Accepted { edges: None, durability: Durability::Stored });
        metrics.observe(&taken);
        let mut denied = record();
        denied.batch_index = Some(1);
        denied.decision = Decision::Deny;
        denied.refusal = Some(Refusal::NotVisible);
        metrics.observe(&denied);
        let text = metrics.encode().expect("text");
        assert_lines(
            &text,
            &[
                r#"lineage_gate_requests_total{listener="main",dialect="none",status="200"} 1"#,
                r#"lineage_gate_request_seconds_count{listener="main"} 1"#,
                r#"lineage_gate_decisions_total{result="allow",rule="none",mode="enforce"} 1"#,
                r#"lineage_gate_decisions_total{result="deny",rule="none",mode="enforce"} 1"#,
                r#"lineage_gate_refusals_total{reason="not_visible"} 1"#,
                r#"lineage_gate_outcomes_total{upstream="marquez",outcome="accepted"} 1"#,
                "lineage_gate_body_bytes_count 1",
            ],
        );
        assert!(!text.contains(r#"status="0""#) && !text.contains(r#"result="none""#), "{text}");
    }

    #[test]
    fn a_would_be_deny_is_told_from_a_real_one() {
        let metrics = Metrics::new();
        let mut shadow = record();
        shadow.decision = Decision::Deny;
        shadow.shadow = true;
        metrics.observe(&shadow);
        let line = r#"lineage_gate_decisions_total{result="deny",rule="none",mode="shadow"} 1"#;
        assert_lines(&metrics.encode().expect("text"), &[line]);
    }

    #[test]
    fn stages_register_under_the_same_prefix() {
        let mut metrics = Metrics::new();
        super::super::audit::Metrics::register(metrics.registry_mut());
        let counter = Counter::<u64>::default();
        metrics.registry_mut().register("listen_connections", "Connections", counter.clone());
        counter.inc();
        let text = metrics.encode().expect("text");
        assert_lines(&text, &["lineage_gate_listen_connections_total 1", "lineage_gate_audit_records_total 0"]);
    }

    #[test]
    fn the_process_is_measured_at_each_scrape() {
        let text = Metrics::new().encode().expect("text");
        let value = |name: &str| -> f64 {
            let line = text.lines().find(|line| line.starts_with(name)).expect(name);
            line.rsplit(' ').next().and_then(|number| number.parse().ok()).expect("a number")
        };
        assert!(value("process_resident_memory_bytes ") > 1e6);
        assert!(value("process_start_time_seconds ") > 1.7e9);
        assert!(value("process_open_fds ") >= 3.0);
    }
}
