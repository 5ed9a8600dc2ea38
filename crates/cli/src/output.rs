//! Standard output has the results, standard error everything else. When the reader of the output goes away, the
//! command ends without an error.

use crate::failure::{Explain, Failure};
use indicatif::ProgressBar;
use serde::Serialize;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Prints a line.
///
/// # Errors
/// The output is closed (silent) or cannot be written.
pub fn line(text: &str) -> Result<(), Failure> {
    bytes(format!("{text}\n").as_bytes())
}

/// Prints bytes as they are.
///
/// # Errors
/// As [`line()`].
pub fn bytes(bytes: &[u8]) -> Result<(), Failure> {
    write(io::stdout().lock(), bytes)
}

/// Prints a line with escape sequences for colours. They are left out unless standard output is a terminal that shows
/// colours, and where NO_COLOR is set.
///
/// # Errors
/// As [`line()`].
pub fn styled(text: &str) -> Result<(), Failure> {
    write(anstream::stdout().lock(), format!("{text}\n").as_bytes())
}

fn write(mut output: impl Write, bytes: &[u8]) -> Result<(), Failure> {
    output
        .write_all(bytes)
        .and_then(|()| output.flush())
        .map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::silent(),
            _ => Failure::new("cannot write the output", error),
        })
}

/// The progress bar on standard error, if any: lines are printed above it.
static BAR: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// Sets the bar that is drawn from now on.
pub(crate) fn show_bar(bar: Option<ProgressBar>) {
    *BAR.lock().unwrap_or_else(PoisonError::into_inner) = bar;
}

/// Prints a line on standard error. A failure to do so is ignored.
pub fn report(text: &str) {
    let write = || {
        let _ = writeln!(io::stderr().lock(), "{text}");
    };
    let bar = BAR.lock().unwrap_or_else(PoisonError::into_inner).clone();
    match bar {
        Some(bar) => bar.suspend(write),
        None => write(),
    }
}

/// Prints one JSON object on a line of its own.
///
/// # Errors
/// As [`line()`].
pub fn json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string(value)
        .map_err(|error| Failure::new("cannot write the result as JSON", error))?;
    line(&text)
}

/// Writes the line to a file that appears complete or not at all.
///
/// # Errors
/// It cannot be written.
pub(crate) fn ready_file(path: &Path, line: &str) -> Result<(), Failure> {
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(format!(".{}", std::process::id()));
    File::create(&unfinished)
        .and_then(|mut file| writeln!(file, "{line}"))
        .and_then(|()| std::fs::rename(&unfinished, path))
        .explain(|| format!("cannot write the ready file {}", path.display()))
}
