//! Events as they are judged: edited by the configuration's rules, and without other names of datasets that the caller
//! may not name.
//!
//! The order: the body as sent is checked, edited and checked anew; then its limits are charged; then symlinks and
//! `dataSource` facets, where the backend looks datasets up by them, are judged one by one, whatever
//! `policy.facet_references` says. Unseen ones are taken out, and what is left is checked anew and judged as any other
//! event: what was taken out is not sent, so it is not judged again. Where they refuse the event instead, everything else
//! in it is judged first: membership, roles and resolution keep their places in the order of refusal.
//!
//! Aliases are judged by policy files alone. One in a metalake that a policy source behind the network governs is unseen:
//! nobody asks that source about names that the event does not judge otherwise.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::verdict::Petitioner;
use super::visit::Ledger;
use super::{Gate, PARSED_AT_ONCE};
use crate::answer::Refusal;
use crate::config::{PolicyMode, Symlinks};
use crate::event::edit::{self, Alias, AliasKind, Edited, Plan};
use crate::event::{Event, Rules};
use crate::policy::{self, ActiveRoles, Denied, Identity, Judgement, Refused, Why, World};
use crate::source::Ruled;
use crate::upstream::Lookup;

/// How events are changed before they are judged.
pub struct Edits {
    /// What is done to each.
    pub plan: Arc<Plan>,
    /// How the backend looks datasets up.
    pub lookup: Lookup,
    /// What was done, counted.
    pub metrics: edit::Metrics,
}

/// The aliases of an event that its caller may not name.
struct Unseen {
    numbers: BTreeSet<usize>,
    /// The first of them: where it stands, and what stands against it.
    first: Option<(String, Why)>,
}

impl Gate {
    /// The event without the aliases that the caller may not name, or its refusal because of them.
    pub(super) async fn withhold(
        &self,
        edited: Edited,
        petitioner: &Petitioner<'_>,
        rules: &Arc<Rules>,
        ledger: &mut Ledger,
    ) -> Result<Event, Refusal> {
        let Edited { event, aliases, .. } = edited;
        let source = self.policy.source.as_ref().filter(|_| self.policy.mode != PolicyMode::Off);
        let Some(source) = source.filter(|_| !aliases.is_empty()) else { return Ok(event) };
        let world = source.world();
        let Petitioner { caller, roles, .. } = petitioner;
        let who = Identity { subject: &caller.subject, groups: &caller.groups };
        let unseen = self.edits.unseen(&world, &who, roles, &event, &aliases);
        if unseen.numbers.is_empty() {
            return Ok(event);
        }
        if self.policy.mode == PolicyMode::Shadow {
            ledger.record.shadow = true;
            return Ok(event);
        }
        match self.edits.lookup.symlinks {
            Symlinks::Keep => Ok(event),
            Symlinks::DropUnseen => {
                let count = unseen.numbers.len();
                let event = without(event, rules, unseen.numbers).await?;
                self.edits.metrics.observe(&edit::Tally { symlinks_dropped: count, ..edit::Tally::default() });
                ledger.record.edits.symlinks_dropped = count;
                Ok(event)
            }
            // Whatever is decided here stays: what is known of a policy source may change before the event is judged.
            Symlinks::DenyUnseen => match source.judge(&petitioner.ask(&event, self.policy.facets)).await {
                Ok(Ruled { judgement: Judgement::Denied(denied), .. }) => {
                    ledger.denied(&denied, &event);
                    Err(denied.refusal.into())
                }
                Ok(Ruled { judgement: Judgement::Allowed { .. }, .. }) => Err(refuse(unseen, &event, ledger)),
                Err(unjudged) => self.unjudged(&unjudged, ledger).and(Err(Refusal::PolicyUnavailable)),
            },
        }
    }

    /// Refuses what the backend could take for a dataset that the event does not mean.
    pub(super) fn fit(&self, event: &Event) -> Result<(), Refusal> {
        match self.edits.lookup.stray(event) {
            None => Ok(()),
            Some(stray) => Err(Refusal::Unresolvable(format!(
                "{}.namespace is mapped to no service of the lineage backend",
                stray.path
            ))),
        }
    }
}

impl Edits {
    fn unseen(
        &self,
        world: &World,
        who: &Identity<'_>,
        roles: &ActiveRoles,
        event: &Event,
        aliases: &[Alias],
    ) -> Unseen {
        let judged: Vec<_> = aliases.iter().filter(|alias| !self.is_own(alias)).collect();
        let names: Vec<_> = judged.iter().filter_map(|alias| alias.reference.as_ref()).collect();
        let mut objections = policy::objections(world, who, roles, event, &names).into_iter();
        let mut unseen = Unseen { numbers: BTreeSet::new(), first: None };
        for alias in judged {
            let objection = match &alias.reference {
                Some(reference) => {
                    let objection = objections.next().flatten();
                    let is_stray = alias.kind == AliasKind::Symlink && !self.lookup.knows(&reference.namespace);
                    objection.or_else(|| is_stray.then_some(Why::NoRule { what: "namespace without a service" }))
                }
                None => Some(Why::NoRule { what: "incomplete name" }),
            };
            if let Some(why) = objection {
                unseen.numbers.insert(alias.number);
                unseen.first.get_or_insert_with(|| (alias.path.clone(), why));
            }
        }
        unseen
    }

    /// Whether a `dataSource` says no more than the dataset's own namespace does.
    fn is_own(&self, alias: &Alias) -> bool {
        let (AliasKind::DataSource { own }, Some(reference)) = (&alias.kind, &alias.reference) else { return false };
        reference.namespace == *own || self.lookup.service(own) == Some(&*reference.namespace)
    }
}

fn refuse(unseen: Unseen, event: &Event, ledger: &mut Ledger) -> Refusal {
    if let Some((path, why)) = unseen.first {
        let reference = event.references.iter().position(|reference| reference.path == path);
        ledger.denied(&Denied { refusal: Refused::NotVisible, reference, why }, event);
    }
    Refusal::NotVisible
}

async fn without(event: Event, rules: &Arc<Rules>, numbers: BTreeSet<usize>) -> Result<Event, Refusal> {
    if event.body.len() <= PARSED_AT_ONCE {
        return Ok(edit::without(event, rules, &numbers)?);
    }
    let rules = Arc::clone(rules);
    let editing = tokio::task::spawn_blocking(move || edit::without(event, &rules, &numbers));
    Ok(editing.await.map_err(|_| Refusal::Internal)??)
}
