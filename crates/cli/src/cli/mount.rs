//! The command line of `gannet mount`.

use super::{ClientOptions, parse_seconds, url_parser};
use clap::{Args, ValueEnum};
use gannet::url::Url;
use std::path::PathBuf;
use std::time::Duration;

/// Where file locks hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Locks {
    /// Among all mounts, by the manager of a volume
    Shared,
    /// Among the programs of this machine alone
    Local,
    /// Nowhere: programs that ask for one are told ENOLCK
    None,
}

/// `gannet mount`.
#[derive(Debug, Args)]
pub struct MountOptions {
    /// The directory of a server or volume to mount
    #[arg(value_name = "URL", value_parser = url_parser())]
    pub url: Url,
    /// Where to mount it: a directory that exists
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// Keep no data in the kernel's cache: every read and write is the server's
    #[arg(long)]
    pub direct: bool,
    /// Refuse everything that changes files
    #[arg(long)]
    pub read_only: bool,
    /// Let other users in, each with his own rights; not root, /etc/fuse.conf must say user_allow_other
    #[arg(long)]
    pub allow_other: bool,
    /// For how long names and attributes are believed without asking again
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, default_value = "1")]
    pub cache_age: Duration,
    /// Where file locks (flock, fcntl) hold; by default shared on volumes, and local over NFS
    #[arg(long, value_name = "WHERE", value_enum)]
    pub locks: Option<Locks>,
    /// Write the line that it is mounted to this file too
    #[arg(long, value_name = "FILE")]
    pub ready_file: Option<PathBuf>,
    /// Talking to the server.
    #[command(flatten)]
    pub client: ClientOptions,
}
