//! The manager: names, attributes, layouts, capabilities. It never sees data.
//!
//! Questions are answered from a snapshot of the store. Changes queue up and share transactions: those that came while
//! one was being made durable go into the next (group commit). A change that needs the I/O servers
//! leaves an intent, which runs before the change is answered (truncation) or afterwards (removal), and again after a
//! restart.

mod appends;
mod change;
mod chosen;
mod claims;
mod copies;
mod first_records;
mod group_commit;
mod holders;
mod intents;
mod inventory;
mod lease;
mod listing;
mod locks;
mod managers;
mod number_leases;
mod records;
mod registry;
mod replies;
mod settling;
mod sizes;
mod snapshot;
mod space;
mod stale;
mod state;
mod term;
mod unnamed;
mod wishes;

use crate::layout::GroupsForFiles;
use crate::limits::{ATTRIBUTE_RECORDS_MAX, SESSION_SLOTS};
use crate::link::{Answer, Handler, Link, Message};
use crate::secret::ServerKeys;
use appends::{Append, Appends};
use change::{Task, Work};
use gannet_meta::namespace::{self, Failure, Outcome};
use gannet_meta::{self as meta, MetaStore, View, gives_privileges};
use gannet_runtime::{Handle, LocalFuture, Notify, all, run_blocking};
use gannet_wire::volume::{
    AccessAnswer, AccessMask, Appending, AttributeReferences, BODY_MAX, Body, Call, CallRecord,
    Caller, Capability, DONE_UNCONFIRMED, Entry, FileId, FileKind, Found, FoundFiles, Granted,
    Inode, LayoutRecord, Listed, Operation, PAGE_ENTRIES_MAX, Page, SLOTS_MAX, SetTimestamp,
    SlotSequence, Status, Stripes, Timestamp,
};
use gannet_wire::xdr::to_bytes;
use group_commit::GroupCommit;
use holders::Holders;
use intents::{Intents, ObjectChanger};
use locks::Locks;
use number_leases::NumberLeases;
use records::Records;
use replies::Replies;
use sizes::{Sizes, ToBeCut};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use term::Office;
use wishes::Wishes;

pub use copies::{DescribeGroups, GroupsDescription};
pub use intents::IoServers;
pub use listing::{LeaseKind, LeaseList, LeaseRow};
pub use records::RecordStats;
pub use registry::{ClaimError, Registration, Registry};
pub use snapshot::{CopyError, copy_metadata};
pub use state::{
    DiskSpace, IoServerCondition, IoServerReport, ManagerCondition, VolumeReport, VolumeState,
};
pub use term::TermError;

/// Numbers of I/O servers for a log line: `0, 3`.
fn listed<N: ToString>(numbers: &[N]) -> String {
    let words: Vec<String> = numbers.iter().map(N::to_string).collect();
    words.join(", ")
}

/// The manager of a volume, on one core.
pub struct Manager {
    runtime: Handle,
    store: Arc<dyn MetaStore>,
    keys: ServerKeys,
    groups_for_files: RefCell<Arc<GroupsForFiles>>,
    wishes: Wishes,
    /// Stripes of files whose directories and creators chose none.
    stripes: Stripes,
    servers: Rc<dyn IoServers>,
    office: Rc<Office>,
    state: Arc<VolumeState>,
    objects: Rc<ObjectChanger>,
    sizes: Rc<Sizes>,
    records: Rc<Records>,
    appends: RefCell<Appends>,
    locks: Locks,
    intents: Intents,
    /// I/O servers that have never claimed a disk, by the store.
    new_servers: RefCell<BTreeSet<u32>>,
    number_leases: NumberLeases,
    changes: RefCell<VecDeque<change::Change>>,
    group_commit: RefCell<GroupCommit>,
    /// Wakes the transaction that waits for its group, when the last change of that has come.
    group_complete: Notify,
    committing: Cell<bool>,
    checkpointing: Cell<bool>,
    /// The first server of the next file: files go round over the servers.
    turn: Cell<u32>,
    /// The first term whose settled sizes hold.
    settled_since: Cell<u64>,
    /// Files without a name that clients keep.
    unnamed: RefCell<BTreeSet<FileId>>,
    replies: Replies,
    holders: RefCell<Holders>,
    /// The state has the locks and grants of clients, not only their numbers.
    lists_leases: Cell<bool>,
}

