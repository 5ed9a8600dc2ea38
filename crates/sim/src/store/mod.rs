//! A simulated store: the [`Vfs`] seam over a disk in memory that is slow, fails, and loses unsynced data in a crash.
//!
//! A [`Disk`] lasts over the incarnations of its servers; each opens it with [`SimStore::open`], under a new write
//! verifier. It checks no permissions, which belong to the local store.
//!
//! A store that is [`SimStore::charged_to`] a machine takes the time of that machine's file system, behind a page cache
//! of its size. A page outside the cache costs time alone: its bytes are in memory all the same.

mod cache;
mod disk;
mod file;

use crate::nic::{Activity, Constant, Host};
use crate::random::Random;
use crate::world::World;
use cache::PageCache;
use disk::{Content, FileSystem, Make, ROOT, handle_of};
use gannet_runtime::{Buffer, Handle, Instant};
use gannet_vfs::{
    AccessMask, Attributes, BytesRead, Changed, Commit, CreateMode, Created, Credentials,
    DirectoryEntry, DirectoryPage, Entries, EntryName, FileHandle, FileKind, FileSystemLimits,
    FileSystemUsage, NodeKind, ReadReply, SetAttributes, Stability, Status, Time, Verifier, Vfs,
    Wcc, WriteDone,
};
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};

/// How a simulated disk behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DiskProfile {
    /// The number of operations, of a thousand, that wait for the disk; the others have a reply at once.
    pub slow_per_mille: u64,
    /// Longest wait, in nanoseconds.
    pub delay_max_ns: u64,
    /// The number of operations, of a thousand, that fail with EIO and do nothing.
    pub io_errors_per_mille: u64,
    /// The number of operations, of a thousand that need space, that fail with ENOSPC and do nothing.
    pub no_space_per_mille: u64,
    /// The number of writes, of a thousand, that take only a part.
    pub short_writes_per_mille: u64,
    /// The number of files, of a thousand, that leave the page cache at every operation.
    pub evictions_per_mille: u64,
}

/// A disk of a world.
pub struct Disk {
    system: RefCell<FileSystem>,
    random: Random,
    profile: Cell<DiskProfile>,
    replaced: Cell<u64>,
}

impl Disk {
    /// An empty disk.
    pub fn new(world: &World) -> Rc<Disk> {
        Rc::new(Disk {
            system: RefCell::new(FileSystem::new()),
            random: world.random("disk"),
            profile: Cell::default(),
            replaced: Cell::default(),
        })
    }

    /// Sets the delays and failures of its later operations.
    pub fn set_profile(&self, profile: DiskProfile) {
        self.profile.set(profile);
    }

    /// How many regular files it holds that are not in its root directory.
    pub fn files_in_folders(&self) -> usize {
        self.system.borrow().files_in_folders()
    }

    /// Whether its root directory has this name.
    pub fn has_in_root(&self, name: &[u8]) -> bool {
        self.system.borrow().has_in_root(name)
    }

    /// Evicts `per_mille` of a thousand pages from the page cache, as a machine that needs memory does.
    pub fn page_out(&self, per_mille: u64) {
        let system = self.system.borrow();
        system.evict_pages(&self.random, per_mille);
    }

    /// Replaces it by an empty disk.
    pub fn replace(&self) {
        self.system.replace(FileSystem::new());
        self.replaced.set(self.replaced.get() + 1);
    }

    /// How often it was replaced; a server compares it to find another disk in its place.
    pub fn times_replaced(&self) -> u64 {
        self.replaced.get()
    }

    /// Loses or keeps each unsynced write, as the seed says, as a power failure does.
    pub fn crash(&self) {
        self.system.borrow().crash(&self.random);
    }
}

/// A disk opened by one incarnation of a server.
pub struct SimStore {
    disk: Rc<Disk>,
    runtime: Handle,
    verifier: Verifier,
    costs: Option<Costs>,
}

/// The processor time of an operation differs from its constant by up to one part in this many.
const WORK_SPREAD: u64 = 5;

/// The machine that a store's work is charged to.
struct Costs {
    host: Rc<Host>,
    /// `None` when all files fit into memory.
    cache: Option<PageCache>,
    /// Threads of the server that are free to enter the file system, if they are counted.
    threads: Option<Semaphore>,
    /// Randomness for operation times: equal times would make calls run in step.
    random: Random,
}

