//! Revocations: capabilities that the manager took back before they expired, because a change of owner or mode took a
//! right from their holders.
//!
//! A capability says when it expires, and the manager gives none to a file that expires earlier than one before. So a
//! revocation names the latest time of expiry that is not good any more: the *fence* of the file.

use crate::limits::REVOCATIONS_MAX;
use gannet_runtime::Instant;
use gannet_wire::volume::Capability;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// The fence of a file, in seconds since the Unix epoch, and when it was raised last.
#[derive(Clone, Copy)]
struct Fence {
    expires: u64,
    since: Instant,
}

/// The fences of an I/O server, by file.
pub(super) struct Revocations {
    /// The age after which no capability gives any right.
    age_max: Duration,
    fences: BTreeMap<u64, Fence>,
    order: VecDeque<(u64, Instant)>,
    /// The latest of the fences that had to make room: it counts for all files.
    of_all: u64,
}

impl Revocations {
    pub(super) fn new(age_max: Duration) -> Revocations {
        Revocations {
            age_max,
            fences: BTreeMap::new(),
            order: VecDeque::new(),
            of_all: 0,
        }
    }

    /// Capabilities of a file are not good any more that expire at `fence` or earlier; file 0 stands for all.
    pub(super) fn insert(&mut self, file: u64, fence: u64, now: Instant) {
        self.forget(now);
        if file == 0 {
            self.of_all = self.of_all.max(fence);
            return;
        }
        if self.order.len() >= REVOCATIONS_MAX
            && let Some((oldest, _)) = self.order.pop_front()
            && let Some(fence) = self.fences.remove(&oldest)
        {
            self.of_all = self.of_all.max(fence.expires);
        }
        let known = self.fences.get(&file).map_or(0, |known| known.expires);
        let expires = fence.max(known);
        self.fences.insert(
            file,
            Fence {
                expires,
                since: now,
            },
        );
        self.order.push_back((file, now));
    }

    /// The files with fences, and these; file 0 stands for all.
    pub(super) fn fences(&self) -> Vec<(u64, u64)> {
        let fences = self.fences.iter();
        let fences = fences.map(|(file, fence)| (*file, fence.expires));
        let of_all = (self.of_all > 0).then_some((0, self.of_all));
        fences.chain(of_all).collect()
    }

    /// Whether a capability was taken back.
    pub(super) fn covers(&self, capability: &Capability) -> bool {
        let fence = self.fences.get(&capability.file);
        let fence = fence.map_or(0, |fence| fence.expires);
        capability.expires <= fence.max(self.of_all)
    }

    /// Forgets the fences that all expired capabilities are behind.
    fn forget(&mut self, now: Instant) {
        while let Some((file, since)) = self.order.front().copied()
            && now >= since + self.age_max
        {
            self.order.pop_front();
            // A fence that was raised again has a later entry in the order.
            if self.fences.get(&file).is_some_and(|it| it.since == since) {
                self.fences.remove(&file);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AGE: Duration = Duration::from_secs(120);

    fn capability(file: u64, expires: u64) -> Capability {
        Capability {
            file,
            rights: Capability::READ,
            expires,
            term: 1,
            proof: [0; 16],
        }
    }

    #[test]
    fn a_revocation_covers_earlier_capabilities_of_its_file() {
        let (mut revocations, start) = (Revocations::new(AGE), Instant::START);
        revocations.insert(1, 100, start);
        let covers = |it: &Revocations, file, expires| it.covers(&capability(file, expires));
        assert!(covers(&revocations, 1, 100) && !covers(&revocations, 1, 101));
        assert!(!covers(&revocations, 2, 100));
        revocations.insert(2, 300, start + AGE);
        assert!(!covers(&revocations, 1, 100), "it has expired by itself");
    }

    #[test]
    fn revocations_that_make_room_count_for_all_files() {
        let (mut revocations, start) = (Revocations::new(AGE), Instant::START);
        (0..=REVOCATIONS_MAX as u64).for_each(|file| revocations.insert(file, 100 + file, start));
        assert!(revocations.covers(&capability(u64::MAX, 100)));
        assert!(!revocations.covers(&capability(u64::MAX, 101)));
        assert!(revocations.fences.len() <= REVOCATIONS_MAX);
        let mut other = Revocations::new(AGE);
        let told = revocations.fences().into_iter();
        told.for_each(|(file, fence)| other.insert(file, fence, start));
        assert!(other.covers(&capability(u64::MAX, 100)));
        assert!(other.covers(&capability(7, 107)) && !other.covers(&capability(7, 108)));
    }
}
