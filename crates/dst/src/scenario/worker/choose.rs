//! The choice of a worker's next operation.

use super::Worker;
use crate::model::{Create, Key, Operation, TOP};
use gannet_vfs::{FileKind, Stability};

const NAMES: [&[u8]; 7] = [b"a", b"b", b"c", b"d", b"e", b"with space", &[b'n'; 200]];
/// The bound of a file's length, in bytes.
const FILE_LEN_MAX: u64 = 300_000;

impl Worker {
    pub(super) fn choose(&mut self) -> Operation {
        let directory = self.pick(FileKind::Directory).unwrap_or(TOP);
        let file = self.pick(FileKind::Regular);
        let name = self.name();
        match (self.random.below(100), file) {
            (0..=3, _) => Operation::List { directory },
            (4..=9, _) => Operation::Lookup { directory, name },
            (10..=12, _) => Operation::Mkdir {
                directory,
                name,
                key: self.take_key(),
            },
            (13..=14, _) => {
                let target = self
                    .random
                    .bytes(20)
                    .iter()
                    .map(|byte| b'a' + byte % 26)
                    .collect();
                Operation::Symlink {
                    directory,
                    name,
                    target,
                    key: self.take_key(),
                }
            }
            (15..=20, _) => Operation::Remove { directory, name },
            (21..=23, _) => Operation::Rmdir { directory, name },
            (24..=30, _) => {
                let to = self.pick(FileKind::Directory).unwrap_or(TOP);
                let new = self.name();
                Operation::Rename {
                    from: directory,
                    old: name,
                    to,
                    new,
                }
            }
            (31..=34, _) => match self.pick(FileKind::Symlink) {
                Some(link) => Operation::Readlink { link },
                None => Operation::Getattr { object: directory },
            },
            (35..=46, _) | (_, None) => self.create(directory, name),
            (47..=49, Some(file)) => Operation::Link {
                file,
                directory,
                name,
            },
            (50..=53, Some(file)) => self.truncate(file),
            (54..=56, Some(object)) => {
                let mode = 0o400 | u32::try_from(self.random.below(0o1000)).unwrap_or(0);
                Operation::Chmod { object, mode }
            }
            (57..=60, Some(object)) => Operation::Getattr { object },
            (61..=64, Some(file)) => Operation::Commit { file },
            (65..=84, Some(file)) => self.write(file),
            (_, Some(file)) => self.read(file),
        }
    }

    /// An object of a kind that this worker has a handle of; now and then a removed one.
    fn pick(&self, kind: FileKind) -> Option<Key> {
        if kind == FileKind::Regular && self.random.chance(20) {
            let keys: Vec<Key> = self
                .handles
                .keys()
                .copied()
                .filter(|key| *key != TOP)
                .collect();
            return keys.get(self.random.index(keys.len())).copied();
        }
        let objects = self.oracle.state().objects();
        let fitting = objects.filter(|(_, of)| *of == kind).map(|(key, _)| key);
        let keys: Vec<Key> = fitting
            .filter(|key| self.handles.contains_key(key))
            .collect();
        keys.get(self.random.index(keys.len())).copied()
    }

    fn name(&self) -> Vec<u8> {
        NAMES[self.random.index(NAMES.len())].to_vec()
    }

    fn take_key(&mut self) -> Key {
        let key = self.next_key;
        self.next_key += 1;
        key
    }

    fn create(&mut self, directory: Key, name: Vec<u8>) -> Operation {
        let hows = [Create::Unchecked, Create::Guarded, Create::Exclusive];
        let how = hows[self.random.index(hows.len())];
        Operation::Create {
            directory,
            name,
            how,
            key: self.take_key(),
        }
    }

    fn truncate(&self, file: Key) -> Operation {
        let bound = if self.random.chance(500) {
            FILE_LEN_MAX
        } else {
            10
        };
        Operation::Truncate {
            file,
            len: self.random.below(bound),
        }
    }

    fn write(&self, file: Key) -> Operation {
        let len = match self.random.below(10) {
            0..=4 => self.random.below(600),
            5..=6 => 4096,
            7..=8 => self.random.below(40_000),
            _ => self.random.below(200_000),
        };
        let stability = match self.random.below(10) {
            0..=6 => Stability::Unstable,
            7 => Stability::DataSync,
            _ => Stability::FileSync,
        };
        Operation::Write {
            file,
            offset: self.random.below(FILE_LEN_MAX - len),
            bytes: self.random.bytes(usize::try_from(len).unwrap_or(0)),
            stability,
        }
    }

    fn read(&self, file: Key) -> Operation {
        let len = if self.random.chance(500) {
            8192
        } else {
            300_000
        };
        Operation::Read {
            file,
            offset: self.random.below(FILE_LEN_MAX),
            len: u32::try_from(self.random.below(len)).unwrap_or(0),
        }
    }
}
