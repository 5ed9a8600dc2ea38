//! READ: bytes leave from the page cache by RDMA Write, or in the reply.

use super::client_driven::ReadToBuffer;
use super::peer_memory::PeerMemory;
use super::walk::{Pace, Plans, own_len, ranges_of};
use super::{IoServer, class_of, flow_of, parse_transfer};
use crate::layout::{ByteRun, Pair, Pairs, object_size, pairs, pairs_together};
use crate::limits::{EAGER_MESSAGE_LEN, RANGE_STEPS};
use crate::link::{AnswerBytes, Carrier, Hold, Link, Message};
use gannet_datapath::{Datapath, FileRange, Gather, Part, Writes};
use gannet_fabric::{Endpoint, RemoteKey, Source};
use gannet_runtime::{Buffer, FileRef};
use gannet_vfs::{FileHandle, Status, Vfs};
use gannet_wire::volume::{
    Capability, Class, INLINE_DATA_MAX, Memory, ObjectReference, ObjectRight, ObjectState,
    Transfer, TransferDone,
};
use gannet_wire::xdr::to_bytes;
use std::io;
use std::ops::Range;

impl<V: Vfs> IoServer<V> {
    /// Answers a READ with the body and the data of the reply.
    pub(super) async fn read(&self, link: &Link, request: &Message) -> Result<AnswerBytes, Status> {
        let transfer = parse_transfer(request.body())?;
        let read = self.read_transfer(link, request, &transfer).await;
        read.map_err(|status| self.objects.own_failure(transfer.group, status))
    }

    async fn read_transfer(
        &self,
        link: &Link,
        request: &Message,
        transfer: &Transfer,
    ) -> Result<AnswerBytes, Status> {
        let object = self.find_to_read(transfer).await?;
        let pace = Pace::new(&self.walks, link);
        let count = own_len(&pace, &transfer.file, transfer.placement).await;
        if object.is_none() && count > 0 {
            self.objects.may_be_lost(transfer.object())?;
        }
        let class = class_of(request.header.class, count);
        let reference = self.reference_of(link, transfer, object.as_ref()).await?;
        let mut carrier = None;
        let (data, state) = match &transfer.memory {
            Memory::Inline => {
                let len = usize::try_from(count).map_err(|_| Status::Toosmall)?;
                if len > INLINE_DATA_MAX {
                    return Err(Status::Toosmall);
                }
                let buffer = Buffer::from_vec(vec![0; len]);
                let gathered = self.gather_own(object.as_ref(), transfer, buffer, &pace);
                let (buffer, state) = gathered.await?;
                (buffer.into_vec(), state)
            }
            Memory::Region { key, shape } => {
                let places = pairs(&transfer.file, transfer.placement, shape);
                let memory = PeerMemory::Region(RemoteKey(*key));
                let read = self.read_to(link, class, object.as_ref(), memory, places, &pace);
                (Vec::new(), read.await?)
            }
            Memory::Regions(pieces) => {
                let (memory, shape) = PeerMemory::regions(pieces)?;
                let places = pairs(&transfer.file, transfer.placement, &shape);
                let read = self.read_to(link, class, object.as_ref(), memory, places, &pace);
                (Vec::new(), read.await?)
            }
            Memory::Eager { slot } => {
                let read = self.read_eager(link, class, *slot, object.as_ref(), transfer, &pace);
                let (carried, state) = read.await?;
                carrier = carried;
                (Vec::new(), state)
            }
            Memory::ClientDriven { .. } => {
                let read = ReadToBuffer {
                    transfer,
                    count,
                    class,
                    reference,
                };
                let read = self.read_client_driven(link, object.as_ref(), read, &pace);
                return Ok(AnswerBytes::of_body(read.await?));
            }
        };
        let state = self.after_read(transfer, state)?;
        let done = TransferDone {
            count,
            state,
            reference,
        };
        Ok(AnswerBytes {
            data,
            carrier,
            ..AnswerBytes::of_body(to_bytes(&done))
        })
    }

    async fn find_to_read(&self, transfer: &Transfer) -> Result<Option<FileHandle>, Status> {
        self.objects.check(&transfer.capability, Capability::READ)?;
        let found = (self.objects).find_to_read(transfer.object(), || cover_of(transfer));
        found.await
    }

