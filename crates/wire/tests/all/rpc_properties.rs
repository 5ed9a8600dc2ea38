//! Properties of the RPC and RPC/RDMA codecs over arbitrary values and arbitrary bytes.

#![allow(clippy::unwrap_used)]

use gannet_wire::rpc::{
    AcceptStatus, AuthFlavor, AuthStat, AuthSys, CallHeader, Groups, OpaqueAuth, RecordEvent,
    RecordMark, RecordReader, Rejection, ReplyHeader, ReplyOutcome,
};
use gannet_wire::rpcrdma::{
    ChunkLimits, ChunkLists, PrivateData, Segment, TransportError, TransportHeader,
    TransportProcedure,
};
use gannet_wire::xdr::{Decoder, Encoder};
use proptest::collection::vec;
use proptest::prelude::*;

const LIMITS: ChunkLimits = ChunkLimits {
    segments_max: 64,
    write_chunks_max: 8,
};

fn emitted(emit: impl FnOnce(&mut Encoder<'_>)) -> Vec<u8> {
    let mut out = Vec::new();
    emit(&mut Encoder::new(&mut out));
    out
}

prop_compose! {
    fn segment()(handle: u32, length: u32, offset: u64) -> Segment {
        Segment { handle, length, offset }
    }
}

prop_compose! {
    fn lists()(
        reads in vec((any::<u32>(), segment()), 0..5),
        writes in vec(vec(segment(), 0..5), 0..5),
        reply in proptest::option::of(vec(segment(), 0..5)),
    ) -> ChunkLists {
        let mut lists = ChunkLists::new();
        reads.into_iter().for_each(|(position, segment)| lists.push_read(position, segment));
        writes.iter().for_each(|chunk| lists.push_write(chunk));
        if let Some(reply) = reply {
            lists.set_reply(&reply);
        }
        lists
    }
}

fn status() -> impl Strategy<Value = AcceptStatus> {
    prop_oneof![
        Just(AcceptStatus::Success),
        Just(AcceptStatus::ProgUnavail),
        any::<(u32, u32)>().prop_map(|(low, high)| AcceptStatus::ProgMismatch { low, high }),
        Just(AcceptStatus::ProcUnavail),
        Just(AcceptStatus::GarbageArgs),
        Just(AcceptStatus::SystemErr),
    ]
}

proptest! {
    #[test]
    fn call_headers_come_back(
        xid: u32, program: u32, version: u32, procedure: u32,
        flavors: [u32; 2],
        bodies in (vec(any::<u8>(), 0..=400), vec(any::<u8>(), 0..=400)),
        arguments in vec(any::<u8>(), 0..16),
    ) {
        let credential = OpaqueAuth { flavor: AuthFlavor(flavors[0]), body: &bodies.0 };
        let verifier = OpaqueAuth { flavor: AuthFlavor(flavors[1]), body: &bodies.1 };
        let header = CallHeader { xid, program, version, procedure, credential, verifier };
        let mut bytes = emitted(|encoder| header.emit(encoder));
        prop_assert_eq!(bytes.len(), header.encoded_len());
        bytes.extend_from_slice(&arguments);
        let mut decoder = Decoder::new(&bytes);
        prop_assert_eq!(CallHeader::parse(&mut decoder), Ok(header));
        prop_assert_eq!(decoder.remaining(), &arguments[..]);
    }

    #[test]
    fn reply_headers_come_back(
        xid: u32,
        body in vec(any::<u8>(), 0..=400),
        status in status(),
        rejection in prop_oneof![
            any::<(u32, u32)>().prop_map(|(low, high)| Rejection::RpcMismatch { low, high }),
            any::<u32>().prop_map(|status| Rejection::AuthError(AuthStat(status))),
        ],
        denied: bool,
    ) {
        let verifier = OpaqueAuth { flavor: AuthFlavor::NONE, body: &body };
        let outcome = if denied {
            ReplyOutcome::Denied(rejection)
        } else {
            ReplyOutcome::Accepted { verifier, status }
        };
        let header = ReplyHeader { xid, outcome };
        let bytes = emitted(|encoder| header.emit(encoder));
        prop_assert_eq!(ReplyHeader::parse(&mut Decoder::new(&bytes)), Ok(header));
    }

    #[test]
    fn credentials_come_back(
        stamp: u32, uid: u32, gid: u32,
        name in vec(any::<u8>(), 0..=255),
        groups in vec(any::<u32>(), 0..=16),
    ) {
        let groups = Groups::new(&groups);
        let credential = AuthSys { stamp, machine_name: &name, uid, gid, groups };
        let body = emitted(|encoder| credential.emit(encoder));
        prop_assert_eq!(AuthSys::parse(&body), Ok(credential));
    }

    #[test]
    fn transport_headers_come_back(
        xid: u32, credits: u32, lists in lists(), long: bool,
        message in vec(any::<u8>(), 0..16),
    ) {
        let can_be_long = !lists.reads().is_empty() || lists.reply().is_some();
        let procedure = if long && can_be_long {
            TransportProcedure::Nomsg
        } else {
            TransportProcedure::Msg
        };
        let header = TransportHeader { xid, version: 1, credits, procedure };
        let mut bytes = emitted(|encoder| header.emit(encoder, &lists));
        prop_assert_eq!(bytes.len(), 16 + lists.encoded_len());
        bytes.extend_from_slice(&message);
        let mut found = ChunkLists::new();
        let mut decoder = Decoder::new(&bytes);
        prop_assert_eq!(TransportHeader::parse(&mut decoder, &mut found, LIMITS), Ok(header));
        prop_assert_eq!(decoder.remaining(), &message[..]);
        prop_assert_eq!(found, lists);
    }

    #[test]
    fn transport_errors_come_back(xid: u32, version: u32, credits: u32, low: u32, high: u32) {
        for error in [TransportError::Chunk, TransportError::Version { low, high }] {
            let procedure = TransportProcedure::Error(error);
            let header = TransportHeader { xid, version, credits, procedure };
            let bytes = emitted(|encoder| header.emit(encoder, &ChunkLists::new()));
            let (mut decoder, mut lists) = (Decoder::new(&bytes), ChunkLists::new());
            let parsed = TransportHeader::parse(&mut decoder, &mut lists, LIMITS);
            prop_assert_eq!(parsed, Ok(header));
        }
    }

    /// A value that was parsed from any bytes is emitted as these bytes (except XDR pads).
    #[test]
    fn arbitrary_bytes_parse_to_what_emits_them(
        bytes in vec(0u8..4, 0..200),
        whole in vec(any::<u8>(), 0..200),
    ) {
        for bytes in [bytes, whole] {
            let mut lists = ChunkLists::new();
            let mut decoder = Decoder::new(&bytes);
            if let Ok(header) = TransportHeader::parse(&mut decoder, &mut lists, LIMITS) {
                let again = emitted(|encoder| header.emit(encoder, &lists));
                prop_assert_eq!(&again[..], &bytes[..decoder.position()]);
            }
            let mut decoder = Decoder::new(&bytes);
            if let Ok(header) = CallHeader::parse(&mut decoder) {
                let again = emitted(|encoder| header.emit(encoder));
                prop_assert_eq!(again.len(), decoder.position());
                prop_assert_eq!(CallHeader::parse(&mut Decoder::new(&again)), Ok(header));
            }
            let mut decoder = Decoder::new(&bytes);
            if let Ok(header) = ReplyHeader::parse(&mut decoder) {
                let again = emitted(|encoder| header.emit(encoder));
                prop_assert_eq!(ReplyHeader::parse(&mut Decoder::new(&again)), Ok(header));
            }
            if let Ok(credential) = AuthSys::parse(&bytes) {
                let again = emitted(|encoder| credential.emit(encoder));
                prop_assert_eq!(again.len(), bytes.len());
            }
            if let Some(data) = PrivateData::find(&bytes) {
                prop_assert_eq!(PrivateData::find(&data.to_bytes()), Some(data));
            }
        }
    }

    /// Echoed lengths never exceed what was offered, and add up to what was written where it fits.
    #[test]
    fn echoes_account_for_every_byte(lists in lists(), written in vec(any::<u64>(), 0..6)) {
        let written: Vec<u64> = written.iter().map(|count| count >> 28).collect();
        let mut echo = ChunkLists::new();
        lists.echo_into(&mut echo, &written, 77);
        prop_assert_eq!(echo.writes().len(), lists.writes().len());
        for (index, (old, new)) in lists.writes().zip(echo.writes()).enumerate() {
            prop_assert_eq!(old.len(), new.len());
            let offered: u64 = old.iter().map(|segment| u64::from(segment.length)).sum();
            let told: u64 = new.iter().map(|segment| u64::from(segment.length)).sum();
            prop_assert_eq!(told, offered.min(written.get(index).copied().unwrap_or(0)));
        }
    }

    /// However a stream is sliced and however its records are cut into fragments, the records come out.
    #[test]
    fn records_survive_any_slicing(
        records in vec(vec(vec(any::<u8>(), 0..9), 1..5), 1..6),
        slices in vec(1usize..7, 1..40),
    ) {
        let mut stream = Vec::new();
        for record in &records {
            for (index, fragment) in record.iter().enumerate() {
                let last = index + 1 == record.len();
                let length = u32::try_from(fragment.len()).unwrap();
                stream.extend_from_slice(&RecordMark { last, length }.to_bytes());
                stream.extend_from_slice(fragment);
            }
        }
        let mut reader = RecordReader::new(64, 8);
        let (mut found, mut current) = (Vec::new(), Vec::new());
        let (mut start, mut end) = (0, 0);
        for slice in slices.iter().cycle() {
            end = (end + slice).min(stream.len());
            loop {
                let (event, count) = reader.next(&stream[start..end]).unwrap();
                start += count;
                match event {
                    RecordEvent::NeedMore => break,
                    RecordEvent::Fragment(_) => {}
                    RecordEvent::Piece { bytes, ends } => {
                        current.extend_from_slice(bytes);
                        if ends {
                            found.push(std::mem::take(&mut current));
                        }
                    }
                }
            }
            if end == stream.len() {
                break;
            }
        }
        let expected: Vec<Vec<u8>> = records.iter().map(|record| record.concat()).collect();
        prop_assert_eq!(found, expected);
        prop_assert!(reader.at_boundary());
    }

    #[test]
    fn a_record_reader_never_panics(
        bytes in vec(any::<u8>(), 0..100),
        steps in vec(0usize..9, 0..20),
    ) {
        let mut reader = RecordReader::new(1 << 20, 8);
        let mut input = &bytes[..];
        for step in steps {
            reader.advance(step);
            let _ = reader.whole(input);
            match reader.next(input) {
                Ok((_, count)) => input = &input[count..],
                Err(_) => break,
            }
        }
    }
}
