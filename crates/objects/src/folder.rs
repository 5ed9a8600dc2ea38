//! A store of objects in a folder: each object is an ordinary file, in one of 256 folders by the number of its file.

use super::store::{ObjectStore, Opened, Room};
use gannet_runtime::file::read_cold;
use gannet_runtime::{Buffer, Handle};
use gannet_vfs::{
    Attributes, CreateMode, Credentials, FileHandle, FileKind, SetAttributes, SetTime, Stability,
    Status, Time, Vfs,
};
use gannet_wire::volume::{ObjectId, ObjectPage, ObjectState, Timestamp};
use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;

/// Objects in a folder that nothing else changes, and which gives attributes with the data of a read.
pub struct FolderStore<V: Vfs> {
    runtime: Handle,
    /// The group with the server's own number.
    pub(super) own_group: u32,
    pub(super) vfs: V,
    /// The files of notes, by name.
    notes: RefCell<HashMap<&'static str, FileHandle>>,
}

/// The place of an object in the folder.
struct ObjectPath {
    folder: Vec<u8>,
    name: Vec<u8>,
}

/// The folder of a file's objects.
pub(super) fn folder_of(file: u64) -> Vec<u8> {
    format!("{:02x}", file & 0xff).into_bytes()
}

/// The name of an object in its folder. One of the server's own group is named by its file alone, as all were when
/// there were no groups.
pub(super) fn name_of(object: ObjectId, own_group: u32) -> Vec<u8> {
    let ObjectId { group, file } = object;
    if group == own_group {
        format!("{file:016x}").into_bytes()
    } else {
        format!("{file:016x}.{group}").into_bytes()
    }
}

/// A time of the store as it travels.
pub fn timestamp_of(time: Time) -> Timestamp {
    Timestamp {
        seconds: time.seconds,
        nanoseconds: time.nanoseconds,
    }
}

/// The credentials of the server in its folder, all of which is its own.
pub(super) fn own() -> Credentials {
    Credentials::new(0, 0, &[])
}

impl<V: Vfs> FolderStore<V> {
    /// The objects in the root of `vfs`, which belongs to I/O server `number`.
    pub fn new(runtime: Handle, vfs: V, number: u32) -> FolderStore<V> {
        FolderStore {
            runtime,
            own_group: number,
            vfs,
            notes: RefCell::default(),
        }
    }

    fn path_of(&self, object: ObjectId) -> ObjectPath {
        ObjectPath {
            folder: folder_of(object.file),
            name: name_of(object, self.own_group),
        }
    }

    /// The state of an object with these attributes.
    fn state_of(&self, attributes: &Attributes) -> ObjectState {
        ObjectState {
            size: attributes.size,
            used: attributes.used,
            modified: timestamp_of(attributes.modify_time),
            version: attributes.change_id,
            verifier: self.verifier(),
        }
    }

    /// The file of a note, and its length, if it was ever written.
    async fn find_note(&self, name: &'static str) -> Result<Option<(FileHandle, u64)>, Status> {
        let root = self.vfs.root();
        match self.vfs.lookup(&own(), &root, name.as_bytes()).await.0 {
            Err(Status::Noent) => {
                self.notes.borrow_mut().remove(name);
                Ok(None)
            }
            Err(status) => Err(status),
            Ok((_, found)) if found.kind != FileKind::Regular => {
                let kind = found.kind.name();
                tracing::error!(name, kind, "a note of an I/O server is no regular file");
                Err(Status::Io)
            }
            Ok((handle, found)) => {
                self.notes.borrow_mut().insert(name, handle);
                Ok(Some((handle, found.size)))
            }
        }
    }

    async fn make_note(&self, name: &'static str) -> Result<FileHandle, Status> {
        let mode = CreateMode::Unchecked(SetAttributes {
            mode: Some(0o600),
            ..SetAttributes::default()
        });
        let (own, root) = (own(), self.vfs.root());
        let made = self.vfs.create(&own, &root, name.as_bytes(), &mode);
        let handle = made.await.result?.handle;
        self.notes.borrow_mut().insert(name, handle);
        Ok(handle)
    }
}

impl<V: Vfs> ObjectStore for FolderStore<V> {
    async fn find(&self, object: ObjectId) -> Result<Option<FileHandle>, Status> {
        let ObjectPath { folder, name } = self.path_of(object);
        let root = self.vfs.root();
        let folder = match self.vfs.lookup(&own(), &root, &folder).await.0 {
            Ok((folder, _)) => folder,
            Err(Status::Noent) => return Ok(None),
            Err(status) => return Err(status),
        };
        match self.vfs.lookup(&own(), &folder, &name).await.0 {
            Ok((handle, found)) if found.kind == FileKind::Regular => Ok(Some(handle)),
            Ok((_, found)) => {
                tracing::warn!(
                    %object,
                    kind = found.kind.name(),
                    "the name of an object belongs to no regular file"
                );
                Err(Status::Io)
            }
            Err(Status::Noent) => Ok(None),
            Err(status) => Err(status),
        }
    }

