//! Conversion between the values of the wire and of the store. Both follow RFC 1813, so only times can change: those
//! outside the range of NFSv3.

use crate::client::Error;
use gannet_vfs as vfs;
use gannet_wire::nfs3 as wire;

pub(crate) fn status_to_wire(status: vfs::Status) -> wire::Nfsstat {
    wire::Nfsstat::new(status as u32).unwrap_or(wire::Nfsstat::SERVERFAULT)
}

/// The store's status for one of the wire; codes that RFC 1813 does not have become SERVERFAULT.
pub(crate) fn status_from_wire(status: wire::Nfsstat) -> vfs::Status {
    use vfs::Status;
    use wire::Nfsstat;
    match status {
        Nfsstat::PERM => Status::Perm,
        Nfsstat::NOENT => Status::Noent,
        Nfsstat::IO => Status::Io,
        Nfsstat::NXIO => Status::Nxio,
        Nfsstat::ACCES => Status::Acces,
        Nfsstat::EXIST => Status::Exist,
        Nfsstat::XDEV => Status::Xdev,
        Nfsstat::NODEV => Status::Nodev,
        Nfsstat::NOTDIR => Status::Notdir,
        Nfsstat::ISDIR => Status::Isdir,
        Nfsstat::INVAL => Status::Inval,
        Nfsstat::FBIG => Status::Fbig,
        Nfsstat::NOSPC => Status::Nospc,
        Nfsstat::ROFS => Status::Rofs,
        Nfsstat::MLINK => Status::Mlink,
        Nfsstat::NAMETOOLONG => Status::Nametoolong,
        Nfsstat::NOTEMPTY => Status::Notempty,
        Nfsstat::DQUOT => Status::Dquot,
        Nfsstat::STALE => Status::Stale,
        Nfsstat::REMOTE => Status::Remote,
        Nfsstat::BADHANDLE => Status::Badhandle,
        Nfsstat::NOT_SYNC => Status::NotSync,
        Nfsstat::BAD_COOKIE => Status::BadCookie,
        Nfsstat::NOTSUPP => Status::Notsupp,
        Nfsstat::TOOSMALL => Status::Toosmall,
        Nfsstat::BADTYPE => Status::Badtype,
        Nfsstat::JUKEBOX => Status::Jukebox,
        _ => Status::Serverfault,
    }
}

/// Times before 1970 and after 2106 do not fit the wire; the nearest that does stands for them, as with other servers.
pub(crate) fn time_to_wire(time: vfs::Time) -> wire::Time {
    let (seconds, nanoseconds) = match time.unsigned_seconds() {
        Some(seconds) => (seconds, time.nanoseconds),
        None if time.seconds < 0 => (0, 0),
        None => (u32::MAX, 999_999_999),
    };
    wire::Time {
        seconds,
        nanoseconds,
    }
}

pub(crate) fn time_from_wire(time: wire::Time) -> vfs::Time {
    vfs::Time {
        seconds: time.seconds.into(),
        nanoseconds: time.nanoseconds,
    }
}

fn kind_to_wire(kind: vfs::FileKind) -> wire::FileType {
    match kind {
        vfs::FileKind::Regular => wire::FileType::Regular,
        vfs::FileKind::Directory => wire::FileType::Directory,
        vfs::FileKind::BlockDevice => wire::FileType::BlockDevice,
        vfs::FileKind::CharacterDevice => wire::FileType::CharacterDevice,
        vfs::FileKind::Symlink => wire::FileType::Symlink,
        vfs::FileKind::Socket => wire::FileType::Socket,
        vfs::FileKind::Fifo => wire::FileType::Fifo,
    }
}

fn kind_from_wire(kind: wire::FileType) -> vfs::FileKind {
    match kind {
        wire::FileType::Regular => vfs::FileKind::Regular,
        wire::FileType::Directory => vfs::FileKind::Directory,
        wire::FileType::BlockDevice => vfs::FileKind::BlockDevice,
        wire::FileType::CharacterDevice => vfs::FileKind::CharacterDevice,
        wire::FileType::Symlink => vfs::FileKind::Symlink,
        wire::FileType::Socket => vfs::FileKind::Socket,
        wire::FileType::Fifo => vfs::FileKind::Fifo,
    }
}

