//! The keys of manifests besides their dependencies: the oldest Rust, and the entries that a registry shows of a crate.

use super::{Finding, read};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use toml::{Table, Value};

const WORKSPACE: &str = "Cargo.toml";
const TOOLCHAIN: &str = "rust-toolchain.toml";
/// The keys of every manifest.
const EVERYWHERE: &[&str] = &["description", "license", "repository", "rust-version"];
/// The further keys of crates that can be published.
const PUBLISHED: &[&str] = &["readme", "keywords", "categories"];

pub(super) fn check(root: &Path, files: &[PathBuf], findings: &mut Vec<Finding>) -> Result<()> {
    let (workspace, toolchain) = (read(&root.join(WORKSPACE))?, read(&root.join(TOOLCHAIN))?);
    let disagreement = check_versions(
        &table(WORKSPACE, &workspace)?,
        &table(TOOLCHAIN, &toolchain)?,
    );
    findings.extend(disagreement.map(|what| Finding::new(Path::new(WORKSPACE), 1, what)));
    let is_manifest =
        |file: &&PathBuf| file.ends_with(WORKSPACE) && file.parent() != Some(Path::new(""));
    for file in files.iter().filter(is_manifest) {
        let text = read(&root.join(file))?;
        let manifest = table(&file.display().to_string(), &text)?;
        let missing = missing_keys(&manifest);
        findings.extend(missing.map(|key| {
            Finding::new(
                file,
                1,
                format!("`{key}` is missing (or `publish = false`)"),
            )
        }));
    }
    Ok(())
}

fn table(file: &str, text: &str) -> Result<Table> {
    text.parse().with_context(|| format!("{file} is not TOML"))
}

fn text_at<'a>(table: &'a Table, keys: &[&str]) -> Option<&'a str> {
    let (last, above) = keys.split_last()?;
    let table = above
        .iter()
        .try_fold(table, |table, key| table.get(*key)?.as_table());
    table?.get(*last)?.as_str()
}

/// The oldest Rust that is promised must be the one that compiles every change.
pub(super) fn check_versions(workspace: &Table, toolchain: &Table) -> Option<String> {
    let promised =
        text_at(workspace, &["workspace", "package", "rust-version"]).unwrap_or_default();
    let pinned = text_at(toolchain, &["toolchain", "channel"]).unwrap_or_default();
    let is_same = pinned
        .strip_prefix(promised)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    (!is_same || promised.is_empty())
        .then(|| format!("rust-version is {promised:?}, and {TOOLCHAIN} pins {pinned:?}"))
}

/// The keys that a crate's manifest leaves out.
pub(super) fn missing_keys(manifest: &Table) -> impl Iterator<Item = &'static str> {
    let package = manifest.get("package").and_then(Value::as_table);
    let is_published =
        package.and_then(|package| package.get("publish")) != Some(&Value::Boolean(false));
    let more = PUBLISHED.iter().filter(move |_| is_published);
    let keys = EVERYWHERE.iter().chain(more).copied();
    keys.filter(move |key| package.is_none_or(|package| !package.contains_key(*key)))
}
