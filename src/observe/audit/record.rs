//! What a record holds, and its JSON.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use jiff::Timestamp;
use serde::{Serialize, Serializer};

use crate::answer::words::{outcome_detail, outcome_edges, outcome_status, outcome_word, refusal_detail, refusal_word};
use crate::answer::{Counts, Outcome, Refusal};
use crate::auth::Caller;
use crate::deliver::{Duplicate, RunConflict};
use crate::dialect::Dialect;
use crate::event::edit::Tally;
use crate::event::{Event, Kind, Role};

/// Bytes of a text before it is cut; a cut text ends with [`CUT_MARK`].
pub(crate) const MAX_TEXT: usize = 1_024;
/// Ends a text that was cut.
pub(crate) const CUT_MARK: char = '…';

const MAX_GROUPS: usize = 20;

/// Everything that is told about one request, or about one event of a batch, filled in as it goes its way.
///
/// A batch has one record for the request, with `batch`, and one for each of its events, with `batch_index`. They share
/// `request_id`; status and size stand in the request's.
#[derive(Debug, Clone)]
pub struct Record {
    /// When the request's head was complete.
    pub time: Timestamp,
    /// `X-Request-Id` of the answer.
    pub request_id: String,
    /// The listener's configured name.
    pub listener: Arc<str>,
    /// The client's address; behind a trusted proxy the one that it names.
    pub peer: String,
    /// The subject of the client's certificate, where the listener asks for one.
    pub certificate: Option<Arc<str>>,
    /// The dialect, once path and method told it; none for a request that is passed on.
    pub dialect: Option<Dialect>,
    /// What a request asked for that is passed on.
    pub passed: Option<Passed>,
    /// Who called, once the token was verified.
    pub caller: Option<Caller>,
    /// What was sent, once it was parsed.
    pub event: Option<EventPart>,
    /// What the gate changed in it.
    pub edits: Tally,
    /// What the policy said.
    pub decision: Decision,
    /// The rule that decided, in the policy's words.
    pub rule: Option<String>,
    /// The kind of that rule, for metrics: one of a few fixed words.
    pub rule_kind: &'static str,
    /// Whether a deny was only reported, and the request went on (`policy.mode: shadow`).
    pub shadow: bool,
    /// Whether old answers of a policy source decided, since it failed.
    pub stale: bool,
    /// Why the gate said no, if it did.
    pub refusal: Option<Refusal>,
    /// The upstream's configured name, once the event was given to it.
    pub upstream: Option<Arc<str>>,
    /// What became of the event there; of a request that was passed on, why its answer did not come whole.
    pub outcome: Option<Outcome>,
    /// Why it was not sent there for this request, if another brought it there.
    pub duplicate: Option<Duplicate>,
    /// How it does not fit to whom its run belongs.
    pub run_conflict: Option<RunConflict>,
    /// The event's place in its batch.
    pub batch_index: Option<usize>,
    /// How many events of a batch ended how.
    pub batch: Option<Counts>,
    /// The status that the client was answered; none if it left before.
    pub status: Option<u16>,
    /// Whether the client left before its answer was there.
    pub client_gone: bool,
    /// Whether the answer had to go out before the upstream's was there.
    pub late: bool,
    /// Size of the body.
    pub bytes: Bytes,
    /// Where the time went.
    pub stages: Stages,
}

/// What a request asked for that is passed on, texts cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Passed {
    /// Its method.
    pub method: String,
    /// Its path, as sent, without the query.
    pub path: String,
}

/// The part of an event that is recorded: at most `audit.max_datasets` references, texts cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventPart {
    /// What its members make it.
    pub kind: Kind,
    /// Namespace and name of the job.
    pub job: Option<(String, String)>,
    /// `run.runId`.
    pub run_id: Option<String>,
    /// `eventType` as sent.
    pub event_type: Option<String>,
    /// The first references, in document order, without the event's own job.
    pub datasets: Vec<Dataset>,
    /// How many references there were, without the event's own job.
    pub datasets_total: usize,
}

/// One reference of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dataset {
    /// What the place means.
    pub role: Role,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// What the policy said.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Decision {
    /// All references are allowed.
    Allow,
    /// A reference is denied.
    Deny,
    /// The policy was not asked: the request ended before, or the policy is off.
    #[default]
    None,
}

/// Size of a body.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Bytes {
    /// As sent; of a request that is passed on, what came until the end of its answer.
    pub received: u64,
    /// After its content coding was undone; 0 where that is not done.
    pub decoded: u64,
}

