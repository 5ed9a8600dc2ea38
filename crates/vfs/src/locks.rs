//! Locks of byte ranges, as flock(2) and fcntl(2) ask for them.

/// The kind of a lock, by the locks that it excludes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LockKind {
    /// Exclusive locks of the same bytes.
    Shared,
    /// All locks of the same bytes.
    Exclusive,
}

/// A lock of some bytes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteLock {
    /// Its owner, a number within one front end. Locks of one owner do not conflict.
    pub owner: u64,
    /// The locks that it excludes.
    pub kind: LockKind,
    /// The first byte.
    pub start: u64,
    /// The last byte; [`u64::MAX`] is the end of the file, however long it becomes.
    pub end: u64,
    /// The process id of the owner, which others get from a test (F_GETLK).
    pub process: u32,
}

/// The operation on a [`ByteLock`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockRequest {
    /// Lock, if no lock conflicts.
    Try,
    /// Lock, and wait about a second if a lock conflicts.
    Wait,
    /// Unlock these bytes.
    Unlock,
    /// Return a conflicting lock, and change nothing.
    Test,
}

/// The result of a [`LockRequest`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Locked {
    /// Done; a test found no conflicting lock.
    Done,
    /// This lock conflicts.
    Denied(ByteLock),
    /// There are too many locks already.
    TooMany,
}
