//! Symlink identifiers and `dataSource` facets, listed or taken out.

use super::super::alias::{Alias, Kind};
use super::super::cursor::Span;
use super::super::splice::Removal;
use super::{Aliases, Content, Names, Source, Value, Walk, is_dataset};
use crate::event::scan::{Place, is_variant};

const DATA_SOURCE: &str = "dataSource";

impl<'de> Walk<'_, 'de> {
    /// The `identifiers` of a symlinks facet: each element of the list, or the only one, is an alias.
    pub(super) fn identifiers(&mut self, place: Place) -> Option<Value<'de>> {
        if self.cursor.peek()? != b'[' {
            let value = self.value(place, false)?;
            if !matches!(value.content, Content::Null) && self.alias(&value, || "identifiers".to_owned()) {
                self.found.edits.replace(value.span, "[]");
            }
            return Some(value);
        }
        let start = self.cursor.place();
        self.cursor.take(b'[')?;
        let mut removal = Removal::default();
        for index in 0.. {
            if !self.cursor.goes_on(index, b']')? {
                break;
            }
            removal.begin(self.cursor.place(), &mut self.found.edits);
            let value = self.value(place, false)?;
            let goes = self.alias(&value, || format!("identifiers[{index}]"));
            removal.end(value.span, goes, &mut self.found.edits);
        }
        self.cursor.take(b']')?;
        removal.close(&mut self.found.edits);
        Some(Value { span: Span { start, end: self.cursor.place() }, content: Content::List })
    }

    /// Notes a symlink identifier; whether it goes.
    fn alias(&mut self, value: &Value<'de>, place: impl FnOnce() -> String) -> bool {
        let number = self.next_alias();
        if self.wanted.aliases == Aliases::List {
            let pair = match &value.content {
                Content::Object(Names {
                    namespace: Some(namespace), name: Some(name), is_ambiguous: false, ..
                }) => Some((namespace.sent.as_ref(), name.sent.as_ref())),
                Content::Object(_) | Content::Text(_) | Content::List | Content::Null | Content::Other => None,
            };
            let path = format!("{}.facets.symlinks.{}", self.dataset, place());
            self.found.aliases.push(Alias::new(number, Kind::Symlink, path, self.role, pair));
        }
        self.drops(number)
    }

    /// Notes a `dataSource` facet, also one under a key that a lenient backend takes for it; whether it goes.
    pub(super) fn source(&mut self, key: &str, value: &Value<'de>) -> bool {
        let is_named_so = key == DATA_SOURCE || is_variant(key, DATA_SOURCE);
        if !is_named_so || matches!(value.content, Content::Null) {
            return false;
        }
        let name = match &value.content {
            Content::Object(Names { name: Some(name), is_ambiguous: false, .. }) => {
                Some((name.sent.clone(), name.span))
            }
            Content::Object(_) | Content::Text(_) | Content::List | Content::Null | Content::Other => None,
        };
        let number = self.next_alias();
        self.sources.push(Source { number, name });
        self.drops(number)
    }

    /// An input, output or dataset begins, perhaps.
    pub(super) fn begin_dataset(&mut self, place: Place, index: usize) {
        if !is_dataset(place) {
            return;
        }
        self.sources.clear();
        self.role = place.role(None);
        if self.wanted.aliases == Aliases::List {
            self.dataset = if place == Place::Dataset {
                "dataset".to_owned()
            } else {
                format!("{}[{index}]", if place == Place::Input { "inputs" } else { "outputs" })
            };
        }
    }

    /// It ends, and is called `pair`.
    pub(super) fn close_dataset(&mut self, pair: Option<(&str, &str)>) {
        for source in std::mem::take(&mut self.sources) {
            if self.wanted.aliases == Aliases::List {
                let path = format!("{}.facets.{}", self.dataset, DATA_SOURCE);
                let called = source.name.as_ref().zip(pair).map(|((source, _), (_, name))| (source.as_ref(), name));
                let own = pair.map(|(namespace, _)| namespace.to_owned()).unwrap_or_default();
                self.found.aliases.push(Alias::new(source.number, Kind::DataSource { own }, path, self.role, called));
            }
        }
    }

    fn next_alias(&mut self) -> usize {
        self.found.alias_count += 1;
        self.found.alias_count - 1
    }

    fn drops(&self, number: usize) -> bool {
        match self.wanted.aliases {
            Aliases::Drop(numbers) => numbers.contains(&number),
            Aliases::Ignore | Aliases::List => false,
        }
    }
}
