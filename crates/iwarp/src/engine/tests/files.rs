//! File ranges that the stream cannot send by itself, so that they are read while their FPDU is half on its way.

use super::*;
use crate::engine::outgoing::FetchPlace;
use gannet_fabric::Access;
use gannet_runtime::{FileRef, FileSource};
use gannet_wire::mpa::Fpdu;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

const LEN: u32 = 40_000;

/// A file whose pages are all there; what it holds comes from the test.
struct Resident(File);

impl FileSource for Resident {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.0.as_fd())
    }

    fn try_read_at(&self, _offset: u64, _buffer: &mut [u8]) -> io::Result<usize> {
        unreachable!("a resident range leaves by sendfile")
    }

    fn read_at(&self, _offset: u64, _buffer: &mut [u8]) -> io::Result<usize> {
        unreachable!("the test brings the bytes")
    }

    fn is_resident(&self, _offset: u64, _len: u64) -> bool {
        true
    }
}

fn resident() -> FileRef {
    Arc::new(Resident(tempfile::tempfile().unwrap()))
}

/// Writes from files and a Send behind them are framed; the first header has left, and the stream could not send the
/// file behind it.
fn stuck_at_a_file(writes: &[u64]) -> End {
    let mut end = End::new(Role::Initiator, AGREED, 64_768);
    let target = RemoteAddress {
        key: gannet_fabric::RemoteKey(0x1234),
        offset: 0,
    };
    for id in writes {
        let from = Source::File {
            file: resident(),
            offset: 0,
            len: LEN,
        };
        let posted = end
            .engine
            .post_write(WorkId(*id), from, target, Signal::Always);
        posted.unwrap();
    }
    let signalled = SendOptions {
        signal: Signal::Always,
        ..SendOptions::default()
    };
    let posted = end
        .engine
        .post_send(WorkId(3), source(b"all is there"), signalled);
    posted.unwrap();
    reach_the_file(&mut end);
    end
}

/// Lets what stands before the first file leave, and says that the file cannot.
fn reach_the_file(end: &mut End) {
    end.engine.prepare();
    let head = end.engine.outgoing(|outgoing| match outgoing {
        Outgoing::Bytes(slices, _) => slices.iter().map(|slice| slice.len()).sum(),
        _ => panic!("no header before the file"),
    });
    end.engine.sent(head);
    let is_file = end
        .engine
        .outgoing(|outgoing| matches!(outgoing, Outgoing::File { .. }));
    assert!(is_file);
    end.engine.send_file_unsupported();
    let fetch = end.engine.fetch_wanted().unwrap();
    assert_eq!((fetch.place, fetch.len), (FetchPlace::Front, LEN as usize));
    assert!(end.engine.has_unsent() && !end.engine.has_outgoing());
}

fn outcomes(end: &mut End) -> Vec<(u64, Result<Done, WorkError>)> {
    let all = end.take_completions().into_iter();
    all.map(|completion| (completion.id.0, completion.outcome))
        .collect()
}

/// The payload that was under way and the control bytes of the FPDUs behind it.
fn rest_of_first(bytes: &[u8]) -> (&[u8], Vec<u8>) {
    let (payload, rest) = bytes.split_at(LEN as usize);
    let mut controls = Vec::new();
    // The header of a Write is 14 bytes: 40,016 with the length field need no pad.
    let mut rest = &rest[4..];
    while let Some((fpdu, used)) = Fpdu::parse(rest).unwrap() {
        controls.push(fpdu.ulpdu[1]);
        rest = &rest[used..];
    }
    assert!(rest.is_empty());
    (payload, controls)
}

#[test]
fn a_file_that_cannot_be_read_fails_its_own_message() {
    let mut end = stuck_at_a_file(&[1, 2]);
    let failed = Err(io::Error::from(io::ErrorKind::InvalidData));
    end.engine.file_fetched(FetchPlace::Front, failed);
    let flushed = Err(WorkError::Flushed);
    let broken = Err(WorkError::File(io::ErrorKind::InvalidData));
    assert_eq!(
        outcomes(&mut end),
        [(1, broken), (2, flushed), (3, flushed)]
    );
    // Nobody may take the zeros for the file: nothing but the Terminate follows them.
    let bytes = end.take_bytes(usize::MAX);
    let (payload, controls) = rest_of_first(&bytes);
    assert!(payload.iter().all(|byte| *byte == 0));
    assert_eq!(controls, [Opcode::Terminate.control()]);
    assert!(!end.engine.has_unsent());
}

/// A violation of the peer while the file is being read; then the bytes that leave.
fn after_a_violation(fetched: io::Result<(Vec<u8>, usize)>) -> Vec<u8> {
    let mut end = stuck_at_a_file(&[1]);
    let mut no_such_version = vec![0xff; 20];
    no_such_version[..2].copy_from_slice(&[0, 14]);
    end.engine.receive(&no_such_version);
    assert!(matches!(
        end.engine.reason(),
        Some(Disconnected::PeerMisbehaved(_))
    ));
    assert!(end.engine.has_unsent());
    end.engine.file_fetched(FetchPlace::Front, fetched);
    let bytes = end.take_bytes(usize::MAX);
    assert!(!end.engine.has_unsent());
    bytes
}

#[test]
fn a_terminate_behind_a_file_that_is_being_read_still_leaves() {
    let bytes = after_a_violation(Ok((vec![7; LEN as usize], LEN as usize)));
    let (payload, controls) = rest_of_first(&bytes);
    assert!(payload.iter().all(|byte| *byte == 7));
    let expected = [Opcode::Send, Opcode::Terminate].map(Opcode::control);
    assert_eq!(controls, expected);
}

#[test]
fn nothing_follows_a_file_that_cannot_be_read_after_the_end() {
    let bytes = after_a_violation(Err(io::ErrorKind::InvalidData.into()));
    assert_eq!(bytes, vec![0; LEN as usize + 4]);
}

#[test]
fn bytes_read_for_a_key_that_was_revoked_meanwhile_do_not_leave() {
    let mut end = End::responder();
    let backing = Backing::File {
        file: resident(),
        offset: 0,
        len: u64::from(LEN),
    };
    let scope = Scope::Endpoint(EndpointId(1));
    let origin = end.table.register(backing, Access::RemoteRead, scope);
    let origin = origin.unwrap();
    let mut reader = End::new(Role::Initiator, AGREED, 64_768);
    let sink = reader.register(vec![0; LEN as usize], Access::Local);
    let span = Span::whole(&sink).unwrap();
    let posted = reader
        .engine
        .post_read(WorkId(9), span, address_of(&origin, 0));
    posted.unwrap();
    end.engine.receive(&reader.take_bytes(usize::MAX));
    reach_the_file(&mut end);
    drop(origin.invalidate());
    let fetched = Ok((vec![7; LEN as usize], LEN as usize));
    end.engine.file_fetched(FetchPlace::Front, fetched);
    let bytes = end.take_bytes(usize::MAX);
    let (payload, controls) = rest_of_first(&bytes);
    assert!(payload.iter().all(|byte| *byte == 0));
    assert_eq!(controls, [Opcode::Terminate.control()]);
}
