//! What a backend cannot take is refused before it is sent, with the rule that it breaks (facts:
//! marquez-and-clients-real 1 and 5, backends 1).
//!
//! Some of it would only be refused later and less clearly. Some would do harm: one job or output namespace that Marquez
//! does not allow is stored all the same, and its read API then fails for everybody, for good.

use std::time::Duration;

use crate::answer::{NoEffect, Refusal};
use crate::config::{self, EventKind, UnsupportedKinds, UpstreamKind};
use crate::event::{Event, Reference, Role};

mod uri;

/// What Marquez needs for each dataset of an event, symlinks included (facts: marquez-and-clients-real 1, surprise 5).
const MARQUEZ_DATASET: Duration = Duration::from_millis(7);

/// Characters of a namespace in Marquez.
const MARQUEZ_NAMESPACE: usize = 1024;

/// Bytes of a name in Marquez: it is indexed, and an index row of its database holds no more (facts: backends 1.1).
const MARQUEZ_NAME: usize = 8191;

/// The rules of one backend.
#[derive(Debug, Clone)]
pub struct Protection {
    kinds: &'static [EventKind],
    unsupported_kinds: UnsupportedKinds,
    max_event: Option<usize>,
    max_datasets: Option<usize>,
    is_marquez: bool,
}

/// What to do with an event that the backend's rules do not refuse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passage {
    /// Send it.
    Send,
    /// Do not send it: a configured rule drops it, and this is its outcome.
    Drop(NoEffect),
}

impl Protection {
    /// The rules of the configured backend: those of its kind, and those of its configuration.
    pub fn new(config: &config::Upstream) -> Self {
        let is_marquez = config.kind == UpstreamKind::Marquez;
        let in_time =
            || config.answer_within.0.as_millis().checked_div(MARQUEZ_DATASET.as_millis()).unwrap_or_default();
        let by_time = is_marquez.then(|| usize::try_from(in_time()).unwrap_or(usize::MAX));
        Self {
            kinds: kinds(config.kind),
            unsupported_kinds: config.unsupported_kinds,
            max_event: config.max_event.map(|size| size.bytes()),
            max_datasets: config.max_datasets.or(by_time),
            is_marquez,
        }
    }

    /// Whether an event may go to the backend.
    ///
    /// # Errors
    /// [`Refusal::BackendRule`] with the first rule that the event breaks.
    pub fn check(&self, event: &Event) -> Result<Passage, Refusal> {
        if !self.kinds.contains(&event.kind) {
            return match self.unsupported_kinds {
                UnsupportedKinds::Drop => Ok(Passage::Drop(NoEffect::Filtered)),
                UnsupportedKinds::Refuse => {
                    Err(Refusal::BackendRule("it takes run events only, no job or dataset events".to_owned()))
                }
            };
        }
        let broken = self.size(event).or_else(|| self.datasets(event));
        let broken = broken.or_else(|| self.is_marquez.then(|| marquez(event))?);
        broken.map_or(Ok(Passage::Send), |rule| Err(Refusal::BackendRule(rule)))
    }

    fn size(&self, event: &Event) -> Option<String> {
        let bound = self.max_event.filter(|bound| event.body.len() > *bound)?;
        Some(format!("it takes events of up to {bound} bytes"))
    }

    fn datasets(&self, event: &Event) -> Option<String> {
        let bound = self.max_datasets?;
        let count = event.references.iter().filter(|reference| is_dataset(reference)).count();
        (count > bound)
            .then(|| format!("it takes up to {bound} datasets an event, symlinks included, in the time it has"))
    }
}

/// The kinds of event that a backend takes (facts: backends 1.2 to 1.5, openlineage 7).
fn kinds(kind: UpstreamKind) -> &'static [EventKind] {
    match kind {
        UpstreamKind::Gravitino | UpstreamKind::Openmetadata | UpstreamKind::Datahub => &[EventKind::Run],
        UpstreamKind::Marquez | UpstreamKind::Polaris | UpstreamKind::Openlineage | UpstreamKind::File => {
            &[EventKind::Run, EventKind::Job, EventKind::Dataset]
        }
    }
}

/// The first rule of Marquez that an event breaks. Names that stand in other facets only create nothing there.
fn marquez(event: &Event) -> Option<String> {
    let stored = event.references.iter().filter(|reference| reference.role == Role::Job || is_dataset(reference));
    stored
        .map(|reference| (reference, names(reference)))
        .find_map(|(reference, rule)| {
            let (member, rule) = rule?;
            Some(format!("{}.{member} {rule}", reference.path))
        })
        .or_else(|| {
            let bad = event.data_sources.iter().find(|source| !uri::is_java_uri(&source.uri))?;
            Some(format!("{}.uri must be a URI", bad.path))
        })
}

fn names(Reference { namespace, name, .. }: &Reference) -> Option<(&'static str, &'static str)> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b":;=/_-.@+".contains(&byte);
    if namespace.is_empty() || namespace.len() > MARQUEZ_NAMESPACE || !namespace.bytes().all(is_plain) {
        return Some(("namespace", "must be 1 to 1024 of the characters A-Z a-z 0-9 : ; = / _ - . @ +"));
    }
    if name.trim().is_empty() {
        return Some(("name", "must not be empty"));
    }
    if name.contains('\0') {
        return Some(("name", "must not hold a NUL character"));
    }
    (name.len() > MARQUEZ_NAME).then_some(("name", "must not be longer than 8191 bytes"))
}

/// A dataset that the event is about, or a symlink of one: Marquez makes a dataset of each (facts: marquez-and-clients-real
/// 1, surprise 3). Paths cannot be forged: keys with other characters than those of a plain name stand in quotes.
fn is_dataset(reference: &Reference) -> bool {
    match reference.role {
        Role::Input | Role::Output => true,
        Role::FacetDataset => reference.path.contains(".facets.symlinks."),
        Role::Job | Role::FacetJob => false,
    }
}

#[cfg(test)]
mod tests;
