//! The replies of the manager (docs/formats/volume.md, "Bodies").

use super::{
    AccessMask, Capability, FILE_NAME_DECODED_MAX, FileId, Inode, LayoutRecord, Timestamp, Token,
};
use crate::xdr::{
    Count, Decode, Decoder, Encode, Encoder, Items, Quoted, XdrError, printed, record, to_bytes,
};
use alloc::vec::Vec;

/// The identity of a change, by which the manager knows it when it comes again (`ticket`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SlotSequence {
    /// The identity of the client: random bytes that it chose when it began. The manager takes the session of the
    /// connection in its place.
    pub client: Token,
    /// The number of one of the client's slots, 0 to 31. Each has one change under way at a time.
    pub slot: u32,
    /// The number of the change in its slot, greater than those before it.
    pub sequence: u64,
}

printed! { SlotSequence = "ticket" { client, slot, sequence, } }

/// The NFS call for which an NFS server asks for a change (`request`). It comes to another server, and is known there,
/// when the address of the first one moves. Calls with one XID are told apart by what they ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct RequestId {
    /// The address of the NFS client: IPv6, or IPv4 mapped into it (RFC 4291 section 2.5.5.2).
    pub client: [u8; 16],
    /// The XID of the call (RFC 5531 section 9).
    pub xid: u32,
}

printed! { RequestId = "request" { client, xid, } }

impl RequestId {
    /// The body of a change, with this identity behind it.
    pub fn behind(&self, body: &[u8]) -> Vec<u8> {
        [body, &to_bytes(self)].concat()
    }
}

impl Encode for RequestId {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.fixed(&self.client);
        encoder.u32(self.xid);
    }
}

impl Decode<'_> for RequestId {
    fn decode(decoder: &mut Decoder<'_>) -> Result<RequestId, XdrError> {
        Ok(RequestId {
            client: *decoder.fixed()?,
            xid: decoder.u32()?,
        })
    }
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
    /// The attributes that the objects of a regular file have together (`sizes`).
    #[derive(Default)]
    FileState = "sizes" {
        /// The length of the file in bytes.
        size: u64,
        /// Bytes of disk that it takes.
        used: u64,
        /// The time of the last write; the epoch when there was none.
        written: Timestamp,
        /// The sum of the objects' versions modulo 2^64: another number after each change of an object.
        version: u64,
    }
}

/// A file and its attributes (`found`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The number of the file.
    pub id: FileId,
    /// The inode of the file.
    pub inode: Inode,
    /// The state of a regular file's objects. Missing when one of its I/O servers is away.
    pub state: Option<FileState>,
}

printed! { Found = "found" { id as "file", inode, state as "sizes", } }

/// Most files in one answer that is not a [`Page`].
const FOUND_MAX: usize = 2;

/// The reply to most of a manager's operations: the files that [`Call`](super::Call) names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FoundFiles {
    /// The files, at most two.
    pub files: Vec<Found>,
}

printed! { FoundFiles = "files" { files as "found" via Items, } }

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

/// The reply to [`Call::Access`](super::Call::Access).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessAnswer {
    /// The requested rights that the caller has.
    pub granted: AccessMask,
    /// The file.
    pub found: FoundFiles,
}

printed! { AccessAnswer = "access" { granted, found as "files", } }

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

/// The reply to [`Call::Layout`](super::Call::Layout).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Granted {
    /// The capability, which the I/O servers check.
    pub capability: Capability,
    /// The number by which the client gives the grant back; 0 without the right to write.
    pub number: u64,
    /// The places of the objects.
    pub layout: LayoutRecord,
}

printed! { Granted = "granted" { capability, number, layout, } }

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

/// The reply to [`Call::Append`](super::Call::Append): the place for appended bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Appending {
    /// The right to write the bytes there. No other grant serves: a later one may come from another manager, which may
    /// have given the place to another client.
    pub granted: Granted,
    /// The offset of the first byte.
    pub offset: u64,
}

printed! { Appending = "appending" { granted, offset, } }

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

/// A name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The name, at most [`FILE_NAME_MAX`](super::FILE_NAME_MAX) bytes.
    pub name: Vec<u8>,
    /// The position behind the name.
    pub cookie: u64,
    /// The number of the file with that name.
    pub id: FileId,
    /// The file, if the request wanted files.
    pub found: Option<Found>,
}

printed! { Listed = "entry" { name as "name" via Quoted, cookie, id as "file", found, } }

/// A page of the names of a directory (`page`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The directory.
    pub directory: Found,
    /// The names in the order of the directory, at most [`PAGE_ENTRIES_MAX`].
    pub entries: Vec<Listed>,
    /// The last entry is the last of the directory.
    pub complete: bool,
}

printed! { Page = "page" { directory, complete, entries as "entries" via Count, } }

/// Most entries of a [`Page`]. A message bounds its bytes.
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
        // At most PAGE_ENTRIES_MAX.
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

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use alloc::vec;

    #[test]
    fn replies_print_on_a_line() {
        let ticket = SlotSequence {
            client: [1; 16],
            slot: 2,
            sequence: 3,
        };
        assert_eq!(
            ticket.to_string(),
            "ticket client=01010101010101010101010101010101 slot=2 sequence=3"
        );
        let granted = Granted {
            capability: Capability {
                file: 5,
                rights: Capability::READ | Capability::WRITE,
                expires: 100,
                term: 2,
                proof: [9; 16],
            },
            number: 7,
            layout: LayoutRecord {
                unit: 65536,
                groups: vec![1, 0],
            },
        };
        let appending = Appending { granted, offset: 8 };
        assert_eq!(
            appending.to_string(),
            "appending granted=(capability=(file=5 rights=read,write expires=100 term=2) number=7 \
             layout=(unit=65536 groups=[1,0])) offset=8"
        );
    }
}
