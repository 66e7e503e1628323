//! Which metalake is read when. Pure: time is passed in.
//!
//! All are read each `refresh`, some at once and the others after them. One whose reading failed is read again sooner, with
//! pauses that grow up to `refresh`; what the others cost stays the same.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

/// Pause after the first failure; it doubles with each further one.
const RETRY: Duration = Duration::from_secs(1);

/// When what is read.
#[derive(Debug)]
pub(super) struct Schedule {
    refresh: Duration,
    at_once: usize,
    next_list: Instant,
    is_listing: bool,
    failed_lists: u32,
    waiting: VecDeque<Arc<str>>,
    /// With whether it has to be read again as soon as its reading ended.
    busy: HashMap<Arc<str>, bool>,
    failed: HashMap<Arc<str>, Failed>,
}

#[derive(Debug, Default)]
struct Failed {
    count: u32,
    due: Option<Instant>,
}

impl Schedule {
    /// At most `at_once` metalakes are read at once.
    pub(super) fn new(refresh: Duration, at_once: usize, now: Instant) -> Self {
        Self {
            refresh,
            at_once: at_once.max(1),
            next_list: now,
            is_listing: false,
            failed_lists: 0,
            waiting: VecDeque::new(),
            busy: HashMap::new(),
            failed: HashMap::new(),
        }
    }

    /// When [`tick`](Self::tick) has something to do.
    pub(super) fn due(&self) -> Option<Instant> {
        let retries = self.failed.values().filter_map(|failed| failed.due);
        retries.chain((!self.is_listing).then_some(self.next_list)).min()
    }

    /// Queues what is due. True if the metalakes are to be listed.
    pub(super) fn tick(&mut self, now: Instant) -> bool {
        let is_due = |failed: &&mut Failed| failed.due.is_some_and(|due| due <= now);
        let mut due: Vec<Arc<str>> = Vec::new();
        for (name, failed) in self.failed.iter_mut() {
            if is_due(&failed) {
                failed.due = None;
                due.push(Arc::clone(name));
            }
        }
        due.into_iter().for_each(|name| self.queue(name));
        if self.is_listing || now < self.next_list {
            return false;
        }
        self.next_list = now + self.refresh;
        self.is_listing = true;
        true
    }

    /// These are the metalakes, or those that were known where they could not be listed.
    pub(super) fn listed(&mut self, names: Vec<Arc<str>>, is_good: bool, now: Instant) {
        self.is_listing = false;
        self.failed_lists = if is_good { 0 } else { self.failed_lists.saturating_add(1) };
        if !is_good {
            self.next_list = self.next_list.min(now + self.pause(self.failed_lists));
        }
        self.failed.retain(|name, _| names.contains(name));
        self.waiting.retain(|name| names.contains(name));
        names.into_iter().for_each(|name| self.queue(name));
    }

    /// What is being read, and what was, may not be true any more.
    pub(super) fn outdated(&mut self, now: Instant) {
        self.busy.values_mut().for_each(|again| *again = true);
        self.next_list = now;
    }

    /// The next to read, and how many calls it may make at once of that many.
    pub(super) fn begin(&mut self, calls: usize) -> Option<(Arc<str>, usize)> {
        if self.busy.len() >= self.at_once {
            return None;
        }
        let share = share(calls, self.busy.len() + self.waiting.len());
        let name = self.waiting.pop_front()?;
        self.busy.insert(Arc::clone(&name), false);
        Some((name, share))
    }

    /// A reading ended, and failed in a way that may be over soon.
    pub(super) fn ended(&mut self, name: &Arc<str>, has_failed: bool, now: Instant) {
        let again = self.busy.remove(name) == Some(true);
        if has_failed {
            let count = self.failed.get(name).map_or(0, |failed| failed.count).saturating_add(1);
            let due = Some(now + self.pause(count));
            self.failed.insert(Arc::clone(name), Failed { count, due });
        } else {
            self.failed.remove(name);
        }
        if again {
            self.queue(Arc::clone(name));
        }
    }

    /// One that is being read follows itself: else its next reading would wait for the next time that all are due.
    fn queue(&mut self, name: Arc<str>) {
        if let Some(again) = self.busy.get_mut(&name) {
            *again = true;
        } else if !self.waiting.contains(&name) {
            self.waiting.push_back(name);
        }
    }

    fn pause(&self, failures: u32) -> Duration {
        let doubled = 2_u32.saturating_pow(failures.saturating_sub(1).min(16));
        RETRY.saturating_mul(doubled).min(self.refresh)
    }
}

