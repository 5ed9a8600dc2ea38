//! The command line of `gannet serve`.

use super::{MemoryOptions, Switch};
use clap::Args;
use gannet::ProviderKind;
use gannet::admin::AdminAddress;
use gannet::volume::{Place, VolumeRole};
use gannet_nfs::server::Network;
use gannet_rpc::Engine;
use gannet_volume::link::TrafficClasses;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;
use thiserror::Error;

/// `gannet serve`.
#[derive(Debug, Args)]
#[allow(rustdoc::broken_intra_doc_links)] // `[::]` in its help is an address.
pub struct ServeOptions {
    /// The directory to export as `/`, in addition to the exports of --config
    #[arg(required_unless_present_any = ["config", "volume", "role"])]
    pub path: Option<PathBuf>,
    /// Export this striped volume as `/` in place of a directory
    ///
    /// Its manager and all of its I/O servers run in this process, unless --role selects some. NFS is off unless
    /// --nfs-tcp, --nfs-rdma or --role nfs is given.
    #[arg(
        long,
        value_name = "PATH",
        conflicts_with = "path",
        help_heading = "Volume"
    )]
    pub volume: Option<PathBuf>,
    /// Listen for NFS over TCP at ADDRESS:PORT, or `off` [default: 127.0.0.1:2049]
    ///
    /// Port 0 picks a free port. The address `[::]` takes IPv4 and IPv6. With --allow the default is 0.0.0.0:2049, or
    /// [::]:2049 if a network is IPv6; with --volume it is off, unless --role nfs is given.
    #[arg(long, value_name = "ADDR", help_heading = "Listening")]
    pub nfs_tcp: Option<Listen>,
    /// Listen for NFS over RDMA at ADDRESS:PORT, or `off` [default: as --nfs-tcp, with port 20049]
    ///
    /// The transport is iWARP: firewalls see a TCP port.
    #[arg(long, value_name = "ADDR", help_heading = "Listening")]
    pub nfs_rdma: Option<Listen>,
    /// Answer an administrator over HTTP at ADDRESS:PORT, or at the path of a Unix socket, which has a `/`
    ///
    /// There are /metrics for Prometheus, /health and /status.json. Only the user of the server can open the Unix
    /// socket. An address that other machines reach needs --admin-allow.
    #[arg(long, value_name = "ADDR", help_heading = "Listening")]
    pub admin: Option<AdminAddress>,
    /// Answer administrators at these addresses or networks too (repeat, or separate by commas) [default: this host
    /// alone]
    #[arg(
        long,
        value_name = "CIDR",
        value_delimiter = ',',
        help_heading = "Listening"
    )]
    pub admin_allow: Vec<Network>,
    /// Log each NFS call that takes TIME or longer, with where its time went; `gannet trace` shows them too
    ///
    /// TIME is a number with us, ms or s. A call takes from its arrival until its whole reply has left. The log gets
    /// 100 lines a second at most.
    #[arg(long, value_name = "TIME", value_parser = super::parse_time, help_heading = "Output")]
    pub slow: Option<Duration>,
    /// Append who mounted, who was refused and who changed what to this file, as lines of JSON [default: none]
    ///
    /// The file is readable by the user of the server alone, and rotated at 64 MiB; SIGUSR1 opens it again. [audit] of
    /// the configuration has its bounds.
    #[arg(long, value_name = "FILE")]
    pub audit_log: Option<PathBuf>,
    /// Refuse every change
    #[arg(long, help_heading = "Access")]
    pub read_only: bool,
    /// Keep root of a client root here, in place of the anonymous user (65534)
    #[arg(long, help_heading = "Access")]
    pub no_root_squash: bool,
    /// Serve NFS to clients at these addresses or networks (repeat, or separate by commas) [default: this host alone]
    ///
    /// Replaces the `clients` of the configuration. 0.0.0.0/0 and ::/0 stand for every client.
    #[arg(
        long,
        value_name = "CIDR",
        value_delimiter = ',',
        help_heading = "Access"
    )]
    pub allow: Vec<Network>,
    /// Serve NFS only to connections from ports below 1024, which only root can open on a client
    ///
    /// RDMA clients of Linux use higher ports and are refused.
    #[arg(long, help_heading = "Access")]
    pub secure: bool,
    /// Take the groups of callers from this host's user database, and not from calls, which carry at most 16
    ///
    /// A user who is unknown here has only the primary group of the call.
    #[arg(long, help_heading = "Access")]
    pub manage_gids: bool,
    /// Read exports, addresses and settings from this file; gannet-serve(1) lists its keys
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Write the ready line to this file too
    #[arg(long, value_name = "FILE")]
    pub ready_file: Option<PathBuf>,
    /// Listen for gannet:// URLs at ADDRESS:PORT, or `off` for this host alone [default: 0.0.0.0:20050]
    ///
    /// The manager listens at this port, and each I/O server at a port of its own of the same address.
    #[arg(
        long,
        value_name = "ADDR",
        requires = "volume",
        conflicts_with = "path",
        help_heading = "Listening"
    )]
    pub native: Option<Listen>,
    /// Run only this server of the volume: `manager`, `io-server=N` or `nfs` (repeat) [default: all]
    ///
    /// `nfs` serves NFS as a client of the active manager, from any host; of the volume's folder it needs volume.toml
    /// and secret. Without that role the process with the manager serves NFS.
    #[arg(
        long,
        value_name = "ROLE",
        requires = "volume",
        conflicts_with = "path",
        help_heading = "Volume"
    )]
    pub role: Vec<VolumeRole>,
    /// Serve I/O server N from an empty folder, once, because its disk is lost for good (repeat)
    ///
    /// The data that files had on the disk cannot be read afterwards. Without this option, an I/O server that has run
    /// before refuses an empty folder, which may be a disk that is not mounted.
    #[arg(
        long,
        value_name = "N",
        requires = "volume",
        conflicts_with = "path",
        help_heading = "Volume"
    )]
    pub lost_disk: Vec<u32>,
    /// Serve metadata from a backup, although I/O servers have seen newer metadata
    ///
    /// Changes made after the backup are lost. The manager does not wait for I/O servers that do not come back.
    #[arg(
        long,
        requires = "volume",
        conflicts_with_all = ["path", "config"],
        help_heading = "Volume"
    )]
    pub force_term: bool,
    /// The address of the manager, for I/O servers that run without it [default: that of volume.toml]
    #[arg(
        long,
        value_name = "HOST:PORT",
        requires = "volume",
        conflicts_with = "path",
        help_heading = "Volume"
    )]
    pub manager: Option<Place>,
    /// Mark IP packets with these DSCPs (0 to 63) [default: those of volume.toml, or 0]
    ///
    /// metadata=N marks connections with the manager at either end, data=N those from I/O servers to clients.
    #[arg(
        long,
        value_name = "metadata=N,data=N",
        requires = "volume",
        conflicts_with = "path",
        help_heading = "Volume"
    )]
    pub dscp: Option<TrafficClasses>,
    /// Serve with N threads [default: one for each core]
    #[arg(long, value_name = "N", help_heading = "Performance")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=256))]
    pub cores: Option<u16>,
    /// Require CRCs on RDMA connections; off uses them when the client asks for them [default: off]
    #[arg(long, value_name = "on|off", help_heading = "RDMA")]
    pub crc: Option<Switch>,
    /// Listen by this provider: iwarp (the software RNIC), verbs (an RDMA device), or auto (both, where there is a
    /// device) [default: iwarp]
    #[arg(long, value_name = "PROVIDER", help_heading = "RDMA")]
    pub provider: Option<ProviderKind>,
    /// Let an RDMA device fetch the pages of transfers when it needs them, in place of pinning them
    #[arg(long, help_heading = "RDMA")]
    pub on_demand_paging: bool,
    /// Keep the key that signs file handles here, so that handles survive a restart [default: see gannet-serve(1)]
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
    /// Reply to creates, removes, renames and attribute changes before they are durable
    ///
    /// Faster; a crash of the host loses the changes of the last seconds.
    #[arg(long, help_heading = "Performance")]
    pub async_metadata: bool,
    /// Let the bytes of long WRITEs (256 KiB and more) leave the page cache once they are on the disk
    ///
    /// Streams then take no memory from other programs; who reads the bytes soon waits for the disk. It needs Linux
    /// 6.14, and ext4 or XFS: other file systems write as before. For directories, not for volumes.
    #[arg(long, help_heading = "Performance")]
    pub uncached_writes: bool,
    /// A former option, which is refused with an explanation.
    #[arg(long, hide = true)]
    pub sync_metadata: bool,
    /// Send READ data by this engine: static, dynamic or sendfile [default: static if short, sendfile if long]
    ///
    /// static copies data to memory that stays registered; dynamic reads it into memory registered for one use;
    /// sendfile sends it from the page cache. For comparisons.
    #[arg(
        long,
        value_name = "ENGINE",
        conflicts_with = "volume",
        help_heading = "RDMA"
    )]
    pub engine: Option<Engine>,
    /// Options of RDMA.
    #[command(flatten)]
    pub memory: MemoryOptions,
}

/// The address of a listener, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listen {
    /// No listener.
    Off,
    /// The address to listen at; port 0 picks a free port.
    At(SocketAddr),
}

/// The text, which is not an address with a port, and not `off`.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{0}` is not ADDRESS:PORT, for example 127.0.0.1:2049, [::]:2049 or :2049")]
pub struct ListenError(pub String);

impl std::str::FromStr for Listen {
    type Err = ListenError;

    fn from_str(text: &str) -> Result<Listen, ListenError> {
        if text == "off" {
            return Ok(Listen::Off);
        }
        let any = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        let with_port = || Some(SocketAddr::new(any, text.strip_prefix(':')?.parse().ok()?));
        text.parse()
            .ok()
            .or_else(with_port)
            .map(Listen::At)
            .ok_or_else(|| ListenError(text.to_owned()))
    }
}
