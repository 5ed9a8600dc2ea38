//! Messages of the volume protocol, and the records of its metadata store.

use crate::iwarp::check_line;
use gannet_meta::reply_cache::Done;
use gannet_volume::layout::{Pairs, Step, own_len, pairs, pairs_together, parts};
use gannet_wire::volume::{
    Accepted, AccessAnswer, AttributeRecord, Call, ClaimRecord, ClientBuffer, ClientDrivenDone,
    FilePage, Found, FoundFiles, Granted, Hello, Inode, LayoutRecord, Memory, MessageHeader,
    ObjectList, ObjectPage, ObjectPosition, ObjectRange, ObjectState, ObjectStates, Operation,
    OrphanStatuses, Page, Referenced, Shape, TermAnswer, TermCall, Transfer, TransferDone,
    VolumeRecord, VolumeRequest, version_in,
};
use gannet_wire::xdr::{Decode, Encode, Encoder, Print, Printed, from_bytes};
use std::fmt::Debug;

/// Decodes a value, prints it, encodes it, and decodes that: it must be the same.
fn check<T: for<'a> Decode<'a> + Encode + Print + PartialEq + Debug>(bytes: &[u8]) -> Option<T> {
    let value = check_record::<T>(bytes)?;
    check_line(&Printed(&value));
    Some(value)
}

/// Decodes a value, encodes it, and decodes that: it must be the same.
fn check_record<T: for<'a> Decode<'a> + Encode + PartialEq + Debug>(bytes: &[u8]) -> Option<T> {
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
        check_line(&hello);
        assert_eq!(Hello::from_bytes(&hello.to_bytes()), Some(hello));
    }
    if let Some(accepted) = Accepted::from_bytes(data) {
        check_line(&accepted);
        assert_eq!(Accepted::from_bytes(&accepted.to_bytes()), Some(accepted));
    }
}

/// A message, and its body as its operation reads it.
pub(crate) fn volume_message(data: &[u8]) {
    let Ok((header, body, _)) = MessageHeader::split(data) else {
        return;
    };
    check_line(&header);
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
            check::<ClientDrivenDone>(body);
        }
        Operation::Commit | Operation::Truncate | Operation::Unlink | Operation::Revoke => {
            check::<ObjectRange>(body);
            check::<ObjectState>(body);
        }
        Operation::OpenBuffer | Operation::CloseBuffer => {
            check::<ObjectRange>(body);
            check::<Option<ClientBuffer>>(body);
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
        Operation::Volume => {
            check::<VolumeRequest>(body);
            check::<VolumeRecord>(body);
        }
        operation => {
            if let Ok(asked) = Call::from_body(operation, body) {
                let again = asked.call.to_body(&asked.caller, &asked.slot_sequence);
                let again = asked.request.map_or(again.clone(), |it| it.behind(&again));
                check_line(&asked.call);
                assert_eq!(Call::from_body(operation, &again), Ok(asked));
            }
            check::<Found>(body);
            check::<Granted>(body);
            check::<Page>(body);
            check::<Referenced<Page>>(body);
            check::<Referenced<FoundFiles>>(body);
            check::<FilePage>(body);
            check::<OrphanStatuses>(body);
            check::<ClaimRecord>(body);
            check::<FoundFiles>(body);
            check::<AccessAnswer>(body);
        }
    }
}

/// Steps of a walk: a million pieces take their time, and the later ones show nothing new.
const STEPS: usize = 1024;

/// A server's share of a transfer: its own bytes, each once, in the order of the stream, a bounded step at a time.
fn shares(transfer: &Transfer) {
    let (file, placement) = (&transfer.file, transfer.placement);
    let mut walk = parts(file, placement);
    let (mut end, mut sum, mut is_whole) = (0, 0, false);
    for _ in 0..STEPS {
        match walk.step() {
            Step::Item(part) => {
                assert!(part.len > 0 && part.stream_offset >= end);
                end = part.stream_offset + u64::from(part.len);
                sum += u64::from(part.len);
            }
            Step::Nothing => {}
            Step::End => is_whole = true,
        }
    }
    assert!(end <= file.len());
    if is_whole {
        assert_eq!(sum, own_len(file, placement));
    }
    let together = moved(pairs_together(file, placement, 0));
    assert!(!is_whole || together == (sum, true));
    if let Memory::Region { shape, .. } = &transfer.memory {
        let (len, has_ended) = moved(pairs(file, placement, shape));
        assert!(!(is_whole && has_ended) || len == sum);
        assert!(len <= file.len().min(shape.len()));
    }
}

/// Bytes that a walk moves in so many steps, and whether it has come to its end.
fn moved(mut pairs: Pairs<'_>) -> (u64, bool) {
    let mut len = 0;
    for _ in 0..STEPS {
        match pairs.step() {
            Step::Item(pair) => len += u64::from(pair.len),
            Step::Nothing => {}
            Step::End => return (len, true),
        }
    }
    (len, false)
}

/// Records of the metadata store.
pub(crate) fn volume_records(data: &[u8]) {
    check::<Inode>(data);
    check_record::<Done>(data);
    check::<LayoutRecord>(data);
    check::<Shape>(data);
    if let Ok(record) = AttributeRecord::from_bytes(data)
        && record != AttributeRecord::Torn
    {
        let again = AttributeRecord::from_bytes(&record.to_bytes(2));
        assert_eq!(again, Ok(record));
    }
}
