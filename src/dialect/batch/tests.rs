use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::answer::{Challenge, Durability, NoEffect, NotAttempted, Outcome, Refusal, Unknown, Unreachable};
use crate::dialect::OpenmetadataRelease;
use crate::dialect::tests::assert_invariants;

const V2_0: Dialect = Dialect::Openmetadata(OpenmetadataRelease::V2_0);
const V2_1: Dialect = Dialect::Openmetadata(OpenmetadataRelease::V2_1);
const DIALECTS: [Dialect; 4] = [V2_0, V2_1, Dialect::Openlineage, Dialect::Gravitino];

fn accepted(edges: Option<u64>) -> End {
    End::Sent(Outcome::Accepted { edges, durability: Durability::Stored })
}

fn rejected() -> End {
    End::Sent(Outcome::Rejected { message: Some("bad name".to_owned()), unprocessable: true })
}

fn invalid() -> End {
    End::Refused(Refusal::Invalid("run is required".to_owned()))
}

const NO_EFFECT: End = End::Sent(Outcome::NoEffect(NoEffect::Filtered));
const DENIED: End = End::Refused(Refusal::NotVisible);
const FORBIDDEN: End = End::Sent(Outcome::CallerForbidden);
const THROTTLED: End = End::Sent(Outcome::Throttled);
const AUTH: End = End::Sent(Outcome::UpstreamAuth);
const FAULT: End = End::Sent(Outcome::Fault { status: 500 });
const UNKNOWN: End = End::Sent(Outcome::Unknown(Unknown::Timeout));
const STOPPED: End = End::NotAttempted(NotAttempted::Stopped);
const EARLIER: End = End::NotAttempted(NotAttempted::EarlierFailed);
const LATE: End = End::NotAttempted(NotAttempted::Deadline);

fn tell(dialect: Dialect, ends: &[End]) -> Answer {
    answer(dialect, &BatchReport::new(ends.to_vec()))
}

fn body(answer: &Answer) -> Value {
    serde_json::from_slice(&answer.body).unwrap()
}

/// The table of facts/backends.md 2.5: the statuses of O 2.0, O 2.1 and M/OL, and the word of the body; none where the
/// answer is that of a single event.
#[test]
fn every_result_has_its_status_in_every_form() {
    let table: Vec<(Vec<End>, [u16; 3], Option<&str>)> = vec![
        (vec![accepted(None), accepted(Some(1))], [200; 3], Some("success")),
        (vec![NO_EFFECT], [200; 3], Some("success")),
        (vec![accepted(None), DENIED], [200; 3], Some("partial_success")),
        (vec![NO_EFFECT, rejected()], [200; 3], Some("partial_success")),
        (vec![End::Sent(Outcome::Partial { edges: 1 })], [200; 3], Some("partial_success")),
        (vec![rejected(), invalid()], [200, 400, 400], Some("failure")),
        (vec![DENIED, invalid()], [200, 400, 400], Some("failure")),
        (vec![End::Sent(Outcome::TooLarge)], [200, 400, 400], Some("failure")),
        (vec![DENIED, DENIED], [403; 3], None),
        (vec![DENIED, FORBIDDEN], [403; 3], None),
        (vec![FAULT, FAULT, EARLIER], [503; 3], None),
        (vec![UNKNOWN, LATE], [503; 3], None),
        (vec![LATE, LATE, DENIED], [503; 3], None),
        (vec![End::Sent(Outcome::NotSent), STOPPED], [503; 3], None),
        (vec![rejected(), FAULT], [503; 3], None),
        (vec![End::Sent(Outcome::Unreachable(Unreachable::Connect)), THROTTLED], [503; 3], None),
        (vec![THROTTLED, STOPPED, STOPPED], [429; 3], None),
        (vec![THROTTLED, invalid()], [429; 3], None),
        (vec![AUTH, STOPPED], [501; 3], None),
        (vec![AUTH, DENIED, STOPPED], [501; 3], None),
        (vec![End::Sent(Outcome::BadGateway("html".to_owned()))], [501; 3], None),
        (vec![End::Sent(Outcome::CallerUnauthenticated), STOPPED], [401; 3], None),
        (vec![End::Sent(Outcome::Disabled), STOPPED], [503, 503, 501], None),
        (vec![accepted(None), FAULT, EARLIER], [200; 3], Some("partial_success")),
        (vec![accepted(None), AUTH, STOPPED], [200; 3], Some("partial_success")),
        (vec![accepted(None), THROTTLED, STOPPED], [200; 3], Some("partial_success")),
        (vec![accepted(None), UNKNOWN, LATE], [200; 3], Some("partial_success")),
    ];
    for (ends, statuses, word) in table {
        for (dialect, status) in [V2_0, V2_1, Dialect::Openlineage].into_iter().zip(statuses) {
            let answer = tell(dialect, &ends);
            let context = format!("{dialect:?} {ends:?}");
            assert_eq!(answer.status.as_u16(), status, "{context}");
            let body = body(&answer);
            assert_eq!(body.get("summary").is_some(), word.is_some(), "{context}: {body}");
            if let Some(word) = word {
                assert_eq!(body["status"], word, "{context}");
            }
            assert_invariants_but_size(&answer, &context);
        }
    }
}

