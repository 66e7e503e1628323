//! White space between tokens, dropped.

/// `json` without white space between tokens. Strings and numbers keep their very bytes.
///
/// `json` must be a valid document; the result is then the same document on one line.
pub fn minified(json: &[u8]) -> Vec<u8> {
    let mut kept = Vec::with_capacity(json.len());
    let mut in_string = false;
    let mut escaped = false;
    for &byte in json {
        if in_string {
            in_string = escaped || byte != b'"';
            escaped = !escaped && byte == b'\\';
        } else if matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
            continue;
        } else {
            in_string = byte == b'"';
        }
        kept.push(byte);
    }
    kept
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::value::RawValue;

    use super::*;
    use crate::event::scan::testing::any_value;

    #[test]
    fn only_white_space_between_tokens_goes() {
        let table: &[(&str, &str)] = &[
            (" { \"a b\" :\t[ 1 ,\r\n 2.50e+3 ] }\n", "{\"a b\":[1,2.50e+3]}"),
            (r#"{ "a \" b" : " c \\" , "d" : "\\\" e" }"#, r#"{"a \" b":" c \\","d":"\\\" e"}"#),
            ("{\"\u{a0}\" : \"\u{2028} x\"}", "{\"\u{a0}\":\"\u{2028} x\"}"),
            ("12345678901234567890123 ", "12345678901234567890123"),
            ("", ""),
        ];
        for (sent, kept) in table {
            assert_eq!(String::from_utf8(minified(sent.as_bytes())).unwrap(), *kept);
        }
    }

    proptest! {
        #[test]
        fn a_minified_document_is_the_same_document(value in any_value()) {
            let pretty = serde_json::to_vec_pretty(&value).unwrap();
            let small = minified(&pretty);
            prop_assert_eq!(&small, &serde_json::to_vec(&value).unwrap());
            prop_assert!(serde_json::from_slice::<&RawValue>(&small).is_ok());
        }
    }
}
