//! The command line: one definition gives the parser, the help, the man pages and the shell completions.

mod bench;
mod client;
mod files;
mod mount;
mod serve;
mod volume;
mod watch;

pub use bench::{
    BenchOp, BenchOptions, BenchWhat, TileHints, TileHow, TileOp, TileOptions, TransferOptions,
    parse_record,
};

pub use client::{CallOptions, ClientOptions, MemoryOptions, NativeOptions, OptimisticSwitch};
pub use files::{
    CatOptions, CpOptions, DfOptions, LsOptions, MkdirOptions, MvOptions, RmOptions, StatOptions,
    TreeOptions,
};
pub use mount::{CloseMode, HelperOptions, Locks, MountOptions};
pub use serve::{Listen, ListenError, ServeOptions};
pub use volume::{
    CheckOptions, CopiesOptions, CreateOptions, ExtendOptions, HealOptions, ListOptions,
    NewKeyOptions, ShowOptions, StatusOptions, StripesOptions, SwitchOptions, VolumeOptions,
    VolumeWhat,
};
pub use watch::{
    AdminPlace, ClientsOptions, LocksOptions, ReloadOptions, TopOptions, TopTable, TraceOptions,
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

/// The release; packages name the commit as well.
const VERSION: &str = match option_env!("GANNET_VERSION") {
    Some(version) => version,
    None => env!("CARGO_PKG_VERSION"),
};

/// File serving over RDMA, with an RNIC in software.
///
/// Serves a directory as NFSv3 over TCP and over RPC/RDMA, on a software RNIC that speaks standard iWARP. Serves
/// volumes, which are striped over many I/O servers. Copies, lists, mounts and measures files on such servers.
///
/// URLs select the transport: nfs://HOST:PORT/path is NFS over TCP, nfs+rdma://HOST:PORT/path is NFS over RPC/RDMA,
/// and gannet://HOST:PORT/path is the native protocol of a volume. The default ports are 2049, 20049 and 20050. In a
/// path, write `%` as %25 and `?` as %3F.
#[derive(Debug, Parser)]
#[command(name = "gannet", version = VERSION, max_term_width = 100)]
#[command(after_help = "Exit status: 0 success, 1 failure, 2 wrong usage.")]
pub struct Arguments {
    /// The command.
    #[command(subcommand)]
    pub command: Command,
    /// Log lines.
    #[command(flatten)]
    pub logs: LogOptions,
    /// How threads wait.
    #[command(flatten)]
    pub poll: PollOptions,
}

/// The largest `--busy-poll`, in microseconds.
const BUSY_POLL_MAX: i64 = 10_000;
/// The default with more than one core, in microseconds: longer than a round trip or the sync of a fast disk takes.
const BUSY_POLL: u32 = 300;

/// How threads wait for events.
#[derive(Debug, Args)]
#[command(next_help_heading = "Performance")]
pub struct PollOptions {
    /// Busy-poll for up to N microseconds before sleeping (0 disables) [default: 300; 0 with one core]
    ///
    /// Short operations in sequence become faster, since waking a thread takes longer than they do. Polling takes
    /// processor time that would be idle, and yields to other threads that can run. A thread polls only while that has
    /// found events lately, and while work and waits take less than about 1.5 times the processor time of sleeping.
    #[arg(
        long,
        global = true,
        value_name = "N",
        env = "GANNET_BUSY_POLL",
        hide_env = true,
        value_parser = clap::value_parser!(u32).range(..=BUSY_POLL_MAX)
    )]
    pub busy_poll: Option<u32>,
}

impl PollOptions {
    /// How long a thread polls before it sleeps.
    pub fn time(&self) -> Duration {
        let usual = match available_cores() {
            1 => 0,
            _ => BUSY_POLL,
        };
        Duration::from_micros(self.busy_poll.unwrap_or(usual).into())
    }
}

