//! Ranks that read and write tiles of one file at the same time, as mpi-tile-io does: rows that lie between each
//! other's, beside the same rows in parts of the file that lie apart.
//!
//! Both layouts are measured in turns, so that other work of the machine falls on both. The ratio is that of two
//! neighbours in time: the median of all rounds. Every way of asking must read the rank's own bytes before it is
//! measured. After all of them, every rank's bytes must still be there.

mod rank;
mod sieve;

use super::measure::{Interrupt, histogram, in_folder, micros_at, rounded};
use crate::cli::{TileHints, TileHow, TileOp, TileOptions};
use crate::failure::{Explain, Failure};
use crate::table::{self, short};
use crate::{output, size};
use gannet::url::{Scheme, Url};
use gannet_runtime::Handle;
use gannet_runtime::tokio_plug::Cores;
use gannet_wire::volume::TRANSFER_MAX;
use hdrhistogram::Histogram;
use rank::Rank;
use serde::Serialize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tokio::sync::Barrier;

/// Where a rank's rows lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Layout {
    /// As far from each other as below, but in a part of the file that is the rank's own.
    Apart,
    /// A row of each rank, then the next row of each.
    Interleaved,
}

/// One line of the result.
#[derive(Debug, Serialize)]
struct Row {
    op: TileOp,
    how: TileHow,
    hints: TileHints,
    layout: Layout,
    ranks: u16,
    rows: u32,
    row: u32,
    tiles: u64,
    /// Memory that requests for a tile named, the mean: registered for them, and registered before.
    registrations: f64,
    registration_hits: f64,
    /// The median of the rounds.
    mb_per_s: f64,
    /// The median time of a whole tile, in microseconds.
    p50_us: f64,
    p99_us: f64,
    /// The rate of interleaved rows divided by that of separate rows: the median of the rounds.
    #[serde(skip_serializing_if = "Option::is_none")]
    of_apart: Option<f64>,
}

/// One combination that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cell {
    way: Way,
    layout: Layout,
}

/// An operation on tiles, and the way it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Way {
    op: TileOp,
    how: TileHow,
    hints: TileHints,
}

/// One rank's part of a cell.
struct Part {
    began: Instant,
    ended: Instant,
    latency_ns: Histogram<u64>,
    registrations: u64,
    hits: u64,
}

/// The state that the ranks share.
struct Shared {
    folder: Url,
    options: TileOptions,
    interrupt: Interrupt,
    /// All that is measured, in this order.
    cells: Vec<Cell>,
    together: Barrier,
    has_failed: AtomicBool,
    /// The measurements of each rank, by cell.
    measured: Mutex<Vec<Vec<Part>>>,
    failures: Mutex<Vec<Failure>>,
}

/// Measures and prints.
///
/// # Errors
/// The volume cannot be reached, or a transfer failed or brought other bytes than were written.
pub(super) fn run(options: &TileOptions) -> Result<(), Failure> {
    let len = u64::from(options.rows) * u64::from(options.row);
    if len > TRANSFER_MAX {
        let why = format!("a tile has {}", size::human(len));
        let most = size::human(TRANSFER_MAX);
        return Err(Failure::usage("the tiles are too large", why)
            .hint(format!("one request moves at most {most}")));
    }
    if options.url.scheme != Scheme::Native {
        let what = format!("cannot measure tiles in {}", options.url);
        return Err(Failure::usage(what, "it is not on a volume").hint("give a gannet:// URL"));
    }
    if ways(options).is_empty() {
        let why = "`nested` and `sieve` move one allocation by nature";
        return Err(Failure::usage("nothing to measure without hints", why)
            .hint("give --hints on, or --how rows,lists"));
    }
    let interrupt = Interrupt::install()?;
    let rows = in_folder(&options.url, &options.client, &interrupt, |folder| {
        measure(folder, options, &interrupt)
    })?;
    if options.json {
        rows.iter().try_for_each(output::json)
    } else {
        show(&rows)
    }
}

