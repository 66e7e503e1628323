//! OpenMetadata's contract: every answer has a JSON body, and the body says more than the status.
//!
//! Faults of the request are `{"code", "message"}`, as its web server writes them; what became of an event, and every
//! 5xx, is `{"status", "message", "lineageEdgesCreated"}` (facts: backends 1.2, 2.3 and 2.5).

use http::StatusCode;
use serde::Serialize;

use super::table::{Kind, Row, reported};
use super::{Answer, OpenmetadataRelease, clean, common};
use crate::answer::{Counts, NoEffect, Outcome};

use super::batch::{Failed, Status};
use super::openlineage::MEDIA_TYPE;

#[derive(Serialize)]
struct Failure<'a> {
    code: u16,
    message: &'a str,
}

/// What became of one event.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Result<'a> {
    status: Status,
    message: &'a str,
    /// Left out where the backend does not count: only `status` is required.
    #[serde(skip_serializing_if = "Option::is_none")]
    lineage_edges_created: Option<u64>,
}

/// What became of a batch.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct BatchResult<'a> {
    status: Status,
    message: String,
    summary: Summary,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    failed_events: &'a [Failed],
    #[serde(skip_serializing_if = "Option::is_none")]
    lineage_edges_created: Option<u64>,
}

#[derive(Serialize)]
struct Summary {
    received: usize,
    successful: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    partial: Option<usize>,
    failed: usize,
    skipped: usize,
}

pub(super) fn answer(row: Row) -> Answer {
    let message = match row.kind {
        Kind::Unauthorized => clean(&format!("Not Authorized! {}", row.message)),
        Kind::Taken
        | Kind::Argument
        | Kind::Unresolvable
        | Kind::Unprocessable
        | Kind::Poison
        | Kind::NotFound
        | Kind::Method
        | Kind::Forbidden
        | Kind::TooMany
        | Kind::Connection
        | Kind::Internal => clean(&row.message),
    };
    // The contract has no 422.
    let status = if row.kind == Kind::Unprocessable { StatusCode::BAD_REQUEST } else { row.status };
    let body = if status.is_server_error() {
        serde_json::to_string(&Result { status: Status::Failure, message: &message, lineage_edges_created: Some(0) })
    } else {
        serde_json::to_string(&Failure { code: status.as_u16(), message: &message })
    };
    common(status, &row, Some((MEDIA_TYPE, body.unwrap_or_default())))
}

pub(super) fn report(release: OpenmetadataRelease, outcome: &Outcome) -> Answer {
    let row = reported(outcome);
    match outcome {
        Outcome::Accepted { edges: Some(edges), .. } => created(&row, Status::Success, *edges),
        Outcome::Accepted { edges: None, .. } => taken(&row, Status::Success, "Event accepted", None),
        Outcome::Partial { edges } => created(&row, Status::PartialSuccess, *edges),
        Outcome::NoEffect(why) => no_effect(release, &row, *why),
        Outcome::UpstreamAuth => answer(Row { message: "Lineage backend misconfigured".into(), ..row }),
        // The contract says 503. No resend cures it, so that it has no `Retry-After`.
        Outcome::Disabled => answer(Row {
            status: StatusCode::SERVICE_UNAVAILABLE,
            reason: Some("Service Unavailable: OpenLineage API is disabled"),
            message: "OpenLineage API is disabled".into(),
            ..row
        }),
        Outcome::Rejected { .. }
        | Outcome::Poison
        | Outcome::TooLarge
        | Outcome::Throttled
        | Outcome::CallerUnauthenticated
        | Outcome::CallerForbidden
        | Outcome::Unreachable(_)
        | Outcome::Unknown(_)
        | Outcome::BadGateway(_)
        | Outcome::Fault { .. }
        | Outcome::NotSent => answer(row),
    }
}

pub(super) fn batch(
    release: OpenmetadataRelease,
    status: Status,
    counts: &Counts,
    failed: &[Failed],
    edges: Option<u64>,
) -> Answer {
    let Counts { received, successful, partial, skipped, failed: failures } = *counts;
    let (successful, partial, middle) = match release {
        OpenmetadataRelease::V2_0 => (successful + partial, None, String::new()),
        OpenmetadataRelease::V2_1 => (successful, Some(partial), format!("{partial} partial, ")),
    };
    let created = edges.map(|edges| format!(" Created {edges} lineage edges.")).unwrap_or_default();
    let message = format!(
        "Processed {received} events: {successful} successful, {middle}{failures} failed, {skipped} skipped.{created}"
    );
    let summary = Summary { received, successful, partial, failed: failures, skipped };
    let body = BatchResult { status, message, summary, failed_events: failed, lineage_edges_created: edges };
    let row = match (status, release) {
        (Status::Failure, OpenmetadataRelease::V2_1) => Row::all_failed(),
        (Status::Success | Status::PartialSuccess | Status::Failure, _) => Row::ok(),
    };
    common(row.status, &row, Some((MEDIA_TYPE, serde_json::to_string(&body).unwrap_or_default())))
}

fn created(row: &Row, status: Status, edges: u64) -> Answer {
    taken(row, status, &format!("Created {edges} lineage edge(s)"), Some(edges))
}

fn no_effect(release: OpenmetadataRelease, row: &Row, why: NoEffect) -> Answer {
    let message = match (release, why) {
        (OpenmetadataRelease::V2_1, NoEffect::NoEdges) => "No lineage edges created".to_owned(),
        (OpenmetadataRelease::V2_1, NoEffect::Unresolved { datasets: 0 }) => {
            "No lineage edges created: datasets could not be resolved".to_owned()
        }
        (OpenmetadataRelease::V2_1, NoEffect::Unresolved { datasets }) => {
            format!("No lineage edges created: {datasets} dataset(s) could not be resolved")
        }
        (OpenmetadataRelease::V2_1, NoEffect::Filtered) | (OpenmetadataRelease::V2_0, _) => {
            return taken(row, Status::Success, "Event processed, no lineage edges created", Some(0));
        }
    };
    let row = Row::no_edges();
    let body = Result { status: Status::Failure, message: &message, lineage_edges_created: Some(0) };
    common(row.status, &row, Some((MEDIA_TYPE, serde_json::to_string(&body).unwrap_or_default())))
}

fn taken(row: &Row, status: Status, message: &str, edges: Option<u64>) -> Answer {
    let body = Result { status, message, lineage_edges_created: edges };
    common(StatusCode::OK, row, Some((MEDIA_TYPE, serde_json::to_string(&body).unwrap_or_default())))
}
