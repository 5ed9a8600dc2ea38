//! The audit log of `gannet serve --audit-log`: who mounted, who was refused, who changed what, as lines of JSON.
//!
//! A core that has an event adds a line to a queue and goes on; a thread of its own writes the file. The queue, the
//! lines in a second and the size of the file have bounds, which clients cannot raise. Lines that are left out, or that
//! the disk does not take, are counted, and a later line has the count. So a full disk stops no call.

mod file;
mod line;

use file::LogFile;
use gannet_metrics::{Counter, Exposition, Family, Label, Source};
use gannet_nfs::server::{Audit, Event, EventKind};
use line::Line;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Bytes of lines that wait for the file.
const QUEUE_MAX: usize = 1 << 20;
/// One part of so many of the rate and of the queue is for refusals, and the others for all other events. Peers that no
/// export admits make refusals, and must not hide what others do.
const REFUSALS_SHARE: u32 = 4;
/// The default of [`AuditOptions::lines_per_second`].
const LINES_PER_SECOND: u32 = 1000;
/// The default of [`AuditOptions::size_max`].
const SIZE_MAX: u64 = 64 << 20;
/// The smallest [`AuditOptions::size_max`]: a line fits.
pub(crate) const SIZE_MIN: u64 = 16 << 10;
/// The default of [`AuditOptions::keep`].
const KEEP: u8 = 4;
/// The time between two lines about lines that were left out.
const DROPS_EVERY: Duration = Duration::from_secs(1);
/// How long the end of the server waits for the file. Tests read the file then, so they wait for all of it.
const FINISH_MAX: Duration = if cfg!(test) {
    Duration::MAX
} else {
    Duration::from_secs(10)
};

/// The settings of an audit log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AuditOptions {
    pub(crate) path: PathBuf,
    /// Bytes of the file, after which it becomes `PATH.1`.
    pub(crate) size_max: u64,
    /// Older files that are kept.
    pub(crate) keep: u8,
    pub(crate) lines_per_second: u32,
}

impl AuditOptions {
    /// The defaults for a file.
    pub(crate) fn at(path: PathBuf) -> AuditOptions {
        AuditOptions {
            path,
            size_max: SIZE_MAX,
            keep: KEEP,
            lines_per_second: LINES_PER_SECOND,
        }
    }
}

/// An audit log at work.
pub(crate) struct AuditLog {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// The part that cores, the thread and readers of metrics share.
pub(crate) struct Shared {
    queue: Mutex<Queue>,
    /// The thread waits here for lines, and the end of the server for the thread.
    changed: Condvar,
    /// The bounds of the events, by class.
    bounds: [Share; 2],
    written: Counter,
    over_rate: Counter,
    over_queue: Counter,
    unwritten: Counter,
}

/// Events with bounds of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Refusal,
    Other,
}

impl Class {
    fn of(event: &Event<'_>) -> Class {
        match event.kind {
            EventKind::Refusal => Class::Refusal,
            _ => Class::Other,
        }
    }
}

/// A class's part of the rate and of the queue: the bound, or what is used of it.
#[derive(Debug, Clone, Copy, Default)]
struct Share {
    /// Lines in a second.
    lines: u32,
    /// Bytes that wait for the file.
    bytes: usize,
}

impl Share {
    /// The bounds of the classes, in their order. Each has a line in a second at least.
    fn bounds(lines_per_second: u32) -> [Share; 2] {
        let lines = lines_per_second / REFUSALS_SHARE;
        let bytes = QUEUE_MAX / REFUSALS_SHARE as usize;
        let refusals = Share {
            lines: lines.max(1),
            bytes,
        };
        let others = Share {
            lines: lines_per_second.saturating_sub(refusals.lines).max(1),
            bytes: QUEUE_MAX - bytes,
        };
        [refusals, others]
    }
}

/// Lines on their way to the file.
struct Queue {
    bytes: Vec<u8>,
    /// The used parts of the bounds.
    used: [Share; 2],
    /// Lines left out that no line has told of yet.
    dropped: u64,
    /// The second that the lines of `used` count.
    second: Instant,
    reopen: bool,
    /// The server ends: the thread ends when the queue is empty.
    ends: bool,
    has_ended: bool,
}

/// The work of the thread.
struct Work {
    bytes: Vec<u8>,
    dropped: u64,
    reopen: bool,
    ends: bool,
}

impl AuditLog {
    /// Opens the file and starts the thread.
    ///
    /// # Errors
    /// The file cannot be opened, or there is no thread.
    pub(crate) fn open(options: &AuditOptions) -> io::Result<AuditLog> {
        let file = LogFile::open(options)?;
        let queue = Queue {
            bytes: Vec::new(),
            used: [Share::default(); 2],
            dropped: 0,
            second: Instant::now(),
            reopen: false,
            ends: false,
            has_ended: false,
        };
        let shared = Arc::new(Shared {
            queue: Mutex::new(queue),
            changed: Condvar::new(),
            bounds: Share::bounds(options.lines_per_second),
            written: Counter::default(),
            over_rate: Counter::default(),
            over_queue: Counter::default(),
            unwritten: Counter::default(),
        });
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name(String::from("audit log"))
            .spawn(move || of_thread.write_to(file))?;
        shared.record_state("start");
        Ok(AuditLog {
            shared,
            thread: Some(thread),
        })
    }

