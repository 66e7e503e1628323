//! What became of a batch, event by event.

use super::{Outcome, Refusal};

/// What became of a batch whose events were judged one by one. The place of an end is the place of its event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchReport {
    ends: Vec<End>,
    edges: Option<u64>,
}

/// What became of one event of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// The gate refused it, and did not send it.
    Refused(Refusal),
    /// It was given to the backend.
    Sent(Outcome),
    /// Nothing was wrong with it, and it was not sent.
    NotAttempted(NotAttempted),
}

/// Why an event that is allowed was not sent. A resend may deliver it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotAttempted {
    /// An event of the same run before it was not delivered: it must not overtake that.
    EarlierFailed,
    /// The backend takes nothing now, whatever the event.
    Stopped,
    /// There was no time left.
    Deadline,
}

/// How many events ended how: `received == successful + partial + skipped + failed`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// All.
    pub received: usize,
    /// The backend took them.
    pub successful: usize,
    /// The backend wrote a part of them.
    pub partial: usize,
    /// The backend took them, and did nothing.
    pub skipped: usize,
    /// Everything else.
    pub failed: usize,
}

impl BatchReport {
    /// The report of events that ended so, in the order in which they came.
    pub fn new(ends: Vec<End>) -> Self {
        let edges = ends.iter().try_fold(0_u64, |sum, end| Some(sum.saturating_add(end.edges()?)));
        Self { ends, edges }
    }

    /// As [`new`](Self::new), where the edges were counted for several events together.
    pub fn counted(ends: Vec<End>, edges: Option<u64>) -> Self {
        Self { ends, edges }
    }

    /// The ends, in the order in which the events came.
    pub fn ends(&self) -> &[End] {
        &self.ends
    }

    /// How many events ended how.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts { received: self.ends.len(), ..Counts::default() };
        for end in &self.ends {
            let count = match end {
                End::Sent(Outcome::Accepted { .. }) => &mut counts.successful,
                End::Sent(Outcome::Partial { .. }) => &mut counts.partial,
                End::Sent(Outcome::NoEffect(_)) => &mut counts.skipped,
                End::Sent(_) | End::Refused(_) | End::NotAttempted(_) => &mut counts.failed,
            };
            *count += 1;
        }
        counts
    }

    /// Edges that were written, if the backend counted those of every event that it took.
    pub fn edges(&self) -> Option<u64> {
        self.edges
    }
}

impl End {
    /// Edges that were written for it; none where the backend took it and did not count them.
    pub(crate) fn edges(&self) -> Option<u64> {
        match self {
            Self::Sent(Outcome::Accepted { edges, .. }) => *edges,
            Self::Sent(Outcome::Partial { edges }) => Some(*edges),
            Self::Sent(_) | Self::Refused(_) | Self::NotAttempted(_) => Some(0),
        }
    }
}
