//! What a client remembers for optimistic reads, and when it makes them (paper 003, section III).
//!
//! - [`ClientMemory`]: blocks of files and references to blocks in servers' memory, under one budget.
//! - [`AdaptivePolicy`]: whether the next access uses a reference or a call; one for each server and way.
//!
//! Nothing here does I/O, and nothing reads a clock: time comes in as an argument. One order of calls gives one
//! result, in every process.

mod balance;
mod memory;
mod policies;
mod policy;
mod slots;
mod table;

pub use balance::Balance;
pub use memory::{
    ATTRIBUTE_BLOCK, BlockLookup, ClientMemory, ClientMemoryCounters, ClientMemoryOptions,
    ReadStart, RemoteReference, ReplacementOrder,
};
pub use policies::{AdaptivePolicies, CallWay};
pub use policy::{AdaptivePolicy, PolicyCounters, PolicyOptions, ReadPath};
