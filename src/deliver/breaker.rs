//! The circuit breaker of one backend: while it is open, nothing is sent, and clients are told at once.
//!
//! It opens on what cannot be one event's or one caller's fault: connections that are not made, or timeouts, broken
//! connections and 5xx for several callers and events, while the backend's own health check fails too. Anything that the
//! backend answers with sense closes the account. Answers about credentials or configuration say nothing here: their 501
//! is one that no client repeats, and an open breaker's 503 would be repeated.
//!
//! After a pause one event goes through on trial. If that ends badly in a way that may be the event's own fault, the
//! health check decides. No clock: time is passed in.

use std::collections::HashSet;
use std::time::Duration;

use tokio::time::Instant;

use super::key::{CallerKey, EventKey};
use crate::answer::{Outcome, Unknown, Unreachable};

/// Failures since the last good answer, before anything is concluded from them.
const FAILURES: usize = 5;

/// Different callers among them, for failures that a caller can cause.
const CALLERS: usize = 2;

/// Different events among them, for failures that an event can cause.
const EVENTS: usize = 3;

/// The first pause, and pause between two health checks.
const PAUSE: Duration = Duration::from_secs(1);

/// The pause doubles with each trial that fails, up to this.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// What the breaker knows.
#[derive(Debug)]
pub(super) struct Breaker {
    phase: Phase,
    trouble: Trouble,
    checked: Option<Instant>,
}

/// For metrics and `/readyz?verbose`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum State {
    Closed,
    Open,
    HalfOpen,
}

/// Leave to send one event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leave {
    /// As any other.
    Usual,
    /// On trial: how it ends decides.
    Trial,
}

/// What an outcome says of the backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sign {
    /// It works.
    Good,
    /// No connection: nobody's fault but its own.
    Unreachable,
    /// It failed, for whatever reason.
    Failed,
    /// Nothing.
    Nothing,
}

/// What should be done after an outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Advice {
    Nothing,
    /// Ask the backend for its health, and tell [`Breaker::checked`].
    Check,
}

#[derive(Debug, Clone, Copy)]
enum Phase {
    Closed,
    Open { until: Instant, pause: Duration },
    Trial { pause: Duration },
}

/// What went wrong since the last good answer. Neither set grows beyond what is asked of it.
#[derive(Debug, Default)]
struct Trouble {
    unreachable: usize,
    failures: usize,
    callers: HashSet<CallerKey>,
    events: HashSet<EventKey>,
}

impl Sign {
    pub(super) fn of(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Accepted { .. }
            | Outcome::NoEffect(_)
            | Outcome::Partial { .. }
            | Outcome::Rejected { .. }
            | Outcome::TooLarge
            | Outcome::Throttled => Self::Good,
            Outcome::Unreachable(Unreachable::Dns | Unreachable::Connect) => Self::Unreachable,
            Outcome::Unknown(Unknown::Timeout | Unknown::Reset | Unknown::TruncatedBody) | Outcome::Fault { .. } => {
                Self::Failed
            }
            Outcome::Poison
            | Outcome::UpstreamAuth
            | Outcome::CallerUnauthenticated
            | Outcome::CallerForbidden
            | Outcome::Unreachable(Unreachable::Certificate)
            | Outcome::Unknown(Unknown::Pending | Unknown::Unwatched)
            | Outcome::BadGateway(_)
            | Outcome::Disabled
            | Outcome::NotSent => Self::Nothing,
        }
    }
}

impl State {
    pub(super) const ALL: [Self; 3] = [Self::Closed, Self::Open, Self::HalfOpen];

    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::HalfOpen => "half_open",
        }
    }
}

impl Breaker {
    pub(super) fn new() -> Self {
        Self { phase: Phase::Closed, trouble: Trouble::default(), checked: None }
    }

    pub(super) fn state(&self) -> State {
        match self.phase {
            Phase::Closed => State::Closed,
            Phase::Open { .. } => State::Open,
            Phase::Trial { .. } => State::HalfOpen,
        }
    }

