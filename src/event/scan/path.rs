//! Where in the document the walk is.

use std::borrow::Cow;
use std::fmt::{self, Write};

/// Characters of a path that are written, and of a single key in it: a path may be as long as its document, and is copied
/// for each reference.
const LONGEST: usize = 256;
const LONGEST_KEY: usize = 64;

/// One step down.
#[derive(Debug, Clone)]
pub(super) enum Segment<'de> {
    /// Into a member of an object.
    Key(Cow<'de, str>),
    /// Into an element of a list.
    Index(usize),
}

/// The steps from the document to a value. Its text is made on demand, such as `inputs[0].facets["my facet"]`.
#[derive(Debug, Default)]
pub(super) struct Path<'de> {
    segments: Vec<Segment<'de>>,
}

impl<'de> Path<'de> {
    pub(super) fn push(&mut self, segment: Segment<'de>) {
        self.segments.push(segment);
    }

    pub(super) fn pop(&mut self) -> Option<Segment<'de>> {
        self.segments.pop()
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.segments.is_empty() {
            return f.write_char('$');
        }
        let mut out = Bounded { out: f, left: LONGEST };
        let mut first = true;
        for segment in &self.segments {
            match segment {
                Segment::Index(index) => write!(out, "[{index}]")?,
                Segment::Key(key) if is_plain(key) => write!(out, "{}{key}", if first { "" } else { "." })?,
                Segment::Key(key) => {
                    let short: String = key.chars().take(LONGEST_KEY).collect();
                    write!(out, "[{short:?}{}]", if short.len() < key.len() { "…" } else { "" })?;
                }
            }
            first = false;
            if out.left == 0 {
                return f.write_char('…');
            }
        }
        Ok(())
    }
}

fn is_plain(key: &str) -> bool {
    !key.is_empty()
        && key.len() <= LONGEST_KEY
        && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-/:$@".contains(&byte))
}

/// Drops what is over the bound.
struct Bounded<'a, W> {
    out: &'a mut W,
    left: usize,
}

impl<W: Write> Write for Bounded<'_, W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for char in text.chars().take(self.left) {
            self.out.write_char(char)?;
            self.left = self.left.saturating_sub(1);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(segments: &[Segment<'static>]) -> String {
        Path { segments: segments.to_vec() }.to_string()
    }

    fn key(key: &'static str) -> Segment<'static> {
        Segment::Key(Cow::Borrowed(key))
    }

    #[test]
    fn a_path_reads_like_an_expression() {
        assert_eq!(path(&[]), "$");
        assert_eq!(path(&[key("inputs"), Segment::Index(0), key("name")]), "inputs[0].name");
        assert_eq!(path(&[key("a"), key("b.c"), key("d")]), "a[\"b.c\"].d");
        assert_eq!(path(&[key("a"), key("")]), "a[\"\"]");
    }

    #[test]
    fn a_path_holds_no_control_characters_and_stays_short() {
        assert_eq!(path(&[key("a\r\n\u{1b}[0m")]), "[\"a\\r\\n\\u{1b}[0m\"]");
        let long: &'static str = "x".repeat(1_000_000).leak();
        assert_eq!(path(&[key(long)]).chars().count(), 64 + 5);
        let deep: Vec<_> = (0..100).map(|_| key("facets")).collect();
        let text = path(&deep);
        assert_eq!(text.chars().count(), LONGEST + 1);
        assert!(text.ends_with('…'));
    }
}
