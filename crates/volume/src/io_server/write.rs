//! WRITE: bytes are fetched a piece ahead of the disk.

use super::order::Begun;
use super::turns::Turn;
use super::{IoServer, class_of, own, parse, stability};
use crate::calls::encode;
use crate::layout::{Pair, own_len, pairs, parts, runs};
use crate::limits::{STORED_AT_A_TIME, TURN_PIECES_MAX, WRITE_PIECE_LEN_MIN};
use crate::link::{Link, LinkError, Message};
use gannet_fabric::{Buffer, RemoteAddress, RemoteKey};
use gannet_runtime::{all, both};
use gannet_vfs::{FileHandle, Stability, Status, Vfs};
use gannet_wire::volume::{Capability, Class, Memory, ObjectState, Transfer, TransferDone};
use std::ops::Range;
use std::pin::Pin;

/// One of several ranges on its way to the disk.
type Storing<'a> = Pin<Box<dyn Future<Output = Result<(), Status>> + 'a>>;

/// Bytes of a WRITE that are in memory together: where they go in the object, range after range.
pub(super) struct Fetched {
    pub(super) buffer: Buffer,
    pub(super) ranges: Vec<(u64, u64)>,
}

/// Where a WRITE's bytes go, and how durable they are there when it is answered.
#[derive(Clone, Copy)]
pub(super) struct Target<'a> {
    pub(super) handle: &'a FileHandle,
    pub(super) begun: &'a Begun<'a>,
    pub(super) capability: &'a Capability,
    pub(super) stability: Stability,
}

/// Where a WRITE's bytes are fetched from, and how.
struct Fetching<'a> {
    link: &'a Link,
    key: RemoteKey,
    class: Class,
    /// Bytes at a time.
    piece: u32,
}

impl<V: Vfs> IoServer<V> {
    pub(super) async fn write(&self, link: &Link, request: Message) -> Result<Vec<u8>, Status> {
        let transfer: Transfer = parse(request.body())?;
        self.check(&transfer.capability, Capability::WRITE)?;
        let file = transfer.capability.file;
        let begun = self.orders.write(file, &transfer.file, transfer.placement);
        let handle = self.find_or_make(file).await?;
        let target = Target {
            handle: &handle,
            begun: &begun,
            capability: &transfer.capability,
            stability: stability(transfer.stability)?,
        };
        let count = own_len(&transfer.file, transfer.placement);
        let class = class_of(request.header.class, count);
        // From before the first byte: if it changes meanwhile, a part may be lost that was written already.
        let verifier = self.verifier();
        match &transfer.memory {
            Memory::Inline => {
                let own = parts(&transfer.file, transfer.placement);
                let ranges = runs(own.map(|part| (part.object_offset, part.len)), u64::MAX);
                let (ranges, data) = (ranges.collect(), request.data_range());
                if data.len() as u64 != count {
                    return Err(Status::Inval);
                }
                let buffer = request.into_buffer();
                let fetched = Fetched { buffer, ranges };
                self.store_ranges(target, fetched, data).await?;
            }
            Memory::Region { key, shape } => {
                let key = RemoteKey(*key);
                let pairs = pairs(&transfer.file, transfer.placement, shape);
                let source = Fetching {
                    link,
                    key,
                    class,
                    piece: self.write_piece(count),
                };
                self.write_from(source, pairs, target).await?;
            }
            Memory::Fast { slot } => {
                let stored = self.write_fast(link, *slot, &transfer, target);
                let stored = stored.await;
                link.settle();
                stored?;
            }
            Memory::Lent { number } => {
                let lent = (link, *number, class);
                self.write_lent(lent, &transfer, count, target).await?;
            }
        }
        let state = self.state_of(Some(&handle)).await?;
        let done = TransferDone {
            count,
            state: ObjectState { verifier, ..state },
        };
        Ok(match transfer.memory {
            Memory::Lent { .. } => self.written_lent(link, done),
            _ => encode(&done),
        })
    }

