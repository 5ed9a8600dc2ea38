//! A served volume gets second copies of its data, and loses them again.
#![allow(clippy::unwrap_used)]

use crate::common;

use common::{Bed, FILLING_TIME_MAX, noise, read, root, until, write};
use gannet_meta::groups::put_group;
use gannet_runtime::{sleep, timeout};
use gannet_sim::{Crash, World};
use gannet_vfs::{Credentials, FileHandle, SetAttributes, Status, Vfs};
use gannet_volume::client::VolumeFs;
use gannet_wire::volume::{Chosen, CopiesOutcome, CopiesWanted, GroupRecord, Stripes};
use std::rc::Rc;
use std::time::Duration;

const TWO: CopiesWanted = CopiesWanted {
    copies: 2,
    same_host: true,
    min_copies: 1,
};
const ONE: CopiesWanted = CopiesWanted {
    copies: 1,
    same_host: false,
    min_copies: 1,
};
/// Files of each test, and bytes of each.
const FILES: u32 = 8;
const LEN: usize = 50_000;

/// Sets the number of copies; returns the outcome, and the number that belongs to it.
async fn set(fs: &VolumeFs, wanted: CopiesWanted) -> (CopiesOutcome, u32) {
    let answer = fs.set_copies(&root(), wanted).await.unwrap();
    (answer.outcome, answer.number)
}

fn done(number: u32) -> (CopiesOutcome, u32) {
    (CopiesOutcome::Done, number)
}

/// Files whose stripes begin on each server in turn.
async fn files(fs: &VolumeFs, servers: u32) -> Vec<FileHandle> {
    let mut files = Vec::new();
    for number in 0..FILES {
        let first = number % servers;
        let on = Chosen::From { first, width: 2 };
        let stripes = Stripes {
            unit: 4096,
            on,
            copies: None,
        };
        let (name, plain) = (format!("file {number}"), SetAttributes::default());
        let (caller, at) = (root(), fs.root());
        let made = fs.create_striped(&caller, &at, name.as_bytes(), &plain, stripes);
        let file = made.await.unwrap();
        write(fs, &file, 0, &noise(LEN, number as u8))
            .await
            .unwrap();
        files.push(file);
    }
    files
}

/// Reads all files, each with the seed of its number and `more`.
async fn check(fs: &VolumeFs, files: &[FileHandle], more: u8) {
    for (number, file) in (0..).zip(files) {
        let expected = noise(LEN, number + more);
        assert!(read(fs, file, 0, LEN).await == expected, "file {number}");
    }
}

fn run(servers: usize, story: impl AsyncFnOnce(Rc<Bed>) + 'static) {
    let world = World::new(42);
    let bed = Bed::new(&world, servers);
    world.run(story(bed)).unwrap();
}

/// Writes a file again and again, and reads it back each time.
async fn keep_writing(fs: &VolumeFs, runtime: &gannet_runtime::Handle) {
    let file = files(fs, 2).await[0];
    for round in (0..u8::MAX).cycle() {
        let bytes = noise(LEN, round);
        write(fs, &file, 0, &bytes).await.unwrap();
        assert!(read(fs, &file, 0, LEN).await == bytes, "round {round}");
        sleep(runtime, Duration::from_millis(10)).await;
    }
}

#[test]
fn files_outlive_a_server_once_copies_were_added() {
    // Four servers have four groups each; three are a volume of an earlier release, with one group each.
    for (servers, groups) in [(4, 16), (3, 3)] {
        run(servers, async move |bed| {
            let fs = bed.mount();
            let files = files(&fs, servers as u32).await;
            assert_eq!(set(&fs, TWO).await, done(groups));
            bed.is_whole().await;
            assert_eq!(set(&fs, TWO).await, done(0));
            check(&fs, &files, 0).await;
            // What was written afterwards is there twice, too.
            for (number, file) in (1..).zip(&files[1..]) {
                write(&fs, file, 0, &noise(LEN, number + 100))
                    .await
                    .unwrap();
            }
            write(&fs, &files[0], 0, &noise(LEN, 100)).await.unwrap();
            // A client that knew each group with one member finds the other one.
            bed.without_each_in_turn(async || check(&fs, &files, 100).await)
                .await;
        });
    }
}

#[test]
fn writes_go_on_while_copies_come_and_go() {
    run(2, async |bed| {
        let (fs, writer) = (bed.mount(), bed.mount());
        let runtime = bed.client.runtime();
        let story = async {
            sleep(&runtime, Duration::from_secs(1)).await;
            for _ in 0..3 {
                assert_eq!(set(&fs, TWO).await, done(8));
                bed.is_whole().await;
                sleep(&runtime, Duration::from_secs(1)).await;
                assert_eq!(set(&fs, ONE).await, done(8));
                // Also of members that are not filled yet.
                assert_eq!(set(&fs, TWO).await, done(8));
                sleep(&runtime, Duration::from_millis(50)).await;
                assert_eq!(set(&fs, ONE).await, done(8));
                sleep(&runtime, Duration::from_secs(1)).await;
            }
            assert_eq!(set(&fs, ONE).await, done(0));
        };
        until(story, keep_writing(&writer, &runtime)).await;
    });
}

