//! Ranks that write tiles of one file at the same time, as a parallel program does: rows that lie between each other's,
//! beside the same rows in parts of the file that lie apart.
//!
//! Both layouts are measured in turns, so that what else the machine does falls on both, and the ratio is that of two
//! neighbours in time: the median of all rounds.

use super::measure::{Interrupt, histogram, in_folder, rounded};
use crate::cli::{TileHow, TileOptions};
use crate::failure::{Explain, Failure};
use crate::{output, session, size};
use comfy_table::{CellAlignment, Table, presets};
use gannet::url::{Scheme, Url};
use gannet_runtime::tokio_plug::Cores;
use gannet_runtime::{Buffer, Handle};
use gannet_vfs::{CreateMode, SetAttributes, Stability, Vfs};
use gannet_volume::client::{File, Level, Piece, Shape, VolumeFs};
use gannet_wire::volume::{PIECES_MAX, TRANSFER_MAX};
use hdrhistogram::Histogram;
use serde::Serialize;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tokio::sync::Barrier;

/// The file that all ranks write.
const FILE: &[u8] = b"tiles";

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
    op: &'static str,
    how: TileHow,
    layout: Layout,
    ranks: u16,
    rows: u32,
    row: u32,
    tiles: u64,
    /// The median of the rounds.
    mb_per_s: f64,
    /// Of a whole tile.
    p50_us: f64,
    p99_us: f64,
    /// Of interleaved rows: their rate by that of rows apart, the median of the rounds.
    #[serde(skip_serializing_if = "Option::is_none")]
    of_apart: Option<f64>,
}

/// What is measured at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cell {
    how: TileHow,
    layout: Layout,
}

/// One rank's part of a cell.
struct Part {
    began: Instant,
    ended: Instant,
    latency_ns: Histogram<u64>,
}

/// What the ranks share.
struct Shared {
    folder: Url,
    options: TileOptions,
    interrupt: Interrupt,
    /// All that is measured, in this order.
    cells: Vec<Cell>,
    together: Barrier,
    has_failed: AtomicBool,
    /// By cells: what each rank measured.
    measured: Mutex<Vec<Vec<Part>>>,
    failures: Mutex<Vec<Failure>>,
}

/// Measures and prints.
///
/// # Errors
/// The volume cannot be reached, or a write failed.
pub(super) fn run(options: &TileOptions) -> Result<(), Failure> {
    let len = u64::from(options.rows) * u64::from(options.row);
    if len > TRANSFER_MAX {
        let why = format!("a tile has {}", size::human(len));
        let most = size::human(TRANSFER_MAX);
        return Err(Failure::usage("the tiles are too large", why)
            .hint(format!("one request moves at most {most}")));
    }
    if options.url.scheme != Scheme::Native {
        let what = format!("cannot write tiles to {}", options.url);
        return Err(Failure::usage(what, "it is not on a volume").hint("give a gannet:// URL"));
    }
    let interrupt = Interrupt::install()?;
    let place = (&options.url, &options.client, &interrupt);
    let rows = in_folder(place, |folder| measure(folder, options, &interrupt))?;
    match options.json {
        true => rows.iter().try_for_each(output::json),
        false => show(&rows),
    }
}