/// Runs all ranks through all cells.
fn measure(
    folder: &Url,
    options: &TileOptions,
    interrupt: &Interrupt,
) -> Result<Vec<Row>, Failure> {
    let cells = cells(&ways(options), options.rounds);
    let ranks = usize::from(options.ranks);
    let shared = Arc::new(Shared {
        folder: folder.clone(),
        options: options.clone(),
        interrupt: interrupt.clone(),
        together: Barrier::new(ranks),
        has_failed: AtomicBool::new(false),
        measured: Mutex::new(cells.iter().map(|_| Vec::new()).collect()),
        failures: Mutex::default(),
        cells,
    });
    let of_ranks = Arc::clone(&shared);
    let what = || String::from("cannot run the ranks");
    Cores::start(ranks, move |rank, runtime| {
        let shared = Arc::clone(&of_ranks);
        async move { shared.rank(&runtime, rank as u64).await }
    })
    .and_then(Cores::join)
    .explain(what)?;
    match lock(&shared.failures).pop() {
        Some(failure) => Err(failure),
        None => shared.rows(),
    }
}

/// All that is asked for and can be.
fn ways(options: &TileOptions) -> Vec<Way> {
    let mut ways = Vec::new();
    for op in &options.op {
        for how in &options.how {
            let can_do_without = matches!(how, TileHow::Rows | TileHow::Lists);
            let hints = options.hints.iter();
            let hints = hints.filter(|hints| can_do_without || **hints == TileHints::On);
            ways.extend(hints.map(|hints| Way {
                op: *op,
                how: *how,
                hints: *hints,
            }));
        }
    }
    ways
}

