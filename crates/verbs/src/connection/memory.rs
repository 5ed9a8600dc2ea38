//! The memory of work: where its bytes are, and who keeps them until it is done.

use super::Connection;
use crate::files::{Arriving, FileBytes, SourceRange};
use crate::region::{Entry, RegionUse};
use crate::sys::{Piece, Registration, Slot};
use gannet_fabric::{PostError, Signal, Source, Span};
use gannet_runtime::Buffer;
use std::rc::Rc;

/// The memory of a piece of work, and its owners. A registration is dropped before the buffer that it pins.
#[derive(Default)]
pub(super) struct Memory {
    pub(super) piece: Option<Piece>,
    pub(super) inline: bool,
    pub(super) slot: Option<Slot>,
    pub(super) registration: Option<Registration>,
    pub(super) region: Option<RegionUse>,
    /// The memory whose window is bound or unbound.
    pub(super) entry: Option<Rc<Entry>>,
    /// Bytes of a file, while they are not there.
    pub(super) arriving: Option<Arriving>,
    pub(super) file: Option<FileBytes>,
    pub(super) file_len: u32,
    pub(super) buffer: Option<Buffer>,
}

impl Connection {
    /// Finds the memory of a source. Sends copy, or register what is too long for that.
    pub(super) fn prepare(
        self: &Rc<Self>,
        source: Source,
        signal: Signal,
        is_send: bool,
    ) -> Result<Memory, PostError> {
        let len = source.len();
        if len > self.core.message_max {
            return Err(PostError::Invalid("longer than a message of the device"));
        }
        match source {
            Source::Span(span) => self.prepare_span(&span),
            Source::File { file, offset, .. } => {
                self.prepare_file(SourceRange { file, offset, len })
            }
            Source::Buffer { .. } if !is_send => {
                Err(PostError::Invalid("the source is not registered"))
            }
            Source::Buffer { buffer, len } => self.prepare_message(buffer, len, signal),
        }
    }

    fn prepare_span(&self, span: &Span) -> Result<Memory, PostError> {
        let found = RegionUse::of(span, &self.core.domain);
        let unfit = PostError::Invalid("not a span of memory that is registered here");
        let (region, piece) = found.ok_or(unfit)?;
        Ok(Memory {
            piece: (piece.len() > 0).then_some(piece),
            region: Some(region),
            ..Memory::default()
        })
    }

    fn prepare_message(
        &self,
        mut buffer: Buffer,
        len: u32,
        signal: Signal,
    ) -> Result<Memory, PostError> {
        let beyond = PostError::Invalid("the message is longer than its memory");
        let bytes = buffer.get_mut(..len as usize).ok_or(beyond)?;
        let mut memory = Memory::default();
        if len == 0 {
            memory.buffer = Some(buffer);
            return Ok(memory);
        }
        if len <= self.core.inline_max.get() {
            memory.piece = Piece::inline(bytes);
            memory.inline = true;
            memory.buffer = Some(buffer);
            return Ok(memory);
        }
        let messages = &self.core.messages;
        if len as usize <= messages.slot_len()
            && let Some(mut slot) = messages.take()
        {
            slot.as_mut()[..len as usize].copy_from_slice(bytes);
            memory.piece = slot.piece(len);
            memory.slot = Some(slot);
            memory.buffer = (signal == Signal::Always).then_some(buffer);
            return Ok(memory);
        }
        let registration = self.core.domain.register_message(bytes).map_err(|error| {
            tracing::warn!(%error, "the memory of a message could not be registered");
            PostError::Invalid("the memory of the message cannot be registered")
        })?;
        memory.piece = registration.piece(0, len);
        memory.registration = Some(registration);
        memory.buffer = Some(buffer);
        Ok(memory)
    }
}
