//! One walk over a document that the scan took, by the same table of places: it notes what must change, and where.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::alias::Alias;
use super::cursor::{Cursor, Span};
use super::scrub::scrubbed;
use super::splice::{Edits, Removal};
use super::{FacetRules, Rule};
use crate::event::scan::{Key, Place, is_variant};
use crate::event::{Error, Role};

mod aliases;

/// Edits of one event, and aliases that it may hold.
const MOST: usize = 100_000;

/// What a walk looks for.
pub(super) struct Wanted<'w> {
    pub(super) rules: &'w [Rule],
    pub(super) facets: &'w FacetRules,
    pub(super) aliases: Aliases<'w>,
}

/// What becomes of symlink identifiers and `dataSource` facets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Aliases<'w> {
    Ignore,
    List,
    /// Those with these numbers, in the order of [`Found::aliases`], are taken out.
    Drop(&'w BTreeSet<usize>),
}

/// What a walk found.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) edits: Edits,
    /// The rule of each application, by its number.
    pub(super) applied: Vec<usize>,
    pub(super) counts: Counts,
    pub(super) aliases: Vec<Alias>,
    alias_count: usize,
}

/// How often what was done.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) rewritten: usize,
    pub(super) facets_dropped: usize,
    pub(super) scrubbed: usize,
}

/// Where a facet began, in what was found: all that was noted since is forgotten when the facet goes.
struct Mark {
    edits: usize,
    applied: usize,
    counts: Counts,
}

struct Walk<'w, 'de> {
    cursor: Cursor<'de>,
    wanted: &'w Wanted<'w>,
    found: Found,
    /// Where the dataset stands whose facets are walked over, such as `inputs[0]`.
    dataset: String,
    /// What it is to the job.
    role: Role,
    /// The `dataSource` facets of that dataset.
    sources: Vec<Source<'de>>,
    is_over: bool,
}

/// A value, as far as its parent must know.
struct Value<'de> {
    span: Span,
    content: Content<'de>,
}

enum Content<'de> {
    /// A text, and what scrubbing made of it.
    Text(Text<'de>),
    Object(Names<'de>),
    List,
    Null,
    Other,
}

struct Text<'de> {
    span: Span,
    sent: Cow<'de, str>,
    clean: Option<String>,
}

/// The texts of an object that can make it a reference.
#[derive(Default)]
struct Names<'de> {
    namespace: Option<Text<'de>>,
    name: Option<Text<'de>>,
    kind: Option<Cow<'de, str>>,
    /// A key that a lenient backend could take for one of them.
    is_ambiguous: bool,
}

struct Source<'de> {
    /// Its number among aliases.
    number: usize,
    /// Its name as sent, and that name's place; none if it has no name that can be judged.
    name: Option<(Cow<'de, str>, Span)>,
}

/// Walks over `body`, a document that the scan took.
///
/// # Errors
///
/// [`Error::TooLarge`] for more than [`MOST`] edits or aliases, [`Error::Malformed`] for bytes that the scan refuses.
pub(super) fn walk(body: &[u8], wanted: &Wanted<'_>) -> Result<Found, Error> {
    let lost = || Error::Malformed("the body is not a JSON document in UTF-8".to_owned());
    let cursor = Cursor::new(body).ok_or_else(lost)?;
    let found = Found::default();
    let (dataset, role, sources) = (String::new(), Role::Input, Vec::new());
    let mut walk = Walk { cursor, wanted, found, dataset, role, sources, is_over: false };
    let value = walk.value(Place::Event, false);
    if walk.is_over {
        return Err(Error::TooLarge(format!("the event needs more than {MOST} edits (rewrite, facets)")));
    }
    walk.keep_text(&value.ok_or_else(lost)?);
    Ok(walk.found)
}

