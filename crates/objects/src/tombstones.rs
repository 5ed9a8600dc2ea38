//! Tombstones: files that were removed a short while ago. A late WRITE must not make an object for one again.

use crate::limits::TOMBSTONES_MAX;
use gannet_runtime::Instant;
use std::collections::{HashSet, VecDeque};
use std::time::Duration;

/// The tombstones of an I/O server, by the file's number, which no other file ever has.
pub(super) struct Tombstones {
    /// How long each lasts: longer than any capability to write to its file is good.
    age: Duration,
    files: HashSet<u64>,
    order: VecDeque<(u64, Instant)>,
}

impl Tombstones {
    pub(super) fn new(age: Duration) -> Tombstones {
        Tombstones {
            age,
            files: HashSet::new(),
            order: VecDeque::new(),
        }
    }

    pub(super) fn insert(&mut self, file: u64, now: Instant) {
        self.forget(now);
        if self.files.len() >= TOMBSTONES_MAX
            && let Some((oldest, _)) = self.order.pop_front()
        {
            self.files.remove(&oldest);
        }
        if self.files.insert(file) {
            self.order.push_back((file, now));
        }
    }

    pub(super) fn contains(&mut self, file: u64, now: Instant) -> bool {
        self.forget(now);
        self.files.contains(&file)
    }

    /// Forgets the tombstones that are older than any capability that I/O servers still accept.
    fn forget(&mut self, now: Instant) {
        while let Some((file, since)) = self.order.front()
            && now >= *since + self.age
        {
            self.files.remove(file);
            self.order.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AGE: Duration = Duration::from_secs(120);

    #[test]
    fn a_tombstone_lasts_until_no_capability_can_write_to_its_file() {
        let (mut tombstones, start) = (Tombstones::new(AGE), Instant::START);
        tombstones.insert(1, start);
        tombstones.insert(2, start + Duration::from_secs(10));
        assert!(tombstones.contains(1, start + Duration::from_secs(119)));
        assert!(!tombstones.contains(1, start + AGE));
        assert!(tombstones.contains(2, start + AGE));
        assert!(!tombstones.contains(3, start));
    }
}
