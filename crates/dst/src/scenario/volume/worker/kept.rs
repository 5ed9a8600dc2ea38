//! Files that a program keeps open while workers of other machines may change them.

use super::mounted::status;
use super::{Mount, NAMES, Worker};
use crate::scenario::volume::CACHE_AGE;
use gannet_fuse::headless::Opened;
use gannet_vfs::Status;
use std::cell::RefCell;
use std::io;
use std::rc::Rc;

/// How often a program keeps a file open that it has used.
const KEEPS_PER_MILLE: u64 = 600;
/// How often a program comes back to one of these files.
const COMES_BACK_PER_MILLE: u64 = 150;
const EAGAIN: i32 = 11;

/// The open files by their names, one of each name.
#[derive(Default)]
pub(super) struct KeptFiles([RefCell<Option<KeptFile>>; NAMES]);

#[derive(Debug, Clone)]
struct KeptFile {
    file: Opened,
    /// The number of the file in the model.
    identity: u64,
    /// The content at the last look.
    seen: Vec<u8>,
}

/// The act after which the program must see the changes of other machines.
#[derive(Debug, Clone, Copy)]
enum After {
    /// The age of attributes passes.
    Age,
    /// The file is opened once more, without a lookup of its name.
    Open,
    /// The file is locked.
    Lock,
}

impl Worker {
    /// A name whose file this worker keeps open and comes back to now.
    pub(super) fn draw_kept(&self) -> Option<usize> {
        let KeptFiles(files) = &self.kept;
        let is_kept = |name: &usize| files[*name].borrow().is_some();
        let names: Vec<usize> = (0..NAMES).filter(is_kept).collect();
        let random = &self.seat().random;
        let comes_back = !names.is_empty() && random.chance(COMES_BACK_PER_MILLE);
        comes_back.then(|| names[random.index(names.len())])
    }

    /// Closes a file of which the program has just seen the model's content, or keeps it open.
    pub(super) fn leave(&self, mount: &Rc<Mount>, file: Opened, name: usize) {
        let KeptFiles(files) = &self.kept;
        let is_free = files[name].borrow().is_none();
        if !is_free || !self.seat().random.chance(KEEPS_PER_MILLE) {
            return self.close(mount, file);
        }
        files[name].replace(Some(KeptFile {
            file,
            identity: self.stage.identities[name].get(),
            seen: self.content(name).unwrap_or_default(),
        }));
    }

    /// Closes all files that were kept open.
    pub(super) fn close_kept(&self) {
        let KeptFiles(files) = &self.kept;
        let Some(mount) = &self.mount else {
            return;
        };
        let open = files.iter().filter_map(RefCell::take);
        open.for_each(|kept| self.close(mount, kept.file));
    }

    /// Compares the file of a name with the model by the descriptor that was kept open; false without one. A descriptor
    /// of a file that has lost the name is closed.
    pub(super) async fn look_again(&self, mount: &Rc<Mount>, name: usize) -> Result<bool, String> {
        let KeptFiles(files) = &self.kept;
        let Some(kept) = files[name].take() else {
            return Ok(false);
        };
        if kept.identity != self.stage.identities[name].get() {
            self.close(mount, kept.file);
            return Ok(false);
        }
        let after = match self.seat().random.below(4) {
            0 => After::Open,
            1 if matches!(**mount, Mount::Volume(_)) => After::Lock,
            _ => After::Age,
        };
        loop {
            let looked = self.look_after(mount, kept.file, name, after).await;
            match looked.map_err(|why| format!("{why}, kept open, after {after:?}"))? {
                Ok(()) => break,
                Err(error) => self.try_again("read again", error).await?,
            }
        }
        if self.content(name).unwrap_or_default() != kept.seen {
            self.stage.count(|summary| summary.seen_again += 1);
        }
        self.leave(mount, kept.file, name);
        Ok(true)
    }

    /// Reads an open file once it must show the model's content; the inner error is a program's.
    async fn look_after(
        &self,
        mount: &Rc<Mount>,
        file: Opened,
        name: usize,
        after: After,
    ) -> Result<io::Result<()>, String> {
        match after {
            After::Open => {
                let again = match mount.open(file.number, self.number).await {
                    Ok(again) => again,
                    Err(error) => return Ok(Err(error)),
                };
                let looked = self.look_through(mount, again, name).await;
                mount.release(again).await;
                looked
            }
            After::Lock => match mount.lock(file, self.number, true).await {
                Ok(()) => {
                    let looked = self.look_through(mount, file, name).await;
                    self.unlock(mount, file).await?;
                    looked
                }
                // Another worker has left a lock behind.
                Err(error) if error.raw_os_error() == Some(EAGAIN) => Ok(Ok(())),
                Err(error) => Ok(Err(error)),
            },
            After::Age => {
                if self.stage.plan.has_pages() {
                    self.stage.faults.sleep(CACHE_AGE).await;
                }
                // The kernel drops pages during this request and ignores its reply: a read at the former end would
                // find nothing.
                let (size, wanted) = match mount.size(file).await {
                    Ok(size) => (size, self.content(name).unwrap_or_default().len() as u64),
                    Err(error) => return Ok(Err(error)),
                };
                if size != wanted {
                    return Err(format!("file {name} has {size} bytes, not {wanted}"));
                }
                self.look_through(mount, file, name).await
            }
        }
    }

    async fn unlock(&self, mount: &Rc<Mount>, file: Opened) -> Result<(), String> {
        while let Err(error) = mount.lock(file, self.number, false).await {
            if status(&error) == Status::Stale {
                break;
            }
            self.try_again("unlock", error).await?;
        }
        Ok(())
    }
}
