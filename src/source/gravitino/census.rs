//! One reading of a metalake, with the service credential, a bounded number of calls at once.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::policy::file::{GrantShape, HolderShape, MetalakeShape, Outputs, OwnerShape, PolicyFile, RoleShape};
use crate::policy::{ObjectType, Privilege, Source, compile};

use super::Trouble;
use super::call::{As, Caller, Catalog, Got, Member, Members, Owner};
use super::metrics::Call;
use super::snapshot::{ByObject, Object, Owners, Snapshot};
use super::world::{SEPARATOR, ancestors, folded, grants_of, ignores_case, on};

/// Calls of one reading that may fail for no reason of their own, before the server is taken to be away.
const MOST_FAILURES: usize = 8;

/// How often a metalake is read that changes meanwhile.
const ATTEMPTS: u32 = 3;

/// What a reading came to.
pub(super) struct Read {
    pub(super) snapshot: Snapshot,
    /// Why a part of it could not be read, where that part is not to blame.
    pub(super) trouble: Option<Trouble>,
}

/// What was read of one metalake, on its way to a snapshot.
struct Census<'c> {
    caller: &'c Arc<Caller>,
    at_once: usize,
    metalake: Arc<str>,
    principal: String,
    owner: Got<Option<Owner>>,
    users: Option<Vec<Member>>,
    groups: Option<Vec<Member>>,
    roles: HashMap<String, Vec<GrantShape>>,
    catalogs: Option<Vec<Catalog>>,
    owners: Vec<(Object, Owner)>,
    owners_known: ByObject<()>,
    unreadable: Vec<String>,
    /// Calls that failed, and why the first did, of those whose failure may be over soon.
    failures: usize,
    trouble: Option<Trouble>,
}

/// Reads a metalake, with `at_once` calls at a time.
///
/// # Errors
///
/// [`Trouble::Rejected`] and [`Trouble::CallerUnauthenticated`]: the server does not let the service credential read it.
/// All else: it cannot be read now.
pub(super) async fn read(caller: &Arc<Caller>, metalake: &Arc<str>, at_once: usize) -> Result<Read, Trouble> {
    let began = Instant::now();
    let mut left = ATTEMPTS;
    loop {
        let started = Instant::now();
        let mut census = Census::begin(caller, metalake, at_once).await?;
        census.read_members_and_roles().await?;
        census.read_owners().await?;
        left -= 1;
        if census.has_stayed().await? || left == 0 {
            return census.finish(started, began.elapsed());
        }
    }
}

impl<'c> Census<'c> {
    async fn begin(caller: &'c Arc<Caller>, metalake: &Arc<str>, at_once: usize) -> Result<Self, Trouble> {
        let principal = caller.principal(As::Service).await?;
        let owner = caller.owner_of(As::Service, metalake, (ObjectType::Metalake, metalake)).await?;
        if matches!(owner, Got::Forbidden) {
            let text =
                format!("it does not exist, or the service user `{principal}` is no member: let it own the metalake");
            return Err(Trouble::Rejected(text));
        }
        let mut census = Self {
            caller,
            at_once,
            metalake: Arc::clone(metalake),
            principal,
            owner,
            users: None,
            groups: None,
            roles: HashMap::new(),
            catalogs: None,
            owners: Vec::new(),
            owners_known: ByObject::default(),
            unreadable: Vec::new(),
            failures: 0,
            trouble: None,
        };
        census.owners_known.insert((ObjectType::Metalake, metalake.to_string()), ());
        let catalogs = caller.catalogs(As::Service, metalake).await;
        census.catalogs = census.part(catalogs, "the list of catalogs")?;
        Ok(census)
    }

    /// Users and groups; nothing where the list cannot be read.
    async fn members(&mut self) -> Result<(Option<Vec<Member>>, Option<Vec<Member>>), Trouble> {
        Ok((self.list(Call::User, "users").await?, self.list(Call::Group, "groups").await?))
    }

    async fn list(&mut self, call: Call, what: &str) -> Result<Option<Vec<Member>>, Trouble> {
        let list = self.caller.members(As::Service, &self.metalake, call).await;
        match self.part(list, &format!("the list of {what}"))? {
            Some(list) => self.each_member(call, list).await.map(Some),
            None => Ok(None),
        }
    }

