//! A volume as a file system: what NFS and FUSE serve.

mod attribute_references;
pub(super) mod bytes;
mod copies;
mod cut;
mod guards;
mod inventory;
mod names;
mod object_states;
mod optimistic;
mod prefetch;
mod server_states;
mod shared;
mod stripes;

pub use attribute_references::AttributeCounters;
pub use server_states::{IoServerAnswer, IoServerState, ServerStates};
pub use stripes::{IoServerSpace, Striping};

use super::counters::ClientWatch;
use super::data::{Mover, States, Target};
use super::error::{LastError, OperationError};
use super::fences::Epoch;
use super::leases::{AskedAt, Lease, LeaseKey, Leases};
use super::locks::ClientLocks;
use super::policy::TransferPolicy;
use super::references::{Optimistic, ReadOptions, References};
use super::servers::{Addresses, ManagerFinder, Peer, Resolver, Servers};
use super::siblings::Siblings;
use super::slots::SessionSlots;
use super::verifier::Source;
use crate::convert::{caller_of, request_of, vfs_status_of, whole_of};
use crate::layout::{own_len_of, placements, size_from_object};
use crate::limits::{
    ATTEMPT_PAUSE, AWAY_PATIENCE, CAPABILITIES_MAX, FULL_PATIENCE, LOG_INTERVAL,
    OPERATION_DEADLINE, OVERDUE_MAX, PRIMARY_SILENT_AFTER,
};
use crate::link::{Identity, LinkError, Message};
use crate::secret::Secret;
use attribute_references::ReferencedAttributes;
use gannet_fabric::Provider;
use gannet_meta::limits::FILE_SIZE_MAX;
use gannet_runtime::{Handle, Instant, LogLimit, sleep, timeout};
use gannet_vfs::limits::NAME_MAX;
use gannet_vfs::{Attributes, Credentials, FileHandle, FileKind, Status, Verifier};
use gannet_wire::volume::{
    Call, Capability, Class, DONE_UNCONFIRMED, FileId, Found, FoundFiles, Granted, LayoutRecord,
    Placement, Shape, SlotSequence, VolumeRecord,
};
use gannet_wire::xdr::{Decode, Decoder, from_bytes};
use guards::{ChangeGuard, ranges_of};
use object_states::ObjectStates;
use prefetch::PrefetchQueue;
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// A client of a volume on one core.
pub struct VolumeFs {
    runtime: Handle,
    servers: Rc<Servers>,
    mover: Mover,
    /// The file system identity of the volume, in handles and attributes.
    fsid: u64,
    /// Handles are signed with it.
    key: Secret,
    slots: SessionSlots,
    leases: Rc<Leases>,
    references: Rc<References>,
    prefetches: Rc<PrefetchQueue>,
    locks: Rc<ClientLocks>,
    /// The attributes of files when they were last asked for, as hints.
    seen: RefCell<HashMap<FileId, Attributes>>,
    referenced: ReferencedAttributes,
    object_states: Rc<ObjectStates>,
    /// Whether replies to changes and reads carry the attributes after them.
    attributes: bool,
    /// How long an operation is tried.
    patience: Duration,
    /// How long a change is tried that may be done.
    change_patience: Duration,
    /// How many changes are tried beyond `patience`.
    overdue: Cell<usize>,
    last_error: LastError,
    /// Limits log lines about usages that leave a server out.
    usage_log: LogLimit,
    /// Since when writes find a disk full; `None` after one that found room.
    full_since: Cell<Option<Instant>>,
    siblings: Arc<Siblings>,
}

/// A change that is tried beyond the patience of its client. Its drop makes room for another one.
struct Overdue<'a>(&'a Cell<usize>);

