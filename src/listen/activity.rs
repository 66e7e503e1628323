//! Whether an HTTP/2 connection is at work, and since when it is not.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::time::Instant;

/// The requests of one connection. A clone is about the same ones.
#[derive(Debug, Clone)]
pub(super) struct Activity(Arc<Shared>);

/// One request in flight, until it is dropped.
#[derive(Debug)]
pub(super) struct InFlight(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug)]
struct State {
    open: usize,
    begun: bool,
    since: Instant,
}

impl Activity {
    pub(super) fn new() -> Self {
        let state = State { open: 0, begun: false, since: Instant::now() };
        Self(Arc::new(Shared { state: Mutex::new(state), changed: Notify::new() }))
    }

    pub(super) fn begin(&self) -> InFlight {
        {
            let mut state = self.0.state();
            state.open += 1;
            state.begun = true;
        }
        self.0.changed.notify_one();
        InFlight(Arc::clone(&self.0))
    }

    /// Since when no request is in flight; nothing while one is.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        let state = self.0.state();
        (state.open == 0).then_some(state.since)
    }

    /// Whether there was a request at all.
    pub(super) fn has_begun(&self) -> bool {
        self.0.state().begun
    }

    /// Idle time counts from now on.
    pub(super) fn restart(&self) {
        self.0.state().since = Instant::now();
    }

    /// Ends after a request began or ended. For one waiter.
    pub(super) async fn changed(&self) {
        self.0.changed.notified().await;
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        {
            let mut state = self.0.state();
            state.open -= 1;
            state.since = Instant::now();
        }
        self.0.changed.notify_one();
    }
}
