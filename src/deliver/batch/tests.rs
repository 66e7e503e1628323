use std::time::Duration;

use bytes::Bytes;
use prometheus_client::registry::Registry;
use proptest::prelude::*;
use serde_json::json;
use tokio::net::TcpStream;

use super::chunk::{Bounds, chunks};
use super::plan::{after, attributed, by_run};
use super::*;
use crate::answer::{Durability, NoEffect, Unreachable};
use crate::config;
use crate::deliver::{Answered, Settings};
use crate::event::{self, Event, Rules};
use crate::listen::Drain;
use crate::upstream::{Upstream, fake};

pub(super) const STORED: Outcome = Outcome::Accepted { edges: None, durability: Durability::Stored };

/// A backend that answers each event with the status that its job name ends with, and a deliverer in front of it.
pub(super) struct Bench {
    pub(super) deliverer: Deliverer,
    seen: Arc<Mutex<Vec<String>>>,
    reports: mpsc::UnboundedReceiver<(usize, Outcome, Answered)>,
    report: mpsc::UnboundedSender<(usize, Outcome, Answered)>,
}

impl Bench {
    async fn new() -> Self {
        Self::with("3500ms", Duration::from_secs(60)).await
    }

    /// The backend's answers are waited for so long, and the client for the budget.
    pub(super) async fn with(timeout: &str, budget: Duration) -> Self {
        Self::of("marquez", timeout, budget).await
    }

    pub(super) async fn of(kind: &str, timeout: &str, budget: Duration) -> Self {
        let (listener, port) = fake::listen().await;
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&seen);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&log)));
            }
        });
        let url = format!("http://127.0.0.1:{port}");
        let json = json!({ "name": "u", "kind": kind, "url": url, "concurrency": 64, "connect_timeout": "400ms", "timeout": timeout });
        let config: config::Upstream = serde_json::from_value(json).unwrap();
        let upstream = Arc::new(Upstream::new(&config).unwrap());
        let metrics = super::super::Metrics::register(&mut Registry::default());
        let settings = Settings { budget, ..Settings::from(&config) };
        let deliverer = Deliverer::new(upstream, settings, metrics, Drain::new());
        let (report, reports) = mpsc::unbounded_channel();
        Self { deliverer, seen, reports, report }
    }

    pub(super) fn items(&self, names: &[&str]) -> Vec<Item> {
        let items = names.iter().enumerate().map(|(place, name)| {
            let (run, _) = name.split_once('/').unwrap();
            let event = numbered("run", &json!({ "namespace": "ns", "name": run }), name, place);
            let report = self.report.clone();
            Item {
                place,
                run: Run::of(&event),
                delivery: fake::delivery(event.body),
                on_end: Box::new(move |end| report.send((place, end.outcome, end.answered)).unwrap()),
            }
        });
        items.collect()
    }

    pub(super) async fn deliver(&self, names: &[&str]) -> Vec<End> {
        self.deliverer.submit_batch(self.items(names), Instant::now()).await.ends
    }

    /// What was reported, by place: each event exactly once.
    pub(super) async fn reported(mut self) -> Vec<(usize, Outcome, Answered)> {
        drop(self.report);
        let mut reported = Vec::new();
        while let Some(report) = self.reports.recv().await {
            reported.push(report);
        }
        reported.sort_by_key(|(place, ..)| *place);
        reported
    }

    pub(super) fn seen(&self) -> Vec<String> {
        lock(&self.seen).clone()
    }
}

/// `/stall` is never answered, `/close` by closing the connection. A call is answered by what its events say, or as a
/// whole: `/413-201` means that a call with this event gets 413, and the event alone 201.
async fn serve(mut stream: TcpStream, log: Arc<Mutex<Vec<String>>>) {
    while let Some(seen) = fake::read_request(&mut stream).await {
        let event: serde_json::Value = serde_json::from_slice(&seen.body).unwrap();
        let name = |event: &serde_json::Value| event["producer"].as_str().unwrap().to_owned();
        if let Some(events) = event.as_array() {
            let names: Vec<String> = events.iter().map(name).collect();
            lock(&log).push(format!("[{}]", names.join(" ")));
            let (status, body) = report(&names);
            if names.iter().any(|name| name.ends_with("/stall")) {
                std::future::pending::<()>().await;
            }
            fake::answer(&mut stream, status, "", &body).await;
            continue;
        }
        let name = name(&event);
        let (_, answer) = name.split_once('/').unwrap();
        let answer = answer.rsplit('-').next().unwrap();
        lock(&log).push(name.clone());
        match answer {
            "stall" => std::future::pending().await,
            "close" => return,
            status => fake::answer(&mut stream, status.parse().unwrap(), "", "").await,
        }
    }
}

