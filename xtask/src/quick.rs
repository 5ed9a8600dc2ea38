//! The tests to run after each step of work: everything that needs no process, socket or mount of its own.

use crate::ci;
use crate::command::Step;
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
    let build = Step::cargo("test --workspace --locked --no-run --quiet");
    build.run(root)?;
    let started = Instant::now();
    // The command line's integration tests, and the fuzz targets' corpora, are for `cargo test --workspace`.
    Step::cargo("test --workspace --exclude gannet-cli --exclude gannet-fuzz --locked --quiet")
        .run(root)?;
    Step::cargo("test -p gannet-cli --lib --locked --quiet").run(root)?;
    ci::simulate_debug(root, SEEDS)?;
    println!(
        "== test: passed in {:.0} s after the build",
        started.elapsed().as_secs_f64()
    );
    Ok(())
}
