//! Operations on names: looking up, making, removing, moving.

use super::{Entry, FileUse, Mounted};
use crate::convert::{Made, made};
use crate::hidden::{Hidden, HiddenName, hidden_name};
use crate::inodes::{Epoch, Fetched, Kept, NOBODY, ROOT, TakenHidden};
use crate::limits::{KEPT_FOR_RETURN_AGE, LOOKED_UP_AGAIN_MAX, UNHIDE_AGE};
use crate::status::errno;
use crate::takings::Taking;
use fuser::Errno;
use gannet_runtime::{sleep, timeout};
use gannet_vfs::{
    Attributes, Changed, CreateMode, Created, Credentials, EntryName, FileHandle, FileKind,
    SetAttributes, SetTime, Status, Vfs,
};
use std::cell::RefCell;
use std::pin::pin;
use std::rc::Rc;
use tokio::sync::Notify;

/// How a file that may exist is opened by open(2) with O_CREAT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IfThere {
    Keep,
    Truncate,
    /// O_EXCL.
    Refuse,
}

/// The effect of a name's removal on its file.
enum Taken<'a> {
    /// The last name of a file that is open here, or about to be.
    InUse(FileHandle),
    /// The last name of a file that no program here has in use, or a name that was not looked up.
    Free(#[expect(dead_code, reason = "held until the name is taken")] Taking<'a>),
    /// Nothing, a file with other names, or no file.
    Nothing,
}

/// A guard of the removal of a name whose file the store is asked to keep. If a deadline drops the removal, nobody
/// knows whether the file has the name: it is let go once no program here has it open.
struct Keeping<'a, V: Vfs> {
    mounted: &'a Rc<Mounted<V>>,
    file: FileHandle,
    is_over: bool,
}

/// Whether a file is still to be let go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LettingGo {
    Due,
    Done,
}

impl<'a, V: Vfs> Keeping<'a, V> {
    fn begin(mounted: &'a Rc<Mounted<V>>, file: FileHandle) -> Keeping<'a, V> {
        *mounted.keeping.borrow_mut().entry(file).or_default() += 1;
        Keeping {
            mounted,
            file,
            is_over: false,
        }
    }

    /// Takes note of the end of the removal.
    fn end(mut self) {
        self.is_over = true;
    }
}

impl<V: Vfs> Drop for Keeping<'_, V> {
    fn drop(&mut self) {
        let mut keeping = self.mounted.keeping.borrow_mut();
        if let Some(count) = keeping.get_mut(&self.file) {
            *count -= 1;
            if *count == 0 {
                keeping.remove(&self.file);
            }
        }
        drop(keeping);
        if !self.is_over {
            self.mounted.let_go_when_unused(self.file);
        }
    }
}

/// A guard of the removal of a hidden name. Its drop ends the removal also when a deadline drops the request.
struct Unhiding<'a> {
    under_way: &'a RefCell<Vec<FileHandle>>,
    ended: &'a Notify,
    directory: FileHandle,
}

impl Unhiding<'_> {
    fn begin<'a>(
        under_way: &'a RefCell<Vec<FileHandle>>,
        ended: &'a Notify,
        directory: FileHandle,
    ) -> Unhiding<'a> {
        under_way.borrow_mut().push(directory);
        Unhiding {
            under_way,
            ended,
            directory,
        }
    }
}

impl Drop for Unhiding<'_> {
    fn drop(&mut self) {
        let mut under_way = self.under_way.borrow_mut();
        let place = under_way.iter().position(|it| *it == self.directory);
        place.map(|place| under_way.swap_remove(place));
        drop(under_way);
        self.ended.notify_waiters();
    }
}

