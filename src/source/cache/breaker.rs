//! Whether a source is worth its deadline. Pure: time is passed in.
//!
//! A source that does not answer would cost every request all the time that it has. What counts against it must not be
//! any one caller's doing: a question that took long and got no answer counts by itself, a quick failure only once
//! several callers met one. Between two answers [`THRESHOLD`] of these are enough; then nothing is asked for [`PAUSE`],
//! and after it one question tries whether the source is back.

use std::time::Duration;

use tokio::time::Instant;

use super::key::CallerId;

/// Failures without an answer between them.
pub(super) const THRESHOLD: u32 = 5;
/// How long nothing is asked.
pub(super) const PAUSE: Duration = Duration::from_secs(1);
/// A failure that took this long cost somebody a good part of a deadline.
pub(super) const SLOW: Duration = Duration::from_millis(500);

/// The state of one source.
#[derive(Debug, Default)]
pub(super) struct Breaker {
    slow: u32,
    quick: u32,
    /// The first caller that met a quick failure, and whether there was another.
    met_by: Option<CallerId>,
    several: bool,
    open_until: Option<Instant>,
}

impl Breaker {
    /// Whether nothing is asked now.
    pub(super) fn is_open(&self, now: Instant) -> bool {
        self.open_until.is_some_and(|until| now < until)
    }

    /// Whether a question may go out. A yes after the pause is the one trial: until it is answered, or `trial` is over,
    /// the others are refused.
    pub(super) fn admits(&mut self, now: Instant, trial: Duration) -> bool {
        if self.is_open(now) {
            return false;
        }
        if self.open_until.is_some() {
            self.open_until = Some(now + trial);
        }
        true
    }

    /// The source answered, whatever it said.
    pub(super) fn answered(&mut self) {
        *self = Self::default();
    }

    /// It did not. True if nothing is asked from now on.
    pub(super) fn failed(&mut self, caller: CallerId, took: Duration, now: Instant) -> bool {
        if took >= SLOW {
            self.slow = self.slow.saturating_add(1);
        } else {
            self.quick = self.quick.saturating_add(1);
            self.several |= *self.met_by.get_or_insert(caller) != caller;
        }
        let counted = self.slow.saturating_add(if self.several { self.quick } else { 0 });
        let opens = counted >= THRESHOLD || self.open_until.is_some();
        if opens {
            self.open_until = Some(now + PAUSE);
        }
        opens
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRIAL: Duration = Duration::from_secs(2);
    const QUICK: Duration = Duration::from_millis(1);

    fn caller(name: &str) -> CallerId {
        CallerId::new("issuer", name)
    }

    #[test]
    fn slow_failures_open_it_whoever_meets_them() {
        let (mut breaker, now) = (Breaker::default(), Instant::now());
        for _ in 1..THRESHOLD {
            assert!(!breaker.failed(caller("a"), SLOW, now));
            assert!(breaker.admits(now, TRIAL));
        }
        assert!(breaker.failed(caller("a"), SLOW, now));
        assert!(!breaker.admits(now, TRIAL));
    }

    #[test]
    fn quick_failures_of_one_caller_never_open_it_and_those_of_two_do() {
        let (mut breaker, now) = (Breaker::default(), Instant::now());
        for _ in 0..1_000 {
            assert!(!breaker.failed(caller("a"), QUICK, now));
        }
        assert!(breaker.failed(caller("b"), QUICK, now));
        breaker.answered();
        assert!(!breaker.failed(caller("a"), QUICK, now) && !breaker.failed(caller("b"), QUICK, now));
    }

    #[test]
    fn after_the_pause_one_question_tries() {
        let (mut breaker, now) = (Breaker::default(), Instant::now());
        for _ in 0..THRESHOLD {
            breaker.failed(caller("a"), SLOW, now);
        }
        let later = now + PAUSE;
        assert!(!breaker.admits(later - QUICK, TRIAL));
        assert!(breaker.admits(later, TRIAL));
        assert!(!breaker.admits(later, TRIAL), "the trial is running");
        assert!(breaker.failed(caller("a"), QUICK, later), "one failed trial is enough");
        assert!(breaker.admits(later + PAUSE, TRIAL));
        breaker.answered();
        assert!(breaker.admits(later + PAUSE, TRIAL) && breaker.admits(later + PAUSE, TRIAL));
    }

    #[test]
    fn a_trial_that_never_ends_lets_another_one_try() {
        let (mut breaker, now) = (Breaker::default(), Instant::now());
        for _ in 0..THRESHOLD {
            breaker.failed(caller("a"), SLOW, now);
        }
        assert!(breaker.admits(now + PAUSE, TRIAL));
        assert!(breaker.admits(now + PAUSE + TRIAL, TRIAL));
    }
}
