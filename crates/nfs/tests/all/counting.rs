//! The cost of counting: what a READ takes the server's processor, and what its numbers take of that.

use crate::support;

use gannet_localfs::{LocalOptions, LocalStore, LocalTree};
use gannet_metrics::{ClientConnection, Clients, Reach, Source};
use gannet_nfs::client::Client;
use gannet_nfs::server::{Operations, Server};
use gannet_rpc::{Call, ClientConfig, Counters, Program, Reply, Service, Target};
use gannet_runtime::{Buffer, Handle, tokio_plug};
use gannet_wire::nfs3;
use rustix::time::{ClockId, clock_gettime};
use std::cell::Cell;
use std::fs;
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::time::Duration;
use support::{Addresses, Running, export, user};

/// The number of READ (RFC 1813).
const READ: u32 = 6;
const READ_LEN: u32 = 64 << 10;
/// READs of a round, and rounds. The fastest round counts: the machine may be busy with something else.
const ROUND: u64 = 512;
const ROUNDS: u64 = 12;
/// How often a READ is counted in one measurement.
const COUNTED: u32 = 4096;

/// The processor time of this thread.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// An NFS server that measures itself on its own thread.
struct Measured {
    inner: Server<LocalStore>,
    runtime: Handle,
    counters: Counters,
    client: ClientConnection,
    reads: Cell<u64>,
    begun: Cell<Duration>,
    /// The least processor time of a READ so far, and of counting one.
    read: Cell<Duration>,
    counting: Cell<Duration>,
}

impl Measured {
    /// All that the server does to count one READ over TCP, whose reply leaves by two system calls.
    fn count(&self, call: &Call, reply: &Reply) {
        let (counters, client) = (black_box(&self.counters), &self.client);
        let start = self.runtime.now();
        counters.calls.add(1);
        client.operations(1);
        counters.bytes_in.add(120);
        client.received(120);
        let end = self.runtime.now();
        self.inner.observe(call, reply, end.duration_since(start));
        for part in [128, u64::from(READ_LEN)] {
            counters.bytes_out.add(part);
            client.sent(part);
        }
    }

    fn measure(&self, call: &Call, reply: &Reply) {
        let reads = self.reads.get() + 1;
        self.reads.set(reads);
        if !reads.is_multiple_of(ROUND) {
            return;
        }
        let least = |cell: &Cell<Duration>, time: Duration| cell.set(cell.get().min(time));
        if reads > ROUND {
            let took = processor_time() - self.begun.get();
            least(&self.read, took / u32::try_from(ROUND).unwrap());
        }
        let before = processor_time();
        for _ in 0..COUNTED {
            self.count(black_box(call), black_box(reply));
        }
        least(&self.counting, (processor_time() - before) / COUNTED);
        self.begun.set(processor_time());
    }
}

impl Service for Measured {
    fn programs(&self) -> &[Program] {
        self.inner.programs()
    }

    fn is_cached(&self, program: u32, procedure: u32) -> bool {
        self.inner.is_cached(program, procedure)
    }

    fn locate_payload(&self, program: u32, procedure: u32, prefix: &[u8]) -> Option<usize> {
        self.inner.locate_payload(program, procedure, prefix)
    }

    fn admits(&self, peer: IpAddr) -> bool {
        self.inner.admits(peer)
    }

    fn establishes(&self, call: &Call) -> bool {
        self.inner.establishes(call)
    }

    fn reply_bytes_max(&self, call: &Call) -> usize {
        self.inner.reply_bytes_max(call)
    }

    fn observe(&self, call: &Call, reply: &Reply, took: Duration) {
        self.inner.observe(call, reply, took);
        if (call.program, call.procedure) == (nfs3::PROGRAM, READ) {
            self.measure(call, reply);
        }
    }

    async fn call(&self, call: &Call, reply: &mut Reply) {
        self.inner.call(call, reply).await;
    }
}

/// The least processor times of a READ and of counting one, measured by a server on a thread of its own.
fn measure(share: &Path) -> (Duration, Duration) {
    let (listens, address) = mpsc::channel::<SocketAddr>();
    let (ended, end) = tokio::sync::oneshot::channel::<()>();
    let share = share.to_owned();
    let server = std::thread::spawn(move || {
        let served = tokio_plug::block_on(|runtime| async move {
            let tree = LocalTree::open(&share, &LocalOptions::default()).unwrap();
            let store = LocalStore::new(tree, runtime.clone());
            let operations = Arc::new(Operations::default());
            // As with a reader: busy files are counted too.
            operations.busy().unwrap().turn();
            let server = Server::new(vec![(export("/"), store)]).unwrap();
            let service = Measured {
                inner: server.counting_in(operations),
                runtime: runtime.clone(),
                counters: Counters::default(),
                client: Clients::default().connected(Ipv4Addr::LOCALHOST.into(), Reach::Tcp),
                reads: Cell::default(),
                begun: Cell::default(),
                read: Cell::new(Duration::MAX),
                counting: Cell::new(Duration::MAX),
            };
            let service = Rc::new(service);
            let running = Running::share(&runtime, Rc::clone(&service), Addresses::any());
            if let Target::Tcp(address) = running.target() {
                listens.send(address).unwrap();
            }
            let _ = end.await;
            running.stop().await;
            (service.read.get(), service.counting.get())
        });
        served.unwrap()
    });
    let address = address.recv().unwrap();
    let read = tokio_plug::block_on(|runtime| async move {
        let config = ClientConfig {
            credential: user(0, &[0]),
            ..ClientConfig::default()
        };
        let rpc = gannet_rpc::Client::new(runtime.clone(), Target::Tcp(address), config);
        let client = Client::new(runtime, rpc);
        let root = client.mount(b"/").await.unwrap();
        let file = client.lookup(&root, b"file").await.unwrap().handle;
        let mut buffer = Buffer::zeroed(READ_LEN as usize);
        for _ in 0..ROUND * ROUNDS {
            let done = client.read(&file, 0, READ_LEN, buffer).await.unwrap();
            assert_eq!(done.count, READ_LEN);
            buffer = done.buffer;
        }
    });
    read.unwrap();
    ended.send(()).unwrap();
    server.join().unwrap()
}

/// There are no counters of instructions here: times of the processor stand for them.
#[test]
fn counting_a_read_takes_at_most_a_hundredth_of_it() {
    let share = tempfile::tempdir().unwrap();
    fs::write(share.path().join("file"), vec![7; READ_LEN as usize]).unwrap();
    let (read, counting) = measure(share.path());
    println!("a READ: {read:?}, counting it: {counting:?}");
    assert!(counting * 100 <= read, "{counting:?} of {read:?}");
}
