//! Many events in one call: what goes there, and what a backend says of each (facts: backends 0.5, 1.2, 1.4, 1.5, 1.11).
//!
//! Three contracts, one meaning: how many events were taken, failed or skipped, and which failed. Which of the others were
//! skipped is not told; they are then given out as the counts say, in the order of the events. An answer that contradicts
//! itself, or the request, says nothing of any event: nobody knows what became of them.

use std::collections::BTreeMap;

use bytes::{BufMut, Bytes, BytesMut};
use serde_json::{Map, Value};

use crate::answer::{Durability, NoEffect, Outcome, Unknown};

use super::hygiene;
use super::raw::Raw;

/// The form of a batch's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchForm {
    /// `{"events":[...]}`.
    Events,
    /// A bare list.
    Array,
}

/// A backend's batch call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchSupport {
    /// The path, with its query, that batches are posted to.
    pub path: String,
    /// The form of their body.
    pub form: BatchForm,
}

/// What became of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BatchOutcome {
    /// The backend told of each event.
    Each {
        /// One for each event, in their order.
        outcomes: Vec<Outcome>,
        /// Edges written for all of them, where the backend counts them.
        edges: Option<u64>,
    },
    /// The same became of all events.
    Whole(Outcome),
    /// The backend has no batch call. Nothing was taken: send the events one by one.
    Unsupported,
}

/// A backend's report of a batch, before it is believed.
#[derive(Debug)]
pub(super) struct Report {
    verdict: Verdict,
    received: usize,
    successful: usize,
    partial: usize,
    skipped: usize,
    failed: usize,
    failures: Vec<Failure>,
    /// Events with datasets that were not resolved, and how many.
    unresolved: BTreeMap<usize, usize>,
    edges: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Success,
    Partial,
    Failure,
}

#[derive(Debug)]
struct Failure {
    index: usize,
    reason: Option<String>,
    retriable: bool,
}

impl BatchForm {
    /// The events in one body, each with its very bytes.
    pub(super) fn body(self, events: &[Bytes]) -> Bytes {
        let (open, close): (&[u8], &[u8]) = match self {
            Self::Events => (b"{\"events\":[", b"]}"),
            Self::Array => (b"[", b"]"),
        };
        let length = events.iter().map(|event| event.len() + 1).sum::<usize>() + open.len() + close.len();
        let mut body = BytesMut::with_capacity(length);
        body.put_slice(open);
        for (index, event) in events.iter().enumerate() {
            if index > 0 {
                body.put_u8(b',');
            }
            body.put_slice(event);
        }
        body.put_slice(close);
        body.freeze()
    }
}

/// The answer of the specification's batch call: 204, or 200 with a report. Other backends that speak this contract, a gate
/// among them, answer 400 with the same report where all failed.
pub(super) fn by_specification(
    raw: &Raw,
    count: usize,
    single: impl FnOnce(&Raw) -> Outcome,
    host: &str,
    port: u16,
) -> BatchOutcome {
    let all = |durability| {
        let outcomes = vec![Outcome::Accepted { edges: None, durability }; count];
        BatchOutcome::Each { outcomes, edges: None }
    };
    let is_report = raw.object().is_some_and(|object| object.contains_key("summary"));
    match raw.status.as_u16() {
        // The contract has 204 for it; a backend that answers a single event with an empty 201 does the same to many.
        201 | 204 if raw.is_empty() => all(Durability::Stored),
        202 if raw.is_empty() => all(Durability::Queued),
        200 => read(raw, count, host, port, Report::of_specification),
        400 if is_report => read(raw, count, host, port, Report::of_specification),
        201..=299 => BatchOutcome::Whole(raw.wrong_shape()),
        _ => BatchOutcome::Whole(single(raw)),
    }
}

/// Reads a report. The body decides: one that broke off leaves everything unknown.
pub(super) fn read(
    raw: &Raw,
    count: usize,
    host: &str,
    port: u16,
    parse: fn(&Map<String, Value>) -> Option<Report>,
) -> BatchOutcome {
    if !raw.complete && !raw.is_page() {
        return BatchOutcome::Whole(Outcome::Unknown(Unknown::TruncatedBody));
    }
    let Some(report) = raw.object().as_ref().and_then(parse) else {
        return BatchOutcome::Whole(raw.wrong_shape());
    };
    let edges = report.edges;
    match report.outcomes(count, host, port) {
        Some(outcomes) => BatchOutcome::Each { outcomes, edges },
        None => {
            tracing::warn!("the lineage backend's report of a batch contradicts itself: what it took is not known");
            BatchOutcome::Whole(Outcome::Unknown(Unknown::TruncatedBody))
        }
    }
}

impl Report {
    /// OpenLineage's own, which DataHub's is too. It has no `failure`, but others that speak it do.
    pub(super) fn of_specification(object: &Map<String, Value>) -> Option<Self> {
        let verdict = verdict(object, ["success", "partial_success", "failure"])?;
        Self::new(object, verdict, object.get("failed_events"), "reason")
    }

    /// Polaris': the same, but for its words.
    pub(super) fn of_polaris(object: &Map<String, Value>) -> Option<Self> {
        let verdict = verdict(object, ["SUCCESS", "PARTIAL", "FAILURE"])?;
        Self::new(object, verdict, object.get("failed_events"), "message")
    }

