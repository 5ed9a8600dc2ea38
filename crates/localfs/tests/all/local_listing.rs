//! Listing directories: complete, once each, while they change.

#![allow(clippy::unwrap_used)]

use crate::support;

use gannet_localfs::{HandleScheme, LocalStore, LocalTree};
use gannet_runtime::tokio_plug::block_on;
use gannet_vfs::{SetAttributes, Status, Vfs};
use std::collections::BTreeSet;
use support::{World, create, fill, list, lookup, me, mkdir, names, page, with_each_scheme, write};

#[test]
fn every_entry_comes_once_whatever_the_page_size() {
    with_each_scheme(|world| {
        let mut expected = Vec::new();
        for index in 0..300 {
            let name = format!("entry-{index}");
            std::fs::write(world.path().join(&name), &name).unwrap();
            expected.push(name.into_bytes());
        }
        expected.sort();
        world.serve(|store| async move {
            for room in [1, 7, 300, 1000] {
                for objects in [false, true] {
                    let listed = list(&store, &store.root(), room, objects).await;
                    assert_eq!(listed.len(), 302);
                    assert_eq!(names(&listed), expected);
                    let cookies: BTreeSet<u64> = listed.iter().map(|entry| entry.cookie).collect();
                    assert_eq!(cookies.len(), 302, "unique");
                    assert!(!cookies.contains(&0));
                }
            }
        });
    });
}

#[test]
fn objects_are_those_that_a_lookup_finds() {
    with_each_scheme(|world| {
        world.serve(|store| async move {
            let root = store.root();
            let d = mkdir(&store, &root, b"d").await;
            create(&store, &root, b"f").await;
            create(&store, &d, b"g").await;
            for (directory, above) in [(root, root), (d, root)] {
                let own = store.attributes(&directory).await.unwrap();
                let above = store.attributes(&above).await.unwrap();
                for entry in list(&store, &directory, 100, true).await {
                    if entry.name == b".." {
                        assert!(entry.object.is_none());
                        assert_eq!(entry.fileid, above.fileid, "the root's is its own");
                        continue;
                    }
                    let (handle, attributes) = entry.object.unwrap();
                    assert_eq!(attributes.fileid, entry.fileid);
                    let (found, _) = store.lookup(&me(), &directory, &entry.name).await;
                    assert_eq!(found.unwrap(), (handle, attributes));
                    if entry.name == b"." {
                        assert_eq!(attributes.wcc(), own.wcc());
                    }
                }
            }
        });
    });
}

#[test]
fn attributes_follow_changes_through_this_server() {
    with_each_scheme(|world| {
        world.serve(|store| async move {
            let root = store.root();
            let file = create(&store, &root, b"f").await;
            for round in 1..20 {
                write(&store, &file, 0, &vec![0; round]).await;
                let listed = list(&store, &root, 100, true).await;
                let entry = listed.iter().find(|entry| entry.name == b"f").unwrap();
                assert_eq!(entry.object.unwrap().1.size, round as u64);
            }
        });
    });
}

#[test]
fn a_new_listing_sees_each_change_at_once() {
    with_each_scheme(|world| {
        let path = world.path();
        world.serve(|store| async move {
            let root = store.root();
            for round in 0..30 {
                let name = format!("{round}");
                if round % 2 == 0 {
                    create(&store, &root, name.as_bytes()).await;
                } else {
                    std::fs::write(path.join(&name), "").unwrap();
                }
                let listed = list(&store, &root, 1000, round % 3 == 0).await;
                assert_eq!(names(&listed).len(), round + 1);
            }
        });
    });
}

