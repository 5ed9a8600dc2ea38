//! The command line: one definition gives the parser, the help, the man pages and the shell completions.

mod bench;
mod client;
mod files;
mod mount;
mod serve;
mod volume;

pub use bench::{
    BenchOp, BenchOptions, BenchWhat, TileHints, TileHow, TileOp, TileOptions, TransferOptions,
    parse_record,
};

pub use client::{CallOptions, ClientOptions, MemoryOptions, NativeOptions, OptimisticSwitch};
pub use files::{
    CatOptions, CpOptions, DfOptions, LsOptions, MkdirOptions, MvOptions, RmOptions, StatOptions,
};
pub use mount::{Locks, MountOptions};
pub use serve::{Listen, ServeOptions};
pub use volume::{
    CheckOptions, CreateOptions, ExtendOptions, ListOptions, NewKeyOptions, ShowOptions,
    StripesOptions, VolumeOptions, VolumeWhat,
};

use crate::failure::{Failure, one_line};
use clap::builder::{PathBufValueParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Args, Parser, Subcommand, ValueEnum};
use gannet::url::{Location, Url};
use gannet_runtime::tokio_plug::available_cores;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// File serving over RDMA, with or without RDMA hardware.
///
/// Serves a directory as NFSv3 over RPC/RDMA, on a software RNIC that speaks standard iWARP, and over TCP; or a
/// volume that is striped over many I/O servers; and copies, lists, mounts and measures what such servers hold. URLs
/// choose the way: nfs://HOST:PORT/path goes over TCP, nfs+rdma://HOST:PORT/path over RPC/RDMA,
/// gannet://HOST:PORT/path to a volume by its native protocol; the ports may be left out (2049, 20049, 20050). In a
/// path, `%` and `?` are written %25 and %3F.
#[derive(Debug, Parser)]
#[command(
    name = "gannet",
    version,
    max_term_width = 100
)]
#[command(after_help = "Exit status: 0 done, 1 failed, 2 wrong usage.")]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// Log lines.
    #[command(flatten)]
    pub logs: LogOptions,
    /// How threads wait.
    #[command(flatten)]
    pub poll: PollOptions,
}

/// Most microseconds of `--busy-poll`.
const BUSY_POLL_MAX: i64 = 10_000;
/// Those of machines with more than one processor: longer than a message of ours and a good disk's sync take.
const BUSY_POLL: u32 = 300;

/// How threads wait for what they do not have.
#[derive(Debug, Args)]
pub struct PollOptions {
    /// Microseconds for which a thread looks for news before it sleeps, where that pays; 0 is never
    ///
    /// Makes short operations that come one after the other much faster, since waking takes longer than they do. It
    /// takes processor time that would be idle, also while a fast disk is waited for, and lets all else that runs here
    /// go first [default: 300, and 0 with one processor]
    #[arg(
        long,
        global = true,
        value_name = "MICROSECONDS",
        env = "GANNET_BUSY_POLL",
        hide_env = true,
        value_parser = clap::value_parser!(u32).range(..=BUSY_POLL_MAX)
    )]
    pub busy_poll: Option<u32>,
}

impl PollOptions {
    /// How long a thread looks for news before it sleeps.
    pub fn time(&self) -> Duration {
        let usual = match available_cores() {
            1 => 0,
            _ => BUSY_POLL,
        };
        Duration::from_micros(self.busy_poll.unwrap_or(usual).into())
    }
}

/// Log lines on standard error.
#[derive(Debug, Args)]
pub struct LogOptions {
    /// How much to log on standard error [default: info for serve and cp, warn otherwise]
    #[arg(
        long,
        global = true,
        value_name = "LEVEL",
        env = "GANNET_LOG",
        hide_env = true
    )]
    pub log: Option<LogLevel>,
    /// Log lines for people or for machines
    #[arg(long, global = true, value_name = "FORMAT", default_value = "text")]
    pub log_format: LogFormat,
}

/// From few lines to many.
#[allow(missing_docs)] // the names say it
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

