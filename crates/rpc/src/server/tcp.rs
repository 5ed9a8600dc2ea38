//! One TCP connection: all calls that one read brings are answered with one write.
//!
//! The connection is one hand-written future. A wake-up collects the calls that finished, receives once into the
//! core's stage, starts every complete call in place, and hands all replies over together. Payloads of large records
//! are received into memory of their own, past the stage.

mod receive;

use super::Core;
use super::departing::Departing;
use super::worker::{CallTable, Job};
use crate::calls::CallsBack;
use crate::client::CallerCredential;
use crate::counters::OpenConnection;
use crate::limits::{CALL_BYTES_MAX, CALLBACKS_MAX, OUTGOING_BYTES_MAX};
use crate::outgoing::{Failed, Outgoing, Progress};
use crate::rounds;
use crate::service::Service;
use gannet_metrics::{ClientConnection, Reach};
use gannet_runtime::stages::Stage;
use gannet_runtime::{Buffer, Instant, LocalFuture, Stream};
use gannet_session::limits::STREAM_BYTES;
use gannet_session::{Activity, Charge, Deadlines, Overdue, Timer, Waits};
use gannet_wire::rpc::{CallHeaderError, RecordError};
use receive::{Inbound, Received};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;
use thiserror::Error;

/// Why a connection ends.
#[derive(Debug, Error)]
pub(super) enum End {
    #[error("the peer closed it")]
    Peer,
    #[error("the server stops")]
    Stopped,
    #[error("idle or without a call so far, and others need the room")]
    Evicted,
    #[error("record marks: {0}")]
    Record(#[from] RecordError),
    #[error("not rpc: {0}")]
    NotRpc(#[from] CallHeaderError),
    #[error("a reply that cannot be read: {0}")]
    Reply(&'static str),
    #[error(transparent)]
    Overdue(#[from] Overdue),
    #[error("the file of a reply cannot be read any further: {0}")]
    File(io::ErrorKind),
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl End {
    /// True when the peer is to blame.
    fn is_offence(&self) -> bool {
        matches!(
            self,
            End::Record(_) | End::NotRpc(_) | End::Reply(_) | End::Overdue(_)
        )
    }
}

/// Answers `stream` until it ends.
pub(super) async fn serve<S: Service>(core: Rc<Core<S>>, stream: Stream) {
    let peer = stream.peer_address();
    let Some(activity) = core.admit(peer, STREAM_BYTES) else {
        return stream.abort();
    };
    let _open = OpenConnection::new(&core.counters, Reach::Tcp);
    tracing::debug!(%peer, "tcp connection");
    let mut connection = Connection::new(&core, activity, Rc::clone(&stream));
    let end = rounds::run(|context| connection.round(context)).await;
    if end.is_offence() {
        core.note_dropped(peer, &end);
        stream.abort();
    } else {
        tracing::debug!(%peer, why = %end, "tcp connection ended");
        stream.shutdown_write();
    }
    // The calls run to their end after the connection's place is free. Their memory stays charged to the peer.
    let Connection { calls, held, .. } = connection;
    calls.finish_beside(&core, held);
}

/// A file range on its way from the disk.
type ColdRead = LocalFuture<io::Result<Buffer>>;

struct Connection<S: Service> {
    core: Rc<Core<S>>,
    activity: Activity,
    client: ClientConnection,
    stream: Stream,
    peer: SocketAddr,
    inbound: Inbound,
    calls: CallTable,
    /// Calls that this server makes to the client.
    back: CallsBack,
    /// The charge of the peer's memory to the budget; see [`Connection::count_held`].
    held: Charge,
    /// Bytes of arguments of the calls under way.
    call_bytes: usize,
    /// Bytes that their replies may take.
    reserved: usize,
    outgoing: Outgoing,
    departing: Departing,
    /// The socket was full; the next write waits until it is writable.
    blocked: bool,
    /// The read of the file range that sending waits for.
    cold: Option<ColdRead>,
    /// Bytes of memory for that read.
    cold_bytes: usize,
    /// Bytes that the peer sent or took so far.
    moved: u64,
    /// The budget had no room in this round. It wakes no task when it has room again, so the timer looks again.
    short_of_budget: bool,
    /// The budget has no room for a whole stage: [`LOOKAHEAD_LEN`](crate::limits::LOOKAHEAD_LEN) bytes are received at
    /// a time.
    is_tight: bool,
    /// The peer has closed its side.
    ended: bool,
    deadlines: Deadlines,
    timer: Timer,
    /// The time since which a bound holds back reading.
    starved_since: Option<Instant>,
}

impl<S: Service> Connection<S> {
    fn new(core: &Rc<Core<S>>, activity: Activity, stream: Stream) -> Connection<S> {
        let deadlines = Deadlines::new(core.runtime.now());
        let timer = Timer::new(&core.runtime, &deadlines);
        let peer = stream.peer_address();
        Connection {
            core: Rc::clone(core),
            inbound: Inbound::new(),
            client: core.counters.clients.connected(peer.ip(), Reach::Tcp),
            peer,
            stream,
            calls: CallTable::new(activity.id()),
            back: CallsBack::new(&core.runtime),
            held: activity.account().charge(0),
            activity,
            call_bytes: 0,
            reserved: 0,
            outgoing: Outgoing::default(),
            departing: Departing::default(),
            blocked: false,
            cold: None,
            cold_bytes: 0,
            moved: 0,
            short_of_budget: false,
            is_tight: false,
            ended: false,
            deadlines,
            timer,
            starved_since: None,
        }
    }

    /// Does what it can; returns true if there may be more to do, false once a waker is registered for each wait. Calls
    /// are collected before the receive, because their replies free the bounds that hold it back.
    fn round(&mut self, context: &mut Context<'_>) -> Result<bool, End> {
        self.deadlines.at(self.core.now());
        self.short_of_budget = false;
        if self.outgoing.is_empty() {
            self.deadlines.nothing_to_send();
        }
        if self.inbound.at_boundary() {
            self.deadlines.no_record_under_way();
        }
        self.core.service.moment();
        self.calls.register(context);
        self.collect();
        let received = self.receive(context)?;
        if self.inbound.take_completed() {
            self.deadlines.no_record_under_way();
        }
        let called = self.call_back(context);
        let sent = self.send(context)?;
        if received || called || sent {
            self.activity.note(self.deadlines.now());
            return Ok(true);
        }
        self.rest();
        // Registered before the checks: an eviction after them wakes this task.
        self.activity.register(context);
        if self.activity.is_evicted() {
            return Err(End::Evicted);
        }
        let quiet = self.calls.is_empty() && self.outgoing.is_empty();
        if quiet && self.ended {
            return Err(End::Peer);
        }
        if quiet && self.activity.is_stopping() && self.inbound.at_boundary() {
            return Err(End::Stopped);
        }
        self.poll_timer(context)
    }

    /// Gives unused memory back to the core before the task waits, and counts the rest. A thousand idle connections
    /// would otherwise keep a batch each.
    fn rest(&mut self) {
        self.inbound.rest();
        self.departing.rest();
        let core = &self.core;
        self.outgoing.give_back(|batch| core.put_batch(batch));
        self.count_held();
        self.activity
            .account()
            .set_waiting(self.short_of_budget || self.inbound.is_short_of_memory());
    }

    /// Charges all memory that this connection holds for its peer. A peer that takes no replies, or sends half
    /// records, uses up its own share of the budget and not that of others.
    fn count_held(&mut self) {
        let calls = self.call_bytes + self.reserved + self.cold_bytes;
        let messages = self.inbound.memory() + self.outgoing.memory() + self.departing.memory();
        self.held.set(calls + messages);
    }

    /// Bytes held until the peer sends or takes some.
    fn kept(&self) -> usize {
        self.inbound.owed() + self.outgoing.memory()
    }

    /// Moves the replies of calls that finished late to the outgoing ones.
    fn collect(&mut self) {
        let Connection {
            core,
            activity,
            calls,
            outgoing,
            departing,
            call_bytes,
            reserved,
            ..
        } = self;
        calls.poll_woken(core, |mut job| {
            *call_bytes = call_bytes.saturating_sub(job.tag);
            *reserved = reserved.saturating_sub(job.reserved);
            finish(core, activity, outgoing, &mut job);
            departing.push(core, outgoing.len(), job);
        });
    }

    /// True while the bounds of the connection allow another call.
    fn may_receive(&self) -> bool {
        !self.calls.is_full()
            && self.call_bytes < CALL_BYTES_MAX
            && self.outgoing.len() < OUTGOING_BYTES_MAX
    }

    /// True when the budget has room for `bytes` more; otherwise notes that the timer must look again.
    fn has_room_for(&mut self, bytes: usize) -> bool {
        self.count_held();
        let has_room = self.activity.account().has_room_for(bytes);
        self.short_of_budget |= !has_room;
        has_room
    }

    /// Receives once and starts the calls that are complete; returns whether bytes came.
    fn receive(&mut self, context: &mut Context<'_>) -> Result<bool, End> {
        if self.ended || (self.activity.is_stopping() && self.inbound.at_boundary()) {
            return Ok(false);
        }
        // Nothing is read beyond the bounds: the bytes stay in the socket, whose window holds the peer back.
        if !self.may_receive() || !self.has_room_to_receive() {
            self.starved_since
                .get_or_insert_with(|| self.core.runtime.now());
            return Ok(false);
        }
        if let Some(since) = self.starved_since.take() {
            let starved = self.core.runtime.now().duration_since(since);
            self.core
                .counters
                .starved_ns
                .add(u64::try_from(starved.as_nanos()).unwrap_or(0));
        }
        // Records that an earlier bound left in memory come before the socket.
        if !self.inbound.has_backlog() && self.stream.poll_readable(context)?.is_pending() {
            return Ok(false);
        }
        let core = &self.core;
        self.outgoing.lend(|| core.take_batch());
        let mut stage = self.core.take_stage();
        let received = self.receive_into(&mut stage);
        self.core.stage.set(stage);
        match received? {
            Received::Nothing => Ok(false),
            Received::Spurious => Ok(true),
            Received::End => {
                self.ended = true;
                Ok(true)
            }
            Received::Bytes(count) => {
                self.deadlines.bytes_received();
                self.moved += count as u64;
                self.core.counters.bytes_in.add(count as u64);
                self.client.received(count as u64);
                Ok(true)
            }
        }
    }

    /// Queues this server's own calls to the client; returns whether the service made any since the last round.
    fn call_back(&mut self, context: &mut Context<'_>) -> bool {
        let made = self.back.poll_made(context);
        let mut pending = self.back.pending();
        if pending.has_unsent() {
            let credential = &CallerCredential::None;
            let now = self.deadlines.now();
            pending.queue(
                &mut self.outgoing,
                credential,
                now,
                Duration::ZERO,
                CALLBACKS_MAX,
            );
        }
        made
    }

    /// Writes outgoing bytes to the socket; returns true if it wrote some or must be called again to register.
    fn send(&mut self, context: &mut Context<'_>) -> Result<bool, End> {
        if self.outgoing.is_empty() {
            return Ok(false);
        }
        if let Some(read) = &mut self.cold {
            let Poll::Ready(read) = read.as_mut().poll(context) else {
                return Ok(false);
            };
            self.departing.next_enters(Stage::Wire);
            (self.cold, self.cold_bytes) = (None, 0);
            match read {
                Ok(bytes) => self.outgoing.warm(bytes),
                Err(error) => self.answer_unreadable(error.kind())?,
            }
        }
        if self.blocked && self.stream.poll_writable(context)?.is_pending() {
            return Ok(false);
        }
        let before = self.outgoing.len();
        let mut stage = self.core.take_stage();
        let progress = self.outgoing.flush(&*self.stream, &mut stage);
        self.core.stage.set(stage);
        let by_send_file = self.outgoing.take_sent_by_file();
        self.core.counters.sent_files.add(by_send_file);
        let progress = progress?;
        self.blocked = progress == Progress::Blocked;
        if progress == Progress::Cold
            && let Some(range) = self.outgoing.cold_range()
            && self.has_room_for(range.len)
        {
            let runtime = Rc::clone(&self.core.runtime);
            self.cold_bytes = range.len;
            self.departing.next_enters(Stage::FileSystem);
            self.cold = Some(Box::pin(async move {
                let memory = Buffer::zeroed(range.len);
                range.read(&runtime, memory, 0).await
            }));
        }
        let sent = before - self.outgoing.len();
        if sent > 0 {
            self.deadlines.bytes_sent();
            self.moved += sent as u64;
            self.departing.took(&self.core, sent);
        }
        self.core.counters.bytes_out.add(sent as u64);
        self.client.sent(sent as u64);
        // True also when another round must register a waker with the socket or with the read of the file. A read that
        // the budget holds back has no waker: the timer of `short_of_budget` looks again.
        let is_held_back = progress == Progress::Cold && self.cold.is_none();
        Ok(sent > 0 || (progress != Progress::Done && !is_held_back))
    }

    /// Answers the call whose file cannot be read with an error. If the beginning of its reply has left, the connection
    /// ends instead; the client asks again on another one and gets SYSTEM_ERR there, because the call is poisoned.
    fn answer_unreadable(&mut self, error: io::ErrorKind) -> Result<(), End> {
        let before = self.outgoing.len();
        let Some(failed) = self.outgoing.fail_cold() else {
            return Ok(());
        };
        // An error in place of a file. A longer one would be noted as departed a little early.
        let shorter = before.saturating_sub(self.outgoing.len());
        self.departing.shortened(shorter);
        let (Failed::Answered(xid) | Failed::Begun(xid)) = failed;
        self.core.note_unreadable(self.peer, xid, error);
        if let Failed::Begun(_) = failed {
            let (ip, now) = (self.peer.ip(), self.deadlines.now());
            self.core.cache.poisoned.add(ip, xid, now);
            return Err(End::File(error));
        }
        Ok(())
    }

    /// Ends the connection if the peer has missed a deadline; otherwise registers with the timer for the next one.
    fn poll_timer(&mut self, context: &mut Context<'_>) -> Result<bool, End> {
        let short_of_memory = self.inbound.is_short_of_memory() || self.short_of_budget;
        let held_back = self.starved_since.is_some() || short_of_memory;
        self.deadlines.bytes_kept(self.kept(), self.moved);
        let waits = Waits {
            established: self.activity.is_established(),
            in_record: !self.inbound.at_boundary() && !held_back,
            to_send: !self.outgoing.is_empty() && self.cold.is_none(),
            busy: held_back || !self.calls.is_empty() || self.cold.is_some(),
            short_of_memory,
            exposed_since: None,
            scarce: self.activity.account().is_scarce(),
            grown: false,
        };
        let Connection {
            core,
            deadlines,
            timer,
            ..
        } = self;
        Ok(timer.poll(context, &core.runtime, deadlines, waits)?)
    }
}

/// Queues a finished call's reply. The first call that reaches an export makes its peer an authenticated one.
fn finish<S: Service>(core: &Core<S>, activity: &Activity, outgoing: &mut Outgoing, job: &mut Job) {
    if !activity.is_established() && core.service.establishes(&job.call) {
        activity.establish();
    }
    if !job.call.dropped.get() {
        outgoing.push_reply(job.call.xid, &mut job.reply);
    }
}
