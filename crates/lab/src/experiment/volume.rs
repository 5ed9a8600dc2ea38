//! Benchmarks of a volume on a simulated testbed: compute nodes, each with a process or some, read or write files that
//! lie on all I/O nodes, again and again, for a while.

use super::copies::Copies;
use super::{Failure, Transport};
use gannet_dst::volume::{Bed, Carrier, install};
use gannet_iwarp::IwarpConfig;
use gannet_runtime::Buffer;
use gannet_sim::Node;
use gannet_sim::fabric::{FabricProfile, SimFabric};
use gannet_sim::nic::{Activity, Debtor, Host, Profile, Usage};
use gannet_sim::{Faults, World};
use gannet_vfs::{CreateMode, Credentials, FileHandle, SetAttributes, Stability, Vfs};
use gannet_volume::client::{
    File, FileError, Level, Optimistic, ParentPiece, Piece, ReadOptions, Shape, TransferPolicy,
    VolumeFs,
};
use gannet_volume::io_server::ServerPolicy;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

/// Bytes that an adapter moves for one connection before another one's turn comes.
const SEGMENT_LEN: usize = 16 << 10;
/// The most I/O nodes, compute nodes, or processes of a compute node.
const NODES_MAX: usize = 64;
/// The most pieces of one list.
const LIST_LEN: u64 = 128;
/// Number of requests for a tile whose rows lie apart in memory.
const LISTS: u64 = 6;
/// Number of allocations of a tile that lies in several.
const PARENTS: u64 = 3;

/// The data that a process moves at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// A run of this many bytes.
    Contiguous(u32),
    /// Rows out of a file whose rows are twice as long.
    Rows {
        /// Bytes of a row of the tile.
        len: u32,
        /// Number of rows of the tile.
        count: u32,
        /// The requests that the rows are moved with.
        how: Rows,
    },
}

/// The requests that a tile is moved with, and the place of its rows in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rows {
    /// One request for each row.
    Each,
    /// Requests with lists of 128 rows; the rows lie together in memory.
    Lists,
    /// Six requests with a sixth of the rows each; the rows lie as far apart in memory as in the file. Their allocation
    /// is new for each tile, and the first request registers it.
    ListsInParent,
    /// As [`Rows::ListsInParent`], and the allocation holds a whole array: twice as many rows, twice as long, four
    /// tiles.
    ListsInWhole,
    /// As [`Rows::ListsInParent`], and the allocation stays registered from tile to tile.
    ListsInKeptParent,
    /// As [`Rows::ListsInParent`], and each row in memory is an allocation of its own, new for each tile and registered
    /// by itself.
    ListsOfRows,
    /// As [`Rows::ListsInParent`], and the rows lie in three allocations in turn, new for each tile, so that each
    /// request names all three.
    ListsInThreeParents,
    /// One request for all rows, as a row that repeats.
    Nested,
    /// One request for all bytes from the first row to the last, out of which the rows are picked.
    Sieve,
}

/// A load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// The transport of the load.
    pub transport: Transport,
    /// Number of I/O nodes.
    pub io_nodes: usize,
    /// Number of compute nodes.
    pub compute_nodes: usize,
    /// Whether data goes to the I/O nodes.
    pub writes: bool,
    /// The data that a process moves at a time.
    pub access: Access,
    /// The policy by which clients move the data.
    pub policy: TransferPolicy,
    /// The policy by which I/O servers move the data.
    pub server: ServerPolicy,
    /// Whether the memory of a process stays registered.
    pub registered: bool,
    /// Bytes of a stripe.
    pub unit: u32,
    /// Number of operations of each process before any is counted.
    pub warm_up: u32,
    /// Number of processes of each compute node.
    pub processes: usize,
    /// Virtual time that is measured.
    pub time: Duration,
    /// The end of the measurement, at that time or after it.
    pub end: End,
}

/// The end of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The measurement ends with the last operation that began in time.
    LastOperation,
    /// The measurement ends with the time, and unfinished operations do not count. It suits many short operations.
    Time,
}

impl Default for Load {
    /// One process that reads 4 MiB from four I/O nodes.
    fn default() -> Load {
        Load {
            transport: Transport::Rdma,
            io_nodes: 4,
            compute_nodes: 1,
            writes: false,
            access: Access::Contiguous(4 << 20),
            policy: TransferPolicy::default(),
            server: ServerPolicy::default(),
            registered: true,
            unit: 64 << 10,
            warm_up: 1,
            processes: 1,
            time: Duration::from_millis(50),
            end: End::LastOperation,
        }
    }
}

