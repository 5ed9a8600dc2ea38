//! File ranges: what is cached leaves several FPDUs a read, the rest is waited for; and writers who change the file
//! meanwhile.

use super::*;
use gannet_fabric::Access;
use gannet_runtime::{FileRef, FileSource};
use gannet_wire::ddp::DdpHeader;
use gannet_wire::mpa::Fpdu;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

const LEN: u32 = 200_000;
const ULPDU_MAX: usize = 64_768;
/// Bytes of a Write or Read Response in an FPDU: its header has 14.
const SEGMENT: usize = ULPDU_MAX - 14;

/// A file of which the first bytes are cached, and that changes after every read.
struct Changing {
    content: Mutex<Vec<u8>>,
    cached: u64,
    change: fn(&mut Vec<u8>),
    reads: AtomicUsize,
}

impl FileSource for Changing {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn try_read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(cached) = self.cached.checked_sub(offset).filter(|cached| *cached > 0) else {
            return Err(io::ErrorKind::WouldBlock.into());
        };
        let len = buffer.len().min(usize::try_from(cached).unwrap());
        self.read_at(offset, &mut buffer[..len])
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let mut content = self.content.lock().unwrap();
        let there = content.get(usize::try_from(offset).unwrap()..);
        let there = there.unwrap_or_default();
        let count = there.len().min(buffer.len());
        buffer[..count].copy_from_slice(&there[..count]);
        (self.change)(&mut content);
        Ok(count)
    }

    fn is_resident(&self, offset: u64, len: u64) -> bool {
        offset + len <= self.cached
    }
}

fn changing(cached: u64, change: fn(&mut Vec<u8>)) -> Arc<Changing> {
    Arc::new(Changing {
        content: Mutex::new(vec![7; LEN as usize]),
        cached,
        change,
        reads: AtomicUsize::default(),
    })
}

fn cached(bytes: u64) -> FileRef {
    changing(bytes, |_| ())
}

fn post_write(end: &mut End, id: u64, file: FileRef) {
    let target = RemoteAddress {
        key: gannet_fabric::RemoteKey(0x1234),
        offset: 0,
    };
    let from = Source::File {
        file,
        offset: 0,
        len: LEN,
    };
    let posted = end
        .engine
        .post_write(WorkId(id), from, target, Signal::Always);
    posted.unwrap();
}

/// Writes from files and a Send behind them are posted; the first two FPDUs of the first are framed, what follows must
/// be waited for, and the first bytes have left.
fn stuck_at_a_file(writes: &[u64]) -> (End, Vec<u8>) {
    let mut end = End::new(Role::Initiator, AGREED, ULPDU_MAX);
    for id in writes {
        post_write(&mut end, *id, cached(150_000));
    }
    let signalled = SendOptions {
        signal: Signal::Always,
        ..SendOptions::default()
    };
    let posted = end
        .engine
        .post_send(WorkId(3), source(b"all is there"), signalled);
    posted.unwrap();
    let begun = reach_the_pool(&mut end);
    (end, begun)
}

/// Lets the first bytes leave, and asks for the file.
fn reach_the_pool(end: &mut End) -> Vec<u8> {
    end.engine.prepare();
    let fetch = end.engine.fetch_wanted().unwrap();
    let expected = (2 * SEGMENT, LEN as usize - 2 * SEGMENT);
    assert_eq!(
        (usize::try_from(fetch.offset).unwrap(), fetch.len),
        expected
    );
    assert!(end.engine.fetch_wanted().is_none());
    let begun = end.engine.outgoing(|outgoing| match outgoing {
        Outgoing::Bytes(slices, _) => slices
            .iter()
            .flat_map(|slice| slice.iter())
            .take(100)
            .copied()
            .collect(),
        _ => Vec::new(),
    });
    end.engine.sent(begun.len());
    begun
}

