//! A fabric in memory: a provider whose operations fail by chance, as its profile and seed decide.
//!
//! Work travels in segments over the world's channels, so that keys can be revoked in the middle of a transfer. Every
//! segment that touches a peer's memory goes through the [`ProtectionTable`].
//!
//! With a [`DeviceProfile`] it is an adapter and no software: it checks nothing but the key, and memory of local
//! operations must be registered. On nodes that are machines of a testbed ([`crate::nic`]) it is that testbed's
//! adapter, with the powers that its profile names. Everything costs there, and a connection has as many RDMA Reads
//! outstanding as the hardware had. A file as a source is charged as pages that are registered for this use.

mod arrival;
mod device;
mod domain;
mod endpoint;
mod segment;
mod verbs;

use crate::limits::{RECEIVE_QUEUE_MAX, SEND_QUEUE_MAX};
use crate::network;
use crate::nic::Host;
use crate::node::Node;
use crate::random::Random;
use crate::stream::wake;
use crate::world::{Core, NodeId, World};
use device::Device;
pub use device::{DeviceProfile, look};
use domain::SimDomain;
use endpoint::End;
use gannet_fabric::limits::{PRIVATE_DATA_BESIDE_OFFER_MAX, PRIVATE_DATA_MAX};
use gannet_fabric::{
    Capabilities, ConnectError, ConnectOptions, Connected, Domain, EndpointAttributes, Incoming,
    Listener, NoReceive, Outgoing, PrivateDataLimits, Provider, Receives, Refusals,
    SharedReceiveQueue, SharedReceives,
};
use gannet_runtime::{Dscp, Handle, LocalFuture};
use gannet_softrdma::{ProtectionTable, SoftwareReceiveQueue};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;
use tokio::sync::oneshot;
use verbs::SimEndpoint;

/// How long connecting may take.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(10);

/// The properties of a simulated fabric, and its rates of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FabricProfile {
    /// A refused access is an error of its operation alone.
    pub survivable_exceptions: bool,
    /// Bytes of a segment.
    pub segment_len: usize,
    /// Most RDMA Reads outstanding per connection and direction.
    pub read_depth_max: u16,
    /// Bytes of a page, where a key to all memory names nothing but pages.
    pub physical_segment_len: Option<u32>,
    /// The provider is an adapter with these powers and faults; `None`: it is software, but on machines of a testbed.
    pub device: Option<DeviceProfile>,
    /// The number of registrations, of a thousand, that are refused.
    pub registration_failures_per_mille: u64,
    /// The number of connections, of a thousand, that are refused.
    pub connect_failures_per_mille: u64,
    /// The number of segments, of a million, that break their connection.
    pub resets_per_million: u64,
}

impl Default for FabricProfile {
    fn default() -> FabricProfile {
        FabricProfile {
            survivable_exceptions: false,
            segment_len: 16 << 10,
            read_depth_max: 16,
            physical_segment_len: None,
            device: None,
            registration_failures_per_mille: 0,
            connect_failures_per_mille: 0,
            resets_per_million: 0,
        }
    }
}

/// The fabric between the nodes of a world.
pub struct SimFabric {
    core: Rc<Core>,
    profile: Cell<FabricProfile>,
    random: Random,
    reached: Cell<Reached>,
    listeners: RefCell<BTreeMap<SocketAddr, Rc<Waiting>>>,
}

/// Segments of peers' accesses that reached memory which its user had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reached {
    /// Segments that were read from it.
    pub reads: u64,
    /// Segments that were written to it.
    pub writes: u64,
}

/// Peers that wait to be accepted at one address.
#[derive(Default)]
struct Waiting {
    requests: RefCell<VecDeque<Request>>,
    waker: RefCell<Option<Waker>>,
}

impl SimFabric {
    /// A fabric that reaches every node of `world`.
    pub fn new(world: &World, profile: FabricProfile) -> Rc<SimFabric> {
        Rc::new(SimFabric {
            core: Rc::clone(world.core()),
            profile: Cell::new(profile),
            random: world.random("fabric"),
            reached: Cell::default(),
            listeners: RefCell::default(),
        })
    }

