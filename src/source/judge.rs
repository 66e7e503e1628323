//! The judgement of an event by all sources together.
//!
//! [`policy::hear`] is the one evaluator, and it is pure: it rules with what is known, and tells what has to be asked.
//! Here the known comes out of snapshots and the cache, the rest is asked, all of it at once, and the event is ruled on
//! again. Since a membership decides whether anything else is asked at all, a cold event takes two rounds, and one that
//! names datasets in facets a few more.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use http::HeaderValue;
use tokio::time::Instant;

use self::sights::{Sight, Sights};
use super::Files;
use super::cache::{self, Actor, Cache, CallerId, Drops, Failure, Flight, Key, Known, Told, View};
use super::gravitino::{Answer, Asker, Gravitino, Question, Rest, State, Trouble};
use crate::auth::Caller;
use crate::config::FacetReferences;
use crate::event::{Event, Role};
use crate::policy::{self, About, ActiveRoles, Governance, Hearing, Identity, Inquiry, Judgement, World};

mod sights;

/// All policy sources of a gate.
#[derive(Debug)]
pub struct Source {
    files: Option<Arc<Files>>,
    remote: Option<Remote>,
}

/// A Gravitino server and what it said.
#[derive(Debug)]
pub struct Remote {
    gravitino: Arc<Gravitino>,
    by_name: bool,
    cache: Cache,
}

/// An event to judge.
#[derive(Debug, Clone, Copy)]
pub struct Ask<'a> {
    /// Who sent it.
    pub caller: &'a Caller,
    /// The caller's own credential.
    pub authorization: Option<&'a HeaderValue>,
    /// The roles that the caller acts with.
    pub roles: &'a ActiveRoles,
    /// The header that they stood in, the first of its name.
    pub active_roles: Option<&'a HeaderValue>,
    /// What was sent.
    pub event: &'a Event,
    /// Which references inside facets are judged.
    pub facets: FacetReferences,
    /// Until when there must be a judgement.
    pub deadline: Instant,
}

/// A judgement, and what it rests on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ruled {
    /// The judgement.
    pub judgement: Judgement,
    /// Whether old answers served since the source failed.
    pub stale: bool,
}

/// Why there is no judgement.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unjudged {
    /// The policy source does not take the caller's own credential.
    #[error("the policy source does not accept the caller's credential")]
    CallerUnauthenticated,
    /// The policy is not known now; the text is for the operator.
    #[error("{0}")]
    Unavailable(String),
}

/// What is known of metalakes whose rules are not in files, and how to learn more.
struct Elsewhere<'a> {
    /// Whether that namespace, in a place of that role, is such a metalake.
    governs: &'a (dyn Fn(Role, &str) -> bool + Sync),
    /// What snapshots say; nothing where they do not decide.
    snapshots: &'a (dyn Fn(&Inquiry<'_>) -> Option<bool> + Sync),
    /// Whether an old snapshot allows it, where the server failed.
    stale: &'a (dyn Fn(&Inquiry<'_>) -> bool + Sync),
    /// Why nothing that was asked can be relied on, if so.
    unusable: Option<Arc<str>>,
    cache: &'a Cache,
}

impl Source {
    /// Sources of a gate.
    pub fn new(files: Option<Arc<Files>>, remote: Option<Remote>) -> Self {
        Self { files, remote }
    }

    /// What policy files say; metalakes of remote sources are not in it.
    pub fn world(&self) -> Arc<World> {
        self.files.as_ref().map(|files| files.world()).unwrap_or_default()
    }

    /// Forgets what remote sources said, and has snapshots read anew. False if there are none.
    pub fn forget(&self, drops: Drops) -> bool {
        let Some(remote) = &self.remote else { return false };
        remote.cache.distrust(drops);
        remote.gravitino.read_anew();
        true
    }

    /// Forgets what they said of a caller: its backend refused its credential. Snapshots do not hang on that.
    pub fn forget_caller(&self, caller: &Caller) {
        let Some(remote) = &self.remote else { return };
        remote.cache.forget(Drops::Caller(CallerId::new(&caller.issuer, &caller.subject)));
    }

