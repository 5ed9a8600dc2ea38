//! Whole files, directories and paths, through everything that a server may do to them.

#![allow(clippy::unwrap_used)]

use crate::support;

use gannet_client::{Error, Existing, Follow, Transfer, Written, Zeros};
use gannet_runtime::Buffer;
use gannet_sim::limits::DISK_INODES;
use gannet_sim::store::DiskProfile;
use gannet_testing::pattern;
use gannet_vfs::{FileHandle, FileKind, Status};
use std::ops::Range;
use support::{Calls, Files, run, served, status};

fn transfer(block: u32, depth: usize) -> Transfer {
    Transfer {
        block: Some(block),
        depth,
    }
}

async fn store(
    files: &Files,
    file: &FileHandle,
    bytes: &[u8],
    zeros: Zeros,
    how: Transfer,
) -> Result<Written, Error> {
    let mut writer = files.write_file(file, zeros, how);
    let mut offset = 0;
    while offset < bytes.len() {
        let mut buffer = writer.buffer();
        let len = buffer.len().min(bytes.len() - offset);
        buffer[..len].copy_from_slice(&bytes[offset..][..len]);
        writer.write(offset as u64, buffer, len).await?;
        offset += len;
    }
    writer.finish().await
}

async fn load(
    files: &Files,
    file: &FileHandle,
    range: Range<u64>,
    how: Transfer,
) -> Result<Vec<u8>, Error> {
    let mut reader = files.read_file(file, range.clone(), how);
    let mut bytes = Vec::new();
    while let Some(block) = reader.next().await? {
        assert_eq!(
            block.offset,
            range.start + bytes.len() as u64,
            "in order, without gaps"
        );
        bytes.extend_from_slice(block.data());
        reader.recycle(block.buffer);
    }
    Ok(bytes)
}

#[test]
fn blocks_longer_than_the_server_takes_are_written_whole() {
    run(|runtime| async move {
        let (_running, _, files) = served(&runtime).await;
        let file = files.create(b"f", 0o644, Existing::Refuse).await;
        let file = file.unwrap().handle;
        let (bytes, how) = (pattern(100_001), transfer(4096, 4));
        let mut writer = files.write_file(&file, Zeros::Write, how);
        for (index, part) in bytes.chunks(30_000).enumerate() {
            let offset = index as u64 * 30_000;
            let block = Buffer::from_vec(part.to_vec());
            writer.write(offset, block, part.len()).await.unwrap();
        }
        assert_eq!(writer.finish().await.unwrap().end, 100_001);
        let read = load(&files, &file, 0..u64::MAX, how).await.unwrap();
        assert!(read == bytes, "{} bytes", read.len());
    });
}

#[test]
fn files_travel_with_many_calls_in_flight() {
    run(|runtime| async move {
        let (_running, _, files) = served(&runtime).await;
        let bytes = pattern(3_000_001);
        for (block, depth) in [(1 << 20, 4), (65536, 16), (4096, 64), (100_000, 1), (0, 0)] {
            let how = transfer(block.max(4095), depth);
            let file = files
                .create(b"f", 0o644, Existing::Truncate)
                .await
                .unwrap()
                .handle;
            let written = store(&files, &file, &bytes, Zeros::Write, how)
                .await
                .unwrap();
            let end = bytes.len() as u64;
            assert_eq!(written, Written { end, sent: end });
            assert_eq!(load(&files, &file, 0..u64::MAX, how).await.unwrap(), bytes);
            assert_eq!(
                load(&files, &file, 7..100_007, how).await.unwrap(),
                bytes[7..100_007]
            );
            assert_eq!(load(&files, &file, 5..5, how).await.unwrap(), b"");
            assert_eq!(load(&files, &file, end..end + 9, how).await.unwrap(), b"");
        }
        let how = Transfer::default();
        let empty = files
            .create(b"empty", 0o644, Existing::Refuse)
            .await
            .unwrap()
            .handle;
        assert_eq!(
            store(&files, &empty, b"", Zeros::Write, how)
                .await
                .unwrap()
                .end,
            0
        );
        assert_eq!(load(&files, &empty, 0..u64::MAX, how).await.unwrap(), b"");
    });
}

