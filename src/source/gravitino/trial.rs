//! What the server can do, found out by trial calls (facts: gravitino-real 3.7, 3.16, 3.17).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use crate::config::GravitinoMode;
use crate::policy::ObjectType;
use crate::upstream::Read;

use super::call::{As, Caller};
use super::metrics::Call;
use super::reading::{Words, trouble};
use super::{Gravitino, Trouble};

/// A metalake that cannot exist: their names hold no hyphen (facts: gravitino 2.2).
const NO_METALAKE: &str = "lineage-gate-trial";

/// A value that a server which reads the header refuses with 400, on any path.
const MALFORMED_ROLES: HeaderValue = HeaderValue::from_static(",");

/// Pause before the server is tried again while it is not known; the next is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(250);

/// The longest such pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Pause while it is known: it may be started anew as another version, or with other settings.
const RECHECK: Duration = Duration::from_secs(30);

const AUTHORIZATION_OFF: &str =
    "runs with gravitino.authorization.enable=false, so that it cannot decide: turn it on, or use policy files";

/// The first version that says who a credential is: a snapshot depends on it (facts: gravitino 3.4).
const FIRST_WITH_PRINCIPAL: (u32, u32) = (1, 3);

const UNGUARDED: &str =
    "answers owner questions to anybody (1.0 does), so that it cannot decide: upgrade it to 1.1 or later";

/// What a server can do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capabilities {
    /// Its version, as it says; empty where it was not asked yet.
    pub version: Arc<str>,
    /// Whether it reads `X-Gravitino-Active-Roles`: 1.3 and before do not.
    pub active_roles: bool,
    /// Whether it has a rule for views: 1.1 and before do not.
    pub views: bool,
}

impl Capabilities {
    /// Why no snapshot can be read, whatever the credential is.
    pub(super) fn no_snapshots(&self) -> Option<String> {
        let is_old = parse(&self.version).is_some_and(|number| number < FIRST_WITH_PRINCIPAL);
        is_old.then(|| {
            format!(
                "is {}, and `mode: snapshot` needs 1.3 or later: upgrade it, or leave `mode` and `credential` out",
                self.version
            )
        })
    }
}

/// What is known of the server, for readiness.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// It did not answer yet, and why.
    NotYet(Arc<str>),
    /// It can be asked. Where it wants a credential for everything and the gate has none, the version is empty until the
    /// first caller came.
    Ready(Capabilities),
    /// It must not decide, and why.
    Unsafe(Arc<str>),
}

/// What trial calls found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Knowledge {
    Unknown(String),
    /// It answers, and wants a credential before it says more.
    Guarded,
    Known(Capabilities),
    Unsafe(String),
}

#[derive(Deserialize)]
struct VersionBody {
    version: Version,
}

#[derive(Deserialize)]
struct Version {
    version: String,
}

impl Knowledge {
    pub(super) fn state(&self) -> State {
        match self {
            Self::Unknown(reason) => State::NotYet(reason.as_str().into()),
            Self::Guarded => State::Ready(Capabilities { version: "".into(), active_roles: false, views: false }),
            Self::Known(known) => State::Ready(known.clone()),
            Self::Unsafe(reason) => State::Unsafe(reason.as_str().into()),
        }
    }
}

impl fmt::Display for Capabilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let roles = if self.active_roles { "reads active roles" } else { "ignores active roles" };
        let views = if self.views { "" } else { ", has no rule for views" };
        write!(f, "Gravitino {}, authorization on, {roles}{views}", self.version)
    }
}

