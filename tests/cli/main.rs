//! The built binary: exit codes, and which stream says what.
#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests stop the test")]

use std::process::Command;

use crate::support::{code, gate, text};

mod check;
mod demo;
mod explain;
mod run;
mod support;

const GOOD: &str = "\
listeners:
  - { address: 127.0.0.1:8080 }
auth: { issuers: [{ issuer: https://idp.test/, audiences: [lineage], jwks: http://127.0.0.1:1/keys }] }
policy: { mode: off }
upstreams:
  - { name: store, kind: file, path: events.jsonl }
";

#[test]
fn help_and_version_are_answers() {
    for arguments in [&["--help"][..], &["check", "--help"], &["--version"], &["-V"]] {
        let output = gate(arguments);
        assert_eq!(code(&output), Some(0), "{arguments:?}");
        assert!(text(&output.stdout).contains("lineage-gate"), "{arguments:?}");
        assert!(output.stderr.is_empty());
    }
    assert_eq!(text(&gate(&["--version"]).stdout), concat!("lineage-gate ", env!("CARGO_PKG_VERSION"), "\n"));
}

#[test]
fn a_wrong_command_line_ends_with_64() {
    let rows =
        [&[][..], &["serve"], &["run"], &["run", "--config"], &["check"], &["check", "a", "b"], &["schema", "x"]];
    for arguments in rows {
        let output = gate(arguments);
        assert_eq!(code(&output), Some(64), "{arguments:?}");
        assert!(output.stdout.is_empty() && text(&output.stderr).contains("--help"), "{arguments:?}");
    }
}

#[test]
fn a_missing_configuration_ends_with_65() {
    for arguments in [["check", "/nowhere/gate.yaml"].as_slice(), &["run", "--config", "/nowhere/gate.yaml"]] {
        let output = gate(arguments);
        assert_eq!(code(&output), Some(65), "{arguments:?}");
        assert!(text(&output.stderr).starts_with("/nowhere/gate.yaml: cannot be read: "), "{arguments:?}");
    }
}

#[test]
fn each_schema_is_one_json_document() {
    for (arguments, title) in [(&["schema"][..], "Config"), (&["schema", "--policy"], "PolicyFile")] {
        let output = gate(arguments);
        assert_eq!(code(&output), Some(0));
        let schema: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(schema["title"], title);
        assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    }
}

#[test]
fn a_reader_that_left_is_a_failure_and_no_panic() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = Command::new(env!("CARGO_BIN_EXE_lineage-gate")).arg("schema").stdout(writer).output().unwrap();
    assert_eq!(code(&output), Some(1));
    assert!(text(&output.stderr).starts_with("standard output: "), "{}", text(&output.stderr));
}
