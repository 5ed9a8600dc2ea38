//! Files sent by one call ([`FileSender`]) on a simulated testbed: a server's connections each write a file to the
//! memory of a client, again and again.
//!
//! The files are in the page cache. The server pays for each read of one before the piece is posted, so pipes overlap
//! copies, registrations and the link by themselves. The copies of a run are those that the sender counts itself.

use super::Failure;
use super::copies::Copies;
use super::testbed::Machine;
use crate::limits::{CONNECTIONS_MAX, SENT_MAX};
use gannet_datapath::{Destination, Engine, FileRange, FileSender, SendCounts, SenderOptions};
use gannet_fabric::{
    Access, Backing, ConnectOptions, Connected, Region, RegisterError, RemoteAddress, Scope,
};
use gannet_runtime::{Buffer, FileRef, FileSource, Handle, Instant, both};
use gannet_sim::World;
use gannet_sim::fabric::{FabricProfile, SimFabric};
use gannet_sim::nic::{Profile, Usage};
use std::io;
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{Barrier, oneshot};

const PORT: u16 = 4000;

/// The memory that a connection sends a file through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pipes {
    /// Pieces under way at a time.
    pub count: usize,
    /// Bytes of a piece.
    pub len: usize,
}

/// The files that are sent, and the way of sending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServingLoad {
    /// The engine.
    pub engine: Engine,
    /// Pieces under way at a time.
    pub pipes: usize,
    /// Bytes of a piece.
    pub pipe_len: usize,
    /// Bytes of each connection's file.
    pub file_len: usize,
    /// The sender's copies take no time, as where a program fills its memory before the clock starts. No engine serves
    /// files so; figures need it as a reference.
    pub is_prepared: bool,
    /// Connections, all to one client, each a thread of the server.
    pub connections: usize,
    /// Times that each sends its file.
    pub rounds: usize,
}

impl ServingLoad {
    /// One connection that sends a file once.
    pub fn of(engine: Engine, pipes: Pipes, file_len: usize) -> ServingLoad {
        ServingLoad {
            engine,
            pipes: pipes.count,
            pipe_len: pipes.len,
            file_len,
            is_prepared: false,
            connections: 1,
            rounds: 1,
        }
    }

    fn check(&self) -> Result<(), Failure> {
        if self.pipes == 0 || self.pipe_len == 0 || self.file_len == 0 || self.rounds == 0 {
            return Err(Failure::Workload("nothing would be sent"));
        }
        if !(1..=CONNECTIONS_MAX).contains(&self.connections) {
            return Err(Failure::Workload("too few or too many connections"));
        }
        if self.sink_len() > SENT_MAX {
            return Err(Failure::Workload("files or pipes are too long"));
        }
        Ok(())
    }

    /// Bytes of the client's memory: a file, and what warms a server's static memory up.
    fn sink_len(&self) -> usize {
        self.pipe_len.saturating_mul(self.pipes).max(self.file_len)
    }
}

/// The result of a load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ServingOutcome {
    /// Megabytes (10^6) per second of all connections together.
    pub mb_per_s: f64,
    /// Virtual time from the first byte to the last.
    pub time: Duration,
    /// Bytes that were sent.
    pub bytes: u64,
    /// Bytes that the senders copied for them from files to memory, by their own count.
    pub copied_bytes: u64,
    /// The most memory that a connection's pieces under way took.
    pub memory_peak: usize,
    /// Work requests.
    pub work: u64,
    /// The parts of the server's time; its registrations are in the events.
    pub server: Usage,
}

impl ServingOutcome {
    /// Seconds of the server's processors for each 10^9 bytes.
    #[allow(clippy::cast_precision_loss)] // a rate
    pub fn cpu_s_per_gb(&self) -> f64 {
        self.server.cpu_ns as f64 / self.bytes.max(1) as f64
    }
}

/// A file of zeros in the page cache. It counts the bytes that were read from it.
struct CachedFile {
    len: u64,
    read: AtomicU64,
}

impl FileSource for CachedFile {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn try_read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let rest = usize::try_from(self.len.saturating_sub(offset)).unwrap_or(usize::MAX);
        let count = buffer.len().min(rest);
        if let Some(start) = buffer.get_mut(..count) {
            start.fill(0);
        }
        self.read.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.try_read_at(offset, buffer)
    }

    fn is_resident(&self, _offset: u64, _len: u64) -> bool {
        true
    }
}

