//! The registrations of an adapter, which checks nothing but the key.
//!
//! The adapter chooses keys and addresses. A peer has access until a revocation is done, which may take time or fail.
//! Memory that is lent stays pinned: a peer with a valid key reaches it while its user has it. Rights are not narrowed,
//! and no bytes are seen: regions have no [`gannet_fabric::SoftwareRegion`].
//!
//! The bytes that peers find in lent memory are a copy, because the memory itself moves with its user. Accesses to it
//! are counted ([`SimFabric::reached`]).

use super::SimFabric;
use crate::nic::{Adapter, PAGE_LEN};
use gannet_fabric::{
    Access, Backing, DeregisterError, EndpointId, LocalKey, MapRegion, MemoryRegion, Region,
    RegisterError, RemoteKey, Revocation, Scope,
};
use gannet_runtime::{Buffer, Handle, sleep};
use gannet_softrdma::{ProtectionTable, RegionName, TableRegion};
use std::any::Any;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::rc::{Rc, Weak};
use std::task::{Poll, Waker};
use std::time::Duration;

/// The first virtual address that the adapter gives a region.
const ADDRESS_MIN: u64 = 0x7f00_0000_0000;

/// Bytes of lent memory that peers find in it, at most; longer memory shows zeros, which take no time to copy.
const LENT_SHOWN_MAX: usize = 4 << 20;

/// The powers of an adapter, and its faults. On a machine with costs the powers are those of the machine's profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceProfile {
    /// One key can name all memory ([`Backing::Map`]).
    pub all_physical: bool,
    /// Pages of files can be sources and regions.
    pub file_pages: bool,
    /// It has memory windows: keys of one connection over memory that stays registered.
    pub windows: bool,
    /// A Send can revoke a key of the peer.
    pub remote_invalidation: bool,
    /// RDMA Writes can bring an immediate.
    pub immediates: bool,
    /// Connections can agree on optimistic reads.
    pub optimistic_reads: bool,
    /// The longest revocation, in microseconds; the shortest is one. With 0 none takes time.
    pub revocation_us_max: u64,
    /// The number of deregistrations, of a thousand, that fail: their memory is lost.
    pub deregistration_failures_per_mille: u64,
}

impl DeviceProfile {
    /// An adapter with the verbs of InfiniBand and nothing beyond; its revocations take a microsecond.
    pub const PLAIN: DeviceProfile = DeviceProfile {
        all_physical: false,
        file_pages: false,
        windows: true,
        remote_invalidation: true,
        immediates: true,
        optimistic_reads: false,
        revocation_us_max: 1,
        deregistration_failures_per_mille: 0,
    };

    /// The adapter of a machine. Its costs are charged to the caller, so no revocation takes time besides.
    pub(super) fn of(adapter: &Adapter) -> DeviceProfile {
        DeviceProfile {
            all_physical: adapter.all_physical.value != 0,
            file_pages: adapter.file_pages.value != 0,
            // No system of the papers used them.
            windows: false,
            remote_invalidation: adapter.remote_invalidation.value != 0,
            immediates: adapter.immediates.value != 0,
            optimistic_reads: adapter.optimistic_reads.value != 0,
            revocation_us_max: 0,
            deregistration_failures_per_mille: 0,
        }
    }

    /// The same without failures.
    pub(super) fn healed(self) -> DeviceProfile {
        DeviceProfile {
            deregistration_failures_per_mille: 0,
            ..self
        }
    }
}

/// One adapter.
pub(super) struct Device {
    pub(super) powers: DeviceProfile,
    fabric: Rc<SimFabric>,
    runtime: Handle,
    /// The table of its domain.
    table: OnceCell<Weak<ProtectionTable>>,
    next_index: Cell<u32>,
    next_address: Cell<u64>,
    /// Keys of lent memory that peers reach.
    lent: RefCell<BTreeSet<RemoteKey>>,
    /// Keys to all memory, with the addresses that each can name.
    maps: RefCell<BTreeMap<RemoteKey, u64>>,
    /// Registrations that could not be revoked. A peer may reach them for good.
    stuck: RefCell<Vec<Rc<TableRegion>>>,
}

