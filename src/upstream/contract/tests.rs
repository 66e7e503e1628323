//! Every raw answer of every kind of backend, as the clients of every dialect are told it: the tables of
//! facts/backends.md 2.2 and 2.3 in one.

use http::StatusCode;
use http::header::{CACHE_CONTROL, RETRY_AFTER, WWW_AUTHENTICATE};
use serde_json::Value;

use super::*;
use crate::answer::{Durability, Outcome, Unknown, Unreachable};
use crate::dialect::{Answer, Dialect, OpenmetadataRelease, report};
use crate::upstream::fake::raw;

use Contract::{Datahub, Gravitino, Marquez, Openlineage, Openmetadata, Polaris};

const V2_0: Dialect = Dialect::Openmetadata(OpenmetadataRelease::V2_0);
const V2_1: Dialect = Dialect::Openmetadata(OpenmetadataRelease::V2_1);
const DIALECTS: [Dialect; 4] = [Dialect::Gravitino, V2_0, V2_1, Dialect::Openlineage];
const KINDS: [Contract; 6] = [Marquez, Openmetadata, Datahub, Gravitino, Polaris, Openlineage];

const HOST: &str = "lineage.internal.example";
const JSON: Option<&str> = Some("application/json");
const HTML: Option<&str> = Some("text/html;charset=utf-8");
const PAGE: &str = "<!DOCTYPE html><html><body>Sign in at lineage.internal.example</body></html>";
const ECHO: &str = r#"{"eventTime":"2026-01-02T03:04:05Z","producer":"p","schemaURL":"x/OtherEvent"}"#;
const INNER: &str = r#"{"code":400,"message":"Unrecognized token 'hello'"}"#;
const LEAK: &str = r#"{"code":500,"message":"jdbc:postgresql://lineage.internal.example/db at com.example.Main"}"#;
const CREATED: &str = r#"{"status":"success","message":"Created 3 lineage edge(s)","lineageEdgesCreated":3}"#;
const NO_EDGES: &str = r#"{"status":"success","lineageEdgesCreated":0}"#;
const PARTLY: &str = r#"{"status":"partial_success","lineageEdgesCreated":2}"#;
const UNRESOLVED: &str = r#"{"status":"failure","lineageEdgesCreated":0,"unresolvedDatasets":[{"name":"a"}]}"#;
const FAILED: &str = r#"{"status":"failure","message":"no producer","lineageEdgesCreated":0}"#;
const DISABLED: &str = r#"{"status":"failure","message":"OpenLineage API is disabled","lineageEdgesCreated":0}"#;

/// What a client is told, in the words of the table of 2.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    Accepted,
    /// With the edges that the backend counts.
    Created,
    Skipped,
    /// Skipped, which OpenMetadata 2.1 calls a fault.
    Unresolved,
    Partial,
    Rejected,
    Unprocessable,
    TooLarge,
    Throttled,
    UpstreamAuth,
    Misconfigured,
    Unknown,
    Fault,
    Disabled,
}

/// A raw answer, and what it is in the order of [`KINDS`].
type Row = (u16, Option<&'static str>, &'static str, bool, [Told; 6]);

