//! A volume in a world: a manager with its store, I/O servers with their disks, all of which outlive their processes.
//!
//! Servers start as in production ([`gannet_volume::host`]): I/O servers claim their disks and register with the
//! manager, and clients ask the manager where they are.

mod disk;
mod engine;
mod managers;

pub use disk::DiskError;
pub use engine::EngineWay;
pub use managers::{ManagerNode, Managers};

use disk::SimDisk;
use gannet_fabric::{Listener, Provider};
use gannet_iwarp::{IwarpConfig, IwarpProvider};
use gannet_meta::groups::{Groups, begin_groups, groups, put_group};
use gannet_meta::{
    JournalMemory, JournaledStore, MemoryStore, MetaStore, StoreError, Transaction, View, claims,
    namespace,
};
use gannet_runtime::{Handle, sleep};
use gannet_session::Budget;
use gannet_sim::fabric::SimFabric;
use gannet_sim::nic::{Host, Profile};
use gannet_sim::store::{Disk, SimStore};
use gannet_sim::{Crash, Faults, World};
use gannet_sim::{Node, PoolProfile};
use gannet_volume::client::{Addresses, ManagerFinder, Resolver, Siblings, VolumeFs};
use gannet_volume::host::{
    self, Claim, ClaimFailure, Claimed, HostCounters, IoServerRole, ManagerRole, PeerAccess, Port,
};
use gannet_volume::io_server::{OWNER_FILE, ServerPolicy};
use gannet_volume::link::{self, Identity, Link, Pool, ServerPlace, Session};
use gannet_volume::manager::{GroupsDescription, TermError};
use gannet_volume::secret::{CurrentKeys, Secret, ServerKeys};
use gannet_wire::volume::{
    Address, Copies, Member, MemberState, RegisterRecord, Role, Stripes, Token,
};
use std::cell::{Cell, Ref, RefCell};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// The identity of every simulated volume.
pub const VOLUME: Token = *b"a volume's token";
const PORT: u16 = 20050;
/// Blocks of each half of a manager's journal, so few that a half fills up within one simulation.
const JOURNAL_HALF_BLOCKS: u32 = 16;
/// The pause before the process of an I/O server whose disk failed starts again, as under a service manager.
const RESTART_PAUSE: Duration = Duration::from_secs(1);

/// The provider of a volume's connections.
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
    /// The machine of its process.
    pub node: Node,
    /// Its disk, which lasts over crashes of its process.
    pub disk: Rc<Disk>,
    /// The machine of a testbed that it is, if it is one.
    pub host: Option<Rc<Host>>,
    /// The port at which its process listens; a restarted process may listen at another.
    port: Cell<u16>,
    /// Its operator has said that its former disk is lost.
    has_lost_disk: Cell<bool>,
    /// Why its last process does not serve.
    ended: Rc<RefCell<Option<ClaimFailure<DiskError>>>>,
}

/// The servers of one volume in a world, with the means to start and stop each. Its disks and the manager's store last
/// over crashes.
pub struct Bed {
    carrier: Carrier,
    faults: Faults,
    /// Bytes of a stripe of new files.
    unit: u32,
    /// How I/O servers move bytes.
    policy: ServerPolicy,
    /// The machine of the manager.
    pub manager: Node,
    /// Where managers are, if not on that machine alone.
    several: RefCell<Vec<SocketAddr>>,
    /// Managers on other machines of which the I/O servers have been told.
    rivals: Rc<RefCell<Vec<SocketAddr>>>,
    metadata: Metadata,
    /// Why the manager has ended by itself.
    ended: ManagerEnd,
    /// The metadata store of the manager that was started last.
    seen: RefCell<Option<Arc<JournaledStore>>>,
    /// The I/O servers, by their numbers.
    pub io_servers: Vec<IoNode>,
}

/// The durable metadata of a manager.
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

/// The keys of the volume's servers.
pub fn keys() -> ServerKeys {
    ServerKeys::new(Secret::new([5; 16]))
}

/// The identity for connections as `role`.
pub fn identity(role: Role) -> Identity {
    Identity {
        role,
        volume: VOLUME,
        key: keys().between(role).into(),
        classes: Default::default(),
    }
}

/// Makes `node` a machine of a testbed.
pub fn install(node: &Node, profile: &Profile) -> Rc<Host> {
    // Work of pool threads is charged where it is done, so the pool itself adds no delay.
    node.set_pool(PoolProfile {
        delay_min_ns: 0,
        delay_max_ns: 0,
    });
    Host::install(node, profile)
}

