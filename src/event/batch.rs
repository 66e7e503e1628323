//! A batch → the events in it, each its own bytes (facts: backends 2.5).
//!
//! The envelope is read as strictly as an event: a list of values, and nothing beside it. What stands in a value is not
//! looked at here, so that one bad event spoils no other; only what breaks the syntax of the whole refuses the whole.

use std::borrow::Cow;
use std::fmt;

use bytes::{BufMut, Bytes, BytesMut};
use serde::Deserializer as _;
use serde::de::{DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde_json::error::Category;
use serde_json::value::RawValue;

use super::edit::{self, Edited, Plan};
use super::{Error, Rules};

/// How often `event.max_references` all events of a batch together may name something.
const REFERENCES: usize = 10;

/// What stands around the events of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Envelope {
    /// `{"events": [...]}`, as OpenMetadata has it.
    Events,
    /// `[...]`, as OpenLineage has it.
    List,
}

/// Splits a batch. Each element shares the memory of `body`, without white space around it, in the order of the list.
///
/// # Errors
///
/// [`Error::Malformed`] for an envelope of another form, [`Error::Invalid`] for an empty list, [`Error::TooLarge`] for
/// more than `max_events`.
pub fn split(body: &Bytes, envelope: Envelope, max_events: usize) -> Result<Vec<Bytes>, Error> {
    let mut reading = Reading { max_events, elements: Vec::new(), is_complete: false, fault: None };
    let read = read(body, envelope, &mut reading);
    if let Err(error) = read {
        let fault = reading.fault.unwrap_or_else(|| Fault::of(&error));
        return Err(fault.error(envelope, max_events));
    }
    if !reading.is_complete {
        return Err(Fault::Form.error(envelope, max_events));
    }
    if reading.elements.is_empty() {
        return Err(Error::Invalid("the batch holds no event: send at least one".to_owned()));
    }
    Ok(reading.elements.into_iter().map(|raw| body.slice_ref(raw.get().as_bytes())).collect())
}

fn read<'de>(body: &'de [u8], envelope: Envelope, reading: &mut Reading<'de>) -> serde_json::Result<()> {
    let mut json = serde_json::Deserializer::from_slice(body);
    match envelope {
        Envelope::Events => json.deserialize_map(Object(reading))?,
        Envelope::List => json.deserialize_seq(List(reading))?,
    }
    json.end()
}

/// Checks and edits each element as an event.
///
/// # Errors
///
/// [`Error::TooLarge`] for the whole if its events together name more than the batch may. What is wrong with one event
/// stands in its place.
pub fn parse(elements: Vec<Bytes>, rules: &Rules, plan: &Plan) -> Result<Vec<Result<Edited, Error>>, Error> {
    let bound = rules.max_references.saturating_mul(REFERENCES);
    let mut references = 0_usize;
    let mut events = Vec::with_capacity(elements.len());
    for element in elements {
        let edited = edit::parse(element, rules, plan);
        references +=
            edited.as_ref().map_or(0, |Edited { event, .. }| event.references.len() + event.deleted_facets.len());
        if references > bound {
            return Err(Error::TooLarge(format!(
                "the batch names more than {bound} datasets and jobs ({REFERENCES} times event.max_references)"
            )));
        }
        events.push(edited);
    }
    Ok(events)
}

/// Makes a batch of events: the inverse of [`split`].
pub fn join<'a>(events: impl IntoIterator<Item = &'a Bytes>, envelope: Envelope) -> Bytes {
    let (open, close): (&[u8], &[u8]) = match envelope {
        Envelope::Events => (b"{\"events\":[", b"]}"),
        Envelope::List => (b"[", b"]"),
    };
    let mut joined = BytesMut::from(open);
    for (index, event) in events.into_iter().enumerate() {
        if index > 0 {
            joined.put_u8(b',');
        }
        joined.put_slice(event);
    }
    joined.put_slice(close);
    joined.freeze()
}

/// Why a body is no batch.
#[derive(Debug)]
enum Fault {
    Malformed(&'static str),
    Form,
    TooMany,
}

impl Fault {
    /// serde_json's own messages are not used: they quote the document.
    fn of(error: &serde_json::Error) -> Self {
        match error.classify() {
            Category::Eof => Self::Malformed("the body ends before its JSON document does"),
            Category::Data => Self::Form,
            Category::Syntax | Category::Io => Self::Malformed("the body is not a JSON document in UTF-8"),
        }
    }

    fn error(self, envelope: Envelope, max_events: usize) -> Error {
        match (self, envelope) {
            (Self::Malformed(text), _) => Error::Malformed(text.to_owned()),
            (Self::Form, Envelope::Events) => {
                Error::Malformed("a batch is an object with a list `events`, and nothing else".to_owned())
            }
            (Self::Form, Envelope::List) => Error::Malformed("a batch is a list of events".to_owned()),
            (Self::TooMany, _) => {
                Error::TooLarge(format!("the batch holds more than {max_events} events (event.max_batch)"))
            }
        }
    }
}

struct Reading<'de> {
    max_events: usize,
    elements: Vec<&'de RawValue>,
    /// Whether the list was there.
    is_complete: bool,
    fault: Option<Fault>,
}

impl Reading<'_> {
    fn refuse<E: serde::de::Error>(&mut self, fault: Fault) -> E {
        self.fault = Some(fault);
        E::custom("refused")
    }
}

/// The object around the list.
struct Object<'a, 'de>(&'a mut Reading<'de>);

/// The list of events.
struct List<'a, 'de>(&'a mut Reading<'de>);

impl<'de> Visitor<'de> for Object<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self(reading) = self;
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            if key != "events" {
                return Err(reading.refuse(Fault::Form));
            }
            if reading.is_complete {
                return Err(reading.refuse(Fault::Malformed("an object holds a key twice")));
            }
            map.next_value_seed(List(&mut *reading))?;
        }
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for List<'_, 'de> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for List<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let Self(reading) = self;
        while let Some(element) = list.next_element::<&RawValue>()? {
            if reading.elements.len() >= reading.max_events {
                return Err(reading.refuse(Fault::TooMany));
            }
            reading.elements.push(element);
        }
        reading.is_complete = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
