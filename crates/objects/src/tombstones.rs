//! Tombstones: objects that were removed a short while ago. A late WRITE must not make one again.

use crate::limits::TOMBSTONES_MAX;
use gannet_runtime::Instant;
use gannet_wire::volume::ObjectId;
use std::collections::{HashSet, VecDeque};
use std::time::Duration;

/// The tombstones of an I/O server, by the object's name, which no other object ever has.
pub(super) struct Tombstones {
    /// How long each lasts: longer than any capability to write to it is good.
    age: Duration,
    objects: HashSet<ObjectId>,
    order: VecDeque<(ObjectId, Instant)>,
}

impl Tombstones {
    pub(super) fn new(age: Duration) -> Tombstones {
        Tombstones {
            age,
            objects: HashSet::new(),
            order: VecDeque::new(),
        }
    }

    pub(super) fn insert(&mut self, object: ObjectId, now: Instant) {
        self.forget(now);
        if self.objects.len() >= TOMBSTONES_MAX
            && let Some((oldest, _)) = self.order.pop_front()
        {
            self.objects.remove(&oldest);
        }
        if self.objects.insert(object) {
            self.order.push_back((object, now));
        }
    }

    pub(super) fn contains(&mut self, object: ObjectId, now: Instant) -> bool {
        self.forget(now);
        self.objects.contains(&object)
    }

    /// Forgets the tombstones that are older than any capability that I/O servers still accept.
    fn forget(&mut self, now: Instant) {
        while let Some((object, since)) = self.order.front()
            && now >= *since + self.age
        {
            self.objects.remove(object);
            self.order.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(file: u64) -> ObjectId {
        ObjectId { group: 0, file }
    }

    const AGE: Duration = Duration::from_secs(120);

    #[test]
    fn a_tombstone_lasts_until_no_capability_can_write_to_its_file() {
        let (mut tombstones, start) = (Tombstones::new(AGE), Instant::START);
        tombstones.insert(object(1), start);
        tombstones.insert(object(2), start + Duration::from_secs(10));
        assert!(tombstones.contains(object(1), start + Duration::from_secs(119)));
        assert!(!tombstones.contains(object(1), start + AGE));
        assert!(tombstones.contains(object(2), start + AGE));
        assert!(!tombstones.contains(object(3), start));
    }
}
