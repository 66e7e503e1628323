//! What one issuer's tokens must say, and the caller that they name (facts: standards and peers 3.5, rows 3, 9 to 14).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::digest;
use regex::Regex;
use serde_json::{Map, Value};

use super::Caller;
use super::algorithm::Algorithm;
use super::error::{Error, Reason};
use super::key::finished;
use super::token::Header;

/// Media types of tokens that are made for something else (OpenID back-channel logout, RFC 8417, RFC 9449).
pub(super) const FOREIGN_TYPES: [&str; 3] = ["logout+jwt", "secevent+jwt", "dpop+jwt"];
/// The media type of an access token by RFC 9068.
pub(super) const ACCESS_TOKEN_TYPE: &str = "at+jwt";
/// Largest NumericDate: up to here every JSON reader keeps whole numbers exactly.
const LATEST: Duration = Duration::from_secs(1 << 53);
/// Bytes of a `jti` that stands in audit records as it is.
const TOKEN_ID_BYTES: usize = 128;

/// The rules for tokens of one issuer, checked and compiled.
pub(super) struct Rules {
    pub(super) issuer: Arc<str>,
    pub(super) audiences: Vec<String>,
    pub(super) prefix: String,
    pub(super) algorithms: Vec<Algorithm>,
    /// In lower case, without `application/`.
    pub(super) token_types: Vec<String>,
    pub(super) subject_claims: Vec<String>,
    pub(super) subject_pattern: Option<Regex>,
    pub(super) groups_claims: Vec<String>,
    pub(super) required_claims: BTreeMap<String, String>,
    pub(super) leeway: Duration,
    pub(super) max_lifetime: Option<Duration>,
    pub(super) accept_bound_tokens: bool,
}

/// A caller, and until when the token that names it holds.
pub(super) struct Verified {
    pub(super) caller: Caller,
    /// `exp` with leeway.
    pub(super) ends: SystemTime,
}

impl Rules {
    /// The algorithm of a token, if it and the token's type are accepted.
    pub(super) fn algorithm(&self, header: &Header) -> Result<Algorithm, Reason> {
        let algorithm = Algorithm::by_name(&header.algorithm)
            .filter(|algorithm| self.algorithms.contains(algorithm))
            .ok_or(Reason::Algorithm)?;
        let token_type = header.token_type.as_deref();
        if token_type.is_some_and(|token_type| FOREIGN_TYPES.contains(&token_type)) {
            return Err(Reason::Purpose);
        }
        if !self.token_types.is_empty()
            && !token_type.is_some_and(|token_type| self.token_types.iter().any(|accepted| accepted == token_type))
        {
            return Err(Reason::Type);
        }
        Ok(algorithm)
    }

    /// The caller that verified claims name. `digest` is the token's SHA-256.
    pub(super) fn caller(
        &self,
        header: &Header,
        claims: &Map<String, Value>,
        digest: &[u8; 32],
        now: SystemTime,
    ) -> Result<Verified, Error> {
        self.check_audience(claims)?;
        let expires = self.check_times(claims, now)?;
        self.check_purpose(header, claims)?;
        if !self.accept_bound_tokens && claims.contains_key("cnf") {
            return Err(Reason::Bound.into());
        }
        let caller = Caller {
            issuer: Arc::clone(&self.issuer),
            subject: self.subject(claims)?,
            groups: self.groups(claims)?,
            token_id: token_id(claims, digest),
            expires,
            identity: identity(claims),
        };
        if !self.required_claims.iter().all(|(name, value)| claims.get(name).is_some_and(|claim| carries(claim, value)))
        {
            return Err(Error::InsufficientScope);
        }
        Ok(Verified { caller, ends: later(expires, self.leeway) })
    }

