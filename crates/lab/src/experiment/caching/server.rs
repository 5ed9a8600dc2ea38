//! A server's page cache: which of so many blocks are in memory; the least recently used one leaves.

/// No block.
const NONE: u32 = u32::MAX;

#[derive(Debug, Clone, Copy)]
struct Links {
    before: u32,
    after: u32,
    is_in: bool,
}

/// The page cache of a server. Blocks have numbers from 0 on.
pub(super) struct PageCache {
    links: Vec<Links>,
    newest: u32,
    oldest: u32,
    len: u64,
    len_max: u64,
}

impl PageCache {
    pub(super) fn new(blocks: u64, len_max: u64) -> PageCache {
        let out = Links {
            before: NONE,
            after: NONE,
            is_in: false,
        };
        PageCache {
            links: vec![out; usize::try_from(blocks).unwrap_or(0)],
            newest: NONE,
            oldest: NONE,
            len: 0,
            len_max,
        }
    }

    pub(super) fn has(&self, block: u32) -> bool {
        self.at(block).is_some_and(|links| links.is_in)
    }

    /// Uses a block; false when it is not there.
    pub(super) fn touch(&mut self, block: u32) -> bool {
        let is_in = self.has(block);
        if is_in {
            self.unlink(block);
            self.link(block);
        }
        is_in
    }

    /// Brings in a block that is not there; gives the one that had to leave.
    pub(super) fn insert(&mut self, block: u32) -> Option<u32> {
        self.link(block);
        self.len += 1;
        if self.len <= self.len_max {
            return None;
        }
        let left = self.oldest;
        self.unlink(left);
        self.len -= 1;
        Some(left)
    }

    fn at(&self, block: u32) -> Option<&Links> {
        self.links.get(block as usize)
    }

    fn at_mut(&mut self, block: u32) -> Option<&mut Links> {
        self.links.get_mut(block as usize)
    }

    fn link(&mut self, block: u32) {
        let after = std::mem::replace(&mut self.newest, block);
        if let Some(after) = self.at_mut(after) {
            after.before = block;
        } else {
            self.oldest = block;
        }
        if let Some(links) = self.at_mut(block) {
            *links = Links {
                before: NONE,
                after,
                is_in: true,
            };
        }
    }

    fn unlink(&mut self, block: u32) {
        let Some(links) = self.at_mut(block) else {
            return;
        };
        links.is_in = false;
        let Links { before, after, .. } = *links;
        match self.at_mut(before) {
            Some(before) => before.after = after,
            None => self.newest = after,
        }
        match self.at_mut(after) {
            Some(after) => after.before = before,
            None => self.oldest = before,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_block_leaves() {
        let mut cache = PageCache::new(5, 3);
        assert_eq!([0, 1, 2].map(|block| cache.insert(block)), [None; 3]);
        assert!(cache.touch(0) && !cache.touch(4));
        assert_eq!(cache.insert(3), Some(1));
        assert_eq!(cache.insert(4), Some(2));
        assert_eq!(
            [0, 1, 2, 3, 4].map(|block| cache.has(block)),
            [true, false, false, true, true]
        );
    }
}
