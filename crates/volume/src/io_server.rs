//! An I/O server: the objects of a volume's files, each an ordinary file of a local file system.
//!
//! The bytes of a READ leave from the page cache by RDMA Write. Those of a WRITE are fetched by RDMA Read, a piece
//! ahead of the disk.

mod client_driven;
mod exports;
mod fetches;
mod peer_memory;
mod read;
mod replication;
mod scheduler;
mod walk;
mod write;

use crate::convert::status_of;
use crate::limits::{
    COPY_SLABS_MAX, GRANT_AGE, RANGE_STEPS, READ_PIECE_LEN, READS_UNDER_WAY_MAX, SLAB_LEN_MAX,
    SLAB_LEN_MIN, SLABS_MAX, SMALL_MAX, SMALL_UNDER_WAY_MAX, WRITE_PIECE_LEN, WRITES_UNDER_WAY_MAX,
};
use crate::link::{Answer, Handler, Link, Message};
use crate::number_lease::NumberLease;
use crate::secret::ServerKeys;
use exports::Exports;
use fetches::Fetches;
use gannet_objects::{FolderStore, ObjectWatcher, Objects, Peers, Rights, Room};
use gannet_runtime::{Handle, IdleWatch, LocalFuture, Slabs, all};
use gannet_vfs::{Status, Vfs};
use gannet_wire::volume::{
    Capability, Class, FOLDERS, ObjectList, ObjectPage, ObjectRange, ObjectStates, Operation,
    PAGE_OBJECTS_MAX, Renewed, Role, StateAnswer, ToldGroups, Transfer, UNIT_MAX, UNIT_MIN,
};
use gannet_wire::xdr::{Decode, Encoder, from_bytes, to_bytes};
use scheduler::{FlowKey, Scheduler};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use walk::{Pace, Walks};

pub use gannet_objects::{
    DiskCounters, GROUPS_FILE, INTENTS_FILE, OWNER_FILE, TERM_FILE, object_at,
};

/// Serves objects out of a store of its own, all of which it may change.
pub struct IoServer<V: Vfs> {
    runtime: Handle,
    objects: Rc<Objects<FolderStore<V>>>,
    lease: RefCell<Rc<NumberLease>>,
    policy: ServerPolicy,
    exports: Rc<Exports>,
    /// Memory for bytes on their way to the disk.
    slabs: Rc<Slabs>,
    /// Gives that memory back when it is idle.
    slabs_idle: IdleWatch,
    /// Memory for changes that primaries pass on. Clients never have any of it: a server that waits for this one would
    /// else wait for itself.
    copy_slabs: Rc<Slabs>,
    copy_slabs_idle: IdleWatch,
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

impl<V: Vfs> IoServer<V> {
    /// I/O server `number` of a volume. It serves from `store`, which nothing else changes, and which gives attributes
    /// with the data of a read.
    pub fn new(runtime: Handle, store: V, number: u32, keys: ServerKeys) -> Rc<IoServer<V>> {
        IoServer::with_policy(runtime, store, number, keys, ServerPolicy::default())
    }

    /// As [`IoServer::new`], moving bytes as `policy` says.
    pub fn with_policy(
        runtime: Handle,
        store: V,
        number: u32,
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
        let exports = Rc::new(Exports::new(Handle::clone(&runtime)));
        let watcher = Rc::clone(&exports) as Rc<dyn ObjectWatcher>;
        let folder = FolderStore::new(Handle::clone(&runtime), store, number);
        let clock = Handle::clone(&runtime);
        let rights = Rights {
            allow: Box::new(move |capability: &Capability, rights| {
                keys.allows(capability, rights, clock.wall_clock())
            }),
            age_max: GRANT_AGE,
        };
        let runtime_of_objects = Handle::clone(&runtime);
        let objects = Objects::new(runtime_of_objects, folder, number, rights, watcher);
        Rc::new(IoServer {
            objects,
            lease: RefCell::new(NumberLease::unbounded(Handle::clone(&runtime))),
            policy,
            slabs: Rc::new(Slabs::new(SLAB_LEN_MIN, SLAB_LEN_MAX, SLABS_MAX)),
            slabs_idle: IdleWatch::default(),
            copy_slabs: Rc::new(Slabs::new(SLAB_LEN_MIN, SLAB_LEN_MAX, COPY_SLABS_MAX)),
            copy_slabs_idle: IdleWatch::default(),
            fetches: Fetches::new(Handle::clone(&runtime)),
            reads: scheduler(u64::from(policy.read_piece), READS_UNDER_WAY_MAX),
            writes: scheduler(u64::from(policy.write_piece), WRITES_UNDER_WAY_MAX),
            small: scheduler(SMALL_MAX, SMALL_UNDER_WAY_MAX),
            walks: Walks::new(Handle::clone(&runtime)),
            exports,
            runtime,
        })
    }

    /// The server had another disk, which was lost. A missing object of a file with a number below `below` may have
    /// been on it, so it is not reported as empty but as [`Status::Nxio`], until the file is cut to nothing.
    #[must_use]
    pub fn having_lost(self: Rc<Self>, below: u64) -> Rc<IoServer<V>> {
        self.objects.note_lost(below);
        self
    }

    /// There is no manager that tells it groups: the one with its own number is its own.
    #[must_use]
    pub fn unmanaged(self: Rc<Self>) -> Rc<IoServer<V>> {
        self.objects.be_unmanaged();
        self
    }

