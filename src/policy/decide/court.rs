//! The ruling on one reference of an event.

use std::borrow::Cow;
use std::collections::HashSet;
use std::rc::Rc;

use crate::config::FacetReferences;
use crate::event::{DatasetType, Event, Reference, Role};

use super::super::access::{Above, Finding, Need};
use super::super::metalake::{Actor, Metalake};
use super::super::name::{FullName, NameFault, dataset_type, named_type};
use super::super::privilege::ObjectType;
use super::super::roles::ActiveRoles;
use super::super::rules::{Applicable, Use, Verdict};
use super::super::world::{Identity, World};
use super::GovernedBy;
use super::inquiry::{About, Inquiry, Witness};

/// The types that a dataset can have, in the order in which they are tried for a facet's dataset.
const DATASET_TYPES: [ObjectType; 5] =
    [ObjectType::Table, ObjectType::View, ObjectType::Fileset, ObjectType::Model, ObjectType::Topic];

/// When a refusal comes: the earlier one is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    Membership,
    Roles,
    Resolution,
    Visibility,
}

/// The ruling on one reference. Small and free of texts: what it says in words is made when it is asked for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Ruling<'w> {
    /// A facet's reference that the configuration leaves out.
    NotJudged,
    Member(&'w str),
    NotMember(&'w str),
    RolesNotHeld(&'w Metalake),
    /// Not all of the active roles, as the metalake's source says.
    RolesNotHeldThere(&'w str),
    /// An event of this metalake names something outside it.
    Foreign(&'w str),
    BadType,
    BadName(NameFault),
    /// A facet's dataset in a metalake has no full name.
    BadFacetName(&'w str),
    Object(&'w Metalake, ObjectType, Finding),
    /// What the metalake's source says of an object.
    ObjectThere(&'w str, ObjectType, bool),
    /// The metalake's source was not asked yet: refused, unless it is asked and the event is ruled on again.
    Open(Stage),
    /// A facet's dataset is visible as no type.
    NoType,
    Rule(Verdict<'w>, &'static str),
}

/// Whose rules the event is under.
#[derive(Debug, Clone, Copy)]
enum Home<'w> {
    Metalake(Land<'w>),
    Rules,
}

/// A metalake, by where its rules are.
#[derive(Debug, Clone, Copy)]
enum Land<'w> {
    Here(&'w Metalake),
    There(&'w str),
}

/// A caller in a metalake that another source knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StandingThere {
    Member,
    NotMember,
    RolesNotHeld,
    Open(Stage),
}

/// A caller that the rules of a metalake may be asked about.
#[derive(Debug, Clone)]
enum Entrant<'w> {
    Here(&'w Metalake, Rc<Actor>),
    There(&'w str),
}

/// A caller in a metalake, once it was looked for.
#[derive(Debug, Clone)]
enum Standing {
    NotMember,
    RolesNotHeld(Rc<Actor>),
    Member(Rc<Actor>),
}

/// One caller, one event, and what was found out about them so far.
#[derive(Debug)]
pub(super) struct Court<'w, 'a> {
    pub(super) world: &'w World,
    pub(super) who: &'a Identity<'a>,
    pub(super) roles: &'a ActiveRoles,
    pub(super) event: &'w Event,
    facets: FacetReferences,
    witness: Witness<'a>,
    home: Home<'w>,
    standings: Vec<(&'w Metalake, Standing)>,
    standings_there: Vec<(&'w str, StandingThere)>,
    /// What has to be asked before the ruling holds.
    pub(super) open: Vec<Inquiry<'w>>,
    applicable: Option<Applicable<'w>>,
    /// The schema that was looked at last: an event's datasets often share it.
    last_schema: Option<(&'w Metalake, &'w str, Above)>,
    /// Where the datasets stand of which the event deletes a facet (`_deleted: true`): that writes to them.
    stripped: HashSet<&'w str>,
}

impl<'w> Land<'w> {
    fn name(self) -> &'w str {
        match self {
            Self::Here(metalake) => &metalake.name,
            Self::There(name) => name,
        }
    }
}

impl Ruling<'_> {
    /// When the reference is refused; `None` if it is allowed or not judged.
    pub(super) fn denied_at(&self) -> Option<Stage> {
        match self {
            Self::NotJudged | Self::Member(_) | Self::Rule(Verdict::Allowed(_), _) => None,
            Self::NotMember(_) => Some(Stage::Membership),
            Self::RolesNotHeld(_) | Self::RolesNotHeldThere(_) => Some(Stage::Roles),
            Self::Foreign(_) | Self::BadType | Self::BadName(_) | Self::BadFacetName(_) => Some(Stage::Resolution),
            Self::Object(_, _, finding) => (!finding.allows()).then_some(Stage::Visibility),
            Self::ObjectThere(_, _, visible) => (!visible).then_some(Stage::Visibility),
            Self::Open(stage) => Some(*stage),
            Self::NoType | Self::Rule(Verdict::Denied(_) | Verdict::NoRule, _) => Some(Stage::Visibility),
        }
    }

    /// The type of object that a dataset was judged as.
    pub(super) fn kind(&self) -> Option<ObjectType> {
        match self {
            Self::Object(_, kind, _) | Self::ObjectThere(_, kind, _) => Some(*kind),
            Self::NotJudged
            | Self::Member(_)
            | Self::NotMember(_)
            | Self::RolesNotHeld(_)
            | Self::RolesNotHeldThere(_)
            | Self::Foreign(_)
            | Self::BadType
            | Self::BadName(_)
            | Self::BadFacetName(_)
            | Self::NoType
            | Self::Open(_)
            | Self::Rule(..) => None,
        }
    }
}

impl<'w, 'a> Court<'w, 'a> {
    pub(super) fn new(
        world: &'w World,
        (who, roles): (&'a Identity<'a>, &'a ActiveRoles),
        event: &'w Event,
        facets: FacetReferences,
        witness: Witness<'a>,
    ) -> Self {
        let stripped = event.deleted_facets.iter().filter_map(|path| path.split_once(".facets"));
        let stripped = stripped.map(|(dataset, _)| dataset).collect();
        let mut court = Self {
            world,
            who,
            roles,
            event,
            facets,
            witness,
            home: Home::Rules,
            standings: Vec::new(),
            standings_there: Vec::new(),
            open: Vec::new(),
            applicable: None,
            last_schema: None,
            stripped,
        };
        let dataset = || event.references.iter().find(|reference| reference.role == Role::Output);
        let job = event.job.as_ref().map(|job| &*job.namespace);
        let namespace = job.or_else(|| dataset().map(|dataset| &*dataset.namespace));
        let land = namespace.and_then(|namespace| court.land(Role::Job, namespace));
        court.home = land.map_or(Home::Rules, Home::Metalake);
        court
    }

    /// The metalake that a namespace is, in a place of that role.
    fn land(&self, role: Role, namespace: &'w str) -> Option<Land<'w>> {
        if let Some(metalake) = self.world.metalakes.get(namespace) {
            return Some(Land::Here(metalake));
        }
        if let Home::Metalake(Land::There(home)) = self.home
            && home == namespace
        {
            return Some(Land::There(namespace));
        }
        (self.witness.governs)(role, namespace).then_some(Land::There(namespace))
    }

    /// The ruling on the event itself: membership of its metalake, or the rules about its job.
    ///
    /// A dataset event outside metalakes has nothing but its dataset to be judged by; an event with neither is refused.
    pub(super) fn rule_on_event(&mut self) -> Ruling<'w> {
        match (self.home, &self.event.job) {
            (Home::Metalake(land), _) => self.member(land).err().unwrap_or_else(|| Ruling::Member(land.name())),
            (Home::Rules, Some(_)) => Ruling::Rule(self.applicable().job(), "job"),
            (Home::Rules, None) if self.event.references.iter().any(|reference| reference.role == Role::Output) => {
                Ruling::NotJudged
            }
            (Home::Rules, None) => Ruling::Rule(Verdict::NoRule, "event"),
        }
    }

    /// The ruling on any reference but the event's own job.
    pub(super) fn rule_on(&mut self, reference: &'w Reference) -> Ruling<'w> {
        match reference.role {
            Role::Job => self.rule_on_event(),
            Role::Input => {
                let ruling = self.rule_on_dataset(reference, Role::Input);
                let also_written = ruling.denied_at().is_none() && self.stripped.contains(&*reference.path);
                if also_written { self.rule_on_dataset(reference, Role::Output) } else { ruling }
            }
            Role::Output => self.rule_on_dataset(reference, Role::Output),
            Role::FacetJob | Role::FacetDataset => self.rule_on_facet(reference),
        }
    }

    /// The ruling on another name of an input or an output, by which the backend looks it up: whatever facets are judged,
    /// and as what its role says.
    pub(super) fn rule_on_alias(&mut self, reference: &'w Reference) -> Ruling<'w> {
        self.rule_on_facet_dataset(reference, reference.role)
    }

    pub(super) fn governed_by(&self, governing: Option<Ruling<'w>>) -> GovernedBy {
        match (self.home, governing) {
            (Home::Metalake(Land::Here(metalake)), _) => GovernedBy::Metalake(metalake.name.clone()),
            (Home::Metalake(Land::There(name)), _) => GovernedBy::Metalake(name.into()),
            (Home::Rules, Some(Ruling::Rule(Verdict::Allowed(rule), _))) => GovernedBy::Rule(rule.name.clone()),
            (Home::Rules, _) => GovernedBy::Nothing,
        }
    }

    /// The caller in a metalake of which it is a member, its active roles held or not.
    pub(super) fn actor(&mut self, metalake: &'w Metalake) -> Option<Rc<Actor>> {
        match self.standing(metalake) {
            Standing::NotMember => None,
            Standing::RolesNotHeld(actor) | Standing::Member(actor) => Some(actor),
        }
    }

    /// Under `governed` what a rule denies is refused in any namespace, also one that no rule names.
    fn rule_on_facet(&mut self, reference: &'w Reference) -> Ruling<'w> {
        if self.facets == FacetReferences::Ignore {
            return Ruling::NotJudged;
        }
        let ruling = if reference.role == Role::FacetJob {
            self.rule_on_facet_job(reference)
        } else {
            self.rule_on_facet_dataset(reference, Role::FacetDataset)
        };
        let judged = self.facets == FacetReferences::All
            || self.world.governs(&reference.namespace).is_some()
            || self.land(reference.role, &reference.namespace).is_some();
        if judged || matches!(ruling, Ruling::Rule(Verdict::Denied(_), _)) { ruling } else { Ruling::NotJudged }
    }

    /// `role` is what the caller does to the dataset: input or output.
    fn rule_on_dataset(&mut self, reference: &'w Reference, role: Role) -> Ruling<'w> {
        let land = match self.home {
            Home::Metalake(home) if home.name() == &*reference.namespace => home,
            Home::Metalake(home) => return self.member(home).err().unwrap_or_else(|| Ruling::Foreign(home.name())),
            Home::Rules => match self.land(reference.role, &reference.namespace) {
                Some(land) => land,
                None => return self.rule_by_namespace(reference, role),
            },
        };
        let entrant = match self.member(land) {
            Ok(entrant) => entrant,
            Err(refused) => return refused,
        };
        let Ok(kind) = dataset_type(&reference.dataset_type) else { return Ruling::BadType };
        self.object(&entrant, (kind, &reference.name), role == Role::Output).unwrap_or_else(Ruling::BadName)
    }

    /// A facet's job in a metalake needs membership of it; elsewhere it must be one that the caller may run.
    fn rule_on_facet_job(&mut self, reference: &'w Reference) -> Ruling<'w> {
        if let Some(land) = self.land(reference.role, &reference.namespace) {
            return self.member(land).err().unwrap_or_else(|| Ruling::Member(land.name()));
        }
        let about = self.world.rules.about(self.who, &reference.namespace, &reference.name);
        Ruling::Rule(about.job(), "facet")
    }

    /// A facet's dataset rarely says its type: it is allowed if it is visible as any. In a metalake a name that is no
    /// full name is refused, since a backend would make a dataset of it there, under a name that nobody can be granted.
    fn rule_on_facet_dataset(&mut self, reference: &'w Reference, role: Role) -> Ruling<'w> {
        let Some(land) = self.land(reference.role, &reference.namespace) else {
            return self.rule_by_namespace(reference, role);
        };
        let entrant = match self.member(land) {
            Ok(entrant) => entrant,
            Err(refused) => return refused,
        };
        let named = match &reference.dataset_type {
            DatasetType::Named(name) => named_type(name),
            DatasetType::Absent | DatasetType::Blank => None,
        };
        let kinds = named.as_slice();
        for kind in if kinds.is_empty() { &DATASET_TYPES } else { kinds } {
            match self.object(&entrant, (*kind, &reference.name), role == Role::Output) {
                // An open question ends the search too: the types after it are asked about only if it is answered no.
                Ok(ruling) if ruling.denied_at().is_none() || named.is_some() => return ruling,
                Ok(open @ Ruling::Open(_)) => return open,
                Ok(_) => {}
                Err(_) => return Ruling::BadFacetName(land.name()),
            }
        }
        Ruling::NoType
    }

    fn rule_by_namespace(&mut self, reference: &Reference, role: Role) -> Ruling<'w> {
        let (to, what) = match role {
            Role::Input => (Use::Input, "input"),
            Role::Output => (Use::Output, "output"),
            Role::Job | Role::FacetJob | Role::FacetDataset => (Use::Either, "facet"),
        };
        let (namespace, name) = (&*reference.namespace, &*reference.name);
        if self.event.job.is_some() {
            return Ruling::Rule(self.applicable().dataset(to, namespace, name), what);
        }
        let about = self.world.rules.about_dataset(self.who, namespace);
        Ruling::Rule(about.dataset(to, namespace, name), what)
    }

    /// The rules about the event's own job.
    fn applicable(&mut self) -> &Applicable<'w> {
        let (world, who, job) = (self.world, self.who, &self.event.job);
        self.applicable.get_or_insert_with(|| match job {
            Some(job) => world.rules.about(who, &job.namespace, &job.name),
            None => Applicable::default(),
        })
    }

    fn member(&mut self, land: Land<'w>) -> Result<Entrant<'w>, Ruling<'w>> {
        match land {
            Land::Here(metalake) => match self.standing(metalake) {
                Standing::NotMember => Err(Ruling::NotMember(&metalake.name)),
                Standing::RolesNotHeld(_) => Err(Ruling::RolesNotHeld(metalake)),
                Standing::Member(actor) => Ok(Entrant::Here(metalake, actor)),
            },
            Land::There(name) => match self.standing_there(name) {
                StandingThere::NotMember => Err(Ruling::NotMember(name)),
                StandingThere::RolesNotHeld => Err(Ruling::RolesNotHeldThere(name)),
                StandingThere::Open(stage) => Err(Ruling::Open(stage)),
                StandingThere::Member => Ok(Entrant::There(name)),
            },
        }
    }

    /// The ruling on an object whose type is known.
    fn object(
        &mut self,
        entrant: &Entrant<'w>,
        (kind, name): (ObjectType, &'w str),
        is_output: bool,
    ) -> Result<Ruling<'w>, NameFault> {
        match entrant {
            Entrant::Here(metalake, actor) => {
                let need = if is_output { Need::of_output(metalake.outputs) } else { Need::Visible };
                let finding = self.examine(metalake, actor, (kind, name), need)?;
                Ok(Ruling::Object(metalake, kind, finding))
            }
            Entrant::There(metalake) => {
                FullName::parse(kind, name)?;
                let visible = self.hear(Inquiry { metalake, about: About::Visible { kind, name } });
                Ok(visible.map_or(Ruling::Open(Stage::Visibility), |yes| Ruling::ObjectThere(metalake, kind, yes)))
            }
        }
    }

    fn standing_there(&mut self, metalake: &'w str) -> StandingThere {
        if let Some((_, known)) = self.standings_there.iter().find(|(known, _)| *known == metalake) {
            return *known;
        }
        let names_roles = matches!(self.roles, ActiveRoles::Named(_));
        let standing = match self.hear(Inquiry { metalake, about: About::Member }) {
            None => StandingThere::Open(Stage::Membership),
            Some(false) => StandingThere::NotMember,
            Some(true) if !names_roles => StandingThere::Member,
            Some(true) => match self.hear(Inquiry { metalake, about: About::RolesHeld }) {
                None => StandingThere::Open(Stage::Roles),
                Some(false) => StandingThere::RolesNotHeld,
                Some(true) => StandingThere::Member,
            },
        };
        self.standings_there.push((metalake, standing));
        standing
    }

    fn hear(&mut self, inquiry: Inquiry<'w>) -> Option<bool> {
        let heard = (self.witness.answers)(&inquiry);
        if heard.is_none() {
            self.open.push(inquiry);
        }
        heard
    }

    fn standing(&mut self, metalake: &'w Metalake) -> Standing {
        if let Some((_, known)) = self.standings.iter().find(|(known, _)| std::ptr::eq(*known, metalake)) {
            return known.clone();
        }
        let standing = match metalake.actor(self.who, self.roles).map(Rc::new) {
            None => Standing::NotMember,
            Some(actor) if metalake.unheld(&actor, self.roles).next().is_some() => Standing::RolesNotHeld(actor),
            Some(actor) => Standing::Member(actor),
        };
        self.standings.push((metalake, standing.clone()));
        standing
    }

    fn examine(
        &mut self,
        metalake: &'w Metalake,
        actor: &Actor,
        (kind, name): (ObjectType, &'w str),
        need: Need,
    ) -> Result<Finding, NameFault> {
        let parsed = FullName::parse(kind, name)?;
        match metalake.fold(kind, name) {
            Cow::Borrowed(_) => {
                let name = parsed;
                let above = self.above(metalake, actor, &name);
                Ok(above.object_finding(metalake, actor, &name, need))
            }
            Cow::Owned(folded) => {
                let name = FullName::parse(kind, &folded)?;
                Ok(Above::new(metalake, actor, &name).object_finding(metalake, actor, &name, need))
            }
        }
    }

    fn above(&mut self, metalake: &'w Metalake, actor: &Actor, name: &FullName<'w>) -> Above {
        let path = name.schema_path();
        if let Some((known, last, above)) = self.last_schema
            && std::ptr::eq(known, metalake)
            && last == path
        {
            return above;
        }
        let above = Above::new(metalake, actor, name);
        self.last_schema = Some((metalake, path, above));
        above
    }
}
