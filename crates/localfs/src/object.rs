//! Objects that are open: descriptors, and what is remembered with them.

use super::access::Decisions;
use super::attributes::{Facts, from_stat, from_statx, status};
use super::clock_map::lock;
use super::listing::Listing;
use super::sync::WriteFile;
use super::tree::{LocalTree, statx};
use crate::sys;
use gannet_runtime::{FileRef, FileSource, FileStatus};
use gannet_vfs::{Attributes, FileHandle, FileKind, Status};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, ReadWriteFlags};
use std::io::{self, IoSliceMut};
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Pages that are sampled to estimate whether a range is in memory, where the kernel has no call for it.
const RESIDENCY_SAMPLES: u64 = 8;

/// An open descriptor that counts against the tree's budget.
pub(crate) struct OpenFile {
    descriptor: OwnedFd,
    open: Arc<AtomicUsize>,
    reading: AtomicU8,
}

/// The file is read without waiting for a disk, with RWF_NOWAIT.
const NO_WAIT: u8 = 0;
/// The file is read by plain reads: its file system does not support RWF_NOWAIT, but has no disk to wait for.
const PLAIN: u8 = 1;
/// The file cannot be read without waiting: its file system does not support RWF_NOWAIT.
const IMPOSSIBLE: u8 = 2;
/// Magic numbers of file systems in memory: tmpfs, ramfs.
const IN_MEMORY: [i64; 2] = [0x0102_1994, 0x8584_58f6];

/// An open file as the source of a transport, which reads it without waiting for the disk unless it chooses to.
pub fn file_source(file: std::fs::File) -> FileRef {
    OpenFile::new(OwnedFd::from(file), &Arc::default())
}

impl OpenFile {
    pub(crate) fn new(descriptor: OwnedFd, open: &Arc<AtomicUsize>) -> Arc<OpenFile> {
        open.fetch_add(1, Ordering::Relaxed);
        Arc::new(OpenFile {
            descriptor,
            open: Arc::clone(open),
            reading: AtomicU8::new(NO_WAIT),
        })
    }

    /// Whether its object has lost its last name.
    pub(crate) fn is_gone(&self) -> bool {
        rustix::fs::fstat(&self.descriptor).is_ok_and(|stat| stat.st_nlink == 0)
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl AsFd for OpenFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl FileSource for OpenFile {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.descriptor.as_fd())
    }

    fn try_read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        match self.reading.load(Ordering::Relaxed) {
            PLAIN => return self.read_at(offset, buffer),
            IMPOSSIBLE => return Err(io::ErrorKind::WouldBlock.into()),
            _ => {}
        }
        let slices = &mut [IoSliceMut::new(buffer)];
        match rustix::io::preadv2(&self.descriptor, slices, offset, ReadWriteFlags::NOWAIT) {
            Err(Errno::OPNOTSUPP) => {
                let reading = match rustix::fs::fstatfs(&self.descriptor) {
                    Ok(volume) if IN_MEMORY.contains(&volume.f_type) => PLAIN,
                    _ => IMPOSSIBLE,
                };
                self.reading.store(reading, Ordering::Relaxed);
                self.try_read_at(offset, buffer)
            }
            result => Ok(result?),
        }
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::retry_on_intr(|| {
            rustix::io::pread(&self.descriptor, &mut *buffer, offset)
        })?)
    }

    fn is_resident(&self, offset: u64, len: u64) -> bool {
        if len == 0 {
            return true;
        }
        let page = rustix::param::page_size() as u64;
        let has_all = |end: u64| {
            let pages = (end - 1) / page - offset / page + 1;
            let cached = sys::pages_cached(self.descriptor.as_fd(), offset, end - offset);
            cached.map(|cached| cached >= pages)
        };
        // The usual case needs no size: all pages of the range are there.
        let end = offset.saturating_add(len);
        let whole = has_all(end);
        if matches!(whole, Ok(true)) {
            return true;
        }
        let Ok(stat) = rustix::fs::fstat(&self.descriptor) else {
            return false;
        };
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        match (whole, end.min(size)) {
            (_, short) if offset >= short => true,
            (Ok(_), short) => short < end && has_all(short).unwrap_or(false),
            (Err(_), short) => self.samples_are_resident(offset, short),
        }
    }

    fn status(&self) -> io::Result<FileStatus> {
        let found = from_stat(&rustix::fs::fstat(&self.descriptor)?, 0);
        Ok(FileStatus {
            size: found.size,
            used: found.used,
            modified: found.modify_time.into(),
            changed: found.change_time.into(),
        })
    }
}

