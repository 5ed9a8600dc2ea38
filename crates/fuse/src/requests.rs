//! The requests of the kernel that a mount has answered, by kind, status and time.

use fuser::Errno;
use gannet_metrics::{
    Counter, Exposition, Family, Label, Latency, Noted, PartCounters, SlowOperation,
    SlowOperations, Source, UNLOGGED,
};
use gannet_runtime::stages::Stopwatch;
use std::array;
use std::time::Duration;

const OPERATIONS: Family = Family::counter(
    "gannet_mount_operations",
    "Requests of the kernel that a mount has answered.",
);
const OPERATION_SECONDS: Family = Family::latency(
    "gannet_mount_operation_seconds",
    "Time from the start of a request in a mount to its answer.",
);
const READ: Family = Family::counter(
    "gannet_mount_read_bytes",
    "Bytes in answers to READ: those that the kernel did not have.",
);
const WRITTEN: Family = Family::counter(
    "gannet_mount_written_bytes",
    "Bytes of WRITEs that were answered.",
);
const HITS: Family = Family::counter(
    "gannet_mount_cache_hits",
    "Lookups that a cache of the mount has answered.",
);
const MISSES: Family = Family::counter(
    "gannet_mount_cache_misses",
    "Lookups that it could not answer.",
);
const DROPPED: Family = Family::counter(
    "gannet_mount_dropped_pages",
    "Times at which the kernel dropped its pages of a file because another host may have changed it.",
);
const WAITS: Family = Family::counter(
    "gannet_mount_waits",
    "Times in which some request had no reply of a server for three seconds or longer. FLUSH, FSYNC and RELEASE wait \
     since the last reply to a WRITE or COMMIT.",
);
const WAIT_SECONDS: Family = Family::counter(
    "gannet_mount_wait_seconds",
    "Length of these times together, each counted at its end.",
);

const PART_SECONDS: Family = Family::counter(
    "gannet_mount_operation_part_seconds",
    "Time of requests, by what it went into. Counted while --slow is set, or `gannet trace` watches.",
);

/// How long a request is under way before it counts as one that waits for a server.
pub const WAIT_MIN: Duration = Duration::from_secs(3);

/// Kinds of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Lookup,
    Getattr,
    Setattr,
    Readlink,
    Mknod,
    Mkdir,
    Unlink,
    Rmdir,
    Symlink,
    Rename,
    Link,
    Open,
    Create,
    Read,
    Write,
    Flush,
    Fsync,
    Release,
    Opendir,
    Readdir,
    Readdirplus,
    Statfs,
    Getlk,
    Setlk,
    Setlkw,
}

/// The kinds' names, as FUSE has them, in their order.
const NAMES: [&str; Kind::Setlkw as usize + 1] = [
    "LOOKUP",
    "GETATTR",
    "SETATTR",
    "READLINK",
    "MKNOD",
    "MKDIR",
    "UNLINK",
    "RMDIR",
    "SYMLINK",
    "RENAME",
    "LINK",
    "OPEN",
    "CREATE",
    "READ",
    "WRITE",
    "FLUSH",
    "FSYNC",
    "RELEASE",
    "OPENDIR",
    "READDIR",
    "READDIRPLUS",
    "STATFS",
    "GETLK",
    "SETLK",
    "SETLKW",
];

/// The errors that are told apart; others count as OTHER.
const ERRORS: [(Errno, &str); 25] = [
    (Errno::EPERM, "EPERM"),
    (Errno::ENOENT, "ENOENT"),
    (Errno::EINTR, "EINTR"),
    (Errno::EIO, "EIO"),
    (Errno::ENXIO, "ENXIO"),
    (Errno::EBADF, "EBADF"),
    (Errno::EAGAIN, "EAGAIN"),
    (Errno::EACCES, "EACCES"),
    (Errno::EEXIST, "EEXIST"),
    (Errno::EXDEV, "EXDEV"),
    (Errno::ENODEV, "ENODEV"),
    (Errno::ENOTDIR, "ENOTDIR"),
    (Errno::EISDIR, "EISDIR"),
    (Errno::EINVAL, "EINVAL"),
    (Errno::EFBIG, "EFBIG"),
    (Errno::ENOSPC, "ENOSPC"),
    (Errno::EROFS, "EROFS"),
    (Errno::EMLINK, "EMLINK"),
    (Errno::ENAMETOOLONG, "ENAMETOOLONG"),
    (Errno::ENOLCK, "ENOLCK"),
    (Errno::ENOTEMPTY, "ENOTEMPTY"),
    (Errno::EDQUOT, "EDQUOT"),
    (Errno::ESTALE, "ESTALE"),
    (Errno::EREMOTE, "EREMOTE"),
    (Errno::EOPNOTSUPP, "EOPNOTSUPP"),
];
/// Success, the errors, and others.
const STATUSES: usize = ERRORS.len() + 2;

/// The requests that a mount has answered, and the use of its caches.
pub struct Requests {
    kinds: [Answered; NAMES.len()],
    pub(crate) read_bytes: Counter,
    pub(crate) written_bytes: Counter,
    pub(crate) names: Cache,
    pub(crate) dropped_pages: Counter,
    waits: Counter,
    wait_ns: Counter,
    /// The requests that took long.
    pub slow: SlowOperations,
}

/// Requests of one kind.
struct Answered {
    latency: Latency,
    statuses: [Counter; STATUSES],
    parts: PartCounters,
}

/// The use of a cache.
#[derive(Default)]
pub(crate) struct Cache {
    hits: Counter,
    misses: Counter,
}

