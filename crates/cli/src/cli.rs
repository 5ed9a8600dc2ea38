//! The command line: one definition gives the parser, the help, the man pages and the shell completions.

mod bench;
mod mount;
mod volume;

pub use bench::{
    BenchOp, BenchOptions, BenchWhat, TileHints, TileHow, TileOp, TileOptions, TransferOptions,
    parse_record,
};

pub use mount::{Locks, MountOptions};
pub use volume::{
    CheckOptions, CreateOptions, ExtendOptions, ListOptions, NewKeyOptions, ShowOptions,
    StripesOptions, VolumeOptions, VolumeWhat,
};

use crate::failure::{Failure, one_line};
use clap::builder::{PathBufValueParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use gannet::url::{Location, Url};
use gannet::volume::{Place, VolumeRole};
use gannet_fabric::registration::{Registration, StrategyKind, Trust};
use gannet_nfs::server::Network;
use gannet_rpc::{Design, Engine};
use gannet_runtime::tokio_plug::available_cores;
use gannet_volume::link::TrafficClasses;
use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
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

/// Options of every command that talks to a server.
#[derive(Debug, Clone, Args)]
pub struct ClientOptions {
    /// Making calls.
    #[command(flatten)]
    pub call: CallOptions,
    /// Registering memory, on RDMA.
    #[command(flatten)]
    pub memory: MemoryOptions,
    /// For gannet:// URLs.
    #[command(flatten)]
    pub native: NativeOptions,
    /// Of `bench` alone.
    #[arg(skip)]
    pub transfers: TransferOptions,
}

/// What clients of volumes need to know.
#[derive(Debug, Clone, Default, Args)]
pub struct NativeOptions {
    /// The key of the volume that gannet:// URLs name: its `client-key`
    #[arg(
        long,
        value_name = "FILE",
        env = "GANNET_VOLUME_KEY",
        hide_env_values = true
    )]
    pub volume_key: Option<PathBuf>,
    /// gannet://: mark what is sent with these DSCPs, 0 to 63, for networks that sort traffic: metadata=N to the
    /// manager, data=N to I/O servers [default: 0]
    #[arg(long, value_name = "metadata=N,data=N")]
    pub dscp: Option<TrafficClasses>,
    /// gannet://: read out of the servers' memory without asking: auto, on or off [default: auto, which does it
    /// where connections survive it and as long as it pays]; bench takes several and makes several rows
    #[arg(long, value_name = "auto|on|off", value_delimiter = ',')]
    pub optimistic: Vec<OptimisticSwitch>,
    /// gannet://: keep up to so many bytes of what was read, to read it again within a second, whatever others write
    /// [default: 0]
    #[arg(long, value_name = "SIZE", value_parser = crate::size::parse, default_value = "0", hide_default_value = true)]
    pub read_cache: u64,
}

/// `--optimistic`.
#[allow(missing_docs)] // the names say it
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Default)]
pub enum OptimisticSwitch {
    #[default]
    Auto,
    On,
    Off,
}

impl OptimisticSwitch {
    /// Its name on the command line and in tables.
    pub fn name(self) -> &'static str {
        match self {
            OptimisticSwitch::Auto => "auto",
            OptimisticSwitch::On => "on",
            OptimisticSwitch::Off => "off",
        }
    }
}

/// How calls are made, and by whom.
#[derive(Debug, Clone, Args)]
pub struct CallOptions {
    /// Give up when the server has not answered for so many seconds [default: 30, mount: 60; cp waits for
    /// ever]
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    pub timeout: Option<Duration>,
    /// Ask for MPA CRCs on RDMA connections; the server may insist on its own
    #[arg(long, value_name = "on|off", default_value = "off")]
    pub crc: Switch,
    /// Call as this user [default: the caller's own]
    #[arg(long, value_name = "UID")]
    pub uid: Option<u32>,
    /// Call as this group [default: the caller's own]
    #[arg(long, value_name = "GID")]
    pub gid: Option<u32>,
}

