//! What objects promise, without a connection.

mod copies;
mod returns;

use super::*;
use gannet_runtime::Buffer;
use gannet_sim::World;
use gannet_sim::store::{Disk, SimStore};
use gannet_vfs::Stability;
use gannet_wire::volume::{
    GroupRecord, Membership, Memberships, ObjectPosition, PAGE_OBJECTS_MAX, Placement, Shape, Term,
    TermCall, TermStage,
};

type SimObjects = Objects<FolderStore<SimStore>>;

/// Writes down what it is told.
#[derive(Default)]
struct Told(RefCell<Vec<(&'static str, u64)>>);

impl ObjectWatcher for Told {
    fn found(&self, object: ObjectId) {
        self.0.borrow_mut().push(("found", object.file));
    }

    fn ended(&self, object: ObjectId) {
        self.0.borrow_mut().push(("ended", object.file));
    }

    fn revoked(&self, file: u64) {
        self.0.borrow_mut().push(("revoked", file));
    }

    fn term_began(&self) {
        self.0.borrow_mut().push(("term", 0));
    }
}

/// The number of the server.
const NUMBER: u32 = 3;

const EVERYTHING: Placement = Placement {
    unit: 65536,
    width: 1,
    index: 0,
};

fn capability(file: u64) -> Capability {
    Capability {
        file,
        rights: Capability::READ | Capability::WRITE,
        expires: 1_000,
        term: 0,
        proof: [0; 16],
    }
}

/// The object of a file in the server's own group.
fn object(file: u64) -> ObjectId {
    ObjectId {
        group: NUMBER,
        file,
    }
}

fn range(file: u64, size: u64) -> ObjectRange {
    ObjectRange {
        group: NUMBER,
        capability: capability(file),
        size,
    }
}

fn shape(offset: u64, len: u32) -> Shape {
    Shape::contiguous(offset, len).unwrap()
}

fn open_objects(disk: &Rc<Disk>, runtime: Handle, told: &Rc<Told>) -> Rc<SimObjects> {
    let store = FolderStore::new(
        Handle::clone(&runtime),
        SimStore::open(disk, runtime.clone()),
        NUMBER,
    );
    let rights = Rights {
        allow: Box::new(|it, rights| it.rights & rights == rights),
        age_max: Duration::from_secs(120),
    };
    let objects = Objects::new(runtime, store, NUMBER, rights, Rc::clone(told) as _);
    objects.be_unmanaged();
    objects
}

fn run(story: impl AsyncFnOnce(Rc<SimObjects>, Rc<Told>, Rc<Disk>) + 'static) {
    let world = World::new(1);
    let node = world.add_node("io server");
    let (disk, told) = (Disk::new(&world), Rc::new(Told::default()));
    let objects = open_objects(&disk, node.runtime(), &told);
    world
        .run(async move {
            objects.load_notes().await.unwrap();
            story(objects, told, disk).await;
        })
        .unwrap();
}

/// Stores the bytes of a write that was accepted before.
async fn store(
    objects: &SimObjects,
    write: &range_lock::Write<'_>,
    capability: &Capability,
    offset: u64,
    bytes: Vec<u8>,
) -> Result<(), Status> {
    let handle = objects.find_or_make(object(capability.file)).await?;
    let target = Target {
        object: object(capability.file),
        handle: &handle,
        write,
        capability,
        stability: Stability::Unstable,
    };
    let data = 0..bytes.len();
    let buffer = Buffer::from_vec(bytes);
    objects.store(target, offset, buffer, data, ()).await
}

async fn write(
    objects: &SimObjects,
    capability: &Capability,
    offset: u64,
    bytes: Vec<u8>,
) -> Result<(), Status> {
    let bytes_said = shape(offset, bytes.len() as u32);
    let write = objects.accept_write(object(capability.file), &bytes_said, EVERYTHING)?;
    store(objects, &write, capability, offset, bytes).await
}

async fn bytes_of(objects: &SimObjects, file: u64) -> Vec<u8> {
    let object = objects.find(object(file)).await.unwrap().unwrap();
    let opened = objects.open(&object, 0, 1 << 16).await.unwrap();
    let mut bytes = vec![0; opened.count as usize];
    opened.file.read_at(0, &mut bytes).unwrap();
    bytes
}

#[test]
fn a_write_that_was_accepted_first_does_not_cover_a_later_one() {
    run(async |objects, _, _| {
        let all = shape(0, 8);
        let early = objects.accept_write(object(1), &all, EVERYTHING).unwrap();
        write(&objects, &capability(1), 2, vec![2; 3])
            .await
            .unwrap();
        let stored = store(&objects, &early, &capability(1), 0, vec![1; 8]).await;
        stored.unwrap();
        assert_eq!(bytes_of(&objects, 1).await, [1, 1, 2, 2, 2, 1, 1, 1]);
    });
}

#[test]
fn a_truncation_refuses_the_rest_of_earlier_writes() {
    run(async |objects, _, _| {
        let early = objects
            .accept_write(object(1), &shape(0, 8), EVERYTHING)
            .unwrap();
        let cut = objects.truncate(&range(1, 4)).await.unwrap();
        assert_eq!(cut.size, 4);
        let stored = store(&objects, &early, &capability(1), 0, vec![1; 8]).await;
        assert_eq!(stored, Err(Status::Jukebox));
        assert_eq!(bytes_of(&objects, 1).await, [0; 4]);
    });
}

#[test]
fn a_removed_file_gets_no_object_again_and_its_watcher_hears_in_time() {
    run(async |objects, told, _| {
        write(&objects, &capability(7), 0, vec![1]).await.unwrap();
        objects.unlink(&range(7, 0)).await.unwrap();
        let late = write(&objects, &capability(7), 0, vec![1]).await;
        assert_eq!(late, Err(Status::Stale));
        assert!(objects.is_removed(object(7)) && !objects.is_removed(object(8)));
        assert_eq!(objects.find(object(7)).await, Ok(None));
        assert_eq!(told.0.take(), [("found", 7), ("ended", 7)]);
        // No object: that is well.
        objects.unlink(&range(8, 0)).await.unwrap();
    });
}

/// Tells the server groups of which it is the only member, with their epochs.
async fn told_groups(objects: &SimObjects, groups: &[(u32, u64)]) {
    let membership = |(group, epoch): &(u32, u64)| Membership {
        group: *group,
        record: GroupRecord {
            epoch: *epoch,
            ..GroupRecord::of(NUMBER)
        },
    };
    let groups = groups.iter().map(membership).collect();
    objects.learn_groups(Memberships { groups }).await.unwrap();
}

#[test]
fn a_server_refuses_objects_of_groups_that_it_is_no_member_of_also_after_a_restart() {
    run(async |objects, told, disk| {
        let other = |group| ObjectId { group, file: 7 };
        assert_eq!(
            objects.find(other(5)).await,
            Err(Status::Jukebox),
            "not told"
        );
        assert_eq!(objects.find(object(7)).await, Ok(None), "its own");
        told_groups(&objects, &[(5, 2), (6, 1)]).await;
        disk.crash();
        let again = open_objects(&disk, Handle::clone(&objects.runtime), &told);
        again.load_notes().await.unwrap();
        for objects in [&objects, &again] {
            assert_eq!(objects.find(other(5)).await, Ok(None));
            assert_eq!(objects.find(object(7)).await, Err(Status::Stale));
            let range = ObjectRange {
                group: 4,
                ..range(7, 0)
            };
            assert_eq!(objects.truncate(&range).await, Err(Status::Stale));
        }
    });
}

#[test]
fn a_damaged_note_of_groups_waits_for_the_manager() {
    run(async |objects, told, disk| {
        let names = [object(7), ObjectId { group: 5, file: 7 }];
        for place in [0, 4096] {
            let noise = vec![1; 600];
            let noted = (objects.store).write_note(GROUPS_FILE, place, noise, Stability::FileSync);
            noted.await.unwrap();
        }
        let again = open_objects(&disk, Handle::clone(&objects.runtime), &told);
        again.load_notes().await.unwrap();
        for name in names {
            assert_eq!(again.find(name).await, Err(Status::Jukebox));
        }
        told_groups(&again, &[(5, 1)]).await;
        let third = open_objects(&disk, Handle::clone(&objects.runtime), &told);
        third.load_notes().await.unwrap();
        assert_eq!(third.find(object(7)).await, Err(Status::Stale));
        assert_eq!(third.find(names[1]).await, Ok(None));
    });
}

#[test]
fn an_earlier_record_of_a_group_does_not_replace_a_later_one() {
    run(async |objects, _, _| {
        let epochs = |objects: &SimObjects| match &*objects.groups.known.borrow() {
            groups::Known::Told { records, .. } => {
                let epochs = records.iter().map(|(group, it)| (*group, it.epoch));
                epochs.collect::<Vec<_>>()
            }
            other => panic!("{other:?}"),
        };
        told_groups(&objects, &[(5, 2), (6, 1)]).await;
        told_groups(&objects, &[(5, 1), (6, 3), (7, 1)]).await;
        assert_eq!(epochs(&objects), [(5, 2), (6, 3), (7, 1)]);
        told_groups(&objects, &[(6, 4)]).await;
        assert_eq!(epochs(&objects), [(6, 4)], "it left the others");
        // A later manager has metadata from a backup.
        let call = TermCall {
            stage: TermStage::Propose,
            term: Term {
                number: 3,
                token: [9; 16],
            },
            change: 1,
        };
        assert!(objects.term(call).await.unwrap().accepted);
        told_groups(&objects, &[(6, 2)]).await;
        assert_eq!(epochs(&objects), [(6, 2)]);
    });
}

#[test]
fn groups_have_objects_of_their_own_of_one_file() {
    run(async |objects, _, _| {
        write(&objects, &capability(7), 0, vec![1]).await.unwrap();
        let other = ObjectId {
            group: NUMBER + 1,
            file: 7,
        };
        told_groups(&objects, &[(NUMBER, 1), (NUMBER + 1, 1)]).await;
        assert_eq!(objects.find(other).await, Ok(None));
        objects.find_or_make(other).await.unwrap();
        assert_eq!(objects.state_of_named(other).await.unwrap().size, 0);
        objects.unlink(&range(7, 0)).await.unwrap();
        assert!(objects.find(other).await.unwrap().is_some());
        assert!(!objects.is_removed(other));
    });
}

#[test]
fn a_missing_object_of_a_lost_disk_is_not_called_empty() {
    run(async |objects, _, _| {
        objects.note_lost(5);
        assert_eq!(objects.state_of_named(object(4)).await, Err(Status::Nxio));
        let refused = write(&objects, &capability(4), 0, vec![1]).await;
        assert_eq!(refused, Err(Status::Nxio));
        assert_eq!(objects.state_of_named(object(5)).await.unwrap().size, 0);
        // Cut to nothing, it has lost nothing any more.
        objects.truncate(&range(4, 0)).await.unwrap();
        write(&objects, &capability(4), 0, vec![1]).await.unwrap();
        assert_eq!(objects.state_of_named(object(4)).await.unwrap().size, 1);
    });
}

#[test]
fn a_right_that_ends_while_a_write_waits_stores_nothing() {
    run(async |objects, told, _| {
        let early = objects
            .accept_write(object(1), &shape(0, 1), EVERYTHING)
            .unwrap();
        objects.revoke(&capability(1), 1_000).unwrap();
        let stored = store(&objects, &early, &capability(1), 0, vec![1]).await;
        assert_eq!(stored, Err(Status::Stale));
        assert_eq!(objects.state_of_named(object(1)).await.unwrap().size, 0);
        assert!(told.0.borrow().contains(&("revoked", 1)));
    });
}

#[test]
fn a_term_outlives_its_server_and_refuses_earlier_capabilities() {
    run(async |objects, told, disk| {
        let call = TermCall {
            stage: TermStage::Propose,
            term: Term {
                number: 3,
                token: [9; 16],
            },
            change: 17,
        };
        assert!(objects.term(call).await.unwrap().accepted);
        assert_eq!(objects.check(&capability(1), 0), Err(Status::Stale));
        assert_eq!(told.0.take(), [("term", 0)]);
        disk.crash();
        let again = open_objects(&disk, Handle::clone(&objects.runtime), &told);
        again.load_notes().await.unwrap();
        assert_eq!(again.term_number(), 3);
        assert_eq!(again.check(&capability(1), 0), Err(Status::Stale));
        let ask = TermCall {
            stage: TermStage::Ask,
            ..call
        };
        assert_eq!(again.term(ask).await.unwrap().change, 17);
    });
}

#[test]
fn pages_list_each_object_once_and_count_the_rest() {
    run(async |objects, _, _| {
        let files = (1..=600).collect::<Vec<u64>>();
        for file in &files {
            write(&objects, &capability(*file), 0, vec![1])
                .await
                .unwrap();
        }
        (objects
            .store
            .write_note("a stranger", 0, vec![1], Stability::Unstable)
            .await)
            .unwrap();
        let (mut listed, mut foreign) = (Vec::new(), 0);
        let mut next = ObjectPosition {
            folder: 0,
            cookie: 0,
            verifier: 0,
        };
        while next.folder < gannet_wire::volume::FOLDERS {
            let mut page = ObjectPage {
                next,
                foreign_files: 0,
                lost_below: 0,
                objects: Vec::new(),
            };
            objects.list(&mut page).await.unwrap();
            assert!(page.objects.len() <= PAGE_OBJECTS_MAX);
            foreign += page.foreign_files;
            listed.extend(page.objects.iter().map(|entry| entry.object.file));
            next = page.next;
        }
        listed.sort_unstable();
        assert_eq!((listed, foreign), (files, 1));
    });
}