    async fn make(&self, object: ObjectId) -> Result<FileHandle, Status> {
        let ObjectPath { folder, name } = self.path_of(object);
        let (own, root) = (own(), self.vfs.root());
        let attributes = SetAttributes {
            mode: Some(0o700),
            ..SetAttributes::default()
        };
        let made = (self.vfs).make_directory(&own, &root, &folder, &attributes);
        let folder = match made.await.result {
            Ok(made) => made.handle,
            Err(Status::Exist) => self.vfs.lookup(&own, &root, &folder).await.0?.0,
            Err(status) => return Err(status),
        };
        let mode = CreateMode::Unchecked(SetAttributes {
            mode: Some(0o600),
            ..SetAttributes::default()
        });
        let made = self.vfs.create(&own, &folder, &name, &mode).await;
        Ok(made.result?.handle)
    }

    async fn open(&self, object: &FileHandle, offset: u64, count: u32) -> Result<Opened, Status> {
        let opened = self.vfs.read(&own(), object, offset, count).await?;
        Ok(Opened {
            state: self.state_of(&opened.attributes),
            file: opened.file,
            count: opened.count,
        })
    }

    async fn state(&self, object: &FileHandle) -> Result<ObjectState, Status> {
        Ok(self.state_of(&self.vfs.attributes(object).await?))
    }

    async fn put(
        &self,
        object: &FileHandle,
        offset: u64,
        buffer: Buffer,
        data: Range<usize>,
        stability: Stability,
    ) -> Result<(u32, Option<Buffer>), Status> {
        let own = own();
        let put = (self.vfs).write_and_return(&own, object, offset, buffer, data, stability);
        let (written, buffer) = put.await;
        Ok((written.result?.count, buffer))
    }

    async fn cut(&self, object: &FileHandle, len: u64) -> Result<(), Status> {
        let change = SetAttributes {
            size: Some(len),
            modify_time: SetTime::Now,
            ..SetAttributes::default()
        };
        let own = own();
        let changed = self.vfs.set_attributes(&own, object, &change, None);
        changed.await.result.map(|_| ())
    }

    async fn stamp(&self, object: &FileHandle, time: Timestamp) -> Result<(), Status> {
        let change = SetAttributes {
            modify_time: SetTime::To(Time {
                seconds: time.seconds,
                nanoseconds: time.nanoseconds,
            }),
            ..SetAttributes::default()
        };
        let own = own();
        let changed = self.vfs.set_attributes(&own, object, &change, None);
        changed.await.result.map(|_| ())
    }

    async fn sync(&self, object: &FileHandle) -> Result<(), Status> {
        let synced = self.vfs.commit(&own(), object, 0, 0).await;
        synced.result.map(|_| ())
    }

    async fn remove(&self, object: ObjectId) -> Result<(), Status> {
        let ObjectPath { folder, name } = self.path_of(object);
        let root = self.vfs.root();
        let removed = match self.vfs.lookup(&own(), &root, &folder).await.0 {
            Ok((folder, _)) => self.vfs.remove(&own(), &folder, &name).await.result,
            Err(status) => Err(status),
        };
        match removed {
            Ok(()) | Err(Status::Noent) => Ok(()),
            Err(status) => Err(status),
        }
    }

    async fn list(&self, page: &mut ObjectPage) -> Result<(), Status> {
        self.list_objects(page).await
    }

    async fn usage(&self) -> Result<Room, Status> {
        let root = self.vfs.root();
        Ok(Room {
            usage: self.vfs.usage(&root).await?,
            fsid: self.vfs.attributes(&root).await?.fsid,
        })
    }

    fn verifier(&self) -> u64 {
        u64::from_be_bytes(self.vfs.write_verifier())
    }

    async fn note(&self, name: &'static str, len: usize) -> Result<Option<Vec<u8>>, Status> {
        let Some((handle, size)) = self.find_note(name).await? else {
            return Ok(None);
        };
        if size == 0 {
            return Ok(Some(Vec::new()));
        }
        // The last write of an earlier process may be in the kernel's memory alone; a power failure would undo it.
        self.sync(&handle).await?;
        let file = self.vfs.read(&own(), &handle, 0, 0).await?.file;
        let (mut bytes, read) = read_cold(&self.runtime, file, 0, vec![0; len])
            .await
            .map_err(|error| {
                tracing::error!(name, %error, "a note of an I/O server cannot be read");
                Status::Io
            })?;
        bytes.truncate(read);
        Ok(Some(bytes))
    }

    async fn write_note(
        &self,
        name: &'static str,
        offset: u64,
        mut bytes: Vec<u8>,
        stability: Stability,
    ) -> Result<(), Status> {
        let known = self.notes.borrow().get(name).copied();
        let handle = match known {
            Some(handle) => handle,
            None => self.make_note(name).await?,
        };
        let (own, mut at) = (own(), offset);
        while !bytes.is_empty() {
            let (len, buffer) = (bytes.len(), Buffer::from_vec(bytes.clone()));
            let written = self.vfs.write(&own, &handle, at, buffer, 0..len, stability);
            let written = written.await.result.inspect_err(|_| {
                // An operator may have removed it.
                self.notes.borrow_mut().remove(name);
            });
            let count = written?.count;
            if count == 0 {
                return Err(Status::Nospc);
            }
            at += u64::from(count);
            bytes.drain(..len.min(count as usize));
        }
        Ok(())
    }
}
