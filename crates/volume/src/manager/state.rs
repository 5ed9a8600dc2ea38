//! The state of a volume as its manager knows it, for readers on other threads.
//!
//! The manager writes it where a fact changes: at an answer of an I/O server, and at the end of its connection. It
//! makes no call for it, so a reader costs the manager's core nothing. Times are those of the wall clock, because a
//! runtime's own clock means nothing to other threads.

use super::listing::LeaseList;
use crate::link::{LinkError, Unreachable};
use gannet_meta::MetaStore;
use gannet_meta::claims::Loss;
use gannet_metrics::{Counter, Exposition, Family, Gauge, Label, Source};
use gannet_wire::volume::Address;
use gannet_wire::xdr::Decoder;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

/// The condition of an I/O server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum IoServerCondition {
    /// The manager has not asked it yet.
    #[default]
    Starting,
    /// It answers.
    Ready,
    /// It does not answer.
    Silent,
    /// It answers with an error.
    Failing,
    /// It has not said where it is since the manager began.
    Unregistered,
    /// It found its folder empty, and was refused: it had data there.
    EmptyDisk,
}

impl IoServerCondition {
    /// Its name in `/status.json`.
    pub fn word(self) -> &'static str {
        match self {
            IoServerCondition::Starting => "starting",
            IoServerCondition::Ready => "ready",
            IoServerCondition::Silent => "silent",
            IoServerCondition::Failing => "failing",
            IoServerCondition::Unregistered => "unregistered",
            IoServerCondition::EmptyDisk => "empty-disk",
        }
    }

    /// The condition of a server that gave no usable reply for this reason.
    pub fn after(error: &LinkError) -> IoServerCondition {
        match error {
            LinkError::Unreachable(Unreachable::NotRegistered) => IoServerCondition::Unregistered,
            LinkError::Refused(_) => IoServerCondition::Failing,
            _ => IoServerCondition::Silent,
        }
    }
}

/// The space of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DiskSpace {
    /// All its bytes.
    pub total: u64,
    /// Bytes that its server may take.
    pub available: u64,
}

impl DiskSpace {
    /// The space by the body of a reply to Usage; `None` for a body that cannot be decoded.
    pub(crate) fn from_usage(body: &[u8]) -> Option<DiskSpace> {
        let mut decoder = Decoder::new(body);
        let mut word = || decoder.u64().ok();
        let (total, _free, available) = (word()?, word()?, word()?);
        Some(DiskSpace { total, available })
    }
}

/// The facts about an I/O server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IoServerReport {
    /// Where it says that it is.
    pub address: Option<Address>,
    /// Its condition.
    pub condition: IoServerCondition,
    /// When the condition began, since the Unix epoch.
    pub since: Duration,
    /// The error of the last call, unless it answers.
    pub why: Option<String>,
    /// The last disk that it lost.
    pub loss: Option<Loss>,
    /// The space that it reported last, if it is asked.
    pub space: Option<DiskSpace>,
}

/// Whether the manager answers questions about names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ManagerCondition {
    /// No manager runs in this process.
    #[default]
    Absent,
    /// It waits for a majority of the I/O servers to accept its term.
    Waiting,
    /// It answers.
    Serving,
    /// Fewer than half of the I/O servers confirm its term: calls wait.
    Unconfirmed,
    /// Its term has ended for this reason, and the process ends.
    Ended(String),
}

/// The facts about a volume.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VolumeReport {
    /// The volume's name for users.
    pub name: String,
    /// The condition of the manager.
    pub manager: ManagerCondition,
    /// The number of the manager's term; 0 before the first one.
    pub term: u64,
    /// The I/O servers by their numbers.
    pub io_servers: Vec<IoServerReport>,
    /// When the last checkpoint of the metadata ended, since the Unix epoch; at first, the manager's start.
    pub checkpoint: Duration,
}

