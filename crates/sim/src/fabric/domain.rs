//! The memory of a simulated provider: the protection table, its refusals, and the costs of registrations.

use super::SimFabric;
use super::device::{Device, DeviceRegion};
use crate::nic::{Debtor, Host, PAGE_LEN};
use gannet_fabric::{
    Access, AccessError, Backing, Domain, EndpointId, ExportTable, FindExported, Region,
    RegionStats, RegisterError, RemoteAddress, Scope, Source,
};
use gannet_softrdma::{AccessKind, ProtectionTable, TableRegion};
use std::cell::Cell;
use std::rc::Rc;

/// A protection table that refuses registrations now and then.
pub(super) struct SimDomain {
    pub(super) table: Rc<ProtectionTable>,
    /// The adapter; `None` where the provider is software.
    pub(super) device: Option<Rc<Device>>,
    fabric: Rc<SimFabric>,
    host: Option<Rc<Host>>,
    /// Ended registrations that were charged, or whose end is free of charge.
    settled: Cell<u64>,
    /// Registrations of files' pages whose work is done, and whose end is not charged yet.
    let_go: Cell<u64>,
    /// File ranges whose pages an adapter registered for one operation.
    file_ranges: Cell<u64>,
}

impl SimDomain {
    pub(super) fn new(
        table: ProtectionTable,
        device: Option<Rc<Device>>,
        fabric: Rc<SimFabric>,
        host: Option<Rc<Host>>,
    ) -> Rc<SimDomain> {
        let table = match &device {
            Some(_) => table.with_regions_behind(DeviceRegion::behind),
            None => table,
        };
        let table = Rc::new(table);
        if let Some(device) = &device {
            device.set_table(&table);
        }
        let domain = Rc::new(SimDomain {
            table,
            device,
            fabric,
            host,
            settled: Cell::new(0),
            let_go: Cell::new(0),
            file_ranges: Cell::new(0),
        });
        if let Some(host) = &domain.host {
            let weak = Rc::downgrade(&domain);
            host.add_debtor(weak);
        }
        domain
    }

    /// Registers, unless the seed refuses it or the adapter has no room. `pay` charges for the bytes that the adapter
    /// translates.
    fn enter(
        &self,
        backing: Backing,
        access: Access,
        scope: Scope,
        pay: impl FnOnce(&Host, u64),
    ) -> Result<Region, RegisterError> {
        if self.device.as_ref().is_some_and(|it| !it.has(&backing)) {
            return Err(RegisterError::Unsupported);
        }
        let refused = self.fabric.profile.get().registration_failures_per_mille;
        if self.fabric.random.chance(refused) {
            return Err(RegisterError::TableFull);
        }
        let translated = translated(&backing);
        let region = match &self.device {
            Some(device) => device.register(&self.table, backing, access, scope)?,
            None => self.table.register_now(backing, access, scope)?,
        };
        let Some(host) = &self.host else {
            return Ok(region);
        };
        let pages = self.stats().bytes_registered.div_ceil(PAGE_LEN);
        if pages > host.profile().adapter.table_pages.value {
            self.forgive(1);
            return Err(RegisterError::TableFull);
        }
        pay(host, translated);
        Ok(region)
    }

    /// Counts registrations whose end is free of charge, because the adapter alone does it.
    pub(super) fn forgive(&self, registrations: u64) {
        self.settled.set(self.settled.get() + registrations);
    }

    /// Counts and charges for a file's pages that are registered for one operation alone.
    pub(super) fn register_in_passing(&self, source: &Source) {
        if let (Source::File { .. }, Some(_)) = (source, &self.device) {
            self.file_ranges.set(self.file_ranges.get() + 1);
        }
        if let (Source::File { len, .. }, Some(host)) = (source, &self.host) {
            host.register_file(u64::from(*len));
        }
    }

    /// Charges for the end of such a registration when its owner takes the completion, since the owner asks the kernel
    /// to release the pages (004 section 3.3).
    pub(super) fn deregister_in_passing(&self, source: &Source) {
        if let (Source::File { .. }, Some(_)) = (source, &self.host) {
            self.let_go.set(self.let_go.get() + 1);
        }
    }

