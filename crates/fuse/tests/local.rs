//! A directory of this machine mounted again on this machine: the adapter without any protocol below.
//!
//! It mounts where this user may use FUSE, and reports elsewhere that the tests were left out.

#![allow(clippy::unwrap_used)]

use gannet_fuse::{Caching, Closing, Locks, Mount, MountOptions};
use gannet_localfs::{LocalOptions, LocalStore, LocalTree};
use gannet_runtime::{run_blocking, tokio_plug};
use gannet_vfs::Vfs;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Runs `story` with a directory and its mount point, cached and not.
fn mounted(story: fn(&Path, &Path)) {
    if !gannet_testing::can_mount() {
        return;
    }
    for caching in [Caching::Cached, Caching::Direct] {
        let place = tempfile::tempdir().unwrap();
        let (share, mnt) = (place.path().join("share"), place.path().join("mnt"));
        fs::create_dir(&share).unwrap();
        fs::create_dir(&mnt).unwrap();
        let outcome = tokio_plug::block_on(async |runtime| {
            let tree = LocalTree::open(&share, &LocalOptions::default()).unwrap();
            let store = LocalStore::new(tree, runtime.clone());
            let root = store.root();
            let options = MountOptions {
                source: String::from("share"),
                caching,
                read_only: false,
                no_exec: false,
                allow_other: false,
                caller: None,
                cache_age: Duration::from_secs(1),
                locks: Locks::Local,
                closing: Closing::Sync,
                deadline: Duration::from_secs(60),
            };
            let mount = Mount::start(&runtime, Rc::new(store), root, &mnt, options);
            let mut mount = mount.await.unwrap();
            let (share, mnt) = (share.clone(), mnt.clone());
            let outcome = run_blocking(&runtime, move || story(&share, &mnt)).await;
            mount.unmount().await.unwrap();
            outcome
        });
        outcome.unwrap().expect("the story went well");
        assert_eq!(fs::read_dir(&mnt).unwrap().count(), 0, "unmounted");
    }
}

#[test]
fn the_limit_of_dirty_pages_is_not_strict() {
    mounted(|_, mnt| {
        let device = mnt.metadata().unwrap().dev();
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let limit = format!("/sys/class/bdi/{major}:{minor}/strict_limit");
        if OpenOptions::new().write(true).open(&limit).is_err() {
            gannet_testing::left_out(
                "this kernel has no such limit, or it may not be changed here",
            );
            return;
        }
        assert_eq!(fs::read_to_string(limit).unwrap().trim(), "0");
    });
}

#[test]
fn names_are_made_moved_listed_and_removed() {
    mounted(|share, mnt| {
        fs::create_dir(mnt.join("one")).unwrap();
        fs::write(mnt.join("one/file"), "text").unwrap();
        symlink("file", mnt.join("one/link")).unwrap();
        fs::hard_link(mnt.join("one/file"), mnt.join("other")).unwrap();
        let (file, other) = (mnt.join("one/file"), mnt.join("other"));
        assert_eq!(
            file.metadata().unwrap().ino(),
            other.metadata().unwrap().ino()
        );
        assert_eq!(other.metadata().unwrap().nlink(), 2);
        assert_eq!(fs::read_to_string(mnt.join("one/link")).unwrap(), "text");
        fs::rename(mnt.join("one"), mnt.join("two")).unwrap();
        assert_eq!(fs::read_to_string(share.join("two/file")).unwrap(), "text");
        let mut names: Vec<_> = fs::read_dir(mnt.join("two"))
            .unwrap()
            .map(|entry| entry.unwrap())
            .map(|entry| (entry.file_name(), entry.file_type().unwrap().is_symlink()))
            .collect();
        names.sort();
        assert_eq!(names, [("file".into(), false), ("link".into(), true)]);
        let refused = fs::remove_dir(mnt.join("two")).unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::DirectoryNotEmpty);
        fs::remove_dir_all(mnt.join("two")).unwrap();
        assert!(!share.join("two").exists() && share.join("other").exists());
    });
}

#[test]
fn an_empty_directory_lists_nothing_and_ends() {
    mounted(|share, mnt| {
        fs::create_dir(share.join("empty")).unwrap();
        assert_eq!(fs::read_dir(mnt.join("empty")).unwrap().count(), 0);
        assert_eq!(fs::read_dir(mnt).unwrap().count(), 1);
    });
}

#[test]
fn data_is_written_read_cut_and_durable() {
    mounted(|share, mnt| {
        let content: Vec<u8> = (0..5_000_000u32).map(|it| (it >> 3) as u8).collect();
        let mut file = File::create(mnt.join("file")).unwrap();
        file.write_all(&content).unwrap();
        file.write_all_at(b"behind", 6_000_000).unwrap();
        file.sync_all().unwrap();
        let mut expected = content.clone();
        expected.resize(6_000_000, 0);
        expected.extend_from_slice(b"behind");
        assert!(fs::read(share.join("file")).unwrap() == expected);
        assert!(fs::read(mnt.join("file")).unwrap() == expected);
        file.set_len(7).unwrap();
        assert_eq!(fs::read(share.join("file")).unwrap(), &content[..7]);
    });
}

