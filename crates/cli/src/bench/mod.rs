//! `gannet bench`: a server under load, or the fabric alone.

pub mod fabric;
mod interrupt;
mod iozone;
mod load;
pub mod raw;
mod registration;
mod tile;

use crate::cli::{BenchOp, BenchOptions, BenchWhat, ClientOptions, FabricOptions};
use crate::failure::{Explain, Failure};
use crate::session::{self, Session};
use crate::url::{Scheme, Url};
use crate::{output, size};
use comfy_table::{CellAlignment, Table, presets};
use gannet_nfs::client::{Client, Error, Existing, Follow, Transfer, Zeros};
use gannet_runtime::{all, sleep};
use gannet_vfs::{FileHandle, Status};
use interrupt::Interrupt;
pub(crate) use load::own_cpu;
use load::{Load, Measured};
use serde::Serialize;
use std::time::Duration;

/// For `stat`, this many bytes of `--size` stand for one file.
const BYTES_PER_FILE: u64 = 64 << 10;
/// Files of a `stat` row, at most.
const FILES_MAX: u64 = 4096;
/// How long an interrupted benchmark still removes its files.
const REMOVE_TIME: Duration = Duration::from_secs(10);
/// Files that are removed at a time.
const REMOVED_AT_A_TIME: usize = 32;
/// How often it looks again for files that calls under way have made meanwhile.
const REMOVE_ROUNDS: usize = 16;

/// One line of the result.
#[derive(Debug, Serialize)]
struct Row {
    /// `nfs+rdma` or `nfs`.
    path: &'static str,
    op: String,
    threads: u16,
    /// Bytes per operation; none for `stat` and `create`.
    record: u64,
    ops: u64,
    seconds: f64,
    mb_per_s: f64,
    ops_per_s: f64,
    p50_us: f64,
    p99_us: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    client_cpu_s_per_gb: Option<f64>,
    client_cpu_us_per_op: f64,
    /// How long calls of all streams together waited for credits; only RDMA has them.
    #[serde(skip_serializing_if = "Option::is_none")]
    credit_starved_ms: Option<f64>,
    /// Connections that were lost and made anew.
    reconnects: u64,
    /// Only RDMA registers memory.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    memory: Option<Memory>,
}

/// What registering memory came to, over all streams of a row.
#[derive(Debug, Serialize)]
struct Memory {
    registration: &'static str,
    /// What the server agreed to.
    design: &'static str,
    registrations: u64,
    registration_hits: u64,
    pinned_bytes_peak: u64,
    register_ms: f64,
    deregister_ms: f64,
    copy_ms: f64,
    /// The longest that a key outlived its use.
    longest_exposure_ms: f64,
}

impl Memory {
    fn new(measured: &Measured, options: &BenchOptions) -> Option<Memory> {
        let counters = measured.registration?;
        let milliseconds = |time: Duration| rounded(time.as_secs_f64() * 1e3, 3);
        Some(Memory {
            registration: options.client.memory.registration.name(),
            design: measured.design.name(),
            registrations: counters.registrations,
            registration_hits: counters.hits,
            pinned_bytes_peak: counters.bytes_peak,
            register_ms: milliseconds(counters.register_time),
            deregister_ms: milliseconds(counters.deregister_time),
            copy_ms: milliseconds(counters.copy_time),
            longest_exposure_ms: milliseconds(counters.longest_exposure),
        })
    }
}

/// Measures what the command line says.
///
/// # Errors
/// The server cannot be reached, or an operation failed.
pub fn run(options: &BenchOptions) -> Result<(), Failure> {
    match (&options.what, &options.url) {
        (Some(BenchWhat::Fabric(fabric)), _) => run_fabric(fabric),
        (Some(BenchWhat::Iozone(options)), _) => iozone::run(options),
        (Some(BenchWhat::Registration(options)), _) => registration::run(options),
        (Some(BenchWhat::Tile(options)), _) => tile::run(options),
        (None, Some(url)) => run_server(url, options),
        // The parser insists on one of them.
        (None, None) => {
            Err(Failure::usage("wrong usage", "a URL is missing").hint("see `gannet bench --help`"))
        }
    }
}