#[test]
fn a_listed_handle_is_of_the_object_that_has_the_name_now() {
    with_each_scheme(|world| {
        let path = world.path();
        let names = ["replaced", "reused", "swapped-0", "swapped-1"];
        for name in names {
            std::fs::write(path.join(name), name).unwrap();
        }
        world.serve(|store| async move {
            let root = store.root();
            for round in 0..50 {
                std::fs::write(path.join("new"), format!("new {round}")).unwrap();
                std::fs::rename(path.join("new"), path.join("replaced")).unwrap();
                // The next file often gets the number of the one just removed.
                std::fs::remove_file(path.join("reused")).unwrap();
                std::fs::write(path.join("reused"), format!("reused {round}")).unwrap();
                std::fs::rename(path.join("swapped-0"), path.join("aside")).unwrap();
                std::fs::rename(path.join("swapped-1"), path.join("swapped-0")).unwrap();
                std::fs::rename(path.join("aside"), path.join("swapped-1")).unwrap();
                let listed = list(&store, &root, 100, true).await;
                for name in names {
                    let entry = listed.iter().find(|entry| entry.name == name.as_bytes());
                    let (handle, _) = entry.unwrap().object.unwrap();
                    let content = support::read(&store, &handle, 0, 100).await;
                    assert_eq!(content, std::fs::read(path.join(name)).unwrap());
                }
            }
        });
    });
}

#[test]
fn removals_during_a_listing_lose_no_entry() {
    with_each_scheme(|world| {
        for index in 0..2000 {
            std::fs::write(world.path().join(format!("entry-{index}")), "").unwrap();
        }
        let path = world.path();
        world.serve(|store| async move {
            let root = store.root();
            let mut cookie = 0;
            let mut seen = BTreeSet::new();
            loop {
                let (taken, eof) = page(&store, &root, cookie, 100, true).await.unwrap();
                cookie = taken.last().map_or(cookie, |entry| entry.cookie);
                for entry in taken {
                    if entry.name == b"." || entry.name == b".." {
                        continue;
                    }
                    let removed = store.remove(&me(), &root, &entry.name).await;
                    removed.result.unwrap();
                    assert!(seen.insert(entry.name), "once");
                }
                if eof {
                    break;
                }
            }
            assert_eq!(seen.len(), 2000);
            assert_eq!(std::fs::read_dir(path).unwrap().count(), 0);
        });
    });
}

/// Each page of a client begins after a page of the other, in the middle of the listing that both are served from.
#[test]
fn two_clients_that_list_in_turns_get_every_entry_once() {
    with_each_scheme(|world| {
        for index in 0..300 {
            std::fs::write(world.path().join(format!("entry-{index}")), "").unwrap();
        }
        world.serve(|store| async move {
            let root = store.root();
            let whole = list(&store, &root, 1000, false).await;
            let mut clients = [7, 11].map(|room| (room, Vec::new(), false));
            while clients.iter().any(|(_, _, is_over)| !is_over) {
                for (room, seen, is_over) in clients.iter_mut().filter(|(_, _, over)| !over) {
                    let after = seen.last().map_or(0, |(cookie, _)| *cookie);
                    let (taken, eof) = page(&store, &root, after, *room, false).await.unwrap();
                    seen.extend(taken.into_iter().map(|entry| (entry.cookie, entry.name)));
                    *is_over = eof;
                }
            }
            let whole = whole.into_iter().map(|entry| (entry.cookie, entry.name));
            let whole: Vec<_> = whole.collect();
            for (room, seen, _) in clients {
                assert_eq!(seen, whole, "pages of {room} entries");
            }
        });
    });
}

#[test]
fn cookies_outlive_the_server_and_the_entries_they_follow() {
    with_each_scheme(|world| {
        for index in 0..500 {
            std::fs::write(world.path().join(format!("entry-{index}")), "").unwrap();
        }
        let first = world.serve(|store| async move {
            page(&store, &store.root(), 0, 200, false).await.unwrap().0
        });
        for entry in first.iter().rev().take(50) {
            if entry.name != b"." && entry.name != b".." {
                let name = String::from_utf8(entry.name.clone()).unwrap();
                std::fs::remove_file(world.path().join(name)).unwrap();
            }
        }
        let cookie = first.last().unwrap().cookie;
        let rest = world.serve(|store| async move {
            let (rest, eof) = page(&store, &store.root(), cookie, 1000, true)
                .await
                .unwrap();
            assert!(eof);
            rest
        });
        assert_eq!(first.len() + rest.len(), 502);
        let mut all = names(&first);
        all.extend(names(&rest));
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 500);
    });
}