impl Manager {
    /// A manager of the volume in `store`, which is formatted if it is new. It answers while [`Manager::rule`] runs.
    ///
    /// # Errors
    /// `Failure::Store`: the store fails. `Failure::Damaged`: a value of it cannot be decoded.
    pub fn open(
        runtime: Handle,
        store: Arc<dyn MetaStore>,
        keys: ServerKeys,
        servers: Rc<dyn IoServers>,
        stripes: Stripes,
    ) -> Outcome<Rc<Manager>> {
        let (now, random) = (now(&runtime), runtime.random());
        let mut begun = Ok((true, 0));
        store.commit(&mut |transaction| {
            begun = namespace::format(transaction, now)
                .and_then(|()| meta::inode_allocator::begin(transaction, now, random))
                .and_then(|is_right| {
                    Ok((is_right, meta::inode_allocator::next_number(transaction)?))
                });
            Ok(())
        })?;
        let (is_right, next) = begun?;
        if !is_right {
            tracing::warn!(
                "the clock is far behind that of an earlier start: if older metadata is put back, only chance keeps numbers of files apart"
            );
        }
        let open = look(&*store, namespace::intents)?;
        let new_servers = look(&*store, |view| Ok(meta::claims::new_servers(view)?))?;
        let lock_sessions = look(&*store, locks::noted_sessions)?;
        let change = look(&*store, |view| Ok(meta::terms::last_change(view)?))?;
        let unnamed = look(&*store, namespace::unnamed)?;
        let losses = look(&*store, meta::claims::losses)?;
        let state = VolumeState::begin(&store, servers.count(), &losses, runtime.wall_clock());
        let groups = servers.groups();
        let office = Office::new(&runtime, &servers, change, &state);
        let records = Records::new(Handle::clone(&runtime), ATTRIBUTE_RECORDS_MAX);
        let (clock, peers) = (Handle::clone(&runtime), Rc::clone(&servers));
        Ok(Rc::new(Manager {
            groups_for_files: RefCell::new(GroupsForFiles::of(&groups, servers.count()).into()),
            sizes: Sizes::new(
                Handle::clone(&runtime),
                Rc::clone(&servers),
                Rc::clone(&records),
                FileId(next),
            ),
            records,
            objects: ObjectChanger::new(clock, keys, peers, Rc::clone(&office)),
            servers,
            office,
            state,
            appends: RefCell::default(),
            locks: Locks::new(Handle::clone(&runtime), lock_sessions),
            intents: Intents::new(open),
            replies: Replies::new(&look(&*store, meta::reply_cache::all)?),
            number_leases: NumberLeases::load(&*store, runtime.now())?,
            runtime,
            store,
            keys,
            stripes,
            new_servers: RefCell::new(new_servers),
            changes: RefCell::default(),
            group_commit: RefCell::default(),
            group_complete: Notify::default(),
            committing: Cell::new(false),
            checkpointing: Cell::new(false),
            turn: Cell::new(0),
            settled_since: Cell::new(0),
            unnamed: RefCell::new(unnamed),
            holders: RefCell::default(),
            lists_leases: Cell::default(),
            wishes: Wishes::default(),
        }))
    }

    /// The state of the volume, for other threads.
    pub fn state(&self) -> Arc<VolumeState> {
        Arc::clone(&self.state)
    }

    /// From now on [`VolumeState::leases`] has the locks and grants of clients. Only a manager that somebody may watch
    /// lists them: it takes time of its core, and serves nobody else.
    pub fn list_leases(&self) {
        self.lists_leases.set(true);
    }

