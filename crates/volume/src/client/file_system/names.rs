//! [`Vfs`] over a volume: NFS and FUSE serve it like a local directory.

use super::bytes::{BufferPart, ByteRange};
use super::{IoServerSpace, VolumeFs, status_of};
use crate::client::error::OperationError;
use crate::convert::{changes_of, create_mode_of, file_kind_of, node_kind_of, timestamp_of};
use crate::limits::{AWAY_PATIENCE, EAGER_LEN};
use crate::link::LinkError;
use gannet_meta::limits::{FILE_SIZE_MAX, LINKS_MAX};
use gannet_runtime::{Buffer, all, timeout};
use gannet_vfs::limits::NAME_MAX;
use gannet_vfs::{
    AccessMask, Attributes, ByteLock, BytesRead, Changed, Commit, CreateMode, Created, Credentials,
    DirectoryEntry, DirectoryPage, Entries, EntryName, FileHandle, FileKind, FileSystemLimits,
    FileSystemUsage, LockRequest, Locked, NodeKind, ReadReply, SetAttributes, Stability, Status,
    Time, Verifier, Vfs, Wcc, WriteDone, in_memory,
};
use gannet_wire::volume::{
    self as wire, AccessAnswer, Body, Call, Class, Entry, FileId, Found, Operation, Page, ROOT,
    SYMLINK_MAX,
};
use gannet_wire::xdr::{Decoder, from_bytes};
use std::collections::HashSet;
use std::ops::Range;

impl VolumeFs {
    /// The result of a change, with the attributes of a directory or file after it.
    fn changed<T>(&self, done: Result<(T, Found), Status>) -> Changed<T> {
        match done {
            Ok((result, found)) => Changed {
                result: Ok(result),
                wcc: Wcc {
                    before: None,
                    after: self.attributes_of(&found),
                },
            },
            Err(status) => Changed {
                result: Err(status),
                wcc: Wcc::default(),
            },
        }
    }

    /// The result of a transfer, with the file's attributes after it.
    async fn moved<T>(&self, file: &FileHandle, result: Result<T, Status>) -> Changed<T> {
        let after = if self.attributes && result.is_ok() {
            self.attributes(file).await.ok()
        } else {
            None
        };
        let wcc = Wcc {
            before: None,
            after,
        };
        Changed { result, wcc }
    }

    async fn make(
        &self,
        caller: &Credentials,
        directory: &FileHandle,
        call: impl FnOnce(FileId) -> Call,
    ) -> Changed<Created> {
        let made = async {
            let [found, inside] = self.find(caller, call(self.id(directory)?)).await?;
            Ok((self.created(&found), inside))
        };
        self.changed(made.await)
    }

    fn created(&self, found: &Found) -> Created {
        Created {
            handle: self.handle(found.id),
            attributes: self.attributes_of(found),
        }
    }

    async fn take_name(
        &self,
        caller: &Credentials,
        directory: &FileHandle,
        call: impl FnOnce(FileId) -> Call,
    ) -> Changed<()> {
        let done = async {
            let [inside] = self.find(caller, call(self.id(directory)?)).await?;
            Ok(((), inside))
        };
        self.changed(done.await)
    }

    /// The file of a name, and the directory.
    async fn look_up(
        &self,
        caller: &Credentials,
        directory: FileId,
        name: &[u8],
    ) -> Result<[Found; 2], Status> {
        let call = Call::Lookup {
            entry: entry_of(directory, name),
            wants_references: self.referenced.are_wanted(),
        };
        self.find_referenced(caller, call).await
    }

    /// The handle and the kind of the file at `path` (components below the root; symbolic links are not followed).
    ///
    /// # Errors
    /// As LOOKUP.
    pub async fn locate(
        &self,
        caller: &Credentials,
        path: &[&[u8]],
    ) -> Result<(FileHandle, FileKind), Status> {
        let (mut at, mut kind) = (ROOT, wire::FileKind::Directory);
        for name in path {
            let [found, _] = self.look_up(caller, at, name).await?;
            (at, kind) = (found.id, found.inode.kind());
        }
        Ok((self.handle(at), file_kind_of(kind)))
    }

