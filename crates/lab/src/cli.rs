//! The command line: one definition gives the parser and the help.

mod peers;

use crate::papers::Paper;
use crate::profiles;
use clap::builder::TypedValueParser;
use clap::{Args, Parser, Subcommand, ValueEnum};
use gannet::ProviderKind;
use gannet::url::{Scheme, Url};
use gannet_cli::cli::{
    AdminPlace, CallOptions, LogOptions, NativeOptions, PollOptions, parse_record, parse_seconds,
};
use gannet_cli::size;
use gannet_datapath::Engine;
use gannet_fabric::registration::StrategyKind;
use gannet_rpc::Design;
use gannet_sim::nic::Profile;
pub use peers::{PeerDirectory, PeerPid, PeerServer, PeersOptions};
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

/// The laboratory of Gannet: published experiments, simulated testbeds, and benchmarks of its parts.
#[derive(Debug, Parser)]
#[command(
    name = "gannet-lab",
    version,
    max_term_width = 100,
    disable_help_subcommand = true
)]
#[command(after_help = "Exit status: 0 done, 1 failed, 2 wrong usage.")]
pub struct Arguments {
    /// The command to run.
    #[command(subcommand)]
    pub command: Command,
    /// Options of the log.
    #[command(flatten)]
    pub logs: LogOptions,
    /// Options of waiting threads.
    #[command(flatten)]
    pub poll: PollOptions,
}

/// The commands of `gannet-lab`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Measure the fabric itself, strategies of registration, servers beside each other, or servers and simulated
    /// testbeds as IOzone does
    Bench(BenchOptions),
    /// Run a paper's experiments on its simulated testbeds and compare with what it published
    ///
    /// The exit status is 0 whatever the numbers are: each row shows whether its number is within 15 % of the published
    /// one.
    Papers(PapersOptions),
}

/// `gannet-lab bench`.
#[derive(Debug, Args)]
pub struct BenchOptions {
    /// The benchmark to run.
    #[command(subcommand)]
    pub what: BenchWhat,
}

/// `gannet-lab bench ...`.
#[derive(Debug, Subcommand)]
pub enum BenchWhat {
    /// Measure the software RNIC, or an RDMA device, next to a plain TCP socket
    ///
    /// Both ends are threads of this process, connected over loopback or through the device. Rows of bulk operations
    /// compare rates with the socket's, rows of messages compare times. On a device, the rows are those of its own
    /// benchmarks and of two papers: RDMA Write and Read of three sizes, the time of a Read and of a message, and half
    /// the time of a round trip with and without the registration of its memory.
    Fabric(FabricOptions),
    /// Measure what the public interface (`gannet::Client`) costs beside the core of a connection, over RDMA on
    /// loopback
    Interface(InterfaceOptions),
    /// Measure as IOzone's throughput mode does, on servers, on this machine, and on simulated testbeds
    ///
    /// Each thread writes and reads a file of its own, one record at a time. All threads start together, and the rate
    /// counts the bytes that they moved until the first thread finished (IOzone's rule). I/O is direct: Gannet's client
    /// has no cache. Writes are unstable, and each thread ends with a COMMIT, whose time counts; --sync makes each
    /// write durable by itself.
    ///
    /// TARGET is a URL of a directory; `local` or `local:tcp` (a scratch directory, served by this process over RDMA or
    /// TCP on loopback); or `profile:NAME` or `profile:NAME:tcp`, a simulated testbed of a paper. Testbeds measure
    /// virtual time. Their files have 64 MiB at most, threads start again at the first record when they reach the end,
    /// and rewrite and reread do the same as write and read.
    ///
    /// With --json, `breakdown_us` splits the time of an operation into its parts, for the client and the server. A
    /// server of another process tells its own at --server-admin.
    Iozone(Box<IozoneOptions>),
    /// Measure NFS servers and volumes of any make beside each other, by the same client
    ///
    /// Each server gets a name: `gannet-lab bench peers gannet=nfs://127.0.0.1:2049/ other=nfs://127.0.0.1:2050/export`.
    /// nfs+rdma:// and gannet:// are measured the same way. In each round, all servers take turns forwards and then
    /// backwards (A B B A). Files are read once before they are measured, and each sample of creates has a directory of
    /// its own. The connections share one thread of this process.
    ///
    /// A row has the median of the rounds, the latencies of all operations, and the processor time of an operation of
    /// this process, and of the server with --pid. The ratio is that to the first server: the median of the rounds'
    /// ratios, and the interval that holds it with 95 % (the range of all rounds, if they are fewer than nine). A cell
    /// that a server cannot do is a row that says why.
    ///
    /// Give the same server twice to see what the machine's noise alone does.
    Peers(Box<PeersOptions>),
    /// Measure what registering memory costs: each strategy on the software RNIC or an RDMA device, and the kernel's
    /// mlock beside it
    ///
    /// Rows of a reach register and release memory. Rows of a design move it too: data goes to the memory of a client
    /// by RDMA Write of the server (read-write), or by RDMA Read of the client (read-read), and both ends register by
    /// the strategy.
    Registration(RegistrationOptions),
    /// Measure files that are sent by one call, with each engine: on the software RNIC over loopback, or on simulated
    /// testbeds
    ///
    /// Each connection writes a file of the page cache to the memory of a client. --pipes is the number of pieces under
    /// way, and --depth the bytes of a piece. On this machine, server and client have a thread each, a repeat ends when
    /// the clients have all bytes, and the processor time is that of the server's thread. With --profile, virtual time
    /// is measured, and every run gives the same numbers.
    ///
    /// Each row shows the median and the interval that holds it (the range of all repeats, if they are fewer than
    /// nine). Memory is the most that the pieces under way of one connection took. Copies count how often the sender,
    /// not its provider, copies the bytes of the file. The engine *dynamic* has one piece under way, whatever --pipes
    /// is.
    Serving(ServingOptions),
}

