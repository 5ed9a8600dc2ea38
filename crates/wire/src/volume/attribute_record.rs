//! Attributes of one file as the manager keeps them in memory that its clients read without asking (paper 003): a
//! record of fixed length in a slot of a table.
//!
//! A version stands at both ends. While the record is being written the first is odd; when it is whole both are the
//! same and even. So a reader that takes all of it in one Read knows whether it saw a moment of it or a mixture.

use super::{FileId, FileKind, Timestamp};
use crate::xdr::{Decoder, Encode, Encoder, XdrError, from_bytes, record};
use alloc::vec::Vec;

/// Bytes of a record.
pub const ATTRIBUTE_RECORD_LEN: usize = 128;

/// Where the attributes stand in a record.
const ATTRIBUTES_AT: usize = 16;
/// Bytes of them.
const ATTRIBUTES_LEN: usize = 88;
/// Where the second version stands.
const END_AT: usize = ATTRIBUTE_RECORD_LEN - 8;

record! {
    /// The attributes of a file, as the reply to GETATTR has them when inode and objects are combined.
    FileAttributes {
        /// Its type.
        kind: FileKind,
        /// Permission bits, 0o7777.
        mode: u32,
        /// Number of its names.
        links: u32,
        /// Owner.
        uid: u32,
        /// Group.
        gid: u32,
        /// Of a device; else 0.
        major: u32,
        /// Of a device; else 0.
        minor: u32,
        /// Length in bytes.
        size: u64,
        /// Bytes of disk.
        used: u64,
        /// Last read.
        access_time: Timestamp,
        /// Last write.
        modify_time: Timestamp,
        /// Last change of anything.
        change_time: Timestamp,
        /// Another number after each change of anything.
        change_id: u64,
    }
}

/// The state of a slot when it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttributeRecord {
    /// It was being written: the bytes are of no single moment.
    Torn,
    /// No file's attributes are in it.
    Free,
    /// Those of this file.
    Of(FileId, FileAttributes),
}

impl AttributeRecord {
    /// The bytes of a slot that has no torn record, at an even `version`.
    pub fn to_bytes(&self, version: u64) -> [u8; ATTRIBUTE_RECORD_LEN] {
        let mut bytes = [0; ATTRIBUTE_RECORD_LEN];
        let word = version.to_be_bytes();
        put(&mut bytes, 0, &word);
        put(&mut bytes, END_AT, &word);
        if let AttributeRecord::Of(FileId(file), attributes) = self {
            put(&mut bytes, 8, &file.to_be_bytes());
            let mut encoded = Vec::with_capacity(ATTRIBUTES_LEN);
            attributes.encode(&mut Encoder::new(&mut encoded));
            put(&mut bytes, ATTRIBUTES_AT, &encoded);
        }
        bytes
    }

    /// Decodes the bytes of one Read.
    ///
    /// # Errors
    /// The bytes are whole, and not a record.
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
        let attributes = bytes.get(ATTRIBUTES_AT..ATTRIBUTES_AT + ATTRIBUTES_LEN);
        let attributes = from_bytes(attributes.unwrap_or_default())?;
        Ok(AttributeRecord::Of(FileId(file), attributes))
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

    #[test]
    fn a_record_has_these_bytes() {
        let record = AttributeRecord::Of(FileId(0x0102_0304_0506_0708), attributes());
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
    fn a_mixture_is_no_record() {
        let old = AttributeRecord::Of(FileId(7), attributes()).to_bytes(4);
        let torn = Ok(AttributeRecord::Torn);
        for new in [
            AttributeRecord::Of(FileId(7), attributes()),
            AttributeRecord::Free,
        ] {
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
    fn a_free_slot_is_told_from_nonsense() {
        let free = AttributeRecord::Free.to_bytes(2);
        let known = AttributeRecord::from_bytes(&free);
        assert_eq!(known, Ok(AttributeRecord::Free));
        assert_eq!(
            AttributeRecord::from_bytes(&[0; ATTRIBUTE_RECORD_LEN]),
            Ok(AttributeRecord::Free),
            "memory that was never written"
        );
        let mut nonsense = AttributeRecord::Of(FileId(7), attributes()).to_bytes(2);
        nonsense[19] = 99;
        assert!(AttributeRecord::from_bytes(&nonsense).is_err());
        assert!(AttributeRecord::from_bytes(&free[1..]).is_err());
    }
}
