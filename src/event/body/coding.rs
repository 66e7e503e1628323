//! What the headers say about a body: media type and content coding.

use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};

use crate::event::Error;

/// How a body is encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Coding {
    /// Not at all.
    Identity,
    /// RFC 1952.
    Gzip,
}

/// Absent, `application/json`, or anything with the suffix `+json` (RFC 6839 section 3.1). JSON is UTF-8 (RFC 8259
/// section 8.1); a `charset` that says otherwise describes a body that the scan could not read.
pub(super) fn require_json(headers: &HeaderMap) -> Result<(), Error> {
    let Some(value) = single(headers, &CONTENT_TYPE).ok_or(Error::UnsupportedMediaType)? else { return Ok(()) };
    let mut parts = value.split(';').map(str::trim);
    let media_type = parts.next().unwrap_or_default().to_ascii_lowercase();
    let is_json = match media_type.split_once('/') {
        Some(("application", "json")) => true,
        Some((kind, subtype)) => is_token(kind) && is_token(subtype) && subtype.ends_with("+json"),
        None => false,
    };
    if is_json && parts.all(is_utf8_parameter) { Ok(()) } else { Err(Error::UnsupportedMediaType) }
}

/// Absent, `identity` or `gzip`. Lists of codings are refused: no OpenLineage client sends one, and Marquez does not
/// decode one (facts: marquez-and-clients-real 1).
pub(super) fn content_coding(headers: &HeaderMap) -> Result<Coding, Error> {
    let Some(value) = single(headers, &CONTENT_ENCODING).ok_or(Error::UnsupportedEncoding)? else {
        return Ok(Coding::Identity);
    };
    if value.eq_ignore_ascii_case("gzip") {
        Ok(Coding::Gzip)
    } else if value.is_empty() || value.eq_ignore_ascii_case("identity") {
        Ok(Coding::Identity)
    } else {
        Err(Error::UnsupportedEncoding)
    }
}

/// `None` when the header stands there twice or is no text, `Some(None)` when it is absent.
fn single<'a>(headers: &'a HeaderMap, name: &http::HeaderName) -> Option<Option<&'a str>> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Some(None) };
    if values.next().is_some() {
        return None;
    }
    value.to_str().ok().map(str::trim).map(Some)
}

fn is_utf8_parameter(parameter: &str) -> bool {
    let Some((name, value)) = parameter.split_once('=') else { return parameter.is_empty() };
    if !name.trim().eq_ignore_ascii_case("charset") {
        return true;
    }
    let value = value.trim().trim_matches('"');
    value.eq_ignore_ascii_case("utf-8") || value.eq_ignore_ascii_case("utf8")
}

fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn headers(name: http::HeaderName, values: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(name.clone(), HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    #[test]
    fn json_in_utf8_is_taken_and_nothing_else() {
        let table: &[(&[&str], bool)] = &[
            (&[], true),
            (&["application/json"], true),
            (&["Application/JSON"], true),
            (&["application/json; charset=UTF-8"], true),
            (&["application/json;charset=\"utf-8\""], true),
            (&["application/json; charset=utf8"], true),
            (&["application/json;"], true),
            (&["application/json; profile=x"], true),
            (&["application/vnd.openlineage+json"], true),
            (&["application/cloudevents+json; charset=utf-8"], true),
            (&["application/json; charset=UTF-16"], false),
            (&["application/json; charset=iso-8859-1"], false),
            (&["application/json; nonsense"], false),
            (&["application/cloudevents-batch"], false),
            (&["text/plain"], false),
            (&["text/json"], false),
            (&["*/*"], false),
            (&["json"], false),
            (&["/+json"], false),
            (&[""], false),
            (&["application/json, text/plain"], false),
            (&["application/json", "application/json"], false),
        ];
        for (values, taken) in table {
            assert_eq!(require_json(&headers(CONTENT_TYPE, values)).is_ok(), *taken, "{values:?}");
        }
    }

    #[test]
    fn gzip_and_identity_are_taken_and_nothing_else() {
        let table: &[(&[&str], Option<Coding>)] = &[
            (&[], Some(Coding::Identity)),
            (&[""], Some(Coding::Identity)),
            (&["identity"], Some(Coding::Identity)),
            (&["Identity"], Some(Coding::Identity)),
            (&["gzip"], Some(Coding::Gzip)),
            (&["GZIP"], Some(Coding::Gzip)),
            (&["x-gzip"], None),
            (&["deflate"], None),
            (&["br"], None),
            (&["gzip, gzip"], None),
            (&["identity, gzip"], None),
            (&["gzip", "gzip"], None),
        ];
        for (values, coding) in table {
            assert_eq!(content_coding(&headers(CONTENT_ENCODING, values)).ok(), *coding, "{values:?}");
        }
    }
}
