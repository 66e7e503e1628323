//! A body of any bytes → an event: never a panic, and what is accepted is JSON that was kept byte for byte.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use lineage_gate::config::EventTime;
use lineage_gate::event::{self, Kind, Rules, minified};
use serde_json::Value;
use serde_json::value::RawValue;

fuzz_target!(|body: &[u8]| {
    for runs_only in [false, true] {
        let rules = Rules {
            event_time: EventTime::AssumeUtc,
            kinds: vec![Kind::Run, Kind::Job, Kind::Dataset],
            runs_only,
            max_depth: 100,
            max_references: 1_000,
        };
        let Ok(event) = event::parse(Bytes::copy_from_slice(body), &rules) else { continue };
        assert_eq!(event.body, body);
        serde_json::from_slice::<&RawValue>(body).expect("what is accepted is JSON");
        assert!(event.references.len() <= 1_000);
        // Numbers out of a float's range are JSON all the same, and no `Value`.
        if let Ok(document) = serde_json::from_slice::<Value>(body) {
            assert_eq!(serde_json::from_slice::<Value>(&minified(body)).ok(), Some(document));
        }
    }
});
