//! Memory that a request moves in place of a long allocation of which it touches a short part.
//!
//! A device registers an allocation whole. Rows of an image that lie in memory of 18 MiB would pin all of that for each
//! row, which took a hundred times as long as TCP in the simulation of paper 001.

use super::parents::Parents;
use super::{Mover, Request, Share};
use gannet_fabric::Access;
use gannet_runtime::Buffer;
use gannet_wire::volume::Shape;

/// Memory in place of a request's allocations. Its first bytes are those of the request, one behind the other.
pub(super) struct StandIn {
    /// The request for this memory.
    pub(super) request: Request,
    pub(super) parents: Parents,
    pub(super) buffer: Buffer,
}

impl Mover {
    /// Memory in place of `buffers`; `None` where these are registered, or no share of the request needs registered
    /// memory.
    pub(super) fn stand_in(
        &self,
        shares: &[Share<'_>],
        request: &Request,
        access: Access,
        parents: &Parents,
        buffers: &[Buffer],
    ) -> Option<StandIn> {
        if !shares.iter().any(Share::is_direct) {
            return None;
        }
        let len = request.memory.len();
        let memory = Shape::contiguous(0, u32::try_from(len).ok()?).ok()?;
        let buffer = self.cache().stand_in(len, access, parents.of(buffers))?;
        Some(StandIn {
            parents: Parents::new(std::slice::from_ref(&buffer), &memory)?,
            request: Request {
                memory,
                ..request.clone()
            },
            buffer,
        })
    }
}

impl StandIn {
    /// Copies the bytes `memory` of the allocations here.
    pub(super) fn gather(&mut self, memory: &Shape, parents: &Parents, buffers: &[Buffer]) {
        let mut at = 0;
        for piece in memory.pieces() {
            let (parent, range) = parents.range(piece.offset, piece.len);
            let own = at..at + range.len();
            at = own.end;
            let from = buffers.get(parent).and_then(|buffer| buffer.get(range));
            // `Parents::new` has checked that every piece lies in a buffer.
            if let (Some(from), Some(to)) = (from, self.buffer.get_mut(own)) {
                to.copy_from_slice(from);
            }
        }
    }

    /// Copies the bytes here to the bytes `memory` of the allocations.
    pub(super) fn scatter(&self, memory: &Shape, parents: &Parents, buffers: &mut [Buffer]) {
        let mut at = 0;
        for piece in memory.pieces() {
            let (parent, range) = parents.range(piece.offset, piece.len);
            let own = at..at + range.len();
            at = own.end;
            let to = (buffers.get_mut(parent)).and_then(|buffer| buffer.get_mut(range));
            if let (Some(from), Some(to)) = (self.buffer.get(own), to) {
                to.copy_from_slice(from);
            }
        }
    }
}
