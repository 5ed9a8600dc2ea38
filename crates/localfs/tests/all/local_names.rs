//! Creating, removing, renaming, linking.

#![allow(clippy::unwrap_used)]

use crate::support;

use gannet_vfs::{
    CreateMode, EntryName, FileHandle, NodeKind, SetAttributes, SetTime, Status, Time, Vfs,
};
use std::os::unix::ffi::OsStrExt;
use support::{create, lookup, me, mkdir, read, with_each_scheme, write};

fn size(size: u64) -> SetAttributes {
    SetAttributes {
        size: Some(size),
        ..SetAttributes::default()
    }
}

#[test]
fn an_unchecked_creation_takes_an_existing_file() {
    with_each_scheme(|world| {
        world.serve(|store| async move {
            let root = store.root();
            let file = create(&store, &root, b"f").await;
            write(&store, &file, 0, b"0123456789").await;
            let wanted = SetAttributes {
                mode: Some(0o600),
                ..SetAttributes::default()
            };
            let taken = store
                .create(&me(), &root, b"f", &CreateMode::Unchecked(wanted))
                .await;
            let taken = taken.result.unwrap();
            assert_eq!(taken.handle, file);
            let found = taken.attributes.unwrap();
            assert_eq!((found.size, found.mode), (10, 0o644), "mode does not apply");
            let taken = store
                .create(&me(), &root, b"f", &CreateMode::Unchecked(size(3)))
                .await;
            assert_eq!(taken.result.unwrap().attributes.unwrap().size, 3);
            let guarded = store
                .create(&me(), &root, b"f", &CreateMode::Guarded(wanted))
                .await;
            assert_eq!(guarded.result, Err(Status::Exist));
            mkdir(&store, &root, b"d").await;
            let directory = store
                .create(&me(), &root, b"d", &CreateMode::Unchecked(wanted))
                .await;
            assert_eq!(directory.result, Err(Status::Exist));
        });
    });
}

#[test]
fn an_exclusive_creation_is_recognised_when_repeated() {
    with_each_scheme(|world| {
        let verifier = [0xff, 2, 3, 4, 0x85, 6, 7, 8];
        let first = world.serve(|store| async move {
            let mode = CreateMode::Exclusive(verifier);
            let made = store.create(&me(), &store.root(), b"f", &mode).await;
            made.result.unwrap().handle
        });
        world.serve(|store| async move {
            let root = store.root();
            let mode = CreateMode::Exclusive(verifier);
            let again = store.create(&me(), &root, b"f", &mode).await;
            assert_eq!(again.result.unwrap().handle, first, "after a restart too");
            let other = CreateMode::Exclusive([1; 8]);
            let refused = store.create(&me(), &root, b"f", &other).await;
            assert_eq!(refused.result, Err(Status::Exist));
            let attributes = SetAttributes {
                mode: Some(0o644),
                access_time: SetTime::Now,
                modify_time: SetTime::Now,
                ..SetAttributes::default()
            };
            let set = store.set_attributes(&me(), &first, &attributes, None).await;
            set.result.unwrap();
            let late = store.create(&me(), &root, b"f", &mode).await;
            assert_eq!(late.result, Err(Status::Exist), "it has its real times now");
        });
    });
}

#[test]
fn names_are_checked() {
    with_each_scheme(|world| {
        world.serve(|store| async move {
            let root = store.root();
            let guarded = CreateMode::Guarded(SetAttributes::default());
            let there = create(&store, &root, b"there").await;
            let long = [b'n'; 256];
            for (name, reason) in [
                (&b""[..], Status::Acces),
                (b".", Status::Exist),
                (b"..", Status::Exist),
                (b"a/b", Status::Inval),
                (b"there/b", Status::Inval),
                (b"a\0b", Status::Inval),
                (&long, Status::Nametoolong),
            ] {
                let plain = SetAttributes::default();
                let (old, new) = (EntryName::new(&root, b"there"), EntryName::new(&root, name));
                let refused = [
                    store.create(&me(), &root, name, &guarded).await.result,
                    store
                        .make_directory(&me(), &root, name, &plain)
                        .await
                        .result,
                    store
                        .make_symlink(&me(), &root, name, b"to", &plain)
                        .await
                        .result,
                    store
                        .make_node(&me(), &root, name, NodeKind::Fifo, &plain)
                        .await
                        .result,
                ];
                assert_eq!(refused, [Err(reason); 4], "{}", name.escape_ascii());
                assert_eq!(store.rename(&me(), old, new).await.0, Err(reason));
                let linked = store.link(&me(), &there, &root, name).await.0.result;
                assert_eq!(linked, Err(reason));
            }
            for name in [&b"."[..], b"..", b"a/b", b"a\0b"] {
                let removed = store.remove(&me(), &root, name).await.result;
                assert_eq!(removed, Err(Status::Inval));
                let removed = store.remove_directory(&me(), &root, name).await.result;
                assert_eq!(removed, Err(Status::Inval));
            }
            assert_eq!(lookup(&store, &root, &long).await, Err(Status::Nametoolong));
            assert_eq!(lookup(&store, &root, b"").await, Err(Status::Acces));
            assert_eq!(lookup(&store, &root, b".").await.unwrap(), root);
        });
    });
}

