//! The state of the servers of a volume in this process, for administrators.

use super::finding::{IoServerFacts, manager_finding, not_ready};
use crate::admin::{Finding, LockList, LockRow, Part, PartState};
use gannet_metrics::{ClientList, Exposition, Family, Label, Source};
use gannet_volume::host::HostCounters;
use gannet_volume::manager::{IoServerReport, LeaseRow, VolumeReport};
use rustix::fs::statvfs;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// The servers of a volume in this process, for administrators: their numbers, and the state of the volume if its
/// manager is among them.
#[derive(Debug, Clone)]
pub struct VolumeWatch {
    pub(super) counters: HostCounters,
    /// The I/O servers here.
    pub(super) folders: Vec<ServedFolder>,
}

/// The folder of an I/O server of this process.
#[derive(Debug, Clone)]
pub(super) struct ServedFolder {
    pub(super) number: u32,
    pub(super) path: PathBuf,
}

const DISK: Family = Family::gauge(
    "gannet_disk_bytes",
    "The size of the file system under the folder of an I/O server of this process.",
);
const FREE: Family = Family::gauge(
    "gannet_disk_free_bytes",
    "The part of it that the I/O server may take.",
);

const CHECKPOINT: Family = Family::gauge(
    "gannet_volume_checkpoint_age_seconds",
    "Time since the last checkpoint of the metadata, or since the manager's start.",
);

impl Source for VolumeWatch {
    fn collect(&self, into: &mut Exposition) {
        self.counters.collect(into);
        if let Some(report) = self.report() {
            let age = now().saturating_sub(report.checkpoint);
            into.real(&CHECKPOINT, &[], age.as_secs_f64());
        }
        for ServedFolder { number, path } in &self.folders {
            // A disk that cannot be asked has no sample.
            let Ok(space) = statvfs(path) else { continue };
            let label = Label::number("io_server", *number);
            let bytes = |blocks: u64| blocks.saturating_mul(space.f_frsize);
            into.number(&DISK, &[label], bytes(space.f_blocks));
            into.number(&FREE, &[label], bytes(space.f_bavail));
        }
    }

    fn list_clients(&self, into: &mut ClientList) {
        self.counters.list_clients(into);
    }
}

impl Part for VolumeWatch {
    fn name(&self) -> &'static str {
        "volume"
    }

    fn state(&self) -> Option<PartState> {
        Some(self.state_of(&self.report()?, now()))
    }

    fn locks(&self) -> Option<LockList> {
        let list = self.counters.volume.get()?.leases()?;
        let now = now();
        let rows = list.rows.iter().map(|lease| lock_row(lease, now));
        Some(LockList {
            rows: rows.collect(),
            more: list.more,
        })
    }
}

/// The time since the Unix epoch.
fn now() -> Duration {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.unwrap_or_default()
}

impl VolumeWatch {
    fn report(&self) -> Option<VolumeReport> {
        self.counters.volume.get()?.report()
    }

    /// The state by a report, `now` since the Unix epoch.
    fn state_of(&self, report: &VolumeReport, now: Duration) -> PartState {
        let not_ready = not_ready(&report.manager);
        let mut findings: Vec<Finding> = not_ready.iter().map(manager_finding).collect();
        let servers = report.io_servers.iter().enumerate();
        let servers: Vec<Value> = servers
            .map(|(number, server)| {
                let finding = facts(number, server).finding();
                let said = self.io_server(number, server, finding.as_ref(), now);
                findings.extend(finding);
                said
            })
            .collect();
        let since_checkpoint = now.saturating_sub(report.checkpoint);
        PartState {
            status: json!({
                "name": report.name,
                "term": report.term,
                "checkpoint_age_seconds": since_checkpoint.as_secs_f64(),
                "io_servers": servers,
                "findings": findings,
            }),
            findings,
            not_ready,
        }
    }

    fn io_server(
        &self,
        number: usize,
        server: &IoServerReport,
        finding: Option<&Finding>,
        now: Duration,
    ) -> Value {
        let facts = facts(number, server);
        let is_here = self.folders.iter().any(|it| it.number as usize == number);
        // A disk is lost for longer than its server has run.
        let since = match (facts.is_note(), server.loss) {
            (true, Some(loss)) => Duration::from_secs(loss.since),
            _ => server.since,
        };
        let mut said = json!({
            "number": number,
            "address": server.address.as_ref().map(ToString::to_string),
            "state": facts.state(),
            "since_seconds": now.saturating_sub(since).as_secs_f64(),
            // The protocol does not tell the release of others.
            "version": is_here.then_some(env!("CARGO_PKG_VERSION")),
            "space_bytes": server.space.map(|space| space.total),
            "free_bytes": server.space.map(|space| space.available),
        });
        if let Some(finding) = finding {
            said["why"] = json!(finding.what);
            said["next"] = json!(finding.next);
        }
        said
    }
}

/// A lock or grant for administrators. A range without an end has none.
fn lock_row(lease: &LeaseRow, now: Duration) -> LockRow {
    let (start, end) = match &lease.range {
        Some(range) => (Some(*range.start()), Some(*range.end())),
        None => (None, None),
    };
    LockRow {
        client: lease.client,
        uid: lease.uid,
        process: lease.process,
        row: json!({
            "file": lease.file.0,
            "kind": lease.kind.word(),
            "start": start,
            "end": end.filter(|end| *end != u64::MAX),
            "waits": lease.waits,
            "since_seconds": now.saturating_sub(lease.since).as_secs_f64(),
        }),
    }
}

fn facts(number: usize, server: &IoServerReport) -> IoServerFacts<'_> {
    IoServerFacts {
        number,
        condition: server.condition,
        why: server.why.as_deref(),
        has_lost_disk: server.loss.is_some(),
        url: "gannet://HOST/",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gannet_volume::manager::{IoServerCondition, ManagerCondition};
    use gannet_wire::volume::Address;

    #[test]
    fn a_server_that_was_killed_is_told_with_its_time_and_the_next_step() {
        let watch = VolumeWatch {
            counters: HostCounters::default(),
            folders: vec![ServedFolder {
                number: 0,
                path: PathBuf::new(),
            }],
        };
        assert!(watch.state().is_none(), "no manager runs");
        let address = Address {
            host: String::from("192.0.2.7"),
            port: 20051,
        };
        let server = |condition, why: Option<&str>| IoServerReport {
            address: Some(address.clone()),
            condition,
            since: Duration::from_secs(90),
            why: why.map(str::to_owned),
            ..IoServerReport::default()
        };
        let report = VolumeReport {
            name: String::from("volume"),
            manager: ManagerCondition::Serving,
            term: 4,
            io_servers: vec![
                server(IoServerCondition::Ready, None),
                server(IoServerCondition::Silent, Some("its connection has ended")),
            ],
            checkpoint: Duration::from_secs(10),
        };
        let told = watch.state_of(&report, Duration::from_secs(100));
        let servers = &told.status["io_servers"];
        assert_eq!(servers[0]["state"], "ready");
        assert_eq!(servers[0]["version"], env!("CARGO_PKG_VERSION"));
        assert_eq!(servers[1]["version"], Value::Null);
        assert_eq!(servers[1]["state"], "silent");
        assert_eq!(servers[1]["since_seconds"], 10.0);
        assert_eq!(servers[1]["address"], "192.0.2.7:20051");
        assert_eq!(told.status["findings"][0]["next"], servers[1]["next"]);
        assert_eq!((told.findings.len(), told.not_ready), (1, None));
    }
}
