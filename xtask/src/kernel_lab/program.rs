//! Programs of the workspace, built on the host for scenarios that run them in their guests.
//!
//! A guest's root is the host's, so a program and its shared libraries are there as they are, under the same paths.

use super::process::output;
use super::scenario::Program;
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

/// Builds a program of the workspace at `root`, and gives its file.
///
/// # Errors
/// Cargo fails; its last lines are part of the error.
pub(super) fn build(root: &Path, program: &Program) -> Result<PathBuf> {
    let mut cargo = Command::new("cargo");
    let (name, kind) = match program {
        Program::Binary { package } => {
            println!("kernel-lab: building {package}");
            cargo.args(["build", "--release", "-p", package]);
            (package, "bin")
        }
        Program::Test { package, test } => {
            println!("kernel-lab: building the test `{test}` of {package}");
            cargo.args(["test", "--no-run", "-p", package, "--test", test]);
            (test, "test")
        }
        Program::Example { package, example } => {
            println!("kernel-lab: building the example `{example}` of {package}");
            cargo.args(["build", "-p", package, "--example", example]);
            (example, "example")
        }
    };
    cargo
        .args(["--locked", "--message-format=json"])
        .current_dir(root);
    executable(&output(cargo)?, name, kind)
}

/// The executable of a target with this name and kind, from cargo's messages.
fn executable(messages: &str, name: &str, kind: &str) -> Result<PathBuf> {
    let is_it = |target: &Target| target.name == name && target.kind.iter().any(|it| it == kind);
    let found = (messages.lines())
        .filter_map(|line| serde_json::from_str::<Message>(line).ok())
        .find(|message| message.target.as_ref().is_some_and(is_it));
    found
        .and_then(|message| message.executable)
        .with_context(|| format!("cargo names no executable for the {kind} `{name}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_executable_is_that_of_the_kind_that_is_asked_for() {
        let messages = r#"{"reason":"compiler-artifact","target":{"kind":["lib"],"name":"all"},"executable":null}
{"reason":"compiler-artifact","target":{"kind":["bin"],"name":"all"},"executable":"/target/debug/all"}
{"reason":"compiler-artifact","target":{"kind":["test"],"name":"all"},"executable":"/target/debug/deps/all-1"}
{"reason":"build-finished","success":true}
"#;
        let test = executable(messages, "all", "test").unwrap();
        assert_eq!(test, Path::new("/target/debug/deps/all-1"));
        let binary = executable(messages, "all", "bin").unwrap();
        assert_eq!(binary, Path::new("/target/debug/all"));
        assert!(executable(messages, "other", "test").is_err());
    }
}
