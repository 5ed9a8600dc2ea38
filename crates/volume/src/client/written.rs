//! Files that are being written, and whether their data are known to be durable: grants go back only when they are.

use crate::limits::{CAPABILITIES_MAX, GRANT_AGE};
use gannet_runtime::Instant;
use gannet_wire::volume::FileId;
use std::collections::{BTreeMap, BTreeSet};

/// The files that this client writes.
#[derive(Default)]
pub(super) struct Written {
    files: BTreeMap<FileId, Writes>,
    /// Unstable writes that have ended, of all files: the number of the last one.
    unstable: u64,
}

/// The writes of one file.
#[derive(Default)]
struct Writes {
    under_way: u32,
    data: DataState,
}

/// How durable the data are that this client has written to a file.
///
/// | state | a write begins | an unstable write is answered | a write is abandoned | a COMMIT covers all of it |
/// |---|---|---|---|---|
/// | `Unknown` | `Unknown` | `Unstable` | `Uncertain` | `Durable` |
/// | `Unstable` | `Unstable` | `Unstable`, a later one | `Uncertain` | `Durable` |
/// | `Uncertain` | `Uncertain` | `Uncertain` | `Uncertain`, until later | `Durable`, once `until` is over |
/// | `Durable` | `Unknown` | `Unstable` | `Uncertain` | `Durable`, since now |
///
/// A COMMIT covers the unstable writes that were answered before it was sent. A stable write covers none of them: it
/// makes its own bytes durable. In `Durable`, and with no write under way, the file's grants go back after a pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum DataState {
    /// No write of the file has ended since it was durable, or since it was first written.
    #[default]
    Unknown,
    /// An unstable write was answered; `last` is the number of the last one.
    Unstable { last: u64 },
    /// A write was abandoned. A server may store it until `until`; before that, no COMMIT covers it for certain.
    Uncertain { until: Instant, last: Option<u64> },
    /// All data that were written are durable since then.
    Durable { since: Instant },
}

impl DataState {
    fn begin_write(self) -> DataState {
        match self {
            DataState::Durable { .. } => DataState::Unknown,
            other => other,
        }
    }

    fn note_unstable(self, number: u64) -> DataState {
        match self {
            DataState::Uncertain { until, .. } => DataState::Uncertain {
                until,
                last: Some(number),
            },
            _ => DataState::Unstable { last: number },
        }
    }

    fn abandon_write(self, until: Instant) -> DataState {
        let last = match self {
            DataState::Unstable { last } => Some(last),
            DataState::Uncertain { last, .. } => last,
            DataState::Unknown | DataState::Durable { .. } => None,
        };
        DataState::Uncertain { until, last }
    }

    /// After a COMMIT that covers the writes up to `asked`, or a stable write; `now` is the time of its answer.
    fn commit(self, asked: Asked, now: Instant) -> DataState {
        let is_covered = match self {
            DataState::Unknown | DataState::Durable { .. } => true,
            DataState::Unstable { last } => last <= asked.0,
            DataState::Uncertain { until, last } => {
                until <= now && last.is_none_or(|last| last <= asked.0)
            }
        };
        if is_covered {
            DataState::Durable { since: now }
        } else {
            self
        }
    }
}

