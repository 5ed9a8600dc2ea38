//! Counters of a server.

use gannet_datapath::Engine;
use gannet_metrics::{Clients, Counter, Exposition, Family, Gauge, Label, Reach, Source};
use gannet_session::Shortage;
use std::cell::Cell;
use std::sync::Arc;

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
    /// The reasons of `refused`.
    refusals: [Counter; RefusedConnection::ALL.len()],
    /// Connections now, over TCP and over RDMA.
    open: [Gauge; 2],
    /// Messages over RDMA.
    pub(crate) rdma: RdmaCounters,
    /// Bytes of files that sendfile(2) has sent over TCP.
    pub(crate) sent_files: Counter,
}

/// Counters of messages of RPC-over-RDMA.
#[derive(Debug, Default)]
pub(crate) struct RdmaCounters {
    calls: [Counter; CALL_FORMS.len()],
    replies: [Counter; REPLY_FORMS.len()],
    /// Bytes of files, by the engine that was chosen for them.
    files: [Counter; ENGINES.len()],
    /// Credits that clients have now.
    granted: Gauge,
    /// Replies that granted less than was asked for.
    short_grants: Counter,
    /// Calls behind which the client had no credit.
    pub(crate) exhausted: Counter,
}

/// How a call came over RDMA.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallForm {
    /// The whole in the message.
    Inline,
    /// A part by RDMA Read.
    ReadChunk,
    /// The whole by RDMA Read.
    Long,
}

impl CallForm {
    /// The form of a call whose whole message is in chunks (`long`), or that has chunks at all.
    pub(crate) fn of(long: bool, has_chunks: bool) -> CallForm {
        match (long, has_chunks) {
            (true, _) => CallForm::Long,
            (false, true) => CallForm::ReadChunk,
            (false, false) => CallForm::Inline,
        }
    }
}

const CALL_FORMS: [&str; CallForm::Long as usize + 1] = ["inline", "read-chunk", "long"];

/// How a reply left over RDMA.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReplyForm {
    /// The whole in the message.
    Inline,
    /// The payload by RDMA Write.
    WriteChunk,
    /// The message by RDMA Write, and the payload if there is a chunk for it.
    ReplyChunk,
    /// A part that the peer reads.
    Exposed,
}

const REPLY_FORMS: [&str; ReplyForm::Exposed as usize + 1] =
    ["inline", "write-chunk", "reply-chunk", "exposed"];

const ENGINES: [&str; 4] = ["static", "dynamic", "pipelined", "sendfile"];

impl RdmaCounters {
    fn collect(&self, into: &mut Exposition) {
        for (form, counter) in CALL_FORMS.iter().zip(&self.calls) {
            into.counter(&RDMA_CALLS, &[Label::word("form", form)], counter);
        }
        for (form, counter) in REPLY_FORMS.iter().zip(&self.replies) {
            into.counter(&RDMA_REPLIES, &[Label::word("form", form)], counter);
        }
        for (engine, counter) in ENGINES.iter().zip(&self.files) {
            into.counter(&FILES, &file_labels("rdma", engine), counter);
        }
        into.gauge(&GRANTED, &[], &self.granted);
        into.counter(&SHORT_GRANTS, &[], &self.short_grants);
        into.counter(&EXHAUSTED, &[], &self.exhausted);
    }

    pub(crate) fn call(&self, form: CallForm) {
        count(&self.calls, form as usize, 1);
    }

    pub(crate) fn reply(&self, form: ReplyForm) {
        count(&self.replies, form as usize, 1);
    }

    /// Counts a range of a file when its way to a peer is chosen. The reply may fail later, and the count stays.
    pub(crate) fn file(&self, engine: Engine, len: usize) {
        let place = match engine {
            Engine::Static => 0,
            Engine::Dynamic => 1,
            Engine::Pipelined => 2,
            Engine::Sendfile => 3,
        };
        count(&self.files, place, len as u64);
    }
}

/// The labels of [`FILES`].
fn file_labels(transport: &'static str, engine: &'static str) -> [Label; 2] {
    let transport = Label::word("transport", transport);
    [transport, Label::word("engine", engine)]
}

fn count(counters: &[Counter], place: usize, count: u64) {
    if let Some(counter) = counters.get(place) {
        counter.add(count);
    }
}

/// Why a connection was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RefusedConnection {
    /// Nothing is exported to its address.
    NotAdmitted,
    /// There are no receives for it.
    OutOfReceives,
    /// There was no room, or another was evicted for it.
    NoRoom(Shortage),
}

