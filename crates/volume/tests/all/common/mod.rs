//! A volume in the simulator, and what several tests need of it.
#![allow(dead_code)] // each test uses a part

pub(crate) mod history;

use gannet_dst::volume::Carrier;
use gannet_runtime::{Buffer, sleep, timeout};
use gannet_sim::fabric::{FabricProfile, SimFabric};
use gannet_sim::store::SimStore;
use gannet_sim::{Crash, Node, World};
pub(crate) use gannet_testing::noise;
use gannet_vfs::{CreateMode, Credentials, FileHandle, SetAttributes, Stability, Status, Vfs};
use gannet_volume::client::{Siblings, VolumeFs};
use gannet_wire::volume::Copies;
use std::ops::Deref;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Bytes of a stripe.
pub(crate) const VOLUME_UNIT: u32 = 4096;

pub(crate) fn root() -> Credentials {
    Credentials::new(0, 0, &[])
}

/// The simulator's volume, and one machine for clients.
pub(crate) struct Bed {
    pub(crate) volume: gannet_dst::volume::Bed,
    pub(crate) client: Node,
}

/// How long servers may take to be filled, or to take over.
pub(crate) const FILLING_TIME_MAX: Duration = Duration::from_secs(30);

impl Deref for Bed {
    type Target = gannet_dst::volume::Bed;

    fn deref(&self) -> &gannet_dst::volume::Bed {
        &self.volume
    }
}

impl Bed {
    pub(crate) fn new(world: &World, servers: usize) -> Rc<Bed> {
        let carrier = Carrier::Memory(SimFabric::new(world, FabricProfile::default()));
        let volume = gannet_dst::volume::Bed::new(world, carrier, servers, VOLUME_UNIT);
        Bed::of(world, volume)
    }

    /// A volume with two copies of all data.
    pub(crate) fn with_copies(world: &World, servers: usize) -> Rc<Bed> {
        let carrier = Carrier::Memory(SimFabric::new(world, FabricProfile::default()));
        let (unit, copies) = (VOLUME_UNIT, Some(Copies::Two));
        let volume = gannet_dst::volume::Bed::with_groups(world, carrier, servers, unit, copies);
        Bed::of(world, volume)
    }

    fn of(world: &World, volume: gannet_dst::volume::Bed) -> Rc<Bed> {
        volume.start();
        let client = world.add_node("client");
        Rc::new(Bed { volume, client })
    }

    /// Kills the process of an I/O server, and the power of its machine.
    pub(crate) fn kill_io_server(&self, number: usize) {
        self.volume.kill_io_server(number, Crash::Process);
    }

    /// Files and folders on the disks of all I/O servers.
    pub(crate) async fn used(&self) -> u64 {
        let mut used = 0;
        for server in &self.io_servers {
            let store = SimStore::open(&server.disk, server.node.runtime());
            let usage = store.usage(&store.root()).await.unwrap();
            used += usage.files_total - usage.files_free;
        }
        used
    }

    /// Waits until each group of two has both of its members.
    pub(crate) async fn is_whole(&self) {
        let runtime = self.client.runtime();
        let filling = async {
            while self.group_that_lacks_a_copy().is_some() {
                sleep(&runtime, Duration::from_millis(100)).await;
            }
        };
        let filled = timeout(&runtime, FILLING_TIME_MAX, filling).await;
        assert!(filled.is_ok(), "{:?}", self.group_that_lacks_a_copy());
    }

    /// Kills each I/O server in turn, does `work` meanwhile, and has the server come back and be filled.
    pub(crate) async fn without_each_in_turn(&self, work: impl AsyncFn()) {
        for number in 0..self.io_servers.len() {
            self.kill_io_server(number);
            let done = timeout(&self.client.runtime(), FILLING_TIME_MAX, work()).await;
            done.unwrap();
            self.start_io_server(number);
            self.is_whole().await;
        }
    }

    pub(crate) fn mount(&self) -> VolumeFs {
        self.volume.mount(&self.client)
    }

    /// One of several clients that stand for one server.
    pub(crate) fn mount_with(&self, siblings: Arc<Siblings>) -> VolumeFs {
        self.volume.mount_with(&self.client, siblings)
    }
}

/// The file `file` of a new volume, which all of these clients have written to and may go on writing.
pub(crate) async fn shared_file(clients: &[&VolumeFs]) -> FileHandle {
    let (caller, first) = (root(), clients[0]);
    let how = CreateMode::Guarded(SetAttributes::default());
    let made = first.create(&caller, &first.root(), b"file", &how).await;
    let file = made.result.unwrap().handle;
    for fs in clients {
        write(fs, &file, 0, &noise(100_000, 1)).await.unwrap();
    }
    file
}

pub(crate) async fn write(
    fs: &VolumeFs,
    file: &FileHandle,
    offset: u64,
    bytes: &[u8],
) -> Result<(), Status> {
    let (buffer, range) = (Buffer::from_vec(bytes.to_vec()), 0..bytes.len());
    let caller = root();
    let written = fs.write(&caller, file, offset, buffer, range, Stability::Unstable);
    written.await.result.map(|_| ())
}

/// Reads at most `len` bytes from `offset` on.
pub(crate) async fn read(fs: &VolumeFs, file: &FileHandle, offset: u64, len: usize) -> Vec<u8> {
    let reply = fs.read(&root(), file, offset, len as u32).await.unwrap();
    let mut bytes = vec![0; reply.count as usize];
    reply.file.try_read_at(offset, &mut bytes).unwrap();
    bytes
}

/// Runs `story` to its end, with `beside` going on until then.
pub(crate) async fn until<T>(
    story: impl Future<Output = T>,
    beside: impl Future<Output = ()>,
) -> T {
    let (mut story, mut beside) = (pin!(story), pin!(beside));
    let mut over = false;
    std::future::poll_fn(move |context| {
        if !over {
            over = beside.as_mut().poll(context).is_ready();
        }
        story.as_mut().poll(context)
    })
    .await
}
