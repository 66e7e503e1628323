//! The memory that all bodies share.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::config::{Size, Span};
use crate::event::{Error, Metrics};

/// One permit stands for this many bytes, so that the largest budget fits a semaphore.
const PAGE: u64 = 1 << 10;

/// The budget of all body bytes together (`event.memory`).
///
/// Whoever waits is served in order of arrival, and waits `event.memory_wait` at most: two bodies that each hold what
/// the other waits for end by that bound.
#[derive(Debug, Clone)]
pub struct Memory {
    pages: Arc<Semaphore>,
    total: u64,
    wait: Span,
    metrics: Metrics,
}

/// A share of [`Memory`], given back when dropped.
#[derive(Debug)]
pub struct Reservation {
    memory: Memory,
    permit: Option<OwnedSemaphorePermit>,
    pages: u32,
}

impl Memory {
    /// `total` bytes, rounded up to whole KiB; `wait` is how long a body waits for room.
    pub fn new(total: Size, wait: Span, metrics: Metrics) -> Self {
        let most = (Semaphore::MAX_PERMITS as u64).min(u64::from(u32::MAX));
        let total = total.0.div_ceil(PAGE).min(most);
        let pages = Arc::new(Semaphore::new(usize::try_from(total).unwrap_or(Semaphore::MAX_PERMITS)));
        Self { pages, total, wait, metrics }
    }

    /// Takes `bytes`, waiting for room if needed.
    ///
    /// # Errors
    ///
    /// [`Error::MemoryFull`] when no room came in time, at once when `bytes` is more than there is in all.
    pub async fn reserve(&self, bytes: u64) -> Result<Reservation, Error> {
        let mut reservation = Reservation { memory: self.clone(), permit: None, pages: 0 };
        reservation.grow(bytes).await?;
        Ok(reservation)
    }

    /// Bytes in use now.
    pub fn in_use(&self) -> u64 {
        self.total.saturating_sub(self.pages.available_permits() as u64).saturating_mul(PAGE)
    }

    async fn take(&self, pages: u32) -> Result<OwnedSemaphorePermit, Error> {
        let semaphore = Arc::clone(&self.pages);
        if let Ok(permit) = Arc::clone(&semaphore).try_acquire_many_owned(pages) {
            return Ok(permit);
        }
        self.metrics.memory_waits.inc();
        match timeout(self.wait.0, semaphore.acquire_many_owned(pages)).await {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(_)) | Err(_) => Err(Error::MemoryFull),
        }
    }
}

impl Reservation {
    /// Bytes that it holds.
    pub fn bytes(&self) -> u64 {
        u64::from(self.pages).saturating_mul(PAGE)
    }

    /// Grows to hold at least `bytes`.
    ///
    /// # Errors
    ///
    /// As [`Memory::reserve`]; what it held, it keeps.
    pub async fn grow(&mut self, bytes: u64) -> Result<(), Error> {
        let wanted = bytes.div_ceil(PAGE);
        if wanted > self.memory.total {
            return Err(Error::MemoryFull);
        }
        let wanted = u32::try_from(wanted).map_err(|_| Error::MemoryFull)?;
        let missing = wanted.saturating_sub(self.pages);
        if missing == 0 {
            return Ok(());
        }
        let more = self.memory.take(missing).await?;
        match &mut self.permit {
            Some(permit) => permit.merge(more),
            None => self.permit = Some(more),
        }
        self.count(wanted);
        Ok(())
    }

    /// Gives back what is not needed for `bytes`.
    pub fn shrink(&mut self, bytes: u64) {
        let wanted = u32::try_from(bytes.div_ceil(PAGE)).unwrap_or(u32::MAX);
        let spare = self.pages.saturating_sub(wanted);
        if spare == 0 {
            return;
        }
        if let Some(permit) = &mut self.permit {
            drop(permit.split(spare as usize));
        }
        self.count(wanted);
    }

    fn count(&mut self, pages: u32) {
        let change = (i64::from(pages) - i64::from(self.pages)).saturating_mul(PAGE.cast_signed());
        self.memory.metrics.body_bytes.inc_by(change);
        self.pages = pages;
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.count(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(total: Size) -> Memory {
        Memory::new(total, Span::millis(500), Metrics::default())
    }

    #[tokio::test(start_paused = true)]
    async fn a_dropped_reservation_gives_its_bytes_back() {
        let memory = memory(Size::kib(8));
        let first = memory.reserve(5_000).await.unwrap();
        assert_eq!((first.bytes(), memory.in_use()), (5 << 10, 5 << 10));
        assert_eq!(memory.metrics.body_bytes.get(), 5 << 10);
        drop(first);
        assert_eq!(memory.in_use(), 0);
        assert_eq!(memory.metrics.body_bytes.get(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiting_body_gets_the_room_that_another_frees() {
        let memory = memory(Size::kib(8));
        let first = memory.reserve(8 << 10).await.unwrap();
        let waiting = tokio::spawn({
            let memory = memory.clone();
            async move { memory.reserve(4 << 10).await.map(|reservation| reservation.bytes()) }
        });
        tokio::task::yield_now().await;
        assert_eq!(memory.metrics.memory_waits.get(), 1);
        drop(first);
        assert_eq!(waiting.await.unwrap().unwrap(), 4 << 10);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_waits_too_long_is_told_that_memory_is_full() {
        let memory = memory(Size::kib(8));
        let _first = memory.reserve(8 << 10).await.unwrap();
        let start = tokio::time::Instant::now();
        assert!(matches!(memory.reserve(1).await, Err(Error::MemoryFull)));
        assert_eq!(start.elapsed().as_millis(), 500);
    }

    #[tokio::test(start_paused = true)]
    async fn more_than_there_is_in_all_is_refused_at_once() {
        let memory = memory(Size::kib(8));
        let start = tokio::time::Instant::now();
        assert!(matches!(memory.reserve((8 << 10) + 1).await, Err(Error::MemoryFull)));
        assert!(matches!(memory.reserve(u64::MAX).await, Err(Error::MemoryFull)));
        assert_eq!(start.elapsed().as_millis(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn two_growing_bodies_do_not_hold_each_other_for_ever() {
        let memory = memory(Size::kib(8));
        let mut first = memory.reserve(4 << 10).await.unwrap();
        let mut second = memory.reserve(4 << 10).await.unwrap();
        let first = tokio::spawn(async move { first.grow(8 << 10).await.is_ok() });
        let second = tokio::spawn(async move { second.grow(8 << 10).await.is_ok() });
        assert!(!(first.await.unwrap() && second.await.unwrap()));
        assert_eq!(memory.in_use(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_shrunk_reservation_keeps_only_what_it_needs() {
        let memory = memory(Size::kib(8));
        let mut reservation = memory.reserve(8 << 10).await.unwrap();
        reservation.shrink(1);
        assert_eq!((reservation.bytes(), memory.in_use()), (1 << 10, 1 << 10));
        reservation.shrink(4_000);
        assert_eq!(reservation.bytes(), 1 << 10);
    }
}
