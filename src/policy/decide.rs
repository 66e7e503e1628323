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
use super::access::{Need, examine};
use super::name::{FullName, NameFault};
use super::privilege::ObjectType;
use super::roles::ActiveRoles;
use super::why::Why;
use super::world::{Identity, World};

pub use self::alias::objections;

mod alias;
mod court;
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
    let mut court = Court::new(world, who, roles, event, facets);
    let (mut gravest, mut governed_by) = (None, None);
    let about = court.rule_on_event();
    note(&mut gravest, &mut governed_by, about, (0, None));
    for (index, reference) in event.references.iter().enumerate() {
        if reference.role != Role::Job {
            let ruling = court.rule_on(reference);
            note(&mut gravest, &mut governed_by, ruling, (rank(reference.role), Some(index)));
        }
    }
    let Some(((stage, _, index), ruling)) = gravest else {
        return Judgement::Allowed { governed_by: court.governed_by(governed_by) };
    };
    let index = index.or_else(|| event.references.iter().position(|reference| reference.role == Role::Job));
    let reference = index.and_then(|index| event.references.get(index));
    let why = court.why(ruling, reference);
    let refusal = match (stage, &why) {
        (Stage::Resolution, Why::Unresolvable(text)) => Refused::Unresolvable(text.clone()),
        (Stage::Roles, Why::RolesNotHeld { roles, .. }) => Refused::RolesNotHeld(format!(
            "User '{}' cannot assume active role(s) that are not held: [{}]",
            who.subject,
            roles.join(", ")
        )),
        (Stage::Membership | Stage::Visibility | Stage::Resolution | Stage::Roles, _) => Refused::NotVisible,
    };
    Judgement::Denied(Denied { refusal, reference: index, why })
}

/// The same decision, told for every reference of the event in document order.
pub fn explain(
    world: &World,
    who: &Identity<'_>,
    roles: &ActiveRoles,
    event: &Event,
    facets: FacetReferences,
) -> Vec<Explanation> {
    let mut court = Court::new(world, who, roles, event, facets);
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
    FullName::parse(kind, name)?;
    let Some(metalake) = world.metalakes.get(metalake) else { return Ok(false) };
    let Some(actor) = metalake.actor(who, roles) else { return Ok(false) };
    let folded = metalake.fold(kind, name);
    let name = FullName::parse(kind, &folded)?;
    Ok(examine(metalake, &actor, &name, Need::Visible).allows())
}

/// Stage, rank of the role, and place in the event: the smallest decides.
type Gravity = (Stage, u8, Option<usize>);

fn note<'w>(
    gravest: &mut Option<(Gravity, Ruling<'w>)>,
    governing: &mut Option<Ruling<'w>>,
    ruling: Ruling<'w>,
    (rank, index): (u8, Option<usize>),
) {
    let Some(stage) = ruling.denied_at() else {
        // The job's ruling, or that on a dataset event's own dataset, comes first.
        if governing.is_none() && rank <= self::rank(Role::Output) && !matches!(ruling, Ruling::NotJudged) {
            *governing = Some(ruling);
        }
        return;
    };
    let gravity = (stage, rank, index);
    if gravest.as_ref().is_none_or(|(known, _)| gravity < *known) {
        *gravest = Some((gravity, ruling));
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
