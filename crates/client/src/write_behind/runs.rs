//! Write-runs: bytes that the kernel has an answer for and the store has not seen yet.
//!
//! The mount answers a write(2) once it keeps the bytes. It sends them in runs: bytes of one caller, one behind the
//! other. Overlapping runs leave in the order of write(2), each after the answer to the one before; others may be under
//! way together. A run leaves when nothing else is under way, when it is full, or when it cannot grow any more, so the
//! bytes of many short writes gather while an earlier run is answered. No clock is needed.

use crate::limits::{RUN_CHARGE_MIN, RUNS_UNDER_WAY_MAX};
use gannet_runtime::Buffer;
use gannet_vfs::Credentials;
use gannet_vfs::limits::TRANSFER_MAX;
use std::collections::VecDeque;

/// Bytes of one caller that the store gets by one WRITE.
pub(super) struct Run {
    /// Counts up in the order of write(2).
    pub(super) number: u64,
    /// The writer, whose rights the WRITE has.
    pub(super) caller: Credentials,
    /// The place of its first byte in the file.
    pub(super) offset: u64,
    /// Its bytes.
    pub(super) bytes: RunBytes,
}

/// The memory of a run.
pub(super) enum RunBytes {
    /// The first bytes of a longer buffer.
    Slot(Buffer, usize),
    /// Memory that grows.
    Grown(Vec<u8>),
}

impl RunBytes {
    /// The number of bytes.
    pub(super) fn len(&self) -> usize {
        match self {
            RunBytes::Slot(_, len) => *len,
            RunBytes::Grown(bytes) => bytes.len(),
        }
    }

    /// The memory, and how many of its first bytes count.
    pub(super) fn into_buffer(self) -> (Buffer, usize) {
        match self {
            RunBytes::Slot(buffer, len) => (buffer, len),
            RunBytes::Grown(bytes) => {
                let len = bytes.len();
                (Buffer::from_vec(bytes), len)
            }
        }
    }

    /// Puts `data` over the bytes from `at` on, and behind them; false if it does not fit, or would leave a gap.
    fn put(&mut self, at: usize, data: &[u8]) -> bool {
        let end = at.saturating_add(data.len());
        let has_room = match self {
            RunBytes::Slot(buffer, _) => buffer.len() >= end,
            RunBytes::Grown(_) => TRANSFER_MAX as usize >= end,
        };
        if at > self.len() || !has_room {
            return false;
        }
        let room = match self {
            RunBytes::Slot(buffer, len) => {
                *len = end.max(*len);
                buffer.get_mut(at..end)
            }
            RunBytes::Grown(bytes) => {
                bytes.resize(end.max(bytes.len()), 0);
                bytes.get_mut(at..end)
            }
        };
        room.is_some_and(|room| {
            room.copy_from_slice(data);
            true
        })
    }
}

/// The place of a run in its file, which its successors must know.
struct Place {
    number: u64,
    start: u64,
    end: u64,
    /// `None` while it is under way.
    waiting: Option<Run>,
}

impl Place {
    fn charge(&self) -> u64 {
        (self.end - self.start).max(RUN_CHARGE_MIN)
    }

    fn overlaps(&self, other: &Place) -> bool {
        self.start < other.end && other.start < self.end
    }
}

/// The runs of one file, in the order of write(2).
#[derive(Default)]
pub(super) struct Runs {
    places: VecDeque<Place>,
    last: u64,
    charged: u64,
    /// Runs up to this number leave without waiting for more bytes.
    hurried: u64,
}

impl Runs {
    /// Keeps the first `len` bytes of `data` for `offset`.
    pub(super) fn add(&mut self, caller: &Credentials, offset: u64, data: Buffer, len: usize) {
        let end = offset.saturating_add(len as u64);
        if let Some(last) = self.places.back_mut()
            && (last.start..=last.end).contains(&offset)
            && last.number > self.hurried
            && let Some(run) = &mut last.waiting
            && run.caller == *caller
            && run.bytes.put(
                (offset - last.start) as usize,
                data.get(..len).unwrap_or(&data),
            )
        {
            self.charged -= last.charge();
            last.end = end.max(last.end);
            self.charged += last.charge();
            return;
        }
        self.last += 1;
        let number = self.last;
        let bytes = if data.slot().is_some() || data.len() > len {
            RunBytes::Slot(data, len)
        } else {
            RunBytes::Grown(data.into_vec())
        };
        let run = Run {
            number,
            caller: caller.clone(),
            offset,
            bytes,
        };
        let place = Place {
            number,
            start: offset,
            end,
            waiting: Some(run),
        };
        self.charged += place.charge();
        self.places.push_back(place);
    }

