//! Windows onto open files: their pages as addresses that the kernel may copy from.
#![allow(unsafe_code)]

use crate::{FileRef, FileSource};
use memmap2::{Mmap, MmapOptions};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::{Arc, Weak};

/// Bytes of a file from one window's start to the next one's.
const WINDOW_STEP: u64 = 16 << 20;
/// Bytes by which windows overlap, so that a range up to this length lies in one.
pub const WINDOW_RANGE_MAX: usize = 64 << 10;
/// Windows that a core keeps: pages of 256 MiB.
const WINDOWS_MAX: usize = 16;

/// A part of a file, mapped.
///
/// Only for system calls: another process may shorten the file. An access of this process to the lost bytes would then
/// end it (SIGBUS), while a system call fails (EFAULT, see [`crate::stream::is_memory_gone`]).
#[derive(Debug)]
pub struct FileWindow {
    start: u64,
    pages: Mmap,
}

impl FileWindow {
    fn open(file: &FileRef, start: u64) -> Option<FileWindow> {
        let descriptor = file.descriptor()?;
        let len = usize::try_from(WINDOW_STEP).ok()? + WINDOW_RANGE_MAX;
        let mut options = MmapOptions::new();
        let options = options.offset(start).len(len);
        // SAFETY: only the kernel reads the bytes, and copies their content at that time; see the type's text.
        let pages = unsafe { options.map(&descriptor) }.ok()?;
        Some(FileWindow { start, pages })
    }

    /// `len` bytes at `offset` of the file, if they lie in the window. Pass them to a system call only: a read by this
    /// process may end it, see the type's text.
    pub fn range(&self, offset: u64, len: usize) -> Option<&[u8]> {
        let start = usize::try_from(offset.checked_sub(self.start)?).ok()?;
        self.pages.get(start..start.checked_add(len)?)
    }
}

/// The windows of a core, the one used last at the end.
#[derive(Default)]
pub struct FileWindows {
    kept: RefCell<VecDeque<Kept>>,
}

struct Kept {
    /// Its allocation stays while this refers to it. Otherwise another file could get the address that
    /// [`FileWindows::window`] compares, and be sent with this file's pages.
    file: Weak<dyn FileSource>,
    start: u64,
    /// Used since the last [`FileWindows::trim_unused`].
    is_used: bool,
    /// `None` for a file that cannot be mapped.
    window: Option<Rc<FileWindow>>,
}

impl FileWindows {
    /// The window in which a range of up to [`WINDOW_RANGE_MAX`] bytes at `offset` lies; `None` when the file cannot
    /// be mapped.
    pub fn window(&self, file: &FileRef, offset: u64) -> Option<Rc<FileWindow>> {
        let start = offset - offset % WINDOW_STEP;
        let is_it = |kept: &Kept| {
            kept.start == start && std::ptr::addr_eq(kept.file.as_ptr(), Arc::as_ptr(file))
        };
        let mut kept = self.kept.borrow_mut();
        if let Some(found) = kept.iter().rposition(is_it) {
            if found + 1 < kept.len()
                && let Some(used) = kept.remove(found)
            {
                kept.push_back(used);
            }
            let found = kept.back_mut()?;
            found.is_used = true;
            return found.window.clone();
        }
        // The sweep borrows the windows itself.
        drop(kept);
        self.sweep();
        let window = FileWindow::open(file, start).map(Rc::new);
        let mut kept = self.kept.borrow_mut();
        if kept.len() >= WINDOWS_MAX {
            kept.pop_front();
        }
        kept.push_back(Kept {
            file: Arc::downgrade(file),
            start,
            is_used: true,
            window: window.clone(),
        });
        window
    }

    /// Drops the windows of closed files. A mapping of a removed file would keep its space in use.
    pub fn sweep(&self) {
        let mut kept = self.kept.borrow_mut();
        kept.retain(|kept| kept.file.strong_count() > 0);
    }

    /// Drops the windows that were not used since the last call of this: their pages count as this process's memory.
    pub fn trim_unused(&self) {
        let mut kept = self.kept.borrow_mut();
        kept.retain_mut(|kept| std::mem::take(&mut kept.is_used));
    }

    /// Drops all windows.
    pub fn clear(&self) {
        // Shrinks the list, too: a core that idles keeps nothing.
        self.kept.take();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io;
    use std::os::fd::{AsFd, BorrowedFd};

    struct Plain(Option<File>);

    impl FileSource for Plain {
        fn descriptor(&self) -> Option<BorrowedFd<'_>> {
            self.0.as_ref().map(AsFd::as_fd)
        }

        fn try_read_at(&self, _offset: u64, _buffer: &mut [u8]) -> io::Result<usize> {
            Ok(0)
        }

        fn read_at(&self, _offset: u64, _buffer: &mut [u8]) -> io::Result<usize> {
            Ok(0)
        }

        fn is_resident(&self, _offset: u64, _len: u64) -> bool {
            true
        }
    }

    fn plain() -> FileRef {
        Arc::new(Plain(Some(File::open("/proc/self/exe").unwrap())))
    }

    #[test]
    fn a_window_is_used_again_until_its_file_is_closed() {
        let windows = FileWindows::default();
        let file = plain();
        let first = windows.window(&file, 5).unwrap();
        let start = first.range(0, WINDOW_RANGE_MAX).unwrap().as_ptr();
        assert!(first.range(WINDOW_STEP - 1, WINDOW_RANGE_MAX).is_some());
        assert!(first.range(WINDOW_STEP + 1, WINDOW_RANGE_MAX).is_none());
        let other = windows.window(&file, WINDOW_STEP).unwrap();
        assert!(other.range(WINDOW_STEP, 1).is_some() && other.range(0, 1).is_none());
        let again = windows.window(&file, 9).unwrap();
        assert_eq!(again.range(0, 1).unwrap().as_ptr(), start);
        drop(file);
        windows.sweep();
        assert!(windows.kept.borrow().is_empty());
    }

    #[test]
    fn a_window_goes_when_it_was_not_used_between_two_trims() {
        let windows = FileWindows::default();
        let (used, unused) = (plain(), plain());
        let first = windows.window(&used, 0).unwrap();
        windows.window(&unused, 0).unwrap();
        windows.trim_unused();
        assert_eq!(windows.kept.borrow().len(), 2, "both were used before it");
        windows.window(&used, 0).unwrap();
        windows.trim_unused();
        let kept = windows.window(&used, 0).unwrap();
        assert!(Rc::ptr_eq(&first, &kept));
        assert_eq!(windows.kept.borrow().len(), 1);
        windows.clear();
        assert!(windows.kept.borrow().is_empty());
        // One that bytes still leave from lives as long as they do.
        assert!(first.range(0, 1).is_some());
    }

    #[test]
    fn windows_are_few_and_not_every_file_has_one() {
        let windows = FileWindows::default();
        let files: Vec<FileRef> = (0..WINDOWS_MAX + 5).map(|_| plain()).collect();
        for file in &files {
            assert!(windows.window(file, 0).is_some());
        }
        assert_eq!(windows.kept.borrow().len(), WINDOWS_MAX);
        for closed in [None, File::open("/").ok()] {
            let file: FileRef = Arc::new(Plain(closed));
            assert!(windows.window(&file, 0).is_none());
            assert!(windows.window(&file, 0).is_none());
        }
    }
}