    /// OpenMetadata's, of 2.0 and of 2.1.
    pub(super) fn of_openmetadata(object: &Map<String, Value>) -> Option<Self> {
        let verdict = verdict(object, ["success", "partial_success", "failure"])?;
        let report = Self::new(object, verdict, object.get("failedEvents"), "reason")?;
        let summary = object.get("summary")?.as_object()?;
        let mut unresolved = BTreeMap::new();
        for entry in list(object.get("unresolvedDatasets"))? {
            *unresolved.entry(number(entry.get("eventIndex")?)?).or_default() += 1;
        }
        Some(Self {
            skipped: number(summary.get("skipped")?)?,
            partial: summary.get("partial").filter(|count| !count.is_null()).map_or(Some(0), number)?,
            unresolved,
            edges: object.get("lineageEdgesCreated").and_then(Value::as_u64),
            ..report
        })
    }

    fn new(object: &Map<String, Value>, verdict: Verdict, failures: Option<&Value>, reason: &str) -> Option<Self> {
        let summary = object.get("summary")?.as_object()?;
        let failures = list(failures)?.iter().map(|entry| Failure::of(entry, reason)).collect::<Option<_>>()?;
        Some(Self {
            verdict,
            received: number(summary.get("received")?)?,
            successful: number(summary.get("successful")?)?,
            partial: 0,
            skipped: 0,
            failed: number(summary.get("failed")?)?,
            failures,
            unresolved: BTreeMap::new(),
            edges: None,
        })
    }

    /// One outcome for each of `count` events, or nothing where the report cannot be true.
    fn outcomes(self, count: usize, host: &str, port: u16) -> Option<Vec<Outcome>> {
        if !self.adds_up(count) {
            return None;
        }
        let edges = self.edges.filter(|_| count == 1);
        let mut left = Left { successful: self.successful, partial: self.partial, skipped: self.skipped, edges };
        let mut outcomes: Vec<Option<Outcome>> = vec![None; count];
        if self.failures.is_empty() && self.failed == count {
            return Some(vec![Outcome::Rejected { message: None, unprocessable: false }; count]);
        }
        for failure in self.failures {
            let place = outcomes.get_mut(failure.index).filter(|place| place.is_none())?;
            *place = Some(failure.outcome(host, port));
        }
        for (index, datasets) in self.unresolved {
            let place = outcomes.get_mut(index)?;
            if place.is_none() {
                *place = Some(left.unresolved(datasets)?);
            }
        }
        outcomes.into_iter().map(|outcome| outcome.or_else(|| left.other())).collect()
    }

    /// Whether counts, verdict and list agree with each other and with what was sent.
    ///
    /// OpenMetadata 2.0 says `success` where some failed and all others were skipped: that is a quirk of its rule, no
    /// contradiction.
    fn adds_up(&self, count: usize) -> bool {
        let taken = self.successful.saturating_add(self.partial);
        let sum = taken.saturating_add(self.skipped).saturating_add(self.failed);
        let verdict = match self.verdict {
            Verdict::Success => self.failed == 0 || taken == 0 && self.failed < count,
            Verdict::Partial => self.failed < count,
            Verdict::Failure => taken == 0,
        };
        let listed = self.failures.len() == self.failed || self.failures.is_empty() && self.failed == count;
        self.received == count && sum == count && verdict && listed
    }
}

/// What is to be given out to the events that did not fail.
struct Left {
    successful: usize,
    partial: usize,
    skipped: usize,
    edges: Option<u64>,
}

impl Left {
    /// For an event with datasets that were not resolved.
    fn unresolved(&mut self, datasets: usize) -> Option<Outcome> {
        self.partial().or_else(|| self.skipped(NoEffect::Unresolved { datasets })).or_else(|| self.successful())
    }

    fn other(&mut self) -> Option<Outcome> {
        self.successful().or_else(|| self.partial()).or_else(|| self.skipped(NoEffect::NoEdges))
    }

    fn successful(&mut self) -> Option<Outcome> {
        take(&mut self.successful)?;
        Some(Outcome::Accepted { edges: self.edges, durability: Durability::Stored })
    }

    /// At least one edge was written: that is what partial means.
    fn partial(&mut self) -> Option<Outcome> {
        take(&mut self.partial)?;
        Some(Outcome::Partial { edges: self.edges.unwrap_or(1) })
    }

    fn skipped(&mut self, why: NoEffect) -> Option<Outcome> {
        take(&mut self.skipped)?;
        Some(Outcome::NoEffect(why))
    }
}

impl Failure {
    fn of(entry: &Value, reason: &str) -> Option<Self> {
        Some(Self {
            index: number(entry.get("index")?)?,
            reason: entry.get(reason).and_then(Value::as_str).map(str::to_owned),
            retriable: entry.get("retriable").and_then(Value::as_bool).unwrap_or(false),
        })
    }

    /// What a resend cures is a fault of the backend, with the status that says so.
    fn outcome(self, host: &str, port: u16) -> Outcome {
        if self.retriable {
            return Outcome::Fault { status: 503 };
        }
        let message = self.reason.and_then(|reason| hygiene::clean(&reason, host, port));
        Outcome::Rejected { message, unprocessable: false }
    }
}

fn take(count: &mut usize) -> Option<()> {
    *count = count.checked_sub(1)?;
    Some(())
}

fn verdict(object: &Map<String, Value>, [success, partial, failure]: [&str; 3]) -> Option<Verdict> {
    let status = object.get("status")?.as_str()?;
    if status == success {
        Some(Verdict::Success)
    } else if status == partial {
        Some(Verdict::Partial)
    } else if status == failure {
        Some(Verdict::Failure)
    } else {
        None
    }
}

fn number(value: &Value) -> Option<usize> {
    value.as_u64().and_then(|number| usize::try_from(number).ok())
}

/// Absent and null are an empty list.
fn list(value: Option<&Value>) -> Option<&[Value]> {
    match value {
        None | Some(Value::Null) => Some(&[]),
        Some(value) => value.as_array().map(Vec::as_slice),
    }
}

#[cfg(test)]
mod tests;
