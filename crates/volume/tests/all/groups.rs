//! Clients that know groups of I/O servers as they were before.
#![allow(clippy::unwrap_used)]

use crate::common;

use common::{Bed, noise, read, root, write};
use gannet_meta::Table;
use gannet_sim::{Crash, World};
use gannet_vfs::{SetAttributes, Vfs};
use gannet_volume::client::Striping;
use gannet_wire::volume::{Chosen, GroupRecord, Stripes};
use gannet_wire::xdr::to_bytes;

/// Metadata of a backup may say that a group is another server, which once had another number.
#[test]
fn a_client_with_groups_from_before_writes_where_others_look() {
    let world = World::new(42);
    let bed = Bed::new(&world, 2);
    let story = async move {
        let (fs, other) = (bed.mount(), bed.mount());
        let stripes = Stripes {
            unit: 4096,
            on: Chosen::Listed(vec![0]),
            copies: None,
        };
        let (caller, at, plain) = (root(), fs.root(), SetAttributes::default());
        let made = fs.create_striped(&caller, &at, b"file", &plain, stripes);
        let file = made.await.unwrap();
        write(&fs, &file, 0, &noise(4096, 1)).await.unwrap();
        let Striping::File(layout) = fs.striping(&caller, &file).await.unwrap() else {
            panic!("a file has a layout");
        };
        assert_eq!(fs.servers_of(&layout).await.unwrap(), Some(vec![0]));
        bed.kill_manager(Crash::Process);
        let key = [&b"group "[..], &layout.groups[0].to_be_bytes()].concat();
        bed.damage(&mut |it| it.put(Table::Volume, &key, &to_bytes(&GroupRecord::of(1))));
        bed.start_manager();
        // It answers once its term has begun: until then, rights of the term before are good.
        other.attributes(&file).await.unwrap();
        let new = noise(4096, 2);
        write(&fs, &file, 0, &new).await.unwrap();
        assert_eq!(fs.servers_of(&layout).await.unwrap(), Some(vec![1]));
        assert_eq!(read(&other, &file, 0, 4096).await, new);
    };
    world.run(story).unwrap();
}
