//! A disk that fails, or takes less than it is given.

use gannet_client::{Error, Existing, Files, Transfer, Written, Zeros};
use gannet_runtime::tokio_plug::block_on;
use gannet_sim::World;
use gannet_sim::store::{Disk, DiskProfile, SimStore};
use gannet_vfs::{Credentials, FileHandle, Status};
use std::rc::Rc;

const BLOCK: u64 = 8192;

/// Runs a story with the files of an empty disk.
fn story(body: impl AsyncFnOnce(Files<SimStore>, Rc<Disk>)) {
    block_on(async |runtime| {
        let disk = Disk::new(&World::new(5));
        let store = SimStore::open(&disk, Rc::clone(&runtime));
        body(
            Files::new(runtime, store, Credentials::new(1, 1, &[])),
            disk,
        )
        .await;
    })
    .unwrap();
}

/// Writes blocks of ones, twos and so on.
async fn fill(
    files: &Files<SimStore>,
    file: &FileHandle,
    blocks: u8,
    halfway: impl Fn(),
) -> Result<Written, Error> {
    let how = Transfer {
        block: Some(BLOCK as u32),
        depth: 3,
    };
    let mut writer = files.write_file(file, Zeros::Write, how);
    for index in 0..blocks {
        if index == blocks / 2 {
            halfway();
        }
        let mut buffer = writer.buffer();
        buffer.fill(index + 1);
        let offset = u64::from(index) * BLOCK;
        writer.write(offset, buffer, BLOCK as usize).await?;
    }
    writer.finish().await
}

async fn is_full(files: &Files<SimStore>, file: &FileHandle, blocks: u8) {
    let how = Transfer {
        block: Some(BLOCK as u32),
        depth: 3,
    };
    let mut reader = files.read_file(file, 0..u64::MAX, how);
    for index in 0..blocks {
        let block = reader.next().await.unwrap().unwrap();
        assert_eq!(
            (block.len as u64, block.offset),
            (BLOCK, u64::from(index) * BLOCK)
        );
        assert!(
            block.data().iter().all(|byte| *byte == index + 1),
            "{index}"
        );
    }
    assert!(reader.next().await.unwrap().is_none());
}

#[test]
fn short_writes_and_cold_reads_are_continued() {
    story(async |files, disk| {
        disk.set_profile(DiskProfile {
            short_writes_per_mille: 1000,
            evictions_per_mille: 1000,
            ..DiskProfile::default()
        });
        let made = files.create(b"f", 0o644, Existing::Refuse).await.unwrap();
        fill(&files, &made.handle, 6, || ()).await.unwrap();
        is_full(&files, &made.handle, 6).await;
    });
}

#[test]
fn a_failing_disk_fails_the_file_and_nothing_waits_for_it() {
    story(async |files, disk| {
        let made = files.create(b"f", 0o644, Existing::Refuse).await.unwrap();
        let broken = DiskProfile {
            io_errors_per_mille: 1000,
            ..DiskProfile::default()
        };
        let written = fill(&files, &made.handle, 6, || disk.set_profile(broken)).await;
        assert!(
            matches!(written, Err(Error::Status(Status::Io))),
            "{written:?}"
        );
        let mut reader = files.read_file(&made.handle, 0..u64::MAX, Transfer::default());
        let read = reader.next().await.map(|_| ());
        assert!(matches!(read, Err(Error::Status(Status::Io))), "{read:?}");
        assert!(
            matches!(reader.next().await, Ok(None)),
            "the reader is over"
        );
        assert_eq!(files.objects().waits_since(), None);
    });
}