impl<V: Vfs> Mounted<V> {
    pub(crate) async fn lookup(
        self: &Rc<Self>,
        caller: &Credentials,
        process: u32,
        parent: u64,
        name: &[u8],
    ) -> Result<Entry, Errno> {
        let directory = self.handle(parent)?;
        let is_returning = (self.inodes.borrow()).is_returning(process, self.runtime.now());
        // A process that comes back after `ESTALE` waits for removals under way, and holds off others until its lookup
        // is recorded: from then on a removal finds the file awaited, and keeps a hidden name for the open.
        let _alone = if is_returning {
            Some(self.taking_names.write().await)
        } else if let Some(entry) = self.look_ahead(caller, process, parent, name).await {
            return Ok(entry);
        } else {
            None
        };
        self.requests.names.note(false);
        let mut again = 0..LOOKED_UP_AGAIN_MAX;
        loop {
            let looking = self.look_up_once(caller, process, &directory, name);
            let looked = looking.await;
            // The file may have been removed since the store found it, and its name may stand for another now.
            if looked.as_ref().err() == Some(&Errno::ESTALE)
                && again.next().is_some()
                && self.attributes(&directory).await.is_ok()
            {
                continue;
            }
            if looked.is_err() {
                self.inodes.borrow_mut().returned(process);
            }
            return looked;
        }
    }

    async fn look_up_once(
        &self,
        caller: &Credentials,
        process: u32,
        directory: &FileHandle,
        name: &[u8],
    ) -> Result<Entry, Errno> {
        let asked = self.epoch();
        let (found, _) = self.vfs.lookup(caller, directory, name).await;
        let (handle, attributes) = found.map_err(errno)?;
        let known = Some(Fetched { attributes, asked });
        self.report_newest(&handle, known, process).await
    }

    /// The entry of an object that a request made which was sent at `asked`.
    async fn made(&self, changed: Changed<Created>, asked: Epoch) -> Result<Entry, Errno> {
        let created = changed.result.map_err(errno)?;
        let known = (created.attributes).map(|attributes| Fetched { attributes, asked });
        self.report_newest(&created.handle, known, NOBODY).await
    }

    pub(crate) async fn make_node(
        &self,
        caller: &Credentials,
        parent: u64,
        name: &[u8],
        mode: u32,
        device: u32,
    ) -> Result<Entry, Errno> {
        let _changing = self.changing_names();
        let (directory, asked) = (self.handle(parent)?, self.epoch());
        let attributes = with_mode(mode);
        let changed = match made(mode, device).ok_or(Errno::EINVAL)? {
            Made::Regular => {
                let guarded = CreateMode::Guarded(attributes);
                self.vfs.create(caller, &directory, name, &guarded).await
            }
            Made::Node(kind) => {
                let made = self
                    .vfs
                    .make_node(caller, &directory, name, kind, &attributes);
                made.await
            }
        };
        self.made(changed, asked).await
    }

    pub(crate) async fn make_directory(
        &self,
        caller: &Credentials,
        parent: u64,
        name: &[u8],
        mode: u32,
    ) -> Result<Entry, Errno> {
        let _changing = self.changing_names();
        let (directory, asked) = (self.handle(parent)?, self.epoch());
        let attributes = with_mode(mode);
        let made = self
            .vfs
            .make_directory(caller, &directory, name, &attributes);
        self.made(made.await, asked).await
    }

    pub(crate) async fn make_symlink(
        &self,
        caller: &Credentials,
        parent: u64,
        name: &[u8],
        target: &[u8],
    ) -> Result<Entry, Errno> {
        let _changing = self.changing_names();
        let (directory, asked) = (self.handle(parent)?, self.epoch());
        let attributes = with_mode(0o777);
        let made = self
            .vfs
            .make_symlink(caller, &directory, name, target, &attributes);
        self.made(made.await, asked).await
    }

    /// Makes a file, or takes the one there is, and opens it.
    pub(crate) async fn create(
        self: &Rc<Self>,
        caller: &Credentials,
        parent: u64,
        name: &[u8],
        mode: u32,
        if_there: IfThere,
    ) -> Result<(Entry, u64), Errno> {
        let _changing = self.changing_names();
        let (directory, asked) = (self.handle(parent)?, self.epoch());
        let changed = match if_there {
            IfThere::Refuse => self.create_exclusive(caller, &directory, name, mode).await,
            IfThere::Keep | IfThere::Truncate => {
                let guarded = CreateMode::Guarded(with_mode(mode));
                let made = self.vfs.create(caller, &directory, name, &guarded).await;
                // The kernel found no such name. Where there is one now, the store says who may write to its file.
                match made.result {
                    Err(Status::Exist) => {
                        let taken = self.take_existing(caller, &directory, name, mode, if_there);
                        taken.await?
                    }
                    _ => made,
                }
            }
        };
        let entry = self.made(changed, asked).await?;
        let number = entry.attr.ino.0;
        // No await between the report and this: a removal in between would find the file unused and delete it.
        let mut inodes = self.inodes.borrow_mut();
        inodes.open_new(number);
        drop(inodes);
        Ok((entry, self.describe(number, caller)?))
    }