    /// Notes the leases that clients have now.
    fn count_leases(&self) {
        let held = self.locks.count();
        self.state.lock_clients.set(held.clients as u64);
        self.state.locks.set(held.locks as u64);
        let granted = self.sizes.count_grants();
        self.state.granted_files.set(granted.files as u64);
        let capabilities = self.holders.borrow_mut().count(self.runtime.now());
        self.state.capability_files.set(capabilities as u64);
        if !self.lists_leases.get() {
            return;
        }
        let (mut list, since) = (LeaseList::default(), self.runtime.wall_clock());
        self.locks.list(&mut list, since);
        self.sizes.list(&mut list, granted, since);
        self.state.has_leases(list);
    }

    fn look<T>(&self, see: impl FnMut(&dyn View) -> Outcome<T>) -> Result<T, Status> {
        look(&*self.store, see).map_err(status)
    }

    /// Runs `work` with the store on the blocking pool: on this core it would hold up all requests.
    async fn beside<T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn MetaStore) -> Outcome<T> + Send + 'static,
    ) -> Result<T, Status> {
        let store = Arc::clone(&self.store);
        let worked = run_blocking(&self.runtime, move || work(&*store)).await;
        worked.map_err(|_| Status::Io)?.map_err(status)
    }

    async fn answer_question(
        self: &Rc<Self>,
        link: &Link,
        CallRecord { caller, call, .. }: CallRecord,
    ) -> Result<Vec<u8>, Status> {
        let mut body = Vec::new();
        match call {
            Call::Getattr {
                file: id,
                wants_references,
            } => {
                let inode = self.look(|view| namespace::inode(view, id))?;
                let files = vec![self.found(id, inode).await?];
                body = self.referenced(link, wants_references, files_of, FoundFiles { files });
            }
            Call::Lookup {
                entry,
                wants_references,
            } => {
                let found = self.look_up(&caller, &entry).await?;
                body = self.referenced(link, wants_references, files_of, found);
            }
            Call::Access { file: id, wanted } => {
                body = self.access(&caller, id, wanted).await?;
            }
            Call::Readlink { file } => body = self.read_link(file).await?,
            Call::Readdirplus {
                directory,
                cookie,
                wants_files,
                wants_references,
            } => {
                let wants = PageWants {
                    files: wants_files,
                    references: wants_references,
                };
                let page = self.list(&caller, directory, cookie, wants).await?;
                body = self.referenced(link, wants_references, files_in, page);
            }
            Call::Layout { file, rights } => {
                body = to_bytes(&self.grant(&caller, file, rights).await?);
            }
            Call::Append {
                file,
                number,
                at_least,
                len,
            } => {
                let append = Append { file, number, len };
                body = to_bytes(&self.append(&caller, append, at_least).await?);
            }
            Call::GiveBack { file, number } => self.sizes.give_back(file, number),
            Call::Files { from } => body = self.files(from).await?,
            Call::Copies { wanted } => body = self.set_copies(&caller, wanted).await?,
            Call::StaleGroups { accept } => body = self.stale_groups(&caller, accept).await?,
            Call::Managers { wanted } => body = self.managers(&caller, wanted)?,
            Call::Orphans {
                server,
                remove,
                objects,
            } => {
                body = self.orphans(&caller, server, remove, &objects).await?;
            }
            _ => return Err(Status::Notsupp),
        }
        Ok(body)
    }

    /// A symbolic link, with its text.
    async fn read_link(&self, id: FileId) -> Result<Vec<u8>, Status> {
        let inode = self.look(|view| namespace::inode(view, id))?;
        if inode.kind() != FileKind::Symlink {
            return Err(Status::Inval);
        }
        Ok(found_body(vec![self.found(id, inode).await?]))
    }

    /// The rights of these that a caller has, and the file.
    async fn access(
        &self,
        caller: &Caller,
        id: FileId,
        wanted: AccessMask,
    ) -> Result<Vec<u8>, Status> {
        let looked = self.look(|view| namespace::access(view, caller, id, wanted));
        let (granted, inode) = looked?;
        let files = vec![self.found(id, inode).await?];
        let found = FoundFiles { files };
        Ok(to_bytes(&AccessAnswer { granted, found }))
    }

    /// The file that a name stands for, and the directory of the name.
    async fn look_up(&self, caller: &Caller, entry: &Entry) -> Result<FoundFiles, Status> {
        let (directory, name) = (entry.directory, &entry.name);
        let looked = self.look(|view| {
            let inside = namespace::inode(view, directory)?;
            let (id, inode) = namespace::lookup(view, caller, directory, name)?;
            Ok((id, inode, inside))
        });
        let (id, inode, inside) = looked?;
        let found = self.found(id, inode).await?;
        let files = vec![found, self.found(directory, inside).await?];
        Ok(FoundFiles { files })
    }

    /// Does a change; gives the files of its reply.
    async fn perform_change(
        self: &Rc<Self>,
        asked: CallRecord,
        cut: Option<ToBeCut>,
    ) -> Result<Vec<Found>, Status> {
        let request = replies::request_key(&asked);
        let CallRecord {
            caller,
            slot_sequence,
            call: change,
            ..
        } = asked;
        self.check_grants_of_others(&caller, &change)?;
        self.open_groups_for(&caller, &change).await?;
        let last_write = self.last_write(&change).await?;
        let before = self.before_loss(&change);
        let work = Work {
            caller,
            task: Task::Asked {
                slot_sequence,
                request,
                call: change,
            },
            last_write,
        };
        let done = self.change(work, cut).await?;
        if let Some((file, before)) = before {
            self.end_lost_rights(file, &before).await;
        }
        let mut all = Vec::with_capacity(done.inodes.len());
        for (id, inode) in done.inodes {
            all.push(self.found_or_not(id, inode).await);
        }
        Ok(all)
    }

    /// A file with its state, which its objects have.
    ///
    /// # Errors
    /// `Jukebox`: one of its I/O servers is away.
    async fn found(&self, id: FileId, mut inode: Inode) -> Result<Found, Status> {
        let mut state = self.settled(&inode);
        if let Body::Regular {
            layout, settled, ..
        } = &mut inode.body
        {
            // The reply has it beside the inode.
            *settled = None;
            if state.is_none() {
                state = Some(self.sizes.of(id, layout, &self.intents).await?);
            }
        }
        Ok(Found { id, inode, state })
    }

    /// A file, without its state if an I/O server is away.
    async fn found_or_not(&self, id: FileId, inode: Inode) -> Found {
        match self.found(id, inode.clone()).await {
            Ok(found) => found,
            Err(_) => Found {
                id,
                inode,
                state: None,
            },
        }
    }

    /// The last write of a file by its objects, for a change that sets the modification time.
    async fn last_write(&self, change: &Call) -> Result<Timestamp, Status> {
        let Call::Setattr {
            file: id,
            attributes: change,
            ..
        } = change
        else {
            return Ok(Timestamp::default());
        };
        // A truncation is later than all writes that the objects report now: the client sets the time again afterwards.
        if !matches!(change.modify_time, SetTimestamp::To(_)) || change.size.is_some() {
            return Ok(Timestamp::default());
        }
        let inode = self.look(|view| namespace::inode(view, *id))?;
        let found = self.found(*id, inode).await?;
        Ok(found.state.unwrap_or_default().written)
    }

    async fn list(
        &self,
        caller: &Caller,
        directory: FileId,
        cookie: u64,
        wants: PageWants,
    ) -> Result<Page, Status> {
        let look = |view: &dyn View| list(view, caller, directory, cookie, wants);
        let (mut page, inodes) = self.look(look)?;
        let inodes = inodes.into_iter();
        let all_found = inodes.map(|(id, inode)| Box::pin(self.found_or_not(id, inode)));
        for (entry, found) in page.entries.iter_mut().zip(all(all_found).await) {
            entry.found = Some(found);
        }
        Ok(page)
    }

    /// A capability for `rights`, if the caller has all of them. Before a grant to write, the file durably loses its
    /// set-user-ID and set-group-ID bits, as after a write: I/O servers know no modes, so they cannot clear them. It
    /// also loses its settled size.
    async fn grant(
        self: &Rc<Self>,
        caller: &Caller,
        id: FileId,
        rights: u32,
    ) -> Result<Granted, Status> {
        let writes = rights & Capability::WRITE != 0;
        if writes {
            self.sizes.settling.committed(id).await;
        }
        let mut layout = self.may_use(caller, id, rights)?;
        let must_prepare = |view: &dyn View| namespace::must_prepare_write(view, caller, id);
        if writes && self.look(must_prepare)? {
            let work = Work {
                caller: *caller,
                task: Task::PrepareWrite(id),
                last_write: Timestamp::default(),
            };
            self.change(work, None).await?;
            layout = self.may_use(caller, id, rights)?;
            // Another change may have set the bits again, or settled the size. From here to the grant there is no
            // `await`: a later change of the mode sees the grant, and is refused.
            if self.look(must_prepare)? || self.sizes.settling.is_committing(id) {
                return Err(Status::Jukebox);
            }
        }
        let to_be_cut = writes && self.sizes.is_to_be_cut(id);
        if to_be_cut || self.intents.cuts_to(id).is_some() {
            return Err(Status::Jukebox);
        }
        let expires = self.note_holder(id, caller.uid)?;
        let number = if writes {
            self.sizes.grant(id, caller.uid)
        } else {
            0
        };
        Ok(Granted {
            capability: self.keys.grant(self.office.number(), id.0, rights, expires),
            number,
            layout,
        })
    }

    /// Refuses set-user-ID and set-group-ID bits for now, while another user has a grant to write the file: a program
    /// written by that grant would run with the rights of the owner. Grants end, or go back, in seconds.
    fn check_grants_of_others(&self, caller: &Caller, change: &Call) -> Result<(), Status> {
        match change {
            Call::Setattr {
                file: id,
                attributes: change,
                ..
            } if gives_privileges(change) && self.sizes.is_writable_by_others(*id, caller.uid) => {
                Err(Status::Jukebox)
            }
            _ => Ok(()),
        }
    }

    /// The layout of a file, if the caller has these rights. Owners may always read and write: a file may have been
    /// opened before its mode changed (RFC 1813 section 4.4).
    fn may_use(&self, caller: &Caller, id: FileId, rights: u32) -> Result<LayoutRecord, Status> {
        let reads = AccessMask::READ | AccessMask::EXECUTE;
        let wanted = AccessMask(reads | AccessMask::MODIFY);
        let looked = self.look(|view| namespace::access(view, caller, id, wanted));
        let (AccessMask(granted), inode) = looked?;
        if inode.kind() != FileKind::Regular {
            return Err(match inode.kind() {
                FileKind::Directory => Status::Isdir,
                _ => Status::Inval,
            });
        }
        let owner = caller.uid == inode.uid;
        let may_read = owner || granted & reads != 0;
        let may_write = owner || granted & AccessMask::MODIFY != 0;
        let lacks = (rights & Capability::READ != 0 && !may_read)
            || (rights & Capability::WRITE != 0 && !may_write);
        if lacks {
            return Err(Status::Acces);
        }
        match inode.body {
            Body::Regular { layout, .. } => Ok(layout),
            _ => Err(Status::Inval),
        }
    }

    /// A grant to write a file, and the offset of `len` bytes that are appended: `at_least` or higher.
    async fn append(
        self: &Rc<Self>,
        caller: &Caller,
        append: Append,
        at_least: u64,
    ) -> Result<Appending, Status> {
        let id = append.file;
        let granted = self.grant(caller, id, Capability::WRITE).await?;
        let state = self.sizes.of(id, &granted.layout, &self.intents).await?;
        // Checked again after the `await`: the file may have been cut while its servers were asked, and the offset
        // would leave a hole.
        if self.sizes.is_to_be_cut(id) || self.intents.cuts_to(id).is_some() {
            return Err(Status::Jukebox);
        }
        let size = state.size.max(at_least);
        let mut appends = self.appends.borrow_mut();
        let offset = appends.place(append, size, self.runtime.now())?;
        Ok(Appending { granted, offset })
    }

    /// Takes the first servers of so many new files; gives the first of them.
    fn take_turns(&self, count: usize) -> u32 {
        let turn = self.turn.get();
        self.turn.set(turn.wrapping_add(count as u32));
        turn
    }
}

