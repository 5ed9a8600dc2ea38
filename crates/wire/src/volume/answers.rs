//! What the manager answers.

use super::{
    AccessMask, Capability, FILE_NAME_DECODED_MAX, FileId, Inode, LayoutRecord, Timestamp, Token,
};
use crate::xdr::{Decode, Decoder, Encode, Encoder, XdrError, record};
use alloc::vec::Vec;

/// By which a change is known that is sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SlotSequence {
    /// The client: random bytes that it chose when it began.
    pub client: Token,
    /// One of its slots. Each has one change under way at a time.
    pub slot: u32,
    /// Of the change in its slot: greater than those before it.
    pub sequence: u64,
}

impl Encode for SlotSequence {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.fixed(&self.client);
        encoder.u32(self.slot);
        encoder.u64(self.sequence);
    }
}

impl Decode<'_> for SlotSequence {
    fn decode(decoder: &mut Decoder<'_>) -> Result<SlotSequence, XdrError> {
        Ok(SlotSequence {
            client: *decoder.fixed()?,
            slot: decoder.u32()?,
            sequence: decoder.u64()?,
        })
    }
}

record! {
    /// What the objects of a regular file say together.
    #[derive(Default)]
    FileState {
        /// Length of the file in bytes.
        size: u64,
        /// Bytes of disk.
        used: u64,
        /// The last write; the epoch when there was none.
        written: Timestamp,
        /// The versions of the objects, added up modulo 2^64: another number after each change of one.
        version: u64,
    }
}

/// A file and what is known of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Its number.
    pub id: FileId,
    /// What the manager keeps of it.
    pub inode: Inode,
    /// Of a regular file: what its objects say. Missing when one of its I/O servers is away.
    pub state: Option<FileState>,
}

/// Most files in one answer that is not a [`Page`].
const FOUND_MAX: usize = 2;

/// The answer to most of a manager's operations: files, as many as the operation tells of.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FoundFiles {
    /// At most two.
    pub files: Vec<Found>,
}

impl Encode for FoundFiles {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        // At most FOUND_MAX.
        encoder.u32(self.files.len() as u32);
        self.files.iter().for_each(|found| found.encode(encoder));
    }
}

impl Decode<'_> for FoundFiles {
    fn decode(decoder: &mut Decoder<'_>) -> Result<FoundFiles, XdrError> {
        let files = (0..decoder.length(FOUND_MAX)?).map(|_| Found::decode(decoder));
        Ok(FoundFiles {
            files: files.collect::<Result<_, _>>()?,
        })
    }
}

/// The answer to [`Call::Access`](super::Call::Access).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessAnswer {
    /// The rights that the caller has among those that it asked for.
    pub granted: AccessMask,
    /// The file.
    pub found: FoundFiles,
}

impl Encode for AccessAnswer {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        self.granted.encode(encoder);
        self.found.encode(encoder);
    }
}

impl Decode<'_> for AccessAnswer {
    fn decode(decoder: &mut Decoder<'_>) -> Result<AccessAnswer, XdrError> {
        Ok(AccessAnswer {
            granted: AccessMask::decode(decoder)?,
            found: FoundFiles::decode(decoder)?,
        })
    }
}

impl Encode for Found {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        self.id.encode(encoder);
        self.inode.encode(encoder);
        self.state.encode(encoder);
    }
}

impl Decode<'_> for Found {
    fn decode(decoder: &mut Decoder<'_>) -> Result<Found, XdrError> {
        Ok(Found {
            id: FileId::decode(decoder)?,
            inode: Inode::decode(decoder)?,
            state: Option::decode(decoder)?,
        })
    }
}

/// The answer to [`Call::Layout`](super::Call::Layout).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Granted {
    /// The manager's word for the I/O servers.
    pub capability: Capability,
    /// By which it is given back.
    pub number: u64,
    /// Where the objects are.
    pub layout: LayoutRecord,
}

impl Encode for Granted {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        self.capability.encode(encoder);
        encoder.u64(self.number);
        self.layout.encode(encoder);
    }
}

impl Decode<'_> for Granted {
    fn decode(decoder: &mut Decoder<'_>) -> Result<Granted, XdrError> {
        Ok(Granted {
            capability: Capability::decode(decoder)?,
            number: decoder.u64()?,
            layout: LayoutRecord::decode(decoder)?,
        })
    }
}

/// A place for bytes that are appended to a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Appending {
    /// The right to write them there, and no more: a later grant may be another manager's, who gave the place away.
    pub granted: Granted,
    /// The first of them.
    pub offset: u64,
}

impl Encode for Appending {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        self.granted.encode(encoder);
        encoder.u64(self.offset);
    }
}

impl Decode<'_> for Appending {
    fn decode(decoder: &mut Decoder<'_>) -> Result<Appending, XdrError> {
        Ok(Appending {
            granted: Granted::decode(decoder)?,
            offset: decoder.u64()?,
        })
    }
}

/// A name of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The name.
    pub name: Vec<u8>,
    /// The position after it.
    pub cookie: u64,
    /// What it stands for.
    pub id: FileId,
    /// What is known of that, if it was asked for.
    pub found: Option<Found>,
}

/// Part of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The directory.
    pub directory: Found,
    /// In order.
    pub entries: Vec<Listed>,
    /// Nothing comes after the last.
    pub complete: bool,
}

/// Most entries of a [`Page`]; its bytes are bounded by a message.
pub const PAGE_ENTRIES_MAX: usize = 64;

impl Encode for Listed {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.opaque(&self.name);
        encoder.u64(self.cookie);
        self.id.encode(encoder);
        self.found.encode(encoder);
    }
}

impl Decode<'_> for Listed {
    fn decode(decoder: &mut Decoder<'_>) -> Result<Listed, XdrError> {
        Ok(Listed {
            name: decoder.opaque(FILE_NAME_DECODED_MAX)?.to_vec(),
            cookie: decoder.u64()?,
            id: FileId::decode(decoder)?,
            found: Option::decode(decoder)?,
        })
    }
}

impl Encode for Page {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        self.directory.encode(encoder);
        encoder.bool(self.complete);
        // Bounded by PAGE_ENTRIES_MAX.
        encoder.u32(self.entries.len() as u32);
        self.entries.iter().for_each(|entry| entry.encode(encoder));
    }
}

impl Decode<'_> for Page {
    fn decode(decoder: &mut Decoder<'_>) -> Result<Page, XdrError> {
        let directory = Found::decode(decoder)?;
        let complete = decoder.bool()?;
        let count = decoder.length(PAGE_ENTRIES_MAX)?;
        let entries = (0..count).map(|_| Listed::decode(decoder));
        Ok(Page {
            directory,
            entries: entries.collect::<Result<_, _>>()?,
            complete,
        })
    }
}
