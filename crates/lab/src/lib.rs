//! The laboratory: published experiments, run again on simulated machines that cost what those of the papers did.
//!
//! The code that serves real files runs here on a simulated fabric; what is of a paper's is in this crate: its testbeds
//! ([`profiles`]), its workloads ([`experiment`]), and its sentences, each with what came out beside it ([`papers`]).
//! What this crate refuses: code that serves, and what every simulated machine has (that is `sim`).
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

/// Does what the command line says, to its end.
///
/// # Errors
/// What failed, why, and what to do about it.
pub fn run(arguments: Arguments) -> Result<(), Failure> {
    let level = match arguments.command {
        // Simulated servers start thousands of times, and say each time for whom they wait.
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
