//! What there is: the objects of an I/O server and the files of a volume, page by page, for who compares them.

use super::{LayoutRecord, OBJECTS_MAX};
use crate::xdr::{Decode, Decoder, Encode, Encoder, XdrError, record};
use alloc::vec::Vec;

/// Most objects of an [`ObjectPage`].
pub const PAGE_OBJECTS_MAX: usize = 200;
/// Most files of a [`FilePage`]; its bytes are bounded by a message.
pub const PAGE_FILES_MAX: usize = 128;
/// Folders that an I/O server spreads objects over.
pub const FOLDERS: u32 = 256;

record! {
    /// A position in the listing of an I/O server's objects. All zeros: its start.
    ObjectPosition {
        /// The folder, up to [`FOLDERS`], which is the end.
        folder: u32,
        /// The position in its listing.
        cookie: u64,
        /// What the folder's listing is recognised by.
        verifier: u64,
    }
}

record! {
    /// An object that is there.
    ObjectEntry {
        /// Its file.
        file: u64,
        /// Bytes, holes included.
        size: u64,
    }
}

/// Part of the listing of an I/O server's objects, folder by folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectPage {
    /// The position after it; nothing comes after [`FOLDERS`].
    pub next: ObjectPosition,
    /// Names that were met and are no object's.
    pub foreign_files: u32,
    /// Files with numbers below this may have had objects on a disk that was lost; 0: none was.
    pub lost_below: u64,
    /// At most [`PAGE_OBJECTS_MAX`].
    pub objects: Vec<ObjectEntry>,
}

impl Encode for ObjectPage {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        self.next.encode(encoder);
        encoder.u32(self.foreign_files);
        encoder.u64(self.lost_below);
        // At most PAGE_OBJECTS_MAX.
        encoder.u32(self.objects.len() as u32);
        self.objects
            .iter()
            .for_each(|object| object.encode(encoder));
    }
}

impl Decode<'_> for ObjectPage {
    fn decode(decoder: &mut Decoder<'_>) -> Result<ObjectPage, XdrError> {
        let next = ObjectPosition::decode(decoder)?;
        let foreign_files = decoder.u32()?;
        let lost_below = decoder.u64()?;
        let objects = (0..decoder.length(PAGE_OBJECTS_MAX)?).map(|_| ObjectEntry::decode(decoder));
        Ok(ObjectPage {
            next,
            foreign_files,
            lost_below,
            objects: objects.collect::<Result<_, _>>()?,
        })
    }
}

/// Some regular files of a volume, in the order of their numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePage {
    /// Nothing comes after the last.
    pub complete: bool,
    /// Their numbers, and where they lie; at most [`PAGE_FILES_MAX`].
    pub files: Vec<(u64, LayoutRecord)>,
}

impl Encode for FilePage {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.bool(self.complete);
        // At most PAGE_FILES_MAX.
        encoder.u32(self.files.len() as u32);
        for (file, layout) in &self.files {
            encoder.u64(*file);
            layout.encode(encoder);
        }
    }
}

impl Decode<'_> for FilePage {
    fn decode(decoder: &mut Decoder<'_>) -> Result<FilePage, XdrError> {
        let complete = decoder.bool()?;
        let count = decoder.length(PAGE_FILES_MAX)?;
        let files = (0..count).map(|_| Ok((decoder.u64()?, LayoutRecord::decode(decoder)?)));
        Ok(FilePage {
            complete,
            files: files.collect::<Result<_, _>>()?,
        })
    }
}

/// What the manager makes of an object for which no file was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum OrphanStatus {
    /// It belongs to no file.
    Orphan = 0,
    /// It belonged to no file, and was removed.
    Removed = 1,
    /// Its file is there, and lies on this server.
    InUse = 2,
    /// Its file was removed, and the object will be.
    Pending = 3,
    /// It belongs to no file and was written to a short while ago: its file may just have been removed.
    Recent = 4,
    /// No file of the volume ever had this number, as far as the manager knows.
    NeverMade = 5,
    /// It is not there any more.
    Gone = 6,
    /// Its file cannot be found although a name stands for it: metadata is damaged.
    Named = 7,
}

impl OrphanStatus {
    const ALL: [OrphanStatus; 8] = [
        OrphanStatus::Orphan,
        OrphanStatus::Removed,
        OrphanStatus::InUse,
        OrphanStatus::Pending,
        OrphanStatus::Recent,
        OrphanStatus::NeverMade,
        OrphanStatus::Gone,
        OrphanStatus::Named,
    ];
}