    /// What a call read, if it can be read. A refused credential, or too many failures, end the reading.
    fn part<T>(&mut self, read: Result<Got<T>, Trouble>, what: &str) -> Result<Option<T>, Trouble> {
        let trouble = match read {
            Ok(Got::Found(part)) => return Ok(Some(part)),
            Ok(Got::Missing | Got::Forbidden) | Err(Trouble::Rejected(_)) => None,
            Err(Trouble::CallerUnauthenticated) => return Err(Trouble::CallerUnauthenticated),
            Err(trouble @ (Trouble::Undecided(_) | Trouble::Unavailable(_))) => Some(trouble),
        };
        if !self.unreadable.iter().any(|known| known == what) {
            self.unreadable.push(what.to_owned());
        }
        let Some(trouble) = trouble else { return Ok(None) };
        self.failures += usize::from(matches!(trouble, Trouble::Unavailable(_)));
        if self.failures > MOST_FAILURES {
            return Err(trouble);
        }
        self.trouble.get_or_insert(trouble);
        Ok(None)
    }

    async fn read_members_and_roles(&mut self) -> Result<(), Trouble> {
        (self.users, self.groups) = self.members().await?;
        self.read_roles().await
    }

    /// Whether owner and members are still the same. Who holds other roles after the roles were read than before is
    /// undecided: what was read of a role may be more than it was while the member had it.
    async fn has_stayed(&mut self) -> Result<bool, Trouble> {
        let (users, groups) = self.members().await?;
        let (users, groups) = (unsettle(&mut self.users, users), unsettle(&mut self.groups, groups));
        let metalake = (ObjectType::Metalake, &*self.metalake);
        let owner = self.caller.owner_of(As::Service, &self.metalake, metalake).await?;
        let is_owner = |owner: &Got<Option<Owner>>| match owner {
            Got::Found(owner) => owner.clone(),
            Got::Missing | Got::Forbidden => None,
        };
        if is_owner(&owner) != is_owner(&self.owner) {
            // Lists are read by who owns the metalake.
            (self.users, self.groups, self.catalogs) = (None, None, None);
            self.unreadable.push("the lists, since the metalake's owner changed meanwhile".to_owned());
            return Ok(false);
        }
        if users + groups > 0 {
            self.unreadable.push(format!("roles of {} users and groups, since they changed meanwhile", users + groups));
        }
        Ok(users + groups == 0)
    }

    /// A list without details is completed one by one. Who cannot be read is there, with roles that are not known.
    async fn each_member(&mut self, call: Call, list: Members) -> Result<Vec<Member>, Trouble> {
        if let Some(members) = list.members {
            return Ok(members);
        }
        let metalake = Arc::clone(&self.metalake);
        let ask = move |caller: Arc<Caller>, name: String| {
            let metalake = Arc::clone(&metalake);
            async move {
                if call == Call::Group {
                    caller.group(As::Service, &metalake, &name).await
                } else {
                    caller.user(As::Service, &metalake, &name).await
                }
            }
        };
        let answers = whole(each(self.caller, list.names, self.at_once, ask).await)?;
        let mut members = Vec::with_capacity(answers.len());
        for (name, answer) in answers {
            if matches!(answer, Ok(Got::Missing)) {
                continue;
            }
            let word = if call == Call::Group { "group" } else { "user" };
            let member = self.part(answer, &format!("{word} {name}"))?;
            members.push(member.unwrap_or(Member { name, roles: None }));
        }
        Ok(members)
    }

    async fn read_roles(&mut self) -> Result<(), Trouble> {
        let members = self.users.iter().chain(&self.groups).flatten();
        let names: BTreeSet<String> = members.flat_map(|member| member.roles.iter().flatten()).cloned().collect();
        let metalake = Arc::clone(&self.metalake);
        let ask = move |caller: Arc<Caller>, name: String| {
            let metalake = Arc::clone(&metalake);
            async move { caller.role(As::Service, &metalake, &name).await }
        };
        for (name, answer) in whole(each(self.caller, names.into_iter().collect(), self.at_once, ask).await)? {
            let Some(role) = self.part(answer, &format!("role {name}"))? else { continue };
            match grants_of(&role, &self.metalake) {
                Ok(grants) => {
                    self.roles.insert(name, grants);
                }
                Err(fault) => self.unreadable.push(format!("role {name}: {fault}")),
            }
        }
        Ok(())
    }

