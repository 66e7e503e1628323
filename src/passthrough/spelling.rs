//! What a path may mean to a server behind: pure.
//!
//! Servers do not agree on what a path is. Some decode it once, some twice, some before they look for `;`, some after they
//! resolve dots. All that any of them could make of a path is looked at, in any order, and a path is passed on only if
//! each of these readings may be.

use std::collections::BTreeSet;

use crate::{route, upstream};

/// Readings of one path, before it is refused for being a riddle.
const MAX_READINGS: usize = 200;

type Step = fn(&[u8]) -> Vec<u8>;

/// One thing each that a server might do.
const STEPS: [Step; 8] = [
    decoded,
    without_parameters,
    |path| cut_at(path, b";"),
    |path| cut_at(path, b"?#\0"),
    |path| path.iter().map(|byte| if *byte == b'\\' { b'/' } else { *byte }).collect(),
    without_dots,
    without_empty_segments,
    trimmed,
];

/// All readings of a path, itself included; none if they are too many, or if one of them is a riddle: servers differ most
/// where an encoding is broken.
pub(super) fn readings(path: &str) -> Option<BTreeSet<Vec<u8>>> {
    if is_broken(path.as_bytes()) {
        return None;
    }
    let mut found = BTreeSet::from([path.as_bytes().to_vec()]);
    let mut new: Vec<Vec<u8>> = found.iter().cloned().collect();
    while let Some(path) = new.pop() {
        for step in STEPS {
            let next = step(&path);
            if is_odd(&next) {
                return None;
            }
            if !found.contains(&next) {
                found.insert(next.clone());
                new.push(next);
            }
        }
        if found.len() > MAX_READINGS {
            return None;
        }
    }
    Some(found)
}

/// Whether a `%` stands before anything but two hexadecimal digits.
fn is_broken(path: &[u8]) -> bool {
    let mut encoded = path.split(|byte| *byte == b'%').skip(1);
    encoded.any(|rest| !rest.get(..2).is_some_and(|code| code.iter().all(u8::is_ascii_hexdigit)))
}

/// Whether a decoded path holds what no name of a catalog does and servers read in their own ways: control characters,
/// bytes that are no UTF-8 (an overlong `/` is one), and `%u`, another encoding.
fn is_odd(reading: &[u8]) -> bool {
    let has_control = std::str::from_utf8(reading).is_ok_and(|text| text.chars().any(char::is_control));
    let has_other = reading.windows(2).any(|pair| pair.eq_ignore_ascii_case(b"%u"));
    has_control || has_other || std::str::from_utf8(reading).is_err()
}

/// The paths that the gate takes events at, and those that any kind of server does: what is behind is not known.
fn lineage_paths() -> impl Iterator<Item = &'static str> {
    route::event_paths().chain(upstream::EVENT_PATHS)
}

/// Whether one reading is a path of lineage, or lies below one, in any letter case; the root is one too.
pub(super) fn is_lineage(reading: &[u8]) -> bool {
    let lower = reading.to_ascii_lowercase();
    if matches!(&*lower, b"" | b"/") {
        return true;
    }
    let begins = |prefix: &str| lower.strip_prefix(prefix.as_bytes());
    lineage_paths().filter_map(begins).any(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

/// What of a reading stands after a prefix, in any letter case.
pub(super) fn after<'r>(reading: &'r [u8], prefix: &str) -> Option<&'r [u8]> {
    let (head, rest) = reading.split_at_checked(prefix.len())?;
    (head.eq_ignore_ascii_case(prefix.as_bytes()) && matches!(rest, [] | [b'/', ..])).then_some(rest)
}

/// Whether a pattern matches a whole path: `**` any run of characters, `*` any run without `/`.
pub(super) fn matches(pattern: &[u8], path: &[u8]) -> bool {
    match pattern {
        [] => path.is_empty(),
        [b'*', b'*', rest @ ..] => (0..=path.len()).any(|at| path.get(at..).is_some_and(|path| matches(rest, path))),
        [b'*', rest @ ..] => {
            let segment = path.iter().position(|byte| *byte == b'/').unwrap_or(path.len());
            (0..=segment).any(|at| path.get(at..).is_some_and(|path| matches(rest, path)))
        }
        [byte, rest @ ..] => path.split_first().is_some_and(|(first, path)| first == byte && matches(rest, path)),
    }
}