    /// As CREATE of a file that there is, for a caller that may write to it.
    async fn take_existing(
        &self,
        caller: &Credentials,
        directory: &FileHandle,
        name: &[u8],
        mode: u32,
        if_there: IfThere,
    ) -> Result<Changed<Created>, Errno> {
        let attributes = SetAttributes {
            size: (if_there == IfThere::Truncate).then_some(0),
            ..with_mode(mode)
        };
        let unchecked = CreateMode::Unchecked(attributes);
        let taken = self.vfs.create(caller, directory, name, &unchecked).await;
        if let Ok(created) = &taken.result {
            let use_of = FileUse {
                reads: false,
                writes: true,
                executes: false,
            };
            self.require(caller, &created.handle, use_of).await?;
        }
        Ok(taken)
    }

    /// Makes a file that must not be there. A repeated call finds its own file by the verifier, which takes the place
    /// of the attributes; they are set afterwards.
    async fn create_exclusive(
        &self,
        caller: &Credentials,
        directory: &FileHandle,
        name: &[u8],
        mode: u32,
    ) -> Changed<Created> {
        let verifier = self.runtime.random().to_be_bytes();
        let exclusive = CreateMode::Exclusive(verifier);
        let mut changed = self.vfs.create(caller, directory, name, &exclusive).await;
        let Ok(created) = &mut changed.result else {
            return changed;
        };
        let attributes = SetAttributes {
            access_time: SetTime::Now,
            modify_time: SetTime::Now,
            ..with_mode(mode)
        };
        let handle = created.handle;
        let set = self
            .vfs
            .set_attributes(caller, &handle, &attributes, None)
            .await;
        created.attributes = set.wcc.after;
        if let Err(status) = set.result {
            changed.result = Err(status);
        }
        changed
    }

    pub(crate) async fn link(
        self: &Rc<Self>,
        caller: &Credentials,
        number: u64,
        parent: u64,
        name: &[u8],
    ) -> Result<Entry, Errno> {
        let _changing = self.changing_names();
        // The kernel shows the attributes of the reply for all names of the file.
        self.drain(number).await?;
        let (handle, directory) = (self.handle(number)?, self.handle(parent)?);
        let asked = self.epoch();
        let (linked, known) = self.vfs.link(caller, &handle, &directory, name).await;
        linked.result.map_err(errno)?;
        let known = known.map(|attributes| Fetched { attributes, asked });
        self.report_newest(&handle, known, NOBODY).await
    }

    /// Removes a name. A file that is open here and has no other name keeps a hidden one until it is closed.
    pub(crate) async fn remove(
        self: &Rc<Self>,
        caller: &Credentials,
        parent: u64,
        name: &[u8],
    ) -> Result<(), Errno> {
        let _changing = self.changing_names();
        let directory = self.handle(parent)?;
        let _taking = self.taking_names.read().await;
        // It holds a guard until the store has replied, for which opens of the file wait.
        let taken = self.taken(caller, EntryName::new(&directory, name)).await?;
        if let Taken::InUse(handle) = taken {
            let entry = EntryName::new(&directory, name);
            return self.remove_in_use(caller, handle, entry).await;
        }
        let removed = self.vfs.remove(caller, &directory, name).await;
        removed.result.map_err(errno)
    }

    /// Removes the last name of a file that is open here.
    async fn remove_in_use(
        self: &Rc<Self>,
        caller: &Credentials,
        handle: FileHandle,
        entry: EntryName<'_>,
    ) -> Result<(), Errno> {
        let keeping = Keeping::begin(self, handle);
        if self.is_kept_by_store(&handle).await? {
            let removed = self.vfs.remove(caller, entry.directory, entry.name).await;
            return self.end_removal(keeping, removed.result).await;
        }
        keeping.end();
        let name = self.hidden(entry.directory, caller);
        let to = EntryName::new(entry.directory, &name.name);
        let (moved, ..) = self.vfs.rename(caller, entry, to).await;
        moved.map_err(errno)?;
        let hidden = Hidden {
            file: handle,
            name: Some(name),
        };
        self.hide(hidden).await;
        Ok(())
    }