impl OpenFile {
    /// Kernels before 6.5 have no cachestat(2), and newer ones may not answer it to this user.
    fn samples_are_resident(&self, offset: u64, end: u64) -> bool {
        let samples = RESIDENCY_SAMPLES.min(end - offset).max(1);
        let step = ((end - offset) / samples).max(1);
        let mut byte = [0];
        (0..samples)
            .map(|index| offset + index * step)
            .chain(std::iter::once(end - 1))
            .all(|at| self.try_read_at(at, &mut byte).is_ok())
    }
}

/// A path that leads to an open descriptor's object, without allocating.
pub(crate) struct ProcPath {
    bytes: [u8; 32],
}

impl ProcPath {
    pub(crate) fn new(descriptor: BorrowedFd<'_>) -> ProcPath {
        use std::io::Write;
        let mut bytes = [0; 32];
        let number = rustix::fd::AsRawFd::as_raw_fd(&descriptor);
        // The longest number has ten digits.
        let _ = write!(&mut bytes[..31], "/proc/self/fd/{number}");
        ProcPath { bytes }
    }

    pub(crate) fn as_c_str(&self) -> &std::ffi::CStr {
        std::ffi::CStr::from_bytes_until_nul(&self.bytes).unwrap_or(c"/proc/self/fd/-1")
    }
}

/// The use for which the base descriptor of an object was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Base {
    /// The descriptor names the object (O_PATH).
    Path,
    /// The descriptor reads and writes the object, which was just created.
    Data,
}

/// An object of the tree with a descriptor. As long as it is open, its inode number cannot be given to another.
pub(crate) struct Object {
    /// The object's handle.
    pub(crate) handle: FileHandle,
    /// The object's kind, which never changes.
    pub(crate) kind: FileKind,
    /// The object's inode number, which never changes.
    pub(crate) fileid: u64,
    /// A number that no other object of the tree has ([`LocalTree::number_of`]).
    pub(crate) number: u64,
    /// The id of the object's file system or subvolume.
    pub(crate) fsid: u64,
    base: Arc<OpenFile>,
    /// The time at which a directory was last known to lie below the root, in milliseconds of [`LocalTree::clock`].
    below_at: AtomicU64,
    /// A lock that a change holds from its first look at the attributes to its last, so that the weak cache consistency
    /// data are those of this change alone.
    pub(crate) changing: Mutex<()>,
    /// The remembered rights of callers.
    pub(crate) decisions: Mutex<Decisions>,
    /// The entries of a directory, one window or several, the latest last.
    pub(crate) windows: Mutex<Vec<Arc<Listing>>>,
    data: Mutex<Data>,
}

#[derive(Default)]
struct Data {
    read: Option<Arc<OpenFile>>,
    write: Option<Arc<WriteFile>>,
    /// Written since the last sweep.
    write_used: bool,
}

impl Object {
    /// The object that `base` names, with its number in the tree; `write` if it was opened for writing too, as that or
    /// another descriptor.
    pub(crate) fn new(
        handle: FileHandle,
        number: u64,
        attributes: &Attributes,
        base: Arc<OpenFile>,
        write: Option<Arc<WriteFile>>,
    ) -> Object {
        let data = Data {
            read: None,
            write_used: write.is_some(),
            write,
        };
        Object {
            handle,
            kind: attributes.kind,
            fileid: attributes.fileid,
            number,
            fsid: attributes.fsid,
            base,
            below_at: AtomicU64::new(0),
            changing: Mutex::new(()),
            decisions: Mutex::new(Decisions::default()),
            windows: Mutex::default(),
            data: Mutex::new(data),
        }
    }

