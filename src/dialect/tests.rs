use std::collections::BTreeSet;

use http::header::{ACCEPT, ACCEPT_ENCODING, ALLOW};
use http_body_util::BodyExt;
use proptest::prelude::*;

use super::*;
use crate::answer::{Challenge, Durability, NoEffect, Unknown, Unreachable};

const V2_0: Dialect = Dialect::Openmetadata(OpenmetadataRelease::V2_0);
const V2_1: Dialect = Dialect::Openmetadata(OpenmetadataRelease::V2_1);
const DIALECTS: [Dialect; 4] = [Dialect::Gravitino, V2_0, V2_1, Dialect::Openlineage];

const ARGUMENT: (u16, &str) = (1001, "IllegalArgumentException");
const BACKEND: (u16, &str) = (1007, "ConnectionFailedException");
const FORBIDDEN: (u16, &str) = (1008, "ForbiddenException");
const TOO_MANY: (u16, &str) = (1100, "TooManyRequestsException");

const NEUTRAL: &str =
    "A metalake, dataset, namespace or job that the event names does not exist, or the caller may not access it";

/// Headers that only some answers have.
const MEANINGFUL: [&str; 6] =
    ["retry-after", "www-authenticate", "allow", "accept", "accept-encoding", "x-lineage-result"];

#[derive(Debug, Clone)]
enum Told {
    Refusal(Refusal),
    Outcome(Outcome),
}

/// What both dialects make of one reason: status, Gravitino's code and type, the message, and the meaningful headers.
struct Row {
    told: Told,
    status: u16,
    error: (u16, &'static str),
    message: &'static str,
    headers: Vec<(&'static str, &'static str)>,
    close: bool,
}

impl Row {
    fn with(mut self, name: &'static str, value: &'static str) -> Self {
        self.headers.push((name, value));
        self
    }

    fn resend(self) -> Self {
        self.with("retry-after", "1")
    }

