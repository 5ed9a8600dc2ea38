//! Memory that the connections of a core share, and when it goes back.
//!
//! It costs nothing on the way of a byte: connections have deadlines for their rest already ([`REST_AFTER`]), and look
//! here when these pass. Behind the end of a connection, which leaves no deadline, a task looks once. The last one that
//! comes to rest has all of it given back. Where some connection never rests, because it says each second that it is
//! there, memory that was hardly used goes back.

use crate::limits::REST_AFTER;
use gannet_runtime::Instant;
use std::cell::Cell;
use std::rc::Rc;

/// The connections of a core that are not at rest.
#[derive(Default)]
pub(crate) struct Movement {
    moving: Rc<Cell<usize>>,
    /// The last time at which some of the memory was given back while connections moved.
    looked: Cell<Option<Instant>>,
}

/// A connection that is not at rest; it is, or has ended, when this is dropped.
pub(crate) struct Moving(Rc<Cell<usize>>);

/// The memory that may go back to the system now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Idle {
    /// Nothing: connections move, and it is too early to say what they do not use.
    Nothing,
    /// The part that was hardly used since the last time.
    Unused,
    /// Everything: no connection moves.
    All,
}

impl Movement {
    /// A connection begins to move bytes.
    pub(crate) fn begin(&self) -> Moving {
        self.moving.set(self.moving.get() + 1);
        Moving(Rc::clone(&self.moving))
    }

    /// Says how much is idle, when a connection's deadline for rest passed, and [`REST_AFTER`] behind an end.
    pub(crate) fn look(&self, now: Instant) -> Idle {
        if self.moving.get() == 0 {
            self.looked.set(Some(now));
            return Idle::All;
        }
        // Many connections look, and what none used since the one before is in use by all of them together.
        if self.looked.get().is_some_and(|at| now < at + REST_AFTER) {
            return Idle::Nothing;
        }
        self.looked.set(Some(now));
        Idle::Unused
    }
}

impl Drop for Moving {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn all_is_idle_when_the_last_connection_rests_and_before_that_what_was_unused_for_long() {
        let movement = Movement::default();
        let at = |seconds| Instant::START + Duration::from_secs(seconds);
        assert_eq!(movement.look(at(0)), Idle::All);
        let (first, second) = (movement.begin(), movement.begin());
        assert_eq!(movement.look(at(1)), Idle::Nothing);
        assert_eq!(movement.look(at(5)), Idle::Unused);
        assert_eq!(movement.look(at(6)), Idle::Nothing);
        drop(first);
        assert_eq!(movement.look(at(9)), Idle::Nothing);
        assert_eq!(movement.look(at(10)), Idle::Unused);
        drop(second);
        assert_eq!(movement.look(at(11)), Idle::All);
    }
}
