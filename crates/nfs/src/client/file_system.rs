//! An export as a file system, to be mounted through FUSE or served again.

mod transfer;

use super::listing::{check_name, readdir_listing, readdirplus_listing, without_object};
use super::{Client, Error, Found, Position};
use crate::convert::attributes_from_wire;
use crate::limits::{BLOCK_MIN, LISTING_PAGE, TRANSFER_MAX};
use gannet_rpc::CallerCredential;
use gannet_runtime::{Arena, Buffer, LogLimit};
use gannet_vfs::{
    AccessMask, Attributes, BytesRead, Changed, Commit, CreateMode, Created, Credentials,
    DirectoryEntry, DirectoryPage, Entries, EntryName, FileHandle, FileKind, FileSystemLimits,
    FileSystemUsage, NodeKind, ReadReply, SetAttributes, Stability, Status, Time, TransferSizes,
    Verifier, Vfs, Wcc, WriteDone,
};
use gannet_wire::nfs3::EntryPlus;
use gannet_wire::rpc::Groups;
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;
use transfer::read_block;

/// Time between two log lines about failures that are not the server's answers.
const LOG_INTERVAL: Duration = Duration::from_secs(10);
/// Buffers of the arena for READs.
const BUFFERS_MAX: usize = 64;

/// An export of a server as a [`Vfs`], on one core.
///
/// Nothing is cached. Calls are repeated over lost connections and restarts of the server as the connection's settings
/// say. A new write verifier shows that a restarted server may have lost data; the writer must write these again.
pub struct NfsFs {
    client: Client,
    root: FileHandle,
    /// The machine name in AUTH_SYS credentials.
    machine_name: String,
    /// The credentials of the last caller, encoded: most calls in a row are of one caller.
    last_caller: RefCell<Option<(Credentials, Rc<CallerCredential>)>>,
    /// The verifier of the last WRITE or COMMIT.
    verifier: Cell<Verifier>,
    limits: FileSystemLimits,
    sizes: TransferSizes,
    /// The server has refused READDIRPLUS (`Notsupp`).
    lists_names_only: Cell<bool>,
    /// Memory for whole READs.
    arena: Arena,
    /// The status of the last operation that failed by another cause than the server's answer, and the cause.
    cause: RefCell<Option<(Status, String)>>,
    /// Bounds the log lines about such failures; `None` logs nothing.
    log: Option<LogLimit>,
}

impl NfsFs {
    /// The file system below `root`, a handle that MOUNT returned; asks the server for its transfer sizes. Each
    /// operation carries the credentials of its caller (AUTH_SYS) at the machine of this name; an operation without a
    /// caller carries those of the connection.
    ///
    /// # Errors
    /// [`Error::Status`] when the handle is not the server's, [`Error::LongHandle`], [`Error::Malformed`],
    /// [`Error::Call`].
    pub async fn open(
        client: Client,
        root: FileHandle,
        machine_name: String,
    ) -> Result<NfsFs, Error> {
        let info = client.fsinfo(&root).await?;
        let sane = |value: u32| value.clamp(BLOCK_MIN, TRANSFER_MAX);
        let sizes = TransferSizes {
            read_preferred: sane(info.read_preferred.min(info.read_max)),
            read_max: sane(info.read_max),
            write_preferred: sane(info.write_preferred.min(info.write_max)),
            write_max: sane(info.write_max),
        };
        Ok(NfsFs {
            client,
            root,
            machine_name,
            last_caller: RefCell::default(),
            verifier: Cell::default(),
            limits: FileSystemLimits {
                file_size_max: info.file_size_max,
                time_delta: crate::convert::time_from_wire(info.time_delta),
                // The minimum of POSIX for links; the length of names that all servers have.
                link_max: 8,
                name_max: 255,
            },
            arena: Arena::new(sizes.read_preferred as usize, BUFFERS_MAX),
            sizes,
            lists_names_only: Cell::default(),
            cause: RefCell::default(),
            log: None,
        })
    }

