//! Events appended to a file, one JSON document a line, each durable before its yes.
//!
//! One thread writes. It takes whatever is queued, writes it with one call and makes it durable with one `fdatasync`,
//! then answers all of it: the more callers wait, the more share a sync. The queue is bounded, in events and in
//! bytes; a full one is [`Outcome::NotSent`].
//!
//! The file is made with mode 0600 and locked, so that two gates do not mix their lines. It may be moved away while the
//! gate runs (log rotation): the next batch makes a new one.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use crate::answer::{Durability, Outcome, Unknown};
use crate::config;
use crate::event;

use self::log::Log;
use super::Error;

mod log;

#[cfg(test)]
mod tests;

/// Events that may wait for the disk.
const QUEUE: usize = 1_024;

/// Bytes of events that may wait for the disk. A longer event waits until it is alone.
const QUEUE_BYTES: usize = 64 << 20;

/// Bytes after which a batch takes no further event.
const BATCH: usize = 8 << 20;

/// The file, its queue and its writer.
pub(super) struct FileLog {
    queue: Option<mpsc::Sender<Entry>>,
    room: Arc<Semaphore>,
    writer: Option<JoinHandle<()>>,
    timeout: Duration,
}

/// One event that waits for the disk.
struct Entry {
    line: Vec<u8>,
    done: oneshot::Sender<Outcome>,
    /// Given back when the event is written.
    room: OwnedSemaphorePermit,
}

impl FileLog {
    /// Opens or makes the file, repairs a line that a crash tore, and starts the writer.
    pub(super) fn open(config: &config::Upstream) -> Result<Self, Error> {
        let path = config.path.clone().unwrap_or_default();
        let log = Log::open(&path)?;
        let (queue, entries) = mpsc::channel(QUEUE);
        let writer = start_writer(log, entries, path)?;
        Ok(Self { queue: Some(queue), room: room(), writer: Some(writer), timeout: config.timeout.0 })
    }

    /// Appends one event. After the timeout it may still be written: the outcome is then not known.
    pub(super) async fn append(&self, body: &Bytes) -> Outcome {
        let bytes = u32::try_from(body.len().min(QUEUE_BYTES)).unwrap_or(u32::MAX);
        let Ok(room) = Arc::clone(&self.room).try_acquire_many_owned(bytes) else {
            return Outcome::NotSent;
        };
        let (done, outcome) = oneshot::channel();
        let entry = Entry { line: one_line(body), done, room };
        let sent = self.queue.as_ref().map(|queue| queue.try_send(entry));
        match sent {
            Some(Ok(())) => {}
            Some(Err(mpsc::error::TrySendError::Full(_))) => return Outcome::NotSent,
            Some(Err(mpsc::error::TrySendError::Closed(_))) | None => return Outcome::Fault { status: 500 },
        }
        match tokio::time::timeout(self.timeout, outcome).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Outcome::Fault { status: 500 },
            Err(_) => Outcome::Unknown(Unknown::Timeout),
        }
    }
}

impl Drop for FileLog {
    /// What is queued is written before the process ends, and the lock is free afterwards.
    fn drop(&mut self) {
        self.queue.take();
        if let Some(writer) = self.writer.take()
            && writer.join().is_err()
        {
            tracing::error!("the writer of the event file had ended with a panic");
        }
    }
}

fn room() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(QUEUE_BYTES))
}

fn start_writer(mut log: Log, mut entries: mpsc::Receiver<Entry>, path: PathBuf) -> Result<JoinHandle<()>, Error> {
    let run = move || {
        while let Some(first) = entries.blocking_recv() {
            let batch = take_batch(first, &mut entries);
            write(&mut log, batch);
        }
    };
    let thread = std::thread::Builder::new().name("event-file".to_owned());
    thread.spawn(run).map_err(|source| Error::Open { path, source })
}

fn take_batch(first: Entry, entries: &mut mpsc::Receiver<Entry>) -> Vec<Entry> {
    let mut bytes = first.line.len();
    let mut batch = vec![first];
    while bytes < BATCH
        && let Ok(entry) = entries.try_recv()
    {
        bytes += entry.line.len();
        batch.push(entry);
    }
    batch
}

/// Writes a batch and answers each of its events. A caller that no longer waits is no fault.
fn write(log: &mut Log, batch: Vec<Entry>) {
    let lines: Vec<&[u8]> = batch.iter().map(|entry| entry.line.as_slice()).collect();
    let outcome = match log.append(&lines.concat()) {
        Ok(()) => Outcome::Accepted { edges: None, durability: Durability::Stored },
        Err(error) => {
            tracing::error!(path = %log.path().display(), events = batch.len(), %error, "events could not be written");
            Outcome::Fault { status: status(&error) }
        }
    };
    for entry in batch {
        drop(entry.room);
        entry.done.send(outcome.clone()).ok();
    }
}

/// 507 where there is no room, as WebDAV says it (RFC 4918 section 11.5); 500 for everything else.
fn status(error: &Error) -> u16 {
    use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    let full = matches!(error, Error::Open { source, .. }
        if matches!(source.kind(), StorageFull | QuotaExceeded | FileTooLarge));
    if full { 507 } else { 500 }
}

/// The document without white space between its tokens, and a line feed at its end.
fn one_line(body: &[u8]) -> Vec<u8> {
    let mut line = event::minified(body);
    line.push(b'\n');
    line
}
