//! One who sent an event and waits for its end: the client's side ([`Handle`]) and the exchange's ([`Waiter`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::metrics::Metrics;
use crate::answer::{Outcome, Unknown};

/// The end of an exchange, for one who sent the event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    /// What became of the event at the backend.
    pub outcome: Outcome,
    /// From its sending to this end.
    pub took: Duration,
    /// What the client had been told.
    pub answered: Answered,
    /// Whether it was not this one's sending that brought the event there.
    pub duplicate: Option<Duplicate>,
    pending: Unknown,
}

/// What the client had been told when an exchange ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answered {
    /// It is told this very outcome.
    InTime,
    /// It had been told that the outcome is not known yet.
    Late,
    /// It had left.
    ClientGone,
}

/// Why an event was not sent for this request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Duplicate {
    /// The same event was on its way already.
    Joined,
    /// The same event was delivered before.
    Remembered,
}

/// A running exchange, for the one who waits for it. Dropping it means that the client left.
pub struct Handle {
    end: oneshot::Receiver<Told>,
    late: Arc<AtomicBool>,
    answer_by: Instant,
    pending: Unknown,
}

/// The exchange's side of a [`Handle`].
pub(super) struct Waiter {
    done: oneshot::Sender<Told>,
    late: Arc<AtomicBool>,
    began: Instant,
    pending: Unknown,
    report: Report,
    metrics: Metrics,
}

/// Told exactly once.
pub(super) type Report = Box<dyn FnOnce(End) + Send>;

/// The end of an exchange on its way to whoever reports it. If it is dropped on that way, nobody was there to be told.
struct Told {
    end: End,
    report: Option<Report>,
    metrics: Metrics,
}

/// Both sides. `pending` is the word for a client whose time is up first.
pub(super) fn pair(answer_by: Instant, report: Report, pending: Unknown, metrics: Metrics) -> (Waiter, Handle) {
    let (done, end) = oneshot::channel();
    let late = Arc::new(AtomicBool::new(false));
    let waiter = Waiter { done, late: Arc::clone(&late), began: Instant::now(), pending, report, metrics };
    (waiter, Handle { end, late, answer_by, pending })
}

impl End {
    /// The end of an event that was never begun, told at once.
    pub(super) fn not_sent() -> Self {
        Self {
            outcome: Outcome::NotSent,
            took: Duration::ZERO,
            answered: Answered::InTime,
            duplicate: None,
            pending: Unknown::Pending,
        }
    }

    /// The outcome that the client was told; none if it had left.
    pub fn told(&self) -> Option<Outcome> {
        match self.answered {
            Answered::InTime => Some(self.outcome.clone()),
            Answered::Late => Some(Outcome::Unknown(self.pending)),
            Answered::ClientGone => None,
        }
    }
}

impl Duplicate {
    /// For audit and metrics.
    pub fn word(self) -> &'static str {
        match self {
            Self::Joined => "joined",
            Self::Remembered => "remembered",
        }
    }
}

impl Handle {
    /// The outcome, or that it is not known yet when the budget is used up first.
    pub async fn outcome(mut self) -> Outcome {
        let told = match timeout_at(self.answer_by, &mut self.end).await {
            Ok(told) => told.ok(),
            Err(_) => {
                self.late.store(true, Ordering::Release);
                // Closed first, so that an end either is here already or is reported as late by its task.
                self.end.close();
                self.end.try_recv().ok()
            }
        };
        let Some(mut told) = told else {
            return Outcome::Unknown(self.pending);
        };
        let outcome = told.end.outcome.clone();
        told.report(Answered::InTime);
        outcome
    }
}

impl Waiter {
    pub(super) fn end(self, outcome: Outcome, duplicate: Option<Duplicate>) {
        let Self { done, late, began, pending, report, metrics } = self;
        let end = End { outcome, took: began.elapsed(), answered: Answered::ClientGone, duplicate, pending };
        if let Err(mut told) = done.send(Told { end, report: Some(report), metrics }) {
            let late = late.load(Ordering::Acquire);
            told.report(if late { Answered::Late } else { Answered::ClientGone });
        }
    }
}

impl Told {
    fn report(&mut self, answered: Answered) {
        if let Some(report) = self.report.take() {
            self.metrics.answered(answered);
            report(End { answered, ..self.end.clone() });
        }
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        self.report(Answered::ClientGone);
    }
}
