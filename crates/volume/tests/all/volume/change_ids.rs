//! What shows that a file has changed: its times and its change id.

use super::common::{noise, root};
use super::{create, read, resize, run, write};
use gannet_vfs::{SetAttributes, SetTime, Time, Vfs};
use std::time::Duration;

#[test]
fn a_modification_time_holds_until_the_next_write() {
    run(9, 3, |bed| async move {
        let fs = bed.mount();
        let pause = || gannet_runtime::sleep(&bed.client.runtime(), Duration::from_secs(1));
        let file = create(&fs, "file").await;
        write(&fs, &file, 0, &noise(100_000, 1)).await.unwrap();
        // 1960, 1970, 2040, and far beyond what fits 32 bits.
        let times = [-315_619_200, 7, 2_208_988_800, 1 << 40].map(|seconds| Time {
            seconds,
            nanoseconds: 5,
        });
        for time in times {
            for size in [None, Some(50_000)] {
                pause().await;
                let change = SetAttributes {
                    size,
                    modify_time: SetTime::To(time),
                    ..SetAttributes::default()
                };
                let set = fs.set_attributes(&root(), &file, &change, None).await;
                set.result.unwrap();
                assert_eq!(fs.attributes(&file).await.unwrap().modify_time, time);
            }
            pause().await;
            let before = fs.attributes(&file).await.unwrap().change_time;
            write(&fs, &file, 10, b"more").await.unwrap();
            let after = fs.attributes(&file).await.unwrap();
            assert!(after.modify_time > before && after.modify_time == after.change_time);
        }
    });
}

/// Also where a time was set that hides the last write, and for each of the file's servers.
#[test]
fn every_change_gives_a_file_another_change_id_and_nothing_else_does() {
    run(9, 3, |bed| async move {
        let fs = bed.mount();
        let file = create(&fs, "file").await;
        let id = async || fs.attributes(&file).await.unwrap().change_id;
        let dated = SetAttributes {
            modify_time: SetTime::To(Time {
                seconds: 1 << 40,
                nanoseconds: 0,
            }),
            ..SetAttributes::default()
        };
        let mut ids = vec![id().await];
        for server in 0..3 {
            let at = server * 64 * 1024;
            write(&fs, &file, at, b"first").await.unwrap();
            ids.push(id().await);
            let set = fs.set_attributes(&root(), &file, &dated, None).await;
            set.result.unwrap();
            ids.push(id().await);
            write(&fs, &file, at, b"other").await.unwrap();
            ids.push(id().await);
            read(&fs, &file, 0, 5).await;
            assert_eq!(ids.last(), Some(&id().await));
        }
        resize(&fs, &file, 100_000).await.unwrap();
        ids.push(id().await);
        for (place, one) in ids.iter().enumerate() {
            assert!(!ids[..place].contains(one), "{ids:?}");
        }
        bed.kill_io_server(1);
        bed.start_io_server(1);
        assert_eq!(ids.last(), Some(&id().await));
    });
}
