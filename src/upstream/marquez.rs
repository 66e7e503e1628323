//! What Marquez answers (facts: marquez-and-clients-real 1, which corrects backends 1.1 and 2.2).
//!
//! A yes is `201` with an empty body. A no has many forms: 500 with an inner code of 4xx for everything that Jackson does
//! not like, 422 with an empty reason phrase and a list of texts, 400 and 500 as page, JSON of strings, or nothing.

use serde_json::{Map, Value};

use crate::answer::{Durability, NoEffect, Outcome};

use super::hygiene;
use super::raw::Raw;

/// Where events go.
pub(super) const PATH: &str = "/api/v1/lineage";

/// Not `/namespaces`: one bad name stored makes that one answer 500 for good (facts: marquez-and-clients-real 1, surprise
/// 1).
pub(super) const PROBE: &str = "/api/v1/tags";

/// Raw answer → outcome.
pub(super) fn classify(raw: &Raw, host: &str, port: u16) -> Outcome {
    let object = raw.object();
    let status = raw.status.as_u16();
    match status {
        200 if object.as_ref().is_some_and(echoes) => Outcome::NoEffect(NoEffect::Filtered),
        200 | 201 if raw.is_empty() => Outcome::Accepted { edges: None, durability: Durability::Stored },
        // Marquez itself never says so; something that queues in front of it may.
        202 | 204 if raw.is_empty() => Outcome::Accepted { edges: None, durability: Durability::Queued },
        200..=299 => raw.wrong_shape(),
        422 => {
            Outcome::Rejected { message: object.and_then(|object| errors(&object, host, port)), unprocessable: true }
        }
        500 if object.as_ref().is_some_and(is_client_fault) => {
            Outcome::Rejected { message: object.and_then(|object| message(&object, host, port)), unprocessable: false }
        }
        _ => raw.refused(object.and_then(|object| message(&object, host, port))),
    }
}

/// An event of a type that Marquez skips comes back as it was (facts: backends 1.1).
fn echoes(object: &Map<String, Value>) -> bool {
    object.contains_key("producer") && object.contains_key("eventTime")
}

/// The inner code is a number; the web server's own JSON has the status as a text.
fn is_client_fault(object: &Map<String, Value>) -> bool {
    object.get("code").and_then(Value::as_u64).is_some_and(|code| (400..500).contains(&code))
}

fn message(object: &Map<String, Value>, host: &str, port: u16) -> Option<String> {
    object.get("code").filter(|code| code.is_number())?;
    let message = object.get("message")?.as_str()?;
    hygiene::clean(message, host, port).or_else(|| hygiene::clean(&unreadable(message)?, host, port))
}

/// Jackson's words are full of class names, but they end with the way to the member that it cannot read, such as
/// `(through reference chain: a.B["run"]->a.B$C["facets"])`.
fn unreadable(message: &str) -> Option<String> {
    let (_, chain) = message.split_once("through reference chain: ")?;
    let mut place = String::new();
    for step in chain.split('[').skip(1) {
        let (step, _) = step.split_once(']')?;
        match step.strip_prefix('"').and_then(|key| key.strip_suffix('"')) {
            Some(key) if place.is_empty() => place.push_str(key),
            Some(key) => place = format!("{place}.{key}"),
            None => place = format!("{place}[{step}]"),
        }
    }
    (!place.is_empty()).then(|| format!("{place} cannot be read by the lineage backend"))
}

