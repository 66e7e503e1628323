//! When snapshots are read: in the background, each metalake on its own, so that a slow one holds up no other.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::{self, FuturesUnordered};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::config::{GravitinoFallback, Metalakes};

use super::call::As;
use super::census::{self, Read};
use super::schedule::{Schedule, share};
use super::snapshot::Snapshot;
use super::{Gravitino, Knowledge, Trouble};

/// Pause between two looks whether trials found the server safe.
const POLL: Duration = Duration::from_millis(50);

/// All metalakes as they were read last.
#[derive(Debug, Default, Clone)]
pub(super) struct Snapshots {
    read: HashMap<Arc<str>, Arc<Snapshot>>,
    /// Why the last reading of one failed, or a part of it.
    faults: BTreeMap<Arc<str>, String>,
    /// Why the list of metalakes cannot be read.
    unlisted: Option<String>,
}

/// Something that ended.
enum Done {
    Listed(Result<Vec<Arc<str>>, Vec<Arc<str>>>),
    /// With whether it failed in a way that may be over soon.
    Read(Arc<str>, bool),
}

type Work<'g> = Pin<Box<dyn Future<Output = Done> + Send + 'g>>;

impl Snapshots {
    pub(super) fn get(&self, metalake: &str) -> Option<Arc<Snapshot>> {
        self.read.get(metalake).cloned()
    }

    pub(super) fn was_read(&self) -> bool {
        !self.read.is_empty()
    }

    /// Why there is none.
    pub(super) fn fault(&self) -> Arc<str> {
        let fault = self.unlisted.as_deref().or_else(|| self.faults.values().next().map(String::as_str));
        fault.unwrap_or("no snapshot was read yet").into()
    }

    /// What could not be read, metalake by metalake.
    pub(super) fn unreadable(&self) -> Vec<String> {
        let each = |snapshot: &Arc<Snapshot>| {
            let metalake = Arc::clone(&snapshot.metalake);
            snapshot.unreadable.iter().map(move |text| format!("metalake {metalake}: {text}")).collect::<Vec<_>>()
        };
        let faults = self.faults.values().chain(&self.unlisted).cloned();
        let mut all: Vec<String> = self.read.values().flat_map(each).chain(faults).collect();
        all.sort_unstable();
        all
    }

    /// Only these metalakes are there.
    fn list(&mut self, names: &[Arc<str>]) {
        self.unlisted = names.is_empty().then(|| "the service credential sees no metalake".to_owned());
        self.read.retain(|name, _| names.contains(name));
        self.faults.retain(|name, _| names.contains(name));
    }

    /// A reading ended. What the server refuses to tell takes the place of what it told before; where it failed, the last
    /// snapshot stays. Where only snapshots decide, so it does for a part that failed, up to its time.
    fn note(
        &mut self,
        metalake: &Arc<str>,
        end: Result<(Arc<Snapshot>, Option<String>), &Trouble>,
        keeps: impl Fn(&Snapshot) -> bool,
    ) {
        let fault = match end {
            Ok((snapshot, trouble)) => {
                let is_kept = trouble.is_some() && self.read.get(metalake).is_some_and(|last| keeps(last));
                if !is_kept {
                    self.read.insert(Arc::clone(metalake), snapshot);
                }
                trouble
            }
            Err(trouble) => {
                if is_refusal(trouble) {
                    self.read.remove(metalake);
                }
                Some(told(trouble))
            }
        };
        match fault {
            Some(fault) => drop(self.faults.insert(Arc::clone(metalake), format!("metalake {metalake}: {fault}"))),
            None => drop(self.faults.remove(metalake)),
        }
    }
}

