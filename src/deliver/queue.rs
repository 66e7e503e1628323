//! Places for exchanges at one backend, and a short queue for them in which nobody stands in everybody's way.
//!
//! A free place goes to the callers in turn, whatever each has waiting. No caller has more than three quarters of the
//! places, so that a slow backend's places are never all his, nor more than a quarter of the queue.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::key::CallerKey;

/// The places of one backend.
#[derive(Debug)]
pub(super) struct Queue {
    state: Mutex<State>,
    places: usize,
    room: usize,
}

/// One place, given back when it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    queue: Arc<Queue>,
    caller: Option<CallerKey>,
}

#[derive(Debug, Default)]
struct State {
    taken: usize,
    waiting: usize,
    callers: HashMap<CallerKey, Line>,
    /// Callers that wait, whose turn it is first.
    turns: VecDeque<CallerKey>,
    tickets: u64,
}

#[derive(Debug, Default)]
struct Line {
    taken: usize,
    waiting: VecDeque<(u64, oneshot::Sender<Place>)>,
}

/// What comes of asking for a place.
enum Asked {
    Granted,
    Wait(u64, oneshot::Receiver<Place>),
    Full,
}

impl Queue {
    /// So many places, and room for so many to wait for one.
    pub(super) fn new(places: usize, room: usize) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), places, room })
    }

    /// A place for an exchange of `caller`; none where the queue is full, or nothing came free until `deadline`.
    pub(super) async fn enter(self: &Arc<Self>, caller: CallerKey, deadline: Instant) -> Option<Place> {
        let (ticket, mut granted) = match self.ask(caller) {
            Asked::Granted => return Some(self.place(caller)),
            Asked::Full => return None,
            Asked::Wait(ticket, granted) => (ticket, granted),
        };
        if let Ok(place) = timeout_at(deadline, &mut granted).await {
            return place.ok();
        }
        granted.close();
        self.lock().leave(caller, ticket);
        granted.try_recv().ok()
    }

    /// Places taken, and those who wait for one.
    #[cfg(test)]
    fn load(&self) -> (usize, usize) {
        let state = self.lock();
        (state.taken, state.waiting)
    }

    fn ask(&self, caller: CallerKey) -> Asked {
        let (share, most) = (self.places_each(), self.room_each());
        let mut state = self.lock();
        let State { taken, waiting, callers, turns, tickets } = &mut *state;
        let line = callers.entry(caller).or_default();
        if *taken < self.places && line.taken < share && line.waiting.is_empty() {
            *taken += 1;
            line.taken += 1;
            return Asked::Granted;
        }
        if *waiting >= self.room || line.waiting.len() >= most {
            state.forget(caller);
            return Asked::Full;
        }
        let (grant, granted) = oneshot::channel();
        if line.waiting.is_empty() {
            turns.push_back(caller);
        }
        *tickets += 1;
        *waiting += 1;
        line.waiting.push_back((*tickets, grant));
        Asked::Wait(*tickets, granted)
    }

    fn place(self: &Arc<Self>, caller: CallerKey) -> Place {
        Place { queue: Arc::clone(self), caller: Some(caller) }
    }

    /// Gives free places to those whose turn it is.
    fn hand_out(self: &Arc<Self>) {
        let share = self.places_each();
        loop {
            let next = self.lock().next(self.places, share);
            let Some((caller, grant)) = next else { return };
            if let Err(mut place) = grant.send(self.place(caller)) {
                // Nobody waits any more. Taken back by hand: a dropped place would hand out once more in here.
                place.caller = None;
                self.lock().give_back(caller);
            }
        }
    }

    fn places_each(&self) -> usize {
        self.places - self.places / 4
    }

    fn room_each(&self) -> usize {
        self.room.div_ceil(4)
    }

    /// No code under this lock leaves a state half written.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(caller) = self.caller.take() {
            self.queue.lock().give_back(caller);
            self.queue.hand_out();
        }
    }
}

impl State {
    /// The next who waits, his place counted as taken. A caller who has his share lets others pass.
    fn next(&mut self, places: usize, share: usize) -> Option<(CallerKey, oneshot::Sender<Place>)> {
        if self.taken >= places {
            return None;
        }
        for _ in 0..self.turns.len() {
            let caller = self.turns.pop_front()?;
            let Some(line) = self.callers.get_mut(&caller) else { continue };
            if line.taken >= share {
                self.turns.push_back(caller);
                continue;
            }
            let Some((_, grant)) = line.waiting.pop_front() else { continue };
            line.taken += 1;
            self.taken += 1;
            self.waiting -= 1;
            if !line.waiting.is_empty() {
                self.turns.push_back(caller);
            }
            return Some((caller, grant));
        }
        None
    }

    fn give_back(&mut self, caller: CallerKey) {
        self.taken -= 1;
        if let Some(line) = self.callers.get_mut(&caller) {
            line.taken -= 1;
        }
        self.forget(caller);
    }

    fn leave(&mut self, caller: CallerKey, ticket: u64) {
        let Some(line) = self.callers.get_mut(&caller) else { return };
        let before = line.waiting.len();
        line.waiting.retain(|(other, _)| *other != ticket);
        self.waiting -= before - line.waiting.len();
        if line.waiting.is_empty() {
            self.turns.retain(|other| *other != caller);
        }
        self.forget(caller);
    }

    fn forget(&mut self, caller: CallerKey) {
        if self.callers.get(&caller).is_some_and(|line| line.taken == 0 && line.waiting.is_empty()) {
            self.callers.remove(&caller);
        }
    }
}

#[cfg(test)]
mod tests;
