//! Operations of the model as calls of the NFS client, and the replies as outcomes of the model.

use super::Worker;
use crate::model::{Answer, Create, Key, Operation, Outcome};
use gannet_nfs::client::{Error, Found, Position};
use gannet_nfs::limits::LISTING_PAGE;
use gannet_runtime::Buffer;
use gannet_vfs::{
    Attributes, CreateMode, EntryName, FileHandle, FileKind, SetAttributes, Stability, Verifier,
};

/// An operation as it was executed, and its outcome, if a reply came.
type Performed = Result<(Operation, Option<Outcome>), String>;

impl Worker {
    /// Makes the call.
    ///
    /// # Errors
    /// The server broke the protocol, or sent a reply that no state explains.
    pub(super) async fn perform(&mut self, mut operation: Operation) -> Performed {
        let incarnation = self.stage.incarnation.get();
        let outcome = match self.call(&mut operation, incarnation).await {
            Ok(answer) => Some(Ok(answer)),
            Err(PerformError::Nfs(Error::Status(status))) => Some(Err(status)),
            Err(PerformError::Nfs(Error::Call(error))) => {
                self.stage
                    .faults
                    .note(format_args!("worker {}: {error}", self.number));
                None
            }
            Err(PerformError::Nfs(other)) => return Err(format!("{operation}: {other}")),
            Err(PerformError::Wrong(why)) => return Err(format!("{operation}: {why}")),
        };
        Ok((operation, outcome))
    }

    async fn call(
        &mut self,
        operation: &mut Operation,
        incarnation: u64,
    ) -> Result<Answer, PerformError> {
        match operation {
            Operation::Lookup { directory, name } => {
                let found = self.client.lookup(&self.handle(*directory)?, name).await?;
                let expected = self.without_handle(*directory, name);
                self.identify(&found, expected)
            }
            Operation::Getattr { object } => Ok(attributes(
                &self.client.getattr(&self.handle(*object)?).await?,
            )),
            Operation::List { directory } => {
                let names = self.names(&self.handle(*directory)?).await?;
                Ok(Answer::Names(names))
            }
            Operation::Read { file, offset, len } => self.read_call(*file, *offset, *len).await,
            Operation::Readlink { link } => Ok(Answer::Text(
                self.client.readlink(&self.handle(*link)?).await?,
            )),
            Operation::Write {
                file,
                offset,
                bytes,
                stability,
            } => {
                let count = self
                    .write_call(*file, *offset, bytes, *stability, incarnation)
                    .await?;
                bytes.truncate(count);
                Ok(Answer::Done)
            }
            Operation::Commit { file } => {
                let verifier = self
                    .client
                    .commit(&self.handle(*file)?, 0, 0)
                    .await?
                    .verifier;
                self.check_verifier(verifier, incarnation)?;
                Ok(Answer::Done)
            }
            Operation::Truncate { file, len } => {
                let change = SetAttributes {
                    size: Some(*len),
                    ..SetAttributes::default()
                };
                self.client
                    .setattr(&self.handle(*file)?, &change, None)
                    .await?;
                Ok(Answer::Done)
            }
            Operation::Chmod { object, mode } => {
                let change = SetAttributes {
                    mode: Some(*mode),
                    ..SetAttributes::default()
                };
                self.client
                    .setattr(&self.handle(*object)?, &change, None)
                    .await?;
                Ok(Answer::Done)
            }
            names => self.call_on_names(names).await,
        }
    }

    /// The names in a directory, sorted. A name that is reused meanwhile may come twice; the listing starts over then.
    async fn names(&self, directory: &FileHandle) -> Result<Vec<Vec<u8>>, Error> {
        loop {
            let (mut names, mut position) = (Vec::new(), Some(Position::default()));
            while let Some(at) = position {
                let page = self.client.readdirplus(directory, at, LISTING_PAGE).await?;
                names.extend(page.items.into_iter().map(|item| item.name));
                position = page.next;
            }
            names.sort();
            if names.windows(2).all(|pair| pair.first() != pair.last()) {
                return Ok(names);
            }
        }
    }

    /// The earlier CREATE of a name whose handle may come with the reply to this one, because its reply was lost.
    fn expected(&self, how: &CreateMode, directory: Key, name: &[u8]) -> Option<Key> {
        match how {
            // Its verifier is that of the file.
            CreateMode::Exclusive(_) => None,
            _ => self.without_handle(directory, name),
        }
    }

