//! A directory of this machine.

use gannet_client::{Existing, Files, Follow, Transfer, Zeros};
use gannet_localfs::{LocalOptions, LocalStore, LocalTree};
use gannet_runtime::tokio_plug::block_on;
use gannet_vfs::{Credentials, FileKind};
use std::rc::Rc;

/// Runs a story with the files of a new directory.
fn story(body: impl AsyncFnOnce(Files<LocalStore>)) {
    let scratch = tempfile::tempdir().unwrap();
    let served = scratch.path().join("served");
    std::fs::create_dir(&served).unwrap();
    let options = LocalOptions {
        state_dir: Some(scratch.path().join("state")),
        ..LocalOptions::default()
    };
    let tree = LocalTree::open(&served, &options).unwrap();
    let uid = rustix::process::geteuid().as_raw();
    let gid = rustix::process::getegid().as_raw();
    block_on(async |runtime| {
        let store = LocalStore::new(tree, Rc::clone(&runtime));
        body(Files::new(runtime, store, Credentials::new(uid, gid, &[]))).await;
    })
    .unwrap();
}

#[test]
fn a_tree_is_made_listed_walked_and_removed() {
    story(async |files| {
        let made = files.make_directories(b"/a/b", 0o755).await.unwrap();
        files.make_symlink(b"a/link", b"/a/b").await.unwrap();
        for index in 0..300 {
            let name = format!("{index:03}");
            let created = files.create_in(&made.handle, name.as_bytes(), 0o644, Existing::Refuse);
            created.await.unwrap();
        }
        let listed = files.list(b"a/link").await.unwrap();
        assert_eq!(listed.len(), 300);
        let names = files.objects().names(&made.handle).await.unwrap();
        assert_eq!(names.len(), 300);
        let link = files.walk(b"a/link", Follow::No).await.unwrap();
        assert_eq!(link.attributes.kind, FileKind::Symlink);
        for (item, _) in &listed {
            let removed = files.objects().remove(&made.handle, &item.name);
            removed.await.unwrap();
        }
        for path in ["a/link", "a/b", "a"] {
            files.remove(path.as_bytes()).await.unwrap();
        }
        assert!(files.list(b"").await.unwrap().is_empty());
        assert_eq!(files.objects().waits_since(), None);
    });
}

#[test]
fn a_file_travels_with_many_operations_in_flight() {
    story(async |files| {
        let made = files.create(b"f", 0o644, Existing::Refuse).await.unwrap();
        let how = Transfer {
            block: Some(10_000),
            depth: 5,
        };
        let bytes: Vec<u8> = (0..123_456u32).map(|at| (at % 251) as u8).collect();
        let mut writer = files.write_file(&made.handle, Zeros::Write, how);
        for (index, part) in bytes.chunks(10_000).enumerate() {
            let mut buffer = writer.buffer();
            buffer[..part.len()].copy_from_slice(part);
            let offset = index as u64 * 10_000;
            writer.write(offset, buffer, part.len()).await.unwrap();
        }
        assert_eq!(writer.finish().await.unwrap().end, 123_456);
        let mut reader = files.read_file(&made.handle, 0..u64::MAX, how);
        let mut seen = Vec::new();
        while let Some(block) = reader.next().await.unwrap() {
            seen.extend_from_slice(block.data());
            reader.recycle(block.buffer);
        }
        assert!(seen == bytes);
    });
}
