//! A provider next to a plain TCP socket: what RDMA costs, on this machine, in this run.
//!
//! Two threads, each with its own runtime, are connected by the provider and by a plain socket. The software RNIC
//! connects over loopback, with and without CRC; a device connects to itself. Each row alternates between the two for
//! several rounds and reports medians, so that what else the machine does meanwhile falls on both. Working sets are
//! larger than the caches, unless the caller asks for less.

use super::end::{DEPTH, FabricEnd, MESSAGE, Op};
use super::provider::Measured;
use super::raw::RawEnd;
use crate::cli::FabricOptions;
use anyhow::{Context, anyhow};
use gannet_cli::bench::measure::thread_cpu;
use gannet_cli::failure::Failure;
use gannet_cli::{output, size, table};
use gannet_fabric::ConnectOptions;
use gannet_runtime::tokio_plug::block_on;
use gannet_runtime::{Buffer, FileRef, FileSource, Handle};
use rustix::fd::OwnedFd;
use serde::Serialize;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// Bytes of one bulk operation of the software RNIC.
const BULK: usize = 1 << 20;
/// Number of rounds per row; the median counts.
const ROUNDS: usize = 9;
/// A guess of the bytes that a row moves per second of its time: half of the rate of plain TCP on the smallest machine.
const BULK_PER_SECOND: usize = 2 << 30;
/// A guess of the round trips of a row per second of its time.
const TRIPS_PER_SECOND: usize = 20_000;

/// The settings of a measurement.
#[derive(Clone)]
struct Setup {
    provider: Measured,
    cases: &'static [Case],
    /// The approximate time of each row.
    seconds: Duration,
    /// Bytes of the memory that each side sends from or receives into.
    memory: usize,
}

impl Setup {
    /// The connections of the provider, each with or without CRC.
    fn connections(&self) -> &'static [bool] {
        if self.cases.iter().any(|case| case.crc) {
            &[false, true]
        } else {
            &[false]
        }
    }
}

/// One line of the result. Bulk rows have rates, other rows have times.
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
    /// Median time of a round trip, of a single Read, or of half a ping-pong, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) p50_us: Option<f64>,
    /// The same of the plain socket, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) raw_p50_us: Option<f64>,
    /// The provider over the plain socket: the median of the ratios of all rounds. Bulk rows compare rates (more is
    /// better), other rows times (less is better).
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
    let provider = Measured::choose(&options.measured)?;
    let setup = Setup {
        cases: match provider.is_device() {
            true => DEVICE_CASES,
            false => SOFTWARE_CASES,
        },
        provider,
        seconds: options.seconds,
        memory: options.memory as usize,
    };
    let rows = measure(&setup)
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
fn measure(setup: &Setup) -> anyhow::Result<Vec<Row>> {
    let (address_sender, address_receiver) = mpsc::channel();
    let (target_sender, target_receiver) = mpsc::channel();
    let (far, near) = (setup.clone(), setup.clone());
    let target = std::thread::Builder::new()
        .name("bench-target".into())
        .spawn(move || {
            let measured = on_core(|runtime| target(runtime, far, address_sender));
            // The receiver is dropped only when the initiator failed first and reports that.
            let _ = target_sender.send(measured);
        })?;
    let initiator = std::thread::Builder::new()
        .name("bench-initiator".into())
        .spawn(move || on_core(|runtime| initiator(runtime, near, address_receiver)))?;
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
    Ok(setup
        .cases
        .iter()
        .zip(
            initiated
                .chunks(2 * ROUNDS)
                .zip(targeted.chunks(2 * ROUNDS)),
        )
        .map(|(case, (initiated, targeted))| case.row(setup.seconds, initiated, targeted))
        .collect())
}

pub(super) fn on_core<T, F>(main: impl FnOnce(Handle) -> F) -> anyhow::Result<T>
where
    F: Future<Output = anyhow::Result<T>>,
{
    block_on(main)?
}

/// A row of the result.
#[derive(Debug, Clone, Copy)]
struct Case {
    op: Op,
    /// Bytes of an operation.
    size: usize,
    /// Whether the software RNIC asks for CRCs.
    crc: bool,
}

