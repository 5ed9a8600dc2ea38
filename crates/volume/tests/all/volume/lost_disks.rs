//! An I/O server that has an empty disk in place of one that was lost.

use super::common::{Bed, VOLUME_UNIT, noise, root};
use super::{create, read, run, write};
use gannet_sim::Crash;
use gannet_vfs::{FileHandle, SetAttributes, Status, Vfs};
use gannet_volume::client::VolumeFs;
use std::rc::Rc;

const UNIT: usize = VOLUME_UNIT as usize;

/// A file of so many stripes and bytes.
async fn filled(fs: &VolumeFs, name: &str, stripes: usize, bytes: usize) -> FileHandle {
    let file = create(fs, name).await;
    let len = stripes * UNIT + bytes;
    write(fs, &file, 0, &noise(len, 1)).await.unwrap();
    file
}

fn lose_disk(bed: &Rc<Bed>, faults: &gannet_sim::Faults, number: usize) {
    bed.volume.kill_io_server(number, Crash::Power);
    faults.restart(bed.io_servers[number].node.id());
    bed.start_on_a_new_disk(number);
}

async fn size_of(fs: &VolumeFs, file: &FileHandle) -> usize {
    fs.attributes(file).await.unwrap().size as usize
}

async fn failed(fs: &VolumeFs, file: &FileHandle, offset: usize, len: usize) -> Option<Status> {
    fs.read(&root(), file, offset as u64, len as u32)
        .await
        .err()
}

#[test]
fn bytes_of_a_lost_disk_are_errors_and_others_are_there() {
    run(51, 2, |bed| async move {
        let (faults, before) = (bed.faults(), bed.mount());
        // Stripes 0 and 2 on server 0, stripe 1 on server 1: every second file begins on server 0.
        let mut files = Vec::new();
        for (stripes, bytes) in [(2, 100), (0, 100), (1, 100), (1, 0)] {
            let name = format!("{stripes} {bytes}");
            files.push(filled(&before, &name, stripes, bytes).await);
            create(&before, &format!("beside {name}")).await;
        }
        let [long, short, ends_there, full] = files.try_into().unwrap();
        lose_disk(&bed, &faults, 1);
        // Clients that knew their sizes, and those that do not.
        for fs in [before, bed.mount()] {
            assert!(read(&fs, &short, 0, 200).await == noise(100, 1));
            assert!(read(&fs, &long, 0, UNIT as u32).await == noise(UNIT, 1));
            assert_eq!(failed(&fs, &long, UNIT, 10).await, Some(Status::Io));
            assert_eq!(failed(&fs, &long, 0, 3 * UNIT).await, Some(Status::Io));
            assert_eq!(size_of(&fs, &long).await, 2 * UNIT + 100);
            // Nobody knows how long this was. It is no file that ends where another one's disk begins.
            for unknown in [&ends_there, &full] {
                assert_eq!(size_of(&fs, unknown).await, UNIT + 1);
                assert!(read(&fs, unknown, 0, UNIT as u32).await == noise(UNIT, 1));
                assert_eq!(failed(&fs, unknown, 0, 2 * UNIT).await, Some(Status::Io));
            }
            let written = write(&fs, &long, UNIT as u64, b"part").await;
            assert_eq!(written.err(), Some(Status::Io));
        }
    });
}

#[test]
fn a_file_that_lost_bytes_is_whole_again_when_it_is_written_anew() {
    run(52, 2, |bed| async move {
        let (faults, fs) = (bed.faults(), bed.mount());
        let file = filled(&fs, "file", 2, 100).await;
        filled(&fs, "removed", 2, 100).await;
        lose_disk(&bed, &faults, 1);
        let cut_to = |size| SetAttributes {
            size: Some(size),
            ..SetAttributes::default()
        };
        // What is left would be between zeros.
        let cut = cut_to(2 * UNIT as u64);
        let cut = fs.set_attributes(&root(), &file, &cut, None).await;
        assert_eq!(cut.result, Err(Status::Io));
        let cut = fs.set_attributes(&root(), &file, &cut_to(0), None).await;
        cut.result.unwrap();
        assert_eq!(size_of(&fs, &file).await, 0);
        let bytes = noise(3 * UNIT, 7);
        write(&fs, &file, 0, &bytes).await.unwrap();
        assert!(read(&bed.mount(), &file, 0, 3 * UNIT as u32).await == bytes);
        let removed = fs.remove(&root(), &fs.root(), b"removed").await;
        removed.result.unwrap();
        // New files have lost nothing, also those that are empty there.
        let new = filled(&fs, "new", 0, 100).await;
        write(&fs, &new, 2 * UNIT as u64, b"end").await.unwrap();
        let expected = [&noise(100, 1)[..], &vec![0; 2 * UNIT - 100], b"end"].concat();
        assert!(read(&fs, &new, 0, 3 * UNIT as u32).await == expected);
        // The server remembers what it has lost.
        let other = filled(&fs, "other", 0, 1).await;
        // A crash loses UNSTABLE writes that no COMMIT followed.
        for written in [&file, &other] {
            fs.commit(&root(), written, 0, 0).await.result.unwrap();
        }
        bed.volume.kill_io_server(1, Crash::Process);
        faults.restart(bed.io_servers[1].node.id());
        bed.start_io_server(1);
        assert!(read(&fs, &file, 0, 3 * UNIT as u32).await == bytes);
        assert!(read(&fs, &other, 0, 10).await == noise(1, 1));
    });
}