    /// Asks the store to keep a file that is about to lose its last name; false if the store keeps none.
    async fn is_kept_by_store(&self, handle: &FileHandle) -> Result<bool, Errno> {
        match self.vfs.keep(handle).await {
            Ok(()) => Ok(true),
            Err(Status::Notsupp) => Ok(false),
            // Another client has removed it: no file is left to keep.
            Err(Status::Stale) => Ok(true),
            Err(status) => Err(errno(status)),
        }
    }

    /// Ends a removal of a file that the store keeps.
    async fn end_removal(
        self: &Rc<Self>,
        keeping: Keeping<'_, V>,
        removed: Result<(), Status>,
    ) -> Result<(), Errno> {
        let file = keeping.file;
        keeping.end();
        match removed {
            Ok(()) => self.hide(Hidden { file, name: None }).await,
            // The store may have done it, or another removal that a deadline dropped: the file stays while a program
            // has it open.
            Err(_) => self.let_go_when_unused(file),
        }
        removed.map_err(errno)
    }

    /// Lets a file go that the store may keep, once no program here has it open or is about to: not before, since it
    /// may have lost its name. The last close does it, or a task, for a file that is not open any more.
    fn let_go_when_unused(self: &Rc<Self>, file: FileHandle) {
        let before = self.letting_go.borrow_mut().insert(file, LettingGo::Due);
        if before.is_some() {
            return;
        }
        let mounted = Rc::downgrade(self);
        let letting_go = async move {
            while let Some(it) = mounted.upgrade() {
                it.let_go_if_unused(&file).await;
                if it.has_let_go(&file) {
                    return;
                }
                let pause = sleep(&it.runtime, KEPT_FOR_RETURN_AGE);
                drop(it);
                pause.await;
            }
        };
        self.runtime.spawn("let go", Box::pin(letting_go));
    }

    /// Whether such a file was let go, and needs its task no more.
    fn has_let_go(&self, file: &FileHandle) -> bool {
        let mut letting_go = self.letting_go.borrow_mut();
        let is_done = letting_go.get(file) == Some(&LettingGo::Done);
        if is_done {
            letting_go.remove(file);
        }
        is_done
    }

    /// Whether a file of [`Mounted::let_go_when_unused`] is due, and neither a program nor a removal needs it.
    pub(super) fn may_let_go(&self, file: &FileHandle) -> bool {
        let is_due = self.letting_go.borrow().get(file) == Some(&LettingGo::Due);
        let kept = || self.inodes.borrow().is_kept(file, self.runtime.now());
        is_due && !self.keeping.borrow().contains_key(file) && kept() == Kept::No
    }

    /// Lets such a file go.
    pub(super) async fn let_go_if_unused(&self, file: &FileHandle) {
        if self.may_let_go(file) {
            (self.letting_go.borrow_mut()).insert(*file, LettingGo::Done);
            let _taking = self.takings.begin(Some(*file));
            self.vfs.let_go(file, true).await;
        }
    }

    /// The directory that a name stands for, if programs have directories open: one of them may ask for its attributes
    /// after the name has gone.
    async fn open_directory_at(
        &self,
        caller: &Credentials,
        entry: EntryName<'_>,
    ) -> Option<(FileHandle, Attributes)> {
        if !self.open.borrow().has_directories() {
            return None;
        }
        let found = self.vfs.lookup(caller, entry.directory, entry.name).await.0;
        found
            .ok()
            .filter(|(_, attributes)| attributes.kind == FileKind::Directory)
    }

    fn note_removed_directory(&self, found: Option<(FileHandle, Attributes)>) {
        let number = found.and_then(|(handle, _)| self.inodes.borrow().number(&handle));
        if let (Some(number), Some((_, last))) = (number, found) {
            self.open.borrow_mut().note_removed(number, last);
        }
    }

