//! The memory that all bodies share.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use crate::auth::Caller;
use crate::config::{self, Size, Span};
use crate::event::{Error, Metrics};

/// One permit stands for this many bytes, so that the largest budget fits a semaphore.
const PAGE: u64 = 1 << 10;

/// The budget of all body bytes together (`event.memory`), or one caller's part of it (`event.memory_per_caller`).
///
/// Whoever waits is served in order of arrival, and waits `event.memory_wait` at most: two bodies that each hold what
/// the other waits for end by that bound.
#[derive(Debug, Clone)]
pub struct Memory {
    common: Arc<Common>,
    own: Option<Arc<Share>>,
}

/// What a body has of [`Memory`], given back when dropped.
#[derive(Debug)]
pub struct Reservation {
    memory: Memory,
    permits: Option<Permits>,
    pages: u32,
}

#[derive(Debug)]
struct Common {
    pages: Arc<Semaphore>,
    total: u64,
    share: u64,
    wait: Span,
    metrics: Metrics,
    /// The callers whose requests are served now.
    shares: Mutex<HashMap<Holder, Weak<Share>>>,
}

/// A caller, by issuer and subject.
type Holder = (Arc<str>, Arc<str>);

#[derive(Debug)]
struct Share {
    pages: Arc<Semaphore>,
    holder: Holder,
    common: Arc<Common>,
}

#[derive(Debug)]
struct Permits {
    own: Option<OwnedSemaphorePermit>,
    common: OwnedSemaphorePermit,
}

impl Memory {
    /// The configured memory.
    pub fn new(event: &config::Event, metrics: Metrics) -> Self {
        let half = Size((event.memory.0 / 2).max(event.max_body.0));
        let share = event.memory_per_caller.unwrap_or(half);
        Self::of_size(event.memory, share, event.memory_wait, metrics)
    }

    /// `total` bytes, and `share` of them for one caller, rounded up to whole KiB.
    pub(super) fn of_size(total: Size, share: Size, wait: Span, metrics: Metrics) -> Self {
        let most = (Semaphore::MAX_PERMITS as u64).min(u64::from(u32::MAX));
        let total = total.0.div_ceil(PAGE).min(most);
        let share = share.0.div_ceil(PAGE).min(total);
        let common = Common { pages: semaphore(total), total, share, wait, metrics, shares: Mutex::default() };
        Self { common: Arc::new(common), own: None }
    }

    /// The part of it that this caller may take, with all its requests together.
    #[must_use]
    pub fn of(&self, caller: &Caller) -> Self {
        let holder = (Arc::clone(&caller.issuer), Arc::clone(&caller.subject));
        let mut shares = self.common.shares.lock().unwrap_or_else(PoisonError::into_inner);
        let known = shares.get(&holder).and_then(Weak::upgrade);
        let own = known.unwrap_or_else(|| {
            let (pages, common) = (semaphore(self.common.share), Arc::clone(&self.common));
            let share = Arc::new(Share { pages, holder: holder.clone(), common });
            shares.insert(holder, Arc::downgrade(&share));
            share
        });
        drop(shares);
        Self { common: Arc::clone(&self.common), own: Some(own) }
    }

    /// Takes `bytes`, waiting for room if needed.
    ///
    /// # Errors
    ///
    /// [`Error::MemoryFull`] when no room came in time, at once when `bytes` is more than there is in all.
    pub async fn reserve(&self, bytes: u64) -> Result<Reservation, Error> {
        let mut reservation = Reservation { memory: self.clone(), permits: None, pages: 0 };
        reservation.grow(bytes).await?;
        Ok(reservation)
    }

    /// Bytes in use now, of all callers.
    #[cfg(test)]
    pub(super) fn in_use(&self) -> u64 {
        let Common { pages, total, .. } = &*self.common;
        total.saturating_sub(pages.available_permits() as u64).saturating_mul(PAGE)
    }

    /// The share is waited for first: who has used it up keeps nobody else waiting.
    async fn take(&self, pages: u32) -> Result<Permits, Error> {
        let deadline = Instant::now() + self.common.wait.0;
        let own = match &self.own {
            Some(share) => Some(self.common.acquire(&share.pages, pages, deadline).await?),
            None => None,
        };
        let common = self.common.acquire(&self.common.pages, pages, deadline).await?;
        Ok(Permits { own, common })
    }
}

