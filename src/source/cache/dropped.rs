//! What was dropped from the cache, and when. Pure: time is passed in.
//!
//! Dropping visits no entry. Each answer carries the number of the era in which its question was asked; a drop begins a
//! new era and notes it as the first whose answers count: for a caller, for a metalake, or for all.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::key::CallerId;

/// Notes kept at once; past it one note about everybody takes their place.
pub(super) const MAX_NOTES: usize = 1_000;

/// The number of an era.
pub(super) type Era = u64;

/// All notes.
#[derive(Debug, Clone, Default)]
pub(super) struct Dropped {
    era: Era,
    all: Era,
    all_at: Option<Instant>,
    callers: HashMap<CallerId, Note>,
    metalakes: HashMap<Arc<str>, Note>,
}

/// What is to be dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Drops {
    /// Everything.
    All,
    /// What is known of a caller.
    Caller(CallerId),
    /// What is known of a metalake.
    Metalake(Arc<str>),
}

#[derive(Debug, Clone, Copy)]
struct Note {
    first: Era,
    at: Instant,
}

impl Dropped {
    /// The era of a question that is asked now.
    pub(super) fn era(&self) -> Era {
        self.era
    }

    /// The first era whose answers count.
    pub(super) fn first(&self, caller: CallerId, metalake: &str) -> Era {
        if self.callers.is_empty() && self.metalakes.is_empty() {
            return self.all;
        }
        let caller = self.callers.get(&caller).map_or(0, |note| note.first);
        let metalake = self.metalakes.get(metalake).map_or(0, |note| note.first);
        self.all.max(caller).max(metalake)
    }

    /// When something about that caller in that metalake was dropped last.
    pub(super) fn last(&self, caller: CallerId, metalake: &str) -> Option<Instant> {
        let caller = self.callers.get(&caller).map(|note| note.at);
        let metalake = self.metalakes.get(metalake).map(|note| note.at);
        self.all_at.max(caller).max(metalake)
    }

    /// The same with one more note. Notes older than `life`, that of an answer, say nothing any more.
    pub(super) fn with(&self, drops: Drops, now: Instant, life: Duration) -> Self {
        let mut new = self.clone();
        new.era += 1;
        let note = Note { first: new.era, at: now };
        let lives = |note: &Note| now.saturating_duration_since(note.at) <= life;
        new.callers.retain(|_, note| lives(note));
        new.metalakes.retain(|_, note| lives(note));
        match drops {
            Drops::Caller(caller) => drop(new.callers.insert(caller, note)),
            Drops::Metalake(metalake) => drop(new.metalakes.insert(metalake, note)),
            Drops::All => new.all = new.era,
        }
        if new.callers.len() + new.metalakes.len() > MAX_NOTES {
            new.all = new.era;
        }
        if new.all == new.era {
            new.all_at = Some(now);
            new.callers.clear();
            new.metalakes.clear();
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIFE: Duration = Duration::from_secs(300);

    fn caller(name: &str) -> CallerId {
        CallerId::new("issuer", name)
    }

    #[test]
    fn a_drop_is_about_what_it_names() {
        let now = Instant::now();
        let dropped = Dropped::default().with(Drops::Caller(caller("a")), now, LIFE);
        assert_eq!((dropped.first(caller("a"), "m"), dropped.first(caller("b"), "m")), (1, 0));
        let dropped = dropped.with(Drops::Metalake("m".into()), now, LIFE);
        let firsts = [("a", "m"), ("a", "n"), ("b", "m"), ("b", "n")].map(|(who, at)| dropped.first(caller(who), at));
        assert_eq!(firsts, [2, 1, 2, 0]);
        let lasts = [("a", "m"), ("a", "n"), ("b", "m"), ("b", "n")].map(|(who, at)| dropped.last(caller(who), at));
        assert_eq!(lasts, [Some(now), Some(now), Some(now), None]);
        let dropped = dropped.with(Drops::All, now + LIFE / 2, LIFE);
        assert_eq!((dropped.first(caller("b"), "n"), dropped.era()), (3, 3));
        assert_eq!(dropped.last(caller("a"), "m"), Some(now + LIFE / 2));
    }

    #[test]
    fn notes_are_bounded_in_time_and_number() {
        let now = Instant::now();
        let mut dropped = Dropped::default();
        for at in 0..MAX_NOTES {
            dropped = dropped.with(Drops::Caller(caller(&at.to_string())), now, LIFE);
        }
        assert_eq!(dropped.callers.len(), MAX_NOTES);
        assert_eq!(dropped.first(caller("other"), "m"), 0);
        let over = dropped.with(Drops::Metalake("m".into()), now, LIFE);
        assert_eq!((over.callers.len(), over.metalakes.len()), (0, 0));
        assert_eq!(over.first(caller("other"), "n"), over.era(), "all were dropped instead");
        let later = dropped.with(Drops::Caller(caller("x")), now + LIFE * 2, LIFE);
        assert_eq!(later.callers.len(), 1);
    }
}
