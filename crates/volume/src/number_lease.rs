//! The right of a process to serve under the number of an I/O server: a lease from the manager.
//!
//! Two processes may have the same number, because a disk was moved to another host, or copied, while the former
//! process was paused or cut off. The manager leases a number to one at a time. A process serves while its lease lasts,
//! counted from before it asked, by a clock that goes on while the machine is suspended. Then it answers clients and
//! other I/O servers no more, and ends their connections, on which they could read its memory.

use crate::limits::{NUMBER_LEASE, NUMBER_LEASE_LOOK};
use crate::watched::Watched;
use gannet_runtime::{Handle, Instant, sleep};
use gannet_wire::volume::Role;
use std::rc::Rc;
use std::time::Duration;

/// The state of the lease of one process.
///
/// | from \ event | granted | granted by an older manager | known, not granted yet | another has it | ends |
/// |---|---|---|---|---|---|
/// | `Unbounded` | `Until` | `Unbounded` | `Until`, as if granted | `Until`, over | `Ended` |
/// | `Until` | `Until`, never earlier | `Unbounded` | `Until`, the same | `Until`, the same | `Ended` |
/// | `Ended` | `Ended` | `Ended` | `Ended` | `Ended` | `Ended` |
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Right {
    /// Nobody leases it: the manager runs in the same process, or is of an earlier release.
    Unbounded,
    /// It lasts until then, by [`Runtime::now_with_suspend`](gannet_runtime::Runtime::now_with_suspend); none was
    /// granted yet if that is the start of the clock.
    Until(Instant),
    /// The process stops.
    Ended,
}

/// The lease of a process, as its I/O server knows it.
pub struct NumberLease {
    runtime: Handle,
    right: Watched<Right>,
}

impl NumberLease {
    fn new(runtime: Handle, right: Right) -> Rc<NumberLease> {
        let right = Watched::new(right);
        Rc::new(NumberLease { runtime, right })
    }

    /// A right that lasts until it ends.
    pub fn unbounded(runtime: Handle) -> Rc<NumberLease> {
        NumberLease::new(runtime, Right::Unbounded)
    }

    /// No right until the manager grants one.
    pub fn wanted(runtime: Handle) -> Rc<NumberLease> {
        NumberLease::new(runtime, Right::Until(Instant::START))
    }

    /// The time that counts for it.
    pub(crate) fn now(&self) -> Instant {
        self.runtime.now_with_suspend()
    }

    /// Notes that the manager has granted it for `lasts`, when it was asked at `asked`.
    pub(crate) fn grant(&self, asked: Instant, lasts: Duration) {
        self.right.set_if(|right| {
            let until = asked + lasts;
            let next = match *right {
                Right::Unbounded => Right::Until(until),
                // A late answer to an earlier question shortens nothing.
                Right::Until(known) => Right::Until(known.max(until)),
                Right::Ended => Right::Ended,
            };
            std::mem::replace(right, next) != next
        });
    }

    /// Notes that a manager that grants leases has been asked, and has granted none yet. A right without a bound gets
    /// one: another process may be granted the number from now on, but not if this one may have it.
    pub(crate) fn is_pending(&self, asked: Instant, is_anothers: bool) {
        let until = if is_anothers {
            Instant::START
        } else {
            asked + NUMBER_LEASE
        };
        self.right.set_if(|right| {
            let is_unbounded = *right == Right::Unbounded;
            if is_unbounded {
                *right = Right::Until(until);
            }
            is_unbounded
        });
    }

    /// Whether a peer of this role may be answered now. Managers need no lease: they know which process they mean, and
    /// need an answer before they can grant one. A process that has ended answers them no more either.
    pub(crate) fn admits(&self, peer: Role) -> bool {
        match peer {
            Role::Manager => *self.right.borrow() != Right::Ended,
            Role::Client | Role::IoServer => self.lasts(),
        }
    }

    /// Notes that a manager knows the process, and is of a release that grants no leases.
    pub(crate) fn is_unbounded(&self) {
        self.right.set_if(|right| {
            let lasts = *right != Right::Ended;
            if lasts {
                *right = Right::Unbounded;
            }
            lasts
        });
    }

    /// Ends it for good: the process stops.
    pub(crate) fn end(&self) {
        self.right.set(Right::Ended);
    }

    /// Whether the process may serve now.
    pub fn lasts(&self) -> bool {
        lasts(&self.right.borrow(), self.now())
    }

    /// Waits until the process may serve.
    pub(crate) async fn begins(&self) {
        self.right.wait_for(|right| lasts(right, self.now())).await;
    }

    /// Waits until the process may not serve.
    pub(crate) async fn is_over(&self) {
        while self.lasts() {
            let bounded = |right: &Right| *right != Right::Unbounded;
            self.right.wait_for(bounded).await;
            sleep(&self.runtime, NUMBER_LEASE_LOOK).await;
        }
    }
}

fn lasts(right: &Right, now: Instant) -> bool {
    match right {
        Right::Unbounded => true,
        Right::Until(until) => now < *until,
        Right::Ended => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gannet_sim::World;

    const LASTS: Duration = Duration::from_secs(30);

    fn at(seconds: u64) -> Instant {
        Instant::START + Duration::from_secs(seconds)
    }

    #[test]
    fn its_table_of_transitions() {
        let world = World::new(1);
        let runtime = world.add_node("io server").runtime();
        let grants: fn(&NumberLease) = |lease| lease.grant(at(5), LASTS);
        let begins: fn(&NumberLease) = |lease| lease.is_pending(at(5), false);
        let taken: fn(&NumberLease) = |lease| lease.is_pending(at(5), true);
        let (until, ended) = (Right::Until(at(35)), Right::Ended);
        for (from, event, to) in [
            (Right::Unbounded, grants, until),
            (
                Right::Unbounded,
                NumberLease::is_unbounded,
                Right::Unbounded,
            ),
            (Right::Unbounded, NumberLease::end, ended),
            (Right::Until(at(7)), grants, until),
            (Right::Until(at(77)), grants, Right::Until(at(77))),
            (
                Right::Until(at(7)),
                NumberLease::is_unbounded,
                Right::Unbounded,
            ),
            (Right::Until(at(7)), NumberLease::end, ended),
            (Right::Unbounded, begins, until),
            (Right::Unbounded, taken, Right::Until(Instant::START)),
            (Right::Until(at(7)), begins, Right::Until(at(7))),
            (Right::Until(at(7)), taken, Right::Until(at(7))),
            (ended, begins, ended),
            (ended, taken, ended),
            (ended, grants, ended),
            (ended, NumberLease::is_unbounded, ended),
            (ended, NumberLease::end, ended),
        ] {
            let lease = NumberLease::new(Handle::clone(&runtime), from);
            event(&lease);
            assert_eq!(*lease.right.borrow(), to, "from {from:?}");
        }
    }

    #[test]
    fn it_lasts_from_before_the_question() {
        let world = World::new(1);
        let runtime = world.add_node("io server").runtime();
        let done = world.run(async move {
            let lease = NumberLease::wanted(Handle::clone(&runtime));
            assert!(!lease.lasts());
            let asked = lease.now();
            sleep(&runtime, Duration::from_secs(10)).await;
            lease.grant(asked, LASTS);
            lease.begins().await;
            sleep(&runtime, Duration::from_secs(19)).await;
            assert!(lease.lasts());
            lease.is_over().await;
            let late = lease.now().duration_since(asked + LASTS);
            assert!(late <= NUMBER_LEASE_LOOK, "{late:?}");
        });
        done.unwrap();
    }
}
