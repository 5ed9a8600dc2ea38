//! Errors of a program that uses files.

use gannet_vfs::Status;
use thiserror::Error;

/// Why an operation failed.
#[derive(Debug, Error)]
pub enum Error {
    /// The file system refused it.
    #[error("{0}")]
    Status(Status),
    /// The file system failed with a status, and gives a cause: see [`gannet_vfs::Vfs::cause`].
    #[error("{cause}")]
    Failed {
        /// The status of the reply.
        status: Status,
        /// A text for people, such as a lost connection, or the server that does not answer.
        cause: String,
    },
    /// A reply that contradicts itself. Further replies of this file system may be wrong too.
    #[error("the server's reply makes no sense: {0}")]
    Malformed(&'static str),
    /// The server lost unstable data after each of [`crate::limits::RESENDS_MAX`] resends.
    #[error("the server keeps losing what was written")]
    DataLost,
    /// More symbolic links on the way than [`crate::limits::SYMLINKS_MAX`].
    #[error("too many levels of symbolic links")]
    SymlinkLoop,
    /// A path that cannot be walked: too many components, or a NUL in it.
    #[error("path cannot be used: {0}")]
    Path(&'static str),
    /// A listing of a directory with more bytes than [`crate::limits::LISTING_BYTES_MAX`].
    #[error("directory too large to list")]
    DirectoryTooLarge,
}

impl Error {
    /// The status of the file system's reply; `None` for errors that are found here.
    pub fn status(&self) -> Option<Status> {
        match self {
            Error::Status(status) | Error::Failed { status, .. } => Some(*status),
            _ => None,
        }
    }
}
