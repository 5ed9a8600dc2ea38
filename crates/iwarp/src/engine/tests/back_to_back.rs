//! Two engines and a stream that cuts bytes as it likes.

use super::exceptions::KEY;
use super::*;
use crate::limits::BATCH_LEN;
use gannet_conformance::MemoryFile;
use gannet_fabric::{Access, AccessKey, Export, ExportTable, Exported, RemoteKey};
use gannet_testing::noise;
use gannet_wire::mpa::strip_markers;
use proptest::prelude::*;
use std::collections::VecDeque;

/// Two connected engines.
struct Pair {
    ends: [End; 2],
    /// The table through which each end exports to the other.
    exporters: [Rc<dyn ExportTable>; 2],
    /// Bytes that each end sent and the other has not taken yet.
    on_the_way: [Vec<u8>; 2],
    /// Bytes each end has sent, markers counted.
    sent: [u64; 2],
    markers: bool,
}

impl Pair {
    fn new(agreement: Agreement, ulpdu_max: usize) -> Pair {
        let mut ends =
            [Role::Initiator, Role::Responder].map(|role| End::new(role, agreement, ulpdu_max));
        for end in &mut ends {
            end.engine.authenticate(KEY);
        }
        let exporters = ends
            .each_ref()
            .map(|end| end.table.exports(Rc::new(|_| None)).unwrap());
        Pair {
            ends,
            exporters,
            on_the_way: Default::default(),
            sent: [0; 2],
            markers: agreement.markers,
        }
    }

    /// Moves up to `count` bytes away from `end`; the other receives them.
    fn step(&mut self, end: usize, count: usize) -> bool {
        let bytes = self.ends[end].take_bytes(count);
        let moved = !bytes.is_empty();
        if self.markers {
            strip_markers(self.sent[end], &bytes, &mut self.on_the_way[end]);
        } else {
            self.on_the_way[end].extend_from_slice(&bytes);
        }
        self.sent[end] += bytes.len() as u64;
        self.ends[1 - end].receive(&mut self.on_the_way[end]);
        moved
    }

    /// Until nothing moves any more.
    fn run(&mut self, cuts: &mut VecDeque<usize>) {
        let mut idle = 0;
        let mut end = 0;
        while idle < 2 {
            let count = cuts.pop_front().unwrap_or(usize::MAX);
            cuts.push_back(count);
            idle = if self.step(end, count) { 0 } else { idle + 1 };
            end = 1 - end;
        }
        assert!(self.on_the_way.iter().all(Vec::is_empty));
    }
}

#[derive(Debug, Clone)]
enum Deed {
    Send {
        end: usize,
        len: usize,
        solicited: bool,
    },
    Write {
        end: usize,
        len: usize,
        from_file: bool,
    },
    Read {
        end: usize,
        len: usize,
        from_file: bool,
    },
    /// Where exceptions were agreed.
    Optimistic {
        end: usize,
        len: usize,
        from: Origin,
    },
    /// An ordinary Read by a key that is none, where exceptions were agreed.
    Refused { end: usize, len: usize },
}

/// The source of an optimistic read.
#[derive(Debug, Clone, Copy)]
enum Origin {
    Memory,
    File,
    ColdFile,
    Removed,
    Guessed,
}

impl Origin {
    fn refusal(self) -> Option<AccessError> {
        match self {
            Origin::Memory | Origin::File => None,
            Origin::ColdFile => Some(AccessError::NotResident),
            Origin::Removed => Some(AccessError::InvalidKey),
            Origin::Guessed => Some(AccessError::Capability),
        }
    }
}

impl Deed {
    /// Whose Read it is, if it is one.
    fn reads(&self) -> Option<usize> {
        match self {
            Deed::Read { end, .. } | Deed::Optimistic { end, .. } | Deed::Refused { end, .. } => {
                Some(*end)
            }
            Deed::Send { .. } | Deed::Write { .. } => None,
        }
    }
}

