use super::*;

fn handle(name: u8) -> FileHandle {
    FileHandle::new(&[name]).unwrap()
}

pub(crate) fn file(fileid: u64, size: u64) -> Attributes {
    Attributes {
        kind: FileKind::Regular,
        mode: 0o644,
        link_count: 1,
        uid: 0,
        gid: 0,
        size,
        used: size,
        device: (0, 0),
        fsid: 1,
        fileid,
        access_time: Time::default(),
        modify_time: Time::default(),
        change_time: Time::default(),
        change_id: 0,
    }
}

fn at(milliseconds: u64) -> Instant {
    Instant::default() + Duration::from_millis(milliseconds)
}

/// The process of the opens.
const PROCESS: u32 = 11;

/// Reports an object with attributes of the present epoch, for no process.
fn report(inodes: &mut Inodes, name: u8, attributes: &Attributes) -> (u64, u64) {
    report_to(inodes, name, attributes, NOBODY, at(0))
}

/// As [`report`], for the process `asker` at the time `now`.
fn report_to(
    inodes: &mut Inodes,
    name: u8,
    attributes: &Attributes,
    asker: u32,
    now: Instant,
) -> (u64, u64) {
    let asked = inodes.epoch();
    let fetched = Fetched {
        attributes: *attributes,
        asked,
    };
    inodes.report(&handle(name), &fetched, asker, now)
}

#[test]
fn an_object_keeps_its_number_until_it_is_forgotten_as_often_as_it_was_reported() {
    let mut inodes = Inodes::new(handle(0));
    let first = report(&mut inodes, 1, &file(77, 0));
    assert_eq!(first.0, 77);
    assert_eq!(report(&mut inodes, 1, &file(77, 0)), first);
    inodes.forget(77, 1);
    assert!(inodes.inode(77).is_some());
    inodes.forget(77, 1);
    assert!(inodes.inode(77).is_none());
    let again = report(&mut inodes, 1, &file(77, 0));
    assert_eq!(again.0, 77);
    assert_ne!(again.1, first.1);
    inodes.forget(ROOT, 9);
    assert!(inodes.inode(ROOT).is_some());
}

#[test]
fn an_object_stays_while_its_last_close_is_done() {
    let mut inodes = Inodes::new(handle(0));
    let (number, _) = report(&mut inodes, 1, &file(77, 0));
    inodes.open_new(number);
    assert!(inodes.close(number));
    inodes.forget(number, 1);
    assert!(inodes.inode(number).is_some());
    inodes.closed(number);
    assert!(inodes.inode(number).is_none());
    // The kernel may send both in the other order too.
    let (number, _) = report(&mut inodes, 1, &file(77, 0));
    inodes.open_new(number);
    inodes.forget(number, 1);
    assert!(inodes.close(number) && inodes.inode(number).is_some());
    inodes.closed(number);
    assert!(inodes.inode(number).is_none());
}

#[test]
fn two_live_objects_never_share_a_number() {
    let mut inodes = Inodes::new(handle(0));
    let odd = [0, 1, 77, 77, OWN | 1, OWN | 2];
    let numbers: Vec<u64> = odd
        .into_iter()
        .zip(1..)
        .map(|(fileid, name)| report(&mut inodes, name, &file(fileid, 0)).0)
        .collect();
    for (index, number) in numbers.iter().enumerate() {
        assert!(*number != ROOT && !numbers[..index].contains(number));
    }
}

fn fetched(inodes: &Inodes, attributes: Attributes) -> Fetched {
    let asked = inodes.epoch();
    Fetched { attributes, asked }
}

/// A store's report of a change of the file 77 from one size to another.
fn change(before: u64, after: u64) -> Wcc {
    let at = |size| file(77, size);
    Wcc {
        before: Some(WccBefore {
            size: before,
            modify_time: at(before).modify_time,
            change_time: at(before).change_time,
        }),
        after: Some(at(after)),
    }
}

#[test]
fn pages_are_stale_after_a_change_by_another_client_until_they_are_dropped() {
    let mut inodes = Inodes::new(handle(0));
    let (number, _) = report(&mut inodes, 1, &file(77, 10));
    assert_eq!(inodes.stale(number), None);
    report(&mut inodes, 1, &file(77, 10));
    assert_eq!(inodes.stale(number), None);
    report(&mut inodes, 1, &file(77, 11));
    let first = inodes.stale(number).expect("it was changed");
    // A further change during the drop counts for itself.
    report(&mut inodes, 1, &file(77, 12));
    inodes.dropped(number, first);
    let second = inodes.stale(number).expect("it was changed again");
    inodes.dropped(number, second);
    assert_eq!(inodes.stale(number), None);
}

