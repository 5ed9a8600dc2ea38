//! What can go wrong for a client.

use gannet_rpc::CallError;
use gannet_vfs::Status;
use thiserror::Error;

/// Why an operation failed, sorted by whose fault it is.
#[derive(Debug, Error)]
pub enum Error {
    /// The server refused it.
    #[error("{0}")]
    Status(Status),
    /// The reply follows the RPC protocol but not NFS's; the server is not to be trusted with more.
    #[error("the server's reply makes no sense: {0}")]
    Malformed(&'static str),
    /// The server lost unstable data again and again, faster than it could be sent anew.
    #[error("the server keeps losing what was written")]
    DataLost,
    /// No results: the connection, the RPC layer, or the caller's credential.
    #[error(transparent)]
    Call(#[from] CallError),
    /// More symbolic links on the way than [`crate::limits::SYMLINKS_MAX`].
    #[error("too many levels of symbolic links")]
    SymlinkLoop,
    /// A path that cannot be walked: too many components, or a NUL in it.
    #[error("path cannot be used: {0}")]
    Path(&'static str),
    /// More names in a directory than [`crate::limits::LISTING_ENTRIES_MAX`].
    #[error("directory too large to list")]
    DirectoryTooLarge,
    /// The caller's own source or destination of data failed.
    #[error("{0}")]
    Local(#[source] std::io::Error),
}

impl Error {
    /// The server's status, if that is what it is.
    pub fn status(&self) -> Option<Status> {
        match self {
            Error::Status(status) => Some(*status),
            _ => None,
        }
    }
}
