//! Every recorded verdict, decided from a snapshot.

use std::sync::Arc;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::policy::{ActiveRoles, Identity, ObjectType};

use super::super::{Answer, Gravitino, Question, Snapshot, State};
use super::double::{Double, Recorded, Version, recorded};

/// A source that reads snapshots, with its credential.
fn source(double: &Double) -> (Gravitino, TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("token");
    std::fs::write(&file, "the-gates-own").expect("a file");
    let more = json!({ "mode": "snapshot", "credential": { "bearer_file": file } });
    (double.gravitino(more), folder)
}

fn question(world: &Recorded, verdict: &Value) -> Question {
    let kind = ObjectType::parse(verdict[1].as_str().expect("a type")).expect("a type");
    Question::Visible { metalake: world.metalake(), kind, name: verdict[2].as_str().expect("a name").into() }
}

fn decide(world: &Recorded, snapshot: &Arc<Snapshot>, verdict: &Value) -> Option<Answer> {
    let (user, groups) = world.caller(verdict[0].as_u64().expect("a caller") as usize);
    let who = Identity { subject: &user, groups: &groups };
    snapshot.answer(&who, &ActiveRoles::All, &question(world, verdict))
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
        let verdicts = world.value["verdicts"].as_array().expect("verdicts");
        // What hangs on an owner that was not read is wanted, level by level.
        for _ in 0..4 {
            let snapshot = gravitino.snapshot(&world.metalake()).expect("a snapshot");
            for verdict in verdicts {
                decide(&world, &snapshot, verdict);
            }
            gravitino.read_all().await;
        }
        let asked = double.count();
        let snapshot = gravitino.snapshot(&world.metalake()).expect("a snapshot");
        for verdict in verdicts {
            let at = verdict[0].as_u64().expect("a caller") as usize;
            let Question::Visible { kind, name, .. } = question(&world, verdict) else { panic!("visible") };
            let expected = if world.sees(at, &ActiveRoles::All, kind, &name) { Answer::Yes } else { Answer::No };
            assert_eq!(decide(&world, &snapshot, verdict), Some(expected), "{} {verdict}", world.value["id"]);
            count += 1;
        }
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
        let mut undecided = 0;
        for verdict in world.value["verdicts"].as_array().expect("verdicts") {
            let at = verdict[0].as_u64().expect("a caller") as usize;
            let Question::Visible { kind, name, .. } = question(&world, verdict) else { panic!("visible") };
            match decide(&world, &snapshot, verdict) {
                Some(found) => {
                    assert_eq!(found == Answer::Yes, world.sees(at, &ActiveRoles::All, kind, &name), "{verdict}")
                }
                None => undecided += 1,
            }
        }
        assert!(undecided > 0 && gravitino.unreadable().iter().any(|text| text.contains("role ")));
    }
}

#[tokio::test]
async fn a_server_that_goes_away_leaves_the_last_snapshot() {
    let world = Arc::new(recorded(Version::Main).remove(0));
    let double = Double::of(Arc::clone(&world)).await;
    let (mut gravitino, _folder) = source(&double);
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
