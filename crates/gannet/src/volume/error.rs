//! Errors of volumes. Programs add advice for their users.

use super::owner::Owner;
use gannet_localfs::OpenError;
use gannet_meta::namespace::Failure;
use gannet_meta::{OtherFormat, StoreError};
use gannet_volume::host::ClaimFailure;
use gannet_volume::manager::{CopyError, TermError};
use gannet_wire::volume::{UNIT_MAX, UNIT_MIN};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use thiserror::Error;

/// The reason why a volume cannot be made, opened, changed or served.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum VolumeError {
    /// A file or a folder cannot be made, read or changed.
    #[error("cannot {work} {}: {why}", path.display())]
    File {
        /// The work that failed.
        work: FileWork,
        /// The path of the file or folder.
        path: PathBuf,
        /// The system's reason.
        why: io::Error,
    },
    /// A folder that is to become a volume's, or an I/O server's, is not empty.
    #[error("the folder {} is not empty", .0.display())]
    NotEmpty(PathBuf),
    /// A folder that is to become an I/O server's is the volume's, lies in another I/O server's, or holds it.
    #[error("the volume or another of its I/O servers is in {}", .0.display())]
    Nested(PathBuf),
    /// A name or path cannot be written as text: it is not UTF-8, or has control characters in it.
    #[error("{0:?} is not UTF-8, or has control characters in it")]
    Unwritable(String),
    /// A volume with so many I/O servers would have more than [`super::IO_SERVERS_MAX`], or none.
    #[error("a volume has 1 to {max} I/O servers, not {0}", max = super::IO_SERVERS_MAX)]
    IoServersCount(usize),
    /// Files cannot be striped over more I/O servers than there are.
    #[error("files cannot be striped over more I/O servers than there are")]
    StripeWidth,
    /// Two copies of each byte need two I/O servers.
    #[error("two copies need two I/O servers (--io-servers 2, or more)")]
    Copies,
    /// Zones were given for another number of I/O servers.
    #[error("{zones} zones are given for {servers} I/O servers")]
    ZonesCount {
        /// The number of zones.
        zones: usize,
        /// The number of I/O servers that they are for.
        servers: usize,
    },
    /// No I/O server can be the second member of a group.
    #[error(
        "the copies of a byte need I/O servers of two zones (--zones), each in at most 16 groups, or --same-host"
    )]
    Zones,
    /// A stripe unit is too small or too large.
    #[error("the stripe unit must be from {UNIT_MIN} to {UNIT_MAX} bytes")]
    StripeUnit,
    /// The system gives no random bytes.
    #[error("cannot get random bytes: {0}")]
    Random(io::Error),
    /// The engine of the journal is not described as it must be.
    #[error(transparent)]
    Journal(JournalError),
    /// The metadata of a new volume cannot be made.
    #[error("cannot make the metadata {}: {why}", path.display())]
    MakeMetadata {
        /// The path of the metadata.
        path: PathBuf,
        /// The store's reason.
        why: Failure,
    },
    /// The description of a volume, `volume.toml`, cannot be read.
    #[error("{}: {why}", file.display())]
    Unreadable {
        /// The description.
        file: PathBuf,
        /// The system's reason.
        why: io::Error,
    },
    /// The description has a fault.
    #[error("{}: {why}", file.display())]
    Description {
        /// The description.
        file: PathBuf,
        /// The fault.
        why: DescriptionError,
    },
    /// The volume's secret cannot be used.
    #[error("cannot use the secret {}: {why}", file.display())]
    Secret {
        /// The secret's file.
        file: PathBuf,
        /// The fault.
        why: SecretError,
    },
    /// The volume's metadata is not there: its manager runs on another host, or its file was lost.
    #[error("the metadata {} is missing", .0.display())]
    NoMetadata(PathBuf),
    /// Another process has the metadata open.
    #[error("another process serves the volume")]
    ServedElsewhere,
    /// The metadata cannot be used.
    #[error("cannot use the metadata: {0}")]
    Metadata(StoreError),
    /// The groups of I/O servers cannot be read.
    #[error("cannot read the groups of I/O servers: {0}")]
    Groups(Failure),
    /// The number of I/O servers cannot be recorded in the metadata.
    #[error("cannot record the I/O servers: {0}")]
    Note(StoreError),
    /// The description names fewer I/O servers than the volume ever had: files lie on all of them.
    #[error("the volume has had {noted} I/O servers, and {named} are named")]
    FewerIoServers {
        /// The largest number that the volume has had.
        noted: u32,
        /// The number that the description names.
        named: u32,
    },
    /// The volume has no I/O server of this number.
    #[error("the volume has {count} I/O servers, and no number {number}")]
    NoSuchIoServer {
        /// The number.
        number: usize,
        /// The number of I/O servers that the volume has.
        count: usize,
    },
    /// The options mark the disk of an I/O server as lost, and this process does not run that server.
    #[error("cannot mark the disk of I/O server {0} as lost: this process does not run the server")]
    LostElsewhere(usize),
    /// I/O servers are to run without the manager, and its address is not known.
    #[error("the address of the manager is not known")]
    NoManagerAddress,
    /// A volume has at most [`MANAGERS_MAX`](crate::url::MANAGERS_MAX) managers.
    #[error("a volume has at most {max} managers, not {0}", max = crate::url::MANAGERS_MAX)]
    ManagersCount(usize),
    /// The engine of the journal does not answer a command.
    #[error("the engine of its journal does not answer (the log has the reason)")]
    EngineAway,
    /// Managers listen on several ports.
    #[error("managers of the volume have several ports, and it is not said which is this one's")]
    ManagerPorts,
    /// The manager is to take over by force, and another one has the journal.
    #[error("another manager of the volume is active, or waits for a majority of the I/O servers")]
    ForcedBeside,
    /// The manager would stand by for one that has its name, which each takes for its own.
    #[error("the active manager has the name of this one, {0}")]
    ManagerNames(String),
    /// Several managers have no journal in common.
    #[error("several managers need an engine that has their journal")]
    ManagersWithoutEngine,
    /// A manager has no metadata, and no active one gives it a copy.
    #[error("cannot copy the metadata of the active manager: {0}")]
    Copy(CopyError),
    /// A manager whose journal is in an engine shares its process with other servers.
    #[error("a manager whose journal is in an engine needs a process of its own")]
    ManagerNotAlone,
    /// The process may not keep enough files open.
    #[error(transparent)]
    Descriptors(OpenError),
    /// Another process serves the folder of an I/O server.
    #[error("another process serves {}", folder.display())]
    FolderLocked {
        /// The server's number.
        number: usize,
        /// Its folder.
        folder: PathBuf,
    },
    /// The folder of an I/O server cannot be opened.
    #[error("cannot open the folder {} of I/O server {number}: {why}", folder.display())]
    Folder {
        /// The server's number.
        number: usize,
        /// Its folder.
        folder: PathBuf,
        /// The system's reason.
        why: io::Error,
    },
    /// The folder of an I/O server cannot be served.
    #[error("cannot serve the folder of I/O server {number}: {why}")]
    Tree {
        /// The server's number.
        number: usize,
        /// The reason.
        why: OpenError,
    },
    /// A folder is that of another I/O server.
    #[error("the folder {} belongs to {owner}", folder.display())]
    OfAnother {
        /// The folder.
        folder: PathBuf,
        /// The owner of the folder.
        owner: Owner,
    },
    /// An I/O server may not serve its folder.
    #[error("I/O server {number} cannot serve {}: {why}", folder.display())]
    Claim {
        /// The server's number.
        number: usize,
        /// Its folder.
        folder: PathBuf,
        /// The reason.
        why: Box<ClaimFailure<VolumeError>>,
    },
    /// The manager cannot be asked about empty folders.
    #[error("cannot query the manager: {0}")]
    Ask(io::Error),
    /// An address cannot be listened at.
    #[error("cannot listen for {role} at {address}: {why}")]
    Listen {
        /// The server that was to listen.
        role: super::VolumeRole,
        /// The address.
        address: SocketAddr,
        /// The system's reason, or the device's.
        why: crate::server::FabricError,
    },
    /// The servers are to listen on an RDMA device, at all addresses.
    #[error("servers of a volume need the address of their RDMA device: --native ADDRESS:PORT")]
    DeviceAddress,
    /// The RDMA device of a server cannot be used.
    #[error("cannot use the RDMA device: {0}")]
    Device(gannet_verbs::VerbsError),
    /// The servers cannot be started.
    #[error("cannot start: {0}")]
    Start(io::Error),
    /// The manager cannot use the metadata, or may not serve it.
    #[error("{0}")]
    Manager(ManagerError),
    /// The manager's term is over: it may not serve any more.
    #[error("the manager of the volume stopped: {0}")]
    TermEnded(TermError),
    /// A thread of a server ended, for instance because it panicked.
    #[error("a server of the volume ended: {0}")]
    Ended(io::Error),
}