    /// The memory that a peer's access names; see [`ProtectionTable::check`].
    pub(super) fn check(
        &self,
        endpoint: EndpointId,
        address: RemoteAddress,
        len: u64,
        kind: AccessKind,
    ) -> Result<Reach, AccessError> {
        let RemoteAddress { key, offset } = address;
        let checked = self.table.check(endpoint, key, offset, len, kind);
        match (checked, &self.device) {
            (Ok((region, at)), device) => {
                let is_lent = device.as_ref().is_some_and(|it| it.is_lent(key));
                Ok(Reach::Registered {
                    region,
                    at,
                    is_lent,
                })
            }
            // Behind one key to all memory no address within it is out of bounds.
            (Err(AccessError::Bounds), Some(device)) if device.reaches_all(key, offset + len) => {
                Ok(Reach::Anything)
            }
            (Err(error), _) => Err(error),
        }
    }

    /// Counts an access by which a peer's bytes reach memory that its user has.
    pub(super) fn note(&self, reach: &Reach, kind: AccessKind) {
        if matches!(reach, Reach::Registered { is_lent: false, .. }) {
            return;
        }
        let mut reached = self.fabric.reached.get();
        match kind {
            AccessKind::RemoteRead => reached.reads += 1,
            AccessKind::RemoteWrite => reached.writes += 1,
            AccessKind::Local | AccessKind::Invalidate => {}
        }
        self.fabric.reached.set(reached);
    }
}

/// The memory that a peer's access names.
pub(super) enum Reach {
    /// Registered memory, and the offset in it.
    Registered {
        region: Rc<TableRegion>,
        at: u64,
        /// The user has it; the region's bytes are a copy.
        is_lent: bool,
    },
    /// Other memory of the machine, by a key to all memory. Zeros are read from it, and writes to it are dropped,
    /// because the simulation does not have it.
    Anything,
}

/// Whether its adapter has mappings that are allocated before their use.
fn is_fast(host: &Host) -> bool {
    host.profile().adapter.fast_maps.value != 0
}

/// Bytes for which the adapter stores translations. One key for all memory needs none.
fn translated(backing: &Backing) -> u64 {
    match backing {
        Backing::Buffer(buffer) => buffer.len() as u64,
        Backing::File { len, .. } => *len,
        Backing::Map => 0,
    }
}

impl Domain for SimDomain {
    fn register_now(
        &self,
        backing: Backing,
        access: Access,
        scope: Scope,
    ) -> Result<Region, RegisterError> {
        let pay = match backing {
            Backing::File { .. } => Host::register_file,
            Backing::Buffer(_) | Backing::Map => Host::register,
        };
        self.enter(backing, access, scope, pay)
    }

    fn register_fast(
        &self,
        backing: Backing,
        access: Access,
        scope: Scope,
    ) -> Result<Region, RegisterError> {
        if self.host.as_ref().is_some_and(|host| !is_fast(host)) {
            return self.register_now(backing, access, scope);
        }
        self.enter(backing, access, scope, Host::map_fast)
    }

    fn revoke_all(&self, regions: &mut Vec<Region>) {
        self.settle();
        let Some(host) = self.host.as_ref().filter(|host| is_fast(host)) else {
            return (regions.drain(..)).for_each(|region| drop(region.invalidate()));
        };
        if !regions.is_empty() {
            host.unmap_fast();
        }
        let ended = regions.iter().filter(|region| region.is_valid()).count();
        regions
            .drain(..)
            .for_each(|region| drop(region.invalidate()));
        self.forgive(ended as u64);
    }

    fn physical_segment_len(&self) -> Option<u32> {
        self.fabric.profile.get().physical_segment_len
    }

    fn has_software_regions(&self) -> bool {
        self.device.is_none()
    }

    fn has_bound_keys(&self) -> bool {
        true
    }

    fn has_windows(&self) -> bool {
        let device = self.device.as_ref();
        device.is_some_and(|device| device.powers.windows)
    }

    fn has_map(&self) -> bool {
        self.device
            .as_ref()
            .is_none_or(|device| device.powers.all_physical)
    }

    fn exports(&self, find: FindExported) -> Option<Rc<dyn ExportTable>> {
        let device = self.device.as_ref();
        let has_exports = device.is_none_or(|device| device.powers.optimistic_reads);
        has_exports.then(|| self.table.exports(find)).flatten()
    }

    fn stats(&self) -> RegionStats {
        RegionStats {
            file_ranges_registered: self.file_ranges.get(),
            ..self.table.stats()
        }
    }
}

impl Debtor for SimDomain {
    fn settle(&self) {
        let ended = self.stats().deregistrations;
        let owed = ended - self.settled.replace(ended) + self.let_go.take();
        if let Some(host) = self.host.as_ref().filter(|_| owed > 0) {
            host.deregister(owed);
        }
    }
}
