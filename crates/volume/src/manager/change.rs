//! Changes: requests that write metadata, and how they share transactions.

use super::group_commit::Ended;
use super::replies::{RoomForReplies, requests_stay};
use super::sizes::ToBeCut;
use super::{Manager, now, status};
use crate::layout::{GroupsForFiles, place};
use crate::limits::{
    CHANGE_LEN_MAX, CHANGES_AT_A_TIME, CHANGES_MAX, GROUP_COMMIT_WAIT_MAX, REFUSED_OF_BATCH_MAX,
};
use gannet_meta::limits::{PAIR_HEAD_LEN, RECORD_LEN_MAX};
use gannet_meta::namespace::{self, Failure, Intent, KeptFiles, Make, Opened, Outcome, Request};
use gannet_meta::reply_cache::{self, Done, RequestKey, Slot};
use gannet_meta::terms;
use gannet_meta::{MetaStore, StoreError, Table, Transaction, View};
use gannet_runtime::{run_blocking, timeout};
use gannet_wire::volume::{
    AttributeChanges, Call, Caller, CreateMode, Entry, FileId, Inode, LayoutRecord, Settled,
    SlotSequence, Status, Stripes, Timestamp,
};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::oneshot;

/// A change that waits for its transaction.
pub(super) struct Change {
    work: Work,
    whose: Whose,
}

/// The caller that waits for a change.
struct Whose {
    done: oneshot::Sender<Result<Done, Status>>,
    /// Dropped when the intents of the change are known.
    _cut: Option<ToBeCut>,
}

/// The work of a change, and all that it depends on.
pub(super) struct Work {
    pub(super) caller: Caller,
    pub(super) task: Task,
    /// The last write by the file's objects: a modification time that is set must hold beyond it.
    pub(super) last_write: Timestamp,
}

/// The work of a change.
pub(super) enum Task {
    /// A client's request, perhaps repeated with the same slot and sequence.
    Asked {
        slot_sequence: SlotSequence,
        /// The NFS call that asks for it, perhaps through several servers.
        request: Option<RequestKey>,
        call: Call,
    },
    /// The caller is about to write this file: it loses its set-user-ID and set-group-ID bits, and its settled size.
    PrepareWrite(FileId),
    /// Nobody may write these files, so their sizes go into their inodes.
    Settle(Vec<(FileId, Settled)>),
    /// This file has no name, and no client keeps it.
    Forget(FileId),
}

impl Task {
    /// Whether it may make a file, which takes a turn of the servers. With a turn for each change, a client that makes,
    /// dates and renames one file after the other would put all of them on one of three servers.
    fn makes_file(&self) -> bool {
        let Task::Asked { call, .. } = self else {
            return false;
        };
        matches!(call, Call::Create { .. } | Call::CreateStriped { .. })
    }
}

/// The inputs to the layout of a new file.
#[derive(Clone)]
struct Layouts {
    default: Stripes,
    servers: u32,
    groups: Arc<GroupsForFiles>,
    turn: u32,
    /// Servers that do not answer.
    away: Arc<[u32]>,
}

impl Layouts {
    fn choose(&self, chosen: Option<&Stripes>) -> LayoutRecord {
        let stripes = chosen.unwrap_or(&self.default);
        let groups = self.groups.for_choice(stripes.copies);
        place(stripes, groups, self.turn, &self.away)
    }
}

impl Manager {
    /// Makes a change durable, and waits for its intent if the caller must see that done.
    pub(super) async fn change(
        self: &Rc<Self>,
        work: Work,
        cut: Option<ToBeCut>,
    ) -> Result<Done, Status> {
        let (done, outcome) = oneshot::channel();
        if self.changes.borrow().len() >= CHANGES_MAX {
            return Err(Status::Jukebox);
        }
        let whose = Whose { done, _cut: cut };
        self.changes.borrow_mut().push_back(Change { work, whose });
        if self.group_commit.borrow_mut().comes(self.runtime.now()) {
            self.group_complete.notify();
        }
        if !self.committing.replace(true) {
            let manager = Rc::clone(self);
            let task = Box::pin(async move { manager.commit_all().await });
            self.runtime.spawn("metadata", task);
        }
        let done = outcome.await.map_err(|_| Status::Io)??;
        if let Some(number) = done.intent {
            self.intents.wait(&self.runtime, number).await?;
        }
        Ok(done)
    }

