//! How the process ends: announced first, then no new connections, then an end to waiting.

use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config;

/// The way out, shared by everything that must know of it. A clone is the same way out.
///
/// 1. Announced: readiness fails, HTTP/1.1 answers carry `Connection: close`, HTTP/2 connections get GOAWAY. New
///    connections are still taken, because load balancers learn late. Idle HTTP/1.1 connections stay open: the Java
///    client loses the event that it sends on a connection that was just closed.
/// 2. After `drain.grace`: listening sockets and idle connections are closed, requests in flight go on.
/// 3. After `drain.deadline`, from the signal on: what is left is given up.
#[derive(Debug, Clone, Default)]
pub struct Drain {
    announced: CancellationToken,
    closing: CancellationToken,
    aborted: CancellationToken,
    tasks: TaskTracker,
}

impl Drain {
    /// Nothing ends yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether the end was announced: readiness is over.
    pub fn is_draining(&self) -> bool {
        self.announced.is_cancelled()
    }

    /// Ends when the end is announced.
    pub async fn announced(&self) {
        self.announced.cancelled().await;
    }

    /// Ends when no new work may begin.
    pub async fn closing(&self) {
        self.closing.cancelled().await;
    }

    /// Ends when work in flight is given up.
    pub async fn aborted(&self) {
        self.aborted.cancelled().await;
    }

    /// Where work is spawned that [`run`](Self::run) waits for. Such work must end by itself soon after
    /// [`aborted`](Self::aborted).
    pub fn tasks(&self) -> &TaskTracker {
        &self.tasks
    }

    /// Goes the way out; call it when the signal came. Returns how many tasks were given up, once all are gone.
    pub async fn run(&self, bounds: &config::Drain) -> usize {
        let start = Instant::now();
        self.announced.cancel();
        sleep_until(start + bounds.grace.0.min(bounds.deadline.0)).await;
        self.closing.cancel();
        self.tasks.close();
        let left = tokio::select! {
            () = self.tasks.wait() => 0,
            () = sleep_until(start + bounds.deadline.0) => self.tasks.len(),
        };
        self.aborted.cancel();
        self.tasks.wait().await;
        left
    }

    pub(super) fn closing_token(&self) -> CancellationToken {
        self.closing.clone()
    }
}
