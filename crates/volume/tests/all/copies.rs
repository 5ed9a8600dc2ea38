//! Volumes that keep each byte on two I/O servers.
#![allow(clippy::unwrap_used)]

use crate::common;

use common::{Bed, noise, read, root, write};
use gannet_runtime::{all, sleep, timeout};
use gannet_sim::World;
use gannet_vfs::{FileHandle, SetAttributes, Vfs};
use gannet_volume::client::{TransferPolicy, VolumeFs};
use gannet_wire::volume::{Chosen, Stripes};
use std::rc::Rc;
use std::time::Duration;

/// A new file on the groups of which these servers are the primaries.
async fn file_on(fs: &VolumeFs, name: &[u8], servers: Vec<u32>) -> FileHandle {
    let stripes = Stripes {
        unit: 65536,
        on: Chosen::Listed(servers),
        copies: None,
    };
    let (caller, at, plain) = (root(), fs.root(), SetAttributes::default());
    let made = fs.create_striped(&caller, &at, name, &plain, stripes);
    made.await.unwrap()
}

fn run(servers: usize, story: impl AsyncFnOnce(Rc<Bed>) + 'static) {
    let world = World::new(42);
    let bed = Bed::with_copies(&world, servers);
    world.run(story(bed)).unwrap();
}

#[test]
fn bytes_that_went_each_way_are_at_the_other_members() {
    run(2, async |bed| {
        let by_client = TransferPolicy {
            inline_max: 0,
            eager_max: 0,
            client_driven: true,
        };
        let policies = [TransferPolicy::default(), by_client];
        let lens = [100, 30_000, 1 << 20, 3 << 20];
        let mut files = Vec::new();
        for (number, policy) in policies.into_iter().enumerate() {
            let fs = bed.mount().with_policy(policy);
            let name = format!("file {number}").into_bytes();
            let file = file_on(&fs, &name, vec![0, 1]).await;
            let mut whole = Vec::new();
            for len in lens {
                let bytes = noise(len, len as u8);
                write(&fs, &file, whole.len() as u64, &bytes).await.unwrap();
                whole.extend(bytes);
            }
            // What was written later counts.
            let over = noise(200_000, 99);
            write(&fs, &file, 50_000, &over).await.unwrap();
            whole[50_000..250_000].copy_from_slice(&over);
            let short = SetAttributes {
                size: Some(whole.len() as u64 - 70_000),
                ..SetAttributes::default()
            };
            let cut = fs.set_attributes(&root(), &file, &short, None).await;
            cut.result.unwrap();
            whole.truncate(whole.len() - 70_000);
            fs.commit(&root(), &file, 0, 0).await.result.unwrap();
            files.push((file, whole));
        }
        bed.turn_groups();
        let fs = bed.mount();
        for (file, whole) in files {
            let size = fs.attributes(&file).await.unwrap().size;
            assert_eq!(size, whole.len() as u64);
            assert!(read(&fs, &file, 0, whole.len()).await == whole);
        }
    });
}

#[test]
fn servers_that_copy_to_each_other_do_not_wait_for_each_other() {
    run(2, async |bed| {
        let writing = async |number: u8, server: u32| {
            let fs = bed.mount();
            let file = file_on(&fs, &[b'a' + number], vec![server]).await;
            for round in 0..20 {
                let bytes = noise(1 << 20, number + round);
                write(&fs, &file, u64::from(round) << 20, &bytes)
                    .await
                    .unwrap();
            }
        };
        let clients = (0..8).map(|number| Box::pin(writing(number, u32::from(number % 2))));
        let all = all(clients);
        let done = timeout(&bed.client.runtime(), Duration::from_secs(60), all).await;
        done.unwrap();
    });
}

#[test]
fn a_server_that_is_cut_off_from_one_other_stops_their_groups_alone() {
    run(4, async |bed| {
        let fs = bed.mount();
        let runtime = bed.client.runtime();
        let groups = 16;
        let mut files = Vec::new();
        for number in 0..groups {
            let file = file_on(&fs, format!("{number}").as_bytes(), vec![number % 4]).await;
            write(&fs, &file, 0, &noise(1000, 1)).await.unwrap();
            files.push(file);
        }
        let faults = bed.faults();
        let (one, other) = (bed.io_servers[0].node.id(), bed.io_servers[1].node.id());
        faults.partition(one, other);
        let mut waiting = 0;
        for file in &files {
            let bytes = noise(1000, 2);
            let written = write(&fs, file, 0, &bytes);
            let patience = Duration::from_secs(1);
            match timeout(&runtime, patience, written).await {
                Ok(written) => written.unwrap(),
                Err(_) => waiting += 1,
            }
        }
        assert!(
            (1..=8).contains(&waiting),
            "{waiting} of {groups} files wait"
        );
        faults.heal(one, other);
        sleep(&runtime, Duration::from_secs(15)).await;
        for file in &files {
            write(&fs, file, 0, &noise(1000, 3)).await.unwrap();
        }
        bed.turn_groups();
        let other = bed.mount();
        for file in &files {
            assert!(read(&other, file, 0, 1000).await == noise(1000, 3));
        }
    });
}

#[test]
fn what_was_written_is_read_right_after_its_primary_was_killed() {
    run(4, async |bed| {
        let runtime = bed.client.runtime();
        let fs = bed.mount();
        let file = file_on(&fs, b"file", vec![1]).await;
        write(&fs, &file, 0, &noise(1 << 20, 1)).await.unwrap();
        fs.commit(&root(), &file, 0, 0).await.result.unwrap();
        sleep(&runtime, Duration::from_secs(2)).await;
        bed.kill_io_server(1);
        let killed = runtime.now();
        assert!(read(&fs, &file, 4096, 1 << 16).await == noise(1 << 20, 1)[4096..4096 + (1 << 16)]);
        let stall = runtime.now().duration_since(killed);
        assert!(stall < Duration::from_millis(300), "{stall:?}");
        // What changes waits until the right of the dead server is over.
        write(&fs, &file, 0, &noise(1000, 2)).await.unwrap();
        let stall = runtime.now().duration_since(killed);
        assert!(stall < Duration::from_secs(3), "{stall:?}");
        assert!(read(&fs, &file, 0, 1000).await == noise(1000, 2));
    });
}

#[test]
fn a_member_that_restarts_is_waited_for_no_longer() {
    run(4, async |bed| {
        let fs = bed.mount();
        let mut files = Vec::new();
        for number in 0..4 {
            let file = file_on(&fs, &[b'a' + number], vec![0]).await;
            write(&fs, &file, 0, &noise(1000, 1)).await.unwrap();
            files.push(file);
        }
        let runtime = bed.client.runtime();
        bed.kill_io_server(1);
        bed.start_io_server(1);
        let begun = runtime.now();
        for file in &files {
            write(&fs, file, 0, &noise(1000, 2)).await.unwrap();
        }
        let stall = runtime.now().duration_since(begun);
        assert!(stall < Duration::from_millis(800), "{stall:?}");
    });
}