/// The result of a load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct VolumeOutcome {
    /// Number of operations in the time measured.
    pub operations: u64,
    /// Megabytes of 2^20 bytes per second, of all processes together.
    pub mib_per_s: f64,
    /// Mean time of an operation, in nanoseconds.
    pub latency_ns: f64,
    /// Processor time of a compute node in the time measured, as a share of one processor.
    pub client_cpu: f64,
    /// Processor time of an I/O node in the time measured, as a share of one processor.
    pub server_cpu: f64,
    /// Number of requests of a process for an operation.
    pub requests: f64,
    /// Number of registrations of a compute node for an operation.
    pub registrations: f64,
}

struct Machine {
    node: Node,
    host: Rc<Host>,
}

/// The state that the processes share.
#[derive(Default)]
struct Stage {
    ready: Cell<usize>,
    started: Cell<bool>,
    done: Cell<usize>,
    operations: Cell<u64>,
    latency_ns: Cell<u64>,
    bytes: Cell<u64>,
    requests: Cell<u64>,
    registrations: Cell<u64>,
    failure: RefCell<Option<Failure>>,
}

/// The processor time that both kinds of nodes have used up to a moment.
#[derive(Debug, Clone, Copy)]
struct ProcessorTimes {
    /// The moment, in nanoseconds of virtual time.
    at_ns: u64,
    /// Processor time of all compute nodes together.
    compute_ns: u64,
    /// Processor time of all I/O nodes together.
    io_ns: u64,
}

/// Runs `load` on `profile`'s machines.
///
/// # Errors
/// See [`Failure`].
pub fn run(profile: &Profile, load: &Load) -> Result<VolumeOutcome, Failure> {
    let sizes = [load.io_nodes, load.compute_nodes, load.processes];
    if !sizes.iter().all(|count| (1..=NODES_MAX).contains(count)) || load.time.is_zero() {
        return Err(Failure::Workload("too few or too many nodes, or no time"));
    }
    let world = World::new(1);
    let (carrier, served) = match load.transport {
        Transport::Rdma => {
            let fabric = FabricProfile {
                segment_len: SEGMENT_LEN,
                ..FabricProfile::default()
            };
            (
                Carrier::Memory(SimFabric::new(&world, fabric)),
                profile.polling(),
            )
        }
        Transport::Tcp => (Carrier::Iwarp(IwarpConfig::default()), *profile),
    };
    let mut links = world.links();
    links.reslice_per_mille = 0;
    world.set_links(links);
    let bed = Bed::new(&world, carrier, load.io_nodes, load.unit).charged(&served, load.server);
    let compute_nodes = (0..load.compute_nodes).map(|_| {
        let node = world.add_node("compute node");
        let host = install(&node, &profile.of_client());
        Machine { node, host }
    });
    let compute_nodes: Vec<Machine> = compute_nodes.collect();
    let (load, faults) = (*load, world.faults());
    world.run(async move { play(&bed, &compute_nodes, &load, &faults).await })?
}

async fn play(
    bed: &Bed,
    compute_nodes: &[Machine],
    load: &Load,
    faults: &Faults,
) -> Result<VolumeOutcome, Failure> {
    bed.start();
    let stage = Rc::new(Stage::default());
    let processes = load.compute_nodes * load.processes;
    for number in 0..processes {
        let machine = &compute_nodes[number % load.compute_nodes];
        start(&stage, bed, machine, number, *load);
    }
    let wait = Duration::from_micros(20);
    while stage.ready.get() < processes && stage.failure.borrow().is_none() {
        faults.sleep(wait).await;
    }
    stage.started.set(true);
    let used = || {
        let clients = compute_nodes.iter().map(|it| it.host.usage());
        let hosts = bed.io_servers.iter().filter_map(|it| it.host.as_ref());
        let servers = hosts.map(|host| host.usage()).sum::<Usage>();
        ProcessorTimes {
            at_ns: faults.now_ns(),
            compute_ns: clients.sum::<Usage>().cpu_ns,
            io_ns: servers.cpu_ns,
        }
    };
    let before = used();
    if load.end == End::Time {
        faults.sleep(load.time).await;
    }
    let goes_on = || load.end == End::LastOperation && stage.done.get() < processes;
    while goes_on() && stage.failure.borrow().is_none() {
        faults.sleep(wait).await;
    }
    match stage.failure.take() {
        Some(failure) => Err(failure),
        None => Ok(outcome(&stage, load, before, used())),
    }
}

