//! Directories that choose how many I/O servers keep each byte of their files.
#![allow(clippy::unwrap_used)]

use crate::common;

use common::{Bed, FILLING_TIME_MAX, noise, read, root, write};
use gannet_runtime::{sleep, timeout};
use gannet_sim::{Crash, World};
use gannet_vfs::{Credentials, FileHandle, SetAttributes, Status, Vfs};
use gannet_volume::client::{Striping, VolumeFs};
use gannet_wire::volume::{Chosen, Copies, CopiesWanted, Stripes};
use std::rc::Rc;
use std::time::Duration;

const LEN: usize = 50_000;

fn stripes(copies: Option<Copies>) -> Stripes {
    Stripes {
        unit: 4096,
        on: Chosen::InTurn(2),
        copies,
    }
}

async fn make(fs: &VolumeFs, at: &FileHandle, name: &str, uid: u32) -> FileHandle {
    let own = SetAttributes {
        uid: Some(uid),
        ..SetAttributes::default()
    };
    let made = fs.make_directory(&root(), at, name.as_bytes(), &own).await;
    made.result.unwrap().handle
}

async fn directory(fs: &VolumeFs, name: &str, copies: Option<Copies>) -> FileHandle {
    let (caller, made) = (root(), make(fs, &fs.root(), name, 0).await);
    let stripes = copies.map(|it| stripes(Some(it)));
    fs.set_striping(&caller, &made, stripes).await.unwrap();
    made
}

/// A file in a directory, with its bytes.
async fn file(fs: &VolumeFs, directory: &FileHandle, seed: u8) -> FileHandle {
    let (caller, plain) = (root(), SetAttributes::default());
    let name = format!("file {seed}");
    let how = gannet_vfs::CreateMode::Unchecked(plain);
    let made = fs.create(&caller, directory, name.as_bytes(), &how);
    let made = made.await.result.unwrap().handle;
    write(fs, &made, 0, &noise(LEN, seed)).await.unwrap();
    made
}

/// Reads all files, each with the seed beside it.
async fn check(fs: &VolumeFs, files: &[(FileHandle, u8)]) {
    for (file, seed) in files {
        assert!(read(fs, file, 0, LEN).await == noise(LEN, *seed), "{seed}");
    }
}

/// How many members the groups of a file have.
async fn copies_of(fs: &VolumeFs, file: &FileHandle) -> u32 {
    let Striping::File(layout) = fs.striping(&root(), file).await.unwrap() else {
        panic!("a file has a layout");
    };
    let groups = fs.groups().await.unwrap();
    let mut members = (layout.groups.iter()).map(|it| groups.get(*it).unwrap().members.len());
    let first = members.next().unwrap();
    assert!(members.all(|it| it == first), "{layout}");
    first as u32
}

async fn set(fs: &VolumeFs, copies: u32) {
    let wanted = CopiesWanted {
        copies,
        same_host: true,
        min_copies: 1,
    };
    fs.set_copies(&root(), wanted).await.unwrap();
}

fn run(servers: usize, story: impl AsyncFnOnce(Rc<Bed>) + 'static) {
    let world = World::new(42);
    let bed = Bed::new(&world, servers);
    world.run(story(bed)).unwrap();
}

#[test]
fn what_a_directory_chooses_outlives_servers_and_changes_of_the_volume() {
    // Four servers have four groups each; three are a volume of an earlier release, with one group each.
    for servers in [4, 3] {
        run(servers, async move |bed| {
            let fs = bed.mount();
            let plain = file(&fs, &fs.root(), 0).await;
            let twice = directory(&fs, "twice", Some(Copies::Two)).await;
            let once = directory(&fs, "once", Some(Copies::One)).await;
            let below = make(&fs, &twice, "below", 0).await;
            let mut kept = Vec::new();
            for seed in 1..9 {
                kept.push((file(&fs, &twice, seed).await, seed));
            }
            kept.push((file(&fs, &below, 9).await, 9));
            let single = file(&fs, &once, 10).await;
            let copies = [(plain, 1), (kept[0].0, 2), (kept[8].0, 2), (single, 1)];
            for (file, expected) in &copies {
                assert_eq!(copies_of(&fs, file).await, *expected);
            }
            bed.is_whole().await;
            bed.without_each_in_turn(async || check(&fs, &kept).await)
                .await;
            // The volume gets another number, and back; its manager restarts.
            for volume_copies in [2, 1] {
                set(&fs, volume_copies).await;
                bed.is_whole().await;
                assert_eq!(copies_of(&fs, &plain).await, volume_copies);
                for (file, expected) in &copies[1..] {
                    assert_eq!(copies_of(&fs, file).await, *expected);
                }
                bed.kill_manager(Crash::Process);
                bed.start_manager();
                let further = file(&fs, &once, 20 + volume_copies as u8).await;
                assert_eq!(copies_of(&fs, &further).await, 1);
            }
        });
    }
}

#[test]
fn a_file_may_choose_for_itself() {
    run(4, async |bed| {
        let fs = bed.mount();
        let (caller, at, plain) = (root(), fs.root(), SetAttributes::default());
        let chosen = stripes(Some(Copies::Two));
        let made = fs.create_striped(&caller, &at, b"file", &plain, chosen);
        let made = made.await.unwrap();
        assert_eq!(copies_of(&fs, &made).await, 2);
        let other = file(&fs, &at, 1).await;
        assert_eq!(copies_of(&fs, &other).await, 1);
    });
}

