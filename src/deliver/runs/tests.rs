use prometheus_client::registry::Registry;

use super::*;
use crate::answer::{Durability, Unknown};
use crate::upstream::fake;

const STORED: Outcome = Outcome::Accepted { edges: None, durability: Durability::Stored };
const REJECTED: Outcome = Outcome::Rejected { message: None, unprocessable: false };
const RUN: &str = "01941f29-7c00-7000-8000-00000000abcd";

fn runs(mode: RunBinding) -> Runs {
    Runs::new(mode, 100, Metrics::register(&mut Registry::default()))
}

fn claim(runs: &Runs, subject: &str, run: &str, job: &str) -> Result<Claim, Refusal> {
    let job = JobName { namespace: "shop".to_owned(), name: job.to_owned() };
    runs.claim(&fake::caller(subject, &[]), run, Some(&job))
}

fn write(runs: &Runs, subject: &str, outcome: &Outcome) -> Result<Option<RunConflict>, Refusal> {
    let claim = claim(runs, subject, RUN, "totals")?;
    let conflict = claim.conflict();
    claim.settle(outcome);
    Ok(conflict)
}

#[tokio::test(start_paused = true)]
async fn a_run_belongs_to_whose_event_was_delivered_or_may_have_been() {
    let table = [
        (STORED, true),
        (Outcome::Unknown(Unknown::Timeout), true),
        (Outcome::Unknown(Unknown::Pending), true),
        (REJECTED, false),
        (Outcome::NotSent, false),
        (Outcome::Fault { status: 500 }, false),
        (Outcome::CallerForbidden, false),
    ];
    for (outcome, binds) in table {
        let runs = runs(RunBinding::Enforce);
        write(&runs, "alice", &outcome).unwrap();
        let other = write(&runs, "bob", &STORED);
        assert_eq!(other, if binds { Err(Refusal::NotVisible) } else { Ok(None) }, "{outcome:?}");
        let owner = if binds { "alice" } else { "bob" };
        assert_eq!(write(&runs, owner, &STORED), Ok(None), "{outcome:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_event_under_way_holds_its_run() {
    let runs = runs(RunBinding::Enforce);
    let first = claim(&runs, "alice", RUN, "totals").unwrap();
    assert_eq!(claim(&runs, "bob", RUN, "totals").err(), Some(Refusal::NotVisible));
    let second = claim(&runs, "alice", RUN, "totals").unwrap();
    first.settle(&REJECTED);
    assert_eq!(claim(&runs, "bob", RUN, "totals").err(), Some(Refusal::NotVisible), "the second still does");
    drop(second);
    assert!(claim(&runs, "bob", RUN, "totals").is_ok());
}

#[tokio::test(start_paused = true)]
async fn in_shadow_it_is_only_reported_and_the_run_stays_where_it_was() {
    let runs = runs(RunBinding::Shadow);
    assert_eq!(write(&runs, "alice", &STORED), Ok(None));
    assert_eq!(write(&runs, "bob", &STORED), Ok(Some(RunConflict::OtherCaller)));
    assert_eq!(write(&runs, "alice", &STORED), Ok(None));
    assert_eq!(write(&runs, "bob", &STORED), Ok(Some(RunConflict::OtherCaller)));
}

#[tokio::test(start_paused = true)]
async fn another_job_of_the_same_caller_is_reported_and_never_refused() {
    for mode in [RunBinding::Shadow, RunBinding::Enforce] {
        let runs = runs(mode);
        write(&runs, "alice", &STORED).unwrap();
        let other = claim(&runs, "alice", RUN, "another").unwrap();
        assert_eq!(other.conflict(), Some(RunConflict::OtherJob));
        other.settle(&STORED);
        assert_eq!(write(&runs, "alice", &STORED), Ok(None), "the run stays with the first job");
    }
}

#[tokio::test(start_paused = true)]
async fn off_remembers_nothing() {
    let runs = runs(RunBinding::Off);
    write(&runs, "alice", &STORED).unwrap();
    assert_eq!(write(&runs, "bob", &STORED), Ok(None));
    assert_eq!(runs.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_run_is_free_a_day_after_its_last_event() {
    let runs = runs(RunBinding::Enforce);
    write(&runs, "alice", &STORED).unwrap();
    tokio::time::advance(LIFETIME - Duration::from_secs(1)).await;
    write(&runs, "alice", &STORED).unwrap();
    tokio::time::advance(LIFETIME - Duration::from_secs(1)).await;
    assert_eq!(write(&runs, "bob", &STORED), Err(Refusal::NotVisible));
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(write(&runs, "bob", &STORED), Ok(None));
}

#[tokio::test(start_paused = true)]
async fn refused_events_do_not_keep_a_run_longer() {
    let runs = runs(RunBinding::Enforce);
    write(&runs, "alice", &STORED).unwrap();
    tokio::time::advance(LIFETIME - Duration::from_secs(1)).await;
    write(&runs, "alice", &REJECTED).unwrap();
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(write(&runs, "bob", &STORED), Ok(None));
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_runs_of_one_caller_frees_nobody_elses() {
    let runs = runs(RunBinding::Enforce);
    write(&runs, "alice", &STORED).unwrap();
    for number in 0..1_000 {
        claim(&runs, "mallory", &format!("run-{number}"), "j").unwrap().settle(&STORED);
    }
    assert_eq!(runs.len(), 100);
    assert_eq!(write(&runs, "bob", &STORED), Err(Refusal::NotVisible));
}

#[test]
fn spellings_of_one_run_id_are_one_run() {
    let table = [
        ("01941F29-7C00-7000-8000-00000000ABCD", true),
        (" 01941f29-7c00-7000-8000-00000000abcd ", true),
        ("1941f29-7c00-7000-8000-abcd", true),
        ("1941f29-7c00-7000-8000-+abcd", true),
        ("f01941f29-7c00-7000-8000-abcd", true),
        ("01941f29-7c00-7000-8000-00000000abce", false),
        ("01941f297c00700080000000 0000abcd", false),
        ("01941f29-7c00-7000-8000-00000000abcd-", false),
        ("", false),
    ];
    for (spelling, same) in table {
        assert_eq!(run_key(spelling) == run_key(RUN), same, "{spelling}");
    }
    assert_eq!(run_key("Manual__2026"), run_key("manual__2026"));
}
