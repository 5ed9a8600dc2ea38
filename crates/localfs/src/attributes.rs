//! From the kernel's words to the vocabulary's: stat, errno, file types.

use super::descriptors;
use gannet_vfs::{Attributes, FileKind, Status, Time};
use rustix::fs::{FileType, Stat, Statx, StatxAttributes};
use rustix::io::Errno;

/// The file system of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Volume {
    /// Device number. Overlays have several, for their layers.
    pub(crate) device: (u32, u32),
    /// The mount through which it was reached.
    pub(crate) mount: u64,
}

/// The result of statx(2) for an object.
pub(crate) struct Facts {
    /// The object's attributes.
    pub(crate) attributes: Attributes,
    /// The object's file system.
    pub(crate) volume: Volume,
    /// The inode's time of birth in nanoseconds since 1970; 0 where the file system does not keep one.
    pub(crate) birth: u64,
    /// Whether the inode is immutable or append-only (chattr(1)). The kernel opens neither to write at any offset.
    pub(crate) is_write_protected: bool,
}

impl Facts {
    /// Checks that data may be written and cut at all, whoever asks.
    ///
    /// The kernel checks the flags when it opens a file. Through a descriptor from before, ext4 writes to a file that
    /// is append-only now, and tmpfs writes to and cuts one that is immutable now.
    ///
    /// # Errors
    /// `Perm`, as open(2).
    pub(crate) fn require_unprotected(&self) -> Result<(), Status> {
        (!self.is_write_protected).then_some(()).ok_or(Status::Perm)
    }
}

/// Attributes from fstat(2); `fsid` is the export's.
pub(crate) fn from_stat(stat: &Stat, fsid: u64) -> Attributes {
    let (rdev, changed) = (stat.st_rdev, time(stat.st_ctime, stat.st_ctime_nsec));
    Attributes {
        kind: kind(FileType::from_raw_mode(stat.st_mode)),
        mode: stat.st_mode & 0o7777,
        link_count: u32::try_from(stat.st_nlink).unwrap_or(u32::MAX),
        uid: stat.st_uid,
        gid: stat.st_gid,
        size: u64::try_from(stat.st_size).unwrap_or(0),
        used: u64::try_from(stat.st_blocks)
            .unwrap_or(0)
            .saturating_mul(512),
        device: (rustix::fs::major(rdev), rustix::fs::minor(rdev)),
        fsid,
        fileid: stat.st_ino,
        access_time: time(stat.st_atime, stat.st_atime_nsec),
        modify_time: time(stat.st_mtime, stat.st_mtime_nsec),
        change_time: changed,
        change_id: changed.change_id(),
    }
}

/// Attributes and identity from statx(2).
pub(crate) fn from_statx(statx: &Statx, fsid: u64) -> Facts {
    let birth = if statx.stx_mask & rustix::fs::StatxFlags::BTIME.bits() == 0 {
        0
    } else {
        (statx.stx_btime.tv_sec.cast_unsigned())
            .wrapping_mul(1_000_000_000)
            .wrapping_add(statx.stx_btime.tv_nsec.into())
    };
    let stamp = |stamp: rustix::fs::StatxTimestamp| time(stamp.tv_sec, stamp.tv_nsec);
    let changed = stamp(statx.stx_ctime);
    let attributes = Attributes {
        kind: kind(FileType::from_raw_mode(statx.stx_mode.into())),
        mode: u32::from(statx.stx_mode) & 0o7777,
        link_count: statx.stx_nlink,
        uid: statx.stx_uid,
        gid: statx.stx_gid,
        size: statx.stx_size,
        used: statx.stx_blocks.saturating_mul(512),
        device: (statx.stx_rdev_major, statx.stx_rdev_minor),
        fsid,
        fileid: statx.stx_ino,
        access_time: stamp(statx.stx_atime),
        modify_time: stamp(statx.stx_mtime),
        change_time: changed,
        change_id: changed.change_id(),
    };
    Facts {
        attributes,
        volume: Volume {
            device: (statx.stx_dev_major, statx.stx_dev_minor),
            mount: statx.stx_mnt_id,
        },
        birth,
        is_write_protected: statx
            .stx_attributes
            .intersects(StatxAttributes::IMMUTABLE | StatxAttributes::APPEND),
    }
}

fn time<S: TryInto<i64>, N: TryInto<u32>>(seconds: S, nanoseconds: N) -> Time {
    Time {
        seconds: seconds.try_into().unwrap_or(i64::MAX),
        nanoseconds: nanoseconds.try_into().unwrap_or(0),
    }
}

fn kind(file_type: FileType) -> FileKind {
    match file_type {
        FileType::Directory => FileKind::Directory,
        FileType::Symlink => FileKind::Symlink,
        FileType::BlockDevice => FileKind::BlockDevice,
        FileType::CharacterDevice => FileKind::CharacterDevice,
        FileType::Fifo => FileKind::Fifo,
        FileType::Socket => FileKind::Socket,
        FileType::RegularFile | FileType::Unknown => FileKind::Regular,
    }
}

/// The status of a kernel's error for a client.
pub(crate) fn status(errno: Errno) -> Status {
    match errno {
        Errno::PERM => Status::Perm,
        Errno::NOENT => Status::Noent,
        Errno::IO => Status::Io,
        Errno::NXIO => Status::Nxio,
        // A busy text file or mount point will not be free in five seconds, so this is no matter for a retry.
        Errno::ACCESS | Errno::TXTBSY | Errno::BUSY => Status::Acces,
        Errno::EXIST => Status::Exist,
        Errno::XDEV => Status::Xdev,
        Errno::NODEV => Status::Nodev,
        Errno::NOTDIR => Status::Notdir,
        Errno::ISDIR => Status::Isdir,
        // The server follows no symbolic link; the client was to read it itself.
        Errno::INVAL | Errno::LOOP => Status::Inval,
        Errno::FBIG | Errno::OVERFLOW => Status::Fbig,
        Errno::NOSPC => Status::Nospc,
        Errno::ROFS => Status::Rofs,
        Errno::MLINK => Status::Mlink,
        Errno::NAMETOOLONG => Status::Nametoolong,
        Errno::NOTEMPTY => Status::Notempty,
        Errno::DQUOT => Status::Dquot,
        Errno::STALE => Status::Stale,
        Errno::OPNOTSUPP => Status::Notsupp,
        Errno::AGAIN | Errno::INTR | Errno::NOMEM | Errno::TIMEDOUT => Status::Jukebox,
        Errno::MFILE | Errno::NFILE => {
            descriptors::note_refused();
            Status::Jukebox
        }
        other => {
            tracing::debug!(
                errno = other.raw_os_error(),
                "unexpected error of the file system"
            );
            Status::Io
        }
    }
}