    /// Whether an event that came now would surely not be sent.
    pub(super) fn refuses(&self, now: Instant) -> bool {
        match self.phase {
            Phase::Closed => false,
            Phase::Open { until, .. } => now < until,
            Phase::Trial { .. } => true,
        }
    }

    /// Leave to send an event. After it, [`ended`](Self::ended) must follow.
    pub(super) fn leave(&mut self, now: Instant) -> Option<Leave> {
        match self.phase {
            Phase::Closed => Some(Leave::Usual),
            Phase::Open { until, pause } if now >= until => {
                self.phase = Phase::Trial { pause };
                Some(Leave::Trial)
            }
            Phase::Open { .. } | Phase::Trial { .. } => None,
        }
    }

    /// How an exchange ended.
    pub(super) fn ended(
        &mut self,
        leave: Leave,
        sign: Sign,
        (event, caller): (EventKey, CallerKey),
        now: Instant,
    ) -> Advice {
        if let (Leave::Trial, Phase::Trial { pause }) = (leave, self.phase) {
            return self.tried(sign, pause, now);
        }
        match (self.phase, sign) {
            // What was sent before it opened and ends now decides nothing.
            (Phase::Open { .. } | Phase::Trial { .. }, _) | (_, Sign::Nothing) => return Advice::Nothing,
            (Phase::Closed, Sign::Good) => {
                self.trouble = Trouble::default();
                return Advice::Nothing;
            }
            (Phase::Closed, Sign::Unreachable) => self.trouble.unreachable += 1,
            (Phase::Closed, Sign::Failed) => self.trouble.failed(event, caller),
        }
        if self.trouble.unreachable >= FAILURES {
            self.open(PAUSE, now);
            return Advice::Nothing;
        }
        if self.trouble.is_shared() && self.may_check(now) { Advice::Check } else { Advice::Nothing }
    }

    /// What the backend's own health check said.
    pub(super) fn checked(&mut self, healthy: bool, now: Instant) {
        match (self.phase, healthy) {
            (Phase::Closed | Phase::Trial { .. }, true) => self.close(),
            (Phase::Closed, false) if self.trouble.is_shared() => self.open(PAUSE, now),
            (Phase::Trial { pause }, false) => self.open((pause * 2).min(LONGEST_PAUSE), now),
            (Phase::Closed, false) | (Phase::Open { .. }, _) => {}
        }
    }

    fn tried(&mut self, sign: Sign, pause: Duration, now: Instant) -> Advice {
        match sign {
            Sign::Good => self.close(),
            Sign::Unreachable => self.open((pause * 2).min(LONGEST_PAUSE), now),
            // Still on trial until the check tells.
            Sign::Failed => return Advice::Check,
            // The next event may try.
            Sign::Nothing => self.phase = Phase::Open { until: now, pause },
        }
        Advice::Nothing
    }

    fn may_check(&mut self, now: Instant) -> bool {
        let is_due = self.checked.is_none_or(|checked| now >= checked + PAUSE);
        if is_due {
            self.checked = Some(now);
        }
        is_due
    }

    fn open(&mut self, pause: Duration, now: Instant) {
        self.phase = Phase::Open { until: now + pause, pause };
        self.trouble = Trouble::default();
    }

    fn close(&mut self) {
        self.phase = Phase::Closed;
        self.trouble = Trouble::default();
    }
}

impl Trouble {
    fn failed(&mut self, event: EventKey, caller: CallerKey) {
        self.failures += 1;
        if self.callers.len() < CALLERS {
            self.callers.insert(caller);
        }
        if self.events.len() < EVENTS {
            self.events.insert(event);
        }
    }

    /// Whether this is neither one caller's doing nor one event's.
    fn is_shared(&self) -> bool {
        self.failures >= FAILURES && self.callers.len() >= CALLERS && self.events.len() >= EVENTS
    }
}

#[cfg(test)]
mod tests;
