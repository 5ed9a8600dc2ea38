//! READ: bytes leave from the page cache.

use super::walk::{Pace, Plans, own_len, ranges_of};
use super::{IoServer, class_of, own, parse_transfer};
use crate::layout::{Pair, Pairs, pairs, pairs_together};
use crate::limits::RANGE_STEPS;
use crate::link::{Hold, Link, Message};
use gannet_fabric::{RemoteAddress, RemoteKey, Source};
use gannet_runtime::{Buffer, FileRef, run_blocking};
use gannet_vfs::{FileHandle, Status, Vfs};
use gannet_wire::volume::{Capability, Class, INLINE_DATA_MAX, Memory, Transfer, TransferDone};
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
        // The state comes before the bytes: what it says is long is not read as if it were short.
        let (file, state) = match &object {
            Some(handle) => {
                let opened = self.store.read(&own(), handle, 0, 0).await?;
                (Some(opened.file), self.state(&opened.attributes))
            }
            None => (None, self.nothing()),
        };
        let pace = Pace::new(&self.walks, link);
        let count = own_len(&pace, &transfer.file, transfer.placement).await;
        if object.is_none() && count > 0 {
            self.may_be_lost(transfer.capability.file)?;
        }
        let class = class_of(request.header.class, count);
        let link = (link, class);
        let opened = (object.as_ref(), file.as_ref());
        let data = match &transfer.memory {
            Memory::Inline => {
                let len = usize::try_from(count).map_err(|_| Status::Toosmall)?;
                if len > INLINE_DATA_MAX {
                    return Err(Status::Toosmall);
                }
                let mut data = vec![0; len];
                self.gather_own(opened, &transfer, &mut data, &pace).await?;
                data
            }
            Memory::Region { key, shape } => {
                let places = pairs(&transfer.file, transfer.placement, shape);
                let target = (RemoteKey(*key), places);
                self.read_to(link, opened, target, &pace).await?;
                Vec::new()
            }
            Memory::Fast { slot } => {
                let target = link.0.peers_buffer(*slot, count).ok_or(Status::Inval)?;
                let (file, placement) = (&transfer.file, transfer.placement);
                let places = pairs_together(file, placement, target.offset);
                let target = (target.key, places);
                self.read_to(link, opened, target, &pace).await?;
                Vec::new()
            }
            Memory::Lent { .. } => {
                let read = self.read_lent(link, opened, &transfer, (count, state), &pace);
                return Ok((read.await?, Vec::new()));
            }
        };
        let done = TransferDone { count, state };
        Ok((to_bytes(&done), data))
    }

    /// Copies bytes of an object from the page cache, with zeros behind its end.
    pub(super) async fn copy(
        &self,
        object: &FileHandle,
        file: &FileRef,
        offset: u64,
        target: &mut [u8],
    ) -> Result<(), Status> {
        // A copy is the store's to know of: one that is charged for its time takes it here.
        let len = u32::try_from(target.len()).unwrap_or(u32::MAX);
        self.store.read(&own(), object, offset, len).await?;
        if !read_resident(file, offset, target)? {
            self.warm(file, offset, u64::from(len)).await?;
            read_resident(file, offset, target)?;
        }
        Ok(())
    }

    /// Fills `buffer` with the server's own bytes of a transfer, one behind the other; zeros if there is no object.
    pub(super) async fn gather_own(
        &self,
        source: (Option<&FileHandle>, Option<&FileRef>),
        transfer: &Transfer,
        buffer: &mut [u8],
        pace: &Pace,
    ) -> Result<(), Status> {
        let pairs = pairs_together(&transfer.file, transfer.placement, 0);
        let mut plans = Plans::new(pairs, u32::MAX, pace);
        let mut rest = buffer;
        while let Some(plan) = plans.next().await {
            let filled = self.gather(source, &plan, rest, pace).await?;
            rest = rest.get_mut(filled..).unwrap_or_default();
        }
        Ok(())
    }

    /// Fills the start of `buffer` with the ranges of a plan, one behind the other; how many bytes they are.
    async fn gather(
        &self,
        (object, file): (Option<&FileHandle>, Option<&FileRef>),
        plan: &[Pair],
        buffer: &mut [u8],
        pace: &Pace,
    ) -> Result<usize, Status> {
        let mut at = 0;
        for (offset, len) in ranges_of(plan) {
            pace.steps(RANGE_STEPS).await;
            // Bounded by the buffer, which is in memory.
            let end = at + len as usize;
            let target = buffer.get_mut(at..end).ok_or(Status::Serverfault)?;
            match (object, file) {
                (Some(object), Some(file)) => self.copy(object, file, offset, target).await?,
                _ => target.fill(0),
            }
            at = end;
        }
        Ok(at)
    }

    /// As [`IoServer::read_to`], through memory that is registered.
    async fn read_staged(
        &self,
        link: &Link,
        source: (Option<&FileHandle>, Option<&FileRef>),
        (key, plan): (RemoteKey, Vec<Pair>),
        (turn, pace): (Option<Hold>, &Pace),
    ) -> Result<(), Status> {
        let len = plan.iter().map(|pair| u64::from(pair.len)).sum();
        let mut buffer = self.zone(len).await?;
        self.gather(source, &plan, &mut buffer, pace).await?;
        let parts = plan.iter().scan(0, |at, pair| {
            let offset = pair.memory_offset;
            let part = (*at, RemoteAddress { key, offset }, pair.len);
            *at += u64::from(pair.len);
            Some(part)
        });
        let parts: Vec<_> = parts.collect();
        let queued = link.write_staged(buffer, &parts, turn).await;
        queued.map_err(|error| {
            tracing::debug!(%error, "bytes cannot leave");
            Status::Serverfault
        })
    }

    /// Queues RDMA Writes of all of the server's bytes; they leave before the answer.
    async fn read_to(
        &self,
        (link, class): (&Link, Class),
        (object, file): (Option<&FileHandle>, Option<&FileRef>),
        (key, places): (RemoteKey, Pairs<'_>),
        pace: &Pace,
    ) -> Result<(), Status> {
        let flow = (link.endpoint().id(), class);
        let mut plans = Plans::new(places, self.policy.read_piece, pace);
        while let Some(plan) = plans.next().await {
            if let Some(file) = file {
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
                self.read_staged(link, (object, file), (key, plan), (turn, pace))
                    .await?;
                continue;
            }
            let mut plan = plan.into_iter().peekable();
            while let Some(pair) = plan.next() {
                let target = RemoteAddress {
                    key,
                    offset: pair.memory_offset,
                };
                let source = match file {
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
        Ok(())
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

/// Fills `target` from the page cache, with zeros behind the end of the file; false when the disk must be asked.
fn read_resident(file: &FileRef, offset: u64, target: &mut [u8]) -> Result<bool, Status> {
    let mut filled = 0;
    while let Some(rest) = target.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.try_read_at(offset + filled as u64, rest) {
            Ok(0) => {
                rest.fill(0);
                return Ok(true);
            }
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) => {
                tracing::warn!(%error, "an object cannot be read");
                return Err(Status::Io);
            }
        }
    }
    Ok(true)
}