fn optimistic() -> impl Strategy<Value = Deed> {
    let len = prop_oneof![
        Just(0usize),
        1usize..300,
        300usize..5_000,
        60_000usize..=65_536
    ];
    (0..2usize, len, 0..6u8).prop_map(|(end, len, kind)| {
        let from = match kind {
            0 => Origin::Memory,
            1 => Origin::File,
            2 => Origin::ColdFile,
            3 => Origin::Removed,
            4 => Origin::Guessed,
            _ => return Deed::Refused { end, len: len + 1 },
        };
        Deed::Optimistic { end, len, from }
    })
}

fn deed() -> impl Strategy<Value = Deed> {
    let len = prop_oneof![
        Just(0usize),
        1usize..300,
        300usize..5_000,
        60_000usize..200_000
    ];
    (0..2usize, len, any::<bool>(), 0..3u8).prop_map(|(end, len, flag, kind)| match kind {
        0 => Deed::Send {
            end,
            len,
            solicited: flag,
        },
        1 => Deed::Write {
            end,
            len,
            from_file: flag,
        },
        _ => Deed::Read {
            end,
            len,
            from_file: flag,
        },
    })
}

/// The expected result of one deed.
enum Expected {
    Message {
        end: usize,
        bytes: Vec<u8>,
        solicited: bool,
    },
    Memory {
        region: Region,
        bytes: Vec<u8>,
    },
    /// The work of this id fails, and nothing lands.
    Refusal {
        end: usize,
        id: u64,
        region: Region,
        why: AccessError,
    },
}

fn post_optimistic(pair: &mut Pair, id: u64, end: usize, len: usize, from: Origin) -> Expected {
    let bytes = noise(len, id as u8);
    let object = match from {
        Origin::File => Exported::File(MemoryFile::resident(bytes.clone())),
        Origin::ColdFile => Exported::File(MemoryFile::cold(bytes.clone())),
        Origin::Memory | Origin::Removed | Origin::Guessed => Exported::Memory {
            region: pair.ends[1 - end].register(bytes.clone(), Access::Local),
            offset: 0,
            len: len as u64,
        },
    };
    let exporter = &pair.exporters[1 - end];
    let mut source = exporter.enter(Export {
        object: u128::from(id),
        endpoint: EndpointId(1),
        until: Instant::from_nanos(u64::MAX),
        bytes: object,
    });
    match from {
        Origin::Removed => exporter.remove(u128::from(id)),
        Origin::Guessed => source.access_key = AccessKey(source.access_key.0 ^ 1),
        Origin::Memory | Origin::File | Origin::ColdFile => {}
    }
    let region = pair.ends[end].register(vec![0xee; len], Access::Local);
    let span = Span::whole(&region).unwrap();
    let engine = &mut pair.ends[end].engine;
    engine
        .post_optimistic_read(WorkId(id), span, source)
        .unwrap();
    match from.refusal() {
        None => Expected::Memory { region, bytes },
        Some(why) => Expected::Refusal {
            end,
            id,
            region,
            why,
        },
    }
}

