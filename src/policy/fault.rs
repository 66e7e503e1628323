//! What is wrong with a policy, and where.

use std::fmt;
use std::path::PathBuf;

/// A fault of a policy file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The file, as it was named.
    pub file: PathBuf,
    /// Where in it.
    pub place: Place,
    /// What is wrong, and what to do.
    pub message: String,
}

/// A place in a policy file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// The file as a whole.
    Whole,
    /// Line and column, from 1.
    Line {
        /// The line.
        line: u64,
        /// The column.
        column: u64,
    },
    /// A path of keys, such as `metalakes[0].roles[2].grants[0]`.
    Path(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.file.display())?;
        match &self.place {
            Place::Whole => {}
            Place::Line { line, column } => write!(f, "{line}:{column}:")?,
            Place::Path(path) => write!(f, " {path}:")?,
        }
        write!(f, " {}", self.message)
    }
}

impl std::error::Error for Fault {}