    pub(crate) async fn remove_directory(
        &self,
        caller: &Credentials,
        parent: u64,
        name: &[u8],
    ) -> Result<(), Errno> {
        let _changing = self.changing_names();
        let directory = self.handle(parent)?;
        let found = self
            .open_directory_at(caller, EntryName::new(&directory, name))
            .await;
        let remove = async || {
            let removed = self.vfs.remove_directory(caller, &directory, name).await;
            if removed.result.is_ok() {
                self.note_removed_directory(found);
            }
            removed.result
        };
        let mut ended = pin!(self.unhidden.notified());
        ended.as_mut().enable();
        let removed = remove().await;
        if removed != Err(Status::Notempty) {
            return removed.map_err(errno);
        }
        // Removed files in it may have been closed: the kernel tells of a close after close(2) has returned.
        let looked_up = self.vfs.lookup(caller, &directory, name).await.0;
        let (handle, _) = looked_up.map_err(errno)?;
        // The last of them may have gone since that answer.
        if !self.has_hidden(&handle) && !ended.as_mut().enable() {
            return removed.map_err(errno);
        }
        let gone = async {
            loop {
                // Registered before the look, so that no wake-up is missed.
                let unhidden = self.unhidden.notified();
                if !self.has_hidden(&handle) {
                    return;
                }
                unhidden.await;
            }
        };
        let _ = timeout(&self.runtime, UNHIDE_AGE, gone).await;
        remove().await.map_err(errno)
    }

    /// True if a directory has hidden names of this mount.
    fn has_hidden(&self, directory: &FileHandle) -> bool {
        let is_there = |hidden: &Hidden| hidden.is_in(directory);
        let inodes = self.inodes.borrow();
        let mut hidden = inodes
            .all()
            .filter_map(|(_, inode)| inode.hidden.as_deref());
        hidden.any(is_there) || self.unhiding.borrow().contains(directory)
    }

    /// Moves a name. A replaced file that is open here and has no other name gets a hidden one first.
    pub(crate) async fn rename(
        self: &Rc<Self>,
        caller: &Credentials,
        parent: u64,
        name: &[u8],
        new_parent: u64,
        new_name: &[u8],
    ) -> Result<(), Errno> {
        let _changing = self.changing_names();
        let (directory, new_directory) = (self.handle(parent)?, self.handle(new_parent)?);
        let from = EntryName::new(&directory, name);
        let to = EntryName::new(&new_directory, new_name);
        let _taking = self.taking_names.read().await;
        let taken = self.taken(caller, to).await?;
        let Taken::InUse(handle) = taken else {
            let replaced = self.open_directory_at(caller, to).await;
            let renamed = self.vfs.rename(caller, from, to).await.0;
            if renamed.is_ok() {
                self.note_removed_directory(replaced);
            }
            return renamed.map_err(errno);
        };
        let keeping = Keeping::begin(self, handle);
        if self.is_kept_by_store(&handle).await? {
            let moved = self.vfs.rename(caller, from, to).await.0;
            return self.end_removal(keeping, moved).await;
        }
        keeping.end();
        let name = self.hidden(&new_directory, caller);
        // A link and no move: with a move the target's name would be missing for other clients until the rename.
        let linked = self.vfs.link(caller, &handle, &new_directory, &name.name);
        match linked.await.0.result {
            Ok(()) => {}
            // Another client has replaced or removed it: no file is left to keep.
            Err(Status::Stale) => return self.vfs.rename(caller, from, to).await.0.map_err(errno),
            Err(status) => return Err(errno(status)),
        }
        let hidden = Hidden {
            file: handle,
            name: Some(name),
        };
        match self.vfs.rename(caller, from, to).await.0 {
            Ok(()) => {
                self.hide(hidden).await;
                Ok(())
            }
            Err(status) => {
                self.remove_hidden(&hidden).await;
                Err(errno(status))
            }
        }
    }

