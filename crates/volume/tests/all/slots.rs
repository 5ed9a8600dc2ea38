//! Session slots of peers that choose other identities and slots than a client does.

use crate::common::{Bed, root};
use gannet_sim::World;
use gannet_vfs::Vfs;
use gannet_volume::limits::SESSION_SLOTS;
use gannet_volume::link::Link;
use gannet_wire::volume::{
    AttributeChanges, Call, Caller, Class, Entry, ROOT, SlotSequence, Status,
};

async fn mkdir(manager: &Link, name: &[u8], slot: SlotSequence) -> Result<(), Status> {
    let call = Call::Mkdir {
        entry: Entry {
            directory: ROOT,
            name: name.to_vec(),
        },
        attributes: AttributeChanges::default(),
    };
    let body = call.to_body(&Caller::new(0, 0, &[]), &slot);
    let asked = manager.call(call.operation(), Class::Metadata, &body, &[]);
    asked.await.unwrap().header.status
}

/// The reply cache would keep a reply for each identity and slot, for a day.
#[test]
fn a_connection_has_the_slots_of_its_session_whatever_identity_it_names() {
    let world = World::new(3);
    let bed = Bed::new(&world, 1);
    let story = async move {
        let fs = bed.mount();
        let (one, other) = (
            bed.manager_link(&bed.client).await,
            bed.manager_link(&bed.client).await,
        );
        let slot = |client, slot| SlotSequence {
            client: [client; 16],
            slot,
            sequence: 1,
        };
        assert_eq!(mkdir(&one, b"first", slot(1, 0)).await, Ok(()));
        // The same slot and sequence: this is the reply to the first change.
        assert_eq!(mkdir(&one, b"replayed", slot(2, 0)).await, Ok(()));
        // Another session may use the same identity.
        assert_eq!(mkdir(&other, b"second", slot(1, 0)).await, Ok(()));
        let last = SESSION_SLOTS - 1;
        assert_eq!(mkdir(&one, b"third", slot(1, last)).await, Ok(()));
        let beyond = mkdir(&one, b"beyond", slot(1, last + 1)).await;
        assert_eq!(beyond, Err(Status::Inval));
        for (name, exists) in [
            (&b"first"[..], true),
            (b"replayed", false),
            (b"second", true),
            (b"third", true),
            (b"beyond", false),
        ] {
            let found = fs.lookup(&root(), &fs.root(), name).await.0;
            assert_eq!(found.is_ok(), exists, "{}", name.escape_ascii());
        }
    };
    world.run(story).unwrap();
}