impl Cache {
    pub(crate) fn note(&self, is_hit: bool) {
        let counter = if is_hit { &self.hits } else { &self.misses };
        counter.add(1);
    }
}

impl Default for Requests {
    fn default() -> Requests {
        Requests {
            kinds: array::from_fn(|_| Answered {
                latency: Latency::default(),
                statuses: array::from_fn(|_| Counter::default()),
                parts: PartCounters::default(),
            }),
            read_bytes: Counter::default(),
            written_bytes: Counter::default(),
            names: Cache::default(),
            dropped_pages: Counter::default(),
            waits: Counter::default(),
            wait_ns: Counter::default(),
            slow: SlowOperations::default(),
        }
    }
}

impl Requests {
    /// Counts a request that is answered now.
    pub(crate) fn note(&self, kind: Kind, failure: Option<Errno>, took: Duration) {
        let place = place(failure);
        let Some(answered) = self.kinds.get(kind as usize) else {
            return;
        };
        answered.latency.add(took);
        if let Some(counter) = answered.statuses.get(place) {
            counter.add(1);
        }
    }
}

impl Requests {
    /// Counts time for which requests waited for servers: of a new wait, or of the last one.
    pub(crate) fn note_wait(&self, is_new: bool, more: Duration) {
        self.waits.add(u64::from(is_new));
        let nanoseconds = u64::try_from(more.as_nanos()).unwrap_or(u64::MAX);
        self.wait_ns.add(nanoseconds);
    }

    /// The number of waits, and their seconds.
    #[cfg(test)]
    pub(crate) fn waited(&self) -> (u64, u64) {
        (self.waits.total(), self.wait_ns.total() / 1_000_000_000)
    }

    /// Notes where the time of a request of a process went, and the request in the log if it was slow.
    pub(crate) fn note_parts(
        &self,
        kind: Kind,
        failure: Option<Errno>,
        process: Option<u32>,
        watch: &Stopwatch,
    ) {
        let parts = watch.parts();
        let (Some(answered), Some(procedure)) =
            (self.kinds.get(kind as usize), NAMES.get(kind as usize))
        else {
            return;
        };
        answered.parts.add(&parts);
        let status = status(place(failure));
        let mut subject = String::from(*procedure);
        let noted = self.slow.note(&parts, || {
            if let Some(process) = process {
                subject.push_str(&format!(" pid={process}"));
            }
            SlowOperation {
                ended: watch.wall_clock(),
                protocol: "fuse",
                procedure,
                status,
                client: None,
                transport: "fuse",
                subject: subject.clone(),
                parts,
            }
        });
        match noted {
            Noted::Logged => {
                let took_ms = parts.whole_ms();
                tracing::warn!(status, %subject, took_ms, %parts, "slow operation");
            }
            Noted::FirstUnlogged => tracing::warn!("{UNLOGGED}"),
            Noted::Fast | Noted::Unlogged => {}
        }
    }
}

/// The place of a status.
fn place(failure: Option<Errno>) -> usize {
    failure.map_or(0, |errno| {
        let found = ERRORS.iter().position(|(known, _)| *known == errno);
        found.unwrap_or(ERRORS.len()) + 1
    })
}

/// The name of the status at a place.
fn status(place: usize) -> &'static str {
    match place {
        0 => "OK",
        place => ERRORS.get(place - 1).map_or("OTHER", |(_, name)| name),
    }
}

impl Source for Requests {
    fn collect(&self, into: &mut Exposition) {
        let protocol = Label::word("protocol", "fuse");
        for (answered, name) in self.kinds.iter().zip(NAMES) {
            let procedure = Label::word("procedure", name);
            into.latency(
                &OPERATION_SECONDS,
                &[protocol, procedure],
                &answered.latency,
            );
            let labels = [protocol, procedure];
            answered.parts.collect(&PART_SECONDS, labels, into);
            for (place, counter) in answered.statuses.iter().enumerate() {
                // What never happened needs no series.
                if counter.total() > 0 {
                    let status = Label::word("status", status(place));
                    into.counter(&OPERATIONS, &[protocol, procedure, status], counter);
                }
            }
        }
        into.counter(&READ, &[], &self.read_bytes);
        into.counter(&WRITTEN, &[], &self.written_bytes);
        let names = [Label::word("cache", "names")];
        into.counter(&HITS, &names, &self.names.hits);
        into.counter(&MISSES, &names, &self.names.misses);
        into.counter(&DROPPED, &[], &self.dropped_pages);
        into.counter(&WAITS, &[], &self.waits);
        #[allow(clippy::cast_precision_loss)]
        // beyond 2^53 ns, 104 days, the last digits do not count
        into.real(&WAIT_SECONDS, &[], self.wait_ns.total() as f64 / 1e9);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_counted_by_their_names() {
        let requests = Requests::default();
        requests.note(Kind::Lookup, None, Duration::ZERO);
        requests.note(Kind::Lookup, Some(Errno::ENOENT), Duration::from_millis(2));
        requests.note(Kind::Setlkw, Some(Errno::ENOSYS), Duration::ZERO);
        let mut read = Exposition::default();
        requests.collect(&mut read);
        let text = read.into_text();
        for (procedure, status) in [("LOOKUP", "OK"), ("LOOKUP", "ENOENT"), ("SETLKW", "OTHER")] {
            let sample = format!("procedure=\"{procedure}\",status=\"{status}\"}} 1");
            assert!(text.contains(&sample), "{sample}: {text}");
        }
    }
}
