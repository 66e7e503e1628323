//! The guard on a real connection: between the socket, or its TLS, and hyper's HTTP/1.
//!
//! hyper sees the bytes of one request at a time, and a head only once it is complete and keeps the rules. Bytes of
//! the next request wait here until the answer to the last one is written; so a bad request behind good ones costs
//! only itself, and between requests it is this file, not hyper, that knows whether a connection is idle or a head is
//! late.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use http::StatusCode;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::time::{Instant, Sleep, sleep, timeout};
use tokio_util::sync::WaitForCancellationFutureOwned;

use super::drain::Drain;
use super::guard::HeadGuard;
use super::head::Violation;
use super::metrics::{ListenerMetrics, Timeout};
use super::refusal;
use crate::config;

/// How long a connection that this side closed is read on, so that its last answer is not destroyed by a reset
/// (RFC 9112 section 9.6).
const LINGER: Duration = Duration::from_secs(1);

/// How much is read then.
const LINGER_BYTES: u64 = 1 << 20;

/// One read from the socket.
const READ: usize = 8 << 10;

/// An HTTP/1 connection under guard.
#[derive(Debug)]
pub(super) struct Guarded<S> {
    io: S,
    guard: HeadGuard,
    /// Bytes that hyper has not got yet.
    held: BytesMut,
    /// How many of them are judged and good.
    good: usize,
    turn: Arc<Turn>,
    /// hyper has a request whose answer is not written.
    busy: bool,
    eof: bool,
    end: Option<End>,
    clock: Clock,
    stalled: Option<Pin<Box<Sleep>>>,
    closing: Pin<Box<WaitForCancellationFutureOwned>>,
    reader: Option<Waker>,
    bounds: Bounds,
    metrics: ListenerMetrics,
}

/// Whether the answer to the request that hyper has is complete in hyper's hands.
#[derive(Debug, Default)]
pub(super) struct Turn(AtomicBool);

/// The bounds of a connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    head_bytes: usize,
    head_timeout: Duration,
    idle_timeout: Duration,
}

/// Why this side reads no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// A head broke a rule: nothing is in flight, and the client gets an answer from here.
    Head(Violation),
    /// A body broke a rule: its reader sees an error, and the answer comes from there.
    Body,
    HeadTimeout,
    Idle,
}

