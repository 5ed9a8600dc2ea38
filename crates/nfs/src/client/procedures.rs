//! The procedures of NFSv3, one method each, in the order of their numbers.

use super::{Client, Error, Patience, good, is_busy, results};
use crate::convert::{
    attributes_from_wire, set_attributes_to_wire, stability_from_wire, stability_to_wire,
    time_to_wire,
};
use gannet_rpc::Sink;
use gannet_runtime::Buffer;
use gannet_vfs::{
    AccessMask, Attributes, CreateMode, EntryName, FileHandle, FileKind, FileSystemUsage, NodeKind,
    SetAttributes, Stability, Status, Time, Verifier,
};
use gannet_wire::nfs3::{self, DirectoryName, Name, NfsProcedure};
use gannet_wire::xdr::{Decode, Decoder, Encode};

/// The object that a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// The object's handle.
    pub handle: FileHandle,
    /// Its attributes, if the server sent them along.
    pub attributes: Option<Attributes>,
}

/// The result of a READ.
#[derive(Debug)]
pub struct ReadDone {
    /// The caller's memory; the data is at its start.
    pub buffer: Buffer,
    /// Bytes read: at most those of the call.
    pub count: u32,
    /// The last of them is the last of the file.
    pub eof: bool,
    /// The file's attributes, if the server sent them along.
    pub attributes: Option<Attributes>,
}

/// The result of a WRITE.
#[derive(Debug)]
pub struct WriteOutcome {
    /// The caller's memory.
    pub buffer: Buffer,
    /// Bytes written: at most those of the call, and at least one unless the call had none.
    pub count: u32,
    /// How durable they are.
    pub committed: Stability,
    /// The write verifier of the server's present incarnation.
    pub verifier: Verifier,
    /// The file's attributes afterwards, if the server sent them along.
    pub attributes: Option<Attributes>,
}

/// The result of a COMMIT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Committed {
    /// The write verifier. WRITEs that returned another one may be lost.
    pub verifier: Verifier,
    /// The file's attributes afterwards, if the server sent them along.
    pub attributes: Option<Attributes>,
}

/// A handle as NFSv3 has it.
///
/// # Errors
/// [`Error::LongHandle`]: no NFSv3 server has given it.
pub(super) fn wire(handle: &FileHandle) -> Result<nfs3::FileHandle<'_>, Error> {
    let bytes = handle.as_bytes();
    if bytes.len() > nfs3::HANDLE_MAX {
        return Err(Error::LongHandle);
    }
    Ok(nfs3::FileHandle(bytes))
}

fn at<'a>(directory: &'a FileHandle, name: &'a [u8]) -> Result<DirectoryName<'a>, Error> {
    Ok(DirectoryName {
        directory: wire(directory)?,
        name: Name(name),
    })
}

fn owned(handle: nfs3::FileHandle<'_>) -> Result<FileHandle, Error> {
    FileHandle::new(handle.0).ok_or(Error::Malformed("empty handle"))
}

/// Where READ's data begins, for the transport: behind its length word.
fn locate_read_data(prefix: &[u8]) -> Option<usize> {
    let mut decoder = Decoder::new(prefix);
    let head = nfs3::ReadHeadResult::decode(&mut decoder).ok()?;
    head.is_ok().then(|| decoder.position())
}

impl Client {
    /// NULL: does nothing, and proves that the server answers.
    ///
    /// # Errors
    /// [`Error::Call`]: no answer.
    pub async fn null(&self) -> Result<(), Error> {
        self.call(self.request(NfsProcedure::Null, 0)).await?;
        Ok(())
    }

    /// GETATTR.
    ///
    /// # Errors
    /// Any [`Error`], here and in all methods below: [`Error::Status`] with the server's status, else the other
    /// variants.
    pub async fn getattr(&self, object: &FileHandle) -> Result<Attributes, Error> {
        let bytes = self
            .exchange(NfsProcedure::Getattr, &wire(object)?, 0)
            .await?;
        let attributes = good(results::<nfs3::GetattrResult>(&bytes)?)?;
        Ok(attributes_from_wire(&attributes))
    }

