//! XDR's optional lists (`*next`), decoded iteratively; the directory listings made of them.

use super::{FileHandle, Name, PostOpAttributes};
use crate::xdr::{Decode, Decoder, Encode, Encoder, XdrError, record};
use core::fmt;
use core::marker::PhantomData;

/// A list of which each element says whether another follows.
///
/// A decoded one is a checked stretch of the message, read again by [`List::iter`]; so a list costs no memory
/// whatever its length. Elements are never empty, so a list is bounded by its message.
#[derive(Clone, Copy)]
pub struct List<'a, T> {
    content: Content<'a, T>,
}

#[derive(Clone, Copy)]
enum Content<'a, T> {
    /// Elements of a list yet to be sent.
    Values(&'a [T]),
    /// Elements of a received list, each behind its flag word, without the last flag.
    Wire(&'a [u8], PhantomData<T>),
}

impl<'a, T: Copy> List<'a, T> {
    /// A list to send.
    pub const fn new(values: &'a [T]) -> List<'a, T> {
        let content = Content::Values(values);
        List { content }
    }

    /// Its elements, in order.
    pub fn iter(&self) -> ListIter<'a, T> {
        ListIter {
            content: self.content,
        }
    }
}

impl<'a, T: Decode<'a> + Copy> IntoIterator for List<'a, T> {
    type Item = T;
    type IntoIter = ListIter<'a, T>;

    fn into_iter(self) -> ListIter<'a, T> {
        self.iter()
    }
}

/// The elements of a [`List`].
#[derive(Clone, Copy)]
pub struct ListIter<'a, T> {
    content: Content<'a, T>,
}

impl<'a, T: Decode<'a> + Copy> Iterator for ListIter<'a, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        match &mut self.content {
            Content::Values(values) => {
                let (first, rest) = values.split_first()?;
                *values = rest;
                Some(*first)
            }
            Content::Wire(bytes, _) => {
                let mut decoder = Decoder::new(bytes);
                // The whole list was checked when it was decoded: this fails at its end alone.
                decoder.u32().ok()?;
                let value = T::decode(&mut decoder).ok()?;
                *bytes = decoder.remaining();
                Some(value)
            }
        }
    }
}

impl<'a, T: Decode<'a> + Copy> Decode<'a> for List<'a, T> {
    fn decode(decoder: &mut Decoder<'a>) -> Result<Self, XdrError> {
        let all = decoder.remaining();
        let start = decoder.position();
        let mut end = start;
        while decoder.bool()? {
            T::decode(decoder)?;
            end = decoder.position();
        }
        let bytes = all.get(..end - start).ok_or(XdrError::Short)?;
        let content = Content::Wire(bytes, PhantomData);
        Ok(List { content })
    }
}

impl<'a, T: Decode<'a> + Encode + Copy> Encode for List<'a, T> {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        for value in self.iter() {
            encoder.bool(true);
            value.encode(encoder);
        }
        encoder.bool(false);
    }
}

impl<'a, T: Decode<'a> + Copy + PartialEq> PartialEq for List<'a, T> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<'a, T: Decode<'a> + Copy + Eq> Eq for List<'a, T> {}

impl<'a, T: Decode<'a> + Copy + fmt::Debug> fmt::Debug for List<'a, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

record! {
    /// An entry of a READDIR listing (`entry3`).
    Entry<'a> {
        /// Number of the object.
        fileid: u64,
        /// Its name.
        name: Name<'a>,
        /// The position after it.
        cookie: u64,
    }
}

record! {
    /// An entry of a READDIRPLUS listing (`entryplus3`).
    EntryPlus<'a> {
        /// Number of the object.
        fileid: u64,
        /// Its name.
        name: Name<'a>,
        /// The position after it.
        cookie: u64,
        /// The object's attributes.
        attributes: PostOpAttributes,
        /// The object's handle.
        handle: Option<FileHandle<'a>>,
    }
}

/// A page of a directory (`READDIR3resok`, `READDIRPLUS3resok`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirectoryListing<'a, T: Decode<'a> + Copy> {
    /// The directory's own attributes.
    pub attributes: PostOpAttributes,
    /// To be sent back with a cookie of this page.
    pub verifier: [u8; 8],
    /// The entries.
    pub entries: List<'a, T>,
    /// Nothing comes after the last entry.
    pub eof: bool,
}

impl<'a, T: Decode<'a> + Encode + Copy> Encode for DirectoryListing<'a, T> {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        self.attributes.encode(encoder);
        self.verifier.encode(encoder);
        self.entries.encode(encoder);
        encoder.bool(self.eof);
    }
}

impl<'a, T: Decode<'a> + Copy> Decode<'a> for DirectoryListing<'a, T> {
    fn decode(decoder: &mut Decoder<'a>) -> Result<Self, XdrError> {
        Ok(DirectoryListing {
            attributes: Decode::decode(decoder)?,
            verifier: Decode::decode(decoder)?,
            entries: Decode::decode(decoder)?,
            eof: decoder.bool()?,
        })
    }
}
