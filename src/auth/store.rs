//! The keys of one issuer as they are now: read from a file, or fetched in the background.
//!
//! | state | a token with a known key | a token with an unknown key |
//! |---|---|---|
//! | never fetched, or fetched longer than `max_stale` ago | 503 | 503 |
//! | last fetch good | judged | one fetch, at most every 10 s, then 401 |
//! | last fetch failed | judged | the same, then 503: the key may be a new one |

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::algorithm::Algorithm;
use super::error::{Error, Fault, Reason};
use super::fetch::{self, FetchError, Target};
use super::jwks::{self, Parsed};
use super::key::{Key, KeySet, Thumbprint};
use super::metrics::Metrics;

/// Pause after the first failed fetch; it doubles.
const FIRST_RETRY: Duration = Duration::from_secs(1);
/// Longest pause after a failed fetch.
const LAST_RETRY: Duration = Duration::from_secs(30);
/// Shortest time between two fetches that unknown keys ask for.
const SPACING: Duration = Duration::from_secs(10);
/// How long a request waits for such a fetch.
const PATIENCE: Duration = Duration::from_secs(2);

/// Where keys come from.
#[derive(Debug, Clone)]
pub(super) enum Source {
    Url { target: Target, refresh: Duration, max_stale: Duration },
    File { kind: FileKind, path: PathBuf },
}

/// What a key file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileKind {
    Jwks,
    PublicKey,
    Secret,
}

/// The keys of one issuer.
pub(super) struct Store {
    issuer: Arc<str>,
    /// Where the issuer stands in the configuration, for messages.
    place: String,
    accepted: Vec<Algorithm>,
    source: Source,
    state: ArcSwap<State>,
    progress: watch::Sender<Progress>,
    wanted: Notify,
    metrics: Arc<Metrics>,
}

#[derive(Default)]
struct State {
    keys: Arc<KeySet>,
    /// When the keys are too old to serve; never for those of a file.
    expires: Option<Instant>,
    /// Whether the last fetch failed.
    failed: bool,
}

#[derive(Default)]
struct Progress {
    started: Option<Instant>,
    running: bool,
    ended: u64,
}

/// What became of the wish for a fetch.
#[derive(PartialEq)]
enum Refetch {
    Done,
    TooSoon,
    Pending,
}

impl FileKind {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Jwks => "jwks_file",
            Self::PublicKey => "public_key_file",
            Self::Secret => "secret_file",
        }
    }
}

impl Store {
    /// A store; one with a file is read at once.
    pub(super) fn new(
        issuer: Arc<str>,
        place: String,
        accepted: Vec<Algorithm>,
        source: Source,
        metrics: Arc<Metrics>,
    ) -> Result<Self, Fault> {
        let store = Self {
            issuer,
            place,
            accepted,
            source,
            state: ArcSwap::default(),
            progress: watch::Sender::new(Progress::default()),
            wanted: Notify::new(),
            metrics,
        };
        if let Some(keys) = store.read()? {
            store.swap(keys);
        }
        Ok(store)
    }

    /// The key that a token means. Waits for a fetch if the key is unknown and a fetch is due.
    pub(super) async fn key(&self, kid: Option<&str>, algorithm: Algorithm) -> Result<Arc<Key>, Error> {
        match self.find(kid, algorithm) {
            Err(Error::Token(Reason::UnknownKey)) if matches!(self.source, Source::Url { .. }) => {}
            found => return found,
        }
        let refetch = self.refetch().await;
        match self.find(kid, algorithm) {
            Err(Error::Token(Reason::UnknownKey)) if refetch == Refetch::Pending || self.state.load().failed => {
                Err(self.unavailable())
            }
            found => found,
        }
    }

    /// Whether a key that verified a token before still serves.
    pub(super) fn has(&self, key: &Thumbprint) -> bool {
        self.current().is_some_and(|keys| keys.has(key))
    }

    /// Whether there are keys that serve.
    pub(super) fn is_ready(&self) -> bool {
        self.current().is_some()
    }

    pub(super) fn source(&self) -> &Source {
        &self.source
    }

