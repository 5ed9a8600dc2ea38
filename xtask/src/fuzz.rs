//! Coverage-guided fuzzing on the stable toolchain: builds libFuzzer's driver, runs it once per target, and reports.

mod campaign;
mod minimise;

use crate::command::Step;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The counters that guide libFuzzer: one per edge, and the operands of comparisons. cargo-fuzz passes the same flags.
const INSTRUMENTATION: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing";

/// A target as the driver lists it.
struct Target {
    name: String,
    /// Its share of the time, relative to those of the others.
    weight: u32,
}

/// The driver, built, and where it keeps its files.
struct Driver {
    binary: PathBuf,
    /// Inputs that are committed, a folder per target.
    committed: PathBuf,
    /// Inputs that were found, a folder per target, logs and crashes.
    work: PathBuf,
}

/// Fuzzes the targets whose name contains `wanted`, for `seconds` in all.
///
/// # Errors
/// There is no C++ compiler, the driver cannot be built, or a target failed; its input was saved.
pub(crate) fn run(root: &Path, seconds: u32, wanted: &str) -> Result<()> {
    let (driver, targets) = prepare(root, wanted)?;
    campaign::run(&driver, &targets, seconds)
}

/// Replaces the committed inputs of the targets by as few, of those and of the found ones, as cover the same.
///
/// # Errors
/// As [`run`].
pub(crate) fn minimise(root: &Path, wanted: &str) -> Result<()> {
    let (driver, targets) = prepare(root, wanted)?;
    minimise::run(&driver, &targets)
}

/// Whether the driver can be built here: libFuzzer is C++.
pub(crate) fn has_compiler() -> bool {
    let chosen = std::env::var("CXX").ok();
    // As the crate `cc` looks for it.
    let compiler = chosen.as_deref().unwrap_or("c++");
    let version = Command::new(compiler).arg("--version").output();
    version.is_ok_and(|version| version.status.success())
}

fn prepare(root: &Path, wanted: &str) -> Result<(Driver, Vec<Target>)> {
    if !has_compiler() {
        bail!("libFuzzer needs a C++ compiler: install g++, or name one in CXX");
    }
    let driver = build(root)?;
    let mut targets = driver.targets()?;
    targets.retain(|target| target.name.contains(wanted));
    if targets.is_empty() {
        bail!("no target's name contains `{wanted}`");
    }
    Ok((driver, targets))
}

fn build(root: &Path) -> Result<Driver> {
    let triple = host_triple()?;
    // With a target named, the flags are not those of build scripts and procedural macros, which cannot have them.
    Step::cargo("build --locked --profile fuzz -p gannet-fuzz --features libfuzzer --bin libfuzzer --target")
        .with(&triple)
        .with_variable("RUSTFLAGS", INSTRUMENTATION)
        .run(root)?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target = root.join(target.unwrap_or_else(|| PathBuf::from("target")));
    Ok(Driver {
        binary: target.join(triple).join("fuzz/libfuzzer"),
        committed: root.join("fuzz/corpus"),
        work: target.join("fuzzing"),
    })
}

/// The machine that the toolchain compiles for by default.
fn host_triple() -> Result<String> {
    let version = Command::new("rustc").arg("-vV").output();
    let version = version.context("rustc cannot be started")?;
    let text = String::from_utf8(version.stdout)?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc names no host")?.to_owned())
}

impl Driver {
    fn targets(&self) -> Result<Vec<Target>> {
        let listed = Command::new(&self.binary)
            .env_remove("GANNET_FUZZ_TARGET")
            .output()
            .with_context(|| format!("{} cannot be started", self.binary.display()))?;
        let text = String::from_utf8(listed.stdout)?;
        let targets = text.lines().map(|line| {
            let (name, weight) = line.split_once(' ').context("a target without a weight")?;
            Ok(Target {
                name: name.to_owned(),
                weight: weight.parse()?,
            })
        });
        targets.collect()
    }

    /// Starts libFuzzer on a target.
    fn command(&self, target: &Target) -> Command {
        let mut command = Command::new(&self.binary);
        command.env("GANNET_FUZZ_TARGET", &target.name);
        command.env("RUST_BACKTRACE", "1");
        command
    }

    fn committed(&self, target: &Target) -> PathBuf {
        self.committed.join(&target.name)
    }

    /// The folder of the inputs that were found, which is made.
    fn found(&self, target: &Target) -> Result<PathBuf> {
        let folder = self.work.join("corpus").join(&target.name);
        std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        Ok(folder)
    }
}
