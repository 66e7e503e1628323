//! One walk over the whole document: refuses what two readers could read differently, and collects what is judged.
//!
//! Refused: syntax errors, bytes that are not UTF-8, a byte order mark, anything after the document, a key twice in one
//! object, variants of keys that are judged, NUL, too deep nesting, too many references, wrong shapes where it matters.
//! The cost is linear in the bytes; the recursion is bounded by [`DEPTH_CAP`].

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, MapAccess, SeqAccess, Visitor};

use self::document::Draft;
pub(super) use self::document::{Document, Pair, is_blank};
use self::keys::{Keys, Object};
use self::path::{Path, Segment};
use self::place::Shape;
pub(super) use self::place::{Key, Place, is_variant};
use crate::event::{DEPTH_CAP, Error};

mod document;
mod keys;
mod path;
mod place;

/// Walks over `body`.
///
/// # Errors
///
/// [`Error::Malformed`] for everything refused, but [`Error::TooLarge`] for more than `max_references`, and
/// [`Error::Invalid`] for no event at all: an empty body or null.
pub(super) fn scan(body: &[u8], max_depth: usize, max_references: usize) -> Result<Document, Error> {
    walk(body, max_depth, max_references).map_err(|refused| refused.error(max_depth, max_references))
}

fn walk(body: &[u8], max_depth: usize, max_references: usize) -> Result<Document, Refused> {
    if body.trim_ascii().is_empty() {
        return Err(Refused { fault: Fault::NoEvent, line: 1, column: 0 });
    }
    if body.starts_with(b"\xef\xbb\xbf") {
        return Err(Refused { fault: Fault::ByteOrderMark, line: 1, column: 1 });
    }
    let mut scan = Scan {
        max_depth: max_depth.min(DEPTH_CAP),
        max_references,
        depth: 0,
        path: Path::default(),
        keys: Keys::default(),
        draft: Draft::default(),
        fault: None,
    };
    let mut json = serde_json::Deserializer::from_slice(body);
    let root = Node { scan: &mut scan, place: Place::Event, keep: false };
    let found = root.deserialize(&mut json).and_then(|found| json.end().map(|()| found));
    match found {
        Ok(Found::Null) => Err(Refused { fault: Fault::NoEvent, line: 1, column: 0 }),
        Ok(Found::False | Found::Text(_) | Found::Other) => Ok(scan.draft.finish()),
        Err(error) => {
            let syntax = if error.is_eof() { Fault::Truncated } else { Fault::Syntax };
            Err(Refused { fault: scan.fault.unwrap_or(syntax), line: error.line(), column: error.column() })
        }
    }
}

/// Why a walk ended early, and where.
#[derive(Debug)]
struct Refused {
    fault: Fault,
    line: usize,
    column: usize,
}

#[derive(Debug, PartialEq, Eq)]
enum Fault {
    NoEvent,
    ByteOrderMark,
    Truncated,
    Syntax,
    Nul,
    Depth,
    References,
    DuplicateKey,
    Variant(&'static str),
    Shape { path: String, wanted: Shape },
}

impl Refused {
    /// serde_json's own messages are not used: they quote the document.
    fn error(self, max_depth: usize, max_references: usize) -> Error {
        let what = match self.fault {
            Fault::NoEvent => return Error::Invalid("Lineage event cannot be null".to_owned()),
            Fault::References => {
                return Error::TooLarge(format!(
                    "the event names more than {max_references} datasets and jobs (event.max_references)"
                ));
            }
            Fault::ByteOrderMark => "the body begins with a byte order mark".to_owned(),
            Fault::Truncated => "the body ends before its JSON document does".to_owned(),
            Fault::Syntax => "the body is not a JSON document in UTF-8".to_owned(),
            Fault::Nul => "a text holds a NUL character".to_owned(),
            Fault::Depth => {
                let bound = max_depth.min(DEPTH_CAP);
                format!("the document is nested more than {bound} deep (event.max_depth)")
            }
            Fault::DuplicateKey => "an object holds a key twice".to_owned(),
            Fault::Variant(name) => format!("a key differs from `{name}` only by letter case"),
            Fault::Shape { path, wanted: Shape::Object } => format!("{path} must be an object"),
            Fault::Shape { path, wanted: Shape::List } => format!("{path} must be a list"),
            Fault::Shape { path, wanted: Shape::Text | Shape::Any } => format!("{path} must be a text"),
        };
        Error::Malformed(format!("{what} (line {} column {})", self.line, self.column))
    }
}

struct Scan<'de> {
    max_depth: usize,
    max_references: usize,
    depth: usize,
    path: Path<'de>,
    keys: Keys,
    draft: Draft,
    fault: Option<Fault>,
}