/// All texts, sorted: their order changes from start to start of the server.
fn errors(object: &Map<String, Value>, host: &str, port: u16) -> Option<String> {
    let mut texts: Vec<&str> = object.get("errors")?.as_array()?.iter().filter_map(Value::as_str).collect();
    texts.sort_unstable();
    hygiene::clean(&texts.join(", "), host, port)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::Unknown;
    use crate::upstream::fake::raw;

    const STORED: Outcome = Outcome::Accepted { edges: None, durability: Durability::Stored };
    const QUEUED: Outcome = Outcome::Accepted { edges: None, durability: Durability::Queued };
    const PAGE: &str = "<html>\n<head>\n<title>Error 400 Bad Request</title>\n</head>\n<body></body>\n</html>\n";

    fn rejected(message: Option<&str>, unprocessable: bool) -> Outcome {
        Outcome::Rejected { message: message.map(str::to_owned), unprocessable }
    }

    fn outcome(status: u16, content_type: Option<&str>, body: &str, complete: bool) -> Outcome {
        classify(&raw(status, content_type, body, complete), "marquez.example", 5000)
    }

    #[test]
    fn every_recorded_answer_has_its_outcome() {
        let json = Some("application/json");
        let html = Some("text/html;charset=iso-8859-1");
        let servlet = |status: u16, message: &str| {
            format!(
                "{{\n\"servlet\":\"jersey\",\n\"message\":\"{message}\",\n\"url\":\"/api/v1/lineage\",\n\"status\":\"{status}\"\n}}"
            )
        };
        let (bad, failed) = (servlet(400, "Bad Request"), servlet(500, "Internal Server Error"));
        let rows = [
            (201, None, "", STORED),
            (200, None, "", STORED),
            (
                200,
                json,
                r#"{"eventTime":"2026-01-02T03:04:05Z","producer":"p","schemaURL":"x/OtherEvent"}"#,
                Outcome::NoEffect(NoEffect::Filtered),
            ),
            (202, None, "", QUEUED),
            (204, None, "", QUEUED),
            (400, html, PAGE, rejected(None, false)),
            (400, json, bad.as_str(), rejected(None, false)),
            (400, None, "", rejected(None, false)),
            (
                422,
                json,
                r#"{"errors":["The request body must not be null"]}"#,
                rejected(Some("The request body must not be null"), true),
            ),
            (
                422,
                json,
                r#"{"errors":["run must not be null","eventTime must not be null"]}"#,
                rejected(Some("eventTime must not be null, run must not be null"), true),
            ),
            (422, None, "", rejected(None, true)),
            (
                500,
                json,
                r#"{"code":400,"message":"Unrecognized token 'hello'"}"#,
                rejected(Some("Unrecognized token 'hello'"), false),
            ),
            (
                500,
                json,
                r#"{"code":400,"message":"Cannot construct instance of `marquez.service.models.LineageEvent$Job`"}"#,
                rejected(None, false),
            ),
            (
                500,
                json,
                r#"{"code":400,"message":"Unexpected end-of-input\n at [Source: REDACTED (`StreamReadFeature.INCLUDE_SOURCE_IN_LOCATION` disabled); line: 1, column: 2]"}"#,
                rejected(None, false),
            ),
            (
                500,
                json,
                r#"{"code":400,"message":"Cannot deserialize value of type `java.time.ZonedDateTime` (through reference chain: marquez.service.models.LineageEvent[\"inputs\"]->java.util.ArrayList[0]->marquez.service.models.LineageEvent$Dataset[\"facets\"])"}"#,
                rejected(Some("inputs[0].facets cannot be read by the lineage backend"), false),
            ),
            (
                500,
                json,
                r#"{"code":500,"message":"There was an error processing your request. It has been logged (ID 1)."}"#,
                Outcome::Fault { status: 500 },
            ),
            (500, html, PAGE, Outcome::Fault { status: 500 }),
            (500, json, failed.as_str(), Outcome::Fault { status: 500 }),
            (500, None, "", Outcome::Fault { status: 500 }),
            (413, None, "", Outcome::TooLarge),
            (429, None, "", Outcome::Throttled),
            (401, None, "", Outcome::UpstreamAuth),
            (403, None, "", Outcome::UpstreamAuth),
            (408, None, "", Outcome::Unknown(Unknown::Timeout)),
            (409, None, "", Outcome::Fault { status: 409 }),
            (503, html, PAGE, Outcome::Fault { status: 503 }),
        ];
        for (status, content_type, body, expected) in rows {
            assert_eq!(outcome(status, content_type, body, true), expected, "{status} {content_type:?} {body}");
        }
    }

    #[test]
    fn what_marquez_never_sends_is_a_bad_gateway() {
        let json = Some("application/json");
        let rows = [
            (200, json, "{}"),
            (200, json, r#"{"status":200}"#),
            (201, json, "{}"),
            (201, Some("text/html"), PAGE),
            (200, None, "<!doctype html>"),
            (203, None, ""),
            (301, None, ""),
            (307, None, ""),
            (404, json, r#"{"code":404,"message":"HTTP 404 Not Found"}"#),
            (405, json, r#"{"code":405,"message":"HTTP 405 Method Not Allowed"}"#),
            (406, json, r#"{"code":406,"message":"HTTP 406 Not Acceptable"}"#),
            (415, json, r#"{"code":415,"message":"HTTP 415 Unsupported Media Type"}"#),
            (417, None, ""),
            (431, Some("text/html"), "<h1>Bad Message 431</h1>"),
            (501, None, ""),
        ];
        for (status, content_type, body) in rows {
            let outcome = outcome(status, content_type, body, true);
            assert!(matches!(outcome, Outcome::BadGateway(_)), "{status} {content_type:?} {body}: {outcome:?}");
        }
    }

    #[test]
    fn a_body_that_broke_off_leaves_the_status_to_decide() {
        assert_eq!(outcome(201, None, "", false), STORED);
        assert_eq!(outcome(500, Some("application/json"), r#"{"code":400"#, false), Outcome::Fault { status: 500 });
        assert_eq!(outcome(422, Some("application/json"), r#"{"err"#, false), rejected(None, true));
    }
}
