//! A metalake as it was read: who is in it, what is granted, who owns what, and what could not be read.
//!
//! What is not known is never taken for not there. A caller with a role or group that could not be read, or an object
//! whose owner was not, is undecided where that could change the answer.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::policy::{ActiveRoles, Identity, ObjectType, World, sees};

use super::world::{ancestors, folded};
use super::{Answer, Question};

/// Objects whose owners are read because a decision hung on them.
const MOST_WANTED: usize = 1_000;

/// How long such an object's owner is read.
const WANTED_FOR: Duration = Duration::from_secs(900);

/// A metalake as it was read last.
#[derive(Debug)]
pub struct Snapshot {
    pub(super) metalake: Arc<str>,
    pub(super) world: Arc<World>,
    pub(super) read_at: Instant,
    /// Every user row that was seen, with its roles; `None` where one of them could not be read.
    pub(super) users: HashMap<String, Option<Vec<String>>>,
    /// The same of groups.
    pub(super) groups: HashMap<String, Option<Vec<String>>>,
    /// Whether those are all users, and all groups.
    pub(super) all_users: bool,
    pub(super) all_groups: bool,
    /// Objects of which it is known who owns them, or that nobody does.
    pub(super) owners_known: HashSet<(ObjectType, String)>,
    pub(super) lower_case: Vec<String>,
    pub(super) unreadable: Vec<String>,
    pub(super) wanted: Arc<Wanted>,
}

/// Objects whose owners the next reading should read too: those that no role names, and that a decision hung on.
#[derive(Debug, Default)]
pub(super) struct Wanted(Mutex<HashMap<(ObjectType, String), Instant>>);

impl Snapshot {
    /// The metalake as a policy. Ask [`answer`](Self::answer) or [`decides`](Self::decides) whether it decides a question.
    pub fn world(&self) -> &Arc<World> {
        &self.world
    }

    /// When its reading began.
    pub fn read_at(&self) -> Instant {
        self.read_at
    }

    /// What could not be read, for the operator.
    pub fn unreadable(&self) -> &[String] {
        &self.unreadable
    }

    /// Whether it is known enough for all these questions.
    pub fn decides(&self, who: &Identity<'_>, roles: &ActiveRoles, questions: &[Question]) -> bool {
        // Each one is looked at, so that the owners which are missing are read next time.
        questions.iter().filter(|question| self.answer(who, roles, question).is_none()).count() == 0
    }

    /// The answer, if all that it depends on is known.
    pub fn answer(&self, who: &Identity<'_>, roles: &ActiveRoles, question: &Question) -> Option<Answer> {
        let (Question::Member { metalake } | Question::RolesHeld { metalake } | Question::Visible { metalake, .. }) =
            question;
        if **metalake != *self.metalake {
            return None;
        }
        let Some(direct) = self.users.get(who.subject) else { return self.all_users.then_some(Answer::No) };
        if matches!(question, Question::Member { .. }) {
            return Some(Answer::Yes);
        }
        let mut held = vec![direct.as_ref()?];
        for group in who.groups {
            match self.groups.get(&**group) {
                Some(roles) => held.push(roles.as_ref()?),
                None if self.all_groups => {}
                None => return None,
            }
        }
        match question {
            Question::Member { .. } => Some(Answer::Yes),
            Question::RolesHeld { .. } => Some(holds(&held, roles)),
            Question::Visible { kind, name, .. } => self.visible(who, roles, *kind, name),
        }
    }

    fn visible(&self, who: &Identity<'_>, roles: &ActiveRoles, kind: ObjectType, name: &str) -> Option<Answer> {
        let name = &folded(&self.lower_case, kind, name);
        if self.sees(who, roles, kind, name)? {
            // An owner that is not known could only add to it.
            return Some(Answer::Yes);
        }
        // From the top: what is hidden hides all below it, whoever owns that. Of nested schemas the innermost counts.
        let above = ancestors(kind, name);
        let innermost = above.len();
        self.owner_is_known((ObjectType::Metalake, self.metalake.to_string()))?;
        for (at, (level, name)) in above.into_iter().enumerate() {
            self.owner_is_known((level, name.clone()))?;
            let closes = level == ObjectType::Catalog || at + 1 == innermost;
            if closes && !self.sees(who, roles, level, &name)? {
                return Some(Answer::No);
            }
        }
        self.owner_is_known((kind, name.clone()))?;
        Some(Answer::No)
    }

    /// Nothing where the owner is not known; it is read the next time then.
    fn owner_is_known(&self, object: (ObjectType, String)) -> Option<()> {
        if self.owners_known.contains(&object) {
            return Some(());
        }
        self.wanted.add(object);
        None
    }

    fn sees(&self, who: &Identity<'_>, roles: &ActiveRoles, kind: ObjectType, name: &str) -> Option<bool> {
        sees(&self.world, who, roles, &self.metalake, (kind, name)).ok()
    }
}

fn holds(held: &[&Vec<String>], roles: &ActiveRoles) -> Answer {
    let names = match roles {
        ActiveRoles::All | ActiveRoles::None => return Answer::Yes,
        ActiveRoles::Named(names) => names,
    };
    let is_held = |name: &str| held.iter().any(|roles| roles.iter().any(|role| role == name));
    if names.iter().all(|name| is_held(name)) { Answer::Yes } else { Answer::No }
}

impl Wanted {
    fn add(&self, object: (ObjectType, String)) {
        let mut wanted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if wanted.len() < MOST_WANTED {
            wanted.entry(object).or_insert_with(Instant::now);
        }
    }

    /// Those that are wanted now.
    pub(super) fn take(&self) -> Vec<(ObjectType, String)> {
        let mut wanted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        wanted.retain(|_, since| since.elapsed() < WANTED_FOR);
        wanted.keys().cloned().collect()
    }
}
