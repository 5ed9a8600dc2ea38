//! The errors of a client.

use gannet_rpc::CallError;
use gannet_vfs::Status;
use thiserror::Error;

/// Why an operation failed, sorted by the party at fault.
#[derive(Debug, Error)]
pub enum Error {
    /// The server refused it.
    #[error("{0}")]
    Status(Status),
    /// The reply follows the RPC protocol but not NFS's; the server is not to be trusted with more.
    #[error("the server's reply makes no sense: {0}")]
    Malformed(&'static str),
    /// No results: the connection, the RPC layer, or the caller's credential.
    #[error(transparent)]
    Call(#[from] CallError),
    /// A path longer than MOUNT can carry.
    #[error("path cannot be used: too long to mount")]
    PathTooLong,
    /// A file handle of more than [`gannet_wire::nfs3::HANDLE_MAX`] bytes, which is of another file system.
    #[error("the file handle is not one of NFSv3")]
    LongHandle,
    /// A time to set that NFSv3 has no word for. The nearest one in its place would go unnoticed.
    #[error("NFSv3 has no times before 1970 or after 2106: give it another, as with touch(1)")]
    NoSuchTime,
}

impl Error {
    /// The server's status; `None` for all other errors.
    pub fn status(&self) -> Option<Status> {
        match self {
            Error::Status(status) => Some(*status),
            _ => None,
        }
    }
}
