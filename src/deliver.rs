//! An event's exchange with the backend, in a task of its own (DESIGN: section 4, rule 6).
//!
//! Whoever waits for the outcome waits no longer than the budget; after that the client is told that the outcome is not
//! known yet. Neither that nor a client that left cancels the exchange. Its end, whenever it comes, is reported exactly
//! once to each who sent the event, with what that client was told until then.
//!
//! On its way an event meets, in this order: its own earlier copies (`duplicates`), the breaker, the queue for a place
//! at the backend, and once more the breaker. How the exchange ends is told to the breaker and to the watch for poison.
//! To whom its run belongs is asked before ([`Deliverer::claim`]).
//!
//! What this guarantees: an event that a client was told is delivered was taken by the backend; and it was sent once,
//! unless a resend came after an exchange that ended without a delivery. Then it is sent again, for the client asks for
//! that and it may never have arrived. So the backend has an event twice only where it stored one that it then failed
//! to acknowledge within `upstreams[].timeout`: by 5xx, by an answer that is none, by a broken connection, or by
//! silence. No gate can tell these from an event that was lost; a backend that knows identical events again, as Marquez
//! does by run and time, is not harmed. An exchange is not ended by its client's patience but by `timeout`, which is
//! longer than all resends of one client together, so that a backend that is only slow never gets an event twice.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::answer::{Outcome, Refusal, Unknown};
use crate::auth::Caller;
use crate::config::{self, RunBinding, UpstreamKind};
use crate::event::JobName;
use crate::listen::Drain;
use crate::upstream::{Delivery, Upstream};

use self::duplicates::{Duplicates, Found};
use self::exchange::{Event, Exchange};
use self::health::Health;
use self::key::{CallerKey, EventKey};
use self::queue::Queue;
use self::runs::Runs;
use self::waiter::{Report, Waiter};

pub use self::metrics::Metrics;
pub use self::runs::{Claim, RunConflict};
pub use self::waiter::{Answered, Duplicate, End, Handle};

pub mod batch;
mod breaker;
mod duplicates;
mod exchange;
mod health;
mod key;
mod metrics;
mod poison;
mod queue;
mod runs;
mod store;
mod waiter;

#[cfg(test)]
mod tests;

/// The time within which an answer goes out, from the last byte of the body: clients give up at 5 s.
pub const BUDGET: Duration = Duration::from_millis(3_500);

/// An event that waits for a place is told so a little before its client must be answered.
const QUEUE_MARGIN: Duration = Duration::from_millis(100);

/// How events are delivered to one backend; the keys of `upstreams[]`.
#[derive(Debug, Clone)]
pub struct Settings {
    /// `answer_within`, at most [`BUDGET`].
    pub budget: Duration,
    /// Exchanges at once.
    pub concurrency: usize,
    /// Events that wait for one.
    pub queue: usize,
    /// How long a delivery is remembered; zero neither remembers nor joins.
    pub deduplicate: Duration,
    /// Deliveries that are remembered.
    pub deduplicate_entries: usize,
    /// What becomes of an event for a run of another caller.
    pub run_binding: RunBinding,
    /// Runs that are remembered.
    pub run_entries: usize,
}

/// Starts exchanges.
#[derive(Clone)]
pub struct Deliverer {
    shared: Arc<Shared>,
}

struct Shared {
    upstream: Arc<Upstream>,
    settings: Settings,
    duplicates: Mutex<Duplicates<Waiter>>,
    queue: Arc<Queue>,
    health: Health,
    runs: Runs,
    metrics: Metrics,
    drain: Drain,
    /// Numbers exchanges that nothing can join.
    unjoined: AtomicU64,
}

impl From<&config::Upstream> for Settings {
    fn from(config: &config::Upstream) -> Self {
        Self {
            budget: config.answer_within.0,
            concurrency: config.concurrency.unwrap_or_else(|| default_concurrency(config.kind)),
            queue: config.queue,
            deduplicate: config.deduplicate.0,
            deduplicate_entries: config.deduplicate_entries,
            run_binding: config.run_binding,
            run_entries: config.run_entries,
        }
    }
}

/// Marquez gains nothing beyond 4 to 8 (facts: marquez and clients 1, latency).
fn default_concurrency(kind: UpstreamKind) -> usize {
    match kind {
        UpstreamKind::File => 1_024,
        UpstreamKind::Marquez => 8,
        UpstreamKind::Openlineage
        | UpstreamKind::Gravitino
        | UpstreamKind::Openmetadata
        | UpstreamKind::Datahub
        | UpstreamKind::Polaris => 64,
    }
}

impl Deliverer {
    /// The time within which a waiting client is answered.
    pub(crate) fn budget(&self) -> Duration {
        self.shared.settings.budget
    }

