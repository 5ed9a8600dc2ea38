//! Running other programs, with the command line shown first so that anybody can repeat it.

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program with its arguments, to be run at the root of the workspace.
pub(crate) struct Step<'a> {
    program: PathBuf,
    arguments: Vec<String>,
    variables: Vec<(&'a str, &'a str)>,
}

impl<'a> Step<'a> {
    /// The cargo that runs this chore, with `arguments` split at spaces.
    pub(crate) fn cargo(arguments: &str) -> Step<'static> {
        Step {
            arguments: arguments.split_whitespace().map(str::to_owned).collect(),
            ..Step::program("cargo")
        }
    }

    /// A program without arguments.
    pub(crate) fn program(program: impl Into<PathBuf>) -> Step<'static> {
        Step {
            program: program.into(),
            arguments: Vec::new(),
            variables: Vec::new(),
        }
    }

    /// With one more argument, taken as it is.
    pub(crate) fn with(mut self, argument: impl Into<String>) -> Step<'a> {
        self.arguments.push(argument.into());
        self
    }

    /// With an environment variable set.
    pub(crate) fn with_variable(mut self, name: &'a str, value: &'a str) -> Step<'a> {
        self.variables.push((name, value));
        self
    }

    /// Runs it to its end.
    ///
    /// # Errors
    /// It cannot be started, or does not exit with 0.
    pub(crate) fn run(self, root: &Path) -> Result<()> {
        let mut line = String::from("$");
        for (name, value) in &self.variables {
            line.push_str(&format!(" {name}={value:?}"));
        }
        let program = self.program.display();
        println!("{line} {program} {}", self.arguments.join(" "));
        let status = Command::new(&self.program)
            .args(&self.arguments)
            .envs(self.variables)
            .current_dir(root)
            .status()
            .with_context(|| format!("{program} cannot be started"))?;
        if !status.success() {
            bail!("`{program} {}` failed: {status}", self.arguments.join(" "));
        }
        Ok(())
    }
}