/// The next value, and its place. Its text is kept where `keep` says so or the place wants a text.
struct Node<'scan, 'de> {
    scan: &'scan mut Scan<'de>,
    place: Place,
    keep: bool,
}

/// What a value was, as far as its parent must know.
enum Found {
    Null,
    False,
    Text(String),
    Other,
}

/// The members of one object that matter to itself.
#[derive(Default)]
struct Members {
    texts: Vec<(&'static str, String)>,
    deletes: bool,
    variant: Option<&'static str>,
}

impl<'de> Scan<'de> {
    fn refuse<E: serde::de::Error>(&mut self, fault: Fault) -> E {
        self.fault = Some(fault);
        E::custom("refused")
    }

    fn open<E: serde::de::Error>(&mut self) -> Result<(), E> {
        if self.depth >= self.max_depth {
            return Err(self.refuse(Fault::Depth));
        }
        self.depth += 1;
        Ok(())
    }

    fn close(&mut self) {
        self.depth = self.depth.saturating_sub(1);
    }

    fn require<E: serde::de::Error>(&mut self, place: Place, found: Shape) -> Result<(), E> {
        let wanted = place.shape();
        if wanted == Shape::Any || wanted == found {
            return Ok(());
        }
        let path = if place == Place::Event { "the event".to_owned() } else { self.path.to_string() };
        Err(self.refuse(Fault::Shape { path, wanted }))
    }

    fn text<E: serde::de::Error>(&mut self, text: &str) -> Result<(), E> {
        if text.as_bytes().contains(&0) { Err(self.refuse(Fault::Nul)) } else { Ok(()) }
    }

    /// The place of the value that `key` leads to.
    fn enter<E: serde::de::Error>(
        &mut self,
        place: Place,
        object: &mut Object,
        members: &mut Members,
        key: &str,
    ) -> Result<Place, E> {
        if !self.keys.insert(object, key) {
            return Err(self.refuse(Fault::DuplicateKey));
        }
        match place.key(key) {
            Key::Read(child) => Ok(child),
            Key::Variant(name) => Err(self.refuse(Fault::Variant(name))),
            Key::Other(child) => {
                members.variant = members.variant.or_else(|| PAIR.into_iter().find(|name| is_variant(key, name)));
                Ok(child)
            }
        }
    }

    /// Takes what the object at `place` says. `order` is the draft's from when the object was opened.
    fn take<E: serde::de::Error>(&mut self, place: Place, order: u64, mut members: Members) -> Result<(), E> {
        let names = members.get("namespace").is_some() && members.get("name").is_some();
        if let (true, Some(name)) = (names, members.variant) {
            return Err(self.refuse(Fault::Variant(name)));
        }
        if self.draft.count() + usize::from(names) + usize::from(members.deletes) > self.max_references {
            return Err(self.refuse(Fault::References));
        }
        self.draft.take(place, order, &self.path, &mut members);
        Ok(())
    }
}

/// The two names that make any object a reference.
const PAIR: [&str; 2] = ["namespace", "name"];

/// The keys whose texts are read at some place.
const TEXTS: [&str; 10] =
    ["namespace", "name", "type", "datasetType", "runId", "eventType", "eventTime", "producer", "schemaURL", "uri"];

impl Members {
    fn put(&mut self, key: &str, found: Found) {
        match found {
            Found::Text(text) => {
                if let Some(name) = TEXTS.into_iter().find(|name| *name == key) {
                    self.texts.push((name, text));
                }
            }
            Found::Null | Found::False | Found::Other => {}
        }
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.texts.iter().find(|(known, _)| *known == name).map(|(_, text)| text.as_str())
    }

