use std::fs;
use std::path::Path;
use std::sync::Arc;

use super::*;

const STORED: Outcome = Outcome::Accepted { edges: None, durability: Durability::Stored };

fn open(path: &Path) -> Result<FileLog, Error> {
    let json = serde_json::json!({ "name": "u", "kind": "file", "path": path });
    FileLog::open(&serde_json::from_value(json).unwrap())
}

/// A queue that nobody reads.
fn stuck(queue: usize) -> (FileLog, mpsc::Receiver<Entry>) {
    let (queue, entries) = mpsc::channel(queue);
    (FileLog { queue: Some(queue), room: room(), writer: None, timeout: Duration::from_secs(3) }, entries)
}

/// An entry and its outcome, outside of the bound.
fn entry(line: Vec<u8>) -> (Entry, oneshot::Receiver<Outcome>) {
    let (done, outcome) = oneshot::channel();
    (Entry { line, done, room: room().try_acquire_owned().unwrap() }, outcome)
}

#[test]
fn only_white_space_between_tokens_is_dropped() {
    let cases = [
        ("{}", "{}\n"),
        (" {\r\n\t\"a b\" : [ 1 , 2 ] }\n", "{\"a b\":[1,2]}\n"),
        (r#"{ "a\" b" : " c\\" , "d" : " \\\" e " }"#, "{\"a\\\" b\":\" c\\\\\",\"d\":\" \\\\\\\" e \"}\n"),
        ("{ \"ö \u{1f600} \" : 1.0e5 }", "{\"ö \u{1f600} \":1.0e5}\n"),
    ];
    for (body, line) in cases {
        assert_eq!(String::from_utf8(one_line(body.as_bytes())).unwrap(), line);
    }
}

#[tokio::test]
async fn an_event_is_in_the_file_when_its_yes_comes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.jsonl");
    let log = open(&path).unwrap();
    for number in 0..3 {
        let body = format!("{{\n  \"event\": {number}\n}}");
        assert_eq!(log.append(&body.into()).await, STORED);
        let last = format!("{{\"event\":{number}}}\n");
        assert!(fs::read_to_string(&path).unwrap().ends_with(&last));
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), "{\"event\":0}\n{\"event\":1}\n{\"event\":2}\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_events_at_once_are_two_hundred_whole_lines() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.jsonl");
    let log = Arc::new(open(&path).unwrap());
    let sends: Vec<_> = (0..200)
        .map(|number| {
            let log = Arc::clone(&log);
            let body = serde_json::json!({ "event": number, "filler": "x".repeat(number * 50) }).to_string();
            tokio::spawn(async move { log.append(&body.into()).await })
        })
        .collect();
    for send in sends {
        assert_eq!(send.await.unwrap(), STORED);
    }
    let content = fs::read_to_string(&path).unwrap();
    let mut numbers: Vec<u64> = content
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["event"].as_u64().unwrap())
        .collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..200).collect::<Vec<_>>());
}

#[test]
fn what_is_queued_shares_one_write_in_its_order() {
    let (log, mut entries) = stuck(10);
    let queue = log.queue.as_ref().unwrap();
    let mut outcomes = Vec::new();
    for number in 0..5 {
        let (entry, outcome) = entry(format!("{number}\n").into_bytes());
        assert!(queue.try_send(entry).is_ok());
        outcomes.push(outcome);
    }
    let first = entries.try_recv().unwrap();
    let batch = take_batch(first, &mut entries);
    assert_eq!(batch.len(), 5);

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.jsonl");
    write(&mut Log::open(&path).unwrap(), batch);
    assert_eq!(fs::read_to_string(&path).unwrap(), "0\n1\n2\n3\n4\n");
    for mut outcome in outcomes {
        assert_eq!(outcome.try_recv().unwrap(), STORED);
    }
}

#[test]
fn a_batch_ends_at_its_bound() {
    let (log, mut entries) = stuck(10);
    for _ in 0..4 {
        let (entry, _) = entry(vec![b'x'; BATCH / 2]);
        assert!(log.queue.as_ref().unwrap().try_send(entry).is_ok());
    }
    let first = entries.try_recv().unwrap();
    assert_eq!(take_batch(first, &mut entries).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_is_not_sent_and_a_silent_disk_is_unknown() {
    let (log, _entries) = stuck(1);
    let body = Bytes::from_static(b"{}");
    assert_eq!(log.append(&body).await, Outcome::Unknown(Unknown::Timeout));
    assert_eq!(log.append(&body).await, Outcome::NotSent);
}

#[tokio::test(start_paused = true)]
async fn the_queue_is_bounded_in_bytes_and_gives_room_back() {
    let (log, mut entries) = stuck(10);
    let (half, all) = (Bytes::from(vec![b'1'; QUEUE_BYTES / 2 + 1]), Bytes::from(vec![b'1'; QUEUE_BYTES + 1]));
    assert_eq!(log.append(&half).await, Outcome::Unknown(Unknown::Timeout));
    assert_eq!(log.append(&half).await, Outcome::NotSent);
    assert_eq!(log.append(&all).await, Outcome::NotSent);
    drop(entries.try_recv());
    assert_eq!(log.append(&all).await, Outcome::Unknown(Unknown::Timeout), "it waits alone");
    assert_eq!(log.append(&Bytes::from_static(b"1")).await, Outcome::NotSent);
}

#[tokio::test]
async fn a_write_that_fails_is_a_fault_and_the_next_one_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.jsonl");
    let log = open(&path).unwrap();
    assert_eq!(log.append(&Bytes::from_static(b"{}")).await, STORED);
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert_eq!(log.append(&Bytes::from_static(b"{}")).await, Outcome::Fault { status: 500 });
    fs::remove_dir(&path).unwrap();
    assert_eq!(log.append(&Bytes::from_static(b"{}")).await, STORED);
    assert_eq!(path.metadata().unwrap().len(), 3);
    let full = Error::Open { path, source: std::io::ErrorKind::StorageFull.into() };
    assert_eq!(status(&full), 507);
}

#[tokio::test]
async fn dropping_the_log_frees_its_lock() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.jsonl");
    let log = open(&path).unwrap();
    assert!(matches!(open(&path), Err(Error::Locked { .. })));
    drop(log);
    assert!(open(&path).is_ok());
}

proptest::proptest! {
    #[test]
    fn one_line_is_the_same_document(text in ".*", number in proptest::prelude::any::<f64>(), list in proptest::collection::vec(".*", 0..4)) {
        let document = serde_json::json!({ text.as_str(): [number, text.as_str()], "list": list, "nested": { "a \\": { "\" ": null } } });
        let pretty = serde_json::to_string_pretty(&document).unwrap();
        proptest::prop_assert_eq!(one_line(pretty.as_bytes()), format!("{document}\n").into_bytes());
    }
}
