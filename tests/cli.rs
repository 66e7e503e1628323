//! The built binary: exit codes, and which stream says what.
#![expect(clippy::unwrap_used, reason = "helpers of tests stop the test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const GOOD: &str = "\
listeners:
  - { address: 127.0.0.1:8080 }
auth: { issuers: [{ issuer: https://idp.test/, audiences: [lineage], jwks: http://127.0.0.1:1/keys }] }
policy: { mode: off }
upstreams:
  - { name: store, kind: file, path: events.jsonl }
";

fn gate(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lineage-gate")).args(arguments).output().unwrap()
}

fn code(output: &Output) -> Option<i32> {
    output.status.code()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// A directory with `gate.yaml`.
fn directory(config: &str) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("gate.yaml");
    fs::write(&path, config).unwrap();
    (directory, path)
}

fn shown(path: &Path) -> &str {
    path.to_str().unwrap()
}

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
fn a_good_configuration_is_checked_with_one_line() {
    let (_directory, path) = directory(GOOD);
    let output = gate(&["check", shown(&path)]);
    assert_eq!(text(&output.stderr), "");
    let expected = "listeners 127.0.0.1:8080; 1 issuer(s), 0 limit(s); upstream store";
    assert_eq!(text(&output.stdout), format!("ok: {}: {expected}\n", path.display()));
    assert_eq!(code(&output), Some(0));
}

#[test]
fn a_wrong_shape_ends_with_65_and_its_place() {
    let (_directory, path) = directory(&GOOD.replace("mode: off", "mode: sometimes"));
    let expected = "`sometimes` is not accepted here; expected one of: enforce, shadow, off";
    for arguments in [["check", shown(&path)].as_slice(), &["run", "--config", shown(&path)]] {
        let output = gate(arguments);
        assert_eq!(code(&output), Some(65), "{arguments:?}");
        assert_eq!(text(&output.stderr), format!("{}:4:17: {expected}\n", path.display()));
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn all_faults_of_meaning_are_told_together() {
    let broken = GOOD.replace("127.0.0.1:8080", "0.0.0.0:8080").replace("path: events.jsonl", "path: missing/e.jsonl");
    let (directory, path) = directory(&format!("{broken}drain: {{ grace: 1m }}\n"));
    let output = gate(&["check", shown(&path)]);
    assert_eq!(code(&output), Some(65));
    let places: Vec<&str> = text(&output.stderr).lines().filter_map(|line| line.split(": ").nth(1)).collect();
    assert_eq!(places, ["listeners[0].tls", "drain.grace", "upstreams[0].path"]);
    assert!(!directory.path().join("events.jsonl").exists());
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
fn the_schema_is_one_json_document() {
    let output = gate(&["schema"]);
    assert_eq!(code(&output), Some(0));
    let schema: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(schema["title"], "Config");
}

#[test]
fn a_reader_that_left_is_a_failure_and_no_panic() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = Command::new(env!("CARGO_BIN_EXE_lineage-gate")).arg("schema").stdout(writer).output().unwrap();
    assert_eq!(code(&output), Some(1));
    assert!(text(&output.stderr).starts_with("standard output: "), "{}", text(&output.stderr));
}
