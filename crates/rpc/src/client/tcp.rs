//! One TCP connection of a client: calls leave in batches, replies come in any order.
//!
//! Small replies are taken out of the stage; a large one whose call has a sink is received straight into it. Replies to
//! calls of the server leave between the client's own calls ([`Backward`]).

use super::backward::Backward;
use super::timer::ReplyTimer;
use super::types::Sink;
use super::{Lost, Shared};
use crate::calls::{check_reply, is_call, opaque_len};
use crate::limits::{CLIENT_STAGE_LEN, OUTGOING_BYTES_MAX};
use crate::outgoing::{Outgoing, Progress};
use crate::records::{Event, Placing, Records, State};
use crate::rounds;
use crate::service::Transport;
use gannet_runtime::{Buffer, Stream};
use gannet_wire::rpc::RECORD_MARK_LEN;
use std::io;
use std::rc::Rc;
use std::task::Context;

/// Makes calls over `stream` until it ends.
pub(super) async fn run(shared: &Rc<Shared>, stream: Stream) -> Lost {
    let mut link = Link::new(Rc::clone(shared), stream);
    let lost = rounds::run(|context| link.round(context)).await;
    // Before the call is sent again: it would have no sink on the next connection.
    link.give_sink_back();
    if matches!(lost, Lost::Closed) {
        link.stream.shutdown_write();
    } else {
        link.stream.abort();
    }
    lost
}

struct Link {
    shared: Rc<Shared>,
    stream: Stream,
    outgoing: Outgoing,
    backward: Backward,
    blocked: bool,
    records: Records<Awaited>,
    stage: Buffer,
    timer: ReplyTimer,
}

/// The call whose opaque is being received into its sink.
struct Awaited {
    xid: u32,
    locate: fn(&[u8]) -> Option<usize>,
}

fn protocol(error: impl ToString) -> Lost {
    Lost::Protocol(error.to_string())
}

impl Link {
    fn new(shared: Rc<Shared>, stream: Stream) -> Link {
        Link {
            timer: ReplyTimer::new(&shared),
            backward: Backward::new(&shared, Transport::Tcp, stream.peer_address()),
            shared,
            stream,
            outgoing: Outgoing::default(),
            blocked: false,
            records: Records::new(),
            stage: Buffer::zeroed(CLIENT_STAGE_LEN),
        }
    }

    fn round(&mut self, context: &mut Context<'_>) -> Result<bool, Lost> {
        if self.shared.calls.is_closed() {
            return Err(Lost::Closed);
        }
        let received = self.receive(context)?;
        // Before the calls are queued: one that is made after that sets the notification again.
        let woken = self.shared.calls.work.poll_notified(context).is_ready();
        let sent = self.send(context)?;
        if received || sent || woken {
            return Ok(true);
        }
        self.timer.poll(&self.shared, context)?;
        Ok(false)
    }

    fn send(&mut self, context: &mut Context<'_>) -> Result<bool, Lost> {
        self.queue_calls();
        if self.outgoing.is_empty() {
            return Ok(false);
        }
        if self.blocked && self.stream.poll_writable(context)?.is_pending() {
            return Ok(false);
        }
        // Calls have no file ranges, so nothing passes through scratch memory.
        let progress = self.outgoing.flush(&*self.stream, &mut [])?;
        self.blocked = progress == Progress::Blocked;
        // True also when another round must register with the socket, or queue calls that the bound held back.
        Ok(self.blocked || self.shared.calls.pending.borrow().has_unsent())
    }

    /// Moves calls from the table to the outgoing bytes, as many as the bound allows, and replies to the server's.
    fn queue_calls(&mut self) {
        while let Some(mut job) = self.backward.next_reply() {
            self.outgoing.push_reply(job.call.xid, &mut job.reply);
        }
        let shared = &self.shared;
        let mut pending = shared.calls.pending.borrow_mut();
        if pending.has_unsent() {
            let (credential, patience) = (
                &shared.config.credential,
                shared.patience.get().reply_timeout,
            );
            let now = shared.calls.runtime.now();
            pending.queue(&mut self.outgoing, credential, now, patience, usize::MAX);
        }
    }

