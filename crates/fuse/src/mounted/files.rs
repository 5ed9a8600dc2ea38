//! Opening, closing and attributes.

use super::{Mounted, is_refused};
use crate::convert::{set_time, unknown_attr};
use crate::inodes::{Inode, Inodes, Opened};
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

/// What SETATTR sets.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setting {
    pub(crate) mode: Option<u32>,
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
    pub(crate) size: Option<u64>,
    pub(crate) access_time: Option<TimeOrNow>,
    pub(crate) modify_time: Option<TimeOrNow>,
    pub(crate) change_time: Option<SystemTime>,
    /// The open file that it comes through.
    pub(crate) open_file: Option<u64>,
}

impl Setting {
    /// True where the modification time stands for a write, a cut or a touch: with its write-back cache the kernel says
    /// its own time with each, for whoever may write. An explicit time of utimensat(2) gets here only from the owner.
    fn has_time_of_write(&self) -> bool {
        let is_explicit =
            |time: Option<TimeOrNow>| matches!(time, Some(TimeOrNow::SpecificTime(_)));
        let is_for_writers = self.mode.is_none() && self.uid.is_none() && self.gid.is_none();
        let by_kernel = is_explicit(self.modify_time) && self.change_time.is_some();
        by_kernel && is_for_writers && !is_explicit(self.access_time)
    }

    /// True for the times of writes that the kernel cached, which it sends after them for whoever comes along.
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

/// While it lives, an open of a file is being done.
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
    /// Attributes of an object, for a process.
    pub(crate) async fn attr_of(&self, number: u64, process: u32) -> Result<FileAttr, Errno> {
        let (handle, asked) = (self.handle(number)?, self.epoch());
        let attributes = self.attributes(&handle).await;
        let attributes = self.note_gone(process, attributes)?;
        let known = (&attributes, asked);
        self.inodes.borrow_mut().reported(number, known);
        Ok(self.attr(number, &attributes))
    }

    /// Remembers a process whose path led to a file that is gone: it will look that up once more. Gives `outcome`.
    fn note_gone<T>(&self, process: u32, outcome: Result<T, Errno>) -> Result<T, Errno> {
        if outcome.as_ref().err() == Some(&Errno::ESTALE) {
            let now = self.runtime.now();
            self.inodes.borrow_mut().refuse(process, None, now);
        }
        outcome
    }

    /// Sets attributes, for a process.
    pub(crate) async fn set(
        &self,
        (caller, process): (&Credentials, u32),
        number: u64,
        setting: Setting,
    ) -> Result<FileAttr, Errno> {
        let set = self.set_all(caller, number, setting).await;
        self.note_gone(process, set)
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
            // The kernel would believe that size of what it does not use any more.
            return Err(Errno::ESTALE);
        }
        if setting.size.is_some() {
            // What is written again after a server's restart must not make the file longer than it is cut to now.
            self.commit(number, &caller).await?;
        }
        let mut done = self
            .vfs
            .set_attributes(&caller, &handle, &change, None)
            .await;
        if setting.has_time_of_write() && done.result.is_err_and(is_refused) {
            // Only the owner sets times at will. Others who may write get the server's time.
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
            // Of a file that is gone: nobody will see them, and who has all written back is not to fail for that.
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

    /// Takes the set-uid and set-gid bits from a file that a program without root's rights has written to or cut, by a
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

    /// Whom attributes are set for: who opened the file, if it comes through one; the last writer, for the times of
    /// writes that the kernel sends by itself, as root.
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

    /// Opens a file for a process: its key, and whether what the kernel has cached of it is good. `ESTALE` has the
    /// kernel look the name up once more, and come back.
    pub(crate) async fn open(
        &self,
        (caller, process): (&Credentials, u32),
        number: u64,
        writes: bool,
    ) -> Result<(u64, bool), Errno> {
        let handle = self.handle(number)?;
        // Also when the request ends before it is answered.
        let _opening = Opening::new(&self.inodes, number);
        self.takings.over(&handle).await;
        let mut attributes = self.newest_to_open(&handle, process).await?;
        if self.is_changed_while_open(number, &attributes) {
            // Read-ahead holds a file open for a moment after its last close(2), if it ends then.
            let closed = async {
                while self.is_changed_while_open(number, &attributes) {
                    self.closed.notified().await;
                }
            };
            let _ = timeout(&self.runtime, CLOSING_AGE, closed).await;
            attributes = self.newest_to_open(&handle, process).await?;
        }
        let now = self.runtime.now();
        let mut inodes = self.inodes.borrow_mut();
        let opened = inodes.open(number, &attributes, (process, now));
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

    /// Attributes of a file that a process opens; when it is gone, the process will look its path up once more.
    async fn newest_to_open(&self, handle: &FileHandle, process: u32) -> Result<Attributes, Errno> {
        let newest = self.newest(handle, None).await;
        self.note_gone(process, newest)
            .map(|(attributes, _)| attributes)
    }

    /// See [`Inodes::is_changed_while_open`].
    fn is_changed_while_open(&self, number: u64, attributes: &Attributes) -> bool {
        let inodes = self.inodes.borrow();
        inodes.is_changed_while_open(number, attributes)
    }

    /// Closes a file. After the last close nothing of it is kept, and what was removed meanwhile goes.
    pub(crate) async fn close(self: &Rc<Self>, key: u64) {
        let Some(file) = self.open.borrow_mut().remove_file(key) else {
            return;
        };
        let number = file.number;
        let is_last = self.inodes.borrow_mut().close(number);
        self.closed.notify_waiters();
        if is_last {
            self.close_last(number, &file.caller).await;
            self.inodes.borrow_mut().closed(number);
        }
    }

    async fn close_last(self: &Rc<Self>, number: u64, caller: &Credentials) {
        let hidden = self.with_inode(number, |inode| inode.hidden.is_some());
        match hidden {
            Err(_) => {}
            Ok(true) => {
                let removed = self.within(async {
                    self.remove_unused(number).await;
                    Ok(())
                });
                let _ = removed.await;
            }
            Ok(false) => {
                let committed = self.within(self.commit(number, caller)).await;
                let handle = self.handle(number).ok();
                let inodes = self.inodes.borrow();
                let is_open = handle.is_some_and(|it| inodes.open_number(&it).is_some());
                drop(inodes);
                if committed.is_err() && !is_open {
                    let bytes = self.drop_kept(number);
                    tracing::error!(bytes, "a file was closed before the server had kept it");
                }
            }
        }
    }

    /// What is left to do when the kernel is gone: commits what is kept, and removes what was removed while open.
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
