//! The numbers by which the kernel knows objects, for as long as it does.
//!
//! An object's number is its fileid, which programs see as the inode number. It stays the same when the kernel forgets
//! the object and asks again. Two objects in use can have the same fileid: one was removed and its fileid used again,
//! or the export spans file systems. The later one then gets a number of this table. Each entry of the table has a
//! generation of its own.
//!
//! The kernel caches pages for reads, and takes size and times from every reply. The pages are this mount's business:
//! `Inode::seen` has the state of the file that they are of. A reply that shows another state, which no write of this
//! mount explains, makes them stale: they are dropped before anybody sees that reply.
//!
//! Replies of the store overtake each other. Attributes of a request from before a later event of the object, such as
//! a write of this mount, may be older than that event. They are ignored: see [`Epoch`].

use crate::hidden::Hidden;
use crate::limits::{FORGOTTEN_MAX, KEPT_FOR_RETURN_AGE, OWN_CHANGES_MAX, REFUSAL_AGE, SHRINK_MIN};
use gannet_client::write_behind::{FileTable, FileWrites};
use gannet_runtime::Instant;
use gannet_vfs::{Attributes, FileHandle, FileKind, Time, Wcc, WccBefore};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

/// The number of the directory that is mounted.
pub(crate) const ROOT: u64 = 1;
/// A number in place of a process, for requests after which no process comes back.
pub(crate) const NOBODY: u32 = u32::MAX;
/// Numbers of the table's own have this bit; fileids that have it are not used as numbers.
pub(crate) const OWN: u64 = 1 << 63;

/// The attributes that show a change of a file's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    size: u64,
    modify_time: Time,
}

impl Seen {
    fn of(attributes: &Attributes) -> Seen {
        Seen {
            size: attributes.size,
            modify_time: attributes.modify_time,
        }
    }

    fn before(before: &WccBefore) -> Seen {
        Seen {
            size: before.size,
            modify_time: before.modify_time,
        }
    }
}

/// A change by this mount, which the store answered.
#[derive(Debug, Clone, Copy)]
struct OwnChange {
    before: Seen,
    after: Seen,
}

/// The logical time at which the store was asked for attributes. Later events may be newer than these attributes.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Epoch(u64);

/// Attributes that the store reported, with the epoch of the request for them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fetched {
    pub(crate) attributes: Attributes,
    /// The epoch before the request was sent.
    pub(crate) asked: Epoch,
}

/// An object that the kernel knows.
pub(crate) struct Inode {
    pub(crate) handle: FileHandle,
    generation: u64,
    /// Number of entries in replies that the kernel has not forgotten; at 0 the kernel does not use the inode's number
    /// any more.
    lookups: u64,
    /// Number of open files of the object.
    opens: u64,
    /// Number of opens of the object under way.
    opening: u64,
    /// Number of last closes under way, during which kept writes of the object may be in transfer.
    closing: u64,
    /// The state of a regular file that the kernel's pages are of.
    seen: Option<Seen>,
    /// Changes by this mount that do not follow `seen` yet: replies overtake each other.
    own_changes: Vec<OwnChange>,
    /// How often the kernel's pages became older than `seen`.
    stale: u64,
    /// The value of `stale` when pages were last dropped: equal to it, the pages are good.
    dropped: u64,
    /// The change id of the object when the kernel's pages were last checked, where the store has such ids of its own.
    /// All pages that the kernel keeps are of that state or a later one.
    checked_at: Option<u64>,
    /// The epoch of the last event of the object.
    seen_at: Epoch,
    /// The set-user-ID or set-group-ID bit of a regular file was in the last attributes that the kernel got.
    pub(crate) sets_id: bool,
    /// The object's only name, after it was removed while open.
    pub(crate) hidden: Option<Box<Hidden>>,
    /// Its writes; `None` for most files that are not open. Mounts of large trees have many of those.
    unstable: Option<Rc<FileWrites>>,
}

/// The hidden name of a file, where it is to be removed.
#[derive(Debug)]
pub(crate) enum TakenHidden {
    /// There is none, or its file is open: the last close removes it.
    None,
    /// A process is about to open the file.
    Awaited,
    /// The file is not in use.
    Free(Box<Hidden>),
}