    /// Fetches the keys of a URL until `shutdown`: at once, on schedule, soon after a failure, and when a request wants.
    pub(super) async fn keep_fresh(&self, shutdown: CancellationToken) {
        let Source::Url { target, refresh, max_stale } = &self.source else { return };
        let work = async {
            let mut retry = FIRST_RETRY;
            loop {
                let pause = if self.update(target, *max_stale).await {
                    retry = FIRST_RETRY;
                    *refresh
                } else {
                    let pause = retry;
                    retry = next_retry(retry);
                    pause
                };
                tokio::select! {
                    () = sleep(pause) => {}
                    () = self.wish() => {}
                }
            }
        };
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = work => {}
        }
    }

    /// Reads the keys of a file; none for a URL.
    pub(super) fn read(&self) -> Result<Option<KeySet>, Fault> {
        let Source::File { kind, path } = &self.source else { return Ok(None) };
        let key = || format!("{}.{}", self.place, kind.name());
        let unusable = |text| Fault::Unusable { key: key(), path: path.clone(), text };
        let content =
            std::fs::read(path).map_err(|source| Fault::Unreadable { key: key(), path: path.clone(), source })?;
        let keys = match kind {
            FileKind::PublicKey => KeySet::of_pem(&content, &self.accepted).map_err(unusable)?,
            FileKind::Secret => KeySet::of_secret(&content).map_err(unusable)?,
            FileKind::Jwks => {
                let Parsed { keys, skipped } = jwks::parse(&content, &self.accepted).map_err(unusable)?;
                if keys.is_empty() {
                    return Err(unusable(format!("holds no usable key: {}", skipped.join("; "))));
                }
                self.tell_of(&skipped);
                keys
            }
        };
        Ok(Some(keys))
    }

    /// Puts the keys of a file in place. Tells whether they differ.
    pub(super) fn swap(&self, keys: KeySet) -> bool {
        let changed = !self.state.load().keys.same_as(&keys);
        self.state.store(Arc::new(State { keys: Arc::new(keys), expires: None, failed: false }));
        changed
    }

    /// Fetches and reads the keys of a URL, and keeps nothing.
    pub(super) async fn fetch(&self, target: &Target) -> Result<Parsed, FetchError> {
        let body = fetch::get(target).await?;
        jwks::parse(&body, &self.accepted).map_err(FetchError::NoKeySet)
    }

    /// Waits for the end of so many fetches.
    #[cfg(test)]
    pub(super) async fn ended(&self, fetches: u64) {
        let mut progress = self.progress.subscribe();
        drop(progress.wait_for(|progress| progress.ended >= fetches).await);
    }

    fn find(&self, kid: Option<&str>, algorithm: Algorithm) -> Result<Arc<Key>, Error> {
        let keys = self.current().ok_or_else(|| self.unavailable())?;
        Ok(keys.find(kid, algorithm)?)
    }

    fn current(&self) -> Option<Arc<KeySet>> {
        let state = self.state.load();
        let fresh = state.expires.is_none_or(|expires| Instant::now() < expires);
        (fresh && !state.keys.is_empty()).then(|| Arc::clone(&state.keys))
    }

    fn unavailable(&self) -> Error {
        Error::KeysUnavailable { issuer: Arc::clone(&self.issuer) }
    }

    /// Asks the background task for a fetch. All requests share it, and wait only if it can start now.
    async fn refetch(&self) -> Refetch {
        let mut progress = self.progress.subscribe();
        let (running, due, ended) = {
            let now = progress.borrow_and_update();
            (now.running, now.started.is_none_or(|started| started.elapsed() >= SPACING), now.ended)
        };
        if !running {
            self.wanted.notify_one();
        }
        if !running && !due {
            return Refetch::TooSoon;
        }
        match timeout(PATIENCE, progress.wait_for(|now| now.ended > ended)).await {
            Ok(_) => Refetch::Done,
            Err(_) => Refetch::Pending,
        }
    }

    /// Ends when a request wants a fetch and the last one is long enough ago.
    async fn wish(&self) {
        self.wanted.notified().await;
        let started = self.progress.borrow().started;
        if let Some(started) = started {
            sleep_until(started + SPACING).await;
        }
    }

    /// Fetches once. Tells whether there are keys now.
    async fn update(&self, target: &Target, max_stale: Duration) -> bool {
        self.progress.send_modify(|progress| {
            progress.running = true;
            progress.started = Some(Instant::now());
        });
        let good = match self.fetch(target).await {
            Ok(parsed) => self.accept(target, parsed, max_stale),
            Err(error) => self.bemoan(target, &error),
        };
        self.progress.send_modify(|progress| {
            progress.running = false;
            progress.ended += 1;
        });
        good
    }

    /// A set without usable keys counts too: the issuer took its keys back, and nothing may be accepted.
    fn accept(&self, target: &Target, parsed: Parsed, max_stale: Duration) -> bool {
        let (issuer, url) = (&*self.issuer, &target.uri);
        let good = !parsed.keys.is_empty();
        self.metrics.fetched(&self.issuer, if good { "ok" } else { "empty" });
        if !self.state.load().keys.same_as(&parsed.keys) {
            tracing::info!(issuer, %url, keys = parsed.keys.len(), "auth: the issuer's keys changed");
            self.tell_of(&parsed.skipped);
        }
        if !good {
            tracing::warn!(issuer, %url, "auth: the key set holds no usable key; every token is answered 503");
        }
        let expires = Instant::now().checked_add(max_stale);
        self.state.store(Arc::new(State { keys: Arc::new(parsed.keys), expires, failed: false }));
        good
    }

    /// The last good keys go on serving until they are too old.
    fn bemoan(&self, target: &Target, error: &FetchError) -> bool {
        self.metrics.fetched(&self.issuer, error.label());
        let state = self.state.load();
        let serving = self.current().is_some();
        tracing::warn!(issuer = &*self.issuer, url = %target.uri, %error, serving, "auth: cannot fetch the issuer's keys");
        self.state.store(Arc::new(State { keys: Arc::clone(&state.keys), expires: state.expires, failed: true }));
        false
    }

    fn tell_of(&self, skipped: &[String]) {
        for why in skipped {
            tracing::info!(issuer = &*self.issuer, "auth: a key of the issuer is not used: {why}");
        }
    }
}

fn next_retry(pause: Duration) -> Duration {
    pause.saturating_mul(2).min(LAST_RETRY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_after_failures_double_up_to_thirty_seconds() {
        let pauses = std::iter::successors(Some(FIRST_RETRY), |pause| Some(next_retry(*pause)));
        let seconds: Vec<_> = pauses.take(7).map(|pause| pause.as_secs()).collect();
        assert_eq!(seconds, [1, 2, 4, 8, 16, 30, 30]);
    }
}
