//! The trace of a world, one line per event: always hashed, and kept as text on request.

use std::cell::{Cell, RefCell};
use std::fmt::{self, Write};

const HASH_START: u64 = 0xcbf2_9ce4_8422_2325;

/// The trace of one world.
pub(crate) struct Trace {
    hash: Cell<u64>,
    lines: Cell<u64>,
    text: Option<RefCell<String>>,
}

/// A trace in two numbers. Two runs of a seed agree on both, unless an input outside the seed changed the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceDigest {
    /// FNV-1a over all the lines.
    pub hash: u64,
    /// The number of lines.
    pub lines: u64,
}

impl Trace {
    pub(crate) fn new(keep: bool) -> Trace {
        Trace {
            hash: Cell::new(HASH_START),
            lines: Cell::new(0),
            text: keep.then(RefCell::default),
        }
    }

    pub(crate) fn line(&self, now_ns: u64, event: fmt::Arguments<'_>) {
        let mut hasher = Hasher(self.hash.get());
        // Neither the hasher nor a String refuses text.
        let _ = writeln!(hasher, "{now_ns} {event}");
        self.hash.set(hasher.0);
        self.lines.set(self.lines.get() + 1);
        if let Some(text) = &self.text {
            let _ = writeln!(text.borrow_mut(), "{now_ns:>15} {event}");
        }
    }

    pub(crate) fn digest(&self) -> TraceDigest {
        TraceDigest {
            hash: self.hash.get(),
            lines: self.lines.get(),
        }
    }

    pub(crate) fn text(&self) -> String {
        self.text
            .as_ref()
            .map(|text| text.borrow().clone())
            .unwrap_or_default()
    }
}

struct Hasher(u64);

impl Write for Hasher {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        Ok(())
    }
}
