//! The local side of a copy. Everything here may block: run it on the blocking pool.

use super::at::{At, Entry};
use super::place::{Kind, Node};
use gannet_vfs::{NodeKind, Time};
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, SeekFrom, Stat, Timespec, Timestamps, makedev,
    mknodat,
};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Entries of one directory that are listed at most.
const ENTRIES_MAX: usize = 10_000_000;
/// Directories and files belong to their owner alone until they are complete.
const DIRECTORY_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;
/// Names that are drawn before it is given up to find a free one.
const NAMES_DRAWN_MAX: usize = 16;

/// Finds the object at the user's own path, symbolic links followed, and its location.
pub(super) fn find(path: &Path) -> io::Result<(At, Node)> {
    let node = Node::of_stat(&rustix::fs::stat(path)?);
    if node.kind == Kind::Directory {
        return Ok((At::directory(path)?, node));
    }
    // Files in /proc need not have a path of their own.
    let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    let name = real.file_name().ok_or(Errno::INVAL)?;
    let parent = real.parent().filter(|above| !above.as_os_str().is_empty());
    let parent = At::directory(parent.unwrap_or(Path::new(".")))?;
    Ok((parent.child(name)?, node))
}

/// The identity of a local file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) number: u64,
    /// The ctime as servers report it; none in a mount, whose kernel caches times and has its own.
    pub(super) changed: Option<Time>,
}

/// The identity of the object that has a name, if there is one.
pub(super) fn identity(at: &At) -> io::Result<Option<Identity>> {
    let entry = at.open_parent()?;
    let Some(file) = entry.look()? else {
        return Ok(None);
    };
    let is_mounted = MOUNTS.contains(&rustix::fs::fstatfs(&entry.directory)?.f_type);
    let changed = Time {
        // Servers clip times, too.
        seconds: u32::try_from(file.st_ctime.max(0))
            .unwrap_or(u32::MAX)
            .into(),
        nanoseconds: u32::try_from(file.st_ctime_nsec).unwrap_or(0),
    };
    Ok(Some(Identity {
        number: file.st_ino,
        changed: (!is_mounted).then_some(changed),
    }))
}

/// The statfs(2) types of file systems that may show another machine's files: FUSE and NFS.
const MOUNTS: [rustix::fs::FsWord; 2] = [0x6573_5546, 0x6969];

/// The names in a directory, sorted, with their objects; names that vanish meanwhile are left out.
pub(super) fn list(at: &At) -> io::Result<Vec<(OsString, Node)>> {
    let directory = at.open_directory(OFlags::RDONLY)?;
    let mut entries = Vec::new();
    for entry in Dir::read_from(&directory)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if matches!(name, b"." | b"..") {
            continue;
        }
        if entries.len() == ENTRIES_MAX {
            return Err(io::Error::other("the directory has too many entries"));
        }
        let name = OsStr::from_bytes(name);
        match rustix::fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => {}
            found => entries.push((name.to_os_string(), Node::of_stat(&found?))),
        }
    }
    entries.sort_by(|left, right| left.0.cmp(&right.0));
    Ok(entries)
}

/// Makes a directory, or takes the one that is there; true when it was made. A symbolic link gives way to it.
pub(super) fn make_directory(at: &At) -> io::Result<bool> {
    let entry = at.open_parent()?;
    let mode = Mode::from_raw_mode(DIRECTORY_MODE);
    let make = || rustix::fs::mkdirat(&entry.directory, &entry.name, mode);
    match make() {
        Err(Errno::EXIST) => {}
        made => return Ok(made.map(|()| true)?),
    }
    match entry.kind()? {
        Some(FileType::Directory) => Ok(false),
        Some(FileType::Symlink) => {
            rustix::fs::unlinkat(&entry.directory, &entry.name, AtFlags::empty())?;
            Ok(make().map(|()| true)?)
        }
        _ => Err(Errno::NOTDIR.into()),
    }
}

