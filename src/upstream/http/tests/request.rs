//! What a backend is sent, and what of it is the caller's.

use crate::upstream::fake::Seen;

use super::*;

/// What a backend sees of one delivery, and the outcome of its answer.
async fn seen_by(kind: &str, more: serde_json::Value, status: u16) -> (Seen, Outcome) {
    seen_by_one_that_says(kind, more, status, "").await
}

async fn seen_by_one_that_says(kind: &str, more: serde_json::Value, status: u16, body: &str) -> (Seen, Outcome) {
    let (listener, port) = listen().await;
    let upstream = upstream(kind, &format!("http://127.0.0.1:{port}"), more);
    let backend = async {
        let mut stream = accept(&listener).await;
        let seen = read_request(&mut stream).await.unwrap();
        answer(&mut stream, status, "", body).await;
        seen
    };
    let event = delivery(r#"{"a" : 1}"#);
    tokio::join!(backend, upstream.send(&event))
}

/// The names and values of a request's headers, in small letters and in order.
fn headers(seen: &Seen) -> Vec<String> {
    let mut lines: Vec<String> =
        seen.head.lines().skip(1).filter(|line| !line.is_empty()).map(str::to_ascii_lowercase).collect();
    lines.sort();
    lines
}

#[tokio::test]
async fn an_openlineage_endpoint_gets_the_bytes_and_nothing_else_of_the_caller() {
    let (seen, outcome) = seen_by("openlineage", serde_json::json!({}), 201).await;
    assert_eq!(outcome, STORED);
    assert_eq!(seen.body, br#"{"a" : 1}"#);
    assert!(seen.head.starts_with("POST /api/v1/lineage HTTP/1.1\r\n"), "{}", seen.head);
    let host = headers(&seen).into_iter().find(|line| line.starts_with("host: 127.0.0.1:")).unwrap();
    assert_eq!(
        headers(&seen),
        [
            "accept: application/json",
            "content-length: 9",
            "content-type: application/json",
            host.as_str(),
            "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            concat!("user-agent: lineage-gate/", env!("CARGO_PKG_VERSION")),
            "x-request-id: 0199-request",
        ]
    );
}

#[tokio::test]
async fn a_gravitino_server_gets_its_path_and_accept_header() {
    let (seen, outcome) = seen_by("gravitino", serde_json::json!({}), 201).await;
    assert_eq!(outcome, QUEUED);
    assert!(seen.head.starts_with("POST /api/lineage HTTP/1.1\r\n"), "{}", seen.head);
    let headers = headers(&seen);
    assert!(headers.contains(&"accept: application/vnd.gravitino.v1+json, application/json".to_owned()), "{headers:?}");
    assert!(!seen.head.contains("callers-own") && !seen.head.to_ascii_lowercase().contains("active-roles"));
}

#[tokio::test]
async fn the_callers_credential_and_roles_go_on_only_where_that_is_configured() {
    let forward = serde_json::json!({ "auth": "forward" });
    let (seen, _) = seen_by("gravitino", forward.clone(), 201).await;
    assert!(seen.head.contains("authorization: Bearer callers-own\r\n"), "{}", seen.head);
    assert!(seen.head.contains("x-gravitino-active-roles: reader\r\n"), "{}", seen.head);
    let (seen, _) = seen_by("openlineage", forward, 201).await;
    assert!(seen.head.contains("authorization: Bearer callers-own\r\n"), "{}", seen.head);
    assert!(!seen.head.contains("active-roles"), "{}", seen.head);
}

#[tokio::test]
async fn a_refused_credential_is_the_callers_verdict_only_where_it_was_the_callers() {
    let none = serde_json::json!({});
    let forward = serde_json::json!({ "auth": "forward" });
    let outcome = async |kind, more: &serde_json::Value, status, body| {
        seen_by_one_that_says(kind, more.clone(), status, body).await.1
    };
    let unauthorized = r#"{"code":1011,"type":"UnauthorizedException","message":"no"}"#;
    let forbidden = r#"{"code":1008,"type":"ForbiddenException","message":"no"}"#;
    for (kind, bodies) in [("openlineage", ["", ""]), ("gravitino", [unauthorized, forbidden])] {
        assert_eq!(outcome(kind, &none, 401, bodies[0]).await, Outcome::UpstreamAuth);
        assert_eq!(outcome(kind, &none, 403, bodies[1]).await, Outcome::UpstreamAuth);
        assert_eq!(outcome(kind, &forward, 401, bodies[0]).await, Outcome::CallerUnauthenticated);
        assert_eq!(outcome(kind, &forward, 403, bodies[1]).await, Outcome::CallerForbidden);
        assert_eq!(outcome(kind, &forward, 429, "").await, Outcome::Throttled);
    }
    // Something before the server says so, which is no verdict of its own.
    for body in ["", "<html></html>", r#"{"servlet":"x","message":"Forbidden","status":"403"}"#] {
        assert_eq!(outcome("gravitino", &forward, 401, body).await, Outcome::UpstreamAuth);
        assert_eq!(outcome("gravitino", &forward, 403, body).await, Outcome::UpstreamAuth);
    }
}

#[tokio::test]
async fn the_gates_own_credential_is_read_anew_and_the_last_good_one_stays() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, "first\n").unwrap();
    let (listener, port) = listen().await;
    let auth = serde_json::json!({ "auth": { "bearer_file": file } });
    let upstream = upstream("openlineage", &format!("http://127.0.0.1:{port}"), auth);
    assert_eq!(upstream.watched(), std::slice::from_ref(&file));
    let backend = async {
        let mut stream = accept(&listener).await;
        let mut tokens = Vec::new();
        while let Some(seen) = read_request(&mut stream).await {
            tokens.extend(headers(&seen).into_iter().filter(|line| line.starts_with("authorization")));
            answer(&mut stream, 201, "", "").await;
        }
        tokens
    };
    let client = async {
        send(&upstream).await;
        assert!(!upstream.reload().unwrap());
        std::fs::write(&file, "second").unwrap();
        assert!(upstream.reload().unwrap());
        send(&upstream).await;
        std::fs::write(&file, "thi\nrd").unwrap();
        assert!(upstream.reload().is_err());
        send(&upstream).await;
        drop(upstream);
    };
    let (tokens, ()) = tokio::join!(backend, client);
    assert_eq!(tokens, ["authorization: bearer first", "authorization: bearer second", "authorization: bearer second"]);
}

