//! Building and running tests in the copy, with a mutant and without.

use super::copy::Copy;
use super::list::Mutant;
use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process_group};
use std::fmt;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// Time for the tests of a program without a mutant: a loaded machine takes many times as long as an idle one.
const UNMUTATED_TIME_MAX: Duration = Duration::from_secs(600);
/// Time for the tests of a mutant, at least.
const MUTATED_TIME_MIN: Duration = Duration::from_secs(30);
/// Time for the tests of a mutant, relative to that of all the program's tests without one, on the same machine.
const MUTATED_TIME_FACTOR: u32 = 4;
/// Lines of output that an error shows.
const TAIL_LINES: usize = 30;

/// The outcome of a mutant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// A test failed.
    Killed,
    /// A test did not end.
    TimedOut,
    Survived,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Verdict::Killed => "killed",
            Verdict::TimedOut => "timed out",
            Verdict::Survived => "SURVIVED",
        })
    }
}

/// The tests of a program that mutants name.
pub(super) struct Group<'a> {
    pub(super) program: String,
    tests: Vec<&'a str>,
}

/// The tests of all these mutants, by program, in the order of the list.
pub(super) fn groups(mutants: &[Mutant]) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for mutant in mutants {
        let program = mutant.program();
        match groups.iter_mut().find(|group| group.program == program) {
            Some(group) => group.tests.push(&mutant.test),
            None => groups.push(Group {
                program,
                tests: vec![&mutant.test],
            }),
        }
    }
    groups
}

/// Runs tests in the tree as it is; gives the time that those of one mutant may take.
///
/// # Errors
/// One fails or does not end, or a name is no test's.
pub(super) fn pass_without_mutants(copy: &Copy, group: &Group<'_>) -> Result<Duration> {
    build(copy, &group.program)?;
    let started = Instant::now();
    let ran = run_tests(copy, &group.program, &group.tests, UNMUTATED_TIME_MAX)?;
    let took = started.elapsed();
    let Some(ran) = ran else {
        bail!("{}: tests do not end without a mutant", group.program);
    };
    let text = String::from_utf8_lossy(&ran.stdout);
    if !ran.status.success() {
        bail!(
            "{}: tests fail without a mutant\n{}",
            group.program,
            tail(&text)
        );
    }
    let passed: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... ok"))
        .collect();
    for test in &group.tests {
        if !passed.iter().any(|name| name.contains(test)) {
            bail!("{}: no test is called {test}", group.program);
        }
    }
    Ok(MUTATED_TIME_MIN.max(took * MUTATED_TIME_FACTOR))
}

/// Runs the tests of a mutant with it, for at most `limit`, and takes it out again.
///
/// # Errors
/// It is not found in its file, or does not compile.
pub(super) fn try_one(copy: &Copy, mutant: &Mutant, limit: Duration) -> Result<Verdict> {
    let text = copy.read(&mutant.file)?;
    copy.write(&mutant.file, &mutant.applied_to(&text)?)?;
    let program = mutant.program();
    let verdict = build(copy, &program)
        .with_context(|| format!("mutant {} does not compile", mutant.name))
        .and_then(|()| run_tests(copy, &program, &[&mutant.test], limit))
        .map(|ran| match ran {
            None => Verdict::TimedOut,
            Some(ran) if ran.status.success() => Verdict::Survived,
            Some(_) => Verdict::Killed,
        });
    copy.write(&mutant.file, &text)?;
    verdict
}

fn cargo(copy: &Copy, program: &str) -> Command {
    let mut cargo = Command::new("cargo");
    cargo
        .args(["test", "--locked"])
        .args(program.split_whitespace())
        // The tests of a mutant are built often, and few of them run. `dst` is built with each mutant of `volume`.
        .args(["--config", "profile.dev.package.gannet-volume.opt-level=0"])
        .args(["--config", "profile.dev.package.gannet-dst.opt-level=0"])
        // Futures are large without optimization.
        .env("RUST_MIN_STACK", "16777216")
        .current_dir(&copy.tree)
        .env("CARGO_TARGET_DIR", &copy.target)
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        // Elsewhere in the gate nothing is built again after an edit; here everything is.
        .env("CARGO_INCREMENTAL", "1")
        .stdin(Stdio::null());
    cargo
}

fn build(copy: &Copy, program: &str) -> Result<()> {
    let mut cargo = cargo(copy, program);
    let built = cargo
        .arg("--no-run")
        .output()
        .context("cargo cannot be started")?;
    if !built.status.success() {
        bail!("{}", tail(&String::from_utf8_lossy(&built.stderr)));
    }
    Ok(())
}

/// The output of tests that were built; `None` when they did not end within `limit`, and were killed.
fn run_tests(
    copy: &Copy,
    program: &str,
    tests: &[&str],
    limit: Duration,
) -> Result<Option<Output>> {
    let mut cargo = cargo(copy, program);
    let cargo = cargo.arg("--").args(tests);
    // Cargo's child is to be killed with it.
    let child = cargo
        .process_group(0)
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    wait(child.spawn().context("cargo cannot be started")?, limit)
}

fn wait(mut child: Child, limit: Duration) -> Result<Option<Output>> {
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let mut output = child.stdout.take().context("no output")?;
    let (sender, receiver) = mpsc::channel();
    let reader = thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = output.read_to_end(&mut bytes);
        // No receiver waits for it after the program was killed.
        let _ = sender.send(());
        read.map(|_| bytes)
    });
    let in_time = receiver.recv_timeout(limit).is_ok();
    if let (false, Some(group)) = (in_time, group) {
        kill_process_group(group, Signal::KILL)?;
    }
    let status = child.wait()?;
    let Ok(stdout) = reader.join() else {
        bail!("the output cannot be read");
    };
    Ok(in_time.then_some(Output {
        status,
        stdout: stdout?,
        stderr: Vec::new(),
    }))
}

fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
}