#[test]
fn copies_that_were_taken_away_are_not_read_again() {
    run(2, async |bed| {
        let (fs, files) = (bed.mount(), files(&bed.mount(), 2).await);
        assert_eq!(set(&fs, TWO).await, done(8));
        bed.is_whole().await;
        assert_eq!(set(&fs, ONE).await, done(8));
        for (number, file) in (100..).zip(&files) {
            write(&fs, file, 0, &noise(LEN, number)).await.unwrap();
        }
        fs.remove(&root(), &fs.root(), b"file 7")
            .await
            .result
            .unwrap();
        bed.kill_manager(Crash::Process);
        bed.start_manager();
        check(&bed.mount(), &files[..7], 100).await;
        // They are copied again.
        assert_eq!(set(&fs, TWO).await, done(8));
        bed.is_whole().await;
        bed.turn_groups();
        check(&bed.mount(), &files[..7], 100).await;
    });
}

#[test]
fn members_that_metadata_of_a_backup_do_not_know_come_back() {
    run(2, async |bed| {
        let (fs, files) = (bed.mount(), files(&bed.mount(), 2).await);
        assert_eq!(set(&fs, TWO).await, done(8));
        bed.is_whole().await;
        bed.kill_manager(Crash::Process);
        bed.damage(&mut |it| {
            (0..8).try_for_each(|number| put_group(it, number, &GroupRecord::of(number % 2)))
        });
        bed.start_manager();
        let fs = bed.mount();
        check(&fs, &files, 0).await;
        for (number, file) in (100..).zip(&files) {
            write(&fs, file, 0, &noise(LEN, number)).await.unwrap();
        }
        bed.is_whole().await;
        bed.turn_groups();
        check(&bed.mount(), &files, 100).await;
    });
}

/// After which a server that does not answer may be given up.
const GONE: Duration = Duration::from_secs(15);

async fn stale(fs: &VolumeFs) -> Vec<u32> {
    fs.stale_groups(&root(), vec![]).await.unwrap()
}

#[test]
fn a_member_that_has_got_nothing_yet_is_no_older_copy() {
    run(2, async |bed| {
        let (fs, runtime) = (bed.mount(), bed.client.runtime());
        let file = files(&fs, 2).await[0];
        fs.commit(&root(), &file, 0, 0).await.result.unwrap();
        bed.kill_io_server(1);
        bed.start_io_server(1);
        sleep(&runtime, Duration::from_secs(1)).await;
        set(&fs, TWO).await;
        bed.kill_io_server(0);
        sleep(&runtime, GONE).await;
        let lacking = bed.group_that_lacks_a_copy();
        assert!(lacking.is_some());
        assert!(stale(&fs).await.is_empty());
        bed.start_io_server(0);
        bed.is_whole().await;
        assert!(read(&fs, &file, 0, LEN).await == noise(LEN, 0));
    });
}

#[test]
fn an_older_copy_counts_once_it_is_accepted() {
    for loses_disk in [true, false] {
        run(2, async move |bed| {
            let (fs, runtime) = (bed.mount(), bed.client.runtime());
            let files = files(&fs, 2).await;
            for file in &files {
                fs.commit(&root(), file, 0, 0).await.result.unwrap();
            }
            set(&fs, TWO).await;
            bed.is_whole().await;
            assert!(stale(&fs).await.is_empty());
            // Server 1 misses what is written now, and then has the only copy.
            bed.kill_io_server(1);
            write(&fs, &files[0], 0, &noise(LEN, 200)).await.unwrap();
            assert!(stale(&fs).await.is_empty());
            bed.kill_io_server(0);
            if loses_disk {
                // What it has said of its disk is heard again.
                bed.kill_manager(Crash::Process);
                bed.start_manager();
                bed.start_on_a_new_disk(0);
            }
            bed.start_io_server(1);
            sleep(&runtime, GONE).await;
            let stranger = Credentials::new(7, 7, &[]);
            let fs = bed.mount();
            let shown = fs.stale_groups(&stranger, vec![]).await.unwrap();
            assert_eq!(shown.len(), 8, "{shown:?}");
            let refused = fs.stale_groups(&stranger, shown.clone()).await;
            assert_eq!(refused, Err(Status::Perm));
            let first = fs.stale_groups(&root(), vec![shown[0]]).await;
            assert_eq!(first, Ok(vec![shown[0]]), "no others are given up");
            assert_eq!(stale(&fs).await, shown[1..]);
            let accepted = fs.stale_groups(&root(), shown[1..].to_vec()).await;
            assert_eq!(accepted.unwrap(), shown[1..]);
            check(&fs, &files, 0).await;
            write(&fs, &files[0], 0, &noise(LEN, 201)).await.unwrap();
            if !loses_disk {
                bed.start_io_server(0);
            }
            bed.is_whole().await;
            assert!(stale(&fs).await.is_empty());
            // What server 0 had alone is gone for good.
            bed.kill_io_server(1);
            let reading = read(&fs, &files[0], 0, LEN);
            let reading = timeout(&runtime, FILLING_TIME_MAX, reading).await;
            assert!(reading.unwrap() == noise(LEN, 201));
        });
    }
}

