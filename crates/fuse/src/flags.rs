//! The flags of open(2) and the locks of fcntl(2), as the kernel's requests have them.

use crate::mounted::FileUse;
use fuser::{LockOwner, OpenAccMode, OpenFlags};
use gannet_vfs::{ByteLock, LockKind, Stability};
use std::ops::RangeInclusive;

/// The flags of open(2), as Linux numbers them on the machines that Gannet supports.
pub(crate) const O_EXCL: i32 = 0o200;
pub(crate) const O_TRUNC: i32 = 0o1000;
pub(crate) const O_APPEND: i32 = 0o2000;
pub(crate) const O_DSYNC: i32 = 0o10000;
/// A flag that the kernel adds for execve(2).
pub(crate) const FMODE_EXEC: i32 = 0o40;
/// The lock types of fcntl(2).
pub(crate) const F_RDLCK: i32 = 0;
pub(crate) const F_WRLCK: i32 = 1;
pub(crate) const F_UNLCK: i32 = 2;
/// The end of a lock that reaches to the end of the file, in the kernel's requests.
pub(crate) const LAST_OFFSET: u64 = i64::MAX as u64;
pub(crate) const O_SYNC: i32 = 0o4000000 | O_DSYNC;

/// The stability of a WRITE by the flags of its open file. The kernel sends no FSYNC after a write past its cache, so
/// an O_SYNC write must be durable by its own reply.
pub(crate) fn wanted_stability(flags: OpenFlags) -> Stability {
    match flags.0 & O_SYNC {
        O_SYNC => Stability::FileSync,
        O_DSYNC => Stability::DataSync,
        _ => Stability::Unstable,
    }
}

/// The use that a file is opened for.
pub(crate) fn file_use(flags: OpenFlags) -> FileUse {
    let mode = flags.acc_mode();
    FileUse {
        reads: mode != OpenAccMode::O_WRONLY,
        writes: mode != OpenAccMode::O_RDONLY,
        executes: flags.0 & FMODE_EXEC != 0,
    }
}

/// A lock as the kernel asks for it; `None` for an unknown type.
pub(crate) fn byte_lock(
    owner: LockOwner,
    range: RangeInclusive<u64>,
    kind: i32,
    process: u32,
) -> Option<ByteLock> {
    let kind = match kind {
        F_RDLCK => LockKind::Shared,
        // An unlock releases both kinds; the store ignores the kind.
        F_WRLCK | F_UNLCK => LockKind::Exclusive,
        _ => return None,
    };
    let end = *range.end();
    Some(ByteLock {
        owner: owner.0,
        kind,
        start: *range.start(),
        end: if end >= LAST_OFFSET { u64::MAX } else { end },
        process,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_as_durable_as_the_file_was_opened() {
        let wanted = |flags| wanted_stability(OpenFlags(flags));
        assert_eq!(wanted(1), Stability::Unstable);
        assert_eq!(wanted(1 | 0o10000), Stability::DataSync);
        assert_eq!(wanted(1 | 0o4010000), Stability::FileSync);
    }
}
