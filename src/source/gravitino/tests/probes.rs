//! Every recorded verdict, asked one by one.

use std::sync::Arc;

use http::HeaderValue;
use serde_json::json;

use crate::policy::{ActiveRoles, ObjectType};

use super::super::{Answer, Asker, Question, State, Trouble};
use super::double::{Double, Recorded, Version, recorded};

/// The answer that a question about visibility has.
fn answer(sees: bool) -> Answer {
    if sees { Answer::Yes } else { Answer::No }
}

fn question(world: &Recorded, kind: &str, name: &str) -> Question {
    let kind = ObjectType::parse(kind).expect("a type");
    Question::Visible { metalake: world.metalake(), kind, name: name.into() }
}

async fn ask_all(version: Version) -> (usize, usize) {
    let (mut count, mut missing) = (0, 0);
    for world in recorded(version) {
        let world = Arc::new(world);
        let double = Double::of(Arc::clone(&world)).await;
        let gravitino = double.gravitino(json!({}));
        for verdict in world.value["verdicts"].as_array().expect("verdicts") {
            let at = verdict[0].as_u64().expect("a caller") as usize;
            let (kind, name) = (verdict[1].as_str().expect("a type"), verdict[2].as_str().expect("a name"));
            let authorization = HeaderValue::from_str(&format!("Caller {at}")).expect("a header");
            let (authorization, roles) = (Some(&authorization), &ActiveRoles::All);
            let asker = Asker { authorization, active_roles: None, roles, subject: "caller" };
            let expected = world.sees(at, roles, ObjectType::parse(kind).expect("a type"), name);
            match gravitino.ask(&asker, &question(&world, kind, name)).await {
                Ok(found) => assert_eq!(found, answer(expected), "{} {verdict}", world.value["id"]),
                // A role that came from a group cannot be told from one that is only seen.
                Err(Trouble::Rejected(_)) if !world.caller(at).1.is_empty() => missing += 1,
                Err(trouble) => panic!("{} {verdict}: {trouble}", world.value["id"]),
            }
            count += 1;
        }
    }
    (count, missing)
}

#[tokio::test]
async fn every_verdict_of_the_main_branch_is_asked_right() {
    assert_eq!(ask_all(Version::Main).await, (8_692, 0));
}

#[tokio::test]
async fn verdicts_of_the_released_version_are_asked_right_missing_catalogs_included() {
    assert_eq!(ask_all(Version::V1_3).await, (9_469, 3));
}

#[tokio::test]
async fn narrowing_roles_count_whether_the_server_reads_them_or_not() {
    let mut counts = [0; 2];
    for version in [Version::V1_3, Version::Main] {
        for world in recorded(version).into_iter().take(12) {
            let world = Arc::new(world);
            let double = Double::of(Arc::clone(&world)).await;
            let gravitino = double.gravitino(json!({}));
            for verdict in world.value["verdicts"].as_array().expect("verdicts").iter().step_by(5) {
                let at = verdict[0].as_u64().expect("a caller") as usize;
                let first = world.direct_roles("users", &world.caller(at).0).into_iter().next();
                let text = first.as_deref().filter(|_| counts[0] % 2 == 0).unwrap_or("NONE");
                let roles = ActiveRoles::parse(Some(text)).expect("roles");
                let (kind, name) = (verdict[1].as_str().expect("a type"), verdict[2].as_str().expect("a name"));
                let expected = world.sees(at, &roles, ObjectType::parse(kind).expect("a type"), name);
                let authorization = HeaderValue::from_str(&format!("Caller {at}")).expect("a header");
                let active = HeaderValue::from_str(text).expect("a header");
                let asker = Asker {
                    authorization: Some(&authorization),
                    active_roles: Some(&active),
                    roles: &roles,
                    subject: "caller",
                };
                match gravitino.ask(&asker, &question(&world, kind, name)).await {
                    Ok(found) => {
                        assert_eq!(found, answer(expected), "{version:?} {} {text} {verdict}", world.value["id"]);
                        counts[0] += 1;
                    }
                    Err(Trouble::Rejected(_)) if version == Version::V1_3 => counts[1] += 1,
                    Err(trouble) => panic!("{trouble}"),
                }
            }
        }
    }
    assert!(counts[0] > 800 && counts[1] * 10 < counts[0], "{counts:?}");
}

#[tokio::test]
async fn membership_and_held_roles_are_asked_apart() {
    for version in [Version::V1_3, Version::Main] {
        let world = Arc::new(recorded(version).remove(0));
        let double = Double::of(Arc::clone(&world)).await;
        let gravitino = double.gravitino(json!({}));
        let metalake = world.metalake();
        for at in 0..world.value["callers"].as_array().expect("callers").len() {
            let (user, groups) = world.caller(at);
            let member = world.sees(at, &ActiveRoles::All, ObjectType::Metalake, &metalake);
            let authorization = HeaderValue::from_str(&format!("Caller {at}")).expect("a header");
            let active = HeaderValue::from_static("no_such_role");
            let roles = ActiveRoles::parse(Some("no_such_role")).expect("roles");
            let asker = Asker {
                authorization: Some(&authorization),
                active_roles: Some(&active),
                roles: &roles,
                subject: &user,
            };
            let asked = gravitino.ask(&asker, &Question::Member { metalake: Arc::clone(&metalake) }).await;
            assert_eq!(asked, Ok(answer(member)), "{version:?} {user} {groups:?}");
            let other = Question::Member { metalake: "no_such_metalake".into() };
            assert_eq!(gravitino.ask(&asker, &other).await, Ok(Answer::No));
            if version == Version::V1_3 {
                let held = gravitino.ask(&asker, &Question::RolesHeld { metalake: Arc::clone(&metalake) }).await;
                assert_eq!(held, Ok(Answer::No), "{user}");
            }
        }
        let State::Ready(known) = gravitino.state() else { panic!("known by now") };
        assert_eq!(known.active_roles, version == Version::Main);
    }
}
