//! Runs the simulator's scenario: one seed to replay, or many fresh ones.
//!
//! Seeds are printed as they fail, each with the line that replays it; the exit status is 1 if any did.

use gannet_sim::scenario::{self, Report};
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::path::PathBuf;
use std::process::ExitCode;

const USAGE: &str = "usage: gannet-sim [SEED] [--count N] [--trace FILE]";

/// Fresh seeds stay short enough to be typed.
const FRESH_SEED_BITS: u32 = 40;

struct Arguments {
    seed: Option<u64>,
    count: u64,
    trace: Option<PathBuf>,
}

fn main() -> ExitCode {
    let arguments = match parse(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(why) => {
            eprintln!("gannet-sim: {why} ({USAGE})");
            return ExitCode::from(2);
        }
    };
    // A panic is part of its seed's report.
    std::panic::set_hook(Box::new(|_| {}));
    let first = arguments.seed.unwrap_or_else(fresh_seed);
    let (mut passed, mut failed) = (0u64, 0u64);
    for index in 0..arguments.count {
        let seed = first.wrapping_add(index);
        let report = scenario::run(seed, arguments.trace.is_some());
        let verbose = arguments.seed.is_some() && arguments.count == 1;
        if let Some(path) = &arguments.trace
            && let Err(error) = std::fs::write(path, &report.trace)
        {
            eprintln!(
                "gannet-sim: {}: {error} (choose another file)",
                path.display()
            );
            return ExitCode::FAILURE;
        }
        if print(seed, &report, verbose) {
            passed += 1;
        } else {
            failed += 1;
        }
    }
    println!("{passed} passed, {failed} failed");
    ExitCode::from(u8::from(failed > 0))
}

/// Prints what is worth it; true if the seed passed.
fn print(seed: u64, report: &Report, verbose: bool) -> bool {
    if verbose {
        println!("{}", report.plan);
        println!(
            "trace {:016x}, {} lines",
            report.digest.hash, report.digest.lines
        );
    }
    match &report.outcome {
        Ok(summary) => {
            if verbose {
                println!("{summary:?}");
            }
            true
        }
        Err(why) => {
            println!("seed {seed} failed: {why}");
            println!("to see it again: cargo xtask sim {seed}");
            false
        }
    }
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let mut parsed = Arguments {
        seed: None,
        count: 1,
        trace: None,
    };
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
        match argument.as_str() {
            "--count" => parsed.count = number(&value()?)?,
            "--trace" => parsed.trace = Some(PathBuf::from(value()?)),
            seed if parsed.seed.is_none() => parsed.seed = Some(number(seed)?),
            other => return Err(format!("{other:?} is one argument too many")),
        }
    }
    Ok(parsed)
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{text:?} is no number"))
}

/// A seed nobody has seen yet: the standard library's hash keys are random.
fn fresh_seed() -> u64 {
    RandomState::new().hash_one("seed") >> (u64::BITS - FRESH_SEED_BITS)
}
