//! The provider of one core.

use crate::VerbsError;
use crate::config::VerbsConfig;
use crate::connect::connect;
use crate::core::Core;
use crate::limits::READ_DEPTH_MAX;
use crate::listener::VerbsListener;
use crate::private_data::private_data_limits;
use crate::region::VerbsDomain;
use crate::sys::{DeviceContext, DeviceInfo, VerbsLibrary};
use gannet_fabric::{
    Capabilities, ConnectOptions, Domain, Listener, NoReceive, Outgoing, Provider, Refusals,
    SharedReceiveQueue, SharedReceives,
};
use gannet_runtime::Handle;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

/// A device as a provider of one core and one protocol: it has a protection domain of its own.
pub struct VerbsProvider(Rc<Core>);

impl VerbsProvider {
    /// Opens the device for the core of `runtime`.
    ///
    /// # Errors
    /// See [`VerbsError`].
    pub fn new(
        runtime: Handle,
        library: &Arc<VerbsLibrary>,
        config: &VerbsConfig,
    ) -> Result<Rc<VerbsProvider>, VerbsError> {
        Ok(Rc::new(VerbsProvider(Core::start(
            runtime, library, config,
        )?)))
    }

    /// The kernel's name of the device.
    pub fn device_name(&self) -> String {
        self.0.device.name()
    }

    pub(crate) fn core(&self) -> Rc<Core> {
        Rc::clone(&self.0)
    }
}

/// All devices of the machine, with their ports and limits.
///
/// # Errors
/// [`VerbsError::NoDevice`], [`VerbsError::Permission`], [`VerbsError::Device`].
pub fn devices(library: &Arc<VerbsLibrary>) -> Result<Vec<DeviceInfo>, VerbsError> {
    let failed = |source| VerbsError::Device { source };
    let devices = DeviceContext::all(library)?;
    let infos = devices.iter().map(|device| device.info().map_err(failed));
    infos.collect()
}

impl Provider for VerbsProvider {
    fn capabilities(&self) -> Capabilities {
        let limits = self.0.limits;
        let depth = limits.max_qp_rd_atom.min(limits.max_qp_init_rd_atom);
        Capabilities {
            name: "verbs",
            read_depth_max: READ_DEPTH_MAX.min(u16::try_from(depth).unwrap_or(u16::MAX)),
            message_max: self.0.message_max,
            survivable_exceptions: false,
            optimistic_reads: false,
            file_sources: self.0.maps_files,
            file_regions: false,
            software_regions: false,
            all_physical: false,
            bound_keys: limits.memory_windows,
            // Linux's client refuses the key in such a Send of siw's (RDMAP: cannot invalidate), and terminates.
            sends_invalidate: limits.sends_invalidate && !limits.is_siw(),
            // A device refuses the invalidation of ordinary registrations, and ends the message with an error. That of
            // windows it allows.
            keys_invalidated: limits.memory_windows,
            // RFC 7306 gives iWARP immediates. Linux's iWARP devices have none.
            immediates: !self.0.is_iwarp,
            refusals: Refusals::Unnamed,
            no_receive: if self.0.is_iwarp {
                NoReceive::Ends
            } else {
                NoReceive::Waits
            },
            private_data: private_data_limits(self.0.is_iwarp),
            needs_local_registration: true,
            shared_receives: limits.max_srq_wr > 0,
        }
    }

    fn domain(&self) -> Rc<dyn Domain> {
        Rc::<VerbsDomain>::clone(&self.0.domain)
    }

    fn shared_receives(&self, options: SharedReceives) -> Option<Rc<dyn SharedReceiveQueue>> {
        match self.0.shared_receives(options) {
            Ok(queue) => Some(queue),
            Err(error) => {
                tracing::error!(%error, "the device has no room for a shared receive queue");
                None
            }
        }
    }

    fn connect(&self, address: SocketAddr, options: ConnectOptions) -> Outgoing {
        Box::pin(connect(Rc::clone(&self.0), address, options))
    }

    fn listen(&self, address: SocketAddr) -> io::Result<Box<dyn Listener>> {
        Ok(Box::new(VerbsListener::new(&self.0, address)?))
    }
}
