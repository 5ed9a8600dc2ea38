//! One connection in full operation, without I/O.
//!
//! The shell calls, in any order:
//!
//! - commands from the application: [`Engine::post_receive`], [`Engine::post_send`],
//!   [`Engine::post_write`], [`Engine::post_read`], [`Engine::close`], [`Engine::disconnect`];
//! - events: [`Engine::receive`] with the bytes at the front of the incoming stream; [`Engine::placed`] with the
//!   number of bytes that came into [`Engine::direct_space`], which `receive` does not get; [`Engine::sent`] with
//!   the number of outgoing bytes that the stream took; [`Engine::file_fetched`];
//! - outputs: [`Engine::prepare`], then [`Engine::outgoing`] until nothing is left, [`Engine::fetch_wanted`],
//!   [`Engine::completions`].
//!
//! Memory is named by regions and buffers. The engine borrows a region's bytes only within one call, because the
//! application may deregister the region between any two calls.

mod batch;
mod direct;
mod exceptions;
mod frame;
mod outgoing;
mod payload;
mod receive;
mod transmit;
mod violation;

use crate::startup::{Agreement, ReadyToReceive, Role};
use gannet_fabric::{
    AccessError, Completion, Disconnected, Done, EndpointId, Invalidate, PostError, Reference,
    RemoteAddress, SendOptions, Signal, Source, Span, WorkError, WorkId,
};
use gannet_runtime::{Buffer, push_lean};
use gannet_softrdma::{Authenticator, EndpointReceives, ProtectionTable, TableRegion};
use gannet_wire::ddp::{Msn, STag, TaggedOffset};
use gannet_wire::rdmap::{Opcode, READ_REQUEST_LEN, Terminate, TerminateCode};
use std::collections::VecDeque;
use std::rc::Rc;

pub(crate) use batch::BatchPool;
pub(crate) use outgoing::{FileFetch, Outgoing};

/// The settings of an engine.
pub(crate) struct EngineOptions {
    pub(crate) id: EndpointId,
    pub(crate) role: Role,
    pub(crate) agreement: Agreement,
    /// Bytes of the longest ULPDU sent.
    pub(crate) ulpdu_max: usize,
    /// Work requests in the send queue, framed Reads included.
    pub(crate) send_queue_max: u32,
    /// Receives of this endpoint's own, not of a shared queue.
    pub(crate) receive_queue_max: u32,
    pub(crate) batches: BatchPool,
}

/// The phase of a connection; it only moves forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The application posts work, and the engine does it.
    Open,
    /// The engine refuses new work; posted work still leaves.
    Closing,
    /// All work is completed or flushed. Only bytes already framed, such as a Terminate, still leave.
    Ended,
}

/// The sans-IO engine of one connection. The module's text has the calling order.
pub(crate) struct Engine {
    id: EndpointId,
    table: Rc<ProtectionTable>,
    agreement: Agreement,
    phase: Phase,
    /// Why the connection ended. The first reason is kept: later errors follow from the end itself.
    reason: Option<Disconnected>,
    /// Results that the application has not taken, in the order in which the work completed.
    completions: VecDeque<Completion>,
    receive_queue_max: usize,
    send_queue_max: usize,
    receives: EndpointReceives,
    /// Our Reads whose answers are on their way, oldest first; never more than ORD. Read Responses carry no number:
    /// RDMAP answers Reads in the order of their requests, so the next response belongs to the front.
    reads: VecDeque<OutstandingRead>,
    /// The state of optimistic reads; boxed, because few connections have a key and idle ones must stay small.
    authenticator: Option<Box<Authenticator>>,
    rx: receive::Receiver,
    tx: transmit::Transmitter,
}

/// A Read Request of ours that was framed.
struct OutstandingRead {
    /// The work it belongs to; `None` for the message that only opens a peer-to-peer connection.
    work: Option<(WorkId, Span)>,
    stag: STag,
    offset: TaggedOffset,
    size: u32,
    received: u32,
}

/// Work in the send queue.
struct Work {
    id: WorkId,
    operation: Operation,
}

enum Operation {
    Send {
        source: Source,
        options: SendOptions,
    },
    Write {
        source: Source,
        target: RemoteAddress,
        signal: Signal,
    },
    Read {
        sink: Span,
        source: ReadSource,
    },
    /// A zero-length Write without meaning: it opens a connection, or wakes a peer that missed
    /// something.
    Ping,
    /// A zero-length Read or Send that opens a peer-to-peer connection.
    OpeningRead,
}

