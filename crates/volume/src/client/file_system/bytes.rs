//! Bytes between a file and memory of the caller's.

use super::guards::ChangeGuard;
use super::{VolumeFs, shape, size_of};
use crate::client::PinDownCounters;
use crate::client::change_locks::LockRange;
use crate::client::data::{DataError, Request, States, Target, accepted};
use crate::client::error::OperationError;
use crate::client::leases::{Lease, Writing};
use crate::client::written::{Asked, WriteOutcome};
use crate::convert::stability_of;
use crate::link::Link;
use gannet_meta::limits::FILE_SIZE_MAX;
use gannet_runtime::{Buffer, LocalFuture, all, both};
use gannet_vfs::{
    Attributes, BytesRead, Credentials, FileHandle, Stability, Status, Verifier, WriteDone,
};
use gannet_wire::volume::{
    Capability, Class, FileId, ObjectRange, ObjectState, Operation, Placement, Shape,
};
use gannet_wire::xdr::{from_bytes, to_bytes};
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

/// How bytes are moved, over all attempts.
pub(super) struct Moving<'a> {
    /// Of a write: how durable it must be.
    pub(super) stability: Option<Stability>,
    /// Of a write that has locked its bytes.
    pub(super) guard: Option<&'a ChangeGuard>,
    /// Of a write: keeps its grants from being given back between attempts.
    pub(super) writing: Option<Writing>,
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
        let lease = self.lease(caller, id, Capability::READ).await?;
        if (self.read_optimistically(&lease, id, range, buffer)).await? {
            return Ok(range.end());
        }
        let start = self.references.read_starts(id);
        let since = self.now();
        let shapes = (shape(offset, count)?, shape(0, count)?);
        let parents = slice::from_mut(buffer);
        let read = self.transfer(caller, id, shapes, (None, None), parents);
        let (proven, _) = read.await?;
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
            let shapes = (shape(offset, len)?, shape(start, len)?);
            if shapes.0.end() > FILE_SIZE_MAX {
                return Err(Status::Fbig);
            }
            let id = self.id(file)?;
            let bytes = LockRange::bytes(id, offset..shapes.0.end());
            let guard = self.lock_ranges(&[bytes]).await?;
            let write = (Some(stability), Some(&guard));
            let parents = slice::from_mut(buffer);
            (_, verifier) = self.transfer(caller, id, shapes, write, parents).await?;
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
        shapes: (Shape, Shape),
        stability: Option<Stability>,
        parents: &mut [Buffer],
    ) -> Result<Verifier, Status> {
        let id = self.id(file)?;
        let moved = self.transfer(caller, id, shapes, (stability, None), parents);
        Ok(moved.await?.1)
    }

    /// Memory of at least `len` bytes whose transfers need no registration after the first; see
    /// [`crate::client::PinDownCache::memory`].
    pub fn memory(&self, len: usize) -> Buffer {
        self.mover.cache().memory(len)
    }

    /// What registering memory for transfers has come to.
    pub fn pin_down_counters(&self) -> PinDownCounters {
        self.mover.cache().counters()
    }

    /// Bytes that this client has copied so far; see [`crate::client::data::Mover::copied_bytes`].
    pub fn copied_bytes(&self) -> u64 {
        self.mover.copied_bytes()
    }

    /// Moves bytes between `parents` and a file, again and again until it is done or refused for good: writes with a
    /// stability, some with their bytes locked, and reads with none. What the objects said, and the verifier for that.
    pub(super) async fn transfer(
        &self,
        caller: &Credentials,
        id: FileId,
        shapes: (Shape, Shape),
        (stability, guard): (Option<Stability>, Option<&ChangeGuard>),
        parents: &mut [Buffer],
    ) -> Result<(u64, Verifier), Status> {
        let rights = match stability {
            Some(_) => Capability::WRITE,
            None => Capability::READ,
        };
        let how = Moving {
            writing: stability.map(|_| self.leases.writing(id)),
            stability,
            guard,
        };
        let deadline = self.deadline();
        loop {
            let lease = self.lease(caller, id, rights).await?;
            match self.move_once(&lease, id, &shapes, &how, parents).await {
                Ok(moved) => return Ok(moved),
                Err(failed) => self.after(id, deadline, &failed).await?,
            }
        }
    }

    /// As [`VolumeFs::transfer`], once, by a lease.
    pub(super) async fn move_once(
        &self,
        lease: &Lease,
        id: FileId,
        (file, memory): &(Shape, Shape),
        how: &Moving<'_>,
        parents: &mut [Buffer],
    ) -> Result<(u64, Verifier), OperationError> {
        let stability = how.stability;
        let _changing = stability.map(|_| self.references.changing(id, span_of(file)));
        let request = Request {
            capability: lease.capability,
            file: file.clone(),
            memory: memory.clone(),
        };
        let targets = self.targets(&lease.layout).await?;
        how.guard
            .inspect(|guard| guard.asks_servers_of(&lease.layout));
        let moved = match stability {
            Some(stability) => {
                let (mover, stability) = (&self.mover, stability_of(stability));
                mover
                    .write_from(&targets, stability, &request, parents)
                    .await
            }
            None => self.mover.read_to(&targets, &request, parents).await,
        };
        how.guard.inspect(|guard| match moved {
            Ok(_) => guard.answered(),
            Err(_) => guard.failed(),
        });
        let states = moved.map_err(|error| OperationError::of(&lease.layout, error))?;
        // A write that comes too late does not count: others may have been told of another size.
        if stability.is_some() && self.runtime.now() >= lease.until {
            return Err(OperationError::TooLate);
        }
        if let Some(writing) = &how.writing {
            writing.outcome.set(WriteOutcome::Answered);
        }
        match stability {
            // Older writes that are not durable stay so.
            Some(Stability::FileSync) => self.leases.note_durable(id, Asked::default()),
            Some(_) => self.leases.note_unstable(id),
            None => {}
        }
        let proven = size_of(&lease.layout, &states);
        Ok((proven, self.note_verifiers(&lease.layout, &states)))
    }

    /// Makes what was written to a file durable; the verifier for that.
    pub(super) async fn make_durable(
        &self,
        caller: &Credentials,
        id: FileId,
    ) -> Result<Verifier, Status> {
        let deadline = self.deadline();
        loop {
            let lease = self.lease(caller, id, Capability::WRITE).await?;
            let asked = self.leases.asked();
            let done = match self.targets(&lease.layout).await {
                Ok(targets) => commit_objects(&targets, lease.capability)
                    .await
                    .map_err(|error| OperationError::of(&lease.layout, error)),
                Err(error) => Err(error),
            };
            match done {
                Ok(states) => {
                    self.leases.note_durable(id, asked);
                    return Ok(self.note_verifiers(&lease.layout, &states));
                }
                Err(error) => self.after(id, deadline, &error).await?,
            }
        }
    }
}

/// From the first byte of a shape to its last; of several pieces, which may stand in any order, from the start.
fn span_of(file: &Shape) -> std::ops::Range<u64> {
    let mut pieces = file.pieces();
    match (pieces.next(), pieces.next()) {
        (Some(only), None) => only.offset..file.end(),
        _ => 0..file.end(),
    }
}

async fn commit_objects(targets: &[Target], capability: Capability) -> Result<States, DataError> {
    let body = to_bytes(&ObjectRange {
        capability,
        size: 0,
    });
    let calls = targets.iter().map(|target| {
        let (link, Placement { index, .. }) = (target.link.clone(), target.placement);
        let call: LocalFuture<Result<(u32, ObjectState), DataError>> =
            Box::pin(commit_object(link, index, body.clone()));
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
