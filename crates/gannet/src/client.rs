//! A server's files, from any thread.

pub(crate) mod connect;
mod contact;
pub(crate) mod options;
mod probe;
pub(crate) mod remote;

pub use options::ConnectOptions;

use crate::file::{File, write_durably};
use crate::url::Url;
use crate::worker;
use crate::{Buffer, ConnectError, Error, TransferMemory};
use connect::{Connection, connect};
use gannet_client::{Existing, Files, Transfer};
use gannet_vfs::{Attributes, FileSystemUsage};
use remote::Remote;
use std::sync::Arc;

impl worker::Core for Connection {}

/// The thread of a connection.
pub(crate) type Worker = worker::Worker<Connection>;

/// The files of a mounted export or a volume, below the path of the URL that it was connected with.
///
/// Clones share the connection, which has a thread of its own; it may be used from any thread and any executor. Paths
/// are taken from the URL's, with or without a slash in front. A lost connection is made anew, and operations under way
/// are done then, for as long as that takes. Bound the wait from outside, by dropping the future.
#[derive(Clone)]
pub struct Client {
    worker: Worker,
    /// The URL's path within the export.
    base: Arc<[u8]>,
}

/// One name in a directory's listing.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// Its name: bytes, in no particular encoding, without a slash or a NUL.
    pub name: Vec<u8>,
    /// The attributes of the object that the name refers to.
    pub attributes: Attributes,
}

