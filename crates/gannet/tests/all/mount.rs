//! Mounting from a program, where FUSE may be used.

use gannet::{Client, ConnectOptions, Locks, Mount, MountError, MountOptions, Server};
use std::fs;
use tokio::task::spawn_blocking;

#[test]
fn writes_to_a_mount_are_at_the_server_after_unmount() {
    if !gannet_testing::can_mount() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let (share, mnt) = (place.path().join("share"), place.path().join("mnt"));
    fs::create_dir_all(share.join("inner")).unwrap();
    fs::create_dir(&mnt).unwrap();
    let builder = Server::builder().directory(&share);
    let builder = builder.state_directory(place.path()).no_root_squash();
    let server = builder.start().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        for url in [server.rdma_url(), server.tcp_url()] {
            let inner = format!("{}/inner", url.trim_end_matches('/'));
            let mount = Mount::start(&inner, &mnt).await.unwrap();
            assert_eq!(mount.directory(), mnt.canonicalize().unwrap());
            let file = mnt.join("file");
            let written = spawn_blocking(move || fs::write(file, "through the kernel"));
            written.await.unwrap().unwrap();
            mount.unmount().await.unwrap();
            assert_eq!(fs::read_dir(&mnt).unwrap().count(), 0);
            let client = Client::connect(&inner).await.unwrap();
            assert_eq!(client.read("file").await.unwrap(), b"through the kernel");
            client.remove("file").await.unwrap();
        }
    });
    server.stop().unwrap();
}

#[test]
fn failures_to_mount_have_different_errors() {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("file"), "bytes").unwrap();
    let builder = Server::builder().directory(place.path());
    let server = builder.state_directory(place.path()).start().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mount = |path: &str, options: MountOptions| {
        let url = format!("{}/{path}", server.tcp_url().trim_end_matches('/'));
        let connect = ConnectOptions::default();
        let mounting = Mount::start_with(&url, place.path(), connect, options);
        runtime.block_on(mounting).err().unwrap()
    };
    let error = mount("missing", MountOptions::default());
    assert!(matches!(error, MountError::Find(_)), "{error}");
    let error = mount("file", MountOptions::default());
    assert!(matches!(error, MountError::NotADirectory), "{error}");
    let error = mount("", MountOptions::default().locks(Some(Locks::Shared)));
    assert!(matches!(error, MountError::NoSharedLocks), "{error}");
    let error = runtime.block_on(Mount::start("nonsense", place.path()));
    assert!(matches!(error.err().unwrap(), MountError::Connect(_)));
}