/// The provider that a benchmark measures.
#[derive(Debug, Clone, Args)]
pub struct MeasuredOptions {
    /// Measure this provider: iwarp (the software RNIC, on loopback) or verbs (the RDMA device of --device)
    #[arg(
        long,
        value_name = "PROVIDER",
        default_value = "iwarp",
        value_parser = measured_parser(),
        requires_if("verbs", "device")
    )]
    pub provider: ProviderKind,
    /// Address of the device's network interface, for --provider verbs
    #[arg(long, value_name = "ADDRESS")]
    pub device: Option<IpAddr>,
}

/// `gannet-lab bench fabric`.
#[derive(Debug, Clone, Args)]
pub struct FabricOptions {
    /// The provider.
    #[command(flatten)]
    pub measured: MeasuredOptions,
    /// Bytes of each side's memory, which bulk operations go through in turn; whole mebibytes, at most 1G
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = parse_memory)]
    pub memory: u64,
    /// One JSON object per row
    #[arg(long)]
    pub json: bool,
    /// Time per row
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = parse_seconds)]
    pub seconds: Duration,
}

/// `gannet-lab bench interface`.
#[derive(Debug, Clone, Args)]
pub struct InterfaceOptions {
    /// One JSON object per row
    #[arg(long)]
    pub json: bool,
    /// Number of sample groups per row; a group is an inner, a public and an inner sample
    #[arg(long, value_name = "N", default_value = "15", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub threes: u16,
    /// Duration of a sample
    #[arg(long, value_name = "SECONDS", default_value = "0.2", value_parser = parse_seconds)]
    pub sample: Duration,
    /// Directory of the file that is read [default: the system's temporary directory]
    #[arg(long, value_name = "DIR")]
    pub scratch: Option<PathBuf>,
}

