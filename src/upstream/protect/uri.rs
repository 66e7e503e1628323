//! What `java.net.URI` takes for a URI: RFC 2396 with its own deviations. Marquez makes one of a data source's `uri`
//! after it has answered the checks of its own, and fails where that throws.

/// Whether a text is a URI to Java.
pub(super) fn is_java_uri(text: &str) -> bool {
    let (rest, fragment) = text.split_once('#').unwrap_or((text, ""));
    if !all(fragment, is_uric) {
        return false;
    }
    let scheme_end = rest.find(['/', '?', ':']).filter(|at| rest.get(*at..).is_some_and(|tail| tail.starts_with(':')));
    let Some((scheme, specific)) = scheme_end.and_then(|_| rest.split_once(':')) else {
        return is_hierarchical(rest);
    };
    is_scheme(scheme)
        && !specific.is_empty()
        && if specific.starts_with('/') { is_hierarchical(specific) } else { all(specific, is_uric) }
}

fn is_scheme(scheme: &str) -> bool {
    scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
}

/// `[//authority]path[?query]`.
fn is_hierarchical(text: &str) -> bool {
    let (before, query) = text.split_once('?').unwrap_or((text, ""));
    let Some(rest) = before.strip_prefix("//") else {
        return all(before, is_path) && all(query, is_uric);
    };
    let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    // An empty authority needs something behind it: `file:///x` is a URI, `http://` is none.
    let has_more = !path.is_empty() || text.contains('?');
    (has_more || !authority.is_empty()) && is_authority(authority) && all(path, is_path) && all(query, is_uric)
}

/// Brackets stand around an IPv6 address only.
fn is_authority(authority: &str) -> bool {
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let Some((address, port)) = host.strip_prefix('[').and_then(|rest| rest.split_once(']')) else {
        return all(authority, |c| is_path(c) && c != '/');
    };
    let digits = port.strip_prefix(':').unwrap_or(port);
    let address = address.split_once('%').map_or(address, |(address, _)| address);
    address.parse::<std::net::Ipv6Addr>().is_ok()
        && digits.bytes().all(|byte| byte.is_ascii_digit())
        && (port.is_empty() || port.starts_with(':'))
}

/// Every character is allowed, and every `%` begins two hexadecimal digits.
fn all(text: &str, allowed: impl Fn(char) -> bool) -> bool {
    let escaped = text
        .split('%')
        .skip(1)
        .all(|rest| rest.as_bytes().first_chunk::<2>().is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)));
    escaped && text.chars().all(|c| c == '%' || allowed(c))
}

fn is_path(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-_.!~*'();/:@&=+$,".contains(c) || is_other(c)
}

fn is_uric(c: char) -> bool {
    is_path(c) || matches!(c, '?' | '[' | ']')
}

/// Java takes characters beyond ASCII that are neither controls nor blanks.
fn is_other(c: char) -> bool {
    !c.is_ascii() && !c.is_control() && !c.is_whitespace()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_uris_as_java_sees_them() {
        let rows = [
            ("postgres://db.example.org:5432", true),
            ("jdbc:postgresql://db:5432/shop?user=a&x=%20", true),
            ("jdbc:h2:mem:sales", true),
            ("s3://bucket/a/b", true),
            ("file:///tmp/x", true),
            ("file:/tmp/x", true),
            ("http://[::1]:8080/x", true),
            ("http://user@[fe80::1]/x", true),
            ("urn:x", true),
            ("x", true),
            ("", true),
            ("größe", true),
            ("a?b=[1]#c[2]", true),
            ("hive://a_b:10000/x", true),
            ("not a uri", false),
            ("::not", false),
            (":x", false),
            ("1a:b", false),
            ("jdbc:", false),
            ("http://", false),
            ("jdbc:sqlserver://host\\instance", false),
            ("http://h/a[0]", false),
            ("http://h/a|b", false),
            ("http://h/%zz", false),
            ("http://h/%2", false),
            ("http://h/#a#b", false),
            ("http://h/{x}", false),
            ("http://h/\u{a0}", false),
            ("http://h/a\nb", false),
            ("http://[x]/", false),
            ("<x>", false),
        ];
        for (text, expected) in rows {
            assert_eq!(is_java_uri(text), expected, "{text}");
        }
    }
}