fn outcomes(end: &mut End) -> Vec<(u64, Result<Done, WorkError>)> {
    let all = end.take_completions().into_iter();
    all.map(|completion| (completion.id.0, completion.outcome))
        .collect()
}

/// The RDMAP control fields and the payloads of whole FPDUs.
fn fpdus(mut bytes: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut found = Vec::new();
    while let Some((fpdu, used)) = Fpdu::parse(bytes).unwrap() {
        let (_, payload) = DdpHeader::parse(fpdu.ulpdu).unwrap();
        found.push((fpdu.ulpdu[1], payload.to_vec()));
        bytes = &bytes[used..];
    }
    assert!(bytes.is_empty());
    found
}

/// Checks all bytes sent, of which `begun` left earlier: two segments of the file, and then these messages.
fn check_rest(end: &mut End, mut begun: Vec<u8>, message: Opcode, behind: &[Opcode]) {
    begun.extend(end.take_bytes(usize::MAX));
    let found = fpdus(&begun);
    for (_, payload) in &found[..2] {
        assert_eq!(payload, &[7; SEGMENT]);
    }
    let controls: Vec<u8> = found.iter().map(|(control, _)| *control).collect();
    let expected = [message, message].into_iter().chain(behind.iter().copied());
    assert_eq!(controls, expected.map(Opcode::control).collect::<Vec<_>>());
    assert!(!end.engine.has_unsent());
}

fn broken() -> io::Error {
    io::ErrorKind::InvalidData.into()
}

#[test]
fn a_file_that_cannot_be_read_fails_its_own_message() {
    let (mut end, begun) = stuck_at_a_file(&[1, 2]);
    end.engine.file_fetched(Err(broken()));
    let flushed = Err(WorkError::Flushed);
    let failed = Err(WorkError::File(io::ErrorKind::InvalidData));
    assert_eq!(
        outcomes(&mut end),
        [(1, failed), (2, flushed), (3, flushed)]
    );
    // The peer must not take the zeros for bytes of the file: only the Terminate follows.
    check_rest(&mut end, begun, Opcode::Write, &[Opcode::Terminate]);
}

/// A violation of the peer while the file is being read; then what leaves.
fn after_a_violation(fetched: io::Result<(Vec<u8>, usize)>) {
    let (mut end, begun) = stuck_at_a_file(&[1]);
    let mut no_such_version = vec![0xff; 20];
    no_such_version[..2].copy_from_slice(&[0, 14]);
    end.engine.receive(&no_such_version);
    assert!(matches!(
        end.engine.reason(),
        Some(Disconnected::PeerMisbehaved(_))
    ));
    assert!(end.engine.has_unsent());
    end.engine.file_fetched(fetched);
    check_rest(&mut end, begun, Opcode::Write, &[Opcode::Terminate]);
}

#[test]
fn a_terminate_behind_a_file_that_is_being_read_still_leaves() {
    after_a_violation(Ok((vec![7; LEN as usize], LEN as usize)));
}

#[test]
fn a_file_that_cannot_be_read_after_the_end_changes_nothing() {
    after_a_violation(Err(broken()));
}

/// A connection on which a peer reads all of `file`.
fn being_read(file: FileRef, agreement: Agreement) -> (End, End, [Region; 2]) {
    let mut end = End::new(Role::Responder, agreement, ULPDU_MAX);
    let backing = Backing::File {
        file,
        offset: 0,
        len: u64::from(LEN),
    };
    let scope = Scope::Endpoint(EndpointId(1));
    let origin = end.table.register_now(backing, Access::RemoteRead, scope);
    let origin = origin.unwrap();
    let mut reader = End::new(Role::Initiator, agreement, ULPDU_MAX);
    let sink = reader.register(vec![1; LEN as usize], Access::Local);
    let span = Span::whole(&sink).unwrap();
    let posted = reader
        .engine
        .post_read(WorkId(9), span, address_of(&origin, 0));
    posted.unwrap();
    let request = reader.take_bytes(usize::MAX);
    assert_eq!(end.engine.receive(&request), request.len());
    (end, reader, [origin, sink])
}