    /// Looks up the effect of a name's removal, and begins a [`Taking`] unless the file is in use here.
    async fn taken(&self, caller: &Credentials, entry: EntryName<'_>) -> Result<Taken<'_>, Errno> {
        if !self.inodes.borrow().any_in_use() {
            return Ok(Taken::Free(self.takings.begin(None)));
        }
        let found = match self.vfs.lookup(caller, entry.directory, entry.name).await.0 {
            Ok((handle, attributes)) if is_last_name(&attributes) => Some(handle),
            Ok(_) | Err(Status::Noent | Status::Stale) => None,
            Err(status) => return Err(errno(status)),
        };
        let Some(handle) = found else {
            return Ok(Taken::Nothing);
        };
        // No await between this decision and `begin`: an open in between would not wait for the removal.
        let now = self.runtime.now();
        match self.inodes.borrow().is_kept(&handle, now) {
            Kept::No => Ok(Taken::Free(self.takings.begin(Some(handle)))),
            Kept::Open | Kept::Awaited(_) => Ok(Taken::InUse(handle)),
        }
    }

    fn hidden(&self, directory: &FileHandle, caller: &Credentials) -> HiddenName {
        HiddenName {
            directory: *directory,
            name: hidden_name(self.runtime.random()),
            caller: caller.clone(),
        }
    }

    /// Records the hidden name of a file that has no other. If the file was closed meanwhile and no process is about to
    /// open it, the hidden name is removed at once: its last close has passed, and no other would remove it.
    async fn hide(self: &Rc<Self>, hidden: Hidden) {
        let number = self.inodes.borrow().number(&hidden.file);
        match number {
            Some(number) => {
                if let Some(inode) = self.inodes.borrow_mut().inode_mut(number) {
                    inode.hidden = Some(Box::new(hidden));
                }
                self.remove_unused(number).await;
            }
            None => self.remove_hidden(&hidden).await,
        }
    }

    /// Removes a hidden file that is not in use. For one that a process is about to open, a task tries again later.
    pub(super) async fn remove_unused(self: &Rc<Self>, number: u64) {
        let now = self.runtime.now();
        let taken = self.inodes.borrow_mut().take_hidden(number, now);
        match taken {
            TakenHidden::None => {}
            TakenHidden::Free(hidden) => {
                self.drop_hidden(number);
                self.remove_hidden(&hidden).await;
            }
            TakenHidden::Awaited => {
                let mounted = Rc::clone(self);
                let later = async move { mounted.remove_when_unused(number).await };
                self.runtime.spawn("hidden file", Box::pin(later));
            }
        }
    }

    /// Drops the kept writes of a removed file: a later commit would resend them to a deleted file and fail.
    fn drop_hidden(&self, number: u64) {
        self.drop_kept(number);
        self.inodes.borrow_mut().unhidden(number);
    }

    /// Tries every [`KEPT_FOR_RETURN_AGE`] until the file is open, or not in use and its hidden name removed.
    async fn remove_when_unused(&self, number: u64) {
        let hidden = loop {
            sleep(&self.runtime, KEPT_FOR_RETURN_AGE).await;
            let now = self.runtime.now();
            let taken = self.inodes.borrow_mut().take_hidden(number, now);
            match taken {
                TakenHidden::None => return,
                TakenHidden::Awaited => {}
                TakenHidden::Free(hidden) => break hidden,
            }
        };
        self.drop_hidden(number);
        let removed = self.within(async {
            self.remove_hidden(&hidden).await;
            Ok(())
        });
        // When the server does not answer, the file keeps its hidden name, as after a crash.
        let _ = removed.await;
    }

    /// Removes a hidden file. An open of the file waits for it, as for any removal.
    pub(crate) async fn remove_hidden(&self, hidden: &Hidden) {
        let _taking = self.takings.begin(Some(hidden.file));
        let Some(hidden) = &hidden.name else {
            return self.vfs.let_go(&hidden.file, false).await;
        };
        let _changing = self.changing_names();
        let _unhiding = Unhiding::begin(&self.unhiding, &self.unhidden, hidden.directory);
        let removed = self
            .vfs
            .remove(&hidden.caller, &hidden.directory, &hidden.name);
        if let Err(status) = removed.await.result {
            let name = String::from_utf8_lossy(&hidden.name);
            tracing::warn!(%name, %status, "a removed file stays behind under this name");
        }
    }

    pub(crate) async fn read_link(
        &self,
        caller: &Credentials,
        number: u64,
    ) -> Result<Vec<u8>, Errno> {
        let handle = self.handle(number)?;
        let read = self.vfs.read_link(caller, &handle).await;
        read.map(|(target, _)| target).map_err(errno)
    }

    pub(crate) async fn usage(&self) -> Result<gannet_vfs::FileSystemUsage, Errno> {
        let root = self.handle(ROOT)?;
        self.vfs.usage(&root).await.map_err(errno)
    }
}

fn is_last_name(attributes: &Attributes) -> bool {
    attributes.kind == FileKind::Regular && attributes.link_count <= 1
}

fn with_mode(mode: u32) -> SetAttributes {
    SetAttributes {
        mode: Some(mode & 0o7777),
        ..SetAttributes::default()
    }
}
