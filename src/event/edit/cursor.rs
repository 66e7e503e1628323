//! Reading a document that the scan took already, with the place of every value in its bytes.

use std::borrow::Cow;

/// Bytes of a document, from `start` up to `end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Span {
    pub(super) start: u32,
    pub(super) end: u32,
}

/// Where in the bytes the walk is. Everything here is `None` at bytes that are no JSON document, which the scan refuses
/// first.
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Span {
    pub(super) fn len(self) -> usize {
        self.end.saturating_sub(self.start) as usize
    }

    pub(super) fn of(self, bytes: &[u8]) -> Option<&[u8]> {
        bytes.get(self.start as usize..self.end as usize)
    }
}

impl<'a> Cursor<'a> {
    /// A document of 4 GiB or more is none.
    pub(super) fn new(bytes: &'a [u8]) -> Option<Self> {
        u32::try_from(bytes.len()).ok()?;
        Some(Self { bytes, at: 0 })
    }

    /// Whether another element of a list or object stands before its end, `close`. The comma in front of it is taken.
    pub(super) fn goes_on(&mut self, index: usize, close: u8) -> Option<bool> {
        if self.peek()? == close {
            return Some(false);
        }
        if index > 0 {
            self.take(b',')?;
            self.peek()?;
        }
        Some(true)
    }

    /// The next byte that is no white space, and its place.
    pub(super) fn peek(&mut self) -> Option<u8> {
        loop {
            let byte = *self.bytes.get(self.at)?;
            if !matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
                return Some(byte);
            }
            self.at += 1;
        }
    }

    pub(super) fn place(&self) -> u32 {
        u32::try_from(self.at).unwrap_or(u32::MAX)
    }

    /// Steps over `byte`, after white space; `false` if another one stands there.
    pub(super) fn take(&mut self, byte: u8) -> Option<bool> {
        let is_there = self.peek()? == byte;
        self.at += usize::from(is_there);
        Some(is_there)
    }

    /// Steps over a text, quotes included.
    pub(super) fn string(&mut self) -> Option<Span> {
        if self.peek()? != b'"' {
            return None;
        }
        let start = self.place();
        self.at += 1;
        loop {
            match *self.bytes.get(self.at)? {
                b'"' => break,
                b'\\' => self.at += 2,
                _ => self.at += 1,
            }
        }
        self.at += 1;
        Some(Span { start, end: self.place() })
    }

    /// Steps over a number, `true`, `false` or `null`.
    pub(super) fn scalar(&mut self) -> Option<Span> {
        self.peek()?;
        let start = self.place();
        let rest = self.bytes.get(self.at..)?;
        let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
        let length = rest.iter().take_while(|byte| plain(byte)).count();
        self.at += length;
        (length > 0).then(|| Span { start, end: self.place() })
    }

    /// What the text at `span` says.
    pub(super) fn text(&self, span: Span) -> Option<Cow<'a, str>> {
        let quoted = span.of(self.bytes)?;
        let inner = quoted.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
        if inner.contains(&b'\\') {
            return serde_json::from_slice::<String>(quoted).ok().map(Cow::Owned);
        }
        std::str::from_utf8(inner).ok().map(Cow::Borrowed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_found_with_its_quotes_and_read_without_escapes() {
        for (json, said) in [("  \"a\" :", "a"), (r#""a\"b\\" ,"#, "a\"b\\"), (r#""\u00e9\/x""#, "é/x"), ("\"é\"", "é")]
        {
            let mut cursor = Cursor::new(json.as_bytes()).unwrap();
            let span = cursor.string().unwrap();
            assert_eq!(cursor.text(span).unwrap(), said, "{json}");
            let sent = std::str::from_utf8(span.of(json.as_bytes()).unwrap()).unwrap();
            assert!(sent.starts_with('"') && sent.ends_with('"'), "{sent}");
        }
    }

    #[test]
    fn bytes_that_are_no_document_are_none() {
        for json in ["\"a", "\"a\\", "\"a\\\"", ""] {
            assert!(Cursor::new(json.as_bytes()).unwrap().string().is_none(), "{json}");
        }
        assert!(Cursor::new(b" }").unwrap().scalar().is_none());
    }
}
