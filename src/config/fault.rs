//! One thing that is wrong with a file of the operator's.

use std::fmt;
use std::path::Path;

/// What is wrong, and where: `gate.yaml:3:5: unknown key ...`, or `gate.yaml: listeners[0].tls: ...`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// `FILE:LINE:COLUMN`, the key, or `FILE: KEY`.
    pub place: String,
    /// What is wrong there and what to do, without a final stop.
    pub message: String,
}

impl Fault {
    /// A fault at a place.
    pub fn new(place: impl Into<String>, message: impl Into<String>) -> Self {
        Self { place: place.into(), message: message.into() }
    }

    /// The same fault, with the file that its key stands in.
    #[must_use]
    pub fn within(self, file: &Path) -> Self {
        Self { place: format!("{}: {}", file.display(), self.place), message: self.message }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

impl std::error::Error for Fault {}
