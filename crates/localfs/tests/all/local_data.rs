//! Reading, writing, durability, attributes.

#![allow(clippy::unwrap_used)]

use crate::support;

use gannet_localfs::HandleScheme;
use gannet_runtime::{Buffer, FileRef};
use gannet_vfs::{
    AccessMask, CreateMode, EntryName, FileKind, NodeKind, SetAttributes, SetTime, Stability,
    Status, Time, Vfs,
};
use rustix::io::{Errno, ReadWriteFlags};
use std::fs;
use std::io::IoSlice;
use std::path::Path;
use support::{World, create, is_root, lookup, me, mkdir, read, with_each_scheme, write};

const fn nothing() -> SetAttributes {
    SetAttributes {
        mode: None,
        uid: None,
        gid: None,
        size: None,
        access_time: SetTime::Keep,
        modify_time: SetTime::Keep,
    }
}

#[test]
fn written_bytes_are_read_in_order_and_up_to_the_end() {
    with_each_scheme(|world| {
        world.serve(|store| async move {
            let file = create(&store, &store.root(), b"f").await;
            write(&store, &file, 0, b"hello ").await;
            write(&store, &file, 6, b"world").await;
            assert_eq!(read(&store, &file, 3, 100).await, b"lo world");
            let all = store.read(&me(), &file, 0, 11).await.unwrap();
            assert!(all.eof && all.count == 11 && all.attributes.size == 11);
            let part = store.read(&me(), &file, 0, 10).await.unwrap();
            assert!(!part.eof && part.count == 10);
            let none = store.read(&me(), &file, 5, 0).await.unwrap();
            assert!(!none.eof && none.count == 0);
            for beyond in [11, 12, u64::MAX] {
                let reply = store.read(&me(), &file, beyond, 10).await.unwrap();
                assert!(reply.eof && reply.count == 0, "at {beyond}");
            }
        });
    });
}

/// Whether the file system of a directory writes past the page cache (Linux 6.14; ext4, XFS).
fn can_write_uncached(directory: &Path) -> bool {
    let file = fs::File::create(directory.join("probe")).unwrap();
    let flag = ReadWriteFlags::from_bits_retain(0x80);
    match rustix::io::pwritev2(&file, &[IoSlice::new(b"probe")], 0, flag) {
        Ok(_) => true,
        Err(errno) => {
            assert_eq!(errno, Errno::OPNOTSUPP);
            false
        }
    }
}

#[test]
fn long_writes_leave_the_page_cache_behind_the_disk_where_that_is_wanted() {
    const LEN: usize = 1 << 20;
    let data: Vec<u8> = (0..LEN).map(|index| index as u8).collect();
    for is_wanted in [false, true] {
        let mut world = World::new(HandleScheme::Automatic);
        world.options.uncached_writes = is_wanted;
        let goes_past = is_wanted && can_write_uncached(&world.path());
        let data = &data;
        world.serve(|store| async move {
            let root = store.root();
            let long = create(&store, &root, b"long").await;
            let short = create(&store, &root, b"short").await;
            write(&store, &long, 0, data).await;
            write(&store, &short, 0, &data[..100_000]).await;
            for file in [&long, &short] {
                store.commit(&me(), file, 0, 0).await.result.unwrap();
            }
            let cached = async |file, len: usize| {
                let read = store.read(&me(), file, 0, len as u32).await.unwrap();
                (0..10).any(|_| read.file.is_resident(0, len as u64))
            };
            assert_eq!(cached(&long, LEN).await, !goes_past, "{is_wanted}");
            assert!(cached(&short, 100_000).await, "{is_wanted}");
            assert_eq!(&read(&store, &long, 0, LEN as u32).await, data);
        });
    }
}

/// True if `holds` soon after the file was read. The kernel decides which pages are cached, and may evict one at any
/// moment. An interrupted cachestat(2) that begins inside a large folio leaves out pages (once in 60,000 calls, seen
/// on Linux 6.18).
fn within_a_few_tries(file: &FileRef, mut holds: impl FnMut() -> bool) -> bool {
    (0..10).any(|_| {
        file.read_at(0, &mut [0; 100_000]).unwrap();
        holds()
    })
}

