//! What OpenMetadata answers (facts: backends 1.2 and 2.2, contract of OpenMetadata 2.0).
//!
//! The body decides, not the status: 2.0 answers 200 to everything that it processed, 2.1 answers 400 where it resolved
//! nothing. A 200 that is no such body comes from its web pages: `/api` is missing in front of the path. Its 503 may mean
//! that an administrator switched lineage off, which no resend cures.

use serde_json::{Map, Value};

use crate::answer::{Durability, NoEffect, Outcome, Unknown};
use crate::config::EventKind;
use crate::event::{Event, Role};

use super::batch::{self, BatchOutcome, Report};
use super::hygiene;
use super::raw::Raw;

/// Where events go.
pub(super) const PATH: &str = "/api/v1/openlineage/lineage";

/// Its signing keys, which anyone may read (facts: backends 1.2).
pub(super) const PROBE: &str = "/api/v1/system/config/jwks";

const DISABLED: &str = "OpenLineage API is disabled";

/// Raw answer → outcome. Without edges it is [`NoEffect::NoEdges`]: whether that was to be expected, the answer does not
/// tell ([`draws_edges`]).
pub(super) fn classify(raw: &Raw, host: &str, port: u16) -> Outcome {
    match raw.status.as_u16() {
        200 if raw.is_page() => raw.wrong_shape(),
        200 if !raw.complete => Outcome::Unknown(Unknown::TruncatedBody),
        200 => raw.object().and_then(|object| processed(&object, host, port)).unwrap_or_else(|| raw.wrong_shape()),
        201..=299 => raw.wrong_shape(),
        400 => {
            let processed = raw.object().and_then(|object| processed(&object, host, port));
            processed.unwrap_or_else(|| raw.refused(message(raw, host, port)))
        }
        503 if raw.message(is_result).as_deref() == Some(DISABLED) => Outcome::Disabled,
        _ => raw.refused(message(raw, host, port)),
    }
}

/// Raw answer to a batch → outcomes. 2.1 answers 400 with the same body where all failed; a 400 without it refuses the
/// whole batch for one element.
pub(super) fn classify_batch(raw: &Raw, count: usize, host: &str, port: u16) -> BatchOutcome {
    let is_report = raw.object().is_some_and(|object| object.contains_key("summary"));
    match raw.status.as_u16() {
        200 => batch::read(raw, count, host, port, Report::of_openmetadata),
        400 if is_report => batch::read(raw, count, host, port, Report::of_openmetadata),
        201..=299 => BatchOutcome::Whole(raw.wrong_shape()),
        _ => BatchOutcome::Whole(classify(raw, host, port)),
    }
}

/// Whether the event can make an edge: by default only completed runs are processed, a missing `eventType` counts as one,
/// and an edge needs an input and an output.
pub fn draws_edges(event: &Event) -> bool {
    let has = |role| event.references.iter().any(|reference| reference.role == role);
    let is_complete = event.event_type.as_deref().is_none_or(|kind| kind.eq_ignore_ascii_case("COMPLETE"));
    event.kind == EventKind::Run && is_complete && has(Role::Input) && has(Role::Output)
}

fn is_result(object: &Map<String, Value>) -> bool {
    object.get("status").is_some_and(Value::is_string)
}

fn message(raw: &Raw, host: &str, port: u16) -> Option<String> {
    let message = raw.message(|object| is_result(object) || object.get("code").is_some_and(Value::is_number));
    message.and_then(|message| hygiene::clean(&message, host, port))
}

