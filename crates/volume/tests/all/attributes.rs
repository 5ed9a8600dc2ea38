//! Attributes that clients read from the manager's memory without a call, and the events that must end such reads.

use crate::common::{Bed, noise, read, root, until, write};
use gannet_dst::volume::identity;
use gannet_fabric::{
    Capabilities, ConnectOptions, Domain, Listener, Outgoing, Provider, SharedReceiveQueue,
    SharedReceives,
};
use gannet_runtime::{Buffer, sleep};
use gannet_sim::{Crash, World};
use gannet_vfs::{
    Attributes, CreateMode, DirectoryEntry, Entries, EntryName, FileHandle, NodeKind,
    SetAttributes, SetTime, Stability, Status, Time, Verifier, Vfs,
};
use gannet_volume::client::{Addresses, AttributeCounters, Siblings, VolumeFs};
use gannet_volume::limits::{ATTRIBUTE_RECORDS_MAX, GIVE_BACK_AFTER, SIZE_AGE};
use gannet_wire::volume::Role;
use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

pub(crate) fn run<F: Future<Output = ()> + 'static>(
    seed: u64,
    servers: usize,
    story: impl FnOnce(Rc<Bed>) -> F,
) {
    let world = World::new(seed);
    let bed = Bed::new(&world, servers);
    world.run(story(bed)).unwrap();
}

pub(crate) async fn create(fs: &VolumeFs, name: &str) -> FileHandle {
    let mode = CreateMode::Guarded(SetAttributes::default());
    let made = fs.create(&root(), &fs.root(), name.as_bytes(), &mode).await;
    made.result.unwrap().handle
}

pub(crate) async fn set(fs: &VolumeFs, file: &FileHandle, change: SetAttributes) {
    let set = fs.set_attributes(&root(), file, &change, None).await;
    set.result.unwrap();
}

/// Waits until clients have returned their grants.
pub(crate) async fn rest(bed: &Bed) {
    sleep(&bed.client.runtime(), 3 * GIVE_BACK_AFTER).await;
}

pub(crate) async fn commit(fs: &VolumeFs, file: &FileHandle) {
    fs.commit(&root(), file, 0, 0).await.result.unwrap();
}

fn hits(fs: &VolumeFs) -> u64 {
    fs.attribute_counters().hits
}

/// A client that makes changes, one that reads attributes without calls, and one that always calls the manager.
pub(crate) struct Clients {
    pub(crate) writer: VolumeFs,
    pub(crate) reader: VolumeFs,
    pub(crate) asker: VolumeFs,
}

impl Clients {
    pub(crate) fn new(bed: &Bed) -> Clients {
        Clients {
            writer: bed.mount(),
            reader: bed.mount(),
            asker: bed.mount().with_attribute_references(false),
        }
    }

    /// Makes the reader know the slot of a file's record.
    pub(crate) async fn warm(&self, file: &FileHandle) {
        self.reader.attributes(file).await.unwrap();
        let before = hits(&self.reader);
        self.reader.attributes(file).await.unwrap();
        assert_eq!(hits(&self.reader), before + 1, "it was asked for");
    }

    /// The reader's attributes of a file, after a check that the manager answers the same.
    pub(crate) async fn see(&self, file: &FileHandle) -> Result<Attributes, Status> {
        let seen = self.reader.attributes(file).await;
        assert_eq!(seen, self.asker.attributes(file).await);
        seen
    }
}