/// `gannet-lab bench iozone`.
#[derive(Debug, Clone, Args)]
pub struct IozoneOptions {
    /// Target to measure: URL, `local`, `local:tcp`, `profile:NAME` or `profile:NAME:tcp`
    #[arg(required = true, value_name = "TARGET", value_parser = target_parser())]
    pub targets: Vec<BenchTarget>,
    /// Number of concurrent threads, one file each; several numbers make several rows
    #[arg(
        long,
        value_name = "N,..",
        value_delimiter = ',',
        default_value = "1,2,4,8"
    )]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=256))]
    pub threads: Vec<u16>,
    /// Bytes per operation, at most 1M, or 64M on a volume; several sizes make several rows
    #[arg(
        long,
        value_name = "SIZE,..",
        value_delimiter = ',',
        default_value = "4K,128K,1M"
    )]
    #[arg(value_parser = parse_record)]
    pub record: Vec<u64>,
    /// Bytes of each thread's file, at least one record
    #[arg(long, value_name = "SIZE", default_value = "128M", value_parser = size::parse_nonzero)]
    pub size: u64,
    /// Operations to measure; several make several rows, always in this order
    #[arg(
        long,
        value_name = "OP,..",
        value_delimiter = ',',
        default_value = "write,rewrite,read,reread,randread,randwrite"
    )]
    pub op: Vec<IozoneOp>,
    /// Strategy of memory registration over RDMA: dynamic, fmr, server-cache, client-cache or all-physical. It holds
    /// for the client, and for the server too unless the target is a URL. Several strategies make several rows
    #[arg(
        long,
        value_name = "STRATEGY,..",
        value_delimiter = ',',
        default_value = "dynamic"
    )]
    pub registration: Vec<StrategyKind>,
    /// Strategy of the server in place of --registration; not for URLs
    #[arg(long, value_name = "STRATEGY")]
    pub server_registration: Option<StrategyKind>,
    /// End that moves the data of READ over RDMA: the server (read-write) or the client (read-read). Several designs
    /// make several rows
    #[arg(
        long,
        value_name = "DESIGN,..",
        value_delimiter = ',',
        default_value = "read-write"
    )]
    pub design: Vec<Design>,
    /// Trust the peer with one key to all transfer memory, as all-physical registration does
    #[arg(long)]
    pub trust_peer: bool,
    /// Number of client machines, each with --threads threads; for simulated testbeds only
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=16))]
    pub clients: u16,
    /// Run the threads on another machine: the command that starts gannet-lab there, such as `ssh HOST gannet-lab`.
    /// Several commands make several machines, and each operation starts on all of them at once. The rates are summed
    /// up; each counts until the first thread of its machine finishes
    #[arg(long, value_name = "COMMAND")]
    pub host: Vec<String>,
    /// Number of repeats of each measurement; the repeat in the middle is reported
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=100))]
    pub repeats: u16,
    /// Wait for a line before each operation, for the programs that --host starts
    #[arg(long, hide = true)]
    pub gate: bool,
    /// Virtual time per row on simulated testbeds
    #[arg(long, value_name = "SECONDS", default_value = "0.1", value_parser = parse_simulated)]
    pub simulated_time: Duration,
    /// Make every write durable before its reply
    #[arg(long)]
    pub sync: bool,
    /// Measure the processor time of process PID too, which is the server of the URL on this machine
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pub server_pid: Option<u32>,
    /// Admin address of the server, which must have --slow: `breakdown_us` has its parts too
    #[arg(long, value_name = "ADDR")]
    pub server_admin: Option<AdminPlace>,
    /// Parent of the scratch directory of `local` [default: the system's temporary directory]
    #[arg(long, value_name = "DIR")]
    pub scratch: Option<PathBuf>,
    /// One JSON object per row
    #[arg(long)]
    pub json: bool,
    /// Draw a chart of the rates and of the parts of the time into this file
    #[arg(long, value_name = "FILE.svg")]
    pub chart: Option<PathBuf>,
    /// Options of gannet:// URLs.
    #[command(flatten)]
    pub native: NativeOptions,
    /// Options of calls to servers.
    #[command(flatten)]
    pub call: CallOptions,
}

/// The operations that `gannet-lab bench iozone` measures, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum IozoneOp {
    /// Write a new file from its start to its end.
    Write,
    /// Write over an existing file.
    Rewrite,
    /// Read a file from its start to its end.
    Read,
    /// Read the file from its start to its end again.
    Reread,
    /// Read records at random places, as many as the file has.
    Randread,
    /// Write records at random places.
    Randwrite,
}

impl IozoneOp {
    /// Whether data goes to the server.
    pub fn is_write(self) -> bool {
        matches!(
            self,
            IozoneOp::Write | IozoneOp::Rewrite | IozoneOp::Randwrite
        )
    }

    /// Whether records are taken at random.
    pub fn is_random(self) -> bool {
        matches!(self, IozoneOp::Randread | IozoneOp::Randwrite)
    }

    /// Its name on the command line and in tables.
    pub fn name(self) -> &'static str {
        match self {
            IozoneOp::Write => "write",
            IozoneOp::Rewrite => "rewrite",
            IozoneOp::Read => "read",
            IozoneOp::Reread => "reread",
            IozoneOp::Randread => "randread",
            IozoneOp::Randwrite => "randwrite",
        }
    }
}

