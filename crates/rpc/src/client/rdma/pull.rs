//! The Read-Read design: the server's reply names memory of the server, which the client reads and then releases with
//! RDMA_DONE.

use super::super::types::{CallError, Sink};
use super::withdrawal::Late;
use super::{HEADER_LEN, Link, Lost, Sent, take_results};
use crate::calls::{Entry, check_reply};
use crate::chunks::{ReadChunk, read_chunks, unreduce};
use crate::limits::{CREDITS, RECORD_MAX};
use gannet_fabric::registration::Registered;
use gannet_fabric::{Access, RemoteAddress, RemoteKey, Revocation, WorkId};
use gannet_runtime::Buffer;
use gannet_wire::rpcrdma::{ChunkLists, RDMA_VERSION, TransportHeader, TransportProcedure};
use gannet_wire::xdr::Encoder;
use std::collections::VecDeque;
use std::ops::Range;

/// Marks the work of a Read; the call's XID is in its low half.
const PULL: u64 = 1 << 32;

/// The Reads of a connection.
#[derive(Default)]
pub(super) struct Pulls {
    /// Calls of which Reads are still to be posted, in the order of their replies.
    waiting: VecDeque<u32>,
    /// Reads in the send queue.
    posted: usize,
}

/// The RDMA Reads of an exposed reply.
pub(super) struct Pull {
    memory: Registered,
    /// Reads to be posted: offset in `memory`, length, address in the server's memory.
    unposted: VecDeque<(u64, u32, RemoteAddress)>,
    /// Reads that are not done.
    left: usize,
    pulled: Pulled,
}

/// An exposed reply that is read: everything but the memory itself.
pub(super) struct Pulled {
    /// Bytes that were read.
    len: usize,
    /// The message that came with the reply.
    message: Vec<u8>,
    home: Home,
}

/// As [`Sink::locate`].
pub(super) type Locate = fn(&[u8]) -> Option<usize>;

/// The place of the bytes in the reply.
enum Home {
    /// The memory is the caller's sink.
    Sink(Locate),
    /// The memory is all of the message.
    Whole,
    /// The memory holds several chunks: their positions in the message and their ranges in the memory.
    Parts(Vec<(usize, Range<usize>)>),
}

impl Pull {
    /// Releases the caller's sink after the connection has ended.
    pub(super) fn give_up(self) -> Option<(Revocation<Option<Buffer>>, Locate)> {
        match self.pulled.home {
            Home::Sink(locate) => Some((self.memory.release(0), locate)),
            Home::Whole | Home::Parts(_) => None,
        }
    }
}

impl Link {
    /// The Reads of the reply to the call `xid`, once it is here.
    pub(super) fn pull_of(&self, xid: u32) -> Option<&Pull> {
        self.sent.get(&xid)?.as_ref()?.pull.as_ref()
    }

    /// Begins to read the exposed reply to the call `xid`.
    pub(super) fn pull(
        &mut self,
        xid: u32,
        lists: &ChunkLists,
        message: &[u8],
        long: bool,
    ) -> Result<(), Lost> {
        let mut pending = self.shared.calls.pending.borrow_mut();
        let Some(entry) = pending.get_mut(xid) else {
            return Ok(());
        };
        let pull = match self.prepare_pull(entry, lists, message, long) {
            Ok(pull) => pull,
            Err(error) => {
                pending.finish(xid, Err(error));
                return self.post_done(xid);
            }
        };
        drop(pending);
        let sent = Sent {
            pull: Some(pull),
            ..Sent::default()
        };
        self.sent.insert(xid, sent.boxed());
        self.pulls.waiting.push_back(xid);
        self.post_pulls()
    }

    /// Registers memory for an exposed reply and lists its Reads.
    ///
    /// # Errors
    /// [`CallError::Malformed`] for a Read list that describes no reply, [`CallError::Memory`] when the memory cannot
    /// be registered.
    fn prepare_pull(
        &self,
        entry: &mut Entry,
        lists: &ChunkLists,
        message: &[u8],
        long: bool,
    ) -> Result<Pull, CallError> {
        let malformed = CallError::Malformed("read list in a reply");
        let Some(chunks) = read_chunks(lists.reads(), RECORD_MAX) else {
            return Err(malformed);
        };
        let starts_at_zero = chunks.first().is_some_and(|chunk| chunk.position == 0);
        if starts_at_zero != long || (long && chunks.len() != 1) {
            return Err(malformed);
        }
        let len = chunks.iter().map(|chunk| chunk.len).sum();
        let sink = entry
            .sink
            .take_if(|sink| !long && fits_sink(sink, &chunks, message));
        let (buffer, home) = match sink {
            Some(Sink { buffer, locate }) => (buffer, Home::Sink(locate)),
            None if long => (Buffer::zeroed(len), Home::Whole),
            None => (Buffer::zeroed(len), Home::Parts(places(&chunks, lists))),
        };
        let mut unposted = VecDeque::new();
        let mut offset = 0;
        for read in lists.reads() {
            let segment = read.segment;
            let source = RemoteAddress {
                key: RemoteKey(segment.handle),
                offset: segment.offset,
            };
            if segment.length > 0 {
                unposted.push_back((offset, segment.length, source));
            }
            offset += u64::from(segment.length);
        }
        let memory = self.register(buffer, Access::Local);
        Ok(Pull {
            memory: memory.map_err(|_| CallError::Memory)?,
            left: unposted.len(),
            unposted,
            pulled: Pulled {
                len,
                message: message.to_vec(),
                home,
            },
        })
    }

