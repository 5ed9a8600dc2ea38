//! Bounds of experiments, in one place.

/// Client machines of an experiment on a testbed.
pub const CLIENTS_MAX: usize = 64;
/// Threads of each of them.
pub const THREADS_MAX: usize = 1024;
