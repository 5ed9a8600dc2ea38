//! One TCP connection of a client: calls leave in batches, replies come in any order.
//!
//! The mirror image of the server's connection: small replies are taken out of the stage; a large one whose call
//! has a sink is received straight into it. Calls of the server are answered among our own ([`Backward`]).

use super::backward::Backward;
use super::timer::ReplyTimer;
use super::types::Sink;
use super::{Lost, Shared};
use crate::calls::{check_reply, opaque_len, xid_of};
use crate::limits::{
    CLIENT_STAGE_LEN, FRAGMENTS_MAX, HEADER_PREFIX_MAX, LARGE_RECORD, LOOKAHEAD_LEN,
    OUTGOING_BYTES_MAX, RECORD_MAX,
};
use crate::outgoing::{Outgoing, Progress};
use crate::service::Transport;
use gannet_runtime::{Buffer, Stream};
use gannet_wire::rpc::{RECORD_MARK_LEN, RecordEvent, RecordMark, RecordReader, WholeRecord};
use gannet_wire::xdr::pad_len;
use std::io::{self, IoSliceMut};
use std::rc::Rc;
use std::task::{Context, Poll};

/// Rounds of receiving and sending before other tasks get their turn.
const ROUNDS_MAX: usize = 4;
/// Small records after which a connection that received a large one is read in full stages again.
const LARGE_MEMORY: u32 = 32;
/// Results behind an opaque that is received apart.
const TAIL_MAX: usize = 1024;

/// Makes calls over `stream` until it ends.
pub(super) async fn run(shared: &Rc<Shared>, stream: Stream) -> Lost {
    let mut link = Link::new(Rc::clone(shared), stream);
    let lost = std::future::poll_fn(|context| link.poll(context)).await;
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
    reader: RecordReader,
    state: State,
    stage: Buffer,
    /// The beginning of a record that is not complete.
    partial: Vec<u8>,
    large: u32,
    timer: ReplyTimer,
}

enum State {
    Between,
    Assembling(Vec<u8>),
    Placing(Placing),
}

/// A reply whose opaque is being received into its sink.
struct Placing {
    xid: u32,
    results: Vec<u8>,
    sink: Sink,
    len: usize,
    filled: usize,
    pad: usize,
    tail: usize,
}

impl Placing {
    fn feed(&mut self, input: &[u8]) -> usize {
        let mut used = 0;
        if let Some(target) = self.sink.buffer.get_mut(self.filled..self.len) {
            let count = target.len().min(input.len());
            let (target, _) = target.split_at_mut(count);
            target.copy_from_slice(input.get(..count).unwrap_or(&[]));
            self.filled += count;
            used += count;
        }
        let pad = self.pad.min(input.len() - used);
        self.pad -= pad;
        used += pad;
        let (_, rest) = input.split_at(used);
        let (tail, _) = rest.split_at(self.tail.min(rest.len()));
        self.results.extend_from_slice(tail);
        self.tail -= tail.len();
        used + tail.len()
    }

