//! `gannet mount --background`: this program once more, as a process that outlives the shell that started it.
//!
//! The process in the background is started anew and not forked: threads and the runtime do not survive a fork. It
//! prints the line that it is mounted to a pipe, which the process in the foreground waits for. Until then its errors
//! go to the same standard error, and an interrupt from the terminal ends both.

use crate::failure::{Explain, Failure};
use crate::output;
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// Has another process run this command, with `words` behind the program's name, and waits until the directory is
/// mounted. Returns the line that reports it.
///
/// # Errors
/// The process cannot be started, or has ended without mounting; its own messages are not repeated.
pub(crate) fn start(words: impl Iterator<Item = OsString>) -> Result<String, Failure> {
    let what = || String::from("cannot mount in the background");
    let program = std::env::current_exe().explain(what)?;
    let mut child = Command::new(program)
        .arg0("gannet")
        .args(words)
        .arg("--detached")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .explain(what)?;
    let mut line = String::new();
    if let Some(output) = child.stdout.take() {
        BufReader::new(output).read_line(&mut line).explain(what)?;
    }
    if line.ends_with('\n') {
        return Ok(line.trim_end().to_owned());
    }
    let status = child.wait().explain(what)?;
    let failure = Failure::new(what(), format!("the process there ended: {status}"));
    Err(match status.code() {
        Some(_) => failure.reported(),
        None => failure,
    })
}

/// Detaches this process from the terminal, the working directory and standard error, and prints `line` for the process
/// that waits.
///
/// # Errors
/// The waiting process has ended, or the system refuses.
pub(super) fn detach(line: &str) -> Result<(), Failure> {
    let what = || String::from("cannot go to the background");
    // The terminal's signals do not come here from now on. A process that leads a session already cannot make one.
    let _ = rustix::process::setsid();
    rustix::process::chdir("/").explain(what)?;
    let null = File::options().read(true).write(true).open("/dev/null");
    let null = null.explain(what)?;
    rustix::stdio::dup2_stderr(&null).explain(what)?;
    // A panic on standard error would be lost.
    std::panic::set_hook(Box::new(|panic| tracing::error!("{panic}")));
    output::line(line)?;
    rustix::stdio::dup2_stdout(&null).explain(what)
}
