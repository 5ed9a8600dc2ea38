//! READ: bytes leave from the page cache.

use super::walk::{Pace, Plans, own_len, ranges_of};
use super::{IoServer, class_of, own, parse_transfer};
use crate::layout::{Pair, Pairs, pairs, pairs_together};
use crate::limits::RANGE_STEPS;
use crate::link::{Hold, Link, Message};
use gannet_fabric::{RemoteAddress, RemoteKey, Source};
use gannet_runtime::{Buffer, FileRef, run_blocking};
use gannet_vfs::{FileHandle, Status, Vfs};
use gannet_wire::volume::{
    Capability, Class, INLINE_DATA_MAX, Memory, ObjectState, Transfer, TransferDone,
};
use gannet_wire::xdr::to_bytes;
use std::io;

/// Bytes of a file that are read at a time to have them in the page cache.
const WARM_LEN: usize = 1 << 20;

impl<V: Vfs> IoServer<V> {
    /// The body and the data of the answer.
    pub(super) async fn read(
        &self,
        link: &Link,
        request: &Message,
    ) -> Result<(Vec<u8>, Vec<u8>), Status> {
        let transfer = parse_transfer(request.body())?;
        self.check(&transfer.capability, Capability::READ)?;
        let object = self.find(transfer.capability.file).await?;
        let pace = Pace::new(&self.walks, link);
        let count = own_len(&pace, &transfer.file, transfer.placement).await;
        if object.is_none() && count > 0 {
            self.may_be_lost(transfer.capability.file)?;
        }
        let class = class_of(request.header.class, count);
        let link = (link, class);
        let (data, state) = match &transfer.memory {
            Memory::Inline => {
                let len = usize::try_from(count).map_err(|_| Status::Toosmall)?;
                if len > INLINE_DATA_MAX {
                    return Err(Status::Toosmall);
                }
                let buffer = Buffer::from_vec(vec![0; len]);
                let gathered = self.gather_own(object.as_ref(), &transfer, buffer, &pace);
                let (buffer, state) = gathered.await?;
                (buffer.into_vec(), state)
            }
            Memory::Region { key, shape } => {
                let places = pairs(&transfer.file, transfer.placement, shape);
                let target = (RemoteKey(*key), places);
                let state = self.read_to(link, object.as_ref(), target, &pace).await?;
                (Vec::new(), state)
            }
            Memory::Fast { slot } => {
                let target = link.0.peers_buffer(*slot, count).ok_or(Status::Inval)?;
                let (file, placement) = (&transfer.file, transfer.placement);
                let places = pairs_together(file, placement, target.offset);
                let target = (target.key, places);
                let state = self.read_to(link, object.as_ref(), target, &pace).await?;
                (Vec::new(), state)
            }
            Memory::Lent { .. } => {
                let read = self.read_lent(link, object.as_ref(), &transfer, count, &pace);
                return Ok((read.await?, Vec::new()));
            }
        };
        let done = TransferDone { count, state };
        Ok((to_bytes(&done), data))
    }

    /// Fills `buffer` with the server's own bytes of a transfer, one behind the other; zeros if there is no object. The
    /// state of the object comes from before the bytes: what it says is long is not read as if it were short.
    pub(super) async fn gather_own(
        &self,
        object: Option<&FileHandle>,
        transfer: &Transfer,
        buffer: Buffer,
        pace: &Pace,
    ) -> Result<(Buffer, ObjectState), Status> {
        let pairs = pairs_together(&transfer.file, transfer.placement, 0);
        let mut plans = Plans::new(pairs, u32::MAX, pace);
        let mut gather = Gather::to(buffer);
        while let Some(plan) = plans.next().await {
            self.gather(object, &plan, &mut gather, pace).await?;
        }
        match gather.state {
            Some(state) => Ok((gather.buffer, state)),
            None => Ok((gather.buffer, self.state_of(object).await?)),
        }
    }

