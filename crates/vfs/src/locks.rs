//! Locks of byte ranges, as flock(2) and fcntl(2) ask for them.

/// Which others a lock keeps out.
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
    /// Whose it is, among those that lock through one front end. An owner is never in its own way.
    pub owner: u64,
    /// Which others it keeps out.
    pub kind: LockKind,
    /// The first byte.
    pub start: u64,
    /// The last byte; [`u64::MAX`] is the end of the file, however long it becomes.
    pub end: u64,
    /// The process, for others to be told.
    pub process: u32,
}

/// What is to be done with a [`ByteLock`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockRequest {
    /// Hold it, if nothing is in the way.
    Try,
    /// The same; if something is in the way, wait about a second for it to go.
    Wait,
    /// Let go of these bytes.
    Unlock,
    /// Tell of what is in the way, and change nothing.
    Test,
}

/// What came of a [`LockRequest`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Locked {
    /// It was done; a test found nothing in the way.
    Done,
    /// This lock is in the way.
    Denied(ByteLock),
    /// There are too many locks already.
    TooMany,
}