/// Runs all ranks through all cells.
fn measure(
    folder: &Url,
    options: &TileOptions,
    interrupt: &Interrupt,
) -> Result<Vec<Row>, Failure> {
    let cells = cells(&options.how, options.rounds);
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

/// Round by round each way of asking, in both layouts; which of the two comes first changes.
fn cells(hows: &[TileHow], rounds: u16) -> Vec<Cell> {
    let round = |number| {
        let layouts = match number % 2 {
            0 => [Layout::Apart, Layout::Interleaved],
            _ => [Layout::Interleaved, Layout::Apart],
        };
        let cells = move |how: &TileHow| layouts.map(|layout| Cell { how: *how, layout });
        hows.iter().flat_map(cells)
    };
    (0..rounds).flat_map(round).collect()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A rank's file, and the memory of its tile.
struct Rank {
    number: u64,
    file: File,
    memory: Buffer,
}

impl Shared {
    /// One rank, from its connection to its end. It comes to every barrier, or the others would wait for ever.
    async fn rank(&self, runtime: &Handle, number: u64) {
        let mut rank = self.noting(self.open(runtime, number)).await;
        for (at, cell) in self.cells.iter().enumerate() {
            self.together.wait().await;
            let Some(rank) = rank
                .as_mut()
                .filter(|_| !self.has_failed.load(Ordering::Relaxed))
            else {
                continue;
            };
            if let Some(part) = self.noting(self.write_tiles(rank, *cell)).await
                && let Some(parts) = lock(&self.measured).get_mut(at)
            {
                parts.push(part);
            }
        }
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

    /// Opens the file, and writes a tile in either layout: what it takes to make its pages is not measured.
    async fn open(&self, runtime: &Handle, number: u64) -> Result<Rank, Failure> {
        let what = || format!("cannot make the file in {}", self.folder);
        let (fs, caller) =
            session::open_volume(runtime, &self.folder, &self.options.client).await?;
        let path: Vec<&[u8]> = self.folder.path.iter().map(Vec::as_slice).collect();
        let folder = fs.resolve(&caller, &path).await.explain(what)?;
        let mode = CreateMode::Unchecked(SetAttributes {
            mode: Some(0o600),
            ..SetAttributes::default()
        });
        let made = fs.create(&caller, &folder, FILE, &mode).await;
        let handle = made.result.explain(what)?.handle;
        let fs: Rc<VolumeFs> = Rc::new(fs);
        let mut memory = fs.memory(self.tile_len());
        memory.fill(number as u8);
        let file = File::new(fs, caller, handle);
        let mut rank = Rank {
            number,
            file,
            memory,
        };
        for layout in [Layout::Apart, Layout::Interleaved] {
            let how = TileHow::Nested;
            self.write_tile(&mut rank, Cell { how, layout }).await?;
        }
        Ok(rank)
    }

    fn tile_len(&self) -> usize {
        // At most TRANSFER_MAX.
        self.options.rows as usize * self.options.row as usize
    }

    async fn write_tiles(&self, rank: &mut Rank, cell: Cell) -> Result<Part, Failure> {
        let (began, mut latency_ns) = (Instant::now(), histogram()?);
        while began.elapsed() < self.options.seconds {
            let started = Instant::now();
            self.write_tile(rank, cell).await?;
            let nanoseconds = u64::try_from(started.elapsed().as_nanos());
            latency_ns.saturating_record(nanoseconds.unwrap_or(u64::MAX));
        }
        Ok(Part {
            began,
            ended: Instant::now(),
            latency_ns,
        })
    }

    async fn write_tile(&self, rank: &mut Rank, cell: Cell) -> Result<(), Failure> {
        let TileOptions {
            rows, row, ranks, ..
        } = self.options;
        let what = || format!("cannot write a tile in {}", self.folder);
        let (len, stride) = (u64::from(row), u64::from(row) * u64::from(ranks));
        let first = match cell.layout {
            Layout::Interleaved => rank.number * len,
            Layout::Apart => rank.number * u64::from(rows) * stride,
        };
        let requests = match cell.how {
            TileHow::Rows => 1,
            TileHow::Lists => PIECES_MAX as u32,
            TileHow::Nested => rows,
        };
        let mut at = 0;
        while at < rows {
            let count = requests.min(rows - at);
            let offset = first + u64::from(at) * stride;
            let file = match cell.how {
                TileHow::Lists => Shape::list(pieces((offset, row), stride, count)),
                TileHow::Rows | TileHow::Nested => {
                    let piece = Piece { offset, len: row };
                    Shape::nested(piece, vec![Level { count, stride }])
                }
            };
            let memory = Shape::contiguous(u64::from(at) * len, count * row);
            let (file, memory) = (file.explain(what)?, memory.explain(what)?);
            let (to, buffer) = (&rank.file, &mut rank.memory);
            let written = to.write_shape(&file, &memory, buffer, Stability::Unstable);
            written.await.explain(what)?;
            at += count;
        }
        Ok(())
    }

    fn rows(&self) -> Result<Vec<Row>, Failure> {
        let measured = lock(&self.measured);
        let all = || self.cells.iter().zip(&*measured);
        let rates = |cell: Cell| -> Vec<f64> {
            let rounds = all().filter(|(it, _)| **it == cell);
            rounds.map(|(_, parts)| self.rate(parts)).collect()
        };
        let mut rows = Vec::new();
        for how in &self.options.how {
            let apart = rates(Cell {
                how: *how,
                layout: Layout::Apart,
            });
            for layout in [Layout::Apart, Layout::Interleaved] {
                let cell = Cell { how: *how, layout };
                let (own, mut latency_ns) = (rates(cell), histogram()?);
                for part in all().filter(|(it, _)| **it == cell).flat_map(|(_, it)| it) {
                    let added = latency_ns.add(&part.latency_ns);
                    added.explain(|| String::from("cannot add up latencies"))?;
                }
                let ratios = own.iter().zip(&apart).map(|(own, apart)| own / apart);
                let ratio = rounded(median(ratios.collect()), 3);
                let quantile = |share| latency_ns.value_at_quantile(share) as f64 / 1e3;
                rows.push(Row {
                    op: "write",
                    how: *how,
                    layout,
                    ranks: self.options.ranks,
                    rows: self.options.rows,
                    row: self.options.row,
                    tiles: latency_ns.len(),
                    mb_per_s: rounded(median(own), 1),
                    p50_us: rounded(quantile(0.5), 1),
                    p99_us: rounded(quantile(0.99), 1),
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
        tiles as f64 * self.tile_len() as f64 / 1e6 / seconds.max(f64::MIN_POSITIVE)
    }
}

fn pieces((offset, len): (u64, u32), stride: u64, count: u32) -> Vec<Piece> {
    let piece = |at| Piece {
        offset: offset + u64::from(at) * stride,
        len,
    };
    (0..count).map(piece).collect()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

fn show(rows: &[Row]) -> Result<(), Failure> {
    let mut table = Table::new();
    let header = [
        "how", "layout", "ranks", "tile", "tiles", "MB/s", "p50 us", "p99 us", "of apart",
    ];
    table
        .load_style(presets::UTF8_BORDERS_ONLY)
        .set_header(header);
    for row in rows {
        table.add_row([
            row.how.name().to_owned(),
            format!("{:?}", row.layout).to_lowercase(),
            row.ranks.to_string(),
            format!("{} x {}", row.rows, size::human(u64::from(row.row))),
            row.tiles.to_string(),
            format!("{:.1}", row.mb_per_s),
            format!("{:.1}", row.p50_us),
            format!("{:.1}", row.p99_us),
            row.of_apart
                .map_or_else(|| String::from("-"), |ratio| format!("{ratio:.2}")),
        ]);
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    output::line(&table.to_string())
}
