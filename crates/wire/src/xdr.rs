//! XDR (RFC 4506): big-endian words, and byte strings padded to a multiple of four.
//!
//! [`Decoder`] is a cursor over borrowed bytes: it never copies, never allocates and never reads past the end,
//! and every variable length is checked against the caller's maximum and the remaining bytes before it is used.
//! [`Encoder`] appends to a `Vec` that the caller recycles.
//!
//! Pad bytes are written as zeros and accepted with any value, because foreign encoders leave memory in them where RFC
//! 4506 section 4 wants zeros. They never reach a caller.

mod codec;
mod print;

pub use codec::{Decode, Encode, from_bytes, to_bytes};
pub(crate) use codec::{enumeration, record};
pub(crate) use print::{
    Count, Items, Length, Octal, Quoted, print_as_display, print_field, printed,
};
pub use print::{Print, Printed};

use alloc::vec::Vec;

/// The item of an [`XdrError::Unknown`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UnknownItem {
    /// A form of layout, in the native protocol and in the metadata of volumes.
    #[error("form of layout")]
    LayoutForm,
}

/// The reason why bytes are not the XDR that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum XdrError {
    /// The bytes end before the item does.
    #[error("ends early")]
    Short,
    /// A variable length exceeds what its type allows.
    #[error("too long")]
    TooLong,
    /// A boolean that is neither 0 nor 1 (RFC 4506 section 4.4).
    #[error("not a boolean")]
    Bool,
    /// A discriminant, enum value or count outside its type.
    #[error("value out of range")]
    Value,
    /// A number that only a later version of the protocol defines.
    #[error(
        "{item} {number}, which this program does not know: use the release of gannet that made it, or a later one"
    )]
    Unknown {
        /// The item that the number stands for.
        item: UnknownItem,
        /// The number.
        number: u32,
    },
    /// Bytes are left over after the last item.
    #[error("trailing bytes")]
    Trailing,
}

/// Bytes of XDR's basic unit (RFC 4506 section 3), the word.
const UNIT: usize = 4;

/// Rounds `length` up to whole units of four bytes; `None` past the end of `usize`.
#[inline]
pub const fn padded(length: usize) -> Option<usize> {
    match length.checked_add(UNIT - 1) {
        Some(sum) => Some(sum & !(UNIT - 1)),
        None => None,
    }
}

/// The number of pad bytes behind `length` bytes, 0 to 3.
#[inline]
pub const fn pad_len(length: usize) -> usize {
    length.wrapping_neg() & (UNIT - 1)
}

/// A cursor that takes XDR items off the front of borrowed bytes.
#[derive(Debug, Clone, Copy)]
pub struct Decoder<'a> {
    rest: &'a [u8],
    /// Bytes that the cursor started with.
    total: usize,
}

impl<'a> Decoder<'a> {
    /// Starts at the first of `bytes`.
    #[inline]
    pub const fn new(bytes: &'a [u8]) -> Decoder<'a> {
        Decoder {
            rest: bytes,
            total: bytes.len(),
        }
    }

    /// Bytes taken so far.
    #[inline]
    pub const fn position(&self) -> usize {
        self.total - self.rest.len()
    }

    /// The bytes not yet taken.
    #[inline]
    pub const fn remaining(&self) -> &'a [u8] {
        self.rest
    }

