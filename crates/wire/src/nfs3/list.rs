//! XDR's lists of optional elements (`*next`, RFC 4506 section 4.19), decoded iteratively, and the directory listings
//! made of them.

use super::{FileHandle, Name, PostOpAttributes};
use crate::xdr::{Decode, Decoder, Encode, Encoder, Print, XdrError, print_field, record};
use core::fmt;
use core::marker::PhantomData;

/// A list with a flag in front of each element, and one behind the last. It prints the number of its elements.
///
/// A decoded list is a checked part of the message, which [`List::iter`] decodes again. So a list costs no memory,
/// whatever its length. Elements are never empty, so the message bounds the list.
#[derive(Clone, Copy)]
pub struct List<'a, T> {
    content: Content<'a, T>,
}

#[derive(Clone, Copy)]
enum Content<'a, T> {
    /// The elements of a list to send.
    Values(&'a [T]),
    /// The encoded elements of a received list, each behind its flag, without the last flag.
    Wire(&'a [u8], PhantomData<T>),
}

impl<'a, T: Copy> List<'a, T> {
    /// A list to send, of these elements.
    pub const fn new(values: &'a [T]) -> List<'a, T> {
        let content = Content::Values(values);
        List { content }
    }

    /// The elements, in order.
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
                // Decoding has checked the whole list, so this fails only at its end.
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

impl<'a, T: ListingEntry + Decode<'a> + Copy> Print for DirectoryListing<'a, T> {
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl<'a, T: Decode<'a> + Copy> Print for List<'a, T> {
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.iter().count())
    }
}

record! {
    /// An entry of a READDIR listing (`entry3`, RFC 1813 section 3.3.16).
    Entry<'a> = "entry3" {
        /// The number of the object in its file system.
        fileid: u64,
        /// The name of the object in the directory.
        name: Name<'a>,
        /// The position behind the entry.
        cookie: u64,
    }
}

record! {
    /// An entry of a READDIRPLUS listing (`entryplus3`, RFC 1813 section 3.3.17).
    EntryPlus<'a> = "entryplus3" {
        /// The number of the object in its file system.
        fileid: u64,
        /// The name of the object in the directory.
        name: Name<'a>,
        /// The position behind the entry.
        cookie: u64,
        /// The object's attributes.
        attributes: PostOpAttributes as "name_attributes",
        /// The object's handle, if the server gives it (`post_op_fh3`).
        handle: Option<FileHandle<'a>> as "name_handle",
    }
}

/// A page of a directory (`READDIR3resok`, RFC 1813 section 3.3.16; `READDIRPLUS3resok`, section 3.3.17).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirectoryListing<'a, T: Decode<'a> + Copy> {
    /// The directory's own attributes.
    pub attributes: PostOpAttributes,
    /// The verifier that the client sends back with a cookie of this page.
    pub verifier: [u8; 8],
    /// The entries, in the order of the directory.
    pub entries: List<'a, T>,
    /// The last entry is the last of the directory.
    pub eof: bool,
}

/// An entry of a directory listing: the type of the elements of a [`DirectoryListing`].
trait ListingEntry {
    /// The name of the results that consist of such entries.
    const RESULTS: &'static str;
}

impl ListingEntry for Entry<'_> {
    const RESULTS: &'static str = "READDIR3resok";
}

impl ListingEntry for EntryPlus<'_> {
    const RESULTS: &'static str = "READDIRPLUS3resok";
}

impl<'a, T: ListingEntry + Decode<'a> + Copy> fmt::Display for DirectoryListing<'a, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::RESULTS)?;
        let mut gap = " ";
        print_field(f, &mut gap, "dir_attributes", &self.attributes)?;
        print_field(f, &mut gap, "cookieverf", &self.verifier)?;
        print_field(f, &mut gap, "entries", &self.entries)?;
        print_field(f, &mut gap, "eof", &self.eof)
    }
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