    /// Decides about an event, in the order of [`policy::judge`].
    ///
    /// # Errors
    /// [`Unjudged`]: what is not known is never taken for a no.
    pub async fn judge(&self, ask: &Ask<'_>) -> Result<Ruled, Unjudged> {
        let world = self.world();
        let Some(remote) = &self.remote else {
            let who = ask.identity();
            let judgement = policy::judge(&world, &who, ask.roles, ask.event, ask.facets);
            return Ok(Ruled { judgement, stale: false });
        };
        let gravitino = &remote.gravitino;
        let unusable = match gravitino.state() {
            State::Ready(_) => None,
            State::NotYet(reason) | State::Unsafe(reason) => Some(reason),
        };
        let sights = Sights::new(gravitino, &remote.cache, ask);
        let elsewhere = Elsewhere {
            governs: &|role, namespace| remote.governs(&world, role, namespace),
            snapshots: &|inquiry| sights.read(inquiry),
            stale: &|inquiry| sights.serves_stale(inquiry),
            unusable,
            cache: &remote.cache,
        };
        let asking = |question| question_of((gravitino, &remote.cache), ask, question);
        elsewhere.judge(&world, ask, asking).await
    }
}

impl Ask<'_> {
    fn identity(&self) -> Identity<'_> {
        Identity { subject: &self.caller.subject, groups: &self.caller.groups }
    }
}

impl Remote {
    /// With whether its metalakes are configured by name: if not, it governs every job namespace that the files do not
    /// know.
    pub fn new(gravitino: Arc<Gravitino>, by_name: bool, settings: cache::Settings, metrics: cache::Metrics) -> Self {
        let tried = Arc::clone(&gravitino);
        let trial: cache::Trial = Box::new(move || {
            let gravitino = Arc::clone(&tried);
            Box::pin(async move { gravitino.answers().await })
        });
        Self { gravitino, by_name, cache: Cache::new(settings, metrics, trial) }
    }

    fn governs(&self, world: &World, role: Role, namespace: &str) -> bool {
        self.gravitino.governs(namespace) && is_elsewhere(world, self.by_name, role, namespace)
    }
}

/// What one look at the event found out.
struct Look<'e> {
    hearing: Hearing<'e>,
    /// Answers that should be asked for again, ahead of their end.
    ageing: Vec<(cache::About, Question)>,
}

/// What is noted while the evaluator looks.
#[derive(Debug, Default)]
struct Notes {
    ageing: RefCell<Vec<(cache::About, Question)>>,
    allows: Cell<u64>,
    denials: Cell<u64>,
}

/// What the answers of a round came to.
#[derive(Debug, Default)]
struct Round {
    settled: HashMap<Key, bool>,
    stale: bool,
    failed: Option<String>,
}

/// A question on its way.
#[derive(Debug)]
struct Asked {
    about: cache::About,
    question: Question,
    flight: Result<Flight, Failure>,
}