#[tokio::test]
async fn a_credential_may_have_a_header_of_its_own_and_the_caller_may_be_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key");
    std::fs::write(&file, "k3y").unwrap();
    let more = serde_json::json!({
        "auth": { "header": "X-Api-Key", "file": file }, "identity_headers": true,
    });
    let (seen, _) = seen_by("openlineage", more, 201).await;
    for line in ["x-api-key: k3y", "x-lineage-caller: alice", "x-lineage-groups: analysts"] {
        assert!(headers(&seen).contains(&line.to_owned()), "{}", seen.head);
    }
    assert!(!seen.head.contains("authorization"), "{}", seen.head);
}

#[tokio::test]
async fn what_is_no_traceparent_is_left_out() {
    for text in ["", "00-abc", "00-0AF7651916CD43DD8448EB211C80319C-B7AD6B7169203331-01"] {
        assert!(!is_traceparent(&HeaderValue::from_static(text)), "{text}");
    }
}

#[tokio::test]
async fn a_probe_gets_and_never_posts() {
    let cases = [
        ("marquez", 200, Ok("answers: 200")),
        ("marquez", 404, Err("404 to /api/v1/tags: a Marquez server is not there")),
        ("openmetadata", 404, Err("an OpenMetadata server is not there")),
        ("datahub", 404, Ok("answers: 404")),
        ("polaris", 405, Ok("answers: 405")),
        ("openlineage", 405, Ok("answers: 405")),
        ("openlineage", 401, Ok("answers: 401")),
        ("openlineage", 302, Err("redirect")),
        ("openlineage", 503, Err("503")),
        ("gravitino", 200, Ok("answers: 200")),
        ("gravitino", 404, Err("404 to /api/version: a Gravitino server is not there")),
    ];
    for (kind, status, expected) in cases {
        let (listener, port) = listen().await;
        let json = serde_json::json!({ "name": "u", "kind": kind, "url": format!("http://127.0.0.1:{port}/") });
        let config = serde_json::from_value(json).unwrap();
        let backend = async {
            let mut stream = accept(&listener).await;
            let seen = read_request(&mut stream).await.unwrap();
            answer(&mut stream, status, "", "").await;
            seen
        };
        let (seen, told) = tokio::join!(backend, crate::upstream::probe(&config));
        let path = match kind {
            "gravitino" => "GET /api/version ",
            "marquez" => "GET /api/v1/tags ",
            "openmetadata" => "GET /api/v1/system/config/jwks ",
            "datahub" => "GET /openapi/openlineage/api/v1/lineage ",
            "polaris" => "GET /api/openlineage/v1/lineage ",
            _ => "GET /api/v1/lineage ",
        };
        assert!(seen.head.starts_with(path) && seen.body.is_empty(), "{}", seen.head);
        match expected {
            Ok(words) => assert!(told.unwrap().contains(words), "{kind} {status}"),
            Err(words) => assert!(told.unwrap_err().contains(words), "{kind} {status}"),
        }
    }
}

