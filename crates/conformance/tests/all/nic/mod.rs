//! A provider as a NIC would be: loop-back inside one process.
//!
//! It shows properties that the protection table in software hides. It chooses keys and addresses. A peer has access
//! until a revocation is done, which takes time. Registrations and deregistrations fail by seed. Sources and sinks of
//! RDMA must be registered, and a refused access ends the connection. It has no power over registered memory and knows
//! no files.

mod endpoint;
mod memory;

pub(crate) use memory::{NicProfile, NicRegion};

use endpoint::{End, NicEndpoint};
use gannet_fabric::limits::PRIVATE_DATA_MAX;
use gannet_fabric::{
    Capabilities, ConnectError, ConnectOptions, Connected, Domain, EndpointAttributes, EndpointId,
    Incoming, Listener, NoReceive, Outgoing, PrivateDataLimits, Provider, Receives, Refusals,
    SharedReceiveQueue, SharedReceives,
};
use gannet_runtime::{Dscp, Handle, LocalFuture};
use gannet_softrdma::{EndpointReceives, SoftwareReceiveQueue};
use memory::NicDomain;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::task::{Poll, Waker};
use tokio::sync::oneshot;

const SEND_QUEUE_MAX: u32 = 128;
const RECEIVE_QUEUE_MAX: u32 = 512;
const READ_DEPTH_MAX: u16 = 16;

/// The network between the adapters of a process.
#[derive(Default)]
pub(crate) struct NicNetwork {
    listeners: RefCell<BTreeMap<SocketAddr, Rc<Waiting>>>,
    ports: Cell<u16>,
    endpoints: Cell<u64>,
    reached: Rc<Cell<u64>>,
}

/// Peers that wait to be accepted at one address.
#[derive(Default)]
struct Waiting {
    requests: RefCell<VecDeque<Request>>,
    waker: Cell<Option<Waker>>,
}

struct Request {
    side: Side,
    options: ConnectOptions,
    answer: oneshot::Sender<Result<Connected, Vec<u8>>>,
}

/// The resources of one adapter for a connection.
#[derive(Clone)]
struct Side {
    network: Rc<NicNetwork>,
    runtime: Handle,
    domain: Rc<NicDomain>,
    address: SocketAddr,
}

impl NicNetwork {
    fn take_port(&self) -> u16 {
        self.ports.set(self.ports.get() + 1);
        40_000 + self.ports.get()
    }

    /// How many accesses of peers reached memory that its user had.
    pub(crate) fn reached(&self) -> u64 {
        self.reached.get()
    }

    fn take_id(&self) -> EndpointId {
        self.endpoints.set(self.endpoints.get() + 1);
        EndpointId(self.endpoints.get())
    }
}

/// One adapter.
pub(crate) struct NicProvider {
    network: Rc<NicNetwork>,
    runtime: Handle,
    domain: Rc<NicDomain>,
    ip: IpAddr,
}

impl NicProvider {
    pub(crate) fn provider(
        network: &Rc<NicNetwork>,
        runtime: Handle,
        ip: IpAddr,
        profile: NicProfile,
    ) -> Rc<dyn Provider> {
        Rc::new(NicProvider {
            network: Rc::clone(network),
            domain: NicDomain::new(Rc::clone(&runtime), profile, Rc::clone(&network.reached)),
            runtime,
            ip,
        })
    }

    fn side(&self, port: u16) -> Side {
        Side {
            network: Rc::clone(&self.network),
            runtime: Rc::clone(&self.runtime),
            domain: Rc::clone(&self.domain),
            address: SocketAddr::new(self.ip, port),
        }
    }
}

impl Provider for NicProvider {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            name: "nic",
            read_depth_max: READ_DEPTH_MAX,
            message_max: 1 << 31,
            survivable_exceptions: false,
            optimistic_reads: false,
            file_regions: false,
            software_regions: false,
            all_physical: false,
            bound_keys: true,
            sends_invalidate: true,
            keys_invalidated: true,
            refusals: Refusals::Named,
            no_receive: NoReceive::Ends,
            private_data: PrivateDataLimits::IWARP,
            needs_local_registration: true,
            shared_receives: true,
        }
    }

    fn domain(&self) -> Rc<dyn Domain> {
        Rc::<NicDomain>::clone(&self.domain)
    }

    fn shared_receives(&self, options: SharedReceives) -> Option<Rc<dyn SharedReceiveQueue>> {
        Some(SoftwareReceiveQueue::new(options))
    }

    fn connect(&self, address: SocketAddr, options: ConnectOptions) -> Outgoing {
        let side = self.side(self.network.take_port());
        Box::pin(async move {
            check_options(&options)?;
            let refused = || io::Error::from(io::ErrorKind::ConnectionRefused);
            let waiting = side.network.listeners.borrow().get(&address).cloned();
            let waiting = waiting.ok_or_else(refused)?;
            let (answer, answered) = oneshot::channel();
            waiting.requests.borrow_mut().push_back(Request {
                side,
                options,
                answer,
            });
            if let Some(waker) = waiting.waker.take() {
                waker.wake();
            }
            match answered.await {
                Ok(Ok(endpoint)) => Ok(endpoint),
                Ok(Err(private_data)) => Err(ConnectError::Rejected { private_data }),
                Err(_) => Err(refused().into()),
            }
        })
    }

    fn listen(&self, address: SocketAddr) -> io::Result<Box<dyn Listener>> {
        let port = match address.port() {
            0 => self.network.take_port(),
            port => port,
        };
        let (side, waiting) = (self.side(port), Rc::<Waiting>::default());
        let mut listeners = self.network.listeners.borrow_mut();
        listeners.insert(side.address, Rc::clone(&waiting));
        Ok(Box::new(NicListener { side, waiting }))
    }
}