/// What a backend answers to a call with these events.
fn report(names: &[String]) -> (u16, String) {
    let answers = || names.iter().map(|name| name.split_once('/').unwrap().1);
    if let Some(whole) = answers().find_map(|answer| answer.split_once('-')) {
        return (whole.0.parse().unwrap(), String::new());
    }
    let failed: Vec<_> = answers()
        .enumerate()
        .filter(|(_, answer)| *answer != "201")
        .map(|(index, answer)| json!({ "index": index, "reason": "no", "retriable": answer == "503" }))
        .collect();
    let status = if failed.is_empty() { "success" } else { "partial_success" };
    let status = if failed.len() == names.len() { "failure" } else { status };
    let (received, failures) = (names.len(), failed.len());
    let summary = json!({ "received": received, "successful": received - failures, "failed": failures });
    (200, json!({ "status": status, "summary": summary, "failed_events": failed }).to_string())
}

fn event(kind: &str, subject: &serde_json::Value, producer: &str) -> Event {
    numbered(kind, subject, producer, 0)
}

/// Events with other numbers are never identical.
fn numbered(kind: &str, subject: &serde_json::Value, producer: &str, number: usize) -> Event {
    let mut event = json!({
        "eventTime": format!("2026-10-20T10:00:00.{number:03}Z"),
        "producer": producer,
        "schemaURL": "https://openlineage.io/spec/2-0-2/OpenLineage.json",
    });
    match kind {
        "run" => {
            event["run"] = json!({ "runId": "2ad9b3d8-18cb-4e15-b48c-56362a50ea5c" });
            event["job"] = subject.clone();
        }
        "job" => event["job"] = subject.clone(),
        _ => event["dataset"] = subject.clone(),
    }
    let rules = Rules::new(&config::Event::default(), config::EventTime::AssumeUtc, false);
    event::parse(Bytes::from(event.to_string()), &rules).unwrap()
}

pub(super) fn sent(outcome: Outcome) -> End {
    End::Sent(outcome)
}

pub(super) const EARLIER: End = End::NotAttempted(NotAttempted::EarlierFailed);
pub(super) const STOPPED: End = End::NotAttempted(NotAttempted::Stopped);
const LATE: End = End::NotAttempted(NotAttempted::Deadline);

#[test]
fn each_outcome_ends_nothing_its_run_or_all() {
    let rejected = Outcome::Rejected { message: None, unprocessable: false };
    for (outcome, next) in [
        (STORED, Next::GoOn),
        (Outcome::NoEffect(NoEffect::Filtered), Next::GoOn),
        (Outcome::Partial { edges: 1 }, Next::GoOn),
        (rejected, Next::GoOn),
        (Outcome::TooLarge, Next::GoOn),
        (Outcome::CallerForbidden, Next::GoOn),
        (Outcome::Unreachable(Unreachable::Dns), Next::EndRun),
        (Outcome::Unreachable(Unreachable::Connect), Next::EndRun),
        (Outcome::Unknown(Unknown::Timeout), Next::EndRun),
        (Outcome::Unknown(Unknown::Reset), Next::EndRun),
        (Outcome::Unknown(Unknown::TruncatedBody), Next::EndRun),
        (Outcome::Unknown(Unknown::Pending), Next::EndRun),
        (Outcome::Fault { status: 500 }, Next::EndRun),
        (Outcome::Throttled, Next::EndAll),
        (Outcome::UpstreamAuth, Next::EndAll),
        (Outcome::CallerUnauthenticated, Next::EndAll),
        (Outcome::Unreachable(Unreachable::Certificate), Next::EndAll),
        (Outcome::BadGateway(String::new()), Next::EndAll),
        (Outcome::Disabled, Next::EndAll),
        (Outcome::NotSent, Next::EndAll),
    ] {
        assert_eq!(after(&outcome), next, "{outcome:?}");
    }
}

