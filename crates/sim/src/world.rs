//! A world: one seed, one clock, nodes, links between them, faults.

use crate::executor::{Executor, Halt};
use crate::network::{LinkProfile, Network};
use crate::nic::Host;
use crate::node::{Node, NodeState};
use crate::random::Random;
use crate::trace::{Trace, TraceDigest};
use std::cell::RefCell;
use std::fmt;
use std::future::Future;
use std::net::{IpAddr, Ipv4Addr};
use std::ops::Range;
use std::rc::Rc;
use thiserror::Error;

/// A node of a world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub(crate) u32);

/// The node that the world's own main task runs on; it has no network.
const OUTSIDE: NodeId = NodeId(0);

/// The kind of a node's crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crash {
    /// The process is killed: its kernel closes the connections, and peers are notified at once.
    Process,
    /// The power fails: peers are not notified until the node is up again and refuses their segments.
    Power,
}

/// The report of a world that stopped before its main task ended.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub struct Stopped {
    /// The reason: a deadlock, a panic with its message, or a bound that was reached.
    pub why: String,
    /// The seed that makes it happen again.
    pub seed: u64,
    /// Virtual nanoseconds since the start.
    pub at_ns: u64,
    /// Every task and what it waits for, one per line.
    pub tasks: String,
}

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Stopped {
            why,
            seed,
            at_ns,
            tasks,
        } = self;
        write!(f, "seed {seed}: {why} at {at_ns} ns\n{tasks}")
    }
}

/// A simulated world. Everything in it happens in an order that its seed decides.
pub struct World {
    core: Rc<Core>,
}

pub(crate) struct Core {
    pub(crate) seed: u64,
    pub(crate) executor: Rc<Executor>,
    pub(crate) random: Random,
    pub(crate) network: Network,
    pub(crate) nodes: RefCell<Vec<NodeState>>,
    trace: Trace,
}

impl World {
    /// The world of `seed`.
    pub fn new(seed: u64) -> World {
        World::build(seed, false)
    }

    /// The world of `seed`, whose trace is kept as text (see [`World::trace_text`]).
    pub fn traced(seed: u64) -> World {
        World::build(seed, true)
    }

    fn build(seed: u64, keep_trace: bool) -> World {
        let random = Random::new(seed);
        let outside = NodeState::new("world", IpAddr::V4(Ipv4Addr::UNSPECIFIED), &random);
        let core = Core {
            seed,
            executor: Rc::default(),
            network: Network::new(&random),
            nodes: RefCell::new(vec![outside]),
            trace: Trace::new(keep_trace),
            random,
        };
        World {
            core: Rc::new(core),
        }
    }

    /// A stream of randomness for the test itself.
    pub fn random(&self, label: &str) -> Random {
        Random::new(self.core.seed).fork(label)
    }

    /// Adds a machine; the n-th has the address 10.0.0.n.
    pub fn add_node(&self, name: &'static str) -> Node {
        let mut nodes = self.core.nodes.borrow_mut();
        let id = NodeId(u32::try_from(nodes.len()).expect("a test adds a handful of nodes"));
        let [_, high, middle, low] = id.0.to_be_bytes();
        let ip = IpAddr::V4(Ipv4Addr::new(10, high, middle, low));
        nodes.push(NodeState::new(name, ip, &self.core.random));
        Node::new(Rc::clone(&self.core), id)
    }

    /// Sets the profile of all links, those of earlier connections included.
    pub fn set_links(&self, profile: LinkProfile) {
        self.core.trace(format_args!("links {profile:?}"));
        self.core.network.profile.set(profile);
    }

    /// The profile of all links.
    pub fn links(&self) -> LinkProfile {
        self.core.network.profile.get()
    }

    /// Runs `main` and all nodes' tasks until `main` ends. A test may call it several times; time goes on.
    ///
    /// # Errors
    /// A panic anywhere, nothing left to happen, or no end in sight: see [`Stopped`].
    pub fn run<T: 'static>(&self, main: impl Future<Output = T> + 'static) -> Result<T, Stopped> {
        let result: Rc<RefCell<Option<T>>> = Rc::default();
        let place = Rc::clone(&result);
        let main = Box::pin(async move {
            let value = main.await;
            *place.borrow_mut() = Some(value);
        });
        self.core.executor.spawn(OUTSIDE, "main", main);
        let core = Rc::clone(&self.core);
        let halted = self.core.executor.run(
            || result.borrow().is_some(),
            |id, name| core.trace(format_args!("poll {name} #{id}")),
        );
        halted.map_err(|halt| self.stopped(halt))?;
        let value = result.borrow_mut().take();
        Ok(value.expect("the executor runs until the main task left its value"))
    }

    /// The clock of the world, in nanoseconds since its start.
    pub fn now_ns(&self) -> u64 {
        self.core.executor.now()
    }

    /// The trace so far, in two numbers.
    pub fn trace_digest(&self) -> TraceDigest {
        self.core.trace.digest()
    }

    /// The trace so far, one line per event; empty unless the world was made with [`World::traced`].
    pub fn trace_text(&self) -> String {
        self.core.trace.text()
    }

    /// The part of the world that its main task and tests drive it by.
    pub fn faults(&self) -> Faults {
        Faults {
            core: Rc::clone(&self.core),
        }
    }

    /// Every task and what it waits for, one per line.
    pub fn report(&self) -> String {
        self.core.executor.report(|id| self.core.node_name(id))
    }

    pub(crate) fn core(&self) -> &Rc<Core> {
        &self.core
    }

    fn stopped(&self, halt: Halt) -> Stopped {
        let why = match halt {
            Halt::Deadlock => String::from("deadlock: nothing is left to happen"),
            Halt::Endless(what) => format!("no end in sight: out of {what}"),
            Halt::Panic { task, message } => format!("panic in {task}: {message}"),
        };
        Stopped {
            why,
            seed: self.core.seed,
            at_ns: self.now_ns(),
            tasks: self.report(),
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.core.executor.clear();
    }
}