#[test]
fn names_are_bytes() {
    with_each_scheme(|world| {
        world.serve(|store| async move {
            let root = store.root();
            let name: Vec<u8> = (1..=255).filter(|byte| *byte != b'/').collect();
            let long = [0xfe; 255];
            for name in [&name[..], &long] {
                let file = create(&store, &root, name).await;
                assert_eq!(lookup(&store, &root, name).await.unwrap(), file);
                assert_eq!(lookup(&store, &root, name).await.unwrap(), file);
                let listed = support::list(&store, &root, 100, true).await;
                assert!(support::names(&listed).contains(&name.to_vec()));
                store.remove(&me(), &root, name).await.result.unwrap();
            }
        });
    });
}

#[test]
fn a_label_is_the_path_of_now() {
    with_each_scheme(|world| {
        let (path, outside) = (world.path(), world.outside().to_owned());
        world.serve(|store| async move {
            let root = store.root();
            let file = create(&store, &root, b"f\xff").await;
            let label = |file: &FileHandle| store.label(file);
            assert_eq!(label(&root).unwrap(), b"/");
            assert_eq!(label(&file).unwrap(), b"/f\xff");
            std::fs::create_dir(path.join("d")).unwrap();
            let old = path.join(std::ffi::OsStr::from_bytes(b"f\xff"));
            std::fs::rename(&old, path.join("d/g")).unwrap();
            assert_eq!(label(&file).unwrap(), b"/d/g");
            let away = outside.join("export-of-another");
            std::fs::rename(path.join("d/g"), &away).unwrap();
            let expected = [b"outside: ", away.as_os_str().as_bytes()].concat();
            assert_eq!(label(&file).unwrap(), expected);
            std::fs::remove_file(&away).unwrap();
            assert!(label(&file).unwrap().ends_with(b" (deleted)"));
            // Of an object that is not open nothing is known without a wait.
            assert_eq!(label(&FileHandle::new(&[7; 20]).unwrap()), None);
        });
    });
}

#[test]
fn a_lookup_sees_each_change_at_once() {
    with_each_scheme(|world| {
        let path = world.path();
        world.serve(|store| async move {
            let root = store.root();
            for round in 0..50 {
                let file = create(&store, &root, b"f").await;
                assert_eq!(lookup(&store, &root, b"f").await.unwrap(), file);
                assert_eq!(lookup(&store, &root, b"f").await.unwrap(), file);
                // A local program and a client rename the file in turn.
                if round % 2 == 0 {
                    std::fs::rename(path.join("f"), path.join("g")).unwrap();
                } else {
                    let (result, _, _) = store
                        .rename(
                            &me(),
                            EntryName::new(&root, b"f"),
                            EntryName::new(&root, b"g"),
                        )
                        .await;
                    result.unwrap();
                }
                assert_eq!(lookup(&store, &root, b"f").await, Err(Status::Noent));
                assert_eq!(lookup(&store, &root, b"g").await.unwrap(), file);
            }
        });
    });
}

