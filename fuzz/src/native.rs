//! The servers of a volume as state machines. A peer that has the volume's key sends requests of the native protocol to
//! a manager and its I/O servers; the input says their order, bodies and headers. The world must come to rest,
//! and another client must not notice a peer that is a client.

mod steps;

use crate::server::PATIENCE;
use gannet_dst::volume::{Bed, Carrier, identity};
use gannet_fabric::{Access, Backing, Provider, Region, Scope, SendOptions, Source, WorkId};
use gannet_runtime::{Buffer, Handle, LocalFuture, all, sleep, timeout};
use gannet_sim::fabric::{FabricProfile, SimFabric};
use gannet_sim::{Node, World};
use gannet_vfs::{CreateMode, Credentials, FileHandle, SetAttributes, Stability, Status, Vfs};
use gannet_volume::client::VolumeFs;
use gannet_volume::link::{self, Link, Pool, ServerPlace, Session};
use gannet_wire::volume::{
    Call, Caller, Class, Entry, FileId, FoundFiles, MessageHeader, Operation, ROOT, Referenced,
    Role, SlotSequence,
};
use gannet_wire::xdr::from_bytes;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;
pub(crate) use steps::{KEY, NUMBER, Peer, Step};

/// Bytes of a stripe.
pub(crate) const UNIT: u32 = 4096;
/// Where the servers of a simulated volume listen.
pub(crate) const PORT: u16 = 20050;
/// Memory of the peer that servers may reach by RDMA.
const MEMORY_LEN: usize = 256 << 10;
/// Requests of an input: later ones show nothing new.
const STEPS_MAX: usize = 48;
/// How long the servers have for the last requests before others come.
const REST: Duration = Duration::from_millis(200);

/// A client that knows the key: another client must not notice it.
pub(crate) fn native_server(data: &[u8]) {
    run(data, false);
}

/// A peer that knows the secret of the servers, and so may pass for one of them. It may break the volume for all;
/// servers must stay whole.
pub(crate) fn native_peer(data: &[u8]) {
    run(data, true);
}

/// Files that are there when the first request comes. Requests mean them by [`NUMBER`] and their place in this list.
pub(crate) const FILES: [&[u8]; 4] = [b"", b"file", b"directory", b"link"];

fn run(data: &[u8], has_secret: bool) {
    let world = World::new(1);
    let fabric = SimFabric::new(&world, FabricProfile::default());
    let bed = Bed::new(&world, Carrier::Memory(Rc::clone(&fabric)), 2, UNIT);
    bed.start();
    let [hostile, honest] = ["hostile", "honest"].map(|name| world.add_node(name));
    let steps = steps::decode(data, STEPS_MAX);
    let done = world.run(async move {
        let fs = bed.mount(&honest);
        let (ours, theirs) = (honest.runtime(), hostile.runtime());
        let prepared = timeout(&ours, PATIENCE, prepare(&fs)).await;
        prepared
            .expect("in time")
            .expect("an empty volume takes files");
        let attacker = Attacker::connect(&bed, &hostile, has_secret).await;
        let attack = timeout(&theirs, PATIENCE, attacker.attack(steps));
        assert!(
            attack.await.is_ok(),
            "a request is not answered, and its connection lasts"
        );
        if !has_secret {
            let served = timeout(&ours, PATIENCE, use_volume(&fs)).await;
            let served = served.expect("another client is answered");
            assert_eq!(served, Ok(()), "another client is served");
        }
    });
    if let Err(stopped) = done {
        panic!("{stopped}");
    }
}

fn root() -> Credentials {
    Credentials::new(0, 0, &[])
}

async fn prepare(fs: &VolumeFs) -> Result<(), Status> {
    let (cred, plain) = (root(), SetAttributes::default());
    write_file(fs, FILES[1], 3 * UNIT as usize + 100).await?;
    let made = fs.make_directory(&cred, &fs.root(), FILES[2], &plain).await;
    made.result?;
    let made = fs
        .make_symlink(&cred, &fs.root(), FILES[3], b"text", &plain)
        .await;
    made.result.map(|_| ())
}

async fn write_file(fs: &VolumeFs, name: &[u8], len: usize) -> Result<FileHandle, Status> {
    let (cred, how) = (root(), CreateMode::Guarded(SetAttributes::default()));
    let made = fs
        .create(&cred, &fs.root(), name, &how)
        .await
        .result?
        .handle;
    let data = Buffer::from_vec(vec![7; len]);
    let written = fs
        .write(&cred, &made, 0, data, 0..len, Stability::FileSync)
        .await;
    written.result?;
    Ok(made)
}

