//! A server in every kind of trouble: none lets anything through, and the next question may be answered again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::HeaderValue;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::policy::{ActiveRoles, ObjectType};

use super::super::{Answer, Asker, Question, State, Trouble};
use super::double::{Double, header, reply};

const YES: &str = "HTTP/1.1 200 x\r\nContent-Length: 10\r\n\r\n{\"code\":0}";

/// The answers to trial calls of a server of the main branch; nothing for other questions.
fn trial(head: &str) -> Option<String> {
    if head.contains("/lineage-gate-trial/") {
        return Some(reply(403, "", r#"{"code":1008,"type":"ForbiddenException","message":"no"}"#));
    }
    if !head.contains(" /api/version ") {
        return None;
    }
    Some(match header(head, "x-gravitino-active-roles") {
        Some(_) => reply(400, "", r#"{"code":1001,"type":"IllegalActiveRolesException","message":"no"}"#),
        None => reply(200, "", r#"{"code":0,"version":{"version":"2.0.0"}}"#),
    })
}

async fn ask(gravitino: &super::super::Gravitino) -> Result<Answer, Trouble> {
    let authorization = HeaderValue::from_static("Bearer callers-own");
    let roles = ActiveRoles::All;
    let asker = Asker { authorization: Some(&authorization), active_roles: None, roles: &roles, subject: "alice" };
    let question = Question::Visible { metalake: "demo".into(), kind: ObjectType::Table, name: "lake.s.t".into() };
    gravitino.ask(&asker, &question).await
}

#[tokio::test]
async fn every_kind_of_trouble_is_told_and_forgotten_once_the_server_is_back() {
    let json = "Content-Type: application/json\r\n";
    let page = "<html><body>login</body></html>";
    let rows: Vec<(&str, String, &str)> = vec![
        ("401 of something else", reply(401, "", page), "answered 401"),
        ("403 of something else", reply(403, json, r#"{"status":"403"}"#), "answered 403"),
        ("405", reply(405, "", page), "answered 405"),
        ("406", reply(406, "", ""), "Accept"),
        ("409", reply(409, "", ""), "answered 409"),
        ("429", reply(429, json, r#"{"status":"429"}"#), "too many"),
        ("500", reply(500, json, r#"{"code":1002,"message":"boom"}"#), "boom"),
        ("500 without a body", reply(500, "", ""), "empty body"),
        ("503", reply(503, "", page), "answered 503"),
        ("HTML", reply(200, "Content-Type: text/html\r\n", page), "not Gravitino's"),
        ("web-server JSON", reply(200, json, r#"{"status":"200"}"#), "not Gravitino's"),
        ("an empty body", reply(200, "", ""), "empty body"),
        (
            "half a body",
            "HTTP/1.1 200 x\r\nContent-Length: 99\r\nConnection: close\r\n\r\n{\"code\":0}".into(),
            "broke off",
        ),
        ("a body without end", reply(200, "", &" ".repeat(70_000)), "too large"),
        ("a redirect", reply(302, "Location: http://127.0.0.1:1/\r\n", ""), "redirect"),
        ("no HTTP", "hello\r\n\r\n Connection: close".into(), "HTTP/1.1"),
        ("silence", String::new(), "in time"),
    ];
    for (what, bytes, words) in rows {
        let well = Arc::new(AtomicBool::new(false));
        let now = Arc::clone(&well);
        let double = Double::serve(move |head| {
            trial(head).unwrap_or_else(|| if now.load(Ordering::SeqCst) { YES.to_owned() } else { bytes.clone() })
        })
        .await;
        let gravitino = double.gravitino(json!({ "timeout": "300ms", "connect_timeout": "200ms" }));
        let trouble = ask(&gravitino).await.expect_err(what);
        assert_ne!(trouble, Trouble::CallerUnauthenticated, "{what}");
        let text = trouble.to_string();
        assert!(text.contains(words) && text.contains("127.0.0.1"), "{what}: {text}");
        assert!(!text.contains("callers-own"), "{what}: {text}");
        assert!(matches!(gravitino.state(), State::Ready(_)), "{what}");
        well.store(true, Ordering::SeqCst);
        assert_eq!(ask(&gravitino).await, Ok(Answer::Yes), "{what}");
    }
}

#[tokio::test]
async fn the_callers_own_401_and_403_are_its_verdict() {
    let unauthorized = r#"{"code":1011,"type":"TokenExpiredException","message":"expired"}"#;
    let double = Double::serve(move |head| trial(head).unwrap_or_else(|| reply(401, "", unauthorized))).await;
    assert_eq!(ask(&double.gravitino(json!({}))).await, Err(Trouble::CallerUnauthenticated));
    let double = Double::serve(move |_| reply(401, "", unauthorized)).await;
    assert_eq!(ask(&double.gravitino(json!({}))).await, Err(Trouble::CallerUnauthenticated));
    let forbidden = r#"{"code":1008,"type":"ForbiddenException","message":"no"}"#;
    let double = Double::serve(move |head| trial(head).unwrap_or_else(|| reply(403, "", forbidden))).await;
    assert_eq!(ask(&double.gravitino(json!({}))).await, Ok(Answer::No));
}

#[tokio::test]
async fn a_closed_idle_connection_costs_no_question() {
    let last = "HTTP/1.1 200 x\r\nContent-Length: 10\r\nX: Connection: close\r\n\r\n{\"code\":0}";
    let double = Double::serve(move |head| trial(head).unwrap_or_else(|| last.to_owned())).await;
    let gravitino = double.gravitino(json!({}));
    for _ in 0..20 {
        assert_eq!(ask(&gravitino).await, Ok(Answer::Yes));
    }
}

#[tokio::test]
async fn unsafe_servers_are_refused_with_the_reason() {
    let off = r#"{"code":1006,"type":"UnsupportedOperationException","message":"off"}"#;
    let missing = r#"{"code":1003,"type":"NoSuchMetalakeException","message":"m"}"#;
    for (status, body, words) in [(405, off, "authorization.enable=false"), (404, missing, "1.0")] {
        let double = Double::serve(move |_| reply(status, "", body)).await;
        let gravitino = double.gravitino(json!({}));
        assert!(!gravitino.try_once().await);
        let State::Unsafe(reason) = gravitino.state() else { panic!("unsafe") };
        assert!(reason.contains(words), "{reason}");
        let before = double.count();
        assert!(ask(&gravitino).await.expect_err("refused").to_string().contains(words));
        assert_eq!(double.count(), before);
    }
}

#[tokio::test]
async fn a_server_that_is_turned_off_while_the_gate_runs_is_found_out_by_a_trial() {
    let off = r#"{"code":1006,"type":"UnsupportedOperationException","message":"off"}"#;
    let is_off = Arc::new(AtomicBool::new(false));
    let switch = Arc::clone(&is_off);
    let double = Double::serve(move |head| {
        trial(head).filter(|_| !switch.load(Ordering::SeqCst)).unwrap_or_else(|| reply(405, "", off))
    })
    .await;
    let gravitino = double.gravitino(json!({}));
    assert!(gravitino.try_once().await);
    // One answer alone is no word about all callers.
    let Err(Trouble::Rejected(text)) = ask(&gravitino).await else { panic!("no decision") };
    assert!(text.contains("405"), "{text}");
    assert!(matches!(gravitino.state(), State::Ready(_)));
    is_off.store(true, Ordering::SeqCst);
    let Err(Trouble::Unavailable(text)) = ask(&gravitino).await else { panic!("no decision") };
    assert!(text.contains("authorization.enable=false"), "{text}");
    assert!(matches!(gravitino.state(), State::Unsafe(_)));
    is_off.store(false, Ordering::SeqCst);
    assert!(gravitino.try_once().await, "a trial finds it turned on again");
    assert!(matches!(gravitino.state(), State::Ready(_)));
}

#[tokio::test]
async fn after_a_question_found_it_unsafe_a_server_is_tried_again_soon() {
    let off = r#"{"code":1006,"type":"UnsupportedOperationException","message":"off"}"#;
    let is_off = Arc::new(AtomicBool::new(false));
    let switch = Arc::clone(&is_off);
    let double = Double::serve(move |head| match switch.load(Ordering::SeqCst) {
        true => reply(405, "", off),
        false => trial(head).unwrap_or_else(|| YES.to_owned()),
    })
    .await;
    let gravitino = Arc::new(double.gravitino(json!({})));
    let shutdown = CancellationToken::new();
    gravitino.spawn(&shutdown);
    let is_ready = async || {
        while !matches!(gravitino.state(), State::Ready(_)) {
            tokio::task::yield_now().await;
        }
    };
    is_ready().await;
    is_off.store(true, Ordering::SeqCst);
    assert!(ask(&gravitino).await.is_err());
    assert!(matches!(gravitino.state(), State::Unsafe(_)));
    is_off.store(false, Ordering::SeqCst);
    // A server that is known is tried only each 30 s.
    tokio::time::timeout(Duration::from_secs(20), is_ready()).await.expect("soon");
    assert_eq!(ask(&gravitino).await, Ok(Answer::Yes));
    shutdown.cancel();
}

#[tokio::test]
async fn the_server_is_asked_in_the_one_way_that_all_versions_answer() {
    let double = Double::serve(|head| {
        assert_eq!(header(head, "accept"), Some("application/vnd.gravitino.v1+json, application/json"));
        assert_eq!(header(head, "authorization"), Some("Bearer callers-own"));
        trial(head).unwrap_or_else(|| YES.to_owned())
    })
    .await;
    assert_eq!(ask(&double.gravitino(json!({}))).await, Ok(Answer::Yes));
    let asked = double.asked.lock().unwrap();
    assert_eq!(asked.last().map(String::as_str), Some("/api/metalakes/demo/owners/table/lake.s.t"));
}
