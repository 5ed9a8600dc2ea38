//! The command line of `gannet serve`.

use super::{MemoryOptions, Switch};
use clap::Args;
use gannet::volume::{Place, VolumeRole};
use gannet_nfs::server::Network;
use gannet_rpc::Engine;
use gannet_volume::link::TrafficClasses;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

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
