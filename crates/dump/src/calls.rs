//! Calls that wait for their replies, and the memory that they offered.
//!
//! A reply does not name the procedure that it answers, and the transport header gives only the location of a long
//! message. So this module fills the Read chunk at position zero and the Reply chunk of a call. It does so while the
//! capture shows the RDMA operations that fill them.

use crate::limits::{CALLS_MAX, MESSAGE_KEPT_MAX};
use gannet_wire::ddp::TaggedLocation;
use gannet_wire::rpcrdma::{ChunkLists, Segment};
use std::collections::BTreeMap;

/// A procedure of any RPC program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProcedureId {
    pub(crate) program: u32,
    pub(crate) version: u32,
    pub(crate) number: u32,
}

/// A call that was seen.
#[derive(Debug)]
pub(crate) struct Call {
    /// The time of the call, in nanoseconds since the epoch.
    pub(crate) time: u64,
    /// The procedure; `None` while the call lies in a Read chunk yet to be read.
    pub(crate) procedure: Option<ProcedureId>,
    /// The Read chunk at position zero.
    call_chunk: Vec<Region>,
    reply_chunk: Vec<Region>,
    number: u64,
}

/// A segment of offered memory, filled from its start.
#[derive(Debug)]
struct Region {
    segment: Segment,
    bytes: Vec<u8>,
}

impl Region {
    fn new(segment: &Segment) -> Region {
        Region {
            segment: *segment,
            bytes: Vec::new(),
        }
    }

    /// Takes `bytes` for `offset` of the segment's key, if they continue what is here.
    fn place(&mut self, offset: u64, bytes: &[u8]) -> bool {
        let at = offset.wrapping_sub(self.segment.offset);
        let end = at.saturating_add(bytes.len() as u64);
        let fits = end <= u64::from(self.segment.length).min(MESSAGE_KEPT_MAX as u64);
        let continues = at == self.bytes.len() as u64 && fits;
        if continues {
            self.bytes.extend_from_slice(bytes);
        }
        continues
    }
}

/// The calls of one direction.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    by_xid: BTreeMap<u32, Call>,
    /// XIDs by the order of the calls, oldest first.
    order: BTreeMap<u64, u32>,
    /// The XID of the call that offered the memory of a key.
    owners: BTreeMap<u32, u32>,
    count: u64,
}

impl Calls {
    /// Remembers a call; true if one with this XID waits already.
    pub(crate) fn insert(
        &mut self,
        xid: u32,
        time: u64,
        procedure: Option<ProcedureId>,
        lists: &ChunkLists,
    ) -> bool {
        let is_resent = self.remove(xid).is_some();
        if self.order.len() >= CALLS_MAX
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.remove(oldest);
        }
        let reads = lists.reads().iter().filter(|read| read.position == 0);
        let call = Call {
            time,
            procedure,
            call_chunk: reads.map(|read| Region::new(&read.segment)).collect(),
            reply_chunk: lists
                .reply()
                .unwrap_or_default()
                .iter()
                .map(Region::new)
                .collect(),
            number: self.count,
        };
        for region in call.call_chunk.iter().chain(&call.reply_chunk) {
            self.owners.insert(region.segment.handle, xid);
        }
        self.order.insert(self.count, xid);
        self.count += 1;
        self.by_xid.insert(xid, call);
        is_resent
    }

    /// The call with this XID.
    pub(crate) fn get_mut(&mut self, xid: u32) -> Option<&mut Call> {
        self.by_xid.get_mut(&xid)
    }

    /// Forgets a call: it was answered.
    pub(crate) fn remove(&mut self, xid: u32) -> Option<Call> {
        let call = self.by_xid.remove(&xid)?;
        self.order.remove(&call.number);
        for region in call.call_chunk.iter().chain(&call.reply_chunk) {
            if self.owners.get(&region.segment.handle) == Some(&xid) {
                self.owners.remove(&region.segment.handle);
            }
        }
        Some(call)
    }

    /// An RDMA operation moved `bytes` to or from `memory`. Returns the XID of the call whose chunk at position zero is
    /// complete with them.
    pub(crate) fn place(&mut self, memory: TaggedLocation, bytes: &[u8]) -> Option<u32> {
        // RPC-over-RDMA's handles are iWARP's STags.
        let (handle, offset) = (memory.stag.0, memory.offset.0);
        let xid = *self.owners.get(&handle)?;
        let call = self.by_xid.get_mut(&xid)?;
        let place =
            |region: &mut Region| region.segment.handle == handle && region.place(offset, bytes);
        if call.call_chunk.iter_mut().any(place) {
            return call.call_chunk_bytes().map(|_| xid);
        }
        call.reply_chunk.iter_mut().any(place);
        None
    }
}

impl Call {
    /// The call that travelled in the chunk at position zero, once all of it was read.
    pub(crate) fn call_chunk_bytes(&self) -> Option<Vec<u8>> {
        let lengths = self.call_chunk.iter().map(|region| region.segment.length);
        gather(&self.call_chunk, lengths)
    }

    /// The reply that was written into the Reply chunk, of which `returned` is what the reply's header says; `None`
    /// when not all of it was captured.
    pub(crate) fn reply_chunk_bytes(&self, returned: &[Segment]) -> Option<Vec<u8>> {
        if returned.len() > self.reply_chunk.len() {
            return None;
        }
        gather(&self.reply_chunk, returned.iter().map(|it| it.length))
    }
}

/// The first bytes of each region, as many as `lengths` says.
fn gather(regions: &[Region], lengths: impl Iterator<Item = u32>) -> Option<Vec<u8>> {
    let mut gathered = Vec::new();
    for (region, length) in regions.iter().zip(lengths) {
        gathered.extend_from_slice(region.bytes.get(..length as usize)?);
    }
    Some(gathered)
}