    /// SETATTR; with a `guard`, only if that is the object's change time. Gives the attributes afterwards, if the
    /// server sent them along.
    pub async fn setattr(
        &self,
        object: &FileHandle,
        change: &SetAttributes,
        guard: Option<Time>,
    ) -> Result<Option<Attributes>, Error> {
        let arguments = nfs3::SetattrArgs {
            object: wire(object)?,
            change: set_attributes_to_wire(change)?,
            guard: guard.map(time_to_wire),
        };
        let bytes = self.exchange(NfsProcedure::Setattr, &arguments, 0).await?;
        let wcc = good(results::<nfs3::SetattrResult>(&bytes)?)?;
        Ok(wcc.after.as_ref().map(attributes_from_wire))
    }

    /// LOOKUP.
    pub async fn lookup(&self, directory: &FileHandle, name: &[u8]) -> Result<Found, Error> {
        let bytes = self
            .exchange(NfsProcedure::Lookup, &at(directory, name)?, 0)
            .await?;
        let found = good(results::<nfs3::LookupResult<'_>>(&bytes)?)?;
        Ok(Found {
            handle: owned(found.object)?,
            attributes: found.attributes.as_ref().map(attributes_from_wire),
        })
    }

    /// ACCESS: the subset of `wanted` that the caller has.
    pub async fn access(
        &self,
        object: &FileHandle,
        wanted: AccessMask,
    ) -> Result<AccessMask, Error> {
        let arguments = nfs3::AccessArgs {
            object: wire(object)?,
            access: wanted.0,
        };
        let bytes = self.exchange(NfsProcedure::Access, &arguments, 0).await?;
        let granted = good(results::<nfs3::AccessResult>(&bytes)?)?;
        Ok(AccessMask(granted.access & wanted.0))
    }

    /// READLINK.
    pub async fn readlink(&self, link: &FileHandle) -> Result<Vec<u8>, Error> {
        let room = nfs3::PATH_MAX as u32;
        let bytes = self
            .exchange(NfsProcedure::Readlink, &wire(link)?, room)
            .await?;
        let read = good(results::<nfs3::ReadlinkResult<'_>>(&bytes)?)?;
        Ok(read.target.0.to_vec())
    }

    /// READ: at most `count` bytes, no more than the buffer has, into its start. A failed call keeps the buffer.
    pub async fn read(
        &self,
        file: &FileHandle,
        offset: u64,
        count: u32,
        mut buffer: Buffer,
    ) -> Result<ReadDone, Error> {
        let count = count.min(u32::try_from(buffer.len()).unwrap_or(u32::MAX));
        let mut patience = Patience::default();
        loop {
            let mut request = self.request(NfsProcedure::Read, 0);
            let file = wire(file)?;
            nfs3::ReadArgs {
                file,
                offset,
                count,
            }
            .encode(&mut request.arguments());
            request.sink = Some(Sink {
                buffer,
                locate: locate_read_data,
            });
            let response = self.call(request).await?;
            let busy = is_busy(&response);
            let (returned, placed) = response
                .sink
                .ok_or(Error::Malformed("READ without its buffer"))?;
            if busy && patience.pause(&self.runtime).await {
                buffer = returned;
                continue;
            }
            let head = good(results::<nfs3::ReadHeadResult>(&response.results)?)?;
            if head.count != head.length || placed != head.count as usize {
                return Err(Error::Malformed("READ with another count than data"));
            }
            if head.count > count {
                return Err(Error::Malformed("READ returned more than was asked for"));
            }
            return Ok(ReadDone {
                buffer: returned,
                count: head.count,
                eof: head.eof,
                attributes: head.attributes.as_ref().map(attributes_from_wire),
            });
        }
    }

    /// WRITE of the first `len` bytes of `buffer` at `offset`. A failed call keeps the buffer.
    pub async fn write(
        &self,
        file: &FileHandle,
        offset: u64,
        mut buffer: Buffer,
        len: u32,
        stability: Stability,
    ) -> Result<WriteOutcome, Error> {
        let count = len.min(u32::try_from(buffer.len()).unwrap_or(u32::MAX));
        let mut patience = Patience::default();
        loop {
            let mut request = self.request(NfsProcedure::Write, 0);
            let mut arguments = request.arguments();
            wire(file)?.encode(&mut arguments);
            arguments.u64(offset);
            arguments.u32(count);
            stability_to_wire(stability).encode(&mut arguments);
            request.put_payload(buffer, count as usize);
            let response = self.call(request).await?;
            let busy = is_busy(&response);
            let returned = response
                .payload
                .ok_or(Error::Malformed("WRITE without its buffer"))?;
            if busy && patience.pause(&self.runtime).await {
                buffer = returned;
                continue;
            }
            let done = good(results::<nfs3::WriteResult>(&response.results)?)?;
            if done.count > count || (done.count == 0 && count > 0) {
                return Err(Error::Malformed("WRITE of an impossible count"));
            }
            let committed = stability_from_wire(done.committed);
            if committed < stability {
                return Err(Error::Malformed("WRITE less durable than asked for"));
            }
            return Ok(WriteOutcome {
                buffer: returned,
                count: done.count,
                committed,
                verifier: done.verifier,
                attributes: done.wcc.after.as_ref().map(attributes_from_wire),
            });
        }
    }

    /// CREATE.
    pub async fn create(
        &self,
        directory: &FileHandle,
        name: &[u8],
        mode: &CreateMode,
    ) -> Result<Found, Error> {
        let how = match mode {
            CreateMode::Unchecked(set) => nfs3::CreateHow::Unchecked(set_attributes_to_wire(set)?),
            CreateMode::Guarded(set) => nfs3::CreateHow::Guarded(set_attributes_to_wire(set)?),
            CreateMode::Exclusive(verifier) => nfs3::CreateHow::Exclusive(*verifier),
        };
        let place = at(directory, name)?;
        let arguments = nfs3::CreateArgs { place, how };
        let bytes = self.exchange(NfsProcedure::Create, &arguments, 0).await?;
        self.made(&bytes, directory, name).await
    }

    /// MKDIR. See [`Client::forgiving_echoes`]: the echo is a directory of that name.
    pub async fn mkdir(
        &self,
        directory: &FileHandle,
        name: &[u8],
        attributes: &SetAttributes,
    ) -> Result<Found, Error> {
        let arguments = nfs3::MkdirArgs {
            place: at(directory, name)?,
            attributes: set_attributes_to_wire(attributes)?,
        };
        let entry = EntryName::new(directory, name);
        let is_it =
            async |_: &FileHandle, there: &Attributes| Ok(there.kind == FileKind::Directory);
        self.make_once(NfsProcedure::Mkdir, &arguments, entry, is_it)
            .await
    }

    /// SYMLINK. See [`Client::forgiving_echoes`]: the echo is a symbolic link of that name to the same target.
    pub async fn symlink(
        &self,
        directory: &FileHandle,
        name: &[u8],
        target: &[u8],
        attributes: &SetAttributes,
    ) -> Result<Found, Error> {
        let arguments = nfs3::SymlinkArgs {
            place: at(directory, name)?,
            attributes: set_attributes_to_wire(attributes)?,
            target: nfs3::Path(target),
        };
        let is_it = async |link: &FileHandle, there: &Attributes| {
            Ok(there.kind == FileKind::Symlink && self.readlink(link).await? == target)
        };
        let entry = EntryName::new(directory, name);
        self.make_once(NfsProcedure::Symlink, &arguments, entry, is_it)
            .await
    }

    /// MKNOD. See [`Client::forgiving_echoes`]: the echo is a node of that name and kind.
    pub async fn mknod(
        &self,
        directory: &FileHandle,
        name: &[u8],
        kind: NodeKind,
        attributes: &SetAttributes,
    ) -> Result<Found, Error> {
        let set = set_attributes_to_wire(attributes)?;
        let what = match kind {
            NodeKind::BlockDevice { major, minor } => nfs3::MknodData::BlockDevice {
                attributes: set,
                device: nfs3::Device { major, minor },
            },
            NodeKind::CharacterDevice { major, minor } => nfs3::MknodData::CharacterDevice {
                attributes: set,
                device: nfs3::Device { major, minor },
            },
            NodeKind::Socket => nfs3::MknodData::Socket(set),
            NodeKind::Fifo => nfs3::MknodData::Fifo(set),
        };
        let place = at(directory, name)?;
        let arguments = nfs3::MknodArgs { place, what };
        let numbers = match kind {
            NodeKind::BlockDevice { major, minor } | NodeKind::CharacterDevice { major, minor } => {
                Some((major, minor))
            }
            NodeKind::Socket | NodeKind::Fifo => None,
        };
        let is_it = async |_: &FileHandle, there: &Attributes| {
            Ok(there.kind == kind.kind() && numbers.is_none_or(|it| it == there.device))
        };
        let entry = EntryName::new(directory, name);
        self.make_once(NfsProcedure::Mknod, &arguments, entry, is_it)
            .await
    }

    /// The common part of MKDIR, SYMLINK and MKNOD. If a repeated call finds the name taken by the very object that it
    /// was to make, the first transmission made it.
    async fn make_once(
        &self,
        procedure: NfsProcedure,
        arguments: &impl Encode,
        entry: EntryName<'_>,
        is_it: impl AsyncFnOnce(&FileHandle, &Attributes) -> Result<bool, Error>,
    ) -> Result<Found, Error> {
        let EntryName { directory, name } = entry;
        let answer = self.exchange_change(procedure, arguments, 0).await?;
        match self.made(&answer.results, directory, name).await {
            Err(refused) if answer.is_echo(&refused, Status::Exist) => {
                let there = async {
                    let (handle, attributes) = self.find(directory, name).await?;
                    let is_it = is_it(&handle, &attributes).await?;
                    let attributes = Some(attributes);
                    Ok(is_it.then_some(Found { handle, attributes }))
                };
                answered(there.await, None)?.ok_or(refused)
            }
            made => made,
        }
    }

    /// LOOKUP, and GETATTR if that returns no attributes.
    pub(super) async fn find(
        &self,
        directory: &FileHandle,
        name: &[u8],
    ) -> Result<(FileHandle, Attributes), Error> {
        let found = self.lookup(directory, name).await?;
        let attributes = match found.attributes {
            Some(attributes) => attributes,
            None => self.getattr(&found.handle).await?,
        };
        Ok((found.handle, attributes))
    }

    /// The object that was made. Servers may leave the new handle out; then it is looked up.
    async fn made(
        &self,
        bytes: &[u8],
        directory: &FileHandle,
        name: &[u8],
    ) -> Result<Found, Error> {
        let made = good(results::<nfs3::CreateResult<'_>>(bytes)?)?;
        match made.object {
            Some(handle) => Ok(Found {
                handle: owned(handle)?,
                attributes: made.attributes.as_ref().map(attributes_from_wire),
            }),
            None => self.lookup(directory, name).await,
        }
    }

    /// REMOVE. See [`Client::forgiving_echoes`].
    pub async fn remove(&self, directory: &FileHandle, name: &[u8]) -> Result<(), Error> {
        let answer = self
            .exchange_change(NfsProcedure::Remove, &at(directory, name)?, 0)
            .await?;
        let removed = good(results::<nfs3::RemoveResult>(&answer.results)?);
        answer.done_or_echo(removed.map(|_| ()), Status::Noent)
    }

    /// RMDIR; as [`Client::remove`].
    pub async fn rmdir(&self, directory: &FileHandle, name: &[u8]) -> Result<(), Error> {
        let answer = self
            .exchange_change(NfsProcedure::Rmdir, &at(directory, name)?, 0)
            .await?;
        let removed = good(results::<nfs3::RmdirResult>(&answer.results)?);
        answer.done_or_echo(removed.map(|_| ()), Status::Noent)
    }

    /// RENAME, from directory and name to directory and name. See [`Client::forgiving_echoes`]: the echo is that the
    /// old name does not exist and the new one does.
    pub async fn rename(&self, from: EntryName<'_>, to: EntryName<'_>) -> Result<(), Error> {
        let arguments = nfs3::RenameArgs {
            from: at(from.directory, from.name)?,
            to: at(to.directory, to.name)?,
        };
        let answer = self
            .exchange_change(NfsProcedure::Rename, &arguments, 0)
            .await?;
        let moved = good(results::<nfs3::RenameResult>(&answer.results)?).map(|_| ());
        match moved {
            Err(refused) if answer.is_echo(&refused, Status::Noent) => {
                let moved = self.lookup(to.directory, to.name).await.map(|_| true);
                if answered(moved, false)? {
                    Ok(())
                } else {
                    Err(refused)
                }
            }
            moved => moved,
        }
    }

    /// LINK. See [`Client::forgiving_echoes`]: the echo is that the name stands for the file.
    pub async fn link(
        &self,
        file: &FileHandle,
        directory: &FileHandle,
        name: &[u8],
    ) -> Result<(), Error> {
        let arguments = nfs3::LinkArgs {
            file: wire(file)?,
            place: at(directory, name)?,
        };
        let answer = self
            .exchange_change(NfsProcedure::Link, &arguments, 0)
            .await?;
        let linked = good(results::<nfs3::LinkResult>(&answer.results)?).map(|_| ());
        match linked {
            Err(refused) if answer.is_echo(&refused, Status::Exist) => {
                // Handles of one file may differ.
                let is_it = async {
                    let (_, there) = self.find(directory, name).await?;
                    let ours = self.getattr(file).await?;
                    Ok((there.fsid, there.fileid) == (ours.fsid, ours.fileid))
                };
                if answered(is_it.await, false)? {
                    Ok(())
                } else {
                    Err(refused)
                }
            }
            linked => linked,
        }
    }

    /// FSSTAT.
    pub async fn fsstat(&self, object: &FileHandle) -> Result<FileSystemUsage, Error> {
        let bytes = self
            .exchange(NfsProcedure::Fsstat, &wire(object)?, 0)
            .await?;
        let usage = good(results::<nfs3::FsstatResult>(&bytes)?)?;
        Ok(FileSystemUsage {
            bytes_total: usage.bytes_total,
            bytes_free: usage.bytes_free,
            bytes_available: usage.bytes_available,
            files_total: usage.files_total,
            files_free: usage.files_free,
            files_available: usage.files_available,
        })
    }

    /// FSINFO.
    pub async fn fsinfo(&self, object: &FileHandle) -> Result<nfs3::FsinfoOk, Error> {
        let bytes = self
            .exchange(NfsProcedure::Fsinfo, &wire(object)?, 0)
            .await?;
        good(results::<nfs3::FsinfoResult>(&bytes)?)
    }

    /// PATHCONF.
    pub async fn pathconf(&self, object: &FileHandle) -> Result<nfs3::PathconfOk, Error> {
        let bytes = self
            .exchange(NfsProcedure::Pathconf, &wire(object)?, 0)
            .await?;
        good(results::<nfs3::PathconfResult>(&bytes)?)
    }

    /// COMMIT; `count` 0 means to the end.
    pub async fn commit(
        &self,
        file: &FileHandle,
        offset: u64,
        count: u32,
    ) -> Result<Committed, Error> {
        let file = wire(file)?;
        let arguments = nfs3::CommitArgs {
            file,
            offset,
            count,
        };
        let bytes = self.exchange(NfsProcedure::Commit, &arguments, 0).await?;
        let done = good(results::<nfs3::CommitResult>(&bytes)?)?;
        Ok(Committed {
            verifier: done.verifier,
            attributes: done.wcc.after.as_ref().map(attributes_from_wire),
        })
    }
}

/// The answer of a server, or `otherwise` when the object does not exist. All other errors stay errors.
fn answered<T>(answer: Result<T, Error>, otherwise: T) -> Result<T, Error> {
    match answer.as_ref().err().and_then(Error::status) {
        Some(Status::Noent | Status::Stale | Status::Notdir) => Ok(otherwise),
        _ => answer,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_too_long_for_nfs3_is_refused_and_not_cut() {
        let handle = |len| FileHandle::new(&vec![7; len]).unwrap();
        let longest = handle(nfs3::HANDLE_MAX);
        assert_eq!(wire(&longest).unwrap().0, [7; nfs3::HANDLE_MAX]);
        let longer = handle(nfs3::HANDLE_MAX + 1);
        assert!(matches!(wire(&longer), Err(Error::LongHandle)));
        assert!(matches!(at(&longer, b"name"), Err(Error::LongHandle)));
        assert!(FileHandle::new(&[7; 129]).is_none());
    }
}