    /// The same for a front end, which can pass on only statuses and limits: asks the server for the limits of names,
    /// and logs why operations fail.
    ///
    /// # Errors
    /// [`Error::Malformed`] and [`Error::Call`].
    pub async fn for_front_end(self) -> Result<NfsFs, Error> {
        let mut limits = self.limits;
        match self.client.pathconf(&self.root).await {
            Ok(names) => (limits.link_max, limits.name_max) = (names.link_max, names.name_max),
            // Some servers have no PATHCONF.
            Err(Error::Status(_)) => {}
            Err(error) => return Err(error),
        }
        Ok(NfsFs {
            limits,
            log: Some(LogLimit::new(LOG_INTERVAL)),
            ..self
        })
    }

    /// The client below, with the credential of the connection.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The client that calls as `caller`.
    fn client_of(&self, caller: &Credentials) -> Client {
        let mut last = self.last_caller.borrow_mut();
        if let Some((known, credential)) = &*last
            && known == caller
        {
            return self.client.calling_as(Rc::clone(credential));
        }
        let credential = Rc::new(CallerCredential::Sys {
            machine_name: self.machine_name.clone(),
            uid: caller.uid,
            gid: caller.gid,
            groups: Groups::new(caller.groups()),
        });
        *last = Some((caller.clone(), Rc::clone(&credential)));
        self.client.calling_as(credential)
    }

    /// The status of `error` for a caller of files; [`Vfs::cause`] returns the text.
    fn status(&self, error: Error) -> Status {
        let status = match &error {
            Error::Status(status) => {
                self.cause.take();
                return *status;
            }
            Error::Malformed(_) => Status::Serverfault,
            Error::NoSuchTime => Status::Inval,
            _ => Status::Io,
        };
        // `Inval` is the caller's own mistake, and needs no log line.
        let limit = self.log.as_ref().filter(|_| status != Status::Inval);
        if let Some(left_out) = limit.and_then(|it| it.admit(self.client.runtime.now())) {
            tracing::warn!(%error, left_out, "an operation on the server failed");
        }
        self.cause.replace(Some((status, error.to_string())));
        status
    }

    fn changed<T>(&self, done: Result<T, Error>, after: Option<Attributes>) -> Changed<T> {
        let wcc = Wcc {
            before: None,
            after,
        };
        Changed {
            result: done.map_err(|error| self.status(error)),
            wcc,
        }
    }

    fn made(&self, done: Result<Found, Error>) -> Changed<Created> {
        let made = done.map(|found| Created {
            handle: found.handle,
            attributes: found.attributes,
        });
        self.changed(made, None)
    }

    /// A page of the listing; `entries` may not take all of it. Uses READDIRPLUS if objects are wanted and the server
    /// has it, else READDIR, for which the server need not look at the objects.
    async fn list(
        &self,
        client: &Client,
        directory: &FileHandle,
        position: Position,
        entries: &mut dyn Entries,
    ) -> Result<DirectoryPage, Error> {
        if entries.wants_objects() && !self.lists_names_only.get() {
            let reply = client.readdirplus_reply(directory, position, LISTING_PAGE);
            let reply = reply.await?;
            match readdirplus_listing(&reply) {
                Err(Error::Status(Status::Notsupp)) => self.lists_names_only.set(true),
                listing => {
                    let listing = listing?;
                    let after = listing.attributes.as_ref().map(attributes_from_wire);
                    let eof = push_all(entries, listing.entries.iter(), listing.eof)?;
                    let page = self.page(client, directory, after, eof, listing.verifier);
                    return page.await;
                }
            }
        }
        let reply = client.readdir_reply(directory, position, LISTING_PAGE);
        let reply = reply.await?;
        let listing = readdir_listing(&reply)?;
        let after = listing.attributes.as_ref().map(attributes_from_wire);
        let names = listing.entries.iter().map(without_object);
        let eof = push_all(entries, names, listing.eof)?;
        let page = self.page(client, directory, after, eof, listing.verifier);
        page.await
    }

    /// The end of a page, with the directory's attributes; asks for these if they did not come with the page.
    async fn page(
        &self,
        client: &Client,
        directory: &FileHandle,
        after: Option<Attributes>,
        eof: bool,
        verifier: Verifier,
    ) -> Result<DirectoryPage, Error> {
        let attributes = match after {
            Some(attributes) => attributes,
            None => client.getattr(directory).await?,
        };
        Ok(DirectoryPage {
            attributes,
            eof,
            verifier,
        })
    }
}

