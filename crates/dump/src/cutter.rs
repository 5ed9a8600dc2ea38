//! Cuts a stream into frames, over gaps where that is possible.
//!
//! A gap inside a frame whose length is known costs that frame its end, no more. A gap that may hold the start of a
//! frame loses the rhythm: from there the bytes are searched for something that looks like a frame.

use crate::limits::MESSAGE_KEPT_MAX;
use crate::line::{Direction, Line, Part};
use gannet_wire::mpa::FpduError;
use std::borrow::Cow;

/// The reason why no frame starts where one should.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FrameError {
    /// The bytes are no FPDU.
    #[error(transparent)]
    Fpdu(#[from] FpduError),
    /// The record mark announces more bytes than any RPC message has.
    #[error("a record of {length} bytes is not RPC")]
    RecordTooLong {
        /// The length in the record mark.
        length: u32,
    },
}

/// Finds the frames of one protocol.
pub(crate) trait Framing {
    /// Length of the frame at the front of `bytes`; `None` until its length field is there.
    ///
    /// # Errors
    /// [`FrameError`]: no frame of the protocol starts there.
    fn frame_len(&self, bytes: &[u8]) -> Result<Option<usize>, FrameError>;

    /// True if `bytes` look like frames from their very front; `None` when more bytes are needed to decide.
    fn starts_frame(&self, bytes: &[u8]) -> Option<bool>;
}

/// A piece that a stream is cut into.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Cut<'a> {
    /// A frame.
    Frame(Frame<'a>),
    /// No frame starts where one should.
    Broken(FrameError),
    /// A frame was found again.
    Resumed {
        /// Bytes left aside while searching.
        skipped: u64,
    },
}

impl Cut<'_> {
    /// A line for a loss or a find; none for a frame, or when a search skipped no bytes.
    pub(crate) fn remark(self, time: u64, direction: Direction) -> Option<Line> {
        let mut part = Part::new("stream");
        let operation = match self {
            Cut::Frame(_) | Cut::Resumed { skipped: 0 } => return None,
            Cut::Broken(error) => {
                part.word("error", error.to_string());
                "lost"
            }
            Cut::Resumed { skipped } => {
                part.pair("skipped", skipped);
                "found"
            }
        };
        Some(Line {
            direction: Some(direction),
            parts: vec![part],
            ..Line::new(time, operation)
        })
    }
}

/// A frame, or as much of its front as is there.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    /// The bytes up to the first that is missing, and no more than [`MESSAGE_KEPT_MAX`].
    pub(crate) bytes: &'a [u8],
    /// Bytes of the frame on the wire.
    pub(crate) total: usize,
    /// False when bytes of it are missing.
    pub(crate) is_whole: bool,
    /// Its position in the stream.
    pub(crate) offset: u64,
}

/// The state of cutting one stream.
#[derive(Debug, Default)]
pub(crate) struct Cutter {
    /// The front of the frame being received; while searching, the bytes not yet decided on.
    kept: Vec<u8>,
    frame: Option<Unfinished>,
    /// No frame boundary is known.
    is_lost: bool,
    skipped: u64,
    /// Bytes taken or missed so far, those in `kept` included.
    position: u64,
}

#[derive(Debug, Clone, Copy)]
struct Unfinished {
    total: usize,
    seen: usize,
    is_whole: bool,
}

impl Cutter {
    /// A stream of which the beginning was not seen.
    pub(crate) fn lost() -> Cutter {
        Cutter {
            is_lost: true,
            ..Cutter::default()
        }
    }

