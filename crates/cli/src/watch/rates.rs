//! What a server did between two looks at it.

use super::facts::{Busy, Client, Clients, IoServer, Sample, Status};
use gannet_metrics::{LatencyReading, Work};
use serde::Serialize;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::time::Duration;

/// The families of operations, of a server and of a mount; they have the same labels.
const OPERATIONS: [&str; 2] = ["gannet_nfs_operations", "gannet_mount_operations"];
const OPERATION_SECONDS: [&str; 2] = [
    "gannet_nfs_operation_seconds",
    "gannet_mount_operation_seconds",
];

/// A look at a server.
#[derive(Debug, Clone, Default)]
pub(super) struct Look {
    /// The time of this clock when it was asked.
    pub(super) at: Duration,
    pub(super) status: Status,
    pub(super) clients: Clients,
    pub(super) busy: Busy,
}

/// The work of a server between two looks.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Rates {
    pub(super) version: String,
    pub(super) state: String,
    pub(super) why: Option<String>,
    pub(super) uptime_seconds: f64,
    pub(super) cores: u64,
    /// The time between both looks.
    pub(super) seconds: f64,
    pub(super) operations_per_second: f64,
    pub(super) received_bytes_per_second: f64,
    pub(super) sent_bytes_per_second: f64,
    pub(super) connections: u64,
    pub(super) budget_taken_bytes: f64,
    pub(super) budget_bytes: f64,
    pub(super) operations: Vec<OperationRate>,
    pub(super) clients: Vec<ClientRate>,
    pub(super) more_clients: u64,
    pub(super) exports: Vec<WorkRate>,
    pub(super) files: Vec<WorkRate>,
    pub(super) io_servers: Vec<IoServer>,
}

/// One kind of operation.
#[derive(Debug, Clone, Serialize)]
pub(super) struct OperationRate {
    pub(super) protocol: String,
    pub(super) procedure: String,
    pub(super) per_second: f64,
    /// Operations with another status than OK.
    pub(super) failures_per_second: f64,
    /// The bound that half of them did not exceed, at most twice the true median; `None` without operations, and where
    /// it is beyond all bounds.
    pub(super) p50_seconds: Option<f64>,
    /// As `p50_seconds`, for 99 of 100.
    pub(super) p99_seconds: Option<f64>,
}

/// One client.
#[derive(Debug, Clone, Serialize)]
pub(super) struct ClientRate {
    pub(super) connections: u64,
    #[serde(flatten)]
    pub(super) work: WorkRate,
}

/// The work of a client between two looks, or of an export or a file over the last 10 to 20 seconds.
#[derive(Debug, Clone, Serialize)]
pub(super) struct WorkRate {
    pub(super) name: String,
    pub(super) operations_per_second: f64,
    pub(super) received_bytes_per_second: f64,
    pub(super) sent_bytes_per_second: f64,
}

/// The order of the rows of tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Sort {
    /// The most operations.
    #[default]
    Operations,
    /// The most bytes; of operations, the most as well.
    Bytes,
    /// The slowest operations.
    Latency,
    /// The first name.
    Name,
}

impl Rates {
    /// The rates between two looks at a server. If it was started again meanwhile, those since its start.
    pub(super) fn between(before: &Look, after: &Look, sort: Sort) -> Rates {
        let nothing = Look {
            at: after
                .at
                .saturating_sub(seconds_of(after.status.uptime_seconds)),
            ..Look::default()
        };
        let is_same = after.status.uptime_seconds >= before.status.uptime_seconds;
        let before = if is_same { before } else { &nothing };
        let seconds = after.at.saturating_sub(before.at).as_secs_f64().max(1e-3);
        let status = &after.status;
        let rate = |families: &[&str]| {
            let grown = families
                .iter()
                .map(|family| status.total(family) - before.status.total(family));
            grown.sum::<f64>().max(0.0) / seconds
        };
        let connections = after.clients.clients.iter().map(Client::connections);
        let mut rates = Rates {
            version: status.version.clone(),
            state: status.health.state.clone(),
            why: status.health.why.clone(),
            uptime_seconds: status.uptime_seconds,
            cores: status.cores,
            seconds,
            operations_per_second: rate(&[
                "gannet_rpc_calls",
                "gannet_volume_requests",
                "gannet_mount_operations",
            ]),
            received_bytes_per_second: rate(&[
                "gannet_rpc_received_bytes",
                "gannet_volume_received_bytes",
                "gannet_mount_read_bytes",
            ]),
            sent_bytes_per_second: rate(&[
                "gannet_rpc_sent_bytes",
                "gannet_volume_sent_bytes",
                "gannet_mount_written_bytes",
            ]),
            connections: connections.sum(),
            budget_taken_bytes: status.total("gannet_budget_taken_bytes"),
            budget_bytes: status.total("gannet_budget_bytes"),
            operations: operations(&before.status, status, seconds),
            clients: clients(&before.clients, &after.clients, seconds),
            more_clients: after.clients.more,
            exports: busy_exports(&after.busy),
            files: busy_files(&after.busy),
            io_servers: status.volume.clone().unwrap_or_default().io_servers,
        };
        rates.sort(sort);
        rates
    }

