use std::time::Duration;

use tokio::time::Instant;

use super::super::tests::{Bench, EARLIER, STOPPED, STORED, sent};
use super::BOUNDS;
use crate::answer::{BatchReport, End, Outcome, Unknown};
use crate::deliver::Answered;

const MINUTE: Duration = Duration::from_secs(60);

async fn bench() -> Bench {
    Bench::of("openlineage", "3500ms", MINUTE).await
}

fn rejected() -> Outcome {
    Outcome::Rejected { message: Some("no".to_owned()), unprocessable: false }
}

const FAULT: Outcome = Outcome::Fault { status: 503 };

#[tokio::test]
async fn a_batch_goes_in_one_call_and_each_event_gets_its_own_end() {
    let bench = bench().await;
    let ends = bench.deliver(&["a/201", "b/400", "a/503", "c/201"]).await;
    assert_eq!(ends, [STORED, rejected(), FAULT, STORED].map(sent));
    assert_eq!(bench.seen(), ["[a/201 b/400 a/503 c/201]"]);
    let reported = bench.reported().await;
    let outcomes = [STORED, rejected(), FAULT, STORED].into_iter().enumerate();
    assert_eq!(reported, outcomes.map(|(place, outcome)| (place, outcome, Answered::InTime)).collect::<Vec<_>>());
}

#[tokio::test]
async fn what_was_delivered_is_not_sent_again_and_what_failed_comes_alone() {
    let bench = bench().await;
    bench.deliver(&["a/201", "b/503"]).await;
    let ends = bench.deliver(&["a/201", "b/503", "c/201", "d/201"]).await;
    assert_eq!((&ends[0], &ends[2], &ends[3]), (&sent(STORED), &sent(STORED), &sent(STORED)));
    assert!(matches!(ends[1], End::Sent(FAULT | Outcome::Poison)), "others pass meanwhile: {ends:?}");
    let mut seen = bench.seen();
    seen[1..].sort();
    assert_eq!(seen, ["[a/201 b/503]", "[c/201 d/201]", "b/503"]);
    assert_eq!(bench.deliver(&["a/201", "b/201"]).await[0], sent(STORED));
    assert_eq!(bench.seen()[3..], ["b/201"], "one event is sent as one");
}

#[tokio::test]
async fn a_call_that_is_refused_as_a_whole_is_sent_event_by_event() {
    for (whole, count) in [("400", 4), ("413", 4), ("422", 4)] {
        let bench = bench().await;
        let names = [format!("a/{whole}-201"), format!("a/{whole}-413"), format!("b/{whole}-201")];
        let ends = bench.deliver(&names.each_ref().map(String::as_str)).await;
        assert_eq!(ends, [STORED, Outcome::TooLarge, STORED].map(sent));
        let seen = bench.seen();
        assert_eq!(seen.len(), count);
        let place = |name: &String| seen.iter().position(|seen| seen == name).unwrap();
        assert!(place(&names[0]) < place(&names[1]), "a run keeps its order: {seen:?}");
        assert_eq!(bench.reported().await.len(), 3);
    }
}