/// A target of `gannet-lab bench iozone`.
#[derive(Debug, Clone)]
pub enum BenchTarget {
    /// A directory of a server.
    Url(Url),
    /// A scratch directory, served by this process on loopback.
    Local(Scheme),
    /// A simulated testbed.
    Profile(&'static Profile, Scheme),
}

impl BenchTarget {
    /// The transport of the calls.
    pub fn scheme(&self) -> Scheme {
        match self {
            BenchTarget::Url(url) => url.scheme,
            BenchTarget::Local(scheme) | BenchTarget::Profile(_, scheme) => *scheme,
        }
    }

    /// Parses a URL, `local[:tcp]` or `profile:NAME[:tcp]`.
    ///
    /// # Errors
    /// A sentence that names the wrong part, for the user.
    pub fn parse(text: &str) -> Result<BenchTarget, String> {
        if text.contains("://") {
            return Url::parse(text)
                .map(BenchTarget::Url)
                .map_err(|error| error.to_string());
        }
        let (place, scheme) = match text.strip_suffix(":tcp") {
            Some(place) => (place, Scheme::Tcp),
            None => (text, Scheme::Rdma),
        };
        if place == "local" {
            return Ok(BenchTarget::Local(scheme));
        }
        let Some(name) = place.strip_prefix("profile:") else {
            return Err(format!(
                "`{text}` is not nfs://..., nfs+rdma://..., local, local:tcp or profile:NAME"
            ));
        };
        profile_named(name).map(|profile| BenchTarget::Profile(profile, scheme))
    }
}

impl std::fmt::Display for BenchTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            BenchTarget::Url(url) => return url.fmt(f),
            BenchTarget::Local(_) => f.write_str("local")?,
            BenchTarget::Profile(profile, _) => write!(f, "profile:{}", profile.name)?,
        }
        f.write_str(if self.scheme() == Scheme::Tcp {
            ":tcp"
        } else {
            ""
        })
    }
}

/// `gannet-lab bench registration`.
#[derive(Debug, Clone, Args)]
pub struct RegistrationOptions {
    /// The provider.
    #[command(flatten)]
    pub measured: MeasuredOptions,
    /// One JSON object per row
    #[arg(long)]
    pub json: bool,
    /// Time per row
    #[arg(long, value_name = "SECONDS", default_value = "0.2", value_parser = parse_seconds)]
    pub seconds: Duration,
}

/// `gannet-lab bench serving`.
#[derive(Debug, Clone, Args)]
pub struct ServingOptions {
    /// Engine that sends the bytes: static, dynamic, pipelined or sendfile; several engines make several rows
    #[arg(
        long,
        value_name = "ENGINE,..",
        value_delimiter = ',',
        default_value = "static,dynamic,pipelined,sendfile"
    )]
    pub engine: Vec<Engine>,
    /// Number of pieces under way for each connection; several numbers make several rows
    #[arg(
        long,
        value_name = "N,..",
        value_delimiter = ',',
        default_value = "1,2,4,6"
    )]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=256))]
    pub pipes: Vec<u16>,
    /// Bytes of a piece, at most 64M; several sizes make several rows
    #[arg(
        long,
        value_name = "SIZE,..",
        value_delimiter = ',',
        default_value = "16K,64K,256K,1M"
    )]
    #[arg(value_parser = parse_depth)]
    pub depth: Vec<u64>,
    /// Bytes of the file that each connection sends, at most 1G
    #[arg(long, value_name = "SIZE", default_value = "16M", value_parser = parse_sent)]
    pub size: u64,
    /// Number of connections at a time; several numbers make several rows
    #[arg(
        long,
        value_name = "N,..",
        value_delimiter = ',',
        default_value = "1,8,64"
    )]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub connections: Vec<u16>,
    /// Simulated testbeds to measure, in place of this machine; a testbed without an engine is left out with a warning
    #[arg(long, value_name = "NAME,..", value_delimiter = ',', value_parser = profile_parser())]
    pub profile: Vec<&'static Profile>,
    /// Ask for a CRC over every FPDU of the software RNIC
    #[arg(long)]
    pub crc: bool,
    /// Number of samples of a row
    #[arg(long, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub repeats: u16,
    /// One JSON object per row
    #[arg(long)]
    pub json: bool,
}

