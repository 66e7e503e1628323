//! Other names of datasets, by which some backends look them up.

use crate::config::FacetReferences;
use crate::event::{Event, Reference};

use super::super::roles::ActiveRoles;
use super::super::why::Why;
use super::super::world::{Identity, World};
use super::court::Court;
use super::inquiry::Witness;

/// What stands against each of these names of the event's datasets; `None` where the caller may name it so.
///
/// The role of a name is that of its dataset: the backend does to the one what it does to the other. They are judged
/// whatever `policy.facet_references` says. Only the denied ones cost a text.
pub fn objections(
    world: &World,
    who: &Identity<'_>,
    roles: &ActiveRoles,
    event: &Event,
    names: &[&Reference],
) -> Vec<Option<Why>> {
    let mut court = Court::new(world, (who, roles), event, FacetReferences::All, Witness::NONE);
    let mut objections = Vec::with_capacity(names.len());
    for name in names {
        let ruling = court.rule_on_alias(name);
        objections.push(ruling.denied_at().map(|_| court.why(ruling, Some(name))));
    }
    objections
}
