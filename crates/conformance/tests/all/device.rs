//! Adapters of the simulated fabric with the powers of a device, and its faults.

use gannet_fabric::Provider;
use gannet_sim::fabric::{DeviceProfile, FabricProfile, SimFabric};
use gannet_sim::{LinkProfile, Node, World};
use std::rc::Rc;

/// The adapters of one world, and the fabric between them.
pub(crate) struct Devices(pub(crate) Rc<SimFabric>);

/// The faults of the adapters, and their delays.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Faults {
    /// The number of registrations, of a thousand, that are refused.
    pub(crate) registration_failures_per_mille: u64,
    /// The adapter and what it does wrong.
    pub(crate) device: DeviceProfile,
}

impl Default for Faults {
    fn default() -> Faults {
        Faults {
            registration_failures_per_mille: 0,
            device: DeviceProfile::PLAIN,
        }
    }
}

impl Faults {
    /// The same, of an adapter with or without memory windows.
    pub(crate) fn with_windows(mut self, windows: bool) -> Faults {
        self.device.windows = windows;
        self
    }

    /// Revocations that take up to this many microseconds.
    pub(crate) fn slow(revocation_us_max: u64) -> Faults {
        let mut faults = Faults::default();
        faults.device.revocation_us_max = revocation_us_max;
        faults
    }
}

impl Devices {
    /// A fabric of adapters with these faults, by links that take a microsecond.
    pub(crate) fn new(world: &World, faults: Faults) -> Devices {
        world.set_links(LinkProfile {
            latency_ns: 1_000,
            jitter_ns: 500,
            ..LinkProfile::default()
        });
        let profile = FabricProfile {
            registration_failures_per_mille: faults.registration_failures_per_mille,
            device: Some(faults.device),
            ..FabricProfile::default()
        };
        Devices(SimFabric::new(world, profile))
    }

    /// The adapter of a node.
    pub(crate) fn adapter(&self, node: &Node) -> Rc<dyn Provider> {
        self.0.provider(node)
    }
}