#[test]
fn short_writes_are_there_for_reads_and_sizes_at_once() {
    mounted(|share, mnt| {
        let file = File::create(mnt.join("file")).unwrap();
        let other = File::open(mnt.join("file")).unwrap();
        let mut expected = Vec::new();
        for step in 0..2000_u64 {
            let bytes = vec![step as u8; 1 + (step * 37 % 300) as usize];
            // Mostly on at the end, and sometimes over what is there.
            let len = expected.len() as u64;
            let offset = if step % 5 == 4 { len / 2 } else { len };
            file.write_all_at(&bytes, offset).unwrap();
            let end = offset as usize + bytes.len();
            expected.resize(expected.len().max(end), 0);
            expected[offset as usize..end].copy_from_slice(&bytes);
            if step % 50 == 0 {
                assert_eq!(other.metadata().unwrap().len(), expected.len() as u64);
                let mut seen = vec![0; bytes.len()];
                other.read_exact_at(&mut seen, offset).unwrap();
                assert_eq!(seen, bytes);
            }
        }
        drop(file);
        assert!(fs::read(share.join("file")).unwrap() == expected);
        assert!(fs::read(mnt.join("file")).unwrap() == expected);
    });
}

#[test]
fn a_file_opened_for_appending_is_read_and_appended_to_by_one_descriptor() {
    mounted(|share, mnt| {
        fs::write(mnt.join("log"), "one\n").unwrap();
        let mut options = OpenOptions::new();
        let mut log = options
            .read(true)
            .append(true)
            .open(mnt.join("log"))
            .unwrap();
        log.write_all(b"two\n").unwrap();
        let mut seen = String::new();
        std::io::Seek::rewind(&mut log).unwrap();
        log.read_to_string(&mut seen).unwrap();
        assert_eq!(seen, "one\ntwo\n");
        // Another program of the server's machine appends; this descriptor goes on behind it.
        let mut other = OpenOptions::new()
            .append(true)
            .open(share.join("log"))
            .unwrap();
        other.write_all(b"three\n").unwrap();
        log.write_all(b"four\n").unwrap();
        let all = "one\ntwo\nthree\nfour\n";
        assert_eq!(fs::read_to_string(share.join("log")).unwrap(), all);
        assert_eq!(fs::read_to_string(mnt.join("log")).unwrap(), all);
    });
}

#[test]
fn an_open_shows_changes_made_outside_the_mount() {
    mounted(|share, mnt| {
        for round in 0..20usize {
            let text = "x".repeat(1 + (round * 7919) % 9000);
            fs::write(share.join("file"), &text).unwrap();
            assert_eq!(
                fs::read_to_string(mnt.join("file")).unwrap(),
                text,
                "round {round}"
            );
        }
    });
}

#[test]
fn a_file_removed_while_open_waits_to_be_closed() {
    mounted(|share, mnt| {
        fs::write(mnt.join("file"), "text").unwrap();
        let mut open = File::open(mnt.join("file")).unwrap();
        fs::remove_file(mnt.join("file")).unwrap();
        assert_eq!(open.metadata().unwrap().nlink(), 0);
        let mut text = String::new();
        open.read_to_string(&mut text).unwrap();
        assert_eq!(text, "text");
        assert_eq!(fs::read_dir(share).unwrap().count(), 1);
        drop(open);
        // The kernel does not wait for the end of the last close; the next operation comes after it.
        while fs::read_dir(share).unwrap().count() > 0 {
            fs::metadata(mnt).unwrap();
        }
    });
}

#[test]
fn a_file_that_is_replaced_all_the_time_can_be_opened_all_the_time() {
    const OPENS: usize = 1000;
    mounted(|_, mnt| {
        let (target, new) = (mnt.join("target"), mnt.join("new"));
        fs::write(&target, "complete").unwrap();
        let readers_left = AtomicUsize::new(2);
        std::thread::scope(|scope| {
            let readers = [(); 2].map(|()| {
                scope.spawn(|| {
                    let read = || fs::metadata(&target).and_then(|_| fs::read_to_string(&target));
                    let all: Vec<_> = (0..OPENS).map(|_| read()).collect();
                    readers_left.fetch_sub(1, Ordering::Relaxed);
                    all
                })
            });
            while readers_left.load(Ordering::Relaxed) > 0 {
                fs::write(&new, "complete").unwrap();
                fs::rename(&new, &target).unwrap();
            }
            for read in readers.into_iter().flat_map(|it| it.join().unwrap()) {
                assert_eq!(read.unwrap(), "complete");
            }
        });
    });
}