    /// The page of a directory after `cookie`, with the files of its entries if `found`.
    async fn page(
        &self,
        caller: &Credentials,
        id: FileId,
        cookie: u64,
        found: bool,
    ) -> Result<Page, Status> {
        let call = Call::Readdirplus {
            directory: id,
            cookie,
            wants_files: found,
            wants_references: self.referenced.are_wanted(),
        };
        self.page_in(&self.ask(caller, call).await?)
    }

    /// The usage of the I/O servers' file systems together, without servers that are away. All are asked at once.
    ///
    /// # Errors
    /// The error of one of them, if none has an answer.
    async fn usage_of_all(&self) -> Result<FileSystemUsage, OperationError> {
        let answers = self.all_spaces().await.map_err(OperationError::Manager)?;
        let (mut usage, mut counted) = (FileSystemUsage::default(), HashSet::new());
        let mut least = u64::MAX;
        let mut failed = None;
        for answer in answers {
            match answer {
                // Several servers of a host may share a file system.
                Ok(IoServerSpace {
                    address,
                    device,
                    usage: own,
                }) if counted.insert((address.ip(), device)) => {
                    usage.bytes_total = usage.bytes_total.saturating_add(own.bytes_total);
                    usage.bytes_free = usage.bytes_free.saturating_add(own.bytes_free);
                    least = least.min(own.bytes_available);
                    // A file with stripes everywhere ends where the fullest disk does.
                    usage.bytes_available = least.saturating_mul(counted.len() as u64);
                }
                Ok(_) => {}
                Err(error) => failed = Some(error),
            }
        }
        match failed {
            Some(error) if counted.is_empty() => Err(error),
            Some(error) => {
                if let Some(left_out) = self.usage_log.admit(self.now()) {
                    tracing::warn!(%error, left_out, "the space of the volume without a server");
                }
                Ok(usage)
            }
            None => Ok(usage),
        }
    }

    /// The space of each I/O server, by its number. All are asked at once, and waited for a short time.
    ///
    /// # Errors
    /// The error of the connection to the manager, which knows how many there are. In the list: the error of an I/O
    /// server that does not answer.
    pub(super) async fn all_spaces(
        &self,
    ) -> Result<Vec<Result<IoServerSpace, OperationError>>, LinkError> {
        let count = self.servers.io_servers_count().await?;
        let asked = (0..count).map(|number| {
            Box::pin(async move {
                let asking = self.usage_of(number);
                let silent = |_| OperationError::IoServer {
                    number,
                    error: LinkError::TimedOut,
                };
                timeout(&self.runtime, AWAY_PATIENCE, asking)
                    .await
                    .map_err(silent)?
            })
        });
        Ok(all(asked).await)
    }

    async fn usage_of(&self, number: u32) -> Result<IoServerSpace, OperationError> {
        let away = |error| OperationError::IoServer { number, error };
        let link = self.servers.io_server(number).await.map_err(away)?;
        let address = link.endpoint().peer_address();
        let answer = link.call(Operation::Usage, Class::Metadata, &[], &[]).await;
        let answer = answer.map_err(away)?;
        if let Some(status) = status_of(&answer) {
            return Err(OperationError::Refused { number, status });
        }
        let mut decoder = Decoder::new(answer.body());
        let mut word = || decoder.u64().map_err(|_| OperationError::Nonsense(number));
        let usage = FileSystemUsage {
            bytes_total: word()?,
            bytes_free: word()?,
            bytes_available: word()?,
            ..FileSystemUsage::default()
        };
        Ok(IoServerSpace {
            address,
            usage,
            device: word()?,
        })
    }

    fn attributes_of_first(&self, found: &[Found]) -> Result<Attributes, Status> {
        let found = found.first().ok_or(Status::Serverfault)?;
        self.all_attributes_of(found)
    }
}

impl Vfs for VolumeFs {
    fn root(&self) -> FileHandle {
        self.handle(ROOT)
    }

