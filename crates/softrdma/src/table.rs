//! The table behind a software provider's keys.

use crate::exports::{self, Exports, OptimisticRead, OwnExports};
use crate::limits::{REGIONS_MAX, RETIRED_KEYS_MAX};
use crate::region::{FindRegion, Memory, TableRegion};
use gannet_fabric::limits::FILE_OFFSET_MAX;
use gannet_fabric::{
    Access, AccessError, Backing, Domain, EndpointId, ExportTable, FindExported, Region,
    RegionStats, RegisterError, RemoteKey, Scope,
};
use gannet_runtime::Handle;
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::rc::{Rc, Weak};

/// The operation of an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessKind {
    /// Read the region's bytes for a peer.
    RemoteRead,
    /// Write bytes that a peer sent.
    RemoteWrite,
    /// Use as a source or sink of our own operation.
    Local,
    /// Revoke it for the peer (Send with Invalidate).
    Invalidate,
}

/// The name of a region for peers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegionName {
    /// The key.
    pub key: RemoteKey,
    /// The tagged offset of the first byte. With the region's length it must stay below 2^64.
    pub base: u64,
}

/// The translation and protection table of a provider in software: every access of a peer is looked up here.
///
/// Keys are random (24 bits of index, 8 of generation taken together), never zero, and not given out again while
/// they are among the last [`RETIRED_KEYS_MAX`] revoked ones.
pub struct ProtectionTable {
    runtime: Handle,
    state: Rc<TableState>,
    exports: Rc<RefCell<Exports>>,
}

#[derive(Default)]
pub(crate) struct TableState {
    /// Valid regions by key. Weak: the last drop of a region by its owners revokes it.
    regions: RefCell<HashMap<RemoteKey, Weak<TableRegion>>>,
    /// Keys revoked last, oldest first; at most [`RETIRED_KEYS_MAX`].
    retired: RefCell<VecDeque<RemoteKey>>,
    stats: Cell<RegionStats>,
}

impl TableState {
    /// Changes the count of bytes registered now.
    pub(crate) fn count_held(&self, change: impl FnOnce(u64) -> u64) {
        let mut stats = self.stats.get();
        stats.bytes_registered = change(stats.bytes_registered);
        self.stats.set(stats);
    }

    /// Removes a revoked key of a region that held `held` bytes.
    pub(crate) fn retire(&self, key: RemoteKey, held: u64) {
        self.regions.borrow_mut().remove(&key);
        let mut retired = self.retired.borrow_mut();
        if retired.len() == RETIRED_KEYS_MAX {
            retired.pop_front();
        }
        retired.push_back(key);
        let mut stats = self.stats.get();
        stats.deregistrations += 1;
        stats.bytes_registered = stats.bytes_registered.saturating_sub(held);
        self.stats.set(stats);
    }
}

impl ProtectionTable {
    /// An empty table that draws its keys from `runtime`'s randomness.
    pub fn new(runtime: Handle) -> ProtectionTable {
        ProtectionTable {
            runtime,
            state: Rc::default(),
            exports: Rc::default(),
        }
    }

    /// The same for a provider whose regions are of its own type, each with one of the table's behind it: exported
    /// memory is found by `behind`.
    #[must_use]
    pub fn with_regions_behind(self, behind: FindRegion) -> ProtectionTable {
        self.exports.borrow_mut().behind = Some(behind);
        self
    }

    /// Registers under a name that the provider chose, as an adapter does.
    ///
    /// # Errors
    /// Any [`RegisterError`]; [`RegisterError::TableFull`] also for a key that is in use.
    pub fn register_as(
        &self,
        name: RegionName,
        backing: Backing,
        access: Access,
        scope: Scope,
    ) -> Result<Rc<TableRegion>, RegisterError> {
        if matches!(
            (&backing, access),
            (
                Backing::File { .. },
                Access::RemoteWrite | Access::RemoteReadWrite
            )
        ) {
            return Err(RegisterError::Access);
        }
        if let Backing::File { offset, len, .. } = &backing
            && offset
                .checked_add(*len)
                .is_none_or(|end| end > FILE_OFFSET_MAX)
        {
            return Err(RegisterError::Range);
        }
        let mut regions = self.state.regions.borrow_mut();
        if regions.len() >= REGIONS_MAX || regions.contains_key(&name.key) {
            return Err(RegisterError::TableFull);
        }
        let memory = Memory::from(backing);
        let held = memory.held();
        let region = Rc::new(TableRegion {
            key: name.key,
            base: name.base,
            len: memory.len(),
            registered: access,
            granted: Cell::new((access, scope)),
            memory: RefCell::new(Some(memory)),
            valid: Cell::new(true),
            table: Rc::downgrade(&self.state),
        });
        regions.insert(name.key, Rc::downgrade(&region));
        let mut stats = self.state.stats.get();
        stats.registrations += 1;
        stats.bytes_registered += held;
        self.state.stats.set(stats);
        Ok(region)
    }