#[test]
fn cached_bytes_come_without_waiting() {
    with_each_scheme(|world| {
        world.serve(|store| async move {
            let file = create(&store, &store.root(), b"f").await;
            write(&store, &file, 0, &[7; 100_000]).await;
            let reply = store.read(&me(), &file, 0, 100_000).await.unwrap();
            let file = reply.file;
            assert!(file.descriptor().is_some());
            let mut buffer = [0; 4096];
            assert_eq!(file.read_at(100_000, &mut buffer).unwrap(), 0);
            let cached = [
                within_a_few_tries(&file, || file.is_resident(0, 100_000)),
                within_a_few_tries(&file, || file.is_resident(90_000, u64::MAX - 90_000)),
                within_a_few_tries(&file, || file.try_read_at(99_000, &mut buffer).is_ok()),
            ];
            assert_eq!(cached, [true; 3], "whole, from inside a page on, and read");
            assert_eq!(buffer[..1001], [[7; 1000].as_slice(), &[0]].concat());
            assert_eq!(file.try_read_at(100_000, &mut buffer).unwrap(), 0);
        });
    });
}

#[test]
fn each_write_is_as_durable_as_asked_under_one_verifier() {
    with_each_scheme(|world| {
        let verifier = world.serve(|store| async move {
            let file = create(&store, &store.root(), b"f").await;
            for stability in [
                Stability::Unstable,
                Stability::DataSync,
                Stability::FileSync,
            ] {
                let data = Buffer::from_vec(b"..data..".to_vec());
                let written = store.write(&me(), &file, 0, data, 2..6, stability).await;
                let done = written.result.unwrap();
                assert!(done.committed >= stability);
                assert_eq!((done.count, done.verifier), (4, store.write_verifier()));
            }
            let committed = store.commit(&me(), &file, 0, 0).await;
            assert_eq!(committed.result.unwrap().verifier, store.write_verifier());
            assert_eq!(read(&store, &file, 0, 9).await, b"data");
            store.write_verifier()
        });
        let later = world.serve(|store| async move { store.write_verifier() });
        assert_ne!(verifier, later, "another instance");
    });
}

#[test]
fn a_commit_works_for_a_file_that_is_not_open() {
    with_each_scheme(|world| {
        std::fs::write(world.path().join("f"), "local").unwrap();
        world.serve(|store| async move {
            let file = lookup(&store, &store.root(), b"f").await.unwrap();
            store.commit(&me(), &file, 0, 0).await.result.unwrap();
            let directory = store.commit(&me(), &store.root(), 0, 0).await;
            assert_eq!(directory.result.map(|_| ()), Err(Status::Isdir));
        });
    });
}

#[test]
fn weak_cache_consistency_data_frames_the_change() {
    with_each_scheme(|world| {
        world.serve(|store| async move {
            let file = create(&store, &store.root(), b"f").await;
            let before = store.attributes(&file).await.unwrap();
            let data = Buffer::from_vec(vec![1; 10]);
            let written = store
                .write(&me(), &file, 5, data, 0..10, Stability::Unstable)
                .await;
            let after = store.attributes(&file).await.unwrap();
            assert_eq!(written.wcc.before, Some(before.wcc()));
            assert_eq!(written.wcc.after, Some(after));
            assert_eq!(after.size, 15);
            let root = store.attributes(&store.root()).await.unwrap();
            let made = store
                .make_directory(&me(), &store.root(), b"f", &nothing())
                .await;
            assert_eq!(made.result, Err(Status::Exist));
            assert_eq!(made.wcc.before, Some(root.wcc()), "also on failure");
            assert_eq!(made.wcc.after, Some(root));
        });
    });
}

#[test]
fn an_empty_write_changes_nothing() {
    with_each_scheme(|world| {
        world.serve(|store| async move {
            let file = create(&store, &store.root(), b"f").await;
            let before = store.attributes(&file).await.unwrap();
            write(&store, &file, 100, b"").await;
            assert_eq!(store.attributes(&file).await.unwrap(), before);
        });
    });
}