impl Costs {
    /// Takes a thread of the server until the permit is dropped, since a thread waits for the disk as well.
    async fn thread(&self) -> Option<SemaphorePermit<'_>> {
        match &self.threads {
            Some(threads) => threads.acquire().await.ok(),
            None => None,
        }
    }

    /// Pays for one operation by a thread of its own: its work, and the copy of `len` bytes at `rate`.
    async fn pay(&self, len: u64, rate: Constant) {
        let profile = self.host.profile();
        let working = profile.file_system.operation_ns.value;
        let spread = working / WORK_SPREAD;
        let working = self.random.between(working - spread, working + spread);
        let copying = rate.time_for(len);
        self.host.work(Activity::FileSystem, working, copying).await;
    }
}

impl SimStore {
    /// Opens `disk` under a new write verifier.
    pub fn open(disk: &Rc<Disk>, runtime: Handle) -> SimStore {
        SimStore {
            verifier: runtime.random().to_be_bytes(),
            disk: Rc::clone(disk),
            runtime,
            costs: None,
        }
    }

    /// Charges its work to `host`, at the costs of that testbed's file system.
    pub fn charged_to(mut self, host: &Rc<Host>) -> SimStore {
        self.costs = Some(Costs {
            host: Rc::clone(host),
            cache: PageCache::new(host),
            threads: match host.profile().file_system.threads.as_usize() {
                0 => None,
                count => Some(Semaphore::new(count)),
            },
            random: self.disk.random.fork("work"),
        });
        self
    }

    /// The numbers of reads with all bytes in the page cache, and of the others.
    pub fn cache_hits_and_misses(&self) -> (u64, u64) {
        let cache = self.costs.as_ref().and_then(|costs| costs.cache.as_ref());
        cache.map_or((0, 0), PageCache::hits_and_misses)
    }

    /// Pays for an operation that moves no data.
    async fn pay_operation(&self) {
        if let Some(costs) = &self.costs {
            let _thread = costs.thread().await;
            costs.pay(0, Constant::FREE).await;
        }
    }

    /// Pays for a read: the disk's time, then the operation with its copy.
    async fn pay_read(&self, inode: u64, range: Range<u64>, file_len: u64) {
        let Some(costs) = &self.costs else {
            return;
        };
        let _thread = costs.thread().await;
        let len = range.end - range.start;
        if let Some(cache) = &costs.cache {
            let ready_at = cache.read(inode, range, file_len);
            self.runtime
                .sleep_until(Instant::from_nanos(ready_at))
                .await;
        }
        let rate = costs.host.profile().file_system.read_bytes_per_s;
        costs.pay(len, rate).await;
    }

    /// Pays for a write: the operation with its copy, and the pages that the cache must write back to make room.
    async fn pay_write(&self, inode: Result<u64, Status>, range: Range<u64>) {
        let Some(costs) = &self.costs else {
            return;
        };
        let _thread = costs.thread().await;
        let rate = costs.host.profile().file_system.write_bytes_per_s;
        costs.pay(range.end - range.start, rate).await;
        if let (Some(cache), Ok(inode)) = (&costs.cache, inode) {
            let ready_at = cache.write(inode, range);
            self.runtime
                .sleep_until(Instant::from_nanos(ready_at))
                .await;
        }
    }

    /// Pays for a sync of all of a file to the disk.
    async fn pay_sync(&self, inode: Result<u64, Status>) {
        let Some(costs) = &self.costs else {
            return;
        };
        let _thread = costs.thread().await;
        if let (Some(cache), Ok(inode)) = (&costs.cache, inode) {
            let ready_at = cache.sync(inode);
            self.runtime
                .sleep_until(Instant::from_nanos(ready_at))
                .await;
        }
    }

    /// Waits for the disk, now and then.
    async fn wait(&self) {
        let profile = self.disk.profile.get();
        if self.disk.random.chance(profile.slow_per_mille) {
            let delay = self.disk.random.between(1, profile.delay_max_ns);
            gannet_runtime::sleep(&self.runtime, Duration::from_nanos(delay)).await;
        }
    }

    /// Pays for an operation and does it.
    async fn step<T>(&self, operation: impl FnOnce(&mut FileSystem) -> T) -> T {
        self.pay_operation().await;
        self.act(operation).await
    }

