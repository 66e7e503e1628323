//! A bounded store whose entries end: where there is no room, whoever has the most entries loses his oldest.
//!
//! No caller can push out what others have while he has more than they. An entry that ended is not found; it takes room
//! until it is its turn.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::Hash;
use std::time::Duration;

use tokio::time::Instant;

use super::key::CallerKey;

/// Entries by key, each a caller's.
#[derive(Debug)]
pub(super) struct Store<K, V> {
    entries: HashMap<K, Entry<V>>,
    lines: HashMap<CallerKey, Line<K>>,
    /// The callers by the number of their entries.
    ranks: BTreeSet<(usize, CallerKey)>,
    capacity: usize,
    lifetime: Duration,
    stamps: u64,
}

#[derive(Debug)]
struct Entry<V> {
    value: V,
    caller: CallerKey,
    stamp: u64,
    ends: Instant,
}

/// What one caller has, oldest first. An element whose stamp is not its entry's is left over.
#[derive(Debug)]
struct Line<K> {
    keys: VecDeque<(K, u64)>,
    live: usize,
}

impl<K: Copy + Eq + Hash, V> Store<K, V> {
    /// At most `capacity` entries, each for `lifetime` since it was last put.
    pub(super) fn new(capacity: usize, lifetime: Duration) -> Self {
        Self { entries: HashMap::new(), lines: HashMap::new(), ranks: BTreeSet::new(), capacity, lifetime, stamps: 0 }
    }

    /// Entries that take room.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn get(&self, key: &K, now: Instant) -> Option<&V> {
        self.entries.get(key).filter(|entry| now < entry.ends).map(|entry| &entry.value)
    }

    pub(super) fn get_mut(&mut self, key: &K, now: Instant) -> Option<&mut V> {
        self.entries.get_mut(key).filter(|entry| now < entry.ends).map(|entry| &mut entry.value)
    }

    /// Puts an entry in the place of one with the same key.
    pub(super) fn put(&mut self, key: K, caller: CallerKey, value: V, now: Instant) {
        self.remove(&key);
        if self.capacity == 0 {
            return;
        }
        self.drop_ended(caller, now);
        if self.entries.len() >= self.capacity {
            self.drop_one();
        }
        self.stamps += 1;
        let (stamp, ends) = (self.stamps, now + self.lifetime);
        self.entries.insert(key, Entry { value, caller, stamp, ends });
        let line = self.lines.entry(caller).or_insert_with(|| Line { keys: VecDeque::new(), live: 0 });
        line.keys.push_back((key, stamp));
        self.count(caller, 1);
    }

    pub(super) fn remove(&mut self, key: &K) -> Option<V> {
        let entry = self.entries.remove(key)?;
        self.count(entry.caller, -1);
        self.tidy(entry.caller);
        Some(entry.value)
    }

    /// Makes room with what of this caller has ended.
    fn drop_ended(&mut self, caller: CallerKey, now: Instant) {
        while let Some(oldest) = self.oldest(caller) {
            if self.entries.get(&oldest).is_some_and(|entry| now < entry.ends) {
                return;
            }
            self.remove(&oldest);
        }
    }

    fn drop_one(&mut self) {
        let Some((_, caller)) = self.ranks.last().copied() else { return };
        if let Some(oldest) = self.oldest(caller) {
            self.remove(&oldest);
        }
    }

    fn oldest(&mut self, caller: CallerKey) -> Option<K> {
        let line = self.lines.get_mut(&caller)?;
        while let Some((key, stamp)) = line.keys.front() {
            if self.entries.get(key).is_some_and(|entry| entry.stamp == *stamp) {
                return Some(*key);
            }
            line.keys.pop_front();
        }
        None
    }

    fn count(&mut self, caller: CallerKey, change: isize) {
        let Some(line) = self.lines.get_mut(&caller) else { return };
        self.ranks.remove(&(line.live, caller));
        line.live = line.live.saturating_add_signed(change);
        if line.live == 0 {
            self.lines.remove(&caller);
        } else {
            self.ranks.insert((line.live, caller));
        }
    }

    /// What is left over never outgrows what is there.
    fn tidy(&mut self, caller: CallerKey) {
        let Self { entries, lines, .. } = self;
        if let Some(line) = lines.get_mut(&caller)
            && line.keys.len() > 2 * line.live + 16
        {
            line.keys.retain(|(key, stamp)| entries.get(key).is_some_and(|entry| entry.stamp == *stamp));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALICE: CallerKey = CallerKey([1; 16]);
    const BOB: CallerKey = CallerKey([2; 16]);
    const CAROL: CallerKey = CallerKey([3; 16]);

    #[tokio::test(start_paused = true)]
    async fn an_entry_is_found_for_its_lifetime_and_a_second_put_begins_it_anew() {
        let (mut store, now) = (Store::new(8, Duration::from_secs(10)), Instant::now());
        store.put(1, ALICE, "first", now);
        let later = now + Duration::from_secs(9);
        assert_eq!(store.get(&1, later), Some(&"first"));
        assert_eq!(store.get(&1, now + Duration::from_secs(10)), None);
        store.put(1, ALICE, "second", later);
        assert_eq!(store.get(&1, now + Duration::from_secs(18)), Some(&"second"));
        assert_eq!(store.len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_of_one_caller_pushes_out_his_own_entries_only() {
        let (mut store, now) = (Store::new(10, Duration::from_secs(10)), Instant::now());
        store.put(1, ALICE, (), now);
        store.put(2, BOB, (), now);
        for key in 100..1_000 {
            store.put(key, CAROL, (), now);
        }
        assert_eq!(store.len(), 10);
        assert!(store.get(&1, now).is_some() && store.get(&2, now).is_some());
        assert!(store.get(&999, now).is_some() && store.get(&992, now).is_some());
        assert!(store.get(&991, now).is_none(), "his oldest went");
    }

    #[tokio::test(start_paused = true)]
    async fn what_has_ended_makes_room_first() {
        let (mut store, now) = (Store::new(3, Duration::from_secs(10)), Instant::now());
        store.put(1, ALICE, (), now);
        store.put(2, ALICE, (), now);
        store.put(3, BOB, (), now);
        let later = now + Duration::from_secs(11);
        store.put(4, ALICE, (), later);
        assert_eq!(store.len(), 2);
        assert!(store.get(&4, later).is_some() && store.get(&3, later).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn entries_put_again_and_again_leave_nothing_behind() {
        let (mut store, now) = (Store::new(4, Duration::from_secs(10)), Instant::now());
        for _ in 0..1_000 {
            store.put(1, ALICE, (), now);
            store.put(2, ALICE, (), now);
        }
        assert!(store.lines[&ALICE].keys.len() < 30, "{}", store.lines[&ALICE].keys.len());
        store.remove(&1);
        store.remove(&2);
        assert!(store.lines.is_empty() && store.ranks.is_empty() && store.entries.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn the_bound_holds_whatever_is_put_and_removed() {
        let (mut store, mut now) = (Store::new(7, Duration::from_secs(3)), Instant::now());
        let mut random = 12_345_u32;
        for _ in 0..5_000 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let key = (random >> 8) % 23;
            let caller = [ALICE, BOB, CAROL][(random >> 16) as usize % 3];
            match random >> 30 {
                0 => drop(store.remove(&key)),
                1 => now += Duration::from_millis(500),
                _ => store.put(key, caller, (), now),
            }
            assert!(store.len() <= 7);
            assert_eq!(store.lines.values().map(|line| line.live).sum::<usize>(), store.len());
            assert_eq!(store.ranks.len(), store.lines.len());
        }
    }
}
