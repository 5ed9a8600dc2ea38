//! Bounds of the RPC layer, in one place.

use std::time::Duration;

/// Largest payload (READ or WRITE data) of one call, in bytes.
pub const PAYLOAD_MAX: usize = 1 << 20;
/// Room beside the payload in a record: headers, names.
pub const RECORD_SLACK: usize = 64 << 10;
/// Largest RPC message in either direction, in bytes.
pub const RECORD_MAX: usize = PAYLOAD_MAX + RECORD_SLACK;
/// Most fragments of one record; senders with 4 KiB buffers need 272 for the largest record.
pub const FRAGMENTS_MAX: u32 = 1024;

/// Calls in flight per TCP connection; more wait in the socket.
pub const CALLS_MAX: usize = 128;
/// Bytes of arguments in flight per TCP connection beyond which no further record is read.
pub const CALL_BYTES_MAX: usize = 16 << 20;
/// Bytes of replies per TCP connection that wait for the peer, beyond which nothing is read from it.
pub const OUTGOING_BYTES_MAX: usize = 4 << 20;

/// Bytes of the arguments that a call keeps until its reply has left, where its time is taken apart: handles and names.
pub const DEPARTING_ARGUMENTS: usize = 1024;
/// Bytes of memory that such a call takes, charged to its peer.
pub const DEPARTING_LEN: usize = 4096;

/// Bytes of the memory that all TCP connections of a core receive through.
pub const STAGE_LEN: usize = 256 << 10;
/// The same for one connection of a client.
pub const CLIENT_STAGE_LEN: usize = 64 << 10;
/// TCP records longer than this are received into memory of their own.
pub const LARGE_RECORD: usize = 16 << 10;
/// Bytes received at a time where a large record is expected: its headers, and little of its payload.
pub const LOOKAHEAD_LEN: usize = 2048;
/// Bytes of the longest call header: six words, a credential and a verifier of 400 bytes each.
pub const CALL_HEADER_MAX: usize = 24 + 2 * (8 + 400);
/// Bytes of a large record that show where its payload begins: its header, and a prefix of the arguments.
pub const HEADER_PREFIX_MAX: usize = CALL_HEADER_MAX + crate::service::PLACEMENT_PREFIX_LEN;
/// Bytes of small replies in one piece.
pub const BATCH_LEN: usize = 64 << 10;
/// Emptied batches that a connection keeps while it sends.
pub const SPARE_BATCHES_MAX: usize = 2;
/// Emptied batches that a core keeps for the connections that send next.
pub const IDLE_BATCHES_MAX: usize = 16;
/// Bytes of the shortest slots for payloads; the others are powers of two, the longest hold [`RECORD_MAX`].
pub const PAYLOAD_SLOT_MIN: usize = 4 << 10;
/// How long a core keeps unused payload memory at least; twice as long at most.
pub const PAYLOAD_IDLE_MAX: Duration = Duration::from_secs(30);
/// Bytes of payloads that one RDMA connection holds at a time; [`CALL_BYTES_MAX`] allows a TCP connection half as many.
pub const PAYLOAD_SHARE_MAX: usize = 32 << 20;
/// Idle call futures that a core keeps.
pub const IDLE_WORKERS_MAX: usize = 256;
/// Idle calls, with their memory, that a core keeps.
pub const IDLE_JOBS_MAX: usize = 256;
/// Bytes that an idle call may keep: enough for a full page of a directory listing (124 KiB).
pub const JOB_BYTES_KEPT: usize = 160 << 10;
/// Bytes that all idle calls of a core may keep.
pub const IDLE_JOB_BYTES_MAX: usize = 4 << 20;

