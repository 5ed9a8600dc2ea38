//! Client and server against the model: a few fixed seeds pass, and replay byte for byte.

use gannet_sim::scenario;

#[test]
fn fixed_seeds_pass() {
    let failures: Vec<String> = (0..12)
        .filter_map(|seed| {
            let why = scenario::run(seed, false).outcome.err()?;
            Some(format!("cargo xtask sim {seed}: {why}"))
        })
        .collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn a_seed_gives_the_same_trace_byte_for_byte() {
    for seed in 20..24 {
        let (one, other) = (scenario::run(seed, true), scenario::run(seed, true));
        assert!(one.trace.lines().count() > 500);
        assert!(one.trace == other.trace, "seed {seed} does not replay");
        assert_eq!(one.digest, other.digest);
    }
}
