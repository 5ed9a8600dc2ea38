//! References: the objects of I/O servers that a client may read without a call, and the decision whether it does.
//!
//! A reference names an object on one connection and is dropped with it. The client guesses the blocks of the object
//! that are in the server's memory, from answered READs and from runs that the server reported. A wrong guess costs an
//! exception and then the call that the client would have made anyway.

use super::file_system::bytes::ByteRange;
use super::optimistic::{
    AdaptivePolicies, AdaptivePolicy, Balance, BlockLookup, CallWay, ClientMemory,
    ClientMemoryCounters, ClientMemoryOptions, PolicyCounters, ReadPath, ReadStart,
};
use crate::limits::{DIRECTORY_LEN, OPTIMISTIC_LEN_MAX, REFERENCES_MAX, SINKS_MAX};
use crate::link::Link;
use gannet_fabric::{Access, AccessError, Backing, EndpointId, Reference, Region, Scope};
use gannet_meta::groups::Groups;
use gannet_runtime::{Buffer, Handle, Instant};
use gannet_wire::volume::{FileId, LayoutRecord, ObjectReference, ResidentRun};
use std::cell::{Cell, RefCell, RefMut};
use std::collections::HashMap;
use std::ops::Add;
use std::rc::Rc;
use std::time::Duration;

/// Whether a client reads by references.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Optimistic {
    /// Where the connection survives exceptions, while reading by references pays.
    #[default]
    Auto,
    /// Where the connection survives exceptions, whether reading by references pays or not.
    On,
    /// Never.
    Off,
}

/// How a client uses memory of its own and of its servers for reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadOptions {
    /// Whether it reads by references.
    pub optimistic: Optimistic,
    /// Bytes for cached blocks and for references together; 0: no blocks, and a fixed room for references.
    pub cache_len: u64,
    /// The time for which a cached block may answer reads. A read may miss writes of others that are younger.
    pub cache_age: Duration,
}

impl Default for ReadOptions {
    /// References alone: every read sees the writes that were acknowledged before it.
    fn default() -> ReadOptions {
        ReadOptions {
            optimistic: Optimistic::default(),
            cache_len: 0,
            cache_age: Duration::from_secs(1),
        }
    }
}

/// Counters of optimistic reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OptimisticCounters {
    /// Counters of cached blocks and of references.
    pub memory: ClientMemoryCounters,
    /// Decisions of the policies.
    pub policy: PolicyCounters,
    /// Reads that succeeded by references.
    pub reads: u64,
    /// Reads that a server refused; calls followed.
    pub refused: u64,
    /// Refused reads whose key was not valid any more.
    pub refused_keys: u64,
    /// Refused reads beyond the end of their object.
    pub refused_bounds: u64,
    /// Objects whose references are known.
    pub objects: u64,
}

impl Add for OptimisticCounters {
    type Output = OptimisticCounters;

    fn add(self, other: OptimisticCounters) -> OptimisticCounters {
        OptimisticCounters {
            memory: self.memory + other.memory,
            policy: self.policy + other.policy,
            reads: self.reads + other.reads,
            refused: self.refused + other.refused,
            refused_keys: self.refused_keys + other.refused_keys,
            refused_bounds: self.refused_bounds + other.refused_bounds,
            objects: self.objects + other.objects,
        }
    }
}

/// An object of a file: the file, and the index of the group in its layout.
pub(super) type ObjectName = (FileId, u32);

/// The reason of a request for references ahead of the reads that need them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PrefetchReason {
    /// A call read the object although its reference is known: other bytes than expected are in memory.
    ReadAgain,
    /// The object is the first one read on a new connection, which has no references of the objects known before.
    NewConnection,
}

/// The reference to an object, and the server's reports about the object.
struct Known {
    endpoint: EndpointId,
    reference: Reference,
    /// Runs that are in memory by the server's report.
    runs: Vec<ResidentRun>,
    prefetch: Prefetch,
    /// A server refused a read as not resident. It may have closed the file, and opens it with the next READ.
    is_doubtful: bool,
}