    /// The region that `key` names, if `endpoint` may use `len` bytes of it for `kind`; and their offset from the start
    /// of the region. Check again for each segment: the region may be revoked between two.
    ///
    /// # Errors
    /// [`AccessError::InvalidKey`] for an unknown or revoked key or one whose memory is moved out,
    /// [`AccessError::WrongEndpoint`], [`AccessError::Wrap`], [`AccessError::Rights`], [`AccessError::Bounds`], checked
    /// in this order. No byte may be touched then.
    pub fn check(
        &self,
        endpoint: EndpointId,
        key: RemoteKey,
        tagged_offset: u64,
        len: u64,
        kind: AccessKind,
    ) -> Result<(Rc<TableRegion>, u64), AccessError> {
        let region = self
            .state
            .regions
            .borrow()
            .get(&key)
            .and_then(Weak::upgrade)
            .filter(|region| region.valid.get() && region.memory.borrow().is_some())
            .ok_or(AccessError::InvalidKey)?;
        let (access, scope) = region.granted.get();
        if let Scope::Endpoint(owner) = scope
            && owner != endpoint
        {
            return Err(AccessError::WrongEndpoint);
        }
        tagged_offset.checked_add(len).ok_or(AccessError::Wrap)?;
        let allowed = match kind {
            AccessKind::Local => true,
            AccessKind::RemoteRead => {
                matches!(access, Access::RemoteRead | Access::RemoteReadWrite)
            }
            AccessKind::RemoteWrite => {
                matches!(access, Access::RemoteWrite | Access::RemoteReadWrite)
            }
            // One peer must not revoke a key that others use too: RFC 5042 warns of shared STags.
            AccessKind::Invalidate => access != Access::Local && scope != Scope::Domain,
        };
        if !allowed {
            return Err(AccessError::Rights);
        }
        if kind == AccessKind::Invalidate {
            return Ok((region, 0));
        }
        let offset = tagged_offset
            .checked_sub(region.base)
            .ok_or(AccessError::Bounds)?;
        region.check_bounds(offset, len)?;
        Ok((region, offset))
    }

    /// Copies the bytes of an optimistic read into `target`: all of them, as they are in memory at this instant.
    ///
    /// # Errors
    /// The read is refused, and the content of `target` is undefined: [`AccessError::InvalidKey`],
    /// [`AccessError::WrongEndpoint`], [`AccessError::Capability`], [`AccessError::Wrap`], [`AccessError::Bounds`],
    /// [`AccessError::NotResident`].
    pub fn read_exported(
        &self,
        read: &OptimisticRead,
        target: &mut [u8],
    ) -> Result<(), AccessError> {
        exports::read(&self.exports, read, self.runtime.now(), target)
    }

    /// Removes the exports of a connection that has ended. Its number is never used again, so no peer could use them.
    pub fn endpoint_ended(&self, endpoint: EndpointId) {
        self.exports.borrow_mut().remove_endpoint(endpoint);
    }

    fn fresh_key(&self) -> RemoteKey {
        fresh_key(&self.runtime, &self.state, &self.exports)
    }
}

fn fresh_key(runtime: &Handle, state: &TableState, exports: &RefCell<Exports>) -> RemoteKey {
    loop {
        #[allow(clippy::cast_possible_truncation)] // the low half of a random number
        let key = RemoteKey(runtime.random() as u32);
        let used = state.regions.borrow().contains_key(&key)
            || state.retired.borrow().contains(&key)
            || exports.borrow().has_key(key);
        // Keys below 256 are left out: 0 is never valid, and peers put 1 into zero-length operations.
        if key.0 > 255 && !used {
            return key;
        }
    }
}

impl Domain for ProtectionTable {
    fn register_now(
        &self,
        backing: Backing,
        access: Access,
        scope: Scope,
    ) -> Result<Region, RegisterError> {
        let name = RegionName {
            key: self.fresh_key(),
            // A random base makes an offset taken from another region useless here; 2^48 leaves room below 2^64.
            base: (self.runtime.random() >> 16) & !0xfff,
        };
        Ok(self.register_as(name, backing, access, scope)?)
    }

    fn has_software_regions(&self) -> bool {
        true
    }

    fn has_bound_keys(&self) -> bool {
        true
    }

    fn has_map(&self) -> bool {
        true
    }

    fn exports(&self, find: FindExported) -> Option<Rc<dyn ExportTable>> {
        let (runtime, state) = (Handle::clone(&self.runtime), Rc::clone(&self.state));
        let exports = Rc::clone(&self.exports);
        let key = move || fresh_key(&runtime, &state, &exports);
        let (runtime, exports) = (Handle::clone(&self.runtime), Rc::clone(&self.exports));
        Some(Rc::new(OwnExports::new(
            runtime,
            exports,
            find,
            Box::new(key),
        )))
    }

    fn stats(&self) -> RegionStats {
        self.state.stats.get()
    }
}
