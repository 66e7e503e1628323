//! Apache Gravitino's contract: an `ErrorResponse` with code, type and message, and never a stack (facts: gravitino 5).

use http::StatusCode;
use serde::Serialize;

use super::table::{Kind, Row};
use super::{Answer, clean, common};

/// The type that the contract names. Real servers say `application/json`, and clients read both.
pub(super) const MEDIA_TYPE: &str = "application/vnd.gravitino.v1+json";

#[derive(Serialize)]
struct ErrorResponse<'a> {
    code: u16,
    r#type: &'a str,
    message: &'a str,
}

pub(super) fn answer(row: Row) -> Answer {
    let (code, r#type) = match row.kind {
        Kind::Taken => return common(row.status, &row, None),
        Kind::Argument | Kind::Unprocessable | Kind::Poison => (1001, "IllegalArgumentException"),
        Kind::Unresolvable => (1001, "BadRequestException"),
        Kind::Internal => (1002, "RuntimeException"),
        Kind::NotFound => (1003, "NotFoundException"),
        Kind::Method => (1006, "UnsupportedOperationException"),
        Kind::Connection => (1007, "ConnectionFailedException"),
        Kind::Forbidden => (1008, "ForbiddenException"),
        Kind::Unauthorized => (1011, "UnauthorizedException"),
        Kind::TooMany => (1100, "TooManyRequestsException"),
    };
    // What Gravitino itself rejects is 400 there.
    let status = if row.kind == Kind::Unprocessable { StatusCode::BAD_REQUEST } else { row.status };
    let message = clean(&row.message);
    let body = serde_json::to_string(&ErrorResponse { code, r#type, message: &message }).unwrap_or_default();
    common(status, &row, Some((MEDIA_TYPE, body)))
}
