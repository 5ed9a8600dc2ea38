//! A volume in a world: a manager with its store, I/O servers with their disks, all of which outlive their processes.

use gannet_fabric::Provider;
use gannet_iwarp::{IwarpConfig, IwarpProvider};
use gannet_meta::{
    JournalMemory, JournaledStore, MemoryStore, MetaStore, StoreError, Transaction, View, claims,
    namespace,
};
use gannet_sim::fabric::SimFabric;
use gannet_sim::nic::{Host, Profile};
use gannet_sim::store::{Disk, SimStore};
use gannet_sim::{Crash, Faults, World};
use gannet_sim::{Node, PoolProfile};
use gannet_volume::client::{Addresses, Siblings, VolumeFs, io_servers};
use gannet_volume::io_server::{IoServer, ServerPolicy};
use gannet_volume::link::{self, Identity, Link, Pool, Session};
use gannet_volume::manager::{Manager, TermError};
use gannet_volume::secret::{Secret, ServerKeys};
use gannet_volume::serve::Server;
use gannet_wire::volume::{Hello, Role, Stripes, Token};
use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

/// The identity of every simulated volume.
pub const VOLUME: Token = *b"a volume's token";
const PORT: u16 = 20050;
/// So few that a manager's halves fill up within a story.
const JOURNAL_HALF_BLOCKS: u32 = 16;

/// What the connections of a volume run over.
#[derive(Clone)]
pub enum Carrier {
    /// The fabric in memory.
    Memory(Rc<SimFabric>),
    /// The software RNIC over byte streams.
    Iwarp(IwarpConfig),
}

impl Carrier {
    /// The software RNIC as it is by default.
    pub fn iwarp() -> Carrier {
        Carrier::Iwarp(IwarpConfig::default())
    }

    /// A provider on `node`. After a crash take a new one.
    pub fn provider(&self, node: &Node) -> Rc<dyn Provider> {
        match self {
            Carrier::Memory(fabric) => fabric.provider(node),
            Carrier::Iwarp(config) => IwarpProvider::new(node.runtime(), config.clone()),
        }
    }
}

/// The machine of an I/O server.
pub struct IoNode {
    /// Where it runs.
    pub node: Node,
    /// What it keeps.
    pub disk: Rc<Disk>,
    /// The machine of a testbed that it is, if it is one.
    pub host: Option<Rc<Host>>,
    /// Files with numbers below this may have had objects on a disk that was lost.
    lost_below: Cell<u64>,
}

/// See the module.
pub struct Bed {
    carrier: Carrier,
    faults: Faults,
    /// Bytes of a stripe of new files.
    unit: u32,
    /// How I/O servers move bytes.
    policy: ServerPolicy,
    /// Where the manager runs.
    pub manager: Node,
    metadata: Metadata,
    /// Why the manager has ended by itself.
    ended: ManagerEnd,
    /// What the manager that was started last sees.
    seen: RefCell<Option<Arc<JournaledStore>>>,
    /// The I/O servers, by their numbers.
    pub io_servers: Vec<IoNode>,
}

/// What a manager keeps.
#[derive(Clone)]
pub struct Metadata {
    base: Arc<MemoryStore>,
    journal: JournalMemory,
}

impl Metadata {
    /// Another volume's worth of the same bytes, as a backup of a running manager has them.
    #[must_use]
    pub fn copy(&self) -> Metadata {
        Metadata {
            base: Arc::new(self.base.copy()),
            journal: JournalMemory::holding(self.journal.bytes()),
        }
    }
}

/// Why a manager has ended by itself, if it has.
pub type ManagerEnd = Rc<RefCell<Option<TermError>>>;

/// What its servers know.
pub fn keys() -> ServerKeys {
    ServerKeys::new(Secret::new([5; 16]))
}

/// Who connects as `role`.
pub fn identity(role: Role) -> Identity {
    Identity {
        role,
        volume: VOLUME,
        key: keys().between(role),
        classes: Default::default(),
    }
}

/// Makes `node` a machine of a testbed.
pub fn install(node: &Node, profile: &Profile) -> Rc<Host> {
    // What threads of a pool do is charged for where they do it.
    node.set_pool(PoolProfile {
        delay_min_ns: 0,
        delay_max_ns: 0,
    });
    Host::install(node, profile)
}