    fn is_complete(&self) -> bool {
        self.filled == self.len && self.pad == 0 && self.tail == 0
    }
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
            // Far below 2^31.
            reader: RecordReader::new(u32::try_from(RECORD_MAX).unwrap_or(u32::MAX), FRAGMENTS_MAX),
            state: State::Between,
            stage: Buffer::zeroed(CLIENT_STAGE_LEN),
            partial: Vec::new(),
            large: 0,
        }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Lost> {
        for _ in 0..ROUNDS_MAX {
            if self.shared.calls.is_closed() {
                return Poll::Ready(Lost::Closed);
            }
            match self.round(context) {
                Ok(true) => {}
                Ok(false) => return Poll::Pending,
                Err(lost) => return Poll::Ready(lost),
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }

    fn round(&mut self, context: &mut Context<'_>) -> Result<bool, Lost> {
        let received = self.receive(context)?;
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
        // Once more around: to wait for the socket, or for what was queued meanwhile.
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
            let (credential, patience) = (&shared.config.credential, shared.config.reply_timeout);
            let now = shared.calls.runtime.now();
            pending.queue(&mut self.outgoing, credential, (now, patience), usize::MAX);
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
        let kept = self.partial.len();
        if let Some(target) = stage.get_mut(..kept) {
            target.copy_from_slice(&self.partial);
        }
        let staged = match self.read(stage, kept) {
            Ok(None) => return Err(Lost::Peer),
            Ok(Some(staged)) => staged,
            // Not readable after all: once more around to wait for it anew, or nobody will wake us.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
            Err(error) => return Err(error.into()),
        };
        let mut input = stage.get(..kept + staged).unwrap_or(stage);
        self.partial.clear();
        while let Some(used) = self.step(input)? {
            input = input.get(used..).unwrap_or(&[]);
        }
        self.partial.extend_from_slice(input);
        Ok(true)
    }

    /// One system call; says how many bytes came into the stage, `None` at the end of the stream.
    fn read(&mut self, stage: &mut [u8], kept: usize) -> io::Result<Option<usize>> {
        if let State::Placing(placing) = &mut self.state
            && placing.filled < placing.len
        {
            let ahead = stage.get_mut(..LOOKAHEAD_LEN).unwrap_or(&mut []);
            let target = placing.sink.buffer.get_mut(placing.filled..placing.len);
            let target = target.unwrap_or(&mut []);
            let wanted = target.len();
            let mut slices = [IoSliceMut::new(target), IoSliceMut::new(ahead)];
            let count = self.stream.try_read_vectored(&mut slices)?;
            let placed = count.min(wanted);
            placing.filled += placed;
            return Ok((count > 0).then_some(count - placed));
        }
        // What is kept beyond that is part of a small record: its rest comes in one go.
        let window = if self.large > 0 && kept < LOOKAHEAD_LEN {
            LOOKAHEAD_LEN
        } else {
            stage.len()
        };
        let count = self
            .stream
            .try_read(stage.get_mut(kept..window).unwrap_or(&mut []))?;
        Ok((count > 0).then_some(count))
    }

    /// Takes one bite of `input`; `None` when there is nothing to bite off.
    fn step(&mut self, input: &[u8]) -> Result<Option<usize>, Lost> {
        match &mut self.state {
            State::Between => {}
            State::Assembling(message) => {
                let (event, used) = self.reader.next(input).map_err(protocol)?;
                match event {
                    RecordEvent::NeedMore => return Ok(None),
                    RecordEvent::Fragment(_) => {}
                    RecordEvent::Piece { bytes, ends } => {
                        message.extend_from_slice(bytes);
                        if ends {
                            let message = std::mem::take(message);
                            self.state = State::Between;
                            self.take_message(&message)?;
                        }
                    }
                }
                return Ok(Some(used));
            }
            State::Placing(placing) => {
                let used = placing.feed(input);
                if !placing.is_complete() {
                    return Ok((used > 0).then_some(used));
                }
                if let State::Placing(placing) = std::mem::replace(&mut self.state, State::Between)
                {
                    let Placing {
                        xid,
                        results,
                        sink,
                        len,
                        ..
                    } = placing;
                    let sink = Some((sink.buffer, len));
                    self.shared
                        .calls
                        .pending
                        .borrow_mut()
                        .answer(xid, results, sink);
                }
                return Ok(Some(used));
            }
        }
        if let Some(WholeRecord { record, rest }) = self.reader.whole(input).map_err(protocol)?
            && record.len() <= LARGE_RECORD
        {
            self.large = self.large.saturating_sub(1);
            self.take_message(record)?;
            return Ok(Some(input.len() - rest.len()));
        }
        self.step_into_record(input)
    }

    fn step_into_record(&mut self, input: &[u8]) -> Result<Option<usize>, Lost> {
        let Some((mark, body)) = input.split_first_chunk::<RECORD_MARK_LEN>() else {
            return Ok(None);
        };
        let mark = RecordMark::from_bytes(*mark);
        if !mark.last {
            self.state = State::Assembling(Vec::new());
            return Ok(Some(0));
        }
        if mark.length as usize <= LARGE_RECORD {
            return Ok(None);
        }
        self.large = LARGE_MEMORY;
        if body.len() < HEADER_PREFIX_MAX {
            return Ok(None);
        }
        if let Some((placing, used)) = self.begin_large(mark.length as usize, body) {
            self.state = State::Placing(placing);
            return Ok(Some(RECORD_MARK_LEN + used));
        }
        self.state = State::Assembling(Vec::new());
        Ok(Some(0))
    }

    /// Finds the sink of the reply of `length` bytes that begins with `body`.
    fn begin_large(&self, length: usize, body: &[u8]) -> Option<(Placing, usize)> {
        let xid = u32::from_be_bytes(*body.first_chunk::<4>()?);
        let mut pending = self.shared.calls.pending.borrow_mut();
        let entry = pending.get_mut(xid)?;
        let results_at = check_reply(body).ok()?;
        let sink = entry.sink.as_ref()?;
        let prefix = body.get(results_at..)?;
        let results = prefix.get(..(sink.locate)(prefix)?)?;
        let len = opaque_len(results).filter(|len| *len <= sink.buffer.len())?;
        let used = results_at + results.len();
        let pad = pad_len(len);
        let tail = length
            .checked_sub(used + len + pad)
            .filter(|tail| *tail <= TAIL_MAX)?;
        let results = results.to_vec();
        let sink = entry.sink.take()?;
        Some((
            Placing {
                xid,
                results,
                sink,
                len,
                filled: 0,
                pad,
                tail,
            },
            used,
        ))
    }

    /// Ends the call that a complete reply belongs to; or begins the call that it is.
    fn take_message(&mut self, message: &[u8]) -> Result<(), Lost> {
        if let Some((_, true)) = xid_of(message) {
            // Replies that the server does not take are not made without end.
            let is_full = self.outgoing.len() >= OUTGOING_BYTES_MAX;
            let begun = (!is_full).then(|| self.backward.begin(message));
            return begun.unwrap_or_else(|| Err(protocol("it calls, and takes no replies")));
        }
        let mut pending = self.shared.calls.pending.borrow_mut();
        pending.take_reply(message).map_err(protocol)
    }

    /// A reply cut short: its sink goes back to the call, which will be sent again.
    fn give_sink_back(&mut self) {
        if let State::Placing(placing) = std::mem::replace(&mut self.state, State::Between)
            && let Some(entry) = self.shared.calls.pending.borrow_mut().get_mut(placing.xid)
        {
            entry.sink = Some(placing.sink);
        }
    }
}