    /// The accesses of peers that reached memory which its user had, on all adapters. In software none does.
    pub fn reached(&self) -> Reached {
        self.reached.get()
    }

    /// Ends all failures by chance of registrations, deregistrations, connections and segments.
    pub fn heal(&self) {
        let profile = self.profile.get();
        self.profile.set(FabricProfile {
            device: profile.device.map(DeviceProfile::healed),
            registration_failures_per_mille: 0,
            connect_failures_per_mille: 0,
            resets_per_million: 0,
            ..profile
        });
    }

    /// A provider on `node`, with a domain of its own. After a crash take a new one.
    pub fn provider(self: &Rc<Self>, node: &Node) -> Rc<dyn Provider> {
        let runtime = node.runtime();
        let host = self.core.host(node.id());
        let of_host = host
            .as_ref()
            .map(|host| DeviceProfile::of(&host.profile().adapter));
        let device = of_host
            .or(self.profile.get().device)
            .map(|powers| Device::new(powers, Rc::clone(self), Rc::clone(&runtime)));
        Rc::new(SimProvider {
            domain: SimDomain::new(
                ProtectionTable::new(Rc::clone(&runtime)),
                device,
                Rc::clone(self),
                host.clone(),
            ),
            fabric: Rc::clone(self),
            node: node.id(),
            ip: node.ip(),
            runtime,
            host,
        })
    }
}

struct SimProvider {
    fabric: Rc<SimFabric>,
    node: NodeId,
    ip: std::net::IpAddr,
    runtime: Handle,
    domain: Rc<SimDomain>,
    host: Option<Rc<Host>>,
}

impl SimProvider {
    fn read_depth_max(&self) -> u16 {
        let of_fabric = self.fabric.profile.get().read_depth_max;
        self.host.as_ref().map_or(of_fabric, |host| {
            let depth = host.profile().adapter.read_depth.value;
            of_fabric.min(u16::try_from(depth).unwrap_or(u16::MAX))
        })
    }

    fn side(&self, address: SocketAddr) -> Side {
        Side {
            fabric: Rc::clone(&self.fabric),
            node: self.node,
            runtime: Rc::clone(&self.runtime),
            domain: Rc::clone(&self.domain),
            host: self.host.clone(),
            read_depth_max: self.read_depth_max(),
            address,
        }
    }
}

impl Provider for SimProvider {
    fn capabilities(&self) -> Capabilities {
        let device = self.domain.device.as_ref().map(|device| device.powers);
        let invalidates = device.is_none_or(|device| device.remote_invalidation);
        Capabilities {
            name: "sim",
            read_depth_max: self.read_depth_max(),
            message_max: u32::MAX,
            survivable_exceptions: self.fabric.profile.get().survivable_exceptions,
            optimistic_reads: device.is_none_or(|device| device.optimistic_reads),
            file_sources: device.is_none_or(|device| device.file_pages),
            file_regions: device.is_none_or(|device| device.file_pages),
            software_regions: device.is_none(),
            all_physical: device.is_none_or(|device| device.all_physical),
            bound_keys: true,
            sends_invalidate: invalidates,
            keys_invalidated: invalidates,
            immediates: device.is_some_and(|device| device.immediates),
            refusals: Refusals::Named,
            no_receive: NoReceive::Ends,
            private_data: PrivateDataLimits::IWARP,
            needs_local_registration: device.is_some(),
            shared_receives: true,
        }
    }

    fn domain(&self) -> Rc<dyn Domain> {
        Rc::<SimDomain>::clone(&self.domain)
    }

    fn shared_receives(&self, options: SharedReceives) -> Option<Rc<dyn SharedReceiveQueue>> {
        Some(SoftwareReceiveQueue::new(options))
    }

    fn connect(&self, address: SocketAddr, mut options: ConnectOptions) -> Outgoing {
        options.exceptions &= self.capabilities().optimistic_reads;
        options.immediates &= self.capabilities().immediates;
        let port = self
            .fabric
            .core
            .with_node(self.node, |node| node.take_port());
        let side = self.side(SocketAddr::new(self.ip, port));
        let runtime = Rc::clone(&self.runtime);
        Box::pin(async move {
            let connecting = side.connect(address, options);
            gannet_runtime::timeout(&runtime, CONNECT_TIME_MAX, connecting)
                .await
                .unwrap_or(Err(ConnectError::TimedOut))
        })
    }