/// The reason why a manager does not start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ManagerError {
    /// The metadata cannot be used.
    #[error("{0}")]
    Metadata(Failure),
    /// The manager may not serve the metadata.
    #[error("{0}")]
    Term(TermError),
    /// The RDMA device cannot be used.
    #[error("cannot use the RDMA device: {0}")]
    Device(gannet_verbs::VerbsError),
}

/// The fault of a volume's description.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DescriptionError {
    /// The text is not TOML, or lacks a key, or has an unknown one.
    #[error("{0}")]
    Text(String),
    /// The description is of another version of the format.
    #[error(transparent)]
    Format(#[from] OtherFormat),
    /// It has no I/O servers, or too many.
    #[error("it must have 1 to {max} I/O servers", max = super::IO_SERVERS_MAX)]
    IoServers,
    /// The name is too long.
    #[error("`name` is longer than {max} bytes", max = gannet_wire::volume::NAME_MAX)]
    Name,
    /// Several managers, or too many, without a journal in common.
    #[error("several managers, {max} at most, need a journal in an engine (`journal`)", max = crate::url::MANAGERS_MAX)]
    Managers,
    /// The engine of the journal is not described as it must be.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The stripe unit is too small or too large.
    #[error("`unit` must be from {UNIT_MIN} to {UNIT_MAX} bytes")]
    Unit,
    /// Files cannot be striped over so many I/O servers.
    #[error("`width` exceeds the number of I/O servers")]
    Width,
    /// The folder of the I/O server with this number has no path.
    #[error("the `folder` of I/O server {0} is empty")]
    Folder(usize),
}

