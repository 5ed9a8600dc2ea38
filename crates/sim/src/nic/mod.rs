//! Machines whose work takes time: processors, adapters, links and file systems with the constants of a published
//! testbed.
//!
//! A [`Host`] is put on a [`crate::Node`]. From then on the simulated fabric and store charge it for each operation of
//! the protocol code on that node. Operations of a node without a host take no time.
//!
//! # How time is charged
//!
//! A host has processors, an adapter that executes one command at a time, and a port with two directions. Each is a
//! calendar: each user takes the first free time from its own time on.
//!
//! - Operations of a task *within a poll* (post, register, take completions) move the task's own clock on. The task
//!   takes the processor that is free first, or waits for the adapter (asleep or spinning), and goes on from there.
//!   `now()` is that clock, so that protocol code measures its own charges. The task's posts, wake-ups, spawns and
//!   replies happen no earlier, and it is not polled again before. So a task is a thread: its charges never overlap.
//! - Long operations that wait anyway (the file system) are work of a thread of their own, while their caller sleeps.
//!   Threads wait for a processor in their order and keep it for [`TIME_SLICE_NS`]; a task that was woken goes before
//!   those that wait, and behind those that run.
//! - Copies take turns at the memory, and transfers before them: the processor that copies is held up meanwhile.
//! - An interrupt comes at once, also while all processors are busy; its time is taken from the one that is free next.
//! - A transfer takes the sender's direction of its port and then the receiver's, and no processor. Byte streams take
//!   processors besides: where a stream is written and read, for calls and copies; where packets arrive, for each.
//!
//! The time from a request to its grant is *waiting*, the rest is *busy*; both are entered under their activity
//! ([`Usage`]). The order of everything follows from the order of the simulation's events: equal seeds give equal
//! times.
//!
//! Some operations are charged late. The drop of a region cannot charge the host. Its deregistration is charged when
//! the host's clock is next read, or the next work posted ([`Debtor`]). The strategies read the clock right after it.

pub(crate) mod calendar;
mod host;
mod ledger;
mod ordinary;
mod profile;
#[cfg(test)]
mod tests;

pub(crate) use host::{Bytes, Transfer};
pub use host::{Debtor, Host, Work};
pub use ledger::{Activity, Events, Spent, Usage};
pub use ordinary::ORDINARY;
pub use profile::{
    Adapter, Constant, FITTED_MAX, FileSystem, Link, Machine, Profile, Source, Tcp, assumed,
    derived, fitted, given,
};

/// Work holds a processor for so long at most while others wait, in nanoseconds: the least that Solaris (20 to 200 ms)
/// and Linux (5 to 800 ms, and none within the kernel) gave a thread in 2006.
pub const TIME_SLICE_NS: u64 = 20_000_000;
/// Bytes of a page of memory, as adapters translate them.
pub const PAGE_LEN: u64 = 4096;