    fn check_audience(&self, claims: &Map<String, Value>) -> Result<(), Reason> {
        let named = match claims.get("aud") {
            Some(Value::String(audience)) => vec![audience.as_str()],
            Some(Value::Array(audiences)) => texts(audiences).ok_or(Reason::Audience)?,
            None | Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) => Vec::new(),
        };
        if named.iter().any(|audience| self.audiences.iter().any(|own| own == audience)) {
            return Ok(());
        }
        Err(Reason::Audience)
    }

    /// Gives `exp`.
    fn check_times(&self, claims: &Map<String, Value>, now: SystemTime) -> Result<SystemTime, Reason> {
        let expires = time(claims, "exp")?.ok_or(Reason::Times)?;
        let issued = time(claims, "iat")?;
        let not_before = time(claims, "nbf")?;
        if now >= later(expires, self.leeway) {
            return Err(Reason::Expired);
        }
        let latest = later(now, self.leeway);
        if issued.is_some_and(|issued| issued > latest) || not_before.is_some_and(|start| start > latest) {
            return Err(Reason::NotYet);
        }
        if let Some(longest) = self.max_lifetime {
            let issued = issued.ok_or(Reason::Lifetime)?;
            if expires > later(issued, longest) {
                return Err(Reason::Lifetime);
            }
        }
        Ok(expires)
    }

    /// Keeps out tokens that were made for something else. A `typ` of RFC 9068 settles it.
    fn check_purpose(&self, header: &Header, claims: &Map<String, Value>) -> Result<(), Reason> {
        if self.token_types.iter().all(|accepted| accepted == ACCESS_TOKEN_TYPE)
            && !self.token_types.is_empty()
            && !["sub", "client_id", "iat", "jti"].iter().all(|name| claims.contains_key(*name))
        {
            return Err(Reason::Profile);
        }
        if header.token_type.as_deref() == Some(ACCESS_TOKEN_TYPE) {
            return Ok(());
        }
        // Claims of ID tokens (OpenID Connect Core 2 and 3.3.2.11) and of security events (RFC 8417 section 2.2).
        if ["nonce", "at_hash", "c_hash", "events"].iter().any(|name| claims.contains_key(*name)) {
            return Err(Reason::Purpose);
        }
        // Keycloak tells its kinds of token by this claim.
        match claims.get("typ").and_then(Value::as_str) {
            Some("ID" | "Refresh" | "Offline" | "Logout") => Err(Reason::Purpose),
            Some(_) | None => Ok(()),
        }
    }

    fn subject(&self, claims: &Map<String, Value>) -> Result<Arc<str>, Reason> {
        let claim = first(&self.subject_claims, claims).map_err(|Elsewhere| Reason::Subject)?;
        let name = claim.and_then(Value::as_str).ok_or(Reason::Subject)?;
        let name = match &self.subject_pattern {
            None => name,
            Some(pattern) => {
                let captures = pattern.captures(name).ok_or(Reason::Subject)?;
                let group = if captures.len() > 1 { captures.get(1) } else { captures.get(0) };
                group.ok_or(Reason::Subject)?.as_str()
            }
        };
        self.prefixed(name).ok_or(Reason::Subject)
    }

    /// The groups; none only if the token neither carries nor points to any.
    fn groups(&self, claims: &Map<String, Value>) -> Result<Arc<[Arc<str>]>, Reason> {
        let claim = first(&self.groups_claims, claims).map_err(|Elsewhere| Reason::Groups)?;
        let Some(claim) = claim else { return Ok(Arc::from([])) };
        let names = claim.as_array().and_then(|names| texts(names)).ok_or(Reason::Groups)?;
        names.into_iter().map(|name| self.prefixed(name).ok_or(Reason::Groups)).collect()
    }

    /// With the prefix; none for a name that is empty, or that would break headers and logs.
    fn prefixed(&self, name: &str) -> Option<Arc<str>> {
        let good = !name.is_empty() && !name.contains(char::is_control);
        good.then(|| Arc::from([self.prefix.as_str(), name].concat()))
    }
}

/// The token only says where the claim can be found.
struct Elsewhere;

