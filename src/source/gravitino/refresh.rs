//! Reading snapshots: with the service credential, in the background, a bounded number of reads at once.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::config::Metalakes;
use crate::policy::file::{GrantShape, HolderShape, MetalakeShape, Outputs, OwnerShape, PolicyFile, RoleShape};
use crate::policy::{ObjectType, Source, compile};

use super::call::{As, Caller, Catalog, Got, Member, Members, Owner};
use super::metrics::Call;
use super::snapshot::{Snapshot, Wanted};
use super::world::{SEPARATOR, ancestors, folded, grants_of, ignores_case, on};
use super::{Gravitino, Trouble};

/// Pause after a reading that failed before there was any.
const RETRY: Duration = Duration::from_secs(1);

/// All metalakes as they were read last.
#[derive(Debug, Default)]
pub(super) struct Snapshots {
    read: HashMap<Arc<str>, Arc<Snapshot>>,
    fault: Option<String>,
}

/// What was read of one metalake, on its way to a snapshot.
struct Reading {
    metalake: Arc<str>,
    principal: String,
    owner: Got<Option<Owner>>,
    users: Vec<Member>,
    groups: Vec<Member>,
    roles: HashMap<String, Vec<GrantShape>>,
    catalogs: Vec<Catalog>,
    owners: Vec<((ObjectType, String), Owner)>,
    owners_known: HashSet<(ObjectType, String)>,
    unreadable: Vec<String>,
}

impl Snapshots {
    pub(super) fn get(&self, metalake: &str) -> Option<Arc<Snapshot>> {
        self.read.get(metalake).cloned()
    }

    pub(super) fn was_read(&self) -> bool {
        !self.read.is_empty()
    }

    /// Why there is none.
    pub(super) fn fault(&self) -> Arc<str> {
        self.fault.as_deref().unwrap_or("no snapshot was read yet").into()
    }

    /// What could not be read, metalake by metalake.
    pub(super) fn unreadable(&self) -> Vec<String> {
        let each = |snapshot: &Arc<Snapshot>| {
            let metalake = Arc::clone(&snapshot.metalake);
            snapshot.unreadable.iter().map(move |text| format!("metalake {metalake}: {text}")).collect::<Vec<_>>()
        };
        let mut all: Vec<String> = self.read.values().flat_map(each).chain(self.fault.clone()).collect();
        all.sort_unstable();
        all
    }
}

impl Gravitino {
    /// Reads all governed metalakes again and again; the last good snapshot of each stays.
    pub(super) async fn keep_reading(&self, shutdown: CancellationToken) {
        loop {
            let started = Instant::now();
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = self.read_all() => {}
            }
            let read = self.snapshots.load().was_read();
            let pause = if read { self.config.refresh.0 } else { self.config.refresh.0.min(RETRY) };
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep_until(started + pause) => {}
            }
        }
    }

    /// One reading of all governed metalakes.
    pub(super) async fn read_all(&self) {
        let old = self.snapshots.load_full();
        let names = match &self.config.metalakes {
            Metalakes::Named(names) => Ok(names.iter().cloned().collect()),
            Metalakes::All => self.caller.metalakes(As::Service).await,
        };
        let (names, mut fault): (Vec<String>, Option<String>) = match names {
            Ok(names) if names.is_empty() => (names, Some("the service credential sees no metalake".to_owned())),
            Ok(names) => (names, None),
            Err(trouble) => (old.read.keys().map(ToString::to_string).collect(), Some(told(&trouble))),
        };
        let listed = fault.is_none();
        let mut read = HashMap::with_capacity(names.len());
        for name in names {
            let metalake: Arc<str> = name.as_str().into();
            let last = old.get(&metalake);
            let snapshot =
                if listed { self.read_one(&metalake, last.as_deref()).await.map(Arc::new) } else { Err(None) };
            self.metrics.snapshot(snapshot.is_ok());
            match snapshot {
                Ok(snapshot) => {
                    read.insert(metalake, snapshot);
                }
                Err(trouble) => {
                    if let Some(trouble) = trouble {
                        let text = format!("metalake {metalake}: {}", told(&trouble));
                        tracing::warn!(reason = %text, "a snapshot could not be read; the last one stays");
                        fault.get_or_insert(text);
                    }
                    if let Some(last) = last {
                        read.insert(metalake, last);
                    }
                }
            }
        }
        let snapshots = Snapshots { read, fault };
        self.metrics.unreadable(snapshots.unreadable().len());
        self.snapshots.store(Arc::new(snapshots));
    }

    async fn read_one(&self, metalake: &Arc<str>, last: Option<&Snapshot>) -> Result<Snapshot, Option<Trouble>> {
        if !self.known_to_be_safe() {
            return Err(Some(Trouble::Unavailable("the server is not known to be safe yet".to_owned())));
        }
        let wanted = last.map_or_else(Arc::<Wanted>::default, |last| Arc::clone(&last.wanted));
        let (started, at_once) = (Instant::now(), self.config.concurrency.div_ceil(2));
        let mut reading = Reading::begin(&self.caller, metalake).await?;
        reading.read_members(&self.caller, at_once).await?;
        reading.read_roles(&self.caller, at_once).await?;
        reading.read_owners(&self.caller, wanted.take(), at_once).await?;
        reading.finish(started, wanted).map_err(Some)
    }

    fn known_to_be_safe(&self) -> bool {
        matches!(&**self.knowledge.load(), super::Knowledge::Known(_)) && !self.reported.load(Ordering::Relaxed)
    }
}