    /// Counts the failures of its disk in `counters`, which it may share with other servers.
    #[must_use]
    pub fn counting(self: Rc<Self>, counters: Arc<DiskCounters>) -> Rc<IoServer<V>> {
        self.objects.count_in(counters);
        self
    }

    /// Reaches the other servers of its groups through `peers`.
    #[must_use]
    pub fn reaching(self: Rc<Self>, peers: Rc<dyn Peers>) -> Rc<IoServer<V>> {
        self.objects.reach_peers(peers);
        self
    }

    /// Serves clients and other I/O servers only while `lease` lasts.
    #[must_use]
    pub fn leased(self: Rc<Self>, lease: Rc<NumberLease>) -> Rc<IoServer<V>> {
        self.lease.replace(lease);
        self
    }

    fn may_answer(&self, link: &Link) -> bool {
        self.lease.borrow().admits(link.peer())
    }

    /// Its objects.
    pub(crate) fn objects(&self) -> Rc<Objects<FolderStore<V>>> {
        Rc::clone(&self.objects)
    }

    /// The states of objects, for the manager, which needs no capability.
    async fn states(&self, body: &[u8]) -> Result<Vec<u8>, Status> {
        let ObjectList { objects } = parse(body)?;
        let states = objects.into_iter();
        let states = all(states.map(|name| Box::pin(self.objects.state_of_named(name)))).await;
        let nothing = self.objects.nothing();
        let states = states.into_iter().map(|state| StateAnswer {
            outcome: state
                .as_ref()
                .map(|_| ())
                .map_err(|status| status_of(*status)),
            state: state.unwrap_or(nothing),
        });
        Ok(to_bytes(&ObjectStates {
            states: states.collect(),
        }))
    }

    async fn commit(&self, body: &[u8]) -> Result<Vec<u8>, Status> {
        let range: ObjectRange = parse(body)?;
        Ok(to_bytes(&self.objects.commit(&range).await?))
    }

    async fn truncate(&self, body: &[u8]) -> Result<Vec<u8>, Status> {
        let range: ObjectRange = parse(body)?;
        Ok(to_bytes(&self.objects.truncate(&range).await?))
    }

    async fn unlink(&self, body: &[u8]) -> Result<Vec<u8>, Status> {
        let range: ObjectRange = parse(body)?;
        self.objects.unlink(&range).await?;
        Ok(Vec::new())
    }

    fn revoke(&self, body: &[u8]) -> Result<Vec<u8>, Status> {
        let range: ObjectRange = parse(body)?;
        self.objects.revoke(&range.capability, range.size)?;
        Ok(Vec::new())
    }

    fn renew(&self, body: &[u8]) -> Result<Vec<u8>, Status> {
        let groups = self.objects.renew(&parse(body)?);
        Ok(to_bytes(&Renewed { groups }))
    }

    async fn term(&self, body: &[u8]) -> Result<Vec<u8>, Status> {
        Ok(to_bytes(&self.objects.term(parse(body)?).await?))
    }

    async fn groups(&self, body: &[u8]) -> Result<Vec<u8>, Status> {
        let told: ToldGroups = parse(body)?;
        // Before records that count at once.
        self.objects.need_copies(told.min_copies);
        self.objects.learn_groups(told.memberships).await?;
        Ok(Vec::new())
    }

    /// A page of the objects, folder by folder. Objects that come and go meanwhile may or may not be on it.
    async fn list(&self, link: &Link, body: &[u8]) -> Result<Vec<u8>, Status> {
        let pace = Pace::new(&self.walks, link);
        let mut page = ObjectPage {
            next: parse(body)?,
            foreign_files: 0,
            lost_below: self.objects.lost_below(),
            objects: Vec::new(),
        };
        while page.next.folder < FOLDERS && page.objects.len() < PAGE_OBJECTS_MAX {
            // All may be empty, and each is one lookup in the store.
            pace.steps(RANGE_STEPS).await;
            self.objects.list(&mut page).await?;
        }
        Ok(to_bytes(&page))
    }

    async fn usage(&self) -> Result<Vec<u8>, Status> {
        let Room { usage, fsid } = self.objects.usage().await?;
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
        self.objects.term_number()
    }

    fn answer(self: Rc<Self>, link: Link, request: Message) -> LocalFuture<Answer> {
        Box::pin(async move {
            let unleased = Answer::of(Err(status_of(Status::Jukebox)));
            if !self.may_answer(&link) {
                return unleased;
            }
            let answer = self.answer_request(link.clone(), request).await;
            // Meanwhile another process may have the number, and other bytes.
            if !self.may_answer(&link) {
                return unleased;
            }
            if let Err(status) = answer.status {
                self.objects.count_failure(status);
            }
            answer
        })
    }
}

impl<V: Vfs> IoServer<V> {
    async fn answer_request(self: &Rc<Self>, link: Link, request: Message) -> Answer {
        let operation = request.header.operation;
        let from_manager = link.peer() == Role::Manager;
        if let Err(status) = self.objects.load_notes().await {
            return Answer::of(Err(status_of(status)));
        }
        // A manager that was paused may not know yet that another has taken over: its requests do not count.
        let is_replaced = request.header.term < self.objects.term_number();
        if from_manager && operation != Operation::Term && is_replaced {
            return Answer::of(Err(status_of(Status::Stale)));
        }
        if matches!(operation, Operation::Read | Operation::Write) {
            self.objects.note_request();
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
            Operation::Groups if from_manager => self.groups(request.body()).await,
            Operation::Replicate if link.peer() == Role::IoServer => {
                self.replicate(&link, request).await
            }
            Operation::Renew if link.peer() == Role::IoServer => self.renew(request.body()),
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
