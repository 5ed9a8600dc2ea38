use super::*;

fn handle(name: u8) -> FileHandle {
    FileHandle::new(&[name]).unwrap()
}

fn file(fileid: u64, size: u64) -> Attributes {
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
    let mut inodes = Inodes::new(handle(0), true);
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
    let mut inodes = Inodes::new(handle(0), true);
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
    let mut inodes = Inodes::new(handle(0), true);
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

#[test]
fn a_file_that_another_client_changed_becomes_another_inode_before_it_is_opened() {
    let mut inodes = Inodes::new(handle(0), true);
    let (number, _) = report(&mut inodes, 1, &file(77, 10));
    let open = |inodes: &mut Inodes, number, size, now| {
        inodes.open(number, &file(77, size), PROCESS, at(now))
    };
    assert_eq!(open(&mut inodes, number, 10, 0), Opened::Unchanged);
    assert!(inodes.close(number));
    inodes.closed(number);
    assert_eq!(open(&mut inodes, number, 11, 5), Opened::Outdated);
    assert_eq!(inodes.is_kept(&handle(1), at(5)), Kept::No);
    let reported = report_to(&mut inodes, 1, &file(77, 11), PROCESS, at(6));
    let (renewed, _) = reported;
    assert_ne!(renewed, number);
    // Programs see the same; and it is still only one object.
    assert_eq!(inodes.inode(renewed).unwrap().shown, 77);
    assert_eq!(inodes.number(&handle(1)), Some(renewed));
    let unstable = |number| Rc::clone(&inodes.inode(number).unwrap().unstable);
    assert!(Rc::ptr_eq(&unstable(number), &unstable(renewed)));
    assert_eq!(report(&mut inodes, 1, &file(77, 11)), reported);
    // A process that opens the former number must look it up again, too.
    assert_eq!(open(&mut inodes, number, 11, 7), Opened::Outdated);
    assert_eq!(open(&mut inodes, renewed, 11, 7), Opened::Unchanged);
    inodes.close(renewed);
    inodes.closed(renewed);
    assert_eq!(open(&mut inodes, renewed, 12, 8), Opened::Outdated);
    // The kernel forgets the first, and then the other.
    inodes.forget(number, 1);
    assert_eq!(inodes.number(&handle(1)), Some(renewed));
    inodes.forget(renewed, 2);
    assert_eq!(inodes.number(&handle(1)), None);
    assert_eq!(inodes.unstable.len(), 1, "only the root is known");
}

#[test]
fn a_file_keeps_its_number_for_a_process_that_is_about_to_open_it() {
    let mut inodes = Inodes::new(handle(0), true);
    let (number, _) = report(&mut inodes, 1, &file(77, 10));
    // During an open, other processes may look it up.
    inodes.opening(number);
    assert_eq!(report(&mut inodes, 1, &file(77, 11)).0, number);
    let now = at(1);
    assert_eq!(
        inodes.open(number, &file(77, 11), PROCESS, now),
        Opened::Outdated
    );
    inodes.opening_ended(number);
    let (renewed, _) = report_to(&mut inodes, 1, &file(77, 12), PROCESS, now);
    assert_ne!(renewed, number);
    // The process has looked it up, and comes back.
    assert_eq!(report(&mut inodes, 1, &file(77, 13)).0, renewed);
    assert_eq!(
        inodes.open(renewed, &file(77, 14), PROCESS, now),
        Opened::Changed
    );
    inodes.close(renewed);
    inodes.closed(renewed);
    // If it does not come back in time, the number is free to be replaced.
    assert_eq!(
        inodes.open(renewed, &file(77, 15), PROCESS, now),
        Opened::Outdated
    );
    report_to(&mut inodes, 1, &file(77, 12), PROCESS, now);
    let (last, _) = report_to(&mut inodes, 1, &file(77, 16), NOBODY, at(3000));
    assert_ne!(last, renewed);
}

#[test]
fn a_file_that_changes_all_the_time_can_be_opened() {
    let mut inodes = Inodes::new(handle(0), true);
    let (number, _) = report(&mut inodes, 1, &file(77, 10));
    let now = at(1);
    assert_eq!(
        inodes.open(number, &file(77, 11), PROCESS, now),
        Opened::Outdated
    );
    // The kernel may forget it before it looks it up.
    inodes.forget(number, 1);
    let (number, _) = report_to(&mut inodes, 1, &file(77, 12), PROCESS, now);
    assert_eq!(
        inodes.open(number, &file(77, 13), PROCESS, now),
        Opened::Changed
    );
    inodes.close(number);
    // The kernel's last attributes are known to be old.
    assert_eq!(
        inodes.open(number, &file(77, 13), PROCESS, now),
        Opened::Outdated
    );
}

#[test]
fn a_file_that_replaced_another_is_kept_for_the_process_that_comes_back_for_it() {
    for kernel_caches in [true, false] {
        let mut inodes = Inodes::new(handle(0), kernel_caches);
        inodes.refuse(PROCESS, None, at(0));
        assert!(inodes.is_returning(PROCESS, at(1)));
        let (number, _) = report_to(&mut inodes, 2, &file(78, 10), PROCESS, at(1));
        assert_eq!(inodes.is_kept(&handle(2), at(900)), Kept::Awaited(number));
        let opened = inodes.open(number, &file(78, 11), PROCESS, at(900));
        assert_eq!(opened, Opened::Changed);
        assert_eq!(inodes.is_kept(&handle(2), at(901)), Kept::Open);
        assert!(!inodes.is_returning(PROCESS, at(901)));
        inodes.close(number);
        inodes.closed(number);
        assert_eq!(inodes.is_kept(&handle(2), at(902)), Kept::No);
    }
}

#[test]
fn each_process_that_opens_a_changing_file_succeeds_at_its_second_attempt() {
    let mut inodes = Inodes::new(handle(0), true);
    let (number, _) = report(&mut inodes, 1, &file(77, 10));
    for process in 1..4 {
        let opened = inodes.open(number, &file(77, 11), process, at(1));
        assert_eq!(opened, Opened::Outdated);
    }
    let reported: Vec<_> = (1..4)
        .zip(20..)
        .map(|(process, size)| report_to(&mut inodes, 1, &file(77, size), process, at(2)).0)
        .collect();
    for (process, number) in (1..4).zip(reported) {
        let opened = inodes.open(number, &file(77, 30), process, at(3));
        assert_eq!(opened, Opened::Changed);
        inodes.close(number);
    }
}

#[test]
fn attributes_from_before_an_own_write_are_ignored() {
    for kernel_caches in [true, false] {
        let mut inodes = Inodes::new(handle(0), kernel_caches);
        let (number, generation) = report(&mut inodes, 1, &file(77, 10));
        let asked = inodes.epoch();
        assert!(!inodes.knows_better(&handle(1), asked));
        // Opened, written to and closed while a lookup of before is still on its way.
        inodes.open_new(number);
        inodes.changed(number, &file(77, 20));
        inodes.close(number);
        inodes.closed(number);
        assert!(inodes.knows_better(&handle(1), asked));
        let old = Fetched {
            attributes: file(77, 10),
            asked,
        };
        assert_eq!(
            inodes.report(&handle(1), &old, NOBODY, at(0)),
            (number, generation)
        );
        inodes.reported(number, &old);
        let opened = inodes.open(number, &file(77, 20), PROCESS, at(1));
        assert_eq!(opened, Opened::Unchanged, "{kernel_caches}");
        // Simultaneous lookups with equal attributes do not overtake each other.
        let asked = inodes.epoch();
        report(&mut inodes, 1, &file(77, 20));
        let equal = Fetched {
            attributes: file(77, 20),
            asked,
        };
        inodes.reported(number, &equal);
        assert!(!inodes.knows_better(&handle(1), asked));
        // Also where the kernel has forgotten the file meanwhile.
        inodes.changed(number, &file(77, 30));
        inodes.close(number);
        inodes.closed(number);
        inodes.forget(number, 9);
        assert_eq!(inodes.number(&handle(1)), None);
        assert!(inodes.knows_better(&handle(1), asked));
        assert!(!inodes.knows_better(&handle(1), inodes.epoch()));
    }
}

#[test]
fn our_own_changes_and_open_files_are_not_outdated() {
    let mut inodes = Inodes::new(handle(0), true);
    let (number, generation) = report(&mut inodes, 1, &file(77, 10));
    inodes.changed(number, &file(77, 20));
    assert_eq!(report(&mut inodes, 1, &file(77, 20)).1, generation);
    assert_eq!(
        inodes.open(number, &file(77, 20), PROCESS, at(900)),
        Opened::Unchanged
    );
    assert_eq!(report(&mut inodes, 1, &file(77, 30)).1, generation);
    assert_eq!(
        inodes.open(number, &file(77, 30), PROCESS, at(900)),
        Opened::Changed
    );
    inodes.close(number);
    assert_eq!(inodes.open_number(&handle(1)), Some(number));
    inodes.close(number);
    assert_eq!(inodes.open_number(&handle(1)), None);
}

#[test]
fn without_the_kernels_cache_a_lookup_is_enough() {
    let mut inodes = Inodes::new(handle(0), false);
    let reported = report(&mut inodes, 1, &file(77, 10));
    assert_eq!(
        inodes.open(reported.0, &file(77, 11), PROCESS, at(500)),
        Opened::Outdated
    );
    assert_eq!(report(&mut inodes, 1, &file(77, 11)), reported);
    assert_eq!(
        inodes.open(reported.0, &file(77, 11), PROCESS, at(502)),
        Opened::Unchanged
    );
}
