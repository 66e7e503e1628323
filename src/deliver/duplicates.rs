//! The same event sent twice: joined to its first exchange while that runs, answered from memory afterwards.
//!
//! Only deliveries are remembered. A resend of anything else is sent again, which is what its client asks for.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use super::key::{CallerKey, EventKey};
use super::store::Store;
use crate::answer::Outcome;

/// Who may wait for one exchange; a client resends six times at most (facts: marquez and clients 3).
pub(super) const WAITERS: usize = 16;

/// The exchanges that run, with who waits for their ends, and the deliveries of the last minutes. `W` is one who waits.
#[derive(Debug)]
pub(super) struct Duplicates<W> {
    running: HashMap<EventKey, Vec<W>>,
    delivered: Store<EventKey, Outcome>,
}

/// What is known of an event that comes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found<W> {
    /// Nothing: it is to be sent, and its sender waits for the end.
    New,
    /// It is on its way, and its sender waits for the end too.
    Joined,
    /// It is on its way, and too many wait for its end already.
    Crowded(W),
    /// It was delivered.
    Remembered(W, Outcome),
}

impl<W> Duplicates<W> {
    /// Remembers so many deliveries for so long.
    pub(super) fn new(entries: usize, lifetime: Duration) -> Self {
        Self { running: HashMap::new(), delivered: Store::new(entries, lifetime) }
    }

    /// Looks an event up. After [`Found::New`], [`end`](Self::end) must follow.
    pub(super) fn find(&mut self, key: EventKey, waiter: W, now: Instant) -> Found<W> {
        if let Some(waiters) = self.running.get_mut(&key) {
            if waiters.len() >= WAITERS {
                return Found::Crowded(waiter);
            }
            waiters.push(waiter);
            return Found::Joined;
        }
        if let Some(outcome) = self.delivered.get(&key, now) {
            return Found::Remembered(waiter, outcome.clone());
        }
        self.running.insert(key, vec![waiter]);
        Found::New
    }

    /// Whether it is on its way.
    pub(super) fn is_running(&self, key: &EventKey) -> bool {
        self.running.contains_key(key)
    }

    /// The exchange has ended: gives back all who wait for it, the first sender first.
    pub(super) fn end(&mut self, key: EventKey, caller: CallerKey, outcome: &Outcome, now: Instant) -> Vec<W> {
        if is_delivery(outcome) {
            self.delivered.put(key, caller, outcome.clone(), now);
        }
        self.running.remove(&key).unwrap_or_default()
    }

    /// Deliveries that are remembered.
    pub(super) fn remembered(&self) -> usize {
        self.delivered.len()
    }
}

/// Whether the backend took the event.
pub(super) fn is_delivery(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Accepted { .. } | Outcome::NoEffect(_) | Outcome::Partial { .. } => true,
        Outcome::Rejected { .. }
        | Outcome::TooLarge
        | Outcome::Throttled
        | Outcome::UpstreamAuth
        | Outcome::CallerUnauthenticated
        | Outcome::CallerForbidden
        | Outcome::Unreachable(_)
        | Outcome::Unknown(_)
        | Outcome::BadGateway(_)
        | Outcome::Fault { .. }
        | Outcome::Poison
        | Outcome::Disabled
        | Outcome::NotSent => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::{Durability, NoEffect, Unknown, Unreachable};

    const STORED: Outcome = Outcome::Accepted { edges: Some(2), durability: Durability::Stored };
    const ALICE: CallerKey = CallerKey([1; 16]);
    const MINUTES: Duration = Duration::from_secs(600);

    fn key(number: u8) -> EventKey {
        EventKey([number; 32])
    }

    #[tokio::test(start_paused = true)]
    async fn a_resend_joins_the_exchange_that_runs_and_all_get_its_end() {
        let (mut duplicates, now) = (Duplicates::new(8, MINUTES), Instant::now());
        assert_eq!(duplicates.find(key(1), "first", now), Found::New);
        assert_eq!(duplicates.find(key(1), "second", now), Found::Joined);
        assert_eq!(duplicates.find(key(2), "other", now), Found::New);
        assert_eq!(duplicates.end(key(1), ALICE, &STORED, now), ["first", "second"]);
        assert_eq!(duplicates.end(key(2), ALICE, &Outcome::Throttled, now), ["other"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_delivery_is_remembered_for_its_time() {
        let (mut duplicates, now) = (Duplicates::new(8, MINUTES), Instant::now());
        duplicates.find(key(1), 1, now);
        duplicates.end(key(1), ALICE, &STORED, now);
        let last = now + MINUTES - Duration::from_millis(1);
        assert_eq!(duplicates.find(key(1), 2, last), Found::Remembered(2, STORED));
        assert_eq!(duplicates.find(key(1), 3, now + MINUTES), Found::New);
    }

    #[tokio::test(start_paused = true)]
    async fn only_deliveries_are_remembered() {
        let table = [
            (STORED, true),
            (Outcome::NoEffect(NoEffect::NoEdges), true),
            (Outcome::Partial { edges: 1 }, true),
            (Outcome::Rejected { message: None, unprocessable: false }, false),
            (Outcome::TooLarge, false),
            (Outcome::Throttled, false),
            (Outcome::UpstreamAuth, false),
            (Outcome::CallerUnauthenticated, false),
            (Outcome::CallerForbidden, false),
            (Outcome::Unreachable(Unreachable::Connect), false),
            (Outcome::Unknown(Unknown::Timeout), false),
            (Outcome::BadGateway(String::new()), false),
            (Outcome::Fault { status: 500 }, false),
            (Outcome::Poison, false),
            (Outcome::Disabled, false),
            (Outcome::NotSent, false),
        ];
        for (outcome, remembered) in table {
            let (mut duplicates, now) = (Duplicates::new(8, MINUTES), Instant::now());
            duplicates.find(key(1), 1, now);
            duplicates.end(key(1), ALICE, &outcome, now);
            let found = duplicates.find(key(1), 2, now);
            let expected = if remembered { Found::Remembered(2, outcome.clone()) } else { Found::New };
            assert_eq!(found, expected, "{outcome:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_than_a_few_wait_for_one_exchange() {
        let (mut duplicates, now) = (Duplicates::new(8, MINUTES), Instant::now());
        assert_eq!(duplicates.find(key(1), 0, now), Found::New);
        for waiter in 1..WAITERS {
            assert_eq!(duplicates.find(key(1), waiter, now), Found::Joined);
        }
        assert_eq!(duplicates.find(key(1), 99, now), Found::Crowded(99));
        assert_eq!(duplicates.end(key(1), ALICE, &STORED, now).len(), WAITERS);
    }
}
