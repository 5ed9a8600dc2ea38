//! WRITE: bytes are fetched by RDMA Read, a piece ahead of the disk, or are in the request.

use super::client_driven::WrittenBuffer;
use super::peer_memory::PeerMemory;
use super::scheduler::Permit;
use super::walk::{Pace, Plans, own_len, ranges_of};
use super::{IoServer, class_of, flow_of, parse_transfer};
use crate::convert::durability_of;
use crate::layout::{ByteRun, Pair, pairs, pairs_together};
use crate::limits::{STORED_AT_A_TIME, WRITE_PIECE_LEN_MIN};
use crate::link::{Link, LinkError, Message};
use gannet_fabric::RemoteKey;
use gannet_objects::{PutBytes, Target, copy_of};
use gannet_runtime::{Buffer, all, both};
use gannet_vfs::{Status, Vfs};
use gannet_wire::volume::{Capability, Class, Memory, ObjectState, Transfer, TransferDone};
use gannet_wire::xdr::to_bytes;
use std::pin::Pin;

/// One of several ranges on its way to the disk.
type Storing<'a> = Pin<Box<dyn Future<Output = Result<(), Status>> + 'a>>;

/// The bytes of one plan of a WRITE, in memory.
struct Fetched {
    buffer: Buffer,
    plan: Vec<Pair>,
}

/// The client's memory that a WRITE's bytes are fetched from.
struct Fetching<'a> {
    link: &'a Link,
    memory: PeerMemory,
    class: Class,
}

impl<'a> Fetching<'a> {
    fn new(link: &'a Link, memory: PeerMemory, class: Class) -> Fetching<'a> {
        Fetching {
            link,
            memory,
            class,
        }
    }
}

impl<V: Vfs> IoServer<V> {
    pub(super) async fn write(&self, link: &Link, request: Message) -> Result<Vec<u8>, Status> {
        let transfer = parse_transfer(request.body())?;
        let (object, capability) = (transfer.object(), &transfer.capability);
        self.objects.check(capability, Capability::WRITE)?;
        // Before the first `await`: the order of writes is the order in which they came.
        let write = (self.objects).accept_write(object, &transfer.file, transfer.placement)?;
        let handle = self.objects.find_or_make(object).await?;
        let target = Target {
            object,
            handle: &handle,
            write: &write,
            capability,
            stability: durability_of(transfer.stability),
        };
        let pace = Pace::new(&self.walks, link);
        let count = own_len(&pace, &transfer.file, transfer.placement).await;
        let class = class_of(request.header.class, count);
        // From before the first byte: if a store restarts meanwhile, only the earlier one shows that bytes are lost.
        let verifier = self.objects.verifier_for_write(object).await?;
        match &transfer.memory {
            Memory::Inline => {
                let data = request.data_range();
                if data.len() as u64 != count {
                    return Err(Status::Inval);
                }
                let bytes = (request.into_buffer(), data);
                let storing = self.store_own(target, &transfer, bytes, None, &pace);
                storing.await?;
            }
            Memory::Region { key, shape } => {
                let source = Fetching::new(link, PeerMemory::Region(RemoteKey(*key)), class);
                let pairs = pairs(&transfer.file, transfer.placement, shape);
                let plans = Plans::new(pairs, self.write_piece(count), &pace);
                self.write_from(source, plans, target).await?;
            }
            Memory::Regions(pieces) => {
                let (memory, shape) = PeerMemory::regions(pieces)?;
                let source = Fetching::new(link, memory, class);
                let pairs = pairs(&transfer.file, transfer.placement, &shape);
                let plans = Plans::new(pairs, self.write_piece(count), &pace);
                self.write_from(source, plans, target).await?;
            }
            Memory::Eager { slot } => {
                let buffer = link.take_eager_buffer(*slot).ok_or(Status::Inval)?;
                let stored = (self.write_eager(target, &transfer, buffer, count, &pace)).await;
                link.restore_eager_buffers();
                stored?;
            }
            Memory::ClientDriven { number } => {
                let written = WrittenBuffer {
                    number: *number,
                    count,
                    class,
                };
                self.write_client_driven(link, written, &transfer, target, &pace)
                    .await?;
            }
        }
        let state = self.objects.state_of(Some(&handle)).await?;
        let told = self.objects.as_told(object.group, state);
        let done = TransferDone {
            count,
            state: ObjectState { verifier, ..told },
            reference: None,
        };
        Ok(match transfer.memory {
            Memory::ClientDriven { .. } => self.written_client_driven(link, done),
            _ => to_bytes(&done),
        })
    }

    /// Stores the bytes that the client has written to an eager buffer.
    async fn write_eager(
        &self,
        target: Target<'_>,
        transfer: &Transfer,
        buffer: Buffer,
        count: u64,
        pace: &Pace,
    ) -> Result<(), Status> {
        let len = usize::try_from(count).map_err(|_| Status::Inval)?;
        if len > buffer.len() {
            return Err(Status::Inval);
        }
        self.store_own(target, transfer, (buffer, 0..len), None, pace)
            .await
    }

    /// Stores the server's own bytes, which lie one behind the other in a buffer. A permit lasts until then.
    pub(super) async fn store_own(
        &self,
        target: Target<'_>,
        transfer: &Transfer,
        bytes: PutBytes,
        permit: Option<Permit>,
        pace: &Pace,
    ) -> Result<(), Status> {
        let (buffer, data) = bytes;
        let start = data.start as u64;
        let pairs = pairs_together(&transfer.file, transfer.placement, start);
        let mut plans = Plans::new(pairs, u32::MAX, pace);
        let mut next = plans.next().await;
        if let Some(plan) = &next
            && let Some(ByteRun { offset, len }) = only(ranges_of(plan))
            && len == data.len() as u64
        {
            let storing = self.objects.store(target, offset, buffer, data, permit);
            return storing.await;
        }
        while let Some(plan) = next {
            self.store_copies(target, &buffer, &plan).await?;
            next = plans.next().await;
        }
        Ok(())
    }

