//! Files that were removed while open. A store deletes a file without names, so such a file gets a hidden name until
//! its last close.

use gannet_vfs::{Credentials, FileHandle};

/// The hidden name of a file, from its removal to its last close.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hidden {
    pub(crate) file: FileHandle,
    pub(crate) directory: FileHandle,
    pub(crate) name: Vec<u8>,
    /// The credentials of the removal, used again when the hidden name is removed.
    pub(crate) caller: Credentials,
}

/// A name that no other file has, from 64 random bits.
pub(crate) fn hidden_name(random: u64) -> Vec<u8> {
    format!(".gannet-{random:016x}").into_bytes()
}
