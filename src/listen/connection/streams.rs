//! The streams of one HTTP/2 connection, answered by the task that writes to it.
//!
//! hyper hands an answer to h2 in two steps, its head and then its body. Done in a task of their own, a connection's task
//! may write the head alone in between. A client that stops a large body at the sight of it, as curl does, then ends the
//! stream short of its `Content-Length`; h2 takes this for an error and forgets the body that it did not send yet. In one
//! task nothing comes between the two steps, and both leave in one write.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use hyper::rt::Executor;

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Takes from hyper what it wants run for each stream.
#[derive(Clone, Default)]
pub(super) struct Streams(Arc<Mutex<Vec<Work>>>);

/// A connection and its streams. Dropped, it ends them.
pub(super) struct Together<C> {
    connection: Pin<Box<C>>,
    new: Streams,
    streams: FuturesUnordered<Work>,
}

impl<F> Executor<F> for Streams
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, work: F) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Box::pin(work));
    }
}

impl Streams {
    fn take(&self) -> Vec<Work> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<C: Future> Together<C> {
    /// `new` is the executor that the connection was built with.
    pub(super) fn new(connection: C, new: Streams) -> Self {
        Self { connection: Box::pin(connection), new, streams: FuturesUnordered::new() }
    }

    pub(super) fn connection(&mut self) -> Pin<&mut C> {
        self.connection.as_mut()
    }
}

impl<C: Future> Future for Together<C> {
    type Output = C::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<C::Output> {
        let this = &mut *self;
        loop {
            while let Poll::Ready(Some(())) = this.streams.poll_next_unpin(cx) {}
            if let Poll::Ready(end) = this.connection.as_mut().poll(cx) {
                return Poll::Ready(end);
            }
            let new = this.new.take();
            if new.is_empty() {
                return Poll::Pending;
            }
            this.streams.extend(new);
        }
    }
}