    fn receive(&mut self, context: &mut Context<'_>) -> Result<bool, Lost> {
        if self.stream.poll_readable(context)?.is_pending() {
            return Ok(false);
        }
        let mut stage = std::mem::take(&mut self.stage);
        let received = self.receive_into(&mut stage);
        self.stage = stage;
        received
    }

    fn receive_into(&mut self, stage: &mut [u8]) -> Result<bool, Lost> {
        let kept = self.records.partial.len();
        if let Some(target) = stage.get_mut(..kept) {
            target.copy_from_slice(&self.records.partial);
        }
        let staged = match self.records.read(&*self.stream, stage, kept, false) {
            Ok(None) => return Err(Lost::Peer),
            Ok(Some(arrived)) => arrived.staged,
            // Not readable after all: another round must wait for it anew, because only that registers the waker.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
            Err(error) => return Err(error.into()),
        };
        let mut input = stage.get(..kept + staged).unwrap_or(stage);
        self.records.partial.clear();
        while let Some(used) = self.step(input)? {
            input = input.get(used..).unwrap_or(&[]);
        }
        self.records.partial.extend_from_slice(input);
        Ok(true)
    }

    /// Takes one record, or one part of a long record, off `input`; returns its bytes, `None` when more are needed.
    fn step(&mut self, input: &[u8]) -> Result<Option<usize>, Lost> {
        let Some((used, event)) = self.records.next(input).map_err(protocol)? else {
            return Ok(None);
        };
        match event {
            Event::More => {}
            Event::Small(record) => {
                self.records.took_small();
                self.take_message(record)?;
            }
            Event::Assembled(message) => self.take_message(&message)?,
            Event::Placed(placing) => {
                let sink = Some((placing.buffer, placing.len));
                let mut pending = self.shared.calls.pending.borrow_mut();
                pending.answer(placing.owner.xid, placing.around, sink);
            }
            Event::Large { length, body } => match self.begin_large(length, body) {
                Some((placing, used)) => {
                    self.records.state = State::Placing(Box::new(placing));
                    return Ok(Some(RECORD_MARK_LEN + used));
                }
                None => self.records.state = State::Assembling(Vec::new()),
            },
        }
        Ok(Some(used))
    }

    /// Finds the sink of the reply of `length` bytes that begins with `body`.
    fn begin_large(&self, length: usize, body: &[u8]) -> Option<(Placing<Awaited>, usize)> {
        let xid = u32::from_be_bytes(*body.first_chunk::<4>()?);
        let mut pending = self.shared.calls.pending.borrow_mut();
        let entry = pending.get_mut(xid)?;
        let results_at = check_reply(body).ok()?;
        let sink = entry.sink.as_ref()?;
        let prefix = body.get(results_at..)?;
        let results = prefix.get(..(sink.locate)(prefix)?)?;
        let len = opaque_len(results).filter(|len| *len <= sink.buffer.len())?;
        let used = results_at + results.len();
        let tail = Placing::<Awaited>::tail_of(length, used, len)?;
        let results = results.to_vec();
        let Sink { buffer, locate } = entry.sink.take()?;
        let owner = Awaited { xid, locate };
        Some((Placing::new(owner, buffer, len, results, tail), used))
    }

    /// Takes a complete message: a reply ends its call, a call of the server begins.
    fn take_message(&mut self, message: &[u8]) -> Result<(), Lost> {
        if is_call(message) {
            // A server that calls and takes no replies would make the outgoing bytes grow without end.
            let is_full = self.outgoing.len() >= OUTGOING_BYTES_MAX;
            let begun = (!is_full).then(|| self.backward.begin(message));
            return begun.unwrap_or_else(|| Err(protocol("it calls, and takes no replies")));
        }
        let mut pending = self.shared.calls.pending.borrow_mut();
        pending.take_reply(message).map_err(protocol)
    }

    /// Gives the sink of a reply that the end of the connection cut short back to its call, which is sent again.
    fn give_sink_back(&mut self) {
        let state = std::mem::replace(&mut self.records.state, State::Between);
        if let State::Placing(placing) = state {
            let (Awaited { xid, locate }, buffer) = (placing.owner, placing.buffer);
            if let Some(entry) = self.shared.calls.pending.borrow_mut().get_mut(xid) {
                entry.sink = Some(Sink { buffer, locate });
            }
        }
    }
}
