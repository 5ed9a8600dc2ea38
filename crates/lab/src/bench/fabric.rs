//! The software RNIC next to a plain TCP socket: what RDMA costs, on this machine, in this run.
//!
//! Two threads, each with its own runtime, are connected over loopback by the provider (with and
//! without CRC) and by a plain socket. Each row alternates between the two for several rounds and
//! reports medians, so that what else the machine does meanwhile falls on both. Working sets are
//! [`WORKING_SET`] bytes on either side, larger than the caches.

use super::raw::RawEnd;
use crate::cli::FabricOptions;
use anyhow::{Context, anyhow, bail};
use gannet_cli::bench::measure::thread_cpu;
use gannet_cli::failure::Failure;
use gannet_cli::{output, size, table};
use gannet_fabric::{
    Access, Backing, Completion, ConnectOptions, Connected, Done, Provider, Region, RemoteAddress,
    RemoteKey, Scope, SendOptions, Signal, Source, Span, WorkId, next_completions,
};
use gannet_iwarp::{IwarpConfig, IwarpProvider};
use gannet_runtime::tokio_plug::block_on;
use gannet_runtime::{Arena, Buffer, FileRef, FileSource, Handle};
use rustix::fd::OwnedFd;
use serde::Serialize;
use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// Bytes of the memory that each side sends from or receives into.
pub(crate) const WORKING_SET: usize = 64 << 20;
/// Bytes of one bulk operation.
const BULK: usize = 1 << 20;
/// Bytes of one message of a round trip.
const MESSAGE: usize = 64;
/// Number of bulk operations in flight.
const DEPTH: usize = 16;
/// Number of rounds per row; the median counts.
const ROUNDS: usize = 9;
/// A guess of the bytes that a row moves per second of its time: half of the rate of plain TCP on the smallest machine.
const BULK_PER_SECOND: usize = 2 << 30;
/// A guess of the round trips of a row per second of its time.
const TRIPS_PER_SECOND: usize = 20_000;

/// The settings of a measurement.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings {
    /// The approximate time of each row.
    pub(crate) seconds: Duration,
}

/// One line of the result. Bulk rows have rates, round-trip rows have times.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Row {
    /// The operation.
    pub(crate) op: &'static str,
    /// Bytes per operation.
    pub(crate) size: usize,
    /// Whether every FPDU has a CRC-32C.
    pub(crate) crc: bool,
    /// Payload moved, in 10^6 bytes per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) mb_per_s: Option<f64>,
    /// Payload that the plain socket moved, in 10^6 bytes per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) raw_tcp_mb_per_s: Option<f64>,
    /// Median time of a round trip, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) p50_us: Option<f64>,
    /// Median time of a round trip by the plain socket, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) raw_p50_us: Option<f64>,
    /// The provider over the plain socket: the median of the ratios of all rounds. Bulk rows compare rates (more is
    /// better), round-trip rows times (less is better).
    pub(crate) ratio: f64,
    /// CPU seconds per 10^9 bytes of the side that posts the work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) initiator_cpu_s_per_gb: Option<f64>,
    /// CPU seconds per 10^9 bytes of the other side.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) target_cpu_s_per_gb: Option<f64>,
    /// CPU seconds per 10^9 bytes of the side that posts the work, by the plain socket.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) raw_initiator_cpu_s_per_gb: Option<f64>,
    /// CPU seconds per 10^9 bytes of the other side, by the plain socket.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) raw_target_cpu_s_per_gb: Option<f64>,
}

/// Measures, and prints the rows.
///
/// # Errors
/// The fabric or the socket failed.
pub(super) fn run(options: &FabricOptions) -> Result<(), Failure> {
    let settings = Settings {
        seconds: options.seconds,
    };
    let rows = measure(settings)
        .map_err(|error| Failure::new("cannot measure the fabric", format!("{error:#}")))?;
    if options.json {
        return rows.iter().try_for_each(output::json);
    }
    let number =
        |value: Option<f64>| value.map_or_else(|| String::from("-"), |value| format!("{value:.2}"));
    let header = [
        "op",
        "size",
        "CRC",
        "MB/s",
        "TCP MB/s",
        "p50 us",
        "TCP p50 us",
        "ratio",
        "CPU s/GB",
        "peer's",
    ];
    let cells = rows.iter().map(|row| {
        [
            row.op.to_owned(),
            size::human(row.size as u64),
            String::from(if row.crc { "on" } else { "off" }),
            number(row.mb_per_s),
            number(row.raw_tcp_mb_per_s),
            number(row.p50_us),
            number(row.raw_p50_us),
            format!("{:.2}", row.ratio),
            number(row.initiator_cpu_s_per_gb),
            number(row.target_cpu_s_per_gb),
        ]
    });
    output::line(&table::render(3, header, &cells.collect::<Vec<_>>()))
}

