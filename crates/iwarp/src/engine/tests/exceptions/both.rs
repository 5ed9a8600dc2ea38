//! Two engines: the longest Reads, full batches, and ranges that are removed before their turn.

use super::*;

/// Two engines; the first reads what the second exports.
struct Both {
    near: End,
    far: End,
    exporter: Rc<dyn ExportTable>,
}

impl Both {
    fn new(agreement: Agreement, ulpdu_max: usize) -> Both {
        let mut ends =
            [Role::Initiator, Role::Responder].map(|role| End::new(role, agreement, ulpdu_max));
        for end in &mut ends {
            end.engine.authenticate(KEY);
        }
        let [near, far] = ends;
        let exporter = far.table.exports(Rc::new(|_| None)).unwrap();
        Both {
            near,
            far,
            exporter,
        }
    }

    fn read(&mut self, id: u64, len: usize, from: Reference) -> Region {
        let sink = self.near.register(vec![UNTOUCHED; len], Access::Local);
        let span = Span::whole(&sink).unwrap();
        let engine = &mut self.near.engine;
        engine.post_optimistic_read(WorkId(id), span, from).unwrap();
        sink
    }
}

fn counting(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8).collect()
}

#[test]
fn the_longest_read_needs_no_long_segments() {
    for ulpdu_max in [128, 129, 500, 1054, 1055, 1056, 1442, 8942, 32_700, 64_768] {
        for crc in [false, true] {
            let agreement = Agreement {
                crc,
                ..WITH_EXCEPTIONS
            };
            let mut both = Both::new(agreement, ulpdu_max);
            let len = OPTIMISTIC_READ_MAX as usize;
            let bytes = counting(len);
            let object = memory(&both.far, &bytes);
            let from = enter(&*both.exporter, EndpointId(1), object);
            let sinks: Vec<Region> = (0..3).map(|id| both.read(id, len, from)).collect();
            let mut there = both.near.take_bytes(usize::MAX);
            both.far.receive(&mut there);
            let mut back = both.far.take_bytes(usize::MAX);
            both.near.receive(&mut back);
            assert!(there.is_empty() && back.is_empty());
            assert_eq!(both.near.engine.reason(), None, "{ulpdu_max}");
            let outcomes: Vec<_> = both.near.take_completions();
            let outcomes: Vec<_> = outcomes.iter().map(|it| it.outcome).collect();
            assert_eq!(outcomes, [Ok(Done::Read); 3], "{ulpdu_max}");
            assert!(sinks.iter().all(|sink| bytes_of(sink) == bytes));
        }
    }
}

#[test]
fn a_peer_that_takes_nothing_costs_no_more_than_full_batches() {
    for ulpdu_max in [128, 1442, 8942, 30_000, 64_768] {
        let agreement = Agreement {
            ird: 32,
            ord: 32,
            ..WITH_EXCEPTIONS
        };
        let mut both = Both::new(agreement, ulpdu_max);
        let lens = [65_536, 40_000, 3, 65_536, 0, 50_000, 100, 65_536];
        let bytes = counting(65_536);
        let object = memory(&both.far, &bytes);
        let from = enter(&*both.exporter, EndpointId(1), object);
        let mut stale = from;
        stale.address.key = RemoteKey(!from.address.key.0);
        let sinks: Vec<Region> = (0..30)
            .map(|id| {
                let from = if id % 7 == 6 { stale } else { from };
                both.read(id, lens[id as usize % lens.len()], from)
            })
            .collect();
        let mut there = both.near.take_bytes(usize::MAX);
        both.far.receive(&mut there);
        let mut back = Vec::new();
        loop {
            for _ in 0..3 {
                both.far.engine.prepare();
                let batches = both.far.engine.tx.batches.len();
                assert!(batches <= BATCHES_MAX, "{batches} of {ulpdu_max}");
            }
            let taken = both.far.take_bytes(20_000);
            if taken.is_empty() {
                break;
            }
            back.extend(taken);
            both.near.receive(&mut back);
        }
        assert_eq!(both.near.engine.reason(), None);
        let outcomes = both.near.take_completions();
        assert_eq!(outcomes.len(), sinks.len(), "{ulpdu_max}");
        for (completion, (id, sink)) in outcomes.iter().zip((0..).zip(&sinks)) {
            assert_eq!(completion.id, WorkId(id));
            let found = bytes_of(sink);
            if id % 7 == 6 {
                let refused = Err(WorkError::Remote(AccessError::InvalidKey));
                assert_eq!(completion.outcome, refused);
                assert!(found.iter().all(|byte| *byte == UNTOUCHED));
            } else {
                assert_eq!(completion.outcome, Ok(Done::Read));
                assert!(found == bytes[..found.len()]);
            }
        }
    }
}

