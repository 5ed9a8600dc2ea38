//! An I/O server: the objects of a volume's files, each an ordinary file of a local file system.
//!
//! The bytes of a READ leave from the page cache by RDMA Write. Those of a WRITE are fetched by RDMA Read, a piece
//! ahead of the disk.

mod client_driven;
mod exports;
mod fetches;
mod list;
mod peer_memory;
mod range_lock;
mod read;
mod revocations;
mod scheduler;
mod term;
mod tombstones;
mod walk;
mod write;

use crate::convert::{status_of, timestamp_of};
use crate::limits::{
    OBJECTS_MAX, READ_PIECE_LEN, READS_UNDER_WAY_MAX, SLAB_LEN_MAX, SLAB_LEN_MIN, SLABS_MAX,
    SMALL_MAX, SMALL_UNDER_WAY_MAX, WRITE_PIECE_LEN, WRITES_UNDER_WAY_MAX,
};
use crate::link::{Answer, Handler, Link, Message};
use crate::secret::ServerKeys;
use exports::Exports;
use fetches::Fetches;
use gannet_metrics::{Counter, Exposition, Family, Latency, Source};
use gannet_runtime::{Handle, IdleWatch, LocalFuture, Slabs, all};
use gannet_vfs::{
    Attributes, CreateMode, Credentials, FileHandle, FileKind, SetAttributes, SetTime, Status, Vfs,
};
use gannet_wire::volume::{
    Capability, Class, ObjectList, ObjectRange, ObjectState, ObjectStates, Operation, Role,
    StateAnswer, Status as WireStatus, Timestamp, Transfer, UNIT_MAX, UNIT_MIN,
};
use gannet_wire::xdr::{Decode, Encoder, from_bytes, to_bytes};
use range_lock::RangeLocks;
use revocations::Revocations;
use scheduler::{FlowKey, Scheduler};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use term::Terms;
use tombstones::Tombstones;
use walk::Walks;

pub use term::TERM_FILE;

/// The file beside the objects' folders that says which volume and server they belong to.
pub const OWNER_FILE: &str = "io-server.toml";

/// Serves objects out of a store of its own, all of which it may change.
pub struct IoServer<V: Vfs> {
    runtime: Handle,
    store: V,
    keys: ServerKeys,
    /// Handles of recently used objects, by file.
    objects: RefCell<HashMap<u64, FileHandle>>,
    policy: ServerPolicy,
    exports: Exports,
    revocations: RefCell<Revocations>,
    tombstones: RefCell<Tombstones>,
    range_locks: RangeLocks,
    terms: Terms,
    /// Files with numbers below this may have had an object on an earlier disk, which was lost.
    lost_below: Cell<u64>,
    /// The failures of the disk, for other threads.
    disk: RefCell<Arc<DiskCounters>>,
    /// Memory for bytes on their way to the disk.
    slabs: Rc<Slabs>,
    /// Gives that memory back when it is idle.
    slabs_idle: IdleWatch,
    fetches: Fetches,
    /// The scheduler of long READs.
    reads: Rc<Scheduler>,
    /// The scheduler of long WRITEs.
    writes: Rc<Scheduler>,
    /// The scheduler of short WRITEs whose bytes must be fetched.
    small: Rc<Scheduler>,
    /// The walks over requests with many pieces.
    walks: Rc<Walks>,
}

/// The failures and the times of the disks of I/O servers.
#[derive(Debug, Default)]
pub struct DiskCounters {
    /// Requests that failed because the disk did.
    pub errors: Counter,
    /// Requests that failed for want of room.
    pub full: Counter,
    /// Reads of bytes that were not in memory.
    pub reads: Latency,
    /// Writes, of which most end in memory.
    pub writes: Latency,
    /// Syncs of objects (fdatasync), for COMMITs and other changes that must be durable.
    pub syncs: Latency,
}

impl DiskCounters {
    fn count(&self, status: WireStatus) {
        match status {
            WireStatus::Io => self.errors.add(1),
            WireStatus::Nospc => self.full.add(1),
            _ => {}
        }
    }
}