/// A file that has a name of its own until it is complete, and is removed if that never comes about.
pub(super) struct Unfinished {
    entry: Entry,
    temporary: OsString,
    file: Arc<File>,
    is_complete: AtomicBool,
}

impl Unfinished {
    /// Creates a file that will replace another file or a symbolic link, or that has a new name.
    pub(super) fn create(at: &At) -> io::Result<Unfinished> {
        let entry = at.open_parent()?;
        match entry.kind()? {
            None | Some(FileType::RegularFile | FileType::Symlink) => {}
            Some(FileType::Directory) => return Err(Errno::ISDIR.into()),
            Some(_) => return Err(io::Error::other(super::place::NO_REGULAR_FILE)),
        }
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(FILE_MODE);
        let (temporary, file) = with_free_name(|temporary| {
            rustix::fs::openat(&entry.directory, temporary, flags, mode)
        })?;
        Ok(Unfinished {
            entry,
            temporary,
            file: Arc::new(File::from(file)),
            is_complete: AtomicBool::new(false),
        })
    }

    pub(super) fn file(&self) -> Arc<File> {
        Arc::clone(&self.file)
    }

    /// Gives it length, mode and modification time.
    pub(super) fn set_attributes(&self, node: &Node) -> io::Result<()> {
        if self.file.metadata()?.len() != node.size {
            self.file.set_len(node.size)?;
        }
        rustix::fs::fchmod(&self.file, Mode::from_raw_mode(node.copied_mode()))?;
        Ok(rustix::fs::futimens(&self.file, &times(node))?)
    }

    /// Gives it its name.
    pub(super) fn complete(&self) -> io::Result<()> {
        let directory = &self.entry.directory;
        rustix::fs::renameat(directory, &self.temporary, directory, &self.entry.name)?;
        self.is_complete.store(true, Ordering::Relaxed);
        Ok(())
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if !self.is_complete.load(Ordering::Relaxed) {
            // It may have been removed with its directory.
            let _ = rustix::fs::unlinkat(&self.entry.directory, &self.temporary, AtFlags::empty());
        }
    }
}

/// Makes a file under an unused name.
fn with_free_name<T>(
    mut make: impl FnMut(&OsStr) -> rustix::io::Result<T>,
) -> io::Result<(OsString, T)> {
    for _ in 1..NAMES_DRAWN_MAX {
        let random = getrandom::u64();
        let random = random.map_err(|error| io::Error::other(error.to_string()))?;
        let name = OsString::from_vec(super::place::temporary_name(random));
        match make(&name) {
            Err(Errno::EXIST) => {}
            made => return Ok((name, made?)),
        }
    }
    Err(Errno::EXIST.into())
}

/// Makes an object under a name. It replaces an object with that name, unless that is a directory.
fn make_or_replace(
    entry: &Entry,
    make: impl Fn(&OsStr) -> rustix::io::Result<()>,
) -> io::Result<()> {
    match make(&entry.name) {
        Err(Errno::EXIST) => {}
        made => return Ok(made?),
    }
    if entry.kind()? == Some(FileType::Directory) {
        return Err(Errno::ISDIR.into());
    }
    let (temporary, ()) = with_free_name(make)?;
    let directory = &entry.directory;
    let renamed = rustix::fs::renameat(directory, &temporary, directory, &entry.name);
    if renamed.is_err() {
        let _ = rustix::fs::unlinkat(directory, &temporary, AtFlags::empty());
    }
    Ok(renamed?)
}

pub(super) fn make_symlink(at: &At, target: &OsStr) -> io::Result<()> {
    let entry = at.open_parent()?;
    make_or_replace(&entry, |name| {
        rustix::fs::symlinkat(target, &entry.directory, name)
    })
}

