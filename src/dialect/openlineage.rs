//! Plain OpenLineage, as Marquez answers it: code and message, and `errors` for content that does not hold.

use http::header::ACCEPT_ENCODING;
use http::{HeaderValue, StatusCode};
use serde::Serialize;

use super::table::{Kind, Row};
use super::{Answer, clean, common};

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
