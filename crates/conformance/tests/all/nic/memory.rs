//! The adapter's memory: keys that it chooses, revocations that take time, failures by seed.

use gannet_fabric::{
    Access, AccessError, Backing, DeregisterError, Domain, EndpointId, LocalKey, MemoryRegion,
    Region, RegionStats, RegisterError, RemoteAddress, RemoteKey, Revocation, Scope, Span,
};
use gannet_runtime::{Buffer, Handle, sleep};
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;

/// The faults of the adapter, and its delays.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct NicProfile {
    pub(crate) seed: u64,
    /// The number of registrations, of a thousand, that are refused.
    pub(crate) registration_failures_per_mille: u64,
    /// The number of deregistrations, of a thousand, that fail: their memory is lost.
    pub(crate) deregistration_failures_per_mille: u64,
    /// The longest revocation, in microseconds; the shortest is one.
    pub(crate) revocation_us_max: u64,
}

/// The adapter's registrations: the domain of its provider.
pub(crate) struct NicDomain {
    runtime: Handle,
    profile: NicProfile,
    random: Cell<u64>,
    next: Cell<u32>,
    /// The regions that a peer can reach: valid regions, those that are being revoked, and those that could not be.
    entries: RefCell<BTreeMap<RemoteKey, Rc<Entry>>>,
    /// How many accesses of peers reached memory that was lent, on all adapters of the network.
    reached: Rc<Cell<u64>>,
    stats: Cell<RegionStats>,
    this: std::rc::Weak<NicDomain>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Valid,
    /// A peer can still access it.
    Revoking,
    Gone,
    /// Its deregistration has failed.
    Stuck,
}

struct Entry {
    local: LocalKey,
    key: RemoteKey,
    base: u64,
    len: u64,
    access: Access,
    scope: Scope,
    memory: RefCell<Option<Buffer>>,
    /// Where the pinned memory lies.
    pinned_at: *const u8,
    /// The bytes that a peer finds while the memory is lent: the adapter has pinned it, so accesses reach it.
    lent: RefCell<Option<Vec<u8>>>,
    state: Cell<State>,
    waiting: RefCell<Vec<Waker>>,
}

impl Entry {
    fn end(&self, state: State) {
        self.state.set(state);
        let waiting = std::mem::take(&mut *self.waiting.borrow_mut());
        waiting.into_iter().for_each(Waker::wake);
    }

    fn check_bounds(&self, offset: u64, len: u64) -> Result<(), AccessError> {
        let end = offset.checked_add(len).ok_or(AccessError::Wrap)?;
        if end > self.len {
            return Err(AccessError::Bounds);
        }
        Ok(())
    }

    fn read(&self, offset: u64, len: u32) -> Result<Vec<u8>, AccessError> {
        self.check_bounds(offset, u64::from(len))?;
        let (memory, lent) = (self.memory.borrow(), self.lent.borrow());
        let bytes = (memory.as_deref()).or(lent.as_deref());
        let (bytes, start) = (bytes.ok_or(AccessError::InvalidKey)?, offset as usize);
        Ok(bytes[start..start + len as usize].to_vec())
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), AccessError> {
        self.check_bounds(offset, bytes.len() as u64)?;
        let (mut memory, mut lent) = (self.memory.borrow_mut(), self.lent.borrow_mut());
        let target = memory.as_deref_mut().or(lent.as_deref_mut());
        let (target, start) = (target.ok_or(AccessError::InvalidKey)?, offset as usize);
        target[start..start + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }
}

/// The kind of access that a peer asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Read,
    Write,
    Invalidate,
}

impl NicDomain {
    pub(crate) fn new(
        runtime: Handle,
        profile: NicProfile,
        reached: Rc<Cell<u64>>,
    ) -> Rc<NicDomain> {
        Rc::new_cyclic(|this| NicDomain {
            runtime,
            profile,
            random: Cell::new(profile.seed),
            next: Cell::new(0),
            entries: RefCell::default(),
            reached,
            stats: Cell::default(),
            this: this.clone(),
        })
    }

    /// A number below `bound`, of this adapter's own sequence (splitmix64).
    fn below(&self, bound: u64) -> u64 {
        let state = self.random.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.random.set(state);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound.max(1)
    }

    /// Starts a revocation, which ends after a random time and wakes its waiters.
    fn revoke(&self, entry: &Rc<Entry>, can_fail: bool) {
        if entry.state.get() != State::Valid {
            return;
        }
        entry.state.set(State::Revoking);
        let failures = self.profile.deregistration_failures_per_mille;
        let fails = can_fail && self.below(1000) < failures;
        let takes = Duration::from_micros(1 + self.below(self.profile.revocation_us_max));
        let Some(domain) = self.this.upgrade() else {
            return;
        };
        let entry = Rc::clone(entry);
        let revoking = async move {
            sleep(&domain.runtime, takes).await;
            if fails {
                entry.end(State::Stuck);
            } else {
                domain.remove(&entry);
            }
        };
        self.runtime.spawn("nic revocation", Box::pin(revoking));
    }