#[allow(clippy::cast_precision_loss)] // rates and shares
fn outcome(
    stage: &Stage,
    load: &Load,
    before: ProcessorTimes,
    after: ProcessorTimes,
) -> VolumeOutcome {
    let period_ns = (after.at_ns - before.at_ns).max(1) as f64;
    let operations = stage.operations.get();
    VolumeOutcome {
        operations,
        mib_per_s: stage.bytes.get() as f64 / f64::from(1 << 20) / (period_ns / 1e9),
        latency_ns: stage.latency_ns.get() as f64 / operations.max(1) as f64,
        client_cpu: (after.compute_ns - before.compute_ns) as f64
            / (period_ns * load.compute_nodes as f64),
        server_cpu: (after.io_ns - before.io_ns) as f64 / (period_ns * load.io_nodes as f64),
        requests: stage.requests.get() as f64 / operations.max(1) as f64,
        registrations: stage.registrations.get() as f64 / operations.max(1) as f64,
    }
}

/// Starts the process of a compute node.
fn start(stage: &Rc<Stage>, bed: &Bed, machine: &Machine, number: usize, load: Load) {
    let fs = bed.mount(&machine.node);
    let (stage, host, runtime) = (
        Rc::clone(stage),
        Rc::clone(&machine.host),
        machine.node.runtime(),
    );
    let task = async move {
        let ran = async {
            let caller = Credentials::new(0, 0, &[]);
            let mode = CreateMode::Unchecked(SetAttributes::default());
            let name = format!("file-{number}");
            let made = fs.create(&caller, &fs.root(), name.as_bytes(), &mode).await;
            let handle = made.result.map_err(failed)?.handle;
            let (fs, buffer) = if load.registered {
                register(fs, handle, load.memory_len()).await?
            } else {
                (fs, Buffer::zeroed(load.memory_len()))
            };
            let fs = Rc::new(as_published(fs, load.policy));
            let file = File::new(Rc::clone(&fs), caller, handle);
            let counted = Rc::clone(&fs);
            let mut process = Process {
                copies: Copies::charge(&host, move || counted.copied_bytes()),
                file,
                host: Rc::clone(&host),
                buffer,
                load,
                fs: Rc::clone(&fs),
                parents: Vec::new(),
                used: Vec::new(),
                requests: 0,
            };
            if !load.writes {
                process.fill().await?;
            }
            for _ in 0..load.warm_up {
                process.move_once().await?;
            }
            stage.ready.set(stage.ready.get() + 1);
            while !stage.started.get() {
                gannet_runtime::sleep(&runtime, Duration::from_micros(10)).await;
            }
            process.measure(&stage).await
        };
        if let Err(failure) = ran.await {
            stage.failure.borrow_mut().get_or_insert(failure);
        }
        stage.done.set(stage.done.get() + 1);
    };
    machine.node.runtime().spawn("process", Box::pin(task));
}

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::Operation(error.to_string())
}

/// Memory of `len` bytes that a transfer by the server has registered.
async fn register(
    fs: VolumeFs,
    file: FileHandle,
    len: usize,
) -> Result<(VolumeFs, Buffer), Failure> {
    let by_server = TransferPolicy {
        inline_max: 0,
        eager_max: 0,
        client_driven: false,
    };
    let fs = Rc::new(as_published(fs, by_server));
    let mut buffer = fs.memory(len);
    let file = File::new(Rc::clone(&fs), Credentials::new(0, 0, &[]), file);
    let byte = contiguous(0, 1)?;
    let read = file.read_shape(&byte, &byte, &mut buffer);
    read.await.map_err(failed)?;
    drop(file);
    match Rc::try_unwrap(fs) {
        Ok(fs) => Ok((fs, buffer)),
        Err(_) => Err(Failure::Operation("somebody else has the mount".into())),
    }
}

impl Load {
    /// Bytes of an operation.
    fn bytes(&self) -> u64 {
        match self.access {
            Access::Contiguous(len) => u64::from(len),
            Access::Rows { len, count, .. } => u64::from(len) * u64::from(count),
        }
    }