/// Inline threshold offered on RDMA connections, both ways.
pub const INLINE_THRESHOLD: u32 = 4096;
/// Credits that a busy RDMA connection is granted while receives are left, and that a client asks for.
pub const CREDITS: u32 = 128;
/// The same in the Read-Read design: each call may be followed by an RDMA_DONE, which takes a receive as well.
pub const CREDITS_READ_READ: u32 = CREDITS / 2;
/// Calls that a client may have under way before the first reply: one (RFC 8166 section 3.3.1), and one more that older
/// clients may send.
pub const CREDITS_INITIAL: u32 = 2;
/// Credits that the first reply grants.
pub const CREDITS_FIRST: u32 = 8;
/// How many more each further reply grants: a client that uses all has [`CREDITS`] after three round trips.
pub const CREDITS_STEP: u32 = 4;
/// A pause in a connection's calls after which it has fewer credits.
pub const CREDITS_IDLE: Duration = Duration::from_secs(10);
/// Messages of a connection that no credit covers (RDMA_DONE of an unknown reply, transport errors) and that may come
/// one right behind the other.
pub const MESSAGES_SPARE: u32 = 2;
/// Receives that each RDMA connection of a core has, however many others there are.
pub const RECEIVES_RESERVED: u32 = CREDITS_INITIAL + MESSAGES_SPARE;
/// Receives of a core's RDMA connections together, [`INLINE_THRESHOLD`] bytes each; memory is taken for those whose
/// messages have come.
pub const RECEIVES_MAX: u32 = 24 << 10;
/// Bytes of replies that one connection has to read at a time in the Read-Read design; others wait for an RDMA_DONE.
pub const EXPOSED_SHARE_MAX: usize = 8 << 20;
/// Receives that a client posts beyond the credits that it asks for.
pub const CLIENT_RECEIVES_SPARE: u32 = 8;
/// Sends of a core's RDMA connections together, [`INLINE_THRESHOLD`] bytes each: one for each call under way.
pub const INLINE_SLOTS_MAX: usize = RECEIVES_MAX as usize;
/// Calls with failed transfers whose duplicates are refused; the oldest makes room.
pub const POISONED_MAX: usize = 1024;
/// Segments per chunk list of an RDMA call.
pub const SEGMENTS_MAX: usize = 64;
/// Chunks in the Write list of an RDMA call.
pub const WRITE_CHUNKS_MAX: usize = 8;

/// Most entries in the duplicate request cache.
pub const DRC_ENTRIES_MAX: usize = 65_536;
/// Most bytes of reply bodies in the duplicate request cache.
pub const DRC_BYTES_MAX: usize = 32 << 20;
/// How long a reply can be replayed.
pub const DRC_AGE_MAX: Duration = Duration::from_secs(120);
/// Duplicates of one call that wait for its result; one more is dropped.
pub const DRC_WAITERS_MAX: usize = 4;

/// Calls that a server may have under way over one connection of a client; more wait.
pub const CALLBACKS_MAX: usize = 8;
/// Calls a client has outstanding on one connection; more wait.
pub const CLIENT_CALLS_MAX: usize = 128;

const _: () = assert!(HEADER_PREFIX_MAX + 4 < LOOKAHEAD_LEN && HEADER_PREFIX_MAX < LARGE_RECORD);
const _: () = assert!(
    LOOKAHEAD_LEN < LARGE_RECORD
        && 2 * LARGE_RECORD <= STAGE_LEN
        && 2 * LARGE_RECORD <= CLIENT_STAGE_LEN
);
const _: () = assert!(gannet_session::limits::REST_AFTER.as_nanos() < PAYLOAD_IDLE_MAX.as_nanos());
const _: () = assert!(gannet_datapath::limits::FILE_CHUNK_LEN <= STAGE_LEN);
const _: () = assert!(RECORD_MAX <= CALL_BYTES_MAX);
const _: () = assert!(CALL_BYTES_MAX <= PAYLOAD_SHARE_MAX);
const _: () = assert!(2 * CREDITS_READ_READ <= CREDITS && CREDITS_READ_READ > 0);
const _: () = assert!(RECORD_MAX <= EXPOSED_SHARE_MAX);
const _: () = assert!(gannet_fabric::limits::PHYSICAL_SEGMENTS_MAX <= SEGMENTS_MAX);
const _: () = assert!(CREDITS > 0 && CREDITS as usize <= CALLS_MAX);
const _: () = assert!(
    RECEIVES_RESERVED as usize * gannet_session::limits::CONNECTIONS_MAX < RECEIVES_MAX as usize
);