impl Source for DiskCounters {
    fn collect(&self, into: &mut Exposition) {
        const ERRORS: Family = Family::counter(
            "gannet_disk_errors",
            "Requests that I/O servers of this process failed because their disk did.",
        );
        const FULL: Family = Family::counter(
            "gannet_disk_full_errors",
            "Requests that I/O servers of this process failed for want of room.",
        );
        into.counter(&ERRORS, &[], &self.errors);
        const READS: Family = Family::latency(
            "gannet_disk_read_seconds",
            "Time of reads of I/O servers whose bytes were not in memory.",
        );
        const WRITES: Family = Family::latency(
            "gannet_disk_write_seconds",
            "Time of writes of I/O servers, of which most end in memory.",
        );
        const SYNCS: Family = Family::latency(
            "gannet_disk_sync_seconds",
            "Time of syncs of I/O servers' objects.",
        );
        into.counter(&FULL, &[], &self.full);
        into.whole_latency(&READS, &[], &self.reads);
        into.whole_latency(&WRITES, &[], &self.writes);
        into.whole_latency(&SYNCS, &[], &self.syncs);
    }
}

/// The lengths of the pieces in which an I/O server moves long transfers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerPolicy {
    /// Bytes of a READ that leave by one permit; at least 1.
    pub read_piece: u32,
    /// Bytes of a WRITE that are fetched while as many before them go to the disk; from 1 to 2 MiB.
    pub write_piece: u32,
}

impl Default for ServerPolicy {
    fn default() -> ServerPolicy {
        ServerPolicy {
            read_piece: READ_PIECE_LEN,
            write_piece: WRITE_PIECE_LEN,
        }
    }
}

/// The class of a transfer, by its length: a client that calls a long one short would pass others by.
fn class_of(said: Class, len: u64) -> Class {
    if len <= SMALL_MAX {
        said.max(Class::Small)
    } else {
        said.max(Class::Bulk)
    }
}

/// The flow of a connection's requests of this class.
fn flow_of(link: &Link, class: Class) -> FlowKey {
    FlowKey {
        connection: link.endpoint().id(),
        class,
    }
}

/// The credentials of the server in its store, all of which is its own.
fn own() -> Credentials {
    Credentials::new(0, 0, &[])
}

impl<V: Vfs> IoServer<V> {
    /// Serves from `store`, which nothing else changes, and which gives attributes with the data of a read.
    pub fn new(runtime: Handle, store: V, keys: ServerKeys) -> Rc<IoServer<V>> {
        IoServer::with_policy(runtime, store, keys, ServerPolicy::default())
    }

    /// As [`IoServer::new`], moving bytes as `policy` says.
    pub fn with_policy(
        runtime: Handle,
        store: V,
        keys: ServerKeys,
        policy: ServerPolicy,
    ) -> Rc<IoServer<V>> {
        let policy = ServerPolicy {
            read_piece: policy.read_piece.max(1),
            write_piece: policy.write_piece.clamp(1, SLAB_LEN_MAX as u32),
        };
        let scheduler = |quantum: u64, bytes_max: u64| {
            let bytes_max = bytes_max.max(4 * quantum);
            Scheduler::new(Handle::clone(&runtime), quantum, bytes_max)
        };
        Rc::new(IoServer {
            policy,
            slabs: Rc::new(Slabs::new(SLAB_LEN_MIN, SLAB_LEN_MAX, SLABS_MAX)),
            slabs_idle: IdleWatch::default(),
            fetches: Fetches::new(Handle::clone(&runtime)),
            reads: scheduler(u64::from(policy.read_piece), READS_UNDER_WAY_MAX),
            writes: scheduler(u64::from(policy.write_piece), WRITES_UNDER_WAY_MAX),
            small: scheduler(SMALL_MAX, SMALL_UNDER_WAY_MAX),
            walks: Walks::new(Handle::clone(&runtime)),
            exports: Exports::new(Handle::clone(&runtime)),
            runtime,
            store,
            keys,
            objects: RefCell::default(),
            tombstones: RefCell::default(),
            revocations: RefCell::default(),
            range_locks: RangeLocks::default(),
            terms: Terms::default(),
            lost_below: Cell::default(),
            disk: RefCell::default(),
        })
    }

    /// The server had another disk, which was lost. A missing object of a file with a number below `below` may have
    /// been on it, so it is not reported as empty but as [`Status::Nxio`], until the file is cut to nothing.
    #[must_use]
    pub fn having_lost(self: Rc<Self>, below: u64) -> Rc<IoServer<V>> {
        self.lost_below.set(below);
        self
    }

    /// Counts the failures of its disk in `counters`, which it may share with other servers.
    #[must_use]
    pub fn counting(self: Rc<Self>, counters: Arc<DiskCounters>) -> Rc<IoServer<V>> {
        self.disk.replace(counters);
        self
    }

