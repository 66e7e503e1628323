use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::config;
use crate::event::scan::testing::any_value;

fn split_text(text: &str, envelope: Envelope) -> Result<Vec<String>, String> {
    let body = Bytes::copy_from_slice(text.as_bytes());
    let elements = split(&body, envelope, 3).map_err(|error| format!("{error:?}"))?;
    Ok(elements.iter().map(|element| String::from_utf8(element.to_vec()).unwrap()).collect())
}

fn rules() -> Rules {
    Rules::new(&config::Event { max_references: 4, ..config::Event::default() }, config::EventTime::AssumeUtc, true)
}

fn event(inputs: usize) -> Bytes {
    let datasets: Vec<Value> = (0..inputs).map(|n| json!({ "namespace": "ns", "name": format!("d{n}") })).collect();
    let event = json!({
        "eventTime": "2026-10-20T10:00:00Z",
        "producer": "https://example.com",
        "schemaURL": "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent",
        "run": { "runId": "2ad9b3d8-18cb-4e15-b48c-56362a50ea5c" },
        "job": { "namespace": "ns", "name": "job" },
        "inputs": datasets,
    });
    Bytes::from(event.to_string())
}

#[test]
fn elements_keep_their_bytes_whatever_they_are() {
    for (text, envelope, elements) in [
        (r#"[{"a" : 1.0}]"#, Envelope::List, vec![r#"{"a" : 1.0}"#]),
        (" [ 1 ,\n\"x\\u0041\", {\"a\":1,\"a\":2} ] ", Envelope::List, vec!["1", "\"x\\u0041\"", "{\"a\":1,\"a\":2}"]),
        ("[null]", Envelope::List, vec!["null"]),
        (r#"{"events":[[1],{}]}"#, Envelope::Events, vec!["[1]", "{}"]),
        (r#"{ "\u0065vents" : [ {} ] }"#, Envelope::Events, vec!["{}"]),
    ] {
        let found = split_text(text, envelope).unwrap();
        assert_eq!(found, elements, "{text}");
    }
}

#[test]
fn another_envelope_refuses_the_whole() {
    let object = r#"Malformed("a batch is an object with a list `events`, and nothing else")"#;
    let list = r#"Malformed("a batch is a list of events")"#;
    let truncated = r#"Malformed("the body ends before its JSON document does")"#;
    let syntax = r#"Malformed("the body is not a JSON document in UTF-8")"#;
    let twice = r#"Malformed("an object holds a key twice")"#;
    let empty = r#"Invalid("the batch holds no event: send at least one")"#;
    let many = r#"TooLarge("the batch holds more than 3 events (event.max_batch)")"#;
    for (text, envelope, error) in [
        ("[{}]", Envelope::Events, object),
        ("{}", Envelope::Events, object),
        ("null", Envelope::Events, object),
        ("\"events\"", Envelope::Events, object),
        (r#"{"events":{}}"#, Envelope::Events, object),
        (r#"{"events":null}"#, Envelope::Events, object),
        (r#"{"Events":[{}]}"#, Envelope::Events, object),
        (r#"{"events":[{}],"more":1}"#, Envelope::Events, object),
        (r#"{"events":[{}],"events":[{}]}"#, Envelope::Events, twice),
        (r#"{"events":[{}],"\u0065vents":[]}"#, Envelope::Events, twice),
        (r#"{"events":[{}]"#, Envelope::Events, truncated),
        (r#"{"events":[{}]}x"#, Envelope::Events, syntax),
        (r#"{"events":[]}"#, Envelope::Events, empty),
        (r#"{"events":[1,2,3,4]}"#, Envelope::Events, many),
        (r#"{"events":[{}]}"#, Envelope::List, list),
        ("null", Envelope::List, list),
        ("7", Envelope::List, list),
        ("[]", Envelope::List, empty),
        (" [ ] ", Envelope::List, empty),
        ("[1,2,3,4]", Envelope::List, many),
        // No more is read than the bound needs: what is behind it may be anything.
        ("[1,2,3,4,}", Envelope::List, many),
        ("[1,]", Envelope::List, syntax),
        ("[{]", Envelope::List, syntax),
        ("[1] [2]", Envelope::List, syntax),
        ("\u{feff}[1]", Envelope::List, syntax),
        ("", Envelope::List, truncated),
        ("[1", Envelope::List, truncated),
    ] {
        assert_eq!(split_text(text, envelope), Err(error.to_owned()), "{text}");
    }
    let latin = Bytes::from_static(b"[\"\xe9\"]");
    assert!(matches!(split(&latin, Envelope::List, 3), Err(Error::Malformed(_))));
}

#[test]
fn depth_breaks_the_event_that_has_it_and_no_other() {
    let deep = format!("[{}{},{}]", "[".repeat(100_000), "]".repeat(100_000), std::str::from_utf8(&event(1)).unwrap());
    let elements = split(&Bytes::from(deep), Envelope::List, 3).unwrap();
    let events = parse(elements, &rules(), &Plan::default()).unwrap();
    assert!(matches!(events.as_slice(), [Err(Error::Malformed(_)), Ok(_)]), "{events:?}");
}

#[test]
fn a_bad_event_spoils_no_other_and_each_keeps_its_place() {
    let elements = vec![
        event(1),
        Bytes::from_static(b"null"),
        Bytes::from_static(br#"{"run":{},"run":{}}"#),
        Bytes::from_static(b"{}"),
        event(9),
        event(2),
    ];
    let events = parse(elements, &rules(), &Plan::default()).unwrap();
    let fits = |at: usize| events[at].is_ok();
    assert!(fits(0) && fits(5));
    assert!(matches!(events[1], Err(Error::Invalid(_))), "{:?}", events[1]);
    assert!(matches!(events[2], Err(Error::Malformed(_))), "{:?}", events[2]);
    assert!(matches!(events[3], Err(Error::Invalid(_))), "{:?}", events[3]);
    assert!(matches!(events[4], Err(Error::TooLarge(_))), "{:?}", events[4]);
}

#[test]
fn the_references_of_a_batch_have_a_bound_of_their_own() {
    // Three inputs and the job: four references each.
    assert_eq!(parse(vec![event(3); 10], &rules(), &Plan::default()).unwrap().len(), 10);
    let Err(Error::TooLarge(text)) = parse(vec![event(3); 11], &rules(), &Plan::default()) else {
        panic!("over the bound")
    };
    assert_eq!(text, "the batch names more than 40 datasets and jobs (10 times event.max_references)");
}

proptest! {
    #[test]
    fn what_is_joined_is_split_into_the_same(values in prop::collection::vec(any_value(), 1..6)) {
        let events: Vec<Bytes> = values.iter().map(|value| Bytes::from(value.to_string())).collect();
        for envelope in [Envelope::Events, Envelope::List] {
            let whole = join(&events, envelope);
            prop_assert_eq!(&split(&whole, envelope, 6).unwrap(), &events);
            let list = Value::from(values.clone()).to_string();
            let text = if envelope == Envelope::List { list } else { format!("{{\"events\":{list}}}") };
            prop_assert_eq!(whole, text);
        }
    }

    #[test]
    fn no_bytes_break_the_reader(bytes in prop::collection::vec(any::<u8>(), 0..64), text in "[\\[\\]{}\",: events1]{0,40}") {
        for body in [Bytes::from(bytes), Bytes::from(text)] {
            for envelope in [Envelope::Events, Envelope::List] {
                if let Ok(elements) = split(&body, envelope, 8) {
                    prop_assert!((1..=8).contains(&elements.len()));
                    prop_assert!(elements.iter().all(|element| serde_json::from_slice::<&RawValue>(element).is_ok()));
                }
            }
        }
    }
}
