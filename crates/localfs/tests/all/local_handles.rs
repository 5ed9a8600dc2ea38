//! Handles name objects for ever: across renames, restarts, links; and nothing but objects of the tree.

#![allow(clippy::unwrap_used)]

use crate::support;

use gannet_localfs::{HandleScheme, LocalOptions, LocalTree};
use gannet_vfs::{Credentials, EntryName, FileHandle, SetAttributes, Status, Vfs};
use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use support::{World, create, is_root, lookup, me, mkdir, read, with_each_scheme, write};

#[test]
fn a_handle_survives_restart_and_rename() {
    with_each_scheme(|world| {
        let file = world.serve(|store| async move {
            let a = mkdir(&store, &store.root(), b"a").await;
            let file = create(&store, &a, b"before").await;
            write(&store, &file, 0, b"still here").await;
            file
        });
        // A local program moves the objects while no server runs.
        std::fs::create_dir(world.path().join("b")).unwrap();
        std::fs::rename(world.path().join("a/before"), world.path().join("b/after")).unwrap();
        world.serve(|store| async move {
            assert_eq!(read(&store, &file, 0, 100).await, b"still here");
            let b = lookup(&store, &store.root(), b"b").await.unwrap();
            assert_eq!(lookup(&store, &b, b"after").await.unwrap(), file);
            // This server moves the file again while the handle is in use.
            let (result, _, _) = store
                .rename(
                    &me(),
                    EntryName::new(&b, b"after"),
                    EntryName::new(&store.root(), b"top"),
                )
                .await;
            result.unwrap();
            assert_eq!(read(&store, &file, 6, 100).await, b"here");
        });
        world.serve(|store| async move {
            assert_eq!(read(&store, &file, 0, 5).await, b"still");
        });
    });
}

#[test]
fn the_root_keeps_its_handle() {
    with_each_scheme(|world| {
        let before = world.serve(|store| async move { store.root() });
        let after = world.serve(|store| async move {
            store.attributes(&before).await.unwrap();
            store.root()
        });
        assert_eq!(before, after);
    });
}

#[test]
fn a_directory_found_again_leads_to_its_children() {
    with_each_scheme(|world| {
        let path = world.path().join("x/y/z");
        std::fs::create_dir_all(&path).unwrap();
        std::fs::write(path.join("leaf"), "leaf").unwrap();
        let z = world.serve(|store| async move {
            let x = lookup(&store, &store.root(), b"x").await.unwrap();
            let y = lookup(&store, &x, b"y").await.unwrap();
            lookup(&store, &y, b"z").await.unwrap()
        });
        world.serve(|store| async move {
            let leaf = lookup(&store, &z, b"leaf").await.unwrap();
            assert_eq!(read(&store, &leaf, 0, 10).await, b"leaf");
            let y = lookup(&store, &z, b"..").await.unwrap();
            let x = lookup(&store, &y, b"..").await.unwrap();
            assert_eq!(lookup(&store, &x, b"..").await.unwrap(), store.root());
            assert_eq!(
                lookup(&store, &store.root(), b"..").await.unwrap(),
                store.root()
            );
        });
    });
}

#[test]
fn all_names_of_an_object_have_one_handle() {
    with_each_scheme(|world| {
        let handle = world.serve(|store| async move {
            let root = store.root();
            let file = create(&store, &root, b"one").await;
            let (linked, attributes) = store.link(&me(), &file, &root, b"two").await;
            linked.result.unwrap();
            assert_eq!(attributes.unwrap().link_count, 2);
            assert_eq!(lookup(&store, &root, b"two").await.unwrap(), file);
            // The first name is removed, and the object stays.
            store.remove(&me(), &root, b"one").await.result.unwrap();
            assert_eq!(store.attributes(&file).await.unwrap().link_count, 1);
            file
        });
        world.serve(|store| async move {
            assert_eq!(store.attributes(&handle).await.unwrap().link_count, 1);
        });
    });
}