/// Where the time of a request went; none for a stage that was not reached.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stages {
    /// Token → caller.
    pub auth: Option<Duration>,
    /// Waiting for the body.
    pub body: Option<Duration>,
    /// Body → event.
    pub event: Option<Duration>,
    /// Event → verdict.
    pub policy: Option<Duration>,
    /// The exchange with the upstream.
    pub deliver: Option<Duration>,
    /// From the head to the end.
    pub total: Duration,
}

impl Record {
    /// A record of which nothing is known but where it came from.
    pub fn new(time: Timestamp, request_id: String, listener: Arc<str>, peer: String) -> Self {
        Self {
            time,
            request_id,
            listener,
            peer,
            certificate: None,
            dialect: None,
            passed: None,
            caller: None,
            event: None,
            edits: Tally::default(),
            decision: Decision::None,
            rule: None,
            rule_kind: "none",
            shadow: false,
            stale: false,
            refusal: None,
            upstream: None,
            outcome: None,
            duplicate: None,
            run_conflict: None,
            batch_index: None,
            batch: None,
            status: None,
            client_gone: false,
            late: false,
            bytes: Bytes::default(),
            stages: Stages::default(),
        }
    }
}

impl Passed {
    /// What is recorded of a request.
    pub fn of(method: &Method, path: &str) -> Self {
        Self { method: cut(method.as_str()), path: cut(path) }
    }
}

impl EventPart {
    /// What is recorded of `event`.
    pub fn of(event: &Event, max_datasets: usize) -> Self {
        let named = || event.references.iter().filter(|reference| reference.role != Role::Job);
        let datasets = named().take(max_datasets).map(|reference| Dataset {
            role: reference.role,
            namespace: cut(&reference.namespace),
            name: cut(&reference.name),
        });
        Self {
            kind: event.kind,
            job: event.job.as_ref().map(|job| (cut(&job.namespace), cut(&job.name))),
            run_id: event.run_id.as_deref().map(cut),
            event_type: event.event_type.as_deref().map(cut),
            datasets: datasets.collect(),
            datasets_total: named().count(),
        }
    }
}

impl Decision {
    /// `allow`, `deny` or `none`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
            Self::None => "none",
        }
    }
}

impl Serialize for Record {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let outcome = self.outcome.as_ref();
        let view = RecordView {
            time: format!("{:.6}", self.time),
            request_id: Text(&self.request_id),
            listener: Text(&self.listener),
            peer: Text(&self.peer),
            certificate: self.certificate.as_deref().map(Text),
            dialect: self.dialect.map(dialect_word),
            method: self.passed.as_ref().map(|passed| Text(&passed.method)),
            path: self.passed.as_ref().map(|passed| Text(&passed.path)),
            caller: self.caller.as_ref().map(CallerView::of),
            token_id: self.caller.as_ref().map(|caller| Text(&caller.token_id)),
            event: self.event.as_ref().map(EventView::of),
            edits: EditsView::of(&self.edits),
            decision: self.decision.word(),
            rule: self.rule.as_deref().map(Text),
            shadow: self.shadow,
            stale: self.stale,
            refusal: self.refusal.as_ref().map(refusal_word),
            refusal_detail: self.refusal.as_ref().and_then(refusal_detail).map(Text),
            upstream: self.upstream.as_deref().map(Text),
            outcome: outcome.map(outcome_word),
            outcome_detail: outcome.and_then(outcome_detail).map(Text),
            edges: outcome.and_then(outcome_edges),
            duplicate: self.duplicate.map(Duplicate::word),
            run_conflict: self.run_conflict.map(RunConflict::word),
            batch_index: self.batch_index,
            batch: self.batch.as_ref().map(BatchView::of),
            upstream_status: outcome.and_then(outcome_status),
            status: self.status,
            client_gone: self.client_gone,
            late: self.late,
            bytes: self.bytes,
            micros: StagesView::of(&self.stages),
        };
        view.serialize(serializer)
    }
}

#[derive(Serialize)]
struct RecordView<'a> {
    time: String,
    request_id: Text<'a>,
    listener: Text<'a>,
    peer: Text<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    certificate: Option<Text<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dialect: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<Text<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<Text<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    caller: Option<CallerView<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token_id: Option<Text<'a>>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    event: Option<EventView<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    edits: Option<EditsView<'a>>,
    decision: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<Text<'a>>,
    shadow: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    stale: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    refusal: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refusal_detail: Option<Text<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    upstream: Option<Text<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome_detail: Option<Text<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    edges: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duplicate: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    run_conflict: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    batch_index: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    batch: Option<BatchView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    upstream_status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    client_gone: bool,
    late: bool,
    bytes: Bytes,
    micros: StagesView,
}

