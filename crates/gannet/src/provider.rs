//! The fabric of RDMA connections.

use gannet_fabric::Provider;
use gannet_iwarp::{IwarpConfig, IwarpProvider};
use gannet_runtime::Handle;
use std::rc::Rc;

/// The settings of RDMA connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FabricOptions {
    /// MPA CRCs are requested even if the peer does not ask for them.
    pub crc: bool,
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

    /// A provider for connections of the core of `runtime` to other hosts.
    pub(crate) fn provider(self, runtime: &Handle) -> Rc<dyn Provider> {
        self.software(runtime)
    }
}
