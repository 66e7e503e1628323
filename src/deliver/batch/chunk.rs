//! Pure: cutting a batch for a backend that takes batches itself.

use std::ops::Range;

/// How large one call may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Events.
    pub events: usize,
    /// Bytes of the events, without what stands around them.
    pub bytes: usize,
}

/// Cuts events of these sizes, in bytes, into as few calls as keep to `bounds`, in order. An event that is larger than
/// all of `bounds.bytes` goes alone: the backend says what it makes of it.
pub fn chunks(sizes: &[usize], bounds: Bounds) -> Vec<Range<usize>> {
    let mut chunks = Vec::new();
    let (mut start, mut bytes) = (0, 0_usize);
    for (place, size) in sizes.iter().enumerate() {
        let is_full = place - start >= bounds.events.max(1) || bytes.saturating_add(*size) > bounds.bytes;
        if place > start && is_full {
            chunks.push(start..place);
            (start, bytes) = (place, 0);
        }
        bytes = bytes.saturating_add(*size);
    }
    if start < sizes.len() {
        chunks.push(start..sizes.len());
    }
    chunks
}
