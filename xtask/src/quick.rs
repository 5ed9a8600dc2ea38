//! The tests to run after each step of work: everything that needs no process, socket or mount of its own.

use crate::command::Step;
use crate::target_folder;
use anyhow::Result;
use std::path::Path;
use std::time::Instant;

/// Simulated worlds, besides those that tests have.
const SEEDS: u32 = 12;

/// Runs unit tests, properties and tests in simulation, and tells how long they took.
///
/// # Errors
/// The first step that failed.
pub(crate) fn run(root: &Path) -> Result<()> {
    // What fills a machine with sockets (the memory of idle connections), reads corpora or compiles examples is for
    // `cargo test --workspace`, and so are the command line's tests, which start processes.
    let libraries = "test --workspace --exclude gannet-cli --exclude gannet-fuzz --lib --bins --test all --locked --quiet";
    let binaries = "test -p gannet-cli --lib --locked --quiet";
    for tests in [libraries, binaries] {
        Step::cargo(&format!("{tests} --no-run")).run(root)?;
    }
    let started = Instant::now();
    for tests in [libraries, binaries] {
        Step::cargo(tests).run(root)?;
    }
    // Built with the tests of its crate: `cargo run` would build it with other features.
    let simulator = Step::program(target_folder()?.join("debug/gannet-dst"));
    (simulator.with("--count").with(SEEDS.to_string())).run(root)?;
    println!(
        "== test: passed in {:.0} s after the build",
        started.elapsed().as_secs_f64()
    );
    Ok(())
}
