//! A journal's file on a disk of this machine. Like redb's, it is a file of the store's own, not one that is served.

use super::JournalFile;
use super::record::{BLOCK_LEN, Header};
use rustix::fs::OFlags;
use std::cell::RefCell;
use std::fs::{File, OpenOptions, remove_file, rename};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// A journal in a file.
pub(super) struct DiskFile {
    file: File,
    /// The writer past the page cache, where the file system makes such writes durable.
    direct: RefCell<Option<Direct>>,
}

/// Writes past the page cache, each of which is durable when it ends: faster than writing and syncing a page.
struct Direct {
    file: File,
    /// The copy of the bytes under write, which starts on a page's boundary.
    staged: Vec<u8>,
}

/// tmpfs, as statfs(2) calls it.
const TMPFS: u64 = 0x0102_1994;
/// File systems that make such a write durable: ext2 to ext4, XFS, Btrfs and tmpfs. Others take the flags, and leave
/// that to who serves them (FUSE).
const DIRECT_FILE_SYSTEMS: [u64; 4] = [0xEF53, 0x5846_5342, 0x9123_683E, TMPFS];

/// Errors of a disk that refuses direct writes after all.
const UNABLE: [ErrorKind; 2] = [ErrorKind::InvalidInput, ErrorKind::Unsupported];

/// The file system of `file`, as statfs(2) calls it.
fn file_system(file: &File) -> Option<u64> {
    // Its width and sign are the machine's.
    u64::try_from(rustix::fs::fstatfs(file).ok()?.f_type).ok()
}

impl Direct {
    /// Opens `file` once more at `path` for direct writes; `None` where direct writes are not possible.
    fn open(file: &File, path: &Path) -> Option<Direct> {
        if !DIRECT_FILE_SYSTEMS.contains(&file_system(file)?) {
            return None;
        }
        // The bits of open(2), whatever integer holds them.
        let flags = i32::try_from((OFlags::DIRECT | OFlags::DSYNC).bits()).ok()?;
        let mut options = OpenOptions::new();
        let again = options.write(true).custom_flags(flags).open(path).ok()?;
        let identity = |file: &File| file.metadata().ok().map(|it| (it.dev(), it.ino()));
        // Another file may have been put in its place.
        (identity(&again)? == identity(file)?).then_some(Direct {
            file: again,
            staged: Vec::new(),
        })
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let room = bytes.len() + BLOCK_LEN;
        if self.staged.len() < room {
            self.staged.resize(room, 0);
        }
        let start = self.staged.as_ptr().align_offset(BLOCK_LEN);
        let staged = self
            .staged
            .get_mut(start..start.saturating_add(bytes.len()));
        let staged = staged.ok_or(ErrorKind::InvalidInput)?;
        staged.copy_from_slice(bytes);
        self.file.write_all_at(staged, offset)
    }
}

impl DiskFile {
    fn new(file: File, path: &Path) -> DiskFile {
        let direct = RefCell::new(Direct::open(&file, path));
        DiskFile { file, direct }
    }

    /// Opens the file at `path`; `None` if there is none. Its content is durable then: the process that wrote
    /// last may have died before its sync.
    pub(super) fn open(path: &Path) -> io::Result<Option<DiskFile>> {
        match OpenOptions::new().read(true).write(true).open(path) {
            Ok(file) => {
                file.sync_all()?;
                Ok(Some(DiskFile::new(file, path)))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Makes an empty journal at `path`, whole or not at all.
    ///
    /// All of it is written now: a sync of blocks that were never written would have to wait for the file system's own
    /// journal as well.
    pub(super) fn make(path: &Path, header: Header) -> io::Result<DiskFile> {
        let unready = path.with_extension("journal.new");
        match remove_file(&unready) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(0o600);
        let mut file = options.open(&unready)?;
        file.write_all(&header.to_block())?;
        let zeros = [0; 16 * BLOCK_LEN];
        let mut left = header.total_len() - BLOCK_LEN as u64;
        while left > 0 {
            let len = left.min(zeros.len() as u64);
            file.write_all(zeros.get(..len as usize).unwrap_or_default())?;
            left -= len;
        }
        file.sync_all()?;
        rename(&unready, path)?;
        let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
        Ok(DiskFile::new(file, path))
    }
}

impl JournalFile for DiskFile {
    fn length(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(into, offset)
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut direct = self.direct.borrow_mut();
        if let Some(writer) = &mut *direct {
            match writer.write(offset, bytes) {
                // This disk wants other boundaries, or none of it. What was written is written again.
                Err(error) if UNABLE.contains(&error.kind()) => {
                    tracing::info!(%error, "the journal is written through the page cache");
                    *direct = None;
                }
                outcome => return outcome,
            }
        }
        self.file.write_all_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        match &*self.direct.borrow() {
            Some(_) => Ok(()),
            None => self.file.sync_data(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> (tempfile::TempDir, DiskFile) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metadata.journal");
        let header = Header {
            identity: [7; 16],
            half_len: 16 * BLOCK_LEN as u64,
        };
        DiskFile::make(&path, header).unwrap();
        let file = DiskFile::open(&path).unwrap().unwrap();
        (folder, file)
    }

    #[test]
    fn a_file_opened_again_has_the_bytes_that_were_written() {
        let (folder, file) = file();
        let is_direct = || file.direct.borrow().is_some();
        let was_direct = is_direct();
        for (block, blocks) in [(1, 1), (2, 5), (7, 2), (1, 3)] {
            let bytes = vec![block + blocks; usize::from(blocks) * BLOCK_LEN];
            let offset = u64::from(block) * BLOCK_LEN as u64;
            file.write(offset, &bytes).unwrap();
            file.sync().unwrap();
            let again = DiskFile::open(&folder.path().join("metadata.journal"));
            let mut read = vec![0; bytes.len()];
            again.unwrap().unwrap().read(offset, &mut read).unwrap();
            assert_eq!(read, bytes);
        }
        assert_eq!(is_direct(), was_direct);
    }

    #[test]
    fn a_disk_with_other_boundaries_is_written_through_the_page_cache() {
        let (_folder, file) = file();
        // No disk has blocks of a byte; tmpfs takes it.
        let is_disk = file_system(&file.file).unwrap() != TMPFS;
        for offset in [1, 4095, 4096] {
            file.write(offset, b"record").unwrap();
            file.sync().unwrap();
            let mut read = [0; 6];
            file.read(offset, &mut read).unwrap();
            assert_eq!(&read, b"record");
            assert!(!(is_disk && file.direct.borrow().is_some()));
        }
    }
}
