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
    /// Among the programs of this host alone
    Local,
    /// Nowhere: calls for a lock fail with ENOLCK
    None,
}

/// `gannet mount`.
#[derive(Debug, Args)]
pub struct MountOptions {
    /// The directory of a server or volume to mount
    #[arg(value_name = "URL", value_parser = url_parser())]
    pub url: Url,
    /// The existing directory to mount on
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// Bypass the kernel's page cache: send every read and write to the server
    #[arg(long)]
    pub direct: bool,
    /// Refuse every change
    #[arg(long)]
    pub read_only: bool,
    /// Allow other users, each with their own rights; unless root mounts, /etc/fuse.conf must have user_allow_other
    #[arg(long)]
    pub allow_other: bool,
    /// Cache names and attributes for this long
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, default_value = "1")]
    pub cache_age: Duration,
    /// Where file locks (flock, fcntl) hold [default: shared on volumes, local over NFS]
    #[arg(long, value_name = "WHERE", value_enum)]
    pub locks: Option<Locks>,
    /// Write the line `mounted URL at DIR` to this file too
    #[arg(long, value_name = "FILE")]
    pub ready_file: Option<PathBuf>,
    /// Options of the connection.
    #[command(flatten)]
    pub client: ClientOptions,
}
