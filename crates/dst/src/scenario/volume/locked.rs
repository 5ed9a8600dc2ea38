//! The file locks that workers hold, under all faults.
//!
//! A granted lock belongs to its client for one lease at least, which the client counts from before its request: no
//! other client may be granted the lock within that time. A worker keeps its locks when it goes on to other files, and
//! the next worker on the file tries for the same bytes.

use crate::scenario::nanoseconds;
use gannet_vfs::FileHandle;
use gannet_volume::limits::LOCK_LEASE;
use std::cell::RefCell;

/// The granted locks, as far as their holders have received the replies.
#[derive(Default)]
pub(super) struct LocksHeld {
    held: RefCell<Vec<Held>>,
}

struct Held {
    file: FileHandle,
    holder: u64,
    until_ns: u64,
}

/// The grant of a lock of a whole file, as its holder receives it.
pub(super) struct ReceivedGrant {
    pub(super) file: FileHandle,
    /// The client that requested the lock: a number of its own for each incarnation.
    pub(super) holder: u64,
    /// The time of the request, from which the client counts its lease.
    pub(super) requested_ns: u64,
    /// The time of the reply.
    pub(super) received_ns: u64,
}

impl LocksHeld {
    /// Records that a client now receives the grant of a lock.
    ///
    /// # Errors
    /// Another holder has the lock: two were granted it at a time.
    pub(super) fn granted(&self, grant: &ReceivedGrant) -> Result<(), String> {
        let ReceivedGrant {
            file,
            holder,
            requested_ns,
            received_ns,
        } = *grant;
        let mut held = self.held.borrow_mut();
        held.retain(|it| it.until_ns > received_ns);
        let of_other = held
            .iter()
            .find(|it| it.file == file && it.holder != holder);
        if let Some(Held {
            holder: other,
            until_ns,
            ..
        }) = of_other
        {
            return Err(format!(
                "client {holder} is granted a lock at {received_ns} ns that client {other} has until {until_ns} ns"
            ));
        }
        held.retain(|it| it.file != file);
        held.push(Held {
            file,
            holder,
            until_ns: requested_ns.saturating_add(nanoseconds(LOCK_LEASE)),
        });
        Ok(())
    }

    /// Records that `holder` is about to unlock `file`.
    pub(super) fn releasing(&self, file: &FileHandle, holder: u64) {
        let mut held = self.held.borrow_mut();
        held.retain(|it| it.file != *file || it.holder != holder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_two_clients_have_at_a_time_is_found() {
        let file = |byte| FileHandle::new(&[byte; 16]).unwrap();
        let (locks, lease) = (LocksHeld::default(), nanoseconds(LOCK_LEASE));
        let granted = |number, holder, requested_ns, received_ns| {
            locks.granted(&ReceivedGrant {
                file: file(number),
                holder,
                requested_ns,
                received_ns,
            })
        };
        assert_eq!(granted(1, 1, 10, 20), Ok(()));
        assert_eq!(granted(2, 2, 10, 20), Ok(()));
        assert!(granted(1, 2, 20, 10 + lease - 1).is_err());
        assert_eq!(granted(1, 2, 20, 10 + lease), Ok(()));
        // Its holder renews it, and then unlocks.
        assert_eq!(granted(1, 2, lease, lease + 1), Ok(()));
        assert!(granted(1, 1, 2 * lease - 1, 2 * lease - 1).is_err());
        locks.releasing(&file(1), 1);
        assert!(granted(1, 1, lease + 2, lease + 3).is_err());
        locks.releasing(&file(1), 2);
        assert_eq!(granted(1, 1, lease + 4, lease + 5), Ok(()));
    }
}