/// How memory is registered.
#[derive(Debug, Clone, Default, Args)]
pub struct MemoryOptions {
    /// How memory is registered on RDMA connections: dynamic, fmr, server-cache, client-cache or all-physical
    #[arg(long, value_name = "STRATEGY", default_value_t)]
    pub registration: StrategyKind,
    /// Trust the other side with one key to all transfer memory, as all-physical registration does
    #[arg(long)]
    pub trust_peer: bool,
    /// Which end moves bulk results on RDMA connections: read-write (the server writes them), or read-read (the server
    /// exposes them and the client reads) where client and server are both started with it; for comparison
    #[arg(long, value_name = "DESIGN", default_value_t)]
    pub design: Design,
}

impl MemoryOptions {
    /// What the options come to.
    ///
    /// # Errors
    /// All-physical registration without trust.
    pub fn registration(&self) -> Result<Registration, Failure> {
        let trust = if self.trust_peer {
            Trust::Trusted
        } else {
            Trust::Untrusted
        };
        Registration::new(self.registration, trust).map_err(|error| {
            Failure::usage("--registration all-physical is refused", error)
                .hint("add --trust-peer if you do trust it, or use another strategy")
        })
    }
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

/// `gannet serve`.
#[derive(Debug, Args)]
#[allow(rustdoc::broken_intra_doc_links)] // `[::]` in its help is an address.
pub struct ServeOptions {
    /// The directory to export as `/`; with --config it may be left out, or comes on top of the file's exports
    #[arg(required_unless_present_any = ["config", "volume", "role"])]
    pub path: Option<PathBuf>,
    /// Export this striped volume as `/` in place of a directory: its manager and its I/O servers run in this process,
    /// unless --role says which do. Its NFS is off unless --nfs-tcp or --nfs-rdma is given
    #[arg(long, value_name = "PATH", conflicts_with = "path")]
    pub volume: Option<PathBuf>,
    /// Listen here for NFS over TCP: ADDRESS:PORT or `off`; port 0 picks a free one, and the address `[::]` takes IPv4
    /// and IPv6 [default: 127.0.0.1:2049; with --allow 0.0.0.0:2049, or [::]:2049 if it names IPv6; off with --volume]
    #[arg(long, value_name = "ADDR")]
    pub nfs_tcp: Option<Listen>,
    /// Listen here for NFS over RDMA, as above; it is iWARP, and so a TCP port to firewalls [default: as above,
    /// with port 20049]
    #[arg(long, value_name = "ADDR")]
    pub nfs_rdma: Option<Listen>,
    /// Refuse everything that changes files
    #[arg(long)]
    pub read_only: bool,
    /// Let root of a client be root here; without it, root becomes the anonymous user
    #[arg(long)]
    pub no_root_squash: bool,
    /// Serve NFS to clients at these addresses or networks (repeat, or separate by commas), in place of the `clients`
    /// of the configuration; 0.0.0.0/0 and ::/0 are everybody [default: this machine alone]
    #[arg(long, value_name = "CIDR", value_delimiter = ',')]
    pub allow: Vec<Network>,
    /// Serve NFS to connections from ports below 1024 alone, which take root on the client. RDMA clients of Linux have
    /// others
    #[arg(long)]
    pub secure: bool,
    /// Look the groups of callers up here, in place of those that their calls carry, which are sixteen at most. A user
    /// that is not known here has none but that of the call
    #[arg(long)]
    pub manage_gids: bool,
    /// Read exports, addresses and settings from this file; gannet-serve(1) shows all it may say
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Write the ready line to this file too, once clients can connect
    #[arg(long, value_name = "FILE")]
    pub ready_file: Option<PathBuf>,
    /// Listen here for the native protocol of the volume, by which gannet:// URLs reach it; `off` for this host
    /// alone. The manager listens here, and I/O servers at the same address on ports of their own [default:
    /// 0.0.0.0:20050]
    #[arg(
        long,
        value_name = "ADDR",
        requires = "volume",
        conflicts_with = "path"
    )]
    pub native: Option<Listen>,
    /// Run only this server of the volume in this process: `manager`, or `io-server=N` (repeat). NFS is served where
    /// the manager runs [default: all]
    #[arg(
        long,
        value_name = "ROLE",
        requires = "volume",
        conflicts_with = "path"
    )]
    pub role: Vec<VolumeRole>,
    /// The disk of this I/O server is lost for good: serve its empty folder, once (repeat). What files had there
    /// cannot be read from then on. Without this an empty folder is refused where the server was served before
    #[arg(long, value_name = "N", requires = "volume", conflicts_with = "path")]
    pub lost_disk: Vec<u32>,
    /// Serve the volume's metadata though I/O servers know of newer ones, and do not wait for I/O servers that are gone
    /// for good. For a backup that was put back: what was done since it was made is given up
    #[arg(long, requires = "volume", conflicts_with_all = ["path", "config"])]
    pub force_term: bool,
    /// Where I/O servers that run without the manager find it [default: what volume.toml says]
    #[arg(
        long,
        value_name = "HOST:PORT",
        requires = "volume",
        conflicts_with = "path"
    )]
    pub manager: Option<Place>,
    /// Mark what the volume's servers send with these DSCPs, 0 to 63, for networks that sort traffic: metadata=N where
    /// the manager is at either end, data=N from I/O servers to clients [default: what volume.toml says, or 0]
    #[arg(
        long,
        value_name = "metadata=N,data=N",
        requires = "volume",
        conflicts_with = "path"
    )]
    pub dscp: Option<TrafficClasses>,
    /// How many threads serve [default: one per core of this machine]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub cores: Option<u16>,
    /// Insist on CRCs on RDMA connections; off uses them when the client asks [default: off]
    #[arg(long, value_name = "on|off")]
    pub crc: Option<Switch>,
    /// Where to keep the key that signs file handles; without it they are stale after a restart [default: see
    /// gannet-serve(1)]
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
    /// Answer creates, removes, renames and attribute changes before they are durable: faster, but a crash of the
    /// machine loses the last seconds of them
    #[arg(long)]
    pub async_metadata: bool,
    /// The default now; refused with a word on that.
    #[arg(long, hide = true)]
    pub sync_metadata: bool,
    /// How files leave on RDMA connections: static (copied to memory that stays registered), dynamic (read to memory
    /// that is registered for one use), or sendfile (taken from the page cache); for comparison [default: static for
    /// short READs, sendfile for others]
    #[arg(long, value_name = "ENGINE", conflicts_with = "volume")]
    pub engine: Option<Engine>,
    /// Registering memory, on RDMA.
    #[command(flatten)]
    pub memory: MemoryOptions,
}