    /// The part that takes events and has the numbers.
    pub(crate) fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }
}

impl Drop for AuditLog {
    /// Records the end, and writes the lines that wait. A disk that hangs does not keep the server from ending.
    fn drop(&mut self) {
        self.shared.record_state("stop");
        let mut queue = self.shared.queue();
        queue.ends = true;
        self.shared.changed.notify_all();
        let until = |queue: &mut Queue| !queue.has_ended;
        let waited = (self.shared.changed).wait_timeout_while(queue, FINISH_MAX, until);
        let has_ended = waited.is_ok_and(|(queue, _)| queue.has_ended);
        if let Some(thread) = self.thread.take().filter(|_| has_ended) {
            // It never panics, and a panic would have been reported.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        // Also after a panic of another holder: the queue is valid after each change.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the thread open the file again, after it was moved away.
    pub(crate) fn reopen(&self) {
        self.queue().reopen = true;
        self.changed.notify_all();
    }

    /// Records that the server starts or stops.
    fn record_state(&self, event: &'static str) {
        let mut line = Line::new(event);
        line.word("version", env!("CARGO_PKG_VERSION"));
        self.push(Class::Other, &line.finish());
    }

    /// Records that the configuration was read again, by whose wish, and what came of it.
    pub(crate) fn record_reload(&self, by: &'static str, outcome: &Result<String, String>) {
        let mut line = Line::new("reload");
        line.word("by", by);
        let (status, said) = match outcome {
            Ok(said) => ("OK", said),
            Err(why) => ("FAILED", why),
        };
        line.word("status", status);
        line.text("outcome", said);
        self.push(Class::Other, &line.finish());
    }

    /// Whether one more line is within the rate. A client's storm of events costs no more than this then.
    fn admit(&self, class: Class) -> bool {
        let mut queue = self.queue();
        let now = Instant::now();
        if now.duration_since(queue.second) >= Duration::from_secs(1) {
            queue.second = now;
            for used in &mut queue.used {
                used.lines = 0;
            }
        }
        let (used, bound) = (&mut queue.used[class as usize], self.bounds[class as usize]);
        if used.lines < bound.lines {
            used.lines += 1;
            return true;
        }
        self.over_rate.add(1);
        self.note_dropped(&mut queue);
        false
    }

    /// Adds a line to the queue; whether there was room.
    fn push(&self, class: Class, line: &[u8]) -> bool {
        let mut queue = self.queue();
        let (used, bound) = (&mut queue.used[class as usize], self.bounds[class as usize]);
        if used.bytes + line.len() > bound.bytes {
            self.over_queue.add(1);
            self.note_dropped(&mut queue);
            return false;
        }
        used.bytes += line.len();
        queue.bytes.extend_from_slice(line);
        self.changed.notify_all();
        true
    }

    fn note_dropped(&self, queue: &mut Queue) {
        queue.dropped += 1;
        // Only the first changes the time for which the thread waits.
        if queue.dropped == 1 {
            self.changed.notify_all();
        }
    }

    /// Waits for work. Lines about lines that were left out are at least [`DROPS_EVERY`] apart.
    fn next_work(&self, mut bytes: Vec<u8>, drops_from: Instant) -> Work {
        let mut queue = self.queue();
        loop {
            let now = Instant::now();
            let tells = queue.dropped > 0 && (now >= drops_from || queue.ends);
            if !queue.bytes.is_empty() || tells || queue.reopen || queue.ends {
                // The thread's buffer becomes the queue's.
                std::mem::swap(&mut bytes, &mut queue.bytes);
                for used in &mut queue.used {
                    used.bytes = 0;
                }
                return Work {
                    bytes,
                    dropped: if tells {
                        std::mem::take(&mut queue.dropped)
                    } else {
                        0
                    },
                    reopen: std::mem::take(&mut queue.reopen),
                    ends: queue.ends,
                };
            }
            queue = if queue.dropped > 0 {
                let waited = self.changed.wait_timeout(queue, drops_from - now);
                waited.unwrap_or_else(PoisonError::into_inner).0
            } else {
                let waited = self.changed.wait(queue);
                waited.unwrap_or_else(PoisonError::into_inner)
            };
        }
    }

    /// Writes lines until the server ends; the thread.
    fn write_to(&self, mut file: LogFile) {
        let mut spare = Vec::new();
        let mut drops_from = Instant::now();
        loop {
            spare.clear();
            let Work {
                mut bytes,
                dropped,
                reopen,
                ends,
            } = self.next_work(spare, drops_from);
            if reopen {
                file.reopen();
            }
            // Lines that the disk did not take are told with the others, when it takes lines again.
            let lost = file.take_lost();
            if dropped + lost > 0 {
                let mut line = Line::new("dropped");
                line.number("dropped", dropped + lost);
                bytes.extend_from_slice(&line.finish());
                drops_from = Instant::now() + DROPS_EVERY;
            }
            let done = file.write(&bytes, dropped + lost);
            self.written.add(done.written);
            self.unwritten.add(done.lost);
            if ends && self.queue().bytes.is_empty() {
                break;
            }
            spare = bytes;
        }
        self.queue().has_ended = true;
        self.changed.notify_all();
    }
}

impl Audit for Shared {
    fn record(&self, event: &Event<'_>) -> bool {
        let class = Class::of(event);
        self.admit(class) && self.push(class, &line::of_event(event))
    }
}

const LINES: Family = Family::counter("gannet_audit_lines", "Lines written to the audit log.");
const DROPPED: Family = Family::counter(
    "gannet_audit_dropped_lines",
    "Events without a line in the audit log: over the rate, over the queue, or the disk did not take them.",
);

impl Source for Shared {
    fn collect(&self, into: &mut Exposition) {
        into.counter(&LINES, &[], &self.written);
        for (reason, counter) in [
            ("rate", &self.over_rate),
            ("queue", &self.over_queue),
            ("disk", &self.unwritten),
        ] {
            into.counter(&DROPPED, &[Label::word("reason", reason)], counter);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn lines(path: &std::path::Path) -> Vec<Value> {
        let text = std::fs::read_to_string(path).unwrap();
        assert!(text.ends_with('\n'), "{text}");
        let lines = text.lines();
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    /// The lines that the log says were left out.
    fn dropped(lines: &[Value]) -> u64 {
        let counts = lines.iter().filter_map(|line| line["dropped"].as_u64());
        counts.sum()
    }

    #[test]
    fn lines_over_the_rate_are_counted_in_a_later_line() {
        let place = tempfile::tempdir().unwrap();
        let options = AuditOptions {
            lines_per_second: 10,
            ..AuditOptions::at(place.path().join("audit"))
        };
        let log = AuditLog::open(&options).unwrap();
        let (mut admitted, mut refused) = (0, 0);
        while refused < 100 {
            if log.shared.admit(Class::Other) {
                admitted += 1;
                log.shared.record_state("test");
            } else {
                refused += 1;
            }
        }
        drop(log);
        let lines = lines(&options.path);
        assert_eq!(dropped(&lines), 100);
        let written = lines.iter().filter(|line| line["event"] == "test");
        assert_eq!(written.count(), admitted);
    }

    #[test]
    fn a_full_queue_drops_lines_and_counts_them() {
        let place = tempfile::tempdir().unwrap();
        let options = AuditOptions::at(place.path().join("audit"));
        let log = AuditLog::open(&options).unwrap();
        // Longer than the queue, so that it does not matter how fast the thread is.
        assert!(!log.shared.push(Class::Other, &vec![b'1'; QUEUE_MAX + 1]));
        assert!(log.shared.push(Class::Other, b"2\n"));
        assert_eq!(log.shared.over_queue.total(), 1);
        drop(log);
        let lines = lines(&options.path);
        // With the start and the stop.
        assert_eq!((lines.len(), dropped(&lines)), (4, 1), "{lines:?}");
    }

    /// An event of a client.
    fn event(kind: EventKind) -> Event<'static> {
        Event {
            kind,
            peer: "192.0.2.7:823".parse().unwrap(),
            transport: None,
            stated: None,
            effective: None,
            subject: None,
            status: "OK",
            check: None,
        }
    }

    #[test]
    fn a_flood_of_refusals_hides_no_change() {
        let place = tempfile::tempdir().unwrap();
        let options = AuditOptions {
            lines_per_second: 100,
            ..AuditOptions::at(place.path().join("audit"))
        };
        let log = AuditLog::open(&options).unwrap();
        let began = Instant::now();
        let record = |kind| log.shared.record(&event(kind));
        let refusals = (0..10_000).filter(|_| record(EventKind::Refusal)).count();
        assert!((0..75).all(|_| record(EventKind::Change)));
        let seconds = usize::try_from(began.elapsed().as_secs()).unwrap() + 2;
        assert!(
            (25..=25 * seconds).contains(&refusals),
            "{refusals} in {seconds} s"
        );
        drop(log);
        let lines = lines(&options.path);
        let count = |event: &str| lines.iter().filter(|line| line["event"] == event).count();
        assert_eq!((count("change"), count("refusal")), (75, refusals));
        assert_eq!(dropped(&lines), 10_000 - refusals as u64);
    }

    #[test]
    fn refusals_fill_their_part_of_the_queue() {
        let part = Share::bounds(1000);
        assert_eq!(part.map(|it| it.lines), [250, 750]);
        assert_eq!(part.map(|it| it.bytes), [QUEUE_MAX / 4, QUEUE_MAX / 4 * 3]);
        // A small rate leaves each class a line.
        assert_eq!(Share::bounds(1).map(|it| it.lines), [1, 1]);
        let place = tempfile::tempdir().unwrap();
        let log = AuditLog::open(&AuditOptions::at(place.path().join("audit"))).unwrap();
        let long = vec![b'1'; QUEUE_MAX / 4 + 1];
        assert!(!log.shared.push(Class::Refusal, &long));
        assert!(log.shared.push(Class::Other, &long));
    }
}
