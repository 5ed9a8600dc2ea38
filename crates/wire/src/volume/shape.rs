//! List I/O: the bytes of a file or of memory that a request moves (`shape` in docs/formats/volume.md).

use super::{LEVELS_MAX, NESTED_PIECES_MAX, PIECES_MAX, TRANSFER_MAX};
use crate::xdr::{Decode, Decoder, Encode, Encoder, Items, Printed, XdrError, print_as_display};
use alloc::vec::Vec;
use core::fmt;

/// A contiguous range of bytes (`piece`). It prints as `offset+length`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Piece {
    /// The position of the first byte, in bytes from the file's start or under a key.
    pub offset: u64,
    /// The number of bytes; never 0.
    pub len: u32,
}

impl fmt::Display for Piece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{}", self.offset, self.len)
    }
}

/// One level of a nested description: it repeats the levels within it (`level`). It prints as `count*stride`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Level {
    /// The number of repetitions; never 0.
    pub count: u32,
    /// Bytes from the start of one repetition to the start of the next.
    pub stride: u64,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}*{}", self.count, self.stride)
    }
}

/// A sequence of pieces (`shape`). Their bytes, in this order, are the request's *stream*: byte `n` of the stream of a
/// file's shape belongs to byte `n` of the stream of a memory's shape.
///
/// A list prints as its pieces in brackets, a nested shape as its first piece and the levels.
///
/// No arithmetic on a value of this type overflows: every constructor checks it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Shape {
    form: Form,
    /// Bytes of the stream.
    len: u64,
    /// The position behind the last byte of any piece.
    end: u64,
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.form {
            Form::List(pieces) => write!(f, "{}", Printed(&Items(pieces))),
            Form::Nested { first, levels } if levels.is_empty() => write!(f, "{first}"),
            Form::Nested { first, levels } => write!(f, "{first}{}", Printed(&Items(levels))),
        }
    }
}

print_as_display!(Piece, Level, Shape);

/// The numbers of the two forms.
mod form {
    pub(super) const LIST: u32 = 0;
    pub(super) const NESTED: u32 = 1;
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Form {
    List(Vec<Piece>),
    Nested { first: Piece, levels: Vec<Level> },
}

/// The description of the pieces of a [`Shape`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Description<'a> {
    /// Each piece, at most [`PIECES_MAX`].
    List(&'a [Piece]),
    /// A piece that repeats, at most [`NESTED_PIECES_MAX`] times in all.
    Nested {
        /// The first piece.
        first: Piece,
        /// The repetitions, the innermost first.
        levels: &'a [Level],
    },
}

impl Shape {
    /// `len` bytes from `offset` on.
    ///
    /// # Errors
    /// - [`XdrError::TooLong`]: `len` is above [`TRANSFER_MAX`].
    /// - [`XdrError::Value`]: `len` is 0, or a byte is beyond 2^64 - 1.
    pub fn contiguous(offset: u64, len: u32) -> Result<Shape, XdrError> {
        Shape::nested(Piece { offset, len }, Vec::new())
    }

    /// These pieces, in this order.
    ///
    /// # Errors
    /// - [`XdrError::TooLong`]: there are more than [`PIECES_MAX`] pieces or [`TRANSFER_MAX`] bytes.
    /// - [`XdrError::Value`]: there is no piece, or one is empty or reaches beyond 2^64 - 1.
    pub fn list(pieces: Vec<Piece>) -> Result<Shape, XdrError> {
        if pieces.len() > PIECES_MAX {
            return Err(XdrError::TooLong);
        }
        let (mut len, mut end) = (0u64, 0u64);
        for piece in &pieces {
            // At most PIECES_MAX times 2^32: no overflow.
            len += u64::from(piece.len);
            end = end.max(piece.end().ok_or(XdrError::Value)?);
        }
        if pieces.iter().any(|piece| piece.len == 0) || pieces.is_empty() {
            return Err(XdrError::Value);
        }
        Shape::checked(Form::List(pieces), len, end)
    }

    /// `first`, repeated by each of `levels`, the innermost first: a row of a tile is a piece, the tile one level.
    ///
    /// # Errors
    /// - [`XdrError::TooLong`]: there are more than [`LEVELS_MAX`] levels, [`NESTED_PIECES_MAX`] pieces or
    ///   [`TRANSFER_MAX`] bytes.
    /// - [`XdrError::Value`]: the piece or a level is empty, or a byte is beyond 2^64 - 1.
    pub fn nested(first: Piece, levels: Vec<Level>) -> Result<Shape, XdrError> {
        if levels.len() > LEVELS_MAX {
            return Err(XdrError::TooLong);
        }
        if first.len == 0 || levels.iter().any(|level| level.count == 0) {
            return Err(XdrError::Value);
        }
        let mut pieces = 1u64;
        let mut end = first.end().ok_or(XdrError::Value)?;
        for level in &levels {
            pieces = pieces.saturating_mul(u64::from(level.count));
            let reach = level.stride.checked_mul(u64::from(level.count - 1));
            end = reach
                .and_then(|reach| end.checked_add(reach))
                .ok_or(XdrError::Value)?;
        }
        if pieces > NESTED_PIECES_MAX {
            return Err(XdrError::TooLong);
        }
        let len = pieces.saturating_mul(u64::from(first.len));
        Shape::checked(Form::Nested { first, levels }, len, end)
    }

