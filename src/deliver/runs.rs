//! Runs belong to who began them.
//!
//! Marquez keeps a run with the first job that names it and silently drops the other (facts: marquez and clients 1,
//! surprise 4), and run ids of some producers can be guessed. So the run id of a delivered event, or of one whose end is
//! not known, is remembered with its caller and job for a day since his last event. An event of another caller for that
//! run is refused in the words for all that is not visible, or with `shadow` only reported. The same caller with another
//! job is reported and never refused: what is lost is his own, and other backends than Marquez take it.
//!
//! Who is first with the id of a run that is not his takes it from its owner for as long: with run ids that can be
//! guessed, `shadow` is the choice that harms nobody.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::duplicates::is_delivery;
use super::key::{CallerKey, ShortKey};
use super::metrics::Metrics;
use super::store::Store;
use crate::answer::{Outcome, Refusal};
use crate::auth::Caller;
use crate::config::RunBinding;
use crate::event::JobName;

/// How long a run belongs to its caller after his last event.
const LIFETIME: Duration = Duration::from_secs(86_400);

/// How an event does not fit to whom its run belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RunConflict {
    /// Another caller began the run.
    OtherCaller,
    /// The same caller began it with another job.
    OtherJob,
}

/// The runs of the last day, shared.
#[derive(Debug, Clone)]
pub(super) struct Runs {
    mode: RunBinding,
    bindings: Arc<Mutex<Bindings>>,
    metrics: Metrics,
}

/// An event's hold on its run, until its end is known. Dropped without an end, it never was.
#[derive(Debug)]
pub struct Claim {
    conflict: Option<RunConflict>,
    held: Option<(Runs, ShortKey)>,
}

/// Run id → caller and job. No clock: time is passed in.
#[derive(Debug)]
struct Bindings {
    runs: Store<ShortKey, Binding>,
}

#[derive(Debug, Clone, Copy)]
struct Binding {
    caller: CallerKey,
    job: ShortKey,
    /// Whether an event of the run was delivered.
    is_kept: bool,
    /// Events whose end is not known yet.
    pending: u32,
}

impl Runs {
    pub(super) fn new(mode: RunBinding, entries: usize, metrics: Metrics) -> Self {
        let bindings = Bindings { runs: Store::new(entries, LIFETIME) };
        Self { mode, bindings: Arc::new(Mutex::new(bindings)), metrics }
    }

    pub(super) fn claim(&self, caller: &Caller, run_id: &str, job: Option<&JobName>) -> Result<Claim, Refusal> {
        if self.mode == RunBinding::Off {
            return Ok(Claim::none());
        }
        let run = run_key(run_id);
        let job = job.map_or_else(|| ShortKey::of(&[]), |job| job_key(&job.namespace, &job.name));
        let conflict = self.lock().claim(run, CallerKey::of(caller), job, Instant::now());
        if let Some(conflict) = conflict {
            self.metrics.run_conflict(conflict);
        }
        match (conflict, self.mode) {
            (Some(RunConflict::OtherCaller), RunBinding::Enforce) => Err(Refusal::NotVisible),
            // The run stays with who began it.
            (Some(RunConflict::OtherCaller), RunBinding::Shadow | RunBinding::Off) => {
                Ok(Claim { conflict, held: None })
            }
            (Some(RunConflict::OtherJob) | None, _) => Ok(Claim { conflict, held: Some((self.clone(), run)) }),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.lock().runs.len()
    }

    /// No code under this lock leaves a state half written.
    fn lock(&self) -> MutexGuard<'_, Bindings> {
        self.bindings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Claim {
    /// A hold on nothing: for events that are no run's.
    pub fn none() -> Self {
        Self { conflict: None, held: None }
    }

    /// How the event does not fit to whom its run belongs, where that is only reported.
    pub fn conflict(&self) -> Option<RunConflict> {
        self.conflict
    }

    /// The event's end is known: the run is its caller's if the backend took the event, or may have.
    pub fn settle(mut self, outcome: &Outcome) {
        self.release(is_delivery(outcome) || matches!(outcome, Outcome::Unknown(_)));
    }

    fn release(&mut self, keep: bool) {
        if let Some((runs, run)) = self.held.take() {
            runs.lock().release(run, keep, Instant::now());
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.release(false);
    }
}

impl RunConflict {
    /// For audit and metrics.
    pub fn word(self) -> &'static str {
        match self {
            Self::OtherCaller => "other_caller",
            Self::OtherJob => "other_job",
        }
    }
}

impl Bindings {
    fn claim(&mut self, run: ShortKey, caller: CallerKey, job: ShortKey, now: Instant) -> Option<RunConflict> {
        let Some(binding) = self.runs.get_mut(&run, now) else {
            self.runs.put(run, caller, Binding { caller, job, is_kept: false, pending: 1 }, now);
            return None;
        };
        if binding.caller != caller {
            return Some(RunConflict::OtherCaller);
        }
        binding.pending += 1;
        (binding.job != job).then_some(RunConflict::OtherJob)
    }

    fn release(&mut self, run: ShortKey, keep: bool, now: Instant) {
        let Some(binding) = self.runs.get_mut(&run, now) else { return };
        binding.pending = binding.pending.saturating_sub(1);
        binding.is_kept |= keep;
        let binding = *binding;
        if keep {
            self.runs.put(run, binding.caller, binding, now);
        } else if !binding.is_kept && binding.pending == 0 {
            self.runs.remove(&run);
        }
    }
}

/// Two spellings of one UUID name one run: backends in Java read both as the same.
fn run_key(run_id: &str) -> ShortKey {
    match as_uuid(run_id) {
        Some(uuid) => ShortKey::of(&[b"uuid", &uuid.to_be_bytes()]),
        None => ShortKey::of(&[b"text", run_id.trim().to_lowercase().as_bytes()]),
    }
}

fn job_key(namespace: &str, name: &str) -> ShortKey {
    ShortKey::of(&[namespace.as_bytes(), name.as_bytes()])
}

/// Five hexadecimal numbers with `-` between them, each cut to its width: so `java.util.UUID` reads them, with leading
/// zeros left out or a `+` before a number too.
fn as_uuid(text: &str) -> Option<u128> {
    let mut parts = text.trim().split('-');
    let mut uuid = 0_u128;
    for bits in [32, 16, 16, 16, 48] {
        let part = u128::from_str_radix(parts.next()?, 16).ok()?;
        uuid = uuid << bits | part & ((1 << bits) - 1);
    }
    parts.next().is_none().then_some(uuid)
}

#[cfg(test)]
mod tests;
