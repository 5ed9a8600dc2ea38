//! I/O servers in the simulator without a manager, and the shared parts of several tests.
#![allow(dead_code)] // each test uses a part
#![allow(clippy::unwrap_used)]

use gannet_dst::volume::{VOLUME, keys};
use gannet_fabric::Provider;
use gannet_runtime::Buffer;
use gannet_sim::fabric::{FabricProfile, SimFabric};
use gannet_sim::nic::{Host, Profile};
use gannet_sim::store::{Disk, SimStore};
use gannet_sim::{Node, World};
pub(crate) use gannet_testing::noise;
use gannet_volume::client::TransferPolicy;
use gannet_volume::client::data::{DataError, Mover, Request, States, Target};
use gannet_volume::io_server::IoServer;
use gannet_volume::link::{self, Identity, Pool, ServerPlace, Session};
use gannet_volume::secret::ServerKeys;
use gannet_volume::serve::Server;
use gannet_wire::volume::{Capability, Placement, Role, Shape, Stability};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

pub(crate) const PORT: u16 = 20050;

/// I/O servers on machines of their own, and a client.
pub(crate) struct Bed {
    pub(crate) world: World,
    pub(crate) fabric: Rc<SimFabric>,
    pub(crate) servers: Vec<Node>,
    pub(crate) disks: Vec<Rc<Disk>>,
    profile: Option<&'static Profile>,
    pub(crate) client: Node,
}

impl Bed {
    /// A bed of machines whose work takes no time.
    pub(crate) fn new(seed: u64, servers: usize) -> Bed {
        Bed::of(seed, servers, None)
    }

    /// A bed of machines with the costs of `profile`.
    pub(crate) fn of(seed: u64, servers: usize, profile: Option<&'static Profile>) -> Bed {
        let world = World::new(seed);
        let fabric = SimFabric::new(
            &world,
            FabricProfile {
                segment_len: 4 << 10,
                ..FabricProfile::default()
            },
        );
        let disks: Vec<Rc<Disk>> = (0..servers).map(|_| Disk::new(&world)).collect();
        let mut bed = Bed {
            client: world.add_node("client"),
            servers: Vec::new(),
            fabric,
            disks,
            profile,
            world,
        };
        bed.install(&bed.client);
        bed.servers = (0..)
            .zip(&bed.disks)
            .map(|(number, disk)| bed.serve(number, disk))
            .collect();
        bed
    }

    fn install(&self, node: &Node) -> Option<Rc<Host>> {
        self.profile.map(|profile| Host::install(node, profile))
    }

    /// Adds one more machine.
    pub(crate) fn add_client(&self) -> Node {
        let node = self.world.add_node("client");
        self.install(&node);
        node
    }

    fn serve(&self, number: u32, disk: &Rc<Disk>) -> Node {
        let node = self.world.add_node("io server");
        let host = self.install(&node);
        let mut store = SimStore::open(disk, node.runtime());
        if let Some(host) = host {
            store = store.charged_to(&host);
        }
        let handler = IoServer::new(node.runtime(), store, number, keys()).unmanaged();
        let server = Server::new(node.runtime(), VOLUME, keys(), handler);
        let provider: Rc<dyn Provider> = self.fabric.provider(&node);
        let listener = provider.listen(SocketAddr::new(node.ip(), PORT)).unwrap();
        let task = async move { server.serve(provider, listener).await.unwrap() };
        node.runtime().spawn("io server", Box::pin(task));
        node
    }

    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        let address = |node: &Node| SocketAddr::new(node.ip(), PORT);
        self.servers.iter().map(address).collect()
    }

    /// Runs a test with connections to all servers, for files with this stripe unit.
    pub(crate) fn run<F>(self, unit: u32, story: impl FnOnce(Vec<Target>) -> F + 'static)
    where
        F: Future<Output = ()> + 'static,
    {
        let addresses = self.addresses();
        let (fabric, client) = (self.fabric, self.client);
        let done = self.world.run(async move {
            let targets = connect_all(&fabric, &client, &addresses, unit).await;
            story(targets).await;
        });
        done.unwrap();
    }
}

pub(crate) fn identity(keys: ServerKeys) -> Identity {
    Identity {
        role: Role::Client,
        volume: VOLUME,
        key: keys.for_clients().into(),
        classes: Default::default(),
    }
}

pub(crate) async fn connect_all(
    fabric: &Rc<SimFabric>,
    client: &Node,
    addresses: &[SocketAddr],
    unit: u32,
) -> Vec<Target> {
    let session = Session::new(&client.runtime());
    connect_as(session, fabric, client, addresses, unit).await
}

pub(crate) async fn connect_as(
    session: Session,
    fabric: &Rc<SimFabric>,
    client: &Node,
    addresses: &[SocketAddr],
    unit: u32,
) -> Vec<Target> {
    let provider: Rc<dyn Provider> = fabric.provider(client);
    let (pool, runtime) = (Pool::new(), client.runtime());
    let mut targets = Vec::new();
    for (index, address) in addresses.iter().enumerate() {
        let server = ServerPlace::io_server(*address, index as u32);
        let (identity, session) = (identity(keys()), session);
        let link = link::connect(&runtime, &provider, &pool, server, identity, session);
        targets.push(Target {
            server: index as u32,
            group: index as u32,
            link: link.await.unwrap(),
            placement: Placement {
                unit,
                width: addresses.len() as u32,
                index: index as u32,
            },
        });
    }
    targets
}

pub(crate) fn capability(file: u64) -> Capability {
    let rights = Capability::READ | Capability::WRITE;
    keys().grant(0, file, rights, Duration::from_secs(u64::from(u32::MAX)))
}

pub(crate) fn contiguous(offset: u64, len: usize) -> Shape {
    Shape::contiguous(offset, u32::try_from(len).unwrap()).unwrap()
}

/// A request for the bytes of a file, to or from the start of memory.
pub(crate) fn request(offset: u64, len: usize) -> Request {
    Request {
        capability: capability(1),
        file: contiguous(offset, len),
        memory: contiguous(0, len),
    }
}

pub(crate) fn mover(targets: &[Target]) -> Mover {
    Mover::new(
        targets[0].link.endpoint().domain(),
        TransferPolicy::default(),
    )
}

pub(crate) async fn write(targets: &[Target], offset: u64, bytes: Vec<u8>) -> States {
    try_write(targets, offset, bytes).await.unwrap()
}

pub(crate) async fn try_write(
    targets: &[Target],
    offset: u64,
    bytes: Vec<u8>,
) -> Result<States, DataError> {
    let request = request(offset, bytes.len());
    let mut buffer = Buffer::from_vec(bytes);
    mover(targets)
        .write(targets, Stability::FileSync, &request, &mut buffer)
        .await
}

pub(crate) async fn read(targets: &[Target], offset: u64, len: usize) -> Vec<u8> {
    let request = request(offset, len);
    let mut buffer = Buffer::zeroed(len);
    mover(targets)
        .read(targets, &request, &mut buffer)
        .await
        .unwrap();
    buffer.into_vec()
}
