//! Exports: who may mount what, who counts as whom, and what read-only means.

#![allow(clippy::unwrap_used)]

use crate::support;

use gannet_nfs::client::{Client, Position};
use gannet_nfs::server::{MountList, Rules, Server, Squash};
use gannet_rpc::{CallerCredential, ClientConfig, Request};
use gannet_runtime::{Buffer, Handle};
use gannet_sim::store::SimStore;
use gannet_vfs::{
    AccessMask, CreateMode, EntryName, FileHandle, NodeKind, SetAttributes, Stability, Status, Vfs,
};
use gannet_wire::{mount3, xdr::from_bytes};
use std::sync::Arc;
use support::{Addresses, Running, disk, export, mount, run, status, store, user};

#[test]
fn paths_lead_to_the_export_that_is_nearest() {
    run(|runtime| async move {
        let exports = vec![
            (export("/"), store(&runtime)),
            (export("/data/set"), store(&runtime)),
        ];
        let running = Running::start(&runtime, exports);
        let client = running.client(&runtime, user(1000, &[1000]));
        let files = mount(&runtime, client.clone(), 1000, &[1000], b"/").await;
        let files = files.unwrap();
        files.make_directories(b"data/other", 0o755).await.unwrap();
        let inside = mount(&runtime, client.clone(), 1000, &[1000], b"/data/set").await;
        let inside = inside.unwrap();
        let sub = inside.make_directories(b"sub", 0o755).await.unwrap();

        let root = client.mount(b"/").await.unwrap();
        let relative = client.mount(b"data").await;
        assert_eq!(status(relative), Status::Noent, "not absolute");
        // As some clients write it.
        assert_eq!(client.mount(b"").await.unwrap(), root);
        assert_eq!(client.mount(b"//").await.unwrap(), root);
        assert_eq!(client.mount(b"/data//set/").await.unwrap(), inside.root());
        assert_eq!(client.mount(b"/data/set/sub").await.unwrap(), sub.handle);
        let other = files.stat(b"data/other").await.unwrap();
        assert_eq!(client.mount(b"/data/other").await.unwrap(), other.handle);
        assert_eq!(status(client.mount(b"/data/nowhere").await), Status::Noent);
        assert_eq!(status(client.mount(b"/data/../etc").await), Status::Inval);
        let deep = b"/x".repeat(400);
        assert_eq!(status(client.mount(&deep).await), Status::Nametoolong);
        client.unmount(b"/data/set").await.unwrap();
    });
}

#[test]
fn only_a_directory_can_be_mounted() {
    run(|runtime| async move {
        let running = Running::start(&runtime, vec![(export("/"), store(&runtime))]);
        let client = running.client(&runtime, user(1000, &[1000]));
        let (root, plain) = (client.mount(b"/").await.unwrap(), SetAttributes::default());
        let how = CreateMode::Guarded(plain);
        client.create(&root, b"file", &how).await.unwrap();
        client.symlink(&root, b"link", b"/", &plain).await.unwrap();
        let fifo = client.mknod(&root, b"fifo", NodeKind::Fifo, &plain).await;
        fifo.unwrap();
        for path in [&b"/file"[..], b"/link", b"/fifo"] {
            assert_eq!(status(client.mount(path).await), Status::Notdir);
        }
    });
}

async fn dump(running: &Running<Server<SimStore>>, runtime: &Handle) -> Vec<String> {
    let rpc = gannet_rpc::Client::new(runtime.clone(), running.target(), ClientConfig::default());
    let request = Request::new(mount3::PROGRAM, mount3::VERSION, 2, 64 << 10);
    let results = rpc.call(request).await.unwrap().results;
    let mounts: mount3::DumpResult<'_> = from_bytes(&results).unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let mounts = mounts.iter();
    mounts
        .map(|mount| format!("{}:{}", text(mount.host.0), text(mount.path.0)))
        .collect()
}

#[test]
fn mounts_are_remembered_by_all_cores_until_they_are_undone() {
    run(|runtime| async move {
        let (mounts, disk) = (Arc::<MountList>::default(), disk());
        let core = || {
            let exports = [(export("/"), SimStore::open(&disk, runtime.clone()))];
            let server = Server::new(exports).unwrap();
            let server = server.on_core(runtime.clone(), Arc::clone(&mounts));
            Running::serve(&runtime, server, Addresses::any())
        };
        let (one, other) = (core(), core());
        let client = one.client(&runtime, user(1000, &[1000]));
        let elsewhere = other.client(&runtime, user(1000, &[1000]));
        assert_eq!(dump(&one, &runtime).await, [""; 0]);
        let files = mount(&runtime, client.clone(), 1000, &[1000], b"/").await;
        let files = files.unwrap();
        files.make_directories(b"a/b", 0o755).await.unwrap();
        client.mount(b"//a/b/").await.unwrap();
        assert_eq!(status(client.mount(b"/nothing").await), Status::Noent);
        client.mount(b"/").await.unwrap();
        let both = ["127.0.0.1:/a/b", "127.0.0.1:/"];
        assert_eq!(dump(&other, &runtime).await, both);
        elsewhere.unmount(b"/a//b").await.unwrap();
        assert_eq!(dump(&one, &runtime).await, both[1..]);

        let rpc = gannet_rpc::Client::new(runtime.clone(), other.target(), ClientConfig::default());
        let everything = Request::new(mount3::PROGRAM, mount3::VERSION, 4, 0);
        assert_eq!(rpc.call(everything).await.unwrap().results, b"");
        assert_eq!(dump(&one, &runtime).await, [""; 0]);
    });
}