    /// The state that goes with bytes that were read, if the server may still answer.
    pub(super) fn after_read(
        &self,
        transfer: &Transfer,
        state: ObjectState,
    ) -> Result<ObjectState, Status> {
        (self.objects).may_read(transfer.object(), || cover_of(transfer))?;
        Ok(self.objects.as_told(transfer.group, state))
    }

    /// Queues RDMA Writes to an eager buffer of the peer, or gives memory from which the bytes leave with the reply.
    async fn read_eager(
        &self,
        link: &Link,
        class: Class,
        slot: u32,
        object: Option<&FileHandle>,
        transfer: &Transfer,
        pace: &Pace,
    ) -> Result<(Option<Carrier>, ObjectState), Status> {
        let (file, placement) = (&transfer.file, transfer.placement);
        let count = own_len(pace, file, placement).await;
        if link.can_carry_reply(slot, count) {
            let data_len = u32::try_from(count).map_err(|_| Status::Inval)?;
            let buffer = self.slab_slot(count + u64::from(EAGER_MESSAGE_LEN)).await?;
            let gathered = self.gather_own(object, transfer, buffer, pace);
            let (buffer, state) = gathered.await?;
            return Ok((Some(Carrier::new(slot, buffer, data_len)), state));
        }
        let target = link.peers_buffer(slot, count).ok_or(Status::Inval)?;
        let places = pairs_together(file, placement, target.offset);
        let memory = PeerMemory::Region(target.key);
        let read = self.read_to(link, class, object, memory, places, pace);
        Ok((None, read.await?))
    }

    /// The reference that goes with the reply to a READ, if one is wanted.
    async fn reference_of(
        &self,
        link: &Link,
        transfer: &Transfer,
        object: Option<&FileHandle>,
    ) -> Result<Option<ObjectReference>, Status> {
        let Some(object) = object.filter(|_| transfer.wants_reference) else {
            return Ok(None);
        };
        let mut own = pairs_together(&transfer.file, transfer.placement, 0);
        let first = own.next().map(|it| (it.object_offset, u64::from(it.len)));
        let right = ObjectRight {
            group: transfer.group,
            capability: transfer.capability,
        };
        self.reference(link, &right, object, first).await
    }

    /// Fills `buffer` with the server's own bytes of a transfer, one behind the other; zeros if there is no object. The
    /// state of the object is from before the bytes: taken later, a write between could make zeros look like data.
    pub(super) async fn gather_own(
        &self,
        object: Option<&FileHandle>,
        transfer: &Transfer,
        buffer: Buffer,
        pace: &Pace,
    ) -> Result<(Buffer, ObjectState), Status> {
        let pairs = pairs_together(&transfer.file, transfer.placement, 0);
        let mut plans = Plans::new(pairs, u32::MAX, pace);
        let (mut gather, mut state) = (Gather::to(buffer), None);
        while let Some(plan) = plans.next().await {
            let before = self.gather(object, &plan, &mut gather, pace).await?;
            state = state.or(before);
        }
        let state = match state {
            Some(state) => state,
            None => self.objects.state_of(object).await?,
        };
        Ok((gather.into_buffer(), state))
    }

    /// Appends the ranges of a plan. Gives the object's state from before the first of them.
    async fn gather(
        &self,
        object: Option<&FileHandle>,
        plan: &[Pair],
        gather: &mut Gather,
        pace: &Pace,
    ) -> Result<Option<ObjectState>, Status> {
        let mut state = None;
        for ByteRun { offset, len } in ranges_of(plan) {
            pace.steps(RANGE_STEPS).await;
            let mut zeros = usize::try_from(len).map_err(|_| Status::Serverfault)?;
            if let Some(object) = object {
                let wanted = u32::try_from(len).map_err(|_| Status::Serverfault)?;
                let opened = self.objects.open(object, offset, wanted).await?;
                state.get_or_insert(opened.state);
                let (file, len) = (opened.file, opened.count as usize);
                let range = FileRange { file, offset, len };
                let appended = self
                    .objects
                    .timing_disk(gather.append(range, &self.runtime))
                    .await;
                appended.map_err(unreadable)?;
                zeros -= len;
            }
            gather.append_zeros(zeros).map_err(unreadable)?;
        }
        Ok(state)
    }