fn address(node: &Node) -> SocketAddr {
    SocketAddr::new(node.ip(), PORT)
}

/// The settings that all servers on a machine share.
fn host(node: &Node) -> host::Host {
    host::Host {
        runtime: node.runtime(),
        volume: VOLUME,
        keys: CurrentKeys::new(keys()),
        classes: Default::default(),
        budget: Budget::default(),
        counters: HostCounters::default(),
    }
}

/// A resolver without names: machines of a simulation have addresses alone.
fn no_names() -> Resolver {
    Rc::new(|_, _| Box::pin(async { Err(io::Error::other("no names here")) }))
}

fn accepting(provider: Rc<dyn Provider>, listener: Box<dyn Listener>) -> Port {
    let listen = Box::new(move || Ok(listener));
    Port { provider, listen }
}

impl Bed {
    /// Machines for a manager and `servers` I/O servers, none of which is started. New files have stripes of `unit`
    /// bytes on all servers.
    pub fn new(world: &World, carrier: Carrier, servers: usize, unit: u32) -> Bed {
        // The others are volumes of an earlier release.
        let copies = servers.is_multiple_of(2).then_some(Copies::One);
        Bed::with_groups(world, carrier, servers, unit, copies)
    }

    /// As [`Bed::new`], with groups of so many members.
    pub fn with_groups(
        world: &World,
        carrier: Carrier,
        servers: usize,
        unit: u32,
        copies: Option<Copies>,
    ) -> Bed {
        let base = Arc::new(MemoryStore::default());
        let count = servers as u32;
        let noted = base.commit(&mut |it| {
            claims::note_all_new(it, count)?;
            match copies {
                Some(copies) => begin_groups(it, &Groups::new(vec![]), 0..count, copies),
                None => Ok(()),
            }
        });
        noted.expect("metadata in memory can be written");
        Bed {
            carrier,
            faults: world.faults(),
            unit,
            policy: ServerPolicy::default(),
            manager: world.add_node("manager"),
            several: RefCell::default(),
            rivals: Rc::default(),
            metadata: Metadata {
                base,
                journal: JournalMemory::new(VOLUME, JOURNAL_HALF_BLOCKS),
            },
            ended: Rc::default(),
            seen: RefCell::default(),
            io_servers: (0..servers)
                .map(|_| IoNode {
                    node: world.add_node("io server"),
                    disk: Disk::new(world),
                    host: None,
                    port: Cell::new(PORT),
                    has_lost_disk: Cell::new(false),
                    ended: Rc::default(),
                })
                .collect(),
        }
    }

    /// Makes all its machines those of a testbed, before anything is started. I/O servers move bytes by `policy`.
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

    /// Starts the process of the I/O server `number`, which must not run. It serves once its claim of the disk is
    /// admitted: for an empty disk by the manager.
    pub fn start_io_server(&self, number: usize) {
        self.run_io_server(number, false);
    }

    /// Starts an I/O server as [`Bed::start_io_server`] does, which listens at `port` from now on.
    pub fn start_io_server_at(&self, number: usize, port: u16) {
        self.io_servers[number].port.set(port);
        self.run_io_server(number, false);
    }

    /// Starts an I/O server, which must not run. Its operator reports the disk before the present one as lost.
    pub fn start_having_lost_a_disk(&self, number: usize) {
        self.run_io_server(number, true);
    }

    /// Starts an I/O server, which must not run, on an empty disk. Its operator reports the former disk as lost.
    pub fn start_on_a_new_disk(&self, number: usize) {
        self.start_on_a_new_disk_of(number, &self.io_servers[number].node);
    }

    /// As [`Bed::start_on_a_new_disk`], on another machine.
    pub fn start_on_a_new_disk_of(&self, number: usize, node: &Node) {
        self.io_servers[number].disk.replace();
        self.io_servers[number].has_lost_disk.set(true);
        self.run_io_server_on(number, node, true);
    }

    /// Starts an I/O server on another machine, to which its disk was moved. Its former process may still run there.
    pub fn start_io_server_on(&self, number: usize, node: &Node) {
        self.run_io_server_on(number, node, false);
    }

    fn run_io_server(&self, number: usize, is_lost: bool) {
        self.run_io_server_on(number, &self.io_servers[number].node, is_lost);
    }

