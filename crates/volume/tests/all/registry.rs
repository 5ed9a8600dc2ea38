//! Clients that know only the manager: I/O servers register their addresses there, and change them.

#![allow(clippy::unwrap_used)]

use crate::common;

use common::{VOLUME_UNIT, noise, root};
use gannet_dst::volume::{VOLUME, identity, keys};
use gannet_fabric::Provider;
use gannet_meta::groups::Groups;
use gannet_meta::{MemoryStore, MetaStore, claims};
use gannet_runtime::{Buffer, sleep};
use gannet_sim::fabric::{FabricProfile, SimFabric};
use gannet_sim::store::{Disk, SimStore};
use gannet_sim::{Crash, Node, World};
use gannet_vfs::{CreateMode, SetAttributes, Stability, Status, Vfs};
use gannet_volume::client::{Addresses, Resolver, Siblings, VolumeFs, registered_io_servers};
use gannet_volume::io_server::IoServer;
use gannet_volume::manager::{ClaimError, Manager, Registration, Registry};
use gannet_volume::number_lease::NumberLease;
use gannet_volume::serve::Server;
use gannet_wire::volume::{Address, Chosen, Claimant, Hello, RegisterRecord, Role, Stripes};
use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

const MANAGER_PORT: u16 = 20050;

struct Bed {
    world: World,
    fabric: Rc<SimFabric>,
    manager: Node,
    metadata: Arc<MemoryStore>,
    /// The machine of all I/O servers, as when one machine serves several disks.
    host: Node,
    disks: Vec<Rc<Disk>>,
    client: Node,
}

fn no_names() -> Resolver {
    Rc::new(|_, _| Box::pin(async { Err(io::Error::other("no names here")) }))
}

impl Bed {
    fn new() -> Rc<Bed> {
        let world = World::new(1);
        let bed = Bed {
            fabric: SimFabric::new(&world, FabricProfile::default()),
            manager: world.add_node("manager"),
            metadata: Arc::default(),
            host: world.add_node("I/O servers"),
            disks: (0..3).map(|_| Disk::new(&world)).collect(),
            client: world.add_node("client"),
            world,
        };
        bed.start_manager();
        Rc::new(bed)
    }

    fn serve(&self, node: &Node, port: u16, server: Rc<Server>) {
        let provider: Rc<dyn Provider> = self.fabric.provider(node);
        let listener = provider.listen(SocketAddr::new(node.ip(), port)).unwrap();
        let task = async move { server.serve(provider, listener).await.unwrap() };
        node.runtime().spawn("server", Box::pin(task));
    }

    fn start_manager(&self) {
        let runtime = self.manager.runtime();
        let stripes = Stripes::everywhere(VOLUME_UNIT);
        let unknown = vec![Address::default(); self.disks.len()];
        let groups = Groups::of_servers(self.disks.len() as u32);
        let registry = Registry::new(String::from("a volume"), stripes.clone(), unknown, groups);
        let servers = registered_io_servers(
            self.manager.runtime(),
            self.fabric.provider(&self.manager),
            identity(Role::Manager),
            Rc::clone(&registry),
            self.manager.ip(),
            no_names(),
        );
        let store = Arc::clone(&self.metadata);
        let manager =
            Manager::open(self.manager.runtime(), store, keys(), servers, stripes).unwrap();
        let ruling = Rc::clone(&manager).rule(false);
        let ruling = async move { drop(ruling.await) };
        runtime.spawn("manager's term", Box::pin(ruling));
        let server = Server::new(runtime, VOLUME, keys(), registry.before(manager));
        self.serve(&self.manager, MANAGER_PORT, server.named(Hello::MANAGER));
    }

    fn start_io_server(&self, number: u32, port: u16) {
        let runtime = self.host.runtime();
        let store = SimStore::open(&self.disks[number as usize], self.host.runtime());
        let lease = NumberLease::wanted(self.host.runtime());
        let handler = IoServer::new(self.host.runtime(), store, number, keys()).unmanaged();
        let handler = handler.leased(Rc::clone(&lease));
        let server = Server::new(self.host.runtime(), VOLUME, keys(), handler);
        let server = server.leased(Rc::clone(&lease));
        self.serve(&self.host, port, server.named(Hello::io_server(number)));
        let address = Address {
            host: String::new(),
            port,
        };
        let registration = self.registration(number, address);
        let telling = async move { drop(registration.keep(&lease).await) };
        runtime.spawn("register", Box::pin(telling));
    }

