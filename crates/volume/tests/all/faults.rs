//! Clients of a volume against a model of it, while servers crash, restart and lose connections, for many seeds.
#![allow(clippy::unwrap_used)]

use crate::common;

use common::{Bed, VOLUME_UNIT, noise, root};
use gannet_runtime::{Buffer, timeout};
use gannet_sim::store::DiskProfile;
use gannet_sim::{Crash, Faults, Random, World};
use gannet_vfs::{CreateMode, EntryName, FileHandle, SetAttributes, Stability, Status, Vfs};
use gannet_volume::client::VolumeFs;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
const FILE_MAX: u64 = 300_000;
const STEPS: usize = 120;
const SERVERS: usize = 3;

/// The content of the files in the root directory.
type Model = BTreeMap<&'static str, Vec<u8>>;

struct Run {
    bed: Rc<Bed>,
    random: Random,
    clients: Vec<VolumeFs>,
    model: Model,
}

impl Run {
    fn client(&self) -> &VolumeFs {
        &self.clients[self.random.below(self.clients.len() as u64) as usize]
    }

    fn name(&self) -> &'static str {
        NAMES[self.random.below(NAMES.len() as u64) as usize]
    }

    /// The file of a name as some client finds it; the result must agree with the model.
    async fn find(&self, name: &str) -> Option<FileHandle> {
        loop {
            let fs = self.client();
            match fs.lookup(&root(), &fs.root(), name.as_bytes()).await.0 {
                Ok((handle, attributes)) => {
                    let expected = self.model.get(name).map(Vec::len);
                    assert_eq!(
                        Some(attributes.size as usize),
                        expected,
                        "the size of {name}"
                    );
                    return Some(handle);
                }
                Err(Status::Noent) => {
                    assert!(!self.model.contains_key(name), "{name} is gone");
                    return None;
                }
                Err(error) => self.try_later(error).await,
            }
        }
    }

    /// Servers are down at times, so the test retries; any other error fails it.
    async fn try_later(&self, error: Status) {
        assert!(matches!(error, Status::Jukebox), "{error}");
        gannet_runtime::sleep(&self.bed.client.runtime(), Duration::from_millis(300)).await;
    }

    async fn step(&mut self) {
        let name = self.name();
        match self.random.below(11) {
            10 => self.pause().await,
            0 => self.create(name).await,
            1..=4 => self.write(name).await,
            5 => self.truncate(name).await,
            6 => self.remove(name).await,
            7 => {
                let to = self.name();
                self.rename(name, to).await;
            }
            _ => self.check(name).await,
        }
    }

    /// Waits for a random time, in some cases long enough for grants to end.
    async fn pause(&self) {
        let pause = Duration::from_millis(self.random.below(80_000));
        gannet_runtime::sleep(&self.bed.client.runtime(), pause).await;
    }

    async fn create(&mut self, name: &'static str) {
        let mut perhaps = false;
        loop {
            let fs = self.client();
            let mode = CreateMode::Guarded(SetAttributes::default());
            let made = fs.create(&root(), &fs.root(), name.as_bytes(), &mode).await;
            match made.result {
                Ok(_) => {
                    assert!(!self.model.contains_key(name));
                    self.model.insert(name, Vec::new());
                    return;
                }
                Err(Status::Exist) => {
                    assert!(
                        perhaps || self.model.contains_key(name),
                        "{name} was not there"
                    );
                    self.model.entry(name).or_default();
                    return;
                }
                Err(error) => self.try_later(error).await,
            }
            perhaps = true;
        }
    }

    async fn write(&mut self, name: &'static str) {
        let Some(file) = self.find(name).await else {
            return;
        };
        let offset = self.random.below(FILE_MAX);
        let len = match self.random.below(3) {
            0 => self.random.between(1, 100),
            1 => self.random.between(1, 3 * u64::from(VOLUME_UNIT)),
            _ => self.random.between(1, 100_000),
        };
        let bytes = noise(len as usize, self.random.below(256) as u8);
        loop {
            let (data, range) = (Buffer::from_vec(bytes.clone()), 0..bytes.len());
            let stability = Stability::FileSync;
            let written = self
                .client()
                .write(&root(), &file, offset, data, range, stability)
                .await;
            match written.result {
                Ok(done) => {
                    assert_eq!(u64::from(done.count), len);
                    break;
                }
                Err(error) => self.try_later(error).await,
            }
        }
        let content = self.model.get_mut(name).unwrap();
        let end = (offset + len) as usize;
        if content.len() < end {
            content.resize(end, 0);
        }
        content[offset as usize..end].copy_from_slice(&bytes);
    }

    async fn truncate(&mut self, name: &'static str) {
        let Some(file) = self.find(name).await else {
            return;
        };
        let size = self.random.below(FILE_MAX);
        let change = SetAttributes {
            size: Some(size),
            ..SetAttributes::default()
        };
        loop {
            let set = self
                .client()
                .set_attributes(&root(), &file, &change, None)
                .await;
            match set.result {
                Ok(()) => break,
                Err(error) => self.try_later(error).await,
            }
        }
        self.model.get_mut(name).unwrap().resize(size as usize, 0);
    }

    async fn remove(&mut self, name: &'static str) {
        let mut perhaps = false;
        loop {
            let fs = self.client();
            match fs.remove(&root(), &fs.root(), name.as_bytes()).await.result {
                Ok(()) => assert!(self.model.contains_key(name), "{name} was not there"),
                Err(Status::Noent) => {
                    assert!(
                        perhaps || !self.model.contains_key(name),
                        "{name} was there"
                    );
                }
                Err(error) => {
                    self.try_later(error).await;
                    perhaps = true;
                    continue;
                }
            }
            break;
        }
        self.model.remove(name);
    }

    async fn rename(&mut self, from: &'static str, to: &'static str) {
        let mut perhaps = false;
        loop {
            let fs = self.client();
            let directory = fs.root();
            let source = EntryName::new(&directory, from.as_bytes());
            let target = EntryName::new(&directory, to.as_bytes());
            match fs.rename(&root(), source, target).await.0 {
                Ok(()) => assert!(self.model.contains_key(from), "{from} was not there"),
                Err(Status::Noent) => {
                    assert!(
                        perhaps || !self.model.contains_key(from),
                        "{from} was there"
                    );
                }
                Err(error) => {
                    self.try_later(error).await;
                    perhaps = true;
                    continue;
                }
            }
            break;
        }
        if let Some(content) = self.model.remove(from) {
            self.model.insert(to, content);
        }
    }

    /// Reads all of a file by some client, and compares it with the model.
    async fn check(&self, name: &str) {
        let Some(file) = self.find(name).await else {
            return;
        };
        let expected = &self.model[name];
        loop {
            let len = expected.len() as u32 + 10;
            match self.client().read(&root(), &file, 0, len).await {
                Ok(reply) => {
                    let mut bytes = vec![0; reply.count as usize];
                    reply.file.try_read_at(0, &mut bytes).unwrap();
                    let wrong = bytes
                        .iter()
                        .zip(expected)
                        .position(|(is, should)| is != should);
                    assert_eq!((bytes.len(), wrong), (expected.len(), None), "{name}");
                    assert!(reply.eof);
                    return;
                }
                Err(error) => self.try_later(error).await,
            }
        }
    }
}

