use std::collections::BTreeMap;
use std::io::Read;

use flate2::read::GzDecoder;
use serde_json::Value;

use super::*;
use crate::event::scan::testing::plain_search;

/// What Spark, dbt, Airflow, the Python and the Java client really sent: file name to body.
pub(super) fn client_events() -> BTreeMap<String, String> {
    let packed = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/client-events.json.gz"));
    let mut json = String::new();
    GzDecoder::new(packed.as_slice()).read_to_string(&mut json).unwrap();
    serde_json::from_str(&json).unwrap()
}

fn rules() -> Rules {
    Rules::new(&config::Event::default(), EventTime::RequireOffset, false)
}

#[test]
fn every_real_client_event_is_accepted_and_all_that_it_names_is_found() {
    let events = client_events();
    assert_eq!(events.len(), 42);
    for (file, body) in events {
        let value: Value = serde_json::from_str(&body).unwrap();
        let event = parse(Bytes::from(body), &rules()).unwrap_or_else(|error| panic!("{file}: {error}"));
        let mut found: Vec<_> =
            event.references.iter().map(|reference| (reference.namespace.clone(), reference.name.clone())).collect();
        found.sort();
        assert_eq!(found, plain_search(&value), "{file}");
        for reference in &event.references {
            assert!(at(&value, &reference.path).is_some_and(|place| place["name"] == reference.name), "{reference:?}");
        }
        assert!(!event.namespace().is_empty(), "{file}");
    }
}

#[test]
fn a_minified_client_event_is_the_same_event() {
    for (file, body) in client_events() {
        let pretty = serde_json::to_string_pretty(&serde_json::from_str::<Value>(&body).unwrap()).unwrap();
        let small = minified(pretty.as_bytes());
        assert!(!small.contains(&b'\n'), "{file}");
        let [pretty, small] = [Bytes::from(pretty), Bytes::from(small)].map(|body| parse(body, &rules()).unwrap());
        assert_eq!(small.references, pretty.references, "{file}");
        assert_eq!(small.deleted_facets, pretty.deleted_facets, "{file}");
        assert_eq!((small.kind, small.job, small.run_id), (pretty.kind, pretty.job, pretty.run_id), "{file}");
        assert_eq!(
            serde_json::from_slice::<Value>(&small.body).unwrap(),
            serde_json::from_slice::<Value>(&pretty.body).unwrap()
        );
    }
}

#[test]
fn a_run_event_of_real_clients_is_one_for_gravitino_too() {
    let gravitino = Rules { runs_only: true, ..rules() };
    for (file, body) in client_events() {
        let kind = parse(Bytes::from(body.clone()), &rules()).unwrap().kind;
        assert_eq!(parse(Bytes::from(body), &gravitino).is_ok(), kind == Kind::Run, "{file}");
    }
}

/// The value at a path as [`Reference::path`] writes it.
fn at<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    path.replace('[', ".[").split('.').filter(|step| !step.is_empty()).try_fold(value, |value, step| {
        match step.strip_prefix('[').and_then(|index| index.strip_suffix(']')) {
            Some(index) => value.get(index.parse::<usize>().unwrap()),
            None => value.get(step),
        }
    })
}

#[test]
fn every_error_has_its_refusal() {
    let text = || "text".to_owned();
    let broken = Error::BrokenOff("reset".into());
    let table = [
        (Error::TooLarge(text()), Refusal::TooLarge { bound: text() }),
        (Error::UnsupportedMediaType, Refusal::UnsupportedMediaType),
        (Error::UnsupportedEncoding, Refusal::UnsupportedEncoding),
        (Error::BodyTimeout, Refusal::BodyTimeout),
        (broken, Refusal::BadBody("the body broke off before its end".to_owned())),
        (Error::BadBody("text"), Refusal::BadBody(text())),
        (Error::MemoryFull, Refusal::MemoryFull),
        (Error::Malformed(text()), Refusal::Malformed(text())),
        (Error::Invalid(text()), Refusal::Invalid(text())),
    ];
    for (error, refusal) in table {
        assert_eq!(Refusal::from(error), refusal);
    }
}

#[test]
fn rules_follow_the_configuration_and_then_the_upstream() {
    let mut event = config::Event { max_depth: 7, ..config::Event::default() };
    let rules = Rules::new(&event, EventTime::AssumeUtc, true);
    assert_eq!((rules.event_time, rules.max_depth, rules.runs_only), (EventTime::AssumeUtc, 7, true));
    event.event_time = Some(EventTime::RequireOffset);
    assert_eq!(Rules::new(&event, EventTime::AssumeUtc, true).event_time, EventTime::RequireOffset);
}
