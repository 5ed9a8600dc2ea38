//! Any target of `gannet-fuzz` under libFuzzer; the environment variable `GANNET_FUZZ_TARGET` says which.
#![no_main]

use gannet_fuzz::{Target, target_named};
use std::sync::OnceLock;

static TARGET: OnceLock<&Target> = OnceLock::new();

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let target = TARGET.get_or_init(|| {
        let name = std::env::var("GANNET_FUZZ_TARGET").expect("GANNET_FUZZ_TARGET names a target");
        target_named(&name).expect("GANNET_FUZZ_TARGET names one of gannet_fuzz::TARGETS")
    });
    (target.run)(data);
});
