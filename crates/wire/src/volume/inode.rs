//! The inode of a file (docs/formats/volume.md, "Bodies"). The metadata store holds it as it travels.

use super::{
    DeviceNumbers, FileId, FileKind, FileState, LayoutRecord, NodeKind, SYMLINK_MAX, Stripes,
    Timestamp,
};
use crate::Hex;
use crate::xdr::{
    Decode, Decoder, Encode, Encoder, Octal, Print, Printed, Quoted, XdrError, print_as_display,
    printed, record,
};
use alloc::vec::Vec;
use core::fmt;

/// The attributes of a file, and the part of it that the manager keeps (`inode`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inode {
    /// Permission bits, 0o7777.
    pub mode: u32,
    /// The number of the owner.
    pub uid: u32,
    /// The number of the group.
    pub gid: u32,
    /// The number of its names; a directory also counts itself and its subdirectories.
    pub links: u32,
    /// The time of the last read that the manager knows of.
    pub access_time: Timestamp,
    /// The time of the last write that the manager knows of. Objects have times of their own.
    pub modify_time: Timestamp,
    /// The time of the last change of data or attributes.
    pub change_time: Timestamp,
    /// The part that depends on the type of the file.
    pub body: Body,
}

printed! {
    Inode = "inode" {
        mode as "mode" via Octal,
        uid,
        gid,
        links,
        access_time as "accessed",
        modify_time as "modified",
        change_time as "changed",
        body,
    }
}

record! {
    /// The state of a file's objects that nobody may change (`settled`).
    Settled = "settled" {
        /// The state, of which all bytes are durable.
        state: FileState,
        /// The term of the manager that noted it.
        term: u64,
    }
}

/// The part of an inode that depends on the type of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// A regular file, whose data is in objects.
    Regular {
        /// The places of the objects.
        layout: LayoutRecord,
        /// The verifier of the exclusive CREATE that made the file.
        verifier: [u8; 8],
        /// The last write that the objects reported when a client set the modification time. The time that was set
        /// holds until they report a later write. `None` when no client has set it.
        written: Option<Timestamp>,
        /// The state of the objects, while nobody may change them. Replies carry it beside the inode, without the term.
        settled: Option<Settled>,
    },
    /// A directory.
    Directory {
        /// The directory that it is in; its own number for the root.
        parent: FileId,
        /// The number of names in it.
        entries: u64,
        /// The cookie of the next name that it gets.
        next_cookie: u64,
        /// The stripes of new files in it; `None` for those of the volume.
        stripes: Option<Stripes>,
    },
    /// A symbolic link with this text, at most [`SYMLINK_MAX`] bytes.
    Symlink(Vec<u8>),
    /// A device, socket or FIFO.
    Node(NodeKind),
}

impl fmt::Display for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Body::Regular {
                layout,
                verifier,
                written,
                settled,
            } => {
                let (layout, verifier) = (Printed(layout), Hex(verifier));
                write!(
                    f,
                    "file{layout} verifier={verifier} written={}",
                    Printed(written)
                )?;
                if !settled.is_absent() {
                    write!(f, " settled={}", Printed(settled))?;
                }
                Ok(())
            }
            Body::Directory {
                parent,
                entries,
                next_cookie,
                stripes,
            } => {
                write!(
                    f,
                    "dir parent={parent} entries={entries} next_cookie={next_cookie}"
                )?;
                if !stripes.is_absent() {
                    write!(f, " stripes={}", Printed(stripes))?;
                }
                Ok(())
            }
            Body::Symlink(text) => write!(f, "symlink {}", Printed(&Quoted(text))),
            Body::Node(node) => write!(f, "{node}"),
        }
    }
}

print_as_display!(Body);

impl Inode {
    /// The type of the file.
    pub fn kind(&self) -> FileKind {
        match &self.body {
            Body::Regular { .. } => FileKind::Regular,
            Body::Directory { .. } => FileKind::Directory,
            Body::Symlink(_) => FileKind::Symlink,
            Body::Node(node) => node.kind(),
        }
    }
}

/// The number of the encoding of an inode.
const FORMAT: u32 = 2;
/// The number of the encoding of a regular file's inode that ends with a [`Settled`].
const FORMAT_SETTLED: u32 = 3;

impl Encode for Inode {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        let format = match &self.body {
            Body::Regular {
                settled: Some(_), ..
            } => FORMAT_SETTLED,
            _ => FORMAT,
        };
        for word in [
            format,
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
                settled,
            } => {
                layout.encode(encoder);
                encoder.fixed(verifier);
                written.encode(encoder);
                settled.iter().for_each(|it| it.encode(encoder));
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
            Body::Node(NodeKind::BlockDevice(device) | NodeKind::CharacterDevice(device)) => {
                device.encode(encoder);
            }
            Body::Node(NodeKind::Socket | NodeKind::Fifo) => {}
        }
    }
}