    /// Lets all runs of now leave without waiting for more bytes. Gives the number up to which they count.
    pub(super) fn hurry(&mut self) -> u64 {
        self.hurried = self.last;
        self.last
    }

    /// The next run to send, which is under way until [`Runs::answered`].
    pub(super) fn take_next(&mut self) -> Option<Run> {
        let under_way = self.places.iter().filter(|place| place.waiting.is_none());
        let under_way = under_way.count();
        if under_way >= RUNS_UNDER_WAY_MAX {
            return None;
        }
        let (hurried, last) = (self.hurried, self.last);
        let index = (0..self.places.len()).find(|&index| {
            let Some(place) = self.places.get(index) else {
                return false;
            };
            let Some(run) = &place.waiting else {
                return false;
            };
            let is_complete = place.number <= hurried
                || place.number < last
                || run.bytes.len() >= TRANSFER_MAX as usize;
            let mut earlier = self.places.iter().take(index);
            (under_way == 0 || is_complete) && !earlier.any(|earlier| earlier.overlaps(place))
        })?;
        self.places.get_mut(index)?.waiting.take()
    }

    /// Ends a run: the store has answered.
    pub(super) fn answered(&mut self, number: u64) {
        debug_assert!(
            (self.places.iter()).any(|place| place.number == number && place.waiting.is_none()),
            "only a run under way is answered"
        );
        self.keep(|place| place.number != number);
    }

    /// Drops the runs that are not under way.
    pub(super) fn drop_waiting(&mut self) {
        self.keep(|place| place.waiting.is_none());
    }

    fn keep(&mut self, is_kept: impl Fn(&Place) -> bool) {
        let charged = &mut self.charged;
        self.places.retain(|place| {
            let is_kept = is_kept(place);
            if !is_kept {
                *charged -= place.charge();
            }
            is_kept
        });
    }

    /// True when no run with a number up to `number` is left.
    pub(super) fn is_past(&self, number: u64) -> bool {
        self.places
            .front()
            .is_none_or(|first| first.number > number)
    }

    /// True when no run is left, neither waiting nor under way.
    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Bytes kept and under way; a short run counts as [`RUN_CHARGE_MIN`].
    pub(super) fn charged(&self) -> u64 {
        self.charged
    }

