//! Options of the commands for administrators.

use clap::{Args, ValueEnum};
use std::convert::Infallible;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// An admin address, as `gannet serve --admin` and its ready line give it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AdminPlace {
    /// The path of a Unix socket.
    Unix(PathBuf),
    /// `HOST:PORT`.
    Tcp(String),
}

impl FromStr for AdminPlace {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<AdminPlace, Infallible> {
        if let Some(rest) = text.strip_prefix("http://") {
            let host = rest.split('/').next().unwrap_or_default();
            return Ok(AdminPlace::Tcp(host.to_owned()));
        }
        Ok(match text.contains('/') {
            true => AdminPlace::Unix(PathBuf::from(text)),
            false => AdminPlace::Tcp(text.to_owned()),
        })
    }
}

impl fmt::Display for AdminPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AdminPlace::Unix(path) => path.display().fmt(f),
            AdminPlace::Tcp(host) => f.write_str(host),
        }
    }
}

/// A table of `gannet top`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TopTable {
    /// The busiest clients.
    Clients,
    /// The busiest exports.
    Exports,
    /// The busiest files and directories.
    Files,
}

/// `gannet top`.
#[derive(Debug, Args)]
pub struct TopOptions {
    /// The server's admin address: HOST:PORT, http://HOST:PORT/, or the path of its Unix socket
    #[arg(value_name = "ADDR")]
    pub admin: AdminPlace,
    /// Look at the server every SECONDS
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = super::parse_seconds)]
    pub every: Duration,
    /// The lower table
    ///
    /// The work of exports and files is that of the last 10 to 20 seconds. Only the Unix socket tells their paths.
    #[arg(long, value_name = "TABLE", default_value = "clients")]
    pub show: TopTable,
    /// Print one screen, after that time, and end
    #[arg(long, help_heading = "Output")]
    pub once: bool,
    /// Print one look as a JSON object
    #[arg(long, help_heading = "Output", requires = "once")]
    pub json: bool,
}

/// `gannet trace`.
#[derive(Debug, Args)]
pub struct TraceOptions {
    /// The server's admin address: HOST:PORT, http://HOST:PORT/, or the path of its Unix socket
    #[arg(value_name = "ADDR")]
    pub admin: AdminPlace,
    /// Show operations that take TIME or longer, whatever the server's --slow is: a number with us, ms or s
    ///
    /// Works at the Unix socket alone: the server takes each operation apart meanwhile, which costs it some time.
    #[arg(long, value_name = "TIME", value_parser = super::parse_time)]
    pub over: Option<Duration>,
    /// Print those that the server remembers, 1024 at most, and end
    #[arg(long, help_heading = "Output")]
    pub once: bool,
    /// Print one JSON object per operation
    #[arg(long, help_heading = "Output")]
    pub json: bool,
}

/// `gannet reload`.
#[derive(Debug, Args)]
pub struct ReloadOptions {
    /// The path of the server's Unix socket, which `gannet serve --admin PATH` makes
    #[arg(value_name = "PATH")]
    pub admin: AdminPlace,
}

/// `gannet clients`.
#[derive(Debug, Args)]
pub struct ClientsOptions {
    /// The server's admin address: HOST:PORT, http://HOST:PORT/, or the path of its Unix socket
    #[arg(value_name = "ADDR")]
    pub admin: AdminPlace,
    /// Print one JSON object per client
    #[arg(long, help_heading = "Output")]
    pub json: bool,
}

/// `gannet locks`.
#[derive(Debug, Args)]
pub struct LocksOptions {
    /// The admin address of the volume's manager: HOST:PORT, http://HOST:PORT/, or the path of its Unix socket
    #[arg(value_name = "ADDR")]
    pub admin: AdminPlace,
    /// Print one JSON object per lock or grant
    #[arg(long, help_heading = "Output")]
    pub json: bool,
}
