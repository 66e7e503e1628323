//! `lineage-gate demo`: the main job, from any directory, twice at once, and by hand.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

fn demo(arguments: &[&str], directory: &std::path::Path) -> Child {
    Command::new(env!("CARGO_BIN_EXE_lineage-gate"))
        .arg("demo")
        .args(arguments)
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn it_works_from_any_directory_and_twice_at_once_and_leaves_nothing_behind() {
    let directory = tempfile::tempdir().unwrap();
    let both = [demo(&["--once"], directory.path()), demo(&["--once"], directory.path())];
    for one in both {
        let output = one.wait_with_output().unwrap();
        let told = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(0), "{told}");
        let answers = told.lines().filter(|line| line.contains('✓')).count();
        assert_eq!((answers, told.matches('✗').count()), (19, 0), "{told}");
        for shown in ["no_salaries denies", "owner of table", "columnLineage", "STREAM", "expired", "Retry-After 1"] {
            assert!(told.contains(shown), "{shown} is not in\n{told}");
        }
    }
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn what_it_prints_can_be_pasted_and_gets_the_same_answers_over_both_protocols() {
    let directory = tempfile::tempdir().unwrap();
    let mut demo = demo(&[], directory.path());
    let mut lines = BufReader::new(demo.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut pasted = 0;
    let mut folder = String::new();
    while let Some(line) = lines.next() {
        if let Some(path) = line.strip_prefix("configuration    ") {
            path.clone_into(&mut folder);
        }
        if line.starts_with("health ") {
            break;
        }
        let Some(expected) =
            line.strip_prefix("# ").map(|line| line.split([',', ':']).nth(1).unwrap().trim().to_owned())
        else {
            continue;
        };
        let command = lines.next().unwrap();
        assert!(command.starts_with("curl -i --cacert /"), "{command}");
        for (protocol, version) in [("--http1.1", "1.1"), ("--http2", "2")] {
            let shell = command.replacen(
                "curl -i",
                &format!("curl -s -o /dev/null -w '%{{http_code}} %{{http_version}}' {protocol}"),
                1,
            );
            let output = Command::new("sh").args(["-c", &shell]).output().unwrap();
            let told = String::from_utf8(output.stdout).unwrap();
            assert_eq!(told, format!("{expected} {version}"), "{line}");
        }
        pasted += 1;
    }
    assert_eq!(pasted, 17);
    assert!(std::path::Path::new(&folder).exists());
    assert!(Command::new("kill").args(["-s", "TERM", &demo.id().to_string()]).status().unwrap().success());
    assert_eq!(demo.wait().unwrap().code(), Some(0));
    assert!(!std::path::Path::new(&folder).exists(), "keys and tokens go with the demonstration");
}
