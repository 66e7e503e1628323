//! The token of a request: exactly one `Authorization: Bearer` header, and nothing in the query (RFC 6750 section 2).

use http::HeaderMap;
use http::header::AUTHORIZATION;

use super::error::{Error, Reason};

/// Finds the bearer token of a request's headers. The scheme is compared without case.
///
/// # Errors
/// [`Error::NoToken`] without an `Authorization` header, or with one of another scheme: RFC 6750 section 3.1 counts both
/// as no authentication. [`Error::Token`] for more than one header, for no or several words behind `Bearer`, and for
/// characters that no token has.
pub fn parse_bearer(headers: &HeaderMap) -> Result<&str, Error> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let Some(value) = values.next() else { return Err(Error::NoToken) };
    if values.next().is_some() {
        return Err(Reason::SentTwice.into());
    }
    let value = value.to_str().map_err(|_| Reason::HeaderForm)?;
    let (scheme, rest) = value.split_once(' ').unwrap_or((value, ""));
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(Error::NoToken);
    }
    let token = rest.trim_start_matches(' ');
    if token.contains(',') {
        return Err(Reason::SentTwice.into());
    }
    if token.is_empty() || token.contains([' ', '\t']) {
        return Err(Reason::HeaderForm.into());
    }
    if !token.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.')) {
        return Err(Reason::Malformed.into());
    }
    Ok(token)
}

/// Whether a query holds an `access_token` parameter (RFC 6750 section 2.3), also with an encoded name.
pub(super) fn in_query(query: &str) -> bool {
    query.split(['&', ';']).any(|pair| {
        let name = pair.split('=').next().unwrap_or_default();
        decoded(name).eq_ignore_ascii_case(b"access_token")
    })
}

fn decoded(name: &str) -> Vec<u8> {
    let mut bytes = name.bytes();
    let mut out = Vec::with_capacity(name.len());
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let mut digit = || bytes.next().and_then(|b| char::from(b).to_digit(16));
        let (high, low) = (digit(), digit());
        let code = high.zip(low).and_then(|(high, low)| u8::try_from(high * 16 + low).ok());
        out.push(code.unwrap_or(b'%'));
    }
    out
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn headers(values: &[&[u8]]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(AUTHORIZATION, HeaderValue::from_bytes(value).unwrap());
        }
        headers
    }

    #[test]
    fn one_bearer_header_gives_its_token() {
        for value in ["Bearer a.b-c_d.E9", "bearer a.b-c_d.E9", "BEARER  a.b-c_d.E9"] {
            assert_eq!(parse_bearer(&headers(&[value.as_bytes()])), Ok("a.b-c_d.E9"), "{value}");
        }
    }

    #[test]
    fn anything_else_is_refused_with_its_reason() {
        let table: &[(&[&[u8]], Error)] = &[
            (&[], Error::NoToken),
            (&[b"Basic YTpi"], Error::NoToken),
            (&[b""], Error::NoToken),
            (&[b"Bearera.b.c"], Error::NoToken),
            (&[b"Bearer"], Reason::HeaderForm.into()),
            (&[b"Bearer "], Reason::HeaderForm.into()),
            (&[b"Bearer a.b.c d"], Reason::HeaderForm.into()),
            (&[b"Bearer a.b.c\td"], Reason::HeaderForm.into()),
            (&[b"Bearer \xff"], Reason::HeaderForm.into()),
            (&[b"Bearer a.b.c", b"Bearer a.b.c"], Reason::SentTwice.into()),
            (&[b"Bearer a.b.c", b"Basic YTpi"], Reason::SentTwice.into()),
            (&[b"Bearer a.b.c, Bearer a.b.c"], Reason::SentTwice.into()),
            (&[b"Bearer a.b.c="], Reason::Malformed.into()),
            (&[b"Bearer {\"payload\":\"x\"}"], Reason::Malformed.into()),
            (&[b"Bearer a+b.c/d.e"], Reason::Malformed.into()),
        ];
        for (values, error) in table {
            assert_eq!(parse_bearer(&headers(values)), Err(error.clone()), "{values:?}");
        }
    }

    #[test]
    fn a_token_in_the_query_is_seen_however_its_name_is_written() {
        for query in
            ["access_token=x", "a=1&access_token=x", "access%5Ftoken=x", "%61ccess_token", "a=1;access_token=x"]
        {
            assert!(in_query(query), "{query}");
        }
        for query in ["", "a=access_token", "xaccess_token=1", "access_tokens=1", "access%5", "%"] {
            assert!(!in_query(query), "{query}");
        }
    }
}
