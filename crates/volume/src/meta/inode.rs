//! What is kept of a file beside its data.

use super::stripes::{Stripes, put_stripes, take_stripes};
use crate::calls::{put_time, take_time};
use gannet_vfs::limits::SYMLINK_MAX;
use gannet_vfs::{
    AccessMask, Attributes, Credentials, FileKind, NodeKind, SetAttributes, SetTime, Time, Verifier,
};
use gannet_wire::volume::LayoutRecord;
use gannet_wire::xdr::{Decode, Decoder, Encode, Encoder, XdrError};

/// A file's number in its volume, never given to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(pub u64);

/// The directory that all others are in.
pub const ROOT: FileId = FileId(1);

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
    pub access_time: Time,
    /// Last write, as far as the manager knows: objects have times of their own.
    pub modify_time: Time,
    /// Last change of anything.
    pub change_time: Time,
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
        verifier: Verifier,
        /// If somebody has set the modification time: the last write that objects told of then. It holds until they
        /// tell of a later one.
        written: Option<Time>,
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

/// A program with this bit runs as its owner.
const SET_USER_ID: u32 = 0o4000;
/// A program with this bit runs as its group; new files of a directory with it belong to the directory's.
pub(super) const SET_GROUP_ID: u32 = 0o2000;
/// The members of its group may execute it.
const GROUP_EXECUTES: u32 = 0o010;

/// Rights as permission bits: 4 read, 2 write, 1 execute or search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rights(pub(super) u32);

impl Rights {
    pub(super) const READ: u32 = 4;
    pub(super) const WRITE: u32 = 2;
    pub(super) const EXECUTE: u32 = 1;
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

    /// As a file system shows it. Size and blocks of a regular file are 0: its objects know them.
    pub fn attributes(&self, id: FileId, fsid: u64) -> Attributes {
        let size = match &self.body {
            Body::Symlink(target) => target.len() as u64,
            Body::Directory { entries, .. } => entries.saturating_mul(64),
            Body::Regular { .. } | Body::Node(_) => 0,
        };
        let device = match self.body {
            Body::Node(
                NodeKind::BlockDevice(major, minor) | NodeKind::CharacterDevice(major, minor),
            ) => (major, minor),
            _ => (0, 0),
        };
        Attributes {
            kind: self.kind(),
            mode: self.mode,
            link_count: self.links,
            uid: self.uid,
            gid: self.gid,
            size,
            used: size,
            device,
            fsid,
            fileid: id.0,
            access_time: self.access_time,
            modify_time: self.modify_time,
            change_time: self.change_time,
        }
    }

    /// What `caller` may do with it (POSIX.1-2017 section 4.5).
    pub(super) fn rights(&self, caller: &Credentials) -> Rights {
        if caller.uid == 0 {
            let runs = self.kind() == FileKind::Directory || self.mode & 0o111 != 0;
            return Rights(Rights::READ | Rights::WRITE | u32::from(runs));
        }
        let shift = if caller.uid == self.uid {
            6
        } else if is_member(caller, self.gid) {
            3
        } else {
            0
        };
        Rights(self.mode >> shift & 7)
    }

    /// Its mode without what a write, a truncation or a change of owner by `caller` takes away, as Linux does: the
    /// set-user-ID bit; and the set-group-ID bit where the group may execute, or is none of the caller's. A directory
    /// keeps both.
    pub(super) fn unprivileged_mode(&self, caller: &Credentials) -> u32 {
        if self.kind() == FileKind::Directory {
            return self.mode;
        }
        let mode = self.mode & !SET_USER_ID;
        let in_group = caller.uid == 0 || is_member(caller, self.gid);
        if self.mode & GROUP_EXECUTES != 0 || !in_group {
            return mode & !SET_GROUP_ID;
        }
        mode
    }

