//! A queue that serves its owners in turn.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// Items of several owners, handed out round robin: one item of each owner, then the next round. An owner with a
/// thousand items delays another's first item by one item of its own, not by a thousand.
///
/// The caller bounds the number of items.
pub struct FairQueue<K, T> {
    /// Owners with items, the next one to serve first. Each is in here once.
    turns: VecDeque<K>,
    /// Their items, oldest first; none is empty.
    items: HashMap<K, VecDeque<T>>,
}

impl<K, T> Default for FairQueue<K, T> {
    fn default() -> FairQueue<K, T> {
        FairQueue {
            turns: VecDeque::new(),
            items: HashMap::new(),
        }
    }
}

impl<K: Copy + Eq + Hash, T> FairQueue<K, T> {
    /// Puts an item behind the others of its owner.
    pub fn push(&mut self, owner: K, item: T) {
        let items = self.items.entry(owner).or_default();
        if items.is_empty() {
            self.turns.push_back(owner);
        }
        items.push_back(item);
    }

    /// Takes the oldest item that `may_go`, of the first owner in turn that has one. That owner's next turn comes after
    /// all others'; owners whose items must stay keep their place.
    pub fn take(&mut self, mut may_go: impl FnMut(&T) -> bool) -> Option<T> {
        for turn in 0..self.turns.len() {
            let owner = *self.turns.get(turn)?;
            let items = self.items.get_mut(&owner)?;
            if let Some(at) = items.iter().position(&mut may_go) {
                let item = items.remove(at);
                self.turns.remove(turn);
                self.end_turn(owner);
                return item;
            }
        }
        None
    }

    /// Takes an owner's items equal to `item` out, without using up its turn.
    pub fn remove(&mut self, owner: K, item: &T)
    where
        T: PartialEq,
    {
        let Some(items) = self.items.get_mut(&owner) else {
            return;
        };
        items.retain(|kept| kept != item);
        if items.is_empty() {
            self.items.remove(&owner);
            self.turns.retain(|kept| *kept != owner);
        }
    }

    /// True if no item waits.
    pub fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    fn end_turn(&mut self, owner: K) {
        if self.items.get(&owner).is_some_and(VecDeque::is_empty) {
            self.items.remove(&owner);
        } else {
            self.turns.push_back(owner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(queue: &mut FairQueue<char, u32>) -> Vec<u32> {
        std::iter::from_fn(|| queue.take(|_| true)).collect()
    }

    #[test]
    fn an_owner_with_many_items_delays_another_by_one() {
        let mut queue = FairQueue::default();
        (0..1000).for_each(|item| queue.push('a', item));
        queue.push('b', 5000);
        queue.push('b', 5001);
        assert_eq!(drain(&mut queue)[..5], [0, 5000, 1, 5001, 2]);
        assert!(queue.is_empty());
    }

    #[test]
    fn each_round_serves_every_owner_once() {
        let mut queue = FairQueue::default();
        for round in 0..10 {
            for (index, owner) in ['a', 'b', 'c'].into_iter().enumerate() {
                queue.push(owner, round * 10 + index as u32);
            }
        }
        let taken = drain(&mut queue);
        for round in taken.chunks(3) {
            let owners: Vec<u32> = round.iter().map(|item| item % 10).collect();
            assert_eq!(owners, [0, 1, 2]);
        }
    }

    #[test]
    fn an_owner_comes_back_at_the_end_of_the_round() {
        let mut queue = FairQueue::default();
        queue.push('a', 1);
        queue.push('b', 2);
        assert_eq!(queue.take(|_| true), Some(1));
        queue.push('a', 3);
        assert_eq!(drain(&mut queue), [2, 3]);
    }

    #[test]
    fn items_that_must_stay_hold_up_no_other_and_keep_their_owners_place() {
        let mut queue = FairQueue::default();
        queue.push('a', 1);
        queue.push('a', 2);
        queue.push('b', 3);
        queue.push('b', 4);
        assert_eq!(queue.take(|item| *item > 2), Some(3));
        assert_eq!(queue.take(|item| *item == 2), Some(2));
        assert_eq!(queue.take(|item| *item > 4), None);
        assert_eq!(drain(&mut queue), [4, 1]);
    }

    #[test]
    fn an_item_can_be_taken_back() {
        let mut queue = FairQueue::default();
        queue.push('a', 1);
        queue.push('a', 2);
        queue.push('b', 1);
        queue.remove('a', &1);
        queue.remove('b', &1);
        queue.remove('c', &1);
        assert_eq!(drain(&mut queue), [2]);
        assert!(queue.is_empty());
    }
}