    fn registration(
        &self,
        number: u32,
        address: Address,
    ) -> Registration<impl AsyncFn() -> io::Result<Vec<SocketAddr>> + use<>> {
        let manager = SocketAddr::new(self.manager.ip(), MANAGER_PORT);
        Registration {
            runtime: self.host.runtime(),
            provider: self.fabric.provider(&self.host),
            identity: identity(Role::IoServer),
            find: async move || Ok(vec![manager]),
            record: RegisterRecord { number, address },
            generation: Cell::new(0),
            claimant: Claimant {
                folder: [number as u8; 16],
                process: u128::from(self.host.runtime().random()).to_be_bytes(),
            },
        }
    }

    /// Asks the manager whether an empty folder may be that of this server.
    async fn claim(&self, number: u32) -> Result<(), ClaimError> {
        let asking = self.registration(number, Address::default());
        asking.claim(false).await.map(drop)
    }

    fn mount(&self, role: Role) -> VolumeFs {
        let addresses = Addresses {
            managers: vec![SocketAddr::new(self.manager.ip(), MANAGER_PORT)],
            io_servers: Vec::new(),
        };
        VolumeFs::new(
            self.client.runtime(),
            self.fabric.provider(&self.client),
            identity(role),
            addresses,
            Siblings::new(7),
        )
    }
}

async fn write(volume: &VolumeFs, name: &[u8], bytes: &[u8]) {
    let mode = CreateMode::Unchecked(SetAttributes::default());
    let made = volume.create(&root(), &volume.root(), name, &mode).await;
    let file = made.result.unwrap().handle;
    let (buffer, stable) = (Buffer::from_vec(bytes.to_vec()), Stability::FileSync);
    let caller = root();
    let written = volume.write(&caller, &file, 0, buffer, 0..bytes.len(), stable);
    written.await.result.unwrap();
}

/// Makes `file` on all servers: of itself it would avoid those that are away.
async fn make_everywhere(volume: &VolumeFs) {
    let plain = SetAttributes::default();
    let stripes = Stripes {
        unit: VOLUME_UNIT,
        on: Chosen::Listed(vec![0, 1, 2]),
        copies: None,
    };
    let (top, caller) = (volume.root(), root());
    let made = volume.create_striped(&caller, &top, b"file", &plain, stripes);
    made.await.unwrap();
}

async fn read(volume: &VolumeFs, name: &[u8], len: usize) -> Vec<u8> {
    let found = volume.lookup(&root(), &volume.root(), name).await;
    let (file, _) = found.0.unwrap();
    let (buffer, count) = (Buffer::zeroed(len), len as u32);
    let (read, buffer) = volume.read_into(&root(), &file, 0, count, buffer).await;
    assert_eq!(read.unwrap().count as usize, len);
    buffer.unwrap()[..].to_vec()
}

#[test]
fn servers_that_change_places_are_not_taken_for_each_other() {
    let bed = Bed::new();
    let (faults, stage) = (bed.world.faults(), Rc::clone(&bed));
    let done = bed.world.run(async move {
        let bed = stage;
        bed.start_io_server(0, 5000);
        bed.start_io_server(1, 5001);
        bed.start_io_server(2, 5002);
        let volume = bed.mount(Role::Client);
        let bytes = noise(300_000, 3);
        write(&volume, b"file", &bytes).await;
        assert_eq!(volume.volume().await.unwrap().servers[1].port, 5001);
        // All servers are killed, and two of them return with each other's address.
        faults.crash(bed.host.id(), Crash::Process);
        bed.start_io_server(2, 5002);
        bed.start_io_server(1, 5000);
        bed.start_io_server(0, 5001);
        assert!(read(&volume, b"file", bytes.len()).await == bytes);
        // The manager loses the addresses, and the servers register again.
        faults.crash(bed.manager.id(), Crash::Process);
        bed.start_manager();
        let late = bed.mount(Role::Client);
        assert!(read(&late, b"file", bytes.len()).await == bytes);
        write(&late, b"other", &bytes).await;
        assert!(read(&volume, b"other", bytes.len()).await == bytes);
    });
    done.unwrap();
}

