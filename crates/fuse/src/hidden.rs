//! Files that were removed while open: a store forgets what has no name, so they get one that nobody asks for.

use gannet_vfs::{Credentials, FileHandle};

/// Where a removed file waits to be closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hidden {
    pub(crate) file: FileHandle,
    pub(crate) directory: FileHandle,
    pub(crate) name: Vec<u8>,
    /// Who removed it.
    pub(crate) caller: Credentials,
}

/// A name that no other file has, from 64 random bits.
pub(crate) fn hidden_name(random: u64) -> Vec<u8> {
    format!(".gannet-{random:016x}").into_bytes()
}