impl RefusedConnection {
    const ALL: [&str; 6] = [
        "not-admitted",
        "receives",
        "address",
        "unauthenticated",
        "connections",
        "memory",
    ];

    fn place(self) -> usize {
        match self {
            RefusedConnection::NotAdmitted => 0,
            RefusedConnection::OutOfReceives => 1,
            RefusedConnection::NoRoom(Shortage::Origin) => 2,
            RefusedConnection::NoRoom(Shortage::Unauthenticated) => 3,
            RefusedConnection::NoRoom(Shortage::Total) => 4,
            RefusedConnection::NoRoom(Shortage::Memory) => 5,
        }
    }

    /// The reason as a text for logs.
    pub(crate) fn why(self) -> &'static str {
        match self {
            RefusedConnection::NotAdmitted => "nothing is exported to its address",
            RefusedConnection::OutOfReceives => "out of receives",
            RefusedConnection::NoRoom(shortage) => shortage.why(),
        }
    }
}

impl Counters {
    fn collect_connections(&self, into: &mut Exposition) {
        for (reason, counter) in RefusedConnection::ALL.iter().zip(&self.refusals) {
            into.counter(&REFUSALS, &[Label::word("reason", reason)], counter);
        }
        for (transport, gauge) in ["tcp", "rdma"].iter().zip(&self.open) {
            into.gauge(&OPEN, &[Label::word("transport", transport)], gauge);
        }
        let labels = file_labels("tcp", "sendfile");
        into.counter(&FILES, &labels, &self.sent_files);
    }

    /// Counts a refused connection.
    pub(crate) fn refuse(&self, why: RefusedConnection) {
        self.refused.add(1);
        count(&self.refusals, why.place(), 1);
    }
}

/// A connection that is open until this is dropped.
pub(crate) struct OpenConnection {
    counters: Arc<Counters>,
    reach: Reach,
    granted: Cell<u32>,
}

impl OpenConnection {
    pub(crate) fn new(counters: &Arc<Counters>, reach: Reach) -> OpenConnection {
        counters.connections.add(1);
        let open = OpenConnection {
            counters: Arc::clone(counters),
            reach,
            granted: Cell::new(0),
        };
        open.gauge().raise(1);
        open
    }

    fn gauge(&self) -> &Gauge {
        let [tcp, rdma] = &self.counters.open;
        if self.reach == Reach::Rdma { rdma } else { tcp }
    }

    /// Notes that the peer has so many credits from now on, of those that it `asked` for.
    pub(crate) fn grants(&self, credits: u32, asked: u32) {
        let rdma = &self.counters.rdma;
        if credits < asked {
            rdma.short_grants.add(1);
        }
        let before = self.granted.replace(credits);
        // Most replies grant what the one before did.
        if credits != before {
            rdma.granted.raise(u64::from(credits));
            rdma.granted.lower(u64::from(before));
        }
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.gauge().lower(1);
        let granted = u64::from(self.granted.get());
        self.counters.rdma.granted.lower(granted);
    }
}

const HELD_BACK: Family = Family::counter(
    "gannet_rpc_held_back_seconds",
    "Time in which connections did not read because a bound was reached.",
);
const EXPOSED: Family = Family::gauge(
    "gannet_rpc_exposed_bytes",
    "Bytes of replies that peers can read now.",
);

const REFUSALS: Family = Family::counter(
    "gannet_rpc_refusals",
    "Connections that were refused, or admitted in the place of another, by reason.",
);
const OPEN: Family = Family::gauge("gannet_rpc_open_connections", "Connections now.");
const RDMA_CALLS: Family = Family::counter(
    "gannet_rpc_rdma_calls",
    "Calls over RDMA by their form: in the message, with a part in chunks, or all in chunks.",
);
const RDMA_REPLIES: Family = Family::counter(
    "gannet_rpc_rdma_replies",
    "Replies over RDMA by their form.",
);
const FILES: Family = Family::counter(
    "gannet_rpc_file_bytes",
    "Bytes of files for peers, by the way that was chosen for them; a reply that fails later counts too. Short ranges \
     over TCP are not counted.",
);
const GRANTED: Family = Family::gauge(
    "gannet_rpc_granted_credits",
    "Credits that clients over RDMA have now.",
);
const SHORT_GRANTS: Family = Family::counter(
    "gannet_rpc_short_grants",
    "Replies over RDMA that granted fewer credits than the client asked for.",
);
const EXHAUSTED: Family = Family::counter(
    "gannet_rpc_exhausted_credits",
    "Calls over RDMA that took the last credit of their client, which can send no other before a reply.",
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
        self.collect_connections(into);
        self.rdma.collect(into);
    }
}
