//! Bounds of the simulator, in one place.

/// Polls and events of one world before it counts as going round in circles.
pub const STEPS_MAX: u64 = 20_000_000;
/// Virtual nanoseconds of one world before it counts as making no progress: a day.
pub const TIME_MAX_NS: u64 = 24 * 3600 * 1_000_000_000;
/// Connections that wait to be accepted at one address.
pub const BACKLOG_MAX: usize = 256;
/// Bytes of one simulated segment of a byte stream.
pub const SEGMENT_MAX: usize = 64 << 10;
/// Work requests that a simulated endpoint's send queue takes.
pub const SEND_QUEUE_MAX: u32 = 256;
/// Receives that a simulated endpoint holds.
pub const RECEIVE_QUEUE_MAX: u32 = 1024;
/// Bytes that a simulated disk holds by default.
pub const DISK_BYTES: u64 = 1 << 30;
/// Inodes of a simulated disk.
pub const DISK_INODES: u64 = 1 << 20;
/// Largest simulated file in bytes: it lies in memory.
pub const FILE_MAX: u64 = 64 << 20;
/// Most names of one simulated object.
pub const LINK_MAX: u32 = 1000;
