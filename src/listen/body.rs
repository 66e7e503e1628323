//! Bodies in and out, and what becomes of a request body that nobody read to its end.
//!
//! An answer that is sent before the request's body was read must still reach the client. Over HTTP/2, curl 7.88
//! reports a stream error when the body is dropped with the answer; over HTTP/1.1, closing a socket with unread bytes
//! in it resets the connection and can destroy the answer on its way. So the rest of the body lingers: for a short
//! time it is read and dropped, while the client reads its answer.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::drain::Drain;
use super::metrics::Metrics;

/// How long a client may go on sending a body that was answered already.
const LINGER: Duration = Duration::from_secs(3);

/// How much of such a body is taken.
const LINGER_BYTES: usize = 16 << 20;

/// How many such bodies at once. Each costs one flow control window at most.
const LINGERING: usize = 1024;

/// The body of a request.
///
/// It may be dropped at any point: what is left of it then lingers, after the answer, for 3 s or 16 MiB.
#[derive(Debug)]
pub struct Body {
    source: Source,
    rest: Option<Arc<Rest>>,
}

#[derive(Debug)]
enum Source {
    Wire(Incoming),
    Memory(Full<Bytes>),
    Taken,
}

/// The body of an answer: in memory, or on its way from somewhere else. An error in the latter breaks the connection off,
/// so that no client takes a part for the whole.
#[derive(Debug)]
pub enum Reply {
    /// All of it.
    Whole(Full<Bytes>),
    /// Passed on as it comes.
    Stream(UnsyncBoxBody<Bytes, Box<dyn std::error::Error + Send + Sync>>),
}

/// Where a dropped body waits until the answer is out.
#[derive(Debug)]
pub(super) struct Rest {
    slot: Mutex<Slot>,
    linger: Linger,
}

#[derive(Debug)]
enum Slot {
    Unanswered(Option<Incoming>),
    Answered,
}

/// Takes bodies that linger.
#[derive(Debug, Clone)]
pub(super) struct Linger {
    places: Arc<Semaphore>,
    drain: Drain,
    metrics: Metrics,
}

impl Body {
    pub(super) fn wire(incoming: Incoming, rest: &Arc<Rest>) -> Self {
        Self { source: Source::Wire(incoming), rest: Some(Arc::clone(rest)) }
    }
}

/// A body that is in memory already.
impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self { source: Source::Memory(Full::new(bytes)), rest: None }
    }
}

impl From<Full<Bytes>> for Reply {
    fn from(body: Full<Bytes>) -> Self {
        Self::Whole(body)
    }
}

impl http_body::Body for Reply {
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match self.get_mut() {
            Self::Whole(body) => Pin::new(body).poll_frame(cx).map_err(|never| match never {}),
            Self::Stream(body) => Pin::new(body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(body) => body.is_end_stream(),
            Self::Stream(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(body) => body.size_hint(),
            Self::Stream(body) => body.size_hint(),
        }
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match &mut self.get_mut().source {
            Source::Wire(incoming) => Pin::new(incoming).poll_frame(cx),
            Source::Memory(full) => Pin::new(full).poll_frame(cx).map_err(|never| match never {}),
            Source::Taken => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            Source::Wire(incoming) => incoming.is_end_stream(),
            Source::Memory(full) => full.is_end_stream(),
            Source::Taken => true,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            Source::Wire(incoming) => incoming.size_hint(),
            Source::Memory(full) => full.size_hint(),
            Source::Taken => SizeHint::with_exact(0),
        }
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        if let (Source::Wire(incoming), Some(rest)) = (std::mem::replace(&mut self.source, Source::Taken), &self.rest)
            && !http_body::Body::is_end_stream(&incoming)
        {
            rest.leave(incoming);
        }
    }
}

impl Rest {
    pub(super) fn new(linger: Linger) -> Arc<Self> {
        Arc::new(Self { slot: Mutex::new(Slot::Unanswered(None)), linger })
    }

    /// Whether the body was dropped before its end.
    pub(super) fn is_there(&self) -> bool {
        matches!(*self.slot.lock().unwrap_or_else(PoisonError::into_inner), Slot::Unanswered(Some(_)))
    }

    /// The answer is with hyper. Before that, reading on would ask a client that waits for `100 Continue` to send.
    pub(super) fn answered(&self) {
        let slot = std::mem::replace(&mut *self.slot.lock().unwrap_or_else(PoisonError::into_inner), Slot::Answered);
        if let Slot::Unanswered(Some(incoming)) = slot {
            self.linger.take(incoming);
        }
    }

    fn leave(&self, incoming: Incoming) {
        let mut slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *slot {
            Slot::Unanswered(place) => *place = Some(incoming),
            Slot::Answered => {
                drop(slot);
                self.linger.take(incoming);
            }
        }
    }
}

impl Linger {
    pub(super) fn new(drain: Drain, metrics: Metrics) -> Self {
        Self { places: Arc::new(Semaphore::new(LINGERING)), drain, metrics }
    }

    fn take(&self, incoming: Incoming) {
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            self.metrics.lingering_refused().inc();
            return;
        };
        if tokio::runtime::Handle::try_current().is_err() {
            return;
        }
        let gauge = self.metrics.lingering().clone();
        let drain = self.drain.clone();
        gauge.inc();
        self.drain.tasks().spawn(async move {
            tokio::select! {
                _ = timeout(LINGER, discard(incoming)) => {}
                () = drain.aborted() => {}
            }
            gauge.dec();
            drop(place);
        });
    }
}

/// Reads a body to its end, or to the bound on bytes; then it only holds it, until the bound on time: over HTTP/2 a
/// client that still sends would see its stream reset.
async fn discard(mut incoming: Incoming) {
    let mut left = LINGER_BYTES;
    while left > 0 {
        match incoming.frame().await {
            Some(Ok(frame)) => left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len)),
            Some(Err(_)) | None => return,
        }
    }
    std::future::pending().await
}
