//! What an Apache Gravitino server answers (facts: backends 2.2, column Gravitino; gravitino-real 3 and 7).
//!
//! Its 201 means queued in memory. Not every answer is its own `{code, type, message}`: 404, 405, 406, 415, 429, 431 and
//! some 400 and 500 are its web server's page, that page as JSON, or empty, so the status alone decides.

use serde_json::{Map, Value};

use crate::answer::{Durability, Outcome};

use super::hygiene;
use super::raw::Raw;

/// Where events go.
pub(super) const PATH: &str = "/api/lineage";

/// Its version, which anyone may read.
pub(super) const PROBE: &str = "/api/version";

/// Works on all versions that were tried; `application/json` or the versioned type alone does not (facts:
/// gravitino-real 3.10).
pub(super) const ACCEPT: &str = "application/vnd.gravitino.v1+json, application/json";

/// The codes of its own 403 and 401 (facts: gravitino-real 3).
const FORBIDDEN: u64 = 1008;
const UNAUTHORIZED: u64 = 1011;

/// Raw answer → outcome.
pub(super) fn classify(raw: &Raw, host: &str, port: u16) -> Outcome {
    let message = raw.message(|object| object.get("code").is_some_and(Value::is_number));
    let message = message.and_then(|message| hygiene::clean(&message, host, port));
    if raw.status.is_success() && raw.object().is_some_and(|object| !is_good(&object)) {
        return raw.wrong_shape();
    }
    raw.by_status(Durability::Queued, message)
}

/// Whether a 401 or 403 is its own word about a credential, and not that of something before it.
pub(super) fn is_own_refusal(raw: &Raw) -> bool {
    let code = raw.object().and_then(|object| object.get("code")?.as_u64());
    matches!((raw.status.as_u16(), code), (401, Some(UNAUTHORIZED)) | (403, Some(FORBIDDEN)))
}

