//! What the manager answers.

use super::{NAME_MAX, put_time, take_file, take_time};
use crate::meta::{FileId, Inode};
use gannet_vfs::limits::SYMLINK_MAX;
use gannet_vfs::{AccessMask, Time};
use gannet_wire::volume::{Capability, LayoutRecord, Token};
use gannet_wire::xdr::{Decode, Decoder, Encode, Encoder, XdrError};

/// By which a change is known that is sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ticket {
    /// The client: random bytes that it chose when it began.
    pub client: Token,
    /// One of its slots. Each has one change under way at a time.
    pub slot: u32,
    /// Of the change in its slot: greater than those before it.
    pub sequence: u64,
}

impl Encode for Ticket {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.fixed(&self.client);
        encoder.u32(self.slot);
        encoder.u64(self.sequence);
    }
}

impl Decode<'_> for Ticket {
    fn decode(decoder: &mut Decoder<'_>) -> Result<Ticket, XdrError> {
        Ok(Ticket {
            client: *decoder.fixed()?,
            slot: decoder.u32()?,
            sequence: decoder.u64()?,
        })
    }
}

/// What the objects of a regular file say together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FileState {
    /// Length of the file in bytes.
    pub size: u64,
    /// Bytes of disk.
    pub used: u64,
    /// The last write; the epoch when there was none.
    pub written: Time,
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

/// Adds files to the body of an answer.
pub(crate) fn put_found(body: &mut Vec<u8>, found: &[Found]) {
    let out = &mut Encoder::new(body);
    // At most FOUND_MAX.
    out.u32(found.len() as u32);
    found.iter().for_each(|found| found.encode(out));
}

fn take_found(from: &mut Decoder<'_>) -> Result<Vec<Found>, XdrError> {
    let count = from.length(FOUND_MAX)?;
    (0..count).map(|_| Found::decode(from)).collect()
}

/// The files of an answer.
///
/// # Errors
/// The bytes are no such answer.
pub fn parse_found(body: &[u8]) -> Result<Vec<Found>, XdrError> {
    let mut decoder = Decoder::new(body);
    let found = take_found(&mut decoder)?;
    decoder.finish()?;
    Ok(found)
}

/// What the answer to [`Call::Access`](super::Call::Access) says.
///
/// # Errors
/// The bytes are no such answer.
pub fn parse_access(body: &[u8]) -> Result<(AccessMask, Vec<Found>), XdrError> {
    let mut decoder = Decoder::new(body);
    let rights = AccessMask(decoder.u32()?);
    let found = take_found(&mut decoder)?;
    decoder.finish()?;
    Ok((rights, found))
}

/// What the answer to [`Call::Readlink`](super::Call::Readlink) says.
///
/// # Errors
/// The bytes are no such answer.
pub fn parse_link(body: &[u8]) -> Result<(Vec<u8>, Vec<Found>), XdrError> {
    let mut decoder = Decoder::new(body);
    let text = decoder.opaque(SYMLINK_MAX)?.to_vec();
    let found = take_found(&mut decoder)?;
    decoder.finish()?;
    Ok((text, found))
}

impl Encode for Found {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.u64(self.id.0);
        self.inode.encode(encoder);
        encoder.bool(self.state.is_some());
        if let Some(state) = &self.state {
            encoder.u64(state.size);
            encoder.u64(state.used);
            put_time(encoder, state.written);
        }
    }
}

impl Decode<'_> for Found {
    fn decode(decoder: &mut Decoder<'_>) -> Result<Found, XdrError> {
        Ok(Found {
            id: take_file(decoder)?,
            inode: Inode::decode(decoder)?,
            state: match decoder.bool()? {
                true => Some(FileState {
                    size: decoder.u64()?,
                    used: decoder.u64()?,
                    written: take_time(decoder)?,
                }),
                false => None,
            },
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
        encoder.u64(self.id.0);
        encoder.bool(self.found.is_some());
        self.found.iter().for_each(|found| found.encode(encoder));
    }
}

impl Decode<'_> for Listed {
    fn decode(decoder: &mut Decoder<'_>) -> Result<Listed, XdrError> {
        Ok(Listed {
            name: decoder.opaque(NAME_MAX)?.to_vec(),
            cookie: decoder.u64()?,
            id: take_file(decoder)?,
            found: match decoder.bool()? {
                true => Some(Found::decode(decoder)?),
                false => None,
            },
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
