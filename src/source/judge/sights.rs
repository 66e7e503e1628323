//! What snapshots say to one event's caller. Each metalake is looked up once, so that an event is judged by one reading of
//! it, and a dataset costs no more than its own question.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use super::super::cache::Cache;
use super::super::gravitino::{Answer, Gravitino, View};
use super::Ask;
use crate::policy::Inquiry;

/// Snapshots as one caller sees them.
pub(super) struct Sights<'a> {
    gravitino: &'a Gravitino,
    cache: &'a Cache,
    ask: &'a Ask<'a>,
    seen: Mutex<Vec<Sight>>,
    overdue: AtomicBool,
}

/// One metalake.
struct Sight {
    metalake: Box<str>,
    /// Nothing without a snapshot, or with one that is too old.
    view: Option<View>,
    /// Whether it should have been read anew.
    overdue: bool,
}

impl<'a> Sights<'a> {
    pub(super) fn new(gravitino: &'a Gravitino, cache: &'a Cache, ask: &'a Ask<'a>) -> Self {
        Self { gravitino, cache, ask, seen: Mutex::default(), overdue: AtomicBool::new(false) }
    }

    /// What a snapshot says, where it decides and is not too old.
    pub(super) fn read(&self, inquiry: &Inquiry<'_>) -> Option<bool> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let at = seen.iter().position(|sight| *sight.metalake == *inquiry.metalake);
        let at = at.unwrap_or_else(|| {
            seen.push(self.look(inquiry.metalake));
            seen.len() - 1
        });
        let sight = seen.get(at)?;
        let answer = sight.view.as_ref()?.answer(&inquiry.about)?;
        self.overdue.fetch_or(sight.overdue, Ordering::Relaxed);
        Some(answer == Answer::Yes)
    }

    /// Whether one of those that decided should have been read anew.
    pub(super) fn were_overdue(&self) -> bool {
        self.overdue.load(Ordering::Relaxed)
    }

    fn look(&self, metalake: &str) -> Sight {
        let snapshot = self.gravitino.snapshot(metalake);
        let age = snapshot.as_ref().map(|snapshot| snapshot.read_at().elapsed()).unwrap_or_default();
        let usable = snapshot.filter(|_| age < self.cache.settings().stale_if_error);
        let view = usable.map(|snapshot| snapshot.view(&self.ask.identity(), self.ask.roles));
        Sight { metalake: metalake.into(), view, overdue: age > self.gravitino.overdue() }
    }
}