#[test]
fn an_empty_disk_is_no_older_copy() {
    run(2, async |bed| {
        let (fs, runtime) = (bed.mount(), bed.client.runtime());
        set(&fs, TWO).await;
        bed.is_whole().await;
        bed.kill_io_server(1);
        let file = files(&fs, 2).await[0];
        fs.commit(&root(), &file, 0, 0).await.result.unwrap();
        bed.start_on_a_new_disk(1);
        bed.kill_io_server(0);
        sleep(&runtime, GONE).await;
        // Server 1 is being filled, or was about to be: it has lost what it had.
        assert!(bed.group_that_lacks_a_copy().is_some());
        assert!(stale(&fs).await.is_empty());
        bed.start_io_server(0);
        bed.is_whole().await;
        assert!(read(&fs, &file, 0, LEN).await == noise(LEN, 0));
        // Filled, it has an older copy again once it misses something.
        bed.kill_io_server(1);
        write(&fs, &file, 0, &noise(LEN, 1)).await.unwrap();
        sleep(&runtime, GONE).await;
        bed.kill_io_server(0);
        bed.start_io_server(1);
        sleep(&runtime, GONE).await;
        assert_eq!(stale(&fs).await.len(), 8);
    });
}

#[test]
fn writes_wait_for_both_copies_where_two_are_needed() {
    run(2, async |bed| {
        let (fs, runtime) = (bed.mount(), bed.client.runtime());
        let files = files(&fs, 2).await;
        let file = files[0];
        let both = CopiesWanted {
            min_copies: 2,
            ..TWO
        };
        assert_eq!(set(&fs, both).await, done(8));
        write(&fs, &file, 0, &noise(LEN, 1)).await.unwrap();
        bed.is_whole().await;
        bed.kill_io_server(1);
        sleep(&runtime, Duration::from_secs(5)).await;
        let (bytes, cut) = (
            noise(LEN, 2),
            SetAttributes {
                size: Some(10),
                ..SetAttributes::default()
            },
        );
        let caller = root();
        let writing = write(&fs, &file, 0, &bytes);
        let waits = timeout(&runtime, Duration::from_secs(5), writing).await;
        assert!(waits.is_err(), "{waits:?}");
        let cutting = fs.set_attributes(&caller, &files[1], &cut, None);
        let waits = timeout(&runtime, Duration::from_secs(5), cutting).await;
        assert!(waits.is_err());
        let other = bed.mount();
        assert!(read(&other, &file, 0, LEN).await == noise(LEN, 1));
        // A manager that begins anew has not forgotten it.
        let writing = write(&fs, &file, 0, &bytes);
        bed.kill_manager(Crash::Process);
        bed.start_manager();
        bed.start_io_server(1);
        let written = timeout(&runtime, FILLING_TIME_MAX, writing).await;
        written.unwrap().unwrap();
        bed.is_whole().await;
        // One is enough from now on.
        assert_eq!(set(&fs, TWO).await, done(0));
        bed.kill_io_server(1);
        write(&fs, &file, 0, &noise(LEN, 3)).await.unwrap();
    });
}

#[test]
fn servers_of_different_hosts_are_different_zones() {
    run(2, async |bed| {
        let fs = bed.mount();
        let shown = async |copies, same_host| {
            let wanted = CopiesWanted {
                copies,
                same_host,
                ..TWO
            };
            let answer = fs.set_copies(&root(), wanted).await.unwrap();
            assert_eq!(answer.outcome, CopiesOutcome::Done);
            (answer.number, answer.same_host, answer.in_one_zone)
        };
        // Each has registered from a machine of its own.
        assert_eq!(shown(2, false).await, (8, false, 0));
        assert_eq!(shown(2, true).await, (0, true, 0));
        let stranger = Credentials::new(7, 7, &[]);
        let asked = CopiesWanted { copies: 0, ..ONE };
        assert!(fs.set_copies(&stranger, asked).await.unwrap().same_host);
        assert_eq!(shown(1, false).await, (8, false, 0));
    });
}

#[test]
fn who_may_not_change_copies_and_what_cannot_have_them_is_refused() {
    run(2, async |bed| {
        let fs = bed.mount();
        let stranger = Credentials::new(7, 7, &[]);
        assert_eq!(fs.set_copies(&stranger, TWO).await, Err(Status::Perm));
        bed.kill_io_server(1);
        let refused = set(&fs, TWO).await;
        assert_eq!(refused, (CopiesOutcome::Away, 1));
        bed.start_on_a_new_disk(1);
        let file = files(&fs, 2).await[1];
        let refused = set(&fs, TWO).await;
        assert_eq!(refused, (CopiesOutcome::LostDisk, 1));
        assert!(read(&fs, &file, 0, LEN).await == noise(LEN, 1));
    });
    run(1, async |bed| {
        let refused = set(&bed.mount(), TWO).await;
        assert_eq!(refused, (CopiesOutcome::OneServer, 0));
    });
}
