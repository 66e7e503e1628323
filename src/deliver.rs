//! An event's exchange with the backend, in a task of its own (DESIGN: section 4, rule 6).
//!
//! Whoever waits for the outcome waits no longer than the budget; after that the client is told that the outcome is not
//! known yet. Neither that nor a client that left cancels the exchange. Its end, whenever it comes, is reported exactly
//! once, with what the client was told until then.
//!
//! Joining of resends, the queue and the breaker belong between [`Deliverer::submit`] and [`Upstream::send`]: what
//! stands around them here, the budget, the report and the metrics, does not change with them.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};
use tokio_util::task::TaskTracker;

use crate::answer::{Outcome, Unknown};
use crate::upstream::{Delivery, Upstream};

pub use self::metrics::Metrics;

mod metrics;

#[cfg(test)]
mod tests;

/// The time within which an answer goes out, from the last byte of the body: clients give up at 5 s.
pub const BUDGET: Duration = Duration::from_millis(3_500);

/// Starts exchanges.
#[derive(Clone)]
pub struct Deliverer {
    upstream: Arc<Upstream>,
    budget: Duration,
    metrics: Metrics,
    tasks: TaskTracker,
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

/// A running exchange, for the one who waits for it. Dropping it means that the client left.
pub struct Handle {
    end: oneshot::Receiver<End>,
    late: Arc<AtomicBool>,
    answer_by: Instant,
}

/// The end of an exchange on its way to whoever reports it. If it is dropped on that way, nobody was there to be told.
struct End {
    outcome: Outcome,
    took: Duration,
    report: Option<Report>,
    metrics: Metrics,
}

type Report = Box<dyn FnOnce(Outcome, Duration, Answered) + Send>;

/// Ends an exchange even where its task is dropped by a runtime that stops.
struct Exchange {
    upstream: Arc<str>,
    started: Instant,
    metrics: Metrics,
    late: Arc<AtomicBool>,
    done: Option<(oneshot::Sender<End>, Report)>,
}

impl Deliverer {
    /// `budget` is the time within which a waiting client is answered, normally [`BUDGET`]. A drain waits for `tasks`.
    pub fn new(upstream: Arc<Upstream>, budget: Duration, metrics: Metrics, tasks: TaskTracker) -> Self {
        Self { upstream, budget, metrics, tasks }
    }

    /// Starts the exchange at once. `received` is when the last byte of the body had come: the budget runs from there.
    ///
    /// `on_end` is called exactly once, with the outcome at the backend, the time that the exchange took, and what the
    /// client had been told until then. It runs on a worker of the runtime: it must not block.
    pub fn submit(
        &self,
        delivery: Delivery,
        received: Instant,
        on_end: impl FnOnce(Outcome, Duration, Answered) + Send + 'static,
    ) -> Handle {
        let upstream = Arc::clone(&self.upstream);
        self.track(async move { upstream.send(&delivery).await }, received, Box::new(on_end))
    }

    fn track(
        &self,
        exchange: impl Future<Output = Outcome> + Send + 'static,
        received: Instant,
        report: Report,
    ) -> Handle {
        let (done, end) = oneshot::channel();
        let late = Arc::new(AtomicBool::new(false));
        self.metrics.started(self.upstream.name());
        let running = Exchange {
            upstream: Arc::clone(self.upstream.name()),
            started: Instant::now(),
            metrics: self.metrics.clone(),
            late: Arc::clone(&late),
            done: Some((done, report)),
        };
        self.tasks.spawn(async move {
            let mut running = running;
            let outcome = without_panic(exchange).await;
            running.end(outcome);
        });
        Handle { end, late, answer_by: received + self.budget }
    }
}

impl Handle {
    /// The outcome, or [`Unknown::Pending`] when the budget is used up first.
    pub async fn outcome(mut self) -> Outcome {
        let end = match timeout_at(self.answer_by, &mut self.end).await {
            Ok(end) => end.ok(),
            Err(_) => {
                self.late.store(true, Ordering::Release);
                // Closed first, so that an end either is here already or is reported as late by its task.
                self.end.close();
                self.end.try_recv().ok()
            }
        };
        let Some(mut end) = end else {
            return Outcome::Unknown(Unknown::Pending);
        };
        let outcome = end.outcome.clone();
        end.report(Answered::InTime);
        outcome
    }
}

impl Exchange {
    fn end(&mut self, outcome: Outcome) {
        let Some((done, report)) = self.done.take() else {
            return;
        };
        let took = self.started.elapsed();
        self.metrics.ended(&self.upstream, &outcome, took);
        let end = End { outcome, took, report: Some(report), metrics: self.metrics.clone() };
        if let Err(mut end) = done.send(end) {
            let late = self.late.load(Ordering::Acquire);
            end.report(if late { Answered::Late } else { Answered::ClientGone });
        }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.end(Outcome::Unknown(Unknown::Pending));
    }
}

impl End {
    fn report(&mut self, answered: Answered) {
        if let Some(report) = self.report.take() {
            self.metrics.answered(answered);
            report(self.outcome.clone(), self.took, answered);
        }
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.report(Answered::ClientGone);
    }
}

/// A panic ends one exchange, as a fault, and its report still runs.
async fn without_panic(exchange: impl Future<Output = Outcome>) -> Outcome {
    let mut exchange = pin!(exchange);
    poll_fn(|cx| {
        let polled = catch_unwind(AssertUnwindSafe(|| exchange.as_mut().poll(cx)));
        polled.unwrap_or(Poll::Ready(Outcome::Fault { status: 500 }))
    })
    .await
}