/// The first of the claims that is there. A token that points to one of them (OpenID Connect Core 5.6.2; `hasgroups` is
/// Microsoft's short form for groups) is not one without it.
fn first<'c>(names: &[String], claims: &'c Map<String, Value>) -> Result<Option<&'c Value>, Elsewhere> {
    for name in names {
        let pointed = match claims.get("_claim_names") {
            None => false,
            Some(Value::Object(elsewhere)) => elsewhere.contains_key(name),
            Some(_) => true,
        };
        let overflow = name == "groups" && claims.get("hasgroups").is_some_and(|flag| flag != &Value::Bool(false));
        if pointed || (overflow && !claims.contains_key(name)) {
            return Err(Elsewhere);
        }
        if let Some(claim) = claims.get(name) {
            return Ok(Some(claim));
        }
    }
    Ok(None)
}

/// Whether a claim has a value, or contains it: as an item of a list, or as a word of a text (RFC 6749 section 3.3).
fn carries(claim: &Value, wanted: &str) -> bool {
    match claim {
        Value::String(text) => text == wanted || text.split(' ').any(|word| word == wanted),
        Value::Array(items) => items.iter().any(|item| item.as_str() == Some(wanted)),
        Value::Bool(flag) => wanted == if *flag { "true" } else { "false" },
        Value::Number(number) => number.to_string().eq(wanted),
        Value::Null | Value::Object(_) => false,
    }
}

fn texts(values: &[Value]) -> Option<Vec<&str>> {
    values.iter().map(Value::as_str).collect()
}

/// A NumericDate (RFC 7519 section 2).
fn time(claims: &Map<String, Value>, name: &str) -> Result<Option<SystemTime>, Reason> {
    let Some(value) = claims.get(name) else { return Ok(None) };
    let since = match value.as_u64() {
        Some(seconds) => Some(Duration::from_secs(seconds)),
        None => value.as_f64().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
    };
    let since = since.filter(|since| *since <= LATEST).ok_or(Reason::Times)?;
    UNIX_EPOCH.checked_add(since).map(Some).ok_or(Reason::Times)
}

fn later(time: SystemTime, by: Duration) -> SystemTime {
    time.checked_add(by).unwrap_or(time)
}

fn token_id(claims: &Map<String, Value>, digest: &[u8; 32]) -> Arc<str> {
    let good = |id: &&str| !id.is_empty() && id.len() <= TOKEN_ID_BYTES && !id.contains(char::is_control);
    match claims.get("jti").and_then(Value::as_str).filter(good) {
        Some(id) => Arc::from(id),
        None => digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect::<String>().into(),
    }
}

/// SHA-256 over what does not change from one token of a caller to the next, members in the order of their names.
fn identity(claims: &Map<String, Value>) -> [u8; 32] {
    let lasting = |name: &str| !matches!(name, "exp" | "iat" | "nbf" | "jti");
    let mut context = digest::Context::new(&digest::SHA256);
    hash_members(&mut context, claims.iter().filter(|(name, _)| lasting(name)));
    finished(context.finish())
}

fn hash_members<'m>(context: &mut digest::Context, members: impl Iterator<Item = (&'m String, &'m Value)>) {
    let mut members: Vec<_> = members.collect();
    members.sort_unstable_by_key(|(name, _)| *name);
    hash_text(context, b'{', &members.len().to_string());
    for (name, value) in members {
        hash_text(context, b'k', name);
        hash_value(context, value);
    }
}

fn hash_value(context: &mut digest::Context, value: &Value) {
    match value {
        Value::Null => hash_text(context, b'n', ""),
        Value::Bool(flag) => hash_text(context, b'b', if *flag { "true" } else { "false" }),
        Value::Number(number) => hash_text(context, b'd', &number.to_string()),
        Value::String(text) => hash_text(context, b's', text),
        Value::Array(items) => {
            hash_text(context, b'[', &items.len().to_string());
            items.iter().for_each(|item| hash_value(context, item));
        }
        Value::Object(members) => hash_members(context, members.iter()),
    }
}

/// Kind, length and bytes, so that two values never run into each other.
fn hash_text(context: &mut digest::Context, kind: u8, text: &str) {
    context.update(&[kind]);
    context.update(text.len().to_string().as_bytes());
    context.update(b":");
    context.update(text.as_bytes());
}

#[cfg(test)]
mod tests;
