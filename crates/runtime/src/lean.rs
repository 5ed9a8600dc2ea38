//! Queues of connections that mostly rest.

use std::collections::VecDeque;

/// Appends `item`. A queue that never had room, or gave it up at rest, gets room for one item: `VecDeque` alone would
/// take room for four. A connection with one request at a time has a dozen such queues, and what they take beside its
/// lasting memory stays with it, because the allocator gives whole pages back alone.
pub fn push_lean<T>(queue: &mut VecDeque<T>, item: T) {
    if queue.capacity() == 0 {
        queue.reserve_exact(1);
    }
    queue.push_back(item);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_item_gets_room_for_one() {
        let mut queue = VecDeque::new();
        push_lean(&mut queue, [0u8; 100]);
        assert_eq!(queue.capacity(), 1);
        queue.pop_front();
        push_lean(&mut queue, [1; 100]);
        push_lean(&mut queue, [2; 100]);
        assert_eq!(queue, [[1; 100], [2; 100]]);
    }
}
