//! libFuzzer's driver over the targets. `cargo xtask fuzz` builds it with coverage instrumentation and runs it once for
//! each target. The variable `GANNET_FUZZ_TARGET` names the target. Without it the driver lists all targets and their
//! weights.
#![no_main]

use gannet_fuzz::{TARGETS, Target, target_named};
use std::sync::OnceLock;

static TARGET: OnceLock<&Target> = OnceLock::new();

libfuzzer_sys::fuzz_target!(
    init: choose(),
    |data: &[u8]| if let Some(target) = TARGET.get() {
        target.check(data);
    }
);

fn choose() {
    let Ok(name) = std::env::var("GANNET_FUZZ_TARGET") else {
        for target in TARGETS {
            println!("{} {}", target.name, target.weight);
        }
        std::process::exit(0);
    };
    let target = target_named(&name).expect("GANNET_FUZZ_TARGET names one of gannet_fuzz::TARGETS");
    TARGET.get_or_init(|| target);
}
