//! A metalake as it was read: who is in it, what is granted, who owns what, and what could not be read.
//!
//! What is not known is never taken for not there. A caller with a role or group that could not be read, an object whose
//! owner was not, or a catalog that may be one which ignores letter case, is undecided where that could change the answer.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::policy::{About, ActiveRoles, Identity, ObjectType, Viewer, World};

use super::Answer;
use super::call::Owner;
use super::world::{ancestors, folded};

/// Owners that are kept besides those of the reading.
const MOST_OWNERS: usize = 10_000;

/// What a snapshot's age may be over the time until the next reading is there.
const GRACE: Duration = Duration::from_secs(1);

/// An object of a metalake.
pub(super) type Object = (ObjectType, String);

/// A metalake as it was read last.
#[derive(Debug)]
pub struct Snapshot {
    pub(super) metalake: Arc<str>,
    pub(super) world: Arc<World>,
    pub(super) read_at: Instant,
    /// How long the reading took.
    pub(super) took: Duration,
    /// Every user row that was seen, with its roles; `None` where one of them could not be read.
    pub(super) users: HashMap<String, Option<Vec<String>>>,
    /// The same of groups.
    pub(super) groups: HashMap<String, Option<Vec<String>>>,
    /// Catalogs that a role names and the list does not: hidden from the service user, or made while it was read.
    pub(super) unlisted: BTreeSet<String>,
    /// Whether those are all users, and all groups.
    pub(super) all_users: bool,
    pub(super) all_groups: bool,
    /// Objects of which the world says who owns them, or that nobody does.
    pub(super) owners_known: ByObject<()>,
    pub(super) owners: Owners,
    pub(super) lower_case: Vec<String>,
    pub(super) unreadable: Vec<String>,
}

/// Something about objects.
#[derive(Debug)]
pub(super) struct ByObject<T> {
    kinds: HashMap<ObjectType, HashMap<String, T>>,
    count: usize,
}

/// Owners of objects that no role names, read when a decision hung on them. They live as long as their snapshot, so that
/// none is older than it seems.
#[derive(Debug, Default)]
pub(super) struct Owners(Mutex<ByObject<Option<Owner>>>);

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
    Member(Box<Member>),
}

#[derive(Debug)]
struct Member {
    holds_roles: Answer,
    viewer: Viewer,
    subject: String,
    groups: Vec<Arc<str>>,
}

/// What a snapshot says of a question.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Weighed {
    Decided(Answer),
    /// Nothing before the owner of this is known.
    Owner(Object),
    /// Nothing: it hangs on what could not be read.
    Open,
}

impl Snapshot {
    /// When its reading began.
    pub fn read_at(&self) -> Instant {
        self.read_at
    }

    /// What could not be read, for the operator.
    pub fn unreadable(&self) -> &[String] {
        &self.unreadable
    }

    /// Whether another should be there by now, that is read each `refresh`.
    pub fn is_overdue(&self, refresh: Duration) -> bool {
        self.read_at.elapsed() > refresh + self.took + GRACE
    }

