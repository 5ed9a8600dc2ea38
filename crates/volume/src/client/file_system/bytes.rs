//! Bytes between a file and memory of the caller's.

use super::guards::ChangeGuard;
use super::{VolumeFs, shape, size_of};
use crate::client::change_locks::LockRange;
use crate::client::data::{DataError, Request, States, Target, accepted};
use crate::client::error::OperationError;
use crate::client::leases::{Lease, Writing};
use crate::client::written::{Asked, WriteOutcome};
use crate::client::{PinDownCounters, RegisteredMemory};
use crate::convert::stability_of;
use crate::link::Link;
use gannet_fabric::{DeregisterError, RegisterError};
use gannet_meta::limits::FILE_SIZE_MAX;
use gannet_runtime::{Buffer, Instant, LocalFuture, SlotId, all, both};
use gannet_vfs::{
    Attributes, BytesRead, Credentials, FileHandle, Stability, Status, Verifier, WriteDone,
};
use gannet_wire::volume::{
    Capability, Class, FileId, ObjectRange, ObjectState, Operation, Placement, Shape,
};
use gannet_wire::xdr::{from_bytes, to_bytes};
use std::pin::pin;
use std::slice;

/// Bytes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::client) struct ByteRange {
    pub(in crate::client) offset: u64,
    pub(in crate::client) count: u32,
}

impl ByteRange {
    fn end(self) -> u64 {
        self.offset.saturating_add(u64::from(self.count))
    }

    /// As many of these bytes as a file of this size has.
    fn within(self, size: u64) -> ByteRange {
        let left = u32::try_from(size.saturating_sub(self.offset)).unwrap_or(u32::MAX);
        ByteRange {
            count: self.count.min(left),
            ..self
        }
    }
}

/// The end of a successful read.
pub(super) struct ReadDone {
    /// Bytes that were read.
    pub(super) count: u32,
    /// Whether they reach the end of the file.
    pub(super) eof: bool,
    /// May be old if none are asked for.
    pub(super) attributes: Attributes,
}

impl ReadDone {
    fn of(range: ByteRange, attributes: Attributes) -> ReadDone {
        ReadDone {
            count: range.count,
            eof: range.end() >= attributes.size,
            attributes,
        }
    }
}

/// Bytes of a buffer.
pub(super) struct BufferPart<'a> {
    pub(super) buffer: &'a mut Buffer,
    pub(super) start: u64,
    pub(super) len: u32,
}

/// The bytes of a transfer: pieces of a file, and as many bytes of memory. Several allocations count as one behind the
/// other.
pub(in crate::client) struct TransferShapes {
    pub(in crate::client) file: Shape,
    pub(in crate::client) memory: Shape,
}

/// The memory of a transfer.
pub(in crate::client) enum ClientMemory<'a> {
    /// Allocations that are registered for the transfer where they must be.
    Own(&'a mut [Buffer]),
    /// Memory that stays registered.
    Registered(&'a RegisteredMemory),
}

impl<'a> From<&'a mut Buffer> for ClientMemory<'a> {
    fn from(buffer: &'a mut Buffer) -> ClientMemory<'a> {
        ClientMemory::Own(slice::from_mut(buffer))
    }
}

/// A transfer between a file and memory, over all attempts.
pub(super) enum Moving<'a> {
    Read,
    Write(MovingWrite<'a>),
}

/// A write, over all attempts.
pub(super) struct MovingWrite<'a> {
    /// The durability that the caller demands.
    pub(super) stability: Stability,
    /// The lock of the written bytes; `None`: the caller locks them, or nobody does.
    pub(super) guard: Option<&'a ChangeGuard>,
    /// Keeps the file's grants from being given back between attempts.
    pub(super) writing: Writing,
}

/// The replies of a file's I/O servers to one transfer, together.
pub(super) struct Transferred {
    /// The least size of the file in bytes, by its objects' sizes.
    pub(super) proven_size: u64,
    /// The verifier of a write.
    pub(super) verifier: Verifier,
}

