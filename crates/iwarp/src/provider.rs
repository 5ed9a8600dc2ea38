//! The provider: one per core.

use crate::config::IwarpConfig;
use crate::connect;
use crate::engine::BatchPool;
use crate::limits::{LOG_INTERVAL, RELEASE_MIN, REST_AFTER};
use crate::listener::IwarpListener;
use crate::rest::{Idle, Movement};
use crate::staging::StagingPool;
use gannet_fabric::{
    Capabilities, ConnectOptions, Domain, EndpointId, Listener, NoReceive, Outgoing,
    PrivateDataLimits, Provider, Refusals, SharedReceiveQueue, SharedReceives,
};
use gannet_runtime::{Handle, LogLimit};
use gannet_softrdma::{ProtectionTable, SoftwareReceiveQueue};
use std::cell::Cell;
use std::fmt::Display;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

/// A software RNIC on one core: connects, listens, and holds the memory its peers may reach.
pub struct IwarpProvider {
    core: Rc<Core>,
}

/// The state that the connections of a provider share.
pub(crate) struct Core {
    pub(crate) runtime: Handle,
    pub(crate) config: IwarpConfig,
    pub(crate) table: Rc<ProtectionTable>,
    pub(crate) staging: Rc<StagingPool>,
    pub(crate) batches: BatchPool,
    pub(crate) movement: Movement,
    /// A task looks for idle memory soon.
    looks_soon: Cell<bool>,
    refused_log: LogLimit,
    endpoints: Cell<u64>,
}

impl Core {
    /// A new identity, never used again: a region scoped to an ended endpoint must not admit a later one.
    pub(crate) fn next_endpoint(&self) -> EndpointId {
        let id = self.endpoints.get() + 1;
        self.endpoints.set(id);
        EndpointId(id)
    }

    /// Gives memory that no connection uses back, when one has come to rest.
    pub(crate) fn give_back(&self) {
        let freed = match self.movement.look(self.runtime.now()) {
            Idle::Nothing => 0,
            Idle::Unused => self.staging.trim_unused() + self.batches.trim_unused(),
            Idle::All => self.staging.trim() + self.batches.trim(),
        };
        self.batches.sweep();
        // It stops the allocations of all threads.
        if freed >= RELEASE_MIN {
            self.runtime.release_memory();
        }
    }

    /// A connection has ended. What it shared waits for the next one, and goes back if none comes: programs that
    /// connect for each operation would map each file anew.
    pub(crate) fn connection_ended(self: &Rc<Self>) {
        // It may have held the last opening of a file.
        self.batches.sweep();
        if self.looks_soon.replace(true) {
            return;
        }
        let (core, runtime) = (Rc::downgrade(self), Handle::clone(&self.runtime));
        let look = async move {
            gannet_runtime::sleep(&runtime, REST_AFTER).await;
            if let Some(core) = core.upgrade() {
                core.looks_soon.set(false);
                core.give_back();
            }
        };
        self.runtime.spawn("idle iwarp memory", Box::pin(look));
    }

    /// Logs a peer that failed in set-up, at most once in [`LOG_INTERVAL`]: any peer can cause it at will.
    pub(crate) fn note_refused(&self, peer: SocketAddr, why: &dyn Display) {
        if let Some(left_out) = self.refused_log.admit(self.runtime.now()) {
            tracing::info!(%peer, %why, left_out, "connection dropped during set-up");
        }
    }
}

impl IwarpProvider {
    /// A provider on the core of `runtime`. Settings out of range are brought into it.
    pub fn new(runtime: Handle, config: IwarpConfig) -> Rc<IwarpProvider> {
        let core = Core {
            table: Rc::new(ProtectionTable::new(Handle::clone(&runtime))),
            runtime,
            config: config.bounded(),
            staging: Rc::default(),
            batches: BatchPool::default(),
            movement: Movement::default(),
            looks_soon: Cell::new(false),
            refused_log: LogLimit::new(LOG_INTERVAL),
            endpoints: Cell::new(0),
        };
        Rc::new(IwarpProvider {
            core: Rc::new(core),
        })
    }

    /// Listens on the byte streams of `streams`: a socket shared by several cores, for
    /// instance.
    pub fn listen_on(&self, streams: Box<dyn gannet_runtime::Listener>) -> IwarpListener {
        IwarpListener::new(Rc::clone(&self.core), streams)
    }
}

impl Provider for IwarpProvider {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            name: "iwarp",
            read_depth_max: self.core.config.read_depth_max,
            message_max: u32::MAX,
            survivable_exceptions: false,
            optimistic_reads: true,
            file_sources: true,
            file_regions: true,
            software_regions: true,
            all_physical: true,
            bound_keys: true,
            sends_invalidate: true,
            keys_invalidated: true,
            // RFC 7306 has them; they are not spoken here.
            immediates: false,
            refusals: Refusals::Named,
            no_receive: NoReceive::Ends,
            private_data: PrivateDataLimits::IWARP,
            needs_local_registration: false,
            shared_receives: true,
        }
    }

    fn domain(&self) -> Rc<dyn Domain> {
        Rc::clone(&self.core.table) as Rc<dyn Domain>
    }

    fn shared_receives(&self, options: SharedReceives) -> Option<Rc<dyn SharedReceiveQueue>> {
        Some(SoftwareReceiveQueue::new(options))
    }

    fn connect(&self, address: SocketAddr, options: ConnectOptions) -> Outgoing {
        Box::pin(connect::connect(Rc::clone(&self.core), address, options))
    }

    fn listen(&self, address: SocketAddr) -> io::Result<Box<dyn Listener>> {
        let streams = self.core.runtime.listen(address)?;
        Ok(Box::new(self.listen_on(streams)))
    }
}