impl Decode<'_> for Inode {
    fn decode(decoder: &mut Decoder<'_>) -> Result<Inode, XdrError> {
        let format = decoder.u32()?;
        let kind = FileKind::decode(decoder)?;
        let has_settled = format == FORMAT_SETTLED;
        if !(format == FORMAT || has_settled && kind == FileKind::Regular) {
            return Err(XdrError::Value);
        }
        Ok(Inode {
            mode: decoder.u32()?,
            uid: decoder.u32()?,
            gid: decoder.u32()?,
            links: decoder.u32()?,
            access_time: Timestamp::decode(decoder)?,
            modify_time: Timestamp::decode(decoder)?,
            change_time: Timestamp::decode(decoder)?,
            body: take_body(kind, has_settled, decoder)?,
        })
    }
}

fn take_body(
    kind: FileKind,
    has_settled: bool,
    decoder: &mut Decoder<'_>,
) -> Result<Body, XdrError> {
    Ok(match kind {
        FileKind::Regular => Body::Regular {
            layout: LayoutRecord::decode(decoder)?,
            verifier: *decoder.fixed()?,
            written: Option::decode(decoder)?,
            settled: has_settled.then(|| Settled::decode(decoder)).transpose()?,
        },
        FileKind::Directory => Body::Directory {
            parent: FileId(decoder.u64()?),
            entries: decoder.u64()?,
            next_cookie: decoder.u64()?,
            stripes: Option::decode(decoder)?,
        },
        FileKind::BlockDevice => Body::Node(NodeKind::BlockDevice(DeviceNumbers::decode(decoder)?)),
        FileKind::CharacterDevice => {
            Body::Node(NodeKind::CharacterDevice(DeviceNumbers::decode(decoder)?))
        }
        FileKind::Symlink => Body::Symlink(decoder.opaque(SYMLINK_MAX)?.to_vec()),
        FileKind::Socket => Body::Node(NodeKind::Socket),
        FileKind::Fifo => Body::Node(NodeKind::Fifo),
    })
}

#[cfg(test)]
mod tests {
    use super::super::{Chosen, ROOT};
    use super::*;
    use crate::xdr::from_bytes;
    use alloc::string::ToString;
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
                groups: vec![1, 2, 0],
            },
            verifier: *b"verifier",
            written,
            settled: None,
        };
        let mut settled = regular(None);
        if let Body::Regular { settled, .. } = &mut settled {
            *settled = Some(Settled {
                state: FileState {
                    size: 5,
                    used: 4096,
                    written: Timestamp::default(),
                    version: 3,
                },
                term: 7,
            });
        }
        let striped = |on| Body::Directory {
            parent: ROOT,
            entries: 4,
            next_cookie: 9,
            stripes: Some(Stripes {
                unit: 4096,
                on,
                copies: None,
            }),
        };
        let bodies = [
            regular(None),
            regular(Some(Timestamp::default())),
            settled,
            striped(Chosen::InTurn(0)),
            striped(Chosen::Listed(vec![3, 0])),
            Body::Symlink(b"to".to_vec()),
            Body::Node(NodeKind::BlockDevice(DeviceNumbers { major: 8, minor: 1 })),
            Body::Node(NodeKind::CharacterDevice(DeviceNumbers {
                major: 1,
                minor: 3,
            })),
            Body::Node(NodeKind::Socket),
            Body::Node(NodeKind::Fifo),
        ];
        for body in bodies {
            let (inode, mut out) = (inode(body), Vec::new());
            inode.encode(&mut Encoder::new(&mut out));
            assert_eq!(from_bytes(&out), Ok(inode));
        }
    }

    #[test]
    fn an_inode_prints_on_a_line() {
        let regular = Body::Regular {
            layout: LayoutRecord {
                unit: 65536,
                groups: vec![1, 2, 0],
            },
            verifier: [1; 8],
            written: None,
            settled: None,
        };
        assert_eq!(
            inode(regular).to_string(),
            "inode mode=0640 uid=10 gid=20 links=1 accessed=1.000000009 modified=2.000000009 \
             changed=3.000000009 body=file(unit=65536 groups=[1,2,0]) verifier=0101010101010101 \
             written=-"
        );
        let directory = Body::Directory {
            parent: ROOT,
            entries: 4,
            next_cookie: 9,
            stripes: Some(Stripes::everywhere(4096)),
        };
        assert_eq!(
            directory.to_string(),
            "dir parent=1 entries=4 next_cookie=9 stripes=(unit=4096 in_turn=0)"
        );
        let link = Body::Symlink(b"to\x1b".to_vec());
        assert_eq!(link.to_string(), "symlink \"to\\u{1b}\"");
    }
}