/// The source of a Read at the peer.
#[derive(Debug, Clone, Copy)]
enum ReadSource {
    /// A region that the peer keeps registered until the Read is done.
    Registered(RemoteAddress),
    /// An exported object; the peer may refuse the Read with an exception.
    Exported(Reference),
}

impl Engine {
    pub(crate) fn new(
        options: EngineOptions,
        table: Rc<ProtectionTable>,
        receives: EndpointReceives,
    ) -> Engine {
        let EngineOptions {
            id,
            role,
            agreement,
            ..
        } = options;
        let mut engine = Engine {
            id,
            table,
            agreement,
            phase: Phase::Open,
            reason: None,
            completions: VecDeque::new(),
            receive_queue_max: options.receive_queue_max as usize,
            send_queue_max: options.send_queue_max as usize,
            receives,
            reads: VecDeque::new(),
            authenticator: None,
            rx: receive::Receiver::new(),
            tx: transmit::Transmitter::new(
                role,
                options.ulpdu_max,
                agreement.markers,
                options.batches,
            ),
        };
        if role == Role::Initiator {
            engine.open();
        }
        engine
    }

    /// Queues the first message of a peer-to-peer initiator (RFC 6581 section 8). This engine never offers a Send
    /// for it.
    fn open(&mut self) {
        let operation = match self.agreement.ready {
            ReadyToReceive::Ordinary | ReadyToReceive::Send => return,
            ReadyToReceive::Write => Operation::Ping,
            ReadyToReceive::Read => Operation::OpeningRead,
        };
        push_lean(
            &mut self.tx.queue,
            Work {
                id: WorkId(0),
                operation,
            },
        );
    }

    /// Why the connection ended; `None` before that.
    pub(crate) fn reason(&self) -> Option<&Disconnected> {
        self.reason.as_ref()
    }

    /// The completions so far; the caller takes them out.
    pub(crate) fn completions(&mut self) -> &mut VecDeque<Completion> {
        &mut self.completions
    }

    /// See [`gannet_fabric::Endpoint::post_receive`].
    pub(crate) fn post_receive(&mut self, id: WorkId, buffer: Buffer) -> Result<(), PostError> {
        self.check_open()?;
        self.receives.post(id, buffer, self.receive_queue_max)
    }

    /// See [`gannet_fabric::Endpoint::grant_receives`].
    pub(crate) fn grant_receives(&mut self, count: u32) -> Result<(), PostError> {
        self.check_open()?;
        self.receives.grant(count)
    }

    /// See [`gannet_fabric::Endpoint::post_send`].
    pub(crate) fn post_send(
        &mut self,
        id: WorkId,
        source: Source,
        options: SendOptions,
    ) -> Result<(), PostError> {
        self.check_room()?;
        check_source(&source)?;
        push_lean(
            &mut self.tx.queue,
            Work {
                id,
                operation: Operation::Send { source, options },
            },
        );
        Ok(())
    }

    /// See [`gannet_fabric::Endpoint::post_write`].
    pub(crate) fn post_write(
        &mut self,
        id: WorkId,
        source: Source,
        target: RemoteAddress,
        signal: Signal,
    ) -> Result<(), PostError> {
        self.check_room()?;
        check_source(&source)?;
        let operation = Operation::Write {
            source,
            target,
            signal,
        };
        push_lean(&mut self.tx.queue, Work { id, operation });
        Ok(())
    }

    /// See [`gannet_fabric::Endpoint::post_read`].
    pub(crate) fn post_read(
        &mut self,
        id: WorkId,
        sink: Span,
        source: RemoteAddress,
    ) -> Result<(), PostError> {
        self.post_read_of(id, sink, ReadSource::Registered(source))
    }

    fn post_read_of(
        &mut self,
        id: WorkId,
        sink: Span,
        source: ReadSource,
    ) -> Result<(), PostError> {
        self.check_room()?;
        if self.agreement.ord == 0 {
            return Err(PostError::Invalid(
                "no RDMA Read was agreed for this connection",
            ));
        }
        if !check_span(&sink)?.is_memory() {
            return Err(PostError::Invalid("a file range cannot be read into"));
        }
        push_lean(
            &mut self.tx.queue,
            Work {
                id,
                operation: Operation::Read { sink, source },
            },
        );
        Ok(())
    }

