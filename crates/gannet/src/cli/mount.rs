//! The command line of `gannet mount`.

use super::{ClientOptions, parse_seconds, url_parser};
use crate::url::Url;
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

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
    /// Write the line that it is mounted to this file too
    #[arg(long, value_name = "FILE")]
    pub ready_file: Option<PathBuf>,
    /// Talking to the server.
    #[command(flatten)]
    pub client: ClientOptions,
}