#[test]
fn a_removed_object_is_stale() {
    with_each_scheme(|world| {
        let (file, directory) = world.serve(|store| async move {
            let root = store.root();
            let file = create(&store, &root, b"file").await;
            let directory = mkdir(&store, &root, b"directory").await;
            store.remove(&me(), &root, b"file").await.result.unwrap();
            assert_eq!(store.attributes(&file).await, Err(Status::Stale));
            (file, directory)
        });
        std::fs::remove_dir(world.path().join("directory")).unwrap();
        world.serve(|store| async move {
            for gone in [file, directory] {
                assert_eq!(store.attributes(&gone).await, Err(Status::Stale));
                assert_eq!(
                    store.attributes(&gone).await,
                    Err(Status::Stale),
                    "asked again"
                );
            }
        });
    });
}

#[test]
fn an_object_whose_number_is_being_made_anew_is_stale() {
    let makers = 4;
    with_each_scheme(|world| {
        let finished = Arc::new(AtomicBool::new(false));
        // The threads take each inode number as soon as it is free.
        let others: Vec<_> = (0..makers)
            .map(|maker| {
                let (path, finished) = (world.path(), Arc::clone(&finished));
                std::thread::spawn(move || {
                    while !finished.load(Ordering::Relaxed) {
                        let name = path.join(format!("other-{maker}"));
                        std::fs::write(&name, "").unwrap();
                        std::fs::remove_file(&name).unwrap();
                    }
                })
            })
            .collect();
        let answers = world.serve(|store| async move {
            let root = store.root();
            let mut answers = Vec::new();
            for _ in 0..2000 {
                let file = create(&store, &root, b"f").await;
                store.remove(&me(), &root, b"f").await.result.unwrap();
                answers.push(store.attributes(&file).await.map(|_| ()));
            }
            answers
        });
        finished.store(true, Ordering::Relaxed);
        for other in others {
            other.join().unwrap();
        }
        let wrong: Vec<_> = (answers.iter())
            .filter(|answer| **answer != Err(Status::Stale))
            .collect();
        assert!(wrong.is_empty(), "{wrong:?}");
    });
}

#[test]
fn an_object_too_deep_to_be_searched_for_is_not_called_stale() {
    let world = World::new(HandleScheme::Inode);
    let (middle, deepest, removed) = world.serve(|store| async move {
        let removed = create(&store, &store.root(), b"removed").await;
        let mut path = vec![store.root()];
        for _ in 0..20 {
            let last = path[path.len() - 1];
            path.push(mkdir(&store, &last, &[b'd'; 250]).await);
        }
        let gone = store.remove(&me(), &store.root(), b"removed").await;
        gone.result.unwrap();
        (path[10], path[20], removed)
    });
    world.serve(|store| async move {
        store.attributes(&middle).await.unwrap();
        // The second reply comes from the records of the first search.
        for _ in 0..2 {
            let unknown = store.attributes(&deepest).await;
            assert_eq!(
                unknown,
                Err(Status::Serverfault),
                "5,000 bytes below the root"
            );
        }
        let root = store.root();
        let fresh = create(&store, &root, b"fresh").await;
        store.remove(&me(), &root, b"fresh").await.result.unwrap();
        assert_eq!(
            store.attributes(&fresh).await,
            Err(Status::Stale),
            "seen to go"
        );
        let unknown = store.attributes(&removed).await;
        assert_eq!(unknown, Err(Status::Serverfault), "may be down there");
    });
}

#[test]
fn a_local_removal_is_noticed_while_the_descriptor_is_open() {
    with_each_scheme(|world| {
        let path = world.path().join("file");
        world.serve(|store| async move {
            let file = create(&store, &store.root(), b"file").await;
            store.attributes(&file).await.unwrap();
            std::fs::remove_file(path).unwrap();
            assert_eq!(store.attributes(&file).await, Err(Status::Stale));
        });
    });
}

#[test]
fn a_reused_inode_is_another_object() {
    with_each_scheme(|world| {
        let path = world.path().join("file");
        let (old, fileid) = world.serve(|store| async move {
            let file = create(&store, &store.root(), b"file").await;
            (file, store.attributes(&file).await.unwrap().fileid)
        });
        // File systems reuse a number at once, later or never, so the test tries many times.
        let mut reused = false;
        for _ in 0..2000 {
            std::fs::remove_file(&path).unwrap();
            std::fs::write(&path, "another").unwrap();
            reused = std::os::unix::fs::MetadataExt::ino(&path.metadata().unwrap()) == fileid;
            if reused {
                break;
            }
        }
        world.serve(|store| async move {
            let new = lookup(&store, &store.root(), b"file").await.unwrap();
            let (found, _) = store.lookup(&me(), &store.root(), b"file").await;
            let (_, attributes) = found.unwrap();
            assert_eq!(attributes.fileid == fileid, reused);
            assert_ne!(new, old);
            assert_eq!(store.attributes(&old).await, Err(Status::Stale));
            store.attributes(&new).await.unwrap();
        });
    });
}