/// Calls at once for each of that many readings.
pub(super) fn share(calls: usize, readings: usize) -> usize {
    (calls / readings.max(1)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const REFRESH: Duration = Duration::from_secs(10);
    const CALLS: usize = 8;

    fn names(texts: &[&str]) -> Vec<Arc<str>> {
        texts.iter().map(|text| Arc::from(*text)).collect()
    }

    /// One that has listed these.
    fn schedule(texts: &[&str], at_once: usize, now: Instant) -> Schedule {
        let mut schedule = Schedule::new(REFRESH, at_once, now);
        assert!(schedule.tick(now));
        schedule.listed(names(texts), true, now);
        schedule
    }

    fn begun(schedule: &mut Schedule) -> Vec<String> {
        std::iter::from_fn(|| schedule.begin(CALLS)).map(|(name, _)| name.to_string()).collect()
    }

    #[test]
    fn all_are_read_each_refresh_some_at_once() {
        let now = Instant::now();
        let mut schedule = schedule(&["a", "b", "c"], 2, now);
        assert_eq!(begun(&mut schedule), ["a", "b"]);
        schedule.ended(&"a".into(), false, now);
        assert_eq!(begun(&mut schedule), ["c"]);
        assert_eq!(schedule.due(), Some(now + REFRESH));
        assert!(!schedule.tick(now + REFRESH / 2));
        assert!(schedule.tick(now + REFRESH) && !schedule.tick(now + REFRESH));
    }

    #[test]
    fn one_that_hangs_holds_up_no_other() {
        let mut now = Instant::now();
        let mut schedule = schedule(&["hung", "a"], 2, now);
        assert_eq!(begun(&mut schedule), ["hung", "a"]);
        for _ in 0..3 {
            schedule.ended(&"a".into(), false, now);
            now += REFRESH;
            assert!(schedule.tick(now));
            schedule.listed(names(&["hung", "a"]), true, now);
            assert_eq!(begun(&mut schedule), ["a"]);
        }
        schedule.ended(&"hung".into(), false, now);
        assert_eq!(begun(&mut schedule), ["hung"], "its turn passed while it was read");
    }

    #[test]
    fn only_one_that_failed_is_read_sooner_and_less_and_less_often() {
        let mut now = Instant::now();
        let mut schedule = schedule(&["bad", "good"], 8, now);
        begun(&mut schedule);
        schedule.ended(&"good".into(), false, now);
        for pause in [1, 2, 4] {
            schedule.ended(&"bad".into(), true, now);
            assert_eq!(schedule.due(), Some(now + Duration::from_secs(pause)));
            now += Duration::from_secs(pause);
            assert!(!schedule.tick(now));
            assert_eq!(begun(&mut schedule), ["bad"]);
        }
        for _ in 0..40 {
            schedule.ended(&"bad".into(), true, now);
        }
        assert!(schedule.failed.values().all(|failed| failed.due == Some(now + REFRESH)));
        schedule.ended(&"bad".into(), false, now);
        assert!(schedule.failed.is_empty());
    }

    #[test]
    fn what_is_outdated_is_read_at_once_also_if_it_is_being_read() {
        let now = Instant::now();
        let mut schedule = schedule(&["a", "b"], 8, now);
        begun(&mut schedule);
        schedule.ended(&"b".into(), false, now);
        schedule.outdated(now);
        assert!(schedule.tick(now));
        schedule.listed(names(&["a", "b"]), true, now);
        assert_eq!(begun(&mut schedule), ["b"]);
        schedule.ended(&"a".into(), false, now);
        assert_eq!(begun(&mut schedule), ["a"]);
        schedule.ended(&"a".into(), false, now);
        assert!(begun(&mut schedule).is_empty());
    }

    #[test]
    fn a_list_that_fails_is_read_again_soon_and_what_is_gone_is_not_read() {
        let now = Instant::now();
        let mut schedule = schedule(&["a", "b"], 1, now);
        assert_eq!(begun(&mut schedule), ["a"]);
        assert!(schedule.tick(now + REFRESH));
        schedule.listed(names(&["a"]), false, now + REFRESH);
        schedule.ended(&"a".into(), false, now + REFRESH);
        assert_eq!(begun(&mut schedule), ["a"]);
        schedule.ended(&"a".into(), false, now + REFRESH);
        assert!(begun(&mut schedule).is_empty(), "b is gone");
        assert_eq!(schedule.due(), Some(now + REFRESH + RETRY));
    }

    #[test]
    fn calls_are_shared_by_all_that_are_to_be_read() {
        let now = Instant::now();
        let mut one = schedule(&["a"], 8, now);
        assert_eq!(one.begin(CALLS).map(|(_, share)| share), Some(8));
        let many: Vec<String> = (0..200).map(|at| at.to_string()).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let mut schedule = schedule(&many, 8, now);
        let shares: Vec<usize> = std::iter::from_fn(|| schedule.begin(CALLS)).map(|(_, share)| share).collect();
        assert_eq!(shares, [1; 8]);
    }
}