#[test]
fn openmetadata_is_answered_in_the_words_of_its_contract() {
    let one = tell(V2_0, &[accepted(Some(1))]);
    assert_eq!(
        body(&one),
        json!({
            "status": "success",
            "message": "Processed 1 events: 1 successful, 0 failed, 0 skipped. Created 1 lineage edges.",
            "summary": { "received": 1, "successful": 1, "failed": 0, "skipped": 0 },
            "lineageEdgesCreated": 1
        })
    );
    let ends = [accepted(Some(2)), NO_EFFECT, rejected(), End::Sent(Outcome::Partial { edges: 1 }), FAULT];
    let failed = json!([
        { "index": 2, "reason": "bad name", "retriable": false },
        { "index": 4, "reason": "The lineage backend failed: send the event again", "retriable": true }
    ]);
    let mixed = tell(V2_0, &ends);
    assert_eq!(
        body(&mixed),
        json!({
            "status": "partial_success",
            "message": "Processed 5 events: 2 successful, 2 failed, 1 skipped. Created 3 lineage edges.",
            "summary": { "received": 5, "successful": 2, "failed": 2, "skipped": 1 },
            "failedEvents": failed,
            "lineageEdgesCreated": 3
        })
    );
    let mixed = tell(V2_1, &ends);
    assert_eq!(
        body(&mixed),
        json!({
            "status": "partial_success",
            "message": "Processed 5 events: 1 successful, 1 partial, 2 failed, 1 skipped. Created 3 lineage edges.",
            "summary": { "received": 5, "successful": 1, "partial": 1, "failed": 2, "skipped": 1 },
            "failedEvents": failed,
            "lineageEdgesCreated": 3
        })
    );
    let uncounted = tell(V2_0, &[accepted(None), accepted(Some(1))]);
    assert_eq!(
        body(&uncounted),
        json!({
            "status": "success",
            "message": "Processed 2 events: 2 successful, 0 failed, 0 skipped.",
            "summary": { "received": 2, "successful": 2, "failed": 0, "skipped": 0 }
        })
    );
}

#[test]
fn openlineage_is_answered_in_the_words_of_its_specification() {
    let fine = tell(Dialect::Openlineage, &[accepted(None), NO_EFFECT]);
    assert_eq!(
        fine.body,
        r#"{"status":"success","summary":{"received":2,"successful":2,"failed":0,"retriable":0,"non_retriable":0}}"#
    );
    let mixed = tell(Dialect::Openlineage, &[accepted(None), DENIED, LATE]);
    assert_eq!(
        body(&mixed),
        json!({
            "status": "partial_success",
            "summary": { "received": 3, "successful": 1, "failed": 2, "retriable": 1, "non_retriable": 1 },
            "failed_events": [
                { "index": 1, "reason": "A metalake, dataset, namespace or job that the event names does not exist, or the caller may not access it", "retriable": false },
                { "index": 2, "reason": "Deadline exceeded before the event was sent: send it again, with fewer events in a batch", "retriable": true }
            ]
        })
    );
}

#[test]
fn what_is_hidden_in_a_batch_is_told_as_what_is_not_there() {
    for dialect in DIALECTS {
        assert_eq!(tell(dialect, &[DENIED]), refuse(dialect, &Refusal::NotVisible));
        assert_eq!(tell(dialect, &[accepted(None), DENIED]), tell(dialect, &[accepted(None), FORBIDDEN]));
    }
}