/// `gannet ls`.
#[derive(Debug, Args)]
pub struct LsOptions {
    /// What to list
    #[arg(required = true, value_name = "URL", value_parser = url_parser())]
    pub urls: Vec<Url>,
    /// Show type, mode, links, owner, group, size and time of modification (UTC)
    ///
    /// Owners and groups have their names on this host, or numbers if they have none here.
    #[arg(short, long)]
    pub long: bool,
    /// As -l, with the numbers of owners and groups
    #[arg(short, long)]
    pub numeric_ids: bool,
    /// With -l, show sizes in KiB, MiB and so on
    #[arg(short, long)]
    pub human_readable: bool,
    /// Sort by time of modification, newest first
    #[arg(short = 't', long, overrides_with = "sort_by_size")]
    pub sort_by_time: bool,
    /// Sort by size, largest first
    #[arg(short = 'S', long, overrides_with = "sort_by_time")]
    pub sort_by_size: bool,
    /// Reverse the order
    #[arg(short, long)]
    pub reverse: bool,
    /// Names that start with a dot too
    #[arg(short, long)]
    pub all: bool,
    /// Directories below too
    #[arg(short = 'R', long)]
    pub recursive: bool,
    /// One JSON object per entry
    #[arg(long)]
    pub json: bool,
    /// Print help
    #[arg(long, action = ArgAction::Help)]
    pub help: Option<bool>,
    /// Talking to the server.
    #[command(flatten)]
    pub client: ClientOptions,
}

impl LsOptions {
    /// Whether more than names is shown.
    pub fn is_long(&self) -> bool {
        self.long || self.numeric_ids
    }
}

/// `gannet cat`.
#[derive(Debug, Args)]
pub struct CatOptions {
    /// What to write out
    #[arg(required = true, value_name = "URL", value_parser = url_parser())]
    pub urls: Vec<Url>,
    /// Talking to the server.
    #[command(flatten)]
    pub client: ClientOptions,
}