    fn label(&self, file: &FileHandle) -> Option<Vec<u8>> {
        Some(format!("file {}", self.id(file).ok()?.0).into_bytes())
    }

    async fn resolve(&self, cred: &Credentials, path: &[&[u8]]) -> Result<FileHandle, Status> {
        match self.locate(cred, path).await? {
            (handle, FileKind::Directory) => Ok(handle),
            _ => Err(Status::Notdir),
        }
    }

    async fn attributes(&self, file: &FileHandle) -> Result<Attributes, Status> {
        self.stat(self.id(file)?).await
    }

    async fn set_attributes(
        &self,
        cred: &Credentials,
        file: &FileHandle,
        change: &SetAttributes,
        guard: Option<Time>,
    ) -> Changed<()> {
        let set = async {
            let found = self
                .set(
                    cred,
                    self.id(file)?,
                    &changes_of(change),
                    guard.map(timestamp_of),
                )
                .await?;
            Ok(((), found))
        };
        self.changed(set.await)
    }

    async fn lookup(
        &self,
        cred: &Credentials,
        directory: &FileHandle,
        name: &[u8],
    ) -> (Result<(FileHandle, Attributes), Status>, Option<Attributes>) {
        let found = async {
            let [found, inside] = self.look_up(cred, self.id(directory)?, name).await?;
            let attributes = self.all_attributes_of(&found)?;
            Ok((
                (self.handle(found.id), attributes),
                self.attributes_of(&inside),
            ))
        };
        match found.await {
            Ok((found, inside)) => (Ok(found), inside),
            Err(status) => (Err(status), None),
        }
    }

    async fn access(
        &self,
        cred: &Credentials,
        file: &FileHandle,
        wanted: AccessMask,
    ) -> Result<(AccessMask, Attributes), Status> {
        let answer = self
            .ask(
                cred,
                Call::Access {
                    file: self.id(file)?,
                    wanted: wire::AccessMask(wanted.0),
                },
            )
            .await?;
        let answer: AccessAnswer = from_bytes(answer.body()).map_err(|_| Status::Serverfault)?;
        let granted = AccessMask(answer.granted.0);
        Ok((granted, self.attributes_of_first(&answer.found.files)?))
    }

    async fn read_link(
        &self,
        cred: &Credentials,
        file: &FileHandle,
    ) -> Result<(Vec<u8>, Attributes), Status> {
        let id = self.id(file)?;
        let [found] = self.find(cred, Call::Readlink { file: id }).await?;
        let attributes = self.all_attributes_of(&found)?;
        match found.inode.body {
            Body::Symlink(text) => Ok((text, attributes)),
            _ => Err(Status::Serverfault),
        }
    }

    async fn read(
        &self,
        cred: &Credentials,
        file: &FileHandle,
        offset: u64,
        count: u32,
    ) -> Result<ReadReply, Status> {
        // The reply has only the bytes that were read: the rest of the memory has those of its last user.
        let mut buffer = if count > EAGER_LEN {
            self.memory(count as usize)
        } else {
            Buffer::zeroed(count as usize)
        };
        let range = ByteRange { offset, count };
        let read = self.read_all(cred, self.id(file)?, range, &mut buffer);
        let read = read.await?;
        Ok(ReadReply {
            file: in_memory(offset, buffer, read.count as usize),
            count: read.count,
            eof: read.eof,
            attributes: read.attributes,
        })
    }

    async fn read_into(
        &self,
        cred: &Credentials,
        file: &FileHandle,
        offset: u64,
        count: u32,
        mut buffer: Buffer,
    ) -> (Result<BytesRead, Status>, Option<Buffer>) {
        let count = count.min(u32::try_from(buffer.len()).unwrap_or(u32::MAX));
        let range = ByteRange { offset, count };
        let read = self.read_at(cred, file, range, &mut buffer);
        (read.await, Some(buffer))
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
        // Lengths of buffers fit: they are bounded by the protocols above.
        let len = u32::try_from(range.len()).unwrap_or(u32::MAX);
        let (start, mut data) = (range.start as u64, data);
        let part = BufferPart {
            buffer: &mut data,
            start,
            len,
        };
        let written = self.write_part(cred, file, offset, part, stability).await;
        (self.moved(file, written).await, Some(data))
    }

