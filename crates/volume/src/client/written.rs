//! Which files are being written, and which hold data that are not known to be durable.

use crate::limits::{CAPABILITIES_MAX, GRANT_AGE};
use gannet_runtime::Instant;
use gannet_wire::volume::FileId;
use std::collections::{BTreeMap, BTreeSet};

/// See the module.
#[derive(Default)]
pub(super) struct Written {
    files: BTreeMap<FileId, Writes>,
    /// Unstable writes that have ended, of all files.
    unstable: u64,
}

#[derive(Default)]
struct Writes {
    under_way: u32,
    /// The number of the last that was unstable, until it is durable.
    unstable: Option<u64>,
    /// Until when a write may yet be stored that was not answered.
    doubtful: Option<Instant>,
    /// When all became durable that had been written.
    durable: Option<Instant>,
}

/// How many unstable writes had ended when a COMMIT was asked for.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Asked(u64);

impl Written {
    /// A write begins. Gives files of which it is no longer known what was written: no grant for them may go back.
    pub(super) fn begins(&mut self, file: FileId) -> BTreeSet<FileId> {
        let mut forgotten = BTreeSet::new();
        if self.files.len() >= CAPABILITIES_MAX {
            self.files.retain(|file, writes| {
                let is_idle = writes.under_way == 0;
                if is_idle {
                    forgotten.insert(*file);
                }
                !is_idle
            });
        }
        let writes = self.files.entry(file).or_default();
        writes.under_way += 1;
        writes.durable = None;
        forgotten
    }

    /// A write has been answered, or nobody waits any more.
    pub(super) fn ends(&mut self, file: FileId, is_answered: bool, now: Instant) {
        if let Some(writes) = self.files.get_mut(&file) {
            writes.under_way -= 1;
            if !is_answered {
                (writes.doubtful, writes.durable) = (Some(now + GRANT_AGE), None);
            }
            let is_known = writes.durable.is_some() || writes.unstable.is_some();
            if writes.under_way == 0 && !is_known && writes.doubtful.is_none() {
                self.files.remove(&file);
            }
        }
    }

    /// A write was answered that is durable only once somebody asks for that.
    pub(super) fn note_unstable(&mut self, file: FileId) {
        self.unstable += 1;
        let writes = self.files.entry(file).or_default();
        (writes.unstable, writes.durable) = (Some(self.unstable), None);
    }

    /// Which writes a COMMIT makes durable that is asked for now.
    pub(super) fn asked(&self) -> Asked {
        Asked(self.unstable)
    }

    /// The writes to a file that were answered before `asked` are durable at `now`. True if that is all of them.
    pub(super) fn note_durable(&mut self, file: FileId, asked: Asked, now: Instant) -> bool {
        let writes = self.files.entry(file).or_default();
        let is_newer = writes.unstable.is_some_and(|last| last > asked.0);
        if is_newer || writes.doubtful.is_some_and(|until| now < until) {
            return false;
        }
        *writes = Writes {
            under_way: writes.under_way,
            durable: Some(now),
            ..Writes::default()
        };
        true
    }

    /// Takes out the files that have been durable since `since` and are not being written, and tells whether others
    /// will come to that by themselves.
    pub(super) fn take_idle(&mut self, since: Instant) -> (Vec<FileId>, bool) {
        let (mut idle, mut rest) = (Vec::new(), false);
        self.files.retain(|file, writes| {
            let durable = writes.durable.filter(|_| writes.under_way == 0);
            let goes = durable.is_some_and(|durable| durable <= since);
            if goes {
                idle.push(*file);
            }
            rest |= durable.is_some() && !goes;
            !goes
        });
        (idle, rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: FileId = FileId(7);

    fn write_unstable(written: &mut Written) {
        written.begins(FILE);
        written.note_unstable(FILE);
        written.ends(FILE, true, Instant::default());
    }

    #[test]
    fn a_durable_write_says_nothing_of_those_before_it() {
        let (mut written, now) = (Written::default(), Instant::default());
        write_unstable(&mut written);
        written.begins(FILE);
        assert!(!written.note_durable(FILE, Asked::default(), now));
        written.ends(FILE, true, Instant::default());
        assert_eq!(written.take_idle(now), (vec![], false));
        let asked = written.asked();
        assert!(written.note_durable(FILE, asked, now));
        assert_eq!(written.take_idle(now), (vec![FILE], false));
    }

    #[test]
    fn a_commit_says_nothing_of_what_was_written_after_it_was_asked_for() {
        let (mut written, now) = (Written::default(), Instant::default());
        write_unstable(&mut written);
        let asked = written.asked();
        write_unstable(&mut written);
        assert!(!written.note_durable(FILE, asked, now));
        assert_eq!(written.take_idle(now), (vec![], false));
    }

    #[test]
    fn what_was_not_answered_may_come_late() {
        let (mut written, now) = (Written::default(), Instant::default());
        written.begins(FILE);
        written.begins(FILE);
        written.ends(FILE, false, now);
        assert!(!written.note_durable(FILE, written.asked(), now));
        written.ends(FILE, true, now);
        let later = now + GRANT_AGE;
        assert_eq!(written.take_idle(later), (vec![], false));
        assert!(written.note_durable(FILE, written.asked(), later));
    }

    #[test]
    fn what_is_being_written_is_not_idle() {
        let (mut written, now) = (Written::default(), Instant::default());
        written.begins(FILE);
        assert!(written.note_durable(FILE, Asked::default(), now));
        written.begins(FILE);
        written.ends(FILE, true, Instant::default());
        assert_eq!(written.take_idle(now), (vec![], false));
        assert!(written.note_durable(FILE, Asked::default(), now));
        written.ends(FILE, true, Instant::default());
        assert_eq!(written.take_idle(now), (vec![FILE], false));
        assert!(written.files.is_empty());
    }
}