impl VolumeFs {
    /// Reads the bytes of a range of a file, as many as it has, into the start of `buffer`, which has room for them.
    /// Servers place them there by RDMA. On an error the buffer's content is unknown.
    ///
    /// # Errors
    /// As READ of NFSv3; `Jukebox` when servers were away for longer than [`VolumeFs::patient`] says.
    pub(in crate::client) async fn read_at(
        &self,
        caller: &Credentials,
        file: &FileHandle,
        range: ByteRange,
        buffer: &mut Buffer,
    ) -> Result<BytesRead, Status> {
        let read = self.read_all(caller, self.id(file)?, range, buffer).await?;
        Ok(BytesRead {
            count: read.count,
            eof: read.eof,
            attributes: self.attributes.then_some(read.attributes),
        })
    }

    /// As [`VolumeFs::read_at`].
    ///
    /// Bytes are real up to a size that was asked for before them, or that their own servers report. So the attributes
    /// are asked for at the same time, in the belief that the file is as long as it was.
    pub(super) async fn read_all(
        &self,
        caller: &Credentials,
        id: FileId,
        range: ByteRange,
        buffer: &mut Buffer,
    ) -> Result<ReadDone, Status> {
        let seen = self.seen.borrow().get(&id).copied();
        let believed = range.within(seen.map_or(0, |seen| seen.size));
        if let Some(seen) = seen
            && !self.attributes
            && believed.count > 0
            && believed == range
        {
            let proven = self.read_some(caller, id, range, buffer).await?;
            if range.end() <= proven {
                let size = seen.size.max(proven);
                return Ok(ReadDone {
                    count: range.count,
                    eof: false,
                    attributes: Attributes { size, ..seen },
                });
            }
        } else if believed.count > 0 {
            let reading = self.read_some(caller, id, believed, buffer);
            let (proven, attributes) = both(reading, self.stat(id)).await;
            let (proven, attributes) = (proven?, attributes?);
            let there = range.within(attributes.size);
            // Bytes beyond `proven` may be zeros of objects that were shorter when they were read: they must be read
            // again, after the size.
            if there.count <= believed.count && there.end() <= proven {
                return Ok(ReadDone::of(there, attributes));
            }
        }
        let attributes = self.stat(id).await?;
        let there = range.within(attributes.size);
        if there.count == 0 {
            // No byte is read, but the caller must have the right.
            self.lease(caller, id, Capability::READ).await?;
        }
        self.read_some(caller, id, there, buffer).await?;
        Ok(ReadDone::of(there, attributes))
    }

    /// Reads the bytes of a range; gives the least size of the file, by the servers that have them.
    async fn read_some(
        &self,
        caller: &Credentials,
        id: FileId,
        range: ByteRange,
        buffer: &mut Buffer,
    ) -> Result<u64, Status> {
        let ByteRange { offset, count } = range;
        if count == 0 {
            return Ok(0);
        }
        let began = self.now();
        let lease = self.lease(caller, id, Capability::READ).await?;
        let _reading = self.references.begin_read();
        if (self.read_optimistically(&lease, id, range, buffer)).await? {
            return Ok(range.end());
        }
        let start = self.references.read_starts(id);
        let since = self.now();
        let shapes = TransferShapes {
            file: shape(offset, count)?,
            memory: shape(0, count)?,
        };
        let memory = ClientMemory::from(&mut *buffer);
        // A Read of a silent server's memory has used up the patience.
        let read = self.transfer_since(began, caller, id, shapes, Moving::Read, memory);
        let proven = read.await?.proven_size;
        self.note_call_read(&lease, id, range, since);
        let len = usize::try_from(proven.saturating_sub(offset)).unwrap_or(usize::MAX);
        let read = buffer.get(..len.min(count as usize)).unwrap_or_default();
        self.references.keep(start, offset, read);
        Ok(proven)
    }

