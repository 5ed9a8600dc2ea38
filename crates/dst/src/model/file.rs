//! A regular file of the model: its visible content, and the contents that a crash can leave.

use gannet_vfs::Stability;

/// Whether a crash may have taken unsynced bytes before an operation was executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Loss {
    None,
    Possible,
}

/// A regular file: its visible content, and the contents that a crash can leave.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct File {
    pub(super) data: Vec<u8>,
    durable: Vec<u8>,
    pub(super) unsynced: Vec<(usize, Vec<u8>)>,
}

impl File {
    pub(super) fn write(&mut self, offset: u64, bytes: &[u8], stability: Stability, loss: Loss) {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        if !bytes.is_empty() {
            place(&mut self.data, start, bytes);
        }
        match (stability, loss) {
            (Stability::Unstable, _) => {
                let write = (start, bytes.to_vec());
                // A repetition of the last write changes nothing.
                if !bytes.is_empty() && self.unsynced.last() != Some(&write) {
                    self.unsynced.push(write);
                }
            }
            (_, Loss::None) => self.sync(),
            (_, Loss::Possible) if bytes.is_empty() => {}
            (_, Loss::Possible) => {
                self.forget_range(start, start + bytes.len());
                place(&mut self.durable, start, bytes);
            }
        }
    }

    /// Unstable writes between `start` and `end` cannot come back.
    pub(super) fn forget_range(&mut self, start: usize, end: usize) {
        let writes = std::mem::take(&mut self.unsynced);
        for (at, bytes) in writes {
            let before = start.saturating_sub(at).min(bytes.len());
            let behind = end.saturating_sub(at).min(bytes.len());
            let parts = [(at, &bytes[..before]), (at + behind, &bytes[behind..])];
            for (at, part) in parts {
                if !part.is_empty() {
                    self.unsynced.push((at, part.to_vec()));
                }
            }
        }
    }

    pub(super) fn commit(&mut self, loss: Loss) {
        // A COMMIT does not bring back the bytes that a crash took. The others stay uncertain until they are read
        // back.
        if loss == Loss::None {
            self.sync();
        }
    }

    pub(super) fn truncate(&mut self, len: usize, loss: Loss) {
        self.data.resize(len, 0);
        match loss {
            Loss::None => self.sync(),
            Loss::Possible => {
                self.forget_range(len, usize::MAX);
                self.durable.resize(len, 0);
            }
        }
    }

    pub(super) fn sync(&mut self) {
        self.durable.clone_from(&self.data);
        self.unsynced.clear();
    }

    /// Lengths that a crash can leave.
    pub(super) fn lengths(&self) -> impl Iterator<Item = usize> {
        let durable = self.durable.len();
        let written = self.unsynced.iter().map(|(at, bytes)| at + bytes.len());
        let longer = written.filter(move |len| *len > durable);
        longer.chain([durable])
    }

    /// True if after a crash a read at `offset` can give `bytes`, reaching the end of the file or not.
    pub(super) fn permits(&self, offset: u64, bytes: &[u8], eof: bool) -> bool {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let end = start.saturating_add(bytes.len());
        let fits = if eof && bytes.is_empty() {
            self.lengths().any(|len| len <= start)
        } else if eof {
            self.lengths().any(|len| len == end)
        } else {
            self.lengths().any(|len| len > end)
        };
        let mut bytes = bytes.iter().enumerate();
        fits && bytes.all(|(index, byte)| self.permits_byte(start + index, *byte))
    }

    fn permits_byte(&self, at: usize, byte: u8) -> bool {
        let durable = self.durable.get(at).copied().unwrap_or(0);
        let written = |(start, bytes): &(usize, Vec<u8>)| {
            at.checked_sub(*start).and_then(|index| bytes.get(index)) == Some(&byte)
        };
        byte == durable || self.unsynced.iter().any(written)
    }
}

fn place(data: &mut Vec<u8>, start: usize, bytes: &[u8]) {
    let end = start + bytes.len();
    if data.len() < end {
        data.resize(end, 0);
    }
    data[start..end].copy_from_slice(bytes);
}
