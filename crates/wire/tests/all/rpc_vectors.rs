//! ONC RPC and RPC/RDMA against known answers: RFC 5531, 8166 and 8797 worked out by hand, and what Linux sends.

#![allow(clippy::unwrap_used)]

use gannet_wire::rpc::{
    AcceptStatus, AuthFlavor, AuthStat, AuthSys, CallHeader, CallHeaderError, Groups, OpaqueAuth,
    RecordError, RecordEvent, RecordMark, RecordReader, Rejection, ReplyHeader, ReplyHeaderError,
    WholeRecord,
};
use gannet_wire::rpcrdma::{
    ChunkLimits, ChunkLists, PrivateData, Segment, TransportError, TransportHeader,
    TransportHeaderError, TransportProcedure,
};
use gannet_wire::xdr::{Decoder, Encoder, XdrError};

const LIMITS: ChunkLimits = ChunkLimits {
    segments_max: 64,
    write_chunks_max: 8,
};

/// Bytes of hex words; anything but hex digits separates.
fn words(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text
        .chars()
        .filter_map(|digit| digit.to_digit(16))
        .collect();
    digits
        .chunks(2)
        .map(|pair| (pair[0] << 4 | pair[1]) as u8)
        .collect()
}

fn segment(handle: u32, length: u32, offset: u64) -> Segment {
    Segment {
        handle,
        length,
        offset,
    }
}

