//! The laboratory: published experiments, run again on simulated machines that cost what those of the papers did.
//!
//! The code that serves real files runs here on a simulated fabric. This crate has the parts of the papers:
//! testbeds ([`profiles`]), workloads ([`experiment`]), and sentences, each with its simulated number ([`papers`]).
//! Code that serves does not belong here. The properties of every simulated machine belong to `sim`.
//!
//! First function to read: [`papers::Paper::run`].

mod bench;
mod chart;
pub mod cli;
pub mod experiment;
pub mod limits;
pub mod papers;
pub mod profiles;

use cli::{Arguments, Command};
use gannet_cli::cli::LogLevel;
use gannet_cli::failure::Failure;
use gannet_cli::logs::{self, LogSink};
use gannet_runtime::tokio_plug::set_busy_poll;

/// Runs the command that the arguments name, to its end.
///
/// # Errors
/// The failure names the object, the reason, and a remedy if there is one.
pub fn run(arguments: Arguments) -> Result<(), Failure> {
    let level = match arguments.command {
        // Simulated servers start thousands of times, and each start logs a line.
        Command::Papers(_) => LogLevel::Error,
        Command::Bench(_) => LogLevel::Warn,
    };
    logs::start(&arguments.logs, level, LogSink::StandardError)?;
    set_busy_poll(arguments.poll.time());
    match arguments.command {
        Command::Bench(options) => bench::run(&options.what),
        Command::Papers(options) => papers::command::run(&options),
    }
}