/// Who reads the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// People.
    Text,
    /// Machines: one JSON object per line.
    Json,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve a scratch directory on loopback, copy a tree in and out over RDMA and TCP, verify every byte
    ///
    /// Needs no root and no hardware, takes some ten seconds, and cleans up behind itself.
    Demo(DemoOptions),
    /// Serve a directory as NFSv3 over RPC/RDMA and TCP until SIGTERM or SIGINT
    ///
    /// Serves this machine alone, unless --allow or the configuration names the networks of clients.
    ///
    /// Prints one line `ready nfs-tcp=ADDR:PORT nfs-rdma=ADDR:PORT` when clients can connect; `off` stands for what
    /// does not listen, and ` native=ADDR:PORT` follows for the manager of a volume.
    ///
    /// Linux mounts it with
    /// `mount -t nfs -o vers=3,nolock,proto=tcp,port=2049,mountport=2049,mountproto=tcp HOST:/ /mnt`, or over RDMA with
    /// proto=rdma,port=20049 in place of proto=tcp,port=2049. MOUNT is answered on the NFS ports; rpcbind is not
    /// needed.
    ///
    /// Served by root, every operation is done with the rights of its caller, and root of a client is the anonymous
    /// user (65534) unless --no-root-squash is given. Served by another user, everything is done with the rights of
    /// that user.
    Serve(ServeOptions),
    /// Mount what a server exports on a directory, until it is unmounted, SIGTERM or SIGINT
    ///
    /// Works through FUSE, as root or, with fusermount3, as any user. Prints one line `mounted URL at DIR` when it is
    /// there; `umount DIR` (`fusermount3 -u DIR`) ends it.
    ///
    /// Writes stay in the kernel for a while, and are durable at the server when close(2) or fsync(2) returns; files
    /// that others have changed are read anew when they are opened. When the server is away operations wait, and fail
    /// with an I/O error after --timeout; what was written before is sent again when it is back.
    Mount(MountOptions),
    /// Make, show, extend and check striped volumes, which `gannet serve --volume` serves
    Volume(VolumeOptions),
    /// List directories
    // -h is for sizes, as in ls(1).
    #[command(disable_help_flag = true)]
    Ls(LsOptions),
    /// Write files to standard output
    Cat(CatOptions),
    /// Show attributes of files
    Stat(StatOptions),
    /// Copy files and trees to, from and between servers
    ///
    /// Holes stay holes. Modes and modification times are kept, without set-user-ID and set-group-ID. With -r, symbolic
    /// links, FIFOs, sockets and (by root) devices are copied as such; a line at the end says how much it was and how
    /// fast. The command copies everything that it can, lists at the end what it could not, and exits with 1.
    ///
    /// A file is written as .gannet-cp-* beside its target and renamed when it is complete: a target that is there
    /// stays whole until then. Links below the given paths are never followed; one at the target's name is replaced.
    ///
    /// `-` copies standard input to a file on a server, or a file to standard output: `tar c . | gannet cp - URL`.
    ///
    /// A copy survives a restart of the server: it waits, connects again and goes on, for ever unless --timeout says
    /// otherwise. A server that cannot be reached in the first place is an error at once.
    Cp(CpOptions),
    /// Make directories
    Mkdir(MkdirOptions),
    /// Remove files and directories
    ///
    /// With -r, many names at a time. What cannot be removed is listed at the end, everything else is removed, and the
    /// exit status is 1; a line at the end says how much it was and how fast.
    Rm(RmOptions),
    /// Move or rename on one server
    Mv(MvOptions),
    /// Show space and inodes
    Df(DfOptions),
    /// Measure a server, or tiles of a file of a volume (bench tile)
    Bench(BenchOptions),
    /// Say what of this machine, or of a server, stands in the way, and what to do about it
    ///
    /// One line per check: ok, warn (works, but slower or not for everybody) or FAIL. Exits with 1 if one failed.
    Doctor(DoctorOptions),
    /// Show what a capture of NFS over iWARP or TCP holds, a line a message
    ///
    /// Reads what `tcpdump -w` and Wireshark write (pcap and pcapng). Connections are recognized by what they carry,
    /// not by their ports. MPA, DDP, RDMAP, RPC-over-RDMA, RPC, MOUNT, NFSv3 and NFSACL are decoded.
    Dump(DumpOptions),
    /// Print the version
    Version,
    /// Write man pages and shell completions
    #[command(hide = true)]
    Generate(GenerateOptions),
}

/// On or off.
#[allow(missing_docs)] // the names say it
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Switch {
    On,
    Off,
}

impl Switch {
    /// True for on.
    pub fn is_on(self) -> bool {
        self == Switch::On
    }
}

