//! A token, taken apart strictly: RFC 7515 section 3.1 (compact form) with the checks of facts: standards and peers 3.5,
//! rows 2 and 5. Nothing in here is verified yet.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

use super::error::Reason;
use super::json;

/// Bytes of a key id; Kubernetes writes 43.
const KID_BYTES: usize = 256;

/// A token whose form is right.
pub(super) struct Token<'a> {
    pub(super) header: Header,
    pub(super) claims: Map<String, Value>,
    /// Header and payload as received: what is signed.
    pub(super) signed: &'a str,
    pub(super) signature: Vec<u8>,
}

/// What is used of a header. `jku`, `x5u`, `jwk` and `x5c` are not: keys come from the configuration alone.
pub(super) struct Header {
    pub(super) algorithm: String,
    pub(super) kid: Option<String>,
    /// In lower case, without `application/` (RFC 7515 section 4.1.9).
    pub(super) token_type: Option<String>,
}

impl<'a> Token<'a> {
    pub(super) fn parse(text: &'a str) -> Result<Self, Reason> {
        let (signed, signature) = text.rsplit_once('.').ok_or(Reason::Malformed)?;
        let (header, payload) = signed.split_once('.').ok_or(Reason::Malformed)?;
        match payload.bytes().filter(|b| *b == b'.').count() {
            0 => {}
            2 => return Err(Reason::Encrypted),
            _ => return Err(Reason::Malformed),
        }
        let header = Header::parse(&object(header)?)?;
        Ok(Self { header, claims: object(payload)?, signed, signature: decode(signature)? })
    }
}

impl Header {
    fn parse(members: &Map<String, Value>) -> Result<Self, Reason> {
        if members.contains_key("enc") || members.contains_key("zip") {
            return Err(Reason::Encrypted);
        }
        // No extension is understood, and `crit` may not be empty (RFC 7515 section 4.1.11).
        if members.contains_key("crit") || members.get("b64").is_some_and(|b64| b64 != &Value::Bool(true)) {
            return Err(Reason::Extension);
        }
        if media_type(members, "cty")?.is_some_and(|content| content == "jwt") {
            return Err(Reason::Nested);
        }
        let kid = text(members, "kid")?;
        if kid.is_some_and(|kid| kid.len() > KID_BYTES) {
            return Err(Reason::Malformed);
        }
        Ok(Self {
            algorithm: text(members, "alg")?.ok_or(Reason::Malformed)?.to_owned(),
            kid: kid.map(str::to_owned),
            token_type: media_type(members, "typ")?,
        })
    }
}

/// A media type without case and without `application/`.
pub(super) fn short_type(text: &str) -> String {
    let lower = text.to_ascii_lowercase();
    lower.strip_prefix("application/").map(str::to_owned).unwrap_or(lower)
}

fn media_type(members: &Map<String, Value>, name: &str) -> Result<Option<String>, Reason> {
    Ok(text(members, name)?.map(short_type))
}

fn text<'m>(members: &'m Map<String, Value>, name: &str) -> Result<Option<&'m str>, Reason> {
    let Some(value) = members.get(name) else { return Ok(None) };
    value.as_str().map(Some).ok_or(Reason::Malformed)
}

fn object(segment: &str) -> Result<Map<String, Value>, Reason> {
    json::object(&decode(segment)?).ok_or(Reason::Malformed)
}

/// Base64url without padding, with trailing bits of 0, not empty.
fn decode(segment: &str) -> Result<Vec<u8>, Reason> {
    if segment.is_empty() {
        return Err(Reason::Malformed);
    }
    URL_SAFE_NO_PAD.decode(segment).map_err(|_| Reason::Malformed)
}
