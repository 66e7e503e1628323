//! JSON Web Key Sets (RFC 7517), as issuers really publish them.

use aws_lc_rs::signature::{RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents};
use base64::Engine;
use base64::alphabet::URL_SAFE;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde::Deserialize;
use serde_json::Value;
use serde_json::error::Category;

use super::algorithm::{Algorithm, Family};
use super::key::{Key, KeySet};

/// Bytes of a key set.
pub(super) const MAX_BYTES: usize = 256 * 1024;
/// Keys of a key set that are looked at.
const MAX_KEYS: usize = 100;

/// OpenMetadata pads (facts: backends 1.2).
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// A key set that was read.
pub(super) struct Parsed {
    /// The keys that can be used; possibly none.
    pub(super) keys: KeySet,
    /// Why the other keys cannot, for the log.
    pub(super) skipped: Vec<String>,
}

/// Reads a key set. A key that cannot be used is skipped and named; only a document that is no key set at all is an
/// error, in words for the operator.
pub(super) fn parse(bytes: &[u8], accepted: &[Algorithm]) -> Result<Parsed, String> {
    if bytes.len() > MAX_BYTES {
        return Err(format!("is larger than {MAX_BYTES} bytes"));
    }
    // The parser's own words may quote the content, which could be anything if the path or URL is wrong.
    let set: RawSet = serde_json::from_slice(bytes).map_err(|error| match error.classify() {
        Category::Data => "is no JSON Web Key Set: it has no list `keys`".to_owned(),
        Category::Io | Category::Syntax | Category::Eof => {
            format!("is no JSON Web Key Set: not JSON at line {}, column {}", error.line(), error.column())
        }
    })?;
    let mut keys = Vec::new();
    let mut skipped = Vec::new();
    for (index, raw) in set.keys.iter().take(MAX_KEYS).enumerate() {
        match usable(raw, accepted) {
            Ok(key) => keys.push(key),
            Err(why) => skipped.push(format!("key {index} (kid {:?}) {why}", short_kid(raw))),
        }
    }
    if set.keys.len() > MAX_KEYS {
        skipped.push(format!("keys behind the first {MAX_KEYS} are not looked at"));
    }
    Ok(Parsed { keys: KeySet::of_set(keys), skipped })
}

#[derive(Deserialize)]
struct RawSet {
    keys: Vec<Value>,
}

#[derive(Deserialize)]
struct RawKey {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    #[serde(rename = "use")]
    usage: Option<String>,
    key_ops: Option<Vec<String>>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

fn usable(raw: &Value, accepted: &[Algorithm]) -> Result<Key, &'static str> {
    let raw = RawKey::deserialize(raw).map_err(|_| "is no JSON Web Key: `kty` is missing, or a member is no text")?;
    if raw.usage.as_deref().is_some_and(|usage| usage != "sig") {
        return Err("is not for signatures (`use`)");
    }
    if raw.key_ops.as_ref().is_some_and(|operations| !operations.iter().any(|operation| operation == "verify")) {
        return Err("is not for verification (`key_ops`)");
    }
    let (family, der) = material(&raw)?;
    let Some(name) = raw.alg else { return Key::public(raw.kid, family, &der, accepted) };
    let algorithm = Algorithm::by_name(&name).ok_or("is for an `alg` that is not supported")?;
    if algorithm.family() != family {
        return Err("has an `alg` that does not go with its `kty` or `crv`");
    }
    if !accepted.contains(&algorithm) {
        return Err("has an `alg` that is not one of the accepted `algorithms`");
    }
    Key::public(raw.kid, family, &der, &[algorithm])
}

/// For the log.
fn short_kid(raw: &Value) -> String {
    raw.get("kid").and_then(Value::as_str).unwrap_or_default().chars().take(64).collect()
}

fn material(raw: &RawKey) -> Result<(Family, Vec<u8>), &'static str> {
    match (raw.kty.as_str(), raw.crv.as_deref()) {
        ("RSA", _) => Ok((Family::Rsa, rsa(raw)?)),
        ("EC", Some("P-256")) => Ok((Family::P256, point(raw, 32)?)),
        ("EC", Some("P-384")) => Ok((Family::P384, point(raw, 48)?)),
        ("OKP", Some("Ed25519")) => Ok((Family::Ed25519, sized(raw.x.as_deref(), 32)?)),
        ("oct", _) => Err("is a shared secret (`kty: oct`), which nobody may publish"),
        ("EC" | "OKP", _) => Err("has a `crv` that is not supported"),
        (_, _) => Err("has a `kty` that is not supported"),
    }
}

fn rsa(raw: &RawKey) -> Result<Vec<u8>, &'static str> {
    let components = RsaPublicKeyComponents { n: integer(raw.n.as_deref())?, e: integer(raw.e.as_deref())? };
    let key = components.to_parsed_public_key(&RSA_PKCS1_2048_8192_SHA256).map_err(|_| "is no valid RSA key")?;
    Ok(key.as_ref().to_vec())
}

/// An uncompressed point (SEC 1 section 2.3.3).
fn point(raw: &RawKey, bytes: usize) -> Result<Vec<u8>, &'static str> {
    let mut point = vec![4];
    point.extend(sized(raw.x.as_deref(), bytes)?);
    point.extend(sized(raw.y.as_deref(), bytes)?);
    Ok(point)
}

/// An unsigned integer without leading zeros, which Java's `BigInteger` writes.
fn integer(text: Option<&str>) -> Result<Vec<u8>, &'static str> {
    let mut bytes = LENIENT.decode(text.ok_or("lacks a number of its type")?).map_err(|_| "holds bad base64url")?;
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    bytes.drain(..zeros);
    Ok(bytes)
}

/// An integer at fixed length.
fn sized(text: Option<&str>, length: usize) -> Result<Vec<u8>, &'static str> {
    let bytes = integer(text)?;
    let padding = length.checked_sub(bytes.len()).ok_or("holds a number that is too long for its `crv`")?;
    Ok([vec![0; padding], bytes].concat())
}

#[cfg(test)]
mod tests;