impl Gravitino {
    /// Reads all governed metalakes again and again, until `shutdown`.
    pub(super) async fn keep_reading(&self, shutdown: CancellationToken) {
        let mut work: FuturesUnordered<Work<'_>> = FuturesUnordered::new();
        let mut schedule = Schedule::new(self.config.refresh.0, self.calls(), Instant::now());
        loop {
            let due = schedule.due();
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = self.outdated.notified() => schedule.outdated(Instant::now()),
                () = at(due) => {
                    if !self.known_to_be_safe() {
                        tokio::time::sleep(POLL).await;
                    } else if schedule.tick(Instant::now()) {
                        work.push(Box::pin(async { Done::Listed(self.list().await) }));
                    }
                }
                Some(done) = work.next(), if !work.is_empty() => match done {
                    Done::Listed(Ok(names)) => schedule.listed(names, true, Instant::now()),
                    Done::Listed(Err(names)) => schedule.listed(names, false, Instant::now()),
                    Done::Read(name, has_failed) => schedule.ended(&name, has_failed, Instant::now()),
                },
            }
            while let Some((name, at_once)) = schedule.begin(self.calls()) {
                work.push(Box::pin(async move {
                    let has_failed = self.read_one(&name, at_once).await;
                    Done::Read(name, has_failed)
                }));
            }
        }
    }

    /// One reading of all governed metalakes.
    pub(super) async fn read_all(&self) {
        let (Ok(names) | Err(names)) = self.list().await;
        let at_once = share(self.calls(), names.len());
        let readings = stream::iter(&names).map(|name| self.read_one(name, at_once));
        readings.buffer_unordered(self.calls()).for_each(|_| std::future::ready(())).await;
    }

    /// All that is read is to be read again now, since it may not be true any more.
    pub fn read_anew(&self) {
        self.outdated.notify_one();
    }

    /// Calls of all readings together; the other half is for questions.
    pub(super) fn calls(&self) -> usize {
        self.config.concurrency.div_ceil(2)
    }

    /// The governed metalakes; as an error those that were known, where they cannot be listed.
    async fn list(&self) -> Result<Vec<Arc<str>>, Vec<Arc<str>>> {
        let names: Vec<Arc<str>> = match &self.config.metalakes {
            Metalakes::Named(names) => names.iter().map(|name| name.as_str().into()).collect(),
            Metalakes::All => match self.caller.metalakes(As::Service).await {
                Ok(names) => names.into_iter().map(Arc::from).collect(),
                Err(trouble) => return Err(self.unlisted(&trouble)),
            },
        };
        self.change(|snapshots| snapshots.list(&names));
        Ok(names)
    }

    fn unlisted(&self, trouble: &Trouble) -> Vec<Arc<str>> {
        let text = told(trouble);
        let old = self.change(|snapshots| snapshots.unlisted = Some(text.clone()));
        if old.unlisted.is_none() {
            tracing::warn!(reason = %text, "the metalakes cannot be listed");
        }
        self.doubted.notify_one();
        let names: HashSet<&Arc<str>> = old.read.keys().chain(old.faults.keys()).collect();
        names.into_iter().cloned().collect()
    }

    /// Reads one. True if it failed in a way that may be over soon.
    async fn read_one(&self, metalake: &Arc<str>, at_once: usize) -> bool {
        if !self.known_to_be_safe() {
            return true;
        }
        let end = match self.too_old() {
            Some(reason) => Err(Trouble::Rejected(reason)),
            None => census::read(&self.caller, metalake, at_once).await,
        };
        let has_failed = match &end {
            Ok(read) => read.trouble.is_some(),
            Err(trouble) => !is_refusal(trouble),
        };
        let end = end.map(|Read { snapshot, trouble }| (Arc::new(snapshot), trouble.as_ref().map(told)));
        self.metrics.snapshot(matches!(end, Ok((_, None))));
        let keeps = |last: &Snapshot| self.config.fallback == GravitinoFallback::Refuse && !self.is_overdue(last);
        let old = self.change(|snapshots| snapshots.note(metalake, end.as_ref().cloned(), keeps));
        let new = self.snapshots.load();
        self.metrics.unreadable(new.unreadable().len());
        self.announce(metalake, old.faults.get(metalake), new.faults.get(metalake));
        has_failed
    }

    /// Tells when readings of a metalake begin to fail, and when that is over.
    fn announce(&self, metalake: &str, before: Option<&String>, now: Option<&String>) {
        if now.is_some() {
            // It may have been started anew, with other settings.
            self.doubted.notify_one();
        }
        match (before, now) {
            (None, Some(fault)) => {
                let rest = match self.config.fallback {
                    GravitinoFallback::Probe => "what is not known is asked with the callers' credentials",
                    GravitinoFallback::Refuse => "what is not known is refused with 503",
                };
                tracing::warn!(reason = %fault, "a snapshot could not be read, or not whole; {rest}");
            }
            (Some(_), None) => tracing::info!(%metalake, "the snapshot is read again"),
            (Some(_), Some(_)) | (None, None) => {}
        }
    }

    /// Changes what is known. Returns what was known before.
    fn change(&self, change: impl Fn(&mut Snapshots)) -> Arc<Snapshots> {
        self.snapshots.rcu(|old| {
            let mut new = Snapshots::clone(old);
            change(&mut new);
            new
        })
    }

    fn too_old(&self) -> Option<String> {
        match &**self.knowledge.load() {
            Knowledge::Known(known) => known.no_snapshots().map(|reason| self.named(&reason)),
            Knowledge::Unknown(_) | Knowledge::Guarded | Knowledge::Unsafe(_) => None,
        }
    }

    fn known_to_be_safe(&self) -> bool {
        matches!(&**self.knowledge.load(), Knowledge::Known(_)) && !self.reported.load(Ordering::Relaxed)
    }
}

/// Whether the server does not let the gate read it, which is not the same as being in trouble.
fn is_refusal(trouble: &Trouble) -> bool {
    match trouble {
        Trouble::CallerUnauthenticated | Trouble::Rejected(_) => true,
        Trouble::Unavailable(_) | Trouble::Undecided(_) => false,
    }
}

/// A refused credential is the gate's own here.
pub(super) fn told(trouble: &Trouble) -> String {
    match trouble {
        Trouble::CallerUnauthenticated => "the server does not accept the gate's `credential`: 401".to_owned(),
        Trouble::Unavailable(text) | Trouble::Undecided(text) | Trouble::Rejected(text) => text.clone(),
    }
}

async fn at(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}