fn post(pair: &mut Pair, id: u64, deed: &Deed) -> Expected {
    match *deed {
        Deed::Send {
            end,
            len,
            solicited,
        } => {
            let bytes = noise(len, id as u8);
            let buffer = Buffer::zeroed(len + 3);
            pair.ends[1 - end]
                .engine
                .post_receive(WorkId(id), buffer)
                .unwrap();
            let options = SendOptions {
                signal: Signal::Always,
                solicited,
                ..SendOptions::default()
            };
            pair.ends[end]
                .engine
                .post_send(WorkId(id), source(&bytes), options)
                .unwrap();
            Expected::Message {
                end: 1 - end,
                bytes,
                solicited,
            }
        }
        Deed::Write {
            end,
            len,
            from_file,
        } => {
            let bytes = noise(len, id as u8);
            let region = pair.ends[1 - end].register(vec![0; len], Access::RemoteWrite);
            let from = if from_file {
                let file = MemoryFile::cold(bytes.clone());
                Source::File {
                    file,
                    offset: 0,
                    len: len as u32,
                }
            } else {
                let region = pair.ends[end].register(bytes.clone(), Access::Local);
                Source::Span(Span::whole(&region).unwrap())
            };
            let target = address_of(&region, 0);
            pair.ends[end]
                .engine
                .post_write(WorkId(id), from, target, Signal::Always)
                .unwrap();
            Expected::Memory { region, bytes }
        }
        Deed::Read {
            end,
            len,
            from_file,
        } => {
            let bytes = noise(len, id as u8);
            let origin = if from_file {
                let backing = Backing::File {
                    file: MemoryFile::resident(bytes.clone()),
                    offset: 0,
                    len: len as u64,
                };
                let scope = Scope::Domain;
                pair.ends[1 - end]
                    .table
                    .register_now(backing, Access::RemoteRead, scope)
                    .unwrap()
            } else {
                pair.ends[1 - end].register(bytes.clone(), Access::RemoteRead)
            };
            let region = pair.ends[end].register(vec![0; len], Access::Local);
            let span = Span::whole(&region).unwrap();
            let source = address_of(&origin, 0);
            pair.ends[end]
                .engine
                .post_read(WorkId(id), span, source)
                .unwrap();
            // The origin must stay registered until it was read; its owner is the test's domain.
            KEPT.with(|kept| kept.borrow_mut().push(origin));
            Expected::Memory { region, bytes }
        }
        Deed::Optimistic { end, len, from } => post_optimistic(pair, id, end, len, from),
        Deed::Refused { end, len } => {
            let region = pair.ends[end].register(vec![0xee; len], Access::Local);
            let span = Span::whole(&region).unwrap();
            let source = RemoteAddress {
                key: RemoteKey(7),
                offset: 0,
            };
            pair.ends[end]
                .engine
                .post_read(WorkId(id), span, source)
                .unwrap();
            let why = AccessError::InvalidKey;
            Expected::Refusal {
                end,
                id,
                region,
                why,
            }
        }
    }
}

thread_local! {
    static KEPT: std::cell::RefCell<Vec<Region>> = const { std::cell::RefCell::new(Vec::new()) };
}