    fn close(self) -> Self {
        Self { close: true, ..self }
    }
}

fn no(refusal: Refusal, status: u16, error: (u16, &'static str), message: &'static str) -> Row {
    Row { told: Told::Refusal(refusal), status, error, message, headers: Vec::new(), close: false }
}

fn end(outcome: Outcome, status: u16, error: (u16, &'static str), message: &'static str) -> Row {
    Row { told: Told::Outcome(outcome), status, error, message, headers: Vec::new(), close: false }
}

fn taken(outcome: Outcome) -> Row {
    end(outcome, 201, (0, ""), "")
}

/// The table of facts/backends.md 2.3, with the corrections of the design.
fn rows() -> Vec<Row> {
    let mut rows = request_rows();
    rows.extend(body_rows());
    rows.extend(outcome_rows());
    rows
}

fn request_rows() -> Vec<Row> {
    let unauthorized = (1011, "UnauthorizedException");
    let expired = Challenge { token_sent: true, reason: "the token is expired" };
    let no_token = Challenge { token_sent: false, reason: "a bearer token is required" };
    let not_found = (1003, "NotFoundException");
    vec![
        no(
            Refusal::UnknownPath { right: "/api/lineage" },
            404,
            not_found,
            "No such path: POST events to /api/lineage",
        ),
        no(
            Refusal::NoBatches { right: "/api/v1/lineage" },
            404,
            not_found,
            "Batches are not served here: POST each event alone to /api/v1/lineage",
        ),
        no(
            Refusal::PathSpelling,
            400,
            ARGUMENT,
            "The path has empty or dot segments, `;`, encoded letters or a broken encoding: write it plainly",
        ),
        no(
            Refusal::MethodNotAllowed,
            405,
            (1006, "UnsupportedOperationException"),
            "This endpoint takes POST only",
        )
        .with("allow", "POST"),
        no(
            Refusal::Unauthenticated(no_token),
            401,
            unauthorized,
            "Authentication required: send the header Authorization: Bearer TOKEN",
        )
        .with("www-authenticate", r#"Bearer realm="lineage-gate""#),
        no(Refusal::Unauthenticated(expired), 401, unauthorized, "Token not accepted: the token is expired").with(
            "www-authenticate",
            r#"Bearer realm="lineage-gate", error="invalid_token", error_description="the token is expired""#,
        ),
        no(
            Refusal::InsufficientScope,
            403,
            FORBIDDEN,
            "The token is valid, but lacks a claim or scope that is required here: ask for a token that has it",
        )
        .with(
            "www-authenticate",
            r#"Bearer realm="lineage-gate", error="insufficient_scope", error_description="a required claim is missing""#,
        ),
        no(
            Refusal::KeysUnavailable,
            503,
            BACKEND,
            "The token cannot be checked now, since its issuer's keys are not available: send the request again",
        )
        .resend(),
        no(
            Refusal::MalformedRoles("an empty entry".into()),
            400,
            ARGUMENT,
            "Malformed X-Gravitino-Active-Roles: an empty entry",
        ),
        no(
            Refusal::RateLimited { limit: "caller".into() },
            429,
            TOO_MANY,
            "Rate limit 'caller' is used up: send the request again after a second",
        )
        .resend(),
        no(
            Refusal::OverBurst { limit: "caller".into() },
            413,
            ARGUMENT,
            "This one request is over all that rate limit 'caller' ever admits: send less at once",
        ),
    ]
}

fn body_rows() -> Vec<Row> {
    vec![
        no(
            Refusal::TooLarge { bound: "over 16MiB decoded".into() },
            413,
            ARGUMENT,
            "Event too large: over 16MiB decoded",
        )
        .close(),
        no(Refusal::UnsupportedMediaType, 415, ARGUMENT, "The Content-Type is not JSON: send application/json")
            .with("accept", "application/json")
            .close(),
        no(Refusal::UnsupportedEncoding, 415, ARGUMENT, "The Content-Encoding is not supported: send gzip or identity")
            .close(),
        no(
            Refusal::BodyTimeout,
            408,
            ARGUMENT,
            "The body did not arrive in time: check the network between client and gate, or send less at once",
        )
        .close(),
        no(Refusal::BadBody("no gzip".into()), 400, ARGUMENT, "The body cannot be read: no gzip").close(),
        no(Refusal::Malformed("at byte 5".into()), 400, ARGUMENT, "Malformed json request: at byte 5"),
        no(Refusal::Invalid("run is required".into()), 400, ARGUMENT, "run is required"),
        no(Refusal::NotVisible, 403, FORBIDDEN, NEUTRAL),
        no(Refusal::RolesNotHeld("a, b".into()), 403, FORBIDDEN, "Active roles that the caller does not hold: a, b"),
        no(
            Refusal::Unresolvable("Unsupported dataset type: CUBE".into()),
            400,
            (1001, "BadRequestException"),
            "Unsupported dataset type: CUBE",
        ),
        no(
            Refusal::BackendRule("job.name is longer than 8191 bytes".into()),
            400,
            ARGUMENT,
            "The lineage backend cannot take this event: job.name is longer than 8191 bytes",
        ),
        no(
            Refusal::PolicyUnavailable,
            503,
            BACKEND,
            "Nothing can be allowed now, since the policy is not available: send the event again",
        )
        .resend(),
        no(
            Refusal::MemoryFull,
            503,
            BACKEND,
            "Too many events are being read at once: send the event again after a second",
        )
        .resend()
        .close(),
        no(Refusal::Internal, 500, (1002, "RuntimeException"), "Internal Server Error"),
    ]
}

fn outcome_rows() -> Vec<Row> {
    let rejected =
        |message: Option<&str>, unprocessable| Outcome::Rejected { message: message.map(str::to_owned), unprocessable };
    let unreachable = "The lineage backend is not reachable: send the request again";
    let unknown = "Outcome not known yet: the lineage backend has not answered; send the event again";
    let mut rows = vec![
        taken(Outcome::Accepted { edges: None, durability: Durability::Stored }),
        taken(Outcome::Accepted { edges: Some(2), durability: Durability::Queued }),
        taken(Outcome::Partial { edges: 1 }).with("x-lineage-result", "partial"),
        end(rejected(Some("bad namespace"), false), 400, ARGUMENT, "bad namespace"),
        end(rejected(None, false), 400, ARGUMENT, "The lineage backend rejected the event"),
        end(rejected(Some("bad name"), true), 422, ARGUMENT, "bad name"),
        end(
            Outcome::TooLarge,
            413,
            ARGUMENT,
            "The event is too large for the lineage backend: send smaller events",
        ),
        end(
            Outcome::Throttled,
            429,
            TOO_MANY,
            "The lineage backend takes no more events now: send the event again after a second",
        )
        .resend(),
        end(Outcome::UpstreamAuth, 501, BACKEND, "Lineage backend rejected the gateway's credentials"),
        end(
            Outcome::CallerUnauthenticated,
            401,
            (1011, "UnauthorizedException"),
            "Token not accepted: the lineage backend does not accept the token",
        )
        .with(
            "www-authenticate",
            r#"Bearer realm="lineage-gate", error="invalid_token", error_description="the lineage backend does not accept the token""#,
        ),
        end(Outcome::CallerForbidden, 403, FORBIDDEN, NEUTRAL),
        end(Outcome::Unreachable(Unreachable::Dns), 503, BACKEND, unreachable).resend(),
        end(Outcome::Unreachable(Unreachable::Connect), 503, BACKEND, unreachable).resend(),
        end(
            Outcome::Unreachable(Unreachable::Certificate),
            501,
            BACKEND,
            "Lineage backend misconfigured: its certificate does not hold",
        ),
        end(Outcome::BadGateway("a secret host".into()), 501, BACKEND, "Lineage backend misconfigured"),
        end(
            Outcome::Fault { status: 502 },
            503,
            BACKEND,
            "The lineage backend failed: send the event again",
        )
        .resend(),
        end(
            Outcome::Poison,
            422,
            ARGUMENT,
            "The lineage backend failed at this event again while it takes others: do not send it again as it is",
        ),
        end(
            Outcome::Unknown(Unknown::Unwatched),
            504,
            BACKEND,
            "Outcome not known: the lineage backend has not answered, and may have done what was asked",
        ),
        end(Outcome::Disabled, 501, BACKEND, "Lineage is switched off at the lineage backend"),
        end(
            Outcome::NotSent,
            503,
            BACKEND,
            "The event was not sent to the lineage backend: send it again",
        )
        .resend(),
    ];
    for why in [Unknown::Timeout, Unknown::Reset, Unknown::TruncatedBody, Unknown::Pending] {
        rows.push(end(Outcome::Unknown(why), 503, BACKEND, unknown).resend());
    }
    for why in [NoEffect::Filtered, NoEffect::NoEdges, NoEffect::Unresolved { datasets: 3 }] {
        rows.push(taken(Outcome::NoEffect(why)).with("x-lineage-result", "skipped"));
    }
    rows
}

fn tell(dialect: Dialect, told: &Told) -> Answer {
    match told {
        Told::Refusal(refusal) => refuse(dialect, refusal),
        Told::Outcome(outcome) => report(dialect, outcome),
    }
}

/// What a row is in one dialect: its status, its body and the body's type.
fn expected(dialect: Dialect, row: &Row) -> (u16, String, Option<&'static str>) {
    let message = serde_json::to_string(row.message).unwrap();
    let (code, kind) = row.error;
    match (dialect, row.status) {
        (Dialect::Openmetadata(release), _) => {
            let (status, body) = openmetadata_answer(release, row);
            (status, body, Some("application/json"))
        }
        (_, 201) => (201, String::new(), None),
        (Dialect::Gravitino, status) => (
            if matches!(row.told, Told::Outcome(Outcome::Rejected { .. })) { 400 } else { status },
            format!(r#"{{"code":{code},"type":"{kind}","message":{message}}}"#),
            Some("application/vnd.gravitino.v1+json"),
        ),
        (Dialect::Openlineage, 422) => (422, format!(r#"{{"errors":[{message}]}}"#), Some("application/json")),
        (Dialect::Openlineage, status) => {
            (status, format!(r#"{{"code":{status},"message":{message}}}"#), Some("application/json"))
        }
    }
}

/// Column O of the table, with a body in every row.
fn openmetadata_answer(release: OpenmetadataRelease, row: &Row) -> (u16, String) {
    let event =
        |status: &str, message: &str, edges: &str| format!(r#"{{"status":"{status}","message":"{message}"{edges}}}"#);
    let none = r#","lineageEdgesCreated":0"#;
    let (message, is_v2_1) = (row.message, release == OpenmetadataRelease::V2_1);
    let no_edges = "Event processed, no lineage edges created";
    match &row.told {
        Told::Outcome(Outcome::Accepted { edges: Some(2), .. }) => {
            (200, event("success", "Created 2 lineage edge(s)", r#","lineageEdgesCreated":2"#))
        }
        Told::Outcome(Outcome::Accepted { .. }) => (200, event("success", "Event accepted", "")),
        Told::Outcome(Outcome::Partial { .. }) => {
            (200, event("partial_success", "Created 1 lineage edge(s)", r#","lineageEdgesCreated":1"#))
        }
        Told::Outcome(Outcome::NoEffect(NoEffect::NoEdges)) if is_v2_1 => {
            (400, event("failure", "No lineage edges created", none))
        }
        Told::Outcome(Outcome::NoEffect(NoEffect::Unresolved { .. })) if is_v2_1 => {
            (400, event("failure", "No lineage edges created: 3 dataset(s) could not be resolved", none))
        }
        Told::Outcome(Outcome::NoEffect(_)) => (200, event("success", no_edges, none)),
        Told::Outcome(Outcome::UpstreamAuth) => (501, event("failure", "Lineage backend misconfigured", none)),
        Told::Outcome(Outcome::Disabled) => (503, event("failure", "OpenLineage API is disabled", none)),
        Told::Refusal(_) | Told::Outcome(_) if row.status >= 500 => (row.status, event("failure", message, none)),
        Told::Refusal(_) | Told::Outcome(_) => {
            let is_poison = matches!(row.told, Told::Outcome(Outcome::Poison));
            let status = if row.status == 422 && !is_poison { 400 } else { row.status };
            let message = if status == 401 { format!("Not Authorized! {message}") } else { message.to_owned() };
            (status, format!(r#"{{"code":{status},"message":{}}}"#, serde_json::to_string(&message).unwrap()))
        }
    }
}

/// The place of a refusal's variant; a new one does not compile before it stands here, and then in the table.
fn refusal_number(refusal: &Refusal) -> usize {
    match refusal {
        Refusal::UnknownPath { .. } => 0,
        Refusal::NoBatches { .. } => 1,
        Refusal::PathSpelling => 2,
        Refusal::MethodNotAllowed => 3,
        Refusal::Unauthenticated(_) => 4,
        Refusal::InsufficientScope => 5,
        Refusal::KeysUnavailable => 6,
        Refusal::MalformedRoles(_) => 7,
        Refusal::RateLimited { .. } => 8,
        Refusal::OverBurst { .. } => 9,
        Refusal::TooLarge { .. } => 10,
        Refusal::UnsupportedMediaType => 11,
        Refusal::UnsupportedEncoding => 12,
        Refusal::BodyTimeout => 13,
        Refusal::BadBody(_) => 14,
        Refusal::Malformed(_) => 15,
        Refusal::Invalid(_) => 16,
        Refusal::NotVisible => 17,
        Refusal::RolesNotHeld(_) => 18,
        Refusal::Unresolvable(_) => 19,
        Refusal::PolicyUnavailable => 20,
        Refusal::MemoryFull => 21,
        Refusal::Internal => 22,
        Refusal::BackendRule(_) => 23,
    }
}

/// As [`refusal_number`].
fn outcome_number(outcome: &Outcome) -> usize {
    match outcome {
        Outcome::Accepted { durability: Durability::Stored, .. } => 0,
        Outcome::Accepted { durability: Durability::Queued, .. } => 1,
        Outcome::NoEffect(NoEffect::Filtered) => 2,
        Outcome::NoEffect(NoEffect::NoEdges) => 3,
        Outcome::NoEffect(NoEffect::Unresolved { .. }) => 4,
        Outcome::Partial { .. } => 5,
        Outcome::Rejected { unprocessable: false, .. } => 6,
        Outcome::Rejected { unprocessable: true, .. } => 7,
        Outcome::TooLarge => 8,
        Outcome::Throttled => 9,
        Outcome::UpstreamAuth => 10,
        Outcome::CallerUnauthenticated => 11,
        Outcome::CallerForbidden => 12,
        Outcome::Unreachable(Unreachable::Dns) => 13,
        Outcome::Unreachable(Unreachable::Connect) => 14,
        Outcome::Unreachable(Unreachable::Certificate) => 15,
        Outcome::Unknown(Unknown::Timeout) => 16,
        Outcome::Unknown(Unknown::Reset) => 17,
        Outcome::Unknown(Unknown::TruncatedBody) => 18,
        Outcome::Unknown(Unknown::Pending) => 19,
        Outcome::BadGateway(_) => 20,
        Outcome::Fault { .. } => 21,
        Outcome::Disabled => 22,
        Outcome::NotSent => 23,
        Outcome::Unknown(Unknown::Unwatched) => 24,
        Outcome::Poison => 25,
    }
}

/// What holds for every answer, whatever the reason.
pub(super) fn assert_invariants(answer: &Answer, context: &str) {
    let status = answer.status.as_u16();
    assert!(matches!(status, 200 | 201 | 400..=599), "{context}: {status}");
    let retry = answer.headers.get(RETRY_AFTER).map(|value| value.to_str().unwrap());
    // OpenMetadata's contract wants 503 where its administrator has switched lineage off; no resend cures that.
    let is_disabled = answer.reason == Some("Service Unavailable: OpenLineage API is disabled");
    assert_eq!(retry, (matches!(status, 429 | 503) && !is_disabled).then_some("1"), "{context}");
    assert_eq!(answer.headers.contains_key(WWW_AUTHENTICATE), status == 401 || insufficient(answer), "{context}");
    assert_eq!(answer.headers.get(CACHE_CONTROL).unwrap(), "no-store", "{context}");
    assert_eq!(answer.reason.is_some(), status >= 400, "{context}");
    if let Some(reason) = answer.reason {
        assert!(reason.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()), "{context}: {reason}");
        assert!((1..=100).contains(&reason.len()), "{context}: {reason}");
    }
    assert!(answer.body.len() <= 1024, "{context}: {} bytes", answer.body.len());
    assert_eq!(answer.body.is_empty(), status == 201, "{context}");
    assert_eq!(answer.headers.contains_key(CONTENT_TYPE), !answer.body.is_empty(), "{context}");
    if !answer.body.is_empty() {
        let body: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
        assert!(body.get("stack").is_none(), "{context}");
    }
}

fn insufficient(answer: &Answer) -> bool {
    let challenge = answer.headers.get(WWW_AUTHENTICATE);
    challenge.is_some_and(|challenge| challenge.to_str().unwrap().contains("insufficient_scope"))
}

#[test]
fn every_reason_has_its_answer_in_every_dialect() {
    for dialect in DIALECTS {
        for row in rows() {
            let context = format!("{dialect:?} {:?}", row.told);
            let answer = tell(dialect, &row.told);
            let (status, body, media_type) = expected(dialect, &row);
            assert_eq!(answer.status.as_u16(), status, "{context}");
            assert_eq!(answer.body, body, "{context}");
            assert_eq!(answer.headers.get(CONTENT_TYPE).map(|value| value.to_str().unwrap()), media_type, "{context}");
            assert_eq!(answer.close, row.close, "{context}");
            let mut headers = row.headers.clone();
            if dialect == Dialect::Openlineage && status == 415 {
                headers.push(("accept-encoding", "gzip, identity"));
            }
            if status == 400 && row.status == 201 {
                headers.clear();
            }
            for name in MEANINGFUL {
                let wanted = headers.iter().find(|(header, _)| *header == name).map(|(_, value)| *value);
                let have = answer.headers.get(name).map(|value| value.to_str().unwrap());
                assert_eq!(have, wanted, "{context}: {name}");
            }
        }
    }
}

#[test]
fn the_table_has_every_refusal_and_every_outcome() {
    let (mut refusals, mut outcomes) = (BTreeSet::new(), BTreeSet::new());
    for row in rows() {
        match &row.told {
            Told::Refusal(refusal) => refusals.insert(refusal_number(refusal)),
            Told::Outcome(outcome) => outcomes.insert(outcome_number(outcome)),
        };
    }
    assert_eq!(refusals, (0..24).collect());
    assert_eq!(outcomes, (0..26).collect());
}

#[test]
fn what_always_holds_holds_for_every_row() {
    for dialect in DIALECTS {
        for row in rows() {
            assert_invariants(&tell(dialect, &row.told), &format!("{dialect:?} {:?}", row.told));
        }
    }
}

#[test]
fn hidden_missing_and_forbidden_by_the_backend_get_the_same_answer() {
    for dialect in DIALECTS {
        assert_eq!(refuse(dialect, &Refusal::NotVisible), report(dialect, &Outcome::CallerForbidden));
    }
}

#[test]
fn details_of_the_backend_stay_inside() {
    for dialect in DIALECTS {
        let plain = report(dialect, &Outcome::BadGateway(String::new()));
        assert_eq!(report(dialect, &Outcome::BadGateway("http://10.0.0.1/login".to_owned())), plain);
        let failed = report(dialect, &Outcome::Fault { status: 500 });
        assert_eq!(report(dialect, &Outcome::Fault { status: 507 }), failed);
    }
}

#[test]
fn the_reason_of_a_bad_token_stands_in_the_status_line() {
    let twice = Challenge { token_sent: true, reason: "two Authorization headers" };
    let answer = refuse(Dialect::Openlineage, &Refusal::Unauthenticated(twice));
    assert_eq!(answer.reason, Some("two Authorization headers"));
}

#[test]
fn a_challenge_holds_only_what_its_grammar_allows() {
    let odd = Challenge { token_sent: true, reason: "say \"aud\" \\ or\tna\u{ef}ve\r\nX: y" };
    let answer = refuse(Dialect::Gravitino, &Refusal::Unauthenticated(odd));
    assert_eq!(
        answer.headers.get(WWW_AUTHENTICATE).unwrap(),
        r#"Bearer realm="lineage-gate", error="invalid_token", error_description="say aud  ornaveX: y""#
    );
    assert!(into_response(answer, true).extensions().get::<ReasonPhrase>().is_none());
}

#[test]
fn a_text_that_names_its_subject_is_not_labelled_twice() {
    let answer = refuse(Dialect::Openlineage, &Refusal::Malformed("Malformed json request".to_owned()));
    assert_eq!(answer.body, r#"{"code":400,"message":"Malformed json request"}"#);
    let answer = refuse(Dialect::Openlineage, &Refusal::Malformed(String::new()));
    assert_eq!(answer.body, r#"{"code":400,"message":"Malformed json request"}"#);
}

#[test]
fn messages_are_one_line_and_cut_between_characters() {
    let lines = refuse(Dialect::Openlineage, &Refusal::Invalid("a\r\n\tb\u{0}c\u{2028}d\u{7f}".to_owned()));
    assert_eq!(lines.body, r#"{"code":400,"message":"a   b c d "}"#);
    for (text, kept) in [("\u{20ac}", 300), ("\"", 450), ("x", 900)] {
        let long = refuse(Dialect::Openlineage, &Refusal::Invalid(text.repeat(2_000)));
        let body: serde_json::Value = serde_json::from_slice(&long.body).unwrap();
        assert_eq!(body["message"], format!("{}\u{2026}", text.repeat(kept)));
        let fitting = refuse(Dialect::Openlineage, &Refusal::Invalid(text.repeat(kept)));
        let body: serde_json::Value = serde_json::from_slice(&fitting.body).unwrap();
        assert_eq!(body["message"], text.repeat(kept));
    }
}

#[test]
fn a_client_of_gravitino_that_names_plain_json_only_gets_that_type() {
    for (accept, media_type) in [
        (None, "application/vnd.gravitino.v1+json"),
        (Some("*/*"), "application/vnd.gravitino.v1+json"),
        (Some("text/html"), "application/vnd.gravitino.v1+json"),
        (Some("application/vnd.gravitino.v1+json, application/json"), "application/vnd.gravitino.v1+json"),
        (Some("application/json"), "application/json"),
        (Some("application/json; charset=UTF-8"), "application/json"),
        (Some("text/html, Application/JSON;q=0.5"), "application/json"),
        (Some("application/json-seq"), "application/vnd.gravitino.v1+json"),
    ] {
        let plain = refuse(Dialect::Gravitino, &Refusal::NotVisible);
        let answer = plain.clone().for_accept(accept);
        assert_eq!(answer.headers.get(CONTENT_TYPE).unwrap(), media_type, "{accept:?}");
        assert_eq!(answer.body, plain.body);
        let other = refuse(Dialect::Openlineage, &Refusal::NotVisible).for_accept(accept);
        assert_eq!(other.headers.get(CONTENT_TYPE).unwrap(), "application/json", "{accept:?}");
    }
    let empty = report(Dialect::Gravitino, &Outcome::Accepted { edges: None, durability: Durability::Stored });
    assert_eq!(empty.clone().for_accept(Some("application/json")), empty);
}

#[test]
fn the_answer_to_head_has_no_body() {
    let answer = refuse(Dialect::Gravitino, &Refusal::MethodNotAllowed).without_body();
    assert!(answer.body.is_empty() && !answer.headers.contains_key(CONTENT_TYPE));
    assert_eq!(answer.headers.get(ALLOW).unwrap(), "POST");
}

#[tokio::test]
async fn responses_carry_their_exact_length_and_what_their_protocol_allows() {
    for dialect in DIALECTS {
        for row in rows() {
            for http1 in [true, false] {
                let answer = tell(dialect, &row.told);
                let response = into_response(answer.clone(), http1);
                let phrase = response.extensions().get::<ReasonPhrase>().map(|phrase| phrase.as_bytes().to_vec());
                let wanted = answer.reason.filter(|_| http1).map(|reason| reason.as_bytes().to_vec());
                assert_eq!(phrase, wanted);
                assert_eq!(response.headers().contains_key(CONNECTION), http1 && answer.close);
                assert_eq!(response.status(), answer.status);
                let length = response.headers().get(CONTENT_LENGTH).unwrap().to_str().unwrap().to_owned();
                let body = response.into_body().collect().await.unwrap().to_bytes();
                assert_eq!(length, body.len().to_string());
                assert_eq!(body, answer.body);
            }
        }
    }
}

#[test]
fn a_415_names_what_would_be_taken() {
    let answer = refuse(Dialect::Openlineage, &Refusal::UnsupportedEncoding);
    assert_eq!(answer.headers.get(ACCEPT_ENCODING).unwrap(), "gzip, identity");
    let answer = refuse(Dialect::Gravitino, &Refusal::UnsupportedMediaType);
    assert_eq!(answer.headers.get(ACCEPT).unwrap(), "application/json");
}

proptest! {
    #[test]
    fn no_text_breaks_what_always_holds(text in "\\PC{0,40}|(?s:.{0,1500})") {
        for dialect in DIALECTS {
            for refusal in [
                Refusal::MalformedRoles(text.clone()),
                Refusal::RateLimited { limit: text.as_str().into() },
                Refusal::OverBurst { limit: text.as_str().into() },
                Refusal::TooLarge { bound: text.clone() },
                Refusal::BadBody(text.clone()),
                Refusal::Malformed(text.clone()),
                Refusal::Invalid(text.clone()),
                Refusal::RolesNotHeld(text.clone()),
                Refusal::Unresolvable(text.clone()),
            ] {
                assert_invariants(&refuse(dialect, &refusal), &format!("{dialect:?} {refusal:?}"));
            }
            for unprocessable in [true, false] {
                let outcome = Outcome::Rejected { message: Some(text.clone()), unprocessable };
                assert_invariants(&report(dialect, &outcome), &format!("{dialect:?} {outcome:?}"));
            }
        }
    }
}
