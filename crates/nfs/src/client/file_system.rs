//! An export as a file system: what is mounted through FUSE, and what could be served again.

mod transfer;

use super::listing::{check_name, readdirplus_listing};
use super::{Client, Error, Files, Found, Position};
use crate::convert::attributes_from_wire;
use crate::limits::LISTING_PAGE;
use gannet_rpc::CallerCredential;
use gannet_runtime::{Arena, Buffer, Handle, LogLimit};
use gannet_vfs::{
    AccessMask, Attributes, Changed, Commit, CreateMode, Created, Credentials, DirectoryEntry,
    DirectoryPage, Entries, FileHandle, FileSystemLimits, FileSystemUsage, NodeKind, ReadReply,
    SetAttributes, Stability, Status, Time, Verifier, Vfs, Wcc, WriteDone,
};
use gannet_wire::nfs3::PathconfOk;
use gannet_wire::rpc::Groups;
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

/// Failures that are not the server's answers are logged this far apart.
const LOG_INTERVAL: Duration = Duration::from_secs(10);
/// Buffers for READs that are kept.
const BUFFERS_MAX: usize = 64;

/// An export of a server as a [`Vfs`], on one core.
///
/// Nothing is cached. Calls are repeated over lost connections and restarts of the server as the connection's settings
/// say; what a restarted server may have lost shows in the verifier, and is its writer's to write again.
pub struct NfsFs {
    runtime: Handle,
    files: Files,
    /// What the server is told this machine is called.
    machine_name: String,
    /// Credentials of the last caller, ready to be sent.
    last_caller: RefCell<Option<(Credentials, Rc<CallerCredential>)>>,
    /// Of the last WRITE or COMMIT.
    verifier: Cell<Verifier>,
    limits: FileSystemLimits,
    /// Memory for whole READs.
    arena: Arena,
    log: LogLimit,
}

impl NfsFs {
    /// The mounted export `files`, which is reached by RPC; asks for its fixed properties. Each operation is called for
    /// by its caller (AUTH_SYS) at the machine of this name; what has no caller, by whom the connection is for.
    ///
    /// # Errors
    /// No answer.
    pub async fn open(runtime: Handle, files: Files, machine_name: String) -> Result<NfsFs, Error> {
        let root = files.root();
        let info = files.client().fsinfo(&root).await?;
        let names = match files.client().pathconf(&root).await {
            Ok(names) => names,
            // Some servers have no PATHCONF.
            Err(Error::Status(_)) => unknown_names(),
            Err(error) => return Err(error),
        };
        let (read_block, _) = files.blocks();
        Ok(NfsFs {
            limits: FileSystemLimits {
                file_size_max: info.file_size_max,
                link_max: names.link_max,
                name_max: names.name_max,
                time_delta: crate::convert::time_from_wire(info.time_delta),
            },
            arena: Arena::new(read_block as usize, BUFFERS_MAX),
            runtime,
            files,
            machine_name,
            last_caller: RefCell::default(),
            verifier: Cell::default(),
            log: LogLimit::new(LOG_INTERVAL),
        })
    }

    /// The client that calls as `caller`.
    fn client(&self, caller: &Credentials) -> Client {
        let mut last = self.last_caller.borrow_mut();
        if let Some((known, credential)) = &*last
            && known == caller
        {
            return self.files.client().calling_as(Rc::clone(credential));
        }
        let credential = Rc::new(CallerCredential::Sys {
            machine_name: self.machine_name.clone(),
            uid: caller.uid,
            gid: caller.gid,
            groups: Groups::new(caller.groups()),
        });
        *last = Some((caller.clone(), Rc::clone(&credential)));
        self.files.client().calling_as(credential)
    }

    /// What `error` is to a caller of files.
    fn status(&self, error: Error) -> Status {
        let status = match &error {
            Error::Status(status) => return *status,
            Error::Malformed(_) => Status::Serverfault,
            _ => Status::Io,
        };
        if let Some(left_out) = self.log.admit(self.runtime.now()) {
            tracing::warn!(%error, left_out, "an operation on the server failed");
        }
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

    /// A page of the listing, all of which `entries` may not take.
    async fn list(
        &self,
        client: &Client,
        directory: &FileHandle,
        position: (u64, Verifier),
        entries: &mut dyn Entries,
    ) -> Result<DirectoryPage, Error> {
        let (cookie, verifier) = position;
        let position = Position { cookie, verifier };
        let reply = client
            .readdirplus_reply(directory, position, LISTING_PAGE)
            .await?;
        let listing = readdirplus_listing(&reply)?;
        let (mut eof, mut empty) = (listing.eof, true);
        for entry in listing.entries.iter() {
            empty = false;
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
                eof = false;
                break;
            }
        }
        if empty && !eof {
            return Err(Error::Malformed("an empty page that is not the last"));
        }
        let attributes = match listing.attributes.as_ref().map(attributes_from_wire) {
            Some(attributes) => attributes,
            None => client.getattr(directory).await?,
        };
        Ok(DirectoryPage {
            attributes,
            eof,
            verifier: listing.verifier,
        })
    }
}