fn check(agreement: Agreement, ulpdu_max: usize, deeds: &[Deed], cuts: &[usize]) {
    let mut pair = Pair::new(agreement, ulpdu_max);
    // The responder may speak once it was spoken to.
    pair.ends[0].engine.nudge();
    let mut cuts: VecDeque<usize> = cuts.iter().copied().collect();
    let expected: Vec<_> = (0..)
        .zip(deeds)
        .map(|(id, deed)| post(&mut pair, id, deed))
        .collect();
    pair.run(&mut cuts);
    let mut messages = [VecDeque::new(), VecDeque::new()];
    let mut refusals = [VecDeque::new(), VecDeque::new()];
    for end in 0..2 {
        assert_eq!(pair.ends[end].engine.reason(), None);
        let mut reads = Vec::new();
        for completion in pair.ends[end].take_completions() {
            match completion.outcome {
                Ok(Done::Received {
                    len,
                    solicited,
                    invalidated: None,
                }) => {
                    let buffer = completion.buffer.unwrap();
                    messages[end].push_back((buffer[..len as usize].to_vec(), solicited));
                }
                Ok(Done::Read) => reads.push(completion.id.0),
                Err(WorkError::Remote(why)) => {
                    reads.push(completion.id.0);
                    refusals[end].push_back((completion.id.0, why));
                }
                outcome => assert!(outcome.is_ok(), "{completion:?}"),
            }
        }
        // They are done in the order in which they were posted, whatever kind they are and however they end.
        assert!(reads.is_sorted(), "{reads:?}");
        let posted = deeds.iter().filter(|deed| deed.reads() == Some(end));
        assert_eq!(reads.len(), posted.count());
    }
    for expected in expected {
        match expected {
            Expected::Message {
                end,
                bytes,
                solicited,
            } => {
                assert_eq!(messages[end].pop_front(), Some((bytes, solicited)));
            }
            Expected::Memory { region, bytes } => assert!(bytes_of(&region) == bytes),
            Expected::Refusal {
                end,
                id,
                region,
                why,
            } => {
                assert_eq!(refusals[end].pop_front(), Some((id, why)));
                assert!(bytes_of(&region).iter().all(|byte| *byte == 0xee));
            }
        }
    }
    assert!(messages.iter().all(VecDeque::is_empty));
    assert!(refusals.iter().all(VecDeque::is_empty));
    KEPT.with(|kept| kept.borrow_mut().clear());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn everything_arrives_however_the_stream_is_cut(
        deeds in prop::collection::vec(deed(), 1..12),
        cuts in prop::collection::vec(
            prop_oneof![1usize..40, 40usize..5_000, 5_000usize..400_000], 1..20),
        crc in any::<bool>(),
        markers in any::<bool>(),
        ulpdu_max in prop_oneof![Just(128usize), Just(1442), Just(64_768), 128usize..64_768],
        depth in 1u16..5,
    ) {
        // A receiver that stripped markers from its stream cannot check CRCs over them: the wire
        // crate's vectors do.
        let crc = crc && !markers;
        // Bytewise cuts of long messages only take time.
        let cuts: Vec<usize> = if ulpdu_max > 1000 {
            cuts.iter().map(|cut| cut * 16).collect()
        } else {
            cuts
        };
        let agreement = Agreement { crc, markers, ird: depth, ord: depth, ..AGREED };
        check(agreement, ulpdu_max, &deeds, &cuts);
    }

    #[test]
    fn refusals_keep_their_place_among_answers(
        deeds in prop::collection::vec(prop_oneof![deed(), optimistic(), optimistic()], 1..20),
        cuts in prop::collection::vec(
            prop_oneof![1usize..40, 40usize..5_000, 5_000usize..400_000], 1..20),
        crc in any::<bool>(),
        markers in any::<bool>(),
        ulpdu_max in prop_oneof![Just(128usize), Just(1442), Just(64_768), 128usize..64_768],
        depth in 1u16..5,
    ) {
        let cuts: Vec<usize> = cuts.iter().map(|cut| cut * 16).collect();
        let (exceptions, crc) = (true, crc && !markers);
        let agreement = Agreement { crc, markers, ird: depth, ord: depth, exceptions, ..AGREED };
        check(agreement, ulpdu_max, &deeds, &cuts);
    }
}

#[test]
fn every_single_byte_boundary() {
    let deeds = [
        Deed::Send {
            end: 0,
            len: 5,
            solicited: true,
        },
        Deed::Write {
            end: 1,
            len: 300,
            from_file: false,
        },
        Deed::Read {
            end: 0,
            len: 301,
            from_file: false,
        },
        Deed::Send {
            end: 1,
            len: 0,
            solicited: false,
        },
    ];
    for crc in [false, true] {
        check(Agreement { crc, ..AGREED }, 128, &deeds, &[1]);
    }
}

#[test]
fn peer_to_peer_openings() {
    for ready in [ReadyToReceive::Write, ReadyToReceive::Read] {
        // The responder speaks first, and the opening alone allows it to.
        let mut pair = Pair::new(
            Agreement {
                ready,
                ird: 0,
                ord: 0,
                ..AGREED
            },
            64_768,
        );
        pair.ends[0]
            .engine
            .post_receive(WorkId(1), Buffer::zeroed(10))
            .unwrap();
        let message = SendOptions::default();
        pair.ends[1]
            .engine
            .post_send(WorkId(2), source(b"first"), message)
            .unwrap();
        pair.run(&mut VecDeque::new());
        assert_eq!(pair.ends[0].take_completions().len(), 1);
        assert!(pair.ends.iter().all(|end| end.engine.reason().is_none()));
    }
}

