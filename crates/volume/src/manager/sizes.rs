//! Sizes of files: those of their objects, asked for in batches, and cached while there is no grant to write.
//!
//! A grant to write ends after [`GRANT_AGE`], or when the client gives it back. A write counts as completed only within
//! its grant. So the objects' sizes of a file without grants hold until the next grant, and are cached. Of files with a
//! grant, the objects are asked each time.
//!
//! A size without grants is settled after a while: it goes into the inode ([`super::settling`]), and nobody is asked.

use super::intents::{Intents, IoServers};
use super::listing::{LeaseKind, LeaseList, LeaseRow};
use super::records::Records;
use super::settling::Settling;
use crate::layout::{file_state, placements, size_with_lost};
use crate::limits::{
    BATCHES_UNDER_WAY, GRANT_AGE, GRANTS_MAX, SIZE_AGE, SIZE_DEADLINE, SIZE_DEADLINE_OF_SILENT,
    SIZES_MAX,
};
use crate::link::{Link, LinkError};
use gannet_runtime::{Handle, Instant, LocalFuture, all, timeout};
use gannet_wire::volume::{
    Class, FileId, FileState, LayoutRecord, OBJECTS_MAX, ObjectId, ObjectList, ObjectState,
    ObjectStates, Operation, StateAnswer, Status,
};
use gannet_wire::xdr::{from_bytes, to_bytes};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::oneshot;

/// The sizes and the grants of a manager.
pub(super) struct Sizes {
    runtime: Handle,
    servers: Rc<dyn IoServers>,
    known: RefCell<BTreeMap<FileId, Known>>,
    /// Attribute records, which go whenever a size is not known any more.
    records: Rc<Records>,
    /// Questions under way, by file.
    asking: RefCell<BTreeMap<FileId, Vec<Rc<Asking>>>>,
    grants: RefCell<Grants>,
    /// Files with truncations that were requested, and how many.
    to_be_cut: RefCell<BTreeMap<FileId, usize>>,
    queues: RefCell<BTreeMap<u32, Queue>>,
    pub(super) settling: Settling,
}

/// Changes of a file since a question to its objects began.
struct Asking {
    /// Nothing has: the answer may be cached.
    is_steady: Cell<bool>,
    /// The size to which it was cut, or is being cut; the first of several. The object at the new end may have to grow,
    /// and may be the last to change: without this, the file would seem shorter than it ever was.
    cut_to: Cell<Option<u64>>,
}

/// A cached size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) state: FileState,
    /// The time at which its question began: a size that replaces this one after a change has a later time.
    since: Instant,
    /// No object was lost with its disk: the size is no guess.
    is_whole: bool,
}

/// The grants to write.
struct Grants {
    files: BTreeMap<FileId, Vec<Grant>>,
    last: u64,
    /// The number of files with grants at which grants that have ended are removed.
    sweep_at: usize,
    /// The time until which an earlier manager's grants may last, for files with numbers below this one. Their bytes
    /// may not be durable at any time.
    earlier: (Instant, FileId),
    /// The time until which grants may last that are not in `files`, which was full.
    others_until: Instant,
    /// Files whose last grant ran out, or did in an earlier term: their bytes may not be durable.
    ran_out: BTreeSet<FileId>,
}

/// Numbers of grants to write.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct GrantsCount {
    /// Files with a grant.
    pub(super) files: usize,
    grants: usize,
}

impl Grants {
    /// Removes the files whose grants have all run out; gives them.
    fn sweep(&mut self, now: Instant) -> Vec<FileId> {
        let mut over = Vec::new();
        self.files.retain(|file, list| {
            let lasts = list.iter().any(|grant| now < grant.until);
            if !lasts {
                over.push(*file);
            }
            lasts
        });
        self.ran_out.extend(over.iter().copied());
        over
    }
}

/// A grant to write a file.
struct Grant {
    number: u64,
    until: Instant,
    /// The user who has it.
    uid: u32,
}

/// The questions to one I/O server.
#[derive(Default)]
struct Queue {
    waiting: VecDeque<(ObjectId, oneshot::Sender<Result<ObjectState, Status>>)>,
    /// The number of questions at which abandoned ones are dropped.
    prune_at: usize,
    under_way: usize,
    /// Its last deadline passed, and it has not answered since.
    is_silent: bool,
    /// The connection that was used last, and since when.
    link: Option<(Link, Instant)>,
}