impl Client {
    /// Connects to the server of `url`: `nfs://HOST[:PORT]/path` over TCP, `nfs+rdma://` over RDMA.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub async fn connect(url: &str) -> Result<Client, ConnectError> {
        Client::connect_with(url, ConnectOptions::default()).await
    }

    /// Connects to the server of `url` as `options` say; `gannet://` URLs need the key of their volume.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub async fn connect_with(url: &str, options: ConnectOptions) -> Result<Client, ConnectError> {
        let url = Url::parse(url)?;
        let path = url.path.clone();
        let connecting = async move |runtime| {
            let connection = connect(&runtime, &url, &options).await?;
            let export_len = connection.export_len;
            Ok((connection, export_len))
        };
        let started = Worker::start("gannet-client", connecting, ConnectError::Start);
        let (worker, export_len) = started.await?;
        let below = path.get(export_len..).unwrap_or_default();
        Ok(Client {
            worker,
            base: below.join(&b'/').into(),
        })
    }

    /// `path` within the export.
    fn at(&self, path: impl AsRef<[u8]>) -> Vec<u8> {
        [&*self.base, path.as_ref()].join(&b'/')
    }

    /// Has the connection's core do `work` with its files.
    async fn with<T: Send + 'static, F>(
        &self,
        work: impl FnOnce(Files<Remote>) -> F + Send + 'static,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<T, gannet_client::Error>> + 'static,
    {
        let done = self
            .worker
            .run(move |connection| work(connection.files.clone()));
        Ok(done.await??)
    }

    /// The attributes of the object at `path`, symbolic links followed.
    ///
    /// # Errors
    /// See [`Error`]; so for all that follow.
    pub async fn stat(&self, path: impl AsRef<[u8]>) -> Result<Attributes, Error> {
        let path = self.at(path);
        let node = self.with(async move |files| files.stat(&path).await);
        Ok(node.await?.attributes)
    }

    /// Lists the directory at `path`; names that vanish meanwhile are left out.
    pub async fn list(&self, path: impl AsRef<[u8]>) -> Result<Vec<Entry>, Error> {
        let path = self.at(path);
        let listed = self
            .with(async move |files| files.list(&path).await)
            .await?;
        let entry = |(item, node): (gannet_client::Item, gannet_client::Node)| Entry {
            name: item.name,
            attributes: node.attributes,
        };
        Ok(listed.into_iter().map(entry).collect())
    }

    /// The bytes of the file at `path`, read with several READs in flight. They must fit in memory.
    pub async fn read(&self, path: impl AsRef<[u8]>) -> Result<Vec<u8>, Error> {
        let path = self.at(path);
        let read = async move |files: Files<Remote>| {
            let node = files.stat(&path).await?;
            let mut reader = files.read_file(&node.handle, 0..u64::MAX, Transfer::default());
            let mut bytes = Vec::new();
            while let Some(block) = reader.next().await? {
                bytes.extend_from_slice(block.data());
                reader.recycle(block.buffer);
            }
            Ok(bytes)
        };
        self.with(read).await
    }

    /// Makes `bytes` the content of the file at `path`, which is made if it is not there, with rights for its owner
    /// alone. They are durable when this returns.
    pub async fn write(
        &self,
        path: impl AsRef<[u8]>,
        bytes: impl Into<Vec<u8>>,
    ) -> Result<(), Error> {
        let (path, bytes) = (self.at(path), bytes.into());
        let write = async move |files: Files<Remote>| {
            let node = files.create(&path, 0o600, Existing::Truncate).await?;
            write_durably(&files, &node.handle, 0, bytes).await
        };
        self.with(write).await
    }

    /// Opens the file at `path`.
    pub async fn open(&self, path: impl AsRef<[u8]>) -> Result<File, Error> {
        let path = self.at(path);
        let node = self
            .with(async move |files| files.stat(&path).await)
            .await?;
        Ok(File::new(self.worker.clone(), node.handle))
    }

    /// Opens the file at `path`, which is made with these rights if it is not there, and emptied if it is.
    pub async fn create(&self, path: impl AsRef<[u8]>, mode: u32) -> Result<File, Error> {
        let path = self.at(path);
        let made =
            async move |files: Files<Remote>| files.create(&path, mode, Existing::Truncate).await;
        let node = self.with(made).await?;
        Ok(File::new(self.worker.clone(), node.handle))
    }

    /// Makes a directory with these rights.
    pub async fn make_directory(&self, path: impl AsRef<[u8]>, mode: u32) -> Result<(), Error> {
        let path = self.at(path);
        let made = self.with(async move |files| files.make_directory(&path, mode).await);
        made.await.map(|_| ())
    }

    /// Removes a name; of directories, empty ones alone.
    pub async fn remove(&self, path: impl AsRef<[u8]>) -> Result<(), Error> {
        let path = self.at(path);
        self.with(async move |files| files.remove(&path).await)
            .await
    }

    /// Moves a name, and replaces the object that had the new one.
    pub async fn rename(&self, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> Result<(), Error> {
        let (from, to) = (self.at(from), self.at(to));
        self.with(async move |files| files.rename(&from, &to).await)
            .await
    }

    /// Copies the file `from` to `to` on the same server, through this machine; the copy is durable when this returns.
    pub async fn copy(&self, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> Result<(), Error> {
        let (from, to) = (self.at(from), self.at(to));
        let copy = async move |files: Files<Remote>| {
            let source = files.stat(&from).await?;
            let mode = source.attributes.mode;
            let target = files.create(&to, mode, Existing::Truncate).await?;
            let (to, from) = (&target.handle, &source.handle);
            let copied = files.copy_from(to, &files, from, Transfer::default());
            copied.await.map(|_| ())
        };
        self.with(copy).await
    }

    /// Registers memory of the program for many reads and writes of files of this client, at most 1 MiB: a `Vec`
    /// ([`Buffer::from_vec`]), or any memory that the program has already, as a mapping ([`Buffer::from_lent`]). It is
    /// not copied. [`TransferMemory`] says when the device pins it.
    ///
    /// # Errors
    /// [`Error::Register`], [`Error::MemoryTooLong`], [`Error::Ended`]; the memory is freed then.
    pub async fn register(&self, memory: Buffer) -> Result<TransferMemory, Error> {
        TransferMemory::register(self.worker.clone(), memory).await
    }

    /// Space and inodes of the file system at `path`.
    pub async fn usage(&self, path: impl AsRef<[u8]>) -> Result<FileSystemUsage, Error> {
        let path = self.at(path);
        self.with(async move |files| files.usage(&path).await).await
    }

    /// How often the connection was lost and made anew.
    ///
    /// # Errors
    /// [`Error::Ended`].
    pub async fn reconnects(&self) -> Result<u64, Error> {
        let counted = self.worker.run(async |connection| connection.reconnects());
        Ok(counted.await?)
    }
}
