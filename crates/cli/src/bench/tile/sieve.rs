//! Data sieving, as ROMIO does it: a tile's rows and all that lies between them are moved in windows of a bounded
//! length, and the rows picked out of them or patched into them.

use std::ops::Range;

/// Where a tile lies in its file: rows of one length, the first byte of one as far from that of the next.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extent {
    /// The first byte of the first row.
    pub(super) first: u64,
    /// Bytes from the start of a row to the start of the next; at least `row`.
    pub(super) stride: u64,
    /// Bytes of a row, never 0.
    pub(super) row: u64,
    /// Never 0.
    pub(super) rows: u64,
}

/// Bytes that a window and the tile have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Common {
    /// The offset in the window.
    pub(super) at: usize,
    /// The offset in the tile, whose rows lie together.
    pub(super) tile: usize,
    pub(super) len: usize,
}

impl Extent {
    /// The offset after the last byte of the last row.
    fn end(&self) -> u64 {
        self.first + (self.rows - 1) * self.stride + self.row
    }

    /// The tile's next byte, from `offset` of the file on.
    fn next(&self, offset: u64) -> Option<u64> {
        let offset = offset.max(self.first);
        let (row, within) = (
            (offset - self.first) / self.stride,
            (offset - self.first) % self.stride,
        );
        let next = if within < self.row {
            offset
        } else {
            self.first + (row + 1) * self.stride
        };
        (next < self.end()).then_some(next)
    }

    /// The ranges of the file to move one after the other, each of at most `len` bytes: none begins or ends in what
    /// lies between rows but where it is full.
    pub(super) fn windows(self, len: u64) -> impl Iterator<Item = Range<u64>> {
        let mut at = self.first;
        std::iter::from_fn(move || {
            let start = self.next(at)?;
            at = self.end().min(start + len);
            Some(start..at)
        })
    }

    /// The parts of the tile's rows that lie in a window.
    pub(super) fn common(self, window: &Range<u64>) -> impl Iterator<Item = Common> + use<> {
        let Range { start, end } = *window;
        let first = start.saturating_sub(self.first) / self.stride;
        let rows = (first..self.rows).map(move |row| (row, self.first + row * self.stride));
        let rows = rows.take_while(move |(_, offset)| *offset < end);
        rows.filter_map(move |(row, offset)| {
            let bytes = offset.max(start)..(offset + self.row).min(end);
            // A tile and a window are as long as a transfer at most.
            (!bytes.is_empty()).then(|| Common {
                at: (bytes.start - start) as usize,
                tile: (row * self.row + (bytes.start - offset)) as usize,
                len: (bytes.end - bytes.start) as usize,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_hold_every_byte_of_a_tile_once() {
        for (first, stride, row, rows, len) in [
            (0, 10, 3, 4, 7),
            (5, 10, 10, 4, 7),
            (100, 64, 20, 50, 1000),
            (7, 1000, 900, 3, 64),
            (0, 8, 2, 5, 1 << 20),
            (3, 9, 1, 6, 1),
        ] {
            let extent = Extent {
                first,
                stride,
                row,
                rows,
            };
            let mut places = Vec::new();
            for window in extent.windows(len) {
                assert!(window.end - window.start <= len);
                for Common { at, tile, len } in extent.common(&window) {
                    places.extend(
                        (0..len).map(|byte| (tile + byte, window.start + (at + byte) as u64)),
                    );
                }
            }
            let expected = (0..rows * row)
                .map(|byte| (byte as usize, first + byte / row * stride + byte % row));
            assert_eq!(places, expected.collect::<Vec<_>>());
        }
    }
}