    async fn read_owners(&mut self) -> Result<(), Trouble> {
        let lower_case = self.lower_case();
        let catalogs = self.catalogs.iter().flatten();
        let mut objects: BTreeSet<Object> =
            catalogs.map(|catalog| (ObjectType::Catalog, catalog.name.clone())).collect();
        for grant in self.roles.values().flatten() {
            let Some((kind, name)) = grant.on.split_once(' ') else { continue };
            // A column has no owner of its own, and what lies beside catalogs is not named by lineage.
            let Some(kind) = ObjectType::parse(kind).filter(|kind| is_lineage(*kind)) else { continue };
            let name = folded(&lower_case, kind, name);
            objects.extend(ancestors(kind, &name).map(|(kind, name)| (kind, name.to_owned())));
            objects.insert((kind, name.into_owned()));
        }
        let metalake = Arc::clone(&self.metalake);
        let ask = move |caller: Arc<Caller>, (kind, name): (ObjectType, String)| {
            let metalake = Arc::clone(&metalake);
            async move { caller.owner_of(As::Service, &metalake, (kind, &name)).await }
        };
        // A catalog that hangs costs what hangs on its owners, and nothing else.
        let Answers { answers, cut } = each(self.caller, objects.into_iter().collect(), self.at_once, ask).await;
        for (object, answer) in answers {
            match answer {
                Ok(Got::Found(Some(owner))) => {
                    self.owners_known.insert(object.clone(), ());
                    self.owners.push((object, owner));
                }
                Ok(Got::Found(None) | Got::Missing) => self.owners_known.insert(object, ()),
                Err(Trouble::CallerUnauthenticated) => return Err(Trouble::CallerUnauthenticated),
                Ok(Got::Forbidden) | Err(_) => {
                    self.unreadable.push(format!("owner of {}", on(object.0, &object.1)));
                }
            }
        }
        if let Some(trouble) = cut {
            self.unreadable.push(format!("owners of more objects: {trouble}"));
        }
        Ok(())
    }

    fn finish(mut self, read_at: Instant, took: Duration) -> Result<Read, Trouble> {
        let trouble = self.trouble.take();
        let sees_all = |list_was_read: bool, privilege| list_was_read && self.holds_throughout(privilege);
        let all_users = sees_all(self.users.is_some(), Privilege::ManageUsers);
        let all_groups = sees_all(self.groups.is_some(), Privilege::ManageGroups);
        let mut unreadable = std::mem::take(&mut self.unreadable);
        for (all, what, privilege) in
            [(all_users, "users", Privilege::ManageUsers), (all_groups, "groups", Privilege::ManageGroups)]
        {
            if !all && !unreadable.contains(&format!("the list of {what}")) {
                let user = &self.principal;
                let text = "does not itself own the metalake, and was not given";
                unreadable.push(format!("all {what}: `{user}` {text} {privilege} on it"));
            }
        }
        let catalogs: HashSet<String> = self.catalogs.iter().flatten().map(|catalog| catalog.name.clone()).collect();
        let unlisted: BTreeSet<String> =
            self.named_catalogs().filter(|name| !catalogs.contains(*name)).map(str::to_owned).collect();
        unreadable.extend(unlisted.iter().map(|name| format!("catalog {name}, which a role names")));
        let (users, groups) = (self.with_roles(self.users.as_deref()), self.with_roles(self.groups.as_deref()));
        let lower_case = self.lower_case();
        let shape = self.shape(&lower_case);
        let policy = PolicyFile { metalakes: vec![shape], namespaces: Vec::new() };
        let world = compile(vec![Source { file: "snapshot".into(), policy }]).map_err(|faults| {
            let first = faults.first().map(ToString::to_string).unwrap_or_default();
            Trouble::Unavailable(format!("what it says makes no sense to the gate: {first}"))
        })?;
        let Self { metalake, owners_known, .. } = self;
        let world = Arc::new(world);
        let snapshot = Snapshot {
            metalake,
            world,
            read_at,
            took,
            users,
            groups,
            unlisted,
            all_users,
            all_groups,
            owners_known,
            owners: Owners::default(),
            lower_case,
            unreadable,
        };
        Ok(Read { snapshot, trouble })
    }