/// Its answers to lineage have no body; those to other calls have a code, which is 0 where all is well.
fn is_good(object: &Map<String, Value>) -> bool {
    object.get("code").is_none_or(|code| code.as_u64() == Some(0))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::StatusCode;

    use super::*;
    use crate::answer::Unknown;

    const PAGE: &str = "<html><head><title>Error 429 Too Many Requests</title></head></html>";
    const JETTY: &str = r#"{"servlet":"jersey","message":"Too Many Requests","url":"/api/lineage","status":"429"}"#;
    const QUEUED: Outcome = Outcome::Accepted { edges: None, durability: Durability::Queued };

    fn rejected(message: &str) -> Outcome {
        Outcome::Rejected { message: Some(message.to_owned()), unprocessable: false }
    }

    fn outcome(status: u16, content_type: Option<&str>, body: &'static [u8], complete: bool) -> Outcome {
        let raw = Raw {
            status: StatusCode::from_u16(status).unwrap(),
            content_type: content_type.map(str::to_owned),
            body: Bytes::from_static(body),
            complete,
        };
        classify(&raw, "gravitino.example", 8090)
    }

    #[test]
    fn every_row_of_the_table_of_raw_answers() {
        let json = Some("application/json");
        let html = Some("text/html;charset=iso-8859-1");
        let none = Outcome::Rejected { message: None, unprocessable: false };
        let rows: Vec<(u16, Option<&str>, &'static str, Outcome)> = vec![
            (200, json, "{}", QUEUED),
            (201, json, "", QUEUED),
            (201, None, "", QUEUED),
            (202, None, "", QUEUED),
            (204, None, "", QUEUED),
            (400, None, "", none.clone()),
            (400, html, PAGE, none.clone()),
            (400, json, JETTY, none.clone()),
            (
                400,
                json,
                r#"{"code":1001,"type":"IllegalArgumentException","message":"run.runId is required","stack":["com.x"]}"#,
                rejected("run.runId is required"),
            ),
            (400, json, r#"{"code":1001,"message":"failed in com.x.FooException"}"#, none),
            (401, json, r#"{"code":1011,"type":"UnauthorizedException","message":"no"}"#, Outcome::UpstreamAuth),
            (403, json, r#"{"code":1008,"type":"ForbiddenException","message":"no"}"#, Outcome::UpstreamAuth),
            (408, None, "", Outcome::Unknown(Unknown::Timeout)),
            (425, None, "", Outcome::Unknown(Unknown::Timeout)),
            (409, json, "{}", Outcome::Fault { status: 409 }),
            (413, None, "", Outcome::TooLarge),
            (422, None, "", Outcome::Rejected { message: None, unprocessable: true }),
            (429, None, "", Outcome::Throttled),
            (429, json, JETTY, Outcome::Throttled),
            (429, html, PAGE, Outcome::Throttled),
            (201, json, r#"{"code":0}"#, QUEUED),
            (500, None, "", Outcome::Fault { status: 500 }),
            (500, json, r#"{"code":1002,"type":"RuntimeException","message":"x"}"#, Outcome::Fault { status: 500 }),
            (500, json, r#"{"code":400,"message":"x"}"#, Outcome::Fault { status: 500 }),
            (502, json, r#"{"code":1007,"message":"x"}"#, Outcome::Fault { status: 502 }),
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
    fn only_a_401_and_403_in_its_own_shape_is_its_own_word() {
        let json = "application/json;charset=utf-8";
        for (status, body, complete, expected) in [
            (401, r#"{"code":1011,"type":"UnauthorizedException","message":"no"}"#, true, true),
            (403, r#"{"code":1008,"type":"ForbiddenException","message":"no"}"#, true, true),
            (401, r#"{"code":1008,"type":"ForbiddenException","message":"no"}"#, true, false),
            (403, r#"{"code":1011,"type":"UnauthorizedException","message":"no"}"#, true, false),
            (403, r#"{"code":403,"message":"no"}"#, true, false),
            (401, r#"{"code":1011,"type":"UnauthorizedException","message":"no"}"#, false, false),
            (403, JETTY, true, false),
            (401, PAGE, true, false),
            (403, "", true, false),
            (400, r#"{"code":1008,"type":"ForbiddenException","message":"no"}"#, true, false),
        ] {
            let body = Bytes::from_static(body.as_bytes());
            let status = StatusCode::from_u16(status).unwrap();
            let raw = Raw { status, content_type: Some(json.to_owned()), body, complete };
            assert_eq!(is_own_refusal(&raw), expected, "{raw:?}");
        }
    }

    #[test]
    fn what_is_no_lineage_endpoint_is_a_bad_gateway() {
        for status in [101, 203, 205, 206, 226, 300, 301, 302, 303, 304, 307, 308] {
            assert!(matches!(outcome(status, None, b"", true), Outcome::BadGateway(_)), "{status}");
        }
        for status in [402, 404, 405, 406, 407, 410, 411, 414, 415, 426, 431, 451, 501, 600, 999] {
            assert!(matches!(outcome(status, None, b"", true), Outcome::BadGateway(_)), "{status}");
        }
        for status in [200, 201, 202, 204] {
            let page = outcome(status, Some("text/html"), PAGE.as_bytes(), true);
            assert!(matches!(page, Outcome::BadGateway(_)), "{status}");
        }
        assert!(matches!(outcome(200, Some("text/plain"), b"welcome", true), Outcome::BadGateway(_)));
        assert!(matches!(outcome(200, None, b" <!doctype html>", true), Outcome::BadGateway(_)));
    }

    #[test]
    fn the_recorded_406_and_an_error_under_a_good_status_are_a_bad_gateway() {
        let not_acceptable = br#"{"servlet":"org.glassfish.jersey.servlet.ServletContainer-1","message":"Not Acceptable","url":"/api/lineage","status":"406"}"#;
        assert!(matches!(outcome(406, Some("application/json"), not_acceptable, true), Outcome::BadGateway(_)));
        assert!(matches!(outcome(406, None, b"", true), Outcome::BadGateway(_)));
        let error = br#"{"code":1002,"type":"RuntimeException","message":"x"}"#;
        assert!(matches!(outcome(200, Some("application/json"), error, true), Outcome::BadGateway(_)));
    }

    #[test]
    fn a_broken_body_leaves_the_status_to_decide() {
        assert_eq!(outcome(201, Some("application/json"), b"{\"co", false), QUEUED);
        assert_eq!(outcome(201, None, b"\xff\xfe", true), QUEUED);
        assert_eq!(outcome(201, None, b"", false), QUEUED);
        let cut = outcome(400, Some("application/json"), br#"{"code":1001,"message":"x"}"#, false);
        assert_eq!(cut, Outcome::Rejected { message: None, unprocessable: false });
        assert_eq!(outcome(500, None, b"\xff", false), Outcome::Fault { status: 500 });
    }
}