/// How many unstable writes had ended when a COMMIT was sent.
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
        writes.data = writes.data.begin_write();
        forgotten
    }

    /// A write has been answered, or was abandoned.
    pub(super) fn ends(&mut self, file: FileId, outcome: WriteOutcome, now: Instant) {
        if let Some(writes) = self.files.get_mut(&file) {
            writes.under_way -= 1;
            if outcome == WriteOutcome::Abandoned {
                writes.data = writes.data.abandon_write(now + GRANT_AGE);
            }
            if writes.under_way == 0 && writes.data == DataState::Unknown {
                self.files.remove(&file);
            }
        }
    }

    /// An unstable write was answered: it is durable only after a COMMIT.
    pub(super) fn note_unstable(&mut self, file: FileId) {
        self.unstable += 1;
        let writes = self.files.entry(file).or_default();
        writes.data = writes.data.note_unstable(self.unstable);
    }

    /// Whether a write of a file was abandoned, and no COMMIT covers it yet.
    pub(super) fn is_uncertain(&self, file: FileId) -> bool {
        let writes = self.files.get(&file);
        writes.is_some_and(|it| matches!(it.data, DataState::Uncertain { .. }))
    }

    /// The writes that a COMMIT makes durable which is sent now.
    pub(super) fn asked(&self) -> Asked {
        Asked(self.unstable)
    }

    /// The writes to a file that were answered before `asked` are durable at `now`. True if those are all of them.
    pub(super) fn note_durable(&mut self, file: FileId, asked: Asked, now: Instant) -> bool {
        let writes = self.files.entry(file).or_default();
        writes.data = writes.data.commit(asked, now);
        matches!(writes.data, DataState::Durable { .. })
    }

    /// Takes out the files that have been durable since `since` and are not being written.
    pub(super) fn take_idle(&mut self, since: Instant) -> IdleFiles {
        let (mut files, mut has_more) = (Vec::new(), false);
        self.files.retain(|file, writes| match writes.data {
            DataState::Durable { since: durable } if writes.under_way == 0 => {
                let goes = durable <= since;
                if goes {
                    files.push(*file);
                }
                has_more |= !goes;
                !goes
            }
            _ => true,
        });
        IdleFiles { files, has_more }
    }
}

/// Files without writes whose bytes are durable.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct IdleFiles {
    pub(super) files: Vec<FileId>,
    /// Whether others are durable and will be taken later.
    pub(super) has_more: bool,
}

/// The end of a write, as its caller sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WriteOutcome {
    /// All servers have answered within the lease.
    Answered,
    /// A server has not answered, or the caller no longer waits: the write may be stored later.
    Abandoned,
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: FileId = FileId(7);

    fn write_unstable(written: &mut Written) {
        written.begins(FILE);
        written.note_unstable(FILE);
        written.ends(FILE, WriteOutcome::Answered, Instant::default());
    }

    fn idle(files: &[FileId]) -> IdleFiles {
        IdleFiles {
            files: files.to_vec(),
            has_more: false,
        }
    }

    #[test]
    fn a_durable_write_says_nothing_of_those_before_it() {
        let (mut written, now) = (Written::default(), Instant::default());
        write_unstable(&mut written);
        written.begins(FILE);
        assert!(!written.note_durable(FILE, Asked::default(), now));
        written.ends(FILE, WriteOutcome::Answered, Instant::default());
        assert_eq!(written.take_idle(now), idle(&[]));
        let asked = written.asked();
        assert!(written.note_durable(FILE, asked, now));
        assert_eq!(written.take_idle(now), idle(&[FILE]));
    }

    #[test]
    fn a_commit_says_nothing_of_what_was_written_after_it_was_asked_for() {
        let (mut written, now) = (Written::default(), Instant::default());
        write_unstable(&mut written);
        let asked = written.asked();
        write_unstable(&mut written);
        assert!(!written.note_durable(FILE, asked, now));
        assert_eq!(written.take_idle(now), idle(&[]));
    }

    #[test]
    fn an_abandoned_write_may_be_stored_late() {
        let (mut written, now) = (Written::default(), Instant::default());
        written.begins(FILE);
        written.begins(FILE);
        written.ends(FILE, WriteOutcome::Abandoned, now);
        assert!(!written.note_durable(FILE, written.asked(), now));
        written.ends(FILE, WriteOutcome::Answered, now);
        let later = now + GRANT_AGE;
        assert_eq!(written.take_idle(later), idle(&[]));
        assert!(written.note_durable(FILE, written.asked(), later));
    }

    #[test]
    fn a_file_that_is_being_written_is_not_idle() {
        let (mut written, now) = (Written::default(), Instant::default());
        written.begins(FILE);
        assert!(written.note_durable(FILE, Asked::default(), now));
        written.begins(FILE);
        written.ends(FILE, WriteOutcome::Answered, Instant::default());
        assert_eq!(written.take_idle(now), idle(&[]));
        assert!(written.note_durable(FILE, Asked::default(), now));
        written.ends(FILE, WriteOutcome::Answered, Instant::default());
        assert_eq!(written.take_idle(now), idle(&[FILE]));
        assert!(written.files.is_empty());
    }
}