/// The body of a processed event; nothing where it has another shape.
fn processed(object: &Map<String, Value>, host: &str, port: u16) -> Option<Outcome> {
    let edges = object.get("lineageEdgesCreated").and_then(Value::as_u64);
    let datasets = object.get("unresolvedDatasets").and_then(Value::as_array).map_or(0, Vec::len);
    match (object.get("status")?.as_str()?, edges) {
        ("success", Some(0)) if datasets > 0 => Some(Outcome::NoEffect(NoEffect::Unresolved { datasets })),
        ("success", Some(0)) => Some(Outcome::NoEffect(NoEffect::NoEdges)),
        ("success", edges) => Some(Outcome::Accepted { edges, durability: Durability::Stored }),
        ("partial_success", edges) => Some(Outcome::Partial { edges: edges.unwrap_or_default() }),
        ("failure", _) if datasets > 0 => Some(Outcome::NoEffect(NoEffect::Unresolved { datasets })),
        ("failure", _) => {
            let message = object.get("message").and_then(Value::as_str);
            let message = message.and_then(|message| hygiene::clean(message, host, port));
            Some(Outcome::Rejected { message, unprocessable: false })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::fake::raw;

    const SPA: &str = "<!DOCTYPE html><html><head><title>OpenMetadata</title></head></html>";

    fn outcome(status: u16, content_type: Option<&str>, body: &str, complete: bool) -> Outcome {
        classify(&raw(status, content_type, body, complete), "openmetadata.example", 8585)
    }

    fn rejected(message: Option<&str>) -> Outcome {
        Outcome::Rejected { message: message.map(str::to_owned), unprocessable: false }
    }

    #[test]
    fn every_body_of_both_versions_has_its_outcome() {
        let rows = [
            (
                200,
                r#"{"status":"success","message":"Created 1 lineage edge(s)","lineageEdgesCreated":1}"#,
                Outcome::Accepted { edges: Some(1), durability: Durability::Stored },
            ),
            (200, r#"{"status":"success"}"#, Outcome::Accepted { edges: None, durability: Durability::Stored }),
            (
                200,
                r#"{"status":"success","message":"Event processed, no lineage edges created","lineageEdgesCreated":0}"#,
                Outcome::NoEffect(NoEffect::NoEdges),
            ),
            (
                200,
                r#"{"status":"success","lineageEdgesCreated":0,"unresolvedDatasets":[{"eventIndex":0}]}"#,
                Outcome::NoEffect(NoEffect::Unresolved { datasets: 1 }),
            ),
            (
                200,
                r#"{"status":"partial_success","message":"x","lineageEdgesCreated":2}"#,
                Outcome::Partial { edges: 2 },
            ),
            (
                400,
                r#"{"status":"failure","message":"x","lineageEdgesCreated":0,"unresolvedDatasets":[{"namespace":"a","name":"b"}]}"#,
                Outcome::NoEffect(NoEffect::Unresolved { datasets: 1 }),
            ),
            (
                200,
                r#"{"status":"failure","message":"no producer","lineageEdgesCreated":0}"#,
                rejected(Some("no producer")),
            ),
            (
                400,
                r#"{"status":"failure","message":"no producer","unresolvedDatasets":null}"#,
                rejected(Some("no producer")),
            ),
            (
                400,
                r#"{"code":400,"message":"query param x must not be null"}"#,
                rejected(Some("query param x must not be null")),
            ),
            (400, r#"{"responseMessage":"x"}"#, rejected(None)),
            (400, "", rejected(None)),
            (401, r#"{"code":401,"message":"Not Authorized! Token not present"}"#, Outcome::UpstreamAuth),
            (
                403,
                r#"{"code":403,"message":"Principal: CatalogPrincipal{name='svc'} operations [EditLineage] not allowed"}"#,
                Outcome::UpstreamAuth,
            ),
            (413, "", Outcome::TooLarge),
            (422, "", Outcome::Rejected { message: None, unprocessable: true }),
            (429, "", Outcome::Throttled),
            (
                500,
                r#"{"status":"failure","message":"Error processing event: java.lang.X","lineageEdgesCreated":0}"#,
                Outcome::Fault { status: 500 },
            ),
            (500, r#"{"code":400,"message":"x"}"#, Outcome::Fault { status: 500 }),
            (
                503,
                r#"{"status":"failure","message":"OpenLineage API is disabled","lineageEdgesCreated":0}"#,
                Outcome::Disabled,
            ),
            (503, r#"{"status":"failure","message":"busy"}"#, Outcome::Fault { status: 503 }),
            (503, "", Outcome::Fault { status: 503 }),
        ];
        for (status, body, expected) in rows {
            assert_eq!(outcome(status, Some("application/json"), body, true), expected, "{status} {body}");
        }
    }

    #[test]
    fn a_yes_of_another_shape_is_a_bad_gateway() {
        let json = Some("application/json");
        let rows = [
            (200, Some("text/html"), SPA, true),
            (200, Some("text/html"), "<!DOC", false),
            (200, None, SPA, true),
            (200, None, "", true),
            (200, json, "", true),
            (200, json, "[]", true),
            (200, json, r#"{"lineageEdgesCreated":1}"#, true),
            (200, json, r#"{"status":"ok"}"#, true),
            (201, json, r#"{"status":"success","lineageEdgesCreated":1}"#, true),
            (204, None, "", true),
            (302, None, "", true),
            (404, json, r#"{"code":404,"message":"HTTP 404 Not Found"}"#, true),
            (501, None, "", true),
        ];
        for (status, content_type, body, complete) in rows {
            let outcome = outcome(status, content_type, body, complete);
            assert!(matches!(outcome, Outcome::BadGateway(_)), "{status} {body}: {outcome:?}");
        }
    }

    #[test]
    fn a_body_that_broke_off_leaves_the_delivery_unknown() {
        let cut = outcome(200, Some("application/json"), r#"{"status":"success","lineageEd"#, false);
        assert_eq!(cut, Outcome::Unknown(Unknown::TruncatedBody));
        assert_eq!(outcome(500, Some("application/json"), r#"{"sta"#, false), Outcome::Fault { status: 500 });
    }
}
