//! The provider of RDMA connections: an RDMA device, or the software RNIC.

use gannet_fabric::Provider;
use gannet_iwarp::{IwarpConfig, IwarpProvider};
use gannet_runtime::Handle;
use gannet_verbs::{DeviceInfo, VerbsConfig, VerbsError, VerbsLibrary, VerbsProvider, devices};
use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::rc::Rc;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use thiserror::Error;

/// The names of the providers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ProviderKind {
    /// A device that reaches the address, or else the software RNIC.
    Auto,
    /// The software RNIC: iWARP over TCP.
    #[default]
    Iwarp,
    /// An RDMA device, through rdma-core.
    Verbs,
}

impl ProviderKind {
    const ALL: [ProviderKind; 3] = [ProviderKind::Auto, ProviderKind::Iwarp, ProviderKind::Verbs];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            ProviderKind::Auto => "auto",
            ProviderKind::Iwarp => "iwarp",
            ProviderKind::Verbs => "verbs",
        }
    }
}

impl fmt::Display for ProviderKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// No provider has this name.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("no provider is called {0:?} (use auto, iwarp or verbs)")]
pub struct UnknownProvider(String);

impl FromStr for ProviderKind {
    type Err = UnknownProvider;

    fn from_str(name: &str) -> Result<ProviderKind, UnknownProvider> {
        let found = ProviderKind::ALL.into_iter().find(|it| it.name() == name);
        found.ok_or_else(|| UnknownProvider(name.to_owned()))
    }
}

/// The settings of RDMA connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FabricOptions {
    /// The provider of the connections.
    pub provider: ProviderKind,
    /// The software RNIC requests MPA CRCs even if the peer does not ask for them.
    pub crc: bool,
    /// An RDMA device does not pin the memory of transfers, but fetches its pages when it needs them. A device without
    /// on-demand paging is refused. The software RNIC pins nothing anyway.
    pub on_demand_paging: bool,
}

impl FabricOptions {
    /// The software RNIC, for the core of `runtime`.
    pub(crate) fn software(self, runtime: &Handle) -> Rc<IwarpProvider> {
        let config = IwarpConfig {
            crc: self.crc,
            ..IwarpConfig::default()
        };
        IwarpProvider::new(Handle::clone(runtime), config)
    }

    /// The settings of a device.
    fn device(self, config: VerbsConfig) -> VerbsConfig {
        let mut config = config;
        config.on_demand_paging = self.on_demand_paging;
        config
    }

    /// The device of a listening address: the first one for all addresses.
    #[cfg(any(feature = "server", feature = "rdma"))]
    pub(crate) fn device_at(self, own: IpAddr) -> VerbsConfig {
        self.device(if own.is_unspecified() {
            VerbsConfig::default()
        } else {
            VerbsConfig::at(own)
        })
    }

    /// The settings for a volume's connections: they have one provider, and `auto` means the software RNIC there.
    #[cfg(feature = "volumes")]
    pub(crate) fn for_volumes(self) -> FabricOptions {
        let provider = match self.provider {
            ProviderKind::Verbs => ProviderKind::Verbs,
            ProviderKind::Auto | ProviderKind::Iwarp => ProviderKind::Iwarp,
        };
        FabricOptions { provider, ..self }
    }

    /// The provider of a host's address, for the core of `runtime`; of the first device for all addresses.
    ///
    /// # Errors
    /// No device has the address, or it has no room.
    #[cfg(all(feature = "server", feature = "volumes"))]
    pub(crate) fn at(self, runtime: &Handle, own: IpAddr) -> Result<Rc<dyn Provider>, VerbsError> {
        if self.provider != ProviderKind::Verbs {
            return Ok(self.software(runtime));
        }
        Ok(VerbsProvider::new(
            Handle::clone(runtime),
            &library()?,
            &self.device_at(own),
        )?)
    }

    /// The providers by which the core of `runtime` may reach `peer`. Says which device it found, or why there is none.
    ///
    /// # Errors
    /// No device reaches the peer, and no other provider is allowed.
    pub(crate) fn towards(self, runtime: &Handle, peer: SocketAddr) -> Result<Ways, VerbsError> {
        CoreProviders::new(self, runtime).towards(peer)
    }
}

/// The providers of one core, each made when it is first needed.
pub(crate) struct CoreProviders {
    options: FabricOptions,
    runtime: Handle,
    software: OnceCell<Rc<IwarpProvider>>,
    /// By this host's address.
    devices: RefCell<HashMap<IpAddr, Rc<VerbsProvider>>>,
}

impl CoreProviders {
    pub(crate) fn new(options: FabricOptions, runtime: &Handle) -> CoreProviders {
        CoreProviders {
            options,
            runtime: Handle::clone(runtime),
            software: OnceCell::new(),
            devices: RefCell::default(),
        }
    }

