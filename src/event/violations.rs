//! What is wrong with an event, in one short message.

use std::fmt;

/// Violations that a message names.
const NAMED: usize = 10;

/// Characters of a message.
const LONGEST: usize = 512;

/// The room that `; and 16777216 more` takes.
const REST: usize = 24;

/// Violations in order; those over the bound are only counted.
#[derive(Debug, Default)]
pub(super) struct Violations {
    named: Vec<String>,
    more: usize,
}

impl Violations {
    /// Adds one.
    pub(super) fn push(&mut self, violation: impl FnOnce() -> String) {
        if self.named.len() < NAMED {
            self.named.push(violation());
        } else {
            self.more += 1;
        }
    }

    /// Adds all of `others`.
    pub(super) fn append(&mut self, others: Self) {
        for violation in others.named {
            self.push(|| violation);
        }
        self.more += others.more;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.named.is_empty()
    }
}

impl fmt::Display for Violations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut left = LONGEST - REST;
        let mut more = self.more;
        for (index, violation) in self.named.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            let length = separator.len() + violation.chars().count();
            if length > left {
                more += self.named.len() - index;
                break;
            }
            left -= length;
            write!(f, "{separator}{violation}")?;
        }
        if more > 0 { write!(f, "; and {more} more") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_names_ten_and_counts_the_rest() {
        let mut violations = Violations::default();
        for index in 0..12 {
            violations.push(|| format!("v{index}"));
        }
        let mut all = Violations::default();
        all.push(|| "first".to_owned());
        all.append(violations);
        assert_eq!(all.to_string(), "first; v0; v1; v2; v3; v4; v5; v6; v7; v8; and 3 more");
    }

    #[test]
    fn a_message_stays_under_512_characters() {
        let mut violations = Violations::default();
        for _ in 0..100 {
            violations.push(|| "x".repeat(200));
        }
        let message = violations.to_string();
        assert!(message.ends_with("; and 98 more"));
        assert!(message.chars().count() <= LONGEST);
    }
}