    /// Queues a zero-length RDMA Write that has no effect but to wake the peer.
    pub(crate) fn nudge(&mut self) {
        if self.phase == Phase::Open {
            push_lean(
                &mut self.tx.queue,
                Work {
                    id: WorkId(0),
                    operation: Operation::Ping,
                },
            );
        }
    }

    /// Takes no new work; see [`Engine::has_left`].
    pub(crate) fn close(&mut self) {
        if self.phase == Phase::Open {
            self.phase = Phase::Closing;
        }
    }

    /// True when the application closed the endpoint and all posted work has left.
    pub(crate) fn has_left(&self) -> bool {
        self.phase == Phase::Closing && self.tx.is_idle()
    }

    /// True when something waits to be framed or to leave, or the connection has ended.
    pub(crate) fn has_more_to_do(&self) -> bool {
        self.phase != Phase::Open || !self.rx.requests.is_empty() || !self.tx.is_idle()
    }

    /// True when its queues have room for more than they hold.
    pub(crate) fn is_grown(&self) -> bool {
        self.completions.capacity() > self.completions.len()
            || self.reads.capacity() > self.reads.len()
            || self.rx.requests.capacity() > self.rx.requests.len()
            || self.tx.queue.capacity() > self.tx.queue.len()
            || self.tx.leaving.capacity() > self.tx.leaving.len()
            || self.tx.batches.capacity() > self.tx.batches.len()
    }

    /// Shrinks the queues to what they hold now, to nothing if they are empty: a small allocation that stayed where
    /// a queue has grown would keep its page from the system (0.9 KB for each of 1000 idle connections).
    pub(crate) fn rest(&mut self) {
        self.completions.shrink_to_fit();
        self.reads.shrink_to_fit();
        self.rx.requests.shrink_to_fit();
        self.tx.queue.shrink_to_fit();
        self.tx.leaving.shrink_to_fit();
        self.tx.batches.shrink_to_fit();
    }

    /// Ends the connection: all outstanding work completes as flushed. The first reason counts.
    pub(crate) fn disconnect(&mut self, reason: Disconnected) {
        if self.phase != Phase::Ended {
            self.phase = Phase::Ended;
            self.reason = Some(reason);
            // Before the flush: it returns the buffers of messages only if no framed bytes refer to them.
            self.tx.drop_unsent();
            self.flush_work(None);
        }
    }

    /// Ends the connection with a Terminate, which still leaves behind the bytes that are framed already. These stay:
    /// the stream may have taken a part of an FPDU, and the peer finds the Terminate only behind a whole one.
    fn terminate(&mut self, terminate: &Terminate, reason: Disconnected) {
        if self.phase != Phase::Ended {
            self.phase = Phase::Ended;
            self.reason = Some(reason);
            self.tx.queue_terminate(terminate, &self.agreement);
            self.flush_work(None);
        }
    }

    /// Ends the connection because the message being framed cannot be finished, for a local reason.
    fn fail_locally(&mut self, error: WorkError) {
        let message = self.tx.youngest();
        self.fail_message(message, error);
    }

    /// Ends the connection because message `message` cannot be finished. Its own work completes with `error`, all
    /// other work as flushed. If the message answers a Read of a revoked region, the Terminate says so.
    fn fail_message(&mut self, message: u64, error: WorkError) {
        let Some(leaving) = self.tx.message_mut(message) else {
            return;
        };
        let answer = leaving
            .answer
            .filter(|_| matches!(error, WorkError::Local(_)));
        if let Some(work) = leaving.work.take() {
            push_lean(&mut self.completions, failed(work.id, error, None));
        }
        let Some(answer) = answer else {
            let terminate = Terminate::bare(TerminateCode::LOCAL_CATASTROPHIC);
            return self.terminate(&terminate, Disconnected::Local);
        };
        let violation = violation::Violation::from(TerminateCode::READ_INVALID_STAG)
            .in_segment(
                answer.header,
                answer.header.encoded_len() + READ_REQUEST_LEN,
            )
            .in_request(answer.request);
        let reason = Disconnected::PeerMisbehaved(violation.code.to_string());
        self.terminate(&violation.terminate(), reason);
    }

    /// The peer ended the connection.
    fn terminated(&mut self, terminate: &Terminate) {
        let refused = violation::access_error_of(terminate);
        if self.phase != Phase::Ended {
            self.phase = Phase::Ended;
            self.reason = Some(Disconnected::PeerTerminated(terminate.code.to_string()));
            self.tx.drop_unsent();
            self.flush_work(refused);
        }
    }