impl Sizes {
    /// Files that are made from now on have the number `next` and those above.
    pub(super) fn new(
        runtime: Handle,
        servers: Rc<dyn IoServers>,
        records: Rc<Records>,
        next: FileId,
    ) -> Rc<Sizes> {
        let (now, until) = (runtime.now(), runtime.now() + GRANT_AGE);
        Rc::new(Sizes {
            runtime,
            servers,
            known: RefCell::default(),
            records,
            asking: RefCell::default(),
            grants: RefCell::new(Grants {
                files: BTreeMap::new(),
                last: 0,
                sweep_at: GRANTS_MAX / 16,
                earlier: (until, next),
                others_until: now,
                ran_out: BTreeSet::new(),
            }),
            to_be_cut: RefCell::default(),
            queues: RefCell::default(),
            settling: Settling::default(),
        })
    }

    /// The manager begins to serve: from now on only its grants are new.
    pub(super) fn begin(&self) {
        let mut grants = self.grants.borrow_mut();
        grants.earlier.0 = self.runtime.now() + GRANT_AGE;
    }

    /// Forgets all sizes: they may not hold any more.
    pub(super) fn forget_all(&self) {
        self.known.borrow_mut().clear();
        self.records.remove_all();
    }

    /// Grants a user the right to write a file, for less than [`GRANT_AGE`]; gives the number of the grant.
    pub(super) fn grant(&self, file: FileId, uid: u32) -> u64 {
        self.changes(file);
        let now = self.runtime.now();
        let until = now + GRANT_AGE;
        let mut grants = self.grants.borrow_mut();
        if grants.files.len() >= grants.sweep_at {
            let over = grants.sweep(now);
            self.settling.add(over, now);
            grants.sweep_at = (grants.files.len() * 2).clamp(GRANTS_MAX / 16, GRANTS_MAX);
        }
        grants.last += 1;
        let number = grants.last;
        if grants.files.len() >= GRANTS_MAX {
            grants.others_until = until;
            // It is in no list, so nobody sees it run out. Any file up to this one may have bytes that are not durable.
            let next = FileId(file.0.saturating_add(1));
            grants.earlier.1 = grants.earlier.1.max(next);
        } else {
            let grant = Grant { number, until, uid };
            grants.files.entry(file).or_default().push(grant);
        }
        number
    }

    /// Ends a grant: its client will not write by it any more.
    pub(super) fn give_back(&self, file: FileId, number: u64) {
        let now = self.runtime.now();
        let mut grants = self.grants.borrow_mut();
        let Some(list) = grants.files.get_mut(&file) else {
            return;
        };
        list.retain(|grant| grant.number != number);
        let lasts = list.iter().any(|grant| now < grant.until);
        let has_run_out = !lasts && !list.is_empty();
        if !lasts {
            grants.files.remove(&file);
            self.settling.add([file], now);
        }
        if has_run_out {
            grants.ran_out.insert(file);
        }
    }

    /// The files whose grants have run out since the last call are to be settled.
    pub(super) fn settle_run_out(&self) {
        let now = self.runtime.now();
        let over = self.grants.borrow_mut().sweep(now);
        self.settling.add(over, now);
    }

    /// Whether bytes of a file may not be durable although nobody may write it: a client went before it committed them.
    pub(super) fn may_be_unstable(&self, file: FileId) -> bool {
        let now = self.runtime.now();
        let mut grants = self.grants.borrow_mut();
        // The next sweep may come only after the size is settled.
        let listed = grants.files.get(&file);
        if listed.is_some_and(|list| list.iter().all(|grant| now >= grant.until)) {
            grants.files.remove(&file);
            grants.ran_out.insert(file);
        }
        file < grants.earlier.1 || grants.ran_out.contains(&file)
    }

    /// The bytes of a file are durable.
    pub(super) fn is_durable(&self, file: FileId) {
        self.grants.borrow_mut().ran_out.remove(&file);
    }

    /// The grants to write that last now.
    pub(super) fn count_grants(&self) -> GrantsCount {
        let now = self.runtime.now();
        let mut count = GrantsCount::default();
        for list in self.grants.borrow().files.values() {
            let lasting = list.iter().filter(|grant| now < grant.until).count();
            count.files += usize::from(lasting > 0);
            count.grants += lasting;
        }
        count
    }