    /// The subset of `wanted` that `caller` has (RFC 1813 section 3.3.4).
    pub(super) fn access(&self, caller: &Credentials, wanted: AccessMask) -> AccessMask {
        let Rights(rights) = self.rights(caller);
        let directory = self.kind() == FileKind::Directory;
        let mut granted = 0;
        if rights & Rights::READ != 0 {
            granted |= AccessMask::READ;
        }
        if rights & Rights::WRITE != 0 {
            granted |= AccessMask::MODIFY | AccessMask::EXTEND;
        }
        if rights & Rights::EXECUTE != 0 {
            granted |= match directory {
                true => AccessMask::LOOKUP,
                false => AccessMask::EXECUTE,
            };
            if directory && rights & Rights::WRITE != 0 {
                granted |= AccessMask::DELETE;
            }
        }
        AccessMask(granted & wanted.0)
    }

    /// Gives it the attributes that `change` names, rights being checked. `last_write` is what its objects tell of.
    pub(super) fn set(&mut self, change: &SetAttributes, now: Time, last_write: Time) {
        let SetAttributes {
            mode,
            uid,
            gid,
            size,
            access_time,
            modify_time,
        } = change;
        if let Some(mode) = mode {
            self.mode = mode & 0o7777;
        }
        self.uid = uid.unwrap_or(self.uid);
        self.gid = gid.unwrap_or(self.gid);
        if size.is_some() {
            self.modify_time = now;
        }
        for (time, change) in [
            (&mut self.access_time, access_time),
            (&mut self.modify_time, modify_time),
        ] {
            match change {
                SetTime::Keep => {}
                SetTime::Now => *time = now,
                SetTime::To(other) => *time = *other,
            }
        }
        if let Body::Regular { written, .. } = &mut self.body {
            *written = match modify_time {
                SetTime::To(_) => Some(last_write),
                SetTime::Keep if size.is_none() => *written,
                SetTime::Keep | SetTime::Now => None,
            };
        }
        self.change_time = now;
    }
}

/// Whether a change may give a file set-user-ID or set-group-ID bits.
pub(crate) fn gives_privileges(change: &SetAttributes) -> bool {
    let bits = SET_USER_ID | SET_GROUP_ID;
    change.mode.is_some_and(|mode| mode & bits != 0)
}

/// Whether `gid` is one of the caller's groups.
pub(super) fn is_member(caller: &Credentials, gid: u32) -> bool {
    caller.gid == gid || caller.groups().contains(&gid)
}

/// Of the record's layout.
const FORMAT: u32 = 1;

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
            put_time(encoder, time);
        }
        match &self.body {
            Body::Regular {
                layout,
                verifier,
                written,
            } => {
                layout.encode(encoder);
                encoder.fixed(verifier);
                encoder.bool(written.is_some());
                written.iter().for_each(|time| put_time(encoder, *time));
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
                put_stripes(encoder, stripes.as_ref());
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
            access_time: take_time(decoder)?,
            modify_time: take_time(decoder)?,
            change_time: take_time(decoder)?,
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
            written: match decoder.bool()? {
                true => Some(take_time(decoder)?),
                false => None,
            },
        },
        2 => Body::Directory {
            parent: FileId(decoder.u64()?),
            entries: decoder.u64()?,
            next_cookie: decoder.u64()?,
            stripes: take_stripes(decoder)?,
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
    use super::super::Chosen;
    use super::*;
    use gannet_wire::xdr::from_bytes;

    fn inode(body: Body) -> Inode {
        let time = |seconds| Time {
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
            regular(Some(Time::default())),
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

    #[test]
    fn rights_are_those_of_the_first_class_that_fits() {
        let file = Inode {
            mode: 0o604,
            ..inode(Body::Node(NodeKind::Fifo))
        };
        let rights = |uid, gid, groups: &[u32]| file.rights(&Credentials::new(uid, gid, groups)).0;
        assert_eq!(rights(10, 99, &[]), 6, "the owner");
        assert_eq!(rights(11, 20, &[]), 0, "the group has less than others");
        assert_eq!(rights(11, 99, &[5, 20]), 0, "also as a supplementary group");
        assert_eq!(rights(11, 99, &[]), 4, "others");
        assert_eq!(
            rights(0, 0, &[]),
            6,
            "root may do all but execute what nobody may"
        );
    }
}
