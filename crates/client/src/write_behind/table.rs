//! The files with writes, which all their users share.

use super::FileWrites;
use gannet_vfs::FileHandle;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::{Rc, Weak};

/// Files that were dropped and still have an entry, beside as many that are in use.
const DROPPED_MAX: usize = 64;

/// The files with writes, by handle. One file has one [`FileWrites`]: with two, a resend from the older one could
/// overwrite writes of the newer. A clone is the same table.
#[derive(Clone, Default)]
pub struct FileTable(Rc<RefCell<Table>>);

#[derive(Default)]
struct Table {
    by_handle: HashMap<FileHandle, Weak<FileWrites>>,
    /// The number of entries from which on those of dropped files go.
    sweep_at: usize,
    ages: u64,
}

impl FileTable {
    /// The writes of a file, which last as long as the caller or another user keeps them.
    pub fn file(&self, handle: &FileHandle) -> Rc<FileWrites> {
        if let Some(known) = self.known(handle) {
            return known;
        }
        let mut table = self.0.borrow_mut();
        table.ages += 1;
        let file = Rc::new(FileWrites::new(*handle, table.ages));
        table.by_handle.insert(*handle, Rc::downgrade(&file));
        if table.by_handle.len() > table.sweep_at {
            table.by_handle.retain(|_, file| file.strong_count() > 0);
            table.sweep_at = 2 * table.by_handle.len() + DROPPED_MAX;
            let room = table.sweep_at;
            table.by_handle.shrink_to(room);
        }
        file
    }

    /// As [`FileTable::file`], for a file that has a user.
    pub fn known(&self, handle: &FileHandle) -> Option<Rc<FileWrites>> {
        self.0.borrow().by_handle.get(handle)?.upgrade()
    }

    /// All files that have a user.
    pub(super) fn all(&self) -> Vec<Rc<FileWrites>> {
        let table = self.0.borrow();
        let files = table.by_handle.values();
        files.filter_map(Weak::upgrade).collect()
    }

    /// The file with the most bytes that no COMMIT has confirmed, and that no task relieves of them; of several, the
    /// one that came last.
    pub(super) fn fullest(&self) -> Option<Rc<FileWrites>> {
        let kept =
            (self.all().into_iter()).filter(|file| file.bytes() > 0 && !file.is_relieved.get());
        kept.max_by_key(|file| (file.bytes(), file.age()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handle(number: u32) -> FileHandle {
        FileHandle::new(&number.to_be_bytes()).expect("it is short")
    }

    #[test]
    fn all_users_of_a_file_have_the_same_writes() {
        let table = FileTable::default();
        assert!(table.known(&handle(1)).is_none());
        let file = table.file(&handle(1));
        assert!(Rc::ptr_eq(&file, &table.clone().file(&handle(1))));
        assert!(!Rc::ptr_eq(&file, &table.file(&handle(2))));
        drop(file);
        assert!(table.known(&handle(1)).is_none());
    }

    #[test]
    fn entries_of_dropped_files_do_not_gather() {
        let table = FileTable::default();
        let kept: Vec<_> = (0..10).map(|number| table.file(&handle(number))).collect();
        for number in 100..10_000 {
            table.file(&handle(number));
        }
        assert!(table.0.borrow().by_handle.len() <= 2 * kept.len() + DROPPED_MAX + 2);
        assert!((0..10).all(|number| table.known(&handle(number)).is_some()));
    }
}