    /// Writes part of a buffer at `offset` of a file. Servers fetch the bytes by RDMA. The buffer keeps them.
    ///
    /// # Errors
    /// As [`VolumeFs::read_at`]; any of the bytes may have been written.
    pub(super) async fn write_part(
        &self,
        caller: &Credentials,
        file: &FileHandle,
        offset: u64,
        part: BufferPart<'_>,
        stability: Stability,
    ) -> Result<WriteDone, Status> {
        let BufferPart { buffer, start, len } = part;
        let mut verifier = self.siblings.verifier.current();
        if len > 0 {
            let shapes = TransferShapes {
                file: shape(offset, len)?,
                memory: shape(start, len)?,
            };
            if shapes.file.end() > FILE_SIZE_MAX {
                return Err(Status::Fbig);
            }
            let id = self.id(file)?;
            let bytes = LockRange::bytes(id, offset..shapes.file.end());
            let guard = self.lock_ranges(&[bytes]).await?;
            let write = self.moving_write(id, stability, Some(&guard));
            let memory = ClientMemory::from(buffer);
            let written = self.transfer(caller, id, shapes, write, memory).await?;
            verifier = written.verifier;
        }
        Ok(WriteDone {
            count: len,
            committed: stability,
            verifier,
        })
    }

    /// As [`VolumeFs::transfer`]: the verifier for it.
    pub(in crate::client) async fn move_shapes(
        &self,
        caller: &Credentials,
        file: &FileHandle,
        shapes: TransferShapes,
        stability: Option<Stability>,
        memory: ClientMemory<'_>,
    ) -> Result<Verifier, Status> {
        let id = self.id(file)?;
        let how = match stability {
            Some(stability) => self.moving_write(id, stability, None),
            None => Moving::Read,
        };
        let moved = self.transfer(caller, id, shapes, how, memory);
        Ok(moved.await?.verifier)
    }