    /// Transactions, one after the other, until no change waits.
    async fn commit_all(self: Rc<Self>) {
        loop {
            self.wait_for_group().await;
            let batch = self.take_changes();
            if batch.is_empty() {
                self.committing.set(false);
                return;
            }
            let (mut askers, work): (Vec<_>, Vec<_>) = (batch.into_iter())
                .map(|change| (change.whose, change.work))
                .unzip();
            // Before the transaction: calls see a change as soon as it is committed, and a record that outlives that
            // would show a client older attributes than a call has.
            self.records.begin_changes(self.may_change(&work));
            let layouts = self.layouts(&work);
            let store = Arc::clone(&self.store);
            let began = self.runtime.now();
            let kept = Arc::new(self.locks.kept());
            let given = Given {
                layouts,
                kept: Arc::clone(&kept),
                now: now(&self.runtime),
                room: self.replies.room(),
            };
            let committing = move || commit(&*store, work, &given);
            let committed = run_blocking(&self.runtime, committing).await;
            let mut count = askers.len();
            match committed.unwrap_or(Err(Status::Io)) {
                Ok(mut committed) => {
                    count = committed.outcomes.len();
                    self.put_back(askers.split_off(count), std::mem::take(&mut committed.left));
                    self.learn_committed(askers, committed, &kept);
                }
                Err(status) => {
                    self.records.end_changes(&BTreeSet::new());
                    for whose in askers {
                        let _ = whose.done.send(Err(status));
                    }
                }
            }
            self.state.changes.add(count as u64);
            self.group_commit.borrow_mut().ends(Ended {
                began,
                now: self.runtime.now(),
                answered: count,
                waiting: self.changes.borrow().len(),
            });
            self.checkpoint();
        }
    }

    /// Learns from the changes of a transaction, and answers those who asked for them.
    fn learn_committed(
        self: &Rc<Self>,
        askers: Vec<Whose>,
        committed: Committed,
        kept: &KeptFiles,
    ) {
        self.replies.add(committed.new_replies);
        let made = committed.made.into_iter();
        made.for_each(|file| self.sizes.is_new(file));
        // Intents, also of files just made, are known before any caller is answered.
        for (_, intent) in &committed.intents {
            match intent {
                Intent::Truncate { file, size, .. } => {
                    self.sizes.will_be(*file, *size);
                    self.appends.borrow_mut().forget(*file);
                }
                Intent::Unlink { file, .. } => self.sizes.changes(*file),
            }
        }
        self.intents.learn(committed.intents);
        self.records.end_changes(&committed.changed);
        self.learn_unnamed(kept, &committed.changed);
        let answers = askers.into_iter().zip(committed.outcomes).collect();
        let change = committed.change;
        change.inspect(|change| self.office.note_change(*change));
        answer(answers);
    }

    /// The inputs to the layouts of the files that a batch makes, each of which takes a turn of the servers.
    fn layouts(&self, work: &[Work]) -> Layouts {
        let files = work.iter().filter(|work| work.task.makes_file()).count();
        Layouts {
            default: self.stripes.clone(),
            servers: self.servers.count(),
            groups: Arc::clone(&self.groups_for_files.borrow()),
            turn: self.take_turns(files),
            away: self.office.away(),
        }
    }

    /// The files that a batch may change: those that it names, and those that its names stand for now. A name may come
    /// to stand for another file meanwhile, but only by a change of the batch that names that file as well. `None`: the
    /// store failed, and any file may change.
    fn may_change(&self, work: &[Work]) -> Option<BTreeSet<FileId>> {
        let mut files = BTreeSet::new();
        let looked = self.look(|view| {
            for work in work {
                let call = match &work.task {
                    Task::Asked { call, .. } => call,
                    Task::PrepareWrite(file) | Task::Forget(file) => {
                        files.insert(*file);
                        continue;
                    }
                    Task::Settle(states) => {
                        files.extend(states.iter().map(|(file, _)| *file));
                        continue;
                    }
                };
                files.extend(call.file());
                for Entry { directory, name } in call.entries() {
                    files.insert(*directory);
                    files.extend(namespace::find(view, *directory, name)?);
                }
            }
            Ok(())
        });
        looked.ok().map(|()| files)
    }

    /// Takes the changes of the next transaction.
    fn take_changes(&self) -> Vec<Change> {
        let mut changes = self.changes.borrow_mut();
        let count = changes.len().min(CHANGES_AT_A_TIME);
        self.state.group_commits.add(u64::from(count > 0));
        changes.drain(..count).collect()
    }

    /// Puts changes back for which the transaction had no room: they are in the next one.
    fn put_back(&self, askers: Vec<Whose>, work: Vec<Work>) {
        let mut changes = self.changes.borrow_mut();
        for (whose, work) in askers.into_iter().zip(work).rev() {
            changes.push_front(Change { work, whose });
        }
    }

