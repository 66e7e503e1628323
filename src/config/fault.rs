//! One thing that is wrong with a file of the operator's.

use std::fmt;
use std::path::Path;

/// What is wrong, and where: `gate.yaml:3:5: unknown key ...`, or `gate.yaml: listeners[0].tls: ...`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// `FILE:LINE:COLUMN`, the key, or `FILE: KEY`. Files are absolute, but for the configuration's own.
    pub place: String,
    /// What is wrong there and what to do, without a final stop.
    pub message: String,
}

impl Fault {
    /// A fault at a place.
    pub fn new(place: impl Into<String>, message: impl Into<String>) -> Self {
        Self { place: place.into(), message: message.into() }
    }

    /// A fault that a stage told in one text, `KEY: MESSAGE`.
    pub fn told(text: &str) -> Self {
        let (place, message) = text.split_once(": ").unwrap_or(("", text));
        Self::new(place, message)
    }

    /// The same fault, with the file that its key stands in. One that names a file of its own stays as it is.
    #[must_use]
    pub fn within(self, file: &Path) -> Self {
        if Path::new(&self.place).is_absolute() {
            return self;
        }
        let file = file.display();
        let place = if self.place.is_empty() { file.to_string() } else { format!("{file}: {}", self.place) };
        Self { place, message: self.message }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.place.is_empty() {
            return f.write_str(&self.message);
        }
        write!(f, "{}: {}", self.place, self.message)
    }
}

impl std::error::Error for Fault {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_stage_told_reads_the_same_with_its_file_in_front() {
        for text in ["limits[0].name: `a:b: c` is no name", "nobody could call"] {
            assert_eq!(Fault::told(text).to_string(), text);
            assert_eq!(Fault::told(text).within(Path::new("gate.yaml")).to_string(), format!("gate.yaml: {text}"));
        }
        let of_another_file = "/etc/policies/demo.yaml:3:5: unknown key";
        assert_eq!(Fault::told(of_another_file).within(Path::new("gate.yaml")).to_string(), of_another_file);
    }
}