/// What is waited for, and until when.
#[derive(Debug)]
struct Clock {
    waiting: Waiting,
    sleep: Pin<Box<Sleep>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waiting {
    Nothing,
    Request,
    Head,
}

impl Turn {
    /// hyper has the last byte of the answer; the flush that follows writes it.
    pub(super) fn answered(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Bounds {
    pub(super) fn new(http1: &config::Http1) -> Self {
        Self {
            head_bytes: http1.head_bytes.bytes(),
            head_timeout: http1.head_timeout.0,
            idle_timeout: http1.idle_timeout.0,
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Guarded<S> {
    pub(super) fn new(io: S, bounds: Bounds, turn: Arc<Turn>, drain: &Drain, metrics: ListenerMetrics) -> Self {
        Self {
            io,
            guard: HeadGuard::new(bounds.head_bytes),
            held: BytesMut::new(),
            good: 0,
            turn,
            busy: false,
            eof: false,
            end: None,
            clock: Clock { waiting: Waiting::Nothing, sleep: Box::pin(sleep(Duration::ZERO)) },
            stalled: None,
            closing: Box::pin(drain.closing_token().cancelled_owned()),
            reader: None,
            bounds,
            metrics,
        }
    }

    /// Ends the connection when hyper is done with it: the answer to a broken rule, the end of writing, and a little
    /// patience until the client has read what was written.
    pub(super) async fn finish(mut self) {
        let answer = match self.end {
            Some(End::Head(violation)) => Some(refusal::on_the_wire(violation.status(), &violation.to_string())),
            Some(End::HeadTimeout) => {
                Some(refusal::on_the_wire(StatusCode::REQUEST_TIMEOUT, "the request's head did not arrive in time"))
            }
            Some(End::Body | End::Idle) | None => None,
        };
        let goodbye = async {
            if let Some(answer) = answer {
                self.io.write_all(&answer).await?;
            }
            self.io.shutdown().await?;
            if !self.eof {
                tokio::io::copy(&mut (&mut self.io).take(LINGER_BYTES), &mut tokio::io::sink()).await?;
            }
            io::Result::Ok(())
        };
        // A client that does not listen loses its answer, and nobody else does.
        let _: Result<io::Result<()>, _> = timeout(LINGER, goodbye).await;
    }

    /// The next request must wait for the answer to this one.
    fn is_gated(&self) -> bool {
        self.busy && self.guard.in_head()
    }

    /// Judges what is held. Whether there is something for hyper now.
    fn judge(&mut self) -> io::Result<bool> {
        let head = self.guard.in_head();
        match self.guard.feed(&self.held) {
            Ok(fed) => {
                self.good = fed.pass;
                if fed.pass > 0 && head {
                    self.busy = true;
                    self.turn.0.store(false, Ordering::Relaxed);
                    self.clock.waiting = Waiting::Nothing;
                }
                Ok(fed.pass > 0)
            }
            Err(violation) => {
                self.metrics.violation(violation.rule());
                tracing::debug!(rule = violation.rule(), "a client broke a rule of HTTP/1");
                if head {
                    self.end = Some(End::Head(violation));
                    return Ok(false);
                }
                self.end = Some(End::Body);
                Err(io::Error::new(io::ErrorKind::InvalidData, violation))
            }
        }
    }

    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut space = [const { std::mem::MaybeUninit::uninit() }; READ];
        let mut space = ReadBuf::uninit(&mut space);
        ready!(Pin::new(&mut self.io).poll_read(cx, &mut space))?;
        self.eof = space.filled().is_empty();
        self.held.extend_from_slice(space.filled());
        Poll::Ready(Ok(()))
    }

    /// Nothing came: whether that is over now.
    fn poll_clock(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        let waiting = match (self.busy || !self.guard.in_head(), self.held.is_empty()) {
            (true, _) => Waiting::Nothing,
            (false, true) => Waiting::Request,
            (false, false) => Waiting::Head,
        };
        if waiting != self.clock.waiting {
            self.clock.waiting = waiting;
            let bound = match waiting {
                Waiting::Nothing | Waiting::Request => self.bounds.idle_timeout,
                Waiting::Head => self.bounds.head_timeout,
            };
            self.clock.sleep.as_mut().reset(Instant::now() + bound);
        }
        match waiting {
            Waiting::Nothing => Poll::Pending,
            Waiting::Head => {
                ready!(self.clock.sleep.as_mut().poll(cx));
                self.metrics.timeout(Timeout::Head);
                Poll::Ready(End::HeadTimeout)
            }
            Waiting::Request if self.closing.as_mut().poll(cx).is_ready() => Poll::Ready(End::Idle),
            Waiting::Request => {
                ready!(self.clock.sleep.as_mut().poll(cx));
                self.metrics.timeout(Timeout::Idle);
                Poll::Ready(End::Idle)
            }
        }
    }

    fn hand_over(&mut self, buf: &mut ReadBuf<'_>) {
        let count = self.good.min(buf.remaining());
        buf.put_slice(self.held.get(..count).unwrap_or_default());
        self.held.advance(count);
        self.good -= count;
        if self.held.is_empty() {
            self.held = BytesMut::new();
        }
    }

    fn wait(&mut self, cx: &Context<'_>) -> Poll<io::Result<()>> {
        self.reader = Some(cx.waker().clone());
        Poll::Pending
    }

    /// A write that cannot go on is bounded by the idle time: an answer that nobody takes is an idle connection.
    fn watch<T>(&mut self, cx: &mut Context<'_>, progress: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if progress.is_ready() {
            self.stalled = None;
            return progress;
        }
        let bound = self.bounds.idle_timeout;
        ready!(self.stalled.get_or_insert_with(|| Box::pin(sleep(bound))).as_mut().poll(cx));
        self.metrics.timeout(Timeout::Write);
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Guarded<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            if this.good > 0 {
                this.hand_over(buf);
                return Poll::Ready(Ok(()));
            }
            if this.end.is_some() {
                return Poll::Ready(Ok(()));
            }
            let gated = this.is_gated();
            if !gated && (this.judge()? || this.end.is_some()) {
                continue;
            }
            if this.eof {
                if gated && !this.held.is_empty() {
                    return this.wait(cx);
                }
                return Poll::Ready(Ok(()));
            }
            // While an answer is due, reading on tells whether the client is still there.
            if gated && this.held.len() >= this.bounds.head_bytes {
                return this.wait(cx);
            }
            if this.poll_fill(cx)?.is_ready() {
                continue;
            }
            match this.poll_clock(cx) {
                Poll::Ready(end) => this.end = Some(end),
                Poll::Pending => return this.wait(cx),
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Guarded<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let progress = Pin::new(&mut this.io).poll_write(cx, buf);
        this.watch(cx, progress)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let progress = Pin::new(&mut this.io).poll_write_vectored(cx, bufs);
        this.watch(cx, progress)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let progress = Pin::new(&mut this.io).poll_flush(cx);
        ready!(this.watch(cx, progress))?;
        // hyper flushes only when it has written all it has, so a complete answer is with the client now.
        if this.busy && this.turn.0.load(Ordering::Relaxed) {
            this.busy = false;
            if let Some(reader) = this.reader.take() {
                reader.wake();
            }
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests;
