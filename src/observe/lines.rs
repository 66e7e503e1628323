//! Lines handed to a thread of their own that writes them, so that a slow pipe or disk stops nobody else.
//!
//! The queue is one buffer: a writer appends under a short lock, the thread takes the whole buffer at once. That makes
//! batches by itself, and costs no allocation a line.

use std::io::{self, ErrorKind, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Lines that wait at most.
pub(super) const MAX_LINES: usize = 8_192;
/// Bytes that wait at most.
pub(super) const MAX_BYTES: usize = 8 << 20;

/// A buffer that a burst made larger than this is given back.
const KEPT_BYTES: usize = 256 << 10;
const FULL_PIPE_PAUSE: Duration = Duration::from_millis(10);

/// The queue of one output. Dropping it lets the thread write what is queued and end.
#[derive(Debug)]
pub(super) struct Lines {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    filled: Condvar,
    written: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    buffer: Vec<u8>,
    lines: usize,
    /// Lines ever taken in.
    accepted: u64,
    /// Lines ever written or given up.
    done: u64,
    closed: bool,
}

impl Lines {
    /// Starts the thread. `write` gets whole lines, and how many; what it cannot write is lost.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(super) fn start(name: &str, mut write: impl FnMut(&[u8], usize) + Send + 'static) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let worker = Arc::clone(&shared);
        std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            let mut batch = Vec::new();
            while let Some(lines) = worker.take(&mut batch) {
                write(&batch, lines);
                worker.finish(lines);
                batch.clear();
                batch.shrink_to(KEPT_BYTES);
            }
        })?;
        Ok(Self { shared })
    }

    /// Queues a line, which ends with a newline. False: the queue is full, and the line is lost.
    pub(super) fn push(&self, line: &[u8]) -> bool {
        let mut queue = self.shared.lock();
        let was_empty = queue.lines == 0;
        if !was_empty && (queue.lines >= MAX_LINES || queue.buffer.len() + line.len() > MAX_BYTES) {
            return false;
        }
        queue.buffer.extend_from_slice(line);
        queue.lines += 1;
        queue.accepted += 1;
        drop(queue);
        if was_empty {
            self.shared.filled.notify_one();
        }
        true
    }

    /// Waits until all lines queued before are written or given up, or `longest` is over. Tells which; blocks.
    pub(super) fn flush(&self, longest: Duration) -> bool {
        self.flusher()(longest)
    }

    /// [`Lines::flush`] of what is queued now, to be waited for elsewhere.
    pub(super) fn flusher(&self) -> impl FnOnce(Duration) -> bool + Send + 'static {
        let shared = Arc::clone(&self.shared);
        let target = shared.lock().accepted;
        move |longest| {
            let waited = shared.written.wait_timeout_while(shared.lock(), longest, |queue| queue.done < target);
            let (queue, _) = waited.unwrap_or_else(PoisonError::into_inner);
            queue.done >= target
        }
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.filled.notify_one();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for lines and swaps them into `batch`. None: closed, and all is taken.
    fn take(&self, batch: &mut Vec<u8>) -> Option<usize> {
        let waited = self.filled.wait_while(self.lock(), |queue| queue.lines == 0 && !queue.closed);
        let mut queue = waited.unwrap_or_else(PoisonError::into_inner);
        if queue.lines == 0 {
            return None;
        }
        std::mem::swap(&mut queue.buffer, batch);
        Some(std::mem::take(&mut queue.lines))
    }

    fn finish(&self, lines: usize) {
        self.lock().done += lines as u64;
        self.written.notify_all();
    }
}

