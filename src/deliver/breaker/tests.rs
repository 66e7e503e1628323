use super::*;

use crate::answer::{Durability, NoEffect};

/// A breaker at a moment.
struct Bench {
    breaker: Breaker,
    now: Instant,
}

impl Bench {
    fn new() -> Self {
        Self { breaker: Breaker::new(), now: Instant::now() }
    }

    fn after(&mut self, pause: Duration) -> &mut Self {
        self.now += pause;
        self
    }

    fn end(&mut self, sign: Sign, event: u8, caller: u8) -> Advice {
        self.breaker.ended(Leave::Usual, sign, (EventKey([event; 32]), CallerKey([caller; 16])), self.now)
    }

    /// Failures for two callers and many events; the last advice.
    fn shared_trouble(&mut self) -> Advice {
        for number in 0..4 {
            assert_eq!(self.end(Sign::Failed, number, number % 2), Advice::Nothing);
        }
        self.end(Sign::Failed, 4, 0)
    }

    fn open(&mut self) {
        for number in 0..5 {
            self.end(Sign::Unreachable, number, 1);
        }
        assert_eq!(self.breaker.state(), State::Open);
    }

    fn try_one(&mut self, sign: Sign) -> Advice {
        assert_eq!(self.breaker.leave(self.now), Some(Leave::Trial));
        assert_eq!(self.breaker.state(), State::HalfOpen);
        assert_eq!(self.breaker.leave(self.now), None, "one at a time");
        assert!(self.breaker.refuses(self.now));
        self.breaker.ended(Leave::Trial, sign, (EventKey([9; 32]), CallerKey([9; 16])), self.now)
    }
}

