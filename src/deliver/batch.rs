//! Several events on their way to the backend (facts: backends 2.5).
//!
//! Events of one run go strictly one after the other, since a run must not end before it began; runs go side by side.
//! What ends a run or the whole batch early is said by [`plan::after`]; everything ends at the deadline of the answer.
//!
//! Where the backend takes batches itself, events go in calls of bounded size, one call after the other in the order of
//! the batch (`call`). A run goes event by event all the same if one of its events is on its way already, or failed of
//! late: a call that fails as a whole does not tell which event was at fault.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::answer::{End, NotAttempted, Outcome, Unknown};
use crate::upstream::Delivery;

use super::Deliverer;
use super::exchange::Exchange;
use super::waiter::{Handle, Report};

use self::plan::{Next, Run};

mod call;
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

/// What became of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivered {
    /// What became of each event, by place.
    pub ends: Vec<End>,
    /// Edges that were written, if the backend counted those of every event that it took.
    pub edges: Option<u64>,
}

/// What all parts of a batch share.
struct Course {
    deliverer: Deliverer,
    received: Instant,
    stopped: Mutex<Option<NotAttempted>>,
}

/// What all workers of a fan-out share.
struct Shared {
    course: Arc<Course>,
    runs: Mutex<VecDeque<Vec<Unit>>>,
    ends: mpsc::UnboundedSender<Told>,
}

/// One event that is to be sent alone.
struct Unit {
    place: usize,
    run: Run,
    delivery: Delivery,
    state: State,
}

enum State {
    /// Its earlier copies are not looked for yet.
    Fresh(Report),
    /// A call gave it back.
    Begun(Exchange, Handle),
}

/// What became of one event, and the edges that are counted for it.
struct Told {
    place: usize,
    run: Run,
    end: End,
    edges: Option<u64>,
}

impl Deliverer {
    /// Delivers `items`, and says what became of each, by place. `received` is when the last byte of the body had come;
    /// the answer is there before the budget from then on is over.
    ///
    /// Dropping the future means that the client left: exchanges that have begun go on, and nothing more is begun.
    pub async fn submit_batch(&self, items: Vec<Item>, received: Instant) -> Delivered {
        // An event without an end is one whose worker failed: nobody knows what became of it.
        let mut ends = vec![End::Sent(Outcome::Unknown(Unknown::Pending)); items.len()];
        let mut edges = vec![Some(0); items.len()];
        let course = Arc::new(Course { deliverer: self.clone(), received, stopped: Mutex::default() });
        let (together, alone) = self.split(items);
        let alone = alone.into_iter().map(Unit::from).collect();
        let (called, sent) = tokio::join!(call::in_calls(&course, together), fan_out(&course, alone));
        for told in called.into_iter().chain(sent) {
            if let (Some(end), Some(count)) = (ends.get_mut(told.place), edges.get_mut(told.place)) {
                (*end, *count) = (told.end, told.edges);
            }
        }
        let edges = edges.into_iter().try_fold(0_u64, |sum, edges| Some(sum.saturating_add(edges?)));
        Delivered { ends, edges }
    }

    /// Those that go in calls, and those that go alone.
    fn split(&self, items: Vec<Item>) -> (Vec<Item>, Vec<Item>) {
        if items.len() < 2 || self.shared.upstream.batch_support().is_none() {
            return (Vec::new(), items);
        }
        let is_alone = |item: &&Item| {
            let key = self.shared.event(&item.delivery).key;
            self.shared.duplicates().is_running(&key) || self.shared.health.has_failed(&key)
        };
        let alone: HashSet<Run> = items.iter().filter(is_alone).map(|item| item.run.clone()).collect();
        items.into_iter().partition(|item| !alone.contains(&item.run))
    }
}

/// Sends events one by one: those of a run in their order, runs side by side.
async fn fan_out(course: &Arc<Course>, units: Vec<Unit>) -> Vec<Told> {
    let runs = plan::by_run(units, |unit| unit.run.clone());
    let (ends, mut telling) = mpsc::unbounded_channel();
    let workers = runs.len().min(SIDE_BY_SIDE);
    let runs = Mutex::new(VecDeque::from(runs));
    let shared = Arc::new(Shared { course: Arc::clone(course), runs, ends });
    let mut tasks = JoinSet::new();
    for _ in 0..workers {
        tasks.spawn(work(Arc::clone(&shared)));
    }
    drop(shared);
    let mut told = Vec::new();
    while let Some(end) = telling.recv().await {
        told.push(end);
    }
    told
}

async fn work(shared: Arc<Shared>) {
    loop {
        let Some(run) = lock(&shared.runs).pop_front() else { return };
        let mut left = None;
        for unit in run {
            let told = match left.or_else(|| shared.course.why_not()) {
                Some(why) => unit.leave(why).await,
                None => unit.send(&shared.course).await,
            };
            left = left.or_else(|| shared.course.note(&told));
            // The receiver is gone only where the client is.
            let _ = shared.ends.send(told);
        }
    }
}

impl Course {
    /// Why nothing more is begun.
    fn why_not(&self) -> Option<NotAttempted> {
        let is_over = Instant::now() >= self.answer_by();
        lock(&self.stopped).or_else(|| is_over.then_some(NotAttempted::Deadline))
    }

    fn answer_by(&self) -> Instant {
        self.received + self.deliverer.budget()
    }

    /// Heeds an end: what it returns holds for the rest of its run.
    fn note(&self, told: &Told) -> Option<NotAttempted> {
        let outcome = match &told.end {
            End::Sent(outcome) => outcome,
            End::NotAttempted(NotAttempted::EarlierFailed) => return Some(NotAttempted::EarlierFailed),
            End::NotAttempted(_) | End::Refused(_) => return None,
        };
        match plan::after(outcome) {
            Next::GoOn => None,
            Next::EndRun => Some(NotAttempted::EarlierFailed),
            Next::EndAll => {
                lock(&self.stopped).get_or_insert(NotAttempted::Stopped);
                None
            }
        }
    }
}

impl From<Item> for Unit {
    fn from(item: Item) -> Self {
        let Item { place, run, delivery, on_end } = item;
        Self { place, run, delivery, state: State::Fresh(on_end) }
    }
}

impl Unit {
    async fn send(self, course: &Course) -> Told {
        let Self { place, run, delivery, state } = self;
        let Course { deliverer, received, .. } = course;
        let handle = match state {
            State::Fresh(on_end) => deliverer.submit(delivery, *received, on_end),
            State::Begun(exchange, handle) => {
                let upstream = Arc::clone(&deliverer.shared.upstream);
                let send = async move { upstream.send(&delivery).await };
                exchange.start(send, deliverer.shared.queue_until(*received));
                handle
            }
        };
        Told::new(place, run, End::Sent(handle.outcome().await))
    }

    async fn leave(self, why: NotAttempted) -> Told {
        match self.state {
            State::Fresh(on_end) => on_end(super::End::not_sent()),
            State::Begun(mut exchange, handle) => {
                exchange.end(Outcome::NotSent);
                handle.outcome().await;
            }
        }
        Told::new(self.place, self.run, End::NotAttempted(why))
    }
}

impl Told {
    fn new(place: usize, run: Run, end: End) -> Self {
        let edges = end.edges();
        Self { place, run, end, edges }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