#[test]
fn changes_of_this_mount_leave_the_pages_valid_in_any_order_of_the_replies() {
    let mut inodes = Inodes::new(handle(0));
    let (number, _) = report(&mut inodes, 1, &file(77, 10));
    inodes.own_change(number, &change(20, 30));
    inodes.own_change(number, &change(10, 20));
    report(&mut inodes, 1, &file(77, 30));
    assert_eq!(inodes.stale(number), None);
}

#[test]
fn a_change_between_two_of_this_mount_is_seen() {
    let mut inodes = Inodes::new(handle(0));
    let (number, _) = report(&mut inodes, 1, &file(77, 10));
    inodes.own_change(number, &change(10, 20));
    inodes.own_change(number, &change(25, 30));
    report(&mut inodes, 1, &file(77, 30));
    assert!(inodes.stale(number).is_some());
}

#[test]
fn a_store_that_does_not_know_the_state_before_a_change_vouches_for_nothing() {
    let mut inodes = Inodes::new(handle(0));
    let (number, _) = report(&mut inodes, 1, &file(77, 10));
    let after = Wcc {
        before: None,
        after: Some(file(77, 20)),
    };
    inodes.own_change(number, &after);
    assert!(inodes.stale(number).is_some());
    // Nor does a reply without attributes: the next ones that are fetched show a change.
    let mut inodes = Inodes::new(handle(0));
    let (number, _) = report(&mut inodes, 1, &file(77, 10));
    inodes.own_change(number, &Wcc::default());
    report(&mut inodes, 1, &file(77, 20));
    assert!(inodes.stale(number).is_some());
}

#[test]
fn replies_to_overtaken_writes_are_kept_within_a_bound() {
    let mut inodes = Inodes::new(handle(0));
    let (number, _) = report(&mut inodes, 1, &file(77, 10));
    for size in 0..2 * OWN_CHANGES_MAX as u64 {
        inodes.own_change(number, &change(1000 + 2 * size, 1001 + 2 * size));
    }
    let kept = inodes.inode(number).map(|inode| inode.own_changes.len());
    assert_eq!(kept, Some(OWN_CHANGES_MAX));
}

#[test]
fn a_file_that_replaced_another_is_kept_for_the_process_that_comes_back_for_it() {
    let mut inodes = Inodes::new(handle(0));
    inodes.refuse(PROCESS, at(0));
    assert!(inodes.is_returning(PROCESS, at(1)));
    let (number, _) = report_to(&mut inodes, 2, &file(78, 10), PROCESS, at(1));
    assert_eq!(inodes.is_kept(&handle(2), at(900)), Kept::Awaited(number));
    assert!(inodes.open(number, PROCESS));
    assert_eq!(inodes.is_kept(&handle(2), at(901)), Kept::Open);
    assert!(!inodes.is_returning(PROCESS, at(901)));
    inodes.close(number);
    inodes.closed(number);
    assert_eq!(inodes.is_kept(&handle(2), at(902)), Kept::No);
    inodes.forget(number, 1);
    assert!(!inodes.open(number, PROCESS), "the kernel has forgotten it");
}

#[test]
fn attributes_from_before_an_own_write_are_ignored() {
    let mut inodes = Inodes::new(handle(0));
    let (number, generation) = report(&mut inodes, 1, &file(77, 10));
    let old = fetched(&inodes, file(77, 10));
    assert!(!inodes.knows_better(&handle(1), old.asked));
    // Opened, written to and closed while a lookup of before is still on its way.
    inodes.open_new(number);
    inodes.own_change(number, &change(10, 20));
    inodes.close(number);
    inodes.closed(number);
    assert!(inodes.knows_better(&handle(1), old.asked));
    let reported = inodes.report(&handle(1), &old, NOBODY, at(0));
    assert_eq!(reported, (number, generation));
    report(&mut inodes, 1, &file(77, 20));
    assert_eq!(inodes.stale(number), None);
    // Simultaneous lookups with equal attributes do not overtake each other.
    let equal = fetched(&inodes, file(77, 20));
    report(&mut inodes, 1, &file(77, 20));
    inodes.learn(number, &equal);
    assert!(!inodes.knows_better(&handle(1), equal.asked));
    // Also where the kernel has forgotten the file meanwhile.
    inodes.own_change(number, &change(20, 30));
    inodes.forget(number, 9);
    assert_eq!(inodes.number(&handle(1)), None);
    assert!(inodes.knows_better(&handle(1), equal.asked));
    assert!(!inodes.knows_better(&handle(1), inodes.epoch()));
}
