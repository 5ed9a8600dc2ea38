//! The table of a manager on its own: sessions, leases and the recovery after a restart.

use super::*;
use gannet_wire::volume::LockKind;
use std::time::Duration;

const ONE: Token = [1; 16];
const OTHER: Token = [2; 16];
const FILE: FileId = FileId(7);

fn lock(session: Token, number: u64, kind: LockKind) -> HeldLock<LockOwner> {
    HeldLock {
        owner: LockOwner { session, number },
        kind,
        range: 0..=u64::MAX,
        process: 4,
    }
}

fn exclusive(session: Token) -> HeldLock<LockOwner> {
    lock(session, 1, LockKind::Exclusive)
}

fn swept(sessions: &[Token], released: usize) -> Swept {
    let sessions = sessions.to_vec();
    Swept { sessions, released }
}

#[test]
fn locks_of_a_silent_client_are_released_after_its_lease() {
    let mut table = LockTable::default();
    let start = Instant::START;
    table.enter(ONE, start);
    table.enter(OTHER, start);
    assert_eq!(table.hold(FILE, exclusive(ONE)), LockOutcome::Done);
    assert!(table.conflict(FILE, &exclusive(OTHER)).is_some());
    let late = start + LOCK_LEASE;
    let before = start + (LOCK_LEASE - Duration::from_nanos(1));
    assert_eq!(table.expire(before), swept(&[], 0));
    assert!(table.renew(&OTHER, late));
    assert_eq!(table.expire(late), swept(&[ONE], 1));
    assert!(table.conflict(FILE, &exclusive(OTHER)).is_none());
    assert!(!table.renew(&ONE, late));
    assert_eq!((table.held, table.files.len()), (0, 0));
}

#[test]
fn after_a_restart_clients_of_before_go_first_and_only_for_one_lease() {
    let start = Instant::START;
    let mut table = LockTable {
        recovery: Some(Recovery {
            until: start + LOCK_LEASE,
            sessions: BTreeSet::from([ONE, OTHER]),
        }),
        ..LockTable::default()
    };
    assert!(table.is_recovering(start));
    table.reclaimed(&ONE);
    assert!(table.is_recovering(start));
    table.reclaimed(&OTHER);
    assert!(!table.is_recovering(start));
    table.recovery = Some(Recovery {
        until: start + LOCK_LEASE,
        sessions: BTreeSet::from([ONE]),
    });
    let late = start + LOCK_LEASE;
    assert!(!table.is_recovering(late));
    assert_eq!(table.expire(late), swept(&[ONE], 0));
    assert!(table.recovery.is_none());
}

#[test]
fn the_next_manager_waits_for_a_client_that_was_still_reclaiming() {
    let (start, late) = (Instant::START, Instant::START + LOCK_LEASE);
    let mut table = LockTable {
        recovery: Some(Recovery {
            until: late,
            sessions: BTreeSet::from([ONE, OTHER]),
        }),
        ..LockTable::default()
    };
    table.enter(ONE, start + Duration::from_secs(1));
    // The other one never came. Its note is of no use any more, unlike that of the first.
    assert_eq!(table.expire(late), swept(&[OTHER], 0));
    assert!(table.recovery.is_none());
}

#[test]
fn one_client_cannot_fill_the_table() {
    let mut table = LockTable::default();
    table.enter(ONE, Instant::START);
    table.enter(OTHER, Instant::START);
    let mut held = 0;
    for file in 0.. {
        let lock = HeldLock {
            range: 0..=0,
            ..exclusive(ONE)
        };
        if table.hold(FileId(file), lock) == LockOutcome::TooMany {
            break;
        }
        held += 1;
    }
    assert!((LOCKS_OF_SESSION_MAX - 2..=LOCKS_OF_SESSION_MAX).contains(&held));
    assert_eq!(
        table.hold(
            FileId(0),
            HeldLock {
                range: 9..=9,
                ..exclusive(OTHER)
            }
        ),
        LockOutcome::Done
    );
    // The bytes of one file, too.
    let mut of_file = 0;
    for byte in 0.. {
        let lock = HeldLock {
            range: 2 * byte..=2 * byte,
            ..exclusive(OTHER)
        };
        if table.hold(FILE, lock) == LockOutcome::TooMany {
            break;
        }
        of_file += 1;
    }
    assert!((LOCKS_OF_FILE_MAX - 3..=LOCKS_OF_FILE_MAX).contains(&of_file));
}

/// Before, a client without a lock was answered at once, and asked again in a loop.
#[test]
fn a_client_may_wait_for_its_first_lock() {
    let world = gannet_sim::World::new(1);
    let runtime = world.add_node("manager").runtime();
    let locks = Locks::new(runtime, BTreeSet::new());
    let waiter = |session| Waiter {
        file: FILE,
        lock: exclusive(session),
        address: IpAddr::from([10, 0, 0, 2]),
    };
    let numbers: Vec<_> = (0..LOCKS_WAITING_MAX)
        .map(|_| locks.begin_waiting(waiter(ONE)).unwrap())
        .collect();
    assert_eq!(locks.begin_waiting(waiter(ONE)), None);
    let other = locks.begin_waiting(waiter(OTHER)).unwrap();
    let mut list = LeaseList::default();
    locks.list(&mut list, Duration::from_secs(1));
    assert_eq!(list.rows.len(), LOCKS_WAITING_MAX + 1);
    assert!(
        list.rows
            .iter()
            .all(|row| row.waits && row.client.is_some())
    );
    numbers
        .into_iter()
        .for_each(|number| locks.end_waiting(number));
    locks.end_waiting(other);
    let table = locks.table.borrow();
    assert!(table.waiting.is_empty() && table.waiters.is_empty());
}

#[test]
fn the_list_has_locks_and_files_that_are_kept() {
    let world = gannet_sim::World::new(1);
    let runtime = world.add_node("manager").runtime();
    let locks = Locks::new(runtime, BTreeSet::new());
    {
        let mut table = locks.table.borrow_mut();
        table.enter(ONE, Instant::START);
        table.hold(FILE, exclusive(ONE));
        table.keep(FileId(9), ONE);
        if let Some(known) = table.sessions.get_mut(&ONE) {
            known.address = Some(IpAddr::from([10, 0, 0, 1]));
        }
    }
    let mut list = LeaseList::default();
    locks.list(&mut list, Duration::from_secs(5));
    let rows = list.rows.iter();
    let rows: Vec<_> = rows
        .map(|row| (row.file.0, row.kind, row.process))
        .collect();
    assert_eq!(
        rows,
        [
            (7, LeaseKind::Exclusive, Some(4)),
            (9, LeaseKind::Open, None)
        ]
    );
    assert!(
        list.rows
            .iter()
            .all(|row| row.client.is_some() && !row.waits)
    );
}
