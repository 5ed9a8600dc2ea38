//! Opening, closing and attributes.

use super::Mounted;
use crate::convert::set_time;
use crate::inodes::{Fetched, Inodes};
use crate::status::errno;
use fuser::{Errno, FileAttr, TimeOrNow};
use gannet_client::write_behind::{Description, FileWrites};
use gannet_vfs::{
    AccessMask, Attributes, Credentials, FileHandle, FileKind, SetAttributes, Vfs, Wcc,
};
use std::cell::RefCell;
use std::rc::Rc;

/// The changes of a SETATTR; `None` leaves an attribute as it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setting {
    pub(crate) mode: Option<u32>,
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
    pub(crate) size: Option<u64>,
    pub(crate) access_time: Option<TimeOrNow>,
    pub(crate) modify_time: Option<TimeOrNow>,
    /// The key of the open file, for ftruncate(2) and the like.
    pub(crate) open_file: Option<u64>,
}

impl Setting {
    fn attributes(&self) -> SetAttributes {
        SetAttributes {
            mode: self.mode.map(|mode| mode & 0o7777),
            uid: self.uid,
            gid: self.gid,
            size: self.size,
            access_time: set_time(self.access_time),
            modify_time: set_time(self.modify_time),
        }
    }
}

/// The use that a program opens a file for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileUse {
    pub(crate) reads: bool,
    pub(crate) writes: bool,
    /// execve(2), which reads too.
    pub(crate) executes: bool,
}

impl FileUse {
    fn wanted(self) -> AccessMask {
        let read = if self.reads { AccessMask::READ } else { 0 };
        let write = if self.writes { AccessMask::MODIFY } else { 0 };
        let execute = if self.executes {
            AccessMask::EXECUTE
        } else {
            0
        };
        AccessMask(read | write | execute)
    }

    /// True if `granted` is enough. Servers let a program be read by whom they let run it.
    fn is_admitted(self, granted: AccessMask) -> bool {
        let has = |right: u32| granted.0 & right != 0;
        let may_read = has(AccessMask::READ) || self.executes && has(AccessMask::EXECUTE);
        (may_read || !self.reads) && (has(AccessMask::MODIFY) || !self.writes)
    }
}

/// A guard of an open that is under way. Its drop ends the count also when a deadline drops the request: a count that
/// stays would keep a removed file for ever.
struct Opening<'a> {
    inodes: &'a RefCell<Inodes>,
    number: u64,
}

impl Opening<'_> {
    fn new(inodes: &RefCell<Inodes>, number: u64) -> Opening<'_> {
        inodes.borrow_mut().opening(number);
        Opening { inodes, number }
    }
}

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        self.inodes.borrow_mut().opening_ended(self.number);
    }
}

impl<V: Vfs> Mounted<V> {
    /// Attributes of an object. A process that gets `ESTALE` is remembered, since it looks the path up again.
    pub(crate) async fn attr_of(
        self: &Rc<Self>,
        number: u64,
        process: u32,
    ) -> Result<FileAttr, Errno> {
        let _asking = self.following.ask(number);
        // The store's size and times count once it has all bytes.
        self.drain(number).await?;
        let (handle, asked) = (self.handle(number)?, self.epoch());
        let attributes = self.attributes(&handle).await;
        let removed = self.open.borrow().removed_directory(number);
        if let (Err(Errno::ESTALE), Some(last)) = (&attributes, removed) {
            return Ok(self.attr(number, &last));
        }
        let attributes = self.note_stale(process, attributes)?;
        let known = Some(Fetched { attributes, asked });
        let newest = self.newest(&handle, known).await?;
        self.inodes.borrow_mut().learn(number, &newest);
        self.drop_readable(number).await;
        Ok(self.attr(number, &newest.attributes))
    }

    /// Remembers a process that gets `ESTALE` for a removed file: the kernel looks its path up once more. Gives
    /// `outcome`.
    fn note_stale<T>(&self, process: u32, outcome: Result<T, Errno>) -> Result<T, Errno> {
        if outcome.as_ref().err() == Some(&Errno::ESTALE) {
            let now = self.runtime.now();
            self.inodes.borrow_mut().refuse(process, now);
        }
        outcome
    }

    /// Sets attributes, for a process.
    pub(crate) async fn set(
        self: &Rc<Self>,
        caller: &Credentials,
        process: u32,
        number: u64,
        setting: Setting,
    ) -> Result<FileAttr, Errno> {
        let set = self.set_all(caller, number, setting).await;
        self.note_stale(process, set)
    }

