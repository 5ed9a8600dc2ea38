//! A real directory, copied in and out over the network, and looked at from behind.

#![allow(clippy::unwrap_used)]

use crate::support;

use gannet_client::{Existing, Transfer, Zeros};
use gannet_localfs::{HandleScheme, LocalOptions, LocalStore, LocalTree};
use gannet_nfs::client::Client;
use gannet_nfs::server::{Server, Squash, UserGroups};
use gannet_runtime::{Buffer, Handle};
use gannet_testing::pattern;
use gannet_vfs::{
    AccessMask, FileHandle, FileKind, SetAttributes, SetTime, Stability, Status, Time,
};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use support::{Addresses, Calls, Files, Running, export, mount, run, status, user};

struct Scratch {
    root: tempfile::TempDir,
    state: tempfile::TempDir,
}

impl Scratch {
    fn new() -> Scratch {
        let root = tempfile::tempdir().unwrap();
        fs::set_permissions(root.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let state = tempfile::tempdir().unwrap();
        Scratch { root, state }
    }

    fn path(&self) -> &Path {
        self.root.path()
    }

    fn store(&self, runtime: &Handle, handles: HandleScheme) -> LocalStore {
        let options = LocalOptions {
            state_dir: Some(self.state.path().to_path_buf()),
            handles,
            ..LocalOptions::default()
        };
        let tree = LocalTree::open(self.path(), &options).unwrap();
        LocalStore::new(tree, runtime.clone())
    }

    fn serve(
        &self,
        runtime: &Handle,
        handles: HandleScheme,
        squash: Squash,
    ) -> Running<Server<LocalStore>> {
        let store = self.store(runtime, handles);
        let mut export = export("/");
        export.rules.squash = squash;
        Running::start(runtime, vec![(export, store)])
    }
}

/// The user that runs the test, and its group: what it makes is then its own, root or not.
fn me() -> (u32, u32) {
    let uid = rustix::process::geteuid().as_raw();
    (uid, rustix::process::getegid().as_raw())
}

async fn mounted(runtime: &Handle, running: &Running<Server<LocalStore>>) -> Files {
    let (uid, gid) = me();
    let client: Client = running.client(runtime, user(uid, &[gid]));
    mount(runtime, client, uid, &[gid], b"/").await.unwrap()
}

async fn put(files: &Files, path: &str, bytes: &[u8], zeros: Zeros) -> FileHandle {
    let made = files
        .create(path.as_bytes(), 0o640, Existing::Truncate)
        .await
        .unwrap();
    let mut writer = files.write_file(&made.handle, zeros, Transfer::default());
    let mut offset = 0;
    while offset < bytes.len() {
        let mut buffer = writer.buffer();
        let len = buffer.len().min(bytes.len() - offset);
        buffer[..len].copy_from_slice(&bytes[offset..][..len]);
        writer.write(offset as u64, buffer, len).await.unwrap();
        offset += len;
    }
    writer.finish().await.unwrap();
    made.handle
}

async fn get(files: &Files, file: &FileHandle) -> Vec<u8> {
    let mut reader = files.read_file(file, 0..u64::MAX, Transfer::default());
    let mut bytes = Vec::new();
    while let Some(block) = reader.next().await.unwrap() {
        bytes.extend_from_slice(block.data());
        reader.recycle(block.buffer);
    }
    bytes
}

#[test]
fn a_tree_travels_in_and_out() {
    run(|runtime| async move {
        let scratch = Scratch::new();
        let running = scratch.serve(&runtime, HandleScheme::Automatic, Squash::None);
        let files = mounted(&runtime, &running).await;
        files.make_directories(b"a/b", 0o755).await.unwrap();
        for (name, len) in [
            ("empty", 0),
            ("small", 100),
            ("page", 4096),
            ("large", 5_000_001),
        ] {
            let bytes = pattern(len);
            let path = format!("a/b/{name}");
            let handle = put(&files, &path, &bytes, Zeros::Write).await;
            assert!(
                fs::read(scratch.path().join(&path)).unwrap() == bytes,
                "{name} arrived"
            );
            assert!(get(&files, &handle).await == bytes, "{name} came back");
            assert_eq!(
                fs::metadata(scratch.path().join(&path)).unwrap().mode() & 0o7777,
                0o640
            );
        }
        files.make_symlink(b"a/link", b"b/small").await.unwrap();
        assert_eq!(
            fs::read_link(scratch.path().join("a/link")).unwrap(),
            Path::new("b/small")
        );
        assert_eq!(files.stat(b"a/link").await.unwrap().attributes.size, 100);
        files.rename(b"a/b/small", b"a/moved").await.unwrap();
        files.remove(b"a/b/empty").await.unwrap();
        let mut names: Vec<_> = files.list(b"a/b").await.unwrap();
        names.sort_by(|one, other| one.0.name.cmp(&other.0.name));
        let names: Vec<_> = names.iter().map(|(item, _)| &item.name[..]).collect();
        assert_eq!(names, [&b"large"[..], b"page"]);
        assert!(scratch.path().join("a/moved").exists());
    });
}

#[test]
fn files_written_behind_the_server_are_read() {
    run(|runtime| async move {
        let scratch = Scratch::new();
        let running = scratch.serve(&runtime, HandleScheme::Automatic, Squash::None);
        let files = mounted(&runtime, &running).await;
        let bytes = pattern(3 << 20);
        fs::write(scratch.path().join("f"), &bytes).unwrap();
        let handle = files.stat(b"f").await.unwrap().handle;
        assert!(get(&files, &handle).await == bytes);
        fs::write(scratch.path().join("f"), b"less").unwrap();
        assert_eq!(get(&files, &handle).await, b"less");
        fs::remove_file(scratch.path().join("f")).unwrap();
        assert_eq!(status(files.stat(b"f").await), Status::Noent);
    });
}

#[test]
fn holes_beyond_two_gibibytes_take_no_space() {
    run(|runtime| async move {
        let scratch = Scratch::new();
        let running = scratch.serve(&runtime, HandleScheme::Automatic, Squash::None);
        let files = mounted(&runtime, &running).await;
        let far = 3u64 << 30;
        let made = files
            .create(b"sparse", 0o644, Existing::Refuse)
            .await
            .unwrap();
        let mut writer = files.write_file(&made.handle, Zeros::Skip, Transfer::default());
        for (offset, byte) in [(0, 1), (1 << 20, 0), (far, 2), (far + (1 << 20), 0)] {
            let mut buffer = writer.buffer();
            buffer.fill(byte);
            let len = buffer.len();
            writer.write(offset, buffer, len).await.unwrap();
        }
        let written = writer.finish().await.unwrap();
        assert_eq!((written.end, written.sent), (far + (2 << 20), 2 << 20));
        let metadata = fs::metadata(scratch.path().join("sparse")).unwrap();
        assert_eq!(metadata.len(), far + (2 << 20));
        assert!(
            metadata.blocks() * 512 < 4 << 20,
            "{} blocks",
            metadata.blocks()
        );
        let range = far - 4..far + 4;
        let mut reader = files.read_file(&made.handle, range, Transfer::default());
        let block = reader.next().await.unwrap().unwrap();
        assert_eq!(block.data(), [0, 0, 0, 0, 2, 2, 2, 2]);
    });
}

#[test]
fn offsets_beyond_what_32_bits_hold() {
    run(|runtime| async move {
        let scratch = Scratch::new();
        let running = scratch.serve(&runtime, HandleScheme::Automatic, Squash::None);
        let files = mounted(&runtime, &running).await;
        let client = files.client();
        let handle = put(&files, "f", b"", Zeros::Write).await;
        for offset in [(1 << 31) - 2, (1 << 32) - 2, 1 << 40] {
            let data = Buffer::from_vec(b"over".to_vec());
            let done = client
                .write(&handle, offset, data, 4, Stability::Unstable)
                .await;
            assert_eq!(done.unwrap().count, 4);
            let read = client
                .read(&handle, offset, 4, Buffer::zeroed(4))
                .await
                .unwrap();
            assert_eq!((&read.buffer[..], read.eof), (&b"over"[..], true));
            assert_eq!(client.getattr(&handle).await.unwrap().size, offset + 4);
        }
    });
}

#[test]
fn rights_are_those_of_the_file_system() {
    run(|runtime| async move {
        let scratch = Scratch::new();
        let running = scratch.serve(&runtime, HandleScheme::Automatic, Squash::None);
        let files = mounted(&runtime, &running).await;
        let file = put(&files, "f", b"", Zeros::Write).await;
        let granted = files.client().access(&file, AccessMask(63)).await.unwrap();
        let expected = AccessMask::READ | AccessMask::MODIFY | AccessMask::EXTEND;
        assert_eq!(granted.0, expected);
        let granted = files.client().access(&files.root(), AccessMask(63)).await;
        let expected = expected | AccessMask::LOOKUP | AccessMask::DELETE;
        assert_eq!(granted.unwrap().0, expected);
    });
}

#[test]
fn a_handle_under_the_mark_of_another_export_opens_nothing() {
    run(|runtime| async move {
        let (one, other) = (Scratch::new(), Scratch::new());
        let exports = vec![
            (export("/a"), one.store(&runtime, HandleScheme::Automatic)),
            (export("/b"), other.store(&runtime, HandleScheme::Automatic)),
        ];
        let running = Running::start(&runtime, exports);
        let (uid, gid) = me();
        let client = running.client(&runtime, user(uid, &[gid]));
        let root = client.mount(b"/a").await.unwrap();
        let mut forged = root.as_bytes().to_vec();
        forged[0] = client.mount(b"/b").await.unwrap().as_bytes()[0];
        let forged = FileHandle::new(&forged).unwrap();
        assert_eq!(status(client.getattr(&forged).await), Status::Stale);
        client.getattr(&root).await.unwrap();
    });
}

#[test]
fn attributes_reach_the_file_system() {
    run(|runtime| async move {
        let scratch = Scratch::new();
        let running = scratch.serve(&runtime, HandleScheme::Automatic, Squash::None);
        let files = mounted(&runtime, &running).await;
        put(&files, "f", b"hello", Zeros::Write).await;
        let time = Time {
            seconds: 1_234_567_890,
            nanoseconds: 123_456_789,
        };
        let change = SetAttributes {
            mode: Some(0o604),
            size: Some(4),
            modify_time: SetTime::To(time),
            ..SetAttributes::default()
        };
        files.set_attributes(b"f", &change).await.unwrap();
        let metadata = fs::metadata(scratch.path().join("f")).unwrap();
        assert_eq!((metadata.mode() & 0o7777, metadata.len()), (0o604, 4));
        assert_eq!(
            (metadata.mtime(), metadata.mtime_nsec()),
            (1_234_567_890, 123_456_789)
        );
        let node = files.stat(b"f").await.unwrap();
        assert_eq!(node.attributes.modify_time, time);
        assert_eq!(node.attributes.fileid, metadata.ino());
    });
}

#[test]
fn handles_are_valid_after_a_restart() {
    run(|runtime| async move {
        for scheme in [HandleScheme::Automatic, HandleScheme::Inode] {
            let scratch = Scratch::new();
            let running = scratch.serve(&runtime, scheme, Squash::None);
            let files = mounted(&runtime, &running).await;
            files.make_directories(b"d/e", 0o755).await.unwrap();
            let file = put(&files, "d/e/f", b"still here", Zeros::Write).await;
            running.stop().await;
            fs::rename(scratch.path().join("d/e"), scratch.path().join("elsewhere")).unwrap();

            let running = scratch.serve(&runtime, scheme, Squash::None);
            let files = mounted(&runtime, &running).await;
            assert_eq!(get(&files, &file).await, b"still here", "{scheme:?}");
            fs::remove_file(scratch.path().join("elsewhere/f")).unwrap();
            running.stop().await;
            let running = scratch.serve(&runtime, scheme, Squash::None);
            let files = mounted(&runtime, &running).await;
            assert_eq!(
                status(files.client().getattr(&file).await),
                Status::Stale,
                "{scheme:?}"
            );
            running.stop().await;
        }
    });
}

/// User 1000 is in forty groups.
struct FortyGroups;

impl UserGroups for FortyGroups {
    fn groups_of(&self, uid: u32) -> std::io::Result<Vec<u32>> {
        Ok(match uid {
            1000 => (5000..5040).collect(),
            _ => Vec::new(),
        })
    }
}

#[test]
fn groups_that_the_server_looks_up_count_and_those_of_the_call_do_not() {
    if !gannet_testing::is_root() {
        return;
    }
    // Before a store changes the user of this thread.
    let scratch = Rc::new(Scratch::new());
    for group in [5039, 6000] {
        let file = scratch.path().join(group.to_string());
        fs::write(&file, "of the group").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o040)).unwrap();
        std::os::unix::fs::chown(&file, Some(0), Some(group)).unwrap();
    }
    run(move |runtime| {
        let scratch = Rc::clone(&scratch);
        async move {
            let store = scratch.store(&runtime, HandleScheme::Automatic);
            let server = Server::new([(export("/"), store)]).unwrap();
            let server = server.with_user_groups(runtime.clone(), Arc::new(FortyGroups));
            let running = Running::serve(&runtime, server, Addresses::any());
            let read = async |uid, claimed: &[u32], name: &[u8]| {
                let client = running.client(&runtime, user(uid, claimed));
                let root = client.mount(b"/").await.unwrap();
                let file = client.lookup(&root, name).await.unwrap().handle;
                let buffer = gannet_runtime::Buffer::zeroed(10);
                client.read(&file, 0, 10, buffer).await.map(|_| ())
            };
            read(1000, &[1000], b"5039").await.unwrap();
            let claimed = read(1000, &[1000, 6000], b"6000").await;
            assert_eq!(status(claimed), Status::Acces);
            let primary = read(1000, &[6000], b"6000").await;
            assert_eq!(status(primary), Status::Acces);
            let unknown = read(1001, &[5039], b"5039").await;
            assert_eq!(status(unknown), Status::Acces);
            let unknown = read(1001, &[1001, 5039], b"5039").await;
            assert_eq!(status(unknown), Status::Acces);
        }
    });
}

