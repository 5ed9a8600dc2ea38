//! One run over all targets, as many at a time as there are cores.

use super::{Driver, Target};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Seconds that one input may take: a peer could keep a core busy with a longer one.
const INPUT_SECONDS_MAX: u32 = 10;
/// Memory of the driver's process in MiB, above what any target may hold: the end of one that never stops allocating.
const PROCESS_MIB_MAX: u32 = 2048;
/// Lines of a failed driver's log that are shown.
const LOG_LINES: usize = 60;

/// The outcome of fuzzing a target.
struct Outcome {
    took: Duration,
    log: String,
    is_failure: bool,
}

/// Fuzzes these targets for `seconds` in all, and prints a line for each.
///
/// # Errors
/// A target failed.
pub(super) fn run(driver: &Driver, targets: &[Target], seconds: u32) -> Result<()> {
    let cores = thread::available_parallelism()?.get().min(targets.len());
    let weights: u32 = targets.iter().map(|target| target.weight).sum();
    // Of all cores together.
    let seconds = seconds.saturating_mul(u32::try_from(cores)?);
    let share = |target: &Target| (seconds * target.weight / weights).max(1);
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    let work = || -> Result<()> {
        while let Some(target) = targets.get(next.fetch_add(1, Ordering::Relaxed)) {
            let outcome = fuzz(driver, target, share(target))?;
            println!("{}", outcome.summary(target));
            if outcome.is_failure {
                outcome.explain(target);
                let mut failures = failures.lock().unwrap_or_else(|lock| lock.into_inner());
                failures.push(target.name.clone());
            }
        }
        Ok(())
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        let ended = workers.into_iter().map(|worker| worker.join());
        ended.collect::<Vec<_>>()
    })
    .into_iter()
    .try_for_each(|ended| ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))?;
    let failures = failures.into_inner().unwrap_or_default();
    if !failures.is_empty() {
        bail!("fuzz targets failed: {}", failures.join(", "));
    }
    Ok(())
}

fn fuzz(driver: &Driver, target: &Target, seconds: u32) -> Result<Outcome> {
    let (found, crashes) = (driver.found(target)?, driver.work.join("crashes"));
    std::fs::create_dir_all(&crashes)?;
    let log_path = log_path(driver, target)?;
    let log = std::fs::File::create(&log_path)?;
    let began = Instant::now();
    let status = driver
        .command(target)
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-timeout={INPUT_SECONDS_MAX}"))
        .arg(format!("-rss_limit_mb={PROCESS_MIB_MAX}"))
        .arg(format!(
            "-artifact_prefix={}/{}-",
            crashes.display(),
            target.name
        ))
        .args([&found, &driver.committed(target)])
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .status()
        .context("the driver cannot be started")?;
    let log = std::fs::read(&log_path)?;
    Ok(Outcome {
        took: began.elapsed(),
        log: String::from_utf8_lossy(&log).into_owned(),
        is_failure: !status.success(),
    })
}

fn log_path(driver: &Driver, target: &Target) -> Result<PathBuf> {
    let logs = driver.work.join("logs");
    std::fs::create_dir_all(&logs).with_context(|| logs.display().to_string())?;
    Ok(logs.join(&target.name))
}

impl Outcome {
    /// One line: time, inputs tried, edges covered by the inputs of before and at the end.
    fn summary(&self, target: &Target) -> String {
        let seconds = self.took.as_secs_f64();
        let last = progress(&self.log).last();
        let tried = last.map_or(0, |line| line.tried);
        let first = progress(&self.log).find(|line| line.event == "INITED");
        let edges = |line: Option<Progress<'_>>| line.map_or(0, |line| line.edges);
        let (first, last) = (edges(first), edges(last));
        format!(
            "{:<22} {seconds:>6.1} s {tried:>10} inputs, {first:>6} edges covered, then {last:>6}{}",
            target.name,
            if self.is_failure { "  FAILED" } else { "" },
        )
    }

    /// Prints what failed and how to see it again.
    fn explain(&self, target: &Target) {
        let lines: Vec<&str> = self.log.lines().collect();
        let shown = lines.len().saturating_sub(LOG_LINES);
        for line in lines.iter().skip(shown) {
            println!("    {line}");
        }
        let input = self
            .log
            .lines()
            .find_map(|line| line.split_once("Test unit written to "));
        match input {
            Some((_, path)) => {
                println!("  target: {}", target.name);
                println!("  input:  {}", Path::new(path).display());
                println!(
                    "  again:  cargo run -p gannet-fuzz -- replay {} {path}",
                    target.name
                );
            }
            None => println!("  {} wrote no input: see its log above", target.name),
        }
    }
}

/// A line that libFuzzer prints: `#1234 NEW cov: 56 ft: 78 ...`.
#[derive(Clone, Copy)]
struct Progress<'a> {
    tried: u64,
    event: &'a str,
    edges: u64,
}

fn progress(log: &str) -> impl Iterator<Item = Progress<'_>> {
    log.lines().filter_map(|line| {
        let mut words = line.strip_prefix('#')?.split_whitespace();
        let tried = words.next()?.parse().ok()?;
        let event = words.next()?;
        let edges = words.skip_while(|word| *word != "cov:").nth(1)?;
        Some(Progress {
            tried,
            event,
            edges: edges.parse().ok()?,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "INFO: seed corpus: files: 3\n\
        #4\tINITED cov: 100 ft: 120 corp: 3/30b exec/s: 0 rss: 40Mb\n\
        #9\tNEW    cov: 103 ft: 125 corp: 4/40b lim: 4096 exec/s: 0 rss: 41Mb L: 10/10 MS: 1 CMP-\n";

    fn outcome(end: &str, is_failure: bool) -> Outcome {
        Outcome {
            took: Duration::from_millis(1500),
            log: format!("{LOG}{end}"),
            is_failure,
        }
    }

    #[test]
    fn a_summary_says_how_coverage_grew() {
        let target = Target {
            name: String::from("some"),
            weight: 1,
        };
        let done = "#77\tDONE   cov: 104 ft: 126 corp: 5/50b lim: 4096 exec/s: 50 rss: 42Mb\n";
        let said = outcome(done, false).summary(&target);
        let words: Vec<&str> = said.split_whitespace().collect();
        assert_eq!(
            words.join(" "),
            "some 1.5 s 77 inputs, 100 edges covered, then 104"
        );
        let said = outcome("==1== ERROR: libFuzzer: deadly signal\n", true).summary(&target);
        assert!(
            said.contains(" 9 inputs") && said.ends_with("FAILED"),
            "{said}"
        );
    }
}