#[test]
fn what_each_outcome_says_of_the_backend() {
    let table = [
        (Outcome::Accepted { edges: None, durability: Durability::Queued }, Sign::Good),
        (Outcome::NoEffect(NoEffect::Filtered), Sign::Good),
        (Outcome::Partial { edges: 1 }, Sign::Good),
        (Outcome::Rejected { message: None, unprocessable: true }, Sign::Good),
        (Outcome::TooLarge, Sign::Good),
        (Outcome::Throttled, Sign::Good),
        (Outcome::UpstreamAuth, Sign::Nothing),
        (Outcome::CallerUnauthenticated, Sign::Nothing),
        (Outcome::CallerForbidden, Sign::Nothing),
        (Outcome::Unreachable(Unreachable::Dns), Sign::Unreachable),
        (Outcome::Unreachable(Unreachable::Connect), Sign::Unreachable),
        (Outcome::Unreachable(Unreachable::Certificate), Sign::Nothing),
        (Outcome::Unknown(Unknown::Timeout), Sign::Failed),
        (Outcome::Unknown(Unknown::Reset), Sign::Failed),
        (Outcome::Unknown(Unknown::TruncatedBody), Sign::Failed),
        (Outcome::Unknown(Unknown::Pending), Sign::Nothing),
        (Outcome::Unknown(Unknown::Unwatched), Sign::Nothing),
        (Outcome::BadGateway(String::new()), Sign::Nothing),
        (Outcome::Fault { status: 503 }, Sign::Failed),
        (Outcome::Poison, Sign::Nothing),
        (Outcome::Disabled, Sign::Nothing),
        (Outcome::NotSent, Sign::Nothing),
    ];
    for (outcome, sign) in table {
        assert_eq!(Sign::of(&outcome), sign, "{outcome:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn connections_that_are_not_made_open_it() {
    let mut bench = Bench::new();
    for _ in 0..4 {
        assert_eq!(bench.end(Sign::Unreachable, 1, 1), Advice::Nothing);
        assert_eq!(bench.breaker.leave(bench.now), Some(Leave::Usual));
    }
    bench.end(Sign::Unreachable, 1, 1);
    assert_eq!(bench.breaker.state(), State::Open);
    assert!(bench.breaker.refuses(bench.now));
    assert_eq!(bench.breaker.leave(bench.now), None);
}

#[tokio::test(start_paused = true)]
async fn a_good_answer_in_between_closes_the_account() {
    let mut bench = Bench::new();
    for _ in 0..20 {
        for _ in 0..4 {
            bench.end(Sign::Unreachable, 1, 1);
        }
        bench.end(Sign::Nothing, 1, 1);
        bench.end(Sign::Good, 2, 2);
    }
    assert_eq!(bench.breaker.state(), State::Closed);
}

#[tokio::test(start_paused = true)]
async fn one_callers_or_one_events_failures_alone_never_open_it() {
    let mut one_caller = Bench::new();
    let mut one_event = Bench::new();
    for number in 0..100 {
        assert_eq!(one_caller.after(PAUSE).end(Sign::Failed, number, 1), Advice::Nothing);
        assert_eq!(one_event.after(PAUSE).end(Sign::Failed, 1, number), Advice::Nothing);
    }
    for mut bench in [one_caller, one_event] {
        bench.breaker.checked(false, bench.now);
        assert_eq!(bench.breaker.state(), State::Closed);
    }
}

#[tokio::test(start_paused = true)]
async fn failures_for_several_open_it_only_if_the_health_check_fails_too() {
    let mut bench = Bench::new();
    assert_eq!(bench.shared_trouble(), Advice::Check);
    assert_eq!(bench.end(Sign::Failed, 7, 7), Advice::Nothing, "one check a second");
    assert_eq!(bench.breaker.state(), State::Closed, "not before the check");
    bench.breaker.checked(false, bench.now);
    assert_eq!(bench.breaker.state(), State::Open);

    let mut bench = Bench::new();
    assert_eq!(bench.shared_trouble(), Advice::Check);
    bench.breaker.checked(true, bench.now);
    assert_eq!(bench.breaker.state(), State::Closed);
    assert_eq!(bench.after(PAUSE).shared_trouble(), Advice::Check, "the account begins anew");
}

#[tokio::test(start_paused = true)]
async fn a_check_that_ends_after_a_good_answer_opens_nothing() {
    let mut bench = Bench::new();
    bench.shared_trouble();
    bench.end(Sign::Good, 8, 1);
    bench.breaker.checked(false, bench.now);
    assert_eq!(bench.breaker.state(), State::Closed);
}

#[tokio::test(start_paused = true)]
async fn one_event_on_trial_decides_after_the_pause() {
    let mut bench = Bench::new();
    bench.open();
    bench.after(PAUSE - Duration::from_millis(1));
    assert_eq!(bench.breaker.leave(bench.now), None);
    bench.after(Duration::from_millis(1));
    assert!(!bench.breaker.refuses(bench.now));
    bench.try_one(Sign::Good);
    assert_eq!(bench.breaker.state(), State::Closed);
}

#[tokio::test(start_paused = true)]
async fn the_pause_doubles_with_each_failed_trial_up_to_its_bound() {
    let mut bench = Bench::new();
    bench.open();
    for pause in [1, 2, 4, 8, 16, 30, 30] {
        bench.after(Duration::from_secs(pause) - Duration::from_millis(1));
        assert_eq!(bench.breaker.leave(bench.now), None, "{pause}");
        bench.after(Duration::from_millis(1)).try_one(Sign::Unreachable);
        assert_eq!(bench.breaker.state(), State::Open);
    }
}

#[tokio::test(start_paused = true)]
async fn a_trial_that_fails_by_its_own_fault_does_not_keep_it_open() {
    let mut bench = Bench::new();
    bench.open();
    assert_eq!(bench.after(PAUSE).try_one(Sign::Failed), Advice::Check);
    bench.breaker.checked(true, bench.now);
    assert_eq!(bench.breaker.state(), State::Closed);

    bench.open();
    assert_eq!(bench.after(PAUSE).try_one(Sign::Failed), Advice::Check);
    bench.breaker.checked(false, bench.now);
    assert_eq!(bench.breaker.state(), State::Open);
}

#[tokio::test(start_paused = true)]
async fn a_trial_that_says_nothing_lets_the_next_event_try_at_once() {
    let mut bench = Bench::new();
    bench.open();
    assert_eq!(bench.after(PAUSE).try_one(Sign::Nothing), Advice::Nothing);
    bench.try_one(Sign::Good);
    assert_eq!(bench.breaker.state(), State::Closed);
}

#[tokio::test(start_paused = true)]
async fn what_was_sent_before_it_opened_decides_nothing_afterwards() {
    let mut bench = Bench::new();
    bench.open();
    bench.end(Sign::Good, 1, 1);
    assert_eq!(bench.breaker.state(), State::Open);
}
