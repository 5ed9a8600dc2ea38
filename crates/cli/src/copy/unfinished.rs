//! A file under way: it has a name of its own beside its target until every byte is there.
//!
//! The target, if there is one, stays whole until then. A copy that fails removes the unfinished file; one that is
//! interrupted removes all that it made and that a server still answers for ([`Temporaries`]).

use super::content::Sink;
use super::local;
use super::place::{FILE_MODE, Local, NO_REGULAR_FILE, Node, Place, locally, lookup};
use super::verify::Cursor;
use crate::failure::{Explain, Failure};
use crate::session::Session;
use gannet::url::Url;
use gannet_client::{Error, Existing, Transfer};
use gannet_runtime::{Handle, timeout};
use gannet_vfs::{EntryName, FileHandle, FileKind, SetAttributes, SetTime, Status};
use gannet_wire::printable;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// How long servers may take to remove what an interrupted copy leaves.
const REMOVAL_MAX: Duration = Duration::from_secs(3);

/// Unfinished files on servers, which have to be removed by calls. (Local ones are removed when they are dropped.)
#[derive(Default)]
pub(crate) struct Temporaries {
    files: RefCell<BTreeMap<u64, Temporary>>,
    last: Cell<u64>,
}

#[derive(Clone)]
struct Temporary {
    session: Session,
    directory: FileHandle,
    name: Vec<u8>,
}

impl Temporary {
    async fn remove(&self) {
        let objects = self.session.objects();
        if let Err(error) = objects.remove(&self.directory, &self.name).await {
            tracing::debug!(name = %printable(&self.name), %error, "cannot remove an unfinished file");
        }
    }
}

impl Temporaries {
    /// Takes note of a file that is about to be made.
    fn add(&self, temporary: Temporary) -> u64 {
        let number = self.last.get() + 1;
        self.last.set(number);
        self.files.borrow_mut().insert(number, temporary);
        number
    }

    fn forget(&self, number: u64) -> Option<Temporary> {
        self.files.borrow_mut().remove(&number)
    }

    /// Removes all that is left, as far as servers answer soon.
    pub(crate) async fn remove_all(&self, runtime: &Handle) {
        let left = std::mem::take(&mut *self.files.borrow_mut());
        let removals = async {
            for temporary in left.values() {
                temporary.remove().await;
            }
        };
        if timeout(runtime, REMOVAL_MAX, removals).await.is_err() {
            tracing::warn!(
                "the server did not reply in time: remove files named .gannet-cp-* by hand"
            );
        }
    }
}

/// A file that is being copied, under its temporary name.
pub(crate) struct Unfinished {
    file: UnfinishedFile,
    /// The name of the target, for messages.
    shown: String,
}

enum UnfinishedFile {
    Local(Handle, Arc<local::Unfinished>),
    Remote(Box<Remote>),
}

struct Remote {
    session: Session,
    directory: FileHandle,
    name: Vec<u8>,
    temporary: Vec<u8>,
    file: FileHandle,
    /// The number of the file in `temporaries`.
    number: u64,
    temporaries: Rc<Temporaries>,
}

impl fmt::Display for Unfinished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

/// Where a file is to be made.
pub(crate) struct Target<'a> {
    pub(crate) directory: &'a Place,
    /// The directory is new: nothing can be there.
    pub(crate) is_new: bool,
    pub(crate) name: &'a OsStr,
}

impl Target<'_> {
    async fn check_apart(&self, source: Option<&Place>) -> Result<(), Failure> {
        match source {
            Some(source) => self.directory.check_apart(self.name, source).await,
            None => Ok(()),
        }
    }
}

impl Unfinished {
    /// Begins the copy of `source`, or of a stream that is none of the files there, at `target`.
    ///
    /// # Errors
    /// Something is there that no file may replace, or the directory takes no files.
    pub(crate) async fn create(
        target: Target<'_>,
        source: Option<&Place>,
        temporaries: &Rc<Temporaries>,
    ) -> Result<Unfinished, Failure> {
        match target.directory {
            Place::Local(local) => {
                if !target.is_new {
                    target.check_apart(source).await?;
                }
                Unfinished::create_locally(local, &target).await
            }
            Place::Remote(session, directory, url) => {
                let making = Unfinished::create_remotely(
                    session,
                    directory,
                    url,
                    &target,
                    source,
                    temporaries,
                );
                making.await
            }
        }
    }

    async fn create_locally(local: &Local, target: &Target<'_>) -> Result<Unfinished, Failure> {
        let shown = printable(target.name.as_bytes());
        let what = || format!("cannot create {shown} in {}", target.directory);
        let child = local.child(target.name).explain(what)?;
        let made = child.with(local::Unfinished::create).await.explain(what)?;
        Ok(Unfinished {
            file: UnfinishedFile::Local(Rc::clone(&local.runtime), Arc::new(made)),
            shown: Place::Local(child).to_string(),
        })
    }

