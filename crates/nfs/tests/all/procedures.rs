//! Every procedure from client to store and back, over TCP on loopback.

#![allow(clippy::unwrap_used)]

use crate::support;

use gannet_client::Transfer;
use gannet_nfs::client::{Client, Position};
use gannet_runtime::Buffer;
use gannet_sim::limits::{DISK_BYTES, DISK_INODES, FILE_MAX, LINK_MAX};
use gannet_sim::store::DiskProfile;
use gannet_vfs::{
    AccessMask, CreateMode, EntryName, FileHandle, FileKind, NodeKind, SetAttributes, SetTime,
    Stability, Status, Time,
};
use support::{Calls, Files, run, served, status};

fn mode(mode: u32) -> SetAttributes {
    SetAttributes {
        mode: Some(mode),
        ..SetAttributes::default()
    }
}

fn buffer(bytes: &[u8]) -> Buffer {
    Buffer::from_vec(bytes.to_vec())
}

async fn file(files: &Files, name: &[u8], content: &[u8]) -> FileHandle {
    let (client, root) = (files.client(), files.root());
    let made = client
        .create(&root, name, &CreateMode::Unchecked(mode(0o644)))
        .await
        .unwrap();
    let len = content.len() as u32;
    let stable = Stability::FileSync;
    client
        .write(&made.handle, 0, buffer(content), len, stable)
        .await
        .unwrap();
    made.handle
}

async fn content(client: &Client, file: &FileHandle) -> Vec<u8> {
    let read = client
        .read(file, 0, 1 << 20, Buffer::zeroed(1 << 20))
        .await
        .unwrap();
    assert!(read.eof && read.attributes.is_some());
    read.buffer[..read.count as usize].to_vec()
}

#[test]
fn null_and_fixed_properties() {
    run(|runtime| async move {
        let (_running, _, files) = served(&runtime).await;
        let (client, root) = (files.client(), files.root());
        client.null().await.unwrap();
        let info = client.fsinfo(&root).await.unwrap();
        assert_eq!((info.read_max, info.write_max), (1 << 20, 1 << 20));
        assert_eq!(
            (info.directory_preferred, info.properties),
            (128 << 10, 0x1b)
        );
        assert_eq!(info.file_size_max, FILE_MAX);
        assert!(info.attributes.is_some());
        let pathconf = client.pathconf(&root).await.unwrap();
        assert_eq!((pathconf.name_max, pathconf.link_max), (255, LINK_MAX));
        assert!(pathconf.no_truncation && pathconf.case_preserving);
        let usage = client.fsstat(&root).await.unwrap();
        assert_eq!(
            (usage.bytes_total, usage.files_total),
            (DISK_BYTES, DISK_INODES)
        );
    });
}

#[test]
fn attributes_are_read_and_set() {
    run(|runtime| async move {
        let (_running, _, files) = served(&runtime).await;
        let client = files.client();
        let handle = file(&files, b"f", b"hello").await;
        let before = client.getattr(&handle).await.unwrap();
        assert_eq!(
            (before.kind, before.mode, before.size),
            (FileKind::Regular, 0o644, 5)
        );
        assert_eq!((before.uid, before.gid), (1000, 1000));
        let time = Time {
            seconds: 4_000_000_000,
            nanoseconds: 999_999_999,
        };
        let change = SetAttributes {
            mode: Some(0o600),
            size: Some(3),
            access_time: SetTime::Now,
            modify_time: SetTime::To(time),
            ..SetAttributes::default()
        };
        let stale = Time::default();
        let guarded = client.setattr(&handle, &change, Some(stale)).await;
        assert_eq!(status(guarded), Status::NotSync);
        let after = client
            .setattr(&handle, &change, Some(before.change_time))
            .await
            .unwrap();
        let after = after.unwrap();
        assert_eq!(
            (after.mode, after.size, after.modify_time),
            (0o600, 3, time)
        );
        assert_eq!(client.getattr(&handle).await.unwrap(), after);
        assert_eq!(content(client, &handle).await, b"hel");
    });
}

