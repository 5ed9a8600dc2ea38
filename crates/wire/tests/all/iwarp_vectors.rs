//! Known answers: the RFC's own dumps and frames recomputed by an independent implementation.

#![allow(clippy::unwrap_used)]

use crate::iwarp_support;

use gannet_wire::ddp::{
    self, DdpHeader, MessageOffset, Msn, QueueNumber, STag, Tagged, TaggedOffset, Untagged,
};
use gannet_wire::mpa::{
    CRC_LEN, Enhanced, Fpdu, FpduError, FrameKind, Markers, PRIVATE_DATA_MAX, Revision,
    STARTUP_HEADER_LEN, StartupError, StartupFrame, fpdu_len, mulpdu, pad_len, strip_markers,
};
use gannet_wire::rdmap::{
    BitOrder, Opcode, READ_REQUEST_LEN, ReadRequest, TERMINATE_LEN_MAX, Terminate, TerminateCode,
    TerminateContext,
};
use iwarp_support::{bytes_of, crc32c};

fn send(opcode: Opcode, invalidate: u32, msn: u32) -> DdpHeader {
    DdpHeader::Untagged(Untagged {
        last: true,
        ulp_control: opcode.control(),
        ulp_word: invalidate,
        queue: opcode.queue().unwrap(),
        msn: Msn(msn),
        offset: MessageOffset(0),
    })
}

fn tagged(opcode: Opcode, stag: u32, offset: u64) -> DdpHeader {
    DdpHeader::Tagged(Tagged {
        last: true,
        ulp_control: opcode.control(),
        stag: STag(stag),
        offset: TaggedOffset(offset),
    })
}

/// The FPDU of a segment, as a provider would put it together.
fn frame(header: DdpHeader, payload: &[u8]) -> Vec<u8> {
    let ulpdu_len = header.encoded_len() + payload.len();
    let mut bytes = u16::try_from(ulpdu_len).unwrap().to_be_bytes().to_vec();
    let mut space = [0xa5; ddp::UNTAGGED_HEADER_LEN];
    let header_len = header.emit(&mut space);
    bytes.extend_from_slice(&space[..header_len]);
    bytes.extend_from_slice(payload);
    bytes.extend(std::iter::repeat_n(0, pad_len(ulpdu_len)));
    let crc = crc32c(&bytes);
    bytes.extend_from_slice(&crc);
    assert_eq!(bytes.len(), fpdu_len(ulpdu_len));
    bytes
}

fn check(expected: &str, header: DdpHeader, payload: &[u8]) {
    let expected = bytes_of(expected);
    assert_eq!(frame(header, payload), expected);
    let (fpdu, used) = Fpdu::parse(&expected).unwrap().unwrap();
    assert_eq!(used, expected.len());
    assert_eq!(fpdu.crc, crc32c(fpdu.covered));
    assert_eq!(DdpHeader::parse(fpdu.ulpdu).unwrap(), (header, payload));
    for cut in 0..expected.len() {
        assert_eq!(
            Fpdu::parse(&expected[..cut]),
            Ok(None),
            "an FPDU cut at {cut}"
        );
    }
}

#[test]
fn a_null_call_in_a_send() {
    let call = bytes_of(
        "11223344 00000001 00000080 00000000 00000000 00000000 00000000 11223344 00000000 \
         00000002 000186a3 00000003 00000000 00000000 00000000 00000000 00000000",
    );
    check(
        "00564143 00000000 00000000 00000001 00000000 11223344 00000001 00000080 00000000 \
         00000000 00000000 00000000 11223344 00000000 00000002 000186a3 00000003 00000000 \
         00000000 00000000 00000000 00000000 aaa137d9",
        send(Opcode::Send, 0, 1),
        &call,
    );
}

#[test]
fn a_read_request() {
    let request = ReadRequest {
        sink_stag: STag(0x00ab_cd01),
        sink_offset: TaggedOffset(0x1000),
        size: 4096,
        source_stag: STag(0x0012_3402),
        source_offset: TaggedOffset(0x5566_7788_0000_1000),
    };
    let mut payload = [0xa5; READ_REQUEST_LEN];
    request.emit(&mut payload);
    assert_eq!(ReadRequest::from_bytes(&payload), request);
    check(
        "002e4141 00000000 00000001 00000001 00000000 00abcd01 00000000 00001000 00001000 \
         00123402 55667788 00001000 e1a7b547",
        send(Opcode::ReadRequest, 0, 1),
        &payload,
    );
}