    /// Takes the next bytes of the stream.
    pub(crate) fn push<F: Framing>(
        &mut self,
        framing: &F,
        input: &[u8],
        take: &mut dyn FnMut(Cut<'_>),
    ) {
        let mut current = Cow::Borrowed(input);
        let mut at = 0;
        while at < current.len() {
            if !self.is_lost {
                at += self.step(framing, &current[at..], take);
                continue;
            }
            if !self.kept.is_empty() {
                // A frame may start in the bytes kept and end in the new ones.
                self.position -= self.kept.len() as u64;
                let mut joined = std::mem::take(&mut self.kept);
                joined.extend_from_slice(&current[at..]);
                current = Cow::Owned(joined);
                at = 0;
            }
            let (passed, found) = search(framing, &current[at..]);
            at += passed;
            self.skipped += passed as u64;
            self.position += passed as u64;
            if !found {
                let mut undecided = current.into_owned();
                undecided.drain(..at);
                self.position += undecided.len() as u64;
                self.kept = undecided;
                return;
            }
            self.is_lost = false;
            take(Cut::Resumed {
                skipped: std::mem::take(&mut self.skipped),
            });
        }
    }

    /// Bytes of the stream are missing.
    pub(crate) fn push_gap(&mut self, bytes: u64, take: &mut dyn FnMut(Cut<'_>)) {
        self.position += bytes;
        let Some(frame) = &mut self.frame else {
            self.is_lost = true;
            self.skipped += self.kept.len() as u64;
            self.kept.clear();
            return;
        };
        let left = (frame.total - frame.seen) as u64;
        frame.is_whole = false;
        if bytes < left {
            frame.seen += usize::try_from(bytes).unwrap_or(0);
            return;
        }
        self.is_lost = bytes > left;
        self.position -= bytes - left;
        self.finish(take);
        self.position += bytes - left;
    }

    /// The stream is over; hands on the front of an unfinished frame.
    pub(crate) fn end(&mut self, take: &mut dyn FnMut(Cut<'_>)) {
        if let Some(frame) = &mut self.frame {
            frame.is_whole = false;
            self.position += (frame.total - frame.seen) as u64;
            self.finish(take);
        }
    }

    /// Takes bytes off the front of `input`, which is not empty; returns how many.
    fn step<F: Framing>(
        &mut self,
        framing: &F,
        input: &[u8],
        take: &mut dyn FnMut(Cut<'_>),
    ) -> usize {
        if let Some(frame) = &mut self.frame {
            let count = input.len().min(frame.total - frame.seen);
            let room = MESSAGE_KEPT_MAX.saturating_sub(self.kept.len());
            if frame.is_whole {
                self.kept.extend_from_slice(&input[..count.min(room)]);
            }
            frame.seen += count;
            self.position += count as u64;
            if frame.seen == frame.total {
                self.finish(take);
            }
            return count;
        }
        if self.kept.is_empty() {
            return self.first_step(framing, input, take);
        }
        // The length field came in pieces: take them byte by byte.
        self.kept.extend_from_slice(&input[..1]);
        self.position += 1;
        match framing.frame_len(&self.kept) {
            Ok(Some(total)) => self.begin(total),
            Ok(None) => {}
            Err(error) => self.lose(error, take),
        }
        1
    }

    /// As [`Cutter::step`] at a frame's start: a frame that is there completely is handed on where it lies.
    fn first_step<F: Framing>(
        &mut self,
        framing: &F,
        input: &[u8],
        take: &mut dyn FnMut(Cut<'_>),
    ) -> usize {
        match framing.frame_len(input) {
            Ok(Some(total)) if total > 0 && total <= input.len() => {
                take(Cut::Frame(Frame {
                    bytes: &input[..total.min(MESSAGE_KEPT_MAX)],
                    total,
                    is_whole: true,
                    offset: self.position,
                }));
                self.position += total as u64;
                total
            }
            Ok(_) => {
                self.kept.extend_from_slice(&input[..1]);
                self.position += 1;
                if let Ok(Some(total)) = framing.frame_len(&self.kept) {
                    self.begin(total);
                }
                1
            }
            Err(error) => {
                self.lose(error, take);
                0
            }
        }
    }

    fn begin(&mut self, total: usize) {
        self.frame = Some(Unfinished {
            total: total.max(self.kept.len()),
            seen: self.kept.len(),
            is_whole: true,
        });
    }

    fn lose(&mut self, error: FrameError, take: &mut dyn FnMut(Cut<'_>)) {
        take(Cut::Broken(error));
        self.is_lost = true;
    }

    /// Hands on the frame that ends at the current position.
    fn finish(&mut self, take: &mut dyn FnMut(Cut<'_>)) {
        if let Some(frame) = self.frame.take() {
            take(Cut::Frame(Frame {
                bytes: &self.kept,
                total: frame.total,
                is_whole: frame.is_whole,
                offset: self.position - frame.total as u64,
            }));
        }
        self.kept.clear();
    }
}

/// Bytes at the front of `input` that start no frame, and whether one starts behind them. If not, the bytes behind them
/// cannot be decided yet.
fn search<F: Framing>(framing: &F, input: &[u8]) -> (usize, bool) {
    for at in 0..input.len() {
        match framing.starts_frame(input.get(at..).unwrap_or_default()) {
            Some(false) => {}
            Some(true) => return (at, true),
            None => return (at, false),
        }
    }
    (input.len(), false)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames are `<`, a digit that gives their whole length, and filling without `<`.
    struct Digits;

    impl Framing for Digits {
        fn frame_len(&self, bytes: &[u8]) -> Result<Option<usize>, FrameError> {
            match bytes {
                [b'<', digit @ b'2'..=b'9', ..] => Ok(Some(usize::from(digit - b'0'))),
                [b'<'] => Ok(None),
                _ => Err(FrameError::RecordTooLong { length: 1 }),
            }
        }

        fn starts_frame(&self, bytes: &[u8]) -> Option<bool> {
            match self.frame_len(bytes) {
                Ok(None) => None,
                known => Some(known.is_ok()),
            }
        }
    }

    /// The cuts as text: `whole`, `front+missing`, `!error`, `~skipped`; each frame with its offset.
    fn cuts(stream: &str, slice: usize) -> Vec<String> {
        let mut cuts = Vec::new();
        let mut take = |cut: Cut<'_>| {
            cuts.push(match cut {
                Cut::Frame(frame) => {
                    let text = String::from_utf8_lossy(frame.bytes);
                    let missing = frame.total - frame.bytes.len();
                    assert_eq!(frame.is_whole, missing == 0);
                    let end = if missing > 0 {
                        format!("+{missing}")
                    } else {
                        String::new()
                    };
                    format!("{}:{text}{end}", frame.offset)
                }
                Cut::Broken(error) => format!("!{error:?}"),
                Cut::Resumed { skipped } => format!("~{skipped}"),
            });
        };
        let mut cutter = Cutter::default();
        // `_` is a byte that is missing.
        for run in stream
            .as_bytes()
            .chunk_by(|a, b| (*a == b'_') == (*b == b'_'))
        {
            if run.starts_with(b"_") {
                cutter.push_gap(run.len() as u64, &mut take);
            } else {
                for piece in run.chunks(slice) {
                    cutter.push(&Digits, piece, &mut take);
                }
            }
        }
        cutter.end(&mut take);
        cuts
    }

    #[test]
    fn streams_are_cut_alike_however_they_are_sliced() {
        for (stream, expected) in [
            ("<5abc<2<3x", vec!["0:<5abc", "5:<2", "7:<3x"]),
            // A gap inside a frame, and one to its very end.
            ("<6a__d<3x", vec!["0:<6a+3", "6:<3x"]),
            ("<6ab__<3x", vec!["0:<6ab+2", "6:<3x"]),
            // A gap that reaches over the next start, or stands where one is.
            ("<6ab____yz<3x", vec!["0:<6ab+2", "~2", "10:<3x"]),
            ("<3a____<3x", vec!["0:<3a", "~0", "7:<3x"]),
            ("<_abc<3x", vec!["~4", "5:<3x"]),
            // Garbage, and the end within a frame.
            (
                "<3axx<3bz<5",
                vec![
                    "0:<3a",
                    "!RecordTooLong { length: 1 }",
                    "~2",
                    "5:<3b",
                    "!RecordTooLong { length: 1 }",
                    "~1",
                    "9:<5+3",
                ],
            ),
        ] {
            for slice in 1..=stream.len() {
                assert_eq!(cuts(stream, slice), expected, "{stream} in {slice}s");
            }
        }
    }

    #[test]
    fn a_long_frame_is_counted_and_not_kept() {
        struct Long;
        impl Framing for Long {
            fn frame_len(&self, bytes: &[u8]) -> Result<Option<usize>, FrameError> {
                Ok((!bytes.is_empty()).then_some(4 * MESSAGE_KEPT_MAX))
            }
            fn starts_frame(&self, _: &[u8]) -> Option<bool> {
                Some(true)
            }
        }
        let mut cutter = Cutter::default();
        let mut seen = Vec::new();
        for _ in 0..5 {
            cutter.push(&Long, &vec![7; MESSAGE_KEPT_MAX], &mut |cut| {
                if let Cut::Frame(frame) = cut {
                    seen.push((frame.bytes.len(), frame.total, frame.is_whole));
                }
            });
            assert!(cutter.kept.len() <= MESSAGE_KEPT_MAX);
        }
        assert_eq!(seen, [(MESSAGE_KEPT_MAX, 4 * MESSAGE_KEPT_MAX, true)]);
    }
}