#[test]
fn names_are_looked_up() {
    run(|runtime| async move {
        let (_running, _, files) = served(&runtime).await;
        let (client, root) = (files.client(), files.root());
        let handle = file(&files, b"f", b"").await;
        let found = client.lookup(&root, b"f").await.unwrap();
        assert_eq!(
            (found.handle, found.attributes.unwrap().kind),
            (handle, FileKind::Regular)
        );
        assert_eq!(client.lookup(&root, b".").await.unwrap().handle, root);
        assert_eq!(client.lookup(&root, b"..").await.unwrap().handle, root);
        assert_eq!(status(client.lookup(&root, b"g").await), Status::Noent);
        assert_eq!(status(client.lookup(&handle, b"g").await), Status::Notdir);
        let long = [b'x'; 300];
        assert_eq!(
            status(client.lookup(&root, &long).await),
            Status::Nametoolong
        );
    });
}

/// RFC 1813 sets no bound for names, so that the server decodes them all, and refuses long ones with a status.
#[test]
fn a_name_of_any_length_is_refused_as_too_long() {
    run(|runtime| async move {
        let (_running, _, files) = served(&runtime).await;
        let (client, root, plain) = (files.client(), files.root(), mode(0o644));
        let handle = file(&files, b"f", b"").await;
        for len in [256, 4096, 4097, 8000, 300_000] {
            let name = vec![b'n'; len];
            let (old, new) = (EntryName::new(&root, b"f"), EntryName::new(&root, &name));
            let how = CreateMode::Guarded(plain);
            let refused = [
                status(client.lookup(&root, &name).await),
                status(client.create(&root, &name, &how).await),
                status(client.mkdir(&root, &name, &plain).await),
                status(client.symlink(&root, &name, b"to", &plain).await),
                status(
                    client
                        .symlink(&root, b"l", &[&name[..], &[b'n'; 4000]].concat(), &plain)
                        .await,
                ),
                status(client.mknod(&root, &name, NodeKind::Fifo, &plain).await),
                status(client.remove(&root, &name).await),
                status(client.rmdir(&root, &name).await),
                status(client.rename(old, new).await),
                status(client.rename(new, old).await),
                status(client.link(&handle, &root, &name).await),
            ];
            assert_eq!(refused, [Status::Nametoolong; 11], "{len}");
        }
        client.getattr(&handle).await.unwrap();
    });
}

#[test]
fn access_grants_the_rights_of_the_mode() {
    run(|runtime| async move {
        let (_running, _, files) = served(&runtime).await;
        for asked in [63, AccessMask::READ | AccessMask::EXTEND, 0] {
            let granted = files
                .client()
                .access(&files.root(), AccessMask(asked))
                .await;
            assert_eq!(granted.unwrap().0, asked);
        }
    });
}

#[test]
fn links_are_made_and_read() {
    run(|runtime| async move {
        let (_running, _, files) = served(&runtime).await;
        let (client, root) = (files.client(), files.root());
        let target = [b'a'; 4000];
        let link = client
            .symlink(&root, b"l", &target, &mode(0o777))
            .await
            .unwrap();
        assert_eq!(client.readlink(&link.handle).await.unwrap(), target);
        assert_eq!(status(client.readlink(&root).await), Status::Inval);
        let handle = file(&files, b"f", b"x").await;
        client.link(&handle, &root, b"g").await.unwrap();
        assert_eq!(client.lookup(&root, b"g").await.unwrap().handle, handle);
        assert_eq!(client.getattr(&handle).await.unwrap().link_count, 2);
        assert_eq!(
            status(client.link(&handle, &root, b"g").await),
            Status::Exist
        );
        assert_eq!(status(client.link(&root, &root, b"h").await), Status::Perm);
    });
}