    fn run_io_server_on(&self, number: usize, node: &Node, is_lost: bool) {
        let io_node = &self.io_servers[number];
        io_node.ended.replace(None);
        // Its operator says so until it has taken the new disk.
        let is_taken = io_node.disk.has_in_root(OWNER_FILE.as_bytes());
        let is_lost = is_lost || (io_node.has_lost_disk.get() && !is_taken);
        let process = IoProcess {
            number: number as u32,
            is_lost,
            host: host(node),
            carrier: self.carrier.clone(),
            node: node.clone(),
            at: SocketAddr::new(node.ip(), io_node.port.get()),
            managers: self.managers(),
            rivals: Rc::clone(&self.rivals),
            disk: Rc::clone(&io_node.disk),
            machine: io_node.host.clone(),
            policy: self.policy,
        };
        let ended = Rc::clone(&io_node.ended);
        let running = async move { *ended.borrow_mut() = Some(process.run().await) };
        node.runtime().spawn("I/O server", Box::pin(running));
    }

    /// Starts the process of the manager, which must not run.
    pub fn start_manager(&self) {
        self.start_manager_of(self.io_servers.len());
    }

    /// As [`Bed::start_manager`], with a description that has only the first `count` I/O servers: others are added
    /// later.
    pub fn start_manager_of(&self, count: usize) {
        let (node, ended) = (&self.manager, Rc::clone(&self.ended));
        let unknown = vec![Address::default(); count];
        let store = self.run_manager(node, &self.metadata, unknown, false, ended);
        *self.seen.borrow_mut() = Some(store);
    }

    /// A copy of the metadata as it is now.
    pub fn copy_metadata(&self) -> Metadata {
        self.metadata.copy()
    }

    /// I/O servers also look for a manager on this machine from now on.
    pub fn tell_io_servers_of(&self, node: &Node) {
        self.rivals.borrow_mut().push(address(node));
    }

    /// Starts a manager of this metadata on another machine, where none must run. I/O servers do not register there:
    /// its description says where they are.
    pub fn start_rival(&self, node: &Node, metadata: &Metadata, force: bool) -> ManagerEnd {
        let ended = ManagerEnd::default();
        let said = self.io_servers.iter().map(|it| Address {
            host: it.node.ip().to_string(),
            port: it.port.get(),
        });
        self.run_manager(node, metadata, said.collect(), force, Rc::clone(&ended));
        ended
    }

    fn run_manager(
        &self,
        node: &Node,
        metadata: &Metadata,
        io_servers: Vec<Address>,
        force_term: bool,
        ended: ManagerEnd,
    ) -> Arc<JournaledStore> {
        let Metadata { base, journal } = metadata.clone();
        let store = JournaledStore::over(base, Box::new(journal), VOLUME);
        let store = Arc::new(store.expect("what was synced is there"));
        self.serve_names(node, &store, io_servers, force_term, ended);
        store
    }

    /// Serves the names in a store, which a process on this machine has opened.
    fn serve_names(
        &self,
        node: &Node,
        store: &Arc<JournaledStore>,
        io_servers: Vec<Address>,
        force_term: bool,
        ended: ManagerEnd,
    ) {
        let counted = host::check_servers_count(&**store, io_servers.len() as u32);
        counted.expect("metadata in memory can be written");
        let provider = self.provider(node);
        let listener = provider.listen(address(node));
        let listener = listener.expect("the last incarnation's listener is gone");
        let role = ManagerRole {
            name: String::from("volume"),
            stripes: Stripes::everywhere(self.unit),
            metadata: Arc::clone(store) as Arc<dyn MetaStore>,
            io_servers,
            here: node.ip(),
            resolver: no_names(),
            port: accepting(provider, listener),
            force_term,
            groups: GroupsDescription::default(),
            has_io_servers: Vec::new(),
        };
        let manager = host(node).start_manager(role, move |error| {
            *ended.borrow_mut() = Some(error);
        });
        manager.expect("metadata in memory can be read");
    }

    /// Where managers are.
    fn managers(&self) -> Vec<SocketAddr> {
        let several = self.several.borrow();
        if several.is_empty() {
            return vec![address(&self.manager)];
        }
        several.clone()
    }

    /// A provider for connections of `node`. After a crash take a new one.
    pub fn provider(&self, node: &Node) -> Rc<dyn Provider> {
        self.carrier.provider(node)
    }

