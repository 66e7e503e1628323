//! What any OpenLineage endpoint answers (facts: backends 2.2, column "generic OL", and 1.11).
//!
//! The contract names 200; real endpoints also answer 201, 202 and 204. The last two promise a queue at most.

use crate::answer::{Durability, Outcome};

use super::hygiene;
use super::raw::Raw;

/// Where events go, if the URL has no path of its own.
pub(super) const PATH: &str = "/api/v1/lineage";

/// Raw answer → outcome.
pub(super) fn classify(raw: &Raw, host: &str, port: u16) -> Outcome {
    let durability = match raw.status.as_u16() {
        202 | 204 => Durability::Queued,
        _ => Durability::Stored,
    };
    let message = raw.message(|object| !object.contains_key("servlet"));
    let message = message.and_then(|message| hygiene::clean(&message, host, port));
    raw.by_status(durability, message)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::StatusCode;

    use super::*;
    use crate::answer::Unknown;

    const STORED: Outcome = Outcome::Accepted { edges: None, durability: Durability::Stored };
    const QUEUED: Outcome = Outcome::Accepted { edges: None, durability: Durability::Queued };
    const NO_WORDS: Outcome = Outcome::Rejected { message: None, unprocessable: false };

    fn outcome(status: u16, content_type: Option<&str>, body: &'static [u8], complete: bool) -> Outcome {
        let raw = Raw {
            status: StatusCode::from_u16(status).unwrap(),
            content_type: content_type.map(str::to_owned),
            body: Bytes::from_static(body),
            complete,
        };
        classify(&raw, "marquez.example", 5000)
    }

    #[test]
    fn every_row_of_the_table_of_raw_answers() {
        let json = Some("application/json");
        let jetty = r#"{"servlet":"jersey","message":"Bad Request","url":"/api/v1/lineage","status":"400"}"#;
        let rows: Vec<(u16, Option<&str>, &'static str, Outcome)> = vec![
            (200, json, r#"{"status":200}"#, STORED),
            (200, Some("text/plain; charset=utf-8"), r#"{"status":200}"#, STORED),
            (200, Some("application/vnd.acme+json"), "{}", STORED),
            (201, None, "", STORED),
            (202, None, "", QUEUED),
            (204, None, "", QUEUED),
            (400, None, "", NO_WORDS),
            (400, Some("text/html"), "<html>Bad Request</html>", NO_WORDS),
            (400, json, jetty, NO_WORDS),
            (400, json, r#"["message"]"#, NO_WORDS),
            (400, json, r#"{"message":{"a":1}}"#, NO_WORDS),
            (
                400,
                json,
                r#"{"code":400,"message":"bad\nname"}"#,
                Outcome::Rejected { message: Some("bad name".to_owned()), unprocessable: false },
            ),
            (400, json, r#"{"code":400,"message":"marquez.example said no"}"#, NO_WORDS),
            (401, None, "", Outcome::UpstreamAuth),
            (403, Some("text/html"), "<html>", Outcome::UpstreamAuth),
            (408, None, "", Outcome::Unknown(Unknown::Timeout)),
            (425, None, "", Outcome::Unknown(Unknown::Timeout)),
            (409, None, "", Outcome::Fault { status: 409 }),
            (413, None, "", Outcome::TooLarge),
            (
                422,
                json,
                r#"{"errors":["run must not be null"]}"#,
                Outcome::Rejected { message: None, unprocessable: true },
            ),
            (429, None, "", Outcome::Throttled),
            (500, json, r#"{"code":400,"message":"Unexpected end-of-input"}"#, Outcome::Fault { status: 500 }),
            (500, None, "", Outcome::Fault { status: 500 }),
            (502, Some("text/html"), "<html>", Outcome::Fault { status: 502 }),
            (503, None, "", Outcome::Fault { status: 503 }),
            (504, None, "", Outcome::Fault { status: 504 }),
        ];
        for (status, content_type, body, expected) in rows {
            assert_eq!(
                outcome(status, content_type, body.as_bytes(), true),
                expected,
                "{status} {content_type:?} {body}"
            );
        }
    }

    #[test]
    fn what_is_no_lineage_endpoint_is_a_bad_gateway() {
        for status in [203, 205, 206, 301, 302, 303, 307, 308, 402, 404, 405, 406, 407, 410, 415, 421, 431, 501, 700] {
            assert!(matches!(outcome(status, None, b"", true), Outcome::BadGateway(_)), "{status}");
        }
        for status in [200, 201, 202, 204] {
            for kind in ["text/html", "text/html; charset=utf-8", "application/xhtml+xml"] {
                assert!(
                    matches!(outcome(status, Some(kind), b"<html>", true), Outcome::BadGateway(_)),
                    "{status} {kind}"
                );
                assert!(matches!(outcome(status, Some(kind), b"", false), Outcome::BadGateway(_)), "{status} {kind}");
            }
        }
        assert!(matches!(outcome(200, Some("text/plain"), b"{\"a\":", false), Outcome::BadGateway(_)));
    }

    #[test]
    fn a_broken_body_leaves_the_status_to_decide() {
        assert_eq!(outcome(201, Some("application/json"), b"{\"a\":", false), STORED);
        assert_eq!(outcome(201, None, b"\xff", true), STORED);
        assert_eq!(outcome(400, Some("application/json"), br#"{"message":"x"}"#, false), NO_WORDS);
    }
}
