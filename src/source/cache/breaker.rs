//! Whether a source is worth its deadline. Pure.
//!
//! A source that does not answer would cost every request all the time that it has. But a question may fail because of
//! what was asked: a name that some proxy on the way does not take, a catalog that hangs. So failures without an answer
//! between them only raise a doubt, and whether the source is given up is decided by a trial, which asks what no caller
//! chose.

/// Failures without an answer between them that raise a doubt.
pub(super) const THRESHOLD: u32 = 3;

/// The state of one source.
#[derive(Debug, Default)]
pub(super) struct Breaker {
    failures: u32,
    /// Whether trials are being made.
    trying: bool,
    open: bool,
}

impl Breaker {
    /// Whether nothing is asked now, trials aside.
    pub(super) fn is_open(&self) -> bool {
        self.open
    }

    /// The source answered, whatever it said. Once it is given up only a trial counts: an answer may be an old one.
    pub(super) fn answered(&mut self) {
        if !self.open {
            self.failures = 0;
        }
    }

    /// It did not. True if trials have to begin.
    pub(super) fn failed(&mut self) -> bool {
        self.failures = self.failures.saturating_add(1);
        let begins = self.failures >= THRESHOLD && !self.trying;
        self.trying |= begins;
        begins
    }

    /// What a trial found. True if another has to follow: nothing else is asked until one is answered.
    pub(super) fn tried(&mut self, is_answered: bool) -> bool {
        if is_answered || !self.open && self.failures < THRESHOLD {
            *self = Self::default();
            return false;
        }
        self.open = true;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In doubt, with a trial on its way.
    fn doubted() -> Breaker {
        let mut breaker = Breaker::default();
        for _ in 1..THRESHOLD {
            assert!(!breaker.failed());
        }
        assert!(breaker.failed());
        breaker
    }

    #[test]
    fn failures_alone_never_open_it_and_begin_one_trial() {
        let mut breaker = doubted();
        for _ in 0..1_000 {
            assert!(!breaker.failed() && !breaker.is_open());
        }
        assert!(!breaker.tried(true));
        assert!(!breaker.is_open() && !breaker.failed(), "it is counted anew");
    }

    #[test]
    fn an_answer_between_failures_keeps_doubts_away() {
        let mut breaker = Breaker::default();
        for _ in 0..100 {
            assert!(!breaker.failed());
            breaker.answered();
        }
        let mut breaker = doubted();
        breaker.answered();
        assert!(!breaker.tried(false) && !breaker.is_open(), "it answered while the trial was on its way");
    }

    #[test]
    fn from_a_failed_trial_to_an_answered_one_it_is_open() {
        let mut breaker = doubted();
        assert!(breaker.tried(false) && breaker.is_open());
        breaker.answered();
        assert!(breaker.is_open() && !breaker.failed());
        assert!(breaker.tried(false) && breaker.is_open());
        assert!(!breaker.tried(true) && !breaker.is_open());
        breaker.failed();
        breaker.failed();
        assert!(breaker.failed(), "a new doubt begins new trials");
    }
}