fn decoded(path: &[u8]) -> Vec<u8> {
    let digit = |at: usize| path.get(at).and_then(|byte| char::from(*byte).to_digit(16));
    let (mut out, mut at) = (Vec::with_capacity(path.len()), 0);
    while let Some(byte) = path.get(at) {
        let code = digit(at + 1).zip(digit(at + 2)).and_then(|(high, low)| u8::try_from(high * 16 + low).ok());
        match code {
            Some(code) if *byte == b'%' => {
                out.push(code);
                at += 3;
            }
            Some(_) | None => {
                out.push(*byte);
                at += 1;
            }
        }
    }
    out
}

fn segments(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/')
}

fn without_parameters(path: &[u8]) -> Vec<u8> {
    let bare = segments(path).map(|segment| segment.split(|byte| *byte == b';').next().unwrap_or_default());
    bare.collect::<Vec<_>>().join(&b'/')
}

fn cut_at(path: &[u8], ends: &[u8]) -> Vec<u8> {
    path.split(|byte| ends.contains(byte)).next().unwrap_or_default().to_vec()
}

fn without_dots(path: &[u8]) -> Vec<u8> {
    let mut kept: Vec<&[u8]> = Vec::new();
    for segment in segments(path) {
        match segment {
            b"." => {}
            b".." if kept.len() > 1 => drop(kept.pop()),
            b".." => {}
            segment => kept.push(segment),
        }
    }
    kept.join(&b'/')
}

fn without_empty_segments(path: &[u8]) -> Vec<u8> {
    let kept: Vec<&[u8]> = segments(path).filter(|segment| !segment.is_empty()).collect();
    [b"/", &*kept.join(&b'/')].concat()
}