/// How objects of one I/O server stand, in the order in which they were asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrphanStatuses {
    /// At most [`OBJECTS_MAX`].
    pub statuses: Vec<OrphanStatus>,
}

impl Encode for OrphanStatuses {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        // At most OBJECTS_MAX.
        encoder.u32(self.statuses.len() as u32);
        self.statuses.iter().for_each(|it| encoder.u32(*it as u32));
    }
}

impl Decode<'_> for OrphanStatuses {
    fn decode(decoder: &mut Decoder<'_>) -> Result<OrphanStatuses, XdrError> {
        let count = decoder.length(OBJECTS_MAX)?;
        let statuses = (0..count).map(|_| {
            let number = decoder.u32()?;
            let known = OrphanStatus::ALL
                .into_iter()
                .find(|it| *it as u32 == number);
            known.ok_or(XdrError::Value)
        });
        Ok(OrphanStatuses {
            statuses: statuses.collect::<Result<_, _>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::BODY_MAX;
    use super::*;
    use crate::xdr::from_bytes;
    use alloc::vec;

    fn bytes(value: &impl Encode) -> Vec<u8> {
        let mut bytes = Vec::new();
        value.encode(&mut Encoder::new(&mut bytes));
        bytes
    }

    fn object_page(objects: usize) -> ObjectPage {
        let object = ObjectEntry {
            file: 0x0102,
            size: 0x0304,
        };
        ObjectPage {
            next: ObjectPosition {
                folder: 7,
                cookie: 8,
                verifier: 9,
            },
            foreign_files: 1,
            lost_below: 5,
            objects: vec![object; objects],
        }
    }

    #[test]
    fn pages_are_laid_out_as_documented() {
        let expected = [
            &b"\0\0\0\x07\0\0\0\0\0\0\0\x08\0\0\0\0\0\0\0\x09"[..],
            b"\0\0\0\x01\0\0\0\0\0\0\0\x05\0\0\0\x01",
            b"\0\0\0\0\0\0\x01\x02\0\0\0\0\0\0\x03\x04",
        ];
        assert_eq!(bytes(&object_page(1)), expected.concat());
        let layout = LayoutRecord {
            unit: 65536,
            servers: vec![1],
        };
        let page = FilePage {
            complete: true,
            files: vec![(5, layout)],
        };
        let expected = [
            &b"\0\0\0\x01\0\0\0\x01"[..],
            b"\0\0\0\0\0\0\0\x05\0\0\0\0\0\x01\0\0\0\0\0\x01\0\0\0\x01",
        ];
        assert_eq!(bytes(&page), expected.concat());
        let statuses = OrphanStatuses {
            statuses: vec![OrphanStatus::Orphan, OrphanStatus::Gone],
        };
        assert_eq!(bytes(&statuses), b"\0\0\0\x02\0\0\0\0\0\0\0\x06");
    }

    #[test]
    fn pages_come_back_as_they_went_in_and_whole() {
        let page = object_page(PAGE_OBJECTS_MAX);
        let sent = bytes(&page);
        assert!(sent.len() <= BODY_MAX);
        assert_eq!(from_bytes::<ObjectPage>(&sent), Ok(page));
        let layout = LayoutRecord {
            unit: 4096,
            servers: vec![2, 0],
        };
        let files = FilePage {
            complete: false,
            files: vec![(3, layout.clone()), (9, layout)],
        };
        let sent_files = bytes(&files);
        assert_eq!(from_bytes::<FilePage>(&sent_files), Ok(files));
        let statuses = OrphanStatuses {
            statuses: OrphanStatus::ALL.to_vec(),
        };
        let sent_statuses = bytes(&statuses);
        assert_eq!(from_bytes::<OrphanStatuses>(&sent_statuses), Ok(statuses));
        for len in 0..sent_files.len() {
            assert!(from_bytes::<FilePage>(&sent_files[..len]).is_err());
        }
        for len in 0..sent_statuses.len() {
            assert!(from_bytes::<OrphanStatuses>(&sent_statuses[..len]).is_err());
        }
        for len in 0..sent.len() {
            assert!(from_bytes::<ObjectPage>(&sent[..len]).is_err());
        }
    }

    #[test]
    fn impossible_pages_are_refused() {
        let many = bytes(&object_page(PAGE_OBJECTS_MAX + 1));
        assert!(from_bytes::<ObjectPage>(&many).is_err());
        let unknown = b"\0\0\0\x01\0\0\0\x08";
        assert_eq!(from_bytes::<OrphanStatuses>(unknown), Err(XdrError::Value));
    }
}