#[test]
fn exports_are_listed_with_their_clients() {
    run(|runtime| async move {
        let networks = vec!["10.0.0.0/8".parse().unwrap(), "fd00::/8".parse().unwrap()];
        let private = export("/private").with_clients(networks).unwrap();
        let exports = vec![(export("/"), store(&runtime)), (private, store(&runtime))];
        let running = Running::start(&runtime, exports);
        let client = running.client(&runtime, CallerCredential::None);
        let listed = client.exports().await.unwrap();
        assert_eq!(listed.len(), 2);
        assert_eq!(
            (&listed[0].path[..], listed[0].clients.len()),
            (&b"/"[..], 0)
        );
        assert_eq!(listed[1].path, b"/private");
        assert_eq!(listed[1].clients, [&b"10.0.0.0/8"[..], b"fd00::/8"]);
    });
}

#[test]
fn clients_that_are_not_listed_get_nothing() {
    run(|runtime| async move {
        let elsewhere = vec!["192.0.2.0/24".parse().unwrap()];
        let closed = export("/").with_clients(elsewhere).unwrap();
        // With nothing for them at all, they do not even get an answer.
        let running = Running::start(&runtime, vec![(closed.clone(), store(&runtime))]);
        let client = running.client(&runtime, user(1000, &[1000]));
        assert_eq!(client.mount(b"/").await.unwrap_err().status(), None);
        assert_eq!(running.counters.connections.total(), 0);

        let exports = vec![
            (closed, store(&runtime)),
            (export("/open"), store(&runtime)),
        ];
        let running = Running::start(&runtime, exports);
        let client = running.client(&runtime, user(1000, &[1000]));
        assert_eq!(status(client.mount(b"/").await), Status::Acces);

        // A handle learned elsewhere opens nothing either.
        let open = Running::start(&runtime, vec![(export("/"), store(&runtime))]);
        let handle = open.mount(&runtime).await.root();
        assert_eq!(status(client.getattr(&handle).await), Status::Acces);
        assert_eq!(status(client.lookup(&handle, b"x").await), Status::Acces);

        let here = vec!["127.0.0.1".parse().unwrap()];
        let listed = export("/").with_clients(here).unwrap();
        let running = Running::start(&runtime, vec![(listed, store(&runtime))]);
        running.mount(&runtime).await;
    });
}

#[test]
fn rules_of_the_clients_own_network_hold_in_place_of_the_exports() {
    run(|runtime| async move {
        let network = |text: &str| vec![text.parse().unwrap()];
        let disk = disk();
        let store = || SimStore::open(&disk, runtime.clone());
        let set = SetAttributes::default();
        let create = CreateMode::Unchecked(set);
        let careful = Rules {
            read_only: true,
            ..Rules::default()
        };
        let open = export("/").with_clients(network("127.0.0.0/8")).unwrap();
        let closed = open.clone().with_rules(network("127.0.0.1"), careful);
        let closed = Running::start(&runtime, vec![(closed.unwrap(), store())]);
        let client = closed.client(&runtime, user(1000, &[1000]));
        let root = client.mount(b"/").await.unwrap();
        let made = client.create(&root, b"f", &create).await;
        assert_eq!(status(made), Status::Rofs);

        let elsewhere = open.with_rules(network("127.0.0.2"), careful).unwrap();
        let elsewhere = Running::start(&runtime, vec![(elsewhere, store())]);
        let client = elsewhere.client(&runtime, user(1000, &[1000]));
        client.create(&root, b"f", &create).await.unwrap();

        // The client's port is one that any user can have.
        let mut secure = export("/");
        secure.rules.secure = true;
        let secure = Running::start(&runtime, vec![(secure, store())]);
        let client = secure.client(&runtime, user(1000, &[1000]));
        assert_eq!(status(client.mount(b"/").await), Status::Acces);
        assert_eq!(status(client.getattr(&root).await), Status::Acces);
    });
}

/// Whose a file is that the caller makes.
async fn owner(runtime: &Handle, squash: Squash, caller: CallerCredential) -> (u32, u32) {
    let mut export = export("/");
    export.rules.squash = squash;
    let running = Running::start(runtime, vec![(export, store(runtime))]);
    let client = running.client(runtime, caller);
    let root = client.mount(b"/").await.unwrap();
    let mode = CreateMode::Guarded(SetAttributes::default());
    let made = client.create(&root, b"f", &mode).await.unwrap();
    let attributes = made.attributes.unwrap();
    (attributes.uid, attributes.gid)
}

