//! The Read-Read design: replies that the peer reads itself, until it sends RDMA_DONE.

use super::reply::Plan;
use super::{Connection, End};
use crate::counters::Counters;
use crate::limits::EXPOSED_SHARE_MAX;
use crate::service::{Payload, Reply, Service};
use gannet_fabric::registration::{Registered, Strategy};
use gannet_fabric::{Access, RegisterError, Scope};
use gannet_runtime::{Buffer, Instant, push_lean};
use gannet_wire::rpcrdma::{ChunkLists, Segment};
use gannet_wire::xdr::pad_len;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

/// Replies of a connection that the peer may read, oldest first.
#[derive(Default)]
pub(super) struct Exposed {
    replies: VecDeque<Exposure>,
    bytes: usize,
}

/// A reply that the peer may read. Dropping it revokes the key.
struct Exposure {
    xid: u32,
    bytes: usize,
    since: Instant,
    counters: Arc<Counters>,
    _memory: Registered,
}

impl Drop for Exposure {
    fn drop(&mut self) {
        self.counters.exposed.lower(self.bytes as u64);
    }
}

impl Exposed {
    pub(super) fn is_empty(&self) -> bool {
        self.replies.is_empty()
    }

    /// Bytes of memory that the peer may read.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn len(&self) -> u32 {
        u32::try_from(self.replies.len()).unwrap_or(u32::MAX)
    }

    /// The time since which the peer has had its oldest reply to read. A peer that never sends RDMA_DONE is ended by
    /// it (test `a_peer_that_never_says_done_pins_little_and_is_cut`).
    pub(super) fn oldest(&self) -> Option<Instant> {
        self.replies.front().map(|reply| reply.since)
    }
}

/// The part of a reply that the peer reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// The payload; the rest is sent.
    Payload,
    /// All of it: a long reply.
    Whole,
}

/// Decides which part of a reply that fits no Send the peer reads; `None` when its Read list fits no Send either.
pub(super) fn part_of(reply: &Reply, send_max: usize, strategy: &dyn Strategy) -> Option<Part> {
    let header = |len| super::reply::FIXED_LEN + 12 + 24 * strategy.segments(len);
    let stream = reply.header_len() + reply.stream_len();
    let payload = reply.payload.as_ref().map_or(0, |(it, _)| it.len());
    let rest = stream - payload - pad_len(payload);
    if payload > 0 && header(payload) + rest <= send_max {
        return Some(Part::Payload);
    }
    (header(stream) <= send_max).then_some(Part::Whole)
}

impl<S: Service> Connection<S> {
    /// True when `len` more bytes may be exposed now.
    fn may_expose(&mut self, len: usize) -> bool {
        // The first exposed reply needs no check: its call has waited for that room before it was executed.
        self.exposed.is_empty()
            || (self.exposed.bytes + len <= EXPOSED_SHARE_MAX && self.has_room_for(len))
    }

    /// Exposes a part of the reply to the call `xid`, and names it in `lists`.
    pub(super) fn expose(
        &mut self,
        xid: u32,
        reply: &mut Reply,
        part: Part,
        lists: &mut ChunkLists,
    ) -> Result<(), RegisterError> {
        let (position, mut buffer, len) = match part {
            Part::Payload => {
                let header_len = reply.header_len();
                let Some((payload, position)) = reply.payload.take() else {
                    return Ok(());
                };
                let (buffer, len) = in_memory(payload);
                (header_len + position, buffer, len)
            }
            Part::Whole => {
                let stream = super::reply::stream(xid, reply, false);
                let len = stream.len();
                (0, Buffer::from_vec(stream), len)
            }
        };
        // All of the buffer is exposed, and it may hold bytes of another client (test
        // `the_last_user_of_a_slot_left_nothing_for_the_next_peer`).
        if let Some(rest) = buffer.get_mut(len..) {
            rest.fill(0);
        }
        let bytes = buffer.len();
        let scope = Scope::Endpoint(self.endpoint.id());
        let strategy = Rc::clone(self.memory.path.strategy());
        let memory = strategy.register(buffer, Access::RemoteRead, scope)?;
        // Positions and lengths are far below 2^32: see RECORD_MAX.
        let position = u32::try_from(position).unwrap_or(u32::MAX);
        for (address, length) in memory.segments(u32::try_from(len).unwrap_or(u32::MAX)) {
            let segment = Segment {
                handle: address.key.0,
                length,
                offset: address.offset,
            };
            lists.push_read(position, segment);
        }
        let counters = Arc::clone(&self.core.counters);
        counters.exposures.add(1);
        counters.bytes_out.add(len as u64);
        self.client.sent(len as u64);
        counters.exposed.raise(bytes as u64);
        self.exposed.bytes += bytes;
        push_lean(
            &mut self.exposed.replies,
            Exposure {
                xid,
                bytes,
                since: self.deadlines.now(),
                counters,
                _memory: memory,
            },
        );
        Ok(())
    }

    /// Revokes the reply to the call `xid`, which the peer has read. Ignores an RDMA_DONE for any other XID.
    pub(super) fn done(&mut self, xid: u32) {
        let replies = &mut self.exposed.replies;
        let place = replies.iter().position(|reply| reply.xid == xid);
        match place.and_then(|place| replies.remove(place)) {
            Some(reply) => {
                self.exposed.bytes -= reply.bytes;
                self.moved += reply.bytes as u64;
            }
            None => tracing::debug!(peer = %self.peer, xid, "done with no reply"),
        }
    }

    /// Goes on with finished calls that waited until the peer released others.
    pub(super) fn expose_more(&mut self) -> Result<(), End> {
        // In their order: a long reply would otherwise wait for ever while short ones pass it.
        while let Some((job, part)) = self.unexposed.pop_front() {
            if !self.may_expose(exposed_len(&job.reply, part)) {
                self.unexposed.push_front((job, part));
                break;
            }
            self.send_off(job, Plan::exposing(part))?;
        }
        Ok(())
    }
}

/// Bytes of memory that exposing a part of a reply takes.
fn exposed_len(reply: &Reply, part: Part) -> usize {
    match (part, &reply.payload) {
        (Part::Payload, Some((Payload::Buffer { buffer, .. }, _))) => buffer.len(),
        (Part::Payload, Some((payload, _))) => payload.len(),
        (Part::Whole, _) | (_, None) => reply.header_len() + reply.stream_len(),
    }
}

/// The memory of a payload, and how much of it is the payload.
fn in_memory(payload: Payload) -> (Buffer, usize) {
    let len = payload.len();
    match payload {
        Payload::Buffer { buffer, .. } => (buffer, len),
        Payload::Bytes(bytes) => (Buffer::from_vec(bytes.into()), len),
        // Files were read into memory before; see `Connection::finish`.
        Payload::File(_) => (Buffer::zeroed(len), len),
    }
}
