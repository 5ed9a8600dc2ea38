//! The network between nodes: channels that delay, hold and deliver; listeners; connection set-up.

use crate::executor::Wait;
use crate::limits::BACKLOG_MAX;
use crate::nic::{Host, Transfer};
use crate::random::Random;
use crate::stream::{self, NodeAddress, SimStream};
use crate::world::{Core, NodeId};
use gannet_runtime::{Listener, LocalFuture, Stream};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::rc::{Rc, Weak};
use std::task::Waker;

/// How long a sender waits before it retransmits segments that a partition held, in nanoseconds.
const RETRANSMIT_NS: u64 = 200_000_000;

/// The times and limits of links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkProfile {
    /// Least time from departure to arrival, in nanoseconds.
    pub latency_ns: u64,
    /// The greatest random addition to it, in nanoseconds.
    pub jitter_ns: u64,
    /// Nanoseconds that 1024 bytes take to leave.
    pub kibibyte_ns: u64,
    /// Bytes that a stream takes before its reader has read them.
    pub window: usize,
    /// The number of reads and writes, of a thousand, that are cut at an arbitrary place.
    pub reslice_per_mille: u64,
}

impl Default for LinkProfile {
    /// A rack: 10 us, 1 GB/s.
    fn default() -> LinkProfile {
        LinkProfile {
            latency_ns: 10_000,
            jitter_ns: 2_000,
            kibibyte_ns: 1_000,
            window: 256 << 10,
            reslice_per_mille: 300,
        }
    }
}

/// A connection that a fault can break.
pub(crate) trait Breakable {
    fn nodes(&self) -> (NodeId, NodeId);
    fn is_alive(&self) -> bool;
    fn break_now(&self);
    /// True if it is a stream and none of its ends has a port in `spared`.
    fn can_flip(&self, _spared: &Range<u16>) -> bool {
        false
    }
    /// Flips a bit of the next bytes of a stream.
    fn flip_next(&self, _random: &Random) {}
}

pub(crate) struct Network {
    pub(crate) profile: Cell<LinkProfile>,
    pub(crate) random: Random,
    cut: RefCell<BTreeSet<(NodeId, NodeId)>>,
    channels: RefCell<Vec<Weak<Channel>>>,
    connections: RefCell<Vec<Weak<dyn Breakable>>>,
    listeners: RefCell<BTreeMap<SocketAddr, Rc<Waiting>>>,
    next_id: Cell<u64>,
}

impl Network {
    pub(crate) fn new(random: &Random) -> Network {
        Network {
            profile: Cell::default(),
            random: random.fork("network"),
            cut: RefCell::default(),
            channels: RefCell::default(),
            connections: RefCell::default(),
            listeners: RefCell::default(),
            next_id: Cell::new(1),
        }
    }

    /// A number for a new stream or endpoint.
    pub(crate) fn take_id(&self) -> u64 {
        let id = self.next_id.get();
        self.next_id.set(id + 1);
        id
    }

    pub(crate) fn partition(&self, one: NodeId, other: NodeId) {
        self.cut
            .borrow_mut()
            .insert((one.min(other), one.max(other)));
    }

    pub(crate) fn heal(&self, one: NodeId, other: NodeId) {
        self.cut
            .borrow_mut()
            .remove(&(one.min(other), one.max(other)));
    }

    fn is_cut(&self, core: &Core, from: NodeId, to: NodeId) -> bool {
        let pair = (from.min(to), from.max(to));
        self.cut.borrow().contains(&pair) || !core.is_up(to)
    }

    /// Schedules the delivery of held segments, within a retransmission time. Channels that are still cut keep theirs.
    pub(crate) fn drain_held(&self, core: &Rc<Core>) {
        let mut channels = self.channels.borrow_mut();
        channels.retain(|channel| channel.strong_count() > 0);
        for channel in channels.iter().filter_map(Weak::upgrade) {
            if !channel.held.borrow().is_empty() {
                let at = core.executor.now() + self.random.between(1, RETRANSMIT_NS);
                core.executor.schedule(at, None, move || channel.drain());
            }
        }
    }

    pub(crate) fn register(&self, connection: Weak<dyn Breakable>) {
        let mut connections = self.connections.borrow_mut();
        connections.retain(|connection| connection.strong_count() > 0);
        connections.push(connection);
    }

    /// One of the open connections of `node` that are `fit`, which the seed chooses.
    fn choose(
        &self,
        node: NodeId,
        fit: impl Fn(&dyn Breakable) -> bool,
    ) -> Option<Rc<dyn Breakable>> {
        let connections = self.connections.borrow();
        let alive: Vec<_> = connections
            .iter()
            .filter_map(Weak::upgrade)
            .filter(|connection| connection.is_alive() && fit(&**connection))
            .filter(|connection| connection.nodes().0 == node || connection.nodes().1 == node)
            .collect();
        // The drop ends the borrow: a connection that breaks drops its held segments, whose destructors may use the
        // network.
        drop(connections);
        alive.get(self.random.index(alive.len())).cloned()
    }

