//! An Apache Gravitino server as the policy source: what it says of one caller and one object, and a snapshot of what it
//! knows.
//!
//! [`Gravitino::ask`] asks one question with the caller's own credential: nothing is remembered here. Membership and
//! visibility are both asked of the owners endpoint, which is guarded by the rule that lineage is judged by, and which
//! tells by itself when the server runs without authorization (facts: gravitino-real 2, 3.16, 7). `reading` is the pure
//! table of its answers, `local` decides what a version cannot say itself, `trial` finds out what that is, `snapshot`
//! decides without asking.
//!
//! In `probe` mode the gate holds no credential. Where the server wants one for everything, what it can do is learned
//! with the first caller's; until then the gate is ready, since that first caller can be served.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use http::HeaderValue;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::config::{self, GravitinoFallback, GravitinoMode, Metalakes};
use crate::policy::{About, ActiveRoles, ObjectType};
use crate::upstream::{self, Error, Reader};

use self::call::{As, Caller, Got};
use self::reading::{Asked, Reading, read_owner};
use self::snapshot::Weighed;
use self::trial::Knowledge;

pub use self::metrics::Metrics;
pub use self::online::probe;
pub use self::snapshot::{Snapshot, View};
pub use self::trial::{Capabilities, State};

mod call;
mod census;
mod local;
mod metrics;
mod online;
mod reading;
mod refresh;
mod schedule;
mod snapshot;
mod trial;
mod world;

#[cfg(test)]
mod tests;

/// Levels of an object whose owners one question may hang on: more than schemas are nested.
const MOST_LEVELS: usize = 16;

/// A Gravitino server that is asked.
pub struct Gravitino {
    config: config::Gravitino,
    caller: Arc<Caller>,
    metrics: Metrics,
    knowledge: ArcSwap<Knowledge>,
    snapshots: ArcSwap<refresh::Snapshots>,
    /// Whether an unsafe server was reported since it was last a safe one.
    reported: AtomicBool,
    /// Tells the task of trials that a question found the server unsafe, or a reading failed.
    doubted: Notify,
    /// Tells the task of readings to read at once.
    outdated: Notify,
}

/// Who asks, and with what.
#[derive(Clone, Copy)]
pub struct Asker<'a> {
    /// The caller's `Authorization`.
    pub authorization: Option<&'a HeaderValue>,
    /// The caller's first `X-Gravitino-Active-Roles`.
    pub active_roles: Option<&'a HeaderValue>,
    /// The same, read.
    pub roles: &'a ActiveRoles,
    /// The caller's name, for logs only: the server decides by the credential.
    pub subject: &'a str,
}

/// One question.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Question {
    /// Whether the caller is a member, its active roles left aside. A metalake that does not exist has none.
    Member {
        /// The metalake.
        metalake: Arc<str>,
    },
    /// Whether the caller holds its active roles.
    RolesHeld {
        /// The metalake.
        metalake: Arc<str>,
    },
    /// Whether the caller sees an object that may or may not exist.
    Visible {
        /// The metalake.
        metalake: Arc<str>,
        /// The object's type.
        kind: ObjectType,
        /// Its full name, which follows the grammar.
        name: Arc<str>,
    },
}

/// The answer to a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Yes.
    Yes,
    /// No.
    No,
}

/// The answer to a question that a snapshot left open at first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rest {
    /// By the snapshot, and what was read besides: it may be as old as that.
    Read(Answer),
    /// By the server, now.
    Asked(Answer),
}

/// Why there is no answer. The texts are for the operator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// The server does not accept the caller's credential: the caller's own 401.
    #[error("Gravitino does not accept the caller's credential")]
    CallerUnauthenticated,
    /// The server cannot be asked, or what answers is not a Gravitino server that can decide. No one caller's fault.
    #[error("{0}")]
    Unavailable(String),
    /// The server failed on this one question: it may be a catalog's fault, and says nothing about others.
    #[error("{0}")]
    Undecided(String),
    /// The server answered, and its answer decides nothing: a 4xx of its own, or rights that may not be read. What was
    /// known before does not hold any more, and nothing is said about other questions.
    #[error("{0}")]
    Rejected(String),
}

