//! What a member gets that was away: a copy of what may have changed meanwhile, and no more.

use super::copies::{
    Fate, GROUP, Pair, SERVERS, bytes_at, name, object_range, open, record, run_pair, write_at,
};
use super::*;
use crate::limits::SETTLE_AFTER;
use crate::write_intents::FORM;
use gannet_runtime::{both, sleep};
use gannet_sim::store::DiskProfile;
use gannet_wire::volume::{MemberState, Replicated};

/// Files in as many buckets.
const FILES: u64 = 20;

/// The words of a member that has everything that it had.
const HAS_ALL: Replicated = Replicated {
    verifier: 0,
    kept_in: u64::MAX,
    settled: u64::MAX,
};

/// The file in bucket `number`.
fn file(number: u64) -> u64 {
    64 * number
}

fn with_member(epoch: u64, state: MemberState) -> Memberships {
    let mut told = record(epoch, SERVERS);
    told.groups[0].record.members[1].state = state;
    told
}

impl Pair {
    /// Writes files, and waits until the members are settled.
    async fn settle_files(&self) {
        for number in 0..FILES {
            let bytes = vec![number as u8; 100];
            self.write(file(number), 0, bytes).await.unwrap();
        }
        self.settle().await;
    }

    async fn settle(&self) {
        sleep(&self.way.runtime, SETTLE_AFTER).await;
        self.primary.settle(GROUP).await.unwrap();
    }

    /// The member is out, and is filled then. Gives how many changes were passed on for that.
    async fn fill_again(&self, epoch: u64) -> usize {
        self.both_hear(with_member(epoch, MemberState::Filling))
            .await;
        let before = self.way.passed.get();
        self.primary.fill(GROUP, epoch).await.unwrap();
        let passed = self.way.passed.get() - before;
        self.both_hear(record(epoch + 1, SERVERS)).await;
        passed
    }

    /// Whether a bucket is marked at the primary, and at the member.
    fn marks(&self, number: u64) -> [bool; 2] {
        [&self.primary, &self.member()].map(|it| is_marked(it, number))
    }
}

fn is_marked(objects: &SimObjects, number: u64) -> bool {
    let marked = objects.intents.to_copy(GROUP, Some(HAS_ALL));
    marked.has(file(number))
}

#[test]
fn a_member_that_was_away_gets_what_changed_meanwhile() {
    run_pair(async |pair| {
        pair.settle_files().await;
        assert_eq!(pair.marks(3), [false; 2]);
        pair.both_hear(with_member(2, MemberState::Out)).await;
        pair.write(file(3), 50, vec![99; 100]).await.unwrap();
        pair.write(file(30), 0, vec![98; 7]).await.unwrap();
        let removed = object_range(file(5), 0);
        pair.primary.unlink(&removed).await.unwrap();
        let (cut, size) = (file(6), 10);
        pair.primary
            .truncate(&object_range(cut, size))
            .await
            .unwrap();
        // Greet, discard; length, bytes, time and sync of three.
        assert_eq!(pair.fill_again(3).await, 2 + 4 * 3);
        assert_eq!(
            pair.bytes(file(3)).await,
            [vec![3; 50], vec![99; 100]].concat()
        );
        assert_eq!(pair.bytes(file(30)).await, [98; 7]);
        assert_eq!(pair.bytes(file(5)).await, []);
        assert_eq!(pair.bytes(cut).await, [6; 10]);
        for number in 7..FILES {
            assert_eq!(pair.bytes(file(number)).await, [number as u8; 100]);
        }
        // What was copied need not be made durable again.
        let passed = pair.way.passed.get();
        pair.settle().await;
        assert_eq!(
            pair.way.passed.get() - passed,
            1,
            "one message takes the marks back"
        );
        assert_eq!(pair.marks(30), [false; 2]);
    });
}

