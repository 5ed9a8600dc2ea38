//! Errors.

#[cfg(feature = "volumes")]
use crate::KeyError;
use crate::url::UrlError;
use crate::worker::Gone;
use gannet_vfs::Status;
use std::io;
use thiserror::Error;

/// The reason why there is no connection.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The URL is not valid.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// The host's address cannot be found.
    #[error("cannot find the host {host}: {why}")]
    Host {
        /// The host in the URL.
        host: String,
        /// The system's reason.
        why: io::Error,
    },
    /// The name service does not answer.
    #[error("cannot find the host {0}: the name service does not answer")]
    NameService(String),
    /// No server replies at the port, or it is not an NFS server.
    #[error("cannot connect: {0}")]
    Unanswered(gannet_nfs::client::Error),
    /// The server does not let us mount.
    #[error("cannot mount: {0}")]
    Mount(gannet_nfs::client::Error),
    /// The server replies, and no export holds the URL's path. The field lists its exports.
    #[error("no export contains this path")]
    NoExport(Vec<Vec<u8>>),
    /// A `gannet://` URL needs the key of its volume.
    #[error("the volume's key is missing")]
    NoKey,
    /// The key of a volume cannot be used.
    #[cfg(feature = "volumes")]
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The manager of a volume cannot be reached, or does not know the key.
    #[cfg(feature = "volumes")]
    #[error("cannot use the volume: {0}")]
    Volume(gannet_volume::link::LinkError),
    /// This build has no volumes (feature `volumes`).
    #[error("gannet:// is not supported by this build")]
    NoVolumes,
    /// No RDMA device reaches the server, or it cannot be used.
    #[error("cannot use an RDMA device: {0}")]
    Device(gannet_verbs::VerbsError),
    /// The thread that serves the connection cannot be started.
    #[error("cannot start: {0}")]
    Start(io::Error),
}

/// The reason why an operation on files failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The server replied with this status, or the client found it.
    #[error("{0}")]
    Status(Status),
    /// The file system gave no reply, or one that is not valid.
    #[error("{0}")]
    Files(gannet_client::Error),
    /// The thread that serves the connection has ended.
    #[error("the connection's thread has ended")]
    Ended,
    /// Memory cannot be registered: it may not be locked, or the device has no room.
    #[error("cannot register memory: {0}")]
    Register(gannet_fabric::RegisterError),
    /// Memory to be registered is longer than one transfer.
    #[error("memory of {len} bytes is longer than one transfer of {max}: register it in pieces")]
    MemoryTooLong {
        /// Its bytes.
        len: usize,
        /// The bytes of the longest transfer.
        max: usize,
    },
    /// Registered memory did not come back from an operation that failed: the operation is still under way, or the
    /// adapter has kept it.
    #[error("the memory is not back from an operation that failed, or the adapter has kept it")]
    MemoryAway,
    /// The memory is registered with another client than that of the file.
    #[error("the memory belongs to another client: register it with the client of the file")]
    MemoryOfAnother,
}

impl From<Gone> for Error {
    fn from(_: Gone) -> Error {
        Error::Ended
    }
}

impl From<gannet_client::Error> for Error {
    fn from(error: gannet_client::Error) -> Error {
        match error {
            gannet_client::Error::Status(status) => Error::Status(status),
            other => Error::Files(other),
        }
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> io::Error {
        let kind = match &error {
            Error::Status(Status::Noent) => io::ErrorKind::NotFound,
            Error::Status(Status::Exist) => io::ErrorKind::AlreadyExists,
            Error::Status(Status::Acces | Status::Perm) => io::ErrorKind::PermissionDenied,
            Error::Status(Status::Notempty) => io::ErrorKind::DirectoryNotEmpty,
            Error::Status(Status::Nospc) => io::ErrorKind::StorageFull,
            Error::Ended => io::ErrorKind::BrokenPipe,
            _ => io::ErrorKind::Other,
        };
        io::Error::new(kind, error)
    }
}
