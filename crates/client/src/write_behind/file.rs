//! Unstable writes of a file, kept until a COMMIT confirms them: a server that restarts may have lost them.

use super::runs::Runs;
use gannet_runtime::Buffer;
use gannet_vfs::{Credentials, FileHandle, Verifier};
use std::cell::{Cell, RefCell};
use tokio::sync::{Mutex, Notify, RwLock};

/// The unconfirmed writes of one file.
pub struct FileWrites {
    handle: FileHandle,
    /// The number by which the front end knows the file.
    number: Cell<u64>,
    /// Counts the files of a table, in the order in which they came.
    age: u64,
    /// Writes that the store has not answered.
    pub(super) runs: RefCell<Runs>,
    /// Wakes those who wait for answers to them, also when there is none.
    pub(super) answered: Notify,
    /// How often the store gave up a write, since it waited for a silent server no longer.
    pub(super) given_up: Cell<u64>,
    /// It did so last, and has answered nothing since.
    pub(super) is_silent: Cell<bool>,
    /// Held by one append at a time, where the mount chooses the offset.
    pub(super) appending: Mutex<()>,
    /// Writers hold it shared and a commit that may resend holds it alone: a resend beside a newer overlapping write
    /// would overwrite that. It is taken before `committing`.
    pub(super) turn: RwLock<()>,
    /// A lock held during each COMMIT: one that was sent before a resend must not confirm it.
    pub(super) committing: Mutex<()>,
    /// The kept writes in the order in which they were done, with numbers that grow.
    kept: RefCell<Vec<(u64, KeptWrite)>>,
    kept_ever: Cell<u64>,
    /// A task commits it since all files keep too much.
    pub(super) is_relieved: Cell<bool>,
    /// A task commits it since no program has it open.
    pub(super) is_left: Cell<bool>,
    bytes: Cell<u64>,
}

/// A write that no COMMIT has confirmed.
pub(super) struct KeptWrite {
    /// The place of its first byte in the file.
    pub(super) offset: u64,
    /// Memory that begins with its bytes.
    pub(super) buffer: Buffer,
    /// The number of its bytes.
    pub(super) len: usize,
    /// The writer, whose rights the WRITE had.
    pub(super) caller: Credentials,
    /// The verifier of the server's incarnation that took it. `None` if two incarnations have parts of it, or if a
    /// COMMIT failed: no COMMIT then confirms it until it is resent.
    pub(super) verifier: Option<Verifier>,
}

impl KeptWrite {
    fn covers(&self, other: &KeptWrite) -> bool {
        let end = |kept: &KeptWrite| kept.offset.saturating_add(kept.len as u64);
        self.offset <= other.offset && end(self) >= end(other)
    }

    /// The bytes to resend; the buffer may be longer.
    pub(super) fn data(&self) -> &[u8] {
        self.buffer.get(..self.len).unwrap_or(&self.buffer)
    }
}

impl FileWrites {
    pub(super) fn new(handle: FileHandle, age: u64) -> FileWrites {
        FileWrites {
            handle,
            number: Cell::new(0),
            age,
            runs: RefCell::default(),
            answered: Notify::new(),
            given_up: Cell::new(0),
            is_silent: Cell::new(false),
            appending: Mutex::new(()),
            turn: RwLock::new(()),
            committing: Mutex::new(()),
            kept: RefCell::default(),
            kept_ever: Cell::new(0),
            is_relieved: Cell::new(false),
            is_left: Cell::new(false),
            bytes: Cell::new(0),
        }
    }

    /// The store's handle of the file.
    pub fn handle(&self) -> &FileHandle {
        &self.handle
    }

    /// The number by which the front end knows the file; 0 until [`FileWrites::set_number`].
    pub fn number(&self) -> u64 {
        self.number.get()
    }

    /// Sets the number by which the front end knows the file.
    pub fn set_number(&self, number: u64) {
        self.number.set(number);
    }

    pub(super) fn age(&self) -> u64 {
        self.age
    }

