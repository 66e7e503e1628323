//! Plain OpenLineage, as Marquez answers it: code and message, and `errors` for content that does not hold.
//!
//! Batches are answered as the OpenLineage 2.0.2 specification has it (facts: backends 1.11).

use http::header::ACCEPT_ENCODING;
use http::{HeaderValue, StatusCode};
use serde::Serialize;

use super::batch::{Failed, Status};
use super::table::{Kind, Row};
use super::{Answer, clean, common};
use crate::answer::Counts;

pub(super) const MEDIA_TYPE: &str = "application/json";

#[derive(Serialize)]
struct Failure<'a> {
    code: u16,
    message: &'a str,
}

#[derive(Serialize)]
struct Violations<'a> {
    errors: [&'a str; 1],
}

#[derive(Serialize)]
struct BatchResult<'a> {
    status: Status,
    summary: Summary,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    failed_events: &'a [Failed],
}

#[derive(Serialize)]
struct Summary {
    received: usize,
    successful: usize,
    failed: usize,
    retriable: usize,
    non_retriable: usize,
}

pub(super) fn answer(row: Row) -> Answer {
    let message = clean(&row.message);
    let body = match row.kind {
        Kind::Taken => return common(row.status, &row, None),
        Kind::Unprocessable | Kind::Poison => serde_json::to_string(&Violations { errors: [&message] }),
        Kind::Argument
        | Kind::Unresolvable
        | Kind::NotFound
        | Kind::Method
        | Kind::Unauthorized
        | Kind::Forbidden
        | Kind::TooMany
        | Kind::Connection
        | Kind::Internal => serde_json::to_string(&Failure { code: row.status.as_u16(), message: &message }),
    };
    let mut answer = common(row.status, &row, Some((MEDIA_TYPE, body.unwrap_or_default())));
    if row.status == StatusCode::UNSUPPORTED_MEDIA_TYPE {
        answer.headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip, identity"));
    }
    answer
}

/// The contract knows neither events without effect, which are successful to it, nor a batch that fails as a whole: that
/// is a 400 of the same form.
pub(super) fn batch(status: Status, counts: &Counts, failed: &[Failed]) -> Answer {
    let retriable = failed.iter().filter(|event| event.retriable).count();
    let summary = Summary {
        received: counts.received,
        successful: counts.successful + counts.partial + counts.skipped,
        failed: counts.failed,
        retriable,
        non_retriable: counts.failed.saturating_sub(retriable),
    };
    let body = BatchResult { status, summary, failed_events: failed };
    let row = if status == Status::Failure { Row::all_failed() } else { Row::ok() };
    common(row.status, &row, Some((MEDIA_TYPE, serde_json::to_string(&body).unwrap_or_default())))
}