    async fn call_on_names(&mut self, operation: &Operation) -> Result<Answer, PerformError> {
        match operation {
            Operation::Create {
                directory,
                name,
                how,
                key,
            } => {
                let how = match how {
                    Create::Unchecked => CreateMode::Unchecked(mode(0o644)),
                    Create::Guarded => CreateMode::Guarded(mode(0o644)),
                    Create::Exclusive => CreateMode::Exclusive(u64::from(*key).to_be_bytes()),
                };
                let found = self
                    .client
                    .create(&self.handle(*directory)?, name, &how)
                    .await?;
                let expected = self.expected(&how, *directory, name).unwrap_or(*key);
                self.identify(&found, Some(expected))
            }
            Operation::Mkdir {
                directory,
                name,
                key,
            } => {
                let directory = self.handle(*directory)?;
                let found = self.client.mkdir(&directory, name, &mode(0o755)).await?;
                self.identify(&found, Some(*key))
            }
            Operation::Symlink {
                directory,
                name,
                target,
                key,
            } => {
                let directory = self.handle(*directory)?;
                let set = mode(0o644);
                let found = self.client.symlink(&directory, name, target, &set).await?;
                self.identify(&found, Some(*key))
            }
            Operation::Remove { directory, name } => {
                self.client.remove(&self.handle(*directory)?, name).await?;
                Ok(Answer::Done)
            }
            Operation::Rmdir { directory, name } => {
                self.client.rmdir(&self.handle(*directory)?, name).await?;
                Ok(Answer::Done)
            }
            Operation::Rename { from, old, to, new } => {
                let (from, to) = (self.handle(*from)?, self.handle(*to)?);
                self.client
                    .rename(EntryName::new(&from, old), EntryName::new(&to, new))
                    .await?;
                Ok(Answer::Done)
            }
            Operation::Link {
                file,
                directory,
                name,
            } => {
                let (file, directory) = (self.handle(*file)?, self.handle(*directory)?);
                self.client.link(&file, &directory, name).await?;
                Ok(Answer::Done)
            }
            other => Err(PerformError::Wrong(format!(
                "{other:?} is no operation on names"
            ))),
        }
    }

    async fn read_call(&self, file: Key, offset: u64, len: u32) -> Result<Answer, PerformError> {
        let buffer = Buffer::zeroed(len as usize);
        let read = self
            .client
            .read(&self.handle(file)?, offset, len, buffer)
            .await?;
        let bytes = read.buffer.get(..read.count as usize);
        let bytes =
            bytes.ok_or_else(|| PerformError::Wrong(String::from("more than was asked for")))?;
        Ok(Answer::Bytes {
            bytes: bytes.to_vec(),
            eof: read.eof,
        })
    }

    /// Makes the WRITE call; gives the number of bytes that the server took.
    async fn write_call(
        &self,
        file: Key,
        offset: u64,
        bytes: &[u8],
        stability: Stability,
        incarnation: u64,
    ) -> Result<usize, PerformError> {
        let buffer = Buffer::from_vec(bytes.to_vec());
        let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let handle = self.handle(file)?;
        let written = self
            .client
            .write(&handle, offset, buffer, len, stability)
            .await?;
        self.check_verifier(written.verifier, incarnation)?;
        if written.committed < stability {
            return Err(PerformError::Wrong(format!("only {:?}", written.committed)));
        }
        let short = self.stage.plan.disk.short_writes_per_mille > 0;
        if written.count != len && !short {
            return Err(PerformError::Wrong(format!(
                "{} bytes written",
                written.count
            )));
        }
        Ok(written.count as usize)
    }

    /// An incarnation of the server has one write verifier, and no two have the same.
    fn check_verifier(&self, verifier: Verifier, before: u64) -> Result<(), PerformError> {
        let incarnation = self.stage.incarnation.get();
        if incarnation != before || incarnation.is_multiple_of(2) {
            return Ok(());
        }
        let mut known = self.stage.verifiers.borrow_mut();
        let expected = *known.entry(incarnation).or_insert(verifier);
        let reused = known
            .iter()
            .any(|(other, value)| *other != incarnation && *value == verifier);
        if expected != verifier || reused {
            return Err(PerformError::Wrong(String::from(
                "the write verifier does not tell incarnations apart",
            )));
        }
        Ok(())
    }

    /// The handle of an object that an operation was chosen for.
    fn handle(&self, key: Key) -> Result<FileHandle, PerformError> {
        let handle = self.handles.get(&key).copied();
        handle.ok_or_else(|| PerformError::Wrong(format!("object {key} has no handle")))
    }

    /// An object without a handle that the name has in some possible state. One whose handle is known is found by it.
    fn without_handle(&self, directory: Key, name: &[u8]) -> Option<Key> {
        let mut named = self.oracle.named(directory, name);
        named.find(|key| !self.handles.contains_key(key))
    }

    /// The object of the model that the server found or made: the one that has this handle, else the expected one.
    fn identify(&mut self, found: &Found, expected: Option<Key>) -> Result<Answer, PerformError> {
        let mut known = self
            .handles
            .iter()
            .filter(|(_, handle)| **handle == found.handle);
        if let Some((key, _)) = known.next() {
            return Ok(Answer::Object(*key));
        }
        let Some(key) = expected else {
            return Err(PerformError::Wrong(String::from("an object nobody made")));
        };
        if self.handles.insert(key, found.handle).is_some() {
            return Err(PerformError::Wrong(format!(
                "object {key} changed its handle"
            )));
        }
        Ok(Answer::Object(key))
    }
}

/// Attributes to set that are permission bits alone.
fn mode(mode: u32) -> SetAttributes {
    SetAttributes {
        mode: Some(mode),
        ..SetAttributes::default()
    }
}

fn attributes(found: &Attributes) -> Answer {
    Answer::Attributes {
        kind: found.kind,
        mode: found.mode,
        links: found.link_count,
        size: (found.kind != FileKind::Directory).then_some(found.size),
    }
}

/// The reason why there is no outcome to compare.
enum PerformError {
    Nfs(Error),
    Wrong(String),
}

impl From<Error> for PerformError {
    fn from(error: Error) -> PerformError {
        PerformError::Nfs(error)
    }
}