#[test]
fn offsets_reach_to_the_largest_of_the_kernel() {
    with_each_scheme(|world| {
        world.serve(|store| async move {
            let file = create(&store, &store.root(), b"f").await;
            let far = 5 << 30;
            write(&store, &file, far, b"far").await;
            let attributes = store.attributes(&file).await.unwrap();
            assert_eq!(attributes.size, far + 3);
            assert!(attributes.used < 1 << 20, "sparse");
            assert_eq!(read(&store, &file, far - 2, 10).await, b"\0\0far");
            for offset in [i64::MAX as u64, u64::MAX, i64::MAX as u64 - 2] {
                let data = Buffer::from_vec(vec![1; 4]);
                let refused = store
                    .write(&me(), &file, offset, data, 0..4, Stability::Unstable)
                    .await;
                assert_eq!(refused.result, Err(Status::Fbig), "at {offset}");
            }
            let too_long = SetAttributes {
                size: Some(u64::MAX),
                ..nothing()
            };
            let refused = store.set_attributes(&me(), &file, &too_long, None).await;
            assert_eq!(refused.result, Err(Status::Fbig));
        });
    });
}

#[test]
fn a_range_outside_the_buffer_is_refused() {
    with_each_scheme(|world| {
        world.serve(|store| async move {
            let file = create(&store, &store.root(), b"f").await;
            let data = Buffer::from_vec(vec![1; 4]);
            let refused = store
                .write(&me(), &file, 0, data, 2..5, Stability::Unstable)
                .await;
            assert_eq!(refused.result, Err(Status::Inval));
        });
    });
}

#[test]
fn attributes_are_set_together_and_guarded() {
    with_each_scheme(|world| {
        world.serve(|store| async move {
            let file = create(&store, &store.root(), b"f").await;
            let old = store.attributes(&file).await.unwrap();
            let change = SetAttributes {
                mode: Some(0o440),
                size: Some(1000),
                access_time: SetTime::To(Time {
                    seconds: 1_000_000,
                    nanoseconds: 5,
                }),
                modify_time: SetTime::To(Time {
                    seconds: 4_000_000_000,
                    nanoseconds: 7,
                }),
                ..nothing()
            };
            let wrong = Time::default();
            let refused = store
                .set_attributes(&me(), &file, &change, Some(wrong))
                .await;
            assert_eq!(refused.result, Err(Status::NotSync));
            assert_eq!(store.attributes(&file).await.unwrap(), old);
            let set = store
                .set_attributes(&me(), &file, &change, Some(old.change_time))
                .await;
            set.result.unwrap();
            let new = set.wcc.after.unwrap();
            assert_eq!((new.mode, new.size), (0o440, 1000));
            assert_eq!(new.access_time.seconds, 1_000_000);
            assert_eq!(new.modify_time.seconds, 4_000_000_000);
            assert_eq!(read(&store, &file, 0, 1000).await, vec![0; 1000]);
            // The owner may write to a file that it made read-only.
            let cut = SetAttributes {
                size: Some(2),
                ..nothing()
            };
            let cut = store.set_attributes(&me(), &file, &cut, None).await;
            if is_root() {
                cut.result.unwrap();
                write(&store, &file, 0, b"x").await;
            }
        });
    });
}

#[test]
fn a_touch_sets_one_time_to_now() {
    with_each_scheme(|world| {
        world.serve(|store| async move {
            let file = create(&store, &store.root(), b"f").await;
            let long_ago = SetTime::To(Time {
                seconds: 1,
                nanoseconds: 0,
            });
            let back = SetAttributes {
                access_time: long_ago,
                modify_time: long_ago,
                ..nothing()
            };
            store
                .set_attributes(&me(), &file, &back, None)
                .await
                .result
                .unwrap();
            let touch = SetAttributes {
                modify_time: SetTime::Now,
                ..nothing()
            };
            let touched = store.set_attributes(&me(), &file, &touch, None).await;
            let after = touched.wcc.after.unwrap();
            assert_eq!(after.access_time.seconds, 1);
            assert!(after.modify_time.seconds > 1_000_000_000);
            let nonsense = SetAttributes {
                modify_time: SetTime::To(Time {
                    seconds: 1,
                    nanoseconds: 1_000_000_000,
                }),
                ..nothing()
            };
            let refused = store.set_attributes(&me(), &file, &nonsense, None).await;
            assert_eq!(refused.result, Err(Status::Inval));
        });
    });
}

