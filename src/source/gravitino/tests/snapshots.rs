//! Every recorded verdict, decided from a snapshot.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::policy::{About, ActiveRoles, Identity, ObjectType};
use crate::upstream::fake;

use super::super::snapshot::Weighed;
use super::super::{Answer, Gravitino, Question, Snapshot, State, View};
use super::double::{Double, Recorded, Version, recorded, reply};

/// A source that reads snapshots, with its credential.
fn source_with(double: &Double, more: Value) -> (Gravitino, TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("token");
    std::fs::write(&file, "the-gates-own").expect("a file");
    let mut settings = json!({ "mode": "snapshot", "credential": { "bearer_file": file } });
    settings.as_object_mut().expect("a map").extend(more.as_object().expect("a map").clone());
    (double.gravitino(settings), folder)
}

fn source(double: &Double) -> (Gravitino, TempDir) {
    source_with(double, json!({}))
}

/// A world whose server answers some paths in its own way.
async fn odd(world: &Arc<Recorded>, answer: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Double {
    let world = Arc::clone(world);
    Double::serve(move |head| {
        let path = head.split(' ').nth(1).expect("a path");
        answer(path).unwrap_or_else(|| {
            let (status, body) = world.answer(path, None, None);
            reply(status, "", &body.to_string())
        })
    })
    .await
}

fn question(world: &Recorded, verdict: &Value) -> Question {
    let kind = ObjectType::parse(verdict[1].as_str().expect("a type")).expect("a type");
    Question::Visible { metalake: world.metalake(), kind, name: verdict[2].as_str().expect("a name").into() }
}

fn view(world: &Recorded, snapshot: &Arc<Snapshot>, verdict: &Value) -> View {
    let (user, groups) = world.caller(verdict[0].as_u64().expect("a caller") as usize);
    snapshot.view(&Identity { subject: &user, groups: &groups }, &ActiveRoles::All)
}

fn expected(world: &Recorded, verdict: &Value) -> Answer {
    let at = verdict[0].as_u64().expect("a caller") as usize;
    let Question::Visible { kind, name, .. } = question(world, verdict) else { panic!("visible") };
    if world.sees(at, &ActiveRoles::All, kind, &name) { Answer::Yes } else { Answer::No }
}

fn verdicts(world: &Recorded) -> &[Value] {
    world.value["verdicts"].as_array().expect("verdicts")
}

/// How many verdicts a snapshot decides and leaves open. Those that it decides are right.
fn tally(world: &Recorded, snapshot: &Arc<Snapshot>) -> [usize; 2] {
    let mut counts = [0; 2];
    for verdict in verdicts(world) {
        match view(world, snapshot, verdict).answer(&question(world, verdict).about()) {
            Some(found) => {
                assert_eq!(found, expected(world, verdict), "{verdict}");
                counts[0] += 1;
            }
            None => counts[1] += 1,
        }
    }
    counts
}

async fn decide_all(version: Version) -> usize {
    let mut count = 0;
    for world in recorded(version) {
        let world = Arc::new(world);
        let double = Double::of(Arc::clone(&world)).await;
        let (gravitino, _folder) = source(&double);
        assert!(gravitino.try_once().await);
        gravitino.read_all().await;
        assert_eq!(gravitino.unreadable(), Vec::<String>::new());
        let snapshot = gravitino.snapshot(&world.metalake()).expect("a snapshot");
        // What hangs on an owner that was not read has it read, once for all callers.
        for verdict in verdicts(&world) {
            let found = gravitino.complete(&view(&world, &snapshot, verdict), &question(&world, verdict)).await;
            assert_eq!(found, Ok(Some(expected(&world, verdict))), "{} {verdict}", world.value["id"]);
            count += 1;
        }
        let asked = double.count();
        assert_eq!(tally(&world, &snapshot), [verdicts(&world).len(), 0]);
        assert_eq!(double.count(), asked, "deciding asks nothing");
    }
    count
}

#[tokio::test]
async fn every_verdict_of_the_main_branch_is_decided_from_a_snapshot() {
    assert_eq!(decide_all(Version::Main).await, 8_692);
}

#[tokio::test]
async fn every_verdict_of_the_released_version_is_decided_from_a_snapshot() {
    assert_eq!(decide_all(Version::V1_3).await, 9_469);
}

#[tokio::test]
async fn what_is_not_known_is_never_taken_for_not_there() {
    for mut world in recorded(Version::Main).into_iter().take(8) {
        let roles = world.value["roles"].as_array().expect("roles");
        world.hidden_roles =
            roles.iter().map(|role| role["name"].as_str().expect("a name").to_owned()).step_by(2).collect();
        let world = Arc::new(world);
        let double = Double::of(Arc::clone(&world)).await;
        let (gravitino, _folder) = source(&double);
        assert!(gravitino.try_once().await);
        gravitino.read_all().await;
        let snapshot = gravitino.snapshot(&world.metalake()).expect("a snapshot");
        assert!(tally(&world, &snapshot)[1] > 0);
        assert!(gravitino.unreadable().iter().any(|text| text.contains("role ")));
    }
}

const REFUSALS: [(u16, &str); 6] = [
    (403, r#"{"code":1008,"type":"ForbiddenException","message":"no"}"#),
    (404, r#"{"code":1003,"type":"NoSuchMetalakeException","message":"no"}"#),
    (500, r#"{"code":1002,"type":"RuntimeException","message":"no"}"#),
    (429, ""),
    (200, "<html></html>"),
    (200, r#"{"code":0,"names":7}"#),
];

#[tokio::test]
async fn a_list_that_cannot_be_read_leaves_open_what_hangs_on_it() {
    for (status, body) in REFUSALS {
        for list in ["users?details=true", "groups?details=true", "catalogs?details=true"] {
            let mut open = 0;
            for world in recorded(Version::Main).into_iter().take(4).map(Arc::new) {
                let double = odd(&world, move |path| path.ends_with(list).then(|| reply(status, "", body))).await;
                let (gravitino, _folder) = source(&double);
                assert!(gravitino.try_once().await);
                gravitino.read_all().await;
                let snapshot = gravitino.snapshot(&world.metalake()).expect("a snapshot");
                open += tally(&world, &snapshot)[1];
                let named = format!("the list of {}", list.split('?').next().expect("a name"));
                let unreadable = gravitino.unreadable();
                assert!(unreadable.iter().any(|text| text.contains(&named)), "{status} {unreadable:?}");
            }
            assert!(open > 0, "{status} {list}");
        }
    }
}

#[tokio::test]
async fn a_list_that_the_service_user_does_not_see_whole_leaves_open_what_is_not_in_it() {
    let world = Arc::new(recorded(Version::Main).remove(0));
    let role = json!({ "code": 0, "role": { "name": "x", "securableObjects": [] } }).to_string();
    let empty = json!({ "code": 0, "catalogs": [] }).to_string();
    let double = odd(&world, move |path| match path {
        _ if path.ends_with("/roles/service") => Some(reply(200, "", &role)),
        _ if path.ends_with("/catalogs?details=true") => Some(reply(200, "", &empty)),
        _ => None,
    })
    .await;
    let (gravitino, _folder) = source(&double);
    assert!(gravitino.try_once().await);
    gravitino.read_all().await;
    let snapshot = gravitino.snapshot(&world.metalake()).expect("a snapshot");
    assert!(tally(&world, &snapshot)[1] > 0);
    for named in ["all users: ", "all groups: ", "catalog "] {
        assert!(gravitino.unreadable().iter().any(|text| text.contains(named)), "{named}");
    }
}

#[tokio::test]
async fn what_the_server_refuses_to_tell_takes_the_place_of_what_it_told() {
    let rows: [(&str, u16, &str, bool); 8] = [
        ("/authn/me", 401, r#"{"code":1011,"type":"UnauthorizedException","message":"no"}"#, false),
        ("/owners/metalake/", 403, r#"{"code":1008,"type":"ForbiddenException","message":"no"}"#, false),
        ("/owners/metalake/", 409, r#"{"code":1009,"type":"MetalakeNotInUseException","message":"no"}"#, false),
        ("/owners/metalake/", 401, r#"{"code":1011,"type":"UnauthorizedException","message":"no"}"#, false),
        ("/owners/metalake/", 503, "", true),
        ("/owners/metalake/", 429, "", true),
        ("/owners/metalake/", 403, "<html></html>", true),
        ("/owners/metalake/", 500, r#"{"code":1002,"type":"RuntimeException","message":"no"}"#, true),
    ];
    for (at, status, body, stays) in rows {
        let world = Arc::new(recorded(Version::Main).remove(0));
        let is_odd = Arc::new(AtomicBool::new(false));
        let switch = Arc::clone(&is_odd);
        let double = odd(&world, move |path| {
            let hit = switch.load(Ordering::SeqCst) && path.contains(at) && !path.contains("trial");
            hit.then(|| reply(status, "", body))
        })
        .await;
        let (gravitino, _folder) = source(&double);
        assert!(gravitino.try_once().await);
        gravitino.read_all().await;
        assert!(gravitino.snapshot(&world.metalake()).is_some());
        is_odd.store(true, Ordering::SeqCst);
        gravitino.read_all().await;
        assert_eq!(gravitino.snapshot(&world.metalake()).is_some(), stays, "{at} {status} {body}");
        assert!(!gravitino.unreadable().is_empty());
        is_odd.store(false, Ordering::SeqCst);
        gravitino.read_all().await;
        assert!(gravitino.snapshot(&world.metalake()).is_some() && gravitino.unreadable().is_empty());
    }
}

#[tokio::test]
async fn a_part_that_fails_costs_only_what_hangs_on_it() {
    let world = Arc::new(recorded(Version::Main).remove(0));
    let name = world.value["roles"][0]["name"].as_str().expect("a name").to_owned();
    let is_odd = Arc::new(AtomicBool::new(true));
    let (switch, path_end) = (Arc::clone(&is_odd), format!("/roles/{name}"));
    let double = odd(&world, move |path| {
        (switch.load(Ordering::SeqCst) && path.ends_with(&path_end)).then(|| reply(429, "", ""))
    })
    .await;
    let (gravitino, _folder) = source(&double);
    assert!(gravitino.try_once().await);
    gravitino.read_all().await;
    let first = gravitino.snapshot(&world.metalake()).expect("better than none");
    assert!(first.unreadable().contains(&format!("role {name}")), "{:?}", first.unreadable());
    assert!(gravitino.unreadable().iter().any(|text| text.contains("429")));
    is_odd.store(false, Ordering::SeqCst);
    gravitino.read_all().await;
    assert_eq!(gravitino.unreadable(), Vec::<String>::new());
}

#[tokio::test]
async fn where_only_snapshots_decide_one_failed_call_takes_no_whole_one_away() {
    for (fallback, stays) in [("refuse", true), ("probe", false)] {
        for (status, body) in [(503, ""), (500, r#"{"code":1002,"type":"RuntimeException","message":"no"}"#)] {
            let world = Arc::new(recorded(Version::Main).remove(0));
            let is_odd = Arc::new(AtomicBool::new(false));
            let switch = Arc::clone(&is_odd);
            let double = odd(&world, move |path| {
                let hit = switch.load(Ordering::SeqCst) && path.ends_with("/users?details=true");
                hit.then(|| reply(status, "", body))
            })
            .await;
            let (gravitino, _folder) = source_with(&double, json!({ "fallback": fallback }));
            assert!(gravitino.try_once().await);
            gravitino.read_all().await;
            let whole = gravitino.snapshot(&world.metalake()).expect("a snapshot");
            is_odd.store(true, Ordering::SeqCst);
            gravitino.read_all().await;
            let now = gravitino.snapshot(&world.metalake()).expect("a snapshot");
            assert_eq!(now.read_at() == whole.read_at(), stays, "{fallback} {status}");
            assert!(gravitino.unreadable().iter().any(|text| text.contains(&status.to_string())));
        }
    }
}

#[tokio::test]
async fn owners_that_hang_cost_what_hangs_on_them_and_nothing_else() {
    let world = Arc::new(recorded(Version::Main).remove(0));
    let double = odd(&world, |path| {
        (path.contains("/owners/") && !path.contains("/owners/metalake/")).then(|| reply(503, "", ""))
    })
    .await;
    let (gravitino, _folder) = source(&double);
    assert!(gravitino.try_once().await);
    gravitino.read_all().await;
    let snapshot = gravitino.snapshot(&world.metalake()).expect("users and roles are known");
    let [decided, open] = tally(&world, &snapshot);
    assert!(decided > 0 && open > 0, "{decided} {open}");
    assert!(gravitino.unreadable().iter().any(|text| text.contains("owners of more objects")));
}

#[tokio::test]
async fn who_lost_a_role_while_it_was_read_is_undecided() {
    let world = Arc::new(recorded(Version::Main).remove(0));
    let lists = Arc::new(AtomicUsize::new(0));
    let (count, empty) = (Arc::clone(&lists), Arc::clone(&world));
    let double = odd(&world, move |path| {
        // Each second time: before roles are read, and after.
        let again = path.ends_with("/users?details=true") && count.fetch_add(1, Ordering::SeqCst) % 2 == 1;
        let again = again && count.load(Ordering::SeqCst) <= 6;
        let (_, mut body) = again.then(|| empty.answer(path, None, None))?;
        for user in body["users"].as_array_mut().expect("users") {
            user["roles"] = json!([]);
        }
        Some(reply(200, "", &body.to_string()))
    })
    .await;
    let (gravitino, _folder) = source(&double);
    assert!(gravitino.try_once().await);
    gravitino.read_all().await;
    let snapshot = gravitino.snapshot(&world.metalake()).expect("a snapshot");
    let holder = world.value["roles"].as_array().expect("roles").iter().find_map(|role| role["users"][0].as_str());
    let who = Identity { subject: holder.expect("a holder"), groups: &[] };
    let about = About::Visible { kind: ObjectType::Catalog, name: "c0" };
    assert_eq!(snapshot.view(&who, &ActiveRoles::All).weigh(&about), Weighed::Open);
    assert!(gravitino.unreadable().iter().any(|text| text.contains("changed meanwhile")));
    assert_eq!(lists.load(Ordering::SeqCst), 6, "tried three times");
    gravitino.read_all().await;
    let snapshot = gravitino.snapshot(&world.metalake()).expect("a snapshot");
    assert!(!matches!(snapshot.view(&who, &ActiveRoles::All).weigh(&about), Weighed::Open));
}

#[tokio::test]
async fn a_name_of_any_depth_costs_little_and_the_owner_of_its_schema_sees_it() {
    let mut value = recorded(Version::Main).remove(0).value.clone();
    let user = value["users"][0].as_str().expect("a user").to_owned();
    value["roles"] = json!([{ "name": "enters", "users": [user], "groups": [], "grants": [
        { "type": "METALAKE", "fullName": value["metalake"], "allow": ["USE_CATALOG"], "deny": [] }] }]);
    value["created"] = json!([["CATALOG", "lake"], ["SCHEMA", "lake.own"]]);
    value["owners"] = json!([{ "type": "SCHEMA", "fullName": "lake.own", "user": user }]);
    value["owner"] = json!({ "user": "admin" });
    value["verdicts"] = json!([]);
    value["callers"] = json!([{ "user": user, "groups": [] }]);
    let world = Arc::new(Recorded::new(value, Version::Main));
    let double = Double::of(Arc::clone(&world)).await;
    let (gravitino, _folder) = source(&double);
    assert!(gravitino.try_once().await);
    gravitino.read_all().await;
    let snapshot = gravitino.snapshot(&world.metalake()).expect("a snapshot");
    let view = snapshot.view(&Identity { subject: &user, groups: &[] }, &ActiveRoles::All);
    let table =
        |name: &str| Question::Visible { metalake: world.metalake(), kind: ObjectType::Table, name: name.into() };
    let long = format!("lake.own.{}", "t".repeat(9_000));
    assert_eq!(gravitino.complete(&view, &table(&long)).await, Ok(Some(Answer::Yes)));
    let asked = double.count();
    let deep = format!("lake.{}.t", vec!["a"; 1_000_000].join(":"));
    assert!(matches!(gravitino.complete(&view, &table(&deep)).await, Ok(None | Some(Answer::No))));
    assert!(double.count() - asked <= 16, "{}", double.count() - asked);
}

#[tokio::test]
async fn a_catalog_that_a_role_names_and_the_list_does_not_is_undecided() {
    let world = Arc::new(recorded(Version::Main).remove(0));
    let empty = json!({ "code": 0, "catalogs": [] }).to_string();
    let double =
        odd(&world, move |path| path.ends_with("/catalogs?details=true").then(|| reply(200, "", &empty))).await;
    let (gravitino, _folder) = source(&double);
    assert!(gravitino.try_once().await);
    gravitino.read_all().await;
    let snapshot = gravitino.snapshot(&world.metalake()).expect("a snapshot");
    let named = |name: &str| {
        let roles = world.value["roles"].as_array().expect("roles").iter();
        let mut grants = roles.flat_map(|role| role["grants"].as_array().expect("grants"));
        grants.any(|grant| grant["type"] != "METALAKE" && grant["fullName"].as_str() == Some(name))
    };
    let mut open = 0;
    for verdict in verdicts(&world).iter().filter(|verdict| verdict[1] == "TABLE") {
        let catalog = verdict[2].as_str().expect("a name").split('.').next().expect("a catalog");
        if named(catalog) {
            let weighed = view(&world, &snapshot, verdict).weigh(&question(&world, verdict).about());
            let is_hidden = weighed == Weighed::Decided(Answer::No);
            assert!(weighed == Weighed::Open || is_hidden && expected(&world, verdict) == Answer::No, "{verdict}");
            open += usize::from(weighed == Weighed::Open);
        }
    }
    assert!(open > 0);
}

#[tokio::test]
async fn a_group_that_may_not_see_a_list_makes_it_a_part_to_others_too() {
    let mut value = recorded(Version::Main).remove(0).value.clone();
    value["groups"] = json!(["g"]);
    value["owners"] = json!([]);
    value["owner"] = json!({ "user": "admin" });
    let metalake = value["metalake"].clone();
    value["roles"] = json!([{ "name": "denies", "users": [], "groups": ["g"], "grants": [
        { "type": "METALAKE", "fullName": metalake, "allow": [], "deny": ["MANAGE_GROUPS"] }] }]);
    value["verdicts"] = json!([]);
    let world = Arc::new(Recorded::new(value, Version::Main));
    let double = Double::of(Arc::clone(&world)).await;
    let (gravitino, _folder) = source(&double);
    assert!(gravitino.try_once().await);
    gravitino.read_all().await;
    let unreadable = gravitino.unreadable();
    assert!(unreadable.iter().any(|text| text.contains("all groups: ")), "{unreadable:?}");
    assert!(!unreadable.iter().any(|text| text.contains("all users: ")), "{unreadable:?}");
}

/// Waits until it is so, for less time than regular readings and trials take.
async fn soon(is_so: impl Fn() -> bool) {
    let waits = async {
        while !is_so() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), waits).await.expect("soon");
}

#[tokio::test]
async fn a_metalake_that_hangs_holds_up_no_other() {
    let world = Arc::new(recorded(Version::Main).remove(0));
    let name = world.metalake();
    let metalakes = json!({ "code": 0, "metalakes": [{ "name": "hung" }, { "name": &*name }] }).to_string();
    let hung = Arc::clone(&world);
    let (listener, port) = fake::listen().await;
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (hung, metalakes) = (Arc::clone(&hung), metalakes.clone());
            tokio::spawn(async move {
                while let Some(head) = fake::read_head(&mut stream).await {
                    let path = head.split(' ').nth(1).expect("a path");
                    let (status, body) = match path {
                        "/api/metalakes" => (200, metalakes.clone()),
                        _ if path.starts_with("/api/metalakes/hung/") => std::future::pending().await,
                        _ => {
                            let (status, body) = hung.answer(path, None, None);
                            (status, body.to_string())
                        }
                    };
                    stream.write_all(reply(status, "", &body).as_bytes()).await.expect("a reader");
                }
            });
        }
    });
    let double = Double { port, asked: Arc::default() };
    let (gravitino, _folder) = source_with(&double, json!({ "refresh": "50ms", "timeout": "60s" }));
    let gravitino = Arc::new(gravitino);
    let shutdown = CancellationToken::new();
    gravitino.spawn(&shutdown);
    let read_at = || gravitino.snapshot(&name).map(|snapshot| snapshot.read_at());
    for _ in 0..3 {
        let before = read_at();
        soon(|| read_at() > before).await;
    }
    shutdown.cancel();
}

#[tokio::test]
async fn what_may_not_be_true_any_more_is_read_at_once() {
    let world = Arc::new(recorded(Version::Main).remove(0));
    let double = Double::of(Arc::clone(&world)).await;
    let (gravitino, _folder) = source_with(&double, json!({ "refresh": "1h" }));
    let gravitino = Arc::new(gravitino);
    let shutdown = CancellationToken::new();
    gravitino.spawn(&shutdown);
    let read_at = || gravitino.snapshot(&world.metalake()).map(|snapshot| snapshot.read_at());
    soon(|| read_at().is_some()).await;
    let asked = Instant::now();
    gravitino.read_anew();
    soon(|| read_at() > Some(asked)).await;
    shutdown.cancel();
}

#[tokio::test]
async fn a_reading_that_finds_authorization_off_has_it_tried_soon() {
    let world = Arc::new(recorded(Version::Main).remove(0));
    let is_off = Arc::new(AtomicBool::new(false));
    let switch = Arc::clone(&is_off);
    let off = r#"{"code":1006,"type":"UnsupportedOperationException","message":"off"}"#;
    let double = odd(&world, move |path| {
        (switch.load(Ordering::SeqCst) && path.contains("/owners/")).then(|| reply(405, "", off))
    })
    .await;
    let (gravitino, _folder) = source_with(&double, json!({ "refresh": "100ms" }));
    let gravitino = Arc::new(gravitino);
    let shutdown = CancellationToken::new();
    gravitino.spawn(&shutdown);
    soon(|| gravitino.snapshot(&world.metalake()).is_some()).await;
    is_off.store(true, Ordering::SeqCst);
    soon(|| matches!(gravitino.state(), State::Unsafe(_))).await;
    is_off.store(false, Ordering::SeqCst);
    soon(|| matches!(gravitino.state(), State::Ready(_))).await;
    shutdown.cancel();
}

#[tokio::test]
async fn a_server_that_goes_away_leaves_the_last_snapshot() {
    let world = Arc::new(recorded(Version::Main).remove(0));
    let double = Double::of(Arc::clone(&world)).await;
    let (mut gravitino, _folder) = source_with(&double, json!({ "fallback": "refuse" }));
    assert!(matches!(gravitino.state(), State::NotYet(_)));
    assert!(gravitino.try_once().await);
    assert!(matches!(gravitino.state(), State::NotYet(_)), "not before a snapshot was read");
    gravitino.read_all().await;
    assert!(matches!(gravitino.state(), State::Ready(_)));
    let dead = Double::serve(|_| "HTTP/1.1 503 x\r\nContent-Length: 0\r\n\r\n".to_owned()).await;
    let (other, _other) = source(&dead);
    gravitino.caller = other.caller;
    gravitino.read_all().await;
    assert!(gravitino.snapshot(&world.metalake()).is_some());
    assert!(gravitino.unreadable().iter().any(|text| text.contains("503")), "{:?}", gravitino.unreadable());
}

#[tokio::test]
async fn callers_are_asked_about_until_the_first_snapshot_is_there() {
    let double = Double::of(Arc::new(recorded(Version::Main).remove(0))).await;
    let (gravitino, _folder) = source(&double);
    assert!(gravitino.try_once().await);
    assert!(matches!(gravitino.state(), State::Ready(_)));
}
