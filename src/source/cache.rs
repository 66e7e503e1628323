//! What remote policy sources answered, kept for a short time. One cache for all of them.
//!
//! An allow is used until [`Settings::fresh`] is over, counted from when its question went out, and is asked for again
//! ahead of that while it is in use. After it the source is asked before anything is allowed. Only if the source fails
//! does the old allow serve (not while the question waits behind others), up to [`Settings::stale_if_error`]; a no, a refused credential or another 4xx takes its
//! place. Denials have a shorter time and a store of their own: names that nobody may see are without end, and must not
//! push out those that are in use.
//!
//! Time is tokio's and is judged here; moka bounds the number of entries, and knows nothing of their age.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::config;

use self::breaker::Breaker;
use self::dropped::{Dropped, Era};
use self::flight::{Begun, End, Flights, Stage};

pub use self::dropped::Drops;
pub use self::flight::{Flight, Told};
pub use self::key::{Actor, CallerId, Key};
pub use self::metrics::Metrics;

mod breaker;
mod dropped;
mod flight;
mod key;
mod metrics;

/// How long a question may wait for its turn. Those who asked have left by then, and may have come again.
const QUEUE_TIME: Duration = Duration::from_secs(10);

/// How long a question may be on its way.
const ANSWER_TIME: Duration = Duration::from_secs(2);

/// Time between two trials of a source that does not answer.
const PAUSE: Duration = Duration::from_secs(1);

/// Asks the source something that no caller chose, and tells whether it answers.
pub type Trial = Box<dyn Fn() -> Pin<Box<dyn Future<Output = bool> + Send>> + Send + Sync>;

/// Bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Age at which an allow is asked for again before it is used.
    pub fresh: Duration,
    /// Age up to which an allow serves while the source fails.
    pub stale_if_error: Duration,
    /// Age up to which a denial is used.
    pub denied: Duration,
    /// Allows that are kept; of denials a tenth of it.
    pub entries: u64,
    /// Questions on their way at once, for all callers. One caller gets half of it.
    pub concurrency: usize,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The source does not take the caller's own credential.
    #[error("the policy source does not accept the caller's credential")]
    CallerUnauthenticated,
    /// The source failed, or is given up for the moment; the text is for the operator.
    #[error("{0}")]
    Unavailable(String),
    /// The question's turn did not come: too much was asked, which says nothing about the source.
    #[error("{0}")]
    NotAsked(String),
    /// The source failed on this question: that says nothing about others.
    #[error("{0}")]
    Undecided(String),
    /// The source answered, and decides nothing: what it said before does not hold any more.
    #[error("{0}")]
    Rejected(String),
}

/// What is known without asking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    /// A yes.
    Allowed {
        /// Whether it should be asked for again now, ahead of its end.
        ageing: bool,
    },
    /// A no.
    Denied,
}

/// What a question is about.
#[derive(Debug, Clone)]
pub struct About {
    /// Its key.
    pub key: Key,
    /// Who is asked about.
    pub caller: CallerId,
    /// Where.
    pub metalake: Arc<str>,
}

/// The cache. A clone is the same one.
#[derive(Clone)]
pub struct Cache(Arc<Inner>);

/// The cache as one request sees it.
#[derive(Clone)]
pub struct View<'c> {
    inner: &'c Inner,
    caller: CallerId,
    dropped: Arc<Dropped>,
    at: Instant,
}

struct Inner {
    settings: Settings,
    allows: moka::sync::Cache<Key, Entry>,
    denials: moka::sync::Cache<Key, Entry>,
    flights: Mutex<Flights>,
    places: Semaphore,
    breaker: Mutex<Breaker>,
    trial: Trial,
    dropped: ArcSwap<Dropped>,
    /// Of these also what was read whole is not believed.
    distrusted: ArcSwap<Dropped>,
    metrics: Metrics,
}

/// When an answer's question went out.
#[derive(Debug, Clone, Copy)]
struct Entry {
    asked: Instant,
    era: Era,
}

impl From<&config::PolicyCache> for Settings {
    fn from(config: &config::PolicyCache) -> Self {
        Self {
            fresh: config.fresh.0,
            stale_if_error: config.stale_if_error.0,
            denied: config.denied.0,
            entries: config.entries,
            concurrency: config.concurrency,
        }
    }
}

impl Failure {
    fn broken_off() -> Self {
        Self::Unavailable("the question to the policy source broke off".to_owned())
    }

    fn not_asked() -> Self {
        let text =
            "too many questions to the policy source wait for their turn; `policy.cache.concurrency` are asked at once";
        Self::NotAsked(text.to_owned())
    }

    fn given_up() -> Self {
        Self::Unavailable("the policy source does not answer; it is tried again soon".to_owned())
    }
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache").field("settings", &self.0.settings).finish_non_exhaustive()
    }
}