/// A server and a client.
struct Pair {
    server: Machine,
    client: Machine,
}

impl Pair {
    fn build(world: &World, profile: &Profile) -> Pair {
        let fabric = SimFabric::new(world, FabricProfile::default());
        let of_client = profile.of_client();
        Pair {
            server: Machine::add(world, &fabric, "server", profile),
            client: Machine::add(world, &fabric, "client", &of_client),
        }
    }

    /// Connections from the server, and the client's ends, which keep them open.
    async fn connect(&self, count: usize) -> Result<Vec<(Connected, Connected)>, Failure> {
        let address = self.client.address(PORT);
        let mut listener = self.client.provider.listen(address).map_err(failed)?;
        let mut connections = Vec::with_capacity(count);
        for _ in 0..count {
            let provider = &self.server.provider;
            let connecting = provider.connect(address, ConnectOptions::default());
            let accepting = async {
                let incoming = listener.accept().await.map_err(failed)?;
                let accepted = incoming.accept(ConnectOptions::default()).await;
                accepted.map_err(failed)
            };
            let (server, client) = both(connecting, accepting).await;
            connections.push((server.map_err(failed)?, client?));
        }
        Ok(connections)
    }
}

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::Operation(error.to_string())
}

/// Sends what `load` says on `profile`'s machines.
///
/// # Errors
/// See [`Failure`]: the load makes no sense, the profile's adapter does not have the engine, the simulation stopped.
pub fn run(profile: &Profile, load: &ServingLoad) -> Result<ServingOutcome, Failure> {
    load.check()?;
    let world = World::new(1);
    let pair = Pair::build(&world, profile);
    let load = *load;
    world.run(async move { send_all(&pair, &load).await })?
}

async fn send_all(pair: &Pair, load: &ServingLoad) -> Result<ServingOutcome, Failure> {
    let file = Arc::new(CachedFile {
        len: load.file_len as u64,
        read: AtomicU64::new(0),
    });
    let _charged = charge_reads(pair, load, &file);
    let sink = register_sink(pair, load.sink_len()).map_err(failed)?;
    let connections = pair.connect(load.connections).await?;
    let start = Rc::new(Barrier::new(load.connections + 1));
    let (runtime, mut threads) = (pair.server.node.runtime(), Vec::new());
    for (server, _) in &connections {
        let thread = Thread {
            sender: sender(pair, Rc::clone(server), load)?,
            runtime: Handle::clone(&runtime),
            range: FileRange {
                file: FileRef::clone(&(Arc::clone(&file) as FileRef)),
                offset: 0,
                len: load.file_len,
            },
            load: *load,
            target: address_of(&sink),
        };
        let (done, waiting) = oneshot::channel();
        let start = Rc::clone(&start);
        let task = async move {
            // No receiver waits after another thread has failed.
            let _ = done.send(thread.run(&start).await);
        };
        runtime.spawn("serving thread", Box::pin(task));
        threads.push(waiting);
    }
    // Once when all are ready, and again when what they did so far is known.
    start.wait().await;
    let host = &pair.server.host;
    let (began, before) = (runtime.now(), host.usage());
    start.wait().await;
    let (mut ended, mut memory_peak, mut work, mut copied_bytes) = (began, 0, 0, 0);
    for thread in threads {
        let (counts, at) = thread.await.map_err(failed)??;
        (ended, work) = (ended.max(at), work + counts.work);
        copied_bytes += counts.copied_bytes;
        memory_peak = memory_peak.max(counts.memory_peak);
    }
    let time = ended.duration_since(began);
    let bytes = (load.connections * load.rounds) as u64 * load.file_len as u64;
    Ok(ServingOutcome {
        mb_per_s: rate(bytes, time),
        time,
        bytes,
        copied_bytes,
        memory_peak,
        work,
        server: host.usage() - before,
    })
}

