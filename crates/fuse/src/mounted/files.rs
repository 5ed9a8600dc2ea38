//! Opening, closing and attributes.

use super::{Mounted, is_refused};
use crate::convert::{set_time, unknown_attr};
use crate::inodes::{Fetched, Inode, Inodes, Opened};
use crate::limits::CLOSING_AGE;
use crate::open::OpenFile;
use crate::status::errno;
use fuser::{Errno, FileAttr, TimeOrNow};
use gannet_runtime::timeout;
use gannet_vfs::{
    Attributes, Credentials, FileHandle, FileKind, SetAttributes, SetTime, Status, Vfs,
};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::SystemTime;

/// The changes of a SETATTR; `None` leaves an attribute as it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setting {
    pub(crate) mode: Option<u32>,
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
    pub(crate) size: Option<u64>,
    pub(crate) access_time: Option<TimeOrNow>,
    pub(crate) modify_time: Option<TimeOrNow>,
    pub(crate) change_time: Option<SystemTime>,
    /// The key of the open file, for ftruncate(2) and the like.
    pub(crate) open_file: Option<u64>,
}

impl Setting {
    /// True where the modification time is that of a write, a truncation or a touch. With its write-back cache the
    /// kernel sends its own time with each, for any caller that may write. Only the owner sends explicit times of
    /// utimensat(2).
    fn has_time_of_write(&self) -> bool {
        let is_explicit =
            |time: Option<TimeOrNow>| matches!(time, Some(TimeOrNow::SpecificTime(_)));
        let is_for_writers = self.mode.is_none() && self.uid.is_none() && self.gid.is_none();
        let by_kernel = is_explicit(self.modify_time) && self.change_time.is_some();
        by_kernel && is_for_writers && !is_explicit(self.access_time)
    }

    /// True for the times of cached writes, which the kernel sends after them with the credentials of any caller.
    fn is_times_of_writes(&self) -> bool {
        self.has_time_of_write() && self.size.is_none() && self.access_time.is_none()
    }

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
    pub(crate) async fn attr_of(&self, number: u64, process: u32) -> Result<FileAttr, Errno> {
        let (handle, asked) = (self.handle(number)?, self.epoch());
        let attributes = self.attributes(&handle).await;
        let attributes = self.note_stale(process, attributes)?;
        let fetched = Fetched { attributes, asked };
        self.inodes.borrow_mut().reported(number, &fetched);
        Ok(self.attr(number, &attributes))
    }

    /// Remembers a process that gets `ESTALE` for a removed file: the kernel looks its path up once more. Gives
    /// `outcome`.
    fn note_stale<T>(&self, process: u32, outcome: Result<T, Errno>) -> Result<T, Errno> {
        if outcome.as_ref().err() == Some(&Errno::ESTALE) {
            let now = self.runtime.now();
            self.inodes.borrow_mut().refuse(process, None, now);
        }
        outcome
    }

    /// Sets attributes, for a process.
    pub(crate) async fn set(
        &self,
        caller: &Credentials,
        process: u32,
        number: u64,
        setting: Setting,
    ) -> Result<FileAttr, Errno> {
        let set = self.set_all(caller, number, setting).await;
        self.note_stale(process, set)
    }

