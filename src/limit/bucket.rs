//! One bucket's arithmetic, by governor: no clock, no store.
//!
//! Governor's algorithm (GCRA) only ever looks at how far a bucket's state lies ahead of now. So its clock stands still at
//! zero here, and its state is the number of ticks until the bucket is full. Time enters where states are read and
//! written.

use std::cell::Cell;
use std::num::NonZeroU32;
use std::time::Duration;

use governor::clock::Clock;
use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos;
use governor::state::{NotKeyed, StateStore};
use governor::{Quota, RateLimiter};

use super::{TICKS_PER_NANO, TICKS_PER_SECOND};
use crate::config::{Rate, Size};

/// Longest time in which a bucket may fill: longer ones never refill within the life of a process.
const LONGEST_FILL: u64 = 366 * 86_400 * TICKS_PER_SECOND;

/// Fastest rate: faster ones are too coarse in ticks.
const FASTEST: u64 = 1 << 30;

/// The size of a bucket and how fast it fills.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bucket {
    /// Ticks for one unit.
    interval: u64,
    burst: NonZeroU32,
    /// Seconds in which the empty bucket fills, rounded up: from the rate itself, since `interval` is rounded.
    window: u64,
}

/// Whether a bucket holds what is asked of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Admission {
    /// It does, and is full this many ticks later.
    Passes {
        /// Ticks until the bucket is full.
        until_full: u64,
    },
    /// It does not, now or ever.
    Refused,
}

impl Bucket {
    /// The bucket of a rate and a burst, by default one second's worth.
    ///
    /// # Errors
    ///
    /// What is wrong, as the end of a sentence that begins with the limit's name.
    pub(super) fn new(rate: Rate, burst: Option<Size>) -> Result<Self, String> {
        let per_second = u128::from(rate.amount) * 1_000_000_000 / rate.per.as_nanos().max(1);
        if per_second > u128::from(FASTEST) {
            return Err(format!("rate {rate} is above 1GiB/s, the fastest that can be kept"));
        }
        let burst = match burst {
            Some(Size(0)) => return Err("burst must be at least 1: a bucket of 0 lets nothing pass".to_owned()),
            Some(Size(burst)) => {
                u32::try_from(burst).map_err(|_| format!("burst {} is above 4GiB - 1", Size(burst)))?
            }
            None => u32::try_from(per_second).unwrap_or(u32::MAX),
        };
        let per = rate.per.as_nanos() * u128::from(TICKS_PER_NANO);
        let amount = u128::from(rate.amount.max(1));
        let interval = u64::try_from((per + amount / 2) / amount).unwrap_or(u64::MAX).max(1);
        let burst = NonZeroU32::new(burst).unwrap_or(NonZeroU32::MIN);
        let window = (u128::from(burst.get()) * u128::from(rate.per.as_secs())).div_ceil(amount).max(1);
        let window = u64::try_from(window).unwrap_or(u64::MAX);
        match interval.checked_mul(u64::from(burst.get())) {
            Some(fill) if fill <= LONGEST_FILL => Ok(Self { interval, burst, window }),
            Some(_) | None => Err(format!("a burst of {burst} takes more than a year to refill at {rate}")),
        }
    }

    /// How many units the full bucket holds.
    pub(super) fn burst(&self) -> u32 {
        self.burst.get()
    }

    /// Whether this bucket fills faster than `other`; of equally fast ones, whether it is larger.
    pub(super) fn is_wider_than(&self, other: &Self) -> bool {
        (other.interval, self.burst) > (self.interval, other.burst)
    }

    /// Whether even the full bucket is too small for `amount`.
    pub(super) fn never_holds(&self, amount: u64) -> bool {
        amount > u64::from(self.burst.get())
    }

    /// Takes `amount` from the bucket that would be full in `until_full` ticks.
    pub(super) fn admit(&self, until_full: u64, amount: u64) -> Admission {
        if amount == 0 {
            return Admission::Passes { until_full };
        }
        let Some(amount) = u32::try_from(amount).ok().and_then(NonZeroU32::new) else {
            return Admission::Refused;
        };
        let Some(quota) = Quota::with_period(Duration::from_nanos(self.interval)) else {
            return Admission::Refused;
        };
        let limiter: RateLimiter<NotKeyed, Copied, Still, NoOpMiddleware<Nanos>> =
            RateLimiter::new(quota.allow_burst(self.burst), Copied(Cell::new(until_full)), Still);
        match limiter.check_n(amount) {
            Ok(Ok(())) => Admission::Passes { until_full: limiter.into_state_store().0.get() },
            Ok(Err(_)) | Err(_) => Admission::Refused,
        }
    }