    /// Waits for changes that are about to come, if that pays.
    async fn wait_for_group(&self) {
        let waits = |it: &Manager| it.group_commit.borrow().should_wait();
        if self.changes.borrow().is_empty() || !waits(self) {
            return;
        }
        let all_come = async {
            while waits(self) {
                self.group_complete.notified().await;
            }
        };
        if timeout(&self.runtime, GROUP_COMMIT_WAIT_MAX, all_come)
            .await
            .is_err()
        {
            self.group_commit.borrow_mut().waited_in_vain();
        }
    }

    /// Begins a checkpoint of the store beside the changes, so that none has to wait for one.
    fn checkpoint(self: &Rc<Self>) {
        if !self.store.needs_checkpoint() || self.checkpointing.replace(true) {
            return;
        }
        let manager = Rc::clone(self);
        let task = async move {
            let store = Arc::clone(&manager.store);
            match run_blocking(&manager.runtime, move || store.checkpoint()).await {
                // Nothing is lost. `checkpointing` stays set, so no checkpoint begins here again: the change that needs
                // one makes it, and fails with the store's reason.
                Ok(Err(error)) => _ = status(error.into()),
                _ => {
                    manager.checkpointing.set(false);
                    let now = manager.runtime.wall_clock();
                    manager.state.has_checkpoint(now);
                }
            }
        };
        self.runtime.spawn("checkpoint", Box::pin(task));
    }
}

fn answer(answers: Vec<(Whose, Result<Done, Status>)>) {
    for (whose, outcome) in answers {
        // The caller may have given up.
        let _ = whose.done.send(outcome);
    }
}

/// The results of a transaction.
#[derive(Default)]
struct Committed {
    outcomes: Vec<Result<Done, Status>>,
    /// Intents with their numbers.
    intents: Vec<(u64, Intent)>,
    /// Files without objects.
    made: Vec<FileId>,
    /// Replies that are kept where none was before.
    new_replies: RoomForReplies,
    /// The number of the transaction, if a change of it succeeded.
    change: Option<u64>,
    /// Files whose inodes were written or removed.
    changed: BTreeSet<FileId>,
    /// The last changes of the batch, for which there was no room.
    left: Vec<Work>,
}

/// A transaction that takes note of the files whose inodes it changes, and of its length.
struct Noting<'a> {
    transaction: &'a mut dyn Transaction,
    changed: &'a mut BTreeSet<FileId>,
    /// Bytes of its record, or less: each pair counts as often as it is changed.
    len: usize,
}

impl Noting<'_> {
    fn note(&mut self, table: Table, key: &[u8], value_len: usize) {
        self.len += key.len() + value_len + PAIR_HEAD_LEN;
        if let (Table::Inodes, Ok(number)) = (table, key.try_into()) {
            self.changed.insert(FileId(u64::from_be_bytes(number)));
        }
    }
}

impl View for Noting<'_> {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.transaction.get(table, key)
    }

    fn scan(
        &self,
        table: Table,
        from: &[u8],
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), StoreError> {
        self.transaction.scan(table, from, each)
    }
}

impl Transaction for Noting<'_> {
    fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.note(table, key, value.len());
        self.transaction.put(table, key, value)
    }

    fn delete(&mut self, table: Table, key: &[u8]) -> Result<(), StoreError> {
        self.note(table, key, 0);
        self.transaction.delete(table, key)
    }
}

/// Does a batch of changes in one transaction, on the blocking pool. A change that meets a damaged value fails the
/// whole transaction, of which nothing stays. It is refused, and the others are done again without it.
fn commit(store: &dyn MetaStore, mut work: Vec<Work>, given: &Given) -> Result<Committed, Status> {
    let mut refused = BTreeSet::new();
    loop {
        let mut stopped = None;
        let batch = Batch {
            work: &work,
            refused: &refused,
            given,
        };
        let error = match commit_without(store, &batch, &mut stopped) {
            Ok(committed) => {
                let left = work.split_off(committed.outcomes.len());
                return Ok(Committed { left, ..committed });
            }
            Err(error) => error,
        };
        let is_one = error.is_damaged_value() && refused.len() < REFUSED_OF_BATCH_MAX;
        let status = status(error.into());
        match stopped.filter(|_| is_one) {
            Some(place) => refused.insert(place),
            None => return Err(status),
        };
    }
}

/// The inputs to the changes of a transaction, beside the store.
struct Given {
    layouts: Layouts,
    /// Files that clients keep open.
    kept: Arc<KeptFiles>,
    now: Timestamp,
    room: RoomForReplies,
}