#[test]
fn bytes_read_for_a_key_that_was_revoked_meanwhile_do_not_leave() {
    let (mut end, _reader, [origin, _sink]) = being_read(cached(150_000), AGREED);
    let begun = reach_the_pool(&mut end);
    drop(origin.invalidate());
    end.engine
        .file_fetched(Ok((vec![8; LEN as usize], LEN as usize)));
    check_rest(&mut end, begun, Opcode::ReadResponse, &[Opcode::Terminate]);
}

#[test]
fn fetched_bytes_follow_cached_bytes() {
    let (mut end, begun) = stuck_at_a_file(&[1]);
    let rest = LEN as usize - 2 * SEGMENT;
    end.engine.file_fetched(Ok((vec![7; rest], rest - 1000)));
    let behind = [Opcode::Write, Opcode::Write, Opcode::Send];
    check_rest(&mut end, begun, Opcode::Write, &behind);
    let outcomes = outcomes(&mut end);
    assert_eq!(outcomes, [(1, Ok(Done::Written)), (3, Ok(Done::Sent))]);
}

#[test]
fn a_cached_range_takes_one_read_for_a_batch() {
    let mut end = End::new(Role::Initiator, AGREED, ULPDU_MAX);
    let file = changing(u64::from(LEN), |_| ());
    post_write(&mut end, 1, Arc::clone(&file) as FileRef);
    assert_eq!(fpdus(&end.take_bytes(usize::MAX)).len(), 4);
    assert_eq!(file.reads.load(Ordering::Relaxed), 1);
    assert_eq!(end.engine.tx.pool.chunks.spare(), 1);
}

#[test]
fn many_messages_share_the_buffers_of_two_batches() {
    let mut end = End::new(Role::Initiator, AGREED, 1442);
    for id in 0..20 {
        post_write(&mut end, id, cached(u64::from(LEN)));
    }
    let per_message = (LEN as usize).div_ceil(1442 - 14);
    // A stream that takes a little at a time, in the middle of everything.
    let mut bytes = Vec::new();
    loop {
        let taken = end.take_bytes(9973);
        if taken.is_empty() {
            break;
        }
        bytes.extend(taken);
        assert!(end.engine.tx.batches.len() <= crate::limits::BATCHES_MAX);
    }
    let found = fpdus(&bytes);
    assert_eq!(found.len(), 20 * per_message);
    assert!(
        found
            .iter()
            .all(|(_, payload)| payload.iter().all(|byte| *byte == 7))
    );
    assert_eq!(outcomes(&mut end).len(), 20);
}

#[test]
fn a_file_that_changes_while_it_is_read_breaks_no_fpdu() {
    let changes: [fn(&mut Vec<u8>); 3] = [
        |content| content.truncate(content.len() / 2),
        |content| content.fill(8),
        Vec::clear,
    ];
    for (crc, cached) in [(false, LEN), (true, LEN), (false, 150_000), (true, 150_000)] {
        for change in changes {
            let agreement = Agreement { crc, ..AGREED };
            let file = changing(u64::from(cached), change);
            let (mut end, mut reader, [_origin, sink]) = being_read(file, agreement);
            // The stream takes little at a time.
            let mut on_the_way = Vec::new();
            loop {
                let bytes = end.take_bytes(10_000);
                if bytes.is_empty() {
                    break;
                }
                on_the_way.extend(bytes);
                reader.receive(&mut on_the_way);
            }
            assert!(end.engine.reason().is_none() && reader.engine.reason().is_none());
            assert_eq!(outcomes(&mut reader), [(9, Ok(Done::Read))]);
            let found = bytes_of(&sink);
            assert!(found.iter().all(|byte| [0, 7, 8].contains(byte)));
            assert_eq!(found[..SEGMENT], [7; SEGMENT]);
        }
    }
}
