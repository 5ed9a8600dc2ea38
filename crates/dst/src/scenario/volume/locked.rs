//! The file locks that workers hold, whatever goes wrong.
//!
//! A lock that was granted belongs to its client for one lease at the least, which the client counts from before it
//! asked: no other client may be told within that time that it has the lock. A worker keeps its locks when it goes on
//! to other files, and the next worker on the file tries for the same bytes.

use gannet_vfs::FileHandle;
use gannet_volume::limits::LOCK_LEASE;
use std::cell::RefCell;
use std::time::Duration;

/// What was granted, as far as those know who were told.
#[derive(Default)]
pub(super) struct LocksHeld {
    held: RefCell<Vec<Held>>,
}

struct Held {
    file: FileHandle,
    holder: u64,
    until_ns: u64,
}

impl LocksHeld {
    /// A lock of all of `file` was granted to `holder`, who asked at `asked_ns` and hears of it now.
    ///
    /// # Errors
    /// Somebody else has it.
    pub(super) fn granted(
        &self,
        file: &FileHandle,
        holder: u64,
        (asked_ns, now_ns): (u64, u64),
    ) -> Result<(), String> {
        let mut held = self.held.borrow_mut();
        held.retain(|it| it.until_ns > now_ns);
        let of_other = held
            .iter()
            .find(|it| it.file == *file && it.holder != holder);
        if let Some(Held {
            holder: other,
            until_ns,
            ..
        }) = of_other
        {
            return Err(format!(
                "client {holder} is told at {now_ns} ns that it has a lock that client {other} has until {until_ns} ns"
            ));
        }
        held.retain(|it| it.file != *file);
        held.push(Held {
            file: *file,
            holder,
            until_ns: asked_ns.saturating_add(nanoseconds(LOCK_LEASE)),
        });
        Ok(())
    }

    /// `holder` is about to let go of `file`.
    pub(super) fn releasing(&self, file: &FileHandle, holder: u64) {
        let mut held = self.held.borrow_mut();
        held.retain(|it| it.file != *file || it.holder != holder);
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_two_clients_have_at_a_time_is_found() {
        let file = |byte| FileHandle::new(&[byte; 16]).unwrap();
        let (locks, lease) = (LocksHeld::default(), nanoseconds(LOCK_LEASE));
        assert_eq!(locks.granted(&file(1), 1, (10, 20)), Ok(()));
        assert_eq!(locks.granted(&file(2), 2, (10, 20)), Ok(()));
        assert!(locks.granted(&file(1), 2, (20, 10 + lease - 1)).is_err());
        assert_eq!(locks.granted(&file(1), 2, (20, 10 + lease)), Ok(()));
        // Renewed by its holder, and then let go.
        assert_eq!(locks.granted(&file(1), 2, (lease, lease + 1)), Ok(()));
        assert!(
            locks
                .granted(&file(1), 1, (2 * lease - 1, 2 * lease - 1))
                .is_err()
        );
        locks.releasing(&file(1), 1);
        assert!(locks.granted(&file(1), 1, (lease + 2, lease + 3)).is_err());
        locks.releasing(&file(1), 2);
        assert_eq!(locks.granted(&file(1), 1, (lease + 4, lease + 5)), Ok(()));
    }
}
