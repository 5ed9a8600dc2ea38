//! Payloads of long tagged FPDUs, received straight into their region: once the header has come, the next receive
//! goes to the place of the payload without a copy.
//!
//! One FPDU at a time: the length of the next one is unknown, and bytes placed by a guess could overwrite bytes
//! that its message does not touch. Not with CRCs: bytes are placed only once their CRC is right.

use super::receive::Place;
use super::violation::Violation;
use super::{Engine, Phase};
use crate::limits::{DIRECT_MIN, RECEIVE_AHEAD};
use gannet_fabric::{Disconnected, SoftwareRegion};
use gannet_wire::ddp::{DdpHeader, TAGGED_HEADER_LEN, Tagged};
use gannet_wire::mpa::{CRC_LEN, LENGTH_LEN, pad_len};
use gannet_wire::rdmap::{Opcode, TerminateCode};
use std::cell::RefMut;

/// An FPDU of which the header and perhaps a part of the payload have come.
pub(super) struct Direct {
    header: Tagged,
    opcode: Opcode,
    /// Bytes of its payload, and how many of them are in place.
    len: usize,
    placed: usize,
}

impl Direct {
    /// Pad and CRC.
    fn tail_len(&self) -> usize {
        pad_len(TAGGED_HEADER_LEN + self.len) + CRC_LEN
    }
}

impl Engine {
    /// True while a part of an FPDU is in place and its rest has not come.
    pub(crate) fn is_within_fpdu(&self) -> bool {
        self.phase != Phase::Ended && self.rx.direct.is_some()
    }

    /// At most how many bytes the next receive should bring behind those that have a place: few after a long FPDU,
    /// because the next one's payload will have a place as well.
    pub(crate) fn receive_ahead(&self) -> usize {
        if self.rx.is_bulk {
            RECEIVE_AHEAD
        } else {
            usize::MAX
        }
    }

    /// The place of the next incoming bytes; bytes behind them go to [`Engine::receive`] as always. Report to
    /// [`Engine::placed`] how many came.
    pub(crate) fn direct_space(&mut self) -> Option<RefMut<'_, [u8]>> {
        let direct = self.rx.direct.as_ref();
        let direct = direct.filter(|_| self.phase != Phase::Ended)?;
        let (header, opcode) = (direct.header, direct.opcode);
        let (len, placed) = (direct.len, direct.placed);
        if placed == len {
            return None;
        }
        // Checked anew for each receive: the key may have been revoked since the header came.
        match self.place_of(opcode, &header, len) {
            Ok(Some(place)) if place.is_there(len) => self.rx.target = Some(place),
            refused => {
                let violation = refused.err();
                let violation = violation.unwrap_or(TerminateCode::TAGGED_INVALID_STAG.into());
                self.end_direct(violation);
                return None;
            }
        }
        let Place { region, offset } = self.rx.target.as_ref()?;
        region.bytes_mut(offset + placed as u64, len - placed)
    }

    /// Notes that `count` bytes came into [`Engine::direct_space`].
    pub(crate) fn placed(&mut self, count: usize) {
        if let Some(direct) = &mut self.rx.direct {
            direct.placed = direct.len.min(direct.placed + count);
        }
        self.rx.target = None;
    }

    /// Begins an FPDU that stands unfinished at the front of the incoming stream, if it is long, tagged and allowed:
    /// places the part of its payload that has come. A violation is left to [`Engine::receive`], which reports it once
    /// the whole FPDU is there.
    pub(super) fn begin_direct(&mut self, bytes: &[u8]) -> bool {
        if self.agreement.crc {
            return false;
        }
        let Some((direct, payload)) = direct_of(bytes) else {
            return false;
        };
        let place = self.place_of(direct.opcode, &direct.header, direct.len);
        let is_placed = matches!(place, Ok(Some(place)) if place.fill(payload));
        if is_placed {
            self.rx.direct = Some(direct);
            self.rx.is_bulk = true;
        }
        is_placed
    }

    /// Takes pad and CRC of the FPDU whose payload is in place; returns their length in `bytes`, 0 while a part of
    /// them is missing.
    pub(super) fn finish_direct(&mut self, bytes: &[u8]) -> Result<usize, Violation> {
        let Some(direct) = &self.rx.direct else {
            return Ok(0);
        };
        let tail = direct.tail_len();
        if direct.placed < direct.len || bytes.len() < tail {
            return Ok(0);
        }
        let (header, opcode, len) = (direct.header, direct.opcode, direct.len);
        self.rx.direct = None;
        let taken = self.tagged_placed(opcode, &header, len);
        taken.map_err(|violation| {
            violation.in_segment(DdpHeader::Tagged(header), TAGGED_HEADER_LEN + len)
        })?;
        self.note_received();
        Ok(tail)
    }

    /// Ends the connection because the place of the FPDU was taken away while its payload came.
    fn end_direct(&mut self, violation: Violation) {
        let Some(direct) = self.rx.direct.take() else {
            return;
        };
        let header = DdpHeader::Tagged(direct.header);
        let violation = violation.in_segment(header, TAGGED_HEADER_LEN + direct.len);
        let reason = Disconnected::PeerMisbehaved(violation.code.to_string());
        self.terminate(&violation.terminate(), reason);
    }
}

/// The FPDU at the front of `bytes`, if at least [`DIRECT_MIN`] bytes of its payload are still to come, and the part
/// that has come.
fn direct_of(bytes: &[u8]) -> Option<(Direct, &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<LENGTH_LEN>()?;
    let len = usize::from(u16::from_be_bytes(*length)).checked_sub(TAGGED_HEADER_LEN)?;
    let (header, payload) = DdpHeader::parse(rest).ok()?;
    let (DdpHeader::Tagged(header), opcode) = (header, Opcode::parse(header.ulp_control()).ok()?)
    else {
        return None;
    };
    let placed = payload.len();
    let is_long = len
        .checked_sub(placed)
        .is_some_and(|left| left >= DIRECT_MIN);
    let direct = Direct {
        header,
        opcode,
        len,
        placed,
    };
    is_long.then_some((direct, payload))
}
