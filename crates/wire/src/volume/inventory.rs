//! Listings of an I/O server's objects and of a volume's files, page by page, and the orphan check that compares them
//! (docs/formats/volume.md).

use super::{LayoutRecord, OBJECTS_MAX, ObjectId};
use crate::xdr::{
    Count, Decode, Decoder, Encode, Encoder, Items, XdrError, enumeration, printed, record,
};
use alloc::vec::Vec;

/// Most objects of an [`ObjectPage`].
pub const PAGE_OBJECTS_MAX: usize = 200;
/// Most files of a [`FilePage`]. A message bounds its bytes.
pub const PAGE_FILES_MAX: usize = 128;
/// The number of folders that an I/O server spreads objects over.
pub const FOLDERS: u32 = 256;

record! {
    /// A position in the listing of an I/O server's objects (`position`). Zeros stand for its start.
    ObjectPosition = "position" {
        /// The number of the folder; [`FOLDERS`] stands for the end.
        folder: u32,
        /// The position in the folder's listing.
        cookie: u64,
        /// The verifier of the folder's listing.
        verifier: u64,
    }
}

record! {
    /// An object of an I/O server.
    ObjectEntry = "entry" {
        /// Its name.
        object: ObjectId,
        /// Its length in bytes, holes included.
        size: u64,
    }
}

/// A page of the listing of an I/O server's objects, folder by folder (`object_page`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectPage {
    /// The position behind the page.
    pub next: ObjectPosition,
    /// The number of names in the page that are no object's.
    pub foreign_files: u32,
    /// Files with numbers below this may have had objects on a disk that was lost; 0 when no disk was lost.
    pub lost_below: u64,
    /// The objects, at most [`PAGE_OBJECTS_MAX`].
    pub objects: Vec<ObjectEntry>,
}

printed! {
    ObjectPage = "object_page" {
        next,
        foreign_files,
        lost_below,
        objects as "objects" via Count,
    }
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

/// A regular file and the places of its objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileLayout {
    /// The number of the file.
    pub file: u64,
    /// The places of its objects.
    pub layout: LayoutRecord,
}

printed! { FileLayout = "file_layout" { file, layout, } }

/// A page of the regular files of a volume, in the order of their numbers (`file_page`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePage {
    /// The last file is the last of the volume.
    pub complete: bool,
    /// The files, at most [`PAGE_FILES_MAX`].
    pub files: Vec<FileLayout>,
}

printed! { FilePage = "file_page" { complete, files as "files" via Count, } }

impl Encode for FilePage {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.bool(self.complete);
        // At most PAGE_FILES_MAX.
        encoder.u32(self.files.len() as u32);
        for file in &self.files {
            encoder.u64(file.file);
            file.layout.encode(encoder);
        }
    }
}

impl Decode<'_> for FilePage {
    fn decode(decoder: &mut Decoder<'_>) -> Result<FilePage, XdrError> {
        let complete = decoder.bool()?;
        let count = decoder.length(PAGE_FILES_MAX)?;
        let files = (0..count).map(|_| {
            Ok(FileLayout {
                file: decoder.u64()?,
                layout: LayoutRecord::decode(decoder)?,
            })
        });
        Ok(FilePage {
            complete,
            files: files.collect::<Result<_, _>>()?,
        })
    }
}

enumeration! {
    /// The result of the orphan check of one object (`standing`).
    OrphanStatus {
        /// The object belongs to no file.
        Orphan = 0 => "orphan",
        /// The object belonged to no file, and was removed.
        Removed = 1 => "removed",
        /// The object's file exists, and has this group of this server in its layout.
        InUse = 2 => "in_use",
        /// The object's file was removed, and the removal of the object is pending.
        Pending = 3 => "pending",
        /// The object belongs to no file and was written to a short while ago: its file may just have been removed.
        Recent = 4 => "recent",
        /// No file of the volume ever had this number, by the metadata.
        NeverMade = 5 => "never_made",
        /// The object does not exist any more.
        Gone = 6 => "gone",
        /// A name stands for the object's file, whose inode is missing: metadata is damaged.
        Named = 7 => "named",
    }
}

/// The results of the orphan check of objects of one I/O server, in the order of the request (`standings`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrphanStatuses {
    /// The results, at most [`OBJECTS_MAX`].
    pub statuses: Vec<OrphanStatus>,
}

printed! { OrphanStatuses = "standings" { statuses as "standings" via Items, } }

impl Encode for OrphanStatuses {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        // At most OBJECTS_MAX.
        encoder.u32(self.statuses.len() as u32);
        self.statuses.iter().for_each(|it| it.encode(encoder));
    }
}

impl Decode<'_> for OrphanStatuses {
    fn decode(decoder: &mut Decoder<'_>) -> Result<OrphanStatuses, XdrError> {
        let count = decoder.length(OBJECTS_MAX)?;
        let statuses = (0..count).map(|_| OrphanStatus::decode(decoder));
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
    use alloc::string::ToString;
    use alloc::vec;

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

    fn bytes(value: &impl Encode) -> Vec<u8> {
        let mut bytes = Vec::new();
        value.encode(&mut Encoder::new(&mut bytes));
        bytes
    }

    fn object_page(objects: usize) -> ObjectPage {
        let object = ObjectEntry {
            object: ObjectId {
                group: 0x05,
                file: 0x0102,
            },
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
            b"\0\0\0\x05\0\0\0\0\0\0\x01\x02\0\0\0\0\0\0\x03\x04",
        ];
        assert_eq!(bytes(&object_page(1)), expected.concat());
        let layout = LayoutRecord {
            unit: 65536,
            groups: vec![1],
        };
        let page = FilePage {
            complete: true,
            files: vec![FileLayout { file: 5, layout }],
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
        assert_eq!(statuses.to_string(), "standings standings=[orphan,gone]");
        assert_eq!(
            object_page(3).to_string(),
            "object_page next=(folder=7 cookie=8 verifier=9) foreign_files=1 lost_below=5 objects=3"
        );
        assert_eq!(page.to_string(), "file_page complete=true files=1");
    }

    #[test]
    fn pages_come_back_as_they_went_in_and_whole() {
        let page = object_page(PAGE_OBJECTS_MAX);
        let sent = bytes(&page);
        assert!(sent.len() <= BODY_MAX);
        assert_eq!(from_bytes::<ObjectPage>(&sent), Ok(page));
        let layout = LayoutRecord {
            unit: 4096,
            groups: vec![2, 0],
        };
        let files = FilePage {
            complete: false,
            files: vec![
                FileLayout {
                    file: 3,
                    layout: layout.clone(),
                },
                FileLayout { file: 9, layout },
            ],
        };
        let sent_files = bytes(&files);
        assert_eq!(from_bytes::<FilePage>(&sent_files), Ok(files));
        let statuses = OrphanStatuses {
            statuses: ALL.to_vec(),
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
