//! Any bytes of an HTTP/1 connection: never a panic, and how they are cut into pieces changes nothing.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lineage_gate::listen::{HeadGuard, Violation};

fuzz_target!(|input: &[u8]| {
    assert_eq!(follow(input, usize::MAX), follow(input, 1));
});

/// Where requests end, with that many new bytes in each call, and the violation that ends it all.
fn follow(input: &[u8], piece: usize) -> (Vec<usize>, Option<Violation>) {
    let mut guard = HeadGuard::new(512);
    let (mut passed, mut shown, mut ends) = (0, 0, Vec::new());
    while shown < input.len() {
        shown = shown.saturating_add(piece).min(input.len());
        loop {
            let waiting = &input[passed..shown];
            match guard.feed(waiting) {
                Err(violation) => return (ends, Some(violation)),
                Ok(fed) => {
                    assert!(fed.pass <= waiting.len());
                    passed += fed.pass;
                    if fed.end {
                        ends.push(passed);
                    }
                    if fed.pass == 0 || passed == shown {
                        break;
                    }
                }
            }
        }
    }
    (ends, None)
}