#[derive(Serialize)]
struct BatchView {
    received: usize,
    successful: usize,
    partial: usize,
    skipped: usize,
    failed: usize,
}

#[derive(Serialize)]
struct CallerView<'a> {
    issuer: Text<'a>,
    subject: Text<'a>,
    groups: Vec<Text<'a>>,
    groups_total: usize,
}

#[derive(Serialize)]
struct EventView<'a> {
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    job: Option<JobView<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    run_id: Option<Text<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    event_type: Option<Text<'a>>,
    datasets: Vec<DatasetView<'a>>,
    datasets_total: usize,
}

#[derive(Serialize)]
struct EditsView<'a> {
    rewritten: usize,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    rules: &'a BTreeMap<Arc<str>, usize>,
    facets_dropped: usize,
    scrubbed: usize,
    symlinks_dropped: usize,
}

#[derive(Serialize)]
struct JobView<'a> {
    namespace: Text<'a>,
    name: Text<'a>,
}

#[derive(Serialize)]
struct DatasetView<'a> {
    role: &'static str,
    namespace: Text<'a>,
    name: Text<'a>,
}

#[derive(Serialize)]
struct StagesView {
    #[serde(skip_serializing_if = "Option::is_none")]
    auth: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    event: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deliver: Option<u64>,
    total: u64,
}

/// A text that is cut as it is written.
struct Text<'a>(&'a str);

impl Serialize for Text<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // A text that `cut` made is whole, its mark included.
        if self.0.len() <= MAX_TEXT + CUT_MARK.len_utf8() {
            return serializer.serialize_str(self.0);
        }
        serializer.serialize_str(&cut(self.0))
    }
}

impl BatchView {
    fn of(counts: &Counts) -> Self {
        let Counts { received, successful, partial, skipped, failed } = *counts;
        Self { received, successful, partial, skipped, failed }
    }
}

impl<'a> CallerView<'a> {
    fn of(caller: &'a Caller) -> Self {
        Self {
            issuer: Text(&caller.issuer),
            subject: Text(&caller.subject),
            groups: caller.groups.iter().take(MAX_GROUPS).map(|group| Text(group)).collect(),
            groups_total: caller.groups.len(),
        }
    }
}

impl<'a> EventView<'a> {
    fn of(event: &'a EventPart) -> Self {
        let datasets = event.datasets.iter().map(|dataset| DatasetView {
            role: role_word(dataset.role),
            namespace: Text(&dataset.namespace),
            name: Text(&dataset.name),
        });
        Self {
            kind: kind_word(event.kind),
            job: event.job.as_ref().map(|(namespace, name)| JobView { namespace: Text(namespace), name: Text(name) }),
            run_id: event.run_id.as_deref().map(Text),
            event_type: event.event_type.as_deref().map(Text),
            datasets: datasets.collect(),
            datasets_total: event.datasets_total,
        }
    }
}

impl<'a> EditsView<'a> {
    fn of(tally: &'a Tally) -> Option<Self> {
        let Tally { rewritten, rules, facets_dropped, scrubbed, symlinks_dropped } = tally;
        let (rewritten, facets_dropped, scrubbed) = (*rewritten, *facets_dropped, *scrubbed);
        let view = Self { rewritten, rules, facets_dropped, scrubbed, symlinks_dropped: *symlinks_dropped };
        (!tally.is_empty()).then_some(view)
    }
}

impl StagesView {
    fn of(stages: &Stages) -> Self {
        Self {
            auth: stages.auth.map(micros),
            body: stages.body.map(micros),
            event: stages.event.map(micros),
            policy: stages.policy.map(micros),
            deliver: stages.deliver.map(micros),
            total: micros(stages.total),
        }
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

fn cut(text: &str) -> String {
    if text.len() <= MAX_TEXT {
        return text.to_owned();
    }
    let end = (0..=MAX_TEXT).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    let mut cut = text.get(..end).unwrap_or_default().to_owned();
    cut.push(CUT_MARK);
    cut
}

/// The configuration's word for a dialect.
pub(crate) fn dialect_word(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Gravitino => "gravitino",
        Dialect::Openmetadata(_) => "openmetadata",
        Dialect::Openlineage => "openlineage",
    }
}

fn kind_word(kind: Kind) -> &'static str {
    match kind {
        Kind::Run => "run",
        Kind::Job => "job",
        Kind::Dataset => "dataset",
    }
}

fn role_word(role: Role) -> &'static str {
    match role {
        Role::Job => "job",
        Role::Input => "input",
        Role::Output => "output",
        Role::FacetJob => "facet_job",
        Role::FacetDataset => "facet_dataset",
    }
}

#[cfg(test)]
mod tests;
