//! Committed inputs: few files that cover what all known inputs cover.

use super::{Driver, Target};
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Stdio;

/// Inputs that once failed: they are kept whatever they cover.
const FAILED_ONCE: &str = "crash-";

/// Minimises the committed inputs of all targets and prints a line for each.
///
/// # Errors
/// A target fails on an input, or a file cannot be read or written.
pub(super) fn run(driver: &Driver, targets: &[Target]) -> Result<()> {
    for target in targets {
        minimise(driver, target).with_context(|| target.name.clone())?;
    }
    Ok(())
}

fn minimise(driver: &Driver, target: &Target) -> Result<()> {
    let (found, committed) = (driver.found(target)?, driver.committed(target));
    let before = inputs(&committed)?;
    let merged = driver.work.join("merged").join(&target.name);
    if merged.exists() {
        fs::remove_dir_all(&merged)?;
    }
    fs::create_dir_all(&merged)?;
    let status = driver
        .command(target)
        .arg("-set_cover_merge=1")
        .args([&merged, &committed, &found])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    if !status.success() {
        bail!("the merge failed: {status}");
    }
    let after = inputs(&merged)?;
    for (bytes, name) in &before {
        let is_kept = after.contains_key(bytes) || is_regression(name);
        if !is_kept {
            fs::remove_file(committed.join(name))?;
        }
    }
    for (bytes, name) in &after {
        if !before.contains_key(bytes) {
            // libFuzzer names files by their SHA-1; a part of it is enough.
            let name = name.to_string_lossy();
            let name = format!("found-{}", name.get(..8).unwrap_or(&name));
            fs::write(committed.join(name), bytes)?;
        }
    }
    let now = inputs(&committed)?;
    let len: usize = now.keys().map(Vec::len).sum();
    println!(
        "{:<22} {:>5} inputs before, {:>5} now, {len:>8} bytes",
        target.name,
        before.len(),
        now.len()
    );
    Ok(())
}

fn is_regression(name: &OsString) -> bool {
    name.to_string_lossy().starts_with(FAILED_ONCE)
}

/// The files of a folder by their content.
fn inputs(folder: &Path) -> Result<BTreeMap<Vec<u8>, OsString>> {
    let mut inputs = BTreeMap::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        inputs.insert(fs::read(entry.path())?, entry.file_name());
    }
    Ok(inputs)
}