    /// Completes all outstanding work, Reads first, then framed messages, the send queue and the receives. The error
    /// of the peer in `refused` goes to the oldest work of its kind, because messages are done in order.
    fn flush_work(&mut self, refused: Option<(Opcode, AccessError)>) {
        // References that were made for this connection alone end with it.
        self.table.endpoint_ended(self.id);
        let mut refused_read = match refused {
            Some((Opcode::ReadRequest, error)) => Some(WorkError::Remote(error)),
            _ => None,
        };
        let mut refused_write = match refused {
            Some((Opcode::Write, error)) => Some(WorkError::Remote(error)),
            _ => None,
        };
        for read in std::mem::take(&mut self.reads) {
            if let Some((id, _)) = read.work {
                let error = refused_read.take().unwrap_or(WorkError::Flushed);
                push_lean(&mut self.completions, failed(id, error, None));
            }
        }
        for (id, done, buffer) in self.tx.abandon_leaving() {
            let refused = if done == Done::Written {
                refused_write.take()
            } else {
                None
            };
            push_lean(
                &mut self.completions,
                failed(id, refused.unwrap_or(WorkError::Flushed), buffer),
            );
        }
        for work in std::mem::take(&mut self.tx.queue) {
            let (error, buffer) = match work.operation {
                Operation::Send { source, .. } => (WorkError::Flushed, buffer_of(source)),
                Operation::Write { source, .. } => (
                    refused_write.take().unwrap_or(WorkError::Flushed),
                    buffer_of(source),
                ),
                Operation::Read { .. } => (WorkError::Flushed, None),
                Operation::Ping | Operation::OpeningRead => continue,
            };
            push_lean(&mut self.completions, failed(work.id, error, buffer));
        }
        let current = self.rx.take_current();
        for (id, buffer) in current.into_iter().chain(self.receives.drain()) {
            push_lean(
                &mut self.completions,
                failed(id, WorkError::Flushed, Some(buffer)),
            );
        }
    }

    fn check_open(&self) -> Result<(), PostError> {
        match self.phase {
            Phase::Open => Ok(()),
            Phase::Closing | Phase::Ended => Err(PostError::Closed),
        }
    }

    fn check_room(&self) -> Result<(), PostError> {
        self.check_open()?;
        // Messages whose bytes wait in the batches need no place: the batches have a bound of their own, and nothing
        // leaves the queue while they are full (test `queues_are_bounded`).
        if self.tx.queue.len() + self.reads.len() >= self.send_queue_max {
            return Err(PostError::QueueFull);
        }
        Ok(())
    }
}

fn failed(id: WorkId, error: WorkError, buffer: Option<Buffer>) -> Completion {
    Completion {
        id,
        outcome: Err(error),
        buffer,
    }
}

fn buffer_of(source: Source) -> Option<Buffer> {
    match source {
        Source::Buffer { buffer, .. } => Some(buffer),
        Source::Span(_) | Source::File { .. } => None,
    }
}

fn check_source(source: &Source) -> Result<(), PostError> {
    match source {
        Source::Buffer { buffer, len } if *len as usize > buffer.len() => {
            Err(PostError::Invalid("the buffer is shorter than the message"))
        }
        Source::Span(span) => check_span(span).map(drop),
        Source::Buffer { .. } | Source::File { .. } => Ok(()),
    }
}

/// The region of a span, if the span lies within it and it is valid.
fn check_span(span: &Span) -> Result<&TableRegion, PostError> {
    let region =
        TableRegion::of(&*span.region).ok_or(PostError::Invalid("a region of another provider"))?;
    match region.check_local(span.offset, u64::from(span.len)) {
        Ok(()) => Ok(region),
        Err(_) => Err(PostError::Invalid("the span is not within a valid region")),
    }
}

/// The key to revoke, as the header carries it.
fn invalidate_stag(options: &SendOptions) -> Option<STag> {
    match options.invalidate {
        Invalidate::None => None,
        Invalidate::Key(key) => Some(STag(key.0)),
    }
}

/// The first numbers of the untagged queues.
const FIRST_MSNS: [Msn; QUEUES] = [Msn::FIRST; QUEUES];

/// Untagged queues that are counted: up to that of exceptions, with a gap at 3.
const QUEUES: usize = 5;

#[cfg(test)]
mod tests;