#[test]
fn the_first_choice_is_for_those_who_administer_the_volume() {
    run(2, async |bed| {
        let fs = bed.mount();
        let stranger = Credentials::new(7, 7, &[]);
        let own = make(&fs, &fs.root(), "of 7", 7).await;
        let set = async |copies| {
            let chosen = Some(stripes(Some(copies)));
            fs.set_striping(&stranger, &own, chosen).await
        };
        assert_eq!(set(Copies::Two).await, Err(Status::Perm));
        directory(&fs, "first", Some(Copies::Two)).await;
        assert_eq!(set(Copies::Two).await, Ok(()));
        assert_eq!(set(Copies::One).await, Err(Status::Perm));
    });
    run(1, async |bed| {
        let fs = bed.mount();
        let chosen = Some(stripes(Some(Copies::Two)));
        let refused = fs.set_striping(&root(), &fs.root(), chosen).await;
        // One server keeps no two copies.
        assert_eq!(refused, Err(Status::Inval), "two servers are wanted");
        let chosen = Some(Stripes {
            on: Chosen::InTurn(1),
            ..stripes(Some(Copies::Two))
        });
        let refused = fs.set_striping(&root(), &fs.root(), chosen).await;
        assert_eq!(refused, Err(Status::Notsupp));
    });
}

#[test]
fn groups_that_are_opened_while_a_server_is_away_are_served() {
    run(3, async |bed| {
        let (fs, runtime) = (bed.mount(), bed.client.runtime());
        // All have said where they are.
        file(&fs, &fs.root(), 0).await;
        bed.kill_io_server(0);
        sleep(&runtime, Duration::from_secs(3)).await;
        let twice = directory(&fs, "twice", Some(Copies::Two)).await;
        let making = async {
            let mut kept = Vec::new();
            for seed in 1..7 {
                kept.push((file(&fs, &twice, seed).await, seed));
            }
            kept
        };
        let kept = timeout(&runtime, FILLING_TIME_MAX, making).await.unwrap();
        bed.start_io_server(0);
        bed.is_whole().await;
        bed.without_each_in_turn(async || check(&fs, &kept).await)
            .await;
    });
}

#[test]
fn a_smaller_number_of_copies_lets_chosen_ones_wait_for_both() {
    run(2, async |bed| {
        let (fs, runtime) = (bed.mount(), bed.client.runtime());
        directory(&fs, "twice", Some(Copies::Two)).await;
        bed.is_whole().await;
        let wanted = CopiesWanted {
            copies: 1,
            same_host: true,
            min_copies: 2,
        };
        let answer = fs.set_copies(&root(), wanted).await.unwrap();
        assert_eq!(answer.min_copies, 2);
        bed.kill_io_server(1);
        sleep(&runtime, Duration::from_secs(5)).await;
        let chosen = Stripes {
            on: Chosen::Listed(vec![0]),
            ..stripes(Some(Copies::Two))
        };
        for (copies, writes) in [(None, true), (chosen.copies, false)] {
            let (caller, at, plain) = (root(), fs.root(), SetAttributes::default());
            let stripes = Stripes {
                copies,
                ..chosen.clone()
            };
            let name = format!("{copies:?}");
            let made = fs.create_striped(&caller, &at, name.as_bytes(), &plain, stripes);
            let made = made.await.unwrap();
            let bytes = noise(LEN, 1);
            let writing = write(&fs, &made, 0, &bytes);
            let written = timeout(&runtime, Duration::from_secs(5), writing).await;
            assert_eq!(written.is_ok_and(|it| it.is_ok()), writes, "{copies:?}");
        }
    });
}

#[test]
fn what_the_only_member_had_is_not_taken_for_nothing() {
    run(3, async |bed| {
        let (fs, runtime) = (bed.mount(), bed.client.runtime());
        file(&fs, &fs.root(), 0).await;
        bed.kill_io_server(0);
        sleep(&runtime, Duration::from_secs(3)).await;
        let (caller, at, plain) = (root(), fs.root(), SetAttributes::default());
        let mut kept = Vec::new();
        for seed in 1..9 {
            let chosen = Stripes {
                on: Chosen::Listed(vec![1]),
                ..stripes(Some(Copies::Two))
            };
            let name = format!("kept {seed}");
            let made = fs.create_striped(&caller, &at, name.as_bytes(), &plain, chosen);
            let made = made.await.unwrap();
            write(&fs, &made, 0, &noise(LEN, seed)).await.unwrap();
            fs.commit(&caller, &made, 0, 0).await.result.unwrap();
            kept.push((made, seed));
        }
        bed.kill_io_server(1);
        bed.start_on_a_new_disk(1);
        bed.start_io_server(0);
        sleep(&runtime, FILLING_TIME_MAX).await;
        let fs = bed.mount();
        for (file, seed) in &kept {
            let reading = read(&fs, file, 0, LEN);
            // Server 0 has never had anything: what it was to keep is gone, and no zeros are read for it.
            let read = timeout(&runtime, Duration::from_secs(5), reading).await;
            assert!(
                read.is_err() || read == Ok(noise(LEN, *seed)),
                "file {seed}"
            );
        }
    });
}