    fn memory_len(&self) -> usize {
        let len = match self.access {
            Access::Rows {
                how: Rows::Each | Rows::Lists | Rows::Nested,
                ..
            }
            | Access::Contiguous(_) => self.bytes(),
            Access::Rows {
                how: Rows::ListsInWhole,
                ..
            } => 4 * self.bytes(),
            // The rows have allocations of their own.
            Access::Rows {
                how: Rows::ListsOfRows | Rows::ListsInThreeParents,
                ..
            } => 1,
            Access::Rows { .. } => 2 * self.bytes(),
        };
        usize::try_from(len).unwrap_or(usize::MAX)
    }
}

/// The process of a compute node.
struct Process {
    file: File,
    host: Rc<Host>,
    buffer: Buffer,
    load: Load,
    fs: Rc<VolumeFs>,
    /// Copies of short transfers.
    copies: Rc<Copies>,
    /// The allocations of a tile that lies in several.
    parents: Vec<Buffer>,
    /// Memory of earlier tiles, kept so that no allocation comes back.
    used: Vec<Buffer>,
    /// Number of requests so far.
    requests: u64,
}

impl Process {
    async fn measure(&mut self, stage: &Stage) -> Result<(), Failure> {
        let starts = self.host.now();
        let time = u64::try_from(self.load.time.as_nanos()).unwrap_or(u64::MAX);
        while self.host.now() < starts + time {
            let began = self.host.now();
            let (asked, registered) = self.counted();
            self.move_once().await?;
            let took = self.host.now() - began;
            let (asks, registers) = self.counted();
            let requests = stage.requests.get() + asks - asked;
            stage.requests.set(requests);
            let registrations = stage.registrations.get() + registers - registered;
            stage.registrations.set(registrations);
            stage.operations.set(stage.operations.get() + 1);
            stage.latency_ns.set(stage.latency_ns.get() + took);
            stage.bytes.set(stage.bytes.get() + self.load.bytes());
        }
        Ok(())
    }

    /// Requests of the process and registrations of its machine so far.
    fn counted(&self) -> (u64, u64) {
        (self.requests, self.host.usage().events.registrations)
    }

    /// Writes what will be read.
    async fn fill(&mut self) -> Result<(), Failure> {
        let spread = match self.load.access {
            Access::Contiguous(_) => self.load.bytes(),
            Access::Rows { .. } => 2 * self.load.bytes(),
        };
        let mut piece = Buffer::zeroed(1 << 20);
        let mut at = 0;
        while at < spread {
            let len =
                usize::try_from(spread - at).map_or(piece.len(), |left| left.min(piece.len()));
            let written = self.file.write_at(at, &mut piece, len, Stability::FileSync);
            written.await.map_err(failed)?;
            at += len as u64;
        }
        Ok(())
    }

    async fn move_once(&mut self) -> Result<(), Failure> {
        match self.load.access {
            Access::Contiguous(len) => {
                self.move_shape(contiguous(0, len)?, contiguous(0, len)?)
                    .await
            }
            Access::Rows { len, count, how } => self.move_rows(len, count, how).await,
        }
    }

    async fn move_rows(&mut self, len: u32, count: u32, how: Rows) -> Result<(), Failure> {
        let (row, stride) = (u64::from(len), 2 * u64::from(len));
        let list_len = match how {
            Rows::Each | Rows::Lists | Rows::Nested | Rows::Sieve => LIST_LEN,
            _ => u64::from(count).div_ceil(LISTS).clamp(1, LIST_LEN),
        };
        let firsts = (0..u64::from(count)).step_by(usize::try_from(list_len).unwrap_or(1));
        let list = |stride: u64, first: u64| {
            let rows = first..u64::from(count).min(first + list_len);
            let piece = |number| Piece {
                offset: number * stride,
                len,
            };
            shape(Shape::list(rows.map(piece).collect()))
        };
        match how {
            Rows::Each => {
                for number in 0..u64::from(count) {
                    let file = contiguous(number * stride, len)?;
                    self.move_shape(file, contiguous(number * row, len)?)
                        .await?;
                }
            }
            Rows::Lists => {
                for first in firsts {
                    self.move_shape(list(stride, first)?, list(row, first)?)
                        .await?;
                }
            }
            Rows::ListsInParent | Rows::ListsInWhole | Rows::ListsInKeptParent => {
                if how != Rows::ListsInKeptParent {
                    self.renew_memory();
                }
                for first in firsts {
                    self.move_shape(list(stride, first)?, list(stride, first)?)
                        .await?;
                }
            }
            Rows::ListsOfRows | Rows::ListsInThreeParents => {
                self.renew_parents(len, count, how);
                for first in firsts {
                    let file = list(stride, first)?;
                    let rows = first..u64::from(count).min(first + list_len);
                    let memory = rows.map(|row| parent_piece(row, len, how)).collect();
                    self.move_list(file, memory).await?;
                }
            }
            Rows::Nested => {
                let first = Piece { offset: 0, len };
                let nested = |stride| shape(Shape::nested(first, vec![Level { count, stride }]));
                self.move_shape(nested(stride)?, nested(row)?).await?;
            }
            Rows::Sieve => {
                let all = 2 * row * u64::from(count) - row;
                let all = u32::try_from(all).unwrap_or(u32::MAX);
                self.move_shape(contiguous(0, all)?, contiguous(0, all)?)
                    .await?;
                let rate = self.host.profile().machine.copy_bytes_per_s;
                let copying = rate.time_for(self.load.bytes());
                self.host.work(Activity::Copy, 0, copying).await;
            }
        }
        Ok(())
    }