    /// The roles of each, or nothing where one of them is not known.
    fn with_roles(&self, members: Option<&[Member]>) -> HashMap<String, Option<Vec<String>>> {
        let roles = |member: &Member| {
            let names = member.roles.clone().filter(|_| is_named(&member.name))?;
            names.iter().all(|name| self.roles.contains_key(name)).then_some(names)
        };
        members.into_iter().flatten().map(|member| (member.name.clone(), roles(member))).collect()
    }

    /// Whether the service user sees a list whole, by that privilege on the metalake: to others the server leaves out what
    /// they may not see, without a word.
    fn holds_throughout(&self, privilege: Privilege) -> bool {
        if matches!(&self.owner, Got::Found(Some(owner)) if !owner.is_group() && owner.name == self.principal) {
            return true;
        }
        let metalake = on(ObjectType::Metalake, &self.metalake);
        let own = self.users.iter().flatten().filter(|user| user.name == self.principal);
        let own: Vec<_> = own.flat_map(|user| user.roles.iter().flatten()).collect();
        let allows = |role: &&String| {
            let mut grants = self.roles.get(*role).into_iter().flatten();
            grants.any(|grant| *grant.on == *metalake && grant.allow.known.contains(privilege))
        };
        // Which groups it is in is not told: none may deny it.
        let groups = self.groups.iter().flatten().flat_map(|group| group.roles.iter().flatten());
        let is_free = |role: &String| {
            self.roles.get(role).is_some_and(|grants| grants.iter().all(|grant| !grant.deny.known.contains(privilege)))
        };
        own.iter().any(allows) && own.iter().copied().chain(groups).all(is_free)
    }

    /// Catalogs in which a role says something.
    fn named_catalogs(&self) -> impl Iterator<Item = &str> {
        let named = self.roles.values().flatten().filter_map(|grant| grant.on.split_once(' '));
        let named = named.filter(|(kind, _)| ObjectType::parse(kind).is_some_and(is_lineage));
        named.filter_map(|(_, name)| name.split('.').next())
    }

    fn lower_case(&self) -> Vec<String> {
        let catalogs = self.catalogs.iter().flatten();
        catalogs.filter(|catalog| ignores_case(catalog)).map(|catalog| catalog.name.clone()).collect()
    }

    fn shape(&self, lower_case: &[String]) -> MetalakeShape {
        let (user_names, group_names) = (names(self.users.as_deref()), names(self.groups.as_deref()));
        let known_users: HashSet<&str> = user_names.iter().map(String::as_str).collect();
        let known_groups: HashSet<&str> = group_names.iter().map(String::as_str).collect();
        let holder = |owner: &Owner| {
            let known = if owner.is_group() { &known_groups } else { &known_users };
            known.contains(&*owner.name)
        };
        let owner = match &self.owner {
            Got::Found(Some(owner)) if holder(owner) && owner.is_group() => HolderShape::Group(owner.name.clone()),
            Got::Found(Some(owner)) if holder(owner) => HolderShape::User(owner.name.clone()),
            Got::Found(_) | Got::Missing | Got::Forbidden => HolderShape::Nobody,
        };
        let owners: Vec<_> = self
            .owners
            .iter()
            .filter(|(_, owner)| holder(owner))
            .map(|((kind, name), owner)| {
                let name_of = |group| (owner.is_group() == group).then(|| owner.name.clone());
                OwnerShape { on: on(*kind, name), user: name_of(false), group: name_of(true) }
            })
            .collect();
        let (mut users, mut groups) = (holders(self.users.as_deref()), holders(self.groups.as_deref()));
        let roles = self.roles.iter().map(|(name, grants)| RoleShape {
            name: name.clone(),
            users: users.remove(&**name).unwrap_or_default(),
            groups: groups.remove(&**name).unwrap_or_default(),
            grants: grants.clone(),
        });
        let roles = roles.collect();
        MetalakeShape {
            name: self.metalake.to_string(),
            owner,
            roles,
            owners,
            users: user_names,
            groups: group_names,
            lower_case_catalogs: lower_case.to_vec(),
            outputs: Outputs::Visible,
            schema_separator: SEPARATOR.to_owned(),
            existing: None,
        }
    }
}