    fn listen(&self, mut address: SocketAddr) -> io::Result<Box<dyn Listener>> {
        let core = &self.fabric.core;
        if address.ip().is_unspecified() {
            address.set_ip(self.ip);
        }
        if address.ip() != self.ip {
            return Err(io::ErrorKind::AddrNotAvailable.into());
        }
        if address.port() == 0 {
            address.set_port(core.with_node(self.node, |node| node.take_port()));
        }
        let mut listeners = self.fabric.listeners.borrow_mut();
        if listeners.contains_key(&address) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        let waiting: Rc<Waiting> = Rc::default();
        listeners.insert(address, Rc::clone(&waiting));
        core.trace(format_args!("fabric listen {address}"));
        let side = self.side(address);
        Ok(Box::new(SimListener { side, waiting }))
    }
}

/// The resources of one end of a connection, apart from its options.
#[derive(Clone)]
struct Side {
    fabric: Rc<SimFabric>,
    node: NodeId,
    runtime: Handle,
    domain: Rc<SimDomain>,
    host: Option<Rc<Host>>,
    read_depth_max: u16,
    address: SocketAddr,
}

/// The parts from which an end of an agreed connection is built.
struct EndSetup {
    side: Side,
    options: ConnectOptions,
    attributes: EndpointAttributes,
}

impl EndSetup {
    fn identity(&self) -> PeerIdentity {
        PeerIdentity {
            node: self.side.node,
            address: self.side.address,
            private_data: self.options.private_data.clone(),
        }
    }
}

/// The facts about an end that its peer learns from the connection's setup.
struct PeerIdentity {
    node: NodeId,
    address: SocketAddr,
    private_data: Vec<u8>,
}

/// A connection request, as it arrives at a listener.
struct Request {
    side: Side,
    options: ConnectOptions,
    answer: oneshot::Sender<Result<Rc<End>, Vec<u8>>>,
}

impl Side {
    async fn connect(
        self,
        address: SocketAddr,
        options: ConnectOptions,
    ) -> Result<Connected, ConnectError> {
        check_options(&options, options.exceptions)?;
        let core = Rc::clone(&self.fabric.core);
        network::reach(&core, self.node, address).await?;
        let waiting = self.fabric.listeners.borrow().get(&address).cloned();
        let refused = self.fabric.profile.get().connect_failures_per_mille;
        let waiting = waiting
            .filter(|_| !self.fabric.random.chance(refused))
            .filter(|waiting| waiting.requests.borrow().len() < crate::limits::BACKLOG_MAX)
            .ok_or_else(|| ConnectError::from(io::Error::from(io::ErrorKind::ConnectionRefused)))?;
        let (answer, answered) = oneshot::channel();
        core.trace(format_args!("fabric connect {} {address}", self.address));
        let (node, side) = (self.node, self);
        let request = Request {
            side,
            options,
            answer,
        };
        waiting.requests.borrow_mut().push_back(request);
        wake(&waiting.waker);
        drop(waiting);
        match answered.await {
            Ok(Ok(end)) => {
                // The endpoint is made first, so that a caller that gives up from here on ends the connection.
                let endpoint = Rc::new(SimEndpoint::new(end));
                network::reach(&core, node, address).await?;
                Ok(endpoint)
            }
            Ok(Err(private_data)) => {
                network::reach(&core, node, address).await?;
                Err(ConnectError::Rejected { private_data })
            }
            Err(_) => Err(io::Error::from(io::ErrorKind::ConnectionReset).into()),
        }
    }
}

/// Checks the options of an end; `offers` is true if it offers exceptions to its peer.
fn check_options(options: &ConnectOptions, offers: bool) -> Result<(), ConnectError> {
    let private_data_max = if offers {
        PRIVATE_DATA_BESIDE_OFFER_MAX
    } else {
        PRIVATE_DATA_MAX
    };
    if options.private_data.len() > private_data_max {
        return Err(ConnectError::Unsupported("private data this long"));
    }
    if let Receives::Own(receives) = &options.receives
        && receives.len() > RECEIVE_QUEUE_MAX as usize
    {
        return Err(ConnectError::Unsupported("this many receives"));
    }
    if options.traffic_class != Dscp::default() {
        return Err(ConnectError::Unsupported("a traffic class"));
    }
    Ok(())
}

