//! What is kept of a file beside its data. It lies in the metadata store as it travels.

use super::{FileId, FileKind, LayoutRecord, NodeKind, SYMLINK_MAX, Stripes, Timestamp};
use crate::xdr::{Decode, Decoder, Encode, Encoder, XdrError};
use alloc::vec::Vec;

/// What is kept of a file beside its data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inode {
    /// Permission bits, 0o7777.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Names it has; a directory also counts itself and its subdirectories.
    pub links: u32,
    /// Last read, as far as the manager knows.
    pub access_time: Timestamp,
    /// Last write, as far as the manager knows: objects have times of their own.
    pub modify_time: Timestamp,
    /// Last change of anything.
    pub change_time: Timestamp,
    /// What it is.
    pub body: Body,
}

/// What depends on the kind of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// Data in objects.
    Regular {
        /// Where they are.
        layout: LayoutRecord,
        /// By which an exclusive CREATE knows its own work.
        verifier: [u8; 8],
        /// If somebody has set the modification time: the last write that objects told of then. It holds until they
        /// tell of a later one.
        written: Option<Timestamp>,
    },
    /// Names.
    Directory {
        /// The directory it is in; its own number for the root.
        parent: FileId,
        /// Names in it.
        entries: u64,
        /// Of the next name.
        next_cookie: u64,
        /// How new files in it are striped.
        stripes: Option<Stripes>,
    },
    /// A text.
    Symlink(Vec<u8>),
    /// A device, socket or FIFO.
    Node(NodeKind),
}

impl Inode {
    /// Its kind.
    pub fn kind(&self) -> FileKind {
        match &self.body {
            Body::Regular { .. } => FileKind::Regular,
            Body::Directory { .. } => FileKind::Directory,
            Body::Symlink(_) => FileKind::Symlink,
            Body::Node(node) => node.kind(),
        }
    }
}

/// Of the record's layout.
const FORMAT: u32 = 2;

impl Encode for Inode {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        for word in [
            FORMAT,
            self.kind() as u32,
            self.mode,
            self.uid,
            self.gid,
            self.links,
        ] {
            encoder.u32(word);
        }
        for time in [self.access_time, self.modify_time, self.change_time] {
            time.encode(encoder);
        }
        match &self.body {
            Body::Regular {
                layout,
                verifier,
                written,
            } => {
                layout.encode(encoder);
                encoder.fixed(verifier);
                written.encode(encoder);
            }
            Body::Directory {
                parent,
                entries,
                next_cookie,
                stripes,
            } => {
                encoder.u64(parent.0);
                encoder.u64(*entries);
                encoder.u64(*next_cookie);
                stripes.encode(encoder);
            }
            Body::Symlink(target) => encoder.opaque(target),
            Body::Node(
                NodeKind::BlockDevice(major, minor) | NodeKind::CharacterDevice(major, minor),
            ) => {
                encoder.u32(*major);
                encoder.u32(*minor);
            }
            Body::Node(NodeKind::Socket | NodeKind::Fifo) => {}
        }
    }
}

impl Decode<'_> for Inode {
    fn decode(decoder: &mut Decoder<'_>) -> Result<Inode, XdrError> {
        if decoder.u32()? != FORMAT {
            return Err(XdrError::Value);
        }
        let kind = decoder.u32()?;
        Ok(Inode {
            mode: decoder.u32()?,
            uid: decoder.u32()?,
            gid: decoder.u32()?,
            links: decoder.u32()?,
            access_time: Timestamp::decode(decoder)?,
            modify_time: Timestamp::decode(decoder)?,
            change_time: Timestamp::decode(decoder)?,
            body: take_body(kind, decoder)?,
        })
    }
}

fn take_body(kind: u32, decoder: &mut Decoder<'_>) -> Result<Body, XdrError> {
    let mut numbers = || Ok((decoder.u32()?, decoder.u32()?));
    Ok(match kind {
        1 => Body::Regular {
            layout: LayoutRecord::decode(decoder)?,
            verifier: *decoder.fixed()?,
            written: Option::decode(decoder)?,
        },
        2 => Body::Directory {
            parent: FileId(decoder.u64()?),
            entries: decoder.u64()?,
            next_cookie: decoder.u64()?,
            stripes: Option::decode(decoder)?,
        },
        3 => {
            let (major, minor) = numbers()?;
            Body::Node(NodeKind::BlockDevice(major, minor))
        }
        4 => {
            let (major, minor) = numbers()?;
            Body::Node(NodeKind::CharacterDevice(major, minor))
        }
        5 => Body::Symlink(decoder.opaque(SYMLINK_MAX)?.to_vec()),
        6 => Body::Node(NodeKind::Socket),
        7 => Body::Node(NodeKind::Fifo),
        _ => return Err(XdrError::Value),
    })
}

#[cfg(test)]
mod tests {
    use super::super::{Chosen, ROOT};
    use super::*;
    use crate::xdr::from_bytes;
    use alloc::vec;

    fn inode(body: Body) -> Inode {
        let time = |seconds| Timestamp {
            seconds,
            nanoseconds: 9,
        };
        Inode {
            mode: 0o640,
            uid: 10,
            gid: 20,
            links: 1,
            access_time: time(1),
            modify_time: time(2),
            change_time: time(3),
            body,
        }
    }

    #[test]
    fn records_come_back_as_they_went_in() {
        let regular = |written| Body::Regular {
            layout: LayoutRecord {
                unit: 65536,
                servers: vec![1, 2, 0],
            },
            verifier: *b"verifier",
            written,
        };
        let striped = |on| Body::Directory {
            parent: ROOT,
            entries: 4,
            next_cookie: 9,
            stripes: Some(Stripes { unit: 4096, on }),
        };
        let bodies = [
            regular(None),
            regular(Some(Timestamp::default())),
            striped(Chosen::InTurn(0)),
            striped(Chosen::Listed(vec![3, 0])),
            Body::Symlink(b"to".to_vec()),
            Body::Node(NodeKind::BlockDevice(8, 1)),
            Body::Node(NodeKind::CharacterDevice(1, 3)),
            Body::Node(NodeKind::Socket),
            Body::Node(NodeKind::Fifo),
        ];
        for body in bodies {
            let (inode, mut out) = (inode(body), Vec::new());
            inode.encode(&mut Encoder::new(&mut out));
            assert_eq!(from_bytes(&out), Ok(inode));
        }
    }
}