#[test]
fn reasons_are_short_and_tell_nothing_of_the_inside() {
    let long = End::Refused(Refusal::Invalid("x".repeat(2_000)));
    let inside = End::Sent(Outcome::BadGateway("http://10.0.0.1".to_owned()));
    let answer = tell(Dialect::Openlineage, &[accepted(None), long, inside]);
    assert!(answer.body.len() < 700, "{}", answer.body.len());
    assert!(!String::from_utf8_lossy(&answer.body).contains("10.0.0.1"));
}

/// What holds of every answer, but for the size of one that lists events.
fn assert_invariants_but_size(answer: &Answer, context: &str) {
    let mut short = answer.clone();
    if short.body.len() > 1_024 {
        short.body = bytes::Bytes::from_static(b"{}");
    }
    assert_invariants(&short, context);
}

fn any_end() -> impl Strategy<Value = End> {
    let challenge = Challenge { token_sent: true, reason: "no" };
    prop::sample::select(vec![
        accepted(None),
        accepted(Some(1)),
        End::Sent(Outcome::Partial { edges: 2 }),
        NO_EFFECT,
        End::Sent(Outcome::NoEffect(NoEffect::Unresolved { datasets: 1 })),
        rejected(),
        invalid(),
        DENIED,
        FORBIDDEN,
        THROTTLED,
        AUTH,
        FAULT,
        UNKNOWN,
        STOPPED,
        EARLIER,
        LATE,
        End::Sent(Outcome::TooLarge),
        End::Sent(Outcome::Disabled),
        End::Sent(Outcome::NotSent),
        End::Sent(Outcome::CallerUnauthenticated),
        End::Refused(Refusal::Unauthenticated(challenge)),
        End::Refused(Refusal::Internal),
        End::Refused(Refusal::PolicyUnavailable),
    ])
}

fn number(value: &Value) -> usize {
    usize::try_from(value.as_u64().unwrap()).unwrap()
}

proptest! {
    #[test]
    fn the_counts_add_up_and_the_indices_are_those_of_what_failed(ends in prop::collection::vec(any_end(), 1..40)) {
        let report = BatchReport::new(ends.clone());
        let counts = report.counts();
        prop_assert_eq!(counts.received, counts.successful + counts.partial + counts.skipped + counts.failed);
        for dialect in DIALECTS {
            let answer = answer(dialect, &report);
            assert_invariants_but_size(&answer, &format!("{dialect:?}"));
            let body = body(&answer);
            let Some(summary) = body.get("summary") else {
                // The whole may be sent again, or is refused: nothing of it was delivered.
                prop_assert_eq!(counts.failed, counts.received);
                continue;
            };
            let count = |name: &str| summary.get(name).map_or(0, number);
            let parts = count("successful") + count("partial") + count("skipped") + count("failed");
            prop_assert_eq!(count("received"), ends.len());
            prop_assert_eq!(parts, ends.len());
            let listed = body.get("failedEvents").or_else(|| body.get("failed_events"));
            let listed = listed.map(|list| list.as_array().unwrap().clone()).unwrap_or_default();
            prop_assert_eq!(listed.len(), count("failed"));
            let indices: Vec<usize> = listed.iter().map(|event| number(&event["index"])).collect();
            prop_assert!(indices.is_sorted_by(|a, b| a < b) && indices.iter().all(|index| *index < ends.len()));
            for (index, end) in ends.iter().enumerate() {
                let is_taken = matches!(
                    end,
                    End::Sent(Outcome::Accepted { .. } | Outcome::Partial { .. } | Outcome::NoEffect(_))
                );
                prop_assert_eq!(indices.contains(&index), !is_taken);
            }
            if summary.get("retriable").is_some() {
                let again = listed.iter().filter(|event| event["retriable"] == true).count();
                prop_assert_eq!(count("retriable"), again);
                prop_assert_eq!(count("retriable") + count("non_retriable"), count("failed"));
            }
            let is_delivered = counts.failed < counts.received;
            prop_assert!(!is_delivered || answer.status.as_u16() == 200, "{}", answer.status);
        }
    }
}
