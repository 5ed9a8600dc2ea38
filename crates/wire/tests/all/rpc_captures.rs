//! Every Send between a Linux 6.1 client and knfsd, decoded down to its RPC header.

#![allow(clippy::unwrap_used)]

use gannet_wire::rpc::{
    AcceptStatus, AuthFlavor, AuthSys, CallHeader, OpaqueAuth, ReplyHeader, ReplyOutcome,
};
use gannet_wire::rpcrdma::{
    ChunkLimits, ChunkLists, PrivateData, TransportHeader, TransportProcedure,
};
use gannet_wire::xdr::{Decoder, Encoder};
use std::collections::BTreeMap;
use std::path::Path;

const LIMITS: ChunkLimits = ChunkLimits {
    segments_max: 64,
    write_chunks_max: 8,
};
/// MPA length, DDP and RDMAP control, then the untagged header.
const UNTAGGED_AT: usize = 20;

fn bytes_of(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex
        .trim()
        .chars()
        .map(|it| it.to_digit(16).unwrap() as u8)
        .collect();
    digits
        .chunks(2)
        .map(|pair| pair[0] << 4 | pair[1])
        .collect()
}

fn number(details: &str, name: &str) -> usize {
    let value = details
        .split(' ')
        .find_map(|word| word.strip_prefix(name))
        .unwrap();
    value.parse().unwrap()
}

/// The messages of `name`: whether the client sent it, what the capture's decoder said of it, its bytes.
fn messages(name: &str) -> Vec<(bool, String, Vec<u8>)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../vectors")
        .join(name);
    let text = std::fs::read_to_string(path).unwrap();
    let mut partial: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    let mut found = Vec::new();
    for line in text.lines().filter(|line| line.contains(" send")) {
        let (about, hex) = line.split_once(" | ").unwrap();
        let stream = about.split(" send").next().unwrap().to_string();
        let frame = bytes_of(hex);
        let message = partial.entry(stream.clone()).or_default();
        message.extend_from_slice(&frame[UNTAGGED_AT..][..number(about, "payload=")]);
        if number(about, "last=") == 1 {
            let from_client = stream.ends_with("i>r");
            found.push((from_client, about.to_string(), std::mem::take(message)));
        }
    }
    found
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    calls: usize,
    replies: usize,
    read_chunks: usize,
    write_chunks: usize,
    reply_chunks: usize,
    long_calls: usize,
    long_replies: usize,
    garbage_args: usize,
}

fn check_call(
    seen: &mut Seen,
    header: &TransportHeader,
    lists: &ChunkLists,
    mut decoder: Decoder<'_>,
) {
    seen.calls += 1;
    if header.procedure == TransportProcedure::Nomsg {
        seen.long_calls += 1;
        assert!(lists.reads().iter().any(|read| read.position == 0));
        return assert_eq!(decoder.finish(), Ok(()));
    }
    let start = decoder.position();
    let call = CallHeader::parse(&mut decoder).unwrap();
    assert_eq!(call.xid, header.xid);
    assert_eq!(call.verifier, OpaqueAuth::NONE);
    assert!([100_003, 100_227].contains(&call.program) && call.version == 3);
    if call.credential.flavor == AuthFlavor::SYS {
        let credential = AuthSys::parse(call.credential.body).unwrap();
        assert!(credential.machine_name.starts_with(b"lab"));
    } else {
        assert_eq!((call.credential, call.procedure), (OpaqueAuth::NONE, 0));
    }
    // A Read chunk of a WRITE stands where the reduced call ends; of a SYMLINK likewise.
    for read in lists.reads() {
        let end = decoder.position() + decoder.remaining().len() - start;
        assert_eq!(read.position as usize, end);
    }
}

fn check_reply(
    seen: &mut Seen,
    header: &TransportHeader,
    lists: &ChunkLists,
    mut decoder: Decoder<'_>,
) {
    seen.replies += 1;
    assert_eq!(header.credits, 64);
    assert!(lists.reads().is_empty());
    if header.procedure == TransportProcedure::Nomsg {
        seen.long_replies += 1;
        assert!(lists.reply().is_some());
        return assert_eq!(decoder.finish(), Ok(()));
    }
    let reply = ReplyHeader::parse(&mut decoder).unwrap();
    assert_eq!(reply.xid, header.xid);
    let ReplyOutcome::Accepted { verifier, status } = reply.outcome else {
        panic!("denied: {reply:?}");
    };
    assert_eq!(verifier, OpaqueAuth::NONE);
    if status != AcceptStatus::Success {
        assert_eq!(status, AcceptStatus::GarbageArgs);
        seen.garbage_args += 1;
    }
}

fn check(name: &str) -> Seen {
    let mut seen = Seen::default();
    let mut lists = ChunkLists::new();
    for (from_client, about, bytes) in messages(name) {
        let mut decoder = Decoder::new(&bytes);
        let header = TransportHeader::parse(&mut decoder, &mut lists, LIMITS)
            .unwrap_or_else(|error| panic!("{about}: {error}"));
        let mut again = Vec::new();
        header.emit(&mut Encoder::new(&mut again), &lists);
        assert_eq!(again, bytes[..decoder.position()], "{about}");
        assert!(
            about.contains(&format!("xid={:08x}", header.xid)),
            "{about}"
        );
        assert!(
            about.contains(&format!("credits={}", header.credits)),
            "{about}"
        );
        if let TransportProcedure::Error(_) = header.procedure {
            continue;
        }
        if from_client {
            seen.read_chunks += usize::from(!lists.reads().is_empty());
            seen.write_chunks += lists.writes().len();
            seen.reply_chunks += usize::from(lists.reply().is_some());
            check_call(&mut seen, &header, &lists, decoder);
        } else {
            check_reply(&mut seen, &header, &lists, decoder);
        }
    }
    seen
}

#[test]
fn every_message_shape_of_linux() {
    let seen = check("siw-nfs.frames");
    assert!(seen.calls >= 40 && seen.replies >= 40, "{seen:?}");
    assert!(seen.read_chunks >= 3 && seen.write_chunks >= 3, "{seen:?}");
    assert!(
        seen.reply_chunks >= 3 && seen.long_replies >= 3 && seen.long_calls >= 1,
        "{seen:?}"
    );
}

#[test]
fn with_crc_and_peer_to_peer() {
    for name in ["siw-nfs-crc.frames", "siw-nfs-p2p-read.frames"] {
        let seen = check(name);
        assert!(
            seen.calls > 5 && seen.write_chunks > 0 && seen.read_chunks > 0,
            "{name}: {seen:?}"
        );
    }
}

#[test]
fn private_data_is_found_in_mpa_frames() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/siw-nfs.frames");
    let text = std::fs::read_to_string(path).unwrap();
    for (kind, remote_invalidation) in [("mpa-request", true), ("mpa-reply", false)] {
        let line = text.lines().find(|line| line.contains(kind)).unwrap();
        let frame = bytes_of(line.split_once(" | ").unwrap().1);
        let expected = PrivateData {
            remote_invalidation,
            send_size: 4096,
            receive_size: 4096,
        };
        assert_eq!(PrivateData::find(&frame[20..]), Some(expected), "{kind}");
    }
}
