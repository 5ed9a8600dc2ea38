//! The local side of a copy. Everything here may block: run it on the blocking pool.

use super::place::{Kind, Node};
use gannet_vfs::{NodeKind, Time};
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, SeekFrom, Timespec, Timestamps, makedev, mknodat,
};
use std::fs::File;
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Entries of one directory that are listed at most.
const ENTRIES_MAX: usize = 10_000_000;

/// What a path names, symbolic links followed.
pub(super) fn node_followed(path: &Path) -> io::Result<Node> {
    std::fs::metadata(path).map(|metadata| Node::of_local(&metadata))
}

/// What tells a file of this machine from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) number: u64,
    /// When it was changed last, as servers tell it; none in a mount, whose kernel remembers times and has its own.
    pub(super) changed: Option<Time>,
}

/// Of the file that a path names, symbolic links followed; none if there is none.
pub(super) fn identity(path: &Path) -> io::Result<Option<Identity>> {
    let file = match std::fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let is_mounted = MOUNTS.contains(&rustix::fs::statfs(path)?.f_type);
    let changed = Time {
        // Servers clip times, too.
        seconds: u32::try_from(file.ctime().max(0)).unwrap_or(u32::MAX),
        nanoseconds: u32::try_from(file.ctime_nsec()).unwrap_or(0),
    };
    Ok(Some(Identity {
        number: file.ino(),
        changed: (!is_mounted).then_some(changed),
    }))
}

/// What statfs(2) calls file systems in which another machine's files may be seen: FUSE and NFS.
const MOUNTS: [rustix::fs::FsWord; 2] = [0x6573_5546, 0x6969];

/// The names in a directory, sorted, with what they are.
pub(super) fn list(path: &Path) -> io::Result<Vec<(std::ffi::OsString, Node)>> {
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        if entries.len() == ENTRIES_MAX {
            return Err(io::Error::other("the directory has too many entries"));
        }
        entries.push((entry.file_name(), Node::of_local(&entry.metadata()?)));
    }
    entries.sort_by(|left, right| left.0.cmp(&right.0));
    Ok(entries)
}

pub(super) fn make_directory(path: &Path) -> io::Result<()> {
    match std::fs::DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        other => other,
    }
}

/// Makes or empties a file; its mode is set when it is complete.
pub(super) fn create(path: &Path) -> io::Result<File> {
    // A device or FIFO would be opened for good, and be given a mode and a time afterwards.
    if std::fs::metadata(path).is_ok_and(|there| !there.is_file()) {
        let why = "it is there, and no regular file (`gannet cat` writes to a pipe)";
        return Err(io::Error::other(why));
    }
    File::options()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
}

pub(super) fn make_symlink(path: &Path, target: &Path) -> io::Result<()> {
    match std::os::unix::fs::symlink(target, path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            if std::fs::read_link(path).is_ok_and(|known| known == target) {
                return Ok(());
            }
            std::fs::remove_file(path)?;
            std::os::unix::fs::symlink(target, path)
        }
        other => other,
    }
}

pub(super) fn make_special(path: &Path, kind: NodeKind) -> io::Result<()> {
    let (file_type, device) = match kind {
        NodeKind::Fifo => (FileType::Fifo, 0),
        NodeKind::Socket => (FileType::Socket, 0),
        NodeKind::BlockDevice(major, minor) => (FileType::BlockDevice, makedev(major, minor)),
        NodeKind::CharacterDevice(major, minor) => {
            (FileType::CharacterDevice, makedev(major, minor))
        }
    };
    let make = || mknodat(CWD, path, file_type, Mode::from_raw_mode(0o600), device);
    match make() {
        Err(rustix::io::Errno::EXIST) => {
            std::fs::remove_file(path)?;
            Ok(make()?)
        }
        made => Ok(made?),
    }
}

/// Sets length, mode and modification time; of a symbolic link, only the time.
pub(super) fn set_attributes(path: &Path, node: &Node) -> io::Result<()> {
    if node.kind == Kind::File && std::fs::symlink_metadata(path)?.len() != node.size {
        File::options().write(true).open(path)?.set_len(node.size)?;
    }
    if node.kind != Kind::Symlink {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(node.mode))?;
    }
    let modified = Timespec {
        tv_sec: node.modify_time.seconds.into(),
        tv_nsec: node.modify_time.nanoseconds.into(),
    };
    let times = Timestamps {
        last_access: Timespec {
            tv_sec: 0,
            tv_nsec: rustix::fs::UTIME_OMIT,
        },
        last_modification: modified,
    };
    rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(())
}

/// Fills `buffer` from `offset` on; how many bytes there were before the end of the file.
pub(super) fn read(file: &File, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, offset + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// The next range that holds data at or after `from`, clipped to `end`; `None` when only a hole is left.
pub(super) fn next_data(file: &File, from: u64, end: u64) -> io::Result<Option<(u64, u64)>> {
    let start = match rustix::fs::seek(file, SeekFrom::Data(from)) {
        Ok(start) => start,
        Err(rustix::io::Errno::NXIO) => return Ok(None),
        // The file system does not tell: everything is data.
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::OPNOTSUPP) => from,
        Err(error) => return Err(error.into()),
    };
    let hole = rustix::fs::seek(file, SeekFrom::Hole(start))
        .unwrap_or(end)
        .min(end);
    Ok((start < hole).then_some((start, hole)))
}

/// As [`open`], of a file that is `size` bytes long.
pub(super) fn open_sized(path: &Path, size: u64) -> io::Result<File> {
    let file = open(path)?;
    if size == 0 && read(&file, 0, &mut [0])? > 0 {
        let why =
            "it has more than its length says, as files in /proc have: copy it elsewhere first";
        return Err(io::Error::other(why));
    }
    Ok(file)
}

/// Opens a file for reading, not a FIFO that would wait for a writer.
pub(super) fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let descriptor = rustix::fs::openat(CWD, path, flags, Mode::empty())?;
    Ok(File::from(descriptor))
}
