//! Attributes of files that are being written: the client reads the inode's record at the manager and the states of the
//! objects at the I/O servers, without a call.

use crate::attributes::{Clients, commit, create, run, set};
use crate::common::{Bed, noise, root, until, write};
use gannet_runtime::sleep;
use gannet_sim::{Crash, World};
use gannet_vfs::{FileHandle, SetAttributes, SetTime, Status, Time, Vfs};
use gannet_volume::client::VolumeFs;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

fn by_objects(fs: &VolumeFs) -> u64 {
    fs.attribute_counters().by_objects
}

/// Reads attributes until the reader has references to the states of the objects.
async fn warm_objects(bed: &Bed, all: &Clients, file: &FileHandle) {
    let before = by_objects(&all.reader);
    for _ in 0..20 {
        all.see(file).await.unwrap();
        if by_objects(&all.reader) > before {
            return;
        }
        sleep(&bed.client.runtime(), Duration::from_millis(10)).await;
    }
    panic!(
        "no states of objects: {:?}",
        all.reader.attribute_counters()
    );
}

#[test]
fn attributes_of_a_file_being_written_are_read_without_a_call() {
    run(1, 3, |bed| async move {
        let all = Clients::new(&bed);
        let file = create(&all.writer, "file").await;
        write(&all.writer, &file, 0, b"first").await.unwrap();
        warm_objects(&bed, &all, &file).await;
        let before = by_objects(&all.reader);
        for len in 1..=100 {
            write(&all.writer, &file, 0, &noise(len, 1)).await.unwrap();
            let seen = all.see(&file).await.unwrap();
            assert_eq!(seen.size, (len as u64).max(5));
        }
        assert_eq!(by_objects(&all.reader), before + 100);
        // Bytes in the other objects, which did not exist.
        for offset in [1 << 20, 5 << 20, 3 << 20, 7 << 20] {
            write(&all.writer, &file, offset, b"more").await.unwrap();
            let seen = all.see(&file).await.unwrap();
            assert!(seen.size >= offset + 4, "{} at {offset}", seen.size);
        }
        warm_objects(&bed, &all, &file).await;
    });
}

#[test]
fn a_change_of_the_inode_during_writes_is_seen() {
    run(2, 2, |bed| async move {
        let all = Clients::new(&bed);
        let file = create(&all.writer, "file").await;
        for (step, change) in [
            SetAttributes {
                mode: Some(0o600),
                ..SetAttributes::default()
            },
            SetAttributes {
                modify_time: SetTime::To(Time {
                    seconds: 77,
                    nanoseconds: 1,
                }),
                ..SetAttributes::default()
            },
            SetAttributes {
                size: Some(5000),
                ..SetAttributes::default()
            },
            SetAttributes {
                size: Some(200_000),
                ..SetAttributes::default()
            },
        ]
        .into_iter()
        .enumerate()
        {
            let bytes = noise(100_000, step as u8);
            write(&all.writer, &file, 0, &bytes).await.unwrap();
            warm_objects(&bed, &all, &file).await;
            let before = all.see(&file).await.unwrap();
            set(&all.writer, &file, change).await;
            let after = all.see(&file).await.unwrap();
            assert_ne!(after.change_id, before.change_id);
            assert_eq!(after.size, change.size.unwrap_or(before.size));
            write(&all.writer, &file, 0, &bytes).await.unwrap();
            warm_objects(&bed, &all, &file).await;
            let written = all.see(&file).await.unwrap();
            assert!(written.modify_time > before.modify_time, "after {change:?}");
        }
        let top = all.writer.root();
        let removed = all.writer.remove(&root(), &top, b"file").await;
        removed.result.unwrap();
        assert_eq!(all.see(&file).await, Err(Status::Stale));
    });
}

