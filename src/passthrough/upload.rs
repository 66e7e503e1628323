//! The body of a request on its way to a catalog: counted, and bounded in time.

use std::error::Error;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio::sync::watch;
use tokio::time::{Instant, Sleep, sleep, sleep_until, timeout_at};

use crate::event;
use crate::listen::Body;

/// A body that streams, until its deadline.
pub struct Upload<B = Body> {
    body: B,
    deadline: Instant,
    sleep: Pin<Box<Sleep>>,
    state: watch::Sender<State>,
}

/// How far an [`Upload`] is. It may be looked at while the body streams, and after that.
#[derive(Debug, Clone)]
pub struct Progress {
    state: watch::Receiver<State>,
    deadline: Instant,
}

#[derive(Debug, Clone, Copy)]
struct State {
    received: u64,
    stage: Stage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The catalog takes nothing now.
    Resting,
    /// The catalog would take more than there is.
    Awaited,
    Whole,
    BrokenOff,
    Late,
}

impl<B> Upload<B>
where
    B: http_body::Body<Data = Bytes> + Unpin,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    /// After `deadline` it breaks off.
    pub fn new(body: B, deadline: Instant) -> Self {
        let stage = if body.is_end_stream() { Stage::Whole } else { Stage::Resting };
        let state = watch::Sender::new(State { received: 0, stage });
        Self { body, deadline, sleep: Box::pin(sleep_until(deadline)), state }
    }

    /// How far it is, also after it was sent away.
    pub fn progress(&self) -> Progress {
        Progress { state: self.state.subscribe(), deadline: self.deadline }
    }

    fn enter(&self, stage: Stage) {
        self.state.send_if_modified(|state| {
            state.stage = stage;
            stage.is_over()
        });
    }

    fn note(&self, frame: Option<&Result<Frame<Bytes>, B::Error>>) {
        match frame {
            Some(Ok(frame)) => {
                let size = frame.data_ref().map_or(0, Bytes::len) as u64;
                self.state.send_if_modified(|state| {
                    state.received = state.received.saturating_add(size);
                    false
                });
                self.enter(if self.body.is_end_stream() { Stage::Whole } else { Stage::Resting });
            }
            Some(Err(_)) => self.enter(Stage::BrokenOff),
            None => self.enter(Stage::Whole),
        }
    }
}

impl<B> http_body::Body for Upload<B>
where
    B: http_body::Body<Data = Bytes> + Unpin,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    type Data = Bytes;
    type Error = Box<dyn Error + Send + Sync>;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = self.get_mut();
        // First, or else a client that is never slow could send for ever.
        if this.sleep.as_mut().poll(cx).is_ready() {
            this.enter(Stage::Late);
            return Poll::Ready(Some(Err(Box::new(event::Error::BodyTimeout))));
        }
        let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(cx) else {
            this.enter(Stage::Awaited);
            return Poll::Pending;
        };
        this.note(frame.as_ref());
        Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Progress {
    /// Bytes that were sent on.
    pub fn received(&self) -> u64 {
        self.state.borrow().received
    }

    /// Why it did not come whole, if that is the client's fault.
    pub fn fault(&self) -> Option<event::Error> {
        let stage = self.state.borrow().stage;
        match stage {
            Stage::BrokenOff => Some(event::Error::BrokenOff("while it was passed on".into())),
            Stage::Late => Some(event::Error::BodyTimeout),
            Stage::Awaited if Instant::now() >= self.deadline => Some(event::Error::BodyTimeout),
            Stage::Awaited | Stage::Resting | Stage::Whole => None,
        }
    }

    /// Ends when an answer is late: the body is not over at its deadline, or it has been over for `patience`.
    pub(super) async fn late(mut self, patience: Duration) {
        // An error is an upload that was dropped: nobody wants more of it.
        if timeout_at(self.deadline, self.state.wait_for(|state| state.stage.is_over())).await.is_ok() {
            sleep(patience).await;
        }
    }
}

impl Stage {
    fn is_over(self) -> bool {
        match self {
            Self::Resting | Self::Awaited => false,
            Self::Whole | Self::BrokenOff | Self::Late => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt, StreamBody};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// A body of so many bytes, each a second after the last.
    fn slow(bytes: usize) -> impl http_body::Body<Data = Bytes, Error = &'static str> + Unpin {
        let parts = futures_util::stream::unfold(0, move |sent| async move {
            sleep(SECOND).await;
            (sent < bytes).then(|| (Ok(Frame::data(Bytes::from_static(b"x"))), sent + 1))
        });
        StreamBody::new(Box::pin(parts))
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_for_an_answer_counts_from_the_end_of_the_body() {
        let begin = Instant::now();
        let upload = Upload::new(slow(100), begin + 200 * SECOND);
        let progress = upload.progress();
        let (sent, ()) = tokio::join!(upload.collect(), progress.clone().late(60 * SECOND));
        assert_eq!(sent.unwrap().to_bytes().len(), 100);
        assert_eq!(begin.elapsed().as_secs(), 161);
        assert_eq!(progress.received(), 100);
        assert!(progress.fault().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_ends_at_its_deadline_whoever_is_slow() {
        let begin = Instant::now();
        let upload = Upload::new(slow(100), begin + 10 * SECOND);
        let progress = upload.progress();
        assert!(upload.collect().await.is_err());
        assert_eq!((begin.elapsed().as_secs(), progress.received()), (10, 9));
        assert!(matches!(progress.fault(), Some(event::Error::BodyTimeout)));

        let endless = futures_util::stream::repeat_with(|| Ok::<_, &str>(Frame::data(Bytes::from_static(b"x"))));
        let mut upload = Upload::new(StreamBody::new(endless), Instant::now() + SECOND);
        assert!(upload.frame().await.unwrap().is_ok());
        tokio::time::advance(SECOND).await;
        assert!(upload.frame().await.unwrap().is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_catalog_that_takes_nothing_is_no_fault_of_the_client() {
        let upload = Upload::new(slow(1), Instant::now() + SECOND);
        let progress = upload.progress();
        progress.clone().late(SECOND).await;
        assert!(progress.fault().is_none());
    }
}