    /// Lists the grants to write, of which there are `count`.
    pub(super) fn list(&self, list: &mut LeaseList, count: GrantsCount, since: Duration) {
        let now = self.runtime.now();
        let grants = self.grants.borrow();
        let files = grants.files.iter();
        let all = files.flat_map(|(file, grants)| grants.iter().map(|grant| (*file, grant)));
        let lasting = all.filter(|(_, grant)| now < grant.until);
        let rows = lasting.map(|(file, grant)| LeaseRow {
            file,
            kind: LeaseKind::Write,
            range: None,
            client: None,
            process: None,
            owner: Some(grant.number),
            uid: Some(grant.uid),
            waits: false,
            since,
        });
        list.add(count.grants, rows);
    }

    /// Whether there is a grant to write a file.
    pub(super) fn is_writable(&self, file: FileId) -> bool {
        let now = self.runtime.now();
        let grants = self.grants.borrow();
        let listed = grants.files.get(&file);
        let (earlier_until, next) = grants.earlier;
        let is_older = file < next;
        now < grants.others_until
            || (is_older && now < earlier_until)
            || listed.is_some_and(|list| list.iter().any(|grant| now < grant.until))
    }

    /// Whether a user other than this one and root has a grant to write a file, by the grants of this manager.
    pub(super) fn is_writable_by_others(&self, file: FileId, uid: u32) -> bool {
        let now = self.runtime.now();
        let is_others = |grant: &Grant| now < grant.until && ![0, uid].contains(&grant.uid);
        let grants = self.grants.borrow();
        let listed = grants.files.get(&file);
        listed.is_some_and(|list| list.iter().any(is_others))
    }

    /// The objects of a file may change from now on: the cached size does not hold, nor will the answers to questions
    /// under way. Called before the grant or truncation leaves the manager: later, a stale size could be cached.
    pub(super) fn changes(&self, file: FileId) {
        self.known.borrow_mut().remove(&file);
        self.records.remove(file);
        if let Some(asking) = self.asking.borrow().get(&file) {
            asking.iter().for_each(|it| it.is_steady.set(false));
        }
    }

    /// A truncation was requested: no grant to write the file is given until the result is dropped.
    pub(super) fn to_be_cut(self: &Rc<Self>, file: FileId) -> ToBeCut {
        *self.to_be_cut.borrow_mut().entry(file).or_default() += 1;
        let sizes = Rc::clone(self);
        ToBeCut { sizes, file }
    }

    /// Whether a truncation was requested and is not done.
    pub(super) fn is_to_be_cut(&self, file: FileId) -> bool {
        self.to_be_cut.borrow().contains_key(&file)
    }

    /// An intent will make a file `len` bytes long.
    pub(super) fn will_be(&self, file: FileId, len: u64) {
        self.changes(file);
        for asking in self.asking.borrow().get(&file).into_iter().flatten() {
            asking.cut_to.set(asking.cut_to.get().or(Some(len)));
        }
    }

    /// A file was made, and has no objects.
    pub(super) fn is_new(&self, file: FileId) {
        let known = Known {
            state: FileState::default(),
            since: self.runtime.now(),
            is_whole: true,
        };
        self.remember(file, known);
    }

    fn remember(&self, file: FileId, state: Known) {
        let mut known = self.known.borrow_mut();
        if known.len() >= SIZES_MAX {
            known.clear();
        }
        known.insert(file, state);
        self.settling.add([file], self.runtime.now());
        // The attribute record has the size from before.
        self.records.remove(file);
    }

    fn known(&self, file: FileId, layout: &LayoutRecord) -> Option<FileState> {
        self.known_until(file, layout).map(|(state, _)| state)
    }

    /// The cached state of a file, and until when it holds.
    pub(super) fn known_until(
        &self,
        file: FileId,
        layout: &LayoutRecord,
    ) -> Option<(FileState, Instant)> {
        let known = self.known.borrow();
        let Known { state, since, .. } = known.get(&file)?;
        // A server that restarted may have lost data that were not durable, and with them the end of the file. So the
        // state holds only on the connections that it came by.
        let queues = self.queues.borrow();
        let groups = self.servers.groups();
        let holds = layout.groups.iter().all(|group| {
            let queue = groups.primary(*group).and_then(|it| queues.get(&it));
            let link = queue.and_then(|queue| queue.link.as_ref());
            link.is_some_and(|(link, used)| !link.is_over() && used <= since)
        });
        let until = *since + SIZE_AGE;
        (holds && self.runtime.now() < until).then_some((*state, until))
    }