    /// Exchanges run as tasks of `drain`, and are given up when it gives up.
    pub fn new(upstream: Arc<Upstream>, settings: Settings, metrics: Metrics, drain: Drain) -> Self {
        let entries = if settings.deduplicate.is_zero() { 0 } else { settings.deduplicate_entries };
        let shared = Shared {
            duplicates: Mutex::new(Duplicates::new(entries, settings.deduplicate)),
            queue: Queue::new(settings.concurrency, settings.queue),
            health: Health::new(Arc::clone(&upstream), metrics.clone()),
            runs: Runs::new(settings.run_binding, settings.run_entries, metrics.clone()),
            unjoined: AtomicU64::new(0),
            upstream,
            settings,
            metrics,
            drain,
        };
        Self { shared: Arc::new(shared) }
    }

    /// Holds the run of an event until [`Claim::settle`] tells its end.
    ///
    /// # Errors
    /// [`Refusal::NotVisible`] with `run_binding: enforce`, where another caller began the run.
    pub fn claim(&self, caller: &Caller, run_id: Option<&str>, job: Option<&JobName>) -> Result<Claim, Refusal> {
        run_id.map_or_else(|| Ok(Claim::none()), |run_id| self.shared.runs.claim(caller, run_id, job))
    }

    /// Starts the exchange at once, or joins the one of an identical event of the same caller, or answers from memory
    /// of its delivery. `received` is when the last byte of the body had come: the budget runs from there.
    ///
    /// `on_end` is called exactly once, with the outcome at the backend and what the client had been told until then. It
    /// runs on a worker of the runtime: it must not block.
    pub fn submit(&self, delivery: Delivery, received: Instant, on_end: impl FnOnce(End) + Send + 'static) -> Handle {
        let upstream = Arc::clone(&self.shared.upstream);
        let event = self.shared.event(&delivery);
        self.exchange(event, received, Box::new(on_end), async move { upstream.send(&delivery).await })
    }

    /// The state of the backend's circuit breaker: `closed`, `open` or `half_open`.
    pub fn breaker(&self) -> &'static str {
        self.shared.health.state().word()
    }

    /// As [`submit`](Self::submit), with the exchange as a future that is polled only once the event has its place.
    fn exchange(
        &self,
        event: Event,
        received: Instant,
        report: Report,
        exchange: impl Future<Output = Outcome> + Send + 'static,
    ) -> Handle {
        let (begun, handle) = self.begin(event, received, report);
        if let Some(begun) = begun {
            begun.start(exchange, self.shared.queue_until(received));
        }
        handle
    }

    /// Finds an event's earlier copies. An exchange comes back where there are none: it must be started or ended.
    fn begin(&self, event: Event, received: Instant, report: Report) -> (Option<Exchange>, Handle) {
        let shared = &self.shared;
        let answer_by = received + shared.settings.budget;
        let (waiter, handle) = waiter::pair(answer_by, report, shared.pending(), shared.metrics.clone());
        let slot = if shared.joins() { event.key } else { shared.slot_of_its_own() };
        let found = shared.duplicates().find(slot, waiter, Instant::now());
        let upstream = shared.upstream.name();
        match found {
            Found::New => return (Some(Exchange::new(Arc::clone(shared), event, slot)), handle),
            Found::Joined => shared.metrics.duplicate(upstream, Duplicate::Joined),
            Found::Crowded(waiter) => waiter.end(Outcome::Unknown(Unknown::Pending), Some(Duplicate::Joined)),
            Found::Remembered(waiter, outcome) => {
                shared.metrics.duplicate(upstream, Duplicate::Remembered);
                waiter.end(outcome, Some(Duplicate::Remembered));
            }
        }
        (None, handle)
    }
}

impl Shared {
    fn event(&self, delivery: &Delivery) -> Event {
        let key = EventKey::of(delivery, self.upstream.name());
        Event { key, caller: CallerKey::of(&delivery.caller) }
    }

    /// Until when an event waits for its place.
    fn queue_until(&self, received: Instant) -> Instant {
        received + self.settings.budget - QUEUE_MARGIN.min(self.settings.budget / 4)
    }

    /// What a client is told whose exchange goes on. With nothing that a resend could join, that is another word.
    fn pending(&self) -> Unknown {
        if self.joins() { Unknown::Pending } else { Unknown::Unwatched }
    }

    fn joins(&self) -> bool {
        !self.settings.deduplicate.is_zero()
    }

    /// No key of an event ends in 24 zero bytes, as far as anyone can find out.
    fn slot_of_its_own(&self) -> EventKey {
        let mut slot = [0; 32];
        let number = self.unjoined.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        slot.iter_mut().zip(number).for_each(|(to, from)| *to = from);
        EventKey(slot)
    }

    /// No code under this lock leaves a state half written.
    fn duplicates(&self) -> MutexGuard<'_, Duplicates<Waiter>> {
        self.duplicates.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
