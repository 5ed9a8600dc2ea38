//! Gannet's commands as a library: what `gannet serve`, `gannet cp` and the others do, callable from Rust.
//!
//! This crate puts the pieces together and owns nothing of their working: it names the providers, opens the real
//! directories and sockets, reads the command line and the configuration, and says in one line what went wrong. What it
//! refuses: protocol decisions (they are `nfs`, `rpc` and `iwarp`), and file semantics (they are `vfs`).
//!
//! Layers, top down: [`cli`] (one definition of every option), the commands, [`url`] and [`failure`].
//!
//! First thing to read: [`run`].

pub mod cli;
pub mod config;
pub mod failure;
pub mod generate;
pub mod logs;
pub mod output;
pub mod size;
pub mod url;

use cli::{Arguments, Command, LogLevel};
use failure::Failure;

/// Does what the command line says, to its end.
///
/// # Errors
/// What failed, why, and what to do about it.
pub fn run(arguments: Arguments) -> Result<(), Failure> {
    let default_level = match arguments.command {
        Command::Serve(_) => LogLevel::Info,
        _ => LogLevel::Warn,
    };
    logs::start(&arguments.logs, default_level);
    match arguments.command {
        Command::Generate(options) => generate::run(&options.what),
        _ => Err(Failure::new(
            "cannot run this command",
            "it has not landed yet",
        )),
    }
}
