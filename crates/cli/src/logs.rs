//! Log lines: for people on a terminal, for the system's log, or one JSON object each for machines.

mod lines;
mod system;

use crate::cli::{LogFormat, LogLevel, LogOptions};
use crate::failure::{Explain, Failure};
use anstream::{AutoStream, ColorChoice};
use lines::Lines;
use std::sync::OnceLock;
use system::SystemLog;
use tracing::level_filters::LevelFilter;

/// The lines of this process, unless they go to the system's log.
static LINES: OnceLock<Lines> = OnceLock::new();

/// Opens the file of `--log-file` again, after it was moved away.
pub(crate) fn reopen() {
    match LINES.get().map(Lines::reopen) {
        Some(Err(error)) => tracing::error!(%error, "cannot open the log file again"),
        Some(Ok(true)) => tracing::info!("SIGUSR1: opened the log file again"),
        Some(Ok(false)) | None => tracing::info!("SIGUSR1: ignored; there is no log file"),
    }
}

/// Writes what is left of the log. Call it before the process ends.
pub fn finish() {
    if let Some(lines) = LINES.get() {
        lines.finish();
    }
}

/// Where log lines go unless `--log-file` names a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogSink {
    /// Standard error.
    StandardError,
    /// The system's log (syslog or the journal), which adds the time by itself.
    System,
}

/// Sends log lines to `sink` from now on: those of `default` and above, unless the options say otherwise. Call once.
///
/// # Errors
/// The log file cannot be opened.
pub fn start(options: &LogOptions, default: LogLevel, sink: LogSink) -> Result<(), Failure> {
    let level = match options.log.unwrap_or(default) {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    let lines = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_target(level >= LevelFilter::DEBUG);
    let is_json = options.log_format == LogFormat::Json;
    // Machines count for themselves.
    let counts = !is_json;
    let (written, has_colors) = match (&options.log_file, sink) {
        (Some(path), _) => {
            let written = Lines::to_file(path, counts);
            let what = || format!("cannot write the log file {}", path.display());
            (written.explain(what)?, false)
        }
        (None, LogSink::StandardError) => {
            let colors = AutoStream::choice(&std::io::stderr());
            let has_colors = colors != ColorChoice::Never;
            (Lines::to_standard_error(counts), has_colors)
        }
        (None, LogSink::System) => {
            let log = SystemLog::open().explain(|| String::from("cannot use the system's log"))?;
            log.warn_if_nobody_listens();
            let lines = lines.with_ansi(false).with_writer(log);
            // The system's log has the time and the level of each line already.
            if is_json {
                lines.json().flatten_event(true).init();
            } else {
                lines.without_time().with_level(false).init();
            }
            return Ok(());
        }
    };
    let written: &'static Lines = LINES.get_or_init(|| written);
    let lines = lines.with_ansi(has_colors).with_writer(move || written);
    if is_json {
        lines.json().flatten_event(true).init();
    } else {
        lines.init();
    }
    Ok(())
}
