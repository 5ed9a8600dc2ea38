//! The numbers by which the kernel knows objects, for as long as it does.
//!
//! An object's number is its fileid, which programs see as the inode number, so that it stays the same when the kernel
//! forgets the object and asks again. Where two live objects would have the same (one was removed and its fileid given
//! away again, or the export spans file systems), the later one gets a number of our own. Each time the table takes an
//! object in, it has another generation.
//!
//! A kernel that caches writes believes itself about the size and times of a file, whatever we say. A file that
//! somebody else has changed must therefore become another inode: a lookup that finds it changed while nobody has it
//! open here gives it another number, and the one before is replaced: it cannot be opened any more. (Another generation
//! of the same number would do, but whatever was still on its way with the one before would fail with EIO.) What the
//! kernel believes is in `Inode::seen`. Programs go on seeing the number that the file had first.
//!
//! Answers of the store overtake each other. Attributes that were asked for before something newer was learnt of an
//! object (a write of our own, say) may be those from before it, and count for nothing: see [`Epoch`].

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
/// In place of a process, where none was refused anything.
pub(crate) const NOBODY: u32 = u32::MAX;
/// Numbers of our own have this bit; fileids that have it are not used as numbers.
pub(crate) const OWN: u64 = 1 << 63;

/// What shows that the data of a file has changed.
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

/// The logical time at which the store was asked for attributes: facts of a later epoch may be newer than they are.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Epoch(u64);

/// An object that the kernel knows.
pub(crate) struct Inode {
    pub(crate) handle: FileHandle,
    /// What programs see as its number.
    pub(crate) shown: u64,
    generation: u64,
    /// Another number stands for the object now.
    is_replaced: bool,
    /// It grew past the kernel's cache.
    is_appended: bool,
    /// How often the kernel was told of it and has not forgotten it since.
    lookups: u64,
    /// How often it is open.
    opens: u64,
    /// How many opens of it are being done.
    opening: u64,
    /// How many last closes are being done: what is kept of it may be on its way.
    closing: u64,
    /// What the kernel believes of a regular file.
    seen: Option<Seen>,
    /// When that was learnt.
    seen_at: Epoch,
    /// Its only name, after it was removed while open.
    pub(crate) hidden: Option<Hidden>,
    /// Who opened it last for writing.
    pub(crate) writer: Option<Credentials>,
    pub(crate) unstable: Rc<Unstable>,
}

/// What is remembered of a file when it is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Opened {
    /// What the kernel has cached of it is good.
    Unchanged,
    /// What the kernel has cached of it is not.
    Changed,
    /// The kernel must look it up again first.
    Outdated,
}

/// A hidden name that is to go.
#[derive(Debug)]
#[allow(clippy::large_enum_variant)] // It lives for as long as it takes to look at it.
pub(crate) enum TakenHidden {
    /// There is none, or its file is open: the last close takes it.
    None,
    /// Somebody is about to open the file.
    Awaited,
    /// Nobody has the file in use.
    Free(Hidden),
}

/// All objects that the kernel knows.
pub(crate) struct Inodes {
    /// In order, so that a run of the simulator can be repeated.
    by_number: BTreeMap<u64, Inode>,
    by_handle: HashMap<FileHandle, u64>,
    /// The kernel believes itself about files.
    kernel_caches: bool,
    own_made: u64,
    generations: u64,
    opens: u64,
    /// Opens that are being done, of all files.
    openings: u64,
    last: Epoch,
    /// Objects that the kernel forgot lately, and when something was learnt of them last; the oldest first.
    forgotten: VecDeque<(FileHandle, Epoch)>,
    /// Processes whose open was refused: the kernel will look the file up and come back.
    refused: BTreeMap<u32, Refused>,
    /// What is kept of objects until COMMITs, whatever numbers they have.
    unstable: HashMap<FileHandle, Weak<Unstable>>,
}

/// A request of a process was refused with `ESTALE`, since the file has changed or is gone. The kernel looks the path
/// up once more, and the process comes back; a second refusal would be the program's to handle.
struct Refused {
    /// The file, if it has changed.
    handle: Option<FileHandle>,
    since: Instant,
    /// The number that a lookup has told it last, and when.
    reported: Option<(u64, Instant)>,
}