#[test]
fn reads_end_where_the_file_does() {
    run(|runtime| async move {
        let (_running, disk, files) = served(&runtime).await;
        let client = files.client();
        let bytes: Vec<u8> = (0..100_000u32).map(|n| (n % 251) as u8).collect();
        let handle = file(&files, b"f", &bytes).await;
        // Small ones come with the reply's head, larger ones as a file range, cold ones from the blocking pool.
        for (cold, count) in [
            (false, 5),
            (false, 16384),
            (false, 16385),
            (true, 5),
            (true, 65536),
        ] {
            disk.set_profile(DiskProfile {
                evictions_per_mille: if cold { 1000 } else { 0 },
                ..DiskProfile::default()
            });
            let read = client
                .read(&handle, 10, count, Buffer::zeroed(65536))
                .await
                .unwrap();
            assert_eq!((read.count, read.eof), (count, false));
            assert_eq!(read.buffer[..count as usize], bytes[10..][..count as usize]);
        }
        let read = client
            .read(&handle, 99_990, 20, Buffer::zeroed(64))
            .await
            .unwrap();
        assert_eq!(
            (read.count, read.eof, &read.buffer[..10]),
            (10, true, &bytes[99_990..])
        );
        for (offset, count, eof) in [(100_000, 1, true), (u64::MAX, 9, true), (5, 0, false)] {
            let read = client
                .read(&handle, offset, count, Buffer::zeroed(64))
                .await
                .unwrap();
            assert_eq!((read.count, read.eof), (0, eof), "{offset}");
        }
        let root = files.root();
        let refused = client.read(&root, 0, 1, Buffer::zeroed(8)).await;
        assert_eq!(status(refused), Status::Isdir);
    });
}

#[test]
fn a_reader_to_the_end_asks_for_little_that_does_not_exist() {
    run(|runtime| async move {
        let (running, _, files) = served(&runtime).await;
        let transfer = Transfer {
            block: Some(4096),
            depth: 16,
        };
        for (len, reads_max) in [(0, 1), (6, 1), (4096, 3), (1 << 20, 256 + 16)] {
            let name = format!("{len}");
            let handle = file(&files, name.as_bytes(), &vec![7; len]).await;
            let before = running.counters.calls.total();
            let mut reader = files.read_file(&handle, 0..u64::MAX, transfer);
            let mut read = 0;
            while let Some(block) = reader.next().await.unwrap() {
                assert!(block.data().iter().all(|byte| *byte == 7));
                read += block.len;
            }
            assert_eq!(read, len);
            let reads = running.counters.calls.total() - before;
            assert!(reads <= reads_max, "{reads} READs of {len} bytes");
        }
    });
}

#[test]
fn writes_of_every_size_and_stability() {
    run(|runtime| async move {
        let (_running, _, files) = served(&runtime).await;
        let client = files.client();
        let handle = file(&files, b"f", b"").await;
        let mut expected = vec![0; 1 << 20];
        let sizes = [1, 3, 4096, 16384, 16385, 300_001, 1 << 20];
        for (index, len) in sizes.into_iter().enumerate() {
            let data = vec![index as u8 + 1; len];
            let stability = [
                Stability::Unstable,
                Stability::DataSync,
                Stability::FileSync,
            ];
            let stability = stability[index % 3];
            let done = client
                .write(&handle, 0, buffer(&data), len as u32, stability)
                .await
                .unwrap();
            assert_eq!((done.count, done.committed), (len as u32, stability));
            assert_eq!(done.buffer[..], data[..], "the memory comes back");
            expected[..len].copy_from_slice(&data);
            assert_eq!(content(client, &handle).await, expected[..len]);
            let committed = client.commit(&handle, 0, 0).await.unwrap();
            assert_eq!(committed.verifier, done.verifier);
        }
    });
}

