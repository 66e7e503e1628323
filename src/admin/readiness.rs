//! Ready means: keys and policy were there once, and the process is not ending.
//!
//! Trouble at a source later answers 503 by itself, and takes no pod away: all of them would see it at the same time.

use std::fmt;

use tokio::sync::watch;

/// What must have been there once, by name.
#[derive(Debug, Default)]
pub struct Readiness {
    state: watch::Sender<Report>,
}

/// One thing that must have been there once. It is not, until [`Check::ready`] says so; then for ever.
#[derive(Debug, Clone)]
pub struct Check {
    state: watch::Sender<Report>,
    index: usize,
}

/// Something whose state `/readyz?verbose` tells, and that readiness does not depend on.
pub struct Described {
    name: String,
    state: Box<dyn Fn() -> String + Send + Sync>,
}

/// The state of all checks at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Each check, in the order of registration.
    pub checks: Vec<CheckState>,
    /// Whether the process is ending.
    pub draining: bool,
}

/// The state of one check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckState {
    /// What must have been there, such as `keys of https://idp.example.com/`.
    pub name: String,
    /// Whether it was.
    pub ready: bool,
}

impl Readiness {
    /// Adds something to wait for. Register everything before serving starts: until then nothing is missing.
    pub fn register(&self, name: impl Into<String>) -> Check {
        let mut index = 0;
        self.state.send_modify(|report| {
            index = report.checks.len();
            report.checks.push(CheckState { name: name.into(), ready: false });
        });
        Check { state: self.state.clone(), index }
    }

    /// The process is ending: not ready from now on.
    pub fn drain(&self) {
        self.state.send_modify(|report| report.draining = true);
    }

    /// The state now.
    pub fn report(&self) -> Report {
        self.state.borrow().clone()
    }

    /// Waits until everything was there, or the process is ending. True: ready.
    pub async fn wait(&self) -> bool {
        let mut state = self.state.subscribe();
        let settled = state.wait_for(|report| report.draining || report.is_ready()).await;
        settled.is_ok_and(|report| report.is_ready())
    }
}

impl Check {
    /// It is there.
    pub fn ready(&self) {
        self.state.send_if_modified(|report| match report.checks.get_mut(self.index) {
            Some(check) => !std::mem::replace(&mut check.ready, true),
            None => false,
        });
    }
}

impl Described {
    /// `state` is asked each time.
    pub fn new<S: Into<String>>(name: String, state: impl Fn() -> S + Send + Sync + 'static) -> Self {
        Self { name, state: Box::new(move || state().into()) }
    }

    pub(super) fn line(&self) -> String {
        line(&self.name, &(self.state)())
    }
}

impl fmt::Debug for Described {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.line().trim_end())
    }
}

/// One line of the page. A peer may have chosen a part of it, and must not be able to write lines of its own.
pub(super) fn line(name: &str, state: &str) -> String {
    format!("{}: {}\n", printable(name), printable(state))
}

/// Control characters and what else breaks a line or changes its direction, escaped.
pub(crate) fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}') {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

impl Report {
    /// Whether requests should be sent here.
    pub fn is_ready(&self) -> bool {
        !self.draining && self.checks.iter().all(|check| check.ready)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_when_every_check_was_ready_once() {
        let readiness = Readiness::default();
        assert!(readiness.report().is_ready(), "nothing to wait for");
        let (keys, policy) = (readiness.register("keys"), readiness.register("policy"));
        assert!(!readiness.report().is_ready());
        keys.ready();
        keys.ready();
        assert!(!readiness.report().is_ready());
        policy.ready();
        assert!(readiness.report().is_ready());
        readiness.drain();
        assert!(!readiness.report().is_ready());
        keys.ready();
        assert!(!readiness.report().is_ready(), "ending is for ever");
    }

    #[test]
    fn what_a_peer_named_cannot_begin_a_line_of_its_own() {
        let named = "role a\r\npolicy of Gravitino: ready\u{85}\u{2028}\u{202e}\u{1b}[2J größe \\n";
        let described = Described::new("unreadable\nok".to_owned(), move || named);
        let expected =
            "unreadable\\nok: role a\\r\\npolicy of Gravitino: ready\\u{85}\\u{2028}\\u{202e}\\u{1b}[2J größe \\n\n";
        assert_eq!(described.line(), expected);
    }

    #[tokio::test]
    async fn waiting_ends_when_it_is_ready_or_ending() {
        let readiness = Readiness::default();
        let keys = readiness.register("keys");
        let (ready, ()) = tokio::join!(readiness.wait(), async { keys.ready() });
        assert!(ready);
        readiness.register("policy");
        let (ready, ()) = tokio::join!(readiness.wait(), async { readiness.drain() });
        assert!(!ready);
    }
}