fn check_options(options: &ConnectOptions) -> Result<(), ConnectError> {
    if options.private_data.len() > PRIVATE_DATA_MAX {
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

struct NicListener {
    side: Side,
    waiting: Rc<Waiting>,
}

impl Listener for NicListener {
    fn local_address(&self) -> SocketAddr {
        self.side.address
    }

    fn accept(&mut self) -> LocalFuture<io::Result<Box<dyn Incoming>>> {
        let (side, waiting) = (self.side.clone(), Rc::clone(&self.waiting));
        Box::pin(std::future::poll_fn(move |context| {
            let request = waiting.requests.borrow_mut().pop_front();
            let Some(request) = request else {
                waiting.waker.set(Some(context.waker().clone()));
                return Poll::Pending;
            };
            let side = side.clone();
            Poll::Ready(Ok(
                Box::new(NicIncoming { side, request }) as Box<dyn Incoming>
            ))
        }))
    }
}

impl Drop for NicListener {
    fn drop(&mut self) {
        let listeners = &self.side.network.listeners;
        listeners.borrow_mut().remove(&self.side.address);
        self.waiting.requests.borrow_mut().clear();
    }
}

struct NicIncoming {
    side: Side,
    request: Request,
}

impl Incoming for NicIncoming {
    fn peer_address(&self) -> SocketAddr {
        self.request.side.address
    }

    fn private_data(&self) -> &[u8] {
        &self.request.options.private_data
    }

    fn read_depths(&self) -> Option<(u16, u16)> {
        Some((self.request.options.ird, self.request.options.ord))
    }

    fn accept(self: Box<Self>, options: ConnectOptions) -> Outgoing {
        Box::pin(async move {
            check_options(&options)?;
            let NicIncoming { side, request } = *self;
            let (near, far) = (attributes(&request.options, &options), {
                attributes(&options, &request.options)
            });
            let (near_data, far_data) = (
                options.private_data.clone(),
                request.options.private_data.clone(),
            );
            let (near_address, far_address) = (side.address, request.side.address);
            let near = request
                .side
                .end(request.options, near, near_address, near_data)?;
            let far = side.end(options, far, far_address, far_data)?;
            *near.peer.borrow_mut() = Rc::downgrade(&far);
            *far.peer.borrow_mut() = Rc::downgrade(&near);
            let endpoint = Rc::new(NicEndpoint(far));
            let near = Rc::new(NicEndpoint(near));
            if request.answer.send(Ok(near)).is_err() {
                // The peer gave up meanwhile.
                return Err(io::Error::from(io::ErrorKind::ConnectionReset).into());
            }
            Ok(endpoint as Connected)
        })
    }

    fn reject(self: Box<Self>, private_data: Vec<u8>) -> LocalFuture<()> {
        // The peer may have given up meanwhile.
        drop(self.request.answer.send(Err(private_data)));
        Box::pin(std::future::ready(()))
    }
}

impl Side {
    fn end(
        self,
        options: ConnectOptions,
        attributes: EndpointAttributes,
        peer_address: SocketAddr,
        private_data: Vec<u8>,
    ) -> Result<Rc<End>, ConnectError> {
        let receives = EndpointReceives::new(options.receives)
            .ok_or(ConnectError::Unsupported("receives of another provider"))?;
        let id = self.network.take_id();
        Ok(End::new(
            id,
            self.runtime,
            self.domain,
            peer_address,
            private_data,
            attributes,
            receives,
        ))
    }
}

fn attributes(own: &ConnectOptions, other: &ConnectOptions) -> EndpointAttributes {
    EndpointAttributes {
        ord: own.ord.min(other.ird).min(READ_DEPTH_MAX),
        ird: own.ird.min(READ_DEPTH_MAX),
        send_queue_max: SEND_QUEUE_MAX,
        receive_queue_max: RECEIVE_QUEUE_MAX,
        send_sge_max: 4,
        read_sge_max: 1,
        exceptions: false,
    }
}