pub(super) fn make_special(at: &At, kind: NodeKind) -> io::Result<()> {
    let (file_type, device) = match kind {
        NodeKind::Fifo => (FileType::Fifo, 0),
        NodeKind::Socket => (FileType::Socket, 0),
        NodeKind::BlockDevice { major, minor } => (FileType::BlockDevice, makedev(major, minor)),
        NodeKind::CharacterDevice { major, minor } => {
            (FileType::CharacterDevice, makedev(major, minor))
        }
    };
    let entry = at.open_parent()?;
    let mode = Mode::from_raw_mode(FILE_MODE);
    make_or_replace(&entry, |name| {
        mknodat(&entry.directory, name, file_type, mode, device)
    })
}

/// Sets mode and modification time of anything but a file; of a symbolic link, only the time.
pub(super) fn set_attributes(at: &At, node: &Node) -> io::Result<()> {
    let mode = Mode::from_raw_mode(node.copied_mode());
    if node.kind == Kind::Directory {
        let directory = at.open_directory(OFlags::RDONLY)?;
        rustix::fs::fchmod(&directory, mode)?;
        return Ok(rustix::fs::futimens(&directory, &times(node))?);
    }
    let entry = at.open_parent()?;
    if node.kind != Kind::Symlink {
        change_mode(&entry, mode)?;
    }
    let (directory, name) = (&entry.directory, &entry.name);
    Ok(rustix::fs::utimensat(
        directory,
        name,
        &times(node),
        AtFlags::SYMLINK_NOFOLLOW,
    )?)
}

/// Changes the mode of a device, socket or FIFO, which cannot be opened for that: another file may have its name by
/// now, and chmod(2) of a name follows links.
fn change_mode(entry: &Entry, mode: Mode) -> io::Result<()> {
    let opened: OwnedFd = entry.open(OFlags::PATH)?;
    let there = rustix::fs::fstat(&opened)?;
    let is_special = !matches!(
        FileType::from_raw_mode(there.st_mode),
        FileType::RegularFile | FileType::Directory | FileType::Symlink
    );
    if !is_special {
        return Err(io::Error::other("another file has its name by now"));
    }
    let path = format!("/proc/self/fd/{}", opened.as_raw_fd());
    Ok(rustix::fs::chmodat(CWD, path, mode, AtFlags::empty())?)
}

fn times(node: &Node) -> Timestamps {
    let time = node.modify_time;
    Timestamps {
        last_access: Timespec {
            tv_sec: 0,
            tv_nsec: rustix::fs::UTIME_OMIT,
        },
        last_modification: Timespec {
            tv_sec: time.seconds,
            tv_nsec: time.nanoseconds.into(),
        },
    }
}

/// The text of a symbolic link.
pub(super) fn read_link(at: &At) -> io::Result<Vec<u8>> {
    let entry = at.open_parent()?;
    let text = rustix::fs::readlinkat(&entry.directory, &entry.name, Vec::new())?;
    Ok(text.into_bytes())
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
        Err(Errno::NXIO) => return Ok(None),
        // The file system does not know its holes: everything is data.
        Err(Errno::INVAL | Errno::OPNOTSUPP) => from,
        Err(error) => return Err(error.into()),
    };
    let hole = rustix::fs::seek(file, SeekFrom::Hole(start))
        .unwrap_or(end)
        .min(end);
    Ok((start < hole).then_some((start, hole)))
}

/// As [`open`], of a file that is `size` bytes long.
pub(super) fn open_sized(at: &At, size: u64) -> io::Result<File> {
    let file = open(at)?;
    if size == 0 && read(&file, 0, &mut [0])? > 0 {
        let why = "it has more data than its size says, as files in /proc do: copy it to a regular file first";
        return Err(io::Error::other(why));
    }
    Ok(file)
}

/// Opens a regular file for reading, and nothing that has taken its name meanwhile.
pub(super) fn open(at: &At) -> io::Result<File> {
    let entry = at.open_parent()?;
    // A FIFO would wait for a writer.
    let file = entry.open(OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)?;
    let there: Stat = rustix::fs::fstat(&file)?;
    match FileType::from_raw_mode(there.st_mode) {
        FileType::RegularFile => Ok(File::from(file)),
        _ => Err(io::Error::other("it is no regular file any more")),
    }
}
