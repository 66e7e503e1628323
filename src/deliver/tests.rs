use std::future::{pending, poll_fn, ready};
use std::pin::pin;
use std::task::Poll;

use prometheus_client::registry::Registry;
use serde_json::json;
use tokio::sync::{mpsc, oneshot};

use super::*;
use crate::answer::{Durability, Unreachable};
use crate::upstream::fake;

const STORED: Outcome = Outcome::Accepted { edges: None, durability: Durability::Stored };
const PENDING: Outcome = Outcome::Unknown(Unknown::Pending);
const FAULT: Outcome = Outcome::Fault { status: 500 };

/// A deliverer with its metrics, and what its exchanges reported.
struct Bench {
    deliverer: Deliverer,
    registry: Registry,
    reports: mpsc::UnboundedReceiver<End>,
    report: mpsc::UnboundedSender<End>,
    folder: tempfile::TempDir,
}

/// An event of a caller, by number.
fn event(event: u8, caller: u8) -> Event {
    Event { key: EventKey([event; 32]), caller: CallerKey([caller; 16]) }
}

impl Bench {
    fn new() -> Self {
        Self::with(&json!({}))
    }

    /// A `file` upstream with more keys.
    fn with(keys: &serde_json::Value) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut upstream = json!({ "name": "u", "kind": "file", "path": folder.path().join("events.jsonl") });
        let more = keys.as_object().unwrap().clone();
        upstream.as_object_mut().unwrap().extend(more);
        Self::over(folder, upstream)
    }

    fn over(folder: tempfile::TempDir, upstream: serde_json::Value) -> Self {
        let config: config::Upstream = serde_json::from_value(upstream).unwrap();
        let upstream = Upstream::new(&config).unwrap();
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        let (report, reports) = mpsc::unbounded_channel();
        let deliverer = Deliverer::new(Arc::new(upstream), Settings::from(&config), metrics, Drain::new());
        Self { deliverer, registry, reports, report, folder }
    }

    fn report(&self) -> Report {
        let report = self.report.clone();
        Box::new(move |end| report.send(end).unwrap())
    }

    fn track(&self, exchange: impl Future<Output = Outcome> + Send + 'static) -> Handle {
        self.send(event(1, 1), exchange)
    }

    fn send(&self, event: Event, exchange: impl Future<Output = Outcome> + Send + 'static) -> Handle {
        self.deliverer.exchange(event, Instant::now(), self.report(), exchange)
    }

    /// Its outcome at once.
    async fn outcome(&self, event: Event, outcome: Outcome) -> Outcome {
        self.send(event, ready(outcome)).outcome().await
    }

    /// An exchange that ends when the sender is used.
    fn held(&self, event: Event) -> (oneshot::Sender<Outcome>, Handle) {
        let (end, ended) = oneshot::channel();
        (end, self.send(event, async move { ended.await.unwrap() }))
    }

    /// Waits until no exchange runs.
    async fn all_ended(&self) {
        let tasks = self.deliverer.shared.drain.tasks();
        tasks.close();
        tasks.wait().await;
    }

    /// The only report.
    async fn only_report(mut self) -> (Outcome, Answered) {
        let end = self.reports.recv().await.unwrap();
        self.all_ended().await;
        assert!(self.reports.try_recv().is_err(), "reported twice");
        (end.outcome, end.answered)
    }

    fn metrics(&self) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        text
    }

    #[track_caller]
    fn assert_metric(&self, line: &str) {
        let metrics = self.metrics();
        assert!(metrics.lines().any(|other| other == line), "{line} is not in {metrics}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_end_within_the_budget_is_the_answer() {
    let bench = Bench::new();
    let (end, handle) = bench.held(event(1, 1));
    tokio::task::yield_now().await;
    tokio::time::advance(Duration::from_secs(3)).await;
    end.send(STORED).unwrap();
    assert_eq!(handle.outcome().await, STORED);
    let metrics = bench.metrics();
    assert!(metrics.contains("upstream_requests_total{upstream=\"u\",outcome=\"accepted\"} 1"), "{metrics}");
    assert!(metrics.contains("upstream_seconds_sum{upstream=\"u\"} 3.0"), "{metrics}");
    assert!(metrics.contains("upstream_in_flight{upstream=\"u\"} 0"), "{metrics}");
    assert!(metrics.contains("deliver_late_total 0"), "{metrics}");
    assert!(metrics.contains("deliver_client_gone_total 0"), "{metrics}");
    assert_eq!(bench.only_report().await, (STORED, Answered::InTime));
}

#[tokio::test(start_paused = true)]
async fn after_the_budget_the_outcome_is_pending_and_the_exchange_goes_on() {
    let bench = Bench::new();
    let (end, handle) = bench.held(event(1, 1));
    let started = Instant::now();
    assert_eq!(handle.outcome().await, PENDING);
    let waited = started.elapsed();
    assert!(waited >= BUDGET && waited < BUDGET + Duration::from_millis(10), "{waited:?}");
    assert!(bench.metrics().contains("upstream_in_flight{upstream=\"u\"} 1"));
    end.send(STORED).unwrap();
    bench.all_ended().await;
    assert!(bench.metrics().contains("deliver_late_total 1"));
    assert_eq!(bench.only_report().await, (STORED, Answered::Late));
}

#[tokio::test(start_paused = true)]
async fn the_budget_runs_from_the_last_byte_of_the_body() {
    let bench = Bench::new();
    let received = Instant::now();
    tokio::time::advance(Duration::from_secs(3)).await;
    let (_end, ended) = oneshot::channel::<Outcome>();
    let handle = bench.deliverer.exchange(event(1, 1), received, bench.report(), async move { ended.await.unwrap() });
    assert_eq!(handle.outcome().await, PENDING);
    assert!(received.elapsed() < BUDGET + Duration::from_millis(10));
}

#[tokio::test(start_paused = true)]
async fn an_end_that_is_there_when_the_budget_is_over_is_the_answer() {
    let bench = Bench::new();
    let received = Instant::now();
    tokio::time::advance(BUDGET * 2).await;
    let handle = bench.deliverer.exchange(event(1, 1), received, bench.report(), ready(STORED));
    bench.all_ended().await;
    assert_eq!(handle.outcome().await, STORED);
    assert_eq!(bench.only_report().await, (STORED, Answered::InTime));
}

#[tokio::test]
async fn a_client_that_leaves_does_not_cancel_the_exchange() {
    let bench = Bench::new();
    let (end, handle) = bench.held(event(1, 1));
    drop(handle);
    end.send(Outcome::Throttled).unwrap();
    assert_eq!(bench.only_report().await, (Outcome::Throttled, Answered::ClientGone));
}

#[tokio::test]
async fn a_client_that_leaves_between_end_and_answer_is_gone() {
    let bench = Bench::new();
    let handle = bench.track(async { STORED });
    bench.all_ended().await;
    drop(handle);
    assert!(bench.metrics().contains("deliver_client_gone_total 1"));
    assert_eq!(bench.only_report().await, (STORED, Answered::ClientGone));
}

#[tokio::test]
async fn a_panic_in_an_exchange_is_a_fault_and_is_reported() {
    let bench = Bench::new();
    let handle = bench.track(async { panic!("as the test wants it") });
    assert_eq!(handle.outcome().await, FAULT);
    assert_eq!(bench.only_report().await, (FAULT, Answered::InTime));
}

#[tokio::test]
async fn a_drain_waits_for_running_exchanges() {
    let bench = Bench::new();
    let (end, handle) = bench.held(event(1, 1));
    drop(handle);
    let tasks = bench.deliverer.shared.drain.tasks().clone();
    tasks.close();
    let mut drained = pin!(tasks.wait());
    assert!(poll_fn(|cx| Poll::Ready(drained.as_mut().poll(cx).is_pending())).await);
    end.send(STORED).unwrap();
    drained.await;
    assert_eq!(bench.only_report().await, (STORED, Answered::ClientGone));
}

#[test]
fn an_exchange_that_a_stopping_runtime_drops_is_reported_as_pending() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut bench = Bench::new();
    let entered = runtime.enter();
    let handle = bench.track(pending());
    drop(entered);
    drop(runtime);
    drop(handle);
    let end = bench.reports.try_recv().unwrap();
    assert_eq!((end.outcome, end.answered), (PENDING, Answered::ClientGone));
}