    /// Does an operation in one step between two waits, so that it comes early or late in the time that its caller
    /// sees.
    async fn act<T>(&self, operation: impl FnOnce(&mut FileSystem) -> T) -> T {
        self.wait().await;
        let done = {
            let mut system = self.disk.system.borrow_mut();
            system.now = Time::since_epoch(self.runtime.wall_clock());
            system.evict(
                &self.disk.random,
                self.disk.profile.get().evictions_per_mille,
            );
            operation(&mut system)
        };
        self.wait().await;
        done
    }

    /// Fails with an error of the disk, at the rates of its profile.
    fn fault(&self, needs: Needs) -> Result<(), Status> {
        let profile = self.disk.profile.get();
        if self.disk.random.chance(profile.io_errors_per_mille) {
            return Err(Status::Io);
        }
        if needs == Needs::Space && self.disk.random.chance(profile.no_space_per_mille) {
            return Err(Status::Nospc);
        }
        Ok(())
    }

    /// Pays for a change of one object and makes it.
    async fn change<T>(
        &self,
        file: &FileHandle,
        needs: Needs,
        change: impl FnOnce(&mut FileSystem, u64) -> Result<T, Status>,
    ) -> Changed<T> {
        self.pay_operation().await;
        self.apply(file, needs, change).await
    }

    /// A change of one object, with its consistency data.
    async fn apply<T>(
        &self,
        file: &FileHandle,
        needs: Needs,
        change: impl FnOnce(&mut FileSystem, u64) -> Result<T, Status>,
    ) -> Changed<T> {
        let fault = self.fault(needs);
        let (result, wcc) = self
            .act(|system| {
                let inode = system.find(file);
                system.around(inode, |system, inode| {
                    fault.and_then(|()| change(system, inode))
                })
            })
            .await;
        Changed { result, wcc }
    }

    /// As [`SimStore::change`], of a directory in which something is made.
    async fn make(
        &self,
        directory: &FileHandle,
        make: impl FnOnce(&mut FileSystem, u64) -> Result<u64, Status>,
    ) -> Changed<Created> {
        let made = |system: &mut FileSystem, directory| {
            let inode = make(system, directory)?;
            Ok(Created {
                handle: handle_of(inode),
                attributes: Some(system.attributes(inode)?),
            })
        };
        self.change(directory, Needs::Space, made).await
    }
}

/// The disk time of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Needs {
    Nothing,
    Space,
}

impl Vfs for SimStore {
    fn root(&self) -> FileHandle {
        handle_of(ROOT)
    }

    async fn resolve(&self, _cred: &Credentials, path: &[&[u8]]) -> Result<FileHandle, Status> {
        self.step(|system| {
            let found = path
                .iter()
                .try_fold(ROOT, |at, name| system.lookup(at, name));
            let found = found?;
            match system.attributes(found)?.kind {
                FileKind::Directory => Ok(handle_of(found)),
                _ => Err(Status::Notdir),
            }
        })
        .await
    }

    async fn attributes(&self, file: &FileHandle) -> Result<Attributes, Status> {
        self.step(|system| system.attributes(system.find(file)?))
            .await
    }

    async fn set_attributes(
        &self,
        _cred: &Credentials,
        file: &FileHandle,
        change: &SetAttributes,
        guard: Option<Time>,
    ) -> Changed<()> {
        self.change(file, Needs::Nothing, |system, inode| {
            system.set_attributes(inode, change, guard)
        })
        .await
    }

    async fn lookup(
        &self,
        _cred: &Credentials,
        directory: &FileHandle,
        name: &[u8],
    ) -> (Result<(FileHandle, Attributes), Status>, Option<Attributes>) {
        self.step(|system| {
            let at = system.find(directory);
            let found = at.and_then(|at| {
                let found = system.lookup(at, name)?;
                Ok((handle_of(found), system.attributes(found)?))
            });
            (found, at.and_then(|at| system.attributes(at)).ok())
        })
        .await
    }

    async fn access(
        &self,
        _cred: &Credentials,
        file: &FileHandle,
        wanted: AccessMask,
    ) -> Result<(AccessMask, Attributes), Status> {
        let attributes = self.attributes(file).await?;
        Ok((wanted, attributes))
    }

