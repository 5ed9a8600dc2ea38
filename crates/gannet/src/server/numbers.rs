//! What the cores of a server count, and how a reader gets it while they serve.

use super::Content;
use crate::questions::{Questions, ask_all};
use crate::registrations;
use gannet_fabric::{RegionStats, registration};
use gannet_metrics::{Busy, ClientList, Exposition, Family, Source};
use gannet_nfs::server::Operations;
use gannet_rpc::{Counters, MemoryInUse};
use std::ops::Add;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Exports that a core shall serve from now on, in place of those before.
type NewExports = Option<Arc<Content>>;

/// Managers are away for less when they are switched. A mount waits for as long before it says so.
const WAIT_MIN: Duration = Duration::from_secs(3);

/// The numbers of one core.
pub(super) struct CoreNumbers {
    pub(super) rpc: Arc<Counters>,
    pub(super) operations: Arc<Operations>,
    published: Mutex<Published>,
    questions: Questions<NewExports>,
}

/// Numbers that a core keeps in cells.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Published {
    pub(super) registrations: registration::Counters,
    pub(super) regions: RegionStats,
    pub(super) memory: MemoryInUse,
    /// Bytes of payload memory that nothing uses.
    pub(super) memory_kept: usize,
    /// How long the volume that this core exports has had no manager; `None` while it has one, and without a volume.
    pub(super) manager_silent_for: Option<Duration>,
    /// The clients of the volume that this core exports, if it does.
    #[cfg(feature = "volumes")]
    pub(super) volume: Option<gannet_volume::client::ClientCounters>,
}

impl CoreNumbers {
    pub(super) fn new() -> Arc<CoreNumbers> {
        Arc::new(CoreNumbers {
            rpc: Arc::default(),
            operations: Arc::default(),
            published: Mutex::default(),
            questions: Questions::new(),
        })
    }

    pub(super) fn publish(&self, numbers: Published) {
        *self
            .published
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = numbers;
    }

    pub(super) fn published(&self) -> Published {
        *self
            .published
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes what `read` finds each time somebody asks, on the core, and has it `change` its exports; ends with the
    /// task that awaits it.
    pub(super) async fn answer(
        self: Arc<Self>,
        read: impl Fn() -> Published,
        change: impl Fn(&Content),
    ) {
        let publish = |exports: NewExports| {
            if let Some(exports) = exports {
                change(&exports);
            }
            self.publish(read());
        };
        self.questions.answer(publish).await;
    }
}

/// Has all cores publish their numbers, after a change of their exports if there is one; those that do not in time.
pub(super) async fn publish(cores: &[Arc<CoreNumbers>], exports: NewExports) -> Vec<usize> {
    let cores: Vec<_> = cores.iter().map(|core| &core.questions).collect();
    ask_all(&cores, &exports).await
}

/// The sum over the cores of a part of what they published.
pub(super) fn total<T: Default + Add<Output = T>>(
    cores: &[Arc<CoreNumbers>],
    part: impl Fn(Published) -> T,
) -> T {
    let each = cores.iter().map(|core| part(core.published()));
    each.fold(T::default(), Add::add)
}

/// How long no manager of the volume has answered the core that asks; `None` if one does, or it is not long.
pub(super) fn waits_for_manager(cores: &[Arc<CoreNumbers>]) -> Option<Duration> {
    let silent = cores
        .iter()
        .filter_map(|core| core.published().manager_silent_for);
    silent.max().filter(|silent| *silent >= WAIT_MIN)
}

/// The families of the other numbers of [`Published`], in the order of `Published::numbers`.
const FAMILIES: [Family; 8] = [
    Family::counter(
        "gannet_regions_registered",
        "Regions of memory registered at RDMA devices.",
    ),
    Family::counter("gannet_regions_revoked", "Regions revoked, by either end."),
    Family::gauge("gannet_region_bytes", "Bytes of the regions now."),
    Family::counter(
        "gannet_file_ranges_registered",
        "Ranges of files whose pages were registered for one RDMA Write.",
    ),
    Family::counter(
        "gannet_file_ranges_copied",
        "Ranges of files that were read into memory because their pages could not be registered.",
    ),
    Family::gauge(
        "gannet_payload_memory_bytes",
        "Memory of payloads of calls.",
    ),
    Family::gauge("gannet_message_memory_bytes", "Memory of RDMA messages."),
    Family::gauge(
        "gannet_idle_memory_bytes",
        "Memory of payloads that is kept and unused.",
    ),
];

impl Published {
    fn numbers(&self) -> [u64; FAMILIES.len()] {
        let (regions, memory) = (self.regions, self.memory);
        [
            regions.registrations,
            regions.deregistrations,
            regions.bytes_registered,
            regions.file_ranges_registered,
            regions.file_ranges_copied,
            memory.payloads as u64,
            memory.inline as u64,
            self.memory_kept as u64,
        ]
    }
}

impl Source for CoreNumbers {
    fn collect(&self, into: &mut Exposition) {
        self.rpc.collect(into);
        self.operations.collect(into);
        let published = self.published();
        for (family, number) in FAMILIES.iter().zip(published.numbers()) {
            into.number(family, &[], number);
        }
        registrations::collect(&published.registrations, into);
        #[cfg(feature = "volumes")]
        if let Some(volume) = &published.volume {
            volume.collect(into);
        }
    }

    fn list_clients(&self, into: &mut ClientList) {
        self.rpc.clients.read(into);
    }

    fn busy(&self) -> Option<&Busy> {
        self.operations.busy()
    }
}
