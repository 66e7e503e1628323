//! Edits of bytes: what stands in their spans is replaced, and no other byte changes.

use super::cursor::Span;

/// Edits of one document. No two of them overlap.
#[derive(Debug, Default)]
pub(super) struct Edits(Vec<Edit>);

#[derive(Debug)]
struct Edit {
    span: Span,
    /// JSON; nothing where something is taken out.
    json: Box<str>,
}

/// Takes members out of an object, or elements out of a list, each with one of the commas beside it.
#[derive(Debug, Default)]
pub(super) struct Removal {
    is_one_kept: bool,
    last_end: u32,
    /// The beginning of what is taken out once it is known where the next one begins.
    pending: Option<u32>,
}

impl Edits {
    pub(super) fn replace(&mut self, span: Span, json: impl Into<Box<str>>) {
        self.0.push(Edit { span, json: json.into() });
    }

    /// Replaces what was said of that very span since there were `since` edits.
    pub(super) fn correct(&mut self, since: usize, span: Span, json: impl Into<Box<str>>) {
        let said = self.0.iter_mut().skip(since).find(|edit| edit.span == span);
        match said {
            Some(edit) => edit.json = json.into(),
            None => self.replace(span, json),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn truncate(&mut self, length: usize) {
        self.0.truncate(length);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Bytes that the document grows by.
    pub(super) fn growth(&self) -> usize {
        let (more, less) = self.0.iter().fold((0_usize, 0_usize), |(more, less), edit| {
            (more.saturating_add(edit.json.len()), less.saturating_add(edit.span.len()))
        });
        more.saturating_sub(less)
    }

    /// `body` with all edits. `None` if they overlap or lie outside.
    pub(super) fn apply(mut self, body: &[u8]) -> Option<Vec<u8>> {
        self.0.sort_by_key(|edit| edit.span);
        let mut edited = Vec::with_capacity(body.len().saturating_add(self.growth()));
        let mut done = 0;
        for edit in &self.0 {
            edited.extend_from_slice(body.get(done..edit.span.start as usize)?);
            edited.extend_from_slice(edit.json.as_bytes());
            done = edit.span.end as usize;
        }
        edited.extend_from_slice(body.get(done..)?);
        Some(edited)
    }
}

impl Removal {
    /// A member or element begins.
    pub(super) fn begin(&mut self, start: u32, edits: &mut Edits) {
        if let Some(pending) = self.pending.take() {
            edits.replace(Span { start: pending, end: start }, "");
        }
    }

    /// It ended, and stays or goes.
    pub(super) fn end(&mut self, span: Span, goes: bool, edits: &mut Edits) {
        if !goes {
            self.is_one_kept = true;
        } else if self.is_one_kept {
            edits.replace(Span { start: self.last_end, end: span.end }, "");
        } else {
            self.pending = Some(span.start);
        }
        self.last_end = span.end;
    }

    /// The object or list ended.
    pub(super) fn close(mut self, edits: &mut Edits) {
        self.begin(self.last_end, edits);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_byte_outside_the_spans_changes(
            pieces in prop::collection::vec(("[a-z]{0,4}", any::<bool>(), "[A-Z]{0,3}"), 0..12),
        ) {
            let (mut body, mut wanted, mut edits) = (String::new(), String::new(), Edits::default());
            for (old, is_edited, new) in &pieces {
                let start = u32::try_from(body.len()).unwrap();
                body.push_str(old);
                let span = Span { start, end: start + u32::try_from(old.len()).unwrap() };
                if *is_edited && !old.is_empty() {
                    edits.replace(span, new.as_str());
                    wanted.push_str(new);
                } else {
                    wanted.push_str(old);
                }
            }
            edits.0.reverse();
            prop_assert_eq!(edits.apply(body.as_bytes()).unwrap(), wanted.into_bytes());
        }

        #[test]
        fn what_stays_in_a_list_stays_in_order_between_single_commas(stays in prop::collection::vec(any::<bool>(), 0..8)) {
            let (mut list, mut edits, mut removal) = ("[ ".to_owned(), Edits::default(), Removal::default());
            for (index, stays) in stays.iter().enumerate() {
                list.push_str(if index == 0 { "" } else { " , " });
                let start = u32::try_from(list.len()).unwrap();
                list.push_str(&index.to_string());
                removal.begin(start, &mut edits);
                removal.end(Span { start, end: start + 1 }, !stays, &mut edits);
            }
            list.push_str(" ]");
            removal.close(&mut edits);
            let edited = edits.apply(list.as_bytes()).unwrap();
            let kept: Vec<usize> = serde_json::from_slice(&edited).unwrap();
            let wanted: Vec<usize> = stays.iter().enumerate().filter(|(_, stays)| **stays).map(|(index, _)| index).collect();
            prop_assert_eq!(kept, wanted);
        }
    }

    #[test]
    fn edits_that_overlap_are_not_applied() {
        let mut edits = Edits::default();
        edits.replace(Span { start: 0, end: 3 }, "x");
        edits.replace(Span { start: 2, end: 4 }, "y");
        assert_eq!(edits.apply(b"abcdef"), None);
        let mut edits = Edits::default();
        edits.replace(Span { start: 5, end: 9 }, "x");
        assert_eq!(edits.apply(b"abcdef"), None);
    }
}