#[test]
fn a_lookup_returns_the_directorys_attributes_too() {
    with_each_scheme(|world| {
        world.serve(|store| async move {
            let root = store.root();
            let d = mkdir(&store, &root, b"d").await;
            let f = create(&store, &d, b"f").await;
            let now = store.attributes(&d).await.unwrap();
            for name in [&b"f"[..], b"missing", b".", b"..", b"a/b"] {
                let (_, after) = store.lookup(&me(), &d, name).await;
                assert_eq!(after, Some(now), "{name:?}");
            }
            let of_file = store.attributes(&f).await.unwrap();
            let (refused, after) = store.lookup(&me(), &f, b"x").await;
            assert_eq!((refused, after), (Err(Status::Notdir), Some(of_file)));
            let removed = store.remove(&me(), &d, b"f").await;
            removed.result.unwrap();
            let stale = store.lookup(&me(), &f, b"x").await;
            assert_eq!(stale, (Err(Status::Stale), None));
        });
    });
}

#[test]
fn a_settled_name_notices_a_local_replacement() {
    with_each_scheme(|world| {
        let path = world.path();
        std::fs::write(path.join("f"), "one").unwrap();
        std::fs::write(path.join("other"), "two").unwrap();
        // The directory changed long ago, so that its time stamp can validate names.
        let past = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
        std::fs::File::open(&path)
            .unwrap()
            .set_modified(past)
            .unwrap();
        world.serve(|store| async move {
            let root = store.root();
            let old = lookup(&store, &root, b"f").await.unwrap();
            assert_eq!(lookup(&store, &root, b"f").await.unwrap(), old);
            std::fs::rename(path.join("other"), path.join("f")).unwrap();
            let new = lookup(&store, &root, b"f").await.unwrap();
            assert_ne!(new, old);
            assert_eq!(read(&store, &new, 0, 10).await, b"two");
        });
    });
}

#[test]
fn removing_is_for_the_right_kind() {
    with_each_scheme(|world| {
        world.serve(|store| async move {
            let root = store.root();
            let d = mkdir(&store, &root, b"d").await;
            create(&store, &d, b"f").await;
            let removed = store.remove(&me(), &root, b"d").await.result;
            assert!(matches!(removed, Err(Status::Isdir | Status::Perm)));
            let removed = store.remove_directory(&me(), &root, b"d").await.result;
            assert_eq!(removed, Err(Status::Notempty));
            let removed = store.remove_directory(&me(), &d, b"f").await.result;
            assert_eq!(removed, Err(Status::Notdir));
            store.remove(&me(), &d, b"f").await.result.unwrap();
            let removed = store.remove(&me(), &d, b"f").await.result;
            assert_eq!(removed, Err(Status::Noent));
            let removed = store.remove_directory(&me(), &root, b"d").await;
            removed.result.unwrap();
            assert_eq!(store.attributes(&d).await, Err(Status::Stale));
            assert_eq!(lookup(&store, &d, b"f").await, Err(Status::Stale));
        });
    });
}

#[test]
fn a_rename_replaces_and_refuses_as_the_kernel_does() {
    with_each_scheme(|world| {
        world.serve(|store| async move {
            let root = store.root();
            let d = mkdir(&store, &root, b"d").await;
            let e = mkdir(&store, &root, b"e").await;
            let one = create(&store, &d, b"one").await;
            create(&store, &root, b"file").await;
            let two = create(&store, &e, b"two").await;
            let (result, from, to) = store
                .rename(
                    &me(),
                    EntryName::new(&d, b"one"),
                    EntryName::new(&e, b"two"),
                )
                .await;
            result.unwrap();
            assert!(from.before.is_some() && to.after.is_some());
            assert_eq!(from.after, store.attributes(&d).await.ok());
            assert_eq!(to.after, store.attributes(&e).await.ok());
            assert_eq!(store.attributes(&two).await, Err(Status::Stale));
            assert_eq!(lookup(&store, &e, b"two").await.unwrap(), one);
            // The opposite rename takes the locks in the same order.
            let (result, _, _) = store
                .rename(
                    &me(),
                    EntryName::new(&e, b"two"),
                    EntryName::new(&d, b"one"),
                )
                .await;
            result.unwrap();
            for (from, to, reason) in [
                (
                    EntryName::new(&d, b"gone"),
                    EntryName::new(&e, b"x"),
                    Status::Noent,
                ),
                (
                    EntryName::new(&root, b"e"),
                    EntryName::new(&root, b"d"),
                    Status::Notempty,
                ),
                (
                    EntryName::new(&root, b"d"),
                    EntryName::new(&d, b"below"),
                    Status::Inval,
                ),
                (
                    EntryName::new(&root, b"d"),
                    EntryName::new(&root, b"file"),
                    Status::Notdir,
                ),
                (
                    EntryName::new(&d, b"one"),
                    EntryName::new(&root, b"e"),
                    Status::Isdir,
                ),
                (
                    EntryName::new(&d, b"."),
                    EntryName::new(&e, b"x"),
                    Status::Inval,
                ),
                (
                    EntryName::new(&d, b"one"),
                    EntryName::new(&e, b".."),
                    Status::Exist,
                ),
                (
                    EntryName::new(&one, b"one"),
                    EntryName::new(&e, b"x"),
                    Status::Notdir,
                ),
            ] {
                let (result, _, _) = store.rename(&me(), from, to).await;
                assert_eq!(
                    result,
                    Err(reason),
                    "{}",
                    String::from_utf8_lossy(from.name)
                );
            }
        });
    });
}