#[test]
fn forged_and_foreign_handles_are_refused() {
    with_each_scheme(|world| {
        let other = World::new(world.options.handles);
        let mut options = other.options.clone();
        // The other export has the same key.
        options.state_dir.clone_from(&world.options.state_dir);
        let other = World { options, ..other };
        let foreign = other.serve(|store| async move { create(&store, &store.root(), b"f").await });
        world.serve(|store| async move {
            let file = create(&store, &store.root(), b"f").await;
            assert!(matches!(
                store.attributes(&foreign).await,
                Err(Status::Stale | Status::Badhandle)
            ));
            let good = file.as_bytes();
            for index in 0..good.len() {
                let mut bytes = good.to_vec();
                bytes[index] ^= 1;
                let forged = FileHandle::new(&bytes).unwrap();
                let refused = store.attributes(&forged).await;
                assert!(matches!(refused, Err(Status::Stale | Status::Badhandle)));
                let cut = FileHandle::new(&good[..=index]).unwrap();
                if index + 1 < good.len() {
                    assert!(store.attributes(&cut).await.is_err());
                }
            }
        });
    });
}

#[test]
fn a_handle_of_a_larger_export_does_not_open_a_smaller_one() {
    let world = World::new(HandleScheme::Automatic);
    std::fs::create_dir(world.path().join("part")).unwrap();
    std::fs::write(world.path().join("part/file"), "x").unwrap();
    std::fs::write(world.path().join("secret"), "x").unwrap();
    let (secret, file) = world.serve(|store| async move {
        let part = lookup(&store, &store.root(), b"part").await.unwrap();
        let secret = lookup(&store, &store.root(), b"secret").await.unwrap();
        (secret, lookup(&store, &part, b"file").await.unwrap())
    });
    let tree = LocalTree::open(&world.path().join("part"), &world.options).unwrap();
    gannet_runtime::tokio_plug::block_on(|runtime| async {
        let store = gannet_localfs::LocalStore::new(tree, runtime);
        assert_eq!(store.attributes(&secret).await, Err(Status::Stale));
        assert_eq!(store.attributes(&file).await, Err(Status::Stale));
    })
    .unwrap();
}

#[test]
fn a_directory_moved_out_of_the_tree_leads_nowhere() {
    with_each_scheme(|world| {
        std::fs::create_dir_all(world.path().join("a/b")).unwrap();
        let (from, to) = (world.path().join("a"), world.outside().join("moved"));
        let a = world.serve(|store| async move {
            let a = lookup(&store, &store.root(), b"a").await.unwrap();
            std::fs::rename(from, to).unwrap();
            assert_eq!(lookup(&store, &a, b"..").await, Err(Status::Stale));
            a
        });
        world.serve(|store| async move {
            assert_eq!(store.attributes(&a).await, Err(Status::Stale));
        });
    });
}

#[test]
fn symbolic_links_are_not_followed() {
    with_each_scheme(|world| {
        std::fs::write(world.outside().join("secret"), "secret").unwrap();
        std::fs::create_dir(world.outside().join("elsewhere")).unwrap();
        symlink("../secret", world.path().join("link")).unwrap();
        symlink(world.outside(), world.path().join("dir")).unwrap();
        world.serve(|store| async move {
            let root = store.root();
            let link = lookup(&store, &root, b"link").await.unwrap();
            let (text, attributes) = store.read_link(&me(), &link).await.unwrap();
            assert_eq!((text.as_slice(), attributes.size), (&b"../secret"[..], 9));
            assert!(store.read(&me(), &link, 0, 10).await.is_err());
            let directory = lookup(&store, &root, b"dir").await.unwrap();
            let through = lookup(&store, &directory, b"secret").await;
            assert_eq!(through, Err(Status::Notdir));
            let path: [&[u8]; 2] = [b"dir", b"elsewhere"];
            assert_eq!(store.resolve(&me(), &path).await, Err(Status::Notdir));
            for name in [&b"../secret"[..], b"dir/elsewhere", b"nul\0", b"/etc"] {
                assert_eq!(lookup(&store, &root, name).await, Err(Status::Inval));
            }
            let kept = SetAttributes {
                size: Some(0),
                ..SetAttributes::default()
            };
            let cut = store.set_attributes(&me(), &link, &kept, None).await;
            assert_eq!(cut.result, Err(Status::Inval));
        });
        let secret = std::fs::read(world.outside().join("secret")).unwrap();
        assert_eq!(secret, b"secret");
    });
}