    /// Stores what the client has written to a buffer of this connection.
    async fn write_fast(
        &self,
        link: &Link,
        slot: u32,
        transfer: &Transfer,
        target: Target<'_>,
    ) -> Result<(), Status> {
        let buffer = link.lend_buffer(slot).ok_or(Status::Inval)?;
        let own = parts(&transfer.file, transfer.placement);
        let ranges = runs(own.map(|part| (part.object_offset, part.len)), u64::MAX);
        let ranges: Vec<(u64, u64)> = ranges.collect();
        let len = usize::try_from(ranges.iter().map(|(_, len)| len).sum::<u64>());
        let data = 0..len.map_err(|_| Status::Inval)?;
        if data.end > buffer.len() {
            return Err(Status::Inval);
        }
        let fetched = Fetched { buffer, ranges };
        self.store_ranges(target, fetched, data).await
    }

    /// Bytes to fetch at a time of `count`: half of them, within bounds, so that network and disk overlap.
    fn write_piece(&self, count: u64) -> u32 {
        let longest = self.policy.write_piece;
        let half = u32::try_from(count.div_ceil(2)).unwrap_or(longest);
        half.max(WRITE_PIECE_LEN_MIN).min(longest)
    }

    /// Fetches one piece while the one before is being written.
    async fn write_from(
        &self,
        source: Fetching<'_>,
        pairs: impl Iterator<Item = Pair>,
        target: Target<'_>,
    ) -> Result<(), Status> {
        let mut plans = plans(pairs, source.piece);
        let mut here = match plans.next() {
            Some(plan) => self.fetch(&source, plan).await?,
            None => return Ok(()),
        };
        loop {
            let (fetched, turn) = here;
            let len = fetched.ranges.iter().map(|(_, len)| len).sum::<u64>();
            // Bounded by ZONE_LEN_MAX.
            let range = 0..len as usize;
            let storing = async {
                let stored = self.store_ranges(target, fetched, range).await;
                drop(turn);
                stored
            };
            let Some(plan) = plans.next() else {
                return storing.await;
            };
            let (stored, fetched) = both(storing, self.fetch(&source, plan)).await;
            stored?;
            here = fetched?;
        }
    }

    /// Fetches the bytes of `plan` when it is their turn, which lasts until they are stored.
    async fn fetch(
        &self,
        source: &Fetching<'_>,
        plan: Vec<Pair>,
    ) -> Result<(Fetched, Turn), Status> {
        let Fetching {
            link, key, class, ..
        } = *source;
        let len = plan.iter().map(|pair| u64::from(pair.len)).sum();
        let turns = match class {
            Class::Metadata | Class::Small => &self.small,
            Class::Bulk | Class::Background => &self.writes,
        };
        let turn = turns.take((link.endpoint().id(), class), len).await;
        let mut at = 0;
        let mut reads = Vec::with_capacity(plan.len());
        for pair in &plan {
            let source = RemoteAddress {
                key,
                offset: pair.memory_offset,
            };
            reads.push((at, source, pair.len));
            at += u64::from(pair.len);
        }
        let buffer = self.zone(len).await?;
        let fetch = self.fetches.begin(link);
        let read = link.read(buffer, &reads).await;
        drop(fetch);
        let buffer = read.map_err(|error: LinkError| {
            tracing::debug!(%error, "data of a write did not come");
            Status::Io
        })?;
        let ranges = plan.iter().map(|pair| (pair.object_offset, pair.len));
        let ranges = runs(ranges, u64::MAX).collect();
        Ok((Fetched { buffer, ranges }, turn))
    }

    /// Memory for `len` bytes. Clients that stand still must make room.
    ///
    /// # Errors
    /// `Jukebox`: all is held by those that may yet move.
    pub(super) async fn zone(&self, len: u64) -> Result<Buffer, Status> {
        loop {
            if let Some(zone) = self.free_zone(len) {
                return Ok(zone);
            }
            let over = self.fetches.end_oldest().ok_or(Status::Jukebox)?;
            // It says so by going.
            let _ = over.await;
        }
    }

    fn free_zone(&self, len: u64) -> Option<Buffer> {
        let len = usize::try_from(len).ok()?;
        self.zones.take_or_split(len).or_else(|| {
            // Shorter ones that idle hold the room.
            self.zones.trim();
            self.zones.take_or_split(len)
        })
    }