impl Handler for Manager {
    fn term(&self) -> u64 {
        self.office.number()
    }

    fn answer(self: Rc<Self>, link: Link, request: Message) -> LocalFuture<Answer> {
        let operation = request.header.operation;
        if operation == Operation::Claim {
            return Box::pin(async move { Answer::of(self.hear_of_folder(&link, &request).await) });
        }
        if self.office.is_held() {
            return self.answer_call(link, request);
        }
        Box::pin(async move {
            match self.office.must_be_held().await {
                Ok(()) => self.answer_call(link, request).await,
                Err(status) => Answer::of(Err(status)),
            }
        })
    }
}

impl Manager {
    /// Answers while the manager's term lasts.
    fn answer_call(self: Rc<Self>, link: Link, request: Message) -> LocalFuture<Answer> {
        let operation = request.header.operation;
        if operation == Operation::GroupWish {
            return Box::pin(async move { Answer::of(self.hear_wish(&link, &request).await) });
        }
        if operation == Operation::Metadata {
            return Box::pin(async move {
                let done = self.snapshot(&link, &request).await;
                Answer::of(self.office.within_lease(done, true).await)
            });
        }
        if matches!(operation, Operation::Lock | Operation::RenewLocks) {
            return Box::pin(async move {
                let done = self.hear_of_locks(&link, &request).await;
                Answer::of(self.office.within_lease(done, false).await)
            });
        }
        let call = Call::from_body(operation, request.body());
        // Noted before the first `await`: otherwise a caller that gives the truncation up could get a new grant first,
        // and the truncation would cut what it writes.
        let cut = match &call {
            Ok(CallRecord {
                caller,
                call:
                    Call::Setattr {
                        file,
                        attributes: change,
                        ..
                    },
                ..
            }) if change.size.is_some() || gives_privileges(change) => {
                let may = self.look(|view| namespace::may_set(view, caller, *file, change));
                may.ok().map(|()| self.sizes.to_be_cut(*file))
            }
            _ => None,
        };
        let is_question = call.as_ref().is_ok_and(|it| !it.call.is_change());
        Box::pin(async move {
            let mut slot = None;
            let done = match call {
                // -1 means "no change" to chown(2), so a file of this user could not be given to another.
                Ok(CallRecord { caller, .. }) if [caller.uid, caller.gid].contains(&u32::MAX) => {
                    Err(Status::Acces)
                }
                Ok(mut asked) if asked.slot_sequence.slot < SESSION_SLOTS => {
                    // The session is authenticated. With identities of its own, a peer could fill the reply cache.
                    asked.slot_sequence.client = link.session();
                    slot = (!is_question).then_some(asked.slot_sequence);
                    if is_question {
                        self.answer_question(&link, asked).await
                    } else {
                        self.perform_change(asked, cut).await.map(found_body)
                    }
                }
                _ => Err(Status::Inval),
            };
            let done = self.office.within_lease(done, is_question).await;
            let is_done = |slot| self.is_kept(slot);
            let is_unconfirmed = done == Err(Status::Jukebox) && slot.as_ref().is_some_and(is_done);
            let mut answer = Answer::of(done);
            if is_unconfirmed {
                answer.body = DONE_UNCONFIRMED.to_vec();
            }
            answer
        })
    }

