//! Listening for RDMA connections on all cores.

use crate::FabricOptions;
use gannet_fabric::Provider;
use gannet_runtime::Handle;
use gannet_runtime::tokio_plug::SharedListener;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

/// One listening address of RDMA connections, which go to all cores in turn.
///
/// Take [`FabricListener::for_core`] on every core, and run [`FabricListener::distribute`] on one of them.
pub struct FabricListener {
    streams: SharedListener,
    options: FabricOptions,
}

/// What a core accepts of a [`FabricListener`], and the provider that makes its connections.
pub(crate) struct CoreFabric {
    pub(crate) provider: Rc<dyn Provider>,
    pub(crate) listener: Box<dyn gannet_fabric::Listener>,
}

impl FabricListener {
    /// Listens at `address` for `cores` cores; port 0 picks a free one.
    ///
    /// # Errors
    /// As bind(2) and listen(2).
    pub fn bind(
        address: SocketAddr,
        cores: usize,
        options: FabricOptions,
    ) -> io::Result<FabricListener> {
        let streams = SharedListener::bind(address, cores)?;
        Ok(FabricListener { streams, options })
    }

    /// The address it listens at, with the port that was picked.
    pub fn local_address(&self) -> SocketAddr {
        self.streams.local_address()
    }

    /// The connections of core `index`, whose runtime is `runtime`. Streams go through `gate` before they take a place
    /// among those that are being set up.
    pub(crate) fn for_core(
        &self,
        index: usize,
        runtime: &Handle,
        gate: impl FnOnce(Box<dyn gannet_runtime::Listener>) -> Box<dyn gannet_runtime::Listener>,
    ) -> CoreFabric {
        let provider = self.options.software(runtime);
        let listener = Box::new(provider.listen_on(gate(self.streams.for_core(index))));
        CoreFabric { provider, listener }
    }

    /// Accepts for all cores, for ever.
    ///
    /// # Errors
    /// The listening socket is broken.
    pub async fn distribute(&self) -> io::Result<()> {
        self.streams.distribute().await
    }
}