/// Appends to a dirty vector, so that an encoder that relied on clean memory would show.
fn emitted(emit: impl FnOnce(&mut Encoder<'_>)) -> Vec<u8> {
    let mut out = vec![0xa5; 7];
    emit(&mut Encoder::new(&mut out));
    out.split_off(7)
}

#[test]
fn a_null_call_to_mount_over_tcp() {
    let record = words(
        "80000028 00000001 00000000 00000002 000186a5 00000003 00000000
         00000000 00000000 00000000 00000000",
    );
    let WholeRecord {
        record: message,
        rest,
    } = RecordReader::new(4096, 8).whole(&record).unwrap().unwrap();
    assert!(rest.is_empty());
    let mut decoder = Decoder::new(message);
    let header = CallHeader::parse(&mut decoder).unwrap();
    assert_eq!(decoder.finish(), Ok(()));
    let expected = CallHeader {
        xid: 1,
        program: 100_005,
        version: 3,
        procedure: 0,
        credential: OpaqueAuth::NONE,
        verifier: OpaqueAuth::NONE,
    };
    assert_eq!(header, expected);
    assert_eq!(emitted(|encoder| expected.emit(encoder)), message);
    assert_eq!(expected.encoded_len(), message.len());
    assert_eq!(RecordMark::single(40).to_bytes(), record[..4]);
}

#[test]
fn replies() {
    let cases = [
        (
            "00000001 00000001 00000000 00000000 00000000 00000000",
            ReplyHeader::accepted(1, AcceptStatus::Success),
        ),
        (
            "00000001 00000001 00000000 00000000 00000000 00000002 00000003 00000003",
            ReplyHeader::accepted(1, AcceptStatus::ProgMismatch { low: 3, high: 3 }),
        ),
        (
            "00000001 00000001 00000001 00000001 00000005",
            ReplyHeader::denied(1, Rejection::AuthError(AuthStat::TOOWEAK)),
        ),
        (
            "00000007 00000001 00000000 00000000 00000000 00000001",
            ReplyHeader::accepted(7, AcceptStatus::ProgUnavail),
        ),
        (
            "00000007 00000001 00000000 00000000 00000000 00000003",
            ReplyHeader::accepted(7, AcceptStatus::ProcUnavail),
        ),
        (
            "00000007 00000001 00000000 00000000 00000000 00000004",
            ReplyHeader::accepted(7, AcceptStatus::GarbageArgs),
        ),
        (
            "00000007 00000001 00000000 00000000 00000000 00000005",
            ReplyHeader::accepted(7, AcceptStatus::SystemErr),
        ),
        (
            "00000009 00000001 00000001 00000000 00000002 00000002",
            ReplyHeader::denied(9, Rejection::RpcMismatch { low: 2, high: 2 }),
        ),
    ];
    for (text, header) in cases {
        let bytes = words(text);
        let mut decoder = Decoder::new(&bytes);
        assert_eq!(ReplyHeader::parse(&mut decoder), Ok(header), "{text}");
        assert_eq!(decoder.finish(), Ok(()), "{text}");
        assert_eq!(emitted(|encoder| header.emit(encoder)), bytes, "{text}");
    }
}

#[test]
fn invalid_call_and_reply_headers_are_refused() {
    let parse = |text: &str| {
        let bytes = words(text);
        CallHeader::parse(&mut Decoder::new(&bytes)).map(|header| header.xid)
    };
    let not_a_call = CallHeaderError::NotACall { message_type: 1 };
    assert_eq!(parse("00000001 00000001 00000002"), Err(not_a_call));
    let mismatch = CallHeaderError::RpcMismatch { xid: 5, version: 3 };
    assert_eq!(parse("00000005 00000000 00000003"), Err(mismatch));
    let fixed = "00000005 00000000 00000002 000186a3 00000003 00000000";
    assert_eq!(
        parse("00000005 00000000"),
        Err(CallHeaderError::Malformed(XdrError::Short))
    );
    let too_long = CallHeaderError::BadAuth {
        xid: 5,
        error: XdrError::TooLong,
    };
    assert_eq!(parse(&format!("{fixed} 00000000 00000191")), Err(too_long));
    let short = CallHeaderError::BadAuth {
        xid: 5,
        error: XdrError::Short,
    };
    assert_eq!(parse(&format!("{fixed} 00000000 00000190 00")), Err(short));

    let parse = |text: &str| {
        let bytes = words(text);
        ReplyHeader::parse(&mut Decoder::new(&bytes)).map(|header| header.xid)
    };
    let not_a_reply = ReplyHeaderError::NotAReply { message_type: 0 };
    assert_eq!(parse("00000001 00000000"), Err(not_a_reply));
    let value = Err(ReplyHeaderError::Malformed(XdrError::Value));
    assert_eq!(parse("00000001 00000001 00000002"), value);
    assert_eq!(
        parse("00000001 00000001 00000000 00000000 00000000 00000006"),
        value
    );
    assert_eq!(parse("00000001 00000001 00000001 00000002"), value);
}

/// The WRITE call of the reference: machine "client", uid and gid 1000, one group.
const WRITE_HEADER: &str = "11223344 00000001 00000080 00000000 00000001 00000080 00123402
    00001000 11223344 5566f000 00000000 00000000 00000000";
const WRITE_CALL: &str = "11223344 00000000 00000002 000186a3 00000003 00000007 00000001 00000020
    00000000 00000006 636c6965 6e740000 000003e8 000003e8 00000001 000003e8 00000000 00000000
    00000020 00010203 04050607 08090a0b 0c0d0e0f 10111213 14151617 18191a1b 1c1d1e1f 00000000
    00002000 00001000 00000002 00001000";

#[test]
fn a_write_with_a_read_chunk() {
    let message = [words(WRITE_HEADER), words(WRITE_CALL)].concat();
    let mut lists = ChunkLists::new();
    let mut decoder = Decoder::new(&message);
    let header = TransportHeader::parse(&mut decoder, &mut lists, LIMITS).unwrap();
    let expected = TransportHeader {
        xid: 0x1122_3344,
        version: 1,
        credits: 128,
        procedure: TransportProcedure::Msg,
    };
    assert_eq!(header, expected);
    assert_eq!(decoder.position(), 52);
    assert_eq!(lists.encoded_len() + 16, 52);
    assert_eq!(lists.reads().len(), 1);
    assert_eq!(lists.reads()[0].position, 128);
    assert_eq!(
        lists.reads()[0].segment,
        segment(0x0012_3402, 4096, 0x1122_3344_5566_f000)
    );
    assert_eq!(lists.sole_handle(), Some(0x0012_3402));

    let call = CallHeader::parse(&mut decoder).unwrap();
    assert_eq!(
        (call.program, call.version, call.procedure),
        (100_003, 3, 7)
    );
    assert_eq!(call.credential.flavor, AuthFlavor::SYS);
    let credential = AuthSys::parse(call.credential.body).unwrap();
    assert_eq!(credential.machine_name, b"client");
    assert_eq!((credential.uid, credential.gid), (1000, 1000));
    assert_eq!(credential.groups.as_slice(), [1000]);
    assert_eq!(
        emitted(|encoder| credential.emit(encoder)),
        call.credential.body
    );
    // The position of the chunk is where the reduced message ends: just behind the length word.
    assert_eq!(decoder.remaining().len() + decoder.position(), 52 + 128);

    let again = emitted(|encoder| expected.emit(encoder, &lists));
    assert_eq!(again, words(WRITE_HEADER));
}

#[test]
fn a_read_with_a_write_chunk_and_its_reply() {
    let call = words(
        "11223345 00000001 00000080 00000000 00000000 00000001 00000001 00123503 00001000
         11223345 00002000 00000000 00000000",
    );
    let mut lists = ChunkLists::new();
    let header = TransportHeader::parse(&mut Decoder::new(&call), &mut lists, LIMITS).unwrap();
    let target = segment(0x0012_3503, 4096, 0x1122_3345_0000_2000);
    assert_eq!(lists.writes().collect::<Vec<_>>(), [&[target][..]]);
    assert!(lists.reads().is_empty() && lists.reply().is_none());

    let reply = words(
        "11223345 00000001 00000040 00000000 00000000 00000001 00000001 00123503 00001000
         11223345 00002000 00000000 00000000",
    );
    let mut echo = ChunkLists::new();
    lists.echo_into(&mut echo, &[4096], 0);
    let header = TransportHeader {
        credits: 64,
        ..header
    };
    assert_eq!(emitted(|encoder| header.emit(encoder, &echo)), reply);
}

#[test]
fn calls_and_their_chunks() {
    let fixed = |procedure| TransportHeader {
        xid: 0x1122_3344,
        version: 1,
        credits: 128,
        procedure,
    };
    let mut none = ChunkLists::new();
    let mut read = ChunkLists::new();
    read.push_read(128, segment(0x0012_3402, 4096, 0x5566_f000));
    let mut write = ChunkLists::new();
    write.push_write(&[segment(1, 2, 3), segment(4, 5, 6)]);
    let mut reply = ChunkLists::new();
    reply.set_reply(&[segment(1, 2, 3), segment(4, 5, 6), segment(7, 8, 9)]);
    let mut long = ChunkLists::new();
    long.push_read(0, segment(1, 2, 3));
    none.clear();
    let cases = [
        (
            "11223344 00000001 00000080 00000000 00000000 00000000 00000000",
            fixed(TransportProcedure::Msg),
            none,
            28,
        ),
        (
            "11223344 00000001 00000080 00000000 00000001 00000080 00123402 00001000 00000000
             5566f000 00000000 00000000 00000000",
            fixed(TransportProcedure::Msg),
            read,
            28 + 24,
        ),
        (
            "11223344 00000001 00000080 00000000 00000000 00000001 00000002
             00000001 00000002 00000000 00000003 00000004 00000005 00000000 00000006
             00000000 00000000",
            fixed(TransportProcedure::Msg),
            write,
            28 + 8 + 32,
        ),
        (
            "11223344 00000001 00000080 00000001 00000001 00000000 00000001 00000002 00000000
             00000003 00000000 00000000 00000000",
            fixed(TransportProcedure::Nomsg),
            long,
            28 + 24,
        ),
        (
            "11223344 00000001 00000080 00000000 00000000 00000000 00000001 00000003
             00000001 00000002 00000000 00000003 00000004 00000005 00000000 00000006
             00000007 00000008 00000000 00000009",
            fixed(TransportProcedure::Msg),
            reply,
            28 + 4 + 48,
        ),
    ];
    for (text, header, lists, length) in cases {
        let bytes = words(text);
        assert_eq!(bytes.len(), length, "{text}");
        let mut found = ChunkLists::new();
        let mut decoder = Decoder::new(&bytes);
        assert_eq!(
            TransportHeader::parse(&mut decoder, &mut found, LIMITS),
            Ok(header),
            "{text}"
        );
        assert_eq!(decoder.finish(), Ok(()), "{text}");
        assert_eq!(found, lists, "{text}");
        assert_eq!(
            emitted(|encoder| header.emit(encoder, &lists)),
            bytes,
            "{text}"
        );
    }
}

#[test]
fn transport_errors() {
    let version = TransportError::Version { low: 1, high: 1 };
    let cases = [
        (
            "0000002a 00000002 00000040 00000004 00000001 00000001 00000001",
            2,
            version,
        ),
        (
            "0000002a 00000001 00000040 00000004 00000002",
            1,
            TransportError::Chunk,
        ),
    ];
    for (text, version, error) in cases {
        let bytes = words(text);
        let header = TransportHeader {
            xid: 42,
            version,
            credits: 64,
            procedure: TransportProcedure::Error(error),
        };
        let mut lists = ChunkLists::new();
        assert_eq!(
            TransportHeader::parse(&mut Decoder::new(&bytes), &mut lists, LIMITS),
            Ok(header)
        );
        assert_eq!(emitted(|encoder| header.emit(encoder, &lists)), bytes);
    }
    let done = words("0000002a 00000001 00000040 00000003");
    let mut lists = ChunkLists::new();
    let header = TransportHeader::parse(&mut Decoder::new(&done), &mut lists, LIMITS).unwrap();
    assert_eq!(header.procedure, TransportProcedure::Done);
}

#[test]
fn headers_that_must_be_refused() {
    let parse = |text: &str| {
        let bytes = words(text);
        TransportHeader::parse(&mut Decoder::new(&bytes), &mut ChunkLists::new(), LIMITS)
    };
    let chunk = |error| Err(TransportHeaderError::Chunk { xid: 1, error });
    assert_eq!(
        parse("00000001 00000001 00000080"),
        Err(TransportHeaderError::Short)
    );
    let version = TransportHeaderError::Version { xid: 1, version: 2 };
    assert_eq!(parse("00000001 00000002 00000080 00000000"), Err(version));
    for procedure in [2, 5] {
        let text = format!("00000001 00000001 00000080 {procedure:08x}");
        assert_eq!(
            parse(&text),
            Err(TransportHeaderError::Procedure { xid: 1, procedure })
        );
    }
    let fixed = "00000001 00000001 00000080 00000000";
    assert_eq!(
        parse(&format!("{fixed} 00000001 00000000")),
        chunk(XdrError::Short)
    );
    assert_eq!(parse(&format!("{fixed} 00000002")), chunk(XdrError::Bool));
    // A Write chunk that announces four thousand million segments, and one just beyond the limit.
    assert_eq!(
        parse(&format!("{fixed} 00000000 00000001 ffffffff")),
        chunk(XdrError::TooLong)
    );
    assert_eq!(
        parse(&format!("{fixed} 00000000 00000001 00000041")),
        chunk(XdrError::TooLong)
    );
    let reads = "00000001 00000000 00000001 00000001 00000000 00000000 ".repeat(65);
    assert_eq!(parse(&format!("{fixed} {reads}")), chunk(XdrError::TooLong));
    let writes = "00000001 00000000 ".repeat(9);
    assert_eq!(
        parse(&format!("{fixed} 00000000 {writes}")),
        chunk(XdrError::TooLong)
    );
    // RDMA_NOMSG without any list has no message at all.
    let empty = "00000001 00000001 00000080 00000001 00000000 00000000 00000000";
    assert_eq!(parse(empty), chunk(XdrError::Value));
}

#[test]
fn an_echo_fills_segments_in_order() {
    let mut lists = ChunkLists::new();
    lists.push_write(&[segment(1, 4096, 0), segment(2, 4096, 8), segment(3, 4, 16)]);
    lists.push_write(&[segment(4, 100, 0)]);
    lists.push_write(&[]);
    lists.set_reply(&[segment(5, 10, 0), segment(6, 10, 0)]);
    let mut echo = ChunkLists::new();
    echo.push_read(0, segment(9, 9, 9));
    lists.echo_into(&mut echo, &[5001], 12);
    let expected = [
        vec![segment(1, 4096, 0), segment(2, 905, 8), segment(3, 0, 16)],
        vec![segment(4, 0, 0)],
        vec![],
    ];
    assert_eq!(echo.writes().collect::<Vec<_>>(), expected);
    assert_eq!(
        echo.reply(),
        Some(&[segment(5, 10, 0), segment(6, 2, 0)][..])
    );
    assert!(echo.reads().is_empty());
    assert_eq!(lists.sole_handle(), None);
}

#[test]
fn private_data_of_linux_is_found_and_other_is_not() {
    let client = words("f6ab0e18 01010303");
    let expected = PrivateData {
        remote_invalidation: true,
        send_size: 4096,
        receive_size: 4096,
    };
    assert_eq!(PrivateData::find(&client), Some(expected));
    assert_eq!(expected.to_bytes(), client[..]);
    // Behind the four bytes of MPA's enhanced set-up, and unaligned.
    let server = words("00000080 00 f6ab0e18 01000303 ff");
    let expected = PrivateData {
        remote_invalidation: false,
        ..expected
    };
    assert_eq!(PrivateData::find(&server), Some(expected));
    assert_eq!(
        PrivateData::find(&words("f6ab0e18 02010303")),
        None,
        "unknown version"
    );
    assert_eq!(PrivateData::find(&client[..7]), None);
    let extremes = PrivateData {
        remote_invalidation: false,
        send_size: 1024,
        receive_size: 262_144,
    };
    assert_eq!(PrivateData::find(&extremes.to_bytes()), Some(extremes));
    assert_eq!(PrivateData::default().threshold_to(&extremes), 1024);
    assert_eq!(expected.threshold_to(&extremes), 4096);
}

#[test]
fn credentials_out_of_bounds() {
    let body = |groups: u32| {
        let mut out = Vec::new();
        let mut encoder = Encoder::new(&mut out);
        encoder.u32(0);
        encoder.opaque(b"machine");
        encoder.u32(1);
        encoder.u32(2);
        encoder.u32(groups);
        (0..groups.min(20)).for_each(|group| encoder.u32(group));
        out
    };
    assert_eq!(
        AuthSys::parse(&body(16)).unwrap().groups.as_slice().len(),
        16
    );
    assert_eq!(AuthSys::parse(&body(17)), Err(XdrError::TooLong));
    assert_eq!(AuthSys::parse(&body(u32::MAX)), Err(XdrError::TooLong));
    let trailing = [body(1), vec![0; 4]].concat();
    assert_eq!(AuthSys::parse(&trailing), Err(XdrError::Trailing));
    assert_eq!(Groups::new(&[7; 20]).as_slice(), [7; 16]);
}

#[test]
fn records_in_fragments_and_beyond_the_cap() {
    // "ab" + "" + "cde", the last fragment empty: legal, if odd.
    let stream = words("00000002 6162 00000000 00000003 636465 80000000");
    let mut reader = RecordReader::new(5, 4);
    let (mut input, mut record, mut ended) = (&stream[..], Vec::new(), false);
    while !input.is_empty() {
        let (event, count) = reader.next(input).unwrap();
        input = &input[count..];
        if let RecordEvent::Piece { bytes, ends } = event {
            record.extend_from_slice(bytes);
            ended |= ends;
        }
    }
    // The piece that ends an empty last fragment takes no bytes: ask once more.
    let (event, count) = reader.next(input).unwrap();
    ended |= matches!(
        event,
        RecordEvent::Piece {
            bytes: &[],
            ends: true
        }
    );
    assert_eq!((record.as_slice(), ended, count), (&b"abcde"[..], true, 0));
    assert!(reader.at_boundary());

    let too_long = words("00000003 616263 80000003");
    let mut reader = RecordReader::new(5, 4);
    reader.next(&too_long).unwrap();
    reader.next(&too_long[4..]).unwrap();
    assert_eq!(
        reader.next(&too_long[7..]),
        Err(RecordError::TooLong { length: 6 })
    );
    let huge = words("ffffffff");
    let length = 0x7fff_ffff;
    assert_eq!(
        RecordReader::new(5, 4).whole(&huge),
        Err(RecordError::TooLong { length })
    );
    assert_eq!(
        RecordReader::new(5, 4).next(&huge),
        Err(RecordError::TooLong { length })
    );
    let mut reader = RecordReader::new(5, 4);
    for _ in 0..4 {
        reader.next(&[0; 4]).unwrap();
    }
    assert_eq!(
        reader.next(&[0; 4]),
        Err(RecordError::TooManyFragments { limit: 4 })
    );
}