/// Measures all rows.
///
/// # Errors
/// A thread, a socket or a connection could not be had, or broke.
fn measure(settings: Settings) -> anyhow::Result<Vec<Row>> {
    let (address_sender, address_receiver) = mpsc::channel();
    let (target_sender, target_receiver) = mpsc::channel();
    let target = std::thread::Builder::new()
        .name("bench-target".into())
        .spawn(move || {
            let measured = on_core(|runtime| target(runtime, settings, address_sender));
            // The receiver is dropped only when the initiator failed first and reports that.
            let _ = target_sender.send(measured);
        })?;
    let initiator = std::thread::Builder::new()
        .name("bench-initiator".into())
        .spawn(move || on_core(|runtime| initiator(runtime, settings, address_receiver)))?;
    let initiated = initiator
        .join()
        .map_err(|_| anyhow!("the initiator's thread panicked"))?;
    let initiated = initiated.context("the initiating side failed")?;
    let targeted = target_receiver
        .recv()
        .context("the target's thread panicked")?;
    let targeted = targeted.context("the target side failed")?;
    target
        .join()
        .map_err(|_| anyhow!("the target's thread panicked"))?;
    Ok(CASES
        .iter()
        .zip(
            initiated
                .chunks(2 * ROUNDS)
                .zip(targeted.chunks(2 * ROUNDS)),
        )
        .map(|(case, (initiated, targeted))| case.row(settings, initiated, targeted))
        .collect())
}

pub(super) fn on_core<T, F>(main: impl FnOnce(Handle) -> F) -> anyhow::Result<T>
where
    F: Future<Output = anyhow::Result<T>>,
{
    block_on(main)?
}

/// The operation of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Op {
    Write,
    Read,
    RoundTrip,
    /// An RDMA Write whose source is a file range, sent from the page cache.
    WriteFile,
    /// An RDMA Write of a file range that is read into memory first.
    WriteFileCopied,
}

#[derive(Debug, Clone, Copy)]
struct Case {
    op: Op,
    crc: bool,
}

const CASES: [Case; 9] = [
    Case {
        op: Op::Write,
        crc: false,
    },
    Case {
        op: Op::Write,
        crc: true,
    },
    Case {
        op: Op::Read,
        crc: false,
    },
    Case {
        op: Op::Read,
        crc: true,
    },
    Case {
        op: Op::RoundTrip,
        crc: false,
    },
    Case {
        op: Op::RoundTrip,
        crc: true,
    },
    Case {
        op: Op::WriteFile,
        crc: false,
    },
    Case {
        op: Op::WriteFileCopied,
        crc: false,
    },
    Case {
        op: Op::WriteFile,
        crc: true,
    },
];

/// The measurements of one side in one phase.
#[derive(Debug, Clone, Default)]
struct Phase {
    elapsed: Duration,
    cpu: Duration,
    trips: Vec<Duration>,
}

impl Case {
    fn name(self) -> &'static str {
        match self.op {
            Op::Write => "write",
            Op::Read => "read",
            Op::RoundTrip => "round-trip",
            Op::WriteFile => "write-file",
            Op::WriteFileCopied => "write-file-copied",
        }
    }

    /// Number of operations per round.
    fn count(self, settings: Settings) -> usize {
        let per_second = match self.op {
            Op::RoundTrip => TRIPS_PER_SECOND,
            _ => BULK_PER_SECOND / BULK,
        };
        // A row has its rounds twice: on the fabric, and on the plain socket.
        let count = per_second as f64 * settings.seconds.as_secs_f64() / (2 * ROUNDS) as f64;
        (count as usize).max(DEPTH)
    }

    /// Puts the phases of both sides together; they alternate between fabric and plain socket.
    fn row(self, settings: Settings, initiated: &[Phase], targeted: &[Phase]) -> Row {
        let is_bulk = self.op != Op::RoundTrip;
        let size = if is_bulk { BULK } else { MESSAGE };
        let bytes = (self.count(settings) * size) as f64;
        let rate = |first| {
            median(&every_other(initiated, first, |p| {
                bytes / secs(p.elapsed) / 1e6
            }))
        };
        let cpu =
            |phases, first| median(&every_other(phases, first, |p| secs(p.cpu) / bytes * 1e9));
        let p50 = |first| median(&every_other(initiated, first, |p| median_time(&p.trips)));
        let bulk = |value: f64| is_bulk.then_some(value);
        let ratios = initiated.chunks_exact(2).map(|pair| match pair {
            [fabric, raw] if is_bulk => secs(raw.elapsed) / secs(fabric.elapsed),
            [fabric, raw] => median_time(&fabric.trips) / median_time(&raw.trips),
            _ => f64::NAN,
        });
        let ratio = median(&ratios.collect::<Vec<_>>());
        Row {
            op: self.name(),
            size,
            crc: self.crc,
            mb_per_s: bulk(rate(0)),
            raw_tcp_mb_per_s: bulk(rate(1)),
            p50_us: (!is_bulk).then(|| p50(0)),
            raw_p50_us: (!is_bulk).then(|| p50(1)),
            ratio,
            initiator_cpu_s_per_gb: bulk(cpu(initiated, 0)),
            target_cpu_s_per_gb: bulk(cpu(targeted, 0)),
            raw_initiator_cpu_s_per_gb: bulk(cpu(initiated, 1)),
            raw_target_cpu_s_per_gb: bulk(cpu(targeted, 1)),
        }
    }
}