/// Three harmless reads: whether authorization is on and owners are guarded, the version, whether active roles count.
///
/// # Errors
///
/// The server cannot be reached, or what answers is no Gravitino server.
pub(super) async fn learn(caller: &Caller, who: As<'_>) -> Result<Knowledge, Trouble> {
    let path = super::call::owner_path(NO_METALAKE, ObjectType::Metalake, NO_METALAKE);
    let read = caller.get(Call::Owner, &path, who, None).await?;
    match (read.status, Words::of(&read).and_then(|words| words.code)) {
        (403, Some(1008)) => {}
        (401, Some(1011)) => return Ok(Knowledge::Guarded),
        (405, Some(1006)) => return Ok(Knowledge::Unsafe(AUTHORIZATION_OFF.to_owned())),
        (200, Some(0)) | (404, Some(1003)) => return Ok(Knowledge::Unsafe(UNGUARDED.to_owned())),
        _ => return Err(caller.placed(&path, not_a_callers(trouble(&read)))),
    }
    let path = "/api/version";
    let read = caller.get(Call::Version, path, who, None).await?;
    let Some(version) = version(&read) else { return Err(caller.placed(path, not_a_callers(trouble(&read)))) };
    let read = caller.get(Call::Version, path, who, Some(&MALFORMED_ROLES)).await?;
    let active_roles = match (read.status, Words::of(&read).and_then(|words| words.code)) {
        (400, Some(1001)) => true,
        (200, Some(0)) => false,
        _ => return Err(caller.placed(path, not_a_callers(trouble(&read)))),
    };
    let number = parse(&version);
    if number.is_some_and(|number| number < (1, 1)) {
        return Ok(Knowledge::Unsafe(UNGUARDED.to_owned()));
    }
    let views = number.is_none_or(|number| number >= (1, 2));
    Ok(Knowledge::Known(Capabilities { version: version.as_str().into(), active_roles, views }))
}

/// A trial asks about nothing that a caller chose.
fn not_a_callers(trouble: Trouble) -> Trouble {
    match trouble {
        Trouble::Undecided(text) | Trouble::Rejected(text) => Trouble::Unavailable(text),
        Trouble::Unavailable(_) | Trouble::CallerUnauthenticated => trouble,
    }
}

fn version(read: &Read) -> Option<String> {
    let body = (read.status == 200 && read.complete).then(|| serde_json::from_slice::<VersionBody>(&read.body));
    Some(body?.ok()?.version.version)
}

/// Major and minor number.
fn parse(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.split(['.', '-']);
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

impl Gravitino {
    /// Tries until the server answers, and again from time to time.
    pub(super) async fn keep_learning(&self, shutdown: CancellationToken) {
        let mut pause = FIRST_PAUSE;
        loop {
            let wait = if self.try_once().await {
                pause = FIRST_PAUSE;
                RECHECK
            } else {
                pause = (pause * 2).min(LONGEST_PAUSE);
                pause
            };
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(wait) => {}
                () = self.doubted.notified() => {
                    pause = FIRST_PAUSE;
                    tokio::time::sleep(pause).await;
                }
            }
        }
    }

    /// One trial with what the gate has. Tells whether the server is known now.
    pub(super) async fn try_once(&self) -> bool {
        match learn(&self.caller, As::Service).await {
            Ok(Knowledge::Unsafe(reason)) => {
                self.turn_unsafe(&reason);
                false
            }
            Ok(Knowledge::Guarded) if self.config.mode == GravitinoMode::Snapshot => {
                self.unknown("the server refuses the gate's `credential` with 401".to_owned());
                false
            }
            // The gate itself cannot find out: what a caller taught is forgotten, so that the next one teaches it anew.
            Ok(Knowledge::Guarded) => {
                self.knew(Knowledge::Guarded);
                true
            }
            Ok(Knowledge::Unknown(reason)) => {
                self.unknown(reason);
                false
            }
            Ok(Knowledge::Known(known)) => {
                if !matches!(&**self.knowledge.load(), Knowledge::Known(old) if *old == known) {
                    tracing::info!("policy source: {known}");
                }
                self.knew(Knowledge::Known(known));
                true
            }
            Err(trouble) => {
                self.unknown(trouble.to_string());
                false
            }
        }
    }

    /// Trouble after a good trial changes nothing: each question tells for itself.
    fn unknown(&self, reason: String) {
        match &**self.knowledge.load() {
            Knowledge::Unknown(before) if *before != reason => {
                tracing::warn!(%reason, "the policy source does not answer")
            }
            Knowledge::Unknown(_) => {}
            Knowledge::Guarded | Knowledge::Known(_) | Knowledge::Unsafe(_) => return,
        }
        self.knew(Knowledge::Unknown(reason));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_number() {
        assert_eq!(parse("2.0.0-SNAPSHOT"), Some((2, 0)));
        assert_eq!(parse("1.10.0"), Some((1, 10)));
        assert_eq!(parse("1.3.1-SNAPSHOT"), Some((1, 3)));
        assert_eq!(parse("next"), None);
    }
}
