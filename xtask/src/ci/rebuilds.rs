//! After the build of all tests, the build of one crate's tests compiles nothing.
//!
//! Cargo builds a third-party crate once for each set of its features, and then all crates above it again.
//! `crates/testing/Cargo.toml` has the one set for all, and this check finds what is missing there.

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use std::path::Path;
use std::process::{Command, Output};

/// A line of cargo's messages; others have no such fields.
#[derive(Deserialize)]
struct Message {
    reason: String,
    #[serde(default)]
    fresh: bool,
    target: Option<Target>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
}

/// Builds the tests of each crate of the workspace at `root`, one crate after the other.
///
/// # Errors
/// Something was compiled that the build of all tests had compiled already, or cargo fails.
pub(super) fn check(root: &Path) -> Result<()> {
    let metadata = cargo(
        root,
        &["metadata", "--no-deps", "--format-version", "1", "--locked"],
    )?;
    let metadata: Metadata = serde_json::from_slice(&metadata.stdout).context("cargo metadata")?;
    let mut faults = Vec::new();
    for Package { name } in &metadata.packages {
        let build = [
            "test",
            "--locked",
            "--no-run",
            "--message-format=json",
            "-p",
            name,
        ];
        let built = cargo(root, &build)?;
        let compiled = compiled(&String::from_utf8_lossy(&built.stdout))?;
        if !compiled.is_empty() {
            faults.push(format!(
                "`cargo test -p {name}` compiles {}",
                compiled.join(", ")
            ));
        }
    }
    if !faults.is_empty() {
        bail!(
            "{}: name their features in crates/testing/Cargo.toml (`cargo tree -e features` shows who asks for which)",
            faults.join("; ")
        );
    }
    println!(
        "{} crates, none of them compiles anything anew",
        metadata.packages.len()
    );
    Ok(())
}

fn cargo(root: &Path, arguments: &[&str]) -> Result<Output> {
    let mut cargo = Command::new("cargo");
    let output = cargo.args(arguments).current_dir(root).output();
    let output = output.context("cargo cannot be started")?;
    if !output.status.success() {
        bail!(
            "cargo {}: {}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(output)
}

/// The targets that were compiled, by cargo's messages.
fn compiled(messages: &str) -> Result<Vec<String>> {
    let mut compiled = Vec::new();
    for line in messages.lines() {
        let message: Message = serde_json::from_str(line).context("a message of cargo")?;
        if message.reason == "compiler-artifact" && !message.fresh {
            compiled.extend(message.target.map(|target| target.name));
        }
    }
    Ok(compiled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_fresh_was_compiled() {
        let messages = r#"{"reason":"compiler-artifact","fresh":true,"target":{"name":"libc"}}
{"reason":"build-script-executed","package_id":"libc"}
{"reason":"compiler-artifact","fresh":false,"target":{"name":"tokio"}}
{"reason":"build-finished","success":true}"#;
        assert_eq!(compiled(messages).unwrap(), ["tokio"]);
        assert!(compiled("no JSON").is_err());
    }
}
