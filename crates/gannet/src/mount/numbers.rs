//! What a mount counts, and how a reader on another thread gets it.

use super::Mounted;
use crate::admin::{Finding, NotReady, Part, PartState, Subject};
use crate::client::connect::Connection;
use crate::client::remote::Remote;
use crate::questions::{Questions, ask_all};
use crate::registrations;
use crate::server::{Health, Reading};
use gannet_fabric::registration;
use gannet_fuse::{MountState, MountWatch, Requests};
use gannet_metrics::{Exposition, Family, Pools, Registry, SlowOperations, Source};
#[cfg(feature = "volumes")]
use gannet_volume::client::ClientCounters;
use serde_json::{Map, Value, json};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const UNDER_WAY: Family = Family::gauge(
    "gannet_mount_requests_under_way",
    "Requests of the kernel without an answer.",
);
const WAITING: Family = Family::gauge(
    "gannet_mount_waiting_seconds",
    "How long the oldest request waits for a server, from three seconds on; else 0.",
);
const DIRTY: Family = Family::gauge(
    "gannet_mount_dirty_bytes",
    "Bytes that programs have written and the server has not answered.",
);
const UNCOMMITTED: Family = Family::gauge(
    "gannet_mount_uncommitted_bytes",
    "Bytes that the server has, and that the mount keeps until they are durable there.",
);
const RECONNECTS: Family = Family::counter(
    "gannet_mount_reconnects",
    "Connections that were lost and made again.",
);
const STARVED: Family = Family::counter(
    "gannet_mount_starved_seconds",
    "Time in which calls over RDMA waited because the server had granted no more credits.",
);

/// The numbers of a mount, for other threads.
#[derive(Clone)]
pub struct MountTally(Arc<Shared>);

struct Shared {
    registry: Registry,
    numbers: Arc<Numbers>,
    questions: Questions<()>,
    requests: Arc<Requests>,
    /// The scheme of its URL.
    protocol: &'static str,
}

/// The numbers that a mount keeps in cells of its core.
#[derive(Default)]
struct Numbers(Mutex<Published>);

#[derive(Debug, Clone, Default)]
struct Published {
    state: MountState,
    reconnects: u64,
    starved: Duration,
    registrations: registration::Counters,
    #[cfg(feature = "volumes")]
    volume: Option<ClientCounters>,
}

impl Numbers {
    fn lock(&self) -> MutexGuard<'_, Published> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MountTally {
    /// The numbers of a mount of `connection`, which is on this core. A task of the core publishes them when they are
    /// read.
    pub fn new(connection: &Connection, mount: &Mounted, protocol: &'static str) -> MountTally {
        let numbers = Arc::new(Numbers::default());
        let shared = Arc::new(Shared {
            registry: Registry::default(),
            numbers: Arc::clone(&numbers),
            questions: Questions::new(),
            requests: Arc::clone(mount.requests()),
            protocol,
        });
        shared.registry.add(Arc::clone(mount.requests()) as _);
        shared.registry.add(numbers as _);
        let pools = Pools::default();
        pools.add(&connection.runtime());
        shared.registry.add(Arc::new(pools));
        let read = reader(connection, mount.watch());
        let answering = Arc::clone(&shared);
        let answer = async move {
            let publish = |()| *answering.numbers.lock() = read();
            answering.questions.answer(publish).await;
        };
        connection
            .runtime()
            .spawn("publish numbers", Box::pin(answer));
        MountTally(shared)
    }

    /// The state of the mount, beside that of its core.
    pub fn part(&self) -> Arc<dyn Part> {
        Arc::new(MountPart(Arc::clone(&self.0)))
    }
}

/// Reads the numbers on the core.
fn reader(connection: &Connection, watch: MountWatch<Remote>) -> impl Fn() -> Published + 'static {
    let remote = Rc::clone(connection.files.objects().file_system());
    let reconnects = connection.count_reconnects();
    move || {
        let rpc = remote.nfs().map(gannet_nfs::client::Client::rpc);
        Published {
            state: watch.state(),
            reconnects: reconnects(),
            starved: rpc
                .map(gannet_rpc::Client::credit_starved)
                .unwrap_or_default(),
            registrations: rpc
                .and_then(gannet_rpc::Client::registration)
                .unwrap_or_default(),
            #[cfg(feature = "volumes")]
            volume: remote.volume().map(|volume| volume.watch().counters()),
        }
    }
}

impl Source for Numbers {
    fn collect(&self, into: &mut Exposition) {
        let published = self.lock().clone();
        let MountState {
            under_way,
            waiting,
            dirty_bytes,
            uncommitted_bytes,
            ..
        } = published.state;
        into.number(&UNDER_WAY, &[], under_way as u64);
        into.real(&WAITING, &[], waiting.unwrap_or_default().as_secs_f64());
        into.number(&DIRTY, &[], dirty_bytes);
        into.number(&UNCOMMITTED, &[], uncommitted_bytes);
        into.number(&RECONNECTS, &[], published.reconnects);
        into.real(&STARVED, &[], published.starved.as_secs_f64());
        registrations::collect(&published.registrations, into);
        #[cfg(feature = "volumes")]
        if let Some(volume) = &published.volume {
            volume.collect(into);
        }
    }
}

impl Subject for MountTally {
    fn registry(&self) -> &Registry {
        &self.0.registry
    }

    fn read(&self) -> Pin<Box<dyn Future<Output = Reading> + '_>> {
        Box::pin(async {
            let stuck = ask_all(&[&self.0.questions], &()).await;
            let health = if stuck.is_empty() {
                Health::Ready
            } else {
                Health::Stuck(stuck)
            };
            let counted = self.0.registry.read();
            Reading { health, counted }
        })
    }

    fn slow(&self) -> &SlowOperations {
        &self.0.requests.slow
    }

    fn status(&self) -> Map<String, Value> {
        Map::from_iter([(String::from("cores"), json!(1))])
    }
}

/// The state of the mount as of the last reading.
struct MountPart(Arc<Shared>);

impl Part for MountPart {
    fn name(&self) -> &'static str {
        "mount"
    }

    fn state(&self) -> Option<PartState> {
        let MountState { waiting, why, .. } = self.0.numbers.lock().state.clone();
        let why = waiting.map(|waiting| {
            let reason = why.as_deref().unwrap_or("no reply");
            let seconds = waiting.as_secs();
            format!("a request has waited for a server for {seconds} s: {reason}")
        });
        let status = json!({
            "protocol": self.0.protocol,
            "waiting_seconds": waiting.map(|waiting| waiting.as_secs_f64()),
            "why": why,
        });
        let finding = why.clone().map(|what| Finding {
            what,
            next: String::from(
                "gannet doctor with the URL of the mount, and the log of the server",
            ),
        });
        Some(PartState {
            status,
            findings: finding.into_iter().collect(),
            not_ready: why.map(|why| NotReady {
                state: "waiting",
                why,
            }),
        })
    }
}
