//! XDR, ONC RPC, record marks, RPC-over-RDMA.

use crate::iwarp::check_line;
use gannet_wire::rpc::{AuthFlavor, AuthSys, CallHeader, RecordEvent, RecordReader, ReplyHeader};
use gannet_wire::rpcrdma::{ChunkLimits, ChunkLists, PrivateData, TransportHeader};
use gannet_wire::xdr::{Decoder, Encoder};

/// Bounds like those of the transports.
const CHUNK_LIMITS: ChunkLimits = ChunkLimits {
    segments_max: 64,
    write_chunks_max: 8,
};
const RECORD_MAX: u32 = (1 << 20) + (64 << 10);
const FRAGMENTS_MAX: u32 = 1024;

/// The first byte of each step says what to take next.
pub(crate) fn xdr(data: &[u8]) {
    let (steps, rest) = data.split_at(data.len().min(16) / 4);
    let mut decoder = Decoder::new(rest);
    for step in steps {
        let max = usize::from(*step) << (step % 8);
        let is_done = match step % 8 {
            0 => decoder.u32().is_err(),
            1 => decoder.u64().is_err(),
            2 => decoder.bool().is_err(),
            3 => decoder.fixed::<12>().is_err(),
            4 => decoder.opaque(max).is_ok_and(|bytes| bytes.len() > max),
            5 => decoder.string(max).is_ok_and(|bytes| bytes.len() > max),
            6 => decoder.u32_array::<16>().is_ok_and(|(_, count)| count > 16),
            _ => decoder.bytes(max).is_ok_and(|bytes| bytes.len() != max),
        };
        assert!(decoder.position() <= rest.len());
        if is_done {
            return;
        }
    }
}

/// The stream is cut into records at once and in slices of a length that the first byte gives; both agree.
pub(crate) fn record(data: &[u8]) {
    let Some((slice, stream)) = data.split_first() else {
        return;
    };
    let whole = records(stream, stream.len().max(1));
    let sliced = records(stream, usize::from(*slice) + 1);
    assert_eq!(whole, sliced, "slicing changes nothing");
}

/// The complete records of a stream that arrives in slices, and whether it broke a rule.
fn records(stream: &[u8], slice: usize) -> (Vec<Vec<u8>>, bool) {
    let mut reader = RecordReader::new(RECORD_MAX, FRAGMENTS_MAX);
    let (mut found, mut current) = (Vec::new(), Vec::new());
    let (mut start, mut arrived) = (0, 0);
    loop {
        let input = stream.get(start..arrived).unwrap_or_default();
        match reader.next(input) {
            Err(_) => return (found, true),
            Ok((RecordEvent::NeedMore, used)) => {
                assert_eq!(used, 0);
                if arrived == stream.len() {
                    return (found, false);
                }
                arrived = (arrived + slice).min(stream.len());
            }
            Ok((RecordEvent::Fragment(_), used)) => start += used,
            Ok((RecordEvent::Piece { bytes, ends }, used)) => {
                current.extend_from_slice(bytes);
                assert!(current.len() <= RECORD_MAX as usize);
                start += used;
                if ends {
                    found.push(std::mem::take(&mut current));
                }
            }
        }
    }
}

pub(crate) fn rpc_call(data: &[u8]) {
    let mut decoder = Decoder::new(data);
    let Ok(header) = CallHeader::parse(&mut decoder) else {
        return;
    };
    if header.credential.flavor == AuthFlavor::SYS
        && let Ok(caller) = AuthSys::parse(header.credential.body)
    {
        check_line(&caller);
        let mut out = Vec::new();
        caller.emit(&mut Encoder::new(&mut out));
        assert_eq!(AuthSys::parse(&out), Ok(caller));
    }
    check_line(&header);
    let mut out = Vec::new();
    header.emit(&mut Encoder::new(&mut out));
    assert_eq!(CallHeader::parse(&mut Decoder::new(&out)), Ok(header));
}

pub(crate) fn rpc_reply(data: &[u8]) {
    let mut decoder = Decoder::new(data);
    let Ok(header) = ReplyHeader::parse(&mut decoder) else {
        return;
    };
    check_line(&header);
    let mut out = Vec::new();
    header.emit(&mut Encoder::new(&mut out));
    assert_eq!(ReplyHeader::parse(&mut Decoder::new(&out)), Ok(header));
}

pub(crate) fn rpcrdma(data: &[u8]) {
    let mut lists = ChunkLists::new();
    let mut decoder = Decoder::new(data);
    let Ok(header) = TransportHeader::parse(&mut decoder, &mut lists, CHUNK_LIMITS) else {
        return;
    };
    assert!(lists.reads().len() <= CHUNK_LIMITS.segments_max);
    assert!(lists.write_segments().len() <= CHUNK_LIMITS.segments_max);
    check_line(&header);
    check_line(&lists);
    let mut out = Vec::new();
    header.emit(&mut Encoder::new(&mut out), &lists);
    let mut again = ChunkLists::new();
    let parsed = TransportHeader::parse(&mut Decoder::new(&out), &mut again, CHUNK_LIMITS);
    assert_eq!(parsed, Ok(header));
    assert_eq!(again, lists);
    // A server echoes the lists with the lengths it wrote, whatever they were.
    let mut echo = ChunkLists::new();
    lists.echo_into(&mut echo, &[u64::MAX, 1], 7);
    assert!(echo.encoded_len() <= lists.encoded_len());
    let _ = lists.sole_handle();
}

pub(crate) fn private_data(data: &[u8]) {
    if let Some(found) = PrivateData::find(data) {
        check_line(&found);
        assert!(found.threshold_to(&PrivateData::default()) >= 1024);
        assert!(found.threshold_to(&found) >= 1024);
        assert_eq!(PrivateData::find(&found.to_bytes()), Some(found));
    }
}
