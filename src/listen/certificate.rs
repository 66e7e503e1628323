//! The two things that the gate wants to know of an X.509 certificate: when it ends, and whose it is (RFC 5280
//! section 4.1). Signatures and everything else are rustls' business.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::Offset;

const INTEGER: u8 = 0x02;
const OBJECT_IDENTIFIER: u8 = 0x06;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const EXPLICIT_VERSION: u8 = 0xa0;

/// What a certificate says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Facts {
    /// `notAfter`.
    pub not_after: Timestamp,
    /// The subject in the order of RFC 4514, such as `CN=spark,O=Example`; attributes without a short name are left
    /// out.
    pub subject: String,
}

impl Facts {
    /// Reads a DER certificate; nothing if it is none.
    pub(super) fn read(der: &[u8]) -> Option<Self> {
        let mut outer = Reader(der).expect(SEQUENCE)?;
        let mut fields = outer.expect(SEQUENCE)?;
        if fields.peek() == Some(EXPLICIT_VERSION) {
            fields.next()?;
        }
        fields.expect(INTEGER)?;
        fields.expect(SEQUENCE)?;
        fields.expect(SEQUENCE)?;
        let mut validity = fields.expect(SEQUENCE)?;
        validity.next()?;
        let (tag, time) = validity.next()?;
        let not_after = read_time(tag, time)?;
        let subject = read_name(fields.expect(SEQUENCE)?)?;
        Some(Self { not_after, subject })
    }
}

/// DER elements, one after the other.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<u8> {
        self.0.first().copied()
    }

    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (&tag, rest) = self.0.split_first()?;
        let (&first, rest) = rest.split_first()?;
        let (length, rest) = if first < 0x80 {
            (usize::from(first), rest)
        } else {
            let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            if digits.is_empty() || digits.len() > 4 {
                return None;
            }
            (digits.iter().fold(0, |length, &digit| length << 8 | usize::from(digit)), rest)
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((tag, content))
    }

    fn expect(&mut self, wanted: u8) -> Option<Self> {
        let (tag, content) = self.next()?;
        (tag == wanted).then_some(Self(content))
    }
}

fn read_time(tag: u8, content: &[u8]) -> Option<Timestamp> {
    let text = std::str::from_utf8(content).ok()?.strip_suffix('Z')?;
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (year, rest) = match tag {
        UTC_TIME => {
            let (year, rest) = text.split_at_checked(2)?;
            let year: i16 = year.parse().ok()?;
            (if year < 50 { 2000 + year } else { 1900 + year }, rest)
        }
        GENERALIZED_TIME => {
            let (year, rest) = text.split_at_checked(4)?;
            (year.parse().ok()?, rest)
        }
        _ => return None,
    };
    let mut parts = [0_i8; 5];
    let mut rest = rest;
    for part in &mut parts {
        let (digits, tail) = rest.split_at_checked(2)?;
        *part = digits.parse().ok()?;
        rest = tail;
    }
    let [month, day, hour, minute, second] = parts;
    let time = DateTime::new(year, month, day, hour, minute, second, 0).ok()?;
    rest.is_empty().then_some(())?;
    Offset::UTC.to_timestamp(time).ok()
}

fn read_name(mut name: Reader<'_>) -> Option<String> {
    let mut parts = Vec::new();
    while name.peek().is_some() {
        let mut set = name.expect(SET)?;
        while set.peek().is_some() {
            let mut attribute = set.expect(SEQUENCE)?;
            let Reader(identifier) = attribute.expect(OBJECT_IDENTIFIER)?;
            let (_, value) = attribute.next()?;
            if let Some(short) = short_name(identifier) {
                parts.push(format!("{short}={}", escaped(&String::from_utf8_lossy(value))));
            }
        }
    }
    parts.reverse();
    Some(parts.join(","))
}

/// The table of RFC 4514 section 3.
const fn short_name(identifier: &[u8]) -> Option<&'static str> {
    match identifier {
        [0x55, 0x04, 0x03] => Some("CN"),
        [0x55, 0x04, 0x06] => Some("C"),
        [0x55, 0x04, 0x07] => Some("L"),
        [0x55, 0x04, 0x08] => Some("ST"),
        [0x55, 0x04, 0x09] => Some("STREET"),
        [0x55, 0x04, 0x0a] => Some("O"),
        [0x55, 0x04, 0x0b] => Some("OU"),
        [0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 0x01, 0x19] => Some("DC"),
        [0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 0x01, 0x01] => Some("UID"),
        _ => None,
    }
}

fn escaped(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    for c in value.chars() {
        match c {
            '"' | '+' | ',' | ';' | '<' | '>' | '\\' | '=' | '#' => {
                text.push('\\');
                text.push(c);
            }
            c if c.is_control() => text.push('\u{fffd}'),
            c => text.push(c),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, DnValue, KeyPair, date_time_ymd};

    use super::*;

    fn made(year: i32, names: &[(DnType, &str)]) -> Vec<u8> {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        for (kind, value) in names {
            params.distinguished_name.push(kind.clone(), DnValue::Utf8String((*value).to_owned()));
        }
        params.not_before = date_time_ymd(1999, 1, 1);
        params.not_after = date_time_ymd(year, 2, 3);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    #[test]
    fn the_end_is_read_in_both_forms_of_time() {
        for year in [2030, 2049, 2050, 4096] {
            let facts = Facts::read(&made(year, &[])).unwrap();
            assert_eq!(facts.not_after.to_string(), format!("{year}-02-03T00:00:00Z"));
            assert_eq!(facts.subject, "");
        }
    }

    #[test]
    fn the_subject_is_written_as_rfc_4514_says() {
        let names = [(DnType::OrganizationName, "Example, Inc."), (DnType::CommonName, "spark\n=1")];
        let facts = Facts::read(&made(2030, &names)).unwrap();
        assert_eq!(facts.subject, "CN=spark\u{fffd}\\=1,O=Example\\, Inc.");
    }

    #[test]
    fn what_is_no_certificate_is_nothing_and_no_panic() {
        let der = made(2030, &[(DnType::CommonName, "spark")]);
        assert!(Facts::read(&der).is_some());
        for cut in 0..der.len() {
            let part = Facts::read(&der[..cut]);
            assert!(part.is_none(), "{cut} bytes");
            let mut broken = der.clone();
            broken[cut] ^= 0xff;
            // Damage may hit a part that is not read: what counts is that reading ends.
            drop(Facts::read(&broken));
        }
    }
}