#[test]
fn short_writes_are_continued() {
    run(|runtime| async move {
        let (_running, disk, files) = served(&runtime).await;
        disk.set_profile(DiskProfile {
            short_writes_per_mille: 1000,
            ..DiskProfile::default()
        });
        let bytes = pattern(50_000);
        let how = transfer(8192, 3);
        let file = files
            .create(b"f", 0o644, Existing::Refuse)
            .await
            .unwrap()
            .handle;
        store(&files, &file, &bytes, Zeros::Write, how)
            .await
            .unwrap();
        assert_eq!(load(&files, &file, 0..u64::MAX, how).await.unwrap(), bytes);
    });
}

#[test]
fn holes_stay_holes() {
    run(|runtime| async move {
        let (_running, _, files) = served(&runtime).await;
        let mut bytes = vec![0; 40 * 4096 + 10];
        bytes[4096 * 3] = 1;
        bytes[4096 * 20..4096 * 21].fill(9);
        let how = transfer(4096, 8);
        let node = files.create(b"f", 0o644, Existing::Refuse).await.unwrap();
        let written = store(&files, &node.handle, &bytes, Zeros::Skip, how)
            .await
            .unwrap();
        assert_eq!(
            written,
            Written {
                end: bytes.len() as u64,
                sent: 2 * 4096
            }
        );
        assert_eq!(
            load(&files, &node.handle, 0..u64::MAX, how).await.unwrap(),
            bytes
        );
        let mut reader = files.read_file(&node.handle, 0..u64::MAX, how);
        let mut data = 0;
        while let Some(block) = reader.next().await.unwrap() {
            data += usize::from(!block.is_zero());
        }
        assert_eq!(data, 2);
    });
}

#[test]
fn more_than_is_kept_is_committed_on_the_way() {
    run(|runtime| async move {
        let (_running, disk, files) = served(&runtime).await;
        let file = files
            .create(b"f", 0o644, Existing::Refuse)
            .await
            .unwrap()
            .handle;
        let bytes = pattern(40 << 20);
        store(&files, &file, &bytes, Zeros::Write, Transfer::default())
            .await
            .unwrap();
        disk.crash();
        let loaded = load(&files, &file, 0..u64::MAX, Transfer::default())
            .await
            .unwrap();
        assert!(loaded == bytes);
    });
}

#[test]
fn paths_are_walked_through_links() {
    run(|runtime| async move {
        let (_running, _, files) = served(&runtime).await;
        files.make_directories(b"/a/b/c/", 0o755).await.unwrap();
        let file = files
            .create(b"a/b/c/file", 0o644, Existing::Refuse)
            .await
            .unwrap();
        files.make_symlink(b"a/relative", b"b/c").await.unwrap();
        files
            .make_symlink(b"a/b/absolute", b"/a/relative/file")
            .await
            .unwrap();
        files
            .make_symlink(b"a/up", b"../a/./b/../b/c")
            .await
            .unwrap();
        for path in [
            "a/b/c/file",
            "/a/relative/file",
            "//a/b/absolute",
            "a/up/file",
            "../a/up/file",
        ] {
            let node = files.stat(path.as_bytes()).await.unwrap();
            assert_eq!(node.handle, file.handle, "{path}");
        }
        let link = files.walk(b"a/relative", Follow::No).await.unwrap();
        assert_eq!(link.attributes.kind, FileKind::Symlink);
        assert_eq!(files.stat(b"").await.unwrap().handle, files.root());
        assert_eq!(files.stat(b"a/..").await.unwrap().handle, files.root());
        assert_eq!(status(files.stat(b"a/b/c/file/x").await), Status::Notdir);
        assert_eq!(status(files.stat(b"a/none").await), Status::Noent);
        files.make_symlink(b"loop", b"loop").await.unwrap();
        assert!(matches!(files.stat(b"loop").await, Err(Error::SymlinkLoop)));
        files
            .make_symlink(b"swell", &b"swell/".repeat(300))
            .await
            .unwrap();
        assert!(files.stat(b"swell").await.is_err());
    });
}

