//! What is open: files and directories, by the numbers the kernel hands back.

use crate::listing::Listing;
use gannet_vfs::Credentials;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// An open file: its reads and writes are done for who opened it, whoever the kernel sends them for.
#[derive(Debug, Clone)]
pub(crate) struct OpenFile {
    pub(crate) number: u64,
    pub(crate) caller: Credentials,
}

/// An open directory.
pub(crate) struct OpenDirectory {
    pub(crate) number: u64,
    pub(crate) caller: Credentials,
    /// One reads at a time: the position is shared.
    pub(crate) listing: tokio::sync::Mutex<Listing>,
}

/// All that is open.
#[derive(Default)]
pub(crate) struct Open {
    last: u64,
    files: HashMap<u64, OpenFile>,
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

    pub(crate) fn file(&self, key: u64) -> Option<&OpenFile> {
        self.files.get(&key)
    }

    pub(crate) fn directory(&self, key: u64) -> Option<Rc<OpenDirectory>> {
        self.directories.get(&key).map(Rc::clone)
    }

    pub(crate) fn remove_file(&mut self, key: u64) -> Option<OpenFile> {
        self.files.remove(&key)
    }

    pub(crate) fn remove_directory(&mut self, key: u64) {
        self.directories.remove(&key);
    }
}

/// Shared by the requests of a mount.
pub(crate) type OpenTable = RefCell<Open>;
