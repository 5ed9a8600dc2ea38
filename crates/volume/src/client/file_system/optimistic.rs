//! Reads without a call: from the client's own blocks, or by RDMA Reads of the objects that I/O servers export (paper
//! 003).
//!
//! Without a cache of data, a read that begins after the acknowledgement of a write, to any client, sees that write as
//! a call does. A server takes the bytes from its page cache, where a WRITE puts them before its reply.
//!
//! A Read past the end of an object is refused, and a call finds the size. All bytes of a successful read are
//! therefore in the file. A read over several servers is several reads, as it is by calls.
//!
//! With a cache of data, a read may miss writes of other clients that are younger than the cache's age. It never
//! misses writes of this client.

use super::VolumeFs;
use super::bytes::ByteRange;
use crate::client::data::DataError;
use crate::client::leases::Lease;
use crate::client::optimistic::CallWay;
use crate::client::references::{Extent, extents_of};
use crate::client::{OptimisticCounters, error::OperationError};
use crate::limits::{OPTIMISTIC_EXTENTS_MAX, OPTIMISTIC_LEN_MAX};
use crate::link::{ExportedRead, Link, LinkError};
use gannet_fabric::{
    Access, AccessError, Reference, Region, RegisterError, Scope, Span, with_memory,
};
use gannet_meta::groups::Groups;
use gannet_runtime::{Buffer, Instant, LocalFuture, all};
use gannet_vfs::Status;
use gannet_wire::volume::{FileId, INLINE_DATA_MAX, ObjectRight};

/// An extent with the connection to its server and its reference there.
struct Known {
    extent: Extent,
    link: Link,
    reference: Reference,
}

impl VolumeFs {
    /// The counters of optimistic reads.
    pub fn optimistic_counters(&self) -> OptimisticCounters {
        self.references.counters()
    }

    /// Reads a range without a call, if all of it is believed to be in reach. Returns false if a call must read it;
    /// the content of the buffer is then unknown.
    ///
    /// # Errors
    /// The buffer could not be registered, and its memory is lost.
    pub(super) async fn read_optimistically(
        &self,
        lease: &Lease,
        id: FileId,
        range: ByteRange,
        buffer: &mut Buffer,
    ) -> Result<bool, Status> {
        let ByteRange { offset, count } = range;
        let len = count as usize;
        if let Some(target) = buffer.get_mut(..len)
            && self.references.fill_from_cache(id, offset, target)
        {
            return Ok(true);
        }
        if !self.references.is_on() || count > OPTIMISTIC_LEN_MAX {
            return Ok(false);
        }
        let now = self.now();
        let Some(known) = self.known(lease, id, range, now).await else {
            return Ok(false);
        };
        let start = self.references.read_starts(id);
        // Connecting to the servers is no part of what a read takes.
        let since = self.now();
        let whole = self.read_known(id, &known, since, offset, buffer).await?;
        if whole {
            self.references
                .keep(start, offset, buffer.get(..len).unwrap_or_default());
        }
        Ok(whole)
    }

    /// The parts of a range that may be read by references.
    fn extents(&self, lease: &Lease, groups: &Groups, range: ByteRange) -> Option<Vec<Extent>> {
        let (layout, block_len) = (&lease.layout, self.references.block_len());
        extents_of(layout, groups, block_len, range, OPTIMISTIC_EXTENTS_MAX)
    }

    /// The references for all bytes of a range, if all are known and reading by them pays.
    async fn known(
        &self,
        lease: &Lease,
        id: FileId,
        range: ByteRange,
        now: Instant,
    ) -> Option<Vec<Known>> {
        let groups = self.servers.groups_of(&lease.layout).await.ok()?;
        let extents = self.extents(lease, &groups, range)?;
        let mut known = Vec::with_capacity(extents.len());
        for extent in extents {
            let link = self.servers.io_server(extent.server).await.ok()?;
            let way = way_of(extent.len);
            let reference = self.references.reference(id, &extent, &link, way, now)?;
            known.push(Known {
                extent,
                link,
                reference,
            });
        }
        Some(known)
    }

