//! File system events → targets to read again.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind, INotifyWatcher, RecursiveMode, Watcher as _};
use tokio::sync::Notify;

use super::Target;

/// Which targets have changed: filled by the thread that gets the events.
#[derive(Clone)]
pub(super) struct Changes {
    shared: Arc<Shared>,
}

struct Shared {
    /// The paths of each target.
    paths: Vec<Vec<PathBuf>>,
    changed: Mutex<Vec<bool>>,
    news: Notify,
}

/// The watches on the directories of all targets.
pub(super) struct Watcher {
    directories: BTreeSet<PathBuf>,
    system: Option<INotifyWatcher>,
}

impl Changes {
    pub(super) fn of(targets: &[Target]) -> Self {
        let paths: Vec<Vec<PathBuf>> = targets.iter().map(|target| target.paths.clone()).collect();
        let changed = Mutex::new(vec![false; paths.len()]);
        Self { shared: Arc::new(Shared { paths, changed, news: Notify::new() }) }
    }

    /// Waits for the first change since the last [`Changes::wait`].
    pub(super) async fn wait(&self) {
        self.shared.news.notified().await;
    }

    pub(super) fn take(&self) -> Vec<bool> {
        let mut changed = self.shared.changed.lock().unwrap_or_else(PoisonError::into_inner);
        let none = vec![false; changed.len()];
        std::mem::replace(&mut *changed, none)
    }

    pub(super) fn mark_all(&self) {
        self.shared.changed.lock().unwrap_or_else(PoisonError::into_inner).fill(true);
    }

    fn mark(&self, event: &Event) {
        if !is_change(event) {
            return;
        }
        let concerned: Vec<bool> = self.shared.paths.iter().map(|paths| concerns(event, paths)).collect();
        if !concerned.contains(&true) {
            return;
        }
        let mut changed = self.shared.changed.lock().unwrap_or_else(PoisonError::into_inner);
        for (changed, concerned) in changed.iter_mut().zip(concerned) {
            *changed |= concerned;
        }
        drop(changed);
        self.shared.news.notify_one();
    }

    /// Directories to watch: the parent of each path, and each path that is a directory.
    fn directories(&self) -> BTreeSet<PathBuf> {
        let paths = || self.shared.paths.iter().flatten();
        let parents = paths().filter_map(|path| path.parent()).map(Path::to_owned);
        parents.chain(paths().filter(|path| path.is_dir()).cloned()).collect()
    }
}

impl Watcher {
    pub(super) fn start(changes: &Changes) -> Self {
        let told = changes.clone();
        let system = notify::recommended_watcher(move |event: notify::Result<Event>| match event {
            Ok(event) => told.mark(&event),
            Err(error) => {
                tracing::warn!(%error, "file events may have been missed, reading all watched files again");
                told.mark_all();
                told.shared.news.notify_one();
            }
        });
        let system = system
            .inspect_err(|error| tracing::warn!(%error, "no file events, watched files are only read every 30 s"))
            .ok();
        let mut watcher = Self { directories: changes.directories(), system };
        watcher.watch(true);
        watcher
    }

    /// Watches all directories anew: one may have been made, or replaced by another of the same name, which the system
    /// does not tell.
    pub(super) fn renew(&mut self) {
        if let Some(system) = &mut self.system {
            for directory in &self.directories {
                // One that is gone, or was never there, has no watch to end.
                system.unwatch(directory).ok();
            }
        }
        self.watch(false);
    }

    fn watch(&mut self, first: bool) {
        let Some(system) = &mut self.system else { return };
        for directory in &self.directories {
            if let Err(error) = system.watch(directory, RecursiveMode::NonRecursive)
                && first
            {
                let directory = directory.display();
                tracing::warn!(%directory, %error, "no file events from this directory, it is only read every 30 s");
            }
        }
    }
}

/// An event that can mean new content. Opening and reading is none: a reload would then cause the next one.
fn is_change(event: &Event) -> bool {
    match event.kind {
        EventKind::Access(kind) => kind == AccessKind::Close(AccessMode::Write),
        EventKind::Any | EventKind::Create(_) | EventKind::Modify(_) | EventKind::Remove(_) | EventKind::Other => true,
    }
}

/// Whether an event is about one of `paths`: the path itself, a file in it, or the link beside it that a Kubernetes
/// mount swaps, whose name begins with `..`. Other neighbours do not count: one may be a log.
fn concerns(event: &Event, paths: &[PathBuf]) -> bool {
    if event.need_rescan() || event.paths.is_empty() {
        return true;
    }
    event.paths.iter().any(|changed| {
        let folder = changed.parent();
        let is_mount_link = changed.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b".."));
        paths.iter().any(|path| changed == path || folder == Some(path) || (is_mount_link && folder == path.parent()))
    })
}