    /// Puts the rows of tables in this order.
    pub(super) fn sort(&mut self, sort: Sort) {
        self.operations.sort_by(|a, b| {
            let by_name = a.procedure.cmp(&b.procedure);
            let by_rate = down(a.per_second, b.per_second).then(by_name);
            let slowest = |it: &OperationRate| it.p99_seconds.unwrap_or(0.0);
            match sort {
                Sort::Operations | Sort::Bytes => by_rate,
                Sort::Latency => down(slowest(a), slowest(b)).then(by_rate),
                Sort::Name => by_name,
            }
        });
        self.clients.sort_by(|a, b| a.work.order(&b.work, sort));
        for table in [&mut self.exports, &mut self.files] {
            table.sort_by(|a, b| a.order(b, sort));
        }
    }
}

impl WorkRate {
    /// The rates of work that was done in so many seconds.
    #[allow(clippy::cast_precision_loss)] // rates are shown with few digits
    fn new(name: String, work: Work, seconds: f64) -> WorkRate {
        let rate = |count: u64| count as f64 / seconds.max(1e-3);
        WorkRate {
            name,
            operations_per_second: rate(work.operations),
            received_bytes_per_second: rate(work.received_bytes),
            sent_bytes_per_second: rate(work.sent_bytes),
        }
    }

    /// The order of two rows of a table.
    fn order(&self, other: &WorkRate, sort: Sort) -> Ordering {
        let bytes = |it: &WorkRate| it.received_bytes_per_second + it.sent_bytes_per_second;
        let by_name = self.name.cmp(&other.name);
        let by_rate = down(self.operations_per_second, other.operations_per_second).then(by_name);
        match sort {
            Sort::Operations | Sort::Latency => by_rate,
            Sort::Bytes => down(bytes(self), bytes(other)).then(by_rate),
            Sort::Name => by_name,
        }
    }
}

/// The order of two numbers, the larger first.
fn down(a: f64, b: f64) -> Ordering {
    b.partial_cmp(&a).unwrap_or(Ordering::Equal)
}

fn seconds_of(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}

/// The kind of operation that a sample counts.
fn kind(sample: &Sample) -> (&str, &str) {
    (sample.label("protocol"), sample.label("procedure"))
}

/// The counts of operations, each by its kind and its status.
fn counted(status: &Status) -> HashMap<((&str, &str), &str), f64> {
    let samples = OPERATIONS.iter().flat_map(|it| status.samples(it));
    let counts = samples.map(|sample| ((kind(sample), sample.label("status")), sample.value));
    counts.collect()
}

/// The times of operations, by their kinds.
fn times(status: &Status) -> HashMap<(&str, &str), LatencyReading> {
    let samples = OPERATION_SECONDS.iter().flat_map(|it| status.samples(it));
    let times = samples.map(|sample| (kind(sample), sample.latency()));
    times.collect()
}

fn operations(before: &Status, after: &Status, seconds: f64) -> Vec<OperationRate> {
    let mut rates: HashMap<(&str, &str), OperationRate> = HashMap::new();
    let earlier = counted(before);
    for (key, count) in counted(after) {
        let ((protocol, procedure), status) = key;
        let grown = count - earlier.get(&key).copied().unwrap_or(0.0);
        let rate = rates
            .entry((protocol, procedure))
            .or_insert_with(|| OperationRate {
                protocol: protocol.to_owned(),
                procedure: procedure.to_owned(),
                per_second: 0.0,
                failures_per_second: 0.0,
                p50_seconds: None,
                p99_seconds: None,
            });
        let grown = grown.max(0.0) / seconds;
        rate.per_second += grown;
        if status != "OK" {
            rate.failures_per_second += grown;
        }
    }
    let earlier = times(before);
    for (kind, later) in times(after) {
        let earlier = earlier.get(&kind).copied().unwrap_or_default();
        let took = later.since(&earlier);
        let quantile = |share| took.quantile(share).map(|bound| bound.as_secs_f64());
        if let Some(rate) = rates.get_mut(&kind) {
            rate.p50_seconds = quantile(0.5);
            rate.p99_seconds = quantile(0.99);
        }
    }
    rates.into_values().collect()
}

fn clients(before: &Clients, after: &Clients, seconds: f64) -> Vec<ClientRate> {
    let earlier: HashMap<u64, &Client> = before.clients.iter().map(|it| (it.id, it)).collect();
    let rate = |client: &Client| {
        // How much of the work of one that was not listed is new cannot be told.
        let before = earlier.get(&client.id).copied().unwrap_or(client);
        let work = client.work().since(before.work());
        ClientRate {
            connections: client.connections(),
            work: WorkRate::new(client.name(), work, seconds),
        }
    };
    after.clients.iter().map(rate).collect()
}

fn busy_exports(busy: &Busy) -> Vec<WorkRate> {
    let exports = busy.exports.iter();
    exports
        .map(|it| WorkRate::new(it.name(), it.work.into(), busy.seconds))
        .collect()
}

fn busy_files(busy: &Busy) -> Vec<WorkRate> {
    let files = (1..).zip(&busy.files);
    files
        .map(|(place, it)| WorkRate::new(it.name(place), it.work.into(), busy.seconds))
        .collect()
}