#[test]
fn attributes_are_read_as_they_would_be_answered() {
    run(1, 3, |bed| async move {
        let all = Clients::new(&bed);
        let (fs, caller, top) = (&all.writer, root(), all.writer.root());
        let plain = SetAttributes::default();
        let file = create(fs, "file").await;
        write(fs, &file, 0, &noise(100_000, 1)).await.unwrap();
        commit(fs, &file).await;
        rest(&bed).await;
        let directory = fs.make_directory(&caller, &top, b"d", &plain).await;
        // The text is longer than a record.
        let text = [b't'; 3000];
        let link = fs.make_symlink(&caller, &top, b"l", &text, &plain).await;
        let kind = NodeKind::BlockDevice { major: 8, minor: 1 };
        let device = fs.make_node(&caller, &top, b"n", kind, &plain).await;
        let mut files = vec![file, top, create(fs, "empty").await];
        files.extend([directory, link, device].map(|made| made.result.unwrap().handle));
        // The manager learns the I/O servers' connections when it first asks them.
        for file in &files {
            all.warm(file).await;
            all.see(file).await.unwrap();
        }
        let seen = all.reader.attribute_counters();
        let hits = 2 * files.len() as u64;
        let expected = AttributeCounters {
            hits,
            ..AttributeCounters::default()
        };
        assert_eq!(seen, expected);
        assert_eq!(all.asker.attribute_counters(), AttributeCounters::default());
    });
}

