//! What `check --online` asks: whether the server can decide, and whether a snapshot of it can be read whole.

use std::sync::Arc;

use crate::config::{self, GravitinoMode, Metalakes};

use super::call::As;
use super::census;
use super::refresh::told;
use super::trial::{self, Knowledge};
use super::{Gravitino, Metrics};

/// Parts that a service credential cannot read, as far as [`probe`] names them.
const MOST_TOLD: usize = 20;

/// Connects and finds out what the server can do and, in `snapshot` mode, reads it once as the gate would again and again:
/// for `check --online`. All texts are for the operator.
///
/// # Errors
///
/// It cannot be reached, is unsafe, is no Gravitino server, or does not let the service credential read all that a
/// snapshot needs: each part that cannot be read, up to a bound.
pub async fn probe(config: &config::Gravitino) -> Result<String, Vec<String>> {
    let alone = |text: String| vec![text];
    let gravitino = Gravitino::new(config, Metrics::default()).map_err(|error| alone(error.to_string()))?;
    match trial::learn(&gravitino.caller, As::Service).await {
        Ok(Knowledge::Known(known)) if config.mode == GravitinoMode::Snapshot => {
            if let Some(reason) = known.no_snapshots() {
                return Err(alone(reason));
            }
            let unread = survey(&gravitino).await.unwrap_or_else(alone);
            if unread.is_empty() {
                Ok(format!("answers: {known}; `credential` reads all that it governs"))
            } else {
                Err(unread)
            }
        }
        Ok(Knowledge::Known(known)) => Ok(format!("answers: {known}")),
        Ok(Knowledge::Guarded) if config.mode == GravitinoMode::Snapshot => {
            Err(alone("refuses the gate's `credential` with 401".to_owned()))
        }
        Ok(Knowledge::Guarded) => Ok("answers: wants a caller's credential before it tells more".to_owned()),
        Ok(Knowledge::Unsafe(reason) | Knowledge::Unknown(reason)) => Err(alone(reason)),
        Err(trouble) => Err(alone(trouble.to_string())),
    }
}

/// What the service credential cannot read.
async fn survey(gravitino: &Gravitino) -> Result<Vec<String>, String> {
    let listed = gravitino.caller.metalakes(As::Service).await.map_err(|trouble| trouble.to_string())?;
    let governed: Vec<&String> = match &gravitino.config.metalakes {
        Metalakes::All => listed.iter().collect(),
        Metalakes::Named(names) => names.iter().collect(),
    };
    let mut unread = Vec::new();
    if governed.is_empty() {
        unread.push("`credential` sees no metalake".to_owned());
    }
    for metalake in governed {
        let parts = unread_of(gravitino, metalake, listed.contains(metalake)).await;
        unread.extend(parts.into_iter().map(|part| format!("metalake {metalake}: {part}")));
    }
    if !unread.is_empty() {
        let more = unread.len().saturating_sub(MOST_TOLD);
        unread.truncate(MOST_TOLD);
        if more > 0 {
            unread.push(format!("and {more} more that cannot be read"));
        }
        unread.push(
            "where rights are missing, let the user of `credential` own the metalake, or leave that out of `metalakes`: \
             what a snapshot lacks costs a question each time, or 503"
                .to_owned(),
        );
    }
    Ok(unread)
}

/// What of one metalake cannot be read, by one reading as the gate makes them again and again.
async fn unread_of(gravitino: &Gravitino, metalake: &str, is_listed: bool) -> Vec<String> {
    let metalake: Arc<str> = metalake.into();
    match census::read(&gravitino.caller, &metalake, gravitino.calls()).await {
        Ok(read) => {
            let mut unread = read.snapshot.unreadable;
            unread.extend(read.trouble.as_ref().map(told));
            unread.sort_unstable();
            unread
        }
        Err(_) if !is_listed => {
            vec!["it does not exist, or the user of `credential` is no member of it".to_owned()]
        }
        Err(trouble) => vec![told(&trouble)],
    }
}
