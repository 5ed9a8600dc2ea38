//! Bounds of the software RNIC, in one place.

use gannet_runtime::WINDOW_RANGE_MAX;
use gannet_wire::mpa::{PRIVATE_DATA_MAX, STARTUP_HEADER_LEN, ULPDU_MAX, fpdu_len};
use gannet_wire::rdmap::EXCEPTIONS_OFFER;
use std::time::Duration;

/// Bytes one receive may bring in. Large enough that one system call empties a busy socket, small
/// enough to stay in the second-level cache until the bytes are copied into place.
pub const STAGING_LEN: usize = 256 * 1024;

/// Staging buffers a core keeps for the next connection that receives.
pub const STAGING_SPARE_MAX: usize = 4;

/// Connections of a core that may keep a staging buffer while they wait for the rest of an FPDU;
/// beyond, the part that is there moves to a buffer of its own size.
pub const STAGING_HELD_MAX: usize = 32;

/// Bytes one connection receives before other tasks of its core run. In the smallest FPDUs that is
/// some milliseconds of work.
pub const RECEIVE_TURN_MAX: usize = 1024 * 1024;

/// When at least so many bytes of a tagged FPDU's payload are still to come, they are received straight into place;
/// for fewer a system call of their own costs more than the copy.
pub const DIRECT_MIN: usize = 4 * 1024;

/// Bytes received behind such a payload: the next FPDU's header, or a short FPDU and a reply.
pub const RECEIVE_AHEAD: usize = 1024;

/// Bytes one connection sends before other tasks of its core run.
pub const TRANSMIT_TURN_MAX: usize = 2 * 1024 * 1024;

/// Bytes given to the stream with one call. Four FPDUs of 64 KiB measured best on loopback; sixteen
/// were slower.
pub const BATCH_LEN: usize = 256 * 1024;

/// Batches prepared at once: one that the stream is taking, one behind it.
pub const BATCHES_MAX: usize = 2;

/// Slices given to the stream with one call (Linux takes 1024).
pub const SLICES_MAX: usize = 128;

/// Slices of the short array on the stack: enough for two batches of long FPDUs. Only more fill the array of
/// [`SLICES_MAX`].
pub const SLICES_FEW: usize = 20;

/// Payloads up to this length are copied behind their header: cheaper than a slice of their own.
pub const INLINE_PAYLOAD_MAX: usize = 256;

/// Messages from this length on leave from windows onto their file when CRCs are off; for shorter ones the residency
/// check costs more than the copy that it saves.
pub const MAP_MIN: usize = 32 * 1024;

/// Bytes of a file whose residency is checked at once.
pub const RESIDENCY_STEP: u64 = 1024 * 1024;

/// Bytes of a buffer for the file bytes of a batch.
pub const CHUNK_LEN: usize = BATCH_LEN;

/// Bytes of a short such buffer, for few bytes or while many connections hold a long one: any segment fits.
pub const CHUNK_SHORT_LEN: usize = 64 * 1024;

/// Long ones that the connections of a core may hold. More peers that take nothing cost a short one each.
pub const CHUNKS_LONG_MAX: usize = 32;

/// Buffers of each length that a core keeps for the next connection that sends.
pub const CHUNKS_SPARE_MAX: usize = 8;

/// Empty batches that a core keeps.
pub const BATCHES_SPARE_MAX: usize = 8;

/// The largest read depth offered or accepted; Linux siw drops a peer that states more.
pub const READ_DEPTH_MAX: u16 = 128;

/// Connections in set-up at once per listener; one more ends the one that has been silent for
/// longest.
pub const SETUPS_MAX: usize = 512;

/// Connections set up and not yet taken by the application, per listener.
pub const BACKLOG_MAX: usize = 256;

/// Bytes of the longest startup frame; after as many, a frame is complete or malformed.
pub const STARTUP_FRAME_MAX: usize = STARTUP_HEADER_LEN + PRIVATE_DATA_MAX;

/// Wake-up messages sent to a responder that does not answer.
pub const NUDGES_MAX: u32 = 5;

/// How many times as long as before each wake-up message after the first one is waited for. The first comes early: a
/// lost message stands still until then. The last comes after 1.7 seconds, for a responder on a slow machine.
pub const NUDGE_GROWTH: u32 = 4;

/// A connection that moved no byte for this long shrinks its queues.
pub const REST_AFTER: Duration = Duration::from_secs(5);

/// A buffer of a core that was taken no more often than this in [`REST_AFTER`] was hardly used: its memory goes back.
/// A peer that says each second that it is there takes it five times, so a dozen of them count as none.
pub const RARE_USES_MAX: u32 = 64;

/// Bytes for which the allocator is asked to give memory back to the system.
pub const RELEASE_MIN: usize = 1 << 20;

// Any segment lies in one window.
const _: () = assert!(ULPDU_MAX <= WINDOW_RANGE_MAX);

// Any segment fits a short buffer, and what a batch carries a long one.
const _: () = assert!(ULPDU_MAX <= CHUNK_SHORT_LEN && CHUNK_SHORT_LEN < CHUNK_LEN);

// Any FPDU fits the staging buffer with room for the next receive.
const _: () = assert!(2 * fpdu_len(u16::MAX as usize) <= STAGING_LEN);

/// Time between two log lines that peers can cause at will, per provider.
pub const LOG_INTERVAL: Duration = Duration::from_secs(10);

// The seam's bound for private data leaves room for the offer of exceptions.
const _: () = assert!(
    EXCEPTIONS_OFFER.len() + gannet_fabric::limits::PRIVATE_DATA_BESIDE_OFFER_MAX
        == gannet_fabric::limits::PRIVATE_DATA_MAX
);

// The bytes of an optimistic read are copied at once, into one short buffer.
const _: () = assert!(gannet_fabric::limits::OPTIMISTIC_READ_MAX as usize <= CHUNK_SHORT_LEN);
