//! A server's directory in the tree of this machine, through FUSE.

#[cfg(feature = "server")]
mod numbers;

#[cfg(feature = "server")]
pub use numbers::MountTally;

use crate::client::connect::{Connection, connect};
use crate::client::remote::Remote;
use crate::url::Url;
use crate::{ConnectError, ConnectOptions};
use gannet_client::Follow;
use gannet_runtime::{ErasedFuture, Handle, tokio_plug};
use gannet_vfs::{Credentials, FileKind, Vfs};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use thiserror::Error;
use tokio::sync::oneshot;

pub use gannet_fuse::{Caching, Closing, Locks, MountError as FrontEndError};

/// How long names and attributes are cached unless the options say otherwise.
const CACHE_AGE: Duration = Duration::from_secs(1);
/// How long operations wait for a silent server unless the options say otherwise.
const DEADLINE: Duration = Duration::from_secs(60);

/// How a directory is mounted. By default it is writable, through the kernel's cache, and for this user alone. Each
/// operation has the rights of its caller. Attributes are cached for a second, and an operation may take a minute.
#[derive(Debug, Clone)]
pub struct MountOptions {
    caching: Caching,
    read_only: bool,
    no_exec: bool,
    allow_other: bool,
    caller: Option<Credentials>,
    cache_age: Duration,
    locks: Option<Locks>,
    closing: Closing,
    deadline: Duration,
    source: Option<String>,
}

impl Default for MountOptions {
    fn default() -> MountOptions {
        MountOptions {
            caching: Caching::Cached,
            read_only: false,
            no_exec: false,
            allow_other: false,
            caller: None,
            cache_age: CACHE_AGE,
            locks: None,
            closing: Closing::Sync,
            deadline: DEADLINE,
            source: None,
        }
    }
}

impl MountOptions {
    /// The cache for data that was read and written.
    #[must_use]
    pub fn caching(self, caching: Caching) -> MountOptions {
        MountOptions { caching, ..self }
    }

    /// Refuses everything that changes files.
    #[must_use]
    pub fn read_only(self, read_only: bool) -> MountOptions {
        MountOptions { read_only, ..self }
    }

    /// Has the kernel refuse to run programs from the mount.
    #[must_use]
    pub fn no_exec(self, no_exec: bool) -> MountOptions {
        MountOptions { no_exec, ..self }
    }

    /// Allows other users, each with their own rights. Unless root mounts, `/etc/fuse.conf` must have
    /// `user_allow_other`.
    #[must_use]
    pub fn allow_other(self, allow_other: bool) -> MountOptions {
        MountOptions {
            allow_other,
            ..self
        }
    }

    /// Does every operation as `caller`, or with `None`, the default, as the process that asks for it.
    #[must_use]
    pub fn caller(self, caller: Option<Credentials>) -> MountOptions {
        MountOptions { caller, ..self }
    }

    /// Sets the time for which names and attributes are cached without a call to the server.
    #[must_use]
    pub fn cache_age(self, cache_age: Duration) -> MountOptions {
        MountOptions { cache_age, ..self }
    }

    /// Where file locks hold; `None`, the default, among all clients of a volume, and on this machine alone over NFS.
    #[must_use]
    pub fn locks(self, locks: Option<Locks>) -> MountOptions {
        MountOptions { locks, ..self }
    }

    /// Whether close(2) waits until written bytes are durable.
    #[must_use]
    pub fn closing(self, closing: Closing) -> MountOptions {
        MountOptions { closing, ..self }
    }

    /// How long an operation may take before it fails with `EIO`.
    #[must_use]
    pub fn deadline(self, deadline: Duration) -> MountOptions {
        MountOptions { deadline, ..self }
    }

    /// Sets the source that the kernel's table of mounts shows; `None`, the default, shows the URL.
    #[must_use]
    pub fn source(self, source: Option<String>) -> MountOptions {
        MountOptions { source, ..self }
    }
}

/// The reason why a directory is not mounted.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MountError {
    /// There is no connection to the server.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The file that the URL names cannot be found.
    #[error("cannot find it: {0}")]
    Find(gannet_client::Error),
    /// The URL names an object that is not a directory.
    #[error("it is not a directory")]
    NotADirectory,
    /// [`Locks::Shared`] was asked for, and an NFS server keeps no locks for its clients here.
    #[error("file locks over NFS are not supported")]
    NoSharedLocks,
    /// The server does not say how long names may be.
    #[error("cannot query the limits of names: {0}")]
    Limits(gannet_nfs::client::Error),
    /// The local directory or FUSE cannot be used.
    #[error(transparent)]
    FrontEnd(#[from] FrontEndError),
    /// The thread that serves the mount cannot be started, or has ended.
    #[error("cannot start: {0}")]
    Start(io::Error),
}

/// A mount that lives on a core of its user.
pub type Mounted = gannet_fuse::Mount<Remote>;

