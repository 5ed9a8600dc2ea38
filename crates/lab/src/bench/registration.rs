//! The costs of registering memory by strategy, alone and with the data moved, and of the kernel's mlock beside it.
//!
//! The software RNIC registers by a table entry. It pins nothing, since no hardware accesses the memory without the
//! kernel. A device has to pin as well; mlock(2) and munlock(2) of the same length stand for that beside the software
//! RNIC. The costs of walking the pages and of commands to the adapter come on top.

use super::provider::Measured;
use super::transfer::{Transfer, TransferRow, move_often};
use crate::cli::RegistrationOptions;
use gannet_cli::bench::measure::{histogram, rounded};
use gannet_cli::failure::{Explain, Failure};
use gannet_cli::{output, session, size, table};
use gannet_fabric::registration::{NotTrusted, Registration, Strategy, StrategyKind, Trust};
use gannet_fabric::{Access, Domain, Scope};
use gannet_rpc::Design;
use gannet_runtime::{Arena, Buffer, Handle};
use hdrhistogram::Histogram;
use memmap2::MmapMut;
use serde::Serialize;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Bytes of a registration.
const SIZES: [usize; 5] = [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20];
/// Uses between two looks at the clock that ends a row.
const BATCH: u32 = 16;
/// Bytes that a transfer moves.
const TRANSFER_SIZES: [usize; 2] = [64 << 10, 1 << 20];

/// One line of the result.
#[derive(Debug, Serialize)]
struct Row {
    /// A strategy, or `mlock`.
    what: &'static str,
    /// `peer`: a peer may write to it, as to the sink of a READ. `own`: for our own operations alone, as the sink of
    /// the server's RDMA Reads. Null for mlock.
    reach: Option<&'static str>,
    size: usize,
    uses: u64,
    /// Medians: what else the machine does meanwhile takes whole time slices out of single uses.
    register_us: f64,
    release_us: f64,
}

/// Measures and prints.
///
/// # Errors
/// Memory cannot be registered.
pub(super) fn run(options: &RegistrationOptions) -> Result<(), Failure> {
    let provider = Measured::choose(&options.measured)?;
    let (mut rows, mut transfers) = (Vec::new(), Vec::new());
    session::run(async |runtime| {
        rows = registrations(&provider, &runtime, options.seconds).await?;
        transfers = all_transfers(&provider, &runtime, options.seconds).await?;
        Ok(())
    })?;
    for size in SIZES {
        match lock_often(size, options.seconds) {
            Ok(measured) => rows.push(measured.row("mlock", None, size)),
            Err(error) => {
                tracing::warn!(%error, "no mlock beside it: raise `ulimit -l`");
            }
        }
    }
    if options.json {
        rows.iter().try_for_each(output::json)?;
        return transfers.iter().try_for_each(output::json);
    }
    show(&rows)?;
    show_transfers(&transfers)
}

async fn registrations(
    provider: &Measured,
    runtime: &Handle,
    time: Duration,
) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for kind in StrategyKind::ALL {
        let provider = provider.over(runtime, false).explain(cannot)?;
        let domain = provider.domain();
        for (reach, access) in [("peer", Access::RemoteWrite), ("own", Access::Local)] {
            for size in SIZES {
                let strategy = strategy(kind, Rc::clone(&domain), runtime).explain(cannot)?;
                let measured = use_often(&strategy, access, size, time).await?;
                rows.push(measured.row(kind.name(), Some(reach), size));
            }
        }
    }
    Ok(rows)
}

async fn all_transfers(
    provider: &Measured,
    runtime: &Handle,
    time: Duration,
) -> Result<Vec<TransferRow>, Failure> {
    let mut rows = Vec::new();
    for design in Design::ALL {
        for kind in StrategyKind::ALL {
            for size in TRANSFER_SIZES {
                let transfer = Transfer { kind, design, size };
                let row = move_often(provider, runtime, transfer, time).await;
                rows.push(row.map_err(|error| Failure::new(cannot(), format!("{error:#}")))?);
            }
        }
    }
    Ok(rows)
}

fn cannot() -> String {
    String::from("cannot measure registration")
}

