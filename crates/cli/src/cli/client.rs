//! Options of the commands that talk to a server.

use super::{Switch, TransferOptions, parse_seconds};
use crate::failure::Failure;
use clap::{Args, ValueEnum};
use gannet_fabric::registration::{Registration, StrategyKind, Trust};
use gannet_rpc::Design;
use gannet_volume::link::TrafficClasses;
use std::path::PathBuf;
use std::time::Duration;

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
