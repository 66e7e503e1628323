//! Several events on their way to the backend (facts: backends 2.5).
//!
//! Events of one run go strictly one after the other, since a run must not end before it began; runs go side by side.
//! What ends a run or the whole batch early is said by [`plan::after`]; everything ends at the deadline of the answer.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::answer::{End, NotAttempted, Outcome, Unknown};
use crate::upstream::Delivery;

use super::Deliverer;

use self::plan::{Next, Run};

pub mod chunk;
pub mod plan;

#[cfg(test)]
mod tests;

/// Runs that are delivered side by side: the backends that were measured gain nothing beyond it.
pub const SIDE_BY_SIDE: usize = 8;

/// One event of a batch.
pub struct Item {
    /// Its place among the events that are to be sent.
    pub place: usize,
    /// Whose other events it must not overtake.
    pub run: Run,
    /// What is sent.
    pub delivery: Delivery,
    /// Called once with the event's end, as the `on_end` of [`Deliverer::submit`]: for an event that was not sent with
    /// [`Outcome::NotSent`].
    pub on_end: Box<dyn FnOnce(super::End) + Send>,
}

/// What all workers of a batch share.
struct Shared {
    deliverer: Deliverer,
    received: Instant,
    runs: Mutex<VecDeque<Vec<Item>>>,
    stopped: Mutex<Option<NotAttempted>>,
    ends: mpsc::UnboundedSender<(usize, End)>,
}

impl Deliverer {
    /// Delivers `items`, and says what became of each, by place. `received` is when the last byte of the body had come;
    /// the answer is there before the budget from then on is over.
    ///
    /// Dropping the future means that the client left: exchanges that have begun go on, and nothing more is begun.
    ///
    /// A backend's own call for batches belongs in here: [`chunk::chunks`] cuts the items, [`crate::event::batch::join`]
    /// makes the body, and [`chunk::Chunk::ends`] maps the backend's answer back.
    pub async fn submit_batch(&self, items: Vec<Item>, received: Instant) -> Vec<End> {
        self.fan_out(items, received).await
    }

    async fn fan_out(&self, items: Vec<Item>, received: Instant) -> Vec<End> {
        // An event without an end is one whose worker failed: nobody knows what became of it.
        let mut ends = vec![End::Sent(Outcome::Unknown(Unknown::Pending)); items.len()];
        let runs = plan::by_run(items, |item| item.run.clone());
        let (told, mut telling) = mpsc::unbounded_channel();
        let workers = runs.len().min(SIDE_BY_SIDE);
        let runs = Mutex::new(VecDeque::from(runs));
        let shared =
            Arc::new(Shared { deliverer: self.clone(), received, runs, stopped: Mutex::default(), ends: told });
        let mut tasks = JoinSet::new();
        for _ in 0..workers {
            tasks.spawn(work(Arc::clone(&shared)));
        }
        drop(shared);
        while let Some((place, end)) = telling.recv().await {
            if let Some(slot) = ends.get_mut(place) {
                *slot = end;
            }
        }
        ends
    }
}

async fn work(shared: Arc<Shared>) {
    loop {
        let Some(run) = lock(&shared.runs).pop_front() else { return };
        let mut left = None;
        for item in run {
            match left.or_else(|| shared.why_not()) {
                Some(why) => shared.leave(item, why),
                None => left = shared.send(item).await,
            }
        }
    }
}

impl Shared {
    /// Why nothing more is begun.
    fn why_not(&self) -> Option<NotAttempted> {
        let is_over = Instant::now() >= self.received + self.deliverer.budget();
        lock(&self.stopped).or_else(|| is_over.then_some(NotAttempted::Deadline))
    }

    /// Sends one event; what it returns holds for the rest of its run.
    async fn send(&self, item: Item) -> Option<NotAttempted> {
        let Item { place, delivery, on_end, .. } = item;
        let outcome = self.deliverer.submit(delivery, self.received, on_end).outcome().await;
        let next = plan::after(&outcome);
        self.tell(place, End::Sent(outcome));
        match next {
            Next::GoOn => None,
            Next::EndRun => Some(NotAttempted::EarlierFailed),
            Next::EndAll => {
                lock(&self.stopped).get_or_insert(NotAttempted::Stopped);
                None
            }
        }
    }

    fn leave(&self, item: Item, why: NotAttempted) {
        (item.on_end)(super::End::not_sent());
        self.tell(item.place, End::NotAttempted(why));
    }

    fn tell(&self, place: usize, end: End) {
        // The receiver is gone only where the client is.
        let _ = self.ends.send((place, end));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