/// Mounts the directory that `url` names, and that `connection` reaches, on `directory`, which exists. Requests are
/// done on the core of `runtime`. The mount outlives `connection`, but [`Connection::farewell`] should come after its
/// end.
///
/// # Errors
/// See [`MountError`].
pub fn mount<'a>(
    runtime: &'a Handle,
    connection: &'a Connection,
    url: &'a Url,
    directory: &'a Path,
    options: &'a MountOptions,
) -> ErasedFuture<'a, Result<Mounted, MountError>> {
    Box::pin(async move {
        let below = url.path.get(connection.export_len..).unwrap_or_default();
        let path = below.join(&b'/');
        let node = connection.files.walk(&path, Follow::Yes).await;
        let node = node.map_err(MountError::Find)?;
        if node.attributes.kind != FileKind::Directory {
            return Err(MountError::NotADirectory);
        }
        let remote = connection.front_end().await.map_err(MountError::Limits)?;
        let locks = match options.locks {
            Some(Locks::Shared) if !remote.is_coordinated() => {
                return Err(MountError::NoSharedLocks);
            }
            Some(locks) => locks,
            None if remote.is_coordinated() => Locks::Shared,
            None => Locks::Local,
        };
        let settings = gannet_fuse::MountOptions {
            source: options.source.clone().unwrap_or_else(|| url.to_string()),
            caching: options.caching,
            read_only: options.read_only,
            no_exec: options.no_exec,
            allow_other: options.allow_other,
            caller: options.caller.clone(),
            cache_age: options.cache_age,
            locks,
            closing: options.closing,
            deadline: options.deadline,
        };
        let mounting = gannet_fuse::Mount::start(runtime, remote, node.handle, directory, settings);
        Ok(mounting.await?)
    })
}

/// A mounted directory, with a thread of its own. It stays mounted until it is unmounted by any program; dropping this
/// unmounts it some time later.
pub struct Mount {
    directory: PathBuf,
    /// Unmounts when it is sent to or dropped.
    stop: Option<oneshot::Sender<()>>,
    /// `None` once it has reported how the mount ended.
    ended: Option<oneshot::Receiver<io::Result<()>>>,
}

impl Mount {
    /// Mounts the directory that `url` names on `directory`, which exists, with the default options.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let mount = gannet::Mount::start("nfs+rdma://server/", "/mnt").await?;
    /// let text = std::fs::read_to_string("/mnt/hello")?;
    /// mount.unmount().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// See [`MountError`].
    pub async fn start(url: &str, directory: impl AsRef<Path>) -> Result<Mount, MountError> {
        let (connect, options) = (ConnectOptions::default(), MountOptions::default());
        Mount::start_with(url, directory, connect, options).await
    }

    /// Mounts the directory that `url` names on `directory`, which exists.
    ///
    /// # Errors
    /// See [`MountError`].
    pub async fn start_with(
        url: &str,
        directory: impl AsRef<Path>,
        connect: ConnectOptions,
        options: MountOptions,
    ) -> Result<Mount, MountError> {
        let url = Url::parse(url).map_err(ConnectError::from)?;
        let directory = directory.as_ref().to_path_buf();
        let (started, mounted) = oneshot::channel();
        let (stop, stopped) = oneshot::channel();
        let (ends, ended) = oneshot::channel();
        let serving = move || {
            let served = tokio_plug::block_on(async |runtime| {
                let opened = open(&runtime, &url, &directory, &connect, &options).await;
                serve(opened, started, stopped).await
            });
            // The caller may have dropped the mount.
            let _ = ends.send(served.flatten());
        };
        let thread = std::thread::Builder::new().name(String::from("gannet-mount"));
        thread.spawn(serving).map_err(MountError::Start)?;
        let gone = |_| MountError::Start(io::Error::other("its thread has ended"));
        Ok(Mount {
            directory: mounted.await.map_err(gone)??,
            stop: Some(stop),
            ended: Some(ended),
        })
    }

    /// The place of the mount: an absolute path without symbolic links.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Waits until the directory has been unmounted, its requests are answered, and its data are durable.
    ///
    /// # Errors
    /// The kernel's device failed.
    pub async fn ended(&mut self) -> io::Result<()> {
        let Some(ended) = &mut self.ended else {
            return Ok(());
        };
        let said = ended.await;
        self.ended = None;
        said.unwrap_or_else(|_| Err(io::Error::other("the mount's thread is gone")))
    }

    /// Unmounts the directory after the kernel has written back its cache; all data are durable when this returns. A
    /// mount that is in use is detached from the tree, and served for no longer than an operation may take.
    ///
    /// # Errors
    /// The mount cannot be detached from the tree.
    pub async fn unmount(mut self) -> io::Result<()> {
        if let Some(stop) = self.stop.take() {
            // It may have ended by itself.
            let _ = stop.send(());
        }
        self.ended().await
    }
}

type Opened = (Connection, Mounted);

async fn open(
    runtime: &Handle,
    url: &Url,
    directory: &Path,
    connecting: &ConnectOptions,
    options: &MountOptions,
) -> Result<Opened, MountError> {
    // An operation of a mount fails at its deadline; what it has begun need not go on. The client of a volume gives up
    // a little earlier, because it knows which server it has waited for: operations on others are not hurried then.
    #[cfg(feature = "volumes")]
    let connecting = &{
        let before_deadline = options.deadline.mul_f32(0.95);
        let patience = connecting.patience.unwrap_or(before_deadline);
        connecting.clone().patience(Some(patience))
    };
    let connection = connect(runtime, url, connecting).await?;
    let mounted = mount(runtime, &connection, url, directory, options).await?;
    Ok((connection, mounted))
}

/// Reports whether the mount succeeded; unmounts when `stopped` is sent or dropped.
async fn serve(
    opened: Result<Opened, MountError>,
    started: oneshot::Sender<Result<PathBuf, MountError>>,
    stopped: oneshot::Receiver<()>,
) -> io::Result<()> {
    let (connection, mut mounted) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            // The caller may have stopped waiting.
            let _ = started.send(Err(error));
            return Ok(());
        }
    };
    // If the receiver was dropped, `stopped` is closed, and the mount ends at once.
    let _ = started.send(Ok(mounted.directory().to_path_buf()));
    let ended = tokio::select! {
        ended = mounted.ended() => Some(ended),
        _ = stopped => None,
    };
    let ended = match ended {
        Some(ended) => ended,
        None => mounted.unmount().await,
    };
    connection.farewell().await;
    ended
}