    /// Makes an object durable.
    async fn sync(&self, object: &FileHandle) -> Result<(), Status> {
        let begun = self.runtime.now();
        let synced = self.store.commit(&own(), object, 0, 0).await;
        let took = self.runtime.now().duration_since(begun);
        self.disk.borrow().syncs.add(took);
        synced.result.map(|_| ())
    }

    /// Awaits a read of an object, and counts its time if it had to wait for the disk.
    async fn timing_disk<T>(&self, read: impl Future<Output = T>) -> T {
        let begun = self.runtime.now();
        let (mut read, mut waited) = (pin!(read), false);
        let done = poll_fn(|context| {
            let polled = read.as_mut().poll(context);
            waited |= polled.is_pending();
            polled
        });
        let done = done.await;
        if waited {
            let took = self.runtime.now().duration_since(begun);
            self.disk.borrow().reads.add(took);
        }
        done
    }

    /// `Nxio` if the missing object of a file may have been lost.
    fn may_be_lost(&self, file: u64) -> Result<(), Status> {
        if file < self.lost_below.get() {
            Err(Status::Nxio)
        } else {
            Ok(())
        }
    }

    /// Checks a capability to read or write.
    fn check(&self, capability: &Capability, rights: u32) -> Result<(), Status> {
        if self.revocations.borrow().covers(capability) {
            return Err(Status::Stale);
        }
        self.check_genuine(capability, rights)
    }

    /// Checks a capability for what may be done also by one that was revoked: making bytes durable, and the manager's
    /// own requests.
    fn check_genuine(&self, capability: &Capability, rights: u32) -> Result<(), Status> {
        let now = self.runtime.wall_clock();
        if self.keys.allows(capability, rights, now) && self.terms.allows(capability) {
            Ok(())
        } else {
            Err(Status::Stale)
        }
    }

    /// The object of a file, if it has one here.
    async fn find(&self, file: u64) -> Result<Option<FileHandle>, Status> {
        if let Some(handle) = self.objects.borrow().get(&file) {
            return Ok(Some(*handle));
        }
        let ObjectPath { folder, name } = path_of(file);
        let root = self.store.root();
        let folder = match self.store.lookup(&own(), &root, &folder).await.0 {
            Ok((folder, _)) => folder,
            Err(Status::Noent) => return Ok(None),
            Err(status) => return Err(status),
        };
        match self.store.lookup(&own(), &folder, &name).await.0 {
            Ok((handle, found)) if found.kind == FileKind::Regular => {
                self.remember(file, handle);
                Ok(Some(handle))
            }
            Ok((_, found)) => {
                tracing::warn!(
                    file,
                    kind = found.kind.name(),
                    "the name of an object belongs to no regular file"
                );
                Err(Status::Io)
            }
            Err(Status::Noent) => Ok(None),
            Err(status) => Err(status),
        }
    }

    /// Notes that a file has an object: every way to an object leads through here.
    fn remember(&self, file: u64, handle: FileHandle) {
        self.exports.note_found(file);
        let mut objects = self.objects.borrow_mut();
        if objects.len() >= OBJECTS_MAX {
            objects.clear();
        }
        objects.insert(file, handle);
    }

    /// The object of a file; makes it if there is none.
    ///
    /// # Errors
    /// `Stale`: the file was removed. `Nxio`: the object may have been lost. Others: those of the store.
    async fn find_or_make(&self, file: u64) -> Result<FileHandle, Status> {
        if let Some(handle) = self.find(file).await? {
            return Ok(handle);
        }
        // Without the tombstone, a WRITE that was under way when its file was removed would leave an orphan.
        if self
            .tombstones
            .borrow_mut()
            .contains(file, self.runtime.now())
        {
            return Err(Status::Stale);
        }
        self.may_be_lost(file)?;
        self.make(file).await
    }

    /// Makes the object of a file that has none.
    async fn make(&self, file: u64) -> Result<FileHandle, Status> {
        let ObjectPath { folder, name } = path_of(file);
        let root = self.store.root();
        let attributes = SetAttributes {
            mode: Some(0o700),
            ..SetAttributes::default()
        };
        let made = self
            .store
            .make_directory(&own(), &root, &folder, &attributes)
            .await;
        let folder = match made.result {
            Ok(made) => made.handle,
            Err(Status::Exist) => self.store.lookup(&own(), &root, &folder).await.0?.0,
            Err(status) => return Err(status),
        };
        let mode = CreateMode::Unchecked(SetAttributes {
            mode: Some(0o600),
            ..SetAttributes::default()
        });
        let made = self.store.create(&own(), &folder, &name, &mode).await;
        let handle = made.result?.handle;
        self.remember(file, handle);
        Ok(handle)
    }