    /// Replaces the buffer by memory that was never registered. The old buffer is kept, so that it does not come back.
    fn renew_memory(&mut self) {
        let fresh = self.fs.memory(self.buffer.len());
        self.used.push(std::mem::replace(&mut self.buffer, fresh));
    }

    /// Replaces the allocations of the rows, as [`Process::renew_memory`] does the buffer.
    fn renew_parents(&mut self, len: u32, count: u32, how: Rows) {
        let (parents, len) = match how {
            Rows::ListsInThreeParents => {
                let rows = u64::from(count).div_ceil(PARENTS);
                (PARENTS, 2 * u64::from(len) * rows)
            }
            _ => (u64::from(count), u64::from(len)),
        };
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        let fresh = (0..parents).map(|_| self.fs.memory(len)).collect();
        self.used
            .extend(std::mem::replace(&mut self.parents, fresh));
    }

    async fn move_list(&mut self, file: Shape, memory: Vec<ParentPiece>) -> Result<(), Failure> {
        self.begin_request().await;
        let parents = &mut self.parents[..];
        let moved = if self.load.writes {
            let stability = stability(&self.host);
            let written = self.file.write_list(&file, &memory, parents, stability);
            written.await
        } else {
            self.file.read_list(&file, &memory, parents).await
        };
        self.end_request(moved)
    }

    async fn begin_request(&mut self) {
        let time = self.host.profile().machine.client_operation_ns.value;
        self.host.work(Activity::Protocol, time, 0).await;
        self.requests += 1;
    }

    fn end_request(&self, moved: Result<(), FileError>) -> Result<(), Failure> {
        // The last of what was read has just been copied.
        self.copies.settle();
        moved.map_err(failed)
    }

    async fn move_shape(&mut self, file: Shape, memory: Shape) -> Result<(), Failure> {
        self.begin_request().await;
        let buffer = &mut self.buffer;
        let moved = if self.load.writes {
            let stability = stability(&self.host);
            let written = self.file.write_shape(&file, &memory, buffer, stability);
            written.await
        } else {
            self.file.read_shape(&file, &memory, buffer).await
        };
        self.end_request(moved)
    }
}

fn stability(host: &Host) -> Stability {
    match host.profile().file_system.cache_bytes.value {
        // In memory nothing is more durable than anything else.
        0 => Stability::FileSync,
        _ => Stability::Unstable,
    }
}

/// The place of a row in the allocations of [`Process::renew_parents`].
fn parent_piece(row: u64, len: u32, how: Rows) -> ParentPiece {
    let (parent, offset) = match how {
        Rows::ListsInThreeParents => (row % PARENTS, row / PARENTS * 2 * u64::from(len)),
        _ => (row, 0),
    };
    ParentPiece {
        // Below the number of rows.
        parent: usize::try_from(parent).unwrap_or(usize::MAX),
        piece: Piece { offset, len },
    }
}

fn contiguous(offset: u64, len: u32) -> Result<Shape, Failure> {
    shape(Shape::contiguous(offset, len))
}

fn shape<E: std::fmt::Display>(made: Result<Shape, E>) -> Result<Shape, Failure> {
    made.map_err(failed)
}

/// A client that requests all data from servers, as PVFS clients do.
fn as_published(fs: VolumeFs, policy: TransferPolicy) -> VolumeFs {
    fs.with_policy(policy).with_reads(ReadOptions {
        optimistic: Optimistic::Off,
        ..ReadOptions::default()
    })
}
