//! Mutants: named faults of which each breaks one rule of the system, and the tests that must fail with it.
//!
//! `xtask/mutants.toml` lists them by hand. The chore applies them one by one in a copy of the tree, so that the
//! tree does not see them. Before that all the named tests must pass without any. A mutant is killed when one
//! of its tests fails or does not end; one that survives is a rule that no test defends.

mod copy;
mod list;
mod trial;

use anyhow::{Context, Result, bail};
use copy::Copy;
pub(crate) use list::LIST;
use list::Mutant;
use std::collections::HashMap;
use std::path::Path;
use std::time::Instant;
use trial::Verdict;

/// Misfits between the tree and the list of mutants, one line for each.
///
/// # Errors
/// The list, or a file that it names, cannot be read.
pub(crate) fn misfits(root: &Path) -> Result<Vec<String>> {
    let mut misfits = Vec::new();
    for mutant in list::read(root, &[])? {
        let text = std::fs::read_to_string(root.join(&mutant.file));
        let text = text.with_context(|| format!("mutant {}: {}", mutant.name, mutant.file))?;
        misfits.extend(
            mutant
                .applied_to(&text)
                .err()
                .map(|error| error.to_string()),
        );
    }
    Ok(misfits)
}

/// Applies the mutants with these names, or all of them, and runs their tests.
///
/// # Errors
/// A mutant survives, does not compile or is not found in its file; a test fails without any; no mutant has that name.
pub(crate) fn run(root: &Path, names: &[String]) -> Result<()> {
    let mutants = list::read(root, names)?;
    let started = Instant::now();
    let copy = Copy::of(root)?;
    let mut limits = HashMap::new();
    for tests in trial::groups(&mutants) {
        let began = Instant::now();
        let limit = trial::pass_without_mutants(&copy, &tests)?;
        println!(
            "{:9} {:5.1} s  {} without mutants",
            "passed",
            began.elapsed().as_secs_f64(),
            tests.program
        );
        limits.insert(tests.program, limit);
    }
    let mut survivors = Vec::new();
    for mutant in &mutants {
        let began = Instant::now();
        let limit = limits.get(&mutant.program());
        let limit = limit.context("a mutant whose program was not tried without it")?;
        let verdict = trial::try_one(&copy, mutant, *limit)?;
        println!(
            "{verdict:9} {:5.1} s  {}",
            began.elapsed().as_secs_f64(),
            mutant.name
        );
        if verdict == Verdict::Survived {
            survivors.push(mutant);
        }
    }
    println!(
        "{} of {} mutants killed in {:.0} s",
        mutants.len() - survivors.len(),
        mutants.len(),
        started.elapsed().as_secs_f64()
    );
    if survivors.is_empty() {
        return Ok(());
    }
    for mutant in &survivors {
        let Mutant {
            name, rule, file, ..
        } = mutant;
        println!("{name} survived: no test defends the rule \"{rule}\" ({file})");
    }
    bail!("{} mutants survived", survivors.len())
}
