//! A volume behind the commands: the procedures of NFS's client, done by the native protocol.

use gannet_nfs::client::{
    Committed, Direct, DirectAnswer, Error, Found, Item, ReadDone, WriteOutcome,
};
use gannet_runtime::{Buffer, Handle, Instant};
use gannet_vfs::{
    AccessMask, Attributes, Changed, CreateMode, Created, Credentials, DirectoryEntry, Entries,
    FileHandle, FileSystemUsage, NodeKind, SetAttributes, Stability, Status, Time, Vfs,
};
use gannet_volume::client::{Striping, VolumeFs};
use gannet_volume::meta::{Chosen, Stripes};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

/// Bytes of a listing that are kept at a time; a volume's pages are shorter.
const ENTRIES_MAX: usize = 4096;

/// One caller's view of a volume.
pub(super) struct Native {
    volume: VolumeFs,
    caller: Credentials,
    clock: Handle,
    /// When operations that are under way began, oldest first.
    under_way: RefCell<BTreeMap<u64, Instant>>,
    begun: Cell<u64>,
}

/// An operation that is under way.
struct UnderWay<'a>(&'a Native, u64);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.under_way.borrow_mut().remove(&self.1);
    }
}

impl Native {
    pub(super) fn new(clock: &Handle, volume: VolumeFs, caller: Credentials) -> Native {
        Native {
            volume,
            caller,
            clock: Handle::clone(clock),
            under_way: RefCell::default(),
            begun: Cell::new(0),
        }
    }

    /// Takes note that `operation` is under way.
    fn timed<'a, T: 'a>(
        &'a self,
        operation: impl Future<Output = Result<T, Error>> + 'a,
    ) -> DirectAnswer<'a, T> {
        Box::pin(async move {
            let number = self.begun.get() + 1;
            self.begun.set(number);
            let now = self.clock.now();
            self.under_way.borrow_mut().insert(number, now);
            let _under_way = UnderWay(self, number);
            operation.await
        })
    }

    /// Since when the oldest operation has not been answered.
    pub(super) fn waits_since(&self) -> Option<Instant> {
        let under_way = self.under_way.borrow();
        under_way.first_key_value().map(|(_, since)| *since)
    }

    /// Which I/O servers do not greet within `max`, and why; `None` when all do.
    pub(super) async fn away(&self, max: Duration) -> Option<String> {
        let away = self.volume.away(max).await;
        let away: Vec<String> = away
            .into_iter()
            .map(|(number, why)| format!("I/O server {number} is away: {why}"))
            .collect();
        (!away.is_empty()).then(|| away.join("; "))
    }

    async fn list_by(
        &self,
        directory: &FileHandle,
        wants_objects: bool,
    ) -> Result<Vec<Item>, Error> {
        let mut listing = Listing {
            wants_objects,
            ..Listing::default()
        };
        loop {
            listing.room = ENTRIES_MAX;
            let (cookie, verifier) = (listing.last, Default::default());
            let (volume, caller) = (&self.volume, &self.caller);
            let page = volume.read_directory(caller, directory, cookie, verifier, &mut listing);
            if self.done(page.await)?.eof {
                return Ok(listing.items);
            }
        }
    }

    /// Connections that were lost and made anew.
    pub(super) fn reconnects(&self) -> u64 {
        self.volume.reconnects()
    }

    /// Makes an empty file, striped as `replaced` is.
    pub(super) async fn create_like(
        &self,
        replaced: &FileHandle,
        (directory, name): (&FileHandle, &[u8]),
        mode: u32,
    ) -> Result<FileHandle, Error> {
        let (volume, caller) = (&self.volume, &self.caller);
        let Striping::File(layout) = self.done(volume.striping(caller, replaced).await)? else {
            return Err(Error::Status(Status::Inval));
        };
        let stripes = Stripes {
            unit: layout.unit,
            on: Chosen::Listed(layout.servers),
        };
        let attributes = SetAttributes {
            mode: Some(mode),
            ..SetAttributes::default()
        };
        let made = volume.create_striped(caller, (directory, name), &attributes, stripes);
        self.done(made.await)
    }

    /// What a person is told: which server has failed with what, where a status alone does not help.
    fn error(&self, status: Status) -> Error {
        match self.volume.cause(status) {
            Some(trouble) => Error::Local(io::Error::other(trouble)),
            None => Error::Status(status),
        }
    }

    fn done<T>(&self, result: Result<T, Status>) -> Result<T, Error> {
        result.map_err(|status| self.error(status))
    }

    fn made(&self, made: Changed<Created>) -> Result<Found, Error> {
        let Created { handle, attributes } = self.done(made.result)?;
        Ok(Found { handle, attributes })
    }
}