    fn is_coordinated(&self) -> bool {
        true
    }

    async fn lock(
        &self,
        cred: &Credentials,
        file: &FileHandle,
        lock: &ByteLock,
        request: LockRequest,
    ) -> Result<Locked, Status> {
        self.lock_bytes(cred, file, lock, request).await
    }

    async fn keep(&self, file: &FileHandle) -> Result<(), Status> {
        self.keep_file(file).await
    }

    async fn let_go(&self, file: &FileHandle, may_have_name: bool) {
        self.let_file_go(file, may_have_name).await;
    }

    /// Without this, the manager believes for the age of a grant that files may still be written. Meanwhile it refuses
    /// set-user-ID bits of other users, and asks servers for sizes.
    async fn rest(&self) {
        // A manager that is away learns it by the age of the grants.
        let _ = timeout(&self.runtime, AWAY_PATIENCE, self.leases.give_back_idle()).await;
    }

    async fn append(
        &self,
        cred: &Credentials,
        file: &FileHandle,
        at_least: u64,
        mut data: Buffer,
        len: usize,
        stability: Stability,
    ) -> (Result<(u64, WriteDone), Status>, Buffer) {
        // Lengths of buffers fit: they are bounded by the protocols above.
        let len = u32::try_from(len).unwrap_or(u32::MAX);
        let appended = self.append_bytes(cred, file, at_least, len, &mut data, stability);
        (appended.await, data)
    }

    async fn commit(
        &self,
        cred: &Credentials,
        file: &FileHandle,
        _offset: u64,
        _count: u32,
    ) -> Changed<Commit> {
        let committed = async {
            let verifier = self.make_durable(cred, self.id(file)?).await?;
            Ok(Commit { verifier })
        };
        let committed = committed.await;
        self.moved(file, committed).await
    }

    async fn create(
        &self,
        cred: &Credentials,
        directory: &FileHandle,
        name: &[u8],
        mode: &CreateMode,
    ) -> Changed<Created> {
        let made = async {
            let entry = entry_of(self.id(directory)?, name);
            let [found, inside] = self.open(cred, entry, &create_mode_of(mode)).await?;
            Ok((self.created(&found), inside))
        };
        self.changed(made.await)
    }

    async fn make_directory(
        &self,
        cred: &Credentials,
        directory: &FileHandle,
        name: &[u8],
        attributes: &SetAttributes,
    ) -> Changed<Created> {
        self.make(cred, directory, |id| Call::Mkdir {
            entry: entry_of(id, name),
            attributes: changes_of(attributes),
        })
        .await
    }

    async fn make_symlink(
        &self,
        cred: &Credentials,
        directory: &FileHandle,
        name: &[u8],
        target: &[u8],
        attributes: &SetAttributes,
    ) -> Changed<Created> {
        if target.len() > SYMLINK_MAX {
            // A longer target may not fit a request.
            return self.changed(Err(Status::Nametoolong));
        }
        let call = |id| Call::Symlink {
            entry: entry_of(id, name),
            text: target.to_vec(),
            attributes: changes_of(attributes),
        };
        self.make(cred, directory, call).await
    }

    async fn make_node(
        &self,
        cred: &Credentials,
        directory: &FileHandle,
        name: &[u8],
        kind: NodeKind,
        attributes: &SetAttributes,
    ) -> Changed<Created> {
        let call = |id| Call::Mknod {
            entry: entry_of(id, name),
            kind: node_kind_of(kind),
            attributes: changes_of(attributes),
        };
        self.make(cred, directory, call).await
    }

    async fn remove(&self, cred: &Credentials, directory: &FileHandle, name: &[u8]) -> Changed<()> {
        self.take_name(cred, directory, |id| Call::Remove {
            entry: entry_of(id, name),
        })
        .await
    }

    async fn remove_directory(
        &self,
        cred: &Credentials,
        directory: &FileHandle,
        name: &[u8],
    ) -> Changed<()> {
        self.take_name(cred, directory, |id| Call::Rmdir {
            entry: entry_of(id, name),
        })
        .await
    }