    /// A descriptor that names the object; data cannot be read or written through it.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.base.as_fd()
    }

    /// The object's path from the root of this process.
    pub(crate) fn path(&self) -> Option<Vec<u8>> {
        let link = ProcPath::new(self.descriptor());
        let path = rustix::fs::readlink(link.as_c_str(), Vec::new()).ok()?;
        Some(path.into_bytes())
    }

    /// Reads the object's present attributes.
    ///
    /// # Errors
    /// `Stale`: the object has lost its last name, and the tree forgets it.
    pub(crate) fn attributes(&self, tree: &LocalTree) -> Result<Attributes, Status> {
        let stat = rustix::fs::fstat(&self.base).map_err(status)?;
        if stat.st_nlink == 0 {
            tree.forget(&self.handle);
            return Err(Status::Stale);
        }
        Ok(from_stat(&stat, self.fsid))
    }

    /// Reads the object's present attributes, and what fstat(2) does not tell, by one system call too.
    ///
    /// # Errors
    /// As [`Object::attributes`].
    pub(crate) fn facts(&self, tree: &LocalTree) -> Result<Facts, Status> {
        let statx = statx(self.descriptor(), c"").map_err(status)?;
        if statx.stx_nlink == 0 {
            tree.forget(&self.handle);
            return Err(Status::Stale);
        }
        Ok(from_statx(&statx, self.fsid))
    }

    /// A descriptor to read from, opened with this thread's rights if there is none yet.
    ///
    /// # Errors
    /// `Isdir` or `Inval` for an object that is no regular file; as open(2).
    pub(crate) fn readable(&self, tree: &LocalTree) -> Result<Arc<OpenFile>, Status> {
        self.require_regular()?;
        if let Some(file) = &lock(&self.data).read {
            return Ok(Arc::clone(file));
        }
        let file = self.reopen(tree, OFlags::RDONLY)?;
        Ok(Arc::clone(lock(&self.data).read.get_or_insert(file)))
    }

    /// The descriptor to read from, if there is one.
    pub(crate) fn open_for_reading(&self) -> Option<Arc<OpenFile>> {
        lock(&self.data).read.clone()
    }

    /// A descriptor to write to, opened with this thread's rights if there is none yet.
    ///
    /// # Errors
    /// As [`Object::readable`].
    pub(crate) fn writable(&self, tree: &LocalTree) -> Result<Arc<WriteFile>, Status> {
        self.require_regular()?;
        {
            let mut data = lock(&self.data);
            data.write_used = true;
            if let Some(file) = &data.write {
                return Ok(Arc::clone(file));
            }
        }
        let file = self.reopen(tree, OFlags::WRONLY)?;
        let file = tree.durability.write_file(self.number, file);
        Ok(Arc::clone(lock(&self.data).write.get_or_insert(file)))
    }

    /// The descriptor to write to, if there is one.
    pub(crate) fn open_for_writing(&self) -> Option<Arc<WriteFile>> {
        lock(&self.data).write.clone()
    }

    /// Checks that it is a regular file: `Isdir` or `Inval` otherwise.
    pub(crate) fn require_regular(&self) -> Result<(), Status> {
        match self.kind {
            FileKind::Regular => Ok(()),
            FileKind::Directory => Err(Status::Isdir),
            _ => Err(Status::Inval),
        }
    }

    /// Checks that it is a directory: `Notdir` otherwise.
    pub(crate) fn require_directory(&self) -> Result<(), Status> {
        match self.kind {
            FileKind::Directory => Ok(()),
            _ => Err(Status::Notdir),
        }
    }

    fn reopen(&self, tree: &LocalTree, access: OFlags) -> Result<Arc<OpenFile>, Status> {
        // NONBLOCK: the open fails at once while a local program holds a lease, and does not wait for its end.
        let flags = access | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let path = ProcPath::new(self.base.as_fd());
        let descriptor = rustix::fs::open(path.as_c_str(), flags, Mode::empty()).map_err(status)?;
        let file = OpenFile::new(descriptor, &tree.open);
        tree.keep_to_budget(Vec::new());
        Ok(file)
    }

    /// Closes the descriptor for writing if it was not used since the last call; true when the object must be closed,
    /// because that is its only descriptor.
    pub(crate) fn close_idle_write(&self) -> bool {
        let mut data = lock(&self.data);
        if std::mem::take(&mut data.write_used) {
            return false;
        }
        let Some(write) = data.write.take() else {
            return false;
        };
        Arc::ptr_eq(write.file(), &self.base)
    }

    /// Whether the object has lost its last name.
    pub(crate) fn is_gone(&self) -> bool {
        self.base.is_gone()
    }

    /// Notes that it lay below the root at `time`, unless a later time is known.
    pub(crate) fn was_below(&self, time: u64) {
        self.below_at.fetch_max(time, Ordering::Relaxed);
    }

    /// The time at which it was last known to lie below the root; 0 if that is not known.
    pub(crate) fn below_at(&self) -> u64 {
        self.below_at.load(Ordering::Relaxed)
    }
}