#[test]
fn every_acknowledged_change_is_seen() {
    run(2, 2, |bed| async move {
        let all = Clients::new(&bed);
        let (fs, caller, top) = (&all.writer, root(), all.writer.root());
        let file = create(fs, "file").await;
        write(fs, &file, 0, &noise(100_000, 1)).await.unwrap();
        commit(fs, &file).await;
        rest(&bed).await;
        for change in [
            SetAttributes {
                mode: Some(0o600),
                ..SetAttributes::default()
            },
            SetAttributes {
                uid: Some(7),
                gid: Some(8),
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
        ] {
            all.warm(&file).await;
            let before = all.see(&file).await.unwrap();
            set(fs, &file, change).await;
            let after = all.see(&file).await.unwrap();
            assert_ne!(after.change_id, before.change_id);
            assert_eq!(after.size, change.size.unwrap_or(before.size));
        }
        all.warm(&file).await;
        write(fs, &file, 300_000, b"more").await.unwrap();
        assert_eq!(all.see(&file).await.unwrap().size, 300_004);
        write(fs, &file, 400_000, b"more").await.unwrap();
        assert_eq!(all.see(&file).await.unwrap().size, 400_004);
        commit(fs, &file).await;
        rest(&bed).await;
        all.warm(&file).await;
        let bytes = Buffer::from_vec(b"end".to_vec());
        let appended = fs.append(&caller, &file, 0, bytes, 3, Stability::Unstable);
        assert_eq!(appended.await.0.unwrap().0, 400_004);
        assert_eq!(all.see(&file).await.unwrap().size, 400_007);
        commit(fs, &file).await;
        rest(&bed).await;
        // Changes of names: those of the file, and those in the directory.
        for target in ["link", "moved"] {
            all.warm(&file).await;
            all.warm(&top).await;
            let name = target.as_bytes();
            match target {
                "link" => fs.link(&caller, &file, &top, name).await.0.result.unwrap(),
                _ => {
                    let from = EntryName::new(&top, b"link");
                    let to = EntryName::new(&top, name);
                    fs.rename(&caller, from, to).await.0.unwrap();
                }
            }
            assert_eq!(all.see(&file).await.unwrap().link_count, 2);
            all.see(&top).await.unwrap();
        }
        all.warm(&top).await;
        let plain = SetAttributes::default();
        let made = fs.make_directory(&caller, &top, b"d", &plain);
        let directory = made.await.result.unwrap().handle;
        all.see(&top).await.unwrap();
        all.warm(&directory).await;
        fs.remove_directory(&caller, &top, b"d")
            .await
            .result
            .unwrap();
        assert_eq!(all.see(&directory).await, Err(Status::Stale));
        all.warm(&file).await;
        fs.remove(&caller, &top, b"moved").await.result.unwrap();
        assert_eq!(all.see(&file).await.unwrap().link_count, 1);
        // Another file takes the name over, perhaps in one batch with other changes.
        let other = create(fs, "other").await;
        all.warm(&file).await;
        all.warm(&other).await;
        let from = EntryName::new(&top, b"other");
        let to = EntryName::new(&top, b"file");
        fs.rename(&caller, from, to).await.0.unwrap();
        assert_eq!(all.see(&file).await, Err(Status::Stale));
        all.see(&other).await.unwrap();
        all.warm(&other).await;
        fs.remove(&caller, &top, b"file").await.result.unwrap();
        assert_eq!(all.see(&other).await, Err(Status::Stale));
    });
}

/// Calls see a change while it becomes durable. After that, no client may see the state before it.
#[test]
fn attributes_never_go_back_in_time() {
    for seed in 10..30 {
        run(seed, 2, |bed| async move {
            let all = Clients::new(&bed);
            let file = create(&all.writer, "file").await;
            all.warm(&file).await;
            let is_over = Cell::new(false);
            let mode_of = async |fs: &VolumeFs| fs.attributes(&file).await.unwrap().mode;
            let changing = async {
                for step in 1..=200 {
                    let change = SetAttributes {
                        mode: Some(step),
                        ..SetAttributes::default()
                    };
                    set(&all.writer, &file, change).await;
                    assert!(mode_of(&all.reader).await >= step, "it was acknowledged");
                    if step % 5 == 0 {
                        sleep(&bed.client.runtime(), Duration::from_millis(1)).await;
                    }
                }
                is_over.set(true);
            };
            let looking = async {
                let mut last = 0;
                while !is_over.get() {
                    for fs in [&all.asker, &all.reader] {
                        let seen = mode_of(fs).await;
                        assert!(seen >= last || last > 200, "{seen} after {last}");
                        last = seen;
                    }
                }
            };
            until(changing, looking).await;
            assert!(hits(&all.reader) > 50, "{}", hits(&all.reader));
        });
    }
}

/// The names of a directory with their handles.
#[derive(Default)]
struct Listed {
    handles: Vec<FileHandle>,
    cookie: u64,
}

impl Entries for Listed {
    fn wants_objects(&self) -> bool {
        true
    }

    fn push(&mut self, entry: &DirectoryEntry<'_>) -> bool {
        self.cookie = entry.cookie;
        if ![&b"."[..], b".."].contains(&entry.name) {
            let object = entry.object.as_ref();
            self.handles.extend(object.map(|(handle, _)| *handle));
        }
        true
    }
}

async fn list(fs: &VolumeFs) -> Vec<FileHandle> {
    let mut listed = Listed::default();
    let (top, none) = (fs.root(), Verifier::default());
    let caller = root();
    let page = fs.read_directory(&caller, &top, 0, none, &mut listed);
    assert!(page.await.unwrap().eof);
    listed.handles
}

#[test]
fn a_listing_reports_the_records_of_all_its_files() {
    run(3, 2, |bed| async move {
        let all = Clients::new(&bed);
        for number in 0..200 {
            create(&all.writer, &format!("file {number}")).await;
        }
        let files = list(&all.reader).await;
        assert_eq!(files.len(), 200);
        let seen = files
            .iter()
            .map(|file| Box::pin(all.reader.attributes(file)));
        for (seen, file) in gannet_runtime::all(seen).await.iter().zip(&files) {
            assert_eq!(*seen, all.asker.attributes(file).await);
        }
        let counters = all.reader.attribute_counters();
        assert_eq!((counters.hits, counters.stale), (200, 0));
    });
}

#[test]
fn a_lookup_reports_the_record_of_its_file() {
    run(4, 2, |bed| async move {
        let all = Clients::new(&bed);
        create(&all.writer, "file").await;
        // The manager has asked the I/O servers once before.
        let (caller, top) = (root(), all.reader.root());
        for _ in 0..2 {
            let looked = all.reader.lookup(&caller, &top, b"file").await;
            let (file, attributes) = looked.0.unwrap();
            assert_eq!(all.reader.attributes(&file).await, Ok(attributes));
        }
        assert_eq!(all.reader.attributes(&top).await.ok(), {
            all.asker.attributes(&top).await.ok()
        });
        assert_eq!(all.reader.attribute_counters().hits, 3);
    });
}

#[test]
fn a_cached_size_is_asked_for_again_after_its_age() {
    run(6, 2, |bed| async move {
        let all = Clients::new(&bed);
        let (file, top) = (create(&all.writer, "file").await, all.writer.root());
        all.warm(&file).await;
        all.warm(&top).await;
        sleep(&bed.client.runtime(), SIZE_AGE).await;
        let before = all.reader.attribute_counters();
        all.see(&file).await.unwrap();
        all.see(&top).await.unwrap();
        let after = all.reader.attribute_counters();
        assert_eq!(after.stale, before.stale + 1, "the file");
        assert_eq!(after.hits, before.hits + 1, "the directory");
        all.warm(&file).await;
    });
}

#[test]
fn references_end_with_their_manager() {
    run(7, 2, |bed| async move {
        let all = Clients::new(&bed);
        let (file, top) = (create(&all.writer, "file").await, all.writer.root());
        for how in [Crash::Process, Crash::Power] {
            all.warm(&file).await;
            all.warm(&top).await;
            bed.kill_manager(how);
            bed.faults().restart(bed.manager.id());
            bed.start_manager();
            let change = SetAttributes {
                mode: Some(0o640),
                ..SetAttributes::default()
            };
            set(&all.writer, &top, change).await;
            let before = hits(&all.reader);
            assert_eq!(all.see(&top).await.unwrap().mode, 0o640);
            all.see(&file).await.unwrap();
            assert_eq!(hits(&all.reader), before);
            all.warm(&top).await;
            // The manager does not know yet which clients may write.
            sleep(&bed.client.runtime(), Duration::from_secs(130)).await;
            all.reader.attributes(&file).await.unwrap();
        }
    });
}

/// Another manager serves a copy of the metadata, while the first one goes on with its own.
#[test]
fn a_manager_that_was_replaced_is_not_believed() {
    let world = World::new(8);
    let bed = Bed::new(&world, 3);
    let (rival, faults) = (world.add_node("rival"), world.faults());
    let story = async move {
        let all = Clients::new(&bed);
        let top = all.writer.root();
        all.warm(&top).await;
        all.reader.usage(&top).await.unwrap();
        for server in &bed.io_servers {
            faults.partition(bed.manager.id(), server.node.id());
        }
        bed.start_rival(&rival, &bed.copy_metadata(), false);
        let other = bed.mount_of(&bed.client, &rival);
        let change = SetAttributes {
            mode: Some(0o640),
            ..SetAttributes::default()
        };
        set(&other, &top, change).await;
        // The I/O servers report the new term to the reader.
        all.reader.usage(&top).await.unwrap();
        let before = all.reader.attribute_counters();
        let seen = all.reader.attributes(&top).await;
        assert_eq!(seen.err(), Some(Status::Jukebox), "as it would be asked");
        assert_eq!(hits(&all.reader), before.hits);
    };
    world.run(story).unwrap();
}

/// Bytes that an I/O server had not stored before a power failure are lost.
#[test]
fn a_cached_size_ends_with_the_connection_to_its_server() {
    let mut lost = 0;
    for seed in 40..50 {
        let told = Rc::new(Cell::new(0));
        let said = Rc::clone(&told);
        run(seed, 2, |bed| async move {
            let all = Clients::new(&bed);
            let file = create(&all.writer, "file").await;
            write(&all.writer, &file, 0, &noise(100_000, 1))
                .await
                .unwrap();
            // No client commits; the grant ends, and the manager learns the size.
            sleep(&bed.client.runtime(), Duration::from_secs(130)).await;
            all.warm(&file).await;
            for server in [0, 1] {
                bed.kill_io_server(server);
                bed.start_io_server(server);
            }
            // The manager notices the restart meanwhile.
            sleep(&bed.client.runtime(), Duration::from_secs(1)).await;
            said.set(all.see(&file).await.unwrap().size);
        });
        lost += u32::from(told.get() != 100_000);
    }
    assert!(lost > 0, "nothing was lost in any world");
}

/// A provider whose connections never survive an exception.
struct Plain(Rc<dyn Provider>);

impl Provider for Plain {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn domain(&self) -> Rc<dyn Domain> {
        self.0.domain()
    }

    fn shared_receives(&self, options: SharedReceives) -> Option<Rc<dyn SharedReceiveQueue>> {
        self.0.shared_receives(options)
    }

    fn connect(&self, address: SocketAddr, options: ConnectOptions) -> Outgoing {
        let exceptions = false;
        self.0.connect(
            address,
            ConnectOptions {
                exceptions,
                ..options
            },
        )
    }

    fn listen(&self, address: SocketAddr) -> std::io::Result<Box<dyn Listener>> {
        self.0.listen(address)
    }
}

#[test]
fn where_an_exception_ends_the_connection_the_manager_is_asked() {
    run(9, 2, |bed| async move {
        let all = Clients::new(&bed);
        let file = create(&all.writer, "file").await;
        let plain = VolumeFs::new(
            bed.client.runtime(),
            Rc::new(Plain(bed.provider(&bed.client))),
            identity(Role::Client),
            Addresses {
                managers: vec![SocketAddr::new(bed.manager.ip(), 20050)],
                io_servers: Vec::new(),
            },
            Siblings::new(1),
        );
        for _ in 0..3 {
            all.see(&file).await.unwrap();
            assert_eq!(plain.attributes(&file).await, all.see(&file).await);
        }
        assert_eq!(list(&plain).await.len(), 1);
        assert_eq!(plain.attribute_counters(), AttributeCounters::default());
    });
}

/// There are more files than records: the slots reported for the first files have records of others by then.
#[test]
fn the_record_of_another_file_is_not_taken_for_ones_own() {
    const MORE: usize = 200;
    run(31, 1, |bed| async move {
        let all = Clients::new(&bed);
        let (fs, mut files) = (&all.writer, Vec::new());
        let numbers: Vec<usize> = (0..ATTRIBUTE_RECORDS_MAX + MORE).collect();
        for some in numbers.chunks(32) {
            let made = some
                .iter()
                .map(|number| Box::pin(async { create(fs, &number.to_string()).await }));
            files.extend(gannet_runtime::all(made).await);
        }
        let (first, rest) = files.split_at(MORE);
        for file in first {
            all.warm(file).await;
        }
        for some in rest.chunks(32) {
            let seen = some.iter().map(|file| Box::pin(fs.attributes(file)));
            gannet_runtime::all(seen).await;
        }
        let before = all.reader.attribute_counters();
        for file in first {
            all.see(file).await.unwrap();
        }
        let after = all.reader.attribute_counters();
        assert!(after.stale >= before.stale + 100, "{after:?}");
        for file in rest.iter().rev().take(MORE) {
            all.warm(file).await;
        }
    });
}

#[test]
fn reads_that_need_the_size_do_not_ask_for_it() {
    run(32, 2, |bed| async move {
        let all = Clients::new(&bed);
        let file = create(&all.writer, "file").await;
        let bytes = noise(50_000, 1);
        write(&all.writer, &file, 0, &bytes).await.unwrap();
        commit(&all.writer, &file).await;
        rest(&bed).await;
        all.warm(&file).await;
        let before = hits(&all.reader);
        assert!(read(&all.reader, &file, 0, 100_000).await == bytes);
        assert!(hits(&all.reader) > before);
        set(&all.writer, &file, {
            SetAttributes {
                size: Some(10),
                ..SetAttributes::default()
            }
        })
        .await;
        assert!(read(&all.reader, &file, 0, 100_000).await == bytes[..10]);
    });
}
