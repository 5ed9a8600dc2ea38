//! Files that were removed a short while ago: nothing makes an object for them again.

use crate::limits::{GONE_AGE, GONE_MAX};
use gannet_runtime::Instant;
use std::collections::{HashSet, VecDeque};

/// See the module. Files' numbers are never given to another.
#[derive(Default)]
pub(super) struct Gone {
    files: HashSet<u64>,
    order: VecDeque<(u64, Instant)>,
}

impl Gone {
    pub(super) fn insert(&mut self, file: u64, now: Instant) {
        self.forget(now);
        if self.files.len() >= GONE_MAX
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

    /// Forgets those whose capabilities are no longer good.
    fn forget(&mut self, now: Instant) {
        while let Some((file, since)) = self.order.front()
            && now >= *since + GONE_AGE
        {
            self.files.remove(file);
            self.order.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_file_stays_gone_until_nobody_can_write_to_it() {
        let (mut gone, start) = (Gone::default(), Instant::START);
        gone.insert(1, start);
        gone.insert(2, start + Duration::from_secs(10));
        assert!(gone.contains(1, start + Duration::from_secs(119)));
        assert!(!gone.contains(1, start + GONE_AGE));
        assert!(gone.contains(2, start + GONE_AGE));
        assert!(!gone.contains(3, start));
    }
}