    /// Checks that no bytes are left.
    ///
    /// # Errors
    /// [`XdrError::Trailing`]: bytes are left.
    #[inline]
    pub const fn finish(self) -> Result<(), XdrError> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(XdrError::Trailing)
        }
    }

    /// Takes an unsigned integer (RFC 4506 section 4.2).
    ///
    /// # Errors
    /// [`XdrError::Short`]: fewer than 4 bytes are left.
    #[inline]
    pub fn u32(&mut self) -> Result<u32, XdrError> {
        let (word, rest) = self.rest.split_first_chunk::<4>().ok_or(XdrError::Short)?;
        self.rest = rest;
        Ok(u32::from_be_bytes(*word))
    }

    /// Takes an unsigned hyper integer (RFC 4506 section 4.5).
    ///
    /// # Errors
    /// [`XdrError::Short`]: fewer than 8 bytes are left.
    #[inline]
    pub fn u64(&mut self) -> Result<u64, XdrError> {
        let (word, rest) = self.rest.split_first_chunk::<8>().ok_or(XdrError::Short)?;
        self.rest = rest;
        Ok(u64::from_be_bytes(*word))
    }

    /// Takes a boolean (RFC 4506 section 4.4), or the flag of an optional item (section 4.19).
    ///
    /// # Errors
    /// - [`XdrError::Short`]: fewer than 4 bytes are left.
    /// - [`XdrError::Bool`]: the word is neither 0 nor 1.
    #[inline]
    pub fn bool(&mut self) -> Result<bool, XdrError> {
        match self.u32()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(XdrError::Bool),
        }
    }

    /// Takes fixed-length opaque data of `N` bytes and its pad (RFC 4506 section 4.9).
    ///
    /// # Errors
    /// [`XdrError::Short`]: fewer bytes are left, or the pad is missing.
    #[inline]
    pub fn fixed<const N: usize>(&mut self) -> Result<&'a [u8; N], XdrError> {
        let (bytes, rest) = self.rest.split_first_chunk::<N>().ok_or(XdrError::Short)?;
        self.rest = rest.get(pad_len(N)..).ok_or(XdrError::Short)?;
        Ok(bytes)
    }

    /// Takes `length` bytes and their pad, where the caller knows the length from elsewhere.
    ///
    /// # Errors
    /// [`XdrError::Short`]: fewer bytes are left, or the pad is missing.
    #[inline]
    pub fn bytes(&mut self, length: usize) -> Result<&'a [u8], XdrError> {
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or(XdrError::Short)?;
        self.rest = rest.get(pad_len(length)..).ok_or(XdrError::Short)?;
        Ok(bytes)
    }

    /// Takes the length word of a variable-length item of at most `max` bytes or elements, and only the word.
    ///
    /// # Errors
    /// - [`XdrError::Short`]: fewer than 4 bytes are left.
    /// - [`XdrError::TooLong`]: the length is above `max`.
    #[inline]
    pub fn length(&mut self, max: usize) -> Result<usize, XdrError> {
        let length = usize::try_from(self.u32()?).map_err(|_| XdrError::TooLong)?;
        if length > max {
            Err(XdrError::TooLong)
        } else {
            Ok(length)
        }
    }

    /// Takes variable-length opaque data of at most `max` bytes and its pad (RFC 4506 section 4.10).
    ///
    /// # Errors
    /// - [`XdrError::Short`]: fewer bytes are left than the length word says, or the pad is missing.
    /// - [`XdrError::TooLong`]: the length is above `max`, even if the bytes are there.
    #[inline]
    pub fn opaque(&mut self, max: usize) -> Result<&'a [u8], XdrError> {
        let length = self.length(max)?;
        self.bytes(length)
    }

    /// Takes a string of at most `max` bytes (RFC 4506 section 4.11). The result is bytes, because XDR guarantees no
    /// encoding.
    ///
    /// # Errors
    /// [`XdrError::Short`] and [`XdrError::TooLong`], as of [`Decoder::opaque`].
    #[inline]
    pub fn string(&mut self, max: usize) -> Result<&'a [u8], XdrError> {
        self.opaque(max)
    }

    /// Takes a counted array of at most `N` unsigned integers (RFC 4506 section 4.13). Returns the elements, 0 behind
    /// the last, and their number.
    ///
    /// # Errors
    /// - [`XdrError::Short`]: fewer elements are left than the count says.
    /// - [`XdrError::TooLong`]: the count is above `N`.
    #[inline]
    pub fn u32_array<const N: usize>(&mut self) -> Result<([u32; N], usize), XdrError> {
        let count = self.length(N)?;
        let mut values = [0; N];
        for value in values.iter_mut().take(count) {
            *value = self.u32()?;
        }
        Ok((values, count))
    }
}

/// The position of a word that [`Encoder::reserve`] appended and [`Encoder::patch`] replaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a reserved word stays 0 until it is patched"]
pub struct Reserved(usize);

/// Appends XDR items to a caller's `Vec`.
#[derive(Debug)]
pub struct Encoder<'a> {
    out: &'a mut Vec<u8>,
    /// Bytes that `out` held before.
    start: usize,
}

