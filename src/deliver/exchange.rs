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
        let sent = self.shared.pass(self.event, queue_until, send, Clone::clone).await;
        sent.map_or(Outcome::NotSent, |outcome| self.poisoned(outcome))
    }

    /// The outcome, unless the backend fails at this event alone.
    pub(super) fn poisoned(&self, outcome: Outcome) -> Outcome {
        if self.shared.health.is_poison(self.event, &outcome) {
            self.shared.metrics.poison(self.shared.upstream.name());
            return Outcome::Poison;
        }
        outcome
    }

    pub(super) fn event(&self) -> Event {
        self.event
    }

    /// Tells all who wait for it.
    pub(super) fn end(&mut self, outcome: Outcome) {
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

impl Shared {
    /// Sends something for `event` once there is a place for it: breaker, queue and once more the breaker stand before.
    /// None: it was not sent. `outcome` is what the sending's result says of the backend.
    pub(super) async fn pass<T>(
        self: &Arc<Self>,
        event: Event,
        queue_until: Instant,
        send: impl Future<Output = T>,
        outcome: impl FnOnce(&T) -> Outcome,
    ) -> Option<T> {
        let Self { health, queue, metrics, upstream, .. } = &**self;
        if health.refuses() {
            metrics.unsent(upstream.name(), Unsent::Breaker);
            return None;
        }
        let place = {
            let _waiting = metrics.queued(upstream.name());
            queue.enter(event.caller, queue_until).await
        };
        let Some(_place) = place else {
            metrics.unsent(upstream.name(), Unsent::Queue);
            return None;
        };
        let Some(passage) = Passage::begin(health, event) else {
            metrics.unsent(upstream.name(), Unsent::Breaker);
            return None;
        };
        let running = metrics.running(upstream.name());
        let sent = send.await;
        let outcome = outcome(&sent);
        running.ended(&outcome);
        if passage.end(&outcome) {
            self.check_health();
        }
        Some(sent)
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
    caught(exchange).await.unwrap_or(Outcome::Fault { status: 500 })
}

/// None: it panicked.
pub(super) async fn caught<T>(exchange: impl Future<Output = T>) -> Option<T> {
    let mut exchange = pin!(exchange);
    poll_fn(|cx| {
        let polled = catch_unwind(AssertUnwindSafe(|| exchange.as_mut().poll(cx)));
        polled.map_or(Poll::Ready(None), |polled| polled.map(Some))
    })
    .await
}