#[test]
fn only_files_hold_data() {
    with_each_scheme(|world| {
        world.serve(|store| async move {
            let root = store.root();
            let directory = mkdir(&store, &root, b"d").await;
            let fifo = store
                .make_node(&me(), &root, b"p", NodeKind::Fifo, &nothing())
                .await;
            let fifo = fifo.result.unwrap();
            assert_eq!(fifo.attributes.unwrap().kind, FileKind::Fifo);
            for (handle, reason) in [(directory, Status::Isdir), (fifo.handle, Status::Inval)] {
                let refused = store.read(&me(), &handle, 0, 1).await;
                assert_eq!(refused.map(|_| ()).unwrap_err(), reason);
                let data = Buffer::from_vec(vec![1]);
                let refused = store
                    .write(&me(), &handle, 0, data, 0..1, Stability::FileSync)
                    .await;
                assert_eq!(refused.result, Err(reason));
                let cut = SetAttributes {
                    size: Some(0),
                    ..nothing()
                };
                let refused = store.set_attributes(&me(), &handle, &cut, None).await;
                assert_eq!(refused.result, Err(reason));
            }
            let socket = store
                .make_node(&me(), &root, b"s", NodeKind::Socket, &nothing())
                .await;
            let socket = socket.result.unwrap().attributes.unwrap();
            assert_eq!(socket.kind, FileKind::Socket);
            if is_root() {
                let device = NodeKind::CharacterDevice {
                    major: 1,
                    minor: 300,
                };
                let made = store
                    .make_node(&me(), &root, b"c", device, &nothing())
                    .await;
                let made = made.result.unwrap().attributes.unwrap();
                assert_eq!(made.kind, FileKind::CharacterDevice);
                assert_eq!(made.device, (1, 300));
                // The kernel keeps 12 and 20 bits, and would make another device of these.
                let (minor, major) = (3, (1 << 12) + 1);
                let large = NodeKind::CharacterDevice { major, minor };
                let made = store.make_node(&me(), &root, b"l", large, &nothing()).await;
                assert_eq!(made.result, Err(Status::Inval));
            }
        });
    });
}

#[test]
fn metadata_is_durable_at_once_on_the_file_system_of_this_machine() {
    let mut world = support::World::new(gannet_localfs::HandleScheme::Automatic);
    world.options.async_metadata = false;
    world.serve(|store| async move {
        let root = store.root();
        let d = mkdir(&store, &root, b"d").await;
        let f = create(&store, &d, b"f").await;
        let mode = SetAttributes {
            mode: Some(0o700),
            ..nothing()
        };
        for handle in [f, d] {
            let set = store.set_attributes(&me(), &handle, &mode, None).await;
            set.result.unwrap();
        }
        let (moved, _, _) = store
            .rename(&me(), EntryName::new(&d, b"f"), EntryName::new(&root, b"g"))
            .await;
        moved.unwrap();
        store.remove(&me(), &root, b"g").await.result.unwrap();
        store
            .remove_directory(&me(), &root, b"d")
            .await
            .result
            .unwrap();
    });
}

#[test]
fn access_follows_the_modes() {
    with_each_scheme(|world| {
        world.serve(|store| async move {
            let all = AccessMask(63);
            let (granted, _) = store.access(&me(), &store.root(), all).await.unwrap();
            let expected = AccessMask::READ
                | AccessMask::LOOKUP
                | AccessMask::MODIFY
                | AccessMask::EXTEND
                | AccessMask::DELETE;
            assert_eq!(granted.0, expected);
            let file = create(&store, &store.root(), b"f").await;
            let (granted, _) = store.access(&me(), &file, all).await.unwrap();
            let expected = AccessMask::READ | AccessMask::MODIFY | AccessMask::EXTEND;
            assert_eq!(granted.0, expected);
            let some = AccessMask(AccessMask::READ | AccessMask::EXECUTE);
            let (granted, _) = store.access(&me(), &file, some).await.unwrap();
            assert_eq!(granted.0, AccessMask::READ);
        });
    });
}

#[test]
fn the_volume_has_room() {
    with_each_scheme(|world| {
        world.serve(|store| async move {
            let usage = store.usage(&store.root()).await.unwrap();
            assert!(usage.bytes_total > 0 && usage.bytes_available <= usage.bytes_total);
            let limits = store.limits();
            assert_eq!(limits.name_max, 255);
        });
    });
}