fn address(node: &Node) -> SocketAddr {
    SocketAddr::new(node.ip(), PORT)
}

impl Bed {
    /// Machines for a manager and `servers` I/O servers, none of which is started. New files have stripes of `unit`
    /// bytes on all servers.
    pub fn new(world: &World, carrier: Carrier, servers: usize, unit: u32) -> Bed {
        Bed {
            carrier,
            faults: world.faults(),
            unit,
            policy: ServerPolicy::default(),
            manager: world.add_node("manager"),
            metadata: Metadata {
                base: Arc::default(),
                journal: JournalMemory::new(VOLUME, JOURNAL_HALF_BLOCKS),
            },
            ended: Rc::default(),
            seen: RefCell::default(),
            io_servers: (0..servers)
                .map(|_| IoNode {
                    node: world.add_node("io server"),
                    disk: Disk::new(world),
                    host: None,
                    lost_below: Cell::default(),
                })
                .collect(),
        }
    }

    /// Makes all its machines those of a testbed, before anything is started, and has I/O servers move bytes as
    /// `policy` says.
    #[must_use]
    pub fn charged(mut self, profile: &Profile, policy: ServerPolicy) -> Bed {
        install(&self.manager, profile);
        for io_server in &mut self.io_servers {
            io_server.host = Some(install(&io_server.node, profile));
        }
        self.policy = policy;
        self
    }

    /// Starts everything.
    pub fn start(&self) {
        (0..self.io_servers.len()).for_each(|number| self.start_io_server(number));
        self.start_manager();
    }

    /// Starts the process of an I/O server. There must be one of this number, and it must not run.
    pub fn start_io_server(&self, number: usize) {
        let IoNode {
            node,
            disk,
            host,
            lost_below,
        } = &self.io_servers[number];
        let store = SimStore::open(disk, node.runtime());
        let store = match host {
            Some(host) => store.charged_to(host),
            None => store,
        };
        let handler = IoServer::with_policy(node.runtime(), store, keys(), self.policy);
        let handler = handler.having_lost(lost_below.get());
        self.serve(node, Server::new(node.runtime(), VOLUME, keys(), handler));
    }

    /// Starts an I/O server, which must not run, on an empty disk in place of the one that it had. The manager must
    /// run.
    pub fn start_on_a_new_disk(&self, number: usize) {
        let IoNode {
            disk, lost_below, ..
        } = &self.io_servers[number];
        disk.replace();
        let seen = self.seen.borrow();
        let noted = seen.as_ref().map(|store| {
            store.commit(&mut |transaction| {
                let loss = claims::note_lost(transaction, number as u32, 0);
                lost_below.set(loss.expect("metadata in memory can be read").below);
                Ok(())
            })
        });
        let noted = noted.transpose();
        noted.expect("metadata in memory can be written");
        self.start_io_server(number);
    }

    /// Starts the process of the manager, which must not run.
    pub fn start_manager(&self) {
        let (node, ended) = (&self.manager, Rc::clone(&self.ended));
        let store = self.run_manager(node, &self.metadata, false, ended);
        *self.seen.borrow_mut() = Some(store);
    }

    /// A copy of the metadata as it is now.
    pub fn copy_metadata(&self) -> Metadata {
        self.metadata.copy()
    }

    /// Starts a manager of this metadata on another machine, where none must run.
    pub fn start_rival(&self, node: &Node, metadata: &Metadata, force: bool) -> ManagerEnd {
        let ended = ManagerEnd::default();
        self.run_manager(node, metadata, force, Rc::clone(&ended));
        ended
    }

    fn run_manager(
        &self,
        node: &Node,
        metadata: &Metadata,
        force: bool,
        ended: ManagerEnd,
    ) -> Arc<JournaledStore> {
        let runtime = node.runtime();
        let addresses = self.io_servers.iter().map(|it| address(&it.node));
        let servers = io_servers(
            node.runtime(),
            self.provider(node),
            identity(Role::Manager),
            addresses.collect(),
        );
        let stripes = Stripes::everywhere(self.unit);
        let Metadata { base, journal } = metadata.clone();
        let store = JournaledStore::over(base, Box::new(journal), VOLUME);
        let store = Arc::new(store.expect("what was synced is there"));
        let seen = Arc::clone(&store) as Arc<dyn MetaStore>;
        let manager = Manager::open(node.runtime(), seen, keys(), servers, stripes)
            .expect("metadata in memory can be read");
        let ruling = Rc::clone(&manager);
        let ruling = async move { *ended.borrow_mut() = Some(ruling.rule(force).await) };
        runtime.spawn("manager's term", Box::pin(ruling));
        self.serve(node, Server::new(runtime, VOLUME, keys(), manager));
        store
    }