/// The state of a volume, which its manager writes and other threads read.
#[derive(Debug, Default)]
pub struct VolumeState {
    report: Mutex<VolumeReport>,
    /// How many members of a group of several must have a write before it is answered; 0 until the manager knows it.
    min_copies: AtomicU32,
    /// The locks and grants of clients, as of the manager's last sweep over its leases.
    leases: Mutex<LeaseList>,
    /// The metadata, which readers keep from no end.
    store: OnceLock<Weak<dyn MetaStore>>,
    /// Transactions that changes shared.
    pub(super) group_commits: Counter,
    /// Changes in these transactions.
    pub(super) changes: Counter,
    pub(super) checkpoints: Counter,
    /// The following are as of the manager's last sweep over its leases.
    pub(super) lock_clients: Gauge,
    pub(super) locks: Gauge,
    pub(super) granted_files: Gauge,
    pub(super) capability_files: Gauge,
}

const READY: Family = Family::gauge(
    "gannet_volume_io_server_ready",
    "1 when the I/O server answers its manager, 0 otherwise.",
);
const SPACE: Family = Family::gauge(
    "gannet_volume_io_server_bytes",
    "The size of the I/O server's file system, as it said last.",
);
const AVAILABLE: Family = Family::gauge(
    "gannet_volume_io_server_available_bytes",
    "The part of it that the I/O server may take.",
);
const JOURNAL: Family = Family::gauge(
    "gannet_volume_journal_bytes",
    "Bytes of changes of the metadata that are in the journal alone.",
);
const METADATA: Family = Family::gauge(
    "gannet_volume_metadata_bytes",
    "Bytes of the file of the metadata, without its reserve.",
);
const SERVING: Family = Family::gauge(
    "gannet_volume_manager_ready",
    "1 when the manager answers questions about names, 0 otherwise.",
);
const TERM: Family = Family::gauge("gannet_volume_term", "The number of the manager's term.");
const LOST: Family = Family::gauge(
    "gannet_volume_lost_disks",
    "I/O servers that have lost a disk at some time.",
);

impl VolumeState {
    fn lock(&self) -> MutexGuard<'_, VolumeReport> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The facts now; `None` where no manager runs.
    pub fn report(&self) -> Option<VolumeReport> {
        let report = self.lock();
        (report.manager != ManagerCondition::Absent).then(|| report.clone())
    }

    /// The locks and grants of clients, within three seconds; `None` where no manager runs. The list is empty until
    /// [`super::Manager::list_leases`].
    pub fn leases(&self) -> Option<LeaseList> {
        self.report()?;
        let leases = self.leases.lock().unwrap_or_else(PoisonError::into_inner);
        Some(leases.clone())
    }

    /// Clients have these locks and grants.
    pub(super) fn has_leases(&self, list: LeaseList) {
        let mut leases = self.leases.lock().unwrap_or_else(PoisonError::into_inner);
        *leases = list.aged_by(&leases);
    }

    /// The state of a manager that begins with so many I/O servers at a time, some of which have lost a disk.
    pub(super) fn begin(
        store: &Arc<dyn MetaStore>,
        count: u32,
        losses: &BTreeMap<u32, Loss>,
        now: Duration,
    ) -> Arc<VolumeState> {
        let io_servers = (0..count).map(|number| IoServerReport {
            since: now,
            loss: losses.get(&number).copied(),
            ..IoServerReport::default()
        });
        Arc::new(VolumeState {
            report: Mutex::new(VolumeReport {
                manager: ManagerCondition::Waiting,
                checkpoint: now,
                io_servers: io_servers.collect(),
                ..VolumeReport::default()
            }),
            store: OnceLock::from(Arc::downgrade(store)),
            ..VolumeState::default()
        })
    }

    /// Names the volume.
    pub(super) fn name(&self, name: &str) {
        name.clone_into(&mut self.lock().name);
    }

    fn change(&self, number: u32, change: impl FnOnce(&mut IoServerReport)) {
        let mut report = self.lock();
        if let Some(server) = report.io_servers.get_mut(number as usize) {
            change(server);
        }
    }

