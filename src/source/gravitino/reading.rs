//! What an answer of the server means. Pure.
//!
//! The guard of the owners endpoint is the very rule that lineage events are judged by, so that its status tells the
//! decision: in 272 of 272 cases that real servers were asked (facts: gravitino-real 2, 3.7, 3.8, 7). Only an answer in
//! Gravitino's own shape is believed: a proxy's 403 or 401 is nobody's verdict.

use serde::Deserialize;

use crate::policy::ObjectType;
use crate::upstream::Read;

use super::Trouble;

/// The lowest code of an error.
const FIRST_CODE: u32 = 1000;

const NOT_FOUND: u32 = 1003;
const UNSUPPORTED: u32 = 1006;
const FORBIDDEN: u32 = 1008;
const NOT_IN_USE: u32 = 1009;
const UNAUTHORIZED: u32 = 1011;
const INTERNAL: u32 = 1002;

/// Bytes of a server's own words that an operator is shown.
const QUOTED: usize = 160;

/// What an owner question's answer means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reading {
    /// The rules passed, whether the object exists or not.
    Passed,
    /// The rules did not pass.
    Refused,
    /// The server fails on objects of a catalog that does not exist (1.3.0 and before): nothing is known.
    MissingCatalog,
    /// It does not accept the credential.
    Unauthenticated,
    /// It runs without authorization.
    AuthorizationOff,
    /// No decision, and why.
    Trouble(Trouble),
}

/// What was asked about.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) metalake: &'a str,
    pub(super) kind: ObjectType,
    /// The full name; the metalake's own for a metalake.
    pub(super) name: &'a str,
}

/// Gravitino's own shape; of success only `code` counts.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Words {
    pub(super) code: Option<u32>,
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) message: String,
    pub(super) stack: Vec<String>,
}

impl Words {
    /// Nothing where the body is not whole, or not Gravitino's: others number their errors below its own.
    pub(super) fn of(read: &Read) -> Option<Self> {
        if !read.complete {
            return None;
        }
        let is_own = |words: &Self| words.code.is_some_and(|code| code == 0 || code >= FIRST_CODE);
        serde_json::from_slice::<Self>(&read.body).ok().filter(is_own)
    }
}

/// Reads the answer to `GET /api/metalakes/{m}/owners/{type}/{fullName}`.
pub(super) fn read_owner(read: &Read, asked: &Asked<'_>) -> Reading {
    let words = Words::of(read);
    let code = words.as_ref().and_then(|words| words.code);
    match (read.status, code, &words) {
        (200, Some(0), _) | (409, Some(NOT_IN_USE), _) => Reading::Passed,
        // With authorization on a missing metalake is a 403.
        (404, Some(NOT_FOUND), Some(words)) if words.kind != "NoSuchMetalakeException" => Reading::Passed,
        (403, Some(FORBIDDEN), _) => Reading::Refused,
        (401, Some(UNAUTHORIZED), _) => Reading::Unauthenticated,
        (405, Some(UNSUPPORTED), _) => Reading::AuthorizationOff,
        (500, Some(INTERNAL), Some(words)) if is_wrong_kind(words, asked) => Reading::Passed,
        (500, Some(INTERNAL), Some(words)) if is_missing_catalog(words, asked) => Reading::MissingCatalog,
        _ => Reading::Trouble(trouble(read)),
    }
}

/// An answer that decides nothing, in words for the operator. What may be the fault of one question or one caller is
/// told from what is the server's own.
pub(super) fn trouble(read: &Read) -> Trouble {
    let status = read.status;
    if !read.complete {
        return Trouble::Unavailable(format!("answered {status} with a body that broke off or is too large"));
    }
    let Some(words) = Words::of(read) else {
        return Trouble::Unavailable(match status {
            300..=399 => format!("answered {status}, a redirect: write the final address as `url`"),
            406 => "answered 406: something changes the Accept header on the way".to_owned(),
            429 => "answered 429: too many requests".to_owned(),
            _ if read.body.is_empty() => format!("answered {status} with an empty body"),
            _ => format!("answered {status} with something that is not Gravitino's"),
        });
    };
    let quoted: String = words.message.chars().filter(|c| !c.is_control()).take(QUOTED).collect();
    match (status, words.code) {
        (401, Some(UNAUTHORIZED)) => Trouble::CallerUnauthenticated,
        (408 | 429, _) => Trouble::Unavailable(format!("answered {status}: {quoted}")),
        (400..=499, Some(code)) => Trouble::Rejected(format!("answered {status}, code {code}: {quoted}")),
        // What fails for one name, or one catalog's backend, says nothing about the others.
        (500 | 502, Some(code)) => Trouble::Undecided(format!("answered {status}, code {code}: {quoted}")),
        _ => Trouble::Unavailable(format!("answered {status}: {quoted}")),
    }
}

/// An object of a type that its catalog cannot hold: the failure comes after the rules passed (facts: gravitino-real
/// 3.8). The whole message is compared: names are the caller's, and might quote one.
fn is_wrong_kind(words: &Words, asked: &Asked<'_>) -> bool {
    let reason = format!("Catalog does not support {} operations", asked.kind.word());
    let (metalake, name) = (asked.metalake, asked.name);
    let message = format!(
        "Failed to operate object [metadata object {name}] operation [GET] under [{metalake}], reason [{reason}]"
    );
    let thrown = format!("java.lang.UnsupportedOperationException: {reason}");
    words.message == message && words.stack.first().is_some_and(|line| line.trim_end() == thrown)
}

fn is_missing_catalog(words: &Words, asked: &Asked<'_>) -> bool {
    let catalog = asked.name.split('.').next().unwrap_or_default();
    let thrown = format!("NoSuchCatalogException: Catalog {}.{catalog} does not exist", asked.metalake);
    words.message.starts_with("Authorization failed due to system internal error")
        && words.stack.first().is_some_and(|line| line.contains(&thrown))
}

#[cfg(test)]
mod tests;
