//! The I/O servers of files whose creators or directories name them.
#![allow(clippy::unwrap_used)]

use crate::common;

use common::{Bed, noise, root};
use gannet_runtime::Buffer;
use gannet_sim::{Crash, World};
use gannet_vfs::{
    CreateMode, DirectoryEntry, Entries, EntryName, FileHandle, SetAttributes, Stability, Status,
    Vfs,
};
use gannet_volume::client::{Striping, VolumeFs};
use gannet_wire::volume::{Chosen, Stripes};
use std::rc::Rc;

fn run<F: Future<Output = ()> + 'static>(servers: usize, story: impl FnOnce(Rc<Bed>) -> F) {
    let world = World::new(servers as u64);
    let bed = Bed::new(&world, servers);
    world.run(story(bed)).unwrap();
}

fn listed(servers: &[u32]) -> Stripes {
    Stripes {
        unit: 8192,
        on: Chosen::Listed(servers.to_vec()),
        copies: None,
    }
}

async fn make(fs: &VolumeFs, directory: &FileHandle, name: &str) -> FileHandle {
    let mode = CreateMode::Guarded(SetAttributes::default());
    let made = fs.create(&root(), directory, name.as_bytes(), &mode).await;
    made.result.unwrap().handle
}

async fn make_directory(fs: &VolumeFs, inside: &FileHandle, name: &str) -> FileHandle {
    let plain = SetAttributes::default();
    let made = fs
        .make_directory(&root(), inside, name.as_bytes(), &plain)
        .await;
    made.result.unwrap().handle
}

async fn servers_of(fs: &VolumeFs, file: &FileHandle) -> Vec<u32> {
    match fs.striping(&root(), file).await.unwrap() {
        Striping::File(layout) if layout.unit == 8192 => {
            fs.servers_of(&layout).await.unwrap().unwrap()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_file_lies_on_the_servers_that_were_named_and_on_no_other() {
    run(4, |bed| async move {
        let fs = bed.mount();
        let (plain, at) = (SetAttributes::default(), fs.root());
        let made = fs
            .create_striped(&root(), &at, b"file", &plain, listed(&[3, 0]))
            .await;
        let file = made.unwrap();
        assert_eq!(servers_of(&fs, &file).await, [3, 0]);
        let bytes = noise(50_000, 7);
        let (buffer, all) = (Buffer::from_vec(bytes.clone()), 0..bytes.len());
        let caller = root();
        let written = fs.write(&caller, &file, 0, buffer, all, Stability::FileSync);
        written.await.result.unwrap();
        let reply = fs.read(&root(), &file, 0, 60_000).await.unwrap();
        let mut read = vec![0; reply.count as usize];
        reply.file.try_read_at(0, &mut read).unwrap();
        assert!(read == bytes);
        let objects: Vec<usize> = (bed.io_servers.iter())
            .map(|it| it.disk.files_in_folders())
            .collect();
        assert_eq!(objects, [1, 0, 0, 1]);
    });
}

#[test]
fn a_directory_hands_its_servers_down_and_keeps_them_over_a_restart() {
    run(4, |bed| async move {
        let fs = bed.mount();
        let at = make_directory(&fs, &fs.root(), "d").await;
        let chosen = Some(listed(&[2, 0, 3]));
        fs.set_striping(&root(), &at, chosen.clone()).await.unwrap();
        bed.kill_manager(Crash::Process);
        bed.start_manager();
        let below = make_directory(&fs, &at, "below").await;
        let striping = fs.striping(&root(), &below).await.unwrap();
        assert_eq!(striping, Striping::Directory(chosen));
        for (inside, name) in [(&at, "a"), (&at, "b"), (&below, "c")] {
            let file = make(&fs, inside, name).await;
            assert_eq!(servers_of(&fs, &file).await, [2, 0, 3], "{name}");
        }
    });
}

#[test]
fn files_that_are_copied_one_by_one_go_round_over_the_servers() {
    run(3, |bed| async move {
        let fs = bed.mount();
        let mut counts = [0; 3];
        for number in 0..12 {
            // Three changes for each file, as `gannet cp` makes them.
            let part = format!("part-{number}");
            let file = make(&fs, &fs.root(), &part).await;
            let mode = SetAttributes {
                mode: Some(0o600),
                ..SetAttributes::default()
            };
            let set = fs.set_attributes(&root(), &file, &mode, None).await;
            set.result.unwrap();
            let (top, name) = (fs.root(), format!("file-{number}"));
            let from = EntryName::new(&top, part.as_bytes());
            let to = EntryName::new(&top, name.as_bytes());
            fs.rename(&root(), from, to).await.0.unwrap();
            let Striping::File(layout) = fs.striping(&root(), &file).await.unwrap() else {
                panic!("a file has a layout");
            };
            let servers = fs.servers_of(&layout).await.unwrap().unwrap();
            counts[servers[0] as usize] += 1;
        }
        assert_eq!(counts, [4; 3]);
    });
}

#[test]
fn servers_that_cannot_be_are_refused() {
    run(3, |bed| async move {
        let fs = bed.mount();
        let at = fs.root();
        for servers in [&[3][..], &[0, 1, 0], &[0, 1, 2, 0], &[]] {
            let set = fs.set_striping(&root(), &at, Some(listed(servers))).await;
            assert_eq!(set, Err(Status::Inval), "{servers:?}");
            let plain = SetAttributes::default();
            let made = fs
                .create_striped(&root(), &at, b"file", &plain, listed(servers))
                .await;
            assert_eq!(made.unwrap_err(), Status::Inval, "{servers:?}");
        }
    });
}

/// The number of entries that came with their objects.
struct Count(usize);

impl Entries for Count {
    fn wants_objects(&self) -> bool {
        true
    }

    fn push(&mut self, entry: &DirectoryEntry<'_>) -> bool {
        self.0 += usize::from(entry.object.is_some());
        true
    }
}

#[test]
fn the_longest_list_fits_wherever_it_goes() {
    const ALL: u32 = 256;
    run(ALL as usize, |bed| async move {
        let (fs, caller) = (bed.mount(), root());
        let servers: Vec<u32> = (0..ALL).rev().collect();
        let at = make_directory(&fs, &fs.root(), "d").await;
        let set = fs.set_striping(&caller, &at, Some(listed(&servers)));
        set.await.unwrap();
        let long = "n".repeat(255);
        let file = make(&fs, &at, &long).await;
        assert_eq!(servers_of(&fs, &file).await, servers);
        let (found, _) = fs.lookup(&caller, &at, long.as_bytes()).await;
        assert_eq!(found.unwrap().0, file);
        let (other, plain) = ("m".repeat(255), SetAttributes::default());
        make_directory(&fs, &at, "inner").await;
        let name = other.as_bytes();
        let made = fs.create_striped(&caller, &at, name, &plain, listed(&servers));
        made.await.unwrap();
        let mut seen = Count(0);
        let listing = fs.read_directory(&caller, &at, 0, [0; 8], &mut seen);
        listing.await.unwrap();
        assert!(seen.0 >= 3, "{} entries", seen.0);
    });
}
