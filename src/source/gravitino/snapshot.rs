//! A metalake as it was read: who is in it, what is granted, who owns what, and what could not be read.
//!
//! What is not known is never taken for not there. A caller with a role or group that could not be read, or an object
//! whose owner was not, is undecided where that could change the answer.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::policy::{About, ActiveRoles, Identity, ObjectType, Viewer, World};

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

/// A snapshot as one caller sees it.
#[derive(Debug)]
pub struct View {
    snapshot: Arc<Snapshot>,
    standing: Standing,
}

/// A caller in the metalake.
#[derive(Debug)]
enum Standing {
    /// No user row, and not all of them could be read.
    Unknown,
    /// No user row.
    Stranger,
    /// A user row, with a role or a group that could not be read.
    Unread,
    Member {
        holds_roles: Answer,
        viewer: Viewer,
    },
}

/// Objects whose owners the next reading should read too: those that no role names, and that a decision hung on.
#[derive(Debug, Default)]
pub(super) struct Wanted(Mutex<HashMap<(ObjectType, String), Instant>>);

impl Snapshot {
    /// The metalake as a policy. Ask [`answer`](Self::answer) whether it decides a question.
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

    /// The answer, if all that it depends on is known. For many questions about one caller take [`Self::view`].
    pub fn answer(self: &Arc<Self>, who: &Identity<'_>, roles: &ActiveRoles, question: &Question) -> Option<Answer> {
        let (metalake, about) = match question {
            Question::Member { metalake } => (metalake, About::Member),
            Question::RolesHeld { metalake } => (metalake, About::RolesHeld),
            Question::Visible { metalake, kind, name } => (metalake, About::Visible { kind: *kind, name }),
        };
        if **metalake != *self.metalake {
            return None;
        }
        self.view(who, roles).answer(&about)
    }

    /// It, as one caller sees it: what depends on the caller alone is looked up here, once.
    pub fn view(self: &Arc<Self>, who: &Identity<'_>, roles: &ActiveRoles) -> View {
        let standing = match self.users.get(who.subject) {
            Some(direct) => match self.held(direct.as_ref(), who) {
                Some(held) => Standing::Member {
                    holds_roles: holds(&held, roles),
                    viewer: Viewer::new(&self.world, who, roles, &self.metalake),
                },
                None => Standing::Unread,
            },
            None if self.all_users => Standing::Stranger,
            None => Standing::Unknown,
        };
        View { snapshot: Arc::clone(self), standing }
    }

    /// The roles of the caller and of its groups; nothing where one of them could not be read.
    fn held<'s>(&'s self, direct: Option<&'s Vec<String>>, who: &Identity<'_>) -> Option<Vec<&'s Vec<String>>> {
        let mut held = vec![direct?];
        for group in who.groups {
            match self.groups.get(&**group) {
                Some(roles) => held.push(roles.as_ref()?),
                None if self.all_groups => {}
                None => return None,
            }
        }
        Some(held)
    }

    /// Nothing where the owner is not known; it is read the next time then.
    fn owner_is_known(&self, object: (ObjectType, String)) -> Option<()> {
        if self.owners_known.contains(&object) {
            return Some(());
        }
        self.wanted.add(object);
        None
    }
}

impl View {
    /// The answer, if all that it depends on is known.
    pub fn answer(&self, about: &About<'_>) -> Option<Answer> {
        match (&self.standing, about) {
            (Standing::Stranger, _) => Some(Answer::No),
            (Standing::Unread | Standing::Member { .. }, About::Member) => Some(Answer::Yes),
            (Standing::Unknown | Standing::Unread, _) => None,
            (Standing::Member { holds_roles, .. }, About::RolesHeld) => Some(*holds_roles),
            (Standing::Member { viewer, .. }, About::Visible { kind, name }) => self.visible(viewer, *kind, name),
        }
    }

    fn visible(&self, viewer: &Viewer, kind: ObjectType, name: &str) -> Option<Answer> {
        let snapshot = &*self.snapshot;
        let name = &*folded(&snapshot.lower_case, kind, name);
        if viewer.sees(kind, name).ok()? {
            // An owner that is not known could only add to it.
            return Some(Answer::Yes);
        }
        // From the top: what is hidden hides all below it, whoever owns that. Of nested schemas the innermost counts.
        let above = ancestors(kind, name);
        let innermost = above.len();
        snapshot.owner_is_known((ObjectType::Metalake, snapshot.metalake.to_string()))?;
        for (at, (level, name)) in above.into_iter().enumerate() {
            snapshot.owner_is_known((level, name.clone()))?;
            let closes = level == ObjectType::Catalog || at + 1 == innermost;
            if closes && !viewer.sees(level, &name).ok()? {
                return Some(Answer::No);
            }
        }
        snapshot.owner_is_known((kind, name.to_owned()))?;
        Some(Answer::No)
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
