//! The largest file that the served file system can hold.

use super::change::FILE_SIZE_MAX;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{FileType, Mode, OFlags, RawDir, SeekFrom};

/// Entries of the root that are looked at for a regular file.
const ENTRIES_MAX: usize = 256;
/// Bytes of directory entries read at a time.
const DIRECTORY_BUFFER: usize = 8 << 10;

/// The size in bytes of the largest file of the file system that `root` lies on. Linux refuses to seek beyond it, which
/// is asked of a new file without a name, or of a file in the root where none can be made. Blocks.
pub(crate) fn file_size_max(root: &OwnedFd) -> u64 {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = rustix::fs::openat(root, ".", flags, Mode::empty()).ok();
    match file.or_else(|| any_file(root)) {
        Some(file) => last_position(file.as_fd()),
        None => {
            tracing::info!(
                "the largest file size of the file system is unknown, because no file can be made or opened in the \
                 export: clients get the largest offset"
            );
            FILE_SIZE_MAX
        }
    }
}

/// A regular file in the root that can be opened, if one of the first entries is.
fn any_file(root: &OwnedFd) -> Option<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let directory = rustix::fs::openat(root, ".", flags | OFlags::DIRECTORY, Mode::empty()).ok()?;
    let mut buffer = Vec::with_capacity(DIRECTORY_BUFFER);
    let mut entries = RawDir::new(&directory, buffer.spare_capacity_mut());
    for _ in 0..ENTRIES_MAX {
        let entry = entries.next()?.ok()?;
        if entry.file_type() != FileType::RegularFile {
            continue;
        }
        // Without waiting, in case that the name is a FIFO's now.
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        if let Ok(file) = rustix::fs::openat(root, entry.file_name(), flags, Mode::empty()) {
            return Some(file);
        }
    }
    None
}

/// The largest offset to which a file can be positioned.
fn last_position(file: BorrowedFd<'_>) -> u64 {
    let reaches = |offset| rustix::fs::seek(file, SeekFrom::Start(offset)).is_ok();
    let (mut reached, mut refused) = (0, FILE_SIZE_MAX + 1);
    while refused - reached > 1 {
        let middle = reached + (refused - reached) / 2;
        if reaches(middle) {
            reached = middle;
        } else {
            refused = middle;
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::CWD;
    use std::fs::File;
    use std::path::Path;

    fn open(path: &Path) -> OwnedFd {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::openat(CWD, path, flags, Mode::empty()).unwrap()
    }

    #[test]
    fn one_byte_more_than_the_largest_file_does_not_fit() {
        let directory = tempfile::tempdir().unwrap();
        let max = file_size_max(&open(directory.path()));
        assert!(max >= 1 << 40, "{max}");
        let file = File::create(directory.path().join("f")).unwrap();
        if max < FILE_SIZE_MAX {
            file.set_len(max).unwrap();
            assert!(file.set_len(max + 1).is_err(), "{max}");
        }
        // As in a directory where none can be made.
        let found = any_file(&open(directory.path())).unwrap();
        assert_eq!(last_position(found.as_fd()), max);
    }

    #[test]
    fn an_export_without_files_has_none_to_ask() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("d")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", directory.path().join("l")).unwrap();
        assert!(any_file(&open(directory.path())).is_none());
    }
}
