//! The frame of a payload: length field and header before it, pad and CRC behind it.

use super::batch::Frame;
use crate::crc;
use crate::startup::Agreement;
use gannet_wire::ddp::{DdpHeader, UNTAGGED_HEADER_LEN};
use gannet_wire::mpa::{CRC_LEN, LENGTH_LEN, PAD_MAX, pad_len};

/// Length field and DDP header of an FPDU.
pub(super) struct FrameHead {
    bytes: [u8; LENGTH_LEN + UNTAGGED_HEADER_LEN],
    len: usize,
}

impl FrameHead {
    pub(super) fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

/// Length field and header of an FPDU with a payload of `payload_len` bytes.
pub(super) fn frame_head(header: &DdpHeader, payload_len: usize) -> FrameHead {
    let mut fields = [0; UNTAGGED_HEADER_LEN];
    let header_len = header.emit(&mut fields);
    let ulpdu_len = u16::try_from(header_len + payload_len).unwrap_or(u16::MAX);
    let mut bytes = [0; LENGTH_LEN + UNTAGGED_HEADER_LEN];
    let (length, rest) = bytes.split_at_mut(LENGTH_LEN);
    length.copy_from_slice(&ulpdu_len.to_be_bytes());
    rest.copy_from_slice(&fields);
    FrameHead {
        bytes,
        len: LENGTH_LEN + header_len,
    }
}

/// How much around a payload belongs to its FPDU.
pub(super) fn frame_of(header: &DdpHeader, payload_len: usize) -> Frame {
    let pad = pad_of(header, payload_len).len();
    Frame {
        head: LENGTH_LEN + header.encoded_len(),
        tail: pad + CRC_LEN,
    }
}

/// The pad of an FPDU.
pub(super) fn pad_of(header: &DdpHeader, payload_len: usize) -> &'static [u8] {
    const PADS: [&[u8]; PAD_MAX + 1] = [&[], &[0], &[0; 2], &[0; 3]];
    PADS[pad_len(header.encoded_len() + payload_len)]
}

/// The CRC field of an FPDU; zero when CRCs are off.
pub(super) fn crc_of(header: &DdpHeader, payload: &[u8], agreement: &Agreement) -> [u8; CRC_LEN] {
    if !agreement.crc {
        return [0; CRC_LEN];
    }
    let head = frame_head(header, payload.len());
    crc::field_of_parts([head.bytes(), payload, pad_of(header, payload.len())])
}
