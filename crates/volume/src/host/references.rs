//! Reads of servers' memory by references, which no server hears of: counters of the tables that the adapter reads.
//!
//! They are in cells of their core, which publishes them at intervals while somebody may watch.

use crate::io_server::IoServer;
use crate::limits::REFERENCES_EVERY;
use crate::manager::{Manager, RecordStats};
use gannet_fabric::ExportStats;
use gannet_metrics::{Exposition, Family, Label};
use gannet_runtime::{Handle, sleep};
use gannet_vfs::Vfs;
use std::collections::BTreeMap;
use std::ops::Add;
use std::rc::Rc;
use std::sync::{Mutex, MutexGuard, PoisonError};

const ENTRIES: Family = Family::gauge(
    "gannet_volume_exported_entries",
    "Objects and tables that clients may read without a call.",
);
const READS: Family = Family::counter(
    "gannet_volume_exported_reads",
    "Reads without a call, by their results at the server.",
);
const FAULTS: Family = Family::counter(
    "gannet_volume_export_faults",
    "Entries whose bytes had to be found again.",
);
const EVICTIONS: Family = Family::counter(
    "gannet_volume_export_evictions",
    "Entries that made room for others.",
);
const RECORDS: Family = Family::gauge(
    "gannet_volume_attribute_records",
    "Attribute records in the manager's table.",
);
const REMOVALS: Family = Family::counter(
    "gannet_volume_attribute_removals",
    "Records that the manager removed because their content was about to change.",
);

/// Counters of the tables of a process's servers, as of the last second.
#[derive(Debug, Default)]
pub struct ReferenceCounters(Mutex<Published>);

#[derive(Debug, Default)]
struct Published {
    manager: Option<RecordStats>,
    /// By the I/O servers' numbers.
    io_servers: BTreeMap<u32, ExportStats>,
}

impl ReferenceCounters {
    fn lock(&self) -> MutexGuard<'_, Published> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes the counters of a manager at intervals; never ends.
    pub(super) async fn publish_manager(&self, runtime: &Handle, manager: Rc<Manager>) {
        loop {
            self.lock().manager = Some(manager.attribute_stats());
            sleep(runtime, REFERENCES_EVERY).await;
        }
    }

    /// Publishes the counters of an I/O server at intervals; never ends.
    pub(super) async fn publish_io_server<V: Vfs>(
        &self,
        runtime: &Handle,
        number: u32,
        server: Rc<IoServer<V>>,
    ) {
        loop {
            let stats = server.export_stats();
            self.lock().io_servers.insert(number, stats);
            sleep(runtime, REFERENCES_EVERY).await;
        }
    }

    pub(super) fn collect(&self, into: &mut Exposition) {
        let published = self.lock();
        if let Some(stats) = published.manager {
            collect("manager", stats.exports, into);
            into.number(&RECORDS, &[], stats.records);
            into.number(&REMOVALS, &[], stats.removals);
        }
        let servers = published.io_servers.values().copied();
        if let Some(all) = servers.reduce(Add::add) {
            collect("io-server", all, into);
        }
    }
}

fn collect(role: &'static str, stats: ExportStats, into: &mut Exposition) {
    let role = Label::word("role", role);
    into.number(&ENTRIES, &[role], stats.entries);
    for (result, count) in [
        ("answered", stats.reads),
        ("not-resident", stats.not_resident),
        ("refused", stats.refused),
    ] {
        into.number(&READS, &[role, Label::word("result", result)], count);
    }
    into.number(&FAULTS, &[role], stats.faults);
    into.number(&EVICTIONS, &[role], stats.evicted);
}
