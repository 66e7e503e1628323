//! What Apache Polaris answers (facts: backends 1.5 and 2.2, column Polaris).

use crate::answer::{Durability, Outcome};

use super::batch::{self, BatchOutcome, Report};
use super::hygiene;
use super::raw::Raw;

/// Where events go.
pub(super) const PATH: &str = "/api/openlineage/v1/lineage";

/// Raw answer → outcome.
pub(super) fn classify(raw: &Raw, host: &str, port: u16) -> Outcome {
    match raw.status.as_u16() {
        201 if raw.is_empty() => Outcome::Accepted { edges: None, durability: Durability::Stored },
        202 | 204 if raw.is_empty() => Outcome::Accepted { edges: None, durability: Durability::Queued },
        200..=299 => raw.wrong_shape(),
        _ => {
            let message = raw.message(|_| true);
            raw.refused(message.and_then(|message| hygiene::clean(&message, host, port)))
        }
    }
}

/// Raw answer to a batch → outcomes. `SUCCESS`, `PARTIAL` and `FAILURE` stand for the specification's words; the omitted
/// datasets of its summary are counted for the whole batch only, so that no event can be told from another by them.
pub(super) fn classify_batch(raw: &Raw, count: usize, host: &str, port: u16) -> BatchOutcome {
    if raw.status.as_u16() != 200 {
        return BatchOutcome::Whole(match raw.status.as_u16() {
            200..=299 => raw.wrong_shape(),
            _ => classify(raw, host, port),
        });
    }
    batch::read(raw, count, host, port, Report::of_polaris)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::fake::raw;

    fn outcome(status: u16, content_type: Option<&str>, body: &str) -> Outcome {
        classify(&raw(status, content_type, body, true), "polaris.example", 8181)
    }

    #[test]
    fn every_row_of_the_table_of_raw_answers() {
        let json = Some("application/json");
        let none = Outcome::Rejected { message: None, unprocessable: false };
        let rows = [
            (201, None, "", Outcome::Accepted { edges: None, durability: Durability::Stored }),
            (204, None, "", Outcome::Accepted { edges: None, durability: Durability::Queued }),
            (400, None, "", none),
            (
                400,
                json,
                r#"{"message":"Cannot create a namespace with null or empty level"}"#,
                Outcome::Rejected {
                    message: Some("Cannot create a namespace with null or empty level".to_owned()),
                    unprocessable: false,
                },
            ),
            (401, None, "", Outcome::UpstreamAuth),
            (403, None, "", Outcome::UpstreamAuth),
            (413, None, "", Outcome::TooLarge),
            (422, None, "", Outcome::Rejected { message: None, unprocessable: true }),
            (429, None, "", Outcome::Throttled),
            (500, json, r#"{"code":400}"#, Outcome::Fault { status: 500 }),
            (503, None, "", Outcome::Fault { status: 503 }),
        ];
        for (status, content_type, body, expected) in rows {
            assert_eq!(outcome(status, content_type, body), expected, "{status} {content_type:?} {body}");
        }
    }

    #[test]
    fn what_polaris_never_sends_is_a_bad_gateway() {
        let summary = r#"{"status":"SUCCESS","summary":{"received":1,"successful":1,"failed":0}}"#;
        let json = Some("application/json");
        for (status, body) in [(200, ""), (200, summary), (201, "{}"), (302, ""), (404, ""), (406, ""), (501, "")] {
            assert!(matches!(outcome(status, json, body), Outcome::BadGateway(_)), "{status} {body}");
        }
        assert!(matches!(outcome(201, Some("text/html"), ""), Outcome::BadGateway(_)));
    }
}