/// All objects that the kernel knows.
pub(crate) struct Inodes {
    /// The map is ordered, so that a run of the simulator can be repeated.
    by_number: BTreeMap<u64, Inode>,
    by_handle: HashMap<FileHandle, u64>,
    own_made: u64,
    generations: u64,
    opens: u64,
    /// Opens under way, of all files.
    openings: u64,
    last: Epoch,
    /// The objects that the kernel forgot last, with the epochs of their last events, oldest first. A lookup that was
    /// sent before may still bring attributes from before such an event.
    forgotten: VecDeque<(FileHandle, Epoch)>,
    /// No object that was forgotten earlier had a later event.
    forgotten_before: Epoch,
    /// Processes whose request got `ESTALE`: the kernel looks the path up and sends the request again.
    refused: BTreeMap<u32, Refused>,
    /// Kept writes by object. A file that gets another number keeps them.
    written: FileTable,
}

/// A request of a process that got `ESTALE`, since the file was removed. The kernel looks the path up and
/// repeats the request once; a second `ESTALE` would reach the program.
struct Refused {
    since: Instant,
    /// The number that its last lookup gave, and when.
    reported: Option<(u64, Instant)>,
}

/// The fate of a file that lost its only name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    /// It is open, and stays until its last close.
    Open,
    /// A process is about to open the file with this number.
    Awaited(u64),
    /// It is not in use, and the store may delete it.
    No,
}

impl Inodes {
    pub(crate) fn new(root: FileHandle) -> Inodes {
        let mut inodes = Inodes {
            by_number: BTreeMap::new(),
            by_handle: HashMap::new(),
            own_made: 0,
            generations: 0,
            opens: 0,
            openings: 0,
            last: Epoch(0),
            forgotten: VecDeque::new(),
            forgotten_before: Epoch(0),
            refused: BTreeMap::new(),
            written: FileTable::default(),
        };
        inodes.add(ROOT, root);
        inodes
    }

    /// Enters an object under `number`. Kept writes of the object go on.
    fn add(&mut self, number: u64, handle: FileHandle) {
        self.generations += 1;
        let unstable = self.written.known(&handle);
        (unstable.iter()).for_each(|file| file.set_number(number));
        let inode = Inode {
            handle,
            generation: self.generations,
            lookups: 0,
            opens: 0,
            opening: 0,
            closing: 0,
            seen: None,
            own_changes: Vec::new(),
            stale: 0,
            dropped: 0,
            checked_at: None,
            seen_at: self.forgotten_at(&handle),
            sets_id: false,
            hidden: None,
            unstable,
        };
        self.by_number.insert(number, inode);
        self.by_handle.insert(handle, number);
    }

    /// The table of files with writes.
    pub(crate) fn written(&self) -> FileTable {
        self.written.clone()
    }

    /// The writes of a file that the kernel knows.
    pub(crate) fn unstable(&mut self, number: u64) -> Option<Rc<FileWrites>> {
        let inode = self.by_number.get_mut(&number)?;
        if inode.unstable.is_none() {
            let file = self.written.file(&inode.handle);
            file.set_number(number);
            inode.unstable = Some(file);
        }
        inode.unstable.as_ref().map(Rc::clone)
    }

    /// Notes the mode of a file that the kernel gets; true if its set-ID bits go with a write.
    pub(crate) fn note_mode(&mut self, number: u64, attributes: &Attributes) -> bool {
        let sets_id = attributes.kind == FileKind::Regular && attributes.mode & 0o6000 != 0;
        if let Some(inode) = self.by_number.get_mut(&number) {
            inode.sets_id = sets_id;
        }
        sets_id
    }

    /// The object with this number, if the kernel knows it.
    pub(crate) fn inode(&self, number: u64) -> Option<&Inode> {
        self.by_number.get(&number)
    }

    pub(crate) fn inode_mut(&mut self, number: u64) -> Option<&mut Inode> {
        self.by_number.get_mut(&number)
    }

    /// The number of an object that the kernel knows.
    pub(crate) fn number(&self, handle: &FileHandle) -> Option<u64> {
        self.by_handle.get(handle).copied()
    }

    /// All objects that the kernel knows.
    pub(crate) fn all(&self) -> impl Iterator<Item = (u64, &Inode)> {
        self.by_number
            .iter()
            .map(|(number, inode)| (*number, inode))
    }

    /// As [`Inodes::all`], for changes.
    pub(crate) fn all_mut(&mut self) -> impl Iterator<Item = (u64, &mut Inode)> {
        self.by_number
            .iter_mut()
            .map(|(number, inode)| (*number, inode))
    }