#[tokio::test]
async fn a_submitted_event_reaches_the_upstream() {
    let bench = Bench::new();
    let handle = bench.deliverer.submit(fake::delivery("{ }"), Instant::now(), bench.report());
    assert_eq!(handle.outcome().await, STORED);
    assert_eq!(std::fs::read(bench.folder.path().join("events.jsonl")).unwrap(), b"{}\n");
    assert_eq!(bench.only_report().await, (STORED, Answered::InTime));
}

#[tokio::test]
async fn a_slow_backend_still_gets_and_answers_what_was_told_to_be_pending() {
    let (listener, port) = fake::listen().await;
    let url = format!("http://127.0.0.1:{port}");
    let json = json!({ "name": "slow", "kind": "openlineage", "url": url, "answer_within": "1ms" });
    let bench = Bench::over(tempfile::tempdir().unwrap(), json);
    let handle = bench.deliverer.submit(fake::delivery("{}"), Instant::now(), bench.report());
    assert_eq!(handle.outcome().await, PENDING);
    let (mut stream, _) = listener.accept().await.unwrap();
    assert_eq!(fake::read_request(&mut stream).await.unwrap().body, b"{}");
    fake::answer(&mut stream, 201, "", "").await;
    assert_eq!(bench.only_report().await, (STORED, Answered::Late));
}

