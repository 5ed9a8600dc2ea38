//! Running other programs, with the command line shown first so that anybody can repeat it.

use anyhow::{Context, Result, bail};
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};

/// A program with its arguments, to be run at the root of the workspace.
pub(crate) struct Step {
    program: PathBuf,
    arguments: Vec<String>,
    variables: Vec<(&'static str, OsString)>,
}

/// A program that runs beside others, ended by its drop.
pub(crate) struct Running {
    child: Child,
    line: String,
    log: PathBuf,
}

impl Step {
    /// The cargo that runs this chore, with `arguments` split at spaces.
    pub(crate) fn cargo(arguments: &str) -> Step {
        Step {
            arguments: arguments.split_whitespace().map(str::to_owned).collect(),
            ..Step::program("cargo")
        }
    }

    /// A program without arguments.
    pub(crate) fn program(program: impl Into<PathBuf>) -> Step {
        Step {
            program: program.into(),
            arguments: Vec::new(),
            variables: Vec::new(),
        }
    }

    /// With one more argument, taken as it is.
    pub(crate) fn with(mut self, argument: impl Into<String>) -> Step {
        self.arguments.push(argument.into());
        self
    }

    /// With an environment variable set.
    pub(crate) fn with_variable(mut self, name: &'static str, value: &str) -> Step {
        self.variables.push((name, value.into()));
        self
    }

    /// With an environment variable set to a path.
    pub(crate) fn with_path(mut self, name: &'static str, path: &Path) -> Step {
        self.variables.push((name, path.into()));
        self
    }

    /// Runs it to its end.
    ///
    /// # Errors
    /// It cannot be started, or does not exit with 0.
    pub(crate) fn run(self, root: &Path) -> Result<()> {
        let line = self.show();
        let status = self.command(root).status();
        require_success(&line, status.with_context(|| cannot_start(&line))?)
    }

    /// Starts it, with its output in the file `log`.
    ///
    /// # Errors
    /// It cannot be started, or the file cannot be made.
    pub(crate) fn start(self, root: &Path, log: &Path) -> Result<Running> {
        let line = self.show();
        let output = File::create(log).with_context(|| format!("cannot make {}", log.display()))?;
        let errors = output.try_clone()?;
        let child = self.command(root).stdout(output).stderr(errors).spawn();
        Ok(Running {
            child: child.with_context(|| cannot_start(&line))?,
            line,
            log: log.to_owned(),
        })
    }

    /// Prints the command line; gives it without the variables.
    fn show(&self) -> String {
        let variables = self.variables.iter();
        let variables: String = { variables }
            .map(|(name, value)| format!(" {name}={value:?}"))
            .collect();
        let line = format!("{} {}", self.program.display(), self.arguments.join(" "));
        println!("${variables} {line}");
        line
    }

    fn command(&self, root: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).current_dir(root);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }
}

impl Running {
    /// Waits for its end, and prints its output.
    ///
    /// # Errors
    /// It does not exit with 0.
    pub(crate) fn finish(mut self) -> Result<()> {
        let status = self.child.wait()?;
        print!("{}", String::from_utf8_lossy(&fs::read(&self.log)?));
        require_success(&self.line, status)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail if it has ended, which is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn cannot_start(line: &str) -> String {
    format!("`{line}` cannot be started")
}

fn require_success(line: &str, status: ExitStatus) -> Result<()> {
    if !status.success() {
        bail!("`{line}` failed: {status}");
    }
    Ok(())
}