    /// Writes the bytes of `data` in a buffer to where they go.
    pub(super) async fn store_ranges(
        &self,
        target: Target<'_>,
        fetched: Fetched,
        data: Range<usize>,
    ) -> Result<(), Status> {
        let Fetched { buffer, ranges } = fetched;
        if let [(offset, _)] = ranges[..] {
            return self.store_one(target, offset, buffer, data).await;
        }
        let mut at = data.start;
        let mut ranges = ranges.into_iter().peekable();
        while ranges.peek().is_some() {
            let mut together: Vec<Storing<'_>> = Vec::new();
            let mut end_before = 0;
            // Those that lie behind each other in the object may be written in any order; others may not.
            while together.len() < STORED_AT_A_TIME
                && let Some((offset, len)) = ranges.next_if(|(offset, _)| *offset >= end_before)
            {
                // Ranges add up to the bytes in the buffer.
                let end = at + len as usize;
                let part = copy_of(&buffer, at..end)?;
                let range = 0..part.len();
                let storing = self.store_one(target, offset, part, range);
                together.push(Box::pin(storing));
                (at, end_before) = (end, offset.saturating_add(len));
            }
            let stored: Result<Vec<()>, Status> = all(together).await.into_iter().collect();
            stored?;
        }
        Ok(())
    }

    async fn store_one(
        &self,
        target: Target<'_>,
        offset: u64,
        buffer: Buffer,
        data: Range<usize>,
    ) -> Result<(), Status> {
        let Target {
            handle,
            begun,
            capability,
            stability,
        } = target;
        let bytes = offset..offset + data.len() as u64;
        let storing = begun.store(bytes.clone()).await;
        let storing = storing.ok_or(Status::Jukebox)?;
        // Its bytes may have come late: others may have been told since how long the file is.
        self.check(capability, Capability::WRITE)?;
        let left = storing.left();
        if left[..] == [bytes] {
            self.put(target, offset, buffer, data).await?;
        } else {
            for Range { start, end } in left {
                // Lies in `data`.
                let at = data.start + (start - offset) as usize;
                let part = copy_of(&buffer, at..at + (end - start) as usize)?;
                let range = 0..part.len();
                self.put(target, start, part, range).await?;
            }
            if stability != Stability::Unstable {
                // The rest is another's, which may be less durable.
                self.store.commit(&own(), handle, 0, 0).await.result?;
            }
        }
        storing.done();
        Ok(())
    }

    async fn put(
        &self,
        target: Target<'_>,
        offset: u64,
        buffer: Buffer,
        data: Range<usize>,
    ) -> Result<(), Status> {
        let (mut offset, mut buffer, mut data) = (offset, buffer, data);
        loop {
            let (handle, stability, range) = (target.handle, target.stability, data.clone());
            let (written, memory) = (self.store)
                .write_and_return(&own(), handle, offset, buffer, range, stability)
                .await;
            let count = written.result?.count;
            data.start += count as usize;
            if data.is_empty() {
                return Ok(());
            }
            // The disk took a part. The rest says what is in its way: all of it once more would be cut short again.
            buffer = memory.filter(|_| count > 0).ok_or(Status::Jukebox)?;
            offset += u64::from(count);
        }
    }
}

/// Some bytes of a buffer.
fn copy_of(buffer: &[u8], range: Range<usize>) -> Result<Buffer, Status> {
    let bytes = buffer.get(range).ok_or(Status::Inval)?;
    Ok(Buffer::from_vec(bytes.to_vec()))
}

/// Cuts what is to be moved into plans of up to `len` bytes, and of [`TURN_PIECES_MAX`] pieces.
pub(super) fn plans(
    pairs: impl Iterator<Item = Pair>,
    len: u32,
) -> impl Iterator<Item = Vec<Pair>> {
    let mut pairs = pairs;
    let mut rest: Option<Pair> = None;
    std::iter::from_fn(move || {
        let (mut plan, mut room) = (Vec::new(), len);
        while room > 0 && plan.len() < TURN_PIECES_MAX {
            let Some(pair) = rest.take().or_else(|| pairs.next()) else {
                break;
            };
            let len = pair.len.min(room);
            plan.push(Pair { len, ..pair });
            room -= len;
            rest = (len < pair.len).then(|| Pair {
                object_offset: pair.object_offset + u64::from(len),
                memory_offset: pair.memory_offset + u64::from(len),
                len: pair.len - len,
            });
        }
        (!plan.is_empty()).then_some(plan)
    })
}
