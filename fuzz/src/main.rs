//! `gannet-fuzz SECONDS`: mutates the committed corpora and feeds every target, on stable Rust.

use anyhow::{Result, bail};
use clap::Parser;
use gannet_fuzz::driver::{self, Outcome};
use gannet_fuzz::{TARGETS, Target};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

#[derive(Parser)]
#[command(name = "gannet-fuzz", about = "Feeds mutated inputs to every decoder")]
struct Arguments {
    /// Time to spend, divided over the targets; 0 with --write-seeds
    seconds: u32,
    /// Only the targets whose name contains this
    #[arg(long)]
    target: Option<String>,
    /// Replay the inputs of an earlier run
    #[arg(long)]
    seed: Option<u64>,
    /// Run one target on one file, to look at a crash
    #[arg(long, value_name = "FILE", requires = "target")]
    input: Option<PathBuf>,
    /// Make the corpora anew from the recorded connections in vectors/, and exit
    #[arg(long)]
    write_seeds: bool,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("gannet-fuzz: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    if arguments.write_seeds {
        return gannet_fuzz::seeds::write_all();
    }
    let wanted = arguments.target.as_deref().unwrap_or_default();
    let targets: Vec<&Target> = TARGETS
        .iter()
        .filter(|target| target.name.contains(wanted))
        .collect();
    if targets.is_empty() {
        bail!("no target's name contains `{wanted}`");
    }
    if let Some(path) = &arguments.input {
        let input = std::fs::read(path)?;
        for target in targets {
            (target.run)(&input);
            println!("{}: {} bytes, fine", target.name, input.len());
        }
        return Ok(());
    }
    fuzz_all(&targets, arguments)
}

fn fuzz_all(targets: &[&Target], arguments: &Arguments) -> Result<()> {
    let seed = arguments.seed.unwrap_or_else(fresh_seed);
    println!("seed {seed} (repeat with --seed {seed})");
    // A crash is reported once, at the end, with its smallest input; not each time it happens.
    std::panic::set_hook(Box::new(|_| {}));
    let started = Instant::now();
    let total = Duration::from_secs(u64::from(arguments.seconds));
    let mut crashed = 0;
    for (index, target) in targets.iter().enumerate() {
        let left = total.saturating_sub(started.elapsed());
        let share = left / u32::try_from(targets.len() - index)?;
        let inputs: Vec<Vec<u8>> = driver::read_corpus(target.name)?
            .into_iter()
            .map(|(_, bytes)| bytes)
            .collect();
        let count = inputs.len();
        let outcome = driver::fuzz(target, inputs, seed, share);
        println!(
            "{:<20} {count:>4} seeds {:>10} executions",
            target.name, outcome.executions
        );
        crashed += usize::from(report(target, &outcome)?);
    }
    if crashed > 0 {
        bail!("{crashed} targets crashed");
    }
    Ok(())
}

/// Saves and prints a crash; true when there was one.
fn report(target: &Target, outcome: &Outcome) -> Result<bool> {
    let Some((input, why)) = &outcome.crash else {
        return Ok(false);
    };
    let path = driver::save_crash(target, input)?;
    let (name, path) = (target.name, path.display());
    println!("{name} CRASHED: {why}");
    println!("  input saved in {path}");
    println!("  see it with: cargo run -p gannet-fuzz -- 0 --target {name} --input {path}");
    Ok(true)
}

fn fresh_seed() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(1, |now| {
        now.as_secs() ^ u64::from(now.subsec_nanos()).rotate_left(32)
    })
}