    /// The cached size of a file, unless part of it is a guess.
    pub(super) fn whole(&self, file: FileId, layout: &LayoutRecord) -> Option<Known> {
        self.known(file, layout)?;
        let known = self.known.borrow().get(&file).copied();
        known.filter(|known| known.is_whole)
    }

    /// The state of a file, by its objects or from the cache.
    ///
    /// # Errors
    /// `Jukebox` when one of its servers is away; otherwise the status of the server that refuses.
    pub(super) async fn of(
        self: &Rc<Self>,
        file: FileId,
        layout: &LayoutRecord,
        intents: &Intents,
    ) -> Result<FileState, Status> {
        if let Some(state) = self.known(file, layout) {
            return Ok(state);
        }
        let question = Question::begin(self, file, intents.cuts_to(file));
        // A server that is given little time, because another one is silent, does not count as silent for that.
        let (patience, is_long) = if self.has_silent(layout) {
            (SIZE_DEADLINE_OF_SILENT, false)
        } else {
            (SIZE_DEADLINE, true)
        };
        let groups = self.servers.groups();
        let asked = placements(layout).map(|(group, placement)| {
            let primary = groups.primary(group);
            let name = ObjectId {
                group,
                file: file.0,
            };
            let answer = primary.map(|number| (number, self.ask(number, name)));
            let sizes = Rc::clone(self);
            let asked: LocalFuture<Result<_, Status>> = Box::pin(async move {
                let (number, answer) = answer.ok_or(Status::Jukebox)?;
                let answer = timeout(&sizes.runtime, patience, answer).await;
                let answer = answer.map_err(|_| {
                    if is_long {
                        sizes.note_silence(number, true);
                    }
                    Status::Jukebox
                });
                // The sender is dropped without an answer when the server could not be asked.
                match answer?.unwrap_or(Err(Status::Jukebox)) {
                    Ok(state) => Ok((placement, Some(state))),
                    Err(Status::Nxio) => Ok((placement, None)),
                    Err(status) => Err(status),
                }
            });
            asked
        });
        let (mut objects, mut lost) = (Vec::new(), Vec::new());
        for answer in all(asked).await {
            match answer? {
                (placement, Some(state)) => objects.push((placement, state)),
                (placement, None) => lost.push(placement),
            }
        }
        let mut whole = file_state(objects);
        whole.size = size_with_lost(whole.size, &lost);
        whole.size = whole.size.max(question.asking.cut_to.get().unwrap_or(0));
        question.answered(whole, lost.is_empty());
        Ok(whole)
    }

    /// Whether a file has a server that does not answer.
    fn has_silent(&self, layout: &LayoutRecord) -> bool {
        let queues = self.queues.borrow();
        let groups = self.servers.groups();
        let mut servers = (layout.groups.iter()).filter_map(|group| groups.primary(*group));
        servers.any(|number| queues.get(&number).is_some_and(|it| it.is_silent))
    }

    /// Notes whether a server answers.
    fn note_silence(&self, number: u32, is_silent: bool) {
        let mut queues = self.queues.borrow_mut();
        let queue = queues.entry(number).or_default();
        if queue.is_silent != is_silent {
            tracing::debug!(number, is_silent, "an I/O server that is asked for sizes");
        }
        queue.is_silent = is_silent;
    }

    /// Queues a question to an I/O server.
    fn ask(
        self: &Rc<Self>,
        number: u32,
        object: ObjectId,
    ) -> oneshot::Receiver<Result<ObjectState, Status>> {
        let (sender, receiver) = oneshot::channel();
        let mut queues = self.queues.borrow_mut();
        let queue = queues.entry(number).or_default();
        if queue.waiting.len() >= queue.prune_at {
            queue.waiting.retain(|(_, sender)| !sender.is_closed());
            queue.prune_at = (2 * queue.waiting.len()).max(4 * OBJECTS_MAX);
        }
        queue.waiting.push_back((object, sender));
        if queue.under_way < BATCHES_UNDER_WAY {
            queue.under_way += 1;
            let sizes = Rc::clone(self);
            let task = async move { sizes.ask_all(number).await };
            self.runtime.spawn("sizes", Box::pin(task));
        }
        receiver
    }

