//! Listening for RDMA connections on all cores, by one provider or by several.

use crate::provider::library;
use crate::{FabricOptions, ProviderKind};
use gannet_fabric::Provider;
use gannet_runtime::tokio_plug::SharedListener;
use gannet_runtime::{Handle, both};
use gannet_verbs::{
    SharedVerbsListener, VerbsConfig, VerbsError, VerbsLibrary, VerbsProvider, check_device,
    devices,
};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use thiserror::Error;

/// One listening address of RDMA connections, which go to all cores in turn.
///
/// Each core of a server takes its share, and one of them runs [`FabricListener::distribute`].
pub struct FabricListener {
    address: SocketAddr,
    options: FabricOptions,
    software: Option<SharedListener>,
    device: Option<DeviceListener>,
}

/// The listener of an RDMA device.
struct DeviceListener {
    library: Arc<VerbsLibrary>,
    config: VerbsConfig,
    listener: SharedVerbsListener,
}

/// The reason why RDMA connections cannot be listened for.
#[derive(Debug, Error)]
pub enum FabricError {
    /// The socket of the software RNIC: as bind(2) and listen(2).
    #[error(transparent)]
    Socket(#[from] io::Error),
    /// The RDMA device.
    #[error(transparent)]
    Device(#[from] VerbsError),
}

/// A core's share of a [`FabricListener`] by one provider, and that provider.
pub(crate) struct CoreFabric {
    pub(crate) provider: Rc<dyn Provider>,
    pub(crate) listener: Box<dyn gannet_fabric::Listener>,
}

impl FabricListener {
    /// Listens at `address` for `cores` cores; port 0 picks a free one. With [`ProviderKind::Auto`] by the software
    /// RNIC, and by a device too if there is one; a log line says so, or why not.
    ///
    /// # Errors
    /// See [`FabricError`].
    pub fn bind(
        address: SocketAddr,
        cores: usize,
        options: FabricOptions,
    ) -> Result<FabricListener, FabricError> {
        let software = match options.provider {
            ProviderKind::Verbs => None,
            ProviderKind::Auto | ProviderKind::Iwarp => Some(SharedListener::bind(address, cores)?),
        };
        let address = software
            .as_ref()
            .map_or(address, SharedListener::local_address);
        let device = match options.provider {
            ProviderKind::Iwarp => None,
            ProviderKind::Verbs => Some(DeviceListener::bind(address, cores, options)?),
            ProviderKind::Auto => match DeviceListener::bind(address, cores, options) {
                Ok(device) => {
                    tracing::info!(%address, "an RDMA device listens beside the software RNIC");
                    Some(device)
                }
                Err(error) => {
                    tracing::info!(%address, %error, "the software RNIC alone listens");
                    None
                }
            },
        };
        let of_device = device.as_ref().map(|it| it.listener.local_address());
        Ok(FabricListener {
            address: of_device.unwrap_or(address),
            options,
            software,
            device,
        })
    }

    /// The address it listens at, with the port that was picked.
    pub fn local_address(&self) -> SocketAddr {
        self.address
    }

    /// The connections of core `index`, whose runtime is `runtime`, one entry for each provider. Streams of the
    /// software RNIC go through `gate` before they take a place among those that are being set up.
    ///
    /// # Errors
    /// The device has no room for the core.
    pub(crate) fn for_core(
        &self,
        index: usize,
        runtime: &Handle,
        gate: impl FnOnce(Box<dyn gannet_runtime::Listener>) -> Box<dyn gannet_runtime::Listener>,
    ) -> Result<Vec<CoreFabric>, VerbsError> {
        let mut fabrics = Vec::with_capacity(2);
        if let Some(device) = &self.device {
            fabrics.push(device.for_core(index, runtime)?);
        }
        if let Some(streams) = &self.software {
            let provider = self.options.software(runtime);
            let listener = Box::new(provider.listen_on(gate(streams.for_core(index))));
            fabrics.push(CoreFabric { provider, listener });
        }
        Ok(fabrics)
    }

    /// Accepts for all cores, for ever. `runtime` is that of the calling core. A log line reports a way that breaks, at
    /// once; connections that come the other way are accepted on.
    ///
    /// # Errors
    /// The listening socket and the device's channel of events are broken, or the one of them that there is.
    pub async fn distribute(&self, runtime: &Handle) -> io::Result<()> {
        let software = self.software.as_ref();
        let device = self.device.as_ref();
        let software = software.map(|streams| streams.distribute());
        let device = device.map(|device| device.listener.distribute(runtime));
        let address = self.address;
        every_way(software, device, |way, error| {
            tracing::error!(%address, %error, way, "RDMA connections are accepted no more");
        })
        .await
    }
}

/// Accepts both ways until both have ended; `report` hears of an end by an error at once.
async fn every_way(
    software: Option<impl Future<Output = io::Result<()>>>,
    device: Option<impl Future<Output = io::Result<()>>>,
    report: impl Fn(&'static str, &io::Error),
) -> io::Result<()> {
    let report = &report;
    let software = async {
        match software {
            Some(accepting) => accepting
                .await
                .inspect_err(|it| report("the software RNIC", it)),
            None => Ok(()),
        }
    };
    let device = async {
        match device {
            Some(accepting) => accepting
                .await
                .inspect_err(|it| report("the RDMA device", it)),
            None => Ok(()),
        }
    };
    let (software, device) = both(software, device).await;
    software.and(device)
}

impl DeviceListener {
    fn bind(
        address: SocketAddr,
        cores: usize,
        options: FabricOptions,
    ) -> Result<DeviceListener, VerbsError> {
        let library = library()?;
        // A listener at all addresses would wait for ever where there is no device.
        devices(&library)?;
        let config = options.device_at(address.ip());
        if config.on_demand_paging {
            check_device(&library, &config)?;
        }
        let listener = SharedVerbsListener::bind(&library, address, cores)?;
        Ok(DeviceListener {
            library,
            config,
            listener,
        })
    }

    fn for_core(&self, index: usize, runtime: &Handle) -> Result<CoreFabric, VerbsError> {
        let provider = VerbsProvider::new(Handle::clone(runtime), &self.library, &self.config)?;
        let listener = self.listener.for_core(index, &provider);
        Ok(CoreFabric { provider, listener })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::future::{Pending, pending, ready};
    use std::pin::pin;
    use std::task::{Context, Waker};

    #[test]
    fn a_broken_way_is_reported_while_the_other_accepts() {
        let reported = RefCell::new(Vec::new());
        let report = |way, error: &io::Error| reported.borrow_mut().push((way, error.kind()));
        let broken = || Some(ready(Err(io::ErrorKind::NotConnected.into())));
        let accepts: Pending<io::Result<()>> = pending();
        let mut accepting = pin!(every_way(broken(), Some(accepts), report));
        let mut context = Context::from_waker(Waker::noop());
        assert!(accepting.as_mut().poll(&mut context).is_pending());
        let software = ("the software RNIC", io::ErrorKind::NotConnected);
        assert_eq!(*reported.borrow(), [software]);

        let none: Option<Pending<io::Result<()>>> = None;
        let mut accepting = pin!(every_way(none, broken(), report));
        assert!(accepting.as_mut().poll(&mut context).is_ready());
        assert_eq!(reported.borrow().len(), 2);
    }
}