#[test]
fn offsets_up_to_the_largest() {
    run(|runtime| async move {
        let (_running, _, files) = served(&runtime).await;
        let client = files.client();
        let handle = file(&files, b"f", b"").await;
        let last = FILE_MAX - 4;
        let done = client
            .write(&handle, last, buffer(b"over"), 4, Stability::FileSync)
            .await;
        assert_eq!(done.unwrap().count, 4);
        let read = client
            .read(&handle, last, 4, Buffer::zeroed(4))
            .await
            .unwrap();
        assert_eq!((&read.buffer[..], read.eof), (&b"over"[..], true));
        assert_eq!(client.getattr(&handle).await.unwrap().size, FILE_MAX);
        for offset in [last + 1, u64::MAX - 1, u64::MAX] {
            let refused = client
                .write(&handle, offset, buffer(b"over"), 4, Stability::FileSync)
                .await;
            assert_eq!(status(refused), Status::Fbig);
        }
    });
}

#[test]
fn errors_of_the_disk_are_returned() {
    run(|runtime| async move {
        let (_running, disk, files) = served(&runtime).await;
        let client = files.client();
        let handle = file(&files, b"f", b"hello").await;
        disk.set_profile(DiskProfile {
            io_errors_per_mille: 1000,
            ..DiskProfile::default()
        });
        let write = |how| client.write(&handle, 0, buffer(b"lost"), 4, how);
        assert_eq!(status(write(Stability::Unstable).await), Status::Io);
        assert_eq!(status(write(Stability::FileSync).await), Status::Io);
        assert_eq!(status(client.commit(&handle, 0, 0).await), Status::Io);
        let read = client.read(&handle, 0, 5, Buffer::zeroed(8)).await;
        assert_eq!(status(read), Status::Io);
        disk.set_profile(DiskProfile {
            no_space_per_mille: 1000,
            ..DiskProfile::default()
        });
        assert_eq!(status(write(Stability::Unstable).await), Status::Nospc);
        assert_eq!(content(client, &handle).await, b"hello");
    });
}

#[test]
fn files_are_created_in_three_ways() {
    run(|runtime| async move {
        let (_running, _, files) = served(&runtime).await;
        let (client, root) = (files.client(), files.root());
        let guarded = CreateMode::Guarded(mode(0o640));
        let made = client.create(&root, b"g", &guarded).await.unwrap();
        assert_eq!(made.attributes.unwrap().mode, 0o640);
        assert_eq!(
            status(client.create(&root, b"g", &guarded).await),
            Status::Exist
        );

        let handle = file(&files, b"u", b"content").await;
        let truncate = SetAttributes {
            size: Some(0),
            mode: Some(0o777),
            ..SetAttributes::default()
        };
        let again = client
            .create(&root, b"u", &CreateMode::Unchecked(truncate))
            .await
            .unwrap();
        let attributes = again.attributes.unwrap();
        assert_eq!(
            (again.handle, attributes.size, attributes.mode),
            (handle, 0, 0o644)
        );

        let exclusive = CreateMode::Exclusive(*b"12345678");
        let made = client.create(&root, b"x", &exclusive).await.unwrap();
        let retried = client.create(&root, b"x", &exclusive).await.unwrap();
        assert_eq!(made.handle, retried.handle, "the same call, once more");
        let other = client
            .create(&root, b"x", &CreateMode::Exclusive(*b"87654321"))
            .await;
        assert_eq!(status(other), Status::Exist);
        for (name, why) in [
            (&b""[..], Status::Inval),
            (b"..", Status::Exist),
            (b"a/b", Status::Inval),
        ] {
            assert_eq!(status(client.create(&root, name, &guarded).await), why);
        }
    });
}

