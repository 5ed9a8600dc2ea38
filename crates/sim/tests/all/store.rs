//! The simulated store against the model: its operations, its content after a crash, and its faults.

#![allow(clippy::unwrap_used)]

use gannet_runtime::{Buffer, Handle};
use gannet_sim::World;
use gannet_sim::store::{Disk, DiskProfile, SimStore};
use gannet_vfs::{
    CreateMode, Credentials, FileHandle, SetAttributes, Stability, Status, Vfs, WriteDone,
};
use std::rc::Rc;

fn caller() -> Credentials {
    Credentials::new(1000, 1000, &[])
}

struct Bench {
    world: World,
    disk: Rc<Disk>,
    runtime: Handle,
}

impl Bench {
    fn new(seed: u64) -> Bench {
        let world = World::new(seed);
        let runtime = world.add_node("server").runtime();
        let disk = Disk::new(&world);
        Bench {
            world,
            disk,
            runtime,
        }
    }

    fn open(&self) -> SimStore {
        SimStore::open(&self.disk, self.runtime.clone())
    }
}

async fn create(store: &SimStore, name: &[u8]) -> FileHandle {
    let mode = CreateMode::Guarded(SetAttributes::default());
    let made = store.create(&caller(), &store.root(), name, &mode).await;
    made.result.unwrap().handle
}

async fn write(
    store: &SimStore,
    file: &FileHandle,
    bytes: &[u8],
    how: Stability,
) -> Result<WriteDone, Status> {
    let buffer = Buffer::from_vec(bytes.to_vec());
    store
        .write(&caller(), file, 0, buffer, 0..bytes.len(), how)
        .await
        .result
}

async fn content(store: &SimStore, file: &FileHandle) -> Vec<u8> {
    let reply = store.read(&caller(), file, 0, 1 << 20).await.unwrap();
    let mut bytes = vec![0; reply.count as usize];
    let count = reply.file.read_at(0, &mut bytes).unwrap();
    assert_eq!(count, bytes.len());
    bytes
}

#[test]
fn a_crash_loses_unsynced_data_alone_and_handles_stay() {
    let (mut lost, mut kept) = (0, 0);
    for seed in 0..40 {
        let bench = Bench::new(seed);
        let (before, after, disk) = (bench.open(), bench.open(), Rc::clone(&bench.disk));
        assert_ne!(before.write_verifier(), after.write_verifier());
        let left = bench.world.run(async move {
            let file = create(&before, b"file").await;
            write(&before, &file, b"old", Stability::FileSync)
                .await
                .unwrap();
            write(&before, &file, b"new!", Stability::Unstable)
                .await
                .unwrap();
            assert_eq!(content(&before, &file).await, b"new!");
            disk.crash();
            content(&after, &file).await
        });
        match left.unwrap().as_slice() {
            b"old" => lost += 1,
            b"new!" => kept += 1,
            other => panic!("{other:?}"),
        }
    }
    assert!(lost > 5 && kept > 5, "{lost} lost, {kept} kept");
}

#[test]
fn a_committed_write_survives() {
    for seed in 0..20 {
        let bench = Bench::new(seed);
        let (store, disk) = (bench.open(), Rc::clone(&bench.disk));
        let left = bench.world.run(async move {
            let file = create(&store, b"file").await;
            write(&store, &file, b"data", Stability::Unstable)
                .await
                .unwrap();
            let done = store.commit(&caller(), &file, 0, 0).await.result.unwrap();
            assert_eq!(done.verifier, store.write_verifier());
            disk.crash();
            content(&store, &file).await
        });
        assert_eq!(left.unwrap(), b"data");
    }
}

#[test]
fn a_failing_disk_changes_nothing() {
    let bench = Bench::new(1);
    let (store, disk) = (bench.open(), Rc::clone(&bench.disk));
    let outcome = bench.world.run(async move {
        let file = create(&store, b"file").await;
        write(&store, &file, b"data", Stability::FileSync)
            .await
            .unwrap();
        disk.set_profile(DiskProfile {
            io_errors_per_mille: 1000,
            ..DiskProfile::default()
        });
        let io = write(&store, &file, b"junk", Stability::FileSync).await;
        disk.set_profile(DiskProfile {
            no_space_per_mille: 1000,
            ..DiskProfile::default()
        });
        let full = write(&store, &file, b"junk", Stability::FileSync).await;
        let mode = CreateMode::Guarded(SetAttributes::default());
        let made = store
            .create(&caller(), &store.root(), b"other", &mode)
            .await;
        disk.set_profile(DiskProfile::default());
        let left = content(&store, &file).await;
        let (other, _) = store.lookup(&caller(), &store.root(), b"other").await;
        (io, full, made.result, other.map(|_| ()), left)
    });
    let (io, full, made, other, left) = outcome.unwrap();
    assert_eq!((io, full), (Err(Status::Io), Err(Status::Nospc)));
    assert_eq!((made, other), (Err(Status::Nospc), Err(Status::Noent)));
    assert_eq!(left, b"data");
}

#[test]
fn a_slow_disk_takes_virtual_time() {
    let bench = Bench::new(2);
    let slow = DiskProfile {
        slow_per_mille: 1000,
        delay_max_ns: 1_000_000,
        ..DiskProfile::default()
    };
    bench.disk.set_profile(slow);
    let store = bench.open();
    bench
        .world
        .run(async move { create(&store, b"file").await })
        .unwrap();
    assert!(bench.world.now_ns() > 0);
}

#[test]
fn a_removed_object_is_stale_and_a_foreign_handle_bad() {
    let bench = Bench::new(3);
    let store = bench.open();
    let outcome = bench.world.run(async move {
        let file = create(&store, b"file").await;
        let root = store.root();
        store
            .remove(&caller(), &root, b"file")
            .await
            .result
            .unwrap();
        let foreign = FileHandle::new(b"not ours").unwrap();
        (
            store.attributes(&file).await,
            store.attributes(&foreign).await,
        )
    });
    assert_eq!(
        outcome.unwrap(),
        (Err(Status::Stale), Err(Status::Badhandle))
    );
}