    async fn set_all(
        self: &Rc<Self>,
        caller: &Credentials,
        number: u64,
        setting: Setting,
    ) -> Result<FileAttr, Errno> {
        let (handle, change) = (self.handle(number)?, setting.attributes());
        let asker = caller;
        let caller = self.setter(caller, &setting);
        if setting.size.is_some() {
            // A resend after a server's restart would extend the file past its new size.
            self.commit(number).await?;
        } else {
            // Earlier bytes would change times and set-uid bits that this sets.
            self.drain(number).await?;
        }
        if let Some(key) = setting.open_file {
            self.take_failure(key)?;
        }
        let set = self.vfs.set_attributes(&caller, &handle, &change, None);
        let done = set.await;
        done.result.map_err(errno)?;
        let mut attributes = self.known(done.wcc.after, number).await?;
        if setting.size.is_some() && caller.uid == 0 && asker.uid != 0 {
            attributes = self.without_set_id(&caller, &handle, attributes).await?;
        }
        let wcc = Wcc {
            before: done.wcc.before,
            after: Some(attributes),
        };
        // Pages that are stale now are dropped before a later reply: the kernel may hold some until this one.
        self.inodes.borrow_mut().own_change(number, &wcc);
        Ok(self.attr(number, &attributes))
    }

    /// Clears the set-uid and set-gid bits of a file that a program without root's rights wrote to or truncated, by a
    /// descriptor that root opened. Servers do it by themselves for other callers.
    pub(super) async fn without_set_id(
        &self,
        root: &Credentials,
        handle: &FileHandle,
        attributes: Attributes,
    ) -> Result<Attributes, Errno> {
        let runs_as_group = attributes.mode & 0o2010 == 0o2010;
        let set_id = attributes.mode & 0o4000 | if runs_as_group { 0o2000 } else { 0 };
        if set_id == 0 || attributes.kind != FileKind::Regular {
            return Ok(attributes);
        }
        let change = SetAttributes {
            mode: Some(attributes.mode & !set_id),
            ..SetAttributes::default()
        };
        let done = self.vfs.set_attributes(root, handle, &change, None).await;
        done.result.map_err(errno)?;
        match done.wcc.after {
            Some(attributes) => Ok(attributes),
            None => self.attributes(handle).await,
        }
    }

    /// The credentials for a SETATTR: those of the open file, if it names one; else the caller's.
    fn setter(&self, caller: &Credentials, setting: &Setting) -> Credentials {
        let opener = setting
            .open_file
            .and_then(|key| self.open_file(key).ok().map(|file| file.caller));
        opener.unwrap_or_else(|| caller.clone())
    }

    /// The attributes after a change: those of the reply, or fetched ones if it had none.
    pub(super) async fn known(
        &self,
        after: Option<Attributes>,
        number: u64,
    ) -> Result<Attributes, Errno> {
        match after {
            Some(attributes) => Ok(attributes),
            None => self.attributes(&self.handle(number)?).await,
        }
    }

    /// Opens a file for a process. Gives its key, and true if the kernel's cached pages of it are valid. After `ESTALE`
    /// the kernel looks the name up once more and opens again.
    ///
    /// The store says what the caller may do. Later reads come from the kernel's pages, and later writes are answered
    /// before the store has seen them, so this is where a user whom the store refuses is told.
    ///
    /// # Errors
    /// `EACCES`: the store refuses the caller. Otherwise as ACCESS.
    pub(crate) async fn open(
        self: &Rc<Self>,
        caller: &Credentials,
        process: u32,
        number: u64,
        use_of: FileUse,
    ) -> Result<(u64, bool), Errno> {
        let handle = self.handle(number)?;
        // It counts before the first await: a removal from here on finds the open, and keeps a hidden name for it.
        let _opening = Opening::new(&self.inodes, number);
        // Removals that began earlier did not see this open. Attributes read before their end would be those of a file
        // that is being deleted.
        self.takings.over(&handle).await;
        let newest = self.admitted(caller, process, &handle, use_of).await?;
        self.inodes.borrow_mut().learn(number, &newest);
        // The kernel drops its pages with the reply. A notification here could meet another program's request for
        // attributes, whose reply the kernel would ignore.
        let is_other = self.is_other_content(number, &newest);
        let is_stale = self.inodes.borrow().stale(number).is_some();
        let is_unchanged = !is_other && !is_stale;
        if is_other && !is_stale {
            self.requests.dropped_pages.add(1);
        }
        self.pages.drop_stale(number).await;
        // No await from here to the end: the open is counted before its `Opening` ends.
        let mut inodes = self.inodes.borrow_mut();
        if !inodes.open(number, process) {
            return Err(Errno::ESTALE);
        }
        drop(inodes);
        Ok((self.describe(number, caller)?, is_unchanged))
    }

