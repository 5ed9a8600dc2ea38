//! The source of the message being framed: memory, a window onto a file, or the batch's own buffer.

use super::Engine;
use super::outgoing::{Awaited, LeavingSource};
use super::transmit::Transmitter;
use crate::limits::{INLINE_PAYLOAD_MAX, MAP_MIN, RESIDENCY_STEP};
use gannet_fabric::{AccessError, WorkError};
use gannet_runtime::{FileRef, FileWindow};
use gannet_wire::ddp::DdpHeader;
use std::io;
use std::rc::Rc;

/// A message on its way into FPDUs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Framing {
    pub(super) header: DdpHeader,
    pub(super) size: usize,
    pub(super) framed: usize,
    /// Offset of its first byte in its buffer, region or file.
    pub(super) source_start: u64,
    /// Bytes for its next segments that are in the data buffer of the youngest batch, and their offset there. They
    /// are framed into that batch: another one has another buffer.
    pub(super) ahead: usize,
    pub(super) ahead_start: usize,
    /// Offset up to which its file was found in the page cache.
    pub(super) resident_until: u64,
}

impl Framing {
    /// The next `len` of the bytes that are ready in the youngest batch.
    fn take_ahead(&mut self, len: usize) -> Payload {
        let start = self.ahead_start;
        self.ahead_start += len;
        self.ahead -= len;
        Payload::Data(start)
    }
}

/// The place of one segment's payload.
pub(super) enum Payload {
    None,
    /// The payload is in the memory of the message, from this offset.
    Memory(usize),
    /// The payload is in a window onto its file, at this offset of the file.
    Mapped(Rc<FileWindow>, u64),
    /// The payload is in the data buffer of the youngest batch, from this offset.
    Data(usize),
}

impl Engine {
    /// Finds the payload of the next segment; `None` when it must be fetched from a file first, or the batches are
    /// full.
    pub(super) fn payload(
        &mut self,
        framing: &mut Framing,
        payload_max: usize,
        len: usize,
    ) -> Result<Option<Payload>, WorkError> {
        if len == 0 {
            return Ok(Some(Payload::None));
        }
        let offset = framing.source_start.saturating_add(framing.framed as u64);
        let source = self.tx.leaving.back().map(|leaving| &leaving.source);
        if let Some(LeavingSource::Nothing) = source {
            // The bytes of an exported object were copied all at once, when its answer began.
            return Ok((framing.ahead >= len).then(|| framing.take_ahead(len)));
        }
        if !matches!(source, Some(LeavingSource::File { .. })) {
            let offset =
                usize::try_from(offset).map_err(|_| WorkError::Local(AccessError::Bounds))?;
            return Ok(Some(Payload::Memory(offset)));
        }
        let Some(file) = source.and_then(LeavingSource::file) else {
            return Err(WorkError::Local(AccessError::InvalidKey));
        };
        if framing.ahead > 0 {
            return Ok(Some(framing.take_ahead(len)));
        }
        let file = FileRef::clone(file);
        let remaining = framing.size - framing.framed;
        if self.may_map(framing, len)
            && let Some(window) = self.tx.pool.windows.window(&file, offset)
            && is_resident(framing, &file, offset, len as u64)
        {
            return Ok(Some(Payload::Mapped(window, offset)));
        }
        let Some(room) = self.tx.data_room(payload_max, remaining) else {
            return Ok(None);
        };
        let is_last = room == remaining;
        let filled = self.tx.read_ahead(&file, offset, room)?;
        let whole = filled - filled % payload_max;
        framing.ahead = if filled == room && is_last {
            filled
        } else {
            whole
        };
        if framing.ahead < len {
            self.tx.fetch = Some(Awaited::new(file, offset, room));
            return Ok(None);
        }
        framing.ahead_start = self.tx.batch().data_filled(framing.ahead);
        Ok(Some(framing.take_ahead(len)))
    }

    /// Whether the kernel may copy a segment from a window. This process must not touch the bytes of a window (SIGBUS
    /// when the file becomes shorter), so segments with CRCs or markers and short ones, which are copied, are read.
    fn may_map(&self, framing: &Framing, len: usize) -> bool {
        framing.size >= MAP_MIN
            && len > INLINE_PAYLOAD_MAX
            && self.tx.fetched.is_none()
            && !self.agreement.crc
            && !self.agreement.markers
    }
}

/// True when a copy from a window will not wait for the disk. Asks for more than one segment at a time.
fn is_resident(framing: &mut Framing, file: &FileRef, offset: u64, len: u64) -> bool {
    if offset + len <= framing.resident_until {
        return true;
    }
    let remaining = (framing.size - framing.framed) as u64;
    let step = remaining.min(RESIDENCY_STEP).max(len);
    if file.is_resident(offset, step) {
        framing.resident_until = offset + step;
        return true;
    }
    false
}

impl Transmitter {
    /// Fills the first `room` bytes of the data buffer's space with what was fetched, or else with what is in the page
    /// cache from `offset` on, and zeros behind the end of the file; how many there are before the disk is needed.
    fn read_ahead(&mut self, file: &FileRef, offset: u64, room: usize) -> Result<usize, WorkError> {
        let fetched = self.fetched.take();
        let space = self.batch().data_space(room);
        if let Some(fetched) = fetched {
            let len = fetched.len().min(space.len());
            space[..len].copy_from_slice(&fetched[..len]);
            return Ok(len);
        }
        let mut filled = 0;
        while let Some(rest) = space.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match file.try_read_at(offset + filled as u64, rest) {
                Ok(0) => {
                    rest.fill(0);
                    return Ok(room);
                }
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(WorkError::File(error.kind())),
            }
        }
        Ok(filled)
    }
}
