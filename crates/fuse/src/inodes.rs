//! The numbers by which the kernel knows objects, for as long as it does.
//!
//! An object's number is its fileid, which programs see as the inode number. It stays the same when the kernel forgets
//! the object and asks again. Two objects in use can have the same fileid: one was removed and its fileid used again,
//! or the export spans file systems. The later one then gets a number of this table. Each entry of the table has a
//! generation of its own.
//!
//! A kernel that caches writes ignores the sizes and times of files in replies. A file that another client has changed
//! must therefore become another inode. A lookup that finds it changed, while it is not open here, gives it another
//! number; the former number is replaced and cannot be opened. (Another generation of the same number would do, but
//! requests under way for the former one would fail with EIO.) `Inode::seen` has the kernel's state of the file.
//! Programs go on seeing the number that the file had first.
//!
//! Replies of the store overtake each other. Attributes of a request from before a later event of the object, such as
//! a write of this mount, may be older than that event. They are ignored: see [`Epoch`].

use crate::hidden::Hidden;
use crate::limits::{FORGOTTEN_MAX, KEPT_FOR_RETURN_AGE, REFUSAL_AGE, RETURN_AGE};
use crate::unstable::Unstable;
use gannet_runtime::Instant;
use gannet_vfs::{Attributes, Credentials, FileHandle, FileKind, Time};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::rc::{Rc, Weak};
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
    /// The number that programs see.
    pub(crate) shown: u64,
    generation: u64,
    /// Whether another number stands for the object now.
    is_replaced: bool,
    /// Whether the file grew past the kernel's cache.
    is_appended: bool,
    /// Number of entries in replies that the kernel has not forgotten; at 0 the kernel does not use the inode's number
    /// any more.
    lookups: u64,
    /// Number of open files of the object.
    opens: u64,
    /// Number of opens of the object under way.
    opening: u64,
    /// Number of last closes under way, during which kept writes of the object may be in transfer.
    closing: u64,
    /// Size and time of a regular file as the kernel has them.
    seen: Option<Seen>,
    /// The epoch of the last event of the object.
    seen_at: Epoch,
    /// The object's only name, after it was removed while open.
    pub(crate) hidden: Option<Hidden>,
    /// The credentials of the last open for writing.
    pub(crate) writer: Option<Credentials>,
    pub(crate) unstable: Rc<Unstable>,
}

/// The state of the kernel's cache when a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Opened {
    /// Cached pages are valid.
    Unchanged,
    /// Cached pages are invalid, and the kernel must drop them.
    Changed,
    /// The kernel must look it up again first.
    Outdated,
}

/// The hidden name of a file, where it is to be removed.
#[derive(Debug)]
#[allow(clippy::large_enum_variant)] // It is matched at once, and never stored.
pub(crate) enum TakenHidden {
    /// There is none, or its file is open: the last close removes it.
    None,
    /// A process is about to open the file.
    Awaited,
    /// The file is not in use.
    Free(Hidden),
}

/// All objects that the kernel knows.
pub(crate) struct Inodes {
    /// The map is ordered, so that a run of the simulator can be repeated.
    by_number: BTreeMap<u64, Inode>,
    by_handle: HashMap<FileHandle, u64>,
    /// The kernel caches writes, and ignores sizes and times in replies.
    kernel_caches: bool,
    own_made: u64,
    generations: u64,
    opens: u64,
    /// Opens under way, of all files.
    openings: u64,
    last: Epoch,
    /// The objects that the kernel forgot last, with the epochs of their last events, oldest first. A lookup that was
    /// sent before may still bring attributes from before such an event.
    forgotten: VecDeque<(FileHandle, Epoch)>,
    /// Processes whose request got `ESTALE`: the kernel looks the path up and sends the request again.
    refused: BTreeMap<u32, Refused>,
    /// Kept writes by object. A file that gets another number keeps them: with two lists, a resend from the older one
    /// could overwrite writes of the newer.
    unstable: HashMap<FileHandle, Weak<Unstable>>,
}

/// A request of a process that got `ESTALE`, since the file was changed or removed. The kernel looks the path up and
/// repeats the request once; a second `ESTALE` would reach the program.
struct Refused {
    /// The file, if it has changed.
    handle: Option<FileHandle>,
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
    pub(crate) fn new(root: FileHandle, kernel_caches: bool) -> Inodes {
        let mut inodes = Inodes {
            by_number: BTreeMap::new(),
            by_handle: HashMap::new(),
            kernel_caches,
            own_made: 0,
            generations: 0,
            opens: 0,
            openings: 0,
            last: Epoch(0),
            forgotten: VecDeque::new(),
            refused: BTreeMap::new(),
            unstable: HashMap::new(),
        };
        inodes.add(ROOT, root, ROOT);
        inodes
    }

