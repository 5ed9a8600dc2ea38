//! Messages of the volume protocol, and the records of its metadata store.

use gannet_volume::calls::{self, Call, Found, Granted, Page};
use gannet_volume::layout::{own_len, pairs, parts};
use gannet_volume::meta::Inode;
use gannet_volume::meta::answers::Done;
use gannet_wire::nfs3::{Decode, Encode, from_bytes};
use gannet_wire::volume::{
    Accepted, ClaimRecord, FilePage, Header, Hello, LayoutRecord, Lent, LentDone, Memory,
    ObjectList, ObjectPage, ObjectPosition, ObjectRange, ObjectState, ObjectStates, Operation,
    Shape, Standings, TermAnswer, TermCall, Transfer, TransferDone, version_in,
};
use gannet_wire::xdr::Encoder;
use std::fmt::Debug;

/// Decodes a value, encodes it, and decodes that: it must be the same.
fn check<T: for<'a> Decode<'a> + Encode + PartialEq + Debug>(bytes: &[u8]) -> Option<T> {
    let value = from_bytes::<T>(bytes).ok()?;
    let mut out = Vec::new();
    value.encode(&mut Encoder::new(&mut out));
    assert_eq!(from_bytes::<T>(&out).as_ref(), Ok(&value));
    Some(value)
}

/// Private data of either side.
pub(crate) fn volume_hello(data: &[u8]) {
    // Of any length.
    let _ = version_in(data);
    if let Some(hello) = Hello::from_bytes(data) {
        assert_eq!(Hello::from_bytes(&hello.to_bytes()), Some(hello));
    }
    if let Some(accepted) = Accepted::from_bytes(data) {
        assert_eq!(Accepted::from_bytes(&accepted.to_bytes()), Some(accepted));
    }
}

/// A message, and its body as its operation reads it.
pub(crate) fn volume_message(data: &[u8]) {
    let Ok((header, body, _)) = Header::split(data) else {
        return;
    };
    let bytes = header.to_bytes();
    assert_eq!(
        data.get(..bytes.len()).map(|it| &it[..7]),
        Some(&bytes[..7])
    );
    match header.operation {
        Operation::Read | Operation::Write => {
            if let Some(transfer) = check::<Transfer>(body) {
                shares(&transfer);
            }
            check::<TransferDone>(body);
            check::<LentDone>(body);
        }
        Operation::Commit | Operation::Truncate | Operation::Unlink => {
            check::<ObjectRange>(body);
            check::<ObjectState>(body);
        }
        Operation::Lend | Operation::Return => {
            check::<ObjectRange>(body);
            check::<Option<Lent>>(body);
            check::<u64>(body);
        }
        Operation::States => {
            check::<ObjectList>(body);
            check::<ObjectStates>(body);
        }
        Operation::Objects => {
            check::<ObjectPosition>(body);
            check::<ObjectPage>(body);
        }
        Operation::Term => {
            check::<TermCall>(body);
            check::<TermAnswer>(body);
        }
        operation => {
            if let Ok((caller, ticket, call)) = Call::from_body(operation, body) {
                let again = Call::from_body(operation, &call.to_body(&caller, &ticket));
                assert_eq!(again, Ok((caller, ticket, call)));
            }
            check::<Found>(body);
            check::<Granted>(body);
            check::<Page>(body);
            check::<FilePage>(body);
            check::<Standings>(body);
            check::<ClaimRecord>(body);
            // Nothing to compare: these are read by hand.
            let _ = (calls::parse_access(body), calls::parse_link(body));
            let _ = calls::parse_found(body);
        }
    }
}

/// What a server makes of a transfer: its own bytes, each once, in the order of the stream.
fn shares(transfer: &Transfer) {
    // Small ones alone: a million pieces take their time, and show nothing new.
    if transfer.file.pieces().take(257).count() > 256 {
        return;
    }
    let (mut end, mut sum) = (0, 0);
    for part in parts(&transfer.file, transfer.placement) {
        assert!(part.len > 0 && part.stream_offset >= end);
        end = part.stream_offset + u64::from(part.len);
        sum += u64::from(part.len);
    }
    assert!(end <= transfer.file.len());
    assert_eq!(sum, own_len(&transfer.file, transfer.placement));
    if let Memory::Region { shape, .. } = &transfer.memory
        && shape.pieces().take(257).count() <= 256
    {
        let moved = pairs(&transfer.file, transfer.placement, shape);
        assert_eq!(moved.map(|pair| u64::from(pair.len)).sum::<u64>(), sum);
    }
}

/// Records of the metadata store.
pub(crate) fn volume_records(data: &[u8]) {
    check::<Inode>(data);
    check::<Done>(data);
    check::<LayoutRecord>(data);
    check::<Shape>(data);
}
