//! Log lines: for people on a terminal, or one JSON object each for machines.

use crate::cli::{LogFormat, LogLevel, LogOptions};
use tracing::level_filters::LevelFilter;

/// Sends log lines to standard error from now on: those of `default` and above, unless the options say otherwise.
/// Call once.
pub fn start(options: &LogOptions, default: LogLevel) {
    let level = match options.log.unwrap_or(default) {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    let colors = anstream::AutoStream::choice(&std::io::stderr());
    let lines = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(std::io::stderr)
        .with_ansi(colors != anstream::ColorChoice::Never)
        .with_target(level >= LevelFilter::DEBUG);
    match options.log_format {
        LogFormat::Text => lines.init(),
        LogFormat::Json => lines.json().flatten_event(true).init(),
    }
}
