//! Runs the scenarios, files under faults, volumes (mounted or not) under faults and memory under revocation: one
//! seed to replay, or many fresh ones. `--volume` runs the volumes alone, `--copies` volumes that keep all data twice.
//!
//! Seeds are printed as they fail, each with the line that replays it; the exit status is 1 if any did.

use gannet_dst::scenario::{self, ReadsSummary, Report, revocation, volume};
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

const USAGE: &str = "usage: gannet-dst [SEED] [--volume | --copies] [--count N] [--trace FILE]";

/// Fresh seeds stay short enough to be typed.
const FRESH_SEED_BITS: u32 = 40;

/// This many simulations reach every outcome of a read that sends no request.
const MANY: u64 = 100;

struct Arguments {
    seed: Option<u64>,
    count: u64,
    only_volume: bool,
    /// Volumes with copies alone.
    copies: bool,
    trace: Option<PathBuf>,
}

impl Arguments {
    fn is_verbose(&self) -> bool {
        self.seed.is_some() && self.count == 1
    }
}

fn main() -> ExitCode {
    let arguments = match parse(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(why) => {
            eprintln!("gannet-dst: {why} ({USAGE})");
            return ExitCode::from(2);
        }
    };
    // A panic is part of its seed's report.
    std::panic::set_hook(Box::new(|_| {}));
    let first = arguments.seed.unwrap_or_else(fresh_seed);
    let last = first.wrapping_add(arguments.count.saturating_sub(1));
    println!("seeds {first} to {last}");
    let (mut passed, mut failed) = (0u64, 0u64);
    let mut reads = ReadsSummary::default();
    for index in 0..arguments.count {
        let seed = first.wrapping_add(index);
        match run(seed, &arguments, &mut reads) {
            Ok(true) => passed += 1,
            Ok(false) => failed += 1,
            Err(error) => {
                eprintln!("gannet-dst: the trace cannot be written: {error} (choose another file)");
                return ExitCode::FAILURE;
            }
        }
    }
    println!("{passed} passed, {failed} failed");
    if arguments.count > 1 {
        println!("{reads:?}");
    }
    // Volumes with copies give no references.
    let may_be_without = arguments.count < MANY || arguments.copies;
    let is_vacuous = !may_be_without && failed == 0 && !reads.has_all();
    if is_vacuous {
        println!("clients did not read without asking in every way that there is");
    }
    ExitCode::from(u8::from(failed > 0 || is_vacuous))
}

/// Runs a seed's scenarios; true if all passed.
fn run(seed: u64, arguments: &Arguments, reads: &mut ReadsSummary) -> io::Result<bool> {
    let keep_trace = arguments.trace.is_some();
    let mut trace = String::new();
    if !arguments.only_volume && !arguments.copies {
        let report = scenario::run(seed, keep_trace);
        trace.push_str(&report.trace);
        let is_served = print(seed, &report, arguments.is_verbose(), "");
        if !is_served || !revoke(seed, arguments.is_verbose()) {
            write_trace(arguments, &trace)?;
            return Ok(false);
        }
    }
    let report = if arguments.copies {
        volume::run_with_copies(seed, keep_trace)
    } else {
        volume::run(seed, keep_trace)
    };
    trace.push_str(&report.trace);
    write_trace(arguments, &trace)?;
    if let Ok(summary) = &report.outcome {
        reads.add(&summary.reads);
    }
    let which = if arguments.copies {
        " --copies"
    } else {
        " --volume"
    };
    Ok(print(seed, &report, arguments.is_verbose(), which))
}

fn write_trace(arguments: &Arguments, trace: &str) -> io::Result<()> {
    match &arguments.trace {
        Some(path) => std::fs::write(path, trace),
        None => Ok(()),
    }
}

/// Prints a seed's report; true if the seed passed. `which` is the option that runs this scenario alone.
fn print(seed: u64, report: &Report, verbose: bool, which: &str) -> bool {
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
            println!("to see it again: cargo xtask sim {seed}{which}");
            false
        }
    }
}

/// Takes memory back under a peer's accesses; true if none came too late.
fn revoke(seed: u64, verbose: bool) -> bool {
    match revocation::run(seed) {
        Ok(revocations) => {
            if verbose {
                println!("{revocations:?}");
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
        only_volume: false,
        copies: false,
        trace: None,
    };
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
        match argument.as_str() {
            "--count" => parsed.count = number(&value()?)?,
            "--volume" => parsed.only_volume = true,
            "--copies" => parsed.copies = true,
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

/// A new seed, from the random hash keys of the standard library.
fn fresh_seed() -> u64 {
    RandomState::new().hash_one("seed") >> (u64::BITS - FRESH_SEED_BITS)
}
