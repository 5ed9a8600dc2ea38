//! Bounds of experiments, in one place.

/// Client machines of an experiment on a testbed.
pub const CLIENTS_MAX: usize = 64;
/// Threads of each of them.
pub const THREADS_MAX: usize = 1024;
/// Connections of a server that sends files by one call.
pub const CONNECTIONS_MAX: usize = 1024;
/// Bytes of a file that it sends, and of all its pipes together: simulated memory is memory.
pub const SENT_MAX: usize = 1 << 30;