/// The changes of one transaction.
struct Batch<'a> {
    work: &'a [Work],
    /// The places of those that are left out.
    refused: &'a BTreeSet<u32>,
    given: &'a Given,
}

/// Does those changes of a batch that are not `refused`; `stopped` gets the one that failed the transaction.
fn commit_without(
    store: &dyn MetaStore,
    batch: &Batch<'_>,
    stopped: &mut Option<u32>,
) -> Result<Committed, StoreError> {
    let Given { layouts, now, .. } = batch.given;
    let mut all = Committed::default();
    let (intents, has_room) = (RefCell::default(), store.has_room());
    let mut changed = BTreeSet::new();
    store.commit(&mut |transaction| {
        let transaction = &mut Noting {
            transaction,
            changed: &mut changed,
            len: 0,
        };
        let mut turn = layouts.turn;
        for (place, work) in (0..).zip(batch.work) {
            if transaction.len > RECORD_LEN_MAX - CHANGE_LEN_MAX {
                break;
            }
            let own = turn;
            turn = turn.wrapping_add(u32::from(work.task.makes_file()));
            if batch.refused.contains(&place) {
                all.outcomes.push(Err(Status::Io));
                continue;
            }
            let layouts = Layouts {
                turn: own,
                ..Layouts::clone(layouts)
            };
            let request = Request {
                caller: &work.caller,
                now: *now,
                intents: &intents,
                has_room,
                kept: &batch.given.kept,
            };
            let room = &batch.given.room;
            let done = perform_once(transaction, request, work, &layouts, room, &mut all);
            all.outcomes.push(match done {
                Ok(done) => Ok(done),
                Err(Failure::Store(error)) => {
                    *stopped = Some(place);
                    return Err(error);
                }
                Err(failure) => Err(status(failure)),
            });
        }
        if all.outcomes.iter().any(Result::is_ok) {
            all.change = Some(terms::next_change(transaction)?);
        }
        Ok(())
    })?;
    Ok(Committed {
        intents: intents.into_inner(),
        changed,
        ..all
    })
}

/// Does a change, unless the reply cache has its reply. A slot without a reply waits until the cache has room.
fn perform_once(
    transaction: &mut dyn Transaction,
    request: Request<'_>,
    work: &Work,
    layouts: &Layouts,
    room: &RoomForReplies,
    all: &mut Committed,
) -> Outcome<Done> {
    let (slot_sequence, asking, call) = match &work.task {
        Task::Asked {
            slot_sequence,
            request,
            call,
        } => (slot_sequence, request, call),
        Task::PrepareWrite(file) => {
            namespace::prepare_write(transaction, request, *file)?;
            return Ok(Done::default());
        }
        Task::Settle(states) => {
            for (file, state) in states {
                namespace::settle(transaction, *file, *state)?;
            }
            return Ok(Done::default());
        }
        Task::Forget(file) => {
            namespace::forget_unnamed(transaction, request, *file)?;
            return Ok(Done::default());
        }
    };
    let has_room = all.new_replies.slots < room.slots;
    let is_new = match reply_cache::slot(transaction, slot_sequence)? {
        Slot::Answered(done) => return Ok(done),
        Slot::New if !has_room => return Err(Status::Jukebox.into()),
        slot => slot == Slot::New,
    };
    let now = u64::try_from(request.now.seconds).unwrap_or(0);
    let mut kept_under = None;
    if let Some(asking) = asking {
        let has_room = all.new_replies.requests < room.requests;
        kept_under = match reply_cache::request(transaction, asking, &requests_stay(now))? {
            Slot::Answered(done) => {
                // The server may ask again when the client has another call in the row.
                all.new_replies.slots += usize::from(is_new);
                reply_cache::keep(transaction, slot_sequence, now, &done)?;
                return Ok(done);
            }
            Slot::New => has_room.then_some((asking, 1)),
            Slot::Used => Some((asking, 0)),
        };
    }
    let (last_write, made) = (work.last_write, &mut all.made);
    let done = perform(transaction, request, call, last_write, layouts, made)?;
    all.new_replies.slots += usize::from(is_new);
    reply_cache::keep(transaction, slot_sequence, now, &done)?;
    if let Some((asking, added)) = kept_under {
        all.new_replies.requests += added;
        reply_cache::keep_request(transaction, asking, now, &done)?;
    }
    Ok(done)
}

/// The file of a change, and the directories in its reply.
type Changed = (Option<(FileId, Inode)>, Vec<FileId>);