/// Keeps what a directory lists.
#[derive(Default)]
struct Listing {
    items: Vec<Item>,
    last: u64,
    room: usize,
    wants_objects: bool,
}

impl Entries for Listing {
    fn wants_objects(&self) -> bool {
        self.wants_objects
    }

    fn push(&mut self, entry: &DirectoryEntry<'_>) -> bool {
        if self.room == 0 {
            return false;
        }
        if matches!(entry.name, b"." | b"..") {
            return true;
        }
        self.room -= 1;
        self.last = entry.cookie;
        let object = entry.object.as_ref();
        self.items.push(Item {
            name: entry.name.to_vec(),
            fileid: entry.fileid,
            handle: object.map(|(handle, _)| *handle),
            attributes: object.map(|(_, attributes)| *attributes),
        });
        true
    }
}

impl Direct for Native {
    fn null(&self) -> DirectAnswer<'_, ()> {
        Box::pin(async {
            let asked = self.volume.volume().await;
            asked
                .map(|_| ())
                .map_err(|error| Error::Local(io::Error::other(error)))
        })
    }

    fn getattr<'a>(&'a self, object: &'a FileHandle) -> DirectAnswer<'a, Attributes> {
        self.timed(async { self.done(self.volume.attributes(object).await) })
    }

    fn setattr<'a>(
        &'a self,
        object: &'a FileHandle,
        change: &'a SetAttributes,
        guard: Option<Time>,
    ) -> DirectAnswer<'a, Option<Attributes>> {
        self.timed(async move {
            let (volume, caller) = (&self.volume, &self.caller);
            let changed = volume.set_attributes(caller, object, change, guard).await;
            self.done(changed.result)?;
            Ok(changed.wcc.after)
        })
    }

    fn lookup<'a>(&'a self, directory: &'a FileHandle, name: &'a [u8]) -> DirectAnswer<'a, Found> {
        self.timed(async {
            let (found, _) = self.volume.lookup(&self.caller, directory, name).await;
            let (handle, attributes) = self.done(found)?;
            Ok(Found {
                handle,
                attributes: Some(attributes),
            })
        })
    }

    fn access<'a>(
        &'a self,
        object: &'a FileHandle,
        wanted: AccessMask,
    ) -> DirectAnswer<'a, AccessMask> {
        self.timed(async move {
            let granted = self.volume.access(&self.caller, object, wanted).await;
            Ok(self.done(granted)?.0)
        })
    }

    fn readlink<'a>(&'a self, link: &'a FileHandle) -> DirectAnswer<'a, Vec<u8>> {
        self.timed(async {
            let read = self.volume.read_link(&self.caller, link).await;
            Ok(self.done(read)?.0)
        })
    }

    fn read<'a>(
        &'a self,
        file: &'a FileHandle,
        offset: u64,
        count: u32,
        mut buffer: Buffer,
    ) -> DirectAnswer<'a, ReadDone> {
        self.timed(async move {
            let count = count.min(u32::try_from(buffer.len()).unwrap_or(u32::MAX));
            let (volume, range) = (&self.volume, (offset, count));
            let read = volume.read_at(&self.caller, file, range, &mut buffer).await;
            let done = self.done(read)?;
            Ok(ReadDone {
                buffer,
                count: done.count,
                eof: done.eof,
                attributes: None,
            })
        })
    }

    fn write<'a>(
        &'a self,
        file: &'a FileHandle,
        offset: u64,
        (mut buffer, len): (Buffer, u32),
        stability: Stability,
    ) -> DirectAnswer<'a, WriteOutcome> {
        self.timed(async move {
            let len = len.min(u32::try_from(buffer.len()).unwrap_or(u32::MAX));
            let (volume, part) = (&self.volume, (&mut buffer, len));
            let written = volume.write_from(&self.caller, file, offset, part, stability);
            let done = self.done(written.await)?;
            Ok(WriteOutcome {
                buffer,
                count: done.count,
                committed: done.committed,
                verifier: done.verifier,
                attributes: None,
            })
        })
    }

    fn create<'a>(
        &'a self,
        directory: &'a FileHandle,
        name: &'a [u8],
        mode: &'a CreateMode,
    ) -> DirectAnswer<'a, Found> {
        self.timed(async move {
            let (volume, caller) = (&self.volume, &self.caller);
            self.made(volume.create(caller, directory, name, mode).await)
        })
    }

    fn mkdir<'a>(
        &'a self,
        directory: &'a FileHandle,
        name: &'a [u8],
        attributes: &'a SetAttributes,
    ) -> DirectAnswer<'a, Found> {
        self.timed(async move {
            let (volume, caller) = (&self.volume, &self.caller);
            let made = volume.make_directory(caller, directory, name, attributes);
            self.made(made.await)
        })
    }

    fn symlink<'a>(
        &'a self,
        directory: &'a FileHandle,
        name: &'a [u8],
        target: &'a [u8],
        attributes: &'a SetAttributes,
    ) -> DirectAnswer<'a, Found> {
        self.timed(async move {
            let (volume, caller) = (&self.volume, &self.caller);
            let made = volume.make_symlink(caller, directory, name, target, attributes);
            self.made(made.await)
        })
    }

    fn mknod<'a>(
        &'a self,
        directory: &'a FileHandle,
        name: &'a [u8],
        kind: NodeKind,
        attributes: &'a SetAttributes,
    ) -> DirectAnswer<'a, Found> {
        self.timed(async move {
            let (volume, caller) = (&self.volume, &self.caller);
            let made = volume.make_node(caller, directory, name, kind, attributes);
            self.made(made.await)
        })
    }

    fn remove<'a>(&'a self, directory: &'a FileHandle, name: &'a [u8]) -> DirectAnswer<'a, ()> {
        self.timed(async {
            let removed = self.volume.remove(&self.caller, directory, name).await;
            self.done(removed.result)
        })
    }

    fn rmdir<'a>(&'a self, directory: &'a FileHandle, name: &'a [u8]) -> DirectAnswer<'a, ()> {
        self.timed(async {
            let volume = &self.volume;
            let removed = volume.remove_directory(&self.caller, directory, name).await;
            self.done(removed.result)
        })
    }

    fn rename<'a>(
        &'a self,
        from: (&'a FileHandle, &'a [u8]),
        to: (&'a FileHandle, &'a [u8]),
    ) -> DirectAnswer<'a, ()> {
        self.timed(async move { self.done(self.volume.rename(&self.caller, from, to).await.0) })
    }

    fn link<'a>(
        &'a self,
        file: &'a FileHandle,
        directory: &'a FileHandle,
        name: &'a [u8],
    ) -> DirectAnswer<'a, ()> {
        self.timed(async move {
            let linked = self.volume.link(&self.caller, file, directory, name).await;
            self.done(linked.0.result)
        })
    }

    fn fsstat<'a>(&'a self, object: &'a FileHandle) -> DirectAnswer<'a, FileSystemUsage> {
        self.timed(async { self.done(self.volume.usage(object).await) })
    }

    fn commit<'a>(&'a self, file: &'a FileHandle) -> DirectAnswer<'a, Committed> {
        self.timed(async {
            let committed = self.volume.commit(&self.caller, file, 0, 0).await;
            Ok(Committed {
                verifier: self.done(committed.result)?.verifier,
                attributes: committed.wcc.after,
            })
        })
    }

    fn list<'a>(&'a self, directory: &'a FileHandle) -> DirectAnswer<'a, Vec<Item>> {
        self.timed(self.list_by(directory, true))
    }

    fn names<'a>(&'a self, directory: &'a FileHandle) -> DirectAnswer<'a, Vec<Item>> {
        self.timed(self.list_by(directory, false))
    }
}
