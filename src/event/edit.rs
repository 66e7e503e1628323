//! Changes of an event before it is judged: rewrite rules, dropped facets, credentials taken out of URIs.
//!
//! An edit replaces bytes in their place; no other byte changes. The result is scanned and checked anew, so that what is
//! judged is still what is sent. Nothing here runs for an event unless the configuration asks for it.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use bytes::Bytes;

use self::rule::Rule;
use self::walk::{Aliases, Found, Wanted, walk};
use super::{Error, Event, Rules, parse as parse_as_sent};
use crate::config::{Facets, Rewrite};

pub use self::alias::{Alias, Kind as AliasKind};
pub use self::metrics::Metrics;

mod alias;
mod cursor;
mod metrics;
mod rule;
mod scrub;
mod splice;
mod walk;

/// Bytes that rewrite rules may add to one event.
const MOST_GROWTH: usize = 1 << 20;

/// What is done to each event.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    rules: Vec<Rule>,
    facets: FacetRules,
    lists_aliases: bool,
}

/// What is taken out of facets.
#[derive(Debug, Clone, Default)]
struct FacetRules {
    drop: HashSet<Box<str>>,
    drop_over: Option<usize>,
    scrub: bool,
}

/// An event as it is judged, and what was done to it.
#[derive(Debug, Clone)]
pub struct Edited {
    /// The event.
    pub event: Event,
    /// What was done.
    pub tally: Tally,
    /// Other names of its datasets, in document order, where the plan wants them.
    pub aliases: Vec<Alias>,
}

/// What was done to an event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// References that rewrite rules mapped.
    pub rewritten: usize,
    /// How many each rule mapped, by its name.
    pub rules: BTreeMap<Arc<str>, usize>,
    /// Facets that were dropped.
    pub facets_dropped: usize,
    /// Texts that credentials were taken out of.
    pub scrubbed: usize,
    /// Symlink identifiers and `dataSource` facets that were taken out.
    pub symlinks_dropped: usize,
}

impl Plan {
    /// The configured plan. `lists_aliases` wants [`Edited::aliases`].
    ///
    /// # Errors
    ///
    /// All faults of the rules, each with its place before it.
    pub fn new(rewrite: &[Rewrite], facets: &Facets, lists_aliases: bool) -> Result<Self, Vec<String>> {
        let (mut rules, mut faults) = (Vec::new(), Vec::new());
        for (index, shape) in rewrite.iter().enumerate() {
            match Rule::new(index, shape) {
                Ok(rule) => rules.push(rule),
                Err(found) => faults.extend(found),
            }
        }
        if facets.drop_over.is_some_and(|size| size.bytes() == 0) {
            faults.push("facets.drop_over: must be more than 0; leave it out to drop none".to_owned());
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        let facets = FacetRules {
            drop: facets.drop.iter().map(|name| name.as_str().into()).collect(),
            drop_over: facets.drop_over.map(|size| size.bytes()),
            scrub: facets.scrub_uris,
        };
        Ok(Self { rules, facets, lists_aliases })
    }

    fn changes_nothing(&self) -> bool {
        let FacetRules { drop, drop_over, scrub } = &self.facets;
        self.rules.is_empty() && drop.is_empty() && drop_over.is_none() && !scrub
    }

    fn tally(&self, found: &Found) -> Tally {
        let mut rules = BTreeMap::new();
        for rule in found.applied.iter().filter_map(|number| self.rules.get(*number)) {
            *rules.entry(Arc::clone(&rule.name)).or_default() += 1;
        }
        let counts = found.counts;
        let (rewritten, facets_dropped, scrubbed) = (counts.rewritten, counts.facets_dropped, counts.scrubbed);
        Tally { rewritten, rules, facets_dropped, scrubbed, symlinks_dropped: 0 }
    }
}

impl FacetRules {
    fn drops(&self, name: &str, size: usize) -> bool {
        self.drop.contains(name) || self.drop_over.is_some_and(|bound| size > bound)
    }
}

impl Tally {
    /// Whether the event is as it was sent.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Checks a whole, decoded body as [`super::parse`] does, edits it, and checks the result in the same way.
///
/// Works without a pause, for a time linear in the bytes, and for a moment holds both the body and the result.
///
/// # Errors
///
/// Those of [`super::parse`], about the body as sent or as edited; [`Error::TooLarge`] also for too many edits, or for
/// rewrite rules that make the event 1 MiB larger.
pub fn parse(body: Bytes, rules: &Rules, plan: &Plan) -> Result<Edited, Error> {
    let mut event = parse_as_sent(body, rules)?;
    let mut tally = Tally::default();
    if !plan.changes_nothing() {
        let wanted = Wanted { rules: &plan.rules, facets: &plan.facets, aliases: Aliases::Ignore };
        let found = walk(&event.body, &wanted)?;
        tally = plan.tally(&found);
        event = edited(event, found, rules)?;
    }
    let aliases = if plan.lists_aliases { aliases(&event)? } else { Vec::new() };
    Ok(Edited { event, tally, aliases })
}

/// `event` without the aliases of these numbers.
///
/// # Errors
///
/// As [`parse`].
pub fn without(event: Event, rules: &Rules, numbers: &BTreeSet<usize>) -> Result<Event, Error> {
    let facets = FacetRules::default();
    let found = walk(&event.body, &Wanted { rules: &[], facets: &facets, aliases: Aliases::Drop(numbers) })?;
    edited(event, found, rules)
}

fn aliases(event: &Event) -> Result<Vec<Alias>, Error> {
    let facets = FacetRules::default();
    let mut found = walk(&event.body, &Wanted { rules: &[], facets: &facets, aliases: Aliases::List })?;
    found.aliases.sort_by_key(|alias| alias.number);
    Ok(found.aliases)
}

fn edited(event: Event, found: Found, rules: &Rules) -> Result<Event, Error> {
    if found.edits.is_empty() {
        return Ok(event);
    }
    if found.edits.growth() > MOST_GROWTH {
        return Err(Error::TooLarge(format!("rewrite rules make the event more than {MOST_GROWTH} bytes larger")));
    }
    let lost = || Error::Malformed("the edits of the event do not fit it".to_owned());
    let body = found.edits.apply(&event.body).ok_or_else(lost)?;
    drop(event);
    parse_as_sent(Bytes::from(body), rules)
}

#[cfg(test)]
mod tests;
