//! What snapshots say to one event's caller. Each metalake is looked up once, so that an event is judged by one reading of
//! it, and a dataset costs no more than its own question.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::super::cache::{Cache, CallerId};
use super::super::gravitino::{Answer, Gravitino, View};
use super::Ask;
use crate::policy::Inquiry;

/// Snapshots as one caller sees them.
pub(super) struct Sights<'a> {
    gravitino: &'a Gravitino,
    cache: &'a Cache,
    ask: &'a Ask<'a>,
    seen: Mutex<Vec<Sight>>,
    stale: AtomicBool,
}

/// One metalake.
struct Sight {
    metalake: Box<str>,
    /// Nothing without a snapshot, with one that is too old, or if something was forgotten since it was read.
    view: Option<Arc<View>>,
    /// Whether it should have been read anew, so that the server is asked first.
    overdue: bool,
}

impl<'a> Sights<'a> {
    pub(super) fn new(gravitino: &'a Gravitino, cache: &'a Cache, ask: &'a Ask<'a>) -> Self {
        Self { gravitino, cache, ask, seen: Mutex::default(), stale: AtomicBool::new(false) }
    }

    /// What a snapshot says, where it decides and is as new as it should be.
    pub(super) fn read(&self, inquiry: &Inquiry<'_>) -> Option<bool> {
        let answer = self.with(inquiry.metalake, |sight| sight.usable()?.answer(&inquiry.about))?;
        Some(answer == Answer::Yes)
    }

    /// The snapshot of a metalake, under the same conditions.
    pub(super) fn view(&self, metalake: &str) -> Option<Arc<View>> {
        self.with(metalake, |sight| sight.usable().cloned())
    }

    /// Whether an overdue snapshot allows it, now that the server failed. Counted as one that serves.
    pub(super) fn serves_stale(&self, inquiry: &Inquiry<'_>) -> bool {
        let old = |sight: &Sight| sight.view.as_ref().filter(|_| sight.overdue)?.answer(&inquiry.about);
        let serves = self.with(inquiry.metalake, old) == Some(Answer::Yes);
        if serves {
            self.cache.count_stale();
            self.stale.store(true, Ordering::Relaxed);
        }
        serves
    }

    /// Whether such a one served.
    pub(super) fn were_stale(&self) -> bool {
        self.stale.load(Ordering::Relaxed)
    }

    fn with<T>(&self, metalake: &str, read: impl FnOnce(&Sight) -> Option<T>) -> Option<T> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let at = seen.iter().position(|sight| *sight.metalake == *metalake);
        let at = at.unwrap_or_else(|| {
            seen.push(self.look(metalake));
            seen.len() - 1
        });
        seen.get(at).and_then(read)
    }

    fn look(&self, metalake: &str) -> Sight {
        let caller = CallerId::new(&self.ask.caller.issuer, &self.ask.caller.subject);
        let forgotten = self.cache.forgotten_at(caller, metalake);
        let snapshot = self.gravitino.snapshot(metalake).filter(|snapshot| {
            let read_at = snapshot.read_at();
            read_at.elapsed() < self.cache.settings().stale_if_error && forgotten.is_none_or(|at| read_at > at)
        });
        let overdue = snapshot.as_ref().is_some_and(|snapshot| self.gravitino.is_overdue(snapshot));
        let view = snapshot.map(|snapshot| Arc::new(snapshot.view(&self.ask.identity(), self.ask.roles)));
        Sight { metalake: metalake.into(), view, overdue }
    }
}

impl Sight {
    fn usable(&self) -> Option<&Arc<View>> {
        self.view.as_ref().filter(|_| !self.overdue)
    }
}