/// Passes a page's entries to `entries`; returns whether that was the end of the directory.
fn push_all<'a>(
    entries: &mut dyn Entries,
    listed: impl Iterator<Item = EntryPlus<'a>>,
    eof: bool,
) -> Result<bool, Error> {
    let mut is_empty = true;
    for entry in listed {
        is_empty = false;
        check_name(entry.name.0)?;
        let handle = entry.handle.and_then(|it| FileHandle::new(it.0));
        let attributes = entry.attributes.as_ref().map(attributes_from_wire);
        let taken = entries.push(&DirectoryEntry {
            fileid: entry.fileid,
            name: entry.name.0,
            cookie: entry.cookie,
            object: handle.zip(attributes),
        });
        if !taken {
            return Ok(false);
        }
    }
    // The caller would ask for the same page for ever.
    if is_empty && !eof {
        return Err(Error::Malformed("an empty page that is not the last"));
    }
    Ok(eof)
}

impl Vfs for NfsFs {
    fn root(&self) -> FileHandle {
        self.root
    }

    async fn resolve(&self, cred: &Credentials, path: &[&[u8]]) -> Result<FileHandle, Status> {
        let client = self.client_of(cred);
        let mut at = self.root;
        for name in path {
            let found = client.lookup(&at, name).await;
            at = found.map_err(|error| self.status(error))?.handle;
        }
        let found = client.getattr(&at).await;
        match found.map_err(|error| self.status(error))?.kind {
            FileKind::Directory => Ok(at),
            _ => Err(Status::Notdir),
        }
    }

    async fn attributes(&self, file: &FileHandle) -> Result<Attributes, Status> {
        let found = self.client.getattr(file).await;
        found.map_err(|error| self.status(error))
    }

    async fn set_attributes(
        &self,
        cred: &Credentials,
        file: &FileHandle,
        change: &SetAttributes,
        guard: Option<Time>,
    ) -> Changed<()> {
        match self.client_of(cred).setattr(file, change, guard).await {
            Ok(after) => self.changed(Ok(()), after),
            Err(error) => self.changed(Err(error), None),
        }
    }

    async fn lookup(
        &self,
        cred: &Credentials,
        directory: &FileHandle,
        name: &[u8],
    ) -> (Result<(FileHandle, Attributes), Status>, Option<Attributes>) {
        let client = self.client_of(cred);
        let found = client.find(directory, name).await;
        (found.map_err(|error| self.status(error)), None)
    }

    async fn access(
        &self,
        cred: &Credentials,
        file: &FileHandle,
        wanted: AccessMask,
    ) -> Result<(AccessMask, Attributes), Status> {
        let client = self.client_of(cred);
        let granted = client.access(file, wanted).await;
        let granted = granted.map_err(|error| self.status(error))?;
        Ok((granted, self.attributes(file).await?))
    }

    async fn read_link(
        &self,
        cred: &Credentials,
        file: &FileHandle,
    ) -> Result<(Vec<u8>, Attributes), Status> {
        let target = self.client_of(cred).readlink(file).await;
        let target = target.map_err(|error| self.status(error))?;
        Ok((target, self.attributes(file).await?))
    }

    async fn read(
        &self,
        cred: &Credentials,
        file: &FileHandle,
        offset: u64,
        count: u32,
    ) -> Result<ReadReply, Status> {
        let client = self.client_of(cred);
        let read = self.read_range(&client, file, offset, count);
        read.await.map_err(|error| self.status(error))
    }

    async fn read_into(
        &self,
        cred: &Credentials,
        file: &FileHandle,
        offset: u64,
        count: u32,
        buffer: Buffer,
    ) -> (Result<BytesRead, Status>, Option<Buffer>) {
        let client = self.client_of(cred);
        match read_block(&client, file, offset, count, buffer).await {
            Ok((read, buffer)) => (Ok(read), Some(buffer)),
            Err(error) => (Err(self.status(error)), None),
        }
    }

