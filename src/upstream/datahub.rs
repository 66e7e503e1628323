//! What DataHub's metadata service answers (facts: backends 1.4 and 2.2, column DataHub).
//!
//! Its yes is empty: 200 in released versions, 201 and 202 in those to come. Released versions answer an empty 500 to
//! anything that they cannot use, so that a 500 may be the event's fault: it is a fault of the backend all the same, and
//! only its repetition tells.

use crate::answer::{Durability, Outcome};

use super::hygiene;
use super::raw::Raw;

/// Where events go.
pub(super) const PATH: &str = "/openapi/openlineage/api/v1/lineage";

/// Raw answer → outcome.
pub(super) fn classify(raw: &Raw, host: &str, port: u16) -> Outcome {
    match raw.status.as_u16() {
        200 | 201 if raw.is_empty() => Outcome::Accepted { edges: None, durability: Durability::Stored },
        202 | 204 if raw.is_empty() => Outcome::Accepted { edges: None, durability: Durability::Queued },
        200..=299 => raw.wrong_shape(),
        _ => {
            let message = raw.message(|object| object.contains_key("code"));
            raw.refused(message.and_then(|message| hygiene::clean(&message, host, port)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::fake::raw;

    fn outcome(status: u16, content_type: Option<&str>, body: &str) -> Outcome {
        classify(&raw(status, content_type, body, true), "datahub.example", 8080)
    }

    #[test]
    fn every_row_of_the_table_of_raw_answers() {
        let json = Some("application/json");
        let rejected = |message: Option<&str>, unprocessable| Outcome::Rejected {
            message: message.map(str::to_owned),
            unprocessable,
        };
        let stored = Outcome::Accepted { edges: None, durability: Durability::Stored };
        let queued = Outcome::Accepted { edges: None, durability: Durability::Queued };
        let rows = [
            (200, None, "", stored.clone()),
            (201, None, "", stored),
            (202, None, "", queued.clone()),
            (204, None, "", queued),
            (400, None, "", rejected(None, false)),
            (
                400,
                json,
                r#"{"code":"INVALID_EVENT","message":"Invalid OpenLineage event","details":{"errors":[{"path":"/job"}]}}"#,
                rejected(Some("Invalid OpenLineage event"), false),
            ),
            (400, json, r#"{"timestamp":1,"status":400,"error":"Bad Request","message":"x"}"#, rejected(None, false)),
            (422, None, "", rejected(None, true)),
            (401, json, r#"{"code":"AUTHENTICATION_REQUIRED","message":"no"}"#, Outcome::UpstreamAuth),
            (403, json, r#"{"code":"AUTHORIZATION_DENIED","message":"no"}"#, Outcome::UpstreamAuth),
            (409, None, "", Outcome::Fault { status: 409 }),
            (413, None, "", Outcome::TooLarge),
            (429, None, "", Outcome::Throttled),
            (500, None, "", Outcome::Fault { status: 500 }),
            (500, json, r#"{"code":"INGESTION_FAILED","message":"x"}"#, Outcome::Fault { status: 500 }),
            (500, json, r#"{"code":400,"message":"x"}"#, Outcome::Fault { status: 500 }),
            (503, None, "", Outcome::Fault { status: 503 }),
        ];
        for (status, content_type, body, expected) in rows {
            assert_eq!(outcome(status, content_type, body), expected, "{status} {content_type:?} {body}");
        }
    }

    #[test]
    fn what_datahub_never_sends_is_a_bad_gateway() {
        let rows = [
            (200, Some("text/html"), "<html></html>"),
            (200, Some("text/html"), ""),
            (200, Some("application/json"), "{}"),
            (302, None, ""),
            (404, Some("text/html"), "<html></html>"),
            (415, Some("application/json"), r#"{"code":"UNSUPPORTED_MEDIA_TYPE"}"#),
            (501, None, ""),
        ];
        for (status, content_type, body) in rows {
            assert!(matches!(outcome(status, content_type, body), Outcome::BadGateway(_)), "{status} {body}");
        }
    }
}