    /// Where the last of the bytes ends: the file is at least that long for programs of this machine.
    pub(super) fn end(&self) -> u64 {
        self.places.iter().map(|place| place.end).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

    fn caller(uid: u32) -> Credentials {
        Credentials::new(uid, uid, &[])
    }

    fn add(runs: &mut Runs, uid: u32, offset: u64, bytes: &[u8]) {
        let data = Buffer::from_vec(bytes.to_vec());
        runs.add(&caller(uid), offset, data, bytes.len());
    }

    fn next(runs: &mut Runs) -> Option<(u64, u64, Vec<u8>)> {
        runs.take_next().map(|run| {
            let (number, offset) = (run.number, run.offset);
            let (buffer, len) = run.bytes.into_buffer();
            (number, offset, buffer[..len].to_vec())
        })
    }

    #[test]
    fn short_writes_gather_while_another_is_under_way() {
        let mut runs = Runs::default();
        add(&mut runs, 1, 0, b"ab");
        let (first, ..) = next(&mut runs).expect("nothing is under way");
        add(&mut runs, 1, 2, b"cd");
        add(&mut runs, 1, 4, b"ef");
        assert_eq!(next(&mut runs), None, "it may grow");
        assert_eq!((runs.charged(), runs.end()), (2 * RUN_CHARGE_MIN, 6));
        runs.answered(first);
        assert_eq!(next(&mut runs), Some((2, 2, b"cdef".to_vec())));
    }

    #[test]
    fn bytes_of_two_callers_are_never_one_run() {
        let mut runs = Runs::default();
        add(&mut runs, 1, 0, b"ab");
        add(&mut runs, 2, 2, b"cd");
        assert_eq!(next(&mut runs), Some((1, 0, b"ab".to_vec())));
        runs.hurry();
        assert_eq!(next(&mut runs), Some((2, 2, b"cd".to_vec())));
    }

    #[test]
    fn an_overlapping_run_waits_for_the_answer_to_the_one_before() {
        let mut runs = Runs::default();
        add(&mut runs, 1, 0, b"abcd");
        let (first, ..) = next(&mut runs).expect("nothing is under way");
        add(&mut runs, 1, 2, b"CD");
        add(&mut runs, 1, 100, b"x");
        let until = runs.hurry();
        assert_eq!(next(&mut runs), Some((3, 100, b"x".to_vec())));
        assert_eq!(next(&mut runs), None);
        runs.answered(3);
        assert!(!runs.is_past(until));
        runs.answered(first);
        assert_eq!(next(&mut runs), Some((2, 2, b"CD".to_vec())));
        runs.answered(2);
        assert!(runs.is_past(until) && runs.is_empty());
    }

    #[test]
    fn bytes_after_a_hurry_begin_a_run_of_their_own() {
        let mut runs = Runs::default();
        add(&mut runs, 1, 0, b"ab");
        let until = runs.hurry();
        add(&mut runs, 1, 2, b"cd");
        let (first, ..) = next(&mut runs).expect("it is the first");
        runs.answered(first);
        assert!(runs.is_past(until) && !runs.is_empty());
    }

    #[test]
    fn a_full_run_leaves_beside_others() {
        let mut runs = Runs::default();
        let full = vec![7; TRANSFER_MAX as usize];
        add(&mut runs, 1, 0, &full);
        add(&mut runs, 1, full.len() as u64, &full);
        add(&mut runs, 1, 2 * full.len() as u64, b"rest");
        assert_eq!(next(&mut runs).map(|(number, ..)| number), Some(1));
        assert_eq!(next(&mut runs).map(|(number, ..)| number), Some(2));
        assert_eq!(next(&mut runs), None);
        runs.drop_waiting();
        assert_eq!(runs.charged(), 2 * full.len() as u64);
    }

    #[test]
    fn bytes_that_are_written_again_take_no_more_room() {
        let mut runs = Runs::default();
        add(&mut runs, 1, 0, b"x");
        assert!(runs.take_next().is_some());
        add(&mut runs, 1, 100, b"abcdef");
        for _ in 0..1000 {
            add(&mut runs, 1, 102, b"CD");
            add(&mut runs, 1, 105, b"FGH");
        }
        assert_eq!(runs.charged(), 2 * RUN_CHARGE_MIN);
        // A gap, or bytes before it, are another run.
        add(&mut runs, 1, 110, b"z");
        assert_eq!(runs.charged(), 3 * RUN_CHARGE_MIN);
        runs.answered(1);
        assert_eq!(next(&mut runs), Some((2, 100, b"abCDeFGH".to_vec())));
    }

    proptest! {
        /// Whatever is written, and whichever runs may leave together: the store has the bytes of write(2) in order.
        #[test]
        fn the_store_gets_the_bytes_in_the_order_of_the_writes(
            steps in vec((0..3_u32, 0..200_u64, 1..60_usize, any::<bool>(), any::<bool>()), 1..80)
        ) {
            let mut runs = Runs::default();
            let (mut local, mut store) = (vec![0; 300], vec![0; 300]);
            let mut under_way = Vec::new();
            let answer = |store: &mut Vec<u8>, runs: &mut Runs, run: (u64, u64, Vec<u8>)| {
                let (number, offset, bytes) = run;
                store[offset as usize..][..bytes.len()].copy_from_slice(&bytes);
                runs.answered(number);
            };
            for (step, (uid, offset, len, hurries, sends)) in steps.into_iter().enumerate() {
                let bytes = vec![step as u8 + 1; len];
                local[offset as usize..][..len].copy_from_slice(&bytes);
                add(&mut runs, uid, offset, &bytes);
                if hurries {
                    runs.hurry();
                }
                while let Some(run) = next(&mut runs) {
                    under_way.push(run);
                }
                // The newest is answered first: replies overtake each other.
                if sends && let Some(run) = under_way.pop() {
                    answer(&mut store, &mut runs, run);
                }
            }
            runs.hurry();
            while !runs.is_empty() {
                while let Some(run) = next(&mut runs) {
                    under_way.push(run);
                }
                let run = under_way.pop().expect("a run is under way while bytes wait");
                answer(&mut store, &mut runs, run);
            }
            prop_assert_eq!(runs.charged(), 0);
            prop_assert!(local == store);
        }
    }
}