impl Cache {
    /// An empty one. `trial` decides whether the source is given up when questions fail.
    pub fn new(settings: Settings, metrics: Metrics, trial: Trial) -> Self {
        let share = settings.concurrency.div_ceil(2);
        Self(Arc::new(Inner {
            allows: moka::sync::Cache::new(settings.entries),
            denials: moka::sync::Cache::new((settings.entries / 10).max(1)),
            flights: Mutex::new(Flights::new(share)),
            places: Semaphore::new(settings.concurrency.min(Semaphore::MAX_PERMITS)),
            breaker: Mutex::default(),
            trial,
            dropped: ArcSwap::default(),
            distrusted: ArcSwap::default(),
            settings,
            metrics,
        }))
    }

    /// Its bounds.
    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// What a request may use that came `at` that time. What was dropped since is not in it.
    pub fn view(&self, caller: CallerId, at: Instant) -> View<'_> {
        View { inner: &self.0, caller, dropped: self.0.dropped.load_full(), at }
    }

    /// Asks, or joins who is asking already. The question runs to its end whoever waits for it; what it brings is kept.
    ///
    /// # Errors
    /// At once: [`Failure::Unavailable`] if the source is given up, [`Failure::NotAsked`] if too many questions are open.
    pub fn ask<F>(&self, about: &About, question: impl FnOnce() -> F) -> Result<Flight, Failure>
    where
        F: Future<Output = Result<Told, Failure>> + Send + 'static,
    {
        let inner = &self.0;
        let dropped = inner.dropped.load();
        let first = dropped.first(about.caller, &about.metalake);
        let mut flights = inner.flights();
        if let Some(flight) = flights.join(&about.key, first) {
            inner.metrics.joined.inc();
            return Ok(flight);
        }
        if inner.breaker().is_open() {
            Metrics::count(&inner.metrics.refused, "breaker");
            return Err(Failure::given_up());
        }
        let Some((begun, flight)) = flights.begin(about.key, about.caller, dropped.era()) else {
            Metrics::count(&inner.metrics.refused, "queue");
            return Err(Failure::not_asked());
        };
        drop(flights);
        inner.metrics.open.inc();
        let asked = Asked { inner: Arc::clone(inner), about: about.clone(), begun };
        tokio::spawn(asked.run(question()));
        Ok(flight)
    }

    /// Asks ahead of time; nobody waits for it.
    pub fn refresh<F>(&self, about: &About, question: impl FnOnce() -> F)
    where
        F: Future<Output = Result<Told, Failure>> + Send + 'static,
    {
        if !self.0.flights().has(&about.key) && self.ask(about, question).is_ok() {
            self.0.metrics.refreshes.inc();
        }
    }

    /// Forgets what is known, and what is being asked: who asks next is not answered by it.
    pub fn forget(&self, drops: Drops) {
        let word = match drops {
            Drops::All => "all",
            Drops::Caller(_) => "caller",
            Drops::Metalake(_) => "metalake",
        };
        Metrics::count(&self.0.metrics.dropped, word);
        let (now, life) = (Instant::now(), self.0.settings.stale_if_error + QUEUE_TIME + ANSWER_TIME);
        self.0.dropped.rcu(|dropped| dropped.with(drops.clone(), now, life));
    }

    /// Forgets likewise, and has nothing believed that was read before.
    pub fn distrust(&self, drops: Drops) {
        let (now, life) = (Instant::now(), self.0.settings.stale_if_error);
        self.0.distrusted.rcu(|distrusted| distrusted.with(drops.clone(), now, life));
        self.forget(drops);
    }

    /// When what was read last about that caller in that metalake ceased to be believed.
    pub fn distrusted_at(&self, caller: CallerId, metalake: &str) -> Option<Instant> {
        self.0.distrusted.load().last(caller, metalake)
    }

    /// Counts an old answer that serves without having been in the cache.
    pub fn count_stale(&self) {
        self.0.metrics.stale.inc();
    }

    /// Whether there is an allow that could serve if the source failed.
    pub fn has_old_allow(&self, about: &About) -> bool {
        let first = self.0.dropped.load().first(about.caller, &about.metalake);
        let entry = self.0.allows.get(&about.key).filter(|entry| entry.era >= first);
        entry.is_some_and(|entry| entry.asked.elapsed() < self.0.settings.stale_if_error)
    }

    /// Whether an old allow may serve now that the source failed. Counted as one that does.
    pub fn serves_stale(&self, about: &About) -> bool {
        let serves = self.has_old_allow(about);
        if serves {
            self.0.metrics.stale.inc();
        }
        serves
    }

    /// Counts answers that were used without asking.
    pub fn count_hits(&self, allows: u64, denials: u64) {
        Metrics::add(&self.0.metrics.hits, "allow", allows);
        Metrics::add(&self.0.metrics.hits, "deny", denials);
    }
}

impl View<'_> {
    /// What is known and not too old.
    pub fn known(&self, key: &Key, metalake: &str) -> Option<Known> {
        let Settings { fresh, denied, .. } = self.inner.settings;
        let first = self.dropped.first(self.caller, metalake);
        if let Some(age) = self.age(&self.inner.allows, key, first)
            && age < fresh
        {
            return Some(Known::Allowed { ageing: age >= fresh.mul_f32(0.75) });
        }
        let age = self.age(&self.inner.denials, key, first)?;
        (age < denied).then_some(Known::Denied)
    }

    fn age(&self, entries: &moka::sync::Cache<Key, Entry>, key: &Key, first: Era) -> Option<Duration> {
        let entry = entries.get(key).filter(|entry| entry.era >= first)?;
        Some(self.at.saturating_duration_since(entry.asked))
    }
}