impl Device {
    pub(super) fn new(powers: DeviceProfile, fabric: Rc<SimFabric>, runtime: Handle) -> Rc<Device> {
        Rc::new(Device {
            powers,
            fabric,
            runtime,
            table: OnceCell::new(),
            next_index: Cell::new(1),
            next_address: Cell::new(ADDRESS_MIN),
            lent: RefCell::default(),
            maps: RefCell::default(),
            stuck: RefCell::default(),
        })
    }

    /// Tells the adapter where its registrations are, once.
    pub(super) fn set_table(&self, table: &Rc<ProtectionTable>) {
        let first = self.table.set(Rc::downgrade(table));
        debug_assert!(first.is_ok(), "an adapter has one table");
    }

    /// True for memory of a kind that the adapter can register.
    pub(super) fn has(&self, backing: &Backing) -> bool {
        match backing {
            Backing::Buffer(_) => true,
            Backing::File { .. } => self.powers.file_pages,
            Backing::Map => self.powers.all_physical,
        }
    }

    pub(super) fn register(
        self: &Rc<Self>,
        table: &ProtectionTable,
        backing: Backing,
        access: Access,
        scope: Scope,
    ) -> Result<Region, RegisterError> {
        let (base, pinned_at) = match &backing {
            Backing::Buffer(buffer) => (self.take_address(buffer.len()), Some(buffer.as_ptr())),
            // Pages of files and physical memory have no address of a program: they start at 0.
            Backing::File { .. } | Backing::Map => (0, None),
        };
        let is_map = matches!(backing, Backing::Map);
        // An index and a tag of eight bits, as adapters do; the local key is another number altogether.
        let index = self.next_index.get();
        self.next_index.set(index.wrapping_add(1));
        let tag = u32::try_from(self.fabric.random.below(256)).unwrap_or(0);
        let name = RegionName {
            key: RemoteKey(index << 8 | tag),
            base,
        };
        let table = table.register_as(name, backing, access, scope)?;
        if is_map {
            self.maps.borrow_mut().insert(name.key, table.len());
        }
        let entry = Rc::new(Entry {
            local: LocalKey(0x4000_0000 | index),
            table,
            // The table has granted this, and a device never narrows it.
            is_remote: access != Access::Local,
            pinned_at,
            is_lent: Cell::new(false),
            state: Cell::new(State::Valid),
            waiting: RefCell::default(),
        });
        let device = Rc::clone(self);
        Ok(Rc::new(DeviceRegion { entry, device }))
    }

    fn take_address(&self, len: usize) -> u64 {
        let address = self.next_address.get();
        // An unmapped page lies between two regions.
        let pages = (len as u64).div_ceil(PAGE_LEN) + 1;
        self.next_address.set(address + pages * PAGE_LEN);
        address
    }

    /// True if the user has the memory under this key.
    pub(super) fn is_lent(&self, key: RemoteKey) -> bool {
        self.lent.borrow().contains(&key)
    }

    /// True if `key` is one to all memory, and `end` lies within that.
    pub(super) fn reaches_all(&self, key: RemoteKey, end: u64) -> bool {
        let maps = self.maps.borrow();
        maps.get(&key).is_some_and(|len| end <= *len)
    }

