//! Who called, in headers that a backend can read.
//!
//! `X-Lineage-Caller` is the subject and `X-Lineage-Groups` the groups, separated by commas. Every byte of their UTF-8
//! form that is not printable ASCII, and `%` and `,`, is percent-encoded, so that no name can look like another, end a
//! header or make two groups of one.

use http::HeaderValue;

use crate::auth::Caller;

/// Bytes of each header: real servers refuse heads of more than 8 KiB (facts: marquez-and-clients-real 1).
const LONGEST: usize = 2_048;

/// The value of `X-Lineage-Caller`; nothing for a subject that is longer than the bound, which is better than a name
/// that is cut and then is somebody else's.
pub(super) fn caller(caller: &Caller) -> Option<HeaderValue> {
    let text = encoded(&caller.subject);
    if text.len() > LONGEST { None } else { HeaderValue::from_str(&text).ok() }
}

/// The value of `X-Lineage-Groups`: whole groups, in the token's order, as many as have room; nothing without groups.
pub(super) fn groups(caller: &Caller) -> Option<HeaderValue> {
    let mut text = String::new();
    for group in caller.groups.iter().map(|group| encoded(group)) {
        if text.len() + 1 + group.len() > LONGEST {
            break;
        }
        if !text.is_empty() {
            text.push(',');
        }
        text.push_str(&group);
    }
    if text.is_empty() { None } else { HeaderValue::from_str(&text).ok() }
}

fn encoded(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'%' | b',' => push_encoded(&mut text, byte),
            b'!'..=b'~' => text.push(char::from(byte)),
            _ => push_encoded(&mut text, byte),
        }
    }
    text
}

fn push_encoded(text: &mut String, byte: u8) {
    const DIGITS: [char; 16] = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'A', 'B', 'C', 'D', 'E', 'F'];
    text.push('%');
    for digit in [byte >> 4, byte & 15] {
        text.extend(DIGITS.get(usize::from(digit)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::fake::caller as somebody;

    #[test]
    fn names_cannot_end_a_header_or_look_like_two() {
        let odd = somebody("zoë\r\nX: 1", &["a,b", "100% of it", "plain"]);
        assert_eq!(caller(&odd).unwrap(), "zo%C3%AB%0D%0AX:%201");
        assert_eq!(groups(&odd).unwrap(), "a%2Cb,100%25%20of%20it,plain");
        assert_eq!(groups(&somebody("zoe", &[])), None);
    }

    #[test]
    fn long_names_are_left_out_whole() {
        let long = "g".repeat(1_500);
        let many = somebody(&"s".repeat(LONGEST + 1), &[&long, &long]);
        assert_eq!(caller(&many), None);
        assert_eq!(groups(&many).unwrap(), long.as_str());
    }
}