/// Injects faults until the test ends it.
async fn harm(bed: Rc<Bed>, faults: Faults, random: Random) {
    // Some worlds are quiet enough for the manager to learn the lengths of files.
    let calm = [1, 20, 200][random.below(3) as usize];
    loop {
        faults
            .sleep(Duration::from_micros(random.between(500, 400_000) * calm))
            .await;
        match random.below(4) {
            0 => {
                bed.kill_manager(Crash::Process);
                faults
                    .sleep(Duration::from_millis(random.below(3_000)))
                    .await;
                bed.start_manager();
            }
            1 => {
                let number = random.below(SERVERS as u64) as usize;
                bed.kill_io_server(number);
                faults
                    .sleep(Duration::from_millis(random.below(3_000)))
                    .await;
                bed.start_io_server(number);
            }
            _ => {
                faults.reset_a_connection(bed.client.id());
            }
        }
    }
}

fn run(seed: u64) {
    let world = World::new(seed);
    let bed = Bed::new(&world, SERVERS);
    for server in &bed.io_servers {
        server.disk.set_profile(DiskProfile {
            slow_per_mille: 50,
            delay_max_ns: 20_000_000,
            short_writes_per_mille: 20,
            evictions_per_mille: 50,
            ..DiskProfile::default()
        });
    }
    let nemesis = harm(Rc::clone(&bed), world.faults(), world.random("harm"));
    let mut story = Run {
        clients: (0..3).map(|_| bed.mount()).collect(),
        random: world.random("story"),
        model: Model::new(),
        bed,
    };
    let done = world.run(async move {
        let story = async {
            for _ in 0..STEPS {
                story.step().await;
            }
            for name in NAMES {
                story.check(name).await;
            }
        };
        common::until(story, nemesis).await;
    });
    done.unwrap_or_else(|stopped| panic!("{stopped}"));
}

