//! What can go wrong for a program that uses files.

use gannet_vfs::Status;
use thiserror::Error;

/// Why an operation failed.
#[derive(Debug, Error)]
pub enum Error {
    /// The file system refused it.
    #[error("{0}")]
    Status(Status),
    /// The file system failed with it, and knows more than the status says: see [`gannet_vfs::Vfs::cause`].
    #[error("{cause}")]
    Failed {
        /// What it was answered with.
        status: Status,
        /// For people: a lost connection, which server is away.
        cause: String,
    },
    /// An answer that contradicts itself; the file system is not to be trusted with more.
    #[error("the server's reply makes no sense: {0}")]
    Malformed(&'static str),
    /// Unstable data was lost again and again, faster than it could be written anew.
    #[error("the server keeps losing what was written")]
    DataLost,
    /// More symbolic links on the way than [`crate::limits::SYMLINKS_MAX`].
    #[error("too many levels of symbolic links")]
    SymlinkLoop,
    /// A path that cannot be walked: too many components, or a NUL in it.
    #[error("path cannot be used: {0}")]
    Path(&'static str),
    /// More names in a directory than [`crate::limits::LISTING_ENTRIES_MAX`].
    #[error("directory too large to list")]
    DirectoryTooLarge,
}

impl Error {
    /// What the file system answered, if that is why.
    pub fn status(&self) -> Option<Status> {
        match self {
            Error::Status(status) | Error::Failed { status, .. } => Some(*status),
            _ => None,
        }
    }
}
