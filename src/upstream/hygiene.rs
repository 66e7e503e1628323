//! What of a backend's words a caller may read (facts: backends 2.3, "Message hygiene").

/// Characters that a message keeps.
const LONGEST: usize = 512;

/// Marks of pages, stacks, class names and database errors. All lower case; compared without regard to case.
const INTERNAL: [&str; 20] = [
    "<html",
    "<!doctype",
    "org.postgresql",
    "exception",
    "traceback (most recent call last)",
    "goroutine ",
    "\tat ",
    "\n at ",
    "\n    at ",
    "java.",
    "javax.",
    "com.fasterxml.",
    "marquez.service",
    "streamreadfeature",
    "at [source",
    "[source: redacted",
    "jdbc:",
    "sqlstate",
    "insert into",
    "delete from",
];

/// The message without control characters and cut to 512 characters, or nothing where it shows what is inside the
/// backend: pages, stacks, SQL, URLs with credentials, its own host or port.
pub(super) fn clean(message: &str, host: &str, port: u16) -> Option<String> {
    let lower = message.to_lowercase();
    let internal = INTERNAL.iter().any(|mark| lower.contains(mark));
    if internal || is_sql(&lower) || has_credentials(message) || names_place(&lower, host, port) {
        return None;
    }
    let kept: String = message.chars().map(plain).take(LONGEST).collect();
    let kept = kept.trim();
    (!kept.is_empty()).then(|| kept.to_owned())
}

/// Line breaks become spaces, so that words stay apart; other control characters, and those that turn the direction of
/// text, become `\u{fffd}`.
fn plain(c: char) -> char {
    match c {
        '\n' | '\r' | '\t' | '\u{2028}' | '\u{2029}' => ' ',
        '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
        c if c.is_control() => '\u{fffd}',
        c => c,
    }
}

fn is_sql(lower: &str) -> bool {
    let follows = |first: &str, then: &str| lower.split_once(first).is_some_and(|(_, rest)| rest.contains(then));
    follows("select ", " from ") || follows("update ", " set ")
}

fn has_credentials(message: &str) -> bool {
    message.split("://").skip(1).any(|rest| {
        let authority = rest.split(|c: char| c == '/' || c.is_whitespace()).next().unwrap_or_default();
        authority.contains('@')
    })
}

fn names_place(lower: &str, host: &str, port: u16) -> bool {
    let port = format!(":{port}");
    let names_port = lower.match_indices(&port).any(|(at, _)| {
        !lower.get(at + port.len()..).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    });
    names_port || lower.contains(&host.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_about_the_event_are_kept() {
        for message in [
            "run.runId is required",
            "inputs[0].namespace must match job.namespace 'ml'",
            "Unsupported dataset type: X",
            "Cannot create a namespace with null or empty level",
            "größe ✓ is no name; selected updates from 8090",
        ] {
            assert_eq!(clean(message, "gravitino.example", 8090).as_deref(), Some(message));
        }
    }

    #[test]
    fn words_about_the_inside_are_dropped() {
        for message in [
            "<html><body>Bad Request</body></html>",
            "<!DOCTYPE HTML>",
            "org.postgresql.util.PSQLException: Connection to db:5432 refused",
            "NullPointerException",
            "boom\n\tat com.acme.Main(Main.java:1)",
            "Cannot deserialize value of type `java.time.ZonedDateTime`",
            "Cannot construct instance of `marquez.service.models.LineageEvent`",
            "Unexpected end-of-input\n at [Source: REDACTED; line: 1, column: 2]",
            "String value length (20054016) exceeds the maximum allowed (from `StreamReadConstraints.x`, StreamReadFeature)",
            "SELECT * FROM runs WHERE id = 1",
            "update runs set x = 1",
            "INSERT INTO runs VALUES (1)",
            "Traceback (most recent call last)",
            "see https://user:secret@example.com/x",
            "call http://token@h now",
            "Connection to GRAVITINO.example refused",
            "no route to 10.0.0.7:8090",
            "10.0.0.7:8090.",
        ] {
            assert_eq!(clean(message, "gravitino.example", 8090), None, "{message}");
        }
    }

    #[test]
    fn control_characters_are_stripped_and_the_length_is_cut_at_a_character() {
        assert_eq!(
            clean("a\r\nb\u{0}c\u{1b}[31m\u{202e}", "h.example", 1).as_deref(),
            Some("a  b\u{fffd}c\u{fffd}[31m\u{fffd}")
        );
        let cut = clean(&"é".repeat(600), "h.example", 1).unwrap();
        assert_eq!(cut, "é".repeat(512));
        assert_eq!(clean(" \n ", "h.example", 1), None);
        assert_eq!(clean("port :80901 is another", "h.example", 8090).as_deref(), Some("port :80901 is another"));
    }
}