#[test]
fn callers_are_squashed_by_the_rules_of_the_export() {
    run(|runtime| async move {
        let nobody = (65534, 65534);
        let owner = |squash, caller| owner(&runtime, squash, caller);
        let root = || user(0, &[0, 27]);
        assert_eq!(owner(Squash::Root, root()).await, nobody);
        assert_eq!(owner(Squash::None, root()).await, (0, 0));
        assert_eq!(owner(Squash::All, root()).await, nobody);
        let ordinary = user(1000, &[100, 27]);
        assert_eq!(owner(Squash::Root, ordinary).await, (1000, 100));
        assert_eq!(owner(Squash::None, CallerCredential::None).await, nobody);
    });
}

async fn refusals(client: &Client, root: FileHandle, file: FileHandle) -> Vec<Status> {
    let set = SetAttributes::default();
    let create = CreateMode::Unchecked(set);
    let data = Buffer::zeroed(1);
    vec![
        status(client.setattr(&file, &set, None).await),
        status(client.write(&file, 0, data, 1, Stability::Unstable).await),
        status(client.create(&root, b"n", &create).await),
        status(client.mkdir(&root, b"n", &set).await),
        status(client.symlink(&root, b"n", b"t", &set).await),
        status(client.mknod(&root, b"n", NodeKind::Fifo, &set).await),
        status(client.remove(&root, b"f").await),
        status(client.rmdir(&root, b"f").await),
        status(
            client
                .rename(EntryName::new(&root, b"f"), EntryName::new(&root, b"n"))
                .await,
        ),
        status(client.link(&file, &root, b"n").await),
        status(client.commit(&file, 0, 0).await),
    ]
}

#[test]
fn nothing_changes_through_a_read_only_export() {
    run(|runtime| async move {
        let disk = disk();
        let store = || SimStore::open(&disk, runtime.clone());
        let writable = Running::start(&runtime, vec![(export("/"), store())]);
        let files = writable.mount(&runtime).await;
        files
            .create(b"f", 0o666, gannet_client::Existing::Refuse)
            .await
            .unwrap();

        let mut read_only = export("/");
        read_only.rules.read_only = true;
        let running = Running::start(&runtime, vec![(read_only, store())]);
        let client = running.client(&runtime, user(1000, &[1000]));
        let root = client.mount(b"/").await.unwrap();
        let file = client.lookup(&root, b"f").await.unwrap().handle;
        let refused = refusals(&client, root, file).await;
        assert_eq!(refused, [Status::Rofs; 11]);
        let granted = client.access(&root, AccessMask(63)).await.unwrap();
        let harmless = AccessMask::READ | AccessMask::LOOKUP | AccessMask::EXECUTE;
        assert_eq!(granted.0, harmless);
        assert_eq!(
            client
                .read(&file, 0, 1, Buffer::zeroed(1))
                .await
                .unwrap()
                .count,
            0
        );
        let page = client.readdirplus(&root, Position::default(), 4096).await;
        let page = page.unwrap();
        assert_eq!(page.items.len(), 1);
    });
}

#[test]
fn handles_of_other_exports_and_forged_ones_have_different_errors() {
    run(|runtime| async move {
        let exports = vec![
            (export("/a"), store(&runtime)),
            (export("/b"), store(&runtime)),
        ];
        let running = Running::start(&runtime, exports);
        let client = running.client(&runtime, user(1000, &[1000]));
        let one = client.mount(b"/a").await.unwrap();
        let other = client.mount(b"/b").await.unwrap();
        assert_ne!(one.as_bytes()[0], other.as_bytes()[0]);
        let set = SetAttributes::default();
        client
            .create(&one, b"f", &CreateMode::Unchecked(set))
            .await
            .unwrap();
        let across = client
            .rename(EntryName::new(&one, b"f"), EntryName::new(&other, b"f"))
            .await;
        assert_eq!(status(across), Status::Xdev);
        let file = client.lookup(&one, b"f").await.unwrap().handle;
        assert_eq!(status(client.link(&file, &other, b"g").await), Status::Xdev);

        let mut unknown = one.as_bytes().to_vec();
        unknown[0] ^= 0x55;
        let unknown = FileHandle::new(&unknown).unwrap();
        assert_eq!(status(client.getattr(&unknown).await), Status::Stale);
        let short = FileHandle::new(&one.as_bytes()[..1]).unwrap();
        assert_eq!(status(client.getattr(&short).await), Status::Badhandle);
        // Marks belong to paths: a server with one export less gives the same handles.
        let alone = Running::start(&runtime, vec![(export("/b"), store(&runtime))]);
        let client = alone.client(&runtime, CallerCredential::None);
        assert_eq!(client.mount(b"/b").await.unwrap(), other);
        let inner = store(&runtime).root();
        assert_eq!(inner.as_bytes(), &other.as_bytes()[1..]);
    });
}