/// The reason why a secret cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SecretError {
    /// It cannot be read.
    #[error("{0}")]
    File(io::Error),
    /// Users other than its owner can read it.
    #[error("users other than its owner can read it")]
    Public,
    /// It is too short.
    #[error("it is shorter than 16 bytes")]
    Short,
    /// It has another length than secrets have.
    #[error("it is not 16 or 32 bytes long")]
    Length,
}

/// Work with a file or a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileWork {
    /// Finding it.
    Find,
    /// Using a folder.
    UseFolder,
    /// Making a folder.
    MakeFolder,
    /// Making a file.
    MakeFile,
    /// Changing a file.
    Change,
    /// Making a folder's names durable.
    Sync,
}

impl fmt::Display for FileWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FileWork::Find => "find",
            FileWork::UseFolder => "use the folder",
            FileWork::MakeFolder => "make the folder",
            FileWork::MakeFile => "make the file",
            FileWork::Change => "change",
            FileWork::Sync => "sync",
        })
    }
}

/// Adds the work and the file to an error.
pub(super) trait At<T> {
    /// `work` failed with the file at `path`.
    fn at(self, work: FileWork, path: &std::path::Path) -> Result<T, VolumeError>;
}

impl<T> At<T> for io::Result<T> {
    fn at(self, work: FileWork, path: &std::path::Path) -> Result<T, VolumeError> {
        let path = path.to_path_buf();
        self.map_err(|why| VolumeError::File { work, path, why })
    }
}

/// The reason why an engine of a journal is not described as it must be.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum JournalError {
    /// Not one engine.
    #[error("a journal is in either etcd or postgresql")]
    Engines,
    /// An address of etcd is none.
    #[error(
        "`{text}` is no address of etcd: write {scheme}HOST:PORT (https with `ca`, http without)"
    )]
    Etcd {
        /// The text.
        text: String,
        /// The beginning of an address.
        scheme: &'static str,
    },
    /// The text is no URL of PostgreSQL.
    #[error("`{0}` is no database: write postgresql://USER@HOST,HOST,HOST/DATABASE")]
    Postgresql(String),
    /// The URL has a password.
    #[error(
        "a password does not belong into the URL: write it to the file `journal-password` of the volume's folder"
    )]
    PasswordInUrl,
    /// PostgreSQL has its user in the URL.
    #[error("the user of postgresql is named in its URL; `user` is for etcd")]
    User,
    /// A certificate of the managers without its key, or without authorities for the engine's.
    #[error("`certificate` and `key` belong together, and need `ca`")]
    Credentials,
}
