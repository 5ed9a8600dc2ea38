//! Orphans: objects without a file, which a check of a served volume judges and removes.
#![allow(clippy::unwrap_used)]

use crate::common;

use common::{Bed, noise, root};
use gannet_meta::Table;
use gannet_meta::limits::ORPHAN_AGE_MIN;
use gannet_runtime::{Buffer, sleep};
use gannet_sim::World;
use gannet_vfs::{CreateMode, SetAttributes, Stability, Vfs};
use gannet_wire::volume::{ObjectId, OrphanStatus};

#[test]
fn an_object_whose_file_is_lost_and_has_a_name_is_kept() {
    let world = World::new(1);
    let bed = Bed::new(&world, 1);
    let done = world.run(async move {
        let (volume, caller) = (bed.mount(), root());
        let mut made = Vec::new();
        for name in [b"named", b"alone"] {
            let mode = CreateMode::Guarded(SetAttributes::default());
            let created = volume.create(&caller, &volume.root(), name, &mode).await;
            let handle = created.result.unwrap().handle;
            let (buffer, stable) = (Buffer::from_vec(noise(5000, 1)), Stability::FileSync);
            let written = volume.write(&caller, &handle, 0, buffer, 0..5000, stable);
            written.await.result.unwrap();
            let file = volume.attributes(&handle).await.unwrap().fileid;
            made.push(ObjectId { group: 0, file });
        }
        // Both inodes are lost, and one of the names.
        let (first, second) = (made[0].file.to_be_bytes(), made[1].file.to_be_bytes());
        let alone = [&1u64.to_be_bytes()[..], b"alone"].concat();
        bed.damage(&mut |it| {
            it.delete(Table::Inodes, &first)?;
            it.delete(Table::Inodes, &second)?;
            it.delete(Table::Names, &alone)
        });
        sleep(&bed.client.runtime(), ORPHAN_AGE_MIN).await;
        for (remove, expected) in [
            (false, [OrphanStatus::Named, OrphanStatus::Orphan]),
            (true, [OrphanStatus::Named, OrphanStatus::Removed]),
            (true, [OrphanStatus::Named, OrphanStatus::Gone]),
        ] {
            let statuses = volume.orphans(&caller, 0, remove, &made).await;
            assert_eq!(statuses.unwrap(), expected);
        }
        assert_eq!(bed.objects(), 1);
    });
    done.unwrap();
}
