//! The totals of a host's time, by activity.

use std::iter::Sum;
use std::ops::{Add, Sub};

/// The activities that take processor time, in the words of the NFS/RDMA paper's breakdown (section 7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Activity {
    /// Making memory reachable by the adapter.
    Registration,
    /// The end of a registration.
    Deregistration,
    /// The file system: finding, copying to and from its memory, allocating memory for a call.
    FileSystem,
    /// Waiting for a disk behind the file system.
    Disk,
    /// Copies outside of the file system.
    Copy,
    /// All other work of a processor: applications, NFS, RPC, posting, interrupts, stream protocols.
    Protocol,
    /// Bytes on their way, counted where they leave.
    Wire,
}

impl Activity {
    /// All activities.
    pub const ALL: [Activity; 7] = [
        Activity::Registration,
        Activity::Deregistration,
        Activity::FileSystem,
        Activity::Disk,
        Activity::Copy,
        Activity::Protocol,
        Activity::Wire,
    ];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Activity::Registration => "registration",
            Activity::Deregistration => "deregistration",
            Activity::FileSystem => "file system",
            Activity::Disk => "disk",
            Activity::Copy => "copy",
            Activity::Protocol => "protocol",
            Activity::Wire => "wire",
        }
    }
}

/// The time of one activity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Spent {
    /// Nanoseconds of work.
    pub busy_ns: u64,
    /// Nanoseconds of waiting for a processor, the adapter, a link or a disk in between: queueing.
    pub waited_ns: u64,
}

impl Spent {
    /// The time from its beginning to its end, as a tracer of a running system sees it.
    pub fn elapsed_ns(&self) -> u64 {
        self.busy_ns + self.waited_ns
    }
}

impl Sub for Spent {
    type Output = Spent;
    fn sub(self, earlier: Spent) -> Spent {
        Spent {
            busy_ns: self.busy_ns - earlier.busy_ns,
            waited_ns: self.waited_ns - earlier.waited_ns,
        }
    }
}

/// The totals of a host since its start; subtract an earlier one for a period.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    spent: [Spent; Activity::ALL.len()],
    /// Nanoseconds of processor time, of all processors together.
    pub cpu_ns: u64,
    /// The totals of its adapter.
    pub events: Events,
}

/// The totals of an adapter: counts, which do not depend on the constants of a testbed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Events {
    /// Messages sent.
    pub messages: u64,
    /// RDMA Reads begun.
    pub reads: u64,
    /// RDMA Writes begun.
    pub writes: u64,
    /// Completions that the host took, of its own work and of messages that came.
    pub completions: u64,
    /// Registrations, pre-allocated ones included.
    pub registrations: u64,
}

impl Events {
    fn each(self, other: Events, of: impl Fn(u64, u64) -> u64) -> Events {
        Events {
            messages: of(self.messages, other.messages),
            reads: of(self.reads, other.reads),
            writes: of(self.writes, other.writes),
            completions: of(self.completions, other.completions),
            registrations: of(self.registrations, other.registrations),
        }
    }
}

impl Usage {
    /// The time of one activity so far.
    pub fn of(&self, activity: Activity) -> Spent {
        self.spent[activity as usize]
    }

    /// Nanoseconds of all waiting.
    pub fn queueing_ns(&self) -> u64 {
        self.spent.iter().map(|spent| spent.waited_ns).sum()
    }

    pub(super) fn enter(&mut self, activity: Activity, busy_ns: u64, waited_ns: u64) {
        let spent = &mut self.spent[activity as usize];
        spent.busy_ns += busy_ns;
        spent.waited_ns += waited_ns;
    }
}

impl Add for Usage {
    type Output = Usage;
    fn add(mut self, other: Usage) -> Usage {
        for activity in Activity::ALL {
            let spent = other.of(activity);
            self.enter(activity, spent.busy_ns, spent.waited_ns);
        }
        self.cpu_ns += other.cpu_ns;
        self.events = self.events.each(other.events, |one, other| one + other);
        self
    }
}

impl Sum for Usage {
    fn sum<I: Iterator<Item = Usage>>(usages: I) -> Usage {
        usages.fold(Usage::default(), Usage::add)
    }
}

impl Sub for Usage {
    type Output = Usage;
    fn sub(self, earlier: Usage) -> Usage {
        let mut spent = self.spent;
        for (spent, earlier) in spent.iter_mut().zip(earlier.spent) {
            *spent = *spent - earlier;
        }
        Usage {
            spent,
            cpu_ns: self.cpu_ns - earlier.cpu_ns,
            events: self
                .events
                .each(earlier.events, |later, earlier| later - earlier),
        }
    }
}
