//! The decision about an event.
//!
//! One function, [`Court::rule_on`], rules on one reference. [`judge`] keeps the gravest refusal of all references,
//! [`explain`] lists every ruling; there is no second evaluator. The order of refusals is Gravitino's (facts: gravitino
//! 0.1): membership, active roles, resolution of all targets, visibility of all references; within each, the job comes
//! first, then inputs, outputs, facets.

use std::sync::Arc;

use crate::answer;
use crate::config::FacetReferences;
use crate::event::{Event, Role};

use self::court::{Court, Ruling, Stage};
use super::name::NameFault;
use super::privilege::ObjectType;
use super::roles::ActiveRoles;
use super::viewer;
use super::why::Why;
use super::world::{Identity, World};

pub use self::alias::objections;
pub use self::inquiry::{About, Hearing, Inquiry, Witness};

mod alias;
mod court;
mod inquiry;
mod reason;

/// What the policy says of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judgement {
    /// Everything that it names may be named by this caller.
    Allowed {
        /// Whose rules its job, or the dataset of a dataset event, is under.
        governed_by: GovernedBy,
    },
    /// Something may not.
    Denied(Denied),
}

/// Whose rules an event is under.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GovernedBy {
    /// A metalake's.
    Metalake(Arc<str>),
    /// This namespace rule's.
    Rule(Arc<str>),
    /// Nobody's: the policy was not asked.
    Nothing,
}

/// A denial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denied {
    /// What the caller is told.
    pub refusal: Refused,
    /// Which of the event's references decided, where one did. A missing user row names the job's.
    pub reference: Option<usize>,
    /// What the operator is told.
    pub why: Why,
}

/// What the caller is told. Nothing in it tells missing things from forbidden ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// Missing or forbidden.
    NotVisible,
    /// Active roles that the caller does not hold, in Gravitino's words.
    RolesNotHeld(String),
    /// A target does not resolve, in Gravitino's words. Members only get this far.
    Unresolvable(String),
}

/// The ruling on one reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// Where it stands in the event.
    pub path: String,
    /// What the place means.
    pub role: Role,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The type of object that it was judged as; `None` for jobs, outside metalakes, and where several were tried.
    pub kind: Option<ObjectType>,
    /// Whether the caller may name it.
    pub allowed: bool,
    /// The rule that decided.
    pub why: Why,
}

impl From<Refused> for answer::Refusal {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::NotVisible => Self::NotVisible,
            Refused::RolesNotHeld(text) => Self::RolesNotHeld(text),
            Refused::Unresolvable(text) => Self::Unresolvable(text),
        }
    }
}

/// Decides about an event. What it names must all be allowed; allowing costs no text.
pub fn judge(
    world: &World,
    who: &Identity<'_>,
    roles: &ActiveRoles,
    event: &Event,
    facets: FacetReferences,
) -> Judgement {
    let mut court = Court::new(world, (who, roles), event, facets, Witness::NONE);
    let found = court.find();
    court.conclude(found)
}

/// Decides about an event that may name metalakes whose rules are not in `world`. It is decided as soon as what is not
/// known can change nothing any more of what the caller is told.
pub fn hear<'e>(
    world: &'e World,
    (who, roles): (&Identity<'_>, &ActiveRoles),
    event: &'e Event,
    facets: FacetReferences,
    witness: Witness<'_>,
) -> Hearing<'e> {
    let mut court = Court::new(world, (who, roles), event, facets, witness);
    let found = court.find();
    let refused = found.gravest.map(|((stage, ..), _)| stage);
    match (refused, found.open) {
        (Some(refused), Some(open)) if open < refused => Hearing::Open(court.open),
        (None, Some(_)) => Hearing::Open(court.open),
        (Some(_) | None, _) => Hearing::Judged(court.conclude(found)),
    }
}

/// The same decision, told for every reference of the event in document order.
pub fn explain(
    world: &World,
    who: &Identity<'_>,
    roles: &ActiveRoles,
    event: &Event,
    facets: FacetReferences,
) -> Vec<Explanation> {
    let mut court = Court::new(world, (who, roles), event, facets, Witness::NONE);
    let references = event.references.iter();
    references
        .map(|reference| {
            let ruling = match reference.role {
                Role::Job => court.rule_on_event(),
                Role::Input | Role::Output | Role::FacetJob | Role::FacetDataset => court.rule_on(reference),
            };
            Explanation {
                path: reference.path.clone(),
                role: reference.role,
                namespace: reference.namespace.clone(),
                name: reference.name.clone(),
                kind: ruling.kind(),
                allowed: ruling.denied_at().is_none(),
                why: court.why(ruling, Some(reference)),
            }
        })
        .collect()
}