impl<'a> Encoder<'a> {
    /// Appends to `out`, which keeps its content.
    #[inline]
    pub const fn new(out: &'a mut Vec<u8>) -> Encoder<'a> {
        let start = out.len();
        Encoder { out, start }
    }

    /// Bytes appended so far.
    #[inline]
    pub const fn position(&self) -> usize {
        self.out.len() - self.start
    }

    /// Appends an unsigned integer.
    #[inline]
    pub fn u32(&mut self, value: u32) {
        self.out.extend_from_slice(&value.to_be_bytes());
    }

    /// Appends an unsigned hyper integer.
    #[inline]
    pub fn u64(&mut self, value: u64) {
        self.out.extend_from_slice(&value.to_be_bytes());
    }

    /// Appends a boolean.
    #[inline]
    pub fn bool(&mut self, value: bool) {
        self.u32(u32::from(value));
    }

    /// Appends bytes whose length the reader knows, and their pad.
    #[inline]
    pub fn fixed(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
        const ZEROS: [u8; UNIT - 1] = [0; UNIT - 1];
        if let Some(pad) = ZEROS.get(..pad_len(bytes.len())) {
            self.out.extend_from_slice(pad);
        }
    }

    /// Appends bytes that are XDR already.
    #[inline]
    pub fn raw(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// Appends a length word, the bytes and their pad.
    ///
    /// XDR cannot express a length above `u32::MAX`; such an item is written as an empty one.
    #[inline]
    pub fn opaque(&mut self, bytes: &[u8]) {
        let Ok(length) = u32::try_from(bytes.len()) else {
            return self.u32(0);
        };
        self.u32(length);
        self.fixed(bytes);
    }

    /// Appends a counted array of unsigned integers. A count above `u32::MAX` is written as 0, without elements.
    #[inline]
    pub fn u32_array(&mut self, values: &[u32]) {
        let Ok(count) = u32::try_from(values.len()) else {
            return self.u32(0);
        };
        self.u32(count);
        for value in values {
            self.u32(*value);
        }
    }

    /// Appends a zero word to be replaced by [`Encoder::patch`].
    #[inline]
    pub fn reserve(&mut self) -> Reserved {
        let place = Reserved(self.out.len());
        self.u32(0);
        place
    }

    /// Replaces a reserved word.
    #[inline]
    pub fn patch(&mut self, place: Reserved, value: u32) {
        if let Some(word) = self
            .out
            .get_mut(place.0..)
            .and_then(<[u8]>::first_chunk_mut::<4>)
        {
            *word = value.to_be_bytes();
        }
    }

    /// Cuts back to `position` bytes, to drop an item that does not fit.
    #[inline]
    pub fn truncate(&mut self, position: usize) {
        self.out.truncate(self.start.saturating_add(position));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn items_come_back_as_they_went_in() {
        let mut out = vec![0xa5; 3];
        let mut encoder = Encoder::new(&mut out);
        encoder.u32(7);
        encoder.u64(0x0102_0304_0506_0708);
        encoder.bool(true);
        encoder.opaque(b"hello");
        encoder.fixed(&[9; 6]);
        encoder.u32_array(&[1, 2]);
        let late = encoder.reserve();
        encoder.patch(late, 0xdead_beef);
        assert_eq!(encoder.position(), 4 + 8 + 4 + 12 + 8 + 12 + 4);

        let mut decoder = Decoder::new(&out[3..]);
        assert_eq!(decoder.u32(), Ok(7));
        assert_eq!(decoder.u64(), Ok(0x0102_0304_0506_0708));
        assert_eq!(decoder.bool(), Ok(true));
        assert_eq!(decoder.opaque(5), Ok(&b"hello"[..]));
        assert_eq!(decoder.fixed::<6>(), Ok(&[9; 6]));
        assert_eq!(decoder.u32_array::<3>(), Ok(([1, 2, 0], 2)));
        assert_eq!(decoder.position(), 48);
        assert_eq!(decoder.u32(), Ok(0xdead_beef));
        assert_eq!(decoder.finish(), Ok(()));
    }

    #[test]
    fn pad_is_zero_when_written_and_ignored_when_read() {
        let mut out = vec![];
        Encoder::new(&mut out).opaque(b"a");
        assert_eq!(out, [0, 0, 0, 1, b'a', 0, 0, 0]);
        let mut decoder = Decoder::new(&[0, 0, 0, 1, b'a', 1, 2, 3]);
        assert_eq!(decoder.opaque(4), Ok(&b"a"[..]));
        assert_eq!(decoder.finish(), Ok(()));
    }

    #[test]
    fn impossible_lengths_are_refused_before_use() {
        let long = [0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4];
        assert_eq!(Decoder::new(&long).opaque(usize::MAX), Err(XdrError::Short));
        assert_eq!(Decoder::new(&long).opaque(400), Err(XdrError::TooLong));
        assert_eq!(
            Decoder::new(&long).u32_array::<16>(),
            Err(XdrError::TooLong)
        );
        assert_eq!(Decoder::new(&long).bytes(usize::MAX), Err(XdrError::Short));
        assert_eq!(
            Decoder::new(&[0, 0, 0, 5, 1, 2, 3, 4, 5]).opaque(8),
            Err(XdrError::Short)
        );
        assert_eq!(Decoder::new(&[0, 0, 0, 2]).bool(), Err(XdrError::Bool));
        assert_eq!(Decoder::new(&[0, 0, 0]).u32(), Err(XdrError::Short));
        assert_eq!(Decoder::new(&[1]).finish(), Err(XdrError::Trailing));
        assert_eq!(padded(usize::MAX), None);
        assert_eq!(
            (padded(0), padded(1), padded(4)),
            (Some(0), Some(4), Some(4))
        );
    }
}
