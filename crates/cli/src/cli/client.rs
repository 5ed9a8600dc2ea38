//! Options of the commands that talk to a server.

use super::{Switch, TransferOptions, parse_seconds};
use crate::failure::Failure;
use clap::{Args, ValueEnum};
use gannet::ProviderKind;
use gannet_fabric::registration::{Registration, StrategyKind, Trust};
use gannet_rpc::Design;
use gannet_volume::link::TrafficClasses;
use std::path::PathBuf;
use std::time::Duration;

/// Options of every command that talks to a server.
#[derive(Debug, Clone, Args)]
pub struct ClientOptions {
    /// Options of calls.
    #[command(flatten)]
    pub call: CallOptions,
    /// Options of RDMA.
    #[command(flatten)]
    pub memory: MemoryOptions,
    /// Options of volumes.
    #[command(flatten)]
    pub native: NativeOptions,
    /// Set by `bench` alone.
    #[arg(skip)]
    pub transfers: TransferOptions,
}

/// Options for gannet:// URLs.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Volume (gannet:// URLs)")]
pub struct NativeOptions {
    /// Prove access with this key: the file `client-key` of the volume
    #[arg(
        long,
        value_name = "FILE",
        env = "GANNET_VOLUME_KEY",
        hide_env_values = true
    )]
    pub volume_key: Option<PathBuf>,
    /// Mark IP packets with these DSCPs (0 to 63): metadata=N to the manager, data=N to I/O servers [default: 0]
    #[arg(long, value_name = "metadata=N,data=N")]
    pub dscp: Option<TrafficClasses>,
    /// Read cached blocks from the servers' memory by RDMA Read, without a request: auto, on or off [default: auto]
    ///
    /// `auto` reads so while it saves time, and where a refused read does not end the connection. `bench` takes
    /// several values and measures a row for each.
    #[arg(long, value_name = "auto|on|off", value_delimiter = ',')]
    pub optimistic: Vec<OptimisticSwitch>,
    /// Cache up to SIZE bytes of data for one second, without regard to other writers [default: 0]
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

/// Options of calls to a server.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Connection")]
pub struct CallOptions {
    /// Fail when the server has not replied for this long [default: 30; mount: 60; cp: no limit]
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    pub timeout: Option<Duration>,
    /// Ask for CRCs on RDMA connections (MPA, RFC 5044); a server may require them
    #[arg(
        long,
        value_name = "on|off",
        default_value = "off",
        help_heading = "RDMA"
    )]
    pub crc: Switch,
    /// Connect by this provider: iwarp (the software RNIC), verbs (an RDMA device), or auto (a device if one reaches
    /// the server)
    #[arg(long, value_name = "PROVIDER", default_value_t, help_heading = "RDMA")]
    pub provider: ProviderKind,
    /// Let an RDMA device fetch the pages of transfers when it needs them, in place of pinning them
    #[arg(long, help_heading = "RDMA")]
    pub on_demand_paging: bool,
    /// Call as this user [default: the caller's own]
    #[arg(long, value_name = "UID")]
    pub uid: Option<u32>,
    /// Call as this group [default: the caller's own]
    #[arg(long, value_name = "GID")]
    pub gid: Option<u32>,
}

/// Options of RDMA connections.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "RDMA")]
pub struct MemoryOptions {
    /// Register memory by this strategy: dynamic, fmr, server-cache, client-cache or all-physical
    #[arg(long, value_name = "STRATEGY", default_value_t)]
    pub registration: StrategyKind,
    /// Give the peer one key to all transfer memory, as all-physical registration requires
    #[arg(long)]
    pub trust_peer: bool,
    /// Move READ data by RDMA Write of the server (read-write) or RDMA Read of the client (read-read)
    ///
    /// read-read is for comparisons, and needs client and server to be started with it.
    #[arg(long, value_name = "DESIGN", default_value_t)]
    pub design: Design,
}

impl MemoryOptions {
    /// The registration that the options select.
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