/// All faults of meaning in `policy.gravitino`.
pub fn check(config: &config::Gravitino) -> Vec<String> {
    let mut faults = Vec::new();
    let own = config.credential != config::UpstreamAuth::None;
    match config.mode {
        GravitinoMode::Probe if own => {
            faults.push("`credential` has a meaning for `mode: snapshot` only: leave it out".to_owned());
        }
        GravitinoMode::Snapshot if config.credential == config::UpstreamAuth::Forward => {
            faults.push("`credential` cannot be `forward`: a snapshot is read for all callers".to_owned());
        }
        GravitinoMode::Snapshot if !own => {
            faults.push("`mode: snapshot` needs `credential`, such as { bearer_file: FILE }".to_owned());
        }
        GravitinoMode::Probe | GravitinoMode::Snapshot => {}
    }
    for (key, zero) in [
        ("refresh", config.refresh.0.is_zero()),
        ("timeout", config.timeout.0.is_zero()),
        ("concurrency", config.concurrency == 0),
    ] {
        if zero {
            faults.push(format!("`{key}` must be more than 0"));
        }
    }
    if let Metalakes::Named(names) = &config.metalakes
        && (names.is_empty() || names.iter().any(|name| name.trim().is_empty()))
    {
        faults.push("`metalakes` must be `all`, or a list of names".to_owned());
    }
    let upstream = upstream::check(&config.as_upstream());
    faults.extend(upstream.into_iter().map(|fault| fault.replace("upstream `policy.gravitino`: ", "")));
    faults
}

impl Gravitino {
    /// Reads credential and certificates. Connects to nothing.
    ///
    /// # Errors
    ///
    /// What [`check`] finds, and files that cannot be read or used.
    pub fn new(config: &config::Gravitino, metrics: Metrics) -> Result<Self, Error> {
        let faults = check(config);
        if !faults.is_empty() {
            return Err(Error::Config(faults.join("\n")));
        }
        let reader = Arc::new(Reader::new(&config.as_upstream())?);
        Ok(Self {
            config: config.clone(),
            caller: Arc::new(Caller::new(reader, host(&config.url), metrics.clone())),
            metrics,
            knowledge: ArcSwap::from_pointee(Knowledge::Unknown("it was not asked yet".to_owned())),
            snapshots: ArcSwap::default(),
            reported: AtomicBool::new(false),
            doubted: Notify::new(),
            outdated: Notify::new(),
        })
    }

    /// Starts the tasks that find out what the server can do, and that read snapshots, until `shutdown`.
    pub fn spawn(self: &Arc<Self>, shutdown: &CancellationToken) {
        let (this, token) = (Arc::clone(self), shutdown.clone());
        tokio::spawn(async move { this.keep_learning(token).await });
        if self.config.mode == GravitinoMode::Snapshot {
            let (this, token) = (Arc::clone(self), shutdown.clone());
            tokio::spawn(async move { this.keep_reading(token).await });
        }
    }

    /// Finds out what the server can do and, in `snapshot` mode, reads it, once and without tasks: for commands that end.
    pub async fn read_once(&self) -> State {
        self.try_once().await;
        if self.config.mode == GravitinoMode::Snapshot {
            self.read_all().await;
        }
        self.state()
    }

    /// Whether the server answers what no caller chose.
    pub async fn answers(&self) -> bool {
        trial::learn(&self.caller, As::Service).await.is_ok()
    }

