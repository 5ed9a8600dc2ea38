//! MPA, DDP and RDMAP.

use gannet_wire::ddp::{DdpHeader, UNTAGGED_HEADER_LEN};
use gannet_wire::mpa::{Fpdu, FrameKind, StartupFrame, strip_markers};
use gannet_wire::rdmap::{
    BitOrder, EXCEPTIONS_OFFER, Opcode, READ_REQUEST_LEN, ReadRequest, TERMINATE_LEN_MAX,
    Terminate, split_exceptions_offer,
};
use std::fmt::Display;

/// Prints a value: on one line, without anything that could control a terminal. The printer visits every field.
pub(crate) fn check_line(value: &impl Display) {
    let line = value.to_string();
    assert!(!line.chars().any(char::is_control), "{line:?}");
}

pub(crate) fn mpa_startup(data: &[u8]) {
    for kind in [FrameKind::Request, FrameKind::Reply] {
        let Ok(Some((frame, used))) = StartupFrame::parse(kind, data) else {
            continue;
        };
        assert!(used <= data.len());
        check_line(&frame);
        let (offers, private_data) = split_exceptions_offer(frame.private_data);
        let offer_len = frame.private_data.len() - private_data.len();
        assert_eq!(offer_len, if offers { EXCEPTIONS_OFFER.len() } else { 0 });
        let mut out = vec![0xa5; frame.encoded_len()];
        if frame.emit(&mut out).is_ok() {
            let again = StartupFrame::parse(kind, &out);
            assert_eq!(again, Ok(Some((frame, out.len()))));
        }
    }
}

pub(crate) fn mpa_fpdu(data: &[u8]) {
    let mut rest = data;
    while let Ok(Some((fpdu, used))) = Fpdu::parse(rest) {
        assert!(used > 0 && fpdu.covered.len() + fpdu.crc.len() == used);
        check_line(&fpdu);
        if let Ok((header, _)) = DdpHeader::parse(fpdu.ulpdu) {
            let _ = Opcode::parse(header.ulp_control());
        }
        rest = rest.get(used..).unwrap_or_default();
    }
}

pub(crate) fn mpa_markers(data: &[u8]) {
    let Some((position, stream)) = data.split_first_chunk::<8>() else {
        return;
    };
    // Positions count from the start of full operation; 2^63 bytes are out of reach.
    let position = u64::from_be_bytes(*position) >> 1;
    let mut whole = Vec::new();
    strip_markers(position, stream, &mut whole);
    let (head, tail) = stream.split_at(stream.len() / 3);
    let mut pieces = Vec::new();
    strip_markers(position, head, &mut pieces);
    strip_markers(position + head.len() as u64, tail, &mut pieces);
    assert_eq!(whole, pieces, "slicing changes nothing");
}

pub(crate) fn ddp(data: &[u8]) {
    let Ok((header, payload)) = DdpHeader::parse(data) else {
        return;
    };
    check_line(&header);
    let mut out = [0xa5; UNTAGGED_HEADER_LEN];
    let length = header.emit(&mut out);
    assert_eq!(length, header.encoded_len());
    assert_eq!(length + payload.len(), data.len());
    let again = DdpHeader::parse(&out[..length]);
    assert_eq!(again, Ok((header, &[][..])));
}

pub(crate) fn rdmap_terminate(data: &[u8]) {
    let Ok((terminate, order)) = Terminate::parse(data) else {
        return;
    };
    check_line(&terminate);
    // Without flags the order of bits is a guess, which what we send may answer differently.
    if order != BitOrder::Rfc || terminate.context.is_none() {
        return;
    }
    let mut out = [0xa5; TERMINATE_LEN_MAX];
    let length = terminate.emit(&mut out);
    assert_eq!(length, terminate.encoded_len());
    let again = Terminate::parse(&out[..length]).map(|(again, _)| again);
    assert_eq!(again, Ok(terminate));
}

pub(crate) fn rdmap_read_request(data: &[u8]) {
    let Some(bytes) = data.first_chunk::<READ_REQUEST_LEN>() else {
        return;
    };
    let request = ReadRequest::from_bytes(bytes);
    check_line(&request);
    let mut out = [0xa5; READ_REQUEST_LEN];
    request.emit(&mut out);
    assert_eq!(out, *bytes);
}
