//! YAML → a value of a known shape. A wrong shape is one [`Fault`] with file, line and column, and says what would be
//! accepted there.

use std::path::Path;

use serde::de::DeserializeOwned;
use serde_saphyr::{Budget, Error, MessageFormatter, Options, UserMessageFormatter};

use super::fault::Fault;

/// Reads a value from YAML text; `file` is named in faults.
///
/// Keys that stand twice in a mapping are refused; so are unknown ones, where the shape says so.
///
/// # Errors
/// The first wrong place.
pub fn from_text<T: DeserializeOwned>(file: &Path, text: &str) -> Result<T, Fault> {
    serde_saphyr::from_str_with_options(text, options(text)).map_err(|error| fault(file, &error))
}

/// Room for every document whose text is already in memory: its nodes and events grow with its bytes. What aliases make
/// of a document keeps the parser's own bounds.
fn options(text: &str) -> Options {
    let bytes = text.len();
    let mut budget = Budget::default();
    budget.max_nodes = budget.max_nodes.max(bytes);
    budget.max_events = budget.max_events.max(bytes.saturating_mul(2));
    budget.max_total_scalar_bytes = budget.max_total_scalar_bytes.max(bytes);
    budget.max_total_comment_bytes = budget.max_total_comment_bytes.max(bytes);
    let mut options = Options::default();
    options.budget = Some(budget);
    options.with_snippet = false;
    options
}

fn fault(file: &Path, error: &Error) -> Fault {
    let place = match error.location() {
        Some(at) => format!("{}:{}:{}", file.display(), at.line(), at.column()),
        None => file.display().to_string(),
    };
    Fault::new(place, message(error))
}

/// What is wrong, in the words of someone who writes the file.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the enum is the parser's and grows; its own text serves for the rest"
)]
fn message(error: &Error) -> String {
    let text = match error {
        Error::Eof { .. } => "nothing stands here".to_owned(),
        Error::SerdeUnknownField { field, expected, .. } => {
            format!("unknown key `{field}`; accepted here: {}", expected.join(", "))
        }
        Error::SerdeUnknownVariant { variant, expected, .. } => {
            format!("`{variant}` is not accepted here; expected one of: {}", expected.join(", "))
        }
        Error::SerdeMissingField { field, .. } => format!("the key `{field}` is missing"),
        Error::DuplicateMappingKey { key: Some(key), .. } => format!("the key `{key}` stands here a second time"),
        Error::SerdeInvalidType { unexpected, expected, .. } => {
            format!("a {unexpected} stands here; expected {expected}")
        }
        Error::InvalidScalar { ty, .. } => format!("expected {}", scalar(ty)),
        Error::Unexpected { expected, .. } => format!("expected {}", node(expected)),
        Error::NullIntoString { .. } => "expected a text, and nothing stands here".to_owned(),
        Error::MultipleDocuments { .. } => "a second document begins; expected one".to_owned(),
        other => UserMessageFormatter.format_message(other).into_owned(),
    };
    text.replace(char::is_control, " ")
}

/// The parser names the number type of the shape, not what a person writes.
fn scalar(name: &str) -> &str {
    match name {
        "boolean" => "true or false",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number, 0 or more",
        other => other,
    }
}

/// The parser names its own events.
fn node(name: &str) -> &str {
    match name {
        "mapping start" => "a mapping, `key: value`",
        "sequence start" => "a list, `[item, item]` or lines of `- item`",
        "string scalar" => "a text",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_document_is_read_whole() {
        let text = "- 1\n".repeat(300_000);
        let read: Result<Vec<u8>, Fault> = from_text(Path::new("long.yaml"), &text);
        assert_eq!(read.map(|list| list.len()), Ok(300_000));
    }

    #[test]
    fn aliases_cannot_blow_a_document_up() {
        let mut text = "a: &l0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..9 {
            let list = vec![format!("*l{}", level - 1); 10].join(", ");
            text.push_str(&format!("l{level}: &l{level} [{list}]\n"));
        }
        let read: Result<serde_json::Value, Fault> = from_text(Path::new("bomb.yaml"), &text);
        let fault = read.unwrap_err();
        assert!(fault.place.starts_with("bomb.yaml:"), "{fault}");
    }

    #[test]
    fn what_a_key_holds_cannot_break_a_line_of_the_report() {
        let read: Result<super::super::Drain, Fault> = from_text(Path::new("f"), "\"a\\nb\\e\": 1\n");
        assert_eq!(read.unwrap_err().to_string(), "f:1:1: unknown key `a b `; accepted here: grace, deadline");
    }
}