/// What becomes of a file that lost its only name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    /// It is open, and stays until its last close.
    Open,
    /// A process is about to open the file with this number.
    Awaited(u64),
    /// Nobody asks for it any more.
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

    /// From now on this number stands for the object, which programs see under the other one.
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

    /// The same, to be changed.
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

    /// The present: to be remembered before the store is asked for attributes.
    pub(crate) fn epoch(&self) -> Epoch {
        self.last
    }

    /// True when attributes of an object that were asked for at `asked` may be older than what is known of it.
    pub(crate) fn knows_better(&self, handle: &FileHandle, asked: Epoch) -> bool {
        match self.number(handle).and_then(|number| self.inode(number)) {
            Some(inode) => inode.seen_at > asked,
            None => {
                let mut lately = self.forgotten.iter();
                lately.any(|(forgotten, seen_at)| forgotten == handle && *seen_at > asked)
            }
        }
    }

    /// A file has these attributes, by the store's own account.
    fn learn(&mut self, number: u64, attributes: &Attributes) {
        let known = self.inode(number).and_then(|inode| inode.seen);
        // Attributes that repeat the reported ones are not newer: they must not overtake others.
        if known != Some(Seen::of(attributes)) {
            self.changed(number, attributes);
        }
    }

    /// The kernel is told of an object by its name, for a process: its number and generation. Counts as one lookup.
    pub(crate) fn report(
        &mut self,
        handle: &FileHandle,
        (attributes, asked): (&Attributes, Epoch),
        (asker, now): (u32, Instant),
    ) -> (u64, u64) {
        let number = match self.number(handle) {
            Some(number) => number,
            None => {
                let number = self.new_number(attributes.fileid);
                self.add(number, *handle, number);
                number
            }
        };
        let is_old = self.inode(number).is_some_and(|it| it.seen_at > asked);
        let is_outdated = !is_old && self.is_outdated(handle, attributes);
        let number = match is_outdated && !self.is_awaited(number, now) {
            true => self.replace(number, attributes),
            false => number,
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

    /// Somebody who was refused has just been told this number, and is about to open it: he must not be refused again.
    fn is_awaited(&self, number: u64, now: Instant) -> bool {
        self.is_awaited_for(number, now, RETURN_AGE)
    }

    /// Somebody who was refused has been told this number less than `age` ago, and has not come back yet.
    fn is_awaited_for(&self, number: u64, now: Instant, age: Duration) -> bool {
        let awaited = |refused: &Refused| {
            (refused.reported)
                .is_some_and(|(reported, when)| reported == number && now < when + age)
        };
        self.refused.values().any(awaited)
    }

    /// A process is refused with `ESTALE`: it will look the path up once more.
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

    /// Whether a process was refused just now and has not come back yet.
    pub(crate) fn is_returning(&self, asker: u32, now: Instant) -> bool {
        let since = self.refused.get(&asker).map(|refused| refused.since);
        since.is_some_and(|since| now < since + KEPT_FOR_RETURN_AGE)
    }

    /// A process that may have been refused has learnt that what it looks up is not there.
    pub(crate) fn returned(&mut self, asker: u32) {
        self.refused.remove(&asker);
    }

    /// True when the kernel would believe wrong things of an object that has these attributes now: a lookup by name
    /// puts it right.
    pub(crate) fn is_outdated(&self, handle: &FileHandle, attributes: &Attributes) -> bool {
        let known = self.number(handle).and_then(|number| self.inode(number));
        self.kernel_caches && known.is_some_and(|inode| inode.is_outdated(attributes))
    }

    /// True when a file that is to be opened and has these attributes is open, and the kernel believes something else
    /// that is not of its own making.
    pub(crate) fn is_changed_while_open(&self, number: u64, attributes: &Attributes) -> bool {
        let differs = |inode: &Inode| inode.seen != Some(Seen::of(attributes));
        let open = self.inode(number).filter(|inode| inode.is_open());
        let others = open.filter(|inode| inode.unstable.is_empty());
        self.kernel_caches && others.is_some_and(differs)
    }

    /// A file has these attributes after the kernel itself changed it.
    pub(crate) fn changed(&mut self, number: u64, attributes: &Attributes) {
        self.last.0 += 1;
        let handle = self.inode(number).map(|inode| inode.handle);
        let number = handle
            .and_then(|handle| self.number(&handle))
            .unwrap_or(number);
        if let Some(inode) = self.by_number.get_mut(&number) {
            // The kernel believes an older time of an appended file: a lookup after its last close finds it changed.
            if !(inode.is_appended && self.kernel_caches) {
                inode.seen = Some(Seen::of(attributes));
            }
            inode.seen_at = self.last;
        }
    }

    /// A file grew past the kernel's cache.
    pub(crate) fn appended(&mut self, number: u64) {
        if let Some(inode) = self.by_number.get_mut(&number) {
            inode.is_appended = true;
        }
    }

    /// The kernel was told these attributes of an object by number.
    pub(crate) fn reported(&mut self, number: u64, (attributes, asked): (&Attributes, Epoch)) {
        let is_old = self.inode(number).is_some_and(|it| it.seen_at > asked);
        if !self.kernel_caches && !is_old {
            self.learn(number, attributes);
        }
    }

    /// A file is to be opened; it keeps its number until [`Inodes::opening_ended`].
    pub(crate) fn opening(&mut self, number: u64) {
        if let Some(inode) = self.by_number.get_mut(&number) {
            inode.opening += 1;
            self.openings += 1;
        }
    }

    /// What [`Inodes::opening`] was called for is over.
    pub(crate) fn opening_ended(&mut self, number: u64) {
        if let Some(inode) = self.by_number.get_mut(&number) {
            self.openings = self.openings.saturating_sub(1);
            inode.opening = inode.opening.saturating_sub(1);
            self.drop_unused(number);
        }
    }

    /// A file that has these attributes is to be opened by `asker`. Counts as open unless it is outdated. Who was
    /// refused once comes in: a file that changes all the time can be opened, too.
    pub(crate) fn open(
        &mut self,
        number: u64,
        attributes: &Attributes,
        (asker, now): (u32, Instant),
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

    /// A file just made was opened with that.
    pub(crate) fn open_new(&mut self, number: u64) {
        if let Some(inode) = self.by_number.get_mut(&number) {
            inode.opens += 1;
            self.opens += 1;
        }
    }

    /// An open file was closed; true when it was the last time. The object stays until [`Inodes::closed`] then: what
    /// is still being written again of it must not meet what is written to another of the same handle.
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

    /// What a last close has to do is done.
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

    /// Whether a file that loses its only name must be kept.
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
        match opening || self.is_awaited_for(number, now, KEPT_FOR_RETURN_AGE) {
            true => Kept::Awaited(number),
            false => Kept::No,
        }
    }

    /// Takes the hidden name of a file, unless somebody has the file in use.
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

    /// What was left to do for a file whose hidden name was taken is done.
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

    /// The kernel has forgotten so many lookups of an object.
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

    /// Whether the process comes back for what it was refused, or for what a lookup told it since.
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

    /// True when another number stands for the object by now.
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