/// Whether a caller sees one object of a metalake: the rule for its type (facts: gravitino 1.1).
///
/// Callers without a user row see nothing, and a metalake that the policy does not know is seen by nobody. Active roles
/// that are not held count for nothing here.
///
/// # Errors
///
/// A name that does not resolve.
pub fn sees(
    world: &World,
    who: &Identity<'_>,
    roles: &ActiveRoles,
    metalake: &str,
    (kind, name): (ObjectType, &str),
) -> Result<bool, NameFault> {
    let metalake = world.metalakes.get(metalake);
    let actor = metalake.and_then(|metalake| metalake.actor(who, roles));
    viewer::visible(metalake.zip(actor.as_ref()), kind, name)
}

/// Whether a caller holds all of its active roles in a metalake of which it is a member.
pub fn holds_roles(world: &World, who: &Identity<'_>, roles: &ActiveRoles, metalake: &str) -> bool {
    let Some(metalake) = world.metalakes.get(metalake) else { return false };
    metalake.actor(who, roles).is_some_and(|actor| metalake.unheld(&actor, roles).next().is_none())
}

/// Stage, rank of the role, and place in the event: the smallest decides.
type Gravity = (Stage, u8, Option<usize>);

/// What the references of an event come to.
#[derive(Debug, Clone, Copy, Default)]
struct Found<'w> {
    gravest: Option<(Gravity, Ruling<'w>)>,
    governing: Option<Ruling<'w>>,
    /// The earliest stage at which something is not known.
    open: Option<Stage>,
}

impl<'w> Court<'w, '_> {
    fn find(&mut self) -> Found<'w> {
        let mut found = Found::default();
        found.note(self.rule_on_event(), (0, None));
        for (index, reference) in self.event.references.iter().enumerate() {
            if reference.role != Role::Job {
                let ruling = self.rule_on(reference);
                found.note(ruling, (rank(reference.role), Some(index)));
            }
        }
        found
    }

    fn conclude(&mut self, found: Found<'w>) -> Judgement {
        let Some(((stage, _, index), ruling)) = found.gravest else {
            return Judgement::Allowed { governed_by: self.governed_by(found.governing) };
        };
        let references = &self.event.references;
        let index = index.or_else(|| references.iter().position(|reference| reference.role == Role::Job));
        let why = self.why(ruling, index.and_then(|index| references.get(index)));
        let refusal = match (stage, &why) {
            (Stage::Resolution, Why::Unresolvable(text)) => Refused::Unresolvable(text.clone()),
            (Stage::Roles, Why::RolesNotHeld { roles, .. }) => Refused::RolesNotHeld(format!(
                "User '{}' cannot assume active role(s) that are not held: [{}]",
                self.who.subject,
                roles.join(", ")
            )),
            (Stage::Membership | Stage::Visibility | Stage::Resolution | Stage::Roles, _) => Refused::NotVisible,
        };
        Judgement::Denied(Denied { refusal, reference: index, why })
    }
}

impl<'w> Found<'w> {
    fn note(&mut self, ruling: Ruling<'w>, (rank, index): (u8, Option<usize>)) {
        let Some(stage) = ruling.denied_at() else {
            // The job's ruling, or that on a dataset event's own dataset, comes first.
            if self.governing.is_none() && rank <= self::rank(Role::Output) && !matches!(ruling, Ruling::NotJudged) {
                self.governing = Some(ruling);
            }
            return;
        };
        if matches!(ruling, Ruling::Open(_)) {
            self.open = Some(self.open.map_or(stage, |open| open.min(stage)));
            return;
        }
        let gravity = (stage, rank, index);
        if self.gravest.as_ref().is_none_or(|(known, _)| gravity < *known) {
            self.gravest = Some((gravity, ruling));
        }
    }
}

const fn rank(role: Role) -> u8 {
    match role {
        Role::Job => 0,
        Role::Input => 1,
        Role::Output => 2,
        Role::FacetJob | Role::FacetDataset => 3,
    }
}
