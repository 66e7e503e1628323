//! `POST /policy/invalidate`: what remote policy sources answered is forgotten, and asked for again when it is needed.
//!
//! Without a query all of it; `?caller=ISSUER%20SUBJECT`, or with `+` for the blank, what is about one caller;
//! `?metalake=NAME` what is about one metalake.

use http::StatusCode;

use super::super::serve::{Answer, text};
use crate::source::Source;
use crate::source::cache::{CallerId, Drops};

pub(super) fn answer(policy: Option<&Source>, query: Option<&str>) -> Answer {
    let drops = match parse(query.unwrap_or_default()) {
        Ok(drops) => drops,
        Err(wrong) => return text(StatusCode::BAD_REQUEST, wrong),
    };
    if policy.is_some_and(|policy| policy.forget(drops)) {
        return text(StatusCode::OK, "forgotten\n");
    }
    text(StatusCode::CONFLICT, "no policy source is cached here: policy files are read when they change\n")
}

fn parse(query: &str) -> Result<Drops, &'static str> {
    const USE: &str = "use no query, ?caller=ISSUER%20SUBJECT or ?metalake=NAME\n";
    const ONE: &str = "one of ?caller and ?metalake is taken, once; & and ; inside a value are written %26 and %3B\n";
    if query.is_empty() {
        return Ok(Drops::All);
    }
    if query.contains(['&', ';']) {
        return Err(ONE);
    }
    let (name, value) = query.split_once('=').ok_or(USE)?;
    let value = decoded(value).ok_or("the query is not percent-encoded UTF-8\n")?;
    match name {
        "caller" => {
            let (issuer, subject) = value.split_once(' ').ok_or(USE)?;
            Ok(Drops::Caller(CallerId::new(issuer, subject)))
        }
        "metalake" if !value.is_empty() => Ok(Drops::Metalake(value.into())),
        _ => Err(USE),
    }
}

/// A value of a query.
fn decoded(value: &str) -> Option<String> {
    let mut bytes = value.bytes();
    let mut out = Vec::with_capacity(value.len());
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit = || bytes.next().and_then(|byte| char::from(byte).to_digit(16));
                let (high, low) = (digit()?, digit()?);
                u8::try_from(high * 16 + low).ok()?
            }
            byte => byte,
        });
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_query_says_what_is_forgotten() {
        let caller = Ok(Drops::Caller(CallerId::new("https://idp/", "al ice")));
        assert_eq!(parse(""), Ok(Drops::All));
        assert_eq!(parse("caller=https://idp/%20al%20ice"), caller);
        assert_eq!(parse("caller=https%3A%2F%2Fidp%2f+al+ice"), caller);
        assert_eq!(parse("metalake=demo"), Ok(Drops::Metalake("demo".into())));
        for wrong in
            ["x", "caller", "caller=alice", "metalake=", "all=1", "metalake=a&caller=b", "metalake=%", "metalake=%ff"]
        {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn two_parameters_are_told_from_a_wrong_encoding() {
        for two in ["metalake=a&caller=b", "metalake=a&metalake=b", "caller=i%20s;metalake=a", "&metalake=a"] {
            assert!(parse(two).is_err_and(|text| text.starts_with("one of ?caller and ?metalake")), "{two}");
        }
        assert!(parse("metalake=%ff").is_err_and(|text| text.contains("percent-encoded")));
        assert_eq!(parse("metalake=a%26b%3Bc"), Ok(Drops::Metalake("a&b;c".into())));
    }

    #[test]
    fn files_have_nothing_to_forget() {
        assert_eq!(answer(None, None).status(), StatusCode::CONFLICT);
        assert_eq!(answer(None, Some("x")).status(), StatusCode::BAD_REQUEST);
    }
}
