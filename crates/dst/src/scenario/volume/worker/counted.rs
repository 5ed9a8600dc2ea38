//! Further clients of a worker, and how often they read without a request to a server.

use super::{Step, Worker};
use gannet_volume::client::{AttributeCounters, OptimisticCounters, VolumeFs};
use std::cell::Cell;

/// The counts at the last look.
#[derive(Default)]
pub(super) struct Counted {
    data: Cell<OptimisticCounters>,
    attributes: Cell<AttributeCounters>,
}

impl Worker {
    /// Another client on the same machine, which requests no attributes beside its reads.
    pub(super) fn rival(&self) -> &VolumeFs {
        let (stage, client) = (&self.stage, self.seat().client);
        let connect = || stage.connect(client).without_attributes();
        self.rival.get_or_init(connect)
    }

    /// A client with a data cache, if this simulation has such clients.
    pub(super) fn cached(&self) -> Option<&VolumeFs> {
        let client = self.seat().client;
        let options = self.stage.plan.cached_reads(client)?;
        let connect = || self.stage.connect(client).with_reads(options);
        Some(self.cached.get_or_init(connect))
    }

    /// Drops the known modes of a step's names, unless the step keeps them.
    pub(super) fn forget_modes(&self, step: &Step) {
        let keeps = matches!(
            step,
            Step::Write(_)
                | Step::Contest(_)
                | Step::Truncate { .. }
                | Step::Lock { .. }
                | Step::Check { .. }
                | Step::Ranges(_)
        );
        if !keeps {
            let names = step.names();
            let modes = names.iter().map(|name| &self.stage.modes[*name]);
            modes.for_each(|mode| mode.set(None));
        }
    }

    /// Adds the reads of this worker's clients without a request since the last call.
    pub(super) fn count_reads(&self) {
        let clients = [Some(&self.fs), self.rival.get(), self.cached.get()];
        let (mut data, mut attributes) = Default::default();
        for fs in clients.into_iter().flatten() {
            data = data + fs.optimistic_counters();
            let of = fs.attribute_counters();
            let all: &mut AttributeCounters = &mut attributes;
            all.hits += of.hits;
            all.stale += of.stale;
            all.torn += of.torn;
        }
        let before: OptimisticCounters = self.counted.data.replace(data);
        let attributes_before = self.counted.attributes.replace(attributes);
        self.stage.count(|summary| {
            let reads = &mut summary.reads;
            reads.optimistic += data.reads - before.reads;
            reads.refused += data.refused - before.refused;
            reads.refused_keys += data.refused_keys - before.refused_keys;
            reads.cached += data.memory.cache_hits - before.memory.cache_hits;
            reads.attributes += attributes.hits - attributes_before.hits;
            reads.stale_attributes += attributes.stale - attributes_before.stale;
        });
    }
}