    fn checked(form: Form, len: u64, end: u64) -> Result<Shape, XdrError> {
        if len > TRANSFER_MAX {
            return Err(XdrError::TooLong);
        }
        Ok(Shape { form, len, end })
    }

    /// Bytes of the stream, from 1 to [`TRANSFER_MAX`].
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Always false: a shape has at least one byte.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The position of the first byte of any piece.
    pub fn start(&self) -> u64 {
        match &self.form {
            Form::List(pieces) => pieces.iter().map(|piece| piece.offset).min().unwrap_or(0),
            Form::Nested { first, .. } => first.offset,
        }
    }

    /// The position behind the last byte of any piece.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// The same shape, `by` bytes further on.
    ///
    /// # Errors
    /// [`XdrError::Value`]: a byte is beyond 2^64 - 1.
    pub fn shifted(&self, by: u64) -> Result<Shape, XdrError> {
        let end = self.end.checked_add(by).ok_or(XdrError::Value)?;
        let mut form = self.form.clone();
        match &mut form {
            Form::List(pieces) => pieces.iter_mut().for_each(|piece| piece.offset += by),
            Form::Nested { first, .. } => first.offset += by,
        }
        Ok(Shape {
            form,
            len: self.len,
            end,
        })
    }

    /// The description of the pieces, for arithmetic that must not take a step for each of them.
    pub fn description(&self) -> Description<'_> {
        match &self.form {
            Form::List(pieces) => Description::List(pieces),
            Form::Nested { first, levels } => Description::Nested {
                first: *first,
                levels,
            },
        }
    }

    /// The pieces, in the order of the stream.
    pub fn pieces(&self) -> Pieces<'_> {
        Pieces {
            shape: self,
            next: Some([0; LEVELS_MAX]),
            at: 0,
        }
    }
}

impl Piece {
    /// The position behind the last byte; `None` beyond 2^64 - 1.
    pub fn end(&self) -> Option<u64> {
        self.offset.checked_add(u64::from(self.len))
    }
}

/// The pieces of a [`Shape`].
#[derive(Debug, Clone)]
pub struct Pieces<'a> {
    shape: &'a Shape,
    /// The repetitions of each level of a nested shape so far. `None` after the last piece.
    next: Option<[u32; LEVELS_MAX]>,
    /// The index of the next piece of a list.
    at: usize,
}

impl Iterator for Pieces<'_> {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        match &self.shape.form {
            Form::List(pieces) => {
                let piece = pieces.get(self.at).copied();
                self.at += 1;
                piece
            }
            Form::Nested { first, levels } => {
                let turns = self.next.take()?;
                let mut offset = first.offset;
                for (level, turn) in levels.iter().zip(turns) {
                    // No overflow: the constructor has added up the largest of these.
                    offset += level.stride * u64::from(turn);
                }
                self.next = following(turns, levels);
                Some(Piece {
                    offset,
                    len: first.len,
                })
            }
        }
    }
}

/// Counts up by one, the innermost level first; `None` after the last.
fn following(mut turns: [u32; LEVELS_MAX], levels: &[Level]) -> Option<[u32; LEVELS_MAX]> {
    for (turn, level) in turns.iter_mut().zip(levels) {
        *turn += 1;
        if *turn < level.count {
            return Some(turns);
        }
        *turn = 0;
    }
    None
}

impl Encode for Shape {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        match &self.form {
            Form::List(pieces) => {
                encoder.u32(form::LIST);
                // At most PIECES_MAX.
                encoder.u32(pieces.len() as u32);
                pieces.iter().for_each(|piece| piece.encode(encoder));
            }
            Form::Nested { first, levels } => {
                encoder.u32(form::NESTED);
                first.encode(encoder);
                encoder.u32(levels.len() as u32);
                for level in levels {
                    encoder.u32(level.count);
                    encoder.u64(level.stride);
                }
            }
        }
    }
}

impl Decode<'_> for Shape {
    fn decode(decoder: &mut Decoder<'_>) -> Result<Shape, XdrError> {
        match decoder.u32()? {
            form::LIST => {
                let count = decoder.length(PIECES_MAX)?;
                let pieces = (0..count).map(|_| Piece::decode(decoder));
                Shape::list(pieces.collect::<Result<_, _>>()?)
            }
            form::NESTED => {
                let first = Piece::decode(decoder)?;
                let count = decoder.length(LEVELS_MAX)?;
                let levels = (0..count).map(|_| {
                    Ok(Level {
                        count: decoder.u32()?,
                        stride: decoder.u64()?,
                    })
                });
                Shape::nested(first, levels.collect::<Result<_, _>>()?)
            }
            _ => Err(XdrError::Value),
        }
    }
}