    async fn read_link(
        &self,
        _cred: &Credentials,
        file: &FileHandle,
    ) -> Result<(Vec<u8>, Attributes), Status> {
        self.step(|system| {
            let inode = system.find(file)?;
            match system.content(inode)? {
                Content::Symlink(target) => Ok((target.clone(), system.attributes(inode)?)),
                _ => Err(Status::Inval),
            }
        })
        .await
    }

    async fn read(
        &self,
        _cred: &Credentials,
        file: &FileHandle,
        offset: u64,
        count: u32,
    ) -> Result<ReadReply, Status> {
        self.fault(Needs::Nothing)?;
        let read = self.act(|system| {
            let inode = system.find(file)?;
            let file = system.regular(inode)?;
            let attributes = system.attributes(inode)?;
            let left = attributes.size.saturating_sub(offset);
            let taken = u32::try_from(left).unwrap_or(u32::MAX).min(count);
            let reply = ReadReply {
                file,
                count: taken,
                eof: u64::from(taken) == left,
                attributes,
            };
            Ok((inode, reply))
        });
        let (inode, reply) = read.await?;
        let end = offset.saturating_add(u64::from(reply.count));
        let range = offset.min(end)..end;
        self.pay_read(inode, range, reply.attributes.size).await;
        Ok(reply)
    }

    async fn read_into(
        &self,
        cred: &Credentials,
        file: &FileHandle,
        offset: u64,
        count: u32,
        mut buffer: Buffer,
    ) -> (Result<BytesRead, Status>, Option<Buffer>) {
        let count = count.min(u32::try_from(buffer.len()).unwrap_or(u32::MAX));
        let reply = match self.read(cred, file, offset, count).await {
            Ok(reply) => reply,
            Err(reason) => return (Err(reason), Some(buffer)),
        };
        let room = buffer.get_mut(..reply.count as usize).unwrap_or_default();
        // The disk's time has been paid: nothing waits here.
        let read = match reply.file.read_at(offset, room) {
            Ok(copied) => Ok(BytesRead {
                count: u32::try_from(copied).unwrap_or(count),
                eof: reply.eof || copied < room.len(),
                attributes: Some(reply.attributes),
            }),
            Err(_) => Err(Status::Io),
        };
        (read, Some(buffer))
    }

    async fn write_and_return(
        &self,
        _cred: &Credentials,
        file: &FileHandle,
        offset: u64,
        data: Buffer,
        range: Range<usize>,
        stability: Stability,
    ) -> (Changed<WriteDone>, Option<Buffer>) {
        let mut bytes = data.get(range).unwrap_or_default();
        let short = self.disk.profile.get().short_writes_per_mille;
        if bytes.len() > 1 && self.disk.random.chance(short) {
            bytes = &bytes[..bytes.len() / 2];
        }
        let verifier = self.verifier;
        let inode = self.disk.system.borrow().find(file);
        let end = offset.saturating_add(bytes.len() as u64);
        self.pay_write(inode, offset..end).await;
        if stability != Stability::Unstable {
            self.pay_sync(inode).await;
        }
        let written = self.apply(file, Needs::Space, |system, inode| {
            system.write(inode, offset, bytes)?;
            if stability != Stability::Unstable {
                system.regular(inode)?.sync();
            }
            Ok(WriteDone {
                count: u32::try_from(bytes.len()).unwrap_or(u32::MAX),
                committed: stability,
                verifier,
            })
        });
        (written.await, Some(data))
    }

    async fn commit(
        &self,
        _cred: &Credentials,
        file: &FileHandle,
        _offset: u64,
        _count: u32,
    ) -> Changed<Commit> {
        let verifier = self.verifier;
        let inode = self.disk.system.borrow().find(file);
        self.pay_sync(inode).await;
        self.change(file, Needs::Nothing, |system, inode| {
            system.regular(inode)?.sync();
            Ok(Commit { verifier })
        })
        .await
    }

    async fn create(
        &self,
        cred: &Credentials,
        directory: &FileHandle,
        name: &[u8],
        mode: &CreateMode,
    ) -> Changed<Created> {
        self.make(directory, |system, at| system.create(cred, at, name, mode))
            .await
    }

    async fn make_directory(
        &self,
        cred: &Credentials,
        directory: &FileHandle,
        name: &[u8],
        attributes: &SetAttributes,
    ) -> Changed<Created> {
        self.make(directory, |system, at| {
            system.make(cred, at, name, Make::Directory, attributes)
        })
        .await
    }

