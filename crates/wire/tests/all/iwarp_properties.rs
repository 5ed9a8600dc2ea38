//! Arbitrary bytes never panic; whatever parses is encoded to what was parsed.

#![allow(clippy::unwrap_used)]

use gannet_wire::ddp::{DdpHeader, UNTAGGED_HEADER_LEN};
use gannet_wire::mpa::{
    Fpdu, FrameKind, MARKER_INTERVAL, MARKER_LEN, Markers, StartupFrame, fpdu_len, strip_markers,
};
use gannet_wire::rdmap::{BitOrder, Opcode, TERMINATE_LEN_MAX, Terminate};
use proptest::prelude::*;

fn startup_bytes() -> impl Strategy<Value = (FrameKind, Vec<u8>)> {
    let kind = prop_oneof![Just(FrameKind::Request), Just(FrameKind::Reply)];
    let rest = prop::collection::vec(any::<u8>(), 0..40);
    (kind, any::<[u8; 2]>(), 0..30u16, rest).prop_map(|(kind, fields, len, rest)| {
        let key = match kind {
            FrameKind::Request => b"MPA ID Req Frame",
            FrameKind::Reply => b"MPA ID Rep Frame",
        };
        let bytes = [&key[..], &fields, &len.to_be_bytes(), &rest].concat();
        (kind, bytes)
    })
}

proptest! {
    #[test]
    fn startup_frames_survive_a_round_trip((kind, bytes) in startup_bytes()) {
        if let Ok(Some((frame, used))) = StartupFrame::parse(kind, &bytes) {
            let mut out = vec![0xa5; frame.encoded_len()];
            prop_assert_eq!(frame.emit(&mut out), Ok(used));
            prop_assert_eq!(&out, &bytes[..used]);
            prop_assert!(frame.emit(&mut out[..used - 1]).is_err());
        }
    }

    #[test]
    fn any_bytes_are_parsed_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        let _ = StartupFrame::parse(FrameKind::Request, &bytes);
        let _ = Fpdu::parse(&bytes);
        if let Ok((header, payload)) = DdpHeader::parse(&bytes) {
            let mut out = [0xa5; UNTAGGED_HEADER_LEN];
            let len = header.emit(&mut out);
            prop_assert_eq!(len + payload.len(), bytes.len());
            // Reserved bits of the first byte are not kept.
            prop_assert_eq!(out[0], bytes[0] & 0xc3);
            prop_assert_eq!(&out[1..len], &bytes[1..len]);
        }
        if let Ok((terminate, BitOrder::Rfc)) = Terminate::parse(&bytes) {
            let mut out = [0xa5; TERMINATE_LEN_MAX];
            let len = terminate.emit(&mut out);
            let (again, order) = Terminate::parse(&out[..len]).unwrap();
            prop_assert_eq!(again.context, terminate.context);
            // Flags that have no meaning are dropped, and then the bit order cannot be recognised any more.
            if order == BitOrder::Rfc {
                prop_assert_eq!(again.code, terminate.code);
            }
        }
    }

    #[test]
    fn a_control_byte_is_known_or_refused(control in any::<u8>()) {
        if let Ok(opcode) = Opcode::parse(control) {
            prop_assert_eq!(opcode.control(), control & 0xcf);
        }
    }

    #[test]
    fn markers_stand_every_512_bytes(
        start in (0u64..4096).prop_map(|words| words * 4),
        ulpdu_len in 14usize..3000,
    ) {
        let plain: Vec<u8> = (0..fpdu_len(ulpdu_len)).map(|at| at as u8 | 1).collect();
        let mut stream = Vec::new();
        let mut copied = 0;
        for marker in Markers::new(start, ulpdu_len) {
            stream.extend_from_slice(&plain[copied..marker.after]);
            copied = marker.after;
            prop_assert_eq!((start + stream.len() as u64) % MARKER_INTERVAL as u64, 0);
            stream.extend_from_slice(&marker.bytes());
        }
        stream.extend_from_slice(&plain[copied..]);
        let end = start + stream.len() as u64;
        let interval = MARKER_INTERVAL as u64;
        let due = end.div_ceil(interval) - start.div_ceil(interval);
        prop_assert_eq!((stream.len() - plain.len()) / MARKER_LEN, due as usize);
        // However the stream is cut, stripping gives the frame back.
        for cut in [1, stream.len() / 3, stream.len() - 1] {
            let mut stripped = Vec::new();
            strip_markers(start, &stream[..cut], &mut stripped);
            strip_markers(start + cut as u64, &stream[cut..], &mut stripped);
            prop_assert_eq!(&stripped, &plain);
        }
    }
}