#[test]
fn tagged_messages() {
    check(
        "0013c142 00abcd01 00000000 00001ffb 48454c4c 4f000000 60e4fc91",
        tagged(Opcode::ReadResponse, 0x00ab_cd01, 0x1ffb),
        b"HELLO",
    );
    check(
        "000ec140 00000001 00000000 00000000 ebd34c5f",
        tagged(Opcode::Write, 1, 0),
        b"",
    );
}

#[test]
fn sends_without_data_and_with_invalidation() {
    check(
        "00124143 00000000 00000000 00000007 00000000 b01a8f54",
        send(Opcode::Send, 0, 7),
        b"",
    );
    check(
        "002e4144 00123402 00000000 00000002 00000000 00*28 bccd5e78",
        send(Opcode::SendWithInvalidate, 0x0012_3402, 2),
        &[0; 28],
    );
}

/// RFC 5040 section 4.3, figure 4.
#[test]
fn opcodes_invalidate_and_ask_for_events_as_the_table_says() {
    let of = |opcode: Opcode| (opcode.invalidates(), opcode.is_solicited());
    assert_eq!(of(Opcode::Write), (false, false));
    assert_eq!(of(Opcode::ReadRequest), (false, false));
    assert_eq!(of(Opcode::ReadResponse), (false, false));
    assert_eq!(of(Opcode::Send), (false, false));
    assert_eq!(of(Opcode::SendWithInvalidate), (true, false));
    assert_eq!(of(Opcode::SendWithSolicitedEvent), (false, true));
    assert_eq!(
        of(Opcode::SendWithSolicitedEventAndInvalidate),
        (true, true)
    );
    assert_eq!(of(Opcode::Terminate), (false, false));
}

#[test]
fn terminates() {
    let emitted = |terminate: Terminate| {
        let mut out = [0xa5; TERMINATE_LEN_MAX];
        let len = terminate.emit(&mut out);
        assert_eq!(len, terminate.encoded_len());
        let (parsed, _) = Terminate::parse(&out[..len]).unwrap();
        assert_eq!(parsed, terminate);
        out[..len].to_vec()
    };
    let header = DdpHeader::Untagged(Untagged {
        last: true,
        ulp_control: Opcode::Terminate.control(),
        ulp_word: 0,
        queue: QueueNumber::TERMINATE,
        msn: Msn::FIRST,
        offset: MessageOffset(0),
    });
    let too_long = Terminate {
        code: TerminateCode::UNTAGGED_TOO_LONG,
        context: Some(TerminateContext {
            segment_len: Some(0x0412),
            header: send(Opcode::Send, 0, 3),
            read_request: None,
        }),
    };
    check(
        "002a4147 00000000 00000002 00000001 00000000 1205c000 04124143 00000000 00000000 \
         00000003 00000000 f712d1db",
        header,
        &emitted(too_long),
    );
    check(
        "00164147 00000000 00000002 00000001 00000000 00000000 f9a26f1d",
        header,
        &emitted(Terminate::bare(TerminateCode::LOCAL_CATASTROPHIC)),
    );
}

#[test]
fn terminates_in_the_order_of_siw() {
    let read = |text: &str| Terminate::parse(&bytes_of(text)).unwrap();
    let (terminate, order) = read("21030300 0044 4143 00000000 00000005 00000001 00000000");
    assert_eq!(order, BitOrder::Siw);
    assert_eq!(terminate.code, TerminateCode::UNTAGGED_MSN_RANGE);
    assert_eq!(terminate.context.unwrap().segment_len, Some(0x44));
    let (terminate, order) = read(
        "10010700 0000 4141 00000000 00000001 00000001 00000000 4e210000 00000000 00000000 \
         00000010 4e2136af 3f01d4ee 276a09a8",
    );
    assert_eq!(
        (order, terminate.code),
        (BitOrder::Siw, TerminateCode::READ_BOUNDS)
    );
    assert!(terminate.context.unwrap().read_request.is_some());
    // Both readings are possible without flags; only one of them is a code that exists.
    assert_eq!(read("02020000").0.code, TerminateCode::MPA_CRC);
    assert_eq!(read("02020000").1, BitOrder::Ambiguous);
    assert_eq!(read("20020000").0.code, TerminateCode::MPA_CRC);
    assert_eq!(read("11000000").0.code, TerminateCode::TAGGED_INVALID_STAG);
}

