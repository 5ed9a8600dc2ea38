//! Ranges of files in the send queue.

use super::*;
use gannet_conformance::{DiskFile, MemoryFile};
use gannet_runtime::FileRef;
use gannet_testing::noise;
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::sync::Arc;

const LEN: usize = 100_000;

fn file() -> File {
    let file = rustix::fs::memfd_create("source", rustix::fs::MemfdFlags::CLOEXEC);
    let mut file = File::from(file.unwrap());
    file.write_all(&noise(LEN, 1)).unwrap();
    file
}

fn write(connection: &Connected, id: u64, file: FileRef, offset: u64, len: u32) {
    let source = Source::File { file, offset, len };
    let target = RemoteAddress {
        key: gannet_fabric::RemoteKey(7),
        offset: 0,
    };
    (connection.post_write(WorkId(id), source, target, Signal::Always)).unwrap();
}

/// Ranges that the domain counts as registered and as copied.
fn counted(bed: &Bed) -> (u64, u64) {
    let stats = bed.core.domain.stats();
    (stats.file_ranges_registered, stats.file_ranges_copied)
}

/// Waits for the pool.
async fn posted(bed: &Bed, count: usize) {
    while bed.device.seen().sent.len() < count {
        gannet_runtime::yield_now().await;
    }
}

#[test]
fn pages_of_a_file_are_registered_for_one_use() {
    run(|bed| async move {
        let connection = bed.connect(Vec::new());
        let (file, before) = (file(), bed.device.seen().registrations);
        // An offset within a page.
        write(&connection, 1, Arc::new(DiskFile::cached(file)), 5, 70_000);
        connection.flush();
        assert_eq!(bed.device.seen().sent[0].bytes, noise(LEN, 1)[5..70_005]);
        assert_eq!(
            bed.device.seen().rights,
            0,
            "to be read, by the device alone"
        );
        let made = bed.device.seen().registrations - before;
        assert_eq!((made, bed.registered()), (1, 1));
        assert_eq!(counted(&bed), (1, 0));
        bed.device.complete(0, status::SUCCESS);
        assert_eq!(completions(&connection).await[0].outcome, Ok(Done::Written));
        assert_eq!(bed.registered(), 0);
    });
}

#[test]
fn work_behind_a_file_of_the_disk_waits_for_it() {
    run(|bed| async move {
        let connection = bed.connect(Vec::new());
        send(&connection, 1, 10, Signal::OnError);
        write(&connection, 2, Arc::new(DiskFile::slow(file())), 0, 50_000);
        // Past the end come zeros, which no page has.
        write(
            &connection,
            3,
            Arc::new(DiskFile::cached(file())),
            99_999,
            3,
        );
        send(&connection, 4, 10, Signal::OnError);
        connection.flush();
        assert_eq!(bed.device.seen().sent.len(), 1, "what is before it");
        posted(&bed, 4).await;
        let bytes: Vec<_> = (bed.device.seen().sent.iter())
            .map(|it| it.bytes.clone())
            .collect();
        let end = vec![noise(LEN, 1)[99_999], 0, 0];
        assert_eq!(
            bytes[1..],
            [noise(LEN, 1)[..50_000].to_vec(), end, vec![4; 10]]
        );
        assert_eq!(counted(&bed), (1, 1));
    });
}

#[test]
fn a_file_that_fails_ends_its_connection_by_name() {
    run(|bed| async move {
        let connection = bed.connect(vec![Buffer::zeroed(16)]);
        write(
            &connection,
            1,
            MemoryFile::failing(ErrorKind::InvalidData),
            0,
            100,
        );
        send(&connection, 2, 10, Signal::Always);
        connection.flush();
        let done = completions(&connection).await;
        let outcomes: Vec<_> = done.iter().map(|it| it.outcome).collect();
        let failed = WorkError::File(ErrorKind::InvalidData);
        let flushed = Err(WorkError::Flushed);
        assert_eq!(outcomes, [Err(failed), flushed, flushed]);
        assert_eq!(reason(&connection).await, Disconnected::Local);
        assert!(bed.device.seen().sent.is_empty());
    });
}
