//! What a server tells: `/status.json`, `/clients.json` and `/locks.json`, as far as commands use it.

use gannet_metrics::{LatencyReading, Work};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// `/status.json`.
#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct Status {
    pub(super) version: String,
    pub(super) health: Health,
    pub(super) uptime_seconds: f64,
    pub(super) cores: u64,
    /// The least time of a slow operation, where the server takes operations apart.
    #[serde(default)]
    pub(super) slow_seconds: Option<f64>,
    pub(super) metrics: BTreeMap<String, Samples>,
    #[serde(default)]
    pub(super) volume: Option<Volume>,
}

/// Whether the server serves.
#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct Health {
    pub(super) state: String,
    #[serde(default)]
    pub(super) why: Option<String>,
}

/// A family of metrics.
#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct Samples {
    pub(super) samples: Vec<Sample>,
}

/// One number, or the times of one kind of operation.
#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct Sample {
    pub(super) labels: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) value: f64,
    /// How many took up to 1, 2, 4... us, and how many took longer than all bounds.
    #[serde(default)]
    pub(super) buckets: Vec<u64>,
}

impl Sample {
    /// How long operations took; without their sum, which is not shown.
    pub(super) fn latency(&self) -> LatencyReading {
        let mut reading = LatencyReading::default();
        let counts = reading.buckets.iter_mut().zip(&self.buckets);
        counts.for_each(|(bucket, count)| *bucket = *count);
        reading
    }

    pub(super) fn label(&self, name: &str) -> &str {
        self.labels.get(name).map_or("", String::as_str)
    }
}

impl Status {
    /// The samples of a family, of which a server may have none.
    pub(super) fn samples(&self, family: &str) -> &[Sample] {
        let family = self.metrics.get(family);
        family.map_or(&[], |family| &family.samples)
    }

    /// The sum over the samples of a family.
    pub(super) fn total(&self, family: &str) -> f64 {
        self.samples(family).iter().map(|it| it.value).sum()
    }
}

/// A volume, as its manager knows it.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct Volume {
    pub(crate) io_servers: Vec<IoServer>,
}

/// A server of a volume.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
pub(crate) struct IoServer {
    pub(crate) number: u64,
    #[serde(default)]
    pub(crate) address: Option<String>,
    pub(crate) state: String,
    #[serde(default)]
    pub(crate) since_seconds: Option<f64>,
    /// The release, where the manager knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) version: Option<String>,
    /// The finding about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) why: Option<String>,
}

/// `/busy.json`. A server of a release before it has none.
#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct Busy {
    /// The time in which the work was done.
    pub(super) seconds: f64,
    pub(super) exports: Vec<BusyExport>,
    pub(super) files: Vec<BusyFile>,
}

/// An export with its work.
#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct BusyExport {
    pub(super) id: u64,
    /// `None` where the reader may not see it.
    pub(super) export: Option<String>,
    #[serde(flatten)]
    pub(super) work: BusyWork,
}

/// A file with its work.
#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct BusyFile {
    /// `None` where the reader may not see it.
    pub(super) export: Option<String>,
    /// As `export`, and where the server does not know.
    pub(super) file: Option<String>,
    /// As `export`.
    pub(super) handle: Option<String>,
    #[serde(flatten)]
    pub(super) work: BusyWork,
}

impl BusyExport {
    /// Its path, or what stands for it.
    pub(super) fn name(&self) -> String {
        let unknown = || format!("export {}", self.id);
        self.export.clone().unwrap_or_else(unknown)
    }
}

impl BusyFile {
    /// Its path from the root of the exports, or what stands for it; `place` is its place in the list, from 1 on.
    pub(super) fn name(&self, place: usize) -> String {
        let export = self.export.as_deref().unwrap_or_default();
        match (&self.file, &self.handle) {
            (Some(path), _) if path.starts_with('/') => {
                format!("{}{path}", export.trim_end_matches('/'))
            }
            (Some(label), _) => format!("{export} {label}"),
            (None, Some(handle)) => format!("{export} handle {handle}"),
            (None, None) => format!("file {place}"),
        }
    }
}

/// The work of an export or a file.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
pub(super) struct BusyWork {
    pub(super) operations: u64,
    pub(super) received_bytes: u64,
    pub(super) sent_bytes: u64,
}

impl From<BusyWork> for Work {
    fn from(work: BusyWork) -> Work {
        Work {
            operations: work.operations,
            received_bytes: work.received_bytes,
            sent_bytes: work.sent_bytes,
        }
    }
}

/// `/clients.json`.
#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct Clients {
    pub(super) clients: Vec<Client>,
    /// How many more there are.
    pub(super) more: u64,
}

/// A client of the server.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
pub(super) struct Client {
    pub(super) id: u64,
    /// `None` where the reader may not see it.
    pub(super) address: Option<String>,
    pub(super) tcp_connections: u64,
    pub(super) rdma_connections: u64,
    pub(super) native_connections: u64,
    pub(super) operations: u64,
    pub(super) received_bytes: u64,
    pub(super) sent_bytes: u64,
    pub(super) minute: Minute,
}

/// The work of a client lately.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
pub(super) struct Minute {
    pub(super) seconds: f64,
    pub(super) operations: u64,
    pub(super) received_bytes: u64,
    pub(super) sent_bytes: u64,
}

/// `/locks.json`.
#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct Locks {
    pub(super) locks: Vec<Lock>,
    /// How many more there are.
    pub(super) more: u64,
    /// The manager of a volume runs there.
    pub(super) keeps_locks: bool,
}

/// A lock or grant of a client.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
pub(super) struct Lock {
    /// The client's number in `/clients.json`.
    pub(super) client: Option<u64>,
    /// `None` where the reader may not see it.
    pub(super) address: Option<String>,
    /// As the address.
    pub(super) uid: Option<u64>,
    pub(super) process: Option<u64>,
    /// The number of the file in its volume.
    pub(super) file: u64,
    /// `shared`, `exclusive`, `open` or `write`.
    pub(super) kind: String,
    /// The first byte of a lock.
    pub(super) start: Option<u64>,
    /// Its last byte; `None` for all behind.
    pub(super) end: Option<u64>,
    /// The client waits for it.
    pub(super) waits: bool,
    pub(super) since_seconds: f64,
}

impl Client {
    /// Its address, or what stands for it.
    pub(super) fn name(&self) -> String {
        let unknown = || format!("client {}", self.id);
        self.address.clone().unwrap_or_else(unknown)
    }

    /// Its work, since it is listed.
    pub(super) fn work(&self) -> Work {
        Work {
            operations: self.operations,
            received_bytes: self.received_bytes,
            sent_bytes: self.sent_bytes,
        }
    }

    /// Its connections, over all ways.
    pub(super) fn connections(&self) -> u64 {
        self.tcp_connections + self.rdma_connections + self.native_connections
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_the_name_by_which_clients_find_it() {
        let file = |export: &str, file: Option<&str>, handle: Option<&str>| BusyFile {
            export: Some(export.to_owned()),
            file: file.map(str::to_owned),
            handle: handle.map(str::to_owned),
            work: BusyWork::default(),
        };
        for (export, label, name) in [
            ("/", "/a", "/a"),
            ("/data", "/a/b", "/data/a/b"),
            ("/data", "outside: /srv/x", "/data outside: /srv/x"),
            ("/vol", "file 12", "/vol file 12"),
        ] {
            assert_eq!(file(export, Some(label), Some("00")).name(1), name);
        }
        assert_eq!(file("/d", None, Some("0aff")).name(1), "/d handle 0aff");
        assert_eq!(BusyFile::default().name(3), "file 3");
    }
}
