//! Operations that took long, with where their time went.

use gannet_runtime::stages::Parts;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Slow operations that are remembered, the newest.
pub const SLOW_MAX: usize = 1024;
/// Slow operations of a second that get a line of the log each.
const LOGGED_MAX: u32 = 100;

/// The line of the log for [`Noted::FirstUnlogged`].
pub const UNLOGGED: &str =
    "more slow operations in this second are not logged: `gannet trace` shows them";

/// No operation is slow, and none is taken apart.
const OFF: u64 = u64::MAX;
/// None is slow, but all are taken apart.
const PARTS_ALONE: u64 = u64::MAX - 1;

/// An operation that took long.
#[derive(Debug, Clone)]
pub struct SlowOperation {
    /// Its end, since the Unix epoch.
    pub ended: Duration,
    /// The protocol, as in the label of metrics.
    pub protocol: &'static str,
    /// The procedure, as in the label of metrics.
    pub procedure: &'static str,
    /// The status, as in the label of metrics.
    pub status: &'static str,
    /// The address that asked.
    pub client: Option<IpAddr>,
    /// The transport.
    pub transport: &'static str,
    /// Export, handle, names: it tells paths.
    pub subject: String,
    /// Where its time went.
    pub parts: Parts,
}

/// The fate of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Noted {
    /// It was not slow.
    Fast,
    /// It gets a line of the log.
    Logged,
    /// It gets none, as the first one beyond the bound of its second.
    FirstUnlogged,
    /// It gets none.
    Unlogged,
}

/// The slow operations of a process, over all cores.
#[derive(Debug)]
pub struct SlowOperations {
    /// The least nanoseconds of a slow one, or [`OFF`] or [`PARTS_ALONE`].
    over_ns: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The bound while nobody watches.
    usual_ns: u64,
    /// The bound for the log: as it was configured.
    logged_ns: u64,
    newest: VecDeque<Arc<SlowOperation>>,
    /// Slow operations so far.
    count: u64,
    /// The last second with a slow one, and the lines that it has.
    second: u64,
    lines: u32,
}

impl Default for SlowOperations {
    fn default() -> SlowOperations {
        SlowOperations::new(None)
    }
}

impl SlowOperations {
    /// An operation is slow that takes `over` or longer; with `None` no one is. Each gets a line of the log, up to 100
    /// a second.
    pub fn new(over: Option<Duration>) -> SlowOperations {
        SlowOperations::from_ns(over.map_or(OFF, nanoseconds))
    }

    /// No operation is slow, but the parts of all are wanted.
    pub fn parts_alone() -> SlowOperations {
        SlowOperations::from_ns(PARTS_ALONE)
    }

