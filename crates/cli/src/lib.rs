//! Gannet's commands as a library: what `gannet serve`, `gannet cp` and the others do, callable from Rust.
//!
//! This crate puts the pieces together and owns nothing of their working: it names the providers, opens the real
//! directories and sockets, reads the command line and the configuration, and says in one line what went wrong. What it
//! refuses: protocol decisions (they are `nfs`, `rpc` and `iwarp`), and file semantics (they are `vfs`).
//!
//! Layers, top down: [`cli`] (one definition of every option), the commands, [`failure`].
//!
//! First thing to read: [`run`].

pub mod bench;
pub mod cli;
pub mod config;
pub mod copy;
pub mod demo;
pub mod doctor;
pub mod dump;
pub mod failure;
pub mod files;
pub mod generate;
pub mod logs;
pub mod mount;
pub mod output;
pub mod process;
mod progress;
mod remove;
pub mod scratch;
pub mod serve;
pub mod session;
mod show;
pub mod size;
mod standard;
pub mod table;
mod tree;
pub mod volume;

use cli::{Arguments, Command, LogLevel};
use failure::Failure;
use gannet_runtime::tokio_plug::set_busy_poll;
use logs::LogSink;

/// Does what the command line says, to its end.
///
/// # Errors
/// What failed, why, and what to do about it.
pub fn run(arguments: Arguments) -> Result<(), Failure> {
    let default_level = match arguments.command {
        Command::Serve(_) | Command::Cp(_) | Command::Mount(_) => LogLevel::Info,
        _ => LogLevel::Warn,
    };
    let sink = match &arguments.command {
        Command::Mount(options) if options.detached => LogSink::System,
        _ => LogSink::StandardError,
    };
    logs::start(&arguments.logs, default_level, sink)?;
    set_busy_poll(arguments.poll.time());
    match arguments.command {
        Command::Bench(options) => bench::run(&options),
        Command::Demo(options) => demo::run(&options),
        Command::Doctor(options) => doctor::run(&options),
        Command::Serve(options) => serve::run(&options),
        Command::Mount(options) => mount::run(&options),
        Command::Volume(options) => volume::run(&options),
        Command::Ls(options) => files::ls(&options),
        Command::Cat(options) => files::cat(&options),
        Command::Stat(options) => files::stat(&options),
        Command::Cp(options) => copy::run(&options),
        Command::Mkdir(options) => files::mkdir(&options),
        Command::Rm(options) => remove::run(&options),
        Command::Mv(options) => files::mv(&options),
        Command::Df(options) => files::df(&options),
        Command::Dump(options) => dump::run(&options),
        Command::Version => output::line(concat!("gannet ", env!("CARGO_PKG_VERSION"))),
        Command::Generate(options) => generate::run(&options.what),
    }
}
