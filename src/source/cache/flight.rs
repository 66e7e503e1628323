//! Questions on their way: one a key, each in a task of its own, so that who leaves ends nothing for others.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, timeout_at};

use super::Failure;
use super::dropped::Era;
use super::key::{CallerId, Key};

/// Questions that are open at once, those that wait included.
pub(super) const MAX_OPEN: usize = 20_000;
/// Those of one caller: more than the references of the largest event.
pub(super) const MAX_OPEN_PER_CALLER: usize = MAX_OPEN / 2 + 1_000;

/// The end of a question.
pub(super) type End = Result<bool, Failure>;

/// What a question brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Told {
    /// Whether it is a yes.
    pub yes: bool,
    /// Whether it is kept. What follows from something older than the question is not: it would seem new.
    pub keep: bool,
}

/// How far a question is.
#[derive(Debug, Clone)]
pub(super) enum Stage {
    /// It waits for its turn.
    Waiting,
    /// It is on its way.
    Asked,
    /// It came back.
    Ended(End),
}

/// A question that this request waits for.
#[derive(Debug)]
pub struct Flight {
    stage: watch::Receiver<Stage>,
    joined: bool,
}

/// All of them.
#[derive(Debug)]
pub(super) struct Flights {
    open: HashMap<Key, Open>,
    callers: HashMap<CallerId, Seat>,
    count: usize,
    share: usize,
    last: u64,
}

/// One that has begun.
#[derive(Debug)]
pub(super) struct Begun {
    pub(super) id: u64,
    pub(super) stage: watch::Sender<Stage>,
    /// The caller's share of what may be asked at once.
    pub(super) share: Arc<Semaphore>,
}

#[derive(Debug)]
struct Open {
    id: u64,
    era: Era,
    stage: watch::Receiver<Stage>,
}

/// A caller with open questions.
#[derive(Debug)]
struct Seat {
    share: Arc<Semaphore>,
    open: usize,
}

impl Flight {
    /// Whether another request had asked.
    pub fn is_joined(&self) -> bool {
        self.joined
    }

    /// The end, as far as it comes before `deadline`.
    pub async fn end(mut self, deadline: Instant) -> End {
        let landed = timeout_at(deadline, self.stage.wait_for(|stage| matches!(stage, Stage::Ended(_)))).await;
        if let Ok(Err(_)) = landed {
            return Err(Failure::broken_off());
        }
        drop(landed);
        match &*self.stage.borrow() {
            Stage::Ended(end) => end.clone(),
            Stage::Asked => Err(Failure::Unavailable("the policy source did not answer in time".to_owned())),
            Stage::Waiting => Err(Failure::not_asked()),
        }
    }
}

impl Flights {
    /// At most `share` of one caller's questions are asked at once.
    pub(super) fn new(share: usize) -> Self {
        Self { open: HashMap::new(), callers: HashMap::new(), count: 0, share, last: 0 }
    }

    /// The question of that key, if it was asked in an era whose answers count.
    pub(super) fn join(&self, key: &Key, first: Era) -> Option<Flight> {
        let open = self.open.get(key).filter(|open| open.era >= first)?;
        Some(Flight { stage: open.stage.clone(), joined: true })
    }

    /// Whether that question is open.
    pub(super) fn has(&self, key: &Key) -> bool {
        self.open.contains_key(key)
    }

    /// Begins one, if there is room.
    pub(super) fn begin(&mut self, key: Key, caller: CallerId, era: Era) -> Option<(Begun, Flight)> {
        let taken = self.callers.get(&caller).map_or(0, |seat| seat.open);
        if self.count >= MAX_OPEN || taken >= MAX_OPEN_PER_CALLER {
            return None;
        }
        let share = self.share;
        let new = || Seat { share: Arc::new(Semaphore::new(share)), open: 0 };
        let seat = self.callers.entry(caller).or_insert_with(new);
        seat.open += 1;
        let share = Arc::clone(&seat.share);
        self.count += 1;
        self.last += 1;
        let (sender, stage) = watch::channel(Stage::Waiting);
        self.open.insert(key, Open { id: self.last, era, stage: stage.clone() });
        Some((Begun { id: self.last, stage: sender, share }, Flight { stage, joined: false }))
    }

    /// Takes an ended one out.
    pub(super) fn end(&mut self, key: &Key, caller: CallerId, id: u64) {
        if self.open.get(key).is_some_and(|open| open.id == id) {
            self.open.remove(key);
        }
        self.count = self.count.saturating_sub(1);
        if let Some(seat) = self.callers.get_mut(&caller) {
            seat.open -= 1;
            if seat.open == 0 {
                self.callers.remove(&caller);
            }
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty() && self.callers.is_empty() && self.count == 0
    }
}