    /// It, as one caller sees it: what depends on the caller alone is looked up here, once.
    pub fn view(self: &Arc<Self>, who: &Identity<'_>, roles: &ActiveRoles) -> View {
        let standing = match self.users.get(who.subject) {
            Some(direct) => match self.held(direct.as_ref(), who) {
                Some(held) => Standing::Member(Box::new(Member {
                    holds_roles: holds(&held, roles),
                    viewer: Viewer::new(&self.world, who, roles, &self.metalake),
                    subject: who.subject.to_owned(),
                    groups: who.groups.iter().filter(|group| self.groups.contains_key(&***group)).cloned().collect(),
                })),
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
}

impl View {
    /// The snapshot.
    pub(super) fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// The answer, if all that it depends on is known.
    pub fn answer(&self, about: &About<'_>) -> Option<Answer> {
        match self.weigh(about) {
            Weighed::Decided(answer) => Some(answer),
            Weighed::Owner(_) | Weighed::Open => None,
        }
    }

    /// The answer, or what it hangs on.
    pub(super) fn weigh(&self, about: &About<'_>) -> Weighed {
        match (&self.standing, about) {
            (Standing::Stranger, _) => Weighed::Decided(Answer::No),
            (Standing::Unread | Standing::Member(_), About::Member) => Weighed::Decided(Answer::Yes),
            (Standing::Unknown | Standing::Unread, _) => Weighed::Open,
            (Standing::Member(member), About::RolesHeld) => Weighed::Decided(member.holds_roles),
            (Standing::Member(member), About::Visible { kind, name }) => self.visible(member, *kind, name),
        }
    }

    fn visible(&self, member: &Member, kind: ObjectType, name: &str) -> Weighed {
        let snapshot = &*self.snapshot;
        let catalog = name.split('.').next().unwrap_or_default();
        // How its names are compared is not known, and a role may deny one in another spelling.
        if snapshot.unlisted.contains(catalog) && kind.levels() > 1 {
            return Weighed::Open;
        }
        let name = &*folded(&snapshot.lower_case, kind, name);
        match member.viewer.sees(kind, name) {
            // An owner that is not known could only add to it.
            Ok(true) => return Weighed::Decided(Answer::Yes),
            Ok(false) => {}
            Err(_) => return Weighed::Open,
        }
        // From the top: what is hidden hides all below it, whoever owns that. Of nested schemas the innermost counts.
        let mut levels = ancestors(kind, name).peekable();
        let mut owned: Vec<(ObjectType, &str)> = Vec::new();
        while let Some(level) = levels.next() {
            match self.owns(member, level) {
                Some(true) => owned.push(level),
                Some(false) => {}
                None => return Weighed::Owner((level.0, level.1.to_owned())),
            }
            let closes = level.0 == ObjectType::Catalog || levels.peek().is_none();
            if closes && !sees(member, &owned, level) {
                return Weighed::Decided(Answer::No);
            }
        }
        // Who owns a level above may see it whoever owns the object.
        let object = (kind, name);
        if !owned.is_empty() && sees(member, &owned, object) {
            return Weighed::Decided(Answer::Yes);
        }
        match self.owns(member, object) {
            Some(true) => owned.push(object),
            Some(false) => {}
            None => return Weighed::Owner((kind, name.to_owned())),
        }
        Weighed::Decided(if sees(member, &owned, object) { Answer::Yes } else { Answer::No })
    }

    /// Whether the caller is the owner by what was read besides the world; nothing where the owner is not known.
    fn owns(&self, member: &Member, (kind, name): (ObjectType, &str)) -> Option<bool> {
        if self.snapshot.owners_known.get(kind, name).is_some() {
            return Some(false);
        }
        let owners = self.snapshot.owners.0.lock().unwrap_or_else(PoisonError::into_inner);
        owners.get(kind, name).map(|owner| owner.as_ref().is_some_and(|owner| member.is(owner)))
    }
}

impl Member {
    fn is(&self, owner: &Owner) -> bool {
        if owner.is_group() {
            return self.groups.iter().any(|group| **group == *owner.name);
        }
        owner.name == self.subject
    }
}

fn sees(member: &Member, owned: &[(ObjectType, &str)], (kind, name): (ObjectType, &str)) -> bool {
    if owned.is_empty() {
        return member.viewer.sees(kind, name).unwrap_or(false);
    }
    member.viewer.owning(owned).sees(kind, name).unwrap_or(false)
}

fn holds(held: &[&Vec<String>], roles: &ActiveRoles) -> Answer {
    let names = match roles {
        ActiveRoles::All | ActiveRoles::None => return Answer::Yes,
        ActiveRoles::Named(names) => names,
    };
    let is_held = |name: &str| held.iter().any(|roles| roles.iter().any(|role| role == name));
    if names.iter().all(|name| is_held(name)) { Answer::Yes } else { Answer::No }
}

impl Owners {
    pub(super) fn put(&self, object: Object, owner: Option<Owner>) {
        let mut owners = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if owners.count >= MOST_OWNERS {
            *owners = ByObject::default();
        }
        owners.insert(object, owner);
    }
}

impl<T> Default for ByObject<T> {
    fn default() -> Self {
        Self { kinds: HashMap::new(), count: 0 }
    }
}

impl<T> ByObject<T> {
    pub(super) fn get(&self, kind: ObjectType, name: &str) -> Option<&T> {
        self.kinds.get(&kind)?.get(name)
    }

    pub(super) fn insert(&mut self, (kind, name): Object, value: T) {
        let is_new = self.kinds.entry(kind).or_default().insert(name, value).is_none();
        self.count += usize::from(is_new);
    }
}