    /// Takes the manager down; the unsynced part of its journal is lost.
    pub fn kill_manager(&self, how: Crash) {
        self.faults.crash(self.manager.id(), how);
        self.metadata.journal.crash(&mut || false);
    }

    /// Takes an I/O server down; its unsynced data may be lost.
    pub fn kill_io_server(&self, number: usize, how: Crash) {
        let IoNode { node, disk, .. } = &self.io_servers[number];
        self.faults.crash(node.id(), how);
        disk.crash();
    }

    /// Whether other servers have taken over all groups of this one, by the metadata.
    pub fn is_replaced(&self, server: u32) -> bool {
        let servers = self.io_servers.len() as u32;
        let mut has_all = false;
        let look = &mut |view: &dyn View| {
            let known = groups(view, servers).expect("the groups can be read");
            let mut records = known.records().iter().filter(|it| it.has(server));
            has_all = records.all(|record| {
                let members = record.members.iter();
                let mut in_ones = members.filter(|it| it.state == MemberState::In);
                in_ones.next().is_some_and(|it| it.server != server) && in_ones.next().is_none()
            });
        };
        let seen = self.seen.borrow();
        let read = seen.as_ref().map_or(Ok(()), |store| store.read(look));
        read.expect("metadata in memory can be read");
        has_all
    }

    /// A group of two of which not both members are in, by the metadata.
    pub fn group_that_lacks_a_copy(&self) -> Option<String> {
        let servers = self.io_servers.len() as u32;
        let mut lacking = None;
        let look = &mut |view: &dyn View| {
            let known = groups(view, servers).expect("the groups can be read");
            let is_in = |member: &Member| member.state == MemberState::In;
            let mut records = (0..).zip(known.records());
            let found = records.find(|(_, record)| !record.members.iter().all(is_in));
            lacking = found.map(|(number, record)| format!("{number}: {record}"));
        };
        let seen = self.seen.borrow();
        let read = seen.as_ref().map_or(Ok(()), |store| store.read(look));
        read.expect("metadata in memory can be read");
        lacking
    }

    /// Makes the other member of each group the primary: as an operator could, while the manager is down.
    pub fn turn_groups(&self) {
        self.kill_manager(Crash::Process);
        let servers = self.io_servers.len() as u32;
        self.damage(&mut |it| {
            let known = groups(it, servers).expect("the groups can be read");
            for (number, record) in (0..).zip(known.records()) {
                let mut turned = record.clone();
                turned.epoch += 1;
                turned.members.reverse();
                put_group(it, number, &turned)?;
            }
            Ok(())
        });
        self.start_manager();
    }

    /// A client on `node`.
    pub fn mount(&self, node: &Node) -> VolumeFs {
        self.mount_with(node, Siblings::new(node.runtime().random()))
    }

    /// One of several clients that stand for one server.
    pub fn mount_with(&self, node: &Node, siblings: Arc<Siblings>) -> VolumeFs {
        self.mount_by(node, self.managers(), siblings)
    }

    /// A client on `node` of the manager on another one.
    pub fn mount_of(&self, node: &Node, manager: &Node) -> VolumeFs {
        let siblings = Siblings::new(node.runtime().random());
        self.mount_by(node, vec![address(manager)], siblings)
    }