    /// What is known of the server. Where only snapshots decide it is ready once one was read.
    pub fn state(&self) -> State {
        let state = self.knowledge.load().state();
        let only_snapshots =
            self.config.mode == GravitinoMode::Snapshot && self.config.fallback == GravitinoFallback::Refuse;
        match state {
            State::Ready(_) if only_snapshots && !self.snapshots.load().was_read() => {
                State::NotYet(self.snapshots.load().fault())
            }
            State::Ready(_) | State::NotYet(_) | State::Unsafe(_) => state,
        }
    }

    /// Whether that namespace is one of `metalakes`. With `all` every namespace is; the caller of this leaves out those
    /// that the policy files name.
    pub fn governs(&self, namespace: &str) -> bool {
        match &self.config.metalakes {
            Metalakes::All => true,
            Metalakes::Named(names) => names.contains(namespace),
        }
    }

    /// Whether it is read, and not only asked.
    pub fn is_read(&self) -> bool {
        self.config.mode == GravitinoMode::Snapshot
    }

    /// The metalake as it was read last, in `snapshot` mode.
    pub fn snapshot(&self, metalake: &str) -> Option<Arc<Snapshot>> {
        self.snapshots.load().get(metalake)
    }

    /// Whether the name can be asked about at all.
    pub fn can_ask(metalake: &str, about: &About<'_>) -> bool {
        match *about {
            About::Member | About::RolesHeld => call::can_be_asked(metalake, (ObjectType::Metalake, metalake)),
            About::Visible { kind, name } => call::can_be_asked(metalake, (kind, name)),
        }
    }

    /// Whether a snapshot is so old that its next reading must have failed.
    pub fn is_overdue(&self, snapshot: &Snapshot) -> bool {
        snapshot.is_overdue(self.config.refresh.0)
    }

    /// Asks a question that a snapshot left open: first about the owners that it hangs on, with the gate's own credential,
    /// then, if the configuration has it so, with the caller's. `view` is the snapshot as the caller sees it, if it can be
    /// used.
    ///
    /// # Errors
    ///
    /// See [`ask`](Self::ask).
    pub async fn ask_rest(&self, asker: &Asker<'_>, view: Option<&View>, question: &Question) -> Result<Rest, Trouble> {
        if self.config.mode == GravitinoMode::Probe {
            return self.ask(asker, question).await.map(Rest::Asked);
        }
        let completed = match view {
            Some(view) => self.complete(view, question).await,
            None => Ok(None),
        };
        match (completed, self.config.fallback) {
            (Ok(Some(answer)), _) => Ok(Rest::Read(answer)),
            (Ok(None) | Err(_), GravitinoFallback::Probe) => self.ask(asker, question).await.map(Rest::Asked),
            (Err(Trouble::Unavailable(text)), GravitinoFallback::Refuse) => Err(Trouble::Unavailable(text)),
            (Ok(None) | Err(_), GravitinoFallback::Refuse) => {
                let why = match view {
                    Some(_) => "it hangs on what could not be read",
                    None => "there is no snapshot of its metalake that can be used",
                };
                let text = format!("a question is open, and `fallback` is `refuse`: {why}; /readyz?verbose names it");
                Err(Trouble::Undecided(self.named(&text)))
            }
        }
    }

    /// The answer of a snapshot, and of what it needs to know besides: owners of objects that no role names. Nothing where
    /// one of them cannot be read.
    ///
    /// # Errors
    ///
    /// See [`ask`](Self::ask).
    pub async fn complete(&self, view: &View, question: &Question) -> Result<Option<Answer>, Trouble> {
        let snapshot = view.snapshot();
        if question.metalake() != &*snapshot.metalake {
            return Ok(None);
        }
        for _ in 0..MOST_LEVELS {
            let object = match view.weigh(&question.about()) {
                Weighed::Decided(answer) => return Ok(Some(answer)),
                Weighed::Open => return Ok(None),
                Weighed::Owner(object) => object,
            };
            if !call::can_be_asked(&snapshot.metalake, (object.0, &object.1)) {
                return Ok(Some(Answer::No));
            }
            let owner = self.caller.owner_of(As::Service, &snapshot.metalake, (object.0, &object.1)).await?;
            match owner {
                Got::Found(owner) => snapshot.owners.put(object, owner),
                Got::Missing => snapshot.owners.put(object, None),
                Got::Forbidden => return Ok(None),
            }
        }
        Ok(None)
    }

