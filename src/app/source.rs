//! Where the policy comes from: files, and a Gravitino server that is asked.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::admin::{Check, Described, Readiness};
use crate::config::{Config, Fault, Metalakes, PolicyMode};
use crate::source::Files;
use crate::source::gravitino::{Gravitino, Metrics, State};

/// Pause between two looks whether the policy source can decide.
const POLICY_POLL: Duration = Duration::from_millis(50);

pub(super) fn files(config: &Config) -> Result<Option<Arc<Files>>, Vec<Fault>> {
    let Some(path) = config.policy.files.as_ref().filter(|_| config.policy.mode != PolicyMode::Off) else {
        return Ok(None);
    };
    let elsewhere = match config.policy.gravitino.as_ref().map(|gravitino| &gravitino.metalakes) {
        Some(Metalakes::Named(names)) => names.clone(),
        Some(Metalakes::All) | None => BTreeSet::new(),
    };
    let loaded = Files::load_beside(path, elsewhere).map(|files| Some(Arc::new(files)));
    loaded.map_err(|faults| faults.iter().map(|fault| Fault::told(&fault.to_string())).collect())
}

/// A server that is asked, where the policy is looked at at all.
pub(super) fn gravitino(config: &Config, metrics: &Metrics) -> Result<Option<Arc<Gravitino>>, Vec<Fault>> {
    let Some(settings) = config.policy.gravitino.as_ref().filter(|_| config.policy.mode != PolicyMode::Off) else {
        return Ok(None);
    };
    let gravitino = Gravitino::new(settings, metrics.clone());
    let gravitino = gravitino.map_err(|error| vec![Fault::new("policy.gravitino", error.to_string())])?;
    Ok(Some(Arc::new(gravitino)))
}

/// What is known of the server, and what it does not tell.
pub(super) fn describe(gravitino: &Arc<Gravitino>, mode: PolicyMode) -> [Described; 2] {
    let (state, unreadable) = (Arc::clone(gravitino), Arc::clone(gravitino));
    let undecided = match mode {
        PolicyMode::Enforce => "its events are refused",
        PolicyMode::Shadow | PolicyMode::Off => "its events pass unjudged",
    };
    let state = move || match state.state() {
        State::Ready(known) if known.version.is_empty() => "ready: it tells more to the first caller".to_owned(),
        State::Ready(known) => format!("ready: {known}"),
        State::NotYet(reason) => format!("waiting, so that {undecided}: {reason}"),
        State::Unsafe(reason) => format!("unsafe, so that {undecided}: {reason}"),
    };
    let unreadable = move || match unreadable.unreadable() {
        all if all.is_empty() => "nothing".to_owned(),
        all => all.join("; "),
    };
    [
        Described::new("policy source Gravitino".to_owned(), state),
        Described::new("unreadable in Gravitino".to_owned(), unreadable),
    ]
}

/// What readiness waits for. In `shadow` mode nothing: events pass whatever the server says.
pub(super) fn awaited(readiness: &Readiness, mode: PolicyMode) -> Option<Check> {
    match mode {
        PolicyMode::Enforce => Some(readiness.register("policy of Gravitino")),
        PolicyMode::Shadow | PolicyMode::Off => None,
    }
}

/// Makes `/readyz` good once the server can decide. An unsafe one never does: no event of its metalakes would pass.
pub(super) async fn announce(gravitino: Arc<Gravitino>, check: Check, shutdown: CancellationToken) {
    while !matches!(gravitino.state(), State::Ready(_)) {
        if shutdown.run_until_cancelled(tokio::time::sleep(POLICY_POLL)).await.is_none() {
            return;
        }
    }
    check.ready();
}