#[test]
fn directories_and_special_files() {
    run(|runtime| async move {
        let (_running, _, files) = served(&runtime).await;
        let (client, root) = (files.client(), files.root());
        let directory = client.mkdir(&root, b"d", &mode(0o755)).await.unwrap();
        assert_eq!(directory.attributes.unwrap().kind, FileKind::Directory);
        let inside = directory.handle;
        let kinds = [
            (NodeKind::Fifo, FileKind::Fifo),
            (NodeKind::Socket, FileKind::Socket),
            (
                NodeKind::CharacterDevice { major: 1, minor: 3 },
                FileKind::CharacterDevice,
            ),
            (
                NodeKind::BlockDevice { major: 8, minor: 0 },
                FileKind::BlockDevice,
            ),
        ];
        for (index, (kind, expected)) in kinds.into_iter().enumerate() {
            let name = [b'a' + index as u8];
            let node = client
                .mknod(&inside, &name, kind, &mode(0o600))
                .await
                .unwrap();
            assert_eq!(node.attributes.unwrap().kind, expected);
        }
        assert_eq!(status(client.rmdir(&root, b"d").await), Status::Notempty);
        assert_eq!(status(client.rmdir(&inside, b"a").await), Status::Notdir);
        for name in [b"a", b"b", b"c", b"d"] {
            client.remove(&inside, name).await.unwrap();
        }
        assert_eq!(status(client.remove(&root, b"d").await), Status::Isdir);
        client.rmdir(&root, b"d").await.unwrap();
        assert_eq!(status(client.remove(&root, b"d").await), Status::Noent);
        assert_eq!(status(client.getattr(&inside).await), Status::Stale);
    });
}

#[test]
fn names_move() {
    run(|runtime| async move {
        let (_running, _, files) = served(&runtime).await;
        let (client, root) = (files.client(), files.root());
        let directory = client
            .mkdir(&root, b"d", &mode(0o755))
            .await
            .unwrap()
            .handle;
        let handle = file(&files, b"f", b"1").await;
        file(&files, b"victim", b"2").await;
        client
            .rename(
                EntryName::new(&root, b"f"),
                EntryName::new(&directory, b"g"),
            )
            .await
            .unwrap();
        assert_eq!(
            client.lookup(&directory, b"g").await.unwrap().handle,
            handle
        );
        client
            .rename(
                EntryName::new(&directory, b"g"),
                EntryName::new(&root, b"victim"),
            )
            .await
            .unwrap();
        assert_eq!(
            client.lookup(&root, b"victim").await.unwrap().handle,
            handle
        );
        assert_eq!(content(client, &handle).await, b"1", "handles survive");
        let missing = client
            .rename(EntryName::new(&root, b"f"), EntryName::new(&root, b"h"))
            .await;
        assert_eq!(status(missing), Status::Noent);
    });
}

#[test]
fn pages_of_a_directory_respect_their_bounds() {
    run(|runtime| async move {
        let (_running, _, files) = served(&runtime).await;
        let (client, root) = (files.client(), files.root());
        for index in 0..40 {
            file(&files, format!("name-{index:02}").as_bytes(), b"").await;
        }
        for bytes in [300, 512, 1000, 4096, 1 << 20] {
            let (mut position, mut names, mut pages) = (Position::default(), Vec::new(), 0);
            loop {
                let page = client.readdirplus(&root, position, bytes).await.unwrap();
                for item in page.items {
                    let attributes = item.attributes.unwrap();
                    assert_eq!(attributes.fileid, item.fileid);
                    let found = client.lookup(&root, &item.name).await.unwrap();
                    assert_eq!(Some(found.handle), item.handle);
                    names.push(item.name);
                }
                pages += 1;
                match page.next {
                    Some(next) => position = next,
                    None => break,
                }
            }
            assert_eq!(names.len(), 40, "{bytes}");
            names.dedup();
            assert_eq!(names.len(), 40, "none twice");
            assert_eq!(pages == 1, bytes > 8000, "{pages} pages of {bytes}");
        }
        let (mut position, mut count) = (Position::default(), 0);
        loop {
            let page = client.readdir(&root, position, 200).await.unwrap();
            count += page.items.len();
            assert!(page.items.iter().all(|item| item.handle.is_none()));
            match page.next {
                Some(next) => position = next,
                None => break,
            }
        }
        assert_eq!(count, 40);
        for too_small in [0, 100, 130] {
            let refused = client
                .readdirplus(&root, Position::default(), too_small)
                .await;
            assert_eq!(status(refused), Status::Toosmall);
        }
    });
}