#[tokio::test(start_paused = true)]
async fn a_resend_joins_the_exchange_and_gets_its_end() {
    let mut bench = Bench::new();
    let began = Instant::now();
    let late = async {
        tokio::time::sleep(Duration::from_secs(6)).await;
        STORED
    };
    assert_eq!(bench.track(late).outcome().await, PENDING);
    tokio::time::sleep_until(began + Duration::from_secs(5)).await;
    let resend = bench.track(async { panic!("sent twice") });
    assert_eq!(resend.outcome().await, STORED);
    assert_eq!(began.elapsed().as_secs(), 6);
    let [first, second] = [bench.reports.recv().await.unwrap(), bench.reports.recv().await.unwrap()];
    assert_eq!((first.answered, first.duplicate, first.told()), (Answered::Late, None, Some(PENDING)));
    assert_eq!((second.answered, second.duplicate), (Answered::InTime, Some(Duplicate::Joined)));
    assert_eq!(second.told(), Some(STORED));
    assert_eq!((first.took.as_secs(), second.took.as_secs()), (6, 1));
    bench.assert_metric("deliver_duplicates_total{upstream=\"u\",kind=\"joined\"} 1");
    bench.assert_metric("upstream_requests_total{upstream=\"u\",outcome=\"accepted\"} 1");
}

#[tokio::test(start_paused = true)]
async fn a_delivered_event_is_answered_from_memory_and_others_are_sent() {
    let mut bench = Bench::new();
    assert_eq!(bench.outcome(event(1, 1), STORED).await, STORED);
    assert_eq!(bench.track(async { panic!("sent twice") }).outcome().await, STORED);
    assert_eq!(bench.outcome(event(2, 1), Outcome::Throttled).await, Outcome::Throttled, "another event");
    assert_eq!(bench.outcome(event(2, 1), STORED).await, STORED, "only deliveries are remembered");
    let ends: Vec<_> = std::iter::from_fn(|| bench.reports.try_recv().ok()).map(|end| end.duplicate).collect();
    assert_eq!(ends, [None, Some(Duplicate::Remembered), None, None]);
    bench.assert_metric("deliver_duplicates_total{upstream=\"u\",kind=\"remembered\"} 1");
    bench.assert_metric("deliver_remembered{upstream=\"u\"} 2");
    tokio::time::advance(Duration::from_secs(600)).await;
    assert_eq!(bench.outcome(event(1, 1), Outcome::TooLarge).await, Outcome::TooLarge, "after its time it is sent");
}

#[tokio::test(start_paused = true)]
async fn with_deduplicate_off_nothing_is_joined_and_what_is_not_known_says_so() {
    let mut bench = Bench::with(&json!({ "deduplicate": "0s" }));
    let unwatched = Outcome::Unknown(Unknown::Unwatched);
    let (first, waiting) = bench.held(event(1, 1));
    let (second, resend) = bench.held(event(1, 1));
    second.send(STORED).unwrap();
    assert_eq!(resend.outcome().await, STORED);
    assert_eq!(waiting.outcome().await, unwatched);
    first.send(Outcome::Throttled).unwrap();
    bench.all_ended().await;
    assert_eq!(bench.reports.recv().await.unwrap().duplicate, None);
    let late = bench.reports.recv().await.unwrap();
    assert_eq!((late.told(), late.outcome), (Some(unwatched.clone()), Outcome::Throttled));
    for unknown in [Unknown::Timeout, Unknown::Reset] {
        assert_eq!(bench.outcome(event(1, 1), Outcome::Unknown(unknown)).await, unwatched);
    }
    assert_eq!(bench.outcome(event(1, 1), STORED).await, STORED);
    bench.assert_metric("deliver_remembered{upstream=\"u\"} 0");
}