    /// Reads extents to their places in `buffer`, which begins at `offset` of the file. Returns false if a Read was
    /// refused or its connection ended.
    async fn read_known(
        &self,
        id: FileId,
        known: &[Known],
        since: Instant,
        offset: u64,
        buffer: &mut Buffer,
    ) -> Result<bool, Status> {
        let len: u32 = known.iter().map(|it| it.extent.len).sum();
        // Memory that is registered already needs no copy. Other memory is not registered for this: a failed
        // registration would lose it, and a call of this length needs none.
        if !self.mover.cache().is_registered(buffer) {
            let Some(sink) = self.references.take_sink(known.first().map(|it| &it.link)) else {
                return Ok(false);
            };
            let span = |extent: &Extent| Span {
                region: Region::clone(&sink),
                offset: extent.file_offset - offset,
                len: extent.len,
            };
            let whole = self.read_spans(id, known, since, &span).await;
            let whole = whole && copy_out(&sink, buffer, len as usize);
            self.references.give_sink(sink);
            return Ok(whole);
        }
        let gone = |error| {
            let error = OperationError::Transfer(DataError::Memory(error));
            self.last_error.note(self.now(), &error)
        };
        let memory = std::mem::replace(buffer, Buffer::zeroed(0));
        let cache = self.mover.cache();
        let exposed = cache
            .expose(memory, Access::Local, Scope::Domain)
            .await
            .map_err(gone)?;
        let span = |extent: &Extent| exposed.span(extent.file_offset - offset, extent.len);
        let whole = self.read_spans(id, known, since, &span).await;
        let memory = cache.take_back(exposed).await;
        *buffer = memory.ok_or_else(|| gone(RegisterError::Unsupported))?;
        Ok(whole)
    }

    /// Reads each extent to its span; returns whether all succeeded.
    async fn read_spans(
        &self,
        id: FileId,
        known: &[Known],
        since: Instant,
        span: &dyn Fn(&Extent) -> Span,
    ) -> bool {
        if let [one] = known {
            let read = ExportedRead {
                sink: span(&one.extent),
                source: one.reference,
            };
            let outcome = one.link.read_exported(read, since).await;
            return self.note_read(id, &one.extent, since, outcome);
        }
        let reads = known.iter().map(|it| {
            let link = it.link.clone();
            let read = ExportedRead {
                sink: span(&it.extent),
                source: it.reference,
            };
            let reading: LocalFuture<Result<Result<(), AccessError>, LinkError>> =
                Box::pin(async move { link.read_exported(read, since).await });
            reading
        });
        let outcomes = all(reads).await;
        let mut whole = true;
        for (it, outcome) in known.iter().zip(outcomes) {
            whole &= self.note_read(id, &it.extent, since, outcome);
        }
        whole
    }

    fn note_read(
        &self,
        id: FileId,
        extent: &Extent,
        since: Instant,
        read: Result<Result<(), AccessError>, LinkError>,
    ) -> bool {
        // The connection has ended: the call makes another one.
        let Ok(outcome) = read else {
            return false;
        };
        let way = way_of(extent.len);
        self.references
            .note_outcome(id, extent, way, since, outcome);
        outcome.is_ok()
    }

    /// Notes that a call that began at `since` has read a range, which is now in the servers' memory. Starts a
    /// prefetch of references where one is due.
    pub(super) fn note_call_read(
        &self,
        lease: &Lease,
        id: FileId,
        range: ByteRange,
        since: Instant,
    ) {
        if !self.references.is_on() {
            return;
        }
        let took = self.now() - since;
        let extents = self.extents(lease, &self.servers.known_groups(), range);
        for extent in extents.into_iter().flatten() {
            let way = way_of(extent.len);
            self.references.note_call(id, &extent, way, took);
            let name = (id, extent.index);
            if let Some(why) = self.references.prefetch_reason(name) {
                let right = ObjectRight {
                    group: extent.group,
                    capability: lease.capability,
                };
                self.prefetch(extent.server, (name, right), why);
            }
        }
    }
}

/// Copies the bytes of a sink to the caller's buffer.
fn copy_out(sink: &Region, buffer: &mut Buffer, len: usize) -> bool {
    let copy = |memory: &mut [u8]| match (memory.get(..len), buffer.get_mut(..len)) {
        (Some(bytes), Some(target)) => {
            target.copy_from_slice(bytes);
            true
        }
        _ => false,
    };
    with_memory(sink, copy).unwrap_or(false)
}

/// The way by which a call would read `len` bytes.
fn way_of(len: u32) -> CallWay {
    if len as usize <= INLINE_DATA_MAX {
        CallWay::Inline
    } else {
        CallWay::Direct
    }
}
