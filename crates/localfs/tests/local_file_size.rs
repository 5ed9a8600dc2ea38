//! A limit of file sizes. It holds for the whole process, which is why this test has one of its own.

#![allow(clippy::unwrap_used)]

#[path = "all/support/mod.rs"]
mod support;

use gannet_localfs::survive_file_size_limit;
use gannet_runtime::Buffer;
use gannet_vfs::{SetAttributes, Stability, Status, Vfs};
use rustix::process::{Resource, Rlimit, setrlimit};
use support::{create, me, read, with_each_scheme, write};

const LIMIT: u64 = 1 << 20;

#[test]
fn a_limit_of_file_sizes_is_an_answer_not_the_end() {
    survive_file_size_limit();
    let limit = Rlimit {
        current: Some(LIMIT),
        maximum: Some(LIMIT),
    };
    setrlimit(Resource::Fsize, limit).unwrap();
    with_each_scheme(|world| {
        world.serve(|store| async move {
            let file = create(&store, &store.root(), b"f").await;
            for (offset, outcome) in [(LIMIT, Err(Status::Fbig)), (LIMIT - 3, Ok(3))] {
                let data = Buffer::from_vec(vec![7; 8]);
                let written = store
                    .write(&me(), &file, offset, data, 0..8, Stability::Unstable)
                    .await;
                assert_eq!(written.result.map(|done| done.count), outcome);
            }
            let longer = SetAttributes {
                size: Some(LIMIT + 1),
                ..SetAttributes::default()
            };
            let refused = store.set_attributes(&me(), &file, &longer, None).await;
            assert_eq!(refused.result, Err(Status::Fbig));
            write(&store, &file, 0, b"here").await;
            assert_eq!(read(&store, &file, 0, 4).await, b"here");
        });
    });
}