    /// Whole units in a bucket that will be full in `until_full` ticks.
    pub(super) fn remaining(&self, until_full: u64) -> u64 {
        let size = self.interval.saturating_mul(u64::from(self.burst.get()));
        size.saturating_sub(until_full) / self.interval.max(1)
    }

    /// Seconds in which the empty bucket fills, rounded up.
    pub(super) fn window(&self) -> u64 {
        self.window
    }

    /// Seconds, rounded up, until a bucket is full that lacks `until_full` ticks.
    pub(super) fn full_in(&self, until_full: u64) -> u64 {
        until_full.div_ceil(TICKS_PER_SECOND).min(self.window)
    }
}

/// A copy of one bucket's state, which governor may write to.
struct Copied(Cell<u64>);

impl StateStore for Copied {
    type Key = NotKeyed;

    fn measure_and_replace<T, F, E>(&self, _: &NotKeyed, decide: F) -> Result<T, E>
    where
        F: Fn(Option<Nanos>) -> Result<(T, Nanos), E>,
    {
        let (decision, next) = decide(Some(Nanos::new(self.0.get())))?;
        self.0.set(next.as_u64());
        Ok(decision)
    }
}

/// Always zero.
#[derive(Debug, Clone, Copy)]
struct Still;

impl Clock for Still {
    type Instant = Nanos;

    fn now(&self) -> Nanos {
        Nanos::new(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket(rate: &str, burst: Option<u64>) -> Result<Bucket, String> {
        Bucket::new(rate.parse().unwrap(), burst.map(Size))
    }

    #[test]
    fn the_default_burst_is_one_seconds_worth_and_at_least_one() {
        for (rate, burst) in [("100/s", 100), ("6000/m", 100), ("1/h", 1), ("100000/h", 27), ("10MiB/s", 10 << 20)] {
            assert_eq!(bucket(rate, None).unwrap().burst(), burst, "{rate}");
        }
    }

    #[test]
    fn intervals_are_within_four_percent_of_the_rate() {
        for rate in [1, 3, 7, 1_000, 48_000, 10 << 20, 100 << 20, 700_000_001, 1 << 30] {
            let bucket = bucket(&format!("{rate}/s"), Some(1)).unwrap();
            let exact = TICKS_PER_SECOND as f64 / rate as f64;
            assert!((bucket.interval as f64 / exact - 1.0).abs() < 0.04, "{rate}");
        }
    }

    #[test]
    fn windows_are_whole_seconds_rounded_up() {
        for (rate, burst, window) in [("100/s", 200, 2), ("100/s", 150, 2), ("100/s", 1, 1), ("1/h", 2, 7200)] {
            assert_eq!(bucket(rate, Some(burst)).unwrap().window(), window, "{rate} {burst}");
        }
    }

    #[test]
    fn buckets_that_cannot_be_kept_are_refused() {
        for (rate, burst, part) in [
            ("1/s", Some(0), "at least 1"),
            ("1/s", Some(1 << 32), "above 4GiB"),
            ("2GiB/s", None, "above 1GiB/s"),
            ("1/h", Some(8_785), "more than a year"),
            ("1/h", Some((1 << 32) - 1), "more than a year"),
        ] {
            let fault = bucket(rate, burst).unwrap_err();
            assert!(fault.contains(part), "{rate} {burst:?}: {fault}");
        }
    }

    #[test]
    fn the_widest_bucket_is_the_fastest_then_the_largest() {
        let wider = |a: (&str, u64), b: (&str, u64)| {
            bucket(a.0, Some(a.1)).unwrap().is_wider_than(&bucket(b.0, Some(b.1)).unwrap())
        };
        assert!(wider(("2/s", 1), ("1/s", 9)));
        assert!(!wider(("1/s", 9), ("2/s", 1)));
        assert!(wider(("60/m", 3), ("1/s", 2)));
        assert!(!wider(("1/s", 2), ("1/s", 2)));
    }

    #[test]
    fn the_whole_burst_passes_at_once_and_one_more_does_not() {
        let bucket = bucket("10/s", Some(4)).unwrap();
        let Admission::Passes { until_full } = bucket.admit(0, 4) else { panic!("a full bucket holds its burst") };
        assert_eq!(until_full, 4 * TICKS_PER_SECOND / 10);
        assert_eq!(bucket.remaining(until_full), 0);
        assert_eq!(bucket.admit(until_full, 1), Admission::Refused);
        assert!(matches!(bucket.admit(until_full - TICKS_PER_SECOND / 10, 1), Admission::Passes { .. }));
        assert_eq!(bucket.admit(0, 5), Admission::Refused);
        assert_eq!(bucket.admit(0, u64::MAX), Admission::Refused);
    }
}