#[test]
fn what_a_backend_skipped_were_the_events_without_edges_first() {
    let skipped = || Outcome::NoEffect(NoEffect::NoEdges);
    let filtered = || Outcome::NoEffect(NoEffect::Filtered);
    let rejected = || Outcome::Rejected { message: None, unprocessable: false };
    for (told, draws, expected) in [
        ([STORED, skipped(), rejected()], [false, true, false], [filtered(), STORED, rejected()]),
        ([STORED, skipped(), skipped()], [true, false, true], [STORED, filtered(), skipped()]),
        ([STORED, STORED, skipped()], [false, false, true], [filtered(), STORED, STORED]),
        ([STORED, STORED, STORED], [false, true, true], [STORED, STORED, STORED]),
    ] {
        assert_eq!(attributed(told.to_vec(), &draws), expected);
    }
}

#[test]
fn a_run_is_its_job_and_id_and_other_events_go_by_what_they_are_about() {
    let subject = |name: &str| json!({ "namespace": "ns", "name": name });
    let run = |kind: &str, name: &str| Run::of(&event(kind, &subject(name), "p"));
    assert_eq!(run("run", "a"), run("run", "a"));
    let mut other_id = event("run", &subject("a"), "p");
    other_id.run_id = Some("another".to_owned());
    let all = [
        run("run", "a"),
        run("run", "b"),
        Run::of(&other_id),
        run("job", "a"),
        run("job", "b"),
        run("dataset", "a"),
        run("dataset", "b"),
    ];
    assert_eq!(all.iter().collect::<HashSet<_>>().len(), all.len());
    assert_eq!(run("dataset", "a"), run("dataset", "a"));
}

#[tokio::test]
async fn a_run_is_delivered_in_order_and_a_rejected_event_does_not_end_it() {
    let bench = Bench::new().await;
    let names = ["a/201", "a/400", "a/200", "a/413", "a/201"];
    let ends = bench.deliver(&names).await;
    assert_eq!(bench.seen(), names);
    let rejected = Outcome::Rejected { message: None, unprocessable: false };
    assert_eq!(ends, [STORED, rejected, STORED, Outcome::TooLarge, STORED].map(sent));
    let reported = bench.reported().await;
    assert_eq!(reported.len(), 5);
    assert!(reported.iter().all(|(.., answered)| *answered == Answered::InTime));
}

#[tokio::test]
async fn what_may_come_again_ends_its_run_and_no_other() {
    let bench = Bench::new().await;
    let ends = bench.deliver(&["a/201", "b/500", "a/201", "b/201", "c/close", "c/201", "a/201"]).await;
    let fault = Outcome::Fault { status: 500 };
    let reset = Outcome::Unknown(Unknown::Reset);
    assert_eq!(ends, [sent(STORED), sent(fault), sent(STORED), EARLIER, sent(reset), EARLIER, sent(STORED)]);
    assert_eq!(bench.seen().len(), 5, "{:?}", bench.seen());
    let reported = bench.reported().await;
    let unsent: Vec<usize> =
        reported.iter().filter(|(_, outcome, _)| *outcome == Outcome::NotSent).map(|(place, ..)| *place).collect();
    assert_eq!((reported.len(), unsent), (7, vec![3, 5]));
}

#[tokio::test]
async fn what_is_no_events_fault_ends_all() {
    for (status, outcome) in [("429", Outcome::Throttled), ("401", Outcome::UpstreamAuth)] {
        let bench = Bench::new().await;
        let name = format!("a/{status}");
        let names = [name.as_str(), "a/201", "a/201"];
        let ends = bench.deliver(&names).await;
        assert_eq!(ends, [sent(outcome), STOPPED, STOPPED]);
        assert_eq!(bench.seen(), [name]);
        // More runs than workers: those that were not begun are left.
        let bench = Bench::new().await;
        let many: Vec<String> = (0..100).map(|run| format!("r{run}/{status}")).collect();
        let ends = bench.deliver(&many.iter().map(String::as_str).collect::<Vec<_>>()).await;
        let stopped = ends.iter().filter(|end| **end == STOPPED).count();
        assert!((100 - SIDE_BY_SIDE..100).contains(&stopped), "{stopped}");
        assert_eq!(bench.seen().len(), 100 - stopped);
        assert_eq!(bench.reported().await.len(), 100);
    }
}