/// The requests for references that an object still causes, each once.
///
/// | from | event | to |
/// |---|---|---|
/// | no reference, `Queued` | a READ brings a reference | `Unrequested` |
/// | `Unrequested`, `Requested`, `FirstAgain` | a READ or a request brings one on a new connection | `FirstAgain` |
/// | any | a request brings one, but not as in the line above | `Requested` |
/// | `Unrequested`, `Requested`, `FirstAgain` | a READ brings one on the same connection | the same |
/// | `Unrequested`, `FirstAgain` | a call has read the object | `Requested`, and a request is sent |
/// | `Unrequested`, `Requested`, `FirstAgain` | another object is the first one on a new connection | `Queued` |
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Prefetch {
    /// The runs of the object in memory were not requested.
    Unrequested,
    /// The object is the first one on a new connection, and those known on earlier ones were not requested.
    FirstAgain,
    /// The object waits for a request on a new connection.
    Queued,
    /// Nothing is left to request.
    Requested,
}

/// The message that brought a reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BroughtBy {
    Read,
    Request,
}

impl Prefetch {
    /// The state with a first reference, or with one that replaces another.
    fn with_reference(
        before: Option<Prefetch>,
        is_new_connection: bool,
        by: BroughtBy,
    ) -> Prefetch {
        match (before, by) {
            (Some(state), _) if is_new_connection && state != Prefetch::Queued => {
                Prefetch::FirstAgain
            }
            (_, BroughtBy::Request) => Prefetch::Requested,
            (None | Some(Prefetch::Queued), BroughtBy::Read) => Prefetch::Unrequested,
            (Some(state), BroughtBy::Read) => state,
        }
    }

    /// A call has read the object: the reason for a request, if one is to be sent.
    fn after_call(&mut self) -> Option<PrefetchReason> {
        let reason = match self {
            Prefetch::Unrequested => PrefetchReason::ReadAgain,
            Prefetch::FirstAgain => PrefetchReason::NewConnection,
            Prefetch::Queued | Prefetch::Requested => return None,
        };
        *self = Prefetch::Requested;
        Some(reason)
    }

    /// Another object is the first one on a new connection. Returns whether this one has to be requested now.
    fn queue(&mut self) -> bool {
        std::mem::replace(self, Prefetch::Queued) != Prefetch::Queued
    }
}

impl Known {
    /// Whether its server has reported that all of an extent is in memory.
    fn holds(&self, extent: &Extent) -> bool {
        let end = extent.offset + u64::from(extent.len);
        let holds = |run: &ResidentRun| {
            run.offset <= extent.offset && end <= run.offset.saturating_add(run.len)
        };
        self.runs.iter().any(holds)
    }
}

/// The references of a client, and its policies for using them.
pub(super) struct References {
    runtime: Handle,
    options: ReadOptions,
    objects: RefCell<HashMap<ObjectName, Known>>,
    memory: RefCell<ClientMemory<Box<[u8]>>>,
    policies: RefCell<AdaptivePolicies>,
    /// Reads of this client that are under way.
    reading: Cell<u32>,
    /// Registered memory that no read uses at present, [`OPTIMISTIC_LEN_MAX`] bytes each.
    sinks: RefCell<Vec<Region>>,
    has_said: Cell<bool>,
    reads: Cell<u64>,
    refused: Cell<u64>,
    refused_keys: Cell<u64>,
    refused_bounds: Cell<u64>,
}

/// The part of a read that lies in one object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Extent {
    /// The index of the group in the file's layout, its number in the volume, and that of the server.
    pub(super) index: u32,
    pub(super) group: u32,
    pub(super) server: u32,
    /// The position in the object.
    pub(super) offset: u64,
    /// The position in the file.
    pub(super) file_offset: u64,
    pub(super) len: u32,
}

/// A read that is under way.
pub(super) struct Reading(Rc<References>);

impl Drop for Reading {
    fn drop(&mut self) {
        self.0.reading.set(self.0.reading.get().saturating_sub(1));
    }
}

fn add(counter: &Cell<u64>) {
    counter.set(counter.get() + 1);
}

/// Reads between two reports of the durations of calls and reads to the balance of data and references.
const COSTS_EVERY: u64 = 1024;

/// Servers have numbers below 2^16.
fn short(server: u32) -> u16 {
    u16::try_from(server).unwrap_or(u16::MAX)
}