    fn mount_by(
        &self,
        node: &Node,
        managers: Vec<SocketAddr>,
        siblings: Arc<Siblings>,
    ) -> VolumeFs {
        let addresses = Addresses {
            managers,
            io_servers: Vec::new(),
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
        let manager = ServerPlace::manager(address(&self.manager));
        let (identity, session) = (identity(Role::Client), Session::new(&runtime));
        let pool = Pool::new();
        let link = link::connect(&runtime, &provider, &pool, manager, identity, session);
        link.await.expect("the manager runs")
    }

    /// The faults that a scenario can inject into its machines.
    pub fn faults(&self) -> Faults {
        self.faults.clone()
    }

    /// Makes the disk of the metadata full, or gives it room again.
    pub fn fill_metadata(&self, is_full: bool) {
        self.metadata.base.be_full(is_full);
    }

    /// Changes metadata behind the back of the manager that was started last, as damage does.
    pub fn damage(&self, work: &mut dyn FnMut(&mut dyn Transaction) -> Result<(), StoreError>) {
        let seen = self.seen.borrow();
        let done = seen.as_ref().map_or(Ok(()), |store| store.commit(work));
        done.expect("metadata in memory can be written");
    }

    /// How many intents of the manager that was started last are open.
    pub fn intents(&self) -> usize {
        let mut open = 0;
        let look = &mut |view: &dyn View| {
            let intents = namespace::intents(view);
            open = intents.expect("metadata in memory can be read").len();
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

    /// Why the last process of an I/O server does not serve its disk, if it has ended by itself.
    pub fn io_server_error(&self, number: usize) -> Option<Ref<'_, ClaimFailure<DiskError>>> {
        let ended = self.io_servers[number].ended.borrow();
        Ref::filter_map(ended, Option::as_ref).ok()
    }

    /// The first I/O server that has ended by itself, and why.
    pub fn ended_io_server(&self) -> Option<String> {
        let mut numbers = 0..self.io_servers.len();
        numbers.find_map(|number| {
            let error = self.io_server_error(number)?;
            Some(format!("I/O server {number} does not serve: {}", *error))
        })
    }

    /// Objects on the disks of all I/O servers.
    pub fn objects(&self) -> usize {
        self.io_servers
            .iter()
            .map(|it| it.disk.files_in_folders())
            .sum()
    }
}

/// The process of an I/O server.
struct IoProcess {
    number: u32,
    /// True if its operator reports the disk before this one as lost.
    is_lost: bool,
    host: host::Host,
    carrier: Carrier,
    node: Node,
    at: SocketAddr,
    managers: Vec<SocketAddr>,
    rivals: Rc<RefCell<Vec<SocketAddr>>>,
    disk: Rc<Disk>,
    machine: Option<Rc<Host>>,
    policy: ServerPolicy,
}

impl IoProcess {
    /// Runs until it may not serve, and again after its disk has failed.
    async fn run(self) -> ClaimFailure<DiskError> {
        loop {
            match self.serve().await {
                ClaimFailure::Disk(DiskError::Status(_)) => {
                    sleep(&self.host.runtime, RESTART_PAUSE).await;
                }
                failure => return failure,
            }
        }
    }

    /// The token of its folder on its machine.
    fn folder(&self) -> Token {
        let machine = self.at.ip().to_string();
        host::folder_token(&[machine.as_bytes(), &self.number.to_be_bytes()])
    }

    fn find_managers(&self) -> ManagerFinder {
        let (managers, rivals) = (self.managers.clone(), Rc::clone(&self.rivals));
        Rc::new(move || {
            let all = [&managers[..], &rivals.borrow()].concat();
            Box::pin(std::future::ready(Ok(all)))
        })
    }

    /// Claims the disk and serves it; returns the reason if that cannot be.
    async fn serve(&self) -> ClaimFailure<DiskError> {
        let runtime = Handle::clone(&self.host.runtime);
        let provider = self.carrier.provider(&self.node);
        let listener = provider.listen(self.at);
        let listener = listener.expect("the last incarnation's listener is gone");
        // Without a host: the manager takes that from the connection.
        let own = RegisterRecord {
            number: self.number,
            address: Address {
                host: String::new(),
                port: self.at.port(),
            },
        };
        let find_managers = self.find_managers();
        let find = async move || find_managers().await;
        let registration = self
            .host
            .registration(Rc::clone(&provider), find, own, self.folder());
        let claim = Claim {
            number: self.number,
            is_lost: self.is_lost,
            disk: SimDisk::open(self.number, &self.disk, Handle::clone(&runtime)),
        };
        let claimed = match claim.take(None, runtime.wall_clock()).await {
            Ok(Claimed::Asks) => claim.ask_soon(&registration).await,
            taken => taken,
        };
        let claimed = match claimed {
            Ok(claimed) => claimed,
            Err(failure) => return failure,
        };
        let store = SimStore::open(&self.disk, runtime);
        let role = IoServerRole {
            claim,
            claimed,
            store: match &self.machine {
                Some(machine) => store.charged_to(machine),
                None => store,
            },
            policy: self.policy,
            port: accepting(Rc::clone(&provider), listener),
            registration: Some(registration),
            peers: PeerAccess {
                provider,
                find_manager: self.find_managers(),
                resolver: no_names(),
            },
        };
        let (sender, failed) = tokio::sync::oneshot::channel();
        self.host.start_io_server(role, move |failure| {
            // The process has ended otherwise.
            let _ = sender.send(failure);
        });
        match failed.await {
            Ok(failure) => failure,
            Err(_) => std::future::pending().await,
        }
    }
}