    /// Begins a revocation. With a time for it, it ends after a random part of that and wakes its waiters.
    fn revoke(self: &Rc<Self>, entry: &Rc<Entry>, can_fail: bool) {
        if entry.state.get() != State::Valid {
            return;
        }
        if !entry.table.is_valid() {
            // The peer has revoked it.
            return self.end(entry, State::Gone);
        }
        let profile = self.fabric.profile.get().device;
        let (takes, failures) = profile.map_or((self.powers.revocation_us_max, 0), |profile| {
            (
                profile.revocation_us_max,
                profile.deregistration_failures_per_mille,
            )
        });
        let fails = can_fail && self.fabric.random.chance(failures);
        let outcome = if fails { State::Stuck } else { State::Gone };
        if takes == 0 {
            return self.end(entry, outcome);
        }
        entry.state.set(State::Revoking);
        let takes = Duration::from_micros(1 + self.fabric.random.below(takes));
        let (device, entry) = (Rc::clone(self), Rc::clone(entry));
        let revoking = async move {
            sleep(&device.runtime, takes).await;
            device.end(&entry, outcome);
        };
        self.runtime.spawn("nic revocation", Box::pin(revoking));
    }

    fn end(&self, entry: &Entry, state: State) {
        if state == State::Stuck {
            self.stuck.borrow_mut().push(Rc::clone(&entry.table));
        } else {
            drop(entry.table.invalidate());
            let key = entry.table.remote_key();
            self.lent.borrow_mut().remove(&key);
            self.maps.borrow_mut().remove(&key);
        }
        entry.state.set(state);
        let waiting = std::mem::take(&mut *entry.waiting.borrow_mut());
        waiting.into_iter().for_each(Waker::wake);
    }
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

/// A registration.
struct Entry {
    local: LocalKey,
    /// The rights, the bounds and the bytes. While memory with rights for peers is lent, these are a copy.
    table: Rc<TableRegion>,
    is_remote: bool,
    /// The place of the pinned memory.
    pinned_at: Option<*const u8>,
    is_lent: Cell<bool>,
    state: Cell<State>,
    waiting: RefCell<Vec<Waker>>,
}

impl Entry {
    fn assert_pinned(&self, buffer: &Buffer) {
        assert_eq!(
            Some(buffer.as_ptr()),
            self.pinned_at,
            "the adapter has pinned other memory"
        );
    }
}

/// A registration that its users hold.
pub(super) struct DeviceRegion {
    entry: Rc<Entry>,
    device: Rc<Device>,
}

impl DeviceRegion {
    pub(super) fn of(region: &dyn MemoryRegion) -> Option<&DeviceRegion> {
        (region as &dyn Any).downcast_ref()
    }

    /// The region, if it was made by `device` and work of ours may name it.
    pub(super) fn for_post(&self, device: &Rc<Device>) -> Option<&TableRegion> {
        let may = Rc::ptr_eq(&self.device, device) && self.is_valid() && !self.entry.is_lent.get();
        may.then_some(&*self.entry.table)
    }

    /// The region for work of ours that was posted before; `None` once it is revoked.
    ///
    /// # Panics
    /// When the memory is lent: that work would read or write under its user.
    pub(super) fn for_work(&self) -> Option<&TableRegion> {
        assert!(
            !self.entry.is_lent.get(),
            "work of ours names memory that is lent"
        );
        let is_there = matches!(self.entry.state.get(), State::Valid | State::Revoking);
        is_there.then_some(&*self.entry.table)
    }

    /// The table's region behind one of an adapter, with its bytes as their owner sees them; `None` while they are
    /// lent.
    pub(super) fn behind(region: &dyn MemoryRegion) -> Option<&TableRegion> {
        let entry = &DeviceRegion::of(region)?.entry;
        (!entry.is_lent.get()).then_some(&*entry.table)
    }
}

impl MemoryRegion for DeviceRegion {
    fn local_key(&self) -> LocalKey {
        self.entry.local
    }

    fn remote_key(&self) -> RemoteKey {
        self.entry.table.remote_key()
    }

    fn base(&self) -> u64 {
        self.entry.table.base()
    }

    fn len(&self) -> u64 {
        self.entry.table.len()
    }

    fn is_valid(&self) -> bool {
        self.entry.state.get() == State::Valid && self.entry.table.is_valid()
    }

    fn invalidate(&self) -> Revocation<()> {
        self.device.revoke(&self.entry, false);
        ended(&self.entry, |_| ())
    }

