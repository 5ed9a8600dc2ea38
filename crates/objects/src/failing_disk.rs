//! The server's own disk fails. Where another member has everything too, that one is to serve instead of this one.

use super::Objects;
use super::groups::Standing;
use super::limits::{DISK_PAUSE, DISK_PAUSE_MAX, DISK_WELL_AFTER};
use super::store::ObjectStore;
use gannet_runtime::Instant;
use gannet_vfs::Status;
use std::cell::Cell;
use std::time::Duration;

/// The last failure of a disk.
#[derive(Default)]
pub(super) struct FailingDisk {
    last: Cell<Option<LastFailure>>,
    /// The store's verifier, when it was looked at last.
    verifier: Cell<Option<u64>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LastFailure {
    at: Instant,
    /// How long the disk counts as failing afterwards.
    pause: Duration,
}

impl LastFailure {
    /// A failure at `now`. One that comes back soon after the pause doubles that.
    fn after(before: Option<LastFailure>, now: Instant) -> LastFailure {
        let pause = match before {
            Some(LastFailure { at, pause }) if now < at + pause => pause,
            Some(LastFailure { at, pause }) if now < at + DISK_WELL_AFTER => {
                (pause * 2).min(DISK_PAUSE_MAX)
            }
            _ => DISK_PAUSE,
        };
        LastFailure { at: now, pause }
    }
}

impl<S: ObjectStore> Objects<S> {
    /// Whether the disk has failed a short while ago.
    pub fn has_failing_disk(&self) -> bool {
        let last = self.failing_disk.last.get();
        last.is_some_and(|it| self.runtime.now() < it.at + it.pause)
    }

    /// Looks whether the disk has lost bytes without a request that could say so.
    pub fn look_at_disk(&self) {
        let verifier = self.store.verifier();
        let before = self.failing_disk.verifier.replace(Some(verifier));
        if before.is_some_and(|before| before != verifier) {
            self.disk_fails();
        }
    }

    /// The disk fails: whatever it has may be lost. A later sync of the same bytes may pass.
    fn disk_fails(&self) {
        let last = &self.failing_disk.last;
        last.set(Some(LastFailure::after(last.get(), self.runtime.now())));
        self.intents.taint_all();
    }

    /// Notes that a request of a group failed, if the disk is the reason. Gives the status for the caller: where the
    /// other member has everything, a request that comes again finds that one.
    pub fn own_failure(&self, group: u32, status: Status) -> Status {
        if !matches!(status, Status::Io | Status::Rofs) {
            return status;
        }
        self.disk_fails();
        match self.groups.standing(group) {
            Ok(Standing::Primary {
                is_filling: false, ..
            }) => Status::Jukebox,
            _ => status,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_fails_again_counts_as_failing_for_longer() {
        let begin = Instant::default();
        let first = LastFailure::after(None, begin);
        assert_eq!(first.pause, DISK_PAUSE);
        let soon = LastFailure::after(Some(first), begin + DISK_PAUSE / 2);
        assert_eq!(soon.pause, DISK_PAUSE);
        let mut last = soon;
        for _ in 0..20 {
            last = LastFailure::after(Some(last), last.at + last.pause);
        }
        assert_eq!(last.pause, DISK_PAUSE_MAX);
        let later = LastFailure::after(Some(last), last.at + DISK_WELL_AFTER);
        assert_eq!(later.pause, DISK_PAUSE);
    }
}
