//! Options of connections.

#[cfg(feature = "volumes")]
use crate::ClientKey;
use crate::{FabricOptions, ProviderKind};
use gannet_fabric::registration::Registration;
use gannet_rpc::Design;
use gannet_vfs::Credentials;
#[cfg(feature = "volumes")]
use gannet_volume::client::{ReadOptions, TransferPolicy};
#[cfg(feature = "volumes")]
use gannet_volume::link::TrafficClasses;
use std::time::Duration;

/// How long a server may take to be found and to accept a connection.
pub(crate) const CONNECT_MAX: Duration = Duration::from_secs(10);

/// Options of a connection. The default: as the user of this process, dynamic registration, no CRC.
#[derive(Debug, Clone)]
pub struct ConnectOptions {
    pub(crate) caller: Credentials,
    pub(crate) connect_max: Duration,
    /// How long operations on a volume are tried; `None` for ever.
    #[cfg(feature = "volumes")]
    pub(crate) patience: Option<Duration>,
    pub(crate) fabric: FabricOptions,
    pub(crate) registration: Registration,
    pub(crate) design: Design,
    #[cfg(feature = "volumes")]
    pub(crate) key: Option<ClientKey>,
    #[cfg(feature = "volumes")]
    pub(crate) classes: TrafficClasses,
    #[cfg(feature = "volumes")]
    pub(crate) policy: TransferPolicy,
    #[cfg(feature = "volumes")]
    pub(crate) reads: ReadOptions,
}

impl Default for ConnectOptions {
    fn default() -> ConnectOptions {
        ConnectOptions {
            caller: own_credentials(),
            connect_max: CONNECT_MAX,
            #[cfg(feature = "volumes")]
            patience: None,
            fabric: FabricOptions::default(),
            registration: Registration::default(),
            design: Design::default(),
            #[cfg(feature = "volumes")]
            key: None,
            #[cfg(feature = "volumes")]
            classes: TrafficClasses::default(),
            #[cfg(feature = "volumes")]
            policy: TransferPolicy::default(),
            #[cfg(feature = "volumes")]
            reads: ReadOptions::default(),
        }
    }
}

impl ConnectOptions {
    /// The credentials of calls. (Servers map root to an anonymous user by default.)
    #[must_use]
    pub fn caller(self, caller: Credentials) -> ConnectOptions {
        ConnectOptions { caller, ..self }
    }

    /// How long a connection may take to be made: at most and by default 10 seconds.
    #[must_use]
    pub fn connect_within(self, max: Duration) -> ConnectOptions {
        let connect_max = max.min(CONNECT_MAX);
        ConnectOptions {
            connect_max,
            ..self
        }
    }

    /// How long operations on a volume are tried while its servers are away; `None`, the default, for ever.
    #[cfg(feature = "volumes")]
    #[must_use]
    pub fn patience(self, patience: Option<Duration>) -> ConnectOptions {
        ConnectOptions { patience, ..self }
    }

    /// Asks for MPA CRCs on RDMA connections; the server may insist on its own.
    #[must_use]
    pub fn crc(self, crc: bool) -> ConnectOptions {
        let fabric = FabricOptions { crc, ..self.fabric };
        ConnectOptions { fabric, ..self }
    }

    /// The provider of RDMA connections.
    #[must_use]
    pub fn provider(self, provider: ProviderKind) -> ConnectOptions {
        let fabric = FabricOptions {
            provider,
            ..self.fabric
        };
        ConnectOptions { fabric, ..self }
    }

    /// Whether an RDMA device fetches the pages of transfers when it needs them, and pins none of them.
    #[must_use]
    pub fn on_demand_paging(self, on_demand_paging: bool) -> ConnectOptions {
        let fabric = FabricOptions {
            on_demand_paging,
            ..self.fabric
        };
        ConnectOptions { fabric, ..self }
    }

    /// How memory is registered on RDMA connections, and which end moves bulk results.
    #[must_use]
    pub fn memory(self, registration: Registration, design: Design) -> ConnectOptions {
        ConnectOptions {
            registration,
            design,
            ..self
        }
    }

    /// The key of the volume that a `gannet://` URL names.
    #[cfg(feature = "volumes")]
    #[must_use]
    pub fn volume_key(self, key: ClientKey) -> ConnectOptions {
        let key = Some(key);
        ConnectOptions { key, ..self }
    }

    /// The DSCPs of packets to a volume, and the policy of its transfers.
    #[cfg(feature = "volumes")]
    #[must_use]
    pub fn transfers(self, classes: TrafficClasses, policy: TransferPolicy) -> ConnectOptions {
        ConnectOptions {
            classes,
            policy,
            ..self
        }
    }

    /// Whether files of a volume are read from its servers' memory without a call, and how much data is cached here.
    #[cfg(feature = "volumes")]
    #[must_use]
    pub fn reads(self, reads: ReadOptions) -> ConnectOptions {
        ConnectOptions { reads, ..self }
    }
}

/// The user and the groups of this process.
pub fn own_credentials() -> Credentials {
    let groups = rustix::process::getgroups().unwrap_or_default();
    let groups: Vec<u32> = (groups.into_iter())
        .map(rustix::process::Gid::as_raw)
        .collect();
    let uid = rustix::process::geteuid().as_raw();
    Credentials::new(uid, rustix::process::getegid().as_raw(), &groups)
}

/// The name of this host.
pub(crate) fn machine_name() -> String {
    let names = rustix::system::uname();
    names.nodename().to_string_lossy().into_owned()
}