    fn verifier(&self) -> u64 {
        u64::from_be_bytes(self.store.write_verifier())
    }

    /// The state of a missing object.
    fn nothing(&self) -> ObjectState {
        ObjectState {
            size: 0,
            used: 0,
            modified: Timestamp::default(),
            version: 0,
            verifier: self.verifier(),
        }
    }

    /// The state of an object; a missing one is empty.
    async fn state_of(&self, object: Option<&FileHandle>) -> Result<ObjectState, Status> {
        match object {
            Some(handle) => Ok(self.state(&self.store.attributes(handle).await?)),
            None => Ok(self.nothing()),
        }
    }

    /// The state of an object with these attributes.
    fn state(&self, attributes: &Attributes) -> ObjectState {
        ObjectState {
            size: attributes.size,
            used: attributes.used,
            modified: timestamp_of(attributes.modify_time),
            version: attributes.change_id,
            ..self.nothing()
        }
    }

    /// The states of objects, for the manager, which needs no capability.
    async fn states(&self, body: &[u8]) -> Result<Vec<u8>, Status> {
        let ObjectList { files } = parse(body)?;
        let states = files.into_iter().map(|file| {
            Box::pin(async move {
                let object = self.find(file).await?;
                if object.is_none() {
                    self.may_be_lost(file)?;
                }
                self.state_of(object.as_ref()).await
            })
        });
        let nothing = self.nothing();
        let states = all(states).await.into_iter();
        let states = states.map(|state| match state {
            Ok(state) => StateAnswer {
                outcome: Ok(()),
                state,
            },
            Err(status) => StateAnswer {
                outcome: Err(status_of(status)),
                state: nothing,
            },
        });
        Ok(to_bytes(&ObjectStates {
            states: states.collect(),
        }))
    }

    async fn commit(&self, body: &[u8]) -> Result<Vec<u8>, Status> {
        let ObjectRange { capability, .. } = parse(body)?;
        self.check_genuine(&capability, 0)?;
        let object = self.find(capability.file).await?;
        if let Some(handle) = &object {
            self.sync(handle).await?;
        }
        Ok(to_bytes(&self.state_of(object.as_ref()).await?))
    }

    async fn truncate(&self, body: &[u8]) -> Result<Vec<u8>, Status> {
        let ObjectRange { capability, size } = parse(body)?;
        self.check_genuine(&capability, Capability::WRITE)?;
        let truncation = self.range_locks.truncate(capability.file);
        let guard = truncation.lock().await;
        let object = match size {
            // The lost bytes are cut off: an empty object notes that the file has none here any more.
            0 => match self.find(capability.file).await? {
                None if self.may_be_lost(capability.file).is_err() => {
                    Some(self.make(capability.file).await?)
                }
                found => found,
            },
            _ => Some(self.find_or_make(capability.file).await?),
        };
        if let Some(handle) = &object {
            let change = SetAttributes {
                size: Some(size),
                modify_time: SetTime::Now,
                ..SetAttributes::default()
            };
            let changed = self
                .store
                .set_attributes(&own(), handle, &change, None)
                .await;
            changed.result?;
            drop(guard);
            self.sync(handle).await?;
        }
        Ok(to_bytes(&self.state_of(object.as_ref()).await?))
    }

    async fn unlink(&self, body: &[u8]) -> Result<Vec<u8>, Status> {
        let ObjectRange { capability, .. } = parse(body)?;
        self.check_genuine(&capability, Capability::WRITE)?;
        let ObjectPath { folder, name } = path_of(capability.file);
        self.objects.borrow_mut().remove(&capability.file);
        self.tombstones
            .borrow_mut()
            .insert(capability.file, self.runtime.now());
        self.exports.remove(capability.file);
        let root = self.store.root();
        let found = self.store.lookup(&own(), &root, &folder).await.0;
        let removed = match found {
            Ok((folder, _)) => self.store.remove(&own(), &folder, &name).await.result,
            Err(status) => Err(status),
        };
        match removed {
            Ok(()) | Err(Status::Noent) => Ok(Vec::new()),
            Err(status) => Err(status),
        }
    }

