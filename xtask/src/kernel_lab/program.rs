//! Test programs of the workspace, built on the host for scenarios that run them in their guests.
//!
//! A guest's root is the host's, so a program and its shared libraries are there as they are, under the same paths.

use super::process::output;
use super::scenario::TestProgram;
use anyhow::{Context, Result};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A line of cargo's messages; others lack these fields.
#[derive(Deserialize)]
struct Message {
    target: Option<Target>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

/// Builds a test program of the workspace at `root`, and gives its file.
///
/// # Errors
/// Cargo fails; its last lines are part of the error.
pub(super) fn build(root: &Path, program: &TestProgram) -> Result<PathBuf> {
    let TestProgram { package, test } = program;
    println!("kernel-lab: building the test `{test}` of {package}");
    let mut cargo = Command::new("cargo");
    cargo
        .args(["test", "--locked", "--no-run", "--message-format=json"])
        .args(["-p", package, "--test", test])
        .current_dir(root);
    executable(&output(cargo)?, test)
}

/// The executable of a test, from cargo's messages.
fn executable(messages: &str, test: &str) -> Result<PathBuf> {
    let is_test =
        |target: &Target| target.name == test && target.kind.iter().any(|it| it == "test");
    let found = (messages.lines())
        .filter_map(|line| serde_json::from_str::<Message>(line).ok())
        .find(|message| message.target.as_ref().is_some_and(is_test));
    found
        .and_then(|message| message.executable)
        .with_context(|| format!("cargo names no executable for the test `{test}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_executable_is_that_of_the_test_and_not_of_a_program_with_its_name() {
        let messages = r#"{"reason":"compiler-artifact","target":{"kind":["lib"],"name":"all"},"executable":null}
{"reason":"compiler-artifact","target":{"kind":["bin"],"name":"all"},"executable":"/target/debug/all"}
{"reason":"compiler-artifact","target":{"kind":["test"],"name":"all"},"executable":"/target/debug/deps/all-1"}
{"reason":"build-finished","success":true}
"#;
        let found = executable(messages, "all").unwrap();
        assert_eq!(found, Path::new("/target/debug/deps/all-1"));
        assert!(executable(messages, "other").is_err());
    }
}