    /// The writer of the newest kept write.
    pub(super) fn writer(&self) -> Option<Credentials> {
        let kept = self.kept.borrow();
        kept.last().map(|(_, write)| write.caller.clone())
    }

    /// Where the last of the bytes ends that the store has not answered: the file is at least that long for programs
    /// of this machine. 0 without such bytes.
    pub fn end(&self) -> u64 {
        self.runs.borrow().end()
    }

    /// True when the store has answered all writes.
    pub fn is_answered(&self) -> bool {
        self.runs.borrow().is_empty()
    }

    /// True if nothing would be lost with it.
    pub fn is_idle(&self) -> bool {
        self.is_empty() && self.is_answered()
    }

    /// Bytes that are kept.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.get()
    }

    /// True if no write waits for a COMMIT.
    pub(super) fn is_empty(&self) -> bool {
        self.kept.borrow().is_empty()
    }

    /// Keeps a finished write, in place of the ones that it covers. The order of the list is that of the replies, and a
    /// resend repeats it, so that the newest bytes win again.
    pub(super) fn keep(&self, write: KeptWrite) {
        let mut kept = self.kept.borrow_mut();
        kept.retain(|(_, older)| !write.covers(older));
        kept.push((self.kept_ever.get(), write));
        self.kept_ever.set(self.kept_ever.get() + 1);
        self.count(&kept);
    }

    /// How many writes were ever kept. Read before a COMMIT is sent, it bounds the writes that this COMMIT covers.
    pub(super) fn kept_ever(&self) -> u64 {
        self.kept_ever.get()
    }

    /// Handles the reply, with `verifier`, to a COMMIT that was sent after `asked` writes had been kept. It drops the
    /// confirmed writes, and gives the number of those to resend.
    ///
    /// From the first write with another verifier on, all are resent in order, even those with this one: they may
    /// overlap a lost write. Their verifiers are erased at once, so that a resend which is cut short confirms none of
    /// them.
    pub(super) fn confirm(&self, asked: u64, verifier: Verifier) -> usize {
        let mut kept = self.kept.borrow_mut();
        let older = kept.partition_point(|(number, _)| *number < asked);
        let confirmed = (kept.iter().take(older))
            .position(|(_, write)| write.verifier != Some(verifier))
            .unwrap_or(older);
        kept.drain(..confirmed);
        let lost = kept.iter_mut().take(older - confirmed);
        lost.for_each(|(_, write)| write.verifier = None);
        self.count(&kept);
        older - confirmed
    }

    /// Erases the verifiers of the first `asked` writes after their COMMIT failed: each is resent before a COMMIT may
    /// confirm it.
    pub(super) fn commit_failed(&self, asked: u64) {
        let mut kept = self.kept.borrow_mut();
        let older = kept.iter_mut().filter(|(number, _)| *number < asked);
        older.for_each(|(_, write)| write.verifier = None);
    }

    /// Runs `look` on the kept write at `index`, counted from the oldest; `None` behind the last. The borrow ends with
    /// it.
    pub(super) fn with<T>(&self, index: usize, look: impl FnOnce(&KeptWrite) -> T) -> Option<T> {
        (self.kept.borrow().get(index)).map(|(_, write)| look(write))
    }

    /// Records that a kept write was resent, in the incarnation with this verifier.
    pub(super) fn rewritten(&self, index: usize, verifier: Option<Verifier>) {
        if let Some((_, write)) = self.kept.borrow_mut().get_mut(index) {
            write.verifier = verifier;
        }
    }

    /// Drops the kept writes of a caller.
    pub(super) fn drop_of(&self, caller: &Credentials) {
        let mut kept = self.kept.borrow_mut();
        kept.retain(|(_, write)| write.caller != *caller);
        self.count(&kept);
    }

    /// Drops all kept writes; gives their bytes.
    pub(super) fn clear(&self) -> u64 {
        self.kept.borrow_mut().clear();
        self.bytes.take()
    }

    fn count(&self, kept: &[(u64, KeptWrite)]) {
        let lengths = kept.iter().map(|(_, write)| write.len as u64);
        self.bytes.set(lengths.sum());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Verifier = [1; 8];
    const SECOND: Verifier = [2; 8];

    fn write(offset: u64, bytes: &[u8], verifier: Verifier) -> KeptWrite {
        KeptWrite {
            offset,
            buffer: Buffer::from_vec(bytes.to_vec()),
            len: bytes.len(),
            caller: Credentials::new(1, 1, &[]),
            verifier: Some(verifier),
        }
    }

    fn new_file() -> FileWrites {
        FileWrites::new(FileHandle::new(b"file").expect("it is short"), 0)
    }

    fn confirm(file: &FileWrites, verifier: Verifier) -> usize {
        file.confirm(file.kept_ever(), verifier)
    }

    fn offsets(file: &FileWrites) -> Vec<u64> {
        (0..)
            .map_while(|index| file.with(index, |write| write.offset))
            .collect()
    }

    #[test]
    fn a_commit_drops_the_writes_that_it_confirms() {
        let file = new_file();
        file.keep(write(0, b"abcd", FIRST));
        file.keep(write(4, b"efgh", FIRST));
        assert_eq!(file.bytes(), 8);
        assert_eq!(confirm(&file, FIRST), 0);
        assert!(file.is_empty() && file.bytes() == 0);
    }

    #[test]
    fn everything_from_the_first_lost_write_on_is_done_again_in_order() {
        let file = new_file();
        file.keep(write(0, b"abcd", SECOND));
        file.keep(write(8, b"lost", FIRST));
        // It overlaps the lost write: a resend of that alone would undo it.
        file.keep(write(10, b"newer", SECOND));
        assert_eq!(confirm(&file, SECOND), 2);
        assert_eq!(offsets(&file), [8, 10]);
        file.rewritten(0, Some(SECOND));
        file.rewritten(1, Some(SECOND));
        assert_eq!(confirm(&file, SECOND), 0);
    }

    #[test]
    fn a_write_over_a_lost_one_is_not_confirmed_until_it_is_resent_too() {
        let file = new_file();
        file.keep(write(0, b"lost", FIRST));
        file.keep(write(2, b"newer", SECOND));
        assert_eq!(confirm(&file, SECOND), 2);
        // The deadline ends the resends after the first write, which now lies over the second.
        file.rewritten(0, Some(SECOND));
        assert_eq!(confirm(&file, SECOND), 1);
        assert_eq!(offsets(&file), [2]);
    }

    #[test]
    fn writes_of_a_failed_commit_are_resent() {
        let file = new_file();
        file.keep(write(0, b"abcd", FIRST));
        file.commit_failed(file.kept_ever());
        file.keep(write(4, b"efgh", FIRST));
        assert_eq!(confirm(&file, FIRST), 2);
    }

    #[test]
    fn a_commit_confirms_nothing_that_was_written_after_it_was_asked_for() {
        let file = new_file();
        file.keep(write(0, b"abcd", FIRST));
        let asked = file.kept_ever();
        file.keep(write(4, b"efgh", FIRST));
        assert_eq!(file.confirm(asked, FIRST), 0);
        assert_eq!(offsets(&file), [4]);
        // It replaces a kept write, but is newer than the COMMIT.
        let asked = file.kept_ever();
        file.keep(write(4, b"EFGH", FIRST));
        assert_eq!(file.confirm(asked, FIRST), 0);
        assert_eq!(offsets(&file), [4]);
        let asked = file.kept_ever();
        file.keep(write(8, b"ijkl", SECOND));
        assert_eq!(file.confirm(asked, SECOND), 1);
        assert_eq!(offsets(&file), [4, 8]);
    }

    #[test]
    fn a_write_takes_the_place_of_those_it_covers() {
        let file = new_file();
        file.keep(write(4, b"old", FIRST));
        file.keep(write(2, b"old", FIRST));
        file.keep(write(4, b"newer", FIRST));
        assert_eq!(offsets(&file), [2, 4]);
        assert_eq!(file.bytes(), 8);
        assert_eq!(file.clear(), 8);
        assert!(file.is_empty());
    }
}
