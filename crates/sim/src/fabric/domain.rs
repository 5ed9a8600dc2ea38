//! The memory of a simulated provider: the protection table, its refusals, and the costs of registrations.

use super::SimFabric;
use crate::nic::{Debtor, Host, PAGE_LEN};
use gannet_fabric::{
    Access, Backing, Domain, ExportTable, FindExported, Region, RegionStats, RegisterError, Scope,
    Source,
};
use gannet_softrdma::ProtectionTable;
use std::cell::Cell;
use std::rc::Rc;

/// A protection table that refuses registrations now and then.
pub(super) struct SimDomain {
    pub(super) table: ProtectionTable,
    fabric: Rc<SimFabric>,
    host: Option<Rc<Host>>,
    /// Ended registrations that were charged, or whose end is free of charge.
    settled: Cell<u64>,
    /// Registrations of files' pages whose work is done, and whose end is not charged yet.
    let_go: Cell<u64>,
}

impl SimDomain {
    pub(super) fn new(
        table: ProtectionTable,
        fabric: Rc<SimFabric>,
        host: Option<Rc<Host>>,
    ) -> Rc<SimDomain> {
        let domain = Rc::new(SimDomain {
            table,
            fabric,
            host,
            settled: Cell::new(0),
            let_go: Cell::new(0),
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
        let refused = self.fabric.profile.get().registration_failures_per_mille;
        if self.fabric.random.chance(refused) {
            return Err(RegisterError::TableFull);
        }
        let translated = translated(&backing);
        let region = self.table.register_now(backing, access, scope)?;
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

    /// Charges for memory or a file's pages that are registered for one operation alone.
    pub(super) fn register_in_passing(&self, source: &Source) {
        let Some(host) = &self.host else {
            return;
        };
        match source {
            Source::File { len, .. } => host.register_file(u64::from(*len)),
            _ => host.register(u64::from(source.len())),
        }
    }

    /// Charges for the end of such a registration: of memory now; of a file's pages when their owner takes the
    /// completion, since the owner asks the kernel to release them (004 section 3.3).
    pub(super) fn deregister_in_passing(&self, source: &Source) {
        match (source, &self.host) {
            (Source::File { .. }, Some(_)) => self.let_go.set(self.let_go.get() + 1),
            (_, Some(host)) => host.deregister(1),
            (_, None) => {}
        }
    }
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
        self.enter(backing, access, scope, Host::map_fast)
    }

    fn revoke_all(&self, regions: &mut Vec<Region>) {
        self.settle();
        if let Some(host) = self.host.as_ref().filter(|_| !regions.is_empty()) {
            host.unmap_fast();
        }
        let before = self.stats().deregistrations;
        regions
            .drain(..)
            .for_each(|region| drop(region.invalidate()));
        self.forgive(self.stats().deregistrations - before);
    }

    fn physical_segment_len(&self) -> Option<u32> {
        self.fabric.profile.get().physical_segment_len
    }

    fn has_software_regions(&self) -> bool {
        true
    }

    fn has_map(&self) -> bool {
        true
    }

    fn exports(&self, find: FindExported) -> Option<Rc<dyn ExportTable>> {
        self.table.exports(find)
    }

    fn stats(&self) -> RegionStats {
        self.table.stats()
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