    fn take(&mut self, name: &str) -> Option<String> {
        let at = self.texts.iter().position(|(known, _)| *known == name)?;
        Some(self.texts.swap_remove(at).1)
    }
}

impl<'de> DeserializeSeed<'de> for Node<'_, 'de> {
    type Value = Found;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Found, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_, 'de> {
    type Value = Found;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Found, E> {
        Ok(Found::Null)
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<Found, E> {
        self.scan.require(self.place, Shape::Any)?;
        Ok(if value { Found::Other } else { Found::False })
    }

    fn visit_i64<E: serde::de::Error>(self, _: i64) -> Result<Found, E> {
        self.scan.require(self.place, Shape::Any)?;
        Ok(Found::Other)
    }

    fn visit_u64<E: serde::de::Error>(self, _: u64) -> Result<Found, E> {
        self.scan.require(self.place, Shape::Any)?;
        Ok(Found::Other)
    }

    fn visit_f64<E: serde::de::Error>(self, _: f64) -> Result<Found, E> {
        self.scan.require(self.place, Shape::Any)?;
        Ok(Found::Other)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Found, E> {
        self.scan.require(self.place, Shape::Text)?;
        self.scan.text(text)?;
        Ok(if self.keep { Found::Text(text.to_owned()) } else { Found::Other })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Found, A::Error> {
        let Self { scan, place, .. } = self;
        scan.require(place, Shape::List)?;
        scan.open()?;
        let element = place.element();
        for index in 0.. {
            scan.path.push(Segment::Index(index));
            let found = list.next_element_seed(Node { scan: &mut *scan, place: element, keep: false })?;
            if matches!(found, Some(Found::Null)) {
                scan.draft.take_null(element, &scan.path);
            }
            scan.path.pop();
            if found.is_none() {
                break;
            }
        }
        scan.close();
        Ok(Found::Other)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Found, A::Error> {
        let Self { scan, place, .. } = self;
        scan.require(place, Shape::Object)?;
        scan.open()?;
        let order = scan.draft.open();
        let mut object = scan.keys.open();
        let mut members = Members::default();
        while let Some(key) = map.next_key_seed(KeyText { scan: &mut *scan })? {
            let child = scan.enter(place, &mut object, &mut members, &key)?;
            let keep = child.shape() == Shape::Text
                || child == Place::DataSourceUri
                || key == "datasetType"
                || PAIR.contains(&key.as_ref());
            let deletes = key == "_deleted" && place.is_facet();
            scan.path.push(Segment::Key(key));
            let found = map.next_value_seed(Node { scan: &mut *scan, place: child, keep })?;
            members.deletes |= deletes && !matches!(found, Found::Null | Found::False);
            if let Some(Segment::Key(key)) = scan.path.pop() {
                members.put(&key, found);
            }
        }
        scan.keys.close(object);
        scan.take(place, order, members)?;
        scan.close();
        Ok(Found::Other)
    }
}

/// A key, unescaped.
struct KeyText<'scan, 'de> {
    scan: &'scan mut Scan<'de>,
}

impl<'de> DeserializeSeed<'de> for KeyText<'_, 'de> {
    type Value = Cow<'de, str>;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for KeyText<'_, 'de> {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_borrowed_str<E: serde::de::Error>(self, key: &'de str) -> Result<Self::Value, E> {
        self.scan.text(key)?;
        Ok(Cow::Borrowed(key))
    }

    fn visit_str<E: serde::de::Error>(self, key: &str) -> Result<Self::Value, E> {
        self.scan.text(key)?;
        Ok(Cow::Owned(key.to_owned()))
    }
}

#[cfg(test)]
pub(crate) mod testing;

#[cfg(test)]
mod tests;