/// What POSIX promises at least, but for the length of names, which is what all servers have.
fn unknown_names() -> PathconfOk {
    PathconfOk {
        attributes: None,
        link_max: 8,
        name_max: 255,
        no_truncation: true,
        chown_restricted: true,
        case_insensitive: false,
        case_preserving: true,
    }
}

impl Vfs for NfsFs {
    fn root(&self) -> FileHandle {
        self.files.root()
    }

    async fn resolve(&self, cred: &Credentials, path: &[&[u8]]) -> Result<FileHandle, Status> {
        let client = self.client(cred);
        let mut at = self.files.root();
        for name in path {
            let found = client.lookup(&at, name).await;
            at = found.map_err(|error| self.status(error))?.handle;
        }
        Ok(at)
    }

    async fn attributes(&self, file: &FileHandle) -> Result<Attributes, Status> {
        let client = self.files.client();
        client
            .getattr(file)
            .await
            .map_err(|error| self.status(error))
    }

    async fn set_attributes(
        &self,
        cred: &Credentials,
        file: &FileHandle,
        change: &SetAttributes,
        guard: Option<Time>,
    ) -> Changed<()> {
        match self.client(cred).setattr(file, change, guard).await {
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
        let client = self.client(cred);
        let found = client.find(directory, name).await;
        (found.map_err(|error| self.status(error)), None)
    }

    async fn access(
        &self,
        cred: &Credentials,
        file: &FileHandle,
        wanted: AccessMask,
    ) -> Result<(AccessMask, Attributes), Status> {
        let client = self.client(cred);
        let granted = client.access(file, wanted).await;
        let granted = granted.map_err(|error| self.status(error))?;
        Ok((granted, self.attributes(file).await?))
    }

    async fn read_link(
        &self,
        cred: &Credentials,
        file: &FileHandle,
    ) -> Result<(Vec<u8>, Attributes), Status> {
        let target = self.client(cred).readlink(file).await;
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
        let client = self.client(cred);
        let read = self.read_range(&client, file, offset, count);
        read.await.map_err(|error| self.status(error))
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
        let client = self.client(cred);
        let written = self.write_range(&client, file, offset, (data, range), stability);
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
        match self.client(cred).commit(file, offset, count).await {
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
        self.made(self.client(cred).create(directory, name, mode).await)
    }

    async fn make_directory(
        &self,
        cred: &Credentials,
        directory: &FileHandle,
        name: &[u8],
        attributes: &SetAttributes,
    ) -> Changed<Created> {
        let client = self.client(cred);
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
        let client = self.client(cred);
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
        let client = self.client(cred);
        self.made(client.mknod(directory, name, kind, attributes).await)
    }

    async fn remove(&self, cred: &Credentials, directory: &FileHandle, name: &[u8]) -> Changed<()> {
        self.changed(self.client(cred).remove(directory, name).await, None)
    }

    async fn remove_directory(
        &self,
        cred: &Credentials,
        directory: &FileHandle,
        name: &[u8],
    ) -> Changed<()> {
        self.changed(self.client(cred).rmdir(directory, name).await, None)
    }

    async fn rename(
        &self,
        cred: &Credentials,
        from: (&FileHandle, &[u8]),
        to: (&FileHandle, &[u8]),
    ) -> (Result<(), Status>, Wcc, Wcc) {
        let moved = self.client(cred).rename(from, to).await;
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
        let linked = self.client(cred).link(file, directory, name).await;
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
        let client = self.client(cred);
        let listed = self.list(&client, directory, (cookie, verifier), entries);
        listed.await.map_err(|error| self.status(error))
    }

    async fn usage(&self, file: &FileHandle) -> Result<FileSystemUsage, Status> {
        let usage = self.files.client().fsstat(file).await;
        usage.map_err(|error| self.status(error))
    }

    fn limits(&self) -> FileSystemLimits {
        self.limits
    }

    fn write_verifier(&self) -> Verifier {
        self.verifier.get()
    }
}