    /// Whether a change is durable: its reply is in the slot.
    fn is_kept(&self, slot: &SlotSequence) -> bool {
        let found = self.look(|view| meta::reply_cache::slot(view, slot));
        matches!(found, Ok(meta::reply_cache::Slot::Answered(_)))
    }
}

/// Bytes that the state of a file adds to an entry.
const STATE_LEN: usize = 4 + 8 + 8 + 12 + 8;

/// Bytes of an optional value that is absent.
const OPTION_LEN: usize = 4;

/// The parts of a READDIRPLUS reply that the client wants besides names.
#[derive(Clone, Copy)]
struct PageWants {
    /// The entries' files with their attributes.
    files: bool,
    /// References to attribute records.
    references: bool,
}

/// A page of a directory, with room for files and references if they are wanted, and the inodes of its entries.
fn list(
    view: &dyn View,
    caller: &Caller,
    directory: FileId,
    cookie: u64,
    wants: PageWants,
) -> Outcome<(Page, Vec<(FileId, Inode)>)> {
    let mut page = Page {
        directory: Found {
            id: directory,
            inode: namespace::inode(view, directory)?,
            state: None,
        },
        entries: Vec::new(),
        complete: false,
    };
    let (mut inodes, mut failure) = (Vec::new(), None);
    let references = if wants.references {
        AttributeReferences::encoded_len(SLOTS_MAX)
    } else {
        OPTION_LEN
    };
    let mut room = BODY_MAX - to_bytes(&page).len() - references;
    let complete = namespace::list(view, caller, directory, cookie, &mut |listed| {
        let entry = Listed {
            name: listed.name,
            cookie: listed.cookie,
            id: listed.id,
            found: None,
        };
        let mut len = to_bytes(&entry).len();
        if wants.files {
            match namespace::inode(view, listed.id) {
                Ok(inode) => {
                    len += 8 + to_bytes(&inode).len() + STATE_LEN;
                    inodes.push((listed.id, inode));
                }
                Err(error) => {
                    failure = Some(error);
                    return false;
                }
            }
        }
        if page.entries.len() == PAGE_ENTRIES_MAX || len > room {
            return false;
        }
        room -= len;
        page.entries.push(entry);
        true
    })?;
    page.complete = complete;
    inodes.truncate(page.entries.len());
    match failure {
        Some(error) => Err(error),
        None => Ok((page, inodes)),
    }
}

