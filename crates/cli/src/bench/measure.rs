//! Common parts of the benchmarks of servers: a folder of their own that is removed at the end, signals, clocks,
//! and counters.

pub use super::interrupt::Interrupt;
use crate::cli::ClientOptions;
use crate::failure::{Explain, Failure};
use crate::session::{self, Session};
use crate::size;
use gannet::local::Remote;
use gannet::url::Url;
use gannet_client::{Error, Follow, Objects};
use gannet_runtime::{all, sleep};
use gannet_vfs::{FileHandle, Status};
use hdrhistogram::Histogram;
use rustix::time::{ClockId, clock_gettime};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Folders that this process has made.
static FOLDERS: AtomicU64 = AtomicU64::new(0);
/// How long an interrupted benchmark still removes its files.
const REMOVE_TIME: Duration = Duration::from_secs(10);
/// Files that are removed at a time.
const REMOVED_AT_A_TIME: usize = 32;
/// How often it looks again for files that calls under way have made meanwhile.
const REMOVE_ROUNDS: usize = 16;

/// The longest latency that the histogram resolves, in nanoseconds.
const LATENCY_MAX_NS: u64 = 600_000_000_000;

/// Refuses records that a file of `size` bytes does not have, or that one call does not move.
///
/// # Errors
/// There is such a record.
pub fn check_records(records: &[u64], size: u64, is_volume: bool) -> Result<(), Failure> {
    let longest = records.iter().copied().max().unwrap_or(0);
    if longest > size {
        let (size, record) = (size::human(size), size::human(longest));
        let why = format!("a file of {size} bytes holds no record of {record} bytes");
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

/// Refuses to count an operation that moved `count` bytes at `offset`, and not the `record` bytes that were asked for.
///
/// # Errors
/// It did.
pub fn check_moved(
    what: impl FnOnce() -> String,
    count: u32,
    offset: u64,
    record: u32,
) -> Result<(), Failure> {
    if count == record {
        return Ok(());
    }
    let why = format!("{count} of {record} bytes were moved at {offset}");
    Err(Failure::new(what(), why)
        .hint("use records that the server moves in one call; see `gannet doctor URL`"))
}

/// Makes a directory on the server, does `work` in it, and removes it with its contents; soon, if a signal comes.
///
/// # Errors
/// The errors of `work`; or the server cannot be reached, the folder cannot be made or removed, or a signal came.
pub fn in_folder<T>(
    url: &Url,
    client: &ClientOptions,
    interrupt: &Interrupt,
    work: impl FnOnce(&Url) -> Result<T, Failure>,
) -> Result<T, Failure> {
    // Two machines may measure a server at the same time.
    let machine = rustix::system::uname();
    let machine = machine.nodename().to_string_lossy();
    let name = match FOLDERS.fetch_add(1, Ordering::Relaxed) {
        0 => format!("gannet-bench-{machine}-{}", std::process::id()),
        // A benchmark of several servers, or of one server under several names.
        more => format!("gannet-bench-{machine}-{}-{more}", std::process::id()),
    };
    let folder = url.child(name.as_bytes());
    let made = with_session(url, client, interrupt, async |session| {
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
            () = too_late => Err(Failure::new(format!("cannot remove {folder}"), "interrupted")),
        }
    });
    match (done, removed) {
        (Ok(done), Ok(())) => Ok(done),
        (Err(failure), Err(_)) if interrupt.check().is_err() => {
            Err(failure.hint(format!("remove {folder} if it is still there")))
        }
        (Err(failure), _) | (Ok(_), Err(failure)) => Err(failure),
    }
}

/// Does `work` on a session to the server of `url`, unless a signal comes before its end.
pub(super) fn with_session<F: Future<Output = Result<(), Failure>>>(
    url: &Url,
    client: &ClientOptions,
    interrupt: &Interrupt,
    work: impl FnOnce(Session) -> F,
) -> Result<(), Failure> {
    session::run(async |runtime| {
        let working = session::with_session(&runtime, url, client, work);
        interrupt.until(working).await
    })
}

/// A histogram of latencies in nanoseconds.
///
/// # Errors
/// There is no memory for it.
pub fn histogram() -> Result<Histogram<u64>, Failure> {
    Histogram::new_with_bounds(1, LATENCY_MAX_NS, 3)
        .explain(|| String::from("cannot count latencies"))
}

/// The latency in microseconds below which this share of the operations stayed.
pub fn micros_at(latency_ns: &Histogram<u64>, share: f64) -> f64 {
    latency_ns.value_at_quantile(share) as f64 / 1e3
}

/// `value` with so many digits behind the point.
pub fn rounded(value: f64, digits: i32) -> f64 {
    let scale = 10f64.powi(digits);
    (value * scale).round() / scale
}

/// Numbers that look random and are the same in every run (a step of SplitMix64).
pub fn scatter(number: u64) -> u64 {
    let value = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value ^ (value >> 31)
}

/// CPU time of this process so far.
pub fn own_cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or(0),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
}

/// Processor time of this thread so far.
pub fn thread_cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(
        time.tv_sec.unsigned_abs(),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
}

/// Removes the bench's directory with its contents.
async fn remove(session: &Session, folder: &Url) -> Result<(), Failure> {
    let what = || format!("cannot remove {folder}");
    let node = session.node(folder, Follow::No).await?;
    let (files, path) = (session.files(), session.path_of(folder));
    for _ in 0..REMOVE_ROUNDS {
        empty(session.objects(), &node.handle).await.explain(what)?;
        match files.remove(&path).await {
            // Made by a call that was under way when its connection was closed.
            Err(Error::Status(Status::Notempty)) => {}
            removed => return removed.explain(what),
        }
    }
    Err(Failure::new(what(), Status::Notempty))
}

/// Removes the files of a directory, and those of directories in it that a sample could not remove.
async fn empty(objects: &Objects<Remote>, directory: &FileHandle) -> Result<(), Error> {
    for items in objects.list(directory).await?.chunks(REMOVED_AT_A_TIME) {
        let removing = items
            .iter()
            .map(|item| Box::pin(objects.remove(directory, &item.name)));
        let removed = all(removing).await;
        for (item, removed) in items.iter().zip(removed) {
            match removed {
                Err(Error::Status(Status::Noent)) => {}
                Err(Error::Status(Status::Isdir)) => {
                    let inner = objects.lookup(directory, &item.name).await?;
                    Box::pin(empty(objects, &inner.handle)).await?;
                    objects.remove_directory(directory, &item.name).await?;
                }
                removed => removed?,
            }
        }
    }
    Ok(())
}