impl Inner {
    fn flights(&self) -> MutexGuard<'_, Flights> {
        self.flights.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn breaker(&self) -> MutexGuard<'_, Breaker> {
        self.breaker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps what a question brought, unless something was dropped meanwhile that it is about.
    fn keep(&self, about: &About, end: &End, entry: Entry) {
        if entry.era < self.dropped.load().first(about.caller, &about.metalake) {
            return;
        }
        match end {
            Ok(true) => {
                self.allows.insert(about.key, entry);
                self.denials.invalidate(&about.key);
            }
            Ok(false) => {
                self.denials.insert(about.key, entry);
                self.allows.invalidate(&about.key);
            }
            Err(Failure::CallerUnauthenticated | Failure::Rejected(_)) => self.allows.invalidate(&about.key),
            Err(Failure::Unavailable(_) | Failure::Undecided(_) | Failure::NotAsked(_)) => {}
        }
    }

    fn note(self: &Arc<Self>, end: &End, took: Duration) {
        let word = match end {
            Ok(true) => "yes",
            Ok(false) => "no",
            Err(Failure::CallerUnauthenticated) => "unauthenticated",
            Err(Failure::Unavailable(_)) => "unavailable",
            Err(Failure::Undecided(_)) => "undecided",
            Err(Failure::Rejected(_)) => "rejected",
            Err(Failure::NotAsked(_)) => "not_asked",
        };
        Metrics::count(&self.metrics.questions, word);
        self.metrics.seconds.observe(took.as_secs_f64());
        let reason = match end {
            Ok(_) | Err(Failure::CallerUnauthenticated) => return self.breaker().answered(),
            // It may be the question's fault: neither a sign of life nor one of death.
            Err(Failure::Undecided(reason) | Failure::Rejected(reason) | Failure::NotAsked(reason)) => {
                return tracing::debug!(%reason, "a question cannot be decided");
            }
            Err(Failure::Unavailable(reason)) => reason,
        };
        tracing::debug!(%reason, "a question to the policy source failed");
        if self.breaker().failed() {
            tokio::spawn(Self::try_source(Arc::downgrade(self)));
        }
    }

    /// Tries the source until it answers.
    async fn try_source(this: Weak<Self>) {
        while let Some(inner) = this.upgrade() {
            let was_open = inner.breaker().is_open();
            let is_answered = timeout(ANSWER_TIME, (inner.trial)()).await.unwrap_or(false);
            let goes_on = inner.breaker().tried(is_answered);
            match (was_open, goes_on) {
                (false, true) => {
                    inner.metrics.opened.inc();
                    tracing::warn!(
                        "the policy source does not answer; until it does, nothing is asked but a trial a second"
                    );
                }
                (true, false) => tracing::info!("the policy source answers again"),
                (true, true) | (false, false) => {}
            }
            if !goes_on {
                return;
            }
            drop(inner);
            sleep(PAUSE).await;
        }
    }
}

/// A question in its task. Dropped, it is taken out of those that are open, whether it ended or not.
struct Asked {
    inner: Arc<Inner>,
    about: About,
    begun: Begun,
}

impl Asked {
    async fn run(self, question: impl Future<Output = Result<Told, Failure>>) {
        let end = self.ask(question).await;
        let sender = self.begun.stage.clone();
        // Taken out first: who finds it gone finds what it brought in the cache.
        drop(self);
        sender.send_replace(Stage::Ended(end));
    }

    async fn ask(&self, question: impl Future<Output = Result<Told, Failure>>) -> End {
        let by = Instant::now() + QUEUE_TIME;
        // The caller's own turn comes first, so that what waits for the common one is never a single caller's queue.
        let turns = async { (self.begun.share.acquire().await, self.inner.places.acquire().await) };
        let Ok((Ok(_share), Ok(_place))) = timeout_at(by, turns).await else {
            Metrics::count(&self.inner.metrics.refused, "late");
            return Err(Failure::not_asked());
        };
        if self.inner.breaker().is_open() {
            Metrics::count(&self.inner.metrics.refused, "breaker");
            return Err(Failure::given_up());
        }
        self.begun.stage.send_replace(Stage::Asked);
        let asked = Instant::now();
        let entry = Entry { asked, era: self.inner.dropped.load().era() };
        let end = timeout_at(asked + ANSWER_TIME, question).await;
        let silent = || Err(Failure::Unavailable(format!("the policy source did not answer within {ANSWER_TIME:?}")));
        let told = end.unwrap_or_else(|_| silent());
        let is_kept = told.as_ref().map_or(true, |told| told.keep);
        let end = told.map(|told| told.yes);
        self.inner.note(&end, asked.elapsed());
        if is_kept {
            self.inner.keep(&self.about, &end, entry);
        }
        end
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.inner.flights().end(&self.about.key, self.about.caller, self.begun.id);
        self.inner.metrics.open.dec();
    }
}

#[cfg(test)]
mod tests;