    async fn make_symlink(
        &self,
        cred: &Credentials,
        directory: &FileHandle,
        name: &[u8],
        target: &[u8],
        attributes: &SetAttributes,
    ) -> Changed<Created> {
        self.make(directory, |system, at| {
            system.make(cred, at, name, Make::Symlink(target), attributes)
        })
        .await
    }

    async fn make_node(
        &self,
        cred: &Credentials,
        directory: &FileHandle,
        name: &[u8],
        kind: NodeKind,
        attributes: &SetAttributes,
    ) -> Changed<Created> {
        self.make(directory, |system, at| {
            system.make(cred, at, name, Make::Node(kind), attributes)
        })
        .await
    }

    async fn remove(
        &self,
        _cred: &Credentials,
        directory: &FileHandle,
        name: &[u8],
    ) -> Changed<()> {
        self.change(directory, Needs::Nothing, |system, at| {
            system.remove(at, name)
        })
        .await
    }

    async fn remove_directory(
        &self,
        _cred: &Credentials,
        directory: &FileHandle,
        name: &[u8],
    ) -> Changed<()> {
        self.change(directory, Needs::Nothing, |system, at| {
            system.remove_directory(at, name)
        })
        .await
    }

    async fn rename(
        &self,
        _cred: &Credentials,
        from: EntryName<'_>,
        to: EntryName<'_>,
    ) -> (Result<(), Status>, Wcc, Wcc) {
        let fault = self.fault(Needs::Nothing);
        self.step(|system| {
            let (source, target) = (system.find(from.directory), system.find(to.directory));
            let ((result, inner), outer) = {
                let (result, outer) = system.around(source, |system, source| {
                    Ok(system.around(target, |system, target| {
                        fault?;
                        system.rename(source, from.name, target, to.name)
                    }))
                });
                (
                    result.unwrap_or_else(|error| (Err(error), Wcc::default())),
                    outer,
                )
            };
            (result, outer, inner)
        })
        .await
    }

    async fn link(
        &self,
        _cred: &Credentials,
        file: &FileHandle,
        directory: &FileHandle,
        name: &[u8],
    ) -> (Changed<()>, Option<Attributes>) {
        let fault = self.fault(Needs::Space);
        self.step(|system| {
            let (target, at) = (system.find(file), system.find(directory));
            let (result, wcc) = system.around(at, |system, at| {
                fault?;
                system.link(target?, at, name)
            });
            let attributes = target.and_then(|target| system.attributes(target)).ok();
            (Changed { result, wcc }, attributes)
        })
        .await
    }

    async fn read_directory(
        &self,
        _cred: &Credentials,
        directory: &FileHandle,
        cookie: u64,
        _verifier: Verifier,
        entries: &mut dyn Entries,
    ) -> Result<DirectoryPage, Status> {
        self.step(|system| {
            let inode = system.find(directory)?;
            let mut eof = true;
            for listed in system.list(inode, cookie)? {
                let object = entries
                    .wants_objects()
                    .then(|| system.attributes(listed.inode).ok())
                    .flatten()
                    .map(|attributes| (handle_of(listed.inode), attributes));
                let entry = DirectoryEntry {
                    fileid: listed.inode,
                    name: &listed.name,
                    cookie: listed.cookie,
                    object,
                };
                if !entries.push(&entry) {
                    eof = false;
                    break;
                }
            }
            Ok(DirectoryPage {
                attributes: system.attributes(inode)?,
                eof,
                verifier: Verifier::default(),
            })
        })
        .await
    }

    async fn usage(&self, file: &FileHandle) -> Result<FileSystemUsage, Status> {
        self.step(|system| system.find(file).map(|_| system.usage()))
            .await
    }

    fn limits(&self) -> FileSystemLimits {
        FileSystemLimits {
            file_size_max: crate::limits::FILE_MAX,
            link_max: crate::limits::LINK_MAX,
            name_max: u32::try_from(gannet_vfs::limits::NAME_MAX).unwrap_or(u32::MAX),
            time_delta: Time {
                seconds: 0,
                nanoseconds: 1,
            },
        }
    }

    fn write_verifier(&self) -> Verifier {
        self.verifier
    }
}