    fn new_number(&mut self, fileid: u64) -> u64 {
        let usable = fileid > ROOT && fileid & OWN == 0;
        if usable && !self.by_number.contains_key(&fileid) {
            return fileid;
        }
        self.own_made += 1;
        OWN | self.own_made
    }

    /// The present epoch. Read it before the request: one read after the wait would make old attributes look new.
    pub(crate) fn epoch(&self) -> Epoch {
        self.last
    }

    /// True when attributes of an object that were asked for at `asked` may be older than its last event.
    pub(crate) fn knows_better(&self, handle: &FileHandle, asked: Epoch) -> bool {
        match self.number(handle).and_then(|number| self.inode(number)) {
            Some(inode) => inode.seen_at > asked,
            None => self.forgotten_at(handle) > asked,
        }
    }

    /// The epoch of the last event of an object that the kernel has forgotten, or a later one.
    fn forgotten_at(&self, handle: &FileHandle) -> Epoch {
        let lately = self
            .forgotten
            .iter()
            .filter(|(forgotten, _)| forgotten == handle);
        let last = lately.map(|(_, seen_at)| *seen_at).max();
        last.unwrap_or(self.forgotten_before)
    }

    /// Records attributes that a reply shows. The kernel's pages are stale if they are of another state; while this
    /// mount's own writes are under way, only those are judged (by [`Inodes::own_change`]).
    pub(crate) fn learn(&mut self, number: u64, fetched: &Fetched) {
        let Some(inode) = self.by_number.get_mut(&number) else {
            return;
        };
        let state = Seen::of(&fetched.attributes);
        if inode.seen_at > fetched.asked || inode.seen == Some(state) || inode.is_written() {
            // Attributes that repeat the known ones are not newer: they must not overtake others.
            return;
        }
        let has_pages = inode.seen.is_some() && fetched.attributes.kind == FileKind::Regular;
        inode.stale += u64::from(has_pages);
        inode.own_changes.clear();
        self.last.0 += 1;
        inode.seen = Some(state);
        inode.seen_at = self.last;
    }

    /// Records a change by this mount, as the latest event of its file. It explains the state after it if the store
    /// knows the state before, and that is the state of the kernel's pages. Otherwise somebody else may have changed
    /// the file too.
    pub(crate) fn own_change(&mut self, number: u64, wcc: &Wcc) {
        self.last.0 += 1;
        let Some(inode) = self.by_number.get_mut(&number) else {
            return;
        };
        inode.seen_at = self.last;
        let Some(after) = &wcc.after else {
            return;
        };
        let after = Seen::of(after);
        if let Some(before) = &wcc.before {
            let before = Seen::before(before);
            if inode.own_changes.len() >= OWN_CHANGES_MAX {
                inode.own_changes.remove(0);
            }
            inode.own_changes.push(OwnChange { before, after });
        } else {
            inode.stale += u64::from(inode.seen.is_some_and(|seen| seen != after));
            inode.seen = Some(after);
        }
        while let Some(next) = (inode.own_changes.iter())
            .position(|change| inode.seen.is_none_or(|seen| seen == change.before))
        {
            inode.seen = Some(inode.own_changes.remove(next).after);
        }
    }

    /// A mark for [`Inodes::dropped`], if the kernel's pages of a file must be dropped before a reply shows its
    /// attributes.
    pub(crate) fn stale(&self, number: u64) -> Option<u64> {
        let inode = self.inode(number)?;
        (inode.stale != inode.dropped).then_some(inode.stale)
    }

    /// Notes the change id of a file whose pages are checked now; true if the pages may be of another one.
    pub(crate) fn check_change_id(&mut self, number: u64, change_id: u64) -> bool {
        let inode = self.by_number.get_mut(&number);
        inode.is_some_and(|inode| inode.checked_at.replace(change_id) != Some(change_id))
    }

    /// Marks the kernel's pages of a file as stale.
    pub(crate) fn set_stale(&mut self, number: u64) {
        if let Some(inode) = self.by_number.get_mut(&number) {
            inode.stale += 1;
        }
    }

    /// The kernel has dropped the pages of a file that were stale at `mark`.
    pub(crate) fn dropped(&mut self, number: u64, mark: u64) {
        if let Some(inode) = self.by_number.get_mut(&number) {
            inode.dropped = inode.dropped.max(mark);
        }
    }

