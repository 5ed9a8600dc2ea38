//! One direction of a TCP connection, put together again from the segments that a capture holds of it.
//!
//! Segments come in any order, several times, overlapping, or not at all. What is missing becomes a [`Gap`] as soon as
//! it is clear that it will not come any more: the receiver has acknowledged bytes behind it (so it got them, and the
//! capture did not), too much waits behind it, or the capture ends.

use crate::limits::{LATE_BYTES_MAX, LATE_SEGMENTS_MAX, WINDOW_MAX};
use std::collections::BTreeMap;

/// Bytes of a stream, or a hole in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece<'a> {
    /// The next bytes.
    Bytes(&'a [u8]),
    /// Bytes that the capture does not have.
    Gap(Gap),
}

/// A hole in a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// The number of missing bytes.
    pub bytes: u64,
    /// The reason.
    pub cause: GapCause,
}

/// The reason why bytes are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GapCause {
    /// The packet is not in the capture.
    NotCaptured,
    /// The packet is in the capture, but the snap length cut it.
    SnapLength,
}

/// A segment that waits for an earlier one.
#[derive(Debug)]
struct Late {
    bytes: Vec<u8>,
    /// Bytes behind these that the snap length cut off.
    missing: u64,
}

impl Late {
    fn len(&self) -> u64 {
        self.bytes.len() as u64 + self.missing
    }
}

/// Puts one direction of a connection together.
///
/// Positions are sequence numbers unwrapped to 64 bits, so that they are ordered.
#[derive(Debug, Default)]
pub struct Reassembly {
    /// Position of the next byte to hand on; `None` before the first segment.
    next: Option<u64>,
    /// Segments behind a hole, by position.
    late: BTreeMap<u64, Late>,
    late_bytes: usize,
    /// The highest position the receiver acknowledged.
    acknowledged: u64,
    /// The position at which the sender closed the stream.
    end: Option<u64>,
    /// Segments whose bytes had all been seen before.
    pub retransmitted: u64,
    /// Segments that came before an earlier one.
    pub out_of_order: u64,
}

/// Added to the first sequence number, so that no position is below zero.
const FIRST_ROUND: u64 = 1 << 32;

impl Reassembly {
    /// The stream begins at `sequence`: its SYN was seen.
    pub fn start(&mut self, sequence: u32) {
        self.next = Some(FIRST_ROUND + u64::from(sequence));
    }

    /// True once anything of the stream was seen.
    pub fn is_started(&self) -> bool {
        self.next.is_some()
    }

    /// True when all bytes up to the sender's FIN were handed on.
    pub fn is_ended(&self) -> bool {
        self.end.is_some() && self.end <= self.next
    }