impl Case {
    const fn new(op: Op, size: usize, crc: bool) -> Case {
        Case { op, size, crc }
    }
}

/// The rows of the software RNIC.
const SOFTWARE_CASES: &[Case] = &[
    Case::new(Op::Write, BULK, false),
    Case::new(Op::Write, BULK, true),
    Case::new(Op::Read, BULK, false),
    Case::new(Op::Read, BULK, true),
    Case::new(Op::RoundTrip, MESSAGE, false),
    Case::new(Op::RoundTrip, MESSAGE, true),
    Case::new(Op::WriteFile, BULK, false),
    Case::new(Op::WriteFileCopied, BULK, false),
    Case::new(Op::WriteFile, BULK, true),
];

/// The rows of a device: what its own benchmarks measure (and figure 5 of the PVFS paper), and half the time of a round
/// trip with and without registration (figure 1 of the NFS/RDMA paper).
const DEVICE_CASES: &[Case] = &[
    Case::new(Op::Write, 4 << 10, false),
    Case::new(Op::Write, 64 << 10, false),
    Case::new(Op::Write, BULK, false),
    Case::new(Op::Read, 4 << 10, false),
    Case::new(Op::Read, 64 << 10, false),
    Case::new(Op::Read, BULK, false),
    Case::new(Op::SingleRead, 4 << 10, false),
    Case::new(Op::RoundTrip, MESSAGE, false),
    Case::new(Op::PingPong { registers: false }, 4 << 10, false),
    Case::new(Op::PingPong { registers: true }, 4 << 10, false),
    Case::new(Op::PingPong { registers: false }, 64 << 10, false),
    Case::new(Op::PingPong { registers: true }, 64 << 10, false),
    Case::new(Op::PingPong { registers: false }, BULK, false),
    Case::new(Op::PingPong { registers: true }, BULK, false),
];

/// The measurements of one side in one phase.
#[derive(Debug, Clone, Default)]
struct Phase {
    elapsed: Duration,
    cpu: Duration,
    trips: Vec<Duration>,
}

impl Case {
    /// Number of operations per round.
    fn count(self, seconds: Duration) -> usize {
        let by_bytes = BULK_PER_SECOND / self.size;
        let (per_second, least) = match self.op.is_bulk() {
            true => (by_bytes, DEPTH),
            false => (by_bytes.min(TRIPS_PER_SECOND), 2),
        };
        // A row has its rounds twice: on the fabric, and on the plain socket.
        let count = per_second as f64 * seconds.as_secs_f64() / (2 * ROUNDS) as f64;
        (count as usize).max(least)
    }