impl Core {
    /// Notes an event.
    pub(crate) fn trace(&self, event: fmt::Arguments<'_>) {
        self.trace.line(self.executor.now(), event);
    }

    pub(crate) fn node_name(&self, id: NodeId) -> String {
        self.with_node(id, |node| node.name.to_string())
    }

    pub(crate) fn with_node<T>(&self, id: NodeId, body: impl FnOnce(&mut NodeState) -> T) -> T {
        let mut nodes = self.nodes.borrow_mut();
        let node = nodes
            .get_mut(id.0 as usize)
            .expect("node ids come from add_node, and nodes are never removed");
        body(node)
    }

    /// The machine that a node's time is charged to; `None` for nodes whose work takes no time.
    pub(crate) fn host(&self, id: NodeId) -> Option<Rc<Host>> {
        self.with_node(id, |node| node.host.clone())
    }

    pub(crate) fn is_up(&self, id: NodeId) -> bool {
        self.with_node(id, |node| node.up)
    }

    pub(crate) fn node_at(&self, ip: IpAddr) -> Option<NodeId> {
        let nodes = self.nodes.borrow();
        let index = nodes.iter().skip(1).position(|node| node.ip == ip)?;
        u32::try_from(index + 1).ok().map(NodeId)
    }
}

/// Injects faults into a world, and ends them.
#[derive(Clone)]
pub struct Faults {
    core: Rc<Core>,
}

impl Faults {
    /// Waits `duration` of virtual time, outside of any node.
    pub async fn sleep(&self, duration: std::time::Duration) {
        let wait = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let deadline = self.core.executor.now().saturating_add(wait);
        self.core.executor.sleep_until(deadline).await;
    }

    /// The clock of the world, in nanoseconds since its start.
    pub fn now_ns(&self) -> u64 {
        self.core.executor.now()
    }

    /// Adds a line to the trace.
    pub fn note(&self, event: fmt::Arguments<'_>) {
        self.core.trace(event);
    }

    /// Cuts the network between two nodes: segments are held, not lost, until [`Faults::heal`].
    pub fn partition(&self, one: NodeId, other: NodeId) {
        self.core
            .trace(format_args!("partition {} {}", one.0, other.0));
        self.core.network.partition(one, other);
    }

    /// Joins two nodes again; held segments arrive within a retransmission time.
    pub fn heal(&self, one: NodeId, other: NodeId) {
        self.core.trace(format_args!("heal {} {}", one.0, other.0));
        self.core.network.heal(one, other);
        self.core.network.drain_held(&self.core);
    }

    /// Breaks one connection of `node`, which the seed chooses; false when it has none.
    pub fn reset_a_connection(&self, node: NodeId) -> bool {
        self.core.network.reset_one(&self.core, node)
    }

    /// Flips a bit of the next bytes that leave on one stream of `node`. The seed chooses it among the streams that
    /// have no port in `spared`; false when there is none. The first 1024 bytes of each direction stay as they are,
    /// because MPA's set-up has no checksum.
    pub fn flip_a_bit(&self, node: NodeId, spared: &Range<u16>) -> bool {
        self.core.network.flip_one(&self.core, node, spared)
    }

    /// Makes the wall clock of a node jump: from now on it is `offset_s` seconds off, ahead if positive. The clock of
    /// its timers does not change.
    pub fn set_clock(&self, node: NodeId, offset_s: i64) {
        self.core
            .trace(format_args!("clock of {} is {offset_s} s off", node.0));
        self.core
            .with_node(node, |node| node.clock_offset_s = offset_s);
    }

    /// Takes a node down: its tasks, timers, connections and listeners are dropped.
    pub fn crash(&self, node: NodeId, how: Crash) {
        self.core.trace(format_args!("crash {} {how:?}", node.0));
        if how == Crash::Power {
            // Before its tasks are dropped: a node without power sends no end or reset for its connections.
            self.core.with_node(node, |node| node.up = false);
        }
        // Before `kill`: a destructor that spawns a task on the old runtime would put it into the new incarnation.
        self.core.with_node(node, |node| node.incarnation += 1);
        self.core.executor.kill(node);
        self.core.network.forget_listeners(&self.core, node);
    }

    /// Stops all tasks of a node until [`Faults::thaw`] or a crash, as for a stopped process. Its kernel and its clock
    /// go on meanwhile, and its connections last.
    pub fn freeze(&self, node: NodeId) {
        self.core.trace(format_args!("freeze {}", node.0));
        self.core.executor.freeze(node);
    }

    /// Lets a frozen node go on, with all tasks that became due meanwhile.
    pub fn thaw(&self, node: NodeId) {
        self.core.trace(format_args!("thaw {}", node.0));
        self.core.executor.thaw(node);
    }

    /// Brings a node up again, with nothing running on it.
    pub fn restart(&self, node: NodeId) {
        self.core.trace(format_args!("restart {}", node.0));
        self.core.with_node(node, |node| node.up = true);
        self.core.network.drain_held(&self.core);
    }
}