impl Reading {
    async fn begin(caller: &Caller, metalake: &Arc<str>) -> Result<Self, Trouble> {
        let principal = caller.principal(As::Service).await?;
        let owner = caller.owner_of(As::Service, metalake, (ObjectType::Metalake, metalake)).await?;
        if matches!(owner, Got::Forbidden) {
            let text =
                format!("the service user `{principal}` is not a member: add it, and let it manage users and grants");
            return Err(Trouble::Unavailable(text));
        }
        let mut reading = Self {
            metalake: Arc::clone(metalake),
            principal,
            owner,
            users: Vec::new(),
            groups: Vec::new(),
            roles: HashMap::new(),
            catalogs: Vec::new(),
            owners: Vec::new(),
            owners_known: HashSet::from([(ObjectType::Metalake, metalake.to_string())]),
            unreadable: Vec::new(),
        };
        match caller.catalogs(As::Service, metalake).await? {
            Got::Found(catalogs) => reading.catalogs = catalogs,
            Got::Missing | Got::Forbidden => reading.unreadable.push("the list of catalogs".to_owned()),
        }
        Ok(reading)
    }

    async fn read_members(&mut self, caller: &Arc<Caller>, at_once: usize) -> Result<(), Trouble> {
        for (call, what) in [(Call::User, "users"), (Call::Group, "groups")] {
            let list = match optional(caller.members(As::Service, &self.metalake, call).await)? {
                Some(Got::Found(list)) => list,
                Some(Got::Missing | Got::Forbidden) | None => {
                    self.unreadable.push(format!("the list of {what}"));
                    continue;
                }
            };
            let members = self.each_member(caller, call, list, at_once).await?;
            if call == Call::User { self.users = members } else { self.groups = members }
        }
        Ok(())
    }

    /// A list without details is completed one by one. Who cannot be read is there, with roles that are not known.
    async fn each_member(
        &mut self,
        caller: &Arc<Caller>,
        call: Call,
        list: Members,
        at_once: usize,
    ) -> Result<Vec<Member>, Trouble> {
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
        let answers = each(caller, list.names, at_once, ask).await?;
        let mut members = Vec::with_capacity(answers.len());
        for (name, answer) in answers {
            match answer {
                Some(Got::Found(member)) => members.push(member),
                Some(Got::Missing) => {}
                Some(Got::Forbidden) | None => {
                    let word = if call == Call::Group { "group" } else { "user" };
                    self.unreadable.push(format!("{word} {name}"));
                    members.push(Member { name, roles: None });
                }
            }
        }
        Ok(members)
    }