    /// Takes a segment of `payload` bytes and `missing` more that the capture does not have. `take` gets the pieces
    /// that can be handed on now, in order.
    pub fn push(
        &mut self,
        sequence: u32,
        payload: &[u8],
        missing: usize,
        take: &mut dyn FnMut(Piece<'_>),
    ) {
        let next = *self.next.get_or_insert(FIRST_ROUND + u64::from(sequence));
        let at = position(next, sequence);
        let end = at + payload.len() as u64 + missing as u64;
        if end == at {
            return;
        }
        if end <= next {
            self.retransmitted += 1;
        } else if at <= next {
            self.hand_on(at, payload, missing as u64, take);
            self.hand_on_late(take);
        } else if at - next <= WINDOW_MAX {
            self.out_of_order += 1;
            self.keep(at, payload, missing as u64);
            self.give_up_acknowledged(take);
            while self.late_bytes > LATE_BYTES_MAX || self.late.len() > LATE_SEGMENTS_MAX {
                self.give_up_hole(take);
            }
        }
    }

    /// The sender closed the stream in front of `sequence`.
    pub fn push_fin(&mut self, sequence: u32) {
        let next = *self.next.get_or_insert(FIRST_ROUND + u64::from(sequence));
        self.end.get_or_insert(position(next, sequence));
    }

    /// The receiver has everything before `sequence`: holes before it will not be filled any more.
    pub fn acknowledge(&mut self, sequence: u32, take: &mut dyn FnMut(Piece<'_>)) {
        if let Some(next) = self.next {
            self.acknowledged = self.acknowledged.max(position(next, sequence));
            self.give_up_acknowledged(take);
        }
    }

    /// The capture is over: hands on all segments that wait, with the holes between them.
    pub fn finish(&mut self, take: &mut dyn FnMut(Piece<'_>)) {
        while !self.late.is_empty() {
            self.give_up_hole(take);
        }
        let Some(next) = self.next else {
            return;
        };
        // The last number may stand for a FIN.
        let tail = self.end.unwrap_or(self.acknowledged.saturating_sub(1));
        if tail > next {
            take(gap(tail - next));
            self.next = Some(tail);
        }
    }

    fn keep(&mut self, at: u64, payload: &[u8], missing: u64) {
        let known = self.late.get(&at).map_or(0, Late::len);
        if known >= payload.len() as u64 + missing {
            return;
        }
        let late = Late {
            bytes: payload.to_vec(),
            missing,
        };
        self.late_bytes += late.bytes.len();
        if let Some(shorter) = self.late.insert(at, late) {
            self.late_bytes -= shorter.bytes.len();
        }
    }

    /// Hands on what a segment at `at` has behind the next byte wanted, which is not before it.
    fn hand_on(&mut self, at: u64, payload: &[u8], missing: u64, take: &mut dyn FnMut(Piece<'_>)) {
        let next = self.next.unwrap_or(at);
        let known = next - at;
        let fresh = usize::try_from(known)
            .ok()
            .and_then(|known| payload.get(known..))
            .unwrap_or_default();
        if !fresh.is_empty() {
            take(Piece::Bytes(fresh));
        }
        let missing = missing.min((payload.len() as u64 + missing).saturating_sub(known));
        if missing > 0 {
            take(Piece::Gap(Gap {
                bytes: missing,
                cause: GapCause::SnapLength,
            }));
        }
        self.next = Some(next + fresh.len() as u64 + missing);
    }

    /// Hands on the late segments that are not late any more.
    fn hand_on_late(&mut self, take: &mut dyn FnMut(Piece<'_>)) {
        while let Some(entry) = self.late.first_entry() {
            if self.next.is_some_and(|next| *entry.key() > next) {
                return;
            }
            let (at, late) = entry.remove_entry();
            self.late_bytes -= late.bytes.len();
            if self.next.is_none_or(|next| at + late.len() > next) {
                self.hand_on(at, &late.bytes, late.missing, take);
            }
        }
    }

    fn give_up_acknowledged(&mut self, take: &mut dyn FnMut(Piece<'_>)) {
        while let Some((at, _)) = self.late.first_key_value() {
            if *at > self.acknowledged {
                return;
            }
            self.give_up_hole(take);
        }
    }

    /// Declares the bytes before the first late segment missing.
    fn give_up_hole(&mut self, take: &mut dyn FnMut(Piece<'_>)) {
        if let (Some((at, _)), Some(next)) = (self.late.first_key_value(), self.next) {
            if *at > next {
                take(gap(*at - next));
                self.next = Some(*at);
            }
            self.hand_on_late(take);
        }
    }
}

/// The position with these lower 32 bits that is nearest to `next`.
fn position(next: u64, sequence: u32) -> u64 {
    #[allow(clippy::cast_possible_truncation)] // the lower half is the sequence number
    let ahead = sequence.wrapping_sub(next as u32).cast_signed();
    next.saturating_add_signed(i64::from(ahead))
}

fn gap(bytes: u64) -> Piece<'static> {
    Piece::Gap(Gap {
        bytes,
        cause: GapCause::NotCaptured,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pieces as text: bytes as they are, gaps as `<12>` (not captured) or `<12 snap>`.
    fn shown(steps: impl FnOnce(&mut Reassembly, &mut dyn FnMut(Piece<'_>))) -> String {
        let mut text = String::new();
        let mut reassembly = Reassembly::default();
        steps(&mut reassembly, &mut |piece| match piece {
            Piece::Bytes(bytes) => text.push_str(&String::from_utf8_lossy(bytes)),
            Piece::Gap(Gap { bytes, cause }) => {
                let snap = if cause == GapCause::SnapLength {
                    " snap"
                } else {
                    ""
                };
                text.push_str(&format!("<{bytes}{snap}>"));
            }
        });
        text
    }

    #[test]
    fn any_order_gives_the_same_stream() {
        let segments: [(u32, &[u8]); 3] = [(100, b"abc"), (103, b"de"), (105, b"fghi")];
        for order in [
            [0, 1, 2],
            [0, 2, 1],
            [1, 0, 2],
            [1, 2, 0],
            [2, 0, 1],
            [2, 1, 0],
        ] {
            let text = shown(|it, take| {
                it.start(100);
                for index in order {
                    let (sequence, payload) = segments[index];
                    it.push(sequence, payload, 0, take);
                }
            });
            assert_eq!(text, "abcdefghi", "{order:?}");
        }
    }

    #[test]
    fn repeated_bytes_are_handed_on_once() {
        let text = shown(|it, take| {
            it.start(100);
            it.push(100, b"abcd", 0, take);
            it.push(100, b"abcd", 0, take);
            it.push(102, b"cdef", 0, take);
            it.push(99, b"x", 0, take);
            assert_eq!((it.retransmitted, it.out_of_order), (2, 0));
        });
        assert_eq!(text, "abcdef");
    }

    #[test]
    fn sequence_numbers_wrap() {
        let text = shown(|it, take| {
            it.start(u32::MAX - 1);
            it.push(1, b"def", 0, take);
            it.push(u32::MAX - 1, b"abc", 0, take);
        });
        assert_eq!(text, "abcdef");
    }

    #[test]
    fn a_hole_is_given_up_when_the_receiver_acknowledges_its_bytes() {
        let text = shown(|it, take| {
            it.start(100);
            it.push(100, b"ab", 0, take);
            it.push(105, b"fg", 0, take);
            it.acknowledge(104, take);
            assert!(!it.late.is_empty(), "the hole may still be filled");
            it.acknowledge(107, take);
            it.push(107, b"hi", 0, take);
        });
        assert_eq!(text, "ab<3>fghi");
    }

    #[test]
    fn a_hole_is_given_up_when_too_much_waits_behind_it() {
        let block = vec![b'x'; 1 << 20];
        let mut bytes = 0;
        let mut gaps = 0;
        let mut reassembly = Reassembly::default();
        reassembly.start(0);
        for number in 0..6 {
            reassembly.push(1 + (number << 20), &block, 0, &mut |piece| match piece {
                Piece::Bytes(more) => bytes += more.len(),
                Piece::Gap(gap) => gaps += gap.bytes,
            });
        }
        assert_eq!((bytes, gaps), (6 << 20, 1));
    }

    #[test]
    fn the_end_shows_missing_bytes() {
        let text = shown(|it, take| {
            it.start(100);
            it.push(103, b"d", 0, take);
            it.push_fin(107);
            it.finish(take);
            assert!(it.is_ended());
        });
        assert_eq!(text, "<3>d<3>");
        let text = shown(|it, take| {
            it.push(100, b"a", 0, take);
            it.acknowledge(112, take);
            it.finish(take);
        });
        assert_eq!(text, "a<10>", "the last number may be the FIN's");
    }

    #[test]
    fn the_snap_length_makes_gaps_of_known_length() {
        let text = shown(|it, take| {
            it.start(100);
            it.push(100, b"ab", 3, take);
            it.push(110, b"kl", 1, take);
            it.push(105, b"fghij", 0, take);
            it.push(103, b"de", 12, take);
        });
        assert_eq!(text, "ab<3 snap>fghijkl<1 snap><4 snap>");
    }

    #[test]
    fn strays_far_ahead_are_left_alone() {
        let text = shown(|it, take| {
            it.start(0);
            it.push(0x6000_0000, b"stray", 0, take);
            it.push(0, b"abc", 0, take);
            it.finish(take);
        });
        assert_eq!(text, "abc");
    }
}
