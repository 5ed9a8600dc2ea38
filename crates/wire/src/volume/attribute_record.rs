//! Attribute records: attributes of files in the manager's memory, which clients read without a call (paper 003). A
//! record has a fixed length and lies in a slot of a table.
//!
//! A version is at both ends of a record. While the manager writes the record, the first version is odd. When the
//! record is complete, both are equal and even. A reader that takes all bytes in one Read therefore recognises a torn
//! record.

use super::{FileId, FileKind, Timestamp};
use crate::xdr::{Decoder, Encode, Encoder, XdrError, from_bytes, record};
use alloc::vec::Vec;

/// Bytes of a record.
pub const ATTRIBUTE_RECORD_LEN: usize = 128;

/// The offset of the attributes.
const ATTRIBUTES_AT: usize = 16;
/// Bytes of the attributes.
const ATTRIBUTES_LEN: usize = 88;
/// The offset of the content: [`WHOLE`], [`INODE`] or [`INODE_WITH_TIME`].
const CONTENT_AT: usize = ATTRIBUTES_AT + ATTRIBUTES_LEN;
/// The offset of the time of [`INODE_WITH_TIME`].
const TIME_AT: usize = CONTENT_AT + 4;
/// The offset of the second version.
const END_AT: usize = ATTRIBUTE_RECORD_LEN - 8;

/// The content of [`AttributeRecord::Whole`].
const WHOLE: u32 = 0;
/// The content of [`AttributeRecord::Inode`] without a time.
const INODE: u32 = 1;
/// The content of [`AttributeRecord::Inode`] with a time.
const INODE_WITH_TIME: u32 = 2;

record! {
    /// The attributes of a file, as a reply to GETATTR has them after inode and objects are combined.
    FileAttributes {
        /// The type of the file.
        kind: FileKind,
        /// Permission bits, 0o7777.
        mode: u32,
        /// The number of names.
        links: u32,
        /// The user who owns the file.
        uid: u32,
        /// The group of the file.
        gid: u32,
        /// The major number of a device, 0 for other files.
        major: u32,
        /// The minor number of a device, 0 for other files.
        minor: u32,
        /// The length in bytes.
        size: u64,
        /// Bytes of disk.
        used: u64,
        /// The time of the last read.
        access_time: Timestamp,
        /// The time of the last write.
        modify_time: Timestamp,
        /// The time of the last change of content or attributes.
        change_time: Timestamp,
        /// A number that differs after each change of content or attributes.
        change_id: u64,
    }
}

/// The content of a slot when it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttributeRecord {
    /// The slot was being written: its bytes belong to no single moment.
    Torn,
    /// The slot has no record.
    Free,
    /// All attributes of a file.
    Whole {
        /// The file.
        file: FileId,
        /// The attributes of the file.
        attributes: FileAttributes,
    },
    /// The attributes of a regular file's inode. Some client may write the file, so only the I/O servers know the sizes
    /// of its objects.
    Inode {
        /// The file.
        file: FileId,
        /// The attributes of the inode; size and disk use are 0.
        attributes: FileAttributes,
        /// The time of the last write of the objects when the modification time was last set, if it ever was.
        written: Option<Timestamp>,
    },
}

impl AttributeRecord {
    /// The bytes of a slot that has no torn record, at an even `version`.
    pub fn to_bytes(&self, version: u64) -> [u8; ATTRIBUTE_RECORD_LEN] {
        let mut bytes = [0; ATTRIBUTE_RECORD_LEN];
        let word = version.to_be_bytes();
        put(&mut bytes, 0, &word);
        put(&mut bytes, END_AT, &word);
        let (FileId(file), attributes, content, time) = match self {
            AttributeRecord::Torn | AttributeRecord::Free => return bytes,
            AttributeRecord::Whole { file, attributes } => (file, attributes, WHOLE, None),
            AttributeRecord::Inode {
                file,
                attributes,
                written: None,
            } => (file, attributes, INODE, None),
            AttributeRecord::Inode {
                file,
                attributes,
                written: Some(time),
            } => (file, attributes, INODE_WITH_TIME, Some(time)),
        };
        put(&mut bytes, 8, &file.to_be_bytes());
        let mut encoded = Vec::with_capacity(END_AT - ATTRIBUTES_AT);
        let mut encoder = Encoder::new(&mut encoded);
        attributes.encode(&mut encoder);
        encoder.u32(content);
        if let Some(time) = time {
            time.encode(&mut encoder);
        }
        put(&mut bytes, ATTRIBUTES_AT, &encoded);
        bytes
    }

    /// The version of a slot's bytes, which grows with each change of the slot. 0 for bytes that are too short.
    pub fn version_in(bytes: &[u8]) -> u64 {
        Decoder::new(bytes).u64().unwrap_or_default()
    }

    /// Decodes the bytes of one Read.
    ///
    /// # Errors
    /// - [`XdrError::Short`]: not [`ATTRIBUTE_RECORD_LEN`] bytes.
    /// - Others: the versions are those of a complete record, but the content is none.
    pub fn from_bytes(bytes: &[u8]) -> Result<AttributeRecord, XdrError> {
        let bytes: &[u8; ATTRIBUTE_RECORD_LEN] = bytes.try_into().map_err(|_| XdrError::Short)?;
        let word = |at: usize| Decoder::new(bytes.get(at..).unwrap_or_default()).u64();
        let (begin, file, end) = (word(0)?, word(8)?, word(END_AT)?);
        if begin != end || !begin.is_multiple_of(2) {
            return Ok(AttributeRecord::Torn);
        }
        if file == 0 {
            return Ok(AttributeRecord::Free);
        }
        let range = |from: usize, to: usize| bytes.get(from..to).unwrap_or_default();
        let attributes = from_bytes(range(ATTRIBUTES_AT, CONTENT_AT))?;
        let written = match from_bytes(range(CONTENT_AT, TIME_AT))? {
            WHOLE => {
                return Ok(AttributeRecord::Whole {
                    file: FileId(file),
                    attributes,
                });
            }
            INODE => None,
            INODE_WITH_TIME => Some(from_bytes(range(TIME_AT, END_AT))?),
            _ => return Err(XdrError::Value),
        };
        Ok(AttributeRecord::Inode {
            file: FileId(file),
            attributes,
            written,
        })
    }
}

