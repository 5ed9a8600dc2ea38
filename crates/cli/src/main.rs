//! The `gannet` binary: parses the command line, runs the command, says what went wrong.

use gannet_cli::cli;
use gannet_cli::failure::Failure;
use gannet_cli::logs;
use gannet_cli::mount::helper;
use std::process::ExitCode;

fn main() -> ExitCode {
    if std::env::args_os()
        .next()
        .as_ref()
        .is_some_and(helper::is_called)
    {
        return helper::main();
    }
    let done = cli::parse().and_then(gannet_cli::run);
    logs::finish();
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => report(&failure),
    }
}

fn report(failure: &Failure) -> ExitCode {
    failure.report();
    ExitCode::from(failure.exit_code())
}
