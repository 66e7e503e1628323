//! What `check --online` finds out about a server.

use std::sync::Arc;

use serde_json::{Value, json};

use super::super::{State, probe};
use super::double::{Double, Recorded, Version, recorded};

/// A server with a world, some of whose answers are others: the end of a path, status and body.
async fn server(world: &Arc<Recorded>, others: &[(&'static str, u16, Value)]) -> Double {
    let (world, others) = (Arc::clone(world), others.to_vec());
    Double::serve(move |head| {
        let path = head.split(' ').nth(1).expect("a path");
        let other = others.iter().find(|(end, _, _)| path.ends_with(end));
        let other = other.map(|(_, status, body)| (*status, body.clone()));
        let (status, body) = other.unwrap_or_else(|| world.answer(path, None, None));
        let body = body.to_string();
        format!("HTTP/1.1 {status} x\r\nContent-Length: {}\r\n\r\n{body}", body.len())
    })
    .await
}

/// What is told of a snapshot's credential on such a server.
async fn told(
    world: &Arc<Recorded>,
    others: &[(&'static str, u16, Value)],
    metalakes: Value,
) -> Result<String, Vec<String>> {
    let double = server(world, others).await;
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "secret").expect("written");
    let credential = json!({ "bearer_file": file.path() });
    probe(&double.config(json!({ "mode": "snapshot", "credential": credential, "metalakes": metalakes }))).await
}

fn forbidden() -> (u16, Value) {
    (403, json!({ "code": 1008, "type": "ForbiddenException", "message": "no" }))
}

#[tokio::test]
async fn a_credential_that_reads_all_that_a_snapshot_needs_is_told_so() {
    let world = Arc::new(recorded(Version::Main).remove(0));
    for metalakes in [json!("all"), json!([&*world.metalake()])] {
        let told = told(&world, &[], metalakes).await.expect("all is well");
        assert!(told.contains("2.0.0-SNAPSHOT") && told.ends_with("`credential` reads all that it governs"), "{told}");
    }
}

#[tokio::test]
async fn what_a_snapshot_cannot_be_read_for_is_told_with_what_to_do() {
    let world = Arc::new(recorded(Version::Main).remove(0));
    let name = &*world.metalake();
    let (status, body) = forbidden();
    let no = |end| (end, status, body.clone());
    let only_itself = json!({ "code": 0, "users": [{ "name": "service", "roles": [] }] });
    let versions = json!({ "code": 0, "version": { "version": "1.2.0" } });
    let own = |end| format!("metalake {name}: {end}");
    let rows = [
        (vec![("/api/version", 200, versions)], json!("all"), "is 1.2.0, and `mode: snapshot` needs 1.3".to_owned()),
        (
            vec![("/api/metalakes", 200, json!({ "code": 0, "metalakes": [] }))],
            json!("all"),
            "`credential` sees no metalake".to_owned(),
        ),
        (
            vec![],
            json!([name, "nope"]),
            "metalake nope: it does not exist, or the user of `credential` is no member of it".to_owned(),
        ),
        (vec![no("/users?details=true")], json!([name]), own("the list of users")),
        (vec![no("/groups?details=true")], json!([name]), own("the list of groups")),
        (vec![no("/catalogs?details=true")], json!([name]), own("the list of catalogs")),
        (
            vec![("/users?details=true", 200, only_itself)],
            json!([name]),
            own("all users: `service` does not itself own"),
        ),
        (vec![no("/roles/service")], json!("all"), own("role service")),
        (
            vec![("/authn/me", 401, json!({ "code": 1011, "type": "UnauthorizedException", "message": "no" }))],
            json!([name]),
            own("the server does not accept the gate's `credential`: 401"),
        ),
    ];
    for (others, metalakes, expected) in rows {
        let told = told(&world, &others, metalakes).await.expect_err(&expected);
        assert!(told.iter().any(|text| text.starts_with(&expected)), "{expected}: {told:?}");
        let last = told.last().expect("a text");
        assert!(
            last.contains("upgrade it") || last.contains("let the user of `credential` own the metalake"),
            "{told:?}"
        );
    }
}

#[tokio::test]
async fn a_server_too_old_for_snapshots_is_named_as_that_by_the_running_gate_too() {
    let versions = json!({ "code": 0, "version": { "version": "1.2.0" } });
    let me = json!({ "status": "404" });
    let others = [("/api/version", 200, versions), ("/api/authn/me", 404, me)];
    let double = server(&Arc::new(recorded(Version::Main).remove(0)), &others).await;
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "secret").expect("written");
    let credential = json!({ "bearer_file": file.path() });
    for fallback in ["refuse", "probe"] {
        let more = json!({ "mode": "snapshot", "credential": credential, "fallback": fallback });
        let gravitino = double.gravitino(more);
        let state = gravitino.read_once().await;
        match state {
            State::NotYet(reason) => assert!(reason.contains("needs 1.3 or later"), "{reason}"),
            State::Ready(_) => assert_eq!(fallback, "probe"),
            State::Unsafe(reason) => panic!("{reason}"),
        }
        let unreadable = gravitino.unreadable();
        assert!(unreadable.iter().any(|text| text.contains("needs 1.3 or later")), "{unreadable:?}");
    }
}

#[tokio::test]
async fn of_very_many_parts_that_cannot_be_read_only_some_are_named() {
    let world = Arc::new(recorded(Version::Main).remove(0));
    let users: Vec<Value> =
        (0..50).map(|n| json!({ "name": format!("u{n}"), "roles": [format!("none{n}")] })).collect();
    let users = json!({ "code": 0, "users": users });
    let told = told(&world, &[("/users?details=true", 200, users)], json!("all")).await.expect_err("unreadable roles");
    assert_eq!(told.len(), 22, "{told:?}");
    assert!(told[20].starts_with("and ") && told[20].ends_with(" more that cannot be read"), "{told:?}");
}