    /// A key for an open file, which its caller may use from now on.
    pub(super) fn describe(&self, number: u64, caller: &Credentials) -> Result<u64, Errno> {
        let description = Description {
            file: self.unstable(number)?,
            caller: caller.clone(),
        };
        let key = self.open.borrow_mut().next();
        if caller.uid == 0 {
            self.pages.windows.root_opens(key);
        }
        self.writes.descriptions.borrow_mut().open(key, description);
        Ok(key)
    }

    /// Attributes of a file that a process opens, if the store admits it. If the file is removed, the kernel looks the
    /// path up once more.
    async fn admitted(
        &self,
        caller: &Credentials,
        process: u32,
        handle: &FileHandle,
        use_of: FileUse,
    ) -> Result<Fetched, Errno> {
        let asked = self.epoch();
        let answered = self.vfs.access(caller, handle, use_of.wanted()).await;
        let (granted, attributes) = self.note_stale(process, answered.map_err(errno))?;
        if !use_of.is_admitted(granted) {
            return Err(Errno::EACCES);
        }
        let newest = self.newest(handle, Some(Fetched { attributes, asked }));
        self.note_stale(process, newest.await)
    }

    /// Asks the store whether a caller may use a file as it wants to.
    ///
    /// # Errors
    /// `EACCES`: it may not. Otherwise as ACCESS.
    pub(super) async fn require(
        &self,
        caller: &Credentials,
        handle: &FileHandle,
        use_of: FileUse,
    ) -> Result<(), Errno> {
        let answered = self.vfs.access(caller, handle, use_of.wanted()).await;
        let (granted, _) = answered.map_err(errno)?;
        if use_of.is_admitted(granted) {
            Ok(())
        } else {
            Err(Errno::EACCES)
        }
    }

    /// Closes a file. After the last close it has no kept writes, and a removed file loses its hidden name.
    pub(crate) async fn close(self: &Rc<Self>, key: u64) {
        self.open.borrow_mut().remove_file(key);
        self.pages.windows.closed(key);
        let Some(Description { file, .. }) = self.writes.descriptions.borrow_mut().close(key)
        else {
            return;
        };
        let number = file.number();
        // The inode frees its writes below if nobody else has them.
        drop(file);
        let is_last = self.inodes.borrow_mut().close(number);
        if is_last {
            self.pages.windows.set(number, false);
        }
        if is_last {
            // The object stays in the table until `closed`: a new entry of the same handle would not know of a resend
            // under way.
            self.close_last(number).await;
            if let Ok(handle) = self.handle(number)
                && self.may_let_go(&handle)
            {
                let letting_go = async {
                    self.let_go_if_unused(&handle).await;
                    Ok(())
                };
                // A store that is away hears of it later.
                let _ = self.within(letting_go).await;
            }
            self.inodes.borrow_mut().closed(number);
        }
    }

    async fn close_last(self: &Rc<Self>, number: u64) {
        let Ok(is_hidden) = self.with_inode(number, |inode| inode.hidden.is_some()) else {
            return;
        };
        if is_hidden {
            let removed = self.within(async {
                self.remove_unused(number).await;
                Ok(())
            });
            let _ = removed.await;
            return;
        }
        let committed = self.within(self.commit(number)).await;
        let file = self.known_unstable(number).ok().flatten();
        let is_open = |file: &FileWrites| {
            let inodes = self.inodes.borrow();
            inodes.open_number(file.handle()).is_some()
        };
        // A file that was opened again is committed by its next sync.
        if committed.is_err()
            && let Some(file) = file.filter(|file| !is_open(file))
        {
            tracing::warn!("a file was closed before its server has kept it: its bytes wait here");
            self.writes.commit_in_time(&file);
        }
    }

    /// Ends the mount after its session with the kernel: removes hidden names, and commits kept writes. Each file has
    /// the deadline of an operation.
    pub(crate) async fn finish(self: &Rc<Self>) {
        let hidden: Vec<_> = {
            let mut inodes = self.inodes.borrow_mut();
            let all = inodes.all_mut();
            all.filter_map(|(number, inode)| Some((number, inode.hidden.take()?)))
                .collect()
        };
        for (number, hidden) in hidden {
            self.drop_kept(number);
            let removed = self.within(async {
                self.remove_hidden(&hidden).await;
                Ok(())
            });
            let _ = removed.await;
        }
        for file in self.writes.unfinished() {
            let committed = async { self.writes.commit(&file).await.map_err(errno) };
            if self.within(committed).await.is_err() {
                let bytes = self.writes.drop_kept(&file);
                tracing::error!(bytes, "the server did not keep the end of a file");
            }
        }
        self.vfs.rest().await;
    }
}