    /// An I/O server is at this address.
    pub(super) fn is_at(&self, number: u32, address: &Address) {
        self.change(number, |server| {
            server.address = address.is_known().then(|| address.clone());
        });
    }

    /// A write to a group of several members waits until so many have it.
    pub(super) fn need_copies(&self, min_copies: u32) {
        self.min_copies.store(min_copies, Ordering::Relaxed);
    }

    /// How many members of a group of several must have a write before it is answered.
    pub(super) fn min_copies(&self) -> u32 {
        self.min_copies.load(Ordering::Relaxed).max(1)
    }

    /// Where each I/O server is, as far as it has said so.
    pub(super) fn addresses(&self) -> Vec<Option<Address>> {
        let report = self.lock();
        let servers = report.io_servers.iter();
        servers.map(|server| server.address.clone()).collect()
    }

    /// An I/O server has answered.
    pub(super) fn answers(&self, number: u32, now: Duration) {
        self.change(number, |server| {
            server.enter(IoServerCondition::Ready, now);
            server.why = None;
        });
    }

    /// An I/O server gave no usable reply.
    pub(super) fn fails(&self, number: u32, error: &LinkError, now: Duration) {
        self.change(number, |server| {
            // Its process has ended for this, and no call says why.
            if server.condition != IoServerCondition::EmptyDisk {
                server.enter(IoServerCondition::after(error), now);
                server.why = Some(error.to_string());
            }
        });
    }

    /// The connection to an I/O server has ended.
    pub(super) fn has_ended(&self, number: u32, now: Duration) {
        self.change(number, |server| {
            if server.condition == IoServerCondition::Ready {
                server.enter(IoServerCondition::Silent, now);
                server.why = Some("its connection has ended".to_owned());
            }
        });
    }

    /// An I/O server with data found its folder empty.
    pub(super) fn finds_no_data(&self, number: u32, now: Duration) {
        self.change(number, |server| {
            server.enter(IoServerCondition::EmptyDisk, now);
            server.why = Some("its folder is empty, and it was served before".to_owned());
        });
    }

    /// The operator has given up the disk of an I/O server.
    pub(super) fn has_lost(&self, number: u32, loss: Loss) {
        self.change(number, |server| server.loss = Some(loss));
    }

    /// An I/O server has this space.
    pub(super) fn has_space(&self, number: u32, space: DiskSpace) {
        self.change(number, |server| server.space = Some(space));
    }

    /// The manager's term is this one.
    pub(super) fn holds(&self, term: u64) {
        self.lock().term = term;
    }

    /// The condition of the manager has changed. Nothing follows the end of its term.
    pub(super) fn manager_is(&self, condition: ManagerCondition) {
        let mut report = self.lock();
        if !matches!(report.manager, ManagerCondition::Ended(_)) {
            report.manager = condition;
        }
    }

    /// A checkpoint of the metadata has ended.
    pub(super) fn has_checkpoint(&self, now: Duration) {
        self.checkpoints.add(1);
        self.lock().checkpoint = now;
    }
}

impl IoServerReport {
    fn enter(&mut self, condition: IoServerCondition, now: Duration) {
        if self.condition != condition {
            self.condition = condition;
            self.since = now;
        }
    }
}

impl Source for VolumeState {
    fn collect(&self, into: &mut Exposition) {
        let Some(report) = self.report() else { return };
        for (number, server) in (0..).zip(&report.io_servers) {
            let is_ready = server.condition == IoServerCondition::Ready;
            let label = Label::number("io_server", number);
            into.number(&READY, &[label], u64::from(is_ready));
            if let Some(DiskSpace { total, available }) = server.space {
                into.number(&SPACE, &[label], total);
                into.number(&AVAILABLE, &[label], available);
            }
        }
        let serves = report.manager == ManagerCondition::Serving;
        into.number(&SERVING, &[], u64::from(serves));
        into.number(&TERM, &[], report.term);
        let lost = report.io_servers.iter().filter(|it| it.loss.is_some());
        into.number(&LOST, &[], lost.count() as u64);
        if let Some(store) = self.store.get().and_then(Weak::upgrade) {
            let lengths = store.lengths();
            into.number(&JOURNAL, &[], lengths.journal);
            into.number(&METADATA, &[], lengths.file);
        }
        self.collect_work(into);
    }
}