#[test]
fn a_server_that_is_not_there_yet_is_waited_for() {
    let bed = Bed::new();
    let stage = Rc::clone(&bed);
    let done = bed.world.run(async move {
        let bed = stage;
        bed.start_io_server(0, 5000);
        bed.start_io_server(2, 5002);
        let late = Rc::clone(&bed);
        let runtime = bed.client.runtime();
        runtime.spawn(
            "a late server",
            Box::pin(async move {
                sleep(&late.client.runtime(), Duration::from_secs(5)).await;
                late.start_io_server(1, 5001);
            }),
        );
        let volume = bed.mount(Role::Client);
        let bytes = noise(100_000, 4);
        make_everywhere(&volume).await;
        write(&volume, b"file", &bytes).await;
        assert!(
            volume
                .cause(Status::Jukebox)
                .unwrap()
                .contains("I/O server 1")
        );
        assert!(read(&volume, b"file", bytes.len()).await == bytes);
    });
    done.unwrap();
}

#[test]
fn an_empty_folder_is_no_servers_that_has_data() {
    let bed = Bed::new();
    let (faults, stage) = (bed.world.faults(), Rc::clone(&bed));
    let done = bed.world.run(async move {
        let bed = stage;
        assert_eq!(bed.claim(0).await, Ok(()), "there are no files");
        assert_eq!(bed.claim(3).await, Err(ClaimError::NotKnown));
        bed.start_io_server(0, 5000);
        bed.start_io_server(1, 5001);
        bed.start_io_server(2, 5002);
        let volume = bed.mount(Role::Client);
        write(&volume, b"file", &noise(100_000, 5)).await;
        assert_eq!(bed.claim(0).await, Err(ClaimError::ServedBefore));
        assert_eq!(bed.claim(1).await, Err(ClaimError::ServedBefore));
        // The same holds after a restart of the manager in between.
        faults.crash(bed.manager.id(), Crash::Process);
        let late = Rc::clone(&bed);
        let starting = async move {
            sleep(&late.client.runtime(), Duration::from_secs(40)).await;
            late.start_manager();
        };
        let runtime = bed.client.runtime();
        runtime.spawn("a late manager", Box::pin(starting));
        assert_eq!(bed.claim(1).await, Err(ClaimError::ServedBefore));
        let removed = volume.remove(&root(), &volume.root(), b"file").await;
        removed.result.unwrap();
        assert_eq!(bed.claim(1).await, Ok(()));
    });
    done.unwrap();
}

#[test]
fn a_server_that_is_new_is_waited_for_whatever_files_were_made_before() {
    let bed = Bed::new();
    let (faults, stage) = (bed.world.faults(), Rc::clone(&bed));
    let done = bed.world.run(async move {
        let bed = stage;
        let noted = (bed.metadata).commit(&mut |it| claims::note_new(it, 0..2));
        noted.unwrap();
        faults.crash(bed.manager.id(), Crash::Process);
        bed.start_manager();
        bed.start_io_server(0, 5000);
        bed.start_io_server(2, 5002);
        let volume = bed.mount(Role::Client);
        make_everywhere(&volume).await;
        assert_eq!(bed.claim(0).await, Err(ClaimError::ServedBefore));
        assert_eq!(bed.claim(1).await, Ok(()));
        assert_eq!(bed.claim(1).await, Ok(()), "its answer may have been lost");
        let address = Address {
            host: String::new(),
            port: 5001,
        };
        bed.registration(1, address).register().await.unwrap();
        assert_eq!(bed.claim(1).await, Err(ClaimError::ServedBefore));
        bed.start_io_server(1, 5001);
        write(&volume, b"file", &noise(100_000, 6)).await;
        // The manager keeps all of that over a restart.
        faults.crash(bed.manager.id(), Crash::Process);
        bed.start_manager();
        assert_eq!(bed.claim(0).await, Err(ClaimError::ServedBefore));
        assert_eq!(bed.claim(1).await, Err(ClaimError::ServedBefore));
    });
    done.unwrap();
}