    async fn write_and_return(
        &self,
        cred: &Credentials,
        file: &FileHandle,
        offset: u64,
        data: Buffer,
        range: Range<usize>,
        stability: Stability,
    ) -> (Changed<WriteDone>, Option<Buffer>) {
        let client = self.client_of(cred);
        let written = self.write_range(&client, file, offset, data, range, stability);
        match written.await {
            Ok((done, after, data)) => {
                self.verifier.set(done.verifier);
                (self.changed(Ok(done), after), Some(data))
            }
            Err(error) => (self.changed(Err(error), None), None),
        }
    }

    async fn commit(
        &self,
        cred: &Credentials,
        file: &FileHandle,
        offset: u64,
        count: u32,
    ) -> Changed<Commit> {
        match self.client_of(cred).commit(file, offset, count).await {
            Ok(done) => {
                let verifier = done.verifier;
                self.verifier.set(verifier);
                self.changed(Ok(Commit { verifier }), done.attributes)
            }
            Err(error) => self.changed(Err(error), None),
        }
    }

    async fn create(
        &self,
        cred: &Credentials,
        directory: &FileHandle,
        name: &[u8],
        mode: &CreateMode,
    ) -> Changed<Created> {
        self.made(self.client_of(cred).create(directory, name, mode).await)
    }

    async fn make_directory(
        &self,
        cred: &Credentials,
        directory: &FileHandle,
        name: &[u8],
        attributes: &SetAttributes,
    ) -> Changed<Created> {
        let client = self.client_of(cred);
        self.made(client.mkdir(directory, name, attributes).await)
    }

    async fn make_symlink(
        &self,
        cred: &Credentials,
        directory: &FileHandle,
        name: &[u8],
        target: &[u8],
        attributes: &SetAttributes,
    ) -> Changed<Created> {
        let client = self.client_of(cred);
        self.made(client.symlink(directory, name, target, attributes).await)
    }

    async fn make_node(
        &self,
        cred: &Credentials,
        directory: &FileHandle,
        name: &[u8],
        kind: NodeKind,
        attributes: &SetAttributes,
    ) -> Changed<Created> {
        let client = self.client_of(cred);
        self.made(client.mknod(directory, name, kind, attributes).await)
    }

    async fn remove(&self, cred: &Credentials, directory: &FileHandle, name: &[u8]) -> Changed<()> {
        self.changed(self.client_of(cred).remove(directory, name).await, None)
    }

    async fn remove_directory(
        &self,
        cred: &Credentials,
        directory: &FileHandle,
        name: &[u8],
    ) -> Changed<()> {
        self.changed(self.client_of(cred).rmdir(directory, name).await, None)
    }

    async fn rename(
        &self,
        cred: &Credentials,
        from: EntryName<'_>,
        to: EntryName<'_>,
    ) -> (Result<(), Status>, Wcc, Wcc) {
        let moved = self.client_of(cred).rename(from, to).await;
        let moved = moved.map_err(|error| self.status(error));
        (moved, Wcc::default(), Wcc::default())
    }

    async fn link(
        &self,
        cred: &Credentials,
        file: &FileHandle,
        directory: &FileHandle,
        name: &[u8],
    ) -> (Changed<()>, Option<Attributes>) {
        let linked = self.client_of(cred).link(file, directory, name).await;
        (self.changed(linked, None), None)
    }

    async fn read_directory(
        &self,
        cred: &Credentials,
        directory: &FileHandle,
        cookie: u64,
        verifier: Verifier,
        entries: &mut dyn Entries,
    ) -> Result<DirectoryPage, Status> {
        let client = self.client_of(cred);
        let listed = self.list(&client, directory, Position { cookie, verifier }, entries);
        listed.await.map_err(|error| self.status(error))
    }

    async fn usage(&self, file: &FileHandle) -> Result<FileSystemUsage, Status> {
        let usage = self.client.fsstat(file).await;
        usage.map_err(|error| self.status(error))
    }

    fn limits(&self) -> FileSystemLimits {
        self.limits
    }

    fn transfer_sizes(&self) -> TransferSizes {
        self.sizes
    }

    fn cause(&self, status: Status) -> Option<String> {
        let last = self.cause.borrow();
        let (_, why) = last.as_ref().filter(|(last, _)| *last == status)?;
        Some(why.clone())
    }

    fn write_verifier(&self) -> Verifier {
        self.verifier.get()
    }
}