/// Puts the markers of RFC 5044 into a frame that starts at `position`, and computes the CRC over
/// them.
fn marked(position: u64, unmarked: &[u8]) -> (Vec<u8>, Vec<(u64, u16)>) {
    let ulpdu_len = usize::from(u16::from_be_bytes([unmarked[0], unmarked[1]]));
    let body = &unmarked[..unmarked.len() - CRC_LEN];
    let (mut out, mut seen, mut copied) = (Vec::new(), Vec::new(), 0);
    for marker in Markers::new(position, ulpdu_len) {
        out.extend_from_slice(&body[copied..marker.after]);
        copied = marker.after;
        seen.push((position + out.len() as u64, marker.fpdu_pointer));
        out.extend_from_slice(&marker.bytes());
    }
    out.extend_from_slice(&body[copied..]);
    let crc = crc32c(&out);
    out.extend_from_slice(&crc);
    assert_eq!(out.len(), Markers::stream_len(position, ulpdu_len));
    (out, seen)
}

#[test]
fn markers_of_the_rfc_figures() {
    let (figure_5, _) = marked(0, &frame(send(Opcode::Send, 0, 1), &[0; 24]));
    let expected = "00000000 002a4143 00000000 00000000 00000001 00000000 00*24 52239983";
    assert_eq!(figure_5, bytes_of(expected));
    let (figure_6, _) = marked(0x200 - 0x14, &frame(send(Opcode::Send, 0, 2), &[0; 24]));
    let expected = "002a4143 00000000 00000000 00000002 00000000 00000014 00*24 84925898";
    assert_eq!(figure_6, bytes_of(expected));
}

#[test]
fn markers_within_between_and_at_the_ends_of_frames() {
    let counting: Vec<u8> = (0..1000).map(|i| (i % 256) as u8).collect();
    let case = |position: u64, msn: u32, payload: &[u8], markers: &[(u64, u16)], crc: &str| {
        let unmarked = frame(send(Opcode::Send, 0, msn), payload);
        let (stream, seen) = marked(position, &unmarked);
        assert_eq!(seen, markers);
        assert_eq!(stream[stream.len() - CRC_LEN..], bytes_of(crc));
        let mut stripped = Vec::new();
        strip_markers(position, &stream, &mut stripped);
        assert_eq!(
            stripped[..stripped.len() - CRC_LEN],
            unmarked[..unmarked.len() - CRC_LEN]
        );
        stream.len()
    };
    let len = case(
        0,
        1,
        &counting,
        &[(0, 0), (512, 508), (1024, 1020)],
        "5f7b58ca",
    );
    assert_eq!(len, 1036);
    assert_eq!(case(1036, 2, &[0; 24], &[], "290fbede"), 48);
    assert_eq!(
        case(0, 1, &[0; 488], &[(0, 0), (512, 508)], "38cf64e8"),
        520
    );
    assert_eq!(case(0, 1, &[0; 484], &[(0, 0)], "a09bb55b"), 512);
    assert_eq!(case(512, 2, &[0; 24], &[(512, 0)], "cc08199e"), 52);
}

#[test]
fn crc_of_the_iscsi_standard() {
    let up: Vec<u8> = (0..32).collect();
    let down: Vec<u8> = (0..32).rev().collect();
    assert_eq!(crc32c(&[0; 32]).to_vec(), bytes_of("aa36918a"));
    assert_eq!(crc32c(&[0xff; 32]).to_vec(), bytes_of("43aba862"));
    assert_eq!(crc32c(&up).to_vec(), bytes_of("4e79dd46"));
    assert_eq!(crc32c(&down).to_vec(), bytes_of("5cdb3f11"));
    assert_eq!(crc32c(b"123456789").to_vec(), bytes_of("839206e3"));
}