    /// Asks a server, batch after batch, until no question waits.
    async fn ask_all(self: Rc<Self>, number: u32) {
        loop {
            let batch: Vec<_> = {
                let mut queues = self.queues.borrow_mut();
                let queue = queues.entry(number).or_default();
                let asked = std::iter::from_fn(|| queue.waiting.pop_front());
                let waited_for = asked.filter(|(_, sender)| !sender.is_closed());
                let batch: Vec<_> = waited_for.take(OBJECTS_MAX).collect();
                if batch.is_empty() {
                    queue.under_way -= 1;
                    return;
                }
                batch
            };
            let objects = batch.iter().map(|(object, _)| *object).collect();
            match self.ask_batch(number, objects).await {
                Ok(states) => {
                    self.note_silence(number, false);
                    for ((_, sender), state) in batch.into_iter().zip(states) {
                        // The question may have been abandoned.
                        let _ = sender.send(state);
                    }
                }
                Err(error) => tracing::debug!(number, %error, "sizes of objects are not known"),
            }
        }
    }

    async fn ask_batch(
        &self,
        number: u32,
        objects: Vec<ObjectId>,
    ) -> Result<Vec<Result<ObjectState, Status>>, LinkError> {
        let link = Rc::clone(&self.servers).link(number).await?;
        self.used(number, &link);
        let body = to_bytes(&ObjectList { objects });
        let answer = link
            .call(Operation::States, Class::Metadata, &body, &[])
            .await?;
        let states = from_bytes::<ObjectStates>(answer.body());
        let states = states.map_err(|_| LinkError::Undecodable)?;
        Ok(states.states.iter().map(StateAnswer::known).collect())
    }

    /// Notes the connection to a server.
    fn used(&self, number: u32, link: &Link) {
        let mut queues = self.queues.borrow_mut();
        let queue = queues.entry(number).or_default();
        let same = queue.link.as_ref().is_some_and(|(last, _)| last.is(link));
        if !same {
            queue.link = Some((link.clone(), self.runtime.now()));
            let (link, records) = (link.clone(), Rc::clone(&self.records));
            let watching = async move {
                link.ended().await;
                // A server that restarts may have lost data that were not durable; the records have sizes from before.
                records.remove_all();
            };
            self.runtime.spawn("attribute records", Box::pin(watching));
        }
    }
}

/// The guard of a truncation that was requested.
pub(super) struct ToBeCut {
    sizes: Rc<Sizes>,
    file: FileId,
}

impl Drop for ToBeCut {
    fn drop(&mut self) {
        let mut files = self.sizes.to_be_cut.borrow_mut();
        if let Some(times) = files.get_mut(&self.file) {
            *times -= 1;
            if *times == 0 {
                files.remove(&self.file);
            }
        }
    }
}

/// A question for a file's size that is under way.
struct Question<'a> {
    sizes: &'a Sizes,
    file: FileId,
    since: Instant,
    asking: Rc<Asking>,
}