#[tokio::test]
async fn the_health_of_a_backend_is_asked_where_it_costs_little() {
    for (kind, path, status, healthy) in [
        ("marquez", "/api/v1/tags", 200, true),
        ("marquez", "/api/v1/tags", 500, false),
        ("gravitino", "/api/version", 401, true),
        ("openmetadata", "/api/v1/system/config/jwks", 503, false),
        ("openlineage", "/api/v1/lineage", 405, true),
    ] {
        let (listener, port) = listen().await;
        let backend = async {
            let mut stream = accept(&listener).await;
            let seen = read_request(&mut stream).await.unwrap();
            answer(&mut stream, status, "", "").await;
            seen
        };
        let upstream = upstream(kind, &format!("http://127.0.0.1:{port}"), serde_json::json!({}));
        let (seen, told) = tokio::join!(backend, upstream.is_healthy());
        assert!(seen.head.starts_with(&format!("GET {path} HTTP/1.1\r\n")), "{}", seen.head);
        assert_eq!(told, healthy, "{kind} {status}");
    }
}

#[tokio::test]
async fn each_kind_is_posted_to_its_own_path_with_an_accept_of_the_gates_own() {
    let kinds = [
        ("openlineage", "/api/v1/lineage", "application/json"),
        ("gravitino", "/api/lineage", "application/vnd.gravitino.v1+json, application/json"),
        ("marquez", "/api/v1/lineage", "application/json"),
        ("openmetadata", "/api/v1/openlineage/lineage", "application/json"),
        ("datahub", "/openapi/openlineage/api/v1/lineage", "application/json"),
        ("polaris", "/api/openlineage/v1/lineage", "application/json"),
    ];
    for (kind, path, accept_header) in kinds {
        let (listener, port) = listen().await;
        let backend = async {
            let mut stream = accept(&listener).await;
            let seen = read_request(&mut stream).await.unwrap();
            answer(&mut stream, 201, "", "").await;
            seen
        };
        let upstream = upstream(kind, &format!("http://127.0.0.1:{port}"), serde_json::json!({}));
        let (seen, _) = tokio::join!(backend, send(&upstream));
        let head = seen.head.to_ascii_lowercase();
        assert!(head.starts_with(&format!("post {path} http/1.1\r\n")), "{kind} {head}");
        assert!(head.contains(&format!("\r\naccept: {accept_header}\r\n")), "{kind} {head}");
    }
}