/// `gannet stat`.
#[derive(Debug, Args)]
pub struct StatOptions {
    /// What to look at
    #[arg(required = true, value_name = "URL", value_parser = url_parser())]
    pub urls: Vec<Url>,
    /// One JSON object per file
    #[arg(long)]
    pub json: bool,
    /// Talking to the server.
    #[command(flatten)]
    pub client: ClientOptions,
}

/// `gannet cp`.
#[derive(Debug, Args)]
pub struct CpOptions {
    /// What to copy: URLs or local paths
    #[arg(required = true, value_name = "SOURCE", value_parser = location_parser())]
    pub sources: Vec<Location>,
    /// Where to: a URL or a local path; into it, if it is a directory
    #[arg(value_name = "TARGET", value_parser = location_parser())]
    pub target: Location,
    /// Directories with everything in them
    #[arg(short, long, visible_short_alias = 'R')]
    pub recursive: bool,
    /// Read everything back and compare every byte with the source
    #[arg(long)]
    pub verify: bool,
    /// Files under way at a time, and parts of one file
    #[arg(short, long, value_name = "N", default_value_t = 16)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=256))]
    pub jobs: u16,
    /// No progress on a terminal, and no line at the end
    #[arg(short, long)]
    pub quiet: bool,
    /// Talking to the server.
    #[command(flatten)]
    pub client: ClientOptions,
}

/// `gannet mkdir`.
#[derive(Debug, Args)]
pub struct MkdirOptions {
    /// What to make
    #[arg(required = true, value_name = "URL", value_parser = url_parser())]
    pub urls: Vec<Url>,
    /// Make what is missing above too, and do not mind what exists
    #[arg(short, long)]
    pub parents: bool,
    /// Talking to the server.
    #[command(flatten)]
    pub client: ClientOptions,
}

/// `gannet rm`.
#[derive(Debug, Args)]
pub struct RmOptions {
    /// What to remove
    #[arg(required = true, value_name = "URL", value_parser = url_parser())]
    pub urls: Vec<Url>,
    /// Directories with everything in them
    #[arg(short, long, visible_short_alias = 'R')]
    pub recursive: bool,
    /// Do not mind what does not exist
    #[arg(short, long)]
    pub force: bool,
    /// Names that are removed at a time, with -r
    #[arg(short, long, value_name = "N", default_value_t = 16)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=256))]
    pub jobs: u16,
    /// With -r: no progress on a terminal, and no line at the end
    #[arg(short, long)]
    pub quiet: bool,
    /// Talking to the server.
    #[command(flatten)]
    pub client: ClientOptions,
}

/// `gannet mv`.
#[derive(Debug, Args)]
pub struct MvOptions {
    /// What to move
    #[arg(required = true, value_name = "SOURCE", value_parser = url_parser())]
    pub sources: Vec<Url>,
    /// Where to, on the same server; into it, if it is a directory
    #[arg(value_name = "TARGET", value_parser = url_parser())]
    pub target: Url,
    /// Talking to the server.
    #[command(flatten)]
    pub client: ClientOptions,
}

/// `gannet df`.
#[derive(Debug, Args)]
pub struct DfOptions {
    /// Where to look
    #[arg(required = true, value_name = "URL", value_parser = url_parser())]
    pub urls: Vec<Url>,
    /// One JSON object per file system
    #[arg(long)]
    pub json: bool,
    /// Talking to the server.
    #[command(flatten)]
    pub client: ClientOptions,
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

/// Where to listen: an address, or not at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listen {
    /// Not at all.
    Off,
    /// Here; port 0 picks a free one.
    At(SocketAddr),
}

impl std::str::FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Listen, String> {
        if text == "off" {
            return Ok(Listen::Off);
        }
        let any = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        let with_port = || Some(SocketAddr::new(any, text.strip_prefix(':')?.parse().ok()?));
        text.parse()
            .ok()
            .or_else(with_port)
            .map(Listen::At)
            .ok_or_else(|| {
                format!(
                    "`{text}` is not ADDRESS:PORT, for example 127.0.0.1:2049, [::]:2049 or :2049"
                )
            })
    }
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
