//! One exchange: its way to a place at the backend, and its end for all who wait for it.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use tokio::time::Instant;

use super::Shared;
use super::health::Passage;
use super::key::{CallerKey, EventKey};
use super::metrics::Unsent;
use super::waiter::Duplicate;
use crate::answer::{Outcome, Unknown};

/// Which event, and whose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) key: EventKey,
    pub(super) caller: CallerKey,
}

/// An exchange that runs. It ends even where its task is dropped by a runtime that stops.
pub(super) struct Exchange {
    shared: Arc<Shared>,
    event: Event,
    slot: EventKey,
    has_ended: bool,
}

impl Exchange {
    pub(super) fn new(shared: Arc<Shared>, event: Event, slot: EventKey) -> Self {
        Self { shared, event, slot, has_ended: false }
    }

    /// Runs it in a task. It waits for its place until `queue_until`.
    pub(super) fn start(mut self, send: impl Future<Output = Outcome> + Send + 'static, queue_until: Instant) {
        let drain = self.shared.drain.clone();
        let tasks = drain.tasks().clone();
        tasks.spawn(async move {
            let outcome = tokio::select! {
                outcome = without_panic(self.attempt(send, queue_until)) => outcome,
                () = drain.aborted() => Outcome::Unknown(Unknown::Pending),
            };
            self.end(outcome);
        });
    }

    async fn attempt(&self, send: impl Future<Output = Outcome>, queue_until: Instant) -> Outcome {
        let Shared { health, queue, metrics, upstream, .. } = &*self.shared;
        if health.refuses() {
            metrics.unsent(upstream.name(), Unsent::Breaker);
            return Outcome::NotSent;
        }
        let place = {
            let _waiting = metrics.queued(upstream.name());
            queue.enter(self.event.caller, queue_until).await
        };
        let Some(_place) = place else {
            metrics.unsent(upstream.name(), Unsent::Queue);
            return Outcome::NotSent;
        };
        let Some(passage) = Passage::begin(health, self.event) else {
            metrics.unsent(upstream.name(), Unsent::Breaker);
            return Outcome::NotSent;
        };
        let running = metrics.running(upstream.name());
        let outcome = send.await;
        running.ended(&outcome);
        if passage.end(&outcome) {
            self.shared.check_health();
        }
        if health.is_poison(self.event, &outcome) {
            metrics.poison(upstream.name());
            return Outcome::Poison;
        }
        outcome
    }

    fn end(&mut self, outcome: Outcome) {
        if std::mem::replace(&mut self.has_ended, true) {
            return;
        }
        let shared = &self.shared;
        let outcome = if shared.joins() { outcome } else { unwatched(outcome) };
        let mut duplicates = shared.duplicates();
        let waiters = duplicates.end(self.slot, self.event.caller, &outcome, Instant::now());
        let remembered = duplicates.remembered();
        drop(duplicates);
        shared.metrics.sizes(shared.upstream.name(), remembered, shared.runs.len());
        for (index, waiter) in waiters.into_iter().enumerate() {
            waiter.end(outcome.clone(), (index > 0).then_some(Duplicate::Joined));
        }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.end(Outcome::Unknown(Unknown::Pending));
    }
}

/// What is not known stays so where no resend can be joined.
fn unwatched(outcome: Outcome) -> Outcome {
    let is_open = matches!(outcome, Outcome::Unknown(Unknown::Timeout | Unknown::Reset | Unknown::Pending));
    if is_open { Outcome::Unknown(Unknown::Unwatched) } else { outcome }
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