/// Without white space and control characters at the ends of segments.
fn trimmed(path: &[u8]) -> Vec<u8> {
    let odd = |byte: &u8| byte.is_ascii_whitespace() || byte.is_ascii_control();
    let trim = |segment: &[u8]| {
        let from = segment.iter().position(|byte| !odd(byte)).unwrap_or(segment.len());
        let to = segment.iter().rposition(|byte| !odd(byte)).map_or(from, |at| at + 1);
        segment.get(from..to).unwrap_or_default().to_vec()
    };
    segments(path).map(trim).collect::<Vec<_>>().join(&b'/')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn spells_lineage(path: &str) -> bool {
        readings(path).is_none_or(|readings| readings.iter().any(|reading| is_lineage(reading)))
    }

    #[test]
    fn every_spelling_of_a_lineage_path_is_known() {
        for path in [
            "/api/lineage",
            "/api/lineage/",
            "/API/Lineage",
            "//api//lineage",
            "/api/./lineage",
            "/api/metalakes/../lineage",
            "/api/metalakes/%2e%2e/lineage",
            "/api/metalakes/.%2E/lineage",
            "/api/metalakes/..;a=b/lineage",
            "/api/metalakes/..%3b/lineage",
            "/api/line%61ge",
            "/api/line%2561ge",
            "/api/line%252561ge",
            "/api%2flineage",
            "/api%5clineage",
            "/api\\lineage",
            "/api/lineage;x",
            "/api/lineage;/../../metalakes",
            "/api/lineage%3fx",
            "/api/lineage%23",
            "/api/lineage%00.txt",
            "/api/lineage%20",
            "/api/lineage/x",
            "/lineage",
            "/api/v1/lineage",
            "/api/v1/api/v1/%6cineage",
            "/api/v1/openlineage/lineage/batch",
            "/api/openlineage/v1/lineage",
            "/api/openlineage/v1/lineage/batch",
            "/openapi/openlineage/api/v1/lineage",
            "/openapi/x/../openlineage/api/v1/Lineage/batch",
            "/../api/lineage",
            "/%2f",
            "/.",
            // Riddles.
            "/api/metalakes/a%",
            "/api/metalakes/a%2",
            "/api/metalakes/a%2g",
            "/api/metalakes/a%zz",
            "/api/%u006cineage",
            "/api/%25u006cineage",
            "/api/metalakes/%25U002e",
            "/api/metalakes/a%0d%0ab",
            "/api/metalakes/a%250ab",
            "/api/metalakes/a%00",
            "/api/metalakes/a%7f",
            "/api/metalakes/a%c2%85",
            "/api/metalakes/%c0%af",
            "/api/metalakes/%ff",
            "/api/metalakes/%e4",
        ] {
            assert!(spells_lineage(path), "{path}");
        }
    }

    #[test]
    fn other_paths_of_a_catalog_are_none() {
        for path in [
            "/api/metalakes",
            "/api/metalakes/demo/catalogs/lake/schemas/lineage",
            "/api/metalakes/demo/catalogs/lake/schemas/a%2Fb/tables/x.y",
            "/api/lineages",
            "/api/version",
            "/iceberg/v1/config",
            "/api/metalakes/demo/tags/100%25",
            "/api/metalakes/demo/tags/100%2525",
            "/api/metalakes/demo/tags/50%25%20off",
            "/api/metalakes/demo/tags/%c3%a4",
            "/api/metalakes/demo/tags/%E2%82%AC",
            "/api/metalakes/demo/tags/a%20b",
        ] {
            assert!(!spells_lineage(path), "{path}");
        }
    }

    #[test]
    fn patterns_match_whole_paths() {
        for (pattern, path, expected) in [
            ("/api/**", "/api/metalakes/demo", true),
            ("/api/**", "/api", false),
            ("/api/*", "/api/metalakes", true),
            ("/api/*", "/api/metalakes/demo", false),
            ("/api/*/x", "/api/a/x", true),
            ("/**/x", "/a/b/x", true),
            ("/api", "/api/", false),
            ("**", "/anything", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), path.as_bytes()), expected, "{pattern} {path}");
        }
    }

    fn encode_some(path: &str, mask: &[bool], rounds: u8) -> String {
        let mut path = path.to_owned();
        for _ in 0..rounds {
            let one = |(at, byte): (usize, u8)| match mask.get(at % mask.len().max(1)) {
                Some(true) => format!("%{byte:02x}"),
                Some(false) | None => char::from(byte).to_string(),
            };
            path = path.bytes().enumerate().map(one).collect();
        }
        path
    }

    proptest! {
        #[test]
        fn a_broken_or_odd_encoding_passes_nowhere(
            start in "(/[a-z]{1,5}){1,3}/",
            odd in prop::sample::select(&["%", "%2", "%x1", "%1x", "%u0061", "%0a", "%0D", "%00", "%7F", "%c0%af", "%fe"][..]),
            rest in "[g-t]{0,4}(/[g-t]{1,5}){0,2}",
        ) {
            let path = format!("{start}{odd}{rest}");
            prop_assert_eq!(readings(&path), None, "{}", path);
        }

        #[test]
        fn no_disguise_hides_a_lineage_path(
            path in prop::sample::select(lineage_paths().collect::<Vec<_>>()),
            disguises in prop::collection::vec(0..9_u8, 0..3),
            mask in prop::collection::vec(any::<bool>(), 1..9),
            rounds in 0..3_u8,
        ) {
            let mut path = path.to_owned();
            for disguise in disguises {
                path = match disguise {
                    0 => path.to_uppercase(),
                    1 => path.replace('/', "//"),
                    2 => path.replacen('/', "/./", 1),
                    3 => path.replacen('/', "/x/../", 1),
                    4 => format!("{path};a=b"),
                    5 => format!("{path}/"),
                    6 => path.replacen('/', "/;p/", 1),
                    7 => path.replacen('/', "\\", 1),
                    _ => format!("{path}\t"),
                };
            }
            let path = encode_some(&path, &mask, rounds);
            prop_assert!(spells_lineage(&path), "{path}");
        }
    }
}