/// Refuses records that a file of `size` bytes does not have, or that one call does not move.
fn check_records((records, size): (&[u64], u64), is_volume: bool) -> Result<(), Failure> {
    let longest = records.iter().copied().max().unwrap_or(0);
    if longest > size {
        let (size, record) = (size::human(size), size::human(longest));
        let why = format!("a file of {size} has no record of {record}");
        return Err(Failure::usage("--size is too small", why).hint("make it larger"));
    }
    let max = u64::from(gannet_vfs::limits::TRANSFER_MAX);
    if longest > max && !is_volume {
        let why = format!("a READ or WRITE of NFS moves at most {max} bytes");
        return Err(Failure::usage("--record is too large", why)
            .hint("make it smaller, or measure a gannet:// URL"));
    }
    Ok(())
}

/// Refuses to count an operation that moved less than its record.
fn check_moved(
    what: impl FnOnce() -> String,
    (count, record): (u32, u32),
    offset: u64,
) -> Result<(), Failure> {
    if count == record {
        return Ok(());
    }
    let why = format!("{count} of {record} bytes were moved at {offset}");
    Err(Failure::new(what(), why)
        .hint("use records that the server moves in one call; see `gannet doctor URL`"))
}

fn run_server(url: &Url, options: &BenchOptions) -> Result<(), Failure> {
    let moves = |op: &BenchOp| matches!(op, BenchOp::Read | BenchOp::Write | BenchOp::Randread);
    if options.op.iter().any(moves) {
        check_records(
            (&options.record, options.size),
            url.scheme == Scheme::Native,
        )?;
    }
    let interrupt = Interrupt::install()?;
    let place = (url, &options.client, &interrupt);
    let rows = in_folder(place, |folder| measure_all(folder, options, &interrupt))?;
    if options.json {
        rows.iter().try_for_each(output::json)
    } else {
        show(&rows)?;
        show_memory(&rows)
    }
}

/// Makes a directory on the server, does `work` in it, and removes it with what is in it; soon, if a signal comes.
fn in_folder<T>(
    (url, client, interrupt): (&Url, &ClientOptions, &Interrupt),
    work: impl FnOnce(&Url) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let folder = url.child(format!("gannet-bench-{}", std::process::id()).as_bytes());
    let made = with_session((url, client, interrupt), async |session| {
        let path = session.path_of(&folder);
        let made = session.files().make_directory(&path, 0o700).await;
        made.map(|_| ()).explain(|| format!("cannot make {folder}"))
    });
    let done = match made {
        Ok(()) => work(&folder),
        // A call that is interrupted may be answered all the same.
        Err(failure) if interrupt.check().is_err() => Err(failure),
        Err(failure) => return Err(failure),
    };
    let removed = session::run(async |runtime| {
        let removing = session::with_session(&runtime, url, client, async |session| {
            remove(&session, &folder).await
        });
        let too_late = async {
            interrupt.wait().await;
            sleep(&runtime, REMOVE_TIME).await;
        };
        tokio::select! {
            removed = removing => removed,
            () = too_late => Err(Failure::new("it takes too long", "interrupted")),
        }
    });
    match (done, removed) {
        (Ok(done), Ok(())) => Ok(done),
        (Err(failure), Err(_)) if interrupt.check().is_err() => {
            Err(failure.hint(format!("{folder} may be left behind: remove it")))
        }
        (Err(failure), _) | (Ok(_), Err(failure)) => Err(failure),
    }
}

/// Does `work` on a session to the server of `url`, unless a signal comes before its end.
fn with_session<F: Future<Output = Result<(), Failure>>>(
    (url, client, interrupt): (&Url, &ClientOptions, &Interrupt),
    work: impl FnOnce(Session) -> F,
) -> Result<(), Failure> {
    session::run(async |runtime| {
        let working = session::with_session(&runtime, url, client, work);
        interrupt.until(working).await
    })
}

