use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};

use super::*;

const TOKEN: &str = "0123456789abcdef0123";

fn admin(address: &str, token_file: Option<PathBuf>) -> config::Admin {
    config::Admin { address: address.parse().expect("an address"), token_file }
}

fn effective() -> serde_json::Value {
    json!({ "upstreams": [{ "url": "http://user:secret@marquez:5000" }], "admin": { "token_file": "/run/token" } })
}

async fn start(config: &config::Admin) -> (Address, Arc<State>, CancellationToken) {
    let bound = bind(config).await.expect("bound");
    let address = bound.address().clone();
    let state = Arc::new(State::load(config, effective()).expect("a state"));
    let shutdown = CancellationToken::new();
    tokio::spawn(serve(bound, Arc::clone(&state), serve::Metrics::default(), shutdown.clone()));
    (address, state, shutdown)
}

/// Sends a head's lines, and returns status and the whole answer.
async fn send(stream: &mut (impl AsyncWrite + AsyncReadExt + Unpin), lines: &[&str]) -> (u16, String) {
    let request = format!("{}\r\nConnection: close\r\n\r\n", lines.join("\r\n"));
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("answered");
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    (status, answer)
}

async fn send_tcp(address: &Address, lines: &[&str]) -> (u16, String) {
    let Address::Tcp(address) = address else { panic!("a TCP address") };
    send(&mut TcpStream::connect(address).await.expect("connected"), lines).await
}

fn token_file(folder: &tempfile::TempDir) -> PathBuf {
    let path = folder.path().join("token");
    std::fs::write(&path, TOKEN).expect("written");
    path
}

#[tokio::test]
async fn the_token_opens_the_configuration_without_its_secrets() {
    let folder = tempfile::tempdir().expect("a folder");
    let (address, _, _shutdown) = start(&admin("127.0.0.1:0", Some(token_file(&folder)))).await;
    let authorization = format!("Authorization: bearer {TOKEN}");
    let get = ["GET /config HTTP/1.1", "Host: localhost:9901", &authorization];
    let (status, answer) = send_tcp(&address, &get).await;
    assert_eq!(status, 200);
    assert!(answer.contains("\r\ncontent-type: application/json\r\n"), "{answer}");
    assert!(answer.contains("http://***@marquez:5000") && !answer.contains("secret"), "{answer}");
    assert!(answer.contains("/run/token"), "{answer}");
    for (line, expected) in [("POST /config HTTP/1.1", 405), ("GET / HTTP/1.1", 404), ("GET /config/ HTTP/1.1", 404)] {
        assert_eq!(send_tcp(&address, &[line, "Host: localhost", &authorization]).await.0, expected, "{line}");
    }
}

#[tokio::test]
async fn nothing_is_told_without_the_right_token() {
    let folder = tempfile::tempdir().expect("a folder");
    let (address, _, _shutdown) = start(&admin("127.0.0.1:0", Some(token_file(&folder)))).await;
    let right = format!("Authorization: Bearer {TOKEN}");
    let cases: [&[&str]; 7] = [
        &[],
        &["Authorization: Bearer"],
        &["Authorization: Bearer "],
        &["Authorization: Bearer 0123456789abcdef0124"],
        &["Authorization: Basic 0123456789abcdef0123"],
        &["Authorization: 0123456789abcdef0123"],
        &[&right, &right],
    ];
    for headers in cases {
        for target in ["/config", "/other"] {
            let line = format!("GET {target} HTTP/1.1");
            let lines: Vec<&str> =
                [line.as_str(), "Host: localhost"].into_iter().chain(headers.iter().copied()).collect();
            let (status, answer) = send_tcp(&address, &lines).await;
            assert_eq!(status, 401, "{lines:?}");
            assert!(answer.contains("\r\nwww-authenticate: Bearer\r\n"), "{answer}");
        }
    }
}