impl<'a> Question<'a> {
    /// Begins a question for the size of a file, which an intent cuts to `cut_to` bytes if there is one.
    fn begin(sizes: &'a Sizes, file: FileId, cut_to: Option<u64>) -> Question<'a> {
        let asking = Rc::new(Asking {
            is_steady: Cell::new(!sizes.is_writable(file) && cut_to.is_none()),
            cut_to: Cell::new(cut_to),
        });
        let mut all = sizes.asking.borrow_mut();
        all.entry(file).or_default().push(Rc::clone(&asking));
        Question {
            sizes,
            file,
            since: sizes.runtime.now(),
            asking,
        }
    }

    /// Caches the answer, if it still holds.
    fn answered(self, state: FileState, is_whole: bool) {
        if self.asking.is_steady.get() {
            let since = self.since;
            let known = Known {
                state,
                since,
                is_whole,
            };
            self.sizes.remember(self.file, known);
        }
    }
}

impl Drop for Question<'_> {
    fn drop(&mut self) {
        let mut asking = self.sizes.asking.borrow_mut();
        if let Some(questions) = asking.get_mut(&self.file) {
            questions.retain(|other| !Rc::ptr_eq(other, &self.asking));
            if questions.is_empty() {
                asking.remove(&self.file);
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(super) mod tests {
    use super::*;
    use gannet_meta::groups::Groups;
    use gannet_sim::World;
    use std::sync::Arc;

    /// I/O servers that never say anything.
    pub(in super::super) struct Mute;

    impl IoServers for Mute {
        fn count(&self) -> u32 {
            2
        }

        fn groups(&self) -> Arc<Groups> {
            Arc::new(Groups::of_servers(2))
        }

        fn use_groups(&self, _: Arc<Groups>) {}

        fn link(self: Rc<Self>, _: u32) -> LocalFuture<Result<Link, LinkError>> {
            Box::pin(std::future::pending())
        }

        fn begin_term(&self, _: u64) {}

        fn leave(&self, _: u32) {}
    }

    fn of_mute_servers(runtime: Handle) -> Rc<Sizes> {
        let records = Records::new(Handle::clone(&runtime), 1);
        Sizes::new(runtime, Rc::new(Mute), records, FileId(2))
    }

    /// One server has fallen silent, and then another one does, on which all files lie, too: questions that nobody
    /// waits for any more are not kept for it.
    #[test]
    fn questions_to_a_second_silent_server_do_not_pile_up() {
        let world = World::new(1);
        let node = world.add_node("manager");
        let done = world.run(async move {
            let sizes = of_mute_servers(node.runtime());
            let intents = Intents::new(Vec::new());
            let layout = |groups| LayoutRecord { unit: 4096, groups };
            let first = sizes.of(FileId(2), &layout(vec![0]), &intents).await;
            assert_eq!(first.err(), Some(Status::Jukebox));
            for _ in 0..2000 {
                let _ = sizes.of(FileId(3), &layout(vec![0, 1]), &intents).await;
            }
            let queues = sizes.queues.borrow();
            (queues[&0].waiting.len(), queues[&1].waiting.len())
        });
        let (first, second) = done.unwrap();
        assert!(
            first <= 4 * OBJECTS_MAX && second <= 4 * OBJECTS_MAX,
            "{first} and {second} questions are kept"
        );
    }

    /// A grant that is in no list because the list is full. Its client may die before it commits its bytes.
    #[test]
    fn bytes_of_an_unlisted_grant_are_committed_before_their_size_settles() {
        let world = World::new(1);
        let node = world.add_node("manager");
        let done = world.run(async move {
            let runtime = node.runtime();
            let sizes = of_mute_servers(Handle::clone(&runtime));
            for file in 0..GRANTS_MAX as u64 {
                sizes.grant(FileId(10 + file), 1);
            }
            let (listed, unlisted) = (FileId(10), FileId(10 + GRANTS_MAX as u64));
            let newer = FileId(unlisted.0 + 1);
            sizes.grant(unlisted, 1);
            assert!(sizes.is_writable(unlisted));
            gannet_runtime::sleep(&runtime, GRANT_AGE).await;
            [listed, unlisted, newer]
                .map(|file| (sizes.is_writable(file), sizes.may_be_unstable(file)))
        });
        assert_eq!(
            done.unwrap(),
            [(false, true), (false, true), (false, false)]
        );
    }

    /// Many questions at a time to a server that is silent: they take as long as the same ones before that was known.
    #[test]
    fn questions_to_a_silent_server_cost_no_more_than_others() {
        let world = World::new(1);
        let node = world.add_node("manager");
        let done = world.run(async move {
            let sizes = of_mute_servers(node.runtime());
            let intents = Intents::new(Vec::new());
            let layout = LayoutRecord {
                unit: 4096,
                groups: vec![0],
            };
            let mut took = Vec::new();
            for _ in 0..2 {
                let began = std::time::Instant::now();
                let asked =
                    (0..20_000).map(|file| Box::pin(sizes.of(FileId(file), &layout, &intents)));
                all(asked).await;
                took.push(began.elapsed());
            }
            took
        });
        let took = done.unwrap();
        // It was a hundred times as long.
        assert!(took[1] < 20 * took[0], "{took:?}");
    }
}