fn measure_all(
    folder: &Url,
    options: &BenchOptions,
    interrupt: &Interrupt,
) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for op in &options.op {
        prepare(folder, *op, (options, interrupt))?;
        let has_records = !matches!(op, BenchOp::Stat | BenchOp::Create);
        // A record means nothing to an operation without data: one row is enough.
        let records = if has_records {
            &options.record[..]
        } else {
            &[0]
        };
        for record in records {
            for threads in &options.threads {
                let row = (*op, *record, *threads);
                rows.push(measure(folder, row, (options, interrupt))?);
            }
        }
    }
    Ok(rows)
}

/// Makes what `op` reads: one file of the given size, or many empty ones.
fn prepare(
    folder: &Url,
    op: BenchOp,
    (options, interrupt): (&BenchOptions, &Interrupt),
) -> Result<(), Failure> {
    with_session((folder, &options.client, interrupt), async |session| {
        let what = || format!("cannot prepare {folder}");
        match op {
            BenchOp::Read | BenchOp::Randread | BenchOp::Write => {
                fill(&session, &folder.child(load::FILE), options.size).await
            }
            BenchOp::Stat => {
                for number in 0..stat_files(options) {
                    let path = session.path_of(&folder.child(load::small_file(number).as_bytes()));
                    session
                        .files()
                        .create(&path, 0o600, Existing::Keep)
                        .await
                        .explain(what)?;
                }
                Ok(())
            }
            BenchOp::Create => Ok(()),
        }
    })
}

fn stat_files(options: &BenchOptions) -> u64 {
    (options.size / BYTES_PER_FILE).clamp(1, FILES_MAX)
}

/// Writes a file of `len` bytes that are not zeros.
async fn fill(session: &Session, url: &Url, len: u64) -> Result<(), Failure> {
    let what = || format!("cannot write {url}");
    let files = session.files();
    let made = files
        .create(&session.path_of(url), 0o600, Existing::Keep)
        .await
        .explain(what)?;
    if made.attributes.size == len {
        return Ok(());
    }
    let mut writer = files.write_file(&made.handle, Zeros::Write, Transfer::default());
    let mut offset = 0;
    while offset < len {
        let mut buffer = writer.buffer();
        buffer.fill(0xa5);
        let count = usize::try_from(len - offset)
            .unwrap_or(usize::MAX)
            .min(buffer.len());
        writer.write(offset, buffer, count).await.explain(what)?;
        offset += count as u64;
    }
    writer.finish().await.map(|_| ()).explain(what)
}

fn measure(
    folder: &Url,
    (op, record, threads): (BenchOp, u64, u16),
    (options, interrupt): (&BenchOptions, &Interrupt),
) -> Result<Row, Failure> {
    let load = Load {
        folder: folder.clone(),
        op,
        record: u32::try_from(record).unwrap_or(u32::MAX),
        threads,
        size: options.size,
        files: stat_files(options),
        time: options.seconds,
        client: ClientOptions {
            transfers: options.transfers.clone(),
            ..options.client.clone()
        },
        interrupt: interrupt.clone(),
    };
    let measured = load.run()?;
    let seconds = measured.seconds.max(f64::MIN_POSITIVE);
    let ops = measured.latency_ns.len();
    let bytes = (ops * record) as f64;
    let quantile = |share| measured.latency_ns.value_at_quantile(share) as f64 / 1e3;
    let cpu = measured.cpu.as_secs_f64();
    let starved = rounded(measured.credit_starved.as_secs_f64() * 1e3, 3);
    Ok(Row {
        path: folder.scheme.name(),
        op: format!("{op:?}").to_lowercase(),
        threads,
        record,
        ops,
        seconds: rounded(seconds, 3),
        mb_per_s: rounded(bytes / 1e6 / seconds, 1),
        ops_per_s: rounded(ops as f64 / seconds, 1),
        p50_us: rounded(quantile(0.5), 1),
        p99_us: rounded(quantile(0.99), 1),
        client_cpu_s_per_gb: (record > 0).then(|| rounded(cpu / (bytes / 1e9), 3)),
        client_cpu_us_per_op: rounded(cpu * 1e6 / ops.max(1) as f64, 2),
        credit_starved_ms: (folder.scheme == Scheme::Rdma).then_some(starved),
        reconnects: measured.reconnects,
        memory: Memory::new(&measured, options),
    })
}

