//! The `gannet-lab` binary: parses the command line, runs the command, says what went wrong.

use gannet_cli::cli;
use std::process::ExitCode;

fn main() -> ExitCode {
    match cli::parse().and_then(gannet_lab::run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.report();
            ExitCode::from(failure.exit_code())
        }
    }
}
