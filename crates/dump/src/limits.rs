//! Bounds of the memory that `gannet dump` uses while it reads: a capture is untrusted input, and may be longer than
//! memory.

use gannet_wire::rpcrdma::ChunkLimits;

/// Longest record or block of a capture file. Captured packets stay far below; a longer one is damage.
pub(crate) const CAPTURE_RECORD_MAX: usize = 16 << 20;
/// Bytes asked of the input at a time.
pub(crate) const READ_SIZE: usize = 256 << 10;
/// Connections followed at a time. The one opened first is given up for a new one.
pub(crate) const CONNECTIONS_MAX: usize = 4096;
/// Bytes of one direction kept behind a hole, waiting for it to be filled.
pub(crate) const LATE_BYTES_MAX: usize = 4 << 20;
/// Segments of one direction kept likewise.
pub(crate) const LATE_SEGMENTS_MAX: usize = 4096;
/// Most bytes between a stream's position and a segment: the largest window that TCP can announce. Segments further
/// ahead are strays.
pub(crate) const WINDOW_MAX: u64 = 1 << 30;
/// Bytes of a connection looked at before it is taken for something else than NFS.
pub(crate) const DETECT_MAX: usize = 1 << 20;
/// Longest RPC record on a byte stream; a longer one is damage, or not RPC.
pub(crate) const RPC_RECORD_MAX: u32 = 16 << 20;
/// Bytes of one message kept for decoding; what is behind them is payload, and is only counted.
pub(crate) const MESSAGE_KEPT_MAX: usize = 256 << 10;
/// Calls of one connection that wait for their replies.
pub(crate) const CALLS_MAX: usize = 1024;
/// RDMA Reads of one direction that wait for their responses.
pub(crate) const READS_MAX: usize = 1024;
/// Segments and chunks of one RPC-over-RDMA header.
pub(crate) const CHUNK_LIMITS: ChunkLimits = ChunkLimits {
    segments_max: 1024,
    write_chunks_max: 64,
};
/// Bytes of a name out of the capture shown on a line for people.
pub(crate) const NAME_SHOWN_MAX: usize = 64;
/// Items of a list shown on a line unless everything was asked for.
pub(crate) const LIST_SHOWN_MAX: usize = 4;
