//! Runs a target on mutated seeds until its time is over, or it fails.

use crate::mutation::inputs;
use crate::{Target, corpus};
use anyhow::{Context, Result};
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Inputs between two looks at the clock.
const BATCH: u32 = 512;
/// An input that takes longer is a finding: a peer could keep a core busy with it.
const INPUT_TIME_MAX: Duration = Duration::from_secs(2);

/// What came of fuzzing a target.
#[derive(Debug)]
pub struct Outcome {
    /// Inputs tried.
    pub executions: u64,
    /// The smallest input found that fails, and how it fails.
    pub crash: Option<(Vec<u8>, String)>,
}

/// The committed inputs of a target, sorted by name.
///
/// # Errors
/// They cannot be read.
pub fn read_corpus(name: &str) -> Result<Vec<(PathBuf, Vec<u8>)>> {
    let folder = corpus(name);
    let entries = std::fs::read_dir(&folder)
        .with_context(|| format!("target {name} has no corpus: {}", folder.display()))?;
    let mut inputs = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let bytes = std::fs::read(&path).with_context(|| path.display().to_string())?;
        inputs.push((path, bytes));
    }
    inputs.sort();
    Ok(inputs)
}

/// Runs `target` on inputs made from `seeds`, the same ones for the same `seed`, for about `time` and at least once.
pub fn fuzz(target: &Target, seeds: Vec<Vec<u8>>, seed: u64, time: Duration) -> Outcome {
    let strategy = inputs(Arc::new(seeds));
    let started = Instant::now();
    let mut executions = 0;
    loop {
        let found = batch(seed, executions).run(&strategy, |input| {
            let began = Instant::now();
            (target.run)(&input);
            if began.elapsed() > INPUT_TIME_MAX {
                return Err(TestCaseError::fail("took too long"));
            }
            Ok(())
        });
        executions += u64::from(BATCH);
        let crash = match found {
            Ok(()) if started.elapsed() < time => continue,
            Ok(()) => None,
            Err(TestError::Fail(why, input)) => Some((input, why.to_string())),
            Err(TestError::Abort(why)) => Some((Vec::new(), why.to_string())),
        };
        return Outcome { executions, crash };
    }
}

/// A runner for the batch of inputs that begins after `executions` others: the same batch for the same numbers.
fn batch(seed: u64, executions: u64) -> TestRunner {
    let config = Config {
        cases: BATCH,
        failure_persistence: None,
        max_shrink_iters: 4096,
        ..Config::default()
    };
    let mut key = [0; 32];
    let numbers = [seed.to_le_bytes(), executions.to_le_bytes()].concat();
    for (place, byte) in key.iter_mut().zip(numbers) {
        *place = byte;
    }
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &key))
}

/// Saves an input that fails into the target's corpus, where the tests find it; gives its path.
///
/// # Errors
/// It cannot be written.
pub fn save_crash(target: &Target, input: &[u8]) -> Result<PathBuf> {
    let folder = corpus(target.name);
    let path = folder.join(format!("crash-{:016x}", fingerprint(input)));
    write(&path, input)?;
    Ok(path)
}

/// Writes a file and the folders above it.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

/// FNV-1a: names inputs, nothing more.
pub(crate) fn fingerprint(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