    fn remove(&self, entry: &Rc<Entry>) {
        if self.entries.borrow_mut().remove(&entry.key).is_some() {
            let mut stats = self.stats.get();
            stats.deregistrations += 1;
            stats.bytes_registered -= entry.len;
            self.stats.set(stats);
        }
        entry.end(State::Gone);
    }

    fn check(
        &self,
        endpoint: EndpointId,
        address: RemoteAddress,
        len: u64,
        wanted: Wanted,
    ) -> Result<(Rc<Entry>, u64), AccessError> {
        let entry = self.entries.borrow().get(&address.key).cloned();
        let entry = entry.ok_or(AccessError::InvalidKey)?;
        if let Scope::Endpoint(owner) = entry.scope
            && owner != endpoint
        {
            return Err(AccessError::WrongEndpoint);
        }
        address.offset.checked_add(len).ok_or(AccessError::Wrap)?;
        let (reads, writes) = match entry.access {
            Access::Local => (false, false),
            Access::RemoteRead => (true, false),
            Access::RemoteWrite => (false, true),
            Access::RemoteReadWrite => (true, true),
        };
        let granted = match wanted {
            Wanted::Read => reads,
            Wanted::Write => writes,
            Wanted::Invalidate => (reads || writes) && entry.scope != Scope::Domain,
        };
        if !granted {
            return Err(AccessError::Rights);
        }
        if wanted == Wanted::Invalidate {
            return Ok((entry, 0));
        }
        let offset = address.offset.checked_sub(entry.base);
        let offset = offset.ok_or(AccessError::Bounds)?;
        entry.check_bounds(offset, len)?;
        Ok((entry, offset))
    }

    fn note_reached(&self, entry: &Entry) {
        let is_lent = entry.lent.borrow().is_some();
        self.reached.update(|reached| reached + u64::from(is_lent));
    }

    /// A peer's RDMA Read.
    pub(crate) fn read(
        &self,
        endpoint: EndpointId,
        key: RemoteKey,
        offset: u64,
        len: u32,
    ) -> Result<Vec<u8>, AccessError> {
        let address = RemoteAddress { key, offset };
        let (entry, at) = self.check(endpoint, address, u64::from(len), Wanted::Read)?;
        self.note_reached(&entry);
        entry.read(at, len)
    }

    /// A peer's RDMA Write.
    pub(crate) fn write(
        &self,
        endpoint: EndpointId,
        key: RemoteKey,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), AccessError> {
        let address = RemoteAddress { key, offset };
        let (entry, at) = self.check(endpoint, address, bytes.len() as u64, Wanted::Write)?;
        self.note_reached(&entry);
        entry.write(at, bytes)
    }

    /// A peer's Send with Invalidate: done before the message is seen.
    pub(crate) fn invalidate(
        &self,
        endpoint: EndpointId,
        key: RemoteKey,
    ) -> Result<(), AccessError> {
        let address = RemoteAddress { key, offset: 0 };
        let (entry, _) = self.check(endpoint, address, 0, Wanted::Invalidate)?;
        self.remove(&entry);
        Ok(())
    }
}

impl Domain for NicDomain {
    fn register_now(
        &self,
        backing: Backing,
        access: Access,
        scope: Scope,
    ) -> Result<Region, RegisterError> {
        let Backing::Buffer(buffer) = backing else {
            return Err(RegisterError::Unsupported);
        };
        if self.below(1000) < self.profile.registration_failures_per_mille {
            return Err(RegisterError::TableFull);
        }
        // An index and a tag of eight bits, as adapters do; the local key is another number altogether.
        let index = self.next.get() + 1;
        self.next.set(index);
        let entry = Rc::new(Entry {
            local: LocalKey(0x4000_0000 | index),
            key: RemoteKey(index << 8 | self.below(256) as u32),
            // A virtual address.
            base: 0x7f00_0000_0000 + (u64::from(index) << 24),
            len: buffer.len() as u64,
            access,
            scope,
            pinned_at: buffer.as_ptr(),
            memory: RefCell::new(Some(buffer)),
            lent: RefCell::default(),
            state: Cell::new(State::Valid),
            waiting: RefCell::default(),
        });
        let mut stats = self.stats.get();
        stats.registrations += 1;
        stats.bytes_registered += entry.len;
        self.stats.set(stats);
        self.entries
            .borrow_mut()
            .insert(entry.key, Rc::clone(&entry));
        let domain = self.this.upgrade().ok_or(RegisterError::TableFull)?;
        Ok(Rc::new(NicRegion { entry, domain }))
    }