    async fn read_roles(&mut self, caller: &Arc<Caller>, at_once: usize) -> Result<(), Trouble> {
        let members = self.users.iter().chain(&self.groups);
        let names: BTreeSet<String> = members.flat_map(|member| member.roles.iter().flatten()).cloned().collect();
        let metalake = Arc::clone(&self.metalake);
        let ask = move |caller: Arc<Caller>, name: String| {
            let metalake = Arc::clone(&metalake);
            async move { caller.role(As::Service, &metalake, &name).await }
        };
        for (name, answer) in each(caller, names.into_iter().collect(), at_once, ask).await? {
            let Some(Got::Found(role)) = answer else {
                self.unreadable.push(format!("role {name}"));
                continue;
            };
            match grants_of(&role, &self.metalake) {
                Ok(grants) => {
                    self.roles.insert(name, grants);
                }
                Err(fault) => self.unreadable.push(format!("role {name}: {fault}")),
            }
        }
        Ok(())
    }

    async fn read_owners(
        &mut self,
        caller: &Arc<Caller>,
        wanted: Vec<(ObjectType, String)>,
        at_once: usize,
    ) -> Result<(), Trouble> {
        let lower_case = self.lower_case();
        let mut objects: BTreeSet<(ObjectType, String)> = wanted.into_iter().collect();
        objects.extend(self.catalogs.iter().map(|catalog| (ObjectType::Catalog, catalog.name.clone())));
        for grant in self.roles.values().flatten() {
            let Some((kind, name)) = grant.on.split_once(' ') else { continue };
            // A column has no owner of its own, and what lies beside catalogs is not named by lineage.
            let Some(kind) = ObjectType::parse(kind).filter(|kind| is_lineage(*kind)) else { continue };
            let name = folded(&lower_case, kind, name);
            objects.extend(ancestors(kind, &name));
            objects.insert((kind, name.into_owned()));
        }
        objects.remove(&(ObjectType::Metalake, self.metalake.to_string()));
        let metalake = Arc::clone(&self.metalake);
        let ask = move |caller: Arc<Caller>, (kind, name): (ObjectType, String)| {
            let metalake = Arc::clone(&metalake);
            async move { caller.owner_of(As::Service, &metalake, (kind, &name)).await }
        };
        for (object, answer) in each(caller, objects.into_iter().collect(), at_once, ask).await? {
            match answer {
                Some(Got::Found(Some(owner))) => {
                    self.owners_known.insert(object.clone());
                    self.owners.push((object, owner));
                }
                Some(Got::Found(None) | Got::Missing) => {
                    self.owners_known.insert(object);
                }
                Some(Got::Forbidden) | None => {
                    self.unreadable.push(format!("owner of {}", on(object.0, &object.1)));
                }
            }
        }
        Ok(())
    }

    fn finish(self, read_at: Instant, wanted: Arc<Wanted>) -> Result<Snapshot, Trouble> {
        let (all_users, all_groups) = (self.manages("MANAGE_USERS"), self.manages("MANAGE_GROUPS"));
        let mut unreadable = self.unreadable.clone();
        for (all, what) in [(all_users, "users"), (all_groups, "groups")] {
            if !all {
                let (user, right) = (&self.principal, what.to_uppercase());
                unreadable.push(format!("all {what}: `{user}` neither owns the metalake nor has MANAGE_{right}"));
            }
        }
        let (users, groups) = (self.with_roles(&self.users), self.with_roles(&self.groups));
        let lower_case = self.lower_case();
        let shape = self.shape(&lower_case);
        let policy = PolicyFile { metalakes: vec![shape], namespaces: Vec::new() };
        let world = compile(vec![Source { file: "snapshot".into(), policy }]).map_err(|faults| {
            let first = faults.first().map(ToString::to_string).unwrap_or_default();
            Trouble::Unavailable(format!("what it says makes no sense to the gate: {first}"))
        })?;
        let Self { metalake, owners_known, .. } = self;
        let world = Arc::new(world);
        Ok(Snapshot {
            metalake,
            world,
            read_at,
            users,
            groups,
            all_users,
            all_groups,
            owners_known,
            lower_case,
            unreadable,
            wanted,
        })
    }

