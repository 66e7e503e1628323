//! Bytes on the wire that a strict gate must not take, and early answers that must arrive.

use std::fs;
use std::process::Stdio;

use http::StatusCode;
use tokio::process::Command;

use crate::support::client;
use crate::support::events::run;
use crate::support::gate::{Gate, Setup};

/// Heads that servers disagree about: each is answered 400 and the connection is closed.
fn smuggled(token: &str) -> Vec<(&'static str, String)> {
    let head = |lines: &str| {
        format!(
            "POST /api/lineage HTTP/1.1\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n{lines}\r\n"
        )
    };
    vec![
        ("length and chunked", head("Host: localhost\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n")),
        ("two lengths", head("Host: localhost\r\nContent-Length: 2\r\nContent-Length: 2\r\n")),
        ("other coding", head("Host: localhost\r\nTransfer-Encoding: gzip, chunked\r\n")),
        ("folded line", head("Host: localhost\r\nX-A: 1\r\n 2\r\nContent-Length: 2\r\n")),
        ("bare LF", head("Host: localhost\nContent-Length: 2\r\n")),
        ("NUL", head("Host: localhost\r\nX-A: \0\r\nContent-Length: 2\r\n")),
        ("no Host", head("Content-Length: 2\r\n")),
        ("two Hosts", head("Host: localhost\r\nHost: other\r\nContent-Length: 2\r\n")),
    ]
}

fn good(token: &str) -> String {
    let body = run(&[], &[]);
    format!(
        "POST /api/lineage HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nContent-Type: \
         application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

#[tokio::test]
async fn heads_that_servers_disagree_about_are_refused_also_behind_a_good_request() {
    let gate = Setup::new().start().await;
    let token = gate.token("alice");
    for (what, bad) in smuggled(&token) {
        let alone = client::raw(gate.address, &gate.ca(), format!("{bad}{{}}").as_bytes()).await;
        assert!(alone.starts_with("HTTP/1.1 400 Bad Request: "), "{what}: {alone}");
        let pipelined = format!("{}{bad}{{}}{}", good(&token), good(&token));
        let answers = client::raw(gate.address, &gate.ca(), pipelined.as_bytes()).await;
        let statuses: Vec<&str> = answers.match_indices("HTTP/1.1 ").map(|(at, _)| &answers[at + 9..at + 12]).collect();
        assert_eq!(statuses, ["201", "400"], "{what}: {answers}");
        assert!(answers.to_ascii_lowercase().contains("connection: close"), "{what}");
    }
}

/// What curl shows of an answer that comes before the body was read.
async fn curl(gate: &Gate, version: &str, body: &std::path::Path) -> (i32, String) {
    let output = Command::new("curl")
        .args(["--silent", "--show-error", version, "--output", "/dev/null", "--write-out", "%{http_code}", "--cacert"])
        .arg(gate.ca())
        .args(["--header", "Content-Type: application/json", "--header", "Authorization: Bearer not.a.token"])
        .args(["--data-binary", &format!("@{}", body.display())])
        .arg(format!("https://localhost:{}/api/lineage", gate.address.port()))
        .stdin(Stdio::null())
        .output()
        .await
        .unwrap();
    (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
}

#[tokio::test]
async fn an_early_refusal_reaches_curl_ten_times_of_ten() {
    let gate = Setup::new().start().await;
    for size in [2 << 10, 2 << 20] {
        let body = gate.path("body.json");
        fs::write(&body, vec![b' '; size]).unwrap();
        for version in ["--http1.1", "--http2"] {
            for _ in 0..10 {
                let shown = curl(&gate, version, &body).await;
                assert_eq!(shown, (0, StatusCode::UNAUTHORIZED.as_str().to_owned()), "{size} bytes over {version}");
            }
        }
    }
}