/// Role by role, who was given it.
fn holders(members: Option<&[Member]>) -> HashMap<&str, Vec<String>> {
    let mut holders: HashMap<&str, Vec<String>> = HashMap::new();
    for member in members.into_iter().flatten().filter(|member| is_named(&member.name)) {
        for role in member.roles.iter().flatten() {
            holders.entry(role).or_default().push(member.name.clone());
        }
    }
    holders
}

fn names(members: Option<&[Member]>) -> Vec<String> {
    members.into_iter().flatten().map(|member| member.name.clone()).filter(|name| is_named(name)).collect()
}

/// Policies have no blank names; who has one is undecided.
fn is_named(name: &str) -> bool {
    !name.trim().is_empty()
}

/// Whether lineage can name it, or something below it.
fn is_lineage(kind: ObjectType) -> bool {
    match kind {
        ObjectType::Catalog
        | ObjectType::Schema
        | ObjectType::Table
        | ObjectType::View
        | ObjectType::Fileset
        | ObjectType::Model
        | ObjectType::Topic => true,
        ObjectType::Metalake
        | ObjectType::Column
        | ObjectType::Function
        | ObjectType::Tag
        | ObjectType::Policy
        | ObjectType::JobTemplate
        | ObjectType::Role => false,
    }
}

/// An item, and what was answered about it.
type Answered<I, T> = (I, Result<T, Trouble>);

/// What was asked for each item.
struct Answers<I, T> {
    answers: Vec<Answered<I, T>>,
    /// Why not all were asked.
    cut: Option<Trouble>,
}

/// Asks for each item, some at once, until too many fail.
async fn each<I, T, F>(
    caller: &Arc<Caller>,
    items: Vec<I>,
    at_once: usize,
    ask: impl Fn(Arc<Caller>, I) -> F,
) -> Answers<I, T>
where
    I: Clone + Send + 'static,
    T: Send + 'static,
    F: Future<Output = Result<T, Trouble>> + Send + 'static,
{
    let mut answers = Vec::with_capacity(items.len());
    let mut running = JoinSet::new();
    let mut items = items.into_iter();
    let mut failures = 0;
    loop {
        while running.len() < at_once.max(1)
            && let Some(item) = items.next()
        {
            let asking = ask(Arc::clone(caller), item.clone());
            running.spawn(async move { (item, asking.await) });
        }
        match running.join_next().await {
            Some(Ok((_, Err(trouble @ Trouble::Unavailable(_))))) if failures >= MOST_FAILURES => {
                return Answers { answers, cut: Some(trouble) };
            }
            Some(Ok(answered)) => {
                failures += usize::from(matches!(answered.1, Err(Trouble::Unavailable(_))));
                answers.push(answered);
            }
            Some(Err(_)) => {
                let cut = Some(Trouble::Unavailable("a read of it was cut off".to_owned()));
                return Answers { answers, cut };
            }
            None => return Answers { answers, cut: None },
        }
    }
}

fn whole<I, T>(answers: Answers<I, T>) -> Result<Vec<Answered<I, T>>, Trouble> {
    match answers.cut {
        Some(trouble) => Err(trouble),
        None => Ok(answers.answers),
    }
}

/// Takes the roles of those that hold others after, and tells how many they are.
fn unsettle(before: &mut Option<Vec<Member>>, after: Option<Vec<Member>>) -> usize {
    let (Some(members), Some(after)) = (before.as_mut(), after) else {
        *before = None;
        return 0;
    };
    let after: HashMap<&str, BTreeSet<&str>> =
        after.iter().map(|member| (&*member.name, member.role_names())).collect();
    let mut changed = after.len().saturating_sub(members.len());
    for member in members {
        if after.get(&*member.name).is_none_or(|roles| *roles != member.role_names()) {
            member.roles = None;
            changed += 1;
        }
    }
    changed
}