/// `value` with so many digits behind the point.
pub(crate) fn rounded(value: f64, digits: i32) -> f64 {
    let scale = 10f64.powi(digits);
    (value * scale).round() / scale
}

/// Removes the bench's directory with what is in it.
async fn remove(session: &Session, folder: &Url) -> Result<(), Failure> {
    let what = || format!("cannot remove {folder}");
    let node = session.node(folder, Follow::No).await?;
    let (files, path) = (session.files(), session.path_of(folder));
    for _ in 0..REMOVE_ROUNDS {
        empty(files.client(), &node.handle).await.explain(what)?;
        match files.remove(&path).await {
            // Made by a call that was under way when its connection was closed.
            Err(Error::Status(Status::Notempty)) => {}
            removed => return removed.explain(what),
        }
    }
    Err(Failure::new(what(), Status::Notempty))
}

/// Removes the files of a directory.
async fn empty(client: &Client, directory: &FileHandle) -> Result<(), Error> {
    for items in client.list(directory).await?.chunks(REMOVED_AT_A_TIME) {
        let removing = items
            .iter()
            .map(|item| Box::pin(client.remove(directory, &item.name)));
        for removed in all(removing).await {
            match removed {
                Err(Error::Status(Status::Noent)) => {}
                removed => removed?,
            }
        }
    }
    Ok(())
}

fn show(rows: &[Row]) -> Result<(), Failure> {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY).set_header([
        "path",
        "op",
        "threads",
        "record",
        "MB/s",
        "ops/s",
        "p50 us",
        "p99 us",
        "CPU us/op",
        "starved ms",
        "reconnects",
    ]);
    for row in rows {
        let record = if row.record == 0 {
            String::from("-")
        } else {
            size::human(row.record)
        };
        table.add_row([
            row.path.to_owned(),
            row.op.clone(),
            row.threads.to_string(),
            record,
            format!("{:.1}", row.mb_per_s),
            format!("{:.0}", row.ops_per_s),
            format!("{:.1}", row.p50_us),
            format!("{:.1}", row.p99_us),
            format!("{:.1}", row.client_cpu_us_per_op),
            row.credit_starved_ms
                .map_or_else(|| String::from("-"), |starved| format!("{starved:.1}")),
            row.reconnects.to_string(),
        ]);
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    output::line(&table.to_string())
}

/// The second table of a run over RDMA.
fn show_memory(rows: &[Row]) -> Result<(), Failure> {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY).set_header([
        "op",
        "threads",
        "record",
        "registration",
        "design",
        "registered",
        "hits",
        "pinned",
        "register ms",
        "deregister ms",
        "copy ms",
        "exposed ms",
    ]);
    let mut empty = true;
    for row in rows {
        let Some(memory) = &row.memory else {
            continue;
        };
        empty = false;
        table.add_row([
            row.op.clone(),
            row.threads.to_string(),
            size::human(row.record),
            memory.registration.to_owned(),
            memory.design.to_owned(),
            memory.registrations.to_string(),
            memory.registration_hits.to_string(),
            size::human(memory.pinned_bytes_peak),
            format!("{:.1}", memory.register_ms),
            format!("{:.1}", memory.deregister_ms),
            format!("{:.1}", memory.copy_ms),
            format!("{:.1}", memory.longest_exposure_ms),
        ]);
    }
    if empty {
        return Ok(());
    }
    for column in table.column_iter_mut().skip(5) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    output::line("registering memory, by the clients:")?;
    output::line(&table.to_string())
}

fn run_fabric(options: &FabricOptions) -> Result<(), Failure> {
    let settings = fabric::Settings {
        seconds: options.seconds,
    };
    let rows = fabric::run(settings)
        .map_err(|error| Failure::new("cannot measure the fabric", format!("{error:#}")))?;
    if options.json {
        return rows.iter().try_for_each(output::json);
    }
    let number =
        |value: Option<f64>| value.map_or_else(|| String::from("-"), |value| format!("{value:.2}"));
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY).set_header([
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
    ]);
    for row in &rows {
        table.add_row([
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
        ]);
    }
    output::line(&table.to_string())
}
