//! Counters of a server.

use gannet_metrics::{Clients, Counter, Exposition, Family, Gauge, Source};

/// Counters of the connections of one core of a server.
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
    /// The work of each client.
    pub clients: Clients,
}

const HELD_BACK: Family = Family::counter(
    "gannet_rpc_held_back_seconds",
    "Time in which connections did not read because a bound was reached.",
);
const EXPOSED: Family = Family::gauge(
    "gannet_rpc_exposed_bytes",
    "Bytes of replies that peers can read now.",
);

impl Source for Counters {
    fn collect(&self, into: &mut Exposition) {
        for (name, help, value) in [
            (
                "gannet_rpc_connections",
                "Connections accepted.",
                &self.connections,
            ),
            (
                "gannet_rpc_refused_connections",
                "Connections without room: refused, or admitted in the place of another.",
                &self.refused,
            ),
            (
                "gannet_rpc_dropped_connections",
                "Connections ended because the peer broke the protocol or was late.",
                &self.drops,
            ),
            (
                "gannet_rpc_calls",
                "Calls answered or under way.",
                &self.calls,
            ),
            (
                "gannet_rpc_received_bytes",
                "Bytes of calls, with those read by RDMA.",
                &self.bytes_in,
            ),
            (
                "gannet_rpc_sent_bytes",
                "Bytes of replies, with those written by RDMA.",
                &self.bytes_out,
            ),
            (
                "gannet_rpc_replayed_calls",
                "Calls answered as the first time, from the duplicate request cache.",
                &self.replays,
            ),
            (
                "gannet_rpc_unreadable_replies",
                "Replies not sent because their files could not be read.",
                &self.unreadable,
            ),
            (
                "gannet_rpc_transport_errors",
                "Transport errors of RPC-over-RDMA that were answered.",
                &self.transport_errors,
            ),
            (
                "gannet_rpc_exposed_replies",
                "Replies exposed for peers to read.",
                &self.exposures,
            ),
            (
                "gannet_rpc_overdue_connections",
                "Connections ended because the peer did not release such a reply in time.",
                &self.overdue,
            ),
        ] {
            into.counter(&Family::counter(name, help), &[], value);
        }
        #[allow(clippy::cast_precision_loss)]
        // beyond 2^53 ns, 104 days, the last digits do not count
        into.real(&HELD_BACK, &[], self.starved_ns.total() as f64 / 1e9);
        into.gauge(&EXPOSED, &[], &self.exposed);
    }
}