    async fn rename(
        &self,
        cred: &Credentials,
        from: EntryName<'_>,
        to: EntryName<'_>,
    ) -> (Result<(), Status>, Wcc, Wcc) {
        let renamed = async {
            let from = entry_of(self.id(from.directory)?, from.name);
            let to = entry_of(self.id(to.directory)?, to.name);
            self.find(cred, Call::Rename { from, to }).await
        };
        match renamed.await {
            Ok([from, to]) => {
                let left = self.changed(Ok(((), from)));
                (left.result, left.wcc, self.changed(Ok(((), to))).wcc)
            }
            Err(status) => (Err(status), Wcc::default(), Wcc::default()),
        }
    }

    async fn link(
        &self,
        cred: &Credentials,
        file: &FileHandle,
        directory: &FileHandle,
        name: &[u8],
    ) -> (Changed<()>, Option<Attributes>) {
        let linked = async {
            let entry = entry_of(self.id(directory)?, name);
            let call = Call::Link {
                file: self.id(file)?,
                entry,
            };
            let [found, inside] = self.find(cred, call).await?;
            Ok((self.attributes_of(&found), inside))
        };
        match linked.await {
            Ok((attributes, inside)) => (self.changed(Ok(((), inside))), attributes),
            Err(status) => (self.changed(Err(status)), None),
        }
    }

    async fn read_directory(
        &self,
        cred: &Credentials,
        directory: &FileHandle,
        cookie: u64,
        _verifier: Verifier,
        entries: &mut dyn Entries,
    ) -> Result<DirectoryPage, Status> {
        let id = self.id(directory)?;
        let (mut at, mut complete, mut full) = (cookie, false, false);
        let mut attributes = None;
        while !complete && !full {
            let wanted = entries.wants_objects();
            let page = self.page(cred, id, at, wanted).await?;
            // Without this, a page that is empty and not the last would be asked for again and again.
            if page.entries.is_empty() && !page.complete {
                return Err(Status::Serverfault);
            }
            attributes = self.attributes_of(&page.directory);
            complete = page.complete;
            for listed in page.entries {
                let found = listed.found.as_ref();
                let object = found.and_then(|found| {
                    let attributes = self.attributes_of(found)?;
                    Some((self.handle(found.id), attributes))
                });
                let entry = DirectoryEntry {
                    fileid: listed.id.0,
                    name: &listed.name,
                    cookie: listed.cookie,
                    object,
                };
                if !entries.push(&entry) {
                    full = true;
                    break;
                }
                at = listed.cookie;
            }
        }
        Ok(DirectoryPage {
            attributes: attributes.ok_or(Status::Serverfault)?,
            eof: complete && !full,
            verifier: Verifier::default(),
        })
    }

    async fn usage(&self, file: &FileHandle) -> Result<FileSystemUsage, Status> {
        self.id(file)?;
        let began = self.now();
        let mut usage = loop {
            match self.usage_of_all().await {
                Ok(usage) => break usage,
                Err(error) => self.pause(began, &error).await?,
            }
        };
        // The manager's store has no bound of files but the disk.
        usage.files_total = u64::MAX;
        usage.files_free = u64::MAX;
        usage.files_available = u64::MAX;
        Ok(usage)
    }

    fn limits(&self) -> FileSystemLimits {
        FileSystemLimits {
            file_size_max: FILE_SIZE_MAX,
            link_max: LINKS_MAX,
            name_max: u32::try_from(NAME_MAX).unwrap_or(u32::MAX),
            time_delta: Time {
                seconds: 0,
                nanoseconds: 1,
            },
        }
    }

    fn cause(&self, status: Status) -> Option<String> {
        self.last_error.why(status)
    }

    fn write_verifier(&self) -> Verifier {
        self.siblings.verifier.current()
    }
}

fn entry_of(directory: FileId, name: &[u8]) -> Entry {
    Entry {
        directory,
        name: name.to_vec(),
    }
}
