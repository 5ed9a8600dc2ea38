//! The steps of continuous integration, each also a chore of its own.

use crate::command::Step;
use crate::{fuzz, generate, licences, mutants, tidy};
use anyhow::Result;
use std::path::Path;
use std::time::Instant;

/// Fresh seeds that one run of continuous integration simulates.
const SIM_SEEDS: u32 = 300;
/// Seconds of fuzzing in one run of continuous integration.
const FUZZ_SECONDS: u32 = 20;

type Check = Box<dyn Fn(&Path) -> Result<()>>;

/// Runs everything that `.ci/run` does after the tests, and prints the duration of each step.
///
/// # Errors
/// The first step that failed.
pub(crate) fn run(root: &Path, require_tools: bool) -> Result<()> {
    let libnfs_required = if require_tools { "1" } else { "" };
    let steps: Vec<(&str, Check)> = vec![
        ("format", cargo("fmt --all --check")),
        (
            "lints",
            cargo("clippy --workspace --all-targets --locked -- -D warnings"),
        ),
        (
            "the public crate without its features",
            cargo("check --locked -p gannet --no-default-features"),
        ),
        (
            "the public crate with RDMA alone",
            cargo("check --locked -p gannet --no-default-features --features rdma"),
        ),
        ("tidy", Box::new(tidy::run)),
        ("licences", Box::new(licences::check)),
        ("rustdoc", Box::new(rustdoc)),
        ("mutants", Box::new(|root| mutants::run(root, &[]))),
        (
            "man pages and completions",
            Box::new(move |root| generate::check(root, require_tools)),
        ),
        (
            "demo",
            cargo("run --release --locked -p gannet-cli -- demo"),
        ),
        (
            "simulation",
            Box::new(|root| simulate(root, None, Some(SIM_SEEDS), false)),
        ),
        (
            "papers",
            cargo("run --release --locked -p gannet-lab -- papers all --check"),
        ),
        ("fuzzing", Box::new(fuzz_all)),
        (
            "libnfs tools",
            Box::new(move |root| {
                Step::cargo("test --locked -p gannet-cli --test all libnfs -- --nocapture")
                    .with_variable("GANNET_REQUIRE_LIBNFS", libnfs_required)
                    .run(root)
            }),
        ),
    ];
    let started = Instant::now();
    for (name, check) in steps {
        println!("== {name}");
        let began = Instant::now();
        check(root)?;
        println!(
            "== {name}: passed in {:.1} s",
            began.elapsed().as_secs_f64()
        );
    }
    println!("== ci: passed in {:.0} s", started.elapsed().as_secs_f64());
    Ok(())
}

fn cargo(arguments: &'static str) -> Check {
    Box::new(|root| Step::cargo(arguments).run(root))
}

fn rustdoc(root: &Path) -> Result<()> {
    Step::cargo("doc --workspace --no-deps --locked")
        .with_variable("RUSTDOCFLAGS", "-D warnings")
        .run(root)
}

/// Simulates whole systems with `count` seeds from `seed` on, or from a fresh one; all scenarios, or `only_volume`.
///
/// # Errors
/// A seed failed; its reproduction line was printed.
pub(crate) fn simulate(
    root: &Path,
    seed: Option<u64>,
    count: Option<u32>,
    only_volume: bool,
) -> Result<()> {
    let mut step = Step::cargo("run --release --locked -p gannet-dst --");
    if let Some(seed) = seed {
        step = step.with(seed.to_string());
    }
    if let Some(count) = count {
        step = step.with("--count").with(count.to_string());
    }
    if only_volume {
        step = step.with("--volume");
    }
    step.run(root)
}

/// Runs `count` fresh worlds without a release build.
///
/// # Errors
/// As [`simulate`].
pub(crate) fn simulate_debug(root: &Path, count: u32) -> Result<()> {
    Step::cargo("run --locked --quiet -p gannet-dst --")
        .with("--count")
        .with(count.to_string())
        .run(root)
}

/// Fuzzes all targets. Without a C++ compiler this is left out, or fails in continuous integration.
///
/// # Errors
/// As [`fuzz::run`].
fn fuzz_all(root: &Path) -> Result<()> {
    let is_required = std::env::var_os("CI").is_some_and(|ci| ci == "true");
    if !is_required && !fuzz::has_compiler() {
        println!("left out: libFuzzer needs a C++ compiler (g++)");
        return Ok(());
    }
    fuzz::run(root, FUZZ_SECONDS, "")
}