#[test]
fn what_is_settled_outlives_the_power_of_both() {
    run_pair(async |pair| {
        pair.settle_files().await;
        pair.disks.iter().for_each(|disk| disk.crash());
        for (at, disk) in pair.disks.iter().enumerate() {
            let again = open(&pair.nodes[at], disk, SERVERS[at]);
            again.load_notes().await.unwrap();
            for number in 0..FILES {
                assert_eq!(bytes_at(&again, file(number)).await, [number as u8; 100]);
            }
        }
    });
}

#[test]
fn marks_outlive_the_power_of_both() {
    run_pair(async |pair| {
        pair.settle_files().await;
        pair.write(file(3), 0, vec![99]).await.unwrap();
        assert_eq!(pair.marks(3), [true; 2]);
        pair.disks.iter().for_each(|disk| disk.crash());
        for (at, disk) in pair.disks.iter().enumerate() {
            let again = open(&pair.nodes[at], disk, SERVERS[at]);
            again.load_notes().await.unwrap();
            assert!(is_marked(&again, 3));
            assert!(!is_marked(&again, 4));
        }
    });
}

#[test]
fn a_member_without_its_disk_gets_everything() {
    run_pair(async |pair| {
        pair.settle_files().await;
        pair.both_hear(with_member(2, MemberState::Out)).await;
        pair.disks[1].replace();
        let again = open(&pair.nodes[1], &pair.disks[1], SERVERS[1]);
        again.note_lost(file(FILES));
        again.load_notes().await.unwrap();
        pair.way.member.replace(again);
        pair.both_hear(with_member(2, MemberState::Out)).await;
        // The first attempt comes to nothing, also for the next process.
        pair.both_hear(with_member(3, MemberState::Filling)).await;
        pair.both_hear(with_member(4, MemberState::Out)).await;
        let again = open(&pair.nodes[1], &pair.disks[1], SERVERS[1]);
        again.load_notes().await.unwrap();
        pair.way.member.replace(again);
        pair.both_hear(with_member(4, MemberState::Out)).await;
        assert!(pair.fill_again(5).await > FILES as usize);
        for number in 0..FILES {
            assert_eq!(pair.bytes(file(number)).await, [number as u8; 100]);
        }
    });
}

#[test]
fn a_member_that_takes_over_without_everything_marks_everything() {
    run_pair(async |pair| {
        pair.settle_files().await;
        pair.both_hear(with_member(2, MemberState::Out)).await;
        // The operator accepts its older copy.
        let mut alone = record(3, [SERVERS[1], SERVERS[0]]);
        alone.groups[0].record.members[1].state = MemberState::Out;
        let member = pair.member();
        member.learn_groups(alone).await.unwrap();
        assert!((0..FILES).all(|number| is_marked(&member, number)));
    });
}

#[test]
fn a_change_waits_until_its_mark_has_been_taken_back_at_both() {
    run_pair(async |pair| {
        pair.settle_files().await;
        pair.write(file(3), 0, vec![98]).await.unwrap();
        sleep(&pair.way.runtime, SETTLE_AFTER).await;
        // The sync, and what takes the mark back.
        pair.fates(&[Fate::Slow(1), Fate::Slow(3000)]);
        let begun = pair.way.runtime.now();
        let writing = async {
            sleep(&pair.way.runtime, Duration::from_millis(100)).await;
            pair.write(file(3), 0, vec![99]).await.unwrap();
            pair.way.runtime.now().duration_since(begun)
        };
        let (settled, took) = both(pair.primary.settle(GROUP), writing).await;
        settled.unwrap();
        assert!(took >= Duration::from_secs(3), "{took:?}");
        assert_eq!(pair.marks(3), [true; 2]);
        pair.settle().await;
        assert_eq!(pair.marks(3), [false; 2]);
    });
}