    /// Enters an object under `number`, with the number `shown` for programs. Kept writes of the object go on.
    fn add(&mut self, number: u64, handle: FileHandle, shown: u64) {
        self.generations += 1;
        let known = self.unstable.get(&handle).and_then(Weak::upgrade);
        let unstable = known.unwrap_or_default();
        self.unstable.insert(handle, Rc::downgrade(&unstable));
        let inode = Inode {
            handle,
            shown,
            generation: self.generations,
            is_replaced: false,
            is_appended: false,
            lookups: 0,
            opens: 0,
            opening: 0,
            closing: 0,
            seen: None,
            seen_at: Epoch(0),
            hidden: None,
            writer: None,
            unstable,
        };
        self.by_number.insert(number, inode);
        self.by_handle.insert(handle, number);
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
            None => {
                let mut lately = self.forgotten.iter();
                lately.any(|(forgotten, seen_at)| forgotten == handle && *seen_at > asked)
            }
        }
    }

    /// Records attributes of a file that the store reported.
    fn learn(&mut self, number: u64, attributes: &Attributes) {
        let known = self.inode(number).and_then(|inode| inode.seen);
        // Attributes that repeat the reported ones are not newer: they must not overtake others.
        if known != Some(Seen::of(attributes)) {
            self.changed(number, attributes);
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
        let Fetched { attributes, asked } = fetched;
        let number = match self.number(handle) {
            Some(number) => number,
            None => {
                let number = self.new_number(attributes.fileid);
                self.add(number, *handle, number);
                number
            }
        };
        let is_old = self.inode(number).is_some_and(|it| it.seen_at > *asked);
        let is_outdated = !is_old && self.is_outdated(handle, attributes);
        // An awaited number stays: the process that comes back with it would get `ESTALE` a second time.
        let number = if is_outdated && !self.is_awaited(number, now) {
            self.replace(number, attributes)
        } else {
            number
        };
        let is_new = self.inode(number).is_some_and(|it| it.seen.is_none());
        if is_new || !is_old && !self.kernel_caches {
            self.learn(number, attributes);
        }
        if let Some(refused) = self.refused.get_mut(&asker) {
            refused.reported = Some((number, now));
        }
        let Some(inode) = self.by_number.get_mut(&number) else {
            unreachable!("it is in the table, or was just put there");
        };
        inode.lookups += 1;
        (number, inode.generation)
    }

    /// Another number for an object that has these attributes now.
    fn replace(&mut self, number: u64, attributes: &Attributes) -> u64 {
        let Some(before) = self.by_number.get_mut(&number) else {
            return number;
        };
        before.is_replaced = true;
        let (handle, shown, writer) = (before.handle, before.shown, before.writer.clone());
        let number = self.new_number(attributes.fileid);
        self.add(number, handle, shown);
        if let Some(inode) = self.by_number.get_mut(&number) {
            inode.writer = writer;
        }
        number
    }

    /// True if a process that got `ESTALE` has looked up this number and is about to open it.
    fn is_awaited(&self, number: u64, now: Instant) -> bool {
        self.is_awaited_for(number, now, RETURN_AGE)
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
    pub(crate) fn refuse(&mut self, asker: u32, handle: Option<FileHandle>, now: Instant) {
        let refused = Refused {
            handle,
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

    /// True when the kernel's state of an object differs from these attributes; a lookup by name replaces its number.
    pub(crate) fn is_outdated(&self, handle: &FileHandle, attributes: &Attributes) -> bool {
        let known = self.number(handle).and_then(|number| self.inode(number));
        self.kernel_caches && known.is_some_and(|inode| inode.is_outdated(attributes))
    }

    /// True when a file is open here, and another client's change has given it these attributes. Kept writes of this
    /// mount would explain a difference too, so a file with any is not reported.
    pub(crate) fn is_changed_while_open(&self, number: u64, attributes: &Attributes) -> bool {
        let differs = |inode: &Inode| inode.seen != Some(Seen::of(attributes));
        let open = self.inode(number).filter(|inode| inode.is_open());
        let others = open.filter(|inode| inode.unstable.is_empty());
        self.kernel_caches && others.is_some_and(differs)
    }

    /// Records attributes of a file after a change by this mount, as its latest event.
    pub(crate) fn changed(&mut self, number: u64, attributes: &Attributes) {
        self.last.0 += 1;
        let handle = self.inode(number).map(|inode| inode.handle);
        let number = handle
            .and_then(|handle| self.number(&handle))
            .unwrap_or(number);
        if let Some(inode) = self.by_number.get_mut(&number) {
            // The kernel keeps an older time of an appended file: a lookup after its last close finds it changed.
            if !(inode.is_appended && self.kernel_caches) {
                inode.seen = Some(Seen::of(attributes));
            }
            inode.seen_at = self.last;
        }
    }

    /// Records that a file grew past the kernel's cache.
    pub(crate) fn appended(&mut self, number: u64) {
        if let Some(inode) = self.by_number.get_mut(&number) {
            inode.is_appended = true;
        }
    }

    /// Records attributes that a reply to GETATTR carries.
    pub(crate) fn reported(&mut self, number: u64, fetched: &Fetched) {
        let is_old = (self.inode(number)).is_some_and(|it| it.seen_at > fetched.asked);
        if !self.kernel_caches && !is_old {
            self.learn(number, &fetched.attributes);
        }
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

    /// Opens a file that has these attributes for the process `asker`. It counts as open unless it is outdated. A
    /// process that got `ESTALE` once is admitted, so that a file with constant changes can be opened.
    pub(crate) fn open(
        &mut self,
        number: u64,
        attributes: &Attributes,
        asker: u32,
        now: Instant,
    ) -> Opened {
        let Some(inode) = self.by_number.get_mut(&number) else {
            return Opened::Outdated;
        };
        let handle = inode.handle;
        let refused = self.refused.remove(&asker);
        let refused = refused.filter(|refused| refused.is_recent(now));
        let was_refused = refused.is_some_and(|refused| refused.is_about(number, &handle));
        let opened = match inode.seen {
            _ if inode.is_replaced => Opened::Outdated,
            Some(known) if known == Seen::of(attributes) => Opened::Unchanged,
            Some(_) if inode.opens > 0 || was_refused => Opened::Changed,
            Some(_) => Opened::Outdated,
            None => Opened::Changed,
        };
        if opened == Opened::Outdated {
            self.refuse(asker, Some(handle), now);
            return opened;
        }
        inode.opens += 1;
        self.opens += 1;
        if !self.kernel_caches || inode.seen.is_none() {
            self.learn(number, attributes);
        }
        opened
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

    fn drop_unused(&mut self, number: u64) {
        let unused = self.inode(number).filter(|inode| !inode.is_used());
        let Some((handle, seen_at)) = unused.map(|inode| (inode.handle, inode.seen_at)) else {
            return;
        };
        if number == ROOT {
            return;
        }
        self.by_number.remove(&number);
        if self.forgotten.len() >= FORGOTTEN_MAX {
            self.forgotten.pop_front();
        }
        self.forgotten.push_back((handle, seen_at));
        if self.number(&handle) == Some(number) {
            self.by_handle.remove(&handle);
        }
        if (self.unstable.get(&handle)).is_some_and(|known| known.strong_count() == 0) {
            self.unstable.remove(&handle);
        }
    }
}

impl Refused {
    fn is_recent(&self, now: Instant) -> bool {
        now < self.since + REFUSAL_AGE
    }

    /// True if the process comes back for the file of its `ESTALE`, or for the number of its last lookup.
    fn is_about(&self, number: u64, handle: &FileHandle) -> bool {
        self.handle.as_ref() == Some(handle)
            || self
                .reported
                .is_some_and(|(reported, _)| reported == number)
    }
}

impl Inode {
    pub(crate) fn is_open(&self) -> bool {
        self.opens > 0
    }

    /// True when the object has another number now; this one cannot be opened.
    pub(crate) fn is_replaced(&self) -> bool {
        self.is_replaced
    }

    fn is_used(&self) -> bool {
        [self.lookups, self.opens, self.opening, self.closing] != [0; 4] || self.hidden.is_some()
    }

    fn is_outdated(&self, attributes: &Attributes) -> bool {
        attributes.kind == FileKind::Regular
            && (self.opens, self.opening) == (0, 0)
            && self.seen.is_some_and(|seen| seen != Seen::of(attributes))
    }
}

#[cfg(test)]
mod tests;
