use serde_json::json;

use super::*;
use crate::upstream::contract::Contract;
use crate::upstream::fake::raw;

const STORED: Outcome = Outcome::Accepted { edges: None, durability: Durability::Stored };
const UNKNOWN: BatchOutcome = BatchOutcome::Whole(Outcome::Unknown(Unknown::TruncatedBody));
const RETRY: Outcome = Outcome::Fault { status: 503 };

fn outcome(contract: Contract, status: u16, body: &str, count: usize) -> BatchOutcome {
    contract.classify_batch(&raw(status, Some("application/json"), body, true), count, "backend.example", 8080)
}

fn each(outcomes: &[Outcome]) -> BatchOutcome {
    BatchOutcome::Each { outcomes: outcomes.to_vec(), edges: None }
}

fn counted(outcomes: &[Outcome], edges: u64) -> BatchOutcome {
    BatchOutcome::Each { outcomes: outcomes.to_vec(), edges: Some(edges) }
}

fn rejected(reason: &str) -> Outcome {
    Outcome::Rejected { message: Some(reason.to_owned()), unprocessable: false }
}

#[test]
fn events_keep_their_bytes_in_a_batch() {
    let events = [Bytes::from_static(b" {\"a\":1.0} "), Bytes::from_static(b"{}")];
    assert_eq!(&BatchForm::Array.body(&events)[..], b"[ {\"a\":1.0} ,{}]");
    assert_eq!(&BatchForm::Events.body(&events)[..], b"{\"events\":[ {\"a\":1.0} ,{}]}");
    assert_eq!(&BatchForm::Array.body(&[])[..], b"[]");
}

#[test]
fn openmetadatas_reports_of_both_versions_are_read() {
    let none = Outcome::NoEffect(NoEffect::NoEdges);
    let unresolved = Outcome::NoEffect(NoEffect::Unresolved { datasets: 1 });
    let rows = [
        (
            200,
            json!({ "status": "success", "summary": { "received": 1, "successful": 1, "failed": 0, "skipped": 0 }, "failedEvents": null, "lineageEdgesCreated": 1 }),
            1,
            counted(&[Outcome::Accepted { edges: Some(1), durability: Durability::Stored }], 1),
        ),
        (
            200,
            json!({ "status": "partial_success", "summary": { "received": 3, "successful": 1, "failed": 1, "skipped": 1 },
                "failedEvents": [{ "index": 2, "reason": "no producer", "retriable": false }], "lineageEdgesCreated": 1 }),
            3,
            counted(&[STORED, none.clone(), rejected("no producer")], 1),
        ),
        (
            200,
            json!({ "status": "success", "summary": { "received": 2, "successful": 0, "failed": 1, "skipped": 1 },
                "failedEvents": [{ "index": 0, "reason": "x", "retriable": false }], "lineageEdgesCreated": 0 }),
            2,
            counted(&[rejected("x"), none], 0),
        ),
        (
            200,
            json!({ "status": "failure", "summary": { "received": 2, "successful": 0, "failed": 2, "skipped": 0 }, "lineageEdgesCreated": 0 }),
            2,
            counted(
                &[
                    Outcome::Rejected { message: None, unprocessable: false },
                    Outcome::Rejected { message: None, unprocessable: false },
                ],
                0,
            ),
        ),
        (
            200,
            json!({ "status": "partial_success",
                "summary": { "received": 4, "successful": 1, "partial": 1, "failed": 1, "skipped": 1 },
                "failedEvents": [{ "index": 3, "reason": "java.lang.X", "retriable": false }],
                "unresolvedDatasets": [
                    { "eventIndex": 1, "namespace": "a", "name": "b" },
                    { "eventIndex": 1, "namespace": "a", "name": "c" },
                    { "eventIndex": 2, "namespace": "a", "name": "d" },
                ],
                "lineageEdgesCreated": 5 }),
            4,
            counted(
                &[
                    STORED,
                    Outcome::Partial { edges: 1 },
                    unresolved.clone(),
                    Outcome::Rejected { message: None, unprocessable: false },
                ],
                5,
            ),
        ),
        (
            400,
            json!({ "status": "failure", "summary": { "received": 1, "successful": 0, "partial": 0, "failed": 0, "skipped": 1 },
                "unresolvedDatasets": [{ "eventIndex": 0, "namespace": "a", "name": "b" }], "lineageEdgesCreated": 0 }),
            1,
            counted(&[unresolved], 0),
        ),
    ];
    for (status, body, count, expected) in rows {
        assert_eq!(outcome(Contract::Openmetadata, status, &body.to_string(), count), expected, "{body}");
    }
}