    pub(crate) fn reset_one(&self, core: &Core, node: NodeId) -> bool {
        let Some(chosen) = self.choose(node, |_| true) else {
            return false;
        };
        core.trace(format_args!(
            "fault: a connection of node {} is reset",
            node.0
        ));
        chosen.break_now();
        true
    }

    pub(crate) fn flip_one(&self, core: &Core, node: NodeId, spared: &Range<u16>) -> bool {
        let Some(chosen) = self.choose(node, |connection| connection.can_flip(spared)) else {
            return false;
        };
        core.trace(format_args!(
            "fault: a bit of a connection of node {} flips",
            node.0
        ));
        chosen.flip_next(&self.random);
        true
    }

    pub(crate) fn forget_listeners(&self, core: &Core, node: NodeId) {
        let ip = core.with_node(node, |node| node.ip);
        let forgotten: Vec<_> = {
            let mut listeners = self.listeners.borrow_mut();
            let addresses = listeners.keys().filter(|address| address.ip() == ip);
            let addresses: Vec<_> = addresses.copied().collect();
            addresses
                .iter()
                .map(|address| listeners.remove(address))
                .collect()
        };
        // The drop comes after the borrow: waiting streams are dropped with their listeners, and send an end or a
        // reset.
        drop(forgotten);
    }
}

/// One direction between two nodes. Segments arrive later and in order, or are held while the nodes are partitioned.
pub(crate) struct Channel {
    core: Weak<Core>,
    from: NodeId,
    to: NodeId,
    free_at: Cell<u64>,
    last_arrival: Cell<u64>,
    /// The machines at both ends; their ports then replace the link's profile.
    hosts: Option<(Rc<Host>, Rc<Host>)>,
    held: RefCell<VecDeque<Box<dyn FnOnce()>>>,
    closed: Cell<bool>,
}

impl Channel {
    pub(crate) fn new(core: &Rc<Core>, from: NodeId, to: NodeId) -> Rc<Channel> {
        let channel = Rc::new(Channel {
            core: Rc::downgrade(core),
            from,
            to,
            free_at: Cell::new(0),
            last_arrival: Cell::new(0),
            hosts: core.host(from).zip(core.host(to)),
            held: RefCell::default(),
            closed: Cell::new(false),
        });
        core.network
            .channels
            .borrow_mut()
            .push(Rc::downgrade(&channel));
        channel
    }

    /// Sends a segment of `len` bytes whose arrival runs `deliver`; gives the time at which it has left.
    pub(crate) fn send(self: &Rc<Self>, len: usize, deliver: impl FnOnce() + 'static) -> u64 {
        let Some(core) = self.core.upgrade() else {
            return 0;
        };
        let Transfer {
            left_at,
            arrives_at,
        } = match &self.hosts {
            Some((from, to)) => from.transfer(to, len),
            None => self.pass(&core, len),
        };
        // Jitter must not reorder: a stream's bytes and its end would arrive out of order.
        let arrives_at = arrives_at.max(self.last_arrival.get() + 1);
        self.last_arrival.set(arrives_at);
        let channel = Rc::clone(self);
        let deliver = Box::new(deliver);
        core.executor
            .schedule(arrives_at, None, move || channel.arrive(deliver));
        left_at
    }

    /// The times of `len` bytes on a link by its profile.
    fn pass(&self, core: &Core, len: usize) -> Transfer {
        let profile = core.network.profile.get();
        let transmission = len as u64 * profile.kibibyte_ns / 1024;
        let left_at = self.free_at.get().max(core.executor.now()) + transmission;
        self.free_at.set(left_at);
        let delay = profile.latency_ns + core.network.random.below(profile.jitter_ns + 1);
        Transfer {
            left_at,
            arrives_at: left_at + delay,
        }
    }

    /// Ends the channel: segments under way do not arrive.
    pub(crate) fn close(&self) {
        self.closed.set(true);
        let held = std::mem::take(&mut *self.held.borrow_mut());
        drop(held);
    }

    fn arrive(&self, deliver: Box<dyn FnOnce()>) {
        let Some(core) = self.core.upgrade() else {
            return;
        };
        if self.closed.get() {
            return;
        }
        // A segment after held ones is held too, even on a healed link: it would overtake them.
        let waits =
            core.network.is_cut(&core, self.from, self.to) || !self.held.borrow().is_empty();
        if waits {
            self.held.borrow_mut().push_back(deliver);
        } else {
            deliver();
        }
    }

