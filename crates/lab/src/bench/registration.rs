//! The costs of registering memory by strategy, alone and with the data moved, and of the kernel's mlock beside it.
//!
//! The software RNIC registers by a table entry. It pins nothing, since no hardware accesses the memory without the
//! kernel. A device has to pin as well; mlock(2) and munlock(2) of the same length stand for that beside the software
//! RNIC. The costs of walking the pages and of commands to the adapter come on top.

use super::provider::Measured;
use super::transfer::{Transfer, TransferRow, connect, move_often};
use crate::cli::RegistrationOptions;
use gannet_cli::bench::measure::{histogram, micros_at, rounded};
use gannet_cli::failure::{Explain, Failure};
use gannet_cli::{output, session, size, table};
use gannet_fabric::registration::{NotTrusted, Registration, Strategy, StrategyKind, Trust};
use gannet_fabric::{Access, Domain, EndpointId, Scope};
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
/// Bytes that a transfer moves. The NFS/RDMA paper has small records, 128 KiB and 1 MiB.
const TRANSFER_SIZES: [usize; 4] = [8 << 10, 64 << 10, 128 << 10, 1 << 20];

/// The user of registered memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// Any peer, which may write to it.
    Peer,
    /// One connection, which may write to it, as to the sink of a READ. Devices with memory windows bind one.
    Connection,
    /// One connection, which may read it, as the reply of a Read-Read server. `server-cache` keeps it registered, and
    /// binds a window over it on devices that have them.
    Reply,
    /// Own operations alone, as the sink of the server's RDMA Reads.
    Own,
}

impl Reach {
    const ALL: [Reach; 4] = [Reach::Peer, Reach::Connection, Reach::Reply, Reach::Own];

    fn name(self) -> &'static str {
        match self {
            Reach::Peer => "peer",
            Reach::Connection => "connection",
            Reach::Reply => "reply",
            Reach::Own => "own",
        }
    }

    /// The rights, and their owner if `connection` is the one.
    fn rights(self, connection: EndpointId) -> Rights {
        let (access, scope) = match self {
            Reach::Peer => (Access::RemoteWrite, Scope::Domain),
            Reach::Connection => (Access::RemoteWrite, Scope::Endpoint(connection)),
            Reach::Reply => (Access::RemoteRead, Scope::Endpoint(connection)),
            Reach::Own => (Access::Local, Scope::Domain),
        };
        Rights { access, scope }
    }
}

/// The rights to registered memory, and their owner.
#[derive(Debug, Clone, Copy)]
struct Rights {
    access: Access,
    scope: Scope,
}

/// One line of the result.
#[derive(Debug, Serialize)]
struct Row {
    /// A strategy, or `mlock`.
    what: &'static str,
    /// The name of its [`Reach`]; null for mlock.
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
        // The far end must stay: without it the near one ends, and its keys with it.
        let connection = connect(provider, runtime).await;
        let connection =
            connection.map_err(|error| Failure::new(cannot(), format!("{error:#}")))?;
        let domain = connection.near.domain();
        for reach in Reach::ALL {
            let rights = reach.rights(connection.near.id());
            for size in SIZES {
                let strategy = strategy(kind, Rc::clone(&domain), runtime).explain(cannot)?;
                let measured = use_often(&strategy, rights, size, time).await?;
                rows.push(measured.row(kind.name(), Some(reach.name()), size));
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
        let median = |times: &Histogram<u64>| rounded(micros_at(times, 0.5), 3);
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
    rights: Rights,
    size: usize,
    time: Duration,
) -> Result<Times, Failure> {
    let what = || format!("cannot register {size} bytes by {}", strategy.kind());
    let arena = Arena::new(size, 1);
    let mut memory: Buffer = arena.take().unwrap_or_else(|| Buffer::zeroed(size));
    memory.fill(0xa5);
    let mut measured = Times::new()?;
    let began = Instant::now();
    // One batch at least: a slow machine takes longer than its time.
    while measured.registering.is_empty() || began.elapsed() < time {
        for _ in 0..BATCH {
            let start = Instant::now();
            let registered = Rc::clone(strategy)
                .register(memory, rights.access, rights.scope)
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
        "Medians. reach: any peer may write to `peer` memory, and one connection to `connection` memory; one connection\n\
         may read a `reply`; `own` is for own operations.\n\
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

#[cfg(test)]
mod tests {
    use super::*;
    use gannet_runtime::tokio_plug::block_on;

    #[test]
    fn each_strategy_has_a_row_for_each_use() {
        let time = Duration::from_nanos(1);
        let measured = block_on(async |runtime| {
            let provider = Measured::Software;
            let rows = registrations(&provider, &runtime, time).await?;
            let transfers = all_transfers(&provider, &runtime, time).await?;
            Ok::<_, Failure>((rows, transfers))
        });
        let (rows, transfers) = measured.unwrap().unwrap();
        let strategies = StrategyKind::ALL.len();
        assert_eq!(rows.len(), strategies * Reach::ALL.len() * SIZES.len());
        assert!(rows.iter().all(|row| row.uses == u64::from(BATCH)));
        let moved = strategies * Design::ALL.len() * TRANSFER_SIZES.len();
        assert_eq!(transfers.len(), moved);
        let is_number = |cell: &String| !cell.contains("NaN") && !cell.contains("inf");
        for row in &transfers {
            assert!(row.cells().iter().all(is_number), "{row:?}");
        }
    }
}
