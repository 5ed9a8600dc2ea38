//! Counters of a server.

use gannet_session::{Counter, Gauge};

/// Counters of a server, over all its connections.
#[derive(Debug, Default)]
pub struct Counters {
    /// Connections accepted.
    pub connections: Counter,
    /// Connections for which there was no room: refused, or admitted in the place of an evicted one.
    pub refused: Counter,
    /// Calls answered or under way.
    pub calls: Counter,
    /// Bytes of calls received, including those read by RDMA.
    pub bytes_in: Counter,
    /// Bytes of replies sent, including those written by RDMA or exposed for the peer to read.
    pub bytes_out: Counter,
    /// Connections ended because the peer broke the protocol or missed a deadline.
    pub drops: Counter,
    /// Calls answered from the duplicate request cache, or by waiting for their first execution.
    pub replays: Counter,
    /// Nanoseconds during which connections did not read because a bound was reached (calls or bytes in flight, or
    /// receive memory).
    pub starved_ns: Counter,
    /// Replies that could not be sent because their files could not be read.
    pub unreadable: Counter,
    /// RPC/RDMA transport errors answered (ERR_VERS, ERR_CHUNK).
    pub transport_errors: Counter,
    /// Replies exposed for peers to read (the Read-Read design).
    pub exposures: Counter,
    /// Bytes of memory that peers can read now.
    pub exposed: Gauge,
    /// Connections ended because their peers did not release such a reply in time.
    pub overdue: Counter,
}