    /// Puts the phases of both sides together; they alternate between fabric and plain socket.
    fn row(self, seconds: Duration, initiated: &[Phase], targeted: &[Phase]) -> Row {
        let (is_bulk, size) = (self.op.is_bulk(), self.size);
        let bytes = (self.count(seconds) * size) as f64;
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
            op: self.op.name(),
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
pub(crate) fn working_set(len: usize) -> Buffer {
    let mut memory = Buffer::zeroed(len);
    memory.fill(0x5a);
    memory
}

/// The range of piece `index` of `size` bytes in a working set of `memory` bytes.
pub(crate) fn piece(index: usize, size: usize, memory: usize) -> Range<usize> {
    let start = index % (memory / size).max(1) * size;
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

/// The addresses at which the target listens.
struct Addresses {
    /// One for each connection of [`Setup::connections`].
    fabric: Vec<SocketAddr>,
    /// The address of the plain socket.
    raw: SocketAddr,
}

async fn target(
    runtime: Handle,
    setup: Setup,
    addresses: mpsc::Sender<Addresses>,
) -> anyhow::Result<Vec<Phase>> {
    let mut listeners = Vec::new();
    for crc in setup.connections() {
        let provider = setup.provider.over(&runtime, *crc)?;
        listeners.push(provider.listen(setup.provider.address())?);
    }
    let mut raw_listener = runtime.listen(setup.provider.address())?;
    let at = Addresses {
        fabric: (listeners.iter().map(|it| it.local_address())).collect(),
        raw: raw_listener.local_address(),
    };
    addresses.send(at).context("the initiator is gone")?;
    let mut ends = Vec::new();
    for listener in &mut listeners {
        let endpoint = listener.accept().await?.accept(options()).await?;
        ends.push(FabricEnd::new(endpoint, setup.memory).await?);
    }
    let mut raw = RawEnd::new(raw_listener.accept().await?, setup.memory);
    for end in &mut ends {
        // The initiator speaks first, as MPA demands.
        end.learn().await?;
        end.advertise()?;
    }
    let mut phases = Vec::new();
    for case in setup.cases {
        let count = case.count(setup.seconds);
        let end = ends.get_mut(usize::from(case.crc));
        let end = end.context("no such connection")?;
        for _ in 0..ROUNDS {
            phases.push(measured(end.target(case.op, case.size, count)).await?);
            phases.push(measured(raw_target(&mut raw, *case, count)).await?);
        }
    }
    Ok(phases)
}

async fn initiator(
    runtime: Handle,
    setup: Setup,
    addresses: mpsc::Receiver<Addresses>,
) -> anyhow::Result<Vec<Phase>> {
    let Addresses { fabric, raw } = addresses.recv().context("the target did not start")?;
    let mut ends = Vec::new();
    for (crc, address) in setup.connections().iter().zip(fabric) {
        let provider = setup.provider.over(&runtime, *crc)?;
        let endpoint = provider.connect(address, options()).await?;
        ends.push(FabricEnd::new(endpoint, setup.memory).await?);
    }
    let mut raw = RawEnd::new(runtime.connect(raw).await?, setup.memory);
    for end in &mut ends {
        end.advertise()?;
        end.learn().await?;
    }
    let file: FileRef = Arc::new(MemoryFile::new(setup.memory)?);
    let mut phases = Vec::new();
    for case in setup.cases {
        let count = case.count(setup.seconds);
        let end = ends.get_mut(usize::from(case.crc));
        let end = end.context("no such connection")?;
        for _ in 0..ROUNDS {
            phases.push(measured(end.initiate(case.op, case.size, count, &file)).await?);
            phases.push(measured(raw_initiate(&mut raw, *case, count)).await?);
        }
    }
    Ok(phases)
}

async fn raw_target(raw: &mut RawEnd, case: Case, count: usize) -> anyhow::Result<Vec<Duration>> {
    let size = case.size;
    match case.op {
        Op::RoundTrip | Op::PingPong { .. } => raw.pong(size, size, count).await?,
        Op::SingleRead => raw.pong(MESSAGE, size, count).await?,
        Op::Read => raw.send_all(size, count).await?,
        Op::Write | Op::WriteFile | Op::WriteFileCopied => raw.receive_all(size, count).await?,
    }
    Ok(Vec::new())
}

async fn raw_initiate(raw: &mut RawEnd, case: Case, count: usize) -> anyhow::Result<Vec<Duration>> {
    let size = case.size;
    match case.op {
        Op::RoundTrip => return raw.ping(size, size, count).await,
        Op::PingPong { .. } => {
            let times = raw.ping(size, size, count).await?;
            return Ok(times.into_iter().map(|time| time / 2).collect());
        }
        Op::SingleRead => return raw.ping(MESSAGE, size, count).await,
        Op::Read => raw.receive_all(size, count).await?,
        Op::Write | Op::WriteFile | Op::WriteFileCopied => raw.send_all(size, count).await?,
    }
    Ok(Vec::new())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rows_of_a_device_are_measured_on_the_software_rnic_too() {
        let setup = Setup {
            provider: Measured::Software,
            cases: DEVICE_CASES,
            seconds: Duration::from_micros(1),
            memory: 1 << 20,
        };
        let rows = measure(&setup).unwrap();
        assert_eq!(rows.len(), DEVICE_CASES.len());
        for row in &rows {
            let is_bulk = ["read", "write"].contains(&row.op);
            let (figure, raw) = match is_bulk {
                true => (row.mb_per_s, row.raw_tcp_mb_per_s),
                false => (row.p50_us, row.raw_p50_us),
            };
            assert!(figure > Some(0.0) && raw > Some(0.0), "{row:?}");
            assert_eq!(row.mb_per_s.is_some(), is_bulk, "{row:?}");
        }
    }
}
