//! What a batch is told (facts: backends 2.5).
//!
//! Where nothing was delivered, and one reason explains it that is not the events', the answer is that of a single event:
//! the whole batch can be sent again, or none of it should. In every other case the answer names the events that failed.
//! A batch of which something was delivered is never a 4xx or 5xx: clients would send all of it again, or give up the rest.

use http::StatusCode;
use serde::Serialize;

use super::table::{self, Row};
use super::{Answer, Dialect, cleaned, openlineage, openmetadata, refuse, report};
use crate::answer::{BatchReport, End};

/// Longest reason of one event, in bytes of JSON: an answer may hold thousands.
const LONGEST_REASON: usize = 240;

/// The word for a whole batch, or for one event in OpenMetadata's contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Status {
    Success,
    PartialSuccess,
    Failure,
}

/// An event that failed.
#[derive(Debug, Serialize)]
pub(super) struct Failed {
    pub(super) index: usize,
    pub(super) reason: String,
    pub(super) retriable: bool,
}

pub(super) fn answer(dialect: Dialect, batch: &BatchReport) -> Answer {
    let counts = batch.counts();
    if let Some(end) = (counts.failed == counts.received).then(|| whole(batch.ends())).flatten() {
        return told(dialect, end);
    }
    let status = if counts.failed == counts.received {
        Status::Failure
    } else if counts.failed > 0 || counts.partial > 0 {
        Status::PartialSuccess
    } else {
        Status::Success
    };
    let failed: Vec<Failed> = batch.ends().iter().enumerate().filter_map(failed).collect();
    match dialect {
        Dialect::Openmetadata(release) => openmetadata::batch(release, status, &counts, &failed, batch.edges()),
        Dialect::Openlineage | Dialect::Gravitino => openlineage::batch(status, &counts, &failed),
    }
}

/// The end that answers for all, if every event failed: what a resend cures first, since nothing was delivered; then what
/// no event is at fault for; then the neutral no, if it is everybody's.
fn whole(ends: &[End]) -> Option<&End> {
    let first = |wanted: &dyn Fn(&Row) -> bool| ends.iter().find(|end| is_attempted(end) && wanted(&row(end)));
    let by_status = |status: StatusCode| first(&|row| row.status == status);
    by_status(StatusCode::SERVICE_UNAVAILABLE)
        .or_else(|| by_status(StatusCode::TOO_MANY_REQUESTS))
        .or_else(|| by_status(StatusCode::UNAUTHORIZED))
        .or_else(|| first(&|row| row.status.is_server_error()))
        .or_else(|| ends.iter().find(|end| !is_attempted(end)))
        .or_else(|| {
            let all_forbidden = ends.iter().all(|end| row(end).status == StatusCode::FORBIDDEN);
            ends.first().filter(|_| all_forbidden)
        })
}

fn told(dialect: Dialect, end: &End) -> Answer {
    match end {
        End::Refused(refusal) => refuse(dialect, refusal),
        End::Sent(outcome) => report(dialect, outcome),
        End::NotAttempted(why) => super::answer(dialect, table::left(*why)),
    }
}

fn row(end: &End) -> Row {
    match end {
        End::Refused(refusal) => table::refused(refusal),
        End::Sent(outcome) => table::reported(outcome),
        End::NotAttempted(why) => table::left(*why),
    }
}

fn is_attempted(end: &End) -> bool {
    !matches!(end, End::NotAttempted(_))
}

fn failed((index, end): (usize, &End)) -> Option<Failed> {
    let row = row(end);
    let is_failed = row.kind != table::Kind::Taken;
    is_failed.then(|| Failed { index, reason: cleaned(&row.message, LONGEST_REASON), retriable: row.resend })
}

#[cfg(test)]
mod tests;