impl<'a> Overdue<'a> {
    fn of(count: &'a Cell<usize>) -> Overdue<'a> {
        count.set(count.get() + 1);
        Overdue(count)
    }
}

impl Drop for Overdue<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl VolumeFs {
    /// A client of the volume that `identity` names, whose servers are at `addresses`. It connects when it must. The
    /// clients of one server's cores share `siblings`.
    pub fn new(
        runtime: Handle,
        provider: Rc<dyn Provider>,
        identity: Identity,
        addresses: Addresses,
        siblings: Arc<Siblings>,
    ) -> VolumeFs {
        let fsid = identity.volume.first_chunk().copied().unwrap_or_default();
        let references = References::new(Handle::clone(&runtime), ReadOptions::default());
        let mover = Mover::new(provider.domain(), TransferPolicy::default())
            .with_references(Rc::clone(&references));
        let key = identity.key.now();
        let servers = Servers::new(Handle::clone(&runtime), provider, identity, addresses);
        let client = u128::from(runtime.random()) << 64 | u128::from(runtime.random());
        VolumeFs {
            mover,
            slots: SessionSlots::new(client.to_be_bytes()),
            references,
            prefetches: Rc::default(),
            leases: Leases::new(Handle::clone(&runtime), Rc::clone(&servers)),
            locks: ClientLocks::new(Handle::clone(&runtime), Rc::clone(&servers)),
            servers,
            fsid: u64::from_be_bytes(fsid),
            key,
            seen: RefCell::default(),
            referenced: ReferencedAttributes::new(true),
            object_states: ObjectStates::new(Handle::clone(&runtime)),
            attributes: true,
            patience: OPERATION_DEADLINE,
            change_patience: Duration::ZERO,
            overdue: Cell::new(0),
            last_error: LastError::default(),
            usage_log: LogLimit::new(LOG_INTERVAL),
            full_since: Cell::new(None),
            siblings,
            runtime,
        }
    }

    /// A look at the counters of this client, which must not be changed by an option afterwards.
    pub fn watch(&self) -> ClientWatch {
        ClientWatch {
            references: Rc::clone(&self.references),
            attributes: Rc::clone(&self.referenced.counters),
            memory: self.mover.cache().shared_counters(),
            copied: self.mover.shared_copied_bytes(),
            servers: Rc::clone(&self.servers),
        }
    }

    /// The same, but changes and reads are answered without asking for attributes, for callers that have no use for
    /// them: those of changes are missing, and those of reads may be old.
    #[must_use]
    pub fn without_attributes(self) -> VolumeFs {
        VolumeFs {
            attributes: false,
            ..self
        }
    }

    /// The same, with file handles that are good for as long as `key` is, not the identity's.
    #[must_use]
    pub fn signing_handles_with(self, key: Secret) -> VolumeFs {
        VolumeFs { key, ..self }
    }

    /// The same, moving bytes as `policy` says.
    #[must_use]
    pub fn with_policy(self, policy: TransferPolicy) -> VolumeFs {
        let mover = self.mover.with_policy(policy);
        VolumeFs { mover, ..self }
    }

    /// The same, using memory for reads as `options` say.
    #[must_use]
    pub fn with_reads(self, options: ReadOptions) -> VolumeFs {
        let references = References::new(Handle::clone(&self.runtime), options);
        let mover = self.mover.with_references(Rc::clone(&references));
        let volume = VolumeFs {
            references,
            mover,
            ..self
        };
        volume.with_attribute_references(options.optimistic != Optimistic::Off)
    }

    /// The same, with hosts that are given by name found by `resolver`.
    #[must_use]
    pub fn resolving(self, resolver: Resolver) -> VolumeFs {
        self.servers.resolve_with(resolver);
        self
    }

    /// The same, with the managers where `finder` says, again for each connection.
    #[must_use]
    pub fn finding_managers(self, finder: ManagerFinder) -> VolumeFs {
        self.servers.find_managers_with(finder);
        self
    }

    /// The same, with a change that a manager may have done tried for so long: a caller who sends it again as another
    /// change would see that it was done.
    #[must_use]
    pub fn finishing_changes(self, change_patience: Duration) -> VolumeFs {
        VolumeFs {
            change_patience,
            ..self
        }
    }

    /// The same, with operations tried for `patience` over lost connections and servers that are away, and then given
    /// up with `Jukebox`.
    #[must_use]
    pub fn patient(self, patience: Duration) -> VolumeFs {
        self.servers.be_patient(patience);
        VolumeFs { patience, ..self }
    }

    /// Asks the manager once for its record of the volume.
    ///
    /// # Errors
    /// As [`Link::call`](crate::link::Link::call), or `Unreachable` if there is no connection to the manager.
    pub async fn volume(&self) -> Result<VolumeRecord, LinkError> {
        self.servers.ask_manager().await
    }

    fn now(&self) -> Instant {
        self.runtime.now()
    }