/// Round by round each of `ways`, in both layouts; which of the two comes first changes.
fn cells(ways: &[Way], rounds: u16) -> Vec<Cell> {
    let round = |number| {
        let layouts = match number % 2 {
            0 => [Layout::Apart, Layout::Interleaved],
            _ => [Layout::Interleaved, Layout::Apart],
        };
        let cells = move |way: &Way| {
            let way = *way;
            layouts.map(|layout| Cell { way, layout })
        };
        ways.iter().flat_map(cells)
    };
    (0..rounds).flat_map(round).collect()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// One rank, from its connection to its end. It comes to every barrier, or the others would wait for ever.
    async fn rank(&self, runtime: &Handle, number: u64) {
        let opened = Rank::open(runtime, &self.folder, &self.options, number);
        let mut rank = self.noting(opened).await;
        for (at, cell) in self.cells.iter().enumerate() {
            self.together.wait().await;
            let Some(rank) = self.going_on(&mut rank) else {
                continue;
            };
            if let Some(part) = self.noting(self.move_tiles(rank, *cell)).await
                && let Some(parts) = lock(&self.measured).get_mut(at)
            {
                parts.push(part);
            }
        }
        self.together.wait().await;
        if let Some(rank) = self.going_on(&mut rank) {
            self.noting(rank.check_all()).await;
        }
    }

    /// A rank that was opened, until one of them has failed.
    fn going_on<'a>(&self, rank: &'a mut Option<Rank>) -> Option<&'a mut Rank> {
        let has_failed = self.has_failed.load(Ordering::Relaxed);
        rank.as_mut().filter(|_| !has_failed)
    }

    /// Does `work` unless a signal comes; a failure ends the benchmark.
    async fn noting<T>(&self, work: impl Future<Output = Result<T, Failure>>) -> Option<T> {
        match self.interrupt.until(work).await {
            Ok(done) => Some(done),
            Err(failure) => {
                self.has_failed.store(true, Ordering::Relaxed);
                lock(&self.failures).push(failure);
                None
            }
        }
    }

    async fn move_tiles(&self, rank: &mut Rank, cell: Cell) -> Result<Part, Failure> {
        let (began, mut latency_ns) = (Instant::now(), histogram()?);
        let before = rank.counters();
        while began.elapsed() < self.options.seconds {
            let started = Instant::now();
            rank.move_tile(cell).await?;
            let nanoseconds = u64::try_from(started.elapsed().as_nanos());
            latency_ns.saturating_record(nanoseconds.unwrap_or(u64::MAX));
        }
        let after = rank.counters();
        Ok(Part {
            began,
            ended: Instant::now(),
            latency_ns,
            registrations: after.registrations - before.registrations,
            hits: after.hits - before.hits,
        })
    }

    fn rows(&self) -> Result<Vec<Row>, Failure> {
        let measured = lock(&self.measured);
        let all = || self.cells.iter().zip(&*measured);
        let rates = |cell: Cell| -> Vec<f64> {
            let rounds = all().filter(|(it, _)| **it == cell);
            rounds.map(|(_, parts)| self.rate(parts)).collect()
        };
        let mut rows = Vec::new();
        for way in ways(&self.options) {
            let of = |layout| Cell { way, layout };
            let apart = rates(of(Layout::Apart));
            for layout in [Layout::Apart, Layout::Interleaved] {
                let cell = of(layout);
                let (own, mut latency_ns) = (rates(cell), histogram()?);
                let (mut registrations, mut hits) = (0, 0);
                for part in all().filter(|(it, _)| **it == cell).flat_map(|(_, it)| it) {
                    registrations += part.registrations;
                    hits += part.hits;
                    let added = latency_ns.add(&part.latency_ns);
                    added.explain(|| String::from("cannot add up latencies"))?;
                }
                let tiles = latency_ns.len();
                let for_each = |count: u64| rounded(count as f64 / tiles.max(1) as f64, 3);
                let ratios = own.iter().zip(&apart).map(|(own, apart)| own / apart);
                let ratio = rounded(median(ratios.collect()), 3);
                let quantile = |share| rounded(micros_at(&latency_ns, share), 1);
                rows.push(Row {
                    op: way.op,
                    how: way.how,
                    hints: way.hints,
                    layout,
                    ranks: self.options.ranks,
                    rows: self.options.rows,
                    row: self.options.row,
                    tiles,
                    registrations: for_each(registrations),
                    registration_hits: for_each(hits),
                    mb_per_s: rounded(median(own), 1),
                    p50_us: quantile(0.5),
                    p99_us: quantile(0.99),
                    of_apart: (layout == Layout::Interleaved).then_some(ratio),
                });
            }
        }
        Ok(rows)
    }

    /// Megabytes a second, of all ranks together.
    fn rate(&self, parts: &[Part]) -> f64 {
        let began = parts.iter().map(|part| part.began).min();
        let ended = parts.iter().map(|part| part.ended).max();
        let seconds = began
            .zip(ended)
            .map_or(0.0, |(began, ended)| (ended - began).as_secs_f64());
        let tiles: u64 = parts.iter().map(|part| part.latency_ns.len()).sum();
        tiles as f64 * rank::tile_len(&self.options) as f64 / 1e6 / seconds.max(f64::MIN_POSITIVE)
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

fn show(rows: &[Row]) -> Result<(), Failure> {
    output::line(&table_of(rows))
}

fn table_of(rows: &[Row]) -> String {
    let header = [
        "op", "how", "hints", "layout", "ranks", "tile", "tiles", "MB/s", "p50 us", "p99 us",
        "of apart",
    ];
    let cells = rows.iter().map(|row| {
        [
            row.op.name().to_owned(),
            row.how.name().to_owned(),
            row.hints.name().to_owned(),
            format!("{:?}", row.layout).to_lowercase(),
            row.ranks.to_string(),
            format!("{} x {}", row.rows, size::human(u64::from(row.row))),
            row.tiles.to_string(),
            short(row.mb_per_s),
            short(row.p50_us),
            short(row.p99_us),
            row.of_apart
                .map_or_else(|| table::NONE.to_owned(), |ratio| format!("{ratio:.2}")),
        ]
    });
    table::render(4, header, &cells.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_fits_a_terminal() {
        let row = Row {
            op: TileOp::Write,
            how: TileHow::Nested,
            hints: TileHints::Off,
            layout: Layout::Interleaved,
            ranks: 256,
            rows: 1024,
            row: 64 << 10,
            tiles: 123_456,
            registrations: 1.0,
            registration_hits: 1.0,
            mb_per_s: 12_345.6,
            p50_us: 123_456.7,
            p99_us: 1_234_567.8,
            of_apart: Some(0.98),
        };
        let table = table_of(&[row]);
        assert!(table.lines().all(|line| line.len() <= 80), "{table}");
    }
}
