//! Names and paths at a volume: what the manager refuses.

use super::common::root;
use super::{create, run};
use gannet_vfs::{FileKind, NodeKind, SetAttributes, Status, Vfs};

/// MOUNT answers MNT3ERR_NOTDIR for such a path.
#[test]
fn a_path_that_leads_to_no_directory_does_not_resolve() {
    run(51, 1, |bed| async move {
        let (fs, caller, plain) = (bed.mount(), root(), SetAttributes::default());
        let top = fs.root();
        let file = create(&fs, "file").await;
        let link = fs.make_symlink(&caller, &top, b"link", b"d", &plain).await;
        let fifo = fs
            .make_node(&caller, &top, b"fifo", NodeKind::Fifo, &plain)
            .await;
        let made = fs.make_directory(&caller, &top, b"d", &plain).await;
        link.result.unwrap();
        fifo.result.unwrap();
        let directory = made.result.unwrap().handle;
        for name in [&b"file"[..], b"link", b"fifo"] {
            let resolved = fs.resolve(&caller, &[name]).await;
            assert_eq!(resolved, Err(Status::Notdir), "{}", name.escape_ascii());
        }
        assert_eq!(fs.resolve(&caller, &[b"d"]).await, Ok(directory));
        assert_eq!(fs.resolve(&caller, &[]).await, Ok(top));
        let found = fs.locate(&caller, &[b"file"]).await;
        assert_eq!(found, Ok((file, FileKind::Regular)));
        let absent = fs.resolve(&caller, &[b"d", b"none"]).await;
        assert_eq!(absent, Err(Status::Noent));
    });
}
