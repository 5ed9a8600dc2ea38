//! The table against a model that keeps each byte's owners.

use super::*;
use proptest::prelude::*;

/// Bytes of the model; the last one stands for all behind it.
const BYTES: u64 = 12;

fn lock(owner: u8, kind: LockKind, range: RangeInclusive<u64>) -> HeldLock<u8> {
    HeldLock {
        owner,
        kind,
        range,
        process: 1,
    }
}

fn ranges(locks: &RangeLocks<u8>) -> Vec<(u8, u64, u64)> {
    let all = locks.iter();
    all.map(|it| (it.owner, *it.range.start(), *it.range.end()))
        .collect()
}

#[test]
fn unlocking_the_middle_leaves_both_sides_and_locking_it_again_joins_them() {
    let mut locks = RangeLocks::default();
    locks.hold(lock(1, LockKind::Exclusive, 0..=99));
    locks.release(&1, 40..=59);
    assert_eq!(ranges(&locks), [(1, 0, 39), (1, 60, 99)]);
    locks.hold(lock(2, LockKind::Exclusive, 40..=59));
    locks.release(&2, 0..=u64::MAX);
    locks.hold(lock(1, LockKind::Exclusive, 40..=59));
    assert_eq!(ranges(&locks), [(1, 0, 99)]);
}

#[test]
fn a_lock_to_the_end_of_the_file_has_no_end() {
    let mut locks = RangeLocks::default();
    locks.hold(lock(1, LockKind::Exclusive, 10..=u64::MAX));
    let far = lock(2, LockKind::Shared, u64::MAX - 5..=u64::MAX - 5);
    assert!(locks.conflict(&far).is_some());
    locks.release(&1, 20..=u64::MAX);
    assert!(locks.conflict(&far).is_none());
    assert_eq!(ranges(&locks), [(1, 10, 19)]);
}

#[test]
fn an_owner_is_never_in_its_own_way_and_may_change_the_kind() {
    let mut locks = RangeLocks::default();
    locks.hold(lock(1, LockKind::Shared, 0..=9));
    locks.hold(lock(2, LockKind::Shared, 5..=9));
    let exclusive = lock(1, LockKind::Exclusive, 0..=9);
    assert_eq!(locks.conflict(&exclusive).map(|it| it.owner), Some(2));
    locks.release(&2, 0..=u64::MAX);
    assert!(locks.conflict(&exclusive).is_none());
    locks.hold(exclusive);
    assert_eq!(ranges(&locks), [(1, 0, 9)]);
}

thread_local! {
    static COMPARISONS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// An owner whose comparisons are counted.
#[derive(Debug, Clone)]
struct Counted(u32);

impl PartialEq for Counted {
    fn eq(&self, other: &Counted) -> bool {
        COMPARISONS.set(COMPARISONS.get() + 1);
        self.0 == other.0
    }
}

#[test]
fn a_lock_is_compared_a_few_times_with_each_other_and_not_with_all_pairs() {
    let mut locks = RangeLocks::default();
    let lock = |owner| HeldLock {
        owner: Counted(owner),
        kind: LockKind::Exclusive,
        range: u64::from(owner)..=u64::from(owner),
        process: 1,
    };
    let owners = 4090;
    (0..owners).for_each(|owner| locks.hold(lock(owner)));
    COMPARISONS.set(0);
    assert!(locks.conflict(&lock(owners)).is_none());
    locks.hold(lock(owners));
    let comparisons = COMPARISONS.get();
    assert!(comparisons <= 5 * owners as usize, "{comparisons}");
}

#[derive(Debug, Clone)]
enum Step {
    Lock {
        owner: u8,
        exclusive: bool,
        start: u64,
        /// The last byte.
        end: u64,
    },
    Unlock {
        owner: u8,
        start: u64,
        /// The last byte.
        end: u64,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let range = (0..BYTES, 0..BYTES).prop_map(|(one, other)| (one.min(other), one.max(other)));
    let step = (any::<bool>(), 0..3u8, any::<bool>(), range).prop_map(
        |(locks, owner, exclusive, (start, end))| {
            if locks {
                Step::Lock {
                    owner,
                    exclusive,
                    start,
                    end,
                }
            } else {
                Step::Unlock { owner, start, end }
            }
        },
    );
    proptest::collection::vec(step, 0..40)
}

proptest! {
    #[test]
    fn the_table_agrees_with_a_model_of_bytes(steps in steps()) {
        let mut locks = RangeLocks::default();
        // What each owner has of each byte.
        let mut model = [[None::<LockKind>; 3]; BYTES as usize];
        for step in steps {
            match step {
                Step::Lock { owner, exclusive, start, end } => {
                    let kind = if exclusive { LockKind::Exclusive } else { LockKind::Shared };
                    let wanted = lock(owner, kind, start..=end);
                    let is_free = (start..=end).all(|byte| {
                        let others = model[byte as usize].iter().enumerate();
                        others.filter(|(other, _)| *other != owner as usize).all(|(_, held)| {
                            match held {
                                None => true,
                                Some(LockKind::Shared) => !exclusive,
                                Some(LockKind::Exclusive) => false,
                            }
                        })
                    });
                    prop_assert_eq!(locks.conflict(&wanted).is_none(), is_free);
                    if is_free {
                        locks.hold(wanted);
                        (start..=end).for_each(|byte| {
                            model[byte as usize][owner as usize] = Some(kind);
                        });
                    }
                }
                Step::Unlock { owner, start, end } => {
                    locks.release(&owner, start..=end);
                    (start..=end).for_each(|byte| model[byte as usize][owner as usize] = None);
                }
            }
            let mut seen = [[None::<LockKind>; 3]; BYTES as usize];
            for held in locks.iter() {
                for byte in held.range.clone() {
                    let place = &mut seen[byte as usize][held.owner as usize];
                    prop_assert!(place.is_none(), "an owner's ranges overlap");
                    *place = Some(held.kind);
                }
            }
            prop_assert_eq!(&seen, &model);
            let sorted = locks.iter().map(|it| *it.range.start()).is_sorted();
            prop_assert!(sorted);
        }
    }
}
