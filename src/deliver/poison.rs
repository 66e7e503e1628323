//! Events that a backend fails at while it takes others (facts: backends 3, rows 10, 16 and 17; openlineage 6, row 12).
//!
//! An event is poison when the backend answers it with 5xx for the second time, has taken another event in between, and
//! has failed at no new event in between. In an outage none is: nothing passes, and new events fail too. Events that
//! failed before do not count as new, so that two of them do not hide each other.

use std::time::Duration;

use tokio::time::Instant;

use super::key::{CallerKey, EventKey};
use super::store::Store;

/// Events that failed and are watched.
const ENTRIES: usize = 1_024;

/// How long a failure counts.
const LIFETIME: Duration = Duration::from_secs(600);

/// The events that failed of late.
#[derive(Debug)]
pub(super) struct Poison {
    failed: Store<EventKey, Seen>,
    now: Seen,
}

/// How many events passed, and how many failed for the first time, until some moment.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    passed: u64,
    failed: u64,
}

impl Poison {
    pub(super) fn new() -> Self {
        Self { failed: Store::new(ENTRIES, LIFETIME), now: Seen::default() }
    }

    /// The backend took an event.
    pub(super) fn passed(&mut self, event: &EventKey) {
        self.now.passed += 1;
        if self.failed.len() > 0 {
            self.failed.remove(event);
        }
    }

    /// Whether the backend failed at an event of late.
    pub(super) fn has_failed(&self, event: &EventKey, at: Instant) -> bool {
        self.failed.get(event, at).is_some()
    }

    /// The backend failed at an event. True: it is poison.
    pub(super) fn failed(&mut self, event: EventKey, caller: CallerKey, at: Instant) -> bool {
        let before = self.failed.get(&event, at).copied();
        let is_new = before.is_none();
        self.now.failed += u64::from(is_new);
        self.failed.put(event, caller, self.now, at);
        before.is_some_and(|before| self.now.passed > before.passed && self.now.failed == before.failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALICE: CallerKey = CallerKey([1; 16]);

    /// Plays letters: an upper-case one fails, a lower-case one passes. Gives the failures that were called poison, as
    /// their positions.
    fn poison_in(play: &str) -> Vec<usize> {
        let (mut poison, at) = (Poison::new(), Instant::now());
        let mut found = Vec::new();
        for (index, letter) in play.bytes().enumerate() {
            let event = EventKey([letter.to_ascii_lowercase(); 32]);
            if letter.is_ascii_lowercase() {
                poison.passed(&event);
            } else if poison.failed(event, ALICE, at) {
                found.push(index);
            }
        }
        found
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_is_poison_when_it_fails_again_while_others_pass() {
        let table: [(&str, &[usize]); 9] = [
            ("X", &[]),
            ("XX", &[]),
            ("XaX", &[2]),
            ("XaXX", &[2]),
            ("XaXbX", &[2, 4]),
            // An outage: others fail too, and the first that pass end it.
            ("XABXABX", &[]),
            ("XAaX", &[]),
            // It passed at last: what was before does not count.
            ("XxaX", &[]),
            // Two of them do not hide each other.
            ("XYaXYaX", &[4, 6]),
        ];
        for (play, expected) in table {
            assert_eq!(poison_in(play), expected, "{play}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_is_forgotten_after_a_time() {
        let (mut poison, at) = (Poison::new(), Instant::now());
        let event = EventKey([1; 32]);
        assert!(!poison.failed(event, ALICE, at));
        poison.passed(&EventKey([2; 32]));
        assert!(!poison.failed(event, ALICE, at + LIFETIME));
        poison.passed(&EventKey([3; 32]));
        assert!(poison.failed(event, ALICE, at + LIFETIME));
    }
}
