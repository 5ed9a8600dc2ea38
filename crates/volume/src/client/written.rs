//! Which files are being written, and which hold data that are not known to be durable.

use crate::limits::CAPABILITIES_MAX;
use crate::meta::FileId;
use gannet_runtime::Instant;
use std::collections::BTreeMap;

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
    /// When all became durable that had been written.
    durable: Option<Instant>,
}

/// How many unstable writes had ended when a COMMIT was asked for.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Asked(u64);

impl Written {
    /// A write begins.
    pub(super) fn begins(&mut self, file: FileId) {
        if self.files.len() >= CAPABILITIES_MAX {
            // Of files that nobody makes durable.
            (self.files).retain(|_, writes| writes.under_way > 0 || writes.durable.is_some());
        }
        let writes = self.files.entry(file).or_default();
        writes.under_way += 1;
        writes.durable = None;
    }

    /// A write has done what it could.
    pub(super) fn ends(&mut self, file: FileId) {
        if let Some(writes) = self.files.get_mut(&file) {
            writes.under_way -= 1;
            let is_known = writes.durable.is_some() || writes.unstable.is_some();
            if writes.under_way == 0 && !is_known {
                self.files.remove(&file);
            }
        }
    }

    /// A write was answered that is durable only once somebody asks for that.
    pub(super) fn is_unstable(&mut self, file: FileId) {
        self.unstable += 1;
        let writes = self.files.entry(file).or_default();
        (writes.unstable, writes.durable) = (Some(self.unstable), None);
    }

    /// Which writes a COMMIT makes durable that is asked for now.
    pub(super) fn asked(&self) -> Asked {
        Asked(self.unstable)
    }

    /// The writes to a file that were answered before `asked` are durable at `now`. True if that is all of them.
    pub(super) fn is_durable(&mut self, file: FileId, asked: Asked, now: Instant) -> bool {
        let writes = self.files.entry(file).or_default();
        if writes.unstable.is_some_and(|last| last > asked.0) {
            return false;
        }
        (writes.unstable, writes.durable) = (None, Some(now));
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
        written.is_unstable(FILE);
        written.ends(FILE);
    }

    #[test]
    fn a_durable_write_says_nothing_of_those_before_it() {
        let (mut written, now) = (Written::default(), Instant::default());
        write_unstable(&mut written);
        written.begins(FILE);
        assert!(!written.is_durable(FILE, Asked::default(), now));
        written.ends(FILE);
        assert_eq!(written.take_idle(now), (vec![], false));
        let asked = written.asked();
        assert!(written.is_durable(FILE, asked, now));
        assert_eq!(written.take_idle(now), (vec![FILE], false));
    }

    #[test]
    fn a_commit_says_nothing_of_what_was_written_after_it_was_asked_for() {
        let (mut written, now) = (Written::default(), Instant::default());
        write_unstable(&mut written);
        let asked = written.asked();
        write_unstable(&mut written);
        assert!(!written.is_durable(FILE, asked, now));
        assert_eq!(written.take_idle(now), (vec![], false));
    }

    #[test]
    fn what_is_being_written_is_not_idle() {
        let (mut written, now) = (Written::default(), Instant::default());
        written.begins(FILE);
        assert!(written.is_durable(FILE, Asked::default(), now));
        written.begins(FILE);
        written.ends(FILE);
        assert_eq!(written.take_idle(now), (vec![], false));
        assert!(written.is_durable(FILE, Asked::default(), now));
        written.ends(FILE);
        assert_eq!(written.take_idle(now), (vec![FILE], false));
        assert!(written.files.is_empty());
    }
}