#[test]
fn mulpdu_of_common_segment_sizes() {
    let table = [(1448, 1442, 1430), (1460, 1454, 1442), (8948, 8942, 8870)];
    for (emss, plain, with_markers) in table {
        assert_eq!(
            (mulpdu(emss, false), mulpdu(emss, true)),
            (plain, with_markers)
        );
    }
    assert_eq!((mulpdu(65483, false), mulpdu(65483, true)), (64768, 64768));
    assert_eq!((mulpdu(0, false), mulpdu(88, true)), (128, 128));
}

#[test]
fn the_kernel_client_starts_up() {
    let request =
        bytes_of("4d504120 49442052 65712046 72616d65 1002000c 00800000 f6ab0e18 01010303");
    let (frame, used) = StartupFrame::parse(FrameKind::Request, &request)
        .unwrap()
        .unwrap();
    assert_eq!(used, 32);
    assert_eq!(frame.enhanced, Some(Enhanced::client_server(128, 0)));
    assert_eq!(
        (frame.markers, frame.crc, frame.rejected),
        (false, false, false)
    );
    assert_eq!(frame.private_data, &bytes_of("f6ab0e18 01010303")[..]);
    let reply = StartupFrame {
        kind: FrameKind::Reply,
        crc: true,
        enhanced: Some(Enhanced::client_server(0, 16)),
        private_data: &bytes_of("f6ab0e18 01000303"),
        ..frame
    };
    let mut out = [0xa5; 64];
    let len = reply.emit(&mut out).unwrap();
    let expected = "4d504120 49442052 65702046 72616d65 5002000c 00000010 f6ab0e18 01000303";
    assert_eq!(out[..len], bytes_of(expected));
}

#[test]
fn startup_frames_that_cannot_be() {
    let refused = |text: &str| {
        StartupFrame::parse(FrameKind::Request, &bytes_of(text)).map(|frame| frame.is_some())
    };
    assert_eq!(refused("4d50412048"), Err(StartupError::Key));
    assert_eq!(refused("4d5041204944"), Ok(false));
    let key = "4d504120494420526571204672616d65";
    let len = |len| Err(StartupError::PrivateDataLength { len });
    assert_eq!(refused(&format!("{key} 00010201")), len(513));
    assert_eq!(refused(&format!("{key} 10020003")), len(3));
    let revision = Revision::ONE;
    let error = StartupError::EnhancedInRevision { revision };
    assert_eq!(refused(&format!("{key} 10010004")), Err(error));
    assert_eq!(refused(&format!("{key} 00010200")), Ok(false));
    // Nor are they written, be it one byte too much.
    let bytes = bytes_of(&format!("{key} 00010000"));
    let (frame, _) = StartupFrame::parse(FrameKind::Request, &bytes)
        .unwrap()
        .unwrap();
    let data = [7; PRIVATE_DATA_MAX + 1];
    let mut out = [0; STARTUP_HEADER_LEN + PRIVATE_DATA_MAX + 8];
    let mut emitted = |len| {
        let private_data = &data[..len];
        StartupFrame {
            private_data,
            ..frame
        }
        .emit(&mut out)
    };
    assert_eq!(emitted(512), Ok(532));
    assert_eq!(
        emitted(513),
        Err(StartupError::PrivateDataLength { len: 513 })
    );
    let crowded = StartupFrame {
        private_data: &data[..509],
        enhanced: Some(Enhanced::client_server(1, 1)),
        ..frame
    };
    assert_eq!(
        crowded.emit(&mut out),
        Err(StartupError::PrivateDataLength { len: 513 })
    );
}

#[test]
fn an_fpdu_too_short_for_any_header() {
    assert_eq!(Fpdu::parse(&[0, 13]), Err(FpduError::TooShort { len: 13 }));
    assert_eq!(Fpdu::parse(&[0]), Ok(None));
}