    fn handle(&self, id: FileId) -> FileHandle {
        let mut bytes = [0; 24];
        let words = [self.fsid, id.0, self.key.handle_proof(self.fsid, id.0)];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_be_bytes());
        }
        let Some(handle) = FileHandle::new(&bytes) else {
            unreachable!("24 bytes are a handle");
        };
        handle
    }

    fn id(&self, handle: &FileHandle) -> Result<FileId, Status> {
        let mut decoder = Decoder::new(handle.as_bytes());
        let mut word = || decoder.u64().map_err(|_| Status::Badhandle);
        let (fsid, id) = (word()?, FileId(word()?));
        if fsid != self.fsid {
            return Err(Status::Stale);
        }
        // Without the proof, a forged handle would open a file in a directory that its bearer may not search.
        if *handle == self.handle(id) {
            Ok(id)
        } else {
            Err(Status::Badhandle)
        }
    }

    /// Asks the manager, again after each lost reply: its reply cache makes sure that a change is done once.
    async fn ask(&self, caller: &Credentials, call: Call) -> Result<Message, Status> {
        if !call.is_change() {
            return self.ask_guarded(caller, call, None).await;
        }
        // Taken before the slot: a change that waits for its locks holds no slot that others could use.
        let guard = self.lock_ranges(&ranges_of(&call)).await?;
        self.ask_guarded(caller, call, Some(&guard)).await
    }

    /// As [`VolumeFs::ask`], of a change whose ranges are locked, or of a question.
    async fn ask_guarded(
        &self,
        caller: &Credentials,
        call: Call,
        guard: Option<&ChangeGuard>,
    ) -> Result<Message, Status> {
        // The manager could not decode a request with a longer name.
        if call.names().any(|name| name.len() > NAME_MAX) {
            return Err(Status::Nametoolong);
        }
        let began = self.now();
        let held = if call.is_change() {
            let slot = self.slots.take(call.waits_for_servers());
            let slot = timeout(&self.runtime, self.patience, slot).await;
            Some(slot.map_err(|_| {
                self.last_error
                    .note_behind(self.now(), &OperationError::NoSlot)
            })?)
        } else {
            None
        };
        let slot_sequence = held
            .as_ref()
            .map_or(SlotSequence::default(), |held| held.slot_sequence);
        let body = call.to_body(&caller_of(caller), &slot_sequence);
        let request = request_of(caller).filter(|_| call.is_change());
        let (mut may_be_done, mut overdue) = (false, None);
        loop {
            let asked = match self.servers.manager().await {
                Ok(link) => {
                    guard.inspect(|guard| guard.asks_manager());
                    // A manager of an earlier release takes none.
                    let request = request.filter(|_| link.peer_abilities().request_ids);
                    let body = request.map_or(Cow::from(&body), |it| it.behind(&body).into());
                    let asking = link.call(call.operation(), Class::Metadata, &body, &[]);
                    let asked = asking.await;
                    guard.inspect(|guard| match asked {
                        Ok(_) => guard.answered(),
                        Err(_) => guard.failed(),
                    });
                    may_be_done |= asked.is_err() && call.is_change();
                    asked
                }
                Err(error) => Err(error),
            };
            let away = match asked {
                Ok(answer) => match status_of(&answer) {
                    None => return Ok(answer),
                    Some(Status::Jukebox) => {
                        may_be_done |= answer.body() == DONE_UNCONFIRMED;
                        let is_question = !call.is_change();
                        OperationError::ManagerWaits { is_question }
                    }
                    Some(status) => {
                        let refused = OperationError::ManagerRefused(status);
                        return Err(self.last_error.note(self.now(), &refused));
                    }
                },
                Err(error) => OperationError::Manager(error),
            };
            if may_be_done && self.goes_on(began, &mut overdue) {
                match self.last_error.note(self.now(), &away) {
                    Status::Jukebox => sleep(&self.runtime, ATTEMPT_PAUSE).await,
                    status => return Err(status),
                }
            } else {
                self.pause(began, &away).await?;
            }
        }
    }

    /// Whether a change that began at `began` and may be done is tried on, `overdue` beyond the patience for others.
    fn goes_on<'a>(&'a self, began: Instant, overdue: &mut Option<Overdue<'a>>) -> bool {
        let now = self.now();
        let is_late = now >= began + self.patience;
        if is_late && overdue.is_none() && self.overdue.get() < OVERDUE_MAX {
            *overdue = Some(Overdue::of(&self.overdue));
        }
        now < began + self.change_patience && (!is_late || overdue.is_some())
    }

    /// Waits before the next attempt of an operation that began at `began`, or ends it.
    ///
    /// # Errors
    /// The status of the operation, if the error is final or the deadline is over.
    async fn pause(&self, began: Instant, failed: &OperationError) -> Result<(), Status> {
        if let Err(status) = self.may_try_again(began, failed) {
            // A server's refusal is the caller's to report; other errors need a look at the servers.
            if status == Status::Jukebox || !matches!(failed, OperationError::Refused { .. }) {
                tracing::warn!(error = %failed, "a server of the volume does not do what it is asked");
            }
            return Err(status);
        }
        sleep(&self.runtime, ATTEMPT_PAUSE).await;
        Ok(())
    }

    /// Notes the error of an attempt of an operation that began at `began`.
    ///
    /// # Errors
    /// As [`VolumeFs::pause`]: there must be no further attempt.
    fn may_try_again(&self, began: Instant, failed: &OperationError) -> Result<(), Status> {
        let patience = if self.is_of_dead_server(failed) {
            self.patience.min(AWAY_PATIENCE)
        } else {
            self.patience
        };
        match self.last_error.note(self.now(), failed) {
            Status::Jukebox if self.now() < began + patience => Ok(()),
            Status::Nospc if self.may_get_space() => Ok(()),
            status => Err(status),
        }
    }

    /// Whether a disk that is full may have room soon. Only for [`FULL_PATIENCE`] since it was found full: a disk that
    /// stays full must not make each write slow.
    fn may_get_space(&self) -> bool {
        let now = self.now();
        let since = self.full_since.get().unwrap_or(now);
        self.full_since.set(Some(since));
        now < since + FULL_PATIENCE
    }

    /// Whether an attempt failed because of a server that counts as dead: others have waited long enough for it.
    fn is_of_dead_server(&self, failed: &OperationError) -> bool {
        match failed {
            OperationError::Manager(_) => self.servers.is_dead(Peer::Manager),
            OperationError::IoServer { number, .. } => {
                self.servers.is_dead(Peer::IoServer(*number))
            }
            // The manager does not say which I/O server it waits for. One that this client finds dead will be it.
            OperationError::ManagerWaits { is_question: true } => {
                self.servers.is_any_io_server_dead()
            }
            _ => false,
        }
    }

    /// Asks the manager for something whose reply carries files.
    async fn find<const N: usize>(
        &self,
        caller: &Credentials,
        call: Call,
    ) -> Result<[Found; N], Status> {
        found_in(&self.ask(caller, call).await?)
    }

    /// A right of `caller`'s to a file's objects.
    async fn lease(&self, caller: &Credentials, id: FileId, rights: u32) -> Result<Lease, Status> {
        // A truncation cannot harm what is read: a fence is for writes alone.
        let fence = if rights & Capability::WRITE == 0 {
            Epoch::default()
        } else {
            self.siblings.fences.fence(id)
        };
        let key = LeaseKey::new(id, caller, rights);
        if let Some(lease) = self.leases.get(&key, fence) {
            return Ok(lease);
        }
        let asked = self.asked_at();
        let answer = self.ask(caller, Call::Layout { file: id, rights }).await?;
        let granted: Granted = self.granted_in(&answer)?;
        Ok(self.leases.keep(key, granted, asked))
    }

    /// The time and epoch of a request for a lease. They are taken before the request is sent: taken later, a lease
    /// would outlive its grant at the manager, or seem newer than a fence that was raised meanwhile.
    fn asked_at(&self) -> AskedAt {
        AskedAt {
            time: self.now(),
            epoch: self.siblings.fences.epoch(),
        }
    }

    /// Decodes the grant in a reply of the manager.
    fn granted_in<T: for<'a> Decode<'a>>(&self, answer: &Message) -> Result<T, Status> {
        from_bytes(answer.body()).map_err(|error| {
            self.last_error
                .note(self.now(), &OperationError::Grant(error))
        })
    }

    /// The servers of a file that have bytes of a shape: others may be away.
    async fn targets_of(
        &self,
        layout: &LayoutRecord,
        file: &Shape,
    ) -> Result<Vec<Target>, OperationError> {
        // It ends at the first piece: shapes may have a million.
        let has_bytes = |_, placement| file.pieces().any(|piece| own_len_of(piece, placement) > 0);
        self.targets(layout, has_bytes).await
    }

    /// The servers of those groups of a file that are needed.
    async fn targets(
        &self,
        layout: &LayoutRecord,
        is_needed: impl Fn(u32, Placement) -> bool,
    ) -> Result<Vec<Target>, OperationError> {
        let groups = self.servers.groups_of(layout).await;
        let groups = groups.map_err(OperationError::Manager)?;
        let mut targets = Vec::with_capacity(layout.groups.len());
        let needed = || placements(layout).filter(|(group, at)| is_needed(*group, *at));
        let (asked, mut has_begun) = (self.now(), false);
        for (group, placement) in needed() {
            let number = groups.primary(group);
            let number = number.ok_or(OperationError::NoPrimary(group))?;
            let link = match self.servers.connected(Peer::IoServer(number)) {
                Some(link) => link,
                None => {
                    if !has_begun {
                        let servers = needed().filter_map(|(group, _)| groups.primary(group));
                        self.servers.begin_io_servers(servers, asked);
                        has_begun = true;
                    }
                    let link = self.servers.io_server_since(number, asked).await;
                    link.map_err(|error| OperationError::IoServer { number, error })?
                }
            };
            targets.push(Target {
                server: number,
                group,
                link,
                placement,
            });
        }
        Ok(targets)
    }

    /// Awaits what these servers are asked for. If it takes long, the manager is asked whether they are still the
    /// primaries of their groups.
    async fn while_primaries<T>(
        &self,
        targets: &[Target],
        mut work: Pin<&mut impl Future<Output = T>>,
    ) -> T {
        let groups = self.servers.known_groups();
        let of_several = targets.iter().filter(|target| {
            let record = groups.get(target.group);
            record.is_some_and(|record| record.members.len() > 1)
        });
        let of_several: Vec<_> = of_several
            .map(|target| (target.group, target.server, target.link.clone()))
            .collect();
        if of_several.is_empty() {
            return work.await;
        }
        loop {
            match timeout(&self.runtime, PRIMARY_SILENT_AFTER, work.as_mut()).await {
                Ok(done) => return done,
                Err(_) => {
                    let (servers, of_several) = (Rc::clone(&self.servers), of_several.clone());
                    let asking = async move { servers.end_replaced(&of_several).await };
                    self.runtime.spawn("silent I/O server", Box::pin(asking));
                }
            }
        }
    }

    /// As [`VolumeFs::pause`], after I/O servers have failed with a file.
    async fn after(
        &self,
        id: FileId,
        began: Instant,
        failed: &OperationError,
    ) -> Result<(), Status> {
        if let OperationError::Refused {
            status: Status::Stale,
            ..
        } = failed
        {
            self.leases.drop_all(id);
            self.servers.doubt_groups();
        } else {
            self.servers.doubt_primaries();
        }
        self.pause(began, failed).await
    }

    /// Notes the servers' verifiers; gives the verifier of the operation with these replies.
    fn note_verifiers(&self, layout: &LayoutRecord, states: &States) -> Verifier {
        let groups = self.servers.known_groups();
        let said = states.iter().filter_map(|(index, state)| {
            let number = layout.groups.get(*index as usize)?;
            let source = match &groups.get(*number)?.members[..] {
                [only] => Source::Server(only.server),
                _ => Source::Group(*number),
            };
            Some((source, state.verifier))
        });
        self.siblings.verifier.note(said, || self.runtime.random())
    }

    /// Attributes of a file.
    ///
    /// # Errors
    /// `Jukebox` when an I/O server is away that knows some of them.
    fn all_attributes_of(&self, found: &Found) -> Result<Attributes, Status> {
        let away = || {
            self.last_error.note(
                self.now(),
                &OperationError::ManagerWaits { is_question: true },
            )
        };
        self.attributes_of(found).ok_or_else(away)
    }

    /// Attributes of a file; `None` when an I/O server is away that knows some of them.
    fn attributes_of(&self, found: &Found) -> Option<Attributes> {
        let attributes = whole_of(found, self.fsid)?;
        self.note_seen(&attributes);
        Some(attributes)
    }

    /// Notes the attributes of a regular file.
    fn note_seen(&self, attributes: &Attributes) {
        if attributes.kind == FileKind::Regular {
            let mut seen = self.seen.borrow_mut();
            if seen.len() >= CAPABILITIES_MAX {
                seen.clear();
            }
            seen.insert(FileId(attributes.fileid), *attributes);
        }
    }
}

/// The least size of a file, by the states of some of its objects.
fn size_of(layout: &LayoutRecord, states: &States) -> u64 {
    let sizes = placements(layout).filter_map(|(_, placement)| {
        let mut said = states.iter();
        let (_, state) = said.find(|(index, _)| *index == placement.index)?;
        Some(size_from_object(state.size, placement).unwrap_or(FILE_SIZE_MAX))
    });
    sizes.max().unwrap_or(0)
}

/// Decodes the files of a reply.
fn found_in<const N: usize>(answer: &Message) -> Result<[Found; N], Status> {
    let found: Option<FoundFiles> = from_bytes(answer.body()).ok();
    let found = found.and_then(|found| found.files.try_into().ok());
    found.ok_or(Status::Serverfault)
}

pub(super) fn status_of(answer: &Message) -> Option<Status> {
    answer.header.status.err().map(vfs_status_of)
}

fn shape(offset: u64, len: u32) -> Result<Shape, Status> {
    Shape::contiguous(offset, len).map_err(|_| Status::Fbig)
}