#[test]
fn an_opening_send_takes_no_receive() {
    let agreement = Agreement {
        ready: ReadyToReceive::Send,
        ..AGREED
    };
    // We never open by a Send ourselves; a plain empty one is the same on the wire.
    let mut pair = Pair::new(agreement, 64_768);
    pair.ends[1]
        .engine
        .post_receive(WorkId(1), Buffer::zeroed(10))
        .unwrap();
    for text in [&b""[..], b"real"] {
        pair.ends[0]
            .engine
            .post_send(WorkId(2), source(text), SendOptions::default())
            .unwrap();
    }
    pair.run(&mut VecDeque::new());
    let completions = pair.ends[1].take_completions();
    let outcomes: Vec<_> = completions
        .iter()
        .map(|completion| completion.outcome)
        .collect();
    let received = Done::Received {
        len: 4,
        invalidated: None,
        solicited: false,
    };
    assert_eq!(outcomes, [Ok(received)]);
}

#[test]
fn a_responder_waits_until_it_was_spoken_to() {
    let mut pair = Pair::new(AGREED, 64_768);
    pair.ends[0]
        .engine
        .post_receive(WorkId(1), Buffer::zeroed(10))
        .unwrap();
    pair.ends[1]
        .engine
        .post_send(WorkId(2), source(b"early"), SendOptions::default())
        .unwrap();
    pair.run(&mut VecDeque::new());
    assert!(pair.ends[0].take_completions().is_empty());
    pair.ends[0].engine.nudge();
    pair.run(&mut VecDeque::new());
    assert_eq!(pair.ends[0].take_completions().len(), 1);
}

#[test]
fn reads_and_sends_take_turns() {
    let mut pair = Pair::new(AGREED, 64_768);
    let origin = pair.ends[1].register(vec![1; 200_000], Access::RemoteRead);
    let sink = pair.ends[0].register(vec![0; 200_000], Access::Local);
    for id in 0..3 {
        let span = Span::whole(&sink).unwrap();
        pair.ends[0]
            .engine
            .post_read(WorkId(id), span, address_of(&origin, 0))
            .unwrap();
        pair.ends[0]
            .engine
            .post_receive(WorkId(10 + id), Buffer::zeroed(10))
            .unwrap();
        let turn = SendOptions::default();
        pair.ends[1]
            .engine
            .post_send(WorkId(id), source(b"turn"), turn)
            .unwrap();
    }
    pair.step(0, usize::MAX);
    let mut order = Vec::new();
    while pair.step(1, 10_000) {
        let done = pair.ends[0].take_completions();
        order.extend(done.iter().map(|completion| completion.id.0 >= 10));
    }
    assert_eq!(order, [false, true, false, true, false, true]);
}

/// A region that the peer reads is revoked while the answer is cut off at every interesting place.
#[test]
fn a_revoked_region_leaks_nothing_and_the_reader_gets_the_reason() {
    for crc in [false, true] {
        for taken in [
            0, 1, 15, 16, 17, 5_000, 64_770, 64_776, 64_780, 70_000, 300_000,
        ] {
            let mut pair = Pair::new(Agreement { crc, ..AGREED }, 64_768);
            let origin = pair.ends[1].register(vec![0xaa; 400_000], Access::RemoteRead);
            let sink = pair.ends[0].register(vec![0; 400_000], Access::Local);
            let span = Span::whole(&sink).unwrap();
            pair.ends[0]
                .engine
                .post_read(WorkId(9), span, address_of(&origin, 0))
                .unwrap();
            pair.step(0, usize::MAX);
            pair.step(1, taken);
            let mut memory = origin.deregister().now().unwrap().unwrap().unwrap();
            memory.fill(0xbb);
            pair.run(&mut VecDeque::new());
            let outcomes: Vec<_> = pair.ends[0].take_completions();
            let refused = Err(WorkError::Remote(AccessError::InvalidKey));
            assert_eq!(outcomes.len(), 1);
            assert_eq!(
                outcomes[0].outcome, refused,
                "after {taken} bytes, crc {crc}"
            );
            assert!(bytes_of(&sink).iter().all(|byte| *byte != 0xbb));
        }
    }
}