    /// The roles of each, or nothing where one of them is not known.
    fn with_roles(&self, members: &[Member]) -> HashMap<String, Option<Vec<String>>> {
        let roles = |member: &Member| {
            let names = member.roles.clone().filter(|_| is_named(&member.name))?;
            names.iter().all(|name| self.roles.contains_key(name)).then_some(names)
        };
        members.iter().map(|member| (member.name.clone(), roles(member))).collect()
    }

    /// Whether the service user sees a list whole: others see only themselves in it, without being told so.
    fn manages(&self, privilege: &str) -> bool {
        if matches!(&self.owner, Got::Found(Some(owner)) if !owner.is_group() && owner.name == self.principal) {
            return true;
        }
        let Some(privilege) = crate::policy::Privilege::parse(privilege) else { return false };
        let own = self.users.iter().filter(|user| user.name == self.principal);
        let mut roles = own.flat_map(|user| user.roles.iter().flatten()).map(|role| self.roles.get(role));
        let (mut allowed, mut denied) = (false, false);
        let known = roles.all(|grants| {
            for grant in grants.into_iter().flatten() {
                allowed |= grant.allow.known.contains(privilege);
                denied |= grant.deny.known.contains(privilege);
            }
            grants.is_some()
        });
        known && allowed && !denied
    }

    fn lower_case(&self) -> Vec<String> {
        self.catalogs.iter().filter(|catalog| ignores_case(catalog)).map(|catalog| catalog.name.clone()).collect()
    }

    fn shape(&self, lower_case: &[String]) -> MetalakeShape {
        let (user_names, group_names) = (names(&self.users), names(&self.groups));
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
        let (mut users, mut groups) = (holders(&self.users), holders(&self.groups));
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
fn holders(members: &[Member]) -> HashMap<&str, Vec<String>> {
    let mut holders: HashMap<&str, Vec<String>> = HashMap::new();
    for member in members.iter().filter(|member| is_named(&member.name)) {
        for role in member.roles.iter().flatten() {
            holders.entry(role).or_default().push(member.name.clone());
        }
    }
    holders
}

fn names(members: &[Member]) -> Vec<String> {
    members.iter().map(|member| member.name.clone()).filter(|name| is_named(name)).collect()
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

/// Asks for each item, some at once. What cannot be decided for one item is `None`; any other trouble ends the reading.
async fn each<I, T, F>(
    caller: &Arc<Caller>,
    items: Vec<I>,
    at_once: usize,
    ask: impl Fn(Arc<Caller>, I) -> F,
) -> Result<Vec<(I, Option<T>)>, Trouble>
where
    I: Clone + Send + 'static,
    T: Send + 'static,
    F: Future<Output = Result<T, Trouble>> + Send + 'static,
{
    let mut answers = Vec::with_capacity(items.len());
    let mut running = JoinSet::new();
    let mut items = items.into_iter();
    loop {
        while running.len() < at_once.max(1)
            && let Some(item) = items.next()
        {
            let asking = ask(Arc::clone(caller), item.clone());
            running.spawn(async move { (item, asking.await) });
        }
        match running.join_next().await {
            Some(Ok((item, answer))) => answers.push((item, optional(answer)?)),
            Some(Err(_)) => return Err(Trouble::Unavailable("a read of it was cut off".to_owned())),
            None => return Ok(answers),
        }
    }
}

fn optional<T>(answer: Result<T, Trouble>) -> Result<Option<T>, Trouble> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(Trouble::Undecided(_) | Trouble::Rejected(_)) => Ok(None),
        Err(trouble @ (Trouble::Unavailable(_) | Trouble::CallerUnauthenticated)) => Err(trouble),
    }
}

/// A refused credential is the gate's own here.
fn told(trouble: &Trouble) -> String {
    match trouble {
        Trouble::CallerUnauthenticated => "the server does not accept the gate's `credential`: 401".to_owned(),
        Trouble::Unavailable(text) | Trouble::Undecided(text) | Trouble::Rejected(text) => text.clone(),
    }
}