/// The files of a reply, in its order.
fn files_of(found: &FoundFiles) -> Vec<&Found> {
    found.files.iter().collect()
}

/// The files of a page: the directory, and those of its entries.
fn files_in(page: &Page) -> Vec<&Found> {
    let found = page.entries.iter().filter_map(|entry| entry.found.as_ref());
    std::iter::once(&page.directory).chain(found).collect()
}

/// The body of a reply that is files.
fn found_body(files: Vec<Found>) -> Vec<u8> {
    to_bytes(&FoundFiles { files })
}

fn now(runtime: &Handle) -> Timestamp {
    Timestamp::since_epoch(runtime.wall_clock())
}

/// The result of `see` over one snapshot of the store.
fn look<T>(store: &dyn MetaStore, mut see: impl FnMut(&dyn View) -> Outcome<T>) -> Outcome<T> {
    let mut outcome = Err(Status::Serverfault.into());
    let read = store.read(&mut |view| outcome = see(view));
    read.map_err(Failure::from).and(outcome)
}

/// The status for the caller; what an administrator must act on is logged.
fn status(failure: Failure) -> Status {
    match failure {
        Failure::Status(status) => status,
        // The caller asks the next manager, which knows whether the change was done.
        Failure::Store(error) if error.is_journal_lost() => {
            tracing::warn!(%error, "a change waits for another manager");
            Status::Jukebox
        }
        Failure::Store(error) => {
            tracing::error!(%error, "the metadata store fails");
            Status::Io
        }
        error @ Failure::Damaged(_) => {
            tracing::error!(%error, "metadata is damaged");
            Status::Io
        }
        error @ Failure::Unknown { .. } => {
            tracing::error!(%error, "metadata is of a later version");
            Status::Io
        }
    }
}