#[tokio::test]
async fn a_browser_that_another_site_sent_gets_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let (address, _, _shutdown) = start(&admin("127.0.0.1:0", Some(token_file(&folder)))).await;
    let authorization = format!("Authorization: Bearer {TOKEN}");
    let cases: [(&[&str], u16); 17] = [
        (&["Host: localhost"], 200),
        (&["Host: LOCALHOST:1"], 200),
        (&["Host: 127.0.0.1:9901"], 200),
        (&["Host: 127.9.9.9"], 200),
        (&["Host: [::1]:9901"], 200),
        (&["Host: localhost:9901", "Origin: http://localhost:9901"], 200),
        (&["Host: rebound.example.com:9901"], 403),
        (&["Host: localhost.example.com"], 403),
        (&["Host: 10.0.0.1"], 403),
        (&["Host: localhost@example.com"], 403),
        (&["Host: "], 403),
        (&[], 403),
        (&["Host: localhost", "Host: localhost"], 403),
        (&["Host: localhost:9901", "Origin: http://localhost:9902"], 403),
        (&["Host: localhost:9901", "Origin: https://example.com"], 403),
        (&["Host: localhost:9901", "Origin: null"], 403),
        (&["Host: localhost", "Origin: http://localhost", "Origin: http://localhost"], 403),
    ];
    for (headers, expected) in cases {
        let lines: Vec<&str> =
            ["GET /config HTTP/1.1", &authorization].into_iter().chain(headers.iter().copied()).collect();
        assert_eq!(send_tcp(&address, &lines).await.0, expected, "{headers:?}");
    }
    let absolute = ["GET http://rebound.example.com/config HTTP/1.1", "Host: localhost", &authorization];
    assert_eq!(send_tcp(&address, &absolute).await.0, 403);
}

#[tokio::test]
async fn a_new_token_is_taken_from_its_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = token_file(&folder);
    let (address, state, _shutdown) = start(&admin("127.0.0.1:0", Some(path.clone()))).await;
    let target = state.reload_target().expect("a target");
    assert_eq!(target.paths, std::slice::from_ref(&path));
    std::fs::write(&path, "another-token-of-more-than-16").expect("written");
    assert_eq!((target.reload)(), Ok(true));
    let status = async |token: &str| {
        let authorization = format!("Authorization: Bearer {token}");
        send_tcp(&address, &["GET /config HTTP/1.1", "Host: localhost", &authorization]).await.0
    };
    assert_eq!(status("another-token-of-more-than-16").await, 200);
    assert_eq!(status(TOKEN).await, 401);
}

#[tokio::test]
async fn a_unix_socket_needs_no_token_but_honours_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("control.sock");
    let address = format!("unix:{}", path.display());
    let get = ["GET /config HTTP/1.1", "Host: anything"];
    let (_, state, shutdown) = start(&admin(&address, None)).await;
    assert!(state.reload_target().is_none());
    assert_eq!(send(&mut UnixStream::connect(&path).await.expect("connected"), &get).await.0, 200);
    let from_page = ["GET /config HTTP/1.1", "Host: anything", "Origin: http://example.com"];
    assert_eq!(send(&mut UnixStream::connect(&path).await.expect("connected"), &from_page).await.0, 403);
    shutdown.cancel();
    while path.exists() {
        tokio::task::yield_now().await;
    }
    let (_, _, _shutdown) = start(&admin(&address, Some(token_file(&folder)))).await;
    assert_eq!(send(&mut UnixStream::connect(&path).await.expect("connected"), &get).await.0, 401);
}

#[tokio::test]
async fn what_others_could_reach_or_use_is_refused_before_it_listens() {
    let folder = tempfile::tempdir().expect("a folder");
    let error = bind(&admin("0.0.0.0:0", Some(token_file(&folder)))).await.expect_err("not loopback");
    assert!(matches!(error, Error::NotLoopback(_)), "{error}");
    let error = State::load(&admin("127.0.0.1:0", None), effective()).expect_err("no token");
    assert!(matches!(error, Error::NoToken(_)), "{error}");
    std::fs::write(folder.path().join("token"), "short").expect("written");
    let error = State::load(&admin("127.0.0.1:0", Some(folder.path().join("token"))), effective()).expect_err("short");
    assert!(error.to_string().starts_with("admin.token_file: "), "{error}");
}