#[test]
fn nothing_is_lost_or_mixed_whoever_dies() {
    let first = std::env::var("VOLUME_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let count = std::env::var("VOLUME_SEEDS")
        .ok()
        .and_then(|count| count.parse().ok());
    let first: u64 = first.unwrap_or(0);
    for seed in first..first + count.unwrap_or(20) {
        run(seed);
    }
}

/// A disk takes half of each write, as a full one does. The server must write the rest too.
#[test]
fn a_disk_that_takes_a_part_is_given_the_rest() {
    let world = World::new(7);
    let bed = Bed::new(&world, 2);
    let done = world.run(async move {
        let (runtime, fs, caller) = (bed.client.runtime(), bed.mount(), root());
        let how = CreateMode::Guarded(SetAttributes::default());
        let made = fs.create(&caller, &fs.root(), b"file", &how).await;
        let file = made.result.unwrap().handle;
        for server in &bed.io_servers {
            server.disk.set_profile(DiskProfile {
                short_writes_per_mille: 1000,
                ..DiskProfile::default()
            });
        }
        for (offset, len) in [(0, 100), (100, 50_000), (1 << 20, 1 << 20)] {
            let bytes = noise(len, 3);
            let buffer = Buffer::from_vec(bytes.clone());
            let writing = fs.write(&caller, &file, offset, buffer, 0..len, Stability::Unstable);
            let written = timeout(&runtime, Duration::from_secs(1), writing).await;
            written
                .expect("it is tried again and again")
                .result
                .unwrap();
            let reply = fs.read(&caller, &file, offset, len as u32).await.unwrap();
            let mut there = vec![0; len];
            reply.file.try_read_at(offset, &mut there).unwrap();
            assert!(there == bytes);
        }
    });
    done.unwrap();
}

/// An I/O server loses power while it writes the record of its first or a later term, in pieces. A record that is not
/// durable never overwrites a durable one. The term of a torn first record was never accepted.
#[test]
fn an_io_server_knows_its_manager_after_every_loss_of_power() {
    for seed in 0..200 {
        let world = World::new(seed);
        let (bed, faults) = (Bed::new(&world, 1), world.faults());
        let disk = DiskProfile {
            short_writes_per_mille: 500,
            slow_per_mille: 1000,
            delay_max_ns: 1_000_000,
            ..DiskProfile::default()
        };
        bed.io_servers[0].disk.set_profile(disk);
        let done = world.run(async move {
            let (runtime, fs, caller) = (bed.client.runtime(), bed.mount(), root());
            for round in 0..4 {
                let pause = Duration::from_micros(seed * 20 + 1500 * 1000 * (round % 2));
                gannet_runtime::sleep(&runtime, pause).await;
                bed.volume.kill_io_server(0, Crash::Power);
                faults.restart(bed.io_servers[0].node.id());
                bed.start_io_server(0);
                let (top, how) = (fs.root(), CreateMode::Unchecked(SetAttributes::default()));
                let made = fs.create(&caller, &top, b"file", &how);
                made.await.result.expect("the I/O server obeys its manager");
            }
        });
        done.unwrap_or_else(|stopped| panic!("{stopped}"));
    }
}