/// Log lines, on standard error unless a file is named.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub struct LogOptions {
    /// Log from this level up [default: info for serve, mount and cp; warn otherwise]
    #[arg(
        long,
        global = true,
        value_name = "LEVEL",
        env = "GANNET_LOG",
        hide_env = true
    )]
    pub log: Option<LogLevel>,
    /// Append log lines to this file, in place of standard error; SIGUSR1 has serve and mount open it again
    #[arg(long, global = true, value_name = "FILE")]
    pub log_file: Option<PathBuf>,
    /// Write log lines in this format
    #[arg(long, global = true, value_name = "FORMAT", default_value = "text")]
    pub log_format: LogFormat,
}

/// Levels of log lines, from few lines to many.
#[allow(missing_docs)] // the names say it
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

/// The format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Text for people
    Text,
    /// One JSON object per line
    Json,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve a scratch directory on loopback, copy a tree in and out over RDMA and TCP, verify every byte
    ///
    /// Needs neither root nor RDMA hardware, takes about ten seconds, and removes the files it made.
    Demo(DemoOptions),
    /// Serve a directory as NFSv3 over RPC/RDMA and TCP until SIGTERM or SIGINT
    ///
    /// Serves this host alone, unless --allow or the configuration names the networks of clients.
    ///
    /// Prints one line `ready nfs-tcp=ADDR:PORT nfs-rdma=ADDR:PORT` when clients can connect. `off` stands for a
    /// transport that does not listen; ` native=ADDR:PORT` follows for the manager of a volume.
    ///
    /// Linux mounts the export with
    /// `mount -t nfs -o vers=3,nolock,proto=tcp,port=2049,mountport=2049,mountproto=tcp HOST:/ /mnt`, or over RDMA with
    /// proto=rdma,port=20049 in place of proto=tcp,port=2049. The NFS ports answer MOUNT; rpcbind is not needed.
    ///
    /// A server that runs as root does each operation with the rights of its caller; root of a client becomes the
    /// anonymous user (65534) unless --no-root-squash is given. A server that runs as another user does every
    /// operation with the rights of that user.
    Serve(ServeOptions),
    /// Mount an export or a volume on a directory until it is unmounted, SIGTERM or SIGINT
    ///
    /// Uses FUSE, as root or, with fusermount3, as any user. Prints one line `mounted URL at DIR` when the mount is
    /// ready; `umount DIR` (or `fusermount3 -u DIR`) ends it.
    ///
    /// The mount keeps writes for a while; they are durable at the server when close(2) or fsync(2) returns. Opening a
    /// file that another client has changed reads its new data. While the server is away, operations wait, and fail
    /// with an I/O error after --timeout; the mount sends earlier writes again when the server is back.
    Mount(MountOptions),
    /// Make, show, extend and check striped volumes; `gannet serve --volume` serves them
    Volume(VolumeOptions),
    /// List directories
    // -h is for sizes, as in ls(1).
    #[command(disable_help_flag = true)]
    Ls(LsOptions),
    /// Write files to standard output
    Cat(CatOptions),
    /// Show the attributes of files
    Stat(StatOptions),
    /// Copy files and trees to, from and between servers
    ///
    /// Copies keep holes, modes (without set-user-ID and set-group-ID) and times of modification. With -r, symbolic
    /// links, FIFOs, sockets and (by root) devices are copied as such, and a summary with the rate follows. When
    /// something cannot be copied, the command copies everything else, lists the failures at the end, and exits with 1.
    ///
    /// A file is written as .gannet-cp-* beside its target and renamed when it is complete, so an existing target stays
    /// whole until then. Symbolic links below the given paths are not followed; one at the target's name is replaced.
    ///
    /// `-` copies standard input to a file on a server, or a file to standard output: `tar c . | gannet cp - URL`.
    ///
    /// A copy survives a restart of the server: it waits, connects again and continues, without a limit unless
    /// --timeout gives one. A server that cannot be reached at the start is an error at once.
    Cp(CpOptions),
    /// Make directories
    Mkdir(MkdirOptions),
    /// Remove files and directories
    ///
    /// With -r, removes several names at a time, and prints a summary with the rate. When something cannot be removed,
    /// the command removes everything else, lists the failures at the end, and exits with 1.
    Rm(RmOptions),
    /// Move or rename files on one server
    Mv(MvOptions),
    /// Show space and inodes
    Df(DfOptions),
    /// Measure a server, or ranks that share a file of a volume (bench tile)
    Bench(BenchOptions),
    /// Diagnose this host or a server, and say how to fix problems
    ///
    /// Each check prints ok, warn (works, but slower or not for every user) or FAIL. The exit status is 1 if a check
    /// failed.
    Doctor(DoctorOptions),
    /// Show the work of a server as it happens: rates, latencies, busy clients, servers of a volume
    ///
    /// Asks the address that `gannet serve --admin ADDR` answers. Half of the operations of a kind took at most the
    /// time in the column `half within`, which is a power of two.
    Top(TopOptions),
    /// List the clients of a server, the busiest first
    ///
    /// Asks the address that `gannet serve --admin ADDR` answers. Counts are those of the last minute.
    Clients(ClientsOptions),
    /// Show operations of a server that took long, as they end, with where their time went
    ///
    /// Asks the address that `gannet serve --admin ADDR` answers. The server notes operations that take the time of
    /// its `--slow` or longer. Clients and paths are shown as far as the address may tell them.
    Trace(TraceOptions),
    /// List the locks and grants that clients of a volume have, and those that wait
    ///
    /// Asks the address that `gannet serve --admin ADDR` answers where the manager runs. The list may be three seconds
    /// old.
    Locks(LocksOptions),
    /// Have a server read its configuration again, as SIGHUP does
    ///
    /// Exports, their networks and their rules change at once; connections and open files stay. The command prints what
    /// has changed, and which settings need a restart. A configuration that cannot be used changes nothing.
    Reload(ReloadOptions),
    /// Decode a packet capture of NFS over iWARP or TCP, a line for each message
    ///
    /// Reads pcap and pcapng, as `tcpdump -w` and Wireshark write them. Recognizes connections by their content and not
    /// by their ports. Decodes MPA, DDP, RDMAP, RPC-over-RDMA, RPC, MOUNT, NFSv3 and NFSACL.
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
    /// Print one JSON object per row
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// Generate the names, sizes and contents of the tree from this seed
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Make the scratch directory in DIR [default: the system's temporary directory]
    #[arg(long, value_name = "DIR")]
    pub scratch: Option<PathBuf>,
}

