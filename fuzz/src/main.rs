//! `gannet-fuzz`: shows again what the fuzzer found, and makes seeds.

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use gannet_fuzz::{seeds, target_named};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Parser)]
#[command(
    name = "gannet-fuzz",
    about = "Replays inputs of the fuzz targets, and makes their seeds"
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a target on inputs, without instrumentation
    Replay {
        /// The target's name
        target: String,
        /// Files, each an input
        #[arg(required = true)]
        inputs: Vec<PathBuf>,
    },
    /// Write the seeds of all targets into fuzz/corpus, from the recorded connections in vectors/ and from code
    Seeds,
}

fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("gannet-fuzz: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<()> {
    match command {
        Command::Replay { target, inputs } => replay(&target, &inputs),
        Command::Seeds => seeds::write_all(),
    }
}

/// A failing input ends the process by its panic, whose trace is what the caller wants to see.
fn replay(name: &str, inputs: &[PathBuf]) -> Result<()> {
    let target = target_named(name).with_context(|| format!("there is no target `{name}`"))?;
    for path in inputs {
        let input = std::fs::read(path).with_context(|| path.display().to_string())?;
        let held = target.check(&input);
        println!(
            "{name}: {} bytes of input, {held} bytes held: passed",
            input.len()
        );
    }
    Ok(())
}