    /// How many of `count` bytes are fetched at a time: half of them, within bounds, so that network and disk overlap.
    fn write_piece(&self, count: u64) -> u32 {
        let longest = self.policy.write_piece;
        let half = u32::try_from(count.div_ceil(2)).unwrap_or(longest);
        half.max(WRITE_PIECE_LEN_MIN).min(longest)
    }

    /// Fetches one piece while the one before is being written.
    async fn write_from(
        &self,
        source: Fetching<'_>,
        mut plans: Plans<'_>,
        target: Target<'_>,
    ) -> Result<(), Status> {
        let mut here = self.fetch_next(&source, &mut plans).await?;
        while let Some((fetched, permit)) = here {
            let storing = self.store_fetched(target, fetched, permit);
            let (stored, fetched) = both(storing, self.fetch_next(&source, &mut plans)).await;
            stored?;
            here = fetched?;
        }
        Ok(())
    }

    /// Fetches the bytes of the next plan by a permit, which lasts until they are stored.
    async fn fetch_next(
        &self,
        source: &Fetching<'_>,
        plans: &mut Plans<'_>,
    ) -> Result<Option<(Fetched, Permit)>, Status> {
        let Some(mut plan) = plans.next().await else {
            return Ok(None);
        };
        let Fetching {
            link,
            ref memory,
            class,
        } = *source;
        let len = plan.iter().map(|pair| u64::from(pair.len)).sum();
        let scheduler = match class {
            Class::Metadata | Class::Small => &self.small,
            Class::Bulk | Class::Background => &self.writes,
        };
        let permit = scheduler.take(flow_of(link, class), len).await;
        let mut at = 0;
        let mut reads = Vec::with_capacity(plan.len());
        for pair in &mut plan {
            reads.push((at, memory.address(pair.memory_offset)?, pair.len));
            pair.memory_offset = at;
            at += u64::from(pair.len);
        }
        let buffer = self.slab_slot(len).await?;
        let fetch = self.fetches.begin(link);
        let read = link.read(buffer, &reads).await;
        drop(fetch);
        let buffer = read.map_err(|error: LinkError| {
            tracing::debug!(%error, "cannot fetch WRITE data");
            Status::Io
        })?;
        Ok(Some((Fetched { buffer, plan }, permit)))
    }

    /// Memory for `len` bytes. If there is none, the oldest fetch from a stalled client is ended.
    ///
    /// # Errors
    /// `Jukebox`: fetches hold all memory, and none is old enough to be ended.
    pub(super) async fn slab_slot(&self, len: u64) -> Result<Buffer, Status> {
        self.slabs_idle.look_after(&self.runtime, &self.slabs);
        loop {
            if let Some(slot) = self.free_slab_slot(len) {
                return Ok(slot);
            }
            let over = self.fetches.end_oldest().ok_or(Status::Jukebox)?;
            // An error is the end: the sender is dropped, nothing is sent.
            let _ = over.await;
        }
    }

    fn free_slab_slot(&self, len: u64) -> Option<Buffer> {
        self.slabs.take_or_trim(usize::try_from(len).ok()?)
    }

    /// Stores the bytes of a plan, which lie one behind the other in a buffer. The permit lasts until then.
    async fn store_fetched(
        &self,
        target: Target<'_>,
        Fetched { buffer, plan }: Fetched,
        permit: Permit,
    ) -> Result<(), Status> {
        match only(ranges_of(&plan)) {
            // Bounded by SLAB_LEN_MAX.
            Some(ByteRun { offset, len }) => {
                let data = 0..len as usize;
                let storing = self.objects.store(target, offset, buffer, data, permit);
                storing.await
            }
            None => self.store_copies(target, &buffer, &plan).await,
        }
    }

    /// Stores the bytes of a plan, each range out of a copy of its own. In the buffer they lie one behind the other,
    /// from the first pair's place on.
    async fn store_copies(
        &self,
        target: Target<'_>,
        buffer: &Buffer,
        plan: &[Pair],
    ) -> Result<(), Status> {
        let first = plan.first().map_or(0, |pair| pair.memory_offset);
        let mut at = usize::try_from(first).map_err(|_| Status::Inval)?;
        let mut ranges = ranges_of(plan).peekable();
        while ranges.peek().is_some() {
            let mut together: Vec<Storing<'_>> = Vec::new();
            let mut end_before = 0;
            // Ranges that follow each other in the object may be written in any order. Overlapping ones may not: the
            // later one must win.
            while together.len() < STORED_AT_A_TIME
                && let Some(ByteRun { offset, len }) =
                    ranges.next_if(|run| run.offset >= end_before)
            {
                // Ranges add up to the bytes in the buffer.
                let end = at + len as usize;
                let part = copy_of(buffer, at..end)?;
                let range = 0..part.len();
                let storing = self.objects.store(target, offset, part, range, ());
                together.push(Box::pin(storing));
                (at, end_before) = (end, offset.saturating_add(len));
            }
            let stored: Result<Vec<()>, Status> = all(together).await.into_iter().collect();
            stored?;
        }
        Ok(())
    }
}

/// The only range, if there is one alone.
fn only(mut ranges: impl Iterator<Item = ByteRun>) -> Option<ByteRun> {
    let first = ranges.next();
    first.filter(|_| ranges.next().is_none())
}
