//! The command line of `gannet mount`, and of `mount.gannet`, which mount(8) calls.

use super::{ClientOptions, VERSION, parse_seconds, url_parser};
use clap::{ArgAction, Args, Parser, ValueEnum};
use gannet::admin::AdminAddress;
use gannet::url::Url;
use gannet_nfs::server::Network;
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

/// Whether close(2) waits for written bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CloseMode {
    /// Until they are durable: close(2) reports their errors
    Sync,
    /// Not at all: a crash loses what was written last, and no program hears of it
    Async,
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
    /// Return when the directory is mounted, and serve it from a process in the background, which logs to the system's
    /// log unless --log-file names a file
    #[arg(long)]
    pub background: bool,
    /// This process is the one in the background.
    #[arg(long, hide = true, requires = "background")]
    pub detached: bool,
    /// Bypass the kernel's page cache: send every read and write to the server
    #[arg(long)]
    pub direct: bool,
    /// Refuse every change
    #[arg(long)]
    pub read_only: bool,
    /// Refuse to run programs from the mount
    #[arg(long)]
    pub noexec: bool,
    /// Allow other users, each with their own rights; unless root mounts, /etc/fuse.conf must have user_allow_other
    #[arg(long)]
    pub allow_other: bool,
    /// Cache names and attributes for this long
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, default_value = "1")]
    pub cache_age: Duration,
    /// Where file locks (flock, fcntl) hold [default: shared on volumes, local over NFS]
    #[arg(long, value_name = "WHERE", value_enum)]
    pub locks: Option<Locks>,
    /// Whether close(2) waits for written bytes
    #[arg(long, value_name = "HOW", value_enum, default_value = "sync")]
    pub close: CloseMode,
    /// Write the line `mounted URL at DIR` to this file too
    #[arg(long, value_name = "FILE")]
    pub ready_file: Option<PathBuf>,
    /// Answer an administrator over HTTP at ADDRESS:PORT, or at the path of a Unix socket, which has a `/`
    ///
    /// There are /metrics for Prometheus, /health and /status.json. Only the user of the mount can open the Unix
    /// socket. An address that other machines reach needs --admin-allow.
    #[arg(long, value_name = "ADDR")]
    pub admin: Option<AdminAddress>,
    /// Answer administrators at these addresses or networks too (repeat, or separate by commas) [default: this host
    /// alone]
    #[arg(long, value_name = "CIDR", value_delimiter = ',')]
    pub admin_allow: Vec<Network>,
    /// Log each request of a program that takes TIME or longer, with where its time went; `gannet trace` shows them too
    ///
    /// TIME is a number with us, ms or s. The log gets 100 lines a second at most.
    #[arg(long, value_name = "TIME", value_parser = super::parse_time)]
    pub slow: Option<Duration>,
    /// The source that the table of mounts shows, in place of the URL.
    #[arg(long, value_name = "TEXT", hide = true)]
    pub source: Option<String>,
    /// Options of the connection.
    #[command(flatten)]
    pub client: ClientOptions,
}

/// Mount a directory of a server or a volume, as mount(8) asks for it
///
/// `mount -t gannet SPEC DIR` and lines of /etc/fstab with the type `gannet` run this program. It does what `gannet
/// mount --background` does, and returns when the directory is mounted.
///
/// SPEC is a URL as for gannet-mount(1): nfs+rdma://HOST/PATH, nfs://HOST/PATH, gannet://HOST/PATH. HOST:/PATH stands
/// for nfs+rdma://HOST/PATH, or for another of them by the option `proto`.
#[derive(Debug, Parser)]
#[command(name = "mount.gannet", version = VERSION, max_term_width = 100)]
#[command(after_help = "Exit status: 0 mounted, 1 wrong usage, 32 not mounted.")]
pub struct HelperOptions {
    /// The server's directory: a URL, or HOST:/PATH
    #[arg(value_name = "SPEC")]
    pub spec: String,
    /// Where to mount it: a directory that exists
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// Options, separated by commas: those of `gannet mount` without their dashes, and those of mount(8)
    #[arg(short = 'o', value_name = "OPTIONS", action = ArgAction::Append)]
    pub options: Vec<String>,
    /// Ignore options that are not known
    #[arg(short = 's')]
    pub sloppy: bool,
    /// Check the options, and mount nothing
    #[arg(short = 'f')]
    pub fake: bool,
    /// Accepted: there is no /etc/mtab to write
    #[arg(short = 'n')]
    pub no_mtab: bool,
    /// Print the line that it is mounted
    #[arg(short = 'v')]
    pub verbose: bool,
    /// Mount read-only, as the option `ro`
    #[arg(short = 'r')]
    pub read_only: bool,
    /// Mount writable, as the option `rw`
    #[arg(short = 'w', conflicts_with = "read_only")]
    pub writable: bool,
    /// The type that mount(8) was asked for: gannet or fuse.gannet
    #[arg(short = 't', value_name = "TYPE")]
    pub kind: Option<String>,
}
