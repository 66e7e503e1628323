//! The buckets of one limit: a bounded number of keys in shards, each with a lock of its own.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::TICKS_PER_SECOND;
use super::key::Key;

/// A sweep of one shard looks at this part of a limit's keys while it holds the lock.
const SHARDS: usize = 64;

/// For each key, when its bucket is full, in ticks. A key that is not there has a full bucket.
#[derive(Debug)]
pub(super) struct Store {
    shards: Box<[Mutex<Shard>]>,
    /// Keys in all shards, and those that plans under way have room for.
    keys: AtomicUsize,
    max_keys: usize,
    /// The bucket of all keys that there was no room for.
    shared: Mutex<u64>,
}

/// One bucket, locked for the time of a plan. Dropped without commit, it was never touched.
pub(super) struct Place<'a> {
    shard: MutexGuard<'a, Shard>,
    key: Key,
    bucket: Found<'a>,
}

#[derive(Debug, Default)]
struct Shard {
    full_at: HashMap<Key, u64>,
    swept: u64,
}

enum Found<'a> {
    Own(u64),
    New(Room<'a>),
    Shared(MutexGuard<'a, u64>),
}

/// Room for one key, given back if it is dropped.
struct Room<'a>(&'a AtomicUsize);

impl Store {
    pub(super) fn new(max_keys: usize) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self { shards, keys: AtomicUsize::new(0), max_keys, shared: Mutex::new(0) }
    }

    /// Keys that are there, or about to be; never more than `max_keys`.
    pub(super) fn len(&self) -> usize {
        self.keys.load(Ordering::Relaxed)
    }

    /// Locks the bucket of `key`: its own, a new one, or the shared one if all `max_keys` are taken.
    ///
    /// None only if there is no shard at all, which [`Store::new`] rules out.
    pub(super) fn hold(&self, key: Key, now: u64) -> Option<Place<'_>> {
        let mut shard = lock(self.shards.get(key.spread() % SHARDS)?);
        let own = shard.full_at.get(&key).copied();
        let bucket = match own {
            Some(full_at) => Found::Own(full_at),
            None => match self.room(&mut shard, now) {
                Some(room) => Found::New(room),
                None => Found::Shared(lock(&self.shared)),
            },
        };
        Some(Place { shard, key, bucket })
    }

    /// Drops the keys whose bucket is full again, one shard at a time.
    pub(super) fn sweep(&self, now: u64) {
        for shard in &self.shards {
            self.sweep_shard(&mut lock(shard), now);
        }
    }

    /// Takes room for one key. A full store looks for it in the shard at hand, at most once a second, so that a flood of
    /// new keys costs no more than a lookup each.
    fn room(&self, shard: &mut Shard, now: u64) -> Option<Room<'_>> {
        if let Some(room) = self.take_room() {
            return Some(room);
        }
        if now.saturating_sub(shard.swept) < TICKS_PER_SECOND {
            return None;
        }
        self.sweep_shard(shard, now);
        self.take_room()
    }

    fn take_room(&self) -> Option<Room<'_>> {
        let one_more = |keys| (keys < self.max_keys).then(|| keys + 1);
        self.keys.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).ok().map(|_| Room(&self.keys))
    }

    fn sweep_shard(&self, shard: &mut Shard, now: u64) {
        let before = shard.full_at.len();
        shard.full_at.retain(|_, full_at| *full_at > now);
        shard.swept = now;
        let after = shard.full_at.len();
        self.keys.fetch_sub(before - after, Ordering::Relaxed);
        if shard.full_at.capacity() / 4 > after {
            shard.full_at.shrink_to(after * 2);
        }
    }
}

impl Place<'_> {
    /// When the bucket is full.
    pub(super) fn full_at(&self) -> u64 {
        match &self.bucket {
            Found::Own(full_at) => *full_at,
            Found::New(_) => 0,
            Found::Shared(full_at) => **full_at,
        }
    }

    /// Whether it is the bucket of all that found no room.
    pub(super) fn is_shared(&self) -> bool {
        match &self.bucket {
            Found::Own(_) | Found::New(_) => false,
            Found::Shared(_) => true,
        }
    }

    /// Writes when the bucket is full, and unlocks it.
    pub(super) fn commit(mut self, full_at: u64) {
        match self.bucket {
            Found::Own(_) => {
                self.shard.full_at.insert(self.key, full_at);
            }
            Found::New(room) => {
                self.shard.full_at.insert(self.key, full_at);
                // The key now stands for the room it took; a sweep gives it back.
                std::mem::forget(room);
            }
            Found::Shared(mut shared) => *shared = full_at,
        }
    }
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// No code under these locks leaves a state half written, so that a panic elsewhere in a plan does no harm to it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
