//! What the ends of exchanges say of the backend: breaker and poison behind one lock, and the backend's health check.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::Shared;
use super::breaker::{Advice, Breaker, Leave, Sign, State};
use super::duplicates::is_delivery;
use super::exchange::Event;
use super::key::EventKey;
use super::metrics::Metrics;
use super::poison::Poison;
use crate::answer::Outcome;
use crate::upstream::Upstream;

/// A backend that says nothing for so long is not healthy.
const CHECK_TIME: Duration = Duration::from_secs(2);

/// The health of one backend.
pub(super) struct Health {
    upstream: Arc<Upstream>,
    breaker: Mutex<Breaker>,
    poison: Mutex<Poison>,
    metrics: Metrics,
}

/// An event that was let through. Dropped without an end, it says nothing of the backend.
pub(super) struct Passage<'a> {
    health: &'a Health,
    event: Event,
    leave: Option<Leave>,
}

impl Health {
    pub(super) fn new(upstream: Arc<Upstream>, metrics: Metrics) -> Self {
        metrics.breaker(upstream.name(), State::Closed);
        Self { upstream, breaker: Mutex::new(Breaker::new()), poison: Mutex::new(Poison::new()), metrics }
    }

    pub(super) fn state(&self) -> State {
        lock(&self.breaker).state()
    }

    pub(super) fn refuses(&self) -> bool {
        lock(&self.breaker).refuses(Instant::now())
    }

    /// Whether the backend fails at this event alone.
    pub(super) fn is_poison(&self, event: Event, outcome: &Outcome) -> bool {
        if matches!(outcome, Outcome::Fault { .. }) {
            return lock(&self.poison).failed(event.key, event.caller, Instant::now());
        }
        if is_delivery(outcome) {
            lock(&self.poison).passed(&event.key);
        }
        false
    }

    /// Whether the backend failed at this event of late.
    pub(super) fn has_failed(&self, event: &EventKey) -> bool {
        lock(&self.poison).has_failed(event, Instant::now())
    }

    /// Changes the breaker, and tells if its state is another one afterwards.
    fn change<T>(&self, change: impl FnOnce(&mut Breaker, Instant) -> T) -> T {
        let mut breaker = lock(&self.breaker);
        let before = breaker.state();
        let result = change(&mut breaker, Instant::now());
        let after = breaker.state();
        if before != after {
            // Told under the lock, so that the last word is the true one.
            self.metrics.breaker(self.upstream.name(), after);
            let (upstream, from, to) = (self.upstream.name(), before.word(), after.word());
            tracing::warn!(%upstream, from, to, "the circuit breaker of the lineage backend has changed");
        }
        result
    }
}

impl Shared {
    /// Asks the backend for its health in a task, for the breaker.
    pub(super) fn check_health(self: &Arc<Self>) {
        let shared = Arc::clone(self);
        self.drain.tasks().spawn(async move {
            let health = &shared.health;
            let asking = tokio::time::timeout(CHECK_TIME, shared.upstream.is_healthy());
            let healthy = tokio::select! {
                healthy = asking => healthy.unwrap_or(false),
                () = shared.drain.aborted() => return,
            };
            shared.metrics.checked(shared.upstream.name(), healthy);
            health.change(|breaker, now| breaker.checked(healthy, now));
        });
    }
}

impl<'a> Passage<'a> {
    pub(super) fn begin(health: &'a Health, event: Event) -> Option<Self> {
        let leave = health.change(|breaker, now| breaker.leave(now))?;
        Some(Self { health, event, leave: Some(leave) })
    }

    /// True: the backend's health should be checked.
    pub(super) fn end(mut self, outcome: &Outcome) -> bool {
        self.tell(Sign::of(outcome)) == Advice::Check
    }

    fn tell(&mut self, sign: Sign) -> Advice {
        let Some(leave) = self.leave.take() else { return Advice::Nothing };
        let Event { key, caller } = self.event;
        self.health.change(|breaker, now| breaker.ended(leave, sign, (key, caller), now))
    }
}

impl Drop for Passage<'_> {
    fn drop(&mut self) {
        self.tell(Sign::Nothing);
    }
}

/// No code under these locks leaves a state half written.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