/// One client appends to a file and truncates it. Readers by either way agree on the order of the sizes.
#[test]
fn sizes_of_a_file_being_written_never_go_back_in_time() {
    const UNIT: u64 = 64 << 10;
    let mut seen_by_objects = 0;
    for seed in 10..30 {
        let hits = Rc::new(Cell::new(0));
        let counted = Rc::clone(&hits);
        run(seed, 3, |bed| async move {
            let all = Clients::new(&bed);
            let file = create(&all.writer, "file").await;
            let is_over = Cell::new(false);
            let size_of = async |fs: &VolumeFs| fs.attributes(&file).await.unwrap().size;
            let changing = async {
                // Each value of size is reached once, whether the file grows by a write or by a truncation.
                for step in 1..=60 {
                    let size = step * UNIT / 2;
                    if step % 7 == 0 {
                        let change = SetAttributes {
                            size: Some(size),
                            ..SetAttributes::default()
                        };
                        set(&all.writer, &file, change).await;
                    } else {
                        write(&all.writer, &file, size - 4, b"data").await.unwrap();
                    }
                    assert!(size_of(&all.reader).await >= size, "it was acknowledged");
                    if step % 3 == 0 {
                        sleep(&bed.client.runtime(), Duration::from_millis(3)).await;
                    }
                }
                is_over.set(true);
            };
            let looking = async {
                let mut last = 0;
                while !is_over.get() {
                    for fs in [&all.asker, &all.reader] {
                        let seen = size_of(fs).await;
                        assert!(seen >= last, "{seen} after {last}");
                        last = seen;
                    }
                }
            };
            until(changing, looking).await;
            counted.set(by_objects(&all.reader));
        });
        seen_by_objects += hits.get();
    }
    assert!(seen_by_objects > 200, "{seen_by_objects}");
}

/// Another client changes the inode and then the bytes while the reader is stopped somewhere between its reads of the
/// record and of the objects. New bytes with the old inode would be a file that never was.
#[test]
fn a_record_that_changed_before_the_states_were_read_does_not_count() {
    const STEPS: u64 = 60;
    let world = World::new(5);
    let bed = Bed::new(&world, 1);
    let node = world.add_node("reader");
    let faults = world.faults();
    let story = async move {
        let mut all = Clients::new(&bed);
        all.reader = bed.volume.mount(&node);
        let file = create(&all.writer, "file").await;
        write(&all.writer, &file, 0, b"x").await.unwrap();
        let all = Rc::new(all);
        let mut torn_apart = 0;
        for step in 1..=STEPS {
            warm_objects(&bed, &all, &file).await;
            let before = all.see(&file).await.unwrap();
            let (seen, reading) = (Rc::new(Cell::new(None)), Rc::clone(&all));
            let kept = Rc::clone(&seen);
            let read = async move { kept.set(Some(reading.reader.attributes(&file).await)) };
            node.runtime().spawn("read", Box::pin(read));
            let hits = by_objects(&all.reader);
            sleep(&bed.client.runtime(), Duration::from_micros(step)).await;
            faults.freeze(node.id());
            let is_under_way = seen.take().is_none();
            let mode = Some(0o400 + (before.mode + 1) % 8);
            let change = SetAttributes {
                mode,
                ..SetAttributes::default()
            };
            set(&all.writer, &file, change).await;
            write(&all.writer, &file, before.size, b"x").await.unwrap();
            faults.thaw(node.id());
            if !is_under_way {
                continue;
            }
            let attributes = loop {
                if let Some(attributes) = seen.take() {
                    break attributes.unwrap();
                }
                sleep(&bed.client.runtime(), Duration::from_micros(10)).await;
            };
            let is_old = (attributes.mode, attributes.size) == (before.mode, before.size);
            let is_new = (Some(attributes.mode), attributes.size) == (mode, before.size + 1);
            assert!(is_old || is_new, "{attributes:?} after {step} us");
            torn_apart += u64::from(is_new && by_objects(&all.reader) == hits);
        }
        assert!(torn_apart > 0, "no read was stopped between its parts");
    };
    world.run(story).unwrap();
}

#[test]
fn references_to_states_end_with_their_server() {
    run(4, 2, |bed| async move {
        let all = Clients::new(&bed);
        let file = create(&all.writer, "file").await;
        write(&all.writer, &file, 0, &noise(200_000, 1))
            .await
            .unwrap();
        commit(&all.writer, &file).await;
        for server in [0, 1] {
            warm_objects(&bed, &all, &file).await;
            bed.kill_io_server(server);
            bed.start_io_server(server);
            sleep(&bed.client.runtime(), Duration::from_secs(1)).await;
            write(&all.writer, &file, 0, b"again").await.unwrap();
            assert_eq!(all.see(&file).await.unwrap().size, 200_000);
        }
        bed.kill_manager(Crash::Process);
        bed.faults().restart(bed.manager.id());
        bed.start_manager();
        write(&all.writer, &file, 200_000, b"more").await.unwrap();
        assert_eq!(all.see(&file).await.unwrap().size, 200_004);
        warm_objects(&bed, &all, &file).await;
    });
}