#[test]
fn a_name_swapped_for_a_link_never_leads_out() {
    let world = World::new(HandleScheme::Automatic);
    std::fs::create_dir(world.outside().join("elsewhere")).unwrap();
    std::fs::write(world.outside().join("elsewhere/file"), "secret").unwrap();
    std::fs::create_dir(world.path().join("real")).unwrap();
    std::fs::write(world.path().join("real/file"), "public").unwrap();
    symlink(
        world.outside().join("elsewhere"),
        world.path().join("false"),
    )
    .unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    let (real, fake) = (world.path().join("real"), world.path().join("false"));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                rustix::fs::renameat_with(
                    rustix::fs::CWD,
                    &real,
                    rustix::fs::CWD,
                    &fake,
                    rustix::fs::RenameFlags::EXCHANGE,
                )
                .unwrap();
            }
        });
        let found = world.serve(|store| async move {
            let mut found = 0;
            for _ in 0..5000 {
                let Ok(directory) = lookup(&store, &store.root(), b"real").await else {
                    continue;
                };
                if let Ok(file) = lookup(&store, &directory, b"file").await {
                    assert_eq!(read(&store, &file, 0, 10).await, b"public");
                    found += 1;
                }
            }
            found
        });
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(found > 0);
    });
}

#[test]
fn a_mount_below_the_root_is_not_entered() {
    if !is_root() {
        return;
    }
    let world = World::new(HandleScheme::Automatic);
    let at = world.path();
    // Every machine has /proc, which is another file system: an export of / must not lead into it.
    let options = LocalOptions {
        state_dir: Some(at),
        ..LocalOptions::default()
    };
    let tree = LocalTree::open(std::path::Path::new("/"), &options).unwrap();
    gannet_runtime::tokio_plug::block_on(|runtime| async {
        let store = gannet_localfs::LocalStore::new(tree, runtime);
        let found = lookup(&store, &store.root(), b"proc").await;
        assert_eq!(found, Err(Status::Acces));
        let listed = support::list(&store, &store.root(), 1000, true).await;
        let proc = listed.iter().find(|entry| entry.name == b"proc").unwrap();
        assert!(proc.object.is_none(), "named, but not shown");
    })
    .unwrap();
}

#[test]
fn without_a_usable_state_directory_handles_last_for_the_run() {
    let mut world = World::new(HandleScheme::Automatic);
    let file = world.path().join("not a directory");
    std::fs::write(&file, "").unwrap();
    world.options.state_dir = Some(file);
    let handle = world.serve(|store| async move {
        let handle = create(&store, &store.root(), b"f").await;
        store.attributes(&handle).await.unwrap();
        handle
    });
    world.serve(|store| async move {
        assert_eq!(store.attributes(&handle).await, Err(Status::Stale));
    });
}