impl References {
    pub(super) fn new(runtime: Handle, options: ReadOptions) -> Rc<References> {
        let memory = match options.cache_len {
            0 => ClientMemoryOptions {
                balance: Balance::Fixed {
                    directory: DIRECTORY_LEN,
                },
                ..ClientMemoryOptions::new(DIRECTORY_LEN)
            },
            len => ClientMemoryOptions::new(len),
        };
        Rc::new(References {
            runtime,
            options,
            objects: RefCell::default(),
            memory: RefCell::new(ClientMemory::new(memory)),
            policies: RefCell::default(),
            reading: Cell::default(),
            sinks: RefCell::default(),
            has_said: Cell::default(),
            reads: Cell::default(),
            refused: Cell::default(),
            refused_keys: Cell::default(),
            refused_bounds: Cell::default(),
        })
    }

    /// Counts a read as under way until the result is dropped.
    pub(super) fn begin_read(self: &Rc<Self>) -> Reading {
        self.reading.set(self.reading.get() + 1);
        Reading(Rc::clone(self))
    }

    /// The policy for an extent, under the load of now.
    fn policy_of(&self, extent: &Extent, way: CallWay) -> RefMut<'_, AdaptivePolicy> {
        let server = short(extent.server);
        let mut policy = RefMut::map(self.policies.borrow_mut(), |all| all.of(server, way));
        policy.set_load(self.reading.get());
        policy
    }

    pub(super) fn is_on(&self) -> bool {
        self.options.optimistic != Optimistic::Off
    }

    fn has_cache(&self) -> bool {
        self.options.cache_len > 0
    }

    /// Bytes of a block.
    pub(super) fn block_len(&self) -> u32 {
        self.memory.borrow().block_len()
    }

    pub(super) fn counters(&self) -> OptimisticCounters {
        OptimisticCounters {
            memory: self.memory.borrow().counters(),
            policy: self.policies.borrow().counters(),
            reads: self.reads.get(),
            refused: self.refused.get(),
            refused_keys: self.refused_keys.get(),
            refused_bounds: self.refused_bounds.get(),
            objects: self.objects.borrow().len() as u64,
        }
    }

    /// Registered memory for one read. `None`: none can be registered.
    pub(super) fn take_sink(&self, link: Option<&Link>) -> Option<Region> {
        if let Some(sink) = self.sinks.borrow_mut().pop() {
            return Some(sink);
        }
        let domain = link?.endpoint().domain();
        let memory = Backing::Buffer(Buffer::zeroed(OPTIMISTIC_LEN_MAX as usize));
        domain
            .register_now(memory, Access::Local, Scope::Domain)
            .ok()
    }

    /// Takes a sink back. No read may be under way into it: the next read's bytes would mix with that one's.
    pub(super) fn give_sink(&self, sink: Region) {
        let mut sinks = self.sinks.borrow_mut();
        if sinks.len() < SINKS_MAX {
            sinks.push(sink);
        }
    }

    /// Whether a READ of an object should request a reference, because there is no valid one for this connection.
    pub(super) fn wants(&self, name: ObjectName, link: &Link) -> bool {
        if !self.is_on() {
            return false;
        }
        if !link.has_exceptions() {
            self.log_that_calls_are_used();
            return false;
        }
        let objects = self.objects.borrow();
        let known = objects.get(&name);
        known.is_none_or(|known| known.is_doubtful || known.endpoint != link.endpoint().id())
    }

    /// Logs once that connections do not survive exceptions, as a warning if the options demand optimistic reads.
    fn log_that_calls_are_used(&self) {
        const WHY: &str =
            "reads use calls: the connection to a server does not survive a refused Read";
        if self.has_said.replace(true) {
            return;
        }
        match self.options.optimistic {
            Optimistic::On => tracing::warn!("{WHY}"),
            Optimistic::Auto | Optimistic::Off => tracing::info!("{WHY}"),
        }
    }

    /// Notes a reference that a server has reported, and the runs in its memory if it reported some.
    pub(super) fn note_reference(
        &self,
        name: ObjectName,
        link: &Link,
        server: u32,
        reported: &ObjectReference,
        runs: Option<Vec<ResidentRun>>,
    ) {
        let cached = u16::try_from(reported.cached_per_mille).unwrap_or(1000);
        self.policies
            .borrow_mut()
            .server_hit_rate(short(server), cached.min(1000));
        let mut objects = self.objects.borrow_mut();
        if objects.len() >= REFERENCES_MAX && !objects.contains_key(&name) {
            // All are dropped: the map's order would choose another one in each run of a seed. The next READ of each
            // object brings its reference again.
            objects.clear();
        }
        let endpoint = link.endpoint().id();
        let before = objects.remove(&name);
        let is_new_connection = before.as_ref().is_some_and(|it| it.endpoint != endpoint);
        let by = match runs {
            Some(_) => BroughtBy::Request,
            None => BroughtBy::Read,
        };
        let state = before.as_ref().map(|known| known.prefetch);
        let before = before.filter(|known| known.endpoint == endpoint);
        let known = Known {
            endpoint,
            reference: Reference::new(reported.key, reported.offset, reported.access_key),
            runs: runs.or(before.map(|known| known.runs)).unwrap_or_default(),
            prefetch: Prefetch::with_reference(state, is_new_connection, by),
            is_doubtful: false,
        };
        objects.insert(name, known);
    }

    /// The reason to request references from a server after a call has read an object; each reason counts once.
    pub(super) fn prefetch_reason(&self, name: ObjectName) -> Option<PrefetchReason> {
        let mut objects = self.objects.borrow_mut();
        objects.get_mut(&name)?.prefetch.after_call()
    }

    /// True once for an object whose reference is of another connection than that of `renewed`.
    pub(super) fn awaits_prefetch(&self, name: ObjectName, renewed: ObjectName) -> bool {
        let mut objects = self.objects.borrow_mut();
        let endpoint = objects.get(&renewed).map(|known| known.endpoint);
        let known = objects.get_mut(&name);
        known.is_some_and(|known| Some(known.endpoint) != endpoint && known.prefetch.queue())
    }

    /// The reference for an extent, if its server is believed to have all of it in memory and reading by it pays.
    pub(super) fn reference(
        &self,
        file: FileId,
        extent: &Extent,
        link: &Link,
        way: CallWay,
        now: Instant,
    ) -> Option<Reference> {
        let objects = self.objects.borrow();
        let known = objects.get(&(file, extent.index))?;
        if known.endpoint != link.endpoint().id() {
            return None;
        }
        let mut memory = self.memory.borrow_mut();
        for block in blocks(memory.block_len(), extent.file_offset, extent.len) {
            if memory.reference(file.0, block).is_none()
                && !memory.is_stale(file.0, block)
                && known.holds(extent)
            {
                memory.note_reference(file.0, block..block + 1, short(extent.server), true);
            }
            if memory.lookup(file.0, block) == BlockLookup::Missing {
                return None;
            }
        }
        // A policy that is not followed decides nothing: its calls for timing would never come.
        let is_on = self.options.optimistic == Optimistic::On
            || self.policy_of(extent, way).decide(now) == ReadPath::Optimistic;
        is_on.then(|| known.reference.at(extent.offset))
    }

    /// Notes the outcome of an optimistic read that was posted at `since`.
    pub(super) fn note_outcome(
        &self,
        file: FileId,
        extent: &Extent,
        way: CallWay,
        since: Instant,
        outcome: Result<(), AccessError>,
    ) {
        let now = self.runtime.now();
        let mut policy = self.policy_of(extent, way);
        match outcome {
            Ok(()) => {
                policy.optimistic_took(now - since, now);
                add(&self.reads);
                if self.has_cache()
                    && self.reads.get().is_multiple_of(COSTS_EVERY)
                    && let [Some(call), Some(read), _] = policy.durations()
                {
                    self.memory.borrow_mut().set_costs(call, read);
                }
            }
            Err(error) => {
                policy.stale_took(now - since, now);
                add(&self.refused);
                drop(policy);
                self.refused(file, extent, error);
            }
        }
    }

    fn refused(&self, file: FileId, extent: &Extent, error: AccessError) {
        match error {
            AccessError::NotResident => {
                let mut memory = self.memory.borrow_mut();
                for block in blocks(memory.block_len(), extent.file_offset, extent.len) {
                    memory.note_stale(file.0, block);
                }
                let mut objects = self.objects.borrow_mut();
                if let Some(known) = objects.get_mut(&(file, extent.index)) {
                    known.is_doubtful = true;
                }
            }
            // The object is shorter than the client believes the file to be: the call finds the size.
            AccessError::Bounds => add(&self.refused_bounds),
            _ => {
                add(&self.refused_keys);
                self.objects.borrow_mut().remove(&(file, extent.index));
            }
        }
    }

    /// Notes that a call has read an extent, which is now in the server's memory.
    pub(super) fn note_call(&self, file: FileId, extent: &Extent, way: CallWay, took: Duration) {
        self.policy_of(extent, way).call_took(took);
        let mut memory = self.memory.borrow_mut();
        let blocks = whole_blocks(memory.block_len(), extent.file_offset, extent.len);
        memory.note_reference(file.0, blocks, short(extent.server), false);
    }

    /// Fills `target` from the client's own blocks, if all of them are there and young enough.
    pub(super) fn fill_from_cache(&self, file: FileId, offset: u64, target: &mut [u8]) -> bool {
        if !self.has_cache() {
            return false;
        }
        let since_start = self.runtime.now() - Instant::START;
        let oldest = Instant::START + since_start.saturating_sub(self.options.cache_age);
        let mut memory = self.memory.borrow_mut();
        let block_len = u64::from(memory.block_len());
        let mut filled = 0;
        while filled < target.len() {
            let at = offset + filled as u64;
            let BlockLookup::Data { data, .. } =
                memory.lookup_since(file.0, at / block_len, oldest)
            else {
                return false;
            };
            // The block may be shorter than the block length.
            let start = (at % block_len) as usize;
            let Some(bytes) = data.get(start..) else {
                return false;
            };
            let count = bytes.len().min(target.len() - filled);
            target[filled..filled + count].copy_from_slice(&bytes[..count]);
            filled += count;
        }
        true
    }

    /// The start of a read whose bytes may be kept; to be taken before the read. A change after it keeps the bytes
    /// out.
    pub(super) fn read_starts(&self, file: FileId) -> Option<ReadStart> {
        let starts = || self.memory.borrow().read_starts(file.0, self.runtime.now());
        self.has_cache().then(starts)
    }

    /// Keeps the whole blocks of the bytes that were read.
    pub(super) fn keep(&self, start: Option<ReadStart>, offset: u64, bytes: &[u8]) {
        let Some(start) = start else {
            return;
        };
        let mut memory = self.memory.borrow_mut();
        let block_len = memory.block_len();
        let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        for block in whole_blocks(block_len, offset, len) {
            // The block is whole, so it lies within `bytes`.
            let from = (block * u64::from(block_len) - offset) as usize;
            let Some(data) = bytes.get(from..from + block_len as usize) else {
                continue;
            };
            memory.insert_data(start, block, data.into(), block_len);
        }
    }

    /// Drops the blocks of a range before this client changes it, and again when the guard is dropped. A read during
    /// the change may bring blocks from before it: later reads would miss the client's own write.
    pub(super) fn changing(self: &Rc<Self>, file: FileId, bytes: std::ops::Range<u64>) -> Changing {
        self.changes(file, bytes.clone());
        Changing {
            references: Rc::clone(self),
            file,
            bytes,
        }
    }

    fn changes(&self, file: FileId, bytes: std::ops::Range<u64>) {
        if self.has_cache() {
            let mut memory = self.memory.borrow_mut();
            let block_len = u64::from(memory.block_len());
            memory.invalidate(
                file.0,
                bytes.start / block_len..bytes.end.div_ceil(block_len),
            );
        }
    }
}