    async fn create_remotely(
        session: &Session,
        directory: &FileHandle,
        url: &Url,
        target: &Target<'_>,
        source: Option<&Place>,
        temporaries: &Rc<Temporaries>,
    ) -> Result<Unfinished, Failure> {
        let shown = url.child(target.name.as_bytes()).to_string();
        let what = || format!("cannot create {shown}");
        let existing = if target.is_new {
            None
        } else {
            lookup(session, directory, target.name)
                .await
                .explain(what)?
        };
        match existing.map(|(_, attributes)| attributes.kind) {
            None | Some(FileKind::Symlink) => {}
            Some(FileKind::Regular) => target.check_apart(source).await?,
            Some(FileKind::Directory) => return Err(Failure::new(what(), Status::Isdir)),
            Some(_) => return Err(Failure::new(what(), NO_REGULAR_FILE)),
        }
        let random = getrandom::u64().explain(what)?;
        let temporary = super::place::temporary_name(random);
        let number = temporaries.add(Temporary {
            session: session.clone(),
            directory: *directory,
            name: temporary.clone(),
        });
        let replaced = existing.filter(|(_, there)| there.kind == FileKind::Regular);
        let replaced = replaced.map(|(handle, _)| handle);
        let file = match make(session, directory, &temporary, replaced).await {
            Ok(file) => file,
            Err(error) => {
                temporaries.forget(number);
                let hint =
                    "cp makes a temporary file beside the target: allow new files in its directory";
                return Err(Failure::new(what(), &error).hint_if(is_denied(&error), hint));
            }
        };
        Ok(Unfinished {
            file: UnfinishedFile::Remote(Box::new(Remote {
                session: session.clone(),
                directory: *directory,
                name: target.name.as_bytes().to_vec(),
                temporary,
                file,
                number,
                temporaries: Rc::clone(temporaries),
            })),
            shown,
        })
    }

    /// Takes its bytes.
    pub(crate) fn sink(&self, transfer: Transfer) -> Sink {
        match &self.file {
            UnfinishedFile::Local(runtime, file) => Sink::local(runtime, file.file()),
            UnfinishedFile::Remote(remote) => Sink::remote(&remote.session, &remote.file, transfer),
        }
    }

    /// Reads it back.
    pub(super) fn cursor(&self, transfer: Transfer) -> Cursor {
        match &self.file {
            UnfinishedFile::Local(runtime, file) => Cursor::local(runtime, file.file()),
            UnfinishedFile::Remote(remote) => {
                Cursor::remote(&remote.session, &remote.file, transfer)
            }
        }
    }

    /// Gives it the length, the mode and the modification time of `node`.
    pub(crate) async fn set_attributes(&self, node: &Node) -> Result<(), Failure> {
        let what = || format!("cannot set mode and time of {self}");
        match &self.file {
            UnfinishedFile::Local(runtime, file) => {
                let (file, node) = (Arc::clone(file), *node);
                let set = locally(runtime, move || file.set_attributes(&node));
                set.await.explain(what)
            }
            UnfinishedFile::Remote(remote) => {
                let change = SetAttributes {
                    mode: Some(node.copied_mode()),
                    // Only where the end is a hole, which was not written.
                    size: (node.used < node.size).then_some(node.size),
                    modify_time: SetTime::To(node.modify_time),
                    ..SetAttributes::default()
                };
                let objects = remote.session.objects();
                let changed = objects.set_attributes(&remote.file, &change).await;
                changed.map(|_| ()).explain(what)
            }
        }
    }

    /// Gives the file its name, and replaces the object that had it.
    pub(crate) async fn complete(self) -> Result<(), Failure> {
        let what = || format!("cannot rename the temporary file to {}", self.shown);
        match &self.file {
            UnfinishedFile::Local(runtime, file) => {
                let file = Arc::clone(file);
                locally(runtime, move || file.complete())
                    .await
                    .explain(what)
            }
            UnfinishedFile::Remote(remote) => {
                let objects = remote.session.objects();
                let from = EntryName::new(&remote.directory, &remote.temporary);
                let renamed = objects
                    .rename(from, EntryName::new(&remote.directory, &remote.name))
                    .await;
                match renamed {
                    Ok(()) => {
                        remote.temporaries.forget(remote.number);
                        Ok(())
                    }
                    Err(error) => {
                        let failure = Failure::new(what(), error);
                        self.discard().await;
                        Err(failure)
                    }
                }
            }
        }
    }

    /// Removes it.
    pub(crate) async fn discard(self) {
        if let UnfinishedFile::Remote(remote) = self.file {
            let temporary = remote.temporaries.forget(remote.number);
            if let Some(temporary) = temporary {
                temporary.remove().await;
            }
        }
    }
}

fn is_denied(error: &Error) -> bool {
    matches!(error.status(), Some(Status::Acces | Status::Perm))
}

/// Makes an empty file under an unused name, on a volume striped like the one it will replace.
async fn make(
    session: &Session,
    directory: &FileHandle,
    name: &[u8],
    replaced: Option<FileHandle>,
) -> Result<FileHandle, Error> {
    if let Some(replaced) = replaced
        && let Some(made) = session
            .create_like(&replaced, EntryName::new(directory, name), FILE_MODE)
            .await
    {
        return made;
    }
    let create = async |existing| {
        let made = session
            .files()
            .create_in(directory, name, FILE_MODE, existing);
        made.await.map(|made| made.handle)
    };
    match create(Existing::Refuse).await {
        // By a call whose answer was lost with the server: names are drawn from 2^64.
        Err(Error::Status(Status::Exist)) => create(Existing::Truncate).await,
        made => made,
    }
}