#[test]
fn callers_are_held_to_the_modes_when_the_server_is_root() {
    if !gannet_testing::is_root() {
        // The server cannot be anybody else then: everything happens as this user.
        return;
    }
    run(|runtime| async move {
        let scratch = Scratch::new();
        let running = scratch.serve(&runtime, HandleScheme::Automatic, Squash::Root);
        let owner = running.mount(&runtime).await;
        let made = owner
            .create(b"private", 0o600, Existing::Refuse)
            .await
            .unwrap();
        assert_eq!(made.attributes.uid, 1000);
        let metadata = fs::metadata(scratch.path().join("private")).unwrap();
        assert_eq!((metadata.uid(), metadata.gid()), (1000, 1000));
        for other in [
            user(1001, &[1001]),
            user(0, &[0]),
            gannet_rpc::CallerCredential::None,
        ] {
            let client = running.client(&runtime, other);
            let buffer = gannet_runtime::Buffer::zeroed(10);
            let read = client.read(&made.handle, 0, 10, buffer).await;
            assert_eq!(status(read), Status::Acces);
        }
        let shared = running.client(&runtime, user(1002, &[5, 1000]));
        let change = SetAttributes {
            mode: Some(0o640),
            ..SetAttributes::default()
        };
        owner.set_attributes(b"private", &change).await.unwrap();
        let buffer = gannet_runtime::Buffer::zeroed(10);
        assert!(shared.read(&made.handle, 0, 10, buffer).await.unwrap().eof);
        assert_eq!(
            status(shared.setattr(&made.handle, &change, None).await),
            Status::Perm
        );
    });
}

#[test]
fn nothing_outside_the_tree_is_reached() {
    run(|runtime| async move {
        let scratch = Scratch::new();
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("secret"), b"secret").unwrap();
        std::os::unix::fs::symlink(outside.path(), scratch.path().join("out")).unwrap();
        let running = scratch.serve(&runtime, HandleScheme::Automatic, Squash::None);
        let files = mounted(&runtime, &running).await;
        let (client, root) = (files.client(), files.root());
        let link = client.lookup(&root, b"out").await.unwrap();
        assert_eq!(link.attributes.unwrap().kind, FileKind::Symlink);
        assert_eq!(
            status(client.lookup(&link.handle, b"secret").await),
            Status::Notdir
        );
        assert_eq!(client.lookup(&root, b"..").await.unwrap().handle, root);
        assert!(client.lookup(&root, b"../../etc").await.is_err());
        assert_eq!(status(client.mount(b"/out").await), Status::Notdir);
        // The client follows the link inside the export, where its target does not exist.
        assert_eq!(status(files.stat(b"out/secret").await), Status::Noent);
    });
}
