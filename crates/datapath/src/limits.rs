//! Bounds of the way of file bytes, in one place.

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

const _: () = assert!(COPY_FILE_MAX < SEND_FILE_MIN && SEND_FILE_MIN <= FILE_CHUNK_LEN);
