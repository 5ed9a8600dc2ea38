//! Programs on two mounts of a volume: they make, move and remove files, and contend for a lock.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Programs of each mount that work on names.
const WRITERS: usize = 3;
/// Files of a program that stay.
const KEPT: u64 = 50;

/// The programs, which run until they are told to end.
pub(super) struct Load {
    ends: Arc<AtomicBool>,
    writers: Vec<JoinHandle<Outcome>>,
    lockers: Vec<JoinHandle<Locked>>,
}

/// The work of the programs.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// Changes that were acknowledged.
    changes: u64,
    /// How often a lock was granted.
    grants: u64,
    pub(super) longest_wait: Duration,
    longest_lock_wait: Duration,
    /// The files that must be there, by their directories below the mount.
    files: Vec<(String, BTreeSet<String>)>,
}

/// The work of a program that contends for a lock.
struct Locked {
    grants: u64,
    longest_wait: Duration,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Outcome {
            changes,
            grants,
            longest_wait,
            longest_lock_wait,
            ..
        } = self;
        write!(
            f,
            "{changes} changes, longest wait {longest_wait:?}; {grants} grants of a lock, longest wait {longest_lock_wait:?}"
        )
    }
}

impl Outcome {
    pub(super) fn add(&mut self, other: &Outcome) {
        self.changes += other.changes;
        self.grants += other.grants;
        self.longest_wait = self.longest_wait.max(other.longest_wait);
        self.longest_lock_wait = self.longest_lock_wait.max(other.longest_lock_wait);
        self.files.extend(other.files.iter().cloned());
    }

    /// The files are there with their contents, and no others.
    pub(super) fn must_be_in(&self, mount: &Path) {
        for (directory, files) in &self.files {
            let entries = fs::read_dir(mount.join(directory)).unwrap();
            let name = |entry: std::io::Result<fs::DirEntry>| {
                entry.unwrap().file_name().into_string().unwrap()
            };
            let found: BTreeSet<String> = entries.map(name).collect();
            assert_eq!(&found, files, "{directory}");
            for name in files {
                let content = fs::read_to_string(mount.join(directory).join(name)).unwrap();
                assert_eq!(&content, name, "{directory}");
            }
        }
    }
}

impl Load {
    /// Starts programs in a new directory `name` below each mount. `here` is a path of this host that no program uses.
    pub(super) fn start(mounts: &[PathBuf], here: &Path, name: &str) -> Load {
        let ends = Arc::new(AtomicBool::new(false));
        fs::create_dir(mounts[0].join(name)).unwrap();
        let lock = format!("{name}/lock");
        fs::write(mounts[0].join(&lock), "").unwrap();
        let (mut writers, mut lockers) = (Vec::new(), Vec::new());
        for (number, mount) in mounts.iter().enumerate() {
            for writer in 0..WRITERS {
                let directory = format!("{name}/{number}-{writer}");
                let (mount, ends) = (mount.clone(), Arc::clone(&ends));
                writers.push(std::thread::spawn(move || write(&mount, directory, &ends)));
            }
            let (lock, here, ends) = (mount.join(&lock), here.to_owned(), Arc::clone(&ends));
            lockers.push(std::thread::spawn(move || contend(&lock, &here, &ends)));
        }
        Load {
            ends,
            writers,
            lockers,
        }
    }

    /// Ends the programs, none of which may have seen an error.
    pub(super) fn finish(self) -> Outcome {
        self.ends.store(true, Ordering::Relaxed);
        let mut all = Outcome::default();
        for writer in self.writers {
            all.add(&writer.join().unwrap());
        }
        for locker in self.lockers {
            let Locked {
                grants,
                longest_wait,
            } = locker.join().unwrap();
            all.grants += grants;
            all.longest_lock_wait = all.longest_lock_wait.max(longest_wait);
        }
        all
    }
}

/// Makes files under one name, moves them to another, and removes old ones. Each step is one change, which must be done
/// exactly once: a second CREATE, RENAME or REMOVE of the same would be an error.
fn write(mount: &Path, directory: String, ends: &AtomicBool) -> Outcome {
    let mut outcome = Outcome::default();
    let folder = mount.join(&directory);
    let mut step = |what: &str, work: &mut dyn FnMut() -> std::io::Result<()>| {
        let began = Instant::now();
        if let Err(error) = work() {
            panic!("{what} in {}: {error}", folder.display());
        }
        outcome.changes += 1;
        outcome.longest_wait = outcome.longest_wait.max(began.elapsed());
    };
    step("mkdir", &mut || fs::create_dir(&folder));
    let mut files = BTreeSet::new();
    let mut number = 0;
    while !ends.load(Ordering::Relaxed) {
        let (made, moved) = (format!("made-{number}"), format!("moved-{number}"));
        step("create", &mut || {
            let mut options = OpenOptions::new();
            let mut file = options
                .write(true)
                .create_new(true)
                .open(folder.join(&made))?;
            file.write_all(moved.as_bytes())?;
            file.sync_all()
        });
        step("rename", &mut || {
            fs::rename(folder.join(&made), folder.join(&moved))
        });
        files.insert(moved);
        if number >= KEPT {
            let old = format!("moved-{}", number - KEPT);
            step("remove", &mut || fs::remove_file(folder.join(&old)));
            files.remove(&old);
        }
        number += 1;
    }
    outcome.files.push((directory, files));
    outcome
}

/// Takes and leaves a lock. While it is held, a file that exists on this host alone would show a second holder.
fn contend(lock: &Path, here: &Path, ends: &AtomicBool) -> Locked {
    let mut locked = Locked {
        grants: 0,
        longest_wait: Duration::ZERO,
    };
    let holder = here.with_extension("holder");
    while !ends.load(Ordering::Relaxed) {
        let began = Instant::now();
        let file = File::open(lock).unwrap();
        file.lock().unwrap();
        locked.longest_wait = locked.longest_wait.max(began.elapsed());
        locked.grants += 1;
        match File::create_new(&holder) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                panic!("a lock was granted twice")
            }
            Err(error) => panic!("{error}"),
        }
        std::thread::sleep(Duration::from_millis(2));
        fs::remove_file(&holder).unwrap();
        file.unlock().unwrap();
    }
    locked
}