#[test]
fn a_range_removed_before_its_turn_gives_no_byte() {
    let mut both = Both::new(WITH_EXCEPTIONS, 1442);
    let bytes = counting(65_536);
    let object = memory(&both.far, &bytes);
    let from = enter(&*both.exporter, EndpointId(1), object);
    let sinks: Vec<Region> = (0..4).map(|id| both.read(id, 65_536, from)).collect();
    let mut there = both.near.take_bytes(usize::MAX);
    both.far.receive(&mut there);
    // Some are framed by now: their bytes were taken while it was allowed, and may leave.
    both.far.engine.prepare();
    let taken = both.exporter.stats().reads;
    both.exporter.remove(1);
    let mut back = both.far.take_bytes(usize::MAX);
    both.near.receive(&mut back);
    let outcomes = both.near.take_completions();
    assert!(taken > 0 && taken < 4, "{taken}");
    for (id, (completion, sink)) in (0..).zip(outcomes.iter().zip(&sinks)) {
        let found = bytes_of(sink);
        if id < taken {
            assert_eq!(completion.outcome, Ok(Done::Read));
            assert!(found == bytes);
        } else {
            let refused = Err(WorkError::Remote(AccessError::InvalidKey));
            assert_eq!(completion.outcome, refused);
            assert!(found.iter().all(|byte| *byte == UNTOUCHED));
        }
    }
}

/// A region is revoked while ordinary Reads of it wait for their turn: not a byte of them has left, so that they are
/// refused alone. One of which bytes have left cannot be.
#[test]
fn a_region_revoked_before_its_turn_is_refused_alone() {
    for begun in [false, true] {
        let mut both = Both::new(WITH_EXCEPTIONS, 1442);
        let origin = both.far.register(vec![0x11; 300_000], Access::RemoteRead);
        let sinks = [0, 1].map(|id| {
            let sink = both.near.register(vec![UNTOUCHED; 300_000], Access::Local);
            let (span, from) = (Span::whole(&sink).unwrap(), address_of(&origin, 0));
            both.near.engine.post_read(WorkId(id), span, from).unwrap();
            sink
        });
        let mut there = both.near.take_bytes(usize::MAX);
        both.far.receive(&mut there);
        let mut back = if begun {
            both.far.take_bytes(1000)
        } else {
            Vec::new()
        };
        drop(origin.deregister());
        back.extend(both.far.take_bytes(usize::MAX));
        both.near.receive(&mut back);
        let outcomes: Vec<_> = both.near.take_completions();
        let outcomes: Vec<_> = outcomes.iter().map(|it| it.outcome).collect();
        let refused = Err(WorkError::Remote(AccessError::InvalidKey));
        if begun {
            assert_eq!(outcomes, [refused, Err(WorkError::Flushed)]);
            assert!(both.near.engine.reason().is_some());
            continue;
        }
        assert_eq!(both.near.engine.reason(), None);
        assert_eq!(outcomes, [refused, refused]);
        for sink in &sinks {
            assert!(bytes_of(sink).iter().all(|byte| *byte == UNTOUCHED));
        }
    }
}
