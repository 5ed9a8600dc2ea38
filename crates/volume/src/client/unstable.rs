//! The groups that may have bytes of a file which are not durable: a COMMIT asks these alone. With all groups of the
//! layout, a COMMIT of one small file would cost a message for each, and fail while any of them is away.

use crate::limits::UNSTABLE_FILES_MAX;
use gannet_wire::volume::FileId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

/// The groups with unstable bytes, by file, of all clients that share this.
#[derive(Default)]
pub(super) struct UnstableObjects(Mutex<Noted>);

#[derive(Default)]
struct Noted {
    /// For each group the number of the last note about it.
    files: BTreeMap<FileId, BTreeMap<u32, u64>>,
    last: u64,
    /// A note had no room: from then on nothing is known of any file.
    has_overflowed: bool,
}

/// The groups that a COMMIT asks, and the notes that it covers.
pub(super) struct ToCommit {
    pub(super) groups: BTreeSet<u32>,
    asked: u64,
}

impl UnstableObjects {
    /// An unstable write of a file in these groups begins, or was answered. Both are noted: a COMMIT that is sent in
    /// between does not cover the write.
    pub(super) fn note(&self, file: FileId, groups: impl Iterator<Item = u32>) {
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if noted.files.len() >= UNSTABLE_FILES_MAX && !noted.files.contains_key(&file) {
            noted.has_overflowed = true;
        }
        if noted.has_overflowed {
            noted.files.clear();
            return;
        }
        noted.last += 1;
        let number = noted.last;
        let of_file = noted.files.entry(file).or_default();
        of_file.extend(groups.map(|group| (group, number)));
    }

    /// The groups that a COMMIT must ask which is sent now; `None`: all of the file's.
    pub(super) fn to_commit(&self, file: FileId) -> Option<ToCommit> {
        let noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of_file = noted.files.get(&file);
        let groups = of_file.into_iter().flat_map(|it| it.keys().copied());
        let known = ToCommit {
            groups: groups.collect(),
            asked: noted.last,
        };
        (!noted.has_overflowed).then_some(known)
    }

    /// A COMMIT of a file has succeeded in all groups that it asked.
    pub(super) fn committed(&self, file: FileId, done: &ToCommit) {
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(of_file) = noted.files.get_mut(&file) else {
            return;
        };
        of_file.retain(|_, number| *number > done.asked);
        if of_file.is_empty() {
            noted.files.remove(&file);
        }
    }

    /// A file is gone, with all its bytes. A refused capability is no sign of that: it may be of an earlier term.
    pub(super) fn forget(&self, file: FileId) {
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        noted.files.remove(&file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: FileId = FileId(7);

    #[test]
    fn a_commit_asks_the_groups_that_were_written_to() {
        let objects = UnstableObjects::default();
        assert!(objects.to_commit(FILE).unwrap().groups.is_empty());
        objects.note(FILE, [2].into_iter());
        objects.note(FILE, [0].into_iter());
        let first = objects.to_commit(FILE).unwrap();
        assert_eq!(first.groups, [0, 2].into());
        // This write was under way when the COMMIT was sent.
        objects.note(FILE, [2].into_iter());
        objects.committed(FILE, &first);
        let second = objects.to_commit(FILE).unwrap();
        assert_eq!(second.groups, [2].into());
        objects.committed(FILE, &second);
        assert!(objects.to_commit(FILE).unwrap().groups.is_empty());
    }

    #[test]
    fn without_room_for_a_note_all_groups_are_asked() {
        let objects = UnstableObjects::default();
        (0..=UNSTABLE_FILES_MAX as u64).for_each(|it| objects.note(FileId(it), [0].into_iter()));
        assert!(objects.to_commit(FILE).is_none());
    }
}
