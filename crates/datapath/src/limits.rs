//! Bounds of the way of file bytes, in one place.

use std::time::Duration;

/// File ranges up to this length are copied: among the small replies of a stream, to a buffer for RDMA. sendfile(2) won
/// from 32 KiB on, and lost below.
pub const COPY_FILE_MAX: usize = 16 << 10;
/// File ranges from this length on leave by sendfile(2) when they are in memory.
pub const SEND_FILE_MIN: usize = 32 << 10;
/// Bytes of a file that pass through memory on their way into a stream at a time: few enough to stay in the
/// second-level cache.
pub const FILE_CHUNK_LEN: usize = 128 << 10;
/// Bytes of the file ranges of one message that a provider may have in memory on their way out.
pub const FILE_STAGED_MAX: usize = 512 << 10;
/// Bytes of a file that are read at a time to have them in the page cache.
pub const WARM_LEN: usize = 1 << 20;

/// Ranges up to this length are copied by a provider that registers what it sends: up to here a copy costs less than a
/// registration (2007: static buffers are good to 64 KiB).
pub const REGISTER_FILE_MIN: usize = 64 << 10;
/// Pipes of a sender, unless it is told otherwise: two hide most of what registration and copies take.
pub const PIPES: usize = 2;
/// Bytes of a pipe, unless a sender is told otherwise.
pub const PIPE_LEN: usize = 256 << 10;
/// Bytes of memory that a sender may take, unless it is told otherwise.
pub const SENDER_MEMORY_MAX: usize = 1 << 20;
/// A peer that takes nothing of a file for so long has failed.
pub const STALLED_AFTER: Duration = Duration::from_secs(30);

const _: () = assert!(COPY_FILE_MAX < SEND_FILE_MIN && SEND_FILE_MIN <= FILE_CHUNK_LEN);
