//! Paper 003: the Optimistic Direct Access File System.
//!
//! Three parts. The latency of an access by its way ([`latency`]) is messages and optimistic reads on the simulated
//! adapter, whose costs are table II: input, not result. Figure 4 ([`figure4`]) and the five open questions of section
//! III-A ([`replacement`], [`balance`], [`metadata`], [`invalidations`], [`prefetch`]) are counts of hits: the client's
//! side is the code that serves ([`gannet_volume::client::optimistic`]), the server is a page cache.

mod balance;
mod figure4;
mod invalidations;
mod latency;
mod metadata;
mod prefetch;
mod replacement;

use super::laboratory::{Laboratory, OwnConstant};
use super::row::Table;
use super::{Axes, Failure, Paper, Report, Series, figure};
use crate::experiment::caching::{AccessTimes, Attributes, CachingLoad, Pattern, Start};
use crate::experiment::optimistic::AccessWay;
use crate::profiles::{ODAFS_50, ODAFS_100};
use gannet_sim::nic::{Constant, assumed, derived, given};
use gannet_volume::client::optimistic::{Balance, ClientMemoryOptions};
use std::time::Duration;

/// The share by which two numbers differ where a figure shows it; less is "the same". As in the study of paper 004.
const VISIBLE: f64 = 0.1;
/// The questions are asked with files and caches of an eighth of the paper's size: shares do not depend on it.
const SCALE: u64 = 8;
/// The size of the file, of the server's pages, where a question wants some references to be stale.
const LARGE_PERCENT: u64 = 130;
/// Clients that know nothing of each other.
const CLIENTS: usize = 4;

pub(super) fn run(laboratory: &mut Laboratory<'_>) -> Result<Report, Failure> {
    let mut table = Table::new(Paper::Odafs);
    let bench = Bench::new(laboratory)?;
    let mut figures = figure4::run(laboratory, &bench, &mut table);
    figures.push(replacement::run(laboratory, &bench, &mut table));
    figures.push(balance::run(laboratory, &bench, &mut table));
    figures.push(metadata::run(laboratory, &bench, &mut table));
    figures.push(invalidations::run(laboratory, &bench, &mut table));
    figures.push(prefetch::run(laboratory, &bench, &mut table));
    figures.push(latency::run(laboratory, &bench, &mut table)?);
    Ok(Report {
        rows: table.into_rows(),
        figures,
    })
}

const CLIENT_CACHE: Constant = given(
    200 << 20,
    "003 figure 4: the client cache grows up to 200 MB",
);
const SERVER_MEMORY: Constant = given(1 << 30, "003 section VI-A: 1 GB of the server's memory");
const SERVER_RESERVED: Constant = assumed(
    128 << 20,
    "the part of it without pages of files: the kernel of FreeBSD 4.3, its maps and buffers, \
        wired processes",
);
const BLOCK: Constant = given(8 << 10, "003 section VI-A: blocks of 8 KB");
const COMPACT_ENTRY: Constant = derived(
    16,
    "003 section VI-A: references to the server's 1 GB in less than 2 MB: 131072 blocks",
);
const ENTRY: Constant = given(
    64,
    "003 section VI-A: realistic directory entry sizes, e.g. 64 bytes",
);
const INODES: Constant = assumed(
    30_000,
    "files whose attributes a server of 1 GB has in memory: the size to which BSD's table of \
        vnodes grew",
);

/// The study's constants, as they are now, and what accesses take.
struct Bench {
    client_bytes: u64,
    server_bytes: u64,
    block: u64,
    compact_entry: u64,
    entry: u64,
    inodes: u64,
    times: AccessTimes,
    costs: (Duration, Duration),
}

impl Bench {
    fn new(laboratory: &mut Laboratory<'_>) -> Result<Bench, Failure> {
        let mut value = |name, constant| {
            laboratory.constant(OwnConstant {
                testbed: "odafs-caches",
                name,
                constant,
            })
        };
        let memory = value("server_memory_len", SERVER_MEMORY);
        let mut bench = Bench {
            client_bytes: value("client_cache_len", CLIENT_CACHE),
            server_bytes: memory.saturating_sub(value("server_reserved_len", SERVER_RESERVED)),
            block: value("block_len", BLOCK),
            compact_entry: value("compact_entry_len", COMPACT_ENTRY),
            entry: value("entry_len", ENTRY),
            inodes: value("server_inodes", INODES),
            times: AccessTimes {
                call: 0.0,
                optimistic: 0.0,
                stale: 0.0,
            },
            costs: (Duration::ZERO, Duration::ZERO),
        };
        let mut middle = |way| -> Result<Duration, Failure> {
            let least = laboratory.access(&ODAFS_50, way)?;
            Ok((least + laboratory.access(&ODAFS_100, way)?) / 2)
        };
        let call = middle(AccessWay::InlineCall)?;
        let optimistic = middle(AccessWay::Optimistic)?;
        bench.times = AccessTimes {
            call: micros(call),
            optimistic: micros(optimistic),
            stale: micros(middle(AccessWay::Refused)?),
        };
        bench.costs = (call, optimistic);
        Ok(bench)
    }

    /// Blocks of the server's pages at the scale of the questions.
    fn server_blocks(&self) -> u64 {
        self.server_bytes / self.block / SCALE
    }

    /// Blocks of a file that does not fit into them.
    fn large_blocks(&self) -> u64 {
        self.server_blocks() * LARGE_PERCENT / 100
    }

    /// A client's memory with entries of the real size, whose balance adapts.
    fn adaptive(&self, bytes: u64) -> ClientMemoryOptions {
        ClientMemoryOptions {
            block_len: small(self.block),
            entry_cost: small(self.entry),
            ..ClientMemoryOptions::new(bytes)
        }
    }

    /// A client's memory with so many bytes of data and so many references, apart.
    fn apart(&self, data: u64, references: u64) -> ClientMemoryOptions {
        let directory = references * self.compact_entry;
        ClientMemoryOptions {
            budget: data + directory,
            block_len: small(self.block),
            entry_cost: small(self.compact_entry),
            balance: Balance::Fixed { directory },
            ..ClientMemoryOptions::new(0)
        }
    }

    /// One client that reads blocks of one file of so many blocks, each as often.
    fn load(&self, blocks: u64, memory: ClientMemoryOptions) -> CachingLoad {
        CachingLoad {
            clients: 1,
            blocks,
            file_blocks: blocks,
            server_blocks: self.server_blocks(),
            server_files: 1,
            memory,
            pattern: Pattern::Uniform,
            start: Start::Cold,
            prefetch: 0,
            invalidations: 0,
            attributes: Attributes::Unused,
            costs: self.costs,
            accesses: 80_000,
            warm_up: 60_000,
        }
    }
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// A length of the study as the client's memory has it.
fn small(len: u64) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

/// A count as a coordinate.
#[allow(clippy::cast_precision_loss)] // far below 2^52
fn number(count: u64) -> f64 {
    count as f64
}

/// A line through what `y` gives at each of `xs`.
fn line(
    laboratory: &mut Laboratory<'_>,
    name: &str,
    xs: &[u64],
    mut y: impl FnMut(&mut Laboratory<'_>, u64) -> f64,
) -> Series {
    let xs = laboratory.points(xs);
    let points = xs.into_iter().map(|x| (number(x), y(laboratory, x)));
    Series {
        name: name.to_string(),
        points: points.collect(),
    }
}