    /// What connections of `node` run over. After a crash take a new one.
    pub fn provider(&self, node: &Node) -> Rc<dyn Provider> {
        self.carrier.provider(node)
    }

    fn serve(&self, node: &Node, server: Rc<Server>) {
        let provider = self.provider(node);
        let listener = provider.listen(address(node));
        let listener = listener.expect("the last life's listener is gone");
        let task = async move {
            let served = server.serve(provider, listener).await;
            served.expect("simulated listeners do not break");
        };
        node.runtime().spawn("server", Box::pin(task));
    }

    /// Takes the manager down, and with it what its journal had not synced.
    pub fn kill_manager(&self, how: Crash) {
        self.faults.crash(self.manager.id(), how);
        self.metadata.journal.crash(&mut || false);
    }

    /// Takes an I/O server down, and with it what it had not synced.
    pub fn kill_io_server(&self, number: usize, how: Crash) {
        let IoNode { node, disk, .. } = &self.io_servers[number];
        self.faults.crash(node.id(), how);
        disk.crash();
    }

    /// A client on `node`.
    pub fn mount(&self, node: &Node) -> VolumeFs {
        self.mount_with(node, Siblings::new(node.runtime().random()))
    }

    /// One of several clients that stand for one server.
    pub fn mount_with(&self, node: &Node, siblings: Arc<Siblings>) -> VolumeFs {
        self.mount_by(node, &self.manager, siblings)
    }

    /// A client on `node` of the manager on another one.
    pub fn mount_of(&self, node: &Node, manager: &Node) -> VolumeFs {
        self.mount_by(node, manager, Siblings::new(node.runtime().random()))
    }

    fn mount_by(&self, node: &Node, manager: &Node, siblings: Arc<Siblings>) -> VolumeFs {
        let addresses = Addresses {
            manager: Some(address(manager)),
            io_servers: self.io_servers.iter().map(|it| address(&it.node)).collect(),
        };
        VolumeFs::new(
            node.runtime(),
            self.provider(node),
            identity(Role::Client),
            addresses,
            siblings,
        )
    }

    /// A connection of `node`'s to the manager, which must run.
    pub async fn manager_link(&self, node: &Node) -> Link {
        let (runtime, provider) = (node.runtime(), self.provider(node));
        let place = (address(&self.manager), Hello::MANAGER);
        let who = (identity(Role::Client), Session::new(&runtime));
        let link = link::connect(&runtime, &provider, &Pool::new(), place, who).await;
        link.expect("the manager runs")
    }

    /// What can happen to its machines.
    pub fn faults(&self) -> Faults {
        self.faults.clone()
    }

    /// The disk of the metadata is full, or no more.
    pub fn fill_metadata(&self, is_full: bool) {
        self.metadata.base.be_full(is_full);
    }

    /// Changes metadata behind the back of the manager that was started last, as damage does.
    pub fn damage(&self, work: &mut dyn FnMut(&mut dyn Transaction) -> Result<(), StoreError>) {
        let seen = self.seen.borrow();
        let done = seen.as_ref().map_or(Ok(()), |store| store.commit(work));
        done.expect("metadata in memory can be written");
    }

    /// How many promises of the manager that was started last are open.
    pub fn promises(&self) -> usize {
        let mut open = 0;
        let look = &mut |view: &dyn View| {
            let promises = namespace::promises(view);
            open = promises.expect("metadata in memory can be read").len();
        };
        let seen = self.seen.borrow();
        let read = seen.as_ref().map_or(Ok(()), |store| store.read(look));
        read.expect("metadata in memory can be read");
        open
    }

    /// Why a manager has ended by itself, if one has.
    pub fn manager_error(&self) -> Option<TermError> {
        self.ended.borrow().clone()
    }

    /// Objects on the disks of all I/O servers.
    pub fn objects(&self) -> usize {
        self.io_servers
            .iter()
            .map(|it| it.disk.files_in_folders())
            .sum()
    }
}
