//! The open files and directories of a mount, by the keys that the kernel sends with each request.

use crate::listing::Listing;
use gannet_vfs::Credentials;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// An open file. Its reads and writes have the credentials of its open, also those that the kernel sends for others.
#[derive(Debug, Clone)]
pub(crate) struct OpenFile {
    pub(crate) number: u64,
    pub(crate) caller: Credentials,
}

/// How an open file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteWay {
    /// Writes are at offsets, through the kernel's cache if the mount has one.
    AtOffsets,
    /// Writes are at the end of the file, which the store decides for all hosts, past the kernel's cache.
    Appends,
}

/// An open directory.
pub(crate) struct OpenDirectory {
    pub(crate) number: u64,
    pub(crate) caller: Credentials,
    /// Held by one request at a time, since requests share the page.
    pub(crate) listing: tokio::sync::Mutex<Listing>,
}

/// The open files and directories. Their keys share one sequence, and none is used twice.
#[derive(Default)]
pub(crate) struct Open {
    last: u64,
    files: HashMap<u64, OpenFile>,
    /// The write way of each file that is open for writing, by key.
    write_ways: HashMap<u64, WriteWay>,
    directories: HashMap<u64, Rc<OpenDirectory>>,
}

impl Open {
    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    pub(crate) fn add_file(&mut self, file: OpenFile) -> u64 {
        let key = self.next();
        self.files.insert(key, file);
        key
    }

    pub(crate) fn add_directory(&mut self, directory: OpenDirectory) -> u64 {
        let key = self.next();
        self.directories.insert(key, Rc::new(directory));
        key
    }

    /// Records how a file that was just opened is written.
    pub(crate) fn note_write_way(&mut self, key: u64, way: Option<WriteWay>) {
        if let Some(way) = way {
            self.write_ways.insert(key, way);
        }
    }

    pub(crate) fn appends(&self, key: u64) -> bool {
        self.write_ways.get(&key) == Some(&WriteWay::Appends)
    }

    /// True if a file is open for writes that the kernel may have cached.
    pub(crate) fn has_cached_writers(&self, number: u64) -> bool {
        self.write_ways.iter().any(|(key, way)| {
            let file = self.files.get(key);
            *way == WriteWay::AtOffsets && file.is_some_and(|file| file.number == number)
        })
    }

    pub(crate) fn file(&self, key: u64) -> Option<&OpenFile> {
        self.files.get(&key)
    }

    pub(crate) fn directory(&self, key: u64) -> Option<Rc<OpenDirectory>> {
        self.directories.get(&key).map(Rc::clone)
    }

    pub(crate) fn remove_file(&mut self, key: u64) -> Option<OpenFile> {
        self.write_ways.remove(&key);
        self.files.remove(&key)
    }

    pub(crate) fn remove_directory(&mut self, key: u64) {
        self.directories.remove(&key);
    }
}

/// The open files and directories of a mount, which all its requests share.
pub(crate) type OpenTable = RefCell<Open>;