    async fn set_all(
        &self,
        caller: &Credentials,
        number: u64,
        setting: Setting,
    ) -> Result<FileAttr, Errno> {
        let (handle, change) = (self.handle(number)?, setting.attributes());
        let asker = caller;
        let caller = self.setter(caller, number, &setting);
        if setting.size.is_some() && self.with_inode(number, Inode::is_replaced)? {
            // The kernel would record that size for an inode that it replaced.
            return Err(Errno::ESTALE);
        }
        if setting.size.is_some() {
            // A resend after a server's restart would extend the file past its new size.
            self.commit(number, &caller).await?;
        }
        let mut done = self
            .vfs
            .set_attributes(&caller, &handle, &change, None)
            .await;
        if setting.has_time_of_write() && done.result.is_err_and(is_refused) {
            // Only the owner may set explicit times. Other writers get the server's time.
            let now = SetAttributes {
                modify_time: SetTime::Now,
                ..change
            };
            done = self.vfs.set_attributes(&caller, &handle, &now, None).await;
            if setting.is_times_of_writes() && done.result.is_err_and(is_refused) {
                // The server has set its time at the write already.
                done.result = Ok(());
            }
        }
        if setting.is_times_of_writes() && done.result == Err(Status::Stale) {
            // The file is removed, so its times are of no use. An error would fail a sync whose data are durable.
            return Ok(unknown_attr(number));
        }
        done.result.map_err(errno)?;
        let mut attributes = self.known(done.wcc.after, number).await?;
        if setting.size.is_some() && caller.uid == 0 && asker.uid != 0 {
            attributes = self.without_set_id(&caller, &handle, attributes).await?;
        }
        self.inodes.borrow_mut().changed(number, &attributes);
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

    /// The credentials for a SETATTR: those of the open file, if it names one; those of the last writer, for times of
    /// writes that the kernel sends by itself as root; else the caller's.
    fn setter(&self, caller: &Credentials, number: u64, setting: &Setting) -> Credentials {
        let opener = setting
            .open_file
            .and_then(|key| self.open.borrow().file(key).map(|file| file.caller.clone()));
        if let Some(opener) = opener {
            return opener;
        }
        let writer = self.with_inode(number, |inode| inode.writer.clone());
        match writer {
            Ok(Some(writer)) if setting.is_times_of_writes() && caller.uid == 0 => writer,
            _ => caller.clone(),
        }
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
    pub(crate) async fn open(
        &self,
        caller: &Credentials,
        process: u32,
        number: u64,
        writes: bool,
    ) -> Result<(u64, bool), Errno> {
        let handle = self.handle(number)?;
        // It counts before the first await: a removal from here on finds the open, and keeps a hidden name for it.
        let _opening = Opening::new(&self.inodes, number);
        // Removals that began earlier did not see this open. Attributes read before their end would be those of a file
        // that is being deleted.
        self.takings.over(&handle).await;
        let mut attributes = self.newest_to_open(&handle, process).await?;
        if self.is_changed_while_open(number, &attributes) {
            // Readahead holds a file open for a moment after its last close(2).
            let closed = async {
                // No await between the look and `notified`, so no close is missed. The timeout bounds a file that stays
                // open.
                while self.is_changed_while_open(number, &attributes) {
                    self.closed.notified().await;
                }
            };
            let _ = timeout(&self.runtime, CLOSING_AGE, closed).await;
            attributes = self.newest_to_open(&handle, process).await?;
        }
        let now = self.runtime.now();
        // No await from here to the end: the open is counted before its `Opening` ends.
        let mut inodes = self.inodes.borrow_mut();
        let opened = inodes.open(number, &attributes, process, now);
        if opened == Opened::Outdated {
            return Err(Errno::ESTALE);
        }
        if let Some(inode) = inodes.inode_mut(number).filter(|_| writes) {
            inode.writer = Some(caller.clone());
        }
        let file = OpenFile {
            number,
            caller: caller.clone(),
        };
        let key = self.open.borrow_mut().add_file(file);
        Ok((key, opened == Opened::Unchanged))
    }

    /// Attributes of a file that a process opens. If the file is removed, the kernel looks the path up once more.
    async fn newest_to_open(&self, handle: &FileHandle, process: u32) -> Result<Attributes, Errno> {
        let newest = self.newest(handle, None).await;
        self.note_stale(process, newest)
            .map(|newest| newest.attributes)
    }

    /// True if another client changed a file that is open here, as [`Inodes::is_changed_while_open`].
    fn is_changed_while_open(&self, number: u64, attributes: &Attributes) -> bool {
        let inodes = self.inodes.borrow();
        inodes.is_changed_while_open(number, attributes)
    }

    /// Closes a file. After the last close it has no kept writes, and a removed file loses its hidden name.
    pub(crate) async fn close(self: &Rc<Self>, key: u64) {
        let Some(file) = self.open.borrow_mut().remove_file(key) else {
            return;
        };
        let number = file.number;
        let is_last = self.inodes.borrow_mut().close(number);
        self.closed.notify_waiters();
        if is_last {
            // The object stays in the table until `closed`: a new entry of the same handle would not know of a resend
            // under way.
            self.close_last(number, &file.caller).await;
            self.inodes.borrow_mut().closed(number);
        }
    }

    async fn close_last(self: &Rc<Self>, number: u64, caller: &Credentials) {
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
        let committed = self.within(self.commit(number, caller)).await;
        let handle = self.handle(number).ok();
        let inodes = self.inodes.borrow();
        let is_open = handle.is_some_and(|it| inodes.open_number(&it).is_some());
        drop(inodes);
        // A file that was opened again keeps its writes: its next sync commits or reports them.
        if committed.is_err() && !is_open {
            let bytes = self.drop_kept(number);
            tracing::error!(bytes, "a file was closed before the server had kept it");
        }
    }

    /// Ends the mount after its session with the kernel: commits kept writes, and removes hidden names. Each file has
    /// the deadline of an operation.
    pub(crate) async fn finish(&self) {
        let left: Vec<_> = {
            let mut inodes = self.inodes.borrow_mut();
            let all = inodes.all_mut();
            all.map(|(number, inode)| (number, inode.hidden.take(), inode.writer.clone()))
                .collect()
        };
        for (number, hidden, writer) in left {
            let nobody = Credentials::new(0, 0, &[]);
            let writer = writer.unwrap_or(nobody);
            let outcome = self.within(async {
                match &hidden {
                    Some(hidden) => self.remove_hidden(hidden).await,
                    None => self.commit(number, &writer).await?,
                }
                Ok(())
            });
            if outcome.await.is_err() {
                let bytes = self.drop_kept(number);
                tracing::error!(bytes, "the server did not keep the end of a file");
            }
        }
    }
}