/// Makes the server pay for what is read from `file` into memory. With *sendfile* the adapter alone reads it, which is
/// no copy of a processor's.
fn charge_reads(pair: &Pair, load: &ServingLoad, file: &Arc<CachedFile>) -> Option<Rc<Copies>> {
    if load.is_prepared || load.engine == Engine::Sendfile {
        return None;
    }
    let file = Arc::clone(file);
    let read = move || file.read.load(Ordering::Relaxed);
    Some(Copies::charge(&pair.server.host, read))
}

#[allow(clippy::cast_precision_loss)] // a rate
fn rate(bytes: u64, time: Duration) -> f64 {
    bytes as f64 / 1e6 / time.as_secs_f64().max(1e-9)
}

/// Memory of the client that every connection writes.
fn register_sink(pair: &Pair, len: usize) -> Result<Region, RegisterError> {
    let backing = Backing::Buffer(Buffer::zeroed(len));
    let domain = pair.client.provider.domain();
    domain.register_now(backing, Access::RemoteWrite, Scope::Domain)
}

fn address_of(sink: &Region) -> RemoteAddress {
    RemoteAddress {
        key: sink.remote_key(),
        offset: sink.base(),
    }
}

fn sender(pair: &Pair, endpoint: Connected, load: &ServingLoad) -> Result<FileSender, Failure> {
    let options = SenderOptions {
        engine: Some(load.engine),
        pipes: load.pipes,
        pipe_len: load.pipe_len,
        memory_max: load.pipes.saturating_mul(load.pipe_len),
        ..SenderOptions::default()
    };
    let (capabilities, runtime) = (
        pair.server.provider.capabilities(),
        pair.server.node.runtime(),
    );
    FileSender::new(endpoint, capabilities, runtime, options).map_err(failed)
}

/// A connection's thread on the server.
struct Thread {
    sender: FileSender,
    runtime: Handle,
    range: FileRange,
    load: ServingLoad,
    target: RemoteAddress,
}

impl Thread {
    /// Returns the counts of its sender from `start` on, and the time of its end.
    async fn run(mut self, start: &Barrier) -> Result<(SendCounts, Instant), Failure> {
        // A program registers its static memory before it serves.
        if self.load.engine == Engine::Static {
            let len = self.load.pipe_len.saturating_mul(self.load.pipes);
            self.send(len).await?;
        }
        start.wait().await;
        start.wait().await;
        let before = self.sender.counts();
        for _ in 0..self.load.rounds {
            self.send(self.load.file_len).await?;
        }
        let counts = self.sender.counts();
        let since = SendCounts {
            work: counts.work - before.work,
            copied_bytes: counts.copied_bytes - before.copied_bytes,
            ..counts
        };
        Ok((since, self.runtime.now()))
    }

    async fn send(&mut self, len: usize) -> Result<(), Failure> {
        let segments = [(self.target, u32::try_from(len).unwrap_or(u32::MAX))];
        let range = FileRange {
            len,
            ..self.range.clone()
        };
        let destination = Destination::Memory(&segments);
        let mut others = Vec::new();
        let sent = self.sender.send(&range, destination, &mut others).await;
        sent.map_err(failed)
    }
}

/// The kind of memory that is registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Registered {
    /// A program's memory.
    Memory,
    /// Pages of a file, by the kernel.
    File,
}

/// Time of registering `len` bytes on a machine of `profile`'s, and of deregistering them.
///
/// # Errors
/// See [`Failure`].
pub fn registration(
    profile: &Profile,
    what: Registered,
    len: usize,
) -> Result<(Duration, Duration), Failure> {
    let world = World::new(1);
    let pair = Pair::build(&world, profile);
    world.run(async move {
        let backing = match what {
            Registered::Memory => Backing::Buffer(Buffer::zeroed(len)),
            Registered::File => Backing::File {
                file: Arc::new(CachedFile {
                    len: len as u64,
                    read: AtomicU64::new(0),
                }),
                offset: 0,
                len: len as u64,
            },
        };
        let (domain, runtime) = (pair.server.provider.domain(), pair.server.node.runtime());
        let began = runtime.now();
        let region = domain.register_now(backing, Access::Local, Scope::Domain);
        let (region, registered) = (region.map_err(failed)?, runtime.now());
        drop(region.deregister());
        let ended = runtime.now();
        Ok((
            registered.duration_since(began),
            ended.duration_since(registered),
        ))
    })?
}
