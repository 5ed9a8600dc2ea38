//! Bounds of the provider, in one place.

use std::time::Duration;

/// Work requests that the send queue of a connection takes.
pub const SEND_QUEUE_MAX: u32 = 128;

/// Requests of the provider's own in a send queue: a probe of an idle connection, and the mark of its end.
pub const SEND_QUEUE_OWN: u32 = 2;

/// Receives that a connection without a shared queue can have posted.
pub const RECEIVE_QUEUE_MAX: u32 = 512;

/// Completions for which one completion queue has room, where the device allows it. A shared receive queue has one of
/// its own.
pub const COMPLETIONS_MAX: u32 = 16 << 10;

/// Work requests without a completion of their own, one after the other. Their memory is kept until the next one.
pub const UNSIGNALED_MAX: u32 = 16;

/// Bytes that a post copies into the work request instead of a message slot.
pub const INLINE_MAX: u32 = 128;

/// Bytes of one message slot. The memory of longer messages is registered for each.
pub const MESSAGE_SLOT_LEN: usize = 8 << 10;

/// Message slots that are registered at once.
pub const CHUNK_SLOTS: u32 = 64;

/// The time after which message slots that nobody used are given back.
pub const SLOTS_UNUSED_MAX: Duration = Duration::from_secs(10);

/// Message slots of one provider; the memory of further messages is registered for each.
pub const MESSAGE_SLOTS_MAX: u32 = 8 << 10;

/// Private data of a connection request between InfiniBand and RoCE devices, in bytes: 92 of the connection manager's
/// message, less the 36 of the IP addresses.
pub const IB_REQUEST_DATA_MAX: usize = 56;

/// Private data of a reply, or of a rejection, between InfiniBand and RoCE devices, in bytes: a rejection has the
/// shorter field.
pub const IB_REPLY_DATA_MAX: usize = 148;

/// Private data of every set-up message between iWARP devices, in bytes: what Linux's software iWARP takes.
pub const IWARP_DATA_MAX: usize = 196;

/// How long resolving an address or a route may take.
pub const RESOLVE_TIME_MAX: Duration = Duration::from_secs(2);

/// How long a connection's set-up may take.
pub const SETUP_TIME_MAX: Duration = Duration::from_secs(10);

/// How long the posted work of a closing connection may take.
pub const CLOSE_TIME_MAX: Duration = Duration::from_secs(10);

/// How long the connection manager may take to name the reason when a connection broke.
pub const REASON_TIME_MAX: Duration = Duration::from_millis(300);

/// How long an ended connection's id is kept, so that its peer is told again if the first message was lost.
pub const LINGER_TIME: Duration = Duration::from_secs(1);

/// The time without traffic after which a connection is probed.
pub const IDLE_TIME_MAX: Duration = Duration::from_secs(2);

/// How long the answer to a probe may take, while nothing else comes. It is longer than a message waits for a receive.
pub const PROBE_TIME_MAX: Duration = Duration::from_secs(5);

/// Bytes of posted work that a slow network moves in a second, for which a probe waits longer.
pub const SLOW_BYTES_PER_SECOND: u64 = 4 << 20;

/// The time between two looks at the deadlines of the connections.
pub const TICK: Duration = Duration::from_millis(250);

/// The time after which an unanswered packet is sent again, as the exponent of 4.096 µs: 268 ms. The device tries 7
/// times more, so a dead peer is noticed after some 2 seconds.
pub const ACK_TIMEOUT_EXPONENT: u8 = 16;

/// Times that a message which found no receive is sent again. Devices wait some 655 ms between two.
pub const RNR_RETRIES: u8 = 6;

/// Requests of peers that wait for one listener.
pub const BACKLOG: usize = 1024;

/// Registrations from this length on are taken back on the blocking pool, in bytes.
pub const LONG_REGISTRATION: usize = 256 << 10;

/// Memory windows that a provider keeps for later use.
pub const WINDOWS_IDLE_MAX: usize = 1024;

/// Most RDMA Reads that a connection can have outstanding: the connection manager has one byte for it.
pub const READ_DEPTH_MAX: u16 = 255;