    /// The number and generation of an object for a reply to a process. It counts as one lookup, as the kernel counts
    /// the reply: a number that is not sent must be forgotten, or its entry stays for ever.
    pub(crate) fn report(
        &mut self,
        handle: &FileHandle,
        fetched: &Fetched,
        asker: u32,
        now: Instant,
    ) -> (u64, u64) {
        let number = match self.number(handle) {
            Some(number) => number,
            None => {
                let number = self.new_number(fetched.attributes.fileid);
                self.add(number, *handle);
                number
            }
        };
        self.learn(number, fetched);
        if let Some(refused) = self.refused.get_mut(&asker) {
            refused.reported = Some((number, now));
        }
        let Some(inode) = self.by_number.get_mut(&number) else {
            unreachable!("it is in the table, or was just put there");
        };
        inode.lookups += 1;
        (number, inode.generation)
    }

    /// True if a process that got `ESTALE` looked up this number less than `age` ago, and has not come back.
    fn is_awaited_for(&self, number: u64, now: Instant, age: Duration) -> bool {
        let awaited = |refused: &Refused| {
            (refused.reported)
                .is_some_and(|(reported, when)| reported == number && now < when + age)
        };
        self.refused.values().any(awaited)
    }

    /// Records that a process gets `ESTALE`. Old records are dropped here, which bounds their number.
    pub(crate) fn refuse(&mut self, asker: u32, now: Instant) {
        let refused = Refused {
            since: now,
            reported: None,
        };
        if asker == NOBODY {
            return;
        }
        self.refused.retain(|_, refused| refused.is_recent(now));
        self.refused.insert(asker, refused);
    }

    /// True if a process got `ESTALE` less than [`KEPT_FOR_RETURN_AGE`] ago and has not come back.
    pub(crate) fn is_returning(&self, asker: u32, now: Instant) -> bool {
        let since = self.refused.get(&asker).map(|refused| refused.since);
        since.is_some_and(|since| now < since + KEPT_FOR_RETURN_AGE)
    }

    /// Drops the record of a process whose lookup failed: it will not repeat its request.
    pub(crate) fn returned(&mut self, asker: u32) {
        self.refused.remove(&asker);
    }

    /// Begins an open of a file, whose entry and number stay until [`Inodes::opening_ended`].
    pub(crate) fn opening(&mut self, number: u64) {
        if let Some(inode) = self.by_number.get_mut(&number) {
            inode.opening += 1;
            self.openings += 1;
        }
    }

    /// Ends an open that [`Inodes::opening`] began, be it done or dropped.
    pub(crate) fn opening_ended(&mut self, number: u64) {
        if let Some(inode) = self.by_number.get_mut(&number) {
            self.openings = self.openings.saturating_sub(1);
            inode.opening = inode.opening.saturating_sub(1);
            self.drop_unused(number);
        }
    }

    /// Opens a file for the process `asker`. False if the kernel has forgotten it.
    pub(crate) fn open(&mut self, number: u64, asker: u32) -> bool {
        self.refused.remove(&asker);
        let Some(inode) = self.by_number.get_mut(&number) else {
            return false;
        };
        inode.opens += 1;
        self.opens += 1;
        true
    }

    /// Counts the open of a file that CREATE has just made.
    pub(crate) fn open_new(&mut self, number: u64) {
        if let Some(inode) = self.by_number.get_mut(&number) {
            inode.opens += 1;
            self.opens += 1;
        }
    }

    /// Closes an open file; true for the last one. The object then stays until [`Inodes::closed`]: without it a new
    /// entry of the same handle would have its own kept writes, and a resend under way could overwrite newer bytes.
    pub(crate) fn close(&mut self, number: u64) -> bool {
        self.opens = self.opens.saturating_sub(1);
        let Some(inode) = self.by_number.get_mut(&number) else {
            return false;
        };
        inode.opens = inode.opens.saturating_sub(1);
        let is_last = inode.opens == 0;
        inode.closing += u64::from(is_last);
        is_last
    }

    /// Ends a last close, after its commit.
    pub(crate) fn closed(&mut self, number: u64) {
        if let Some(inode) = self.by_number.get_mut(&number) {
            inode.closing = inode.closing.saturating_sub(1);
            inode.shrink();
            self.drop_unused(number);
        }
    }

    /// True when any file is open, or may be about to.
    pub(crate) fn any_in_use(&self) -> bool {
        self.opens > 0 || self.openings > 0 || !self.refused.is_empty()
    }