#[test]
fn the_key_is_for_the_owner_alone() {
    let world = World::new(HandleScheme::Automatic);
    drop(world.open());
    let key = world.options.state_dir.unwrap().join("handle.key");
    let mode = std::os::unix::fs::MetadataExt::mode(&key.metadata().unwrap());
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn directories_that_cannot_be_served_have_a_reason() {
    let world = World::new(HandleScheme::Automatic);
    let file = world.path().join("file");
    std::fs::write(&file, "").unwrap();
    let error = LocalTree::open(&file, &world.options).err().unwrap();
    assert!(error.to_string().contains("is not a directory"), "{error}");
    let missing = world.path().join("missing");
    let error = LocalTree::open(&missing, &world.options).err().unwrap();
    assert!(
        error.to_string().contains("check that it exists"),
        "{error}"
    );
}

#[test]
fn few_descriptors_are_enough() {
    with_each_scheme(|world| {
        let mut options = world.options.clone();
        options.descriptors_max = Some(64);
        for index in 0..500 {
            std::fs::write(world.path().join(format!("f{index}")), format!("{index}")).unwrap();
        }
        let tree = LocalTree::open(&world.path(), &options).unwrap();
        gannet_runtime::tokio_plug::block_on(|runtime| async {
            let store = gannet_localfs::LocalStore::new(tree, runtime);
            let mut handles = Vec::new();
            for index in 0..500 {
                let name = format!("f{index}");
                handles.push(
                    lookup(&store, &store.root(), name.as_bytes())
                        .await
                        .unwrap(),
                );
            }
            for (index, handle) in handles.iter().enumerate() {
                let data = read(&store, handle, 0, 10).await;
                assert_eq!(data, index.to_string().as_bytes());
            }
            let open = std::fs::read_dir("/proc/self/fd").unwrap().count();
            // Other tests of this program have descriptors open at the same time.
            assert!(open < 4000, "{open} descriptors");
        })
        .unwrap();
    });
}

/// Descriptors of this process that lead below `path`.
fn descriptors_below(path: &std::path::Path) -> usize {
    std::fs::read_dir("/proc/self/fd")
        .unwrap()
        .filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok())
        .filter(|target| target.starts_with(path))
        .count()
}

#[test]
fn data_descriptors_count_against_the_budget() {
    with_each_scheme(|world| {
        let mut options = world.options.clone();
        options.descriptors_max = Some(256);
        for index in 0..120 {
            std::fs::write(world.path().join(format!("f{index}")), "x").unwrap();
        }
        let tree = LocalTree::open(&world.path(), &options).unwrap();
        gannet_runtime::tokio_plug::block_on(|runtime| async {
            let store = gannet_localfs::LocalStore::new(tree, runtime);
            let mut handles = Vec::new();
            for index in 0..120 {
                let name = format!("f{index}");
                let found = lookup(&store, &store.root(), name.as_bytes()).await;
                handles.push(found.unwrap());
            }
            for handle in &handles {
                assert_eq!(read(&store, handle, 0, 1).await, b"x");
                write(&store, handle, 0, b"x").await;
            }
            // Beyond the budget are the root, and evicted descriptors that wait to be closed.
            let open = descriptors_below(&world.path());
            assert!(open <= 256 + 40, "{open} descriptors");
        })
        .unwrap();
    });
}

#[test]
fn two_cores_agree() {
    with_each_scheme(|world| {
        let tree = world.open();
        std::fs::create_dir(world.path().join("d")).unwrap();
        let cores = gannet_runtime::tokio_plug::Cores::start(2, move |core, runtime| {
            let store = gannet_localfs::LocalStore::new(tree.clone(), runtime);
            async move {
                let d = lookup(&store, &store.root(), b"d").await.unwrap();
                for index in 0..300 {
                    let mine = format!("{core}-{index}");
                    let file = create(&store, &d, mine.as_bytes()).await;
                    write(&store, &file, 0, mine.as_bytes()).await;
                    assert_eq!(lookup(&store, &d, mine.as_bytes()).await.unwrap(), file);
                    let moved = format!("moved-{core}-{index}");
                    let (result, _, _) = store
                        .rename(
                            &me(),
                            EntryName::new(&d, mine.as_bytes()),
                            EntryName::new(&store.root(), moved.as_bytes()),
                        )
                        .await;
                    result.unwrap();
                    assert_eq!(read(&store, &file, 0, 100).await, mine.as_bytes());
                    assert_eq!(
                        lookup(&store, &d, mine.as_bytes()).await,
                        Err(Status::Noent)
                    );
                }
            }
        });
        cores.unwrap().join().unwrap();
        assert_eq!(std::fs::read_dir(world.path()).unwrap().count(), 601);
    });
}

#[test]
fn an_unknown_user_gets_no_more_than_its_rights() {
    let world = World::new(HandleScheme::Automatic);
    world.serve(|store| async move {
        let nobody = Credentials::new(u32::MAX, 1, &[]);
        let root = store.root();
        if is_root() {
            let (refused, _) = store.lookup(&nobody, &root, b"x").await;
            assert_eq!(refused.map(|_| ()), Err(Status::Acces));
        }
        assert_eq!(lookup(&store, &root, b"x").await, Err(Status::Noent));
    });
}
