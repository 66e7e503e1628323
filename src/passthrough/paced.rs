//! The body of an answer, of which each next part must come in time.

use std::error::Error;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep};

/// A body that breaks off where nothing comes for too long. Only the time counts in which somebody waits for it: a client
/// that is slow to read is no fault of the catalog.
pub(super) struct Paced<B> {
    body: B,
    patience: Duration,
    sleep: Pin<Box<Sleep>>,
    is_awaited: bool,
}

impl<B> Paced<B> {
    pub(super) fn new(body: B, patience: Duration) -> Self {
        Self { body, patience, sleep: Box::pin(sleep(patience)), is_awaited: false }
    }
}

impl<B> Body for Paced<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    type Data = Bytes;
    type Error = Box<dyn Error + Send + Sync>;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = self.get_mut();
        if let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(cx) {
            this.is_awaited = false;
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        if !std::mem::replace(&mut this.is_awaited, true) {
            let until = Instant::now() + this.patience;
            this.sleep.as_mut().reset(until);
        }
        let late = this.sleep.as_mut().poll(cx);
        late.map(|()| Some(Err("the catalog stopped in the middle of its answer".into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt, StreamBody};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// A body of two parts, the second of which comes so long after it was asked for.
    fn halting(pause: Duration) -> Paced<impl Body<Data = Bytes, Error = &'static str> + Unpin> {
        let parts = futures_util::stream::unfold(0, move |sent| async move {
            if sent == 1 {
                sleep(pause).await;
            }
            (sent < 2).then(|| (Ok(Frame::data(Bytes::from_static(b"x"))), sent + 1))
        });
        Paced::new(StreamBody::new(Box::pin(parts)), 10 * SECOND)
    }

    #[tokio::test(start_paused = true)]
    async fn a_part_that_does_not_come_in_time_breaks_the_answer_off() {
        let begin = Instant::now();
        assert!(halting(11 * SECOND).collect().await.is_err());
        assert_eq!(begin.elapsed().as_secs(), 10);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_client_is_no_fault_of_the_catalog() {
        let mut body = halting(9 * SECOND);
        assert!(body.frame().await.unwrap().is_ok());
        sleep(60 * SECOND).await;
        assert!(body.frame().await.unwrap().is_ok());
        assert!(body.frame().await.is_none());
    }
}
