//! The committed inputs of the targets.

use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// Where the committed inputs of a target are.
pub fn folder(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(target)
}

/// The committed inputs of a target, sorted by name.
///
/// # Errors
/// A file or the folder cannot be read.
pub fn read(target: &str) -> Result<Vec<(PathBuf, Vec<u8>)>> {
    let folder = folder(target);
    let entries = std::fs::read_dir(&folder)
        .with_context(|| format!("target {target} has no corpus: {}", folder.display()))?;
    let mut inputs = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let bytes = std::fs::read(&path).with_context(|| path.display().to_string())?;
        inputs.push((path, bytes));
    }
    inputs.sort();
    Ok(inputs)
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