/// The guard of a change of a file: it drops the changed blocks once more at its end.
pub(super) struct Changing {
    references: Rc<References>,
    file: FileId,
    bytes: std::ops::Range<u64>,
}

impl Drop for Changing {
    fn drop(&mut self) {
        self.references.changes(self.file, self.bytes.clone());
    }
}

/// Numbers of the blocks that overlap a range.
fn blocks(block_len: u32, offset: u64, len: u32) -> std::ops::Range<u64> {
    let block_len = u64::from(block_len);
    offset / block_len..(offset + u64::from(len)).div_ceil(block_len)
}

/// Numbers of the blocks that lie within a range.
fn whole_blocks(block_len: u32, offset: u64, len: u32) -> std::ops::Range<u64> {
    let block_len = u64::from(block_len);
    let first = offset.div_ceil(block_len);
    first..((offset + u64::from(len)) / block_len).max(first)
}

/// The parts of a range of a file, each on one server. `None`: stripes cut blocks, there are more than `max` parts, or
/// a server is not known.
pub(super) fn extents_of(
    layout: &LayoutRecord,
    groups: &Groups,
    block_len: u32,
    range: ByteRange,
    max: usize,
) -> Option<Vec<Extent>> {
    let ByteRange { offset, count } = range;
    let unit = u64::from(layout.unit);
    let width = layout.groups.len() as u64;
    if unit % u64::from(block_len) != 0 || width == 0 {
        return None;
    }
    let mut extents = Vec::with_capacity(1);
    let (mut at, end) = (offset, offset.checked_add(u64::from(count))?);
    while at < end {
        if extents.len() == max {
            return None;
        }
        let (stripe, within) = (at / unit, at % unit);
        let len = (unit - within).min(end - at);
        let index = u32::try_from(stripe % width).ok()?;
        let group = *layout.groups.get(index as usize)?;
        extents.push(Extent {
            index,
            group,
            server: groups.primary(group)?,
            offset: stripe / width * unit + within,
            file_offset: at,
            len: u32::try_from(len).ok()?,
        });
        at += len;
    }
    Some(extents)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gannet_wire::volume::GroupRecord;

    #[test]
    fn an_object_causes_each_request_for_references_once() {
        use BroughtBy::{Read, Request};
        use Prefetch::{FirstAgain, Queued, Requested, Unrequested};
        let with = Prefetch::with_reference;
        assert_eq!(with(None, false, Read), Unrequested);
        assert_eq!(with(None, false, Request), Requested);
        for state in [Unrequested, Requested, FirstAgain] {
            assert_eq!(with(Some(state), false, Read), state);
            assert_eq!(with(Some(state), false, Request), Requested);
            assert_eq!(with(Some(state), true, Read), FirstAgain);
            assert_eq!(with(Some(state), true, Request), FirstAgain);
        }
        for is_new_connection in [false, true] {
            assert_eq!(with(Some(Queued), is_new_connection, Read), Unrequested);
            assert_eq!(with(Some(Queued), is_new_connection, Request), Requested);
        }
        for (mut state, reason) in [
            (Unrequested, Some(PrefetchReason::ReadAgain)),
            (FirstAgain, Some(PrefetchReason::NewConnection)),
            (Queued, None),
            (Requested, None),
        ] {
            assert_eq!(state.after_call(), reason);
            assert_eq!(state.after_call(), None, "once");
        }
        for mut state in [Unrequested, FirstAgain, Requested] {
            assert!(state.queue());
            assert_eq!(state, Queued);
            assert!(!state.queue(), "once");
        }
    }

    #[test]
    fn a_range_is_cut_by_stripes() {
        let layout = LayoutRecord {
            unit: 8192,
            groups: vec![0, 1],
        };
        let groups = Groups::new([5, 7].map(GroupRecord::of).to_vec());
        let range = |(offset, count)| ByteRange { offset, count };
        let extents = |bytes, max| extents_of(&layout, &groups, 4096, range(bytes), max);
        let one = Extent {
            index: 1,
            group: 1,
            server: 7,
            offset: 8192 + 100,
            file_offset: 3 * 8192 + 100,
            len: 10,
        };
        assert_eq!(extents((3 * 8192 + 100, 10), 1), Some(vec![one]));
        let across = extents((2 * 8192 - 4, 8), 2).unwrap();
        assert_eq!(
            (across[0].index, across[0].offset, across[0].len),
            (1, 8188, 4)
        );
        assert_eq!(
            (across[1].index, across[1].offset, across[1].len),
            (0, 8192, 4)
        );
        assert_eq!(extents((2 * 8192 - 4, 8), 1), None);
        let odd = LayoutRecord {
            unit: 5000,
            ..layout
        };
        assert_eq!(extents_of(&odd, &groups, 4096, range((0, 10)), 9), None);
    }

    #[test]
    fn whole_blocks_are_those_within_a_range() {
        assert_eq!(whole_blocks(4096, 0, 4096), 0..1);
        assert_eq!(whole_blocks(4096, 1, 4096), 1..1);
        assert_eq!(whole_blocks(4096, 1, 8191), 1..2);
        assert_eq!(blocks(4096, 1, 4096), 0..2);
    }
}