    /// Posts Reads up to half of the send queue; the other half is for calls. The endpoint keeps to the agreed depth.
    pub(super) fn post_pulls(&mut self) -> Result<(), Lost> {
        let reads_max = (self.endpoint.attributes().send_queue_max as usize / 2).max(1);
        while let Some(xid) = self.pulls.waiting.front().copied() {
            let sent = self.sent.get_mut(&xid).and_then(|sent| sent.as_mut());
            let Some(pull) = sent.and_then(|sent| sent.pull.as_mut()) else {
                self.pulls.waiting.pop_front();
                continue;
            };
            while self.pulls.posted < reads_max
                && let Some((offset, len, source)) = pull.unposted.pop_front()
            {
                let sink = pull.memory.span(offset, len);
                let id = WorkId(PULL | u64::from(xid));
                self.endpoint.post_read(id, sink, source)?;
                self.pulls.posted += 1;
            }
            if !pull.unposted.is_empty() {
                break;
            }
            let nothing_left = pull.left == 0;
            self.pulls.waiting.pop_front();
            if nothing_left {
                self.finish_pull(xid)?;
            }
        }
        Ok(())
    }

    /// Notes that one Read is done.
    pub(super) fn pulled(&mut self, id: WorkId) -> Result<(), Lost> {
        let xid = (id.0 & u64::from(u32::MAX)) as u32;
        self.pulls.posted = self.pulls.posted.saturating_sub(1);
        let sent = self.sent.get_mut(&xid).and_then(|sent| sent.as_mut());
        let Some(pull) = sent.and_then(|sent| sent.pull.as_mut()) else {
            return Ok(());
        };
        pull.left = pull.left.saturating_sub(1);
        if pull.left == 0 {
            self.finish_pull(xid)?;
        }
        Ok(())
    }

    /// Deregisters the memory of a reply that is read.
    fn finish_pull(&mut self, xid: u32) -> Result<(), Lost> {
        let sent = self.sent.remove(&xid).flatten();
        let Some(pull) = sent.and_then(|sent| sent.pull) else {
            return Ok(());
        };
        let Pull { memory, pulled, .. } = pull;
        match memory.release(pulled.len).now() {
            Ok(memory) => self.conclude_pull(xid, memory, pulled),
            Err(coming) => {
                self.late.push(Late::Pulled {
                    xid,
                    coming,
                    pulled,
                });
                Ok(())
            }
        }
    }

    /// Ends the call of a reply that is read and deregistered, and releases the server's memory.
    pub(super) fn conclude_pull(
        &mut self,
        xid: u32,
        memory: Option<Buffer>,
        pulled: Pulled,
    ) -> Result<(), Lost> {
        let mut pending = self.shared.calls.pending.borrow_mut();
        if let Some(entry) = pending.get_mut(xid) {
            match pulled.results(memory, entry) {
                Ok((results, sink)) => pending.answer(xid, results, sink),
                Err(error) => pending.finish(xid, Err(error)),
            }
        }
        // Last: if it cannot be sent, the call is answered nevertheless.
        self.post_done(xid)
    }

    /// Sends RDMA_DONE for the reply to the call `xid`.
    fn post_done(&self, xid: u32) -> Result<(), Lost> {
        let header = TransportHeader {
            xid,
            version: RDMA_VERSION,
            credits: CREDITS,
            procedure: TransportProcedure::Done,
        };
        let mut bytes = Vec::with_capacity(HEADER_LEN);
        header.emit(&mut Encoder::new(&mut bytes), &ChunkLists::new());
        self.post(&bytes)
    }
}

impl Pulled {
    /// The call's results, now that all bytes are here, in `memory`.
    fn results(
        self,
        memory: Option<Buffer>,
        entry: &mut Entry,
    ) -> Result<super::Results, CallError> {
        let malformed = CallError::Malformed("read list in a reply");
        let (message, len) = (self.message, self.len);
        let buffer = memory.ok_or(CallError::Memory)?;
        match self.home {
            Home::Sink(locate) => {
                entry.sink = Some(Sink { buffer, locate });
                take_results(entry, &message, len)
            }
            Home::Whole => take_results(entry, &buffer, 0),
            Home::Parts(places) => {
                let bytes = |(position, place): &(usize, Range<usize>)| {
                    Some((*position, buffer.get(place.clone())?))
                };
                let parts: Option<Vec<_>> = places.iter().map(bytes).collect();
                let message = parts.and_then(|parts| unreduce(&message, &parts));
                take_results(entry, &message.ok_or(malformed)?, 0)
            }
        }
    }
}

/// True when the one chunk of a reply is the opaque that `sink` waits for.
fn fits_sink(sink: &Sink, chunks: &[ReadChunk], message: &[u8]) -> bool {
    let [chunk] = chunks else {
        return false;
    };
    let located = check_reply(message).ok().and_then(|results_at| {
        let results = message.get(results_at..)?;
        Some(results_at + (sink.locate)(results)?)
    });
    located == Some(chunk.position) && chunk.len <= sink.buffer.len()
}

/// Position and place in the memory of each chunk, whose segments are read one behind the other.
fn places(chunks: &[ReadChunk], lists: &ChunkLists) -> Vec<(usize, Range<usize>)> {
    let start_of = |first: usize| {
        let before = lists.reads().iter().take(first);
        before
            .map(|read| read.segment.length as usize)
            .sum::<usize>()
    };
    let place = |chunk: &ReadChunk| {
        let start = start_of(chunk.first);
        (chunk.position, start..start + chunk.len)
    };
    chunks.iter().map(place).collect()
}