/// `gannet-lab papers`.
#[derive(Debug, Args)]
pub struct PapersOptions {
    /// Paper to run
    #[arg(default_value = "all")]
    pub paper: Papers,
    /// One JSON object per row; the summary goes to standard error
    #[arg(long)]
    pub json: bool,
    /// Write the figures (SVG) and the table (Markdown) into this directory, as docs/papers has them
    #[arg(long, value_name = "DIR")]
    pub charts: Option<PathBuf>,
    /// Print nothing, and fail unless this directory has the figures and tables that would be written now
    ///
    /// The effects of single constants are not computed: the sensitivity of rows and the excluded levels are taken from
    /// the pages. --sensitivity checks those too.
    #[arg(long, value_name = "DIR", num_args = 0..=1, require_equals = true, default_missing_value = "docs/papers",
        conflicts_with_all = ["charts", "json"])]
    pub check: Option<PathBuf>,
    /// With --check, halve and double each constant again too: about sixty more runs for each paper
    #[arg(long, requires = "check")]
    pub sensitivity: bool,
}

/// One paper or all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Papers {
    /// All papers, one after the other
    All,
    /// NFS over RDMA and its registration strategies (2007)
    NfsRdma,
    /// NFS over InfiniBand and iWARP (2007)
    Sandia,
    /// PVFS over InfiniBand (2003)
    PvfsIb,
    /// Serving file data with RDMA: static, dynamic, pipelined and sendfile (2007)
    Sendfile,
    /// Optimistic one-sided reads (2002)
    Odafs,
}

impl Papers {
    /// The papers that the word names.
    pub fn papers(self) -> &'static [Paper] {
        match self {
            Papers::All => &Paper::ALL,
            Papers::NfsRdma => &[Paper::NfsRdma],
            Papers::Sandia => &[Paper::Sandia],
            Papers::PvfsIb => &[Paper::PvfsIb],
            Papers::Sendfile => &[Paper::Sendfile],
            Papers::Odafs => &[Paper::Odafs],
        }
    }
}

/// Parses a provider that has both ends on this machine.
fn measured_parser() -> impl TypedValueParser<Value = ProviderKind> {
    clap::builder::NonEmptyStringValueParser::new().try_map(|text| match text.as_str() {
        "iwarp" => Ok(ProviderKind::Iwarp),
        "verbs" => Ok(ProviderKind::Verbs),
        _ => Err("use iwarp or verbs"),
    })
}

/// Parses a number of whole mebibytes.
fn parse_memory(text: &str) -> Result<u64, String> {
    match parse_up_to(text, 1 << 30)? {
        size if size % (1 << 20) != 0 => Err(format!("`{text}`: use whole mebibytes")),
        size => Ok(size),
    }
}

fn parse_depth(text: &str) -> Result<u64, String> {
    parse_up_to(text, 64 << 20)
}

fn parse_sent(text: &str) -> Result<u64, String> {
    parse_up_to(text, 1 << 30)
}

fn parse_up_to(text: &str, max: u64) -> Result<u64, String> {
    match size::parse_nonzero(text)? {
        size if size > max => Err(format!("`{text}`: at most {}", size::human(max))),
        size => Ok(size),
    }
}

fn profile_named(name: &str) -> Result<&'static Profile, String> {
    let profile = profiles::ALL.iter().find(|profile| profile.name == name);
    profile.copied().ok_or_else(|| {
        let names: Vec<&str> = profiles::ALL.iter().map(|profile| profile.name).collect();
        format!(
            "no profile is called `{name}`: there are {}",
            names.join(", ")
        )
    })
}

fn profile_parser() -> impl TypedValueParser<Value = &'static Profile> {
    clap::builder::NonEmptyStringValueParser::new().try_map(|text| profile_named(&text))
}

fn parse_simulated(text: &str) -> Result<Duration, String> {
    let max = Duration::from_secs(10);
    match parse_seconds(text)? {
        time if time > max => Err(format!(
            "`{text}`: simulate at most {} s per row",
            max.as_secs()
        )),
        time if time < Duration::from_millis(1) => {
            Err(format!("`{text}`: simulate at least 0.001 s per row"))
        }
        time => Ok(time),
    }
}

fn target_parser() -> impl TypedValueParser<Value = BenchTarget> {
    clap::builder::NonEmptyStringValueParser::new().try_map(|text| BenchTarget::parse(&text))
}
