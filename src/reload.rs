//! Watches files and swaps what they hold after it was checked; keeps the last good.
//!
//! What is watched are directories, never files: a Kubernetes mount swaps its `..data` link, an editor renames a new
//! file over the old one, and a watch on the file itself misses the second time (facts: style 0.8). All targets are also
//! read again every [`POLL`], for file systems that report nothing.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use self::run::Running;
use self::watcher::{Changes, Watcher};

pub use self::metrics::Metrics;

mod metrics;
mod run;
mod watcher;

/// How long a change may go on before files are read: a swap is several events.
pub const DEBOUNCE: Duration = Duration::from_millis(250);
/// Pause between two readings of everything.
pub const POLL: Duration = Duration::from_secs(30);

/// Something in use that came from files.
pub struct Target {
    /// Name in logs and metrics, such as `policy` or `certificate of 0.0.0.0:8443`.
    pub name: String,
    /// The files it came from, absolute; a directory stands for the files in it.
    pub paths: Vec<PathBuf>,
    /// Reads the files, checks them, and swaps. True: swapped; false: nothing changed. The error says what is wrong in
    /// which file; the old then stays in use. Runs where it may block.
    pub reload: Box<dyn Fn() -> Result<bool, String> + Send + Sync>,
}

/// Asks for a reading of everything at once.
#[derive(Debug, Clone, Default)]
pub struct Trigger(Arc<Notify>);

impl std::fmt::Debug for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Target").field("name", &self.name).field("paths", &self.paths).finish_non_exhaustive()
    }
}

impl Trigger {
    /// Asks. Never waits; asking twice before it begins is asking once.
    pub fn fire(&self) {
        self.0.notify_one();
    }
}

/// Keeps `targets` up to date until `shutdown`.
///
/// The first reading comes at once, so that a change between the load of a target and the watch on it is not missed.
/// Without help of the system (no inotify left, a directory that is not there yet) it only reads every [`POLL`], and says
/// so in the log.
pub async fn watch(targets: Vec<Target>, metrics: Metrics, trigger: Trigger, shutdown: CancellationToken) {
    let changes = Changes::of(&targets);
    let mut watcher = Watcher::start(&changes);
    let mut running: Vec<Running> = targets.into_iter().map(|target| Running::new(target, &metrics)).collect();
    for target in &mut running {
        target.reload(false).await;
    }
    let mut poll = tokio::time::interval_at(Instant::now() + POLL, POLL);
    poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let polled = tokio::select! {
            () = shutdown.cancelled() => return,
            () = changes.wait() => {
                shutdown.run_until_cancelled(tokio::time::sleep(DEBOUNCE)).await;
                false
            }
            () = trigger.0.notified() => {
                changes.mark_all();
                false
            }
            _ = poll.tick() => {
                watcher.renew();
                changes.mark_all();
                true
            }
        };
        let changed = changes.take();
        for (target, _) in running.iter_mut().zip(changed).filter(|(_, changed)| *changed) {
            if shutdown.is_cancelled() {
                return;
            }
            target.reload(polled).await;
        }
    }
}

/// Fires `trigger` at each SIGHUP until `shutdown`. From the first call on, SIGHUP no longer ends the process.
///
/// # Errors
/// The signal cannot be listened to.
pub async fn on_hangup(trigger: Trigger, shutdown: CancellationToken) -> std::io::Result<()> {
    let mut hangups = signal(SignalKind::hangup())?;
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return Ok(()),
            received = hangups.recv() => {
                if received.is_none() {
                    return Ok(());
                }
                tracing::info!("SIGHUP: reading all watched files again");
                trigger.fire();
            }
        }
    }
}

#[cfg(test)]
mod tests;