fn perform(
    transaction: &mut dyn Transaction,
    request: Request<'_>,
    call: &Call,
    last_write: Timestamp,
    layouts: &Layouts,
    made: &mut Vec<FileId>,
) -> Outcome<Done> {
    let mut intent = None;
    let (file, directories): Changed = match call {
        Call::Setattr {
            file: id,
            attributes: change,
            guard,
        } => {
            let guard = *guard;
            let set =
                namespace::set_attributes(transaction, request, *id, change, guard, last_write)?;
            intent = set.1;
            (Some((*id, set.0)), vec![])
        }
        Call::Create { entry, mode } => {
            let opened = create(transaction, request, entry, mode, None, layouts)?;
            intent = opened.intent;
            note_opened(opened, entry, made)
        }
        Call::CreateStriped {
            entry,
            attributes,
            stripes,
        } => {
            let mode = CreateMode::Guarded(*attributes);
            let opened = create(transaction, request, entry, &mode, Some(stripes), layouts)?;
            intent = opened.intent;
            note_opened(opened, entry, made)
        }
        Call::Stripes {
            directory: id,
            stripes,
        } => {
            let servers = layouts.servers;
            let inode =
                namespace::set_stripes(transaction, request, *id, stripes.clone(), servers)?;
            (Some((*id, inode)), vec![])
        }
        other => change_names(transaction, request, other)?,
    };
    let mut inodes: Vec<_> = file.into_iter().collect();
    for directory in directories {
        inodes.push((directory, namespace::inode(transaction, directory)?));
    }
    Ok(Done { inodes, intent })
}

/// Does a change of names, which needs no I/O server before its reply.
fn change_names(
    transaction: &mut dyn Transaction,
    request: Request<'_>,
    call: &Call,
) -> Outcome<Changed> {
    Ok(match call {
        Call::Mkdir {
            entry,
            attributes: change,
        } => make(transaction, request, entry, Make::Directory, change)?,
        Call::Symlink {
            entry,
            text: target,
            attributes: change,
        } => make(transaction, request, entry, Make::Symlink(target), change)?,
        Call::Mknod {
            entry,
            kind,
            attributes: change,
        } => make(transaction, request, entry, Make::Node(*kind), change)?,
        Call::Remove {
            entry: Entry { directory, name },
        } => {
            namespace::remove(transaction, request, *directory, name)?;
            (None, vec![*directory])
        }
        Call::Rmdir {
            entry: Entry { directory, name },
        } => {
            namespace::remove_directory(transaction, request, *directory, name)?;
            (None, vec![*directory])
        }
        Call::Rename { from, to } => {
            let (old, new) = (&from.name, &to.name);
            namespace::rename(transaction, request, from.directory, old, to.directory, new)?;
            (None, vec![from.directory, to.directory])
        }
        Call::Link {
            file: id,
            entry: Entry { directory, name },
        } => {
            let inode = namespace::link(transaction, request, *id, *directory, name)?;
            (Some((*id, inode)), vec![*directory])
        }
        // Questions are answered without a transaction.
        _ => return Err(Status::Notsupp.into()),
    })
}

/// Makes a file, or opens the one that is there, as `mode` says; with these stripes, or those of its directory.
fn create(
    transaction: &mut dyn Transaction,
    request: Request<'_>,
    entry: &Entry,
    mode: &CreateMode,
    stripes: Option<&Stripes>,
    layouts: &Layouts,
) -> Outcome<Opened> {
    if let Some(stripes) = stripes {
        namespace::check_stripes(stripes, layouts.servers)?;
    }
    let place = &mut |chosen: Option<&Stripes>| layouts.choose(stripes.or(chosen));
    let Entry { directory, name } = entry;
    namespace::create(transaction, request, *directory, name, mode, place)
}

/// The change that CREATE of `entry` did. A new file whose size no intent sets is empty, which `made` notes.
fn note_opened(opened: Opened, entry: &Entry, made: &mut Vec<FileId>) -> Changed {
    let is_empty = opened.made && opened.intent.is_none();
    made.extend(is_empty.then_some(opened.id));
    (Some((opened.id, opened.inode)), vec![entry.directory])
}

/// Makes a file without data; gives it and its directory.
fn make(
    transaction: &mut dyn Transaction,
    request: Request<'_>,
    entry: &Entry,
    what: Make<'_>,
    change: &AttributeChanges,
) -> Outcome<Changed> {
    let Entry { directory, name } = entry;
    let made = namespace::make(transaction, request, *directory, name, what, change)?;
    Ok((Some(made), vec![*directory]))
}

#[cfg(test)]
mod tests;