impl Common {
    async fn acquire(
        &self,
        semaphore: &Arc<Semaphore>,
        pages: u32,
        deadline: Instant,
    ) -> Result<OwnedSemaphorePermit, Error> {
        if let Ok(permit) = Arc::clone(semaphore).try_acquire_many_owned(pages) {
            return Ok(permit);
        }
        self.metrics.memory_waits.inc();
        match timeout_at(deadline, Arc::clone(semaphore).acquire_many_owned(pages)).await {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(_)) | Err(_) => Err(Error::MemoryFull),
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut shares = self.common.shares.lock().unwrap_or_else(PoisonError::into_inner);
        // A request that came meanwhile may have begun a new share in this place.
        if shares.get(&self.holder).is_some_and(|share| share.strong_count() == 0) {
            shares.remove(&self.holder);
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
        let Common { total, share, .. } = &*self.memory.common;
        let most = if self.memory.own.is_some() { share } else { total };
        let wanted = bytes.div_ceil(PAGE);
        if wanted > *most {
            return Err(Error::MemoryFull);
        }
        let wanted = u32::try_from(wanted).map_err(|_| Error::MemoryFull)?;
        let missing = wanted.saturating_sub(self.pages);
        if missing == 0 {
            return Ok(());
        }
        let more = self.memory.take(missing).await?;
        match &mut self.permits {
            Some(permits) => permits.merge(more),
            None => self.permits = Some(more),
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
        if let Some(Permits { own, common }) = &mut self.permits {
            drop(own.as_mut().map(|own| own.split(spare as usize)));
            drop(common.split(spare as usize));
        }
        self.count(wanted);
    }

    fn count(&mut self, pages: u32) {
        let change = (i64::from(pages) - i64::from(self.pages)).saturating_mul(PAGE.cast_signed());
        self.memory.common.metrics.body_bytes.inc_by(change);
        self.pages = pages;
    }
}

impl Permits {
    fn merge(&mut self, more: Self) {
        self.common.merge(more.common);
        if let (Some(own), Some(more)) = (&mut self.own, more.own) {
            own.merge(more);
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.count(0);
    }
}

fn semaphore(pages: u64) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(usize::try_from(pages).unwrap_or(Semaphore::MAX_PERMITS)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::fake::caller;

    fn memory(total: Size) -> Memory {
        Memory::of_size(total, total, Span::millis(500), Metrics::default())
    }

    #[tokio::test(start_paused = true)]
    async fn a_dropped_reservation_gives_its_bytes_back() {
        let memory = memory(Size::kib(8));
        let first = memory.reserve(5_000).await.unwrap();
        assert_eq!((first.bytes(), memory.in_use()), (5 << 10, 5 << 10));
        assert_eq!(memory.common.metrics.body_bytes.get(), 5 << 10);
        drop(first);
        assert_eq!(memory.in_use(), 0);
        assert_eq!(memory.common.metrics.body_bytes.get(), 0);
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
        assert_eq!(memory.common.metrics.memory_waits.get(), 1);
        drop(first);
        assert_eq!(waiting.await.unwrap().unwrap(), 4 << 10);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_waits_too_long_is_told_that_memory_is_full() {
        let memory = memory(Size::kib(8));
        let _first = memory.reserve(8 << 10).await.unwrap();
        let start = Instant::now();
        assert!(matches!(memory.reserve(1).await, Err(Error::MemoryFull)));
        assert_eq!(start.elapsed().as_millis(), 500);
    }

    #[tokio::test(start_paused = true)]
    async fn more_than_there_is_in_all_is_refused_at_once() {
        let memory = memory(Size::kib(8));
        let start = Instant::now();
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

    #[tokio::test(start_paused = true)]
    async fn one_caller_cannot_take_all_memory() {
        let memory = Memory::of_size(Size::kib(8), Size::kib(4), Span::millis(500), Metrics::default());
        let alice = caller("alice", &[]);
        let first = memory.of(&alice).reserve(3 << 10).await.unwrap();
        let start = Instant::now();
        assert!(matches!(memory.of(&alice).reserve(2 << 10).await, Err(Error::MemoryFull)));
        assert_eq!(start.elapsed().as_millis(), 500);
        assert!(matches!(memory.of(&caller("bob", &[])).reserve(5 << 10).await, Err(Error::MemoryFull)));
        assert!(memory.of(&caller("bob", &[])).reserve(4 << 10).await.is_ok());
        assert_eq!(memory.in_use(), 3 << 10, "who was refused holds nothing");
        drop(first);
        assert!(memory.of(&alice).reserve(4 << 10).await.is_ok());
        assert!(memory.common.shares.lock().unwrap().is_empty(), "callers that are gone leave nothing behind");
    }

    #[test]
    fn a_share_is_half_of_all_or_one_body_unless_configured() {
        let share = |memory, max_body, share| {
            let event = config::Event { memory, max_body, memory_per_caller: share, ..config::Event::default() };
            Memory::new(&event, Metrics::default()).common.share
        };
        assert_eq!(share(Size::mib(64), Size::mib(16), None), 32 << 10);
        assert_eq!(share(Size::mib(16), Size::mib(12), None), 12 << 10);
        assert_eq!(share(Size::mib(64), Size::mib(16), Some(Size::mib(20))), 20 << 10);
    }
}
