//! A simulated machine, and the runtime seam on it.

use crate::executor::Executor;
use crate::network::{self, SimListener};
use crate::nic::Host;
use crate::random::Random;
use crate::world::{Core, NodeId};
use gannet_runtime::{BlockingJob, Handle, Instant, Listener, LocalFuture, Runtime, Stream};
use std::cell::Cell;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

/// The start of simulated wall clocks, since 1970: a day in 2023.
const EPOCH: Duration = Duration::from_secs(1_700_000_000);
const EPHEMERAL_PORT_FIRST: u16 = 32_768;

/// The time that jobs of a node's blocking pool take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolProfile {
    /// Shortest, in nanoseconds.
    pub delay_min_ns: u64,
    /// Longest, in nanoseconds.
    pub delay_max_ns: u64,
}

impl Default for PoolProfile {
    fn default() -> PoolProfile {
        PoolProfile {
            delay_min_ns: 5_000,
            delay_max_ns: 200_000,
        }
    }
}

pub(crate) struct NodeState {
    pub(crate) name: &'static str,
    pub(crate) ip: IpAddr,
    pub(crate) up: bool,
    pub(crate) incarnation: u32,
    next_port: u16,
    random: Rc<Random>,
    pool: Rc<Cell<PoolProfile>>,
    /// The offset of its wall clock, in seconds.
    pub(crate) clock_offset_s: i64,
    /// The machine that its time is charged to; `None` if its work takes no time.
    pub(crate) host: Option<Rc<Host>>,
}

impl NodeState {
    pub(crate) fn new(name: &'static str, ip: IpAddr, random: &Random) -> NodeState {
        NodeState {
            name,
            ip,
            up: true,
            incarnation: 0,
            next_port: EPHEMERAL_PORT_FIRST,
            random: Rc::new(random.fork(&format!("{name} {ip}"))),
            pool: Rc::default(),
            clock_offset_s: 0,
            host: None,
        }
    }

    pub(crate) fn take_port(&mut self) -> u16 {
        let port = self.next_port;
        self.next_port = port.checked_add(1).unwrap_or(EPHEMERAL_PORT_FIRST);
        port
    }
}

/// A simulated machine of a [`crate::World`].
#[derive(Clone)]
pub struct Node {
    core: Rc<Core>,
    id: NodeId,
}

impl Node {
    pub(crate) fn new(core: Rc<Core>, id: NodeId) -> Node {
        Node { core, id }
    }

    /// Its identity, for faults.
    pub fn id(&self) -> NodeId {
        self.id
    }

    /// Its address.
    pub fn ip(&self) -> IpAddr {
        self.core.with_node(self.id, |node| node.ip)
    }

    /// The runtime of the node's present incarnation. After a crash take a new one: the old one spawns no task.
    pub fn runtime(&self) -> Handle {
        let core = Rc::clone(&self.core);
        self.core.with_node(self.id, |node| {
            let runtime: Handle = Rc::new(SimRuntime {
                core,
                node: self.id,
                incarnation: node.incarnation,
                random: Rc::clone(&node.random),
                pool: Rc::clone(&node.pool),
                host: node.host.clone(),
            });
            runtime
        })
    }

    /// Sets the time that later jobs of the blocking pool take.
    pub fn set_pool(&self, profile: PoolProfile) {
        self.core.with_node(self.id, |node| node.pool.set(profile));
    }

    pub(crate) fn executor(&self) -> Rc<Executor> {
        Rc::clone(&self.core.executor)
    }

    pub(crate) fn set_host(&self, host: Rc<Host>) {
        self.core.with_node(self.id, |node| node.host = Some(host));
    }
}

/// The runtime seam in virtual time.
struct SimRuntime {
    core: Rc<Core>,
    node: NodeId,
    incarnation: u32,
    random: Rc<Random>,
    pool: Rc<Cell<PoolProfile>>,
    host: Option<Rc<Host>>,
}

impl SimRuntime {
    /// False once the node crashed after this runtime was taken.
    fn is_current(&self) -> bool {
        self.core.with_node(self.node, |node| {
            node.up && node.incarnation == self.incarnation
        })
    }
}

impl Runtime for SimRuntime {
    fn now(&self) -> Instant {
        if let Some(host) = &self.host {
            host.settle();
        }
        Instant::from_nanos(self.core.executor.now())
    }

    fn wall_clock(&self) -> Duration {
        let offset = self.core.with_node(self.node, |node| node.clock_offset_s);
        let time = EPOCH + Duration::from_nanos(self.core.executor.now());
        let shift = Duration::from_secs(offset.unsigned_abs());
        if offset < 0 {
            time.saturating_sub(shift)
        } else {
            time.saturating_add(shift)
        }
    }

    fn sleep_until(&self, deadline: Instant) -> LocalFuture<()> {
        Box::pin(self.core.executor.sleep_until(deadline.as_nanos()))
    }

    fn spawn(&self, name: &'static str, task: LocalFuture<()>) {
        // A runtime of an earlier incarnation must not start tasks: a crashed server would go on.
        if self.is_current() {
            self.core.executor.spawn(self.node, name, task);
        }
    }

    fn random(&self) -> u64 {
        self.random.next()
    }

    fn submit_blocking(&self, job: BlockingJob) {
        if !self.is_current() {
            return;
        }
        let pool = self.pool.get();
        let delay = self.random.between(pool.delay_min_ns, pool.delay_max_ns);
        let at = self.core.executor.now() + delay;
        self.core.executor.schedule(at, Some(self.node), job);
    }

    fn connect(&self, address: SocketAddr) -> LocalFuture<io::Result<Stream>> {
        Box::pin(network::connect(Rc::clone(&self.core), self.node, address))
    }

    fn listen(&self, address: SocketAddr) -> io::Result<Box<dyn Listener>> {
        let listener = SimListener::bind(&self.core, self.node, address)?;
        Ok(Box::new(listener))
    }
}