/// A strategy whose peer is trusted.
///
/// # Errors
/// None of its reasons applies to trusted peers.
pub(super) fn strategy(
    kind: StrategyKind,
    domain: Rc<dyn Domain>,
    runtime: &Handle,
) -> Result<Rc<dyn Strategy>, NotTrusted> {
    Ok(Registration::new(kind, Trust::Trusted)?.over(domain, Rc::clone(runtime)))
}

/// Times of all uses, in nanoseconds.
struct Times {
    registering: Histogram<u64>,
    releasing: Histogram<u64>,
}

impl Times {
    fn new() -> Result<Times, Failure> {
        Ok(Times {
            registering: histogram()?,
            releasing: histogram()?,
        })
    }

    /// A use that began, was registered and was over at these times.
    fn record(&mut self, [began, registered, over]: [Instant; 3]) {
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.registering
            .saturating_record(nanos(registered - began));
        self.releasing.saturating_record(nanos(over - registered));
    }

    fn row(&self, what: &'static str, reach: Option<&'static str>, size: usize) -> Row {
        let median = |times: &Histogram<u64>| rounded(times.value_at_quantile(0.5) as f64 / 1e3, 3);
        Row {
            what,
            reach,
            size,
            uses: self.registering.len(),
            register_us: median(&self.registering),
            release_us: median(&self.releasing),
        }
    }
}

/// Registers and releases a slot of an arena, which a transfer fills in between.
async fn use_often(
    strategy: &Rc<dyn Strategy>,
    access: Access,
    size: usize,
    time: Duration,
) -> Result<Times, Failure> {
    let what = || format!("cannot register {size} bytes by {}", strategy.kind());
    let arena = Arena::new(size, 1);
    let mut memory: Buffer = arena.take().unwrap_or_else(|| Buffer::zeroed(size));
    memory.fill(0xa5);
    let mut measured = Times::new()?;
    let began = Instant::now();
    while began.elapsed() < time {
        for _ in 0..BATCH {
            let start = Instant::now();
            let registered = Rc::clone(strategy)
                .register(memory, access, Scope::Domain)
                .explain(what)?;
            let middle = Instant::now();
            let returned = registered.release(size).await;
            let end = Instant::now();
            measured.record([start, middle, end]);
            memory = returned.ok_or_else(|| Failure::new(what(), "the memory was lost"))?;
        }
    }
    Ok(measured)
}

/// Pins and unpins memory whose pages are there.
fn lock_often(size: usize, time: Duration) -> Result<Times, Failure> {
    let what = || format!("cannot lock {size} bytes");
    let mut memory = MmapMut::map_anon(size).explain(what)?;
    memory.fill(0xa5);
    let mut measured = Times::new()?;
    let began = Instant::now();
    while began.elapsed() < time {
        let start = Instant::now();
        memory.lock().explain(what)?;
        let middle = Instant::now();
        memory.unlock().explain(what)?;
        measured.record([start, middle, Instant::now()]);
    }
    Ok(measured)
}

fn show(rows: &[Row]) -> Result<(), Failure> {
    let header = ["what", "reach", "size", "register us", "release us"];
    let cells = rows.iter().map(|row| {
        [
            row.what.to_owned(),
            row.reach.unwrap_or(table::NONE).to_owned(),
            size::human(row.size as u64),
            format!("{:.3}", row.register_us),
            format!("{:.3}", row.release_us),
        ]
    });
    let cells: Vec<_> = cells.collect();
    output::line(&table::render(3, header, &cells))?;
    output::line(
        "Medians. reach: a peer may write to `peer` memory; `own` is for own operations.\n\
         mlock: the cost of pinning alone, which the software RNIC does not do.",
    )
}

fn show_transfers(rows: &[TransferRow]) -> Result<(), Failure> {
    let header = [
        "what",
        "design",
        "size",
        "mean us",
        "MB/s",
        "registrations",
        "copies",
        "fallbacks",
    ];
    let cells: Vec<_> = rows.iter().map(TransferRow::cells).collect();
    output::line(&table::render(3, header, &cells))?;
    output::line(
        "Data moved to a client's memory, of which both ends' is registered by the strategy. Counts are for one use.",
    )
}