impl VolumeState {
    fn collect_work(&self, into: &mut Exposition) {
        for (name, help, counter) in [
            (
                "gannet_volume_group_commits",
                "Transactions of the metadata that changes of names shared.",
                &self.group_commits,
            ),
            (
                "gannet_volume_changes",
                "Changes of names and attributes in these transactions.",
                &self.changes,
            ),
            (
                "gannet_volume_checkpoints",
                "Checkpoints of the metadata: the journal's changes went into its file.",
                &self.checkpoints,
            ),
        ] {
            into.counter(&Family::counter(name, help), &[], counter);
        }
        for (name, help, gauge) in [
            (
                "gannet_volume_lock_clients",
                "Clients whose leases keep file locks, within three seconds.",
                &self.lock_clients,
            ),
            (
                "gannet_volume_locks",
                "File locks and files kept open by clients, within three seconds.",
                &self.locks,
            ),
            (
                "gannet_volume_granted_files",
                "Files that clients may write now, within three seconds.",
                &self.granted_files,
            ),
            (
                "gannet_volume_capability_files",
                "Files for which clients may have a capability, within three seconds.",
                &self.capability_files,
            ),
        ] {
            into.gauge(&Family::gauge(name, help), &[], gauge);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gannet_meta::MemoryStore;
    use gannet_wire::volume::Status;

    const fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn state() -> Arc<VolumeState> {
        let store: Arc<dyn MetaStore> = Arc::new(MemoryStore::default());
        VolumeState::begin(&store, 2, &BTreeMap::new(), at(1))
    }

    fn second(state: &VolumeState) -> (IoServerCondition, Duration) {
        let report = state.report().unwrap();
        let server = &report.io_servers[1];
        (server.condition, server.since)
    }

    #[test]
    fn a_condition_is_as_old_as_its_first_call() {
        let state = state();
        assert_eq!(second(&state), (IoServerCondition::Starting, at(1)));
        state.answers(1, at(2));
        state.answers(1, at(3));
        assert_eq!(second(&state), (IoServerCondition::Ready, at(2)));
        state.has_ended(1, at(4));
        state.fails(1, &LinkError::Silent, at(5));
        assert_eq!(second(&state), (IoServerCondition::Silent, at(4)));
        let why = state.report().unwrap().io_servers[1].why.clone();
        assert_eq!(why, Some(LinkError::Silent.to_string()));
        state.fails(1, &LinkError::Refused(Status::Io), at(6));
        assert_eq!(second(&state), (IoServerCondition::Failing, at(6)));
        state.fails(1, &Unreachable::NotRegistered.into(), at(7));
        assert_eq!(second(&state), (IoServerCondition::Unregistered, at(7)));
        state.finds_no_data(1, at(8));
        state.fails(1, &LinkError::Silent, at(9));
        assert_eq!(second(&state), (IoServerCondition::EmptyDisk, at(8)));
        state.answers(1, at(10));
        assert_eq!(second(&state), (IoServerCondition::Ready, at(10)));
    }

    #[test]
    fn nothing_follows_the_end_of_a_term() {
        let state = state();
        let ended = ManagerCondition::Ended("replaced".to_owned());
        state.manager_is(ManagerCondition::Serving);
        state.manager_is(ended.clone());
        state.manager_is(ManagerCondition::Unconfirmed);
        assert_eq!(state.report().unwrap().manager, ended);
        assert_eq!(VolumeState::default().report(), None);
    }
}
