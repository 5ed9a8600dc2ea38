//! Gannet's commands as a library: the work of `gannet serve`, `gannet cp` and the others, callable from Rust.
//!
//! This crate puts the pieces together: it names the providers, opens the real directories and sockets, and reads
//! the command line and the configuration. It reports an error in one line. Protocol decisions belong to `nfs`,
//! `rpc` and `iwarp`, and file semantics to `vfs`.
//!
//! Layers, top down: [`cli`] (one definition of every option), the commands, [`failure`].
//!
//! First thing to read: [`run`].

mod admin_address;
mod audit;
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
pub mod watch;

use cli::{Arguments, Command, LogLevel};
use failure::Failure;
use gannet_runtime::tokio_plug::set_busy_poll;
use logs::LogSink;

/// Runs the command that the arguments name, to its end.
///
/// # Errors
/// The failure names the object, the reason, and a remedy if there is one.
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
        Command::Top(options) => watch::top(&options),
        Command::Reload(options) => watch::reload(&options),
        Command::Clients(options) => watch::clients(&options),
        Command::Trace(options) => watch::trace(&options),
        Command::Locks(options) => watch::locks(&options),
        Command::Dump(options) => dump::run(&options),
        Command::Version => output::line(concat!("gannet ", env!("CARGO_PKG_VERSION"))),
        Command::Generate(options) => generate::run(&options.what),
    }
}