impl<'de> Walk<'_, 'de> {
    fn value(&mut self, place: Place, is_container: bool) -> Option<Value<'de>> {
        self.is_over |= self.found.edits.len() > MOST || self.found.alias_count > MOST;
        if self.is_over {
            return None;
        }
        match self.cursor.peek()? {
            b'{' => self.object(place, is_container),
            b'[' => self.list(place),
            b'"' => {
                let span = self.cursor.string()?;
                let sent = self.cursor.text(span)?;
                let clean = if self.wanted.facets.scrub { scrubbed(&sent) } else { None };
                Some(Value { span, content: Content::Text(Text { span, sent, clean }) })
            }
            first => {
                let content = if first == b'n' { Content::Null } else { Content::Other };
                Some(Value { span: self.cursor.scalar()?, content })
            }
        }
    }

    fn list(&mut self, place: Place) -> Option<Value<'de>> {
        let start = self.cursor.place();
        self.cursor.take(b'[')?;
        let element = place.element();
        for index in 0.. {
            if !self.cursor.goes_on(index, b']')? {
                break;
            }
            self.begin_dataset(element, index);
            let value = self.value(element, false)?;
            self.keep_text(&value);
        }
        self.cursor.take(b']')?;
        Some(Value { span: Span { start, end: self.cursor.place() }, content: Content::List })
    }

    fn object(&mut self, place: Place, is_container: bool) -> Option<Value<'de>> {
        let start = self.cursor.place();
        self.cursor.take(b'{')?;
        let since = self.found.edits.len();
        let mut names = Names::default();
        let mut removal = Removal::default();
        for index in 0.. {
            if !self.cursor.goes_on(index, b'}')? {
                break;
            }
            self.member(place, is_container, &mut names, &mut removal)?;
        }
        self.cursor.take(b'}')?;
        removal.close(&mut self.found.edits);
        self.close_object(place, since, &mut names);
        Some(Value { span: Span { start, end: self.cursor.place() }, content: Content::Object(names) })
    }

    fn member(
        &mut self,
        place: Place,
        is_container: bool,
        names: &mut Names<'de>,
        removal: &mut Removal,
    ) -> Option<()> {
        let key_span = self.cursor.string()?;
        let key = self.cursor.text(key_span)?;
        self.cursor.take(b':')?;
        removal.begin(key_span.start, &mut self.found.edits);
        let child = match place.key(&key) {
            Key::Read(child) | Key::Other(child) => child,
            Key::Variant(_) => return None,
        };
        if child == Place::Dataset {
            self.begin_dataset(child, 0);
        }
        let mark = self.mark();
        let value = if place == Place::Symlinks && key == "identifiers" && self.wanted.aliases != Aliases::Ignore {
            self.identifiers(child)?
        } else {
            self.value(child, holds_facets(place, child, &key))?
        };
        let span = Span { start: key_span.start, end: value.span.end };
        let goes = is_container && self.wanted.facets.drops(&key, value.span.len());
        if goes {
            self.forget(&mark);
            self.found.counts.facets_dropped += 1;
        }
        let goes = goes || (place == Place::DatasetFacets && self.source(&key, &value));
        removal.end(span, goes, &mut self.found.edits);
        if !goes {
            self.note(&key, value, names);
        }
        Some(())
    }

    /// Keeps what a member says that may make its object a reference.
    fn note(&mut self, key: &str, value: Value<'de>, names: &mut Names<'de>) {
        names.is_ambiguous |= ["namespace", "name"].into_iter().any(|name| is_variant(key, name));
        match (key, value.content) {
            ("namespace", Content::Text(text)) => names.namespace = Some(text),
            ("name", Content::Text(text)) => names.name = Some(text),
            ("type", Content::Text(text)) => {
                names.kind = Some(text.sent.clone());
                self.scrub(&text);
            }
            (_, Content::Text(text)) => self.scrub(&text),
            (_, Content::Object(_) | Content::List | Content::Null | Content::Other) => {}
        }
    }

    /// Applies the rules to what the object names, and to the `dataSource` of a dataset that is called like its namespace.
    fn close_object(&mut self, place: Place, since: usize, names: &mut Names<'de>) {
        let (Some(namespace), Some(name)) = (&names.namespace, &names.name) else {
            for text in [&names.namespace, &names.name].into_iter().flatten() {
                self.scrub(text);
            }
            if is_dataset(place) {
                self.close_dataset(None);
            }
            return;
        };
        let is_job = matches!(place.role(names.kind.as_deref()), Role::Job | Role::FacetJob);
        let (mut new, mut is_rewritten) = ((namespace.said().to_owned(), name.said().to_owned()), false);
        for (number, rule) in self.wanted.rules.iter().enumerate() {
            if let Some(mapped) = rule.map(is_job, &new.0, &new.1) {
                (new, is_rewritten) = (mapped, true);
                self.found.applied.push(number);
            }
        }
        self.found.counts.rewritten += usize::from(is_rewritten);
        for (text, new) in [(namespace, &new.0), (name, &new.1)] {
            self.found.counts.scrubbed += usize::from(text.clean.is_some());
            if *text.sent != **new {
                self.found.edits.replace(text.span, quoted(new));
            }
        }
        if is_dataset(place) {
            if is_rewritten && namespace.said() != new.0 {
                for (called, span) in self.sources.iter().filter_map(|source| source.name.as_ref()) {
                    if *called == namespace.sent {
                        self.found.edits.correct(since, *span, quoted(&new.0));
                    }
                }
            }
            self.close_dataset(Some((&namespace.sent, &name.sent)));
        }
    }

    /// Scrubs a text that is no member of an object.
    fn keep_text(&mut self, value: &Value<'de>) {
        match &value.content {
            Content::Text(text) => self.scrub(text),
            Content::Object(_) | Content::List | Content::Null | Content::Other => {}
        }
    }

    fn scrub(&mut self, text: &Text<'de>) {
        if let Some(clean) = &text.clean {
            self.found.counts.scrubbed += 1;
            self.found.edits.replace(text.span, quoted(clean));
        }
    }

    fn mark(&self) -> Mark {
        Mark { edits: self.found.edits.len(), applied: self.found.applied.len(), counts: self.found.counts }
    }

    fn forget(&mut self, mark: &Mark) {
        self.found.edits.truncate(mark.edits);
        self.found.applied.truncate(mark.applied);
        self.found.counts = mark.counts;
    }
}

impl Text<'_> {
    fn said(&self) -> &str {
        self.clean.as_deref().unwrap_or(&self.sent)
    }
}

/// Whether the members of the object under `key` are facets.
fn holds_facets(place: Place, child: Place, key: &str) -> bool {
    matches!(child, Place::RunFacets | Place::JobFacets | Place::DatasetFacets)
        || (is_dataset(place) && matches!(key, "inputFacets" | "outputFacets"))
}

fn is_dataset(place: Place) -> bool {
    matches!(place, Place::Input | Place::Output | Place::Dataset)
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests;
