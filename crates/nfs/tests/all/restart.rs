//! The server goes away and comes back: clients carry on where they were.

#![allow(clippy::unwrap_used)]

use crate::support;

use gannet_client::{Existing, Transfer, Zeros};
use gannet_sim::store::SimStore;
use support::{Running, disk, export, run};

#[test]
fn a_copy_survives_restarts_with_loss_of_unstable_data() {
    run(|runtime| async move {
        let disk = disk();
        let exports = || vec![(export("/"), SimStore::open(&disk, runtime.clone()))];
        let mut running = Running::start(&runtime, exports());
        let addresses = running.addresses;
        let files = running.mount(&runtime).await;
        let file = files
            .create(b"f", 0o644, Existing::Refuse)
            .await
            .unwrap()
            .handle;
        let how = Transfer {
            block: Some(8192),
            depth: 8,
        };
        let mut writer = files.write_file(&file, Zeros::Write, how);
        let blocks = 60u64;
        for index in 0..blocks {
            let mut buffer = writer.buffer();
            buffer.fill(index as u8 + 1);
            writer.write(index * 8192, buffer, 8192).await.unwrap();
            if index % 20 == 10 {
                running.stop().await;
                disk.crash();
                running = Running::start_at(&runtime, exports(), addresses);
            }
        }
        let written = writer.finish().await.unwrap();
        assert_eq!(written.end, blocks * 8192);
        disk.crash();

        let mut reader = files.read_file(&file, 0..u64::MAX, how);
        let mut seen = 0u64;
        while let Some(block) = reader.next().await.unwrap() {
            assert!(
                block.data().iter().all(|byte| u64::from(*byte) == seen + 1),
                "{seen}"
            );
            seen += 1;
            reader.recycle(block.buffer);
            if seen == 30 {
                running.stop().await;
                running = Running::start_at(&runtime, exports(), addresses);
            }
        }
        assert_eq!(seen, blocks);
        running.stop().await;
    });
}