pub(crate) fn attributes_to_wire(attributes: &vfs::Attributes) -> wire::Attributes {
    wire::Attributes {
        kind: kind_to_wire(attributes.kind),
        mode: attributes.mode,
        link_count: attributes.link_count,
        uid: attributes.uid,
        gid: attributes.gid,
        size: attributes.size,
        used: attributes.used,
        device: wire::Device {
            major: attributes.device.0,
            minor: attributes.device.1,
        },
        fsid: attributes.fsid,
        fileid: attributes.fileid,
        access_time: time_to_wire(attributes.access_time),
        modify_time: time_to_wire(attributes.modify_time),
        change_time: time_to_wire(attributes.change_time),
    }
}

pub(crate) fn attributes_from_wire(attributes: &wire::Attributes) -> vfs::Attributes {
    vfs::Attributes {
        kind: kind_from_wire(attributes.kind),
        // Some servers send the type along in the upper bits.
        mode: attributes.mode & 0o7777,
        link_count: attributes.link_count,
        uid: attributes.uid,
        gid: attributes.gid,
        size: attributes.size,
        used: attributes.used,
        device: (attributes.device.major, attributes.device.minor),
        fsid: attributes.fsid,
        fileid: attributes.fileid,
        access_time: time_from_wire(attributes.access_time),
        modify_time: time_from_wire(attributes.modify_time),
        change_time: time_from_wire(attributes.change_time),
        // NFSv3 has no other word for it.
        change_id: time_from_wire(attributes.change_time).change_id(),
    }
}

pub(crate) fn wcc_to_wire(wcc: &vfs::Wcc) -> wire::WccData {
    wire::WccData {
        before: wcc.before.map(|before| wire::WccAttributes {
            size: before.size,
            modify_time: time_to_wire(before.modify_time),
            change_time: time_to_wire(before.change_time),
        }),
        after: wcc.after.as_ref().map(attributes_to_wire),
    }
}

pub(crate) fn set_attributes_from_wire(set: &wire::SetAttributes) -> vfs::SetAttributes {
    let time = |time| match time {
        wire::SetTime::Keep => vfs::SetTime::Keep,
        wire::SetTime::Server => vfs::SetTime::Now,
        wire::SetTime::Client(time) => vfs::SetTime::To(time_from_wire(time)),
    };
    vfs::SetAttributes {
        mode: set.mode.map(|mode| mode & 0o7777),
        uid: set.uid,
        gid: set.gid,
        size: set.size,
        access_time: time(set.access_time),
        modify_time: time(set.modify_time),
    }
}

/// # Errors
/// [`Error::NoSuchTime`]: a time does not fit the wire.
pub(crate) fn set_attributes_to_wire(
    set: &vfs::SetAttributes,
) -> Result<wire::SetAttributes, Error> {
    let time = |time| match time {
        vfs::SetTime::Keep => Ok(wire::SetTime::Keep),
        vfs::SetTime::Now => Ok(wire::SetTime::Server),
        vfs::SetTime::To(time) if time.unsigned_seconds().is_none() => Err(Error::NoSuchTime),
        vfs::SetTime::To(time) => Ok(wire::SetTime::Client(time_to_wire(time))),
    };
    Ok(wire::SetAttributes {
        mode: set.mode,
        uid: set.uid,
        gid: set.gid,
        size: set.size,
        access_time: time(set.access_time)?,
        modify_time: time(set.modify_time)?,
    })
}

pub(crate) fn stability_from_wire(stable: wire::Stable) -> vfs::Stability {
    match stable {
        wire::Stable::Unstable => vfs::Stability::Unstable,
        wire::Stable::DataSync => vfs::Stability::DataSync,
        wire::Stable::FileSync => vfs::Stability::FileSync,
    }
}

pub(crate) fn stability_to_wire(stability: vfs::Stability) -> wire::Stable {
    match stability {
        vfs::Stability::Unstable => wire::Stable::Unstable,
        vfs::Stability::DataSync => wire::Stable::DataSync,
        vfs::Stability::FileSync => wire::Stable::FileSync,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_that_do_not_fit_become_the_nearest_that_do() {
        let last = u32::MAX;
        for (seconds, expected) in [
            (i64::MIN, (0, 0)),
            (-1, (0, 0)),
            (0, (0, 5)),
            (i64::from(last), (last, 5)),
            (i64::from(last) + 1, (last, 999_999_999)),
        ] {
            let time = vfs::Time {
                seconds,
                nanoseconds: 5,
            };
            let sent = time_to_wire(time);
            assert_eq!((sent.seconds, sent.nanoseconds), expected, "{seconds}");
        }
    }
}