fn rows() -> Vec<Row> {
    use Told::{
        Accepted, Created, Disabled as Off, Fault, Misconfigured as Wrong, Partial, Rejected, Skipped, Throttled,
        TooLarge, Unknown, Unprocessable, Unresolved, UpstreamAuth,
    };
    let mut rows = vec![
        // Marquez, OpenMetadata, DataHub, Gravitino, Polaris, any other.
        (200, None, "", true, [Accepted, Wrong, Accepted, Accepted, Wrong, Accepted]),
        (201, None, "", true, [Accepted, Wrong, Accepted, Accepted, Accepted, Accepted]),
        (202, None, "", true, [Accepted, Wrong, Accepted, Accepted, Accepted, Accepted]),
        (204, None, "", true, [Accepted, Wrong, Accepted, Accepted, Accepted, Accepted]),
        (200, JSON, ECHO, true, [Skipped, Wrong, Wrong, Accepted, Wrong, Accepted]),
        (200, JSON, CREATED, true, [Wrong, Created, Wrong, Accepted, Wrong, Accepted]),
        (200, JSON, NO_EDGES, true, [Wrong, Unresolved, Wrong, Accepted, Wrong, Accepted]),
        (200, JSON, PARTLY, true, [Wrong, Partial, Wrong, Accepted, Wrong, Accepted]),
        (200, JSON, FAILED, true, [Wrong, Rejected, Wrong, Accepted, Wrong, Accepted]),
        (400, JSON, UNRESOLVED, true, [Rejected, Unresolved, Rejected, Rejected, Rejected, Rejected]),
        (500, JSON, INNER, true, [Rejected, Fault, Fault, Fault, Fault, Fault]),
        (503, JSON, DISABLED, true, [Fault, Off, Fault, Fault, Fault, Fault]),
        (201, None, "", false, [Accepted, Wrong, Accepted, Accepted, Accepted, Accepted]),
        (200, JSON, r#"{"status":"suc"#, false, [Accepted, Unknown, Accepted, Accepted, Wrong, Accepted]),
    ];
    rows.extend([200, 201, 202, 204].map(|status| (status, HTML, PAGE, true, [Wrong; 6])));
    rows.extend([301, 302, 303, 307, 308].map(|status| (status, None, "", true, [Wrong; 6])));
    rows.extend([404, 405, 406, 415, 501].map(|status| (status, HTML, PAGE, true, [Wrong; 6])));
    rows.extend([408, 425].map(|status| (status, None, "", true, [Unknown; 6])));
    rows.extend([401, 403].map(|status| (status, JSON, LEAK, true, [UpstreamAuth; 6])));
    rows.extend([409, 500, 502, 503, 504].map(|status| (status, JSON, LEAK, true, [Fault; 6])));
    rows.extend([409, 500, 502, 503, 504].map(|status| (status, None, "", true, [Fault; 6])));
    rows.extend([
        (400, None, "", true, [Rejected; 6]),
        (400, HTML, PAGE, true, [Rejected; 6]),
        (400, JSON, LEAK, true, [Rejected; 6]),
        (413, None, "", true, [TooLarge; 6]),
        (422, None, "", true, [Unprocessable; 6]),
        (422, JSON, LEAK, true, [Unprocessable; 6]),
        (429, None, "", true, [Throttled; 6]),
        (429, HTML, PAGE, true, [Throttled; 6]),
    ]);
    rows
}

/// Status, `Retry-After`, and `X-Lineage-Result`, in the order of [`DIALECTS`].
fn expected(told: Told) -> [(u16, Option<&'static str>, Option<&'static str>); 4] {
    let all = |status, retry| [(status, retry, None); 4];
    let taken = |result| [(201, None, result), (200, None, result), (200, None, result), (201, None, result)];
    match told {
        Told::Accepted | Told::Created => taken(None),
        Told::Skipped => taken(Some("skipped")),
        Told::Unresolved => {
            let [gravitino, v2_0, _, openlineage] = taken(Some("skipped"));
            [gravitino, v2_0, (400, None, None), openlineage]
        }
        Told::Partial => taken(Some("partial")),
        Told::Rejected => all(400, None),
        Told::Unprocessable => [(400, None, None), (400, None, None), (400, None, None), (422, None, None)],
        Told::TooLarge => all(413, None),
        Told::Throttled => all(429, Some("1")),
        Told::UpstreamAuth | Told::Misconfigured => all(501, None),
        Told::Unknown | Told::Fault => all(503, Some("1")),
        Told::Disabled => [(501, None, None), (503, None, None), (503, None, None), (501, None, None)],
    }
}

/// The part of a body that the table of 2.3 fixes.
fn assert_body(dialect: Dialect, told: Told, answer: &Answer, context: &str) {
    let status = answer.status.as_u16();
    if answer.body.is_empty() {
        assert!(status == 201 && !matches!(dialect, Dialect::Openmetadata(_)), "{context}: no body");
        return;
    }
    let body: Value = serde_json::from_slice(&answer.body).unwrap();
    let member = |name: &str| body[name].clone();
    match dialect {
        Dialect::Gravitino => {
            let (code, kind) = match status {
                429 => (1100, "TooManyRequestsException"),
                501 | 503 => (1007, "ConnectionFailedException"),
                _ => (1001, "IllegalArgumentException"),
            };
            assert_eq!((member("code"), member("type")), (code.into(), kind.into()), "{context}");
        }
        Dialect::Openmetadata(_) => {
            let (word, edges) = match told {
                Told::Accepted => ("success", Value::Null),
                Told::Created => ("success", 3.into()),
                Told::Skipped => ("success", 0.into()),
                Told::Unresolved if status == 200 => ("success", 0.into()),
                Told::Partial => ("partial_success", 2.into()),
                Told::Rejected | Told::Unprocessable | Told::TooLarge | Told::Throttled => {
                    return assert_eq!(member("code"), status, "{context}");
                }
                Told::Unresolved
                | Told::UpstreamAuth
                | Told::Misconfigured
                | Told::Unknown
                | Told::Fault
                | Told::Disabled => ("failure", 0.into()),
            };
            assert_eq!((member("status"), member("lineageEdgesCreated")), (word.into(), edges), "{context}");
        }
        Dialect::Openlineage if status == 422 => assert!(member("errors").is_array(), "{context}"),
        Dialect::Openlineage => assert_eq!(member("code"), status, "{context}"),
    }
}

/// What holds for every answer, whatever came.
fn assert_invariants(answer: &Answer, context: &str) {
    let status = answer.status;
    assert!(matches!(status.as_u16(), 200 | 201 | 400..=599), "{context}: {status}");
    assert_ne!(status, StatusCode::INTERNAL_SERVER_ERROR, "{context}: kept for the gate's own faults");
    let head = format!("{:?} {:?}", answer.reason, answer.headers);
    let text = format!("{head} {}", String::from_utf8_lossy(&answer.body)).to_lowercase();
    for inside in [HOST, "jdbc", "com.example", "<html", "<!doctype", "stack", "location", "set-cookie", "om-auth"] {
        assert!(!text.contains(inside), "{context}: {text}");
    }
    assert!(!answer.headers.contains_key(WWW_AUTHENTICATE), "{context}: the credential is the gate's own");
    assert_eq!(answer.headers.get(CACHE_CONTROL).unwrap(), "no-store", "{context}");
    assert_eq!(answer.reason.is_some(), status.as_u16() >= 400, "{context}");
}

fn assert_told(outcome: &Outcome, told: Told, context: &str) {
    for (dialect, (status, retry, result)) in DIALECTS.into_iter().zip(expected(told)) {
        let context = format!("{context} as {dialect:?}: {outcome:?}");
        let answer = report(dialect, outcome);
        assert_eq!(answer.status.as_u16(), status, "{context}");
        let header = |name| answer.headers.get(name).map(|value| value.to_str().unwrap());
        assert_eq!(header(RETRY_AFTER.as_str()), retry, "{context}");
        assert_eq!(header("x-lineage-result"), result, "{context}");
        assert_body(dialect, told, &answer, &context);
        assert_invariants(&answer, &context);
    }
}

#[test]
fn the_path_of_each_kind_is_one_of_lineage() {
    for kind in KINDS {
        assert!(EVENT_PATHS.contains(&kind.path()), "{kind:?}");
    }
}

#[test]
fn every_raw_answer_of_every_kind_is_told_by_the_table_in_every_dialect() {
    for (status, content_type, body, complete, told) in rows() {
        for (kind, told) in KINDS.into_iter().zip(told) {
            let outcome = kind.classify(&raw(status, content_type, body, complete), HOST, 5000);
            assert_told(&outcome, told, &format!("{kind:?} {status} {content_type:?} {body}"));
        }
    }
}

#[test]
fn what_a_file_makes_of_an_event_is_told_by_the_same_table() {
    let stored = Outcome::Accepted { edges: None, durability: Durability::Stored };
    for (outcome, told) in [
        (stored, Told::Accepted),
        (Outcome::NotSent, Told::Fault),
        (Outcome::Fault { status: 500 }, Told::Fault),
        (Outcome::Unknown(Unknown::Timeout), Told::Unknown),
    ] {
        assert_told(&outcome, told, "file");
    }
}

#[test]
fn what_became_of_a_connection_is_told_by_the_same_table() {
    for (outcome, told) in [
        (Outcome::Unreachable(Unreachable::Dns), Told::Fault),
        (Outcome::Unreachable(Unreachable::Connect), Told::Fault),
        (Outcome::Unreachable(Unreachable::Certificate), Told::Misconfigured),
        (Outcome::Unknown(Unknown::Timeout), Told::Unknown),
        (Outcome::Unknown(Unknown::Reset), Told::Unknown),
        (Outcome::Unknown(Unknown::TruncatedBody), Told::Unknown),
    ] {
        assert_told(&outcome, told, "connection");
    }
}