    /// Appends the ranges of a plan.
    async fn gather(
        &self,
        object: Option<&FileHandle>,
        plan: &[Pair],
        gather: &mut Gather,
        pace: &Pace,
    ) -> Result<(), Status> {
        for (offset, len) in ranges_of(plan) {
            pace.steps(RANGE_STEPS).await;
            let len = u32::try_from(len).map_err(|_| Status::Serverfault)?;
            let Some(object) = object else {
                gather.zeros(len)?;
                continue;
            };
            let memory = gather.memory(len);
            let (caller, store) = (own(), &self.store);
            let read = store.read_into(&caller, object, offset, len, memory);
            let (read, memory) = read.await;
            let read = read.inspect_err(|status| {
                if *status == Status::Io {
                    tracing::warn!("an object cannot be read");
                }
            })?;
            gather.take(memory.ok_or(Status::Serverfault)?, read.count, len)?;
            if gather.state.is_none() {
                let attributes = read.attributes.ok_or(Status::Serverfault)?;
                gather.state = Some(self.state(&attributes));
            }
        }
        Ok(())
    }

    /// As [`IoServer::read_to`], through memory that is registered.
    async fn read_staged(
        &self,
        link: &Link,
        object: Option<&FileHandle>,
        (key, plan): (RemoteKey, Vec<Pair>),
        (turn, pace): (Option<Hold>, &Pace),
    ) -> Result<(), Status> {
        let len = plan.iter().map(|pair| u64::from(pair.len)).sum();
        let mut gather = Gather::to(self.zone(len).await?);
        self.gather(object, &plan, &mut gather, pace).await?;
        let parts = plan.iter().scan(0, |at, pair| {
            let offset = pair.memory_offset;
            let part = (*at, RemoteAddress { key, offset }, pair.len);
            *at += u64::from(pair.len);
            Some(part)
        });
        let parts: Vec<_> = parts.collect();
        let queued = link.write_staged(gather.buffer, &parts, turn).await;
        queued.map_err(|error| {
            tracing::debug!(%error, "bytes cannot leave");
            Status::Serverfault
        })
    }

    /// Queues RDMA Writes of all of the server's bytes; they leave before the answer. The object's state before them.
    async fn read_to(
        &self,
        (link, class): (&Link, Class),
        object: Option<&FileHandle>,
        (key, places): (RemoteKey, Pairs<'_>),
        pace: &Pace,
    ) -> Result<ObjectState, Status> {
        let (file, state) = match object {
            Some(handle) => {
                let opened = self.store.read(&own(), handle, 0, 0).await?;
                (Some(opened.file), self.state(&opened.attributes))
            }
            None => (None, self.nothing()),
        };
        let flow = (link.endpoint().id(), class);
        let mut plans = Plans::new(places, self.policy.read_piece, pace);
        while let Some(plan) = plans.next().await {
            if let Some(file) = &file {
                self.warm_all(file, &plan, pace).await?;
            }
            let bytes = plan.iter().map(|pair| u64::from(pair.len)).sum();
            let mut turn: Option<Hold> = match class {
                Class::Metadata | Class::Small => None,
                // Not before the bytes are in memory: nobody shall wait for this one's disk.
                Class::Bulk | Class::Background => {
                    Some(Box::new(self.reads.take(flow, bytes).await))
                }
            };
            if link.stages() {
                self.read_staged(link, object, (key, plan), (turn, pace))
                    .await?;
                continue;
            }
            let mut plan = plan.into_iter().peekable();
            while let Some(pair) = plan.next() {
                let target = RemoteAddress {
                    key,
                    offset: pair.memory_offset,
                };
                let source = match &file {
                    Some(file) => Source::File {
                        file: FileRef::clone(file),
                        offset: pair.object_offset,
                        len: pair.len,
                    },
                    None => Source::Buffer {
                        buffer: Buffer::zeroed(pair.len as usize),
                        len: pair.len,
                    },
                };
                let hold = plan.peek().is_none().then(|| turn.take()).flatten();
                link.write_holding(source, target, hold).await;
            }
        }
        Ok(state)
    }

    /// Brings what is read into the page cache, where it is not.
    async fn warm_all(&self, file: &FileRef, plan: &[Pair], pace: &Pace) -> Result<(), Status> {
        for (offset, len) in ranges_of(plan) {
            pace.steps(RANGE_STEPS).await;
            if !file.is_resident(offset, len) {
                self.warm(file, offset, len).await?;
            }
        }
        Ok(())
    }

    /// Brings a range of a file into the page cache.
    async fn warm(&self, file: &FileRef, offset: u64, len: u64) -> Result<(), Status> {
        let file = FileRef::clone(file);
        let warmed = run_blocking(&self.runtime, move || {
            let mut scratch = vec![0; WARM_LEN.min(usize::try_from(len).unwrap_or(WARM_LEN))];
            let mut done = 0;
            while done < len {
                match file.read_at(offset + done, &mut scratch)? {
                    0 => break,
                    count => done += count as u64,
                }
            }
            io::Result::Ok(())
        });
        let warmed = warmed.await.map_err(|_| Status::Jukebox)?;
        warmed.map_err(|error| {
            tracing::warn!(%error, "an object cannot be read");
            Status::Io
        })
    }
}

/// Memory that is filled with ranges of an object, one behind the other.
struct Gather {
    buffer: Buffer,
    /// Bytes of `buffer` that are.
    filled: usize,
    /// For ranges that do not start it: a store reads to the start of what it is given.
    spare: Buffer,
    /// The object's, from before the first range was read.
    state: Option<ObjectState>,
}

impl Gather {
    fn to(buffer: Buffer) -> Gather {
        Gather {
            buffer,
            filled: 0,
            spare: Buffer::default(),
            state: None,
        }
    }