impl Encode for Piece {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.u64(self.offset);
        encoder.u32(self.len);
    }
}

impl Decode<'_> for Piece {
    fn decode(decoder: &mut Decoder<'_>) -> Result<Piece, XdrError> {
        Ok(Piece {
            offset: decoder.u64()?,
            len: decoder.u32()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xdr::from_bytes;
    use alloc::vec;
    use std::string::ToString;
    use std::vec::Vec;

    const ROW: Piece = Piece {
        offset: 1000,
        len: 24,
    };

    fn bytes_of(shape: &Shape) -> Vec<u8> {
        let mut out = Vec::new();
        shape.encode(&mut Encoder::new(&mut out));
        out
    }

    #[test]
    fn a_tile_is_a_row_and_a_level() {
        let rows = Level {
            count: 3,
            stride: 100,
        };
        let tile = Shape::nested(ROW, vec![rows]).unwrap();
        let offsets: Vec<u64> = tile.pieces().map(|piece| piece.offset).collect();
        assert_eq!(offsets, [1000, 1100, 1200]);
        assert_eq!((tile.len(), tile.end()), (72, 1224));
        assert_eq!(tile.to_string(), "1000+24[3*100]");
        assert_eq!(from_bytes(&bytes_of(&tile)), Ok(tile));
    }

    #[test]
    fn the_innermost_level_goes_round_first() {
        let levels = [(2, 10), (2, 100), (1, 7), (2, 1000)];
        let levels = levels.map(|(count, stride)| Level { count, stride });
        let first = Piece { offset: 0, len: 1 };
        let shape = Shape::nested(first, levels.to_vec()).unwrap();
        let offsets: Vec<u64> = shape.pieces().map(|piece| piece.offset).collect();
        assert_eq!(offsets, [0, 10, 100, 110, 1000, 1010, 1100, 1110]);
    }

    #[test]
    fn a_shape_can_be_moved_as_far_as_there_are_offsets() {
        let list = Shape::list(vec![ROW, Piece { offset: 5, len: 1 }]).unwrap();
        for shape in [Shape::contiguous(5, 7).unwrap(), list] {
            let moved = shape.shifted(1 << 40).unwrap();
            let offsets = shape.pieces().map(|piece| piece.offset + (1 << 40));
            assert!(moved.pieces().map(|piece| piece.offset).eq(offsets));
            assert_eq!(
                (moved.len(), moved.end()),
                (shape.len(), shape.end() + (1 << 40))
            );
            assert_eq!(shape.shifted(u64::MAX), Err(XdrError::Value));
        }
    }

    #[test]
    fn a_list_keeps_its_order() {
        let pieces = vec![ROW, Piece { offset: 5, len: 1 }];
        let list = Shape::list(pieces.clone()).unwrap();
        assert_eq!(list.pieces().collect::<Vec<_>>(), pieces);
        assert_eq!((list.len(), list.end()), (25, 1024));
        assert_eq!(list.to_string(), "[1000+24,5+1]");
        assert_eq!(Shape::contiguous(5, 7).unwrap().to_string(), "5+7");
        assert_eq!(from_bytes(&bytes_of(&list)), Ok(list));
    }

    #[test]
    fn impossible_shapes_are_refused() {
        let list = |count: usize, piece: Piece| Shape::list(vec![piece; count]);
        let nested =
            |piece: Piece, count, stride| Shape::nested(piece, vec![Level { count, stride }]);
        let (long, far) = (
            Piece {
                offset: 0,
                len: u32::MAX,
            },
            Piece {
                offset: u64::MAX - 10,
                len: 11,
            },
        );
        assert_eq!(list(0, ROW), Err(XdrError::Value));
        assert_eq!(list(PIECES_MAX + 1, ROW), Err(XdrError::TooLong));
        assert_eq!(list(1, long), Err(XdrError::TooLong));
        assert_eq!(list(1, far), Err(XdrError::Value));
        assert_eq!(list(2, Piece { offset: 0, len: 0 }), Err(XdrError::Value));
        assert_eq!(nested(ROW, 0, 8), Err(XdrError::Value));
        assert_eq!(nested(ROW, u32::MAX, 1), Err(XdrError::TooLong));
        assert_eq!(nested(ROW, 3, u64::MAX / 2), Err(XdrError::Value));
        let many = vec![
            Level {
                count: 1,
                stride: 0
            };
            LEVELS_MAX + 1
        ];
        assert_eq!(Shape::nested(ROW, many), Err(XdrError::TooLong));
        // A count that no message can hold.
        let lie = [0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff];
        assert_eq!(from_bytes::<Shape>(&lie), Err(XdrError::TooLong));
    }
}