#[test]
fn stable_entries_are_neither_lost_nor_repeated_while_others_come_and_go() {
    with_each_scheme(|world| {
        for index in 0..400 {
            std::fs::write(world.path().join(format!("stable-{index}")), "").unwrap();
        }
        let path = world.path();
        let stop = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut round = 0;
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    round += 1;
                    let name = path.join(format!("moving-{}", round % 100));
                    std::fs::write(&name, "").unwrap();
                    std::fs::remove_file(&name).unwrap();
                }
            });
            world.serve(|store| async move {
                for round in 0..20 {
                    let listed = list(&store, &store.root(), 30, round % 2 == 0).await;
                    let stable: Vec<_> = names(&listed)
                        .into_iter()
                        .filter(|name| name.starts_with(b"stable-"))
                        .collect();
                    assert_eq!(stable.len(), 400);
                }
            });
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        });
    });
}

#[test]
fn fifty_thousand_entries_are_listed_with_their_objects() {
    let world = World::new(HandleScheme::Automatic);
    fill(&world.path(), 50_000);
    world.serve(|store| async move {
        for room in [400, 50_100] {
            let listed = list(&store, &store.root(), room, true).await;
            assert_eq!(listed.len(), 50_002);
            let mut names = names(&listed);
            names.dedup();
            assert_eq!(names.len(), 50_000);
            let without = listed.iter().filter(|entry| entry.object.is_none());
            assert_eq!(without.count(), 1, "only ..");
        }
    });
}

#[test]
fn a_directory_larger_than_a_window_is_listed_in_several() {
    with_each_scheme(|world| {
        fill(&world.path(), 3_500);
        let mut options = world.options.clone();
        // The last window is partial for some sizes, and ends with the directory for others.
        for window in [1_000, 1_751, 3_502, 60] {
            options.listing_entries_max = Some(window);
            let tree = LocalTree::open(&world.path(), &options).unwrap();
            block_on(|runtime| async {
                let store = LocalStore::new(tree, runtime);
                for (room, objects) in [(70, true), (1_000, false), (4_000, true)] {
                    let listed = list(&store, &store.root(), room, objects).await;
                    assert_eq!(listed.len(), 3_502);
                    let mut names = names(&listed);
                    names.dedup();
                    assert_eq!(names.len(), 3_500);
                }
            })
            .unwrap();
        }
    });
}

#[test]
fn a_file_cannot_be_listed_and_a_full_page_says_more_follows() {
    with_each_scheme(|world| {
        world.serve(|store| async move {
            let root = store.root();
            let file = create(&store, &root, b"f").await;
            assert_eq!(page(&store, &file, 0, 1, true).await, Err(Status::Notdir));
            let (taken, eof) = page(&store, &root, 0, 0, true).await.unwrap();
            assert!(taken.is_empty() && !eof);
            let (taken, eof) = page(&store, &root, 0, 3, true).await.unwrap();
            assert!(taken.len() == 3 && eof, "nothing follows the last");
            let empty = mkdir(&store, &root, b"empty").await;
            let (taken, eof) = page(&store, &empty, 0, 10, true).await.unwrap();
            assert!(taken.len() == 2 && eof);
        });
    });
}

#[test]
fn a_listed_handle_is_good_after_a_restart() {
    with_each_scheme(|world| {
        std::fs::create_dir(world.path().join("d")).unwrap();
        std::fs::write(world.path().join("d/f"), "content").unwrap();
        let file = world.serve(|store| async move {
            let d = lookup(&store, &store.root(), b"d").await.unwrap();
            let listed = list(&store, &d, 10, true).await;
            let entry = listed.iter().find(|entry| entry.name == b"f").unwrap();
            entry.object.unwrap().0
        });
        world.serve(|store| async move {
            assert_eq!(support::read(&store, &file, 0, 100).await, b"content");
            let nothing = SetAttributes::default();
            let set = store.set_attributes(&me(), &file, &nothing, None).await;
            set.result.unwrap();
        });
    });
}
