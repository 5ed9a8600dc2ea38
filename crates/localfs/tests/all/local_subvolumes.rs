//! Subvolumes and snapshots of btrfs: file systems of their own in one mount, with equal inode numbers. These tests
//! have nothing to do where TMPDIR lies elsewhere; `cargo xtask disks` runs them on btrfs.

#![allow(clippy::unwrap_used)]

use crate::support;

use gannet_localfs::{HandleScheme, LocalStore};
use gannet_vfs::{Attributes, EntryName, FileHandle, Status, Vfs};
use std::collections::HashSet;
use std::path::Path;
use std::process::Command;
use support::{World, create, list, lookup, me, read, write};

const BTRFS: i64 = 0x9123_683e;

fn btrfs(arguments: &[&str], paths: &[&Path]) {
    let mut command = Command::new("btrfs");
    let output = command.args(arguments).args(paths).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {error}");
}

/// Runs a story with each kind of handle, in an export with the subvolume `one`, its snapshot `two`, and a subvolume
/// `inner` in the first. Each holds a file `f` with another content; `one/f` and `two/f` have the same number and time
/// of birth. The root is a directory, or is the root of a subvolume itself, which has the number of the others.
fn with_subvolumes(story: impl Fn(&World)) {
    for root_is_subvolume in [false, true] {
        for scheme in [HandleScheme::Automatic, HandleScheme::Inode] {
            let world = World::new(scheme);
            let export = world.path();
            if rustix::fs::statfs(&export).unwrap().f_type != BTRFS {
                return;
            }
            if root_is_subvolume {
                std::fs::remove_dir(&export).unwrap();
                btrfs(&["-q", "subvolume", "create"], &[&export]);
            }
            let (one, two) = (export.join("one"), export.join("two"));
            btrfs(&["-q", "subvolume", "create"], &[&one]);
            std::fs::write(one.join("f"), "of one").unwrap();
            btrfs(&["-q", "subvolume", "snapshot"], &[&one, &two]);
            std::fs::write(two.join("f"), "of two").unwrap();
            btrfs(&["-q", "subvolume", "create"], &[&one.join("inner")]);
            std::fs::write(one.join("inner/f"), "inside").unwrap();
            story(&world);
        }
    }
}

async fn walk(store: &LocalStore, path: &[&str]) -> FileHandle {
    let mut at = store.root();
    for name in path {
        at = lookup(store, &at, name.as_bytes()).await.unwrap();
    }
    at
}

async fn attributes(store: &LocalStore, path: &[&str]) -> Attributes {
    let handle = walk(store, path).await;
    store.attributes(&handle).await.unwrap()
}

#[test]
fn subvolumes_and_snapshots_are_served_and_told_apart() {
    with_subvolumes(|world| {
        world.serve(|store| async move {
            let roots: [&[&str]; 4] = [&[], &["one"], &["two"], &["one", "inner"]];
            let mut fsids = HashSet::new();
            for path in roots {
                fsids.insert(attributes(&store, path).await.fsid);
            }
            assert_eq!(fsids.len(), roots.len(), "each is a file system of its own");
            let (one, two) = (
                walk(&store, &["one", "f"]).await,
                walk(&store, &["two", "f"]).await,
            );
            assert_ne!(one, two);
            let of_one = store.attributes(&one).await.unwrap();
            let of_two = store.attributes(&two).await.unwrap();
            assert_eq!(of_one.fileid, of_two.fileid, "the snapshot has the number");
            assert_ne!(of_one.fsid, of_two.fsid);
            for (file, content) in [(one, &b"of one"[..]), (two, b"of two"), (one, b"of one")] {
                assert_eq!(read(&store, &file, 0, 10).await, content);
            }
            let top = walk(&store, &["two"]).await;
            assert_eq!(lookup(&store, &top, b"..").await.unwrap(), store.root());
            let inner = walk(&store, &["one", "inner"]).await;
            assert_eq!(
                lookup(&store, &inner, b"..").await.unwrap(),
                walk(&store, &["one"]).await
            );
        });
    });
}

#[test]
fn a_listing_has_the_objects_of_subvolumes() {
    with_subvolumes(|world| {
        world.serve(|store| async move {
            for path in [&[][..], &["one"], &["two"], &["one", "inner"]] {
                let directory = walk(&store, path).await;
                for entry in list(&store, &directory, 100, true).await {
                    if [&b"."[..], b".."].contains(&&entry.name[..]) {
                        continue;
                    }
                    let (handle, listed) = entry.object.unwrap();
                    assert_eq!(lookup(&store, &directory, &entry.name).await, Ok(handle));
                    let now = store.attributes(&handle).await.unwrap();
                    assert_eq!((listed.fsid, listed.fileid), (now.fsid, now.fileid));
                }
            }
        });
    });
}

/// Without the kernel's handles, a search of the tree finds them.
#[test]
fn handles_in_subvolumes_are_good_after_a_restart() {
    with_subvolumes(|world| {
        let kept = world.serve(|store| async move {
            let mut kept = Vec::new();
            for path in [
                &["two", "f"][..],
                &["one", "f"],
                &["one", "inner", "f"],
                &["two"],
                &["one", "inner"],
            ] {
                kept.push(walk(&store, path).await);
            }
            kept
        });
        world.serve(|store| async move {
            for (file, content) in kept.iter().zip([&b"of two"[..], b"of one", b"inside"]) {
                assert_eq!(read(&store, file, 0, 10).await, content);
            }
            for (directory, content) in kept[3..].iter().zip([&b"of two"[..], b"inside"]) {
                let file = lookup(&store, directory, b"f").await.unwrap();
                assert_eq!(read(&store, &file, 0, 10).await, content);
            }
        });
    });
}

#[test]
fn files_are_written_in_subvolumes_and_not_moved_between_them() {
    with_subvolumes(|world| {
        let export = world.path();
        world.serve(|store| async move {
            let (one, two) = (walk(&store, &["one"]).await, walk(&store, &["two"]).await);
            for (top, content) in [(one, b"new in one"), (two, b"new in two")] {
                let file = create(&store, &top, b"new").await;
                write(&store, &file, 0, content).await;
                store.commit(&me(), &file, 0, 0).await.result.unwrap();
            }
            assert_eq!(
                std::fs::read(export.join("one/new")).unwrap(),
                b"new in one"
            );
            assert_eq!(
                std::fs::read(export.join("two/new")).unwrap(),
                b"new in two"
            );
            let (old, new) = (EntryName::new(&one, b"new"), EntryName::new(&two, b"other"));
            assert_eq!(store.rename(&me(), old, new).await.0, Err(Status::Xdev));
            let file = lookup(&store, &one, b"new").await.unwrap();
            let linked = store.link(&me(), &file, &two, b"other").await.0.result;
            assert_eq!(linked, Err(Status::Xdev));
            let within = EntryName::new(&two, b"moved");
            store
                .rename(&me(), EntryName::new(&two, b"new"), within)
                .await
                .0
                .unwrap();
            let moved = lookup(&store, &two, b"moved").await.unwrap();
            assert_eq!(read(&store, &moved, 0, 20).await, b"new in two");
        });
    });
}