#[test]
fn objects_that_change_or_differ_are_not_settled() {
    run_pair(async |pair| {
        pair.settle_files().await;
        pair.write(file(3), 0, vec![8]).await.unwrap();
        // The member has the next bytes, the primary does not, and cannot copy its own.
        pair.disks[0].set_profile(DiskProfile {
            no_space_per_mille: 1000,
            ..DiskProfile::default()
        });
        pair.fates(&[Fate::Slow(1)]);
        pair.fates(&[Fate::Lost; 100]);
        let refused = pair.write(file(3), 0, vec![9; 100]).await;
        assert_eq!(refused, Err(Status::Nospc));
        pair.disks[0].set_profile(DiskProfile::default());
        assert!(pair.primary.has_uneven());
        pair.settle().await;
        assert!(pair.marks(3)[0]);
    });
}

#[test]
fn without_its_note_a_member_copies_everything() {
    run_pair(async |pair| {
        pair.settle_files().await;
        let noise = vec![7; 2 * FORM.place_len];
        let store = &pair.primary.store;
        let noted = store.write_note(FORM.name, 0, noise, Stability::FileSync);
        noted.await.unwrap();
        let again = open(&pair.nodes[0], &pair.disks[0], SERVERS[0]);
        again.load_notes().await.unwrap();
        let wanted = again.intents.to_copy(GROUP, Some(HAS_ALL));
        assert!((0..FILES).all(|number| wanted.has(file(number))));
        assert!(name(7).group == GROUP);
    });
}

#[test]
fn a_member_that_takes_over_serves_at_once_what_the_primary_has_stored() {
    run_pair(async |pair| {
        pair.write(7, 0, vec![1; 100]).await.unwrap();
        pair.write(8, 0, vec![2; 100]).await.unwrap();
        // The right is asked for again, and what is over is said with that.
        sleep(&pair.way.runtime, Duration::from_millis(600)).await;
        let member = pair.member();
        // The member has these bytes, and the primary stores its own long after.
        pair.disks[0].set_profile(DiskProfile {
            slow_per_mille: 1000,
            delay_max_ns: 60_000_000_000,
            ..DiskProfile::default()
        });
        let writing = async { pair.write(7, 50, vec![3; 100]).await };
        let taking_over = async {
            while bytes_at(&member, 7).await.len() < 150 {
                sleep(&pair.way.runtime, Duration::from_millis(1)).await;
            }
            let mut alone = record(2, [SERVERS[1], SERVERS[0]]);
            alone.groups[0].record.members[1].state = MemberState::Out;
            member.learn_groups(alone).await.unwrap();
            let may_read = |file, bytes| member.may_read(name(file), || bytes);
            assert_eq!(member.may_serve(GROUP), Err(Status::Jukebox));
            assert_eq!(may_read(7, 0..50), Ok(()));
            assert_eq!(may_read(8, 0..u64::MAX), Ok(()));
            assert_eq!(may_read(7, 0..51), Err(Status::Jukebox));
            let told = member.state_of_named(name(8)).await;
            assert_eq!(told.map(|state| state.size), Ok(100));
            assert_eq!(member.state_of_named(name(7)).await, Err(Status::Jukebox));
            sleep(&pair.way.runtime, Duration::from_millis(2100)).await;
            assert_eq!(may_read(7, 0..51), Ok(()));
        };
        let (_, ()) = both(writing, taking_over).await;
    });
}

#[test]
fn times_do_not_fall_when_a_member_with_a_slow_clock_takes_over() {
    run_pair(async |pair| {
        pair.faults.set_clock(pair.nodes[1].id(), -20);
        pair.write(7, 0, vec![1; 100]).await.unwrap();
        pair.write(8, 0, vec![1; 100]).await.unwrap();
        let member = pair.member();
        let time = async |file| {
            let state = member.state_of_named(name(file)).await.unwrap();
            state.modified
        };
        let mut alone = record(2, [SERVERS[1], SERVERS[0]]);
        alone.groups[0].record.members[1].state = MemberState::Out;
        member.learn_groups(alone).await.unwrap();
        sleep(&pair.way.runtime, Duration::from_millis(2100)).await;
        let before = time(8).await;
        write_at(&member, 7, 0, vec![2]).await.unwrap();
        assert!(time(7).await >= before);
        member.truncate(&object_range(8, 5)).await.unwrap();
        assert!(time(8).await >= before);
        // Its own clock counts once it is later.
        sleep(&pair.way.runtime, Duration::from_secs(60)).await;
        write_at(&member, 7, 0, vec![3]).await.unwrap();
        assert!(time(7).await > before);
    });
}

