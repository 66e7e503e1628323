//! Where records go.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use tokio::time::Instant;

use super::file::{LineFile, whole_lines};
use super::record::Record;
use crate::config::{self, AuditOutput};
use crate::observe::lines::{Lines, write_whole};

const COMPLAINT_PAUSE: Duration = Duration::from_secs(1);

/// The audit log.
///
/// At most 8,192 records or 8 MiB of them wait for a slow output; what is over that is lost, and counted.
#[derive(Debug)]
pub struct Audit {
    lines: Option<Lines>,
    max_datasets: usize,
    metrics: Metrics,
    complaints: Complaints,
}

/// Why there is no audit log.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be opened.
    #[error("audit.output: cannot open {path} to append to it: {source}; its folder must exist and be writable")]
    File {
        /// Which file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Standard output cannot be used.
    #[error("audit.output: cannot use standard output: {0}")]
    Stdout(io::Error),
    /// The system gives no thread for it.
    #[error("cannot start the thread that writes the audit log: {0}")]
    Thread(#[from] io::Error),
}

/// What is counted of the audit log.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    written: Counter,
    lost: Family<LostLabels, Counter>,
    write_errors: Counter,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LostLabels {
    reason: &'static str,
}

/// Lets a complaint through at most once a second.
#[derive(Debug, Default)]
struct Complaints {
    last: Mutex<Option<Instant>>,
}

impl Audit {
    /// Opens the output. `off` opens nothing, and costs nothing later.
    ///
    /// # Errors
    /// The file cannot be opened, or the system gives no thread.
    pub fn open(config: &config::Audit, metrics: Metrics) -> Result<Self, Error> {
        let lines = match &config.output {
            AuditOutput::Off => None,
            AuditOutput::Stdout => {
                let mut stdout = File::from(io::stdout().as_fd().try_clone_to_owned().map_err(Error::Stdout)?);
                Some(start(metrics.clone(), move |batch| write_lines(&mut stdout, batch))?)
            }
            AuditOutput::File(path) => {
                let opened = LineFile::open(path.clone());
                let mut file = opened.map_err(|source| Error::File { path: path.clone(), source })?;
                Some(start(metrics.clone(), move |batch| file.append(batch))?)
            }
        };
        Ok(Self { lines, max_datasets: config.max_datasets, metrics, complaints: Complaints::default() })
    }

    /// How many datasets a record lists: for [`super::EventPart::of`].
    pub fn max_datasets(&self) -> usize {
        self.max_datasets
    }

    /// Queues a record; never waits.
    pub fn write(&self, record: &Record) {
        let Some(lines) = &self.lines else { return };
        let mut line = Vec::with_capacity(1_024);
        if let Err(error) = serde_json::to_writer(&mut line, record) {
            self.metrics.lost("not_json").inc();
            self.complain(&error.to_string());
            return;
        }
        line.push(b'\n');
        if !lines.push(&line) {
            self.metrics.lost("queue_full").inc();
            self.complain("its output is too slow: more records wait than are kept");
        }
    }

    /// Waits until all records queued before are written or lost, or `longest` is over. Tells which.
    pub async fn flush(&self, longest: Duration) -> bool {
        let Some(lines) = &self.lines else { return true };
        let flusher = lines.flusher();
        tokio::task::spawn_blocking(move || flusher(longest)).await.unwrap_or(false)
    }

    fn complain(&self, why: &str) {
        if self.complaints.allow() {
            tracing::error!(
                why,
                "audit records are lost; see the metric audit_lost, and audit.output in the configuration"
            );
        }
    }
}

fn start(
    metrics: Metrics,
    mut write: impl FnMut(&[u8]) -> Result<(), (usize, io::Error)> + Send + 'static,
) -> io::Result<Lines> {
    let complaints = Arc::new(Complaints::default());
    Lines::start("audit", move |batch, lines| {
        let lines = lines as u64;
        let Err((written, error)) = write(batch) else {
            metrics.written.inc_by(lines);
            return;
        };
        let done = count_lines(batch.get(..written).unwrap_or_default());
        metrics.write_errors.inc();
        metrics.written.inc_by(done);
        metrics.lost("write_failed").inc_by(lines.saturating_sub(done));
        if complaints.allow() {
            tracing::error!(%error, "audit records cannot be written and are lost; it is tried again with the next one");
        }
    })
}

fn write_lines(output: &mut File, batch: &[u8]) -> Result<(), (usize, io::Error)> {
    write_whole(output, batch).map_err(|(written, error)| (whole_lines(batch, written), error))
}

fn count_lines(batch: &[u8]) -> u64 {
    batch.iter().filter(|byte| **byte == b'\n').count() as u64
}

impl Complaints {
    fn allow(&self) -> bool {
        let now = Instant::now();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let allowed = last.is_none_or(|last| now.duration_since(last) >= COMPLAINT_PAUSE);
        if allowed {
            *last = Some(now);
        }
        allowed
    }
}

impl Metrics {
    /// Registers `audit_records`, `audit_lost` and `audit_write_errors`.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register("audit_records", "Audit records written", metrics.written.clone());
        registry.register("audit_lost", "Audit records lost, by reason", metrics.lost.clone());
        registry.register("audit_write_errors", "Failed writes of audit records", metrics.write_errors.clone());
        metrics
    }

    fn lost(&self, reason: &'static str) -> Counter {
        self.lost.get_or_create_owned(&LostLabels { reason })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::observe::lines::MAX_LINES;

    const LONG: Duration = Duration::from_secs(60);

    fn record(id: usize) -> Record {
        Record::new(jiff::Timestamp::UNIX_EPOCH, id.to_string(), "main".into(), "127.0.0.1:1".to_owned())
    }

    fn audit(output: AuditOutput) -> Result<Audit, Error> {
        Audit::open(&config::Audit { output, max_datasets: 5 }, Metrics::default())
    }

    #[tokio::test]
    async fn a_flush_leaves_every_record_in_the_file_as_a_line_of_json() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("audit.jsonl");
        let audit = audit(AuditOutput::File(path.clone())).expect("opened");
        (0..3_000).for_each(|id| audit.write(&record(id)));
        assert!(audit.flush(LONG).await);
        let text = std::fs::read_to_string(path).expect("read");
        let ids: Vec<String> = text
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"))
            .map(|record| record["request_id"].as_str().expect("a text").to_owned())
            .collect();
        assert_eq!(ids, (0..3_000).map(|id| id.to_string()).collect::<Vec<_>>());
        assert_eq!(audit.metrics.written.get(), 3_000);
        assert_eq!(audit.max_datasets(), 5);
    }

    #[tokio::test]
    async fn off_starts_nothing_and_writes_nothing() {
        let audit = audit(AuditOutput::Off).expect("opened");
        audit.write(&record(1));
        assert!(audit.flush(Duration::ZERO).await);
        assert_eq!(audit.metrics.written.get(), 0);
    }

    #[test]
    fn a_file_that_cannot_be_opened_is_named() {
        let error = audit(AuditOutput::File("/nonexistent/audit.jsonl".into())).expect_err("no folder");
        assert!(error.to_string().starts_with("audit.output: cannot open /nonexistent/audit.jsonl"), "{error}");
    }

    #[tokio::test]
    async fn records_that_a_stuck_output_cannot_take_are_counted_as_lost() {
        let (open, gate) = mpsc::channel::<()>();
        let (started, batches) = mpsc::channel();
        let metrics = Metrics::default();
        let lines = start(metrics.clone(), move |_| {
            started.send(()).ok();
            gate.recv().ok();
            Ok(())
        });
        let lines = Some(lines.expect("a thread"));
        let audit = Audit { lines, max_datasets: 5, metrics, complaints: Complaints::default() };
        audit.write(&record(0));
        batches.recv().expect("the thread is stuck");
        (0..MAX_LINES + 7).for_each(|id| audit.write(&record(id)));
        assert_eq!(audit.metrics.lost("queue_full").get(), 7);
        drop(open);
        assert!(audit.flush(LONG).await);
        assert_eq!(audit.metrics.written.get(), MAX_LINES as u64 + 1);
    }

    #[tokio::test]
    async fn failed_writes_are_counted_and_the_next_batch_is_tried_again() {
        let metrics = Metrics::default();
        let mut works = false;
        let lines = start(metrics.clone(), move |_| {
            let result = if works { Ok(()) } else { Err((0, io::Error::from(io::ErrorKind::StorageFull))) };
            works = true;
            result
        });
        let lines = Some(lines.expect("a thread"));
        let audit = Audit { lines, max_datasets: 5, metrics, complaints: Complaints::default() };
        for id in 0..2 {
            audit.write(&record(id));
            assert!(audit.flush(LONG).await);
        }
        assert_eq!(audit.metrics.lost("write_failed").get(), 1);
        assert_eq!(audit.metrics.write_errors.get(), 1);
        assert_eq!(audit.metrics.written.get(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_complaint_comes_at_most_once_a_second() {
        let complaints = Complaints::default();
        assert!(complaints.allow());
        assert!(!complaints.allow());
        tokio::time::advance(COMPLAINT_PAUSE).await;
        assert!(complaints.allow());
        assert!(!complaints.allow());
    }
}