    fn has_software_regions(&self) -> bool {
        false
    }

    fn has_map(&self) -> bool {
        false
    }

    fn stats(&self) -> RegionStats {
        self.stats.get()
    }
}

/// A registration that its users hold.
pub(crate) struct NicRegion {
    entry: Rc<Entry>,
    domain: Rc<NicDomain>,
}

impl NicRegion {
    /// The region of a span, if `domain` has made it and it is valid.
    pub(crate) fn of<'a>(span: &'a Span, domain: &NicDomain) -> Option<&'a NicRegion> {
        let region: &dyn Any = &*span.region;
        let region: &NicRegion = region.downcast_ref()?;
        let holds = std::ptr::eq(&*region.domain, domain)
            && region.is_valid()
            && (region.entry.check_bounds(span.offset, u64::from(span.len))).is_ok();
        holds.then_some(region)
    }

    /// Reads bytes for local work.
    pub(crate) fn read(&self, offset: u64, len: u32) -> Result<Vec<u8>, AccessError> {
        self.reachable()?.read(offset, len)
    }

    /// Writes bytes of local work.
    pub(crate) fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), AccessError> {
        self.reachable()?.write(offset, bytes)
    }

    fn reachable(&self) -> Result<&Entry, AccessError> {
        assert!(
            self.entry.lent.borrow().is_none(),
            "work of ours names memory that is lent"
        );
        match self.entry.state.get() {
            State::Valid | State::Revoking => Ok(&self.entry),
            State::Gone | State::Stuck => Err(AccessError::InvalidKey),
        }
    }

    /// The content of the memory, as its owner would see it.
    pub(crate) fn look(region: &Region) -> Option<Vec<u8>> {
        let region: &dyn Any = &**region;
        let memory = region.downcast_ref::<NicRegion>()?.entry.memory.borrow();
        memory.as_ref().map(|memory| memory.to_vec())
    }
}

impl MemoryRegion for NicRegion {
    fn local_key(&self) -> LocalKey {
        self.entry.local
    }

    fn remote_key(&self) -> RemoteKey {
        self.entry.key
    }

    fn base(&self) -> u64 {
        self.entry.base
    }

    fn len(&self) -> u64 {
        self.entry.len
    }

    fn is_valid(&self) -> bool {
        self.entry.state.get() == State::Valid
    }

    fn invalidate(&self) -> Revocation<()> {
        self.domain.revoke(&self.entry, false);
        ended(&self.entry, |_| ())
    }

    fn deregister(&self) -> Revocation<Result<Option<Buffer>, DeregisterError>> {
        self.domain.revoke(&self.entry, true);
        ended(&self.entry, |entry| match entry.state.get() {
            State::Stuck => Err(DeregisterError::Adapter),
            _ => Ok(entry.memory.borrow_mut().take()),
        })
    }

    fn lend(&self) -> Option<Buffer> {
        let memory = self.entry.memory.borrow_mut().take()?;
        *self.entry.lent.borrow_mut() = Some(memory.to_vec());
        Some(memory)
    }

    fn restore(&self, buffer: Buffer) -> Result<(), Buffer> {
        let mut memory = self.entry.memory.borrow_mut();
        if !self.is_valid() || memory.is_some() || buffer.len() as u64 != self.entry.len {
            return Err(buffer);
        }
        assert_eq!(
            buffer.as_ptr(),
            self.entry.pinned_at,
            "the adapter has pinned other memory"
        );
        *self.entry.lent.borrow_mut() = None;
        *memory = Some(buffer);
        Ok(())
    }
}

/// Waits for the end of a revocation.
fn ended<T: 'static>(entry: &Rc<Entry>, outcome: fn(&Entry) -> T) -> Revocation<T> {
    let entry = Rc::clone(entry);
    Revocation::Pending(Box::pin(std::future::poll_fn(move |context| {
        match entry.state.get() {
            State::Valid | State::Revoking => {
                entry.waiting.borrow_mut().push(context.waker().clone());
                Poll::Pending
            }
            State::Gone | State::Stuck => Poll::Ready(outcome(&entry)),
        }
    })))
}

impl fmt::Debug for NicRegion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NicRegion")
            .field("key", &self.entry.key)
            .field("len", &self.entry.len)
            .field("state", &self.entry.state.get())
            .finish_non_exhaustive()
    }
}

impl Drop for NicRegion {
    fn drop(&mut self) {
        self.domain.revoke(&self.entry, true);
    }
}