impl Elsewhere<'_> {
    /// `asking` makes the question to the source; it is run in a task of its own.
    async fn judge<A, F>(&self, world: &World, ask: &Ask<'_>, asking: A) -> Result<Ruled, Unjudged>
    where
        A: Fn(Question) -> F,
        F: Future<Output = Result<Told, Failure>> + Send + 'static,
    {
        let actor = Actor::new(ask.caller, ask.roles);
        let began = Instant::now();
        let mut round = Round::default();
        loop {
            let Look { hearing, ageing } = self.look(world, ask, (&actor, began), &round.settled);
            let open = match hearing {
                Hearing::Judged(judgement) => {
                    self.refresh(ageing, &asking);
                    return Ok(Ruled { judgement, stale: round.stale });
                }
                Hearing::Open(open) => open,
            };
            if let Some(reason) = round.failed.or_else(|| self.unusable.as_deref().map(str::to_owned)) {
                return Err(Unjudged::Unavailable(reason));
            }
            let known = Round { failed: None, ..round };
            let flights = self.ask_all(&actor, &open, &asking);
            // After those that somebody waits for.
            self.refresh(ageing, &asking);
            round = self.land_all(flights, &asking, ask.deadline, known).await?;
        }
    }

    /// One run of the evaluator over what is known. What was fresh when the event came serves to its end: else the answers
    /// of a large event might grow old as fast as others come.
    fn look<'e>(
        &self,
        world: &'e World,
        ask: &Ask<'e>,
        (actor, began): (&Actor, Instant),
        settled: &HashMap<Key, bool>,
    ) -> Look<'e> {
        let view = self.cache.view(actor.caller, began);
        let notes = Notes::default();
        let answers = |inquiry: &Inquiry<'_>| {
            if self.unusable.is_some() {
                return None;
            }
            (self.snapshots)(inquiry).or_else(|| self.known(actor, inquiry, &view, settled, &notes))
        };
        let witness =
            policy::Witness { governs: &|role, namespace| (self.governs)(role, namespace), answers: &answers };
        let who = Identity { subject: &ask.caller.subject, groups: &ask.caller.groups };
        let hearing = policy::hear(world, (&who, ask.roles), ask.event, ask.facets, witness);
        self.cache.count_hits(notes.allows.get(), notes.denials.get());
        Look { hearing, ageing: notes.ageing.into_inner() }
    }

    fn known(
        &self,
        actor: &Actor,
        inquiry: &Inquiry<'_>,
        view: &View<'_>,
        settled: &HashMap<Key, bool>,
        notes: &Notes,
    ) -> Option<bool> {
        let key = actor.key(inquiry);
        if let Some(answer) = settled.get(&key) {
            return Some(*answer);
        }
        match view.known(&key, inquiry.metalake)? {
            Known::Denied => {
                notes.denials.update(|count| count + 1);
                Some(false)
            }
            Known::Allowed { ageing: is_ageing } => {
                notes.allows.update(|count| count + 1);
                if is_ageing {
                    notes.ageing.borrow_mut().push(owned(actor, key, inquiry));
                }
                Some(true)
            }
        }
    }

    fn refresh<A, F>(&self, ageing: Vec<(cache::About, Question)>, asking: &A)
    where
        A: Fn(Question) -> F,
        F: Future<Output = Result<Told, Failure>> + Send + 'static,
    {
        for (about, question) in ageing {
            self.cache.refresh(&about, || asking(question));
        }
    }

    /// Asks all that is open at once. Those that no old answer can stand in for come first: if there is time for a part
    /// only, each resend then gets further, however slow the source is.
    fn ask_all<A, F>(&self, actor: &Actor, open: &[Inquiry<'_>], asking: &A) -> Vec<Asked>
    where
        A: Fn(Question) -> F,
        F: Future<Output = Result<Told, Failure>> + Send + 'static,
    {
        let mut seen = HashSet::new();
        let keyed = open.iter().map(|inquiry| (actor.key(inquiry), inquiry)).filter(|(key, _)| seen.insert(*key));
        let mut questions: Vec<_> = keyed.map(|(key, inquiry)| owned(actor, key, inquiry)).collect();
        questions.sort_by_cached_key(|(about, _)| self.cache.has_old_allow(about));
        let begin = |(about, question): (cache::About, Question)| {
            let flight = self.cache.ask(&about, || asking(question.clone()));
            Asked { about, question, flight }
        };
        questions.into_iter().map(begin).collect()
    }

    /// Waits for what comes in time.
    async fn land_all<A, F>(
        &self,
        asked: Vec<Asked>,
        asking: &A,
        deadline: Instant,
        mut round: Round,
    ) -> Result<Round, Unjudged>
    where
        A: Fn(Question) -> F,
        F: Future<Output = Result<Told, Failure>> + Send + 'static,
    {
        for Asked { about, question, flight } in asked {
            let end = match flight {
                Ok(flight) => self.land(flight, &about, question.clone(), asking, deadline).await,
                Err(failure) => Err(failure),
            };
            match end {
                Ok(answer) => drop(round.settled.insert(about.key, answer)),
                Err(Failure::CallerUnauthenticated) => return Err(Unjudged::CallerUnauthenticated),
                Err(Failure::Unavailable(_) | Failure::Undecided(_)) if self.serves_stale(&about, &question) => {
                    round.settled.insert(about.key, true);
                    round.stale = true;
                }
                Err(
                    Failure::Unavailable(reason)
                    | Failure::Undecided(reason)
                    | Failure::Rejected(reason)
                    | Failure::NotAsked(reason),
                ) => round.failed = Some(reason),
            }
        }
        Ok(round)
    }

    fn serves_stale(&self, about: &cache::About, question: &Question) -> bool {
        let inquiry = Inquiry { metalake: &about.metalake, about: question.about() };
        self.cache.serves_stale(about) || (self.stale)(&inquiry)
    }

    /// A credential that another request of this caller asked with may be at its end; then it is asked with one's own.
    async fn land<A, F>(
        &self,
        flight: Flight,
        about: &cache::About,
        question: Question,
        asking: &A,
        deadline: Instant,
    ) -> Result<bool, Failure>
    where
        A: Fn(Question) -> F,
        F: Future<Output = Result<Told, Failure>> + Send + 'static,
    {
        let is_joined = flight.is_joined();
        match flight.end(deadline).await {
            Err(Failure::CallerUnauthenticated) if is_joined => {
                self.cache.ask(about, || asking(question))?.end(deadline).await
            }
            end @ (Ok(_) | Err(_)) => end,
        }
    }
}

fn owned(actor: &Actor, key: Key, inquiry: &Inquiry<'_>) -> (cache::About, Question) {
    let about = cache::About { key, caller: actor.caller, metalake: inquiry.metalake.into() };
    (about, question_about(inquiry))
}

fn question_about(inquiry: &Inquiry<'_>) -> Question {
    let metalake = inquiry.metalake.into();
    match inquiry.about {
        About::Member => Question::Member { metalake },
        About::RolesHeld => Question::RolesHeld { metalake },
        About::Visible { kind, name } => Question::Visible { metalake, kind, name: name.into() },
    }
}

/// A question to the server that outlives the request.
fn question_of(
    (gravitino, cache): (&Arc<Gravitino>, &Cache),
    ask: &Ask<'_>,
    question: Question,
) -> impl Future<Output = Result<Told, Failure>> + Send + 'static {
    let (gravitino, cache) = (Arc::clone(gravitino), cache.clone());
    let (authorization, active_roles) = (ask.authorization.cloned(), ask.active_roles.cloned());
    let (roles, caller) = (ask.roles.clone(), ask.caller.clone());
    async move {
        let asker = Asker {
            authorization: authorization.as_ref(),
            active_roles: active_roles.as_ref(),
            roles: &roles,
            subject: &caller.subject,
        };
        // Not before its turn came: what was read may have ceased to be believed meanwhile.
        let sight = Sight::of(&gravitino, &cache, (&caller, &roles), question.metalake());
        let told = |yes, keep| Ok(Told { yes, keep });
        match gravitino.ask_rest(&asker, sight.usable(), &question).await {
            Ok(Rest::Read(answer)) => told(answer == Answer::Yes, false),
            Ok(Rest::Asked(answer)) => told(answer == Answer::Yes, true),
            Err(Trouble::CallerUnauthenticated) => Err(Failure::CallerUnauthenticated),
            Err(Trouble::Unavailable(reason)) => Err(Failure::Unavailable(reason)),
            Err(Trouble::Undecided(reason)) => Err(Failure::Undecided(reason)),
            Err(Trouble::Rejected(reason)) => Err(Failure::Rejected(reason)),
        }
    }
}

/// A metalake that is configured by name is judged by its own rules wherever it is named. Without such names every job
/// namespace is taken for one that the files do not know; of the datasets of another job's event those that could be one,
/// and of facets only those of the event's own.
fn is_elsewhere(world: &World, by_name: bool, role: Role, namespace: &str) -> bool {
    match world.governs(namespace) {
        Some(Governance::Metalake) => false,
        Some(Governance::Rules) => by_name,
        None if by_name => true,
        None => match role {
            Role::Job => true,
            Role::Input | Role::Output => is_metalake_name(namespace),
            Role::FacetJob | Role::FacetDataset => false,
        },
    }
}

/// Gravitino's grammar for metalakes (facts: gravitino 2.2).
fn is_metalake_name(name: &str) -> bool {
    (1..=64).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests;