    fn deregister(&self) -> Revocation<Result<Option<Buffer>, DeregisterError>> {
        self.device.revoke(&self.entry, true);
        ended(&self.entry, |entry| match entry.state.get() {
            State::Stuck => Err(DeregisterError::Adapter),
            // The table has a copy for peers, or nothing.
            _ if entry.is_lent.get() => Ok(None),
            _ => Ok(entry.table.lend()),
        })
    }

    fn lend(&self) -> Option<Buffer> {
        let entry = &self.entry;
        if entry.is_lent.get() {
            return None;
        }
        let memory = entry.table.lend()?;
        entry.is_lent.set(true);
        if entry.is_remote {
            // Refused by a revoked region, which no peer reaches.
            let copy = if memory.len() <= LENT_SHOWN_MAX {
                Buffer::from_vec(memory.to_vec())
            } else {
                Buffer::zeroed(memory.len())
            };
            if entry.table.restore(copy).is_ok() {
                self.device.lent.borrow_mut().insert(self.remote_key());
            }
        }
        Some(memory)
    }

    /// # Panics
    /// As [`MemoryRegion::restore`] of it.
    fn bind(&self, buffer: Buffer, access: Access, endpoint: EndpointId) -> Result<Region, Buffer> {
        let entry = &self.entry;
        let table = self.device.table.get().and_then(Weak::upgrade);
        let may = self.device.powers.windows && self.is_valid() && entry.is_lent.get();
        let (Some(table), true) = (table, may && buffer.len() as u64 == self.len()) else {
            return Err(buffer);
        };
        entry.assert_pinned(&buffer);
        let scope = Scope::Endpoint(endpoint);
        let bound = self
            .device
            .register(&table, Backing::Buffer(buffer), access, scope);
        // A table of the simulator is never full of windows: it has room for more than any scenario registers.
        Ok(bound.expect("room for a window"))
    }

    /// # Panics
    /// When it is other memory than the adapter has pinned: peers and work of ours would reach that one.
    fn restore(&self, buffer: Buffer) -> Result<(), Buffer> {
        let entry = &self.entry;
        if !self.is_valid() || !entry.is_lent.get() || buffer.len() as u64 != self.len() {
            return Err(buffer);
        }
        entry.assert_pinned(&buffer);
        drop(entry.table.lend());
        self.device.lent.borrow_mut().remove(&self.remote_key());
        entry.is_lent.set(false);
        entry.table.restore(buffer)
    }

    fn map(&self) -> Option<&dyn MapRegion> {
        self.entry.table.map()
    }
}

/// Waits for the end of a revocation.
fn ended<T: 'static>(entry: &Rc<Entry>, outcome: fn(&Entry) -> T) -> Revocation<T> {
    if matches!(entry.state.get(), State::Gone | State::Stuck) {
        return Revocation::Ready(outcome(entry));
    }
    let entry = Rc::clone(entry);
    Revocation::Pending(Box::pin(std::future::poll_fn(move |context| {
        if matches!(entry.state.get(), State::Gone | State::Stuck) {
            return Poll::Ready(outcome(&entry));
        }
        entry.waiting.borrow_mut().push(context.waker().clone());
        Poll::Pending
    })))
}

impl fmt::Debug for DeviceRegion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceRegion")
            .field("key", &self.remote_key())
            .field("len", &self.len())
            .field("state", &self.entry.state.get())
            .finish_non_exhaustive()
    }
}

impl Drop for DeviceRegion {
    fn drop(&mut self) {
        self.device.revoke(&self.entry, true);
    }
}

/// The bytes of registered memory, as its owner would see them; `None` while it is lent. For tests: no program sees
/// memory that a device has.
pub fn look(region: &Region) -> Option<Vec<u8>> {
    let len = usize::try_from(region.len()).ok()?;
    let software = match region.software() {
        None => DeviceRegion::behind(&**region)?.software(),
        software => software,
    };
    Some(software?.bytes(0, len)?.to_vec())
}