#[test]
fn things_are_made_moved_and_removed_by_path() {
    run(|runtime| async move {
        let (_running, _, files) = served(&runtime).await;
        let made = files.make_directories(b"x/y/z", 0o755).await.unwrap();
        let again = files.make_directories(b"/x/y/z", 0o755).await.unwrap();
        assert_eq!(made.handle, again.handle);
        assert_eq!(
            status(files.make_directory(b"x", 0o755).await),
            Status::Exist
        );
        let file = files.create(b"x/f", 0o644, Existing::Refuse).await.unwrap();
        assert_eq!(
            status(files.create(b"x/f", 0o644, Existing::Refuse).await),
            Status::Exist
        );
        let kept = files.create(b"x/f", 0o644, Existing::Keep).await.unwrap();
        assert_eq!(kept.handle, file.handle);
        assert_eq!(
            status(files.make_directories(b"x/f/g", 0o755).await),
            Status::Notdir
        );
        assert_eq!(
            status(files.create(b"x/y", 0o644, Existing::Truncate).await),
            Status::Isdir
        );

        files.rename(b"x/f", b"x/y").await.unwrap();
        assert_eq!(
            files.stat(b"x/y/f").await.unwrap().handle,
            file.handle,
            "into a directory"
        );
        files.rename(b"x/y/f", b"g").await.unwrap();
        assert_eq!(files.stat(b"g").await.unwrap().handle, file.handle);
        assert_eq!(status(files.remove(b"x").await), Status::Notempty);
        files.make_symlink(b"l", b"x/y/z").await.unwrap();
        for path in ["l", "x/y/z", "x/y", "x", "g"] {
            files.remove(path.as_bytes()).await.unwrap();
        }
        assert!(files.list(b"").await.unwrap().is_empty());
        assert!(matches!(files.remove(b"/").await, Err(Error::Path(_))));
        let usage = files.usage(b"/").await.unwrap();
        assert_eq!(usage.files_free, DISK_INODES - 1, "the root alone is left");
        files.client().unmount(b"/").await.unwrap();
    });
}

#[test]
fn many_names() {
    run(|runtime| async move {
        let (_running, _, files) = served(&runtime).await;
        let root = files.root();
        for index in 0..2000 {
            let name = format!("file-number-{index:05}");
            files
                .create_in(&root, name.as_bytes(), 0o644, Existing::Refuse)
                .await
                .unwrap();
        }
        let listed = files.list(b"").await.unwrap();
        let mut names: Vec<_> = listed.iter().map(|(item, _)| &item.name).collect();
        names.sort();
        names.dedup();
        assert_eq!((listed.len(), names.len()), (2000, 2000));
        for (item, node) in &listed {
            assert_eq!(item.fileid, node.attributes.fileid);
        }
    });
}

#[test]
fn a_directory_emptied_while_it_is_read() {
    run(|runtime| async move {
        let (_running, _, files) = served(&runtime).await;
        let (client, root) = (files.client(), files.root());
        for index in 0..500 {
            let name = format!("{index:03}");
            files
                .create_in(&root, name.as_bytes(), 0o644, Existing::Refuse)
                .await
                .unwrap();
        }
        let mut position = Some(gannet_nfs::client::Position::default());
        while let Some(at) = position {
            let page = client.readdirplus(&root, at, 2000).await.unwrap();
            for item in page.items {
                client.remove(&root, &item.name).await.unwrap();
            }
            position = page.next;
        }
        assert!(files.list(b"").await.unwrap().is_empty());
    });
}
