//! Files that a package or a container is made of: they exist.

use super::{Finding, read};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// The manifest that lists what is in the Debian package.
const MANIFEST: &str = "crates/cli/Cargo.toml";
/// The folder of the output of `cargo xtask package`.
const MADE: &str = "../../target/deb/";
const CONTAINER: &str = "packaging/Containerfile";
/// The configuration that a package installs.
const CONFIGURATION: &str = "packaging/gannet.toml";
/// The networks that hold every host. Nobody may be served by default.
const EVERYBODY: [&str; 2] = ["0.0.0.0/0", "::/0"];

pub(super) fn check(root: &Path, files: &[PathBuf], findings: &mut Vec<Finding>) -> Result<()> {
    let exists = |path: &Path| root.join(path).exists();
    let manifest: Table = read(&root.join(MANIFEST))?.parse().context(MANIFEST)?;
    let folder = Path::new(MANIFEST).parent().unwrap_or(Path::new(""));
    let sources = asset_sources(&manifest);
    if sources.is_empty() {
        findings.push(Finding::new(
            Path::new(MANIFEST),
            1,
            "no assets of a package",
        ));
    }
    for source in sources.iter().filter(|source| !source.starts_with(MADE)) {
        if !exists(&folder.join(source)) {
            let what = format!("the package's asset {source} does not exist");
            findings.push(Finding::new(Path::new(MANIFEST), 1, what));
        }
    }
    if files.iter().any(|file| file == Path::new(CONTAINER)) {
        let text = read(&root.join(CONTAINER))?;
        for (line, source) in copied(&text) {
            if !exists(Path::new(source)) {
                let what = format!("{source}, which it copies, does not exist");
                findings.push(Finding::new(Path::new(CONTAINER), line, what));
            }
        }
    }
    for path in [CONTAINER, CONFIGURATION] {
        if !files.iter().any(|file| file == Path::new(path)) {
            continue;
        }
        for line in served_to_everybody(&read(&root.join(path))?) {
            let what =
                "every host would be served by default: leave it to the user to name clients";
            findings.push(Finding::new(Path::new(path), line, what));
        }
    }
    Ok(())
}

/// The numbers of lines that admit every host, comments left out.
pub(super) fn served_to_everybody(text: &str) -> Vec<usize> {
    let lines = text.lines().enumerate();
    let found = lines.filter(|(_, line)| {
        !line.starts_with('#') && EVERYBODY.iter().any(|network| line.contains(network))
    });
    found.map(|(index, _)| index + 1).collect()
}

/// The first of each asset's three strings.
fn asset_sources(manifest: &Table) -> Vec<&str> {
    let metadata = manifest
        .get("package")
        .and_then(|package| package.get("metadata"));
    let assets = metadata.and_then(|metadata| metadata.get("deb")?.get("assets")?.as_array());
    let sources = assets.into_iter().flatten();
    sources
        .filter_map(|asset| asset.get(0).and_then(Value::as_str))
        .collect()
}

/// Sources of the lines that copy files of the tree, with their line numbers.
pub(super) fn copied(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let Some(words) = line.strip_prefix("COPY ") else {
            continue;
        };
        let words: Vec<&str> = words.split_whitespace().collect();
        if words.iter().any(|word| word.starts_with("--from=")) {
            continue;
        }
        if let Some((_, sources)) = words.split_last() {
            let sources = sources.iter().filter(|word| !word.starts_with("--"));
            found.extend(sources.map(|source| (index + 1, *source)));
        }
    }
    found
}
