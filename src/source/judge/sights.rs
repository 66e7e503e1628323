//! What snapshots say to one event's caller. Each metalake is looked up once, so that an event is judged by one reading of
//! it, and a dataset costs no more than its own question.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use super::super::cache::{Cache, CallerId};
use super::super::gravitino::{Answer, Gravitino, View};
use super::Ask;
use crate::auth::Caller;
use crate::policy::{ActiveRoles, Identity, Inquiry};

/// Snapshots as one caller sees them.
pub(super) struct Sights<'a> {
    gravitino: &'a Gravitino,
    cache: &'a Cache,
    ask: &'a Ask<'a>,
    seen: Mutex<HashMap<Box<str>, Sight>>,
}

/// One metalake as one caller sees it.
pub(super) struct Sight {
    /// Nothing without a snapshot, with one that is too old, or if something was forgotten since it was read.
    view: Option<View>,
    /// Whether it should have been read anew, so that the server is asked first.
    overdue: bool,
}

impl<'a> Sights<'a> {
    pub(super) fn new(gravitino: &'a Gravitino, cache: &'a Cache, ask: &'a Ask<'a>) -> Self {
        Self { gravitino, cache, ask, seen: Mutex::default() }
    }

    /// What a snapshot says, where it decides and is as new as it should be. What cannot be asked about is not seen.
    pub(super) fn read(&self, inquiry: &Inquiry<'_>) -> Option<bool> {
        let read = self.with(inquiry.metalake, |sight| sight.usable()?.answer(&inquiry.about));
        match read {
            Some(answer) => Some(answer == Answer::Yes),
            None => (!Gravitino::can_ask(inquiry.metalake, &inquiry.about)).then_some(false),
        }
    }

    /// Whether an overdue snapshot allows it, now that the server failed. Counted as one that serves.
    pub(super) fn serves_stale(&self, inquiry: &Inquiry<'_>) -> bool {
        let old = |sight: &Sight| sight.view.as_ref().filter(|_| sight.overdue)?.answer(&inquiry.about);
        let serves = self.with(inquiry.metalake, old) == Some(Answer::Yes);
        if serves {
            self.cache.count_stale();
        }
        serves
    }

    fn with<T>(&self, metalake: &str, read: impl FnOnce(&Sight) -> Option<T>) -> Option<T> {
        if !self.gravitino.is_read() {
            return None;
        }
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sight) = seen.get(metalake) {
            return read(sight);
        }
        let sight = Sight::of(self.gravitino, self.cache, (self.ask.caller, self.ask.roles), metalake);
        read(seen.entry(metalake.into()).or_insert(sight))
    }
}

impl Sight {
    pub(super) fn of(
        gravitino: &Gravitino,
        cache: &Cache,
        (caller, roles): (&Caller, &ActiveRoles),
        metalake: &str,
    ) -> Self {
        let distrusted = cache.distrusted_at(CallerId::new(&caller.issuer, &caller.subject), metalake);
        let snapshot = gravitino.snapshot(metalake).filter(|snapshot| {
            let read_at = snapshot.read_at();
            read_at.elapsed() < cache.settings().stale_if_error && distrusted.is_none_or(|at| read_at > at)
        });
        let overdue = snapshot.as_ref().is_some_and(|snapshot| gravitino.is_overdue(snapshot));
        let who = Identity { subject: &caller.subject, groups: &caller.groups };
        Self { view: snapshot.map(|snapshot| snapshot.view(&who, roles)), overdue }
    }

    /// The snapshot, unless the server is to be asked first.
    pub(super) fn usable(&self) -> Option<&View> {
        self.view.as_ref().filter(|_| !self.overdue)
    }
}