/// `gannet dump`.
#[derive(Debug, Args)]
pub struct DumpOptions {
    /// The capture; `-` reads standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Print each segment on a line of its own, whole lists, and packets that are not decoded
    #[arg(short, long)]
    pub verbose: bool,
    /// Print one JSON object per message; the last has the counts
    #[arg(long, help_heading = "Output")]
    pub json: bool,
}

/// `gannet doctor`.
#[derive(Debug, Args)]
pub struct DoctorOptions {
    /// Check this server too
    #[arg(value_name = "URL", value_parser = url_parser())]
    pub url: Option<Url>,
    /// Print one JSON object per check
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// Options of the connection.
    #[command(flatten)]
    pub client: ClientOptions,
}

/// `gannet generate`.
#[derive(Debug, Args)]
pub struct GenerateOptions {
    /// The files to generate.
    #[command(subcommand)]
    pub what: GenerateWhat,
}

/// `gannet generate ...`.
#[derive(Debug, Subcommand)]
pub enum GenerateWhat {
    /// Write a man page for each command
    Man {
        /// The directory for the pages
        directory: PathBuf,
    },
    /// Print the completion script of a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write man pages and completions for all shells to `man` and `completions` below a directory
    All {
        /// The directory for both
        directory: PathBuf,
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

/// Parses a time above 0 with its unit.
///
/// # Errors
/// A sentence that says what is wrong.
pub fn parse_time(text: &str) -> Result<Duration, String> {
    let units = [("us", 1e-6), ("ms", 1e-3), ("s", 1.0)];
    let mut found = units.iter().filter_map(|(unit, seconds)| {
        let number: f64 = text.strip_suffix(unit)?.trim_end().parse().ok()?;
        let time = Duration::try_from_secs_f64(number * seconds).ok()?;
        (!time.is_zero()).then_some(time)
    });
    let wrong = || format!("`{text}` is not a time above 0, such as 50ms, 800us or 2s");
    found.next().ok_or_else(wrong)
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
pub(crate) fn usage_failure(
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