#[test]
fn modes_are_taken_exactly() {
    with_each_scheme(|world| {
        world.serve(|store| async move {
            let root = store.root();
            let mode = SetAttributes {
                mode: Some(0o1777),
                ..nothing()
            };
            let made = store.make_directory(&me(), &root, b"d", &mode).await;
            let made = made.result.unwrap().attributes.unwrap();
            assert_eq!(made.mode, 0o1777, "whatever the server's umask is");
            let mode = CreateMode::Guarded(SetAttributes {
                mode: Some(0o6666),
                size: Some(77),
                ..nothing()
            });
            let made = store.create(&me(), &root, b"f", &mode).await;
            let made = made.result.unwrap().attributes.unwrap();
            assert_eq!((made.mode, made.size), (0o6666, 77));
        });
    });
}

#[test]
fn a_read_into_memory_ends_with_the_file_or_the_memory() {
    with_each_scheme(|world| {
        world.serve(|store| async move {
            let file = create(&store, &store.root(), b"f").await;
            write(&store, &file, 0, b"0123456789").await;
            let cases = [
                (0, 4, 8, &b"0123"[..], false),
                (2, 8, 3, b"234", false),
                (6, 8, 8, b"6789", true),
                (10, 8, 8, b"", true),
                (99, 1, 8, b"", true),
            ];
            for (offset, count, room, there, eof) in cases {
                let memory = Buffer::zeroed(room);
                let read = store.read_into(&me(), &file, offset, count, memory).await;
                let (done, memory) = (read.0.unwrap(), read.1.unwrap());
                assert_eq!(memory.get(..done.count as usize), Some(there));
                assert_eq!((memory.len(), done.eof), (room, eof));
                assert_eq!(done.attributes.map(|it| it.size), Some(10));
            }
            let directory = store.root();
            let memory = Buffer::zeroed(8);
            let (refused, memory) = store.read_into(&me(), &directory, 0, 8, memory).await;
            assert_eq!((refused, memory.is_some()), (Err(Status::Isdir), true));
        });
    });
}

#[test]
fn the_largest_file_is_that_of_the_file_system() {
    with_each_scheme(|world| {
        world.serve(|store| async move {
            let file = create(&store, &store.root(), b"f").await;
            let max = store.limits().file_size_max;
            let sized = async |size| {
                let change = SetAttributes {
                    size: Some(size),
                    ..nothing()
                };
                store
                    .set_attributes(&me(), &file, &change, None)
                    .await
                    .result
            };
            if max < i64::MAX as u64 {
                sized(max).await.unwrap();
            }
            assert_eq!(sized(max + 1).await, Err(Status::Fbig), "{max}");
        });
    });
}

#[test]
fn operations_of_one_moment_share_a_look_and_those_of_the_next_do_not() {
    let world = World::new(HandleScheme::Automatic);
    let path = world.path().join("file");
    world.serve(|store| async move {
        let file = create(&store, &store.root(), b"file").await;
        let size = async || {
            let attributes = store.attributes(&file).await.unwrap();
            let read = store.read(&me(), &file, 0, 1).await.unwrap();
            let (_, asked) = store
                .access(&me(), &file, AccessMask(AccessMask::READ))
                .await
                .unwrap();
            assert_eq!([read.attributes.size, asked.size], [attributes.size; 2]);
            assert_eq!(u64::from(read.count), attributes.size.min(1));
            attributes.size
        };
        let grow = |size| fs::write(&path, vec![1; size]).unwrap();
        // Nobody tells when operations were requested.
        grow(1);
        assert_eq!(size().await, 1);
        grow(2);
        assert_eq!(size().await, 2);
        store.requested_before(0);
        assert_eq!(size().await, 2);
        grow(3);
        assert_eq!(size().await, 2, "a look is shared");
        store.requested_before(0);
        assert_eq!(size().await, 2, "a look is shared");
        store.requested_before(1);
        assert_eq!(size().await, 3);
        fs::remove_file(&path).unwrap();
        assert_eq!(store.attributes(&file).await.unwrap().size, 3);
        store.requested_before(2);
        assert_eq!(store.attributes(&file).await, Err(Status::Stale));
    });
}
