//! The provider that a benchmark measures: the software RNIC on loopback, or a device that connects to itself.

use crate::cli::MeasuredOptions;
use gannet_cli::failure::{Explain, Failure};
use gannet_fabric::Provider;
use gannet_iwarp::{IwarpConfig, IwarpProvider};
use gannet_runtime::Handle;
use gannet_runtime::tokio_plug::block_on;
use gannet_verbs::{VerbsConfig, VerbsError, VerbsLibrary, VerbsProvider};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;

/// A provider for any number of cores.
#[derive(Clone)]
pub(super) enum Measured {
    /// The software RNIC.
    Software,
    /// The device of a network interface.
    Device {
        /// rdma-core.
        library: Arc<VerbsLibrary>,
        /// The address of the interface.
        address: IpAddr,
    },
}

impl Measured {
    /// The provider that the options name.
    ///
    /// # Errors
    /// rdma-core cannot be loaded, or no device has the address.
    pub(super) fn choose(options: &MeasuredOptions) -> Result<Measured, Failure> {
        match (options.provider, options.device) {
            (gannet::ProviderKind::Verbs, Some(address)) => {
                let what = || format!("cannot measure the RDMA device of {address}");
                let library = VerbsLibrary::open().explain(what)?;
                let device = Measured::Device { library, address };
                // The reason is lost when only one of a benchmark's threads learns it.
                let opened = block_on(async |runtime| device.over(&runtime, false).map(drop));
                opened.explain(what)?.explain(what)?;
                Ok(device)
            }
            (_, None) => Ok(Measured::Software),
            (_, Some(_)) => Err(Failure::usage(
                "--device names no provider",
                "use it with --provider verbs",
            )),
        }
    }

    /// Whether it is a device.
    pub(super) fn is_device(&self) -> bool {
        matches!(self, Measured::Device { .. })
    }

    /// The address at which its listeners listen, with any port.
    pub(super) fn address(&self) -> SocketAddr {
        let own = match self {
            Measured::Software => Ipv4Addr::LOCALHOST.into(),
            Measured::Device { address, .. } => *address,
        };
        SocketAddr::new(own, 0)
    }

    /// The provider for the core of `runtime`. The software RNIC asks for CRCs if `crc` says so; a device ignores that.
    ///
    /// # Errors
    /// No device has the address, or it has no room.
    pub(super) fn over(&self, runtime: &Handle, crc: bool) -> Result<Rc<dyn Provider>, VerbsError> {
        let runtime = Handle::clone(runtime);
        match self {
            Measured::Software => {
                let config = IwarpConfig {
                    crc,
                    accept_race: None,
                    ..IwarpConfig::default()
                };
                Ok(IwarpProvider::new(runtime, config))
            }
            Measured::Device { library, address } => Ok(VerbsProvider::new(
                runtime,
                library,
                &VerbsConfig::at(*address),
            )?),
        }
    }
}
