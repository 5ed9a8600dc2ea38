//! Running programs of the host for the lab: their output is shown only when they fail.

use anyhow::{Context, Result, bail};
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::process::{Command, Stdio};

/// Number of lines of output that an error shows.
const TAIL_LINES: usize = 15;
/// Bytes at the end of a log in which these lines are looked for.
const TAIL_BYTES: u64 = 8192;

/// Runs a program to its end and gives its standard output.
///
/// # Errors
/// The program cannot be started or fails; its last lines are part of the error.
pub(super) fn output(mut command: Command) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("{program} cannot be started"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        let said = text + &String::from_utf8_lossy(&output.stderr);
        bail!("{program}: {}\n{}", output.status, last_lines(&said));
    }
    Ok(text)
}

/// Waits until no other run of the lab uses a folder, and keeps them away until the lock is dropped.
///
/// # Errors
/// The folder cannot be written.
pub(super) fn lock(folder: &Path) -> Result<File> {
    let what = || format!("cannot lock {}", folder.display());
    let lock = File::create(folder.join("lock")).with_context(what)?;
    if lock.try_lock().is_err() {
        println!("kernel-lab: waiting for another run: {}", folder.display());
        lock.lock().with_context(what)?;
    }
    Ok(lock)
}

/// Lets a program find unpacked packages before those of the machine.
pub(super) fn use_packages<'a>(command: &'a mut Command, root: &Path) -> &'a mut Command {
    let folders = [root.join("usr/sbin"), root.join("usr/bin")];
    let libraries = [root.join("usr/lib/x86_64-linux-gnu")];
    command
        .env("PATH", prepended(&folders, "PATH"))
        .env("LD_LIBRARY_PATH", prepended(&libraries, "LD_LIBRARY_PATH"))
}

fn prepended(folders: &[impl AsRef<OsStr>], variable: &str) -> OsString {
    let mut list = OsString::new();
    let inherited = env::var_os(variable).filter(|value| !value.is_empty());
    for folder in folders
        .iter()
        .map(AsRef::as_ref)
        .chain(inherited.as_deref())
    {
        if !list.is_empty() {
            list.push(":");
        }
        list.push(folder);
    }
    list
}

/// The command that starts a program so that the kernel kills it when the starting thread ends.
const TIE: [&str; 4] = ["setpriv", "--pdeathsig", "KILL", "--"];

/// A program that the kernel kills when the thread that started it ends, for any reason.
pub(super) fn tied_to_us(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(TIE[0]);
    command.args(&TIE[1..]).arg(program);
    command
}

/// A program as [`tied_to_us`] makes it, which ends with status 124 after `seconds`.
pub(super) fn tied_for(seconds: u64, program: impl AsRef<OsStr>) -> Command {
    let mut command = tied_to_us("timeout");
    command.args(["--kill-after=5", &seconds.to_string()]);
    // `timeout` cannot kill what it started when it is killed itself.
    command.args(TIE).arg(program);
    command
}

/// The last lines of a log, or nothing when the log cannot be read.
pub(super) fn tail_of(file: &Path) -> String {
    let read = || -> std::io::Result<String> {
        let mut log = File::open(file)?;
        let start = log.metadata()?.len().saturating_sub(TAIL_BYTES);
        log.seek(SeekFrom::Start(start))?;
        let mut bytes = Vec::new();
        log.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    last_lines(&read().unwrap_or_default())
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
}