    fn from_ns(over_ns: u64) -> SlowOperations {
        SlowOperations {
            over_ns: AtomicU64::new(over_ns),
            state: Mutex::new(State {
                usual_ns: over_ns,
                logged_ns: over_ns,
                newest: VecDeque::new(),
                count: 0,
                second: 0,
                lines: 0,
            }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes `over` for the least time of a slow operation from now on, in the log too.
    pub fn set(&self, over: Option<Duration>) {
        let over_ns = over.map_or(OFF, nanoseconds);
        let mut state = self.state();
        (state.usual_ns, state.logged_ns) = (over_ns, over_ns);
        self.over_ns.store(over_ns, Ordering::Relaxed);
    }

    /// Whether operations are to be taken apart.
    pub fn is_on(&self) -> bool {
        self.over_ns.load(Ordering::Relaxed) != OFF
    }

    /// The least time of a slow operation; `None` while none is slow.
    pub fn threshold(&self) -> Option<Duration> {
        let over = self.over_ns.load(Ordering::Relaxed);
        (over < PARTS_ALONE).then(|| Duration::from_nanos(over))
    }

    /// Takes `over` for the least time of a slow operation until [`SlowOperations::watch_ends`], if it is less than the
    /// usual one, for somebody who watches; the log stays as it is.
    pub fn watch(&self, over: Duration) {
        let over = nanoseconds(over).min(self.state().usual_ns);
        self.over_ns.store(over, Ordering::Relaxed);
    }

    /// Goes back to the bound of before.
    pub fn watch_ends(&self) {
        let usual = self.state().usual_ns;
        self.over_ns.store(usual, Ordering::Relaxed);
    }

    /// Notes an operation if it was slow.
    pub fn note(&self, parts: &Parts, operation: impl FnOnce() -> SlowOperation) -> Noted {
        let took = u64::try_from(parts.whole().as_nanos()).unwrap_or(u64::MAX);
        let over = self.over_ns.load(Ordering::Relaxed);
        if over >= PARTS_ALONE || took < over {
            return Noted::Fast;
        }
        let operation = Arc::new(operation());
        let second = operation.ended.as_secs();
        let mut state = self.state();
        state.count += 1;
        if state.newest.len() == SLOW_MAX {
            state.newest.pop_front();
        }
        state.newest.push_back(operation);
        if took < state.logged_ns {
            return Noted::Unlogged;
        }
        if state.second != second {
            (state.second, state.lines) = (second, 0);
        }
        state.lines = state.lines.saturating_add(1);
        match state.lines {
            lines if lines <= LOGGED_MAX => Noted::Logged,
            lines if lines == LOGGED_MAX + 1 => Noted::FirstUnlogged,
            _ => Noted::Unlogged,
        }
    }

    /// The remembered ones behind the first `seen`, oldest first, and how many there were so far.
    pub fn since(&self, seen: u64) -> (Vec<Arc<SlowOperation>>, u64) {
        let state = self.state();
        let new = usize::try_from(state.count.saturating_sub(seen)).unwrap_or(usize::MAX);
        let old = state.newest.len().saturating_sub(new);
        (
            state.newest.iter().skip(old).cloned().collect(),
            state.count,
        )
    }
}

/// Never as much as the values that mean something else.
fn nanoseconds(time: Duration) -> u64 {
    let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    nanoseconds.min(PARTS_ALONE - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gannet_runtime::stages::Stage;

    fn operation(parts: Parts, ended: Duration) -> SlowOperation {
        SlowOperation {
            ended,
            protocol: "nfs3",
            procedure: "READ",
            status: "OK",
            client: None,
            transport: "tcp",
            subject: String::new(),
            parts,
        }
    }

    fn taking(milliseconds: u64) -> Parts {
        let mut parts = Parts::default();
        parts.add(Stage::Queue, Duration::from_millis(milliseconds));
        parts
    }

    fn note(slow: &SlowOperations, milliseconds: u64, second: u64) -> Noted {
        let parts = taking(milliseconds);
        slow.note(&parts, || operation(parts, Duration::from_secs(second)))
    }

    #[test]
    fn an_operation_is_slow_from_the_bound_on() {
        let slow = SlowOperations::new(Some(Duration::from_millis(50)));
        assert!(slow.is_on());
        assert_eq!(note(&slow, 49, 1), Noted::Fast);
        assert_eq!(note(&slow, 50, 1), Noted::Logged);
        assert_eq!(slow.since(0).0.len(), 1);
        assert_eq!(slow.since(1).0.len(), 0);
    }

    #[test]
    fn nothing_is_slow_when_nobody_asked() {
        for slow in [SlowOperations::default(), SlowOperations::parts_alone()] {
            assert_eq!(note(&slow, 3_600_000, 1), Noted::Fast);
            assert_eq!(slow.threshold(), None);
        }
        assert!(!SlowOperations::default().is_on());
        assert!(SlowOperations::parts_alone().is_on());
    }

    #[test]
    fn a_second_has_a_hundred_lines_and_memory_is_bounded() {
        let slow = SlowOperations::new(Some(Duration::ZERO));
        let noted: Vec<Noted> = (0..2000).map(|_| note(&slow, 1, 7)).collect();
        let count = |which| noted.iter().filter(|noted| **noted == which).count();
        assert_eq!(count(Noted::Logged), 100);
        assert_eq!(count(Noted::FirstUnlogged), 1);
        assert_eq!(count(Noted::Unlogged), 1899);
        assert_eq!(note(&slow, 1, 8), Noted::Logged);
        let (remembered, count) = slow.since(0);
        assert_eq!((remembered.len(), count), (SLOW_MAX, 2001));
        assert_eq!(slow.since(1999).0.len(), 2);
    }

    #[test]
    fn a_watch_lowers_the_bound_for_itself_alone() {
        let slow = SlowOperations::new(Some(Duration::from_millis(50)));
        slow.watch(Duration::from_millis(1));
        assert_eq!(note(&slow, 2, 1), Noted::Unlogged);
        assert_eq!(note(&slow, 60, 1), Noted::Logged);
        slow.watch(Duration::from_secs(1));
        assert_eq!(note(&slow, 60, 1), Noted::Logged);
        slow.watch_ends();
        assert_eq!(note(&slow, 2, 1), Noted::Fast);
        let off = SlowOperations::default();
        off.watch(Duration::ZERO);
        assert_eq!(note(&off, 2, 1), Noted::Unlogged);
        off.watch_ends();
        assert!(!off.is_on());
        off.set(Some(Duration::from_millis(5)));
        assert_eq!(note(&off, 6, 1), Noted::Logged);
        off.set(None);
        assert!(!off.is_on());
    }
}