/// Both lie within a record.
fn put(record: &mut [u8; ATTRIBUTE_RECORD_LEN], at: usize, bytes: &[u8]) {
    let places = record.iter_mut().skip(at);
    places.zip(bytes).for_each(|(to, byte)| *to = *byte);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xdr::to_bytes;

    fn time(seconds: i64) -> Timestamp {
        Timestamp {
            seconds,
            nanoseconds: 0x0a0b_0c0d,
        }
    }

    fn attributes() -> FileAttributes {
        FileAttributes {
            kind: FileKind::BlockDevice,
            mode: 0o640,
            links: 3,
            uid: 10,
            gid: 20,
            major: 8,
            minor: 1,
            size: 1 << 40,
            used: 4096,
            access_time: time(-2),
            modify_time: time(0x0001_0203_0405),
            change_time: time(6),
            change_id: 0x1122_3344_5566_7788,
        }
    }

    fn whole(file: u64) -> AttributeRecord {
        AttributeRecord::Whole {
            file: FileId(file),
            attributes: attributes(),
        }
    }

    #[test]
    fn a_record_has_these_bytes() {
        let record = whole(0x0102_0304_0506_0708);
        let bytes = record.to_bytes(0x20);
        #[rustfmt::skip]
        let expected: [u8; ATTRIBUTE_RECORD_LEN] = [
            0, 0, 0, 0, 0, 0, 0, 0x20, // version
            1, 2, 3, 4, 5, 6, 7, 8, // file
            0, 0, 0, 3, 0, 0, 1, 0xa0, 0, 0, 0, 3, 0, 0, 0, 10, 0, 0, 0, 20, // kind, mode, links, uid, gid
            0, 0, 0, 8, 0, 0, 0, 1, // device
            0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 16, 0, // size, used
            255, 255, 255, 255, 255, 255, 255, 254, 10, 11, 12, 13, // times
            0, 0, 0, 1, 2, 3, 4, 5, 10, 11, 12, 13,
            0, 0, 0, 0, 0, 0, 0, 6, 10, 11, 12, 13,
            0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, // change id
            0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
            0, 0, 0, 0, 0, 0, 0, 0x20, // version
        ];
        assert_eq!(bytes, expected);
        assert_eq!(AttributeRecord::from_bytes(&bytes), Ok(record));
        assert_eq!(to_bytes(&attributes()).len(), ATTRIBUTES_LEN);
    }

    #[test]
    fn a_record_of_an_inode_has_these_bytes() {
        let record = |written| AttributeRecord::Inode {
            file: FileId(7),
            attributes: attributes(),
            written,
        };
        let bytes = record(Some(time(0x0102))).to_bytes(0x20);
        let expected = [0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 1, 2, 10, 11, 12, 13];
        assert_eq!(bytes[CONTENT_AT..END_AT], expected);
        let whole = whole(7).to_bytes(0x20);
        assert_eq!(bytes[..CONTENT_AT], whole[..CONTENT_AT]);
        for written in [None, Some(time(9))] {
            let bytes = record(written).to_bytes(0x20);
            assert_eq!(AttributeRecord::from_bytes(&bytes), Ok(record(written)));
            assert_eq!(AttributeRecord::version_in(&bytes), 0x20);
        }
        let mut unknown = bytes;
        unknown[CONTENT_AT + 3] = 3;
        assert!(AttributeRecord::from_bytes(&unknown).is_err());
    }

    #[test]
    fn a_record_mixed_from_two_versions_is_torn() {
        let old = whole(7).to_bytes(4);
        let torn = Ok(AttributeRecord::Torn);
        for new in [whole(7), AttributeRecord::Free] {
            let new = new.to_bytes(6);
            // However much of the new one was there, from either end.
            for seen in 8..=END_AT {
                let mut bytes = old;
                bytes[..seen].copy_from_slice(&new[..seen]);
                assert_eq!(AttributeRecord::from_bytes(&bytes), torn, "{seen}");
                let mut bytes = new;
                bytes[..seen].copy_from_slice(&old[..seen]);
                assert_eq!(AttributeRecord::from_bytes(&bytes), torn, "{seen}");
            }
        }
        let odd = AttributeRecord::Free.to_bytes(5);
        assert_eq!(AttributeRecord::from_bytes(&odd), torn);
    }

    #[test]
    fn a_free_slot_differs_from_invalid_bytes() {
        let free = AttributeRecord::Free.to_bytes(2);
        let known = AttributeRecord::from_bytes(&free);
        assert_eq!(known, Ok(AttributeRecord::Free));
        assert_eq!(
            AttributeRecord::from_bytes(&[0; ATTRIBUTE_RECORD_LEN]),
            Ok(AttributeRecord::Free),
            "memory that was never written"
        );
        let mut nonsense = whole(7).to_bytes(2);
        nonsense[19] = 99;
        assert!(AttributeRecord::from_bytes(&nonsense).is_err());
        assert!(AttributeRecord::from_bytes(&free[1..]).is_err());
    }
}