    /// The RDMA Writes of a plan through registered memory.
    async fn staged(
        &self,
        datapath: &Datapath,
        endpoint: &dyn Endpoint,
        object: Option<&FileHandle>,
        memory: &PeerMemory,
        plan: &[Pair],
        pace: &Pace,
    ) -> Result<Writes, Status> {
        let len = plan.iter().map(|pair| u64::from(pair.len)).sum();
        let mut gather = Gather::to(self.slab_slot(len).await?);
        self.gather(object, plan, &mut gather, pace).await?;
        let (mut at, mut parts) = (0, Vec::with_capacity(plan.len()));
        for pair in plan {
            parts.push(Part {
                offset: at,
                len: pair.len,
                target: memory.address(pair.memory_offset)?,
            });
            at += u64::from(pair.len);
        }
        let mut writes = Writes::default();
        let put = writes.put_buffer(datapath, endpoint, gather.into_buffer(), &parts);
        put.map_err(|error| {
            tracing::debug!(%error, "cannot send READ data");
            Status::Serverfault
        })?;
        Ok(writes)
    }

    /// Queues RDMA Writes of all of the server's bytes; they leave before the reply. Gives the object's state before
    /// them.
    async fn read_to(
        &self,
        link: &Link,
        class: Class,
        object: Option<&FileHandle>,
        memory: PeerMemory,
        places: Pairs<'_>,
        pace: &Pace,
    ) -> Result<ObjectState, Status> {
        let (file, state) = match object {
            Some(handle) => {
                let opened = self.objects.open(handle, 0, 0).await?;
                (Some(opened.file), opened.state)
            }
            None => (None, self.objects.nothing()),
        };
        let flow = flow_of(link, class);
        let mut plans = Plans::new(places, self.policy.read_piece, pace);
        while let Some(plan) = plans.next().await {
            if let Some(file) = &file {
                self.warm_all(file, &plan, pace).await?;
            }
            let bytes = plan.iter().map(|pair| u64::from(pair.len)).sum();
            let permit: Option<Hold> = match class {
                Class::Metadata | Class::Small => None,
                // After the bytes are in memory: with a permit before, other connections would wait for this one's
                // disk.
                Class::Bulk | Class::Background => {
                    Some(Box::new(self.reads.take(flow, bytes).await))
                }
            };
            if let Some((datapath, endpoint)) = link.staging() {
                let staged = self.staged(datapath, endpoint, object, &memory, &plan, pace);
                let Writes { work, sources, .. } = staged.await?;
                let hold: Hold = Box::new((sources, permit));
                link.write_all(work, Some(hold)).await;
                continue;
            }
            let work = plan.iter().map(|pair| {
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
                Ok((source, memory.address(pair.memory_offset)?))
            });
            let work: Vec<_> = work.collect::<Result<_, Status>>()?;
            link.write_all(work, permit).await;
        }
        Ok(state)
    }

    /// Reads the bytes of a plan into the page cache, where they are not there.
    async fn warm_all(&self, file: &FileRef, plan: &[Pair], pace: &Pace) -> Result<(), Status> {
        for ByteRun { offset, len } in ranges_of(plan) {
            pace.steps(RANGE_STEPS).await;
            let range = FileRange {
                file: FileRef::clone(file),
                offset,
                len: usize::try_from(len).map_err(|_| Status::Serverfault)?,
            };
            let warmed = self.objects.timing_disk(range.warm(&self.runtime)).await;
            warmed.map_err(unreadable)?;
        }
        Ok(())
    }
}

/// A range with all bytes of the server's object that a transfer moves.
fn cover_of(transfer: &Transfer) -> Range<u64> {
    let (file, placement) = (&transfer.file, transfer.placement);
    let starts = file.pieces().map(|piece| piece.offset);
    let start = object_size(starts.min().unwrap_or_default(), placement);
    start..object_size(file.end(), placement)
}

fn unreadable(error: io::Error) -> Status {
    tracing::warn!(%error, "an object cannot be read");
    Status::Io
}