#[test]
fn holes_are_copied_as_holes() {
    run_pair(async |pair| {
        pair.settle_files().await;
        pair.write(7, 0, vec![7; 50_000]).await.unwrap();
        pair.both_hear(with_member(2, MemberState::Out)).await;
        let (cut, size) = (object_range(7, 10), object_range(7, 60_000));
        pair.primary.truncate(&cut).await.unwrap();
        pair.primary.truncate(&size).await.unwrap();
        pair.write(8, 50 << 20, vec![8; 10]).await.unwrap();
        let data = Rc::clone(&pair.way.data);
        let before = data.get();
        pair.fill_again(3).await;
        assert!(
            data.get() - before < 3 << 20,
            "{} bytes",
            data.get() - before
        );
        // What the member had in place of a hole does not stay.
        assert_eq!(pair.bytes(7).await, [vec![7; 10], vec![0; 59_990]].concat());
        let member = pair.member();
        let found = member.find_any(name(8)).await.unwrap();
        let state = member.state_of(found.as_ref()).await.unwrap();
        assert_eq!(state.size, (50 << 20) + 10);
    });
}

#[test]
fn an_older_image_of_a_disk_gets_everything() {
    run_pair(async |pair| {
        pair.settle_files().await;
        let said = pair.member().intents.replicated(GROUP, 0);
        assert_eq!(said.settled, pair.primary.intents.settled(GROUP));
        let wanted = |said| pair.primary.intents.to_copy(GROUP, Some(said));
        assert!(wanted(said).is_empty());
        // The image is from the same epoch, and before the last marks were taken back.
        let older = Replicated {
            settled: said.settled - 1,
            ..said
        };
        assert!(wanted(older).has(file(3)));
    });
}

#[test]
fn a_member_whose_disk_has_failed_gets_everything_and_settles_nothing() {
    run_pair(async |pair| {
        pair.settle_files().await;
        let member = pair.member();
        let failed = member.own_failure(GROUP, Status::Io);
        assert_eq!(failed, Status::Io);
        assert!(member.has_failing_disk());
        assert_eq!(member.intents.replicated(GROUP, 0).kept_in, 0);
        // That it is in says nothing new of what it lost.
        pair.both_hear(record(2, SERVERS)).await;
        assert_eq!(member.intents.replicated(GROUP, 0).kept_in, 0);
        pair.both_hear(with_member(3, MemberState::Out)).await;
        assert!(pair.fill_again(4).await > FILES as usize);
        assert_eq!(member.intents.replicated(GROUP, 0).kept_in, 5);
        // The primary gives its part away, and its callers try again.
        pair.write(file(3), 0, vec![99]).await.unwrap();
        assert_eq!(pair.primary.own_failure(GROUP, Status::Io), Status::Jukebox);
        pair.settle().await;
        assert!(pair.marks(3)[0]);
    });
}

#[test]
fn a_member_that_was_alone_without_the_other_ones_knowledge_gets_everything() {
    run_pair(async |pair| {
        pair.settle_files().await;
        pair.both_hear(with_member(2, MemberState::Out)).await;
        let mut turned = record(3, [SERVERS[1], SERVERS[0]]);
        turned.groups[0].record.members[1].state = MemberState::Out;
        pair.primary.learn_groups(turned).await.unwrap();
        assert_eq!(pair.primary.intents.replicated(GROUP, 0).kept_in, 0);
    });
}