    /// Refuses capabilities of a file from now on that expire up to a time, and ends the references by them.
    fn revoke(&self, body: &[u8]) -> Result<Vec<u8>, Status> {
        let ObjectRange {
            capability,
            size: fence,
        } = parse(body)?;
        self.check_genuine(&capability, Capability::WRITE)?;
        let now = self.runtime.now();
        let mut revocations = self.revocations.borrow_mut();
        revocations.insert(capability.file, fence, now);
        self.exports.remove(capability.file);
        Ok(Vec::new())
    }

    async fn usage(&self) -> Result<Vec<u8>, Status> {
        let root = self.store.root();
        let usage = self.store.usage(&root).await?;
        let fsid = self.store.attributes(&root).await?.fsid;
        let mut body = Vec::new();
        let mut encoder = Encoder::new(&mut body);
        for bytes in [usage.bytes_total, usage.bytes_free, usage.bytes_available] {
            encoder.u64(bytes);
        }
        encoder.u64(fsid);
        Ok(body)
    }
}

impl<V: Vfs> Handler for IoServer<V> {
    fn term(&self) -> u64 {
        self.terms.number()
    }

    fn answer(self: Rc<Self>, link: Link, request: Message) -> LocalFuture<Answer> {
        Box::pin(async move {
            let answer = self.answer_request(link, request).await;
            if let Err(status) = answer.status {
                self.disk.borrow().count(status);
            }
            answer
        })
    }
}

impl<V: Vfs> IoServer<V> {
    async fn answer_request(self: &Rc<Self>, link: Link, request: Message) -> Answer {
        let operation = request.header.operation;
        let from_manager = link.peer() == Role::Manager;
        if !self.terms.is_loaded()
            && let Err(status) = self.load_term().await
        {
            return Answer::of(Err(status_of(status)));
        }
        // A manager that was paused may not know yet that another has taken over: its requests do not count.
        let is_replaced = request.header.term < self.terms.number();
        if from_manager && operation != Operation::Term && is_replaced {
            return Answer::of(Err(status_of(Status::Stale)));
        }
        let done = match operation {
            Operation::Read => {
                let read = self.read(&link, &request).await;
                if let Err(status) = &read {
                    let peer = link.endpoint().peer_address();
                    tracing::debug!(%peer, %status, "a READ is refused");
                }
                return Answer::with_data(read.map_err(status_of));
            }
            Operation::Write => self.write(&link, request).await,
            Operation::States if from_manager => self.states(request.body()).await,
            Operation::Commit => self.commit(request.body()).await,
            Operation::Truncate if from_manager => self.truncate(request.body()).await,
            Operation::Unlink if from_manager => self.unlink(request.body()).await,
            Operation::Revoke if from_manager => self.revoke(request.body()),
            Operation::Term if from_manager => self.term(request.body()).await,
            Operation::Usage => self.usage().await,
            Operation::Objects => self.list(&link, request.body()).await,
            Operation::OpenBuffer => self.open_buffer(&link, request.body()),
            Operation::References => self.references(&link, request.body()).await,
            Operation::StateReferences => self.state_references(&link, request.body()).await,
            Operation::CloseBuffer => self.close_buffer(&link, request.body()).await,
            _ => Err(Status::Notsupp),
        };
        Answer::of(done.map_err(status_of))
    }
}

/// The place of a file's object in the server's store.
struct ObjectPath {
    folder: Vec<u8>,
    name: Vec<u8>,
}

fn path_of(file: u64) -> ObjectPath {
    ObjectPath {
        folder: format!("{:02x}", file & 0xff).into_bytes(),
        name: format!("{file:016x}").into_bytes(),
    }
}

fn parse<'a, T: Decode<'a>>(body: &'a [u8]) -> Result<T, Status> {
    from_bytes(body).map_err(|_| Status::Inval)
}

/// A READ or WRITE, of a file that can be.
///
/// # Errors
/// `Inval`: also for stripes of a length that no volume has. Of single bytes, a short request would have 2^26.
fn parse_transfer(body: &[u8]) -> Result<Transfer, Status> {
    let transfer: Transfer = parse(body)?;
    if (UNIT_MIN..=UNIT_MAX).contains(&transfer.placement.unit) {
        Ok(transfer)
    } else {
        Err(Status::Inval)
    }
}