    fn software(&self) -> Rc<dyn Provider> {
        let made = || self.options.software(&self.runtime);
        Rc::<IwarpProvider>::clone(self.software.get_or_init(made))
    }

    /// As [`FabricOptions::towards`].
    ///
    /// # Errors
    /// As [`FabricOptions::towards`].
    pub(crate) fn towards(&self, peer: SocketAddr) -> Result<Ways, VerbsError> {
        let kind = self.options.provider;
        if kind == ProviderKind::Iwarp {
            return Ok(Ways::only(self.software()));
        }
        match self.device_towards(peer) {
            Ok(device) => {
                let name = device.device_name();
                tracing::info!(device = name, %peer, "an RDMA device reaches the server");
                Ok(Ways {
                    preferred: device,
                    other: (kind == ProviderKind::Auto).then(|| self.software()),
                })
            }
            Err(error) if kind == ProviderKind::Auto => {
                tracing::info!(%error, %peer, "the software RNIC is used");
                Ok(Ways::only(self.software()))
            }
            Err(error) => Err(error),
        }
    }

    /// The providers that listen at `own`, an address of this host or all of them. With [`ProviderKind::Auto`] the
    /// other one is a device, if there is one; a log line says so, or why not.
    ///
    /// # Errors
    /// No device has the address, and no other provider is allowed.
    #[cfg(feature = "rdma")]
    pub(crate) fn listening(&self, own: IpAddr) -> Result<Ways, VerbsError> {
        match self.options.provider {
            ProviderKind::Iwarp => Ok(Ways::only(self.software())),
            ProviderKind::Verbs => Ok(Ways::only(
                self.device_at(own, self.options.device_at(own))?,
            )),
            ProviderKind::Auto => {
                let device = self.device_at(own, self.options.device_at(own));
                let device = device.inspect_err(|error| {
                    tracing::info!(address = %own, %error, "the software RNIC alone listens");
                });
                Ok(Ways {
                    preferred: self.software(),
                    other: device.ok().map(|device| device as Rc<dyn Provider>),
                })
            }
        }
    }

    fn device_towards(&self, peer: SocketAddr) -> Result<Rc<VerbsProvider>, VerbsError> {
        library()?;
        let own = own_address(peer).map_err(|source| VerbsError::Address {
            address: peer.ip(),
            source,
        })?;
        self.device_at(own, self.options.device(VerbsConfig::at(own)))
    }

    fn device_at(&self, own: IpAddr, config: VerbsConfig) -> Result<Rc<VerbsProvider>, VerbsError> {
        if let Some(device) = self.devices.borrow().get(&own) {
            return Ok(Rc::clone(device));
        }
        let device = VerbsProvider::new(Handle::clone(&self.runtime), &library()?, &config)?;
        self.devices.borrow_mut().insert(own, Rc::clone(&device));
        Ok(device)
    }
}

/// The providers that may reach a peer.
pub(crate) struct Ways {
    pub(crate) preferred: Rc<dyn Provider>,
    /// For a peer that does not answer the first.
    pub(crate) other: Option<Rc<dyn Provider>>,
}

impl Ways {
    fn only(preferred: Rc<dyn Provider>) -> Ways {
        Ways {
            preferred,
            other: None,
        }
    }
}

/// rdma-core, opened once in a process.
///
/// # Errors
/// [`VerbsError::Library`].
pub(crate) fn library() -> Result<Arc<VerbsLibrary>, VerbsError> {
    static OPENED: Mutex<Option<Arc<VerbsLibrary>>> = Mutex::new(None);
    let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(library) = &*opened {
        return Ok(Arc::clone(library));
    }
    let library = VerbsLibrary::open()?;
    *opened = Some(Arc::clone(&library));
    Ok(library)
}

/// The RDMA devices of this machine.
///
/// # Errors
/// rdma-core is missing, or there is no device; see [`VerbsError`].
pub fn rdma_devices() -> Result<Vec<DeviceInfo>, VerbsError> {
    devices(&library()?)
}

/// The address of this host from which packets go to `peer`. No packet leaves for it.
fn own_address(peer: SocketAddr) -> io::Result<IpAddr> {
    let any: IpAddr = match peer {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind(SocketAddr::new(any, 0))?;
    socket.connect(peer)?;
    Ok(socket.local_addr()?.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for kind in ProviderKind::ALL {
            assert_eq!(kind.name().parse(), Ok(kind));
        }
        let error = "roce".parse::<ProviderKind>().unwrap_err();
        assert!(error.to_string().contains("auto, iwarp or verbs"));
    }

    #[test]
    fn the_own_address_is_the_one_on_the_way_to_the_peer() {
        let near = own_address("127.0.0.1:20049".parse().unwrap());
        assert_eq!(near.unwrap(), Ipv4Addr::LOCALHOST);
    }
}
