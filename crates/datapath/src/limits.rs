//! Bounds of the data path, in one place.

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
/// Bytes of a file that are read at a time to bring them into the page cache.
pub const WARM_LEN: usize = 1 << 20;

/// Ranges up to this length are copied by a provider that registers what it sends: up to here a copy costs less than a
/// registration (2007: static buffers are good to 64 KiB).
pub const REGISTER_FILE_MIN: usize = 64 << 10;
/// Default pipes of a sender: two hide most of the time of registration and copies.
pub const PIPES: usize = 2;
/// Default bytes of a pipe.
pub const PIPE_LEN: usize = 256 << 10;
/// Default bytes of memory that a sender may take.
pub const SENDER_MEMORY_MAX: usize = 1 << 20;
/// A peer that takes no byte of a file for this long has failed.
pub const STALLED_AFTER: Duration = Duration::from_secs(30);

const _: () = assert!(COPY_FILE_MAX < SEND_FILE_MIN && SEND_FILE_MIN <= FILE_CHUNK_LEN);