    fn drain(&self) {
        let Some(core) = self.core.upgrade() else {
            return;
        };
        while !core.network.is_cut(&core, self.from, self.to) {
            // The borrow ends before `deliver` runs, which may close this channel or send on it.
            let Some(deliver) = self.held.borrow_mut().pop_front() else {
                return;
            };
            deliver();
        }
    }
}

/// The queue of one listening address.
struct Waiting {
    streams: RefCell<VecDeque<Stream>>,
    waker: RefCell<Option<Waker>>,
}

/// A simulated listening socket.
pub(crate) struct SimListener {
    core: Rc<Core>,
    address: SocketAddr,
    waiting: Rc<Waiting>,
}

impl SimListener {
    pub(crate) fn bind(
        core: &Rc<Core>,
        node: NodeId,
        mut address: SocketAddr,
    ) -> io::Result<SimListener> {
        let ip = core.with_node(node, |node| node.ip);
        if address.ip().is_unspecified() {
            address.set_ip(ip);
        }
        if address.ip() != ip {
            return Err(io::ErrorKind::AddrNotAvailable.into());
        }
        if address.port() == 0 {
            address.set_port(core.with_node(node, |node| node.take_port()));
        }
        let waiting = Rc::new(Waiting {
            streams: RefCell::default(),
            waker: RefCell::default(),
        });
        let mut listeners = core.network.listeners.borrow_mut();
        if listeners.contains_key(&address) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        listeners.insert(address, Rc::clone(&waiting));
        core.trace(format_args!("listen {address}"));
        Ok(SimListener {
            core: Rc::clone(core),
            address,
            waiting,
        })
    }
}

impl Listener for SimListener {
    fn local_address(&self) -> SocketAddr {
        self.address
    }

    fn accept(&mut self) -> LocalFuture<io::Result<Stream>> {
        let (waiting, core) = (Rc::clone(&self.waiting), Rc::clone(&self.core));
        let address = self.address;
        Box::pin(std::future::poll_fn(move |context| {
            if let Some(stream) = waiting.streams.borrow_mut().pop_front() {
                return std::task::Poll::Ready(Ok(stream));
            }
            core.executor.note_wait(Wait::Accept(address));
            *waiting.waker.borrow_mut() = Some(context.waker().clone());
            std::task::Poll::Pending
        }))
    }
}

impl Drop for SimListener {
    fn drop(&mut self) {
        let mut listeners = self.core.network.listeners.borrow_mut();
        let is_own = |waiting: &Rc<Waiting>| Rc::ptr_eq(waiting, &self.waiting);
        let own = if listeners.get(&self.address).is_some_and(is_own) {
            listeners.remove(&self.address)
        } else {
            None
        };
        drop(listeners);
        drop(own);
    }
}

/// Opens a stream from `node` to `address`. During a partition it tries without end, so callers bound the wait.
pub(crate) async fn connect(
    core: Rc<Core>,
    node: NodeId,
    address: SocketAddr,
) -> io::Result<Stream> {
    let target = reach(&core, node, address).await?;
    let waiting = core.network.listeners.borrow().get(&address).cloned();
    let waiting = waiting.ok_or(io::ErrorKind::ConnectionRefused)?;
    if waiting.streams.borrow().len() >= BACKLOG_MAX {
        return Err(io::ErrorKind::ConnectionRefused.into());
    }
    let (ip, port) = core.with_node(node, |node| (node.ip, node.take_port()));
    let local = SocketAddr::new(ip, port);
    let near = NodeAddress {
        node,
        address: local,
    };
    let far = NodeAddress {
        node: target,
        address,
    };
    let (near, far) = SimStream::pair(&core, near, far);
    core.trace(format_args!(
        "connect {local} {address} stream {}",
        near.id()
    ));
    waiting.streams.borrow_mut().push_back(Rc::new(far));
    stream::wake(&waiting.waker);
    Ok(Rc::new(near))
}

/// Waits for a round trip from `node` to the node of `address`, and gives that node.
pub(crate) async fn reach(
    core: &Rc<Core>,
    node: NodeId,
    address: SocketAddr,
) -> io::Result<NodeId> {
    let target = core
        .node_at(address.ip())
        .ok_or(io::ErrorKind::HostUnreachable)?;
    let mut pause = RETRANSMIT_NS;
    loop {
        let profile = core.network.profile.get();
        let round_trip = 2 * profile.latency_ns + core.network.random.below(profile.jitter_ns + 1);
        let now = core.executor.now();
        core.executor.sleep_until(now + round_trip).await;
        if !core.network.is_cut(core, node, target) {
            return Ok(target);
        }
        let now = core.executor.now();
        core.executor.sleep_until(now + pause).await;
        pause = (2 * pause).min(32 * RETRANSMIT_NS);
    }
}