/// Makes a file, and reads it.
async fn use_volume(fs: &VolumeFs) -> Result<(), Status> {
    const LEN: usize = 2 * UNIT as usize + 5;
    let file = write_file(fs, b"of the honest client", LEN).await?;
    let room = Buffer::zeroed(LEN);
    let (read, buffer) = fs.read_into(&root(), &file, 0, LEN as u32, room).await;
    assert_eq!(read?.count as usize, LEN);
    assert!(buffer.is_some_and(|it| it.iter().all(|byte| *byte == 7)));
    Ok(())
}

/// A peer with a connection to each server, as each role that it may have.
struct Attacker {
    runtime: Handle,
    /// By [`Peer`].
    links: Vec<Link>,
    files: Vec<FileId>,
    /// The memory that servers may reach over each connection.
    memory: Vec<Region>,
}

impl Attacker {
    async fn connect(bed: &Bed, node: &Node, has_secret: bool) -> Attacker {
        let (runtime, provider) = (node.runtime(), bed.provider(node));
        let io_server = &bed.io_servers[0].node;
        let mut links = vec![
            bed.manager_link(node).await,
            connect(&runtime, &provider, io_server, Role::Client).await,
        ];
        let files = find_files(&links[0]).await;
        if has_secret {
            links.push(connect(&runtime, &provider, io_server, Role::Manager).await);
            links.push(connect(&runtime, &provider, &bed.manager, Role::IoServer).await);
        }
        let memory = links.iter().map(|link| {
            let backing = Backing::Buffer(Buffer::zeroed(MEMORY_LEN));
            let scope = Scope::Endpoint(link.endpoint().id());
            let domain = link.endpoint().domain();
            let region = domain.register_now(backing, Access::RemoteReadWrite, scope);
            region.expect("an empty table has room")
        });
        Attacker {
            memory: memory.collect(),
            runtime,
            links,
            files,
        }
    }

    async fn attack(self, steps: Vec<Step>) {
        let mut under_way: Vec<LocalFuture<()>> = Vec::new();
        for step in steps {
            let at = step.peer as usize % self.links.len();
            let (Some(link), Some(memory)) = (self.links.get(at), self.memory.get(at)) else {
                continue;
            };
            let step = step.filled_in(&self.files, memory);
            if let Some(header) = step.header {
                send(link, header, &step);
                continue;
            }
            let (link, waits) = (link.clone(), step.waits);
            let mut call: LocalFuture<()> = Box::pin(async move {
                let called = link.call(step.operation, step.class, &step.body, &step.data);
                // Any answer will do, and so will the end of the connection.
                let _ = called.await;
            });
            if waits {
                call.await;
                continue;
            }
            // It is queued when it is polled first.
            poll_fn(|context| {
                let _ = call.as_mut().poll(context);
                Poll::Ready(())
            })
            .await;
            under_way.push(call);
        }
        all(under_way).await;
        sleep(&self.runtime, REST).await;
    }
}

/// Sends a message past the rules of a link.
fn send(link: &Link, header: MessageHeader, step: &Step) {
    let header = MessageHeader {
        body_len: step.body.len() as u32,
        data_len: step.data.len() as u32,
        ..header
    };
    let bytes = [&header.to_bytes()[..], &step.body, &step.data].concat();
    let len = bytes.len() as u32;
    let source = Source::Buffer {
        buffer: Buffer::from_vec(bytes),
        len,
    };
    // The connection may be over.
    let _ = (link.endpoint()).post_send(WorkId(1), source, SendOptions::default());
    link.endpoint().flush();
}

async fn connect(runtime: &Handle, provider: &Rc<dyn Provider>, node: &Node, role: Role) -> Link {
    let address = SocketAddr::new(node.ip(), PORT);
    let server = match role {
        Role::IoServer => ServerPlace::manager(address),
        _ => ServerPlace::io_server(address, 0),
    };
    let (identity, session) = (identity(role), Session::new(runtime));
    let pool = Pool::new();
    let link = link::connect(runtime, provider, &pool, server, identity, session);
    link.await.expect("the server runs")
}

/// The numbers of [`FILES`].
async fn find_files(manager: &Link) -> Vec<FileId> {
    let mut files = vec![ROOT];
    for name in &FILES[1..] {
        let call = Call::Lookup {
            entry: Entry {
                directory: ROOT,
                name: name.to_vec(),
            },
            wants_references: false,
        };
        let body = call.to_body(&Caller::new(0, 0, &[]), &SlotSequence::default());
        let answer = manager
            .call(call.operation(), Class::Metadata, &body, &[])
            .await;
        let answer = answer.expect("the manager answers");
        let found: Referenced<FoundFiles> = from_bytes(answer.body()).expect("it is there");
        files.extend(found.answer.files.first().map(|found| found.id));
    }
    files
}