    pub(super) fn moving_write<'a>(
        &self,
        id: FileId,
        stability: Stability,
        guard: Option<&'a ChangeGuard>,
    ) -> Moving<'a> {
        Moving::Write(MovingWrite {
            stability,
            guard,
            writing: self.leases.writing(id),
        })
    }

    /// Memory of at least `len` bytes whose transfers need no registration after the first; see
    /// [`crate::client::PinDownCache::memory`].
    pub fn memory(&self, len: usize) -> Buffer {
        let cache = self.mover.cache();
        cache.look_after(&self.runtime);
        cache.memory(len)
    }

    /// Registers memory of the program for transfers, until it is taken back from the result. It may be a `Vec`
    /// ([`Buffer::from_vec`]), a mapping ([`Buffer::from_lent`]), or any other. Until then all I/O servers of the
    /// volume may read and write it.
    ///
    /// # Errors
    /// See [`RegisterError`]; the memory is dropped then.
    pub async fn register(&self, memory: Buffer) -> Result<RegisteredMemory, RegisterError> {
        self.mover.cache().register(memory).await
    }

    /// Has memory of this slot, which the program has brought, stay registered from its first transfer on. The program
    /// has it between two transfers. Meanwhile servers of this volume may read it, if the device has no windows.
    pub fn keep_registered(&self, slot: SlotId) {
        self.mover.cache().keep(slot);
    }

    /// Ends the registration of memory of [`VolumeFs::keep_registered`], and returns the memory.
    ///
    /// # Errors
    /// The adapter could not end it, and keeps the memory.
    pub async fn end_registration(&self, buffer: Buffer) -> Result<Buffer, DeregisterError> {
        self.mover.cache().take_out(buffer).await
    }

    /// Ends the registration of memory of [`VolumeFs::keep_registered`] that its program has dropped.
    pub fn forget_registration(&self, slot: SlotId) {
        self.mover.cache().forget(slot);
    }

    /// Reads the bytes of a range of a file, as many as it has, into memory that stays registered, from byte `start` of
    /// it on. Returns the number of bytes read.
    ///
    /// # Errors
    /// As [`VolumeFs::read_at`]; `Inval` when the range does not fit.
    pub(in crate::client) async fn read_registered(
        &self,
        caller: &Credentials,
        file: &FileHandle,
        range: ByteRange,
        memory: &RegisteredMemory,
        start: u64,
    ) -> Result<u32, Status> {
        let id = self.id(file)?;
        let read = async |range: ByteRange| {
            let shapes = TransferShapes {
                file: shape(range.offset, range.count)?,
                memory: shape(start, range.count)?,
            };
            if shapes.memory.end() > memory.len() as u64 {
                return Err(Status::Inval);
            }
            let memory = ClientMemory::Registered(memory);
            let read = self.transfer(caller, id, shapes, Moving::Read, memory);
            Ok(read.await?.proven_size)
        };
        if range.count == 0 {
            return Ok(0);
        }
        let proven = read(range).await?;
        if range.end() <= proven {
            return Ok(range.count);
        }
        // Bytes behind `proven` may be zeros of objects that were shorter when they were read.
        let there = range.within(self.stat(id).await?.size);
        if there.end() > proven && there.count > 0 {
            read(there).await?;
        }
        Ok(there.count)
    }

    /// Counters of memory registration for transfers.
    pub fn pin_down_counters(&self) -> PinDownCounters {
        self.mover.cache().counters()
    }

    /// Bytes that this client has copied so far; see [`crate::client::data::Mover::copied_bytes`].
    pub fn copied_bytes(&self) -> u64 {
        self.mover.copied_bytes()
    }

    /// Moves bytes between `memory` and a file, again and again until all are moved or a server refuses for good.
    pub(super) async fn transfer(
        &self,
        caller: &Credentials,
        id: FileId,
        shapes: TransferShapes,
        how: Moving<'_>,
        memory: ClientMemory<'_>,
    ) -> Result<Transferred, Status> {
        self.transfer_since(self.now(), caller, id, shapes, how, memory)
            .await
    }

    /// As [`VolumeFs::transfer`], of an operation that began at `began`.
    async fn transfer_since(
        &self,
        began: Instant,
        caller: &Credentials,
        id: FileId,
        shapes: TransferShapes,
        how: Moving<'_>,
        mut memory: ClientMemory<'_>,
    ) -> Result<Transferred, Status> {
        let rights = match how {
            Moving::Write(_) => Capability::WRITE,
            Moving::Read => Capability::READ,
        };
        loop {
            let lease = self.lease(caller, id, rights).await?;
            match self.move_once(&lease, id, &shapes, &how, &mut memory).await {
                Ok(moved) => return Ok(moved),
                Err(failed) => self.after(id, began, &failed).await?,
            }
        }
    }

    /// As [`VolumeFs::transfer`], once, by a lease.
    pub(super) async fn move_once(
        &self,
        lease: &Lease,
        id: FileId,
        shapes: &TransferShapes,
        how: &Moving<'_>,
        memory: &mut ClientMemory<'_>,
    ) -> Result<Transferred, OperationError> {
        let request = Request {
            capability: lease.capability,
            file: shapes.file.clone(),
            memory: shapes.memory.clone(),
        };
        let states = match how {
            Moving::Read => {
                let targets = self.targets_of(&lease.layout, &shapes.file).await?;
                let read = match memory {
                    ClientMemory::Own(parents) => {
                        let reading = pin!(self.mover.read_to(&targets, &request, parents));
                        self.while_primaries(&targets, reading).await
                    }
                    ClientMemory::Registered(memory) => {
                        let reading = pin!(self.mover.read_registered(&targets, &request, memory));
                        self.while_primaries(&targets, reading).await
                    }
                };
                read.map_err(|error| OperationError::of(&targets, error))?
            }
            Moving::Write(write) => self.write_once(lease, id, &request, write, memory).await?,
        };
        Ok(Transferred {
            proven_size: size_of(&lease.layout, &states),
            verifier: self.note_verifiers(&lease.layout, &states),
        })
    }

    async fn write_once(
        &self,
        lease: &Lease,
        id: FileId,
        request: &Request,
        write: &MovingWrite<'_>,
        memory: &mut ClientMemory<'_>,
    ) -> Result<States, OperationError> {
        let _changing = self.references.changing(id, span_of(&request.file));
        let targets = self.targets_of(&lease.layout, &request.file).await?;
        let is_stable = write.stability == Stability::FileSync;
        let groups = || targets.iter().map(|target| target.group);
        if !is_stable {
            self.siblings.unstable.note(id, groups());
        }
        let guard = write.guard;
        guard.inspect(|guard| guard.asks(&targets));
        let stability = stability_of(write.stability);
        let mover = &self.mover;
        let written = match memory {
            ClientMemory::Own(parents) => {
                let writing = pin!(mover.write_from(&targets, stability, request, parents));
                self.while_primaries(&targets, writing).await
            }
            ClientMemory::Registered(memory) => {
                let writing = pin!(mover.write_registered(&targets, stability, request, memory));
                self.while_primaries(&targets, writing).await
            }
        };
        guard.inspect(|guard| match written {
            Ok(_) => guard.answered(),
            Err(_) => guard.failed(),
        });
        let states = written.map_err(|error| OperationError::of(&targets, error))?;
        // A write after the end of its grant does not count: the manager may have answered with another size.
        if self.runtime.now() >= lease.until {
            return Err(OperationError::TooLate);
        }
        write.writing.outcome.set(WriteOutcome::Answered);
        self.full_since.set(None);
        if is_stable {
            // Older writes that are not durable stay so.
            self.leases.note_durable(id, Asked::default());
        } else {
            self.leases.note_unstable(id);
            self.siblings.unstable.note(id, groups());
        }
        Ok(states)
    }

    /// Makes what was written to a file durable; the verifier for that.
    pub(super) async fn make_durable(
        &self,
        caller: &Credentials,
        id: FileId,
    ) -> Result<Verifier, Status> {
        let began = self.now();
        loop {
            let lease = self.lease(caller, id, Capability::WRITE).await?;
            let asked = self.leases.asked();
            // An abandoned write may be stored after the COMMIT that removed the notes of it.
            let is_certain = !self.leases.is_uncertain(id);
            let noted = self.siblings.unstable.to_commit(id);
            let noted = noted.filter(|_| is_certain);
            let is_needed = |group, _| {
                let noted = noted.as_ref();
                noted.is_none_or(|noted| noted.groups.contains(&group))
            };
            let done = match self.targets(&lease.layout, is_needed).await {
                Ok(targets) => {
                    let committing = pin!(commit_objects(&targets, lease.capability));
                    let committed = self.while_primaries(&targets, committing).await;
                    committed.map_err(|error| OperationError::of(&targets, error))
                }
                Err(error) => Err(error),
            };
            match done {
                Ok(states) => {
                    self.leases.note_durable(id, asked);
                    noted.inspect(|noted| self.siblings.unstable.committed(id, noted));
                    return Ok(self.note_verifiers(&lease.layout, &states));
                }
                Err(error) => self.after(id, began, &error).await?,
            }
        }
    }
}

/// The bytes from the first one of a shape to its last. For several pieces, in any order, they begin with the file.
fn span_of(file: &Shape) -> std::ops::Range<u64> {
    let mut pieces = file.pieces();
    match (pieces.next(), pieces.next()) {
        (Some(only), None) => only.offset..file.end(),
        _ => 0..file.end(),
    }
}

async fn commit_objects(targets: &[Target], capability: Capability) -> Result<States, DataError> {
    let calls = targets.iter().map(|target| {
        let body = to_bytes(&ObjectRange {
            group: target.group,
            capability,
            size: 0,
        });
        let (link, Placement { index, .. }) = (target.link.clone(), target.placement);
        let call: LocalFuture<Result<(u32, ObjectState), DataError>> =
            Box::pin(commit_object(link, index, body));
        call
    });
    all(calls).await.into_iter().collect()
}

async fn commit_object(
    link: Link,
    index: u32,
    body: Vec<u8>,
) -> Result<(u32, ObjectState), DataError> {
    let answer = link.call(Operation::Commit, Class::Small, &body, &[]).await;
    let answer = accepted(index, answer)?;
    let state = from_bytes(answer.body()).map_err(|_| DataError::Nonsense { index })?;
    Ok((index, state))
}