    /// Memory to read the next range to, which has `len` bytes.
    fn memory(&mut self, len: u32) -> Buffer {
        if self.filled == 0 {
            return std::mem::take(&mut self.buffer);
        }
        match self.spare.len() < len as usize {
            true => Buffer::zeroed(len as usize),
            false => std::mem::take(&mut self.spare),
        }
    }

    /// Takes back what [`Gather::memory`] gave, in which a range has `read` bytes of `len`. Behind the end of an object
    /// are zeros.
    ///
    /// # Errors
    /// `Serverfault`: there is no room for it.
    fn take(&mut self, mut memory: Buffer, read: u32, len: u32) -> Result<(), Status> {
        let range = memory.get_mut(..len as usize).ok_or(Status::Serverfault)?;
        let behind = range.get_mut(read as usize..).ok_or(Status::Serverfault)?;
        behind.fill(0);
        if self.filled == 0 {
            self.buffer = memory;
        } else {
            self.room(len)?.copy_from_slice(range);
            self.spare = memory;
        }
        self.filled += len as usize;
        Ok(())
    }

    /// The next range has `len` zeros.
    ///
    /// # Errors
    /// `Serverfault`: there is no room for it.
    fn zeros(&mut self, len: u32) -> Result<(), Status> {
        self.room(len)?.fill(0);
        self.filled += len as usize;
        Ok(())
    }

    fn room(&mut self, len: u32) -> Result<&mut [u8], Status> {
        let rest = self.buffer.get_mut(self.filled..);
        let room = rest.and_then(|rest| rest.get_mut(..len as usize));
        room.ok_or(Status::Serverfault)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn ranges_follow_each_other_with_zeros_behind_the_end_of_the_object() {
        let used = Buffer::from_vec(vec![9; 8]);
        let address = used.as_ptr();
        let mut gather = Gather::to(used);
        let reads: [(&[u8], u32); 3] = [(b"abc", 3), (b"d", 2), (b"", 1)];
        for (bytes, len) in reads {
            let mut memory = gather.memory(len);
            memory[..bytes.len()].copy_from_slice(bytes);
            gather.take(memory, bytes.len() as u32, len).unwrap();
        }
        gather.zeros(1).unwrap();
        assert_eq!(&gather.buffer[..], b"abcd\0\0\0\x09");
        assert_eq!(gather.buffer.as_ptr(), address);
        let memory = gather.memory(2);
        let full = gather.take(memory, 2, 2);
        assert_eq!(full, Err(Status::Serverfault));
    }
}