fn every_other(phases: &[Phase], first: usize, value: impl Fn(&Phase) -> f64) -> Vec<f64> {
    phases.iter().skip(first).step_by(2).map(value).collect()
}

fn secs(duration: Duration) -> f64 {
    duration.as_secs_f64()
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

fn median_time(times: &[Duration]) -> f64 {
    median(
        &times
            .iter()
            .map(|time| time.as_secs_f64() * 1e6)
            .collect::<Vec<_>>(),
    )
}

/// The memory of one side for the provider or the plain socket, with all of its pages touched.
pub(crate) fn working_set() -> Buffer {
    let mut memory = Buffer::zeroed(WORKING_SET);
    memory.fill(0x5a);
    memory
}

/// The range of piece `index` of `size` bytes in the working set.
pub(crate) fn piece(index: usize, size: usize) -> Range<usize> {
    let start = index * size % WORKING_SET;
    start..start + size
}

/// Runs one phase and measures this thread.
async fn measured<F>(body: F) -> anyhow::Result<Phase>
where
    F: Future<Output = anyhow::Result<Vec<Duration>>>,
{
    let (start, cpu) = (Instant::now(), thread_cpu());
    let trips = body.await?;
    Ok(Phase {
        elapsed: start.elapsed(),
        cpu: thread_cpu().saturating_sub(cpu),
        trips,
    })
}

fn config(crc: bool) -> IwarpConfig {
    IwarpConfig {
        crc,
        accept_race: None,
        ..IwarpConfig::default()
    }
}

fn options() -> ConnectOptions {
    let receives = (0..4).map(|_| Buffer::zeroed(MESSAGE)).collect();
    let depth = DEPTH as u16;
    ConnectOptions {
        ord: depth,
        ird: depth,
        receives,
        ..ConnectOptions::default()
    }
}

const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// The addresses at which the target listens: without CRC, with CRC, and the plain socket.
type Addresses = [SocketAddr; 3];

async fn target(
    runtime: Handle,
    settings: Settings,
    addresses: mpsc::Sender<Addresses>,
) -> anyhow::Result<Vec<Phase>> {
    let mut listeners = Vec::new();
    for crc in [false, true] {
        let provider = IwarpProvider::new(Rc::clone(&runtime), config(crc));
        listeners.push(provider.listen(LOOPBACK)?);
    }
    let mut raw_listener = runtime.listen(LOOPBACK)?;
    let [plain, checked] = &mut listeners[..] else {
        bail!("two listeners are needed")
    };
    let at = [
        plain.local_address(),
        checked.local_address(),
        raw_listener.local_address(),
    ];
    addresses.send(at).context("the initiator is gone")?;
    let mut ends = Vec::new();
    for listener in [plain, checked] {
        let endpoint = listener.accept().await?.accept(options()).await?;
        ends.push(FabricEnd::new(endpoint)?);
    }
    let mut raw = RawEnd::new(raw_listener.accept().await?);
    for end in &mut ends {
        // The initiator speaks first, as MPA demands.
        end.receive().await?;
        end.advertise()?;
    }
    let mut phases = Vec::new();
    for case in CASES {
        let count = case.count(settings);
        let end = ends
            .get_mut(usize::from(case.crc))
            .context("no such connection")?;
        for _ in 0..ROUNDS {
            phases.push(measured(end.target(case.op, count)).await?);
            phases.push(measured(raw_target(&mut raw, case.op, count)).await?);
        }
    }
    Ok(phases)
}

async fn initiator(
    runtime: Handle,
    settings: Settings,
    addresses: mpsc::Receiver<Addresses>,
) -> anyhow::Result<Vec<Phase>> {
    let [plain, checked, raw] = addresses.recv().context("the target did not start")?;
    let mut ends = Vec::new();
    for (crc, address) in [(false, plain), (true, checked)] {
        let provider = IwarpProvider::new(Rc::clone(&runtime), config(crc));
        ends.push(FabricEnd::new(provider.connect(address, options()).await?)?);
    }
    let mut raw = RawEnd::new(runtime.connect(raw).await?);
    for end in &mut ends {
        end.send_text(b"ready")?;
        end.learn().await?;
    }
    let file: FileRef = Arc::new(MemoryFile::new(WORKING_SET)?);
    let mut phases = Vec::new();
    for case in CASES {
        let count = case.count(settings);
        let end = ends
            .get_mut(usize::from(case.crc))
            .context("no such connection")?;
        for _ in 0..ROUNDS {
            phases.push(measured(end.initiate(case.op, count, &file)).await?);
            phases.push(measured(raw_initiate(&mut raw, case.op, count)).await?);
        }
    }
    Ok(phases)
}

async fn raw_target(raw: &mut RawEnd, op: Op, count: usize) -> anyhow::Result<Vec<Duration>> {
    match op {
        Op::RoundTrip => raw.pong(MESSAGE, count).await?,
        Op::Read => raw.send_all(BULK, count).await?,
        _ => raw.receive_all(BULK, count).await?,
    }
    Ok(Vec::new())
}

async fn raw_initiate(raw: &mut RawEnd, op: Op, count: usize) -> anyhow::Result<Vec<Duration>> {
    match op {
        Op::RoundTrip => return raw.ping(MESSAGE, count).await,
        Op::Read => raw.receive_all(BULK, count).await?,
        _ => raw.send_all(BULK, count).await?,
    }
    Ok(Vec::new())
}

/// One end of a connection of the provider.
struct FabricEnd {
    endpoint: Connected,
    /// This side's working set.
    memory: Region,
    /// The peer's memory, once the peer has sent its address.
    remote: Option<RemoteAddress>,
    arena: Arena,
    ready: VecDeque<Completion>,
}

impl FabricEnd {
    fn new(endpoint: Connected) -> anyhow::Result<FabricEnd> {
        let backing = Backing::Buffer(working_set());
        let scope = Scope::Endpoint(endpoint.id());
        let memory = endpoint
            .domain()
            .register_now(backing, Access::RemoteReadWrite, scope)?;
        let arena = Arena::new(BULK, 2 * DEPTH);
        Ok(FabricEnd {
            endpoint,
            memory,
            remote: None,
            arena,
            ready: VecDeque::new(),
        })
    }

    /// Sends the peer the address of the working set.
    fn advertise(&self) -> anyhow::Result<()> {
        let mut message = self.memory.base().to_be_bytes().to_vec();
        message.extend_from_slice(&self.memory.remote_key().0.to_be_bytes());
        self.send_text(&message)
    }

    async fn learn(&mut self) -> anyhow::Result<()> {
        let message = self.receive().await?;
        let (offset, rest) = message
            .split_first_chunk::<8>()
            .context("a short message")?;
        let key = rest.first_chunk::<4>().context("a short message")?;
        self.remote = Some(RemoteAddress {
            key: RemoteKey(u32::from_be_bytes(*key)),
            offset: u64::from_be_bytes(*offset),
        });
        Ok(())
    }

    /// Runs the passive side of a row.
    async fn target(&mut self, op: Op, count: usize) -> anyhow::Result<Vec<Duration>> {
        if op == Op::RoundTrip {
            for _ in 0..count {
                let message = self.receive().await?;
                self.send(message)?;
            }
            return Ok(Vec::new());
        }
        // The last message says that all operations are done; the answer confirms that all bytes are in place.
        self.receive().await?;
        self.send_text(b"done")?;
        Ok(Vec::new())
    }

    /// Runs the active side of a row.
    async fn initiate(
        &mut self,
        op: Op,
        count: usize,
        file: &FileRef,
    ) -> anyhow::Result<Vec<Duration>> {
        if op == Op::RoundTrip {
            return self.ping(count).await;
        }
        let mut posted = 0;
        let mut done = 0;
        while done < count {
            while posted < count && posted - done < DEPTH {
                self.post(op, posted, file)?;
                posted += 1;
            }
            self.endpoint.flush();
            let finished = match op {
                Op::Read => Done::Read,
                _ => Done::Written,
            };
            self.wait(finished).await?;
            done += 1;
        }
        self.send_text(b"all")?;
        self.receive().await?;
        Ok(Vec::new())
    }

    fn post(&self, op: Op, index: usize, file: &FileRef) -> anyhow::Result<()> {
        let id = WorkId(index as u64);
        let range = piece(index, BULK);
        let (start, len) = (range.start as u64, BULK as u32);
        let remote = self.remote.context("the peer has not told its address")?;
        let remote = RemoteAddress {
            offset: remote.offset + start,
            ..remote
        };
        let span = Span {
            region: self.memory.clone(),
            offset: start,
            len,
        };
        let source = match op {
            Op::Read => return Ok(self.endpoint.post_read(id, span, remote)?),
            Op::WriteFile => Source::File {
                file: FileRef::clone(file),
                offset: start,
                len,
            },
            Op::WriteFileCopied => {
                let mut buffer = self.arena.take().context("the arena is empty")?;
                file.try_read_at(start, &mut buffer)?;
                Source::Buffer { buffer, len }
            }
            _ => Source::Span(span),
        };
        Ok(self
            .endpoint
            .post_write(id, source, remote, Signal::Always)?)
    }

    async fn ping(&mut self, count: usize) -> anyhow::Result<Vec<Duration>> {
        let mut times = Vec::with_capacity(count);
        let mut message = Buffer::zeroed(MESSAGE);
        for _ in 0..count {
            let start = Instant::now();
            self.send(message)?;
            message = self.receive().await?;
            times.push(start.elapsed());
        }
        Ok(times)
    }

    fn send_text(&self, text: &[u8]) -> anyhow::Result<()> {
        let mut buffer = Buffer::zeroed(MESSAGE);
        for (byte, value) in buffer.iter_mut().zip(text) {
            *byte = *value;
        }
        self.send(buffer)
    }

    /// Sends a message of [`MESSAGE`] bytes. Its memory is given up, and another receive takes its place.
    fn send(&self, buffer: Buffer) -> anyhow::Result<()> {
        let source = Source::Buffer {
            buffer,
            len: MESSAGE as u32,
        };
        self.endpoint
            .post_send(WorkId(0), source, SendOptions::default())?;
        self.endpoint.flush();
        Ok(())
    }

    /// Waits for the next message. A new receive takes the place of the one that held it.
    async fn receive(&mut self) -> anyhow::Result<Buffer> {
        loop {
            let completion = self.next().await?;
            if let (Ok(Done::Received { .. }), Some(buffer)) =
                (completion.outcome, completion.buffer)
            {
                self.endpoint
                    .post_receive(WorkId(0), Buffer::zeroed(MESSAGE))?;
                return Ok(buffer);
            }
        }
    }

    async fn wait(&mut self, done: Done) -> anyhow::Result<()> {
        let completion = self.next().await?;
        if completion.outcome? != done {
            bail!("unexpected completion");
        }
        Ok(())
    }

    async fn next(&mut self) -> anyhow::Result<Completion> {
        loop {
            if let Some(completion) = self.ready.pop_front() {
                return Ok(completion);
            }
            let mut batch = Vec::new();
            next_completions(&*self.endpoint, &mut batch).await?;
            self.ready.extend(batch);
        }
    }
}

/// A file in the page cache only.
pub(super) struct MemoryFile {
    descriptor: OwnedFd,
}

impl MemoryFile {
    pub(super) fn new(len: usize) -> anyhow::Result<MemoryFile> {
        let flags = rustix::fs::MemfdFlags::CLOEXEC;
        let descriptor = rustix::fs::memfd_create("gannet-bench", flags)?;
        let bytes = vec![0xa5; BULK];
        for start in (0..len).step_by(BULK) {
            let piece = bytes.get(..BULK.min(len - start)).unwrap_or(&bytes);
            rustix::io::pwrite(&descriptor, piece, start as u64)?;
        }
        Ok(MemoryFile { descriptor })
    }
}

impl FileSource for MemoryFile {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.descriptor.as_fd())
    }

    fn try_read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::pread(&self.descriptor, buffer, offset)?)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.try_read_at(offset, buffer)
    }

    fn is_resident(&self, _offset: u64, _len: u64) -> bool {
        true
    }
}