struct SimListener {
    side: Side,
    waiting: Rc<Waiting>,
}

impl Listener for SimListener {
    fn local_address(&self) -> SocketAddr {
        self.side.address
    }

    fn accept(&mut self) -> LocalFuture<io::Result<Box<dyn Incoming>>> {
        let (waiting, side) = (Rc::clone(&self.waiting), self.side.clone());
        Box::pin(std::future::poll_fn(move |context| {
            let request = waiting.requests.borrow_mut().pop_front();
            if let Some(request) = request {
                let side = side.clone();
                return Poll::Ready(Ok(
                    Box::new(SimIncoming { side, request }) as Box<dyn Incoming>
                ));
            }
            let wait = crate::executor::Wait::Accept(side.address);
            side.fabric.core.executor.note_wait(wait);
            *waiting.waker.borrow_mut() = Some(context.waker().clone());
            Poll::Pending
        }))
    }
}

impl Drop for SimListener {
    fn drop(&mut self) {
        self.side
            .fabric
            .listeners
            .borrow_mut()
            .remove(&self.side.address);
        // Peers that wait for an accept get an error.
        let requests = std::mem::take(&mut *self.waiting.requests.borrow_mut());
        drop(requests);
    }
}

struct SimIncoming {
    side: Side,
    request: Request,
}

impl Incoming for SimIncoming {
    fn peer_address(&self) -> SocketAddr {
        self.request.side.address
    }

    fn private_data(&self) -> &[u8] {
        &self.request.options.private_data
    }

    fn read_depths(&self) -> Option<(u16, u16)> {
        Some((self.request.options.ird, self.request.options.ord))
    }

    fn accept(self: Box<Self>, mut options: ConnectOptions) -> Outgoing {
        Box::pin(async move {
            let SimIncoming { side, request } = *self;
            let device = side.domain.device.as_ref();
            options.exceptions &= device.is_none_or(|device| device.powers.optimistic_reads);
            options.immediates &= device.is_some_and(|device| device.powers.immediates);
            check_options(&options, options.exceptions && request.options.exceptions)?;
            let (near_attributes, far_attributes) = agree(
                &request.options,
                &options,
                request.side.read_depth_max.min(side.read_depth_max),
            );
            let near = EndSetup {
                side: request.side,
                options: request.options,
                attributes: near_attributes,
            };
            let far = EndSetup {
                side,
                options,
                attributes: far_attributes,
            };
            let (near, far) = End::pair(near, far)?;
            let endpoint = Rc::new(SimEndpoint::new(far));
            if request.answer.send(Ok(near)).is_err() {
                // The peer gave up meanwhile.
                return Err(io::Error::from(io::ErrorKind::ConnectionReset).into());
            }
            Ok(endpoint as Connected)
        })
    }

    fn reject(self: Box<Self>, private_data: Vec<u8>) -> LocalFuture<()> {
        // The peer may have given up meanwhile.
        let _ = self.request.answer.send(Err(private_data));
        Box::pin(std::future::ready(()))
    }
}

/// The attributes of both ends, near and far.
fn agree(
    near: &ConnectOptions,
    far: &ConnectOptions,
    depth_max: u16,
) -> (EndpointAttributes, EndpointAttributes) {
    let attributes = |own: &ConnectOptions, other: &ConnectOptions| EndpointAttributes {
        ord: own.ord.min(other.ird).min(depth_max),
        ird: own.ird.min(depth_max),
        send_queue_max: SEND_QUEUE_MAX,
        receive_queue_max: RECEIVE_QUEUE_MAX,
        send_sge_max: 1,
        read_sge_max: 1,
        exceptions: near.exceptions && far.exceptions,
        immediates: own.immediates,
    };
    (attributes(near, far), attributes(far, near))
}
