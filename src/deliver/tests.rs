use prometheus_client::registry::Registry;
use tokio::sync::mpsc;

use crate::answer::Durability;
use crate::upstream::fake;

use super::*;

const STORED: Outcome = Outcome::Accepted { edges: None, durability: Durability::Stored };

/// A deliverer with its metrics, and what its exchanges reported.
struct Bench {
    deliverer: Deliverer,
    registry: Registry,
    reports: mpsc::UnboundedReceiver<(Outcome, Duration, Answered)>,
    report: mpsc::UnboundedSender<(Outcome, Duration, Answered)>,
    _folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        Self::over(folder, serde_json::json!({ "name": "u", "kind": "file", "path": path }))
    }

    fn over(folder: tempfile::TempDir, upstream: serde_json::Value) -> Self {
        let upstream = Upstream::new(&serde_json::from_value(upstream).unwrap()).unwrap();
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        let (report, reports) = mpsc::unbounded_channel();
        let deliverer = Deliverer::new(Arc::new(upstream), BUDGET, metrics, TaskTracker::new());
        Self { deliverer, registry, reports, report, _folder: folder }
    }

    fn report(&self) -> Report {
        let report = self.report.clone();
        Box::new(move |outcome, took, answered| report.send((outcome, took, answered)).unwrap())
    }

    fn track(&self, exchange: impl Future<Output = Outcome> + Send + 'static) -> Handle {
        self.deliverer.track(exchange, Instant::now(), self.report())
    }

    /// An exchange that ends when the sender is used.
    fn held(&self) -> (oneshot::Sender<Outcome>, Handle) {
        let (end, ended) = oneshot::channel();
        (end, self.track(async move { ended.await.unwrap() }))
    }

    /// The only report.
    async fn only_report(mut self) -> (Outcome, Answered) {
        let (outcome, _, answered) = self.reports.recv().await.unwrap();
        self.deliverer.tasks.close();
        self.deliverer.tasks.wait().await;
        assert!(self.reports.try_recv().is_err(), "reported twice");
        (outcome, answered)
    }

    fn metrics(&self) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        text
    }
}

#[tokio::test(start_paused = true)]
async fn an_end_within_the_budget_is_the_answer() {
    let bench = Bench::new();
    let (end, handle) = bench.held();
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
    let (end, handle) = bench.held();
    let started = Instant::now();
    assert_eq!(handle.outcome().await, Outcome::Unknown(Unknown::Pending));
    let waited = started.elapsed();
    assert!(waited >= BUDGET && waited < BUDGET + Duration::from_millis(10), "{waited:?}");
    assert!(bench.metrics().contains("upstream_in_flight{upstream=\"u\"} 1"));
    end.send(STORED).unwrap();
    bench.deliverer.tasks.close();
    bench.deliverer.tasks.wait().await;
    assert!(bench.metrics().contains("deliver_late_total 1"));
    assert_eq!(bench.only_report().await, (STORED, Answered::Late));
}

#[tokio::test(start_paused = true)]
async fn the_budget_runs_from_the_last_byte_of_the_body() {
    let bench = Bench::new();
    let received = Instant::now();
    tokio::time::advance(Duration::from_secs(3)).await;
    let (_end, ended) = oneshot::channel::<Outcome>();
    let handle = bench.deliverer.track(async move { ended.await.unwrap() }, received, bench.report());
    assert_eq!(handle.outcome().await, Outcome::Unknown(Unknown::Pending));
    assert!(received.elapsed() < BUDGET + Duration::from_millis(10));
}

#[tokio::test(start_paused = true)]
async fn an_end_that_is_there_when_the_budget_is_over_is_the_answer() {
    let bench = Bench::new();
    let received = Instant::now();
    tokio::time::advance(BUDGET * 2).await;
    let handle = bench.deliverer.track(async { STORED }, received, bench.report());
    bench.deliverer.tasks.close();
    bench.deliverer.tasks.wait().await;
    assert_eq!(handle.outcome().await, STORED);
    assert_eq!(bench.only_report().await, (STORED, Answered::InTime));
}

#[tokio::test]
async fn a_client_that_leaves_does_not_cancel_the_exchange() {
    let bench = Bench::new();
    let (end, handle) = bench.held();
    drop(handle);
    end.send(Outcome::Throttled).unwrap();
    assert_eq!(bench.only_report().await, (Outcome::Throttled, Answered::ClientGone));
}

#[tokio::test]
async fn a_client_that_leaves_between_end_and_answer_is_gone() {
    let bench = Bench::new();
    let handle = bench.track(async { STORED });
    bench.deliverer.tasks.close();
    bench.deliverer.tasks.wait().await;
    drop(handle);
    assert!(bench.metrics().contains("deliver_client_gone_total 1"));
    assert_eq!(bench.only_report().await, (STORED, Answered::ClientGone));
}

#[tokio::test]
async fn a_panic_in_an_exchange_is_a_fault_and_is_reported() {
    let bench = Bench::new();
    let handle = bench.track(async { panic!("as the test wants it") });
    assert_eq!(handle.outcome().await, Outcome::Fault { status: 500 });
    assert_eq!(bench.only_report().await, (Outcome::Fault { status: 500 }, Answered::InTime));
}

#[tokio::test]
async fn a_drain_waits_for_running_exchanges() {
    let bench = Bench::new();
    let (end, handle) = bench.held();
    drop(handle);
    bench.deliverer.tasks.close();
    let tasks = bench.deliverer.tasks.clone();
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
    let handle = bench.track(std::future::pending());
    drop(entered);
    drop(runtime);
    drop(handle);
    let (outcome, _, answered) = bench.reports.try_recv().unwrap();
    assert_eq!((outcome, answered), (Outcome::Unknown(Unknown::Pending), Answered::ClientGone));
}

#[tokio::test]
async fn a_submitted_event_reaches_the_upstream() {
    let bench = Bench::new();
    let handle = bench.deliverer.submit(fake::delivery("{ }"), Instant::now(), bench.report());
    assert_eq!(handle.outcome().await, STORED);
    assert_eq!(std::fs::read(bench._folder.path().join("events.jsonl")).unwrap(), b"{}\n");
    assert_eq!(bench.only_report().await, (STORED, Answered::InTime));
}

#[tokio::test]
async fn a_slow_backend_still_gets_and_answers_what_was_told_to_be_pending() {
    let (listener, port) = fake::listen().await;
    let url = format!("http://127.0.0.1:{port}");
    let json = serde_json::json!({ "name": "slow", "kind": "openlineage", "url": url });
    let mut bench = Bench::over(tempfile::tempdir().unwrap(), json);
    bench.deliverer.budget = Duration::ZERO;
    let handle = bench.deliverer.submit(fake::delivery("{}"), Instant::now(), bench.report());
    assert_eq!(handle.outcome().await, Outcome::Unknown(Unknown::Pending));
    let (mut stream, _) = listener.accept().await.unwrap();
    assert_eq!(fake::read_request(&mut stream).await.unwrap().body, b"{}");
    fake::answer(&mut stream, 201, "", "").await;
    assert_eq!(bench.only_report().await, (STORED, Answered::Late));
}
