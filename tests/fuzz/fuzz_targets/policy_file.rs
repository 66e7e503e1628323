//! A policy file of any text, YAML and JSON: a policy or faults, never a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lineage_gate::policy::file::{self, Format};
use lineage_gate::policy::{Source, compile};

fuzz_target!(|text: &str| {
    for format in [Format::Yaml, Format::Json] {
        let Ok(policy) = file::parse(text, format) else { continue };
        let named = policy.metalakes.len();
        match compile(vec![Source { file: "fuzz".into(), policy }]) {
            Ok(world) => assert_eq!(world.extent().metalakes, named),
            Err(faults) => assert!(!faults.is_empty()),
        }
    }
});