/// Writes all of `bytes`, or says how many went out before the error. Waits on a full pipe that another process made
/// non-blocking. Only for a thread of its own.
pub(super) fn write_whole(output: &mut impl Write, bytes: &[u8]) -> Result<(), (usize, io::Error)> {
    let mut written = 0;
    while let Some(rest) = bytes.get(written..).filter(|rest| !rest.is_empty()) {
        match output.write(rest) {
            Ok(0) => return Err((written, ErrorKind::WriteZero.into())),
            Ok(count) => written += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::park_timeout(FULL_PIPE_PAUSE),
            Err(error) => return Err((written, error)),
        }
    }
    output.flush().map_err(|error| (written, error))
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::sync::mpsc;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    /// An output that takes a batch only when the test lets it.
    fn gated() -> (Lines, mpsc::Sender<()>, mpsc::Receiver<Vec<u8>>) {
        let (open, gate) = mpsc::channel();
        let (started, batches) = mpsc::channel();
        let lines = Lines::start("test", move |batch: &[u8], lines| {
            assert_eq!(count(batch), lines);
            started.send(batch.to_vec()).expect("the test listens");
            gate.recv().ok();
        });
        (lines.expect("a thread"), open, batches)
    }

    fn count(batch: &[u8]) -> usize {
        batch.iter().filter(|byte| **byte == b'\n').count()
    }

    #[test]
    fn lines_keep_their_order_and_a_flush_waits_for_all_of_them() {
        let (sent, received) = mpsc::channel();
        let lines = Lines::start("test", move |batch: &[u8], _| sent.send(batch.to_vec()).expect("the test listens"));
        let lines = lines.expect("a thread");
        for number in 0..1_000 {
            assert!(lines.push(format!("{number}\n").as_bytes()));
        }
        assert!(lines.flush(LONG));
        let expected: String = (0..1_000).map(|number| format!("{number}\n")).collect();
        assert_eq!(received.try_iter().flatten().collect::<Vec<_>>(), expected.as_bytes());
    }

    #[test]
    fn a_stuck_output_loses_lines_over_the_bound_and_blocks_nobody() {
        let (lines, open, batches) = gated();
        assert!(lines.push(b"first\n"));
        assert_eq!(count(&batches.recv().expect("a batch")), 1);
        let accepted = (0..2 * MAX_LINES).filter(|_| lines.push(b"x\n")).count();
        assert_eq!(accepted, MAX_LINES);
        assert!(!lines.flush(Duration::from_millis(1)), "nothing was written yet");
        drop(open);
        assert!(lines.flush(LONG));
        assert_eq!(count(&batches.recv().expect("a batch")), MAX_LINES);
        assert!(lines.push(b"room again\n"));
    }

    #[test]
    fn bytes_are_bounded_too_but_one_line_of_any_size_passes() {
        let (lines, open, batches) = gated();
        assert!(lines.push(b"first\n"));
        batches.recv().expect("a batch");
        let mut long = vec![b'x'; MAX_BYTES];
        long.push(b'\n');
        assert!(lines.push(&long));
        assert!(!lines.push(b"y\n"));
        drop(open);
        assert!(lines.flush(LONG));
    }

    #[test]
    fn what_is_queued_is_written_after_the_last_handle_is_gone() {
        let (lines, open, batches) = gated();
        assert!(lines.push(b"first\n"));
        batches.recv().expect("a batch");
        assert!(lines.push(b"second\n"));
        drop(lines);
        drop(open);
        assert_eq!(batches.recv().expect("a batch"), b"second\n");
        assert!(batches.recv().is_err(), "the thread has ended");
    }

    #[test]
    fn a_full_non_blocking_pipe_is_waited_for() {
        let (mut reader, writer) = std::os::unix::net::UnixStream::pair().expect("a pair");
        writer.set_nonblocking(true).expect("a socket");
        let bytes = vec![b'x'; 4 << 20];
        let writing = std::thread::spawn(move || write_whole(&mut &writer, &bytes).map_err(|(_, error)| error));
        let mut received = vec![0; 4 << 20];
        reader.read_exact(&mut received).expect("all bytes");
        writing.join().expect("no panic").expect("all written");
    }

    #[test]
    fn an_error_tells_how_much_went_out() {
        let mut space = [0_u8; 4];
        let (written, error) = write_whole(&mut space.as_mut_slice(), b"123456").expect_err("no room");
        assert_eq!((written, error.kind()), (4, ErrorKind::WriteZero));
    }
}
