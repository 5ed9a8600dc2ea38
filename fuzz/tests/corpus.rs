//! Every committed input, crashes of the past among them, is fine; and a target that fails is found and shrunk.

#![allow(clippy::unwrap_used)]

use gannet_fuzz::{TARGETS, Target, driver};
use std::time::Duration;

#[test]
fn every_target_has_a_corpus_and_survives_it() {
    for target in TARGETS {
        let inputs = driver::read_corpus(target.name).unwrap();
        assert!(!inputs.is_empty(), "{} has no seeds", target.name);
        for (path, input) in inputs {
            let outcome = std::panic::catch_unwind(|| (target.run)(&input));
            assert!(
                outcome.is_ok(),
                "{} fails on {}",
                target.name,
                path.display()
            );
        }
    }
}

#[test]
fn every_target_survives_some_mutations() {
    for target in TARGETS {
        let inputs = driver::read_corpus(target.name).unwrap();
        let inputs = inputs.into_iter().map(|(_, bytes)| bytes).collect();
        let outcome = driver::fuzz(target, inputs, 1, Duration::ZERO);
        assert!(
            outcome.crash.is_none(),
            "{}: {:?}",
            target.name,
            outcome.crash
        );
    }
}

#[test]
fn a_crash_is_found_and_shrunk() {
    let fragile = Target {
        name: "fragile",
        run: |input| {
            assert!(
                !input
                    .windows(4)
                    .any(|word| word == [0x7f, 0xff, 0xff, 0xff])
            )
        },
    };
    let seeds = vec![vec![0; 64]];
    let outcome = driver::fuzz(&fragile, seeds, 1, Duration::from_secs(60));
    let (input, _) = outcome.crash.unwrap();
    assert_eq!(
        input.iter().filter(|byte| **byte != 0).count(),
        4,
        "{input:02x?}"
    );
}