    /// Decides whether a file that loses its only name must be kept.
    pub(crate) fn is_kept(&self, handle: &FileHandle, now: Instant) -> Kept {
        let Some(number) = self.number(handle) else {
            return Kept::No;
        };
        let (open, opening) = self
            .inode(number)
            .map_or((false, false), |inode| (inode.is_open(), inode.opening > 0));
        if open {
            return Kept::Open;
        }
        if opening || self.is_awaited_for(number, now, KEPT_FOR_RETURN_AGE) {
            Kept::Awaited(number)
        } else {
            Kept::No
        }
    }

    /// Takes the hidden name of a file that is not in use. Only one caller gets it, so the name is removed once.
    pub(crate) fn take_hidden(&mut self, number: u64, now: Instant) -> TakenHidden {
        let is_awaited = self.is_awaited_for(number, now, KEPT_FOR_RETURN_AGE);
        let Some(inode) = self.by_number.get_mut(&number) else {
            return TakenHidden::None;
        };
        if inode.hidden.is_none() || inode.is_open() {
            return TakenHidden::None;
        }
        if inode.opening > 0 || is_awaited {
            return TakenHidden::Awaited;
        }
        let hidden = inode.hidden.take();
        hidden.map_or(TakenHidden::None, TakenHidden::Free)
    }

    /// Drops the entry of a file whose hidden name was taken, if the kernel does not use it.
    pub(crate) fn unhidden(&mut self, number: u64) {
        self.drop_unused(number);
    }

    /// The number of an object, if it is open.
    pub(crate) fn open_number(&self, handle: &FileHandle) -> Option<u64> {
        let number = self.number(handle)?;
        self.inode(number)
            .is_some_and(Inode::is_open)
            .then_some(number)
    }

    /// Takes back `lookups` of an object that the kernel has forgotten.
    pub(crate) fn forget(&mut self, number: u64, lookups: u64) {
        let Some(inode) = self.by_number.get_mut(&number) else {
            return;
        };
        inode.lookups = inode.lookups.saturating_sub(lookups);
        self.drop_unused(number);
    }

    /// Frees room for objects that are gone; true if that was much.
    pub(crate) fn shrink(&mut self) -> bool {
        let is_large = self.by_handle.capacity() > 4 * self.by_handle.len().max(SHRINK_MIN);
        if is_large {
            self.by_handle.shrink_to_fit();
        }
        is_large
    }

    fn drop_unused(&mut self, number: u64) {
        let unused = self.inode(number).filter(|inode| !inode.is_used());
        let Some((handle, seen_at)) = unused.map(|inode| (inode.handle, inode.seen_at)) else {
            return;
        };
        if number == ROOT {
            return;
        }
        self.by_number.remove(&number);
        if self.forgotten.len() >= FORGOTTEN_MAX
            && let Some((_, seen_at)) = self.forgotten.pop_front()
        {
            self.forgotten_before = self.forgotten_before.max(seen_at);
        }
        self.forgotten.push_back((handle, seen_at));
        if self.number(&handle) == Some(number) {
            self.by_handle.remove(&handle);
        }
    }
}

impl Refused {
    fn is_recent(&self, now: Instant) -> bool {
        now < self.since + REFUSAL_AGE
    }
}

impl Inode {
    /// The writes of the file, if it has had any lately.
    pub(crate) fn unstable(&self) -> Option<&Rc<FileWrites>> {
        self.unstable.as_ref()
    }

    /// True while the store has not answered all its writes.
    fn is_written(&self) -> bool {
        (self.unstable()).is_some_and(|file| !file.is_answered())
    }

    /// Frees what only an open file needs.
    fn shrink(&mut self) {
        if self.opens > 0 || self.closing > 0 {
            return;
        }
        let is_idle =
            |unstable: &Rc<FileWrites>| Rc::strong_count(unstable) == 1 && unstable.is_idle();
        if self.unstable.as_ref().is_some_and(is_idle) {
            self.unstable = None;
        }
        self.own_changes.shrink_to_fit();
    }

    pub(crate) fn is_open(&self) -> bool {
        self.opens > 0
    }

    fn is_used(&self) -> bool {
        [self.lookups, self.opens, self.opening, self.closing] != [0; 4] || self.hidden.is_some()
    }
}

#[cfg(test)]
pub(crate) mod tests;