#[test]
fn work_of_our_own_whose_memory_is_taken_away_ends_the_connection() {
    let mut pair = Pair::new(AGREED, 64_768);
    let target = pair.ends[1].register(vec![0; 400_000], Access::RemoteWrite);
    let memory = pair.ends[0].register(vec![1; 400_000], Access::Local);
    let from = Source::Span(Span::whole(&memory).unwrap());
    let address = address_of(&target, 0);
    pair.ends[0]
        .engine
        .post_write(WorkId(4), from, address, Signal::OnError)
        .unwrap();
    pair.step(0, 100_000);
    drop(memory.deregister());
    pair.run(&mut VecDeque::new());
    let completions = pair.ends[0].take_completions();
    let local = Err(WorkError::Local(AccessError::InvalidKey));
    assert_eq!(
        (completions[0].id, completions[0].outcome),
        (WorkId(4), local)
    );
    assert!(matches!(
        pair.ends[1].engine.reason(),
        Some(Disconnected::PeerTerminated(_))
    ));
}

#[test]
fn queues_are_bounded() {
    let mut end = End::new(Role::Initiator, AGREED, 64_768);
    let target = RemoteAddress {
        key: gannet_fabric::RemoteKey(0x1234),
        offset: 0,
    };
    for id in 0..1000 {
        let posted = end
            .engine
            .post_write(WorkId(id), source(&[0; 1000]), target, Signal::OnError);
        assert_eq!(posted, Ok(()));
        end.engine
            .post_receive(WorkId(id), Buffer::zeroed(0))
            .unwrap();
    }
    end.engine.prepare();
    // Framed messages free few places: a peer that takes nothing fills the queue.
    let mut more = 0;
    while end
        .engine
        .post_write(WorkId(0), source(b"x"), target, Signal::OnError)
        .is_ok()
    {
        more += 1;
        end.engine.prepare();
    }
    assert!(more <= 1000, "{more} more");
    let full = end.engine.post_receive(WorkId(1), Buffer::zeroed(0));
    assert_eq!(full, Err(PostError::QueueFull));
}

#[test]
fn queues_that_grew_are_shrunk_at_rest() {
    let mut end = End::new(Role::Initiator, AGREED, 64_768);
    let mut send = |count: usize| {
        for id in 0..count as u64 {
            let options = SendOptions {
                signal: Signal::Always,
                ..SendOptions::default()
            };
            let posted = end.engine.post_send(WorkId(id), source(b"busy"), options);
            assert_eq!(posted, Ok(()));
        }
        end.take_bytes(usize::MAX);
        assert_eq!(end.take_completions().len(), count);
        let grown = end.engine.is_grown();
        end.engine.rest();
        assert!(!end.engine.is_grown());
        grown
    };
    assert!(send(1));
    assert!(send(100));
}

/// Markers make FPDUs longer than the batches were planned for; nothing may get between a message and its bytes.
#[test]
fn bytes_at_hand_in_a_batch_stay_with_it_when_markers_fill_it_up() {
    for fpdus in 4..40 {
        for slack in [0, 4, 8, 40] {
            let ulpdu_max = (BATCH_LEN / fpdus - 6 - slack).min(64_768);
            let agreement = Agreement {
                markers: true,
                exceptions: true,
                ..AGREED
            };
            let reads = [65_536, 30_000, 65_536, 65_536, 65_536, 1000, 65_536].map(|len| {
                let from = Origin::Memory;
                Deed::Optimistic { end: 0, len, from }
            });
            check(agreement, ulpdu_max, &reads, &[usize::MAX]);
            let files = [500_000, 200_000].map(|len| Deed::Read {
                end: 0,
                len,
                from_file: true,
            });
            check(agreement, ulpdu_max, &files, &[usize::MAX]);
        }
    }
}