#[tokio::test]
async fn a_backend_without_batches_is_fanned_out_and_remembered() {
    for none in ["404", "501"] {
        let bench = bench().await;
        let names: Vec<String> = (0..BOUNDS.events + 5).map(|run| format!("r{run}/{none}-201")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let ends = bench.deliver(&names).await;
        assert_eq!(ends, vec![sent(STORED); names.len()]);
        assert_eq!(bench.seen().len(), names.len() + 1, "one call, and then each event alone");
        bench.deliver(&["x/201", "y/201"]).await;
        assert!(!bench.seen().last().unwrap().starts_with('['), "no call is tried");
        assert_eq!(bench.reported().await.len(), names.len() + 2);
    }
}

#[tokio::test]
async fn what_is_no_events_fault_ends_all_calls() {
    for (status, outcome) in [("429", Outcome::Throttled), ("401", Outcome::UpstreamAuth)] {
        let bench = bench().await;
        let names: Vec<String> = (0..BOUNDS.events + 7).map(|run| format!("r{run}/{status}-201")).collect();
        let ends = bench.deliver(&names.iter().map(String::as_str).collect::<Vec<_>>()).await;
        assert!(ends[..BOUNDS.events].iter().all(|end| *end == sent(outcome.clone())));
        assert!(ends[BOUNDS.events..].iter().all(|end| *end == STOPPED));
        assert_eq!(bench.seen().len(), 1);
        assert_eq!(bench.reported().await.len(), names.len());
    }
}

#[tokio::test]
async fn a_call_that_fails_ends_its_runs_and_no_others() {
    let bench = bench().await;
    let mut names: Vec<String> = (0..BOUNDS.events).map(|run| format!("r{run}/201")).collect();
    names[3] = "r3/500-201".to_owned();
    names.extend(["r7/201", "x/201", "y/201"].map(str::to_owned));
    let ends = bench.deliver(&names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let fault = sent(Outcome::Fault { status: 500 });
    assert!(ends[..BOUNDS.events].iter().all(|end| *end == fault));
    assert_eq!(ends[BOUNDS.events..], [EARLIER, sent(STORED), sent(STORED)]);
    assert_eq!(bench.seen().len(), 2);
    assert_eq!(bench.seen()[1], "[x/201 y/201]");
}

#[tokio::test]
async fn one_poisoned_event_is_found_by_sending_its_batch_again() {
    let bench = bench().await;
    let names = ["a/500-201", "b/500-500", "c/500-201"];
    assert_eq!(bench.deliver(&names).await, vec![sent(Outcome::Fault { status: 500 }); 3]);
    assert_eq!(bench.seen().len(), 1);
    let ends = bench.deliver(&names).await;
    assert_eq!((&ends[0], &ends[2]), (&sent(STORED), &sent(STORED)));
    bench.deliver(&["d/201", "e/201"]).await;
    let ends = bench.deliver(&["a/500-201", "b/500-500"]).await;
    assert_eq!(ends, [STORED, Outcome::Poison].map(sent));
}

#[tokio::test]
async fn a_batch_sent_again_joins_its_call_and_gets_its_end() {
    let bench = Bench::of("openlineage", "800ms", Duration::from_millis(200)).await;
    let pending = vec![sent(Outcome::Unknown(Unknown::Pending)); 2];
    assert_eq!(bench.deliver(&["a/stall", "b/201"]).await, pending);
    assert_eq!(bench.deliver(&["a/stall", "b/201"]).await, pending);
    assert_eq!(bench.seen().len(), 1, "{:?}", bench.seen());
    let reported = bench.reported().await;
    assert_eq!(reported.len(), 4);
    for (_, outcome, answered) in reported {
        assert_eq!((outcome, answered), (Outcome::Unknown(Unknown::Timeout), Answered::Late));
    }
}

#[tokio::test]
async fn a_client_that_leaves_cancels_no_call_and_begins_no_other() {
    let bench = Bench::of("openlineage", "500ms", MINUTE).await;
    let names: Vec<String> = (0..BOUNDS.events + 10).map(|run| format!("r{run}/stall")).collect();
    let items = bench.items(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let deliverer = bench.deliverer.clone();
    let waiting = tokio::spawn(async move { deliverer.submit_batch(items, Instant::now()).await });
    while bench.seen().is_empty() {
        tokio::task::yield_now().await;
    }
    waiting.abort();
    assert!(waiting.await.unwrap_err().is_cancelled());
    let reported = bench.reported().await;
    assert_eq!(reported.len(), BOUNDS.events);
    for (_, outcome, answered) in reported {
        assert_eq!((outcome, answered), (Outcome::Unknown(Unknown::Timeout), Answered::ClientGone));
    }
}

#[tokio::test]
async fn every_event_has_one_end_and_one_report_whatever_the_backend_does() {
    let words = ["201", "201", "201", "201", "400", "503", "413-201", "500-201", "404-201", "429-201", "400-400"];
    let mut random = 4_711_usize;
    for round in 0..40 {
        let bench = bench().await;
        let mut next = |below: usize| {
            random = random.wrapping_mul(1_103_515_245).wrapping_add(12_345) % (1 << 31);
            (random >> 8) % below
        };
        let names: Vec<String> = (0..240)
            .map(|_| format!("r{}/{}", next(60), words[if next(40) == 0 { next(words.len()) } else { 0 }]))
            .collect();
        let ends = bench.deliver(&names.iter().map(String::as_str).collect::<Vec<_>>()).await;
        let counts = BatchReport::new(ends.clone()).counts();
        assert_eq!(counts.successful + counts.partial + counts.skipped + counts.failed, names.len());
        let reported = bench.reported().await;
        assert_eq!(reported.len(), names.len(), "round {round}");
        for ((place, outcome, _), end) in reported.into_iter().zip(&ends) {
            let told = match end {
                End::Sent(outcome) => outcome.clone(),
                End::NotAttempted(_) | End::Refused(_) => Outcome::NotSent,
            };
            assert_eq!(outcome, told, "round {round}, event {place}: {}", names[place]);
        }
    }
}