/// `gannet demo`.
#[derive(Debug, Args)]
pub struct DemoOptions {
    /// One JSON object per row instead of a table
    #[arg(long)]
    pub json: bool,
    /// Seed of the tree's names, sizes and contents
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Where to put the scratch directories [default: the system's temporary directory]
    #[arg(long, value_name = "DIR")]
    pub scratch: Option<PathBuf>,
}

/// `gannet dump`.
#[derive(Debug, Args)]
pub struct DumpOptions {
    /// The capture; `-` reads standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Every segment on a line of its own, lists in full, packets that are not decoded too
    #[arg(short, long)]
    pub verbose: bool,
    /// One JSON object per line, the counts in the last
    #[arg(long)]
    pub json: bool,
}

/// `gannet doctor`.
#[derive(Debug, Args)]
pub struct DoctorOptions {
    /// A server to look at as well
    #[arg(value_name = "URL", value_parser = url_parser())]
    pub url: Option<Url>,
    /// One JSON object per check
    #[arg(long)]
    pub json: bool,
    /// Talking to the server.
    #[command(flatten)]
    pub client: ClientOptions,
}

/// `gannet generate`.
#[derive(Debug, Args)]
pub struct GenerateOptions {
    /// What to write.
    #[command(subcommand)]
    pub what: GenerateWhat,
}

/// `gannet generate ...`.
#[derive(Debug, Subcommand)]
pub enum GenerateWhat {
    /// One page per command
    Man {
        /// Where to
        directory: PathBuf,
    },
    /// One script, on standard output
    Completions {
        /// For this shell
        shell: clap_complete::Shell,
    },
    /// Man pages and completions for all shells, in `man` and `completions` below a directory
    All {
        /// Where to
        directory: PathBuf,
        /// Only compare with what is there
        #[arg(long)]
        check: bool,
    },
}

fn url_parser() -> impl TypedValueParser<Value = Url> {
    clap::builder::NonEmptyStringValueParser::new().try_map(|text| Url::parse(&text))
}

fn location_parser() -> impl TypedValueParser<Value = Location> {
    PathBufValueParser::new().try_map(|path| Location::parse(&OsString::from(path)))
}

/// Parses a time above 0, in seconds.
///
/// # Errors
/// A sentence that says what is wrong.
pub fn parse_seconds(text: &str) -> Result<Duration, String> {
    text.parse()
        .ok()
        .filter(|seconds: &f64| *seconds > 0.0)
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| format!("`{text}` is not a number of seconds above 0"))
}

/// Parses the command line. Help and the version are printed, and end the process with exit status 0.
///
/// # Errors
/// The command line is not valid; the failure is one line.
pub fn parse<A: Parser>() -> Result<A, Failure> {
    A::try_parse().map_err(|error| {
        if !error.use_stderr() {
            error.exit();
        }
        let words = std::env::args_os().skip(1);
        let words = words.map(|word| word.to_string_lossy().into_owned());
        usage_failure(&error, A::command(), words)
    })
}

/// One line from clap's error about a command line of `words`, with its suggestions and where to read more.
fn usage_failure(
    error: &clap::Error,
    mut command: clap::Command,
    words: impl Iterator<Item = String>,
) -> Failure {
    let text = error.render().to_string();
    let (message, rest) = text.split_once("\n\n").unwrap_or((&text, ""));
    let message = message.strip_prefix("error: ").unwrap_or(message);
    let message = match error.kind() {
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => "a command is missing",
        _ => message,
    };
    let mut names = command.get_name().to_owned();
    for word in words {
        let Some(below) = command.find_subcommand(&word) else {
            break;
        };
        names = format!("{names} {}", below.get_name());
        command = below.clone();
    }
    let mut hints: Vec<String> = suggestions(rest).collect();
    hints.push(format!("see `{names} --help`"));
    Failure::usage("wrong usage", one_line(message)).hint(hints.join("; "))
}

/// Clap's suggestions in the paragraphs after its message: names similar to what was given. Its advice to pass an
/// unknown option as a value is left out: no command takes values that begin with a dash.
fn suggestions(paragraphs: &str) -> impl Iterator<Item = String> + '_ {
    let lines = paragraphs.lines().map(str::trim);
    let tips = lines.filter_map(|line| line.strip_prefix("tip: "));
    tips.filter(|tip| !tip.starts_with("to pass '"))
        .map(one_line)
}

#[cfg(test)]
mod tests;
