//! Pure: cutting a batch for a backend that takes batches itself, and mapping its answer back.

use std::ops::Range;

use crate::answer::{End, Outcome};

/// How large one call may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Events.
    pub events: usize,
    /// Bytes of the events, without what stands around them.
    pub bytes: usize,
}

/// Events that are sent in one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    places: Range<usize>,
}

/// A backend speaks of an event that was not in the call, or twice of one: nothing that it says can be relied on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the backend's answer to a batch names event {index} wrongly, of {sent}")]
pub struct WrongIndex {
    /// The index that it names.
    pub index: usize,
    /// The events that the call held.
    pub sent: usize,
}

/// Cuts events of these sizes, in bytes, into as few calls as keep to `bounds`, in order. An event that is larger than
/// all of `bounds.bytes` goes alone: the backend says what it makes of it.
pub fn chunks(sizes: &[usize], bounds: Bounds) -> Vec<Chunk> {
    let mut chunks = Vec::new();
    let (mut start, mut bytes) = (0, 0_usize);
    for (place, size) in sizes.iter().enumerate() {
        let is_full = place - start >= bounds.events.max(1) || bytes.saturating_add(*size) > bounds.bytes;
        if place > start && is_full {
            chunks.push(Chunk { places: start..place });
            (start, bytes) = (place, 0);
        }
        bytes = bytes.saturating_add(*size);
    }
    if start < sizes.len() {
        chunks.push(Chunk { places: start..sizes.len() });
    }
    chunks
}

impl Chunk {
    /// The places of its events in the batch.
    pub fn places(&self) -> Range<usize> {
        self.places.clone()
    }

    /// The end of each of its events, with its place in the batch, from what the backend said of some by their index in
    /// the call. What it said nothing of ended as `others`.
    ///
    /// # Errors
    ///
    /// [`WrongIndex`].
    pub fn ends(
        &self,
        named: impl IntoIterator<Item = (usize, Outcome)>,
        others: &Outcome,
    ) -> Result<Vec<(usize, End)>, WrongIndex> {
        let sent = self.places.len();
        let mut outcomes = vec![None; sent];
        for (index, outcome) in named {
            let slot = outcomes.get_mut(index).filter(|slot| slot.is_none()).ok_or(WrongIndex { index, sent })?;
            *slot = Some(outcome);
        }
        let ends = outcomes.into_iter().map(|named| End::Sent(named.unwrap_or_else(|| others.clone())));
        Ok(self.places.clone().zip(ends).collect())
    }
}