#[tokio::test]
async fn at_most_so_many_runs_go_side_by_side_and_the_deadline_ends_the_rest() {
    let bench = Bench::with("3500ms", Duration::from_millis(300)).await;
    let names: Vec<String> = (0..40).map(|run| format!("r{run}/stall")).collect();
    let began = Instant::now();
    let ends = bench.deliver(&names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    let pending = sent(Outcome::Unknown(Unknown::Pending));
    assert_eq!(ends.iter().filter(|end| **end == pending).count(), SIDE_BY_SIDE);
    assert_eq!(ends.iter().filter(|end| **end == LATE).count(), names.len() - SIDE_BY_SIDE);
    assert_eq!(bench.seen().len(), SIDE_BY_SIDE);
}

#[tokio::test]
async fn nothing_is_begun_after_the_deadline() {
    let bench = Bench::with("3500ms", Duration::ZERO).await;
    assert_eq!(bench.deliver(&["a/201", "b/201"]).await, [LATE, LATE]);
    assert!(bench.seen().is_empty());
}

#[tokio::test]
async fn a_client_that_leaves_begins_nothing_more_and_cancels_no_exchange() {
    let bench = Bench::with("500ms", Duration::from_secs(60)).await;
    let names: Vec<String> = (0..12).map(|run| format!("r{run}/stall")).collect();
    let items = bench.items(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let deliverer = bench.deliverer.clone();
    let waiting = tokio::spawn(async move { deliverer.submit_batch(items, Instant::now()).await });
    while bench.seen().len() < SIDE_BY_SIDE {
        tokio::task::yield_now().await;
    }
    waiting.abort();
    assert!(waiting.await.unwrap_err().is_cancelled());
    let log = Arc::clone(&bench.seen);
    let reported = bench.reported().await;
    assert_eq!((reported.len(), lock(&log).len()), (SIDE_BY_SIDE, SIDE_BY_SIDE));
    for (_, outcome, answered) in reported {
        assert_eq!((outcome, answered), (Outcome::Unknown(Unknown::Timeout), Answered::ClientGone));
    }
}

#[tokio::test]
async fn a_batch_of_nothing_is_answered_at_once() {
    assert_eq!(Bench::new().await.deliver(&[]).await, []);
}

#[test]
fn chunks_keep_to_both_bounds_and_what_is_too_large_goes_alone() {
    let cut = |sizes: &[usize], events, bytes| -> Vec<Vec<usize>> {
        chunks(sizes, Bounds { events, bytes }).into_iter().map(Iterator::collect).collect()
    };
    assert_eq!(cut(&[], 3, 10), Vec::<Vec<usize>>::new());
    assert_eq!(cut(&[1, 1, 1, 1], 3, 10), [vec![0, 1, 2], vec![3]]);
    assert_eq!(cut(&[6, 4, 1, 9], 9, 10), [vec![0, 1], vec![2, 3]]);
    assert_eq!(cut(&[1, 99, 1, 1], 9, 10), [vec![0], vec![1], vec![2, 3]]);
    assert_eq!(cut(&[1, 1], 0, 0), [vec![0], vec![1]]);
}

proptest! {
    #[test]
    fn chunks_hold_every_event_once_in_order(
        sizes in prop::collection::vec(0_usize..50, 0..60),
        events in 1_usize..10,
        bytes in 0_usize..120,
    ) {
        let cut = chunks(&sizes, Bounds { events, bytes });
        let places: Vec<usize> = cut.iter().cloned().flatten().collect();
        prop_assert_eq!(places, (0..sizes.len()).collect::<Vec<_>>());
        for chunk in &cut {
            let held = chunk.len();
            let size: usize = sizes[chunk.clone()].iter().sum();
            prop_assert!((1..=events).contains(&held) && (size <= bytes || held == 1));
        }
    }

    #[test]
    fn groups_hold_every_item_once_and_keep_its_order(keys in prop::collection::vec(0_u8..6, 0..60)) {
        let groups = by_run(keys.iter().copied().enumerate().collect(), |(_, key)| *key);
        let mut all: Vec<(usize, u8)> = groups.iter().flatten().copied().collect();
        for group in &groups {
            prop_assert!(group.is_sorted_by(|a, b| a.0 < b.0 && a.1 == b.1));
        }
        let firsts: Vec<usize> = groups.iter().map(|group| group[0].0).collect();
        prop_assert!(firsts.is_sorted());
        all.sort_unstable();
        prop_assert_eq!(all, keys.into_iter().enumerate().collect::<Vec<_>>());
    }
}