    /// What the last snapshots could not read, for the operator.
    pub fn unreadable(&self) -> Vec<String> {
        self.snapshots.load().unreadable()
    }

    /// Credential and certificate files whose change wants a [`reload`](Self::reload).
    pub fn watched(&self) -> Vec<std::path::PathBuf> {
        self.caller.reader().watched()
    }

    /// Reads the files of [`watched`](Self::watched) anew.
    ///
    /// # Errors
    ///
    /// A file that cannot be read or used: the last good one stays.
    pub fn reload(&self) -> Result<bool, Error> {
        self.caller.reader().reload()
    }

    /// Asks one question with the caller's own credential.
    ///
    /// # Errors
    ///
    /// Everything that is no answer of the server about this caller: see [`Trouble`].
    pub async fn ask(&self, asker: &Asker<'_>, question: &Question) -> Result<Answer, Trouble> {
        if let State::Unsafe(reason) = self.knowledge.load().state() {
            return Err(Trouble::Unavailable(reason.to_string()));
        }
        match question {
            Question::Member { metalake } => self.owner(asker, None, &Asked::itself(metalake)).await,
            Question::RolesHeld { metalake } => self.roles_held(asker, metalake).await,
            Question::Visible { metalake, kind, name } => {
                self.visible(asker, &Asked { metalake, kind: *kind, name }).await
            }
        }
    }

    async fn roles_held(&self, asker: &Asker<'_>, metalake: &str) -> Result<Answer, Trouble> {
        let ActiveRoles::Named(names) = asker.roles else { return Ok(Answer::Yes) };
        let itself = Asked::itself(metalake);
        if self.capabilities(asker).await?.active_roles {
            return self.owner(asker, asker.active_roles, &itself).await;
        }
        match self.owner(asker, None, &itself).await? {
            Answer::No => Ok(Answer::No),
            Answer::Yes => local::roles_held(&self.caller, asker.into(), metalake, names).await,
        }
    }

    async fn visible(&self, asker: &Asker<'_>, asked: &Asked<'_>) -> Result<Answer, Trouble> {
        let narrowed = *asker.roles != ActiveRoles::All;
        let views = asked.kind != ObjectType::View || self.capabilities(asker).await?.views;
        if !views {
            let text = "this version has no rule for views: upgrade it to 1.2 or later";
            return Err(Trouble::Rejected(self.named(text)));
        }
        if !narrowed || self.capabilities(asker).await?.active_roles {
            return self.owner(asker, asker.active_roles, asked).await;
        }
        match self.owner(asker, None, asked).await? {
            // Narrowing takes away, it never gives.
            Answer::No => Ok(Answer::No),
            Answer::Yes => local::visible(&self.caller, asker.into(), asked, asker.roles).await,
        }
    }

    /// One owner question. What the answer leaves open on old versions is decided here.
    async fn owner(
        &self,
        asker: &Asker<'_>,
        active_roles: Option<&HeaderValue>,
        asked: &Asked<'_>,
    ) -> Result<Answer, Trouble> {
        if !call::can_be_asked(asked.metalake, (asked.kind, asked.name)) {
            return Ok(Answer::No);
        }
        self.capabilities(asker).await?;
        let who = As::from(asker);
        let read = self.caller.owner(who, active_roles, asked.metalake, (asked.kind, asked.name)).await?;
        match read_owner(&read, asked) {
            Reading::Passed => Ok(Answer::Yes),
            Reading::Refused => Ok(Answer::No),
            Reading::MissingCatalog => local::in_missing_catalog(&self.caller, who, asked, asker.roles).await,
            Reading::Unauthenticated => Err(Trouble::CallerUnauthenticated),
            Reading::AuthorizationOff => Err(self.seems_off(who).await),
            Reading::Trouble(trouble) => {
                let path = call::owner_path(asked.metalake, asked.kind, asked.name);
                Err(self.caller.placed(&path, trouble))
            }
        }
    }

