//! The costs of registering memory on the software RNIC, by strategy, and of the kernel's mlock beside it.
//!
//! The software RNIC registers by a table entry. It pins nothing, since no hardware accesses the memory without the
//! kernel. A provider with hardware has to pin as well; mlock(2) and munlock(2) of the same length stand for that
//! here. The costs of walking the pages and of commands to the adapter come on top.

use crate::cli::RegistrationOptions;
use gannet_cli::bench::measure::{histogram, rounded};
use gannet_cli::failure::{Explain, Failure};
use gannet_cli::{output, session, size, table};
use gannet_fabric::registration::{Registration, Strategy, StrategyKind, Trust};
use gannet_fabric::{Access, Provider, Scope};
use gannet_iwarp::{IwarpConfig, IwarpProvider};
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
    let mut rows = Vec::new();
    session::run(async |runtime| {
        for kind in StrategyKind::ALL {
            for (reach, access) in [("peer", Access::RemoteWrite), ("own", Access::Local)] {
                for size in SIZES {
                    let strategy = strategy(kind, &runtime)?;
                    let measured = use_often(&strategy, access, size, options.seconds).await?;
                    rows.push(measured.row(kind.name(), Some(reach), size));
                }
            }
        }
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
        return rows.iter().try_for_each(output::json);
    }
    show(&rows)
}

fn strategy(kind: StrategyKind, runtime: &Handle) -> Result<Rc<dyn Strategy>, Failure> {
    let provider = IwarpProvider::new(Rc::clone(runtime), IwarpConfig::default());
    let registration =
        Registration::new(kind, Trust::Trusted).explain(|| format!("cannot register by {kind}"))?;
    Ok(registration.over(provider.domain(), Rc::clone(runtime)))
}

/// Times of all uses, in nanoseconds.
struct Measured {
    registering: Histogram<u64>,
    releasing: Histogram<u64>,
}

impl Measured {
    fn new() -> Result<Measured, Failure> {
        Ok(Measured {
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
) -> Result<Measured, Failure> {
    let what = || format!("cannot register {size} bytes by {}", strategy.kind());
    let arena = Arena::new(size, 1);
    let mut memory: Buffer = arena.take().unwrap_or_else(|| Buffer::zeroed(size));
    memory.fill(0xa5);
    let mut measured = Measured::new()?;
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
fn lock_often(size: usize, time: Duration) -> Result<Measured, Failure> {
    let what = || format!("cannot lock {size} bytes");
    let mut memory = MmapMut::map_anon(size).explain(what)?;
    memory.fill(0xa5);
    let mut measured = Measured::new()?;
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
