//! The changes of an object against a model of its bytes, each of which has its version.

use super::Version;
use super::changes::{Changes, Lock};
use super::overlap::WriteSet;
use gannet_wire::volume::{Piece, Placement, Shape};
use proptest::prelude::*;
use std::ops::Range;

const LEN: u64 = 48;

/// One write that is under way.
struct Write {
    version: Version,
    /// The ranges that it has yet to store, the next one first.
    ranges: Vec<Range<u64>>,
    /// The range that it is storing, and the parts that are left of it.
    storing: Option<(Range<u64>, Vec<Range<u64>>)>,
    is_refused: bool,
}

/// An object whose changes are under test.
#[derive(Default)]
struct Model {
    changes: Changes,
    newest: u64,
    writes: Vec<Write>,
    truncation: Option<Version>,
    /// The version of the last truncation that was done.
    cut_at: Version,
    bytes: Vec<Version>,
    /// The expected bytes at the end: the newest version that stored each or left it out.
    expected: Vec<Version>,
}

#[derive(Debug, Clone)]
enum Step {
    Accept(Vec<(u64, u32)>),
    /// The write of this number locks its next range.
    Lock(usize),
    /// The range that a write is storing gets to the object, or does not.
    Store {
        /// The number of the write.
        at: usize,
        done: bool,
    },
    Abandon(usize),
    Truncate,
    EndTruncation,
    Forget,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let piece = (0..LEN - 12, 1..12u32);
    let step = prop_oneof![
        3 => prop::collection::vec(piece, 1..4).prop_map(Step::Accept),
        6 => (0..8usize).prop_map(Step::Lock),
        6 => (0..8usize, prop::bool::weighted(0.8)).prop_map(|(at, done)| Step::Store { at, done }),
        1 => (0..8usize).prop_map(Step::Abandon),
        1 => Just(Step::Truncate),
        2 => Just(Step::EndTruncation),
        1 => Just(Step::Forget),
    ];
    prop::collection::vec(step, 1..80)
}

impl Model {
    fn next_version(&mut self) -> Version {
        self.newest += 1;
        Version(self.newest)
    }

    fn accept(&mut self, pieces: &[(u64, u32)]) {
        let version = self.next_version();
        let list = pieces.iter().map(|(offset, len)| Piece {
            offset: *offset,
            len: *len,
        });
        let placement = Placement {
            unit: 1 << 20,
            width: 1,
            index: 0,
        };
        let set = WriteSet::new(&Shape::list(list.collect()).unwrap(), placement);
        self.changes.accept_write(version, set).unwrap();
        let ranges = pieces.iter().map(|(at, len)| *at..at + u64::from(*len));
        self.writes.push(Write {
            version,
            ranges: ranges.collect(),
            storing: None,
            is_refused: false,
        });
    }

    fn lock(&mut self, at: usize) {
        let is_truncating = self.truncation;
        let others: Vec<Range<u64>> = (self.writes.iter())
            .filter_map(|it| it.storing.as_ref().map(|(range, _)| range.clone()))
            .collect();
        let Some(write) = self.writes.get_mut(at) else {
            return;
        };
        let Some(range) = write
            .ranges
            .first()
            .cloned()
            .filter(|_| write.storing.is_none())
        else {
            return;
        };
        let is_locked = others
            .iter()
            .any(|it| it.start < range.end && range.start < it.end);
        let waits = is_locked || is_truncating.is_some_and(|it| it < write.version);
        match self.changes.lock(write.version, &range) {
            Lock::Granted => {
                assert!(!waits && !write.is_refused);
                let left = self.changes.left(write.version, &range);
                write.storing = Some((range, left));
            }
            Lock::Wait => assert!(waits && !write.is_refused),
            Lock::Refused => assert!(write.is_refused),
        }
    }

    fn store(&mut self, at: usize, done: bool) {
        let Some(write) = self.writes.get_mut(at) else {
            return;
        };
        let Some((range, left)) = write.storing.take() else {
            return;
        };
        write.ranges.remove(0);
        if done {
            for at in left.into_iter().flatten() {
                let byte = &mut self.bytes[at as usize];
                assert!(
                    *byte <= write.version,
                    "{byte:?} goes back to {:?}",
                    write.version
                );
                assert!(write.version > self.cut_at, "stored behind a truncation");
                *byte = write.version;
            }
            for at in range.clone() {
                let newest = &mut self.expected[at as usize];
                *newest = write.version.max(*newest);
            }
            self.changes.note_stored(write.version, &range);
        }
        self.changes.unlock(&range);
    }

    /// Ends a write that stores nothing at the moment.
    fn end(&mut self, at: usize) {
        if self.writes.get(at).is_some_and(|it| it.storing.is_none()) {
            let write = self.writes.remove(at);
            self.changes.end(write.version);
        }
    }

    fn truncate(&mut self) {
        if self.truncation.is_none() {
            let version = self.next_version();
            self.changes.accept_truncation(version);
            self.writes.iter_mut().for_each(|it| it.is_refused = true);
            self.truncation = Some(version);
        }
    }

    fn end_truncation(&mut self) {
        let Some(version) = self.truncation else {
            return;
        };
        let is_stored = self.writes.iter().any(|it| it.storing.is_some());
        assert_eq!(self.changes.may_truncate(version), !is_stored);
        if !is_stored {
            // The truncation removes all bytes.
            self.bytes.fill(version);
            self.expected.fill(version);
            self.cut_at = version;
            self.changes.end_truncation(version);
            self.changes.end(version);
            self.truncation = None;
        }
    }

    fn forget(&mut self) {
        if self.changes.noted() == 0 {
            return;
        }
        self.changes.forget_stored();
        assert_eq!(self.changes.noted(), 0);
        // The next lock shows which writes are refused; only writes that can have needed the map may be.
        for write in self.writes.iter_mut().filter(|it| !it.is_refused) {
            write.is_refused = self.changes.lock(write.version, &(LEN..LEN + 1)) == Lock::Refused;
            if !write.is_refused {
                self.changes.unlock(&(LEN..LEN + 1));
            }
        }
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Accept(pieces) => self.accept(&pieces),
            Step::Lock(at) => self.lock(at),
            Step::Store { at, done } => self.store(at, done),
            Step::Abandon(at) => self.end(at),
            Step::Truncate => self.truncate(),
            Step::EndTruncation => self.end_truncation(),
            Step::Forget => self.forget(),
        }
    }

    /// Ends all writes and the truncation, in any order that the locks allow.
    fn finish(&mut self) {
        while !self.writes.is_empty() || self.truncation.is_some() {
            for at in (0..self.writes.len()).rev() {
                self.store(at, true);
                self.lock(at);
                let write = &self.writes[at];
                if write.storing.is_none() && (write.is_refused || write.ranges.is_empty()) {
                    self.end(at);
                }
            }
            self.end_truncation();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// No byte goes back to an older version or to one from before a truncation. At the end each has the newest write
    /// that stored it, and no change is left.
    #[test]
    fn bytes_never_go_back_in_time(steps in steps()) {
        let mut model = Model {
            bytes: vec![Version(0); LEN as usize],
            expected: vec![Version(0); LEN as usize],
            ..Model::default()
        };
        steps.into_iter().for_each(|step| model.take(step));
        model.finish();
        prop_assert_eq!(&model.bytes, &model.expected);
        prop_assert!(model.changes.is_empty() && model.changes.noted() == 0);
    }
}