    /// What the server can do; found out with this caller's credential where it is not known yet.
    async fn capabilities(&self, asker: &Asker<'_>) -> Result<Capabilities, Trouble> {
        if let Knowledge::Known(known) = &**self.knowledge.load() {
            return Ok(known.clone());
        }
        match trial::learn(&self.caller, asker.into()).await? {
            Knowledge::Known(known) => {
                self.knew(Knowledge::Known(known.clone()));
                Ok(known)
            }
            Knowledge::Unsafe(reason) => Err(Trouble::Unavailable(self.found_unsafe(&reason))),
            Knowledge::Guarded => Err(Trouble::CallerUnauthenticated),
            Knowledge::Unknown(reason) => Err(Trouble::Unavailable(reason)),
        }
    }

    /// One answer does not speak for the server: a trial call tells whether it refuses everybody from now on.
    async fn seems_off(&self, who: As<'_>) -> Trouble {
        match trial::learn(&self.caller, who).await {
            Ok(Knowledge::Unsafe(reason)) => Trouble::Unavailable(self.found_unsafe(&reason)),
            Ok(Knowledge::Guarded | Knowledge::Known(_) | Knowledge::Unknown(_)) => {
                Trouble::Rejected(self.named("answered 405, code 1006, to this question alone"))
            }
            Err(trouble) => trouble,
        }
    }

    fn named(&self, text: &str) -> String {
        format!("Gravitino at {}: {text}", host(&self.config.url))
    }

    fn knew(&self, knowledge: Knowledge) {
        if !matches!(knowledge, Knowledge::Unsafe(_)) {
            self.reported.store(false, Ordering::Relaxed);
        }
        self.knowledge.store(Arc::new(knowledge));
    }

    /// [`Self::turn_unsafe`] by a caller's question, between two trials: the next is made soon.
    fn found_unsafe(&self, reason: &str) -> String {
        self.doubted.notify_one();
        self.turn_unsafe(reason)
    }

    /// Refuses from now on, until a trial says otherwise. Tells the reason, once.
    fn turn_unsafe(&self, reason: &str) -> String {
        let reason = self.named(reason);
        if !self.reported.swap(true, Ordering::Relaxed) {
            tracing::error!(%reason, "the policy source is unsafe: it is not asked");
        }
        self.knew(Knowledge::Unsafe(reason.clone()));
        reason
    }
}

impl Question {
    /// The metalake.
    pub fn metalake(&self) -> &str {
        match self {
            Self::Member { metalake } | Self::RolesHeld { metalake } | Self::Visible { metalake, .. } => metalake,
        }
    }

    /// What it is about in its metalake.
    pub fn about(&self) -> About<'_> {
        match self {
            Self::Member { .. } => About::Member,
            Self::RolesHeld { .. } => About::RolesHeld,
            Self::Visible { kind, name, .. } => About::Visible { kind: *kind, name },
        }
    }
}

impl<'a> Asked<'a> {
    fn itself(metalake: &'a str) -> Self {
        Self { metalake, kind: ObjectType::Metalake, name: metalake }
    }
}

impl std::fmt::Debug for Gravitino {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gravitino").field("host", &host(&self.config.url)).field("state", &self.state()).finish()
    }
}

/// Host and port of a URL, which may hold more than should be shown.
fn host(url: &str) -> String {
    let authority = url.parse::<http::Uri>().ok().and_then(|uri| uri.authority().map(ToString::to_string));
    authority.map(|text| text.rsplit('@').next().unwrap_or_default().to_owned()).unwrap_or_default()
}
