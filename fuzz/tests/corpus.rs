//! Every committed input, crashes of the past among them, passes; and a target that holds too much memory fails.

#![allow(clippy::unwrap_used)]

use gannet_fuzz::{TARGETS, Target, corpus};
use std::hint::black_box;
use std::panic::catch_unwind;

#[test]
fn every_target_has_a_corpus_and_survives_it() {
    for target in TARGETS {
        let inputs = corpus::read(target.name).unwrap();
        assert!(!inputs.is_empty(), "{} has no seeds", target.name);
        for (path, input) in inputs {
            let outcome = catch_unwind(|| target.check(&input));
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
fn every_corpus_belongs_to_a_target() {
    let folder = corpus::folder("");
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(gannet_fuzz::target_named(&name).is_some(), "{name}");
    }
}

/// Believes a length word of the input, as a decoder must not.
const GREEDY: Target = Target {
    name: "greedy",
    weight: 1,
    held_max: 4096,
    held_per_byte: 16,
    run: |input| {
        if let Some(word) = input.first_chunk() {
            let len = u32::from_be_bytes(*word) as usize;
            black_box(Vec::<u8>::with_capacity(len));
        }
    },
};

#[test]
fn a_target_that_holds_too_much_memory_fails() {
    let word = |len: u32| len.to_be_bytes();
    // The bytes that it may hold for four bytes of input.
    let most = 4096 + 4 * 16;
    assert_eq!(GREEDY.check(&word(most)), most as usize);
    let failure = catch_unwind(|| GREEDY.check(&word(most + 1))).unwrap_err();
    let told = failure.downcast_ref::<String>().unwrap();
    assert!(
        told.starts_with("greedy: 4 bytes of input made it hold 4161 bytes"),
        "{told}"
    );
    // A longer input may make it hold more.
    let longer = [&word(most + 1)[..], &[0]].concat();
    GREEDY.check(&longer);
}