#[test]
fn renaming_one_link_to_another_does_nothing() {
    with_each_scheme(|world| {
        world.serve(|store| async move {
            let root = store.root();
            let file = create(&store, &root, b"a").await;
            let (linked, _) = store.link(&me(), &file, &root, b"b").await;
            linked.result.unwrap();
            let (result, _, _) = store
                .rename(
                    &me(),
                    EntryName::new(&root, b"a"),
                    EntryName::new(&root, b"b"),
                )
                .await;
            result.unwrap();
            assert_eq!(lookup(&store, &root, b"a").await.unwrap(), file);
            assert_eq!(lookup(&store, &root, b"b").await.unwrap(), file);
        });
    });
}

#[test]
fn hard_links_are_made_to_all_but_directories() {
    with_each_scheme(|world| {
        world.serve(|store| async move {
            let root = store.root();
            let d = mkdir(&store, &root, b"d").await;
            let (linked, attributes) = store.link(&me(), &d, &root, b"e").await;
            assert_eq!(linked.result, Err(Status::Perm));
            assert!(attributes.is_some());
            let none = SetAttributes::default();
            let link = store.make_symlink(&me(), &root, b"l", b"to", &none).await;
            let link = link.result.unwrap().handle;
            let (linked, _) = store.link(&me(), &link, &d, b"m").await;
            linked.result.unwrap();
            let m = lookup(&store, &d, b"m").await.unwrap();
            assert_eq!(m, link, "the symbolic link itself");
            assert_eq!(store.read_link(&me(), &m).await.unwrap().0, b"to");
            let (linked, _) = store.link(&me(), &link, &d, b"m").await;
            assert_eq!(linked.result, Err(Status::Exist));
        });
    });
}

#[test]
fn symbolic_links_keep_their_text() {
    with_each_scheme(|world| {
        world.serve(|store| async move {
            let root = store.root();
            let none = SetAttributes {
                mode: Some(0o777),
                modify_time: SetTime::To(Time {
                    seconds: 5,
                    nanoseconds: 0,
                }),
                ..SetAttributes::default()
            };
            let long = vec![b'x'; 4095];
            for (name, text) in [
                (b"a", &b"../\xff/none"[..]),
                (b"b", &[b'y'; 60]),
                (b"c", &long),
            ] {
                let made = store.make_symlink(&me(), &root, name, text, &none).await;
                // XFS takes no more than 1023 bytes.
                let made = match made.result {
                    Err(Status::Nametoolong) if text.len() > 1023 => continue,
                    result => result.unwrap(),
                };
                assert_eq!(made.attributes.unwrap().modify_time.seconds, 5);
                let (read, _) = store.read_link(&me(), &made.handle).await.unwrap();
                assert_eq!(read, text);
            }
            for (text, reason) in [
                (&b""[..], Status::Inval),
                (&[b'x'; 4096], Status::Nametoolong),
            ] {
                let refused = store.make_symlink(&me(), &root, b"d", text, &none).await;
                assert_eq!(refused.result, Err(reason));
            }
            assert_eq!(
                store.read_link(&me(), &root).await.map(|_| ()),
                Err(Status::Inval)
            );
        });
    });
}