#[tokio::test(start_paused = true)]
async fn who_joins_an_exchange_that_too_many_wait_for_is_told_so_at_once() {
    let bench = Bench::new();
    let (_end, _first) = bench.held(event(1, 1));
    let _more: Vec<_> = (1..duplicates::WAITERS).map(|_| bench.track(pending())).collect();
    let began = Instant::now();
    assert_eq!(bench.track(pending()).outcome().await, PENDING);
    assert_eq!(began.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_and_a_place_that_never_comes_are_not_sent_within_the_budget() {
    let bench = Bench::with(&json!({ "concurrency": 1, "queue": 4 }));
    let (end, first) = bench.held(event(1, 1));
    tokio::task::yield_now().await;
    let began = Instant::now();
    let waits = bench.send(event(2, 1), pending());
    tokio::task::yield_now().await;
    assert_eq!(bench.outcome(event(3, 1), STORED).await, Outcome::NotSent, "over the caller's share");
    assert_eq!(began.elapsed(), Duration::ZERO);
    bench.assert_metric("deliver_queued{upstream=\"u\"} 1");
    assert_eq!(waits.outcome().await, Outcome::NotSent);
    assert!(began.elapsed() < BUDGET, "{:?}", began.elapsed());
    end.send(STORED).unwrap();
    assert_eq!(first.outcome().await, STORED);
    assert_eq!(bench.outcome(event(3, 1), STORED).await, STORED);
    bench.assert_metric("deliver_unsent_total{upstream=\"u\",why=\"queue\"} 2");
    bench.assert_metric("deliver_queued{upstream=\"u\"} 0");
}

#[tokio::test(start_paused = true)]
async fn no_more_exchanges_run_at_once_than_the_backend_takes() {
    let bench = Bench::with(&json!({ "concurrency": 2, "queue": 100 }));
    let running = Arc::new(AtomicU64::new(0));
    let handles: Vec<_> = (0..20)
        .map(|number| {
            let running = Arc::clone(&running);
            bench.send(event(number, number % 5), async move {
                assert!(running.fetch_add(1, Ordering::Relaxed) < 2);
                tokio::time::sleep(Duration::from_millis(100)).await;
                running.fetch_sub(1, Ordering::Relaxed);
                STORED
            })
        })
        .collect();
    for handle in handles {
        assert_eq!(handle.outcome().await, STORED);
    }
}

#[tokio::test(start_paused = true)]
async fn an_open_breaker_answers_at_once_and_a_trial_closes_it() {
    let bench = Bench::new();
    let refused = Outcome::Unreachable(Unreachable::Connect);
    for number in 0..5 {
        assert_eq!(bench.outcome(event(number, 1), refused.clone()).await, refused);
    }
    assert_eq!(bench.deliverer.breaker(), "open");
    assert_eq!(bench.outcome(event(9, 1), STORED).await, Outcome::NotSent);
    bench.assert_metric("deliver_unsent_total{upstream=\"u\",why=\"breaker\"} 1");
    bench.assert_metric("deliver_breaker{upstream=\"u\",state=\"open\"} 1");
    bench.assert_metric("deliver_breaker{upstream=\"u\",state=\"closed\"} 0");
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(bench.outcome(event(9, 1), STORED).await, STORED);
    assert_eq!(bench.deliverer.breaker(), "closed");
}

#[tokio::test(start_paused = true)]
async fn failures_of_a_backend_whose_health_check_passes_open_nothing() {
    let bench = Bench::new();
    for number in 0..50 {
        assert_eq!(bench.outcome(event(number, number), FAULT).await, FAULT);
    }
    bench.all_ended().await;
    assert_eq!(bench.deliverer.breaker(), "closed");
    bench.assert_metric("deliver_health_checks_total{upstream=\"u\",result=\"healthy\"} 1");
}

#[tokio::test]
async fn failures_for_several_callers_of_a_backend_whose_health_check_fails_open_it() {
    let (_held, port) = fake::closed_port();
    let json = json!({ "name": "u", "kind": "openlineage", "url": format!("http://127.0.0.1:{port}") });
    let bench = Bench::over(tempfile::tempdir().unwrap(), json);
    for number in 0..5 {
        assert_eq!(bench.outcome(event(number, number % 2), FAULT).await, FAULT);
    }
    bench.all_ended().await;
    assert_eq!(bench.deliverer.breaker(), "open");
    bench.assert_metric("deliver_health_checks_total{upstream=\"u\",result=\"unhealthy\"} 1");
    assert_eq!(bench.outcome(event(9, 1), STORED).await, Outcome::NotSent);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_fails_again_while_others_pass_is_poison() {
    let bench = Bench::new();
    assert_eq!(bench.outcome(event(1, 1), FAULT).await, FAULT);
    assert_eq!(bench.outcome(event(1, 1), FAULT).await, FAULT, "nothing passed in between");
    assert_eq!(bench.outcome(event(2, 1), STORED).await, STORED);
    assert_eq!(bench.outcome(event(1, 1), FAULT).await, Outcome::Poison);
    bench.assert_metric("deliver_poison_total{upstream=\"u\"} 1");
    assert_eq!(bench.outcome(event(1, 1), STORED).await, STORED, "it may still pass");
}

#[tokio::test(start_paused = true)]
async fn an_exchange_is_given_up_when_the_drain_is() {
    let mut bench = Bench::new();
    let (_end, handle) = bench.held(event(1, 1));
    drop(handle);
    let bounds = config::Drain { grace: config::Span::secs(0), deadline: config::Span::secs(20) };
    let began = Instant::now();
    assert_eq!(bench.deliverer.shared.drain.run(&bounds).await, 1);
    assert_eq!(began.elapsed().as_secs(), 20);
    assert_eq!(bench.reports.recv().await.unwrap().outcome, PENDING);
}