#[test]
fn reports_of_the_specification_and_of_polaris_are_read() {
    let body = |status: &str, reason: &str| {
        json!({ "status": status, "summary": { "received": 3, "successful": 1, "failed": 2 }, "failed_events": [
            { "index": 2, reason: "bad", "retriable": false }, { "index": 0, reason: "busy", "retriable": true },
        ] })
        .to_string()
    };
    let expected = each(&[RETRY, STORED, rejected("bad")]);
    assert_eq!(outcome(Contract::Openlineage, 200, &body("partial_success", "reason"), 3), expected);
    assert_eq!(outcome(Contract::Datahub, 200, &body("partial_success", "reason"), 3), expected);
    assert_eq!(outcome(Contract::Polaris, 200, &body("PARTIAL", "message"), 3), expected);
    let failed = json!({ "status": "failure", "summary": { "received": 1, "successful": 0, "failed": 1 },
        "failed_events": [{ "index": 0, "reason": "bad", "retriable": false }] });
    assert_eq!(outcome(Contract::Openlineage, 400, &failed.to_string(), 1), each(&[rejected("bad")]));
    let good = json!({ "status": "SUCCESS", "summary": { "received": 2, "successful": 2, "failed": 0,
        "omitted_unresolved": 1, "omitted_unauthorized": 0 }, "failed_events": [] });
    assert_eq!(outcome(Contract::Polaris, 200, &good.to_string(), 2), each(&[STORED, STORED]));
    assert_eq!(outcome(Contract::Openlineage, 204, "", 2), each(&[STORED, STORED]));
    let queued = Outcome::Accepted { edges: None, durability: Durability::Queued };
    assert_eq!(outcome(Contract::Openlineage, 202, "", 1), each(&[queued]));
}

#[test]
fn a_report_that_contradicts_itself_or_the_request_says_nothing() {
    let report = |status: &str, counts: [usize; 3], failed: &[i64]| {
        let [received, successful, failed_count] = counts;
        let failed: Vec<_> = failed.iter().map(|index| json!({ "index": index, "reason": "x" })).collect();
        json!({ "status": status, "summary": { "received": received, "successful": successful, "failed": failed_count },
            "failed_events": failed })
        .to_string()
    };
    let rows = [
        report("success", [1, 1, 0], &[]),
        report("success", [3, 3, 0], &[]),
        report("success", [2, 1, 0], &[]),
        report("success", [2, 1, 1], &[0]),
        report("success", [2, 0, 2], &[0, 1]),
        report("success", [2, 2, 0], &[0]),
        report("partial_success", [2, 0, 2], &[0, 1]),
        report("partial_success", [2, 1, 1], &[]),
        report("partial_success", [2, 1, 1], &[2]),
        report("partial_success", [2, 1, 1], &[0, 1]),
        report("failure", [2, 0, 2], &[0, 0]),
        report("failure", [2, 1, 1], &[0]),
    ];
    for body in rows {
        assert_eq!(outcome(Contract::Openlineage, 200, &body, 2), UNKNOWN, "{body}");
    }
}

#[test]
fn what_is_no_report_is_told_for_the_whole_batch() {
    let kinds = [Contract::Openlineage, Contract::Datahub, Contract::Polaris, Contract::Openmetadata];
    let negative = r#"{"status":"success","summary":{"received":1,"successful":1,"failed":-1}}"#;
    let single = r#"{"status":"success","lineageEdgesCreated":1}"#;
    for contract in kinds {
        for body in ["", "[]", "{}", negative, single, r#"{"status":"fine","summary":{}}"#] {
            let outcome = outcome(contract, 200, body, 1);
            assert!(matches!(outcome, BatchOutcome::Whole(Outcome::BadGateway(_))), "{contract:?} {body}: {outcome:?}");
        }
        let page = contract.classify_batch(&raw(200, Some("text/html"), "<html>", false), 1, "h.example", 1);
        assert!(matches!(page, BatchOutcome::Whole(Outcome::BadGateway(_))), "{contract:?}");
        let cut = contract.classify_batch(&raw(200, None, r#"{"status""#, false), 1, "h.example", 1);
        assert_eq!(cut, UNKNOWN, "{contract:?}");
        for (status, expected) in [
            (400, Outcome::Rejected { message: None, unprocessable: false }),
            (401, Outcome::UpstreamAuth),
            (413, Outcome::TooLarge),
            (429, Outcome::Throttled),
            (503, Outcome::Fault { status: 503 }),
        ] {
            assert_eq!(outcome(contract, status, "", 1), BatchOutcome::Whole(expected), "{contract:?} {status}");
        }
        for status in [404, 501] {
            assert_eq!(outcome(contract, status, "", 1), BatchOutcome::Unsupported, "{contract:?} {status}");
        }
    }
    let disabled = r#"{"status":"failure","message":"OpenLineage API is disabled","lineageEdgesCreated":0}"#;
    assert_eq!(outcome(Contract::Openmetadata, 503, disabled, 1), BatchOutcome::Whole(Outcome::Disabled));
    let invalid = r#"{"code":400,"message":"[events[1].job must not be null]"}"#;
    let whole = BatchOutcome::Whole(rejected("[events[1].job must not be null]"));
    assert_eq!(outcome(Contract::Openmetadata, 400, invalid, 2), whole);
}
