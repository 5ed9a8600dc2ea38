//! Files that were removed while open. A store that can keeps them without a name; elsewhere such a file gets a hidden
//! name until its last close.

use gannet_vfs::{Credentials, FileHandle};

/// A file from its removal to its last close.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hidden {
    pub(crate) file: FileHandle,
    /// `None`: the store keeps the file without a name.
    pub(crate) name: Option<HiddenName>,
}

/// The name of a file from its removal to its last close.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HiddenName {
    pub(crate) directory: FileHandle,
    pub(crate) name: Vec<u8>,
    /// The credentials of the removal, used again when the hidden name is removed.
    pub(crate) caller: Credentials,
}

impl Hidden {
    /// Whether its name is in this directory.
    pub(crate) fn is_in(&self, directory: &FileHandle) -> bool {
        let name = self.name.as_ref();
        name.is_some_and(|name| name.directory == *directory)
    }
}

/// A name that no other file has, from 64 random bits.
pub(crate) fn hidden_name(random: u64) -> Vec<u8> {
    format!(".gannet-{random:016x}").into_bytes()
}
